"""One change of a file, made so that a reader sees the old file or the new one.

The new file is written beside the old one, in blocks, since a file may be larger than memory, and
a rename puts it in the old one's place. What fails before that rename leaves no trace: no temporary
file, no new folder. Just before it the old file is looked at again: what another program wrote
meanwhile is not lost.

Kept: mode, owner and group where this user may give them away. Not kept: extended attributes,
access lists, holes, and hard links, whose other names go on naming the old file. Refused: writing
in place where no rename is possible, because a crash would then leave half a file.
"""

import io
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from bantam.core.cancel import Cancel
from bantam.core.errors import ToolError

# Bounds the memory that a write needs, and the work between two looks at the cancel.
_BLOCK_BYTES: Final = 1 << 20
_CHANGED: Final = (
    "another program changed the file meanwhile; nothing was changed by this call. Read it again"
)


@dataclass(frozen=True, slots=True)
class Splice:
    """`content` in place of `deleted` bytes at byte `offset` of `path`: checked, not yet done.

    `path` is the file itself, links followed; `before` its state, None where there is no file.
    """

    path: Path
    before: os.stat_result | None
    offset: int
    deleted: int
    content: bytes

    @property
    def size_before(self) -> int:
        """Bytes of the old file; a missing file is empty."""
        return 0 if self.before is None else self.before.st_size

    @property
    def size_after(self) -> int:
        """Bytes of the new file."""
        return self.size_before - self.deleted + len(self.content)

    def opened(self) -> BinaryIO:
        """Return the old file, open for reading."""
        return io.BytesIO() if self.before is None else self.path.open("rb")


def perform(splice: Splice, cancel: Cancel) -> None:
    """Write the new file and put it in the place of the old one, missing parents made.

    Raises Interrupted, ToolError and OSError; then nothing has changed.
    """
    missing = [folder for folder in splice.path.parents if not folder.exists()]  # deepest first
    try:
        for folder in reversed(missing):
            folder.mkdir()
        _replace(splice, cancel)
    except BaseException:
        for folder in missing:
            with suppress(OSError):  # it was never made, or somebody else uses it by now
                folder.rmdir()
        raise
    for folder in (splice.path.parent, *(made.parent for made in missing)):
        # A failure here must not deny the change: it has happened, and only a crash undoes it.
        with suppress(OSError):
            _sync(folder)


def _replace(splice: Splice, cancel: Cancel) -> None:
    temporary = splice.path.with_name(f".bantam-{secrets.token_hex(16)}.tmp")
    # The kernel takes the umask off a new file's mode. What replaces a file may hold its secrets:
    # it is private until it has that file's owner and mode.
    mode = 0o666 if splice.before is None else 0o600
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(fd, "wb") as new:
            _fill(new, splice, cancel)
            os.fsync(new.fileno())
        cancel.check()
        _check_unchanged(splice)
        temporary.replace(splice.path)
    except BaseException:
        with suppress(OSError):  # the first error is the one to tell
            temporary.unlink()
        raise


def _check_unchanged(splice: Splice) -> None:
    """Raise ToolError if the file is not the one that was read any more."""
    try:
        now = splice.path.lstat()
    except FileNotFoundError:
        now = None
    if _identity(now) != _identity(splice.before):
        raise ToolError(_CHANGED)


def _identity(state: os.stat_result | None) -> tuple[int, ...]:
    """Return what tells one state of a file from another; nothing for no file."""
    if state is None:
        return ()
    return (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)


def _fill(new: BinaryIO, splice: Splice, cancel: Cancel) -> None:
    end = splice.offset + splice.deleted
    with splice.opened() as old:
        new.writelines(blocks_of(old, splice.offset, cancel))
        new.write(splice.content)
        old.seek(end)
        new.writelines(blocks_of(old, splice.size_before - end, cancel))
    new.flush()  # before the mode: a write clears set-id bits
    if splice.before is not None:
        _keep_owner_and_mode(new.fileno(), splice.before)


def blocks_of(file: BinaryIO, length: int, cancel: Cancel) -> Iterator[bytes]:
    """Yield the next `length` bytes of `file`. Raises ToolError if it ends before that."""
    while length > 0:
        cancel.check()
        block = file.read(min(length, _BLOCK_BYTES))
        if not block:
            raise ToolError(_CHANGED)
        length -= len(block)
        yield block


def _keep_owner_and_mode(fd: int, before: os.stat_result) -> None:
    """Give the open file the owner, group and mode of `before`, each as far as allowed."""
    mode = stat.S_IMODE(before.st_mode)
    for owner, group in ((before.st_uid, -1), (-1, before.st_gid)):
        try:
            os.fchown(fd, owner, group)
        except OSError:
            # Set-id bits lend the rights of the file's owner: never those of another one.
            mode &= ~(stat.S_ISUID | stat.S_ISGID)
    os.fchmod(fd, mode)  # last: a change of owner clears set-id bits too


def _sync(folder: Path) -> None:
    """Make renames in `folder` outlast a crash of the system."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
