"""What a process costs: wall, CPU and peak memory by the kernel's own count, and its requests.

A child's peak begins with its parent's memory (`ru_maxrss` outlives exec), so the process that
measures stays small, and a peak that may be its own is not told.
"""

import math
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from threading import Timer
from typing import BinaryIO, Final

from wire import Request, Wire

BANTAM: Final = str(Path(sys.executable).parent / "bantam")
LIMIT_S: Final = 120  # of one process
_KEPT: Final = 4096  # bytes of what is written: enough to find a prompt in
_WHERE_IS_THE_CURSOR: Final = b"\x1b[6n"
# The editor asks for marked pastes, then draws its sign.
_PROMPT: Final = re.compile(rb"\x1b\[\?2004h[^>]*>")
# The process, and where its output is read.
_Started = tuple["subprocess.Popen[bytes]", int]


@dataclass(frozen=True, slots=True)
class Command:
    """What is started: in `folder`, which is its home too, else in a new one.

    `keys`: on a terminal of 80x24, where each is typed at the next prompt; without, standard
    input and output are pipes.
    """

    argv: tuple[str, ...]
    stdin: bytes = b""
    keys: tuple[bytes, ...] | None = None
    folder: Path | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """A process that has ended well.

    `peak_mib`: None where the peak may be that of the process that measures.
    `prompt_s`: until the first prompt at which keys were typed.
    `said`: the last words on standard output.
    """

    began: float
    wall_s: float
    cpu_s: float
    peak_mib: float | None
    prompt_s: float
    said: bytes
    requests: Sequence[Request]

    @property
    def first_request_s(self) -> float:
        """From the start until the first request had come whole."""
        return self.posts[0].at - self.began

    @property
    def posts(self) -> list[Request]:
        """The requests for an answer."""
        return [each for each in self.requests if each.method == "POST"]

    @property
    def gaps_s(self) -> list[float]:
        """From each answer until the next request had come whole."""
        return [b.at - a.answered for a, b in pairwise(self.posts)]

    @property
    def measures(self) -> dict[str, float]:
        """All that is counted for every process, under the names of the JSON."""
        size = sum(each.size for each in self.posts[1:])
        return {
            "wall_s": self.wall_s,
            "cpu_s": self.cpu_s,
            "peak_mib": math.nan if self.peak_mib is None else self.peak_mib,
            "bytes_sent": sum(each.sent for each in self.requests),
            "requests": len(self.requests),
            "connections": len({each.connection for each in self.requests}),
            "prefix_reuse": sum(each.same for each in self.posts) / size if size else 0.0,
        }


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of some values, the least and the most."""

    median: float
    min: float
    max: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        return cls(median(values), min(values), max(values))


@dataclass(frozen=True, slots=True)
class Row:
    """One line: values of all runs, those of the yardstick, and at most one bound."""

    what: str
    unit: str
    values: Sequence[float]
    against: str = ""
    yardstick: Sequence[float] = ()
    bound: float | None = None
    is_value: bool = False


@dataclass
class Bench:
    """Where and how often is measured; `processes` keeps what each process cost."""

    wire: Wire
    folder: Path
    runs: int
    processes: dict[str, list[dict[str, float]]] = field(default_factory=dict)

    def in_turns(self, commands: Mapping[str, Command], times: float = 1) -> dict[str, list[Run]]:
        """Return runs of each: A B A B, so that what else runs slows all of them."""
        taken: dict[str, list[Run]] = {name: [] for name in commands}
        for _ in range(max(1, int(self.runs * times))):
            for name, command in commands.items():
                taken[name].append(measured(command, self.wire))
        self.processes |= {name: [run.measures for run in runs] for name, runs in taken.items()}
        return taken

    def warm_up(self) -> None:
        """Run what will run once: Python compiles what is not yet compiled. Keeps a body."""
        wanted = [
            Command(self.bantam("rounds-1", "-p", "hello")),
            Command(self.bantam("hello"), keys=(b"hello\r", b"\x04")),
            Command(self.bantam("tokens-100", "-p", "hello"), keys=()),
            Command(self.bantam("hello", "-p", "hello")),
        ]
        for command in wanted:
            measured(command, self.wire)
        Path(self.body()).write_bytes(self.wire.body())
        measured(Command(self.minimal("with_httpx", "hello", self.body())), self.wire)
        measured(Command(self.minimal("with_http_client", "hello", self.body())), self.wire)
        measured(Command(self.minimal("with_prompt_toolkit", ""), keys=(b"\x04",)), self.wire)

    def bantam(self, answer: str, *arguments: str) -> tuple[str, ...]:
        """Return a call of Bantam to which the server says `answer`."""
        options = (
            "max_al_iterations=2000",
            "context_window=10000000",
            f"endpoint={self.wire.url}/{answer}",
        )
        return (BANTAM, *(part for each in options for part in ("-o", each)), *arguments)

    def minimal(self, script: str, answer: str, *arguments: str) -> tuple[str, ...]:
        """Return a call of one of the scripts that are compared against."""
        path = Path(__file__).with_name("minimal") / f"{script}.py"
        return (sys.executable, str(path), self._url(answer), *arguments)

    def curl(self, answer: str, body: str) -> tuple[str, ...]:
        header = "content-type: application/json"
        return ("curl", "-sSN", "-H", header, "--data-binary", f"@{body}", self._url(answer))

    def body(self) -> str:
        """Return the path of a file with the body of a request for hello."""
        return str(self.folder / "body.json")

    def _url(self, answer: str) -> str:
        return f"{self.wire.url}/{answer}/chat/completions"


def measured(command: Command, wire: Wire) -> Run:
    """Return what `command` costs. Raises RuntimeError if it fails or is not done in time."""
    wire.taken()
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        start = _at_terminal if command.keys is not None else _at_pipes
        with Path(folder, "stderr").open("wb") as errors:
            process, output = start(command, command.folder or Path(folder), errors)
        limit = Timer(LIMIT_S, os.killpg, (process.pid, signal.SIGKILL))
        limit.start()
        try:
            said, prompt_at = _read(output, command.keys or ())
            _, status, usage = os.wait4(process.pid, 0)
            wall_s = time.monotonic() - began
        finally:
            limit.cancel()
            limit.join()  # no thread is there when the next process starts
            os.close(output)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            said += Path(folder, "stderr").read_bytes()[-_KEPT:]
            raise RuntimeError(f"{command.argv}: {process.returncode}: {said.decode()}")
    cpu_s = usage.ru_utime + usage.ru_stime
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    peak_mib = usage.ru_maxrss / 1024 if usage.ru_maxrss > own else None
    return Run(began, wall_s, cpu_s, peak_mib, prompt_at - began, said, wire.taken())


def _environ(home: Path) -> dict[str, str]:
    environ = {"PATH": os.environ["PATH"], "HOME": str(home)}
    return environ | {"LANG": "C.UTF-8", "TERM": "xterm-256color"}


def _at_terminal(command: Command, here: Path, _: BinaryIO) -> _Started:
    """Start `command` on a terminal of its own; return it, and where its output is read."""
    output, terminal = os.openpty()
    termios.tcsetwinsize(terminal, (24, 80))
    process = subprocess.Popen(
        command.argv,
        cwd=here,
        env=_environ(here),
        preexec_fn=lambda: os.login_tty(terminal),  # noqa: PLW1509  # there is no other thread
    )
    os.close(terminal)
    return process, output


def _at_pipes(command: Command, here: Path, errors: BinaryIO) -> _Started:
    """Start `command` in a pipeline; return it, and where its output is read."""
    source, typed = os.pipe()
    os.write(typed, command.stdin)  # less than a pipe holds
    os.close(typed)
    output, written = os.pipe()
    process = subprocess.Popen(
        command.argv,
        cwd=here,
        env=_environ(here),
        stdin=source,
        stdout=written,
        stderr=errors,
        start_new_session=True,
    )
    os.close(source)
    os.close(written)
    return process, output


def _read(output: int, keys: Sequence[bytes]) -> tuple[bytes, float]:
    """Read to the end and type `keys`; return the last words and when the first prompt came."""
    rest = list(keys)
    last, prompt_at = b"", 0.0
    while part := _part(output):
        last = (last + part)[-_KEPT:]
        if _WHERE_IS_THE_CURSOR in part:
            os.write(output, b"\x1b[1;1R")
        if rest and _PROMPT.search(last):
            prompt_at = prompt_at or time.monotonic()
            os.write(output, rest.pop(0))
            last = b""
    return last, prompt_at


def _part(output: int) -> bytes:
    try:
        return os.read(output, 1 << 18)
    except OSError:  # how a terminal says that its last process has gone
        return b""
