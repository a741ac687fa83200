"""What requests send of a conversation, each of its messages encoded once.

A conversation grows at its end, and neither `repaired` nor a dialect alters what stands before its
last answer. So that is kept as bytes, and a request costs the time of what is new and of a copy,
however long the conversation is.
"""

from collections.abc import Mapping, Sequence
from operator import is_
from typing import Any, NamedTuple

from bantam.core.messages import Message, Role
from bantam.core.repair import repaired
from bantam.model.dialects.dialect import Dialect, Tools
from bantam.model.quirks import Quirks
from bantam.model.requests import serialised


class Encoded(NamedTuple):
    """The `messages` of a body as JSON without its brackets, how many, and its other members."""

    messages: bytes
    number: int
    others: Mapping[str, Any]


class Wire:
    """Encodes what goes to one endpoint in `dialect`, as `quirks` says that the endpoint takes it.

    Both may change; then all is encoded anew.
    """

    def __init__(self, dialect: Dialect, quirks: Quirks) -> None:
        self._dialect = dialect
        self._quirks = quirks
        self._forms: object = None  # what the bytes depend on besides the messages
        self._given: list[Message] = []  # those that are kept: all before the last answer
        self._repaired: list[Message] = []
        self._kept: list[bytes] = []

    def encoded(self, messages: Sequence[Message], tools: Tools) -> Encoded:
        """Return what a request with `messages`, repaired, and `tools` has."""
        history = self._quirks.history(messages)
        forms = (self._dialect.name, frozenset(self._quirks.withheld), list(tools))
        if forms != self._forms or not self._goes_on(history):
            self._forms, self._given, self._repaired, self._kept = forms, [], [], []
        settled = _last_answer(history)
        if settled > len(self._given):
            self._keep(history[len(self._given) : settled], tools)
        _, new, others = self._encode(history[len(self._given) :], tools)
        items = self._kept + new
        return Encoded(b",".join(items), len(items), others)

    def _goes_on(self, history: Sequence[Message]) -> bool:
        return len(self._given) <= len(history) and all(map(is_, self._given, history))

    def _keep(self, messages: Sequence[Message], tools: Tools) -> None:
        mended, items, _ = self._encode(messages, tools)
        if mended:  # else what comes next is the beginning still
            self._given += messages
            self._repaired += mended
            self._kept += items

    def _encode(
        self, messages: Sequence[Message], tools: Tools
    ) -> tuple[list[Message], list[bytes], dict[str, Any]]:
        """Return `messages`, which come behind those kept: repaired, and as JSON; other members."""
        mended = repaired(messages)
        all_of_them = self._repaired + mended
        others = self._dialect.encode(all_of_them, tools, start=len(self._repaired))
        items = self._quirks.messages(others.pop("messages"))
        return mended, [serialised(item) for item in items], others


def _last_answer(messages: Sequence[Message]) -> int:
    """Return where the last answer stands; 0 if there is none."""
    for at in range(len(messages) - 1, 0, -1):
        message = messages[at]
        # One without text and calls is not sent, and lets what is on its two sides be joined.
        if message.role is Role.ASSISTANT and (message.tool_calls or message.content.strip()):
            return at
    return 0
