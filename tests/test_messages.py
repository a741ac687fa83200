import copy
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llmrequests import validate

from bantam.core.messages import (
    INTERRUPTED_RESULT,
    MAX_DEPTH,
    Message,
    Role,
    ToolCall,
    from_api,
    is_too_deep,
    parsed_arguments,
    to_api,
)
from bantam.core.repair import quoted_arguments, repaired, sendable_arguments
from bantam.model.dialects.native import Native
from bantam.model.requests import serialised

CASES = [
    json.loads(line)
    for line in (Path(__file__).parent / "cases" / "history.jsonl").read_text("utf-8").splitlines()
]
SYSTEM = Message(Role.SYSTEM, "S")
HIGH = "\ud83d"


def user(text: str) -> Message:
    return Message(Role.USER, text)


def said(text: str) -> Message:
    return Message(Role.ASSISTANT, text)


def calling(*calls: ToolCall | str, text: str = "") -> Message:
    made = (c if isinstance(c, ToolCall) else ToolCall(c, "shell_exec", "{}") for c in calls)
    return Message(Role.ASSISTANT, text, tool_calls=tuple(made))


def result(call_id: str, text: str) -> Message:
    return Message(Role.TOOL, text, tool_call_id=call_id)


def sent(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return what goes over the wire for a conversation."""
    body = serialised(Native().encode(repaired(messages), ()))
    encoded: list[dict[str, Any]] = json.loads(body)["messages"]
    return encoded


def short(messages: Sequence[Message]) -> list[tuple[str, str]]:
    """Return the id or the role, and the text, of each message."""
    return [(m.tool_call_id or m.role.value, m.content) for m in repaired(messages)]


# -- the cases --------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_a_public_case_is_fit_to_send_and_keeps_its_text(case: dict[str, Any]) -> None:
    history = [from_api(message) for message in case["messages"]]
    messages = sent(history)
    assert validate(messages) == []
    expect = case["expect"]
    text = json.dumps(messages, ensure_ascii=False)
    for kept in expect.get("keep_text", ()):
        assert kept in text
    for key, value in expect.get("must_contain_json", {}).items():
        assert json.dumps({key: value})[1:-1] in text
    calls = {c["id"]: c["function"] for m in messages for c in m.get("tool_calls", ())}
    for call_id, arguments in expect.get("arguments", {}).items():
        assert calls[call_id]["arguments"] == arguments


# -- the repair, by example -------------------------------------------------------------------


def test_a_conversation_that_is_in_order_is_sent_as_it_is() -> None:
    history = [
        SYSTEM,
        user("go"),
        calling("a", "b", text="Running."),
        result("a", "1"),
        result("b", "2"),
        said("done"),
        user("more"),
    ]
    assert repaired(history) == history
    assert repaired([]) == []


def test_results_stand_behind_their_call_whatever_stood_between() -> None:
    history = [
        calling("a", "b"),
        user("are you there?"),
        result("b", "2"),
        SYSTEM,
        result("a", "1"),
        user("well?"),
    ]
    assert short(history) == [
        ("assistant", ""),
        ("a", "1"),
        ("b", "2"),
        ("user", "are you there?"),
        ("system", "S"),
        ("user", "well?"),
    ]


def test_a_result_before_its_call_or_behind_the_next_answer_is_none_of_it() -> None:
    history = [result("a", "early"), calling("a"), user("u"), said("later"), result("a", "late")]
    assert short(history) == [
        ("assistant", ""),
        ("a", INTERRUPTED_RESULT),
        ("user", "u"),
        ("assistant", "later"),
    ]


def test_an_id_used_again_in_a_later_answer_is_another_call() -> None:
    history = [calling("a"), result("a", "1"), user("u"), calling("a"), result("a", "2")]
    assert repaired(history) == history
    assert short([calling("a"), calling("a"), result("a", "2")]) == [
        ("assistant", ""),
        ("a", INTERRUPTED_RESULT),
        ("assistant", ""),
        ("a", "2"),
    ]


def test_ids_become_unique_in_their_message_and_results_follow_in_their_order() -> None:
    history = [
        calling("a", "", "a", "a_2", "a", ""),
        result("a", "first"),
        result("", "second"),
        result("a", "third"),
        result("a_2", "fourth"),
        result("a", "fifth"),
    ]
    fixed = repaired(history)
    assert [call.id for call in fixed[0].tool_calls] == [
        "a",
        "call",
        "a_2",
        "a_2_2",
        "a_3",
        "call_2",
    ]
    assert [m.tool_call_id for m in fixed[1:]] == [call.id for call in fixed[0].tool_calls]
    texts = ["first", "second", "third", "fourth", "fifth", INTERRUPTED_RESULT]
    assert [m.content for m in fixed[1:]] == texts


def test_of_two_results_of_one_call_the_first_counts() -> None:
    assert short([calling("a"), result("a", "1"), result("a", "2")])[1:] == [("a", "1")]


@pytest.mark.parametrize("text", ["", " ", "\n\t", "\u00a0\u2028"])
def test_an_answer_without_text_and_calls_is_left_out_with_its_reasoning(text: str) -> None:
    empty = Message(Role.ASSISTANT, text, reasoning="hm", extra={"reasoning_details": [1]})
    assert short([user("a"), empty, user("b")]) == [("user", "a\n\nb")]


def test_an_answer_with_calls_and_no_text_has_empty_content() -> None:
    null = {"role": "assistant", "content": None, "tool_calls": [CASES[2]["messages"][2]]}
    null["tool_calls"] = CASES[2]["messages"][2]["tool_calls"]
    assert sent([from_api(null)])[0]["content"] == ""


def test_user_messages_in_a_row_are_joined_by_a_blank_line() -> None:
    history = [user("a"), user("b"), result("x", "stray"), user("c"), said("d"), user("e")]
    assert short(history) == [("user", "a\n\nb\n\nc"), ("assistant", "d"), ("user", "e")]


def test_only_an_answer_has_calls_and_reasoning() -> None:
    call = ToolCall("a", "ls", "{}")
    odd = [
        Message(role, "text", reasoning="why", tool_calls=(call,), tool_call_id="a")
        for role in (Role.SYSTEM, Role.USER)
    ]
    assert [set(message) for message in sent(odd)] == [{"role", "content"}] * 2
    tool = Message(Role.TOOL, "out", reasoning="why", tool_calls=(call,), tool_call_id="a")
    assert set(sent([calling("a"), tool])[1]) == {"role", "content", "tool_call_id"}


@pytest.mark.parametrize(
    ("name", "fit"),
    [
        ("shell_exec", "shell_exec"),
        ("a-B_9", "a-B_9"),
        ("", "unknown"),
        ("functions.shell_exec", "functions_shell_exec"),
        ("rm -rf /", "rm_-rf__"),
        ("名前", "__"),
        (HIGH, "_"),
        ("x" * 65, "x" * 64),
    ],
)
def test_a_name_that_an_api_would_refuse_is_made_fit(name: str, fit: str) -> None:
    assert repaired([calling(ToolCall("a", name, "{}"))])[0].tool_calls[0].name == fit


def test_arguments_that_do_not_parse_are_sent_empty_and_quoted_in_the_result() -> None:
    broken = '{"command": "ls'
    history = [calling(ToolCall("a", "shell_exec", broken)), result("a", "the arguments are cut")]
    fixed = repaired(history)
    assert fixed[0].tool_calls[0].arguments == "{}"
    assert fixed[1].content == f"the arguments are cut\n\nThe arguments, as received: {broken}"
    assert broken in repaired(history[:1])[1].content


def test_a_result_that_quotes_its_arguments_already_is_sent_as_it_is() -> None:
    broken = '{"command": "ls\x1b\u202e'
    history = [
        calling(ToolCall("a", "shell_exec", broken)),
        result("a", f"cut{quoted_arguments(broken)}"),
    ]
    assert repaired(history)[1] == history[1]


@pytest.mark.parametrize(
    ("arguments", "quoted"),
    [
        ("{}", None),
        ("", None),
        ('{"a": "\x1b[2J\u3164\ud800\r\n', '{"a": "[2J\n'),
        ("x" * 10_000, "x" * 10_000),
        (
            "a" * 5_000 + "é" * 7 + "b" * 5_000,
            "a" * 5_000 + "\n[7 characters left out]\n" + "b" * 5_000,
        ),
    ],
    ids=range(5),
)
def test_arguments_are_quoted_sanitised_and_without_their_middle_where_they_are_long(
    arguments: str, quoted: str | None
) -> None:
    expected = "" if quoted is None else f"\n\nThe arguments, as received: {quoted}"
    assert quoted_arguments(arguments) == expected


def test_the_repair_alters_nothing_that_it_was_given() -> None:
    extra = {"details": [{"signature": f"s{HIGH}"}]}
    history = [
        Message(Role.USER, f"a{HIGH}", extra=extra),
        user("b"),
        calling(ToolCall("a", "x y", "{", extra)),
    ]
    before = copy.deepcopy(history)
    repaired(history)
    assert history == before


def test_no_lone_surrogate_is_left_anywhere() -> None:
    extra = {f"k{HIGH}": [f"v{HIGH}", {"deep": f"w{HIGH}"}, 1, None, True, 1.5]}
    call = ToolCall(f"i{HIGH}", f"n{HIGH}", f'{{"a": "{HIGH}"}}', extra)
    answer = Message(Role.ASSISTANT, HIGH, reasoning=HIGH, tool_calls=(call,), extra=extra)
    history = [Message(Role.SYSTEM, HIGH), user(HIGH), answer, result(f"i{HIGH}", HIGH)]
    fixed = repaired(history)
    json.dumps([to_api(m) for m in fixed], ensure_ascii=False).encode()
    assert fixed[2].extra["k\ufffd"] == ["v\ufffd", {"deep": "w\ufffd"}, 1, None, True, 1.5]
    assert fixed[3].content == "\ufffd"


def test_numbers_that_json_has_no_word_for_are_null_in_members_of_a_provider() -> None:
    extra = {"logprobs": [float("nan"), float("inf"), 0.5]}
    assert repaired([Message(Role.USER, "a", extra=extra)])[0].extra == {
        "logprobs": [None, None, 0.5]
    }


def test_members_of_a_provider_go_back_unchanged() -> None:
    signature = {"google": {"thought_signature": "c2ln", "n": [1, {"x": None}]}}
    details = [{"type": "reasoning.encrypted", "data": "é🙂", "index": 0}]
    call = ToolCall("a", "ls", "{}", {"extra_content": signature})
    answer = Message(Role.ASSISTANT, "", "", (call,), extra={"reasoning_details": details})
    message = sent([answer])[0]
    assert message["tool_calls"][0]["extra_content"] == signature
    assert message["reasoning_details"] == details


# -- arguments --------------------------------------------------------------------------------

GOOD_ARGUMENTS = [
    ("", {}),
    (" \n", {}),
    ("{}", {}),
    ('{"a": 1}', {"a": 1}),
    (' {"a": {"b": [1.5, true, null, "x"]}} \n', {"a": {"b": [1.5, True, None, "x"]}}),
    ('{"a": 1, "a": 2}', {"a": 2}),
    ('{"a": "\\ud83d\\ude42"}', {"a": "🙂"}),
    ('{"a": 18446744073709551616}', {"a": 2**64}),
    ('{"a": 1e300}', {"a": 1e300}),
    ('{"a": ' * (MAX_DEPTH - 1) + "{}" + "}" * (MAX_DEPTH - 1), None),
    ('{"a": "' + "{" * 500 + '"}', {"a": "{" * 500}),
]
BAD_ARGUMENTS = [
    '{"a": ',
    '{"a": "cut',
    "null",
    "[]",
    "[1]",
    '"ls"',
    "5",
    "ls -la",
    "{'a': 1}",
    '{"a": 1} {"b": 2}',
    '{"a": 1}}',
    '\ufeff{"a": 1}',
    '{"a": NaN}',
    '{"a": -Infinity}',
    '{"a": 1e999}',
    '{"a": -1e999}',
    '{"a": 1' + "0" * 400 + "}",
    '{"a": ' + "9" * 5000 + "}",
    '{"a": ' * MAX_DEPTH + "{}" + "}" * MAX_DEPTH,
    '{"a": ' + "[" * 5000 + "]" * 5000 + "}",
    '{"a": ' * 100_000,
    "[" * 100_000,
    '{"a": "raw\nnewline"}',
]


@pytest.mark.parametrize(("text", "value"), GOOD_ARGUMENTS, ids=range(len(GOOD_ARGUMENTS)))
def test_an_object_is_parsed_and_sent_as_it_was_received(
    text: str, value: dict[str, Any] | None
) -> None:
    found = parsed_arguments(text)
    assert found is not None
    assert value is None or found == value
    assert sendable_arguments(text) == (text if found else "{}")


@pytest.mark.parametrize("text", BAD_ARGUMENTS, ids=range(len(BAD_ARGUMENTS)))
def test_what_some_server_could_not_parse_is_no_object_and_never_sent(text: str) -> None:
    assert parsed_arguments(text) is None
    assert sendable_arguments(text) == "{}"
    fixed = repaired([calling(ToolCall("a", "ls", text))])
    assert validate([to_api(message) for message in fixed]) == []
    assert fixed[1].content.endswith(quoted_arguments(text))


@pytest.mark.parametrize(
    ("text", "mended"),
    [
        ('{"a": "\\ud83d"}', {"a": "\ufffd"}),
        ('{"a": "x\\udc00y", "b": 1e5}', {"a": "x\ufffdy", "b": 1e5}),
        ('{"\\ud800": 1}', {"\ufffd": 1}),
        (f'{{"a": "{HIGH}"}}', {"a": "\ufffd"}),
        (f'{{"a": "{HIGH}\\ude42"}}', {"a": "\ufffd\ufffd"}),
        ('{"a": ["\\ud800", {"b": "\\ud800"}]}', {"a": ["\ufffd", {"b": "\ufffd"}]}),
    ],
)
def test_lone_surrogates_in_arguments_are_replaced(text: str, mended: dict[str, Any]) -> None:
    assert json.loads(sendable_arguments(text)) == mended


def test_the_same_arguments_parse_however_deep_the_caller_stands() -> None:
    deepest = GOOD_ARGUMENTS[9][0]

    def at(depth: int) -> str:
        return sendable_arguments(deepest) if depth == 0 else at(depth - 1)

    assert at(0) == at(500) == deepest


@pytest.mark.parametrize(
    ("value", "deep"),
    [
        (1, False),
        ([], False),
        ({"a": [{"b": 1}]}, False),
        (json.loads("[" * MAX_DEPTH + "1" + "]" * MAX_DEPTH), False),
        (json.loads("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1)), True),
        (json.loads('{"a":' * (MAX_DEPTH + 1) + "1" + "}" * (MAX_DEPTH + 1)), True),
    ],
    ids=range(6),
)
def test_a_value_is_too_deep_beyond_the_bound(value: Any, deep: bool) -> None:
    assert is_too_deep(value) is deep


# -- the API form -----------------------------------------------------------------------------


def test_a_null_says_nothing_and_is_dropped() -> None:
    api = {
        "role": "assistant",
        "content": None,
        "refusal": None,
        "audio": None,
        "function_call": None,
        "reasoning_content": None,
        "annotations": [],
        "tool_calls": [
            {
                "id": "a",
                "type": "function",
                "index": 0,
                "extra_content": None,
                "function": {"name": "ls", "arguments": None},
            }
        ],
    }
    message = from_api(api)
    assert message == Message(
        Role.ASSISTANT, tool_calls=(ToolCall("a", "ls", ""),), extra={"annotations": []}
    )
    assert set(to_api(message)) == {"role", "content", "tool_calls", "annotations"}


def test_members_of_a_provider_never_stand_in_for_the_api_s() -> None:
    shadow = {
        "role": "system",
        "content": "evil",
        "tool_calls": [],
        "tool_call_id": "b",
        "reasoning_content": "evil",
        "id": "b",
        "type": "evil",
        "function": {},
        "index": 7,
    }
    answer = Message(
        Role.ASSISTANT, "good", tool_calls=(ToolCall("a", "ls", "{}", shadow),), extra=shadow
    )
    api = to_api(answer)
    assert (api["role"], api["content"], len(api["tool_calls"])) == ("assistant", "good", 1)
    assert "reasoning_content" not in api
    assert "tool_call_id" not in api
    function = {"name": "ls", "arguments": "{}"}
    call = api["tool_calls"][0]
    assert call["id"] == "a"
    assert call["type"] == "function"
    assert call["function"] == function
    assert "index" not in call
    tool = to_api(replace(result("a", "out"), extra=shadow))
    assert tool["tool_call_id"] == "a"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, ""),
        ("", ""),
        ("a", "a"),
        ([], ""),
        ([{"type": "text", "text": "a"}, "b", {"type": "text", "text": "c"}], "abc"),
        ([{"type": "image_url", "image_url": {"url": "data:"}}, {"text": 5}, None, 3], ""),
        ([[["nested"]]], ""),
    ],
)
def test_content_is_text_or_typed_parts_whose_text_counts(content: Any, text: str) -> None:
    assert from_api({"role": "user", "content": content}).content == text


def test_arguments_that_another_program_stored_as_an_object_become_text() -> None:
    call = {"function": {"name": "ls", "arguments": {"a": "é"}}}
    assert from_api({"role": "assistant", "tool_calls": [call]}).tool_calls == (
        ToolCall("", "ls", '{"a": "é"}'),
    )


def test_a_developer_s_message_is_a_system_message() -> None:
    message = from_api({"role": "developer", "content": "S"})
    assert message == SYSTEM
    assert to_api(message) == {"role": "system", "content": "S"}


@pytest.mark.parametrize(
    "api",
    [
        5,
        None,
        "text",
        ["role", "user"],
        {},
        {"role": None},
        {"role": "king"},
        {"role": ["user"]},
        {"role": "user", "content": 5},
        {"role": "user", "content": {"text": "a"}},
        {"role": "assistant", "tool_calls": "ls"},
        {"role": "assistant", "tool_calls": {"id": "a"}},
        {"role": "assistant", "tool_calls": [5]},
        {"role": "assistant", "tool_calls": [{"id": "a"}]},
        {"role": "assistant", "tool_calls": [{"id": "a", "function": "ls"}]},
        {"role": "assistant", "tool_calls": [{"id": 5, "function": {"name": "ls"}}]},
        {"role": "assistant", "tool_calls": [{"function": {"name": "ls", "arguments": 5}}]},
        {"role": "tool", "tool_call_id": 5},
        {"role": "assistant", "reasoning_content": {"a": 1}},
        {"role": "user", "x": json.loads("[" * 200 + "]" * 200)},
        {"role": "user", "content": json.loads("[" * 900 + "]" * 900)},
    ],
    ids=range(21),
)
def test_what_is_no_message_is_refused_as_a_wrong_value(api: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        from_api(api)


# -- properties -------------------------------------------------------------------------------

WORDS = st.sampled_from(["", " ", "\n", "a", "é🙂", HIGH, "\udc00", "\x00", "x\n\ny", "\ufeff"])
IDS = st.sampled_from(["", "a", "b", "a_2", HIGH, "call", "call_2"])
NAMES = st.sampled_from(["", "shell_exec", "x y", "名", HIGH, "n" * 80])
ARGUMENTS = st.sampled_from(
    [text for text, _ in GOOD_ARGUMENTS] + BAD_ARGUMENTS[:19] + ['{"a": "\\ud83d"}']
)
VALUES = st.recursive(
    WORDS | st.integers() | st.none() | st.floats() | st.booleans(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORDS, inner, max_size=2),
    max_leaves=4,
)
EXTRAS = st.dictionaries(
    st.sampled_from(["role", "content", "tool_calls", "id", "function", "type", "sig", HIGH]),
    VALUES,
    max_size=2,
)
CALLS = st.builds(ToolCall, IDS, NAMES, ARGUMENTS, EXTRAS)
MESSAGES = st.builds(
    Message,
    role=st.sampled_from(Role),
    content=WORDS,
    reasoning=WORDS,
    tool_calls=st.one_of(st.just(()), st.lists(CALLS, max_size=4).map(tuple)),
    tool_call_id=IDS,
    extra=EXTRAS,
)
HISTORIES = st.lists(MESSAGES, max_size=9)


@given(HISTORIES)
@settings(max_examples=120, deadline=None)
def test_any_conversation_becomes_one_that_a_strict_server_accepts(
    history: list[Message],
) -> None:
    before = copy.deepcopy(history)
    fixed = repaired(history)
    encoded = [to_api(message) for message in fixed]
    if encoded:
        assert validate(encoded) == []
    json.loads(serialised({"messages": encoded}), parse_constant=pytest.fail)
    assert repaired(fixed) == fixed
    # By text: NaN is unequal to itself.
    assert repr(history) == repr(before)


def may_be_sent(history: Sequence[Message]) -> bool:
    """Whether the loop would send a request here: behind a prompt, or with every call answered."""
    for index, message in enumerate(reversed(history)):
        if message.role is Role.ASSISTANT:
            unanswered = [call.id for call in message.tool_calls]
            for later in history[len(history) - index :]:
                if later.role is Role.TOOL and later.tool_call_id in unanswered:
                    unanswered.remove(later.tool_call_id)
            return not unanswered and index > 0
    return bool(history)


@given(HISTORIES, HISTORIES)
@settings(max_examples=80, deadline=None)
def test_what_was_sent_is_the_beginning_of_what_is_sent_later(
    begin: list[Message], rest: list[Message]
) -> None:
    whole = [*begin, *rest]
    later = [repr(message) for message in repaired(whole)]
    for end in range(len(whole)):
        if not may_be_sent(whole[:end]):
            continue
        earlier = repaired(whole[:end])
        kept = earlier
        if earlier and earlier[-1].role is Role.USER:
            kept = earlier[:-1]
            grown = repaired(whole)[len(kept)]
            assert grown.role is Role.USER
            assert grown.content == earlier[-1].content or grown.content.startswith(
                f"{earlier[-1].content}\n\n"
            )
        assert [repr(message) for message in kept] == later[: len(kept)]


PLAIN = st.builds(
    Message,
    role=st.sampled_from([Role.SYSTEM, Role.USER]),
    content=st.text(max_size=9),
    extra=st.dictionaries(st.sampled_from(["name", "sig"]), st.text(max_size=3), max_size=1),
)
ANSWERS = st.builds(
    Message,
    role=st.just(Role.ASSISTANT),
    content=st.text(max_size=9),
    reasoning=st.text(max_size=9),
    tool_calls=st.lists(
        st.builds(
            ToolCall,
            st.text(max_size=3),
            st.text(max_size=3),
            st.text(max_size=9),
            st.dictionaries(st.just("sig"), st.text(max_size=3), max_size=1),
        ),
        max_size=3,
    ).map(tuple),
    extra=st.dictionaries(st.just("details"), st.lists(st.integers(), max_size=2), max_size=1),
)
RESULTS = st.builds(
    Message, role=st.just(Role.TOOL), content=st.text(max_size=9), tool_call_id=st.text(max_size=3)
)


@given(st.one_of(PLAIN, ANSWERS, RESULTS))
@settings(max_examples=200, deadline=None)
def test_a_message_stored_and_loaded_is_the_same_message(message: Message) -> None:
    stored = json.loads(json.dumps(to_api(message)))
    assert from_api(stored) == message


def test_a_long_conversation_is_repaired_in_time_that_grows_with_it() -> None:
    """One pass: what a step costs does not grow with the square of the steps before it."""
    history: list[Message] = [SYSTEM]
    for number in range(1000):
        history += [calling(f"c{number}"), result(f"c{number}", "x")]
    counted = Counted(history)
    repaired(counted)
    assert counted.looked_at <= 5 * len(history)


class Counted(Sequence[Message]):
    """A conversation that counts how often one of its messages is looked at."""

    def __init__(self, messages: list[Message]) -> None:
        self._messages = messages
        self.looked_at = 0

    def __len__(self) -> int:
        return len(self._messages)

    def __getitem__(self, index: Any) -> Any:
        self.looked_at += 1 if isinstance(index, int) else len(self._messages[index])
        return self._messages[index]
