"""One prompt, one turn, one exit status: files, `-`, `-p`, `--json`, `--demo`.

What goes where (SPEC section 1): on a terminal everything is drawn on standard output; else it
gets the final message alone, once that is complete, and the rest goes to standard error. With
`--json` every event is one line on standard output.
"""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from shutil import which
from threading import Thread
from typing import Final, TextIO

from bantam.agent.agent import Agent
from bantam.core.cancel import Cancel, Inbox
from bantam.core.errors import ConfigError, ExitStatus
from bantam.core.events import Done, Event, Stop, as_json
from bantam.core.messages import without_surrogates
from bantam.terminal.screen import Screen

DEMO: Final = Path(__file__).parent.parent / "demo.json"
_READ_BYTES: Final = 65536

Show = Callable[[Event], None]


def run(agent: Agent, prompt: str, show: Show, cancel: Cancel) -> int:
    """Run one turn and show its events; return the exit status.

    Raises BrokenPipeError if nobody reads the output any more; the turn is ended then.
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


def plain(out: TextIO, screen: Screen) -> Show:
    """Return what draws events on `screen` and writes the final message alone to `out`."""

    def show(event: Event) -> None:
        screen.show(event)
        if isinstance(event, Done) and event.stop is Stop.FINAL:
            try:
                out.write(without_surrogates(event.text))
                out.flush()
            except BrokenPipeError:
                abandon(out)  # the work is done, whoever reads of it

    return show


def abandon(out: TextIO) -> None:
    """Let what Python still holds for `out` go nowhere, quietly, when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())


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


def read_file(path: str, cancel: Cancel) -> bytes:
    """Return the bytes of a prompt file, which may be a pipe. Raises ConfigError, Interrupted."""
    try:
        return read_input(path, cancel)
    except OSError as error:
        raise ConfigError(f"prompt file {path!r}: {error.strerror}") from None


def decoded(raw: bytes) -> str:
    """Return a prompt's text: UTF-8, a BOM dropped, other bytes as U+FFFD."""
    return raw.decode("utf-8", "replace").removeprefix("\ufeff")


def joined(parts: Iterator[str]) -> str:
    """Return the parts of a prompt that say something, a blank line between them.

    Raises ConfigError if there is none.
    """
    prompt = "\n\n".join(part for part in parts if part.strip())
    if not prompt:
        raise ConfigError("the prompt is empty; write what Bantam should do")
    return prompt


def run_command(command: str) -> int:
    """Run the shell command of a `!` prompt file with the streams of this process.

    Return its exit status, 128+n for signal n.
    """
    shell = which("bash") or which("sh") or "sh"
    process = subprocess.Popen([shell, "-c", command])
    while True:
        try:
            status = process.wait()
        except KeyboardInterrupt:
            continue  # the terminal sent it to the command as well, which decides
        return status if status >= 0 else 128 - status


def demo_prompt() -> str:
    """Return the prompt that the packaged recording answers."""
    messages = json.loads(DEMO.read_text("utf-8"))["messages"]
    prompt: str = next(m["content"] for m in messages if m["role"] == "user")
    return prompt
