r"""Text that hides nothing: what the model may get, what a file may hold, what a screen may show.

Two ideas do all the work:

- *Hidden* characters draw nothing: controls, default-ignorables, surrogates, noncharacters.
  `strict` drops them all; `text` and the screen keep the few that have a job where they stand
  (a joiner in a Persian word, a selector behind an emoji). That is decided for a whole run of them
  at once, by the visible characters on its two sides, and a run keeps at most one selector and two
  others: what is left is no carrier, and a second pass finds nothing to drop.
- An *ANSI sequence* (ECMA-48) goes whole from tool results and the screen, where it would act.
  In a command or a file only its control characters go: visible text of those must not vanish.

Most texts are plain ASCII, and clean as they are: what tells the others apart is in `core.hidden`.
"""

import re
from collections import Counter
from enum import StrEnum
from typing import Final

_UNUSUAL: Final = re.compile("[^\t\n -~]")  # text without any is clean

# -- what the model may get, what a file may hold ---------------------------------------------


class Profile(StrEnum):
    """How much of a text stays: legitimate text as it is, or printable characters alone."""

    TEXT = "text"
    STRICT = "strict"


ANSI_SEQUENCE: Final = "ANSI sequence"
"""The key that stands for whole sequences in a count of what was removed."""

_KINDS_SHOWN: Final = 10


def sanitized(text: str, profile: Profile) -> tuple[str, Counter[str]]:
    r"""Return `text` as `profile` allows it, and the characters that were dropped.

    For tool arguments and file content: nothing is replaced, and of an ANSI sequence only the
    control characters go. Idempotent.

    >>> sanitized("printf \x1b[2J", Profile.STRICT)
    ('printf [2J', Counter({'\x1b': 1}))
    """
    if not _UNUSUAL.search(text):
        return text, Counter()
    from bantam.core.hidden import stripped

    return stripped(text, strict=profile is Profile.STRICT)


def sanitized_output(text: str) -> tuple[str, Counter[str]]:
    r"""Return a tool's result as the model may get it, and what was dropped.

    ANSI sequences go whole, under the key `ANSI_SEQUENCE`; then `Profile.STRICT` holds. CRLF
    becomes LF and counts as nothing removed. Idempotent.

    >>> sanitized_output("\x1b[31mred\x1b[0m\r\n")
    ('red\n', Counter({'ANSI sequence': 2}))
    """
    if not _UNUSUAL.search(text):
        return text, Counter()
    from bantam.core.hidden import in_seven_bits, without_sequences

    text, sequences = without_sequences(in_seven_bits(text))
    clean, removed = sanitized(text.replace("\r\n", "\n"), Profile.STRICT)
    if sequences:
        removed[ANSI_SEQUENCE] = sequences
    return clean, removed


def removed_note(removed: Counter[str]) -> str:
    r"""Return the line that tells what was removed, in code point order; "" for nothing.

    >>> removed_note(Counter("\u202e\U000e0041\U000e0041"))
    'removed 3 characters: U+202E x1 U+E0041 x2'
    """
    characters = sorted((key, n) for key, n in removed.items() if key != ANSI_SEQUENCE)
    parts = []
    if characters:
        kinds = " ".join(f"U+{ord(key):04X} x{n}" for key, n in characters[:_KINDS_SHOWN])
        more = len(characters) - _KINDS_SHOWN
        rest = f" and {_counted(more, 'more kind')}" if more > 0 else ""
        total = sum(n for _, n in characters)
        parts.append(f"{_counted(total, 'character')}: {kinds}{rest}")
    if removed[ANSI_SEQUENCE]:
        parts.append(_counted(removed[ANSI_SEQUENCE], ANSI_SEQUENCE))
    return f"removed {', and '.join(parts)}" if parts else ""


def shortened(text: str, most: int) -> str:
    """Return `text`, or the first `most` characters of it and what shows that there are more.

    >>> shortened("abc", 3), shortened("abcd", 3)
    ('abc', 'abc...')
    """
    return text if len(text) <= most else f"{text[:most]}..."


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


# -- what a screen may show -------------------------------------------------------------------


def screen_text(text: str) -> str:
    r"""Return `text` as a terminal may show it. Idempotent.

    >>> screen_text("L\x1b]52;c;?\x07R \u202eevil\rgood")
    'LR evilgood'
    """
    screen = ScreenFilter()
    return screen.feed(text) + screen.close()


class ScreenFilter:
    """Text in pieces -> text that a terminal may show, however it was cut.

    ANSI sequences go whole; of one that is cut off by another, by a control character, by its
    bound (4 KiB) or by the end only the introducer goes. Then hidden characters go but LF, TAB
    and the joiners and emoji selectors that have a job; blanks of other kinds become U+0020. Held
    back: an unfinished sequence, and joiners whose next character is not known.
    """

    def __init__(self) -> None:
        self._sequence = ""
        self._before = ""  # the last visible character, the left side of `_run`
        self._run = ""

    def feed(self, part: str) -> str:
        """Return what can be shown now."""
        if not (self._sequence or self._run or _UNUSUAL.search(part)):
            self._before = part[-1:] or self._before
            return part
        from bantam.core.hidden import in_seven_bits, unfinished

        text = self._sequence + in_seven_bits(part)
        end = unfinished(text)
        self._sequence = text[end:]
        return self._shown(text[:end])

    def close(self) -> str:
        """Return what was held back, as it is shown if nothing follows; ready for a new text."""
        shown = rest = ""
        if self._sequence or self._run:
            from bantam.core.hidden import kept

            shown = self._shown(self._sequence)
            rest = kept(self._before, self._run, "")
        self._sequence = self._before = self._run = ""
        return shown + rest

    def _shown(self, text: str) -> str:
        from bantam.core.hidden import SCREEN_JUDGED, kept, printable, without_idle

        text = self._before + self._run + printable(text)
        decided = text.rstrip(SCREEN_JUDGED)
        shown = without_idle(decided)[len(self._before) :]
        self._before = decided[-1:]
        # An Arabic letter wants every joiner: what stays before one is all that may be needed.
        self._run = kept(self._before, text[len(decided) :], "\u0627")
        return shown
