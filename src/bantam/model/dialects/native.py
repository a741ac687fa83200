"""The native dialect: the API's own `tool_calls`; history and wire have the same shape.

A call that the model, or a server that does not parse its template's output, wrote into the text
is read where it can mean nothing else.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from bantam.core.messages import Answer, Message, ToolCall, has_calls, to_api
from bantam.model.dialects.dialect import Tools
from bantam.model.dialects.leaks import leaked_call, looks_like_call
from bantam.model.dialects.textual import instructed

# When to use which; a tool's schema says how.
_USES: Final = {
    "shell_exec": "run a command: look around, search, build, test, use any installed program.",
    "write_file": "create a file, or splice bytes into one; prefer it to shell redirection.",
    "edit_file": "change places in a text file that you have read.",
    "read_file": "see a text file whole.",
}
_CUTS: Final = ("length", "content_filter")
_CORRECTION: Final = (
    "(Nothing was run: your answer holds something like a tool call, but as text. Make the call "
    "with the API's tool calling, one that is whole, or answer in plain text.)"
)


class Native:
    """Messages as the chat-completions API defines them.

    `reads_text`: whether a call may be written as text.
    """

    name = "native"

    def __init__(self, *, reads_text: bool = True) -> None:
        self._reads_text = reads_text

    def encode(self, messages: Sequence[Message], tools: Tools, start: int = 0) -> dict[str, Any]:
        """Return the body's `messages` and `tools` for a repaired conversation."""
        told = messages[start:]
        if tools and not start:
            told = instructed(told, _instructions(tools))
        encoded: dict[str, Any] = {"messages": [to_api(message) for message in told]}
        return encoded | {"tools": list(tools)} if tools else encoded

    def decode(self, answer: Answer, history: Sequence[Message], tools: Tools) -> Answer:
        """Return `answer`: its calls are where the loop looks for them, or it has one in its text.

        What only looks like one is to be corrected.
        """
        message = answer.message
        if message.tool_calls or not tools or not self._reads_text:
            return answer
        text = message.content.strip()
        call = leaked_call(text, tools) if answer.finish_reason not in _CUTS else None
        # A model that can call may show how it is done.
        if call and has_calls(history) and (call[0] or text.startswith("```")):
            call = None
        if call is None:
            return replace(answer, correction=_CORRECTION if looks_like_call(text) else None)
        before, name, arguments = call
        made = ToolCall(f"call_{len(history)}_1", name, arguments)
        told = f"the model wrote its call of {name} as text: taken as the call"
        message = replace(message, content=before, tool_calls=(made,))
        return replace(answer, message=message, notices=(*answer.notices, told))

    def view(self) -> "Whole":
        """Return what shows all of an answer."""
        return Whole()

    def without_tools(self) -> str | None:
        """Without tools there is no native dialect."""
        return None


def _instructions(tools: Tools) -> str:
    names = [tool["function"]["name"] for tool in tools]
    uses = [f"- {name}: {_USES[name]}" for name in names if name in _USES]
    return "\n".join(["Your tools:", *uses])


class Whole:
    """Shows a text as it is."""

    ended = False

    def feed(self, part: str) -> list[str]:
        """Return `part`."""
        return [part]

    def close(self) -> list[str]:
        """Nothing was held back."""
        return []
