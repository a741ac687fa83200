"""What requests send of a conversation that grows: the bytes are those of encoding it anew."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_messages import HISTORIES

from bantam.core.messages import Message, Role, ToolCall
from bantam.core.repair import repaired
from bantam.model.dialects.auto import dialect_named
from bantam.model.dialects.dialect import Tools
from bantam.model.dialects.native import Native
from bantam.model.quirks import Quirks
from bantam.model.requests import serialised
from bantam.model.wire import Wire

SHELL = {"type": "function", "function": {"name": "shell_exec", "parameters": {}}}
DIALECTS = ("native", "dollar", "blocks")


def anew(dialect: str, quirks: Quirks, messages: Sequence[Message], tools: Tools) -> list[Any]:
    encoded = dialect_named(dialect).encode(repaired(quirks.history(messages)), tools)
    items: list[Any] = json.loads(serialised({"messages": quirks.messages(encoded["messages"])}))[
        "messages"
    ]
    return items


def on(wire: Wire, messages: Sequence[Message], tools: Tools = (SHELL,)) -> list[Any]:
    encoded = wire.encoded(messages, tools)
    items: list[Any] = json.loads(b"[%s]" % encoded.messages)
    assert len(items) == encoded.number
    return items


@pytest.mark.parametrize("dialect", DIALECTS)
@given(HISTORIES, st.booleans())
@settings(max_examples=60, deadline=None)
def test_a_conversation_that_grows_is_sent_as_it_would_be_anew(
    dialect: str, history: list[Message], has_system: bool
) -> None:
    quirks = Quirks()
    wire = Wire(dialect_named(dialect), quirks)
    messages = [Message(Role.SYSTEM, "S"), *history] if has_system else history
    for end in range(len(messages) + 1):
        expected = anew(dialect, quirks, messages[:end], [SHELL])
        assert on(wire, messages[:end]) == expected


def step(number: int, text: str = "") -> list[Message]:
    call = ToolCall(f"call_{number}", "shell_exec", json.dumps({"command": f"echo {number}"}))
    return [
        Message(Role.ASSISTANT, text, "thought", tool_calls=(call,)),
        Message(Role.TOOL, f"{number}\nexit: 0", tool_call_id=call.id, extra={"status": "ok"}),
    ]


LONG = [Message(Role.SYSTEM, "S"), Message(Role.USER, "go")]
for each in range(14):
    LONG += step(each)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_stands_before_counts_for_what_is_new(dialect: str) -> None:
    # dollar: behind the tenth command without a word stands a remark.
    wire = Wire(dialect_named(dialect), Quirks())
    for end in range(2, len(LONG) + 1, 2):
        assert on(wire, LONG[:end]) == anew(dialect, Quirks(), LONG[:end], [SHELL])


@pytest.mark.parametrize("dialect", DIALECTS)
def test_another_conversation_other_tools_and_what_is_learned_begin_anew(dialect: str) -> None:
    quirks = Quirks()
    wire = Wire(dialect_named(dialect), quirks)
    # One that was compacted, one that is another's, one that went back and on.
    other = [LONG[0], Message(Role.USER, "a summary"), *step(99), *LONG[4:8]]
    for messages in (LONG, other, LONG[:9], [*LONG[:6], Message(Role.USER, "no")], LONG):
        assert on(wire, messages) == anew(dialect, quirks, messages, [SHELL])
    more = {"type": "function", "function": {"name": "fly", "description": "d", "parameters": {}}}
    assert on(wire, LONG, [more]) == anew(dialect, quirks, LONG, [more])
    quirks.withheld = {"status"}
    assert on(wire, LONG) == anew(dialect, quirks, LONG, [SHELL])
    quirks.left_out = [LONG[4]]
    assert on(wire, LONG) == anew(dialect, quirks, LONG, [SHELL])


class Counting(Native):
    """Native; `encoded` counts messages that it was to encode."""

    encoded = 0

    def encode(self, messages: Sequence[Message], tools: Tools, start: int = 0) -> dict[str, Any]:
        self.encoded += len(messages) - start
        return super().encode(messages, tools, start)


def test_a_message_is_encoded_twice_at_most_however_long_the_conversation_is() -> None:
    dialect = Counting()
    wire = Wire(dialect, Quirks())
    messages = LONG[:2]
    for number in range(200):
        on(wire, messages)
        messages = [*messages, *step(number)]
    assert dialect.encoded <= 2 * len(messages)
