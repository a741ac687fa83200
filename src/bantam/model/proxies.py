"""Which proxy and which certificates a connection uses, read from the usual variables.

httpx would read them itself, and .netrc and more with them; here the order is SPEC section 3's,
and nothing is read but what is named.
"""

import re
import ssl
from collections.abc import Mapping, Sequence
from glob import iglob
from ipaddress import ip_address, ip_network
from typing import Final
from urllib.parse import urlsplit

from bantam.core.endpoints import is_loopback
from bantam.core.errors import ConfigError

_SCHEMES: Final = ("http", "https", "socks5", "socks5h")
_PLACE: Final = re.compile(r"([\w.-]+|\[[0-9a-f:.]+\])(:\d{1,5})?", re.ASCII | re.IGNORECASE)
_PORTS: Final = {"http": 80, "https": 443}
# Where Linux distributions and BSDs keep the system's authorities as hashed files. Pointing
# OpenSSL there costs a fraction of a millisecond; parsing a bundle costs tens.
_HASHED_FOLDERS: Final = ("/etc/ssl/certs", "/etc/pki/tls/certs", "/etc/openssl/certs")


def proxy_for(url: str, environ: Mapping[str, str]) -> str | None:
    """Return the URL of the proxy for `url`, None for a direct connection.

    SOCKS_PROXY, then the scheme's own variable, then ALL_PROXY; lower-case names win, as in curl.
    Never for the loopback: what a key may be sent to is this machine, not the proxy's. NO_PROXY
    names hosts to reach directly: names (their subdomains too), `host:port`, addresses,
    networks such as 10.0.0.0/8, or `*`. Raises ConfigError for a proxy that cannot be used.
    """
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or _PORTS.get(parts.scheme)
    _, direct = _variable(environ, "no_proxy")
    if is_loopback(host) or any(
        _covers(entry, host, port) for entry in re.split(r"[,\s]+", direct)
    ):
        return None
    for name in ("socks_proxy", f"{parts.scheme}_proxy", "all_proxy"):
        variable, proxy = _variable(environ, name)
        if proxy:
            return _proxy_url(variable, proxy, "socks5" if name == "socks_proxy" else "http")
    return None


def host_and_port(url: str) -> str:
    """Return the part of `url` that says where it leads, without a name or password.

    >>> host_and_port("socks5://me:secret@127.0.0.1:1080")
    '127.0.0.1:1080'
    """
    return urlsplit(url).netloc.rpartition("@")[2]


def _variable(environ: Mapping[str, str], name: str) -> tuple[str, str]:
    """Return the variable that is set, and its value; `""` for none."""
    values = ((written, environ.get(written, "").strip()) for written in (name, name.upper()))
    return next(((written, value) for written, value in values if value), (name, ""))


def _proxy_url(variable: str, proxy: str, usual: str) -> str:
    """Return `proxy` as httpx takes it: desktops write socks://, and a bare host:port is common."""
    scheme, found, rest = proxy.rpartition("://")
    scheme = scheme.lower() if found else usual
    scheme = "socks5" if scheme == "socks" else scheme
    # The text may hold a password: it is not shown.
    if scheme not in _SCHEMES:
        raise ConfigError(
            f"{variable}: a proxy of this kind cannot be used; write http://host:port, "
            "https://host:port, socks5://host:port or socks5h://host:port"
        )
    credentials, at, place = rest.partition("/")[0].rpartition("@")
    if not _PLACE.fullmatch(place) or not _has_port_in_range(place):
        raise ConfigError(f"{variable} holds no address of a proxy; write {scheme}://host:port")
    return f"{scheme}://{credentials}{at}{place}"


def _has_port_in_range(place: str) -> bool:
    try:
        return urlsplit(f"//{place}").port != 0
    except ValueError:
        return False


def _covers(entry: str, host: str, port: int | None) -> bool:
    """Whether one entry of NO_PROXY means this host and port."""
    name = entry.lower()
    if "]:" in name or name.count(":") == 1:  # more of them: an IPv6 address
        name, _, wanted = name.rpartition(":")
        if wanted != str(port):
            return False
    name = name.strip("[]")
    if name == "*":
        return True
    try:
        return ip_address(host) in ip_network(name, strict=False)
    except ValueError:
        pass  # one of them is a name
    name = name.removeprefix("*").removeprefix(".")
    return bool(name) and f".{host.rstrip('.')}".endswith(f".{name}")


def tls_context(
    url: str, environ: Mapping[str, str], folders: Sequence[str] = _HASHED_FOLDERS
) -> ssl.SSLContext:
    """Return the context for `url`: SSL_CERT_FILE and SSL_CERT_DIR, else the system's authorities.

    For http:// no authority is loaded: nothing is verified there, and loading costs time. Raises
    ConfigError for a file that cannot be loaded.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if urlsplit(url).scheme != "https":
        return context
    file, folder = environ.get("SSL_CERT_FILE") or None, environ.get("SSL_CERT_DIR") or None
    if file is None and folder is None:
        folder = next((f for f in folders if _has_hashes(f)), None)
    if not (file or folder):
        import certifi

        file = certifi.where()
    try:
        context.load_verify_locations(file, folder)
    except OSError as error:  # ssl.SSLError is one
        raise ConfigError(f"SSL_CERT_FILE={file} holds no certificates: {error.strerror}") from None
    return context


def _has_hashes(folder: str) -> bool:
    return any(iglob("????????.0", root_dir=folder))  # noqa: PTH207  # Path.glob raises at no access
