"""Bantam as a process of its own, the way a user starts it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Final

BANTAM: Final = (sys.executable, "-m", "bantam.cli")
_PASSED_ON: Final = ("PATH", "COVERAGE_PROCESS_CONFIG", "COVERAGE_PROCESS_START")


def environment(home: Path, **more: str) -> dict[str, str]:
    """Return a small environment whose HOME is `home`; `more` comes on top."""
    passed_on = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    # Relative entries are meant from here, and the process starts elsewhere.
    entries = [os.path.abspath(entry) for entry in sys.path if entry.endswith("src")]  # noqa: PTH100
    return {**passed_on, "HOME": str(home), "PYTHONPATH": os.pathsep.join(entries), **more}


def start(
    *arguments: str,
    cwd: Path,
    env: dict[str, str] | None = None,
    program: Sequence[str] = BANTAM,
    stdin: int | IO[bytes] | None = subprocess.DEVNULL,
    stdout: int | IO[bytes] | None = subprocess.PIPE,
    stderr: int | IO[bytes] | None = subprocess.PIPE,
) -> subprocess.Popen[bytes]:
    """Start Bantam in `cwd`, in a process group of its own."""
    # A script's background job ignores Ctrl+C, and what it starts would too.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return subprocess.Popen(
        [*program, *arguments],
        cwd=cwd,
        env=env or environment(cwd),
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        process_group=0,
    )


def run(
    *arguments: str, cwd: Path, stdin: bytes | None = None, **how: Any
) -> subprocess.CompletedProcess[bytes]:
    """Run Bantam to its end; `how` as for `start`."""
    if stdin is not None:
        how["stdin"] = subprocess.PIPE
    with start(*arguments, cwd=cwd, **how) as process:
        out, err = process.communicate(stdin, timeout=60)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def sh(command: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[bytes]:
    """Run a line of bash in which `bantam` is this Bantam."""
    line = f'bantam() {{ {" ".join(BANTAM)} "$@"; }}\n{command}'
    return run(cwd=cwd, program=["bash", "-c", line], env=environment(cwd, **env))


def events(output: bytes) -> list[dict[str, Any]]:
    """Return the events that `--json` wrote: every line is one object with a type."""
    assert output.endswith(b"\n")
    lines = [json.loads(line) for line in output.decode().removesuffix("\n").split("\n")]
    assert all(isinstance(line["type"], str) for line in lines)
    return lines


def done(output: bytes) -> dict[str, Any]:
    """Return the `done` of a `--json` output: the last event, and the only one of its type."""
    *before, last = events(output)
    assert last["type"] == "done"
    assert all(event["type"] != "done" for event in before)
    return last


def at(url: str) -> tuple[str, ...]:
    """Return the options that name an endpoint on the user's own word."""
    return ("-o", f"endpoint={url}", "-o", "model=scripted")
