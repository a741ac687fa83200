"""Driving transports, attempts and clients to their end, or to a cancel, in tests."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from pathlib import Path
from time import monotonic
from typing import Any, Final, TypeVar

import pytest
from processes import eventually

import bantam
from bantam.core.cancel import Cancel
from bantam.core.errors import Interrupted
from bantam.core.events import Event, TextDelta
from bantam.core.messages import Message, Role
from bantam.model.attempt import Attempt
from bantam.model.catalogue import Catalogue
from bantam.model.client import Client, Settings
from bantam.model.completions import Assembler
from bantam.model.dialects.native import Native
from bantam.model.programs import RunTransport
from bantam.model.requests import serialised
from bantam.model.transports import (
    Exchange,
    Head,
    HTTPTransport,
    Item,
    Transport,
)

T = TypeVar("T")

PROMPT: Final = (Message(Role.USER, "Say it."),)
BODY: Final = serialised(
    {"model": "m", "messages": [{"role": "user", "content": "Say it."}], "stream": True}
)
# SPEC's bound is 0.2 s; a loaded machine gets more.
AT_ONCE_S: Final = 0.5


def http(url: str, environ: Mapping[str, str] | None = None) -> HTTPTransport:
    """Return a transport to the chat completions under `url`."""
    return HTTPTransport(
        f"{url}/chat/completions", {"Content-Type": "application/json"}, environ or {}
    )


def no_catalogue() -> Catalogue:
    """Return a catalogue that asks nobody."""
    return Catalogue(None, "m", 1000)


def client(transport: Transport, **settings: Any) -> Client:
    """Return a client of model `m` in the native dialect; `settings` as for `Settings`."""
    return Client(Settings("m", **settings), transport, Native(), no_catalogue())


def attempt(
    transport: Transport, cancel: Cancel | None = None, timeout_s: float = 20
) -> Generator[Event, None, Assembler]:
    """Return an attempt that is about to run."""
    return Attempt(transport, BODY, "call").run(timeout_s, no_catalogue(), cancel or Cancel())


def collected(running: Generator[Event, None, T]) -> tuple[list[Event], T]:
    """Return all events of `running` and its value."""
    events: list[Event] = []
    while True:
        try:
            events.append(next(running))
        except StopIteration as end:
            value: T = end.value
            return events, value


def text_of(events: list[Event]) -> str:
    """Return the text that was streamed."""
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def items_of(exchange: Exchange, seconds: float = 10) -> list[Item]:
    """Return what an exchange brings, its End or Failure last, and close it."""
    items: list[Item] = []
    with closing(exchange):
        while not items or isinstance(items[-1], Head | bytes):
            items.append(Cancel().get(exchange.inbox, seconds))
    return items


def interrupted(
    running: Generator[Event, None, Any], cancel: Cancel, ready: Callable[[], object]
) -> None:
    """Run, cancel from another thread once `ready` returns; hold that Interrupted comes at once."""
    cancelled: list[float] = []

    def set_it() -> None:
        try:
            ready()
        finally:
            cancelled.append(monotonic())
            cancel.set()

    setter = threading.Thread(target=set_it, daemon=True)
    setter.start()
    with pytest.raises(Interrupted):
        collected(running)
    late = monotonic()
    setter.join(10)
    assert late - cancelled[0] < AT_ONCE_S


def hold_that_threads_end(before: set[threading.Thread]) -> None:
    """Hold that every thread but those `before` comes to its end."""
    assert eventually(lambda: set(threading.enumerate()) <= before), threading.enumerate()


def full_listener() -> tuple[socket.socket, list[socket.socket]]:
    """Return a listening socket that takes no more connections, and what fills its queue."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    fillers: list[socket.socket] = []
    while True:
        filler = socket.socket()
        filler.settimeout(0.2)
        fillers.append(filler)
        try:
            filler.connect(listener.getsockname())
        except TimeoutError:
            return listener, fillers


def run(*command: str | Path) -> RunTransport:
    """Return the transport to a program."""
    return RunTransport("run://" + " ".join(map(str, command)))


def child(code: str, home: Path, *arguments: str) -> str:
    """Run `code` in a Python of its own that finds bantam and these modules; return its output."""
    paths = [Path(bantam.__file__).parent.parent, Path(__file__).parent]
    known = {name: os.environ[name] for name in ("PATH", "COVERAGE_FILE") if name in os.environ}
    # The coverage of subprocesses is switched on by a variable.
    known |= {n: v for n, v in os.environ.items() if n.startswith("COVERAGE_PROCESS")}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=home,
        env=known | {"HOME": str(home), "PYTHONPATH": os.pathsep.join(map(str, paths))},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
    ).stdout
