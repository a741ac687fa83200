"""What is typed while nobody reads, on a real pseudo-terminal."""

import os
import sys
import termios
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typist import typist

from bantam.terminal.typeahead import TypeAhead, typed_text


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


def test_what_is_typed_is_kept_unseen(pty: Pty) -> None:
    ahead = TypeAhead(pty.fd)
    with ahead.kept():
        pty.type(b"abc\rde")
    assert ahead.take() == "abc\nde"
    assert ahead.take() == ""
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
    ahead.keep("\x7f\udce9!")
    assert ahead.take() == "abc?!"


def test_more_than_the_terminal_can_hold_is_kept(pty: Pty) -> None:
    """A paste of many lines waits in front of the terminal until there is room."""
    ahead = TypeAhead(pty.fd)
    typing = Thread(target=pty.type, args=(b"line\r" * 4000,))
    with ahead.kept():
        typing.start()
        while typing.is_alive():
            with ahead.kept():
                pass
    assert ahead.take() == "line\n" * 4000


def test_what_is_drained_meanwhile_makes_room_and_is_kept(pty: Pty) -> None:
    ahead = TypeAhead(pty.fd)
    typing = Thread(target=pty.type, args=(b"line\r" * 4000,))
    with ahead.kept():
        ahead.drain()
        typing.start()
        while typing.is_alive():
            ahead.drain()
    assert ahead.take() == "line\n" * 4000


_IN_THE_BACKGROUND: Final = """
import os, select, sys
from signal import SIG_IGN, SIGCONT, SIGSTOP, SIGTTOU, raise_signal, signal
from bantam.terminal.typeahead import TypeAhead
print("ready", flush=True)
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
    select.select([0], [], [])
    os.setpgid(0, 0)
    ahead.drain()
    raise_signal(SIGSTOP)
print("kept", ahead.take())
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
        ("\x1a", "a\x1ab", [_STOPS, "muted: True", "kept: ab"]),
        ("\x19", "a\x19b", [_STOPS, "muted: True", "kept: ab"]),
        ("\x19", "a\x1ab", ["muted: True", "kept: ab"]),
        ("", "a\x00b", ["muted: True", "kept: ab"]),
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
    assert ahead.take() == "ab"


def test_modes_that_a_shell_has_set_meanwhile_do_no_harm(pty: Pty) -> None:
    before = pty.modes
    ahead = TypeAhead(pty.fd)
    with ahead.kept():
        termios.tcsetattr(pty.fd, termios.TCSANOW, before)
        pty.type(b"no line yet")
    assert ahead.take() == "no line yet"
    assert pty.modes == before


def test_where_there_is_no_terminal_nothing_is_kept() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"a prompt\n")
    ahead = TypeAhead(reading)
    with ahead.kept():
        pass
    assert ahead.take() == ""
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
    assert ahead.take() in ("", "a")


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"a\rb\nc\r\nd", "a\nb\nc\nd"),
        (b"ab\x7f\x08\x7fc", "c"),
        ("a\N{FOX FACE}é\x7f\x7fb".encode(), "ab"),
        (b"a\n\x7fb", "ab"),
        (b"a\x1b[Ab\x1b[1;5Cc\x1bOAd\x1b[[Ae\x1b[15~f\x1bxg\x1b", "abcdefg"),
        (b"a\x1b\rb", "a\nb"),
        (b"a\x1b[200~b\x1b[201~c", "abc"),
        (b"a\x04\x15\x00\x12b\tc", "ab\tc"),
        ("a\u202e\u200bb\x9bc".encode(), "ab"),
        (b"a\xe9b", "a\ufffdb"),
        (b"ab\xe6\xbc", "ab"),
    ],
)
def test_keys_make_a_text(raw: bytes, text: str) -> None:
    assert typed_text(raw) == text


@given(st.binary() | st.text().map(str.encode))
def test_whatever_is_typed_makes_a_text_that_does_not_act(raw: bytes) -> None:
    text = typed_text(raw)
    assert all(character in "\n\t" or character >= " " for character in text)
    assert not set("\x7f\x9b\u202e\u2066") & set(text)
