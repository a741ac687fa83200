"""The log of what turns changed in files: what it keeps, what damage does to it, and its bound."""

import json
import os
import stat
import tempfile
import tracemalloc
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from processes import files_of_at_most
from users import open_folder, ordinary_user

from bantam.agent.undo import put_back
from bantam.core.cancel import Cancel
from bantam.core.changes import MOST_KEPT_BYTES, Change
from bantam.sessions.records import Turn
from bantam.sessions.undo import UndoLog
from bantam.tools.executors.local import LocalExecutor
from bantam.tools.files import write_tool

MIB = 1 << 20
NOT_KEPT = "what turn {} wrote was not kept, so it cannot be put back; nothing was changed"


def change_of(path: str, removed: bytes | None = b"old") -> Change:
    return Change(path, "1" * 64, "2" * 64, 0o644, 3, 4, removed, ("/p/q", "/p"))


def paths_of(turn: Turn) -> list[str]:
    return [change.path for change in turn.changes]


def line_of(number: int, turn: int, what: str) -> bytes:
    """Return a line as the log would write it; `what`: its other members, as JSON."""
    body = f'"number": {number}, "turn": {turn}, {what}}}'.encode()
    return b'{"sum": "%08x", %s\n' % (crc32(body), body)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "id.undo"


def filled(path: Path, turns: int, per_turn: int = 2) -> UndoLog:
    """Return the log of turns 1, 2 ..., which wrote /1-0, /1-1 ... /2-0, /2-1 ..."""
    log = UndoLog(path)
    for turn in range(1, turns + 1):
        log.begin(turn)
        for number in range(per_turn):
            log.keep(change_of(f"/{turn}-{number}"))
    return log


# -- what is kept -----------------------------------------------------------------------------


def test_what_is_kept_is_read_again(path: Path) -> None:
    changes = (
        change_of("/p/q/a", b"\x00\xff\n"),
        change_of(os.fsdecode(b"/caf\xe9\xf0\x9f\x98\x80"), b""),
        change_of("/big", None),
        Change("/new", "", "3" * 64, None, 0, 4, b""),
    )
    log = UndoLog(path)
    log.begin(7)
    log.ran("make " + "x" * 300)
    for change in changes:
        log.keep(change)
    assert UndoLog(path).last(7) == Turn(7, changes, ("make " + "x" * 195 + "...",))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_each_line_is_json(path: Path) -> None:
    log = filled(path, 2)
    log.drop(log.last(2))
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert [(line["number"], line["turn"]) for line in lines] == [(1, 1), (2, 1), (3, 1), (4, 2)]
    assert lines[1]["removed"] == b64encode(b"old").decode()


def test_turns_without_writes_and_commands_leave_no_file(path: Path) -> None:
    log = UndoLog(path)
    for turn in range(1, 4):
        log.begin(turn)
    log.drop(log.last(3))
    assert log.last(3) == Turn()
    assert not path.exists()


def test_turns_before_the_first_write_wrote_nothing(path: Path) -> None:
    log = UndoLog(path)
    for number in range(1, 10):
        log.begin(number)
    log.keep(change_of("/a"))
    turn = log.last(9)
    assert (turn.number, paths_of(turn), turn.has_older) == (9, ["/a"], False)
    log.drop(turn)
    assert log.last(9) == Turn()


def test_turns_are_undone_from_the_newest_to_the_oldest(path: Path) -> None:
    log = filled(path, 3, per_turn=1)
    log.begin(4)
    seen = []
    while (last := UndoLog(path).last(4)).number:
        seen.append((last.number, paths_of(last), last.has_older, last.damage))
        log.drop(last)
    assert seen == [
        (4, [], True, ""),
        (3, ["/3-0"], True, ""),
        (2, ["/2-0"], True, ""),
        (1, ["/1-0"], False, ""),
    ]
    assert len(path.read_bytes().splitlines()) == 1


def test_undone_turns_leave_one_mark_however_often_one_writes_and_undoes(path: Path) -> None:
    log = filled(path, 3, per_turn=1)
    for turn in range(4, 30):
        log.begin(turn)
        log.keep(change_of("/a"))
        log.drop(log.last(turn))
    assert paths_of(log.last(29)) == ["/3-0"]
    assert len(path.read_bytes().splitlines()) == 3 * 2 + 1
    log.begin(30)
    log.keep(change_of("/b"))
    log.drop(log.last(30), log.last(30).changes)
    for name in "/b", "/3-0", "/2-0", "/1-0":
        assert paths_of(log.last(30)) == [name]
        log.drop(log.last(30))
    assert log.last(30) == Turn()


def test_what_remains_of_a_turn_is_undone_before_older_ones(path: Path) -> None:
    log = filled(path, 3)
    log.drop(log.last(3))
    log.drop(log.last(3), log.last(3).changes[1:])
    assert (paths_of(log.last(3)), log.last(3).damage) == (["/2-1"], "")
    log.begin(4)
    log.drop(log.last(4))
    log.drop(log.last(4))
    assert paths_of(log.last(4)) == ["/1-0", "/1-1"]


# -- what could not be kept -------------------------------------------------------------------


def test_a_turn_of_which_nothing_was_kept_is_told_and_no_older_one_is_taken_for_it(
    path: Path, tmp_path: Path
) -> None:
    log = filled(path, 2)
    turn = UndoLog(path).last(4)  # where 3 and 4 could not write
    assert turn == Turn(4, damage=NOT_KEPT.format(4), has_older=True)
    report = put_back(turn, Cancel())
    assert report.lines(tmp_path) == [NOT_KEPT.format(4)]
    log.drop(turn)
    assert log.last(4).damage == NOT_KEPT.format(3)
    log.drop(log.last(4))
    assert paths_of(log.last(4)) == ["/2-0", "/2-1"]


class Unwritable:
    """While it lasts, the folder of the log takes nothing: a full or read-only home."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __enter__(self) -> None:
        self.folder.rename(self.folder.with_name("away"))
        self.folder.touch()

    def __exit__(self, *_: object) -> None:
        self.folder.unlink()
        self.folder.with_name("away").rename(self.folder)


def test_what_could_not_be_written_is_told_once_something_can(path: Path) -> None:
    log = filled(path, 2)
    with Unwritable(path.parent):
        with pytest.raises(NotADirectoryError):
            log.begin(3)
        for _ in range(2):
            with pytest.raises(NotADirectoryError):
                log.keep(change_of("/a"))
    log.keep(change_of("/b"))
    lost = frozenset({"/a"})
    assert log.last(3) == Turn(3, (change_of("/b"),), lost=lost, has_older=True)
    assert path.read_bytes().count(b'"/a"') == 1


def test_a_turn_that_could_not_begin_is_made_up_by_the_next(path: Path) -> None:
    log = filled(path, 1)
    with Unwritable(path.parent), pytest.raises(NotADirectoryError):
        log.begin(2)
    log.begin(3)
    assert log.last(3) == Turn(3, has_older=True)
    log.drop(log.last(3))
    assert log.last(3) == Turn(2, has_older=True)


def test_the_first_change_that_could_not_be_kept_is_told_by_the_next_turn(path: Path) -> None:
    log = UndoLog(path)
    path.parent.mkdir()
    log.begin(1)
    with Unwritable(path.parent), pytest.raises(NotADirectoryError):
        log.keep(change_of("/a"))
    log.begin(2)
    log.drop(log.last(2))
    assert log.last(2) == Turn(1, lost=frozenset({"/a"}))


def test_a_turn_begins_even_where_that_cannot_be_written_down() -> None:
    with open_folder() as folder:
        path = folder / "id.undo"
        log = UndoLog(path)
        with ordinary_user():
            log.begin(1)
            log.keep(change_of("/a"))
            path.unlink()
            path.mkdir()
            with pytest.raises(OSError, match=r"directory|regular"):
                log.begin(2)
            path.rmdir()
            log.keep(change_of("/b"))
        assert log.last(2) == Turn(2, (change_of("/b"),))


def test_where_one_record_fills_the_room_all_before_it_goes(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    log = UndoLog(path, most_bytes=300)
    log.begin(1)
    log.keep(change_of("/a"))
    log.keep(change_of("/b"))
    assert log.last(1) == Turn(1, (change_of("/b"),), lost=frozenset({"/a"}))


def test_a_change_too_large_for_the_disk_leaves_its_mark_where_that_has_room(path: Path) -> None:
    """A turn that keeps the rest must not say that it put back all."""
    log = UndoLog(path, most_bytes=4000)
    log.begin(1)
    log.keep(change_of("/a"))
    limit = path.stat().st_size + 500
    with files_of_at_most(limit), pytest.raises(OSError, match="too large"):
        log.keep(change_of("/b", bytes(1400)))
    assert UndoLog(path).last(1) == Turn(1, (change_of("/a"),), lost=frozenset({"/b"}))


# -- other files ------------------------------------------------------------------------------


def test_turns_that_the_session_has_lost_are_undone_first_and_then_forgotten(path: Path) -> None:
    filled(path, 3)
    assert paths_of(UndoLog(path).last(2)) == ["/3-0", "/3-1"]
    log = UndoLog(path)
    log.begin(3)
    assert paths_of(log.last(3)) == []
    log.drop(log.last(3))
    assert (paths_of(log.last(3)), log.last(3).damage) == (["/2-0", "/2-1"], "")


def test_turns_stay_forgotten_where_the_next_cannot_begin(path: Path) -> None:
    filled(path, 3)
    log = UndoLog(path)
    with files_of_at_most(0), pytest.raises(OSError, match="too large"):
        log.begin(1)
    log.keep(change_of("/a"))
    assert log.last(1) == Turn(1, (change_of("/a"),))


def test_the_turns_of_another_session_are_forgotten(path: Path) -> None:
    filled(path, 3)
    log = UndoLog(path)
    log.begin(1)
    log.keep(change_of("/a"))
    assert log.last(1) == Turn(1, (change_of("/a"),))


def test_a_file_goes_on_under_another_name(path: Path) -> None:
    log = filled(path, 2)
    other = path.with_name("other.undo")
    path.rename(other)
    assert paths_of(UndoLog(other).last(2)) == ["/2-0", "/2-1"]
    log.begin(3)
    assert not path.exists()
    log.keep(change_of("/a"))
    assert log.last(3) == Turn(3, (change_of("/a"),))


def test_a_file_far_beyond_the_bound_is_refused_unread(path: Path) -> None:
    path.parent.mkdir()
    with path.open("wb") as file:
        file.truncate(2 << 30)
    log = UndoLog(path)
    for attempt in (
        lambda: log.last(1),
        lambda: log.begin(1),
        lambda: log.keep(change_of("/a")),
        lambda: log.drop(Turn(1)),
    ):
        with pytest.raises(OSError, match="too large"):
            attempt()


def test_a_long_line_without_end_is_a_torn_one(path: Path) -> None:
    path.parent.mkdir()
    with path.open("wb") as file:
        file.truncate(MIB)
    log = UndoLog(path)
    assert log.last(1) == Turn()
    log.begin(1)
    log.keep(change_of("/a"))
    assert log.last(1) == Turn(1, (change_of("/a"),))


# -- damage -----------------------------------------------------------------------------------


def test_a_line_that_a_crash_cut_off_is_no_damage(path: Path) -> None:
    log = filled(path, 1)
    whole = path.read_bytes()
    start = whole.rindex(b"\n", 0, -1) + 1
    for end in (*range(start, len(whole), 16), len(whole) - 2, len(whole) - 1):
        path.write_bytes(whole[:end])
        turn = UndoLog(path).last(1)
        assert turn.damage == ""
        assert paths_of(turn) == ["/1-0", "/1-1"][: 1 if end < len(whole) - 1 else 2]
        log = UndoLog(path)
        log.begin(2)
        log.drop(log.last(2))
        assert log.last(2).damage == ("" if end < len(whole) - 1 else damage_of(path, 1))


def damage_of(path: Path, turn: int) -> str:
    return f"not all that turn {turn} did is known: {path} is damaged"


def test_a_last_line_whose_end_is_damaged_is_read(path: Path) -> None:
    filled(path, 1)
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    assert paths_of(UndoLog(path).last(1)) == ["/1-0", "/1-1"]
    log = UndoLog(path)
    log.begin(2)
    log.drop(log.last(2))
    assert log.last(2).damage == damage_of(path, 1)


def flipped(data: bytes, at: int, bit: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]


@pytest.mark.parametrize("number", range(9))
@pytest.mark.parametrize("how", ["lost", "unreadable", "doubled"])
def test_damage_is_told_for_the_turn_that_it_befell(how: str, number: int, path: Path) -> None:
    """Lines: begin, write, write of the turns 1, 2, 3."""
    filled(path, 3)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[number : number + 1] = {
        "lost": [],
        "unreadable": [b"x" + lines[number]],
        "doubled": [lines[number]] * 2,
    }[how]
    path.write_bytes(b"".join(lines))
    log = UndoLog(path)
    told = {}
    while (turn := log.last(3)).number:
        told[turn.number] = turn
        assert all(p.startswith(f"/{turn.number}-") for p in paths_of(turn))
        log.drop(turn)
    befallen = {n for n, turn in told.items() if turn.damage}
    assert list(told) == [3, 2, 1]
    assert befallen <= {number // 3, number // 3 + 1}
    # Nothing tells that there was more at the end; and a line too many takes nothing away.
    assert number // 3 + 1 in befallen or (how, number) == ("lost", 8) or how == "doubled"


def test_a_file_first_named_after_a_gap_is_not_put_back_to_some_state_in_between(
    path: Path,
) -> None:
    log = UndoLog(path)
    log.begin(1)
    for name in "/a", "/b", "/a", "/b":
        log.keep(change_of(name))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2] + lines[3:]))
    turn = log.last(1)
    assert (turn.lost, turn.damage) == (frozenset({"/b"}), damage_of(path, 1))
    assert paths_of(turn) == ["/a", "/a", "/b"]


def test_a_file_of_damaged_lines_alone_may_hold_any_turn(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"damaged\n")
    log = UndoLog(path)
    turn = log.last(5)
    assert (turn.number, turn.damage, turn.has_older) == (5, NOT_KEPT.format(5), True)
    log.drop(turn)
    assert log.last(5) == Turn()


def test_what_follows_damage_does_not_hide_it(path: Path) -> None:
    filled(path, 2)
    path.write_bytes(flipped(path.read_bytes(), -20, 0))
    log = UndoLog(path)
    log.begin(3)
    log.keep(change_of("/a"))
    assert log.last(3) == Turn(3, (change_of("/a"),), has_older=True)
    log.drop(log.last(3))
    assert log.last(3).damage == damage_of(path, 2)


GOOD = (
    f'"write": {{"path": "/b", "before": "{"1" * 64}", "after": "{"2" * 64}", "mode": 420, '
    '"offset": 0, "added": 3, "folders": ["/p"]}, "removed": "b2xk"'
)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"/b"', '"b"'),
        ('"/b"', '"/b\\u0000"'),
        ('"/b"', '"/\\ud800"'),
        ('"/b"', "1"),
        ("420", '"644"'),
        ("420", "-1"),
        ("420", "512"),
        ("420", f"1{'0' * 30}"),
        ("420", "true"),
        ("420", "null"),
        ("1" * 64, "1" * 63),
        ("1" * 64, ""),
        ("2" * 64, ""),
        ("2" * 64, "G" * 64),
        ('"b2xk"', '"?"'),
        ('"b2xk"', '"é"'),
        ('["/p"]', '["p"]'),
        ('["/p"]', "[[]]"),
        ('"offset": 0', f'"offset": {"9" * 5000}'),
        ('"offset": 0', '"offset": true'),
        ('"offset": 0', '"offset": -1'),
        ('"added": 3', '"added": 3.0'),
        ('"added": 3', '"added": -3'),
        ('"added": 3, ', ""),
        (GOOD, '"write": 3'),
        (GOOD, '"undone": 0'),
        (GOOD, '"undone": 2'),
        (GOOD, '"undone": "1"'),
        (GOOD, '"lost": ["/b"]'),
        (GOOD, '"shell": null'),
        (GOOD, '"begin": "/b"'),
        (GOOD, '"write": {}'),
        (GOOD, '"write": {'),
        ('"/b"', "[" * 100_000),
    ],
)
def test_a_record_that_cannot_be_one_is_damage(old: str, new: str, path: Path) -> None:
    path.parent.mkdir()
    head = line_of(1, 1, '"begin": []')
    path.write_bytes(head + line_of(2, 1, GOOD))
    assert paths_of(UndoLog(path).last(1)) == ["/b"]
    path.write_bytes(head + line_of(2, 1, GOOD.replace(old, new)))
    turn = UndoLog(path).last(1)
    if '"undone"' in new:
        assert turn == Turn()
    else:
        assert (paths_of(turn), turn.damage) == ([], damage_of(path, 1))


def test_a_kind_is_what_its_line_says_first(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(line_of(1, 1, '"begin": []') + line_of(2, 1, '"other": 1'))
    assert UndoLog(path).last(1).damage == damage_of(path, 1)


PIECES = st.sampled_from(
    [
        line_of(1, 1, '"begin": []'),
        line_of(2, 1, GOOD),
        line_of(3, 2, '"begin": [[], "/a"]'),
        line_of(4, 2, '"shell": "ls"'),
        line_of(9, 9, '"undone": 3'),
        line_of(10, 9, GOOD),
        b"\n",
        b"{",
    ]
)


@given(st.lists(PIECES | st.binary(max_size=20), max_size=8))
@settings(max_examples=60, deadline=None)
def test_any_bytes_can_be_read_and_written_on(pieces: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "id.undo"
        path.write_bytes(b"".join(pieces))
        log = UndoLog(path)
        put_back(log.last(4), Cancel())
        log.begin(12)
        log.keep(change_of("/b"))
        assert log.last(12).changes == (change_of("/b"),)
        assert log.last(12).damage == ""
        for _ in range(12):
            log.drop(log.last(12), log.last(12).changes[:1])
            log.drop(log.last(12))
        assert log.last(12) == Turn()


Damage = Callable[[bytes], bytes]


@st.composite
def damages(draw: st.DrawFn) -> Damage:
    """Return a flip of one bit, or the loss of some lines."""
    share = st.floats(0, 1, exclude_max=True)
    if draw(st.booleans()):
        where, bit = draw(share), draw(st.integers(0, 7))
        return lambda data: flipped(data, int(where * len(data)), bit)
    shares = draw(st.lists(share, min_size=1, max_size=3))

    def without(data: bytes) -> bytes:
        lines = data.splitlines(keepends=True)
        gone = {int(share * (len(lines) - 1)) for share in shares}  # but the last one
        return b"".join(line for number, line in enumerate(lines) if number not in gone)

    return without


WRITES = st.lists(st.lists(st.sampled_from(["a", "b", "c"]), max_size=3), min_size=2, max_size=4)


@given(WRITES, damages())
@settings(max_examples=60, deadline=None)
def test_damage_moves_nothing_into_another_turn_and_is_never_silent(
    turns: list[list[str]], damage: Damage
) -> None:
    with tempfile.TemporaryDirectory() as parent:
        folder, path = Path(os.path.realpath(parent)) / "project", Path(parent) / "id.undo"
        folder.mkdir()
        log = UndoLog(path)
        tool = write_tool(LocalExecutor(folder, {}), log.keep)
        states = [contents(folder)]
        for number, names in enumerate([["a", "b"], *turns], start=1):
            log.begin(number)
            for name in names:
                list(tool.run({"path": name, "content": f"{number}", **APPEND}, Cancel()))
            states.append(contents(folder))
        path.write_bytes(damage(path.read_bytes()))
        last = len(turns) + 1
        turn = UndoLog(path).last(last)
        report = put_back(turn, Cancel())
        written = set(turns[-1])
        done = {Path(p).name for p in (*report.restored, *report.removed, *report.unchanged)}
        assert turn.number == last
        assert done <= written
        for name in ("a", "b", "c"):
            state = states[-2] if name in done else states[-1]
            assert contents(folder).get(name) == state.get(name)
        assert done == written or report.damage


APPEND = {"offset": 0, "del_bytes": 0}


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


# -- the bound --------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("abc"), st.integers(0, 900)), max_size=60))
@settings(max_examples=50, deadline=None)
def test_the_file_stays_under_its_bound_and_the_newest_stays_in_it(
    writes: list[tuple[bool, str, int]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "id.undo"
        log, number, turn = UndoLog(path, most_bytes=4000), 1, list[Change]()
        log.begin(1)
        for is_new, name, size in writes:
            if is_new:
                number += 1
                log.begin(number)
                turn = []
                log.ran("make")
            turn.append(change_of(f"/{name}", bytes(size)))
            log.keep(turn[-1])
            assert path.stat().st_size <= 4000
            last = log.last(number)
            assert last.changes == tuple(turn[len(turn) - len(last.changes) :])
            assert last.changes
            assert last.damage == ""
            dropped = turn[: len(turn) - len(last.changes)]
            assert last.lost == {change.path for change in dropped}
        while (last := log.last(number)).number:
            assert last.damage == ""
            log.drop(last)


def test_a_file_that_was_not_kept_stays_so_when_the_mark_of_that_is_dropped(path: Path) -> None:
    path.parent.mkdir()
    log = UndoLog(path, most_bytes=4000)
    log.begin(1)
    with Unwritable(path.parent), pytest.raises(NotADirectoryError):
        log.keep(change_of("/a"))
    for _ in range(8):
        log.ran("make")
        log.keep(change_of("/b", bytes(900)))
    assert log.last(1).lost == {"/a", "/b"}
    assert b'"lost"' not in path.read_bytes()


def test_a_change_that_is_larger_than_the_log_is_kept_without_its_bytes(path: Path) -> None:
    log = UndoLog(path, most_bytes=2000)
    log.begin(1)
    log.keep(change_of("/a", bytes(2000)))
    assert log.last(1).changes == (change_of("/a", None),)


def test_the_log_holds_64_mib_and_its_oldest_turn_goes_first(path: Path) -> None:
    log = UndoLog(path)
    for number, name in enumerate(("/a", "/b", "/c", "/d"), start=1):
        log.begin(number)
        log.keep(change_of(name, bytes(MOST_KEPT_BYTES)))
    assert path.stat().st_size <= 64 * MIB
    kept = []
    while log.last(4).number:
        kept.append(log.last(4).changes[0].path)
        log.drop(log.last(4))
    assert kept == ["/d", "/c"]


def test_a_write_that_deletes_much_is_kept_in_three_times_its_memory(tmp_path: Path) -> None:
    big = tmp_path / "big"
    with big.open("wb") as file:
        file.truncate(MOST_KEPT_BYTES)
    log = UndoLog(tmp_path / "id.undo")
    log.begin(1)
    tool = write_tool(LocalExecutor(tmp_path, {}), log.keep)
    tracemalloc.start()
    try:
        list(tool.run({"path": "big", "content": "", "offset": 0, "del_bytes": 1 << 40}, Cancel()))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3 * MOST_KEPT_BYTES + MIB
    assert log.last(1).changes[0].removed == bytes(MOST_KEPT_BYTES)


def test_a_turn_that_the_session_lost_is_forgotten_even_on_a_full_disk(path: Path) -> None:
    """The next one has its number: what that wrote must not be taken for it."""
    lost = UndoLog(path)
    for turn, name in enumerate(("/a", "/b"), start=1):
        lost.begin(turn)
        lost.keep(change_of(name))
    size = path.stat().st_size
    log = UndoLog(path)
    with files_of_at_most(size // 2 + 10), suppress(OSError):
        log.begin(2)
    with files_of_at_most(size // 2 + 10), pytest.raises(OSError, match="large"):
        log.last(2)
    assert UndoLog(path).last(2) == Turn(2, damage=NOT_KEPT.format(2), has_older=True)
    assert log.last(2) == Turn(2, has_older=True)
    log.drop(log.last(2))
    assert log.last(2) == Turn(1, (change_of("/a"),))
