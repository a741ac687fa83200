"""Ctrl+C, SIGTERM, SIGHUP and SIGQUIT at every moment: by real signals to real processes."""

import fcntl
import os
import signal
import subprocess
import termios
from pathlib import Path
from typing import IO, Final

import pytest
from llmserver import LLMServer, big_answer, shell, text
from processes import eventually, running, unique_seconds
from program import BANTAM, at, done, events, start
from stopping import STATES, stopped

from bantam.core.cancel import Cancel

# SPEC section 8 says 0.2 s; a loaded machine needs some for starting and ending anything at all.
_BOUND_S = 1.0
_LONG: Final = "One thought after the other. " * 40000

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
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_sigterm_sighup_and_sigquit_end_the_turn_at_once_wherever_it_is(
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


@pytest.mark.parametrize(("name", "status"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_signal_while_the_rest_is_imported_counts(name: str, status: int, tmp_path: Path) -> None:
    # Found before the library's own, and imported right behind the first lines of `main`.
    (tmp_path / "queue.py").write_text(
        "import os, signal\nfrom _queue import Empty, SimpleQueue\nQueue = None\n"
        f"os.kill(os.getpid(), signal.{name})\n"
    )
    with start("-p", "Go.", cwd=tmp_path) as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (status, b"")
    assert err == b"bantam: interrupted by the user\n"


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


@pytest.mark.parametrize(
    ("options", "stream"), [(("--json",), "stdout"), ((), "stdout"), ((), "stderr")]
)
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_one_signal_ends_a_run_whose_output_nobody_takes(
    options: tuple[str, ...], stream: str, number: int, status: int, tmp_path: Path
) -> None:
    reply = text(_LONG, reasoning=_LONG if stream == "stderr" else "")
    with (
        LLMServer([reply], strict=False) as server,
        start(*options, *at(server.url), "-p", "Go.", cwd=tmp_path) as process,
    ):
        _wait_until_full(getattr(process, stream))
        process.send_signal(number)
        assert process.wait(_BOUND_S) == status
        assert process.stdout is not None
        assert process.stderr is not None
        if stream == "stderr":
            assert process.stdout.read() == b""
        else:
            assert b"Traceback" not in process.stderr.read()


def test_a_tool_ends_with_a_run_whose_output_nobody_takes(tmp_path: Path) -> None:
    marker = unique_seconds()
    command = f"sleep {marker} & for n in $(seq 100000); do echo $n: and more, and more; done; wait"
    with (
        LLMServer([shell(command)], strict=False) as server,
        start("--json", *at(server.url), "-p", "Go.", cwd=tmp_path) as process,
    ):
        assert process.stdout is not None
        assert eventually(lambda: running(f"sleep {marker}"))
        _wait_until_full(process.stdout)
        process.send_signal(signal.SIGINT)
        assert process.wait(_BOUND_S) == 130
    assert running(marker) == []


def test_a_slow_reader_still_gets_every_event_after_ctrl_c(tmp_path: Path) -> None:
    with (
        LLMServer([big_answer(3)], strict=False) as server,
        start("--json", *at(server.url), "-p", "Go.", cwd=tmp_path) as process,
    ):
        assert process.stdout is not None
        _wait_until_full(process.stdout)
        process.send_signal(signal.SIGINT)
        out = b""
        while some := os.read(process.stdout.fileno(), 8192):
            out += some
            Cancel().sleep(0.02)
        assert process.wait(_BOUND_S) == 130
    assert done(out)["stop"] == "interrupted"


def test_a_second_ctrl_c_ends_what_does_not_listen(tmp_path: Path) -> None:
    # Found before the library's own: as one on a disk that does not answer.
    os.mkfifo(tmp_path / "disk")
    (tmp_path / "tempfile.py").write_text("open('hangs', 'w'); open('disk')")
    with start("--demo", cwd=tmp_path) as process:
        assert eventually((tmp_path / "hangs").exists)
        process.send_signal(signal.SIGINT)
        Cancel().sleep(0.7)
        process.send_signal(signal.SIGINT)
        assert process.wait(_BOUND_S) == 130
        assert process.stderr is not None
        assert process.stderr.read() == b""


def _wait_until_full(pipe: IO[bytes]) -> None:
    assert eventually(lambda: _waiting_bytes(pipe.fileno()) > 30000)
    Cancel().sleep(0.3)  # what is left of the pipe is filled


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


# -- the command of a prompt file -------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("trap", ["", "trap '' TERM HUP; "], ids=["meek", "stubborn"])
def test_a_signal_to_bantam_ends_the_command_of_a_prompt_file_and_all_it_started(
    number: int, trap: str, tmp_path: Path
) -> None:
    marker = unique_seconds()
    (tmp_path / "p.txt").write_text(f"!{trap}setsid sleep {marker} & sleep {marker}; echo no")
    with start("p.txt", cwd=tmp_path) as process:
        assert eventually(lambda: len(running(f"sleep {marker}")) >= 2)
        process.send_signal(number)
        assert process.wait(_BOUND_S + 1) == 143
        assert process.stdout is not None
        assert process.stdout.read() == b""
    assert running(f"sleep {marker}") == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT])
@pytest.mark.parametrize("whole_group", [False, True])
def test_a_keyboards_signal_reaches_the_command_of_a_prompt_file_once(
    number: int, whole_group: bool, tmp_path: Path
) -> None:
    (tmp_path / "p.txt").write_text(
        "!trap 'echo caught' INT QUIT; trap 'exit 5' USR1; "
        "echo ready $$; while :; do sleep 0.01; done 2> /dev/null"
    )
    with start("p.txt", cwd=tmp_path) as process:
        assert process.stdout is not None
        shell_pid = int(process.stdout.readline().split()[1])
        (os.killpg if whole_group else os.kill)(process.pid, number)
        assert process.stdout.readline() == b"caught\n"
        Cancel().sleep(0.1)
        os.kill(shell_pid, signal.SIGUSR1)
        out, _ = process.communicate(timeout=10)
    assert (process.returncode, out) == (5, b"")


def test_what_the_parent_ignores_the_command_of_a_prompt_file_ignores_too(tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text("!echo ready; sleep 0.3; echo still here")
    deaf = ["bash", "-c", 'trap "" HUP; exec "$@"', "-", *BANTAM]
    with start("p.txt", cwd=tmp_path, program=deaf) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGHUP)
        out, _ = process.communicate(timeout=10)
    assert (process.returncode, out) == (0, b"still here\n")
