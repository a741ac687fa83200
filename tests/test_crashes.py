"""SIGKILL at any instant loses no stored message and runs nothing twice (SPEC section 11)."""

import random
import signal
import subprocess
import time
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from crashing import GO_ON, PROMPT, RESUMED, STEPS, Story, after_crash, at_once
from faults import Call, Shim, When, make_shim
from llmserver import LLMServer, Reply
from program import at, start

Instant = tuple[When, int, str]


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Shim:
    return make_shim(tmp_path_factory.mktemp("shim"))


def instants(calls: list[Call]) -> Iterator[Instant]:
    for call in calls:
        what = f"{call.name} {call.path}"
        yield "before", call.number, what
        yield "after", call.number, what
        if call.name == "write":
            yield "torn", call.number, what


def beginning(story: Story) -> list[Call]:
    """Return the calls until the first step runs."""
    return list(takewhile(lambda call: not call.path.endswith(".undo"), story.calls))


def problems_of_kills(
    story: Story, shim: Shim, folder: Path, where: Iterator[Instant]
) -> list[str]:
    """Let the story be killed at each instant and go on; return what is wrong then."""

    def problems(instant: Instant) -> Iterator[str]:
        when, number, _ = instant
        place = story.copy(folder / f"{when}-{number}")
        crash = shim.crash(when, number, *place.watched)
        cut_off = place.turn(PROMPT, "--json", *story.options, env=crash)
        if cut_off.returncode != -signal.SIGKILL:
            yield f"not killed but ended with status {cut_off.returncode}"
            return
        yield from after_crash(story, place, cut_off)

    return at_once(problems, where)


def test_a_kill_at_any_change_of_a_file_loses_nothing_and_repeats_nothing(
    shim: Shim, tmp_path: Path
) -> None:
    story = Story.told(tmp_path, shim, "-c", finished_turn=True)
    assert problems_of_kills(story, shim, tmp_path, instants(story.calls)) == []


@pytest.mark.parametrize(
    "finished_turn", [False, True], ids=["the project's first", "in the place of another"]
)
def test_nor_does_a_kill_while_a_new_session_begins(
    shim: Shim, tmp_path: Path, finished_turn: bool
) -> None:
    story = Story.told(tmp_path, shim, finished_turn=finished_turn)
    # What comes later is the same in every session.
    assert problems_of_kills(story, shim, tmp_path, instants(beginning(story))) == []


def test_nor_does_a_kill_at_any_other_moment(shim: Shim, tmp_path: Path) -> None:
    story = Story.told(tmp_path, shim, "-c", finished_turn=True)
    began = time.monotonic()
    killed_after(60, story, tmp_path / "whole")
    length = time.monotonic() - began
    moments = random.Random(20)  # the same ones in every run

    def problems(number: int) -> list[str]:
        return killed_after(delays[number], story, tmp_path / str(number))

    delays = [moments.uniform(0.05, length) for _ in range(20)]
    assert at_once(problems, range(20)) == []


def killed_after(seconds: float, story: Story, folder: Path) -> list[str]:
    """Let the story be killed after so long, unless it ends before, and go on."""
    place = story.copy(folder)

    def reply(asked: dict[str, Any], ordinal: int) -> Reply:
        return RESUMED if asked["messages"][-1]["content"].endswith(GO_ON) else STEPS[ordinal]

    with LLMServer(reply) as server:
        options = (*at(server.url), "--json", *story.options)
        env = place.environment()
        with start(*options, "-p", PROMPT, cwd=place.project, env=env) as process:
            try:
                out, err = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                out, err = process.communicate()
    cut_off = subprocess.CompletedProcess(process.args, process.returncode, out, err)
    received = [request.body for request in server.chat]
    return list(after_crash(story, place, cut_off, received))
