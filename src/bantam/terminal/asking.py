"""The question whether a call may run: what it would do, and one line to answer in.

The call itself was traced above it. What is shown is a stranger's: each line is filtered, and none
can forge another.
"""

from collections.abc import Callable
from typing import Final

from bantam.agent.approval import Answer, Kind, Question
from bantam.core.errors import Interrupted
from bantam.terminal.screen import one_line
from bantam.terminal.spans import Span, drawn
from bantam.terminal.traces import RED, diff_style

_QUESTION: Final = "Run it? [y]es, [n]o (and why), [s]ession: {}, [a]ll in it, [d]etails: "
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
            self._line(f"[{question.reason}]", RED)
        # A command stands in its trace already.
        if question.call.name != "shell_exec" or question.has_details:
            for line in question.lines:
                self._line(line, diff_style(line))
        answer = None
        while answer is None:
            typed = self._ask_line(_QUESTION.format(one_line(question.remembers)))
            if typed is None:
                raise Interrupted
            answer = answered(typed)
        return answer

    def _line(self, text: str, style: str) -> None:
        self._write(drawn([Span(one_line(text), style)], color=self._color) + "\n")


def answered(typed: str) -> Answer | None:
    """Return what `typed` says, None if it is no answer; nothing at all is a no.

    >>> answered("n use git rm"), answered("maybe")
    (Answer(kind=<Kind.NO: 'n'>, reason='use git rm'), None)
    """
    word, _, reason = typed.strip().partition(" ")
    word = word.strip(",:.").lower()
    kind = next((Kind(k) for k, whole in _WORDS.items() if word in (k, whole)), None)
    if not word:
        return Answer(Kind.NO)
    if kind is Kind.NO:
        return Answer(kind, reason.strip())
    return Answer(kind) if kind is not None and not reason.strip() else None
