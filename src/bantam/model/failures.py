"""Why one attempt at a request failed, read from whatever the server or the network gave.

Servers wrap the same facts in a dozen shapes, and proxies answer with pages of HTML. `rejection`
reads them all into one value; `retry` and `quirks` decide on that value alone.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from bantam.core.errors import BantamError, ModelError
from bantam.core.redaction import Redaction
from bantam.model.inband import error_text
from bantam.model.jsontext import parsed

# One line of a stranger's text is enough to know what happened.
_MESSAGE_LIMIT: Final = 500
# Behind these many characters no server names a cause.
_WORDS_LIMIT: Final = 4000
# Texts, as `re` compiles them when one is first searched for: most runs see no failure.
_PAGE: Final = r"(?i)<[!?a-z]"
_TITLE: Final = r"(?is)<(title|h1)\b[^>]*>(.*?)</\1"
_TAG: Final = r"<[^>]*>"
_TEMPLATE: Final = r"(?i)jinja|chat.?template|template error|roles must alternate"
# Where a server names the member of the request that it speaks of: OpenAI, Google, FastAPI.
_NAMING: Final = ("param", "field", "loc")
# Where it shows what it got: the user's words, not its own.
_ECHOES: Final = frozenset({"input", "body"})


class Kind(Enum):
    """What sort of failure it was."""

    CONNECTION = auto()  # no answer: refused, reset, unreachable
    SILENCE = auto()  # a time-out before the first data event
    STALL = auto()  # a time-out after it
    BROKEN = auto()  # an answer that broke off or cannot be read
    STATUS = auto()  # an error status
    FINAL = auto()  # repeating cannot help


class Named(NamedTuple):
    """A member of the request that the server names, `messages.3.content`, and what it says."""

    path: str
    words: str


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed attempt. `reason` is short; `message` is the server's own first line, if any.

    `said`: all that the server said, its codes too, where that is more than the message.
    """

    kind: Kind
    reason: str
    message: str = ""
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    said: str = ""
    named: tuple[Named, ...] = ()
    is_page: bool = False  # HTML in place of JSON

    @property
    def words(self) -> str:
        """What the server said, to be searched for a cause."""
        return self.said or self.message

    @property
    def will_recur(self) -> bool:
        """Whether an error page or a chat template spoke: it will say the same nine times over."""
        return self.is_page or bool(re.search(_TEMPLATE, self.words))

    def without(self, secrets: Redaction) -> "Failure":
        """Return the same without secrets: some servers say the key that they refuse."""
        return replace(
            self,
            reason=secrets.text(self.reason),
            message=secrets.text(self.message),
            said=secrets.text(self.said),
            headers={name: secrets.text(value) for name, value in self.headers.items()},
        )

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
    text = body.decode("utf-8-sig", "replace").strip()
    is_page = re.match(_PAGE, text) is not None
    said = (
        _page_title(text[:_WORDS_LIMIT])
        if is_page
        else ""
        if _is_binary(text)
        else error_text(text)
    )
    mappings = list(_mappings(text))
    codes = [
        code for m in mappings for key in ("code", "type") if isinstance(code := m.get(key), str)
    ]
    return Failure(
        Kind.STATUS,
        status_line(status, reason),
        first_line(said),
        status,
        headers,
        said=": ".join([*codes, said])[:_WORDS_LIMIT],
        named=tuple(_named(mappings)),
        is_page=is_page,
    )


def network_failure(error: Exception, place: str) -> Failure:
    """Return what went wrong in words; only what may pass by itself is worth a repeat.

    `place` says where to the connection was.
    """
    text = first_line(str(error)) or type(error).__name__
    if isinstance(error, BantamError):
        return Failure(Kind.FINAL, text)
    # By name: where httpx itself cannot be imported, this still has to work.
    names = {kind.__name__ for kind in type(error).__mro__}
    if "ProxyError" in names and (re.match(r"4\d\d\b", text) or "ACCEPTABLE METHODS" in text):
        hint = "does its address hold the right name and password?"
        return Failure(Kind.FINAL, f"the proxy refused: {text}; {hint}")
    if "WRONG_VERSION_NUMBER" in text:
        hint = "is it http:// and not https://?"
        return Failure(Kind.FINAL, f"the server does not speak TLS; {hint} ({text})")
    if "CERTIFICATE_VERIFY_FAILED" in text:
        hint = "if the authority is your own, name its file in SSL_CERT_FILE"
        return Failure(Kind.FINAL, f"the server's certificate was not accepted: {text}; {hint}")
    if "LocalProtocolError" in names:
        # Its text quotes the header, and so the key.
        text = "HTTP cannot carry one of its headers; is the key one line of plain characters?"
        return Failure(Kind.FINAL, f"the request could not be made: {text}")
    if "URL in location header" in text:  # httpx reads it, though nobody follows it
        return Failure(Kind.FINAL, f"the server redirects to no valid address: {text}")
    if "TransportError" in names and "UnsupportedProtocol" not in names:
        return Failure(Kind.CONNECTION, f"connection failed: {text} ({place})")
    if "error" in names and type(error).__module__ == "zlib":
        return Failure(Kind.BROKEN, f"the answer's compression is broken: {text}")
    return Failure(Kind.FINAL, f"the request could not be made: {type(error).__name__}: {text}")


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


def _page_title(page: str) -> str:
    """Return what an HTML page is called, else its first words."""
    from html import unescape

    found = re.search(_TITLE, page)
    return " ".join(unescape(re.sub(_TAG, " ", found[2] if found else page)).split())


def _is_binary(text: str) -> bool:
    return "\0" in text or text.count("\ufffd") * 4 > len(text)


def _mappings(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield every object of an error body, also of JSON inside its texts (OpenRouter's `raw`)."""
    match value:
        case str() if value.lstrip().startswith(("{", "[")):
            with suppress(ValueError, RecursionError):
                yield from _mappings(parsed(value))
        case Mapping():
            yield value
            for key, inner in value.items():
                if key not in _ECHOES:
                    yield from _mappings(inner)
        case list():
            for inner in value:
                yield from _mappings(inner)


def _named(mappings: list[Mapping[str, Any]]) -> Iterator[Named]:
    for mapping in mappings:
        words = " ".join(value for value in mapping.values() if isinstance(value, str))
        for place in (mapping.get(key) for key in _NAMING):
            parts = place if isinstance(place, list) else re.split(r"[.\[\]]+", str(place or ""))
            path = ".".join(str(part) for part in parts if part != "").removeprefix("body.")
            if path:
                yield Named(path, words)
