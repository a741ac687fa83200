"""A TCP server on the loopback that ends at once: one thread a connection, none left behind.

Not socketserver: its shutdown polls, it forgets its daemon threads, and it sends a FIN before a
socket is closed, which spoils an RST.
"""

import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Final, Self

_JOIN_S: Final = 10

Serve = Callable[[socket.socket, int], None]


class Listener:
    """Calls `serve(connection, ordinal)` for each connection, ordinals from 1; a context manager.

    An OSError that `serve` raises ends its connection and nothing else. `tls`: the handshake is
    done in the connection's thread.
    """

    def __init__(self, serve: Serve, port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self._serve = serve
        self._tls = tls
        self._socket = socket.create_server(("127.0.0.1", port))
        self.port: int = self._socket.getsockname()[1]
        self.closing = False
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        # By thread, not by socket: a closed socket's number may be another's by now.
        self._open: dict[threading.Thread, socket.socket] = {}

    def __enter__(self) -> Self:
        self._acceptor.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End every connection and thread. May be called again."""
        if self.closing:
            return
        self.closing = True
        if self._acceptor.ident is not None:
            # Closing a socket does not wake its accept(); a connection does.
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port)).close()
            self._acceptor.join(_JOIN_S)
        self._socket.close()
        for thread, connection in self._open.items():
            cut(connection)
            thread.join(_JOIN_S)

    def _accept(self) -> None:
        for ordinal in count(1):
            connection, _ = self._socket.accept()
            if self.closing:
                connection.close()
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                connection = self._tls.wrap_socket(
                    connection, server_side=True, do_handshake_on_connect=False
                )
            thread = threading.Thread(target=self._run, args=(connection, ordinal), daemon=True)
            self._open[thread] = connection
            thread.start()

    def _run(self, connection: socket.socket, ordinal: int) -> None:
        with connection, suppress(OSError):
            if isinstance(connection, ssl.SSLSocket):
                connection.do_handshake()
            self._serve(connection, ordinal)


def cut(connection: socket.socket) -> None:
    """Wake whoever reads or writes `connection`, here and at its other end."""
    with suppress(OSError):
        # Not SSLSocket's: that one takes the TLS state away from the thread that uses it.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
