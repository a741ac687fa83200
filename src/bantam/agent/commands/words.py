r"""The words of a shell command: what quotes, braces and escapes leave of the source.

While a word is read, what was quoted in it stands in a private plane of Unicode, so that a
character below it means what it means to the shell. What only the shell can know (the value of a
variable, the output of a command) is the sign UNKNOWN in the word's text; nobody here guesses it.

Bash is the measure (its manual, "Shell Expansions").
"""

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

# Neither can stand in a command: controls are refused before it is read.
UNKNOWN: Final = "\0"
HOME: Final = "\1"  # the user's home folder
HERE: Final = "\3"  # the folder that the shell is in

_EMPTY: Final = "\2"  # what keeps '' from being no word
_PLANE: Final = 0xF0000
_QUOTED: Final = {code: code + _PLANE for code in range(128)}
_BARE: Final = {code + _PLANE: code for code in range(128)} | {_PLANE + ord(_EMPTY): None}
_MOST_WORDS: Final = 200  # that braces make of one
_MOST_BRACES: Final = 40  # each is searched for its end: together not more than linear
_BRACE: Final = re.compile("[{},]")
_SEQUENCE: Final = re.compile(r"(0|-?[1-9]\d{0,5})\.\.(0|-?[1-9]\d{0,5})", re.ASCII)
_NAMED: Final = dict(zip("aefnrtv\\'\"?", "\a\x1b\f\n\r\t\v\\'\"?", strict=True))


class Unreadable(Exception):
    """The command cannot be read; the text says what in it."""


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


class Doubt(IntEnum):
    """What is not sure about when a command runs."""

    NONE = 0  # in the shell itself, before what follows it, whatever came of others
    WHETHER = 1  # perhaps not, or in a shell of its own
    HOW_OFTEN = 2  # in a loop or branch


@dataclass(frozen=True, slots=True)
class Command:
    """A simple command: its words, program first, perhaps none.

    A redirection is its sign without a number, as `>>`, and the target; that of `<<<` and `<<` is
    no file. `sums`: what is calculated in it, as it stands.
    """

    words: tuple[Word, ...]
    assignments: tuple[tuple[str, Word], ...] = ()
    redirections: tuple[tuple[str, Word], ...] = ()
    source: str = ""
    sums: tuple[str, ...] = ()
    doubt: Doubt = Doubt.NONE


@dataclass(frozen=True, slots=True)
class Document:
    """A here-document that a line announces; `word` is its closing line."""

    word: str
    strips_tabs: bool
    is_quoted: bool

    @classmethod
    def of(cls, marked: str, raw: str, *, strips_tabs: bool) -> "Document":
        """Return the document of a word. Raises Unreadable if it is a strange one."""
        word = marked.translate(_BARE)
        if not {UNKNOWN, HOME, HERE}.isdisjoint(word) or "\\\n" in raw or "\n" in word:
            raise Unreadable("the word of a here-document")
        return cls(word, strips_tabs, any(sign in raw for sign in "'\"\\"))

    def end(self, text: str, at: int) -> tuple[int, int]:
        """Return where the closing line of the body at `at` begins, and what is behind it."""
        joined = ""
        while at < len(text):
            found = text.find("\n", at)
            end = len(text) if found < 0 else found
            joined += text[at:end].lstrip("\t") if self.strips_tabs and not joined else text[at:end]
            begin, at = at, min(end + 1, len(text))
            if not self.is_quoted and (len(joined) - len(joined.rstrip("\\"))) % 2:
                joined = joined[:-1]  # the line goes on: its last backslash is not itself escaped
                continue
            if joined == self.word:
                return begin, at
            joined = ""
        raise Unreadable("a here-document without an end")


def quoted(text: str) -> str:
    """Return `text` marked as quoted, so that nothing in it means anything to the shell."""
    return (text or _EMPTY).translate(_QUOTED)


def unescaped(found: re.Match[str]) -> str:
    """Return what an escape between `$'` and `'` stands for. Raises Unreadable for a number."""
    if found[1] not in _NAMED:
        raise Unreadable(f"the escape {found[0]}")
    return _NAMED[found[1]]


def word_of(marked: str, raw: str) -> Word:
    """Return the one word that `marked` is where braces mean nothing."""
    if marked.startswith("~"):
        marked = (HOME if marked[1:2] in ("", "/") else UNKNOWN) + marked[1:]
    is_glob = "*" in marked or "?" in marked or "]" in marked.partition("[")[2]
    return Word(marked.translate(_BARE), raw, UNKNOWN in marked, is_glob)


def words_of(marked: str, raw: str) -> list[Word]:
    """Return the words that `marked` stands for, braces expanded. Raises Unreadable if too many."""
    if marked.count("{") > _MOST_BRACES:
        raise Unreadable("too many braces")
    return [word_of(each, raw) for each in _expanded(marked) if each]


def _expanded(marked: str) -> list[str]:
    """Return what the first braces that mean something, and those behind, make of `marked`."""
    start = marked.find("{")
    while start >= 0:
        if found := _alternatives(marked, start):
            parts, end = found
            inner = [each for part in parts for each in _expanded(part)]
            rest = _expanded(marked[end:])
            if len(inner) * len(rest) > _MOST_WORDS:
                raise Unreadable("braces that make too many words")
            return [f"{marked[:start]}{each}{tail}" for each in inner for tail in rest]
        start = marked.find("{", start + 1)
    return [marked]


def _alternatives(marked: str, start: int) -> tuple[list[str], int] | None:
    """Return the alternatives of the brace at `start` and where it ends; None if it is text."""
    depth, part = 0, start + 1
    parts: list[str] = []
    for found in _BRACE.finditer(marked, start):
        depth += (found[0] == "{") - (found[0] == "}")
        if depth == 0 or (depth == 1 and found[0] == ","):
            parts.append(marked[part : found.start()])
            part = found.end()
        if depth == 0:
            if len(parts) > 1:
                return parts, part
            return (_sequence(parts[0]), part) if ".." in parts[0] else None
    return None


def _sequence(text: str) -> list[str]:
    found = _SEQUENCE.fullmatch(text)
    begin, end = (int(found[1]), int(found[2])) if found else (0, _MOST_WORDS)
    if abs(end - begin) >= _MOST_WORDS:
        raise Unreadable("a sequence in braces")
    step = 1 if begin <= end else -1
    return [str(number) for number in range(begin, end + step, step)]
