"""replay://FILE: a saved session plays the model, so that any session is a regression test.

The recorded assistant messages are given again in order, streamed, without delay. Each request is
held against what was recorded before that answer; the first difference ends the run with its
place. Left out of the comparison are the system prompt, which names the day and the folder, and
the name of the file that holds the whole of a long output, which is another each time.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bantam.core.cancel import Inbox
from bantam.core.errors import ConfigError
from bantam.core.messages import Message, Role, from_api, to_api
from bantam.core.repair import repaired
from bantam.model.failures import Failure, Kind
from bantam.model.transports import End, Head, Item

# What both sides of a comparison must agree on.
_COMPARED: Final = ("role", "content", "tool_calls", "tool_call_id")
_SHOWN: Final = 80
_LARGEST_BYTES: Final = 64 * 1024 * 1024  # more is no session but a device or a mistake
# What is another at each run: the file in `[20 characters left out; the whole is in PATH]`, and the
# name by which an executor finds a command's processes, as `env` shows it.
_RANDOM: Final = re.compile(
    r"^(\[\d+ characters left out; .* in |BANTAM_COMMAND_ID=)(?:.*output-\w+\.txt\]|[.0-9a-f]*)$",
    re.MULTILINE,
)


class ReplayTransport:
    """The recorded answers, one a request."""

    def __init__(self, endpoint: str) -> None:
        """Read the recording. Raises ConfigError if it cannot be read or is no session."""
        self.url = endpoint
        self._recorded = _recorded(endpoint)
        self._answers = [i for i, m in enumerate(self._recorded) if is_answer(m)]
        self._given = 0

    def send(self, body: bytes) -> "ReplayExchange":
        """Give the next answer, or say where this run left the recording."""
        if self._given == len(self._answers):
            text = f"{self.url}: the recording ends here, after {self._given} answers"
            return ReplayExchange([Failure(Kind.FINAL, text)])
        index = self._answers[self._given]
        self._given += 1
        found = json.loads(body)["messages"]
        wanted = in_request(self._recorded[:index])
        if place := first_difference(wanted, found):
            text = f"{self.url}: request {self._given} differs from the recording at {place}"
            return ReplayExchange([Failure(Kind.FINAL, text)])
        headers = {"content-type": "text/event-stream"}
        return ReplayExchange([Head(200, "OK", headers), *_stream(self._recorded[index]), End()])

    def close(self) -> None:
        """Nothing is kept."""


class ReplayExchange:
    """An answer that is there already."""

    def __init__(self, items: Sequence[Item]) -> None:
        self.inbox: Inbox[Item] = Inbox(len(items))
        for item in items:
            self.inbox.put(item)

    def close(self) -> None:
        """Nothing is held."""


def _recorded(endpoint: str) -> list[Message]:
    try:
        with Path(endpoint.partition("://")[2]).expanduser().open("rb") as file:
            text = file.read(_LARGEST_BYTES + 1)
        if len(text) > _LARGEST_BYTES:
            raise ValueError(f"more than {_LARGEST_BYTES} bytes")
        session = json.loads(text.decode("utf-8-sig"))
        messages = session["messages"] if isinstance(session, Mapping) else session
        return [from_api(message) for message in messages]
    except OSError as error:
        raise ConfigError(f"endpoint={endpoint}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise ConfigError(f"endpoint={endpoint} is no saved session: {error!r:.200}") from None


def is_answer(message: Message) -> bool:
    """Whether a model said this: an empty answer is asked for again and never stored."""
    said = message.content.strip() or message.tool_calls
    return message.role is Role.ASSISTANT and bool(said)


def in_request(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return `messages` as a request holds them: repaired, in the API's form."""
    return [to_api(message) for message in repaired(messages)]


def first_difference(
    wanted: Sequence[Mapping[str, Any]], found: Sequence[Mapping[str, Any]], start: int = 1
) -> str | None:
    """Return the first place where what was sent differs from what was recorded, None if nowhere.

    Both are in the API's form; their first message, system messages aside, has the number `start`.
    """
    wanted, found = _comparable(wanted), _comparable(found)
    for number, (old, new) in enumerate(zip(wanted, found, strict=False), start):
        if old != new:
            key = next(k for k in _COMPARED if old.get(k) != new.get(k))
            contrast = _contrast(old.get(key), new.get(key))
            return f"message {number} ({new['role']}), {key}: {contrast}"
    if len(wanted) != len(found):
        number = min(len(wanted), len(found)) + start
        return f"message {number}: {len(wanted)} recorded, {len(found)} sent"
    return None


def _comparable(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    compared = [
        {key: message[key] for key in _COMPARED if key in message}
        for message in messages
        if message["role"] != Role.SYSTEM.value
    ]
    for message in compared:
        if message["role"] == Role.TOOL.value:
            message["content"] = _RANDOM.sub(r"\1a file]", message["content"])
    return compared


def _contrast(old: Any, new: Any) -> str:
    """Show two values from where they part."""
    before, after = (v if isinstance(v, str) else json.dumps(v) for v in (old, new))
    pairs = enumerate(zip(before, after, strict=False))
    at = next((i for i, (a, b) in pairs if a != b), min(len(before), len(after)))
    start = max(0, at - _SHOWN // 4)
    return f"{before[start : start + _SHOWN]!r} recorded, {after[start : start + _SHOWN]!r} now"


def _stream(message: Message) -> Iterator[bytes]:
    """Yield the answer as a server streams it: words, then calls, then the end."""
    rest = {k: v for k, v in to_api(message).items() if k not in _COMPARED}
    # The reasoning beside the state that holds it too: two chunks would be read as two reasonings.
    yield _chunk(rest)
    # At most as many pieces as keep the inbox small; a piece is some words.
    words = message.content.split(" ")
    size = max(1, len(words) // 64)
    for start in range(0, len(words), size):
        piece = " ".join(words[start : start + size])
        yield _chunk({"content": piece if start + size >= len(words) else piece + " "})
    calls = to_api(message).get("tool_calls", ())
    numbered = [call | {"index": index} for index, call in enumerate(calls)]
    if numbered:
        yield _chunk({"tool_calls": numbered})
    yield _chunk({}, "tool_calls" if numbered else "stop")
    yield b"data: [DONE]\n\n"


def _chunk(delta: Mapping[str, Any], finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"
