"""What the last turns changed in files, kept beside the session until it is taken back.

One file of `records`, each durable before the change that it tells of. The session numbers its
turns, from 1, and each record bears its turn's number: so one of which nothing could be written is
missed too, and no older one is taken for it. Below the oldest turn in the file there is nothing.
Of turns that were undone one mark is left. A line that a crash cut off is no damage: its change had
not happened. The file stays under a bound; the oldest turns go first. Only one process may use it,
as its session's lock says.
"""

import errno
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import chain, takewhile
from pathlib import Path
from typing import Final

from bantam.core.changes import Change
from bantam.core.text import shortened
from bantam.sessions import files
from bantam.sessions.records import Entry, Found, Kind, Record, Turn, parsed, written

_MOST_BYTES: Final = 64 * 1024 * 1024  # SPEC section 12
# Of the bound, what one dropping of old records leaves: it is then not needed at every record.
_SHARE_LEFT: Final = 0.75
_COMMAND_CHARACTERS: Final = 200


class UndoLog:
    """The changes of a session. Every method raises OSError as the system gives it."""

    def __init__(self, path: Path, most_bytes: int = _MOST_BYTES) -> None:
        """Keep them in the file `path`, made when there is something to keep."""
        self._path = path
        self._most = most_bytes
        self._room = int(most_bytes * _SHARE_LEFT)
        self._turn = 0
        self._waiting: list[Entry] = []  # written with the next one
        # Of the file as this log left it: its size, the next number, the newest turn.
        self._end, self._next, self._newest = 0, 1, 0

    def begin(self, turn: int) -> None:
        """Let what follows belong to that turn, even if the file cannot be written just now.

        Comes before all that is kept. Turns in the file from that number up are forgotten: they
        are of what the session has lost, or of another one.
        """
        self._turn = turn
        self._waiting.append(Entry(turn, Kind.BEGIN, []))
        if self._size() == 0 and all(entry.kind is Kind.BEGIN for entry in self._waiting):
            del self._waiting[:-1]  # turns that write nothing make no file
        else:
            self._append()

    def keep(self, change: Change, stored: str = "") -> None:
        """Keep `change`, without its bytes if they are too many; durable when this returns.

        `stored`: its path as it may be stored, where that is another. After an OSError the turn
        cannot put that file back.
        """
        if stored not in ("", change.path):
            self._lose(stored)
            raise OSError(errno.EPERM, "its path holds a key")
        # Half of the room: base64 takes a third more, and names their part.
        if change.removed is not None and len(change.removed) > self._room // 2:
            change = replace(change, removed=None)
        try:
            self._append(written(self._turn, change))
        except OSError:
            self._lose(change.path)  # that may find room where the change did not
            raise

    def ran(self, command: str) -> None:
        """Note that a command ran; the beginning of it is kept."""
        self._append(Entry(self._turn, Kind.SHELL, shortened(command, _COMMAND_CHARACTERS)))

    def last(self, turn: int) -> Turn:
        """Return what the newest turn did that is not undone; `turn` is the session's last."""
        if self._waiting and self._end:
            self._append()  # else the file may tell of a turn that had this one's number
        number, older = self._newest_two(turn)
        if number == 0:
            return Turn()
        found = Found()
        for record in self._records():
            if record is None:
                found.is_broken = True
            elif record.turn == number:
                found.add(record)
            elif record.turn > number:
                break
        return found.turn(number, self._path, has_older=older > 0)

    def drop(self, turn: Turn, remaining: Iterable[Change] = ()) -> None:
        """Take the `last` turn away, all of it but the changes `remaining`."""
        if turn.number == 0:
            return
        self._refresh()
        left = [written(turn.number, change) for change in remaining]
        first, oldest, newest = self._next, turn.number, turn.number
        if left:
            left.insert(0, Entry(turn.number, Kind.BEGIN, []))
            oldest += 1
        for record in self._sound():
            if record.turn >= turn.number:
                first, newest = min(first, record.number), record.turn
            elif record.turn == oldest - 1 and record.kind is Kind.UNDONE:
                first, oldest = record.number, record.oldest()  # two marks become one
        if oldest <= newest:
            left.append(Entry(newest, Kind.UNDONE, oldest))
        lines = (entry.line(number) for number, entry in enumerate(left, first))
        older = _lines_of(record for record in self._sound() if record.number < first)
        self._rewrite(chain(older, chain.from_iterable(lines)))
        self._next, self._newest = first + len(left), newest

    def _lose(self, path: str) -> None:
        """Note that a change of the file `path` is not kept; what fails now comes later."""
        lost = Entry(self._turn, Kind.LOST, path)
        if lost not in self._waiting:
            self._waiting.append(lost)
        with suppress(OSError):
            self._append()

    def _newest_two(self, turn: int) -> tuple[int, int]:
        """Return the newest turns that are not undone; 0 for none."""
        undone: dict[int, int] = {}
        oldest, newest, is_damaged = 0, turn, False
        for record in self._records():
            if record is None:
                is_damaged = True
                continue
            bottom = record.oldest()
            # What is damaged before the first good record may be another turn.
            oldest = oldest or max(1, bottom - is_damaged)
            newest = max(newest, record.turn)
            if record.kind is Kind.UNDONE:
                undone[record.turn] = bottom
        oldest = oldest or (1 if is_damaged else newest + 1)
        number = _below(newest + 1, undone, oldest)
        return number, _below(number, undone, oldest)

    # -- the file -----------------------------------------------------------------------------

    def _append(self, *entries: Entry) -> None:
        """Write what waits, then `entries`."""
        self._refresh()
        entries = (*self._waiting, *entries)
        if entries[0].kind is Kind.BEGIN and entries[0].turn <= self._newest:
            self._forget(entries[0].turn)
        lines = [entry.line(number) for number, entry in enumerate(entries, self._next)]
        needed = sum(map(len, chain.from_iterable(lines)))
        if self._end + needed > self._most:
            self._make_room(needed)
        files.make_private(self._path.parent)
        fd = files.opened(self._path, os.O_RDWR | os.O_CREAT)
        with os.fdopen(fd, "rb+") as file:
            file.truncate(self._end)  # a crash may have cut the last line off
            file.seek(self._end)
            file.writelines(chain.from_iterable(lines))
            file.flush()
            os.fsync(fd)
        if self._end == 0:
            files.sync_folder(self._path.parent)
        self._end += needed
        self._next += len(lines)
        self._newest = entries[-1].turn
        self._waiting.clear()

    def _forget(self, turn: int) -> None:
        """Cut off the file's end, from that turn on; a full disk has room for that."""

        def is_older(line: bytes) -> bool:
            record = parsed(line.removesuffix(b"\n"))
            return record is None or record.turn < turn

        os.truncate(self._path, sum(map(len, takewhile(is_older, self._lines()))))
        self._refresh()

    def _make_room(self, needed: int) -> None:
        """Drop the oldest turns, so that the file has room for `needed` bytes.

        Of the turn in hand only the oldest records are dropped, and their files noted.
        """
        sizes = [(record.number, record.turn, len(record.line) + 1) for record in self._sound()]
        excess = sum(size for _, _, size in sizes) + needed - self._room
        number = turn = 0  # of the last record that is dropped
        for each in sizes:
            if excess <= 0 and (each[1] != turn or turn == self._turn):
                break
            number, turn, size = each
            excess -= size
        begin: list[bytes] = []
        if turn == self._turn:
            dropped = (r.paths() for r in self._sound() if r.turn == turn and r.number <= number)
            begin = Entry(turn, Kind.BEGIN, sorted(frozenset().union(*dropped))).line(number)
        kept = (record for record in self._sound() if record.number > number)
        self._rewrite(chain(begin, _lines_of(kept)))

    def _rewrite(self, lines: Iterable[bytes]) -> None:
        files.replace(self._path, lines)
        self._end = self._size()

    def _refresh(self) -> None:
        """Learn how the file ends, if it is not as this log left it."""
        if self._size() == self._end:
            return
        self._next, self._newest = 1, 0
        for record in self._records():
            self._next += 1  # what is damaged stays a gap
            if record is not None:
                self._next, self._newest = record.number + 1, record.turn
        self._end = sum(len(line) for line in self._lines() if line.endswith(b"\n"))

    def _sound(self) -> Iterator[Record]:
        return (record for record in self._records() if record is not None)

    def _records(self) -> Iterator[Record | None]:
        """Yield the records, oldest first, and None where some are damaged or missing."""
        number = turn = 0
        for line in self._lines():
            record = parsed(line.removesuffix(b"\n"))
            if record is None and not line.endswith(b"\n"):
                record = parsed(line[:-1])  # it may be damaged at its end alone
                if record is None:
                    return
            if record is None or record.number <= number or record.turn < turn:
                yield None
                continue
            if number and record.number > number + 1:
                yield None
            yield record
            number, turn = record.number, record.turn

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
            if os.fstat(file.fileno()).st_size > 2 * self._most:  # no log of ours
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(self._path))
            yield from file


def _lines_of(records: Iterable[Record]) -> Iterator[bytes]:
    return (piece for record in records for piece in (record.line, b"\n"))


def _below(turn: int, undone: Mapping[int, int], oldest: int) -> int:
    """Return the newest turn below `turn` that is not undone (newest -> oldest of each run)."""
    turn -= 1
    while turn in undone:
        turn = undone[turn] - 1
    return turn if turn >= oldest else 0
