"""Where the interactive prompt's lines come from: the port, and the plain reader behind it.

The plain one serves piped standard input, a line an input, and terminals that can only print. It
reads when a line is wanted and not before: what is run in between may need the same terminal.
"""

import codecs
import os
import select
import sys
from contextlib import AbstractContextManager, nullcontext, suppress
from queue import SimpleQueue
from threading import Thread
from typing import Final, Protocol, TextIO

from bantam.core.cancel import Cancel, Inbox
from bantam.core.errors import ConfigError
from bantam.terminal.prompts import STDIN

_READ_BYTES: Final = 65536
_SOON_S: Final = 1.0  # for a thread to hand on what is there
_LINE_BYTES: Final = 16 << 20  # more than any model takes


class Lines(Protocol):
    """What the user types."""

    def read(self, prompt: str, cancel: Cancel) -> str | None:
        """Return the next input, None to leave. Raises Interrupted at once when cancelled.

        It starts with one line of what was typed ahead, which no Enter typed ahead sends; the lines
        behind it wait for their own `read`. It may have several lines.
        """
        ...

    def ask(self, question: str, cancel: Cancel) -> str | None:
        """Return the answer, a line typed after `question` was shown; None if there is none.

        It is not remembered. Raises Interrupted at once when cancelled.
        """
        ...

    def typing_ahead(self) -> AbstractContextManager[None]:
        """Keep what is typed meanwhile for the next `read`s, unseen."""
        ...


class PlainLines:
    """The lines of `source`, an open descriptor; `out`, where it is a terminal, shows prompts.

    No line editor, no escape code. Without `out` there is nobody to answer a question.
    """

    def __init__(self, source: int, out: TextIO | None = None) -> None:
        self._out = out
        self._source = source
        self._wanted: SimpleQueue[None] = SimpleQueue()
        self._parts: Inbox[bytes | OSError] = Inbox()
        self._is_reading = False  # a part was wanted and has not come
        self._is_first = True
        self._has_ended = False
        self._held = b""
        Thread(target=self._read_when_wanted, daemon=True).start()

    def read(self, prompt: str, cancel: Cancel) -> str | None:
        """Return the next line, without its end; what is not UTF-8 is U+FFFD.

        Raises ConfigError for what cannot be read, Interrupted at once when cancelled.
        """
        if self._out is not None:
            self._out.write(prompt)
            self._out.flush()
        while b"\n" not in self._held and not self._has_ended:
            self._held += self._next_part(cancel)
        cancel.check()  # the end may come in the same moment
        if not self._held:
            return None
        line, _, self._held = self._held.partition(b"\n")
        return line.removesuffix(b"\r").decode("utf-8", "replace")

    def ask(self, question: str, cancel: Cancel) -> str | None:
        """Return the next line of a terminal; lines typed before stay for the next `read`s."""
        if self._out is None:
            return None
        before, self._held = self._held + self._typed_before(cancel), b""
        _forget_half_a_line(self._source)
        try:
            return self.read(question, cancel)
        finally:
            self._held = before + self._held
            self._has_ended = False  # a terminal's Ctrl+D ends this line alone

    def typing_ahead(self) -> AbstractContextManager[None]:
        """Leave what is typed in the terminal, which shows it; the next `read` gets it."""
        return nullcontext()

    def _typed_before(self, cancel: Cancel) -> bytes:
        """Return what has come by now."""
        found = b""
        with suppress(TimeoutError):
            while not self._has_ended and (
                self._is_reading or select.select([self._source], [], [], 0)[0]
            ):
                found += self._next_part(cancel, 0 if self._is_reading else _SOON_S)
        return found

    def _next_part(self, cancel: Cancel, seconds: float | None = None) -> bytes:
        if not self._is_reading:
            self._wanted.put(None)
            self._is_reading = True
        part = cancel.get(self._parts, seconds)
        self._is_reading = False
        if isinstance(part, OSError):
            raise ConfigError(f"{STDIN}: {part.strerror}")
        if len(self._held) + len(part) > _LINE_BYTES:
            raise ConfigError(f"{STDIN}: a line is longer than {_LINE_BYTES >> 20} MiB")
        self._has_ended = not part
        part = part.removeprefix(codecs.BOM_UTF8) if self._is_first else part
        self._is_first = False
        return part

    def _read_when_wanted(self) -> None:
        while True:
            self._wanted.get()
            try:
                self._parts.put(self._read())
            except OSError as error:
                self._parts.put(error)

    def _read(self) -> bytes:
        while True:
            try:
                return os.read(self._source, _READ_BYTES)
            except BlockingIOError:  # there is nothing yet, and the parent has set O_NONBLOCK
                select.select([self._source], [], [])


def _forget_half_a_line(terminal: int) -> None:
    """Drop what was typed of a line that no Enter has ended: it would begin the answer."""
    if sys.platform == "win32":  # pragma: no cover  # no termios there
        return
    import termios

    with suppress(termios.error):  # it is gone: there will be no answer
        termios.tcflush(terminal, termios.TCIFLUSH)
