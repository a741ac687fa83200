"""What the last turns changed in files, kept beside the session until it is taken back.

One file of JSON lines, each durable before the change that it tells of:

    {"turn": [paths]}       a turn begins; of these files older records of it were dropped
    {"write": {...}}        a `Change`, its removed bytes in base64
    {"shell": "command"}    what ran, and cannot be taken back

The turns are a stack: once the newest is dropped, the one before it is the newest. What cannot be
read (a line that a crash cut off, damage) is skipped. The file stays under a bound; the oldest
records go first. Only one process may use it, as its session's lock says.
"""

import json
import os
from base64 import b64decode, b64encode
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, Final

from bantam.core.changes import Change
from bantam.core.text import shortened
from bantam.sessions import files

_MOST_BYTES: Final = 64 * 1024 * 1024  # SPEC section 12
# Of the bound, what one dropping of old records leaves: it is then not needed at every record.
_SHARE_LEFT: Final = 0.75
_COMMAND_CHARACTERS: Final = 200


@dataclass(frozen=True, slots=True)
class Turn:
    """What one turn did, oldest first.

    `incomplete`: paths of files of which older changes of this turn were dropped.
    """

    changes: tuple[Change, ...] = ()
    commands: tuple[str, ...] = ()
    incomplete: frozenset[str] = frozenset()


class UndoLog:
    """The changes of a session. Every method raises OSError as the system gives it."""

    def __init__(self, path: Path, most_bytes: int = _MOST_BYTES) -> None:
        """Keep them in the file `path`, made when there is something to keep."""
        self._path = path
        self._most = most_bytes
        self._room = int(most_bytes * _SHARE_LEFT)
        # A process that stopped has left a turn behind: what comes now belongs to another one.
        self._has_begun = False

    def begin(self) -> None:
        """Let what follows belong to a new turn, even if the file cannot be written just now."""
        self._has_begun = False
        if self._size():
            self._append(b"")

    def keep(self, change: Change) -> None:
        """Keep `change`, without its bytes if they are too many; durable when this returns."""
        line = _line_of(change)
        if len(line) > self._room:
            line = _line_of(replace(change, removed=None))
        self._append(line)

    def ran(self, command: str) -> None:
        """Note that a command ran; the beginning of it is kept."""
        self._append(_line({"shell": shortened(command, _COMMAND_CHARACTERS)}))

    def last(self) -> Turn:
        """Return what the newest turn did; nothing if there is none."""
        changes: list[Change] = []
        commands: list[str] = []
        incomplete: frozenset[str] = frozenset()
        for line in self._lines():
            match _record(line):
                case Change() as change:
                    changes.append(change)
                case str(command):
                    commands.append(command)
                case frozenset() as incomplete:
                    changes, commands = [], []
        return Turn(tuple(changes), tuple(commands), incomplete)

    def drop(self, remaining: Iterable[Change] = ()) -> None:
        """Take the newest turn away, all of it but the changes `remaining`."""
        left = [_line_of(change) for change in remaining]
        begin = 0
        for number, line in enumerate(self._lines()):
            if isinstance(_record(line), frozenset):
                begin = number
        if self._size():
            older = islice(self._lines(), begin)
            files.replace(self._path, chain(older, [_begin_line(), *left] if left else []))
        self._has_begun = False
