"""Undo on real files: what a turn's writes changed is put back, and nothing else is touched."""

import os
import signal
import stat
import subprocess
import sys
import tempfile
import textwrap
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from users import open_folder, ordinary_user

from bantam.agent.undo import Report, put_back
from bantam.core.cancel import Cancel
from bantam.core.changes import MOST_KEPT_BYTES
from bantam.sessions.records import Turn
from bantam.sessions.undo import UndoLog
from bantam.tools.executors.local import LocalExecutor
from bantam.tools.files import write_tool

MIB = 1 << 20
ALL = 1 << 40  # more bytes than any file here has


class Looked(Cancel):
    """Calls `at_look` each time it is looked at, with the number of that look."""

    def __init__(self, at_look: Callable[[int, Cancel], object]) -> None:
        super().__init__()
        self._looks, self._at_look = 0, at_look

    def check(self) -> None:
        self._looks += 1
        self._at_look(self._looks, self)
        super().check()


class Project:
    """A folder in which a model writes files, and what is kept of that."""

    def __init__(self, parent: Path) -> None:
        self.folder = parent / "project"
        self.folder.mkdir()
        self.path_of_log = parent / "home" / "id.undo"
        self.log = UndoLog(self.path_of_log)
        self.turn = 0
        self.begin()

    def begin(self) -> None:
        self.turn += 1
        self.log.begin(self.turn)

    def last(self) -> Turn:
        return self.log.last(self.turn)

    def write(self, path: str, content: str, offset: int = 0, del_bytes: int = 0) -> None:
        tool = write_tool(LocalExecutor(self.folder, {}), self.log.keep)
        numbers = {"offset": offset, "del_bytes": del_bytes}
        list(tool.run({"path": path, "content": content, **numbers}, Cancel()))

    def undo(self, cancel: Cancel | None = None) -> Report:
        turn = self.last()
        report = put_back(turn, cancel or Cancel())
        self.log.drop(turn, report.remaining)
        return report

    def lines(self) -> list[str]:
        return self.undo().lines(self.folder)

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def tree(self) -> dict[str, object]:
        """All that is there: path -> mode, and the bytes of a file or the target of a link."""
        return {str(p.relative_to(self.folder)): shown(p) for p in self.folder.rglob("*")}


def shown(path: Path) -> tuple[int, object]:
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return mode, path.readlink()
    return mode, path.read_bytes() if stat.S_ISREG(mode) else b""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


# -- what is put back -------------------------------------------------------------------------

Writes = list[tuple[str, str, int, int]]

WRITES: dict[str, Writes] = {
    "created": [("new", "text", 0, 0)],
    "created empty": [("new", "", 0, 0)],
    "created in folders": [("p/q/new", "text", 0, 0), ("p/other", "text", 0, 0)],
    "overwritten": [("a", "new", 0, ALL)],
    "emptied": [("a", "", 0, ALL)],
    "inserted before": [("a", "new", 0, 0)],
    "inserted within": [("a", "new", 3, 0)],
    "appended": [("a", "new", 9, 0)],
    "deleted from": [("a", "", 2, 4)],
    "replaced within": [("a", "longer than that", 2, 4)],
    "between bytes that are no text": [("binary", "é", 2, 1)],
    "into an empty file": [("empty", "text", 0, 0)],
    "as it was": [("a", "old text\n", 0, ALL)],
    "to and fro": [("a", "new", 0, ALL), ("a", "old text\n", 0, ALL), ("a", "newer", 0, ALL)],
    "created, then changed": [("new", "text", 0, 0), ("new", "more", 4, 0), ("new", "", 0, 1)],
    "several times": [("a", "1", 0, 0), ("a", "2", 5, 3), ("a", "3", 1, ALL)],
    "several files": [
        ("a", "1", 0, 0),
        ("new", "1", 0, 0),
        ("binary", "2", 5, 3),
        ("a", "2", 2, 2),
    ],
    "over a link": [("link", "new", 0, ALL)],
    "over a link to nothing": [("nowhere", "new", 0, 0)],
    "a script": [("script", "#!/bin/bash", 0, ALL)],
    "a secret": [("secret", "new", 0, ALL)],
}


@pytest.mark.parametrize("writes", WRITES.values(), ids=WRITES)
def test_what_a_turn_wrote_is_put_back_to_the_byte_and_the_mode(
    writes: Writes, project: Project
) -> None:
    (project.folder / "a").write_bytes(b"old text\n")
    (project.folder / "binary").write_bytes(b"\xff\xc3\x00\xa9\r\n\x80")
    (project.folder / "empty").touch()
    (project.folder / "script").write_bytes(b"#!/bin/sh")
    (project.folder / "script").chmod(0o755)
    (project.folder / "secret").write_bytes(b"key")
    (project.folder / "secret").chmod(0o600)
    (project.folder / "link").symlink_to("script")
    (project.folder / "nowhere").symlink_to("p/target")
    before = project.tree()
    for write in writes:
        project.write(*write)
    report = project.undo()
    assert project.tree() == before
    assert (report.refused, report.remaining) == ((), ())


def test_the_report_names_each_file_once_and_then_the_commands(project: Project) -> None:
    for name in ("a", "b", "c"):
        (project.folder / name).write_bytes(b"old")
    project.write("a", "1", 0, 0)
    project.log.ran("make build")
    project.write("a", "2", 0, 0)
    project.write("p/new", "text", 0, 0)
    project.write("b", "1", 0, 0)
    project.write("c", "1", 0, 0)
    project.log.ran("cat > x <<.\ntext\n.")
    project.write("../outside", "text")
    (project.folder / "b").write_bytes(b"mine")
    (project.folder / "c").write_bytes(b"old")
    assert project.lines() == [
        "put back a",
        "removed p/new",
        f"removed {project.folder.parent / 'outside'}",
        "already as before: c",
        "not put back: b: changed since",
        "cannot be undone: make build",
        "cannot be undone: cat > x <<.\\ntext\\n.",
    ]


def test_a_file_name_of_two_lines_is_shown_on_one(project: Project) -> None:
    project.write("a\nput back b", "text")
    assert project.lines() == ["removed a\\nput back b"]


def test_paths_are_shown_from_a_working_directory_that_is_a_link(project: Project) -> None:
    project.write("a", "text")
    link = project.folder.with_name("link")
    link.symlink_to(project.folder)
    assert project.undo().lines(link) == ["removed a"]


def test_a_mode_that_was_changed_since_is_put_back(project: Project) -> None:
    (project.folder / "a").write_bytes(b"old")
    (project.folder / "a").chmod(0o640)
    before = project.tree()
    project.write("a", "new", 0, ALL)
    (project.folder / "a").chmod(0o777)
    assert project.lines() == ["put back a"]
    assert project.tree() == before


def test_rights_that_were_lent_to_everybody_are_not_given_back(project: Project) -> None:
    """Set-id bits follow the file as it is now: it may have another owner than it had then."""
    (project.folder / "a").write_bytes(b"old")
    (project.folder / "a").chmod(0o4755)
    project.write("a", "new", 0, ALL)
    (project.folder / "a").chmod(0o700)
    project.undo()
    assert stat.S_IMODE((project.folder / "a").stat().st_mode) == 0o755


def test_folders_that_were_made_go_if_nobody_else_uses_them(project: Project) -> None:
    (project.folder / "mine").mkdir()
    project.write("mine/p/q/a", "text")
    project.write("r/s/b", "text")
    (project.folder / "r" / "other").touch()
    assert project.lines() == ["removed mine/p/q/a", "removed r/s/b"]
    assert set(project.tree()) == {"mine", "r", "r/other"}


def test_a_folder_to_which_a_link_leads_by_now_is_left_alone(project: Project) -> None:
    project.write("p/q/a", "text")
    (project.folder / "p" / "q" / "a").unlink()
    behind_linked_folder(project.folder / "p" / "q")
    before = project.tree()
    assert project.lines() == ["not put back: p/q/a: changed since"]
    assert project.tree() == before


def test_a_file_whose_name_is_no_utf_8_is_put_back(project: Project) -> None:
    name = os.fsdecode(b"caf\xe9")
    (project.folder / name).write_bytes(b"old")
    before = project.tree()
    project.write(name, "new", 0, 1)
    project.undo()
    assert project.tree() == before


NAMES = st.sampled_from(["a", "b", "p/c", "p/q/d"])
CALLS = st.lists(
    st.tuples(NAMES, st.text(max_size=6), st.integers(0, 12), st.integers(0, 12)), max_size=6
)


@given(st.lists(CALLS, min_size=1, max_size=4))
@settings(max_examples=40, deadline=None)
def test_each_undo_brings_back_what_was_before_a_turn(turns: list[Writes]) -> None:
    with tempfile.TemporaryDirectory() as parent:
        project = Project(Path(parent))
        (project.folder / "a").write_bytes(b"\xffold\x00\n")
        states = []
        project.write("first", "kept from the start, so that each turn counts")
        for calls in turns:
            project.begin()
            states.append(project.tree())
            for name, content, offset, del_bytes in calls:
                file = project.folder / name
                size = file.stat().st_size if file.exists() else 0
                clean = content.encode(errors="replace").decode()
                project.write(name, clean, min(offset, size), del_bytes)
        for state in reversed(states):
            project.undo()
            assert project.tree() == state


# -- what is refused --------------------------------------------------------------------------


def into_link(file: Path) -> None:
    file.rename(file.with_name("moved"))
    file.symlink_to("moved")


def into_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def into_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def behind_linked_folder(file: Path) -> None:
    file.parent.rename(file.parent.with_name("elsewhere"))
    file.parent.symlink_to("elsewhere")


def run_shell(file: Path) -> None:
    subprocess.run(["sh", "-c", "echo more >> a"], cwd=file.parent, check=True)


CHANGES: dict[str, Callable[[Path], object]] = {
    "by a shell": run_shell,
    "by a program that keeps the size": lambda file: file.write_bytes(b"abc"),
    "deleted": Path.unlink,
    "a link": into_link,
    "a folder": into_folder,
    "a pipe": into_pipe,
    "behind a link": behind_linked_folder,
}


@pytest.mark.parametrize("created", [True, False])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_file_that_was_changed_since_is_refused_and_the_others_are_put_back(
    change: Callable[[Path], object], created: bool, project: Project
) -> None:
    file, other = project.folder / "d" / "a", project.folder / "other"
    file.parent.mkdir()
    other.write_bytes(b"old")
    if not created:
        file.write_bytes(b"old")
    project.write("other", "new", 0, ALL)
    project.write("d/a", "new", 0, ALL)
    change(file)
    before = project.tree()
    report = project.undo()
    if created and change is Path.unlink:
        assert report.unchanged == (str(file),)
    else:
        assert report.refused == ((str(file), "changed since"),)
        assert {c.path for c in project.last().changes} == {str(file)}
    assert report.restored == (str(other),)
    assert project.tree() == {**before, "other": (before["other"][0], b"old")}  # type: ignore[index]  # a tuple


def test_writes_around_a_change_of_the_shell_are_refused_together(project: Project) -> None:
    (project.folder / "a").write_bytes(b"old\n")
    project.write("a", "1\n")
    run_shell(project.folder / "a")
    project.write("a", "2\n")
    before = project.tree()
    assert project.lines() == ["not put back: a: changed since"]
    assert project.tree() == before


def test_a_refused_file_is_put_back_once_it_is_what_the_turn_left(project: Project) -> None:
    (project.folder / "a").write_bytes(b"old")
    project.write("a", "new", 0, ALL)
    (project.folder / "a").write_bytes(b"mine")
    assert project.lines() == project.lines() == ["not put back: a: changed since"]
    (project.folder / "a").write_bytes(b"new")
    assert project.lines() == ["put back a"]
    assert (project.folder / "a").read_bytes() == b"old"


def test_a_file_that_was_made_a_folders_name_counts_as_gone(project: Project) -> None:
    project.write("p/a", "text")
    (project.folder / "p" / "a").unlink()
    (project.folder / "p").rmdir()
    (project.folder / "p").touch()
    assert project.lines() == ["already as before: p/a"]
    assert set(project.tree()) == {"p"}


def test_what_the_system_forbids_is_refused_with_its_reason_and_the_others_go_on() -> None:
    with open_folder() as parent:
        project = Project(parent)
        for name in ("closed", "open"):
            (project.folder / name).mkdir()
            (project.folder / name).chmod(0o777)
            (project.folder / name / "a").write_bytes(b"old")
            (project.folder / name / "a").chmod(0o666)
            project.write(f"{name}/a", "new", 0, ALL)
        for name in ("unreadable", "readonly"):
            (project.folder / name).write_bytes(b"old")
            project.write(name, "new", 0, ALL)
        project.write("closed/new", "new")
        (project.folder / "unreadable").chmod(0o000)
        (project.folder / "readonly").chmod(0o444)
        (project.folder / "closed" / "new").chmod(0o666)
        (project.folder / "closed").chmod(0o555)
        turn = project.last()
        with ordinary_user():
            lines = put_back(turn, Cancel()).lines(project.folder)
        assert lines == [
            "put back open/a",
            "not put back: unreadable: Permission denied",
            "not put back: readonly: it is read-only now",
            "not put back: closed/a: Permission denied",
            "not put back: closed/new: Permission denied",
        ]


@pytest.mark.parametrize("damage", [{"removed": b"odd"}, {"offset": 1}, {"mode": 1 << 70}])
def test_a_file_is_put_back_to_what_it_was_or_not_at_all(
    damage: dict[str, object], project: Project
) -> None:
    (project.folder / "a").write_bytes(b"old")
    project.write("a", "new", 0, ALL)
    [change] = project.last().changes
    before = project.tree()
    report = put_back(Turn(1, (replace(change, **damage),)), Cancel())  # type: ignore[arg-type]  # as given
    if "mode" in damage:
        assert report.restored == (str(project.folder / "a"),)
    else:
        assert len(report.refused) == 1
        assert project.tree() == before


@pytest.mark.parametrize("numbers", [(-1, 3), (1 << 70, 3), (0, -3), (0, 1 << 70), (1, 3)])
def test_numbers_that_do_not_fit_to_the_file_change_nothing(
    numbers: tuple[int, int], project: Project
) -> None:
    (project.folder / "a").write_bytes(b"old")
    project.write("a", "new", 0, ALL)
    [change] = project.last().changes
    before = project.tree()
    offset, added = numbers
    report = put_back(Turn(1, (replace(change, offset=offset, added=added),)), Cancel())
    assert [path for path, _ in report.refused] == [str(project.folder / "a")]
    assert project.tree() == before


@pytest.mark.parametrize("content", ["", "new"])
def test_what_is_too_much_to_be_kept_is_refused(content: str, project: Project) -> None:
    with (project.folder / "big").open("wb") as file:
        file.truncate(MOST_KEPT_BYTES + 1)
    project.write("a", "text")
    project.write("big", content, 0, ALL)
    size = (project.folder / "big").stat().st_size
    assert project.lines() == [
        "removed a",
        "not put back: big: what was deleted from it was too much to be kept",
    ]
    assert (project.folder / "big").stat().st_size == size
    assert project.lines() == ["there is nothing to undo"]


# -- in between -------------------------------------------------------------------------------


@pytest.mark.parametrize("at", range(1, 20))
def test_an_undo_that_was_broken_off_names_what_it_did_and_is_finished_by_the_next(
    at: int, project: Project
) -> None:
    (project.folder / "a").write_bytes(b"old")
    (project.folder / "b").write_bytes(b"old")
    before = project.tree()
    for name in ("a", "p/c", "b"):
        project.write(name, "1")
        project.write(name, "2")
    written = project.tree()

    def interrupt(look: int, cancel: Cancel) -> None:
        if look == at:
            cancel.set()

    first = project.undo(Looked(interrupt))
    assert first.interrupted
    assert first.lines(project.folder)[-1] == "interrupted; undo again for the rest of this turn"
    assert not list(project.folder.rglob(".bantam-*"))
    done = {*first.restored, *first.removed}
    for name in ("a", "p/c", "b"):
        now = project.tree().get(name)
        assert (project.path(name) in done) == (now == before.get(name))
        assert now == written[name] or at > 5  # all are judged before the first is touched
    second = project.undo()
    assert (second.refused, second.interrupted) == ((), False)
    assert {*second.restored, *second.removed} == {
        project.path(n) for n in ("a", "p/c", "b")
    } - done
    assert project.tree() == before


def test_a_file_that_an_interrupted_undo_did_not_come_to_is_refused_by_the_next(
    project: Project,
) -> None:
    """Also one of which nothing was kept: that was not told yet."""
    set_content(project.folder / "a", b"old")
    project.write("a", "new", 0, ALL)
    turn = project.last()
    stopped = Cancel()
    stopped.set()
    unkept = replace(turn, changes=(replace(turn.changes[0], removed=None),))
    report = put_back(unkept, stopped)
    assert (report.refused, report.remaining) == ((), unkept.changes)


@pytest.mark.parametrize("old", [None, b"old"])
@pytest.mark.parametrize("at", range(1, 9))
@pytest.mark.parametrize("mine", [None, b"mine", b"odd"])
def test_what_another_program_does_during_an_undo_is_not_lost(
    mine: bytes | None, at: int, old: bytes | None, project: Project
) -> None:
    file = project.folder / "a"
    set_content(file, old)
    project.write("before", "text")
    project.write("before", "more")
    project.write("a", "new", 0, ALL)

    came: list[int] = []

    def interfere(look: int, _: Cancel) -> None:
        if look == at:
            set_content(file, mine)
            came.append(look)

    report = put_back(project.last(), Looked(interfere))
    assert content_of(file) == (mine if came else old)  # the last look is before the last step
    assert (str(file) in dict(report.refused)) or not came or mine == old
    assert set(project.tree()) <= {"a"}


def set_content(file: Path, content: bytes | None) -> None:
    if content is None:
        file.unlink(missing_ok=True)
    else:
        file.write_bytes(content)


def content_of(file: Path) -> bytes | None:
    return file.read_bytes() if file.exists() else None


KILLED = """
    import os, signal, sys
    from pathlib import Path
    from bantam.core.cancel import Cancel
    from bantam.sessions.undo import UndoLog
    from bantam.tools.executors.local import LocalExecutor
    from bantam.tools.files import write_tool

    log = UndoLog(Path(sys.argv[2]))
    log.begin(1)

    def keep(change):
        log.keep(change)
        os.kill(os.getpid(), signal.SIGKILL)

    tool = write_tool(LocalExecutor(Path(sys.argv[1]), {}), keep)
    list(tool.run({"path": "p/a", "content": "new", "offset": 0, "del_bytes": 9}, Cancel()))
"""


@pytest.mark.parametrize("old", [None, b"old"])
def test_a_write_that_was_killed_just_before_it_happened_is_as_before(
    old: bytes | None, project: Project
) -> None:
    if old is not None:
        (project.folder / "p").mkdir()
        (project.folder / "p" / "a").write_bytes(old)
    log = project.folder.parent / "home" / "id.undo"
    argv = [sys.executable, "-c", textwrap.dedent(KILLED), str(project.folder), str(log)]
    assert subprocess.run(argv, check=False).returncode == -signal.SIGKILL
    assert project.lines() == ["already as before: p/a"]


def test_a_big_file_is_put_back_in_little_memory(project: Project) -> None:
    big = project.folder / "big"
    with big.open("wb") as file:
        file.truncate(200 * MIB)
    tracemalloc.start()
    try:
        project.write("big", "at the start", 0, MIB)
        report = project.undo()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16 * MIB
    assert report.restored == (str(big),)
    with big.open("rb") as file:
        blocks = iter(lambda: file.read(MIB), b"")
        assert sum(block == bytes(MIB) for block in blocks) == 200
    assert big.stat().st_size == 200 * MIB


# -- turns and their log ----------------------------------------------------------------------


def test_a_turn_without_writes_is_a_turn(project: Project) -> None:
    project.write("a", "text")
    project.begin()
    assert project.lines() == ["the last turn wrote no files; undo again for the one before"]
    assert project.lines() == ["removed a"]
    assert project.lines() == ["there is nothing to undo"]


def test_a_turn_of_commands_alone_lists_them(project: Project) -> None:
    project.log.ran("rm a")
    project.begin()
    project.log.ran("rm b")
    assert project.lines() == [
        "the last turn wrote no files; undo again for the one before",
        "cannot be undone: rm b",
    ]
    assert project.lines() == ["there is nothing to undo", "cannot be undone: rm a"]


def test_what_is_damaged_is_told_and_the_rest_is_put_back(project: Project) -> None:
    for name in ("a", "b", "c"):
        project.write(name, "text")
    lines = project.path_of_log.read_bytes().splitlines(keepends=True)
    project.path_of_log.write_bytes(b"".join([*lines[:2], b"damaged\n", lines[3]]))
    assert project.lines() == [
        "removed a",
        "not put back: c: not all that was done to it is known",
        f"not all that turn 1 did is known: {project.path_of_log} is damaged",
    ]
    assert set(project.tree()) == {"b", "c"}
    assert project.lines() == ["there is nothing to undo"]


def test_a_record_that_says_less_than_its_file_has_removes_nothing(project: Project) -> None:
    project.write("a", "text")
    [change] = project.last().changes
    report = put_back(Turn(1, (replace(change, added=3),)), Cancel())
    assert report.refused == ((project.path("a"), "its record is damaged"),)
    assert set(project.tree()) == {"a"}


def test_a_file_of_which_older_changes_were_dropped_is_refused(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.log = UndoLog(tmp_path / "id.undo", most_bytes=4000)
    project.log.begin(1)
    project.write("a", "x" * 1500)
    for _ in range(5):
        project.write("a", "x", 0, 600)
    project.write("b", "text")
    before = project.tree()
    assert project.lines() == [
        "removed b",
        "not put back: a: not all that was done to it is known",
    ]
    assert project.tree() == {"a": before["a"]}
    assert project.last() == Turn()
