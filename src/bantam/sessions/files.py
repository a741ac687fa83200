"""Private files that outlast a crash: the few calls on which the session store stands.

What is written is on the disk when these return: `fsync` on the file, and on its folder where a
name is new. A file is replaced whole or not at all. Everything here raises OSError as the system
gives it; whether a chat goes on without its file is decided above.
"""

import errno
import json
import os
import stat
import sys
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Final

from bantam.core.messages import SURROGATES

EPOCH: Final = datetime.fromtimestamp(0, UTC)
_GROUP_AND_OTHERS: Final = 0o077


def encoded(value: Any) -> bytes:
    r"""Return `value` as JSON on one line, in UTF-8; lone surrogates, which that lacks, as escapes.

    >>> encoded({"a": "é\ud83d"})
    b'{"a": "\xc3\xa9\\ud83d"}'
    """
    text = json.dumps(value, ensure_ascii=False)
    return SURROGATES.sub(lambda lone: f"\\u{ord(lone[0]):04x}", text).encode()


def make_private(folder: Path) -> None:
    """Make `folder` for this user alone, and what is missing above it; what is there stays."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))


def close_to_others(folder: Path) -> None:
    """Let nobody else look into `folder`, as far as its file system knows of others."""
    if folder.stat().st_mode & _GROUP_AND_OTHERS:
        with suppress(OSError):
            folder.chmod(0o700)


def opened(path: Path, flags: int) -> int:
    """Return a descriptor of the regular file `path`, which nobody else may read any more.

    Raises OSError for anything else at that place, at once: a pipe would wait for its other end,
    and what is written through a link is somebody else's. What is read through one keeps its mode.
    """
    if flags & os.O_CREAT:
        flags |= getattr(os, "O_NOFOLLOW", 0)
    fd = os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o600)
    try:
        state = os.fstat(fd)
        if not stat.S_ISREG(state.st_mode):
            raise OSError(0, "not a regular file", str(path))
        if state.st_mode & _GROUP_AND_OTHERS and not path.is_symlink():
            with suppress(OSError):  # as above
                os.fchmod(fd, 0o600)
    except BaseException:  # Ctrl+C included: nobody else knows the descriptor yet
        os.close(fd)
        raise
    return fd


def reader(path: Path) -> BinaryIO:
    """Return the regular file `path`, open for reading."""
    return os.fdopen(opened(path, os.O_RDONLY), "rb")


def changed(state: os.stat_result) -> datetime:
    """Return when a file was changed; `EPOCH` for what no calendar holds."""
    try:
        return datetime.fromtimestamp(state.st_mtime, UTC)
    except (ValueError, OverflowError, OSError):
        return EPOCH


def write_at(fd: int, data: bytes, offset: int) -> None:
    """Put all of `data` at `offset`; it is on the disk when this returns."""
    os.lseek(fd, offset, os.SEEK_SET)
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
    os.fsync(fd)


def replace(path: Path, pieces: Iterable[bytes]) -> None:
    """Let `path` hold `pieces`, joined: a reader, and a crash, find the old file or the new one.

    Only one process may do this at a time: the new file has one name until it is whole.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    fd = opened(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        with os.fdopen(fd, "wb", buffering=1 << 20) as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(fd)
        temporary.replace(path)
    except BaseException:  # Ctrl+C included: half a file is of no use
        with suppress(OSError):  # the first error is the one to tell
            temporary.unlink()
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` outlast a crash of the system."""
    if sys.platform == "win32":  # pragma: no cover  # folders cannot be opened there
        return
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
