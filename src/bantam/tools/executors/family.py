"""Every process that a command started, found and ended.

What a command started is found as whole sessions. A session is entered by birth alone, so all of
its processes come from the command or none does. The shell has its own; one that a process made
for itself (`setsid`) is known by its parent, while that lives, or by a marker in its environment.

Refused: making Bantam the reaper of orphans (PR_SET_CHILD_SUBREAPER). It holds for a whole process,
the library's host included, cannot tell the host's children from a command's, and brings zombies
that nobody waits for. Doing so in the shell's process needs a `preexec_fn`, unsafe beside threads.
The price: a daemon that left the session, lost its parent and wiped its environment is not found.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

_STOP_S: Final = 0.05  # for how long new groups are looked for before the first signal
_LOOK_S: Final = 0.01  # between two looks at whether TERM was enough
_LOOKS: Final = 3  # that must find nothing: one that forks all the time is easily overlooked
_AGAIN_S: Final = 0.001  # between two rounds of KILL
_KILL_S: Final = 0.5  # for how long: one that waits for a dead disk does not even end by KILL


class Family:
    """The processes of one command, `shell` being the first, in a session of its own.

    `marker` is text that stands in its environment and in no other command's. `shell` must not be
    reaped while this is used: then its number stays taken, and its group cannot be a stranger's.
    `is_keeper`: `shell` only holds the others, in sessions of their own, and ends with them. Its
    group gets no TERM, which would end them before they could act on theirs.
    """

    def __init__(
        self, shell: "subprocess.Popen[bytes]", marker: str, *, is_keeper: bool = False
    ) -> None:
        self._shell = shell
        self._spared = {signal.SIGTERM} if is_keeper else set()
        self._marker = marker.encode()
        self._sessions = {shell.pid}
        self._born = 0  # the shell, in clock ticks since the system's start
        self._others: set[int] = set()  # processes that need no second look

    def end(self, grace_s: float, pause: Callable[[float], None]) -> None:
        """Send TERM, and after `grace_s` KILL to what is left, until nothing is.

        `pause` waits for some seconds; what it raises is passed on.
        """
        if sys.platform == "win32":  # pragma: no cover  # no groups and no TERM there
            self._shell.kill()
            return
        deadline = time.monotonic() + grace_s
        shell = _process(self._shell.pid)
        self._born = shell.born if shell else 0
        self._stop()
        running = self._signal(signal.SIGTERM, signal.SIGCONT)
        while running and time.monotonic() < deadline:
            pause(_LOOK_S)
            running = self._signal()
        deadline = time.monotonic() + _KILL_S
        self._stop()
        looks_without_any = 0
        while looks_without_any < _LOOKS and time.monotonic() < deadline:
            running = self._signal(signal.SIGKILL)
            looks_without_any = 0 if running else looks_without_any + 1
            pause(_AGAIN_S)

    def _stop(self) -> None:
        """Stop all, so that none leaves its session and loses its parent between two looks."""
        stopped: set[int] = set()
        deadline = time.monotonic() + _STOP_S
        groups = self._signal(signal.SIGSTOP)
        while groups - stopped and time.monotonic() < deadline:
            stopped |= groups
            groups = self._signal(signal.SIGSTOP)

    def _signal(self, *numbers: int) -> set[int]:
        """Send the signals `numbers` to all; return the groups that ran before."""
        _send(self._shell.pid, [number for number in numbers if number not in self._spared])
        sent = {self._shell.pid}
        young: dict[int, _Process] = {}
        for pid, process in self._young():
            young[pid] = process
            # Now, not after the look: one that goes from session to session is gone by then.
            if process.session in self._sessions and process.group not in sent:
                _send(process.group, numbers)
                sent.add(process.group)
        self._grow(young)
        running = {p.group for p in young.values() if p.session in self._sessions}
        for group in running - sent:
            _send(group, numbers)
        return running if has_exited(self._shell) else running | {self._shell.pid}

    def _young(self) -> Iterator[tuple[int, "_Process"]]:
        """Yield what runs and is no older than the shell, newest first; adds marked sessions."""
        for pid in sorted(_process_numbers() - self._others, reverse=True):
            process = _process(pid)
            if process is None:
                continue
            if process.born < self._born or not process.runs:
                self._others.add(pid)
                continue
            if self._marker in _contents(pid, "environ"):
                self._sessions.add(process.session)
            yield pid, process

    def _grow(self, young: Mapping[int, "_Process"]) -> None:
        """Add the sessions of children; drop those that have ended: numbers are given out again."""
        sessions = self._sessions & {p.session for p in young.values()}
        size = 0
        while size < len(sessions):
            size = len(sessions)
            parents = {pid for pid, p in young.items() if p.session in sessions}
            sessions |= {p.session for p in young.values() if p.parent in parents}
        self._sessions = sessions | {self._shell.pid}


def _send(group: int, numbers: Iterable[int]) -> None:
    # To a group, not one by one: from a group no fork slips away. The time between looking and
    # sending is too short for the system to come round to the number of a group that ended.
    with suppress(ProcessLookupError, PermissionError):
        for number in numbers:
            os.killpg(group, number)


def has_exited(process: "subprocess.Popen[bytes]", *, wait: bool = False) -> bool:
    """Whether `process` has exited, after waiting for that if asked to. Leaves it unreaped."""
    if not hasattr(os, "waitid"):  # pragma: no cover  # Windows, and macOS before Python 3.13
        return (process.wait() if wait else process.poll()) is not None
    options = os.WEXITED | os.WNOWAIT | (0 if wait else os.WNOHANG)
    try:
        return os.waitid(os.P_PID, process.pid, options) is not None
    except ChildProcessError:  # the host program ignores SIGCHLD, or reaps every child itself
        return True


class _Process(NamedTuple):
    """A line of the process table. `born` is in clock ticks since the system's start."""

    runs: bool
    parent: int
    group: int
    session: int
    born: int


def _process_numbers() -> set[int]:
    with suppress(OSError):
        return {int(name) for name in os.listdir("/proc") if name.isdigit()}  # noqa: PTH208  # names
    return set()  # pragma: no cover  # not Linux


def _process(pid: int) -> _Process | None:
    """Return what /proc/PID/stat says (proc(5)); None if the process has ended."""
    # The second field, a name in parentheses, may hold blanks and parentheses.
    fields = _contents(pid, "stat").rpartition(b")")[2].split()
    if not fields:
        return None
    parent, group, session = map(int, fields[1:4])
    return _Process(fields[0] not in b"ZX", parent, group, session, int(fields[19]))


def _contents(pid: int, name: str) -> bytes:
    """Return /proc/`pid`/`name`; nothing if the process has ended or is another user's."""
    try:
        with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:  # noqa: PTH123  # twice as fast
            return file.read()
    except OSError:
        return b""
