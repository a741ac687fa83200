"""From a configuration to a wired agent: the library's face.

    agent = Agent(resolve(overrides=["endpoint=http://127.0.0.1:8080/v1"]), Surroundings.now())
    for event in agent.turn("What is in this folder?"):
        ...

A turn is a generator of events that ends with `Done`. `close()` on it stops everything at once;
so does `Cancel.set` from a signal handler or another thread.
"""

import sys
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bantam.agent.compaction import CompactingModel, compact_on_request, unspoken
from bantam.agent.correction import CorrectingModel
from bantam.agent.loop import Approve, run_turn
from bantam.agent.memory import ListLog, Memory
from bantam.agent.prompt import Facts, read_agents, system_prompt
from bantam.agent.surroundings import Surroundings, secrets_of
from bantam.agent.wiring import (
    approval_for,
    client_for,
    dialect_for,
    executor_for,
    toolbox_for,
    transports_for,
)
from bantam.core.cancel import Cancel
from bantam.core.config import Config
from bantam.core.discretion import discreet
from bantam.core.errors import BantamError, ExitStatus, Interrupted, ModelError
from bantam.core.events import Done, Event, Failure, Notice, Stop, TurnStart, UsageReport, UsageSum
from bantam.core.generators import through
from bantam.core.messages import Message, Role, has_calls
from bantam.core.redaction import Redaction
from bantam.model.catalogue import Catalogue, model_ids
from bantam.model.origins import NOTHING, Accepted, check_trust, key_for

if TYPE_CHECKING:
    from bantam.agent.approval import Allowances, Ask

__all__ = ("Agent", "Surroundings", "failed")

_SUMMARY_REQUEST: Final = (
    "Say in one line of at most 80 characters what this conversation is about, for a list of "
    "conversations. Answer with that line alone and run nothing."
)
_CALLS_MISSED: Final = 3
_TOOLLESS: Final = (
    f"{_CALLS_MISSED} turns without a tool call: if the model or its server knows none, "
    "dialect=dollar lets it run commands"
)
_STATUS_OF: Final = {
    Stop.FINAL: ExitStatus.DONE,
    Stop.STEP_LIMIT: ExitStatus.STEP_LIMIT,
    Stop.BUDGET: ExitStatus.BUDGET,
}


class Agent:
    """A conversation with a model that can run tools.

    `may_compact`: a turn may do so before the window is full; False where the user has declined.
    """

    may_compact = True

    def __init__(
        self,
        config: Config,
        surroundings: Surroundings,
        *,
        log: Memory | None = None,
        approve: Approve | None = None,
        ask: "Ask | None" = None,
        allowances: "Allowances | None" = None,
        trust: bool = False,
        accepted: Accepted = NOTHING,
        spent: int = 0,
    ) -> None:
        """Wire everything; nothing is sent, and httpx is not imported yet.

        `approve` says what runs, in place of the configuration's approval; that puts its questions
        through `ask`, and keeps what was allowed for the session in `allowances`. `trust`:
        whatever endpoint `config` names; `accepted`: what its user has said yes to. `spent`: tokens
        that the run has used before, of `budget_tokens`. Raises ConfigError,
        UntrustedEndpoint.
        """
        self.config = config
        self.log: Memory = log if log is not None else ListLog()
        check_trust(config, trust=trust, environ=surroundings.environ, accepted=accepted)
        self.key = key_for(config, trust=trust, environ=surroundings.environ, accepted=accepted)
        self._notices = [self.key.notice] if self.key.notice else []
        secrets = secrets_of(config, surroundings.environ)
        self._redaction = Redaction(secrets)
        self.log.hide(secrets)
        self._environ = surroundings.environ
        transport, models = transports_for(config, self.key, surroundings.environ)
        self._catalogue = Catalogue(models, config.model, config.context_window)
        self._dialect = dialect_for(config, self.log.dialect_of(config.model))
        self._model = client_for(config, transport, self._dialect, self._catalogue, secrets)
        self._model.spent = spent
        self._turns = 0
        environ = surroundings.environ
        executor = executor_for(config, surroundings.working_directory, environ, secrets)
        self._approve = approve or approval_for(config, executor, environ, ask, allowances, secrets)
        self._tools = toolbox_for(config, executor, secrets, self.log.keep)
        if not self.log.messages or self.log.messages[0].role is not Role.SYSTEM:
            prompt = self._prompt(executor.cwd, executor.shell, surroundings.today)
            self.log.begin(Message(Role.SYSTEM, prompt))

    def turn(self, prompt: str, cancel: Cancel | None = None) -> Generator[Event, None, Stop]:
        """Run one turn; yield its events, `Done` last. Errors are in `Done`, none is raised.

        No key stands in any event, here and below; what a tool gets is what the model wrote.
        """
        return discreet(self._turn(prompt, cancel or Cancel()), self._redaction)

    def _turn(self, prompt: str, cancel: Cancel) -> Generator[Event, None, Stop]:
        config, before = self.config, len(self.log.calls)
        self.log.speaks(config.model, self._dialect.name)
        self.log.append(Message(Role.USER, prompt))
        yield TurnStart(self.log.id, config.model, config.endpoint, self._dialect.name)
        yield from self._news()
        stop, error = Stop.ERROR, None
        try:
            turn = run_turn(
                self.log,
                CorrectingModel(self.log, self._compacting(), self._dialect),
                self._tools,
                self._approve,
                cancel,
                config.max_al_iterations,
            )
            stop = yield from through(turn, self._noted)
        except BantamError as raised:
            error = raised
        text = self.log.messages[-1].content if stop is Stop.FINAL else ""
        self._turns += 1
        if self._may_be_toolless():
            yield Notice(_TOOLLESS)
        self.log.finish()
        yield from self._news()
        done = _done(stop, error, UsageSum.of(self.log.calls[before:]), cancel, text)
        yield replace(done, session=self.log.id)
        return stop

    def compact(self, cancel: Cancel | None = None) -> Generator[Event, None, bool]:
        """Let the model's summary take the conversation's place; return whether that was done.

        For between turns. Yields its events; errors are notices, and then nothing has changed.
        """
        run = compact_on_request(self.log, self._model, self._tools.specs, cancel or Cancel())
        return discreet(through(run, self._noted), self._redaction)

    @property
    def context(self) -> tuple[int, int] | None:
        """The tokens of the last request, and of the window; None before the first request."""
        used = self._model.context
        return None if used is None else (used, self._model.window)

    def summary(self, cancel: Cancel) -> Generator[Event, None, str]:
        """Ask for one line that says what the conversation is about; return it, perhaps empty.

        Nothing of it becomes part of the conversation. Raises ModelError, BudgetSpent, Interrupted.
        """
        asked = [*self.log.messages, Message(Role.USER, _SUMMARY_REQUEST)]
        asking = self._model.reply(asked, self._tools.specs, cancel, may_call=False)
        events = through(through(asking, unspoken), self._noted)
        answer = yield from discreet(events, self._redaction)
        line = answer.message.content.strip().partition("\n")[0].strip()
        return self._redaction.text(line)

    def models(self, cancel: Cancel) -> list[str]:
        """Return the ids of the endpoint's models. Raises ModelError, Interrupted."""
        _, models = transports_for(self.config, self.key, self._environ)
        if models is None:
            raise ModelError(f"{self.config.endpoint} has no list of models")
        with closing(models):
            return model_ids(models, cancel)

    @property
    def window(self) -> tuple[int, str]:
        """The tokens of the context window by now, and where that is from."""
        return self._catalogue.window, self._catalogue.source

    @property
    def spent(self) -> int:
        """The tokens that the run has used."""
        return self._model.spent

    def release(self) -> None:
        """Close the connection; the session stays open, for another agent."""
        self._model.close()

    def close(self) -> None:
        """Close the connection and the session."""
        self.release()
        self.log.close()

    def _noted(self, event: Event) -> Iterator[Event]:
        """Count what `event` cost; yield it and what its storing has brought up."""
        if isinstance(event, UsageReport):
            self.log.count(event)
        self.log.speaks(self.config.model, self._dialect.name)  # it may just have changed
        yield event
        yield from self._news()

    def _news(self) -> Iterator[Notice]:
        for notices in (self._notices, self.log.notices):
            while notices:
                yield Notice(notices.pop(0))

    def _may_be_toolless(self) -> bool:
        """Whether so many turns, and no more yet, have ended without any call.

        Some servers drop the tools in silence, where the model's template has no place for them.
        """
        native = self.config.dialect == "auto" and self._dialect.name == "native"
        return native and self._turns == _CALLS_MISSED and not has_calls(self.log.messages)

    def _compacting(self) -> CompactingModel:
        return CompactingModel(self.log, self._model, unasked=self.may_compact)

    def _prompt(self, folder: Path, shell: str, today: date) -> str:
        agents = read_agents(folder)
        self._notices.extend(agents.notices)
        return system_prompt(
            Facts(
                working_directory=str(folder),
                platform=sys.platform,
                shell=Path(shell).name,
                day=today,
                sandbox=self.config.sandbox,
                agents=agents.text,
                tools_folder=self.config.bantam_tools_dir,
            )
        )


def failed(error: BantamError, cancel: Cancel) -> Done:
    """Return the event that ends a run which ended before its turn began."""
    return _done(Stop.ERROR, error, UsageSum(), cancel)


def _done(
    stop: Stop, error: BantamError | None, usage: UsageSum, cancel: Cancel, text: str = ""
) -> Done:
    if stop is Stop.INTERRUPTED or isinstance(error, Interrupted):
        status = cancel.why or ExitStatus.INTERRUPTED
        return Done(Stop.INTERRUPTED, int(status), None, "", usage)
    if error is None:
        return Done(stop, int(_STATUS_OF[stop]), None, text, usage)
    failure = Failure(type(error).__name__, getattr(error, "status", None), str(error))
    return Done(stop, int(error.exit_status), None, "", usage, failure)
