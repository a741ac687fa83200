r"""Styled text: its width in cells, its rows, its bytes.

A span is text in one style, SGR parameters ("1;36", "" for plain). What stands in a row is a list
of them. Text comes in through `clean`, so no span holds a control character but LF, which ends a
row, and none of its bytes acts on the terminal.

Widths are upper bounds where terminals disagree: an emoji joined of three counts as three, a
selector that asks for emoji form as one more cell. A row is never wider than was reckoned, and a
column of a table at most narrower than it could be.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from bantam.core.text import screen_text

Span = tuple[str, str]

_PLAIN: Final = ""
_RESET: Final = "\x1b[m"
_EMOJI_SELECTOR: Final = "\ufe0f"
# UTS #51: by itself each is as wide as the emoji before it, which older terminals draw it behind.
_SKIN_TONES: Final = "\U0001f3fb-\U0001f3ff"
# Written without blanks, or wide: a row may end on either side (UAX #14, class ID, simplified).
_IDEOGRAPH: Final = (
    "\u2e80-\u2fff\u3001-\u33ff\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua4cf\uac00-\ud7a3\uf900-\ufaff"
    "\uff01-\uff60\U0001f300-\U0001f3fa\U0001f400-\U0001faff\U00020000-\U0003fffd"
)
_ATTACHED: Final = f"[\u0300-\u036f\u200d\u20d0-\u20ff\ufe0e\ufe0f{_SKIN_TONES}]"
_CHUNK: Final = re.compile(
    rf"\n| +|[{_IDEOGRAPH}](?:{_ATTACHED}|(?<=\u200d)[{_IDEOGRAPH}])*|[^\n {_IDEOGRAPH}]+"
)
# Letters and signs of one cell, CJK of two; nothing that joins or combines, no emoji.
_CERTAIN: Final = re.compile(
    "[ -~\xa1-\u02ff\u0370-\u0482\u048a-\u0556\u2010-\u2027\u2500-\u257f\u3001-\u3029"
    "\u3041-\u3096\u30a1-\u30fa\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uff01-\uff60]*"
)


def clean(text: str) -> str:
    r"""Return a stranger's text fit for a span, in one line.

    Markdown decodes entities and escapes, so this comes after it.

    >>> clean("a\x1b[2Jb\tc\nd")
    'ab c d'
    """
    return screen_text(text).replace("\n", " ").replace("\t", " ")


def cells(text: str) -> int:
    r"""Return how many cells `text` is wide at most.

    >>> cells("ab"), cells("\u4e2d\u6587"), cells("e\u0301"), cells("\u2764\ufe0f")
    (2, 4, 1, 2)
    """
    return len(text) if text.isascii() else sum(map(_cells_of_character, text))


def is_certain(text: str) -> bool:
    """Return whether all terminals draw `text` as wide as `cells` says, no less."""
    return text.isascii() or bool(_CERTAIN.fullmatch(text))


def rows(text: str, width: int) -> list[tuple[int, int]]:
    """Return where the rows of `text` start and end, filled with words up to `width` cells (2 up).

    The blanks between two rows belong to neither. A word longer than a row is split.

    >>> [("ab cde fghijk")[start:end] for start, end in rows("ab cde fghijk", 5)]
    ['ab', 'cde', 'fghij', 'k']
    """
    found: list[tuple[int, int]] = []
    start = end = column = 0  # of the row being filled; `column` counts blanks behind `end` too
    for chunk in _CHUNK.finditer(text):
        size = cells(chunk[0])
        if chunk[0] == "\n":
            found.append((start, end))
            start, end, column = chunk.end(), chunk.end(), 0
        elif chunk[0][0] == " ":
            column += size if end > start else 0
        else:
            if column + size > width and end > start:
                found.append((start, end))
                end, column = start, 0
            if end <= start:
                start, column = chunk.start(), 0
            end = chunk.end()
            column += size
            if size > width:
                *full, (start, _) = _cut(text, start, end, width)
                found += full
                column = cells(text[start:end])
    return [*found, (start, end)]


def cut(text: str, width: int) -> list[tuple[int, int]]:
    """Return where the rows of a line of code start and end: each full, blanks and all.

    >>> cut("a  bc", 2)
    [(0, 2), (2, 4), (4, 5)]
    """
    return list(_cut(text, 0, len(text), width))


def pieces(spans: list[Span], bounds: list[tuple[int, int]]) -> list[list[Span]]:
    """Return the parts of `spans` that stand at `bounds`, which are in order."""
    ends = [0]
    for text, _ in spans:
        ends.append(ends[-1] + len(text))
    parts: list[list[Span]] = []
    first = 0
    for start, end in bounds:
        while first < len(spans) and ends[first + 1] <= start:
            first += 1
        part = []
        at = first
        while at < len(spans) and ends[at] < end:
            text, style = spans[at]
            part.append((text[max(0, start - ends[at]) : end - ends[at]], style))
            at += 1
        parts.append(part)
    return parts


def wrapped(spans: list[Span], width: int) -> list[list[Span]]:
    """Return `spans` in rows of at most `width` cells; one row at least."""
    return pieces(spans, rows("".join(text for text, _ in spans), width))


def drawn(spans: list[Span], *, color: bool) -> str:
    r"""Return what a terminal gets: plain at its end, and the same text with and without colour.

    >>> drawn([("a ", ""), ("b", "1"), (" ", ""), ("c", "1")], color=True)
    'a \x1b[1mb c\x1b[m'
    """
    if not color:
        return "".join(text for text, _ in spans)
    parts = []
    current = _PLAIN
    for text, style in spans:
        # A blank looks the same in all colours and weights: it is not worth a sequence.
        if style != current and not (text.isspace() and _shows_on_text_alone(style, current)):
            parts.append(_switch(current, style))
            current = style
        parts.append(text)
    return "".join([*parts, _RESET if current else ""])


def _switch(current: str, style: str) -> str:
    if not style:
        return _RESET
    return f"\x1b[0;{style}m" if current else f"\x1b[{style}m"


def _shows_on_text_alone(*styles: str) -> bool:
    return not any(line in style.split(";") for style in styles for line in ("4", "9"))


def _cells_of_character(character: str) -> int:
    from rich.cells import get_character_cell_size

    if character == _EMOJI_SELECTOR:
        return 1
    if "\U0001f3fb" <= character <= "\U0001f3ff":
        return 2
    return get_character_cell_size(character)


def _cut(text: str, start: int, end: int, width: int) -> Iterator[tuple[int, int]]:
    """Yield the bounds of the full rows of `text[start:end]`, and of the rest."""
    if text.isascii():
        stops = [*range(start, end, width), end]
        yield from pairwise(stops) if end > start else [(start, end)]
        return
    column = 0
    for at in range(start, end):
        size = cells(text[at])
        if column + size > width:
            yield start, at
            start, column = at, 0
        column += size
    yield start, end
