r"""The words of a shell command: what quotes, braces and escapes leave of the source.

A word is built of cells, each a piece of text and whether it was quoted, so that what comes later
(braces, globs, the tilde) still knows. What only the shell can know (the value of a variable, the
output of a command) is the sign UNKNOWN in the word's text; nobody here guesses it.

Bash is the measure (its manual, "Shell Expansions").
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

# Neither can stand in a command: controls are refused before it is read.
UNKNOWN: Final = "\0"
HOME: Final = "\1"  # the user's home folder

_GLOBS: Final = frozenset("*?[")
_MOST_WORDS: Final = 200  # that braces make of one
_MOST_BRACES: Final = 40  # each is searched for its end: together not more than linear
_NUMBERS: Final = re.compile(r"(-?\d{1,6})\.\.(-?\d{1,6})")
_ESCAPES: Final = re.compile(
    r"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|c(.)|(.))",
    re.DOTALL,
)
_NAMED: Final = {
    **{"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r"},
    **{"t": "\t", "v": "\v", "\\": "\\", "'": "'", '"': '"', "?": "?"},
}


class Unreadable(Exception):
    """The command cannot be read; the text says what in it."""


class Cell(NamedTuple):
    """A piece of a word. What is not quoted has one character, or none that means anything."""

    text: str
    is_quoted: bool


@dataclass(frozen=True, slots=True)
class Word:
    """A word as its program gets it, UNKNOWN in the place of what cannot be told.

    `raw`: its source. `splits`: the shell may make several words, or none, of it.
    """

    text: str
    raw: str = ""
    splits: bool = False
    is_glob: bool = False

    @property
    def is_known(self) -> bool:
        """Whether `text` is all of it."""
        return UNKNOWN not in self.text and not self.is_glob

    @property
    def may_hide(self) -> bool:
        """Whether an option may be in it that is not seen."""
        if self.text.startswith("-"):
            return not self.is_known
        return self.splits or self.text.startswith(UNKNOWN)


def words_of(cells: Sequence[Cell], raw: str) -> list[Word]:
    """Return the words that `cells` stand for, braces expanded. Raises Unreadable if too many."""
    if sum(cell == ("{", False) for cell in cells) > _MOST_BRACES:
        raise Unreadable("too many braces")
    return [word_of(each, raw) for each in _expanded(list(cells))]


def word_of(cells: Sequence[Cell], raw: str) -> Word:
    """Return the one word that `cells` are where braces mean nothing."""
    text = "".join(cell.text for cell in cells)
    if cells and cells[0] == ("~", False):
        is_home = len(cells) == 1 or (cells[1].text[:1] == "/" and not cells[1].is_quoted)
        text = (HOME if is_home else UNKNOWN) + text[1:]
    bare = [cell.text for cell in cells if not cell.is_quoted]
    return Word(text, raw, UNKNOWN in bare, any(each in _GLOBS for each in bare))


def _expanded(cells: list[Cell]) -> list[list[Cell]]:
    """Return what the first braces that mean something, and those behind, make of `cells`."""
    for start, cell in enumerate(cells):
        if cell == ("{", False) and (found := _alternatives(cells, start)):
            parts, end = found
            inner = [each for part in parts for each in _expanded(part)]
            rest = _expanded(cells[end:])
            if len(inner) * len(rest) > _MOST_WORDS:
                raise Unreadable("braces that make too many words")
            return [[*cells[:start], *each, *tail] for each in inner for tail in rest]
    return [cells]


def _alternatives(cells: list[Cell], start: int) -> tuple[list[list[Cell]], int] | None:
    """Return the alternatives of the brace at `start` and where it ends; None if it is text."""
    depth, part = 0, start + 1
    parts: list[list[Cell]] = []
    for at in range(start, len(cells)):
        text = "" if cells[at].is_quoted else cells[at].text
        depth += (text == "{") - (text == "}")
        if depth == 0:
            parts.append(cells[part:at])
            numbers = _sequence(parts[0]) if len(parts) == 1 else parts
            return (numbers, at + 1) if numbers else None
        if depth == 1 and text == ",":
            parts.append(cells[part:at])
            part = at + 1
    return None


def _sequence(cells: list[Cell]) -> list[list[Cell]] | None:
    text = "".join(cell.text for cell in cells)
    if ".." not in text:
        return None
    found = _NUMBERS.fullmatch(text)
    if not found:  # letters, steps
        raise Unreadable("a sequence in braces")
    first, last = int(found[1]), int(found[2])
    if abs(last - first) >= _MOST_WORDS:
        raise Unreadable("braces that make too many words")
    step = 1 if first <= last else -1
    return [[Cell(str(number), True)] for number in range(first, last + step, step)]


def unescaped(text: str) -> str:
    r"""Return what stands between `$'` and `'`, its escapes resolved.

    >>> unescaped(r"\x72\155 -rf")
    'rm -rf'

    Raises Unreadable for what ends the text or is not ASCII.
    """
    return "".join(_pieces(text))


def _pieces(text: str) -> Iterator[str]:
    at = 0
    for found in _ESCAPES.finditer(text):
        yield text[at : found.start()]
        at = found.end()
        octal, hexadecimal, short, long, control, named = found.groups()
        if control:
            raise Unreadable("a control character")
        if named:
            yield _NAMED.get(named, f"\\{named}")
            continue
        code = int(octal, 8) if octal else int(hexadecimal or short or long, 16)
        # A NUL ends the text for bash, the others are marks of ours or bytes of a longer character.
        if not 2 <= code < 0x80:
            raise Unreadable("an escape that is not ASCII")
        yield chr(code)
    yield text[at:]
