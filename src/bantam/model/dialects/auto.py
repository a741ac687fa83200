"""`auto`: native, until the endpoint or the model shows that it has to be another dialect.

A model that was told of tools, and writes blocks or a command line all the same, has its own habit:
it is followed, for the rest of the session. But either can be advice to the user. It is taken as a
call where the answer ends with it and the model has made no call in this conversation, or insists;
else the model is asked what it meant, and one that can call is believed where more text follows.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from bantam.core.messages import Answer, Message, has_calls
from bantam.model.dialects.dialect import Dialect, Tools, View
from bantam.model.dialects.native import Native

_CORRECTION: Final = (
    "(Nothing was run: your answer holds a `$ ` line or a marked block. To act, call a tool. If it "
    "was meant for the user, send your answer again with that part in a code fence.)"
)


def dialect_named(name: str, last: str = "") -> Dialect:
    """Return the dialect that the configuration names; `auto` goes on with the `last` one."""
    if name == "auto":
        return Auto(last)
    # Here, as below: most runs speak one dialect, and start sooner without the others.
    if name == "dollar":
        from bantam.model.dialects.dollar import Dollar

        return Dollar()
    if name == "blocks":
        from bantam.model.dialects.blocks import Blocks

        return Blocks()
    return Native()


class Auto:
    """A dialect that changes by itself; `current` is the one that is spoken now."""

    def __init__(self, last: str = "") -> None:
        """Begin with the dialect of that name, native if it is none."""
        self.current = dialect_named("native" if last == "auto" else last)
        self._has_asked = False

    @property
    def name(self) -> str:
        """The name of the dialect that is spoken now."""
        return self.current.name

    def encode(self, messages: Sequence[Message], tools: Tools, start: int = 0) -> dict[str, Any]:
        """Encode as the current dialect does."""
        return self.current.encode(messages, tools, start)

    def decode(self, answer: Answer, history: Sequence[Message], tools: Tools) -> Answer:
        """Return `answer` as the current dialect reads it, or as the one that it is in."""
        read = self.current.decode(answer, history, tools)
        if isinstance(self.current, Native) and not (read.message.tool_calls or not tools):
            read = self._in_text(read, answer, history, tools)
        self._has_asked = read.correction is not None
        return read

    def view(self) -> View:
        """Show an answer as the current dialect does."""
        return self.current.view()

    def without_tools(self) -> str | None:
        """Speak dollar from now on, which every model can."""
        return self._change(dialect_named("dollar"), "the endpoint takes no tools")

    def _in_text(
        self, read: Answer, answer: Answer, history: Sequence[Message], tools: Tools
    ) -> Answer:
        """Return an answer without native calls as another dialect reads it, or as it is."""
        offered = {tool["function"]["name"] for tool in tools}
        for name, sign, ends in (
            ("blocks", "**", _ends_with_block),
            ("dollar", "$ ", _ends_with_command),
        ):
            if sign not in answer.message.content:
                continue
            dialect = dialect_named(name)
            other = dialect.decode(answer, history, tools)
            calls = [call for call in other.message.tool_calls if call.id not in other.refusals]
            if other.correction is not None or not any(call.name in offered for call in calls):
                continue
            is_able, is_last = has_calls(history), ends(answer, other)
            if is_last and (self._has_asked or not is_able):
                return self._changed(dialect, other)
            return replace(read, correction=_CORRECTION) if is_last or not is_able else read
        return read

    def _changed(self, dialect: Dialect, read: Answer) -> Answer:
        notice = self._change(dialect, "the model writes its calls as text")
        return replace(read, notices=(*read.notices, notice))

    def _change(self, dialect: Dialect, why: str) -> str:
        self.current = dialect
        return f"{why}: the session goes on in the dialect {dialect.name}"


def _ends_with_block(answer: Answer, _: Answer) -> bool:
    from bantam.model.dialects.blockreader import read

    return read(answer.message.content).ends


def _ends_with_command(answer: Answer, read: Answer) -> bool:
    """Whether nothing stands behind the command that was read."""
    command = json.loads(read.message.tool_calls[0].arguments)["command"]
    behind_prose = answer.message.content.removeprefix(read.message.content).strip()
    return behind_prose.replace("\r\n", "\n") == f"$ {command}"
