"""Events on a screen: what is drawn, and what of a stranger's text never is."""

import doctest
import importlib
import io
import json
import os
import pty
import re
import subprocess
import sys
import termios
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from fakes import Clock

from bantam.core.events import (
    Compacted,
    Done,
    Event,
    Failure,
    FileChange,
    Notice,
    ReasoningDelta,
    Replied,
    Request,
    Retry,
    Status,
    Stop,
    TextDelta,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    TurnStart,
    UsageSum,
)
from bantam.core.messages import Message, Role, ToolCall
from bantam.terminal.markdown import Markdown
from bantam.terminal.screen import Screen, one_line
from bantam.terminal.traces import usage_line

_REQUEST: Final = Request(1, 2, 3000)
_CALL: Final = ToolCall("call_1", "shell_exec", '{"command": "ls"}')


def drawn(
    *events: Event,
    in_place: bool = False,
    color: bool = False,
    answers: bool = True,
    environ: Mapping[str, str] | None = None,
) -> str:
    """Return what a screen writes for `events`."""
    out = io.StringIO()
    # A clock that stands still: of an answer's tail the first part alone is drawn as it comes.
    screen = Screen(
        out,
        in_place=in_place,
        color=color,
        answers=answers,
        clock=lambda: 0.0,
        environ=environ or {},
    )
    for event in events:
        screen.show(event)
    return out.getvalue()


def replied(content: str, *calls: ToolCall) -> Replied:
    return Replied(Message(Role.ASSISTANT, content, tool_calls=calls), "stop")


def done(stop: Stop = Stop.FINAL, usage: UsageSum | None = None, error: str = "") -> Done:
    failure = Failure("ModelError", None, error) if error else None
    return Done(stop, 0, None, "", usage or UsageSum(), failure)


# -- the pieces -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([_REQUEST], "...requesting...\n"),
        ([TextDelta("He"), TextDelta("llo"), replied("Hello")], "Hello\n"),
        ([TextDelta("Hello\n"), replied("Hello\n"), done()], "Hello\n"),
        (
            [ReasoningDelta("H"), ReasoningDelta("m."), TextDelta("Yes."), replied("Yes.")],
            "--- reasoning start ---\nHm.\n--- reasoning end ---\nYes.\n",
        ),
        (
            [ReasoningDelta("Hm.\n"), replied("", _CALL)],
            "--- reasoning start ---\nHm.\n--- reasoning end ---\n",
        ),
        (
            [TextDelta("A"), ReasoningDelta("B"), TextDelta("C"), replied("AC")],
            "A\n--- reasoning start ---\nB\n--- reasoning end ---\nC\n",
        ),
        (
            [ToolStarted("1", "shell_exec", {"command": 'echo "é"\nls', "n": 1})],
            '[tool call: shell_exec(command="echo \\"é\\"\\nls", n=1)]\n',
        ),
        ([ToolStarted("1", "fly", '{"to": "Ro')], '[tool call: fly({"to": "Ro)]\n'),
        (
            [ToolOutput("1", "a"), ToolFinished("1", "shell_exec", Status.OK, "a\n\n\nexit: 0")],
            "[tool result: shell_exec]\na\n\n\nexit: 0\n",
        ),
        (
            [ToolFinished("1", "fly", Status.UNKNOWN, "there is no tool\n")],
            "[tool result: fly]\nthere is no tool\n",
        ),
        (
            [ToolFinished("1", "shell_exec", Status.OK, "exit: 0", 0, 1.96)],
            "[tool result: shell_exec]\nexit: 0\n",
        ),
        (
            [ToolFinished("1", "shell_exec", Status.OK, "exit: 0", 0, 2.0)],
            "[tool result: shell_exec, 2.0 s]\nexit: 0\n",
        ),
        (
            [Compacted(124800, 3200, "Goal: x.\nNext: y.\n")],
            "[compacted: 124800 -> 3200 tokens]\nGoal: x.\nNext: y.\n",
        ),
        (
            [Retry(2, 9, 1.24, "503 Service Unavailable")],
            "[retry 2/9 in 1 s: 503 Service Unavailable]\n",
        ),
        (
            [TextDelta("Hel"), Retry(1, 9, 1.0, "cut off"), _REQUEST, TextDelta("Hello")],
            (
                "Hel\n[retry 1/9 in 1 s: cut off]\n[the answer broke off and starts again]\n"
                "...requesting...\nHello"
            ),
        ),
        (
            [TextDelta("Hel"), _REQUEST, Retry(1, 9, 1.0, "busy")],
            "Hel\n...requesting...\n[retry 1/9 in 1 s: busy]\n",
        ),
        (
            [TextDelta("Hel"), Notice("the server says: oh"), Retry(1, 9, 1.0, "busy")],
            (
                "Hel\n[the server says: oh]\n[retry 1/9 in 1 s: busy]\n"
                "[the answer broke off and starts again]\n"
            ),
        ),
        ([TextDelta("Hel"), done(Stop.INTERRUPTED)], "Hel\n[interrupted]\n"),
        ([done(Stop.ERROR, error="401 Unauthorized")], "error: 401 Unauthorized\n"),
        ([TurnStart(None, "m", "http://127.0.0.1", "native"), done()], ""),
        (
            [done(usage=UsageSum(1420, 85, 1000, context=1420, window=200000))],
            (
                "[tokens: 1420 prompt (1000 cached, 420 uncached) + 85 completion"
                " | context: 1420/200000 (0.7%)]\n"
            ),
        ),
    ],
)
def test_each_event_is_drawn_as_the_specification_shows(events: list[Event], expected: str) -> None:
    assert drawn(*events) == expected


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (
            UsageSum(12, 5, context=12, window=100),
            "[tokens: 12 prompt + 5 completion | context: 12/100 (12.0%)]",
        ),
        (
            UsageSum(12, 5, 0, context=12, window=100),
            "[tokens: 12 prompt (0 cached, 12 uncached) + 5 completion | context: 12/100 (12.0%)]",
        ),
        (
            UsageSum(12, 5, 20, context=12, window=100),
            "[tokens: 12 prompt (20 cached, 0 uncached) + 5 completion | context: 12/100 (12.0%)]",
        ),
        (
            UsageSum(12, 5, estimated=True, context=7, window=100),
            "[tokens: ~12 prompt + ~5 completion | context: ~7/100 (7.0%)]",
        ),
    ],
)
def test_the_usage_line_tells_what_was_cached_and_what_was_estimated(
    usage: UsageSum, expected: str
) -> None:
    assert usage_line(usage) == expected


def test_of_a_long_body_200_lines_are_shown_its_head_and_its_end() -> None:
    whole = "\n".join(f"line {n}" for n in range(200))
    assert drawn(ToolFinished("1", "t", Status.OK, whole)) == f"[tool result: t]\n{whole}\n"
    longer = "\n".join(f"line {n}" for n in range(998)) + "\n\nexit: 0"
    lines = drawn(ToolFinished("1", "t", Status.OK, longer)).splitlines()[1:]
    assert len(lines) == 200
    assert lines[:120] == [f"line {n}" for n in range(120)]
    assert lines[120] == "[801 more lines]"
    assert lines[121:] == [*(f"line {n}" for n in range(921, 998)), "", "exit: 0"]


def test_of_a_body_of_201_lines_two_make_room_for_the_line_that_says_so() -> None:
    body = "\n".join(f"line {n}" for n in range(201))
    lines = drawn(ToolFinished("1", "t", Status.OK, body)).splitlines()[1:]
    assert len(lines) == 200
    assert lines[119:122] == ["line 119", "[2 more lines]", "line 122"]


@pytest.mark.parametrize("name", ["command", "path", "offset"])
def test_what_runs_and_where_is_never_cut(name: str) -> None:
    value = int("9" * 3000) if name == "offset" else f"{'x' * 9000}; rm -rf ~"
    shown = drawn(ToolStarted("1", "t", {name: value, "content": "y" * 9000}))
    assert f"{name}={json.dumps(value)}, content=" in shown


def test_the_content_of_a_file_is_cut_in_the_middle_and_that_is_said() -> None:
    content = "first\n" + "x" * 5000 + "\nlast"
    shown = drawn(ToolStarted("1", "write_file", {"path": "a", "content": content, "offset": 7}))
    assert shown.startswith('[tool call: write_file(path="a", content="first\\nxxx')
    assert shown.endswith('xxx\\nlast", offset=7)]\n')
    assert 'x" … 4811 more characters … "x' in shown
    assert len(shown) < 350
    whole = drawn(ToolStarted("1", "write_file", {"content": "x" * 200}))
    assert "…" not in whole


def test_raw_arguments_which_run_nothing_are_cut_in_the_middle() -> None:
    shown = drawn(ToolStarted("1", "t", "a" + "x" * 5000 + "b"))
    assert shown.startswith("[tool call: t(ax")
    assert "x … 3002 more characters … x" in shown
    assert shown.endswith("xb)]\n")


# -- a written file ---------------------------------------------------------------------------


def written(diff: str) -> ToolFinished:
    return ToolFinished("1", "write_file", Status.OK, "done", files=(FileChange("a", 1, 1, diff),))


def test_the_diff_of_a_written_file_follows_its_result() -> None:
    no_end = "\\ No newline at end of file"
    hunk = f"@@ -1,2 +1,2 @@\n a\n-b\n+c\n{no_end}\n"
    assert drawn(written(hunk)) == f"[tool result: write_file]\ndone\n{hunk}"
    assert drawn(written(hunk), color=True) == (
        "\x1b[32m[tool result: write_file]\x1b[0m\n\x1b[2mdone\x1b[0m\n"
        "\x1b[36m@@ -1,2 +1,2 @@\x1b[0m\n\x1b[2m a\x1b[0m\n"
        f"\x1b[31m-b\x1b[0m\n\x1b[32m+c\x1b[0m\n\x1b[2m{no_end}\x1b[0m\n"
    )
    assert drawn(written("")) == "[tool result: write_file]\ndone\n"


def test_of_a_diff_40_lines_are_shown_and_of_a_line_400_characters() -> None:
    lines = [f"+{n}" for n in range(41)]
    assert drawn(written("\n".join(lines[:40]) + "\n")).splitlines()[2:] == lines[:40]
    shown = drawn(written("\n".join(lines) + "\n")).splitlines()[2:]
    assert shown == [*lines[:39], "[2 more lines]"]
    assert drawn(written("+" + "x" * 999 + "\n")).splitlines()[2] == "+" + "x" * 399 + "..."


# -- on a terminal ----------------------------------------------------------------------------


def test_the_request_line_is_erased_in_place() -> None:
    assert drawn(_REQUEST, TextDelta("Hi"), in_place=True) == "...requesting...\r\x1b[KHi"
    assert drawn(_REQUEST, done(), in_place=True) == "...requesting...\r\x1b[K"


def test_the_looks_are_those_of_the_specification() -> None:
    colored: list[tuple[Event, str]] = [
        (ToolStarted("1", "t", {}), "\x1b[33m[tool call: t()]\x1b[0m"),
        (
            ToolFinished("1", "t", Status.OK, "a"),
            "\x1b[32m[tool result: t]\x1b[0m\n\x1b[2ma\x1b[0m",
        ),
        (
            ToolFinished("1", "t", Status.ERROR, "a"),
            "\x1b[32m[tool result: t]\x1b[0m\n\x1b[31ma\x1b[0m",
        ),
        (Retry(1, 9, 1.0, "503"), "\x1b[31m[retry 1/9 in 1 s: 503]\x1b[0m"),
        (Notice("n"), "\x1b[2m[n]\x1b[0m"),
        (done(Stop.ERROR, error="e"), "\x1b[31merror: e\x1b[0m"),
    ]
    assert drawn(_REQUEST, in_place=True, color=True) == "\x1b[1;2m...requesting...\x1b[0m"
    compacted = "\x1b[2m[compacted: 9 -> 1 tokens]\x1b[0m\n\x1b[2ma\x1b[0m"
    colored.append((Compacted(9, 1, "a"), compacted))
    for event, expected in colored:
        assert drawn(event, color=True) == f"{expected}\n"
    assert drawn(ReasoningDelta("a"), ReasoningDelta("b"), replied(""), color=True) == (
        "\x1b[36m--- reasoning start ---\x1b[0m\n\x1b[2mab\x1b[0m\n"
        "\x1b[36m--- reasoning end ---\x1b[0m\n"
    )


def test_a_word_of_reasoning_costs_no_more_than_its_letters() -> None:
    words = [ReasoningDelta("word ")] * 1000
    assert len(drawn(*words, color=True)) < 5100


def test_without_color_nothing_but_the_erasing_is_a_sequence() -> None:
    shown = drawn(
        _REQUEST,
        ReasoningDelta("a"),
        TextDelta("b **c**"),
        replied("b **c**", _CALL),
        ToolStarted("1", "t", {}),
        ToolFinished("1", "t", Status.ERROR, "a", files=(FileChange("a", 1, 1, "+a\n"),)),
        Compacted(9, 1, "a"),
        done(Stop.ERROR, error="e"),
        in_place=True,
    )
    assert shown.count("\r\x1b[K") == 1
    assert "\x1b" not in _MOVES.sub("", shown.replace("\r\x1b[K", ""))


# -- Markdown ---------------------------------------------------------------------------------

_ANSWER: Final = "# Title\n\nSome *words* of it.\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n"
_MOVES: Final = re.compile(r"\x1b\[\d+[AG]\x1b\[J|\x1b\[\d+A|\r\x1b\[J|\x1b\[\d+G\x1b\[J")


def markdown(text: str, width: int = 80) -> str:
    """Return `text` rendered at once."""
    whole = Markdown(width, color=True)
    return "".join([*whole.feed(text), *whole.close()])


def test_an_answer_is_drawn_as_markdown_on_a_terminal_alone() -> None:
    events: list[Event] = [TextDelta(_ANSWER), replied(_ANSWER), done()]
    assert drawn(*events, in_place=True, color=True) == markdown(_ANSWER)
    assert drawn(*events, color=True) == _ANSWER


def test_a_link_is_one_to_a_terminal_that_takes_links() -> None:
    link: list[Event] = [TextDelta("[a](http://b)\n\n")]
    kitty = {"TERM": "xterm-kitty"}
    assert "\x1b]8;id=1;http://b\x1b\\" in drawn(*link, in_place=True, color=True, environ=kitty)
    for how in ({"color": True}, {"in_place": True}, {}):
        assert "\x1b]" not in drawn(*link, environ=kitty, **how)
    assert "\x1b]" not in drawn(*link, in_place=True, color=True)


def test_each_answer_begins_anew() -> None:
    events: list[Event] = [TextDelta("```\nx"), replied("", _CALL), TextDelta("# y\n"), replied("")]
    assert drawn(*events, in_place=True) == "  x\ny\n"


def test_reasoning_between_two_texts_ends_the_first_one() -> None:
    shown = drawn(TextDelta("- a\n"), ReasoningDelta("*b*"), TextDelta("c\n\n"), in_place=True)
    assert shown == "• a\n--- reasoning start ---\n*b*\n--- reasoning end ---\nc\n"


def test_what_was_drawn_of_an_answer_that_broke_off_stays_above_the_line_that_says_so() -> None:
    lost: list[Event] = [TextDelta("- a *b"), Retry(1, 9, 1.0, "cut off"), _REQUEST]
    assert drawn(*lost, TextDelta("c"), replied("c"), in_place=True) == (
        "• a *b\n[retry 1/9 in 1 s: cut off]\r\x1b[K"
        "[retry 1/9 in 1 s: cut off]\n[the answer broke off and starts again]\n"
        "...requesting...\r\x1b[Kc\n"
    )


def test_an_interrupted_answer_ends_with_its_line_and_its_style() -> None:
    shown = drawn(TextDelta("**a"), done(Stop.INTERRUPTED), in_place=True, color=True)
    assert shown == "**a\n\x1b[31m[interrupted]\x1b[0m\n"
    shown = drawn(ReasoningDelta("a"), done(Stop.INTERRUPTED), in_place=True, color=True)
    assert "\x1b[2ma\x1b[0m\n\x1b[36m--- reasoning end" in shown


def test_text_before_a_call_is_markdown_where_the_answer_goes_elsewhere() -> None:
    events: list[Event] = [TextDelta(_ANSWER), replied(_ANSWER, _CALL)]
    assert drawn(*events, in_place=True, color=True, answers=False) == markdown(_ANSWER)


@pytest.mark.parametrize(
    ("size", "columns"), [((0, 0), 80), ((20, 40), 40), ((24, 0), 80), ((0, 33), 33)]
)
def test_an_answer_is_as_wide_as_the_terminal(size: tuple[int, int], columns: int) -> None:
    near, far = pty.openpty()
    os.set_blocking(near, False)
    termios.tcsetwinsize(far, size)
    with os.fdopen(far, "w") as out:
        screen = Screen(out, in_place=True, color=False, answers=True)
        screen.show(TextDelta("***\n"))
    received = os.read(near, 4096).decode()
    os.close(near)
    assert received == "─" * columns + "\r\n"


@pytest.mark.parametrize(
    ("events", "in_place", "loads"),
    [
        ("TextDelta('# a\\n')", True, True),
        ("TextDelta('# a\\n')", False, False),
        ("ReasoningDelta('# a\\n')", True, False),
    ],
)
def test_what_draws_markdown_is_loaded_for_an_answer_on_a_terminal_alone(
    events: str, in_place: bool, loads: bool
) -> None:
    code = (
        "import sys\n"
        "from bantam.core.events import ReasoningDelta, TextDelta\n"
        "from bantam.terminal.screen import Screen\n"
        f"screen = Screen(sys.stderr, in_place={in_place}, color=False, answers=True)\n"
        f"screen.show({events})\n"
        "print(*({'rich', 'markdown_it', 'bantam.terminal.live'} & sys.modules.keys()))"
    )
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert bool(child.stdout.split()) == loads


# -- where the answer goes elsewhere ----------------------------------------------------------


def test_the_text_before_a_call_is_shown_and_the_final_text_is_not() -> None:
    shown = drawn(
        TextDelta("I will look.\n"),
        replied("I will look.\n", _CALL),
        TextDelta("Done."),
        replied("Done."),
        done(),
        answers=False,
    )
    assert shown == "I will look.\n"


def test_a_final_text_that_the_answer_will_not_hold_is_shown() -> None:
    shown = drawn(replied("Paid for."), done(Stop.ERROR, error="cache missed"), answers=False)
    assert shown == "Paid for.\nerror: cache missed\n"


def test_a_final_text_is_not_shown_again_with_a_later_turn_that_fails() -> None:
    first = (replied("All is well."), done())
    for stop in (Stop.ERROR, Stop.INTERRUPTED, Stop.STEP_LIMIT, Stop.BUDGET):
        assert "All is well." not in drawn(*first, done(stop, error="refused"), answers=False)


def test_on_a_terminal_one_blank_line_parts_output_from_its_status() -> None:
    result = ToolFinished("1", "shell_exec", Status.OK, "a\n\n\nexit: 0")
    assert drawn(result, in_place=True) == "[tool result: shell_exec]\na\n\nexit: 0\n"


def test_on_a_terminal_a_blank_line_parts_an_answer_from_a_result_before_it() -> None:
    result = ToolFinished("1", "shell_exec", Status.OK, "\n\nexit: 0")
    assert "exit: 0\n\nDone.\n" in drawn(result, TextDelta("Done."), done(), in_place=True)
    assert "exit: 0\nDone.\n" in drawn(result, TextDelta("Done."), done())
    again = drawn(result, done(Stop.INTERRUPTED), TextDelta("Yes."), done(), in_place=True)
    assert "[interrupted]\nYes.\n" in again


def test_reasoning_is_ended_before_an_answer_that_goes_elsewhere() -> None:
    shown = drawn(ReasoningDelta("Hm."), TextDelta("Done."), answers=False)
    assert shown == "--- reasoning start ---\nHm.\n--- reasoning end ---\n"


# -- what never reaches a terminal ------------------------------------------------------------

_CASES: Final = json.loads((Path(__file__).parent / "cases/text/terminal.json").read_text("utf-8"))


def _expanded(text: str) -> str:
    return re.sub(r"\{\{(.*?)\*(\d+)\}\}", lambda m: m[1] * int(m[2]), text, flags=re.DOTALL)


def _chunks(case: dict[str, Any]) -> list[str]:
    return [_expanded(chunk) for chunk in case.get("chunks", [case["in"]])]


def _failed(text: str) -> Done:
    return done(Stop.ERROR, error=text)


_SINKS: Final[Mapping[str, Callable[[list[str]], list[Event]]]] = {
    "text": lambda chunks: [*map(TextDelta, chunks), replied("")],
    "text by characters": lambda chunks: [*map(TextDelta, "".join(chunks)), replied("")],
    "reasoning": lambda chunks: [*map(ReasoningDelta, chunks), replied("")],
    "tool name": lambda chunks: [ToolStarted("1", "".join(chunks), {})],
    "tool name of a result": lambda chunks: [ToolFinished("1", "".join(chunks), Status.OK, "")],
    "arguments": lambda chunks: [ToolStarted("1", "t", {"command": "".join(chunks)})],
    "broken arguments": lambda chunks: [ToolStarted("1", "t", "".join(chunks))],
    "result": lambda chunks: [ToolFinished("1", "t", Status.ERROR, "".join(chunks))],
    "notice": lambda chunks: [Notice("".join(chunks))],
    "retry": lambda chunks: [Retry(1, 9, 1.0, "".join(chunks))],
    "error": lambda chunks: [_failed("".join(chunks))],
    "summary": lambda chunks: [Compacted(9, 1, "".join(chunks))],
    "diff": lambda chunks: [written("+" + "\n+".join("".join(chunks).split("\n")) + "\n")],
    "diff's sign": lambda chunks: [written("".join(chunks) + "\n")],
    "text of a failed turn": lambda chunks: [replied("".join(chunks)), _failed("e")],
}


_OURS: Final = re.compile(rf"\r\x1b\[K|\x1b\[[0-9;]*m|{_MOVES.pattern}")


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("sink", _SINKS)
def test_no_text_of_a_stranger_acts_on_the_terminal(sink: str, in_place: bool) -> None:
    forbidden = [range(first, last + 1) for first, last in _CASES["forbid_ranges"]]
    answers = sink != "text of a failed turn"
    for case in [*_CASES["vectors"], *_CASES["markdown"]]:
        events = _SINKS[sink](_chunks(case))
        shown = drawn(*events, answers=answers, in_place=in_place, color=in_place)
        shown = _OURS.sub("", shown) if in_place else shown
        for character in set(shown):
            assert not any(ord(character) in codes for codes in forbidden), (case["id"], shown)
        for character in case.get("forbid", []):
            assert character not in shown or case in _CASES["markdown"], case["id"]
        if case in _CASES["vectors"] and not (in_place and sink.startswith("text")):
            assert_in_order(case["keep"], shown)


def assert_in_order(kept: Sequence[str], shown: str) -> None:
    at = 0
    for words in kept:
        at = shown.find(words, at)
        assert at >= 0, (words, shown)


@pytest.mark.parametrize(
    "sink", ["text", "reasoning", "arguments", "result", "notice", "error", "summary"]
)
def test_legitimate_text_is_shown_as_it_is(sink: str) -> None:
    for case in _CASES["legit"]:
        expected = _expanded(case["in"])
        one = expected.replace("\n", "\\n" if sink == "arguments" else " ")
        multiline = sink in ("text", "reasoning", "result", "summary")
        shown = drawn(*_SINKS[sink](_chunks(case)))
        assert (expected if multiline else one) in shown, case["id"]


@pytest.mark.parametrize(
    "event",
    [
        ToolStarted("1", "fly()]\n[tool result: shell_exec", {}),
        ToolStarted("1", "t", "x)]\n[tool result: shell_exec]\nexit: 0"),
        ToolStarted("1", "t", {"a\n[b": "c\n[d"}),
        Notice("a\n[tool result: shell_exec]"),
        Retry(1, 9, 1.0, "503\n[tool result: shell_exec]"),
        done(Stop.ERROR, error="a\n[tool result: shell_exec]"),
    ],
)
def test_a_name_or_a_message_cannot_forge_a_line(event: Event) -> None:
    assert drawn(event).count("\n") == 1


def test_a_line_of_a_file_cannot_forge_one_of_the_screen() -> None:
    assert drawn(written("+a\r\x1b]0;\x07[tool result: x]\n")).count("\n") == 3


@pytest.mark.parametrize("name", ["screen", "traces"])
def test_the_examples_in_docstrings_hold(name: str) -> None:
    result = doctest.testmod(importlib.import_module(f"bantam.terminal.{name}"))
    assert result.attempted
    assert not result.failed


def test_one_line_keeps_the_words_of_all_lines() -> None:
    assert one_line("a\r\nb\x1b[2J\nc") == "a b c"


# -- while nothing happens --------------------------------------------------------------------


def ticking(event: Event, *seconds: float, in_place: bool = True) -> str:
    """Return what a screen writes after `event` while the clock shows `seconds`."""
    out, clock = io.StringIO(), Clock()
    screen = Screen(out, in_place=in_place, color=False, answers=True, clock=clock)
    screen.show(event)
    begun = len(out.getvalue())
    for clock.now in seconds:
        screen.tick()
    return out.getvalue()[begun:]


def test_a_wait_counts_down_in_its_line() -> None:
    shown = ticking(Retry(2, 9, 3.0, "busy"), 0.1, 1.0, 1.1, 2.0, 9.0)
    assert shown == (
        "\r\x1b[K[retry 2/9 in 2 s: busy]\r\x1b[K[retry 2/9 in 1 s: busy]"
        "\r\x1b[K[retry 2/9 in 0 s: busy]"
    )


def test_a_tool_that_runs_on_is_told_until_it_ends() -> None:
    out, clock = io.StringIO(), Clock()
    screen = Screen(out, in_place=True, color=False, answers=True, clock=clock)
    screen.show(ToolStarted("1", "shell_exec", {"command": "make"}))
    for clock.now in (1.0, 2.0, 2.2, 3.0):
        screen.tick()
        screen.show(ToolOutput("1", "."))
    screen.show(ToolFinished("1", "shell_exec", Status.OK, "exit: 0", duration_s=3.5))
    clock.now = 9.0
    screen.tick()
    assert out.getvalue() == (
        '[tool call: shell_exec(command="make")]\n'
        "[shell_exec has run for 2 s]\r\x1b[K[shell_exec has run for 2 s]\r\x1b[K"
        "[shell_exec has run for 3 s]\r\x1b[K"
        "[tool result: shell_exec, 3.5 s]\nexit: 0\n"
    )


def test_the_last_words_before_a_pause_are_drawn_in_it() -> None:
    out, clock = io.StringIO(), Clock()
    screen = Screen(out, in_place=True, color=False, answers=True, clock=clock)
    for part in ("one ", "two"):
        screen.show(TextDelta(part))
    assert out.getvalue() == "one"
    clock.now = 1.0
    screen.tick()
    assert out.getvalue() == "one two"


def test_where_no_line_can_be_erased_time_is_not_shown() -> None:
    assert ticking(Retry(2, 9, 3.0, "busy"), 1.0, in_place=False) == ""


def test_a_status_is_never_wider_than_its_line() -> None:
    shown = ticking(Retry(2, 9, 3.0, "x" * 500), 1.0) + ticking(Retry(2, 9, 3.0, "値" * 500), 1.0)
    assert [len(line) for line in shown.split("\r\x1b[K")[1:]] == [79, 40]
