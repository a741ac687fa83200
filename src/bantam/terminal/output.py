"""What the prompt's own commands say: tables on a terminal, plain lines of fields elsewhere."""

import re
import sys
from collections.abc import Sequence
from typing import Final

from bantam.core.text import screen_text
from bantam.terminal.screen import complain, one_line
from bantam.terminal.spans import Span, drawn
from bantam.terminal.streams import OutputFailed, abandon, size_of
from bantam.terminal.traces import RED

_NUMBER: Final = re.compile(r"[~?-]?[0-9]*(?: \([0-9]+%\))?")


class Output:
    """Writes to standard output; every text is a stranger's, and filtered for a terminal.

    Each method raises OutputFailed.
    """

    def __init__(self, *, color: bool) -> None:
        self.is_terminal = sys.stdout.isatty()
        self.color = color

    def text(self, text: str) -> None:
        """Write `text`, and end its last line."""
        shown = screen_text(text) if self.is_terminal else text
        self.raw(shown if shown.endswith("\n") else f"{shown}\n")

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Write a table fitted to the width; elsewhere its rows alone, fields parted by a tab."""
        cells = [[one_line(cell).replace("\t", " ") for cell in row] for row in rows]
        if not self.is_terminal:
            self.raw("".join("\t".join(row) + "\n" for row in cells))
            return
        ends = [_delimiter(column) for column in zip(*cells, strict=True)] or ["-"] * len(head)
        source = "\n".join(map(_as_markdown, [head, ends, *cells]))
        width, _ = size_of(sys.stdout)
        from bantam.terminal.tables import table_rows

        lines = table_rows(source, width, lambda text: [Span(text)], whole_words=True)
        self.raw("".join(drawn(line, color=self.color) + "\n" for line in lines))

    def fault(self, text: str) -> None:
        """Say what went wrong: on the terminal in red, else on standard error."""
        if not self.is_terminal:
            complain(text)
            return
        line = f"error: {one_line(text)}"
        self.raw(drawn([Span(line, RED)], color=self.color) + "\n")

    def aside(self, text: str) -> None:
        """Write what is for the person and no answer: elsewhere than a terminal, to the error."""
        if self.is_terminal:
            self.text(text)
            return
        try:
            print(screen_text(text), file=sys.stderr, flush=True)
        except OSError:
            abandon(sys.stderr)

    def raw(self, text: str) -> None:
        """Write `text` as it is."""
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except OSError as error:
            raise OutputFailed from error


def _delimiter(column: Sequence[str]) -> str:
    """Return the delimiter of a column: numbers end at the same place."""
    return "-:" if all(map(_NUMBER.fullmatch, column)) else "-"


def _as_markdown(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"
