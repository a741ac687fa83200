"""Streamed text as it is, where no line of it is drawn anew."""

from typing import TextIO

from bantam.core.text import ScreenFilter


class Verbatim:
    """Streamed text as it is, between `begin` and `end`: `feed` and `close` as `Live` has them."""

    def __init__(self, out: TextIO, begin: str = "", end: str = "") -> None:
        self._out = out
        self._end = end
        self._filter = ScreenFilter()
        self._at_line_start = True
        out.write(begin)

    def feed(self, part: str) -> None:
        """Write what can be shown by now."""
        self._write(self._filter.feed(part))

    def close(self) -> None:
        """Write what was held back; the cursor then begins a line."""
        self._write(self._filter.close())
        self._out.write(self._end if self._at_line_start else f"{self._end}\n")

    def begin_anew(self) -> None:
        """Go on where the cursor is; see `Live`."""

    def _write(self, text: str) -> None:
        if text:
            self._out.write(text)
            self._at_line_start = text.endswith("\n")
