"""What happens in a turn, as values: the terminal, `--json` and the library see the same events.

Each holds facts, no ready-made text and no colour. `as_json` gives the public form (SPEC section
10): `type` first, then the fields as they stand here. New fields may come, none goes.
"""

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, ClassVar

from bantam.core.messages import Message, to_api


class Stop(StrEnum):
    """Why a turn ended."""

    FINAL = "final"
    STEP_LIMIT = "step_limit"
    BUDGET = "budget"
    INTERRUPTED = "interrupted"
    ERROR = "error"


class Status(StrEnum):
    """How a tool call ended."""

    OK = "ok"
    ERROR = "error"
    DENIED = "denied"
    INTERRUPTED = "interrupted"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class TurnStart:
    """A prompt was stored and the turn begins."""

    type: ClassVar[str] = "turn_start"
    session: str | None
    model: str
    endpoint: str
    dialect: str


@dataclass(frozen=True, slots=True)
class Request:
    """A request is about to be sent: `step` counts from 1, `bytes` is the body's size."""

    type: ClassVar[str] = "request"
    step: int
    messages: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Retry:
    """The request failed and is repeated after `wait_s` seconds. A partial answer is void."""

    type: ClassVar[str] = "retry"
    attempt: int
    of: int
    wait_s: float
    reason: str


@dataclass(frozen=True, slots=True)
class Notice:
    """One line that the user should see."""

    type: ClassVar[str] = "notice"
    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """A piece of the model's reasoning."""

    type: ClassVar[str] = "reasoning_delta"
    text: str


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the model's answer."""

    type: ClassVar[str] = "text_delta"
    text: str


@dataclass(frozen=True, slots=True)
class Replied:
    """A complete assistant message, already stored."""

    type: ClassVar[str] = "message"
    message: Message
    finish_reason: str | None


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A tool call runs now. `arguments`: the object that runs, or the raw text if it is none."""

    type: ClassVar[str] = "tool_call"
    id: str
    name: str
    arguments: Mapping[str, Any] | str


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """A piece of a running tool's output."""

    type: ClassVar[str] = "tool_output"
    id: str
    text: str


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file that a tool wrote, with the lines added and removed.

    `diff`: the hunks of a unified diff, "" where it would be too long, or the file is no text.
    """

    path: str
    added: int
    removed: int
    diff: str = ""


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """A tool call ended and its result is stored. `text` is what the model gets."""

    type: ClassVar[str] = "tool_result"
    id: str
    name: str
    status: Status
    text: str
    exit_code: int | None = None
    duration_s: float = 0.0
    files: tuple[FileChange, ...] = ()


@dataclass(frozen=True, slots=True)
class UsageReport:
    """Tokens of one request. `cached` None: not reported. `context` of `window` is in use."""

    type: ClassVar[str] = "usage"
    prompt: int
    completion: int
    cached: int | None
    estimated: bool
    context: int
    window: int


@dataclass(frozen=True, slots=True)
class Compacted:
    """The conversation was replaced by its summary."""

    type: ClassVar[str] = "compaction"
    tokens_before: int
    tokens_after: int
    summary: str


@dataclass(frozen=True, slots=True)
class UsageSum:
    """Tokens of a whole turn. `cached` None: no request reported caching."""

    prompt: int = 0
    completion: int = 0
    cached: int | None = None
    estimated: bool = False
    context: int = 0
    window: int = 0

    @classmethod
    def of(cls, reports: Iterable[UsageReport]) -> "UsageSum":
        """Return the sums over `reports`, in their order."""
        total = cls()
        for report in reports:
            total = total.plus(report)
        return total

    def plus(self, report: UsageReport) -> "UsageSum":
        """Return the sums with one more request's; context and window are the last one's."""
        cached = self.cached if report.cached is None else (self.cached or 0) + report.cached
        return UsageSum(
            prompt=self.prompt + report.prompt,
            completion=self.completion + report.completion,
            cached=cached,
            estimated=self.estimated or report.estimated,
            context=report.context,
            window=report.window,
        )


@dataclass(frozen=True, slots=True)
class Failure:
    """What ended a turn: the error's class, the HTTP status if there was one, the message."""

    kind: str
    status: int | None
    message: str


@dataclass(frozen=True, slots=True)
class Done:
    """The turn is over: always the last event."""

    type: ClassVar[str] = "done"
    stop: Stop
    exit_code: int
    session: str | None
    text: str
    usage: UsageSum = field(default_factory=UsageSum)
    error: Failure | None = None


Event = (
    TurnStart
    | Request
    | Retry
    | Notice
    | ReasoningDelta
    | TextDelta
    | Replied
    | ToolStarted
    | ToolOutput
    | ToolFinished
    | UsageReport
    | Compacted
    | Done
)
Turn = Generator[Event, None, Stop]


def as_json(event: Event) -> dict[str, Any]:
    """Return the public form of `event`: a dict fit for `json.dumps`, `type` first."""
    return {"type": event.type} | {f.name: _plain(getattr(event, f.name)) for f in fields(event)}


def _plain(value: Any) -> Any:
    match value:
        case Message():
            return to_api(value)
        case Failure(kind, status, message):
            return {"class": kind, "status": status, "message": message}
        case UsageSum() | FileChange():
            return {f.name: getattr(value, f.name) for f in fields(value)}
        case tuple():
            return [_plain(item) for item in value]
        case _:
            return value
