"""One prompt, one turn, one exit status: files, `-`, `-p`, `--json`, `--demo`.

What goes where (SPEC section 1): on a terminal everything is drawn on standard output; else it
gets the final message alone, once that is complete, and the rest goes to standard error. With
`--json` every event is one line on standard output.
"""

import codecs
import json
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, TextIO

from bantam.core.cancel import Cancel, Inbox
from bantam.core.errors import ConfigError, ExitStatus
from bantam.core.events import Done, Event, Stop, as_json
from bantam.core.messages import without_surrogates
from bantam.terminal.screen import Screen

if TYPE_CHECKING:
    from bantam.agent.agent import Agent

DEMO: Final = Path(__file__).parent.parent / "demo.json"
_READ_BYTES: Final = 65536

Show = Callable[[Event], None]


def run(agent: "Agent", prompt: str, show: Show, cancel: Cancel) -> int:
    """Run one turn and show its events; return the exit status.

    What `show` raises ends the turn and is passed on.
    """
    status = int(ExitStatus.FAILED)
    with closing(agent.turn(prompt, cancel)) as turn:
        for event in turn:
            show(event)
            if isinstance(event, Done):
                status = event.exit_code
    return status


def json_lines(out: TextIO) -> Show:
    """Return what writes each event as one JSON object a line."""
    is_tty = out.isatty()

    def show(event: Event) -> None:
        text = without_surrogates(json.dumps(as_json(event), ensure_ascii=False))
        # To a terminal in ASCII: no character of a stranger's may act there.
        out.write((json.dumps(json.loads(text)) if is_tty else text) + "\n")
        out.flush()

    return show


def plain(out: TextIO, err: TextIO, screen: Screen) -> Show:
    """Return what draws events on `screen`, on `err`, and writes the final message alone to `out`.

    The message is what the run is for: neither a lost `err` nor a reader who left ends the turn.
    """

    def show(event: Event) -> None:
        try:
            screen.show(event)
        except OSError:
            abandon(err)
        if isinstance(event, Done) and event.stop is Stop.FINAL:
            try:
                out.write(without_surrogates(event.text))
                out.flush()
            except BrokenPipeError:
                abandon(out)

    return show


def abandon(out: TextIO) -> None:
    """Let what Python still holds for `out` go nowhere, quietly, when the process ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, out.fileno())
    os.close(nowhere)


# -- where prompts come from ------------------------------------------------------------------


def read_input(source: int | str, cancel: Cancel) -> bytes:
    """Return everything in `source`, an open descriptor or a path. Raises Interrupted, OSError.

    A thread opens and reads, so that Ctrl+C works while a pipe stays silent.
    """
    inbox: Inbox[bytes | OSError] = Inbox()
    Thread(target=_read, args=(source, inbox), daemon=True).start()
    parts: list[bytes] = []
    while True:
        part = cancel.get(inbox)
        if isinstance(part, OSError):
            raise part
        if not part:
            cancel.check()  # the end may come in the same moment
            return b"".join(parts)
        parts.append(part)


def _read(source: int | str, inbox: Inbox[bytes | OSError]) -> None:
    try:
        with open(source, "rb", buffering=0, closefd=isinstance(source, str)) as file:
            while part := file.read(_READ_BYTES):
                inbox.put(part)
        inbox.put(b"")
    except OSError as error:
        inbox.put(error)


def read_prompt(source: int | str, name: str, cancel: Cancel) -> bytes:
    """Return the bytes of `source`, which errors call `name`. Raises ConfigError, Interrupted."""
    try:
        return read_input(source, cancel)
    except OSError as error:
        raise ConfigError(f"{name}: {error.strerror}") from None


def command_of(raw: bytes) -> bytes | None:
    r"""Return the shell command that a prompt file holds behind its first `!`, None if it is none.

    >>> command_of(b"\xef\xbb\xbf!ls\r\n"), command_of(b"ls")
    (b'ls\n', None)
    """
    text = raw.removeprefix(codecs.BOM_UTF8)
    # A carriage return would be part of the command's last word.
    return text[1:].replace(b"\r\n", b"\n") if text.startswith(b"!") else None


def decoded(raw: bytes) -> str:
    """Return a prompt's text: UTF-8, a BOM dropped, other bytes as U+FFFD."""
    return raw.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace")


def joined(parts: Sequence[str]) -> str:
    """Return the parts of a prompt that say something, a blank line between them.

    Raises ConfigError if there is none.
    """
    prompt = "\n\n".join(part for part in parts if part.strip())
    if not prompt:
        raise ConfigError("the prompt is empty; write what Bantam should do")
    return prompt


def run_command(command: bytes, cancel: Cancel) -> int:
    """Run the shell command of a prompt file with the streams of this process.

    Return its exit status, 128+n for signal n. Raises ConfigError if the system cannot take it.
    """
    from bantam.tools.executors.local import shell_on

    shell = shell_on(os.environ.get("PATH", os.defpath))
    try:
        process = subprocess.Popen([shell, "-c", command])
    except (OSError, ValueError) as error:  # too long, or a NUL in it
        raise ConfigError(f"the command in the prompt file cannot be run: {error}") from None

    def forward(number: int, _: Any) -> None:
        # The terminal sends Ctrl+C to the command as well; the others come to Bantam alone.
        if number != signal.SIGINT:
            process.send_signal(number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, forward)
    if cancel.is_set:  # before there was anything to forward to
        process.terminate()
    status = process.wait()
    return status if status >= 0 else 128 - status


def demo_prompt() -> str:
    """Return the prompt that the packaged recording answers."""
    messages = json.loads(DEMO.read_text("utf-8"))["messages"]
    prompt: str = next(m["content"] for m in messages if m["role"] == "user")
    return prompt
