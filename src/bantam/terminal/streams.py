"""The standard streams, usable whatever the parent and the reader make of them.

A write waits for its reader, for ever if need be; but once the run is cancelled, no longer for one
that has stopped. So Ctrl+C needs no second one, and nothing is torn that somebody still reads.
O_NONBLOCK, which a parent may have set, costs nothing: it is left as it is, since the parent's own
streams share it, and waited out.
"""

import errno
import io
import os
import select
import sys
from typing import Any, Final, TextIO

from bantam.terminal.interrupts import Interrupts

_SLICE_MS: Final = 50  # how late a cancel is seen
_USUAL_SIZE: Final = (80, 24)  # columns and rows
_LOOKS: Final = 5  # at a reader that takes nothing after it


class OutputFailed(Exception):
    """Standard output takes no more: it is full, or nobody reads it."""


def open_streams(interrupts: Interrupts) -> None:
    """Make the standard streams usable: also those that the parent closed (`>&-`)."""
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: PTH123, SIM115  # open for the process's life
    sys.stdout = _patient(sys.stdout, interrupts, "utf-8", "replace")
    encoding = sys.stderr.encoding if sys.stderr else "utf-8"
    sys.stderr = _patient(sys.stderr, interrupts, encoding, "backslashreplace")


def size_of(out: TextIO) -> tuple[int, int]:
    """Return the columns and rows of a terminal, the usual ones where it does not know.

    Not `shutil.get_terminal_size`: that believes COLUMNS, and asks another stream.
    """
    try:
        columns, rows = os.get_terminal_size(out.fileno())
    except OSError:  # it has gone away: nothing will be seen
        return _USUAL_SIZE
    # A serial line, say, does not know its size: all zeros.
    return columns or _USUAL_SIZE[0], rows or _USUAL_SIZE[1]


def abandon(*outs: TextIO) -> None:
    """Let what Python still holds for `outs` go nowhere, quietly, when the process ends."""
    for out in outs:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, out.fileno())
        os.close(nowhere)


def say(text: str) -> None:
    """Write what was asked for to standard output; a reader who left has had enough.

    Raises OutputFailed.
    """
    try:
        print(text, end="", flush=True)
    except BrokenPipeError:
        abandon(sys.stdout)
    except OSError as error:
        raise OutputFailed from error


def _patient(stream: TextIO | None, interrupts: Interrupts, encoding: str, errors: str) -> TextIO:
    descriptor = stream.fileno() if stream else os.open(os.devnull, os.O_WRONLY)
    buffer = io.BufferedWriter(_Patient(descriptor, interrupts))
    return io.TextIOWrapper(buffer, encoding, errors)


class _Patient(io.FileIO):
    """Writes to `descriptor`. Raises TimeoutError when cancelled and nobody takes anything."""

    def __init__(self, descriptor: int, interrupts: Interrupts) -> None:
        super().__init__(descriptor, "wb", closefd=False)
        self._interrupts = interrupts

    def write(self, some: Any, /) -> int:
        """Write the first bytes of `some`, once there is room; return how many."""
        if sys.platform == "win32":  # pragma: no cover  # pipes cannot be polled there
            return super().write(some)
        written: int | None = None
        while written is None:  # O_NONBLOCK, and somebody else has taken the room
            self._wait_for_room()
            # No more than there surely is room for, or this would wait where no cancel is seen.
            written = super().write(memoryview(some)[: select.PIPE_BUF])
        return written

    def _wait_for_room(self) -> None:
        room = select.poll()
        room.register(self.fileno(), select.POLLOUT)
        looks = 0
        while not room.poll(_SLICE_MS):
            looks += self._interrupts.is_set
            if looks > _LOOKS:
                raise TimeoutError(errno.ETIMEDOUT, "nobody reads it")
