"""`!command` at the prompt: it has the terminal, and leaves nothing behind but what it did."""

import os
import signal
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, TextIO

from bantam.core.cancel import Cancel
from bantam.terminal.command import Listen, run_command
from bantam.terminal.interrupts import Interrupts

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
        with _kept(terminal):
            raw = os.fsencode(command)
            return run_command(raw, cancel, noted, name="the command", stdin=given)
    finally:
        listen(interrupts.hear)


@contextmanager
def _kept(terminal: TextIO | None) -> Iterator[None]:
    """Let the terminal be as before, whatever happens to it meanwhile."""
    if terminal is None:
        yield
        return
    keyboard = sys.stdin.fileno()
    modes = termios.tcgetattr(keyboard)
    try:
        yield
    finally:
        with suppress(OSError, termios.error):  # the terminal has gone away
            _take_back(keyboard)
            termios.tcsetattr(keyboard, termios.TCSADRAIN, modes)
            if os.environ.get("TERM") != "dumb":
                terminal.write(_PLAIN_AGAIN + _new_line(terminal))
                terminal.flush()


def _take_back(keyboard: int) -> None:
    """Be in the foreground again: a shell that was killed has left itself there."""
    if os.tcgetpgrp(keyboard) != os.getpgrp():
        # From the background this call stops who makes it, unless that is ignored (tcsetpgrp(3)).
        before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        os.tcsetpgrp(keyboard, os.getpgrp())
        signal.signal(signal.SIGTTOU, before)


def _new_line(terminal: TextIO) -> str:
    """Return what brings the cursor to the start of a line: a new one, if it is not at one.

    Where it is, nobody may ask. A row of blanks ends in the next row from anywhere but the start.
    """
    return " " * os.get_terminal_size(terminal.fileno()).columns + "\r\x1b[K"
