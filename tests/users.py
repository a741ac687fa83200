"""Another user for a while: root passes every check of access, so tests must not be root."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

NOBODY: Final = 65534


@contextmanager
def open_folder() -> Iterator[Path]:
    """A new folder that every user may write, which those of pytest are not."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        yield Path(name)


@contextmanager
def ordinary_user() -> Iterator[None]:
    """Be a user without privileges for so long."""
    if os.geteuid() != 0:
        yield
        return
    os.setresuid(NOBODY, NOBODY, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)
