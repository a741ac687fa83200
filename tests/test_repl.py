"""The interactive prompt, by a person at a real pseudo-terminal."""

import base64
import json
import os
import re
import signal
import termios
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyte
import pytest
from fakes import Clock
from llmserver import LLMServer, Reply, raw, shell, text
from processes import eventually, running, unique_seconds
from program import BANTAM, at, run
from scenarios import MODELS
from typist import TAKES_KEYS, Typist, typist

from bantam.core.errors import ExitStatus
from bantam.sessions.store import project_id
from bantam.terminal.interrupts import Interrupts

SIZES: Final = [(80, 24), (40, 12)]
CTRL_C, CTRL_D = "\x03", "\x04"
# SPEC section 8 says 0.2 s; a loaded machine needs some for anything at all.
_BOUND_S: Final = 1.0

both_sizes = pytest.mark.parametrize(("columns", "rows"), SIZES, ids=["80x24", "40x12"])
terminals = pytest.mark.parametrize("kind", ["xterm-256color", "dumb"])


@contextmanager
def prompt(
    folder: Path,
    server: LLMServer,
    *options: str,
    env: dict[str, str] | None = None,
    columns: int = 80,
    rows: int = 24,
) -> Iterator[Typist]:
    """Start Bantam on a terminal and wait for its first prompt."""
    program = (*BANTAM, *at(server.url), *options)
    with typist(folder, program=program, env=env, columns=columns, rows=rows) as one:
        one.ready()
        yield one


def enter(one: Typist, *lines: str) -> None:
    """Type each of `lines` at a prompt, and wait for the next one."""
    for line in lines:
        one.ready()
        press(one, f"{line}\r")


def press(one: Typist, keys: str) -> None:
    """Type `keys`, which end a prompt or a question, and wait for the next prompt."""
    before = one.raw.count(TAKES_KEYS)
    one.type(keys)
    one.until(lambda: one.raw.count(TAKES_KEYS) > before and one.lines[-1] == ">")


def leave(one: Typist, status: int = 0) -> None:
    """Press Ctrl+D at the next prompt."""
    one.ready()
    one.type(CTRL_D)
    assert one.end() == status


def asked(server: LLMServer) -> list[str]:
    """Return the prompts of the last request."""
    messages = server.chat[-1].json["messages"]
    return [each["content"] for each in messages if each["role"] == "user"]


def modes(one: Typist) -> Any:
    return termios.tcgetattr(one.child.child_fd)


# -- the cycle --------------------------------------------------------------------------------


@both_sizes
def test_a_start_line_a_prompt_answers_and_an_end(columns: int, rows: int, tmp_path: Path) -> None:
    key = "sk-0123456789-secret"
    replies = [text("Hello, **you**."), text("Bye.")]
    with (
        LLMServer(replies) as server,
        prompt(tmp_path, server, env={"OPENAI_API_KEY": key}, columns=columns, rows=rows) as one,
    ):
        start = "".join(one.lines)
        for part in ("bantam ", "scripted at 127.0.0.1", "key: OPENAI_API_KEY", "/help"):
            assert part in start
        enter(one, "first")
        assert "Hello, you." in one.lines
        enter(one, "second")
        assert asked(server) == ["first", "second"]
        leave(one)
        assert key.encode() not in one.raw
    assert (tmp_path / ".bantam_history").read_text() == "first\nsecond\n"


# Tells in the terminal's own stream when a package begins to load.
_TELL_IMPORTS: Final = """
import os, sys
class Teller:
    def find_spec(self, name, path=None, target=None):
        if name in ("httpx", "httpcore", "markdown_it", "rich"):
            os.write(1, f"<{name}>".encode())
sys.meta_path.insert(0, Teller())
from bantam.cli import main
main()
"""


def test_the_first_prompt_is_on_the_screen_before_what_a_turn_needs_is_loaded(
    tmp_path: Path,
) -> None:
    program = (BANTAM[0], "-c", _TELL_IMPORTS, "-o", "endpoint=http://127.0.0.1:9/v1")
    names = ("httpx", "httpcore", "markdown_it", "rich")
    with typist(tmp_path, program=program) as one:
        one.until(lambda: all(f"<{name}>".encode() in one.raw for name in names))
        before = one.raw[: min(one.raw.index(f"<{name}>".encode()) for name in names)]
        assert TAKES_KEYS in before
        assert before.rstrip().endswith(b"\x1b[?25h"), "the prompt is drawn whole"
        assert ">" in "".join(one.lines)
        one.type(CTRL_D)
        assert one.end() == 0


def test_blank_lines_send_nothing_and_a_leading_blank_sends_a_line_as_it_is(tmp_path: Path) -> None:
    with LLMServer([text("A.")]) as server, prompt(tmp_path, server) as one:
        enter(one, "", "   ", " /help")
        assert asked(server) == [" /help"]
        leave(one)


def test_a_terminal_that_can_only_print_has_the_same_prompt(tmp_path: Path) -> None:
    dumb = {"TERM": "dumb"}
    with LLMServer([text("A."), text("B.")]) as server, prompt(tmp_path, server, env=dumb) as one:
        one.type("a\n")
        one.shows("A.")
        one.ready()
        one.type("!exit 4\n")
        one.shows("[exit: 4]")
        one.ready()
        one.child.kill(signal.SIGINT)
        one.until(lambda: one.raw.count(b"> ") == 4)
        one.type("/quit\n")
        assert one.end() == 0
        assert b"\x1b" not in one.raw


def test_with_its_output_elsewhere_a_keyboard_still_has_a_prompt(tmp_path: Path) -> None:
    with LLMServer([text("A.")]) as server:
        line = f"exec {' '.join([*BANTAM, *at(server.url)])} > out.txt"
        with typist(tmp_path, program=("bash", "-c", line)) as one:
            one.ready()
            assert "/help" in "".join(one.lines)
            one.child.kill(signal.SIGINT)
            one.until(lambda: one.raw.count(b"> ") == 2)
            one.type("a\n")
            one.until(lambda: one.raw.count(b"> ") == 3)
            one.type("/quit\n")
            assert one.end() == 0
    assert (tmp_path / "out.txt").read_text() == "A.\n"


def test_with_its_output_elsewhere_a_prompt_that_nobody_can_see_is_no_fault(tmp_path: Path) -> None:
    with LLMServer([text("A.")]) as server:
        line = f"{' '.join([*BANTAM, *at(server.url)])} > out.txt 2> /dev/full"
        with typist(tmp_path, program=("bash", "-c", line)) as one:
            one.type("a\n/quit\n")
            assert one.end() == 0
    assert (tmp_path / "out.txt").read_text() == "A.\n"


def test_no_session_stores_neither_a_session_nor_what_was_typed(tmp_path: Path) -> None:
    with LLMServer([text("A.")]) as server, prompt(tmp_path, server, "--no-session") as one:
        enter(one, "a", "/clear")
        leave(one)
    assert not (tmp_path / ".bantam").exists()
    assert not (tmp_path / ".bantam_history").exists()


def test_bantam_home_holds_the_history_too(tmp_path: Path) -> None:
    home = {"BANTAM_HOME": str(tmp_path / "home")}
    (tmp_path / "home").mkdir()
    with LLMServer([]) as server, prompt(tmp_path, server, env=home) as one:
        enter(one, "/usage", "/cfg api_key sk-123456789")
        leave(one)
    assert (tmp_path / "home" / "history").read_text() == "/usage\n"


@pytest.mark.parametrize("word", ["exit", "quit", ":q", "help", "? "])
def test_what_other_programs_take_for_a_command_is_not_sent_without_a_leading_blank(
    word: str, tmp_path: Path
) -> None:
    name = "/help lists commands and keys" if word in ("help", "? ") else "/quit leaves"
    with LLMServer([text("A.")]) as server, prompt(tmp_path, server) as one:
        enter(one, word)
        assert one.lines[-2] == f"[{name}; a leading blank sends the word]"
        enter(one, f" {word}")
        assert asked(server) == [f" {word}"]
        leave(one)


def test_piped_words_are_prompts(tmp_path: Path) -> None:
    with LLMServer([text("A.")]) as server:
        assert run(*at(server.url), cwd=tmp_path, stdin=b"help\n").stdout == b"A.\n"
        assert asked(server) == ["help"]


@pytest.mark.parametrize("options", [("-c",), ("-r", "one")])
def test_a_stored_session_goes_on(options: Sequence[str], tmp_path: Path) -> None:
    with LLMServer([text("A."), text("S."), text("B."), text("C.")]) as server:
        assert run(*at(server.url), cwd=tmp_path, stdin=b"a\n/save one\n").returncode == 0
        with prompt(tmp_path, server, *options) as one:
            session = "one" if "one" in options else project_id(tmp_path)
            assert one.lines[-3:] == [f"loaded {session}: 3 messages", "last prompt: a", ">"]
            enter(one, "b")
            assert asked(server) == ["a", "b"]
            leave(one)
        piped = run(*at(server.url), *options, cwd=tmp_path, stdin=b"c\n")
        assert piped.stdout == b"C.\n"
        assert asked(server) == ["a", "b", "c"]


def test_of_the_last_prompt_that_goes_on_the_beginning_of_a_line_is_said(tmp_path: Path) -> None:
    asked = "漢\u202e" * 50 + "\nmore"
    folder = tmp_path / ".bantam" / "sessions"
    folder.mkdir(parents=True)
    told = [{"role": "user", "content": "first"}, {"role": "user", "content": asked}]
    (folder / "x.json").write_text(json.dumps({"messages": told}))
    with LLMServer([]) as server, prompt(tmp_path, server, "-r", "x", columns=120) as one:
        assert one.lines[-3:] == ["loaded x: 3 messages", f"last prompt: {'漢' * 40}", ">"]
        leave(one)


def test_of_a_session_that_is_empty_nothing_is_said(tmp_path: Path) -> None:
    with LLMServer([]) as server, prompt(tmp_path, server, "-c") as one:
        assert "loaded" not in "".join(one.lines)
        leave(one)


def test_a_session_that_is_not_there_is_wrong_usage(tmp_path: Path) -> None:
    with LLMServer([]) as server:
        ended = run(*at(server.url), "-r", "none", cwd=tmp_path, stdin=b"a\n")
        assert (ended.returncode, ended.stdout) == (2, b"")
        ended = run(*at(server.url), "-o", "sandbox=maybe", cwd=tmp_path, stdin=b"a\n")
        assert ended.returncode == 2
        assert run("--json", cwd=tmp_path, stdin=b"a\n").returncode == 2
        ended = run(*at(server.url), "-c", cwd=tmp_path, stdin=b"")
        assert b"this project has no session yet" in ended.stderr


def test_what_is_stored_on_leaving_loads(tmp_path: Path) -> None:
    with LLMServer([text("A.")]) as server, prompt(tmp_path, server) as one:
        enter(one, "a")
        leave(one)
    stored = json.loads((tmp_path / f".bantam/sessions/{project_id(tmp_path)}.json").read_text())
    assert [each["content"] for each in stored["messages"][1:]] == ["a", "A."]


# -- commands ---------------------------------------------------------------------------------


@both_sizes
def test_tables_fit_the_screen(columns: int, rows: int, tmp_path: Path) -> None:
    with (
        LLMServer([text("A.")]) as server,
        prompt(tmp_path, server, columns=columns, rows=rows) as one,
    ):
        enter(one, "/list")
        assert "there are no sessions yet" in one.lines
        enter(one, "/usage")
        assert "nothing was sent yet" in one.lines
        enter(one, "漢字 | and\\ wide 🦊", "/list", "/usage", "/help", "/cfg")
        shown = re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", one.raw).decode()
        boxes = [line for line in shown.split("\r\n") if line.startswith(("┌", "│", "├", "└"))]
        assert len(boxes) > 30
        if columns == 80:
            assert any("漢字 |" in line for line in boxes)
        screen = one.screen
        assert all(row[-1] in " │┐┤┘" for row in screen.display)
        leave(one)


def test_an_error_of_a_command_is_red_and_does_not_end_the_prompt(tmp_path: Path) -> None:
    with LLMServer([]) as server, prompt(tmp_path, server) as one:
        enter(one, "/lst")
        assert "error: there is no command /lst: did you mean /list?" in "\n".join(one.lines)
        assert b"\x1b[31merror: there is no command" in one.raw
        leave(one)


def test_what_a_stranger_wrote_cannot_act_on_the_terminal(tmp_path: Path) -> None:
    evil = "a\x1b]0;owned\x07b\u202ec"
    listing = {"data": [{"id": evil}]}
    with LLMServer([text("A.")], models=listing) as server, prompt(tmp_path, server) as one:
        (tmp_path / ".bantam" / "sessions").mkdir(parents=True)
        (tmp_path / ".bantam" / "sessions" / "x.json").write_text(
            json.dumps({"messages": [{"role": "user", "content": evil}], "summary": evil})
        )
        enter(one, "/models", "/list", "/load x", "/export", "/cfg note 'a\u202eb'")
        assert b"owned" not in one.raw
        assert "\u202e".encode() not in one.raw.partition(b"note=")[2]
        leave(one)


def test_copy_puts_the_last_answer_into_the_clipboard(tmp_path: Path) -> None:
    with (
        LLMServer([text("Ün\x1b[2J\u202eï.\x03"), text("x" * 80_000)]) as server,
        prompt(tmp_path, server) as one,
    ):
        enter(one, "a", "/copy")
        sent = re.findall(rb"\x1b\]52;c;([A-Za-z0-9+/=]*)\x07", one.raw)
        assert [base64.b64decode(each).decode() for each in sent] == ["Ünï."]
        enter(one, "b", "/copy")
        one.shows("too long for a terminal to copy")
        assert one.raw.count(b"\x1b]52") == 1
        leave(one)


def test_tab_completes_commands_ids_keys_and_models(tmp_path: Path) -> None:
    with (
        LLMServer([text("A."), text("S.")], models=MODELS) as server,
        prompt(tmp_path, server) as one,
    ):
        enter(one, "a", "/save zebra", "/models")
        one.type("/loa\t zeb\t")
        one.shows("> /load zebra")
        one.type(f"{CTRL_C}/cfg mod\t scr\t")
        one.shows("> /cfg model scripted")
        one.type(f"{CTRL_C}/help x\t{CTRL_C}")
        leave(one)


def test_a_change_of_the_editor_and_of_colour_holds_at_once(tmp_path: Path) -> None:
    with LLMServer([text("A.")]) as server, prompt(tmp_path, server) as one:
        enter(one, "/cfg edit_mode vi", "/cfg color never")
        press(one, "bc\x1b0ia\r")
        assert asked(server) == ["abc"]
        before = len(one.raw)
        enter(one, "/lst")
        assert b"\x1b[31m" not in one.raw[before:]
        leave(one)


# -- compaction -------------------------------------------------------------------------------

_HALF_FULL: Final = {"prompt_tokens": 624, "completion_tokens": 5}


@pytest.mark.parametrize(
    ("answer", "compacts"),
    [
        *(("\r", True), (" Y\r", True), ("yes\r", True)),
        *(("n\r", False), ("NO\r", False), (CTRL_C, False), (CTRL_D, False)),
    ],
)
def test_at_compact_at_the_prompt_asks_whether_to_compact(
    answer: str, compacts: bool, tmp_path: Path
) -> None:
    replies = [text("A.", usage=_HALF_FULL), text("In short."), text("B.")]
    options = ("-o", "context_window=1000")
    with (
        LLMServer(replies, strict=False) as server,
        prompt(tmp_path, server, *options, columns=100) as one,
    ):
        one.type("a\r")
        one.shows("Context usage is at 62.4% (624 / 1000 tokens). Compact conversation? [Y/n]:")
        press(one, answer)
        enter(one, "b")
        assert ("In short." in asked(server)[0]) == compacts
        leave(one)


def test_an_answer_that_is_neither_yes_nor_no_is_asked_for_again(tmp_path: Path) -> None:
    replies = [text("A.", usage=_HALF_FULL), text("In short.")]
    options = ("-o", "context_window=1000")
    with (
        LLMServer(replies, strict=False) as server,
        prompt(tmp_path, server, *options, columns=100) as one,
    ):
        one.type("a\r")
        one.shows("[Y/n]:")
        one.type("maybe\r")
        one.until(lambda: sum("[Y/n]:" in line for line in one.lines) == 2)
        assert len(server.chat) == 1
        press(one, "y\r")
        assert "[compacted:" in "\n".join(one.lines)
        leave(one)


_NEARLY_FULL: Final = {"prompt_tokens": 950, "completion_tokens": 5}


def test_who_has_declined_is_not_overruled_in_this_conversation(tmp_path: Path) -> None:
    replies = [text("A.", usage=_NEARLY_FULL) for _ in range(6)]
    options = ("-o", "context_window=1000")
    with (
        LLMServer(replies, strict=False) as server,
        prompt(tmp_path, server, *options, columns=100) as one,
    ):
        one.type("a\r")
        one.shows("[Y/n]:")
        press(one, "n\r")
        enter(one, "b", "/cfg temperature 1", "c")
        assert asked(server) == ["a", "b", "c"]
        assert len(server.chat) == 3
        enter(one, "/clear", "d", "e")
        assert "[compacted:" in "\n".join(one.lines)
        leave(one)


def test_piped_lines_are_asked_nothing(tmp_path: Path) -> None:
    replies = [text("A.", usage=_HALF_FULL), text("B.")]
    with LLMServer(replies) as server:
        options = ("-o", "context_window=1000")
        ended = run(*at(server.url), *options, cwd=tmp_path, stdin=b"a\nb\n")
    assert ended.stdout == b"A.\nB.\n"


# -- interrupts -------------------------------------------------------------------------------


@pytest.mark.parametrize("reply", [text("A.", hold=True), text("A. " * 40, stall_after=700)])
def test_ctrl_c_in_a_turn_is_back_at_the_prompt_at_once(reply: Reply, tmp_path: Path) -> None:
    with LLMServer([reply, text("B.")], strict=False) as server, prompt(tmp_path, server) as one:
        one.type("a\r")
        server.wait_for_stall()
        began = time.monotonic()
        press(one, CTRL_C)
        assert "[interrupted]" in one.lines
        assert time.monotonic() - began < _BOUND_S
        enter(one, "b")
        assert asked(server) in (["a\n\nb"], ["a", "b"])
        leave(one)


def test_ctrl_c_in_a_retry_leaves_the_answer_before(tmp_path: Path) -> None:
    replies = [text("A."), text("B.", hold=True), text("C.")]
    with LLMServer(replies) as server, prompt(tmp_path, server) as one:
        enter(one, "a")
        one.type("/retry\r")
        server.wait_for_stall()
        press(one, CTRL_C)
        enter(one, "c")
        said = [each["content"] for each in server.chat[-1].json["messages"]]
        assert said[1:] == ["a", "A.", "c"]
        leave(one)


def test_ctrl_c_ends_what_a_turn_has_started(tmp_path: Path) -> None:
    seconds = unique_seconds()
    with (
        LLMServer([shell(f"sleep {seconds}"), text("B.")]) as server,
        prompt(tmp_path, server) as one,
    ):
        one.type("a\r")
        assert eventually(lambda: running(f"sleep {seconds}"))
        press(one, CTRL_C)
        assert eventually(lambda: not running(f"sleep {seconds}"))
        enter(one, "b")
        leave(one)


def test_a_second_ctrl_c_within_a_second_leaves(tmp_path: Path) -> None:
    with LLMServer([text("A.", hold=True)]) as server, prompt(tmp_path, server) as one:
        one.type("a\r")
        server.wait_for_stall()
        one.type(CTRL_C)
        one.shows("[interrupted]")
        one.ready()
        one.type(CTRL_C)
        assert one.end() == 130


def test_ctrl_c_at_the_prompt_only_clears_the_line(tmp_path: Path) -> None:
    with LLMServer([text("A.")]) as server, prompt(tmp_path, server) as one:
        press(one, f"x{CTRL_C}{CTRL_C}{CTRL_C}a\r")
        assert asked(server) == ["a"]
        leave(one)


def test_ctrl_c_stops_what_a_command_asks_the_model(tmp_path: Path) -> None:
    with LLMServer([text("A."), text("S.", hold=True)]) as server, prompt(tmp_path, server) as one:
        enter(one, "a")
        one.type("/save one\r")
        server.wait_for_stall()
        press(one, CTRL_C)
        assert "saved as one: a" in one.lines
        leave(one)


def test_ctrl_c_stops_waiting_for_the_list_of_models(tmp_path: Path) -> None:
    slow = raw(b"{}", content_type="application/json", hold=True)
    with LLMServer([], models=slow) as server, prompt(tmp_path, server) as one:
        one.type("/models\r")
        server.wait_for_stall()
        press(one, CTRL_C)
        assert "[interrupted]" in one.lines
        leave(one)


@pytest.mark.parametrize("busy", [False, True])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_sigterm_ends_it_with_143_and_the_terminal_as_before(
    number: int, busy: bool, tmp_path: Path
) -> None:
    with LLMServer([text("A.", hold=True)]) as server, prompt(tmp_path, server) as one:
        if busy:
            one.type("a\r")
            server.wait_for_stall()
        one.child.kill(number)
        assert one.end() == 143


@pytest.mark.parametrize("busy", [False, True])
def test_a_terminal_that_goes_away_ends_it(busy: bool, tmp_path: Path) -> None:
    with LLMServer([text("A."), text("S.", hold=True)]) as server, prompt(tmp_path, server) as one:
        if busy:
            enter(one, "a")
            one.type("/save\r")
            server.wait_for_stall()
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, one.child.child_fd)
        os.close(nowhere)
        assert eventually(lambda: not one.child.isalive())
        assert one.child.exitstatus == 143


def test_what_is_typed_while_a_turn_runs_is_in_the_next_line(tmp_path: Path) -> None:
    with LLMServer([text("A.", hold=True), text("B.")]) as server, prompt(tmp_path, server) as one:
        one.type("a\r")
        server.wait_for_stall()
        one.type("typed ahead")
        server.release()
        one.shows("> typed ahead")
        press(one, "!\r")
        assert asked(server) == ["a", "typed ahead!"]
        leave(one)


def test_a_command_typed_while_a_turn_runs_stays_one(tmp_path: Path) -> None:
    with LLMServer([text("A.", hold=True), text("B.")]) as server, prompt(tmp_path, server) as one:
        one.type("a\r")
        server.wait_for_stall()
        one.type("hi\r/cfg api_key sk-0123456789\r")
        server.release()
        one.until(lambda: one.lines[-1] == "> hi")
        one.type("\r")
        one.until(lambda: one.lines[-1] == "> /cfg api_key sk-0123456789")
        press(one, "\r")
        assert asked(server) == ["a", "hi"]
        leave(one)
    assert "api_key=sk-0123456789" in (tmp_path / ".bantam.cfg").read_text()
    assert (tmp_path / ".bantam_history").read_text() == "a\nhi\n"


def test_of_signals_the_prompt_makes_what_they_mean() -> None:
    one = Interrupts(Clock())
    first = one.current
    one.hear(signal.SIGINT)
    one.hear(signal.SIGINT)  # the same press
    assert (first.why, one.leaving, one.is_set) == (ExitStatus.INTERRUPTED, None, True)
    second = one.fresh()
    assert not one.is_set
    one.press()
    assert second.why is one.leaving is ExitStatus.INTERRUPTED
    other = Interrupts()
    other.press()
    assert not other.is_set
    other.hear(signal.SIGTERM)
    assert other.fresh().why is ExitStatus.TERMINATED


def test_two_signals_one_after_the_other_leave_and_a_hang_is_unwound() -> None:
    clock = Clock()
    one = Interrupts(clock)
    one.hear(signal.SIGINT)
    clock.now = 0.6
    with pytest.raises(KeyboardInterrupt):
        one.hear(signal.SIGINT)
    assert one.leaving is ExitStatus.INTERRUPTED


def test_a_second_signal_comes_too_late_to_leave() -> None:
    clock = Clock()
    one = Interrupts(clock)
    one.hear(signal.SIGINT)
    clock.now = 1.1
    second = one.fresh()
    one.press()
    assert not second.is_set
    one.hear(signal.SIGINT)
    assert (second.why, one.leaving) == (ExitStatus.INTERRUPTED, None)


# -- shell commands ---------------------------------------------------------------------------


def test_a_shell_command_has_the_terminal(tmp_path: Path) -> None:
    with LLMServer([]) as server, prompt(tmp_path, server) as one:
        one.type(
            "!echo be''gun; read -r word; echo got $word; test -t 0 -a -t 1 && echo terminal\r"
        )
        one.shows("begun")
        press(one, "this\r")
        assert one.lines[-3:] == ["got this", "terminal", ">"]
        enter(one, "!printf unended; exit 3")
        assert one.lines[-3:] == ["unended", "[exit: 3]", ">"]
        leave(one)


@pytest.mark.parametrize(
    "breaks",
    [
        "stty raw -echo; exit",
        "stty raw -echo; kill -9 $$",
        "stty -icanon -isig min 0 time 0",
        r"printf '\033[31m\033[?25l\033[?1000h\033(0'",
        r"printf '\033[2;5r\033[4h\033[?6h'",
        "setsid -w true; stty intr ^A",
    ],
)
def test_whatever_a_shell_command_does_to_the_terminal_the_prompt_works(
    breaks: str, tmp_path: Path
) -> None:
    with LLMServer([text("Fine: abc.")]) as server, prompt(tmp_path, server) as one:
        enter(one, f"!{breaks}", "a")
        assert "Fine: abc." in one.lines
        assert not one.screen.cursor.hidden
        assert one.screen.margins is None
        assert pyte.modes.IRM not in one.screen.mode
        leave(one)


def test_what_a_shell_command_may_have_switched_on_is_switched_off_where_the_cursor_is(
    tmp_path: Path,
) -> None:
    with LLMServer([]) as server, prompt(tmp_path, server) as one:
        enter(one, "!printf unended")
        assert one.lines[-2:] == ["unended", ">"]
        off = [
            int(each)
            for modes in re.findall(rb"\x1b\[\?([\d;]+)l", one.raw)
            for each in modes.split(b";")
        ]
        assert {*off} >= {6, 1000, 1002, 1003, 1004, 1005, 1006, 1015, 1047, 1049, 2004}
        for each in (b"\x1b7\x1b[?1049l", b"\x1b[r\x1b8", b"\x1b[4l", b"\x1b[>4;0m", b"\x1b[<u"):
            assert each in one.raw
        leave(one)


def test_a_shell_that_took_the_foreground_and_was_killed_leaves_the_prompt_usable(
    tmp_path: Path,
) -> None:
    steal = (
        "import os, signal; signal.signal(signal.SIGTTOU, signal.SIG_IGN); os.setpgid(0, 0); "
        "os.tcsetpgrp(0, os.getpgrp())"
    )
    with LLMServer([text("A.")]) as server, prompt(tmp_path, server) as one:
        enter(one, f'!{BANTAM[0]} -c "{steal}"', "a")
        assert "A." in one.lines
        leave(one)


def test_ctrl_c_stops_a_shell_command_alone(tmp_path: Path) -> None:
    seconds = unique_seconds()
    with LLMServer([text("A.")]) as server, prompt(tmp_path, server) as one:
        one.type(f"!sleep {seconds}\r")
        assert eventually(lambda: running(f"sleep {seconds}"))
        press(one, CTRL_C)
        assert "[exit: 130]" in one.lines
        assert not running(f"sleep {seconds}")
        enter(one, "a")
        assert "A." in one.lines
        leave(one)


def test_sigterm_ends_a_shell_command_and_the_prompt(tmp_path: Path) -> None:
    seconds = unique_seconds()
    with LLMServer([]) as server, prompt(tmp_path, server) as one:
        one.type(f"!sleep {seconds}\r")
        assert eventually(lambda: running(f"sleep {seconds}"))
        one.child.kill(signal.SIGTERM)
        assert one.end() == 143
        assert not running(f"sleep {seconds}")
