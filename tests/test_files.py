"""write_file on real files: what it changes, what it refuses, and what a failure leaves behind."""

import hashlib
import json
import os
import re
import resource
import socket
import stat
import threading
import tracemalloc
from collections.abc import Callable, Generator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from users import NOBODY, open_folder, ordinary_user

from bantam.core.cancel import Cancel
from bantam.core.changes import MOST_KEPT_BYTES, Change
from bantam.core.errors import Interrupted, ToolError
from bantam.core.events import FileChange, Status
from bantam.core.messages import ToolCall
from bantam.tools.executors.local import LocalExecutor
from bantam.tools.files import planned, write_tool
from bantam.tools.splice import Keep, perform
from bantam.tools.tool import Result, Tool, Toolbox

CASES = [
    json.loads(line)
    for line in (Path(__file__).parent / "cases" / "write.jsonl").read_text("utf-8").splitlines()
]
MIB = 1 << 20


class CancelAtLook(Cancel):
    """Is cancelled when it is looked at for the time number `at`; calls `seen` at every look."""

    def __init__(self, at: int, seen: Callable[[], object]) -> None:
        super().__init__()
        self._left, self._seen = at, seen

    def check(self) -> None:
        self._seen()
        self._left -= 1
        if self._left == 0:
            self.set()
        super().check()


def tool_in(folder: Path, keep: Keep | None = None) -> Tool:
    return write_tool(LocalExecutor(folder, {"HOME": str(folder / "home")}), keep)


def returned(run: Generator[str, None, Result]) -> Result:
    while True:
        try:
            next(run)
        except StopIteration as end:
            result: Result = end.value
            return result


def called(folder: Path, raw_arguments: str) -> Result:
    toolbox = Toolbox([tool_in(folder)])
    try:
        call = toolbox.check(ToolCall("1", "write_file", raw_arguments))
    except ToolError as error:
        return Result(str(error), Status.ERROR)
    return returned(toolbox.run(call, Cancel()))


def write(folder: Path, path: str, content: str, **numbers: int) -> Result:
    return called(folder, json.dumps({"path": path, "content": content, **numbers}))


def write_past_the_toolbox(
    folder: Path,
    path: str,
    content: str,
    cancel: Cancel,
    keep: Keep | None = None,
    **numbers: int,
) -> Result:
    arguments = {"path": path, "content": content, "offset": 0, "del_bytes": 0, **numbers}
    return returned(tool_in(folder, keep).run(arguments, cancel))


def tree(folder: Path) -> dict[str, object]:
    """All that is in `folder`: path -> mode, and the bytes of a file or the target of a link."""

    def shown(path: Path) -> object:
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            return path.readlink()
        return mode, path.read_bytes() if stat.S_ISREG(mode) else b""

    return {str(path): shown(path) for path in sorted(folder.rglob("*"))}


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# -- the public cases -------------------------------------------------------------------------


def set_up(folder: Path, entry: dict[str, str]) -> None:
    match entry:
        case {"file": name, "hex": content}:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(bytes.fromhex(content))
            (folder / name).chmod(int(entry.get("mode", "0644"), 8))
        case {"link": name, "to": target}:
            (folder / name).symlink_to(target)
        case {"dir": name}:
            (folder / name).mkdir(parents=True)
        case _:
            pytest.fail(f"unknown setup: {entry}")


def outcome_differs(folder: Path, result: Result, expected: dict[str, Any]) -> list[str]:
    wrong = []
    if expected["error"] != (result.status is Status.ERROR):
        wrong.append(f"status {result.status}: {result.text}")
    for name, file in expected.get("files", {}).items():
        path = folder / name
        if not path.is_file() or path.read_bytes().hex() != file["hex"]:
            wrong.append(f"content of {name}")
        elif "mode" in file and mode_of(path) != int(file["mode"], 8):
            wrong.append(f"mode of {name}")
    links, absent = expected.get("links", []), expected.get("absent", [])
    wrong += [f"{name} is no link" for name in links if not (folder / name).is_symlink()]
    wrong += [f"{name} exists" for name in absent if (folder / name).exists()]
    return wrong


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_a_public_case_ends_as_expected(case: dict[str, Any], tmp_path: Path) -> None:
    for entry in case["setup"]:
        set_up(tmp_path, entry)
    result = called(tmp_path, case.get("args_raw") or json.dumps(case["args"]))
    outcomes = case["expect"].get("any_of", [case["expect"]])
    differences = [outcome_differs(tmp_path, result, expected) for expected in outcomes]
    assert [] in differences, case["why"]


# -- what is told -----------------------------------------------------------------------------


def test_the_result_says_what_was_written_deleted_and_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one two three")
    result = write(tmp_path, "a.txt", "2", offset=4, del_bytes=3)
    no_end = "\\ No newline at end of file\n"
    diff = f"@@ -1,1 +1,1 @@\n-one two three\n{no_end}+one 2 three\n{no_end}"
    assert result == Result(
        "a.txt: bytes written: 1; offset: 4; bytes deleted: 3; size now: 11",
        files=(FileChange("a.txt", added=1, removed=1, diff=diff),),
    )


def test_an_insertion_at_the_start_is_said_with_the_number_that_replaces_all(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.txt").write_bytes(b"old\n")
    assert write(tmp_path, "a.txt", "new\n").text.endswith(
        "\nnote: inserted before the 4 bytes that were there; "
        "to replace the whole file now, write with del_bytes=8"
    )
    write(tmp_path, "a.txt", "new\n", del_bytes=8)
    assert (tmp_path / "a.txt").read_bytes() == b"new\n"


@pytest.mark.parametrize(
    ("old", "content", "numbers"),
    [
        (None, "new", {}),
        (b"", "new", {}),
        (b"old", "", {}),
        (b"old", "new", {"offset": 3}),
        (b"old", "new", {"del_bytes": 1}),
    ],
)
def test_nothing_is_said_about_an_insertion_where_none_surprises(
    old: bytes | None, content: str, numbers: dict[str, int], tmp_path: Path
) -> None:
    if old is not None:
        (tmp_path / "a.txt").write_bytes(old)
    assert "note" not in write(tmp_path, "a.txt", content, **numbers).text


@pytest.mark.parametrize(
    ("old", "offset", "del_bytes", "inside"),
    [
        ("é", 1, 0, [1]),
        ("aé", 0, 2, [2]),
        ("€€", 1, 4, [1, 5]),
        ("😀", 1, 2, [1, 3]),
        ("é😀é", 2, 4, []),
        ("é", 2, 0, []),
    ],
)
def test_a_cut_inside_a_character_is_said(
    old: str, offset: int, del_bytes: int, inside: list[int], tmp_path: Path
) -> None:
    (tmp_path / "u.txt").write_text(old, "utf-8")
    text = write(tmp_path, "u.txt", "x", offset=offset, del_bytes=del_bytes).text
    notes = [f"note: byte {at} was inside a UTF-8 character; offsets count bytes" for at in inside]
    assert text.splitlines()[1:] == notes


def test_bytes_that_are_no_utf_8_are_cut_anywhere_without_a_note(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"caf\xe9\xe9s")
    assert "note" not in write(tmp_path, "latin", "x", offset=4).text


@pytest.mark.parametrize(
    ("old", "content", "numbers", "lines"),
    [
        (b"", "a\nb\n", {}, (2, 0)),
        (b"a\nb", "", {"del_bytes": 9}, (0, 2)),
        (b"a\nb\nc\n", "B", {"offset": 2, "del_bytes": 1}, (1, 1)),
        (b"a\nb\nc\n", "x\ny", {"offset": 2, "del_bytes": 4}, (2, 2)),
        (b"a\n" * MIB, "", {"del_bytes": 2 * MIB}, (0, MIB)),
    ],
)
def test_a_change_counts_the_lines_of_the_written_and_of_the_deleted_bytes(
    old: bytes, content: str, numbers: dict[str, int], lines: tuple[int, int], tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_bytes(old)
    result = write(tmp_path, "a.txt", content, **numbers)
    assert [(file.path, file.added, file.removed) for file in result.files] == [("a.txt", *lines)]


def test_a_byte_order_mark_is_written_at_the_start_of_a_file_alone(tmp_path: Path) -> None:
    assert "removed" not in write(tmp_path, "a.xml", "\ufeff<a/>").text
    assert (tmp_path / "a.xml").read_bytes() == b"\xef\xbb\xbf<a/>"
    result = write(tmp_path, "a.xml", "\ufeff<b/>", offset=7)
    assert result.text.splitlines()[1:] == ["removed 1 character: U+FEFF x1"]
    assert (tmp_path / "a.xml").read_bytes() == b"\xef\xbb\xbf<a/><b/>"


def test_the_model_is_told_in_few_words_what_it_must_give() -> None:
    function = tool_in(Path()).spec["function"]
    assert len(re.findall(r"\w+", json.dumps(function))) <= 80
    assert function["parameters"]["required"] == ["path", "content"]


# -- what is refused --------------------------------------------------------------------------

LONG = "n" * 300


@pytest.mark.parametrize(
    ("path", "numbers", "says"),
    [
        ("a.txt", {"offset": -1}, "offset=-1 is negative"),
        ("a.txt", {"del_bytes": -1}, "del_bytes=-1 is negative"),
        (
            "a.txt",
            {"offset": 4},
            "has 3 bytes; nothing was changed. To append, write with offset=3",
        ),
        ("p/q.txt", {"offset": 1}, "has 0 bytes"),
        ("", {}, "give the path of a file"),
        ("p/", {}, "names a folder"),
        ("p/.", {}, "names a folder"),
        ("d", {}, "is a folder"),
        (".", {}, "is a folder"),
        ("to_d", {}, "is a folder"),
        ("fifo", {}, "is a device, pipe or socket"),
        ("to_fifo", {}, "is a device, pipe or socket"),
        ("socket", {}, "is a device, pipe or socket"),
        ("/dev/null", {}, "is a device, pipe or socket"),
        ("loop", {}, "Too many levels of symbolic links"),
        ("a.txt/b", {}, "cannot write a.txt/b: Not a directory; nothing was changed"),
        ("a.txt/b/c", {}, "Not a directory"),
        (LONG, {}, "File name too long"),
        (f"p/q/{LONG}", {}, "File name too long"),
        (f"p/{LONG}/q", {}, "File name too long"),
        ("/proc/nope/x", {}, "No such file or directory"),
        ("to_nowhere", {}, "No such file or directory"),
    ],
)
def test_a_refusal_says_what_is_right_and_changes_nothing(
    path: str, numbers: dict[str, int], says: str, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_bytes(b"abc")
    (tmp_path / "d").mkdir()
    os.mkfifo(tmp_path / "fifo")
    links = {"to_d": "d", "to_fifo": "fifo", "loop": "loop", "to_nowhere": "/proc/nope/x"}
    for name, target in links.items():
        (tmp_path / name).symlink_to(target)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        before = tree(tmp_path)
        result = write(tmp_path, path, "x", **numbers)
        assert (result.status, tree(tmp_path)) == (Status.ERROR, before)
    assert says in result.text


def test_a_pipe_that_no_path_names_is_refused_as_a_pipe(tmp_path: Path) -> None:
    ends = os.pipe()
    try:
        (tmp_path / "link").symlink_to(f"/proc/self/fd/{ends[1]}")
        for path in (f"/proc/self/fd/{ends[1]}", "link"):
            assert "is a device, pipe or socket" in write(tmp_path, path, "x").text
    finally:
        for end in ends:
            os.close(end)


@pytest.mark.parametrize("path", ["n" * 100_000, "n/" * 50_000, "d/" + "./" * 2000, "~\0" * 50_000])
def test_a_long_path_is_shown_in_part(path: str, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    result = write(tmp_path, path, "x")
    assert result.status is Status.ERROR
    assert len(result.text) < 600


def test_a_path_with_nul_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="NUL"):
        write_past_the_toolbox(tmp_path, "a\0b", "x", Cancel())
    assert tree(tmp_path) == {}


def test_a_file_protected_from_writing_is_not_replaced() -> None:
    with open_folder() as folder:
        (folder / "keep.txt").write_bytes(b"keep")
        (folder / "keep.txt").chmod(0o444)
        before = tree(folder)
        with ordinary_user():
            result = write(folder, "keep.txt", "x", del_bytes=4)
        assert "keep.txt is read-only for this user (-r--r--r--)" in result.text
        assert tree(folder) == before


def test_a_folder_that_may_not_be_written_is_an_error_and_stays_as_it_is() -> None:
    with open_folder() as folder:
        (folder / "a.txt").write_bytes(b"abc")
        (folder / "a.txt").chmod(0o666)
        folder.chmod(0o555)
        before = tree(folder)
        with ordinary_user():
            results = [write(folder, name, "x").text for name in ("a.txt", "b.txt", "p/c.txt")]
        assert [": Permission denied; nothing was changed" in text for text in results] == [
            True
        ] * 3
        assert tree(folder) == before


def test_a_folder_that_may_be_written_but_not_read_is_no_error() -> None:
    with open_folder() as folder:
        folder.chmod(0o333)
        with ordinary_user():
            result = write(folder, "a.txt", "x")
        folder.chmod(0o777)
        assert (result.status, (folder / "a.txt").read_bytes()) == (Status.OK, b"x")


# -- what is kept -----------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o755, 0o600, 0o666, 0o4755])
def test_the_mode_is_kept(mode: int, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    (tmp_path / "a").chmod(mode)
    write(tmp_path, "a", "b")
    assert mode_of(tmp_path / "a") == mode


def test_set_id_bits_stay_with_their_owner_and_never_go_to_another() -> None:
    with open_folder() as folder:
        (folder / "mine").touch()
        mine = os.geteuid()
        with ordinary_user():
            (folder / "his").touch()
            his = os.geteuid()
            (folder / "his").chmod(0o6755)
        (folder / "mine").chmod(0o6777)
        with ordinary_user():
            assert write(folder, "his", "x").status is Status.OK
            assert write(folder, "mine", "x").status is Status.OK
        assert mode_of(folder / "his") == 0o6755
        assert mode_of(folder / "mine") == (0o6777 if mine == his else 0o777)


def test_owner_and_group_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"a")
    if os.geteuid() == 0:
        os.chown(file, NOBODY, NOBODY)
    before = file.stat()
    write(tmp_path, "a", "b")
    after = file.stat()
    assert (after.st_uid, after.st_gid) == (before.st_uid, before.st_gid)


@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077])
def test_new_files_and_folders_follow_the_umask(umask: int, tmp_path: Path) -> None:
    previous = os.umask(umask)
    try:
        write(tmp_path, "p/q/a.txt", "x")
    finally:
        os.umask(previous)
    assert mode_of(tmp_path / "p" / "q" / "a.txt") == 0o666 & ~umask
    assert mode_of(tmp_path / "p") == mode_of(tmp_path / "p" / "q") == 0o777 & ~umask


def test_a_link_is_followed_to_a_target_that_may_be_missing(tmp_path: Path) -> None:
    (tmp_path / "first").symlink_to("second")
    (tmp_path / "second").symlink_to("p/q/target")
    write(tmp_path, "first", "x")
    assert (tmp_path / "first").is_symlink()
    assert (tmp_path / "second").is_symlink()
    assert (tmp_path / "p" / "q" / "target").read_bytes() == b"x"


def test_another_name_of_the_file_keeps_the_old_bytes(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    (tmp_path / "b").hardlink_to(tmp_path / "a")
    write(tmp_path, "a", "new", del_bytes=3)
    assert ((tmp_path / "a").read_bytes(), (tmp_path / "b").read_bytes()) == (b"new", b"old")


def test_a_path_over_a_missing_folder_and_back_is_that_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    assert write(tmp_path, "missing/../a", "new", del_bytes=3).status is Status.OK
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a", b"new")]


def test_a_file_whose_name_is_no_utf_8_is_edited(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9.txt")
    write_past_the_toolbox(tmp_path, name, "é", Cancel())
    assert [(os.fsencode(file.name), file.read_bytes()) for file in tmp_path.iterdir()] == [
        (b"caf\xe9.txt", b"\xc3\xa9")
    ]


# -- old or new, never half -------------------------------------------------------------------


def test_a_reader_sees_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    size = 256 * 1024
    file = tmp_path / "a"
    file.write_bytes(b"0" * size)
    done = threading.Event()
    seen: set[tuple[int, int]] = set()

    def read() -> None:
        for _ in range(100_000):
            content = file.read_bytes()
            seen.add((len(content), len(set(content))))
            if done.is_set():
                return

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for turn in range(1, 41):
            write(tmp_path, "a", str(turn % 10) * size, del_bytes=size)
    finally:
        done.set()
        reader.join()
    assert seen == {(size, 1)}


@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(at: int, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a\n" * (3 * MIB // 2))
    before = tree(tmp_path)
    cancel = CancelAtLook(at, lambda: None)
    with pytest.raises(Interrupted):
        write_past_the_toolbox(tmp_path, "a", "x", cancel, offset=MIB, del_bytes=MIB)
    assert tree(tmp_path) == before


def test_an_interrupted_write_leaves_no_new_folder_but_one_that_others_use(tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        write_past_the_toolbox(tmp_path, "p/q/a", "x", CancelAtLook(1, lambda: None))
    assert tree(tmp_path) == {}
    other = tmp_path / "p" / "other"
    with pytest.raises(Interrupted):
        write_past_the_toolbox(tmp_path, "p/q/a", "x", CancelAtLook(1, other.touch))
    assert [path.name for path in tmp_path.rglob("*")] == ["p", "other"]


def test_the_unfinished_copy_of_a_file_is_private(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"secret")
    (tmp_path / "a").chmod(0o666)
    modes: list[set[int]] = []

    def look() -> None:
        modes.append({mode_of(path) for path in tmp_path.glob(".bantam-*.tmp")})

    write_past_the_toolbox(tmp_path, "a", "x", CancelAtLook(-1, look), offset=6)
    # Looked at while the old bytes are copied, and when the copy is whole.
    assert modes == [{0o600}, {0o666}]


def rewritten_in_the_past(file: Path) -> None:
    file.write_bytes(b"ABCDEF")
    os.utime(file, (1, 1))


def replaced(file: Path) -> None:
    file.with_name("other").write_bytes(b"ABCDEF")
    file.with_name("other").replace(file)


def moved_behind_a_link(file: Path) -> None:
    file.rename(file.with_name("other"))
    file.symlink_to("other")


CHANGES: dict[str, Callable[[Path], object]] = {
    "shorter": lambda file: file.write_bytes(b"ab"),
    "longer": lambda file: file.write_bytes(b"abcdefg"),
    "of the same size": lambda file: file.write_bytes(b"ABCDEF"),
    "of the same size and time": rewritten_in_the_past,
    "another file": replaced,
    "a link": moved_behind_a_link,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_another_program_wrote_after_the_plan_is_not_lost(
    change: Callable[[Path], object], tmp_path: Path
) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"abcdef")
    os.utime(file, (1, 1))
    splice = planned(file, {"path": "a", "content": "x", "offset": 4, "del_bytes": 0})
    change(file)
    before = tree(tmp_path)
    with pytest.raises(ToolError, match=r"another program changed the file meanwhile.* Read it"):
        perform(splice, Cancel())
    assert tree(tmp_path) == before


@pytest.mark.parametrize("at", [1, 2, 3])
def test_what_another_program_writes_during_the_write_is_not_lost(at: int, tmp_path: Path) -> None:
    file, looks = tmp_path / "a", iter(range(1, 9))
    file.write_bytes(b"abcdef")

    def change() -> None:
        if next(looks) == at:
            file.write_bytes(b"ABCDEF!")

    with pytest.raises(ToolError, match="another program changed the file"):
        write_past_the_toolbox(tmp_path, "a", "x", CancelAtLook(-1, change), offset=3, del_bytes=1)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a", b"ABCDEF!")]


def test_what_another_program_removes_during_the_write_stays_away(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"abcdef")
    removed = CancelAtLook(-1, lambda: file.unlink(missing_ok=True))
    with pytest.raises(ToolError, match="another program changed the file"):
        write_past_the_toolbox(tmp_path, "a", "x", removed, offset=3)
    assert tree(tmp_path) == {}


@pytest.mark.parametrize("made", [Path.touch, lambda path: path.symlink_to("nowhere")])
def test_what_another_program_makes_in_the_place_of_a_new_file_is_not_lost(
    made: Callable[[Path], object], tmp_path: Path
) -> None:
    made_at_last = CancelAtLook(-1, lambda: made(tmp_path / "a"))
    with pytest.raises(ToolError, match="another program changed the file"):
        write_past_the_toolbox(tmp_path, "a", "x", made_at_last)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_large_file_is_edited_in_little_memory(tmp_path: Path) -> None:
    with (tmp_path / "big").open("wb") as file:
        file.truncate(64 * MIB)
    tracemalloc.start()
    try:
        write(tmp_path, "big", "x", offset=20 * MIB, del_bytes=20 * MIB)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * MIB
    assert (tmp_path / "big").stat().st_size == 44 * MIB + 1


def write_above_the_limit(folder: Path) -> list[str]:
    """For a process of its own: what is told when no file may be larger than 4096 bytes."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        paths = ("old.txt", "new.txt", "p/q/new.txt")
        return [write(folder, path, "x" * 5000).text for path in paths]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_write_that_the_system_breaks_off_leaves_everything_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_bytes(b"old")
    before = tree(tmp_path)
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        texts = pool.submit(write_above_the_limit, tmp_path).result(timeout=60)
    assert texts == [
        f"cannot write {path}: File too large; nothing was changed"
        for path in ("old.txt", "new.txt", "p/q/new.txt")
    ]
    assert tree(tmp_path) == before


# -- what puts a change back ------------------------------------------------------------------


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize(
    ("old", "content", "numbers", "removed"),
    [
        (b"", "new", {}, b""),
        (b"old", "new", {}, b""),
        (b"old", "", {"del_bytes": 9}, b"old"),
        (b"\xff\x00old", "\u00e9", {"offset": 1, "del_bytes": 2}, b"\x00o"),
        (b"a" * 3 * MIB, "b", {"offset": MIB // 2, "del_bytes": 2 * MIB}, b"a" * 2 * MIB),
        (bytes(MOST_KEPT_BYTES), "", {"del_bytes": MOST_KEPT_BYTES}, bytes(MOST_KEPT_BYTES)),
        (bytes(MOST_KEPT_BYTES + 1), "", {"del_bytes": MOST_KEPT_BYTES + 1}, None),
    ],
    ids=["empty", "insert", "empty it", "binary", "blocks", "as much as is kept", "too much"],
)
def test_a_change_is_kept_with_all_that_puts_it_back(
    old: bytes, content: str, numbers: dict[str, int], removed: bytes | None, tmp_path: Path
) -> None:
    (tmp_path / "target").write_bytes(old)
    (tmp_path / "target").chmod(0o4750)
    (tmp_path / "link").symlink_to("target")
    kept: list[Change] = []
    write_past_the_toolbox(tmp_path, "link", content, Cancel(), kept.append, **numbers)
    assert kept == [
        Change(
            path=str(tmp_path / "target"),
            before=sha256(old),
            after=sha256((tmp_path / "target").read_bytes()),
            mode=0o750,
            offset=numbers.get("offset", 0),
            added=len(content.encode()),
            removed=removed,
        )
    ]


def test_a_new_file_is_kept_with_the_folders_that_were_made_for_it(tmp_path: Path) -> None:
    kept: list[Change] = []
    (tmp_path / "there").mkdir()
    for name in ("there/p/q/a", "there/p/b"):
        write_past_the_toolbox(tmp_path, name, "x", Cancel(), kept.append)
    folder = tmp_path / "there"
    made = (str(folder / "p" / "q"), str(folder / "p"))
    assert kept == [
        Change(str(folder / "p" / "q" / "a"), "", sha256(b"x"), None, 0, 1, b"", made),
        Change(str(folder / "p" / "b"), "", sha256(b"x"), None, 0, 1, b""),
    ]


def test_a_change_is_kept_when_the_new_file_is_whole_and_the_old_one_still_there(
    tmp_path: Path,
) -> None:
    (tmp_path / "a").write_bytes(b"old")
    seen: list[list[bytes]] = []

    def keep(_: Change) -> None:
        seen.append([path.read_bytes() for path in sorted(tmp_path.iterdir())])

    write_past_the_toolbox(tmp_path, "a", "new", Cancel(), keep)
    assert seen == [[b"newold", b"old"]]


def test_what_is_done_while_a_change_is_kept_is_not_lost(tmp_path: Path) -> None:
    file, cancel = tmp_path / "a", Cancel()
    file.write_bytes(b"old")
    with pytest.raises(ToolError, match="another program changed the file"):
        write_past_the_toolbox(tmp_path, "a", "x", Cancel(), lambda _: replaced(file))
    replaced(file)
    before = tree(tmp_path)
    with pytest.raises(Interrupted):
        write_past_the_toolbox(tmp_path, "a", "x", cancel, lambda _: cancel.set())
    assert tree(tmp_path) == before


def test_nothing_is_kept_of_a_file_that_another_program_changed(tmp_path: Path) -> None:
    kept: list[Change] = []
    (tmp_path / "a").write_bytes(b"abcdef")
    splice = planned(tmp_path / "a", {"path": "a", "content": "x", "offset": 4, "del_bytes": 0})
    (tmp_path / "a").write_bytes(b"ABCDEFG")
    with pytest.raises(ToolError, match="another program changed the file"):
        perform(splice, Cancel(), kept.append)
    assert kept == []


def test_a_change_that_cannot_be_kept_leaves_no_trace_if_its_keeper_says_so(
    tmp_path: Path,
) -> None:
    def keep(_: Change) -> None:
        raise ToolError("not kept")

    with pytest.raises(ToolError, match="not kept"):
        write_past_the_toolbox(tmp_path, "p/a", "x", Cancel(), keep)
    assert tree(tmp_path) == {}
