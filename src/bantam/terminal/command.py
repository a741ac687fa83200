"""The shell command of a prompt file, or of the prompt: it has Bantam's streams.

With a terminal that of a prompt file stays in Bantam's process group and so has the terminal, as
under `sh -c`: job control and the keyboard's signals reach both. Without one it gets a session of
its own, where all that it starts is found, and a signal to Bantam reaches it through Bantam alone.
Refused: making a group of its own the foreground one; a pager behind Bantam in a pipeline would
lose its keys. Nobody is behind the prompt: there `aside` does so.

A command that stops would be waited for without end: so Bantam's group, the job that a shell knows,
stops too, and who brings it back brings back both. Where nobody could, the command goes on.
"""

import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock, Thread
from typing import Any, Final, NamedTuple, Protocol

from bantam.core.cancel import Cancel
from bantam.core.errors import ConfigError, ExitStatus
from bantam.tools.executors.family import Family, has_exited
from bantam.tools.executors.local import shell_on

# What a keyboard sends; the command decides what comes of it. All others end it.
_OF_KEYS: Final = ("SIGINT", "SIGQUIT")
_SLICE_S: Final = 0.05  # how late a signal is seen that came just before the wait, and a stop
_LOOK_S: Final = 0.01
_GRACE_S: Final = 0.5  # from TERM to KILL
_KILL_S: Final = 0.5  # for how long: one that waits for a dead disk does not even end by KILL
MARKER: Final = "BANTAM_COMMAND_ID"

Listen = Callable[[Callable[[int, Any], None]], None]


class Place(Protocol):
    """How a command stands to Bantam and to the terminal."""

    def start(
        self, argv: Sequence[str | bytes], environment: Mapping[str, str], stdin: int | None
    ) -> "subprocess.Popen[bytes]":
        """Return the command, started. Raises OSError and ValueError as `Popen`."""
        ...

    def look(self, process: "subprocess.Popen[bytes]") -> None:
        """See what no signal tells; called many times a second."""
        ...

    def pass_on(self, process: "subprocess.Popen[bytes]", number: int) -> None:
        """Let the command have a signal of the keyboard's that has come to Bantam."""
        ...

    def end(self, process: "subprocess.Popen[bytes]", marker: str) -> None:
        """End the command and all it started: those have `marker` in their environment."""
        ...


def run_command(
    command: bytes,
    cancel: Cancel,
    listen: Listen,
    *,
    name: str = "the command in the prompt file",
    stdin: int | None = None,
    place: Place | None = None,
) -> int:
    """Run a shell command with the streams of this process, or with `stdin` as `Popen` takes it.

    Return its exit status, 128+n for signal n. Errors call it `name`. `listen` makes a function
    hear the signals that end a run; SIGTERM and SIGHUP end the command and all it started. Raises
    ConfigError if the system cannot take it, Interrupted if the run was cancelled before.
    """
    news = _News()
    listen(lambda number, _: news.put(number))
    cancel.check()
    place = place or (_Apart() if _foreground() is None else _Beside())
    marker = os.urandom(8).hex()
    # Run inside a command of another Bantam, it bears both markers.
    markers = f"{os.environ.get(MARKER, '')}.{marker}"
    try:
        process = place.start(_argv(command), {**os.environ, MARKER: markers}, stdin)
    except (OSError, ValueError) as error:  # too long, or a NUL in it
        raise ConfigError(f"{name} cannot be run: {error}") from None
    Thread(target=_tell_exit, args=(process, news), daemon=True).start()
    while (number := _next(news, process, place)) is not None:
        if signal.Signals(number).name not in _OF_KEYS:
            place.end(process, marker)
            process.wait()
            return ExitStatus.TERMINATED
        place.pass_on(process, number)
    status = process.wait()
    return status if status >= 0 else 128 - status


def _argv(command: bytes) -> list[str | bytes]:
    # Without `--` a command that begins with - or + would be read as options of the shell.
    options = ["/c"] if sys.platform == "win32" else ["-c", "--"]
    return [shell_on(os.environ.get("PATH", os.defpath)), *options, command]


class _News:
    """Signals, and None: the command has exited. `put` is safe in a signal handler.

    Not a SimpleQueue, whose `get` waits for ever where a signal comes behind its time-out, as the
    one does that tells of the end of a stop.
    """

    def __init__(self) -> None:
        self._items: deque[int | None] = deque()
        self._is_there = Lock()
        self._is_there.acquire()

    def put(self, item: int | None) -> None:
        self._items.append(item)
        with suppress(RuntimeError):  # it is released already
            self._is_there.release()

    def get(self, timeout: float) -> int | None:
        """Return the next item. Raises IndexError if none comes in time."""
        if not self._items:
            self._is_there.acquire(timeout=timeout)
        return self._items.popleft()


def _tell_exit(process: "subprocess.Popen[bytes]", news: _News) -> None:
    has_exited(process, wait=True)
    news.put(None)


def _next(news: _News, process: "subprocess.Popen[bytes]", place: Place) -> int | None:
    while True:
        with suppress(IndexError):
            return news.get(_SLICE_S)
        place.look(process)


# -- places ------------------------------------------------------------------------------------


class _Apart:
    """A session of its own; meets `Place`."""

    def start(
        self, argv: Sequence[str | bytes], environment: Mapping[str, str], stdin: int | None
    ) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(argv, stdin=stdin, env=environment, start_new_session=True)

    def look(self, process: "subprocess.Popen[bytes]") -> None:
        """Do nothing: who stops it there can continue it."""

    def pass_on(self, process: "subprocess.Popen[bytes]", number: int) -> None:
        send_group(process, number, signal.SIGCONT)

    def end(self, process: "subprocess.Popen[bytes]", marker: str) -> None:
        Family(process, marker).end(_GRACE_S, time.sleep)


class _Beside:
    """Bantam's own process group, on a terminal; meets `Place`."""

    def __init__(self) -> None:
        self._had_stopped = False

    def start(
        self, argv: Sequence[str | bytes], environment: Mapping[str, str], stdin: int | None
    ) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(argv, stdin=stdin, env=environment)

    def look(self, process: "subprocess.Popen[bytes]") -> None:
        # Twice: a Ctrl+Z and a shell's `fg` reach both, but not both in the same instant.
        before, self._had_stopped = self._had_stopped, has_stopped(process)
        if before and self._had_stopped:
            self._had_stopped = False
            stop_job()
            if has_stopped(process):  # no shell has continued all of the group
                os.kill(0, signal.SIGCONT)

    def pass_on(self, process: "subprocess.Popen[bytes]", number: int) -> None:
        if _foreground() != os.getpgrp():  # it came to Bantam alone, not from the keyboard
            process.send_signal(number)

    def end(self, process: "subprocess.Popen[bytes]", marker: str) -> None:
        end_all(process, marker)


# -- stopping and ending -----------------------------------------------------------------------


def has_stopped(process: "subprocess.Popen[bytes]") -> bool:
    """Whether `process` has stopped, and nobody has continued it."""
    if not hasattr(os, "waitid"):  # pragma: no cover  # macOS before Python 3.13
        return False
    options = os.WSTOPPED | os.WNOWAIT | os.WNOHANG
    with suppress(ChildProcessError):  # every child is reaped by the system: SIGCHLD is ignored
        return os.waitid(os.P_PID, process.pid, options) is not None
    return False


def stop_job() -> None:
    """Stop Bantam and its group until a shell continues them; not where none could."""
    os.kill(0, signal.SIGTSTP)  # which a group that nobody could bring back survives


def end_all(process: "subprocess.Popen[bytes]", marker: str) -> None:
    """Send TERM to `process` and all it started, and KILL to what is left after the grace.

    Their session is Bantam's own, so it does not show what belongs to the command.
    """
    left = _family(process, marker)
    # Stopped first: a shell would go on behind a child that has ended before it.
    for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGCONT):
        _send(left, number)
    deadline = time.monotonic() + _GRACE_S
    while left and time.monotonic() < deadline:
        time.sleep(_LOOK_S)
        left = _family(process, marker)
    deadline = time.monotonic() + _KILL_S
    while left and time.monotonic() < deadline:
        for number in (signal.SIGSTOP, signal.SIGKILL):
            _send(left, number)
        time.sleep(_LOOK_S)
        left = _family(process, marker)


def send_group(process: "subprocess.Popen[bytes]", *numbers: int) -> None:
    """Send signals to the group of its own that `process` has."""
    with suppress(ProcessLookupError, PermissionError):
        for number in numbers:
            os.killpg(process.pid, number)


def _send(pids: set[int], *numbers: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            for number in numbers:
                os.kill(pid, number)


# -- the process table -------------------------------------------------------------------------


def is_all_of(marker: str, group: int) -> bool:
    """Whether nothing runs in the process group but what has `marker` in its environment."""
    return all(each.has(marker) for each in _processes() if each.group == group)


def _family(process: "subprocess.Popen[bytes]", marker: str) -> set[int]:
    """Return what runs of `process`, of all below it, and of all that has `marker`.

    It alone where there is no /proc.
    """
    table = list(_processes())
    found = {e.pid for e in table if e.group == process.pid or e.has(marker)}
    if not has_exited(process):
        found.add(process.pid)
    size = 0
    while size < len(found):
        size = len(found)
        found |= {each.pid for each in table if each.parent in found}
    return found


class _Process(NamedTuple):
    """A line of the process table."""

    pid: int
    parent: int
    group: int

    def has(self, marker: str) -> bool:
        """Whether `marker` stands in its environment, as far as we may see that."""
        with suppress(OSError):
            return marker.encode() in Path(f"/proc/{self.pid}/environ").read_bytes()
        return False


def _processes() -> Iterator[_Process]:
    """Yield what runs (proc(5)); nothing where there is no /proc."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            # The second field, a name in parentheses, may hold blanks and parentheses.
            fields = (folder / "stat").read_bytes().rpartition(b")")[2].split()
            if fields[0] not in b"ZX":
                yield _Process(int(folder.name), int(fields[1]), int(fields[2]))


def _foreground() -> int | None:
    """Return the process group that the terminal's keyboard sends signals to, None without one."""
    try:
        with open("/dev/tty", "rb", buffering=0) as terminal:  # noqa: PTH123  # not a path's content
            return os.tcgetpgrp(terminal.fileno())
    except OSError:
        return None
