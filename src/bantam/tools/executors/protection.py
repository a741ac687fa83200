"""What of a project a sandboxed command must not write: `.git` and Bantam's configuration.

Who could write there would have the user's own git and Bantam run what he wrote. Each is mounted on
itself, read-only; a mount point can be neither renamed nor removed, so no other takes its place.

Where there is none yet, an empty folder holds the place for as long as a command runs. An empty
folder, since git and Bantam take it for nothing, a file of the user's is never mistaken for it, and
`rmdir` takes away nothing else; one that a crash leaves goes with the next command. A shared lock
on the project keeps one Bantam from taking away the place that another's command counts on. Where
no place can be held the whole project is read-only.

Repositories inside the project are looked for once, nearest first, and protected likewise, the
folders above them pinned by mounts of their own: what is moved across those is copied. So is the
folder that a `.git` file names, as of a worktree. One made later, or a bare one made by hand, is
not: a project that can be written can always hold something that is dangerous to run.

Refused: making what is missing by bubblewrap, which leaves an empty file there, and that hides
`model.cfg`; removing afterwards what a command has made, which may be the user's, made meanwhile.
"""

import fcntl
import os
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from bantam.core.cancel import Cancel
from bantam.core.errors import ToolError, why_of

PROTECTED: Final = (".git", ".bantam.cfg", "model.cfg")  # names in the project's folder
_MOST_FOLDERS: Final = 10_000  # looked into for repositories: about 0.2 s, once
_LOCK_S: Final = 1.0  # another Bantam holds the lock for less than a millisecond
_LOOK_S: Final = 0.01


@contextmanager
def places_held(project: Path, cancel: Cancel) -> Iterator[bool]:
    """Have something stand under each protected name; say whether that is so.

    Raises ToolError if the place cannot be protected.
    """
    for name in PROTECTED:
        if (project / name).is_symlink():
            raise ToolError(
                f"{name} is a symbolic link, which the sandbox cannot protect from being replaced; "
                "nothing was run. Put the file itself there, or write sandbox=off"
            )
    try:
        folder = os.open(project, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise ToolError(f"cannot run in {project}: {why_of(error)}") from error
    try:
        _lock(folder, cancel)
        yield _made(folder)
    finally:
        # Not while another Bantam's command counts on them; it will take them away.
        with suppress(OSError):
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for name in PROTECTED:
                with suppress(OSError):  # it is something of the user's
                    os.rmdir(name, dir_fd=folder)
        os.close(folder)


def _lock(folder: int, cancel: Cancel) -> None:
    for _ in range(int(_LOCK_S / _LOOK_S)):
        try:
            fcntl.flock(folder, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            cancel.sleep(_LOOK_S)
        else:
            return
    raise ToolError("another program has locked the project's folder; nothing was run. Try again")


def _made(folder: int) -> bool:
    try:
        for name in PROTECTED:
            with suppress(FileExistsError):
                os.mkdir(name, 0o755, dir_fd=folder)
    except OSError:
        return False
    return True


def repositories_in(project: Path, most_folders: int = _MOST_FOLDERS) -> Iterator[Path]:
    """Yield the `.git` of each repository below `project`, nearest first."""
    folders = deque([str(project)])
    for _ in range(most_folders):
        if not folders:
            return
        folder = folders.popleft()
        with suppress(OSError), os.scandir(folder) as entries:  # gone by now, or not to be read
            for entry in entries:
                if entry.name == ".git":
                    if folder != str(project):
                        yield Path(entry.path)
                elif entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)


def gitdir(git: Path, project: Path) -> set[Path]:
    """Return the folder in the project that `git` names, if it is a file (gitrepository-layout)."""
    if not git.is_file():
        return set()
    try:
        text = git.read_text(errors="surrogateescape")
    except OSError:
        return set()
    named = Path(os.path.realpath(git.parent / text.removeprefix("gitdir:").strip()))
    return {named} if named.is_dir() and project in named.parents else set()
