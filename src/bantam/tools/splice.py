"""One change of a file, made so that a reader sees the old file or the new one.

The new file is written beside the old one, in blocks, since a file may be larger than memory, and
a rename puts it in the old one's place. What fails before that rename leaves no trace: no temporary
file, no new folder. Just before it the old file is looked at again: what another program wrote
meanwhile is not lost.

Kept: mode, owner and group where this user may give them away. Not kept: extended attributes,
access lists, holes, and hard links, whose other names go on naming the old file. Refused: writing
in place where no rename is possible, because a crash would then leave half a file.

Who wants to put a change back asks to `keep` it: before the rename he gets the `Change`, whose
digests and deleted bytes were gathered while the new file was filled, in the same pass.
"""

import hashlib
import io
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from bantam.core.cancel import Cancel
from bantam.core.changes import MOST_KEPT_BYTES, PERMISSIONS, Change
from bantam.core.errors import ToolError
from bantam.tools.workspace import Folder, Workspace, opened, way_to

# Bounds the memory that a write needs, and the work between two looks at the cancel.
_BLOCK_BYTES: Final = 1 << 20
_CHANGED: Final = (
    "another program changed the file meanwhile; nothing was changed by this call. Read it again"
)

# Gets a change just before it becomes real, and has made it durable when it returns. It may come to
# nothing after that. What `keep` raises stops the change.
Keep = Callable[[Change], None]


@dataclass(frozen=True, slots=True)
class Splice:
    """`content` in place of `deleted` bytes at byte `offset` of `path`: checked, not yet done.

    `path` is the file itself, links followed; `before` its state, None where there is no file.
    `permissions` are what an old file gets instead of its own. With a `workspace` all of it happens
    beneath that, whatever becomes of `path` meanwhile.
    """

    path: Path
    before: os.stat_result | None
    offset: int
    deleted: int
    content: bytes
    permissions: int | None = None
    workspace: Workspace | None = None

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
        return io.BytesIO() if self.before is None else opened(self.path, self.workspace)


def smallest(path: Path, before: os.stat_result | None, old: bytes, new: bytes) -> Splice:
    """Return the splice of the fewest bytes that makes `new` of a file that holds `old`."""
    most = min(len(old), len(new))
    start = _same_up_to(most, lambda i, j: old[i:j] == new[i:j])
    a, b = len(old), len(new)
    end = _same_up_to(most - start, lambda i, j: old[a - j : a - i] == new[b - j : b - i])
    return Splice(path, before, start, a - end - start, new[start : b - end])


def _same_up_to(most: int, is_same: Callable[[int, int], bool]) -> int:
    """Return up to which number, at most `most`, all is the same; found by halves."""
    low = 0
    while low < most:
        middle = (low + most + 1) // 2
        if is_same(low, middle):
            low = middle
        else:
            most = middle - 1
    return low


class _Recorder:
    """What puts a change back, gathered while the new file is filled."""

    def __init__(self, splice: Splice, folders: tuple[str, ...], keep: Keep) -> None:
        self._splice, self._folders, self._keep = splice, folders, keep
        self._before, self._after = hashlib.sha256(), hashlib.sha256()
        self._removed: list[bytes] | None = [] if splice.deleted <= MOST_KEPT_BYTES else None

    def add(self, before: bytes, after: bytes) -> None:
        """Take the next piece of the old file, and what stands in its place."""
        self._before.update(before)
        self._after.update(after)
        if not after and self._removed is not None:
            self._removed.append(before)

    def finish(self) -> None:
        """Have the change kept, now that all was added."""
        splice, before = self._splice, self._splice.before
        removed = None if self._removed is None else b"".join(self._removed)
        self._removed = None  # they may be many: one copy is enough
        change = Change(
            path=str(splice.path),
            before="" if before is None else self._before.hexdigest(),
            after=self._after.hexdigest(),
            mode=None if before is None else before.st_mode & PERMISSIONS,
            offset=splice.offset,
            added=len(splice.content),
            removed=removed,
            folders=self._folders,
        )
        self._keep(change)


def perform(splice: Splice, cancel: Cancel, keep: Keep | None = None) -> None:
    """Write the new file and put it in the place of the old one, missing parents made.

    Raises Interrupted, ToolError and OSError, and what `keep` raises; then nothing has changed.
    """
    with ExitStack() as stack:
        folder, missing = stack.enter_context(way_to(splice.path, splice.workspace))
        paths = [str(folder.path.joinpath(*missing[:n])) for n in range(len(missing), 0, -1)]
        recorder = None if keep is None else _Recorder(splice, tuple(paths), keep)
        made: list[tuple[Folder, str]] = []
        try:
            for name in missing:
                folder.mkdir(name)
                made.append((folder, name))
                folder = stack.enter_context(folder.child(name))
            _replace(splice, folder, cancel, recorder)
        except BaseException:  # Ctrl+C included: what did not happen leaves no trace
            for parent, name in reversed(made):
                with suppress(OSError):  # somebody else uses it by now
                    parent.rmdir(name)
            raise
        for changed in (folder, *(parent for parent, _ in made)):
            # A failure here must not deny the change: it has happened, and only a crash undoes it.
            with suppress(OSError):
                changed.sync()


def _replace(splice: Splice, folder: Folder, cancel: Cancel, recorder: _Recorder | None) -> None:
    temporary, name = f".bantam-{secrets.token_hex(16)}.tmp", splice.path.name
    # The kernel takes the umask off a new file's mode. What replaces a file may hold its secrets:
    # it is private until it has that file's owner and mode.
    mode = 0o666 if splice.before is None else 0o600
    fd = folder.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(fd, "wb") as new:
            _fill(new, splice, cancel, recorder)
            os.fsync(new.fileno())
        if recorder is not None:
            # What is kept and does not happen gets in the way of an undo.
            _check_unchanged(splice, folder)
            recorder.finish()
        cancel.check()
        _check_unchanged(splice, folder)
        folder.replace(name, by=temporary)
    except BaseException:  # Ctrl+C included: no half file stays
        with suppress(OSError):  # the first error is the one to tell
            folder.unlink(temporary)
        raise


def _check_unchanged(splice: Splice, folder: Folder) -> None:
    """Raise ToolError if the file is not the one that was read any more."""
    if _identity(folder.state(splice.path.name)) != _identity(splice.before):
        raise ToolError(_CHANGED)


def _identity(state: os.stat_result | None) -> tuple[int, ...]:
    """Return what tells one state of a file from another; nothing for no file."""
    if state is None:
        return ()
    return (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)


def _fill(new: BinaryIO, splice: Splice, cancel: Cancel, recorder: _Recorder | None) -> None:
    with splice.opened() as old:
        for before, after in _pieces(old, splice, cancel):
            new.write(after)
            if recorder is not None:
                recorder.add(before, after)
    new.flush()  # before the mode: a write clears set-id bits
    if splice.before is not None:
        _keep_owner_and_mode(new.fileno(), splice.before, splice.permissions)


def _pieces(old: BinaryIO, splice: Splice, cancel: Cancel) -> Iterator[tuple[bytes, bytes]]:
    """Yield the old file's pieces, each with what stands in its place in the new one."""
    for block in blocks_of(old, splice.offset, cancel):
        yield block, block
    yield b"", splice.content
    for block in blocks_of(old, splice.deleted, cancel):
        yield block, b""
    for block in blocks_of(old, splice.size_before - splice.offset - splice.deleted, cancel):
        yield block, block


def blocks_of(file: BinaryIO, length: int, cancel: Cancel) -> Iterator[bytes]:
    """Yield the next `length` bytes of `file`. Raises ToolError if it ends before that."""
    while length > 0:
        cancel.check()
        block = file.read(min(length, _BLOCK_BYTES))
        if not block:
            raise ToolError(_CHANGED)
        length -= len(block)
        yield block


def _keep_owner_and_mode(fd: int, before: os.stat_result, permissions: int | None) -> None:
    """Give the open file owner, group and mode of `before`, as far as allowed, or `permissions`."""
    mode = stat.S_IMODE(before.st_mode)
    if permissions is not None:
        mode = mode & ~PERMISSIONS | permissions & PERMISSIONS
    for owner, group in ((before.st_uid, -1), (-1, before.st_gid)):
        try:
            os.fchown(fd, owner, group)
        except OSError:
            # Set-id bits lend the rights of the file's owner: never those of another one.
            mode &= ~(stat.S_ISUID | stat.S_ISGID)
    os.fchmod(fd, mode)  # last: a change of owner clears set-id bits too
