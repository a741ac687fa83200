r"""The pairs of an edit, and what each makes of a file's bytes.

A search means one place of the file or none, and none is guessed. First and last lines that search
and replacement share are context: they stay as the file has them, with their blanks and line ends.
A new line ends as the line does in whose place it stands.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bantam.core.cancel import Cancel
from bantam.core.errors import ToolError
from bantam.tools.closest import closest
from bantam.tools.lines import Starts, bare, end_of, lines_of, shared
from bantam.tools.matching import Pair, Place, Way, fitting, shift_of, stripped

_OPENER: Final = "<{7,}"
_MOST_PLACES: Final = 10  # that an error names


def pairs_in(text: str) -> tuple[list[tuple[str, str]], int]:
    r"""Return the pairs (search, replacement) in `text`, and how many lack their end.

    Lines end at LF; one trailing CR goes. The markers of a pair are equally long, so that one with
    longer markers may hold lines that look like some. What is outside of pairs is ignored.

    >>> pairs_in("<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n")
    ([('a', 'b')], 0)
    """
    pairs: list[tuple[str, str]] = []
    dropped, begin, marks = 0, "", 0
    search: list[str] = []
    replacement: list[str] | None = None  # None: the divider is yet to come
    for line in (each.removesuffix("\r") for each in text.removeprefix("\ufeff").split("\n")):
        marker = line.rstrip(" \t")
        opener = re.match(_OPENER, line)
        # The very opener of a pair that is open: that one lacks its end.
        if opener and (not begin or marker == begin):
            dropped += bool(begin)
            begin, marks, search, replacement = marker, len(opener[0]), [], None
        elif not begin:
            continue
        elif replacement is None:
            if marker == "=" * marks:
                replacement = []
            else:
                search.append(line)
        elif line.startswith(">" * marks) and line[marks : marks + 1] != ">":
            pairs.append(("\n".join(search), "\n".join(replacement)))
            begin = ""
        else:
            replacement.append(line)
    return pairs, dropped + bool(begin)


class Misplaced(ToolError):
    """A search does not mean one place of the file."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What one pair did: how its search fitted, and the lines put there and taken away."""

    way: Way
    added: int
    removed: int


def edited(text: bytes, search: str, replacement: str, cancel: Cancel) -> tuple[bytes, Applied]:
    """Return `text` with `replacement` in the place of `search`, and how that was done.

    An empty search means the end of the text. Raises Misplaced, and Interrupted.
    """
    pair = Pair.of(search, replacement)
    if not search:
        if not replacement:
            raise Misplaced("search and replacement are both empty")
        return _appended(text, pair.replacement), Applied(Way.EXACT, len(pair.replacement), 0)
    way, places = fitting(text, pair, _MOST_PLACES + 1, cancel)
    if not places:
        place = closest(text, pair.search, cancel)
        raise Misplaced(f"the search fits nowhere: it must be lines of the file. {place}")
    if len(places) > 1:
        lines = ", ".join(str(place.line + 1) for place in places[:_MOST_PLACES])
        more = " and more" if len(places) > _MOST_PLACES else ""
        raise Misplaced(
            f"the search fits several places, at lines {lines}{more}; "
            "put lines around it into search and replacement, so that it fits one"
        )
    return _put_lines(text, pair, places[0], way)


def way_of(text: bytes, search: str, replacement: str, cancel: Cancel) -> Way | None:
    """Return how `search` fits one place of `text` or several, None if it fits nowhere."""
    way, places = fitting(text, Pair.of(search, replacement), 1, cancel)
    return way if places else None


# -- replacing --------------------------------------------------------------------------------


def _put_lines(text: bytes, pair: Pair, place: Place, way: Way) -> tuple[bytes, Applied]:
    start = Starts(text).of(place.line)
    end = end_of(text, start, len(pair.search))
    search, new, old = pair.search, pair.replacement, lines_of(text[start:end])
    if way is Way.PART:
        shift = shift_of(old, pair)
        if shift is None:
            return _put_in_line(text, pair, place)
        # All of the lines but their indentation: this is to be that of all new lines, too.
        place, way = Place(place.line, 0, *shift), Way.SHIFTED
    first = shared(search, new)
    last = shared(search[first:][::-1], new[first:][::-1])
    replaced = old[first : len(old) - last]
    put = [_reindented(line, place) for line in new[first : len(new) - last]]
    usual = _end_before(text, end)
    lines = [
        *old[:first],
        *_ended(put, replaced or old[max(first - 1, 0) :], usual),
        *old[len(old) - last :],
    ]
    if old[-1].endswith(b"\n"):
        after = b"%b%b%b" % (text[:start], b"".join(lines), text[end:])
    else:  # the text ends here, without a line end, and so does the new one
        lines = [line if line.endswith(b"\n") else line + usual for line in lines]
        after = bare(b"%b%b" % (text[:start], b"".join(lines)))
    return after, Applied(way, len(put), len(replaced))


def _put_in_line(text: bytes, pair: Pair, place: Place) -> tuple[bytes, Applied]:
    starts, length = Starts(text), len(pair.search)
    first = starts.of(place.line)
    start = first + place.column
    end = (start if length == 1 else starts.of(place.line + length - 1)) + len(pair.search[-1])
    whole = end_of(text, first, length)
    lines = _ended(pair.replacement, lines_of(text[first:whole]), _end_before(text, whole))
    after = b"%b%b%b" % (text[:start], bare(b"".join(lines)), text[end:])
    return after, Applied(Way.PART, max(len(lines), 1), length)


def _appended(text: bytes, new: Sequence[bytes]) -> bytes:
    end = _end_before(text, len(text))
    if not text or text.endswith(b"\n"):
        return b"%b%b%b" % (text, end.join(new), end)
    return b"%b%b%b" % (text, end, end.join(new))  # without a line end, as it was


def _reindented(line: bytes, place: Place) -> bytes:
    return place.given + line.removeprefix(place.taken) if stripped(line) else line


def _ended(new: Sequence[bytes], old: Sequence[bytes], usual: bytes) -> list[bytes]:
    """Return the lines `new`, each with the end of the line of `old` in whose place it stands."""
    ends = [line[len(bare(line)) :] or usual for line in old]
    return [line + ends[min(at, len(ends) - 1)] for at, line in enumerate(new)]


def _end_before(text: bytes, at: int) -> bytes:
    """Return the last line end in front of `at`, LF if there is none."""
    lf = text.rfind(b"\n", 0, at)
    return b"\r\n" if text[max(lf - 1, 0) : lf] == b"\r" else b"\n"
