r"""What was typed before, kept in a file for the next time.

The file is UTF-8 text, oldest entry first, a line an entry; in it `\n` is a line break and `\\` a
backslash. So an entry of many lines stays one, `grep` finds it, and a line that somebody else wrote
is an entry as it stands. Several Bantams append at once: each entry is one write at the end. The
file is never rewritten, and only its last part is read.
"""

import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Final

from bantam.core.config import OPTIONS
from bantam.core.settings import meant_by
from bantam.core.text import screen_text
from bantam.sessions.files import opened

_READ_BYTES: Final = 1 << 20
# What is longer was pasted, and a few such would be all that is read.
_ENTRY_BYTES: Final = 1 << 16
_ENTRIES: Final = 10_000  # the editor copies all of them for each prompt
_ESCAPED: Final = re.compile(r"\\([n\\])")
# A command, however it may be mistyped, and what follows: a key may be one of its first words.
_COMMAND: Final = re.compile(r"^[^\S\n]*+/(\S*+(?:\s++\S++){0,3})", re.MULTILINE)
_OPTION: Final = re.compile(r"(?:^|\s)-o\s*+[\"']?([\w.-]++)=(\S*+)")
_BETWEEN: Final = re.compile(r"[\s=:]+")
_NAME: Final = re.compile(r"\A/?([\w.-]{1,40})\Z")
# Names of what only its owner may know; `max_tokens` is none.
_SECRET_NAME: Final = re.compile(
    r"(^|[._-])(key|token|secret|password|passwd|auth|authorization|credentials?|cookie)$"
)
_QUERY_OR_USER: Final = re.compile("[?@]")


class History:
    """The entries of the file `path`, oldest first, and what is added; None: in memory alone.

    `redacted` is what replaces the user's keys in a text: what it would change is not kept. A file
    that cannot be read or written is no error: the history is a convenience.
    """

    def __init__(self, path: Path | None, redacted: Callable[[str], str]) -> None:
        self._path = path
        self._redacted = redacted
        self.entries: list[str] = []
        if path is not None:
            with suppress(OSError):
                # Others may have written the file, and the screen shows it.
                self.entries = [screen_text(entry) for entry in decoded(_end_of(path))]

    def add(self, entry: str) -> bool:
        """Keep `entry`; False for what is blank, holds a key, or repeats the last entry."""
        if not entry.strip() or self.entries[-1:] == [entry]:
            return False
        if _sets_secret(entry) or self._redacted(entry) != entry:
            return False
        self.entries.append(entry)
        line = encoded(entry)
        if self._path is not None and len(line) <= _ENTRY_BYTES:
            with suppress(OSError):
                _append(self._path, line)
        return True


def _sets_secret(entry: str) -> bool:
    """Whether `entry` may set a key, by whatever name, or an address that may hold one."""
    commands = ((_BETWEEN.split(words), words) for words in {*_COMMAND.findall(entry)})
    options = (([name], value) for name, value in _OPTION.findall(entry))
    return any(_is_secret(names, text) for names, text in chain(commands, options))


def _is_secret(names: Iterable[str], text: str) -> bool:
    meant = {meant_by(name[0], OPTIONS).lower() for name in map(_NAME.findall, names) if name}
    if any(_SECRET_NAME.search(each) for each in meant):
        return True
    return "endpoint" in meant and bool(_QUERY_OR_USER.search(text))


def encoded(entry: str) -> bytes:
    r"""Return the line of the file that holds `entry`.

    >>> encoded("a\nb")
    b'a\\nb\n'
    """
    line = entry.replace("\\", r"\\").replace("\n", r"\n") + "\n"
    return line.encode("utf-8", "replace")


def decoded(raw: bytes) -> list[str]:
    r"""Return the last entries of a file, oldest first; what is not UTF-8 is U+FFFD.

    >>> decoded(b"a\\nb\n\nok \xe9\n")
    ['a\nb', 'ok \ufffd']
    """
    lines = [line for line in raw.decode("utf-8", "replace").split("\n") if line]
    return [_ESCAPED.sub(_unescaped, line) for line in lines[-_ENTRIES:]]


def _unescaped(match: re.Match[str]) -> str:
    return "\n" if match[1] == "n" else "\\"


def _end_of(path: Path) -> bytes:
    """Return the last `_READ_BYTES` of `path`, from the beginning of a line on."""
    with os.fdopen(opened(path, os.O_RDONLY), "rb") as file:
        size = file.seek(0, os.SEEK_END)
        if size <= _READ_BYTES:
            file.seek(0)
            return file.read(_READ_BYTES)
        file.seek(size - _READ_BYTES)
        return file.read(_READ_BYTES).partition(b"\n")[2]


def _append(path: Path, line: bytes) -> None:
    """Add `line` to the end of `path`, behind a line break if the last line lacks one."""
    fd = opened(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    try:
        size = os.fstat(fd).st_size
        if size and os.pread(fd, 1, size - 1) != b"\n":  # a full disk has cut it
            line = b"\n" + line
        os.write(fd, line)
    finally:
        os.close(fd)
