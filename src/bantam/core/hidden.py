r"""Which characters hide, and which of them have a job where they stand: tables and patterns.

Every rule is a literal table of code points (Unicode 16.0). None asks `str.isprintable` or
`unicodedata`, whose answers differ between Python versions: what a session stored under one
version must mean the same under the next. A code point that is in no table stays, so emoji of
later Unicode versions do too.

`core.text` loads this for the first text that is not plain ASCII: the patterns take 9 ms.

All patterns are linear on any input: what repeats is possessive and bounded by the next ESC.
"""

import re
from collections import Counter
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
SCREEN_JUDGED: Final = "\u200c\u200d\ufe0e\ufe0f"  # all that the screen may keep of them

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

_HIDDEN: Final = re.compile(f"[{_HIDDEN_CLASS}]")
_NOT_STRICT: Final = re.compile(f"[{_HIDDEN_CLASS}{_BLANKS}{_FORMAT_OR_PRIVATE}]")
# A form feed stays in a file, CR before LF, and the byte order mark in front.
_NOT_TEXT: Final = re.compile(
    rf"[{_HIDDEN_CLASS}](?<![{_JUDGED}\f])(?<!\r(?=\n))(?<!\A\ufeff)",
)
_NOT_SCREEN: Final = re.compile(f"[{_HIDDEN_CLASS}](?<![{SCREEN_JUDGED}])")
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

# -- what stays of a text ---------------------------------------------------------------------


def stripped(text: str, *, strict: bool) -> tuple[str, Counter[str]]:
    """Return `text` without what hides, and what was dropped; `strict`: all of it, and blanks."""
    suspect = _NOT_STRICT if strict else _HIDDEN
    if not suspect.search(text):
        return text, Counter()
    clean = suspect.sub("", text) if strict else _legitimate(text)
    return clean, Counter(suspect.findall(text)) - Counter(suspect.findall(clean))


def without_sequences(text: str) -> tuple[str, int]:
    """Return `text` without whole ANSI sequences, and how many there were."""
    return _SEQUENCE.subn("", text)


def unfinished(text: str) -> int:
    """Return where a sequence begins that the end of `text` cuts off; its length if none does."""
    found = _UNFINISHED.search(text)
    return found.start() if found else len(text)


def printable(text: str) -> str:
    """Return `text` without what no screen may show: sequences, what hides and has no job."""
    return _BLANK.sub(" ", _NOT_SCREEN.sub("", _SEQUENCE.sub("", text)))


def without_idle(text: str) -> str:
    """Return `text` without the hidden characters that have no job where they stand."""
    return _RUN.sub(_kept_of_match, text)


def kept(before: str, run: str, after: str) -> str:
    """Return what stays of `run`, hidden characters between two visible ones ("" at an end)."""
    flag = _FLAG.match(before + run)
    if flag:
        return flag[1]
    selector = run[0] if _SELECTED.fullmatch(before + run[:1]) else ""
    in_place = {kind for kind in set(run) if _IN_PLACE.fullmatch(before + kind + after)}
    # Two, not one: ZWNJ ZWJ and the like are spellings of Arabic and Indic scripts.
    return selector + "".join(islice((char for char in run if char in in_place), 2))


def in_seven_bits(text: str) -> str:
    """Return `text` with C1 controls as ESC and a letter, their other form (ECMA-48 5.3)."""
    return _C1.sub(lambda control: f"\x1b{chr(ord(control[0]) - 0x40)}", text)


def _legitimate(text: str) -> str:
    """Return `text` without hidden characters but those that have a job where they stand."""
    text = _NOT_TEXT.sub("", text)
    if _MARK.search(text):
        text = _LEFT_TO_RIGHT_LINE.sub(lambda line: _MARK.sub("", line[0]), text)
    return without_idle(text)


def _kept_of_match(run: re.Match[str]) -> str:
    text, start, end = run.string, run.start(), run.end()
    return kept(text[start - 1 : start], run[0], text[end : end + 1])
