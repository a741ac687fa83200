"""What a sandbox needs: a machine whose system calls are known, bubblewrap, and a fit project."""

import os
import platform
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from bantam.core.errors import ConfigError
from bantam.tools.executors import seccomp

# What the sandbox replaces: a project that holds one of these would undo it.
_REPLACED: Final = ("/dev", "/proc", "/sys", "/run", "/tmp", "/var/tmp")  # noqa: S108  # names
_WITHOUT_PROJECTS: Final = ("/dev", "/proc", "/sys")
# What bubblewrap says where it may make no namespace, or nothing in it.
_NOT_ALLOWED: Final = re.compile(r"namespace|[ug]id map|permi(ssion|tted)|RTM_", re.IGNORECASE)
_HELP: Final = (
    "bubblewrap needs user namespaces: see the sysctls kernel.unprivileged_userns_clone=1, "
    "kernel.apparmor_restrict_unprivileged_userns=0 and user.max_user_namespaces; in a container "
    "they must be allowed from outside. Or write sandbox=off"
)


def supported_machine() -> str:
    """Return the name of this machine's processor. Raises ConfigError."""
    if sys.platform != "linux":  # pragma: no cover  # the tests run on Linux
        raise ConfigError("sandbox: only Linux has what it needs; write sandbox=off")
    machine = platform.machine()
    if machine not in seccomp.machines():  # pragma: no cover  # the tests run on one of these
        known = " and ".join(seccomp.machines())
        raise ConfigError(
            f"sandbox: there is none for {machine}, only for {known}; write sandbox=off"
        )
    return machine


def bwrap_on(search_path: str, project: Path) -> str:
    """Return the program of bubblewrap, from outside the project. Raises ConfigError."""
    from shutil import which

    for folder in search_path.split(os.pathsep):
        found = which("bwrap", path=folder) if Path(folder).is_absolute() else None
        if found and not Path(os.path.realpath(found)).is_relative_to(project):
            return os.path.realpath(found)
    raise ConfigError(
        "sandbox: bubblewrap is not installed (no bwrap on PATH, outside the project); "
        "apt-get install bubblewrap, or write sandbox=off"
    )


def help_for(said: str) -> str:
    """Return what to do where bubblewrap has `said` this and ended."""
    return _HELP if _NOT_ALLOWED.search(said) else "To do without, write sandbox=off"


def check_project(project: Path, hidden: Iterable[Path]) -> None:
    """Raise ConfigError for a folder that cannot be a project in a sandbox."""
    if not project.is_dir():
        raise ConfigError(f"sandbox: {project} is no folder; go to another one")
    replaced = [path for path in _REPLACED if Path(path).is_relative_to(project)]
    if replaced or any(project.is_relative_to(path) for path in _WITHOUT_PROJECTS):
        raise ConfigError(
            f"sandbox: {project} cannot be a project: the sandbox replaces "
            f"{replaced[0] if replaced else project}; go to another folder"
        )
    if project in hidden:
        raise ConfigError(
            f"sandbox: {project} is a folder of secrets, which it hides; go to another folder"
        )


def is_replaced(path: Path) -> bool:
    """Whether the sandbox has another thing of its own where `path` is."""
    return any(path.is_relative_to(replaced) for replaced in _REPLACED)
