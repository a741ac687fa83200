"""Rules of programs that run others: shells and what is built into them, interpreters, builders.

The project's own code, tests and builds are harmless: that is what an agent is there to run. A text
that is given to an interpreter is not read, and a build's target that says more is asked about.
"""

import re
from dataclasses import replace
from typing import Final

from bantam.agent.commands.reading import Call, Risk, Rule, check_subscript
from bantam.agent.commands.rules import ASSIGNMENT, any_of, leading, split
from bantam.agent.commands.words import HOME, UNKNOWN, Unreadable, Word

_MODULES: Final = (
    "unittest doctest json.tool pyflakes pycodestyle pydocstyle compileall py_compile tabnanny "
    "tokenize ast dis platform sysconfig site calendar"
)
_PROGRAMS: Final = (  # that are modules too
    "pip pytest mypy pyright ruff black isort coverage flake8 pylint bandit vulture"
)
# Targets and scripts of a project whose names say that more is done than to build or test.
_TARGET: Final = re.compile(
    r"(?:^|[-:_/.])(?:(?:un|re)?install|(?:dist|mostly|maintainer-)?clean|clear|mrproper|"
    r"(?:un)?deploy|(?:un)?publish|release|push|upload|purge|reset|remove|delete|drop|destroy|"
    r"wipe|nuke|prune|migrate|rollback|format|fmt|fix|seed|upgrade|update|bump)",
    re.IGNORECASE,
)
_DEFINES: Final = re.compile(r"-D\w+(?:=[\w.]*)?")
_BUILD_OPTIONS: Final = re.compile(r"-[A-Za-z]*\d*|--[a-z-]*(?:=\w+)?")
_BUILD_RISKS: Final = "-E -P -e -c --eval --install --command --init-script --graphviz"
# That `make -j` is often told: as good as any number.
_PROCESSORS: Final = re.compile(r'(-j)?("?)\$\(nproc\)\2')

# -- shells and what is built into them -------------------------------------------------------


def shell(call: Call) -> str | None:
    """Read what `-c` says; a script is the project's own, and standard input is not known."""
    plain = r"-[euxvlncf]+|--(?:norc|noprofile|login|posix|version)"
    options, words = leading(call, plain, "-o -eo -euo -exo -euxo")
    names = [name for name, _ in options]
    if "--version" in names:
        return None
    if any("c" in name for name in names if not name.startswith("--")):
        return _text(call, words)
    if not words or words[0].text.startswith("+"):
        raise Unreadable("commands from standard input, or an option")
    return call.reading.runs_file(words[0])


def _text(call: Call, words: list[Word]) -> str | None:
    if not words or not words[0].is_known:
        raise Unreadable("a command that is not known yet")
    return call.reading.shell(words[0].text)


def evaluates(call: Call) -> str | None:
    """Read the words, joined by blanks, as a command."""
    if not all(word.is_known for word in call.args):
        raise Unreadable("a command that is not known yet")
    return call.reading.shell(" ".join(word.text for word in call.args if word.text != "--"))


def traps(call: Call) -> str | None:
    """Read the command that is run later."""
    _, words = leading(call, "-[lp]|-")
    return _text(call, words) if words else None


def sources(call: Call) -> str | None:
    """Allow the start of the project's own environment alone: a file may define anything."""
    if call.args and call.args[0].text.endswith("bin/activate"):
        return call.reading.runs_file(call.args[0])
    raise Unreadable("a file that changes this shell")


def enters(call: Call) -> str | None:
    """Let what follows begin in another folder."""
    words = [word for word in call.args if word.text not in ("-P", "-L", "--")]
    default = Word("-" if call.name == "popd" else HOME, call.name)
    return call.reading.enters(words[0] if words else default)


def tests(call: Call) -> None:
    """Find a command that is hidden in a subscript."""
    for word in call.args:
        check_subscript(word)


def sets(call: Call) -> str | None:
    """Find variables among the arguments that change what is run; functions are not read."""
    for word in call.args:
        check_subscript(word)
        name, equals, value = word.text.partition("=")
        if UNKNOWN in name or re.fullmatch(r"-\w*[fnC]\w*", name):
            raise Unreadable(f"{word.raw}: a name that is not known, or a function")
        if risk := call.reading.assigns(name.removesuffix("+"), Word(value if equals else UNKNOWN)):
            return risk
    return None


def prints(call: Call) -> str | None:
    """Allow printf where it prints."""
    if call.args and call.args[0].may_hide:
        raise Unreadable(f"{call.args[0].raw} may be an option")
    is_set = bool(call.args) and call.args[0].text == "-v"
    return sets(replace(call, args=call.args[1:2])) if is_set else None


# -- what runs a command for each of many words -----------------------------------------------


def xargs(call: Call) -> str | None:
    """Find what the command does that is run with words which nobody knows yet."""
    plain = r"-[0rtx]+|--(?:null|no-run-if-empty|verbose)|--(?:max-args|max-procs|delimiter)=.*"
    options, words = leading(call, plain, "-n -P -L -d -s -a -I")
    sign = next((value.text for name, value in options if name == "-I"), "")
    if not words:
        return None
    if sign:
        return call.reading.run([_filled(word, sign, UNKNOWN) for word in words])
    return call.reading.run([*words, Word(UNKNOWN, "what xargs reads", splits=True)])


def find(call: Call) -> str | None:
    """Find what is deleted, written, or run for each file."""
    words = list(call.args)
    while words:
        word = words.pop(0)
        if word.may_hide:
            raise Unreadable(f"{word.raw} may be an action")
        if word.text == "-delete":
            return Risk.DELETES
        if word.text in ("-fprint", "-fprint0", "-fprintf", "-fls"):
            return Risk.OVERWRITES
        if word.text in ("-exec", "-execdir", "-ok", "-okdir"):
            inner: list[Word] = []
            while words and not (words[0].text == ";" or _is_plus(words[0], inner)):
                inner.append(words.pop(0))
            if not inner:
                raise Unreadable("no command of find")
            if risk := call.reading.run([_filled(each, "{}", f"./{UNKNOWN}") for each in inner]):
                return risk
    return None


def _is_plus(word: Word, before: list[Word]) -> bool:
    return word.text == "+" and bool(before) and before[-1].text == "{}"


def _filled(word: Word, sign: str, by: str) -> Word:
    """Return `word` with `by` for each `sign`."""
    return replace(word, text=word.text.replace(sign, by))


# -- interpreters and builders ----------------------------------------------------------------


def interpreter(plain: str = "--", alone: str = "--version -V -v --help -h") -> Rule:
    """Return the rule that files of the project run, and texts are not read.

    `plain` is a pattern of the options that change nothing of that; -m is Python's. `alone`: what
    is harmless without a file.
    """

    def rule(call: Call) -> str | None:
        if len(call.args) == 1 and call.args[0].text in alone.split():
            return None
        options, words = leading(call, plain)
        if not words:
            raise Unreadable("a program that is no file of the project")
        if any(name == "-m" for name, _ in options):
            return _module(call, words)
        return call.reading.runs_file(words[0])

    return rule


def _module(call: Call, words: list[Word]) -> str | None:
    module = words[0].text
    if module in _PROGRAMS.split():
        return call.reading.run(words)
    path = module.replace(".", "/")
    own = (f"{folder}{path}{end}" for folder in ("", "src/") for end in (".py", "/__main__.py"))
    if module in _MODULES.split() or any(call.reading.is_there(each) for each in own):
        return None
    raise Unreadable(f"the module {module} is not the project's")


def npx(call: Call) -> str | None:
    """Run what the project has installed; anything else would be downloaded."""
    words = [word for word in call.args if word.text not in ("--no-install", "--no", "--")]
    if words and call.reading.is_there(f"node_modules/.bin/{words[0].text}"):
        return call.reading.run(words)
    return Risk.NETWORK


def builds(call: Call) -> str | None:
    """Allow the project's targets whose names say nothing worse, and folders in it."""
    args = [Word("-j4") if _PROCESSORS.fullmatch(word.raw) else word for word in call.args]
    args = [word for word in args if not _DEFINES.fullmatch(word.text)]
    options, others = split(replace(call, args=tuple(args)))
    if any_of(options, _BUILD_RISKS) or not all(
        _BUILD_OPTIONS.fullmatch(word.text) for word in args if word.text.startswith("-")
    ):
        raise Unreadable("an option that may run something")
    for word in others:
        if "$" in word.text or "`" in word.text:
            raise Unreadable(f"{word.raw} may run something")
        if assigned := ASSIGNMENT.fullmatch(word.text):
            if risk := call.reading.assigns(assigned[1], Word(assigned[2])):
                return risk
        elif not call.reading.is_inside(word):
            raise Unreadable(f"{word.raw}: a file that is not the project's")
        elif _TARGET.search(word.text):
            return Risk.TARGET
    return None
