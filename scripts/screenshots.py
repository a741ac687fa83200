"""Draw README's pictures as a real terminal shows them: docs/demo.svg, session.svg, commands.svg.

    python scripts/screenshots.py [FOLDER]        writes them into docs, or into FOLDER

The program runs in a pseudo-terminal, an emulator keeps what it draws, and rich writes that as an
SVG. The model of the session is a script of answers on the loopback; the shell and the files are
real. What depends on the run is made constant: a picture changes when the program does.
"""

import io
import os
import re
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pyte
from pyte.screens import Char
from rich.console import Console
from rich.style import Style
from rich.text import Text

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from llmserver import LLMServer, Reply, calls, shell, text
from program import BANTAM
from typist import Typist, typist

_DOCS: Final = Path(__file__).parent.parent / "docs"
_COLUMNS: Final = 88
_ROWS: Final = 60
_SIZE: Final[dict[str, Any]] = {"columns": _COLUMNS, "rows": _ROWS}
# What another run or machine would write otherwise.
_CONSTANT: Final = (
    (re.compile(r"\S*/bantam-demo-\w{8}"), "/tmp/bantam-demo"),  # noqa: S108  a name in a picture
    # Estimates: the demo's folder and the machine's kind are part of the system prompt.
    (re.compile(r"~\d+ prompt"), "~1892 prompt"),
    (re.compile(r"context: ~\d+"), "context: ~713"),
    (re.compile(r"(tool result: \w+), \d+\.\d s"), r"\1"),  # said where a machine is slow
)
_BLANK: Final = Char(" ")
_WEB_FONT: Final = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)  # a reader's own will do
_READY: Final = ">"  # a prompt, as `Typist.lines` has it
# What pyte calls a colour that rich knows by another name.
_NAMES: Final = {"brown": "yellow"}

# -- the story --------------------------------------------------------------------------------

_BEFORE: Final = "' '"
_AFTER: Final = r"r'\W+'"
_SLUG: Final = f"""\
import re

def slug(title):
    return re.sub({_BEFORE}, '-', title.lower())
"""
_TITLES: Final = """\
from slug import slug

for title in ("Salt & Pepper", "What is new?"):
    print(title, "->", slug(title))
"""
_ANSWER: Final = r"""## Repaired

The pattern was one blank. Now it is `\W+`: **whatever stands between words**.

- Letters, digits and `_` stay, those with accents too.
- Several marks in a row make one `-`.

| title | before | now |
|---|---|---|
| Salt & Pepper | `salt-&-pepper` | `salt-pepper` |
| What is new? | `what-is-new?` | `what-is-new-` |

A mark at the end still leaves a `-`. To be rid of it too:

```python
return re.sub(r'\W+', '-', title.lower()).strip('-')  # at both ends
```
"""


def _replies() -> Iterator[Reply]:
    """Yield what the model answers: it looks, repairs and tries, and tells."""
    yield shell(
        "cat slug.py; python3 titles.py",
        reasoning="What does slug() replace? I'll read it, and see what it makes of the titles.",
        usage=_usage(871, 58),
    )
    place = {"path": "slug.py", "offset": _SLUG.index(_BEFORE), "del_bytes": len(_BEFORE)}
    yield calls(
        ("write_file", {**place, "content": _AFTER}),
        ("shell_exec", {"command": "python3 titles.py"}),
        content="Only blanks are replaced, so `&` and `?` stay.",
        usage=_usage(1006, 84),
        start=2,
    )
    yield text(_ANSWER, usage=_usage(1187, 163))


def _usage(prompt: int, completion: int) -> dict[str, int]:
    total = prompt + completion
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total}


# -- the program ------------------------------------------------------------------------------


def main(arguments: Sequence[str]) -> int:
    """Write the pictures; return 0, or what a program ended with."""
    folder = Path(arguments[0]) if arguments else _DOCS
    for play in (_demo, _session):
        with TemporaryDirectory() as home:
            if status := play(Path(home), folder):
                return status
    return 0


def _demo(home: Path, folder: Path) -> int:
    env = {"TMPDIR": str(home)}  # what the demo leaves there goes with the rest
    with typist(home, program=[*BANTAM, "--demo"], env=env, **_SIZE) as terminal:
        status = terminal.end()
        _draw(terminal, "bantam --demo", folder / "demo.svg")
    return status


def _session(home: Path, folder: Path) -> int:
    """Draw a turn at the prompt, then some commands on a cleared screen."""
    (home / "slug.py").write_text(_SLUG)
    (home / "titles.py").write_text(_TITLES)
    with LLMServer(_replies()) as server:
        config = f"endpoint={server.url}\nmodel=qwen2.5-coder\ncontext_window=32768\n"
        (home / ".bantam.cfg").write_text(config)
        # The model runs python3; this one is there.
        env = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        with typist(home, program=BANTAM, env=env, **_SIZE) as terminal:
            terminal.until(lambda: terminal.lines[-1] == _READY)
            _say(terminal, "titles.py shows odd slugs. Repair slug.py, and tell me what changes.")
            _draw(terminal, "bantam", folder / "session.svg")
            terminal.type("\x0c")
            terminal.until(lambda: terminal.lines == [_READY])
            for command in ("/usage", "/udno", "/undo", "!cat slug.py"):
                _say(terminal, command)
            terminal.type("/c\t")
            terminal.until(lambda: "/clear" in terminal.lines[-1] and _has_drawn(terminal))
            _draw(terminal, "bantam", folder / "commands.svg")
            terminal.type("\x03\x04")
            return terminal.end()


def _say(terminal: Typist, line: str) -> None:
    """Send `line`, and wait until what it does is done: the next prompt stands there."""
    prompts = _prompts(terminal)
    terminal.type(f"{line}\r")
    terminal.until(lambda: terminal.lines[-1] == _READY and _prompts(terminal) > prompts)


def _has_drawn(terminal: Typist) -> bool:
    """Whether the editor has drawn all it had to: it shows the cursor then."""
    return terminal.raw.endswith(b"\x1b[?25h")


def _prompts(terminal: Typist) -> int:
    return sum(line.startswith(_READY) for line in terminal.lines)


# -- the picture ------------------------------------------------------------------------------


class _Screen(pyte.Screen):
    """A screen that knows faint text: as blinking, which pyte knows and Bantam never writes."""

    def select_graphic_rendition(self, *attrs: int, **more: Any) -> None:
        """Set the style of what is drawn next (ECMA-48 8.3.117)."""
        if not {38, 48} & set(attrs):  # behind those, a 2 belongs to a colour
            attrs = tuple(5 if attr == 2 else attr for attr in attrs)
        super().select_graphic_rendition(*attrs, **more)


def _draw(terminal: Typist, title: str, file: Path) -> None:
    """Write what `terminal` shows by now, with what is constant in place of what is not."""
    shown = terminal.raw.decode("utf-8", "ignore")  # a character may have come in part
    for found, constant in _CONSTANT:
        shown = found.sub(constant, shown)
    screen = _Screen(_COLUMNS, _ROWS)
    pyte.Stream(screen).feed(shown)
    # No colour, width or kind of terminal from the environment of whoever draws this.
    console = Console(record=True, width=_COLUMNS, file=io.StringIO(), _environ={})
    for row in _rows(screen):
        console.print(row, no_wrap=True, crop=False)
    svg = console.export_svg(title=title, unique_id=file.stem)
    file.write_text(_WEB_FONT.sub("", svg), "utf-8")


def _rows(screen: pyte.Screen) -> list[Text]:
    """Return what stands on `screen`, without the empty rows at its end."""
    last = max(at for at, line in enumerate(screen.display) if line.strip())
    return [_row([screen.buffer[at][x] for x in range(_COLUMNS)]) for at in range(last + 1)]


def _row(cells: list[Char]) -> Text:
    while cells and cells[-1] == _BLANK:
        cells.pop()
    row = Text()
    for style, group in groupby(cells, _style):
        row.append("".join(cell.data for cell in group), style)
    return row


def _style(cell: Char) -> Style:
    return Style(
        color=_color(cell.fg),
        bgcolor=_color(cell.bg),
        bold=cell.bold,
        dim=cell.blink,
        italic=cell.italics,
        underline=cell.underscore,
        strike=cell.strikethrough,
        reverse=cell.reverse,
    )


def _color(name: str) -> str | None:
    """Return what rich calls the colour that pyte calls `name`; None for the terminal's own."""
    if re.fullmatch(r"[0-9a-f]{6}", name):
        return f"#{name}"
    return None if name == "default" else _NAMES.get(name, name)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
