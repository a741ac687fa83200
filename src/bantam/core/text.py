r"""Text that hides nothing: what the model may get, what a file may hold, what a screen may show.

Every rule is a literal table of code points (Unicode 16.0). None asks `str.isprintable` or
`unicodedata`, whose answers differ between Python versions: what a session stored under one
version must mean the same under the next. A code point that is in no table stays, so emoji of
later Unicode versions do too.

Two ideas do all the work:

- *Hidden* characters draw nothing: controls, default-ignorables, surrogates, noncharacters.
  `strict` drops them all; `text` and the screen keep the few that have a job where they stand
  (a joiner in a Persian word, a selector behind an emoji). That is decided for a whole run of them
  at once, by the visible characters on its two sides, and a run keeps at most one selector and two
  others: what is left is no carrier, and a second pass finds nothing to drop.
- An *ANSI sequence* (ECMA-48) goes whole from tool results and the screen, where it would act.
  In a command or a file only its control characters go: visible text of those must not vanish.

All patterns are linear on any input: what repeats is possessive and bounded by the next ESC.
"""

import re
from collections import Counter
from enum import StrEnum
from itertools import islice
from typing import Final

# -- tables: members of regular-expression classes --------------------------------------------

# General categories Cc (but TAB and LF), Zl, Zp, Cs; interlinear annotation; noncharacters.
_UNSHOWN: Final = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufff9-\ufffb\ufdd0-\ufdef"
    + "".join(
        f"{chr(plane + 0xFFFE)}{chr(plane + 0xFFFF)}" for plane in range(0, 0x110000, 0x10000)
    )
)
# Default_Ignorable_Code_Point of DerivedCoreProperties.txt: bidi controls, joiners, fillers,
# selectors, tags, and what is reserved for more of the kind.
_IGNORABLE: Final = (
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
)
_HIDDEN_CLASS: Final = _UNSHOWN + _IGNORABLE
# Visible, and yet not printable to `str.isprintable`: the blanks (Zs) but U+0020, ...
_BLANKS: Final = "\xa0\u1680\u2000-\u200a\u202f\u205f\u3000"
# ... the other format characters (Cf: Arabic number signs, Egyptian layout), and private use (Co).
_FORMAT_OR_PRIVATE: Final = (
    "\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd\U00013430-\U0001343f"
    "\ue000-\uf8ff\U000f0000-\U0010ffff"
)

# Hidden characters that may have a job; `_IN_PLACE`, `_SELECTED` and `_FLAG` say where.
_MARKS: Final = "\u061c\u200e\u200f"  # ALM, LRM, RLM
_JOINERS: Final = "\u034f\u180e\u200c\u200d"  # CGJ, Mongolian vowel separator, ZWNJ, ZWJ
_JUDGED: Final = (
    _MARKS + _JOINERS + "\xad\u115f\u1160\u180b-\u180d\u180f\u200b\ufe00-\ufe0f"
    "\U000e0020-\U000e007f\U000e0100-\U000e01ef"
)
_SCREEN_JUDGED: Final = "\u200c\u200d\ufe0e\ufe0f"  # all that the screen may keep of them

# Where they have one. Ranges are those of Blocks.txt, rounded outwards within neighbours of a kind.
_RIGHT_TO_LEFT: Final = (
    "\u0590-\u061b\u061d-\u08ff\ufb1d-\ufdcf\ufdf0-\ufdff\ufe70-\ufefc"
    "\U00010800-\U00010fff\U0001e800-\U0001efff"
)
# Scripts whose letters change shape with a joiner: those above, Indic ones, Mongolian.
_JOINING: Final = (
    _RIGHT_TO_LEFT
    + "\u0900-\u109f\u1700-\u180a\u1810-\u1c7f\u1cd0-\u1cff\ua800-\uab2f\uabc0-\uabff"
    "\U00011000-\U00011fff"
)
_EMOJI: Final = (
    "\xa9\xae\u203c\u2049\u20e3\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u24c2\u25a0-\u27bf"
    "\u2934\u2935\u2b00-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
)
_UNSPACED: Final = "\u0e00-\u109f\u1780-\u17ff\u1950-\u1aaf"  # Thai to Myanmar, Khmer, Tai
_HYPHENATED: Final = "A-Za-z\xc0-\u024f\u0370-\u052f"  # Latin, Greek, Cyrillic
_HAN: Final = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd"
# StandardizedVariants.txt and emoji-variation-sequences.txt: keycaps, symbols, no Latin letters.
_VARYING: Final = (
    "#*0-9\xa9\xae\u0590-\u1cff\u2010-\u2027\u2030-\u205e\u2070-\u2fff\u3001-\ud7ff"
    "\uf900-\ufdcf\ufe10-\uffef\U00010000-\U0003fffd"
)

# -- patterns ---------------------------------------------------------------------------------

_UNUSUAL: Final = re.compile("[^\t\n -~]")  # the fast path: text without any is clean
_HIDDEN: Final = re.compile(f"[{_HIDDEN_CLASS}]")
_NOT_STRICT: Final = re.compile(f"[{_HIDDEN_CLASS}{_BLANKS}{_FORMAT_OR_PRIVATE}]")
# A form feed stays in a file, CR before LF, and the byte order mark in front.
_NOT_TEXT: Final = re.compile(
    rf"[{_HIDDEN_CLASS}](?<![{_JUDGED}\f])(?<!\r(?=\n))(?<!\A\ufeff)",
)
_NOT_SCREEN: Final = re.compile(f"[{_HIDDEN_CLASS}](?<![{_SCREEN_JUDGED}])")
_BLANK: Final = re.compile(f"[{_BLANKS}]")
_MARK: Final = re.compile(f"[{_MARKS}]")
_LEFT_TO_RIGHT_LINE: Final = re.compile(rf"^[^\n{_RIGHT_TO_LEFT}]*+$", re.MULTILINE)
_RUN: Final = re.compile(f"[{_JUDGED}]+")

# The visible character before (if any), one hidden character, the visible one after (if any).
_IN_PLACE: Final = re.compile(
    f".?[{_MARKS}].?"  # those in lines without a right-to-left letter are gone by then
    f"|[{_JOINING}][{_JOINERS}].?|.?[{_JOINERS}][{_JOINING}]"  # also behind a Latin stem (PDF)
    f"|[{_EMOJI}][\u200c\u200d][{_EMOJI}]"
    f"|[{_UNSPACED}]\u200b[{_UNSPACED}]"  # ZWSP is the word space there
    f"|[{_HYPHENATED}]\xad[{_HYPHENATED}]"
    "|.?\u115f[\u1160-\u11ff]|[\u1100-\u115f]\u1160.?",  # fillers of Hangul syllables in jamo
    re.DOTALL,
)
_SELECTED: Final = re.compile(
    f"[{_VARYING}][\ufe00-\ufe0f]"
    f"|[{_HAN}][\U000e0100-\U000e01ef]"  # Ideographic Variation Database: Han alone
    "|[\u1820-\u18aa][\u180b-\u180d\u180f]"
)
# UTS #51, ED-14a: a black flag, the letters of a region (ISO 3166-2), a cancel tag.
_FLAG: Final = re.compile("\U0001f3f4([\U000e0030-\U000e0039\U000e0061-\U000e007a]{3,6}\U000e007f)")

# ECMA-48 section 5, in the 7-bit form: CSI; OSC, DCS, PM, APC, SOS with ST, or BEL as xterm
# takes it; nF; two bytes. The bounds, 4 KiB for a string, are ours: a sequence that never ends
# must neither hide what follows for ever nor be held for ever.
_CSI: Final = r"\[[0-?]{0,256}+[ -/]{0,16}+"
_STRING: Final = r"[]P^_X][\x08-\r -~\xa0-\U0010ffff]{0,4096}+"
_SEQUENCE: Final = re.compile(
    rf"\x1b(?:{_CSI}[@-~]|{_STRING}(?:\x07|\x1b\\)|[ -/]{{1,16}}+[0-~]|[0-~])"
)
_UNFINISHED: Final = re.compile(rf"\x1b(?:{_CSI}|{_STRING}\x1b?|[ -/]{{0,16}}+)\Z")
_C1: Final = re.compile("[\x80-\x9f]")

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
    strict = profile is Profile.STRICT
    suspect = _NOT_STRICT if strict else _HIDDEN
    if not (_UNUSUAL.search(text) and suspect.search(text)):
        return text, Counter()
    clean = suspect.sub("", text) if strict else _legitimate(text)
    return clean, Counter(suspect.findall(text)) - Counter(suspect.findall(clean))


def sanitized_output(text: str) -> tuple[str, Counter[str]]:
    r"""Return a tool's result as the model may get it, and what was dropped.

    ANSI sequences go whole, under the key `ANSI_SEQUENCE`; then `Profile.STRICT` holds. CRLF
    becomes LF and counts as nothing removed. Idempotent.

    >>> sanitized_output("\x1b[31mred\x1b[0m\r\n")
    ('red\n', Counter({'ANSI sequence': 2}))
    """
    if not _UNUSUAL.search(text):
        return text, Counter()
    text, sequences = _SEQUENCE.subn("", _in_seven_bits(text))
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


def _legitimate(text: str) -> str:
    """Return `text` without hidden characters but those that have a job where they stand."""
    text = _NOT_TEXT.sub("", text)
    if _MARK.search(text):
        text = _LEFT_TO_RIGHT_LINE.sub(lambda line: _MARK.sub("", line[0]), text)
    return _RUN.sub(_kept_of_match, text)


def _kept_of_match(run: re.Match[str]) -> str:
    text, start, end = run.string, run.start(), run.end()
    return _kept(text[start - 1 : start], run[0], text[end : end + 1])


def _kept(before: str, run: str, after: str) -> str:
    """Return what stays of `run`, hidden characters between two visible ones ("" at an end)."""
    flag = _FLAG.match(before + run)
    if flag:
        return flag[1]
    selector = run[0] if _SELECTED.fullmatch(before + run[:1]) else ""
    in_place = {kind for kind in set(run) if _IN_PLACE.fullmatch(before + kind + after)}
    # Two, not one: ZWNJ ZWJ and the like are spellings of Arabic and Indic scripts.
    return selector + "".join(islice((char for char in run if char in in_place), 2))


def _in_seven_bits(text: str) -> str:
    """Return `text` with C1 controls as ESC and a letter, their other form (ECMA-48 5.3)."""
    return _C1.sub(lambda control: f"\x1b{chr(ord(control[0]) - 0x40)}", text)


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
        text = self._sequence + _in_seven_bits(part)
        unfinished = _UNFINISHED.search(text)
        end = unfinished.start() if unfinished else len(text)
        self._sequence = text[end:]
        return self._shown(text[:end])

    def close(self) -> str:
        """Return what was held back, as it is shown if nothing follows; ready for a new text."""
        shown = self._shown(self._sequence)
        rest = _kept(self._before, self._run, "")
        self._sequence = self._before = self._run = ""
        return shown + rest

    def _shown(self, text: str) -> str:
        text = _BLANK.sub(" ", _NOT_SCREEN.sub("", _SEQUENCE.sub("", text)))
        text = self._before + self._run + text
        decided = text.rstrip(_SCREEN_JUDGED)
        shown = _RUN.sub(_kept_of_match, decided)[len(self._before) :]
        self._before = decided[-1:]
        # An Arabic letter wants every joiner: what stays before one is all that may be needed.
        self._run = _kept(self._before, text[len(decided) :], "\u0627")
        return shown
