"""One session's place on the disk: what it holds after every way in which a process can stop."""

import errno
import json
import os
import resource
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from faults import calls, make_shim
from processes import files_of_at_most
from program import environment, run
from test_messages import SYSTEM, calling, result, said, user

from bantam.core.messages import NOT_RUN_RESULT, UNKNOWN_RESULT, Message, to_api
from bantam.sessions import files, journal
from bantam.sessions.journal import Lines
from bantam.sessions.slot import Loaded, Slot, acquired, held, read
from bantam.sessions.snapshot import About, Conversation, Damaged, TooNew

ID = "s"
# What keeps a session in a process of its own: its folder is the argument.
KEEPER = """
import sys
from pathlib import Path
from bantam.sessions.slot import held
slot = held(Path(sys.argv[1]), "s")
slot.make_room(print)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "home" / "sessions"


def slot_in(folder: Path, session_id: str = ID) -> Slot:
    slot = held(folder, session_id)
    assert slot is not None
    return slot


def entry(message: Message) -> bytes:
    return files.encoded({"message": to_api(message)}) + b"\n"


START = b'{"start": {"id": "a"}}\n'


def store(folder: Path, *messages: Message, entries: bytes = b"", session_id: str = ID) -> None:
    """Leave a session as a killed process does: a snapshot of `messages`, and its journal."""
    slot = slot_in(folder, session_id)
    slot.save(About(), Conversation(list(messages)))
    if entries:
        slot.append(entries)
    slot.release(remove=not entries)


def loaded(folder: Path, *told: str) -> Loaded:
    """Return what a slot loads, which tells exactly `told`."""
    notices: list[str] = []
    slot = slot_in(folder)
    found = slot.load(notices.append)
    slot.release(remove=False)
    assert notices == list(told)
    return found


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def generation_of(path: Path) -> int:
    generation: int = json.loads(path.read_bytes())["generation"]
    return generation


# -- saving, and the crashes around it --------------------------------------------------------


def test_a_save_bumps_the_generation_and_empties_the_journal(folder: Path) -> None:
    slot = slot_in(folder)
    for number in range(1, 4):
        slot.save(About(), Conversation([user("u")]))
        assert generation_of(slot.path) == number
        assert (folder / "s.journal").read_bytes() == b""
        slot.append(entry(said("a")))
        read_back = journal.parsed((folder / "s.journal").read_bytes())
        assert (read_back.generation, len(read_back.entries)) == (number, 1)
    slot.release(remove=False)
    assert loaded(folder).about.generation == 3


def test_a_session_that_goes_on_is_saved_as_the_next_generation(folder: Path) -> None:
    store(folder, user("u"))
    slot = slot_in(folder)
    slot.load(pytest.fail)
    slot.append(entry(said("a")))
    slot.save(About(), Conversation([user("u"), said("a")]))
    slot.release(remove=True)
    assert generation_of(folder / "s.json") == 2
    assert names(folder) == ["s.json"]


def test_what_the_journal_holds_happened_behind_the_snapshot(folder: Path) -> None:
    store(folder, user("u"), entries=entry(said("a")) + entry(user("v")))
    found = loaded(folder)
    assert found.conversation.messages == [user("u"), said("a"), user("v")]
    assert not found.as_stored
    assert found.damage == ""


def test_without_a_journal_all_is_as_stored(folder: Path) -> None:
    store(folder, user("u"), said("a"))
    assert loaded(folder).as_stored
    (folder / "s.json").unlink()
    found = loaded(folder)
    assert (found.about, found.conversation, found.as_stored) == (About(), Conversation(), True)


def test_a_journal_whose_entries_the_snapshot_has_is_ignored(folder: Path) -> None:
    """A crash between writing the snapshot and emptying the journal leaves this."""
    store(folder, user("u"), entries=entry(said("a")))
    stale = (folder / "s.journal").read_bytes()
    slot = slot_in(folder)
    slot.load(pytest.fail)
    slot.save(About(), Conversation([user("u"), said("a")]))
    slot.release(remove=True)
    (folder / "s.journal").write_bytes(stale)
    found = loaded(folder)
    assert found.conversation.messages == [user("u"), said("a")]
    assert (found.damage, found.as_stored) == ("", False)


def test_a_stale_journal_that_is_damaged_is_ignored_too(folder: Path) -> None:
    store(folder, user("u"), entries=entry(said("a")) + b"{\n" + entry(said("b")))
    snapshot = json.loads((folder / "s.json").read_bytes()) | {"generation": 2}
    (folder / "s.json").write_text(json.dumps(snapshot))
    assert loaded(folder).conversation.messages == [user("u")]
    assert names(folder) == ["s.journal", "s.json"]


@pytest.mark.parametrize("generation", [1, 5, 6])
def test_a_journal_of_any_older_generation_is_ignored_silently(
    folder: Path, generation: int
) -> None:
    store(folder, user("u"), entries=entry(said("a")))
    log = (folder / "s.journal").read_bytes()
    old = log.replace(b'"generation": 1', b'"generation": %d' % generation)
    (folder / "s.journal").write_bytes(old)
    newer = json.loads((folder / "s.json").read_bytes()) | {"generation": 7}
    (folder / "s.json").write_text(json.dumps(newer))
    found = loaded(folder)
    assert (found.conversation.messages, found.as_stored) == ([user("u")], False)
    assert names(folder) == ["s.journal", "s.json"]


def test_the_next_generation_is_above_that_of_the_snapshot_and_of_the_journal(
    folder: Path,
) -> None:
    store(folder, user("u"), entries=entry(said("a")))
    newer = (folder / "s.journal").read_bytes().replace(b'"generation": 1', b'"generation": 7')
    (folder / "s.journal").write_bytes(newer)
    notices: list[str] = []
    slot = slot_in(folder)
    slot.load(notices.append)
    slot.save(About(), Conversation([user("u"), said("b")]))
    slot.release(remove=True)
    assert generation_of(folder / "s.json") == 8
    # As a kill between the two leaves it: it must not fit to the snapshot now.
    (folder / "s.journal").write_bytes(newer)
    assert loaded(folder).conversation.messages == [user("u"), said("b")]


@pytest.mark.parametrize("damage", [lambda path: path.write_text("{"), Path.unlink])
def test_a_journal_without_its_snapshot_is_copied_aside_once_and_fits_to_no_later_one(
    folder: Path, damage: Callable[[Path], Any]
) -> None:
    store(folder, user("u"), entries=entry(said("old turn")))
    log = (folder / "s.journal").read_bytes()
    damage(folder / "s.json")
    notices: list[str] = []
    for _ in range(3):
        slot = slot_in(folder)
        slot.load(notices.append)
        slot.release(remove=False)
    assert [path.read_bytes() for path in folder.glob("s.journal.damaged*")] == [log]
    assert (folder / "s.journal").read_bytes() == b""
    assert len([notice for notice in notices if "s.journal.damaged" in notice]) == 1
    slot = slot_in(folder)
    slot.load(pytest.fail)
    slot.save(About(), Conversation([user("new")]))
    slot.release(remove=False)
    assert loaded(folder).conversation.messages == [user("new")]


def test_a_journal_of_another_generation_is_set_aside_and_told(folder: Path) -> None:
    store(folder, user("u"), entries=entry(said("a")))
    strange = (folder / "s.journal").read_bytes().replace(b'"generation": 1', b'"generation": 7')
    (folder / "s.journal").write_bytes(strange)
    why = "it goes on from generation 7, not 1"
    found = loaded(
        folder, f"not all of the journal of s was taken: {why}; it is in s.journal.damaged"
    )
    assert found.conversation.messages == [user("u")]
    assert (folder / "s.journal.damaged").read_bytes() == strange


def test_a_damaged_snapshot_is_set_aside_and_told(folder: Path) -> None:
    for number, name in enumerate(["s.json.damaged", "s.json.damaged-2", "s.json.damaged-3"]):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "s.json").write_text("[" * (number + 1))
        found = loaded(
            folder,
            "the session s is damaged: it is no JSON: Expecting value: line 1 column "
            f"{number + 2} (char {number + 1}); it was set aside as {name}",
        )
        assert found.conversation == Conversation()
        assert (folder / name).read_text() == "[" * (number + 1)
    assert "s.json" not in names(folder)


def test_with_a_damaged_snapshot_its_journal_is_kept_aside_as_well(folder: Path) -> None:
    store(folder, user("u"), entries=entry(said("a")))
    log = (folder / "s.journal").read_bytes()
    (folder / "s.json").write_text("{")
    notices: list[str] = []
    slot = slot_in(folder)
    slot.load(notices.append)
    assert notices[1:] == [
        "not all of the journal of s was taken: its snapshot is damaged; it is in s.journal.damaged"
    ]
    slot.save(About(), Conversation([user("new")]))
    slot.release(remove=True)
    assert (folder / "s.journal.damaged").read_bytes() == log
    assert (folder / "s.json.damaged").read_text() == "{"
    assert loaded(folder).conversation.messages == [user("new")]


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (b"{\n", "line 3 is damaged"),
        (b'{"message": {"role": "king"}}\n', "line 3: 'king' is not a valid Role"),
        (b"[" * 50_000 + b"\n", "line 3 is damaged"),
    ],
)
def test_of_a_damaged_journal_the_good_part_is_kept_and_a_copy_of_all(
    folder: Path, damage: bytes, why: str
) -> None:
    store(folder, user("u"), entries=entry(said("a")) + damage + entry(said("b")))
    data = (folder / "s.journal").read_bytes()
    found = loaded(
        folder, f"not all of the journal of s was taken: {why}; it is in s.journal.damaged"
    )
    assert found.conversation.messages == [user("u"), said("a")]
    assert (found.damage, found.as_stored) == (why, False)
    assert (folder / "s.journal.damaged").read_bytes() == data
    assert (folder / "s.journal").read_bytes() == data


def test_a_session_of_a_newer_version_is_not_touched(folder: Path) -> None:
    folder.mkdir(parents=True)
    newer = '{"format": "bantam-session", "version": 2, "messages": []}'
    (folder / "s.json").write_text(newer)
    slot = slot_in(folder)
    with pytest.raises(TooNew):
        slot.load(pytest.fail)
    assert (folder / "s.json").read_text() == newer


def test_a_file_larger_than_any_session_is_damaged_and_not_read(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "s.json").touch()
    os.truncate(folder / "s.json", 1 << 40)  # a sparse file: it takes no room
    with pytest.raises(Damaged, match="more than 536870912 bytes"):
        read(folder, ID, Lines())


# -- what a crash leaves of tool calls --------------------------------------------------------

MANY = calling("a", "b", "c")


@pytest.mark.parametrize(
    ("messages", "started", "texts"),
    [
        ([calling("a")], False, [NOT_RUN_RESULT]),
        ([calling("a")], True, [UNKNOWN_RESULT]),
        ([calling("a"), result("a", "1")], False, []),
        ([MANY], False, [NOT_RUN_RESULT] * 3),
        ([MANY], True, [UNKNOWN_RESULT, NOT_RUN_RESULT, NOT_RUN_RESULT]),
        ([MANY, result("a", "1")], False, [NOT_RUN_RESULT] * 2),
        ([MANY, result("a", "1")], True, [UNKNOWN_RESULT, NOT_RUN_RESULT]),
        ([MANY, result("a", "1"), result("b", "2")], True, [UNKNOWN_RESULT]),
        ([MANY, result("a", "1"), result("b", "2"), result("c", "3")], False, []),
        ([calling("a", "a")], True, [UNKNOWN_RESULT, NOT_RUN_RESULT]),
        ([calling("a", "a"), result("a", "1")], True, [UNKNOWN_RESULT]),
        ([calling("a"), result("a", "1"), calling("a")], True, [UNKNOWN_RESULT]),
        ([calling("a"), user("go on"), said("well")], False, []),
        ([said("done")], True, []),
    ],
    ids=range(14),
)
@pytest.mark.parametrize("in_snapshot", [True, False])
def test_a_call_that_a_crash_cut_off_has_a_result_that_says_what_is_known(
    folder: Path, messages: list[Message], started: bool, texts: list[str], in_snapshot: bool
) -> None:
    before = [SYSTEM, user("u"), *(messages if in_snapshot else [])]
    entries = b"" if in_snapshot else b"".join(map(entry, messages))
    store(folder, *before, entries=entries + (START if started else b""))
    found = loaded(folder)
    whole = [SYSTEM, user("u"), *messages]
    assert found.conversation.messages[: len(whole)] == whole
    notes = found.conversation.messages[len(whole) :]
    assert [note.content for note in notes] == texts
    ids = [call.id for call in whole[2].tool_calls] if len(texts) else []
    assert [note.tool_call_id for note in notes] == ids[len(ids) - len(notes) :]
    assert not found.conversation.started
    assert found.cut_off == ("shell_exec" if started and texts else "")
    assert found.as_stored is (in_snapshot and not started and not notes)


def test_a_snapshot_in_the_middle_of_a_turn_keeps_that_a_call_had_started(folder: Path) -> None:
    slot = slot_in(folder)
    slot.save(About(), Conversation([user("u"), calling("a", "b")], started=True))
    slot.release(remove=True)
    texts = [message.content for message in loaded(folder).conversation.messages[2:]]
    assert texts == [UNKNOWN_RESULT, NOT_RUN_RESULT]


# -- who holds it -----------------------------------------------------------------------------


def test_a_session_has_one_holder_and_the_next_one_works_on_another_name(folder: Path) -> None:
    notices: list[str] = []
    first = acquired(folder, ID, notices.append)
    assert (first.id, notices) == ("s", [])
    assert held(folder, ID) is None
    second, third = (acquired(folder, ID, notices.append) for _ in range(2))
    assert (second.id, third.id) == ("s-2", "s-3")
    assert notices == [
        "another Bantam works on the session s; this one works on s-2",
        "another Bantam works on the session s; this one works on s-3",
    ]
    first.release(remove=True)
    assert acquired(folder, ID, notices.append).id == "s"


@contextmanager
def open_files_of_at_most(count: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_where_every_name_is_held_none_is_given(folder: Path) -> None:
    with open_files_of_at_most(2000):
        slots = [slot_in(folder, ID)]
        slots += [slot_in(folder, f"s-{number}") for number in range(2, 1000)]
        with pytest.raises(BlockingIOError, match="every session of this name is in use"):
            acquired(folder, ID, pytest.fail)
        for slot in slots:
            slot.release(remove=True)
    assert names(folder) == []


def test_nothing_is_appended_to_a_file_that_was_removed(folder: Path) -> None:
    slot = slot_in(folder)
    slot.save(About(), Conversation([user("u")]))
    assert not slot.is_lost
    shutil.rmtree(folder)
    assert slot.is_lost
    with pytest.raises(FileNotFoundError, match="were removed"):
        slot.append(entry(said("a")))
    assert not folder.exists()


# -- room for another conversation ------------------------------------------------------------


def replaced(folder: Path, *told: str) -> None:
    """Let a new conversation take the place of what is stored, which tells exactly `told`."""
    notices: list[str] = []
    slot = slot_in(folder)
    slot.make_room(notices.append)
    slot.save(About(), Conversation([user("new")]))
    slot.release(remove=True)
    assert notices == list(told)
    assert loaded(folder).conversation.messages == [user("new")]


def dated(folder: Path) -> None:
    """Let the snapshot be of a known time."""
    os.utime(folder / "s.json", (1_767_323_045, 1_767_323_045))


def test_what_was_stored_is_kept_under_the_time_of_its_last_turn(folder: Path) -> None:
    for suffix in ("", "-2", "-3"):
        store(folder, user(f"old{suffix}"))
        dated(folder)
        old = (folder / "s.json").read_bytes()
        replaced(folder)
        kept = folder / f"s-20260102-030405{suffix}.json"
        assert kept.read_bytes() == old
        assert generation_of(folder / "s.json") == generation_of(kept) + 1
        (folder / "s.json").unlink()


def test_where_nothing_is_stored_nothing_is_kept(folder: Path) -> None:
    replaced(folder)
    assert names(folder) == ["s.journal", "s.json"]


def test_a_turn_that_a_crash_cut_off_is_kept_whole(folder: Path) -> None:
    store(folder, user("u"), entries=entry(calling("a", "b")) + START)
    replaced(folder)
    kept = next(path for path in folder.glob("s-*.json"))
    messages = read(folder, kept.stem, Lines()).conversation.messages
    assert messages[:2] == [user("u"), calling("a", "b")]
    assert [message.content for message in messages[2:]] == [UNKNOWN_RESULT, NOT_RUN_RESULT]


@pytest.mark.parametrize("content", ['[{"role": "user", "content": "u"}]', "{", "", '{"a": 1}'])
def test_a_file_that_is_not_bantam_s_is_kept_as_it_is(folder: Path, content: str) -> None:
    folder.mkdir(parents=True)
    (folder / "s.json").write_text(content)
    dated(folder)
    replaced(folder)
    assert (folder / "s-20260102-030405.json").read_text() == content
    assert generation_of(folder / "s.json") == 1


def test_of_a_damaged_session_both_files_are_kept(folder: Path) -> None:
    store(folder, user("u"), entries=entry(said("a")))
    log = (folder / "s.journal").read_bytes()
    (folder / "s.json").write_text("{")
    replaced(
        folder,
        "the session s is damaged: it is no JSON: Expecting property name enclosed in double "
        "quotes: line 1 column 2 (char 1); it was set aside as s.json.damaged",
        "not all of the journal of s was taken: its snapshot is damaged; it is in "
        "s.journal.damaged",
    )
    assert (folder / "s.json.damaged").read_text() == "{"
    assert (folder / "s.journal.damaged").read_bytes() == log


def test_of_a_session_of_a_newer_version_both_files_are_kept(folder: Path) -> None:
    store(folder, user("u"), entries=entry(said("a")))
    log = (folder / "s.journal").read_bytes()
    newer = '{"format": "bantam-session", "version": 2, "messages": []}'
    (folder / "s.json").write_text(newer)
    dated(folder)
    replaced(folder)
    assert (folder / "s-20260102-030405.json").read_text() == newer
    assert (folder / "s.journal.damaged").read_bytes() == log


def test_where_no_file_can_have_two_names_the_old_one_is_copied(
    folder: Path, tmp_path: Path
) -> None:
    store(folder, user("old"))
    dated(folder)
    old = (folder / "s.json").read_bytes()
    shim, log = make_shim(tmp_path), tmp_path / "log"
    keeper = (sys.executable, "-c", KEEPER, str(folder))
    recording = environment(tmp_path, **shim.recording(log, folder))
    assert run(program=keeper, cwd=tmp_path, env=recording).returncode == 0
    (link,) = [call for call in calls(log) if call.name.startswith("link")]
    (folder / "s-20260102-030405.json").unlink()
    (folder / "s.journal").unlink()
    failing = environment(tmp_path, **shim.failure(errno.EPERM, link.number, folder))
    done = run(program=keeper, cwd=tmp_path, env=failing)
    assert (done.returncode, done.stderr) == (0, b"")
    assert names(folder) == ["s-20260102-030405.json", "s.journal", "s.json"]
    for name in ("s-20260102-030405.json", "s.json"):
        assert (folder / name).read_bytes() == old


def test_what_puts_files_back_goes_with_the_conversation_that_it_belongs_to(folder: Path) -> None:
    store(folder, user("old"))
    dated(folder)
    (folder / "s.undo").write_text("old")
    slot = slot_in(folder)
    slot.make_room(pytest.fail)
    assert names(folder) == [
        "s-20260102-030405.json",
        "s-20260102-030405.undo",
        "s.journal",
        "s.json",
    ]
    assert (folder / "s-20260102-030405.undo").read_text() == "old"
    slot.release(remove=True)
    # The run that made that room could not be stored, but it wrote a file.
    (folder / "s.undo").write_text("of no session")
    replaced(folder)
    assert names(folder) == [
        "s-20260102-030405.json",
        "s-20260102-030405.undo",
        "s.journal",
        "s.json",
    ]
    assert (folder / "s-20260102-030405.undo").read_text() == "old"
    assert read(folder, "s-20260102-030405", Lines()).conversation.messages == [user("old")]


def test_where_room_was_made_only_in_part_it_is_made_whole(folder: Path) -> None:
    store(folder, user("old"))
    dated(folder)
    (folder / "s-20260102-030405.undo").write_text("old")  # the snapshot's turn had not come
    replaced(folder)
    assert names(folder)[:2] == ["s-20260102-030405.json", "s-20260102-030405.undo"]
    assert (folder / "s-20260102-030405.undo").read_text() == "old"


def test_a_second_name_elsewhere_is_none_under_which_the_conversation_is_kept(
    folder: Path,
) -> None:
    store(folder, user("old"))
    dated(folder)
    (folder / "mine.json").hardlink_to(folder / "s.json")
    (folder / "s-mine.json").symlink_to("s.json")
    replaced(folder)
    assert read(folder, "s-20260102-030405", Lines()).conversation.messages == [user("old")]


# -- links ------------------------------------------------------------------------------------


def linked(folder: Path, *messages: Message) -> Path:
    """Let the snapshot be a link to a file elsewhere that holds `messages`; return that."""
    elsewhere = folder.parent / "elsewhere"
    elsewhere.mkdir(parents=True)
    target = elsewhere / "mine.json"
    if messages:
        store(folder, *messages)
        (folder / "s.json").rename(target)
    folder.mkdir(exist_ok=True)
    (folder / "s.json").symlink_to(target)
    return target


@pytest.mark.parametrize("old", [(), (user("old"),)], ids=["to nothing yet", "to a session"])
def test_a_session_that_is_a_link_is_stored_where_it_leads(
    folder: Path, old: tuple[Message, ...]
) -> None:
    target = linked(folder, *old)
    slot = slot_in(folder)
    assert slot.load(pytest.fail).conversation.messages == list(old)
    slot.save(About(), Conversation([*old, user("new")]))
    slot.release(remove=True)
    assert (folder / "s.json").readlink() == target
    assert names(target.parent) == ["mine.json"]
    assert loaded(folder).conversation.messages == [*old, user("new")]


@pytest.mark.parametrize("is_near", [True, False], ids=["one file system", "two"])
def test_of_a_session_that_is_a_link_the_conversation_is_kept_and_not_the_link(
    folder: Path, is_near: bool
) -> None:
    target = linked(folder, user("old"))
    if not is_near:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
            moved = Path(shutil.move(target, memory))
            target.symlink_to(moved)
            assert moved.stat().st_dev != folder.stat().st_dev
            replaced(folder)
    else:
        replaced(folder)
        assert (folder / "s.json").readlink() == target
    kept = next(folder.glob("s-*.json"))
    assert not kept.is_symlink()
    assert read(folder, kept.stem, Lines()).conversation.messages == [user("old")]


def test_a_link_to_itself_is_an_error_as_the_system_gives_it(folder: Path) -> None:
    slot = slot_in(folder)
    (folder / "s.json").symlink_to("s.json")
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        slot.load(pytest.fail)
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        slot.make_room(pytest.fail)
    slot.save(About(), Conversation([user("u")]))
    slot.release(remove=True)
    assert loaded(folder).conversation.messages == [user("u")]


@pytest.mark.parametrize(
    "name", ["s.journal", ".s.json.tmp", "s.undo"], ids=["journal", "temporary", "undo"]
)
@pytest.mark.parametrize("exists", [True, False], ids=["to a file", "to nothing"])
def test_a_link_in_the_place_of_a_file_of_its_own_is_refused_and_leads_to_no_harm(
    folder: Path, name: str, exists: bool
) -> None:
    folder.mkdir(parents=True)
    target = folder.parent / "mine"
    if exists:
        target.write_text("mine")
        target.chmod(0o644)
    (folder / name).symlink_to(target)
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        write_all(folder)
    assert (folder / name).is_symlink()
    assert target.exists() is exists
    if exists:
        assert target.read_text() == "mine"
        assert stat.S_IMODE(target.stat().st_mode) == 0o644


def write_all(folder: Path) -> None:
    """Let a session write each of its files."""
    slot = slot_in(folder)
    slot.save(About(), Conversation([user("u")]))
    slot.undo.begin(1)
    slot.undo.ran("ls")


# -- files ------------------------------------------------------------------------------------


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "f"
    files.replace(path, [b"one", b"", b"two"])
    assert path.read_bytes() == b"onetwo"
    with files_of_at_most(1000), pytest.raises(OSError, match="File too large"):
        files.replace(path, [b"x" * 2000])
    assert path.read_bytes() == b"onetwo"
    assert names(tmp_path) == ["f"]


def test_what_a_crash_left_of_a_new_file_is_in_nobody_s_way(tmp_path: Path) -> None:
    left = tmp_path / ".f.tmp"
    left.write_text("half of a long file")
    left.chmod(0o644)
    files.replace(tmp_path / "f", [b"new"])
    assert (tmp_path / "f").read_bytes() == b"new"
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o600
    assert names(tmp_path) == ["f"]


def test_pieces_that_fail_leave_the_old_file(tmp_path: Path) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"new"
        raise KeyboardInterrupt

    (tmp_path / "f").write_text("old")
    with pytest.raises(KeyboardInterrupt):
        files.replace(tmp_path / "f", pieces())
    assert names(tmp_path) == ["f"]
    assert (tmp_path / "f").read_text() == "old"


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("mode", [0o755, 0o1777, 0o700, 0o500])
@pytest.mark.parametrize("there", range(4))
def test_a_folder_that_is_made_is_private_and_what_is_there_keeps_its_mode(
    tmp_path: Path, mode: int, there: int
) -> None:
    folders = [tmp_path / "a", tmp_path / "a" / "b", tmp_path / "a" / "b" / "c"]
    before = mode_of(tmp_path)
    for folder in folders[:there]:
        folder.mkdir()
    above = [tmp_path, *folders][there]
    # Only the lowest one: root alone could make a folder in the others.
    above.chmod(mode | 0o200 if there < len(folders) else mode)
    kept = mode_of(above)
    files.make_private(folders[-1])
    assert [mode_of(folder) for folder in folders[there:]] == [0o700] * (len(folders) - there)
    assert mode_of(above) == kept
    assert there == 0 or mode_of(tmp_path) == before


def test_folders_however_deep_are_made(tmp_path: Path) -> None:
    folder = Path(tmp_path, *["d"] * 1500)
    files.make_private(folder)
    for each in [folder, *folder.parents][:1500]:
        each.rmdir()  # deeper than what pytest can remove


@pytest.mark.parametrize("mode", [0o755, 0o777, 0o750, 0o701, 0o700])
def test_a_folder_can_be_closed_to_others(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    files.close_to_others(tmp_path)
    assert mode_of(tmp_path) == 0o700


@pytest.mark.parametrize("home", [".bantam", "home"])
def test_who_holds_a_session_closes_its_folder_and_none_above_bantam_s_own(
    tmp_path: Path, home: str
) -> None:
    folder = tmp_path / home / "sessions"
    folder.mkdir(parents=True)
    for path in (folder, folder.parent, tmp_path):
        path.chmod(0o755)
    slot_in(folder).release(remove=True)
    own = 0o700 if home == ".bantam" else 0o755
    assert [mode_of(path) for path in (folder, folder.parent, tmp_path)] == [0o700, own, 0o755]


def test_what_is_read_through_a_link_keeps_its_mode(tmp_path: Path) -> None:
    for name in ("mine", "theirs"):
        (tmp_path / name).touch()
        (tmp_path / name).chmod(0o644)
    (tmp_path / "link").symlink_to("theirs")
    for name in ("mine", "link"):
        files.reader(tmp_path / name).close()
    assert [mode_of(tmp_path / name) for name in ("mine", "theirs")] == [0o600, 0o644]


@pytest.mark.parametrize(
    "make", [Path.touch, os.mkfifo, lambda path: path.symlink_to(path.with_name("nowhere"))]
)
def test_a_place_that_something_else_has_is_no_folder(
    tmp_path: Path, make: Callable[[Path], Any]
) -> None:
    make(tmp_path / "f")
    with pytest.raises(OSError, match=r"File exists|Not a directory"):
        files.make_private(tmp_path / "f")
    with pytest.raises(OSError, match=r"File exists|Not a directory|No such file"):
        files.make_private(tmp_path / "f" / "g")
