"""All sessions of a user: names, the list, and the way to one of them.

They are in one private folder, `~/.bantam/sessions`, a snapshot each. Each project has its own, by
the digest of its path; others have the names that people gave them.
"""

import hashlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

from bantam.core.errors import ConfigError
from bantam.core.messages import Role
from bantam.core.redaction import Redaction
from bantam.sessions import files, journal, snapshot
from bantam.sessions import slot as slots
from bantam.sessions.journal import Lines
from bantam.sessions.session import Session
from bantam.sessions.slot import HEAD_BYTES, Loaded, Slot, Tell
from bantam.sessions.snapshot import About, Conversation, Damaged, TooNew

# Letters and digits of ASCII: a longer alphabet has names that look alike and are too long.
_NAME: Final = re.compile(r"[A-Za-z0-9 _@][A-Za-z0-9 ._@-]{0,99}")
_READ_WHOLE_BYTES: Final = 1024 * 1024  # of a file whose head does not tell: what a list may cost
_SHOWN_NAMES: Final = 10


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
    raise ConfigError(
        f"{name!r:.120} cannot name a session: take letters, digits, blanks, . _ - @, at most 100, "
        "none of . and - at the start"
    )


@dataclass(frozen=True, slots=True)
class Summary:
    """A line of the list. `count`: messages, None where only reading a large file would tell.

    `when`: the last change. `fault`: why the file cannot be used.
    """

    id: str
    when: datetime
    count: int | None
    about: About
    fault: str = ""


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
            if then.project not in ("", loaded.about.project):
                session.note(f"(From here on the working directory is {loaded.about.project}.)")
        return session

    def _now_at(self, then: About, now: About) -> About:
        """Return what a session says about itself once it goes on as `now` says."""
        return replace(
            now,
            created=then.created,
            updated=then.updated,
            endpoint=self._redaction.text(now.endpoint),
            summary=then.summary,
            generation=then.generation,
        )

    def stored(self, session_id: str, *, in_hand: bool = True) -> Loaded:
        """Return a session as it is on the disk now, empty if it is not there.

        `in_hand`: with the turn that is in its journal. Raises Damaged and TooNew.
        """
        if self.folder is None:
            return Loaded(About(), Conversation())
        try:
            lines = _lines(self.folder, session_id) if in_hand else Lines()
            loaded = slots.read(self.folder, session_id, lines)
        except (Damaged, OSError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            path = slots.snapshot_path(self.folder, session_id)
            raise Damaged(f"the session {path} cannot be read: {why}") from None
        messages = loaded.conversation.messages
        if not in_hand and messages and messages[-1].role is Role.USER:
            messages.pop()  # a conversation's first prompt is in its snapshot at once
        return loaded

    def save_as(self, session: Session, name: str) -> None:
        """Store a copy under `name`, in the place of what has it. Raises ConfigError, OSError."""
        slot = self._held(checked_name(name))
        if slot is None:
            raise ConfigError(f"another Bantam works on the session {name}; take another name")
        try:
            slot.make_room(session.notices.append)
            session.copy_to(slot)
        except BaseException:
            slot.release(remove=False)  # it may hold a turn that a crash cut off
            raise
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
        try:
            held = self._held(session_id)
        except OSError:
            # It may be read all the same; what is wrong with its place, the first save tells.
            return self._readable(session_id, tell), None
        if held is None:
            # Without its journal: the turn in hand is the other's.
            return self._readable(session_id, tell, in_hand=False), None
        try:
            return held.load(tell), held
        except OSError as error:
            tell(f"the session {session_id} cannot be read: {error.strerror}")
            held.release(remove=False)
            return Loaded(About(), Conversation()), None
        except TooNew:
            held.release(remove=False)
            raise

    def _readable(self, session_id: str, tell: Tell, *, in_hand: bool = True) -> Loaded:
        try:
            loaded = self.stored(session_id, in_hand=in_hand)
        except Damaged as error:
            tell(str(error))
            return Loaded(About(), Conversation())
        if loaded.damage:
            tell(f"not all of the journal of {session_id} was taken: {loaded.damage}")
        return loaded

    def _held(self, session_id: str) -> Slot | None:
        return slots.held(self._folder(), session_id)

    def _acquired(self, session_id: str, tell: Tell) -> Slot:
        return slots.acquired(self._folder(), session_id, tell)

    def _folder(self) -> Path:
        if self.folder is None:
            raise FileNotFoundError(2, "there is no home folder", "~/.bantam")
        return self.folder

    # -- all of them --------------------------------------------------------------------------

    def find(self, name: str) -> str:
        """Return the id that is `name` or, alone, begins with it. Raises ConfigError."""
        ids = sorted(path.stem for path in self._snapshots())
        found = [name] if name in ids else [each for each in ids if each.startswith(name)]
        if len(found) == 1:
            return found[0]
        if not found:
            raise ConfigError(f"no session is named {name!r:.120}, and no name begins so")
        shown = ", ".join(found[:_SHOWN_NAMES]) + (", ..." if len(found) > _SHOWN_NAMES else "")
        raise ConfigError(f"{len(found)} sessions begin with {name!r:.120}: {shown}")

    def summaries(self) -> list[Summary]:
        """Return all sessions, the last changed first; no large file is read whole."""
        found = [_summary(path) for path in self._snapshots()]
        return sorted(found, key=lambda s: (s.when, s.id), reverse=True)

    def _snapshots(self) -> Iterator[Path]:
        if self.folder is None:
            return
        with suppress(OSError):  # no folder, no sessions
            found = list(self.folder.iterdir())
            yield from (p for p in found if p.suffix == ".json" and not p.name.startswith("."))


def _lines(folder: Path, session_id: str) -> Lines:
    # Before the snapshot: should its owner write that meanwhile, this is a stale journal.
    try:
        with files.reader(slots.journal_path(folder, session_id)) as file:
            return journal.parsed(file.read())
    except FileNotFoundError:
        return Lines()


def _differences(then: About, now: About) -> Iterator[str]:
    """Yield what is not as it was when the session was made."""
    if then.model and (then.model, then.endpoint) != (now.model, now.endpoint):
        was, is_now = (f"{about.model} at {about.endpoint}" for about in (then, now))
        yield f"this session was made with {was}; it goes on with {is_now}"
    if then.project and then.project != now.project:
        yield f"this session was made in {then.project}; commands run in {now.project}"


def _summary(path: Path) -> Summary:
    when = files.EPOCH
    try:
        with files.reader(path) as file:
            state = os.fstat(file.fileno())
            when = files.changed(state)
            about, count = _head(file, state.st_size)
    except (Damaged, TooNew) as error:
        return Summary(path.stem, when, None, About(), str(error))
    except OSError as error:
        return Summary(path.stem, when, None, About(), error.strerror or str(error))
    return Summary(path.stem, _time(about.updated) or when, count, about)


def _head(file: BinaryIO, size: int) -> tuple[About, int | None]:
    head = file.read(HEAD_BYTES)
    found = snapshot.parsed_head(head)
    if found is None and size <= _READ_WHOLE_BYTES:
        about, conversation = snapshot.parsed(head + file.read())
        return about, len(conversation.messages)
    return found or (About(), None)


def _time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
