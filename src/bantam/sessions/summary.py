"""What a list says of a session, without reading a large file whole."""

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Final

from bantam.core.errors import why_of
from bantam.sessions import files, snapshot
from bantam.sessions.slot import HEAD_BYTES
from bantam.sessions.snapshot import About, Damaged, TooNew

_READ_WHOLE_BYTES: Final = 1024 * 1024  # of a file whose head does not tell: what a list may cost


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


def summary_of(path: Path) -> Summary:
    """Return the line for the snapshot `path`, whatever is there."""
    when = files.EPOCH
    try:
        with files.reader(path) as file:
            state = os.fstat(file.fileno())
            when = files.changed(state)
            about, count = _head(file, state.st_size)
    except (Damaged, TooNew) as error:
        return Summary(path.stem, when, None, About(), str(error))
    except OSError as error:
        return Summary(path.stem, when, None, About(), why_of(error))
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
