"""What prompt_toolkit is given to draw in place of a line, so that its wrapping fits.

It wraps the lines of the editor anew at each key, a character at a time, and always the whole
line: a pasted one of a megabyte would cost a second a key. And it takes a line to need no more
rows than its cells fill, so that the end of one of wide characters may lie below the screen.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator

from prompt_toolkit.application import get_app
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.formatted_text.base import OneStyleAndTextTuple
from prompt_toolkit.formatted_text.utils import fragment_list_len, fragment_list_to_text
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput
from prompt_toolkit.layout.utils import explode_text_fragments
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
