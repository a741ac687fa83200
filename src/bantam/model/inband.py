"""Errors inside a 200: what the endpoint says went wrong, found in an event or a JSON body.

Providers agree on nothing about errors but the word. An object, a text or a list, nested in each
other and in JSON inside text (OpenRouter's `metadata.raw`), all end as one line for the user.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from bantam.model.jsontext import parsed

# Where an error's words stand, the most telling first.
_WORDS: Final = ("message", "msg", "error", "detail", "description", "type", "code")
_NUMBERS: Final = ("code", "status", "status_code")
_LONGEST: Final = 1000  # characters; some providers send a whole page


@dataclass(frozen=True, slots=True)
class Reported:
    """An error as the endpoint reports it: one line of words, and the HTTP status if it has one."""

    words: str
    status: int | None


def error_in(event: Mapping[str, Any]) -> Reported | None:
    """Return the error that an event of a stream, or a JSON body, reports; None if it has none.

    >>> error_in({"error": {"code": 502, "message": "no free worker"}})
    Reported(words='no free worker', status=502)
    >>> error_in({"choices": [], "error": None})
    """
    error = _error_value(event)
    if error is None:
        return None
    words = " ".join(error_text(error).split())[:_LONGEST] or "no reason given"
    return Reported(words, error_status(error))


def _error_value(event: Mapping[str, Any]) -> Any:
    """Return the error's value, whatever its type; None if there is no error."""
    if event.get("error"):
        return event["error"]
    if event.get("object") == "error" or event.get("type") == "error":
        return event
    choices = event.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if not isinstance(choice, Mapping):
            continue
        if choice.get("error"):
            return choice["error"]
        if choice.get("finish_reason") == "error":
            return "finish_reason is 'error'"
    return None


def error_text(error: Any) -> str:
    """Return the words in an error's value, "" if it has none.

    >>> error_text({"message": "Provider error", "metadata": {"raw": '{"error": "no memory"}'}})
    'Provider error: no memory'
    >>> error_text([{"msg": "extra field"}, "and more"])
    'extra field; and more'
    """
    match error:
        case str():
            return _unwrapped(error)
        case Mapping():
            words = next((text for n in _WORDS if (text := error_text(error.get(n)))), "")
            metadata = error.get("metadata")
            raw = error_text(metadata.get("raw")) if isinstance(metadata, Mapping) else ""
            return ": ".join(text for text in (words, raw) if text)
        case list():
            return "; ".join(text for item in error if (text := error_text(item)))
        case int() if not isinstance(error, bool):
            return str(error)
        case _:
            return ""


def _unwrapped(text: str) -> str:
    """Return the words in `text`, which may be the JSON text of another error."""
    if not text.lstrip().startswith(("{", "[")):
        return text.strip()
    try:
        return error_text(parsed(text)) or text.strip()
    except (ValueError, RecursionError):  # JSON in text in JSON in text may go on for long
        return text.strip()


def error_status(error: Any) -> int | None:
    """Return the HTTP status (400 to 599) that an error's value names, None if it names none.

    >>> error_status({"error": {"code": "429"}}), error_status({"code": "server_error"})
    (429, None)
    """
    if isinstance(error, list):
        return next((status for item in error if (status := error_status(item))), None)
    if not isinstance(error, Mapping):
        return None
    for name in _NUMBERS:
        value = str(error.get(name))
        if len(value) == 3 and value.isdecimal() and "400" <= value <= "599":
            return int(value)
    return error_status(error.get("error"))
