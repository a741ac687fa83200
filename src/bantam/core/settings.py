"""Lines of a configuration file and `-o` arguments, as settings: text that is not yet typed.

The syntax is SPEC section 2's. A file is bytes: a comment may hold any, so lines are decoded with
escapes (PEP 383), and what a value holds is checked by its reader. The same rules, read backwards,
put a new value into a file that a person wrote.
"""

import codecs
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from bantam.core.errors import ConfigError

_NAME: Final = re.compile(r"[\w.-]+")
# An error shows what comes before it of a text that is no setting: the rest may be a pasted key.
_NO_WORD: Final = re.compile("[^A-Za-z_]")
_API_KEY: Final = re.compile("api_?key$|^(key|token)$")
# What other programs call it; none of these is a member of a request.
_ENDPOINT: Final = re.compile("(base|api|endpoint)_(ur[il]|base)$|^url$")
_EXPORT: Final = re.compile(r"\Aexport\s+")
_COMMENT: Final = re.compile(r"\s#")
# The shortest quotes that end the value, so that a comment may hold quotes too.
_QUOTED: Final = re.compile(r"""\s*(["'])(.*?)\1(\s+#.*|\s*)""", re.DOTALL)
_NOT_IN_FILES: Final = re.compile("[\r\n\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Setting:
    """One `key=text` as it was written; an empty text unsets.

    `source`: `FILE:LINE`, `environment`, `-o` or `/cfg`. The text may be a secret: it is in no
    `repr`.
    """

    key: str
    text: str = field(repr=False)
    source: str


def parse(text: bytes, name: str) -> list[Setting]:
    """Return the settings of the configuration file called `name`, in its order.

    UTF-8 with or without BOM; lines end at LF, CRLF or CR; in a text, bytes that are not UTF-8 are
    lone surrogates. Raises ConfigError for a line that is neither blank, a comment, nor
    `key=value`. The error does not quote the line: it may be a secret, pasted alone.
    """
    settings: list[Setting] = []
    # Of bytes, unlike of str, splitlines knows no line ends but LF, CRLF and CR.
    for number, raw in enumerate(text.removeprefix(codecs.BOM_UTF8).splitlines(), start=1):
        line = raw.decode(errors="surrogateescape")
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        key, equals, rest = _parts(line)
        if not equals:
            raise ConfigError(f"{name}:{number}: no '=' in this line; write key=value")
        if not _NAME.fullmatch(key):
            raise ConfigError(
                f"{name}:{number}: {_start(key)!r} is not a key of letters, digits, '_', '.' and "
                "'-'; write key=value"
            )
        settings.append(Setting(key, _value_and_tail(rest)[0], f"{name}:{number}"))
    return settings


def parse_override(text: str) -> Setting:
    """Return the setting of one `-o KEY=VALUE`; the value is taken as the shell passed it."""
    key, equals, value = text.partition("=")
    if not equals or not _NAME.fullmatch(key.strip()):
        raise ConfigError(f"-o {_start(text)} is not a key and a value; write -o KEY=VALUE")
    return Setting(key.strip(), value.strip(), "-o")


def _start(text: str) -> str:
    """Return the first word of `text`, with a mark if there is more."""
    word = _NO_WORD.split(text, maxsplit=1)[0]
    return word if word == text else f"{word}..."


def with_setting(text: bytes, key: str, value: str) -> bytes:
    """Return the file `text` with `key` set to `value`; every other byte stays.

    The last line that sets the key gets the value and keeps its comment; a new key goes to the
    end. Raises ConfigError for a value that no line can hold.
    """
    written = _written(key, value)
    lines = text.splitlines(keepends=True)
    for index in reversed(range(len(lines))):
        line = lines[index].removeprefix(codecs.BOM_UTF8).decode(errors="surrogateescape")
        before = line.partition("=")[0]
        found, equals, rest = _parts(line)
        if found != key or not equals:
            continue
        mark = codecs.BOM_UTF8 if lines[index].startswith(codecs.BOM_UTF8) else b""
        lead = " " if rest.startswith(" ") else ""
        tail = _value_and_tail(rest)[1]
        changed = f"{before}={lead}{written}{tail}".encode(errors="surrogateescape")
        lines[index] = mark + changed
        return b"".join(lines)
    end = b"" if not text or text.endswith((b"\n", b"\r")) else b"\n"
    return text + end + f"{key}={written}\n".encode()


def _parts(line: str) -> tuple[str, str, str]:
    """Return the key, the `=` (empty if there is none), and all behind it."""
    key, equals, rest = line.partition("=")
    return _EXPORT.sub("", key.strip()), equals, rest


def _value_and_tail(rest: str) -> tuple[str, str]:
    """Split what stands behind `=` into the unquoted value and the blanks and comment after it."""
    if quoted := _QUOTED.fullmatch(rest):
        return quoted[2], quoted[3]
    comment = _COMMENT.search(rest)
    value = rest[: comment.start() if comment else None].rstrip()
    return value.lstrip(), rest[len(value) :]


def _written(key: str, value: str) -> str:
    """Return `value` as a line holds it: in quotes only where they are needed."""
    if not value:
        return ""
    for written in (value, f'"{value}"', f"'{value}'"):
        # Behind a blank, where a `#` at the start would open a comment.
        if _value_and_tail(f" {written}") == (value, "") and not _NOT_IN_FILES.search(value):
            return written
    raise ConfigError(f"{key}: no line of a file can hold this value; write it on one line")


def meant_by(key: str, names: Collection[str]) -> str:
    """Return which of `names` the key `key` misspells or paraphrases, else `key`.

    What only looks like one of them would go to the API under its own name, the key's value too.

    >>> [meant_by(key, {"api_key", "endpoint", "model"}) for key in ("modle", "base_url", "seed")]
    ['model', 'endpoint', 'seed']
    """
    plain = re.sub("[.-]", "_", key.lower())
    if plain in names:
        return plain
    if _API_KEY.search(plain):
        return "api_key"
    if _ENDPOINT.search(plain):
        return "endpoint"
    if key in ("models", "mode", "tool"):  # of APIs: OpenRouter's fallbacks, and others
        return key
    swapped = {plain[:i] + plain[i + 1] + plain[i] + plain[i + 2 :] for i in range(len(plain) - 1)}
    if found := swapped & set(names):
        return found.pop()
    from difflib import get_close_matches

    # `sandbx=on` must not leave the sandbox off. 0.85: about one letter wrong of six.
    return next(iter(get_close_matches(plain, names, 1, 0.85)), key)
