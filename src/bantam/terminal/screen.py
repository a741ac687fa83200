"""Events drawn on a terminal, or written as plain lines where there is none.

Every text that comes from a model, a tool, a file or a server goes through the filter at the last
step before it is written, so that none of its bytes is a control or an escape sequence.
"""

import json
from typing import Any, Final, TextIO

from bantam.core.events import (
    Done,
    Event,
    Notice,
    ReasoningDelta,
    Replied,
    Request,
    Retry,
    Status,
    Stop,
    TextDelta,
    ToolFinished,
    ToolStarted,
    UsageSum,
)
from bantam.core.text import ScreenFilter, screen_text

BODY_LINES: Final = 200
_ARGUMENT_CHARACTERS: Final = 2000
_ERASE_LINE: Final = "\r\x1b[K"
# SGR codes of SPEC section 9's looks.
_BOLD_DIM, _DIM, _RED, _GREEN, _YELLOW, _CYAN = "1;2", "2", "31", "32", "33", "36"


class Screen:
    """Draws the events of turns on `out`; `answers`: the model's final text is shown here too."""

    def __init__(self, out: TextIO, *, is_tty: bool, color: bool, answers: bool) -> None:
        self._out = out
        self._is_tty = is_tty
        self._color = color
        self._answers = answers
        self._filter = ScreenFilter()
        self._at_line_start = True
        self._waiting = False
        self._in_reasoning = False
        self._partial = False

    def show(self, event: Event) -> None:
        """Draw one event."""
        self._end_waiting()
        if not isinstance(event, ReasoningDelta):
            self._end_reasoning()
        match event:
            case Request():
                self._wait()
            case ReasoningDelta(text):
                self._reason(text)
            case TextDelta(text) if self._answers:
                self._partial = True
                self._write(self._filter.feed(text))
            case Replied(message):
                self._end_text()
                if message.content and message.tool_calls and not self._answers:
                    self._line(screen_text(message.content))
            case Retry():
                self._retry(event)
            case Notice(text):
                self._line(f"[{screen_text(text)}]", _DIM)
            case ToolStarted(_, name, arguments):
                self._line(f"[tool call: {screen_text(f'{name}({_shown(arguments)})')}]", _YELLOW)
            case ToolFinished():
                self._result(event)
            case Done():
                self._done(event)
        self._out.flush()

    # -- the pieces ---------------------------------------------------------------------------

    def _wait(self) -> None:
        self._end_text()
        if not self._is_tty:
            self._line("...requesting...")
            return
        self._write(self._styled("...requesting...", _BOLD_DIM))
        self._waiting = True

    def _end_waiting(self) -> None:
        if self._waiting:
            self._write(_ERASE_LINE)
            self._at_line_start = True
            self._waiting = False

    def _reason(self, text: str) -> None:
        if not self._in_reasoning:
            self._line("--- reasoning start ---", _CYAN)
            self._in_reasoning = True
        if shown := self._filter.feed(text):
            self._write(shown, _DIM)

    def _end_reasoning(self) -> None:
        if self._in_reasoning:
            self._end_text()
            self._line("--- reasoning end ---", _CYAN)
            self._in_reasoning = False

    def _retry(self, event: Retry) -> None:
        partial, self._partial = self._partial, False
        self._end_text()
        wait = f"{event.wait_s:.0f}"
        reason = screen_text(event.reason)
        self._line(f"[retry {event.attempt}/{event.of} in {wait} s: {reason}]", _RED)
        if partial:
            self._line("[the answer broke off and starts again]", _DIM)

    def _result(self, event: ToolFinished) -> None:
        good = event.status is Status.OK
        self._line(f"[tool result: {screen_text(event.name)}]", _GREEN)
        lines = screen_text(event.text).split("\n")
        if len(lines) > BODY_LINES:
            # The last line is `exit: N`, which is what one looks for.
            more = len(lines) - BODY_LINES
            lines = [*lines[: BODY_LINES - 1], f"[{more} more lines]", lines[-1]]
        self._line("\n".join(lines), _DIM if good else _RED)

    def _done(self, event: Done) -> None:
        self._end_text()
        if event.usage.window:
            self._line(usage_line(event.usage), _DIM)
        if event.stop is Stop.INTERRUPTED:
            self._line("[interrupted]", _RED)
        if event.error is not None:
            self._line(f"error: {screen_text(event.error.message)}", _RED)

    # -- writing ------------------------------------------------------------------------------

    def _end_text(self) -> None:
        """Close streamed text: what the filter holds is written, and the line is ended."""
        self._write(self._filter.close())
        self._filter = ScreenFilter()
        self._partial = False
        if not self._at_line_start:
            self._write("\n")

    def _line(self, text: str, style: str = "") -> None:
        if not self._at_line_start:
            self._write("\n")
        self._write(text, style)
        self._write("\n")

    def _write(self, text: str, style: str = "") -> None:
        if text:
            self._out.write(self._styled(text, style) if style else text)
            self._at_line_start = text.endswith("\n")

    def _styled(self, text: str, style: str) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if self._color else text


def usage_line(usage: UsageSum) -> str:
    """Return the line behind a turn; `~` marks what was estimated.

    >>> usage_line(UsageSum(1420, 85, estimated=True, context=1420, window=200000))
    '[tokens: ~1420 prompt + ~85 completion | context: ~1420/200000 (0.7%)]'
    """
    about = "~" if usage.estimated else ""
    cache = ""
    if usage.cached is not None:
        cache = f" ({usage.cached} cached, {max(0, usage.prompt - usage.cached)} uncached)"
    share = 100 * usage.context / usage.window
    tokens = f"{about}{usage.prompt} prompt{cache} + {about}{usage.completion} completion"
    return f"[tokens: {tokens} | context: {about}{usage.context}/{usage.window} ({share:.1f}%)]"


def _shown(arguments: Any) -> str:
    """Return a call's arguments as `name="value", ...`, or the raw text; long ones are cut."""
    if isinstance(arguments, str):
        text = arguments
    else:
        pairs = (f"{k}={json.dumps(v, ensure_ascii=False)}" for k, v in arguments.items())
        text = ", ".join(pairs)
    more = len(text) - _ARGUMENT_CHARACTERS
    return text if more <= 0 else f"{text[:_ARGUMENT_CHARACTERS]}… {more} more characters"
