r"""The lines that the `blocks` dialect is made of: markers, fences, and what only looks like them.

A line is judged by itself here; `blockreader` knows what stands around it. Lines end at LF alone,
and every pattern is possessive where blanks meet blanks: a line of a million of them costs a
million steps.
"""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

BLANKS: Final = " \t\r"
THINK: Final = "<think>"
_THOUGHT_ENDS: Final = "</think>"

_NAME: Final = r"`[^`]+`"
_KINDS: Final = "(?:WRITE|EDIT|FILE|TOOL|SKILL)"
_RUN: Final = r"\*\*RUN:[ \t]*+\*\*"
_OPENER: Final = rf"\*\*{_KINDS}:(?:\*\*[ \t]*+{_NAME}|[ \t]*+{_NAME}[ \t]*+\*\*)"
_EOF: Final = (
    rf"\*\*EOF:(?:\*\*[ \t]*+(?:{_NAME}|(?!\*\*)[^ \t`]+)?|[ \t]*+{_NAME}[ \t]*+(?:\*\*)?)"
)
_MARK: Final = re.compile(rf" {{0,3}}(?:{_OPENER}|{_RUN}|{_EOF})[ \t]*+")
_TWO_MARKS: Final = re.compile(rf"( {{0,3}}{_EOF}[ \t]*+)((?:{_OPENER}|{_RUN})[ \t]*+)")
# How a marker line begins, and how long that may be before it is certain.
_BEGINNINGS: Final = tuple(
    f"**{kind}:" for kind in ("WRITE", "EDIT", "FILE", "TOOL", "SKILL", "RUN", "EOF")
)
_TAGS: Final = re.compile(f"`+|{THINK}|{_THOUGHT_ENDS}")
_TICKS: Final = re.compile("`+")


class Fence(NamedTuple):
    """A line that opens or closes a fence: its character, how many, and the text behind them."""

    character: str
    length: int
    info: str


def fence_of(row: str) -> Fence | None:
    """Return the fence that the line is, None if it is none.

    >>> fence_of("  ```py"), fence_of("``` a `b`")
    (Fence(character='`', length=3, info='py'), None)
    """
    begun = row.lstrip(" \t")
    if not begun.startswith(("```", "~~~")):
        return None
    rest = begun.lstrip(begun[0])
    info = rest.strip(BLANKS)
    return None if "`" in info else Fence(begun[0], len(begun) - len(rest), info)


class Fences:
    """Which fences are open, innermost last (rule F1)."""

    def __init__(self) -> None:
        self._open: list[tuple[str, int]] = []
        # A look through all that are open would make deep nesting quadratic.
        self._how_many: Counter[tuple[str, int]] = Counter()

    @property
    def depth(self) -> int:
        """How many are open."""
        return len(self._open)

    def take(self, fence: Fence) -> None:
        """Open or close what `fence` does; within a longer or other fence a bare one is text."""
        this = (fence.character, fence.length)
        if fence.info or not self._open:
            self._open.append(this)
            self._how_many[this] += 1
            return
        character, length = self._open[-1]
        if character != fence.character or fence.length < length:
            return
        through = self._how_many[this] > 0
        while True:
            closed = self._open.pop()
            self._how_many[closed] -= 1
            if closed == this or not through:
                return


class Mark(NamedTuple):
    """A marker line: its kind (`EOF` too) and the name in it, "" if it has none."""

    kind: str
    name: str

    def is_named(self, name: str) -> bool:
        """Whether both names mean one file."""
        return _normal(self.name) == _normal(name)

    def has_base_of(self, name: str) -> bool:
        """Whether both names end in one file's name."""
        return _base(self.name) == _base(name)


def _normal(name: str) -> str:
    return name.replace("\\", "/").removeprefix("./")


def _base(name: str) -> str:
    return _normal(name).rpartition("/")[2]


def mark_of(row: str) -> Mark | None:
    """Return the marker that the whole line is, None if it is none.

    >>> mark_of("**WRITE:`a b.py`**"), mark_of("**EOF:** b.py"), mark_of("see **RUN:**")
    (Mark(kind='WRITE', name='a b.py'), Mark(kind='EOF', name='b.py'), None)
    """
    if "**" not in row[:5] or not _MARK.fullmatch(row):
        return None
    kind, _, rest = row.lstrip(" ")[2:].partition(":")
    name = rest.split("`")[1] if "`" in rest else rest.strip(" \t*")
    mark = Mark(kind, name.strip(BLANKS))
    return mark if mark.name or kind in ("RUN", "EOF") else None


def begins_with_mark(row: str) -> bool:
    """Whether the line is a marker line, or one and an opener behind it."""
    return mark_of(rows_of(row)[0][0]) is not None


def may_become_mark(begun: str) -> bool:
    """Whether a line that begins so may be a marker line in the end; `begun` is not blank."""
    marker = begun.lstrip(" ")
    if len(begun) - len(marker) > 3:
        return False
    return any(marker.startswith(all_of_it[: len(marker)]) for all_of_it in _BEGINNINGS)


def rows_of(text: str) -> tuple[list[str], set[int]]:
    """Return the lines of `text`, and which of them continue the line before.

    An opener behind an EOF counts as if on the next line; inside a file's text it is as it was.
    """
    rows = text.split("\n")
    if "\r" in text:
        rows = [row.removesuffix("\r") for row in rows]
    if "**EOF:" not in text:
        return rows, set()
    parted: list[str] = []
    glued: set[int] = set()
    for row in rows:
        two = _TWO_MARKS.fullmatch(row) if "**EOF:" in row[:9] else None
        if two:
            glued.add(len(parted) + 1)
        parted += two.groups() if two else (row,)
    return parted, glued


def is_blank(row: str) -> bool:
    """Whether nothing can be seen in the line."""
    return not row.strip(BLANKS)


def without_thoughts(row: str, *, inside: bool) -> tuple[list[str], str, bool]:
    """Return the parts of a line outside `<think>`, the thoughts, and whether one goes on.

    `inside`: one goes on from the line before. In inline code a tag is text.

    >>> without_thoughts("a <think>b</think> `<think>`", inside=False)
    (['a ', ' `<think>`'], 'b', False)
    """
    last = {len(run[0]): run.start() for run in _TICKS.finditer(row)}
    kept: list[str] = []
    thoughts: list[str] = []
    position = code = 0  # `code`: with how many ticks the open inline code began
    for tag in _TAGS.finditer(row):
        if inside:
            if tag[0] == _THOUGHT_ENDS:
                thoughts.append(row[position : tag.start()])
                position, inside = tag.end(), False
        elif code:
            code = 0 if tag[0] == "`" * code else code
        elif tag[0] == THINK:
            kept.append(row[position : tag.start()])
            position, inside = tag.end(), True
        elif last.get(len(tag[0]), 0) > tag.start() and tag[0][0] == "`":
            code = len(tag[0])
    (thoughts if inside else kept).append(row[position:])
    return kept, "\n".join(thoughts), inside


def outside_fences(text: str) -> Iterator[str]:
    """Yield the lines of `text` that stand in no fence and are none."""
    fences = Fences()
    for row in rows_of(text)[0]:
        if fence := fence_of(row):
            fences.take(fence)
        elif not fences.depth:
            yield row
