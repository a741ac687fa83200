r"""What is known of the variables: which hold numbers, and which names that are no options.

Where the shell calculates, a variable's value is read as a formula, and the index of an array in it
may hold a command: so each that is calculated with must be a number (Bash's manual, "Shell
Arithmetic"). A variable is what *all* of its assignments make of it, wherever they stand.
"""

import re
from collections.abc import Iterable
from typing import Final

from bantam.agent.commands.words import Command, Unreadable, Word

_COUNTERS: Final = ("RANDOM", "SECONDS", "LINENO", "UID", "EUID", "PPID")  # the shell's own
_ASSIGNED: Final = re.compile(r"\A\w+(?:\[[^]]*\])?\+?=")
# Numbers, and what prints one: sums, sequences, counts.
_NUMBERS: Final = re.compile(
    r"""
    (?:
      \s*+"?(?:
        -?\d++ | \{\d+\.\.\d+\} | \$[#?$!] | \$\{(?:\#\w+|!\w+\[@\])\}
      | \$\(\((?:[^$`]|\$[\w{\#?])*?\)\)
      | \$\((?:seq(?:[ ][\w$"]+)*+ | nproc | date[ ]\+%s
        | (?:[^()`|;&\n]++\|)*[ ]*(?:wc[ ]-[clmw]|grep[ ]-[Eivw]*c)[^()`|;&\n]*+)\)
      )"?(?=\s|$)
    )++\s*
    """,
    re.VERBOSE | re.ASCII,
)
# Relative names without quotes, none of them an option: also *.py and sub/*/.
_ITEMS: Final = re.compile(r"(?:\s*+(?:\./|\.)?[\w*?\[][^\s'\"$`\\;&|<>(){}~]*+)++\s*", re.ASCII)
_NAME_ALONE: Final = re.compile(r'"\$\{?([A-Za-z_]\w*)\}?"', re.ASCII)
_WITH_NAMES: Final = re.compile(r'"((?:[\w,;!~]|\$\w+|\$\{\w+\})*+)"', re.ASCII)
_VARIABLE: Final = re.compile(r"\$\{?(\w+)\}?", re.ASCII)
# Of a formula: what holds no variable, or one.
_IN_SUM: Final = re.compile(
    r"\$\{?#\w*(?:\[[@*]\])?\}?|\$[?$!]|0[xX][\da-fA-F]+|\d+#\w+|([A-Za-z_]\w*|\$\{?[\d@*])",
    re.ASCII,
)
_SET_IN_SUM: Final = re.compile(
    r"(?<![\w$])([A-Za-z_]\w*)\s*(?:(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--)", re.ASCII
)
_SETTERS: Final = (
    "declare typeset local export readonly read mapfile readarray printf getopts unset"
)
# Variables by which programs find others, or are told what to run, and values that are harmless.
_NAMES: Final = re.compile(
    r"IFS|ENV|HOME|PWD|SHELL|PS\d|SHELLOPTS|LESS|TMPDIR|ZDOTDIR|RUSTC|npm_config_.*|.*_proxy|"
    r"(?:(?:HOST|BUILD|TARGET|CROSS)_?)?(?:AR|AS|CC|CPP|CXX|FC|LD|LEX|YACC|LINT|NM|RANLIB|STRIP|"
    r"OBJCOPY|RM|CP|MV|LN|MKDIR|INSTALL|SED|AWK|TAR|GO|CARGO|NPM|CMAKE)|"
    r"(?:LD|DYLD|GIT|NPM|PIP|UV|GEM|DOCKER|SSH|GCC|JAVA|XDG|CARGO)_.*|"
    r"(?:BASH|PYTHON|PERL|RUBY|MAKE)[A-Z0-9_]*|(?:.*_|INPUT|WGET|CURL)RC|"
    r"[A-Z0-9_]*(?:OPTIONS|OPTS?|FLAGS|PRELOAD|PATH|PAGER|EDITOR|VISUAL|BROWSER|COMMAND|CMD|"
    r"WRAPPER|LAUNCHER|RUNNER|LINKER|COMPILER|PROGRAM|EXECUTABLE|STARTUP|ASKPASS|"
    r"PROXY|CONFIG|CONF|HOOKS?|LESSOPEN|LESSCLOSE)"
)
_PLAIN_VALUES: Final = re.compile(
    r"(?:GIT_|MAN)?PAGER=cat|GIT_(?:AUTHOR|COMMITTER)_(?:NAME|EMAIL|DATE)=.*|"
    r"PYTHON(?:UNBUFFERED|DONTWRITEBYTECODE|HASHSEED|WARNINGS|UTF8|IOENCODING)=.*|"
    r"PYTHONPATH=[\w.\x03-][\w./-]*|IFS=[\s,:;|]*|GIT_TERMINAL_PROMPT=\d|"
    r"(?:CMAKE_)?(?:C|CXX|CPP|LD)_?FLAGS=(?:\s*-(?:[OgWDIlLm]|std=|f(?!plugin|use-ld))[\w.+=/-]*)*|"
    r"\w*(?:CC|CXX|COMPILER|LAUNCHER|WRAPPER|PYTHON|EXECUTABLE)="
    r"(?:gcc|g\+\+|clang|clang\+\+|cc|c\+\+|s?ccache|python)[-\d.]*",
    re.DOTALL,
)


class Values:
    """The variables of all texts that it `learns`."""

    def __init__(self) -> None:
        self._kinds: dict[str, set[re.Pattern[str]]] = {}

    def learns(self, commands: Iterable[Command]) -> None:
        """Note what `commands` assign."""
        for command in commands:
            for name, value in command.assignments:
                self._add(name, _ASSIGNED.sub("", value.raw))
            if command.words and command.words[0].text in _SETTERS.split():
                for word in command.words[1:]:
                    self._add(*word.text.lstrip("-").partition("=")[::2])
            for name in _SET_IN_SUM.findall(" ".join(command.sums)):
                self._kinds[name] = {_NUMBERS} & self._kinds.get(name, {_NUMBERS})

    def _add(self, name: str, raw: str) -> None:
        kinds = {kind for kind in (_NUMBERS, _ITEMS) if kind.fullmatch(raw)}
        if ".." in raw:
            kinds.discard(_ITEMS)
        self._kinds[name] = kinds & self._kinds.get(name, kinds)

    def is_number(self, name: str) -> bool:
        """Whether the variable `name` holds numbers alone."""
        return name in _COUNTERS or _NUMBERS in self._kinds.get(name, ())

    def is_item(self, word: Word) -> bool:
        """Whether `word` is a variable in quotes that holds no option and no folder above."""
        found = _NAME_ALONE.fullmatch(word.raw)
        return found is not None and _ITEMS in self._kinds.get(found[1], ())

    def check(self, formula: str) -> None:
        """Raise Unreadable unless `formula` is calculated with numbers alone."""
        if not _NUMBERS.fullmatch(formula):
            for name in _IN_SUM.findall(formula):
                if name and not self.is_number(name):
                    raise Unreadable(
                        f"{name}: a value that is calculated with, and may be no number"
                    )

    def check_subscript(self, word: Word, *, is_name: bool = False) -> None:
        """Raise Unreadable for a command in a subscript; in a name's also for variables."""
        name, _, rest = word.text.partition("[")
        if "$(" in rest or "`" in rest:
            raise Unreadable("a command in a subscript")
        if is_name and name.lstrip("-").isidentifier():  # -p 'Sure [y/n]' is none
            self.check(rest.partition("]")[0])

    def filled(self, word: Word) -> str:
        """Return the text of `word`, with a number for each variable that holds one."""
        found = _WITH_NAMES.fullmatch(word.raw)
        if not found or not all(map(self.is_number, _VARIABLE.findall(found[1]))):
            return word.text
        return _VARIABLE.sub("1", found[1])


def tells_programs(name: str, value: str) -> bool:
    """Whether programs find others by the variable `name`, or are told by it what to run."""
    return bool(_NAMES.fullmatch(name)) and not _PLAIN_VALUES.fullmatch(f"{name}={value}")
