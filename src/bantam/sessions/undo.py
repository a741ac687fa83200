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
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final

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

    def _append(self, record: bytes) -> None:
        data = record if self._has_begun else _begin_line() + record
        if self._size() + len(data) >= self._most:  # a line end may have to be added
            self._make_room(len(data))
        files.make_private(self._path.parent)
        fd = files.opened(self._path, os.O_RDWR | os.O_CREAT)
        with os.fdopen(fd, "rb+", buffering=0) as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - 1))
            # A crash may have cut the last line off.
            fresh = b"" if file.read(1) in (b"", b"\n") else b"\n"
            files.write_at(fd, fresh + data, end)
        if end == 0:
            files.sync_folder(self._path.parent)
        self._has_begun = True

    def _make_room(self, needed: int) -> None:
        """Drop the oldest records, so that the file has room for `needed` bytes."""
        sizes = [len(line) for line in self._lines()]
        room, first = self._room - needed, len(sizes)
        while first and sizes[first - 1] <= room:
            first -= 1
            room -= sizes[first]
        # Of the turn that is cut: a file may be put back to how it was before it, or not at all.
        incomplete: frozenset[str] = frozenset()
        for line in islice(self._lines(), first):
            match _record(line):
                case Change(path=path):
                    incomplete |= {path}
                case frozenset() as incomplete:
                    pass
        kept = islice(self._lines(), first, None)
        files.replace(self._path, chain([_begin_line(incomplete)], kept))

    def _size(self) -> int:
        try:
            return self._path.stat().st_size
        except FileNotFoundError:
            return 0

    def _lines(self) -> Iterator[bytes]:
        try:
            file = files.reader(self._path)
        except FileNotFoundError:
            return
        with file:
            yield from file


def _line(value: dict[str, Any]) -> bytes:
    return files.encoded(value) + b"\n"


def _begin_line(incomplete: Iterable[str] = ()) -> bytes:
    return _line({"turn": sorted(incomplete)})


def _line_of(change: Change) -> bytes:
    removed = None if change.removed is None else b64encode(change.removed).decode()
    return _line({"write": {**asdict(change), "removed": removed}})


def _record(line: bytes) -> Change | str | frozenset[str] | None:
    """Return a change, a command, or the paths of a turn's begin; None for what is none of them."""
    try:
        match json.loads(line):
            case {"write": dict(fields)}:
                return _change(fields)
            case {"shell": str(command)}:
                return command
            case {"turn": [*paths]}:
                return frozenset(path for path in paths if isinstance(path, str))
    except (ValueError, RecursionError):
        pass
    return None


def _change(fields: dict[str, Any]) -> Change | None:
    """Return the change of these fields, None if one is missing or wrong; raises ValueError too.

    Numbers may be any: whether a change fits to its file is seen there.
    """
    match fields:
        case {
            "path": str(path),
            "before": str(before),
            "after": str(after),
            "mode": int() | None as mode,
            "offset": int(offset),
            "added": int(added),
            "removed": str() | None as removed,
            "folders": [*folders],
        } if all(map(_is_absolute_path, (path, *folders))):
            kept = None if removed is None else b64decode(removed, validate=True)
            return Change(path, before, after, mode, offset, added, kept, tuple(folders))
    return None


def _is_absolute_path(value: object) -> bool:
    """Whether the system can be asked for `value`; raises ValueError for a lone surrogate."""
    if not isinstance(value, str) or b"\0" in os.fsencode(value):
        return False
    return Path(value).is_absolute()
