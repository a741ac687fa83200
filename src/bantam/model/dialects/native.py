"""The native dialect: the API's own `tool_calls`; history and wire have the same shape.

A text dialect differs in these two functions alone; the loop has no branch on it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from bantam.core.messages import Message, to_api


class Native:
    """Messages as the chat-completions API defines them."""

    name = "native"

    def encode(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        """Return the body's `messages` and `tools` for a repaired conversation."""
        encoded: dict[str, Any] = {"messages": [to_api(message) for message in messages]}
        if tools:
            encoded["tools"] = list(tools)
        return encoded

    def decode(self, reply: Message) -> Message:
        """Return `reply` as it is: its calls are where the loop looks for them."""
        return reply
