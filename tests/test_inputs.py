"""Lines without an editor: from a pipe, and from a terminal that can only print."""

import io
import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from program import environment, run, start
from typist import DRIVER, typist

from bantam.core.cancel import Cancel
from bantam.core.errors import ConfigError, Interrupted
from bantam.terminal.inputs import PlainLines

LINES = [
    (b"", []),
    (b"\n", [""]),
    (b"a", ["a"]),
    (b"a\r\n\r\nb\n", ["a", "", "b"]),
    (b"\xef\xbb\xbfa\n\xef\xbb\xbfb", ["a", "\ufeffb"]),
    (b"ok \xe9\n \x1b[2J\n", ["ok \ufffd", " \x1b[2J"]),
    (b"/help\n" + b"x" * 200_000 + b"\nend", ["/help", "x" * 200_000, "end"]),
]


@pytest.mark.parametrize("env", [{}, {"O_NONBLOCK": "1"}], ids=["", "non-blocking"])
@pytest.mark.parametrize(("raw", "lines"), LINES, ids=lambda value: repr(value)[:20])
def test_each_line_is_an_input(
    raw: bytes, lines: list[str], env: dict[str, str], tmp_path: Path
) -> None:
    settings = environment(tmp_path, **env)
    ended = run("plain", "", cwd=tmp_path, program=DRIVER, stdin=raw, env=settings)
    said = [json.loads(line) for line in ended.stdout.splitlines()]
    assert said == [*({"prompt": line} for line in lines), {"end": True}]
    assert ended.returncode == 0
    assert ended.stderr == b""


@pytest.mark.parametrize("env", [{}, {"O_NONBLOCK": "1"}], ids=["", "non-blocking"])
def test_a_pipe_that_is_silent_does_not_keep_a_signal_waiting(
    env: dict[str, str], tmp_path: Path
) -> None:
    settings = environment(tmp_path, **env)
    program = start("plain", "", cwd=tmp_path, program=DRIVER, stdin=subprocess.PIPE, env=settings)
    with program:
        assert program.stdin
        assert program.stdout
        program.stdin.write(b"one\ntw")
        program.stdin.flush()
        assert json.loads(program.stdout.readline()) == {"prompt": "one"}
        program.send_signal(signal.SIGTERM)
        assert program.wait(10) == 143


def test_nobody_answers_a_question_in_a_pipe(tmp_path: Path) -> None:
    ended = run("plain", "", cwd=tmp_path, program=DRIVER, stdin=b"ask\nyes\n")
    said = [json.loads(line) for line in ended.stdout.splitlines()]
    assert said == [{"prompt": "ask"}, {"answer": None}, {"prompt": "yes"}, {"end": True}]


def test_what_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(ConfigError, match="standard input: Is a directory"):
        PlainLines(fd).read("> ", Cancel())
    os.close(fd)


def test_a_line_without_end_is_an_error() -> None:
    fd = os.open("/dev/zero", os.O_RDONLY)
    with pytest.raises(ConfigError, match="standard input: a line is longer than 16 MiB"):
        PlainLines(fd).read("> ", Cancel())
    os.close(fd)


def test_a_line_that_was_waited_for_is_not_lost_by_a_cancel() -> None:
    reading, writing = os.pipe()
    lines = PlainLines(reading)
    cancel = Cancel()
    cancel.set()
    with pytest.raises(Interrupted):
        lines.read("> ", cancel)
    os.write(writing, b"a\nb\n")
    assert lines.read("> ", Cancel()) == "a"
    with pytest.raises(Interrupted):
        lines.read("> ", cancel)
    assert lines.read("> ", Cancel()) == "b"
    os.close(writing)
    assert lines.read("> ", Cancel()) is None
    assert lines.read("> ", Cancel()) is None
    os.close(reading)


# -- a terminal that can only print -----------------------------------------------------------

DUMB = {"TERM": "dumb"}


def test_a_dumb_terminal_shows_prompts_and_answers_questions(tmp_path: Path) -> None:
    with typist(tmp_path, "plain", env=DUMB) as one:
        one.ready()
        one.type("ask\r")
        one.shows("Go on? [y/N]")
        one.type("y\r")
        one.until(lambda: {"answer": "y"} in one.said)
        one.leave()
        assert b"\x1b" not in one.raw


def test_what_is_typed_during_a_turn_on_a_dumb_terminal_is_the_next_line(tmp_path: Path) -> None:
    with typist(tmp_path, "plain", env=DUMB) as one:
        one.ready()
        one.type("turn\r")
        one.shows('{"turn": "starts"}')
        one.type("next\r")
        (tmp_path / "go").touch()
        assert one.submitted(2) == ["turn", "next"]
        one.leave()


@pytest.mark.parametrize(
    ("keys", "number", "status"), [("\x03", 0, 130), ("abc", signal.SIGTERM, 143)]
)
def test_a_signal_ends_the_wait_on_a_dumb_terminal(
    keys: str, number: int, status: int, tmp_path: Path
) -> None:
    with typist(tmp_path, "plain", env=DUMB) as one:
        one.ready()
        one.type(keys)
        if number:
            one.child.kill(number)
        assert one.end() == status


def test_reading_plain_lines_loads_no_editor() -> None:
    code = (
        "import sys, bantam.terminal.inputs; "
        "import bantam.terminal.history; import bantam.terminal.completion; "
        "assert not {'prompt_toolkit', 'asyncio', 'rich', 'httpx'} & {*sys.modules}"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


class Answering(io.StringIO):
    """Types `n` once a question is shown."""

    def __init__(self, keyboard: int) -> None:
        super().__init__()
        self._keyboard = keyboard

    def write(self, text: str, /) -> int:
        if text.endswith("? "):
            os.write(self._keyboard, b"n\n")
        return super().write(text)


def test_a_line_typed_before_a_question_is_no_answer_and_stays_for_the_next_read() -> None:
    keyboard, terminal = pty.openpty()
    try:
        lines = PlainLines(terminal, Answering(keyboard))
        os.write(keyboard, b"first\ny\nhalf")
        assert lines.read("> ", Cancel()) == "first"
        assert lines.ask("Run it? ", Cancel()) == "n"
        os.write(keyboard, b"last\n")
        assert [lines.read("> ", Cancel()) for _ in range(2)] == ["y", "last"]
    finally:
        os.close(keyboard)
        os.close(terminal)
