"""shell_exec: a command's output and exit status, as text that fits into a conversation.

Whatever a command prints, memory holds the head and the tail that are shown. The whole goes to a
private file once it is more than that, and the result names it.
"""

import os
from collections import deque
from collections.abc import Callable, Generator, Mapping
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import IO, Any, Final

from bantam.core.cancel import Cancel
from bantam.core.errors import ToolError
from bantam.core.events import Status
from bantam.core.generators import if_any, through
from bantam.tools.tool import Executor, Result, Tool

_HEAD_SHARE: Final = 0.6  # of what is shown (SPEC section 6)
_FILE_BYTES: Final = 64 * 1024 * 1024  # of one output that are kept (SPEC section 6)


def private_folder() -> Path:
    """Make a folder that nobody else can enter (0700), removed when the program ends."""
    import atexit
    import shutil
    import tempfile

    folder = tempfile.mkdtemp(prefix="bantam-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def shell_tool(
    executor: Executor,
    *,
    timeout_s: float,
    output_limit: int,
    spill_folder: Callable[[], Path] | None = None,
) -> Tool:
    """Return shell_exec, which runs one command in `executor` for at most `timeout_s`.

    The result is the output, its middle left out if it has more than `output_limit` characters,
    and `exit: N` as the last line. A command that failed is status `ok`, as `exit_code` says the
    rest; one that was killed at its time-out is an `error`. The head is yielded as it comes, and
    at the end what is shown behind it. `spill_folder` says where whole outputs go, each time that
    one is needed; else a folder is made for them.
    """
    folder = spill_folder or cache(private_folder)

    def run(arguments: Mapping[str, Any], cancel: Cancel) -> Generator[str, None, Result]:
        command = _checked(arguments["command"])
        with closing(Excerpt(output_limit, folder)) as excerpt:
            pieces = executor.run(command, timeout_s, cancel)
            end = yield from through(pieces, lambda piece: if_any(excerpt.add(piece)))
            text = excerpt.text()
            yield from if_any(excerpt.rest())
        if end.timed_out:
            text = f"{_with_newline(text)}[timed out after {timeout_s:g} s; killed]"
        status = Status.ERROR if end.timed_out else Status.OK
        return Result(f"{text}\n\nexit: {end.code}", status, exit_code=end.code)

    return Tool(
        name="shell_exec",
        description=(
            "Run a command in a fresh shell, in the working directory: no directory or variable "
            "carries over from call to call. There is no input and no terminal. It is killed "
            f"after {timeout_s:g} s; send a background process's output to a file. "
            "Long output is cut in the middle."
        ),
        parameters={"command": {"type": "string"}},
        run=run,
    )


def _checked(command: str) -> str:
    if not command.strip():
        raise ToolError("the command is empty; nothing was run")
    if "\0" in command:
        raise ToolError("the command holds a NUL character, which no shell can read; write \\0")
    return command


def _with_newline(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"


class Excerpt:
    """Head and tail of a text that comes in pieces: memory holds about `limit` characters of it.

    The whole goes to a file in `spill_folder()`, if given, made when there turns out to be more.
    """

    def __init__(self, limit: int, spill_folder: Callable[[], Path] | None = None) -> None:
        self._limit = limit
        self._spill_folder = spill_folder
        self._whole: _WholeFile | None = None
        self._length = 0
        self._head: list[str] = []
        self._head_room = int(limit * _HEAD_SHARE)
        self._tail: deque[str] = deque()
        self._tail_room = limit - self._head_room
        self._tail_length = 0

    def add(self, piece: str) -> str:
        """Take the next piece; return the part of it that belongs to the head, perhaps empty."""
        self._length += len(piece)
        head, rest = piece[: self._head_room], piece[self._head_room :]
        self._head_room -= len(head)
        if head:
            self._head.append(head)
        if rest:
            self._tail.append(rest)
            self._tail_length += len(rest)
        if self._length > self._limit:
            if self._spill_folder is not None:
                self._keep_whole(piece, self._spill_folder)
            self._shorten_tail()
        return head

    def text(self) -> str:
        """Return the whole text, or head and tail with one line between them. Ends the file."""
        return "".join(self._head) + self.rest()

    def rest(self) -> str:
        """Return what stands behind the head in `text()`. Ends the file."""
        tail = "".join(self._tail)
        if self._length <= self._limit:
            return tail
        tail = tail[len(tail) - self._tail_room :]
        whereabouts = ""
        if self._whole is not None:
            self._whole.close()
            whereabouts = f"; {self._whole.whereabouts}"
        note = f"[{self._length - self._limit} characters left out{whereabouts}]"
        newline = "\n" if self._head and not self._head[-1].endswith("\n") else ""
        return f"{newline}{note}\n{tail}"

    def close(self) -> None:
        """End the file, if there is one."""
        if self._whole is not None:
            self._whole.close()

    def _keep_whole(self, piece: str, folder: Callable[[], Path]) -> None:
        if self._whole is not None:
            self._whole.write(piece)
            return
        self._whole = _WholeFile(folder)
        for kept in (*self._head, *self._tail):
            self._whole.write(kept)

    def _shorten_tail(self) -> None:
        """Drop the oldest pieces that the tail can do without."""
        while self._tail and self._tail_length - len(self._tail[0]) >= self._tail_room:
            self._tail_length -= len(self._tail.popleft())


class _WholeFile:
    """A new file (0600) that keeps a text, in UTF-8, as far as there is room for it.

    No failure is raised: the text is not worth the loss of the result that it belongs to.
    `whereabouts` says what became of it.
    """

    def __init__(self, folder: Callable[[], Path]) -> None:
        import tempfile

        self.whereabouts = ""
        self._room = _FILE_BYTES
        self._file: IO[bytes] | None = None
        try:
            number, path = tempfile.mkstemp(dir=folder(), prefix="output-", suffix=".txt")
        except OSError as error:
            self._give_up(error)
            return
        self._file = os.fdopen(number, "wb")
        self._path = path
        self.whereabouts = f"the whole is in {path}"

    def write(self, text: str) -> None:
        if self._file is None:
            return
        data = text.encode(errors="replace")
        if len(data) > self._room:
            # No half of a code point at the file's end, and nothing behind what is missing.
            data = data[: self._room].decode(errors="ignore").encode()
            self._room = len(data)
            self.whereabouts = f"the first {_FILE_BYTES >> 20} MiB are in {self._path}"
        self._room -= len(data)
        try:
            self._file.write(data)
        except OSError as error:
            self._give_up(error)

    def close(self) -> None:
        """Write what is still in memory. May be called again."""
        if self._file is None:
            return
        try:
            self._file.close()
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        """Let go of the file: a part without its end is no use, and the disk may be full."""
        self.whereabouts = f"the whole could not be kept: {error.strerror}"
        if self._file is None:
            return
        with suppress(OSError):  # it would write what could not be written just now
            self._file.close()
        with suppress(OSError):
            os.unlink(self._path)  # noqa: PTH108  # mkstemp gives text
        self._file = None
