"""A person at a terminal in which a program runs: keys go in, a screen comes out."""

import fcntl
import json
import os
import struct
import sys
import termios
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pexpect
import pyte
from program import environment

DRIVER: Final = (sys.executable, str(Path(__file__).with_name("editor_driver.py")))
# The editor asks the terminal to mark pastes and then draws; what only keeps keys does not draw.
TAKES_KEYS: Final = b"\x1b[?2004h\x1b[?"
_TAKES_NONE: Final = b"\x1b[?2004l"
_PLAIN_PROMPT: Final = b"> "
_PATIENCE_S: Final = 30


class Typist:
    """`child`, started in `folder`, on a terminal; `screen` is what that shows by now."""

    def __init__(self, child: Any, folder: Path, columns: int, rows: int) -> None:
        self.child = child
        self.folder = folder
        self.raw = b""
        self.screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        self.modes = _modes_of_a_new_terminal()

    def until(self, condition: Callable[[], object]) -> None:
        """Read what the program writes until `condition` is true."""
        try:
            while not condition():
                self._feed(self.child.read_nonblocking(65536, _PATIENCE_S))
        except pexpect.ExceptionPexpect as error:
            error.add_note("\n".join(["the screen shows:", *self.lines]))
            raise

    def ready(self) -> None:
        """Wait until a prompt is shown and takes keys."""
        self.until(
            lambda: (
                self.raw.rfind(TAKES_KEYS) > self.raw.rfind(_TAKES_NONE)
                or self.raw.endswith(_PLAIN_PROMPT)
            )
        )

    def type(self, keys: str) -> None:
        """Press `keys`."""
        rest = keys.encode("utf-8", "surrogateescape")
        while rest:
            rest = rest[os.write(self.child.child_fd, rest) :]

    def shows(self, text: str) -> None:
        """Wait until the screen shows `text`."""
        self.until(lambda: text in "\n".join(self.lines))

    def looks(self, *lines: str, below: str | None = None) -> None:
        """Wait until the screen shows exactly `lines`; with `below`, under the last such row."""

        def seen() -> list[str]:
            rows = self.lines
            return rows[len(rows) - rows[::-1].index(below) :] if below in rows else rows

        with suppress(pexpect.TIMEOUT, pexpect.EOF, ValueError):
            self.until(lambda: seen() == list(lines))
        assert seen() == list(lines), "\n".join(["it shows:", *self.lines, "and not:", *lines])

    def resize(self, columns: int, rows: int) -> None:
        """Let the terminal have another size, and tell the program."""
        self.screen.resize(rows, columns)
        self.tell_size(columns, rows)

    def rewrap(self, columns: int, rows: int) -> None:
        """Let the terminal have another size and wrap its rows anew, as tmux does; tell it."""
        parts = [
            line[at : at + columns]
            for line in self.lines
            for at in range(0, max(len(line), 1), columns)
        ]
        self.screen.reset()
        self.screen.resize(rows, columns)
        self._stream.feed("\r\n".join(parts).encode())
        self.tell_size(columns, rows)

    def tell_size(self, columns: int, rows: int) -> None:
        """Tell the program that the terminal has another size: what it shows stays as it is."""
        size = struct.pack("HHHH", rows, columns, 0, 0)
        fcntl.ioctl(self.child.child_fd, termios.TIOCSWINSZ, size)

    def end(self) -> int:
        """Read to the end; return the exit status. The terminal's modes are as before."""
        try:
            self.until(lambda: False)
        except pexpect.EOF:
            assert termios.tcgetattr(self.child.child_fd) == self.modes
        self.child.close()
        assert self.child.signalstatus is None
        status: int = self.child.exitstatus
        return status

    def leave(self) -> None:
        """Press Ctrl+D at the next prompt and wait for a good end."""
        self.ready()
        self.type("\x04")
        assert self.end() == 0
        assert self.said[-1] == {"end": True}

    @property
    def lines(self) -> list[str]:
        """The lines of the screen, without blanks at the ends and empty ones below."""
        return "\n".join(row.rstrip() for row in self.screen.display).rstrip().split("\n")

    @property
    def said(self) -> list[dict[str, Any]]:
        """What the driver has said."""
        lines = self.raw.decode("utf-8", "replace").split("\n")
        return [json.loads(line[line.index("{") :]) for line in lines if line.endswith("}\r")]

    @property
    def prompts(self) -> list[str]:
        """What was submitted."""
        return [line["prompt"] for line in self.said if "prompt" in line]

    def submitted(self, number: int = 1) -> list[str]:
        """Return the first prompts, once there are `number`."""
        self.until(lambda: len(self.prompts) >= number)
        return self.prompts

    def _feed(self, part: bytes) -> None:
        self.raw += part
        self._stream.feed(part)


def _modes_of_a_new_terminal() -> list[Any]:
    """Return what the child found; its own terminal may have been changed by now."""
    keyboard, terminal = os.openpty()
    modes = termios.tcgetattr(terminal)
    for fd in (keyboard, terminal):
        os.close(fd)
    return modes


@contextmanager
def typist(
    folder: Path,
    mode: str = "emacs",
    *,
    columns: int = 80,
    rows: int = 24,
    program: Sequence[str] = DRIVER,
    env: Mapping[str, str] | None = None,
) -> Iterator[Typist]:
    """Start the driver in `folder`, with a history there."""
    child = pexpect.spawn(
        program[0],
        [*program[1:], mode, str(folder / "history")] if program is DRIVER else list(program[1:]),
        cwd=str(folder),
        env=environment(folder, **{"TERM": "xterm-256color", **(env or {})}),
        dimensions=(rows, columns),
        timeout=_PATIENCE_S,
    )
    try:
        yield Typist(child, folder, columns, rows)
    finally:
        child.close(force=True)
