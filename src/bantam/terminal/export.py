"""A conversation as a Markdown document: what was asked, said, run, and what came of it.

Left out are the system prompt and the reasoning: what no reader of an answer was meant to see.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Final

from bantam.core.messages import Message, Role, ToolCall, parsed_arguments, without_surrogates

_FENCE: Final = re.compile("`{3,}")


def as_markdown(messages: Iterable[Message]) -> str:
    """Return `messages` as Markdown, each under a heading of its own; "" if there are none."""
    return without_surrogates("\n\n".join(_parts(messages)).strip() + "\n")


def _parts(messages: Iterable[Message]) -> Iterator[str]:
    names: dict[str, str] = {}
    for message in messages:
        match message.role:
            case Role.USER:
                yield f"## User\n\n{message.content.strip()}"
            case Role.ASSISTANT:
                yield f"## Assistant\n\n{message.content.strip()}".rstrip()
                names |= {call.id: call.name for call in message.tool_calls}
                yield from map(_call, message.tool_calls)
            case Role.TOOL:
                name = names.get(message.tool_call_id, "a tool")
                yield f"Result of `{name}`:\n\n{_fenced(message.content)}"
            case _:  # the system's
                pass


def _call(call: ToolCall) -> str:
    """Return a call; a shell command as such, other arguments as JSON."""
    arguments = parsed_arguments(call.arguments)
    match arguments:
        case None:
            text, language = call.arguments, ""
        case {"command": str(command)} if len(arguments) == 1:
            text, language = command, "sh"
        case _:
            text, language = json.dumps(arguments, ensure_ascii=False, indent=2), "json"
    return f"Call of `{call.name}`:\n\n{_fenced(text, language)}"


def _fenced(text: str, language: str = "") -> str:
    """Return `text` in a fence that nothing in it ends (CommonMark 0.31, section 4.5)."""
    longest = max(map(len, _FENCE.findall(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text.removesuffix(chr(10))}\n{fence}"
