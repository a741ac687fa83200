"""Which proxy and which certificates a connection uses, read from the usual variables.

httpx would read them itself, and .netrc and more with them; here the order is SPEC section 3's,
and nothing is read but what is named.
"""

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

# Where Linux distributions and BSDs keep the system's authorities as hashed files. Pointing
# OpenSSL there costs a fraction of a millisecond; parsing a bundle costs tens.
_HASHED_FOLDERS: Final = ("/etc/ssl/certs", "/etc/pki/tls/certs", "/etc/openssl/certs")


def proxy_for(url: str, environ: Mapping[str, str]) -> str | None:
    """Return the URL of the proxy for `url`, None for a direct connection.

    SOCKS_PROXY, then the scheme's own variable, then ALL_PROXY; lower-case names win, as in curl.
    NO_PROXY names hosts to reach directly: exact names, `.suffix`, `host:port`, or `*`.
    """
    parts = urlsplit(url)
    if _is_exempt(parts.hostname or "", parts.port, _variable(environ, "no_proxy")):
        return None
    if socks := _variable(environ, "socks_proxy"):
        return _with_scheme(socks, "socks5")
    proxy = _variable(environ, f"{parts.scheme}_proxy") or _variable(environ, "all_proxy")
    return _with_scheme(proxy, "http") if proxy else None


def _variable(environ: Mapping[str, str], name: str) -> str:
    return (environ.get(name) or environ.get(name.upper()) or "").strip()


def _with_scheme(proxy: str, scheme: str) -> str:
    """Return `proxy` as httpx takes it: desktops write socks://, and a bare host:port is common."""
    if "://" not in proxy:
        return f"{scheme}://{proxy}"
    given, _, rest = proxy.partition("://")
    return f"socks5://{rest}" if given.lower() == "socks" else proxy


def _is_exempt(host: str, port: int | None, no_proxy: str) -> bool:
    for entry in no_proxy.replace(",", " ").split():
        name = entry.lower().strip("[]")
        if name == "*" or name in (host, f"{host}:{port}"):
            return True
        if host.endswith("." + name.lstrip("*").lstrip(".")):
            return True
    return False


def tls_context(url: str, environ: Mapping[str, str]) -> ssl.SSLContext:
    """Return the context for `url`: SSL_CERT_FILE and SSL_CERT_DIR, else the system's authorities.

    For http:// no authority is loaded: nothing is verified there, and loading costs time.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if urlsplit(url).scheme != "https":
        return context
    file, folder = environ.get("SSL_CERT_FILE") or None, environ.get("SSL_CERT_DIR") or None
    if file is None and folder is None:
        folder = next((f for f in _HASHED_FOLDERS if _has_hashes(Path(f))), None)
    if file or folder:
        context.load_verify_locations(file, folder)
    else:
        import certifi

        context.load_verify_locations(certifi.where())
    return context


def _has_hashes(folder: Path) -> bool:
    try:
        return any(folder.glob("????????.0"))
    except OSError:
        return False
