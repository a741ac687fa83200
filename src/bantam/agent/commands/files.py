"""Rules of programs that write or copy files, and of those with a language of their own."""

import re
from typing import Final

from bantam.agent.commands.reading import Call, Risk, Rule, first
from bantam.agent.commands.rules import any_of, leading, split
from bantam.agent.commands.words import HERE, HOME, UNKNOWN, Unreadable, Word

# What each sed command is that neither writes a file nor runs a program. GNU sed ends a pattern at
# the first sign that is not escaped, in brackets too.
_ADDRESS: Final = r"(?:\d+(?:~\d+)?|\$|/(?:[^/\\\n]|\\.)+/I?)"
_SED: Final = re.compile(
    rf"""
    (?:
      [\s;{{}}]
    | (?:{_ADDRESS}(?:,\s*(?:{_ADDRESS}|[+~]\d+))?\s*!?\s*)?
      (?:
        [pdqDPnNgGhHxl=](?=[\s;}}]|$) | {{
      | y(?P<y>[^\w\s\\])(?:(?:(?!(?P=y))[^\\\n]|\\.)*(?P=y)){{2}}(?=[\s;}}]|$)
      | s(?P<s>[^\w\s\\])(?:(?!(?P=s))[^\\\n]|\\.)*(?P=s)(?:(?!(?P=s))[^\\]|\\.)*(?P=s)
        [gpiI0-9]*(?=[\s;}}]|$)
      )
    )*+
    """,
    re.VERBOSE | re.DOTALL,
)
_COPYING: Final = (
    "-r -R -a -p -v -f -n -i -u -d -H -L -P -k --recursive --archive --verbose --force --preserve "
    "--no-clobber --interactive --update --help --version"
)
_AWK: Final = re.compile(r"system|getline|@|(?<!\|)\|(?!\|)|close|fflush|[^ -~\s]")


def sed(call: Call) -> str | None:
    """Find writes in place, and scripts that do more than print and replace."""
    options, words = leading(call, "-[nErsuz]*(?:i.*)?|--in-place.*|--quiet", "-e")
    if any(re.match("-[nErsuz]*i|--i", name) for name, _ in options):
        return Risk.OVERWRITES
    scripts = [value for name, value in options if name == "-e"] or words[:1]
    values = call.reading.values
    if any(
        each.text.startswith("-")
        or (each.may_hide and each not in scripts and not values.is_item(each))
        for each in words
    ):
        raise Unreadable("an option of sed behind its script")
    for script in map(values.filled, scripts):
        if not {UNKNOWN, HOME, HERE}.isdisjoint(script) or not _SED.fullmatch(script):
            raise Unreadable("a script of sed")
    return None


def awk(call: Call) -> str | None:
    """Find programs that may write files or run others."""
    options, words = leading(call, "-F.+", "-F -v")
    text = words[0].text if words else ""
    writes = ">" in text.partition("print")[2]
    if writes or _AWK.search(text) or any(value.splits for _, value in options):
        raise Unreadable("a program of awk that may write or run something")
    return None


def makes(call: Call) -> str | None:
    """Find what mkdir, touch or tee write outside the project, and what tee replaces."""
    options, files = split(call)
    names = [name for name, _ in options]
    if call.name == "mkdir" and any_of(names, "-m --mode"):
        return Risk.PERMISSIONS
    if call.name != "tee":
        is_folder = call.name == "mkdir"
        return first(call.reading.touches(file, makes_folder=is_folder) for file in files)
    replaces = not any_of(names, "-a --append")
    return first(call.reading.writes(file, replaces=replaces) for file in files)


def copies(call: Call) -> str | None:
    """Find files that cp or mv puts another in the place of, and what mv takes away elsewhere."""
    options, files = split(call)
    if strange := {name for name, _ in options}.difference(_COPYING.split()):
        raise Unreadable(f"the option {min(strange)} of {call.name}")
    if not files:
        return None
    *sources, target = files
    if call.name == "mv" and (risk := first(map(call.reading.touches, sources))):
        return risk
    folder = target.text.rstrip("/")
    if not call.reading.is_there(f"{folder}/."):
        return call.reading.writes(target, opens=False)
    names = [source.text.rstrip("/").rpartition("/")[2] for source in sources]
    if any(not source.is_known for source in sources) or not {"", ".", ".."}.isdisjoint(names):
        return call.reading.writes(Word(folder, target.raw), opens=False)  # any of what is in it
    inner = [Word(f"{folder}/{name}", target.raw) for name in names]
    return first(call.reading.writes(file, opens=False) for file in inner)


def tar(call: Call) -> str | None:
    """Allow lists of archives, and new ones."""
    letters, *words = call.args or [Word("")]
    is_plain = re.fullmatch(r"-?[tczjJvfa]+", letters.text) and not any(
        word.text.startswith("-") or ":" in word.text or word.may_hide for word in words
    )
    if is_plain and "t" in letters.text:
        return None
    if is_plain and words and re.fullmatch("-?[zjJva]*c[zjJva]*f", letters.text):
        return call.reading.writes(words[0])
    raise Unreadable("what tar does")


def compiles(plain: str, outputs: str) -> Rule:
    """Return the rule that a compiler's outputs are in the place of nothing.

    `plain` is a pattern of options that neither write nor run anything; others are not known.
    """

    def rule(call: Call) -> str | None:
        words = iter(call.args)
        for word in words:
            name = next(filter(word.text.startswith, outputs.split()), "")
            if word.may_hide or not (name or re.fullmatch(rf"-|(?!@)[^-].*|{plain}", word.text)):
                raise Unreadable(f"the option {word.raw}")
            if name:
                rest = word.text.removeprefix(name).removeprefix("=")
                file = Word(rest, word.raw) if rest else next(words, Word(""))
                # Objects, and a folder of them, are built again and again.
                is_object = file.text.endswith((".o", ".d")) or (
                    name == "-d" and call.reading.is_there(f"{file.text}/.")
                )
                if risk := call.reading.writes(file, replaces=not is_object, is_built=True):
                    return risk
        return None

    return rule
