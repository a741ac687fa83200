"""SIGKILL at any instant loses no stored message and runs nothing twice (SPEC section 11)."""

import random
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from crashing import DAMAGED, after_crash, after_lost_snapshot, after_recovery, after_undo
from faults import Call, Shim, When, calls, make_shim
from llmserver import LLMServer, Reply
from program import start
from stories import GO_ON, PROMPT, RESUMED, STEPS, Done, Place, Story, check_all, copied

Instant = tuple[When, int, str]


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Shim:
    return make_shim(tmp_path_factory.mktemp("shim"))


def instants(calls: list[Call]) -> Iterator[Instant]:
    """Yield where a kill can make a difference.

    The disk is after a call as it is before the next one. What was done besides, a request or
    a command, stands between the two only behind a sync, which itself changes nothing that the
    next process sees.
    """
    for call in calls:
        what = f"{call.name} {call.path}"
        if call.name != "fsync":
            yield "before", call.number, what
        if call.name == "fsync" or call is calls[-1]:
            yield "after", call.number, what
        if call.name == "write":
            yield "torn", call.number, what


def check_kills(story: Story, shim: Shim, folder: Path, where: Iterator[Instant]) -> None:
    """Let the story be killed at each instant and go on. Raises AssertionError."""

    def problems(instant: Instant) -> Iterator[str]:
        when, number, _ = instant
        place = story.copy(folder / f"{when}-{number}")
        crash = shim.crash(when, number, *place.watched)
        cut_off = place.turn(PROMPT, "--json", *story.options, **crash)
        if cut_off.returncode != -signal.SIGKILL:
            yield f"not killed but ended with status {cut_off.returncode}"
            return
        yield from after_crash(story, place, cut_off)

    check_all(problems, where)


def test_a_kill_at_any_change_of_a_file_loses_nothing_and_repeats_nothing(
    shim: Shim, tmp_path: Path
) -> None:
    story = Story.told(tmp_path, shim, "-c", finished_turn=True)
    check_kills(story, shim, tmp_path, instants(story.calls))


@pytest.mark.parametrize(
    "finished_turn", [False, True], ids=["the project's first", "in the place of another"]
)
def test_nor_does_a_kill_while_a_new_session_begins(
    shim: Shim, tmp_path: Path, finished_turn: bool
) -> None:
    story = Story.told(tmp_path, shim, finished_turn=finished_turn)
    # What comes later is the same in every session.
    check_kills(story, shim, tmp_path, instants(story.beginning()))


def test_nor_does_a_kill_at_any_other_moment(shim: Shim, tmp_path: Path) -> None:
    story = Story.told(tmp_path, shim, finished_turn=False)
    moments = random.Random(20)  # the same ones in every run
    length = length_of(story, tmp_path / "whole")
    # Several at a time are slower than one.
    delays = [moments.uniform(0, 3 * length) for _ in range(20)]

    def problems(number: int) -> Iterator[str]:
        with LLMServer(reply) as server:
            place = replace(story.copy(tmp_path / str(number)), server=server)
            yield from after_crash(story, place, killed(place, delays[number]))

    check_all(problems, range(len(delays)))


@pytest.mark.parametrize("is_damaged", [False, True], ids=["whole", "with a damaged snapshot"])
def test_nor_does_a_kill_of_the_run_that_recovers_from_one(
    shim: Shim, tmp_path: Path, is_damaged: bool
) -> None:
    story = Story.told(tmp_path, shim, "-c", finished_turn=True)
    template = story.copy(tmp_path / "cut off")
    crash = shim.crash("before", result_of_first_step(story).number, *template.watched)
    assert template.turn(PROMPT, "-c", **crash).returncode == -signal.SIGKILL
    assert template.marks() == 1
    template.answers([RESUMED] * 3)
    if is_damaged:
        template.snapshot.write_text(DAMAGED)
    undisturbed = copied(template.folder, tmp_path / "recovered")
    log = tmp_path / "recovery"
    done = undisturbed.turn(GO_ON, "-c", **shim.recording(log, *undisturbed.watched))
    assert done.returncode == 0
    recovery = calls(log)
    after = after_recovery
    if is_damaged:
        # What follows the first snapshot is the same as without damage.
        after = after_lost_snapshot
        snapshot = next(c.number for c in recovery if (c.name, c.path[-5:]) == ("rename", ".json"))
        recovery = [c for c in recovery if c.number <= snapshot + 3]

    def problems(instant: Instant) -> Iterator[str]:
        when, number, _ = instant
        place = copied(template.folder, tmp_path / f"{when}-{number}")
        crash = shim.crash(when, number, *place.watched)
        cut_off = place.turn(GO_ON, "--json", "-c", **crash)
        if cut_off.returncode != -signal.SIGKILL:
            yield f"not killed but ended with status {cut_off.returncode}"
            return
        yield from after(story, place, cut_off)

    check_all(problems, instants(recovery))


def result_of_first_step(story: Story) -> Call:
    """Return the call that writes the result of the first step to the journal."""
    begun = next(number for number, call in enumerate(story.calls) if call.path.endswith(".undo"))
    later = story.calls[begun:]
    return next(c for c in later if (c.name, c.path[-8:]) == ("write", ".journal"))


def test_nor_does_a_kill_of_an_undo(shim: Shim, tmp_path: Path) -> None:
    story = Story.told(tmp_path, shim, "-c", finished_turn=True)
    undisturbed = story.happened(tmp_path / "undone")
    log = tmp_path / "undo"
    done = undisturbed.undo(**shim.recording(log, *undisturbed.watched))
    assert (done.returncode, undisturbed.has_new_note()) == (0, False)

    def problems(instant: Instant) -> Iterator[str]:
        when, number, _ = instant
        place = story.happened(tmp_path / f"{when}-{number}")
        killed = place.undo(**shim.crash(when, number, *place.watched))
        if killed.returncode != -signal.SIGKILL:
            yield f"not killed but ended with status {killed.returncode}"
        yield from after_undo(story, place, killed)

    check_all(problems, instants(calls(log)))


def reply(asked: dict[str, Any], ordinal: int) -> Reply:
    resumes = asked["messages"][-1]["content"].endswith(GO_ON)
    return RESUMED if resumes else STEPS[ordinal]


def length_of(story: Story, folder: Path) -> float:
    """Return the seconds from the first request of the story to the last."""
    with LLMServer(reply) as server:
        place = replace(story.copy(folder), server=server)
        assert place.turn(PROMPT).returncode == 0
        return server.chat[-1].at - server.chat[0].at


def killed(place: Place, seconds: float) -> Done:
    """Run the turn, killed so long after its first request, unless it has ended."""
    assert place.server is not None
    arguments, env = place.arguments(PROMPT, "--json"), place.environment()
    with start(*arguments, cwd=place.project, env=env) as process:
        place.server.wait_for(1)
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
    return Done(process.args, process.returncode, out, err)
