"""The diff that a person sees of a written file: right for every change, and small."""

import doctest
import re
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bantam.tools import files
from bantam.tools.files import diff_of, planned
from bantam.tools.splice import Splice

_NO_END: Final = "\\ No newline at end of file"
_HUNK: Final = re.compile(r"@@ -(\d+),(\d+) \+(\d+),(\d+) @@\n((?:[^@].*\n)*)")
_LINES: Final = st.lists(st.sampled_from(["a\n", "b\n", "\n", "c\r\n"]), max_size=30)
_TEXT: Final = st.builds("".join, st.tuples(st.builds("".join, _LINES), st.sampled_from(["", "z"])))


def diff(folder: Path, old: str | bytes | None, content: str, **numbers: int) -> str:
    """Return the diff of a write into a file that holds `old`."""
    file = folder / "f"
    file.unlink(missing_ok=True)
    if old is not None:
        file.write_bytes(old.encode() if isinstance(old, str) else old)
    arguments = {"path": "f", "content": content, "offset": 0, "del_bytes": 0} | numbers
    return diff_of(planned(file, arguments))


def numbered(first: int, end: int) -> str:
    return "".join(f"line {n}\n" for n in range(first, end))


def patched(old: str, hunks: str) -> str:
    """Return what `hunks` make of `old`; each must fit where it says."""
    before, after = _lines(old), list[str]()
    done = 0  # lines of `before`
    for *numbers, body in re.findall(_HUNK, hunks):
        start, length, new_start, new_length = map(int, numbers)
        first = start - 1 if length else start
        after += before[done:first]
        assert len(after) == (new_start - 1 if new_length else new_start)
        marked = _lines(body)
        assert [line[1:] for line in marked if line[0] in " -"] == before[first : first + length]
        added = [line[1:] for line in marked if line[0] in " +"]
        assert len(added) == new_length
        after += added
        done = first + length
    return "".join([*after, *before[done:]])


def _lines(text: str) -> list[str]:
    """Return lines with their LF, but for one that is said to have none."""
    found = re.findall(rf"(.*)(\n{re.escape(_NO_END)}\n|\n|\Z)", text)
    lines = [line + ("\n" if end == "\n" else "") for line, end in found]
    return [line for line in lines if line]


@pytest.mark.parametrize(
    ("old", "content", "numbers", "expected"),
    [
        (None, "a\nb\n", {}, "@@ -0,0 +1,2 @@\n+a\n+b\n"),
        ("a\n", "", {"del_bytes": 9}, "@@ -1,1 +0,0 @@\n-a\n"),
        ("a\n", "a\n", {"del_bytes": 9}, ""),
        (None, "", {}, ""),
        ("a", "\n", {"offset": 1}, f"@@ -1,1 +1,1 @@\n-a\n{_NO_END}\n+a\n"),
        (
            numbered(0, 20),
            "LINE 10",
            {"offset": 70, "del_bytes": 7},
            (
                "@@ -8,7 +8,7 @@\n line 7\n line 8\n line 9\n-line 10\n+LINE 10\n"
                " line 11\n line 12\n line 13\n"
            ),
        ),
        ("\u2028\x0c\n", "a\x85\n", {}, "@@ -1,1 +1,2 @@\n+a\x85\n \u2028\x0c\n"),
    ],
)
def test_a_diff_shows_what_changes_with_three_lines_around_it(
    old: str | None, content: str, numbers: dict[str, int], expected: str, tmp_path: Path
) -> None:
    assert diff(tmp_path, old, content, **numbers) == expected


def test_a_file_that_is_written_anew_shows_only_the_lines_that_differ(tmp_path: Path) -> None:
    old = numbered(0, 9000)
    new = old.replace("line 20\n", "twenty\n").replace("line 800\n", "")
    hunks = diff(tmp_path, old, new, del_bytes=len(old))
    assert re.findall("@.*|[-+].*", hunks) == [
        *("@@ -18,7 +18,7 @@", "-line 20", "+twenty"),
        *("@@ -798,7 +798,6 @@", "-line 800"),
    ]


@pytest.mark.parametrize("old", [b"caf\xe9\n", b"a\0b\n"])
def test_what_is_no_text_has_no_diff(old: bytes, tmp_path: Path) -> None:
    assert diff(tmp_path, old, "a") == ""
    assert diff(tmp_path, "\u20ac", "a", offset=1) == ""


def test_a_text_with_a_nul_has_no_diff(tmp_path: Path) -> None:
    assert diff(tmp_path, "", "a\0b") == ""


def test_a_file_of_over_256_kib_has_no_diff(tmp_path: Path) -> None:
    most = 1 << 18
    assert diff(tmp_path, "x" * (most - 1), "y")
    assert diff(tmp_path, "x" * most, "y") == ""
    assert diff(tmp_path, "x" * (most + 1), "", del_bytes=9) == ""


def test_two_thousand_lines_that_all_differ_have_no_diff_and_one_side_alone_has(
    tmp_path: Path,
) -> None:
    old, new = numbered(0, 2000), numbered(3000, 5000)
    assert diff(tmp_path, old, new, del_bytes=len(old)) == ""
    assert diff(tmp_path, None, new).count("\n") == 2001


@given(old=_TEXT, content=_TEXT, where=st.tuples(st.integers(0, 40), st.integers(0, 40)))
def test_a_diff_makes_the_new_file_of_the_old_one(
    old: str, content: str, where: tuple[int, int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp()
    offset = min(where[0], len(old))
    new = old[:offset] + content + old[offset + where[1] :]
    hunks = diff(folder, old, content, offset=offset, del_bytes=where[1])
    assert patched(old, hunks) == new
    assert bool(hunks) == (new != old)


def test_a_file_that_shrinks_meanwhile_fails_no_diff(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a\n")
    splice: Splice = planned(
        tmp_path / "f", {"path": "f", "content": "b\n", "offset": 2, "del_bytes": 0}
    )
    (tmp_path / "f").write_text("")
    assert diff_of(replace(splice, deleted=0)) == "@@ -0,0 +1,1 @@\n+b\n"


def test_the_examples_in_docstrings_hold() -> None:
    assert doctest.testmod(files) == (0, 1)
