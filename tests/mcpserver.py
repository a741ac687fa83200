"""A scripted HTTP server on the loopback for the shell tools: one answer a request, in order.

with Scripted([*connected(), answer("found")]) as server:
    ...  # run a tool against server.url
server.requests  # what came
"""

import json
import socket
import ssl
from collections.abc import Iterable, Iterator
from typing import Any, Final, Self

from llmreplies import JSON, SSE, Reply, event, raw
from llmrequests import Recorded, read_request
from loopback import Listener

# Bytes are sent as they are.
Answer = Reply | bytes

SESSION: Final = "s-1"


class Scripted:
    """A context manager; `url` has no path. What is asked beyond the script is not answered.

    `hold` in a reply is silence: the client has to leave.
    """

    def __init__(self, answers: Iterable[Answer], *, tls: ssl.SSLContext | None = None) -> None:
        self._answers = iter(answers)
        self._listener = Listener(self._serve, tls=tls)
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self._listener.port}"
        self.requests: list[Recorded] = []

    def __enter__(self) -> Self:
        self._listener.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The JSON of every request."""
        return [request.json for request in self.requests]

    def _serve(self, connection: socket.socket, ordinal: int) -> None:
        with connection.makefile("rb") as source:
            request = read_request(source, ordinal)
            self.requests.append(request)
            reply = next(self._answers, None)
            if isinstance(reply, bytes):
                connection.sendall(reply)
            elif reply is None or reply.hold:
                source.read()  # until the client leaves
            else:
                _send(connection, reply)


def _send(connection: socket.socket, reply: Reply) -> None:
    connection.sendall(reply.head)
    for piece in reply.pieces():
        if not piece:  # the fault is due
            return
        connection.sendall(reply.framed(piece))
    if reply.framing == "chunked":
        connection.sendall(b"0\r\n\r\n")


# -- answers of an MCP server -------------------------------------------------------------------


def connected(*, session: str = SESSION, revision: str = "2025-06-18") -> Iterator[Reply]:
    """Yield the answers to `initialize` and to the notification that follows it."""
    headers = {"Mcp-Session-Id": session} if session else {}
    yield result({"protocolVersion": revision, "capabilities": {}}, headers=headers)
    yield raw(b"", status=202, framing="length")


def result(value: Any, *, headers: dict[str, str] | None = None) -> Reply:
    """Answer a result as a JSON body."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "result": value}).encode()
    return raw(body, content_type=JSON, headers=headers, framing="length")


def answer(*texts: str, **more: Any) -> Reply:
    """Answer a tool's call by these texts."""
    return result({"content": [{"type": "text", "text": text} for text in texts]} | more)


def stream(*payloads: Any, before: bytes = b"") -> Reply:
    """Answer events, `before` them these bytes."""
    return raw(before + b"".join(event(payload) for payload in payloads), content_type=SSE)
