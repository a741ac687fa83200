"""A folder beneath which files are read and written, and the way to each, opened step by step.

A name that was checked says nothing about what is opened by it a moment later. So nothing is
opened by a whole path: from the workspace's root each folder is opened from the one before it, no
link is followed, and what was opened is held against what is protected. The file itself is then
reached from its folder's descriptor, by a bare name. Links are followed before that, by name: what
comes out is only where to go, and a link that appears meanwhile is an error.

Refused: openat2 with RESOLVE_BENEATH, which Python cannot call and which knows nothing of what is
protected; a process in the sandbox that writes, three times slower, with undo on the other side.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self

from bantam.core.errors import OutsideWorkspace

# A descriptor to go on from, which asks for no right to read (open(2)).
_FOLDER: Final = getattr(os, "O_PATH", 0) | getattr(os, "O_DIRECTORY", 0)
_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)
_NO_WAIT: Final = getattr(os, "O_NONBLOCK", 0)  # for the writer of a pipe, if there is one by now

Identity = tuple[int, int]  # device and inode


class Folder:
    """A folder by which its files are reached: by its path, or by the descriptor `fd`.

    `protected`: what `check` refuses, by device and inode.
    """

    def __init__(
        self, path: Path, fd: int | None = None, protected: frozenset[Identity] = frozenset()
    ) -> None:
        self.path = path
        self._fd = fd
        self._protected = protected

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._fd is not None:
            os.close(self._fd)

    def child(self, name: str) -> "Folder":
        """Return the folder `name` in it. Raises OutsideWorkspace, and NotADirectoryError."""
        if self._fd is None:
            return Folder(self.path / name)
        fd = os.open(name, _FOLDER | _NO_LINK, dir_fd=self._fd)
        folder = Folder(self.path / name, fd, self._protected)
        try:
            folder.check(os.fstat(fd))
        except BaseException:  # Ctrl+C included: nobody else knows the descriptor yet
            os.close(fd)
            raise
        return folder

    def check(self, state: os.stat_result, name: str = "") -> None:
        """Raise OutsideWorkspace if the file `name` in it, in this `state`, is protected."""
        if identity_of(state) in self._protected:
            raise OutsideWorkspace(_protected(self.path / name))

    def open(self, name: str, flags: int, mode: int = 0o777) -> int:
        """Return a descriptor of the file `name` (open(2))."""
        if self._fd is None:
            return os.open(self._at(name), flags, mode)
        fd = os.open(name, flags | _NO_LINK | _NO_WAIT, mode, dir_fd=self._fd)
        try:
            self.check(os.fstat(fd), name)
        except BaseException:  # Ctrl+C included: nobody else knows the descriptor yet
            os.close(fd)
            raise
        return fd

    def state(self, name: str) -> os.stat_result | None:
        """Return the state of `name`, a link not followed; None if it is not there."""
        try:
            return self.state_of(name)
        except FileNotFoundError:
            return None

    def state_of(self, name: str) -> os.stat_result:
        """Return the state of `name`, a link not followed. Raises FileNotFoundError."""
        state = os.stat(self._at(name), dir_fd=self._fd, follow_symlinks=False)
        self.check(state, name)
        return state

    def is_writable(self, name: str) -> bool:
        """Whether this user may write the file `name`."""
        return os.access(self._at(name), os.W_OK, dir_fd=self._fd)

    def replace(self, name: str, by: str) -> None:
        """Put the file `by` in the place of the file `name`."""
        os.replace(self._at(by), self._at(name), src_dir_fd=self._fd, dst_dir_fd=self._fd)

    def unlink(self, name: str) -> None:
        """Remove the file `name`."""
        os.unlink(self._at(name), dir_fd=self._fd)

    def mkdir(self, name: str, mode: int = 0o777) -> None:
        """Make the folder `name`."""
        os.mkdir(self._at(name), mode, dir_fd=self._fd)

    def rmdir(self, name: str) -> None:
        """Remove the folder `name`, which must be empty."""
        os.rmdir(self._at(name), dir_fd=self._fd)

    def sync(self) -> None:
        """Make renames in it outlast a crash of the system."""
        fd = os.open(self._at("."), os.O_RDONLY, dir_fd=self._fd)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def _at(self, name: str) -> str:
        return os.path.join(self.path, name) if self._fd is None else name  # noqa: PTH118  # as os


class Workspace:
    """The folder `root`; beneath it, no file can be written that is one of `protected()`.

    None can be read or written that is `hidden()`. `places`: those below the root, name by name,
    that are protected even where there is nothing yet; `.git` is so everywhere. The root is the
    folder that has this name now: another one that takes its place is none. Raises OSError.
    """

    def __init__(
        self,
        root: Path,
        protected: Callable[[], Iterable[Path]],
        hidden: Callable[[], Iterable[Path]],
        places: Iterable[tuple[str, ...]],
    ) -> None:
        self.root = root
        self._identity = identity_of(root.stat())
        self._protected = protected
        self._hidden = hidden
        self._places = [_folded(place) for place in places]

    def check(self, path: Path, *, writing: bool) -> tuple[str, ...]:
        """Return the names from the root to `path`, which has no links or is a name not followed.

        Raises OutsideWorkspace if it is not beneath the root, or has a protected name.
        """
        if path == self.root:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if self.root not in path.parents:
            raise OutsideWorkspace(
                f"{path} is outside the project; in the sandbox files are read and written only "
                f"in {self.root}"
            )
        names = path.relative_to(self.root).parts
        folded = _folded(names)
        is_protected = any(folded[: len(place)] == place for place in self._places)
        if writing and (".git" in folded or is_protected):
            raise OutsideWorkspace(_protected(path))
        return names

    def open_root(self, flags: int) -> int:
        """Return a descriptor of the root (open(2)).

        Raises OSError, and OutsideWorkspace if another folder, or a link to one, has its name now.
        """
        fd = os.open(self.root, flags)
        if identity_of(os.fstat(fd)) == self._identity:
            return fd
        os.close(fd)
        raise OutsideWorkspace(
            f"{self.root} is another folder now: the project's folder was replaced meanwhile; "
            "nothing was run or changed. Put it back, or start Bantam again there"
        )

    @contextmanager
    def way_to(self, path: Path, *, writing: bool) -> Iterator[tuple[Folder, list[str]]]:
        """Open the folders above `path`; see the function of that name. Raises OutsideWorkspace."""
        *names, _ = self.check(path, writing=writing)
        refused = {*self._hidden(), *(self._protected() if writing else ())}
        fd = self.open_root(_FOLDER)
        with ExitStack() as opened:
            folder = opened.enter_context(Folder(self.root, fd, _identities(refused)))
            for done, name in enumerate(names):
                try:
                    folder = opened.enter_context(folder.child(name))
                except FileNotFoundError:
                    yield folder, names[done:]
                    return
            yield folder, []


@contextmanager
def way_to(
    path: Path, workspace: Workspace | None, *, writing: bool = True
) -> Iterator[tuple[Folder, list[str]]]:
    """Give the deepest folder above `path` that is there, and the names of those below it.

    `path` has no links. Without a `workspace` it may lie anywhere.
    """
    if workspace is not None:
        with workspace.way_to(path, writing=writing) as way:
            yield way
        return
    missing = [folder.name for folder in path.parents if not folder.exists()]  # deepest first
    yield Folder(path.parents[len(missing)]), missing[::-1]


def opened(path: Path, workspace: Workspace | None, *, writing: bool = True) -> BinaryIO:
    """Return the file, open for reading. Raises OutsideWorkspace, OSError.

    `writing`: it is read to be written again, so what is protected is refused.
    """
    if workspace is None:
        return path.open("rb")
    with way_to(path, workspace, writing=writing) as (folder, missing):
        return os.fdopen(folder.open("/".join([*missing, path.name]), os.O_RDONLY), "rb")


def state_of(path: Path, workspace: Workspace | None, *, writing: bool = True) -> os.stat_result:
    """Return the state of the file. Raises OutsideWorkspace, OSError."""
    if workspace is None:
        return path.stat()
    with way_to(path, workspace, writing=writing) as (folder, missing):
        state = folder.state_of("/".join([*missing, path.name]))
        if stat.S_ISLNK(state.st_mode):  # one of a loop, or newer than `path`
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        return state


def is_writable(path: Path, workspace: Workspace | None) -> bool:
    """Whether this user may write the file, which is there. Raises OutsideWorkspace, OSError."""
    with way_to(path, workspace) as (folder, _):
        return folder.is_writable(path.name)


def _folded(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return `names` as a file system that knows no case tells them apart."""
    return tuple(name.casefold() for name in names)


def identity_of(state: os.stat_result) -> Identity:
    """Return what tells a file in this `state` from any other that is there."""
    return state.st_dev, state.st_ino


def _identities(paths: Iterable[Path]) -> frozenset[Identity]:
    found = set()
    for path in paths:
        with suppress(FileNotFoundError):  # gone by now
            found.add(identity_of(path.lstat()))
    return frozenset(found)


def _protected(path: Path) -> str:
    return (
        f"{path} is protected by the sandbox: neither .git nor Bantam's configuration can be "
        "written, nor secrets be read; nothing was changed"
    )
