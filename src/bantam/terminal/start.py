"""What every kind of run begins with: configuration, session, screen, as the options ask."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from bantam.agent.memory import ListLog, Memory
from bantam.agent.surroundings import Surroundings, secrets_of
from bantam.core.cancel import Cancel
from bantam.core.config import CONFIG_FILES, Config, resolve, use_color
from bantam.core.endpoints import host_of
from bantam.core.errors import BantamError
from bantam.core.redaction import Redaction
from bantam.core.settings import parse
from bantam.model.origins import Accepted, check_trust, key_for
from bantam.sessions.session import Session
from bantam.sessions.snapshot import About, Damaged
from bantam.sessions.store import Store, home_of, project_id
from bantam.terminal.arguments import Options
from bantam.terminal.oneshot import Show, json_lines, plain
from bantam.terminal.prompts import read_config
from bantam.terminal.screen import Screen, complain

if TYPE_CHECKING:
    from bantam.terminal.asking import AskLine, Write

T = TypeVar("T", bound=Memory)


class Clock:
    """Seconds, never going back; those in which a person is asked do not count."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._stopped_at: float | None = None
        self._uncounted = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return (self._stopped_at or self._now()) - self._uncounted

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Let no time go by."""
        self._stopped_at = began = self._now()
        try:
            yield
        finally:
            self._uncounted += self._now() - began
            self._stopped_at = None


def configuration(*overrides: str) -> Config:
    """Return the configuration of the current folder, the environment and `overrides`."""
    for name in CONFIG_FILES:
        if (text := read_config(name)) is not None:
            return resolve(parse(text, name), overrides, os.environ)
    return resolve((), overrides, os.environ)


@contextmanager
def told(log: T) -> Iterator[T]:
    """Close `log` at the end, and say what no event has said."""
    try:
        with closing(log):
            yield log
    finally:
        for notice in log.notices:
            complain(notice)


def about_of(config: Config, surroundings: Surroundings) -> About:
    """Return what a session says about itself that goes on here."""
    return About(
        project=str(surroundings.working_directory),
        endpoint=config.endpoint.partition("?")[0],  # what follows may be a key
        model=config.model,
    )


def memory(options: Options, config: Config, surroundings: Surroundings, store: Store) -> Memory:
    """Return the conversation that a run begins with; it is stored in `store`, if at all.

    Raises BantamError for a session that is named and not there.
    """
    about = about_of(config, surroundings)
    name = session_name(options, store, surroundings)
    if options.resume is None and not options.continues:
        return ListLog() if options.no_session else store.fresh(name, about)
    session = copy_of(store, name) if options.no_session else store.resumed(name, about)
    if not session.messages:
        _has_nothing(options, session)
    return session


def copy_of(store: Store, name: str) -> ListLog:
    """Return a stored conversation that goes on unstored; an empty one's notices say why."""
    log = ListLog()
    try:
        log.messages += store.stored(name, log.notices.append).conversation.messages
    except Damaged as error:
        log.notices.append(str(error))
    return log


def session_name(options: Options, store: Store, surroundings: Surroundings) -> str:
    """Return the id of the session that is meant: the project's, if none is named."""
    if options.resume is not None:
        return store.find(options.resume)
    return project_id(surroundings.working_directory)


def _has_nothing(options: Options, session: Memory) -> None:
    """A session that was named must be there; that of the project may begin now."""
    notices = session.notices
    if options.resume is not None:
        session.close()
        raise BantamError(notices[-1] if notices else f"the session {options.resume} is empty")
    if not notices:
        notices.append("this project has no session yet: it begins now")


def is_sure(config: Config, surroundings: Surroundings, accepted: Accepted) -> bool:
    """Whether nothing can be wrong with an agent, so that it may be made when it is needed."""
    environ = surroundings.environ
    if not host_of(config.endpoint) or config.sandbox != "off":
        return False
    if any(name.lower().endswith("_proxy") for name in environ):
        return False
    try:
        check_trust(config, trust=False, environ=environ, accepted=accepted)
        key_for(config, trust=False, environ=environ, accepted=accepted)
    except BantamError:
        return False
    return True


def load_meanwhile(*modules: str) -> None:
    """Load modules in a thread. The process ends behind it: in an import it could crash."""

    def load() -> None:
        with suppress(Exception):  # what needs one says why it cannot be had
            for name in modules:
                import_module(name)

    Thread(target=load).start()


def store_of(surroundings: Surroundings, redaction: Redaction) -> Store:
    """Return the user's sessions; nothing that is stored holds what `redaction` replaces."""
    return Store(home_of(surroundings.environ), partial(datetime.now, UTC), redaction)


def asking(
    config: Config,
    log: Memory,
    store: Store,
    write: "Write",
    ask_line: "AskLine",
    *,
    is_traced: bool = True,
) -> dict[str, Any]:
    """Return how an agent asks a person on a terminal about calls, if `config` wants it to.

    `is_traced`: that terminal shows each call.
    """
    if config.approve == "auto":
        return {}
    # Here: most runs do without.
    from bantam.sessions.allowances import StoredAllowances
    from bantam.terminal.asking import Asking

    kept = StoredAllowances(log, store.folder) if isinstance(log, Session) else None
    color = use_color(config.color, os.environ, is_tty=True)
    ask = Asking(write, ask_line, color=color, is_traced=is_traced)
    return {"ask": ask, "allowances": kept}


def show_of(options: Options, config: Config, cancel: Cancel, clock: Clock) -> Show:
    """Return what shows the events of the run that `cancel` can end."""
    if options.json:
        return json_lines(sys.stdout)
    alone = sys.stdout.isatty()
    screen = screen_on(sys.stdout if alone else sys.stderr, config, answers=alone, clock=clock)
    cancel.ticks.append(screen.tick)
    return screen.show if alone else plain(sys.stdout, sys.stderr, screen)


def redaction_of(config: Config, surroundings: Surroundings) -> Redaction:
    """Return what takes the user's keys out of a text."""
    return Redaction(secrets_of(config, surroundings.environ))


def screen_on(
    out: TextIO, config: Config, *, answers: bool, clock: Callable[[], float] = monotonic
) -> Screen:
    """Return what draws events on `out`, with the model's final text if `answers`."""
    is_tty = out.isatty()
    return Screen(
        out,
        in_place=is_tty and os.environ.get("TERM") != "dumb",
        color=use_color(config.color, os.environ, is_tty=is_tty),
        answers=answers,
        clock=clock,
    )
