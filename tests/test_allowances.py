"""What was allowed for one conversation, beside its session."""

import json
import os
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest
from test_messages import SYSTEM, user
from users import open_folder, ordinary_user

from bantam.sessions.allowances import StoredAllowances
from bantam.sessions.session import Session
from bantam.sessions.snapshot import About
from bantam.sessions.store import Store

ID: Final = "s"
KEY, OTHER = "ab" * 32, "cd" * 32
ABOUT: Final = About(project="/p", endpoint="https://e", model="m", dialect="native")


def store_at(home: Path | None, second: int = 0) -> Store:
    return Store(home, lambda: datetime(2026, 1, 2, 3, 4, second, tzinfo=UTC))


def begun(home: Path | None, second: int = 0) -> tuple[Session, StoredAllowances]:
    """Return a new conversation, begun in that second, and its allowances."""
    store = store_at(home, second)
    session = store.fresh(ID, ABOUT)
    allowances = StoredAllowances(session, store.folder)
    session.begin(SYSTEM)
    session.append(user("Go."))
    return session, allowances


def resumed(home: Path, session_id: str = ID) -> StoredAllowances:
    """Return the allowances of a stored conversation, in another process as it were."""
    store = store_at(home, second=59)
    session = store.resumed(session_id, ABOUT)
    try:
        return StoredAllowances(session, store.folder)
    finally:
        session.close()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / ".bantam"


def file_in(home: Path) -> Path:
    return home / "sessions" / f"{ID}.allowed"


def allow(home: Path, *keys: str, second: int = 0) -> None:
    """Have a conversation in which `keys` are allowed."""
    session, allowances = begun(home, second)
    for key in keys:
        allowances.allow(key)
    session.close()


def test_what_is_allowed_holds_at_once_and_where_the_conversation_goes_on(home: Path) -> None:
    session, allowances = begun(home)
    assert not allowances.allowed(KEY)
    allowances.allow(KEY)
    assert allowances.allowed(KEY)
    assert not allowances.allowed(OTHER)
    session.close()
    again = resumed(home)
    assert again.allowed(KEY)
    assert not again.allowed(OTHER)


def test_what_a_later_run_allows_comes_on_top(home: Path) -> None:
    allow(home, KEY)
    resumed(home).allow(OTHER)
    assert [resumed(home).allowed(key) for key in (KEY, OTHER)] == [True, True]


@pytest.mark.parametrize("second", [0, 1], ids=["in the same second", "later"])
def test_nothing_is_allowed_in_the_next_conversation(second: int, home: Path) -> None:
    allow(home, KEY)
    session, allowances = begun(home, second)
    assert not allowances.allowed(KEY)
    allowances.allow(OTHER)
    session.close()
    assert [resumed(home).allowed(key) for key in (KEY, OTHER)] == [False, True]


def test_an_older_conversation_s_file_is_nothing_to_one_that_allowed_nothing(home: Path) -> None:
    allow(home, KEY)
    allow(home, second=1)
    assert file_in(home).exists()
    assert not resumed(home).allowed(KEY)


def test_nothing_is_allowed_in_another_session(home: Path) -> None:
    allow(home, KEY)
    store = store_at(home)
    assert not StoredAllowances(store.fresh("t", ABOUT), store.folder).allowed(KEY)


def test_what_was_allowed_before_the_first_prompt_was_stored_is_stored_with_the_next(
    home: Path,
) -> None:
    store = store_at(home)
    session = store.fresh(ID, ABOUT)
    allowances = StoredAllowances(session, store.folder)
    allowances.allow(KEY)
    assert allowances.allowed(KEY)
    assert not home.exists()
    session.append(user("Go."))
    allowances.allow(OTHER)
    session.close()
    assert [resumed(home).allowed(key) for key in (KEY, OTHER)] == [True, True]


def test_the_file_is_private_and_holds_keys_alone(home: Path) -> None:
    allow(home, OTHER, KEY)
    assert stat.S_IMODE(file_in(home).stat().st_mode) == 0o600
    assert json.loads(file_in(home).read_text()) == {
        "conversation": "2026-01-02T03:04:00+00:00",
        "allowed": [KEY, OTHER],
    }


def test_the_file_is_no_session(home: Path) -> None:
    allow(home, KEY)
    store = store_at(home)
    assert store.ids() == [ID]
    assert [summary.id for summary in store.summaries()] == [ID]
    assert store.find(ID[:1]) == ID


_CREATED: Final = '"conversation": "2026-01-02T03:04:00+00:00"'


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe\xfd",
        b"[" * 100_000,
        b'{"allowed": ' + b"9" * 5000 + b"}",
        b"null",
        b'["' + KEY.encode() + b'"]',
        f'{{"allowed": ["{KEY}"]}}'.encode(),
        f'{{"conversation": null, "allowed": ["{KEY}"]}}'.encode(),
        f'{{{_CREATED}, "allowed": "{KEY}"}}'.encode(),
        f'{{{_CREATED}, "allowed": {{"{KEY}": 1}}}}'.encode(),
        f'{{{_CREATED}, "allowed": [["{KEY}"]]}}'.encode(),
    ],
)
def test_a_damaged_file_allows_nothing_and_the_next_replaces_it(content: bytes, home: Path) -> None:
    allow(home, KEY)
    file_in(home).write_bytes(content)
    assert not resumed(home).allowed(KEY)
    resumed(home).allow(OTHER)
    assert [resumed(home).allowed(key) for key in (KEY, OTHER)] == [False, True]


def _as_pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def _as_folder(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


@pytest.mark.parametrize("made", [_as_pipe, _as_folder, Path.unlink])
def test_what_is_no_file_allows_nothing_and_nobody_waits_for_it(
    made: Callable[[Path], None], home: Path
) -> None:
    allow(home, KEY)
    made(file_in(home))
    again = resumed(home)
    assert not again.allowed(KEY)
    again.allow(OTHER)
    assert again.allowed(OTHER)


def test_a_home_that_takes_nothing_forgets_with_the_program() -> None:
    with open_folder() as folder, ordinary_user():
        home = folder / ".bantam"
        allow(home, KEY)
        sessions = home / "sessions"
        sessions.chmod(0o500)
        try:
            again = resumed(home)
            again.allow(OTHER)
            assert [again.allowed(key) for key in (KEY, OTHER)] == [True, True]
            assert [resumed(home).allowed(key) for key in (KEY, OTHER)] == [True, False]
        finally:
            sessions.chmod(0o700)


def test_without_a_home_it_is_remembered_for_the_run_alone() -> None:
    _, allowances = begun(None)
    allowances.allow(KEY)
    assert allowances.allowed(KEY)
    assert not begun(None)[1].allowed(KEY)
