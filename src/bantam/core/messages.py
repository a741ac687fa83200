"""A conversation as values, and its API form: what is stored, shown and, once repaired, sent.

Values hold what happened, however odd: nothing here judges or mends (that is `core.repair`). What
a program of its own kind wrote comes back equal; of other programs' forms what has a meaning here.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import isfinite
from typing import Any, Final

# Results of calls that have none of their own (SPEC sections 8 and 12).
INTERRUPTED_RESULT: Final = "interrupted by the user"
UNKNOWN_RESULT: Final = (
    "outcome unknown: the program stopped while this ran; check before repeating"
)
NOT_RUN_RESULT: Final = "not run: the program stopped before this started"

# Real values nest some ten levels; serde_json, in many servers, refuses 128. The bound also keeps
# every walk over a value clear of Python's recursion limit, however deep its caller stands.
MAX_DEPTH: Final = 100

# How what Bantam says to the model outside of any turn begins: a user message, and no prompt.
NOTES: Final = (
    "(From here on the working directory is ",
    "(The user has undone your last ",
    "(The conversation up to here was replaced by ",
    "(Nothing was run: ",
)

SURROGATES: Final = re.compile("[\ud800-\udfff]")
# What the API defines, and what of it is a value's own field here: `extra` never stands for these.
_OF_MESSAGES: Final = frozenset(
    {"role", "content", "reasoning_content", "tool_calls", "tool_call_id"}
)
_OF_CALLS: Final = frozenset({"id", "type", "function", "index"})


class Role(StrEnum):
    """Who speaks."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """What the model wants run. `arguments` is the JSON text as received, perhaps broken.

    `extra`: members that the provider put on the call (signatures), sent back unchanged.
    """

    id: str
    name: str
    arguments: str
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation; `extra` as in `ToolCall`."""

    role: Role
    content: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete assistant message, how it ended, and what the dialect read in it.

    `fault` is set where the turn must end after the answer was stored, and says why. `correction`:
    what the model is told where the answer as a whole cannot be read; it is no answer then.
    `refusals`: ids of calls that must not run -> why, for the model. `notices`: for the user.
    """

    message: Message
    finish_reason: str | None
    fault: str | None = None
    correction: str | None = None
    refusals: Mapping[str, str] = field(default_factory=dict)
    notices: tuple[str, ...] = ()


def parsed_arguments(text: str) -> dict[str, Any] | None:
    """Return the JSON object in `text`, `{}` for blank text, None if it holds anything else.

    Anything else is also what only some parsers take: NaN, numbers beyond a double's range, more
    than MAX_DEPTH levels.

    >>> parsed_arguments('{"command": "ls"}'), parsed_arguments(""), parsed_arguments('{"a": ')
    ({'command': 'ls'}, {}, None)
    """
    if not text.strip():
        return {}
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_float, parse_int=_int)
    except (ValueError, RecursionError):
        return None
    many = text.count("{") + text.count("[") > MAX_DEPTH
    return value if isinstance(value, dict) and not (many and is_too_deep(value)) else None


def _refuse(constant: str) -> None:
    # NaN and Infinity are Python's, not JSON's: a server would answer 400 to them for ever.
    raise ValueError(constant)


def _float(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(text)
    return number


def _int(text: str) -> int:
    _float(text)  # parsers without big integers read them as doubles
    return int(text)


def is_too_deep(value: Any) -> bool:
    """Whether the JSON value nests deeper than MAX_DEPTH."""
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level for inner in _members(outer)]
    return any(isinstance(inner, Mapping | list) for inner in level)


def _members(value: Any) -> Iterable[Any]:
    match value:
        case Mapping():
            return value.values()
        case list():
            return value
        case _:
            return ()


def unanswered(messages: Sequence[Message]) -> Iterator[ToolCall]:
    """Yield the calls of the last assistant message that have no result yet."""
    for results, message in enumerate(reversed(messages)):
        if message.role is not Role.TOOL:
            yield from message.tool_calls[results:]
            return


def last_prompt(messages: Sequence[Message]) -> int | None:
    """Return where the last prompt stands in `messages`, None if there is none."""
    for index in reversed(range(len(messages))):
        message = messages[index]
        if message.role is Role.USER and not message.content.startswith(NOTES):
            return index
    return None


def has_answer(messages: Iterable[Message]) -> bool:
    """Whether the model has said anything."""
    return any(message.role is Role.ASSISTANT for message in messages)


def has_calls(messages: Iterable[Message]) -> bool:
    """Whether the model has called anything."""
    return any(message.tool_calls for message in messages)


def each_text(value: Any, change: Callable[[str], str]) -> Any:
    """Return the JSON `value` with each text in it changed, names of members too.

    >>> each_text({"a": ["b", 1]}, str.upper)
    {'A': ['B', 1]}
    """
    match value:
        case str():
            return change(value)
        case Mapping():
            return {change(name): each_text(member, change) for name, member in value.items()}
        case list():
            return [each_text(member, change) for member in value]
        case _:
            return value


def without_surrogates(text: str) -> str:
    r"""Return `text` with lone surrogates, which UTF-8 cannot hold, as U+FFFD.

    >>> without_surrogates("cut \ud83d!")
    'cut �!'
    """
    return SURROGATES.sub("\ufffd", text)


# -- the API form -----------------------------------------------------------------------------


def to_api(message: Message) -> dict[str, Any]:
    """Return the form that is stored and shown: the API's, with `reasoning_content` if any."""
    api: dict[str, Any] = {"role": message.role.value, "content": message.content}
    if message.reasoning:
        api["reasoning_content"] = message.reasoning
    if message.tool_calls:
        api["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
                **_others(call.extra, _OF_CALLS),
            }
            for call in message.tool_calls
        ]
    if message.role is Role.TOOL:
        api["tool_call_id"] = message.tool_call_id
    return api | _others(message.extra, _OF_MESSAGES)


def _others(members: Mapping[str, Any], known: frozenset[str]) -> dict[str, Any]:
    """Return the members that are the provider's; null says nothing, and some servers refuse it."""
    return {k: v for k, v in members.items() if k not in known and v is not None}


def from_api(api: Mapping[str, Any]) -> Message:
    """Return the message that `api` holds; the inverse of `to_api`, forgiving about absence.

    Raises ValueError if it is no message: an unknown role, members of a wrong type, or nested
    deeper than MAX_DEPTH.
    """
    if not isinstance(api, Mapping):
        raise ValueError(f"no message: {api!r:.60}")
    if is_too_deep(api):
        raise ValueError(f"nested deeper than {MAX_DEPTH}")
    calls = api.get("tool_calls") or ()
    if not isinstance(calls, list | tuple):
        raise ValueError(f"tool_calls is no list: {calls!r:.60}")
    return Message(
        role=_role(str(api.get("role"))),
        content=_text(api.get("content")),
        reasoning=_text(api.get("reasoning_content")),
        tool_calls=tuple(_call_from_api(call) for call in calls),
        tool_call_id=_text(api.get("tool_call_id")),
        extra=_others(api, _OF_MESSAGES),
    )


def _role(name: str) -> Role:
    return Role.SYSTEM if name == "developer" else Role(name)  # its name at OpenAI's newer models


def _call_from_api(api: Any) -> ToolCall:
    function = api.get("function") if isinstance(api, Mapping) else None
    if not isinstance(function, Mapping):
        raise ValueError(f"no tool call: {api!r:.60}")
    arguments = function.get("arguments")
    if isinstance(arguments, Mapping):
        arguments = json.dumps(arguments, ensure_ascii=False)
    name = _text(function.get("name"))
    return ToolCall(_text(api.get("id")), name, _text(arguments), _others(api, _OF_CALLS))


def _text(value: Any) -> str:
    match value:
        case None:
            return ""
        case str():
            return value
        case list():
            # Typed parts, as other programs store them: the text is what a two-tool agent uses.
            parts = (p.get("text") if isinstance(p, Mapping) else p for p in value)
            return "".join(part for part in parts if isinstance(part, str))
        case _:
            raise ValueError(f"not text: {value!r:.60}")
