"""What an agent remembers with: a list, or a stored session."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from bantam.core.changes import Change
from bantam.core.discretion import hidden_in
from bantam.core.events import UsageReport
from bantam.core.messages import Message, Role, ToolCall, last_prompt
from bantam.core.redaction import Redaction


class Log(Protocol):
    """What is remembered of a conversation."""

    @property
    def messages(self) -> Sequence[Message]:
        """All messages so far."""

    def append(self, message: Message) -> None:
        """Add a message; durable when this returns."""

    def started(self, call: ToolCall) -> None:
        """Note that `call` is about to run; durable when this returns."""


class Memory(Log, Protocol):
    """The log of a conversation over many turns; `sessions.session.Session` is one.

    What is sent is what it holds: nothing else keeps the user's keys out of requests.

    `notices`: what the user should hear of it, taken out by the agent.
    """

    notices: list[str]

    @property
    def id(self) -> str | None:
        """The session's name; None where nothing is stored."""

    @property
    def keep(self) -> Callable[[Change], None] | None:
        """What keeps a file's change before it happens, so that it can be put back; None: none."""

    def hide(self, secrets: Iterable[str | None]) -> None:
        """Let none of `secrets` stand in it from now on: what it holds by now included."""

    def dialect_of(self, model: str) -> str:
        """Return the dialect that `model` was last spoken to in, "" if it was not."""

    def speaks(self, model: str, dialect: str) -> None:
        """Remember that."""

    def begin(self, system: Message) -> None:
        """Put a system message before all others."""

    def compact_to(self, messages: Sequence[Message]) -> None:
        """Let `messages` take the place of all."""

    @property
    def calls(self) -> Sequence[UsageReport]:
        """What each request cost."""

    def count(self, report: UsageReport) -> None:
        """Add what a request cost."""

    def rewind(self) -> str | None:
        """Take the last prompt and what came of it out; return its text, None if there is none."""

    def finish(self) -> None:
        """The turn is over."""

    def close(self) -> None:
        """Nothing more will happen."""


class ListLog:
    """A conversation in memory."""

    id: str | None = None
    keep: Callable[[Change], None] | None = None

    def __init__(self, messages: Sequence[Message] = ()) -> None:
        self.messages: list[Message] = list(messages)
        self.notices: list[str] = []
        self.calls: list[UsageReport] = []
        self._rewound: list[Message] | None = None  # what `rewind` took out, and all before it
        self._dialects: dict[str, str] = {}
        self._redaction = Redaction(())

    def hide(self, secrets: Iterable[str | None]) -> None:
        """Let none of `secrets` stand in it from now on: what it holds by now included."""
        self._redaction.learn(secrets)
        self.messages = hidden_in(self.messages, self._redaction)

    def dialect_of(self, model: str) -> str:
        """Return the dialect that `model` was last spoken to in, "" if it was not."""
        return self._dialects.get(model, "")

    def speaks(self, model: str, dialect: str) -> None:
        """Remember that."""
        self._dialects[model] = dialect

    def begin(self, system: Message) -> None:
        """Put a system message before all others."""
        self.messages[:0] = hidden_in([system], self._redaction)

    def append(self, message: Message) -> None:
        """Add a message."""
        if message.role is Role.ASSISTANT:
            self._rewound = None
        self.messages += hidden_in([message], self._redaction)

    def started(self, call: ToolCall) -> None:
        """Nothing outlives the process, so there is nothing to note."""

    def count(self, report: UsageReport) -> None:
        """Add what a request cost."""
        self.calls.append(report)

    def compact_to(self, messages: Sequence[Message]) -> None:
        """Let `messages` take the place of all; whoever holds the old ones keeps them."""
        self.messages, self._rewound = hidden_in(messages, self._redaction), None

    def rewind(self) -> str | None:
        """Take the last prompt and what came of it out; return its text, None if there is none.

        It is lost once the model has answered anew; else `finish` restores it.
        """
        at = last_prompt(self.messages)
        if at is None:
            return None
        self._rewound, self.messages = self.messages, self.messages[:at]
        return self._rewound[at].content

    def finish(self) -> None:
        """Let the turn be over: one that was sent again in vain has changed nothing."""
        if self._rewound is not None:
            self.messages, self._rewound = self._rewound, None

    def close(self) -> None:
        """Nothing is held."""
