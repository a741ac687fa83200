"""read_file: a file's text, its middle left out where it is long.

The file is read through to its end in blocks, since that is the only way to know how many
characters are left out: memory holds what is shown, and a cancel is seen between two blocks.
"""

import codecs
import os
import stat
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from bantam.core.cancel import Cancel
from bantam.core.errors import ToolError, why_of
from bantam.tools.files import check_path
from bantam.tools.shell import Excerpt
from bantam.tools.tool import Executor, Result, Tool, shown_path
from bantam.tools.workspace import Workspace, opened, state_of

_BLOCK_BYTES: Final = 1 << 20


def read_tool(executor: Executor, *, output_limit: int) -> Tool:
    """Return the tool `read_file`, which finds its files through `executor`.

    Of a text that has more than `output_limit` characters the middle is left out.
    """

    def run(arguments: Mapping[str, Any], cancel: Cancel) -> Generator[str, None, Result]:
        yield from ()  # no output before the result
        return _read(executor, arguments["path"], output_limit, cancel)

    return Tool(
        name="read_file",
        description="Return a file's text. The middle of a long one is left out.",
        parameters={"path": {"type": "string"}},
        run=run,
        paths=frozenset({"path"}),
    )


def _read(executor: Executor, given: str, limit: int, cancel: Cancel) -> Result:
    shown = shown_path(given)
    check_path(given, shown)
    excerpt = Excerpt(limit)
    try:
        for text in _texts(executor.resolve(given), executor.workspace, shown, cancel):
            excerpt.add(text)
    except OSError as error:
        raise ToolError(f"cannot read {shown}: {why_of(error)}") from error
    return Result(excerpt.text() or f"[{shown} is empty]")


def _texts(path: Path, workspace: Workspace | None, shown: str, cancel: Cancel) -> Iterator[str]:
    """Yield the text of the file in pieces. Raises ToolError if it holds none."""
    # Before the open, which a pipe would never end.
    _check_kind(state_of(path, workspace, writing=False).st_mode, shown)
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    with opened(path, workspace, writing=False) as file:
        block = file.read(_BLOCK_BYTES).removeprefix(codecs.BOM_UTF8)
        while block:
            cancel.check()
            if b"\0" in block:
                size = os.fstat(file.fileno()).st_size
                raise ToolError(
                    f"{shown} is no UTF-8 text: it holds NUL bytes, among its {size} bytes. "
                    "To look into it use shell_exec"
                )
            yield decoder.decode(block)
            block = file.read(_BLOCK_BYTES)
    yield decoder.decode(b"", final=True)


def _check_kind(mode: int, shown: str) -> None:
    if stat.S_ISDIR(mode):
        raise ToolError(f"{shown} is a folder; to list it use shell_exec")
    if not stat.S_ISREG(mode):
        raise ToolError(f"{shown} is a device, pipe or socket; to read from it use shell_exec")
