"""Ways to carry one request to a model and its answer back: http(s)://, run://, replay://.

A transport's `send` starts the exchange and returns at once; a daemon thread reads the answer into
an `Inbox`, and the turn waits there. So a cancel is noticed at once, whatever the thread is doing:
importing httpx, resolving a name, connecting, or waiting for a byte. `Exchange.close` then wakes
the thread: closing a socket does not wake a reader, shutting it down does.
"""

import os
import select
import signal
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from shlex import split
from threading import Lock, Thread
from typing import IO, TYPE_CHECKING, Any, Final, Protocol

from bantam.core.cancel import Inbox
from bantam.core.errors import ConfigError
from bantam.model.compression import inflated
from bantam.model.failures import Failure, Kind, network_failure
from bantam.model.proxies import proxy_for, tls_context

if TYPE_CHECKING:
    import httpx

_READ_BYTES: Final = 65536
_GRACE_S: Final = 0.05
# How late a program's end is seen while something that it left behind holds its output.
_SLICE_MS: Final = 100
# What a local program says on standard error is shown up to here.
_STDERR_BYTES: Final = 8192
_TRY_LATER: Final = 75  # EX_TEMPFAIL of sysexits.h


@dataclass(frozen=True, slots=True)
class Head:
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
                    # The turn watches the time: it knows data events from keep-alives.
                    timeout=None,  # noqa: S113  see above
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
        except Exception as error:  # noqa: BLE001  the turn would wait for ever if it never heard
            self.inbox.put(network_failure(error))

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


class RunTransport:
    """A local program, one process a request (`run://PROGRAM ARGUMENTS`)."""

    def __init__(self, endpoint: str) -> None:
        """Read the command line as a shell does. Raises ConfigError if it is none."""
        self.url = endpoint
        try:
            self._command = split(endpoint.partition("://")[2])
        except ValueError as error:
            raise ConfigError(f"endpoint={endpoint} is no command line: {error}") from None
        if not self._command:
            raise ConfigError(f"endpoint={endpoint} names no program; write run://PROGRAM")

    def send(self, body: bytes) -> "RunExchange":
        """Start the program with `body` on its standard input."""
        return RunExchange(self._command, body)

    def close(self) -> None:
        """Nothing is kept."""


class RunExchange:
    """One run of a program, read by its own daemon thread."""

    def __init__(self, command: list[str], body: bytes) -> None:
        self.inbox: Inbox[Item] = Inbox()
        self._name = command[0]
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._process, self._stderr = _started(command, body)
        except (OSError, ValueError) as error:
            self.inbox.put(Failure(Kind.FINAL, f"run://{self._name} cannot be run: {error}"))
        else:
            Thread(target=self._run, args=(self._process,), daemon=True).start()

    def close(self) -> None:
        """End the program and its group: TERM, and KILL where that does not help at once."""
        self.inbox.close()
        process = self._process
        if process is None or process.poll() is not None:
            return  # an ended leader's number may be another's by now
        _signal_group(process, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
        _signal_group(process, signal.SIGKILL)
        process.wait()

    def _run(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        with process.stdout as stdout, self._stderr:
            going_on = self.inbox.put(Head(200, "OK", {}))
            if going_on and self._copy(stdout.fileno(), process):
                self.inbox.put(self._outcome(process.wait()))

    def _copy(self, pipe: int, process: subprocess.Popen[bytes]) -> bool:
        """Copy to the end of the output, or of the program where something else holds its pipe.

        Return False once nobody takes it.
        """
        poll, exited = select.poll(), False
        poll.register(pipe, select.POLLIN)
        while True:
            if poll.poll(_SLICE_MS):
                part = os.read(pipe, _READ_BYTES)
                if not part:
                    return True
                if not self.inbox.put(part):
                    return False
            elif exited:
                return True
            exited = process.poll() is not None

    def _outcome(self, status: int) -> Item:
        if status == 0:
            return End()
        self._stderr.seek(max(0, self._stderr.seek(0, os.SEEK_END) - _STDERR_BYTES))
        said = self._stderr.read().decode("utf-8", "replace").strip()
        kind = Kind.CONNECTION if status == _TRY_LATER else Kind.FINAL
        how = f"ended with status {status}" if status > 0 else f"was killed by signal {-status}"
        return Failure(kind, f"run://{self._name} {how}", said)


def _started(command: list[str], body: bytes) -> tuple[subprocess.Popen[bytes], IO[bytes]]:
    """Start a program that reads `body`; return it and the file of its standard error."""
    # Files, not pipes: a program may answer before it has read, and may fill its stderr.
    with tempfile.TemporaryFile() as stdin, ExitStack() as if_it_fails:
        stdin.write(body)
        stdin.seek(0)
        stderr = if_it_fails.enter_context(tempfile.TemporaryFile())
        process = subprocess.Popen(
            command, stdin=stdin, stdout=subprocess.PIPE, stderr=stderr, start_new_session=True
        )
        if_it_fails.pop_all()
        return process, stderr


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    # All of the group has ended; some systems say so by EPERM.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
