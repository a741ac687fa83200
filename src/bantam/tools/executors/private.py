"""A folder of a sandbox's own: its /tmp, and the whole outputs that commands may read.

It lies where no command can write: who could put a link in the place of its `tmp` would have the
next sandbox mount what the link leads to. A shared lock says that it is in use, so one that a crash
has left is known, and goes when the next sandbox needs one.
"""

import fcntl
import os
import shutil
import stat
import tempfile
import weakref
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from bantam.core.errors import ConfigError

_PREFIX: Final = "bantam-sandbox-"
_INSIDE: Final = ("tmp", "output")
# Where and in which order Python's `tempfile` looks, but never in the working directory.
_NAMED_BY: Final = ("TMPDIR", "TEMP", "TMP")
_USUAL: Final = ("/tmp", "/var/tmp")  # noqa: S108  # a new folder is made there


def base_for(project: Path, environ: Mapping[str, str], usual: tuple[str, ...] = _USUAL) -> Path:
    """Return the first folder for temporary files that is outside `project` and can be used.

    Raises ConfigError if there is none.
    """
    named = [environ[name] for name in _NAMED_BY if environ.get(name)]
    for folder in map(os.path.realpath, [*named, *usual]):
        usable = os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK)  # noqa: PTH112
        if usable and not Path(folder).is_relative_to(project):
            return Path(folder)
    raise ConfigError(
        f"sandbox: it needs a folder for temporary files outside {project}, and none of "
        f"{', '.join([*named, *usual])} is one that can be written; set TMPDIR to such a folder"
    )


def private_folder(base: Path, owner: object) -> Path:
    """Return a new folder in `base` that nobody else can enter, with a `tmp` and an `output`.

    It goes with `owner`, or at exit; those that a crash has left in `base` go now.
    """
    with suppress(OSError), os.scandir(base) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX):
                _remove_if_abandoned(base / entry.name)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    weakref.finalize(owner, _remove, folder, held)
    fcntl.flock(held, fcntl.LOCK_SH)
    for name in _INSIDE:
        (folder / name).mkdir(mode=0o700)
    return folder


def _remove(folder: Path, held: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    os.close(held)


def _remove_if_abandoned(folder: Path) -> None:
    """Remove `folder` if it is one of ours, of this user, and nobody holds it."""
    with suppress(OSError), ExitStack() as opened:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        opened.callback(os.close, fd)
        state = os.fstat(fd)
        is_private = stat.S_IMODE(state.st_mode) == 0o700
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # An empty one has just been made, and will be locked.
        inside = set(os.listdir(fd))  # noqa: PTH208  # a descriptor
        if is_private and state.st_uid == os.geteuid() and inside and inside <= {*_INSIDE}:
            shutil.rmtree(folder)
