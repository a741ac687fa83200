"""All sessions of a user: their names, their list, and the way to one of them."""

import hashlib
import json
import os
import pwd
import stat
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from processes import files_of_at_most
from program import environment, run
from test_messages import SYSTEM, calling, result, said, user
from users import NOBODY, open_folder, ordinary_user

from bantam.core.errors import BantamError, ConfigError
from bantam.core.messages import NOT_RUN_RESULT, Message, to_api
from bantam.sessions import files
from bantam.sessions import slot as slots
from bantam.sessions.session import Session
from bantam.sessions.snapshot import About, Conversation, Damaged, TooNew
from bantam.sessions.store import Store, checked_name, home_of, project_id
from bantam.sessions.summary import Summary

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
THEN = datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC)
ABOUT = About(project="/p", endpoint="https://e", model="m", dialect="native")
NEWER = '{"format": "bantam-session", "version": 2, "messages": []}'


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / ".bantam"


def store_in(home: Path | None, now: datetime = NOW) -> Store:
    return Store(home, lambda: now)


def store(home: Path, session_id: str, *messages: Message, now: datetime = NOW) -> None:
    session = store_in(home, now).fresh(session_id, ABOUT)
    for message in messages:
        session.append(message)
    session.close()


def put(home: Path, name: str, content: str | bytes) -> Path:
    """Write a file into the folder of the sessions, as an older or another program does."""
    path = home / "sessions" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    os.utime(path, (THEN.timestamp(), THEN.timestamp()))
    return path


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# -- places and names -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "home"),
    [
        ({"BANTAM_HOME": "/b", "HOME": "/h"}, "/b"),
        ({"BANTAM_HOME": "/b"}, "/b"),
        ({"BANTAM_HOME": "", "HOME": "/h"}, "/h/.bantam"),
        ({"HOME": "/h"}, "/h/.bantam"),
        ({"HOME": "/"}, "/.bantam"),
    ],
)
def test_what_bantam_remembers_is_in_its_home(environ: Mapping[str, str], home: str) -> None:
    assert home_of(environ) == Path(home)


def test_a_relative_home_of_bantam_is_meant_from_the_working_directory() -> None:
    assert home_of({"BANTAM_HOME": "b"}) == Path.cwd() / "b"


@pytest.mark.parametrize("environ", [{}, {"HOME": ""}, {"HOME": "relative"}, {"HOME": "~"}])
def test_a_home_that_the_environment_does_not_tell_is_the_user_s(
    environ: dict[str, str],
) -> None:
    assert home_of(environ) == Path(pwd.getpwuid(os.getuid()).pw_dir) / ".bantam"


def test_the_session_of_a_project_is_the_md5_of_its_absolute_path(tmp_path: Path) -> None:
    assert project_id(tmp_path) == hashlib.md5(str(tmp_path).encode()).hexdigest()
    assert project_id(Path("/home/me/project")) == "7eb7c5d1a12f148d4bfd9673187a838f"
    assert project_id(Path("a")) == project_id(Path.cwd() / "a")
    strange = os.fsdecode(b"/\xff")
    assert project_id(Path(strange)) == hashlib.md5(b"/\xff").hexdigest()


@pytest.mark.parametrize(
    "name",
    ["a", "A b", "0", "_x", "@x", " x", "a.b", "a-b", "a@b.c_d-e f", "x" * 100, "a.."],
)
def test_a_name_of_letters_digits_and_some_signs_is_accepted(name: str) -> None:
    assert checked_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        ".a",
        "-a",
        "a/b",
        "../a",
        "a\\b",
        "a\0",
        "a\n",
        "a\tb",
        "é",
        "\uff41",
        "a:b",
        "a*",
        "a\u202eb",
        "a\u00a0b",
        "~",
        "x" * 101,
        "x" * 100_000,
    ],
    ids=range(20),
)
def test_any_other_name_is_refused_and_it_is_said_what_a_name_may_be(name: str) -> None:
    with pytest.raises(ConfigError, match="cannot name a session: take letters, digits") as error:
        checked_name(name)
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 300


# -- finding one ------------------------------------------------------------------------------


def test_a_session_is_found_by_its_name_or_by_a_beginning_that_only_it_has(home: Path) -> None:
    for name in ("work", "work two", "other", "x.y", ".hidden"):
        put(home, f"{name}.json", "[]")
    put(home, "wish.journal", "")
    put(home, "wish.json.damaged", "[]")
    found = {name: store_in(home).find(name) for name in ("work", "work ", "o", "other", "x.")}
    assert found == {
        "work": "work",
        "work ": "work two",
        "o": "other",
        "other": "other",
        "x.": "x.y",
    }
    for name in ("wish", ".hidden", "Work", "k", "../sessions/work"):
        with pytest.raises(ConfigError, match=r"no session is named '.*', and no name begins"):
            store_in(home).find(name)


def test_an_empty_name_is_no_beginning_of_one(home: Path) -> None:
    put(home, "only.json", "[]")
    with pytest.raises(ConfigError, match="the id of the session is empty"):
        store_in(home).find("")


def test_of_a_project_s_sessions_the_beginning_of_all_means_its_own(home: Path) -> None:
    for name in ("4942", "4942-20261130-190802", "4942-before-compact", "77"):
        put(home, f"{name}.json", "[]")
    assert store_in(home).find("49") == "4942"
    assert store_in(home).find("4942-b") == "4942-before-compact"


def test_several_that_begin_so_are_listed_and_of_many_some(home: Path) -> None:
    for number in range(12):
        put(home, f"s{number:02}.json", "[]")
    with pytest.raises(ConfigError) as error:
        store_in(home).find("s1")
    assert str(error.value) == "2 sessions begin with 's1': s10, s11"
    with pytest.raises(ConfigError) as error:
        store_in(home).find("s")
    shown = ", ".join(f"s{number:02}" for number in range(10))
    assert str(error.value) == f"12 sessions begin with 's': {shown}, ..."


@pytest.mark.parametrize("make", [lambda _: None, Path.touch, Path.mkdir])
def test_where_there_are_no_sessions_none_is_found_or_listed(
    home: Path, make: Callable[[Path], object]
) -> None:
    make(home)
    for each in (store_in(home), store_in(None)):
        assert each.summaries() == []
        with pytest.raises(ConfigError, match="no session is named 'a'"):
            each.find("a")


# -- the list ---------------------------------------------------------------------------------


def test_the_list_has_every_session_the_last_changed_first(home: Path) -> None:
    store(home, "older", SYSTEM, user("first\nsecond"), said("a"), now=THEN)
    store(home, "newer", user("hello"))
    put(home, "array.json", '[{"role": "user", "content": "u"}]')
    listed = store_in(home).summaries()
    assert [(s.id, s.when, s.count, s.about.summary) for s in listed] == [
        ("newer", NOW, 1, "hello"),
        ("older", THEN, 3, "first"),
        ("array", THEN, 1, ""),
    ]
    assert listed[0].about.project == "/p"
    assert [s.fault for s in listed] == [""] * 3


@pytest.mark.parametrize(
    ("updated", "when"),
    [
        ("2026-01-02T04:04:05+01:00", NOW),
        ("2026-01-02T03:04:05Z", NOW),
        ("", THEN),
        ("yesterday", THEN),
        ("0001-01-01T00:00:00+23:59", THEN),
        ("9999-12-31T23:59:59-23:59", THEN),
    ],
)
def test_a_session_that_does_not_say_when_it_changed_has_the_time_of_its_file(
    home: Path, updated: str, when: datetime
) -> None:
    put(home, "s.json", json.dumps({"updated": updated, "messages": []}))
    assert store_in(home).summaries()[0].when == when


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("", "it is empty"),
        ("{", "it is no JSON: Expecting property name"),
        ('{"messages": 5}', "it has no list of messages but 5"),
        (b"\xff", "byte 0 is not UTF-8"),
        ("[" * 50_000, "it nests too deep"),
        (NEWER, "a newer Bantam made it (version 2 of its format)"),
    ],
    ids=range(6),
)
def test_a_file_that_is_damaged_is_listed_with_its_fault(
    home: Path, content: str | bytes, fault: str
) -> None:
    put(home, "bad.json", content)
    store(home, "good", user("u"))
    good, bad = store_in(home).summaries()
    assert (good.id, good.fault) == ("good", "")
    assert (bad.id, bad.when, bad.count, bad.about) == ("bad", THEN, None, About())
    assert bad.fault.startswith(fault)
    assert put(home, "bad.json", content).exists()


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (os.mkfifo, "not a regular file"),
        (Path.mkdir, "not a regular file"),
        (lambda path: path.symlink_to("nowhere"), "No such file or directory"),
        (lambda path: path.symlink_to("/dev/zero"), "not a regular file"),
    ],
    ids=range(4),
)
def test_what_is_no_file_neither_hangs_the_list_nor_breaks_it(
    home: Path, make: Callable[[Path], object], fault: str
) -> None:
    store(home, "good", user("u"))
    make(home / "sessions" / "x.json")
    good, bad = store_in(home).summaries()
    assert good.id == "good"
    assert bad == Summary("x", datetime.fromtimestamp(0, UTC), None, About(), fault)
    assert store_in(home).find("x") == "x"


LISTING = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from bantam.sessions.store import Store
sys.path[:0] = sys.argv[2:]
from processes import peak_mib
before = peak_mib()
for each in sorted(Store(Path(sys.argv[1]), lambda: datetime.now(UTC)).summaries(), key=str):
    print(each.id, each.count, each.fault)
print(peak_mib() - before < 8)
"""


def test_of_a_large_file_only_the_head_is_read(home: Path, tmp_path: Path) -> None:
    content = Conversation([user("x" * 1_000_000)] * 60)
    slot = slots.held(home / "sessions", "large")
    assert slot is not None
    slot.save(ABOUT, content)
    slot.release(remove=True)
    whole = (home / "sessions" / "large.json").read_bytes()
    assert len(whole) > 60_000_000
    put(home, "foreign.json", b"\n" + whole[whole.index(b"[") : whole.rindex(b"]") + 1])
    tests = str(Path(__file__).parent)
    done = run(
        program=(sys.executable, "-c", LISTING, str(home), tests),
        cwd=tmp_path,
        env=environment(tmp_path),
    )
    assert done.stderr == b""
    assert sorted(done.stdout.splitlines()) == [b"True", b"foreign None ", b"large 60 "]


def test_a_file_without_a_head_of_its_own_is_read_whole_if_it_is_not_large(home: Path) -> None:
    messages = [{"role": "user", "content": "x" * 90_000}] * 3
    put(home, "array.json", json.dumps(messages))
    assert store_in(home).summaries()[0].count == 3


def test_files_that_others_could_read_are_private_once_they_were_looked_at(home: Path) -> None:
    store(home, "s", user("u"))
    for folder in (home, home / "sessions"):
        folder.chmod(0o755)
    (home / "sessions" / "s.json").chmod(0o644)
    store_in(home).summaries()
    assert mode(home / "sessions" / "s.json") == 0o600
    (home / "sessions" / "s.json").chmod(0o644)
    store_in(home).resumed("s").close()
    assert mode(home / "sessions" / "s.json") == 0o600
    assert (mode(home), mode(home / "sessions")) == (0o700, 0o700)


def test_a_home_that_has_another_use_keeps_its_mode(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o755)
    store(shared, "s", user("u"))
    assert (mode(shared), mode(shared / "sessions")) == (0o755, 0o700)


@pytest.mark.parametrize("seconds", [2**60, -(2**60)])
def test_a_time_that_no_calendar_holds_is_the_first_one(seconds: int) -> None:
    state = os.stat_result((0o600, 0, 0, 1, 0, 0, 0, seconds, seconds, seconds))
    assert files.changed(state) == files.EPOCH


# -- going on from one ------------------------------------------------------------------------


def test_a_session_that_is_resumed_belongs_to_this_run_from_then_on(home: Path) -> None:
    store(home, "s", user("u"))
    now = About(project="/other", endpoint="https://f", model="n", dialect="dollar")
    session = store_in(home).resumed("s", now)
    assert session.notices == [
        "this session was made with m at https://e; it goes on with n at https://f",
        "this session was made in /p; commands run in /other",
    ]
    note = user("(From here on the working directory is /other.)")
    assert list(session.messages) == [user("u"), note]
    session.close()
    stored = store_in(home).stored("s")
    assert stored.conversation.messages == [user("u"), note]
    assert stored.about == replace(
        now, created=NOW.isoformat(), updated=NOW.isoformat(), summary="u", generation=2
    )


@pytest.mark.parametrize(
    "about",
    [
        None,
        ABOUT,
        About(project="/p", endpoint="https://e", model="m", dialect="blocks"),
    ],
)
def test_what_has_not_changed_is_not_told(home: Path, about: About | None) -> None:
    store(home, "s", user("u"))
    assert store_in(home).resumed("s", about).notices == []


def test_a_session_that_says_nothing_of_itself_takes_what_this_run_is(home: Path) -> None:
    put(home, "s.json", '[{"role": "user", "content": "u"}]')
    session = store_in(home).resumed("s", ABOUT)
    assert session.notices == []
    session.append(said("a"))
    session.close()
    stored = store_in(home).stored("s")
    assert (stored.about.project, stored.about.model) == ("/p", "m")
    assert stored.conversation.messages == [user("u"), said("a")]


def test_a_damaged_session_is_told_and_a_new_one_begins(home: Path) -> None:
    put(home, "s.json", "{")
    session = store_in(home).resumed("s", ABOUT)
    assert list(session.messages) == []
    assert len(session.notices) == 1
    assert "it was set aside as s.json.damaged" in session.notices[0]
    session.append(user("u"))
    session.close()
    assert store_in(home).stored("s").conversation.messages == [user("u")]
    assert (home / "sessions" / "s.json.damaged").read_text() == "{"


def test_a_session_of_a_newer_version_is_refused_and_not_held(home: Path) -> None:
    put(home, "s.json", NEWER)
    with pytest.raises(TooNew, match="a newer Bantam made it"):
        store_in(home).resumed("s", ABOUT)
    with pytest.raises(TooNew):
        store_in(home).stored("s")
    assert list(content(home)) == ["s.json"]
    assert slots.held(home / "sessions", "s") is not None
    with pytest.raises(TooNew):  # as it begins with a copy
        store_in(home).resumed("s", ABOUT)
    assert slots.held(home / "sessions", "s-2") is not None
    assert (home / "sessions" / "s.json").read_text() == NEWER


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir])
def test_a_session_that_cannot_be_read_is_told_and_the_chat_goes_on(
    home: Path, make: Callable[[Path], object]
) -> None:
    (home / "sessions").mkdir(parents=True)
    make(home / "sessions" / "s.json")
    session = store_in(home).resumed("s", ABOUT)
    assert session.notices == ["the session s cannot be read: not a regular file"]
    session.append(user("u"))
    assert len(session.notices) == 2
    assert "could not be stored: not a regular file" in session.notices[1]
    session.close()


def test_a_damaged_session_that_another_bantam_holds_is_told_and_left_alone(home: Path) -> None:
    path = put(home, "s.json", "{")
    assert slots.held(home / "sessions", "s") is not None
    session = store_in(home).resumed("s", ABOUT)
    aside, damage = session.notices
    assert aside == "another Bantam works on the session s; this one works on s-2"
    assert damage.startswith(f"the session {path} cannot be read: it is no JSON: Expecting")
    session.append(user("u"))
    assert session.id == "s-2"
    assert path.read_text() == "{"


def test_a_damaged_journal_that_can_only_be_read_is_told() -> None:
    with open_folder() as folder:
        home = folder / "home"
        store(home, "s", user("u"))
        put(home, "s.journal", "{\n{\n")
        if os.geteuid() == 0:
            for path in (folder, *folder.rglob("*")):
                os.chown(path, NOBODY, NOBODY)
        with ordinary_user():
            (home / "sessions" / "s.journal").chmod(0o400)
            session = store_in(home).resumed("s")
            (home / "sessions" / "s.journal").chmod(0o600)
    assert list(session.messages) == [user("u")]
    assert session.notices == ["not all of the journal of s was taken: line 1 is damaged"]


def test_without_a_home_a_session_is_empty() -> None:
    assert store_in(None).stored("s").conversation == Conversation()
    session = store_in(None).resumed("s", ABOUT)
    assert (list(session.messages), session.notices, session.id) == ([], [], "s")


def test_of_a_session_in_use_what_was_finished_can_be_read(home: Path) -> None:
    session = store_in(home).fresh("s", ABOUT)
    for message in (user("u"), calling("a"), result("a", "1")):
        session.append(message)
    session.finish()
    finished = list(session.messages)
    for message in (user("v"), calling("a")):
        session.append(message)
    found = store_in(home).stored("s", pytest.fail)
    assert found.conversation.messages == finished
    assert store_in(home).stored("none", pytest.fail).conversation == Conversation()


def test_the_turn_that_a_crash_left_is_read_and_nothing_is_taken_or_changed(home: Path) -> None:
    crashed(home, calling("a"))
    before = content(home)
    for _ in range(2):
        found = store_in(home).stored("s", pytest.fail).conversation.messages
        assert found == [user("u"), calling("a"), result("a", NOT_RUN_RESULT)]
    assert content(home) == before


def crashed(home: Path, *messages: Message) -> Path:
    """Leave a session whose `messages` behind its prompt are in the journal; return that."""
    slot = slots.held(home / "sessions", "s")
    assert slot is not None
    slot.save(ABOUT, Conversation([user("u")]))
    for message in messages:
        slot.append(files.encoded({"message": to_api(message)}) + b"\n")
    slot.release(remove=False)
    return home / "sessions" / "s.journal"


def content(home: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (home / "sessions").iterdir()}


def test_damage_of_a_journal_that_a_crash_left_is_told_and_the_good_part_read(home: Path) -> None:
    path = crashed(home, said("a"))
    path.write_bytes(path.read_bytes() + b"{\n" + b'{"message": {}}\n')
    told: list[str] = []
    found = store_in(home).stored("s", told.append)
    assert found.conversation.messages == [user("u"), said("a")]
    assert told == ["not all of the journal of s was taken: line 3 is damaged"]
    assert store_in(home).stored("s").conversation == found.conversation
    assert [each.suffix for each in (home / "sessions").glob("*.damaged")] == []


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (Path.mkdir, "not a regular file"),
        (os.mkfifo, "not a regular file"),
        (lambda path: path.symlink_to("/dev/zero"), "not a regular file"),
        (lambda path: path.symlink_to(path), "Too many levels of symbolic links"),
    ],
)
def test_a_journal_that_cannot_be_used_does_not_hide_the_snapshot(
    home: Path, make: Callable[[Path], Any], why: str
) -> None:
    store(home, "s", user("u"))
    make(home / "sessions" / "s.journal")
    told: list[str] = []
    found = store_in(home).stored("s", told.append)
    assert found.conversation.messages == [user("u")]
    assert told == [f"not all of the journal of s was taken: {why}"]
    session = store_in(home).resumed("s", ABOUT)
    assert list(session.messages) == [user("u")]
    assert session.notices == told


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (Path.mkdir, "not a regular file"),
        (os.mkfifo, "not a regular file"),
        (lambda path: path.write_text("{"), "it is no JSON: Expecting property name"),
    ],
)
def test_what_cannot_be_read_is_damaged_and_named(
    home: Path, make: Callable[[Path], Any], why: str
) -> None:
    (home / "sessions").mkdir(parents=True)
    make(home / "sessions" / "s.json")
    with pytest.raises(Damaged) as error:
        store_in(home).stored("s")
    path = home / "sessions" / "s.json"
    assert str(error.value).startswith(f"the session {path} cannot be read: {why}")


# -- one alone --------------------------------------------------------------------------------


def test_a_session_can_be_taken_alone_and_is_not_written_unless_it_changes(home: Path) -> None:
    store(home, "s", user("u"))
    before = content(home)
    session = store_in(home).alone("s")
    assert (session.id, list(session.messages), session.notices) == ("s", [user("u")], [])
    assert slots.held(home / "sessions", "s") is None
    session.close()
    assert content(home) == before
    session = store_in(home).alone("s")
    session.note("a note")
    session.close()
    assert store_in(home).stored("s").conversation.messages == [user("u"), user("a note")]
    assert store_in(home).stored("s").about.project == "/p"


def test_the_turn_that_a_crash_cut_off_is_there_too(home: Path) -> None:
    crashed(home, said("a"))
    session = store_in(home).alone("s")
    assert list(session.messages) == [user("u"), said("a")]
    session.close()
    assert list(content(home)) == ["s.json"]


def test_a_session_that_is_not_there_can_be_taken_and_leaves_nothing(home: Path) -> None:
    session = store_in(home).alone("s")
    assert list(session.messages) == []
    session.close()
    assert content(home) == {}


def test_a_session_in_use_is_not_taken(home: Path) -> None:
    assert slots.held(home / "sessions", "s") is not None
    with pytest.raises(BantamError, match="another Bantam works on the session s; end it first"):
        store_in(home).alone("s")
    assert list(content(home)) == ["s.journal"]


def test_a_session_that_cannot_be_used_is_not_taken_and_not_held(home: Path) -> None:
    with pytest.raises(BantamError, match="the session s cannot be used: there is no home folder"):
        store_in(None).alone("s")
    (home / "sessions" / "s.json").mkdir(parents=True)
    with pytest.raises(BantamError, match="the session s cannot be used: not a regular file"):
        store_in(home).alone("s")
    (home / "sessions" / "s.json").rmdir()
    newer = put(home, "s.json", NEWER)
    with pytest.raises(TooNew):
        store_in(home).alone("s")
    assert content(home) == {"s.json": newer.read_bytes()}


def test_a_damaged_session_that_is_taken_alone_is_told(home: Path) -> None:
    put(home, "s.json", "{")
    session = store_in(home).alone("s")
    assert len(session.notices) == 1
    assert "it was set aside as s.json.damaged" in session.notices[0]


# -- copies -----------------------------------------------------------------------------------


def chat(home: Path) -> Session:
    session = store_in(home).fresh("s", ABOUT)
    session.append(user("u"))
    return session


def test_a_copy_is_stored_under_a_name_and_the_session_goes_on_under_its_own(home: Path) -> None:
    session = chat(home)
    store_in(home).save_as(session, "my copy")
    session.append(said("a"))
    session.close()
    assert store_in(home).stored("my copy").conversation.messages == [user("u")]
    assert store_in(home).stored("s").conversation.messages == [user("u"), said("a")]
    names = sorted(path.name for path in (home / "sessions").iterdir())
    assert names == ["my copy.json", "s.json"]


def test_a_copy_keeps_what_had_its_name(home: Path) -> None:
    store(home, "copy", user("old"))
    path = home / "sessions" / "copy.json"
    os.utime(path, (NOW.timestamp(), NOW.timestamp()))
    store_in(home).save_as(chat(home), "copy")
    kept = store_in(home).stored("copy-20260102-030405")
    assert kept.conversation.messages == [user("old")]
    assert store_in(home).stored("copy").conversation.messages == [user("u")]


def test_a_copy_that_goes_on_from_what_had_its_name_takes_its_place(home: Path) -> None:
    session = chat(home)
    store_in(home).save_as(session, "copy")
    session.append(said("a"))
    store_in(home).save_as(session, "copy")
    assert store_in(home).stored("copy").conversation.messages == [user("u"), said("a")]
    names = [path.name for path in (home / "sessions").iterdir() if "copy" in path.name]
    assert names == ["copy.json"]


def test_a_copy_keeps_a_session_that_only_a_newer_bantam_reads(home: Path) -> None:
    (home / "sessions").mkdir(parents=True)
    newer = '{"format": "bantam-session", "version": 99, "messages": []}'
    (home / "sessions" / "copy.json").write_text(newer)
    store_in(home).save_as(chat(home), "copy")
    kept = [path for path in (home / "sessions").iterdir() if path.name.startswith("copy-")]
    assert [json.loads(path.read_text())["version"] for path in kept] == [99]


def test_a_copy_has_a_name_that_is_one_and_that_nobody_works_on(home: Path) -> None:
    session = chat(home)
    with pytest.raises(ConfigError, match="cannot name a session"):
        store_in(home).save_as(session, "../evil")
    with pytest.raises(ConfigError, match="another Bantam works on the session s; take another"):
        store_in(home).save_as(session, "s")
    with pytest.raises(FileNotFoundError, match="there is no home folder"):
        store_in(None).save_as(session, "copy")
    assert session.notices == []


def test_a_copy_for_which_the_disk_has_no_room_costs_nothing(home: Path) -> None:
    slot = slots.held(home / "sessions", "copy")
    assert slot is not None
    slot.save(ABOUT, Conversation([user("old")]))
    slot.append(b'{"message": {"role": "assistant", "content": "cut off"}}\n')
    slot.release(remove=False)
    session = chat(home)
    with files_of_at_most(50), pytest.raises(OSError, match="File too large"):
        store_in(home).save_as(session, "copy")
    found = store_in(home).stored("copy").conversation.messages
    assert found == [user("old"), said("cut off")]
    assert slots.held(home / "sessions", "copy") is not None
