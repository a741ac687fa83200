"""A model's Markdown on a terminal while it comes: finished pieces stay, the unfinished tail moves.

The tail is what has not ended, in a few rows of plain text below the last piece. A change of it is
written as what differs: grown text is appended. When it ends, its piece is written over it, or just
continues it. The cursor never goes above the tail's own rows, so what has been drawn is not touched
and scrolls away as any text does.

After a resize a terminal may have wrapped the tail's rows anew or not, and does not say. The tail
is taken to have as many rows as before: at worst some of its text stays above the piece.
"""

import re
from collections.abc import Callable, Mapping
from itertools import takewhile
from typing import Final, TextIO

from bantam.terminal.markdown import Markdown
from bantam.terminal.spans import cells, is_certain

_LEAST_WAIT_S: Final = 1 / 30  # between two drawings of the tail
_MOST_ROWS: Final = 12

# The terminals that take OSC 8, and since which version. The others mostly ignore it, but not all.
_PROGRAMS: Final[Mapping[str, tuple[int, ...]]] = {  # TERM_PROGRAM, TERM_PROGRAM_VERSION
    "ghostty": (),
    "Hyper": (3,),
    "iTerm.app": (3, 1),
    "mintty": (2, 9, 7),
    "tmux": (3, 4),  # it hands them on where the terminal outside takes them
    "vscode": (1, 72),
    "WezTerm": (),
}
_NUMBERS: Final = {
    "KONSOLE_VERSION": 200800,
    "VTE_VERSION": 5202,  # GNOME's terminal and others; some before it crash
    "KITTY_WINDOW_ID": 0,
}
_TERMS: Final = frozenset({"alacritty", "foot", "foot-extra", "xterm-ghostty", "xterm-kitty"})


class Live:
    """Writes an answer to `out`, a terminal that begins an empty line.

    `size`: its columns and rows now. `clock`: seconds, never going back. `in_place`: it can move
    its cursor; if not, there is no tail. `links`: it takes OSC 8.
    """

    def __init__(
        self,
        out: TextIO,
        size: Callable[[], tuple[int, int]],
        clock: Callable[[], float],
        *,
        in_place: bool,
        color: bool,
        links: bool = False,
    ) -> None:
        self._out = out
        self._size = size
        self._clock = clock
        self._in_place = in_place
        self._markdown = Markdown(size()[0], color=color, links=links)
        self._shown = [""]  # the tail's rows; the cursor is at the end of the last one
        self._due_s = clock()

    def feed(self, part: str) -> None:
        """Draw what ends in this part at once, and the tail if it is time for it."""
        self._markdown.width, height = self._size()
        finished = self._markdown.feed(part)
        now = self._clock()
        if not finished and now < self._due_s:
            return
        self._due_s = now + _LEAST_WAIT_S
        tail = self._markdown.tail(max(1, min(_MOST_ROWS, height - 1))) if self._in_place else []
        self._draw(finished, tail or [""])

    def close(self) -> None:
        """Draw all that is left; the cursor then begins a line. Ready for a new answer."""
        self._markdown.width, _ = self._size()
        self._draw(self._markdown.close(), [""])

    def begin_anew(self) -> None:
        """Draw the tail again at the next `feed`: somebody has written below it.

        The cursor begins a line, and what stands above it may not be erased.
        """
        self._shown = [""]
        self._due_s = self._clock()

    def _draw(self, finished: list[str], tail: list[str]) -> None:
        rows = [*"".join(finished).split("\n")[:-1], *tail]
        self._out.write(_change(self._shown, rows))
        self._shown = tail


def takes_links(environ: Mapping[str, str]) -> bool:
    """Return whether the terminal is known to take OSC 8, by what it says in the environment.

    What a multiplexer runs in has left its own words there; so has, at times, a terminal that
    another one was started from, but then TERM_PROGRAM or TERM is the younger word.

    >>> takes_links({"TERM_PROGRAM": "iTerm.app", "TERM_PROGRAM_VERSION": "3.5.0"})
    True
    """
    term, program = environ.get("TERM", ""), environ.get("TERM_PROGRAM", "")
    in_tmux = "TMUX" in environ or term.startswith(("screen", "tmux"))
    if term in ("dumb", "linux") or "STY" in environ or (in_tmux and program != "tmux"):
        return False
    if program:
        found = tuple(map(int, re.findall(r"\d{1,9}", environ.get("TERM_PROGRAM_VERSION", ""))))
        return program in _PROGRAMS and found >= _PROGRAMS[program]
    numbers = ((environ.get(name, ""), least) for name, least in _NUMBERS.items())
    return (
        term in _TERMS
        or "WT_SESSION" in environ
        or any(re.fullmatch(r"\d{1,9}", text) and int(text) >= least for text, least in numbers)
    )


def _change(old: list[str], new: list[str]) -> str:
    r"""Return what makes rows `new` of the plain rows `old`, the cursor at their end.

    >>> _change(["one", "two"], ["one", "two three", ""])
    ' three\n'
    """
    same = _shared(old, new)
    if same == len(old):
        return "\n" + "\n".join(new[same:]) if same < len(new) else ""
    if same == len(new):
        same -= 1  # the cursor goes to the end of its last row
    up = len(old) - 1 - same
    kept = new[same][: _shared(old[same], new[same])]
    if kept == old[same] and not up:
        return "\n".join([new[same][len(kept) :], *new[same + 1 :]])
    # One character at least is drawn again: behind a full row there is no column to go to.
    kept = new[same][:-1][: len(kept)]
    if not is_certain(new[same][: len(kept) + 1]):
        kept = ""  # in which column it ends, terminals may disagree
    rest = "\n".join([new[same][len(kept) :], *new[same + 1 :]])
    move = f"\x1b[{cells(kept) + 1}G" if kept else "\r"
    return (f"\x1b[{up}A" if up else "") + f"{move}\x1b[J{rest}"


def _shared(one: list[str] | str, other: list[str] | str) -> int:
    """Return how many first elements are the same."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
