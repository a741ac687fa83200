"""Where in a file the search of an edit fits.

It is looked for as `Way` lists it: only a way that finds no place lets the next one try. Each looks
at a copy of the file in which all lines were made comparable (say, without trailing blanks) and
stand between two LFs, so that one `bytes.find` finds several whole lines in linear time; the number
of the line leads back to the file itself. All work on bytes, whatever the encoding.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import islice
from typing import Final

from bantam.core.cancel import Cancel
from bantam.tools.lines import Starts, end_of, found, lines_of

_BLANKS: Final = b" \t\r"  # a CR belongs to the line's end
_BLOCK_BYTES: Final = 1 << 20  # between two looks at the cancel
# Places whose lines are looked at one by one; with more of them none could be told from the others.
_MOST_COMPARED: Final = 1000


class Way(IntEnum):
    """How a search fits its place; the lower, the better."""

    EXACT = 0  # whole lines
    TRAILING = 1  # whole lines, but for blanks at their ends
    PART = 2  # from somewhere in a line to somewhere in a line
    SHIFTED = 3  # whole lines, all indented by the same more or the same less


@dataclass(frozen=True, slots=True)
class Place:
    """Where a search fits: its first line, and the column there if it is part of a line."""

    line: int
    column: int = 0
    taken: bytes = b""  # what each line of the search has in front that the file has not, ...
    given: bytes = b""  # ... and the other way round


@dataclass(frozen=True, slots=True)
class Pair:
    """The lines of a pair, without their ends."""

    search: list[bytes]
    replacement: list[bytes]

    @classmethod
    def of(cls, search: str, replacement: str) -> "Pair":
        """Return the pair of two texts; "" as a replacement is no line at all."""
        # Surrogates, which no model may send, are in no file.
        one, other = (each.encode(errors="replace") for each in (search, replacement))
        return cls(one.split(b"\n"), other.split(b"\n") if other else [])


def fitting(text: bytes, pair: Pair, most: int, cancel: Cancel) -> tuple[Way, list[Place]]:
    """Return the best way that finds any place, and the first `most` places that it finds."""
    ways: dict[Way, Callable[[bytes, Pair, Cancel], Iterator[Place]]] = {
        Way.EXACT: _exact,
        Way.TRAILING: _trailing,
        Way.PART: _parts,
        Way.SHIFTED: _shifted,
    }
    for way, places_of in ways.items():
        places = list(islice(places_of(text, pair, cancel), most))
        if places:
            return way, places
    return Way.SHIFTED, []


def _exact(text: bytes, pair: Pair, cancel: Cancel) -> Iterator[Place]:
    for line in _alike(text, pair.search, _without_cr, cancel):
        yield Place(line)


def _trailing(text: bytes, pair: Pair, cancel: Cancel) -> Iterator[Place]:
    for line in _alike(text, pair.search, _rstripped, cancel):
        yield Place(line)


def _parts(text: bytes, pair: Pair, cancel: Cancel) -> Iterator[Place]:
    # Else a line end would be replaced that the replacement may not have.
    if not (pair.search[0].strip(_BLANKS) and pair.search[-1].strip(_BLANKS)):
        return
    comparable = _comparable(text, _without_cr, cancel)
    for line, at in found(comparable, b"\n".join(pair.search), cancel):
        yield Place(line - 1, at - comparable.rfind(b"\n", 0, at) - 1)


def _shifted(text: bytes, pair: Pair, cancel: Cancel) -> Iterator[Place]:
    starts = Starts(text)
    lines = list(islice(_alike(text, pair.search, _stripped, cancel), _MOST_COMPARED + 1))
    if len(lines) > _MOST_COMPARED:
        return
    for line in lines:
        cancel.check()
        start = starts.of(line)
        old = lines_of(text[start : end_of(text, start, len(pair.search))])
        shift = shift_of(old, pair)
        if shift is not None:
            yield Place(line, 0, *shift)


def _alike(
    text: bytes, search: Sequence[bytes], made: Callable[[bytes], bytes], cancel: Cancel
) -> Iterator[int]:
    """Yield where the lines of `search` are those of the text, both as `made` makes lines."""
    needle = b"\n%b\n" % made(b"\n".join(search))
    return (line for line, _ in found(_comparable(text, made, cancel), needle, cancel))


def _comparable(text: bytes, made: Callable[[bytes], bytes], cancel: Cancel) -> bytes:
    """Return the lines of `text` as `made` makes lines, each between two LFs."""
    pieces, start = [b"\n"], 0
    while start < len(text):
        cancel.check()
        end = text.find(b"\n", start + _BLOCK_BYTES) + 1 or len(text)
        pieces.append(made(text[start:end]))
        start = end
    if text and not text.endswith(b"\n"):
        pieces.append(b"\n")
    return b"".join(pieces)


def _without_cr(lines: bytes) -> bytes:
    return lines.replace(b"\r\n", b"\n")


def _rstripped(lines: bytes) -> bytes:
    if not _has_blanks(lines):
        return lines
    return b"\n".join(line.rstrip(_BLANKS) for line in lines.split(b"\n"))


def _stripped(lines: bytes) -> bytes:
    if not _has_blanks(lines):
        return lines
    return b"\n".join(line.strip(_BLANKS) for line in lines.split(b"\n"))


def _has_blanks(lines: bytes) -> bool:
    # Short lines have none, and a block has a million of those.
    return any(blank in lines for blank in _BLANKS)


def stripped(line: bytes) -> bytes:
    """Return `line` without its end and the blanks around it."""
    return line.strip(_BLANKS + b"\n")


def shift_of(old: Sequence[bytes], pair: Pair) -> tuple[bytes, bytes] | None:
    """Return what the search's lines have in front of those of `old`, and the other way round.

    None if that is not the same for all, something else differs, or a new line lacks it.
    """
    shifts = set()
    for line, searched in zip(old, pair.search, strict=True):
        if stripped(line) != stripped(searched):
            return None
        if stripped(line):
            there, here = _indentation(line), _indentation(searched)
            if there.endswith(here):
                shifts.add((b"", there[: len(there) - len(here)]))
            elif here.endswith(there):
                shifts.add((here[: len(here) - len(there)], b""))
            else:
                return None
    if len(shifts) != 1:
        return None
    [(taken, given)] = shifts
    fits = all(new.startswith(taken) for new in pair.replacement if stripped(new))
    return (taken, given) if fits else None


def _indentation(line: bytes) -> bytes:
    return line[: len(line) - len(line.lstrip(b" \t"))]
