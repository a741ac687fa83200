"""Requests as the scripted server gets them, and what a strict server refuses in them.

The rules are gathered from servers that answer 400, 422 or 500 to what others let pass; a request
without a fault here is accepted by all of them.
"""

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.client import parse_headers
from typing import Any, BinaryIO, Final
from urllib.parse import urlsplit

_ROLES: Final = ("system", "user", "assistant", "tool")


@dataclass(frozen=True, slots=True)
class Recorded:
    """A request as it came: header names in lower case, `connection` counts from 1.

    `at`: when it was complete, in seconds of the monotonic clock.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    connection: int
    at: float

    @property
    def json(self) -> dict[str, Any]:
        """The body's JSON object. Raises ValueError if it is none, or not in UTF-8."""
        return _json_object(self.body.decode())

    @property
    def is_chat(self) -> bool:
        """Whether it asks for a completion."""
        return (self.method, self._route) == ("POST", "/v1/chat/completions")

    @property
    def is_models(self) -> bool:
        """Whether it asks for the list of models."""
        return (self.method, self._route) == ("GET", "/v1/models")

    @property
    def _route(self) -> str:
        # Through a forward proxy the path is a whole URL (RFC 9112, 3.2.2).
        return urlsplit(self.path).path

    def faults(self) -> list[str]:
        """Return what a strict server refuses in this request for a completion."""
        if not self.headers.get("content-type", "").startswith("application/json"):
            return ["the content type is not application/json"]
        try:
            asked = self.json
        except ValueError as problem:
            return [f"the body is no JSON object in UTF-8: {problem}"]
        if not isinstance(asked.get("model"), str):
            return ["model is no string"]
        return validate(asked.get("messages"))


def read_request(source: BinaryIO, connection: int) -> Recorded:
    """Return the next request of a connection. Raises ConnectionError if the client has closed."""
    line = source.readline(1 << 16).decode("latin-1").split()
    if len(line) != 3:
        raise ConnectionAbortedError
    headers = {name.lower(): value for name, value in parse_headers(source).items()}
    length = int(headers.get("content-length", "0"))
    body = source.read(length)
    if len(body) < length:
        raise ConnectionAbortedError
    return Recorded(line[0], line[1], headers, body, connection, time.monotonic())


def _json_object(text: str) -> dict[str, Any]:
    """Return the object that `text` holds. Raises ValueError if it is none, or strict JSON not."""
    value = json.loads(text, parse_constant=_refuse)
    if not isinstance(value, dict):
        raise ValueError(f"not an object: {value!r:.60}")  # the text is wrong
    return value


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def validate(messages: Any) -> list[str]:
    """Return what is wrong with a request's `messages`, `messages[2]: R4: ...` each; [] if nothing.

    R1: every call is answered by exactly one tool message before any other role speaks. R2: no
    tool message without such a call. R3: no assistant message without both text and calls. R4: no
    two user messages in a row. And the shape: content and arguments are text, the arguments hold
    a JSON object, UTF-8 can hold it all.
    """
    if not isinstance(messages, list) or not messages:
        return ["messages is no list that holds one"]
    shapes = [f"messages[{i}]: {f}" for i, m in enumerate(messages) for f in _shape_faults(m)]
    return shapes or list(_order_faults(messages))


def _shape_faults(message: Any) -> Iterator[str]:
    if not isinstance(message, dict) or message.get("role") not in _ROLES:
        yield "no message of a known role"
        return
    if not isinstance(message.get("content"), str):
        yield "content is no string"
        return
    if not _fits_utf8(message):
        yield "a lone surrogate"
    if message["role"] != "assistant":
        return
    if "tool_calls" in message:
        yield from _call_faults(message["tool_calls"])
    elif not message["content"].strip():
        yield "R3: neither text nor calls"


def _fits_utf8(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _call_faults(wanted: Any) -> Iterator[str]:
    if not isinstance(wanted, list) or not wanted:
        yield "tool_calls is no list that holds one"
        return
    for call in wanted:
        match call:
            case {
                "id": str(call_id),
                "type": "function",
                "function": {"name": str(name), "arguments": str(arguments)},
            } if call_id and name:
                yield from _argument_faults(call_id, arguments)
            case _:
                yield f"no tool call: {call!r:.80}"


def _argument_faults(call_id: str, arguments: str) -> Iterator[str]:
    try:
        value = _json_object(arguments)
    except ValueError as problem:
        yield f"the arguments of {call_id} are no JSON object: {problem}"
        return
    if not _fits_utf8(value):
        yield f"the arguments of {call_id} hold a lone surrogate"


def _order_faults(messages: list[dict[str, Any]]) -> Iterator[str]:
    waiting: list[str] = []
    before = None
    for index, message in enumerate(messages):
        role = message["role"]
        if role == "tool":
            if message.get("tool_call_id") in waiting:
                waiting.remove(message["tool_call_id"])
            else:
                yield f"messages[{index}]: R2: answers no call that waits for an answer"
            continue
        if waiting:
            yield f"messages[{index}]: R1: {role} before the answer to {', '.join(waiting)}"
        if role == before == "user":
            yield f"messages[{index}]: R4: two user messages in a row"
        waiting = [call["id"] for call in message.get("tool_calls", ())]
        if len(set(waiting)) < len(waiting):
            yield f"messages[{index}]: two calls of one id"
        before = role
    if waiting:
        yield f"messages[{len(messages) - 1}]: R1: no answer to {', '.join(waiting)}"
