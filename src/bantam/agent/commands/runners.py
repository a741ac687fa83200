"""Rules of programs that run others: shells and what is built into them, interpreters, builders.

The project's own code, tests and builds are harmless: that is what an agent is there to run. A text
that is given to an interpreter is not read, and a build's target that says more is asked about.
"""

import re
from dataclasses import replace
from itertools import pairwise
from typing import Final

from bantam.agent.commands.reading import Call, Risk, Rule, first
from bantam.agent.commands.rules import CHANGES, any_of, changes, leading, split, wraps, written
from bantam.agent.commands.words import HOME, UNKNOWN, Unreadable, Word

_MODULES: Final = (
    "pyflakes pycodestyle pydocstyle compileall py_compile tabnanny tokenize ast dis platform "
    "sysconfig site calendar"
)
_PROGRAMS: Final = (  # that are modules too
    "pip pytest mypy pyright ruff black isort coverage flake8 pylint bandit vulture unittest "
    "doctest json.tool"
)
# Targets and scripts of a project whose names say that more is done than to build or test.
_TARGET: Final = re.compile(
    r"(?:^|[-:_/.])(?:(?:un|re)?install|(?:dist|mostly|maintainer-)?clean|clear|mrproper|"
    r"(?:un)?deploy|(?:un)?publish|release|push|upload|purge|reset|remove|delete|drop|destroy|"
    r"wipe|nuke|prune|migrate|rollback|format|fmt|fix|seed|upgrade|update|bump|exec)"
    r"(?:s|up|all|db|prod)?(?-i:(?![a-z]))",
    re.IGNORECASE,
)
# A variable of make, or what -D defines: a word, or options. (!= would run the value.)
_VARIABLE: Final = re.compile(r"(\w+)[:?+]*=((?=-|\S*$)[-\w.,/:@%#*+= ]*)", re.ASCII)
_DEFINED: Final = re.compile(r"^-D(\w+)(?:=|$)")
_BUILD_OPTIONS: Final = re.compile(r"-[A-Za-z]*\d*|--[a-z-]*(?:=\w+)?")
_PYTEST_OUTPUTS: Final = "--debug --html --csv --md --json --svg --xml --benchmark-json"
_BUILD_RISKS: Final = "-E -P -e -c --eval --install --command --init-script --graphviz"
_COMPARES: Final = "-eq -ne -lt -le -gt -ge"
# Settings of pytest that change what it shows, or which tests there are.
_PYTEST_SETTINGS: Final = re.compile(
    r"(?:log_cli(?:_level)?|console_output_style|xfail_strict|asyncio_mode|python_\w+|timeout|"
    r"faulthandler_timeout|junit_\w+|verbosity\w*)=[\w.*]*"
)
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
        return _text(call, words, call.name)
    if not words or words[0].text.startswith("+"):
        raise Unreadable("commands from standard input, or an option")
    return call.reading.runs_file(words[0])


def _text(call: Call, words: list[Word], shell: str = "") -> str | None:
    if not words or not words[0].is_known:
        raise Unreadable("a command that is not known yet")
    return call.reading.shell(words[0].text, shell)


def evaluates(call: Call) -> str | None:
    """Read the words, joined by blanks, as a command, which watch gives to sh."""
    if not all(word.is_known for word in call.args):
        raise Unreadable("a command that is not known yet")
    text = " ".join(word.text for word in call.args if word.text != "--")
    return call.reading.shell(text, "sh" if call.name == "watch" else "")


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
    if words and re.match("[-+].", words[0].text):
        raise Unreadable(f"{words[0].raw} of {call.name}")
    default = Word("-" if call.name == "popd" else HOME, call.name)
    return call.reading.enters(words[0] if words else default)


def tests(call: Call) -> None:
    """Find a command that is hidden in a subscript, or in what is calculated."""
    check = call.reading.values.check
    for before, word in pairwise((Word(""), *call.args)):
        is_name = call.name == "unset" or before.text == "-v"
        call.reading.values.check_subscript(word, is_name=is_name or call.name == "wait")
        if is_name and not word.is_known:
            raise Unreadable(f"{word.raw}: a name that is not known yet")
        is_number = call.name == "[[" and before.text in _COMPARES.split()
        if is_number or call.name == "let" or (call.name == "wait" and not word.is_known):
            check(word.raw)
        if call.name == "[[" and word.text in _COMPARES.split():
            check(before.raw)


def sets(call: Call) -> str | None:
    """Find variables among the arguments that change what is run; functions are not read."""
    for word in call.args:
        call.reading.values.check_subscript(word, is_name=True)
        name, equals, value = word.text.partition("=")
        if UNKNOWN in name or re.match(r"-\w*[finC]", name):
            raise Unreadable(f"{word.raw}: a name that is not known, or a function")
        name = re.sub(r"^-\w*?a|[+[].*", "", name)  # read -aPATH, PATH[0]
        if risk := call.reading.assigns(name, Word(value if equals else UNKNOWN)):
            return risk
    return None


def prints(call: Call) -> str | None:
    """Allow printf where it prints."""
    if call.args and call.args[0].may_hide:
        raise Unreadable(f"{call.args[0].raw} may be an option")
    if not call.args or not call.args[0].text.startswith("-v"):
        return None
    glued = call.args[0].text[2:]
    return sets(replace(call, args=(Word(glued),) if glued else call.args[1:2]))


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
            call.reading.runs_project(())  # --test does
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


def uv(call: Call) -> str | None:
    """Run a program of the project's environment, or a file of its."""
    if call.args and call.args[0].text.endswith(".py"):
        return call.reading.runs_file(call.args[0])
    return wraps()(call)


def pytest(call: Call) -> str | None:
    """Find what a run of tests does besides."""
    options, _ = split(call, f"-k -m -n -p -W -c -o --override-ini {_PYTEST_OUTPUTS}")
    for name, value in options:
        if any_of([name], "--basetemp"):
            return Risk.DELETES
        if any_of([name], "--pastebin"):
            return Risk.NETWORK
        is_setting = name in ("-o", "--override-ini")
        if is_setting and not _PYTEST_SETTINGS.fullmatch(value.text):
            raise Unreadable(f"the setting {value.raw} of pytest")
    return changes(call) or written(call, options, _PYTEST_OUTPUTS)


def npx(call: Call) -> str | None:
    """Run what the project has installed; anything else would be downloaded."""
    words = [word for word in call.args if word.text not in ("--no-install", "--no", "--")]
    if words and call.reading.is_there(f"node_modules/.bin/{words[0].text}"):
        return call.reading.run(words)
    return Risk.NETWORK


def builds(risky: str = _BUILD_RISKS) -> Rule:
    """Return the rule that the project's targets run whose names say nothing worse."""

    def rule(call: Call) -> str | None:
        args = [Word("-j4") if _PROCESSORS.fullmatch(word.raw) else word for word in call.args]
        # What is behind -- is for the program that is run: it counts as well.
        args = [replace(w, text=_DEFINED.sub(r"\1=", w.text)) for w in args if w.text != "--"]
        options, others = split(replace(call, args=tuple(args)), "--config")
        names = [name for name, _ in options]
        if any_of(names, risky) or not all(
            _BUILD_OPTIONS.fullmatch(word.text) for word in args if word.text.startswith("-")
        ):
            raise Unreadable("an option that may run something")
        given = [each for word in others for each in word.text.partition("=")[2].split()]
        if any(map(CHANGES.fullmatch, [*names, *given])):
            return Risk.OVERWRITES
        return first(_target(call, word) for word in others) or written(call, options)

    return rule


def _target(call: Call, word: Word) -> str | None:
    if assigned := _VARIABLE.fullmatch(word.text):
        return call.reading.assigns(assigned[1], Word(assigned[2]))
    if not {"=", "$", "`"}.isdisjoint(word.text):
        raise Unreadable(f"{word.raw} may run something")
    if not call.reading.is_inside(word):
        raise Unreadable(f"{word.raw}: a file that is not the project's")
    return Risk.TARGET if _TARGET.search(word.text) else None
