"""Session files that are cut, flipped, of the wrong kind or too much: told, kept, never fatal."""

import json
import os
import random
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest
from llmserver import LLMServer, text
from program import at, environment, events, run, start

from bantam.core.messages import Message, Role, ToolCall
from bantam.sessions.session import Session
from bantam.sessions.snapshot import About, Damaged, TooNew
from bantam.sessions.store import Store, project_id

NAME: Final = "mine"
OTHER: Final = b'[{"role": "user", "content": "hi"}]'
ABOUT: Final = About(project="/p", endpoint="http://127.0.0.1/v1", model="m", dialect="native")
# Damage may cost a moment, never a wait.
_MOST_S: Final = 2.0
_BIG: Final = 60_000_000


def noon() -> datetime:
    return datetime(2026, 3, 1, 12, tzinfo=UTC)


def converse(session: Session) -> None:
    """Add a turn with a call and its result, and end it."""
    call = ToolCall("call_1", "shell_exec", '{"command": "ls"}')
    session.append(Message(Role.USER, "caf\xe9?"))
    session.append(Message(Role.ASSISTANT, "", "Hm.", (call,)))
    session.started(call)
    session.append(Message(Role.TOOL, "a\n\n\nexit: 0", tool_call_id="call_1"))
    session.append(Message(Role.ASSISTANT, "One file."))
    session.close()


@pytest.fixture
def whole(tmp_path: Path) -> bytes:
    """Return the text of a small session."""
    store = Store(tmp_path / "template", noon)
    session = store.fresh(NAME, ABOUT)
    session.begin(Message(Role.SYSTEM, "S"))
    converse(session)
    return (tmp_path / "template" / "sessions" / f"{NAME}.json").read_bytes()


class Place:
    """A folder of sessions, one of which has to suffer."""

    def __init__(self, home: Path) -> None:
        self.store = Store(home, noon)
        self.folder = home / "sessions"
        self.folder.mkdir(parents=True)
        self.path = self.folder / f"{NAME}.json"
        (self.folder / "other.json").write_bytes(OTHER)

    def survives(self, content: bytes, *, goes_on: bool = True) -> str:
        """Hold that what is `content` is loaded, or told and kept; return what was told.

        `goes_on`: a turn follows and is stored.
        """
        for leftover in self.folder.glob(f"{NAME}*"):
            leftover.unlink()
        self.path.write_bytes(content)
        listed = {summary.id: summary.fault for summary in self.store.summaries()}
        assert listed.keys() == {NAME, "other"}
        assert listed["other"] == ""
        try:
            session = self.store.resumed(NAME, ABOUT)
        except TooNew as refusal:
            assert self.path.read_bytes() == content
            return str(refusal)
        told = [notice for notice in session.notices if "this session was made" not in notice]
        kept = [path.read_bytes() for path in self.folder.glob("*.damaged*")]
        assert kept == [content] * len(told)
        assert not told or len(session.messages) == 0
        before = len(session.messages)
        if goes_on:
            converse(session)
            assert len(self.store.stored(NAME).conversation.messages) >= before + 4
        session.close()
        return "".join(told)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "home")


# -- one process, all damage ------------------------------------------------------------------


def test_a_session_cut_at_any_byte_is_told_and_kept(whole: bytes, place: Place) -> None:
    for length in range(len(whole) - 1):
        told = place.survives(whole[:length], goes_on=length % 20 == 0)
        assert told.startswith(f"the session {NAME} is damaged: ")
        assert told.endswith(f"; it was set aside as {NAME}.json.damaged")
        assert "\n" not in told
    assert place.survives(whole[:-1]) == ""
    assert place.survives(whole) == ""


def test_a_flipped_bit_is_told_or_does_not_matter(whole: bytes, place: Place) -> None:
    chance = random.Random(20260301)  # the same damage each time
    outcomes = []
    for number in range(400):
        flipped = bytearray(whole)
        flipped[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        outcomes.append(place.survives(bytes(flipped), goes_on=number % 8 == 0))
    assert outcomes.count("") > 50
    assert len(outcomes) - outcomes.count("") > 50


def _message(members: bytes) -> bytes:
    return b'{"messages": [{"role": "user", "content": "hi", ' + members + b"}]}"


_USABLE: Final = {
    "a mark at the start": b"\xef\xbb\xbf" + OTHER,
    "lone surrogates": b'{"messages": [{"role": "user", "content": "\\ud83d"}], "model": "\\ud83d"'
    b', "project": "\\udc00", "summary": "\\ud83d", "endpoint": "\\udfff"}',
    "a surrogate as a role's neighbour": _message(b'"\\ud83d": ["\\udc00"]'),
    "texts of the wrong type": b'{"messages": [], "project": 1, "created": [], "model": {}}',
    "a generation that no file reaches": b'{"messages": [], "generation": ' + b"9" * 4300 + b"}",
    "a generation below nothing": b'{"messages": [], "generation": -5}',
    "a generation of the wrong type": b'{"messages": [], "generation": "x"}',
    "a count that no file reaches": b'{"format": "bantam-session", "count": '
    + b"9" * 4300
    + b', "started": false, "messages": []}',
    "times of no calendar": b'{"messages": [], "created": "9999-99-99", "updated": "x"}',
    "the last time of all": b'{"messages": [], "updated": "9999-12-31T23:59:59-23:59"}',
    "NaN": _message(b'"x": NaN, "y": -Infinity, "z": 1e999'),
    "90 levels": _message(b'"x": ' + b"[" * 90 + b"]" * 90),
    "a result without its call": b'[{"role": "tool", "tool_call_id": "x", "content": "y"}]',
    "a call without its result": b'[{"role": "assistant", "tool_calls": [{"id": "a", "function": '
    b'{"name": "shell_exec", "arguments": {"command": "ls"}}}]}]',
}
_UNUSABLE: Final = {
    "nothing": b"",
    "blanks": b" \n\t",
    "zeros": b"\0" * 4096,
    "UTF-16": json.dumps([]).encode("utf-16"),
    "no UTF-8": b'[{"role": "user", "content": "\xff"}]',
    "a mark alone": b"\xef\xbb\xbf",
    "null": b"null",
    "a number": b"7",
    "a text": b'"messages"',
    "an empty object": b"{}",
    "messages that are a number": b'{"messages": 7}',
    "messages that are an object": b'{"messages": {"role": "user"}}',
    "a message that is null": b"[null]",
    "a message that is a list": b"[[]]",
    "an unknown role": b'[{"role": "wizard", "content": "hi"}]',
    "a role that is an object": b'[{"role": {}}]',
    "a content that is a number": b'[{"role": "user", "content": 5}]',
    "a call that is a text": b'[{"role": "assistant", "tool_calls": ["x"]}]',
    "calls that are a text": b'[{"role": "assistant", "tool_calls": "x"}]',
    "costs that are a text": b'{"messages": [], "calls": "x"}',
    "a cost that is a text": b'{"messages": [], "calls": ["x"]}',
    "a cost below nothing": b'{"messages": [], "calls": [{"prompt": -1}]}',
    "a cost that nobody pays": b'{"messages": [], "calls": [{"prompt": ' + b"9" * 4300 + b"}]}",
    "50,000 levels": b"[" * 50_000 + b"]" * 50_000,
    "50,000 levels in a message": _message(b'"x": ' + b"[" * 50_000 + b"]" * 50_000),
    "50,000 levels of objects": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "500 levels": _message(b'"x": ' + b"[" * 500 + b"]" * 500),
    "a number of 5,000 digits": _message(b'"x": ' + b"9" * 5000),
    "two values": OTHER + OTHER,
    "a web page": b"<!doctype html><title>404</title>",
}


@pytest.mark.parametrize("content", _USABLE.values(), ids=_USABLE)
def test_what_is_odd_but_means_something_is_loaded(content: bytes, place: Place) -> None:
    assert place.survives(content) == ""


@pytest.mark.parametrize("content", _UNUSABLE.values(), ids=_UNUSABLE)
def test_what_is_no_session_is_told_in_a_short_line_and_kept(content: bytes, place: Place) -> None:
    told = place.survives(content)
    assert told.startswith(f"the session {NAME} is damaged: ")
    assert told.isprintable()
    assert len(told) < 400


@pytest.mark.parametrize("version", ["2", "9" * 4300])
def test_what_a_newer_bantam_made_is_left_as_it_is(version: str, place: Place) -> None:
    newer = f'{{"format": "bantam-session", "version": {version}, "messages": []}}'
    told = place.survives(newer.encode())
    assert told.startswith("a newer Bantam made it (version ")
    assert len(told) < 100


# -- by the command line ----------------------------------------------------------------------


def bantam(folder: Path, *arguments: str) -> tuple[float, int, list[str]]:
    """Run a turn in `folder`; return its seconds of work, its status, and what it said."""
    with LLMServer([text("A")]) as server:
        words = ("--json", *at(server.url), *arguments, "-p", "one")
        before = work_s()
        ended = run(*words, cwd=folder)
        seconds = work_s() - before
    assert b"Traceback" not in ended.stderr
    told = [event["text"] for event in events(ended.stdout) if event["type"] == "notice"]
    return seconds, ended.returncode, [*told, *ended.stderr.decode().splitlines()]


def work_s() -> float:
    """Return how long the processor has worked for the processes that this one waited for.

    Not the time that passed: on a busy machine that says nothing. What hangs, `run` ends.
    """
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def project(folder: Path) -> Path:
    """Return the file of the session of the project in `folder`; beside it there is another."""
    path = folder / ".bantam" / "sessions" / f"{project_id(folder)}.json"
    path.parent.mkdir(parents=True)
    path.with_name("other.json").write_bytes(OTHER)
    return path


@pytest.mark.parametrize("tenths", [0, 1, 5, 9])  # at any byte: above
def test_a_turn_goes_on_without_a_session_that_was_cut(
    tenths: int, whole: bytes, tmp_path: Path
) -> None:
    cut = whole[: len(whole) * tenths // 10]
    path = project(tmp_path)
    path.write_bytes(cut)
    seconds, status, said = bantam(tmp_path, "-c")
    assert (status, len(said)) == (0, 1)
    assert said[0].startswith(f"the session {path.stem} is damaged: ")
    assert path.with_name(f"{path.name}.damaged").read_bytes() == cut
    assert seconds < _MOST_S
    _, status, said = bantam(tmp_path, "-c")
    assert (status, len(said)) == (0, 1)
    assert said[0].startswith("this session was made with scripted at ")  # another port


_OF_MANY: Final[dict[str, Callable[[], bytes]]] = {
    "a flipped bit": lambda: b'{"messages": [{"role": "user", "content": "a"\xac {}]}',
    "50,000 levels": lambda: _UNUSABLE["50,000 levels in a message"],
    "5,000 digits": lambda: _UNUSABLE["a number of 5,000 digits"],
    "60 MB of zeros": lambda: b"\0" * _BIG,
    "60 MB of text that ends too early": lambda: b'[{"content": "' + b"x" * _BIG,
    "60 MB of one role too many": lambda: b'[{"role": "x' + b"x" * _BIG + b'"}]',
}


@pytest.mark.parametrize("content", _OF_MANY.values(), ids=_OF_MANY)
@pytest.mark.parametrize("how", [("-c",), ()], ids=["continued", "new"])
def test_a_turn_goes_on_whatever_is_in_the_file(
    how: tuple[str, ...], content: Callable[[], bytes], tmp_path: Path
) -> None:
    path = project(tmp_path)
    path.write_bytes(content())
    size = path.stat().st_size
    seconds, status, said = bantam(tmp_path, *how)
    assert status == 0
    assert len(said) == len(how)
    assert all(len(line) < 500 for line in said)
    kept = [other for other in path.parent.glob(f"{path.stem}*") if other != path]
    assert [other.stat().st_size for other in kept] == [size]
    assert seconds < _MOST_S


def _is_pipe(path: Path) -> None:
    os.mkfifo(path)


def _is_folder(path: Path) -> None:
    path.mkdir()
    (path / "file").write_bytes(b"kept")


def _is_link_to_nowhere(path: Path) -> None:
    path.symlink_to(path.with_name("nowhere"))


def _is_link_to_itself(path: Path) -> None:
    path.symlink_to(path)


def _is_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


_KINDS: Final = (_is_pipe, _is_folder, _is_link_to_itself, _is_device)


@pytest.mark.parametrize("make", _KINDS)
@pytest.mark.parametrize("how", [("-c",), ("--no-session", "-c"), ()], ids=" ".join)
def test_what_is_no_file_is_told_and_left_and_does_not_hang(
    how: tuple[str, ...], make: Callable[[Path], None], tmp_path: Path
) -> None:
    path = project(tmp_path)
    make(path)
    before = path.lstat()
    seconds, status, said = bantam(tmp_path, *how)
    assert status in ((0, 1) if "--no-session" in how else (0,))
    assert said
    assert all(line.isprintable() and len(line) < 500 for line in said)
    assert path.lstat().st_ino == before.st_ino
    assert seconds < _MOST_S
    store = Store(tmp_path / ".bantam", noon)
    faults = {summary.id: summary.fault for summary in store.summaries()}
    assert faults["other"] == ""
    assert faults[path.stem] != ""


@pytest.mark.parametrize("make", [_is_pipe, _is_folder])
def test_a_journal_that_is_no_file_is_told_and_does_not_hang(
    make: Callable[[Path], None], tmp_path: Path
) -> None:
    path = project(tmp_path)
    path.write_bytes(OTHER)
    make(path.with_suffix(".journal"))
    seconds, status, said = bantam(tmp_path, "-c")
    assert status == 0
    assert len(said) >= 1
    assert path.read_bytes() == OTHER
    assert seconds < _MOST_S


def _is_link_to_mine(path: Path) -> None:
    path.symlink_to(path.parents[2] / "mine")


@pytest.mark.parametrize("make", [*_KINDS, _is_link_to_nowhere, _is_link_to_mine])
@pytest.mark.parametrize("name", ["{}.json", "{}.journal", "{}.undo", ".{}.json.tmp"])
def test_reading_sessions_neither_waits_for_nor_harms_what_is_in_the_place_of_a_file(
    name: str, make: Callable[[Path], None], tmp_path: Path
) -> None:
    mine = tmp_path / "mine"
    mine.write_bytes(OTHER)
    mine.chmod(0o644)
    session = project(tmp_path)
    path = session.with_name(name.format(session.stem))
    if path != session:
        session.write_bytes(OTHER)
    make(path)
    before = {each: each.lstat().st_ino for each in path.parent.iterdir()}
    read_every_way(tmp_path)
    assert {each: each.lstat().st_ino for each in path.parent.iterdir()} == before
    assert (mine.read_bytes(), mine.stat().st_mode & 0o777) == (OTHER, 0o644)
    assert path == session or session.read_bytes() == OTHER


def read_every_way(folder: Path) -> None:
    """List, read, resume and replay the session of the project in `folder`."""
    store, name = Store(folder / ".bantam", noon), project_id(folder)
    assert "other" in {summary.id for summary in store.summaries()}
    with suppress(Damaged):
        store.stored(name)
    store.resumed(name, ABOUT).close()
    ended = run("--replay", name, cwd=folder)
    assert ended.returncode in (0, 1, 2)
    assert b"Traceback" not in ended.stderr


def listings(home: Path) -> Iterator[str]:
    """Yield the lines of a list that a process of its own made."""
    program = (
        "import sys\nfrom datetime import UTC, datetime\nfrom pathlib import Path\n"
        "from bantam.sessions.store import Store\n"
        "for each in Store(Path(sys.argv[1]), lambda: datetime.now(UTC)).summaries():\n"
        "    print(each.id, 'damaged' if each.fault else each.count)\n"
    )
    words = (sys.executable, "-c", program)
    with start(str(home), cwd=home, env=environment(home), program=words) as process:
        out, err = process.communicate(timeout=60)
    assert err == b""
    yield from out.decode().splitlines()


def test_the_list_names_all_sessions_however_damaged_some_are(tmp_path: Path) -> None:
    path = project(tmp_path)
    for name, content in _UNUSABLE.items():
        path.with_name(f"{name}.json").write_bytes(content)
    with path.with_name("big.json").open("wb") as big:
        big.truncate(_BIG)
    os.mkfifo(path.with_name("pipe.json"))
    path.with_name("folder.json").mkdir()
    _is_link_to_nowhere(path.with_name("link.json"))
    before = work_s()
    lines = set(listings(tmp_path / ".bantam"))
    seconds = work_s() - before
    damaged = {f"{name} damaged" for name in (*_UNUSABLE, "pipe", "folder", "link")}
    assert lines == damaged | {"other 1", "big None"}
    assert seconds < _MOST_S
