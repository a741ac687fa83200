"""What is typed while nobody reads, on a real pseudo-terminal."""

import os
import re
import sys
import termios
from collections.abc import Iterator
from contextlib import suppress
from io import StringIO
from pathlib import Path
from threading import Thread
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typist import typist

from bantam.terminal.typeahead import TypeAhead


class Pty:
    """A pseudo-terminal: `keyboard` is written to, `fd` is the terminal."""

    def __init__(self) -> None:
        self.keyboard, self.fd = os.openpty()

    def type(self, keys: bytes) -> None:
        """Press `keys`."""
        while keys:
            keys = keys[os.write(self.keyboard, keys) :]

    @property
    def modes(self) -> Any:
        """The terminal's modes now."""
        return termios.tcgetattr(self.fd)


@pytest.fixture
def pty() -> Iterator[Pty]:
    one = Pty()
    yield one
    for fd in (one.keyboard, one.fd):
        os.close(fd)


def taken(ahead: TypeAhead) -> list[bytes]:
    """Return all the lines, each with the keys for one prompt."""
    return [*iter(ahead.take, b"")]


def test_what_is_typed_is_kept_unseen(pty: Pty) -> None:
    ahead = TypeAhead(pty.fd)
    with ahead.kept():
        pty.type(b"abc\rde")
    assert taken(ahead) == [b"abc", b"de"]
    assert ahead.take() == b""
    os.set_blocking(pty.keyboard, False)
    with pytest.raises(BlockingIOError):
        os.read(pty.keyboard, 1)


def test_what_was_typed_just_before_is_kept_too(pty: Pty) -> None:
    ahead = TypeAhead(pty.fd)
    pty.type(b"ab")
    with ahead.kept():
        pty.type(b"c")
    with ahead.kept():
        pty.type("\N{FOX FACE}".encode())
    ahead.keep(b"\x7f\xe9!")
    assert ahead.take() == "abc\N{FOX FACE}\x7f".encode() + b"\xe9!"


def test_more_than_the_terminal_can_hold_is_kept(pty: Pty) -> None:
    """A paste of many lines waits in front of the terminal until there is room."""
    ahead = TypeAhead(pty.fd)
    typing = Thread(target=pty.type, args=(b"line\r" * 4000,))
    with ahead.kept():
        typing.start()
        while typing.is_alive():
            with ahead.kept():
                pass
    assert taken(ahead) == [b"line"] * 4000


def test_what_is_drained_meanwhile_makes_room_and_is_kept(pty: Pty) -> None:
    ahead = TypeAhead(pty.fd)
    typing = Thread(target=pty.type, args=(b"line\r" * 4000,))
    with ahead.kept():
        ahead.drain()
        typing.start()
        while typing.is_alive():
            ahead.drain()
    assert taken(ahead) == [b"line"] * 4000


_IN_THE_BACKGROUND: Final = """
import os, select, sys
from signal import SIG_IGN, SIGCONT, SIGSTOP, SIGTTOU, raise_signal, signal
from bantam.terminal.typeahead import TypeAhead
child = os.fork()
if child:
    stop = os.WSTOPSIG(os.waitpid(child, os.WUNTRACED)[1])
    os.tcsetpgrp(0, child)
    os.kill(child, SIGCONT)
    os.waitpid(child, 0)
    signal(SIGTTOU, SIG_IGN)
    os.tcsetpgrp(0, os.getpgrp())
    sys.exit(stop != SIGSTOP)
ahead = TypeAhead(0)
with ahead.kept():
    print("ready", flush=True)
    select.select([0], [], [])
    os.setpgid(0, 0)
    ahead.drain()
    raise_signal(SIGSTOP)
print("kept", ahead.take().decode())
"""


def test_a_job_in_the_background_takes_no_keys_and_is_not_stopped(tmp_path: Path) -> None:
    with typist(tmp_path, program=(sys.executable, "-c", _IN_THE_BACKGROUND)) as one:
        one.shows("ready")
        one.type("x\n")
        one.shows("kept x")
        assert one.end() == 0


_WITH_A_KEY_TO_STOP: Final = """
import select, sys, termios
from signal import SIGTSTP, signal
from bantam.terminal.typeahead import TypeAhead
before = termios.tcgetattr(0)
modes = termios.tcgetattr(0)
modes[6][termios.VSUSP] = sys.argv[1].encode("latin-1", "ignore") or bytes(1)
termios.tcsetattr(0, termios.TCSANOW, modes)
signal(SIGTSTP, lambda *_: print("stops as before:", termios.tcgetattr(0) == modes))
ahead = TypeAhead(0)
with ahead.kept():
    print("ready", flush=True)
    select.select([0], [], [])
    ahead.drain()
    print("muted:", not termios.tcgetattr(0)[3] & termios.ECHO)
print("kept:", ahead.take())
termios.tcsetattr(0, termios.TCSANOW, before)
"""
_STOPS: Final = "stops as before: True"


@pytest.mark.parametrize(
    ("key", "typed", "told"),
    [
        ("\x1a", "a\x1ab", [_STOPS, "muted: True", "kept: b'ab'"]),
        ("\x19", "a\x19b", [_STOPS, "muted: True", "kept: b'ab'"]),
        ("\x19", "a\x1ab", ["muted: True", r"kept: b'a\x1ab'"]),
        ("", "a\x00b", ["muted: True", r"kept: b'a\x00b'"]),
    ],
)
def test_the_key_that_stops_a_job_stops_it_in_the_modes_from_before(
    key: str, typed: str, told: list[str], tmp_path: Path
) -> None:
    with typist(tmp_path, program=(sys.executable, "-c", _WITH_A_KEY_TO_STOP, key)) as one:
        one.shows("ready")
        one.type(typed)
        assert one.end() == 0
        assert one.lines == ["ready", *told]


def test_the_modes_are_as_before_however_it_ends(pty: Pty) -> None:
    before = pty.modes
    during: list[Any] = []

    def fail() -> None:
        with TypeAhead(pty.fd).kept():
            during.extend(pty.modes)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert pty.modes == before
    assert during[3] & termios.ISIG
    assert during[3] & termios.NOFLSH, "Ctrl+C would discard what was typed"
    assert not during[3] & (termios.ECHO | termios.ICANON)


def test_one_in_another_leaves_the_outer_its_modes(pty: Pty) -> None:
    ahead = TypeAhead(pty.fd)
    with ahead.kept():
        during = pty.modes
        with ahead.kept():
            pty.type(b"a")
        assert pty.modes == during
        pty.type(b"b")
    assert ahead.take() == b"ab"


def test_modes_that_a_shell_has_set_meanwhile_do_no_harm(pty: Pty) -> None:
    before = pty.modes
    ahead = TypeAhead(pty.fd)
    with ahead.kept():
        termios.tcsetattr(pty.fd, termios.TCSANOW, before)
        pty.type(b"no line yet")
    assert ahead.take() == b"no line yet"
    assert pty.modes == before


def test_where_there_is_no_terminal_nothing_is_kept() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"a prompt\n")
    ahead = TypeAhead(reading)
    with ahead.kept():
        pass
    assert ahead.take() == b""
    assert os.read(reading, 100) == b"a prompt\n"
    for fd in (reading, writing):
        os.close(fd)


def test_a_terminal_that_goes_away_is_no_error() -> None:
    one = Pty()
    ahead = TypeAhead(one.fd)
    with ahead.kept():
        one.type(b"a")
        os.close(one.keyboard)
        ahead.drain()
    os.close(one.fd)
    assert ahead.take() in (b"", b"a")


# -- lines ------------------------------------------------------------------------------------

PASTE, END_PASTE = b"\x1b[200~", b"\x1b[201~"


@pytest.mark.parametrize(
    ("raw", "lines"),
    [
        (b"hi\r/cfg model x\r", [b"hi", b"/cfg model x"]),
        (b"\r\ra\r\r\rb", [b"a", b"b"]),
        (b"a\nb\x1b\rc\rd", [b"a\nb\x1b\rc", b"d"]),
        (b"a" + PASTE + b"b\rc\x1b[31m\r" + END_PASTE + b"d\re", None),
        (PASTE + b"a\r" + END_PASTE + PASTE + b"\rb" + END_PASTE + b"\rc", None),
        (b"a\x1b[A\x7f\x1b\r\x1b", [b"a\x1b[A\x7f\x1b\r\x1b"]),
        (END_PASTE + b"a\rb", [END_PASTE + b"a", b"b"]),
    ],
)
def test_an_enter_ends_a_line_but_not_in_a_paste_or_with_alt(
    raw: bytes, lines: list[bytes] | None, pty: Pty
) -> None:
    ahead = TypeAhead(pty.fd)
    ahead.keep(raw)
    assert taken(ahead) == (lines or raw.rsplit(b"\r", 1))


def test_what_is_typed_later_is_another_line(pty: Pty) -> None:
    ahead = TypeAhead(pty.fd)
    ahead.keep(b"a\rb")
    assert ahead.take() == b"a"
    ahead.keep(b"c")
    assert taken(ahead) == [b"b", b"c"]


def test_what_waits_can_be_forgotten(pty: Pty) -> None:
    ahead = TypeAhead(pty.fd)
    ahead.keep(b"a\rb\rc")
    assert ahead.take() == b"a"
    ahead.forget()
    assert ahead.take() == b""


def test_a_paste_whose_end_has_not_come_is_not_left_to_be_keys(pty: Pty) -> None:
    ahead = TypeAhead(pty.fd)
    ahead.keep(b"a\rb" + PASTE + b"c" + END_PASTE + b"\rd" + PASTE + b"e\rf")
    assert ahead.take() == b"a" + PASTE + b"e\rf"
    assert taken(ahead) == [b"b" + PASTE + b"c" + END_PASTE, b"d"]


@given(st.lists(st.sampled_from([b"x", b"\r", b"\n", b"\x1b", PASTE, END_PASTE, b"[20", b"1~"])))
def test_whatever_is_typed_no_enter_that_would_send_is_taken(parts: list[bytes]) -> None:
    ahead = TypeAhead(-1)
    ahead.keep(b"".join(parts))
    lines = taken(ahead)
    for line in lines:
        outside = re.sub(rb"(?s)\x1b\[200~.*?(\x1b\[201~|\Z)", b"", line)
        assert b"\r" not in outside.replace(b"\x1b\r", b"")
    assert b"".join(lines).count(b"x") == parts.count(b"x")


MOST: Final = 16 << 20


@pytest.mark.parametrize("before_limit", range(8))
def test_of_what_is_too_much_nothing_becomes_a_key(before_limit: int, pty: Pty) -> None:
    ahead = TypeAhead(pty.fd)
    ahead.keep(b"x" * (MOST - before_limit))
    for part in (PASTE, b"lost\r/lost\x1b[2", b"01", b"~\r", b"lost\r", PASTE, b"\r"):
        ahead.keep(part)
    keys = ahead.take()
    assert len(keys) < MOST + 20
    assert keys.startswith(b"x" * (MOST - before_limit) + PASTE)
    ends = keys.count(END_PASTE)
    assert keys.count(PASTE) - ends == 1, "the last paste has not ended"
    assert b"/" not in keys[MOST:]
    assert taken(ahead) == []


def test_many_pieces_cost_no_more_than_one(pty: Pty) -> None:
    ahead = TypeAhead(pty.fd)
    for _ in range(400_000):
        ahead.keep(b"0123456789" * 4)
    assert len(ahead.take()) == 16_000_000


# -- modes ------------------------------------------------------------------------------------


def test_enter_is_told_from_ctrl_j(pty: Pty) -> None:
    ahead = TypeAhead(pty.fd)
    with ahead.kept():
        pty.type(b"a\nb\rc")
    assert taken(ahead) == [b"a\nb", b"c"]


def test_an_enter_in_the_moment_before_ends_a_line_too(pty: Pty) -> None:
    ahead = TypeAhead(pty.fd)
    pty.type(b"a\rb\r")
    with ahead.kept():
        pty.type(b"c\nd")
    assert taken(ahead) == [b"a", b"b", b"c\nd"]


def test_the_terminal_is_asked_to_mark_pastes_and_no_longer_at_the_end(pty: Pty) -> None:
    out = StringIO()
    ahead = TypeAhead(pty.fd, out)
    with ahead.kept():
        with ahead.kept():
            pass
        assert out.getvalue().rpartition("\x1b")[2] == "[?2004h"
    assert out.getvalue().rpartition("\x1b")[2] == "[?2004l"


def test_a_terminal_that_takes_no_marks_is_no_error(pty: Pty) -> None:
    with Path("/dev/full").open("w") as out:
        with TypeAhead(pty.fd, out).kept():
            pty.type(b"a")
        with suppress(OSError):
            out.close()
