"""What a person may see of an answer in the `blocks` dialect while it comes."""

import re
from typing import Final

from bantam.core.generators import if_any
from bantam.model.dialects.blockreader import read
from bantam.model.dialects.markers import (
    THINK,
    Fences,
    begins_with_mark,
    fence_of,
    is_blank,
    may_become_mark,
    without_thoughts,
)

_PIECES: Final = re.compile(r"\n|[^\n]+")
# A CR, which goes if the line ends behind it, and tags that are not whole yet.
_UNCERTAIN_ENDS: Final = ("\r", *(THINK[:length] for length in range(1, len(THINK))))
_LONGEST_BEGINNING: Final = 16  # characters that say whether a line may become a marker line


class BlocksView:
    r"""The prose of one answer that comes in pieces; from its first marker or thought on, later.

    Prose is shown as it comes, but for blank lines, which go if a block follows, and for the
    beginning of what may be a marker line.

    >>> view = BlocksView()
    >>> view.feed("I wri"), view.feed("te.\n\n**RU"), view.feed("N:**\n```\nls\n```\nDo")
    (['I wri'], ['te.'], [])
    >>> view.close()
    ['\n\nDo']
    """

    ended = False  # nothing of an answer is left unread

    def __init__(self) -> None:
        self._whole: list[str] = []
        self._line: list[str] = []
        self._held: list[str] = []  # of this line
        self._blank: list[str] = []  # the line end before it, and blank lines before that
        self._shown = 0
        self._fences = Fences()
        self._streams = False  # this line is no marker line, and shown as it comes
        self._waits = False  # until this line has ended
        self._in_line = False  # some of this line is shown
        self._stopped = False

    def feed(self, part: str) -> list[str]:
        """Take the next part of the answer; return the prose that is certain now."""
        self._whole.append(part)
        out: list[str] = []
        for piece in _PIECES.findall(part):
            if self._stopped:
                break
            if piece == "\n":
                self._end_line(out)
            else:
                self._line.append(piece)
                self._held.append(piece)
                self._go_on(out)
        return if_any("".join(out))

    def close(self) -> list[str]:
        """Return the rest of the prose."""
        prose = read("".join(self._whole)).prose
        return if_any(prose[self._shown :])

    def _go_on(self, out: list[str]) -> None:
        """Show what is certain of a line that has just grown."""
        if self._waits or (not self._streams and is_blank(self._line[-1])):
            return
        if not self._streams:
            begun = "".join(self._line)
            if not self._fences.depth and may_become_mark(begun):
                # Once its beginning is whole, only its end can say more.
                self._waits = len(begun) >= _LONGEST_BEGINNING
                return
            self._streams = True
        text = "".join(self._held)
        tag = -1 if self._fences.depth else text.find(THINK)
        self._waits = tag >= 0
        certain = tag if self._waits else len(text) - len(_uncertain_end(text))
        if self._in_line or not is_blank(text[:certain]):
            self._held = if_any(text[certain:])
            self._show(text[:certain], out)

    def _end_line(self, out: list[str]) -> None:
        line = "".join(self._line).removesuffix("\r")
        if fence := fence_of(line):
            self._fences.take(fence)
        elif not self._fences.depth and (begins_with_mark(line) or _thinks(line)):
            self._stopped = True
            return
        held = "".join(self._held).removesuffix("\r")
        if is_blank(line):
            self._blank.append(held)
        else:
            self._show(held, out)
        self._blank.append("\n")
        self._line, self._held = [], []
        self._streams = self._waits = self._in_line = False

    def _show(self, text: str, out: list[str]) -> None:
        """Show a part of a line that is not blank, and what is before it."""
        if text and not self._in_line:
            self._in_line = True
            # Blank lines at the answer's start go.
            text = "".join([*(self._blank if self._shown else ()), text])
            self._blank = []
        self._shown += len(text)
        out.append(text)


def _uncertain_end(text: str) -> str:
    return next((end for end in _UNCERTAIN_ENDS if text.endswith(end)), "")


def _thinks(line: str) -> bool:
    """Whether the line has a thought in it: what is prose behind that, the whole text says."""
    if THINK not in line:
        return False
    kept, _, inside = without_thoughts(line, inside=False)
    return inside or len(kept) > 1
