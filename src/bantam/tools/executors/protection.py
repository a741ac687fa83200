"""What of a project a sandboxed command must not write: `.git` and Bantam's configuration.

Who could write there would have the user's own git and Bantam run what he wrote. Each is mounted on
itself, read-only; a mount point can be neither renamed nor removed, so no other takes its place.

Where there is none yet, an empty folder holds the place for as long as a command runs. An empty
folder, since git and Bantam take it for nothing, a file of the user's is never mistaken for it, and
`rmdir` takes away nothing else; one that a crash leaves goes with the next command. A shared lock
on the project keeps one Bantam from taking away the place that another's command counts on. Where
no place can be held the whole project is read-only. So it is with what Bantam remembers, `.bantam`,
where the home folder is the project.

Repositories inside the project are looked for once, nearest first, and protected likewise, the
folders above them pinned by mounts of their own: what is moved across those is copied. So are the
folders that a `.git` file names, as of a worktree. One made later, or a bare one made by hand, is
not: a project that can be written can always hold something that is dangerous to run.

Refused: making what is missing by bubblewrap, which leaves an empty file there, and that hides
`model.cfg`; removing afterwards what a command has made, which may be the user's, made meanwhile.
"""

import fcntl
import os
import stat
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import Final, NamedTuple

from bantam.core.cancel import Cancel
from bantam.core.errors import ConfigError, ToolError, why_of
from bantam.tools.workspace import Folder, Workspace

PROTECTED: Final = (".git", ".bantam.cfg", "model.cfg")  # names in the project's folder
MOST_FOLDERS: Final = 10_000  # looked into for repositories: from 0.2 s to 1 s, once
# Bubblewrap takes 9000 arguments, three for a mount, and looks at all mounts with each: a thousand
# need more than a second. The system takes two megabytes of arguments.
MOST_MOUNTS: Final = 1000
_MOST_CHARACTERS: Final = 250_000  # of their paths, each of which is given twice
_LOCK_S: Final = 1.0  # another Bantam holds the lock for less than a millisecond
_LOOK_S: Final = 0.01

Place = tuple[str, ...]  # the names from the project's folder down


@contextmanager
def places_held(workspace: Workspace, places: Iterable[Place], cancel: Cancel) -> Iterator[bool]:
    """Have something stand under each protected name and in `places`; say whether that is so.

    Raises ToolError if the place cannot be protected, or is another one by now.
    """
    try:
        fd = workspace.open_root(os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise ToolError(f"cannot run in {workspace.root}: {why_of(error)}") from error
    with Folder(workspace.root, fd) as folder:
        _refuse_links(folder)
        modes: dict[Place, int] = {(name,): 0o755 for name in PROTECTED}
        for place in places:
            modes |= {place[:depth]: 0o700 for depth in range(1, len(place) + 1)}
        # A crash may have left the first, which are of no use to the user while they are empty.
        made = [*modes][: len(PROTECTED)]
        try:
            _lock(fd, cancel)
            yield _are_held(folder, modes, made)
        finally:
            # Not while another Bantam's command counts on them; it will take them away.
            with suppress(OSError):
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                for place in reversed(made):
                    with suppress(OSError), _above(folder, place) as above:  # it is the user's now
                        above.rmdir(place[-1])


def _refuse_links(folder: Folder) -> None:
    for name in PROTECTED:
        state = folder.state(name)
        if state and stat.S_ISLNK(state.st_mode):
            raise ToolError(
                f"{name} is a symbolic link, which the sandbox cannot protect from being replaced; "
                "nothing was run. Put the file itself there, or write sandbox=off"
            )


def _lock(folder: int, cancel: Cancel) -> None:
    for _ in range(int(_LOCK_S / _LOOK_S)):
        try:
            fcntl.flock(folder, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            cancel.sleep(_LOOK_S)
        else:
            return
    raise ToolError("another program has locked the project's folder; nothing was run. Try again")


@contextmanager
def _above(folder: Folder, place: Place) -> Iterator[Folder]:
    """Give the folder that `place` is in, no link followed. Raises OSError."""
    with ExitStack() as opened:
        for name in place[:-1]:
            folder = opened.enter_context(folder.child(name))
        yield folder


def _are_held(folder: Folder, modes: Mapping[Place, int], made: list[Place]) -> bool:
    """Have something stand in every place; add to `made` what was not there."""
    for place, mode in modes.items():
        try:
            with _above(folder, place) as above:
                above.mkdir(place[-1], mode)
        except FileExistsError:
            continue
        except OSError:
            return False
        made.append(place)
    return True


def kept_for(path: str, project: Path) -> set[Path]:
    """Return what in the project must stay so that `path` goes on to mean the same file.

    The file, and the folders in which links lie that lead to it: a link itself cannot be protected.
    Raises ConfigError for one in the project's own folder.
    """
    kept, real = set[Path](), Path("/")
    for name in Path(path).parts[1:]:
        here = real / name
        # Not Path: it raises where it has no right to look.
        if os.path.islink(here) and (real == project or project in real.parents):  # noqa: PTH114  # Path raises at no access
            if real == project:
                raise ConfigError(
                    f"sandbox: {here} is a symbolic link in the project's folder, which cannot be "
                    "protected from being replaced; put the file or folder itself there, or "
                    "write sandbox=off"
                )
            kept.add(real)
        real = Path(os.path.realpath(here))
    return kept | ({real} if project in real.parents else set())


class Repositories(NamedTuple):
    """The `.git` of repositories, nearest first; and whether these are all that there are."""

    found: tuple[Path, ...]
    are_all: bool


def repositories_in(
    project: Path, most_folders: int = MOST_FOLDERS, most_mounts: int = MOST_MOUNTS
) -> Repositories:
    """Return the `.git` of each repository below `project`, in so many folders.

    Nor more than can be protected by `most_mounts`.
    """
    found, folders, mounts = list[Path](), deque([str(project)]), set[Path]()
    for _ in range(most_folders):
        if not folders:
            break
        folder = folders.popleft()
        with suppress(OSError), os.scandir(folder) as entries:  # gone by now, or not to be read
            for entry in entries:
                if entry.name == ".git":
                    if folder != str(project):
                        found.append(Path(entry.path))
                elif entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
    for count, git in enumerate(found):
        mounts |= _mounts_for(git, project)
        if len(mounts) > most_mounts or sum(len(str(path)) for path in mounts) > _MOST_CHARACTERS:
            return Repositories((*found[:count],), are_all=False)
    return Repositories((*found,), not folders)


def _mounts_for(git: Path, project: Path) -> set[Path]:
    """Return what is mounted on itself to protect `git`."""
    mounts = set[Path]()
    for path in (git, *gitdirs(git, project)):
        mounts |= {path, *takewhile(project.__ne__, path.parents)}
    return mounts


def gitdirs(git: Path, project: Path) -> set[Path]:
    """Return the folders in the project that `git` names, if it is a file (gitrepository-layout).

    The one of a worktree names another in its turn, which has the configuration.
    """
    if not git.is_file():
        return set()
    named = _named_in(git, "gitdir:")
    common = _named_in(named / "commondir") if named else None
    return {path for path in (named, common) if path and project in path.parents}


def _named_in(file: Path, begin: str = "") -> Path | None:
    """Return the folder that `file` names, links followed; None if there is none."""
    try:
        text = file.read_text(errors="surrogateescape").removeprefix(begin).strip()
        named = Path(os.path.realpath(file.parent / text))
        return named if named.is_dir() else None
    except (OSError, ValueError):  # a NUL is no name
        return None
