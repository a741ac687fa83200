"""Which endpoint may be talked to, and with which key: a cloned folder redirects neither.

An endpoint that a file of the folder names is used without a question only where that is harmless
(the loopback, the default, a known public provider); `-o endpoint=` is the user's own word. The
key of the environment goes only where it belongs.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final
from urllib.parse import SplitResult, urlsplit, urlunsplit

from bantam.core.errors import ConfigError, UntrustedEndpoint

_COMPLETIONS: Final = "/chat/completions"
# Exact hosts, each from the provider's API reference.
KNOWN_HOSTS: Final = frozenset(
    {
        "api.kilo.ai",  # kilo.ai/docs: the default endpoint
        "api.openai.com",  # platform.openai.com/docs/api-reference
        "openrouter.ai",  # openrouter.ai/docs/api-reference
        "api.deepseek.com",  # api-docs.deepseek.com
        "api.mistral.ai",  # docs.mistral.ai/api
        "api.groq.com",  # console.groq.com/docs/openai
        "generativelanguage.googleapis.com",  # ai.google.dev/gemini-api/docs/openai
    }
)
_OPENAI: Final = "https://api.openai.com"
# Narrower than what a URL may hold: nothing here can be read in two ways.
_NETLOC: Final = re.compile(r"(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::[0-9]*)?", re.IGNORECASE)
_ABSOLUTE: Final = re.compile(r"\w+://[/~]")


@dataclass(frozen=True, slots=True)
class URLs:
    """Where the requests of an http(s) endpoint go."""

    chat: str
    models: str


def urls(endpoint: str) -> URLs:
    """Return the addresses that `endpoint` means, however it is spelled.

    >>> urls("http://127.0.0.1:8080/v1/").chat
    'http://127.0.0.1:8080/v1/chat/completions'
    >>> urls("http://127.0.0.1:8080/v1/chat/completions").models
    'http://127.0.0.1:8080/v1/models'
    """
    parts = urlsplit(endpoint)
    base = parts.path.rstrip("/").removesuffix(_COMPLETIONS).rstrip("/")
    chat = parts._replace(path=base + _COMPLETIONS, fragment="")
    return URLs(urlunsplit(chat), urlunsplit(chat._replace(path=base + "/models")))


def origin(endpoint: str) -> str:
    """Return the part of an endpoint that trust is given to: scheme, host and port; or the whole.

    Raises ConfigError if it is no endpoint.

    >>> origin("https://API.OpenAI.com:443/v1"), origin("run://./model.sh -v")
    ('https://api.openai.com', 'run://./model.sh -v')
    """
    scheme = endpoint.partition("://")[0].lower()
    if scheme in ("run", "replay"):
        return endpoint
    if scheme not in ("http", "https"):
        what = "a URL with http://, https://, run:// or replay://"
        raise ConfigError(f"endpoint={endpoint!r} is not {what}; write endpoint=https://host/v1")
    netloc = re.split(r"[/?#]", endpoint.partition("://")[2], maxsplit=1)[0]
    if "@" in netloc:
        # A name before an @ is made to be misread as the host. It may be a key, so no quote here.
        raise ConfigError("endpoint holds a name before its host; a key belongs into api_key")
    # urlsplit drops tabs and line ends without a word; other clients read a backslash as a slash.
    if not _NETLOC.fullmatch(netloc) or not endpoint.isprintable() or " " in endpoint:
        raise ConfigError(
            f"endpoint={endpoint!r} is no plain URL; write endpoint=https://host/v1, "
            "a host with other letters than a to z in its xn-- form"
        )
    try:
        parts = urlsplit(endpoint)
        host, port = _host(parts), parts.port
    except ValueError as error:
        raise ConfigError(f"endpoint={endpoint!r} is no valid URL: {error}") from None
    standard = {"http": 80, "https": 443}[scheme]
    return f"{scheme}://{host}" + (f":{port}" if port not in (None, standard) else "")


def _host(parts: SplitResult) -> str:
    host = parts.hostname or ""
    return f"[{IPv6Address(host)}]" if ":" in host else host


def host_of(endpoint: str) -> str:
    """Return the host of an http(s) endpoint in lower case, `""` for the other schemes."""
    scheme = endpoint.partition("://")[0].lower()
    return (urlsplit(endpoint).hostname or "") if scheme in ("http", "https") else ""


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


def check_trust(endpoint: str, *, source: str, trust: bool, environ: Mapping[str, str]) -> None:
    """Raise UntrustedEndpoint if a file names an endpoint that nobody has accepted.

    `source`: where the value comes from, `-o` and `default` being the user's own word; `trust`:
    `--trust` was given. BANTAM_TRUST holds accepted origins, separated by commas.
    """
    name = origin(endpoint)
    host = host_of(endpoint)
    if source in ("-o", "default") or trust or is_loopback(host):
        return
    if name in {f"https://{known}" for known in KNOWN_HOSTS} or _is_accepted(name, environ):
        return
    does = "gets your prompts" if host else "plays the model"
    fix = "add --trust" + (f", or set BANTAM_TRUST={name}" if _can_be_named(name) else "")
    raise UntrustedEndpoint(
        f"{source}: endpoint={endpoint} {does}, and Bantam runs what it answers; nothing was sent. "
        f"If you want that, {fix}"
    )


def _is_accepted(name: str, environ: Mapping[str, str]) -> bool:
    """Whether BANTAM_TRUST names this origin."""
    words = environ.get("BANTAM_TRUST", "").split(",")
    return _can_be_named(name) and any(_is_origin(word.strip(), name) for word in words)


def _is_origin(word: str, name: str) -> bool:
    try:
        return origin(word) == name
    except ConfigError:
        return False  # accepts nothing


def _can_be_named(name: str) -> bool:
    """Whether `name` means the same in every folder; `run://./model.sh` is another each time."""
    return name.startswith("http") or _ABSOLUTE.match(name) is not None


@dataclass(frozen=True, slots=True)
class Key:
    """The bearer key of a run, where it comes from, and what there is to say about it."""

    value: str | None
    source: str
    notice: str | None = None


def key_for(
    endpoint: str,
    *,
    configured: str | None,
    source: str,
    trust: bool,
    environ: Mapping[str, str],
) -> Key:
    """Return the key that goes to `endpoint`: the configured one, else the environment's.

    OPENAI_API_KEY goes to api.openai.com and the loopback alone; elsewhere it is left out and
    that is said. Raises ConfigError for a key that no header can hold, and for any key that would
    go over plain http to another machine that nobody has accepted.
    """
    name = origin(endpoint)
    host = host_of(endpoint)
    value, notice = configured, None
    if value is None and (value := environ.get("OPENAI_API_KEY") or None):
        source = "OPENAI_API_KEY"
        if not (is_loopback(host) or name == _OPENAI):
            notice = f"OPENAI_API_KEY is not sent to {name}; to use a key there, set api_key"
            value = None
    if not host or value is None:
        return Key(None, "none", notice if host else None)
    if not value.isascii() or not value.isprintable():
        raise ConfigError(
            f"{source}: the key holds characters that no HTTP header can; copy it anew"
        )
    accepted = trust or is_loopback(host) or _is_accepted(name, environ)
    if name.startswith("http:") and not accepted:
        raise ConfigError(
            f"{source}: the key would go unencrypted to {name}; use https://, or add --trust, "
            f"or set BANTAM_TRUST={name}"
        )
    return Key(value, source)
