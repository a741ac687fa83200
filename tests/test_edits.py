"""edit_file on real files: the pairs, the place that each means, and what is kept around it."""

import doctest
import json
import os
import stat
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from users import open_folder, ordinary_user

from bantam.agent.undo import put_back
from bantam.core.cancel import Cancel
from bantam.core.changes import Change
from bantam.core.errors import Interrupted, ToolError
from bantam.core.events import Status
from bantam.core.messages import ToolCall
from bantam.sessions.undo import UndoLog
from bantam.tools import edits, lines
from bantam.tools.editing import edit_tool, planned_edit
from bantam.tools.edits import pairs_in
from bantam.tools.executors.local import LocalExecutor
from bantam.tools.lines import Starts
from bantam.tools.splice import Keep, perform, smallest
from bantam.tools.tool import Result, Toolbox

MIB = 1 << 20


def pair(search: str, replacement: str, marks: int = 7) -> str:
    """One pair as a model writes it: each text is lines, each with its LF, or nothing."""
    opener, divider, end = "<" * marks, "=" * marks, ">" * marks
    return f"{opener} SEARCH\n{search}{divider}\n{replacement}{end} REPLACE\n"


def edit(folder: Path, pairs: str, path: str = "f", keep: Keep | None = None) -> Result:
    executor = LocalExecutor(folder, {"HOME": str(folder / "home")})
    toolbox = Toolbox([edit_tool(executor, keep)])
    arguments = json.dumps({"path": path, "edits": pairs})
    running = toolbox.run(toolbox.check(ToolCall("1", "edit_file", arguments)), Cancel())
    while True:
        try:
            next(running)
        except StopIteration as end:
            result: Result = end.value
            return result


def after(folder: Path, old: bytes, pairs: str) -> bytes:
    (folder / "f").write_bytes(old)
    result = edit(folder, pairs)
    assert result.status is Status.OK, result.text
    return (folder / "f").read_bytes()


def refusal(folder: Path, old: bytes, pairs: str) -> str:
    (folder / "f").write_bytes(old)
    result = edit(folder, pairs)
    assert result.status is Status.ERROR
    assert (folder / "f").read_bytes() == old
    return result.text


# -- the pairs --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ([], 0)),
        ("prose\n=======\n>>>>>>> REPLACE\n", ([], 0)),
        (pair("a\n", "b\n"), ([("a", "b")], 0)),
        (pair("a\n", "b\n").removesuffix("\n"), ([("a", "b")], 0)),
        (pair("a\n", "b\n").replace("\n", "\r\n"), ([("a", "b")], 0)),
        ("\ufeff" + pair("a\n", "b\n"), ([("a", "b")], 0)),
        (pair(" a\n\nb \n", "\n c\n"), ([(" a\n\nb ", "\n c")], 0)),
        (pair("a\n", ""), ([("a", "")], 0)),
        (pair("", "b\n"), ([("", "b")], 0)),
        (pair("", ""), ([("", "")], 0)),
        ("```\n" + pair("a\n", "b\n") + "\n" + pair("c\n", "d\n") + "```\n",
         ([("a", "b"), ("c", "d")], 0)),
        ("<<<<<<<\na\n======= \t\nb\n>>>>>>>\n", ([("a", "b")], 0)),
        ("<<<<<<<<< old\na\n=========\nb\n>>>>>>>>> new\n", ([("a", "b")], 0)),
        ("<<<<<< SEARCH\na\n======\nb\n>>>>>> REPLACE\n", ([], 0)),
        (" " + pair("a\n", "b\n"), ([], 0)),
        # The markers are equally long: others are content.
        (pair("=======\n<<<<<<< x\n>>>>>>> y\n", "======\n>>>>>>>>> z\n", 8),
         ([("=======\n<<<<<<< x\n>>>>>>> y", "======\n>>>>>>>>> z")], 0)),
        (pair("a\n", "b\n=======\nc\n"), ([("a", "b\n=======\nc")], 0)),
        (pair("a\n", "b\n <<<<<<< SEARCH\n >>>>>>> x\n"),
         ([("a", "b\n <<<<<<< SEARCH\n >>>>>>> x")], 0)),
        # Without an end.
        ("<<<<<<< SEARCH\na\n", ([], 1)),
        ("<<<<<<< SEARCH\na\n=======\nb\n", ([], 1)),
        ("<<<<<<< SEARCH\na\n=======\nb\n" + pair("c\n", "d\n"), ([("c", "d")], 1)),
        ("<<<<<<< SEARCH\na\n" + pair("c\n", "d\n"), ([("c", "d")], 1)),
        (pair("c\n", "d\n") + "<<<<<<< SEARCH\na\n=======\nb\n```\n", ([("c", "d")], 1)),
    ],
)  # fmt: skip
def test_pairs_are_read_by_their_markers(
    text: str, expected: tuple[list[tuple[str, str]], int]
) -> None:
    assert pairs_in(text) == expected


_LINE = st.text("ab <=>\r", max_size=9).filter(lambda line: not line.endswith("\r"))
_TEXT = st.lists(_LINE, max_size=4)


@given(st.lists(st.tuples(_TEXT, _TEXT), max_size=4))
def test_pairs_are_what_was_written_if_their_markers_are_longer_than_what_is_in_them(
    texts: list[tuple[list[str], list[str]]],
) -> None:
    ended = [("".join(f"{line}\n" for line in one), "".join(f"{line}\n" for line in other))
             for one, other in texts]  # fmt: skip
    written = "prose\n".join(pair(one, other, 10) for one, other in ended)
    assert pairs_in(written) == ([("\n".join(a), "\n".join(b)) for a, b in texts], 0)


# -- the place --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "search", "replacement", "new", "note"),
    [
        # exact
        ("a\nb\nc\n", "b\n", "B\n", "a\nB\nc\n", ""),
        ("a\nb\nc\n", "a\nb\n", "A\n", "A\nc\n", ""),
        ("a\nb\nc", "c\n", "C\nd\n", "a\nb\nC\nd", ""),
        ("port = 80\n", "port = 80\n", "port = 8080\n", "port = 8080\n", ""),
        ("b\nbb\n bb\n", "b\n", "c\n", "c\nbb\n bb\n", ""),
        ("\n\na\n\n", "\na\n\n", "b\n", "\nb\n", ""),
        ("a\n  \nb\n", "  \n", "x\n", "a\nx\nb\n", ""),
        ("h\u00e9\n", "h\u00e9\n", "\u20ac\n", "\u20ac\n", ""),
        # but for blanks at the ends of lines; context keeps its own
        ("a  \nb\t\nc \n", "a\nb\nc\n", "a\nB\nc\n", "a  \nB\nc \n", "blanks at the ends"),
        ("a\nb\n", "a \nb  \n", "c\n", "c\n", "blanks at the ends"),
        ("if\n    \n  x\n", "if\n\n  x\n", "no\n\n  x\n", "no\n    \n  x\n", "blanks at the ends"),
        ("x\n  \ny", "x\n\n", "x\n", "x\ny", "blanks at the ends"),
        # a part of a line or of several
        ("f(a, b)\n", "a, b\n", "b\n", "f(b)\n", "a part of a line"),
        ("f(a, b)\n", "a, \n", "", "f(b)\n", "a part of a line"),
        ("f(a,\n  b)\n", "a,\n  b\n", "c\nd\n", "f(c\nd)\n", "a part of a line"),
        ("f(a,\n  b)\n", "(a,\n  b\n", "(\n", "f()\n", "a part of a line"),
        ("x = f(a)", "f(a)\n", "g\nh\n", "x = g\nh", "a part of a line"),
        ("say h\u00e9 so\n", "h\u00e9\n", "\u20ac\n", "say \u20ac so\n", "a part of a line"),
        # another indentation, which the replacement follows
        ("if x:\n        a()\n\n        b()\n", "a()\n\nb()\n", "c()\nif y:\n    d()\n\n",
         "if x:\n        c()\n        if y:\n            d()\n\n", "another indentation"),
        ("a\n  b\n", "    a\n      b\n", "    c\n\n        d\n", "c\n\n    d\n", "another indent"),
        ("\t\ta\n\t\tb\n", "\ta\n\tb\n", "\tc\n", "\t\tc\n", "another indentation"),
        ("  a  \n  b\n", "a\nb \n", "c\n", "  c\n", "another indentation"),
        # ... as does that of all of one line, of which the search is a part
        ("def f():\n    a()\n", "a()\n", "b()\nc()\n", "def f():\n    b()\n    c()\n",
         "another indentation"),
        ("def f():\n    a()\n    b()\n", "a()\n", "", "def f():\n    b()\n", "another indentation"),
    ],
)  # fmt: skip
def test_a_search_finds_its_place(
    old: str, search: str, replacement: str, new: str, note: str, tmp_path: Path
) -> None:
    (tmp_path / "f").write_text(old)
    result = edit(tmp_path, pair(search, replacement))
    assert (tmp_path / "f").read_text() == new, result.text
    assert note in result.text
    assert ("note: " in result.text) == bool(note)


@pytest.mark.parametrize(
    ("old", "search", "new"),
    [
        ("rubber\nb\n", "b\n", "rubber\nX\n"),  # a line before a part
        ("b\nb \n", "b\n", "X\nb \n"),  # an exact line before one with blanks
        ("rub\nb \n", "b\n", "rub\nX\n"),  # one with blanks before a part
        ("xb\n  b\n", "  b\n", "xb\nX\n"),
    ],
)
def test_the_better_fit_is_taken_and_no_other_is_counted(
    old: str, search: str, new: str, tmp_path: Path
) -> None:
    assert after(tmp_path, old.encode(), pair(search, "X\n")) == new.encode()


@pytest.mark.parametrize(
    ("old", "search", "at"),
    [
        ("a\nb\na\n", "a\n", "1, 3"),
        ("a\na\na\n", "a\na\n", "1, 2"),
        ("x\na \nb\na\t\n", "a\n", "2, 4"),
        ("xa xb xa\n", "xa\n", "1, 1"),
        ("x\n  a\n  b\n    a\n    b\n", "a\nb\n", "2, 4"),
        ("a\n" * 40, "a\n", "1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and more;"),
        ("a\n" * 10, "a\n", "1, 2, 3, 4, 5, 6, 7, 8, 9, 10;"),
    ],
)
def test_a_search_that_fits_several_places_is_refused_with_their_lines(
    old: str, search: str, at: str, tmp_path: Path
) -> None:
    text = refusal(tmp_path, old.encode(), pair(search, "x\n"))
    assert f"several places, at lines {at}" in text


@pytest.mark.parametrize(
    ("old", "search"),
    [
        ("a\n", "b\n"),
        ("", "b\n"),
        ("a\nb\n", "a\n\nb\n"),
        # A line end of the search that the file has not would take one that it has.
        ("xa\nb\n", "a\n\n"),
        ("a\nbx\n", "\nb\n"),
        # Not one indentation for all.
        ("  a\n b\n", "a\nb\n"),
        ("\ta\n  b\n", "a\nb\n"),
        ("\ta\n", "  a\n"),
        # The replacement has no such indentation to lose.
        ("a\nb\n", "    a\n    b\n"),
    ],
)
def test_a_search_that_fits_nowhere_is_refused(old: str, search: str, tmp_path: Path) -> None:
    assert "the search fits nowhere" in refusal(tmp_path, old.encode(), pair(search, "  x\n"))


def numbered(first: int, end: int) -> str:
    return "".join(f"line {n} of the file\n" for n in range(first, end))


@pytest.mark.parametrize(
    ("old", "search", "shown"),
    [
        ("a = 1\nport = 80\nb = 1\n", "prot = 80\n",
         "line 2 (- search, + file):\n-prot = 80\n+port = 80"),
        (numbered(0, 5000), "line 4321 of a file\nline 4322 of a file\n",
         ("line 4322 (- search, + file):\n-line 4321 of a file\n-line 4322 of a file\n"
          "+line 4321 of the file\n+line 4322 of the file")),
        (numbered(0, 50), numbered(20, 26) + "here\n" + numbered(27, 30),
         ("line 25 (- search, + file):\n line 24 of the file\n line 25 of the file\n-here\n"
          "+line 26 of the file\n line 27 of the file\n line 28 of the file\n"
          " line 29 of the file")),
        ("begin\nfoobar()\n", "foobaz()\n", "line 2 (- search, + file):\n-foobaz()\n+foobar()"),
        ("a b c d\r\ne f\r\n", "a b c D\ne f\n",
         "line 1 (- search, + file):\n-a b c D\n+a b c d\n e f"),
        ("caf\u00e9\u00a0noir\n", "caf\u00e9noir\n", None),
        ("x" * 300 + "y\n", "x" * 300 + "z\n", None),
    ],
)  # fmt: skip
def test_a_search_that_fits_nowhere_is_told_the_closest_place(
    old: str, search: str, shown: str | None, tmp_path: Path
) -> None:
    text = refusal(tmp_path, old.encode(), pair(search, "x\n"))
    told = shown or "line 1, which differs in characters that are not shown to you"
    assert text.endswith(f"The closest place is at {told}")


def test_the_closest_place_is_shown_in_part_where_it_is_long(tmp_path: Path) -> None:
    search = "".join(f"line {n} of {'a' * 500}\n" for n in range(200))
    text = refusal(tmp_path, search.replace("line", "row").encode(), pair(search, ""))
    assert text.count("\n-line") == text.count("\n+row") == 12
    assert len(text) < 6000


@pytest.mark.parametrize("old", ["", "xyz\n", "ab\n" * 10_001])
def test_where_nothing_is_alike_or_everything_that_is_said(old: str, tmp_path: Path) -> None:
    assert refusal(tmp_path, old.encode(), pair("ab c\n", "x\n")).endswith(
        "No line of the file is like it"
    )


# -- several pairs ----------------------------------------------------------------------------


def test_pairs_are_applied_in_order_each_to_what_the_ones_before_left(tmp_path: Path) -> None:
    pairs = pair("a\n", "b\nc\n") + pair("c\n", "d\n") + pair("", "e\n") + pair("e\n", "f\n")
    assert after(tmp_path, b"a\n", pairs) == b"b\nd\nf\n"


@pytest.mark.parametrize("fault", [pair("none\n", "x\n"), pair("b\n", "x\n"), pair("", "")])
def test_all_pairs_are_applied_or_none(fault: str, tmp_path: Path) -> None:
    text = refusal(tmp_path, b"a\nb\nb\n", pair("a\n", "A\n") + fault + pair("a\n", "B\n"))
    assert text.startswith("f: pair 2 of 3: nothing was changed: ")
    assert text.endswith("\nLines are counted as the pairs before it left them")


@pytest.mark.parametrize(
    ("old", "first", "second"),
    [
        ("rubber\nb\n", ("b\n", "x\n"), "b\n"),
        ("a\nb\nc\n", ("a\nb\n", "A\nB\n"), "b\nc\n"),
        ("a\n  b\n", ("a\n", "a\nx b\n"), "a\n  b\n"),
    ],
)
def test_a_pair_for_lines_that_an_earlier_one_changed_is_refused(
    old: str, first: tuple[str, str], second: str, tmp_path: Path
) -> None:
    text = refusal(tmp_path, old.encode(), pair(*first) + pair(second, "y\n"))
    assert "pair 2 of 2: nothing was changed: an earlier pair changes lines of its search" in text


def test_an_earlier_pair_does_not_keep_a_later_one_from_a_loose_fit(tmp_path: Path) -> None:
    pairs = pair("a\n", "A\n") + pair("b\n", "B\n")
    assert after(tmp_path, b"a\n  b  \n", pairs) == b"A\n  B\n"


def test_a_pair_without_an_end_is_told_and_the_others_are_applied(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"a\nb\n")
    result = edit(tmp_path, pair("a\n", "A\n") + "<<<<<<< SEARCH\nb\n=======\nB\n")
    assert (tmp_path / "f").read_bytes() == b"A\nb\n"
    assert result.text.endswith("\nnote: not applied, for want of its end: 1 of 2")


@pytest.mark.parametrize(
    ("pairs", "says"),
    [
        ("", "there is no pair in edits"),
        ("a\n", "there is no pair in edits"),
        ("<<<<<<< SEARCH\na\n", "the pair has no end in edits"),
    ],
)
def test_edits_without_a_pair_are_answered_with_the_form(
    pairs: str, says: str, tmp_path: Path
) -> None:
    text = refusal(tmp_path, b"a\n", pairs)
    assert text.startswith(says)
    assert pairs_in(text) == ([("lines of the file", "lines instead of them")], 0)


# -- what is kept -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "pairs", "new"),
    [
        # the end of a line, and that of the file
        (b"a\r\nb\r\n", pair("a\n", "x\ny\n"), b"x\r\ny\r\nb\r\n"),
        (b"a\r\nb\n", pair("a\n", "x\ny\n"), b"x\r\ny\r\nb\n"),
        (b"a\r\nb\n", pair("b\n", "x\ny\n"), b"a\r\nx\ny\n"),
        (b"a\r\nb\nc\n", pair("a\nb\n", "x\ny\nz\n"), b"x\r\ny\nz\nc\n"),
        (b"a\nb\r\nc\n", pair("a\nb\nc\n", "a\nx\nb\nc\n"), b"a\nx\nb\r\nc\n"),
        (b"a\r\nb\n", pair("a\nb\n", "x\na\nb\n"), b"x\r\na\r\nb\n"),
        (b"a\r\nb", pair("b\n", "x\ny\n"), b"a\r\nx\r\ny"),
        (b"a\r\nb", pair("b\n", ""), b"a"),
        (b"a\nb", pair("a\nb\n", ""), b""),
        (b"a\n", pair("a\n", ""), b""),
        (b"a\nb\nc\n", pair("b\n", ""), b"a\nc\n"),
        (b"a\r\nb", pair("b\n", "b\nc\n"), b"a\r\nb\r\nc"),
        (b"f(a,\r\nb)\r\n", pair("a,\nb\n", "c,\nd,\ne\n"), b"f(c,\r\nd,\r\ne)\r\n"),
        (b"f(a)", pair("a\n", "b,\nc\n"), b"f(b,\nc)"),
        (b"a\rb\nc\n", pair("c\n", "d\n"), b"a\rb\nd\n"),
        (b"a\rb", pair("b\n", "c\n"), b"a\rc"),
        # at the end
        (b"a\n", pair("", "b\nc\n"), b"a\nb\nc\n"),
        (b"a\r\n", pair("", "b\nc\n"), b"a\r\nb\r\nc\r\n"),
        (b"a\r\nb", pair("", "c\nd\n"), b"a\r\nb\r\nc\r\nd"),
        (b"a", pair("", "b\n"), b"a\nb"),
        (b"", pair("", "b\n"), b"b\n"),
        (b"list\nobsolete\n", pair("obsolete\n", "") + pair("", "appended\n"), b"list\nappended\n"),
        # bytes that are no UTF-8, a byte order mark, characters that no screen shows
        (b"\xe9\xff\na\n\x80", pair("a\n", "\u00e9\n"), b"\xe9\xff\n\xc3\xa9\n\x80"),
        (b"caf\xe9 x\n", pair("x\n", "b\n"), b"caf\xe9 b\n"),
        (b"\xef\xbb\xbfa\nb\n", pair("a\n", "c\n"), b"\xef\xbb\xbfc\nb\n"),
        (b"\xef\xbb\xbf", pair("", "c\n"), b"\xef\xbb\xbfc\n"),
        ("\u200ba\u2028b\x0c\n".encode() + b"c\n", pair("c\n", "d\n"),
         "\u200ba\u2028b\x0c\n".encode() + b"d\n"),
    ],
)  # fmt: skip
def test_all_is_kept_around_the_place(old: bytes, pairs: str, new: bytes, tmp_path: Path) -> None:
    assert after(tmp_path, old, pairs) == new


def test_links_are_followed_and_the_mode_and_the_home_are_kept(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "target").write_bytes(b"a\n")
    (tmp_path / "home" / "target").chmod(0o750)
    (tmp_path / "home" / "link").symlink_to("target")
    assert edit(tmp_path, pair("a\n", "b\n"), "~/link").status is Status.OK
    assert (tmp_path / "home" / "link").is_symlink()
    assert (tmp_path / "home" / "target").read_bytes() == b"b\n"
    assert stat.S_IMODE((tmp_path / "home" / "target").stat().st_mode) == 0o750


def test_an_empty_search_makes_a_file_that_is_missing_and_its_folders(tmp_path: Path) -> None:
    result = edit(tmp_path, pair("", "a\nb\n") + pair("b\n", "c\n"), "p/q/new")
    assert (tmp_path / "p" / "q" / "new").read_bytes() == b"a\nc\n"
    assert result.text.startswith("p/q/new: pairs applied: 2; lines added: 3; lines removed: 1;")


# -- what is told -----------------------------------------------------------------------------


def test_the_result_says_what_was_done_and_has_the_diff(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"a\n  b\nc\nd\n")
    result = edit(tmp_path, pair("a\nb\n", "a\nb\n") + pair("b\n", "x\ny\n") + pair("d\n", ""))
    assert result.status is Status.ERROR
    result = edit(tmp_path, pair("b\n", "x\ny\n") + pair("c\n", "C\n") + pair("d\n", ""))
    assert result.text == (
        "f: pairs applied: 3; lines added: 3; lines removed: 3; size now: 12\n"
        "note: pair 1 of 3 fitted with another indentation, and so was its replacement put in"
    )
    assert [(file.path, file.added, file.removed, file.diff) for file in result.files] == [
        ("f", 3, 3, "@@ -1,4 +1,4 @@\n a\n-  b\n-c\n-d\n+  x\n+  y\n+C\n")
    ]


def test_lines_count_that_change_and_not_those_around_them(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"a\nb\nc\nd(e)\n")
    [file] = edit(tmp_path, pair("a\nb\nc\n", "a\nx\ny\nc\n") + pair("e\n", "")).files
    assert (file.added, file.removed) == (3, 2)


def test_an_edit_that_changes_nothing_says_so_and_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"a \n")
    before = (tmp_path / "f").stat()
    kept: list[Change] = []
    result = edit(tmp_path, pair("a\n", "a\n"), keep=kept.append)
    assert result.text.startswith("f: nothing changed: the replacement is what was there\nnote: ")
    assert (result.status, result.files, kept) == (Status.OK, (), [])
    assert (tmp_path / "f").stat() == before


def test_what_hides_in_the_edits_is_dropped_and_told(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"a\n")
    result = edit(tmp_path, pair("a\n", "b\u202e\n"))
    assert result.text.startswith("removed 1 character: U+202E x1\n")
    assert (tmp_path / "f").read_bytes() == b"b\n"


# -- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("none", "there is no file none; nothing was changed. To make it, leave the search empty"),
        ("none/a", "there is no file none/a"),
        ("", "give the path of a file"),
        ("p/", "names a folder"),
        ("d", "is a folder"),
        ("fifo", "is a device, pipe or socket"),
        ("/dev/null", "is a device, pipe or socket"),
        ("loop", "cannot edit loop: Too many levels of symbolic links; nothing was changed"),
        ("f/b", "cannot edit f/b: Not a directory; nothing was changed"),
        ("utf16le", "utf16le is UTF-16; edit_file takes UTF-8"),
        ("utf16be", "utf16be is UTF-16; edit_file takes UTF-8"),
        ("nul", "nul is binary, or UTF-16: it holds NUL bytes; edit_file takes UTF-8"),
        ("big", "big has 67108865 bytes, and edit_file takes up to 67108864; nothing was"),
    ],
)
def test_a_refusal_says_what_is_right(path: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"a\n")
    (tmp_path / "d").mkdir()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "utf16le").write_bytes("\ufeffa\n".encode("utf-16-le"))
    (tmp_path / "utf16be").write_bytes("\ufeffa\n".encode("utf-16-be"))
    (tmp_path / "nul").write_bytes("a\n".encode("utf-16-le"))
    with (tmp_path / "big").open("wb") as file:
        file.truncate(64 * MIB + 1)
    before = sorted((each.name, each.lstat().st_mtime_ns) for each in tmp_path.iterdir())
    result = edit(tmp_path, pair("a\n", "b\n"), path)
    assert result.status is Status.ERROR
    assert says in result.text
    assert sorted((each.name, each.lstat().st_mtime_ns) for each in tmp_path.iterdir()) == before


def test_a_file_that_may_not_be_read_or_written_is_not_edited() -> None:
    with open_folder() as folder:
        for name, mode in (("read_only", 0o444), ("closed", 0o222)):
            (folder / name).write_bytes(b"a\n")
            (folder / name).chmod(mode)
        with ordinary_user():
            texts = [
                edit(folder, pair("a\n", "b\n"), name).text for name in ("read_only", "closed")
            ]
        assert "read_only is read-only for this user (-r--r--r--)" in texts[0]
        assert texts[1] == "cannot edit closed: Permission denied; nothing was changed"
        assert (folder / "read_only").read_bytes() == (folder / "closed").read_bytes() == b"a\n"


class CancelAtLook(Cancel):
    """Is cancelled when it is looked at for the time number `at`."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self._left = at

    def check(self) -> None:
        self._left -= 1
        if self._left == 0:
            self.set()
        super().check()


@pytest.mark.parametrize("at", range(1, 12))
def test_each_part_of_the_work_can_be_interrupted(at: int, tmp_path: Path) -> None:
    """Read two blocks, compare two of them without blanks at the end and two without any, ..."""
    (tmp_path / "f").write_bytes(b"  ab cd \n" * (3 * MIB // 18))
    tool = edit_tool(LocalExecutor(tmp_path, {}))
    # ... and let words vote: in all at least eleven looks.
    arguments = {"path": "f", "edits": pair("ab ce ef\n", "x\n")}
    with pytest.raises(Interrupted):
        list(tool.run(arguments, CancelAtLook(at)))


def test_what_another_program_wrote_after_the_plan_is_not_lost(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"a\n")
    plan = planned_edit(tmp_path / "f", "f", pair("a\n", "b\n"), Cancel())
    (tmp_path / "f").write_bytes(b"a\n!")
    with pytest.raises(ToolError, match="another program changed the file"):
        perform(plan.splice, Cancel())
    assert (tmp_path / "f").read_bytes() == b"a\n!"


# -- undo -------------------------------------------------------------------------------------


def test_a_change_keeps_the_fewest_bytes(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"one two three\nfour\n")
    kept: list[Change] = []
    edit(tmp_path, pair("one two three\n", "one 2 three\n"), keep=kept.append)
    assert [(change.offset, change.added, change.removed) for change in kept] == [(4, 1, b"two")]


_BYTES = st.binary(max_size=12) | st.lists(st.sampled_from([b"a", b"b"])).map(b"".join)


@given(_BYTES, _BYTES)
def test_the_smallest_splice_makes_the_new_text_and_shares_no_end_with_the_old(
    old: bytes, new: bytes
) -> None:
    splice = smallest(Path("f"), None, old, new)
    end = splice.offset + splice.deleted
    removed = old[splice.offset : end]
    assert old[: splice.offset] + splice.content + old[end:] == new
    if removed and splice.content:
        assert removed[0] != splice.content[0]
        assert removed[-1] != splice.content[-1]


_ENDS = st.sampled_from(["\n", "\r\n"])
_LINES_OF_FILE = st.lists(
    st.tuples(st.sampled_from(["a", " b", "  c ", "", "\u00e9"]), _ENDS), min_size=1, max_size=8
)


@given(
    of_file=_LINES_OF_FILE,
    place=st.tuples(st.integers(0, 7), st.integers(1, 4)),
    new=st.lists(st.sampled_from(["a", " x", "y ", "", "\u20ac"]), max_size=4),
    has_end=st.booleans(),
    mark=st.sampled_from([b"", b"\xef\xbb\xbf"]),
)
@settings(max_examples=60, deadline=None)  # each syncs to the disk
def test_an_edit_of_whole_lines_is_that_of_a_list_of_lines_and_is_put_back_by_an_undo(
    of_file: list[tuple[str, str]],
    place: tuple[int, int],
    new: list[str],
    has_end: bool,
    mark: bytes,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    texts = [text for text, _ in of_file]
    first, end = place[0], min(place[0] + place[1], len(texts))
    search = texts[first:end]
    places = [at for at in range(len(texts)) if texts[at : at + len(search)] == search]
    assume(search and "\n".join(search) and places == [first] and new != [""])
    whole = "".join(text + end_of_line for text, end_of_line in of_file)
    old = mark + (whole if has_end else whole[: -len(of_file[-1][1])]).encode()
    assume(has_end or texts[-1])
    folder = tmp_path_factory.mktemp("edit")
    (folder / "f").write_bytes(old)
    (folder / "f").chmod(0o640)
    log = UndoLog(folder / "undo")
    log.begin(1)
    ended = ["".join(f"{line}\n" for line in some) for some in (search, new)]
    result = edit(folder, pair(ended[0], ended[1], 12), keep=log.keep)
    now = (folder / "f").read_bytes()

    expected = [*texts[:first], *new, *texts[end:]]
    text = "\n".join(expected) + ("\n" if has_end and expected else "")
    assert result.status is Status.OK, result.text
    assert now.replace(b"\r\n", b"\n") == mark + text.encode()
    assert now.startswith(mark + "".join(map("".join, of_file[:first])).encode()[:-2])
    report = put_back(log.last(1), Cancel())
    assert not report.refused
    assert (folder / "f").read_bytes() == old
    assert stat.S_IMODE((folder / "f").stat().st_mode) == 0o640


# -- large files ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("search", "found"),
    [("  row 149999 of\n  row 150000 of\n", True), ("  row 149999 off\n  row 150000 off\n", False)],
)
def test_a_large_file_is_searched_in_bounded_memory(
    search: str, found: bool, tmp_path: Path
) -> None:
    rows = b"".join(b"    row %d of\n" % number for number in range(200_000))
    (tmp_path / "f").write_bytes(rows)
    tracemalloc.start()
    try:
        result = edit(tmp_path, pair(search, "x\n"))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (result.status is Status.OK) == found
    assert found or "The closest place is at line 150000 (" in result.text
    # A list of its lines would have fifteen times its size.
    assert peak < 8 * len(rows)


@pytest.mark.parametrize(("places", "found"), [(1000, True), (1001, False)])
def test_lines_that_are_alike_but_for_their_blanks_are_compared_in_a_thousand_places(
    places: int, found: bool, tmp_path: Path
) -> None:
    (tmp_path / "f").write_bytes(b"a\n  b\n\n" * (places - 1) + b" a\n b\n")
    assert (edit(tmp_path, pair("a\nb\n", "x\n")).status is Status.OK) == found


@given(st.text("ab\n", max_size=40), st.data())
def test_the_start_of_a_line_is_found_in_any_text(text: str, data: st.DataObject) -> None:
    content = text.encode() * 3000
    starts = [0, *(at + 1 for at, byte in enumerate(content) if byte == 10)]
    asked = sorted(data.draw(st.lists(st.integers(0, len(starts) - 1), max_size=4)))
    found = Starts(content)
    assert [found.of(line) for line in asked] == [starts[line] for line in asked]


def test_the_examples_in_docstrings_hold() -> None:
    assert doctest.testmod(edits) == (0, 1)
    assert doctest.testmod(lines) == (0, 2)
