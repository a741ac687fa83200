"""Ways to carry one request to a model and its answer back: http(s)://, run://, replay://.

A transport's `send` starts the exchange and returns at once; a daemon thread reads the answer into
an `Inbox`, and the turn waits there. So a cancel is noticed at once, whatever the thread is doing:
importing httpx, resolving a name, connecting, or waiting for a byte. `Exchange.close` then wakes
the thread: closing a socket does not wake a reader, shutting it down does.
"""

import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from shlex import split
from threading import Thread
from typing import IO, TYPE_CHECKING, Any, Final, Protocol

from bantam.core.cancel import Inbox
from bantam.model.failures import Failure, Kind, first_line
from bantam.model.proxies import proxy_for, tls_context

if TYPE_CHECKING:
    import httpx

_READ_BYTES: Final = 65536
_GRACE_S: Final = 0.05
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
        self._client: httpx.Client | None = None

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

        if self._client is None:
            self._client = httpx.Client(
                headers=self.headers,
                verify=tls_context(self.url, self._environ),
                # Neither .netrc nor anything else that httpx would read by itself.
                trust_env=False,
                proxy=proxy_for(self.url, self._environ),
                # The turn watches the time: it knows data events from keep-alives.
                timeout=None,  # noqa: S113  see above
                limits=httpx.Limits(keepalive_expiry=None),
                follow_redirects=False,
            )
        return self._client


class HTTPExchange:
    """One request to an HTTPTransport, read by its own daemon thread."""

    def __init__(self, transport: HTTPTransport, method: str, body: bytes | None) -> None:
        self.inbox: Inbox[Item] = Inbox()
        self._transport = transport
        self._closed = False
        self._ended = False
        Thread(target=self._run, args=(method, body), daemon=True).start()

    def close(self) -> None:
        """Stop at once; a connection whose answer was read to its end is kept."""
        self._closed = True
        self.inbox.close()
        if not self._ended:
            self._shut()

    def _shut(self) -> None:
        if (sock := self._transport.socket) is None:
            return
        with suppress(OSError):  # closed already
            # Not sock.shutdown: on a TLS socket that takes the TLS layer away under its reader.
            socket.socket.shutdown(sock, socket.SHUT_RDWR)

    def _trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Learn the socket as soon as there is one; shut it down if the cancel came before it."""
        if event.endswith((".connect_tcp.complete", ".start_tls.complete")):
            self._transport.socket = info["return_value"].get_extra_info("socket")
            if self._closed:
                self._shut()

    def _run(self, method: str, body: bytes | None) -> None:
        try:
            self._exchange(method, body)
        except Exception as error:  # noqa: BLE001  the turn would wait for ever if it never heard
            self.inbox.put(_network_failure(error))

    def _exchange(self, method: str, body: bytes | None) -> None:
        with self._transport.client().stream(
            method, self._transport.url, content=body, extensions={"trace": self._trace}
        ) as response:
            headers = {name.lower(): value for name, value in response.headers.items()}
            going_on = self.inbox.put(Head(response.status_code, response.reason_phrase, headers))
            if going_on:
                for part in response.iter_bytes():
                    if not self.inbox.put(part):
                        break
        self._ended = not self._closed
        self.inbox.put(End())


def _network_failure(error: Exception) -> Failure:
    """Return what went wrong in words; only what may pass by itself is worth a repeat."""
    import httpx

    text = first_line(str(error)) or type(error).__name__
    if "CERTIFICATE_VERIFY_FAILED" in text:
        hint = "if the authority is your own, name its file in SSL_CERT_FILE"
        return Failure(Kind.FINAL, f"the server's certificate was not accepted: {text}; {hint}")
    if isinstance(error, httpx.DecodingError):
        return Failure(Kind.BROKEN, f"the answer's compression is broken: {text}")
    if isinstance(error, httpx.TransportError) and not isinstance(
        error, (httpx.UnsupportedProtocol, httpx.LocalProtocolError)
    ):
        return Failure(Kind.CONNECTION, f"connection failed: {text}")
    return Failure(Kind.FINAL, f"the request could not be made: {type(error).__name__}: {text}")


class RunTransport:
    """A local program, one process a request (`run://PROGRAM ARGUMENTS`)."""

    def __init__(self, endpoint: str) -> None:
        self.url = endpoint
        self._command = split(endpoint.removeprefix("run://"))

    def send(self, body: bytes) -> "RunExchange":
        """Start the program with `body` on its standard input."""
        return RunExchange(self._command, body)

    def close(self) -> None:
        """Nothing is kept."""


class RunExchange:
    """One run of a program, read by its own daemon thread."""

    def __init__(self, command: list[str], body: bytes) -> None:
        self.inbox: Inbox[Item] = Inbox()
        self._name = command[0] if command else ""
        # Files, not pipes: a program may answer before it has read, and may fill its stderr.
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  closed by the reader thread
        with tempfile.TemporaryFile() as stdin:
            stdin.write(body)
            stdin.seek(0)
            self._process = self._start(command, stdin)
        if self._process is None:
            self._stderr.close()
        else:
            Thread(target=self._run, args=(self._process,), daemon=True).start()

    def _start(self, command: list[str], stdin: IO[bytes]) -> subprocess.Popen[bytes] | None:
        try:
            return subprocess.Popen(
                command,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                start_new_session=True,
            )
        except (OSError, ValueError, IndexError) as error:
            self.inbox.put(Failure(Kind.FINAL, f"run://{self._name} cannot be run: {error}"))
            return None

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
            while going_on and (part := os.read(stdout.fileno(), _READ_BYTES)):
                going_on = self.inbox.put(part)
            self.inbox.put(self._outcome(process.wait()) if going_on else End())

    def _outcome(self, status: int) -> Item:
        if status == 0:
            return End()
        self._stderr.seek(max(0, self._stderr.seek(0, os.SEEK_END) - _STDERR_BYTES))
        said = self._stderr.read().decode("utf-8", "replace").strip()
        kind = Kind.CONNECTION if status == _TRY_LATER else Kind.FINAL
        return Failure(kind, f"run://{self._name} ended with status {status}", said)


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # all of the group has ended
        os.killpg(process.pid, number)
