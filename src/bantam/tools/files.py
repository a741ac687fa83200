"""write_file: splice bytes into a file, so that a reader sees the old file or the new one.

`planned` checks a call against the file system and changes nothing; the `Splice` that it returns
says all that would happen. `perform` makes it happen: the new file is written beside the old one,
in blocks, since a file may be larger than memory, and a rename puts it in the old one's place.
What fails before that rename leaves no trace: no temporary file, no new folder.

Kept: mode, owner and group where this user may give them away, and symbolic links, which are
followed. Not kept: extended attributes, access lists, holes, and hard links, whose other names go
on naming the old file. Refused: writing in place where no rename is possible, because a crash
would then leave half a file.
"""

import io
import os
import re
import secrets
import stat
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from bantam.core.cancel import Cancel
from bantam.core.errors import ToolError
from bantam.core.events import FileChange
from bantam.core.text import removed_note
from bantam.tools.tool import Executor, Result, Tool

_DESCRIPTION: Final = (
    "Replace del_bytes bytes of a file at byte offset by content. To create a file give path and "
    "content. To replace a whole file give a del_bytes of at least its size. By default content "
    "is inserted at the start. Missing folders are made."
)
_BOM: Final = "\ufeff"
# Bounds the memory that a write needs, and the work between two looks at the cancel.
_BLOCK_BYTES: Final = 1 << 20
# More than one byte of UTF-8 (RFC 3629 section 3).
_WIDE_CHARACTER: Final = re.compile(
    rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}"
)


def write_tool(executor: Executor) -> Tool:
    """Return the tool `write_file`, which finds its files through `executor`."""

    def run(arguments: Mapping[str, Any], cancel: Cancel) -> Generator[str, None, Result]:
        yield from ()  # no output before the result
        return _write(executor, arguments, cancel)

    return Tool(
        name="write_file",
        description=_DESCRIPTION,
        parameters={
            "path": {"type": "string"},
            "content": {"type": "string"},
            "offset": {"type": "integer", "default": 0},
            "del_bytes": {"type": "integer", "default": 0},
        },
        run=run,
        verbatim=frozenset({"content"}),
        paths=frozenset({"path"}),
    )


def _write(executor: Executor, arguments: Mapping[str, Any], cancel: Cancel) -> Result:
    given, content, offset = arguments["path"], arguments["content"], arguments["offset"]
    _check_path(given)
    notes = []
    # A byte order mark belongs at the start of a file alone; the sanitising knows no offset.
    if offset > 0 and content.startswith(_BOM):
        content = content.removeprefix(_BOM)
        notes.append(removed_note(Counter([_BOM])))
    try:
        splice = planned(executor.resolve(given), {**arguments, "content": content})
        removed = _deleted_lines(splice, cancel)
        notes += _notes(splice)
        perform(splice, cancel)
    except OSError as error:
        reason = error.strerror or error
        raise ToolError(f"cannot write {given}: {reason}; nothing was changed") from error
    text = (
        f"{given}: bytes written: {len(splice.content)}; offset: {splice.offset}; "
        f"bytes deleted: {splice.deleted}; size now: {splice.size_after}"
    )
    change = FileChange(given, added=_lines([splice.content]), removed=removed)
    return Result("\n".join([text, *notes]), files=(change,))


def _check_path(given: str) -> None:
    if not given:
        raise ToolError("the path is empty; give the path of a file")
    if "\0" in given:
        raise ToolError("the path holds a NUL character; give the path of a file without it")
    # A Path forgets these endings, and a file would appear where a folder was meant.
    if given.endswith(("/", "/.")):
        raise ToolError(f"{given} names a folder; give the path of a file")


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


def planned(path: Path, arguments: Mapping[str, Any]) -> Splice:
    """Return what `arguments` (those of `write_file`) mean for the file at `path`.

    Raises ToolError if it must not be done, and OSError as the system gives it.
    """
    given, offset, del_bytes = arguments["path"], arguments["offset"], arguments["del_bytes"]
    for name, value in (("offset", offset), ("del_bytes", del_bytes)):
        if value < 0:
            raise ToolError(f"{name}={value} is negative; {name} counts bytes, from 0 up")
    # A rename onto a link would replace the link. Of a loop a link is left, which `stat` refuses.
    file = Path(os.path.realpath(path))
    before = _state(file)
    if before is not None:
        _check_writable(file, before, given)
    size = 0 if before is None else before.st_size
    if offset > size:
        raise ToolError(
            f"offset={offset} is past the end of {given}, which has {size} bytes; "
            f"nothing was changed. To append, write with offset={size}"
        )
    content = arguments["content"].encode()
    return Splice(file, before, offset, min(del_bytes, size - offset), content)


def _state(file: Path) -> os.stat_result | None:
    try:
        return file.stat()
    except FileNotFoundError:
        return None


def _check_writable(file: Path, before: os.stat_result, given: str) -> None:
    if stat.S_ISDIR(before.st_mode):
        raise ToolError(f"{given} is a folder; give the path of a file")
    if not stat.S_ISREG(before.st_mode):
        raise ToolError(f"{given} is a device, pipe or socket; use shell_exec to write to it")
    # The rename asks the folder alone: without this a file protected from writing is replaced.
    if not os.access(file, os.W_OK):
        raise ToolError(
            f"{given} is read-only for this user ({stat.filemode(before.st_mode)}); nothing was "
            "changed. If it is meant to change, make it writable first"
        )


def _deleted_lines(splice: Splice, cancel: Cancel) -> int:
    with splice.opened() as old:
        old.seek(splice.offset)
        return _lines(_blocks(old, splice.deleted, cancel))


def _lines(blocks: Iterable[bytes]) -> int:
    """Return how many lines `blocks` touch: their LFs, and one for an end without LF.

    Not a diff, which is not linear: text that is written again unchanged counts as well.
    """
    count, last = 0, b"\n"
    for block in blocks:
        count += block.count(b"\n")
        last = block[-1:] or last
    return count + (last != b"\n")


def _notes(splice: Splice) -> list[str]:
    """Return what may surprise: text inserted before old text, ends of the range in a character."""
    notes = []
    if splice.content and splice.size_before and not (splice.offset or splice.deleted):
        notes.append(
            f"note: inserted before the {splice.size_before} bytes that were there; "
            f"to replace the whole file now, write with del_bytes={splice.size_after}"
        )
    with splice.opened() as old:
        notes += [
            f"note: byte {at} was inside a UTF-8 character; offsets count bytes"
            for at in sorted({splice.offset, splice.offset + splice.deleted})
            if _inside_character(old, at)
        ]
    return notes


def _inside_character(file: BinaryIO, at: int) -> bool:
    start = max(0, at - 3)  # a character has at most 4 bytes
    file.seek(start)
    wide = _WIDE_CHARACTER.finditer(file.read(at - start + 3))
    return any(start + match.start() < at < start + match.end() for match in wide)


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
        temporary.replace(splice.path)
    except BaseException:
        with suppress(OSError):  # the first error is the one to tell
            temporary.unlink()
        raise


def _fill(new: BinaryIO, splice: Splice, cancel: Cancel) -> None:
    end = splice.offset + splice.deleted
    with splice.opened() as old:
        new.writelines(_blocks(old, splice.offset, cancel))
        new.write(splice.content)
        old.seek(end)
        new.writelines(_blocks(old, splice.size_before - end, cancel))
    new.flush()  # before the mode: a write clears set-id bits
    if splice.before is not None:
        _keep_owner_and_mode(new.fileno(), splice.before)


def _blocks(file: BinaryIO, length: int, cancel: Cancel) -> Iterator[bytes]:
    """Yield the next `length` bytes of `file`. Raises ToolError if it ends before that."""
    while length > 0:
        cancel.check()
        block = file.read(min(length, _BLOCK_BYTES))
        if not block:
            raise ToolError("the file was cut by another program meanwhile; nothing was changed")
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
