"""A SOCKS5 proxy and an HTTP proxy that record what they were asked for.

Whatever host is asked for, the connection goes to the loopback, at the port asked for: nothing
leaves the machine, and a name that only the proxy can resolve is a way to see who resolved it.
"""

import socket
import threading
from typing import Final, Self

from loopback import Listener, cut

# No resolver knows it, as RFC 2606 says: who reaches it has gone through a proxy.
NAME: Final = "model.test"
_NO_AUTHENTICATION: Final = b"\x05\x00"
_CONNECT: Final = b"\x05\x01\x00"
# Succeeded; the bound address, which no client looks at, is 0.0.0.0:0.
_GRANTED: Final = b"\x05\x00\x00\x01" + bytes(6)
_ADDRESS_KINDS: Final = {1: (socket.AF_INET, 4), 4: (socket.AF_INET6, 16)}
_NAME: Final = 3


class Proxy:
    """A context manager; `url` is how to name it, `targets` what was asked for: `host:port`."""

    scheme = ""

    def __init__(self) -> None:
        self.targets: list[str] = []
        self._listener = Listener(self._serve)
        self.url = f"{self.scheme}://127.0.0.1:{self._listener.port}"

    def __enter__(self) -> Self:
        self._listener.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def _serve(self, client: socket.socket, _: int) -> None:
        target, granted, first = self._greeting(client)
        self.targets.append(target)
        port = int(target.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as server:
            client.sendall(granted)
            server.sendall(first)
            _join(client, server)

    def _greeting(self, client: socket.socket) -> tuple[str, bytes, bytes]:
        """Return the target, the answer that grants it, and what the target must see first."""
        raise NotImplementedError


class Socks5Proxy(Proxy):
    """CONNECT without authentication (RFC 1928); names are recorded as names."""

    scheme = "socks5"

    def _greeting(self, client: socket.socket) -> tuple[str, bytes, bytes]:
        _, count = _exactly(client, 2)
        _exactly(client, count)
        client.sendall(_NO_AUTHENTICATION)
        if _exactly(client, 3) != _CONNECT:
            raise ConnectionAbortedError
        kind = _exactly(client, 1)[0]
        if kind == _NAME:
            host = _exactly(client, _exactly(client, 1)[0]).decode()
        else:
            family, length = _ADDRESS_KINDS[kind]
            host = socket.inet_ntop(family, _exactly(client, length))
        port = int.from_bytes(_exactly(client, 2), "big")
        return f"{host}:{port}", _GRANTED, b""


class HTTPProxy(Proxy):
    """CONNECT for https, absolute targets for http: the request is passed on as it is.

    RFC 9112 (3.2.2) wants every server to understand it so. `heads`: each first request of a
    connection, with its header fields.
    """

    scheme = "http"

    def __init__(self) -> None:
        super().__init__()
        self.heads: list[bytes] = []

    def _greeting(self, client: socket.socket) -> tuple[str, bytes, bytes]:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += _exactly(client, 1)  # what follows belongs to the target
        self.heads.append(head)
        method, target, _ = head.partition(b"\r\n")[0].decode().split()
        if method == "CONNECT":
            return target, b"HTTP/1.1 200 Connection established\r\n\r\n", b""
        return target.split("/")[2], b"", head


def named(url: str) -> str:
    """Return `url`, of a server on the loopback, as a proxy reaches it: the loopback needs none."""
    return url.replace("127.0.0.1", NAME)


def unused_port() -> int:
    """Return a port of the loopback that nobody listens on: a connection to it is refused."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


def _exactly(source: socket.socket, count: int) -> bytes:
    """Return `count` bytes. Raises ConnectionError if fewer come."""
    read = b""
    while len(read) < count:
        part = source.recv(count - len(read))
        if not part:
            raise ConnectionAbortedError
        read += part
    return read


def _join(client: socket.socket, server: socket.socket) -> None:
    """Pass bytes both ways until either side ends."""
    back = threading.Thread(target=_pass, args=(server, client), daemon=True)
    back.start()
    _pass(client, server)
    back.join()


def _pass(source: socket.socket, sink: socket.socket) -> None:
    try:
        while part := source.recv(1 << 16):
            sink.sendall(part)
    except OSError:
        pass  # one of them was reset: the other learns it below
    finally:
        cut(source)
        cut(sink)
