"""Commands in a sandbox of Linux's namespaces, made by bubblewrap: a prefix before their arguments.

**Seen.** The disk read-only, the project read-write, a /tmp of this executor's own, an empty /run;
a new /dev and /proc, the latter read-only as its files obey root without privileges too. What has
secrets is covered with nothing, even inside a project; a project inside such a folder stays seen.

**`.git` and the configuration** are read-only: see `protection`. `git status` and `git diff` work,
what writes `.git` does not: commits are the user's.

**Ended.** All of a command is in its own PID namespace and dies with bubblewrap, which dies with
Bantam's thread: nothing runs on in the background once the shell has exited.

**Refused**: a silent fall-back; a program `bwrap` from the project, which a command could have
written; `LD_` variables in bubblewrap's own environment, which name what it loads, likewise; making
what is missing by bubblewrap, which leaves it there; removing afterwards what a command has made,
as it may be the user's. Not promised: limits of memory, disk and processes.
"""

import os
import platform
import subprocess
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Final

from bantam.core.cancel import Cancel
from bantam.core.errors import ConfigError, ToolError
from bantam.tools.executors import seccomp
from bantam.tools.executors.hidden import cleaned, hidden_paths
from bantam.tools.executors.local import LocalExecutor, Prefix
from bantam.tools.executors.protection import PROTECTED, gitdir, places_held, repositories_in
from bantam.tools.tool import Exit
from bantam.tools.workspace import Workspace

# What the sandbox replaces: a project that holds one of these would undo it.
_REPLACED: Final = ("/dev", "/proc", "/sys", "/run", "/tmp", "/var/tmp")  # noqa: S108  # names
_WITHOUT_PROJECTS: Final = ("/dev", "/proc", "/sys")
# May be in /run, and needed: NixOS's programs, and the addresses of name servers.
_KEPT: Final = ("/run/current-system", "/run/wrappers", "/etc/resolv.conf")
_ENVIRONMENT: Final = {
    "TMPDIR": "/tmp",  # noqa: S108  # the sandbox's own
    "XDG_CACHE_HOME": "/tmp/.cache",  # noqa: S108  # the one in the home folder is read-only
    "GIT_OPTIONAL_LOCKS": "0",  # else `git status` tries to write into .git
}
_HELP: Final = (
    "bubblewrap needs user namespaces: see the sysctls kernel.unprivileged_userns_clone=1, "
    "kernel.apparmor_restrict_unprivileged_userns=0 and user.max_user_namespaces; in a container "
    "they must be allowed from outside. Or write sandbox=off"
)


class BwrapExecutor:
    """Acts on the project `cwd` alone; commands see no network unless `network`.

    Raises ConfigError where a sandbox cannot be had, as does `check`, which tries it.
    """

    def __init__(
        self,
        cwd: Path,
        environ: Mapping[str, str],
        secrets: Iterable[str | None] = (),
        *,
        network: bool = False,
    ) -> None:
        secrets = tuple(secrets)
        self._machine = _supported_machine()
        self._project = Path(os.path.realpath(cwd))
        self._environ = environ
        _check_project(self._project, hidden_paths(environ))
        self._program = _bwrap_on(environ.get("PATH", os.defpath), self._project)
        self._network = network
        kept = {**cleaned(environ, secrets), **_ENVIRONMENT}
        self._loader = {name: kept.pop(name) for name in [*kept] if name.startswith("LD_")}
        self._local = LocalExecutor(cwd, kept, secrets)
        self.cwd = self._local.cwd
        self.shell = self._local.shell
        self.workspace = Workspace(self._project, self._protected, self._hidden, PROTECTED)

    def check(self) -> None:
        """Start a sandbox. Raises ConfigError if that fails, with what to do about it."""
        try:
            with self._prefix(Cancel()) as prefix:
                tried = subprocess.run(
                    [*prefix.argv, "/bin/sh", "-c", ":"],
                    cwd=self.cwd,
                    env=self._local.environment,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    pass_fds=prefix.fds,
                    check=False,
                )
        except (OSError, ToolError) as error:
            raise ConfigError(f"sandbox: {error}; write sandbox=off to do without") from None
        if tried.returncode != 0:
            said = tried.stderr.decode(errors="replace").strip()
            raise ConfigError(f"sandbox: it does not start: {said or tried.returncode}. {_HELP}")

    def run(self, command: str, timeout: float, cancel: Cancel) -> Generator[str, None, Exit]:
        """Run `command` in a fresh shell and sandbox; see `tools.tool.Executor`."""
        cancel.check()
        with self._prefix(cancel) as prefix:
            return (yield from self._local.run_behind(prefix, command, timeout, cancel))

    def resolve(self, path: str) -> Path:
        """Return the path that `path` means, links followed. Raises OutsideWorkspace, ToolError."""
        real = Path(os.path.realpath(self._local.resolve(path)))
        self.workspace.check(real, writing=False)
        return real

    def spill_folder(self) -> Path:
        """Return a folder for whole outputs, which commands can read under the same name."""
        return self._private / "output"

    @cached_property
    def _private(self) -> Path:
        """A folder that nobody else can enter, with the sandbox's /tmp; it goes at exit."""
        import atexit
        import shutil
        import tempfile

        folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="bantam-")))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        for name in ("tmp", "output"):
            (folder / name).mkdir(mode=0o700)
        # Bubblewrap would make them, and follow a link that a command has put in their place.
        for mounted in (folder / "output", self._project):
            for inside in _below_tmp(mounted):
                (folder / "tmp" / inside).mkdir(exist_ok=True)
        return folder

    @cached_property
    def _nested(self) -> tuple[Path, ...]:
        return tuple(repositories_in(self._project))

    @contextmanager
    def _prefix(self, cancel: Cancel) -> Iterator[Prefix]:
        """Hold the places of what is protected, and give what stands before a command."""
        with places_held(self._project, cancel) as is_held:
            filter_read = _pipe_with(seccomp.program(self._machine))
            try:
                yield Prefix((*self._arguments(filter_read, writable=is_held),), (filter_read,))
            finally:
                os.close(filter_read)

    def _arguments(self, filter_read: int, *, writable: bool) -> Iterator[str]:
        yield from (self._program, "--unshare-all", *(["--share-net"] if self._network else []))
        yield from ("--die-with-parent", "--new-session", "--cap-drop", "ALL")
        # A name that can be looked up without a network.
        yield from ("--hostname", "localhost", "--seccomp", str(filter_read))
        for name, value in self._loader.items():
            yield from ("--setenv", name, value)
        hidden = self._hidden()
        yield from self._disk(hidden)
        project = self._project
        yield from _bound("--bind" if writable else "--ro-bind", project)
        yield from self._protections()
        yield from _covers(path for path in hidden if project in path.parents)
        yield from _bound("--ro-bind", self.spill_folder())
        # Last: until now folders were made in them for what is mounted there.
        for cover in ("/proc", "/run", *(path for path in hidden if path.is_dir())):
            yield from ("--remount-ro", str(cover))

    def _hidden(self) -> list[Path]:
        """What has secrets and would be seen. Looked for each time: it comes and goes."""
        return [
            path
            for path in hidden_paths(self._environ)
            if self._project in path.parents or not _is_replaced(path)
        ]

    def _disk(self, hidden: Iterable[Path]) -> Iterator[str]:
        """What is seen outside the project."""
        yield from ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/run")
        for kept in map(os.path.realpath, _KEPT):
            yield from ("--ro-bind-try", kept, kept)
        temporary = self._private / "tmp"
        yield from ("--tmpfs", "/var/tmp", "--bind", str(temporary), "/tmp")  # noqa: S108  # its own
        for mounted in (self.spill_folder(), self._project):
            for inside in _below_tmp(mounted):  # pinned, so that no link takes their place
                yield from ("--bind", str(temporary / inside), f"/tmp/{inside}")  # noqa: S108
        yield from _covers(path for path in hidden if self._project not in path.parents)

    def _protected(self) -> set[Path]:
        """What is there and must not be written."""
        protected = set[Path]()
        for path in (*(self._project / name for name in PROTECTED), *self._nested):
            # A mount would follow a link, wherever to.
            if path.exists() and os.path.realpath(path) == str(path):
                protected |= {path, *gitdir(path, self._project)}
        return protected

    def _protections(self) -> Iterator[str]:
        """Mount what must not be written on itself, and what leads there so that it stays."""
        protected, pins = self._protected(), set[Path]()
        for path in protected:
            pins |= {above for above in path.parents if self._project in above.parents}
        for path in sorted(protected | pins, key=lambda path: (len(path.parts), path)):
            yield from _bound("--ro-bind" if path in protected else "--bind", path)


def _supported_machine() -> str:
    if sys.platform != "linux":  # pragma: no cover  # the tests run on Linux
        raise ConfigError("sandbox: only Linux has what it needs; write sandbox=off")
    machine = platform.machine()
    if machine not in seccomp.machines():  # pragma: no cover  # the tests run on one of these
        known = " and ".join(seccomp.machines())
        raise ConfigError(
            f"sandbox: there is none for {machine}, only for {known}; write sandbox=off"
        )
    return machine


def _bwrap_on(search_path: str, project: Path) -> str:
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


def _check_project(project: Path, hidden: Iterable[Path]) -> None:
    """Raise ConfigError for a folder that cannot be a project in a sandbox."""
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


def _is_replaced(path: Path) -> bool:
    return any(path.is_relative_to(replaced) for replaced in _REPLACED)


def _below_tmp(path: Path) -> list[Path]:
    """Return the way from /tmp to `path`, folder by folder; nothing if it leads elsewhere."""
    tmp = Path("/tmp")  # noqa: S108  # a name
    if not path.is_relative_to(tmp):
        return []
    return [
        above.relative_to(tmp) for above in (*reversed(path.parents), path) if tmp in above.parents
    ]


def _bound(flag: str, path: Path) -> tuple[str, str, str]:
    return flag, str(path), str(path)


def _covers(paths: Iterable[Path]) -> Iterator[str]:
    for path in paths:
        yield from (
            ("--tmpfs", str(path)) if path.is_dir() else ("--ro-bind", "/dev/null", str(path))
        )


def _pipe_with(content: bytes) -> int:
    """Return the end to read of a pipe that holds `content`, which must fit into it."""
    read, write = os.pipe()
    try:
        os.write(write, content)
    finally:
        os.close(write)
    return read
