"""The question whether a call may run: what it would do, and one line to answer in.

The call itself was traced above it. What is shown is a stranger's: each line is filtered, and none
can forge another.
"""

from collections.abc import Callable
from typing import Final

from bantam.agent.approval import Answer, Kind, Question
from bantam.core.errors import Interrupted
from bantam.core.text import shortened
from bantam.terminal.screen import one_line
from bantam.terminal.spans import Span, drawn
from bantam.terminal.traces import DIM, RED, diff_style

_QUESTION: Final = "Run? [y]es, [n]o (why), [s]ession: {}, [a]ll in it, [d]etails: "
_CHARACTERS: Final = 400  # of a line, until details are asked for: five rows of a terminal
_LINES: Final = 20  # that `Approval` gives of a longer text
_MARGIN: Final = "  "  # no line of Bantam's own begins so
_WORDS: Final = {"y": "yes", "n": "no", "s": "session", "a": "all", "d": "details"}
# Shows text; puts a question and returns what is typed, None where that is broken off.
Write = Callable[[str], object]
AskLine = Callable[[str], str | None]


class Asking:
    """Asks about calls on a terminal; an `agent.approval.Ask`."""

    def __init__(self, write: Write, ask_line: AskLine, *, color: bool) -> None:
        self._write = write
        self._ask_line = ask_line
        self._color = color

    def __call__(self, question: Question) -> Answer:
        """Return the answer, asked for again until it is one. Raises Interrupted."""
        if question.reason:
            self._line(f"[{one_line(question.reason)}]", RED)
        # A command stands in its trace already.
        if question.call.name != "shell_exec" or question.has_details:
            self._show(question)
        answer = None
        while answer is None:
            typed = self._ask_line(_QUESTION.format(one_line(question.remembers)))
            if typed is None:
                raise Interrupted
            answer = answered(typed)
        return answer

    def _show(self, question: Question) -> None:
        for line in question.lines:
            shown = line if question.has_details else shortened(line, _CHARACTERS)
            self._line(f"{_MARGIN}{one_line(shown)}", diff_style(line))
        if not question.has_details and len(question.lines) >= _LINES:
            self._line("[there may be more: d shows all]", DIM)

    def _line(self, text: str, style: str) -> None:
        self._write(drawn([Span(text, style)], color=self._color) + "\n")


def answered(typed: str) -> Answer | None:
    """Return what `typed` says, None if it is no answer; nothing at all is a no.

    >>> answered("n use git rm"), answered("maybe")
    (Answer(kind=<Kind.NO: 'n'>, reason='use git rm'), None)
    """
    word, _, reason = typed.strip().partition(" ")
    word = word.strip(",:.").lower()
    kind = next((Kind(k) for k, whole in _WORDS.items() if word in (k, whole)), None)
    if not typed.strip():
        return Answer(Kind.NO)
    if kind is Kind.NO:
        return Answer(kind, reason.strip())
    return Answer(kind) if kind is not None and not reason.strip() else None
