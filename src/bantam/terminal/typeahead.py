"""What is typed while the editor does not read is not shown, not lost, and not sent.

It waits in the terminal's own queue, which in this mode refuses what it cannot hold instead of
dropping it. What it refuses may be a Ctrl+C: the queue must be drained meanwhile. No thread does
so: it would take the keys of whatever else is asked.

Ctrl+Z is a key among the others. As a signal it would stop a process before this one, and its shell
would go on, in the modes of here, before a handler has run. As a key it is taken where nothing else
happens: first the modes are put back, then all of the job is stopped.
"""

import codecs
import os
import re
import select
import signal
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from bantam.core.text import screen_text

# A paste that the queue refused comes on as soon as there is room.
_SILENCE_S: Final = 0.02
_MOST_BYTES: Final = 1 << 20
_LOCAL_FLAGS, _SPECIAL_CHARACTERS = 3, 6  # in what tcgetattr returns
_FOR_A_LINE: Final = termios.ECHO | termios.ICANON
# A key that is no character (xterm's control sequences, F1 to F5 of the Linux console), or Alt and
# one; but Alt+Enter is a line break.
_KEY: Final = re.compile(r"\x1b(?:\[\[[A-E]|\[[0-?]*+[ -/]*+[@-~]|O[ -~]|[^\r\n\x1b])?")
_BACKSPACE: Final = "\x08\x7f"


class TypeAhead:
    """Keeps what is typed on the terminal `fd`; nothing where there is none."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._raw = b""
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
                if self._is_to_stop():
                    os.kill(0, signal.SIGTSTP)
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
            if self._is_to_stop():
                self._unmute()
                os.kill(0, signal.SIGTSTP)  # which a job that nobody could bring back survives
                if self._may_read():
                    self._mute_again()

    def keep(self, text: str) -> None:
        """Keep `text`, which was typed and already read, too."""
        self._raw += text.encode("utf-8", "replace")

    def take(self) -> str:
        """Return what was typed, and forget it."""
        raw, self._raw = self._raw, b""
        return typed_text(raw)

    def _mute(self) -> None:
        muted = self._before.copy()
        muted[_LOCAL_FLAGS] &= ~_FOR_A_LINE
        muted[_LOCAL_FLAGS] |= termios.NOFLSH  # or Ctrl+C would discard what was typed before it
        muted[_SPECIAL_CHARACTERS] = list(muted[_SPECIAL_CHARACTERS])
        muted[_SPECIAL_CHARACTERS][termios.VMIN] = 1
        muted[_SPECIAL_CHARACTERS][termios.VTIME] = 0
        muted[_SPECIAL_CHARACTERS][termios.VSUSP] = self._no_key()
        termios.tcsetattr(self._fd, termios.TCSANOW, muted)

    def _mute_again(self) -> None:
        """Mute what a shell that had the terminal meanwhile has set: now that comes afterwards."""
        modes = termios.tcgetattr(self._fd)
        if modes[_LOCAL_FLAGS] & _FOR_A_LINE:
            self._before = modes
            self._mute()

    def _unmute(self) -> None:
        # Not TCSAFLUSH: it discards what came in this moment.
        termios.tcsetattr(self._fd, termios.TCSANOW, self._before)

    def _is_to_stop(self) -> bool:
        """Return whether the key that stops a job has come, and forget that."""
        key = self._before[_SPECIAL_CHARACTERS][termios.VSUSP]
        if key == self._no_key() or key not in self._raw:
            return False
        self._raw = self._raw.replace(key, b"")
        return True

    def _no_key(self) -> bytes:
        """Return what stands in the modes for a key that there is not."""
        return bytes([os.fpathconf(self._fd, "PC_VDISABLE")])

    def _may_read(self) -> bool:
        """Return whether reading does not stop us, as it stops a job in the background."""
        try:
            return os.tcgetpgrp(self._fd) == os.getpgrp()
        except OSError:  # it is not the terminal that controls us
            return True

    def _collect(self, silence: float) -> None:
        """Keep what comes, until nothing has come for `silence` seconds."""
        patience = 0.0
        part: bytes | None = None
        while part != b"" and len(self._raw) < _MOST_BYTES and self._has_come(patience):
            part = os.read(self._fd, _MOST_BYTES)
            self._raw += part
            patience = silence

    def _has_come(self, patience: float) -> bool:
        return bool(select.select([self._fd], [], [], patience)[0])


def typed_text(raw: bytes) -> str:
    r"""Return the text that the keys `raw` (UTF-8) make: line breaks stay, Backspace is applied.

    Keys that are no characters go, and a character that is cut at the end.

    >>> typed_text(b"ab\x7fc\x1b[A\rd\xc3")
    'ac\nd'
    """
    keys = codecs.getincrementaldecoder("utf-8")("replace").decode(raw)
    text: list[str] = []
    for character in _KEY.sub("", keys).replace("\r\n", "\n").replace("\r", "\n"):
        if character not in _BACKSPACE:
            text.append(character)
        elif text:
            text.pop()
    return screen_text("".join(text))
