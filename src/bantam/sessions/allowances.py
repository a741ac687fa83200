"""`ID.allowed`: which calls the user has allowed for one conversation, beside its session.

An id is a project's, and holds one conversation after the other: what was allowed in one is nothing
to the next. The file holds digests alone, so it tells nobody what was run.
"""

import json
from pathlib import Path
from typing import Any

from bantam.sessions import files
from bantam.sessions.session import Session


class StoredAllowances:
    """Meets `agent.approval.Allowances`; in memory alone where the session is not stored."""

    def __init__(self, session: Session, folder: Path | None) -> None:
        self._session = session
        self._folder = folder
        # Then whatever is stored is of another one, even if that began in the same second.
        self._begins = not session.created
        self._keys: set[str] = set()

    def allowed(self, key: str) -> bool:
        """Whether `key` was allowed in this conversation."""
        return key in self._keys or key in self._stored()

    def allow(self, key: str) -> None:
        """Allow `key`; a disk that does not take it forgets it with the program."""
        self._keys |= {key, *self._stored()}
        if path := self._path():
            value = {"conversation": self._session.created, "allowed": sorted(self._keys)}
            try:
                files.replace(path, [files.encoded(value), b"\n"])
            except OSError:
                return

    def _stored(self) -> set[str]:
        path = self._path()
        if path is None or self._begins:
            return set()
        try:
            with files.reader(path) as file:
                value: Any = json.load(file)
        except (OSError, ValueError, RecursionError):  # none, or none that can be read: ask again
            return set()
        match value:
            case {"conversation": str(conversation), "allowed": list(keys)}:
                is_this = conversation == self._session.created
                return {key for key in keys if isinstance(key, str)} if is_this else set()
            case _:
                return set()

    def _path(self) -> Path | None:
        if self._folder is None or not self._session.created:
            return None
        return self._folder / f"{self._session.id}.allowed"
