"""The text of a stored session: what was written is read, and what is no session says why."""

import json
import random
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_messages import SYSTEM, calling, result, said, user

from bantam.core.events import UsageReport
from bantam.core.messages import MAX_DEPTH, Message, Role, ToolCall, to_api
from bantam.sessions.slot import HEAD_BYTES
from bantam.sessions.snapshot import (
    FORMAT,
    About,
    Conversation,
    Damaged,
    TooNew,
    first_line,
    folded,
    parsed,
    parsed_head,
    pieces,
    report_from_json,
)

ABOUT = About(
    project="/home/me/é",
    created="2026-01-02T03:04:05+00:00",
    updated="2026-01-02T04:05:06+00:00",
    endpoint="https://api.example/v1",
    model="m",
    dialect="native",
    summary="What was done",
    generation=4,
)
TRAP = '"messages": [{"role": "user"}], "count": 9, \\"messages\\": ['


def cost(prompt: int = 10, cached: int | None = 4) -> UsageReport:
    return UsageReport(
        prompt=prompt, completion=2, cached=cached, estimated=False, context=prompt, window=0
    )


def conversation(*messages: Message) -> Conversation:
    return Conversation(list(messages), calls=[cost(), cost(20, None)])


def text_of(content: Conversation, about: About = ABOUT) -> bytes:
    return b"".join(pieces("the-id", about, content))


STORED = text_of(
    conversation(SYSTEM, user(f"first {TRAP}\nmore"), calling("a"), result("a", "é"), said("done"))
)

# -- any session ------------------------------------------------------------------------------

TEXTS = st.text(st.characters(exclude_categories=()), max_size=12).filter(
    lambda text: text == json.loads(json.dumps(text))  # JSON joins what are two halves of a pair
) | st.sampled_from(["", "\ud83d", TRAP, '"messages": [', "a\n\u2028\x00b", "\ufeff"])
EXTRAS = st.dictionaries(
    st.sampled_from(["sig", "reasoning_details", "messages", "\ud83d"]),
    TEXTS | st.lists(st.dictionaries(TEXTS, st.integers() | st.booleans(), max_size=2), max_size=2),
    max_size=2,
)
CALLS = st.builds(ToolCall, TEXTS, TEXTS, TEXTS, EXTRAS)
MESSAGES = st.one_of(
    st.builds(
        Message,
        role=st.sampled_from([Role.SYSTEM, Role.USER, Role.ASSISTANT]),
        content=TEXTS,
        reasoning=TEXTS,
        tool_calls=st.lists(CALLS, max_size=3).map(tuple),
        extra=EXTRAS,
    ),
    st.builds(Message, role=st.just(Role.TOOL), content=TEXTS, tool_call_id=TEXTS, extra=EXTRAS),
)
COUNTS = st.integers(0, 10**12)
COSTS = st.builds(
    lambda prompt, completion, cached, estimated: UsageReport(
        prompt=prompt,
        completion=completion,
        cached=cached,
        estimated=estimated,
        context=prompt,
        window=0,
    ),
    COUNTS,
    COUNTS,
    st.none() | COUNTS,
    st.booleans(),
)
CONVERSATIONS = st.builds(
    Conversation, st.lists(MESSAGES, max_size=6), st.booleans(), st.lists(COSTS, max_size=3), COUNTS
)
ABOUTS = st.builds(About, *[TEXTS] * 7, COUNTS)


@given(ABOUTS, CONVERSATIONS)
@settings(max_examples=150, deadline=None)
def test_any_session_that_was_written_is_read(about: About, content: Conversation) -> None:
    text = text_of(content, about)
    about_read, read = parsed(text)
    assert about_read == replace(about, summary=about.summary or first_line(content.messages))
    assert read.messages == content.messages
    assert (read.started, read.calls) == (content.started, content.calls)
    assert read.turns == content.turns
    assert parsed_head(text) == (about_read, len(content.messages))


@given(ABOUTS, CONVERSATIONS)
@settings(max_examples=60, deadline=None)
def test_the_text_is_one_json_object_with_the_messages_in_the_api_s_form(
    about: About, content: Conversation
) -> None:
    value = json.loads(text_of(content, about).decode("utf-8"), parse_constant=pytest.fail)
    assert value["messages"] == [to_api(message) for message in content.messages]
    assert (value["format"], value["version"], value["id"]) == (FORMAT, 1, "the-id")
    assert value["count"] == len(content.messages)
    assert value["usage"]["prompt"] == sum(call.prompt for call in content.calls)


def test_the_members_are_those_of_the_specification_and_the_messages_are_last_but_one() -> None:
    assert list(json.loads(STORED)) == [
        "format",
        "version",
        "id",
        "project",
        "created",
        "updated",
        "endpoint",
        "model",
        "dialect",
        "summary",
        "usage",
        "generation",
        "count",
        "started",
        "turns",
        "messages",
        "calls",
    ]
    assert json.loads(STORED)["usage"] == {
        "prompt": 30,
        "completion": 4,
        "cached": 4,
        "estimated": False,
    }
    assert len(STORED.splitlines()) == 5 + 2


def test_an_empty_conversation_is_one_too() -> None:
    assert parsed(text_of(Conversation())) == (ABOUT, Conversation())


def test_what_is_put_before_the_messages_stands_there_in_the_text() -> None:
    content = conversation(user("u"))
    text_of(content)
    content.append(said("a"))
    text_of(content)
    content.insert_first(SYSTEM)
    assert parsed(text_of(content))[1].messages == [SYSTEM, user("u"), said("a")]


# -- the head ---------------------------------------------------------------------------------


def test_the_head_tells_as_much_as_the_whole_without_it() -> None:
    begin = STORED.index(b'"messages": [\n') + len(b'"messages": [')
    assert parsed_head(STORED[:begin]) == (ABOUT, 5)
    assert parsed_head(STORED[: begin - 1]) is None
    assert parsed_head(STORED[:begin] + b"\xff damaged") == (ABOUT, 5)


def test_the_head_of_a_long_conversation_is_short() -> None:
    content = conversation(*[user("x" * 1000)] * 200)
    assert parsed_head(text_of(content)[:HEAD_BYTES]) == (ABOUT, 200)
    assert parsed_head(text_of(content, replace(ABOUT, summary=""))[:1000]) is not None


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b'[{"role": "user"}]',
        b'{"messages": [',
        b'{"format": "other", "messages": [',
        b'{"count": 5, "started": false, "messages": [',
        b'{"format": "bantam-session", "count": 5, "messages": [',
        b'{"format": "bantam-session", "started": false, "messages": [',
        b'{"format": "bantam-session", "started": false, "count": "5", "messages": [',
        b'{"count": 5 "messages": [',
        b'{"count": 5, "x": "\xff", "messages": [',
        b'[{"count": 5, "messages": [',
        b'{"count": ' + b"1" * 5000 + b', "messages": [',
        b'{"x": ' + b"[" * 50_000 + b"]" * 50_000 + b', "count": 5, "messages": [',
        b'{"format": "bantam-session", "version": 2, "count": 5, "messages": [',
    ],
    ids=range(14),
)
def test_a_head_that_is_not_bantam_s_own_tells_nothing(head: bytes) -> None:
    assert parsed_head(head) is None


# -- other programs' files --------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(json.loads(STORED), indent=2),
        json.dumps(json.loads(STORED), indent="\t", ensure_ascii=False),
        json.dumps(json.loads(STORED), separators=(",", ":")),
        json.dumps(json.loads(STORED), sort_keys=True).replace("\n", "\r\n"),
        "\ufeff" + STORED.decode(),
        "\n \n" + STORED.decode() + "\n\n",
    ],
    ids=["indented", "tabs", "compact", "sorted", "BOM", "blanks"],
)
def test_a_file_in_another_layout_is_read(text: str) -> None:
    assert parsed(text.encode()) == parsed(STORED)
    assert parsed_head(text.encode()) in (None, (ABOUT, 5))


@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_a_bare_array_of_messages_is_read(bom: str) -> None:
    array = [{"role": "system", "content": "S"}, {"role": "user", "content": [{"text": "é"}]}]
    about, content = parsed((bom + json.dumps(array)).encode())
    assert about == About()
    assert content == Conversation([SYSTEM, user("é")])
    assert parsed(b"[]") == (About(), Conversation())


def test_what_a_session_says_about_itself_may_be_absent_or_of_any_type() -> None:
    members = {
        "format": 5,
        "version": "9",
        "project": 5,
        "created": None,
        "model": ["m"],
        "summary": {},
        "usage": "much",
        "generation": "3",
        "count": -5,
        "started": "yes",
        "messages": [{"role": "user", "content": "u"}],
        "calls": None,
    }
    assert parsed(json.dumps(members).encode()) == (About(), Conversation([user("u")]))


@pytest.mark.parametrize("generation", [-1, 2**53 + 1, 1.5, "5"])
def test_a_generation_that_is_no_number_of_things_is_the_first(generation: Any) -> None:
    value = {"messages": [], "generation": generation}
    assert parsed(json.dumps(value).encode())[0].generation == 0


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (5, "no list of messages but 5"),
        (None, "no list of messages but None"),
        ("text", "no list of messages but 'text'"),
        ({}, "no list of messages but None"),
        ({"messages": {}}, "no list of messages but {}"),
        ({"messages": "x" * 200}, "no list of messages but 'x"),
        ([5], "message 1: no message: 5"),
        ({"messages": [{"role": "user"}, []]}, "message 2: no message"),
        ({"messages": [{"role": "king"}]}, "message 1: 'king' is not a valid Role"),
        ({"messages": [{"role": "user", "content": 5}]}, "message 1: not text: 5"),
        ({"messages": [{"role": "assistant", "tool_calls": 5}]}, "message 1: tool_calls is no"),
        ({"messages": [{"role": "assistant", "tool_calls": [5]}]}, "message 1: no tool call: 5"),
        ({"messages": [], "calls": 5}, "calls is no list: 5"),
        ({"messages": [], "calls": {"prompt": 1}}, "calls is no list"),
        ({"messages": [], "calls": [5]}, "no usage: 5"),
        ({"messages": [], "calls": [{"prompt": "9"}]}, "no count: '9'"),
        ({"messages": [], "calls": [{"completion": -1}]}, "no count: -1"),
        ({"messages": [], "calls": [{"cached": 1.5}]}, "no count: 1.5"),
        ({"messages": [], "turns": "3"}, "no count: '3'"),
        ({"messages": [], "turns": -1}, "no count: -1"),
    ],
    ids=range(20),
)
def test_a_value_that_is_no_session_says_why(value: Any, why: str) -> None:
    with pytest.raises(Damaged) as error:
        parsed(json.dumps(value).encode())
    assert str(error.value).partition(why)[1] == why
    assert len(str(error.value)) <= 200


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "it is empty"),
        (b" \n\t", "it is empty"),
        (b"\xef\xbb\xbf", "it is no JSON: Expecting value"),
        (b"\0" * 100, "it is no JSON: Expecting value"),
        (b"hello", "it is no JSON: Expecting value"),
        (STORED + STORED, "it is no JSON: Extra data"),
        (b'{"messages": ["\xff"]}', "byte 15 is not UTF-8"),
        (STORED.decode().encode("utf-16"), "byte 0 is not UTF-8"),
        (b"[" * 50_000, "it nests too deep"),
        (b"[" * 50_000 + b"]" * 50_000, "it nests too deep"),
        (b'{"a":' * 50_000 + b"1" + b"}" * 50_000, "it nests too deep"),
        (b'{"messages": [], "x": ' + b"[" * 50_000 + b"]" * 50_000 + b"}", "it nests too deep"),
        (
            b'[{"role": "user", "x": ' + b"[" * 200 + b"]" * 200 + b"}]",
            f"message 1: nested deeper than {MAX_DEPTH}",
        ),
        (b'{"messages": [], "generation": ' + b"1" * 5000 + b"}", "Exceeds the limit"),
        (b'[{"role": "user", "x": ' + b"1" * 5000 + b"}]", "Exceeds the limit"),
    ],
    ids=range(15),
)
def test_bytes_that_are_no_session_say_why(data: bytes, why: str) -> None:
    with pytest.raises(Damaged) as error:
        parsed(data)
    assert str(error.value).startswith(why)


def test_a_session_of_a_newer_version_is_not_touched() -> None:
    newer = json.loads(STORED) | {"version": 2, "messages": "elsewhere"}
    with pytest.raises(TooNew, match="version 2"):
        parsed(json.dumps(newer).encode())
    other = {"format": "another program's", "version": 2, "messages": []}
    assert parsed(json.dumps(other).encode()) == (About(), Conversation())


# -- damage -----------------------------------------------------------------------------------


@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_a_file_that_was_cut_at_any_byte_is_damaged_and_never_shorter(bom: bytes) -> None:
    data = bom + STORED.removesuffix(b"\n")
    for length in range(len(data)):
        with pytest.raises(Damaged):
            parsed(data[:length])


def test_a_file_with_a_wrong_bit_is_read_or_damaged() -> None:
    chance = random.Random(12)
    outcomes = set[type]()
    for _ in range(400):
        data = bytearray(STORED)
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        try:
            _, content = parsed(bytes(data))
        except (Damaged, TooNew) as error:
            outcomes.add(type(error))
        else:
            assert len(content.messages) == 5
            outcomes.add(Conversation)
        parsed_head(bytes(data))
    assert {Damaged, Conversation} <= outcomes


@given(st.binary(max_size=60), st.sampled_from([b"", b"[", b'{"messages": [', STORED[:-40]]))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_read_or_damaged(data: bytes, before: bytes) -> None:
    parsed_head(before + data)
    with suppress(Damaged):
        parsed(before + data)


# -- what the values tell ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("messages", "line"),
    [
        ([], ""),
        ([SYSTEM, said("hello")], ""),
        ([SYSTEM, user("one"), user("two")], "one"),
        ([user("\n\n  one  \ntwo")], "one  "),
        ([user(""), user("two")], ""),
        ([user("x" * 300)], "x" * 100),
        ([user("a\ud83d")], "a\ufffd"),
    ],
)
def test_a_session_is_called_by_the_first_line_of_its_first_prompt(
    messages: list[Message], line: str
) -> None:
    assert first_line(messages) == line
    text = text_of(Conversation(messages), replace(ABOUT, summary=""))
    assert parsed(text)[0].summary == line


def test_only_a_user_s_message_is_a_prompt() -> None:
    assert not Conversation([SYSTEM, said("a"), result("a", "b")]).has_prompt
    assert Conversation([user("")]).has_prompt


def test_costs_add_up() -> None:
    usage = conversation().usage
    assert (usage.prompt, usage.completion, usage.cached) == (30, 4, 4)


def test_counts_that_a_provider_left_out_are_zero_and_cached_is_unknown() -> None:
    assert report_from_json({}) == UsageReport(
        prompt=0, completion=0, cached=None, estimated=False, context=0, window=0
    )
    assert report_from_json({"prompt": None, "cached": 0}).cached == 0


# -- the journal's entries --------------------------------------------------------------------


def test_the_entries_of_a_journal_happen_to_a_conversation() -> None:
    content = Conversation([user("u")])
    entries: list[dict[str, Any]] = [
        {"usage": {"prompt": 3}},
        {"message": to_api(calling("a", "b"))},
        {"start": {"id": "a"}},
        {"message": to_api(result("a", "1"))},
        {"message": to_api(user("v")), "turn": 7},
        {"message": to_api(user("a note"))},
        {"unknown": 5},
        {},
    ]
    assert folded(content, entries) == ""
    turn = [calling("a", "b"), result("a", "1"), user("v"), user("a note")]
    assert content.messages == [user("u"), *turn]
    assert content.turns == 7
    assert [call.prompt for call in content.calls] == [3]
    assert not content.started
    assert folded(content, [{"start": None}]) == ""
    assert content.started


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"message": 5}, "line 3: no message: 5"),
        ({"message": {"role": "king"}}, "line 3: 'king' is not a valid Role"),
        ({"usage": []}, "line 3: no usage: []"),
        ({"usage": {"prompt": -1}, "start": {}}, "line 3: no count: -1"),
        ({"turn": "2", "start": {}}, "line 3: no count: '2'"),
    ],
)
def test_behind_an_entry_that_cannot_happen_nothing_does(entry: dict[str, Any], why: str) -> None:
    content = Conversation()
    entries = [{"message": to_api(user("u"))}, entry, {"message": to_api(said("later"))}]
    assert folded(content, entries) == why
    assert content == Conversation([user("u")])
