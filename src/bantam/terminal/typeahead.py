"""What is typed while the editor does not read is not shown, not lost, and not sent.

It waits in the terminal's own queue, which in this mode refuses what it cannot hold instead of
dropping it. What it refuses may be a Ctrl+C: the queue must be drained meanwhile. No thread does
so: it would take the keys of whatever else is asked.

Kept are the keys as they came, and what they do is left to the editor. Here is known of them where
an Enter ends a line: each line is for a prompt of its own, or a command typed behind a text would
become part of it.

Ctrl+Z is a key among the others. As a signal it would stop a process before this one, and its shell
would go on, in the modes of here, before a handler has run. As a key it is taken where nothing else
happens: first the modes are put back, then all of the job is stopped.
"""

import os
import re
import select
import signal
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, TextIO

# A paste that the queue refused comes on as soon as there is room.
_SILENCE_S: Final = 0.02
_MOST_BYTES: Final = 16 << 20  # more than any model takes
_READ_BYTES: Final = 65536
_INPUT_FLAGS, _LOCAL_FLAGS, _SPECIAL_CHARACTERS = 0, 3, 6  # in what tcgetattr returns
_FOR_A_LINE: Final = termios.ECHO | termios.ICANON
_MARKS_ON, _MARKS_OFF = "\x1b[?2004h", "\x1b[?2004l"  # the terminal then marks pastes (xterm)
_MARK: Final = re.compile(rb"\x1b\[20[01]~|\x1b(?:\[(?:20?[01]?)?)?\Z")  # the last may be cut
_MARK_BYTES: Final = 6
# An Enter in a paste, or with Alt, ends no line.
_PASTE: Final = rb"\x1b\[200~(?:[^\x1b]+|\x1b(?!\[201~))*(?:\x1b\[201~|\Z)"
_LINE: Final = re.compile(rb"\r*((?:[^\r\x1b]+|" + _PASTE + rb"|\x1b\r?)*)\r?")
_OPEN_PASTE: Final = re.compile(rb"\x1b\[200~(?!.*\x1b\[201~)", re.DOTALL)


class TypeAhead:
    """Keeps what is typed on the terminal `fd`; nothing where there is none.

    `out` is where the terminal is asked to mark pastes.
    """

    def __init__(self, fd: int, out: TextIO | None = None) -> None:
        self._fd = fd
        self._out = out
        self._raw = bytearray()
        self._is_to_stop = False  # the key that stops a job has come
        self._before: list[Any] = []  # the terminal's modes outside of `kept`

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep what is typed meanwhile. Ctrl+C still sends its signal.

        Afterwards the terminal's modes are what they were, or what a shell has set that had
        stopped us.
        """
        outside = self._before
        try:
            self._before = termios.tcgetattr(self._fd)
        except termios.error:
            yield
            return
        self._mute()
        try:
            yield
        finally:
            with suppress(OSError, termios.error):  # the terminal has gone away
                self._mute_again()
                self._collect(_SILENCE_S)
                self._unmute()
                if self._is_to_stop:
                    self._stop()
            self._before = outside

    def drain(self) -> None:
        """Keep what has come by now, or stop if that was a Ctrl+Z; wait for nothing else.

        For within `kept`.
        """
        with suppress(OSError, termios.error):  # the terminal has gone away
            if not self._may_read():
                return
            self._mute_again()
            self._collect(0)
            if self._is_to_stop:
                self._unmute()
                self._stop()
                if self._may_read():
                    self._mute_again()

    def keep(self, keys: bytes) -> None:
        """Keep `keys`, which were typed and already read, too."""
        self._raw += keys
        if len(self._raw) > _MOST_BYTES:
            # What is too much goes, but for the marks of pastes: what is between them is no key.
            end = self._raw.rfind(b"\x1b", _MOST_BYTES - _MARK_BYTES + 1, _MOST_BYTES)
            end = _MOST_BYTES if end < 0 else end
            self._raw[end:] = b"".join(_MARK.findall(self._raw[end:]))

    def take(self) -> bytes:
        """Return the keys of the next line, without its Enter, and forget them.

        A paste that has not ended comes with it, from behind what waits: its end will be read by
        whoever reads now, and would else be keys.
        """
        line = _LINE.match(self._raw)
        keys = bytes(line[1]) if line else b""
        del self._raw[: line.end() if line else 0]
        if paste := _OPEN_PASTE.search(self._raw):
            keys += self._raw[paste.start() :]
            del self._raw[paste.start() :]
        if self._raw:
            self._raw += b"\r"  # what is typed later is another line
        return keys

    def forget(self) -> None:
        """Forget what was typed."""
        self._raw.clear()

    def _mute(self) -> None:
        muted = self._before.copy()
        muted[_INPUT_FLAGS] &= ~(termios.ICRNL | termios.INLCR | termios.IGNCR)
        muted[_LOCAL_FLAGS] &= ~_FOR_A_LINE
        muted[_LOCAL_FLAGS] |= termios.NOFLSH  # or Ctrl+C would discard what was typed before it
        muted[_SPECIAL_CHARACTERS] = list(muted[_SPECIAL_CHARACTERS])
        muted[_SPECIAL_CHARACTERS][termios.VMIN] = 1
        muted[_SPECIAL_CHARACTERS][termios.VTIME] = 0
        muted[_SPECIAL_CHARACTERS][termios.VSUSP] = self._no_key()
        termios.tcsetattr(self._fd, termios.TCSANOW, muted)
        if self._was_for_a_line():
            # An Enter that came in a moment of those modes was made what Ctrl+J is.
            self._collect(0, b"\n")
        self._tell(_MARKS_ON)

    def _mute_again(self) -> None:
        """Mute what a shell that had the terminal meanwhile has set: now that comes afterwards."""
        modes = termios.tcgetattr(self._fd)
        if modes[_LOCAL_FLAGS] & _FOR_A_LINE:
            self._before = modes
            self._mute()

    def _unmute(self) -> None:
        if self._was_for_a_line():
            self._tell(_MARKS_OFF)
        # Not TCSAFLUSH: it discards what came in this moment.
        termios.tcsetattr(self._fd, termios.TCSANOW, self._before)

    def _was_for_a_line(self) -> bool:
        return bool(self._before[_LOCAL_FLAGS] & termios.ICANON)

    def _tell(self, code: str) -> None:
        if self._out is not None:
            with suppress(OSError):  # whoever writes next meets it, where it can be told
                self._out.write(code)
                self._out.flush()

    def _stop(self) -> None:
        self._is_to_stop = False
        os.kill(0, signal.SIGTSTP)  # which a job that nobody could bring back survives

    def _no_key(self) -> bytes:
        """Return what stands in the modes for a key that there is not."""
        return bytes([os.fpathconf(self._fd, "PC_VDISABLE")])

    def _may_read(self) -> bool:
        """Return whether reading does not stop us, as it stops a job in the background."""
        try:
            return os.tcgetpgrp(self._fd) == os.getpgrp()
        except OSError:  # it is not the terminal that controls us
            return True

    def _collect(self, silence: float, enter: bytes = b"\r") -> None:
        """Keep what comes, in which `enter` is an Enter, until none has for `silence` seconds."""
        stop = self._before[_SPECIAL_CHARACTERS][termios.VSUSP]
        patience = 0.0
        part: bytes | None = None
        while part != b"" and self._has_come(patience):
            part = os.read(self._fd, _READ_BYTES)
            if stop in part and stop != self._no_key():
                self._is_to_stop = True
                part = part.replace(stop, b"")
            self.keep(part.replace(enter, b"\r"))
            patience = silence

    def _has_come(self, patience: float) -> bool:
        return bool(select.select([self._fd], [], [], patience)[0])
