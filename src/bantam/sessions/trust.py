"""What the user has accepted, for every later run: `trust.json` in the home of what is remembered.

    {"format": "bantam-trust", "version": 1, "origins": ["https://x.example"],
     "keys": {"https://x.example": false}, "programs": {"SHA-256": "/path/of/the/program"}}

`keys`: whether OPENAI_API_KEY may go to an origin, as it was answered. A program is known by the
digest, which covers its arguments too; the path is for a reader. A file that says nothing certain
accepts nothing: a damaged one is set aside, one of a newer version left as it is.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bantam.core.errors import why_of
from bantam.sessions import files

_FORMAT: Final = "bantam-trust"
_VERSION: Final = 1
_MOST_BYTES: Final = 1 << 20  # ten thousand answers


@dataclass(frozen=True, slots=True)
class Answers:
    """What was accepted; see above."""

    origins: frozenset[str] = frozenset()
    keys: Mapping[str, bool] = field(default_factory=dict)
    programs: Mapping[str, str] = field(default_factory=dict)

    def with_those_of(self, newer: "Answers") -> "Answers":
        """Return all answers; of two to one question the newer."""
        return Answers(
            self.origins | newer.origins,
            {**self.keys, **newer.keys},
            {**self.programs, **newer.programs},
        )


class TrustFile:
    """The answers in `home`; None: there is none, and nothing can be remembered."""

    def __init__(self, home: Path | None) -> None:
        self._path = None if home is None else home / "trust.json"

    def read(self, tell: Callable[[str], None]) -> Answers:
        """Return what is remembered: nothing if that is damaged, which is told."""
        if self._path is None:
            return Answers()
        try:
            return _read(self._path)
        except FileNotFoundError:
            return Answers()
        except OSError as error:
            tell(f"{self._path} cannot be read: {why_of(error)}; nothing in it holds")
        except ValueError as error:
            aside = self._path.with_name(f"{self._path.name}.damaged")
            where = f"it is now {aside.name}"
            try:
                self._path.replace(aside)
            except OSError as why:
                where = f"it cannot be set aside: {why_of(why)}"
            tell(f"{self._path} is damaged: {error}; nothing in it holds; {where}")
        return Answers()

    def add(self, answers: Answers) -> None:
        """Remember `answers` beside what is remembered. Raises OSError."""
        if self._path is None:
            raise FileNotFoundError(2, "there is no home folder", "~/.bantam")
        home = self._path.parent
        files.make_private(home)
        if home.name == ".bantam":  # not one that BANTAM_HOME names, perhaps /tmp
            files.close_to_others(home)
        with _alone(home):
            try:
                before = _read(self._path)
            except FileNotFoundError:
                before = Answers()
            except ValueError as error:  # whoever reads it sets it aside
                raise OSError(0, str(error), str(self._path)) from None
            # A link, perhaps into a folder of settings, stays one.
            target = Path(os.path.realpath(self._path))
            files.replace(target, [_written(before.with_those_of(answers))])


def _read(path: Path) -> Answers:
    """Return what the file holds. Raises OSError, and ValueError if it is damaged."""
    with files.reader(path) as file:
        raw = file.read(_MOST_BYTES + 1)
    if len(raw) > _MOST_BYTES:
        raise ValueError(f"it has more than {_MOST_BYTES} bytes")
    try:
        held: Any = json.loads(raw)
    except (ValueError, RecursionError):
        raise ValueError("it is no JSON") from None
    if not isinstance(held, dict) or held.get("format") != _FORMAT:
        raise ValueError(f"it is no object of the format {_FORMAT}")
    version = held.get("version")
    if isinstance(version, int) and version > _VERSION:
        raise OSError(0, f"it is of version {version}, and this Bantam knows {_VERSION}", str(path))
    origins, keys, programs = (held.get(name) for name in ("origins", "keys", "programs"))
    if (
        version != _VERSION
        or not (isinstance(origins, list) and all(isinstance(each, str) for each in origins))
        or not (isinstance(keys, dict) and all(isinstance(each, bool) for each in keys.values()))
        or not (
            isinstance(programs, dict) and all(isinstance(each, str) for each in programs.values())
        )
    ):
        raise ValueError("what it holds is not what it should")
    return Answers(frozenset(origins), keys, programs)


def _written(answers: Answers) -> bytes:
    held = {
        "format": _FORMAT,
        "version": _VERSION,
        "origins": sorted(answers.origins),
        "keys": answers.keys,
        "programs": answers.programs,
    }
    return (json.dumps(held, indent=1) + "\n").encode()  # a person may take an answer back


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let no other process be here: of two that add an answer neither loses one."""
    if sys.platform == "win32":  # pragma: no cover  # folders cannot be opened there
        yield
        return
    import fcntl

    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
