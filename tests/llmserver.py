"""A scripted chat-completions server on the loopback, with faults; in a test or by hand.

    with LLMServer([shell("ls"), text("Two files.", cut_after=90), text("Two files.")]) as server:
        ...  # talk to server.url
        server.wait_for(3)

Plain sockets instead of http.server: a fault is a matter of bytes, and an RST must not follow a
FIN. A test cannot pass with a request that it did not expect, or with one that a strict server
would refuse: leaving the `with` block raises AssertionError.

By hand: `python tests/llmserver.py SCENARIO` prints the endpoint and serves until Ctrl+C;
`--list` names the scenarios.
"""

import argparse
import json
import select
import signal
import socket
import ssl
import struct
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, BinaryIO, Final, Self

from llmreplies import (
    DONE,
    END,
    JSON,
    USAGE,
    Reply,
    big_answer,
    big_line,
    calls,
    delta,
    error,
    event,
    raw,
    shell,
    text,
    write,
)
from llmrequests import Recorded, read_request, validate
from loopback import Listener
from scenarios import MODELS, SCENARIOS, Script

__all__ = [
    "DONE",
    "END",
    "USAGE",
    "LLMServer",
    "Recorded",
    "Reply",
    "Script",
    "big_answer",
    "big_line",
    "calls",
    "delta",
    "error",
    "event",
    "raw",
    "shell",
    "text",
    "validate",
    "write",
]

# How often a held connection looks whether it was released or left, and sends its comment.
_LOOK_S: Final = 0.02
_PING: Final = b": ping\n\n"
_RST_ON_CLOSE: Final = struct.pack("ii", 1, 0)


class LLMServer:
    """Answers POST /v1/chat/completions by `replies`: in order, or what the function says.

    The function gets the request's JSON and its ordinal from 0. `models` answers GET /v1/models: a
    payload or a Reply; 404 without. A request that is not in the script gets a 410, which no
    client repeats, one that `check` finds invalid a 400 and no reply of the script; either is
    kept in `faults`, and with `strict` leaving the context raises AssertionError.
    """

    def __init__(
        self,
        replies: Iterable[Reply] | Script,
        *,
        models: Any | None = None,
        repeat_last: bool = False,
        port: int = 0,
        strict: bool = True,
        check: bool = True,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._script = (
            replies if callable(replies) else _in_order(tuple(replies), repeat_last=repeat_last)
        )
        self._models = models if isinstance(models, Reply) else _listing(models)
        self._strict = strict
        self._check = check
        self._listener = Listener(self._serve, port, tls)
        self._changed = threading.Condition()
        self._released = threading.Event()
        self._answered = 0
        self._stalls = 0
        self._closes = 0
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self._listener.port}/v1"
        self.requests: list[Recorded] = []
        self.faults: list[str] = []

    def __enter__(self) -> Self:
        self._listener.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        self.close()
        if kind is None and self._strict and self.faults:
            raise AssertionError("\n".join(self.faults))

    def close(self) -> None:
        """End every connection and thread. May be called again."""
        self._listener.close()

    @property
    def chat(self) -> list[Recorded]:
        """The requests for a completion."""
        return [request for request in self.requests if request.is_chat]

    @property
    def model_requests(self) -> list[Recorded]:
        """The requests for the list of models."""
        return [request for request in self.requests if request.is_models]

    def release(self) -> None:
        """Let everything that is held, now and later, go on."""
        self._released.set()

    def wait_for(self, count: int, timeout: float = 10) -> None:
        """Return once `count` requests for a completion have arrived; AssertionError if not."""
        self._wait(lambda: len(self.chat) >= count, f"{count} chat requests", timeout)

    def wait_for_stall(self, count: int = 1, timeout: float = 10) -> None:
        """Return once answers were held `count` times, all before the hold being sent."""
        self._wait(lambda: self._stalls >= count, f"{count} held answers", timeout)

    def wait_for_close(self, count: int = 1, timeout: float = 10) -> None:
        """Return once the client has closed `count` connections."""
        self._wait(lambda: self._closes >= count, f"{count} closed connections", timeout)

    def _wait(self, ready: Callable[[], bool], what: str, timeout: float) -> None:
        with self._changed:
            if not self._changed.wait_for(ready, timeout):
                raise AssertionError(
                    f"no {what} within {timeout} s: {len(self.chat)} chat requests, "
                    f"{self._stalls} held answers, {self._closes} closed connections"
                )

    # -- one connection, in its thread --------------------------------------------------------

    def _serve(self, connection: socket.socket, ordinal: int) -> None:
        with connection.makefile("rb") as source:
            try:
                while self._exchange(connection, source, ordinal):
                    pass
            except OSError:
                if not self._listener.closing:
                    with self._changed:
                        self._closes += 1
                        self._changed.notify_all()

    def _exchange(self, connection: socket.socket, source: BinaryIO, ordinal: int) -> bool:
        """Answer one request; False if the connection ends. Raises OSError if the client left."""
        request = read_request(source, ordinal)
        with self._changed:
            self.requests.append(request)
            reply = self._reply(request)
            self._changed.notify_all()
        if reply.hold:
            self._hold(connection)
        return self._send(connection, reply) and request.headers.get("connection") != "close"

    def _reply(self, request: Recorded) -> Reply:
        if request.is_models:
            return self._models
        if not request.is_chat:
            return error(404, f"there is no {request.method} {request.path}")
        faults = request.faults() if self._check else []
        if faults:
            self.faults += [f"invalid request {len(self.chat)}: {fault}" for fault in faults]
            return error(400, "; ".join(faults), type="invalid_request_error")
        self._answered += 1
        try:
            asked = request.json
            reply = self._script(asked, self._answered - 1)
        except Exception as problem:  # noqa: BLE001  # whatever a test's function raises fails the test
            self.faults.append(f"no reply to request {self._answered}: {problem!r}")
            return error(410, self.faults[-1])
        if reply.whole is None or asked.get("stream") is True:
            return reply
        return replace(reply, body=reply.whole, content_type=JSON, framing="length")

    def _send(self, connection: socket.socket, reply: Reply) -> bool:
        """Send `reply`; False if the connection must end now."""
        connection.sendall(reply.head)
        for piece in reply.pieces():
            if piece:
                connection.sendall(reply.framed(piece))
            elif reply.stall_after is not None:
                self._hold(connection, reply.framed(_PING) if reply.trickle else b"")
            else:
                if reply.reset_after is not None:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RST_ON_CLOSE)
                return False
        if reply.framing == "chunked":
            connection.sendall(b"0\r\n\r\n")
        return reply.framing != "close"

    def _hold(self, connection: socket.socket, ping: bytes = b"") -> None:
        """Wait for the release, sending `ping` all the time. Raises OSError if the client left."""
        with self._changed:
            self._stalls += 1
            self._changed.notify_all()
        while not self._released.wait(_LOOK_S):
            # A client that waits for an answer sends nothing: what can be read is its FIN.
            if select.select([connection], [], [], 0)[0]:
                raise ConnectionAbortedError
            connection.sendall(ping)


def _in_order(replies: Sequence[Reply], *, repeat_last: bool) -> Script:
    def reply(_: dict[str, Any], ordinal: int) -> Reply:
        if ordinal < len(replies):
            return replies[ordinal]
        if repeat_last and replies:
            return replies[-1]
        raise LookupError(f"the script of {len(replies)} replies is exhausted")

    return reply


def _listing(models: Any | None) -> Reply:
    if models is None:
        return error(404, "this server lists no models")
    return raw(json.dumps(models).encode(), content_type=JSON, framing="length")


# -- by hand ----------------------------------------------------------------------------------


def main(arguments: Sequence[str]) -> int:
    """Serve the scenario that is named until SIGINT or SIGTERM; return the exit status."""
    parser = argparse.ArgumentParser(description="A scripted chat-completions server.")
    parser.add_argument("scenario", nargs="?", choices=SCENARIOS, metavar="SCENARIO")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--list", action="store_true", help="list the scenarios")
    options = parser.parse_args(arguments)
    if options.list:
        sys.stdout.writelines(f"{name:<20} {told}\n" for name, (told, _) in SCENARIOS.items())
        return 0
    if options.scenario is None:
        parser.error("name a SCENARIO, or --list them")
    signals = {signal.SIGINT, signal.SIGTERM}
    # Before any thread starts: threads inherit the mask, so the signal waits for sigwait.
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    _, script = SCENARIOS[options.scenario]
    with LLMServer(script, models=MODELS, port=options.port, strict=False) as server:
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        signal.sigwait(signals)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
