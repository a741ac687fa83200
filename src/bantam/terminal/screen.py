"""Events drawn on a terminal, or written as plain lines where there is none.

Every text that comes from a model, a tool, a file or a server goes through the filter at the last
step before it is written, so that none of its bytes is a control or an escape sequence.

A wait before a retry, and a tool that takes long, are told in lines that stand still: nothing wakes
the turn while it waits, and a thread that draws beside it would not be worth its races.
"""

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Final, TextIO

from bantam.core.events import (
    Compacted,
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
)
from bantam.core.text import screen_text
from bantam.terminal.streams import abandon, size_of
from bantam.terminal.traces import (
    BOLD_DIM,
    CYAN,
    DIM,
    GREEN,
    LONG_RUN_S,
    PLAIN,
    RED,
    YELLOW,
    body_lines,
    diff_lines,
    retry_line,
    shown_arguments,
    shown_result,
    usage_line,
)
from bantam.terminal.verbatim import Verbatim

if TYPE_CHECKING:
    from bantam.terminal.live import Live

_REQUESTING: Final = "...requesting..."
_ERASE_LINE: Final = "\r\x1b[K"


class Screen:
    """Draws the events of turns on `out`; `answers`: the model's final text is shown here too.

    `in_place`: `out` is a terminal whose cursor moves, so a line can be erased and an answer is
    drawn as Markdown. `size`: its columns and rows now, by default what `out` says. `clock`:
    seconds, never going back. `environ`: tells which terminal it is.
    """

    def __init__(
        self,
        out: TextIO,
        *,
        in_place: bool,
        color: bool,
        answers: bool,
        size: Callable[[], tuple[int, int]] | None = None,
        clock: Callable[[], float] = monotonic,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._out = out
        self._in_place = in_place
        self._color = color
        self._answers = answers
        self._size = size or partial(size_of, out)
        self._clock = clock
        self._environ = environ
        self._status = ""  # what stands in the line that the next event erases
        self._retrying: tuple[Retry, float] | None = None  # with the end of its wait
        self._running: tuple[str, float] | None = None  # a tool, and when it began
        self._streaming: type[TextDelta | ReasoningDelta] | None = None
        self._is_behind_result = False  # what comes next is not part of it
        self._text: Live | Verbatim = Verbatim(out)
        self._partial = False  # something was shown of an answer that is not whole yet
        self._unshown = ""  # the text of the last answer, where it goes elsewhere

    def show(self, event: Event) -> None:
        """Draw one event."""
        self._end_status()
        match event:
            case TextDelta(text) if self._answers:
                self._stream(TextDelta, text)
            case ReasoningDelta(text):
                self._stream(ReasoningDelta, text)
            case _:
                self._end_stream()
                self._draw(event)
        self._out.flush()

    def tick(self) -> None:
        """Show that time goes by: a wait counts down, a long run is told, the last words come."""
        if not self._in_place:
            return
        now = self._clock()
        if self._retrying is not None:
            event, end = self._retrying
            self._set_status(one_line(retry_line(event, max(0.0, end - now))), RED)
        elif self._running is not None and now - self._running[1] >= LONG_RUN_S:
            name, began = self._running
            self._set_status(f"[{one_line(name)} has run for {now - began:.0f} s]", DIM)
        elif self._streaming is not None:
            self._text.feed("")
        with suppress(OSError):  # the next event meets it, where it can be told
            self._out.flush()

    def begin_anew(self) -> None:
        """Go on in a new line: a shell had the terminal and has written below what stands here."""
        self._status = ""
        self._text.begin_anew()

    # -- the pieces ---------------------------------------------------------------------------

    def _draw(self, event: Event) -> None:
        match event:
            case Request():
                self._wait()
            case Replied(message):
                self._unshown = "" if self._answers else message.content
                if message.tool_calls:
                    self._show_unshown()
                self._partial = False
            case Retry():
                self._retry(event)
            case Notice(text):
                self._line(f"[{one_line(text)}]", DIM)
            case ToolStarted(_, name, arguments):
                self._line(
                    f"[tool call: {one_line(f'{name}({shown_arguments(arguments)})')}]", YELLOW
                )
                self._running = name, self._clock()
            case ToolFinished():
                self._result(event)
            case Compacted(before, after, summary):
                self._line(f"[compacted: {before} -> {after} tokens]", DIM)
                self._body(summary, DIM)
            case Done():
                self._done(event)

    def _wait(self) -> None:
        self._partial = False
        if self._in_place:
            self._set_status(_REQUESTING, BOLD_DIM)
        else:
            self._line(_REQUESTING)

    def _set_status(self, text: str, style: str) -> None:
        columns, _ = self._size()
        # A line that wraps cannot be erased; a character may take two columns.
        text = text[: columns - 1 if text.isascii() else columns // 2]
        if text != self._status:
            erase = _ERASE_LINE if self._status else ""
            self._out.write(erase + self._styled(text, style))
            self._status = text

    def _end_status(self) -> None:
        if self._status:
            self._out.write(_ERASE_LINE)
        self._status = ""
        if self._retrying is not None:
            (event, _), self._retrying = self._retrying, None
            self._retried(event)

    def _retry(self, event: Retry) -> None:
        if self._in_place:
            self._retrying = event, self._clock() + event.wait_s
            self._set_status(one_line(retry_line(event, event.wait_s)), RED)
        else:
            self._retried(event)

    def _retried(self, event: Retry) -> None:
        self._line(one_line(retry_line(event, event.wait_s)), RED)
        if self._partial:
            self._line("[the answer broke off and starts again]", DIM)

    def _result(self, event: ToolFinished) -> None:
        self._running = None
        self._is_behind_result = self._in_place
        self._line(f"[tool result: {one_line(shown_result(event))}]", GREEN)
        self._body(event.text, DIM if event.status is Status.OK else RED)
        for file in event.files:
            for line, style in diff_lines(file.diff):
                self._line(one_line(line), style)

    def _body(self, text: str, style: str) -> None:
        self._line("\n".join(body_lines(screen_text(text), tight=self._in_place)), style)

    def _done(self, event: Done) -> None:
        if event.stop is not Stop.FINAL:
            self._show_unshown()
        self._unshown, self._is_behind_result = "", False
        if event.usage.window:
            self._line(usage_line(event.usage), DIM)
        if event.stop is Stop.INTERRUPTED:
            self._line("[interrupted]", RED)
        if event.error is not None:
            self._line(f"error: {one_line(event.error.message)}", RED)

    def _show_unshown(self) -> None:
        if self._unshown:
            self._stream(TextDelta, self._unshown)
            self._end_stream()
            self._unshown = ""

    # -- writing ------------------------------------------------------------------------------

    def _stream(self, kind: type[TextDelta] | type[ReasoningDelta], text: str) -> None:
        if self._streaming is not kind:
            self._end_stream()
            self._streaming = kind
            self._text = self._begun(kind)
        self._partial = True
        self._text.feed(text)

    def _begun(self, kind: type[TextDelta] | type[ReasoningDelta]) -> "Live | Verbatim":
        """Return what draws a text of this kind from here on."""
        self._out.write("\n" * self._is_behind_result)
        self._is_behind_result = False
        if kind is ReasoningDelta:
            self._line("--- reasoning start ---", CYAN)
            # The style once, not for every delta.
            return Verbatim(self._out, self._code(DIM), self._code(PLAIN))
        if not self._in_place:
            return Verbatim(self._out)
        # Here, since it loads rich and Markdown's grammar, which a run to a pipe does without.
        from bantam.terminal.live import Live, takes_links

        how = {"color": self._color, "links": takes_links(self._environ)}
        return Live(self._out, self._size, self._clock, in_place=True, **how)

    def _end_stream(self) -> None:
        """Close streamed text: all of it is drawn, and the line is ended."""
        if self._streaming is None:
            return
        self._text.close()
        if self._streaming is ReasoningDelta:
            self._line("--- reasoning end ---", CYAN)
        self._streaming = None

    def _line(self, text: str, style: str = "") -> None:
        self._out.write(self._styled(text, style) + "\n")

    def _styled(self, text: str, style: str) -> str:
        return f"{self._code(style)}{text}{self._code(PLAIN)}" if style else text

    def _code(self, style: str) -> str:
        return f"\x1b[{style}m" if self._color else ""


def one_line(text: str) -> str:
    r"""Return a stranger's text as part of one line: it cannot forge the next one.

    >>> one_line("fly()]\n[tool result: all is well")
    'fly()] [tool result: all is well'
    """
    return " ".join(screen_text(text).split("\n"))


def complain(text: str) -> None:
    """Say on standard error, in one line and without any key, what no event says."""
    from bantam.terminal.keys import without_keys  # here: most runs have nothing to say

    try:
        print(f"bantam: {one_line(without_keys(text))}", file=sys.stderr, flush=True)
    except OSError:
        abandon(sys.stderr)
