"""Draw README's picture: `bantam --demo` as a real terminal shows it, as docs/demo.svg.

The program runs in a pseudo-terminal, an emulator keeps what it draws, and rich writes that as an
SVG. What is random (the folder's name) is made constant: the picture changes when the program does.
"""

import io
import re
import sys
from itertools import groupby
from pathlib import Path
from typing import Final

import pexpect
import pyte
from pyte.screens import Char
from rich.console import Console
from rich.style import Style
from rich.text import Text

_PICTURE: Final = Path(__file__).parent.parent / "docs" / "demo.svg"
_COLUMNS: Final = 88
_ROWS: Final = 60
_RANDOM: Final = re.compile(r"\S*/bantam-demo-\w{8}")
_WEB_FONT: Final = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)  # a reader's own will do
_PLAIN: Final = "default"
# What pyte calls a colour that rich knows by another name.
_NAMES: Final = {"brown": "yellow"}


def main() -> int:
    """Write the picture; return the exit status of the demo."""
    screen = pyte.Screen(_COLUMNS, _ROWS)
    status = _played(screen)
    console = Console(record=True, width=_COLUMNS, file=io.StringIO(), force_terminal=True)
    for row in _rows(screen):
        console.print(row, no_wrap=True, crop=False)
    svg = console.export_svg(title="bantam --demo", unique_id="demo")
    _PICTURE.write_text(_WEB_FONT.sub("", svg), "utf-8")
    return status


def _played(screen: pyte.Screen) -> int:
    """Let the demo draw on `screen`; return its exit status."""
    stream = pyte.Stream(screen)
    command = [sys.executable, "-m", "bantam.cli", "--demo", "-o", "color=always"]
    size = (_ROWS, _COLUMNS)
    child = pexpect.spawn(command[0], command[1:], dimensions=size, encoding="utf-8", timeout=60)
    child.logfile_read = io.StringIO()
    child.expect(pexpect.EOF)
    child.close()
    stream.feed(_RANDOM.sub("/tmp/bantam-demo", child.logfile_read.getvalue()))  # noqa: S108  a name in a picture
    return child.exitstatus or 0


def _rows(screen: pyte.Screen) -> list[Text]:
    """Return what stands on `screen`, without the empty rows at its end."""
    last = max(at for at, line in enumerate(screen.display) if line.strip())
    return [_row([screen.buffer[at][x] for x in range(_COLUMNS)]) for at in range(last + 1)]


def _row(cells: list[Char]) -> Text:
    row = Text()
    for style, group in groupby(cells, _style):
        row.append("".join(cell.data for cell in group), style)
    row.rstrip()
    return row


def _style(cell: Char) -> Style:
    color = None if cell.fg == _PLAIN else _NAMES.get(cell.fg, cell.fg)
    if color is not None and re.fullmatch(r"[0-9a-f]{6}", color):
        color = f"#{color}"
    return Style(color=color, bold=cell.bold, italic=cell.italics, underline=cell.underscore)


if __name__ == "__main__":
    sys.exit(main())
