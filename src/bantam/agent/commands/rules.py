"""The kinds of rules that the table is made of, for programs of which the options tell enough.

Options are looked for as programs take them: in clusters, abbreviated, behind a value. A word that
may hide an option hides a risk. Names stand in one text, parted by blanks.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from bantam.agent.commands.reading import Call, Risk, Rule, first
from bantam.agent.commands.words import UNKNOWN, Unreadable, Word

Options = list[tuple[str, Word]]
ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL | re.ASCII)
# Long options that name a file or folder which is written, however the program calls it.
_KIND: Final = r"(?:[-_.]?(?:file|path|dir(?:ectory)?|location|xml|log|json|html|junit|to))"
_OUTPUT: Final = re.compile(
    rf"--(?:[\w.]+-)*?(?:(?:out|output|log|junit|report){_KIND}*|(?:cache|coverage|trace){_KIND}+)",
    re.IGNORECASE,
)
# Options by which a check or a test changes what it looks at.
CHANGES: Final = re.compile(
    r"-u|--(?!fix-dry)(?:(?:auto|force|snapshot|unsafe)-)?(?:fix|fixes|write|update|apply|correct|"
    r"autocorrect|clear|clean|init|in-?place|install|add-noqa|regen)(?![a-z]).*"
)
_TELLS: Final = ("--version", "-V", "-v", "--help", "-h")
_TOLD: Final = (["--version"], ["--help"])


def harmless(_: Call) -> str | None:
    """Find no risk, whatever the arguments."""
    return None


def always(risk: str) -> Rule:
    """Return the rule that `risk` is there, but where a program only tells of itself."""
    return lambda call: None if [w.text for w in call.args] in _TOLD else risk


def each(*rules: Rule) -> Rule:
    """Return the rule that finds what the first of `rules` does that finds something."""
    return lambda call: first(rule(call) for rule in rules)


def changes(call: Call) -> str | None:
    """Find options by which a check or a test changes what it looks at."""
    return Risk.OVERWRITES if any(CHANGES.fullmatch(word.text) for word in call.args) else None


def own(rule: Rule) -> Rule:
    """Return `rule` for what runs the project's code: that which is there, and no other."""

    def own_rule(call: Call) -> str | None:
        call.reading.runs_project(call.args)
        return rule(call)

    return own_rule


def expanded(rows: Mapping[str, Rule]) -> dict[str, Rule]:
    """Return the rule of each name where one row is for several."""
    return {name: rule for names, rule in rows.items() for name in names.split()}


def unless(
    risk: Risk,
    risky: str = "",
    *,
    needs: str = "",
    only: str | None = None,
    words: str = ".*",
    valued: str = "",
    outputs: str = "",
) -> Rule:
    """Return the rule that `risk` is there with one of `risky`, or if one of the others is not so.

    `needs`: options of which one must be there. `only`: all that may be there. `words`: the pattern
    of the other words, joined by blanks. `valued`: options with a value, which is not looked at,
    with a `?` where it is in the same word or not there. `outputs`: options of which the value is a
    file that is written, besides those of which the name says so.
    """

    def rule(call: Call) -> str | None:
        options, others = split(call, f"{valued} {outputs}")
        names = {name for name, _ in options}
        # A pattern of files may be several of them.
        texts = [text for word in others for text in [word.text] * (1 + word.is_glob)]
        is_harmless = (
            not any_of(names, risky)
            and (not needs or not names.isdisjoint(needs.split()))
            # Behind -e, -n may be a value.
            and not (needs and any(value.text.startswith("-") for _, value in options))
            and (only is None or names <= set(only.split()))
            and re.fullmatch(words, " ".join(texts), re.DOTALL)
        )
        return written(call, options, outputs) if is_harmless else risk

    return rule


def written(call: Call, options: Options, outputs: str = "") -> str | None:
    """Return the risk of the files that `options` name as what is written."""
    files = [
        replace(value, text=text)
        for name, value in options
        if any_of([name], outputs) or _OUTPUT.fullmatch(name)
        for text in dict.fromkeys((value.text, value.text.rpartition(":")[2]))  # html:folder
        if text
    ]
    return first(map(call.reading.writes, files))


def subcommands(other: Risk, rules: Mapping[str, Rule]) -> Rule:
    """Return the rule that the first word says what else is looked at; `other`: without a rule."""
    table = expanded(rules)

    def rule(call: Call) -> str | None:
        name = call.args[0].text if call.args else ""
        if name in _TELLS and len(call.args) == 1:
            return None
        inner = table.get(name)
        return inner(replace(call, args=call.args[1:])) if inner else other

    return rule


def wraps(plain: str = "--", valued: str = "", *, before: int = 0, tells: str = "") -> Rule:
    """Return the rule that the words behind options and assignments are run.

    `plain`: a pattern of options without a value. `before`: words in front of the command. `tells`:
    options with which nothing is run.
    """

    def rule(call: Call) -> str | None:
        options, args = leading(call, plain, valued)
        if any(name in tells.split() for name, _ in options):
            return None
        while args and (found := ASSIGNMENT.fullmatch(args[0].text)) and not args[0].splits:
            if risk := call.reading.assigns(found[1], Word(found[2])):
                return risk
            del args[0]
        if any(word.may_hide for word in args[:before]):
            raise Unreadable("an option that is not known")
        return call.reading.run(args[before:]) if args[before:] else None

    return rule


def leading(call: Call, plain: str, valued: str = "") -> tuple[Options, list[Word]]:
    """Return the options in front, each with its value, and the words behind them.

    `plain` is a pattern of options without a value. Raises Unreadable for others.
    """
    words, found = list(call.args), list[tuple[str, Word]]()
    while words and words[0].text.startswith("-"):
        option = words.pop(0)
        text = option.text
        if text == "--":
            break
        short = text[:2] if text[:2] in valued.split() else ""
        if text in valued.split() and words:
            found.append((text, words.pop(0)))
        elif short and option.is_known:
            found.append((short, Word(text[2:])))
        elif option.is_known and re.fullmatch(plain, text, re.DOTALL):
            found.append((text, Word("")))
        else:
            raise Unreadable(f"the option {option.raw} of {call.name}")
    return found, words


def split(call: Call, valued: str = "") -> tuple[Options, list[Word]]:
    """Return options, each with its value, and other words.

    An option is one letter as `-x`, or a long one as `--name`.

    Raises Unreadable for a word that may hide one.
    """
    options: Options = []
    others: list[Word] = []
    words = iter(call.args)
    for word in words:
        if word.text == "--":
            others.extend(words)
        elif word.text.startswith("-") and len(word.text) > 1:
            while word.text.startswith("-"):  # a value too, should the program know none
                found, wants_value = _options_in(word, valued)
                options += found
                if not wants_value:
                    break
                word = next(words, Word(""))  # noqa: PLW2901  # the option's value is read
                if word.splits:
                    raise Unreadable(f"{word.raw} may be several words")
                options[-1] = options[-1][0], word
        elif word.may_hide and not call.reading.values.is_item(word):
            raise Unreadable(f"{word.raw} may be an option")
        else:
            others.append(word)
    return options, others


def _options_in(word: Word, valued: str) -> tuple[Options, bool]:
    """Return the options in `word`, and whether the next word is the value of the last one."""
    name, equals, value = word.text.partition("=")
    is_long = name.startswith("--")
    if word.may_hide and not (is_long and equals and UNKNOWN not in name):
        raise Unreadable(f"{word.raw} may be another option")
    if is_long:
        wants = any_of([name], valued) or _OUTPUT.fullmatch(name)
        return [(name, Word(value, word.raw))], bool(wants) and not equals
    found: Options = []
    for at, letter in enumerate(word.text[1:], 2):
        option, rest = f"-{letter}", word.text[at:].removeprefix("=")
        if not {option, f"{option}?"}.isdisjoint(valued.split()):
            return [*found, (option, Word(rest, word.raw))], not rest and option in valued.split()
        found.append((option, Word("")))
    return found, False


def any_of(options: Iterable[str], risky: str) -> bool:
    """Whether one of `options` is one of `risky`, perhaps abbreviated.

    >>> any_of(["--out"], "-o --output"), any_of(["--oneline"], "--output")
    (True, False)
    """
    names = risky.split()
    return any(
        option in names or (len(option) > 2 and any(name.startswith(option) for name in names))
        for option in options
    )
