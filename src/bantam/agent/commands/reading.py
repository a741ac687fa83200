"""One command being read: where the shell may be by now, what it has written, what each program is.

A rule says of a program's call what it would do that a person should be asked about, or None. It
raises Unreadable where it cannot tell. The rules themselves come in a table.
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain
from typing import Final

from bantam.agent.commands.place import Place
from bantam.agent.commands.reader import commands_of
from bantam.agent.commands.scanner import DEEPEST
from bantam.agent.commands.words import HOME, Command, Doubt, Unreadable, Word

_MOST_FOLDERS: Final = 16  # in which a command may be by then
_PROGRAM_FOLDERS: Final = re.compile(r"(?:/usr(?:/local)?|/opt/homebrew)?/s?bin/[^/]+")
_DEVICES: Final = re.compile(r"/dev/(?:null|zero|stdin|stdout|stderr|fd/\d+)")
_NETWORK: Final = re.compile(r"/+dev/+(?:tcp|udp)(?:/|$)")
# Variables by which programs find others, or are told what to run, and values that are harmless.
_NAMES: Final = re.compile(
    r"IFS|ENV|HOME|SHELL|PS\d|SHELLOPTS|LESS|TMPDIR|ZDOTDIR|CC|CXX|RUSTC|npm_config_.*|.*_proxy|"
    r"(?:LD|DYLD|GIT|NPM|PIP|UV|GEM|DOCKER|SSH|GCC|JAVA|XDG|CARGO)_.*|"
    r"(?:BASH|PYTHON|PERL|RUBY|MAKE)[A-Z0-9_]+|(?:.*_|INPUT|WGET|CURL)RC|"
    r"[A-Z0-9_]*(?:OPTIONS|OPTS?|FLAGS|PRELOAD|PATH|PAGER|EDITOR|VISUAL|BROWSER|COMMAND|CMD|"
    r"WRAPPER|STARTUP|ASKPASS|PROXY|CONFIG|CONF|HOOKS?|LESSOPEN|LESSCLOSE)"
)
_PLAIN_VALUES: Final = re.compile(
    r"(?:GIT_|MAN)?PAGER=cat|GIT_(?:AUTHOR|COMMITTER)_(?:NAME|EMAIL|DATE)=.*|"
    r"PYTHON(?:UNBUFFERED|DONTWRITEBYTECODE|HASHSEED|WARNINGS|UTF8|IOENCODING)=.*|"
    r"PYTHONPATH=[\w.-][\w./-]*|IFS=[\s,:;|]*|GIT_TERMINAL_PROMPT=\d",
    re.DOTALL,
)


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
    """`risk` is asked about the commands of a text one after the other."""

    def __init__(self, place: Place, table: Mapping[str, Rule]) -> None:
        self._place = place
        self._table = table
        self._folders = [place.project]  # where the shell may be
        self._visited = [place.project]
        self._written: set[str] = set()
        self._depth = 0
        self._doubt = Doubt.NONE  # of the command in hand

    def risk(self, command: Command) -> str | None:
        """Return what `command` does that should be asked about."""
        outer, self._doubt = self._doubt, command.doubt
        found = first(
            chain(
                (self._redirects(sign, target) for sign, target in command.redirections),
                (self.assigns(name, value) for name, value in command.assignments),
                (self.run(words) for words in [command.words] if words),
            )
        )
        self._doubt = outer
        return found

    def shell(self, text: str) -> str | None:
        """Return the risk of `text` as a shell of its own runs it."""
        doubt = max(self._doubt, Doubt.WHETHER)
        self._depth += 1
        inner = commands_of(text, self._depth)
        found = first(self.risk(replace(each, doubt=max(each.doubt, doubt))) for each in inner)
        self._depth -= 1
        return found

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
        rule = self._table.get(name)
        risk = self.runs_file(program) if is_file else None if rule else Risk.UNKNOWN
        if rule and not risk:
            risk = rule(Call(name, tuple(args), self))
        self._depth -= 1
        return risk

    def runs_file(self, word: Word) -> str | None:
        """Return the risk of running the file `word`."""
        for path in self._paths(word):
            if not self._place.has(path):
                return Risk.UNKNOWN
            if os.path.realpath(path) in self._written:
                raise Unreadable(f"{word.raw} is only written by this command")
        return None

    def writes(self, word: Word, *, replaces: bool = True, is_built: bool = False) -> str | None:
        """Return the risk of writing the file `word`.

        `replaces`: what is in it is lost. `is_built`: it comes from the project's own code, so that
        it may be run.
        """
        for path in self._paths(word):
            if _DEVICES.fullmatch(path):
                continue
            if not self._place.has(path):
                return Risk.OUTSIDE
            if self._place.keeps(path):
                return Risk.KEPT
            if replaces and os.path.lexists(path):
                return Risk.OVERWRITES
            if not is_built:
                self._written.add(os.path.realpath(path))
        return None

    def is_inside(self, word: Word) -> bool:
        """Whether the path `word` is known, and in the project from where the shell may be."""
        return word.is_known and any(map(self._place.has, self._paths(word)))

    def is_there(self, path: str) -> bool:
        """Whether there is something at `path`; a path that ends in `/.` is a folder's."""
        return any(map(os.path.lexists, self._joined(path)))

    def enters(self, word: Word) -> str | None:
        """Let `word` be the folder of what follows; return the risk of it."""
        if word.text == "-":
            found = list(self._visited)
            is_lost = len(found) == 1  # the folder of before was another command's
        else:
            found = [os.path.normpath(path) for path in self._paths(word)]
            is_lost = self._doubt is Doubt.HOW_OFTEN and ".." in word.text
        if is_lost or not all(map(self._place.has, found)):
            raise Unreadable(f"{word.raw}: a folder that may be outside the project")
        stays = self._doubt or not all(map(os.path.lexists, found))
        self._folders = list(dict.fromkeys([*(self._folders if stays else []), *found]))
        self._visited = list(dict.fromkeys([*self._visited, *found]))
        if len(self._visited) > _MOST_FOLDERS:
            raise Unreadable("too many folders")
        return None

    def assigns(self, name: str, value: Word) -> str | None:
        """Return the risk of a variable's change."""
        check_subscript(value)
        if not _NAMES.fullmatch(name) or _PLAIN_VALUES.fullmatch(f"{name}={value.text}"):
            return None
        return Risk.KEPT

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
        if path.startswith(HOME):
            if not self._place.home:
                raise Unreadable("nobody knows what ~ is")
            path = self._place.home + path.removeprefix(HOME)
        return [os.path.join(folder, path) for folder in self._folders]  # noqa: PTH118  # keeps /.


def first(risks: Iterable[str | None]) -> str | None:
    """Return the first risk that there is."""
    return next(filter(None, risks), None)


def check_subscript(word: Word) -> None:
    """Raise Unreadable for a command in a subscript: arithmetic would run it."""
    _, _, rest = word.text.partition("[")
    if "$(" in rest or "`" in rest:
        raise Unreadable("a command in a subscript")
