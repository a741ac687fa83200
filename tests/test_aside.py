"""`!command` at the prompt as the job that it is: groups, stops, the terminal, and what is left."""

import os
import shlex
import signal
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest
from processes import eventually, killed, running, unique_seconds
from program import BANTAM, at, start
from typist import Typist, typist

CTRL_C, CTRL_D, CTRL_Z = "\x03", "\x04", "\x1a"
_PROGRAM: Final = (*BANTAM, *at("http://127.0.0.1:9/v1"))
_TAKES_KEYS: Final = b"\x1b[?2004h"
SHELLS: Final = {"dash": ("dash", "-i"), "bash": ("bash", "--norc", "-i")}
# What a program with the screen to itself does with Ctrl+Z, and behind it.
_EDITOR: Final = r"""
import os, signal, sys, termios, tty
def draw(*_):
    tty.setraw(0)
    print("\x1b[?1049h\x1b[2J\x1b[Hdrawn", end="\r\n", flush=True)
before = termios.tcgetattr(0)
signal.signal(signal.SIGCONT, draw)
draw()
while (key := os.read(0, 1)) != b"q":
    if key == b"\x1a":
        print("\x1b[?1049l", end="", flush=True)
        termios.tcsetattr(0, termios.TCSANOW, before)
        os.kill(0, signal.SIGTSTP)
    else:
        print(key.decode(), end="", flush=True)
termios.tcsetattr(0, termios.TCSANOW, before)
print("\x1b[?1049l", end="", flush=True)
"""
# Stops itself without a word in the middle of a raw read, as by a debugger's hand.
_STOPPED_RAW: Final = r"""
import os, signal, tty
tty.setraw(0)
os.kill(os.getpid(), signal.SIGSTOP)
print("got", os.read(0, 1), end="\r\n")
"""


@contextmanager
def prompt(folder: Path) -> Iterator[Typist]:
    """Start Bantam on a terminal, where no shell could bring it back, and wait for its prompt."""
    with typist(folder, program=_PROGRAM) as one:
        one.until(lambda: one.lines[-1] == ">")
        yield one


@contextmanager
def prompt_of(shell: str, folder: Path) -> Iterator[tuple[Typist, Any]]:
    """Start Bantam as a job of `shell`; yield the terminal and the modes that the shell had."""
    (folder / ".inputrc").write_text("set enable-bracketed-paste off\n")
    (folder / "b").write_text(f"exec {shlex.join(_PROGRAM)}")
    with typist(folder, program=SHELLS[shell], env={"PS1": "$ "}) as one:
        one.looks("$")
        modes = modes_of(one)
        one.type("sh b\r")
        one.until(lambda: one.lines[-1] == ">")
        yield one, modes


def modes_of(one: Typist) -> Any:
    return termios.tcgetattr(one.child.child_fd)


def enter(one: Typist, line: str) -> list[str]:
    """Type `line` at the prompt; return what is shown below it once the next prompt is there."""
    before = one.raw.count(_TAKES_KEYS)
    one.type(f"{line}\r")
    one.until(lambda: one.raw.count(_TAKES_KEYS) > before and one.lines[-1] == ">")
    rows = one.lines
    return rows[len(rows) - rows[::-1].index(f"> {line}") : -1]


def leave(one: Typist) -> None:
    """Press Ctrl+D at the prompt: all is as it was before."""
    one.type(CTRL_D)
    assert one.end() == 0


def leave_all(one: Typist) -> None:
    """Leave the prompt, then the shell around it."""
    one.type(CTRL_D)
    one.until(lambda: one.lines[-1] == "$")
    one.type("exit\r")
    assert one.end() == 0


def hang_up(one: Typist) -> None:
    """Let the terminal go away."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, one.child.child_fd)
    os.close(nowhere)


def processes_of(folder: Path) -> dict[int, str]:
    """Return the processes whose HOME is `folder`, and their commands."""
    home = f"HOME={folder}\0".encode()
    found = {}
    for each in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if home in (each / "environ").read_bytes():
                words = (each / "cmdline").read_bytes().decode().replace("\0", " ")
                found[int(each.name)] = words.strip()
    return found


def bantam_in(folder: Path) -> int:
    """Return the process that Bantam is."""
    wanted = " ".join(_PROGRAM)
    return next(pid for pid, words in processes_of(folder).items() if words == wanted)


every_shell = pytest.mark.parametrize("shell", SHELLS)

# -- groups -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("bash -c 'trap \"kill 0\" EXIT; true'", ["[exit: 143]"]),
        ("kill 0", ["[exit: 143]"]),
        ("kill -9 0", ["[exit: 137]"]),
        ("true; sh -c 'kill -9 0'", ["[exit: 137]"]),
        ("kill -INT 0", ["[exit: 130]"]),
    ],
)
def test_a_command_that_kills_its_group_does_not_kill_the_prompt(
    command: str, said: list[str], tmp_path: Path
) -> None:
    with prompt(tmp_path) as one:
        assert [line for line in enter(one, f"!{command}") if line] == said
        assert enter(one, "!echo on") == ["on"]
        leave(one)


def test_a_command_leads_its_group_and_is_in_the_foreground_from_its_first_instruction(
    tmp_path: Path,
) -> None:
    (tmp_path / "first.py").write_text(
        "import os; print(os.getpid() == os.getpgrp() == os.tcgetpgrp(0))"
    )
    with prompt(tmp_path) as one:
        for _ in range(5):
            assert enter(one, f"!{sys.executable} first.py") == ["True"]
        leave(one)


def test_a_job_in_the_background_lives_on_and_hears_no_key(tmp_path: Path) -> None:
    marker = unique_seconds()
    with prompt(tmp_path) as one:
        enter(one, f"!sleep {marker} < /dev/null > /dev/null 2>&1 &")
        one.type("!trap 'echo cau''ght; exit' INT; echo be''gun; while :; do sleep 0.02; done\r")
        one.shows("begun")
        one.type(CTRL_C)
        one.shows("caught")
        one.until(lambda: one.lines[-1] == ">")
        assert running(f"sleep {marker}")
        leave(one)
    assert running(f"sleep {marker}")
    killed(f"sleep {marker}")


def test_a_command_has_the_jobs_of_a_shell_inside(tmp_path: Path) -> None:
    with prompt(tmp_path) as one:
        for shell in ("PS1='% ' bash --norc --noediting -i", "PS1='% ' dash -i"):
            one.type(f"!{shell}\r")
            one.until(lambda: one.lines[-1].endswith("%"))
            one.type("echo be''gun; cat\r")
            one.until(lambda: one.lines[-1] == "begun")
            assert eventually(lambda: "cat" in processes_of(tmp_path).values())
            one.type(CTRL_Z)
            one.until(lambda: one.lines[-1].endswith("%"))
            one.type("fg\r")
            one.until(lambda: "fg" in one.lines[-2] and one.lines[-1] != "%")
            one.type(CTRL_D)
            one.until(lambda: one.lines[-1].endswith("%"))
            one.type("exit 3\r")
            one.until(lambda: one.lines[-2:] == ["[exit: 3]", ">"])
        leave(one)


# -- stops ------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["kill -STOP $$", "kill -STOP 0", "sh -c 'kill -STOP $$'"])
def test_what_stops_where_no_shell_could_bring_it_back_goes_on(
    command: str, tmp_path: Path
) -> None:
    with prompt(tmp_path) as one:
        assert enter(one, f"!{command}") == []
        leave(one)


def test_ctrl_z_does_nothing_where_no_shell_could_bring_it_back(tmp_path: Path) -> None:
    (tmp_path / "editor.py").write_text(_EDITOR)
    with prompt(tmp_path) as one:
        one.type("!echo be''gun; cat\r")
        one.shows("begun")
        one.type(f"{CTRL_Z}on\r")
        one.until(lambda: one.lines.count("on") + one.lines.count("^Zon") == 2)
        one.type(CTRL_D)
        one.until(lambda: one.lines[-1] == ">")
        one.type(f"!{sys.executable} editor.py\r")
        one.until(lambda: one.raw.count(b"drawn") == 1)
        one.type(CTRL_Z)
        one.until(lambda: one.raw.count(b"drawn") == 2)
        one.type("x")
        one.looks("drawn", "x")
        one.type("q")
        one.until(lambda: one.lines[-1] == ">")
        leave(one)


@every_shell
def test_a_stop_gives_the_shell_its_terminal_and_fg_goes_on(shell: str, tmp_path: Path) -> None:
    with prompt_of(shell, tmp_path) as (one, modes):
        one.type("!kill -STOP $$; echo be''hind\r")
        one.until(lambda: one.lines[-1] == "$")
        assert modes_of(one) == modes
        one.type("fg\r")
        one.shows("behind")
        one.until(lambda: one.lines[-1] == ">")
        leave_all(one)


@every_shell
def test_a_program_that_is_stopped_has_its_modes_again_after_fg(shell: str, tmp_path: Path) -> None:
    (tmp_path / "raw.py").write_text(_STOPPED_RAW)
    with prompt_of(shell, tmp_path) as (one, modes):
        one.type(f"!{sys.executable} raw.py\r")
        one.until(lambda: one.lines[-1] == "$")
        assert modes_of(one) == modes
        one.type("fg\r")
        assert eventually(lambda: not modes_of(one)[3] & termios.ISIG)
        one.type(CTRL_C)
        one.shows(r"got b'\x03'")
        one.until(lambda: one.lines[-1] == ">")
        leave_all(one)


@every_shell
def test_an_editor_can_be_left_and_come_back_to(shell: str, tmp_path: Path) -> None:
    (tmp_path / "editor.py").write_text(_EDITOR)
    with prompt_of(shell, tmp_path) as (one, modes):
        one.type(f"!{sys.executable} editor.py\r")
        for times in (1, 2):
            one.until(lambda times=times: one.raw.count(b"drawn") == times)  # type: ignore[misc]
            one.type(CTRL_Z)
            one.until(lambda: one.lines[-1] == "$")
            assert modes_of(one) == modes
            one.type("fg\r")
        one.until(lambda: one.raw.count(b"drawn") == 3)
        one.type("x")
        one.looks("drawn", "x")
        one.type("q")
        one.until(lambda: one.lines[-1] == ">")
        leave_all(one)


@every_shell
def test_what_ignores_the_keys_ignores_them_alone(shell: str, tmp_path: Path) -> None:
    with prompt_of(shell, tmp_path) as (one, _):
        one.type("!trap '' INT TSTP QUIT; echo be''gun; read -r word; echo got $word\r")
        one.shows("begun")
        one.type(f"{CTRL_C}{CTRL_Z}\x1cword\r")
        one.shows("got word")
        one.until(lambda: one.lines[-1] == ">")
        leave_all(one)


@every_shell
def test_in_the_background_it_leaves_the_terminal_to_the_shell(shell: str, tmp_path: Path) -> None:
    with prompt_of(shell, tmp_path) as (one, modes):
        one.type("!echo be''gun; until test -e enough; do sleep 0.02; done; touch done\r")
        one.shows("begun")
        one.type(CTRL_Z)
        one.until(lambda: one.lines[-1] == "$")
        one.type("bg\r")
        one.until(lambda: "bg" in one.lines[-3] and one.lines[-1] == "$")
        (tmp_path / "enough").touch()
        assert eventually((tmp_path / "done").exists)
        pid = bantam_in(tmp_path)
        assert eventually(lambda: is_stopped(pid))  # it wants to show its prompt
        assert modes_of(one) == modes
        one.type("echo mi''ne\r")
        one.shows("mine")
        one.type("fg\r")
        one.until(lambda: one.lines[-1] == ">")
        leave_all(one)


@every_shell
def test_a_command_that_reads_in_the_background_waits_for_fg(shell: str, tmp_path: Path) -> None:
    with prompt_of(shell, tmp_path) as (one, _):
        one.type("!echo be''gun; cat\r")
        one.shows("begun")
        one.type(CTRL_Z)
        one.until(lambda: one.lines[-1] == "$")
        one.type("bg\r")
        one.until(lambda: "bg" in one.lines[-3] and one.lines[-1] == "$")
        one.type("echo mi''ne\r")
        one.until(lambda: one.lines[-2:] == ["mine", "$"])
        one.type("fg\r")
        one.until(lambda: one.lines[-1] == "sh b")
        one.type("its\r")
        one.until(lambda: one.lines.count("its") == 2)
        one.type(CTRL_D)
        one.until(lambda: one.lines[-1] == ">")
        leave_all(one)


@every_shell
def test_a_stop_that_meets_bantam_alone_is_undone_by_fg(shell: str, tmp_path: Path) -> None:
    waits = "until test -e enough; do sleep 0.02; done"
    with prompt_of(shell, tmp_path) as (one, _):
        one.type(f"!echo be''gun; {waits}; read -r word; echo got $word\r")
        one.shows("begun")
        os.kill(bantam_in(tmp_path), signal.SIGSTOP)
        one.until(lambda: one.lines[-1] == "$")
        (tmp_path / "enough").touch()
        one.type("echo mi''ne\r")
        one.until(lambda: one.lines[-2:] == ["mine", "$"])
        one.type("fg\r")
        one.until(lambda: one.lines[-1] == "sh b")
        one.type("its\r")
        one.shows("got its")
        one.until(lambda: one.lines[-1] == ">")
        leave_all(one)


def is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


# -- ends -------------------------------------------------------------------------------------

# Ignores what can be ignored, has a child that left its session and lost its parent, and stops.
_STUBBORN: Final = "trap '' INT TERM HUP; (setsid sh -c 'sleep {0} & sleep {0}' &); sleep {0} & "


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("last", ["sleep {0}", "kill -STOP $$; sleep {0}"])
def test_a_signal_to_bantam_ends_the_command_and_all_it_started(
    number: int, last: str, tmp_path: Path
) -> None:
    marker = unique_seconds()
    with prompt(tmp_path) as one:
        one.type(f"!{(_STUBBORN + last).format(marker)}\r")
        assert eventually(lambda: len(running(f"sleep {marker}")) >= 4)
        one.child.kill(number)
        assert one.end() == 143
        assert processes_of(tmp_path) == {}


@every_shell
def test_a_signal_to_the_stopped_job_ends_all_of_it(shell: str, tmp_path: Path) -> None:
    marker = unique_seconds()
    with prompt_of(shell, tmp_path) as (one, modes):
        one.type(f"!{_STUBBORN.format(marker)} kill -STOP $$; sleep {marker}\r")
        one.until(lambda: one.lines[-1] == "$")
        one.type("kill %1; fg; echo e''nd\r")
        one.until(lambda: one.lines[-2:] == ["end", "$"])
        assert modes_of(one) == modes
        assert not running(f"sleep {marker}")
        one.type("exit\r")
        one.end()
        assert processes_of(tmp_path) == {}


@every_shell
@pytest.mark.parametrize("stopped", [False, True])
def test_a_terminal_that_goes_away_ends_all_of_it(
    stopped: bool, shell: str, tmp_path: Path
) -> None:
    marker = unique_seconds()
    with prompt_of(shell, tmp_path) as (one, _):
        one.type(f"!{_STUBBORN.format(marker)} echo be''gun; cat; sleep {marker}\r")
        one.shows("begun")
        if stopped:
            one.type(CTRL_Z)
            one.until(lambda: one.lines[-1] == "$")
        hang_up(one)
        assert eventually(lambda: not processes_of(tmp_path))


@every_shell
def test_a_shell_that_is_left_takes_the_stopped_job_with_it(shell: str, tmp_path: Path) -> None:
    marker = unique_seconds()
    with prompt_of(shell, tmp_path) as (one, _):
        one.type(f"!{_STUBBORN.format(marker)} kill -STOP $$; sleep {marker}\r")
        one.until(lambda: one.lines[-1] == "$")
        one.type("exit\r")
        one.until(lambda: "stopped jobs" in "\n".join(one.lines) and one.lines[-1] == "$")
        one.type("exit\r")
        assert eventually(lambda: not processes_of(tmp_path))


# -- prompt files and piped lines -------------------------------------------------------------


def test_the_command_of_a_prompt_file_goes_on_where_no_shell_could_bring_it_back(
    tmp_path: Path,
) -> None:
    (tmp_path / "p.txt").write_text("!kill -STOP $$; echo behind; exit 3")
    with typist(tmp_path, program=(*BANTAM, "p.txt")) as one:
        assert one.end() == 3
        assert one.lines == ["behind"]


@every_shell
def test_the_command_of_a_prompt_file_that_stops_is_a_job_of_the_shell(
    shell: str, tmp_path: Path
) -> None:
    (tmp_path / "p.txt").write_text("!kill -STOP $$; cat; echo behind")
    (tmp_path / ".inputrc").write_text("set enable-bracketed-paste off\n")
    (tmp_path / "b").write_text(f"exec {shlex.join(BANTAM)} p.txt")
    with typist(tmp_path, program=SHELLS[shell], env={"PS1": "$ "}) as one:
        one.looks("$")
        one.type("sh b\r")
        one.until(lambda: "topped" in "\n".join(one.lines) and one.lines[-1] == "$")
        one.type("fg\r")
        one.until(lambda: one.lines[-1] == "sh b")
        one.type("its\r")
        one.until(lambda: one.lines.count("its") == 2)
        one.type(CTRL_D)
        one.shows("behind")
        one.until(lambda: one.lines[-1] == "$")
        one.type("exit\r")
        assert one.end() == 0


def test_ctrl_c_ends_a_stopped_command_that_has_no_terminal(tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text("!touch begun; kill -STOP $$; echo no")
    with start("p.txt", cwd=tmp_path) as process:
        assert eventually(lambda: any(is_stopped(pid) for pid in running("touch begun")))
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, b"")
