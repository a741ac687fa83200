"""A text written in the user's own editor: `$VISUAL`, else `$EDITOR`, else one that is there.

The file lies in a new private folder: editors put copies beside it, with modes of their own.
"""

import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bantam.core.cancel import Cancel
from bantam.core.errors import BantamError
from bantam.core.text import screen_text

_EDITORS: Final = ("editor", "nano", "vi")  # Debian's choice first
_SLICE_S: Final = 0.05
_GRACE_S: Final = 0.5  # from TERM to KILL
_MOST_BYTES: Final = 16 << 20  # more than any model takes


def composed(text: str, environ: Mapping[str, str], cancel: Cancel) -> str:
    """Return what the user makes of `text` in an editor, which has the terminal meanwhile.

    Raises BantamError if there is none or it fails, Interrupted once cancelled: then it is ended.
    """
    command = _command(environ)
    try:
        with TemporaryDirectory(prefix="bantam-") as folder:
            file = Path(folder, "prompt.md")
            file.touch(mode=0o600)
            file.write_bytes(text.encode("utf-8", "replace"))
            _run([*command, str(file)], cancel)
            with file.open("rb") as written:
                raw = written.read(_MOST_BYTES)
    except OSError as error:
        raise BantamError(f"{command[0]}: {error.strerror}; see $VISUAL and $EDITOR") from None
    return shown_text(raw.decode("utf-8", "replace").removesuffix("\n"))


def shown_text(text: str) -> str:
    r"""Return a text from outside as the line editor may hold it: LF alone ends its lines.

    >>> shown_text("a\r\nb\rc\x1b[2J")
    'a\nb\nc'
    """
    return screen_text(text.replace("\r\n", "\n").replace("\r", "\n"))


def _command(environ: Mapping[str, str]) -> list[str]:
    wanted = environ.get("VISUAL") or environ.get("EDITOR") or ""
    try:
        command = shlex.split(wanted)
    except ValueError as error:
        raise BantamError(f"$VISUAL or $EDITOR is {wanted!r}: {error}") from None
    there = (each for each in _EDITORS if shutil.which(each, path=environ.get("PATH")))
    command = command or [*there][:1]
    if not command:
        raise BantamError("there is no editor; name one in $EDITOR")
    return command


def _run(command: list[str], cancel: Cancel) -> None:
    with _keyboard_left_to_it():
        process = subprocess.Popen(command)
        try:
            while process.poll() is None:
                cancel.sleep(_SLICE_S)
        finally:
            _end(process)
    if process.returncode:
        raise BantamError(
            f"{command[0]} ended with status {process.returncode}; nothing is changed"
        )


@contextmanager
def _keyboard_left_to_it() -> Iterator[None]:
    """Let what a keyboard sends mean something to the editor alone.

    Not SIG_IGN: the editor would inherit it.
    """
    numbers = (signal.SIGINT, signal.SIGQUIT)
    before = [signal.signal(number, lambda *_: None) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _end(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
