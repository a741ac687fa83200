"""Sanitising and the screen filter: the public cases, tables of contexts, and properties."""

import hashlib
import json
import time
import unicodedata
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bantam.core.text import (
    ANSI_SEQUENCE,
    Profile,
    ScreenFilter,
    removed_note,
    sanitized,
    sanitized_output,
    screen_text,
)

CASES = Path(__file__).parent / "cases" / "text"
UNICODE = json.loads((CASES / "unicode.json").read_text("utf-8"))
TERMINAL = json.loads((CASES / "terminal.json").read_text("utf-8"))
EVERY_CODE_POINT = "".join(map(chr, range(0x110000)))

# Everything that some rule looks at, and what stands beside it.
TELLING = st.sampled_from(
    [
        *"aZ1#;m]P\\[? (~\t\n\r\f\x07\x00\x18\x1b\x7f\x85\x90\x98\x9b\x9c\x9d\xa0\xa9\xad",
        *"\u034f\u05d0\u061c\u0645\u06cc\u0915\u094d\u0e01\u1100\u115f\u1160\u1161\u17b4\u182d",
        *"\u180b\u180e\u200b\u200c\u200d\u200e\u200f\u2028\u202e\u2062\u2764\u3000\u3164\u845b",
        *"\ud83d\ufe00\ufe0e\ufe0f\ufeff\ufff9\uffff\U0001f3f4\U0001f468\U0001fae9",
        *"\U000e0020\U000e0061\U000e007f\U000e0100\U000e01ef\U000f0000",
        *("\x1b[31m", "\x1b]0;t", "\x1b\\", "\x1bP", "\U000e0067\U000e0062\U000e0065"),
    ]
)
TEXTS = st.lists(TELLING | st.characters(codec=None), max_size=40).map("".join)


def by_id(cases: list[dict[str, Any]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases, ids=[case["id"] for case in cases])


def is_forbidden_on_screen(char: str) -> bool:
    return any(low <= ord(char) <= high for low, high in TERMINAL["forbid_ranges"])


def filtered(parts: list[str]) -> str:
    screen = ScreenFilter()
    return "".join(screen.feed(part) for part in parts) + screen.close()


# -- file content and arguments ---------------------------------------------------------------


@by_id(UNICODE["legit_content"])
def test_legitimate_content_stays_byte_for_byte(case: dict[str, Any]) -> None:
    assert sanitized(case["in"], Profile.TEXT) == (case["content"], Counter())


@by_id(UNICODE["hostile_content"])
def test_hostile_content_loses_what_hides_and_says_so(case: dict[str, Any]) -> None:
    for profile, expected in ((Profile.TEXT, case["content"]), (Profile.STRICT, case["strict"])):
        clean, removed = sanitized(case["in"], profile)
        assert clean == expected
        assert removed == Counter(case["in"]) - Counter(clean)


IN_PLACE = {
    "ZWNJ between a Latin stem and a Persian suffix": "PDF\u200c\u0647\u0627",
    "ZWJ behind a lone Arabic letter": "\u0647\u200d.",
    "ZWJ at both ends of a line": "\n\u200d\u0647\u200d\n",
    "ZWNJ ZWJ, a spelling": "\u0645\u200c\u200d\u062e",
    "CGJ between Hebrew points": "\u05b7\u034f\u05b4",
    "Mongolian vowel separator": "\u182d\u180e\u1820",
    "Khmer word space": "\u1780\u200b\u1781",
    "old Hangul syllable without a first consonant": "\u115f\u1161",
    "old Hangul syllable without a vowel": "\u1100\u1160\u11a8",
    "keycap": "1\ufe0f\u20e3",
    "text style": "\u2764\ufe0e",
    "selector, then joiner": "\u2764\ufe0f\u200d\U0001f525",
    "skin tone, then joiner": "\U0001f9d1\U0001f3fb\u200d\U0001f4bb",
    "flag of a region with six letters": "\U0001f3f4"
    + "".join(chr(0xE0000 + ord(c)) for c in "usca12")
    + "\U000e007f",
    "marks in a right-to-left line": "a\n\u05d0 \u200eb\u200f!\nc",
    "soft hyphen": "Donau\xaddampf",
    "CRLF": "a\r\n\r\nb\r\n",
    "private use of plane 15": "\U000f0001",
    "ideographic blank": "\u3000\u4e2d",
}


@pytest.mark.parametrize("text", IN_PLACE.values(), ids=IN_PLACE.keys())
def test_a_hidden_character_in_its_place_stays(text: str) -> None:
    assert sanitized(text, Profile.TEXT) == (text, Counter())


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("\u043f\u200d\u0440", "\u043f\u0440"),  # Cyrillic letters do not join
        ("\u4e2d\u200c\u6587", "\u4e2d\u6587"),
        ("\U0001f468\u200d ok", "\U0001f468 ok"),  # joins an emoji to nothing
        ("1\u200d2", "12"),
        ("\u0645\u200c\u200c\u200c\u062e", "\u0645\u200c\u200c\u062e"),
        ("\u0645\u200c\u200b\u200c\u2060\u200c\u062e", "\u0645\u200c\u200c\u062e"),
        ("a\u034fb", "ab"),
        ("a\u180eb", "ab"),
        ("a\u200bb", "ab"),
        ("\u1780\u200ba", "\u1780a"),
        ("a\u115fb\u1160c\u3164d\uffa0e\u17b4f", "abcdef"),
        ("a\xad1\xad b", "a1 b"),
        ("a\ufe00b\ufe0f", "ab"),
        ("\u2764\ufe0f\ufe0f", "\u2764\ufe0f"),
        ("\u2764\u200d\ufe0f", "\u2764"),
        ("\u845b\U000e0100\U000e0101", "\u845b\U000e0100"),
        ("\u0645\U000e0100", "\u0645"),
        ("a\u180b", "a"),
        ("\U0001f3f4\U000e0067\U000e0062\U000e007f", "\U0001f3f4"),  # two letters
        ("\U0001f3f4" + "\U000e0067" * 7 + "\U000e007f", "\U0001f3f4"),
        ("\U0001f3f4\U000e0067\U000e0062\U000e0065", "\U0001f3f4"),  # not cancelled
        ("\U0001f600\U000e0067\U000e0062\U000e0065\U000e007f", "\U0001f600"),
        ("\u05d0\n x\u200ey\u061cz\u200f", "\u05d0\n xyz"),  # the line is left-to-right
        ("\u05d0\u200f\u200f\u200f\u200e", "\u05d0\u200f\u200f"),
        ("\ufeff\ufeffa", "\ufeffa"),
        ("\0\ufeffa", "a"),
        ("10%\r50%\r\r\n", "10%50%\r\n"),
        ("a\vb\x7f", "ab"),
        ("\u202a\u202b\u202c\u202d\u2066\u2067\u2068", ""),
        ("\U000e0001\U000e0080\U000e01f0\U0001d173\U0001bca0\ufff0", ""),
    ],
)
def test_a_hidden_character_out_of_its_place_goes(text: str, kept: str) -> None:
    assert sanitized(text, Profile.TEXT)[0] == kept


def test_a_legitimate_flag_takes_no_more_tags_with_it() -> None:
    flag = "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"
    text = flag + "\U000e0061\U000e007f\u200d!"
    assert sanitized(text, Profile.TEXT)[0] == flag + "!"


@pytest.mark.parametrize("text", ["", "plain\n", "\tx ~", "\u4e2d\u6587 \u20ac \u2502"])
def test_clean_text_is_returned_itself(text: str) -> None:
    for clean in (
        sanitized(text, Profile.TEXT)[0],
        sanitized(text, Profile.STRICT)[0],
        sanitized_output(text)[0],
        ScreenFilter().feed(text),
    ):
        assert clean == text
    assert sanitized(text, Profile.TEXT)[0] is text


def test_strict_keeps_what_isprintable_keeps_but_ignorables() -> None:
    kept = set(sanitized(EVERY_CODE_POINT, Profile.STRICT)[0])
    invisible = [(0x34F, 0x34F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F)]
    invisible += [(0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFFA0, 0xFFA0), (0xE0100, 0xE01EF)]
    for char in EVERY_CODE_POINT:
        if unicodedata.category(char) == "Cn":
            continue
        ignorable = any(low <= ord(char) <= high for low, high in invisible)
        expected = char in "\t\n" or (char.isprintable() and not ignorable)
        assert (char in kept) == expected, f"U+{ord(char):04X}"


@pytest.mark.parametrize(
    ("clean", "digest"),
    [
        (lambda text: sanitized(text, Profile.STRICT)[0], "f00360fa6451bdda"),
        (lambda text: sanitized(text, Profile.TEXT)[0], "564ce315237918cd"),
        (screen_text, "c16e2ffc5dfeac6e"),
    ],
    ids=["strict", "text", "screen"],
)
def test_what_is_kept_does_not_depend_on_the_python_version(clean: Any, digest: str) -> None:
    kept = clean(EVERY_CODE_POINT).encode("utf-32-le", "surrogatepass")
    assert hashlib.sha256(kept).hexdigest()[:16] == digest


@settings(deadline=None)  # a busy machine is no failure
@given(TEXTS, st.sampled_from(Profile))
def test_sanitising_is_idempotent_and_tells_all_that_it_dropped(
    text: str, profile: Profile
) -> None:
    clean, removed = sanitized(text, profile)
    assert sanitized(clean, profile) == (clean, Counter())
    assert Counter(clean) + removed == Counter(text)
    clean.encode("utf-8")


STRICTLY_KEPT = frozenset(sanitized(EVERY_CODE_POINT, Profile.STRICT)[0])


@settings(deadline=None)
@given(TEXTS)
def test_strict_drops_a_character_by_itself_and_text_drops_no_more(text: str) -> None:
    strict = sanitized(text, Profile.STRICT)[0]
    assert strict == "".join(char for char in text if char in STRICTLY_KEPT)
    assert sanitized(sanitized(text, Profile.TEXT)[0], Profile.STRICT)[0] == strict


# -- tool results -----------------------------------------------------------------------------


@by_id(UNICODE["result"])
def test_a_result_reaches_the_model_without_hidden_text(case: dict[str, Any]) -> None:
    assert sanitized_output(case["in"])[0] in case["accept"]


@pytest.mark.parametrize(
    ("text", "clean", "removed"),
    [
        ("\x1b[1;31mred\x1b[0m", "red", {ANSI_SEQUENCE: 2}),
        ("\x1b]8;;http://e/\x1b\\link\x1b]8;;\x07", "link", {ANSI_SEQUENCE: 2}),
        ("\x9b2Ja\x90q\x9cb\x85", "ab", {ANSI_SEQUENCE: 3}),
        ("\x1b(B\x1b=\x1b#8", "", {ANSI_SEQUENCE: 3}),
        ("a\r\nb\r\x1b[K\n", "a\nb\n", {ANSI_SEQUENCE: 1}),
        ("10%\r20%\r\n", "10%20%\n", {"\r": 1}),
        ("a\x1b", "a", {"\x1b": 1}),
        ("a\x1b[31\nb", "a31\nb", {ANSI_SEQUENCE: 1}),  # never finished: only ESC [ goes
        ("\x1b]0;never ended", "0;never ended", {ANSI_SEQUENCE: 1}),
        ("\u202e\x1b[mx\U000e0041", "x", {"\u202e": 1, "\U000e0041": 1, ANSI_SEQUENCE: 1}),
        ("\x1b]0;" + "x" * 4094 + "\x07", "", {ANSI_SEQUENCE: 1}),
        ("\x1b]0;" + "x" * 4095 + "\x07", "0;" + "x" * 4095, {ANSI_SEQUENCE: 1, "\x07": 1}),
        ("caf\xe9 \u20ac\n", "caf\xe9 \u20ac\n", {}),
    ],
)
def test_sequences_go_whole_from_results(text: str, clean: str, removed: dict[str, int]) -> None:
    assert sanitized_output(text) == (clean, Counter(removed))


@settings(deadline=None)
@given(TEXTS)
def test_sanitising_a_result_is_idempotent(text: str) -> None:
    clean, _ = sanitized_output(text)
    assert sanitized_output(clean) == (clean, Counter())
    assert STRICTLY_KEPT.issuperset(clean)


@pytest.mark.parametrize(
    ("removed", "note"),
    [
        ({}, ""),
        ({"\u202e": 1, "\U000e0041": 2}, "removed 3 characters: U+202E x1 U+E0041 x2"),
        ({"\U000e0041": 2, "\u202e": 1}, "removed 3 characters: U+202E x1 U+E0041 x2"),
        ({"\0": 1}, "removed 1 character: U+0000 x1"),
        ({ANSI_SEQUENCE: 1}, "removed 1 ANSI sequence"),
        ({ANSI_SEQUENCE: 12}, "removed 12 ANSI sequences"),
        (
            {ANSI_SEQUENCE: 2, "\r": 2},
            "removed 2 characters: U+000D x2, and 2 ANSI sequences",
        ),
        (
            {chr(code): 1 for code in range(11)},
            "removed 11 characters: "
            + " ".join(f"U+{code:04X} x1" for code in range(10))
            + " and 1 more kind",
        ),
        (
            {chr(code): 2 for code in range(15)},
            "removed 30 characters: "
            + " ".join(f"U+{code:04X} x2" for code in range(10))
            + " and 5 more kinds",
        ),
    ],
)
def test_the_note_is_one_short_line(removed: dict[str, int], note: str) -> None:
    assert removed_note(Counter(removed)) == note


# -- the screen -------------------------------------------------------------------------------


@by_id(TERMINAL["vectors"] + TERMINAL["legit"])
def test_the_screen_shows_what_is_expected_however_it_was_cut(case: dict[str, Any]) -> None:
    text = case["in"]
    expected = case.get("expect", text)
    assert screen_text(text) == expected
    assert filtered(list(text)) == expected
    assert filtered(case.get("chunks", [text])) == expected
    assert not any(map(is_forbidden_on_screen, expected))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("PDF\u200c\u0647\u0627", "PDF\u200c\u0647\u0627"),
        ("\u0645\u200c\u200d\u200c\u200d\u062e", "\u0645\u200c\u200d\u062e"),
        ("\u0645\x1b[0m\u200c\u062e", "\u0645\u200c\u062e"),  # neighbours on the screen
        ("1\ufe0f\u20e3 a\ufe0f", "1\ufe0f\u20e3 a"),
        ("\U0001f468\u200d", "\U0001f468"),
        ("\x1b]0;a\x1b[2Jb", "0;ab"),
        ("\x1b]0;a\x18b\x07", "0;ab"),
        ("\u0645\u200c.", "\u0645\u200c."),
        ("\x1b" + "[" + "1" * 256 + "m", ""),
        ("\x1b" + "[" + "1" * 257 + "m", "1" * 257 + "m"),
        ("\x1b" + " " * 17 + "F", " " * 17 + "F"),
        ("\ue0b0 \U0001fae9 \u0600", "\ue0b0 \U0001fae9 \u0600"),
    ],
)
def test_the_screen_shows_text_in_every_script_and_no_sequence(text: str, shown: str) -> None:
    assert screen_text(text) == filtered(list(text)) == shown


@settings(deadline=None)
@given(TEXTS, st.data())
def test_what_is_shown_does_not_depend_on_the_cuts(text: str, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(text))).map(sorted))
    parts = [text[low:high] for low, high in pairwise([0, *cuts, len(text)])]
    assert filtered(parts) == filtered(list(text)) == screen_text(text)


@settings(deadline=None)
@given(TEXTS)
def test_nothing_on_the_screen_acts_or_hides(text: str) -> None:
    shown = screen_text(text)
    assert not any(map(is_forbidden_on_screen, shown))
    assert screen_text(shown) == shown


def test_no_code_point_that_is_forbidden_is_shown_between_any_neighbours() -> None:
    forbidden = "".join(filter(is_forbidden_on_screen, EVERY_CODE_POINT))
    for neighbour in "a\u05d0\u0645\U0001f468\u845b\u182d\U0001f3f4":
        shown = screen_text(neighbour + neighbour.join(forbidden))
        assert set(shown) - {neighbour} <= {"\n"}


def test_a_sequence_that_never_ends_hides_four_kibibytes_at_most() -> None:
    screen = ScreenFilter()
    assert screen.feed("\x1b]0;" + "x" * 4000) == ""
    assert screen.feed("y" * 200) == "0;" + "x" * 4000 + "y" * 200
    assert screen.feed("z") == "z"


def test_a_run_of_joiners_is_not_hoarded() -> None:
    screen = ScreenFilter()
    assert screen.feed("\u0645") == "\u0645"
    for _ in range(1000):
        assert screen.feed("\u200c\u200d\ufe0f") == ""
    assert screen.feed("\u062e") == "\u200c\u200d\u062e"


def test_an_empty_part_changes_nothing() -> None:
    assert filtered(["\u0645", "", "\u200c", "", ".", ""]) == "\u0645\u200c."


def test_a_closed_filter_knows_nothing_of_the_text_before() -> None:
    screen = ScreenFilter()
    assert screen.feed("\x1b]0;\u0645\u200c") + screen.close() == "0;\u0645\u200c"
    assert screen.feed("\u200c.") + screen.close() == "."


@pytest.mark.parametrize(
    "text",
    [
        "\x1b" * 300_000,
        "\x1b]" * 150_000,
        "\x1b]" + "a" * 300_000,
        "\x1b[" + "1" * 300_000,
        "\x1b[1;" * 75_000,
        "\x9d" * 300_000,
        "\u0645" + "\u200c\u200d" * 150_000 + "x",
        "\u200e" * 300_000 + "\u05d0",
        "a\u200e" * 150_000 + "\u05d0",
        "\U0001f3f4" + "\U000e0061" * 300_000,
        "\r" * 300_000,
    ],
    ids=lambda text: ascii(text[:4]),
)
def test_hostile_text_costs_linear_time(text: str) -> None:
    start = time.monotonic()
    sanitized(text, Profile.TEXT)
    sanitized(text, Profile.STRICT)
    sanitized_output(text)
    screen_text(text)
    assert time.monotonic() - start < 20  # about half a second; minutes if it were quadratic
