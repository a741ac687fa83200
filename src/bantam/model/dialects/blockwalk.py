"""Where a block of the `blocks` dialect ends: rules B1 to B8 for a block with a name."""

from typing import Final

from bantam.model.dialects.markers import Fence, Fences, Mark, fence_of, is_blank, mark_of

_ANY_EOF: Final = ("TOOL", "SKILL")


class Walk:
    """One block from behind its opener, row by row, until it is known where it ends.

    `wrapper`: the fence around the body, which begins at row `body`. `closing`: the row of its
    EOF. `at`: the row that ended the walk.
    """

    def __init__(self, rows: list[str], start: int, mark: Mark) -> None:
        self._rows = rows
        self._mark = mark
        self.wrapper = fence_of(rows[start]) if start < len(rows) else None
        self.body = self.at = start + bool(self.wrapper)
        self.closing: int | None = None
        self._fences = Fences()
        if self.wrapper:
            self._fences.take(self.wrapper)
        self._first_close: int | None = None  # the wrapper's, if the fences are balanced
        self._last_bare: int | None = None  # the last line that may be the wrapper's end
        self._reopened = False
        self._behind_wrapper = False  # nothing but blank lines since the fences were closed
        # The first EOF in an open fence that closes if no better one comes, and `_last_bare` then.
        self._inner: tuple[int, int | None] | None = None

    def run(self, most: int) -> bool:
        """Walk to the block's end; whether that was given up.

        `most`: how many rows it may look behind a place where the block may turn out to have ended.
        """
        fallback: int | None = None
        while self.at < len(self._rows) and not self._ends(self._rows[self.at]):
            if fallback is None and (self._first_close is not None or self._inner):
                fallback = self.at
            self.at += 1
            if fallback is not None and self.at - fallback > most:
                return True
        if self.closing is None and self.at == len(self._rows) and self._fences.depth:
            self._close_inside()
        return False

    def bounds(self, *, exhausted: bool) -> tuple[int, int]:
        """Return the row behind the body, and the one where the reading goes on."""
        if self.closing is not None:
            last = self.closing if self._last_bare is None else self._last_bare
            return last, self.closing + 1
        if self._first_close is not None:
            return self._first_close, self._first_close + 1
        if exhausted and self._inner:
            return self._inner[0], self._inner[0] + 1
        return self.at, self.at

    @property
    def is_cut(self) -> bool:
        """Whether a block without EOF may have lost its end (rule B8)."""
        if self._first_close is not None:
            return self._reopened
        return self.wrapper is not None or self.at == len(self._rows)

    def _ends(self, row: str) -> bool:
        """Take the next row; whether it ends the block."""
        if fence := fence_of(row):
            self._take(fence)
            return False
        mark = mark_of(row)
        if mark is None:
            self._behind_wrapper &= is_blank(row)
            return False
        if mark.kind != "EOF":
            self._behind_wrapper = False
            return not self._fences.depth
        if self._closes(mark):
            self.closing = self.at
            return True
        self._behind_wrapper = False
        if self._inner is None and self._is_near(mark):
            self._inner = (self.at, self._last_bare)
        return False

    def _take(self, fence: Fence) -> None:
        was_open = self._fences.depth > 0
        self._fences.take(fence)
        self._behind_wrapper = False
        if self.wrapper is None or fence.info:
            return
        if fence.character == self.wrapper.character and fence.length >= self.wrapper.length:
            self._last_bare = self.at
        self._reopened |= not was_open
        if was_open and not self._fences.depth:
            self._behind_wrapper = True
            if self._first_close is None:
                self._first_close = self.at

    def _closes(self, mark: Mark) -> bool:
        if self._mark.kind in _ANY_EOF or (mark.name and mark.is_named(self._mark.name)):
            return True
        return not self._fences.depth and (self._behind_wrapper or self._is_near(mark))

    def _is_near(self, mark: Mark) -> bool:
        return not mark.name or mark.has_base_of(self._mark.name)

    def _close_inside(self) -> None:
        """Close the block at the first EOF that stands in a fence which never ends (rule B3)."""
        if self._inner:
            self.closing, self._last_bare = self._inner
