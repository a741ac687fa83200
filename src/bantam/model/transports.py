"""How one request is carried to a model and its answer back; here over http(s)://.

A transport's `send` starts the exchange and returns at once; a daemon thread reads the answer into
an `Inbox`, and the turn waits there. So a cancel is noticed at once, whatever the thread is doing:
importing httpx, resolving a name, connecting, or waiting for a byte. `Exchange.close` then wakes
the thread: closing a socket does not wake a reader, shutting it down does.
"""

import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from bantam.core.cancel import Inbox
from bantam.model.compression import inflated
from bantam.model.failures import Failure, network_failure
from bantam.model.proxies import host_and_port, proxy_for, tls_context

if TYPE_CHECKING:
    import httpx


class Head(NamedTuple):
    """The start of an answer; header names in lower case."""

    status: int
    reason: str
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class End:
    """The whole body has come, and the connection can serve the next request."""


Item = Head | bytes | End | Failure


class Exchange(Protocol):
    """One request under way: a Head, pieces of the body, and End; a Failure may take any place."""

    inbox: Inbox[Item]

    def close(self) -> None:
        """Stop at once and free what the exchange holds. Safe at any moment, and twice."""


class Transport(Protocol):
    """A way to the model."""

    url: str  # for messages

    def send(self, body: bytes) -> Exchange:
        """Start a request with this JSON body."""

    def close(self) -> None:
        """Free what is kept between requests."""


class HTTPTransport:
    """An http(s) server, through one connection that is kept alive for the run."""

    def __init__(self, url: str, headers: Mapping[str, str], environ: Mapping[str, str]) -> None:
        self.url = url
        self.headers = headers
        # A reused connection announces no socket, so the last one is remembered here.
        self.socket: socket.socket | None = None
        self._environ = environ
        self._proxy = proxy_for(url, environ)  # here, since a wrong one ends the run at its start
        self.place = host_and_port(url)
        if self._proxy is not None:
            self.place += f" through the proxy {host_and_port(self._proxy)}"
        self._client: httpx.Client | None = None
        self._lock = Lock()

    def send(self, body: bytes) -> "HTTPExchange":
        """Start a POST."""
        return HTTPExchange(self, "POST", body)

    def fetch(self) -> "HTTPExchange":
        """Start a GET."""
        return HTTPExchange(self, "GET", None)

    def close(self) -> None:
        """Close the kept connection."""
        if self._client is not None:
            self._client.close()

    def client(self) -> "httpx.Client":
        """Return the client, made when first needed and in the thread that needs it."""
        import httpx

        with self._lock:  # the thread of a cancelled request may still be at it
            if self._client is None:
                self._client = httpx.Client(
                    headers=self.headers,
                    verify=tls_context(self.url, self._environ),
                    # Neither .netrc nor anything else that httpx would read by itself.
                    trust_env=False,
                    proxy=self._proxy,
                    timeout=None,  # noqa: S113  # the turn watches: it knows data from keep-alives
                    # A tool may run for longer than any keep-alive time.
                    limits=httpx.Limits(keepalive_expiry=None),
                    follow_redirects=False,
                )
            return self._client


class HTTPExchange:
    """One request to an HTTPTransport, read by its own daemon thread."""

    def __init__(self, transport: HTTPTransport, method: str, body: bytes | None) -> None:
        self.inbox: Inbox[Item] = Inbox()
        self._transport = transport
        self._socket: socket.socket | None = None
        self._second: socket.socket | None = None
        self._closed = False
        self._ended = False
        Thread(target=self._run, args=(method, body), daemon=True).start()

    def close(self) -> None:
        """Stop at once; a connection whose answer was read to its end is kept."""
        self._closed = True
        self.inbox.close()
        if not self._ended:
            _shut(self._socket or self._transport.socket)

    def _trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Know the socket from its first moment on; shut it down if the cancel came before it."""
        match event.split(".")[-2:]:
            case ["connect_tcp" | "start_tls", "complete"]:
                self._use(info["return_value"].get_extra_info("socket"))
            case ["start_tls", "started"] if self._socket is not None:
                # The handshake takes the descriptor into an object that nobody is told of before
                # its end: hold a second one until then.
                self._second = socket.socket(fileno=os.dup(self._socket.fileno()))
                self._use(self._second)
                return
        if self._second is not None and "start_tls" in event:
            self._second.close()

    def _use(self, sock: socket.socket) -> None:
        self._socket = sock
        if self._closed:
            _shut(sock)
        else:
            # Not that of a cancelled request: the next one may be under way on its own.
            self._transport.socket = sock

    def _run(self, method: str, body: bytes | None) -> None:
        try:
            self._exchange(method, body)
        except Exception as error:  # noqa: BLE001  # the turn would wait for ever if it never heard
            self.inbox.put(network_failure(error, self._transport.place))

    def _exchange(self, method: str, body: bytes | None) -> None:
        client, url = self._transport.client(), self._transport.url
        if self._closed:
            return
        extensions = {"trace": self._trace}
        with client.stream(method, url, content=body, extensions=extensions) as response:
            headers = {name.lower(): value for name, value in response.headers.items()}
            # Not iter_bytes: it makes 64 MiB out of 64 KiB if a server wants it to.
            parts = inflated(response.iter_raw(), headers.get("content-encoding", ""))
            wanted = self.inbox.put(Head(response.status_code, response.reason_phrase, headers))
            while wanted and (part := next(parts, None)) is not None:
                wanted = self.inbox.put(part)
        self._ended = not self._closed
        self.inbox.put(End())


def _shut(sock: socket.socket | None) -> None:
    if sock is not None:
        with suppress(OSError):  # closed already
            # Not sock.shutdown: on a TLS socket that takes the TLS layer away under its reader.
            socket.socket.shutdown(sock, socket.SHUT_RDWR)
