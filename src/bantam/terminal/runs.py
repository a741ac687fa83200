"""What the options ask for, wired and run: a turn, the demo."""

import os
import sys
import tempfile
from datetime import UTC, datetime
from functools import partial
from typing import TextIO

from bantam.agent.agent import Agent, Surroundings, secrets_of
from bantam.agent.memory import ListLog, Memory
from bantam.core.cancel import Cancel
from bantam.core.config import CONFIG_FILES, Config, resolve, use_color
from bantam.core.errors import BantamError, ConfigError
from bantam.core.redaction import Redaction
from bantam.core.settings import parse
from bantam.sessions.snapshot import About
from bantam.sessions.store import Store, home_of, project_id
from bantam.terminal.arguments import Options
from bantam.terminal.oneshot import DEMO, Show, demo_prompt, json_lines, plain, run
from bantam.terminal.prompts import read_config
from bantam.terminal.screen import Screen, complain


def configuration(*overrides: str) -> Config:
    """Return the configuration of the current folder, the environment and `overrides`."""
    for name in CONFIG_FILES:
        if (text := read_config(name)) is not None:
            return resolve(parse(text, name), overrides, os.environ)
    return resolve((), overrides, os.environ)


def turn(options: Options, config: Config, prompt: str, cancel: Cancel) -> int:
    """Run one turn; return the exit status."""
    surroundings = Surroundings.now()
    log = _memory(options, config, surroundings)
    agent = Agent(config, surroundings, log=log, trust=options.trust)
    try:
        return run(agent, prompt, _show(options, config), cancel)
    finally:
        agent.close()
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
    name = project_id(surroundings.working_directory)
    if options.resume is not None:
        name = store.find(options.resume)
    elif not options.continues:
        return ListLog() if options.no_session else store.fresh(name, about)
    if options.no_session:
        return ListLog(store.stored(name).conversation.messages)
    session = store.resumed(name, about)
    if not session.messages:
        _has_nothing(options, session.notices)
    return session


def _has_nothing(options: Options, notices: list[str]) -> None:
    """A session that was named must be there; that of the project may begin now."""
    if options.resume is not None:
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
