"""Why one attempt at a request failed, read from whatever the server or the network gave.

Servers wrap the same facts in a dozen shapes, and proxies answer with pages of HTML. `rejection`
reads them all into one value; `retry` and `quirks` decide on that value alone.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from http import HTTPStatus
from typing import Any, Final

from bantam.core.errors import ModelError

# One line of a stranger's text is enough to know what happened.
_MESSAGE_LIMIT: Final = 500
_PAGE: Final = re.compile(r"\s*<(?:!doctype|html|head|body|\?xml)", re.IGNORECASE)
_TEMPLATE: Final = re.compile(r"jinja|chat.?template|template error", re.IGNORECASE)


class Kind(Enum):
    """What sort of failure it was."""

    CONNECTION = auto()  # no answer: refused, reset, unreachable
    SILENCE = auto()  # a time-out before the first data event
    STALL = auto()  # a time-out after it
    BROKEN = auto()  # an answer that broke off or cannot be read
    STATUS = auto()  # an error status
    FINAL = auto()  # repeating cannot help


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed attempt. `reason` is short; `message` is the server's own first line, if any."""

    kind: Kind
    reason: str
    message: str = ""
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    code: str = ""
    named: frozenset[str] = frozenset()  # the members of the request that the server named

    @property
    def is_page(self) -> bool:
        """Whether an error page or a chat template spoke: it will say the same nine times over."""
        return bool(_PAGE.match(self.message) or _TEMPLATE.search(self.message))

    def __str__(self) -> str:
        if not self.message or self.message in self.reason:
            return self.reason
        return f"{self.reason}: {self.message}"


class AttemptFailed(ModelError):
    """Carries a `Failure` from an attempt to the loop that decides what to do about it."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure), failure.status)
        self.failure = failure


def rejection(status: int, reason: str, headers: Mapping[str, str], body: bytes) -> Failure:
    """Return what an error response says. `headers` has lower-case names."""
    text = body.decode("utf-8", "replace").strip()
    try:
        facts = json.loads(text)
    except (ValueError, RecursionError):
        facts = text
    message = next(_messages(facts), "")
    return Failure(
        Kind.STATUS,
        status_line(status, reason),
        first_line(message),
        status,
        headers,
        code=" ".join(_members(facts, ("code", "type"))),
        named=frozenset(_members(facts, ("param", "loc"))),
    )


def status_line(status: int, reason: str = "") -> str:
    """Return `503 Service Unavailable`, with the standard phrase where the server sent none.

    >>> status_line(503), status_line(529), status_line(503, "Loading")
    ('503 Service Unavailable', '529', '503 Loading')
    """
    if not reason:
        try:
            reason = HTTPStatus(status).phrase
        except ValueError:
            reason = ""
    return f"{status} {reason}".strip()


def first_line(text: str) -> str:
    """Return the first line of `text` that is not blank, at most 500 characters of it."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= _MESSAGE_LIMIT else line[:_MESSAGE_LIMIT] + "…"


def _messages(facts: Any) -> Iterator[str]:
    """Yield the texts of an error body that are meant for people, the likeliest first."""
    match facts:
        case str() if facts:
            yield facts
        case Mapping():
            for key in ("error", "message", "detail", "msg", "errors", "title"):
                yield from _messages(facts.get(key))
        case list():
            for item in facts:
                yield from _messages(item)


def _members(facts: Any, keys: tuple[str, ...]) -> Iterator[str]:
    """Yield every text that stands under one of `keys`, at any depth of an error body."""
    match facts:
        case Mapping():
            for key, value in facts.items():
                if key in keys:
                    yield from (value,) if isinstance(value, str) else _texts(value)
                else:
                    yield from _members(value, keys)
        case list():
            for item in facts:
                yield from _members(item, keys)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, str))
