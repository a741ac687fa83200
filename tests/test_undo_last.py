"""The last turn of a session undone, and told to the model, whatever the disk makes of it."""

import hashlib
from pathlib import Path

import pytest
from processes import files_of_at_most
from test_messages import SYSTEM, said, user
from test_session import fresh

from bantam.agent.undo import undo_last
from bantam.core.cancel import Cancel
from bantam.core.changes import Change
from bantam.core.errors import BantamError
from bantam.sessions.session import Session


def worked(folder: Path) -> tuple[Session, Path]:
    """Return a session of one turn, which wrote a file, and that file."""
    session = fresh(folder / ".bantam")
    session.append(user("Write."))
    file = folder / "new.txt"
    file.write_text("x")
    after = hashlib.sha256(b"x").hexdigest()
    session.keep(Change(str(file), "", after, None, 0, 1, b""))
    session.append(said("Done."))
    return session, file


def test_the_model_hears_of_what_was_undone(tmp_path: Path) -> None:
    session, file = worked(tmp_path)
    assert undo_last(session, Cancel()).removed == (str(file),)
    assert not file.exists()
    assert session.messages[-1] == user(f"(The user has undone your last changes of {file}.)")
    session.close()


def test_a_session_that_is_not_stored_yet_has_nothing_to_undo(tmp_path: Path) -> None:
    session = fresh(tmp_path)
    with pytest.raises(BantamError, match="nothing to undo"):
        undo_last(session, Cancel())
    assert list(session.messages) == [SYSTEM]


def test_a_log_that_cannot_be_read_is_told_and_nothing_is_touched(tmp_path: Path) -> None:
    session, file = worked(tmp_path)
    (log,) = (tmp_path / ".bantam" / "sessions").glob("*.undo")
    log.unlink()
    log.mkdir()
    with pytest.raises(BantamError, match="cannot be read"):
        undo_last(session, Cancel())
    assert file.exists()
    session.close()


def test_an_undo_that_cannot_be_noted_is_done_and_told_all_the_same(tmp_path: Path) -> None:
    session, file = worked(tmp_path)
    with files_of_at_most(10):
        report = undo_last(session, Cancel())
    assert report.removed == (str(file),)
    assert not file.exists()
    assert any("could not be noted" in notice for notice in session.notices)
    session.close()
