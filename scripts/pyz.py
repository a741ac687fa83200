"""Write Bantam and all that it needs into one file, which any Python from 3.11 on runs.

    python scripts/pyz.py dist/bantam.pyz

The libraries are those of the environment that runs this: what was tested with is what is packed,
and nothing is fetched. Beside each source lies its bytecode for the Python that runs this; another
compiles the sources at each start. The same files and Python make the same bytes: names are sorted,
and no time, path or owner of this machine goes in.
"""

import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path
from py_compile import PycInvalidationMode
from py_compile import compile as write_bytecode
from tempfile import TemporaryDirectory
from typing import Final
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

from packaging.requirements import Requirement

NAME: Final = "bantam-agent"
SOURCES: Final = Path(__file__).parent.parent / "src"
PYTHONS: Final = ("3.11", "3.12", "3.13")  # each may need a library that others do not
MAIN: Final = b"""\
import sys

from bantam.cli import main

sys.exit(main())
"""
# No system loads these from a zip file; whoever has them does without where they are missing.
_MACHINE_CODE: Final = (".so", ".pyd")


def needed(name: str, extras: frozenset[str], found: dict[str, Distribution]) -> None:
    """Add to `found` the distributions that `name` needs with `extras`, not itself."""
    for line in distribution(name).requires or ():
        requirement = Requirement(line)
        marker = requirement.marker
        is_needed = marker is None or any(
            marker.evaluate({"python_version": python, "extra": extra})
            for python in PYTHONS
            for extra in extras or {""}
        )
        # An extra can need more of what is there already.
        if is_needed and (requirement.name not in found or requirement.extras):
            found[requirement.name] = distribution(requirement.name)
            needed(requirement.name, frozenset(requirement.extras), found)


def files_of(package: Distribution) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of what a program needs of `package`, and of what its licence asks."""
    for path in package.files or ():
        folder, *inside = path.parts
        is_about = folder.endswith(".dist-info")
        if folder == ".." or "__pycache__" in path.parts or path.suffix in _MACHINE_CODE:
            continue
        if not is_about or inside[0] in ("METADATA", "licenses") or "LICENSE" in inside[0]:
            yield path.as_posix(), path.read_binary()


def own_files() -> Iterator[tuple[str, bytes]]:
    """Yield name and content of Bantam's own files, and of the program that starts it."""
    yield "__main__.py", MAIN
    for path in SOURCES.rglob("*"):
        name = path.relative_to(SOURCES)
        is_cache = any(part.startswith((".", "__pycache__")) for part in name.parts)
        if path.is_file() and not is_cache:
            yield name.as_posix(), path.read_bytes()


def bytecode(name: str, source: bytes, folder: Path) -> bytes:
    """Return `source` compiled; what a traceback calls it is `name`."""
    file, compiled = folder / "source.py", folder / "compiled.pyc"
    file.write_bytes(source)
    # A time would be another at each build, and to hold sources against a hash takes time.
    mode = PycInvalidationMode.UNCHECKED_HASH
    write_bytecode(str(file), str(compiled), name, doraise=True, invalidation_mode=mode)
    return compiled.read_bytes()


def build(target: Path) -> None:
    """Write `target`, which can be run as it is where there is a python3."""
    found: dict[str, Distribution] = {}
    needed(NAME, frozenset(), found)
    files = dict(own_files())
    for package in found.values():
        files.update(files_of(package))
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder, target.open("wb") as out:
        out.write(b"#!/usr/bin/env python3\n")
        with ZipFile(out, "w") as archive:
            for name, content in sorted(files.items()):
                _put(archive, name, content, ZIP_DEFLATED)
                if name.endswith(".py"):
                    compiled = bytecode(name, content, Path(folder))
                    # Read at every start, of which unpacking would take a tenth.
                    _put(archive, f"{name}c", compiled, ZIP_STORED)
    target.chmod(0o755)


def _put(archive: ZipFile, name: str, content: bytes, compression: int) -> None:
    entry = ZipInfo(name)  # of 1980, the first year that a zip file knows
    entry.compress_type = compression
    entry.create_system = 3  # Unix, on which nobody's umask shows
    archive.writestr(entry, content, compresslevel=9)


if __name__ == "__main__":
    build(Path(sys.argv[1]))
