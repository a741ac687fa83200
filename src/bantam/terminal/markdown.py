"""Deltas of a model's Markdown -> finished pieces; each drawn once.

A piece is what has ended: a paragraph, a heading, an item's paragraph, a line of code, a table. It
is drawn from its own text and what stands open around it, never from what was drawn before, so an
answer of any length costs linear time, and the pieces do not depend on how it was cut. What has not
ended is offered as plain text, wrapped as the piece will be: where nothing in it has a style, the
piece is the same text. Refused: drawing the whole again at each delta, which is quadratic, flickers
and cannot reach what has scrolled away.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from bantam.core.text import ScreenFilter
from bantam.terminal.blocks import Blocks
from bantam.terminal.inlines import Inlines
from bantam.terminal.lines import Block, Kind, Level
from bantam.terminal.spans import Span, cells, clean, cut, drawn, pieces, text_of, wrapped
from bantam.terminal.syntax import Highlighter
from bantam.terminal.tables import table_rows

_LEAST_WIDTH: Final = 10  # of text: deeper containers are not shown in less
_CODE_INDENT: Final = "  "
_HEADINGS: Final = {1: "1;4"}  # larger than the others, which are bold
_BOLD: Final = "1"
_BOXES: Final = {"[ ] ": "☐ ", "[x] ": "☑ ", "[X] ": "☑ "}
_QUOTE: Final = "│"
# Bytes for the sequences of links: so many at once, and one for so many of text. An answer of links
# alone costs nearly three times its own bytes without them, its tail counted.
_LINKS_AT_ONCE, _TEXT_FOR_LINKS = 8192, 8


class Markdown:
    """`feed(part) -> list`, `close() -> list`: pieces, each of whole rows with their LF.

    `width`: columns of the terminal, may change between calls; pieces are drawn for the width at
    their time. `color=False`: the same rows without any escape sequence. `links`: with colour,
    the text of a link is one to the terminal too (OSC 8), unless there are too many.
    """

    def __init__(self, width: int, *, color: bool, links: bool = False) -> None:
        self.width = width
        self._color = color
        self._links = links
        self._spare = _LINKS_AT_ONCE
        self._filter = ScreenFilter()
        self._line: list[str] = []  # the parts of a line that has not ended
        self._blocks = Blocks()
        self._inlines = Inlines()
        self._highlighter = Highlighter("")

    def feed(self, part: str) -> list[str]:
        """Return the pieces that end in this part."""
        first, *others = self._filter.feed(part).split("\n")
        self._line.append(first)
        found: list[str] = []
        for other in others:
            found += self._pieces(self._blocks.feed("".join(self._line)))
            self._line = [other]
        return found

    def close(self) -> list[str]:
        """Return what had not ended; ready for a new text."""
        found = self.feed(self._filter.close())
        line, self._line = "".join(self._line), []
        ended = [*(self._blocks.feed(line) if line else []), *self._blocks.close()]
        found += self._pieces(ended)
        self._spare = _LINKS_AT_ONCE
        return found

    def tail(self, most: int) -> list[str]:
        """Return what has not ended as rows of plain text: `most` of them at most, the last ones.

        As long as the text grows, so do the rows; when they are full, they begin anew with what
        comes then. Lines of code are not in it: they end soon.
        """
        found: list[str] = []
        for block in self._blocks.preview("".join(self._line)):
            if block.kind is not Kind.CODE:
                rows = self._rows(block, self._unfinished(block, most))
                found += map(text_of, rows)
        return found[-most:]

    # -- one block ----------------------------------------------------------------------------

    def _pieces(self, blocks: list[Block]) -> list[str]:
        return [self._piece(block) for block in blocks]

    def _piece(self, block: Block) -> str:
        plain, linked = [], []
        for row in self._rows(block, self._content(block)):
            plain.append(drawn(row, color=self._color))
            has_link = self._links and any(span.link for span in row)
            linked.append(drawn(row, color=self._color, links=True) if has_link else plain[-1])
        cost = sum(map(len, linked)) - sum(map(len, plain))
        self._spare += len(block.text) // _TEXT_FOR_LINKS
        if cost > self._spare:
            linked, cost = plain, 0
        self._spare -= cost
        return "".join(f"{row}\n" for row in linked)

    def _rows(self, block: Block, content: Iterable[list[Span]]) -> Iterator[list[Span]]:
        """Yield the rows of a block: the blank one before it, and each behind its containers."""
        if block.gap is not None:
            yield [Span(_signs(self._shown(block)[: block.gap], later=True).rstrip())]
        first = _signs(self._shown(block), later=False)
        later = _signs(self._shown(block), later=True)
        for number, spans in enumerate(content):
            sign = later if number else first
            yield [Span(sign), *spans] if spans else [Span(sign.rstrip())]

    def _content(self, block: Block) -> Iterable[list[Span]]:
        """Return the rows of a block by themselves, one at least."""
        width = self._room(block)
        match block.kind:
            case Kind.CODE:
                return self._code(block, width)
            case Kind.RULE:
                return [[Span("─" * width)]]
            case Kind.TABLE:
                return table_rows(block.text, width, self._inlines.spans)
            case Kind.HEADING:
                style = _HEADINGS.get(block.size, _BOLD)
                spans = self._inlines.spans(block.text)
                strong = [span._replace(style=f"{style};{span.style}".strip(";")) for span in spans]
                return wrapped(strong, width)
            case _:
                box, text = _box(block)
                return wrapped([Span(box), *self._inlines.spans(text)], width)

    def _unfinished(self, block: Block, most: int) -> list[list[Span]]:
        """Return rows of a block whose text still grows, as it is."""
        width = self._room(block)
        if block.kind is Kind.RULE:
            return list(self._content(block))
        if block.kind is Kind.TABLE:
            lines = block.text.split("\n")
            page = [clean(line) for line in lines[_page(len(lines), most) :]]
            return [[Span(line[: cut(line, width)[0][1]])] for line in page]
        box, text = _box(block)
        # Half of what there is room for: wide characters need the other half.
        start = _page(len(text), max(1, most * width // 2))
        return wrapped([Span("" if start else box), Span(clean(text[start:]))], width)

    def _code(self, block: Block, width: int) -> list[list[Span]]:
        if block.starts:
            self._highlighter = Highlighter(block.language)
        spans = self._highlighter.line(block.text)
        bounds = cut(text_of(spans), max(2, width - len(_CODE_INDENT)))
        return [[Span(_CODE_INDENT), *row] if text_of(row) else [] for row in pieces(spans, bounds)]

    def _room(self, block: Block) -> int:
        return max(2, self.width - cells(_signs(self._shown(block), later=False)))

    def _shown(self, block: Block) -> tuple[Level, ...]:
        """Return the containers that there is room for."""
        levels = block.levels
        while levels and cells(_signs(levels, later=False)) > self.width - _LEAST_WIDTH:
            levels = levels[:-1]
        return levels


def _signs(levels: tuple[Level, ...], *, later: bool) -> str:
    """Return what stands before a row in these containers; `later`: not the block's first row."""
    return "".join(
        f"{level.sign or _QUOTE} "
        if not level.sign or (level.is_first and not later)
        else " " * (len(level.sign) + 1)
        for level in levels
    )


def _box(block: Block) -> tuple[str, str]:
    """Return the box of a task, "" if the block begins no task, and the text behind it."""
    text = block.text
    begins_item = block.levels and block.levels[-1].sign and block.levels[-1].is_first
    box = _BOXES.get(text[:4], "") if begins_item else ""
    return box, text[4:] if box else text


def _page(length: int, size: int) -> int:
    """Return where the last page begins of `length` things, `size` a page; one thing at least.

    >>> _page(0, 4), _page(4, 4), _page(5, 4)
    (0, 0, 4)
    """
    return max(0, length - 1) // size * size
