"""A private certificate authority and a server certificate for the loopback, made by openssl."""

import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# Our own: the system's openssl.cnf may hold anything. Python 3.13 checks what RFC 5280 wants.
_CONFIG: Final = """\
[req]
distinguished_name = name
prompt = no
[name]
CN = Bantam tests
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectAltName = DNS:localhost, DNS:model.test, IP:127.0.0.1
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
"""
# The curve that every TLS library takes.
_NEW: Final = "-config openssl.cnf -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
_AUTHORITY: Final = f"req -x509 -extensions authority {_NEW} -keyout ca.key -out ca.pem -days 2"
_REQUEST: Final = f"req -new {_NEW} -keyout server.key -out server.csr"
_SIGNATURE: Final = (
    "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -set_serial 2 -days 2 "
    "-extfile openssl.cnf -extensions server -out server.pem"
)


@dataclass(frozen=True, slots=True)
class Certificates:
    """PEM files: what a client must trust, and what the server shows."""

    authority: Path
    certificate: Path
    key: Path

    def server_context(self) -> ssl.SSLContext:
        """Return the context for `LLMServer(tls=...)`."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        return context


def make_certificates(folder: Path) -> Certificates:
    """Write an authority, and a certificate for the loopback and `proxies.NAME`, to `folder`."""
    (folder / "openssl.cnf").write_text(_CONFIG)
    for command in (_AUTHORITY, _REQUEST, _SIGNATURE):
        subprocess.run(["openssl", *command.split()], cwd=folder, check=True, capture_output=True)
    return Certificates(folder / "ca.pem", folder / "server.pem", folder / "server.key")
