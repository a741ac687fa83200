"""What the options ask for, wired and run: a turn, the demo, an undo, a replay.

What a turn does not need is imported by the others where they need it.
"""

import os
import sys
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bantam.agent.agent import Agent
from bantam.agent.surroundings import Surroundings
from bantam.core.cancel import Cancel
from bantam.core.config import Config, resolve
from bantam.core.endpoints import host_of
from bantam.core.errors import BantamError, ConfigError, ExitStatus
from bantam.core.generators import drained
from bantam.core.messages import has_answer
from bantam.terminal.arguments import Options
from bantam.terminal.consent import consented
from bantam.terminal.inputs import PlainLines
from bantam.terminal.oneshot import demo_prompt, drawn_on, run
from bantam.terminal.screen import complain, one_line
from bantam.terminal.start import (
    Clock,
    asking,
    configuration,
    load_meanwhile,
    memory,
    redaction_of,
    screen_on,
    session_name,
    show_of,
    store_of,
    told,
)
from bantam.terminal.streams import say

if TYPE_CHECKING:
    from bantam.agent.memory import Memory
    from bantam.agent.replay import Report
    from bantam.sessions.store import Store

_NAME_LENGTH: Final = 255  # of a file's name, on most file systems


def turn(options: Options, config: Config, prompt: str, cancel: Cancel) -> int:
    """Run one turn; return the exit status."""
    surroundings = Surroundings.now()
    redaction = redaction_of(config, surroundings)
    accepted = consented(config, surroundings, redaction, trust=options.trust, cancel=cancel)
    if host_of(config.endpoint):  # it loads while the session waits for the disk
        load_meanwhile("httpx")
    store = store_of(surroundings, redaction)
    with told(memory(options, config, surroundings, store)) as log:
        clock = Clock()
        how = _asking(options, config, log, store, cancel, clock)
        agent = Agent(config, surroundings, log=log, accepted=accepted, **how)
        with closing(agent):
            return run(agent, prompt, show_of(options, config, cancel, clock), cancel)


def _asking(
    options: Options,
    config: Config,
    log: "Memory",
    store: "Store",
    cancel: Cancel,
    clock: Clock,
) -> dict[str, Any]:
    """Return how the agent asks about calls: on the terminal, if there is one at both ends."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return {}
    lines = PlainLines(sys.stdin.fileno(), sys.stderr)

    def ask(question: str) -> str | None:
        answer = None
        try:
            with clock.stopped():
                answer = lines.ask(question, cancel)
        finally:
            if answer is None:  # the line of the question is not ended
                with suppress(OSError):  # it may be gone
                    print(file=sys.stderr, flush=True)
        return answer

    # With --json the calls are told where no person may see them.
    is_traced = not options.json
    return asking(config, log, store, sys.stderr.write, ask, is_traced=is_traced)


def undo(options: Options, cancel: Cancel) -> int:
    """Put back the files of the session's last turn; return the exit status.

    Raises BantamError, OutputFailed.
    """
    from bantam.agent.undo import undo_last

    config = configuration(*options.overrides)
    surroundings = Surroundings.now()
    redaction = redaction_of(config, surroundings)
    store = store_of(surroundings, redaction)
    with told(store.alone(session_name(options, store, surroundings))) as session:
        report = undo_last(session, cancel)
    lines = report.lines(surroundings.working_directory)
    say("".join(f"{one_line(redaction.text(line))}\n" for line in lines))
    if report.interrupted:
        return cancel.why or ExitStatus.INTERRUPTED
    return ExitStatus.FAILED if report.refused or report.damage else ExitStatus.DONE


def replay(options: Options, cancel: Cancel) -> int:
    """Run a stored session again in a new folder, and report; return the exit status.

    Raises BantamError, OutputFailed.
    """
    from bantam.agent.relocation import relocated
    from bantam.agent.replay import replayed

    config = configuration(*options.overrides)
    surroundings = Surroundings.now()
    store = store_of(surroundings, redaction_of(config, surroundings))
    stored = store.stored(store.find(options.replay or ""), complain)
    if not has_answer(stored.conversation.messages):
        raise BantamError(f"the session {options.replay} holds no answer that could be given again")
    os.chdir(_stage(new_folder("replay"), stored.about.project))
    folder = os.getcwd()  # noqa: PTH109  # text; and links followed, as commands will say it
    complain(f"running its commands again, for real, in {folder}")
    home = surroundings.environ.get("HOME", "")
    messages = relocated(stored.conversation.messages, stored.about.project, folder, home)
    environ = {name: value for name, value in os.environ.items() if name != "OLDPWD"}
    stage = replace(surroundings, working_directory=Path(folder), environ=environ)
    show = drawn_on(screen_on(sys.stderr, config, answers=True), sys.stderr)
    return _say_report(drained(replayed(messages, config, stage, cancel), show))


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


def _say_report(report: "Report") -> int:
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
    from importlib.resources import as_file, files

    overrides = [*options.overrides, "model=recording"]
    resolve((), overrides, os.environ)  # before there is a folder to clean up
    folder = new_folder("demo")
    complain(f"This is a recording: no network, no key. Its files are in {folder}")
    os.chdir(folder)
    options.no_session = True  # nobody will go on from it
    # The package may be in a zip file: then this is a copy, for as long as it is read.
    with as_file(files("bantam") / "demo.json") as recording:
        config = resolve((), [*overrides, f"endpoint=replay://{recording}"], os.environ)
        return turn(options, config, demo_prompt(recording), cancel)


def new_folder(purpose: str) -> str:
    """Return a new temporary folder. Raises ConfigError."""
    import tempfile

    try:
        return tempfile.mkdtemp(prefix=f"bantam-{purpose}-")
    except OSError as error:
        what = f"there is no folder for the {purpose}'s files: {error.strerror}"
        raise ConfigError(f"{what}; set TMPDIR to one that you may write to") from None
