"""The kinds of rules that the table is made of, for programs of which the options tell enough.

Options are looked for as programs take them: in clusters, abbreviated, behind a value. A word that
may hide an option hides a risk. Names stand in one text, parted by blanks.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from bantam.agent.commands.reading import Call, Risk, Rule
from bantam.agent.commands.words import UNKNOWN, Unreadable, Word

ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL | re.ASCII)
_TELLS: Final = ("--version", "-V", "-v", "--help", "-h")


def harmless(_: Call) -> str | None:
    """Find no risk, whatever the arguments."""
    return None


def always(risk: str) -> Rule:
    """Return the rule that `risk` is always there."""
    return lambda _: risk


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
) -> Rule:
    """Return the rule that `risk` is there with one of `risky`, or if one of the others is not so.

    `needs`: options of which one must be there. `only`: all that may be there. `words`: the pattern
    of the other words, joined by blanks. `valued`: options with a value, which is not looked at.
    """

    def rule(call: Call) -> str | None:
        options, others = split(call, valued)
        is_harmless = (
            not any_of(options, risky)
            and (not needs or not set(options).isdisjoint(needs.split()))
            and (only is None or set(options) <= set(only.split()))
            and re.fullmatch(words, " ".join(word.text for word in others), re.DOTALL)
        )
        return None if is_harmless else risk

    return rule


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


def leading(call: Call, plain: str, valued: str = "") -> tuple[list[tuple[str, Word]], list[Word]]:
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


def split(call: Call, valued: str = "") -> tuple[list[str], list[Word]]:
    """Return options and other words; an option is one letter as `-x`, or a long one as `--name`.

    Raises Unreadable for a word that may hide one.
    """
    options: list[str] = []
    others: list[Word] = []
    words = iter(call.args)
    for word in words:
        if word.text == "--":
            others.extend(words)
        elif word.text.startswith("-") and len(word.text) > 1:
            found, wants_value = _options_in(word, valued.split())
            options += found
            value = next(words, Word("")) if wants_value else Word("")
            if value.splits:
                raise Unreadable(f"{value.raw} may be several words")
            if value.text.startswith("-"):  # should the program know no such value
                options += _options_in(value, valued.split())[0]
        elif word.may_hide:
            raise Unreadable(f"{word.raw} may be an option")
        else:
            others.append(word)
    return options, others


def _options_in(word: Word, valued: list[str]) -> tuple[list[str], bool]:
    """Return the options in `word`, and whether the next word is the value of the last one."""
    name, equals, _ = word.text.partition("=")
    is_long = name.startswith("--")
    if word.may_hide and not (is_long and equals and UNKNOWN not in name):
        raise Unreadable(f"{word.raw} may be another option")
    if is_long:
        return [name], name in valued and not equals
    found: list[str] = []
    for letter in word.text[1:]:
        found.append(f"-{letter}")
        if found[-1] in valued:
            return found, len(found) == len(word.text) - 1
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
