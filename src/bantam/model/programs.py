"""run://PROGRAM: a local program plays the model, one process a request.

It reads the request's JSON and writes a chat completion, whole or as SSE lines. What it says on
standard error is shown when it fails; status 75 means try later.

Trust is given to what a `Program` says: the file, its arguments, the folder in which it is started,
and the content of all files among them. What such a program goes on to read or start is its own.
"""

import hashlib
import json
import os
import select
import signal
import subprocess
import tempfile
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from shlex import join, split
from shutil import which
from threading import Thread
from typing import IO, Final

from bantam.core.cancel import Inbox
from bantam.core.errors import ConfigError
from bantam.model.failures import Failure, Kind
from bantam.model.transports import End, Head, Item

_READ_BYTES: Final = 65536
_GRACE_S: Final = 0.05
# How late a program's end is seen while something that it left behind holds its output.
_SLICE_MS: Final = 100
# What a local program says on standard error is shown up to here.
_STDERR_BYTES: Final = 8192
_TRY_LATER: Final = 75  # EX_TEMPFAIL of sysexits.h
_MOST_HASHED_BYTES: Final = 256 << 20  # a fraction of a second; larger ones are asked about anew


class RunTransport:
    """A local program, one process a request (`run://PROGRAM ARGUMENTS`)."""

    def __init__(self, endpoint: str) -> None:
        """Read the command line as a shell does. Raises ConfigError if it names no program."""
        self.url = endpoint
        self._command = command_of(endpoint)
        # Popen looks where `which` does.
        if not self._command or which(self._command[0]) is None:
            hint = "write run://PROGRAM, or run://./PROGRAM for one in this folder"
            if self._command and "/" in self._command[0] and Path(self._command[0]).is_file():
                hint = f"it is not executable: chmod +x {self._command[0]}"
            raise ConfigError(f"endpoint={endpoint} names no program that can be run; {hint}")

    def send(self, body: bytes) -> "RunExchange":
        """Start the program with `body` on its standard input."""
        return RunExchange(self._command, body)

    def close(self) -> None:
        """Nothing is kept."""


def command_of(endpoint: str) -> list[str]:
    """Return the words of a run:// endpoint. Raises ConfigError if it is no command line."""
    try:
        command = split(endpoint.partition("://")[2])
    except ValueError as error:
        what = f"is no command line: {error}; write run://PROGRAM 'ARGUMENT'"
        raise ConfigError(f"endpoint={endpoint} {what}") from None
    # Path.expanduser would take a `./` away.
    command[:1] = map(os.path.expanduser, command[:1])
    return command


class RunExchange:
    """One run of a program, read by its own daemon thread."""

    def __init__(self, command: list[str], body: bytes) -> None:
        self.inbox: Inbox[Item] = Inbox()
        self._name = command[0]
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._process, self._stderr = _started(command, body)
        except (OSError, ValueError) as error:
            self.inbox.put(Failure(Kind.FINAL, f"run://{self._name} cannot be run: {error}"))
        else:
            Thread(target=self._run, args=(self._process,), daemon=True).start()

    def close(self) -> None:
        """End the program and its group: TERM, and KILL where that does not help at once."""
        self.inbox.close()
        process = self._process
        if process is None or process.poll() is not None:
            return  # an ended leader's number may be another's by now
        _signal_group(process, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
        _signal_group(process, signal.SIGKILL)
        process.wait()

    def _run(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        with process.stdout as stdout, self._stderr:
            going_on = self.inbox.put(Head(200, "OK", {}))
            if going_on and self._copy(stdout.fileno(), process):
                self.inbox.put(self._outcome(process.wait()))

    def _copy(self, pipe: int, process: subprocess.Popen[bytes]) -> bool:
        """Copy to the end of the output, or of the program where something else holds its pipe.

        Return False once nobody takes it.
        """
        poll, exited = select.poll(), False
        poll.register(pipe, select.POLLIN)
        while True:
            if poll.poll(_SLICE_MS):
                part = os.read(pipe, _READ_BYTES)
                if not part:
                    return True
                if not self.inbox.put(part):
                    return False
            elif exited:
                return True
            exited = process.poll() is not None

    def _outcome(self, status: int) -> Item:
        if status == 0:
            return End()
        self._stderr.seek(max(0, self._stderr.seek(0, os.SEEK_END) - _STDERR_BYTES))
        said = self._stderr.read().decode("utf-8", "replace").strip()
        kind = Kind.CONNECTION if status == _TRY_LATER else Kind.FINAL
        how = f"ended with status {status}" if status > 0 else f"was killed by signal {-status}"
        return Failure(kind, f"run://{self._name} {how}", said)


def _started(command: list[str], body: bytes) -> tuple[subprocess.Popen[bytes], IO[bytes]]:
    """Start a program that reads `body`; return it and the file of its standard error."""
    # Files, not pipes: a program may answer before it has read, and may fill its stderr.
    with tempfile.TemporaryFile() as stdin, ExitStack() as if_it_fails:
        stdin.write(body)
        stdin.seek(0)
        stderr = if_it_fails.enter_context(tempfile.TemporaryFile())
        process = subprocess.Popen(
            command, stdin=stdin, stdout=subprocess.PIPE, stderr=stderr, start_new_session=True
        )
        if_it_fails.pop_all()
        return process, stderr


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    # All of the group has ended; some systems say so by EPERM.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


# -- trust ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Program:
    """What a run:// or replay:// endpoint means here and now.

    `command`: as a person is asked about it, its file's whole path first. `target`: where that
    leads, if it is a link. `digest`: of all that trust is given to; None for what cannot be told
    from another one, and so is accepted for one run alone.
    """

    path: str
    command: str
    target: str | None
    digest: str | None


def program_of(endpoint: str, folder: str) -> Program | None:
    """Return what `endpoint`, which has no host, means in `folder`, the working directory.

    None if it names no program that can be run, or no file.
    """
    scheme, _, rest = endpoint.partition("://")
    try:
        is_program = scheme.lower() == "run"
        words = command_of(endpoint) if is_program else [os.path.expanduser(rest)]  # noqa: PTH111  # Path raises at ~nobody
    except ConfigError:
        return None
    found = which(words[0]) if is_program and words else None
    if is_program and found is None:
        return None
    path = os.path.join(folder, found or words[0])  # noqa: PTH118  # `..` behind a link stays
    path, target = os.path.normpath(path), os.path.realpath(path)
    means = [scheme.lower(), folder, path, target, *words[1:]]
    return Program(
        path,
        join([path, *words[1:]]),
        target if target != path else None,
        _digest(means, [target, *words[1:]]),
    )


def _digest(means: list[str], files: list[str]) -> str | None:
    """Return the SHA-256 of the words `means` and of the content of those `files` that are some.

    None if one of these cannot be read, is a folder, whose code no digest would hold, or if they
    are too large.
    """
    digest = hashlib.sha256(json.dumps(means).encode())
    left = _MOST_HASHED_BYTES
    for name in files:
        if os.path.isdir(name):  # noqa: PTH112  # no Path: it may hold a NUL
            return None
        if not os.path.isfile(name):  # noqa: PTH113  # no Path: it may hold a NUL, or be too long
            digest.update(b"-")
            continue
        try:
            content, size = _hashed(name, left)
        except OSError:
            return None
        left -= size
        if left < 0:
            return None
        digest.update(content)
    return digest.hexdigest()


def _hashed(name: str, most: int) -> tuple[bytes, int]:
    """Return the SHA-256 of a file, and its size; of a larger one than `most`, of its beginning."""
    digest, size = hashlib.sha256(), 0
    with open(name, "rb", buffering=0) as file:  # noqa: PTH123  # it is text, as `isfile` has it
        while size <= most and (part := file.read(1 << 20)):
            digest.update(part)
            size += len(part)
    return digest.digest(), size
