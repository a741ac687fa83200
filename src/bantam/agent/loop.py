"""One turn, as prose: ask the model, run what it wants run, ask again, until it wants nothing.

Log first, then show: what is on the screen is in the log. A call's start is logged before its
effect and its result before it is shown, so that nothing is lost and nothing runs twice.
"""

import json
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from time import monotonic
from typing import Any, Protocol

from bantam.agent.memory import Log
from bantam.core.cancel import Cancel
from bantam.core.errors import BudgetSpent, Interrupted, ModelError, ToolError
from bantam.core.events import (
    Event,
    Notice,
    Replied,
    Status,
    Stop,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    Turn,
)
from bantam.core.generators import through
from bantam.core.messages import (
    INTERRUPTED_RESULT,
    Answer,
    Message,
    Role,
    ToolCall,
    parsed_arguments,
    unanswered,
)
from bantam.tools.tool import Result, Toolbox, UnknownTool

# It gets the arguments that run, sanitised. None: run it; text: why not, for the model.
Approve = Callable[[ToolCall], str | None]


class Model(Protocol):
    """Who answers."""

    def reply(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], cancel: Cancel
    ) -> Generator[Event, None, Answer]:
        """Yield what happens while the answer comes, and return it whole.

        `messages` are the log's. Before it asks, it may have compacted that (`agent.compaction`).
        """


def run_turn(
    log: Log, model: Model, tools: Toolbox, approve: Approve, cancel: Cancel, max_steps: int
) -> Turn:
    """Run the turn whose prompt is the log's last message; yield its events, return why it ended.

    Raises ModelError. However it ends, `close()` included, each call in the log has a result.
    """
    try:
        for _ in range(max_steps):
            cancel.check()
            answer = yield from model.reply(log.messages, tools.specs, cancel)
            log.append(answer.message)
            yield Replied(answer.message, answer.finish_reason)
            if answer.fault:
                yield from _finish_all(f"not run: {answer.fault}", log)
                raise ModelError(answer.fault)
            if not answer.message.tool_calls:
                return Stop.FINAL
            for call in answer.message.tool_calls:
                if why := answer.refusals.get(call.id):
                    yield from refuse(call, ToolError(why), log)
                else:
                    yield from run_call(call, log, tools, approve, cancel)
        yield Notice(f"stopped after {max_steps} model calls (max_al_iterations)")
        return Stop.STEP_LIMIT
    except BudgetSpent as error:
        yield Notice(str(error))
        return Stop.BUDGET
    except Interrupted:
        yield from _finish_all(INTERRUPTED_RESULT, log)
        return Stop.INTERRUPTED
    finally:
        # None is left but where the generator was closed or a bug passes through.
        for _ in _finish_all(INTERRUPTED_RESULT, log):
            pass


def run_call(
    call: ToolCall, log: Log, tools: Toolbox, approve: Approve, cancel: Cancel
) -> Generator[Event, None, None]:
    """Check, approve and run one call; log its result, then show it."""
    try:
        checked = tools.check(call)
    except ToolError as error:
        yield from refuse(call, error, log)
        return
    yield ToolStarted(call.id, call.name, checked.arguments)
    refusal = approve(replace(call, arguments=json.dumps(checked.arguments)))
    if refusal is not None:
        yield _finish(call, Result(refusal, Status.DENIED), log)
        return
    cancel.check()
    log.started(call)
    began = monotonic()
    running = tools.run(checked, cancel)
    result = yield from through(running, lambda text: [ToolOutput(call.id, text)])
    yield _finish(call, result, log, monotonic() - began)


def refuse(call: ToolCall, error: ToolError, log: Log) -> Iterator[Event]:
    """Run nothing for `call`; log and show why."""
    arguments = parsed_arguments(call.arguments)
    yield ToolStarted(call.id, call.name, call.arguments if arguments is None else arguments)
    status = Status.UNKNOWN if isinstance(error, UnknownTool) else Status.ERROR
    yield _finish(call, Result(str(error), status), log)


def _finish(call: ToolCall, result: Result, log: Log, duration_s: float = 0.0) -> ToolFinished:
    """Log a result; return the event that shows it."""
    # What a text dialect says of it; no server gets this member (`model.quirks`).
    extra = {} if result.status is Status.OK else {"status": result.status.value}
    log.append(Message(Role.TOOL, result.text, tool_call_id=call.id, extra=extra))
    return ToolFinished(
        call.id,
        call.name,
        result.status,
        result.text,
        result.exit_code,
        round(duration_s, 3),
        result.files,
    )


def _finish_all(text: str, log: Log) -> Iterator[ToolFinished]:
    """Give each call that has no result yet the result `text`; yield the events that show it."""
    for call in unanswered(log.messages):
        yield _finish(call, Result(text, Status.INTERRUPTED), log)
