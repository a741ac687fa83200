"""The parameters in a TOOL or SKILL block (rule P1): JSON, or lines for models that miss it."""

import json
import re
from math import isfinite
from typing import Any, Final

from bantam.core.messages import parsed_arguments

_STRAIGHT: Final = str.maketrans("\u201c\u201d\u201e\u201f\u2018\u2019", '""""\'\'')
_LINE: Final = re.compile(r"""[ \t]*(["']?)([\w.-]+)\1[ \t]*[:=][ \t]*(.*)""", re.DOTALL)
_INTEGER: Final = re.compile("-?[0-9]{1,300}")
_DECIMAL: Final = re.compile("-?[0-9]{1,20}[.][0-9]{1,20}")


def parameters_in(text: str) -> dict[str, Any] | None:
    r"""Return the parameters in `text`, None if it holds none that can be read.

    >>> parameters_in('{"a": [1]}'), parameters_in("max: 7\nversion = 1.10\nall: true")
    ({'a': [1]}, {'max': 7, 'version': '1.10', 'all': True})
    """
    for form in (text, text.translate(_STRAIGHT)):
        if (value := parsed_arguments(form)) is not None:
            return value
    if text.lstrip().startswith(("{", "[")) or _is_json(text):
        return None
    found: dict[str, Any] = {}
    for line in text.strip().split("\n"):
        if not line.strip():
            continue
        pair = _LINE.fullmatch(line)
        if pair is None:
            return None
        found[pair[2]] = _value(pair[3].strip())
    return found


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _value(text: str) -> Any:
    """Return what a line gives: text, unless it is exactly what a number or truth value is."""
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        try:
            return json.loads(text)
        except ValueError:
            return text[1:-1]
    if text in ("true", "false"):
        return text == "true"
    if _INTEGER.fullmatch(text) and str(int(text)) == text and isfinite(float(text)):
        return int(text)
    if _DECIMAL.fullmatch(text) and repr(float(text)) == text:
        return float(text)
    return text
