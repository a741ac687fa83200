"""What a line of Markdown says about blocks, and what a block is."""

import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

RULE: Final = re.compile(r"([-*_])[ \t]*(?:\1[ \t]*){2,}")
UNDERLINE: Final = re.compile(r"(=+|-+)[ \t]*")
"""Of a heading (setext)."""
MARKER: Final = re.compile(r"([-+*]|([0-9]{1,9})([.)]))(?=[ \t]|$)")
"""Of an item: all of it, then its number and what ends that."""
_HASHES: Final = re.compile(r"#{1,6}(?=[ \t]|$)")
_FENCE: Final = re.compile(r"(`{3,})([^`]*)|(~{3,})(.*)")
# Not "- ", which begins an item.
_DELIMITERS: Final = re.compile(r"(?!-[ \t])[|:-][ \t|:-]+")
_DELIMITER: Final = re.compile(r":?-+:?")
_BAR: Final = re.compile(r"(?<!\\)\|")


class Kind(Enum):
    """What a block is."""

    PARAGRAPH = auto()
    HEADING = auto()
    CODE = auto()  # one line of it
    RULE = auto()
    TABLE = auto()


@dataclass(frozen=True, slots=True)
class Level:
    """A container that a block stands in: its sign, and whether this block is its first."""

    sign: str  # of a quote "", of an item a bullet or its number
    is_first: bool


@dataclass(frozen=True, slots=True)
class Block:
    r"""A finished block.

    `text`: its lines, without the signs of its containers, joined by LF. `levels`: its containers,
    outermost first. `gap`: in how many of them the blank row before it stands; None for no row.
    """

    kind: Kind
    text: str
    levels: tuple[Level, ...] = ()
    gap: int | None = None
    size: int = 0  # of a heading: 1 to 6
    language: str = ""  # of code: the first word behind the fence
    starts: bool = True  # of code: its first line


def row_cells(row: str) -> list[str]:
    r"""Return the cells of a row of a table.

    >>> row_cells(r"| a | b \| c |")
    ['a', 'b | c']
    """
    found = [cell.strip().replace(r"\|", "|") for cell in _BAR.split(row.strip())]
    if found and not found[0]:
        del found[0]
    if found and not found[-1]:
        del found[-1]
    return found


def is_table_head(head: str, delimiters: str) -> bool:
    """Return whether the two lines begin a table (GFM 4.10)."""
    if "|" not in head or not _DELIMITERS.fullmatch(delimiters):
        return False
    columns = row_cells(delimiters)
    found = all(map(_DELIMITER.fullmatch, columns))
    return found and 0 < len(columns) == len(row_cells(head))


def heading(line: str) -> tuple[int, str] | None:
    """Return the size and text of a heading (ATX), None if the line is none.

    >>> heading("## a # b ##"), heading("#a")
    ((2, 'a # b'), None)
    """
    hashes = _HASHES.match(line)
    if not hashes:
        return None
    text = line[hashes.end() :].strip(" \t")
    bare = text.rstrip("#")
    return hashes.end(), bare.rstrip(" \t") if bare[-1:] in ("", " ", "\t") else text


def fence(line: str) -> tuple[str, str] | None:
    """Return the marks and the language of the line that opens a fence, None if it does not.

    >>> fence("```py title=x"), fence("``` in a line ```")
    (('```', 'py'), None)
    """
    found = _FENCE.fullmatch(line)
    if not found:
        return None
    language = (found[2] or found[4] or "").split()
    return found[1] or found[3], language[0] if language else ""


class Line:
    """What is left of a line: `indent` blank columns, then `body`. Tabs stop at each 4th column."""

    def __init__(self, text: str) -> None:
        self._column = 0
        self._read(text)

    def _read(self, text: str) -> None:
        self.body = text.lstrip(" \t")
        column = self._column
        for blank in text[: len(text) - len(self.body)]:
            column += 4 - column % 4 if blank == "\t" else 1
        self.indent = column - self._column

    def skip(self, columns: int) -> None:
        """Leave out blank columns."""
        self._column += columns
        self.indent -= columns

    def take(self, characters: int) -> None:
        """Leave out the indent, and the first characters of the body."""
        self._column += self.indent + characters
        self._read(self.body[characters:])

    def text(self, less: int) -> str:
        """Return what is left, up to `less` blank columns in front left out."""
        return " " * (self.indent - less) + self.body
