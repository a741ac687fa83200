"""The keys of a terminal, and its modes, for prompt_toolkit.

A paste may hold megabytes. prompt_toolkit looks for its end from the beginning at each piece that
comes, and takes one that the terminal does not mark as that many keys, each of which copies the
text. Here both cost a constant for each character.
"""

import re
import termios
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import groupby
from typing import Final, TextIO

from prompt_toolkit.input.posix_utils import PosixStdinReader
from prompt_toolkit.input.typeahead import get_typeahead
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

_PASTE, _END_OF_PASTE = "\x1b[200~", "\x1b[201~"
_SEQUENCE: Final = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")  # ECMA-48 5.4
_READ_BYTES: Final = 4096
# So many characters in one piece were not typed, by however slow a line they come.
_PASTED: Final = 256


class Keyboard(Vt100Input):
    """The keys pressed at the terminal `stdin`."""

    def __init__(self, stdin: TextIO) -> None:
        super().__init__(stdin)
        self.stdin_reader: _Reader = _Reader(self.fileno(), encoding=stdin.encoding)
        self.vt100_parser: _Parser = _Parser(self.vt100_parser.feed_key_callback)

    def read_keys(self) -> list[KeyPress]:
        """Return the keys pressed; Alt+Enter as one, Ctrl+J; no report of a mouse.

        As two, each Esc of vi mode would wait for an Enter. No mouse is asked for, and what looks
        like its reports, a pasted colour code for one, prompt_toolkit cannot read.
        """
        return _as_meant(super().read_keys())

    def keys_of(self, raw: bytes) -> list[KeyPress]:
        """Return the keys that `raw` stands for, which somebody else has read before.

        A key or a paste that is cut at its end is completed by what is read next.
        """
        self.vt100_parser.feed(self.stdin_reader.decoded(raw))
        keys, self._buffer = self._buffer, []
        return _as_meant(keys)

    def unused(self) -> bytes:
        """Return what was read behind an Enter and is for nobody yet, as it came; forget it."""
        text = "".join(map(_typed, get_typeahead(self))) + self.vt100_parser.taken_back()
        return text.encode(errors="surrogateescape")

    def raw_mode(self) -> AbstractContextManager[None]:
        """Let every key come at once, as itself."""
        self._before = termios.tcgetattr(self.fileno())
        return super().raw_mode()

    @contextmanager
    def cooked_mode(self) -> Iterator[None]:
        """Within raw mode, have the modes from before: prompt_toolkit forgets flow control."""
        with super().cooked_mode():
            termios.tcsetattr(self.fileno(), termios.TCSANOW, self._before)
            yield


class _Reader(PosixStdinReader):
    """Reads as much as a terminal can hold, not a quarter of it: the line is drawn each time."""

    def read(self, count: int = _READ_BYTES) -> str:
        return super().read(count)

    def decoded(self, raw: bytes) -> str:
        """Return the text of `raw`, read by somebody else; what is cut waits for the rest."""
        return self._stdin_decoder.decode(raw)


class _Parser(Vt100Parser):
    """Characters -> keys; a marked paste is one."""

    def __init__(self, feed_key_callback: Callable[[KeyPress], None]) -> None:
        super().__init__(feed_key_callback)
        self._pasted: list[str] = []
        self._seen = ""  # its end, where the mark may have begun

    def _get_match(self, prefix: str) -> Keys | tuple[Keys, ...] | None:
        """Let a control sequence that is no known key be none, not Esc and what follows it."""
        match = super()._get_match(prefix)
        return Keys.Ignore if match is None and _SEQUENCE.fullmatch(prefix) else match

    def feed(self, data: str) -> None:
        while data:
            if self._in_bracketed_paste:
                data = self._rest_after_paste(data)
            else:
                before, mark, data = data.partition(_PASTE)
                super().feed(before + mark)

    def taken_back(self) -> str:
        """Return the paste in hand, with its mark, as if nothing of it had come."""
        if not self._in_bracketed_paste:
            return ""
        text = _PASTE + "".join(self._pasted)
        self._pasted, self._seen = [], ""
        self._in_bracketed_paste = False
        return text

    def _rest_after_paste(self, data: str) -> str:
        """Return what is behind the paste in hand, if that ends in `data`."""
        self._pasted.append(data)
        self._seen += data
        if _END_OF_PASTE not in self._seen:
            self._seen = self._seen[1 - len(_END_OF_PASTE) :]
            return ""
        text, _, rest = "".join(self._pasted).partition(_END_OF_PASTE)
        self._pasted, self._seen = [], ""
        self._in_bracketed_paste = False
        self.feed_key_callback(KeyPress(Keys.BracketedPaste, text))
        return rest


def _as_meant(keys: list[KeyPress]) -> list[KeyPress]:
    """Return `keys` as `Keyboard.read_keys` does."""
    meant: list[KeyPress] = []
    for press in _joined(keys):
        if press.key == Keys.ControlM and meant and meant[-1].key == Keys.Escape:
            meant[-1] = KeyPress(Keys.ControlJ, "\n")
        elif press.key != Keys.Vt100MouseEvent:
            meant.append(press)
    return meant


def _typed(press: KeyPress) -> str:
    """Return what the terminal has sent for `press`."""
    is_paste = press.key == Keys.BracketedPaste
    return f"{_PASTE}{press.data}{_END_OF_PASTE}" if is_paste else press.data


def _joined(keys: list[KeyPress]) -> Iterator[KeyPress]:
    """Yield `keys`, of a paste that is not marked one for each run of characters."""
    for is_text, group in groupby(keys, lambda press: press.key == press.data):
        run = list(group)
        if is_text and len(run) >= _PASTED:
            # The key that inserts whatever it is.
            yield KeyPress(Keys.Any, "".join(press.data for press in run))
        else:
            yield from run
