"""The question whether a call may run, by a person at a real pseudo-terminal."""

import shlex
import signal
import termios
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Final

import pytest
from llmserver import LLMServer, Reply, calls, shell, text, write
from processes import eventually
from program import BANTAM, at, done, events, run
from test_repl import press, prompt
from typist import TAKES_KEYS, Typist, typist

from bantam.agent.approval import Answer, Kind, Question
from bantam.core.errors import Interrupted
from bantam.core.messages import ToolCall
from bantam.sessions.store import project_id
from bantam.terminal.asking import Asking, answered
from bantam.terminal.start import Clock
from bantam.terminal.traces import LONG_RUN_S

CTRL_C, CTRL_D, CTRL_Z = "\x03", "\x04", "\x1a"
ASK: Final = ("-o", "approve=ask")
RISKY: Final = ("-o", "approve=risky")
RED, GREEN, CYAN = "red", "green", "cyan"
_QUESTION: Final = "Run? [y]es, [n]o (why), [s]ession: this very command, [a]ll in it, [d]etails:"
_TOKENS: Final = "[tokens: 12 prompt + 5 completion | context: 12/1000 (1.2%)]"
_TWO_STEPS: Final = "[tokens: 24 prompt + 10 completion | context: 12/1000 (1.2%)]"
_DENIED: Final = "denied by the user"
# What would clear the screen, ask for the cursor, ring, set the title, turn the text around.
_HOSTILE: Final = "\x1b[2J\x1b[6n\x07\x1b]0;title\x07\u202e\x9b2J"
_ACTS: Final = (b"\x1b[2J", b"\x1b[6n", b"\x07", b"\x1b]0;", "\u202e".encode(), b"\xc2\x9b")


@contextmanager
def conversation(
    folder: Path,
    replies: Sequence[Reply],
    *options: str,
    env: dict[str, str] | None = None,
    size: tuple[int, int] = (80, 24),
) -> Iterator[tuple[Typist, LLMServer]]:
    """Start a prompt whose model gives `replies`."""
    how = {"env": env, "columns": size[0], "rows": size[1]}
    options = ("-o", "context_window=1000", *options)
    with LLMServer(replies) as server, prompt(folder, server, *options, **how) as one:  # type: ignore[arg-type]
        yield one, server


def asked(one: Typist, number: int = 1) -> None:
    """Wait until so many questions are on the screen and the last one takes keys."""
    one.until(lambda: "\n".join(one.lines).count("Run?") == number)
    one.ready()


def go(one: Typist) -> None:
    """Send a prompt and wait for its first question."""
    one.type("Go.\r")
    asked(one)


def result(server: LLMServer) -> str:
    """Return what the model heard last of a call."""
    message = server.chat[-1].json["messages"][-1]
    assert message["role"] == "tool"
    heard: str = message["content"]
    return heard


def leave(one: Typist) -> None:
    one.ready()
    one.type(CTRL_D)
    assert one.end() == 0


# -- the answers ------------------------------------------------------------------------------


def test_yes_runs_it(tmp_path: Path) -> None:
    with conversation(tmp_path, [shell("echo hi"), text("A.")], *ASK) as (one, server):
        go(one)
        one.looks('[tool call: shell_exec(command="echo hi")]', _QUESTION, below="> Go.")
        press(one, "y\r")
        one.looks(
            '[tool call: shell_exec(command="echo hi")]',
            f"{_QUESTION} y",
            "[tool result: shell_exec]",
            "hi",
            "",
            "exit: 0",
            "",
            "A.",
            _TWO_STEPS,
            ">",
            below="> Go.",
        )
        assert result(server) == "hi\n\n\nexit: 0"
        leave(one)


@pytest.mark.parametrize(
    ("keys", "heard"),
    [
        ("n\r", _DENIED),
        ("\r", _DENIED),
        ("no, use git rm\r", f"{_DENIED}: use git rm"),
        ("n \x1b[200~take\x1b[2J \x07it\x1b[201~\r", f"{_DENIED}: take\x1b[2J \x07it"),
    ],
    ids=["n", "Enter", "a reason", "a hostile reason"],
)
def test_no_refuses_it_and_the_model_hears_why(keys: str, heard: str, tmp_path: Path) -> None:
    with conversation(tmp_path, [shell("touch ran"), text("A.")], *ASK) as (one, server):
        go(one)
        before = len(one.raw)
        press(one, keys)
        assert result(server) == heard
        assert not any(code in one.raw[before:] for code in _ACTS)
        assert "[tool result: shell_exec]" in one.lines
        assert not (tmp_path / "ran").exists()
        leave(one)


def test_session_is_not_asked_again_of_the_same_command_but_of_another(tmp_path: Path) -> None:
    replies = [*map(shell, ("echo 1", "echo 1", "echo 2")), text("A.")]
    with conversation(tmp_path, replies, *ASK) as (one, server):
        go(one)
        one.type("s\r")
        asked(one, 2)
        assert [line for line in one.lines if line.startswith("[tool call")] == [
            f'[tool call: shell_exec(command="echo {number}")]' for number in (1, 1, 2)
        ]
        press(one, "n\r")
        assert result(server) == _DENIED
        leave(one)


def test_all_is_not_asked_again_of_anything(tmp_path: Path) -> None:
    replies = [shell("echo 1"), shell("echo 2"), write("a", "b"), text("A.")]
    with conversation(tmp_path, replies, *ASK) as (one, _):
        go(one)
        press(one, "a\r")
        assert (tmp_path / "a").read_text() == "b"
        leave(one)


def test_details_and_an_odd_answer_are_asked_again(tmp_path: Path) -> None:
    command = "echo 1\necho 2"
    with conversation(tmp_path, [shell(command), text("A.")], *ASK) as (one, server):
        go(one)
        one.type("of course\r")
        asked(one, 2)
        one.type("d\r")
        asked(one, 3)
        assert one.lines[-3:] == ["  echo 1", "  echo 2", _QUESTION]
        press(one, "y\r")
        assert result(server) == "1\n2\n\n\nexit: 0"
        leave(one)


def test_risky_asks_about_what_may_do_harm_alone_and_says_what(tmp_path: Path) -> None:
    replies = [shell("echo 1"), shell("rm a"), text("A.")]
    with conversation(tmp_path, replies, *RISKY) as (one, server):
        go(one)
        call, reason, question = one.lines[-3:]
        assert call == '[tool call: shell_exec(command="rm a")]'
        assert reason.startswith("[deletes")
        assert question == _QUESTION
        press(one, "n keep it\r")
        assert result(server) == f"{_DENIED}: keep it"
        leave(one)


def test_a_live_change_of_the_mode_holds_for_the_next_turn(tmp_path: Path) -> None:
    replies = [shell("echo 1"), text("A."), shell("echo 2"), text("B."), shell("echo 3"), text("C")]
    with conversation(tmp_path, replies) as (one, _):
        press(one, "first\r")
        press(one, "/cfg approve ask\r")
        go(one)
        press(one, "n\r")
        press(one, "/cfg approve auto\r")
        press(one, "last\r")
        assert "\n".join(one.lines).count("Run?") == 1
        leave(one)


# -- keys that are no answer ------------------------------------------------------------------


@pytest.mark.parametrize("key", [CTRL_C, CTRL_D], ids=["Ctrl+C", "Ctrl+D"])
def test_a_key_that_breaks_the_question_off_ends_the_turn(key: str, tmp_path: Path) -> None:
    replies = [calls(*[("shell_exec", {"command": "touch ran"})] * 2), text("A.")]
    with conversation(tmp_path, replies, *ASK) as (one, server):
        go(one)
        one.type(f"y{CTRL_C}" if key == CTRL_C else key)
        one.until(lambda: one.lines[-2:] == ["[interrupted]", ">"])
        assert "interrupted by the user" in one.lines
        assert not (tmp_path / "ran").exists()
        press(one, "again\r")
        heard = [m["content"] for m in server.chat[-1].json["messages"] if m["role"] == "tool"]
        assert heard == ["interrupted by the user"] * 2
        leave(one)


@pytest.mark.parametrize("key", [CTRL_C, CTRL_D], ids=["Ctrl+C", "Ctrl+D"])
def test_a_ctrl_c_within_a_second_of_that_leaves(key: str, tmp_path: Path) -> None:
    with conversation(tmp_path, [shell("touch ran")], *ASK) as (one, _):
        go(one)
        one.type(key)
        one.until(lambda: one.lines[-2:] == ["[interrupted]", ">"])
        one.type(CTRL_C)
        assert one.end() == 130


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_it_ends_the_question(number: int, tmp_path: Path) -> None:
    with conversation(tmp_path, [shell("touch ran")], *ASK) as (one, _):
        go(one)
        one.child.kill(number)
        assert one.end() == 143
    assert not (tmp_path / "ran").exists()


def test_what_was_typed_ahead_is_no_answer_and_is_in_the_editor_afterwards(tmp_path: Path) -> None:
    waits = "touch begun; until test -e enough; do sleep 0.02; done"
    replies = [shell(waits), shell("touch ran"), text("A."), text("B.")]
    with conversation(tmp_path, replies, *ASK) as (one, server):
        go(one)
        one.type("y\r")
        assert eventually((tmp_path / "begun").exists)
        one.type("y\rlater")
        (tmp_path / "enough").touch()
        asked(one, 2)
        assert one.lines[-1] == _QUESTION
        one.type("n\r")
        one.until(lambda: one.lines[-1] == "> y")
        assert result(server) == _DENIED
        one.ready()
        one.type("es\r")
        one.until(lambda: one.lines[-1] == "> later")
        assert not (tmp_path / "ran").exists()
        one.type("\x15")
        leave(one)


def test_another_size_for_a_while_loses_nothing(tmp_path: Path) -> None:
    with conversation(tmp_path, [shell("echo hi"), text("A.")], *ASK) as (one, _):
        go(one)
        before = len(one.raw)
        one.tell_size(40, 12)
        one.until(lambda: len(one.raw) > before)
        one.tell_size(80, 24)
        press(one, "y\r")
        shown = "\n".join(one.lines)
        assert shown.count("[tool call") == shown.count("[tool result") == 1
        leave(one)


def test_ctrl_z_gives_the_shell_its_terminal_and_fg_asks_on(tmp_path: Path) -> None:
    with LLMServer([shell("echo h''i"), text("A.")]) as server:
        program = (*BANTAM, *at(server.url), *ASK)
        (tmp_path / "b").write_text(f"exec {shlex.join(program)}")
        with typist(tmp_path, program=("dash", "-i"), env={"PS1": "$ "}) as one:
            one.looks("$")
            modes = termios.tcgetattr(one.child.child_fd)
            one.type("sh b\r")
            one.until(lambda: one.lines[-1] == ">")
            go(one)
            one.type(CTRL_Z)
            one.until(lambda: one.lines[-1] == "$")
            assert termios.tcgetattr(one.child.child_fd) == modes
            one.type("fg\r")
            one.until(lambda: "$ fg" in one.lines and one.lines[-1] == _QUESTION)
            one.ready()
            press(one, "y\r")
            assert result(server) == "hi\n\n\nexit: 0"
            one.type(CTRL_D)
            one.until(lambda: one.lines[-1] == "$")
            assert termios.tcgetattr(one.child.child_fd) == modes
            one.type("exit\r")
            assert one.end() == 0


# -- what is shown ----------------------------------------------------------------------------


def color_of(one: Typist, line: str) -> str:
    """Return the colour of the first character of `line`."""
    color: str = one.screen.buffer[one.lines.index(line)][2].fg
    return color


def test_a_question_longer_than_the_screen_can_be_answered(tmp_path: Path) -> None:
    path = "/".join(["d" * 200] * 3)
    replies = [write(path, "x"), text("A.")]
    with conversation(tmp_path, replies, *ASK, size=(40, 12)) as (one, _):
        one.type("Go.\r")
        one.until(lambda: "etails:" in flat(one))
        one.ready()
        press(one, "y\r")
        assert (tmp_path / path).read_text() == "x"
        leave(one)


def test_the_diff_of_a_file_is_shown_in_colour_before_the_question(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old\n")
    replies = [write("a.txt", "new\n", del_bytes=4), text("A.")]
    with conversation(tmp_path, replies, *ASK) as (one, _):
        go(one)
        at = one.lines.index("  @@ -1,1 +1,1 @@")
        assert one.lines[at : at + 3] == ["  @@ -1,1 +1,1 @@", "  -old", "  +new"]
        assert one.lines[at + 3].startswith("Run? [y]es, [n]o (why), [s]ession: write_file of /")
        shown = ("  @@ -1,1 +1,1 @@", "  -old", "  +new")
        assert [color_of(one, line) for line in shown] == [CYAN, RED, GREEN]
        assert (tmp_path / "a.txt").read_text() == "old\n"
        press(one, "y\r")
        assert (tmp_path / "a.txt").read_text() == "new\n"
        leave(one)


def test_no_colour_where_none_is_wanted(tmp_path: Path) -> None:
    with conversation(tmp_path, [write("a.txt", "new\n"), text("A.")], *ASK) as (one, _):
        press(one, "/cfg color never\r")
        go(one)
        assert color_of(one, "  +new") == "default"
        press(one, "n\r")
        leave(one)


def test_of_a_long_diff_the_beginning_is_shown_and_with_details_all(tmp_path: Path) -> None:
    content = "".join(f"line {number}\n" for number in range(1, 31))
    with conversation(tmp_path, [write("a", content), text("A.")], *ASK, size=(80, 99)) as (one, _):
        go(one)
        shown = [line for line in one.lines if line.startswith("  +line")]
        assert shown == [f"  +line {number}" for number in range(1, 20)]
        seen = "\n".join(["@@ -0,0 +1,30 @@", *(line.strip() for line in shown)])
        counted = _MORE.format("20+", f"{len(seen)}+")
        assert one.lines[one.lines.index(shown[-1]) + 1] == counted
        one.type("d\r")
        asked(one, 2)
        shown = [line for line in one.lines if line.startswith("  +line")][19:]
        assert shown == [f"  +line {number}" for number in range(1, 31)]
        assert "\n".join(one.lines).count("more than is seen here") == 1
        press(one, "n\r")
        leave(one)


# -- what a screen does not show whole --------------------------------------------------------

_FORGERY: Final = "[tool call: shell_exec(command=ls"
_MORE: Final = "[more than is seen here: lines: {}, characters: {}; d shows all; it begins:]"


def flat(one: Typist) -> str:
    """Return the rows of the screen as one: what wraps is whole again."""
    return "".join(one.screen.display)


@contextmanager
def put_to_a_person(
    folder: Path, reply: Reply, *, size: tuple[int, int], prompts: bool, color: str = "auto"
) -> Iterator[Typist]:
    """Let the model make one call in either mode, and wait for the question; nothing is run."""
    options = (*ASK, "-o", f"color={color}")
    with LLMServer([reply, text("A.")]) as server:
        program = (*BANTAM, *at(server.url), *options, *(() if prompts else ("-p", "Go.")))
        with typist(folder, program=program, columns=size[0], rows=size[1]) as one:
            if prompts:
                one.ready()
                one.type("Go.\r")
            one.until(lambda: at_the_question(one))
            yield one
            one.type("n\r")
            if prompts:
                one.until(lambda: one.lines[-1] == ">")
                one.type(CTRL_D)
            assert one.end() == 0


def at_the_question(one: Typist) -> bool:
    """Whether the last thing on the screen is a question, shown to its end."""
    return flat(one).rstrip().endswith("[d]etails:")


def answer_oddly(one: Typist, keys: str) -> None:
    """Type what brings the question again, and wait for that."""

    def put() -> int:  # how often; the editor draws a question in pieces, the plain reader does not
        return one.raw.count(TAKES_KEYS) or one.raw.count(b"[d]etails: ")

    before = put()
    one.type(keys)
    one.until(lambda: put() > before and at_the_question(one))


def above_the_question(one: Typist, counted: str, begins: str) -> None:
    """Check that `counted` and a row with `begins` stand directly above the question."""
    last = max(n for n, line in enumerate(one.lines) if line.startswith("Run? [y]es"))
    assert one.lines[last - 1].startswith(f"  {begins}")
    needed = -(-len(counted) // one.screen.columns)
    assert "".join(one.screen.display[last - 1 - needed : last - 1]).rstrip() == counted


on_screens = pytest.mark.parametrize("size", [(80, 24), (40, 12)], ids=["80x24", "40x12"])
in_modes = pytest.mark.parametrize("prompts", [True, False], ids=["prompt", "one shot"])


@on_screens
@in_modes
@pytest.mark.parametrize("color", ["always", "never"])
def test_blanks_do_not_push_a_command_off_the_screen(
    size: tuple[int, int], prompts: bool, color: str, tmp_path: Path
) -> None:
    reply = shell(f"rm -rf ~/x #{' ' * 3000}{_FORGERY}")
    with put_to_a_person(tmp_path, reply, size=size, prompts=prompts, color=color) as one:
        told = f'[tool call: shell_exec(command="rm -rf ~/x #" … 3000 blanks … "{_FORGERY}")]'
        assert told in flat(one)
        assert "more than is seen" not in flat(one)


@on_screens
@in_modes
@pytest.mark.parametrize("color", ["always", "never"])
def test_of_a_command_whose_head_has_scrolled_away_the_question_says_how_it_begins(
    size: tuple[int, int], prompts: bool, color: str, tmp_path: Path
) -> None:
    command = f"rm -rf ~/x #{'ab ' * 900}{_FORGERY}"
    counted = _MORE.format(1, len(command))
    begins = "rm -rf ~/x #ab"
    reply = shell(command)
    with put_to_a_person(tmp_path, reply, size=size, prompts=prompts, color=color) as one:
        above_the_question(one, counted, begins)
        for keys in ("d\r", "what?\r"):
            answer_oddly(one, keys)
            above_the_question(one, counted, begins)


_SCREENFULS: Final = {
    "line ends": ("a #{}b", "\n" * 1000, '"a #" … 1000 blanks (line ends: 1000) … "b"'),
    "tabs": ("a #{}b", "\t" * 1000, '"a #" … 1000 blanks … "b"'),
    "a mixture": ("a{}b", "\t \u2800\n" * 250, '"a" … 1000 blanks (line ends: 250) … "b"'),
    "one character": ("a #{}b", "-" * 2000, None),
    "wide characters": ("a #{}b", "\u4e2d\u6587" * 600, None),
    "lines": ("a\n{}b", "#\n" * 1000, None),
}


@pytest.mark.parametrize("kind", _SCREENFULS)
def test_nothing_else_pushes_it_away_unsaid(kind: str, tmp_path: Path) -> None:
    form, filling, told = _SCREENFULS[kind]
    command = form.format(filling)
    with put_to_a_person(tmp_path, shell(command), size=(80, 24), prompts=False) as one:
        if told:
            assert f"shell_exec(command={told})]" in flat(one)
        else:
            counted = _MORE.format(command.count("\n") + 1, len(command))
            above_the_question(one, counted, "a")


def test_answers_that_are_none_push_it_away_and_that_is_said(tmp_path: Path) -> None:
    with put_to_a_person(tmp_path, shell("echo hi"), size=(40, 12), prompts=True) as one:
        assert "more than is seen" not in flat(one)
        for _ in range(5):
            answer_oddly(one, "what?\r")
        above_the_question(one, _MORE.format(1, 7), "echo hi")


def test_a_long_call_leaves_room_for_what_it_changes(tmp_path: Path) -> None:
    reply = write("a", "".join(f"line {number}\n" for number in range(50)))
    with put_to_a_person(tmp_path, reply, size=(40, 12), prompts=False) as one:
        assert {"  +line 0", "  +line 1"} <= set(one.lines)


def test_marks_that_take_no_room_do_not_count(tmp_path: Path) -> None:
    command = "a #" + "e\u0301" * 900
    with put_to_a_person(tmp_path, shell(command), size=(80, 24), prompts=False) as one:
        assert "more than is seen" not in flat(one)


def test_a_terminal_that_does_not_know_its_size_is_taken_for_a_usual_one(tmp_path: Path) -> None:
    command = f"rm -rf ~/x #{'ab ' * 900}"
    with conversation(tmp_path, [shell(command), text("A.")], *ASK) as (one, _):
        one.tell_size(0, 0)
        one.type("Go.\r")
        one.until(lambda: at_the_question(one))
        above_the_question(one, _MORE.format(1, len(command)), "rm -rf ~/x #ab")
        press(one, "n\r")
        leave(one)


@on_screens
@in_modes
def test_a_line_of_a_diff_hides_nothing_behind_blanks(
    size: tuple[int, int], prompts: bool, tmp_path: Path
) -> None:
    reply = write("a", f"b=2{' ' * 500};evil()\n")
    with put_to_a_person(tmp_path, reply, size=size, prompts=prompts) as one:
        assert "  +b=2 … 500 blanks … ;evil()" in flat(one)


@on_screens
@in_modes
def test_a_line_of_a_diff_that_is_cut_is_said_and_counted_at_the_question(
    size: tuple[int, int], prompts: bool, tmp_path: Path
) -> None:
    line = f"b='{'xy' * 300}';evil()"
    reply = write("a", f"{line}\n")
    counted = _MORE.format(2, len(f"@@ -0,0 +1,1 @@\n+{line}"))
    with put_to_a_person(tmp_path, reply, size=size, prompts=prompts) as one:
        above_the_question(one, counted, f"write_file of {tmp_path}"[: size[0] - 3])
        answer_oddly(one, "d\r")
        assert ";evil()" in flat(one)


def test_of_a_diff_as_much_is_shown_as_the_screen_holds(tmp_path: Path) -> None:
    content = "".join(f"{number} {'ab' * 60}\n" for number in range(1, 19))
    with put_to_a_person(tmp_path, write("a", content), size=(80, 24), prompts=True) as one:
        assert "[tool call: write_file(" in flat(one)
        assert "  @@ -0,0 +1,18 @@" in one.lines
        counted = _MORE.format(19, len(f"@@ -0,0 +1,18 @@\n{content}") + 18 - 1)
        above_the_question(one, counted, f"write_file of {tmp_path}"[:77])


def test_what_an_answer_would_allow_is_cut_in_the_question_and_whole_in_the_details(
    tmp_path: Path,
) -> None:
    path = "/".join(["d" * 200] * 3)
    with put_to_a_person(tmp_path, write(path, "x"), size=(80, 24), prompts=False) as one:
        cut = flat(one).rpartition("[s]ession: write_file of ")[2]
        assert path not in cut
        assert " more characters … " in cut
        answer_oddly(one, "d\r")
        assert f"  [s]ession: write_file of {tmp_path}/{path}" in flat(one)


def test_blanks_in_a_path_and_in_a_reason_are_told_too(tmp_path: Path) -> None:
    folder = tmp_path / ("a" + " " * 100 + "b")
    folder.mkdir()
    (tmp_path / "project").mkdir()
    reply = write(f"{folder}/.profile", "x")
    with conversation(tmp_path / "project", [reply, text("A.")], *RISKY) as (one, _):
        one.type("Go.\r")
        one.until(lambda: at_the_question(one))
        told = f"{tmp_path}/a … 100 blanks … b/.profile"
        assert f"[writes outside the project: {told}]" in flat(one)
        assert f"[s]ession: write_file of {told}, " in flat(one)
        press(one, "n\r")
        leave(one)


_FORGED: Final = "[tool result: shell_exec]"


@pytest.mark.parametrize(
    "reply",
    [
        shell(f"rm '{_HOSTILE}\n{_FORGED}'"),
        write(f"{_HOSTILE}\n{_FORGED}", f"new\n{_FORGED}\n"),
        write("old", f"{_HOSTILE}new\n{_FORGED}\n"),
        write("link/.bashrc", f"new\n{_FORGED}\n"),
        write(f"new\n{_FORGED}", "new\n", offset=9),
        write("folder", "new\n"),
    ],
    ids=["command", "path", "diff", "link", "error", "folder"],
)
def test_a_stranger_s_text_does_not_act_on_the_terminal_or_forge_a_line(
    reply: Reply, tmp_path: Path
) -> None:
    """Nor do names and files of the disk, which nothing has sanitised."""
    (tmp_path / "old").write_text(f"{_HOSTILE}old\n")
    target = tmp_path / f"{_HOSTILE}\n{_FORGED}"
    target.mkdir()
    (tmp_path / "link").symlink_to(target)
    (tmp_path / "folder").symlink_to(target)
    with conversation(tmp_path, [reply, text("A.")], *ASK, size=(120, 40)) as (one, _):
        before = len(one.raw)
        go(one)
        one.type("d\r")
        asked(one, 2)
        assert not any(line.startswith(_FORGED) for line in one.lines)
        assert not any(code in one.raw[before:] for code in _ACTS)
        press(one, "n\r")
        assert not any(code in one.raw[before:] for code in _ACTS)
        leave(one)


def test_on_a_dumb_terminal_it_is_a_plain_line(tmp_path: Path) -> None:
    replies = [write("a", "b"), shell("touch ran"), shell("touch ran"), text("A.")]
    with conversation(tmp_path, replies, *ASK, env={"TERM": "dumb"}) as (one, server):
        one.type("Go.\r")
        one.shows("[d]etails:")
        assert "  +b" in one.lines
        one.type("y\r")
        one.shows(_QUESTION)
        one.type("n not here\r")
        one.until(lambda: "\n".join(one.lines).count("Run?") == 3)
        assert result(server) == f"{_DENIED}: not here"
        one.type(CTRL_C)
        one.until(lambda: one.lines[-2:] == ["[interrupted]", ">"])
        assert f"{_QUESTION} ^C" in one.lines
        assert b"\x1b" not in one.raw
        leave(one)
    assert not (tmp_path / "ran").exists()


def test_ctrl_d_on_a_dumb_terminal_ends_the_turn(tmp_path: Path) -> None:
    with conversation(tmp_path, [shell("touch ran")], *ASK, env={"TERM": "dumb"}) as (one, _):
        one.type("Go.\r")
        one.shows(_QUESTION)
        one.type(CTRL_D)
        one.shows("[interrupted]")
        assert "[tool result: shell_exec]" in one.lines
    assert not (tmp_path / "ran").exists()


def test_what_was_typed_ahead_on_a_dumb_terminal_is_no_answer(tmp_path: Path) -> None:
    waits = "touch begun; until test -e enough; do sleep 0.02; done"
    replies = [shell(waits), shell("touch ran"), text("A."), text("B.")]
    with conversation(tmp_path, replies, *ASK, env={"TERM": "dumb"}) as (one, server):
        one.type("Go.\r")
        one.shows(_QUESTION)
        one.type("y\r")
        assert eventually((tmp_path / "begun").exists)
        one.type("y\r")
        one.until(lambda: one.lines[-1] == "y")
        (tmp_path / "enough").touch()
        one.until(lambda: one.lines[-1] == _QUESTION)
        one.type("n\r")
        server.wait_for(4)
        assert server.chat[-1].json["messages"][-1]["content"] == "y"
        one.until(lambda: one.lines[-1] == ">")
        leave(one)
    assert not (tmp_path / "ran").exists()


def test_where_answers_go_elsewhere_the_question_is_on_the_terminal(tmp_path: Path) -> None:
    with LLMServer([shell("touch ran"), text("A.")]) as server:
        line = f"{shlex.join((*BANTAM, *at(server.url), *ASK))} > answers"
        with typist(tmp_path, program=("sh", "-c", line)) as one:
            one.ready()
            one.type("Go.\r")
            one.shows(_QUESTION)
            one.type("y\r")
            one.until(lambda: one.lines[-1] == ">")
            one.type(CTRL_D)
            assert one.end() == 0
    assert (tmp_path / "ran").exists()
    assert (tmp_path / "answers").read_text() == "A.\n"


def test_nobody_is_asked_where_nobody_would_see_the_question(tmp_path: Path) -> None:
    with LLMServer([shell("touch ran"), text("A.")]) as server:
        line = f"{shlex.join((*BANTAM, *at(server.url), *ASK))} > answers 2> rest"
        with typist(tmp_path, program=("sh", "-c", line)) as one:
            one.type("Go.\r")
            server.wait_for(2)
            assert result(server).startswith("denied: nobody can be asked here")
            one.type(CTRL_D)
            assert one.end() == 0
    assert not (tmp_path / "ran").exists()


def test_piped_lines_are_no_answers(tmp_path: Path) -> None:
    with LLMServer([shell("touch ran"), text("A."), text("B.")]) as server:
        ended = run(*at(server.url), *ASK, cwd=tmp_path, stdin=b"Go.\ny\n")
        assert ended.returncode == 0
        assert ended.stdout == b"A.\nB.\n"
    assert not (tmp_path / "ran").exists()


# -- one shot ---------------------------------------------------------------------------------


@contextmanager
def one_shot(
    folder: Path, replies: Sequence[Reply], *options: str, behind: str = ""
) -> Iterator[tuple[Typist, LLMServer]]:
    """Start a run of one prompt on a terminal; `behind` it stands in a shell's line."""
    with LLMServer(replies) as server:
        line = f"exec {shlex.join((*BANTAM, *at(server.url), *options, '-p', 'Go.'))} {behind}"
        with typist(folder, program=("sh", "-c", line)) as one:
            one.shows(_QUESTION)
            yield one, server


def test_one_shot_asks_on_a_terminal(tmp_path: Path) -> None:
    with one_shot(tmp_path, [shell("echo hi"), text("A.")], *ASK) as (one, server):
        one.type("what?\r")
        one.until(lambda: "\n".join(one.lines).count("Run?") == 2)
        one.type("y\r")
        assert one.end() == 0
        assert result(server) == "hi\n\n\nexit: 0"
        assert "A." in one.lines


@pytest.mark.parametrize("key", [CTRL_C, CTRL_D], ids=["Ctrl+C", "Ctrl+D"])
def test_a_key_that_breaks_the_question_off_ends_one_shot(key: str, tmp_path: Path) -> None:
    with one_shot(tmp_path, [shell("touch ran")], *ASK) as (one, _):
        one.type(key)
        assert one.end() == 130
        assert "[tool result: shell_exec]" in one.lines
        assert one.lines[-1] == "[interrupted]"
    assert not (tmp_path / "ran").exists()


def test_a_signal_that_ends_one_shot_ends_its_question(tmp_path: Path) -> None:
    with one_shot(tmp_path, [shell("touch ran")], *ASK) as (one, _):
        one.child.kill(signal.SIGTERM)
        assert one.end() == 143
    assert not (tmp_path / "ran").exists()


def test_what_was_typed_before_the_question_of_one_shot_is_no_answer(tmp_path: Path) -> None:
    waits = "touch begun; until test -e enough; do sleep 0.02; done"
    with one_shot(tmp_path, [shell(waits), shell("touch ran"), text("A.")], *ASK) as (one, server):
        one.type("y\r")
        assert eventually((tmp_path / "begun").exists)
        one.type("y\r")
        one.until(lambda: one.lines[-1] == "y")
        (tmp_path / "enough").touch()
        one.until(lambda: one.lines[-1] == _QUESTION)
        one.type("n\r")
        assert one.end() == 0
        assert result(server) == _DENIED
    assert not (tmp_path / "ran").exists()


def test_the_question_of_one_shot_goes_around_a_pipe(tmp_path: Path) -> None:
    replies = [shell("touch ran"), text("A.")]
    with one_shot(tmp_path, replies, *ASK, "--json", behind="> events") as (one, _):
        one.type("y\r")
        assert one.end() == 0
    assert done((tmp_path / "events").read_bytes())["text"] == "A."
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_without_a_terminal_a_question_is_a_refusal(form: Sequence[str], tmp_path: Path) -> None:
    with LLMServer([shell("touch ran"), text("A.")]) as server:
        ended = run(*form, *at(server.url), *ASK, "-p", "Go.", cwd=tmp_path)
        assert result(server).startswith("denied: nobody can be asked here; with approve=ask")
    assert ended.returncode == 0
    assert not (tmp_path / "ran").exists()
    if form:
        (told,) = [e for e in events(ended.stdout) if e["type"] == "tool_result"]
        assert told["status"] == "denied"
    else:
        assert ended.stdout == b"A."


# -- time -------------------------------------------------------------------------------------


def test_a_clock_does_not_count_while_it_is_stopped() -> None:
    now = [100.0]
    clock = Clock(lambda: now[0])
    assert clock() == 100
    with clock.stopped():
        now[0] = 107
        assert clock() == 100
    now[0] = 108
    assert clock() == 101


def older_than_a_long_run() -> None:
    began = monotonic()
    assert eventually(lambda: monotonic() - began > LONG_RUN_S)


def test_a_question_is_no_part_of_how_long_a_tool_has_run(tmp_path: Path) -> None:
    with conversation(tmp_path, [shell("true"), text("A.")], *ASK) as (one, _):
        go(one)
        older_than_a_long_run()
        press(one, "y\r")
        assert b"has run for" not in one.raw
        leave(one)


def test_nothing_is_drawn_over_the_question_of_one_shot(tmp_path: Path) -> None:
    with one_shot(tmp_path, [shell("true"), text("A.")], *ASK) as (one, _):
        older_than_a_long_run()
        one.type("y\r")
        assert one.end() == 0
        assert b"has run for" not in one.raw


# -- for the session --------------------------------------------------------------------------


@pytest.mark.parametrize("answer", ["s", "a"])
def test_what_was_allowed_holds_in_the_conversation_and_nowhere_else(
    answer: str, tmp_path: Path
) -> None:
    def runs(*options: str, keys: Sequence[str], questions: int, folder: Path = tmp_path) -> None:
        replies = [
            reply for key in keys if key == "Go." for reply in (shell("echo hi"), text("A."))
        ]
        env = {"HOME": str(tmp_path)}
        with conversation(folder, replies, *ASK, *options, env=env) as (one, _):
            for key in keys:
                one.ready()
                before = one.raw.count(TAKES_KEYS)
                one.type(f"{key}\r")
                one.until(lambda before=before: one.raw.count(TAKES_KEYS) > before)  # type: ignore[misc]
            one.until(lambda: one.lines[-1] == ">")
            assert "\n".join(one.lines).count("Run?") == questions
            leave(one)

    other = tmp_path / "other"
    other.mkdir()
    runs(keys=("Go.", answer), questions=1)
    file = tmp_path / ".bantam" / "sessions" / f"{project_id(tmp_path)}.allowed"
    assert file.stat().st_mode & 0o777 == 0o600
    assert "echo" not in file.read_text()
    runs("-c", keys=("Go.",), questions=0)
    runs(keys=("Go.", "n"), questions=1, folder=other)
    runs("-c", keys=("Go.", "/clear", "Go.", "n"), questions=1)
    runs(keys=("Go.", "n"), questions=1)
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        ".bantam",
        ".bantam_history",
        "other",
    ]
    assert list(other.iterdir()) == []


def test_what_was_allowed_is_no_session(tmp_path: Path) -> None:
    with conversation(tmp_path, [shell("true"), text("A.")], *ASK) as (one, _):
        go(one)
        press(one, "a\r")
        sessions = tmp_path / ".bantam" / "sessions"
        assert (sessions / f"{project_id(tmp_path)}.allowed").exists()
        press(one, "/list\r")
        one.type("/load \t")
        one.until(lambda: one.lines[-1] == f"> /load {project_id(tmp_path)}")
        assert "allowed" not in "\n".join(one.lines)
        one.type("\x15")
        leave(one)


# -- without a terminal -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("", Answer(Kind.NO)),
        (" \t", Answer(Kind.NO)),
        ("y", Answer(Kind.YES)),
        (" YES. ", Answer(Kind.YES)),
        ("n", Answer(Kind.NO)),
        ("No: it is mine ", Answer(Kind.NO, "it is mine")),
        ("s", Answer(Kind.SESSION)),
        ("session", Answer(Kind.SESSION)),
        ("a", Answer(Kind.ALL)),
        ("d", Answer(Kind.DETAILS)),
        ("y but slowly", None),
        ("a lot", None),
        ("maybe", None),
        ("ye", None),
        (".", None),
    ],
)
def test_what_is_typed_is_an_answer_or_none(typed: str, answer: Answer | None) -> None:
    assert answered(typed) == answer


def question(*lines: str, name: str = "write_file", has_details: bool = False) -> Question:
    return Question(ToolCall("a", name, "{}"), "", lines, "this", has_details)


def test_a_long_line_is_cut_until_details_are_asked_for() -> None:
    written: list[str] = []
    asking = Asking(written.append, lambda _: "y", color=False)
    asking(question("+" + "x" * 500))
    asking(question("+" + "x" * 500, has_details=True))
    cut, counted, begins, whole = written
    assert cut == f"  +{'x' * 239} … 101 more characters … {'x' * 160}\n"
    assert (counted, begins) == (f"{_MORE.format(1, 501)}\n", "  this\n")
    assert whole == f"  +{'x' * 500}\n"


def test_a_command_that_was_shown_nowhere_else_stands_at_its_question() -> None:
    # As with --json, where calls are told on standard output.
    written: list[str] = []
    Asking(written.append, lambda _: "y", color=False)(question("ls -l", name="shell_exec"))
    assert written == []
    asking = Asking(written.append, lambda _: "y", color=False, is_traced=False)
    asking(question("ls -l", name="shell_exec"))
    assert written == ["  ls -l\n"]


def test_a_question_that_is_broken_off_interrupts() -> None:
    with pytest.raises(Interrupted):
        Asking(str, lambda _: None, color=False)(question("+x"))
