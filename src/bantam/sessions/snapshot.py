"""A stored session, `<id>.json`: its values, and its text.

What a list of sessions needs stands before the messages, so that the head of a file tells it
however long the conversation is. A bare array of messages, as other programs store it, is read too.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeGuard

from bantam.core.errors import BantamError
from bantam.core.events import UsageReport, UsageSum
from bantam.core.messages import Message, Role, from_api, to_api, without_surrogates
from bantam.core.redaction import Redaction
from bantam.sessions.files import encoded

FORMAT: Final = "bantam-session"
VERSION: Final = 1
SUMMARY_CHARACTERS: Final = 100
_MESSAGES: Final = b'"messages": ['
_MOST: Final = 2**53  # beyond, not every reader of JSON has the same integer (RFC 8259, section 6)


class Damaged(BantamError):
    """A file holds no session; the message says why."""


class TooNew(BantamError):
    """A newer Bantam made the session: this one would lose what it does not know."""


@dataclass(frozen=True, slots=True)
class About:
    """What a session says about itself; times are UTC (ISO 8601).

    `endpoint`, `model` and `dialect` are those of its last turn.
    """

    project: str = ""
    created: str = ""
    updated: str = ""
    endpoint: str = ""
    model: str = ""
    dialect: str = ""
    summary: str = ""
    generation: int = 0

    def without(self, redaction: Redaction) -> "About":
        """Return the same with a placeholder for each secret in what people have named."""
        text = redaction.text
        return replace(
            self,
            project=text(self.project),
            endpoint=text(self.endpoint),
            model=text(self.model),
            summary=text(self.summary),
        )


@dataclass(slots=True)
class Conversation:
    """Everything of a session that grows. `started`: its first call without a result had begun.

    `calls`: what each request of the session cost. `turns`: how many prompts there were.
    """

    messages: list[Message] = field(default_factory=list)
    started: bool = False
    calls: list[UsageReport] = field(default_factory=list)
    turns: int = 0
    # The messages as they are stored: encoded once, though stored after each turn.
    _encoded: list[bytes] = field(default_factory=list)

    @property
    def has_prompt(self) -> bool:
        """Whether anybody has asked anything."""
        return any(message.role is Role.USER for message in self.messages)

    def append(self, message: Message) -> None:
        """Add a message; the call that had started is no open one any more."""
        self.messages.append(message)
        self.started = False

    def insert_first(self, message: Message) -> None:
        """Put a message before all others."""
        self.messages.insert(0, message)
        self._encoded.clear()

    def encoded_messages(self) -> Sequence[bytes]:
        """Return the stored form of each message."""
        for message in self.messages[len(self._encoded) :]:
            self._encoded.append(encoded(to_api(message)))
        return self._encoded

    @property
    def usage(self) -> UsageSum:
        """The sums over all requests."""
        return UsageSum.of(self.calls)


def first_line(messages: Iterable[Message]) -> str:
    """Return the beginning of the first prompt: what a session is called until it has a summary."""
    prompts = (m.content.strip() for m in messages if m.role is Role.USER)
    line = next(prompts, "").partition("\n")[0]
    return without_surrogates(line[:SUMMARY_CHARACTERS])


# -- writing ----------------------------------------------------------------------------------


def pieces(session_id: str, about: About, conversation: Conversation) -> Iterator[bytes]:
    """Yield the text of a snapshot; joined it is one JSON object, a message a line."""
    messages = conversation.encoded_messages()
    head = {
        "format": FORMAT,
        "version": VERSION,
        "id": session_id,
        "project": about.project,
        "created": about.created,
        "updated": about.updated,
        "endpoint": about.endpoint,
        "model": about.model,
        "dialect": about.dialect,
        "summary": about.summary or first_line(conversation.messages),
        "usage": report_to_json(conversation.usage),
        "generation": about.generation,
        "count": len(messages),
        "started": conversation.started,
        "turns": conversation.turns,
    }
    yield encoded(head)[:-1] + b", " + _MESSAGES
    separator = b"\n"
    for message in messages:
        yield separator + message
        separator = b",\n"
    calls = [report_to_json(call) for call in conversation.calls]
    yield b'\n], "calls": ' + encoded(calls) + b"}\n"


def report_to_json(report: UsageReport | UsageSum) -> dict[str, Any]:
    """Return the cost of a request, or of many, as it is stored."""
    return {
        "prompt": report.prompt,
        "completion": report.completion,
        "cached": report.cached,
        "estimated": report.estimated,
    }


def report_from_json(value: Any) -> UsageReport:
    """Return the cost that `value` holds; absent counts are 0. Raises ValueError."""
    if not isinstance(value, Mapping):
        raise ValueError(f"no usage: {value!r:.60}")
    prompt = _count(value.get("prompt") or 0)
    cached = value.get("cached")
    return UsageReport(
        prompt=prompt,
        completion=_count(value.get("completion") or 0),
        cached=None if cached is None else _count(cached),
        estimated=bool(value.get("estimated")),
        context=prompt,
        window=0,
    )


def _count(value: Any) -> int:
    if not _is_count(value):
        raise ValueError(f"no count: {value!r:.60}")
    return value


def _is_count(value: Any) -> TypeGuard[int]:
    """Whether `value` can be a number of things: Python refuses to write integers of any size."""
    return isinstance(value, int) and 0 <= value <= _MOST


# -- reading ----------------------------------------------------------------------------------


def parsed(data: bytes) -> tuple[About, Conversation]:
    """Return the session in `data`. Raises Damaged and TooNew."""
    if not data.strip():
        raise Damaged("it is empty")
    try:
        value = json.loads(data.decode("utf-8-sig"))
        return _about(value), _conversation(value)
    except UnicodeDecodeError as error:
        raise Damaged(f"byte {error.start} is not UTF-8") from None
    except RecursionError:
        raise Damaged("it nests too deep") from None
    except json.JSONDecodeError as error:
        raise Damaged(f"it is no JSON: {error}") from None
    except ValueError as error:
        raise Damaged(f"{error!s:.200}") from None


def _about(value: Any) -> About:
    if not isinstance(value, dict):
        return About()
    version = value.get("version")
    if value.get("format") == FORMAT and isinstance(version, int) and version > VERSION:
        raise TooNew(f"a newer Bantam made it (version {version!s:.20} of its format)")
    texts = ("project", "created", "updated", "endpoint", "model", "dialect", "summary")
    found = {name: value[name] for name in texts if isinstance(value.get(name), str)}
    generation = value.get("generation")
    return replace(About(**found), generation=generation if _is_count(generation) else 0)


def _conversation(value: Any) -> Conversation:
    members: Mapping[str, Any] = value if isinstance(value, dict) else {"messages": value}
    messages, calls = members.get("messages"), members.get("calls") or []
    if not isinstance(messages, list):
        raise ValueError(f"it has no list of messages but {messages!r:.60}")
    if not isinstance(calls, list):
        raise ValueError(f"calls is no list: {calls!r:.60}")
    return Conversation(
        messages=[_message(number, message) for number, message in enumerate(messages, start=1)],
        started=members.get("started") is True,
        calls=[report_from_json(call) for call in calls],
        turns=_count(members.get("turns") or 0),
    )


def _message(number: int, value: Any) -> Message:
    try:
        return from_api(value)
    except ValueError as error:
        raise ValueError(f"message {number}: {error}") from None


def parsed_head(data: bytes) -> tuple[About, int] | None:
    """Return what the beginning of a snapshot tells, and its number of messages.

    None where that beginning is not Bantam's own: only reading it all tells more.
    """
    # No text within the head can hold this: a quote inside JSON's strings is escaped.
    head, found, _ = data.partition(_MESSAGES)
    if not found:
        return None
    try:
        value = json.loads(head + b'"messages": []}')
        about = _about(value)
    except (ValueError, RecursionError, TooNew):
        return None
    # Where a formatter has sorted the members, some stand behind the messages.
    is_own = value.get("format") == FORMAT and "started" in value
    count = value.get("count")
    return (about, count) if is_own and _is_count(count) else None


def folded(conversation: Conversation, entries: Iterable[Mapping[str, Any]]) -> str:
    """Let the entries of a journal happen to `conversation`; return why not all of them, or "".

    Behind one that cannot happen, nothing does. An entry of an unknown kind changes nothing.
    """
    for number, entry in enumerate(entries, start=2):
        try:
            if "message" in entry:
                conversation.append(from_api(entry["message"]))
            if "turn" in entry:
                conversation.turns = _count(entry["turn"])
            if "usage" in entry:
                conversation.calls.append(report_from_json(entry["usage"]))
        except ValueError as error:
            return f"line {number}: {error}"
        if "start" in entry:
            conversation.started = True
    return ""
