import json
import re
from dataclasses import fields
from typing import Any, get_args

import pytest

from bantam.core import errors
from bantam.core.errors import BantamError, ExitStatus, ModelError
from bantam.core.events import (
    Compacted,
    Done,
    Event,
    Failure,
    FileChange,
    Notice,
    ReasoningDelta,
    Replied,
    Request,
    Retry,
    Status,
    Stop,
    TextDelta,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    TurnStart,
    UsageReport,
    UsageSum,
    as_json,
)
from bantam.core.messages import Message, Role, ToolCall

CALL = ToolCall("c1", "shell_exec", '{"command":"ls"}', {"sig": "s"})
ANSWER = Message(Role.ASSISTANT, "text", "why", (CALL,), extra={"details": [1]})

# Event -> the line that is promised for it (SPEC section 10).
PUBLIC: list[tuple[Event, str]] = [
    (
        TurnStart("s", "m", "http://x", "native"),
        (
            '{"type": "turn_start", "session": "s", "model": "m", "endpoint": "http://x",'
            ' "dialect": "native"}'
        ),
    ),
    (Request(1, 2, 345), '{"type": "request", "step": 1, "messages": 2, "bytes": 345}'),
    (
        Retry(2, 9, 1.5, "503"),
        '{"type": "retry", "attempt": 2, "of": 9, "wait_s": 1.5, "reason": "503"}',
    ),
    (Notice("n"), '{"type": "notice", "text": "n"}'),
    (ReasoningDelta("r"), '{"type": "reasoning_delta", "text": "r"}'),
    (TextDelta("t"), '{"type": "text_delta", "text": "t"}'),
    (
        Replied(ANSWER, "tool_calls"),
        (
            '{"type": "message", "message": {"role": "assistant", "content": "text",'
            ' "reasoning_content": "why", "tool_calls": [{"id": "c1", "type": "function",'
            ' "function": {"name": "shell_exec", "arguments": "{\\"command\\":\\"ls\\"}"},'
            ' "sig": "s"}], "details": [1]}, "finish_reason": "tool_calls"}'
        ),
    ),
    (
        Replied(Message(Role.ASSISTANT, "text"), None),
        (
            '{"type": "message", "message": {"role": "assistant", "content": "text"},'
            ' "finish_reason": null}'
        ),
    ),
    (
        ToolStarted("c1", "shell_exec", {"command": "ls"}),
        '{"type": "tool_call", "id": "c1", "name": "shell_exec", "arguments": {"command": "ls"}}',
    ),
    (
        ToolStarted("c1", "shell_exec", '{"command": '),
        '{"type": "tool_call", "id": "c1", "name": "shell_exec", "arguments": "{\\"command\\": "}',
    ),
    (ToolOutput("c1", "out"), '{"type": "tool_output", "id": "c1", "text": "out"}'),
    (
        ToolFinished("c1", "ls", Status.OK, "t", 0, 0.25, (FileChange("f", 2, 1, "+"),)),
        (
            '{"type": "tool_result", "id": "c1", "name": "ls", "status": "ok", "text": "t",'
            ' "exit_code": 0, "duration_s": 0.25,'
            ' "files": [{"path": "f", "added": 2, "removed": 1, "diff": "+"}]}'
        ),
    ),
    (
        ToolFinished("c1", "ls", Status.DENIED, "no"),
        (
            '{"type": "tool_result", "id": "c1", "name": "ls", "status": "denied", "text": "no",'
            ' "exit_code": null, "duration_s": 0.0, "files": []}'
        ),
    ),
    (
        UsageReport(10, 2, None, estimated=True, context=10, window=100),
        (
            '{"type": "usage", "prompt": 10, "completion": 2, "cached": null, "estimated": true,'
            ' "context": 10, "window": 100}'
        ),
    ),
    (
        Compacted(100, 10, "s"),
        '{"type": "compaction", "tokens_before": 100, "tokens_after": 10, "summary": "s"}',
    ),
    (
        Done(Stop.FINAL, 0, None, "text", UsageSum(10, 2, 4, estimated=False, context=7, window=9)),
        (
            '{"type": "done", "stop": "final", "exit_code": 0, "session": null, "text": "text",'
            ' "usage": {"prompt": 10, "completion": 2, "cached": 4, "estimated": false,'
            ' "context": 7, "window": 9}, "error": null}'
        ),
    ),
    (
        Done(Stop.ERROR, 75, "s", "", error=Failure("Unavailable", 503, "busy")),
        (
            '{"type": "done", "stop": "error", "exit_code": 75, "session": "s", "text": "",'
            ' "usage": {"prompt": 0, "completion": 0, "cached": null, "estimated": false,'
            ' "context": 0, "window": 0},'
            ' "error": {"class": "Unavailable", "status": 503, "message": "busy"}}'
        ),
    ),
]


@pytest.mark.parametrize(
    ("event", "line"), PUBLIC, ids=[f"{n}-{event.type}" for n, (event, _) in enumerate(PUBLIC)]
)
def test_an_event_has_its_type_first_and_then_the_promised_fields(event: Event, line: str) -> None:
    assert json.dumps(as_json(event)) == line


def test_every_event_is_promised() -> None:
    assert {type(event) for event, _ in PUBLIC} == set(get_args(Event))
    types = [kind.type for kind in get_args(Event)]
    assert len(set(types)) == len(types)


@pytest.mark.parametrize(
    ("names", "values"),
    [
        (Stop, ["final", "step_limit", "budget", "interrupted", "error"]),
        (Status, ["ok", "error", "denied", "interrupted", "unknown"]),
    ],
)
def test_the_words_for_how_things_end_are_the_promised_ones(names: Any, values: list[str]) -> None:
    assert [name.value for name in names] == values


@pytest.mark.parametrize(
    ("cached", "total"),
    [([], None), ([None, None], None), ([0, None], 0), ([None, 3, 4], 7), ([5, None], 5)],
)
def test_cached_tokens_are_unknown_only_if_no_request_reported_them(
    cached: list[int | None], total: int | None
) -> None:
    usage = UsageSum()
    for count in cached:
        usage = usage.plus(UsageReport(10, 1, count, estimated=False, context=0, window=0))
    assert usage.cached == total
    assert (usage.prompt, usage.completion) == (10 * len(cached), len(cached))


def test_the_context_is_the_last_request_s_and_an_estimate_marks_the_sum() -> None:
    first = UsageReport(10, 1, None, estimated=True, context=10, window=100)
    last = UsageReport(30, 2, None, estimated=False, context=30, window=200)
    usage = UsageSum().plus(first).plus(last)
    assert usage == UsageSum(40, 3, None, estimated=True, context=30, window=200)


# -- errors -----------------------------------------------------------------------------------

TREE = re.findall(r"^([| ]*(?:\+-- )?)(\w+) +(\d+) ", errors.__doc__ or "", re.MULTILINE)


def subclasses(kind: type[BantamError]) -> set[type[BantamError]]:
    """Return `kind` and what of the errors' module is derived from it."""
    below = [k for k in kind.__subclasses__() if k.__module__ == errors.__name__]
    return {kind}.union(*map(subclasses, below))


@pytest.mark.parametrize(("indent", "name", "status"), TREE, ids=[name for _, name, _ in TREE])
def test_the_tree_in_the_docstring_tells_each_exit_status(
    indent: str, name: str, status: str
) -> None:
    kind = getattr(errors, name)
    assert kind.exit_status == int(status)
    assert len(kind.__mro__) - len(BantamError.__mro__) == len(indent) // 4


def test_the_tree_in_the_docstring_is_whole() -> None:
    assert {name for _, name, _ in TREE} == {kind.__name__ for kind in subclasses(BantamError)}


def test_the_exit_statuses_are_the_promised_ones() -> None:
    assert sorted(map(int, ExitStatus)) == [0, 1, 2, 3, 4, 75, 77, 130, 143]


def test_an_error_is_its_message() -> None:
    error = ModelError("busy", 503)
    assert (str(error), error.status) == ("busy", 503)
    assert ModelError("busy").status is None


def test_no_event_can_be_changed_by_one_who_sees_it() -> None:
    for event, _ in PUBLIC:
        with pytest.raises((AttributeError, TypeError)):
            setattr(event, fields(event)[0].name, None)
