import os
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import pytest
from fakes import RecordingLog, ScriptedModel
from processes import eventually, running, unique_seconds, zombie_children

from bantam.agent.loop import Approve, run_turn
from bantam.core.cancel import Cancel
from bantam.core.errors import BudgetSpent, Interrupted, ModelError, ToolError, Unavailable
from bantam.core.events import (
    Event,
    FileChange,
    Notice,
    ReasoningDelta,
    Replied,
    Status,
    Stop,
    TextDelta,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    Turn,
)
from bantam.core.messages import INTERRUPTED_RESULT, Answer, Message, Role, ToolCall, unanswered
from bantam.core.repair import repaired
from bantam.tools.executors.local import LocalExecutor
from bantam.tools.shell import shell_tool
from bantam.tools.tool import Result, Tool, Toolbox

PROMPT = Message(Role.USER, "go")
FINAL = Message(Role.ASSISTANT, "done", "because")


def calling(*calls: ToolCall) -> Message:
    return Message(Role.ASSISTANT, "Running.", tool_calls=calls)


def note(call_id: str, text: str) -> ToolCall:
    return ToolCall(call_id, "note", f'{{"text": "{text}"}}')


def note_box(log: RecordingLog) -> Toolbox:
    """Return a toolbox whose one tool notes its effect in the log's entries.

    Its text may be the name of a way to fail.
    """

    def run(arguments: Mapping[str, Any], cancel: Cancel) -> Generator[str, None, Result]:
        text = arguments["text"]
        log.entries.append(f"effect {text}")
        yield f"{text}..."
        match text:
            case "cancel":
                cancel.set()
                cancel.check()
            case "bug":
                raise LookupError("a bug")
            case "fail":
                raise ToolError("cannot")
            case "late cancel":
                cancel.set()
        return Result(f"{text} is done", exit_code=7, files=(FileChange("f", 1, 0),))

    return Toolbox([Tool("note", "Notes.", {"text": {"type": "string"}}, run)])


def allow(_: ToolCall) -> str | None:
    return None


def turn_of(
    log: RecordingLog,
    model: ScriptedModel,
    approve: Approve = allow,
    cancel: Cancel | None = None,
    max_steps: int = 9,
) -> Turn:
    return run_turn(log, model, note_box(log), approve, cancel or Cancel(), max_steps)


def drained(turn: Turn) -> tuple[list[Event], Stop]:
    events: list[Event] = []
    return events, keep(turn, events)


def keep(turn: Turn, events: list[Event]) -> Stop:
    """Append what the turn yields to `events`, up to an error too; return what it returns."""
    while True:
        try:
            events.append(next(turn))
        except StopIteration as end:
            stop: Stop = end.value
            return stop


def results(events: list[Event]) -> list[tuple[str, Status, str]]:
    return [(e.id, e.status, e.text) for e in events if isinstance(e, ToolFinished)]


def answered_once(messages: list[Message]) -> bool:
    """Whether behind each answer stand the results of its calls, each once, in order."""
    waiting: list[str] = []
    for message in messages:
        if message.role is Role.TOOL:
            if not waiting or waiting.pop(0) != message.tool_call_id:
                return False
        elif waiting:
            return False
        else:
            waiting = [call.id for call in message.tool_calls]
    return not waiting


# -- the way of a turn ------------------------------------------------------------------------


def test_an_answer_without_calls_is_stored_and_ends_the_turn() -> None:
    log = RecordingLog(PROMPT)
    events, stop = drained(turn_of(log, ScriptedModel(Answer(FINAL, "stop"))))
    assert stop is Stop.FINAL
    assert events == [ReasoningDelta("because"), TextDelta("done"), Replied(FINAL, "stop")]
    assert log.messages == [PROMPT, FINAL]


def test_calls_run_in_order_each_start_logged_before_its_effect_and_result_before_the_next() -> (
    None
):
    log = RecordingLog(PROMPT)
    asking = calling(note("a", "one"), note("b", "two"))
    model = ScriptedModel(asking, calling(note("c", "three")), FINAL)
    events, stop = drained(turn_of(log, model))
    assert stop is Stop.FINAL
    assert log.entries == [
        *("assistant", "started a", "effect one", "result a", "started b", "effect two"),
        *("result b", "assistant", "started c", "effect three", "result c", "assistant"),
    ]
    assert results(events) == [
        ("a", Status.OK, "one is done"),
        ("b", Status.OK, "two is done"),
        ("c", Status.OK, "three is done"),
    ]
    assert [len(asked) for asked in model.asked] == [1, 4, 6]
    assert answered_once(log.messages)


def test_the_events_of_a_call_stand_in_their_order_and_carry_its_facts() -> None:
    log = RecordingLog(PROMPT)
    asking = calling(note("a", "one"))
    events, _ = drained(turn_of(log, ScriptedModel(asking, FINAL)))
    assert events[:4] == [
        TextDelta("Running."),
        Replied(asking, "stop"),
        ToolStarted("a", "note", {"text": "one"}),
        ToolOutput("a", "one..."),
    ]
    finished = events[4]
    assert isinstance(finished, ToolFinished)
    assert (finished.exit_code, finished.files) == (7, (FileChange("f", 1, 0),))
    assert finished.duration_s >= 0


def test_what_is_shown_is_in_the_log_already() -> None:
    log = RecordingLog(PROMPT)
    for event in turn_of(log, ScriptedModel(calling(note("a", "one")), FINAL)):
        match event:
            case Replied():
                assert log.messages[-1] == event.message
            case ToolOutput():
                assert log.entries[-2:] == [f"started {event.id}", "effect one"]
            case ToolFinished():
                assert log.messages[-1] == Message(Role.TOOL, event.text, tool_call_id=event.id)


def test_no_escape_or_control_is_in_an_event_of_output() -> None:
    log = RecordingLog(PROMPT)
    asking = calling(note("a", r"\u001b[2Jone\u0007"))
    events, _ = drained(turn_of(log, ScriptedModel(asking, FINAL)))
    assert [event.text for event in events if isinstance(event, ToolOutput)] == ["[2Jone..."]
    tool = shell_tool(
        LocalExecutor(Path(), {"PATH": os.environ["PATH"]}), timeout_s=60, output_limit=1000
    )
    command = r"printf '\\033[31mred\\033'; sleep 0.1; printf '[0m\\r\\a\\n'"
    asking = calling(ToolCall("a", "shell_exec", f'{{"command": "{command}"}}'))
    turn = run_turn(log, ScriptedModel(asking, FINAL), Toolbox([tool]), allow, Cancel(), 9)
    events, _ = drained(turn)
    assert [event.text for event in events if isinstance(event, ToolOutput)] == ["red", "\n"]


def test_the_time_that_a_question_takes_is_not_the_tool_s() -> None:
    log = RecordingLog(PROMPT)

    def thinking(_: ToolCall) -> str | None:
        Cancel().sleep(0.3)
        return None

    events, _ = drained(turn_of(log, ScriptedModel(calling(note("a", "one")), FINAL), thinking))
    finished = next(e for e in events if isinstance(e, ToolFinished))
    assert finished.duration_s < 0.3


# -- what does not run ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "shown", "status", "says"),
    [
        (ToolCall("a", "nosuch", "{}"), {}, Status.UNKNOWN, "there is no tool 'nosuch'"),
        (ToolCall("a", "nosuch", '{"x'), '{"x', Status.UNKNOWN, "there is no tool 'nosuch'"),
        (ToolCall("a", "note", '{"text": "o'), '{"text": "o', Status.ERROR, "Unterminated string"),
        (ToolCall("a", "note", "[1]"), "[1]", Status.ERROR, "it is a list"),
        (ToolCall("a", "note", ""), {}, Status.ERROR, "'text' is missing"),
        (ToolCall("a", "note", '{"text": 5}'), {"text": 5}, Status.ERROR, "text=5 is no string"),
        (ToolCall("a", "note", '{"y": 5}'), {"y": 5}, Status.ERROR, "unknown parameter 'y'"),
    ],
    ids=range(7),
)
def test_a_call_that_is_wrong_runs_nothing_and_its_result_shows_the_right_form(
    call: ToolCall, shown: Any, status: Status, says: str
) -> None:
    log = RecordingLog(PROMPT)
    asking = calling(call, note("b", "two"))
    events, stop = drained(turn_of(log, ScriptedModel(asking, FINAL)))
    assert stop is Stop.FINAL
    assert ToolStarted("a", call.name, shown) in events
    call_id, found, text = results(events)[0]
    assert (call_id, found) == ("a", status)
    assert says in text
    assert 'note({"text": <string>})' in text
    assert "; nothing was run. " in text
    # What was shown is what is stored, and what is sent.
    assert repaired(log.messages)[2].content == log.messages[2].content == text
    assert log.entries[:3] == ["assistant", "result a", "started b"]


def test_a_denied_call_runs_nothing_and_the_model_is_told_why() -> None:
    log = RecordingLog(PROMPT)
    asked: list[ToolCall] = []

    def refuse_first(call: ToolCall) -> str | None:
        asked.append(call)
        return "the user said no: not today" if call.id == "a" else None

    asking = calling(note("a", "one"), note("b", "two"))
    events, stop = drained(turn_of(log, ScriptedModel(asking, FINAL), refuse_first))
    assert stop is Stop.FINAL
    assert asked == list(asking.tool_calls)
    assert results(events) == [
        ("a", Status.DENIED, "the user said no: not today"),
        ("b", Status.OK, "two is done"),
    ]
    assert log.entries[:4] == ["assistant", "result a", "started b", "effect two"]


def test_what_is_approved_is_what_runs() -> None:
    log = RecordingLog(PROMPT)
    asked: list[str] = []

    def approve(call: ToolCall) -> str | None:
        asked.append(call.arguments)
        return None

    hidden = note("a", r"o\u200bn\u202ee")
    drained(turn_of(log, ScriptedModel(calling(hidden), FINAL), approve))
    assert asked == ['{"text": "one"}']
    assert log.entries[:3] == ["assistant", "started a", "effect one"]
    assert log.messages[1].tool_calls == (hidden,)


def test_a_tool_that_fails_is_a_result_and_the_turn_goes_on() -> None:
    log = RecordingLog(PROMPT)
    events, stop = drained(turn_of(log, ScriptedModel(calling(note("a", "fail")), FINAL)))
    assert stop is Stop.FINAL
    assert results(events) == [("a", Status.ERROR, "cannot")]


# -- how a turn ends --------------------------------------------------------------------------


def test_at_the_step_limit_the_turn_ends_with_every_call_run_and_says_why() -> None:
    log = RecordingLog(PROMPT)
    model = ScriptedModel(*(calling(note(f"c{n}", f"{n}")) for n in range(9)))
    events, stop = drained(turn_of(log, model, max_steps=3))
    assert stop is Stop.STEP_LIMIT
    assert len(model.asked) == 3
    assert events[-1] == Notice("stopped after 3 model calls (max_al_iterations)")
    assert log.entries[-1] == "result c2"
    assert answered_once(log.messages)


def test_a_final_answer_in_the_last_step_is_final() -> None:
    _, stop = drained(turn_of(RecordingLog(PROMPT), ScriptedModel(FINAL), max_steps=1))
    assert stop is Stop.FINAL


def test_a_spent_budget_ends_the_turn_between_two_steps() -> None:
    log = RecordingLog(PROMPT)
    model = ScriptedModel(calling(note("a", "one")), BudgetSpent("budget_tokens=5 is used up"))
    events, stop = drained(turn_of(log, model))
    assert stop is Stop.BUDGET
    assert events[-1] == Notice("budget_tokens=5 is used up")
    assert answered_once(log.messages)


def test_an_error_of_the_model_is_raised_and_nothing_is_stored_for_it() -> None:
    log = RecordingLog(PROMPT)
    model = ScriptedModel(calling(note("a", "one")), Unavailable("busy", 503))
    with pytest.raises(Unavailable):
        drained(turn_of(log, model))
    assert log.entries[-1] == "result a"
    assert answered_once(log.messages)


def test_a_missed_cache_ends_the_turn_after_the_paid_answer_was_stored() -> None:
    log = RecordingLog(PROMPT)
    asking = calling(note("a", "one"), note("b", "two"))
    turn = turn_of(log, ScriptedModel(Answer(asking, "tool_calls", "cache miss: ...")))
    with pytest.raises(ModelError, match=r"^cache miss"):
        drained(turn)
    assert log.entries == ["assistant", "result a", "result b"]
    assert answered_once(log.messages)
    assert [message.content for message in log.messages[2:]] == ["not run: cache miss: ..."] * 2


def test_the_end_of_a_missed_cache_is_told_call_by_call() -> None:
    log = RecordingLog(PROMPT)
    turn = turn_of(log, ScriptedModel(Answer(calling(note("a", "one")), None, "cache miss")))
    events: list[Event] = []
    with pytest.raises(ModelError):
        keep(turn, events)
    assert results(events) == [("a", Status.INTERRUPTED, "not run: cache miss")]


def test_a_bug_in_a_tool_passes_through_and_every_call_is_answered() -> None:
    log = RecordingLog(PROMPT)
    asking = calling(note("a", "one"), note("b", "bug"), note("c", "three"))
    with pytest.raises(LookupError, match="a bug"):
        drained(turn_of(log, ScriptedModel(asking)))
    assert log.entries[-3:] == ["effect bug", "result b", "result c"]
    assert answered_once(log.messages)


# -- cancelled --------------------------------------------------------------------------------


def test_a_turn_that_is_cancelled_before_it_begins_asks_nobody() -> None:
    log, cancel, model = RecordingLog(PROMPT), Cancel(), ScriptedModel()
    cancel.set()
    assert drained(turn_of(log, model, cancel=cancel)) == ([], Stop.INTERRUPTED)
    assert model.asked == []
    assert log.messages == [PROMPT]


def test_a_cancel_while_the_model_answers_stores_nothing_of_the_answer() -> None:
    log = RecordingLog(PROMPT)
    model = ScriptedModel(calling(note("a", "one")), Interrupted("interrupted by the user"))
    _, stop = drained(turn_of(log, model))
    assert stop is Stop.INTERRUPTED
    assert [message.content for message in log.messages] == ["go", "Running.", "one is done"]


def test_a_cancel_in_a_tool_keeps_finished_results_and_answers_the_other_calls() -> None:
    log = RecordingLog(PROMPT)
    asking = calling(note("a", "one"), note("b", "cancel"), note("c", "three"))
    events, stop = drained(turn_of(log, ScriptedModel(asking)))
    assert stop is Stop.INTERRUPTED
    assert results(events) == [
        ("a", Status.OK, "one is done"),
        ("b", Status.INTERRUPTED, INTERRUPTED_RESULT),
        ("c", Status.INTERRUPTED, INTERRUPTED_RESULT),
    ]
    assert "effect three" not in log.entries
    assert answered_once(log.messages)


def test_a_cancel_that_comes_as_a_tool_ends_keeps_its_result_and_starts_no_other() -> None:
    log = RecordingLog(PROMPT)
    asking = calling(note("a", "late cancel"), note("b", "two"))
    events, stop = drained(turn_of(log, ScriptedModel(asking)))
    assert stop is Stop.INTERRUPTED
    assert results(events) == [
        ("a", Status.OK, "late cancel is done"),
        ("b", Status.INTERRUPTED, INTERRUPTED_RESULT),
    ]
    assert log.entries[-2:] == ["result a", "result b"]


def test_a_cancel_after_the_last_call_asks_the_model_no_more() -> None:
    log, cancel = RecordingLog(PROMPT), Cancel()
    model = ScriptedModel(calling(note("a", "late cancel")), FINAL)
    _, stop = drained(turn_of(log, model, cancel=cancel))
    assert stop is Stop.INTERRUPTED
    assert len(model.asked) == 1


@pytest.mark.parametrize("how", ["raised", "set"])
def test_a_cancel_at_the_question_runs_nothing(how: str) -> None:
    log, cancel = RecordingLog(PROMPT), Cancel()

    def interrupted(_: ToolCall) -> str | None:
        cancel.set()
        if how == "raised":
            cancel.check()
        return None

    asking = calling(note("a", "one"))
    events, stop = drained(turn_of(log, ScriptedModel(asking), interrupted, cancel))
    assert stop is Stop.INTERRUPTED
    assert results(events) == [("a", Status.INTERRUPTED, INTERRUPTED_RESULT)]
    assert log.entries == ["assistant", "result a"]


# -- closed at every event --------------------------------------------------------------------

CLOSED_AT = range(18)


def shell_turn(folder: Path, log: RecordingLog, marker: str, cancel: Cancel) -> Turn:
    """Return a turn of three real commands in two steps; each notes in a file that it ran."""

    def command(name: str) -> ToolCall:
        text = f"echo {name} >> ran; echo begin; sleep 0.{marker}; echo end"
        return ToolCall(name, "shell_exec", f'{{"command": "{text}"}}')

    environment = {"PATH": os.environ["PATH"]}
    tool = shell_tool(LocalExecutor(folder, environment), timeout_s=60, output_limit=1000)
    model = ScriptedModel(calling(command("a"), command("b")), calling(command("c")), FINAL)
    return run_turn(log, model, Toolbox([tool]), allow, cancel, 9)


def marker() -> str:
    """Return digits of a fraction of a second that no other process sleeps for."""
    return f"05{''.join(filter(str.isdigit, unique_seconds()))}"


def ran(folder: Path) -> list[str]:
    return (folder / "ran").read_text().split() if (folder / "ran").exists() else []


def test_the_turn_that_is_closed_below_has_as_many_events(tmp_path: Path) -> None:
    events, stop = drained(shell_turn(tmp_path, RecordingLog(PROMPT), marker(), Cancel()))
    assert stop is Stop.FINAL
    assert ran(tmp_path) == ["a", "b", "c"]
    # Output may come in one piece more or less.
    assert abs(len(events) - len(CLOSED_AT)) <= 3


@pytest.mark.parametrize("way", ["closed", "cancelled"])
@pytest.mark.parametrize("index", CLOSED_AT)
def test_wherever_a_turn_is_ended_every_call_is_answered_once_and_no_process_lives(
    tmp_path: Path, index: int, way: str
) -> None:
    log, cancel, own = RecordingLog(PROMPT), Cancel(), marker()
    turn = shell_turn(tmp_path, log, own, cancel)
    for _ in range(index):
        if next(turn, None) is None:
            break
    if way == "closed":
        turn.close()
    else:
        cancel.set()
        drained(turn)
    assert not running(own)
    assert eventually(lambda: not zombie_children())
    assert answered_once(log.messages)
    # No call ran without its start in the log, none twice, and none was started after the end.
    started = [entry.split()[1] for entry in log.entries if entry.startswith("started")]
    assert len(set(started)) == len(started)
    assert ran(tmp_path) in (started, started[:-1])
    before = list(log.entries)
    turn.close()
    assert log.entries == before


@pytest.mark.parametrize("index", range(1, 8))
def test_a_turn_that_is_closed_while_it_tells_of_an_interrupt_answers_every_call(
    index: int,
) -> None:
    log = RecordingLog(PROMPT)
    asking = calling(note("a", "cancel"), note("b", "two"), note("c", "three"))
    turn = turn_of(log, ScriptedModel(asking))
    for _ in range(index):
        next(turn)
    turn.close()
    assert answered_once(log.messages)
    assert log.entries.count("result c") == (index > 1)


# -- what is still to be answered -------------------------------------------------------------

A, B = note("a", "one"), note("b", "two")
RESULT_A = Message(Role.TOOL, "1", tool_call_id="a")
RESULT_B = Message(Role.TOOL, "2", tool_call_id="b")


@pytest.mark.parametrize(
    ("messages", "calls"),
    [
        ([], []),
        ([PROMPT], []),
        ([RESULT_A], []),
        ([PROMPT, FINAL], []),
        ([PROMPT, calling(A, B)], [A, B]),
        ([PROMPT, calling(A, B), RESULT_A], [B]),
        ([PROMPT, calling(A, B), RESULT_A, RESULT_B], []),
        ([PROMPT, calling(A, B), RESULT_A, PROMPT], []),
    ],
    ids=range(8),
)
def test_the_calls_without_a_result_are_those_of_the_last_answer(
    messages: list[Message], calls: list[ToolCall]
) -> None:
    assert list(unanswered(messages)) == calls
