"""Reasoning beside and inside the text, and the state that providers want back."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bantam.core.events import ReasoningDelta, TextDelta
from bantam.model.reasoning import (
    ProviderState,
    ThinkTags,
    joined_fragments,
    reasoning_of,
    text_of,
)


def told_apart(pieces: list[str]) -> tuple[str, str]:
    """Return reasoning and text of an answer whose content comes in `pieces`."""
    tags = ThinkTags()
    deltas = [delta for piece in pieces for delta in tags.feed(piece)] + tags.close()
    assert all(delta.text for delta in deltas)
    return (
        "".join(d.text for d in deltas if isinstance(d, ReasoningDelta)),
        "".join(d.text for d in deltas if isinstance(d, TextDelta)),
    )


@pytest.mark.parametrize(
    ("content", "reasoning", "text"),
    [
        ("plain", "", "plain"),
        ("<think>why</think>so", "why", "so"),
        ("\n <think>why</think>\n\r\n\nso\n", "why", "so\n"),
        ("<think></think>\n\nso", "", "so"),
        ("<think>why", "why", ""),
        ("<think>why</thin", "why</thin", ""),
        ("<think>a < b </ c</think>so", "a < b </ c", "so"),
        ("<think>a</think>b<think>c</think>", "a", "b<think>c</think>"),
        ("see <think>why</think>", "", "see <think>why</think>"),
        ("<thinking>", "", "<thinking>"),
        ("<thi", "", "<thi"),
        ("  <thi", "", "  <thi"),
        ("\n\n text", "", "\n\n text"),
        ("</think>so", "", "</think>so"),
        (" \n", "", " \n"),
        ("", "", ""),
    ],
)
def test_a_think_block_at_the_start_is_reasoning(content: str, reasoning: str, text: str) -> None:
    assert told_apart([content]) == (reasoning, text)
    assert told_apart(list(content)) == (reasoning, text)


PIECE = st.sampled_from(["<think>", "</think>", "<", "think>", "</", "\n", " ", "a", "<th", "/"])


@given(st.lists(PIECE, max_size=12), st.lists(st.integers(0, 60)))
def test_tags_do_not_depend_on_how_text_is_cut(pieces: list[str], cuts: list[int]) -> None:
    content = "".join(pieces)
    borders = [0, *sorted(min(at, len(content)) for at in cuts), len(content)]
    parts = [content[a:b] for a, b in pairwise(borders)]
    assert told_apart(parts) == told_apart([content])


def test_text_is_not_held_back_once_it_is_certain() -> None:
    tags = ThinkTags()
    assert tags.feed("<th") == []
    assert tags.feed("ink>why") == [ReasoningDelta("why")]
    assert tags.feed(" so <") == [ReasoningDelta(" so ")]
    assert tags.feed("b") == [ReasoningDelta("<b")]
    assert tags.feed("</think>") == []
    assert tags.feed("\n\nso") == [TextDelta("so")]
    assert tags.feed("<") == [TextDelta("<")]


@pytest.mark.parametrize(
    ("delta", "reasoning"),
    [
        ({"reasoning_content": "why"}, "why"),
        ({"reasoning": "why"}, "why"),
        ({"reasoning_text": "why"}, "why"),
        ({"reasoning": "why", "reasoning_content": "why"}, "why"),
        ({"reasoning": "", "reasoning_content": None}, ""),
        ({"reasoning": 5}, ""),
        ({"reasoning_details": [{"text": "a"}, {"summary": "b"}, {"data": "c"}, None]}, "ab"),
        ({"reasoning": "why", "reasoning_details": [{"text": "why"}]}, "why"),
        ({"reasoning_details": {"text": "a"}}, "a"),
        ({"content": [{"type": "thinking", "thinking": "why"}]}, "why"),
        ({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "why"}]}]}, "why"),
        ({"content": [{"type": "reasoning", "summary": [{"text": "why"}]}]}, "why"),
        ({"content": [{"type": "thinking", "thinking": "why"}], "reasoning": "why"}, "why"),
        ({"content": [{"type": "text", "text": "so"}]}, ""),
        ({"content": "so"}, ""),
    ],
)
def test_reasoning_counts_once_under_any_name(delta: dict[str, Any], reasoning: str) -> None:
    assert reasoning_of(delta) == reasoning


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("so", "so"),
        (None, ""),
        (7, ""),
        ([{"type": "text", "text": "s"}, "o"], "so"),
        ([{"text": "so"}], "so"),
        ([{"type": "thinking", "thinking": "why"}, {"type": "text", "text": "so"}], "so"),
        ([{"type": "image_url"}], ""),
    ],
)
def test_text_is_what_is_no_reasoning(content: object, text: str) -> None:
    assert text_of(content) == text


def piece(text: str, **more: object) -> dict[str, Any]:
    return {"type": "reasoning.text", "text": text, "index": 0, **more}


SECRET = {"type": "reasoning.encrypted", "data": "AAAA", "index": 0}
SIGNATURE = {"type": "reasoning.text", "signature": "sig", "index": 0}


@pytest.mark.parametrize(
    ("fragments", "blocks"),
    [
        ([], []),
        ([piece("a")], [piece("a")]),
        ([piece("a"), piece("b"), SIGNATURE], [piece("ab", signature="sig")]),
        (
            [piece("a", signature=None), piece("b", signature="sig")],
            [piece("ab", signature="sig")],
        ),
        (
            [piece("a"), SIGNATURE, piece("b"), SIGNATURE],
            [piece("a", signature="sig"), piece("b", signature="sig")],
        ),
        ([piece("a"), piece("b", index=1)], [piece("a"), piece("b", index=1)]),
        ([piece("a", id="1"), piece("b", id="2")], [piece("a", id="1"), piece("b", id="2")]),
        ([piece("a", id="1"), piece("b", id=None)], [piece("ab", id="1")]),
        ([SECRET, SECRET], [SECRET, SECRET]),
        ([piece("a"), SECRET, piece("b")], [piece("a"), SECRET, piece("b")]),
        (
            [{"type": "s", "summary": "a"}, {"type": "s", "summary": "b"}],
            [{"type": "s", "summary": "ab"}],
        ),
        (
            [{"type": "thinking", "thinking": "a"}, {"type": "thinking", "thinking": "b"}],
            [{"type": "thinking", "thinking": "ab"}],
        ),
        ([piece("a"), {"type": "reasoning.text", "text": None}], [piece("a")]),
        ([piece("a"), "odd", piece("b")], [piece("a"), "odd", piece("b")]),
    ],
)
def test_fragments_of_one_block_become_the_block(fragments: list[Any], blocks: list[Any]) -> None:
    assert joined_fragments(fragments) == blocks


def test_only_known_state_is_kept() -> None:
    state = ProviderState()
    state.add({"role": "assistant", "content": "a", "refusal": None, "annotations": [1]})
    state.add({"audio": None, "reasoning": "why", "tool_calls": [], "reasoning_details": []})
    state.add({"reasoning_details": None, "extra_content": None, "thinking_blocks": "odd"})
    assert state.collected(streamed=True) == {}


def test_values_are_replaced_and_lists_go_on() -> None:
    state = ProviderState()
    state.add({"reasoning_opaque": "a", "reasoning_details": [piece("a")]})
    state.add({"reasoning_opaque": "b", "reasoning_details": [piece("b")]})
    state.add({"extra_content": {"google": {"thought_signature": "c"}}})
    kept = {"reasoning_opaque": "b", "extra_content": {"google": {"thought_signature": "c"}}}
    assert state.collected(streamed=True) == {**kept, "reasoning_details": [piece("ab")]}


def test_the_blocks_of_a_whole_answer_stay_as_they_are() -> None:
    state = ProviderState()
    state.add({"reasoning_details": [piece("a"), piece("b"), SECRET]})
    kept = {"reasoning_details": [piece("a"), piece("b"), SECRET]}
    assert state.collected(streamed=False) == kept
