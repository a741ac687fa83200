"""Answers from bytes, streamed or not: the public cases, messages, ends."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from assemble import assembled, parts_of
from bodies import DONE, HI, STOP, answer, data, event, whole
from hypothesis import given
from hypothesis import strategies as st

from bantam.core.events import ReasoningDelta, TextDelta
from bantam.core.messages import Message, Role, ToolCall
from bantam.model.completions import AnswerFailed, Assembler
from bantam.model.sse import MAX_ANSWER_BYTES, AnswerTooLarge
from bantam.model.usage import Usage

CASES = sorted((Path(__file__).parent / "cases" / "sse").glob("*.sse"))
LS = '{"command":"ls"}'


# -- the public cases -------------------------------------------------------------------------


def check(wanted: dict[str, Any], got: dict[str, Any]) -> None:
    """Assert that `got` is what a case wants, under the rules of the cases' README."""
    if wanted["error"] is not None:
        assert got["error"]
        assert wanted["error"] == "*" or wanted["error"].lower() in got["error"].lower()
        assert got["content"].strip().startswith(wanted["content"].strip())
        assert got["reasoning"].strip().startswith(wanted["reasoning"].strip())
        assert got["tool_calls"] == []
        return
    for name in ("content", "reasoning"):
        assert got[name].strip() == wanted[name].strip()
    for name in ("error", "finish_reason", "usage"):
        assert got[name] == wanted[name]
    ids = [call["id"] for call in got["tool_calls"]]
    assert all(ids)
    assert len(set(ids)) == len(ids)
    for call, want in zip(got["tool_calls"], wanted["tool_calls"], strict=True):
        assert want["id"] in ("*", call["id"])
        assert (call["name"], call["arguments"]) == (want["name"], want["arguments"])


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_stream_gives_what_its_case_says_at_every_read_size(path: Path) -> None:
    wanted = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    body = path.read_bytes()
    for size in (0, 1, 2, 3, 7, 64):
        check(wanted, assembled(parts_of(body, size)))


@given(st.sampled_from(CASES), st.lists(st.integers(0, 2500), max_size=8))
def test_an_answer_does_not_depend_on_how_its_bytes_were_cut(path: Path, cuts: list[int]) -> None:
    body = path.read_bytes()
    borders = [0, *sorted(min(at, len(body)) for at in cuts), len(body)]
    parts = [body[a:b] for a, b in pairwise(borders)]
    assert assembled(parts) == assembled([body])


# -- messages ---------------------------------------------------------------------------------


def test_a_message_holds_everything_that_came() -> None:
    body = (
        event({"role": "assistant", "reasoning_content": "why"})
        + event({"content": "<think>and</think>so", "extra_content": {"google": 1}})
        + event({"tool_calls": [{"index": 0, "function": {"name": "sh", "arguments": LS}}]})
        + event({}, "tool_calls", usage={"prompt_tokens": 3})
    )
    assembler = Assembler("call_7")
    deltas = assembler.feed(body) + assembler.close()
    assert deltas == [ReasoningDelta("why"), ReasoningDelta("and"), TextDelta("so")]
    assert assembler.message == Message(
        Role.ASSISTANT,
        content="so",
        reasoning="whyand",
        tool_calls=(ToolCall("call_7_1", "sh", LS),),
        extra={"extra_content": {"google": 1}},
    )
    assert assembler.finish_reason == "tool_calls"
    assert assembler.usage == Usage(3, None, None)
    assert assembler.size == len("whyandso" + LS)


def test_a_whole_answer_gives_the_message_of_a_stream() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "sh", "arguments": LS}}
    message = {"role": "assistant", "reasoning": "why", "content": "so", "tool_calls": [call]}
    assembler = Assembler(content_type="application/json")
    deltas = assembler.feed(whole(message, finish_reason="stop")) + assembler.close()
    assert deltas == [ReasoningDelta("why"), TextDelta("so")]
    assert assembler.message == answer(event(message) + STOP)
    assert (assembler.finish_reason, assembler.done, assembler.events) == ("stop", True, 2)


@pytest.mark.parametrize(
    ("body", "content"),
    [
        # one whole message as an event of a stream
        (data({"choices": [{"message": {"content": "a"}}]}) + DONE, "a"),
        # the message again, beside or behind its deltas
        (event({"content": "a"}) + data({"choices": [{"message": {"content": "a"}}]}) + DONE, "a"),
        # only the first of several alternatives, with or without an index
        (data({"choices": [{"delta": {"content": c}} for c in "ab"]}) + DONE, "a"),
        (data({"choices": [{"index": 1, "delta": {"content": "b"}}]}) + HI + DONE, "hi"),
        (data({"choices": [None]}) + data({"choices": {"delta": {}}}) + HI + DONE, "hi"),
        # a refusal stands for missing text, and never beside text
        (event({"refusal": "No"}) + event({"refusal": ", no."}) + STOP, "No, no."),
        (event({"content": "a", "refusal": "no"}) + STOP, "a"),
        # held back at the end
        (event({"content": "<thi"}) + STOP, "<thi"),
        (event({"content": "\ud83d"}) + event({"content": "\ude42"}) + STOP, "🙂"),
        (event({"content": "a\ud83d"}) + STOP, "a\ufffd"),
        # a body of several JSON texts, or of one array
        (b'{"choices":[{"delta":{"content":"a"}}]}\n{"choices":[{"finish_reason":"stop"}]}', "a"),
        (b"[" + whole({"content": "a"}) + b"]", "a"),
        (whole({"content": "a"}) + b" trailing {", "a"),
        # keep-alives joined to data by a proxy that drops blank lines
        (HI.rstrip() + b"\ndata: : ping\ndata:\n" + STOP, "hi"),
        # what is cut off behind a good end
        (HI + STOP + b'data: {"usage": {"prom', "hi"),
        (HI + event(None, "") + STOP, "hi"),
        (event({"content": "a", "logprobs": float("-inf")}) + STOP, "a"),
    ],
)
def test_the_text_of_an_answer(body: bytes, content: str) -> None:
    for size in (0, 1, 7):
        got = assembled(parts_of(body, size))
        assert (got["content"], got["error"]) == (content, None)
    assert answer(body).content == content


def test_a_message_can_be_had_once_complete_though_the_body_never_ends() -> None:
    assembler = Assembler()
    assembler.feed(event({"content": "<thi"}, "stop"))
    assert assembler.message.content == "<thi"
    assert assembler.close() == [TextDelta("<thi")]
    assert assembler.message.content == "<thi"


def test_the_function_call_of_old_is_one_call_and_not_two_beside_tool_calls() -> None:
    function = {"name": "sh", "arguments": LS}
    both = {"function_call": function, "tool_calls": [{"id": "a", "function": function}]}
    assert answer(event({"function_call": function}) + STOP).tool_calls == (
        ToolCall("call_1", "sh", LS),
    )
    assert answer(event(both) + STOP).tool_calls == (ToolCall("a", "sh", LS),)


def test_reasoning_details_are_joined_in_a_stream_and_kept_in_a_whole_answer() -> None:
    parts = [{"type": "reasoning.text", "text": text, "index": 0} for text in "ab"]
    streamed = b"".join(event({"reasoning_details": [part]}) for part in parts) + STOP
    assert answer(streamed).extra == {"reasoning_details": [{**parts[0], "text": "ab"}]}
    assert answer(streamed).reasoning == "ab"
    whole_answer = answer(whole({"content": "c", "reasoning_details": parts}))
    assert whole_answer.extra == {"reasoning_details": parts}


# -- ends and silences ------------------------------------------------------------------------


def test_only_what_says_something_is_an_event() -> None:
    assembler = Assembler()
    assembler.feed(b": ping\n\ndata:\n\ndata: : ping\n\n" + data({"type": "ping"}) + data(None))
    assert assembler.events == 0
    assembler.feed(HI)
    assert assembler.events == 1
    assembler.feed(data({"usage": {"prompt_tokens": 1}}) + DONE)
    assert assembler.events == 2


def test_an_answer_is_complete_at_its_finish_reason_and_done_at_the_marker() -> None:
    assembler = Assembler()
    assembler.feed(HI)
    assert (assembler.complete, assembler.done) == (False, False)
    assembler.feed(STOP)
    assert (assembler.complete, assembler.done) == (True, False)
    assembler.feed(DONE)
    assert (assembler.complete, assembler.done) == (True, True)
    assert assembler.feed(event({"content": "ghost"}) + data({"error": "ghost"})) == []
    assert assembler.close() == []
    assert assembler.message.content == "hi"


def test_a_json_answer_is_done_before_the_body_ends() -> None:
    assembler = Assembler()
    body = whole({"content": "a"})
    assembler.feed(body[:-1])
    assert not assembler.complete
    assert assembler.feed(body[-1:]) == [TextDelta("a")]
    assert assembler.done


@pytest.mark.parametrize(
    "delta",
    [
        {"content": "x" * 65536},
        {"reasoning": "x" * 65536},
        {"refusal": "x" * 65536},
        {"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": "x" * 65536}}]},
        {"reasoning_details": [{"type": "reasoning.encrypted", "data": "x" * 65536}]},
    ],
    ids=lambda delta: next(iter(delta)),
)
def test_an_answer_of_many_events_is_refused_at_the_bound(delta: dict[str, object]) -> None:
    assembler = Assembler()
    sent = b"data: " + json.dumps({"choices": [{"index": 0, "delta": delta}]}).encode() + b"\n\n"
    with pytest.raises(AnswerTooLarge, match="16 MiB"):
        feed_times(assembler, sent, MAX_ANSWER_BYTES // 65536 + 2)
    assert not assembler.complete


def feed_times(assembler: Assembler, sent: bytes, times: int) -> None:
    for _ in range(times):
        assembler.feed(sent)


def test_calls_and_pieces_without_end_are_refused_before_they_fill_the_memory() -> None:
    call = {"tool_calls": [{"function": {"name": "f", "arguments": "{}"}}] * 100}
    # Two bytes a piece are far from the bound even behind seven eighths of it.
    most = {"content": "x" * (MAX_ANSWER_BYTES * 7 // 16)}
    for delta in (call, {"content": "ab"}):
        assembler = Assembler()
        sent = b"data: " + json.dumps({"choices": [{"delta": most}]}).encode() + b"\n\n"
        feed_times(assembler, sent, 2)
        sent = b"data: " + json.dumps({"choices": [{"delta": delta}]}).encode() + b"\n\n"
        with pytest.raises(AnswerTooLarge):
            feed_times(assembler, sent * 1000, MAX_ANSWER_BYTES // 50_000)


def test_each_piece_of_a_whole_body_is_a_sign_of_life() -> None:
    assembler = Assembler()
    assembler.feed(b"  ")
    assert assembler.events == 0
    assembler.feed(b'{"choi')
    assembler.feed(b" ")
    assembler.feed(b'ces": [')
    assert assembler.events == 2


@pytest.mark.parametrize("name", ["message", "msg", "detail"])
@pytest.mark.parametrize("text", ["event: error\ndata: %s\n\n", "data: %s\n\n", "%s"])
def test_a_bare_message_is_an_error_in_place_of_an_answer(name: str, text: str) -> None:
    with pytest.raises(AnswerFailed, match="overloaded"):
        Assembler().feed((text % json.dumps({name: "overloaded"})).encode())


def test_the_wrapping_of_a_long_answer_does_not_count() -> None:
    assembler = Assembler()
    wrapped = {"choices": [{"index": 0, "delta": {"content": "a"}}], "id": "x" * 65536}
    sent = b"data: " + json.dumps(wrapped).encode() + b"\n\n"
    for _ in range(MAX_ANSWER_BYTES // 65536 + 8):
        assembler.feed(sent)
    assembler.feed(b"data: [DONE]\n\n")
    assert len(assembler.message.content) == MAX_ANSWER_BYTES // 65536 + 8
