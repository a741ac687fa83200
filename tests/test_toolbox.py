"""The three gates before a tool runs, and what its result says."""

import json
from collections import Counter
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import pytest

from bantam.core.cancel import Cancel
from bantam.core.errors import Interrupted, ToolError
from bantam.core.events import FileChange, Status
from bantam.core.messages import Message, Role, ToolCall
from bantam.core.repair import quoted_arguments, repaired
from bantam.core.text import Profile, sanitized
from bantam.tools.tool import Result, Run, Tool, Toolbox, UnknownTool

TRAPS = json.loads((Path(__file__).parent / "cases" / "text" / "unicode.json").read_text("utf-8"))[
    "json_trap"
]

WRITE_FORM = (
    'write({"path": <string>, "content": <string>, "offset": <integer> (optional),'
    ' "note": <string> (optional)})'
)


def echo(arguments: Mapping[str, Any], cancel: Cancel) -> Generator[str, None, Result]:
    cancel.check()
    yield "as it comes"
    return Result(json.dumps(dict(arguments), ensure_ascii=False))


def saying(result: Result) -> Run:
    def run(arguments: Mapping[str, Any], cancel: Cancel) -> Generator[str, None, Result]:
        yield from ()
        return result

    return run


def raising(error: Exception) -> Run:
    def run(arguments: Mapping[str, Any], cancel: Cancel) -> Generator[str, None, Result]:
        yield "begun"
        raise error

    return run


def shell(run: Run = echo) -> Tool:
    return Tool("shell", "Run it.", {"command": {"type": "string", "description": "what"}}, run)


WRITE = Tool(
    "write",
    "Write it.",
    {
        "path": {"type": "string"},
        "content": {"type": "string"},
        "offset": {"type": "integer", "default": 0},
        "note": {"type": "string", "default": ""},
    },
    echo,
    verbatim=frozenset({"content"}),
    paths=frozenset({"path"}),
)


def toolbox(profile: Profile = Profile.TEXT) -> Toolbox:
    return Toolbox([shell(), WRITE], profile)


def call(name: str, arguments: object) -> ToolCall:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return ToolCall("id", name, text)


def outcome(run: Run, arguments: object = None) -> tuple[list[str], Result]:
    """Run `shell` with `run`; return the pieces of output and the result."""
    tools = Toolbox([shell(run)])
    checked = tools.check(call("shell", arguments or {"command": "ls"}))
    return returned(tools.run(checked, Cancel()))


def returned(running: Generator[str, None, Result]) -> tuple[list[str], Result]:
    pieces = []
    while True:
        try:
            pieces.append(next(running))
        except StopIteration as stop:
            return pieces, stop.value


# -- the gates --------------------------------------------------------------------------------


def test_the_schema_requires_what_has_no_default() -> None:
    spec = toolbox().specs[1]
    assert spec["type"] == "function"
    assert spec["function"]["name"] == "write"
    assert spec["function"]["description"] == "Write it."
    parameters = spec["function"]["parameters"]
    assert parameters["type"] == "object"
    assert list(parameters["properties"]) == ["path", "content", "offset", "note"]
    assert parameters["properties"]["offset"] == {"type": "integer", "default": 0}
    assert parameters["required"] == ["path", "content"]


def test_an_unknown_tool_is_answered_with_the_tools_there_are() -> None:
    with pytest.raises(UnknownTool) as caught:
        toolbox().check(call("bash", {}))
    assert str(caught.value) == (
        "there is no tool 'bash'; nothing was run. "
        f'The tools are: shell({{"command": <string>}}), {WRITE_FORM}'
    )


TOO_MUCH = "a number is none of JSON's or too large, or there are over 100 levels"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ('{"command": "l', "Unterminated string starting at: line 1 column 13"),
        ('{"a": 1,\n "b" 2}', "Expecting ':' delimiter: line 2 column 6"),
        ("ls", "Expecting value: line 1 column 1"),
        ("{}{}", "Extra data: line 1 column 3"),
        (
            '{"command": "a\nb"}',
            (
                "Invalid control character at: line 1 column 15 "
                r"(in a string, write a line end as \n and a tab as \t)"
            ),
        ),
        ("[]", "it is a list"),
        ('"ls"', "it is a string"),
        ("null", "it is null"),
        ("1", "it is 1"),
        ("true", "it is true"),
        ('{"command": NaN}', TOO_MUCH),
        ('{"command": 1e999}', TOO_MUCH),
        ('{"command": ' + "9" * 5000 + "}", TOO_MUCH),
        ('{"command": ' + "[" * 101 + "]" * 101 + "}", TOO_MUCH),
        ('{"a": ' * 100_000, TOO_MUCH),
    ],
    ids=range(15),
)
def test_arguments_that_are_no_json_object_run_nothing_and_the_error_says_why_and_quotes_them(
    arguments: str, why: str
) -> None:
    with pytest.raises(ToolError) as caught:
        toolbox().check(call("shell", arguments))
    assert str(caught.value) == (
        f"the arguments are not a JSON object: {why}; nothing was run."
        f' Expected: shell({{"command": <string>}}){quoted_arguments(arguments)}'
    )


@pytest.mark.parametrize(
    "wrong",
    [
        call("shell", {}),
        call("shell", {"command": "ls", "x" * 100_000: 1}),
        call("shell", {"command": "ls", "\u3164\ufe0f\U000e0101\ud800\x1b": 1}),
        call("shell", {"command": ["x" * 100_000]}),
        call("shell", "[" + "9" * 100_000),
        call("shell", "9" * 1_000),
        call("shell", '"\x1b[2J\u3164' * 100_000),
        call("x" * 100_000, {}),
        call("\u3164\ufe0f\U000e0101\ud800\x1b", {}),
        call("nosuch", '{"command": "\x1b[2J\u3164'),
        call("write", {"path": "a\0b", "content": ""}),
        call("write", {"path": "", "content": "", "offset": "\u3164"}),
    ],
    ids=range(12),
)
def test_an_error_of_the_check_is_short_clean_and_says_that_nothing_was_run(
    wrong: ToolCall,
) -> None:
    with pytest.raises(ToolError) as caught:
        toolbox().check(wrong)
    text = str(caught.value)
    assert len(text.removesuffix(quoted_arguments(wrong.arguments))) < 600
    assert len(text) < 11_000
    assert "; nothing was run. " in text
    assert sanitized(text, Profile.STRICT) == (text, Counter())
    stored = [
        Message(Role.ASSISTANT, "", tool_calls=(wrong,)),
        Message(Role.TOOL, text, tool_call_id="id"),
    ]
    assert repaired(stored)[1].content == text


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("", "the parameter 'path' is missing"),
        ({"path": "a"}, "the parameter 'content' is missing"),
        ({"path": "a", "content": "", "mode": 1}, "unknown parameter 'mode'"),
        ({"path": 1, "content": ""}, "path=1 is no string"),
        ({"path": "a", "content": None}, "content=null is no string"),
        ({"path": "a", "content": ["x"]}, 'content=["x"] is no string'),
        ({"path": "a", "content": True}, "content=true is no string"),
        ({"path": "a", "content": "", "offset": True}, "offset=true is no integer"),
        ({"path": "a", "content": "", "offset": 1.0}, "offset=1.0 is no integer"),
        ({"path": "a", "content": "", "offset": "1"}, 'offset="1" is no integer'),
        ({"path": "a", "content": "", "offset": None}, "offset=null is no integer"),
        ({"path": "a", "content": "", "offset": "\u202e"}, 'offset="\\u202e" is no integer'),
    ],
)
def test_arguments_that_do_not_fit_are_answered_with_the_form(
    arguments: object, complaint: str
) -> None:
    with pytest.raises(ToolError) as caught:
        toolbox().check(call("write", arguments))
    assert str(caught.value).startswith(complaint)
    assert str(caught.value).endswith(f"Expected: {WRITE_FORM}")


def test_a_long_wrong_value_is_shown_in_part() -> None:
    with pytest.raises(ToolError) as caught:
        toolbox().check(call("shell", {"command": ["x" * 1000]}))
    assert len(str(caught.value)) < 260


def test_defaults_are_filled_in_and_the_order_is_the_schemas() -> None:
    checked = toolbox().check(call("write", {"content": "c", "path": "p"}))
    assert list(checked.arguments.items()) == [
        ("path", "p"),
        ("content", "c"),
        ("offset", 0),
        ("note", ""),
    ]
    assert not checked.removed


def test_given_values_win_over_defaults() -> None:
    checked = toolbox().check(call("write", {"content": "", "path": "p", "offset": -3}))
    assert checked.arguments["offset"] == -3
    assert checked.arguments["content"] == ""


@pytest.mark.parametrize("trap", TRAPS, ids=[trap["id"] for trap in TRAPS])
def test_strings_are_sanitised_after_parsing(trap: dict[str, Any]) -> None:
    checked = toolbox().check(call("shell", trap["arguments"]))
    assert checked.arguments[trap["field"]] in trap["accept"]


@pytest.mark.parametrize(
    ("profile", "content"), [(Profile.TEXT, "\ufeffa\xa0b\f\r\n"), (Profile.STRICT, "ab\n")]
)
def test_only_file_content_follows_the_configured_profile(profile: Profile, content: str) -> None:
    text = "\ufeffa\xa0b\u202e\f\r\n"
    arguments = {"path": text, "content": text, "note": text}
    checked = toolbox(profile).check(call("write", arguments))
    assert checked.arguments["content"] == content
    assert checked.arguments["path"] == checked.arguments["note"] == "ab\n"
    assert checked.removed["\u202e"] == 3


def test_a_nul_in_a_path_is_an_error_and_not_another_file() -> None:
    with pytest.raises(ToolError, match="path holds a NUL"):
        toolbox().check(call("write", {"path": "a\0b", "content": ""}))


# -- the run ----------------------------------------------------------------------------------


def test_what_was_checked_is_what_runs() -> None:
    pieces, result = outcome(echo, '{"command": "echo shown", "command": "echo\\u200b last"}')
    assert pieces == ["as it comes"]
    assert result.text == 'removed 1 character: U+200B x1\n{"command": "echo last"}'


def test_notes_stand_in_front_and_the_exit_line_stays_last() -> None:
    said = Result("\x1b[31mred\x1b[0m\u202e\r\n\n\nexit: 3", Status.OK, exit_code=3)
    _, result = outcome(saying(said), {"command": "x\0"})
    assert result.text.splitlines() == [
        "removed 1 character: U+0000 x1",
        "removed 1 character: U+202E x1, and 2 ANSI sequences",
        "red",
        "",
        "",
        "exit: 3",
    ]


def test_a_clean_result_is_handed_on_whole() -> None:
    said = Result("done\n", Status.OK, 0, (FileChange("a", 1, 0),))
    assert outcome(saying(said)) == ([], said)


@pytest.mark.parametrize("error", [ToolError("no \u202esuch file"), OSError("no such file")])
def test_a_failure_of_the_tool_is_a_result(error: Exception) -> None:
    pieces, result = outcome(raising(error))
    assert pieces == ["begun"]
    assert result.status is Status.ERROR
    assert result.text.splitlines()[-1] == "no such file"


def test_an_error_that_the_system_gives_is_not_shown_without_bound() -> None:
    _, result = outcome(raising(OSError(36, "File name too long", "x" * 100_000)))
    assert result.text.startswith("[Errno 36] File name too long")
    assert len(result.text) < 400


def telling(*pieces: str) -> Run:
    def run(arguments: Mapping[str, Any], cancel: Cancel) -> Generator[str, None, Result]:
        yield from pieces
        return Result("".join(pieces))

    return run


def test_output_is_shown_as_it_comes_without_sequences_and_controls() -> None:
    pieces, _ = outcome(
        telling("a\x1b[3", "1mb\r\n", "c\x1b", "[2Jd\x00\u202e", "e\u200d", "\x1b]0;")
    )
    assert pieces == ["a", "b\n", "c", "d", "e", "0;"]


KEY = "sk-0123456789"


@pytest.mark.parametrize(
    "run",
    [
        telling(f"KEY={KEY}\n"),
        telling(*f"KEY={KEY}\n"),
        telling("KEY=sk-\x0001234\x1b[0m567\u200b89\n"),
        telling(*"KEY=sk-\x0001234\x1b[0m567\u200b89\n"),
    ],
    ids=range(4),
)
def test_no_secret_stands_in_output_or_result_even_where_hidden_characters_cut_it(
    run: Run,
) -> None:
    tools = Toolbox([shell(run)], secrets=[None, KEY])
    pieces, result = returned(tools.run(tools.check(call("shell", {"command": "ls"})), Cancel()))
    assert "".join(pieces) == "KEY=[key]\n"
    assert result.text.splitlines()[-1] == "KEY=[key]"


def test_no_secret_stands_in_the_text_of_a_failure() -> None:
    tools = Toolbox([shell(raising(ToolError(f"cannot read {KEY}")))], secrets=[KEY])
    _, result = returned(tools.run(tools.check(call("shell", {"command": "ls"})), Cancel()))
    assert result.text == "cannot read [key]"


def test_no_secret_stands_in_a_diff() -> None:
    change = FileChange("a", added=1, removed=0, diff=f"@@ -1 +1,2 @@\n KEY={KEY}\n+b\n")
    tools = Toolbox([shell(saying(Result("done", files=(change,))))], secrets=[KEY])
    _, result = returned(tools.run(tools.check(call("shell", {"command": "ls"})), Cancel()))
    assert result.files[0].diff == "@@ -1 +1,2 @@\n KEY=[key]\n+b\n"


def test_what_a_tool_gets_keeps_its_secrets() -> None:
    checked = Toolbox([WRITE], secrets=[KEY]).check(call("write", {"path": "a", "content": KEY}))
    assert checked.arguments["content"] == KEY


def test_a_closed_run_closes_the_tool() -> None:
    closed = []

    def run(arguments: Mapping[str, Any], cancel: Cancel) -> Generator[str, None, Result]:
        try:
            yield "begun"
        finally:
            closed.append(True)
        return Result("")

    tools = Toolbox([shell(run)])
    running = tools.run(tools.check(call("shell", {"command": "ls"})), Cancel())
    next(running)
    running.close()
    assert closed


def test_an_interrupt_is_no_result() -> None:
    tools = toolbox()
    cancel = Cancel()
    cancel.set()
    checked = tools.check(call("shell", {"command": "ls"}))
    with pytest.raises(Interrupted):
        next(tools.run(checked, cancel))


def test_a_key_that_is_called_as_a_tool_is_not_quoted() -> None:
    key = "sk-\\'12345678"  # quotes and backslashes stand escaped in what is quoted
    with pytest.raises(UnknownTool) as raised:
        Toolbox([], secrets=[key]).check(ToolCall("1", f"run {key}", "{}"))
    assert "there is no tool 'run [key]'" in str(raised.value)
