"""A program that reads prompts as Bantam does and prints what was submitted, one JSON a line.

Arguments: `plain`, `emacs` or `vi`, and the file of the history. The prompt `turn` is a turn, which
lasts until the file `go` is there; `ask` asks a question. With `COUNT_CALLS` in the environment a
prompt is a digest, for long ones, and it is said how many functions were called for it, Python's
own too.
"""

import asyncio
import hashlib
import json
import os
import signal
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from bantam.core.cancel import Cancel
from bantam.core.errors import ConfigError, ExitStatus, Interrupted
from bantam.core.redaction import Redaction
from bantam.terminal.inputs import Lines, PlainLines

KEY: Final = "sk-0123456789"
_WORDS: Final = {
    (): ("/load", "/list", "/help", "/cfg"),
    ("/load",): ("abc-1", "abc-2", "xyz"),
    ("/cfg",): ("model", "endpoint"),
    ("/cfg", "model"): ("kilo/free", "kilo/paid"),
}


def words_after(words: Sequence[str]) -> Iterable[str]:
    """Return what may stand behind `words`; behind some, something goes wrong."""
    if words == ["/noise"]:
        asyncio.get_running_loop().call_exception_handler({"message": "no matter"})
    if words == ["/broken"]:
        first = {"message": "", "exception": ValueError("a bug")}
        asyncio.get_running_loop().call_exception_handler(first)
        raise ValueError("what follows from it")
    return _WORDS.get(tuple(words), ())


def lines_of(mode: str, history: str) -> Lines:
    """Return where the prompts come from."""
    if mode == "plain":
        if "O_NONBLOCK" in os.environ:
            os.set_blocking(sys.stdin.fileno(), False)
        return PlainLines(sys.stdin.fileno(), sys.stdout if sys.stdout.isatty() else None)
    from bantam.terminal.editor import Editor
    from bantam.terminal.history import History

    return Editor(
        sys.stdin,
        sys.stdout,
        history=History(Path(history) if history else None, Redaction([KEY]).text),
        words_after=words_after,
        environ=os.environ,
        edit_mode=mode,
        color="NO_COLOR" not in os.environ,
    )


class Calls:
    """Counts calls of functions: the work that was done, as no clock can tell."""

    def __init__(self) -> None:
        self._number = 0

    def __call__(self, _: object, event: str, __: object) -> None:
        """Be told by the interpreter what happens."""
        self._number += event in ("call", "c_call")

    def taken(self) -> int:
        """Return the number of calls, and begin at 0 again."""
        number, self._number = self._number, 0
        return number


def digest(text: str) -> str:
    """Return what tells whether `text` is whole."""
    return f"{len(text)} characters, {hashlib.sha256(text.encode()).hexdigest()}"


def say(**what: object) -> None:
    """Print one line."""
    sys.stdout.write(f"{json.dumps(what)}\n")
    sys.stdout.flush()


def turn(lines: Lines, cancel: Cancel) -> None:
    """Let something be typed for as long as the test likes: until the file `go` is there."""
    with lines.typing_ahead():
        say(turn="starts")
        while not Path("go").exists():
            cancel.sleep(0.01)
        say(turn="ends")


def main() -> int:
    """Read to the end."""
    cancel = Cancel()

    def stop(number: int, _: object) -> None:
        by_user = number == signal.SIGINT
        cancel.set(ExitStatus.INTERRUPTED if by_user else ExitStatus.TERMINATED)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, stop)
    lines = lines_of(*sys.argv[1:3])
    calls = Calls() if "COUNT_CALLS" in os.environ else None
    sys.setprofile(calls)
    try:
        while (prompt := lines.read("> ", cancel)) is not None:
            if calls:
                say(prompt=digest(prompt), calls=calls.taken())
            else:
                say(prompt=prompt)
            if prompt == "turn":
                turn(lines, cancel)
            if prompt == "ask":
                say(answer=lines.ask("Go on? [y/N] ", cancel))
    except Interrupted:
        return cancel.why or 1
    except ConfigError as error:
        say(error=str(error))
        return 2
    say(end=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
