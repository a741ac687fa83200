"""The place of a file that a search probably means, and how the two differ.

Words of the search vote: each, wherever it stands in the file, for the place where the search would
have to begin. That is a handful of passes of `bytes.find`, however large the file is; matching all
of it with difflib would be quadratic. Where no word is found, pieces of three bytes vote.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import islice
from typing import Final

from bantam.core.cancel import Cancel
from bantam.core.text import Profile, sanitized, shortened
from bantam.tools.lines import Starts, bare, end_of, found, lines_of, shared

_WORD: Final = re.compile(rb"[\w\x80-\xff]+")
_MOST_VOTERS: Final = 40
_MOST_READ_BYTES: Final = 1 << 29  # in all passes together: about half a second
_MOST_VOTES: Final = 10_000  # of one word; one that stands everywhere tells nothing
_SHOWN_LINES: Final = 12
_CONTEXT_LINES: Final = 2  # in front of the first difference
_SHOWN_CHARACTERS: Final = 200  # of one line


def closest(text: bytes, search: Sequence[bytes], cancel: Cancel) -> str:
    """Return for the model which place of `text` is most like the lines `search`, with a diff."""
    most = max(1, min(_MOST_VOTERS, _MOST_READ_BYTES // (len(text) + 1)))
    for voters in (_words(search), _trigrams(search)):
        chosen = dict(islice(sorted(voters.items(), key=lambda each: -len(each[0])), most))
        votes = _votes(text, chosen, cancel)
        if votes:
            best = max(votes.values())
            line = min(line for line, sum_of in votes.items() if sum_of == best)
            return _compared(text, line, search)
    return "No line of the file is like it"


def _words(search: Sequence[bytes]) -> dict[bytes, int]:
    """Return the words of `search`, each with the number of the line where it stands first."""
    found: dict[bytes, int] = {}
    for number, line in enumerate(search):
        for word in _WORD.findall(line):
            found.setdefault(word, number)
    return found


def _trigrams(search: Sequence[bytes]) -> dict[bytes, int]:
    longest = max(search, key=len).strip()
    number = search.index(max(search, key=len))
    return {longest[at : at + 3]: number for at in range(min(len(longest) - 2, _MOST_VOTERS))}


def _votes(text: bytes, voters: Mapping[bytes, int], cancel: Cancel) -> Counter[int]:
    """Return for each line where the search may begin how much speaks for it."""
    votes: Counter[int] = Counter()
    for word, number in voters.items():
        lines = [line for line, _ in islice(found(text, word, cancel), _MOST_VOTES + 1)]
        if len(lines) <= _MOST_VOTES:
            for line in set(lines):
                # Rare words say more. Whole numbers: sums do not depend on the order.
                votes[max(line - number, 0)] += len(word) * _MOST_VOTES // len(lines)
    return votes


def _compared(text: bytes, line: int, search: Sequence[bytes]) -> str:
    """Return what differs between `search` and as many lines of `text`."""
    start = Starts(text).of(line)
    there = [bare(each) for each in lines_of(text[start : end_of(text, start, len(search))])]
    skipped = max(0, shared(search, there) - _CONTEXT_LINES)
    before = [_shown(each) for each in search[skipped : skipped + _SHOWN_LINES]]
    after = [_shown(each) for each in there[skipped : skipped + _SHOWN_LINES]]
    place = f"The closest place is at line {line + skipped + 1}"
    if before == after:
        return f"{place}, which differs in characters that are not shown to you"
    return "\n".join([f"{place} (- search, + file):", *_diff(before, after)])


def _shown(line: bytes) -> str:
    text = shortened(line.decode(errors="replace"), _SHOWN_CHARACTERS)
    return sanitized(text, Profile.STRICT)[0]


def _diff(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for kind, first, last, new_first, new_last in matcher.get_opcodes():
        is_same = kind == "equal"
        yield from (f"{' ' if is_same else '-'}{line}" for line in before[first:last])
        yield from (f"+{line}" for line in after[new_first:new_last] if not is_same)
