"""Looking at real processes: who runs, and waiting until something has come true."""

import itertools
import os
import re
import resource
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from bantam.core.cancel import Cancel

_NUMBERS: Final = itertools.count(1)


def unique_seconds() -> str:
    """Return an hour and a bit, for `sleep`: no other process has this argument."""
    return f"{3600 + next(_NUMBERS)}.{os.getpid()}"


def running(text: str) -> list[int]:
    """Return the processes that run, zombies aside, and have `text` in their command line."""
    return [pid for pid, words, state in _processes() if text in words and state != "Z"]


def peak_mib() -> float:
    """Return the most memory that this process has had.

    Not ru_maxrss: that is at least what the parent had at the fork.
    """
    status = Path("/proc/self/status").read_text()
    return int(re.findall(r"VmHWM:\s*(\d+)", status)[0]) / 1024


def zombie_children() -> list[int]:
    """Return our children that have exited and that nobody has waited for."""
    return [pid for pid, _, state in _processes(parent=os.getpid()) if state == "Z"]


def _processes(parent: int | None = None) -> Iterator[tuple[int, str, str]]:
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            state, its_parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            if parent in (None, int(its_parent)):
                yield int(folder.name), words, state


def eventually(condition: Callable[[], object], seconds: float = 10.0) -> bool:
    """Whether `condition` becomes true within `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        Cancel().sleep(0.01)
    return True


def killed(text: str) -> None:
    """End what a test left running on purpose: `text` is from `unique_seconds`."""
    for pid in running(text):
        os.kill(pid, signal.SIGKILL)


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Let writing fail as on a full disk: no file can be larger than `size` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
