"""Messages and events without the user's keys: what may be stored, sent and shown of them.

Where nobody has a key, all is handed through as it is.
"""

import json
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any, TypeVar

from bantam.core.events import Event, ReasoningDelta, TextDelta
from bantam.core.generators import if_any, through
from bantam.core.messages import Message, ToolCall, each_text, parsed_arguments
from bantam.core.redaction import Redaction, RedactionFilter

R = TypeVar("R")


def hidden_in(messages: Iterable[Message], redaction: Redaction) -> list[Message]:
    """Return `messages` with a placeholder for each secret, wherever it stands."""
    if not redaction:
        return list(messages)
    return [_message(message, redaction.text) for message in messages]


def discreet(events: Generator[Event, None, R], redaction: Redaction) -> Generator[Event, None, R]:
    """Yield `events` with a placeholder for each secret; return what they return.

    Of a delta the end waits for the next event if a secret may begin there. However this ends,
    `close()` included, `events` are closed.
    """
    if not redaction:
        return (yield from events)
    shown = _Shown(redaction)
    result = yield from through(events, shown.feed)
    yield from shown.close()
    return result


class _Shown:
    """`feed(event) -> events`, `close() -> events`: what is shown of them."""

    def __init__(self, redaction: Redaction) -> None:
        self._redaction = redaction
        self._filter = RedactionFilter(redaction)
        self._kind: type[TextDelta | ReasoningDelta] | None = None  # of the last event

    def feed(self, event: Event) -> Iterator[Event]:
        if not isinstance(event, TextDelta | ReasoningDelta):
            yield from self.close()
            yield _changed(event, self._redaction.text)
            return
        if not event.text:  # it must not part the pieces of a key
            return
        if type(event) is not self._kind:
            yield from self.close()
            self._kind = type(event)
        yield from map(type(event), if_any(self._filter.feed(event.text)))

    def close(self) -> Iterator[Event]:
        if self._kind is not None:
            yield from map(self._kind, if_any(self._filter.close()))
            self._kind = None


def _changed(value: Any, change: Callable[[str], str]) -> Any:
    """Return `value`, an event or of one, with each text in it changed."""
    match value:
        case Enum():
            return value
        case Message():
            return _message(value, change)
        case tuple():
            return tuple(_changed(item, change) for item in value)
    if not is_dataclass(value) or isinstance(value, type):
        return each_text(value, change)
    of_value = {f.name: getattr(value, f.name) for f in fields(value)}
    return replace(value, **{name: _changed(old, change) for name, old in of_value.items()})


def _message(message: Message, change: Callable[[str], str]) -> Message:
    return Message(
        message.role,
        change(message.content),
        change(message.reasoning),
        tuple(_call(call, change) for call in message.tool_calls),
        change(message.tool_call_id),
        each_text(message.extra, change),
    )


def _call(call: ToolCall, change: Callable[[str], str]) -> ToolCall:
    value = parsed_arguments(call.arguments)  # escapes hide a text
    new = each_text(value, change)
    text = change(call.arguments) if new == value else json.dumps(new, ensure_ascii=False)
    return ToolCall(change(call.id), change(call.name), text, each_text(call.extra, change))
