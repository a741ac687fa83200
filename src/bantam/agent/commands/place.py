"""What of the file system counts when a call is judged: the project, and what in it is kept."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_FOLDERS: Final = frozenset({".git", ".husky", ".githooks", ".vscode"})
# The program's own, and what shells, editors and package managers run when they start.
_FILES: Final = (
    ".bantam.cfg model.cfg .bashrc .bash_profile .bash_login .bash_logout .profile .zshrc "
    ".zshenv .zprofile .zlogin .inputrc .envrc .exrc .vimrc .nvimrc .gdbinit .lldbinit .npmrc "
    ".yarnrc .yarnrc.yml .gitconfig .gitmodules sitecustomize.py usercustomize.py"
)


@dataclass(frozen=True, slots=True)
class Place:
    """The project's folder and the user's home, absolute; `home` is "" where nobody knows it.

    `shell`: the program that runs commands.
    """

    project: str
    home: str
    shell: str = "bash"

    def has(self, path: str) -> bool:
        """Whether `path` is the project or in it, links followed."""
        project, real = os.path.realpath(self.project), os.path.realpath(path)
        # Its folder too: /dev/fd/3 leads to what *we* have opened, the shell has another.
        folder = os.path.realpath(Path(path).parent)
        return real == project or all(Path(each).is_relative_to(project) for each in (real, folder))

    def keeps(self, path: str) -> bool:
        """Whether `path` configures what is run later: git's folder, a start-up file."""
        # As case is nothing to some file systems.
        parts = [part.casefold() for part in Path(os.path.realpath(path)).parts]
        return (
            parts[-1] in _FILES.split()
            or parts[-1].endswith(".pth")
            or not _FOLDERS.isdisjoint(parts)
        )
