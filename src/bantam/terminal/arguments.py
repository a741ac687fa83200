"""The words of a command line -> `Options`, and the help that names them."""

from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, takewhile
from typing import Final, NoReturn

from bantam import __version__
from bantam.core.errors import ConfigError

HELP: Final = """\
bantam {version}: a small AI agent for the terminal

usage: bantam [options]           talk at a prompt; piped in, a line an input
       bantam [options] FILE      run the prompt in FILE (-: standard input);
                                  if it begins with !, as a shell command
       bantam [options] -p TEXT   the prompt is TEXT, then what is piped in
       bantam --undo [-r ID]      put back the files that the last turn wrote
       bantam --replay ID         run a session again; show what differs
       bantam --demo              the whole job without a network or a key

  -c, --continue, -r, --resume ID   go on from this project's session; from ID
  -o KEY=VALUE   set a configuration key for this run; repeatable
  --json         every event as one JSON object a line on standard output
  --no-session   save nothing
  --trust        accept the endpoint of this folder's configuration
  --version, -h, --help
Configuration: .bantam.cfg, else model.cfg, in the current folder; key=value.
{keys}
Exit status: 0 done, 1 failed, 2 wrong usage or configuration, 3 step limit,
4 budget, 75 network or server, 77 key refused, 130 Ctrl+C, 143 SIGTERM
"""
_WIDTH: Final = 79
_FLAGS: Final = {
    "--undo": "put back the files that the last turn wrote",
    "--json": "write every event as one JSON object a line",
    "--no-session": "save nothing",
    "--trust": "accept the endpoint of this folder's configuration",
    "--demo": "show the whole job without a network or a key",
    "--version": "show the version",
}
_ALONE: Final = ("demo", "undo", "replay")  # options that are a whole job


@dataclass(slots=True)
class Options:
    """What was asked for. `file` may be `-`; `prompts` are the texts of `-p`: one at most."""

    file: str | None = None
    prompts: list[str] = field(default_factory=list)
    overrides: list[str] = field(default_factory=list)
    continues: bool = False
    resume: str | None = None
    undo: bool = False
    replay: str | None = None
    json: bool = False
    no_session: bool = False
    trust: bool = False
    demo: bool = False
    version: bool = False
    help: bool = False

    @property
    def prompt(self) -> str | None:
        """The text of `-p`, None without."""
        return self.prompts[0] if self.prompts else None


class _Parser(ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message}; see bantam --help")


def parsed(arguments: Sequence[str]) -> Options:
    """Return the options in `arguments`. Raises ConfigError, which names what is wrong.

    >>> parsed(["-o", "model=m", "-p", "--what is that?"]).prompt
    '--what is that?'
    """
    options = parser().parse_args(list(_attached(arguments)), Options())
    if contradiction := _contradiction(options):
        raise ConfigError(f"{contradiction}; see bantam --help")
    return options


def parser() -> ArgumentParser:
    """Return the table of options; the shells' completions and the manual are made from it too."""
    table = _Parser(prog="bantam", add_help=False, allow_abbrev=False)
    add = table.add_argument
    add("file", nargs="?", metavar="FILE", help="run the prompt in FILE")
    add(
        "-p",
        dest="prompts",
        action="append",
        metavar="TEXT",
        help="run the prompt TEXT, then what is piped in",
    )
    add(
        "-o",
        dest="overrides",
        action="append",
        metavar="KEY=VALUE",
        help="set a configuration key for this run",
    )
    go_on = "go on from this project's session"
    add("-c", "--continue", dest="continues", action="store_true", help=go_on)
    add("-r", "--resume", metavar="ID", help="go on from the session ID")
    add("--replay", metavar="ID", help="run the session ID again; show what differs")
    for flag, meaning in _FLAGS.items():
        add(flag, action="store_true", help=meaning)
    add("-h", "--help", action="store_true", help="show all options")
    return table


def _contradiction(options: Options) -> str:
    """Return which of the options cannot both be meant; nothing if all can."""
    has_prompt = bool(options.prompts) or options.file is not None
    if len(options.prompts) > 1:
        return "-p was given twice: put the whole prompt into one"
    if options.prompts and options.file not in (None, "-"):
        return "a prompt file and -p were given: use one of them"
    if options.continues and options.resume is not None:
        return "-c and -r were given: one of them names the session"
    alone = [name for name in _ALONE if getattr(options, name)]
    if len(alone) > 1:
        return f"--{alone[0]} and --{alone[1]} were given: use one of them"
    if alone and has_prompt:
        return f"--{alone[0]} takes no prompt: leave out the file, - or -p"
    if alone and alone != ["undo"] and (options.continues or options.resume is not None):
        return f"--{alone[0]} goes on from no session: leave out -c and -r"
    if options.undo and options.no_session:
        return "--undo changes the session: leave out --no-session"
    return _without_events(options, alone, has_prompt=has_prompt) if options.json else ""


def _without_events(options: Options, alone: Sequence[str], *, has_prompt: bool) -> str:
    """Return why there is nothing that `--json` could write; nothing if there is."""
    if alone and not options.demo:
        return f"--{alone[0]} has no events: leave out --json"
    if not (has_prompt or alone or options.version or options.help):
        return "--json needs a prompt: give a file, -, or -p TEXT"
    return ""


def wants_json(arguments: Sequence[str]) -> bool:
    """Whether `--json` is among the options, even if others are wrong.

    >>> wants_json(["--fly", "--json"]), wants_json(["-p", "--json"]), wants_json(["--", "--json"])
    (True, False, False)
    """
    return "--json" in takewhile(lambda word: word != "--", _attached(arguments))


def _attached(arguments: Sequence[str]) -> Iterator[str]:
    """Yield `arguments`, each -p and -o in one word with its value.

    As a word of its own argparse takes a value that begins with a dash for an option, and right
    behind the option it drops a first `=`.
    """
    rest = iter(arguments)
    for argument in rest:
        value = list(islice(rest, 1)) if argument in ("-p", "-o") else []
        yield from [f"{argument}={value[0]}"] if any(value) else [argument, *value]
        if argument == "--":
            yield from rest


def help_text() -> str:
    """Return what `--help` prints: it fits on a screen of 80x24 with the prompt that follows."""
    from bantam.core.config import help_lines

    return HELP.format(version=__version__, keys="\n".join(help_lines(_WIDTH)))
