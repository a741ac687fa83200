"""The shell command of a prompt file, or of the prompt: it has Bantam's streams.

With a terminal it stays in Bantam's process group and so has the terminal, as under `sh -c`: job
control and the keyboard's signals reach both. Without one it gets a session of its own, where all
that it starts is found, and a signal to Bantam reaches it through Bantam alone. Refused: making a
group of its own the foreground one; a pager behind Bantam in a pipeline would lose its keys.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Final

from bantam.core.cancel import Cancel
from bantam.core.errors import ConfigError, ExitStatus
from bantam.tools.executors.family import Family, has_exited
from bantam.tools.executors.local import shell_on

# What a keyboard sends; the command decides what comes of it. All others end it.
_OF_KEYS: Final = ("SIGINT", "SIGQUIT")
_SLICE_S: Final = 0.05  # how late a signal is seen that came just before the wait
_LOOK_S: Final = 0.01
_GRACE_S: Final = 0.5  # from TERM to KILL
_MARKER: Final = "BANTAM_COMMAND_ID"

Listen = Callable[[Callable[[int, Any], None]], None]


def run_command(
    command: bytes,
    cancel: Cancel,
    listen: Listen,
    *,
    name: str = "the command in the prompt file",
    stdin: int | None = None,
) -> int:
    """Run a shell command with the streams of this process, or with `stdin` as `Popen` takes it.

    Return its exit status, 128+n for signal n. Errors call it `name`. `listen` makes a function
    hear the signals that end a run; SIGTERM and SIGHUP end the command and all it started. Raises
    ConfigError if the system cannot take it, Interrupted if the run was cancelled before.
    """
    news: SimpleQueue[int | None] = SimpleQueue()  # signals, and None: it has exited
    listen(lambda number, _: news.put(number))
    cancel.check()
    has_terminal = _foreground() is not None
    marker = os.urandom(8).hex()
    try:
        process = _started(command, marker, stdin, start_new_session=not has_terminal)
    except (OSError, ValueError) as error:  # too long, or a NUL in it
        raise ConfigError(f"{name} cannot be run: {error}") from None
    Thread(target=_tell_exit, args=(process, news), daemon=True).start()
    while (number := _next(news)) is not None:
        if signal.Signals(number).name not in _OF_KEYS:
            if has_terminal:
                _end_tree(process)
            else:
                Family(process, marker).end(_GRACE_S, time.sleep)
            process.wait()
            return ExitStatus.TERMINATED
        if not has_terminal:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)
        elif _foreground() != os.getpgrp():  # it came to Bantam alone, not from the keyboard
            process.send_signal(number)
    status = process.wait()
    return status if status >= 0 else 128 - status


def _foreground() -> int | None:
    """Return the process group that the terminal's keyboard sends signals to, None without one."""
    try:
        with open("/dev/tty", "rb", buffering=0) as terminal:  # noqa: PTH123  not a path's content
            return os.tcgetpgrp(terminal.fileno())
    except OSError:
        return None


def _started(
    command: bytes, marker: str, stdin: int | None, *, start_new_session: bool
) -> "subprocess.Popen[bytes]":
    # Without `--` a command that begins with - or + would be read as options of the shell.
    options = ["/c"] if sys.platform == "win32" else ["-c", "--"]
    # Run inside a command of another Bantam, it bears both markers.
    markers = f"{os.environ.get(_MARKER, '')}.{marker}"
    return subprocess.Popen(
        [shell_on(os.environ.get("PATH", os.defpath)), *options, command],
        stdin=stdin,
        env={**os.environ, _MARKER: markers},
        start_new_session=start_new_session,
    )


def _tell_exit(process: "subprocess.Popen[bytes]", news: "SimpleQueue[int | None]") -> None:
    has_exited(process, wait=True)
    news.put(None)


def _next(news: "SimpleQueue[int | None]") -> int | None:
    while True:
        with suppress(Empty):
            return news.get(timeout=_SLICE_S)


# -- with a terminal ---------------------------------------------------------------------------


def _end_tree(process: "subprocess.Popen[bytes]") -> None:
    """Send TERM to `process` and all below it, and KILL to what is left after the grace.

    Their group and session are Bantam's own, so neither shows what belongs to the command.
    """
    pids = _tree(process.pid)
    _send(pids, signal.SIGTERM)
    deadline = time.monotonic() + _GRACE_S
    while time.monotonic() < deadline and not _is_gone(process, pids):
        time.sleep(_LOOK_S)
    _send(pids, signal.SIGKILL)


def _tree(pid: int) -> list[int]:
    """Return `pid` and the processes below it (proc(5)); it alone where there is no /proc."""
    children: list[str] = []
    with suppress(OSError):
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(each for child in children for each in _tree(int(child)))]


def _is_gone(process: "subprocess.Popen[bytes]", pids: Iterable[int]) -> bool:
    others = (pid for pid in pids if pid != process.pid)
    return has_exited(process) and not any(Path(f"/proc/{pid}").exists() for pid in others)


def _send(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
