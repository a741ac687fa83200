"""What prompt_toolkit is given so that what it draws fits the terminal.

It wraps the lines of the editor anew at each key, a character at a time, and always the whole
line: a pasted one of a megabyte would cost a second a key. And it takes a line to need no more
rows than its cells fill, so that the end of one of wide characters may lie below the screen.

On a resize it erases as many rows as it had drawn. tmux has wrapped them anew by then, to more rows
if it became narrower. So do other terminals, but not all, and by what they say of themselves they
are not told apart with certainty: what is erased too much is an answer's end, and what too little
is a copy.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping

from prompt_toolkit.application import get_app
from prompt_toolkit.data_structures import Point
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.formatted_text.base import OneStyleAndTextTuple
from prompt_toolkit.formatted_text.utils import fragment_list_len, fragment_list_to_text
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput
from prompt_toolkit.layout.screen import Char
from prompt_toolkit.layout.utils import explode_text_fragments
from prompt_toolkit.renderer import Renderer
from prompt_toolkit.utils import get_cwidth


class Excerpts(Processor):
    """Cuts lines for drawing alone; what is edited stays whole."""

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        """Return three screenfuls of the line, the cursor in the second of them.

        They begin at multiples of a screenful, so that what is shown stands still while the cursor
        moves. Of another line its beginning is shown, if any of it.
        """
        fragments, document = transformation_input.fragments, transformation_input.document
        length = fragment_list_len(fragments)
        size = get_app().output.get_size()
        screenful = max(size.rows * size.columns, 1)
        is_here = transformation_input.lineno == document.cursor_position_row
        page = document.cursor_position_col // screenful if is_here else 0
        start = max(page - 1, 0) * screenful
        end = min((page + 2) * screenful, length)
        if start == 0 and end == length:
            return Transformation(fragments)
        return Transformation(
            list(_part(fragments, start, end)),
            source_to_display=lambda column: min(max(column, start), end) - start,
            display_to_source=lambda column: column + start,
        )


def _part(fragments: StyleAndTextTuples, start: int, end: int) -> Iterator[OneStyleAndTextTuple]:
    """Yield characters `start` to `end`, in fragments of their style."""
    at = 0
    for style, text, *_ in fragments:
        part = text[max(start - at, 0) : max(end - at, 0)]
        at += len(text)
        if part:
            yield style, part


class Margins(Processor):
    """Puts a blank where a wide character does not fit into the last column.

    `indent` tells how many columns stand before the text in each row.
    """

    def __init__(self, indent: Callable[[], int]) -> None:
        self._indent = indent

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        """Return the line with those blanks."""
        fragments, columns = transformation_input.fragments, transformation_input.width
        indent = self._indent()
        if fragment_list_to_text(fragments).isascii() or columns < indent + 2:
            return Transformation(fragments)
        filled: StyleAndTextTuples = []
        places = []  # of the characters in `filled`
        column = indent
        for style, character, *_ in explode_text_fragments(fragments):
            cells = get_cwidth(character)
            if column + cells > columns:
                if column < columns:
                    filled.append(("", " "))
                column = indent
            places.append(len(filled))
            filled.append((style, character))
            column += cells
        places += [len(filled), len(filled) + 1]  # the cursor may be behind the end
        return Transformation(
            filled,
            source_to_display=places.__getitem__,
            display_to_source=lambda place: bisect_right(places, place) - 1,
        )


def wraps_anew(environ: Mapping[str, str]) -> bool:
    """Return whether the terminal is certainly tmux; it sets both for what runs in it."""
    return "TMUX" in environ and environ.get("TERM", "").startswith(("tmux", "screen"))


class Rewrapped(Renderer):
    """Draws on a terminal that wraps its rows anew when it gets another size."""

    def erase(self, leave_alternate_screen: bool = True) -> None:  # noqa: FBT001, FBT002  # the base has it so
        """Erase what was drawn, wherever it has come to be."""
        columns = self.output.get_size().columns
        if self._last_screen is not None and self._last_size != self.output.get_size():
            x, y = self._cursor_pos
            rows = self._last_screen.data_buffer
            above = sum(max(1, -(-_cells(rows[row]) // columns)) for row in range(y))
            self._cursor_pos = Point(x % columns, above + x // columns)
        super().erase(leave_alternate_screen)


def _cells(row: Mapping[int, Char]) -> int:
    """Return how many columns of `row` are written: blanks at its end are not."""
    return max((at + cell.width for at, cell in row.items() if cell.char.strip()), default=0)
