"""A folder of a sandbox's own: its /tmp, and the whole outputs that commands may read.

It lies where no command of this sandbox can write: who could put a link in the place of its `tmp`
would have the next sandbox mount what the link leads to. Another one's project may hold it, so both
are known by their identity and what is mounted is looked at. A shared lock says that it is in use,
so one that a crash has left is known, and goes when the next sandbox needs one.
"""

import fcntl
import os
import stat
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from bantam.core.errors import ConfigError, ToolError
from bantam.tools.workspace import Identity, identity_of

_PREFIX: Final = "bantam-sandbox-"
_INSIDE: Final = ("tmp", "output")
# Where and in which order Python's `tempfile` looks, but never in the working directory.
_NAMED_BY: Final = ("TMPDIR", "TEMP", "TMP")
_USUAL: Final = ("/tmp", "/var/tmp")  # noqa: S108  # a new folder is made there
_FOLDER: Final = getattr(os, "O_PATH", 0) | getattr(os, "O_DIRECTORY", 0)


class Private(NamedTuple):
    """The folders `tmp` and `output`, and which they are."""

    tmp: Path
    output: Path
    made: tuple[Identity, ...]

    def check(self) -> None:
        """Raise ToolError if something else stands in the place of one of them."""
        for path, made in zip((self.tmp, self.output), self.made, strict=True):
            try:
                is_it = identity_of(path.lstat()) == made
            except OSError:
                is_it = False
            if not is_it:
                raise ToolError(
                    f"{path}, which the sandbox needs, was removed or replaced meanwhile; nothing "
                    "was run. Start Bantam again, with TMPDIR where no other program writes"
                )


def base_for(project: Path, environ: Mapping[str, str], usual: tuple[str, ...] = _USUAL) -> Path:
    """Return the first folder for temporary files that is outside `project` and can be used.

    Raises ConfigError if there is none.
    """
    named = [environ[name] for name in _NAMED_BY if environ.get(name)]
    for folder in map(os.path.realpath, [*named, *usual]):
        if not Path(folder).is_relative_to(project):
            # What else may be wrong with it shows as nothing but this.
            with suppress(OSError):
                os.rmdir(tempfile.mkdtemp(prefix=_PREFIX, dir=folder))  # noqa: PTH106  # as made
                return Path(folder)
    raise ConfigError(
        f"sandbox: it needs a folder for temporary files outside {project}, and none of "
        f"{', '.join([*named, *usual])} is one that can be written; set TMPDIR to such a folder"
    )


def private_folder(base: Path, owner: object) -> Private:
    """Return a new folder in `base` that nobody else can enter, with a `tmp` and an `output`.

    It goes with `owner`, or at exit; those that a crash has left in `base` go now.
    """
    with suppress(OSError), os.scandir(base) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX):
                _remove_if_abandoned(base / entry.name)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    weakref.finalize(owner, _remove, folder, held)
    fcntl.flock(held, fcntl.LOCK_SH)
    made = list[Identity]()
    for name in _INSIDE:
        os.mkdir(name, 0o700, dir_fd=held)
        made.append(identity_of(os.stat(name, dir_fd=held, follow_symlinks=False)))
    tmp, output = (folder / name for name in _INSIDE)
    return Private(tmp, output, (*made,))


def _remove(folder: Path, held: int) -> None:
    with suppress(OSError):
        _empty(held)
        folder.rmdir()
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
            _empty(fd)
            folder.rmdir()


def _empty(folder: int) -> None:
    """Remove all that is in `folder`, no link followed. Raises OSError.

    Not shutil.rmtree: it stops at a folder that may not be written, as Go makes them, and at a
    thousand levels. What a folder holds is moved up before it goes.
    """
    while names := os.listdir(folder):
        for name in names:
            try:
                with _made_writable(name, folder) as inner:
                    for each in os.listdir(inner):  # noqa: PTH208  # a descriptor
                        _move_up(each, inner, folder)
            except NotADirectoryError:
                os.unlink(name, dir_fd=folder)
            else:
                os.rmdir(name, dir_fd=folder)


def _move_up(name: str, inner: int, folder: int) -> None:
    """Move the folder `name` from `inner` to `folder`, under another name; a file just goes."""
    try:
        with _made_writable(name, inner):  # else it cannot be moved, either
            os.rename(name, os.urandom(8).hex(), src_dir_fd=inner, dst_dir_fd=folder)
    except NotADirectoryError:
        os.unlink(name, dir_fd=inner)


@contextmanager
def _made_writable(name: str, folder: int) -> Iterator[int]:
    """Give the folder `name` in `folder`, with every right for its owner.

    Raises OSError, and NotADirectoryError for a file or a link.
    """
    with ExitStack() as opened:
        path = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
        opened.callback(os.close, path)
        if os.fstat(path).st_uid == os.geteuid():
            # By what it is, not by its name. Who may not read it gets no other descriptor.
            os.chmod(f"/proc/self/fd/{path}", 0o700)  # noqa: PTH101  # text
        inner = os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=path)
        opened.callback(os.close, inner)
        yield inner
