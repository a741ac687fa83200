"""`!command` at the prompt: it has the terminal, and leaves nothing behind but what it did.

On a terminal it is to Bantam what a job is to a shell: it has a process group of its own, which is
in the foreground for as long as it runs. So the keyboard's signals are the command's alone, and
what it sends to its own group (`kill 0`) does not meet Bantam.

When it stops, by Ctrl+Z or by itself, Bantam has the terminal again and stops too: the shell that
Bantam is a job of says so, and its `fg` brings back both. Where no shell could do so the command
goes on at once: there Ctrl+Z does nothing, as in all of Bantam. Refused: to keep what has stopped
while the prompt goes on. That takes words to list, continue and end jobs, which a shell has; and a
prompt that is left would have to end what somebody has put aside to come back to.

What it leaves running in the background lives on; all that a signal to Bantam finds running is
ended.
"""

import os
import select
import signal
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, TextIO

from bantam.core.cancel import Cancel
from bantam.terminal.command import (
    MARKER,
    Listen,
    end_all,
    has_stopped,
    is_all_of,
    run_command,
    send_group,
    stop_job,
)
from bantam.terminal.interrupts import Interrupts

# A shell that waits, stopped, until its group has the terminal; then it becomes the command. No
# time is left in which a program finds itself in the background: it would stop, or, as wget does,
# take that for its user's will. Not by `preexec_fn`, which is unsafe beside threads.
_WHEN_CONTINUED: Final = ("/bin/sh", "-c", 'kill -STOP $$; exec "$@"', "sh")
# A program that was killed has not undone these (ECMA-48; xterm's control sequences; kitty's).
_PLAIN_AGAIN: Final = (
    # The other screen. Leaving it restores a cursor even where nobody is on it: so save that.
    "\x1b7\x1b[?1049l\x1b[?1047l"
    # Keys of kitty's protocol, of which other terminals may show the `u`; positions that count from
    # the margins; margins. The last two move the cursor: it comes back. So does the first of them
    # if it was on, but means nothing without margins.
    "\x1b7\x1b[<u\x1b[?6l\x1b[r\x1b8"
    # xterm's keys, inserting, reports of focus and of pastes.
    "\x1b[>4;0m\x1b[4l\x1b[?1004;2004l"
    # Forms of the mouse's reports; then colours, a character set of lines, a hidden cursor, reports
    # of the mouse, no wrapping, the other keypad.
    "\x1b[?1005;1015l"
    "\x1b[0m\x1b(B\x0f\x1b[?25h\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?7h\x1b[?1l\x1b>"
)


def run_aside(
    command: str, cancel: Cancel, interrupts: Interrupts, listen: Listen, terminal: TextIO | None
) -> int:
    """Run the shell command with the streams of this process; return its exit status.

    Ctrl+C is the command's alone. `terminal`: where the prompt is, in the state that it had
    before; without one the command has no standard input, which holds the prompt's next lines.
    Raises ConfigError and Interrupted as `run_command`.
    """

    def noted(handler: Callable[[int, Any], None]) -> None:
        def hear(number: int, frame: Any) -> None:
            interrupts.note(number)
            handler(number, frame)

        listen(hear)

    given = None if terminal else subprocess.DEVNULL
    try:
        with _kept(terminal) as place:
            raw = os.fsencode(command)
            return run_command(raw, cancel, noted, name="the command", stdin=given, place=place)
    finally:
        listen(interrupts.hear)


@contextmanager
def _kept(terminal: TextIO | None) -> Iterator["_Job | None"]:
    """Let the terminal be as before, whatever happens to it meanwhile; yield what a job is on it.

    That is nothing where no group is in the foreground: the terminal is not what controls us.
    """
    if terminal is None:
        yield None
        return
    job = _Job(sys.stdin.fileno())
    try:
        yield job if job.is_possible() else None
    finally:
        with suppress(OSError, termios.error):  # the terminal has gone away
            if job.take_back() and os.environ.get("TERM") != "dumb":
                terminal.write(_PLAIN_AGAIN + _new_line(terminal))
                terminal.flush()


class _Job:
    """A command on the terminal `keyboard`, with a process group of its own; meets `Place`."""

    def __init__(self, keyboard: int) -> None:
        self._keyboard = keyboard
        self._modes = termios.tcgetattr(keyboard)
        self._modes_of_stopped: list[Any] | None = None
        self._marker = ""
        self._group = os.getpgrp()

    def is_possible(self) -> bool:
        """Whether the terminal has a foreground, and the system tells of a stop."""
        try:
            os.tcgetpgrp(self._keyboard)
        except OSError:
            return False
        return hasattr(os, "waitid")  # macOS before Python 3.13 has none

    def start(
        self, argv: Sequence[str | bytes], environment: Mapping[str, str], stdin: int | None
    ) -> "subprocess.Popen[bytes]":
        process = subprocess.Popen(
            [*_WHEN_CONTINUED, *argv], stdin=stdin, env=environment, process_group=0
        )
        self._marker = environment[MARKER]
        self._group = process.pid
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        self._go_on(process)
        return process

    def look(self, process: "subprocess.Popen[bytes]") -> None:
        if self._has_gone():
            signal.raise_signal(signal.SIGHUP)  # the system tells the foreground alone
        elif self._front() == os.getpgrp():  # it was stopped beside Bantam, by a shell that is back
            self._go_on(process)
        elif has_stopped(process):
            with suppress(OSError, termios.error):  # the terminal has gone away
                if self.take_back():  # else it stopped in the background, and waits there for `fg`
                    stop_job()
                    self._go_on(process)

    def pass_on(self, process: "subprocess.Popen[bytes]", number: int) -> None:
        send_group(process, number)

    def end(self, process: "subprocess.Popen[bytes]", marker: str) -> None:
        end_all(process, marker)
        send_group(process, signal.SIGKILL)  # where no table shows it

    def take_back(self) -> bool:
        """Be in the foreground again, with the modes from before; False if that is a shell's."""
        front = self._front()
        if front != os.getpgrp():
            # A shell that was killed has left itself there, or what it had there.
            if front != self._group and not is_all_of(self._marker, front):
                return False
            # From the background this stops who does it, unless that is ignored (tcsetpgrp(3)).
            before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
            try:
                os.tcsetpgrp(self._keyboard, os.getpgrp())
            finally:
                signal.signal(signal.SIGTTOU, before)
        self._modes_of_stopped = termios.tcgetattr(self._keyboard)
        termios.tcsetattr(self._keyboard, termios.TCSADRAIN, self._modes)
        return True

    def _go_on(self, process: "subprocess.Popen[bytes]") -> None:
        """Let the command run, in the foreground if Bantam is there."""
        with suppress(OSError, termios.error):  # the terminal, or the command, has gone away
            if self._front() == os.getpgrp():
                self._modes = termios.tcgetattr(self._keyboard)  # a shell may have set others
                if self._modes_of_stopped:
                    termios.tcsetattr(self._keyboard, termios.TCSADRAIN, self._modes_of_stopped)
                os.tcsetpgrp(self._keyboard, process.pid)
        self._modes_of_stopped = None
        send_group(process, signal.SIGCONT)

    def _front(self) -> int:
        """Return the group in the foreground; Bantam's if the terminal does not tell."""
        try:
            return os.tcgetpgrp(self._keyboard)
        except OSError:
            return os.getpgrp()

    def _has_gone(self) -> bool:
        terminal = select.poll()
        terminal.register(self._keyboard, 0)
        return any(event & select.POLLHUP for _, event in terminal.poll(0))


def _new_line(terminal: TextIO) -> str:
    """Return what brings the cursor to the start of a line: a new one, if it is not at one.

    Where it is, nobody may ask. A row of blanks ends in the next row from anywhere but the start.
    """
    return " " * os.get_terminal_size(terminal.fileno()).columns + "\r\x1b[K"
