"""The conversation at the prompt: what a turn and the commands act on.

A change of configuration makes a new agent on the same session, a change of session a new agent on
the same configuration. The old one goes only when the new one is there: what cannot be done changes
nothing.
"""

import os
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from bantam.agent.memory import ListLog, Memory
from bantam.agent.surroundings import Surroundings, secrets_of
from bantam.core.cancel import Cancel
from bantam.core.config import Config, use_color
from bantam.core.errors import BantamError, ExitStatus, Interrupted
from bantam.core.events import Done, Event, Notice, Stop
from bantam.core.generators import drained
from bantam.core.messages import Role, without_surrogates
from bantam.core.settings import Setting
from bantam.model.origins import chosen_key
from bantam.sessions.session import Session
from bantam.sessions.store import project_id
from bantam.terminal.arguments import Options
from bantam.terminal.consent import consented, recalled
from bantam.terminal.oneshot import Show, drawn_on, run
from bantam.terminal.output import Output
from bantam.terminal.screen import complain
from bantam.terminal.start import (
    Clock,
    about_of,
    asking,
    copy_of,
    is_sure,
    memory,
    redaction_of,
    screen_on,
    store_of,
)
from bantam.terminal.streams import OutputFailed

if TYPE_CHECKING:
    from bantam.agent.agent import Agent

T = TypeVar("T")


class Chat:
    """A session and its agent, with what shows them; `status` is that of the last failure."""

    def __init__(self, options: Options, config: Config, *, color: bool, cancel: Cancel) -> None:
        """`color`: whether there may be any. Raises BantamError; nothing is sent yet.

        `cancel` breaks off the questions of trust.
        """
        self.options = options
        self.config = config
        self.surroundings = Surroundings.now()
        self.redaction = redaction_of(config, self.surroundings)
        self.accepted = consented(
            config,
            self.surroundings,
            self.redaction,
            trust=options.trust,
            cancel=cancel,
        )
        self.store = store_of(self.surroundings, self.redaction)
        self.project = project_id(self.surroundings.working_directory)
        self.live: list[Setting] = []  # what /cfg has set
        self.models: list[str] = []  # what /models has shown
        self.warned = False  # that git does not ignore the configuration
        self.has_left = False
        # Puts a question to the person at the terminal; set once there is one.
        self.ask_line: Callable[[str, Cancel], str | None] = lambda *_: None
        self._cancel = cancel
        self.status = int(ExitStatus.DONE)
        self._may_color = color
        self._clock = Clock()
        self._shown = self._made_show(config)
        self.log = memory(options, config, self.surroundings, self.store)
        self._agent: Agent | None = None
        with _closed_on_error(self.log):
            # One that goes on is told of, with the system prompt that it may lack.
            if self.log.messages or not is_sure(config, self.surroundings, self.accepted):
                self._agent = self._wired(config, self.log, spent=0)

    @property
    def agent(self) -> "Agent":
        """What takes turns; made when it is first needed, since the first prompt is not."""
        if self._agent is None:
            self._agent = self._wired(self.config, self.log, spent=0)
        return self._agent

    @property
    def key_source(self) -> str:
        """Where the key is from that goes to the endpoint."""
        return chosen_key(self.config, self.surroundings.environ, self.accepted).source

    @property
    def has_prompt(self) -> bool:
        """Whether anything was asked in it."""
        return any(message.role is Role.USER for message in self.log.messages)

    # -- turns --------------------------------------------------------------------------------

    def turn(self, prompt: str, cancel: Cancel) -> None:
        """Run one turn and show it. Raises OutputFailed."""
        self._cancel = cancel
        self.status = run(self.agent, prompt, self._shown, cancel) or self.status

    def retry(self, cancel: Cancel) -> None:
        """Run the last prompt's turn anew; what came of it stays until the model has answered.

        Raises BantamError if nothing was asked, OutputFailed.
        """
        stay = self._files_of_last_turn()
        prompt = self.log.rewind()
        if prompt is None:
            raise BantamError("there is no prompt to send again")
        if stay:
            self.tell(f"what the last turn wrote stays, files: {stay}; /undo first puts them back")
        self.turn(prompt, cancel)

    def drawn(self, asking: Generator[Event, None, T]) -> T:
        """Show what happens while the model is asked outside of a turn; return what it is for."""
        return drained(asking, self._show)

    def tick(self) -> None:
        """Show that time goes by."""
        self._tick()

    def begin_anew(self) -> None:
        """Show what is unfinished again: a shell had the terminal meanwhile."""
        self._begin_anew()

    def tell(self, text: str) -> None:
        """Say something in passing."""
        self._show(Notice(self.redaction.text(text)))

    def tell_news(self) -> None:
        """Say what the session has to say."""
        notices = self.log.notices
        while notices:
            self.tell(notices.pop(0))

    def fail(self, error: BantamError) -> None:
        """Say why an input came to nothing."""
        if isinstance(error, Interrupted):
            self.tell("interrupted")
        else:
            self.output.fault(self.redaction.text(str(error)))
        self.status = int(error.exit_status)

    # -- changes ------------------------------------------------------------------------------

    def reconfigure(self, config: Config) -> None:
        """Go on with `config`. Raises BantamError if that cannot be; then nothing has changed."""
        self.accepted = recalled(config, self.surroundings, self.accepted)
        agent = self._wired(config, self.log, self.agent.spent)
        self.agent.release()
        self._agent, self.config = agent, config
        self.redaction.learn(secrets_of(config, self.surroundings.environ))
        self._shown = self._made_show(config)
        if isinstance(self.log, Session):
            about = about_of(config, self.surroundings)
            self.log.describe(endpoint=about.endpoint, model=about.model)

    def clear(self) -> None:
        """Go on with an empty conversation, in the place of this project's."""
        self.switch(self._fresh)

    def load(self, session_id: str) -> None:
        """Go on with a stored session. Raises BantamError; then nothing has changed."""
        if self.has_prompt and session_id == self.log.id:
            raise BantamError(f"the session {session_id} is the one in hand")
        self.switch(lambda: self._stored(session_id))

    def switch(self, opened: Callable[[], Memory]) -> None:
        """Go on with the conversation that `opened` returns; this one is stored first.

        Raises BantamError if it cannot be stored, or what `opened` raises.
        """
        before = self.agent
        if self._is_unsaved():
            what = "this conversation could not be stored and would be lost"
            raise BantamError(f"{what}: /export FILE it first, then leave with /quit")
        if not self.has_prompt:
            before.log.close()  # its place may be the one that is wanted; it can take it again
        log = opened()
        with _closed_on_error(log):
            self._agent = self._wired(self.config, log, before.spent)
        self.log = log
        before.close()
        log.notices[:0] = before.log.notices

    def close(self) -> None:
        """Store what is unstored, and say what nobody has heard yet."""
        notices = self.log.notices
        if self._is_unsaved():
            notices.append("the end of this conversation could not be stored: it is lost")
        try:
            (self._agent or self.log).close()
        finally:
            for notice in notices:
                complain(notice)

    def _is_unsaved(self) -> bool:
        """Whether the disk will not take what happened, now that it is asked once more."""
        self.log.finish()
        return isinstance(self.log, Session) and self.log.is_unsaved

    # -- parts --------------------------------------------------------------------------------

    def _files_of_last_turn(self) -> int:
        """Return how many files the last turn has written that could be put back."""
        session = self.log
        if not isinstance(session, Session) or session.undo is None:
            return 0
        try:
            last = session.undo.last(session.turns)
        except OSError:  # undo itself tells it
            return 0
        return len({change.path for change in last.changes if last.number == session.turns})

    def _wired(self, config: Config, log: Memory, spent: int) -> "Agent":
        from bantam.agent.agent import Agent

        how: dict[str, Any] = {}
        alone = self.output.is_terminal
        if self._may_color and (alone or sys.stderr.isatty()):  # at both ends
            write = self.output.raw if alone else sys.stderr.write
            how = asking(config, log, self.store, write, self._asked)
        accepted = self.accepted
        return Agent(config, self.surroundings, log=log, accepted=accepted, spent=spent, **how)

    def _asked(self, question: str) -> str | None:
        with self._clock.stopped():
            return self.ask_line(question, self._cancel)

    def _fresh(self) -> Memory:
        if self.options.no_session:
            return ListLog()
        return self.store.fresh(self.project, about_of(self.config, self.surroundings))

    def _stored(self, session_id: str) -> Memory:
        if self.options.no_session:
            log: Memory = copy_of(self.store, session_id)
        else:
            about = about_of(self.config, self.surroundings)
            log = self.store.resumed(session_id, about)
        if not log.messages:
            log.close()
            notices = log.notices
            raise BantamError(notices[-1] if notices else f"the session {session_id} is empty")
        return log

    def _made_show(self, config: Config) -> Show:
        """Return what shows events; answers are for standard output, all else for people."""
        config = config if self._may_color else replace(config, color="never")
        self.output = Output(color=use_color(config.color, os.environ, is_tty=sys.stdout.isatty()))
        alone = self.output.is_terminal
        out = sys.stdout if alone else sys.stderr
        screen = screen_on(out, config, answers=alone, clock=self._clock)
        self._tick, self._begin_anew = screen.tick, screen.begin_anew
        return screen.show if alone else _answers_alone(drawn_on(screen, sys.stderr))

    def _show(self, event: Event) -> None:
        try:
            self._shown(event)
        except OSError as error:
            raise OutputFailed from error


@contextmanager
def _closed_on_error(log: Memory) -> Iterator[None]:
    try:
        yield
    except BaseException:  # Ctrl+C included: nobody else knows the log yet
        log.close()
        raise


def _answers_alone(draw: Show) -> Show:
    """Return what draws events for people, and writes each final message to standard output.

    Each ends its last line: another one may follow. Raises OSError if nobody takes it.
    """

    def show(event: Event) -> None:
        draw(event)
        if isinstance(event, Done) and event.stop is Stop.FINAL:
            sys.stdout.write(without_surrogates(event.text).removesuffix("\n") + "\n")
            sys.stdout.flush()

    return show
