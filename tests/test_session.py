"""A conversation that is stored while it happens, whether the disk follows or not."""

import itertools
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from processes import files_of_at_most
from test_messages import SYSTEM, calling, result, said, user
from users import NOBODY, open_folder, ordinary_user

from bantam.agent.memory import ListLog, Memory
from bantam.core.changes import Change
from bantam.core.events import UsageReport
from bantam.core.messages import NOT_RUN_RESULT, UNKNOWN_RESULT, Message, Role, ToolCall
from bantam.core.redaction import Redaction
from bantam.sessions import journal, slot
from bantam.sessions.journal import Lines
from bantam.sessions.session import Session
from bantam.sessions.slot import Loaded
from bantam.sessions.snapshot import About
from bantam.sessions.store import Store

ID = "s"
KEY = "sk-12345678"
ABOUT = About(project="/p", endpoint="https://e", model="m", dialect="native")
CHANGE = Change("/f", "0" * 64, "1" * 64, 0o644, 0, 1, b"old")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / ".bantam"


def clock() -> Callable[[], datetime]:
    """Return a clock that goes on by a minute each time it is looked at."""
    ticks = itertools.count()
    return lambda: datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC) + timedelta(minutes=next(ticks))


def store_in(home: Path | None) -> Store:
    return Store(home, clock(), Redaction([KEY]))


def fresh(home: Path | None) -> Session:
    session = store_in(home).fresh(ID, ABOUT)
    session.begin(SYSTEM)
    return session


def on_disk(home: Path, session_id: str = ID) -> Loaded:
    """Return what the files of a session, whoever holds it, hold together."""
    folder = home / "sessions"
    path = slot.journal_path(folder, session_id)
    lines = journal.parsed(path.read_bytes()) if path.exists() else Lines()
    return slot.read(folder, session_id, lines)


def stored(home: Path, session_id: str = ID) -> list[Message]:
    """Return the messages that are on the disk now."""
    return on_disk(home, session_id).conversation.messages


def after_a_crash(home: Path) -> Path:
    """Return a copy of the home: what a process finds when the one that wrote was killed now."""
    copy = home.with_name(f"{home.name}-crashed")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(home, copy)
    return copy


def names(home: Path) -> list[str]:
    return sorted(path.name for path in (home / "sessions").iterdir())


def snapshot(home: Path, session_id: str = ID) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((home / "sessions" / f"{session_id}.json").read_bytes())
    return value


def entries(home: Path, session_id: str = ID) -> list[dict[str, Any]]:
    """Return what the journal holds, without its header."""
    lines = journal.parsed((home / "sessions" / f"{session_id}.journal").read_bytes())
    assert lines.damage == ""
    return lines.entries


def cost(prompt: int) -> UsageReport:
    return UsageReport(
        prompt=prompt, completion=1, cached=None, estimated=True, context=prompt, window=0
    )


# -- log first, then show ---------------------------------------------------------------------


def test_a_conversation_begins_on_the_disk_with_a_snapshot_that_holds_its_prompt(
    home: Path,
) -> None:
    session = fresh(home)
    session.append(user("u"))
    assert [m["content"] for m in snapshot(home)["messages"]] == ["S", "u"]
    assert snapshot(home)["generation"] == 1
    assert entries(home) == []
    assert session.notices == []


def test_every_message_is_on_the_disk_when_append_returns(home: Path) -> None:
    session = fresh(home)
    call = calling("a")
    for message in (user("u"), call, result("a", "é\ud83d"), said("done"), user("v"), said("w")):
        session.append(message)
        assert stored(home)[: len(session.messages)] == list(session.messages)
    assert session.messages[0] == SYSTEM
    assert len(snapshot(home)["messages"]) == 2
    assert [list(entry) for entry in entries(home)] == [
        *[["message"]] * 3,
        ["message", "turn"],
        ["message"],
    ]


def test_a_call_is_known_to_have_started_before_it_can_have_an_effect(home: Path) -> None:
    session = fresh(home)
    call = calling("a", "b")
    session.append(user("u"))
    session.append(call)
    assert [m.content for m in stored(home)[3:]] == [NOT_RUN_RESULT] * 2
    session.started(call.tool_calls[0])
    assert [m.content for m in stored(home)[3:]] == [UNKNOWN_RESULT, NOT_RUN_RESULT]
    session.append(result("a", "1"))
    assert [m.content for m in stored(home)[3:]] == ["1", NOT_RUN_RESULT]
    session.started(call.tool_calls[1])
    assert [m.content for m in stored(home)[3:]] == ["1", UNKNOWN_RESULT]
    session.append(result("b", "2"))
    assert [m.content for m in stored(home)[3:]] == ["1", "2"]


def test_what_a_request_cost_is_stored_with_the_next_thing_that_happens(home: Path) -> None:
    session = fresh(home)
    session.append(user("u"))
    session.count(cost(7))
    assert entries(home) == []
    session.append(said("a"))
    assert [list(entry) for entry in entries(home)] == [["usage"], ["message"]]
    session.count(cost(8))
    session.finish()
    assert [call["prompt"] for call in snapshot(home)["calls"]] == [7, 8]
    assert snapshot(home)["usage"]["prompt"] == 15
    assert on_disk(home).conversation.calls == [cost(7), cost(8)]


def test_at_the_end_of_a_turn_the_snapshot_has_all_and_the_journal_nothing(home: Path) -> None:
    session = fresh(home)
    for number in range(1, 4):
        session.append(user(f"u{number}"))
        session.append(said("a"))
        session.finish()
        assert entries(home) == []
        assert snapshot(home)["generation"] == number + 1
        assert snapshot(home)["count"] == 1 + 2 * number
        assert stored(home) == list(session.messages)


def test_a_turn_without_a_change_writes_nothing(home: Path) -> None:
    session = fresh(home)
    session.append(user("u"))
    session.finish()
    before = (home / "sessions" / "s.json").stat().st_ino
    session.finish()
    assert (home / "sessions" / "s.json").stat().st_ino == before


def test_closing_stores_what_is_left_and_removes_the_journal(home: Path) -> None:
    session = fresh(home)
    session.append(user("u"))
    session.append(said("a"))
    session.close()
    assert names(home) == ["s.json"]
    assert stored(home) == list(session.messages)
    session.close()
    assert session.notices == []


def test_a_session_knows_when_it_was_made_and_last_changed_and_with_what(home: Path) -> None:
    session = fresh(home)
    session.append(user("first\nsecond"))
    session.append(said("a"))
    session.finish()
    session.close()
    about = snapshot(home)
    assert about["created"] == "2026-01-02T03:04:05+00:00"
    assert about["updated"] == "2026-01-02T03:05:05+00:00"
    assert (about["project"], about["endpoint"], about["model"]) == ("/p", "https://e", "m")
    assert (about["id"], about["dialect"], about["summary"]) == ("s", "native", "first")


# -- before the first prompt ------------------------------------------------------------------


def test_nothing_is_written_before_the_first_prompt(home: Path) -> None:
    session = fresh(home)
    session.append(said("hello"))
    session.count(cost(1))
    session.started(ToolCall("a", "shell_exec", '{"command": "ls"}'))
    session.finish()
    session.close()
    assert not home.exists()
    assert session.id == ID


def test_what_came_before_the_first_prompt_is_stored_with_it(home: Path) -> None:
    session = fresh(home)
    session.append(said("hello"))
    session.count(cost(1))
    session.append(user("u"))
    assert stored(home) == [SYSTEM, said("hello"), user("u")]
    assert on_disk(home).conversation.calls == [cost(1)]


def test_an_empty_conversation_never_replaces_a_stored_one(home: Path) -> None:
    first = fresh(home)
    first.append(user("u"))
    first.close()
    before = (home / "sessions" / "s.json").read_bytes()
    second = fresh(home)
    second.finish()
    second.close()
    resumed = store_in(home).resumed(ID, ABOUT)
    resumed.close()
    assert (home / "sessions" / "s.json").read_bytes() == before
    assert names(home) == ["s.json"]


def test_a_session_that_is_not_there_leaves_nothing_unless_it_is_used(home: Path) -> None:
    session = store_in(home).resumed(ID, ABOUT)
    session.begin(SYSTEM)
    session.close()
    assert names(home) == []
    session = store_in(home).resumed(ID, ABOUT)
    session.append(user("u"))
    assert stored(home) == [user("u")]
    session.close()
    assert snapshot(home)["project"] == "/p"


def test_a_conversation_begins_with_a_snapshot_after_one_that_was_lost_too(home: Path) -> None:
    session = fresh(home)
    session.append(user("old"))
    session.append(said("a"))
    copy = after_a_crash(home)
    (copy / "sessions" / "s.json").unlink()
    again = store_in(copy).resumed(ID, ABOUT)
    again.append(user("new"))
    assert stored(copy) == [user("new")]
    assert entries(copy) == []


def test_a_session_without_a_place_that_nobody_asks_anything_writes_nothing_at_its_end(
    home: Path,
) -> None:
    with open_folder() as folder:
        session = fresh(folder / "home")
        session.append(user("u"))
        session.close()
        sessions = folder / "home" / "sessions"
        with belonging_to_an_ordinary_user(folder), ordinary_user():
            sessions.chmod(0o500)
            again = store_in(folder / "home").resumed(ID, ABOUT)
            sessions.chmod(0o700)
            again.close()
            assert again.notices == []
        assert names(folder / "home") == ["s.json"]
        assert snapshot(folder / "home")["generation"] == 1


def test_a_system_message_is_put_first(home: Path) -> None:
    without = store_in(home).fresh("other", ABOUT)
    without.append(user("u"))
    without.append(said("a"))
    without.begin(SYSTEM)
    assert list(without.messages) == [SYSTEM, user("u"), said("a")]
    without.append(user("v"))
    assert stored(home, "other") == [SYSTEM, user("u"), said("a"), user("v")]


# -- a fresh conversation in the place of an old one ------------------------------------------


def test_a_fresh_conversation_keeps_the_one_it_replaces(home: Path) -> None:
    path = home / "sessions" / "s.json"
    for text in ("one", "two", "three"):
        session = fresh(home)
        session.append(user(text))
        session.close()
        os.utime(path, (1_767_323_045, 1_767_323_045))
    assert names(home) == ["s-20260102-030405-2.json", "s-20260102-030405.json", "s.json"]
    assert stored(home) == [SYSTEM, user("three")]
    assert stored(home, "s-20260102-030405") == [SYSTEM, user("one")]
    assert stored(home, "s-20260102-030405-2") == [SYSTEM, user("two")]


def test_a_turn_that_crashed_is_kept_whole_when_a_fresh_conversation_begins(home: Path) -> None:
    session = fresh(home)
    session.append(user("u"))
    session.append(calling("a"))
    session.started(ToolCall("a", "shell_exec", "{}"))
    copy = after_a_crash(home)
    other = fresh(copy)
    other.append(user("new"))
    (kept,) = (copy / "sessions").glob("s-*.json")
    assert stored(copy, kept.stem) == [*session.messages, result("a", UNKNOWN_RESULT)]
    assert stored(copy) == [SYSTEM, user("new")]
    assert other.notices == []


# -- a stored conversation that goes on -------------------------------------------------------


def test_a_conversation_goes_on_where_a_crash_cut_it_off(home: Path) -> None:
    session = fresh(home)
    session.append(user("u"))
    session.append(calling("a", "b"))
    session.started(ToolCall("a", "shell_exec", "{}"))
    copy = after_a_crash(home)
    again = store_in(copy).resumed(ID, ABOUT)
    notes = [result("a", UNKNOWN_RESULT), result("b", NOT_RUN_RESULT)]
    assert list(again.messages) == [*session.messages, *notes]
    again.append(user("go on"))
    assert stored(copy) == [*session.messages, *notes, user("go on")]
    assert entries(copy) == []
    again.append(said("well"))
    again.close()
    assert names(copy) == ["s.json"]
    (told,) = again.notices
    assert told == (
        "the last run of this session was cut off in shell_exec: check what that did, it may "
        "still run"
    )
    assert store_in(copy).resumed(ID, ABOUT).notices == []


def test_what_a_crash_left_is_stored_as_a_snapshot_even_if_nothing_is_added(home: Path) -> None:
    session = fresh(home)
    session.append(user("u"))
    session.append(said("a"))
    copy = after_a_crash(home)
    store_in(copy).resumed(ID, ABOUT).close()
    assert names(copy) == ["s.json"]
    assert stored(copy) == list(session.messages)


def test_a_resumed_conversation_that_was_whole_goes_on_in_the_journal(home: Path) -> None:
    session = fresh(home)
    session.append(user("u"))
    session.close()
    again = store_in(home).resumed(ID, ABOUT)
    again.append(user("v"))
    assert entries(home) == [{"message": {"role": "user", "content": "v"}, "turn": 2}]
    assert stored(home) == [SYSTEM, user("u"), user("v")]


# -- turns and notes --------------------------------------------------------------------------


def test_each_prompt_begins_a_turn_and_a_note_begins_none(home: Path) -> None:
    session = fresh(home)
    assert session.turns == 0
    session.append(user("one"))
    session.append(said("1"))
    session.note("a note")
    assert session.turns == 1
    assert [on_disk(home).conversation.turns, snapshot(home)["turns"]] == [1, 1]
    session.append(user("two"))
    assert [on_disk(home).conversation.turns, snapshot(home)["turns"]] == [2, 1]
    assert [entry.get("turn") for entry in entries(home)] == [None, None, 2]
    assert store_in(after_a_crash(home)).resumed(ID, ABOUT).turns == 2
    session.close()
    assert snapshot(home)["turns"] == 2
    again = store_in(home).resumed(ID, ABOUT)
    again.append(user("three"))
    assert again.turns == 3


def test_a_note_is_stored_and_closed_with_as_any_message(home: Path) -> None:
    session = fresh(home)
    session.append(user("u"))
    session.append(said("a"))
    session.note("a note")
    assert stored(home) == [SYSTEM, user("u"), said("a"), user("a note")]
    session.close()
    assert stored(home) == list(session.messages)
    assert names(home) == ["s.json"]


# -- two at once ------------------------------------------------------------------------------


def test_a_second_bantam_works_on_a_session_of_its_own_and_says_so(home: Path) -> None:
    first, second = fresh(home), fresh(home)
    first.append(user("one"))
    second.append(user("two"))
    assert (first.id, second.id) == ("s", "s-2")
    assert first.notices == []
    assert second.notices == ["another Bantam works on the session s; this one works on s-2"]
    first.append(said("1"))
    second.append(said("2"))
    first.close()
    second.close()
    assert stored(home) == [SYSTEM, user("one"), said("1")]
    assert stored(home, "s-2") == [SYSTEM, user("two"), said("2")]


def test_a_second_bantam_that_resumes_starts_from_a_copy_without_the_turn_in_hand(
    home: Path,
) -> None:
    first = fresh(home)
    first.append(user("one"))
    first.append(said("1"))
    first.finish()
    first.append(user("in hand"))
    second = store_in(home).resumed(ID, ABOUT)
    assert list(second.messages) == [SYSTEM, user("one"), said("1")]
    second.append(user("two"))
    assert second.notices == ["another Bantam works on the session s; this one works on s-2"]
    assert stored(home, "s-2") == [SYSTEM, user("one"), said("1"), user("two")]
    assert stored(home) == [SYSTEM, user("one"), said("1"), user("in hand")]
    assert snapshot(home, "s-2")["summary"] == "one"


def test_a_second_bantam_that_resumes_goes_on_with_what_is_stored_in_its_own_place(
    home: Path,
) -> None:
    first = fresh(home)
    first.append(user("one"))
    first.append(said("1"))
    first.finish()
    for text in ("two", "three"):
        second = store_in(home).resumed(ID, ABOUT)
        second.append(user(text))
        second.append(said(text))
        assert second.notices == ["another Bantam works on the session s; this one works on s-2"]
        second.close()
    assert [m.content for m in stored(home, "s-2")] == [
        "S",
        *["one", "1"],
        *["two"] * 2,
        *["three"] * 2,
    ]
    assert names(home) == ["s-2.json", "s.journal", "s.json"]


def test_a_third_bantam_that_resumes_has_a_place_of_its_own_too(home: Path) -> None:
    first = fresh(home)
    first.append(user("one"))
    first.append(said("1"))
    first.finish()
    second, third = (store_in(home).resumed(ID, ABOUT) for _ in range(2))
    assert (second.id, third.id) == ("s-2", "s-3")
    assert list(second.messages) == list(third.messages) == list(first.messages)


def test_of_a_session_in_use_that_has_no_answer_yet_nothing_is_taken(home: Path) -> None:
    first = fresh(home)
    first.append(user("one"))
    unused = store_in(home).resumed(ID, ABOUT)
    assert (unused.id, list(unused.messages)) == ("s-2", [])
    unused.close()
    assert names(home) == ["s.journal", "s.json"]
    second = store_in(home).resumed(ID, ABOUT)
    second.begin(SYSTEM)
    second.append(user("two"))
    assert second.notices == ["another Bantam works on the session s; this one works on s-2"]
    assert stored(home, "s-2") == [SYSTEM, user("two")]
    assert snapshot(home, "s-2")["summary"] == "two"


def test_the_turn_that_a_crash_cut_off_in_a_place_of_its_own_is_told_there(home: Path) -> None:
    first, second = fresh(home), fresh(home)
    first.append(user("one"))
    second.append(user("two"))
    second.append(calling("a"))
    second.started(ToolCall("a", "shell_exec", "{}"))
    copy = after_a_crash(home)
    assert journal.locked(copy / "sessions" / "s.journal") is not None
    again = store_in(copy).resumed(ID, ABOUT)
    assert again.id == "s-2"
    assert list(again.messages) == [*second.messages, result("a", UNKNOWN_RESULT)]
    assert len(again.notices) == 2


# -- keys -------------------------------------------------------------------------------------


def test_no_key_of_the_user_is_stored_or_sent(home: Path) -> None:
    session = fresh(home)
    text = f"a {KEY} b"
    arguments = json.dumps({"command": f"echo {KEY}"})
    call = ToolCall("a", "shell_exec", arguments, {"sig": ["x", {KEY[:3]: KEY}, 5]})
    session.append(user(text))
    session.append(Message(Role.ASSISTANT, text, text, (call,), extra={"sig": KEY}))
    session.started(call)
    session.append(result("a", text))
    session.note(text)
    parts = [part for m in session.messages[1:] for part in (m.content, m.reasoning) if part]
    assert parts == ["a [key] b"] * 5
    assert session.messages[2].tool_calls[0].arguments == '{"command": "echo [key]"}'
    assert session.messages[2].tool_calls[0].extra == {"sig": ["x", {"sk-": "[key]"}, 5]}
    assert session.messages[2].extra == {"sig": "[key]"}
    in_journal = (home / "sessions" / "s.journal").read_text()
    session.close()
    written = [path.read_text() for path in (home / "sessions").iterdir()]
    assert KEY not in "".join([in_journal, *written])
    assert in_journal.count("[key]") == 7
    system = store_in(home).fresh("other", ABOUT)
    system.begin(Message(Role.SYSTEM, text))
    assert system.messages[0].content == "a [key] b"


# -- a disk that does not follow --------------------------------------------------------------

FULL = (
    "the session could not be stored: File too large: s; the work goes on, and each step tries "
    "again (BANTAM_HOME can name another folder)"
)
AGAIN = "the session is stored again, as s"


def test_a_full_disk_is_told_once_and_the_next_step_catches_up(home: Path) -> None:
    session = fresh(home)
    with files_of_at_most(10):
        session.append(user("u"))
        session.count(cost(5))
        session.append(said("a"))
        session.finish()
        assert session.notices == [FULL]
        assert names(home) == ["s.journal"]
    session.append(user("v"))
    assert session.notices == [FULL, AGAIN]
    assert stored(home) == [SYSTEM, user("u"), said("a"), user("v")]
    assert on_disk(home).conversation.calls == [cost(5)]
    session.append(said("b"))
    assert len(entries(home)) == 1


def test_a_disk_that_is_full_in_the_middle_of_a_turn_damages_nothing(home: Path) -> None:
    session = fresh(home)
    session.append(user("u"))
    session.append(calling("a"))
    before = list(session.messages)
    with files_of_at_most((home / "sessions" / "s.journal").stat().st_size + 20):
        session.started(ToolCall("a", "shell_exec", "{}"))
        session.append(result("a", "1"))
        session.append(said("done"))
        session.finish()
        assert stored(home)[:3] == before
        session.close()
        assert stored(home)[:3] == before
    assert session.notices == [FULL]
    again = store_in(home).resumed(ID, ABOUT)
    assert list(again.messages) == [*before, result("a", NOT_RUN_RESULT)]
    assert again.notices == []


def test_what_could_not_be_stored_is_not_stored_beside_itself_when_it_is_closed_twice(
    home: Path,
) -> None:
    session = fresh(home)
    session.append(user("u"))
    session.append(said("a"))
    with files_of_at_most(1000):  # room for what the disk holds, not for what follows
        session.append(said("x" * 4000))
        session.close()
        session.close()
    assert names(home) == ["s.journal", "s.json"]
    assert session.notices == [FULL]
    assert stored(home) == [SYSTEM, user("u"), said("a")]


def test_trouble_that_comes_back_is_told_again(home: Path) -> None:
    session = fresh(home)
    for text in ("u", "v"):
        with files_of_at_most(10):
            session.append(user(text))
        session.append(said("a"))
    assert session.notices == [FULL, AGAIN, FULL, AGAIN]
    assert stored(home) == list(session.messages)


def test_a_folder_that_is_removed_in_the_middle_is_made_again_with_everything(
    home: Path,
) -> None:
    session = fresh(home)
    session.append(user("u"))
    session.append(said("a"))
    shutil.rmtree(home)
    session.append(user("v"))
    assert stored(home) == [SYSTEM, user("u"), said("a"), user("v")]
    session.append(said("b"))
    assert len(entries(home)) == 1
    shutil.rmtree(home)
    session.close()
    assert stored(home) == list(session.messages)
    assert session.notices == []


def test_a_lock_that_is_removed_in_the_middle_costs_nothing(home: Path) -> None:
    session = fresh(home)
    session.append(user("u"))
    (home / "sessions" / "s.journal").unlink()
    session.append(said("a"))
    assert stored(home) == [SYSTEM, user("u"), said("a")]
    (home / "sessions" / "s.journal").unlink()
    other = fresh(home)
    other.append(user("another"))
    session.append(said("b"))
    assert (other.id, session.id) == ("s", "s-2")
    assert stored(home) == [SYSTEM, user("another")]
    assert stored(home, "s-2") == [SYSTEM, user("u"), said("a"), said("b")]


def test_a_folder_that_becomes_a_file_is_told_and_the_chat_goes_on(home: Path) -> None:
    session = fresh(home)
    session.append(user("u"))
    shutil.rmtree(home / "sessions")
    (home / "sessions").write_text("a file")
    session.append(said("a"))
    session.append(user("v"))
    assert len(session.notices) == 1
    assert session.notices[0].startswith("the session could not be stored: Not a directory: ")
    (home / "sessions").unlink()
    session.append(said("b"))
    assert session.notices[1:] == [AGAIN]
    session.finish()
    shutil.rmtree(home / "sessions")
    (home / "sessions").write_text("a file")
    session.close()
    assert session.notices[2:] == []


@pytest.mark.parametrize(
    "make",
    [
        Path.touch,
        os.mkfifo,
        lambda path: path.symlink_to(path),
        lambda path: path.symlink_to("/dev/null/x"),
        lambda path: path.symlink_to("nowhere"),
    ],
)
def test_a_home_that_is_no_folder_is_told_once(home: Path, make: Callable[[Path], Any]) -> None:
    make(home)
    session = fresh(home)
    session.append(user("u"))
    session.append(said("a"))
    session.close()
    assert len(session.notices) == 1
    assert re.search(
        f"(File exists|Not a directory): {home}(/sessions)?; the work goes on", session.notices[0]
    )
    home.unlink()
    session.append(user("v"))
    assert session.notices[1:] == [AGAIN]
    assert stored(home) == list(session.messages)


def test_without_a_home_nothing_is_stored_and_it_is_told_once() -> None:
    session = fresh(None)
    for _ in range(3):
        session.append(user("u"))
        session.finish()
    session.close()
    assert len(session.messages) == 4
    assert len(session.notices) == 1
    assert "there is no home folder: ~/.bantam" in session.notices[0]


def test_a_home_that_cannot_be_written_is_read_and_the_chat_goes_on() -> None:
    with open_folder() as folder:
        home = folder / "home"
        session = fresh(home)
        session.append(user("u"))
        session.close()
        before = (home / "sessions" / "s.json").read_bytes()
        with belonging_to_an_ordinary_user(folder), ordinary_user():
            (home / "sessions").chmod(0o500)
            again = store_in(home).resumed(ID, ABOUT)
            assert list(again.messages) == [SYSTEM, user("u")]
            again.append(user("v"))
            again.append(said("a"))
            assert len(again.notices) == 1
            assert "Permission denied" in again.notices[0]
            assert (home / "sessions" / "s.json").read_bytes() == before
            (home / "sessions").chmod(0o700)
            again.append(user("w"))
            assert again.notices[1:] == [AGAIN]
            assert stored(home) == list(again.messages)
            again.close()


@contextmanager
def belonging_to_an_ordinary_user(folder: Path) -> Iterator[None]:
    """Give all in `folder` to the user that `ordinary_user` is."""
    if os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
    yield


def test_a_place_that_cannot_be_made_free_is_let_go_until_it_can(home: Path) -> None:
    path = home / "sessions" / "s.json"
    path.mkdir(parents=True)
    session = fresh(home)
    session.append(user("u"))
    session.append(said("a"))
    assert len(session.notices) == 1
    assert "not a regular file" in session.notices[0]
    other = journal.locked(home / "sessions" / "s.journal")
    assert other is not None
    other.close(remove=False)
    path.rmdir()
    session.finish()
    assert session.notices[1:] == [AGAIN]
    assert stored(home) == list(session.messages)


# -- undo -------------------------------------------------------------------------------------


def test_what_puts_files_back_is_kept_beside_the_session(home: Path) -> None:
    session = fresh(home)
    assert session.undo is None
    session.keep(CHANGE)
    assert session.notices == ["/f cannot be put back later: the session is not stored"]
    session.append(user("u"))
    assert session.undo is not None
    session.keep(CHANGE)
    session.started(ToolCall("a", "shell_exec", '{"command": "ls"}'))
    session.started(ToolCall("a", "write_file", '{"path": "f", "content": ""}'))
    session.started(ToolCall("a", "shell_exec", '{"command": '))
    session.started(ToolCall("a", "shell_exec", '{"command": 5}'))
    session.note("that was well")
    assert session.undo.last(session.turns).changes == (CHANGE,)
    assert session.undo.last(session.turns).commands == ("ls",)
    session.append(user("v"))
    assert session.undo.last(session.turns).changes == ()
    session.close()
    assert session.undo is None
    assert session.notices[1:] == []


def test_a_change_that_cannot_be_kept_is_told_and_the_chat_goes_on(home: Path) -> None:
    session = fresh(home)
    session.append(user("u"))
    session.keep(CHANGE)
    with files_of_at_most(100):
        session.keep(CHANGE)
        session.started(ToolCall("a", "shell_exec", '{"command": "ls"}'))
        session.append(user("v"))
    assert session.notices == ["/f cannot be put back later: File too large", FULL]


# -- what an agent takes ----------------------------------------------------------------------


def test_a_session_and_a_list_are_memories(home: Path) -> None:
    memories: list[Memory] = [store_in(home).fresh(ID, ABOUT), ListLog([user("u")])]
    for memory in memories:
        memory.begin(SYSTEM)
        memory.append(said("a"))
        memory.started(ToolCall("a", "shell_exec", "{}"))
        memory.count(cost(1))
        memory.finish()
        memory.close()
        assert memory.messages[0] == SYSTEM
        assert memory.messages[-1] == said("a")
        assert memory.notices == []
    assert [memory.id for memory in memories] == [ID, None]
    assert memories[1].keep is None
    assert len(memories[1].messages) == 3
