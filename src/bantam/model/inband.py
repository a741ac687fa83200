"""Errors inside a 200: what the endpoint says went wrong, found in an event or a JSON body.

Providers agree on nothing about errors but the word. An object, a text or a list, nested in each
other and in JSON inside text (OpenRouter's `metadata.raw`), all end as one line for the user.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from bantam.model.jsontext import parsed

# Where an error's words stand, the most telling first.
_WORDS: Final = ("message", "msg", "error", "detail", "description", "type", "code")
_BARE: Final = ("message", "msg", "detail")
_NUMBERS: Final = ("code", "status", "status_code")
# The words that stand where a number might, and the status that they come with outside a stream
# (OpenAI's and Anthropic's references).
_CODES: Final = {
    "invalid_request_error": 400,
    "context_length_exceeded": 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "model_not_found": 404,
    "insufficient_quota": 429,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "overloaded_error": 529,
}
_LONGEST: Final = 1000  # characters; some providers send a whole page


class Reported(NamedTuple):
    """An error as the endpoint reports it: one line of words, and the HTTP status if it has one.

    `codes` are the words that it calls the error by.
    """

    words: str
    status: int | None
    codes: str = ""


def error_in(event: Mapping[str, Any]) -> Reported | None:
    """Return the error that an event of a stream, or a JSON body, reports; None if it has none.

    >>> error_in({"error": {"code": 502, "message": "no free worker"}})
    Reported(words='no free worker', status=502, codes='')
    >>> error_in({"choices": [], "error": None})
    """
    error = _error_value(event)
    if error is None:
        return None
    words = " ".join(error_text(error).split())[:_LONGEST] or "no reason given"
    codes = " ".join(_codes(error))
    status = error_status(error)
    if status is None:
        status = next((_CODES[code] for code in codes.split() if code in _CODES), None)
    return Reported(words, status, codes)


def _error_value(event: Mapping[str, Any]) -> Any:
    """Return the error's value, whatever its type; None if there is no error."""
    if event.get("error"):
        return event["error"]
    if event.get("object") == "error" or event.get("type") == "error":
        return event
    bare = any(isinstance(event.get(name), str) for name in _BARE)
    if bare and not event.keys() & {"choices", "usage", "id"}:
        return event  # what `event: error` announces, or a framework's own error
    choices = event.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if not isinstance(choice, dict):
            continue
        if choice.get("error"):
            return choice["error"]
        if choice.get("finish_reason") == "error":
            return "finish_reason is 'error'"
    return None


def _codes(error: Any) -> Iterator[str]:
    """Yield the words that an error's value is called by, the most exact first."""
    match error:
        case dict():
            yield from (v for n in ("code", "type") if isinstance(v := error.get(n), str))
            yield from _codes(error.get("error"))
        case list():
            for item in error:
                yield from _codes(item)


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
        case dict():
            words = next((text for n in _WORDS if (text := error_text(error.get(n)))), "")
            metadata = error.get("metadata")
            raw = error_text(metadata.get("raw")) if isinstance(metadata, dict) else ""
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
    if not isinstance(error, dict):
        return None
    for name in _NUMBERS:
        value = str(error.get(name))
        if len(value) == 3 and value.isdecimal() and "400" <= value <= "599":
            return int(value)
    return error_status(error.get("error"))
