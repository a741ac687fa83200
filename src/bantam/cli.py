"""The command line: arguments, wiring, signals, exit status. Knows every room.

Whatever is heavy is imported where it is first needed, so that `--version` and a wrong option
answer at once.
"""

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, TextIO

from bantam import __version__
from bantam.core.cancel import Cancel
from bantam.core.errors import BantamError, ConfigError, ExitStatus

if TYPE_CHECKING:
    from argparse import Namespace

    from bantam.core.config import Config
    from bantam.terminal.oneshot import Show

HELP: Final = """\
bantam {version}: a small AI agent for the terminal

usage: bantam [options] FILE       run the prompt in FILE (first character !: a shell command)
       bantam [options] -          the prompt is standard input
       bantam [options] -p TEXT    the prompt is TEXT, then piped standard input
       bantam --demo               the whole job without a network or a key

options:
  -o KEY=VALUE   set a configuration key for this run; repeatable
  --json         every event as one JSON object a line on standard output
  --no-session   save nothing
  --trust        accept the endpoint that this folder's configuration names
  --version, -h, --help

configuration: .bantam.cfg, else model.cfg, in the current folder; key=value a line.
{keys}
exit status: 0 done, 1 failed, 2 wrong usage or configuration or untrusted endpoint,
  3 step limit, 4 budget used up, 75 try again later, 77 key refused, 130 Ctrl+C, 143 SIGTERM
"""


def main() -> int:
    """Run the command line of this process; return its exit status."""
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        print(f"bantam {__version__}")
        return ExitStatus.DONE
    cancel = Cancel()
    _on_signals(cancel)
    _open_closed_streams()
    try:
        return _run(_parsed(arguments), cancel)
    except BantamError as error:
        return _failed(error, cancel, as_json="--json" in arguments)
    except OSError as error:
        # Every other floor handles its own: this is the output's, full or nobody reading it.
        return _output_failed(error)


def _open_closed_streams() -> None:
    """Give the streams that the parent closed (`>&-`) something to read from or write to."""
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: PTH123, SIM115  open for the process's life
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: PTH123, SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: PTH123, SIM115


def _on_signals(cancel: Cancel) -> None:
    """Let Ctrl+C, SIGTERM and SIGHUP cancel the turn; a second one ends the process at once."""

    def handle(number: int, _: Any) -> None:
        status = ExitStatus.INTERRUPTED if number == signal.SIGINT else ExitStatus.TERMINATED
        if cancel.is_set:
            os._exit(status)
        cancel.set(status)

    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if (number := getattr(signal, name, None)) is not None:
            signal.signal(number, handle)


def _parsed(arguments: list[str]) -> "Namespace":
    from argparse import ArgumentParser

    class Parser(ArgumentParser):
        def error(self, message: str) -> NoReturn:
            raise ConfigError(f"{message}; see bantam --help")

    parser = Parser(prog="bantam", add_help=False, allow_abbrev=False)
    parser.add_argument("file", nargs="?")
    parser.add_argument("-p", dest="prompt")
    parser.add_argument("-o", dest="overrides", action="append", default=[])
    for flag in ("--json", "--no-session", "--trust", "--demo", "--version"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("-h", "--help", action="store_true")
    return parser.parse_args(arguments)


def _run(options: "Namespace", cancel: Cancel) -> int:
    from bantam.terminal import oneshot

    if options.help:
        from bantam.core.config import help_lines

        print(HELP.format(version=__version__, keys="\n".join(help_lines())), end="")
        return ExitStatus.DONE
    if options.version:
        print(f"bantam {__version__}")
        return ExitStatus.DONE
    if options.demo:
        return _demo(options, cancel)
    raw = oneshot.read_file(options.file, cancel) if options.file not in (None, "-") else None
    if raw is not None and oneshot.decoded(raw).startswith("!"):
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        return oneshot.run_command(oneshot.decoded(raw)[1:])
    prompt = _prompt(options, raw, cancel)
    return _turn(options, _config(options), prompt, cancel)


def _prompt(options: "Namespace", raw: bytes | None, cancel: Cancel) -> str:
    """Return the prompt that the arguments name."""
    from bantam.terminal import oneshot

    if raw is not None and options.prompt is not None:
        raise ConfigError("a prompt file and -p were given: use one of them; see bantam --help")
    if raw is not None:
        return oneshot.joined(iter([oneshot.decoded(raw)]))
    if options.prompt is None and options.file is None:
        raise ConfigError("there is no prompt: give a file, -, or -p TEXT; see bantam --help")
    piped = b""
    if options.file == "-" or not sys.stdin.isatty():
        piped = oneshot.read_input(sys.stdin.fileno(), cancel)
    return oneshot.joined(iter([options.prompt or "", oneshot.decoded(piped)]))


def _config(options: "Namespace") -> "Config":
    """Return the configuration of the current folder, the environment and `-o`."""
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


def _turn(options: "Namespace", config: "Config", prompt: str, cancel: Cancel) -> int:
    from bantam.agent.agent import Agent, Surroundings
    from bantam.terminal import oneshot

    agent = Agent(config, Surroundings.now(), trust=options.trust)
    try:
        return oneshot.run(agent, prompt, _show(options, config), cancel)
    finally:
        agent.close()


def _show(options: "Namespace", config: "Config") -> "Show":
    """Return what shows the events of this run."""
    from bantam.core.config import use_color
    from bantam.terminal.oneshot import json_lines, plain
    from bantam.terminal.screen import Screen

    sys.stdout.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
    if options.json:
        return json_lines(sys.stdout)
    alone = sys.stdout.isatty()
    out: TextIO = sys.stdout if alone else sys.stderr
    is_tty = out.isatty()
    color = use_color(config.color, os.environ, is_tty=is_tty)
    screen = Screen(out, is_tty=is_tty, color=color, answers=alone)
    return screen.show if alone else plain(sys.stdout, screen)


def _demo(options: "Namespace", cancel: Cancel) -> int:
    """Run the packaged recording in a new temporary folder."""
    import tempfile

    from bantam.core.config import resolve
    from bantam.terminal import oneshot

    folder = tempfile.mkdtemp(prefix="bantam-demo-")
    print(f"This is a recording: no network, no key. Its files are in {folder}", file=sys.stderr)
    os.chdir(folder)
    overrides = [*options.overrides, f"endpoint=replay://{oneshot.DEMO}", "model=recording"]
    return _turn(options, resolve((), overrides, os.environ), oneshot.demo_prompt(), cancel)


def _failed(error: BantamError, cancel: Cancel, *, as_json: bool) -> int:
    """Report an error from before the turn, in the form that was asked for."""
    from bantam.agent.agent import failed
    from bantam.core.text import screen_text
    from bantam.terminal.oneshot import json_lines

    done = failed(error, cancel)
    if as_json:
        json_lines(sys.stdout)(done)
    print(f"bantam: {screen_text(str(error))}", file=sys.stderr)
    return done.exit_code


def _output_failed(error: OSError) -> int:
    from bantam.terminal.oneshot import abandon

    abandon(sys.stdout)
    if not isinstance(error, BrokenPipeError):
        print(f"bantam: the output could not be written: {error.strerror}", file=sys.stderr)
    abandon(sys.stderr)
    return ExitStatus.FAILED


if __name__ == "__main__":
    sys.exit(main())
