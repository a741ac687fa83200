"""shell_exec: the public cases in a program of their own, and what a result looks like."""

import fcntl
import json
import os
import re
import signal
import stat
import subprocess
import sys
import termios
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from processes import eventually, files_of_at_most, killed, peak_mib, running, zombie_children

from bantam.core.cancel import Cancel
from bantam.core.errors import Interrupted, ToolError
from bantam.core.events import Status
from bantam.core.messages import ToolCall
from bantam.tools.executors.local import LocalExecutor
from bantam.tools.shell import Excerpt, private_folder, shell_tool
from bantam.tools.tool import Result, Tool, Toolbox

CASES = [
    # Its own number of seconds for each run: who sleeps that long is of this run.
    json.loads(line.replace(".417", f".417{os.getpid()}"))
    for line in (Path(__file__).parent / "cases" / "shell.jsonl").read_text("utf-8").splitlines()
]
BUSY = 4  # how many times slower than alone a command may be on a machine that does other work
MIB = 1 << 20
LIMIT = 50_000
NOTE = re.compile(r"\[(\d+) characters left out; (.*)\]")


def tool_in(
    folder: Path, *, timeout: float = 60, limit: int = LIMIT, spill: Path | None = None
) -> Tool:
    return shell_tool(
        LocalExecutor(folder, os.environ),
        timeout_s=timeout,
        output_limit=limit,
        spill_folder=lambda: spill or folder,
    )


def shown(run: Generator[str, None, Result]) -> tuple[list[str], Result]:
    pieces = []
    while True:
        try:
            pieces.append(next(run))
        except StopIteration as stop:
            result: Result = stop.value
            return pieces, result


def result_of(tool: Tool, command: str, cancel: Cancel | None = None) -> Result:
    return shown(tool.run({"command": command}, cancel or Cancel()))[1]


# -- the public cases -------------------------------------------------------------------------


def play(case: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Run the commands of `case` as an agent does that has its terminal, if any, as stdin."""
    cancel = Cancel()
    modes: Any = None
    if case["pty"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        modes = termios.tcgetattr(0)
        signal.signal(signal.SIGINT, lambda *_: cancel.set())
    toolbox = Toolbox([tool_in(folder, timeout=case["timeout"])])
    results: list[tuple[str, int | None]] = []
    started = time.monotonic()
    for command in case["cmds"]:
        call = toolbox.check(ToolCall("1", "shell_exec", json.dumps({"command": command})))
        try:
            _, result = shown(toolbox.run(call, cancel))
            results.append((result.text, result.exit_code))
        except Interrupted as interrupt:
            results.append((str(interrupt), None))
    return {
        "results": results,
        "wall": time.monotonic() - started,
        "zombies": len(zombie_children()),
        "rss_mb": peak_mib(),
        "tty_unchanged": not case["pty"] or modes == termios.tcgetattr(0),
    }


@contextmanager
def playing(case: dict[str, Any], folder: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Start `play` in its own process and session; yield it and its terminal's other end."""
    keyboard, terminal = os.openpty()
    player = subprocess.Popen(
        [sys.executable, __file__, json.dumps(case), folder],
        stdin=terminal if case["pty"] else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    os.close(terminal)
    try:
        with player:
            yield player, keyboard
    finally:
        os.close(keyboard)


def played(case: dict[str, Any], folder: Path) -> dict[str, Any]:
    with playing(case, folder) as (player, keyboard):
        if case["interrupt_after"]:
            # The player's own command line has it too.
            assert eventually(lambda: {*running(case["cmds"][0])} - {player.pid})
            os.write(keyboard, b"\x03")
        report, _ = player.communicate(timeout=100)
    outcome: dict[str, Any] = json.loads(report)
    return outcome


def matches(code: int | None, expected: object) -> bool:
    return code != 0 if expected == "nonzero" else code == expected


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_the_public_cases_hold(case: dict[str, Any], tmp_path: Path) -> None:
    expect = case["expect"]
    outcome = played(case, tmp_path)
    texts = [text for text, _ in outcome["results"]]
    codes = [code for _, code in outcome["results"]]
    joined = "\n".join(texts)
    assert expect.get("min_wall", 0) <= outcome["wall"] <= expect["max_wall"] * BUSY
    for code, expected in zip(codes, expect.get("exits", []), strict=False):
        assert matches(code, expected)
    if "exit" in expect:
        assert matches(codes[-1], expect["exit"])
    for text in expect.get("has", []):
        assert text in joined
    for text in expect.get("lacks", []):
        assert text not in joined
    assert len(joined.encode()) <= expect.get("max_result_bytes", 2 * MIB)
    assert outcome["rss_mb"] <= expect.get("max_rss_mb", 400)
    assert outcome["tty_unchanged"]
    assert outcome["zombies"] == 0
    if "no_survivor" in expect:
        assert not running(expect["no_survivor"])
    for background in re.findall(r"sleep [\d.]+", " ".join(case["cmds"])):
        killed(background)


# -- the result -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "text", "code"),
    [
        ("echo hi", "hi\n\n\nexit: 0", 0),
        ("printf hi", "hi\n\nexit: 0", 0),
        ("true", "\n\nexit: 0", 0),
        ("echo no >&2; exit 3", "no\n\n\nexit: 3", 3),
        ("kill -9 $$", "\n\nexit: 137", 137),
    ],
)
def test_the_result_is_the_output_and_the_exit_status_last(
    tmp_path: Path, command: str, text: str, code: int
) -> None:
    assert result_of(tool_in(tmp_path), command) == Result(text, Status.OK, exit_code=code)


@pytest.mark.parametrize(
    ("output", "text"), [("echo hi", "hi\n"), ("printf hi", "hi\n"), ("true", "")]
)
def test_a_time_out_is_named_after_the_output(tmp_path: Path, output: str, text: str) -> None:
    result = result_of(tool_in(tmp_path, timeout=0.5), f"{output}; sleep 60")
    text += "[timed out after 0.5 s; killed]\n\nexit: 124"
    assert result == Result(text, Status.ERROR, exit_code=124)


@pytest.mark.parametrize("command", ["", " \n\t", "a\0b"])
def test_a_command_that_is_none_is_a_tool_error(tmp_path: Path, command: str) -> None:
    with pytest.raises(ToolError, match=r"the command (is empty|holds a NUL)"):
        result_of(tool_in(tmp_path), command)


@pytest.mark.parametrize(
    ("command", "limit"),
    [
        ("seq 8000", LIMIT),
        ("seq 8000", 100),
        ("printf abc; printf defghijkl", 10),
        ("printf '123456\\n78901'", 10),
        ("printf abc", 10),
        ("true", 10),
        ("printf abcdef", 1),
    ],
)
def test_what_is_shown_as_it_comes_is_in_the_end_the_output_of_the_result(
    tmp_path: Path, command: str, limit: int
) -> None:
    tool = tool_in(tmp_path, limit=limit)
    pieces, result = shown(tool.run({"command": command}, Cancel()))
    assert "".join(pieces) == result.text.removesuffix("\n\nexit: 0")
    assert all(pieces)


def test_no_secret_gets_into_the_file_that_holds_the_whole(tmp_path: Path) -> None:
    key = "sk-0123456789"
    executor = LocalExecutor(tmp_path, {**os.environ, "KEY": key}, [key])
    tool = shell_tool(executor, timeout_s=60, output_limit=20, spill_folder=lambda: tmp_path)
    command = "for i in $(seq 100); do printf %s $KEY; done"
    pieces, result = shown(tool.run({"command": command}, Cancel()))
    (file,) = tmp_path.iterdir()
    assert file.read_text() == "[key]" * 100
    # The place of the cut shows no part of a key.
    assert result.text.startswith("[key][key]")
    assert "sk" not in "".join(pieces) + result.text


def test_an_interrupted_command_closes_its_file(tmp_path: Path) -> None:
    cancel, before = Cancel(), len(list(Path("/proc/self/fd").iterdir()))
    run = tool_in(tmp_path, limit=10).run(
        {"command": "echo 0123456789 0123456789; sleep 60"}, cancel
    )
    assert next(run)
    cancel.set()
    with pytest.raises(Interrupted):
        next(run)
    assert eventually(lambda: len(list(Path("/proc/self/fd").iterdir())) == before)


def test_description_and_schema_are_short(tmp_path: Path) -> None:
    tool = tool_in(tmp_path, timeout=120)
    assert len(tool.description.split()) <= 60
    assert "120 s" in tool.description
    assert tool.spec["function"]["parameters"]["required"] == ["command"]


# -- long output ------------------------------------------------------------------------------


def test_the_middle_of_long_output_goes_to_a_private_file(tmp_path: Path) -> None:
    result = result_of(tool_in(tmp_path, limit=100), "seq 1000")
    whole = "".join(f"{number}\n" for number in range(1, 1001))
    output = result.text.removesuffix("\n\nexit: 0")
    note = NOTE.search(output)
    assert note
    head, tail = output[: note.start()], output[note.end() + 1 :]
    assert head == whole[:60]
    assert tail == whole[-40:]
    assert int(note[1]) == len(whole) - 100
    file = Path(note[2].removeprefix("the whole is in "))
    assert file.read_text() == whole
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@given(pieces=st.lists(st.text("ab\né\U0001f600", max_size=9)), limit=st.integers(0, 30))
def test_an_excerpt_does_not_depend_on_how_the_text_was_cut(
    pieces: Sequence[str], limit: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("spill")
    whole = "".join(pieces)
    excerpt = Excerpt(limit, lambda: folder)
    heads = "".join(excerpt.add(piece) for piece in pieces)
    at_once = Excerpt(limit, lambda: folder)
    at_once.add(whole)
    text = excerpt.text()
    assert heads == whole[: int(limit * 0.6)]
    assert heads + excerpt.rest() == text
    assert NOTE.sub("", text) == NOTE.sub("", at_once.text())
    files = list(folder.iterdir())
    assert len(files) == (2 if len(whole) > limit else 0)
    assert all(file.read_bytes() == whole.encode() for file in files)
    if len(whole) <= limit:
        assert text == whole
        return
    head, note, tail = text.partition(f"[{len(whole) - limit} characters left out; the whole is ")
    assert note
    assert head.removesuffix("\n") == heads.removesuffix("\n")
    assert tail.partition("]\n")[2] == whole[len(whole) - (limit - len(heads)) :]


def test_at_most_64_mib_are_kept_and_no_half_character(tmp_path: Path) -> None:
    excerpt = Excerpt(100, lambda: tmp_path)
    excerpt.add("x" + "é" * (33 * MIB))
    excerpt.add("the end")
    text = excerpt.text()
    assert "characters left out; the first 64 MiB are in " in text
    assert text.endswith("éthe end")
    (file,) = tmp_path.iterdir()
    assert file.stat().st_size == 64 * MIB - 1
    assert file.read_text("utf-8").count("é") == 32 * MIB - 1


@pytest.mark.parametrize("length", [5_000, 1_000_000])
def test_a_full_disk_costs_the_file_and_not_the_result(tmp_path: Path, length: int) -> None:
    excerpt = Excerpt(100, lambda: tmp_path)
    with files_of_at_most(1_000):
        excerpt.add("x" * length)
        excerpt.add("the end")
        text = excerpt.text()
    assert f"[{length - 93} characters left out; the whole could not be kept: File too " in text
    assert text.endswith("xthe end")
    assert not list(tmp_path.iterdir())


def test_a_missing_folder_costs_the_file_and_not_the_result(tmp_path: Path) -> None:
    excerpt = Excerpt(100, lambda: tmp_path / "none")
    excerpt.add("x" * 200)
    assert "[100 characters left out; the whole could not be kept: No such file" in excerpt.text()


def test_a_folder_is_asked_for_only_when_needed_and_each_time_as_it_may_be_swapped(
    tmp_path: Path,
) -> None:
    asked: list[Path] = []

    def folder() -> Path:
        asked.append(tmp_path)
        return tmp_path

    executor = LocalExecutor(tmp_path, os.environ)
    tool = shell_tool(executor, timeout_s=60, output_limit=100, spill_folder=folder)
    result_of(tool, "echo short")
    assert not asked
    result_of(tool, "seq 1000")
    result_of(tool, "seq 1000")
    assert len(asked) == 2


def test_without_one_a_folder_is_made_once(tmp_path: Path) -> None:
    tool = shell_tool(LocalExecutor(tmp_path, os.environ), timeout_s=60, output_limit=100)
    texts = [result_of(tool, "seq 1000").text for _ in range(2)]
    files = [re.search(r"(/\S+)\]", text) for text in texts]
    one, other = (Path(found[1]) for found in files if found)
    assert one.parent == other.parent
    assert one != other


def test_the_private_folder_goes_when_the_program_ends() -> None:
    code = (
        "from bantam.tools.shell import private_folder as made\n"
        "folder = made(); (folder / 'f').touch(); print(folder, oct(folder.stat().st_mode & 0o777))"
    )
    command = [sys.executable, "-c", code]
    report = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    folder, mode = report.split()
    assert mode == "0o700"
    assert not Path(folder).exists()


def test_the_private_folder_is_a_new_one() -> None:
    folder = cache(private_folder)
    assert stat.S_IMODE(folder().stat().st_mode) == 0o700
    assert not list(folder().iterdir())
    assert folder() != private_folder()


def test_a_gibibyte_of_output_needs_less_than_64_mib(tmp_path: Path) -> None:
    def peak(command: str) -> float:
        case = {"cmds": [command], "timeout": 100, "pty": False, "interrupt_after": None}
        outcome = played(case, tmp_path)
        assert outcome["results"][0][1] == 0
        peak_mb: float = outcome["rss_mb"]
        return peak_mb

    assert peak("head -c 1073741824 /dev/zero") - peak("true") < 64


if __name__ == "__main__":
    sys.stdout.write(json.dumps(play(json.loads(sys.argv[1]), Path(sys.argv[2]))))
