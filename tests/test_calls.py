"""Tool calls from pieces: missing, reused and late indexes, ids and names."""

from typing import Any

import pytest

from bantam.core.messages import ToolCall
from bantam.model.calls import ToolCalls

LS = '{"command":"ls"}'
PWD = '{"command":"pwd"}'


def p(
    index: int | None = None,
    call_id: str | None = None,
    name: str | None = None,
    arguments: object = None,
    **extra: object,
) -> dict[str, Any]:
    """Return a piece of a call without the members that are None."""
    inner = {"name": name, "arguments": arguments}
    function = {key: value for key, value in inner.items() if value is not None}
    outer = {"index": index, "id": call_id, "function": function, **extra}
    return {key: value for key, value in outer.items() if value is not None}


def collected(*events: object) -> tuple[ToolCall, ...]:
    calls = ToolCalls("made_up")
    for pieces in events:
        calls.feed(pieces)
    return calls.collected()


def summary(*events: object) -> list[tuple[str, str, str]]:
    return [(call.id, call.name, call.arguments) for call in collected(*events)]


ONE = [("a", "sh", LS)]
TWO = [("a", "sh", LS), ("b", "sh", PWD)]
NAMELESS_IDS = [("made_up_1", "sh", LS), ("made_up_2", "sh", PWD)]


@pytest.mark.parametrize(
    ("events", "calls"),
    [
        # one call
        ([[p(0, "a", "sh", LS)]], ONE),
        ([[p(0, "a", "sh", "")], [p(0, arguments=LS[:5])], [p(0, arguments=LS[5:])]], ONE),
        ([[p(None, "a", "sh", "")], [p(arguments=LS[:5])], [p(arguments=LS[5:])]], ONE),
        ([[p(0, "a", "sh")], [p(0, "a", arguments=LS[:5])], [p(0, "a", arguments=LS[5:])]], ONE),
        ([[p(0, "a", "sh", "")], [p(0, "", "", LS)]], ONE),
        ([[p(0, "a")], [p(0, name="sh", arguments="")], [p(0, arguments=LS)]], ONE),
        ([[p(None, "a")], [p(name="sh")], [p(arguments=LS)]], ONE),
        ([[p(0, None, "sh", LS[:5])], [p(0, "a", arguments=LS[5:])]], ONE),
        ([[p(0, None, "sh", LS)], [p(0, "a")]], ONE),
        ([[p(None, None, "sh", LS[:5])], [p(None, "a", arguments=LS[5:])]], ONE),
        ([[p(0, "a", "sh", LS[:5])], [p(0, None, "sh", LS[5:])]], ONE),
        ([[p(0, "a", "s")], [p(0, None, "h")], [p(0, arguments=LS)]], ONE),
        ([[p(0, "a", "sh", LS)], [p(0, "a", "sh", "")]], ONE),
        ([[p(0, "a", "sh", LS)], [p(0, "a", "sh", LS)]], ONE),
        ([[p(0, "a", "sh", LS[:5])], [p(1, "a", arguments=LS[5:])]], ONE),
        ([[p(1, "a", "sh", LS[:5])], [p(0, arguments=LS[5:])]], ONE),
        ([[p(0, "a", "sh")], [p(0, "b", arguments=LS[:5])], [p(0, "c", arguments=LS[5:])]], ONE),
        ([[p(0, "a", "sh"), p(0, "a", "sh", LS)]], ONE),
        ([p(0, "a", "sh", LS)], ONE),
        ([[p(None, "a", "sh", {"command": "ls"})]], ONE),
        ([[p(0, "a", "sh", LS[:9])]], [("a", "sh", LS[:9])]),
        # no arguments
        ([[p(0, "a", "sh", "")]], [("a", "sh", "{}")]),
        ([[p(0, "a", "sh", None)]], [("a", "sh", "{}")]),
        ([[p(0, "a", "sh", " \n")]], [("a", "sh", "{}")]),
        ([[p(0, "a", "sh", "null")]], [("a", "sh", "{}")]),
        ([[p(0, "a", "sh", [])]], [("a", "sh", "{}")]),
        ([[p(0, "a", "sh", {})]], [("a", "sh", "{}")]),
        # two calls
        ([[p(0, "a", "sh", LS), p(1, "b", "sh", PWD)]], TWO),
        ([[p(0, "a", "sh", LS), p(0, "b", "sh", PWD)]], TWO),
        ([[p(None, "a", "sh", LS), p(None, "b", "sh", PWD)]], TWO),
        ([[p(0, "a", "sh", LS)], [p(0, "b", "sh", PWD)]], TWO),
        ([[p(0, "a", "sh", LS)], [p(0, "b", arguments=PWD)], [p(0, name="sh")]], TWO),
        ([[p(0, "a", "sh", LS)], [p(0, "b")], [p(0, name="sh", arguments=PWD)]], TWO),
        ([[p(None, "a", "sh", LS)], [p(None, "b", "sh", "")], [p(arguments=PWD)]], TWO),
        ([[p(1, "b", "sh", PWD)], [p(0, "a", "sh", LS)]], TWO),
        (
            [[p(0, "a", "sh")], [p(1, "b", "sh")], [p(0, arguments=LS)], [p(1, arguments=PWD)]],
            TWO,
        ),
        (
            [
                [p(0, "a", "sh", LS[:4]), p(0, "b", "sh", PWD[:4])],
                [p(0, "a", arguments=LS[4:]), p(0, "b", arguments=PWD[4:])],
            ],
            TWO,
        ),
        ([[p(None, "b", "x", LS)], [p(0, "a", "y", PWD)]], [("b", "x", LS), ("a", "y", PWD)]),
        # without ids
        ([[p(None, None, "sh", LS), p(None, None, "sh", PWD)]], NAMELESS_IDS),
        ([[p(0, None, "sh", LS), p(0, None, "sh", PWD)]], NAMELESS_IDS),
        ([[p(0, None, "sh", LS)], [p(1, None, "sh", PWD)]], NAMELESS_IDS),
        ([[p(0, None, "sh", LS)], [p(0, None, "sh", PWD)]], NAMELESS_IDS),
        (
            [[p(None, None, "x"), p(None, None, "y")]],
            [("made_up_1", "x", "{}"), ("made_up_2", "y", "{}")],
        ),
        (
            [[p(None, None, "x", LS)], [p(None, None, "y", "")], [p(arguments=PWD)]],
            [("made_up_1", "x", LS), ("made_up_2", "y", PWD)],
        ),
        # ids that are not unique
        (
            [[p(0, "a", "sh", LS), p(1, "a", "sh", PWD)]],
            [("a", "sh", LS), ("made_up_1", "sh", PWD)],
        ),
        (
            [[p(0, "made_up_1", "x", LS)], [p(1, None, "y", PWD)]],
            [("made_up_1", "x", LS), ("made_up_2", "y", PWD)],
        ),
        # nothing
        ([None, [], [None, "odd", 3], [{}], [p(0)], "odd", [{"function": "odd"}]], []),
    ],
)
def test_pieces_go_to_the_call_they_mean(
    events: list[object], calls: list[tuple[str, str, str]]
) -> None:
    assert summary(*events) == calls


def test_a_call_without_a_name_is_kept_for_the_error_that_it_gets() -> None:
    assert summary([p(0, "a", None, LS)]) == [("a", "", LS)]


def test_unknown_members_of_a_call_are_kept_for_its_provider() -> None:
    signature = {"google": {"thought_signature": "c2ln"}}
    (call,) = collected(
        [p(0, "a", "sh", type="function", extra_content=signature, cache=None)],
        [p(0, arguments=LS, note="late")],
    )
    assert call.extra == {"extra_content": signature, "note": "late"}


def test_arguments_cut_inside_a_surrogate_pair_are_whole_again() -> None:
    (call,) = collected([p(0, "a", "sh", '{"a":"\ud83d')], [p(0, arguments='\ude42"}')])
    assert call.arguments == '{"a":"🙂"}'


def test_the_size_is_that_of_the_arguments_in_bytes() -> None:
    calls = ToolCalls("call")
    calls.feed([p(0, "a", "sh", '{"a":"é')])
    calls.feed([p(0, arguments='\ud83d"}')])
    assert calls.size == len('{"a":"é?"}'.encode())


def test_a_name_in_every_one_of_many_pieces_costs_no_parsing_of_the_whole() -> None:
    content = "}" * 200_000
    pieces = [[p(0, "a", "sh", '{"content":"')]]
    pieces += [[p(0, "a", "sh", content[at : at + 10])] for at in range(0, len(content), 10)]
    assert summary(*pieces, [p(0, "a", "sh", '"}')]) == [("a", "sh", f'{{"content":"{content}"}}')]
