"""A project, a home folder and what lies beside them, for tests of the sandbox."""

import os
import shutil
import sys
import tempfile
import termios  # noqa: F401  # see `_everything_imported`
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

from users import ordinary_user

from bantam.core.cancel import Cancel
from bantam.tools.executors.bwrap import BwrapExecutor
from bantam.tools.tool import Exit

# One that every user can run: not in the home folder of root.
PYTHON: Final = shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin") or sys.executable
LONG_S: Final = 60.0


class Site:
    """The folders `project` and `home` below `folder`, which is seen in the sandbox."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.project, self.home = folder, folder / "project", folder / "home"
        self.environ = {"PATH": os.environ["PATH"], "HOME": str(self.home)}
        self.project.mkdir()
        self.home.mkdir()

    def executor(
        self,
        environ: Mapping[str, str] = MappingProxyType({}),
        secrets: Sequence[str] = (),
        *,
        network: bool = False,
        kept: Iterable[str] = (),
    ) -> BwrapExecutor:
        """Return one for the project; `environ` is on top of the site's own."""
        environ = {**self.environ, **environ}
        return BwrapExecutor(self.project, environ, secrets, network=network, kept=kept)

    def run(
        self,
        command: str,
        environ: Mapping[str, str] = MappingProxyType({}),
        *,
        network: bool = False,
    ) -> tuple[str, Exit]:
        """Run `command` in a new sandbox; return its output and how it ended."""
        return ran(self.executor(environ, network=network), command)

    def python(self, program: str, *, network: bool = False) -> str:
        """Run a program in Python; return its output."""
        (self.project / "program.py").write_text(program)
        return self.run(f"{PYTHON} program.py", network=network)[0]


def ran(executor: BwrapExecutor, command: str, timeout: float = LONG_S) -> tuple[str, Exit]:
    """Run `command`; return its output and how it ended."""
    pieces, text = executor.run(command, timeout, Cancel()), ""
    while True:
        try:
            text += next(pieces)
        except StopIteration as stop:
            end: Exit = stop.value
            return text, end


@contextmanager
def site_for(user: str) -> Iterator[Site]:
    """Be `user`, `this` or an `ordinary` one, with a site outside /tmp, which is hidden."""
    bases = [Path("/srv"), Path("/opt"), Path.home()]
    base = next(folder for folder in bases if os.access(folder, os.W_OK))
    with tempfile.TemporaryDirectory(dir=base, prefix="bantam-test-") as name:
        folder = Path(name)
        folder.chmod(0o777)
        if user == "this":
            yield Site(folder)
            return
        _everything_imported()
        with ordinary_user():
            yield Site(folder)


@cache
def _everything_imported() -> None:
    """Run a sandbox, once: another user may not be able to read the modules that it needs."""
    with tempfile.TemporaryDirectory() as folder:
        ran(BwrapExecutor(Path(folder), os.environ), "true")
