r"""What the text dialects share: a conversation in which only text is spoken.

The stored history holds calls and results; here they become text in the order in which they
happened: no `tools`, no `tool` role, results as the user's words in a fence longer than any fence
inside. Pure: a longer history begins as a shorter one, but for a last user message that grows.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from bantam.core.messages import Message, Role, ToolCall, to_api

_TICKS: Final = re.compile("`{3,}")

# A call, and the message that holds its result.
Exchange = tuple[ToolCall, Message]
# The prose before some calls, the calls with their results, what was said before -> messages.
Spoken = Callable[[Message, Sequence[Exchange]], Iterable[Message]]


def spoken(messages: Sequence[Message], instructions: str, speak: Spoken) -> list[dict[str, Any]]:
    """Return repaired `messages` in the API's form, with system, user and assistant text alone.

    `instructions`: as in `instructed`; "" if the messages are the end of a conversation. `speak`
    turns an assistant message that has calls, and what came of them, into assistant and user
    messages.
    """
    said: list[Message] = []
    if instructions:
        said = instructed(messages[:1], instructions)[:1]
        messages = messages[1:] if messages and messages[0].role is Role.SYSTEM else messages
    for message, results in _steps(messages):
        if message.tool_calls:
            said += speak(message, list(zip(message.tool_calls, results, strict=True)))
        else:
            said.append(message)
    return [to_api(message) for message in _joined(said)]


def instructed(messages: Sequence[Message], instructions: str) -> list[Message]:
    """Return `messages` with a dialect's instructions behind the system prompt's first paragraph.

    Not at its end: the rules of the project and its folder come behind those of the program.
    """
    if not messages or messages[0].role is not Role.SYSTEM:
        return [Message(Role.SYSTEM, instructions), *messages]
    first, _, rest = messages[0].content.partition("\n\n")
    content = "\n\n".join(part for part in (first, instructions, rest) if part)
    return [replace(messages[0], content=content), *messages[1:]]


def _steps(messages: Sequence[Message]) -> Iterator[tuple[Message, list[Message]]]:
    """Yield each message with the results of its calls, which stand directly behind it."""
    rest = iter(messages)
    for message in rest:
        yield message, [next(rest) for _ in message.tool_calls]


def _joined(messages: Iterable[Message]) -> list[Message]:
    """Return `messages`, those of the user in a row as one: some servers take no two."""
    joined: list[Message] = []
    for message in messages:
        if joined and joined[-1].role is message.role is Role.USER:
            content = f"{joined[-1].content}\n\n{message.content}"
            joined[-1] = replace(joined[-1], content=content)
        else:
            joined.append(message)
    return joined


def fenced(text: str) -> str:
    r"""Return `text` in a fence of backticks that nothing in it can close.

    >>> fenced("a\n```\nb")
    '````\na\n```\nb\n````'
    """
    longest = max((len(ticks) for ticks in _TICKS.findall(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}\n{text}\n{fence}"
