"""Commands on this machine.

One daemon thread reads a command's pipe into an `Inbox` and ends it with None once the shell has
exited. So the turn has one thing to wait for, and the order of output and exit is the thread's.
The shell is reaped last, by the turn: until then the thread and `Family` only look at it.
"""

import codecs
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Final

from bantam.core.cancel import Cancel, Inbox
from bantam.core.errors import ToolError
from bantam.core.redaction import Redaction, RedactionFilter
from bantam.tools.executors.family import Family, has_exited
from bantam.tools.executors.starting import NO_PREFIX, Prefix, started
from bantam.tools.tool import Exit, shown_path
from bantam.tools.workspace import Workspace

# What a command finds in its environment, whatever the user's says (SPEC section 6). And no editor:
# vim without a terminal waits for keys for ever, where one that fails tells git what is missing.
_NOBODY_IS_THERE: Final = {
    "AI_AGENT": "bantam",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "false",
    "EDITOR": "false",
    "VISUAL": "false",
}

_CHUNK: Final = 65536  # bytes of one read: what a pipe of Linux holds by default (pipe(7))
_SLICE_MS: Final = 50  # how late a shell's exit is seen while something else holds its pipe
_LATE_S: Final = 0.1  # how long the output of others is kept after it (SPEC section 6)
_TIMEOUT_GRACE_S: Final = 0.5  # from TERM to KILL at the time-out (SPEC section 6)
_INTERRUPT_GRACE_S: Final = 0.05  # likewise when cancelled: all is over in 0.2 s (section 8)
_REST_S: Final = 1.0  # for what a killed command left in its pipe, and for its shell to end

_Chunks = Inbox[bytes | None]


class LocalExecutor:
    """Acts on this machine as the user does: no path is outside.

    `cwd` is where commands start and relative paths begin. `environment` is what commands get,
    with what keeps them from waiting for a person on top. `shell` is the program that runs them.
    No value of `secrets` stands in their output.
    """

    workspace: Workspace | None = None

    def __init__(
        self, cwd: Path, environment: Mapping[str, str], secrets: Iterable[str | None] = ()
    ) -> None:
        self.cwd = cwd.absolute()
        self.environment: Mapping[str, str] = {**environment, **_NOBODY_IS_THERE}
        self.shell = shell_on(environment.get("PATH", os.defpath))
        self._redaction = Redaction(secrets)

    def run(self, command: str, timeout: float, cancel: Cancel) -> Generator[str, None, Exit]:
        """Run `command` in a fresh shell; see `tools.tool.Executor` and `run_process`."""
        return (yield from self.run_behind(NO_PREFIX, command, timeout, cancel))

    def run_behind(
        self, prefix: Prefix, command: str, timeout: float, cancel: Cancel
    ) -> Generator[str, None, Exit]:
        """Run `command` in a fresh shell that `prefix` starts."""
        # Else it is read as options. Not by `--`: FreeBSD's sh takes that for the command.
        if command.startswith(("-", "+")):
            command = f" {command}"
        argv = [*prefix.argv, self.shell, "/c" if sys.platform == "win32" else "-c", command]
        start = partial(started, argv, self.cwd, self.environment, prefix)
        output = _Output(self._redaction)
        keeper = bool(prefix.argv)
        return (yield from run_process(start, output, timeout, cancel, is_keeper=keeper))

    def resolve(self, path: str) -> Path:
        """Return the absolute path that `path` means.

        Raises ToolError for a NUL, which no path can hold.
        """
        if "\0" in path:
            what = "holds a NUL character; no file has such a name"
            raise ToolError(f"the path {shown_path(path)!r} {what}")
        if path.partition("/")[0] == "~":
            return Path(self._home() + path[1:])
        # Not Path.expanduser: it raises where the shell leaves ~nobody as it stands.
        return self.cwd / os.path.expanduser(path)  # noqa: PTH111  # Path raises at ~nobody

    def _home(self) -> str:
        """Return the environment's HOME if it is an absolute path, else what the system knows."""
        home = self.environment.get("HOME", "")
        if Path(home).is_absolute():
            return home
        if sys.platform == "win32":  # pragma: no cover  # no password database there
            return os.path.expanduser("~")  # noqa: PTH111  # text
        import pwd

        try:
            return pwd.getpwuid(os.getuid()).pw_dir
        except KeyError:  # pragma: no cover  # a user without a name, as in some containers
            raise ToolError("nobody knows what ~ is here; write the path without it") from None


def shell_on(search_path: str) -> str:
    """Return the program that runs commands: bash where `search_path` has it, else sh."""
    if sys.platform == "win32":  # pragma: no cover  # the tests run where there is an sh
        return "cmd"
    from shutil import which

    return which("bash", path=search_path) or which("sh", path=search_path) or "/bin/sh"


def run_process(
    start: "Callable[[str], subprocess.Popen[bytes]]",
    output: "_Output",
    timeout: float,
    cancel: Cancel,
    *,
    is_keeper: bool,
) -> Generator[str, None, Exit]:
    """Run what `start` starts with a marker; yield its output, standard error merged, as it comes.

    It is in a session of its own (`is_keeper`: see `Family`), and over when it has exited: what
    runs on in the background is the user's and lives. At the time-out, when cancelled (Interrupted)
    and when closed, every process of the command is killed. Raises ToolError if it cannot start.
    """
    cancel.check()
    marker = os.urandom(8).hex()
    process = start(marker)
    family = Family(process, marker, is_keeper=is_keeper)
    chunks = _Chunks()
    over = timed_out = False
    try:
        Thread(target=_read, args=(process, chunks), daemon=True).start()
        try:
            yield from _texts(chunks, output, timeout, cancel)
        except TimeoutError:
            timed_out = True
            family.end(_TIMEOUT_GRACE_S, cancel.sleep)
        over = True
        if timed_out:
            with suppress(TimeoutError):
                yield from _texts(chunks, output, _REST_S, cancel)
        if held_back := output.close():
            yield held_back
    finally:
        chunks.close()
        # What outlived a shell that exited by itself is the user's, not what outlived our TERM.
        if not over and (timed_out or not has_exited(process)):
            family.end(_INTERRUPT_GRACE_S, time.sleep)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_REST_S)
    if timed_out:
        return Exit(124, timed_out=True)
    code = process.wait()
    return Exit(code if code >= 0 else 128 - code)


class _Output:
    """Bytes in pieces -> text without secrets; bytes that are not UTF-8 become U+FFFD."""

    def __init__(self, redaction: Redaction) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._redaction = RedactionFilter(redaction)

    def feed(self, chunk: bytes) -> str:
        return self._redaction.feed(self._decoder.decode(chunk))

    def close(self) -> str:
        rest = self._decoder.decode(b"", final=True)
        return self._redaction.feed(rest) + self._redaction.close()


def _texts(
    chunks: _Chunks, output: _Output, seconds: float, cancel: Cancel
) -> Generator[str, None, None]:
    """Yield the output to its end. Raises TimeoutError after `seconds`, even if more waits."""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        chunk = cancel.get(chunks, left)
        if chunk is None:
            return
        if text := output.feed(chunk):
            yield text
    raise TimeoutError


def _read(process: "subprocess.Popen[bytes]", chunks: _Chunks) -> None:
    """Put the output into `chunks`, then None: the shell has exited. For a thread."""
    assert process.stdout is not None
    with process.stdout as pipe:
        wanted = _copy(pipe.fileno(), process, chunks)
    # After closing: who sees the end finds no descriptor left open.
    if wanted:
        chunks.put(None)


def _copy(pipe: int, process: "subprocess.Popen[bytes]", chunks: _Chunks) -> bool:
    """Copy until the shell has exited and all it wrote is read; False once nobody takes it."""
    if sys.platform == "win32":  # pragma: no cover  # pipes cannot be polled there
        while chunk := os.read(pipe, _CHUNK):
            if not chunks.put(chunk):
                return False
        return has_exited(process, wait=True)
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    while not has_exited(process):
        if not poll.poll(_SLICE_MS):
            continue
        chunk = os.read(pipe, _CHUNK)
        if not chunk:
            return has_exited(process, wait=True)
        if not chunks.put(chunk):
            return False
    return _copy_rest(pipe, poll, chunks)


def _copy_rest(pipe: int, poll: "select.poll", chunks: _Chunks) -> bool:
    """Copy what is in the pipe now, however long that takes, and what others add in 0.1 s."""
    owed = _bytes_in(pipe)
    deadline = time.monotonic() + _LATE_S
    while True:
        left = deadline - time.monotonic()
        if owed <= 0 and (left <= 0 or not poll.poll(left * 1000)):
            return True
        chunk = os.read(pipe, _CHUNK)
        if not chunk:
            return True
        if not chunks.put(chunk):
            return False
        owed -= len(chunk)


def _bytes_in(pipe: int) -> int:
    import fcntl
    import termios

    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)
