"""What an endpoint's address says: its origin, its host, or why it is no endpoint.

Narrower than what a URL may be: what two readers could read in two ways, a person and a program or
two programs, is no endpoint. So what a question of trust shows is what is then talked to.
"""

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final

from bantam.core.text import Profile, sanitized

_STANDARD_PORTS: Final = {"http": 80, "https": 443}
_NETLOC: Final = re.compile(
    r"(?:([a-z0-9._-]+)|\[([0-9a-f:.]+)\])(?::([0-9]{0,5}))?", re.IGNORECASE | re.ASCII
)


def origin(endpoint: str) -> str:
    """Return the part of an endpoint that trust is given to: scheme, host and port; or the whole.

    Raises ValueError, which says why it is no endpoint and quotes nothing of it.

    >>> origin("https://API.OpenAI.com:443/v1"), origin("run://./model.sh -v")
    ('https://api.openai.com', 'run://./model.sh -v')
    """
    if hidden := hidden_in(endpoint):
        raise ValueError("it holds " + ", ".join(f"U+{ord(char):04X}" for char in hidden))
    scheme, _, rest = endpoint.partition("://")
    scheme = scheme.lower()
    if scheme in ("run", "replay") and rest:
        return endpoint
    if scheme not in _STANDARD_PORTS:
        raise ValueError
    if " " in endpoint:
        raise ValueError("it holds a blank")
    host, port = _host_and_port(rest)
    name = f"[{host}]" if ":" in host else host
    return f"{scheme}://{name}" + ("" if port in (None, _STANDARD_PORTS[scheme]) else f":{port}")


def _host_and_port(rest: str) -> tuple[str, int | None]:
    """Return what stands behind `https://`; an IPv6 address in its shortest form."""
    netloc = re.split(r"[/?#]", rest, maxsplit=1)[0]
    if "@" in netloc:
        # Made to be misread as the host.
        raise ValueError("it holds a name before its host; a key belongs into api_key")
    if not netloc:
        raise ValueError("it names no host")
    parts = _NETLOC.fullmatch(netloc)
    if parts is None:
        raise ValueError(
            "its host and port are not of letters from a to z, digits, '.', '-' and '_' "
            "(other letters in their xn-- form)"
        )
    name, address, digits = parts.groups()
    port = int(digits) if digits else None
    if port is not None and port > 65535:
        raise ValueError("its port is above 65535")
    try:
        return name.lower() if name else str(IPv6Address(address)), port
    except AddressValueError:
        raise ValueError("its IPv6 address is none") from None


def hidden_in(text: str) -> list[str]:
    """Return what a screen does not show of `text`: a line of it would name something else."""
    _, hidden = sanitized(text, Profile.STRICT)
    return sorted({*hidden, *re.findall(r"[\t\n]", text)})


def host_of(endpoint: str) -> str:
    """Return the host of an http(s) endpoint, `""` for the other schemes. Raises as `origin`."""
    scheme, _, rest = endpoint.partition("://")
    return _host_and_port(rest)[0] if scheme.lower() in _STANDARD_PORTS else ""


def is_loopback(host: str) -> bool:
    """Whether `host` can only be this machine: localhost, 127.0.0.0/8 or ::1, literally.

    >>> is_loopback("127.0.0.1"), is_loopback("127.0.0.1.example.com"), is_loopback("::1")
    (True, False, True)
    """
    try:
        address = IPv6Address(host) if ":" in host else IPv4Address(host)
    except AddressValueError:  # 127.1, 0x7f000001 and 2130706433 too: a resolver's matter
        return host == "localhost"
    return address.is_loopback
