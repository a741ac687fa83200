"""A turn that is killed at any instant loses no stored message and runs nothing twice."""

import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from crashing import GO_ON, PROMPT, STEPS, Place, Story, after_crash, at_once
from faults import Shim, When, make_shim
from llmreplies import Reply, text
from llmserver import LLMServer
from program import at, start


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Shim:
    return make_shim(tmp_path_factory.mktemp("shim"))


def instants(story: Story) -> Iterator[tuple[When, int, str]]:
    """Yield every instant at which a kill can make a difference on the disk."""
    for call in story.calls:
        what = f"{call.name} {call.path}"
        yield "before", call.number, what
        if call.size > 1 and call.name == "write":
            yield "torn", call.number, what
    yield "after", len(story.calls), "the last"


@pytest.mark.parametrize(
    ("options", "finished_turn"),
    [(("-c",), True), ((), False), ((), True)],
    ids=["it goes on from a turn", "the first of a project", "in the place of another session"],
)
def test_a_kill_at_any_change_of_a_file_loses_nothing_and_repeats_nothing(
    shim: Shim, tmp_path: Path, options: tuple[str, ...], finished_turn: bool
) -> None:
    story = Story.told(tmp_path, shim, *options, finished_turn=finished_turn)

    def problems(instant: tuple[When, int, str]) -> Iterator[str]:
        when, number, _ = instant
        place = story.copy(tmp_path / f"{when}-{number}")
        crash = shim.crash(when, number, *place.watched)
        cut_off = place.turn(PROMPT, "--json", *options, env=crash)
        if cut_off.returncode != -signal.SIGKILL:
            yield f"not killed but ended with status {cut_off.returncode}"
            return
        yield from after_crash(story, place, cut_off)

    assert at_once(problems, instants(story)) == []
