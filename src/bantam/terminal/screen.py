"""Events drawn on a terminal, or written as plain lines where there is none.

Every text that comes from a model, a tool, a file or a server goes through the filter at the last
step before it is written, so that none of its bytes is a control or an escape sequence.
"""

import json
import sys
from collections.abc import Callable
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
from bantam.terminal.streams import abandon

# Of a result, 200 lines in all (SPEC section 6): the end tells how a build failed, or timed out.
_HEAD_LINES, _TAIL_LINES = 120, 79
# Of the content of a file: enough to see what it is.
_HEAD_CHARACTERS, _TAIL_CHARACTERS = 1200, 800
_REQUESTING: Final = "...requesting..."
_ERASE_LINE: Final = "\r\x1b[K"
# SGR codes of SPEC section 9's looks.
_PLAIN, _BOLD_DIM, _DIM, _RED, _GREEN, _YELLOW, _CYAN = "0", "1;2", "2", "31", "32", "33", "36"


class Screen:
    """Draws the events of turns on `out`; `answers`: the model's final text is shown here too.

    `in_place`: a line can be erased, as on any terminal that is not a dumb one.
    """

    def __init__(self, out: TextIO, *, in_place: bool, color: bool, answers: bool) -> None:
        self._out = out
        self._in_place = in_place
        self._color = color
        self._answers = answers
        self._filter = ScreenFilter()
        self._at_line_start = True
        self._waiting = False
        self._streaming: type[TextDelta | ReasoningDelta] | None = None
        self._partial = False  # something was shown of an answer that is not whole yet
        self._unshown = ""  # the text of the last answer, where it goes elsewhere

    def show(self, event: Event) -> None:
        """Draw one event."""
        self._end_waiting()
        match event:
            case TextDelta(text) if self._answers:
                self._stream(TextDelta, text)
            case ReasoningDelta(text):
                self._stream(ReasoningDelta, text)
            case _:
                self._end_stream()
                self._draw(event)
        self._out.flush()

    # -- the pieces ---------------------------------------------------------------------------

    def _draw(self, event: Event) -> None:
        match event:
            case Request():
                self._wait()
            case Replied(message):
                self._partial = False
                self._unshown = "" if self._answers else message.content
                if message.tool_calls:
                    self._show_unshown()
            case Retry():
                self._retry(event)
            case Notice(text):
                self._line(f"[{one_line(text)}]", _DIM)
            case ToolStarted(_, name, arguments):
                self._line(f"[tool call: {one_line(f'{name}({_shown(arguments)})')}]", _YELLOW)
            case ToolFinished():
                self._result(event)
            case Done():
                self._done(event)

    def _wait(self) -> None:
        self._partial = False
        self._waiting = self._in_place
        if self._in_place:
            self._out.write(self._styled(_REQUESTING, _BOLD_DIM))
        else:
            self._line(_REQUESTING)

    def _end_waiting(self) -> None:
        if self._waiting:
            self._out.write(_ERASE_LINE)
            self._waiting = False

    def _retry(self, event: Retry) -> None:
        wait, reason = f"{event.wait_s:.0f}", one_line(event.reason)
        self._line(f"[retry {event.attempt}/{event.of} in {wait} s: {reason}]", _RED)
        if self._partial:
            self._line("[the answer broke off and starts again]", _DIM)

    def _result(self, event: ToolFinished) -> None:
        self._line(f"[tool result: {one_line(event.name)}]", _GREEN)
        lines = screen_text(event.text).removesuffix("\n").split("\n")
        more = len(lines) - _HEAD_LINES - _TAIL_LINES
        if more > 1:
            lines[_HEAD_LINES:-_TAIL_LINES] = [f"[{more} more lines]"]
        self._line("\n".join(lines), _DIM if event.status is Status.OK else _RED)

    def _done(self, event: Done) -> None:
        if event.stop is not Stop.FINAL:
            self._show_unshown()
        if event.usage.window:
            self._line(usage_line(event.usage), _DIM)
        if event.stop is Stop.INTERRUPTED:
            self._line("[interrupted]", _RED)
        if event.error is not None:
            self._line(f"error: {one_line(event.error.message)}", _RED)

    def _show_unshown(self) -> None:
        if self._unshown:
            self._line(screen_text(self._unshown).removesuffix("\n"))
            self._unshown = ""

    # -- writing ------------------------------------------------------------------------------

    def _stream(self, kind: type[TextDelta] | type[ReasoningDelta], text: str) -> None:
        if self._streaming is not kind:
            self._end_stream()
            self._streaming = kind
            if kind is ReasoningDelta:
                self._line("--- reasoning start ---", _CYAN)
                self._out.write(self._code(_DIM))  # once, not for every delta
        self._partial = True
        self._write(self._filter.feed(text))

    def _end_stream(self) -> None:
        """Close streamed text: what the filter holds is written, and the line is ended."""
        if self._streaming is None:
            return
        self._write(self._filter.close())
        if self._streaming is ReasoningDelta:
            self._out.write(self._code(_PLAIN))
        if not self._at_line_start:
            self._write("\n")
        if self._streaming is ReasoningDelta:
            self._line("--- reasoning end ---", _CYAN)
        self._streaming = None

    def _line(self, text: str, style: str = "") -> None:
        self._write(self._styled(text, style) + "\n")

    def _write(self, text: str) -> None:
        if text:
            self._out.write(text)
            self._at_line_start = text.endswith("\n")

    def _styled(self, text: str, style: str) -> str:
        return f"{self._code(style)}{text}{self._code(_PLAIN)}" if style else text

    def _code(self, style: str) -> str:
        return f"\x1b[{style}m" if self._color else ""


def one_line(text: str) -> str:
    r"""Return a stranger's text as part of one line: it cannot forge the next one.

    >>> one_line("fly()]\n[tool result: all is well")
    'fly()] [tool result: all is well'
    """
    return " ".join(screen_text(text).split("\n"))


def complain(text: str) -> None:
    """Say on standard error, in one line, what no event says."""
    try:
        print(f"bantam: {one_line(text)}", file=sys.stderr, flush=True)
    except OSError:
        abandon(sys.stderr)


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
    """Return a call's arguments as `name="value", ...`, or the raw text of what will not run.

    Only these and the content of a file are cut: what runs, and where, is always seen whole.
    """
    if isinstance(arguments, str):
        return _cut(arguments, str)
    return ", ".join(
        f"{k}={_cut(v, _json) if k == 'content' else _json(v)}" for k, v in arguments.items()
    )


def _cut(value: Any, form: Callable[[Any], str]) -> str:
    """Return `value` in the form `form`, the middle of a long text left out."""
    more = len(value) - _HEAD_CHARACTERS - _TAIL_CHARACTERS if isinstance(value, str) else 0
    if more <= 0:
        return form(value)
    head, tail = form(value[:_HEAD_CHARACTERS]), form(value[-_TAIL_CHARACTERS:])
    return f"{head} … {more} more characters … {tail}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
