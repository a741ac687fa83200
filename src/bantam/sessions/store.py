"""All sessions of a user: names, the list, and the way to one of them.

They are in one private folder, `~/.bantam/sessions`, a snapshot each. Each project has its own, by
the digest of its path; others have the names that people gave them.
"""

import hashlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final

from bantam.core.errors import BantamError, ConfigError, why_of
from bantam.core.messages import has_answer
from bantam.core.redaction import Redaction
from bantam.sessions import journal
from bantam.sessions import slot as slots
from bantam.sessions.journal import Lines
from bantam.sessions.session import Session
from bantam.sessions.slot import Loaded, Slot, Tell
from bantam.sessions.snapshot import About, Conversation, Damaged, TooNew
from bantam.sessions.summary import Summary, summary_of

# Letters and digits of ASCII: a longer alphabet has names that look alike and are too long.
_NAME: Final = re.compile(r"[A-Za-z0-9 _@][A-Za-z0-9 ._@-]{0,99}")
_SHOWN_NAMES: Final = 10


def _to_nobody(_: str) -> None:
    pass


def home_of(environ: Mapping[str, str]) -> Path | None:
    """Return the folder of what Bantam remembers; None where nobody knows a home."""
    if named := environ.get("BANTAM_HOME"):
        return Path(named).absolute()
    home = environ.get("HOME", "")
    if Path(home).is_absolute():
        return Path(home, ".bantam")
    if sys.platform == "win32":  # pragma: no cover  # no password database there
        return Path.home() / ".bantam"
    import pwd

    # Not Path.home: it takes a HOME that is empty or relative for a folder.
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir, ".bantam")
    except KeyError:  # pragma: no cover  # a user without a name, as in some containers
        return None


def project_id(folder: Path) -> str:
    """Return the id of the session of the project in `folder`: its path's MD5 (SPEC section 12)."""
    return hashlib.md5(os.fsencode(folder.absolute()), usedforsecurity=False).hexdigest()


def checked_name(name: str) -> str:
    """Return `name` if a session may have it. Raises ConfigError, which says what may be in it."""
    if _NAME.fullmatch(name):
        return name
    shown = repr(name) if len(name) <= 100 else "this"  # not cut: it may be a key
    raise ConfigError(
        f"{shown} cannot name a session: take letters, digits, blanks, . _ - @, at most 100, "
        "none of . and - at the start"
    )


class Store:
    """The sessions in `home`; without one nothing is stored."""

    def __init__(
        self, home: Path | None, now: Callable[[], datetime], redaction: Redaction | None = None
    ) -> None:
        self.folder = None if home is None else home / "sessions"
        self._now = now
        self._redaction = redaction or Redaction(())

    # -- the way to one -----------------------------------------------------------------------

    def fresh(self, session_id: str, about: About) -> Session:
        """Return a new conversation, which takes the place of a stored one once it has a prompt."""
        about = self._now_at(About(), about)
        return self._session(session_id, Loaded(about, Conversation()), None)

    def resumed(self, session_id: str, about: About | None = None) -> Session:
        """Return the stored conversation, an empty one if there is none.

        `about`: what the run is, that goes on from it; the notices say what differs. Where another
        Bantam has the session, or it can only be read, it goes on in a place of its own. Raises
        TooNew.
        """
        notices: list[str] = []
        loaded, held = self._loaded(session_id, notices.append)
        then = loaded.about
        if about is not None:
            loaded.about = self._now_at(then, about)
        session = self._session(session_id, loaded, held)
        session.notices += notices
        if session.messages:
            session.notices += _differences(then, loaded.about)
            if loaded.cut_off:
                what = f"the last run of this session was cut off in {loaded.cut_off}"
                session.notices.append(f"{what}: check what that did, it may still run")
            if then.project not in ("", loaded.about.project):
                session.note(f"(From here on the working directory is {loaded.about.project}.)")
        return session

    def _now_at(self, then: About, now: About) -> About:
        """Return what a session says about itself once it goes on as `now` says."""
        now = now.without(self._redaction)
        return replace(
            now,
            created=then.created,
            updated=then.updated,
            dialect=now.dialect or (then.dialect if then.model == now.model else ""),
            summary=then.summary,
            generation=then.generation,
        )

    def alone(self, session_id: str) -> Session:
        """Return the stored session itself, whatever for; nobody else has it meanwhile.

        Raises BantamError where that cannot be.
        """
        notices: list[str] = []
        try:
            slot = slots.held(self._folder(), session_id)
            if slot is None:
                what = f"another Bantam works on the session {session_id}; end it first"
                raise BantamError(what)
            with _released_on_error(slot):
                loaded = slot.load(notices.append)
        except OSError as error:
            raise BantamError(f"the session {session_id} cannot be used: {why_of(error)}") from None
        session = self._session(session_id, loaded, slot)
        session.notices += notices
        return session

    def stored(self, session_id: str, tell: Tell = _to_nobody) -> Loaded:
        """Return a session as it is on the disk now, empty if it is not there.

        With the turn that is in its journal, if a crash has left that. Raises Damaged and TooNew.
        """
        if self.folder is None:
            return Loaded(About(), Conversation())
        lines = _left_behind(self.folder, session_id)
        path = slots.snapshot_path(self.folder, session_id)
        try:
            loaded = slots.read(self.folder, session_id, lines)
        except Damaged as error:
            raise Damaged(f"the session {path} cannot be read: {error}") from None
        except OSError as error:
            raise Damaged(f"the session {path} cannot be read: {why_of(error)}") from None
        if loaded.damage:
            tell(f"not all of the journal of {session_id} was taken: {loaded.damage}")
        return loaded

    def save_as(self, session: Session, name: str) -> None:
        """Store a copy under `name`, in the place of what has it. Raises ConfigError, OSError.

        That is kept under a name of its own, unless the copy only goes on from it.
        """
        if self._redaction.text(checked_name(name)) != name:
            raise ConfigError("this name holds a key, and no file may; take another name")
        slot = slots.held(self._folder(), name)
        if slot is None:
            raise ConfigError(f"another Bantam works on the session {name}; take another name")
        with _released_on_error(slot):
            if not _holds_beginning(slot, session):
                slot.make_room(session.notices.append)
            session.copy_to(slot)
        slot.release(remove=True)

    def _session(self, session_id: str, loaded: Loaded, held: Slot | None) -> Session:
        return Session(
            loaded,
            partial(self._acquired, session_id),
            session_id=session_id,
            now=self._now,
            redaction=self._redaction,
            slot=held,
        )

    def _loaded(self, session_id: str, tell: Tell) -> tuple[Loaded, Slot | None]:
        """Return what a run that goes on from a session begins with, and its place."""
        try:
            slot = self._acquired(session_id, tell)
        except OSError:
            # It may be read all the same; what is wrong with its place, the first save tells.
            return self._readable(session_id, tell), None
        try:
            with _released_on_error(slot):
                loaded = slot.load(tell)
                if slot.id != session_id and not loaded.conversation.messages:
                    loaded = self._copy(session_id, tell) or loaded
        except OSError as error:
            tell(f"the session {slot.id} cannot be read: {why_of(error)}")
            return Loaded(About(), Conversation()), None
        return loaded, slot

    def _copy(self, session_id: str, tell: Tell) -> Loaded | None:
        """Return the session that another Bantam works on, as another one goes on from it."""
        found = self._readable(session_id, tell)
        if not has_answer(found.conversation.messages):
            return None  # the first prompt: its turn is the other's
        found.as_stored = False
        return found

    def _readable(self, session_id: str, tell: Tell) -> Loaded:
        try:
            return self.stored(session_id, tell)
        except Damaged as error:
            tell(str(error))
            return Loaded(About(), Conversation())

    def _acquired(self, session_id: str, tell: Tell) -> Slot:
        return slots.acquired(self._folder(), session_id, tell)

    def _folder(self) -> Path:
        if self.folder is None:
            raise FileNotFoundError(2, "there is no home folder", "~/.bantam")
        return self.folder

    # -- all of them --------------------------------------------------------------------------

    def find(self, name: str) -> str:
        """Return the id that is `name`, or the one that begins with it. Raises ConfigError."""
        if not name:
            raise ConfigError("the id of the session is empty")
        ids = self.ids()
        found = [name] if name in ids else [each for each in ids if each.startswith(name)]
        # A project's own session begins all that it had before.
        if found and all(each.startswith(found[0]) for each in found):
            return found[0]
        name = self._redaction.text(name)  # before it is cut
        if not found:
            raise ConfigError(f"no session is named {name!r:.120}, and no name begins so")
        shown = ", ".join(found[:_SHOWN_NAMES]) + (", ..." if len(found) > _SHOWN_NAMES else "")
        raise ConfigError(f"{len(found)} sessions begin with {name!r:.120}: {shown}")

    def ids(self) -> list[str]:
        """Return the names of all sessions, sorted."""
        return sorted(path.stem for path in self._snapshots())

    def summaries(self) -> list[Summary]:
        """Return all sessions, the last changed first; no large file is read whole."""
        found = [summary_of(path) for path in self._snapshots()]
        return sorted(found, key=lambda s: (s.when, s.id), reverse=True)

    def _snapshots(self) -> Iterator[Path]:
        if self.folder is None:
            return
        with suppress(OSError):  # no folder, no sessions
            found = list(self.folder.iterdir())
            yield from (p for p in found if p.suffix == ".json" and not p.name.startswith("."))


def _holds_beginning(slot: Slot, session: Session) -> bool:
    """Whether all that is stored in `slot` is how the conversation of `session` begins."""
    try:
        stored = slot.load(session.notices.append).conversation.messages
    except TooNew:
        return False
    return stored == session.messages[: len(stored)]


@contextmanager
def _released_on_error(slot: Slot) -> Iterator[None]:
    try:
        yield
    except BaseException:  # Ctrl+C included: nobody else will let it go
        slot.release(remove=slot.is_empty)  # else it holds a turn that a crash cut off
        raise


def _left_behind(folder: Path, session_id: str) -> Lines:
    """Return the journal that a crash left behind; nothing of one that another Bantam writes."""
    # Before the snapshot: should somebody write that meanwhile, this is a stale journal.
    try:
        return journal.left_behind(slots.journal_path(folder, session_id))
    except FileNotFoundError:
        return Lines()
    except OSError as error:
        return Lines(damage=why_of(error))


def _differences(then: About, now: About) -> Iterator[str]:
    """Yield what is not as it was when the session was made."""
    if then.model and (then.model, then.endpoint) != (now.model, now.endpoint):
        was, is_now = (f"{about.model} at {about.endpoint}" for about in (then, now))
        yield f"this session was made with {was}; it goes on with {is_now}"
    if then.project and then.project != now.project:
        yield f"this session was made in {then.project}; commands run in {now.project}"
