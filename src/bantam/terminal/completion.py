"""What Tab can put in place of what stands before the cursor. No terminal, no prompt_toolkit.

A line that begins with `/` is a command: its name and its arguments come from `WordsAfter`. Behind
an `@` that begins a word stands a path, in double quotes if there is a blank in it: `@"my file"`;
`~/` is the user's home, as it is for the shell and for `write_file`.
Words and names that a terminal may not show are not offered, nor a path with a double quote: what
would be put into the line were something else.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from bantam.core.text import screen_text

WordsAfter = Callable[[Sequence[str]], Iterable[str]]
"""Words of a command line -> what may stand behind them: [] -> commands, ["/load"] -> ids.

It is asked when Tab is pressed, and must neither raise nor wait.
"""

# A folder may hold millions: what is looked at, and what a menu can show.
_MOST_LOOKED_AT: Final = 20_000
_MOST_FOUND: Final = 500
_PATH: Final = re.compile(r'(?:^|(?<=\s))@(?:"([^"\n]*)|([^\s"]*))$')


@dataclass(frozen=True, slots=True)
class Candidate:
    """`text` may take the place of the last `replaced` characters; a menu shows `shown`."""

    text: str
    replaced: int
    shown: str


def candidates(before: str, words_after: WordsAfter, folder: str) -> Iterator[Candidate]:
    """Yield what can stand in place of the end of `before`; paths are relative to `folder`."""
    path = _PATH.search(before)
    if path:
        yield from _paths(path, folder)
    elif before.startswith("/") and "\n" not in before:
        yield from _words(before, words_after)


def _words(before: str, words_after: WordsAfter) -> Iterator[Candidate]:
    *words, begun = re.split(r"\s+", before)
    found = (word for word in words_after(words) if word.startswith(begun) and _is_line(word))
    for word in islice(found, _MOST_FOUND):
        yield Candidate(word, len(begun), word)


def _paths(path: re.Match[str], folder: str) -> Iterator[Candidate]:
    quoted, plain = path.groups()
    parent, begun = os.path.split(plain if quoted is None else quoted)
    parent_now = os.path.join(folder, os.path.expanduser(parent))  # noqa: PTH111, PTH118  # names are text here
    for name in _names(parent_now, begun):
        found = os.path.join(parent, name)  # noqa: PTH118  # names are text here
        text = found
        if found.split() != [found] or quoted is not None:
            # A folder's name goes on.
            text = f'"{found}' if found.endswith("/") else f'"{found}"'
        yield Candidate(f"@{text}", len(path[0]), name)


def _names(folder: str, begun: str) -> list[str]:
    """Return the names in `folder` that start with `begun`, sorted; folders end in a slash."""
    try:
        with os.scandir(folder) as entries:
            looked_at = islice(entries, _MOST_LOOKED_AT)
            found = sorted(_name(entry) for entry in looked_at if _is_meant(entry.name, begun))
    except (OSError, ValueError):  # a NUL in it
        return []
    return found[:_MOST_FOUND]


def _is_meant(name: str, begun: str) -> bool:
    if name.startswith(".") and not begun.startswith("."):
        return False
    return name.startswith(begun) and '"' not in name and _is_line(name)


def _is_line(text: str) -> bool:
    return screen_text(text).split("\n") == [text]


def _name(entry: "os.DirEntry[str]") -> str:
    try:
        return f"{entry.name}/" if entry.is_dir() else entry.name
    except OSError:  # a link to itself, or to where nobody may look
        return entry.name
