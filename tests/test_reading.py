"""read_file on real files: the text, or what keeps it from being shown."""

import json
import os
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from users import open_folder, ordinary_user

from bantam.core.cancel import Cancel
from bantam.core.errors import Interrupted
from bantam.core.events import Status
from bantam.core.messages import ToolCall
from bantam.tools.executors.local import LocalExecutor
from bantam.tools.reading import read_tool
from bantam.tools.tool import Result, Tool, Toolbox

MIB = 1 << 20


def tool_in(folder: Path, limit: int = 50_000) -> Tool:
    return read_tool(LocalExecutor(folder, {"HOME": str(folder / "home")}), output_limit=limit)


def read(folder: Path, path: str = "f", limit: int = 50_000) -> Result:
    toolbox = Toolbox([tool_in(folder, limit)])
    call = toolbox.check(ToolCall("1", "read_file", json.dumps({"path": path})))
    running = toolbox.run(call, Cancel())
    while True:
        try:
            next(running)
        except StopIteration as end:
            result: Result = end.value
            return result


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"a\nb\n", "a\nb\n"),
        (b"a\r\nb", "a\nb"),
        ("h\u00e9 \U0001f600\n".encode(), "h\u00e9 \U0001f600\n"),
        (b"caf\xe9\n", "caf\ufffd\n"),
        (b"a\xe2\x82", "a\ufffd"),
        (b"\xef\xbb\xbfa\n", "a\n"),
        (b"\xef\xbb", "\ufffd"),
        (b"", "[f is empty]"),
        (b"\xef\xbb\xbf", "[f is empty]"),
        (b"\n", "\n"),
    ],
)
def test_a_file_is_told_as_text(content: bytes, text: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(content)
    assert read(tmp_path) == Result(text)


def test_what_hides_in_a_file_is_dropped_and_told(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a\u202eb\x1b[31mc\n")
    assert read(tmp_path).text == "removed 1 character: U+202E x1, and 1 ANSI sequence\nabc\n"


def test_the_middle_of_a_long_text_is_left_out_and_counted(tmp_path: Path) -> None:
    head, tail = "\u00e9" * 60, "\u20ac" * 40
    (tmp_path / "f").write_text(f"{head}1234567{tail}")
    assert read(tmp_path, limit=100).text == f"{head}\n[7 characters left out]\n{tail}"
    assert read(tmp_path, limit=107).text == f"{head}1234567{tail}"
    assert read(tmp_path, limit=0).text == "[107 characters left out]\n"


@settings(deadline=None)
@given(text=st.text("a\n\u00e9\u20ac\U0001f600", max_size=60), limit=st.integers(0, 40))
def test_head_and_tail_are_those_of_the_text(
    text: str, limit: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp()
    (folder / "f").write_bytes(text.encode())
    told = read(folder, limit=limit).text
    if len(text) <= limit:
        assert told == (text or "[f is empty]")
        return
    head, note, tail = told.partition(f"[{len(text) - limit} characters left out]\n")
    kept = int(limit * 0.6)
    assert note
    assert head.removesuffix("\n") == text[:kept].removesuffix("\n")
    assert tail == text[len(text) - (limit - kept) :]


def test_characters_are_whole_wherever_the_file_is_cut_into_blocks(tmp_path: Path) -> None:
    content = "x" + "\u20ac" * MIB
    (tmp_path / "f").write_text(content)
    assert read(tmp_path, limit=2 * MIB).text == content


def test_links_and_the_home_are_followed(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "target").write_text("text")
    (tmp_path / "home" / "link").symlink_to("target")
    assert read(tmp_path, "~/link").text == "text"


def test_a_file_that_has_no_size_but_a_text_is_read() -> None:
    assert read(Path("/proc/self"), "status").text.startswith("Name:\t")


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("", "the path is empty; give the path of a file"),
        ("d/", "d/ names a folder; give the path of a file"),
        ("d", "d is a folder; to list it use shell_exec"),
        ("fifo", "fifo is a device, pipe or socket; to read from it use shell_exec"),
        ("/dev/zero", "/dev/zero is a device, pipe or socket"),
        ("none", "cannot read none: No such file or directory"),
        ("f/none", "cannot read f/none: Not a directory"),
        ("loop", "cannot read loop: Too many levels of symbolic links"),
        ("n" * 5000, "cannot read nnn"),
        ("nul", "nul is no UTF-8 text: it holds NUL bytes, among its 3 bytes. To look into it"),
        ("late", f"it holds NUL bytes, among its {2 * MIB + 1} bytes"),
        ("sparse", f"it holds NUL bytes, among its {10 << 30} bytes"),
    ],
)
def test_what_cannot_be_shown_is_said(path: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a")
    (tmp_path / "d").mkdir()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "nul").write_bytes(b"a\0b")
    (tmp_path / "late").write_bytes(b"a" * 2 * MIB + b"\0")
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(10 << 30)
    result = read(tmp_path, path)
    assert result.status is Status.ERROR
    assert says in result.text
    assert len(result.text) < 600


def test_a_file_that_may_not_be_read_is_an_error() -> None:
    with open_folder() as folder:
        (folder / "f").write_bytes(b"a")
        (folder / "f").chmod(0o222)
        with ordinary_user():
            assert read(folder).text == "cannot read f: Permission denied"


def test_a_large_file_is_read_in_little_memory(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"a line\n" * (4 * MIB))
    tracemalloc.start()
    try:
        text = read(tmp_path, limit=100).text
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert f"[{7 * 4 * MIB - 100} characters left out]\n" in text
    assert peak < 6 * MIB


class CancelAtLook(Cancel):
    """Is cancelled when it is looked at for the time number `at`."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.left = at

    def check(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.set()
        super().check()


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_reading_can_be_interrupted_at_each_block(at: int, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"a" * 3 * MIB)
    with pytest.raises(Interrupted):
        list(tool_in(tmp_path).run({"path": "f"}, CancelAtLook(at)))
