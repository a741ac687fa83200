"""An answer that cannot be read is asked for again, with what was wrong, twice in a row at most.

Answer and correction are stored, as all that is said: the next request begins with the bytes of
this one. A correction is no step of the turn: nothing was run for it. What still cannot be read is
the answer then, if it may be one: in dollar, where nothing else says what to do, it is an error.
"""

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Final

from bantam.agent.loop import Model
from bantam.agent.memory import Log
from bantam.core.cancel import Cancel
from bantam.core.errors import ModelError
from bantam.core.events import Event, Notice, Replied
from bantam.core.messages import Answer, Message, Role
from bantam.model.dialects.dialect import Dialect, Tools

_MOST: Final = 2


class CorrectingModel:
    """A `loop.Model` over `model`, whose answers are ones that could be read."""

    def __init__(self, log: Log, model: Model, dialect: Dialect) -> None:
        self._log = log
        self._model = model
        self._dialect = dialect

    def reply(
        self, messages: Sequence[Message], tools: Tools, cancel: Cancel
    ) -> Generator[Event, None, Answer]:
        """As `model.reply`; the log has grown by what was corrected."""
        for number in range(_MOST + 1):
            answer = yield from self._model.reply(messages, tools, cancel)
            if answer.correction is None or answer.fault:
                return answer
            if number == _MOST and self._dialect.name != "dollar":
                yield Notice("the answer is taken as it is: nothing in it was run")
                return replace(answer, correction=None)
            self._log.append(answer.message)
            yield Replied(answer.message, answer.finish_reason)
            if number < _MOST:
                self._log.append(Message(Role.USER, answer.correction))
                yield Notice("the answer could not be read; the model is told and asked again")
            messages = self._log.messages
        raise ModelError(
            f"{_MOST + 1} answers in a row could not be read: something in them looks like a call "
            "and is none; nothing was run. Another model or dialect may do better"
        )
