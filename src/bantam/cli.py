"""The command line: arguments, wiring, signals, exit status. Knows every room.

Whatever is imported comes after `main` listens to signals and where it is first needed: a wrong
option is answered at once, and a Ctrl+C hardly ever comes before. Only then Python reports it.
`--version`, which scripts ask for, is said before anything is imported at all.

A closed pipe on standard output ends a run quietly. What was done by then is done, status 0: help,
a version, the work of a turn whose answer nobody takes. Events that nobody reads any more end
their turn, and that has failed: status 1.
"""

import os
import sys

from bantam import __version__

TYPE_CHECKING = False  # typing's own costs 4 ms, before signals are listened to
if TYPE_CHECKING:
    from typing import Any

    from bantam.core.cancel import Cancel
    from bantam.core.errors import BantamError
    from bantam.terminal.arguments import Options
    from bantam.terminal.interrupts import Interrupts


_VERSION = f"bantam {__version__}\n"


def main() -> int:
    """Run the command line of this process; return its exit status."""
    if sys.argv[1:] == ["--version"] and _is_written(_VERSION):
        return 0
    import gc
    import signal

    # What a start makes stays: looking for garbage among it takes a tenth of the time.
    gc.set_threshold(50_000, 20, 20)
    early: list[int] = []
    _listen(lambda number, _: early.append(number))
    from bantam.core.errors import ExitStatus
    from bantam.terminal.interrupts import Interrupts
    from bantam.terminal.streams import abandon, open_streams

    interrupts = Interrupts()
    _listen(interrupts.hear)
    for number in early:
        interrupts.hear(number)
    open_streams(interrupts)
    try:
        return _status(sys.argv[1:], interrupts)
    except KeyboardInterrupt:
        abandon(sys.stdout, sys.stderr)  # what hangs may be one of them
        return interrupts.current.why or ExitStatus.INTERRUPTED
    finally:
        # While it ends, Python would let a Ctrl+C kill the process without its status.
        _listen(signal.SIG_IGN)
        gc.freeze()  # else Python looks through all that the system takes back anyway


def _is_written(text: str) -> bool:
    """Whether standard output took `text`; else whoever reports that is to say it again."""
    try:
        return os.write(1, text.encode()) == len(text)
    except OSError:
        return False


def _listen(handler: "Any") -> None:
    """Let `handler` have the signals that end a run, but those that the parent ignores.

    So nohup and the background jobs of a script stay what they are.
    """
    import signal

    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def _status(arguments: list[str], interrupts: "Interrupts") -> int:
    """Run the command line; return its exit status. Every error is reported here."""
    from bantam.core.errors import BantamError
    from bantam.terminal.streams import OutputFailed

    try:
        return _run(arguments, interrupts)
    except OutputFailed as error:
        return _output_failed(error, interrupts.current)
    except BantamError as error:
        return _failed(error, arguments, interrupts.current)
    except Exception as bug:  # noqa: BLE001  # --json promises its last line, whatever happens
        import traceback

        from bantam.terminal.keys import without_keys

        sys.stderr.write(without_keys(traceback.format_exc()))
        what = f"internal error: {type(bug).__name__}: {bug}; please report it"
        return _failed(BantamError(what), arguments, interrupts.current)


def _run(arguments: list[str], interrupts: "Interrupts") -> int:
    cancel = interrupts.current
    from bantam.terminal.arguments import help_text, parsed

    options = parsed(arguments)
    if options.help:
        return _said(help_text())
    if options.version:
        return _said(_VERSION)
    if options.undo or options.replay is not None:
        from bantam.terminal import runs

        return (runs.undo if options.undo else runs.replay)(options, cancel)
    from bantam.terminal.prompts import command_of, read_prompt

    raw = None
    if options.file not in (None, "-"):
        raw = read_prompt(options.file, _name(options.file), cancel)
        if (command := command_of(raw)) is not None:
            return _command(command, options, cancel)
    if options.demo:
        from bantam.terminal import runs

        return runs.demo(options, cancel)
    from bantam.terminal.start import configuration

    config = configuration(*options.overrides)  # before a prompt is waited for
    if options.file is None and options.prompt is None:
        from bantam.terminal.repl import converse

        return converse(options, config, interrupts, _listen)
    from bantam.terminal import runs

    return runs.turn(options, config, _prompt(options, raw, cancel), cancel)


def _name(file: str) -> str:
    return f"prompt file {file!r}"


def _command(command: bytes, options: "Options", cancel: "Cancel") -> int:
    from bantam.core.errors import ConfigError
    from bantam.terminal.command import run_command

    if options.json:
        raise ConfigError(
            f"{_name(options.file or '')} holds a shell command, which has no events: "
            "leave out --json"
        )
    return run_command(command, cancel, _listen)


def _prompt(options: "Options", raw: bytes | None, cancel: "Cancel") -> str:
    """Return the prompt that the arguments name; `raw` is what its file holds."""
    from bantam.terminal.prompts import STDIN, joined, read_piped, read_prompt

    if raw is not None:
        return joined([_text(raw, _name(options.file or ""))])
    if options.file == "-":
        piped = read_prompt(sys.stdin.fileno(), STDIN, cancel)
    else:
        piped = read_piped(cancel, _tell_waiting)
    return joined([_text(os.fsencode(options.prompt or ""), "-p"), _text(piped, STDIN)])


def _text(raw: bytes, name: str) -> str:
    from bantam.terminal.prompts import decoded
    from bantam.terminal.screen import complain

    text, is_utf_8 = decoded(raw)
    if not is_utf_8:
        complain(f"{name}: not all of it is UTF-8; what is not is sent as U+FFFD")
    return text


def _tell_waiting() -> None:
    from bantam.terminal.screen import complain

    complain("waiting for the end of standard input (< /dev/null to do without)")


# -- saying it --------------------------------------------------------------------------------


def _said(text: str) -> int:
    from bantam.core.errors import ExitStatus
    from bantam.terminal.streams import say

    say(text)
    return ExitStatus.DONE


def _failed(error: "BantamError", arguments: list[str], cancel: "Cancel") -> int:
    """Report an error that no turn has, in the form that was asked for."""
    from bantam.agent.agent import failed
    from bantam.terminal.arguments import wants_json
    from bantam.terminal.keys import without_keys
    from bantam.terminal.oneshot import json_lines
    from bantam.terminal.screen import complain
    from bantam.terminal.streams import abandon

    error.args = (without_keys(str(error)),)
    done = failed(error, cancel)
    if wants_json(arguments):
        try:
            json_lines(sys.stdout)(done)
        except OSError:
            abandon(sys.stdout)
    complain(str(error))
    return done.exit_code


def _output_failed(error: Exception, cancel: "Cancel") -> int:
    from bantam.core.errors import ExitStatus
    from bantam.terminal.screen import complain
    from bantam.terminal.streams import abandon

    abandon(sys.stdout)
    cause = error.__cause__
    if isinstance(cause, OSError) and not isinstance(cause, BrokenPipeError) and not cancel.is_set:
        complain(f"the output could not be written: {cause.strerror}")
    return cancel.why or ExitStatus.FAILED


if __name__ == "__main__":
    sys.exit(main())
