"""What may befall the prompt, whatever it is doing: a table, at a real pseudo-terminal.

The states in which an answer is awaited keep what is typed; `cat` and the question take it.
"""

import os
import shlex
import signal
import termios
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pyte
import pytest
from llmserver import LLMServer, Reply, error, raw, shell, text
from processes import eventually
from program import BANTAM, at
from typist import Typist, typist

from bantam import __version__
from bantam.core.errors import ExitStatus
from bantam.terminal.interrupts import Interrupts

CTRL_C, CTRL_D, CTRL_U, CTRL_Z = "\x03", "\x04", "\x15", "\x1a"
_START: Final = f"bantam {__version__} | scripted at 127.0.0.1 | key: none | /help"
_TOKENS: Final = "[tokens: 12 prompt + 5 completion | context: 12/1000 (1.2%)]"
_TWO_STEPS: Final = "[tokens: 24 prompt + 10 completion | context: 12/1000 (1.2%)]"
_HALF_FULL: Final = "[tokens: 624 prompt + 5 completion | context: 624/1000 (62.4%)]"
_QUESTION: Final = "Context usage is at 62.4% (624 / 1000 tokens). Compact conversation? [Y/n]:"
_RETRY: Final = "[retry 1/9 in 50 s: 503 Service Unavailable]"
_CALL: Final = '[tool call: shell_exec(command="sh ./tool")]'
_SHOWN: Final = ("One.", "", "Two.", "", "Three...")
# What ignores every signal that can be ignored, has a child in another session, and ends in time.
_TOOL: Final = """
trap '' INT TERM HUP TSTP
setsid sleep 999 &
touch begun
until test -e enough; do sleep 0.02; done
kill -9 $!
echo done
"""
# A program that keeps the terminal for itself, and leaves it so; it ends with a key.
_RAW: Final = r"""
printf '\033[?1049h\033[?25l\033[?1000h\033[?2004h'
stty raw -echo
printf 'begun\r\n'
dd bs=1 count=1 2> dd | od -An -c
"""


def _until_four(reply: Reply) -> Reply:
    """Return `reply`, with a silence before the word Four."""
    four = reply.body.index(b"Fo")
    return replace(reply, stall_after=reply.body.rindex(b"data: ", 0, four))


@dataclass(frozen=True, slots=True)
class State:
    """What the prompt does after `keys`, and how the screen looks then, below the start line.

    `stopped` and `finished`: what is there in place of the last line of `looks` after a Ctrl+C, and
    after the keys `finish`, or what it waits for has come; "no" was typed before, where it is
    `keeping`. `again`: the first line of `finished` after a shell's `fg`.
    """

    keys: tuple[str, ...]
    looks: tuple[str, ...]
    stopped: tuple[str, ...]
    finished: tuple[str, ...]
    replies: tuple[Reply, ...] = ()
    models: Reply | None = None
    finish: str = ""
    keeping: bool = True
    again: tuple[str, ...] = ()


_BROKEN_OFF: Final = ("[interrupted]", "> no")
STATES: Final[Mapping[str, State]] = {
    "typing": State(
        keys=("half a line",),
        looks=("> half a line",),
        stopped=(">",),
        finished=("> half a line", "A.", _TOKENS, ">"),
        replies=(text("A."),),
        finish="\r",
        keeping=False,
        again=("> half a line",),
    ),
    "text": State(
        keys=("a\r",),
        looks=("> a", *_SHOWN),
        stopped=("Three...", *_BROKEN_OFF),
        finished=("Three...", "", "Four.", _TOKENS, "> no"),
        replies=(_until_four(text("One.\n\nTwo.\n\nThree...\n\nFour.")),),
        again=("", "Three..."),
    ),
    "reasoning": State(
        keys=("a\r",),
        looks=("> a", "--- reasoning start ---", *_SHOWN),
        stopped=("Three...", "--- reasoning end ---", *_BROKEN_OFF),
        finished=("Three...", "", "Four.", "--- reasoning end ---", "A.", _TOKENS, "> no"),
        replies=(_until_four(text("A.", reasoning="One.\n\nTwo.\n\nThree...\n\nFour.")),),
        again=("",),
    ),
    "tool": State(
        keys=("a\r",),
        looks=("> a", _CALL),
        stopped=(
            _CALL,
            "[tool result: shell_exec]",
            "interrupted by the user",
            _TOKENS,
            *_BROKEN_OFF,
        ),
        finished=(
            _CALL,
            "[tool result: shell_exec]",
            "done",
            "",
            "exit: 0",
            "",
            "A.",
            _TWO_STEPS,
            "> no",
        ),
        replies=(shell("sh ./tool"), text("A.")),
    ),
    "cat": State(
        keys=("!echo be''gun; cat\r",),
        looks=("> !echo be''gun; cat", "begun"),
        stopped=("begun", "^C", "[exit: 130]", ">"),
        finished=("begun", ">"),
        finish=CTRL_D,
        keeping=False,
    ),
    "raw": State(
        keys=("!sh ./raw\r",),
        looks=("> !sh ./raw", "begun"),
        stopped=("begun", " 003", "", ">"),
        finished=("begun", "   x", "", ">"),
        finish="x",
        keeping=False,
    ),
    "retry": State(
        keys=("a\r",),
        looks=("> a", "[the server says: busy]", _RETRY),
        stopped=(_RETRY, *_BROKEN_OFF),
        finished=(_RETRY, *_BROKEN_OFF),
        replies=(error(503, "busy", headers={"retry-after": "50"}),),
        finish=CTRL_C,
        again=(_RETRY,),
    ),
    "question": State(
        keys=("a\r",),
        looks=("> a", "A.", _HALF_FULL, _QUESTION),
        stopped=(_QUESTION, ">"),
        finished=(f"{_QUESTION} n", ">"),
        replies=(text("A.", usage={"prompt_tokens": 624, "completion_tokens": 5}),),
        finish="n\r",
        keeping=False,
        again=(f"{_QUESTION} n",),
    ),
    "models": State(
        keys=("/models\r",),
        looks=("> /models",),
        stopped=("> /models", *_BROKEN_OFF),
        finished=("> /models", "* scripted", "> no"),
        models=raw(b'{"data": [{"id": "scripted"}]}', content_type="application/json", hold=True),
    ),
    "compact": State(
        keys=("a\r", "/compact\r"),
        looks=("> a", "A.", _TOKENS, "> /compact", "...requesting..."),
        stopped=(
            "[the conversation was not compacted: interrupted by the user]",
            "error: nothing has changed",
            "> no",
        ),
        finished=(
            "[the conversation was not compacted: interrupted by the user]",
            "error: nothing has changed",
            "> no",
        ),
        replies=(text("A."), text("S.", hold=True)),
        finish=CTRL_C,
        again=("[the conversation was not compacted: interrupted by the user]",),
    ),
}
# A shell, and the script that it has as a job: which becomes Bantam, or waits for it.
PARENTS: Final = {
    "dash": (("dash", "-i"), "exec {}"),
    "bash": (("bash", "--norc", "-i"), "exec {}"),
    "dash, in a script": (("dash", "-i"), "{}; exit $?"),
    "bash, in a script": (("bash", "--norc", "-i"), "{}; exit $?"),
}
SIZES: Final = {"80x24": (80, 24), "40x12": (40, 12)}


class Prompt:
    """A prompt in a state, on a terminal; `folder` is its own, and HOME."""

    def __init__(self, one: Typist, state: State, server: LLMServer, folder: Path) -> None:
        self.one = one
        self.state = state
        self.server = server
        self.folder = folder
        self.modes_of_the_shell: list[Any] = []

    def looks(self, *lines: str, below: str | None = None) -> None:
        """Wait until the screen shows `lines`, as many as it has room for; see `Typist.looks`."""
        columns, rows = self.one.screen.columns, self.one.screen.lines
        parts = [
            line[at : at + columns].rstrip()
            for line in lines
            for at in range(0, max(1, len(line)), columns)
        ]
        self.one.looks(*parts[-rows:], below=below)

    def enter(self) -> None:
        """Come into the state."""
        one, state = self.one, self.state
        *before, last = state.keys
        one.until(lambda: one.lines[-1] == ">")
        for keys in before:
            one.type(keys)
            one.until(lambda: one.lines[-2].endswith("]") and one.lines[-1] == ">")
        one.type(last)
        if any(each and (each.hold or each.stall_after) for each in (*state.replies, state.models)):
            self.server.wait_for_stall()
        one.until(lambda: any(state.looks[-1][:14] in line for line in one.lines))
        if "tool" in state.looks[-1]:
            assert eventually((self.folder / "begun").exists)

    def finish(self) -> None:
        """Let come what it waits for."""
        if self.state.finish != CTRL_C:
            (self.folder / "enough").touch()
            self.server.release()
        self.one.type(self.state.finish)

    def is_muted(self) -> bool:
        """Return whether the terminal shows nothing of what is typed."""
        return not termios.tcgetattr(self.one.child.child_fd)[3] & termios.ECHO

    def leave(self) -> None:
        """Leave as a person does: all is as it was before."""
        self.one.type(CTRL_U + CTRL_D)
        self.end(0)

    def end(self, status: int) -> None:
        """Wait for the end: all is as it was before, and a shell's prompt would begin a line."""
        assert self.one.end() == status
        assert self.one.screen.mode == pyte.Screen(1, 1).mode
        assert self.one.screen.cursor.x == 0
        assert self.processes() == []

    def processes(self) -> list[str]:
        """Return the commands of the processes that it has started, and its own."""
        home = f"HOME={self.folder}\0".encode()
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if home in (folder / "environ").read_bytes():
                    found.append((folder / "cmdline").read_bytes().decode().replace("\0", " "))
        return found


@contextmanager
def prompt(
    name: str, folder: Path, size: tuple[int, int] = SIZES["80x24"], parent: str = ""
) -> Iterator[Prompt]:
    """Start a prompt and let it come into a state; as the job of a shell, if one is named."""
    state = STATES[name]
    (folder / "tool").write_text(_TOOL)
    (folder / "raw").write_text(_RAW)
    with LLMServer(state.replies, models=state.models) as server:
        program: Sequence[str] = (*BANTAM, *at(server.url), "-o", "context_window=1000")
        if parent:
            (folder / ".inputrc").write_text("set enable-bracketed-paste off\n")
            (folder / "b").write_text(PARENTS[parent][1].format(shlex.join(program)))
            program = PARENTS[parent][0]
        env = {"PS1": "$ "}
        with typist(folder, program=program, env=env, columns=size[0], rows=size[1]) as one:
            here = Prompt(one, state, server, folder)
            if parent:
                one.looks("$")
                here.modes_of_the_shell = termios.tcgetattr(one.child.child_fd)
                one.type("sh b\r")
            here.enter()
            yield here


every_state = pytest.mark.parametrize("name", STATES)
both_sizes = pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)


@every_state
@both_sizes
def test_ctrl_c_is_back_at_the_prompt(name: str, size: tuple[int, int], tmp_path: Path) -> None:
    with prompt(name, tmp_path, size) as here:
        here.one.type(f"no{CTRL_C}" if here.state.keeping else CTRL_C)
        here.looks(_START, *here.state.looks[:-1], *here.state.stopped)
        assert len(here.processes()) == 1
        here.leave()


@every_state
def test_a_second_ctrl_c_leaves_if_the_first_has_broken_off_a_wait(
    name: str, tmp_path: Path
) -> None:
    with prompt(name, tmp_path) as here:
        here.one.type(CTRL_C)
        here.one.until(lambda: here.one.lines[-1] == ">")
        here.one.type(CTRL_C)
        if here.state.keeping:
            here.end(130)
        else:
            here.leave()
        here.looks(_START, *here.state.looks[:-1], *here.state.stopped[:-1], ">")


@pytest.mark.parametrize(
    ("name", "number"),
    [
        *((name, signal.SIGTERM) for name in STATES),
        *((name, signal.SIGHUP) for name in ("typing", "tool", "cat", "raw")),
    ],
)
def test_a_signal_that_ends_it_leaves_nothing_behind(
    name: str, number: int, tmp_path: Path
) -> None:
    with prompt(name, tmp_path, SIZES["40x12"]) as here:
        here.one.child.kill(number)
        here.end(143)


@every_state
def test_a_terminal_that_goes_away_ends_it(name: str, tmp_path: Path) -> None:
    with prompt(name, tmp_path) as here:
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, here.one.child.child_fd)
        os.close(nowhere)
        assert eventually(lambda: not here.one.child.isalive())
        assert here.one.child.exitstatus == 143
        assert eventually(lambda: not here.processes())


@every_state
def test_another_size_for_a_while_loses_and_doubles_nothing(name: str, tmp_path: Path) -> None:
    with prompt(name, tmp_path) as here:
        one, before = here.one, len(here.one.raw)
        one.tell_size(40, 12)
        if name in ("typing", "question"):  # what is edited is drawn anew
            one.until(lambda: len(one.raw) > before)
        one.tell_size(80, 24)
        if here.state.keeping:
            one.type("no")
        here.finish()
        here.looks(_START, *here.state.looks[:-1], *here.state.finished)
        here.leave()


def test_a_signal_that_ends_a_command_and_the_prompt_cancels_what_is_said_of_the_command() -> None:
    """Else its status, which a terminal that has gone away does not take, would be the failure."""
    one = Interrupts()
    one.note(signal.SIGINT)
    assert not one.is_set
    one.note(signal.SIGHUP)
    assert one.current.why is ExitStatus.TERMINATED


@pytest.mark.parametrize("name", ["typing", "text", "retry"])
def test_ctrl_z_does_nothing_where_nobody_could_bring_it_back(name: str, tmp_path: Path) -> None:
    with prompt(name, tmp_path) as here:
        here.one.type(f"{CTRL_Z}no" if here.state.keeping else CTRL_Z)
        here.finish()
        here.looks(_START, *here.state.looks[:-1], *here.state.finished)
        here.leave()


@pytest.mark.parametrize(
    ("name", "parent"),
    [
        *((name, "dash") for name in STATES if name != "raw"),
        ("typing", "bash"),
        ("tool", "bash"),
        ("cat", "bash"),
        ("text", "dash, in a script"),
        ("text", "bash, in a script"),
    ],
)
def test_ctrl_z_gives_the_shell_its_terminal_and_fg_goes_on(
    name: str, parent: str, tmp_path: Path
) -> None:
    with prompt(name, tmp_path, parent=parent) as here:
        one = here.one
        one.type(CTRL_Z)
        one.until(lambda: one.lines[-1] == "$")
        assert termios.tcgetattr(one.child.child_fd) == here.modes_of_the_shell
        one.type("echo h''i\r")
        one.until(lambda: one.lines[-3:] == ["$ echo h''i", "hi", "$"])
        one.type("fg\r")
        one.until(lambda: "$ fg" in one.lines and one.lines[-1] != "$ fg")
        if name != "cat":
            assert eventually(here.is_muted)  # before it is awake, the terminal echoes
        if here.state.keeping:
            one.type("no")
        here.finish()
        here.looks("sh b", *here.state.again, *here.state.finished[1:], below="$ fg")
        one.type(CTRL_U + CTRL_D)
        one.until(lambda: one.lines[-1] == "$")
        assert termios.tcgetattr(one.child.child_fd) == here.modes_of_the_shell
        one.type("exit\r")
        here.end(0)
