"""The reading of an answer in the `blocks` dialect: its blocks, and the prose around them.

The rules F1 to B8 and R1 are those of the dialect's table. The text is read once, row by row. Only
a block that has no EOF of its own makes the reading go back to where that block turns out to end;
how much may be read twice is bounded by the text's length, so that no text is slow.
"""

from dataclasses import dataclass
from typing import Final

from bantam.model.dialects.blockwalk import Walk
from bantam.model.dialects.markers import (
    THINK,
    Fences,
    Mark,
    fence_of,
    is_blank,
    mark_of,
    rows_of,
    without_thoughts,
)

_SHELLS: Final = frozenset(
    {"", *["bash", "sh", "shell", "zsh", "cmd", "bat", "powershell", "ps1", "pwsh"]}
)
_CHANGES: Final = ("WRITE", "EDIT")
# Rows that may be read twice: some, and a few times the text's. Beyond it a block is cut.
_READ_TWICE: Final = 100_000


@dataclass(frozen=True, slots=True)
class Block:
    """A block; `body` has a LF behind each of its lines.

    `closed` and `cut`: rules B7 and B8. `is_sure`: it is as it is even if the text goes on where
    it ends here. `idle`: why a RUN marker runs nothing, "" for every other block. `info`: what
    stands behind RUN's fence.
    """

    kind: str
    name: str
    body: str = ""
    info: str = ""
    closed: bool = False
    cut: bool = False
    is_sure: bool = False
    idle: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """What stands in a text. Without any block that acts, `prose` is all of it but the thoughts.

    `strays`: whether there are marker lines that belong to no block. `ends`: nothing stands behind
    the last block.
    """

    prose: str
    thoughts: str
    blocks: tuple[Block, ...]
    strays: bool
    ends: bool


def read(text: str) -> Reading:
    """Return what stands in `text`."""
    return _Reader(text).read()


class _Reader:
    def __init__(self, text: str) -> None:
        self._rows, self._glued = rows_of(text)
        # The last line has no LF: it may be the beginning of another one.
        end = len(self._rows) - 1
        self._sure = end - (end in self._glued)
        self._at = 0
        self._twice = _READ_TWICE + 4 * len(self._rows)
        self._said: list[str | None] = []  # None: here was a block
        self._markers: list[int] = []  # where in it marker lines stand that belong to no block
        self._thoughts: list[str] = []
        self._blocks: list[Block] = []

    def read(self) -> Reading:
        fences = Fences()
        while self._at < len(self._rows):
            at, is_line = self._at, True
            row = self._rows[at]
            fence, mark = fence_of(row), mark_of(row)
            if THINK in row and not (fences.depth or fence or mark):
                row, is_line = self._row_without_thoughts()
                fence, mark = fence_of(row), mark_of(row)
            self._at += 1
            if fence and is_line:
                fences.take(fence)
            if mark and is_line and not fences.depth:
                self._take(mark, row)
            elif at in self._glued:  # in a fence it is no marker, and still on its line
                self._said[-1] = f"{self._said[-1]}{row}"
            else:
                self._said.append(row)
        return self._reading()

    def _row_without_thoughts(self) -> tuple[str, bool]:
        """Return the row without its thoughts, and whether it is a line by itself.

        With words before a thought it is none: these may be on the screen, and are no marker.
        """
        parts, thought, inside = without_thoughts(self._rows[self._at], inside=False)
        is_line = len(parts) + inside == 1 or is_blank(parts[0])
        self._thoughts += [thought] if thought else []
        while inside and self._at + 1 < len(self._rows):
            self._at += 1
            more, thought, inside = without_thoughts(self._rows[self._at], inside=True)
            parts += more
            self._thoughts.append(thought)
        return "".join(parts), is_line

    def _take(self, mark: Mark, row: str) -> None:
        match mark.kind:
            case "EOF":
                self._markers.append(len(self._said))
                self._said.append(row)
            case "RUN":
                self._run(row)
            case _:
                self._add(self._named(mark))

    def _add(self, block: Block) -> None:
        self._blocks.append(block)
        self._said.append(None)

    # -- blocks -------------------------------------------------------------------------------

    def _run(self, row: str) -> None:
        """Read what a RUN marker runs: one fence of a shell's (rule R1)."""
        start = self._behind_blank(self._at)
        fence = fence_of(self._rows[start]) if start < len(self._rows) else None
        words = fence.info.split(maxsplit=1) if fence else []
        language = words[0] if words else ""
        if fence is None or language.lower() not in _SHELLS:
            behind = "text" if start < len(self._rows) else "nothing"
            idle = f"a {language} fence" if fence else behind
            self._blocks.append(Block("RUN", "", idle=idle))
            self._markers.append(len(self._said))
            self._said.append(row)
            return
        fences = Fences()
        fences.take(fence)
        end = start
        while fences.depth and end + 1 < len(self._rows):
            end += 1
            if inner := fence_of(self._rows[end]):
                fences.take(inner)
        closed = not fences.depth
        self._at = end + 1
        body = self._text(start + 1, end if closed else end + 1)
        is_sure = closed and end < self._sure
        self._add(Block("RUN", "", body, language, closed, not closed, is_sure))

    def _named(self, mark: Mark) -> Block:
        """Read a block behind its opener; the reading goes on behind it."""
        start = self._behind_blank(self._at)
        walk = Walk(self._rows, start, mark)
        exhausted = walk.run(self._twice)
        last, self._at = walk.bounds(exhausted=exhausted)
        self._twice -= walk.at - min(self._at, walk.at)
        rows = (walk.body, last) if walk.wrapper else self._trimmed(start, last)
        closed = walk.closing is not None
        cut = mark.kind in _CHANGES and (exhausted or (not closed and walk.is_cut))
        is_sure = walk.at < self._sure and not exhausted
        return Block(mark.kind, mark.name, self._text(*rows), "", closed, cut, is_sure)

    def _behind_blank(self, at: int) -> int:
        while at < len(self._rows) and is_blank(self._rows[at]):
            at += 1
        return at

    def _trimmed(self, start: int, end: int) -> tuple[int, int]:
        while end > start and is_blank(self._rows[end - 1]):
            end -= 1
        return start, end

    def _text(self, start: int, end: int) -> str:
        """Return lines with their ends; one that was parted is whole again."""
        if not self._glued:
            return "\n".join([*self._rows[start:end], ""])
        parted = self._glued & set(range(start + 1, end))
        return "".join(
            f"{self._rows[row]}{'' if row + 1 in parted else chr(10)}" for row in range(start, end)
        )

    # -- prose --------------------------------------------------------------------------------

    def _reading(self) -> Reading:
        acts = any(not block.idle for block in self._blocks)
        if acts:
            for row in self._markers:
                self._said[row] = None
        parts: list[list[str]] = [[]]
        for said in self._said:
            if said is None:
                parts.append([])
            else:
                parts[-1].append(said)
        texts = [_trimmed_text(part) for part in parts]
        prose = "\n\n".join(filter(None, texts))
        thoughts = "\n".join(self._thoughts).strip()
        strays, ends = bool(self._markers), len(parts) > 1 and not texts[-1]
        return Reading(prose, thoughts, tuple(self._blocks), strays, ends)


def prose_of(text: str) -> str:
    r"""Return `text` without the blank lines around it, its lines ended as prose is.

    >>> prose_of("\n a\r\n\nb \n\n")
    ' a\n\nb '
    """
    return _trimmed_text([row.removesuffix("\r") for row in text.split("\n")])


def _trimmed_text(rows: list[str]) -> str:
    start, end = 0, len(rows)
    while start < end and is_blank(rows[start]):
        start += 1
    while end > start and is_blank(rows[end - 1]):
        end -= 1
    return "\n".join(rows[start:end])
