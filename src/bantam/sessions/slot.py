"""A place on the disk for one session, held by one Bantam: lock, journal, snapshot.

The order of writing is what makes a crash harmless. A snapshot of generation n+1 is whole under its
name before the journal that extended generation n is emptied; a journal left behind by a crash
between the two is known by its generation and ignored. Until then the journal has it all.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Final

from bantam.core.messages import NOT_RUN_RESULT, UNKNOWN_RESULT, Message, Role, unanswered
from bantam.sessions import files, journal, snapshot
from bantam.sessions.journal import Journal, Lines
from bantam.sessions.snapshot import About, Conversation, Damaged, TooNew
from bantam.sessions.undo import UndoLog

HEAD_BYTES: Final = 64 * 1024  # far more than the head of a snapshot has
_MOST_BYTES: Final = 512 * 1024 * 1024  # more is no session but a mistake
# A project with more at work at once has another trouble; and a loop has an end.
_MOST_AT_ONCE: Final = 1000

Tell = Callable[[str], None]


@dataclass(slots=True)
class Loaded:
    """A session as it goes on. `as_stored`: the disk holds it all; else it is to be saved.

    `damage`: why part of the journal could not be used, "" if all could. `cut_off`: the tool that a
    crash cut off while it ran, "" if none.
    """

    about: About
    conversation: Conversation
    as_stored: bool = True
    damage: str = ""
    cut_off: str = ""


class Slot:
    """The files of the session `id` in `folder`, which nobody else writes while this is held."""

    def __init__(self, folder: Path, session_id: str, locked: Journal) -> None:
        self.folder = folder
        self.id = session_id
        self.undo = UndoLog(undo_path(folder, session_id))
        self._journal = locked
        self._generation = 0

    @property
    def path(self) -> Path:
        """The snapshot."""
        return snapshot_path(self.folder, self.id)

    @property
    def is_lost(self) -> bool:
        """Whether the lock's file is gone, so that another Bantam may hold the session too."""
        return self._journal.is_lost

    @property
    def is_empty(self) -> bool:
        """Whether nothing happened since the snapshot."""
        return self._journal.is_empty

    def append(self, lines: bytes) -> None:
        """Add whole lines to the journal, durably. Raises OSError; then `save` must come next."""
        if self.is_lost:
            raise FileNotFoundError(2, "the session's files were removed", str(self.path))
        self._journal.append(lines)

    def save(self, about: About, conversation: Conversation) -> None:
        """Write the next snapshot and empty the journal. Raises OSError; nothing is lost then."""
        about = replace(about, generation=self._generation + 1)
        # A link leads to where somebody wants the session to be.
        files.replace(_target(self.path), snapshot.pieces(self.id, about, conversation))
        self._generation += 1
        self._journal.begin(self._generation)

    def load(self, tell: Tell) -> Loaded:
        """Return what is stored; what is damaged is told and set aside. Raises OSError, TooNew."""
        lines = self._journal.read()
        try:
            loaded = read(self.folder, self.id, lines)
        except Damaged as error:
            aside = _set_aside(self.path)
            tell(f"the session {self.id} is damaged: {error}; it was set aside as {aside}")
            loaded = Loaded(About(), Conversation(), damage="its snapshot is damaged")
        if loaded.damage and not self._journal.is_empty:
            aside = _copy_aside(self._journal)
            tell(
                f"not all of the journal of {self.id} was taken: {loaded.damage}; it is in {aside}"
            )
        # Above both: a journal that stays behind must not fit to a later snapshot.
        self._generation = max(loaded.about.generation, lines.generation or 0)
        if not loaded.conversation.messages:
            self._journal.begin(self._generation)
        elif self._journal.is_empty:
            self._journal.extend(self._generation)
        else:
            loaded.as_stored = False
        return loaded

    def keep(self, about: About, old: list[tuple[str, Conversation]], tell: Tell) -> None:
        """Store what something has replaced under names of its own, and take it out of `old`.

        The names are `<id>-before-compact`, `<id>-before-compact-2` ... Raises OSError.
        """
        while old:
            by, conversation = old[0]
            kept = _unused_id(self.folder, f"{self.id}-before-{by}")
            pieces = snapshot.pieces(kept, about, conversation)
            files.replace(snapshot_path(self.folder, kept), pieces)
            del old[0]
            tell(f"the whole conversation is kept as {kept}")

    def make_room(self, tell: Tell) -> None:
        """Let another conversation begin here; the stored one is kept under a name of its own.

        Raises OSError; then nothing has changed.
        """
        if not self._journal.is_empty:
            self._finish_cut_off(tell)
        try:
            with files.reader(self.path) as file:
                head = snapshot.parsed_head(file.read(HEAD_BYTES))
                state = os.fstat(file.fileno())
        except FileNotFoundError:
            return
        self._generation = max(self._generation, head[0].generation if head else 0)
        undo = undo_path(self.folder, self.id)
        if state.st_nlink > 1 and _is_kept(self.path, state):
            # For a run that could not be stored then: its undo is of no use.
            undo.unlink(missing_ok=True)
            return
        # After the time of its last turn.
        kept = _unused_id(self.folder, f"{self.id}-{files.changed(state):%Y%m%d-%H%M%S}")
        with suppress(FileNotFoundError):
            undo.rename(undo_path(self.folder, kept))
        _link(self.path, snapshot_path(self.folder, kept))

    def _finish_cut_off(self, tell: Tell) -> None:
        """Put the turn that a crash cut off into the snapshot."""
        try:
            cut_off = self.load(tell)
        except TooNew:
            self._generation = self._journal.read().generation or 0
            _copy_aside(self._journal)
            return
        if cut_off.conversation.messages:
            self.save(cut_off.about, cut_off.conversation)

    def release(self, *, remove: bool) -> None:
        """Let the session go; `remove` the journal, if it holds nothing that the snapshot lacks."""
        self._journal.close(remove=remove)


def held(folder: Path, session_id: str) -> Slot | None:
    """Return the slot of that name, None while another Bantam has it. Raises OSError."""
    files.make_private(folder)
    files.close_to_others(folder)
    if folder.parent.name == ".bantam":  # not one that BANTAM_HOME names, perhaps /tmp
        files.close_to_others(folder.parent)
    locked = journal.locked(journal_path(folder, session_id))
    return None if locked is None else Slot(folder, session_id, locked)


def acquired(folder: Path, session_id: str, tell: Tell) -> Slot:
    """Return the slot of that name, or of the first of `<id>-2`, `<id>-3` ... that nobody has.

    Raises OSError where none can be made.
    """
    for number in range(1, _MOST_AT_ONCE):
        name = session_id if number == 1 else f"{session_id}-{number}"
        slot = held(folder, name)
        if slot is None:
            continue
        if number > 1:
            tell(f"another Bantam works on the session {session_id}; this one works on {name}")
        return slot
    raise BlockingIOError(11, "every session of this name is in use", str(folder))


def snapshot_path(folder: Path, session_id: str) -> Path:
    """Return where the snapshot of a session is."""
    return folder / f"{session_id}.json"


def journal_path(folder: Path, session_id: str) -> Path:
    """Return where the journal of a session is."""
    return folder / f"{session_id}.journal"


def undo_path(folder: Path, session_id: str) -> Path:
    """Return where what puts back the files of a session is."""
    return folder / f"{session_id}.undo"


def read(folder: Path, session_id: str, lines: Lines) -> Loaded:
    """Return the session that the snapshot and `lines`, its journal's, hold together.

    A call without a result has one that says what is known: it may have run, or it has not.
    Where there is no snapshot, the session is empty. Raises Damaged, TooNew and OSError.
    """
    about, conversation = _snapshot(snapshot_path(folder, session_id))
    loaded = Loaded(about, conversation, damage=lines.damage)
    match lines.generation:
        case about.generation:
            loaded.damage = snapshot.folded(conversation, lines.entries) or lines.damage
        case None:
            pass
        case generation if generation < about.generation:
            loaded.damage = ""  # the snapshot has all of it
        case generation:
            loaded.damage = f"it goes on from generation {generation}, not {about.generation}"
    for call in list(unanswered(conversation.messages)):
        if conversation.started:
            loaded.cut_off = call.name
        result = UNKNOWN_RESULT if conversation.started else NOT_RUN_RESULT
        conversation.append(Message(Role.TOOL, result, tool_call_id=call.id))
        loaded.as_stored = False
    conversation.started = False
    return loaded


def _snapshot(path: Path) -> tuple[About, Conversation]:
    try:
        with files.reader(path) as file:
            if os.fstat(file.fileno()).st_size > _MOST_BYTES:
                raise Damaged(f"it has more than {_MOST_BYTES} bytes")
            return snapshot.parsed(file.read())
    except FileNotFoundError:
        return About(), Conversation()


# -- other names ------------------------------------------------------------------------------


def _unused_id(folder: Path, first: str) -> str:
    """Return the id under which a conversation is kept: `first`, or with a number at its end."""
    ids = (first if number == 1 else f"{first}-{number}" for number in count(1))
    return next(each for each in ids if not snapshot_path(folder, each).exists())


def _is_kept(path: Path, state: os.stat_result) -> bool:
    """Whether the snapshot, a file of that state, has a second name already."""
    others = [each for each in path.parent.iterdir() if each.name.startswith(f"{path.stem}-")]
    return any(
        each.suffix == path.suffix and os.path.samestat(each.lstat(), state) for each in others
    )


def _link(path: Path, other: Path) -> None:
    try:
        other.hardlink_to(_target(path))  # a name of the link itself would lead to what follows
    except OSError:  # a file system without hard links
        files.replace(other, [path.read_bytes()])


def _target(path: Path) -> Path:
    """Return where the file `path` is, over all links."""
    return Path(os.path.realpath(path))  # Path.resolve may raise RuntimeError


def _set_aside(path: Path) -> str:
    """Rename a file so that it is no session any more; return its new name."""
    name = _unused(path)
    path.rename(path.with_name(name))
    return name


def _copy_aside(log: Journal) -> str:
    """Keep what a journal holds; its own file stays, since it is the lock."""
    name = _unused(log.path)
    files.replace(log.path.with_name(name), [log.content()])
    return name


def _unused(path: Path) -> str:
    names = (f"{path.name}.damaged" + (f"-{n}" if n > 1 else "") for n in count(1))
    return next(name for name in names if not path.with_name(name).exists())
