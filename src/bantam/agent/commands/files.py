"""Rules of programs that write or copy files, and of those with a language of their own."""

import re
from typing import Final

from bantam.agent.commands.reading import Call, Risk, first
from bantam.agent.commands.rules import any_of, leading, split
from bantam.agent.commands.words import HOME, UNKNOWN, Unreadable, Word

# What each sed command is that neither writes a file nor runs a program. GNU sed ends a pattern at
# the first sign that is not escaped, in brackets too.
_ADDRESS: Final = r"(?:\d+|\$|/(?:[^/\\\n]|\\.)+/I?)"
_SED: Final = re.compile(
    rf"""
    (?:
      [\s;{{}}]
    | (?:{_ADDRESS}(?:,\s*(?:{_ADDRESS}|[+~]\d+))?\s*!?\s*)?
      (?:
        [pdqDPnNgGhHxl=](?=[\s;}}]|$) | {{
      | s(?P<s>[^\w\s\\])(?:(?!(?P=s))[^\\\n]|\\.)*(?P=s)(?:(?!(?P=s))[^\\]|\\.)*(?P=s)
        [gpiI0-9]*(?=[\s;}}]|$)
      )
    )*+
    """,
    re.VERBOSE | re.DOTALL,
)
_AWK: Final = re.compile(r"system|getline|@|(?<!\|)\|(?!\|)|close|fflush|[^ -~\s]")


def sed(call: Call) -> str | None:
    """Find writes in place, and scripts that do more than print and replace."""
    options, words = leading(call, "-[nErsuz]*(?:i.*)?|--in-place.*|--quiet", "-e")
    if any(re.match("-[nErsuz]*i|--i", name) for name, _ in options):
        return Risk.OVERWRITES
    scripts = [value for name, value in options if name == "-e"] or words[:1]
    if any(word.text.startswith("-") or word.may_hide for word in words):
        raise Unreadable("an option of sed behind its script")
    for script in scripts:
        if UNKNOWN in script.text or HOME in script.text or not _SED.fullmatch(script.text):
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
    if call.name == "mkdir" and any_of(options, "-m --mode"):
        return Risk.PERMISSIONS
    replaces = call.name == "tee" and not any_of(options, "-a --append")
    return first(call.reading.writes(file, replaces=replaces) for file in files)


def copies(call: Call) -> str | None:
    """Find files that cp or mv puts another in the place of, and what mv takes away elsewhere."""
    options, files = split(call)
    if any_of(options, "-S --suffix -t --target-directory -s -l --link --symbolic-link"):
        raise Unreadable("links, or a target before its files")
    if not files:
        return None
    *sources, target = files
    if call.name == "mv" and (
        risk := first(call.reading.writes(s, replaces=False) for s in sources)
    ):
        return risk
    folder = target.text.rstrip("/")
    if not call.reading.is_there(f"{folder}/."):
        return call.reading.writes(target)
    names = [source.text.rstrip("/").rpartition("/")[2] for source in sources]
    if any(not source.is_known for source in sources) or not {"", ".", ".."}.isdisjoint(names):
        return Risk.OVERWRITES
    return first(call.reading.writes(Word(f"{folder}/{name}", target.raw)) for name in names)


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


def compiles(call: Call) -> str | None:
    """Find outputs of a compiler that are in the place of something, or what it runs."""
    words = iter(call.args)
    for word in words:
        if word.may_hide or word.text.startswith(("@", "-wrapper", "-B", "-fplugin", "-spec")):
            raise Unreadable(f"the option {word.raw}")
        if word.text.startswith("-o"):
            file = Word(word.text[2:]) if word.text[2:] else next(words, Word(""))
            is_object = file.text.endswith(".o")
            if risk := call.reading.writes(file, replaces=not is_object, is_built=True):
                return risk
    return None
