"""Pastes of a megabyte: whole to the last byte, and not a key at a time."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from threading import Thread
from typing import Final

import pytest
from editor_driver import digest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import fragment_list_to_text
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout.controls import BufferControl
from prompt_toolkit.layout.processors import Transformation, TransformationInput
from typist import Typist, typist

from bantam.terminal.drawing import Excerpts
from bantam.terminal.keyboard import Keyboard

MEGABYTE: Final = 1_000_000
COUNTED: Final = {"COUNT_CALLS": "yes"}
PASTE, END_PASTE = "\x1b[200~", "\x1b[201~"
HOME, END, LEFT = "\x1b[H", "\x1b[F", "\x1b[D"
SCREENFUL: Final = 80 * 40  # of prompt_toolkit where there is no terminal


def typed(one: Typist, keys: str) -> Thread:
    """Type more than a terminal can hold at once; return what does so."""
    typing = Thread(target=one.type, args=(keys,), daemon=True)
    typing.start()
    return typing


# -- in the editor ----------------------------------------------------------------------------

LINES: Final = "".join(f"{number:05} {'x' * 43}\n" for number in range(20_000))
ONE_LINE: Final = "".join(f"{number:09} " for number in range(100_000))


@pytest.mark.parametrize("text", [LINES, ONE_LINE], ids=["lines", "one line"])
def test_a_megabyte_is_sent_whole_and_no_character_of_it_costs_a_call(
    text: str, tmp_path: Path
) -> None:
    as_keys = text.replace("\n", "\r")
    with typist(tmp_path, env=COUNTED) as one:
        one.ready()
        typed(one, f"{PASTE}{as_keys}end{END_PASTE}")
        one.shows("end")
        for key in "abc":
            one.type(key)
            one.shows(f"end{'abc'[: 'abc'.index(key) + 1]}")
        one.type("\r")
        assert one.submitted() == [digest(f"{text}endabc")]
        # Drawing costs as much for a long text as for a short one.
        assert one.said[0]["calls"] < 3 * MEGABYTE
        one.leave()


@pytest.mark.parametrize("mode", ["emacs", "vi"])
def test_a_paste_that_the_terminal_does_not_mark_costs_little_for_a_character(
    mode: str, tmp_path: Path
) -> None:
    text = ONE_LINE[:50_000]
    with typist(tmp_path, mode, env=COUNTED) as one:
        one.ready()
        typed(one, f"{text}end")
        one.shows("end")
        one.type("\r")
        assert one.submitted() == [digest(f"{text}end")]
        # Some are needed to see that it is text; as keys it would be thousands.
        assert one.said[0]["calls"] < 300 * len(text)
        one.leave()


def test_in_a_long_line_the_screen_follows_the_cursor(tmp_path: Path) -> None:
    with typist(tmp_path, columns=40, rows=12, env=COUNTED) as one:
        one.ready()
        typed(one, f"{PASTE}{ONE_LINE}end{END_PASTE}")
        one.shows("end")
        assert one.lines[-1].endswith("000099999 end")
        assert one.screen.cursor.y == 11
        one.type(f"{HOME}begin ")
        one.shows("> begin 000000000 000000001")
        assert (one.screen.cursor.x, one.screen.cursor.y) == (8, 0)
        one.type(f"{END}{LEFT * 1000}middle")
        one.shows("middle")
        one.type("\r")
        text = f"begin {ONE_LINE}end"
        assert one.submitted() == [digest(f"{text[:-1000]}middle{text[-1000:]}")]


def test_a_megabyte_typed_ahead_is_in_the_line(tmp_path: Path) -> None:
    with typist(tmp_path, env=COUNTED) as one:
        one.ready()
        one.type("turn\r")
        one.shows('{"turn": "starts"}')
        typed(one, f"{ONE_LINE}end").join()
        (tmp_path / "go").touch()
        one.shows("000099999 end")
        one.type("\r")
        assert one.submitted(2)[1] == digest(f"{ONE_LINE}end")


# -- keys -------------------------------------------------------------------------------------


@contextmanager
def keyboard() -> Iterator[tuple[int, Keyboard]]:
    """Give a keyboard, and the descriptor that what is pressed is written to."""
    keys, terminal = os.openpty()
    with os.fdopen(terminal, encoding="utf-8") as stdin:
        board = Keyboard(stdin)
        with board.raw_mode():
            yield keys, board
    os.close(keys)


def pressed(*parts: str) -> list[tuple[str, str]]:
    """Return the keys that are read when `parts` come one after the other."""
    found = []
    with keyboard() as (keys, board):
        for part in parts:
            os.write(keys, part.encode())
            found += [(str(press.key), press.data) for press in board.read_keys()]
    return found


@given(st.data())
def test_the_keys_do_not_depend_on_how_a_paste_was_cut(data: st.DataObject) -> None:
    text = f"a{PASTE}b\r{PASTE}\x1b[201c{END_PASTE}d{PASTE}{END_PASTE}{END_PASTE}e"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    edges = [0, *cuts, len(text)]
    parts = [text[start:end] for start, end in pairwise(edges)]
    assert pressed(*(part for part in parts if part)) == [
        ("a", "a"),
        (str(Keys.BracketedPaste), f"b\r{PASTE}\x1b[201c"),
        ("d", "d"),
        (str(Keys.BracketedPaste), ""),
        (str(Keys.Ignore), END_PASTE),
        ("e", "e"),
    ]


def test_what_is_typed_is_a_key_each_and_what_must_have_been_pasted_is_one() -> None:
    assert pressed("a" * 255) == [("a", "a")] * 255
    assert pressed("a" * 256) == [(str(Keys.Any), "a" * 256)]
    assert pressed("a" * 4000) == [(str(Keys.Any), "a" * 4000)]
    assert pressed("\x1bb" + "é" * 300 + "\r") == [
        (str(Keys.Escape), "\x1b"),
        (str(Keys.Any), "b" + "é" * 300),
        (str(Keys.ControlM), "\r"),
    ]


# -- drawing ----------------------------------------------------------------------------------


def drawn(line: str, cursor: int, lineno: int = 0) -> Transformation:
    """Return what is drawn of `line` while the cursor is at `cursor` of line 0."""
    asked = TransformationInput(
        BufferControl(Buffer()), Document(line, cursor), lineno, lambda i: i, [("", line)], 80, 40
    )
    return Excerpts().apply_transformation(asked)


def test_a_line_of_some_screenfuls_is_drawn_whole() -> None:
    line = "x" * (2 * SCREENFUL)
    assert drawn(line, 0).fragments == [("", line)]


@pytest.mark.parametrize("cursor", [0, 1, 5000, MEGABYTE // 2, MEGABYTE - 1, MEGABYTE])
def test_of_a_long_line_a_screenful_on_both_sides_of_the_cursor_is_drawn(cursor: int) -> None:
    excerpt = drawn(ONE_LINE, cursor)
    text = fragment_list_to_text(excerpt.fragments)
    assert len(text) <= 3 * SCREENFUL
    at = excerpt.source_to_display(cursor)
    assert text[:at].endswith(ONE_LINE[max(cursor - SCREENFUL, 0) : cursor])
    assert text[at:].startswith(ONE_LINE[cursor : cursor + SCREENFUL])
    assert excerpt.display_to_source(at) == cursor
    assert excerpt.source_to_display(0) == 0
    assert excerpt.source_to_display(MEGABYTE) == len(text)


def test_of_a_long_line_without_the_cursor_the_beginning_is_drawn() -> None:
    text = fragment_list_to_text(drawn(ONE_LINE, MEGABYTE, lineno=1).fragments)
    assert ONE_LINE.startswith(text)
    assert SCREENFUL <= len(text) <= 3 * SCREENFUL
