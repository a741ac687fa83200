"""A failing, full or read-only disk damages nothing, and the chat goes on (SPEC section 11)."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from errno import EDQUOT, EIO, ENOSPC, EROFS, errorcode
from pathlib import Path

import pytest
from crashing import after_crash, after_undo, clean, continued, lost_before, resume
from faults import Call, Shim, calls, make_shim
from llmserver import LLMServer
from processes import files_of_at_most
from program import BANTAM, run
from stories import ANSWER, PROMPT, STEPS, Done, Place, Story, check_all

from bantam.core.errors import BantamError
from bantam.core.messages import UNKNOWN_RESULT
from bantam.sessions.store import Store

TOLD = "the session could not be stored"
TOLD_CURED = "the session is stored again"
SHORT = 0  # no errno
TAKE_NO_ROOM = ("ftruncate", "fchmod", "unlink")


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Shim:
    return make_shim(tmp_path_factory.mktemp("shim"))


@pytest.fixture(scope="module")
def story(shim: Shim, tmp_path_factory: pytest.TempPathFactory) -> Story:
    folder = tmp_path_factory.mktemp("story")
    return Story.told(folder, shim, "-c", finished_turn=True, watched=["home"])


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault at one call, or at all from it on; SHORT: half of it is written."""

    call: Call
    error: int
    onwards: bool = False

    def __str__(self) -> str:
        what = errorcode.get(self.error, "half") + (" from" if self.onwards else " at")
        return f"{what} {self.call.number} ({self.call.name} {self.call.path})"

    @property
    def name(self) -> str:
        return f"{self.error}-{self.onwards}-{self.call.number}"

    def injected(self, shim: Shim, place: Place, until: Path | None = None) -> dict[str, str]:
        if self.error == SHORT:
            return shim.short(self.call.number, place.home)
        return shim.failure(
            self.error, self.call.number, place.home, onwards=self.onwards, until=until
        )


def faults(of_turn: list[Call]) -> Iterator[Fault]:
    """Yield faults at each call, and lasting ones from some, in turn of their kinds."""
    lasting = (ENOSPC, EDQUOT, EROFS, EIO)
    for call in of_turn:
        yield Fault(call, EIO)
        if call.number % 5 < 2:  # the calls alternate, and the rows must not with them
            error = lasting[call.number // 2 % len(lasting)]
            is_felt = call.name not in TAKE_NO_ROOM or error in (EROFS, EIO)
            yield Fault(call, error if is_felt else EROFS, onwards=True)
        if call.name == "write":
            yield Fault(call, SHORT)


def after_fault(story: Story, place: Place, done: Done) -> Iterator[str]:
    """Yield what is wrong with a turn on a disk that failed, and with the next one."""
    told, told_cured = (done.stderr.decode().count(text) for text in (TOLD, TOLD_CURED))
    yield from finished(done)
    yield from unreadable(place)
    is_first = not place.snapshot.exists()
    _, resumed = resume(place)
    count, results = continued(story, place.stored())
    cut_off = ""
    if results and results[0]["content"] == UNKNOWN_RESULT:
        cut_off = story.messages[count - 1]["tool_calls"][0]["function"]["name"]
    yield from clean(place, resumed, is_first=is_first, cut_off=cut_off)
    yield from lost_before(story, place)
    if results and (len(results) > 1 or results[0]["role"] != "tool"):
        yield f"made up: {results}"
    # The journal may hold all although its snapshot failed, and was told to. Never the reverse.
    fine = [(1, 0)] if count < len(story.messages) else [(1, 0), (0, 0), (1, 1)]
    if (told, told_cured) not in fine:
        yield f"stored is {count} of {len(story.messages)}, and told: {done.stderr.decode()}"


def finished(done: Done) -> Iterator[str]:
    """Yield what is wrong with a turn that must not suffer from its disk."""
    if (done.returncode, done.stdout) != (0, ANSWER.encode()) or b"Traceback" in done.stderr:
        yield f"status {done.returncode}, {done.stdout!r}, {done.stderr.decode()}"


def unreadable(place: Place) -> Iterator[str]:
    """Yield the sessions that cannot be loaded."""
    store = Store(place.home, lambda: datetime.now(UTC))
    for summary in store.summaries():
        try:
            loaded = store.stored(summary.id)
        except BantamError as error:
            yield str(error)
        else:
            if loaded.damage:
                yield loaded.damage


def test_a_failing_call_damages_nothing_and_the_turn_goes_on(
    shim: Shim, story: Story, tmp_path: Path
) -> None:
    check_faults(story, shim, tmp_path, faults(story.calls))


@pytest.mark.parametrize(
    "finished_turn", [False, True], ids=["the project's first", "in the place of another"]
)
def test_nor_does_one_while_a_new_session_begins(
    shim: Shim, tmp_path: Path, finished_turn: bool
) -> None:
    story = Story.told(tmp_path, shim, finished_turn=finished_turn, watched=["home"])
    # What comes later is the same in every session.
    beginning = story.beginning()
    cases = [Fault(call, EIO) for call in beginning]
    takers = [call for call in beginning if call.name not in TAKE_NO_ROOM]
    cases += [Fault(call, ENOSPC, onwards=True) for call in takers if call.number % 5 < 3]
    check_faults(story, shim, tmp_path, cases)


def check_faults(story: Story, shim: Shim, folder: Path, cases: Iterable[Fault]) -> None:
    """Let the story happen with each fault, and go on. Raises AssertionError."""

    def problems(fault: Fault) -> Iterator[str]:
        place = story.copy(folder / fault.name)
        done = place.turn(PROMPT, *story.options, **fault.injected(shim, place))
        yield from after_fault(story, place, done)

    check_all(problems, cases)


def test_once_the_disk_works_again_all_is_stored(shim: Shim, story: Story, tmp_path: Path) -> None:
    def problems(fault: Fault) -> Iterator[str]:
        place = story.copy(tmp_path / fault.name)
        last_request = place.folder / "requests" / "3"
        done = place.turn(PROMPT, "-c", **fault.injected(shim, place, until=last_request))
        yield from finished(done)
        if place.stored() != story.messages:
            yield f"stored is {place.stored()}"
        if done.stderr.decode().count(TOLD) != done.stderr.decode().count(TOLD_CURED):
            yield done.stderr.decode()

    errors = (ENOSPC, EIO, EROFS)
    check_all(
        problems,
        [Fault(c, errors[c.number % 3], onwards=True) for c in story.calls if c.number % 5 < 3],
    )


def test_what_was_written_by_halves_is_whole_after_a_crash(
    shim: Shim, story: Story, tmp_path: Path
) -> None:
    def problems(fault: Fault) -> Iterator[str]:
        place = story.copy(tmp_path / fault.name)
        place.kill_at_last_request()
        cut_off = place.turn(PROMPT, "--json", "-c", **fault.injected(shim, place))
        if cut_off.returncode != -signal.SIGKILL:
            yield f"not killed but ended with status {cut_off.returncode}"
            return
        yield from after_crash(story, place, cut_off)

    check_all(problems, [Fault(call, SHORT) for call in story.calls if call.name == "write"])


def test_a_fault_of_the_disk_in_an_undo_damages_nothing_and_another_one_finishes_it(
    shim: Shim, story: Story, tmp_path: Path
) -> None:
    undisturbed = story.happened(tmp_path / "undone")
    log = tmp_path / "undo"
    assert undisturbed.undo(**shim.recording(log, *undisturbed.watched)).returncode == 0

    def problems(fault: Fault) -> Iterator[str]:
        place = story.happened(tmp_path / fault.name)
        number, error = fault.call.number, fault.error
        env = shim.failure(error, number, *place.watched, onwards=fault.onwards)
        done = place.undo(**env)
        if done.returncode not in (0, 1):
            yield f"status {done.returncode}"
        yield from after_undo(story, place, done)

    kinds = ((EIO, False), (ENOSPC, True), (EIO, True))
    check_all(problems, (Fault(call, *kinds[call.number % len(kinds)]) for call in calls(log)))


# -- real disks -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mounting() -> tuple[str, ...]:
    """What lets a command have mounts of its own."""
    commands = [("unshare", "-m"), ("unshare", "-m", "-U", "-r")]
    for command in commands:
        line = [*command, "mount", "-t", "tmpfs", "none", "/mnt"]
        if subprocess.run(line, capture_output=True, check=False).returncode == 0:
            return command
    message = "these tests mount a small disk: run them as root, or where unshare -U -r is allowed"
    raise AssertionError(message)


def test_a_full_disk_damages_nothing(
    story: Story, tmp_path: Path, mounting: tuple[str, ...]
) -> None:
    def problems(used: int) -> Iterator[str]:
        place = story.copy(tmp_path / str(used))
        script = f"""
        cp -r ../home ../outside && mount -t tmpfs -o size=64k none ../home || exit
        cp -r ../outside/. ../home; head -c {used} /dev/zero > ../home/used 2> ../full
        "$@"
        status=$?
        rm ../home/used; cp -r ../home/. ../outside; exit $status
        """
        program = (*mounting, "sh", "-c", script, "sh", *BANTAM)
        done = place.turn(PROMPT, "-c", program=program)
        shutil.copytree(place.folder / "outside", place.home, dirs_exist_ok=True)
        if TOLD.encode() not in done.stderr:
            yield "the disk was not full"
        yield from after_fault(story, place, done)

    check_all(problems, [52_000, 56_000, 60_000, 100_000])


def test_a_read_only_home_is_read_and_left_as_it_is(
    story: Story, tmp_path: Path, mounting: tuple[str, ...]
) -> None:
    place = story.copy(tmp_path / "place")
    before = content(place.home)
    script = 'mount --bind ../home ../home && mount -o remount,bind,ro ../home && exec "$@"'
    done = place.turn(PROMPT, "-c", program=(*mounting, "sh", "-c", script, "sh", *BANTAM))
    assert len(json.loads(place.requests()[0])["messages"]) == len(story.first) + 1
    assert content(place.home) == before
    assert list(after_fault(story, place, done)) == []


def test_where_no_folder_can_be_made_the_turn_is_done_and_one_line_tells(
    tmp_path: Path, mounting: tuple[str, ...]
) -> None:
    place = Place(tmp_path)
    place.make()
    place.answers(STEPS)
    (tmp_path / "wall").mkdir()
    script = 'mount -t tmpfs -o ro none ../wall && exec "$@"'
    program = (*mounting, "sh", "-c", script, "sh", *BANTAM)
    done = place.turn(PROMPT, program=program, BANTAM_HOME="../wall/none")
    assert list(finished(done)) == []
    assert done.stderr.count(TOLD.encode()) == 1


def test_files_that_may_not_grow_are_not_damaged(story: Story, tmp_path: Path) -> None:
    place = story.copy(tmp_path / "place")
    # A server, since the script's files may not grow either.
    with LLMServer(STEPS) as server, files_of_at_most(1000):
        # Bytecode would be cut as well, and stay.
        done = replace(place, server=server).turn(PROMPT, "-c", PYTHONDONTWRITEBYTECODE="1")
    assert TOLD.encode() in done.stderr
    assert list(after_fault(story, place, done)) == []


NOBODY = ("unshare", "-U", "--map-user=54321")  # no user database has it


@pytest.mark.parametrize(
    ("home", "program"),
    [
        ({"HOME": "{}/pipe"}, ()),
        ({"HOME": "{}/loop/none"}, ()),
        ({"HOME": ""}, NOBODY),
        ({}, NOBODY),
        ({"BANTAM_HOME": "note.txt"}, ()),
        ({"BANTAM_HOME": "note.txt/sub"}, ()),
        ({"BANTAM_HOME": "../loop"}, ()),
        ({"BANTAM_HOME": "../pipe"}, ()),
        ({"BANTAM_HOME": "../sessions-is-a-file"}, ()),
    ],
)
def test_without_a_home_the_turn_is_done_and_one_line_tells(
    tmp_path: Path, home: dict[str, str], program: tuple[str, ...]
) -> None:
    place = Place(tmp_path)
    place.make()
    place.answers(STEPS)
    (tmp_path / "sessions-is-a-file").mkdir()
    (tmp_path / "sessions-is-a-file" / "sessions").write_text("mine")
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe")
    env = {name: value for name, value in place.environment().items() if "HOME" not in name}
    arguments = place.arguments(PROMPT)
    env |= {name: value.format(tmp_path) for name, value in home.items()}
    done = run(*arguments, cwd=place.project, env=env, program=(*program, *BANTAM))
    assert list(finished(done)) == []
    assert done.stderr.count(TOLD.encode()) == 1
    assert (tmp_path / "sessions-is-a-file" / "sessions").read_text() == "mine"
    assert sorted(path.name for path in place.project.iterdir()) == ["marks.txt", "note.txt"]


def content(folder: Path) -> dict[Path, bytes]:
    """Return every file below `folder`."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
