"""Stand-ins that meet the protocols of the product, for tests of what stands above them."""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

from bantam.agent.memory import ListLog
from bantam.core.cancel import Cancel, Inbox
from bantam.core.events import Event, ReasoningDelta, TextDelta
from bantam.core.messages import Answer, Message, Role, ToolCall
from bantam.model.transports import Item


class ScriptedModel:
    """An `agent.loop.Model` that gives its answers in order; an exception among them is raised.

    `asked` keeps the conversation of each request; a function is called when its turn comes.
    """

    def __init__(self, *answers: Answer | Message | Exception | Callable[[Cancel], None]) -> None:
        self._answers = list(answers)
        self.asked: list[list[Message]] = []

    def reply(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], cancel: Cancel
    ) -> Generator[Event, None, Answer]:
        """Yield the answer's deltas and return it."""
        self.asked.append(list(messages))
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if callable(answer):
            answer(cancel)
            return (yield from self.reply(messages, tools, cancel))
        whole = Answer(answer, "stop") if isinstance(answer, Message) else answer
        if whole.message.reasoning:
            yield ReasoningDelta(whole.message.reasoning)
        if whole.message.content:
            yield TextDelta(whole.message.content)
        return whole


class RecordingLog(ListLog):
    """An `agent.memory.Memory`; `entries` tells in which order things were logged.

    Others may add to `entries`: what they did stands between what was logged before and after.
    """

    def __init__(self, *messages: Message) -> None:
        super().__init__(messages)
        self.entries: list[str] = []

    def begin(self, system: Message) -> None:
        """Let the conversation begin with a system message."""
        super().begin(system)
        self.entries.append("system")

    def append(self, message: Message) -> None:
        """Add a message."""
        super().append(message)
        is_result = message.role is Role.TOOL
        self.entries.append(f"result {message.tool_call_id}" if is_result else message.role.value)

    def started(self, call: ToolCall) -> None:
        """Note that `call` is about to run."""
        self.entries.append(f"started {call.id}")

    def finish(self) -> None:
        """Note that the turn is over."""
        self.entries.append("finished")


class Clock:
    """A clock that goes when it is told to; `now` in seconds."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class NoWaiting(Cancel):
    """A `Cancel` that lets no time pass between attempts; `waits` holds what would have passed."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []

    def sleep(self, seconds: float) -> None:
        """Note `seconds` and return. Raises Interrupted when cancelled."""
        self.check()
        self.waits.append(seconds)


class ScriptedExchange:
    """A `model.transports.Exchange` whose items are there already."""

    def __init__(self, items: Sequence[Item]) -> None:
        self.inbox: Inbox[Item] = Inbox(len(items) + 1)
        for item in items:
            self.inbox.put(item)

    def close(self) -> None:
        """Nothing is held."""


class ScriptedTransport:
    """A `model.transports.Transport` that gives `answers`, the last one for ever.

    `sent` keeps the bodies.
    """

    def __init__(self, *answers: Sequence[Item]) -> None:
        self.url = "http://scripted/v1/chat/completions"
        self.answers = answers
        self.sent: list[bytes] = []

    def send(self, body: bytes) -> ScriptedExchange:
        """Give the next answer."""
        self.sent.append(body)
        return ScriptedExchange(self.answers[min(len(self.sent), len(self.answers)) - 1])

    def close(self) -> None:
        """Nothing is held."""
