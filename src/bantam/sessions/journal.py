"""The write-ahead log of the turn in hand, and the lock of its session: one file, `<id>.journal`.

JSON lines: a header with the generation of the snapshot that the journal extends, then what
happened, each line on the disk before its effect or its showing: `message`, `start` (a tool call
begins; its end is the tool's message) and `usage` (what a request cost). Once a new snapshot holds
all that, the journal is emptied; its file goes when the session is let go.

The lock is the kernel's, on the open file (flock): a killed process holds none. That the file is
removed at the end asks for one more look: who locks a file that has lost its name tries again.
"""

import json
import os
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bantam.sessions.files import encoded, opened, sync_folder, write_at

FORMAT: Final = "bantam-journal"
VERSION: Final = 1


@dataclass(slots=True)
class Lines:
    """What a journal holds.

    `generation`: None where there is no header. `damage`: why not all could be read, or "".
    """

    generation: int | None = None
    entries: list[dict[str, Any]] = field(default_factory=list)
    damage: str = ""


class Journal:
    """A locked journal, open for appending."""

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self._fd = fd
        self._size = os.fstat(fd).st_size
        self._header = b""

    @property
    def is_empty(self) -> bool:
        """Whether nothing happened since the snapshot."""
        return self._size == 0

    @property
    def is_lost(self) -> bool:
        """Whether somebody removed the file: then the lock protects nothing any more."""
        return not _is_named(self._fd, self.path)

    def begin(self, generation: int) -> None:
        """Forget what is here: the snapshot of that generation holds it."""
        os.ftruncate(self._fd, 0)
        self._size = 0
        self.extend(generation)

    def extend(self, generation: int) -> None:
        """Let what is appended to an empty journal go on from the snapshot of that generation."""
        header = {"format": FORMAT, "version": VERSION, "generation": generation}
        self._header = encoded(header) + b"\n"

    def append(self, lines: bytes) -> None:
        """Add whole lines; they are on the disk when this returns.

        After an OSError the end of the file is not known: `begin` must come next.
        """
        if self.is_empty:
            lines = self._header + lines
        write_at(self._fd, lines, self._size)
        if self.is_empty:
            sync_folder(self.path.parent)
        self._size += len(lines)

    def content(self) -> bytes:
        """Return the bytes that are here."""
        with os.fdopen(os.dup(self._fd), "rb") as file:
            file.seek(0)
            return file.read()

    def read(self) -> Lines:
        """Return what is here."""
        return parsed(self.content())

    def close(self, *, remove: bool) -> None:
        """Let the session go; `remove` the file, which nobody needs any more."""
        with suppress(OSError):  # what is left says nothing
            try:
                if remove and not self.is_lost:
                    self.path.unlink()
            finally:
                os.close(self._fd)


def locked(path: Path) -> Journal | None:
    """Return the journal `path`, made if there is none; None while another process holds it."""
    while True:
        fd = opened(path, os.O_RDWR | os.O_CREAT)
        try:
            if not _lock(fd):
                os.close(fd)
                return None
            named = _is_named(fd, path)
        except BaseException:  # Ctrl+C included: nobody else knows the descriptor yet
            os.close(fd)
            raise
        if named:
            return Journal(path, fd)
        os.close(fd)  # its holder removed it between our opening and our locking


def left_behind(path: Path) -> Lines:
    """Return what is in a journal that nobody holds; nothing of one that somebody does."""
    fd = opened(path, os.O_RDONLY)
    with os.fdopen(fd, "rb") as file:
        return parsed(file.read()) if _lock(fd) else Lines()


def _lock(fd: int) -> bool:
    if sys.platform == "win32":  # pragma: no cover  # the tests run where there is flock
        import msvcrt

        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
    import fcntl

    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_named(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


def parsed(data: bytes) -> Lines:
    r"""Return the entries in `data` up to the first that is damaged.

    A torn last line is none: the process ended while it wrote, and nothing came of it.

    >>> parsed(b'{"format": "bantam-journal", "version": 1, "generation": 3}\n{"mess').generation
    3
    """
    lines = Lines()
    for number, entry in enumerate(_objects(data), start=1):
        if entry is None:
            lines.damage = f"line {number} is damaged"
            break
        if number > 1:
            lines.entries.append(entry)
            continue
        generation = entry.get("generation")
        if entry.get("format") != FORMAT or not isinstance(generation, int):
            lines.damage = "line 1 is no header"
            break
        lines.generation = generation
    return lines


def _objects(data: bytes) -> list[dict[str, Any] | None]:
    """Return the object of each line, None for one that holds none; a torn last line is no line."""
    *lines, torn = data.split(b"\n")
    objects = [_object(line) for line in lines]
    # After a crash of the system the last line may be there in its length alone.
    if objects and objects[-1] is None and not torn:
        objects.pop()
    return objects


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
