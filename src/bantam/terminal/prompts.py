"""What is read before a turn: the configuration file, prompt files and standard input."""

import codecs
import errno
import os
import select
import stat
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Thread
from typing import Final

from bantam.core.cancel import Cancel, Inbox
from bantam.core.errors import ConfigError

STDIN: Final = "standard input"
_READ_BYTES: Final = 65536
_SILENCE_S: Final = 1.0
# Every key with its meaning needs 8 KiB. A larger file is no configuration, and might be endless.
_CONFIG_BYTES: Final = 1 << 20
_PROMPT_BYTES: Final = 16 << 20  # more than any model takes; a pipe might never end
_UTF_16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_config(name: str) -> bytes | None:
    """Return what the configuration file `name` holds, None if there is none. Raises ConfigError.

    The folder may be a stranger's: a FIFO must not make us wait, nor a device fill the memory.
    """
    try:
        with open(name, "rb", buffering=0, opener=_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise _unfit(name, "it is not a regular file")
            text = file.read(_CONFIG_BYTES + 1)
    except FileNotFoundError:
        if os.path.islink(name):  # noqa: PTH114  # names are text here
            raise _unfit(name, "it is a link to nothing") from None
        return None
    except IsADirectoryError as error:
        with suppress(OSError):
            if not os.listdir(name):  # noqa: PTH208  # it holds the name while a sandbox is there
                return None
        raise _unfit(name, error.strerror) from None
    except OSError as error:
        raise _unfit(name, error.strerror) from None
    if len(text) > _CONFIG_BYTES:
        raise _unfit(name, f"it is larger than {_CONFIG_BYTES} bytes")
    return text


def _without_waiting(name: str, flags: int) -> int:
    """Open `name`; a FIFO without waiting for its writer."""
    return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))


def _unfit(name: str, what: str | None) -> ConfigError:
    return ConfigError(f"{name}: {what}; make it a text file that you can read, or remove it")


def _nothing() -> None:
    pass


def read_input(
    source: int | str, cancel: Cancel, on_silence: Callable[[], None] = _nothing
) -> bytes:
    """Return everything in `source`, an open descriptor or a path. Raises Interrupted, OSError.

    A thread opens and reads, so that Ctrl+C works while a pipe stays silent. `on_silence` is called
    once, after a second of it.
    """
    inbox: Inbox[bytes | OSError] = Inbox()
    Thread(target=_read, args=(source, inbox), daemon=True).start()
    parts: list[bytes] = []
    size = 0
    patience: float | None = _SILENCE_S
    while True:
        try:
            part = cancel.get(inbox, patience)
        except TimeoutError:
            on_silence()
            patience = None
            continue
        if isinstance(part, OSError):
            raise part
        if not part:
            cancel.check()  # the end may come in the same moment
            return b"".join(parts)
        size += len(part)
        if size > _PROMPT_BYTES:
            inbox.close()
            raise OSError(errno.EFBIG, f"it is larger than {_PROMPT_BYTES >> 20} MiB")
        parts.append(part)


def _read(source: int | str, inbox: Inbox[bytes | OSError]) -> None:
    """Put the parts of `source` into `inbox`, an empty one or an error last. For a thread."""
    try:
        with open(source, "rb", buffering=0, closefd=isinstance(source, str)) as file:
            part: bytes | None = None
            while part != b"":
                part = file.read(_READ_BYTES)
                if part is None:  # there is nothing yet, and the parent has set O_NONBLOCK
                    select.select([file], [], [])
                elif not inbox.put(part):
                    return
    except OSError as error:
        inbox.put(error)


def read_prompt(source: int | str, name: str, cancel: Cancel) -> bytes:
    """Return the bytes of `source`, which errors call `name`. Raises ConfigError, Interrupted."""
    try:
        return _checked(read_input(source, cancel), name)
    except OSError as error:
        # Written as one, a prompt is taken for its file.
        is_words = isinstance(source, str) and " " in source
        hint = "; a prompt itself goes behind -p" if is_words else ""
        raise ConfigError(f"{name}: {error.strerror}{hint}") from None


def read_piped(cancel: Cancel, on_silence: Callable[[], None]) -> bytes:
    """Return what is piped in behind `-p`: nothing from a terminal, or from what is not readable.

    Raises ConfigError, Interrupted.
    """
    if sys.stdin.isatty():
        return b""
    try:
        return _checked(read_input(sys.stdin.fileno(), cancel, on_silence), STDIN)
    except OSError as error:
        if error.errno == errno.EBADF:  # open for writing only: nobody meant to pipe anything
            return b""
        raise ConfigError(f"{STDIN}: {error.strerror}") from None


def _checked(raw: bytes, name: str) -> bytes:
    if raw.startswith(_UTF_16):
        raise ConfigError(f"{name}: it is UTF-16; save it as UTF-8")
    return raw


def command_of(raw: bytes) -> bytes | None:
    r"""Return the shell command that a prompt file holds behind its first `!`, None if it is none.

    >>> command_of(b"\xef\xbb\xbf!ls\r\n"), command_of(b"ls")
    (b'ls\n', None)
    """
    text = raw.removeprefix(codecs.BOM_UTF8)
    # A carriage return would be part of the command's last word.
    return text[1:].replace(b"\r\n", b"\n") if text.startswith(b"!") else None


def decoded(raw: bytes) -> tuple[str, bool]:
    r"""Return a prompt's text, a BOM dropped, and whether all of it was UTF-8: the rest is U+FFFD.

    >>> decoded(b"caf\xe9")
    ('caf\ufffd', False)
    """
    text = raw.removeprefix(codecs.BOM_UTF8)
    try:
        return text.decode(), True
    except UnicodeDecodeError:
        return text.decode(errors="replace"), False


def joined(parts: Sequence[str]) -> str:
    """Return the parts of a prompt that say something, a blank line between them.

    Raises ConfigError if there is none.
    """
    prompt = "\n\n".join(part for part in parts if part.strip())
    if not prompt:
        raise ConfigError("the prompt is empty; write what Bantam should do")
    return prompt
