"""The journal of the turn in hand: what was appended is read again, and one process holds it."""

import json
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path, PosixPath
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from processes import files_of_at_most
from program import environment, start

from bantam.sessions import files
from bantam.sessions.journal import FORMAT, Journal, Lines, left_behind, locked, parsed

HEADER = b'{"format": "bantam-journal", "version": 1, "generation": 3}\n'
LINE = b'{"message": {"role": "user"}}\n'
ENTRY = {"message": {"role": "user"}}
# A process that holds the journal named by its argument until its standard input ends.
HOLDER = """
import sys
from pathlib import Path
from bantam.sessions.journal import locked
held = locked(Path(sys.argv[1]))
print("none" if held is None else "held", flush=True)
sys.stdin.read()
"""


class Contested(PosixPath):
    """A path to which something happens right before it is looked at, once."""

    meanwhile: Callable[[], object] | None = None

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        happens, self.meanwhile = self.meanwhile, None
        if happens is not None:
            happens()
        return super().stat(follow_symlinks=follow_symlinks)


def held(path: Path) -> Journal:
    journal = locked(path)
    assert journal is not None
    return journal


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208  pathlib opens more on some versions


def lines(*entries: Any) -> bytes:
    return b"".join(files.encoded(entry) + b"\n" for entry in entries)


# -- appending and reading --------------------------------------------------------------------


def test_what_was_appended_is_read_with_the_generation(tmp_path: Path) -> None:
    journal = held(tmp_path / "j")
    journal.begin(7)
    journal.append(lines({"usage": {}}, {"message": {}}))
    journal.append(lines({"start": {"id": "é\ud83d"}}))
    read = journal.read()
    assert (read.generation, read.damage) == (7, "")
    assert read.entries == [{"usage": {}}, {"message": {}}, {"start": {"id": "é\ud83d"}}]


def test_each_append_is_in_the_file_when_it_returns(tmp_path: Path) -> None:
    journal = held(tmp_path / "j")
    journal.begin(3)
    assert (tmp_path / "j").read_bytes() == b""
    for number in range(1, 4):
        journal.append(LINE)
        assert (tmp_path / "j").read_bytes() == HEADER + LINE * number


def test_a_journal_that_begins_anew_forgets_what_it_held(tmp_path: Path) -> None:
    journal = held(tmp_path / "j")
    assert journal.is_empty
    journal.begin(3)
    journal.append(LINE)
    assert not journal.is_empty
    journal.begin(4)
    assert journal.is_empty
    assert journal.content() == b""
    journal.append(lines({"start": {}}))
    assert (journal.read().generation, journal.read().entries) == (4, [{"start": {}}])


def test_a_journal_goes_on_behind_what_another_process_has_left(tmp_path: Path) -> None:
    (tmp_path / "j").write_bytes(HEADER + LINE)
    journal = held(tmp_path / "j")
    journal.append(LINE)
    assert journal.content() == HEADER + LINE * 2


def test_behind_an_append_that_failed_a_journal_can_begin_anew(tmp_path: Path) -> None:
    journal = held(tmp_path / "j")
    journal.begin(3)
    journal.append(LINE)
    with files_of_at_most(100), pytest.raises(OSError, match="File too large"):
        journal.append(LINE)
    assert parsed(journal.content()).entries == [ENTRY]
    journal.begin(4)
    journal.append(LINE)
    assert (journal.read().generation, journal.read().entries) == (4, [ENTRY])


# -- what a crash and a disk do to it ---------------------------------------------------------


@pytest.mark.parametrize("length", range(len(HEADER + LINE * 2) + 1))
def test_a_line_torn_at_any_byte_is_dropped_and_those_before_it_are_kept(length: int) -> None:
    data = (HEADER + LINE * 2)[:length]
    read = parsed(data)
    assert read.damage == ""
    assert read.generation == (3 if data.startswith(HEADER) else None)
    assert read.entries == [ENTRY] * max(0, data.count(b"\n") - 1)


@pytest.mark.parametrize(
    "end",
    [b"\0", b"\0" * 5000, b'{"mess\0\0\0\0', b"\0" * 30 + b"\n", b'{"message": \0\0\0\0}\n'],
)
def test_a_last_line_that_holds_zeros_is_dropped(end: bytes) -> None:
    read = parsed(HEADER + LINE + end)
    assert (read.generation, read.entries, read.damage) == (3, [ENTRY], "")


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"5",
        b"[]",
        b"null",
        b"\xff",
        b"\0\0\0",
        b'{"a": 1} {"b": 2}',
        b"[" * 50_000,
        b'{"a": ' * 50_000 + b"1" + b"}" * 50_000,
        b'{"a": ' + b"1" * 5000 + b"}",
    ],
    ids=range(11),
)
def test_damage_further_up_ends_what_is_read_and_is_named(line: bytes) -> None:
    read = parsed(HEADER + LINE + line + b"\n" + LINE * 2)
    assert (read.generation, read.entries) == (3, [ENTRY])
    assert read.damage == "line 3 is damaged"


@pytest.mark.parametrize(
    "header",
    [
        {},
        {"format": "other", "generation": 3},
        {"format": FORMAT},
        {"format": FORMAT, "generation": "3"},
        {"format": FORMAT, "generation": None},
        {"generation": 3},
        ENTRY,
    ],
)
def test_without_a_header_nothing_is_read(header: dict[str, Any]) -> None:
    read = parsed(lines(header, ENTRY))
    assert (read.generation, read.entries) == (None, [])
    assert read.damage == "line 1 is no header"


def test_a_header_that_is_damaged_is_told_and_an_empty_file_is_none() -> None:
    assert parsed(b"{\n" + LINE).damage == "line 1 is damaged"
    assert parsed(b"") == parsed(b"{\n") == parsed(b"torn")
    assert parsed(b"").damage == ""


@given(st.binary(max_size=200), st.booleans())
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_read_without_an_error(data: bytes, has_header: bool) -> None:
    read = parsed(HEADER + data if has_header else data)
    assert isinstance(read.damage, str)
    assert read.generation == 3 or not has_header


TEXTS = st.text(st.characters(exclude_categories=()), max_size=8).filter(
    lambda text: text == json.loads(json.dumps(text))  # JSON joins what are two halves of a pair
)
VALUES = st.recursive(
    TEXTS | st.integers() | st.none() | st.booleans() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
ENTRIES = st.dictionaries(TEXTS, VALUES, max_size=3)


@given(st.integers(0, 10**9), st.lists(st.lists(ENTRIES, min_size=1, max_size=3), max_size=5))
@settings(max_examples=60, deadline=None)
def test_any_entries_that_were_appended_are_read(
    generation: int, appended: list[list[dict[str, Any]]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        journal = held(Path(folder, "j"))
        journal.begin(generation)
        for entries in appended:
            journal.append(lines(*entries))
        journal.close(remove=False)
        read = parsed(Path(folder, "j").read_bytes())
    assert read.entries == [entry for entries in appended for entry in entries]
    assert read.generation == (generation if appended else None)
    assert read.damage == ""


# -- the lock ---------------------------------------------------------------------------------


def test_a_second_holder_gets_none_until_the_first_lets_go(tmp_path: Path) -> None:
    path = tmp_path / "j"
    first = held(path)
    assert locked(path) is None
    first.close(remove=False)
    second = held(path)
    second.close(remove=True)
    assert not path.exists()
    held(path).close(remove=True)


def test_another_process_holds_it_until_it_is_killed(tmp_path: Path) -> None:
    program = (sys.executable, "-c", HOLDER)
    how: dict[str, Any] = {"cwd": tmp_path, "env": environment(tmp_path), "program": program}
    with start("j", stdin=subprocess.PIPE, **how) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        assert locked(tmp_path / "j") is None
        process.kill()
        process.wait()
        journal = held(tmp_path / "j")
        with start("j", **how) as other:
            assert other.communicate()[0] == b"none\n"
    journal.close(remove=True)


def test_a_journal_is_read_if_nobody_holds_it_and_free_again_then(tmp_path: Path) -> None:
    path = tmp_path / "j"
    with pytest.raises(FileNotFoundError):
        left_behind(path)
    assert not path.exists()
    journal = held(path)
    journal.begin(3)
    journal.append(LINE)
    before = open_files()
    assert left_behind(path) == Lines()
    assert open_files() == before
    journal.close(remove=False)
    for _ in range(2):
        assert left_behind(path) == Lines(3, [ENTRY])
    assert path.read_bytes() == HEADER + LINE
    held(path).close(remove=True)


def test_who_gets_none_holds_no_file_open(tmp_path: Path) -> None:
    first = held(tmp_path / "j")
    before = open_files()
    assert locked(tmp_path / "j") is None
    assert open_files() == before
    first.close(remove=True)
    assert open_files() == before - 1


def test_a_removed_and_a_replaced_file_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "j"
    first = held(path)
    assert not first.is_lost
    path.unlink()
    assert first.is_lost
    second = held(path)
    assert first.is_lost
    assert not second.is_lost
    first.close(remove=True)
    assert path.exists()
    assert not second.is_lost


def test_a_file_that_is_removed_before_it_is_locked_is_made_again(tmp_path: Path) -> None:
    path = Contested(tmp_path / "j")
    path.meanwhile = path.unlink
    before = open_files()
    journal = held(path)
    assert path.meanwhile is None
    assert not journal.is_lost
    assert open_files() == before + 1
    assert locked(tmp_path / "j") is None


def test_a_folder_that_becomes_useless_meanwhile_costs_an_error_and_no_open_file(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "sessions"
    folder.mkdir()

    def swap() -> None:
        folder.rename(tmp_path / "away")
        folder.symlink_to(folder)

    path = Contested(folder / "j")
    path.meanwhile = swap
    before = open_files()
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        locked(path)
    assert open_files() == before


def test_letting_go_says_nothing_where_the_folder_has_become_a_file(tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    folder.mkdir()
    before = open_files()
    journal = held(folder / "j")
    folder.rename(tmp_path / "away")
    folder.write_text("a file")
    journal.close(remove=True)
    assert open_files() == before
    assert folder.read_text() == "a file"


# -- the file ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [None, 0o644, 0o666, 0o600])
def test_nobody_else_can_read_it(tmp_path: Path, mode: int | None) -> None:
    path = tmp_path / "j"
    if mode is not None:
        path.touch()
        path.chmod(mode)
    held(path).close(remove=False)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


NOT_REGULAR = [
    Path.mkdir,
    os.mkfifo,
    lambda path: path.symlink_to("/dev/null"),
    lambda path: path.symlink_to(path),
]


@pytest.mark.parametrize("make", NOT_REGULAR)
def test_what_is_no_regular_file_is_refused_at_once(
    tmp_path: Path, make: Callable[[Path], object]
) -> None:
    make(tmp_path / "j")
    before = open_files()
    refused = "not a regular file|Is a directory|Too many levels of symbolic links"
    for use in (locked, left_behind):
        with pytest.raises(OSError, match=refused):
            use(tmp_path / "j")
    assert open_files() == before


def test_a_link_to_another_file_is_refused_and_that_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "mine").chmod(0o644)
    (tmp_path / "j").symlink_to("mine")
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        locked(tmp_path / "j")
    assert (tmp_path / "mine").read_text() == "mine"
    assert stat.S_IMODE((tmp_path / "mine").stat().st_mode) == 0o644
