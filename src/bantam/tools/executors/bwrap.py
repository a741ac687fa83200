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
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property
from itertools import chain, takewhile
from pathlib import Path
from typing import Final, NamedTuple

from bantam.core.cancel import Cancel
from bantam.core.errors import ConfigError, ToolError
from bantam.tools.executors import seccomp
from bantam.tools.executors.hidden import cleaned, hidden_paths, own_places
from bantam.tools.executors.local import LocalExecutor
from bantam.tools.executors.mounts import Gate, Wanted
from bantam.tools.executors.needs import (
    bwrap_on,
    check_project,
    help_for,
    is_replaced,
    supported_machine,
)
from bantam.tools.executors.private import Private, base_for, private_folder
from bantam.tools.executors.protection import (
    MOST_FOLDERS,
    PROTECTED,
    Place,
    Repositories,
    gitdirs,
    kept_for,
    places_held,
    repositories_in,
)
from bantam.tools.executors.starting import Prefix
from bantam.tools.tool import Exit
from bantam.tools.workspace import Workspace

# May be in /run, and needed: NixOS's programs, and the addresses of name servers.
_KEPT: Final = ("/run/current-system", "/run/wrappers", "/etc/resolv.conf")
_ENVIRONMENT: Final = {
    "TMPDIR": "/tmp",  # noqa: S108  # the sandbox's own
    "XDG_CACHE_HOME": "/tmp/.cache",  # noqa: S108  # the one in the home folder is read-only
    "GIT_OPTIONAL_LOCKS": "0",  # else `git status` tries to write into .git
}
_CHECK_S: Final = 60.0  # a hundred times what a start takes
_NOT_ALL: Final = (
    f"[sandbox: the project has more than {MOST_FOLDERS} folders, or more git repositories than "
    "can be protected; those that are farthest down are not]\n"
)


class _State(NamedTuple):
    """What there is now: with secrets, of it in the project; not to be written; what leads there.

    The last must stay where it is: what is above could be moved away with a mount in it.
    """

    hidden: list[Path]
    inside: list[Path]
    protected: set[Path]
    pins: set[Path]


class BwrapExecutor:
    """Acts on the project `cwd` alone; commands see no network unless `network`.

    `kept`: the absolute paths of further files that no command may replace. Raises ConfigError
    where a sandbox cannot be had, as does `check`, which tries it.
    """

    def __init__(
        self,
        cwd: Path,
        environ: Mapping[str, str],
        secrets: Iterable[str | None] = (),
        *,
        network: bool = False,
        kept: Iterable[str] = (),
    ) -> None:
        secrets = tuple(secrets)
        self._machine = supported_machine()
        self._project = Path(os.path.realpath(cwd))
        self._environ = environ
        check_project(self._project, hidden_paths(environ))
        self._program = bwrap_on(environ.get("PATH", os.defpath), self._project)
        self._base = base_for(self._project, environ)
        self._network = network
        own = own_places(environ)
        every = {file for path in (*kept, *own) for file in kept_for(path, self._project)}
        places = every & {Path(os.path.realpath(path)) for path in own}
        self._kept = every - places
        self._own: list[Place] = sorted(path.relative_to(self._project).parts for path in places)
        passed = {**cleaned(environ, secrets), **_ENVIRONMENT}
        self._loader = {name: passed.pop(name) for name in [*passed] if name.startswith("LD_")}
        self._local = LocalExecutor(cwd, passed, secrets)
        self.cwd = self._local.cwd
        self.shell = self._local.shell
        names = *((name,) for name in PROTECTED), *self._own
        self.workspace = Workspace(self._project, self._protected, self._hidden, names)
        self._has_told = False

    def check(self) -> None:
        """Start a sandbox. Raises ConfigError if that fails, with what to do about it."""
        codes = list[int]()

        def tried() -> Iterator[str]:
            codes.append((yield from self._run(":", _CHECK_S, Cancel())).code)

        try:
            said = "".join(tried()).strip()
        except (OSError, ToolError) as error:
            raise ConfigError(f"sandbox: {error}; write sandbox=off to do without") from None
        if codes != [0]:
            raise ConfigError(f"sandbox: it does not start: {said or codes[0]}. {help_for(said)}")

    def run(self, command: str, timeout: float, cancel: Cancel) -> Generator[str, None, Exit]:
        """Run `command` in a fresh shell and sandbox; see `tools.tool.Executor`."""
        cancel.check()
        if not (self._has_told or self._nested.are_all):
            self._has_told = True
            yield _NOT_ALL
        return (yield from self._run(command, timeout, cancel))

    def _run(self, command: str, timeout: float, cancel: Cancel) -> Generator[str, None, Exit]:
        with self._prefix(cancel) as prefix:
            return (yield from self._local.run_behind(prefix, command, timeout, cancel))

    def resolve(self, path: str) -> Path:
        """Return the path that `path` means, links followed. Raises OutsideWorkspace, ToolError."""
        real = Path(os.path.realpath(self._local.resolve(path)))
        self.workspace.check(real, writing=False)
        return real

    def spill_folder(self) -> Path:
        """Return a folder for whole outputs, which commands can read under the same name.

        Raises ToolError if another one stands in its place.
        """
        self._private.check()
        return self._private.output

    @cached_property
    def _private(self) -> Private:
        """A folder that nobody else can enter, with the sandbox's /tmp."""
        private = private_folder(self._base, self)
        # Bubblewrap would make them, and follow a link that a command has put in their place.
        for mounted in (private.output, self._project):
            for inside in _below_tmp(mounted):
                (private.tmp / inside).mkdir(exist_ok=True)
        return private

    @cached_property
    def _nested(self) -> Repositories:
        return repositories_in(self._project)

    @contextmanager
    def _prefix(self, cancel: Cancel) -> Iterator[Prefix]:
        """Hold the places of what is protected, and give what stands before a command."""
        with ExitStack() as opened:
            is_held = opened.enter_context(places_held(self.workspace, self._own, cancel))
            filter_read = _pipe_with(seccomp.program(self._machine))
            opened.callback(os.close, filter_read)
            state = self._state()
            argv = (*self._arguments(filter_read, state, writable=is_held),)
            gate = Gate(self._wanted(state), cancel, opened)
            yield Prefix((*argv, *gate.arguments), (filter_read, *gate.fds), gate.pass_through)

    def _state(self) -> _State:
        hidden, protected, project = self._hidden(), self._protected(), self._project
        inside = [path for path in hidden if project in path.parents]
        ways = (takewhile(project.__ne__, path.parents) for path in (*protected, *inside))
        return _State(hidden, inside, protected, {*chain(*ways)} - protected)

    def _arguments(self, filter_read: int, state: _State, *, writable: bool) -> Iterator[str]:
        yield from (self._program, "--unshare-all", *(["--share-net"] if self._network else []))
        yield from ("--die-with-parent", "--new-session", "--cap-drop", "ALL")
        # A name that can be looked up without a network.
        yield from ("--hostname", "localhost", "--seccomp", str(filter_read))
        for name, value in self._loader.items():
            yield from ("--setenv", name, value)
        yield from self._disk(path for path in state.hidden if path not in state.inside)
        yield from _bound("--bind" if writable else "--ro-bind", self._project)
        protected = state.protected
        for path in sorted(protected | state.pins, key=lambda path: (len(path.parts), path)):
            yield from _bound("--ro-bind" if path in protected else "--bind", path)
        yield from _covers(state.inside)
        yield from _bound("--ro-bind", self.spill_folder())
        # Last: until now folders were made in them for what is mounted there.
        for cover in ("/proc", "/run", *(path for path in state.hidden if path.is_dir())):
            yield from ("--remount-ro", str(cover))

    def _hidden(self) -> list[Path]:
        """What has secrets and would be seen. Looked for each time: it comes and goes."""
        return [
            path
            for path in hidden_paths(self._environ)
            if self._project in path.parents or not is_replaced(path)
        ]

    def _disk(self, hidden: Iterable[Path]) -> Iterator[str]:
        """What is seen outside the project."""
        yield from ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/run")
        for kept in map(os.path.realpath, _KEPT):
            yield from ("--ro-bind-try", kept, kept)
        yield from ("--tmpfs", "/var/tmp")  # noqa: S108  # its own
        for place, folder in self._temporary().items():
            yield from ("--bind", folder, place)
        yield from _covers(hidden)

    def _temporary(self) -> dict[str, str]:
        """What is mounted on /tmp, and in it so that no link takes the place of what is there."""
        top, inner = Path("/tmp"), self._private.tmp  # noqa: S108  # its own
        ways = (way for path in (self.spill_folder(), self._project) for way in _below_tmp(path))
        return {str(top / way): str(inner / way) for way in (Path(), *ways)}

    def _protected(self) -> set[Path]:
        """What is there and must not be written."""
        protected, project = set[Path](), self._project
        own = *(project / name for name in PROTECTED), *self._nested.found
        for path in (*own, *self._kept):
            with suppress(OSError):  # a link that is gone between two looks
                # A mount would follow a link, wherever to.
                if path.exists() and os.path.realpath(path) == str(path):
                    protected |= {path, *(gitdirs(path, project) if path.name == ".git" else ())}
        return protected

    def _wanted(self, state: _State) -> Wanted:
        """What must be mounted, as what leads there may be swapped by a command of another Bantam.

        The project's own folder, too, and what is mounted on /tmp: they may lie in its project.
        """
        project, mounted = self._project, {*state.protected, *state.pins, *state.inside}
        covers = frozenset(str(path) for path in state.inside if path.is_dir())
        itself = {str(path): str(path) for path in (self.spill_folder(), project, *mounted)}
        nothing = {str(path): "/dev/null" for path in state.inside}
        sources = {**self._temporary(), **itself, **nothing}
        for place in covers:
            del sources[place]
        return Wanted(project, sources, covers, frozenset(map(str, state.protected)))


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
