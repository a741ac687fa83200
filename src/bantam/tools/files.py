"""write_file: bytes of a file replaced by a text.

`planned` checks a call against the file system and changes nothing; the `Splice` that it returns
says all that would happen, and `perform` makes it happen. Symbolic links are followed.
"""

import os
import re
import stat
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, BinaryIO, Final

from bantam.core.cancel import Cancel
from bantam.core.errors import ToolError
from bantam.core.events import FileChange
from bantam.core.text import removed_note
from bantam.tools.lines import shared
from bantam.tools.splice import Keep, Splice, blocks_of, perform
from bantam.tools.tool import Executor, Result, Tool, shown_path
from bantam.tools.workspace import Workspace, is_writable, state_of

_DESCRIPTION: Final = (
    "Replace del_bytes bytes of a file at byte offset by content. To create a file give path and "
    "content. To replace a whole file give a del_bytes of at least its size. By default content "
    "is inserted at the start. Missing folders are made."
)
_BOM: Final = "\ufeff"
# A diff is there to be looked at: what nobody reads through needs none.
_MOST_DIFFED_BYTES: Final = 1 << 18
# Lines before times lines after, of what differs: a tenth of a second for the matcher.
_MOST_COMPARISONS: Final = 1 << 20
_CONTEXT_LINES: Final = 3
# More than one byte of UTF-8 (RFC 3629 section 3).
_WIDE_CHARACTER: Final = (
    rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}"
)


def write_tool(executor: Executor, keep: Keep | None = None) -> Tool:
    """Return the tool `write_file`, which finds its files through `executor`.

    `keep` gets each change just before it is made.
    """

    def run(arguments: Mapping[str, Any], cancel: Cancel) -> Generator[str, None, Result]:
        yield from ()  # no output before the result
        return _write(executor, arguments, cancel, keep)

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


def _write(
    executor: Executor, arguments: Mapping[str, Any], cancel: Cancel, keep: Keep | None
) -> Result:
    given, content, offset = arguments["path"], arguments["content"], arguments["offset"]
    shown = shown_path(given)
    check_path(given, shown)
    notes = []
    # A byte order mark belongs at the start of a file alone; the sanitising knows no offset.
    if offset > 0 and content.startswith(_BOM):
        content = content.removeprefix(_BOM)
        notes.append(removed_note(Counter([_BOM])))
    try:
        path = executor.resolve(given)
        checked = {**arguments, "path": shown, "content": content}
        splice = planned(path, checked, executor.workspace)
        removed = _deleted_lines(splice, cancel)
        diff = diff_of(splice)
        notes += _notes(splice)
        perform(splice, cancel, keep)
    except OSError as error:
        reason = error.strerror or error
        raise ToolError(f"cannot write {shown}: {reason}; nothing was changed") from error
    text = (
        f"{shown}: bytes written: {len(splice.content)}; offset: {splice.offset}; "
        f"bytes deleted: {splice.deleted}; size now: {splice.size_after}"
    )
    change = FileChange(given, added=_lines([splice.content]), removed=removed, diff=diff)
    return Result("\n".join([text, *notes]), files=(change,))


def check_path(given: str, shown: str) -> None:
    """Raise ToolError if `given`, in a result `shown`, cannot be the path of a file."""
    if not given:
        raise ToolError("the path is empty; give the path of a file")
    if "\0" in given:
        raise ToolError("the path holds a NUL character; give the path of a file without it")
    # A Path forgets these endings, and a file would appear where a folder was meant.
    if given.endswith(("/", "/.")):
        raise ToolError(f"{shown} names a folder; give the path of a file")


def planned(path: Path, arguments: Mapping[str, Any], workspace: Workspace | None = None) -> Splice:
    """Return what `arguments` (those of `write_file`) mean for the file at `path`.

    Raises ToolError if it must not be done, and OSError as the system gives it.
    """
    given, offset, del_bytes = arguments["path"], arguments["offset"], arguments["del_bytes"]
    for name, value in (("offset", offset), ("del_bytes", del_bytes)):
        if value < 0:
            raise ToolError(f"{name}={value} is negative; {name} counts bytes, from 0 up")
    file, before = target(path, given, workspace)
    size = 0 if before is None else before.st_size
    if offset > size:
        raise ToolError(
            f"offset={offset} is past the end of {given}, which has {size} bytes; "
            f"nothing was changed. To append, write with offset={size}"
        )
    content = arguments["content"].encode()
    deleted = min(del_bytes, size - offset)
    return Splice(file, before, offset, deleted, content, workspace=workspace)


def target(
    path: Path, given: str, workspace: Workspace | None
) -> tuple[Path, os.stat_result | None]:
    """Return the file that a write to `path` replaces, links followed, and its state if it exists.

    Raises ToolError if it must not be replaced, and OSError as the system gives it.
    """
    # A rename onto a link would replace the link.
    file = Path(os.path.realpath(path))
    # Not the file alone: /dev/stdout leads to a pipe that no path names.
    before = _state(path, workspace) or _state(file, workspace)
    if before is not None:
        _check_writable(file, before, given, workspace)
    return file, before


def _state(file: Path, workspace: Workspace | None) -> os.stat_result | None:
    try:
        return state_of(file, workspace)
    except FileNotFoundError:
        return None


def _check_writable(
    file: Path, before: os.stat_result, given: str, workspace: Workspace | None
) -> None:
    if stat.S_ISDIR(before.st_mode):
        raise ToolError(f"{given} is a folder; give the path of a file")
    if not stat.S_ISREG(before.st_mode):
        raise ToolError(f"{given} is a device, pipe or socket; use shell_exec to write to it")
    # The rename asks the folder alone: without this a file protected from writing is replaced.
    if not is_writable(file, workspace):
        raise ToolError(
            f"{given} is read-only for this user ({stat.filemode(before.st_mode)}); nothing was "
            "changed. If it is meant to change, make it writable first"
        )


def _deleted_lines(splice: Splice, cancel: Cancel) -> int:
    with splice.opened() as old:
        old.seek(splice.offset)
        return _lines(blocks_of(old, splice.deleted, cancel))


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
    wide = re.finditer(_WIDE_CHARACTER, file.read(at - start + 3))
    return any(start + match.start() < at < start + match.end() for match in wide)


# -- what a person sees of it -----------------------------------------------------------------


def diff_of(splice: Splice) -> str:
    """Return the hunks of a unified diff of the whole file, without the lines that name files.

    "" if nothing changes, either file is no UTF-8 text, or there is too much to look at.
    """
    if max(splice.size_before, splice.size_after) > _MOST_DIFFED_BYTES:
        return ""
    with splice.opened() as file:
        old = file.read(splice.size_before)
    new = old[: splice.offset] + splice.content + old[splice.offset + splice.deleted :]
    if b"\0" in old or b"\0" in new:
        return ""
    try:
        return "".join(_hunks(_diff_lines(old.decode()), _diff_lines(new.decode())))
    except UnicodeDecodeError:
        return ""


def _diff_lines(text: str) -> list[str]:
    r"""Return the lines of `text` as a diff shows them, each with its LF.

    >>> _diff_lines("a\nb")
    ['a\n', 'b\n\\ No newline at end of file\n']
    """
    *lines, rest = text.split("\n")
    ended = [f"{line}\n" for line in lines]
    return [*ended, f"{rest}\n\\ No newline at end of file\n"] if rest else ended


def _hunks(before: list[str], after: list[str]) -> Iterator[str]:
    """Yield the lines of the hunks; none if there would be too much to compare."""
    start = max(0, shared(before, after) - _CONTEXT_LINES)
    before, after = before[start:], after[start:]
    same_end = max(0, shared(before[::-1], after[::-1]) - _CONTEXT_LINES)
    before, after = before[: len(before) - same_end], after[: len(after) - same_end]
    if len(before) * len(after) > _MOST_COMPARISONS:
        return
    for hunk in SequenceMatcher(None, before, after).get_grouped_opcodes(_CONTEXT_LINES):
        (_, old, _, new, _), (_, _, old_end, _, new_end) = hunk[0], hunk[-1]
        yield f"@@ -{_range(start, old, old_end)} +{_range(start, new, new_end)} @@\n"
        for kind, first, last, new_first, new_last in hunk:
            is_same = kind == "equal"
            yield from (f"{' ' if is_same else '-'}{line}" for line in before[first:last])
            yield from (f"+{line}" for line in after[new_first:new_last] if not is_same)


def _range(skipped: int, start: int, end: int) -> str:
    """Return a hunk's place in one file: its first line, or the one before it, and its length."""
    length = end - start
    return f"{skipped + start + (length > 0)},{length}"
