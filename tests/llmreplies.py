"""What the scripted server can answer: a `Reply` is one HTTP response, and the builders make them.

The bytes are made as OpenAI's API writes them, always the same for the same arguments: a test may
count them to place a fault.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import chain, repeat
from typing import Any, Final, Literal

SSE: Final = "text/event-stream"
JSON: Final = "application/json"
DONE: Final = b"data: [DONE]\n\n"
# As the byte count of a fault: where the body ends, before the last chunk says so.
END: Final = 1 << 62
USAGE: Final[Mapping[str, Any]] = {
    "prompt_tokens": 12,
    "completion_tokens": 5,
    "total_tokens": 17,
}


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer. Counts are bytes of the body, whatever its framing; one fault of three at most.

    `whole`: the JSON that is sent instead to a request without `stream: true`.
    `lazy`: yields a body too big to keep, instead of `body`.
    `framing`: how the end of the body is marked: a last chunk, Content-Length, or the FIN.
    `piece_size`: bytes written at a time; else one SSE event at a time.
    `cut_after`: FIN after so many bytes. `reset_after`: RST. `stall_after`: silence until released,
    then the rest. All at the end at the latest, before the last chunk.
    `hold`: not even headers until released. `trickle`: a stall sends comments all the time.
    """

    status: int = 200
    reason: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = SSE
    body: bytes = b""
    whole: bytes | None = None
    lazy: Callable[[], Iterable[bytes]] | None = None
    framing: Literal["chunked", "length", "close"] = "chunked"
    piece_size: int | None = None
    cut_after: int | None = None
    reset_after: int | None = None
    stall_after: int | None = None
    hold: bool = False
    trickle: bool = False

    @property
    def head(self) -> bytes:
        """The status line and the header fields."""
        phrases = {status.value: status.phrase for status in HTTPStatus}
        reason = phrases.get(self.status, "") if self.reason is None else self.reason
        framing = {
            "chunked": ("transfer-encoding", "chunked"),
            "length": ("content-length", str(len(self.body))),
            "close": ("connection", "close"),
        }[self.framing]
        fields = [("content-type", self.content_type), framing, *self.headers.items()]
        lines = [f"HTTP/1.1 {self.status} {reason}", *(": ".join(pair) for pair in fields)]
        return "\r\n".join([*lines, "", ""]).encode()

    def framed(self, piece: bytes) -> bytes:
        """Return `piece` of the body as it goes over the wire."""
        return b"%x\r\n%b\r\n" % (len(piece), piece) if self.framing == "chunked" else piece

    def pieces(self) -> Iterator[bytes]:
        """Yield the body as it is written; an empty piece stands where the fault is due."""
        fault_at = next(
            (at for at in (self.cut_after, self.reset_after, self.stall_after) if at is not None),
            None,
        )
        sent = 0
        for part in self._parts():
            start = 0
            while start < len(part):
                if sent == fault_at:
                    yield b""
                    fault_at = None
                end = min(len(part), start + (self.piece_size or len(part)))
                if fault_at is not None:
                    end = min(end, start + fault_at - sent)
                yield part[start:end]
                sent += end - start
                start = end
        if fault_at is not None:
            yield b""

    def _parts(self) -> Iterable[bytes]:
        if self.lazy is not None:
            return self.lazy()
        if self.piece_size is None and self.content_type == SSE:
            return re.split(rb"(?<=\n\n)", self.body)
        return [self.body]


# -- builders ---------------------------------------------------------------------------------


def event(payload: Any) -> bytes:
    """Return one SSE event that holds `payload` as JSON."""
    return b"data: " + _json(payload) + b"\n\n"


def delta(finish: str | None = None, **members: Any) -> bytes:
    """Return the event of one chunk: its delta has `members`; `finish` is the finish_reason."""
    choice = {"index": 0, "delta": members, "finish_reason": finish}
    return event(_envelope("chat.completion.chunk") | {"choices": [choice]})


def text(
    content: str,
    *,
    reasoning: str = "",
    finish: str | None = "stop",
    usage: Mapping[str, Any] | None = USAGE,
    pieces: int | None = None,
    done: bool = True,
    **fields: Any,
) -> Reply:
    """Answer `content`, in `pieces` deltas; without usage, finish_reason or [DONE] if so told.

    `fields`: those of `Reply`, faults above all; so in every builder that takes them.
    """
    message = {"content": content} | ({"reasoning_content": reasoning} if reasoning else {})
    deltas = [
        *(delta(reasoning_content=piece) for piece in _split(reasoning, pieces)),
        *(delta(content=piece) for piece in _split(content, pieces)),
    ]
    body = _stream(deltas, finish, usage, done=done)
    return Reply(**{"body": body, "whole": _whole(message, finish, usage)} | fields)


def calls(
    *wanted: tuple[str, Mapping[str, Any] | str],
    content: str = "",
    reasoning: str = "",
    finish: str | None = "tool_calls",
    usage: Mapping[str, Any] | None = USAGE,
    done: bool = True,
    start: int = 1,
    **fields: Any,
) -> Reply:
    """Answer tool calls, each `(name, arguments)`, with the ids `call_<start>` and on.

    Arguments that are a str are sent as they stand: broken ones too.
    """
    tool_calls = [
        _tool_call(f"call_{number}", name, arguments)
        for number, (name, arguments) in enumerate(wanted, start)
    ]
    message = {"content": content or None, "tool_calls": tool_calls}
    if reasoning:
        message["reasoning_content"] = reasoning
    deltas = [
        *(delta(reasoning_content=piece) for piece in _split(reasoning)),
        *(delta(content=piece) for piece in _split(content)),
        *chain.from_iterable(_call_deltas(i, call) for i, call in enumerate(tool_calls)),
    ]
    body = _stream(deltas, finish, usage, done=done)
    return Reply(**{"body": body, "whole": _whole(message, finish, usage)} | fields)


def shell(command: str, **how: Any) -> Reply:
    """Answer one call of shell_exec; `how` as for `calls`."""
    return calls(("shell_exec", {"command": command}), **how)


def write(
    path: str, content: str, *, offset: int | None = None, del_bytes: int | None = None, **how: Any
) -> Reply:
    """Answer one call of write_file, with the numbers that are given; `how` as for `calls`."""
    numbers = {"offset": offset, "del_bytes": del_bytes}
    given = {name: number for name, number in numbers.items() if number is not None}
    return calls(("write_file", {"path": path, "content": content, **given}), **how)


def error(
    status: int, message: str, *, headers: Mapping[str, str] | None = None, **members: Any
) -> Reply:
    """Answer an error as OpenAI writes it; `members` (code, param, type) join the message."""
    body = _json({"error": {"message": message, **members}})
    return raw(body, status=status, content_type=JSON, headers=headers, framing="length")


def raw(
    body: bytes,
    *,
    status: int = 200,
    content_type: str = SSE,
    headers: Mapping[str, str] | None = None,
    **fields: Any,
) -> Reply:
    """Answer exactly `body`, whatever was asked."""
    return Reply(
        status=status, content_type=content_type, headers=headers or {}, body=body, **fields
    )


def big_line(mib: int, **fields: Any) -> Reply:
    """Answer one SSE line of more than `mib` MiB, made while it is sent."""
    before, after = delta("stop", content="\0").split(b"\\u0000")
    filler = b"x" * (1 << 16)
    return Reply(lazy=lambda: chain([before], repeat(filler, mib * 16), [after, DONE]), **fields)


def big_answer(mib: int, **fields: Any) -> Reply:
    """Answer more than `mib` MiB of text in events of a usual size, made while they are sent."""
    one = delta(content="sixteen letters.\n" * 241)  # 4,097 bytes
    end = _stream([], "stop", USAGE, done=True)
    return Reply(lazy=lambda: chain(repeat(one, mib * 256), [end]), **fields)


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def _envelope(kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": "scripted"}


def _stream(
    deltas: Iterable[bytes], finish: str | None, usage: Mapping[str, Any] | None, *, done: bool
) -> bytes:
    parts = [delta(role="assistant", content=""), *deltas]
    if finish is not None:
        parts.append(delta(finish))
    if usage is not None:
        last = {"choices": [], "usage": dict(usage)}
        parts.append(event(_envelope("chat.completion.chunk") | last))
    if done:
        parts.append(DONE)
    return b"".join(parts)


def _whole(
    message: Mapping[str, Any], finish: str | None, usage: Mapping[str, Any] | None
) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    answer = _envelope("chat.completion") | {"choices": [choice]}
    return _json(answer if usage is None else answer | {"usage": dict(usage)})


def _tool_call(call_id: str, name: str, arguments: Mapping[str, Any] | str) -> dict[str, Any]:
    sent = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": sent}}


def _call_deltas(index: int, call: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield the call as OpenAI streams it: id and name first, then the arguments in pieces."""
    function = call["function"]
    first = {**call, "index": index, "function": {**function, "arguments": ""}}
    yield delta(tool_calls=[first])
    for piece in _split(function["arguments"], 3):
        yield delta(tool_calls=[{"index": index, "function": {"arguments": piece}}])


def _split(whole: str, pieces: int | None = None) -> list[str]:
    """Return `whole` in at most `pieces` parts; by default of a token's size, but 50 at most."""
    size = -(-len(whole) // pieces) if pieces else max(4, -(-len(whole) // 50))
    return [whole[at : at + size] for at in range(0, len(whole), max(1, size))]
