"""The one repair that every request goes through.

The stored history is what happened: interrupts, crashes and other programs leave holes in it.
`repaired` returns a conversation that any server accepts; it never alters the stored one. So the
interrupt path, the recovery path and the path of an old file are the same code.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any, Final

from bantam.core.messages import (
    INTERRUPTED_RESULT,
    SURROGATES,
    Message,
    Role,
    ToolCall,
    parsed_arguments,
    without_surrogates,
)
from bantam.core.text import Profile, sanitized

# What OpenAI's API takes as a function name; a server refuses the whole history for a wrong one.
_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9_-]")
_NAME_LENGTH: Final = 64
_QUOTED_CHARACTERS: Final = 10_000  # of arguments that did not parse: a whole file may be in them


def repaired(messages: Sequence[Message]) -> list[Message]:
    """Return `messages` as every server accepts them (SPEC section 4).

    Each tool call is answered exactly once, directly behind it, under an id that is unique in its
    message; no answer without its call; no assistant message without text and calls; user messages
    in a row joined by a blank line; no lone surrogates; arguments are a JSON object, and text that
    was none is quoted in the call's result. Pure; idempotent. A longer history keeps the result of
    a shorter one as its beginning, but for a last user message that grows, if no call of the
    shorter one was still to be answered.
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
            case Role.ASSISTANT:
                yield _clean(message)
            case _:
                yield _alone(message)


def _results_after(messages: Sequence[Message], index: int) -> Iterator[Message]:
    """Yield the tool messages that may answer the assistant message at `index`.

    A person may have spoken before the result came, but not the model: it never saw that result.
    """
    for later in range(index + 1, len(messages)):
        message = messages[later]
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
        # Of two results the first counts: it is the one that an earlier request held.
        result = found.pop(0) if found else Message(Role.TOOL, INTERRUPTED_RESULT)
        sent = ToolCall(
            id=_unused(call.id, {c.id for c in calls}),
            name=_NOT_IN_NAMES.sub("_", call.name)[:_NAME_LENGTH] or "unknown",
            arguments=sendable_arguments(call.arguments),
            extra=_deep_clean(call.extra),
        )
        content = result.content
        quote = quoted_arguments(call.arguments)
        if not content.endswith(quote):  # the result of the check has it already
            content += quote
        calls.append(sent)
        answers.append(replace(_alone(replace(result, content=content)), tool_call_id=sent.id))
    yield _clean(replace(message, tool_calls=tuple(calls)))
    yield from answers


def quoted_arguments(text: str) -> str:
    r"""Return what a call's result ends with so that the model sees arguments that did not parse.

    They are sanitised and cut in the middle; "" for those that parse.

    >>> quoted_arguments('{"command": "ls'), quoted_arguments("{}")
    ('\n\nThe arguments, as received: {"command": "ls', '')
    """
    if parsed_arguments(text) is not None:
        return ""
    shown, _ = sanitized(text, Profile.STRICT)
    left_out = len(shown) - _QUOTED_CHARACTERS
    if left_out > 0:
        half = _QUOTED_CHARACTERS // 2
        shown = f"{shown[:half]}\n[{left_out} characters left out]\n{shown[-half:]}"
    return f"\n\nThe arguments, as received: {shown}"


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
    return without_surrogates(whole) if SURROGATES.search(whole) else text


def _alone(message: Message) -> Message:
    """Return a message of another role than the assistant's: it has neither calls nor reasoning."""
    return _clean(Message(message.role, message.content, extra=message.extra))


def _clean(message: Message) -> Message:
    return replace(
        message,
        content=without_surrogates(message.content),
        reasoning=without_surrogates(message.reasoning),
        extra=_deep_clean(message.extra),
    )


def _deep_clean(value: Any) -> Any:
    """Return a JSON value as UTF-8 and strict JSON can hold it."""
    match value:
        case str():
            return without_surrogates(value)
        case Mapping():
            return {without_surrogates(k): _deep_clean(v) for k, v in value.items()}
        case list():
            return [_deep_clean(item) for item in value]
        case float() if not isfinite(value):
            return None
        case _:
            return value
