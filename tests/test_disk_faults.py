"""A disk that fails, is full or read-only damages nothing, and the chat goes on (SPEC section 11)."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from errno import EDQUOT, EIO, ENOSPC, EROFS, errorcode
from pathlib import Path

import pytest
from crashing import ANSWER, PROMPT, Done, Place, Story, at_once, clean, continued, resume
from faults import Call, Shim, make_shim

from bantam.core.errors import BantamError
from bantam.sessions.store import Store

TOLD = "the session could not be stored"
TOLD_CURED = "the session is stored again"


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Shim:
    return make_shim(tmp_path_factory.mktemp("shim"))


@pytest.fixture(scope="module")
def story(shim: Shim, tmp_path_factory: pytest.TempPathFactory) -> Story:
    return Story.told(tmp_path_factory.mktemp("story"), shim, "-c", finished_turn=True)


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault at one call, or at all from it on; `error` 0: half of it is written."""

    call: Call
    error: int
    onwards: bool = False

    def __str__(self) -> str:
        what = errorcode.get(self.error, "short") + (" from" if self.onwards else " at")
        return f"{what} {self.call.number} ({self.call.name} {self.call.path})"

    @property
    def name(self) -> str:
        return f"{self.error}-{self.onwards}-{self.call.number}"

    def injected(self, shim: Shim, place: Place, until: Path | None = None) -> dict[str, str]:
        if not self.error:
            return shim.short(self.call.number, place.home)
        return shim.failure(
            self.error, self.call.number, place.home, onwards=self.onwards, until=until
        )


def faults(story: Story) -> Iterator[Fault]:
    """Yield each call with each kind of fault, errors that act alike on every second call."""
    for call in story.calls:
        yield Fault(call, EIO)
        yield Fault(call, ENOSPC, onwards=True)
        yield Fault(call, EDQUOT if call.number % 2 else EROFS, onwards=call.number % 4 < 2)
        if call.number % 3 == 0:
            yield Fault(call, EIO, onwards=True)
        if call.name == "write":
            yield Fault(call, 0)


def after_fault(story: Story, place: Place, done: Done) -> Iterator[str]:
    """Yield what is wrong with a turn on a disk that failed, and with the next one."""
    told, told_cured = (done.stderr.decode().count(text) for text in (TOLD, TOLD_CURED))
    yield from finished(done)
    yield from unreadable(place)
    _, resumed = resume(place)
    yield from clean(place, resumed)
    count, results = continued(story, place.stored())
    is_whole = count == len(story.messages)
    if count < len(story.first):
        yield "what was stored before is lost"
    if results and (len(results) > 1 or results[0]["role"] != "tool"):
        yield f"made up: {results}"
    if (told, told_cured) not in ([(0, 0), (1, 1)] if is_whole else [(1, 0)]):
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
    def problems(fault: Fault) -> Iterator[str]:
        place = story.copy(tmp_path / fault.name)
        done = place.turn(PROMPT, "-c", **fault.injected(shim, place))
        yield from after_fault(story, place, done)

    assert at_once(problems, faults(story)) == []
