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
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

_LOOKS: Final = 20  # until no new group is found; one that forks faster ends by KILL, in rounds
_LOOK_S: Final = 0.01  # between two looks at whether TERM was enough
_AGAIN_S: Final = 0.005  # between two rounds of KILL
_KILL_S: Final = 0.5  # for how long: one that waits for a dead disk does not even end by KILL


class Family:
    """The processes of one command, `shell` being the first, in a session of its own.

    `marker` is text that stands in its environment and in no other command's. `shell` must not be
    reaped while this is used: then its number stays taken, and its group cannot be a stranger's.
    """

    def __init__(self, shell: "subprocess.Popen[bytes]", marker: str) -> None:
        self._shell = shell
        self._marker = marker.encode()
        self._sessions = {shell.pid}

    def end(self, grace_s: float, pause: Callable[[float], None]) -> None:
        """Send TERM, and after `grace_s` KILL to what is left, until nothing is.

        `pause` waits for some seconds; what it raises is passed on.
        """
        if sys.platform == "win32":  # pragma: no cover  # no groups and no TERM there
            self._shell.kill()
            return
        deadline = time.monotonic() + grace_s
        self._stop()
        running = self._signal(signal.SIGTERM, signal.SIGCONT)
        while running and time.monotonic() < deadline:
            pause(_LOOK_S)
            running = self._signal()
        deadline = time.monotonic() + _KILL_S
        self._stop()
        while self._signal(signal.SIGKILL) and time.monotonic() < deadline:
            pause(_AGAIN_S)

    def _stop(self) -> None:
        """Stop all, so that none leaves its session and loses its parent between two looks."""
        stopped: set[int] = set()
        for _ in range(_LOOKS):
            groups = {member.group for member in self._members()} - stopped
            if not groups:
                return
            _send(groups, signal.SIGSTOP)
            stopped |= groups

    def _signal(self, *numbers: int) -> bool:
        """Send the signals `numbers` to all; return whether any of them ran before."""
        members = self._members()
        _send({self._shell.pid, *(member.group for member in members)}, *numbers)
        return any(member.runs for member in members) or not has_exited(self._shell)

    def _members(self) -> list["_Process"]:
        """Return what runs or waits to be reaped; nothing where there is no Linux /proc."""
        table = _process_table()
        shell = table.get(self._shell.pid)
        # No elder can be a child. Most processes are elder: this saves reading their environments.
        young = {pid: p for pid, p in table.items() if shell is None or p.born >= shell.born}
        # Of the sessions found earlier those that still exist: numbers are given out again.
        sessions = self._sessions & {p.session for p in young.values()}
        sessions |= {p.session for pid, p in young.items() if self._is_marked(pid)}
        size = 0
        while size < len(sessions):
            size = len(sessions)
            parents = {pid for pid, p in young.items() if p.session in sessions}
            sessions |= {p.session for p in young.values() if p.parent in parents}
        self._sessions = sessions
        return [p for p in young.values() if p.session in sessions]

    def _is_marked(self, pid: int) -> bool:
        environment = b""
        with suppress(OSError):  # it has just ended, or is another user's
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        return self._marker in environment


def _send(groups: Iterable[int], *numbers: int) -> None:
    # To groups, not one by one: from a group no fork slips away. The time between looking and
    # sending is too short for the system to come round to the number of a group that ended.
    for group in groups:
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


def _process_table() -> dict[int, _Process]:
    """Return what /proc/PID/stat says of each process, by number; {} where there is none."""
    table: dict[int, _Process] = {}
    folder = Path("/proc")
    for entry in os.scandir(folder) if folder.is_dir() else ():
        with suppress(OSError, ValueError, IndexError):  # it has just ended; it is no process
            pid = int(entry.name)
            # proc(5). The second field, a name in parentheses, may hold blanks and parentheses.
            fields = Path(entry.path, "stat").read_bytes().rpartition(b")")[2].split()
            parent, group, session = map(int, fields[1:4])
            table[pid] = _Process(fields[0] not in b"ZX", parent, group, session, int(fields[19]))
    return table
