"""The process of a command: what stands before its shell, and what marks it as a command's."""

import errno
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from bantam.core.errors import ToolError

_MARKER: Final = "BANTAM_COMMAND_ID"


class Prefix(NamedTuple):
    """What stands before a shell's own arguments: a program that starts the shell and ends with it.

    It gets the descriptors `fds`, and has put the shell into a session of its own. `check` is
    called once it runs, and may raise; then it is killed.
    """

    argv: tuple[str, ...] = ()
    fds: tuple[int, ...] = ()
    check: Callable[[], None] | None = None


NO_PREFIX: Final = Prefix()


def started(
    argv: Sequence[str],
    cwd: Path,
    environment: Mapping[str, str],
    prefix: Prefix,
    marker: str,
) -> "subprocess.Popen[bytes]":
    """Start `argv`, its last word the command, in a session of its own; `marker` marks it.

    Raises ToolError if it cannot start, and what the check of `prefix` raises.
    """
    # A Bantam that runs inside a command adds its marker: what it starts bears both.
    markers = f"{environment.get(_MARKER, '')}.{marker}"
    try:
        process = subprocess.Popen(
            # The command not in the locale's encoding, as paths are: write_file takes names and
            # contents in UTF-8.
            [*map(os.fsencode, argv[:-1]), argv[-1].encode()] if os.name == "posix" else argv,
            cwd=cwd,
            env={**environment, _MARKER: markers},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            start_new_session=True,
            pass_fds=prefix.fds,
            preexec_fn=_hear_of_children if _is_deaf() else None,  # noqa: PLW1509  # it calls nothing
        )
    except OSError as error:
        if error.errno == errno.E2BIG:
            raise ToolError(
                f"the command is {len(argv[-1])} characters long, more than the system takes; "
                "write it to a file and run that"
            ) from error
        raise ToolError(f"cannot run {argv[0]} in {cwd}: {error.strerror}") from error
    except ValueError as error:  # NUL or a lone surrogate, which no argument can hold
        raise ToolError(f"the system cannot take this command: {error}") from error
    if prefix.check is not None:
        try:
            prefix.check()
        except BaseException:  # Ctrl+C included: nobody else would end it
            # What it has started is in its group until it runs the shell.
            with suppress(ProcessLookupError):  # a host that ignores SIGCHLD has no dead children
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise
    return process


def _is_deaf() -> bool:
    """Whether the host program ignores the end of its children; what it starts would, too."""
    return signal.getsignal(getattr(signal, "SIGCHLD", signal.SIGINT)) is signal.SIG_IGN


def _hear_of_children() -> None:  # pragma: no cover  # its process becomes another program
    """Let bubblewrap, and a shell, hear of what they wait for. In the child, before its program."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
