"""A conversation as values, its API form, and the one repair that every request goes through.

The stored history is what happened: interrupts, crashes and other programs leave holes in it.
`repaired` returns a conversation that any server accepts; it never alters the stored one. So the
interrupt path, the recovery path and the path of an old file are the same code.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

# The result of a call that has none in the history (SPEC section 8).
INTERRUPTED_RESULT: Final = "interrupted by the user"

_SURROGATES: Final = re.compile("[\ud800-\udfff]")
# What OpenAI's API takes as a function name; a server refuses the whole history for a wrong one.
_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9_-]")
_NAME_LENGTH: Final = 64


class Role(StrEnum):
    """Who speaks."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """What the model wants run. `arguments` is the JSON text as received, perhaps broken.

    `extra`: members that the provider put on the call (signatures), sent back unchanged.
    """

    id: str
    name: str
    arguments: str
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation; `extra` as in `ToolCall`."""

    role: Role
    content: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete assistant message, and how it ended.

    `fault` is set where the turn must end after the answer was stored, and says why.
    """

    message: Message
    finish_reason: str | None
    fault: str | None = None


def parsed_arguments(text: str) -> dict[str, Any] | None:
    """Return the JSON object in `text`, `{}` for blank text, None if it holds anything else.

    >>> parsed_arguments('{"command": "ls"}'), parsed_arguments(""), parsed_arguments('{"a": ')
    ({'command': 'ls'}, {}, None)
    """
    if not text.strip():
        return {}
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _refuse(constant: str) -> None:
    # NaN and Infinity are Python's, not JSON's: a server would answer 400 to them for ever.
    raise ValueError(constant)


def without_surrogates(text: str) -> str:
    r"""Return `text` with lone surrogates, which UTF-8 cannot hold, as U+FFFD.

    >>> without_surrogates("cut \ud83d!")
    'cut �!'
    """
    return _SURROGATES.sub("\ufffd", text)


# -- the API form -----------------------------------------------------------------------------


def to_api(message: Message) -> dict[str, Any]:
    """Return the form that is stored and shown: the API's, with `reasoning_content` if any."""
    api: dict[str, Any] = {"role": message.role.value, "content": message.content}
    if message.reasoning:
        api["reasoning_content"] = message.reasoning
    if message.tool_calls:
        api["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
                **call.extra,
            }
            for call in message.tool_calls
        ]
    if message.role is Role.TOOL:
        api["tool_call_id"] = message.tool_call_id
    return {**api, **message.extra}


def from_api(api: Mapping[str, Any]) -> Message:
    """Return the message that `api` holds; the inverse of `to_api`, forgiving about absence.

    Raises ValueError if it is no message: an unknown role, or members of a wrong type.
    """
    known = ("role", "content", "reasoning_content", "tool_calls", "tool_call_id")
    calls = api.get("tool_calls") or ()
    if not isinstance(calls, Sequence) or isinstance(calls, str):
        raise ValueError(f"tool_calls is no list: {calls!r:.60}")
    return Message(
        role=Role(str(api.get("role"))),
        content=_text(api.get("content")),
        reasoning=_text(api.get("reasoning_content")),
        tool_calls=tuple(_call_from_api(call) for call in calls),
        tool_call_id=_text(api.get("tool_call_id")),
        extra={key: value for key, value in api.items() if key not in known},
    )


def _call_from_api(api: Any) -> ToolCall:
    function = api.get("function") if isinstance(api, Mapping) else None
    if not isinstance(function, Mapping):
        raise ValueError(f"no tool call: {api!r:.60}")
    extra = {k: v for k, v in api.items() if k not in ("id", "type", "function", "index")}
    arguments = function.get("arguments")
    if isinstance(arguments, Mapping):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return ToolCall(_text(api.get("id")), _text(function.get("name")), _text(arguments), extra)


def _text(value: Any) -> str:
    match value:
        case None:
            return ""
        case str():
            return value
        case list():
            # Typed parts, as other programs store them: the text is what a two-tool agent uses.
            parts = (p.get("text") if isinstance(p, Mapping) else p for p in value)
            return "".join(_text(part) for part in parts)
        case _:
            raise ValueError(f"not text: {value!r:.60}")


# -- the repair -------------------------------------------------------------------------------


def repaired(messages: Sequence[Message]) -> list[Message]:
    """Return `messages` as every server accepts them (SPEC section 4).

    Each tool call is answered exactly once, directly behind it, under an id that is unique in its
    message; no answer without its call; no assistant message without text and calls; user messages
    in a row joined by a blank line; no lone surrogates; arguments are a JSON object, and text that
    was none is quoted in the call's result. Pure; idempotent; a longer history keeps the result of
    a shorter one as its beginning, but for a last user message that grows.
    """
    out: list[Message] = []
    for message in _answered(messages):
        if message.role is Role.USER and out and out[-1].role is Role.USER:
            joined = f"{out[-1].content}\n\n{message.content}"
            out[-1] = replace(out[-1], content=joined)
        else:
            out.append(message)
    return out


def _answered(messages: Sequence[Message]) -> Iterator[Message]:
    for index, message in enumerate(messages):
        match message.role:
            case Role.TOOL:
                continue  # yielded behind its call, or it has none
            case Role.ASSISTANT if message.tool_calls:
                yield from _calls_and_results(message, _results_after(messages, index))
            case Role.ASSISTANT if not message.content.strip():
                continue
            case _:
                yield _clean(message)


def _results_after(messages: Sequence[Message], index: int) -> Iterator[Message]:
    """Yield the tool messages that may answer the assistant message at `index`."""
    for message in messages[index + 1 :]:
        if message.role is Role.ASSISTANT:
            return
        if message.role is Role.TOOL:
            yield message


def _calls_and_results(message: Message, results: Iterable[Message]) -> Iterator[Message]:
    waiting: dict[str, list[Message]] = {}
    for result in results:
        waiting.setdefault(result.tool_call_id, []).append(result)
    calls: list[ToolCall] = []
    answers: list[Message] = []
    for call in message.tool_calls:
        found = waiting.get(call.id)
        result = found.pop(0) if found else Message(Role.TOOL, INTERRUPTED_RESULT)
        sent = replace(
            call,
            id=_unused(call.id, {c.id for c in calls}),
            name=_NOT_IN_NAMES.sub("_", call.name)[:_NAME_LENGTH] or "unknown",
            arguments=sendable_arguments(call.arguments),
        )
        content = result.content
        if parsed_arguments(call.arguments) is None:
            content += f"\n\nThe arguments, as received: {call.arguments}"
        calls.append(sent)
        answers.append(_clean(replace(result, content=content, tool_call_id=sent.id)))
    yield _clean(replace(message, tool_calls=tuple(calls)))
    yield from answers


def _unused(call_id: str, taken: set[str]) -> str:
    wanted = without_surrogates(call_id) or "call"
    number, unused = 1, wanted
    while unused in taken:
        number += 1
        unused = f"{wanted}_{number}"
    return unused


def sendable_arguments(text: str) -> str:
    """Return `text` if it is a JSON object that any server can parse, mended, or `{}`.

    Some servers parse the arguments of past calls and answer 500 to every later request if one
    does not parse: cut text, and escapes of lone surrogates, are such.

    >>> sendable_arguments('{"a": 1}'), sendable_arguments('{"a": '), sendable_arguments("[1]")
    ('{"a": 1}', '{}', '{}')
    """
    value = parsed_arguments(text)
    if not value:
        return "{}"
    whole = json.dumps(value, ensure_ascii=False)
    return without_surrogates(whole) if _SURROGATES.search(whole) else text


def _clean(message: Message) -> Message:
    return replace(
        message,
        content=without_surrogates(message.content),
        reasoning=without_surrogates(message.reasoning),
        extra=_deep_clean(message.extra),
        tool_calls=tuple(
            replace(call, extra=_deep_clean(call.extra)) for call in message.tool_calls
        ),
    )


def _deep_clean(value: Any) -> Any:
    match value:
        case str():
            return without_surrogates(value)
        case Mapping():
            return {without_surrogates(k): _deep_clean(v) for k, v in value.items()}
        case list():
            return [_deep_clean(item) for item in value]
        case _:
            return value
