"""The files that a turn wrote, put back as they were before it.

A change is taken back only from the very bytes that it left: digests lead from the file as it is
now, change by change, to what it was. A file for which they do not is refused by name, and nothing
of it is touched; so is one that would not come out as it was. All files are judged before the first
is touched. An undo that was broken off, or could not finish, is finished by the next one.
"""

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bantam.core.cancel import Cancel
from bantam.core.changes import Change
from bantam.core.errors import BantamError, Interrupted, ToolError, why_of
from bantam.sessions.files import sync_folder
from bantam.sessions.records import Turn
from bantam.sessions.session import Session
from bantam.tools.splice import Splice, blocks_of, perform

_CHANGED_SINCE: Final = "changed since"
_DAMAGED: Final = "its record is damaged"
_LOST: Final = "not all that was done to it is known"
_NOT_KEPT: Final = "what was deleted from it was too much to be kept"


@dataclass(frozen=True, slots=True)
class Report:
    """What became of each file of a turn, by absolute path; `refused` has a reason for each.

    `remaining`: the changes that may yet be taken back by a later undo, of files that were refused
    or, if this one was `interrupted`, not come to. `commands`, `damage`, `has_older`: the turn's.
    """

    restored: tuple[str, ...]
    removed: tuple[str, ...]
    unchanged: tuple[str, ...]
    refused: tuple[tuple[str, str], ...]
    remaining: tuple[Change, ...]
    interrupted: bool
    commands: tuple[str, ...]
    damage: str
    has_older: bool

    def lines(self, working_directory: Path) -> list[str]:
        """Return it as text, one line a file, then a command; not yet fit for a screen."""
        here = os.path.realpath(working_directory)
        lines = [
            *(f"put back {_shown(path, here)}" for path in self.restored),
            *(f"removed {_shown(path, here)}" for path in self.removed),
            *(f"already as before: {_shown(path, here)}" for path in self.unchanged),
            *(f"not put back: {_shown(path, here)}: {reason}" for path, reason in self.refused),
        ]
        if self.damage:
            lines.append(_on_one_line(self.damage))
        if self.interrupted:
            lines.append("interrupted; undo again for the rest of this turn")
        if not lines and self.has_older:
            lines.append("the last turn wrote no files; undo again for the one before")
        commands = [f"cannot be undone: {_on_one_line(command)}" for command in self.commands]
        return [*(lines or ["there is nothing to undo"]), *commands]


def undo_last(session: Session, cancel: Cancel) -> Report:
    """Put back the files of the session's last turn, and let the model know; report it.

    Raises BantamError if what that needs cannot be read, or was not kept.
    """
    log = session.undo
    if log is None:
        raise BantamError("there is nothing to undo: this session has stored nothing yet")
    try:
        turn = log.last(session.turns)
        report = put_back(turn, cancel)
    except OSError as error:
        raise BantamError(f"what undo needs cannot be read: {why_of(error)}") from None
    touched = [*report.restored, *report.removed, *report.unchanged]
    if touched and session.messages:
        session.note(f"(The user has undone your last changes of {', '.join(touched)}.)")
    try:
        log.drop(turn, report.remaining)
    except OSError as error:
        session.notices.append(f"what was undone could not be noted: {why_of(error)}")
    return report


def put_back(turn: Turn, cancel: Cancel) -> Report:
    """Put back the files that `turn` wrote; one that cannot be does not keep the others from it.

    Once `cancel` is set it goes no further, and reports what it did until then.
    """
    refused = dict.fromkeys(sorted(turn.lost), _LOST)
    steps: dict[str, list[Change]] = {}
    done: dict[str, list[Change]] = {}
    interrupted = False
    try:
        for path, changes in _by_path(turn.changes, but=turn.lost).items():
            with _refusing(path, refused):
                steps[path] = _steps(Path(path), changes, cancel)
        for path, taken in steps.items():
            with _refusing(path, refused):
                _take_back(taken, cancel)
                done[path] = taken
    except Interrupted:
        interrupted = True
    _remove_folders(change for change in turn.changes if change.path in done)
    hopeless = turn.lost.union(c.path for c in turn.changes if c.removed is None)
    settled = done.keys() | (hopeless & refused.keys())
    return Report(
        restored=tuple(path for path, taken in done.items() if taken and taken[-1].before),
        removed=tuple(path for path, taken in done.items() if taken and not taken[-1].before),
        unchanged=tuple(path for path, taken in done.items() if not taken),
        refused=tuple(refused.items()),
        remaining=tuple(c for c in turn.changes if c.path not in settled),
        interrupted=interrupted,
        commands=turn.commands,
        damage=turn.damage,
        has_older=turn.has_older,
    )


@contextmanager
def _refusing(path: str, refused: dict[str, str]) -> Iterator[None]:
    """Let what cannot be done to the file be noted in `refused`."""
    try:
        yield
    except (ToolError, OSError) as error:
        refused[path] = (isinstance(error, OSError) and error.strerror) or str(error)


def _by_path(changes: Iterable[Change], but: frozenset[str]) -> dict[str, list[Change]]:
    """Return the changes of each file, oldest first, of those that are not in `but`."""
    by_path: dict[str, list[Change]] = {}
    for change in changes:
        if change.path not in but:
            by_path.setdefault(change.path, []).append(change)
    return by_path


def _steps(file: Path, changes: Sequence[Change], cancel: Cancel) -> list[Change]:
    """Return those of `changes` that are to be taken back, newest first; none if there is no need.

    Raises ToolError and OSError if they cannot lead to what the file was.
    """
    digest, origin = _digest(file, cancel), changes[0].before
    if digest == origin:
        return []
    steps: list[Change] = []
    for change in reversed(changes):
        if digest == change.after:
            steps.append(change)
            digest = change.before
        elif digest != change.before:  # else it never happened, or is taken back already
            raise ToolError(_CHANGED_SINCE)
    if any(step.removed is None for step in steps):
        raise ToolError(_NOT_KEPT)
    if not os.access(file, os.W_OK):  # a rename would not ask
        raise ToolError("it is read-only now")
    return steps


def _digest(file: Path, cancel: Cancel) -> str:
    """Return the SHA-256 of the file in hex, "" where there is none.

    Raises ToolError if something else is there, and OSError as the system gives it.
    """
    state = _state(file)
    if state is None:
        return ""
    digest = hashlib.sha256()
    with file.open("rb") as opened:
        for block in blocks_of(opened, state.st_size, cancel):
            digest.update(block)
    return digest.hexdigest()


def _state(file: Path) -> os.stat_result | None:
    """Return the state of the file, None where there is none. Raises ToolError for another thing.

    Another thing is also a file to which the path leads now, over a link that was no link then.
    """
    if os.path.realpath(file) != str(file):
        raise ToolError(_CHANGED_SINCE)
    try:
        state = file.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not stat.S_ISREG(state.st_mode):
        raise ToolError(_CHANGED_SINCE)
    return state


def _take_back(steps: Sequence[Change], cancel: Cancel) -> None:
    """Take the changes of one file back. Raises ToolError and OSError at the first that fails."""
    for change in steps:
        if change.before:
            _restore(change, cancel)
        else:
            _remove(change, cancel)


def _remove(change: Change, cancel: Cancel) -> None:
    file = Path(change.path)
    if _digest(file, cancel) != change.after:
        raise ToolError(_CHANGED_SINCE)
    if file.lstat().st_size != change.added:
        raise ToolError(_DAMAGED)
    file.unlink()
    with suppress(OSError):  # it has happened, and only a crash of the system takes it back
        sync_folder(file.parent)


def _restore(change: Change, cancel: Cancel) -> None:
    """Make the file what it was before `change`, and nothing else: both ends are checked."""

    def check(taken: Change) -> None:
        if taken.before != change.after:
            raise ToolError(_CHANGED_SINCE)
        if taken.after != change.before:
            raise ToolError(_DAMAGED)

    file = Path(change.path)
    # No bytes where none were kept does not come so far.
    content = change.removed or b""
    splice = Splice(file, _state(file), change.offset, change.added, content, change.mode)
    perform(splice, cancel, check)


def _remove_folders(changes: Iterable[Change]) -> None:
    """Remove the folders that were made for `changes`, as far as they are empty."""
    folders = {folder for change in changes for folder in change.folders}
    for folder in sorted(folders, key=len, reverse=True):  # what is inside has a longer path
        with suppress(OSError):  # somebody else uses it, or it is gone
            Path(folder).rmdir()


def _shown(path: str, here: str) -> str:
    """Return `path` as seen from the folder `here`, whole where it is not below that."""
    file = Path(path)
    return _on_one_line(str(file.relative_to(here) if file.is_relative_to(here) else file))


def _on_one_line(text: str) -> str:
    return text.replace("\n", "\\n")
