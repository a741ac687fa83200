"""A stream that is cut at any byte never becomes a message unless it was whole before."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, Final

import pytest
from exchanges import attempt, collected, http
from llmserver import DONE, USAGE, LLMServer, Reply, delta, event, raw, shell, text

from bantam.agent.agent import Agent, Surroundings
from bantam.agent.memory import ListLog
from bantam.core.config import resolve
from bantam.core.events import Done, Event, Replied, Retry, Stop, ToolStarted
from bantam.core.messages import Role
from bantam.model.failures import AttemptFailed

ARGUMENTS: Final = '{"command": "echo größer >> ran.txt"}'


def chunk(finish: str | None = None, **members: Any) -> bytes:
    return event({"choices": [{"delta": members, "finish_reason": finish}]})


def call(**members: Any) -> bytes:
    return chunk(tool_calls=[{"index": 0, **members}])


BEFORE: Final = b"".join(
    [
        chunk(role="assistant", content=""),
        chunk(reasoning_content="A file is wanted, "),
        chunk(reasoning_content="so a command writes it."),
        chunk(content="I write “größer” "),
        chunk(content="to a file."),
        call(id="call_7", type="function", function={"name": "shell_exec", "arguments": ""}),
        *(call(function={"arguments": ARGUMENTS[at : at + 13]}) for at in range(0, 37, 13)),
    ]
)
FINISH: Final = chunk("tool_calls")
BODY: Final = BEFORE + FINISH + event({"choices": [], "usage": USAGE}) + DONE
# Here the event that says that the answer is whole has come, and here its blank line too.
LAST_BRACE: Final = len(BEFORE) + len(FINISH.rstrip())
WHOLE: Final = len(BEFORE) + len(FINISH)


def places(end: int) -> list[int]:
    """Return every fourth byte below `end`, and all where two kinds of bytes meet.

    That is around each end of a line, within the characters of more than one byte, and at the end.
    """
    near = {at + by for at in range(len(BODY)) if BODY[at] == 10 for by in range(-3, 4)}
    within = {at + by for at in range(len(BODY)) if BODY[at] >= 0x80 for by in (0, 1)}
    last = {*range(LAST_BRACE - 20, len(BODY) + 1)}
    return sorted(at for at in {*range(0, end, 4), *near, *within, *last} if 0 <= at < end)


def accepted(server: LLMServer, cuts: list[int]) -> Iterator[tuple[int, bool]]:
    """Yield, for each place of a cut, whether a message came out; hold that it is all of it."""
    transport = http(server.url)
    for cut in cuts:
        try:
            _, answer = collected(attempt(transport))
        except AttemptFailed:
            yield cut, False
            continue
        message = answer.message
        assert message.content == "I write “größer” to a file.", cut
        assert message.reasoning == "A file is wanted, so a command writes it.", cut
        assert [c.arguments for c in message.tool_calls] == [ARGUMENTS], cut
        yield cut, True
    transport.close()


def test_the_answer_is_of_a_real_size() -> None:
    assert 1000 < len(BODY) < 2000


def test_an_end_at_any_byte_is_an_answer_exactly_if_the_answer_was_whole() -> None:
    # Without a length the FIN is a proper end: here nothing but the stream itself tells.
    whole, cuts = raw(BODY, framing="close"), places(len(BODY) + 1)
    with LLMServer(lambda _, number: replace(whole, cut_after=cuts[number])) as server:
        found = dict(accepted(server, cuts))
    assert found == {cut: cut >= LAST_BRACE for cut in found}


@pytest.mark.parametrize("framing", ["chunked", "length"])
def test_a_broken_connection_at_any_byte_is_an_answer_exactly_if_the_answer_was_whole(
    framing: Any,
) -> None:
    whole, cuts = raw(BODY, framing=framing), places(len(BODY))
    with LLMServer(lambda _, number: replace(whole, cut_after=cuts[number])) as server:
        found = dict(accepted(server, cuts))
    assert found == {cut: cut >= WHOLE for cut in found}


def test_a_reset_at_any_byte_is_never_an_answer_before_the_answer_was_whole() -> None:
    whole, cuts = raw(BODY), places(len(BODY) + 1)
    with LLMServer(lambda _, number: replace(whole, reset_after=cuts[number])) as server:
        found = dict(accepted(server, cuts))
    # A reset may overtake what was sent before it: behind the end both are right.
    assert not any(came for cut, came in found.items() if cut < WHOLE)


def turn(server: LLMServer, folder: Path) -> tuple[list[Event], ListLog]:
    log = ListLog()
    config = resolve((), [f"endpoint={server.url}", "model=m"], {})
    surroundings = Surroundings(folder, {"PATH": "/usr/bin:/bin"}, date(2026, 1, 2))
    agent = Agent(config, surroundings, log=log)
    try:
        return list(agent.turn("Go.")), log
    finally:
        agent.close()


def test_a_cut_call_is_not_run_and_not_stored_and_the_repeat_runs_it_once(tmp_path: Path) -> None:
    call = shell("echo ran >> ran.txt", content="Now.", reasoning="Hm.")
    behind_arguments = call.body.index(b'"finish_reason": "tool_calls"')
    replies: list[Reply] = [
        replace(call, cut_after=behind_arguments),
        call,
        replace(text("All done."), reset_after=len(delta(content="All")) * 2),
        text("All done."),
    ]
    with LLMServer(replies) as server:
        events, log = turn(server, tmp_path)
    assert (tmp_path / "ran.txt").read_text() == "ran\n"
    assert sum(isinstance(e, Retry) for e in events) == 2
    assert sum(isinstance(e, ToolStarted) for e in events) == 1
    assert sum(isinstance(e, Replied) for e in events) == 2
    roles = [Role.SYSTEM, Role.USER, Role.ASSISTANT, Role.TOOL, Role.ASSISTANT]
    assert [m.role for m in log.messages] == roles
    assert [m.content for m in log.messages if m.role is Role.ASSISTANT] == ["Now.", "All done."]
    match events[-1]:
        case Done(Stop.FINAL, 0, _, answer):
            assert answer == "All done."
        case other:
            raise AssertionError(other)


def test_a_cut_behind_the_end_is_not_repeated(tmp_path: Path) -> None:
    call = shell("echo ran >> ran.txt")
    end = call.body.index(b'"finish_reason": "tool_calls"')
    behind = call.body.index(b"\n\n", end) + 2
    with LLMServer([replace(call, cut_after=behind), text("Done.")]) as server:
        events, _ = turn(server, tmp_path)
    assert not any(isinstance(e, Retry) for e in events)
    assert (tmp_path / "ran.txt").read_text() == "ran\n"
