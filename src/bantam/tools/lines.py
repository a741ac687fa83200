"""Lines of a text in bytes, which end at LF; a CR in front of it belongs to the end.

A file may have millions of lines: none of this makes a list of them all.
"""

import io
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Final, TypeVar

from bantam.core.cancel import Cancel

T = TypeVar("T")

_SKIPPED_BYTES: Final = 1 << 16
_BLOCK_BYTES: Final = 1 << 22  # between two looks at the cancel


class Starts:
    """The offsets at which lines of a text begin, asked for in ascending order."""

    def __init__(self, text: bytes) -> None:
        self._text, self._at, self._line = text, 0, 0

    def of(self, line: int) -> int:
        """Return where line number `line`, from 0, begins."""
        while self._line < line:
            count = self._text.count(b"\n", self._at, self._at + _SKIPPED_BYTES)
            if self._line + count < line:
                self._line += count
                self._at += _SKIPPED_BYTES
            else:
                self._at = end_of(self._text, self._at, line - self._line)
                self._line = line
        return self._at


def end_of(text: bytes, start: int, lines: int) -> int:
    """Return the offset behind `lines` lines, the first of which begins at `start`."""
    for _ in range(lines):
        start = text.find(b"\n", start) + 1 or len(text)
    return start


def found(text: bytes, needle: bytes, cancel: Cancel) -> Iterator[tuple[int, int]]:
    """Yield each place of `needle`, overlapping ones too: the LFs before it, and its offset."""
    lines = counted = start = 0
    while start < len(text):
        cancel.check()
        end = start + _BLOCK_BYTES
        at = text.find(needle, start, end + len(needle) - 1)
        if at < 0:
            start = end
            continue
        lines += text.count(b"\n", counted, at)
        counted = at
        yield lines, at
        start = at + 1


def lines_of(text: bytes) -> list[bytes]:
    r"""Return all lines of a short text, each with its end.

    >>> lines_of(b"a\rb\r\nc")
    [b'a\rb\r\n', b'c']
    """
    return io.BytesIO(text).readlines()  # not splitlines(): it also splits at a lone CR


def bare(text: bytes) -> bytes:
    r"""Return `text` without its last line end, if it ends with one.

    >>> bare(b"a\r\n"), bare(b"a\n\n"), bare(b"a\r")
    (b'a', b'a\n', b'a\r')
    """
    return text.removesuffix(b"\r\n" if text.endswith(b"\r\n") else b"\n")


def shared(one: Sequence[T], other: Sequence[T]) -> int:
    """Return how many first items are the same."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
