"""The lines of an undo log: what a turn did, one thing a line, in JSON.

    {"sum": "5f0c1e22", "number": 3, "turn": 7, ...

and then one of these, which belongs to that turn whatever becomes of the other lines:

    "begin": [paths]}                       it begins; of these files older records were dropped
    "write": {...}, "removed": "base64"}    a `Change`; no bytes where they were too many
    "lost": path}                           a change of that file could not be kept
    "shell": "command"}                     what ran, and cannot be taken back
    "undone": 5}                            nothing is left of the turns 5 to 7

The sum (CRC-32 of what follows it) tells a damaged line, the number a missing one.
"""

import json
import os
import re
from base64 import b64decode, b64encode
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NamedTuple
from zlib import crc32

from bantam.core.changes import PERMISSIONS, Change
from bantam.sessions.files import encoded


class Kind(StrEnum):
    """What a line tells; the name of its member."""

    BEGIN = "begin"
    WRITE = "write"
    LOST = "lost"
    SHELL = "shell"
    UNDONE = "undone"


_HEAD: Final = (
    rb'\{"sum": "([0-9a-f]{8})", ()"number": ([0-9]{1,15}), "turn": ([0-9]{1,15}), "(%s)": '
    % "|".join(Kind).encode()
)
_DIGEST: Final = r"[0-9a-f]{64}"


class Entry(NamedTuple):
    """What is to be written of a turn; `removed` are bytes of a write."""

    turn: int
    kind: Kind
    value: Any
    removed: bytes | None = None

    def line(self, number: int) -> list[bytes]:
        """Return it as a line with that number, in pieces: the bytes of a write are many."""
        head = {"number": number, "turn": self.turn, self.kind: self.value}
        body = [encoded(head)[1:]]
        if self.removed is not None:
            body = [body[0][:-1], b', "removed": "', b64encode(self.removed), b'"}']
        checksum = 0
        for piece in body:
            checksum = crc32(piece, checksum)
        return [b'{"sum": "%08x", ' % checksum, *body, b"\n"]


def written(turn: int, change: Change) -> Entry:
    """Return `change` as what that turn did."""
    fields = asdict(change)
    removed = fields.pop("removed")
    return Entry(turn, Kind.WRITE, fields, removed)


class Record(NamedTuple):
    """A line, without its end, whose sum is right."""

    number: int
    turn: int
    kind: Kind
    line: bytes

    def value(self) -> Change | str | frozenset[str] | int | None:
        """Return what it tells, by its kind; None for what no log has written."""
        try:
            fields = json.loads(self.line)
            match self.kind, fields[self.kind]:
                case Kind.WRITE, dict(change):
                    return _change(change, fields.get("removed"))
                case ((Kind.LOST | Kind.SHELL), str(text)):
                    return text
                case Kind.BEGIN, [*paths]:
                    return frozenset(path for path in paths if isinstance(path, str))
                case Kind.UNDONE, int(oldest) if 0 < oldest <= self.turn:
                    return oldest
        except (ValueError, RecursionError):
            pass
        return None

    def paths(self) -> frozenset[str]:
        """Return the files that it names."""
        match self.kind, self.value():
            case _, Change(path=path):
                return frozenset([path])
            case Kind.LOST, str(path):
                return frozenset([path])
            case _, frozenset(paths):
                return paths
        return frozenset()

    def oldest(self) -> int:
        """Return the oldest turn that it tells of; `turn` is the newest."""
        value = self.value() if self.kind is Kind.UNDONE else None
        return value if isinstance(value, int) else self.turn


def parsed(line: bytes) -> Record | None:
    """Return the record of a line without its end; None for one that is damaged."""
    head = re.match(_HEAD, line)
    if head is None or crc32(memoryview(line)[head.start(2) :]) != int(head[1], 16):
        return None
    return Record(int(head[3]), int(head[4]), Kind(head[5].decode()), line)


@dataclass(frozen=True, slots=True)
class Turn:
    """What one turn did, oldest first; its number is 0 where there is none to undo.

    `lost`: paths of files of which not every change is known. `damage`: why not all that it did is
    known, or "". `has_older`: whether another can be undone after it.
    """

    number: int = 0
    changes: tuple[Change, ...] = ()
    commands: tuple[str, ...] = ()
    lost: frozenset[str] = frozenset()
    damage: str = ""
    has_older: bool = False


@dataclass(slots=True)
class Found:
    """What the records of one turn tell, gathered in their order."""

    is_there: bool = False
    is_broken: bool = True  # a record is missing; before the turn's begin any may be
    changes: list[Change] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    lost: set[str] = field(default_factory=set)

    def add(self, record: Record) -> None:
        """Take one more record of the turn."""
        self.is_there = True
        match record.kind, record.value():
            case Kind.BEGIN, frozenset(paths):
                self.is_broken = False
                self.lost |= paths
            case Kind.LOST, str(path):
                self.lost.add(path)
            case Kind.SHELL, str(command):
                self.commands.append(command)
            case _, Change() as change:
                # Its first change may be the one that is missing.
                if self.is_broken and change.path not in {known.path for known in self.changes}:
                    self.lost.add(change.path)
                self.changes.append(change)
            case _:
                self.is_broken = True

    def turn(self, number: int, path: Path, *, has_older: bool) -> Turn:
        """Return what the turn did, by all that was found in the file `path`."""
        damage = f"not all that turn {number} did is known: {path} is damaged"
        if not self.is_there:
            damage = f"what turn {number} wrote was not kept, so it cannot be put back; "
            damage += "nothing was changed"
        elif not self.is_broken:
            damage = ""
        done = tuple(self.changes), tuple(self.commands), frozenset(self.lost)
        return Turn(number, *done, damage, has_older)


def _change(fields: dict[str, Any], removed: object) -> Change | None:
    """Return the change of these fields, None if one is missing or wrong; raises ValueError too."""
    match fields:
        case {
            "path": str(path),
            "before": str(before),
            "after": str(after),
            "mode": mode,
            "offset": offset,
            "added": added,
            "folders": [*folders],
        } if all(map(_is_absolute_path, (path, *folders))):
            pass
        case _:
            return None
    if not (re.fullmatch(_DIGEST, after) and _is_count(offset) and _is_count(added)):
        return None
    kept = b64decode(removed, validate=True) if isinstance(removed, str) else None
    if before:
        is_one = re.fullmatch(_DIGEST, before) and _is_count(mode) and mode <= PERMISSIONS
    else:  # where no file was, there was nothing to delete, and no place but the start
        is_one = (mode, offset, kept) == (None, 0, b"")
    return (
        Change(path, before, after, mode, offset, added, kept, tuple(folders)) if is_one else None
    )


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0  # a bool is an int, too


def _is_absolute_path(value: object) -> bool:
    """Whether the system can be asked for `value`; raises ValueError for a lone surrogate."""
    if not isinstance(value, str) or b"\0" in os.fsencode(value):
        return False
    return Path(value).is_absolute()
