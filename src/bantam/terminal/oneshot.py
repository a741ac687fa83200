"""One prompt, one turn, one exit status: what is shown of it, and where.

What goes where (SPEC section 1): on a terminal everything is drawn on standard output; else it
gets the final message alone, once that is complete, and the rest goes to standard error. With
`--json` every event is one line on standard output.
"""

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from bantam.core.cancel import Cancel
from bantam.core.errors import ExitStatus
from bantam.core.events import Done, Event, Stop, as_json
from bantam.core.messages import without_surrogates
from bantam.terminal.screen import Screen
from bantam.terminal.streams import OutputFailed, abandon

if TYPE_CHECKING:
    from bantam.agent.agent import Agent

Show = Callable[[Event], None]


def run(agent: "Agent", prompt: str, show: Show, cancel: Cancel) -> int:
    """Run one turn and show its events; return the exit status.

    An output that takes no more ends the turn: raises OutputFailed.
    """
    status = int(ExitStatus.FAILED)
    with closing(agent.turn(prompt, cancel)) as turn:
        for event in turn:
            try:
                show(event)
            except OSError as error:
                raise OutputFailed from error
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


def drawn_on(screen: Screen, err: TextIO) -> Show:
    """Return what draws events on `screen`, which is `err`; that it is gone ends nothing."""

    def show(event: Event) -> None:
        try:
            screen.show(event)
        except OSError:
            abandon(err)

    return show


def plain(out: TextIO, err: TextIO, screen: Screen) -> Show:
    """Return what draws events on `screen`, on `err`, and writes the final message alone to `out`.

    The message is what the run is for: neither a lost `err` nor a reader who left ends the turn.
    """
    draw = drawn_on(screen, err)

    def show(event: Event) -> None:
        draw(event)
        if isinstance(event, Done) and event.stop is Stop.FINAL:
            try:
                out.write(without_surrogates(event.text))
                out.flush()
            except BrokenPipeError:
                abandon(out)

    return show


def demo_prompt(recording: Path) -> str:
    """Return the prompt that `recording` answers."""
    messages = json.loads(recording.read_text("utf-8"))["messages"]
    prompt: str = next(m["content"] for m in messages if m["role"] == "user")
    return prompt
