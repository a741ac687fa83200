"""What the options ask for, wired and run: a turn, the demo, an undo, a replay."""

import os
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final, TextIO, TypeVar

from bantam.agent.agent import Agent, Surroundings, secrets_of
from bantam.agent.memory import ListLog, Memory
from bantam.agent.relocation import relocated
from bantam.agent.replay import Report, replayed
from bantam.agent.undo import put_back
from bantam.core.cancel import Cancel
from bantam.core.config import CONFIG_FILES, Config, resolve, use_color
from bantam.core.errors import BantamError, ConfigError, ExitStatus
from bantam.core.events import Event
from bantam.core.messages import Role
from bantam.core.redaction import Redaction
from bantam.core.settings import parse
from bantam.sessions.snapshot import About, Damaged
from bantam.sessions.store import Store, home_of, project_id
from bantam.terminal.arguments import Options
from bantam.terminal.oneshot import DEMO, Show, demo_prompt, json_lines, plain, run
from bantam.terminal.prompts import read_config
from bantam.terminal.screen import Screen, complain, one_line
from bantam.terminal.streams import abandon, say

T = TypeVar("T", bound=Memory)

_NAME_LENGTH: Final = 255  # of a file's name, on most file systems


def configuration(*overrides: str) -> Config:
    """Return the configuration of the current folder, the environment and `overrides`."""
    for name in CONFIG_FILES:
        if (text := read_config(name)) is not None:
            return resolve(parse(text, name), overrides, os.environ)
    return resolve((), overrides, os.environ)


def turn(options: Options, config: Config, prompt: str, cancel: Cancel) -> int:
    """Run one turn; return the exit status."""
    surroundings = Surroundings.now()
    with _told(_memory(options, config, surroundings)) as log:
        agent = Agent(config, surroundings, log=log, trust=options.trust)
        with closing(agent):
            return run(agent, prompt, _show(options, config), cancel)


@contextmanager
def _told(log: T) -> Iterator[T]:
    """Close `log` at the end, and say what no event has said."""
    try:
        with closing(log):
            yield log
    finally:
        for notice in log.notices:
            complain(notice)


def _memory(options: Options, config: Config, surroundings: Surroundings) -> Memory:
    """Return what the turn begins with, and where it is stored."""
    about = About(
        project=str(surroundings.working_directory),
        endpoint=config.endpoint.partition("?")[0],  # what follows may be a key
        model=config.model,
        dialect="native",
    )
    store = _store(config, surroundings)
    name = _name(options, store, surroundings)
    if options.resume is None and not options.continues:
        return ListLog() if options.no_session else store.fresh(name, about)
    if options.no_session:
        return _copy(options, store, name)
    session = store.resumed(name, about)
    if not session.messages:
        _has_nothing(options, session)
    return session


def _copy(options: Options, store: Store, name: str) -> ListLog:
    """Return a stored conversation that goes on unstored."""
    log = ListLog()
    try:
        log.messages += store.stored(name, log.notices.append).conversation.messages
    except Damaged as error:
        log.notices.append(str(error))
    if not log.messages:
        _has_nothing(options, log)
    return log


def _name(options: Options, store: Store, surroundings: Surroundings) -> str:
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


def _store(config: Config, surroundings: Surroundings) -> Store:
    redaction = Redaction(secrets_of(config, surroundings.environ))
    return Store(home_of(surroundings.environ), partial(datetime.now, UTC), redaction)


def _show(options: Options, config: Config) -> Show:
    """Return what shows the events of this run."""
    if options.json:
        return json_lines(sys.stdout)
    alone = sys.stdout.isatty()
    screen = _screen(sys.stdout if alone else sys.stderr, config, answers=alone)
    return screen.show if alone else plain(sys.stdout, sys.stderr, screen)


def _screen(out: TextIO, config: Config, *, answers: bool) -> Screen:
    is_tty = out.isatty()
    return Screen(
        out,
        in_place=is_tty and os.environ.get("TERM") != "dumb",
        color=use_color(config.color, os.environ, is_tty=is_tty),
        answers=answers,
    )


def undo(options: Options, cancel: Cancel) -> int:
    """Put back the files of the session's last turn; return the exit status.

    Raises BantamError, OutputFailed.
    """
    config = configuration(*options.overrides)
    surroundings = Surroundings.now()
    store = _store(config, surroundings)
    with _told(store.alone(_name(options, store, surroundings))) as session:
        assert session.undo is not None  # it has its place
        try:
            turn = session.undo.last(session.turns)
            report = put_back(turn, cancel)
        except OSError as error:
            raise BantamError(f"what undo needs cannot be read: {error.strerror}") from None
        touched = [*report.restored, *report.removed, *report.unchanged]
        if touched and session.messages:
            session.note(f"(The user has undone your last changes of {', '.join(touched)}.)")
        try:
            session.undo.drop(turn, report.remaining)
        except OSError as error:
            session.notices.append(f"what was undone could not be noted: {error.strerror}")
    redaction = Redaction(secrets_of(config, surroundings.environ))
    lines = report.lines(surroundings.working_directory)
    say("".join(f"{one_line(redaction.text(line))}\n" for line in lines))
    if report.interrupted:
        return cancel.why or ExitStatus.INTERRUPTED
    return ExitStatus.FAILED if report.refused or report.damage else ExitStatus.DONE


def replay(options: Options, cancel: Cancel) -> int:
    """Run a stored session again in a new folder, and report; return the exit status.

    Raises BantamError, OutputFailed.
    """
    config = configuration(*options.overrides)
    surroundings = Surroundings.now()
    store = _store(config, surroundings)
    stored = store.stored(store.find(options.replay or ""), complain)
    if not any(message.role is Role.ASSISTANT for message in stored.conversation.messages):
        raise BantamError(f"the session {options.replay} holds no answer that could be given again")
    os.chdir(_stage(new_folder("replay"), stored.about.project))
    folder = os.getcwd()  # noqa: PTH109  text; and links followed, as commands will say it
    complain(f"running its commands again, for real, in {folder}")
    home = surroundings.environ.get("HOME", "")
    messages = relocated(stored.conversation.messages, stored.about.project, folder, home)
    environ = {name: value for name, value in os.environ.items() if name != "OLDPWD"}
    stage = replace(surroundings, working_directory=Path(folder), environ=environ)
    screen = _screen(sys.stderr, config, answers=True)
    return _say_report(_drawn(replayed(messages, config, stage, cancel), screen))


def _stage(folder: str, project: str) -> Path:
    """Make the folder in `folder` that a session of `project` is run again in; return it.

    It has the project's own name, and a path as long as the project's if that can be: then sizes
    and columns of what names it are as they were. What is beside it is nobody's.
    """
    name = Path(project).name or "project"
    padding = len(project) - len(folder) - len(name) - 2
    stage = Path(folder, "_" * min(max(1, padding), _NAME_LENGTH), name)
    stage.mkdir(parents=True)
    return stage


def _drawn(run: Generator[Event, None, Report], screen: Screen) -> Report:
    with closing(run):
        while True:
            try:
                event = next(run)
            except StopIteration as end:
                report: Report = end.value
                return report
            try:
                screen.show(event)
            except OSError:
                abandon(sys.stderr)  # the report is what it is for


def _say_report(report: Report) -> int:
    """Say what a replay came to; return the exit status."""
    if report.broken_off is not None:
        error = report.broken_off.error
        say(f"broken off: {one_line(error.message) if error else report.broken_off.stop}\n")
        return report.broken_off.exit_code
    if report.difference is not None:
        say(f"first difference: {one_line(report.difference)}\n")
        return ExitStatus.FAILED
    given = f"; not run again: {report.given}" if report.given else ""
    say(
        f"no difference: turns: {report.turns}; answers: {report.answers}; "
        f"tool results: {report.results}{given}\n"
    )
    return ExitStatus.DONE


def demo(options: Options, cancel: Cancel) -> int:
    """Run the packaged recording in a new temporary folder; return the exit status."""
    # Before there is a folder to clean up.
    overrides = [*options.overrides, f"endpoint=replay://{DEMO}", "model=recording"]
    config = resolve((), overrides, os.environ)
    folder = new_folder("demo")
    complain(f"This is a recording: no network, no key. Its files are in {folder}")
    os.chdir(folder)
    options.no_session = True  # nobody will go on from it
    return turn(options, config, demo_prompt(), cancel)


def new_folder(purpose: str) -> str:
    """Return a new temporary folder. Raises ConfigError."""
    try:
        return tempfile.mkdtemp(prefix=f"bantam-{purpose}-")
    except OSError as error:
        what = f"there is no folder for the {purpose}'s files: {error.strerror}"
        raise ConfigError(f"{what}; set TMPDIR to one that you may write to") from None
