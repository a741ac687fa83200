r"""edit_file: lines of a file found by their text, and others put in their place.

The pairs are applied in order, each to the text as those before it left it: a model that changes a
thing twice, or counts on what it has just written, gets what it means. All are found before
anything is written, so that a file is changed by all of them or by none. As a search need not be
exact, one for lines that an earlier pair took away might fit elsewhere: see `_check_overlap`.

What is written is the smallest range of bytes that holds all that changes, by one splice as
`write_file` makes it, so that undo knows it.
"""

import codecs
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from bantam.core.cancel import Cancel
from bantam.core.errors import ToolError, why_of
from bantam.core.events import FileChange
from bantam.tools.edits import Applied, Misplaced, edited, pairs_in, way_of
from bantam.tools.files import check_path, diff_of, target
from bantam.tools.matching import Way
from bantam.tools.splice import Keep, Splice, blocks_of, perform, smallest
from bantam.tools.tool import Executor, Result, Tool, shown_path
from bantam.tools.workspace import Workspace

_FORM: Final = "<<<<<<< SEARCH\nlines of the file\n=======\nlines instead of them\n>>>>>>> REPLACE"
_DESCRIPTION: Final = (
    f"Replace lines of a text file. edits is one or more of:\n{_FORM}\n"
    "Each search must fit exactly one place. All are done or none. An empty search appends, "
    "an empty replacement deletes. If the lines hold such markers, write longer ones."
)
_MOST_BYTES: Final = 64 << 20  # some copies of the file are held in memory
_UTF_16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_WAYS: Final = {
    Way.TRAILING: "fitted but for blanks at the ends of lines",
    Way.PART: "fitted a part of a line",
    Way.SHIFTED: "fitted with another indentation, and so was its replacement put in",
}


def edit_tool(executor: Executor, keep: Keep | None = None) -> Tool:
    """Return the tool `edit_file`, which finds its files through `executor`.

    `keep` gets each change just before it is made.
    """

    def run(arguments: Mapping[str, Any], cancel: Cancel) -> Generator[str, None, Result]:
        yield from ()  # no output before the result
        return _edit(executor, arguments, cancel, keep)

    return Tool(
        name="edit_file",
        description=_DESCRIPTION,
        parameters={"path": {"type": "string"}, "edits": {"type": "string"}},
        run=run,
        verbatim=frozenset({"edits"}),
        paths=frozenset({"path"}),
    )


@dataclass(frozen=True, slots=True)
class Plan:
    """What an edit comes to: what would be written, and what is told of it."""

    splice: Splice
    pairs: int
    added: int
    removed: int
    notes: tuple[str, ...]

    @property
    def is_change(self) -> bool:
        """False if the file would be what it is."""
        splice = self.splice
        return splice.before is None or bool(splice.deleted or splice.content)


def _edit(
    executor: Executor, arguments: Mapping[str, Any], cancel: Cancel, keep: Keep | None
) -> Result:
    given = arguments["path"]
    shown = shown_path(given)
    check_path(given, shown)
    try:
        path, workspace = executor.resolve(given), executor.workspace
        plan = planned_edit(path, shown, arguments["edits"], cancel, workspace)
        if not plan.is_change:
            text = f"{shown}: nothing changed: the replacement is what was there"
            return Result("\n".join([text, *plan.notes]))
        diff = diff_of(plan.splice)
        perform(plan.splice, cancel, keep)
    except OSError as error:
        reason = f"cannot edit {shown}: {why_of(error)}; nothing was changed"
        raise ToolError(reason) from error
    text = (
        f"{shown}: pairs applied: {plan.pairs}; lines added: {plan.added}; "
        f"lines removed: {plan.removed}; size now: {plan.splice.size_after}"
    )
    change = FileChange(given, added=plan.added, removed=plan.removed, diff=diff)
    return Result("\n".join([text, *plan.notes]), files=(change,))


def planned_edit(
    path: Path, given: str, edits: str, cancel: Cancel, workspace: Workspace | None = None
) -> Plan:
    """Return what `edits` mean for the file at `path`, which errors call `given`.

    Raises ToolError if it must not be done, and OSError as the system gives it.
    """
    pairs, dropped = pairs_in(edits)
    if not pairs:
        fault = "the pair has no end" if dropped else "there is no pair"
        raise ToolError(f"{fault} in edits; nothing was changed. Expected:\n{_FORM}")
    file, before = target(path, given, workspace)
    if before is None and pairs[0][0]:
        raise ToolError(
            f"there is no file {given}; nothing was changed. To make it, leave the search empty"
        )
    old = _content(Splice(file, before, 0, 0, b"", workspace=workspace), given, cancel)
    mark = codecs.BOM_UTF8 if old.startswith(codecs.BOM_UTF8) else b""
    text, done = _applied(old.removeprefix(mark), pairs, given, cancel)
    names = _names(pairs)
    notes = [
        f"note: {name} {_WAYS[each.way]}"
        for name, each in zip(names, done, strict=True)
        if each.way in _WAYS
    ]
    if dropped:
        notes.append(f"note: not applied, for want of its end: {dropped} of {dropped + len(pairs)}")
    return Plan(
        replace(smallest(file, before, old, mark + text), workspace=workspace),
        pairs=len(pairs),
        added=sum(each.added for each in done),
        removed=sum(each.removed for each in done),
        notes=tuple(notes),
    )


def _applied(
    text: bytes, pairs: Sequence[tuple[str, str]], given: str, cancel: Cancel
) -> tuple[bytes, list[Applied]]:
    """Return `text` after all `pairs`, and what each did. Raises ToolError if one does not fit."""
    done: list[Applied] = []
    now = text
    for name, (search, replacement) in zip(_names(pairs), pairs, strict=True):
        try:
            if done and search:
                _check_overlap(text, now, (search, replacement), cancel)
            now, one = edited(now, search, replacement, cancel)
        except Misplaced as error:
            counted = "\nLines are counted as the pairs before it left them" if done else ""
            raise ToolError(f"{given}: {name}: nothing was changed: {error}{counted}") from error
        done.append(one)
    return now, done


def _check_overlap(old: bytes, now: bytes, pair: tuple[str, str], cancel: Cancel) -> None:
    """Raise Misplaced if the search fitted better before the earlier pairs were applied.

    It would be taken for something else: one that means a line `b` for the `b` of `rubber`.
    """
    way = way_of(now, *pair, cancel)
    if way is Way.EXACT:
        return
    meant = way_of(old, *pair, cancel)
    if meant is not None and (way is None or meant < way):
        raise Misplaced(
            "an earlier pair changes lines of its search; write it for the lines as they are then, "
            "or make one pair of both"
        )


def _names(pairs: Sequence[object]) -> list[str]:
    """Return how each pair is called."""
    count = len(pairs)
    return [f"pair {number} of {count}" if count > 1 else "edits" for number in range(1, count + 1)]


def _content(file: Splice, given: str, cancel: Cancel) -> bytes:
    """Return what the file holds. Raises ToolError if it is too much, or not to be edited."""
    if file.size_before > _MOST_BYTES:
        raise ToolError(
            f"{given} has {file.size_before} bytes, and edit_file takes up to {_MOST_BYTES}; "
            "nothing was changed. Use shell_exec, or write_file with offset and del_bytes"
        )
    with file.opened() as opened:
        content = b"".join(blocks_of(opened, file.size_before, cancel))
    if content.startswith(_UTF_16) or b"\0" in content:
        what = "UTF-16" if content.startswith(_UTF_16) else "binary, or UTF-16: it holds NUL bytes"
        raise ToolError(
            f"{given} is {what}; edit_file takes UTF-8 and what else extends ASCII; "
            "nothing was changed. Use shell_exec"
        )
    return content
