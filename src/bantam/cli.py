"""The command line: arguments, wiring, signals, exit status. Knows every room.

Whatever is heavy is imported where it is first needed: `--version` and a wrong option answer at
once, and a Ctrl+C hardly ever comes before `main` listens to it. Only then Python would report it.
"""

import os
import signal
import sys
from typing import TYPE_CHECKING, Any, Final, TextIO

from bantam import __version__
from bantam.core.cancel import Cancel
from bantam.core.errors import BantamError, ConfigError, ExitStatus

if TYPE_CHECKING:
    from bantam.core.config import Config
    from bantam.core.events import Event
    from bantam.terminal.arguments import Options
    from bantam.terminal.oneshot import Show

_VERSION: Final = f"bantam {__version__}\n"
# After a signal all is over within 0.2 s (SPEC section 8), unless something hangs.
_PATIENCE_S: Final = 0.5


class OutputFailed(Exception):
    """Standard output takes no more: it is full, or nobody reads it."""


def main() -> int:
    """Run the command line of this process; return its exit status."""
    cancel = Cancel()
    _on_signals(cancel)
    _open_closed_streams()
    arguments = sys.argv[1:]
    try:
        try:
            return _run(arguments, cancel)
        except BantamError as error:
            return _failed(error, cancel, as_json="--json" in arguments)
    except OutputFailed as error:
        return _output_failed(error, cancel)
    except KeyboardInterrupt:
        _abandon(sys.stdout, sys.stderr)  # what hangs is most likely one of them
        return cancel.why or ExitStatus.INTERRUPTED
    finally:
        if cancel.is_set:
            # While it ends, Python would let a second Ctrl+C kill the process without its status.
            _listen(signal.SIG_IGN)


def _on_signals(cancel: Cancel) -> None:
    """Let Ctrl+C, SIGTERM and SIGHUP cancel the turn.

    A later one unwinds whatever hangs, as a write does that nobody reads. One that follows at once
    is part of the one before: cleaning up is under way.
    """
    import time

    last = 0.0

    def handle(number: int, _: Any) -> None:
        nonlocal last
        before, last = last, time.monotonic()
        if not cancel.is_set:
            by_user = number == signal.SIGINT
            cancel.set(ExitStatus.INTERRUPTED if by_user else ExitStatus.TERMINATED)
        elif last - before > _PATIENCE_S:
            raise KeyboardInterrupt

    _listen(handle)


def _listen(handler: Any) -> None:
    """Let `handler` have the signals that end a run, but those that the parent ignores.

    So nohup and the background jobs of a script stay what they are.
    """
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def _open_closed_streams() -> None:
    """Make the standard streams usable: also those that the parent closed (`>&-`)."""
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: PTH123, SIM115  open for the process's life
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: PTH123, SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: PTH123, SIM115
    sys.stdout.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]


def _run(arguments: list[str], cancel: Cancel) -> int:
    if arguments == ["--version"]:
        return _said(_VERSION)
    from bantam.terminal.arguments import help_text, parsed

    options = parsed(arguments)
    if options.help:
        return _said(help_text())
    if options.version:
        return _said(_VERSION)
    if options.demo:
        return _demo(options, cancel)
    from bantam.terminal import oneshot

    raw = None
    if options.file not in (None, "-"):
        raw = oneshot.read_prompt(options.file, f"prompt file {options.file!r}", cancel)
        if (command := oneshot.command_of(raw)) is not None:
            return oneshot.run_command(command, cancel)
    config = _config(options)  # before a prompt is waited for
    return _turn(options, config, _prompt(options, raw, cancel), cancel)


def _prompt(options: "Options", raw: bytes | None, cancel: Cancel) -> str:
    """Return the prompt that the arguments name; `raw` is what its file holds."""
    from bantam.terminal import oneshot

    if raw is not None:
        return oneshot.joined([oneshot.decoded(raw)])
    if options.prompt is None and options.file is None:
        raise ConfigError("there is no prompt: give a file, -, or -p TEXT; see bantam --help")
    piped = b""
    if options.file == "-" or not sys.stdin.isatty():
        piped = oneshot.read_prompt(sys.stdin.fileno(), "standard input", cancel)
    return oneshot.joined([options.prompt or "", oneshot.decoded(piped)])


def _config(options: "Options") -> "Config":
    """Return the configuration of the current folder, the environment and `-o`."""
    from pathlib import Path

    from bantam.core.config import CONFIG_FILES, resolve
    from bantam.core.settings import parse

    for name in CONFIG_FILES:
        try:
            text = Path(name).read_bytes()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise ConfigError(f"{name}: {error.strerror}") from None
        return resolve(parse(text, name), options.overrides, os.environ)
    return resolve((), options.overrides, os.environ)


def _turn(options: "Options", config: "Config", prompt: str, cancel: Cancel) -> int:
    from bantam.agent.agent import Agent, Surroundings
    from bantam.terminal import oneshot

    agent = Agent(config, Surroundings.now(), trust=options.trust)
    try:
        return oneshot.run(agent, prompt, _show(options, config), cancel)
    finally:
        agent.close()


def _show(options: "Options", config: "Config") -> "Show":
    """Return what shows the events of this run; it raises OutputFailed."""
    from bantam.core.config import use_color
    from bantam.terminal.oneshot import json_lines, plain
    from bantam.terminal.screen import Screen

    if options.json:
        return _telling(json_lines(sys.stdout))
    alone = sys.stdout.isatty()
    out: TextIO = sys.stdout if alone else sys.stderr
    is_tty = out.isatty()
    screen = Screen(
        out,
        in_place=is_tty and os.environ.get("TERM") != "dumb",
        color=use_color(config.color, os.environ, is_tty=is_tty),
        answers=alone,
    )
    return _telling(screen.show if alone else plain(sys.stdout, sys.stderr, screen))


def _telling(show: "Show") -> "Show":
    """Return `show` with its OSError told from every other."""

    def told(event: "Event") -> None:
        try:
            show(event)
        except OSError as error:
            raise OutputFailed from error

    return told


def _demo(options: "Options", cancel: Cancel) -> int:
    """Run the packaged recording in a new temporary folder."""
    import tempfile

    from bantam.core.config import resolve
    from bantam.terminal import oneshot

    folder = tempfile.mkdtemp(prefix="bantam-demo-")
    _complain(f"This is a recording: no network, no key. Its files are in {folder}")
    os.chdir(folder)
    overrides = [*options.overrides, f"endpoint=replay://{oneshot.DEMO}", "model=recording"]
    return _turn(options, resolve((), overrides, os.environ), oneshot.demo_prompt(), cancel)


# -- saying it --------------------------------------------------------------------------------


def _said(text: str) -> int:
    try:
        print(text, end="", flush=True)
    except OSError as error:
        raise OutputFailed from error
    return ExitStatus.DONE


def _failed(error: BantamError, cancel: Cancel, *, as_json: bool) -> int:
    """Report an error from before the turn, in the form that was asked for."""
    from bantam.agent.agent import failed
    from bantam.terminal.oneshot import json_lines

    done = failed(error, cancel)
    if as_json:
        _telling(json_lines(sys.stdout))(done)
    _complain(str(error))
    return done.exit_code


def _output_failed(error: OutputFailed, cancel: Cancel) -> int:
    _abandon(sys.stdout)
    cause = error.__cause__
    if isinstance(cause, OSError) and not isinstance(cause, BrokenPipeError) and not cancel.is_set:
        _complain(f"the output could not be written: {cause.strerror}")
    return cancel.why or ExitStatus.FAILED


def _complain(text: str) -> None:
    from bantam.terminal.screen import one_line

    try:
        print(f"bantam: {one_line(text)}", file=sys.stderr, flush=True)
    except OSError:
        _abandon(sys.stderr)


def _abandon(*streams: TextIO) -> None:
    from bantam.terminal.oneshot import abandon

    for stream in streams:
        abandon(stream)


if __name__ == "__main__":
    sys.exit(main())
