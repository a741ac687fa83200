"""One command being read: where the shell may be by now, what it has written, what each program is.

A rule says of a program's call what it would do that a person should be asked about, or None. It
raises Unreadable where it cannot tell. The rules themselves come in a table.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import Final

from bantam.agent.commands.place import Place
from bantam.agent.commands.reader import commands_of
from bantam.agent.commands.scanner import DEEPEST
from bantam.agent.commands.values import Values, tells_programs
from bantam.agent.commands.words import HERE, HOME, UNKNOWN, Command, Doubt, Unreadable, Word

_MOST_FOLDERS: Final = 16  # in which a command may be by then
# A shell that does not know them goes on without them.
_BASH_ONLY: Final = "[[ pushd popd declare typeset mapfile readarray let source builtin shopt"
# python3.11, gcc-13: what is in the table without the number.
_VERSIONED: Final = re.compile(r"(python|pip|gcc|g\+\+|clang|clang\+\+|node|ruby|perl|php)-?[\d.]+")
# What no program of a project takes for code. (CMakeLists.txt is.)
_PLAIN: Final = re.compile(r".*(?<!/CMakeLists)\.(?:txt|log|out|md|csv|xml|html|diff|patch)")
# A path that leaves where it begins, also as an option's value.
_ELSEWHERE: Final = re.compile(
    r"(?:-\w|[^/]*=)?((?:[/\x01\x03]|(?:[^/]*/)*\.\.(?:/|$)).*)", re.DOTALL
)
_PROGRAM_FOLDERS: Final = re.compile(r"(?:/usr(?:/local)?|/opt/homebrew)?/s?bin/[^/]+")
_DEVICES: Final = re.compile(r"/dev/(?:null|zero|full|tty|stdout|stderr)")
_NETWORK: Final = re.compile(r"/+dev/+(?:tcp|udp)(?:/|$)")


class Risk(StrEnum):
    """What a command does that is asked about, as a person is told."""

    DELETES = "deletes"
    OVERWRITES = "overwrites"
    PERMISSIONS = "changes permissions"
    PUSHES = "pushes"
    SUDO = "runs as another user"
    NETWORK = "uses the network"
    OUTSIDE = "writes outside the project"
    KEPT = "changes what is run later"
    STOPS = "stops processes"
    SYSTEM = "changes the system"
    HISTORY = "changes history or work in hand"
    TARGET = "may do more than build or test"
    LINKS = "changes what a path means"
    UNKNOWN = "is not known"


@dataclass(frozen=True, slots=True)
class Call:
    """A program's name without its folder, its arguments, and the reading that they are in."""

    name: str
    args: tuple[Word, ...]
    reading: "Reading"


Rule = Callable[[Call], str | None]


class Reading:
    """One command line: `risk_in` is asked about its text, and about what shells in it run."""

    def __init__(self, place: Place, table: Mapping[str, Rule]) -> None:
        self._place = place
        self._table = table
        self._folders = [place.project]  # where the shell may be
        self._visited = [place.project]
        self._written: dict[str, bool] = {}  # each file by this text, and whether it is_built
        self._made: set[str] = set()  # folders
        self._empties = self._appends = False  # /dev/stdout, whatever it is; a file
        self._is_bash = place.shell.rpartition("/")[2] == "bash"
        self.values = Values()
        self._depth = 0
        self._doubt = Doubt.NONE  # of the command in hand

    def risk_in(self, text: str) -> tuple[str, Command] | None:
        """Return the first risk of `text`, and the command that it is in; None: there is none."""
        commands = commands_of(text, self._depth, is_bash=self._is_bash)
        self.values.learns(commands)
        for each in commands:
            doubt = max(each.doubt, self._doubt)
            if risk := self._risk(replace(each, doubt=doubt)):
                return risk, each
        return None

    def _risk(self, command: Command) -> str | None:
        outer, self._doubt = self._doubt, command.doubt
        for formula in command.sums:
            self.values.check(formula)
        found = first(
            chain(
                (self.assigns(name, value) for name, value in command.assignments),
                (self.run(words) for words in [command.words] if words),
                # Last: what a command prints is nothing that it runs.
                (self._redirects(sign, target) for sign, target in command.redirections),
            )
        )
        self._doubt = outer
        return found

    def shell(self, text: str, shell: str = "") -> str | None:
        """Return the risk of `text` as a shell of its own runs it, or the program `shell`."""
        if HERE in text:
            raise Unreadable("a folder in a text that is run, perhaps in another")
        outer = self._depth, self._doubt, self._is_bash
        self._depth += 1
        self._doubt = max(self._doubt, Doubt.WHETHER)
        self._is_bash = shell == "bash" if shell else self._is_bash
        found = self.risk_in(text)
        self._depth, self._doubt, self._is_bash = outer
        return found[0] if found else None

    def run(self, words: Sequence[Word]) -> str | None:
        """Return the risk of the command `words`."""
        program, *args = words
        if not program.is_known or program.splits or not program.text:
            raise Unreadable(f"{program.raw or 'nothing'}: a program that is not known yet")
        self._depth += 1
        if self._depth > DEEPEST:
            raise Unreadable("too many levels")
        name = program.text.rpartition("/")[2]
        is_file = name != program.text and not _PROGRAM_FOLDERS.fullmatch(program.text)
        if not self._is_bash and name in _BASH_ONLY.split():
            raise Unreadable(f"{name}: each sh reads it in another way")
        if name not in self._table and (versioned := _VERSIONED.fullmatch(name)):
            name = versioned[1]
        rule = self._table.get(name)
        risk = (
            self.runs_file(program, is_program=True) if is_file else None if rule else Risk.UNKNOWN
        )
        if rule and not risk:
            risk = rule(Call(name, tuple(args), self))
        self._depth -= 1
        return risk

    def runs_file(self, word: Word, *, is_program: bool = False) -> str | None:
        """Return the risk of running the file `word`, by itself or by another program."""
        if self.values.is_item(word):
            self.runs_project(())
            return None
        for path in self._paths(word):
            if not self._place.has(path):
                return Risk.UNKNOWN
            if not all(is_built and is_program for is_built in self._writings(path)):
                raise Unreadable(f"{word.raw} is only written by this command")
        return None

    def runs_project(self, words: Iterable[Word]) -> None:
        """Raise Unreadable if code from elsewhere, or new one, may be run with the project's."""
        for word in words:
            found = _ELSEWHERE.match(word.text)
            if found and not self.is_inside(Word(found[1])):
                raise Unreadable(f"{word.raw}: a file that is not the project's")
        for path, is_built in self._written.items():
            if not is_built and not _PLAIN.fullmatch(path):
                raise Unreadable(f"{Path(path).name} is only written by this command")
        self._joined("")

    def writes(
        self, word: Word, *, replaces: bool = True, is_built: bool = False, opens: bool = True
    ) -> str | None:
        """Return the risk of writing the file `word`.

        `replaces`: what is in it is lost. `is_built`: it comes from the project's own code, so that
        it may be run. `opens`: a device stays what it is.
        """
        for path in self._paths(word):
            if opens and _DEVICES.fullmatch(path):
                self._empties |= replaces and path.startswith("/dev/std")
            elif risk := self._touched(path):
                return risk
            elif replaces and self._holds(path):
                return Risk.OVERWRITES
            else:
                self._appends |= not replaces
                self._written.setdefault(os.path.realpath(path), is_built)
        if self._empties and self._appends:
            raise Unreadable("/dev/stdout or the like, which may be a file that is appended to")
        return None

    def touches(self, word: Word, *, makes_folder: bool = False) -> str | None:
        """Return the risk of making or taking away `word`, of which nothing is lost."""
        paths = self._paths(word)
        for real in map(Path, map(os.path.realpath, paths if makes_folder else ())):
            new = (each for each in (real, *real.parents) if not os.path.lexists(each))
            self._made.update(map(str, new))
        return first(map(self._touched, paths))

    def _touched(self, path: str) -> str | None:
        if not self._place.has(path):
            return Risk.OUTSIDE
        return Risk.KEPT if self._place.keeps(path) else None

    def _holds(self, path: str) -> bool:
        # Its real path too: at a/../b nothing is before a folder is made.
        there = any(map(os.path.lexists, (path, os.path.realpath(path))))
        return there or bool(self._writings(path))

    def _writings(self, path: str) -> list[bool]:
        """Return for each that this text has put at, above or below `path` whether it is_built."""
        real = Path(os.path.realpath(path))
        return [
            is_built
            for each, is_built in self._written.items()
            if real.is_relative_to(each) or Path(each).is_relative_to(real)
        ]

    def is_inside(self, word: Word) -> bool:
        """Whether the path `word` is known, and in the project from where the shell may be."""
        is_file = word.is_known and word.text != "-"  # which is standard input
        return is_file and any(map(self._place.has, self._paths(word)))

    def is_there(self, path: str) -> bool:
        """Whether there is something at `path`; a path that ends in `/.` is a folder's."""
        paths = [] if UNKNOWN in path else self._joined(path)
        return any(os.path.lexists(each) or os.path.realpath(each) in self._made for each in paths)

    @contextmanager
    def within(self, word: Word) -> Iterator[None]:
        """Be in the folder `word` for a while."""
        outer, self._folders = self._folders, self._paths(word)
        yield
        self._folders = outer

    def enters(self, word: Word) -> str | None:
        """Let `word` be the folder of what follows; return the risk of it."""
        if word.text == "-":
            found = list(self._visited)
            is_lost = len(found) == 1  # the folder of before was another command's
        elif self.values.is_item(word):
            inner = [f"{folder}/{UNKNOWN}" for folder in self._folders]
            self._folders = [*self._folders, *inner]
            return None
        else:
            paths = self._paths(word)
            found = [os.path.normpath(path) for path in paths]
            is_lost = self._doubt is Doubt.HOW_OFTEN and ".." in word.text
            # Behind a link, `..` is one folder or another.
            is_lost |= [*map(os.path.realpath, paths)] != [*map(os.path.realpath, found)]
        if is_lost or not all(map(self._place.has, found)):
            raise Unreadable(f"{word.raw}: a folder that may be outside the project")
        stays = self._doubt or not all(map(os.path.isdir, found))
        self._folders = list(dict.fromkeys([*(self._folders if stays else []), *found]))
        self._visited = list(dict.fromkeys([*self._visited, *found]))
        if len(self._visited) > _MOST_FOLDERS:
            raise Unreadable("too many folders")
        return None

    def assigns(self, name: str, value: Word) -> str | None:
        """Return the risk of a variable's change."""
        self.values.check_subscript(value)
        return Risk.KEPT if tells_programs(name, value.text) else None

    def _redirects(self, sign: str, target: Word) -> str | None:
        is_number = target.text.rstrip("-").isdecimal() or target.text == "-"
        if sign in ("<<", "<<-", "<<<") or (sign in ("<&", ">&") and is_number):
            return None
        if not target.is_known:
            raise Unreadable(f"{target.raw}: a file that is not known yet")
        if _NETWORK.match(target.text):
            return Risk.NETWORK
        return None if sign in ("<", "<&") else self.writes(target, replaces=">>" not in sign)

    def _paths(self, word: Word) -> list[str]:
        """Return what the path `word` may mean. Raises Unreadable where nobody can tell."""
        if not word.is_known or word.splits:
            raise Unreadable(f"{word.raw}: a file that is not known yet")
        return self._joined(word.text)

    def _joined(self, path: str) -> list[str]:
        if path.startswith("/proc/") or any(UNKNOWN in folder for folder in self._folders):
            raise Unreadable(f"{path or 'the folder'}: what it is depends on who looks")
        if path.startswith(HERE):
            return [folder + path.removeprefix(HERE) for folder in self._folders]
        if path.startswith(HOME):
            if not self._place.home:
                raise Unreadable("nobody knows what ~ is")
            path = self._place.home + path.removeprefix(HOME)
        return [os.path.join(folder, path) for folder in self._folders]  # noqa: PTH118  # keeps /.


def first(risks: Iterable[str | None]) -> str | None:
    """Return the first risk that there is."""
    return next(filter(None, risks), None)
