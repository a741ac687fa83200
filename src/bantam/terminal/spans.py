r"""Styled text: its width in cells, its rows, its bytes.

What stands in a row is a list of spans. Text comes in through `clean`, so no span holds a control
character but LF, which ends a row, and none of its bytes acts on the terminal; where a link leads
comes in through `target`, so that nothing in it ends or extends the sequence that it stands in.

Widths are upper bounds where terminals disagree: an emoji joined of three counts as three, a
selector that asks for emoji form as one more cell. A row is never wider than was reckoned, and a
column of a table at most narrower than it could be.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple
from urllib.parse import quote

from bantam.core.text import screen_text

_PLAIN: Final = ""
_RESET: Final = "\x1b[m"
# What may stand in a URI besides letters, digits and "-._~" (RFC 3986, section 2); no blank, quote,
# backslash or control is in it.
_URI: Final = ":/?#[]@!$&'()*+,;=%"
_TARGET: Final = r"(?i)(?:https?://(?=[^/?#])|mailto:.).*"
_MOST_TARGET: Final = 2083  # bytes: VTE's bound, and that of old browsers
_EMOJI_SELECTOR: Final = "\ufe0f"
# UTS #51: by itself each is as wide as the emoji before it, which older terminals draw it behind.
_SKIN_TONES: Final = "\U0001f3fb-\U0001f3ff"
# Written without blanks, or wide: a row may end on either side (UAX #14, class ID, simplified).
_IDEOGRAPH: Final = (
    "\u2e80-\u2fff\u3001-\u33ff\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua4cf\uac00-\ud7a3\uf900-\ufaff"
    "\uff01-\uff60\U0001f300-\U0001f3fa\U0001f400-\U0001faff\U00020000-\U0003fffd"
)
_ATTACHED: Final = f"[\u0300-\u036f\u200d\u20d0-\u20ff\ufe0e\ufe0f{_SKIN_TONES}]"
# Texts, as `re` compiles them when one is first searched for: 8 ms that the first prompt spares.
_CHUNK: Final = (
    rf"\n| +|[{_IDEOGRAPH}](?:{_ATTACHED}|(?<=\u200d)[{_IDEOGRAPH}])*|[^\n {_IDEOGRAPH}]+"
)
# Letters and signs of one cell, CJK of two; nothing that joins or combines, no emoji.
_CERTAIN: Final = (
    "[ -~\xa1-\u02ff\u0370-\u0482\u048a-\u0556\u2010-\u2027\u2500-\u257f\u3001-\u3029"
    "\u3041-\u3096\u30a1-\u30fa\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uff01-\uff60]*"
)


class Span(NamedTuple):
    """Text in one style, SGR parameters ("1;36"), and the link that it is part of, if any."""

    text: str
    style: str = _PLAIN
    link: str = ""  # its number, ";" and its target


def clean(text: str) -> str:
    r"""Return a stranger's text fit for a span, in one line.

    Markdown decodes entities and escapes, so this comes after it.

    >>> clean("a\x1b[2Jb\tc\nd")
    'ab c d'
    """
    return screen_text(text).replace("\n", " ").replace("\t", " ")


def target(url: str) -> str:
    r"""Return a stranger's URL as an OSC 8 sequence may hold it, "" if it may not.

    >>> target("https://a.b/\x1b\\c d"), target("file:///etc/passwd"), target("http:///")
    ('https://a.b/%1B%5Cc%20d', '', '')
    """
    found = quote(url, safe=_URI, errors="replace")
    return found if len(found) <= _MOST_TARGET and re.fullmatch(_TARGET, found) else ""


def cells(text: str) -> int:
    r"""Return how many cells `text` is wide at most.

    >>> cells("ab"), cells("\u4e2d\u6587"), cells("e\u0301"), cells("\u2764\ufe0f")
    (2, 4, 1, 2)
    """
    return len(text) if text.isascii() else sum(map(_cells_of_character, text))


def is_certain(text: str) -> bool:
    """Return whether all terminals draw `text` as wide as `cells` says, no less."""
    return text.isascii() or bool(re.fullmatch(_CERTAIN, text))


def rows(text: str, width: int) -> list[tuple[int, int]]:
    """Return where the rows of `text` start and end, filled with words up to `width` cells (2 up).

    The blanks between two rows belong to neither. A word longer than a row is split.

    >>> [("ab cde fghijk")[start:end] for start, end in rows("ab cde fghijk", 5)]
    ['ab', 'cde', 'fghij', 'k']
    """
    found: list[tuple[int, int]] = []
    start = end = column = 0  # of the row being filled; `column` counts blanks behind `end` too
    for chunk in re.finditer(_CHUNK, text):
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
    for span in spans:
        ends.append(ends[-1] + len(span.text))
    parts: list[list[Span]] = []
    first = 0
    for start, end in bounds:
        while first < len(spans) and ends[first + 1] <= start:
            first += 1
        part = []
        at = first
        while at < len(spans) and ends[at] < end:
            text = spans[at].text[max(0, start - ends[at]) : end - ends[at]]
            part.append(spans[at]._replace(text=text))
            at += 1
        parts.append(part)
    return parts


def wrapped(spans: list[Span], width: int) -> list[list[Span]]:
    """Return `spans` in rows of at most `width` cells; one row at least."""
    return pieces(spans, rows(text_of(spans), width))


def text_of(spans: list[Span]) -> str:
    """Return the text alone."""
    return "".join(span.text for span in spans)


def drawn(spans: list[Span], *, color: bool, links: bool = False) -> str:
    r"""Return what a terminal gets: plain at its end, and the same text with and without colour.

    `links`: it takes OSC 8, and `color` is on. A link ends with its row, so that no border of a
    table is in it; its number tells the terminal which rows are one.

    >>> drawn([Span("a "), Span("b", "1"), Span(" "), Span("c", "1")], color=True)
    'a \x1b[1mb c\x1b[m'
    >>> drawn([Span("a", link="1;http://b")], color=True, links=True)
    '\x1b]8;id=1;http://b\x1b\\a\x1b]8;;\x1b\\'
    """
    if not color:
        return text_of(spans)
    parts = []
    current, leads = _PLAIN, ""
    for text, style, link in spans:
        if links and link != leads:
            parts.append(_leading(link))
            leads = link
        # A blank looks the same in all colours and weights: it is not worth a sequence.
        if style != current and not (text.isspace() and _shows_on_text_alone(style, current)):
            parts.append(_switch(current, style))
            current = style
        parts.append(text)
    return "".join([*parts, _leading("") if leads else "", _RESET if current else ""])


def _leading(link: str) -> str:
    return f"\x1b]8;id={link}\x1b\\" if link else "\x1b]8;;\x1b\\"


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
