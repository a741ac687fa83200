"""Bantam, brought into a state and then stopped by a signal: how long it took and what was left."""

import json
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from llmserver import LLMServer, Reply, error, shell, text
from processes import running, unique_seconds
from program import at, start

from bantam.core.cancel import Cancel

_LONG: Final = "One word after the other. " * 40


@dataclass(frozen=True, slots=True)
class Stopped:
    """How a process ended that a signal was sent to, `seconds` after it."""

    seconds: float
    status: int
    out: bytes
    err: bytes
    survivors: list[int]


def _stubborn(marker: str) -> Reply:
    """Answer a command that ignores the signals, and whose child leaves its session."""
    return shell(f"trap '' INT TERM HUP; setsid sleep {marker} & sleep {marker}")


# State -> the event behind which it begins, and the replies that lead there.
STATES: Final[Mapping[str, tuple[str, Callable[[str], list[Reply]]]]] = {
    "connect": ("request", lambda _: []),
    "header wait": ("request", lambda _: [text(_LONG, hold=True)]),
    "stream": ("text_delta", lambda _: [text(_LONG, stall_after=900)]),
    "tool run": ("tool_call", lambda marker: [_stubborn(marker)]),
    "retry wait": ("retry", lambda _: [error(503, "busy", headers={"retry-after": "50"})]),
}


def stopped(
    state: str, delay_s: float, folder: Path, number: int = signal.SIGINT, times: int = 1
) -> Stopped:
    """Start Bantam, send `number` when it was `delay_s` seconds in `state`; return how it ended."""
    sign, replies = STATES[state]
    marker = unique_seconds()
    with (
        _endpoint(state, replies(marker)) as url,
        start("--json", *at(url), "-p", "Go.", cwd=folder) as process,
    ):
        assert process.stdout is not None
        before = b"".join(_until(sign, process.stdout))
        Cancel().sleep(delay_s)
        began = time.monotonic()
        for _ in range(times):
            process.send_signal(number)
            Cancel().sleep(0.01 if times > 1 else 0)  # else the system makes one of them
        out, err = process.communicate(timeout=60)
        seconds = time.monotonic() - began
    return Stopped(seconds, process.returncode, before + out, err, running(marker))


def _until(sign: str, out: IO[bytes]) -> Iterator[bytes]:
    """Yield the lines of `out` to the first event of the type `sign`."""
    for line in out:
        yield line
        if json.loads(line)["type"] == sign:
            return
    raise AssertionError(f"no {sign} came")


@contextmanager
def _endpoint(state: str, replies: list[Reply]) -> Iterator[str]:
    if state != "connect":
        with LLMServer(replies, strict=False) as server:
            yield server.url
        return
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        address = full.getsockname()
        # One connection waits to be accepted: of the next ones not even a refusal comes.
        with socket.create_connection(address):
            yield f"http://127.0.0.1:{address[1]}/v1"
