"""Events of a stream that are text alone: their short way comes to what the long one does."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bantam.core.errors import ModelError
from bantam.core.events import TextDelta
from bantam.core.messages import Message
from bantam.model.completions import Assembler
from bantam.model.plain import plain_text

END = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


def event(content: Any, **members: Any) -> dict[str, Any]:
    return {
        "id": "1",
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": {"content": content}, "finish_reason": None}],
        **members,
    }


def stream(*events: Any) -> bytes:
    return b"".join(f"data: {json.dumps(each)}\n\n".encode() for each in events)


def read(*events: Any) -> tuple[str, Message | str]:
    """Return the text that was shown, and the message, or what was wrong."""
    answer = Assembler()
    try:
        shown = [*answer.feed(stream(*events)), *answer.close()]
    except ModelError as error:
        return "", str(error)
    text = "".join(delta.text for delta in shown if isinstance(delta, TextDelta))
    return text, answer.message


PIECES = st.sampled_from(
    ["a", "é🙂", "\ud83d", "\ude42", " ", "\n", "", "<think>", "</think>", "x"]
)
DELTAS: Any = st.fixed_dictionaries(
    {"content": PIECES},
    optional={
        "role": st.sampled_from(["assistant", None]),
        "refusal": st.sampled_from([None, "no"]),
        "tool_calls": st.sampled_from([None, []]),
        "reasoning": st.sampled_from([None, "why"]),
    },
)
EVENTS: Any = st.fixed_dictionaries(
    {
        "choices": st.lists(
            st.fixed_dictionaries(
                {"delta": DELTAS},
                optional={
                    "index": st.sampled_from([0, 1, None]),
                    "finish_reason": st.sampled_from([None, "stop"]),
                    "logprobs": st.none(),
                },
            ),
            max_size=2,
        )
    },
    optional={
        "usage": st.sampled_from([None, {"prompt_tokens": 1}]),
        "object": st.sampled_from(["chat.completion.chunk", "error"]),
        "error": st.sampled_from([None, "no"]),
        "model": st.just("m"),
    },
)


@given(st.lists(EVENTS, max_size=6))
@settings(max_examples=150, deadline=None)
def test_the_short_way_comes_to_what_the_long_way_does(events: list[dict[str, Any]]) -> None:
    # A member that nobody knows sends an event the long way, and means nothing.
    assert read(*events, END) == read(*({**each, "x": 0} for each in events), END)


def test_the_plain_events_of_one_read_are_one_delta() -> None:
    answer = Assembler()
    pieces = ["One", " two", " three", " four"]
    deltas = answer.feed(stream(*map(event, pieces)))
    assert deltas == [TextDelta("One"), TextDelta(" two three four")]
    assert answer.events == len(pieces)
    assert answer.feed(stream(event("."), END)) == [TextDelta(".")]
    assert answer.message.content == "One two three four."


@pytest.mark.parametrize(
    "other",
    [
        [event("a")],
        event(""),
        event("a\ud83d"),
        event([{"text": "a"}]),
        event("a", usage={}),
        event("a", timings={}),
        event("a", error="x"),
        event("a", object="error"),
        {"choices": []},
        {"choices": event("a")["choices"] * 2},
        {"choices": ["a"]},
        {"choices": [{"index": 1, "delta": {"content": "a"}}]},
        {"choices": [{"index": 0, "text": "a"}]},
        {"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}]},
        {"choices": [{"delta": {"content": "a", "tool_calls": []}}]},
        {"choices": [{"delta": "a"}]},
        {"content": "a"},
    ],
    ids=repr,
)
def test_any_other_event_goes_the_long_way(other: Any) -> None:
    assert plain_text(event("a")) == "a"
    assert plain_text(event("a", usage=None)) == "a"
    assert plain_text(other) == ""
