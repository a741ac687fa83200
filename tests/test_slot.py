"""One session's place on the disk: what it holds after every way in which a process can stop."""

import errno
import json
import os
import resource
import shutil
import stat
import sys
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
            "the session s is damaged: Expecting value: line 1 column "
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
        "the session s is damaged: Expecting property name enclosed in double quotes: line 1 "
        "column 2 (char 1); it was set aside as s.json.damaged",
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


def test_where_no_file_can_have_two_names_the_old_one_is_renamed(
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
    assert names(folder) == ["s-20260102-030405.json", "s.journal"]
    assert (folder / "s-20260102-030405.json").read_bytes() == old


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


@pytest.mark.parametrize("mode", [0o755, 0o777, 0o700, None])
def test_folders_are_private(tmp_path: Path, mode: int | None) -> None:
    folder = tmp_path / "a" / "b" / "c"
    if mode is not None:
        folder.mkdir(parents=True)
        folder.chmod(mode)
    files.make_private(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    if mode is None:
        assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "make", [Path.touch, os.mkfifo, lambda path: path.symlink_to(path.with_name("nowhere"))]
)
def test_a_place_that_something_else_has_is_no_folder(
    tmp_path: Path, make: Callable[[Path], Any]
) -> None:
    make(tmp_path / "f")
    with pytest.raises(OSError, match="File exists"):
        files.make_private(tmp_path / "f")
    with pytest.raises(OSError, match=r"File exists|Not a directory|No such file"):
        files.make_private(tmp_path / "f" / "g")
