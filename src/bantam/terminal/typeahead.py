"""What is typed while the editor does not read is not shown, not lost, and not sent.

It waits in the terminal's own queue, which in this mode refuses what it cannot hold instead of
dropping it. What it refuses may be a Ctrl+C: the queue must be drained meanwhile. No thread does
so: it would take the keys of whatever else is asked.
"""

import codecs
import os
import re
import select
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from bantam.core.text import screen_text

# A paste that the queue refused comes on as soon as there is room.
_SILENCE_S: Final = 0.02
_MOST_BYTES: Final = 1 << 20
_LOCAL_FLAGS, _SPECIAL_CHARACTERS = 3, 6  # in what tcgetattr returns
# A key that is no character (xterm's control sequences, F1 to F5 of the Linux console), or Alt and
# one; but Alt+Enter is a line break.
_KEY: Final = re.compile(r"\x1b(?:\[\[[A-E]|\[[0-?]*+[ -/]*+[@-~]|O[ -~]|[^\r\n\x1b])?")
_BACKSPACE: Final = "\x08\x7f"


class TypeAhead:
    """Keeps what is typed on the terminal `fd`; nothing where there is none."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._raw = b""

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep what is typed meanwhile. Ctrl+C and its like still send signals.

        Afterwards the terminal's modes are what they were.
        """
        try:
            before = termios.tcgetattr(self._fd)
        except termios.error:
            yield
            return
        self._mute(before)
        try:
            yield
        finally:
            with suppress(OSError, termios.error):  # the terminal has gone away
                self._mute(before)  # a shell that had stopped us has set its own
                self._collect(_SILENCE_S)
                # Not TCSAFLUSH: it discards what came in this moment.
                termios.tcsetattr(self._fd, termios.TCSANOW, before)

    def drain(self) -> None:
        """Keep what has come by now; wait for nothing. For within `kept`."""
        with suppress(OSError):  # the terminal has gone away
            if self._may_read():
                self._collect(0)

    def keep(self, text: str) -> None:
        """Keep `text`, which was typed and already read, too."""
        self._raw += text.encode("utf-8", "replace")

    def take(self) -> str:
        """Return what was typed, and forget it."""
        raw, self._raw = self._raw, b""
        return typed_text(raw)

    def _mute(self, modes: list[Any]) -> None:
        muted = modes.copy()
        muted[_LOCAL_FLAGS] &= ~(termios.ECHO | termios.ICANON)
        muted[_LOCAL_FLAGS] |= termios.NOFLSH  # or Ctrl+C would discard what was typed before it
        muted[_SPECIAL_CHARACTERS] = list(muted[_SPECIAL_CHARACTERS])
        muted[_SPECIAL_CHARACTERS][termios.VMIN] = 1
        muted[_SPECIAL_CHARACTERS][termios.VTIME] = 0
        termios.tcsetattr(self._fd, termios.TCSANOW, muted)

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
