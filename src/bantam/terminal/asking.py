"""The question whether a call may run: what it would do, and one line to answer in.

The call itself was traced above it. What is shown is a stranger's: each line is filtered, and none
can forge another line. It can forge a row, since a long line wraps. So either all of it is on the
screen from its beginning on, or Bantam says directly above the question, where no other text can
stand, that there is more, how much, and how it begins. Of a screen that does not know its size the
usual one is assumed.
"""

import sys
from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import Any, Final

from bantam.agent.approval import Answer, Kind, Question
from bantam.core.errors import Interrupted
from bantam.core.messages import parsed_arguments
from bantam.terminal.screen import one_line
from bantam.terminal.spans import Span, cut, drawn
from bantam.terminal.streams import size_of
from bantam.terminal.traces import (
    DIM,
    RED,
    blanks_told,
    diff_style,
    height,
    shown_arguments,
    shown_line,
)

_QUESTION: Final = "Run? [y]es, [n]o (why), [s]ession: {}, [a]ll in it, [d]etails: "
_MORE: Final = "[more than is seen here: lines: {}, characters: {}; d shows all; it begins:]"
_MORE_ROWS: Final = 3  # of that and the beginning, on 40 columns
_LINES: Final = 20  # that `Approval` gives of a longer text
_MARGIN: Final = "  "  # no line of Bantam's own begins so
_WORDS: Final = {"y": "yes", "n": "no", "s": "session", "a": "all", "d": "details"}
# Shows text; puts a question and returns what is typed, None where that is broken off.
Write = Callable[[str], object]
AskLine = Callable[[str], str | None]
Line = tuple[str, str]  # with its style


class Asking:
    """Asks about calls on a terminal; an `agent.approval.Ask`."""

    def __init__(
        self, write: Write, ask_line: AskLine, *, color: bool, is_traced: bool = True
    ) -> None:
        """`is_traced`: each call has been shown on the same terminal."""
        self._is_traced = is_traced
        self._write = write
        self._ask_line = ask_line
        self._color = color

    def __call__(self, question: Question) -> Answer:
        """Return the answer, asked for again until it is one. Raises Interrupted."""
        columns, rows = _size()
        asked = _QUESTION.format(shown_line(_plain(question.remembers), 2 * columns))
        reason = [(f"[{_plain(question.reason)}]", RED)] if question.reason else []
        # A row is left for what is typed.
        room = rows - 1 - height(asked, columns) - _height(reason, columns)
        if question.has_details:
            shown, has_all = _details(question, asked), True
        else:
            room -= height(_trace(question), columns) if self._is_traced else 0
            shown, has_all = self._beginning(question, columns, room, rows)
        for line in (*reason, *shown):
            self._line(*line)
        room -= _height(shown, columns)
        answer = None
        while answer is None:
            if room < 0 or not has_all:
                for line in _more(question, columns):
                    self._line(*line)
            typed = self._ask_line(asked)
            if typed is None:
                raise Interrupted
            room -= height(asked + typed, columns)
            answer = answered(typed)
        return answer

    def _beginning(
        self, question: Question, columns: int, room: int, rows: int
    ) -> tuple[list[Line], bool]:
        """Return what stands between call and question at first, and whether that hides nothing."""
        if self._is_traced and question.call.name == "shell_exec":  # its trace has the command
            return [], True
        lines = _lines(question, shown_line)
        is_cut = len(lines) >= _LINES or lines != _lines(question, blanks_told)
        if is_cut or _height(lines, columns) > room:
            room = max(room - _MORE_ROWS, rows // 3)  # a long call leaves some to what it does
        ends = accumulate(height(line, columns) for line, _ in lines)
        shown = [line for line, end in zip(lines, ends, strict=True) if end <= room]
        return shown, not is_cut and shown == lines

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


def _size() -> tuple[int, int]:
    """Return the columns and rows of the terminal, which one of the two streams is."""
    return size_of(sys.stdout if sys.stdout.isatty() else sys.stderr)


def _details(question: Question, asked: str) -> list[Line]:
    """Return all of it, with what an answer would allow where that did not fit into `asked`."""
    allows = _plain(question.remembers)
    lines = _lines(question, blanks_told)
    return lines if allows in asked else [(f"{_MARGIN}[s]ession: {allows}", DIM), *lines]


def _more(question: Question, columns: int) -> list[Line]:
    """Return what says that more is there than is seen, how much, and how it begins: one row."""
    is_command = question.call.name == "shell_exec"
    shown = "\n".join(question.lines)
    text = _arguments(question)["command"] if is_command else shown
    is_all = is_command or question.has_details or len(question.lines) < _LINES
    over = "" if is_all else "+"
    counted = _MORE.format(f"{text.count(chr(10)) + 1}{over}", f"{len(text)}{over}")
    # Not from the arguments, which may hold a key.
    begins = blanks_told(shown) if is_command else question.remembers
    row = f"{_MARGIN}{_plain(begins)}"[:columns]
    _, end = cut(row, max(2, columns - 1))[0]
    return [(counted, RED), (row[:end], DIM)]


def _lines(question: Question, form: Callable[[str], str]) -> list[Line]:
    """Return the lines of the question in the form `form`, each with its style."""
    return [
        (f"{_MARGIN}{form(one_line(line))}".expandtabs(), diff_style(line))
        for line in question.lines
    ]


def _height(lines: Iterable[Line], columns: int) -> int:
    return sum(height(line, columns) for line, _ in lines)


def _trace(question: Question) -> str:
    """Return the call as it stands above the question, but for the user's keys."""
    return (
        f"[tool call: {_plain(f'{question.call.name}({shown_arguments(_arguments(question))})')}]"
    )


def _arguments(question: Question) -> dict[str, Any]:
    return parsed_arguments(question.call.arguments) or {}


def _plain(text: str) -> str:
    """Return a stranger's text as part of one line without TABs, its long blanks told."""
    return blanks_told(one_line(text).replace("\t", " "))
