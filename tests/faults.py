"""Crashes and failing disks at a chosen call: faults.c, built, and what it is told.

    shim = make_shim(folder)
    run(..., env=environment(home, **shim.recording(log, home)))    # how many calls are there?
    for call in calls(log):
        run(..., env=environment(other, **shim.crash("before", call.number, other)))

Which calls count, and what happens at one, stands at the head of faults.c. A recording and a fault
can be merged (`|`): a crash then is the last call in the log.
"""

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

When = Literal["before", "after", "torn"]

_SOURCE: Final = Path(__file__).with_name("faults.c")
_COMPILER: Final = ("cc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror")


@dataclass(frozen=True, slots=True)
class Call:
    """A counted call: the `number`-th from 1.

    `name` is the C function's, without the 64 that some builds put at its end; `path` is relative
    to the folder it lies below; `size` is the bytes to write or the new length, else 0.
    """

    number: int
    name: str
    path: str
    size: int


@dataclass(frozen=True, slots=True)
class Shim:
    """The built library. Each method returns variables to add to a process's environment.

    Only that process is watched, not what it starts; no folder's path may have a colon in it.
    """

    library: Path

    def recording(self, log: Path, *folders: Path) -> dict[str, str]:
        """Let every counted call be written to `log`, for `calls`."""
        return self._watching(folders, LOG=log)

    def crash(self, when: When, number: int, *folders: Path) -> dict[str, str]:
        """Let the process be killed at call `number`; torn: half of its bytes are written."""
        return self._watching(folders, AT=number, MODE=when)

    def short(self, number: int, *folders: Path) -> dict[str, str]:
        """Let call `number`, if it writes, write half of its bytes and say so."""
        return self._watching(folders, AT=number, MODE="short")

    def failure(
        self,
        error: int,
        number: int,
        *folders: Path,
        onwards: bool = False,
        until: Path | None = None,
    ) -> dict[str, str]:
        """Let call `number`, if `onwards` all from it on, fail with `error`, an errno.

        Calls to which that cannot happen are spared: a full disk unlinks. Once the file `until`
        exists none fails any more.
        """
        when: dict[str, object] = {"ONWARDS": 1} if onwards else {}
        if until is not None:
            when["UNTIL"] = until
        return self._watching(folders, AT=number, MODE="errno", ERRNO=error, **when)

    def _watching(self, folders: tuple[Path, ...], **settings: object) -> dict[str, str]:
        watched = ":".join(str(folder.resolve()) for folder in folders)
        return {
            "LD_PRELOAD": str(self.library),
            "FAULTS_FOLDERS": watched,
            **{f"FAULTS_{name}": str(value) for name, value in settings.items()},
        }


def make_shim(folder: Path) -> Shim:
    """Compile the library into `folder`; without a C compiler the test fails and says so."""
    library = folder / "faults.so"
    command = [*_COMPILER, "-o", str(library), str(_SOURCE)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        message = f"no C compiler: {error}; on Debian: apt-get install gcc libc6-dev"
        raise AssertionError(message) from error
    assert done.returncode == 0, done.stderr
    return Shim(library)


def calls(log: Path) -> list[Call]:
    """Return the calls that were recorded in `log`, in their sequence."""
    # Threads may have written their lines in another order. Without a call there is no line.
    return sorted(map(_call, log.read_text().splitlines()), key=lambda call: call.number)


def _call(line: str) -> Call:
    number, name, size, path = line.split("\t", 3)
    return Call(int(number), name.removesuffix("64"), path, int(size))
