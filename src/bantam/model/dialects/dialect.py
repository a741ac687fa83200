"""What every dialect is: a codec between the stored history and what is sent and said."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from bantam.core.messages import Answer, Message

Tools = Sequence[Mapping[str, Any]]  # in the API's form


class View(Protocol):
    """What a person sees of an answer's text while it comes."""

    ended: bool  # whatever comes now would be ignored

    def feed(self, part: str) -> list[str]:
        """Return the prose that is certain now."""

    def close(self) -> list[str]:
        """Return what was held back; the text has ended."""


class Dialect(Protocol):
    """How calls are written: see `model.dialects`."""

    @property
    def name(self) -> str:
        """Its name, as the configuration and the session have it."""

    def encode(self, messages: Sequence[Message], tools: Tools, start: int = 0) -> dict[str, Any]:
        """Return the members of the body that hold the repaired conversation.

        `start`: the messages before it are left out, as they were encoded for another request; an
        answer stands there. What stands before an answer is encoded as it is without it.
        """

    def decode(self, answer: Answer, history: Sequence[Message], tools: Tools) -> Answer:
        """Return `answer`, which came to `history`, with what it wants run in `tool_calls`."""

    def view(self) -> View:
        """Return what shows one answer."""

    def without_tools(self) -> str | None:
        """Do without the API's tools from now on; return the line to tell, None if it cannot."""
