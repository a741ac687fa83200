"""The source of a table -> its rows in box characters, fitted to a width.

Columns share the width: the narrow ones have what they need, the wide ones get equal parts of the
rest, and their cells wrap, between words if there is room for each. Where not even three cells a
column are left, each row of the table is drawn as a list of its fields.
"""

from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import Final

from bantam.terminal.lines import row_cells
from bantam.terminal.spans import Span, cells, text_of, wrapped

_LEAST: Final = 3  # cells of a column
_HEAD: Final = "1"

Inline = Callable[[str], list[Span]]
Cell = list[Span]


def table_rows(
    source: str, width: int, inline: Inline, *, whole_words: bool = False
) -> Iterator[list[Span]]:
    """Yield what is drawn of `source`: the head, the delimiters and the rows of a table.

    No row is wider than `width` cells. `inline` gives the spans of one cell. `whole_words`: where
    there is no room for each in its column, rows are drawn as lists of fields.
    """
    head, delimiters, *body = (row_cells(line) for line in source.split("\n"))
    count = len(head)
    grid = [
        [inline(text) for text, _ in zip_longest(row[:count], head, fillvalue="")]
        for row in (head, *body)
    ]
    grid[0] = [[span._replace(style=_with_head(span.style)) for span in cell] for cell in grid[0]]
    room = width - 3 * count - 1
    if room < _LEAST * count:
        return _records(grid, width)
    columns = list(zip(*grid, strict=True))
    widths = [max(map(_width, column)) for column in columns]
    if sum(widths) > room:
        words = [max(map(_longest_word, column)) for column in columns]
        if sum(words) <= room:
            widths = _shared(widths, words, room)
        elif whole_words:
            return _records(grid, width)
        else:
            widths = _shared(widths, [0] * count, room)
    return _boxed(grid, widths, delimiters)


def _with_head(style: str) -> str:
    return f"{_HEAD};{style}" if style else _HEAD


def _width(cell: Cell) -> int:
    return max(1, cells(text_of(cell)))


def _longest_word(cell: Cell) -> int:
    return max(1, *map(cells, text_of(cell).split(" ")))


def _shared(wanted: list[int], least: list[int], room: int) -> list[int]:
    """Return the widths of columns that want so many cells each: `room` at most in all.

    Each has its `least`, which fit together; the rest goes to those that want the least more.
    """
    widths = least[:]
    room -= sum(least)
    by_want = sorted(range(len(wanted)), key=lambda column: wanted[column] - least[column])
    for left, column in zip(range(len(wanted), 0, -1), by_want, strict=True):
        more = min(wanted[column] - least[column], room // left)
        widths[column] += more
        room -= more
    return widths


def _boxed(
    grid: list[list[Cell]], widths: list[int], delimiters: list[str]
) -> Iterator[list[Span]]:
    is_wrapped = any(
        _width(cell) > width for row in grid[1:] for cell, width in zip(row, widths, strict=True)
    )
    yield _line("┌┬┐", widths)
    for number, line in enumerate(grid):
        # Between rows that are wrapped too: where one ends could not be seen else.
        if number == 1 or (number and is_wrapped):
            yield _line("├┼┤", widths)
        row = [wrapped(cell, width) for cell, width in zip(line, widths, strict=True)]
        for height in range(max(map(len, row))):
            spans: list[Span] = []
            parts = (cell[height] if height < len(cell) else [] for cell in row)
            for part, width, delimiter in zip(parts, widths, delimiters, strict=True):
                before, after = _padding(width - cells(text_of(part)), delimiter)
                spans += [Span("│ " + " " * before), *part, Span(" " * after + " ")]
            yield [*spans, Span("│")]
    yield _line("└┴┘", widths)


def _line(corners: str, widths: list[int]) -> list[Span]:
    bars = corners[1].join("─" * (width + 2) for width in widths)
    return [Span(f"{corners[0]}{bars}{corners[2]}")]


def _padding(room: int, delimiter: str) -> tuple[int, int]:
    """Return how many blanks go before and after a cell, as the colons of its column ask."""
    if not delimiter.endswith(":"):
        return 0, room
    before = room // 2 if delimiter.startswith(":") else room
    return before, room - before


def _records(grid: list[list[Cell]], width: int) -> Iterator[list[Span]]:
    head, *body = grid
    empty: list[Cell] = [[] for _ in head]
    for number, row in enumerate(body or [empty]):
        if number:
            yield []
        for name, cell in zip(head, row, strict=True):
            yield from wrapped([*name, Span(": "), *cell] if cell else name, width)
