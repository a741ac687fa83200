"""Ctrl+C, SIGTERM and SIGHUP at every moment: by real signals to real processes."""

import fcntl
import os
import signal
import subprocess
import termios
from pathlib import Path

import pytest
from llmserver import LLMServer, big_answer, shell, text
from processes import eventually, killed, running, unique_seconds
from program import BANTAM, at, done, events, start
from stopping import STATES, stopped

from bantam.core.cancel import Cancel

# SPEC section 8 says 0.2 s; a loaded machine needs some for starting and ending anything at all.
_BOUND_S = 1.0

every_state = pytest.mark.parametrize("state", STATES)


@every_state
@pytest.mark.parametrize("delay_ms", [0, 1, 3, 10, 100])
def test_ctrl_c_ends_the_turn_at_once_wherever_it_is(
    state: str, delay_ms: int, tmp_path: Path
) -> None:
    ended = stopped(state, delay_ms / 1000, tmp_path)
    assert (ended.status, ended.err, ended.survivors) == (130, b"", [])
    told = done(ended.out)
    assert (told["stop"], told["exit_code"], told["error"]) == ("interrupted", 130, None)
    assert told["text"] == ""
    assert ended.seconds < _BOUND_S


@every_state
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_sigterm_and_sighup_end_the_turn_at_once_wherever_it_is(
    state: str, number: int, tmp_path: Path
) -> None:
    ended = stopped(state, 0.02, tmp_path, number)
    assert (ended.status, ended.err, ended.survivors) == (143, b"", [])
    assert (done(ended.out)["stop"], done(ended.out)["exit_code"]) == ("interrupted", 143)
    assert ended.seconds < _BOUND_S


@every_state
def test_a_signal_that_comes_several_times_at_once_counts_as_one(
    state: str, tmp_path: Path
) -> None:
    ended = stopped(state, 0.05, tmp_path, times=5)
    assert (ended.status, ended.err, ended.survivors) == (130, b"", [])
    assert done(ended.out)["stop"] == "interrupted"


def test_an_interrupted_call_has_a_result_that_says_so(tmp_path: Path) -> None:
    ended = stopped("tool run", 0.1, tmp_path)
    result = next(event for event in events(ended.out) if event["type"] == "tool_result")
    assert result["status"] == "interrupted"
    assert result["text"] == "interrupted by the user"


def test_an_interrupted_run_writes_no_answer(tmp_path: Path) -> None:
    with (
        LLMServer([text("Half of it. " * 40, stall_after=900)], strict=False) as server,
        start(*at(server.url), "-p", "Go.", cwd=tmp_path) as process,
    ):
        server.wait_for_stall()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, b"")
    assert err.decode().splitlines() == ["...requesting...", "[interrupted]"]


@pytest.mark.parametrize("delay_ms", range(0, 120, 12))
def test_ctrl_c_while_python_starts_ends_the_process(delay_ms: int, tmp_path: Path) -> None:
    marker = unique_seconds()
    (tmp_path / "p.txt").write_text("Go.")
    with (
        LLMServer([shell(f"sleep {marker}")], strict=False) as server,
        start(*at(server.url), "p.txt", cwd=tmp_path) as process,
    ):
        Cancel().sleep(delay_ms / 1000)

        def pressed_to_the_end() -> bool:
            process.send_signal(signal.SIGINT)
            Cancel().sleep(0.1)
            return process.poll() is not None

        # More than once: a start-up file of Python's (.pth) may swallow the first.
        assert eventually(pressed_to_the_end)
        out, _ = process.communicate(timeout=60)
    # Before a line of ours has run it is Python that ends: by the signal, or with a failure.
    assert process.returncode in (130, -signal.SIGINT, 1)
    assert out == b""
    assert running(marker) == []


@pytest.mark.parametrize("source", ["-", "-p", "fifo"])
def test_ctrl_c_ends_the_wait_for_a_prompt(source: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    arguments = {"-": ("-",), "-p": ("-p", "Go."), "fifo": ("fifo",)}[source]
    with start(*arguments, cwd=tmp_path, stdin=subprocess.PIPE) as process:
        # It waits once its reader thread is there.
        threads = Path(f"/proc/{process.pid}/task")
        assert eventually(lambda: len(list(threads.iterdir())) > 1)
        process.send_signal(signal.SIGINT)
        assert process.wait(_BOUND_S) == 130
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read() == b""
        assert process.stderr.read() == b"bantam: interrupted by the user\n"


def test_a_second_ctrl_c_ends_a_run_whose_output_nobody_takes(tmp_path: Path) -> None:
    with (
        LLMServer([big_answer(4)], strict=False) as server,
        start("--json", *at(server.url), "-p", "Go.", cwd=tmp_path) as process,
    ):
        pipe = process.stdout
        assert pipe is not None
        assert eventually(lambda: _waiting_bytes(pipe.fileno()) > 30000)
        Cancel().sleep(0.3)  # what is left of the pipe is filled
        process.send_signal(signal.SIGINT)
        Cancel().sleep(0.7)
        process.send_signal(signal.SIGINT)
        assert process.wait(_BOUND_S) == 130
        assert process.stderr is not None
        assert process.stderr.read() == b""


def _waiting_bytes(pipe: int) -> int:
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), "little")


def test_what_the_parent_ignores_stays_ignored(tmp_path: Path) -> None:
    deaf = ["bash", "-c", 'trap "" HUP INT; exec "$@"', "-", *BANTAM]
    with (
        LLMServer([text("Still here.", hold=True)]) as server,
        start(*at(server.url), "-p", "Go.", cwd=tmp_path, program=deaf) as process,
    ):
        server.wait_for_stall()
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGINT)
        Cancel().sleep(0.1)
        server.release()
        out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, b"Still here.")


def test_a_reader_that_leaves_ends_the_tools_too(tmp_path: Path) -> None:
    marker = unique_seconds()
    command = f"for i in $(seq 100); do echo $i; sleep 0.05; done; sleep {marker}"
    with (
        LLMServer([shell(command)], strict=False) as server,
        start("--json", *at(server.url), "-p", "Go.", cwd=tmp_path) as process,
    ):
        assert process.stdout is not None
        assert process.stderr is not None
        while b"tool_output" not in process.stdout.readline():
            pass
        process.stdout.close()
        process.wait(60)
        assert process.stderr.read() == b""
    assert running(marker) == []


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_to_bantam_reaches_the_command_of_a_prompt_file(
    number: int, status: int, tmp_path: Path
) -> None:
    marker = unique_seconds()
    (tmp_path / "p.txt").write_text(f"!exec sleep {marker}")
    with start("p.txt", cwd=tmp_path) as process:
        assert eventually(lambda: running(f"sleep {marker}"))
        assert eventually(lambda: _catches(process.pid, number))
        process.send_signal(number)
        assert process.wait(10) == status
    assert running(marker) == []


def test_ctrl_c_is_for_the_command_of_a_prompt_file_to_decide(tmp_path: Path) -> None:
    marker = unique_seconds()
    (tmp_path / "p.txt").write_text(
        f"!trap 'echo caught; exit 5' INT; sleep {marker} >&- 2>&- & wait"
    )
    with start("p.txt", cwd=tmp_path) as process:
        assert eventually(lambda: running(f"sleep {marker}"))
        assert eventually(lambda: _catches(process.pid, signal.SIGHUP))
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        out, err = process.communicate(timeout=10)
    killed(marker)
    assert (process.returncode, out, err) == (5, b"caught\n", b"")


def _catches(pid: int, number: int) -> bool:
    """Whether the process handles the signal `number` itself (proc(5), SigCgt)."""
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(line.split()[1], 16) >> (number - 1) & 1)
