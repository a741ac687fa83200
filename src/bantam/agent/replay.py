"""A stored session runs again: its own answers are the model, the first difference is found.

**Its commands are run again**, with the rights of whoever replays it: read a stranger's session
before you do. Give it a conversation that was `relocated` (`agent.relocation`): then what names the
project acts in the new folder.

The run keeps in step with the recording: message n of the log is held against message n of the
recording as soon as it is there, and nothing runs behind a difference. So no request can differ
where the log does not; that the transport compares requests as well is a second net.

What happened to a turn from outside cannot be reproduced and is repeated instead. A turn that
ended without a final answer (Ctrl+C, a crash, a limit, a failed request) is closed where it ended.
A call that was not run, or was cut short, is not run: it gets the result that was recorded. So does
one that would write a file outside of the new folder: what is there is not the recording's.
"""

import json
import os
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bantam.agent.agent import Agent
from bantam.agent.memory import ListLog
from bantam.agent.surroundings import Surroundings, secrets_of
from bantam.core.cancel import Cancel
from bantam.core.config import Config
from bantam.core.discretion import hidden_in
from bantam.core.events import Done, Event, Replied, Status, Stop, ToolFinished
from bantam.core.messages import (
    INTERRUPTED_RESULT,
    UNKNOWN_RESULT,
    Message,
    Role,
    ToolCall,
    parsed_arguments,
    to_api,
)
from bantam.core.redaction import Redaction
from bantam.core.repair import repaired
from bantam.model.replay import first_difference, in_request, is_answer

# Results that tell what became of the run, not of the call. One line: a command's own result has
# its exit status two lines further down.
_UNREPEATABLE: Final = re.compile(
    rf"{re.escape(INTERRUPTED_RESULT)}|{re.escape(UNKNOWN_RESULT)}|not run: .*"
)


@dataclass(frozen=True, slots=True)
class Report:
    """What a replay came to.

    `turns` were run; `answers` and `results` were the same as recorded; `given` results were taken
    from the recording, as they cannot be reproduced. `difference`: the first one with its place.
    `broken_off`: how a turn ended that was interrupted now, or failed for a reason of its own.
    """

    turns: int
    answers: int
    results: int
    given: int
    difference: str | None = None
    broken_off: Done | None = None


def replayed(
    recorded: Sequence[Message], config: Config, surroundings: Surroundings, cancel: Cancel
) -> Generator[Event, None, Report]:
    """Run the `recorded` conversation again in `surroundings`; yield its events, return the report.

    A turn that did not come to its end when it was recorded has no `Done` here either; nor has one
    in which a difference was found. `config`'s endpoint, dialect and limits do not count; its
    tools, time-outs and sizes do. Raises ConfigError.
    """
    run = _Run(recorded, config, surroundings, cancel)
    with closing(run.agent):
        yield from run.turns()
    return run.report


class _Run:
    """A run in step with its recording: `wanted[n]` is what `log.messages[n]` should be."""

    def __init__(
        self,
        recorded: Sequence[Message],
        config: Config,
        surroundings: Surroundings,
        cancel: Cancel,
    ) -> None:
        secrets = Redaction(secrets_of(config, surroundings.environ))
        conversation = hidden_in(_as_logged(recorded), secrets)
        self._cancel = cancel
        self._folder = surroundings.working_directory
        self._was_given = False  # the next result is the recorded one
        self._log = ListLog()
        self.agent = _agent(conversation, config, surroundings, self._log, self._recorded_refusal)
        self._wanted = [*self._log.messages, *conversation]  # the system message is this run's own
        self.report = Report(0, 0, 0, 0)

    def turns(self) -> Generator[Event, None, None]:
        """Run one turn after another, to the recording's end or to where this run left it."""
        while (at := len(self._log.messages)) < len(self._wanted) and not self._is_over():
            message = self._wanted[at]
            following = self._wanted[at + 1 : at + 2]
            if message.role is not Role.USER:
                place = f"message {at} ({message.role})"
                self._differs(f"{place}: no prompt before it, so it cannot be run again")
            elif not following or following[0].role is Role.USER:
                self._log.append(message)  # nothing came of it
            else:
                yield from self._turn(message.content)

    def _turn(self, prompt: str) -> Generator[Event, None, None]:
        end = self._end_of_turn()
        self.report = replace(self.report, turns=self.report.turns + 1)
        with closing(self.agent.turn(prompt, self._cancel)) as turn:
            for event in turn:
                yield event
                self._hold(event)
                # Where a result is a turn's last message, no final answer came to it.
                was_cut_short = _is_result(event) and len(self._log.messages) == end
                if was_cut_short or self._is_over():
                    return

    def _end_of_turn(self) -> int:
        """Return where the prompt stands that follows the one at the log's end."""
        later = range(len(self._log.messages) + 1, len(self._wanted))
        users = (at for at in later if self._wanted[at].role is Role.USER)
        return next(users, len(self._wanted))

    def _hold(self, event: Event) -> None:
        """Hold what `event` tells of against the recording."""
        if isinstance(event, Replied) or _is_result(event):
            self._compare()
        elif isinstance(event, Done) and event.stop is not Stop.FINAL:
            self.report = replace(self.report, broken_off=event)

    def _compare(self) -> None:
        """Hold the log's last message against the recording."""
        at, report = len(self._log.messages) - 1, self.report
        is_result = self._wanted[at].role is Role.TOOL
        was_given, self._was_given = self._was_given, False
        if is_result and (was_given or _is_unrepeatable(self._wanted[at])):
            # Not always by way of approval: the check of its arguments may have refused the call.
            self._log.messages[at] = self._wanted[at]
            self.report = replace(report, given=report.given + 1)
            return
        start = at
        while self._log.messages[start].role is Role.TOOL:
            start -= 1  # a result is repaired with its call
        old, new = (in_request(m[start : at + 1]) for m in (self._wanted, self._log.messages))
        if place := first_difference(old, new, start):
            self._differs(place)
        elif is_result:
            self.report = replace(report, results=report.results + 1)
        else:
            self.report = replace(report, answers=report.answers + 1)

    def _recorded_refusal(self, call: ToolCall) -> str | None:
        """Return the recorded result of the call that is about to run if it is not to run."""
        result = self._wanted[len(self._log.messages)]
        self._was_given = _is_unrepeatable(result) or self._is_elsewhere(call)
        return result.content if self._was_given else None

    def _is_elsewhere(self, call: ToolCall) -> bool:
        """Whether the call is about a file outside of the folder that this is run in."""
        path = (parsed_arguments(call.arguments) or {}).get("path", "")
        file = Path(os.path.realpath(self._folder / os.path.expanduser(path)))  # noqa: PTH111  # ~nobody stays
        return not file.is_relative_to(os.path.realpath(self._folder))

    def _is_over(self) -> bool:
        return bool(self.report.difference or self.report.broken_off)

    def _differs(self, place: str) -> None:
        requests = sum(message.role is Role.ASSISTANT for message in self._log.messages)
        text = f"after request {requests} the run differs from the recording at {place}"
        self.report = replace(self.report, difference=text)


def _agent(
    conversation: Sequence[Message],
    config: Config,
    surroundings: Surroundings,
    log: ListLog,
    approve: Callable[[ToolCall], str | None],
) -> Agent:
    """Return an agent whose model is `conversation`, and which only that brings to an end."""
    with TemporaryDirectory(prefix="bantam-") as folder:  # 0700, and read before this returns
        path = Path(folder, "session.json")
        path.write_text(json.dumps([to_api(message) for message in conversation]), "utf-8")
        config = replace(
            config,
            endpoint=f"replay://{path}",
            dialect="native",  # what was stored is in no other
            max_al_iterations=len(conversation),
            budget_tokens=None,
            cache_proof="off",
        )
        # Trusted: whatever file names config's endpoint, this one is ours.
        return Agent(config, surroundings, log=log, approve=approve, trust=True)


def _is_result(event: Event) -> bool:
    """Whether a call has come to its own end; an interrupt of this run is told by `Done`."""
    return isinstance(event, ToolFinished) and event.status is not Status.INTERRUPTED


def _is_unrepeatable(result: Message) -> bool:
    return _UNREPEATABLE.fullmatch(result.content) is not None


# -- the recording, as a run logs it ------------------------------------------------------------


def _as_logged(recorded: Sequence[Message]) -> list[Message]:
    """Return the conversation as a run that starts with it would log it.

    No system message and no empty answer; each call answered once, directly behind its message,
    under an id that is unique there; `INTERRUPTED_RESULT` for one that has no result.
    """
    spoken: list[tuple[Message, list[Message]]] = []  # with the results that came behind it
    results: list[Message] = []
    for message in recorded:
        if message.role is Role.TOOL:
            results.append(message)  # also behind a prompt: it came late
        elif message.role is Role.USER:
            spoken.append((Message(Role.USER, message.content), []))
        elif is_answer(message):
            results = []
            spoken.append((message, results))
    return [each for message, results in spoken for each in _with_results(message, results)]


def _with_results(message: Message, results: Sequence[Message]) -> Iterator[Message]:
    if not message.tool_calls:
        yield message
        return
    sent = repaired([message])[0].tool_calls
    pairs = zip(message.tool_calls, sent, strict=True)
    yield replace(message, tool_calls=tuple(replace(call, id=new.id) for call, new in pairs))
    contents: dict[str, list[str]] = {}
    for result in results:
        contents.setdefault(result.tool_call_id, []).append(result.content)
    for call, new in zip(message.tool_calls, sent, strict=True):
        found = contents.get(call.id)
        content = found.pop(0) if found else INTERRUPTED_RESULT
        yield Message(Role.TOOL, content, tool_call_id=new.id)
