"""Kinds of option values: text in, a typed value out, and back.

A kind accepts what it names and refuses the rest: there is no spelling that means a default. The
limits keep a value usable later, where no error could name the line it came from.
"""

import json
import math
import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from bantam.core.endpoints import origin

KNOWN_TOOLS: Final = ("shell_exec", "write_file", "edit_file", "read_file")

# poll(2) counts milliseconds in 31 bits: a socket refuses a time-out of more than 24 days.
_LONGEST_S: Final = 1_000_000
# Room for every real count, and none for one that is too large for a float.
_MOST: Final = 1_000_000_000
# A forwarded value with more brackets stays text: no request may fail on deep nesting.
_MOST_BRACKETS: Final = 200

_NUMBER: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_WHOLE: Final = re.compile(r"\d{1,12}", re.ASCII)  # int() refuses thousands of digits
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
# An HTTP header's value: visible ASCII, blanks only inside (RFC 9110 section 5.5).
_HEADER: Final = re.compile(r"[!-~]([ -~]*[!-~])?")
_SWITCH: Final = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}


class Kind(NamedTuple):
    """The values an option takes: `read` makes one from text.

    Or it raises ValueError, whose message, if it has one, says more than `expected` does and
    quotes nothing of the text.
    """

    expected: str
    read: Callable[[str], Any]


def choice(*values: str) -> Kind:
    """One of `values`, in any letter case."""

    def read(text: str) -> str:
        if text.lower() not in values:
            raise ValueError
        return text.lower()

    return Kind(f"one of {', '.join(values)}", read)


def number(expected: str, accepts: Callable[[float], bool]) -> Kind:
    """A finite decimal number that `accepts` takes, as a float."""

    def read(text: str) -> float:
        value = float(text) if _NUMBER.fullmatch(text) else math.nan
        if not (math.isfinite(value) and accepts(value)):
            raise ValueError
        return value

    return Kind(expected, read)


def whole(lowest: int) -> Kind:
    """A whole number from `lowest` to a thousand million."""

    def read(text: str) -> int:
        value = int(text) if _WHOLE.fullmatch(text) else -1
        if not lowest <= value <= _MOST:
            raise ValueError
        return value

    return Kind(f"a whole number from {lowest} to {_MOST}", read)


def subset(*values: str) -> Kind:
    """Some of `values`, parted by commas, as a tuple in the order given, each once."""

    def read(text: str) -> tuple[str, ...]:
        named = dict.fromkeys(name.strip() for name in text.split(","))
        if not all(name in values for name in named):
            raise ValueError
        return tuple(named)

    return Kind(f"a list of {', '.join(values)}, parted by commas", read)


def _address(text: str) -> str:
    origin(text)
    return text


def _matching(expected: str, accepts: Callable[[str], object]) -> Kind:
    def read(text: str) -> str:
        if not accepts(text):
            raise ValueError
        return text

    return Kind(expected, read)


def _switch(text: str) -> bool:
    if text.lower() not in _SWITCH:
        raise ValueError
    return _SWITCH[text.lower()]


SWITCH: Final = Kind("true or false", _switch)
TEXT: Final = _matching("text without control characters", lambda text: not _CONTROL.search(text))
KEY: Final = _matching("one line of visible ASCII", _HEADER.fullmatch)
ADDRESS: Final = Kind("an https://, http://, run:// or replay:// address", _address)
SECONDS: Final = number(
    f"a number of seconds, above 0, at most {_LONGEST_S}", lambda s: 0 < s <= _LONGEST_S
)


def forwarded_value(text: str) -> Any:
    """Return the JSON number, boolean, null, list or object that `text` is, else `text`.

    >>> [forwarded_value(text) for text in ("0.9", "true", '["END"]', "high", "NaN", '"4"')]
    [0.9, True, ['END'], 'high', 'NaN', '"4"']
    """
    if text.count("[") + text.count("{") > _MOST_BRACKETS:
        return text
    try:
        value = json.loads(text)
        # What Python reads and no server does: NaN, 1e999, an escaped lone surrogate.
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        return text
    return text if isinstance(value, str) else value


def as_text(value: Any) -> str:
    """Return `value`, an option's or a forwarded one, as a configuration file writes it.

    An option's None, unset, is empty.

    >>> [as_text(value) for value in (300.0, True, ("shell_exec", "write_file"), None, ["END"])]
    ['300', 'true', 'shell_exec,write_file', '', '["END"]']
    """
    match value:
        case None:
            return ""
        case str():
            return value
        case tuple():
            return ",".join(value)
        case float():
            return repr(value).removesuffix(".0")
        case _:
            return json.dumps(value, ensure_ascii=False)
