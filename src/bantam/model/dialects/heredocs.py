r"""Where a command ends: its lines, read as the shell reads here-documents.

A command is one line. A backslash at its end joins the next line, and here-documents bring their
bodies; what such a line has left open (`"$(cat <<EOF`) takes the lines behind the body that close
it. A line that leaves a quote or bracket open and has no here-document is no command: joined until
the quote ends, an apostrophe would swallow the rest of an answer, and cut it is not what was meant.

Bash is the measure (its manual, "Here Documents" and "Quoting"). Refused, as they are rare and the
reading errs to "not closed", which runs nothing: patterns of `case` in a substitution, shifts in
`$[ ]` and in subscripts, substitutions in the word of a here-document. Linear: each line is read
once, whatever is open.
"""

import re
from collections import deque
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NamedTuple

_BLANKS: Final = " \t\r"
_BEFORE_WORDS: Final = " \t;&|()<>`"  # behind these `#` begins a comment
_LONGEST_WORD: Final = 1000  # of a here-document, across continued lines

# What opens -> the next sign in it that matters. "((" is arithmetic for as long as it can be.
_IN_COMMAND: Final = re.compile(r"\\.?#*|'|\$'|\"|`|\$\(\(?|\$\{|<\(|>\(|\(\(?|\)|<<<|<<|#")
_IN_ANSI_QUOTES: Final = re.compile(r"\\.?|'")
_SIGNS: Final = {
    **dict.fromkeys(("", "(", "((", "$(", "$((", "<(", ">(", "`"), _IN_COMMAND),
    "'": re.compile("'"),
    "$'": _IN_ANSI_QUOTES,
    '"': re.compile(r"\\.?|\"|`|\$\(\(?|\$\{"),
    "${": re.compile(r"\\.?|'|\$'|\"|`|\$\(\(?|\$\{|\}"),
}
_SUBSTITUTIONS: Final = ("$(", "<(", ">(", "`")  # each has its own here-documents
_COMMANDS: Final = ("", "(", *_SUBSTITUTIONS)  # in which the end of a line is one
_CLOSERS: Final = {"'": "'", "$'": "'", '"': '"', "`": "`", "${": "}"}

_DOCUMENT: Final = re.compile(
    r"""<<(-?)[ \t]*((?:[^ \t|&;()<>`'"\\]|'[^']*'|"(?:[^"\\]|\\.)*"|\\.)*)"""
)
_QUOTED: Final = re.compile(r"""\$?'([^']*)'|\$?"((?:[^"\\]|\\.)*)"|\\(.)""")
_ESCAPED: Final = re.compile(r'\\([$`"\\])')
_HASHES: Final = re.compile("#*")


class State(Enum):
    """How a command stands after a line."""

    WHOLE = auto()
    CONTINUED = auto()  # the line ends with a backslash
    IN_BODY = auto()  # a here-document has not seen its closing line
    OPEN = auto()  # a quote or bracket is open behind a here-document
    BROKEN = auto()  # ... and without one: no line can mend it


@dataclass(frozen=True, slots=True)
class _Document:
    word: str  # its closing line
    strips_tabs: bool  # <<-
    is_quoted: bool  # else a backslash joins lines of the body too


class ShellCommand:
    """A command that comes line by line, none behind its end.

    >>> command = ShellCommand()
    >>> [command.add(line).name for line in ("cat <<EOF", "text", "EOF")], command.closing_line
    (['IN_BODY', 'IN_BODY', 'WHOLE'], '')
    """

    def __init__(self) -> None:
        self.state = State.CONTINUED
        self._lines: list[str] = []
        self._line = _Line()
        self._documents: deque[_Document] = deque()
        self._joined: list[str] = []  # lines of a body, joined by backslashes
        self._had_documents = False

    @property
    def text(self) -> str:
        """What runs: the lines without a CR at their end, and those of commands without blanks."""
        return "\n".join(self._lines)

    @property
    def closing_line(self) -> str:
        """The line that the here-document in hand waits for, "" if there is none."""
        return self._documents[0].word if self._documents else ""

    def add(self, line: str) -> State:
        """Take the next line, without its LF."""
        if self._documents:
            line = line.rstrip("\r")
            self._lines.append(line)
            self._take_body(line, self._documents[0])
        else:
            line = line.rstrip(_BLANKS)
            self._lines.append(line)
            goes_on = _is_continued(line)
            if self._line.read(line[:-1] if goes_on else line, is_continued=goes_on) and goes_on:
                self.state = State.CONTINUED
                return self.state
            self._documents.extend(self._line.due())
            self._had_documents = self._had_documents or bool(self._documents)
        self.state = self._state()
        return self.state

    def _state(self) -> State:
        if self._documents:
            return State.IN_BODY
        if not self._line.is_open:
            return State.WHOLE
        return State.OPEN if self._had_documents else State.BROKEN

    def _take_body(self, line: str, document: _Document) -> None:
        if not document.is_quoted and _is_continued(line):
            self._joined.append(line[:-1])
            return
        whole = "".join([*self._joined, line])
        self._joined.clear()
        if (whole.lstrip("\t") if document.strips_tabs else whole) == document.word:
            self._documents.popleft()


def _is_continued(line: str) -> bool:
    """Whether an odd number of backslashes ends `line`: the last one is not itself escaped."""
    return line.endswith("\\") and (len(line) - len(line.rstrip("\\"))) % 2 == 1


class _Opened(NamedTuple):
    sign: str
    mark: int  # documents announced before it
    scope: int  # the same of the substitution that it is in, or is


class _Line:
    """What is open in a line of a command, and the here-documents that it announces."""

    def __init__(self) -> None:
        self.documents: list[_Document] = []
        self._open = [_Opened("", 0, 0)]  # outermost first
        self._before = " "  # what a continued line goes on from: a cut operator, or one character

    @property
    def is_open(self) -> bool:
        return len(self._open) > 1

    def due(self) -> list[_Document]:
        """Return the here-documents whose bodies follow the line; they are no longer announced.

        A line that ends in a quote has not ended for the shell, nor has, at the end of a line in a
        substitution, the line around that.
        """
        inner = self._open[-1]
        if inner.sign not in _COMMANDS:
            return []
        due = self.documents[inner.scope :]
        del self.documents[inner.scope :]
        return due

    def read(self, line: str, *, is_continued: bool) -> bool:
        """Read on; `line` comes without the backslash that continues it. False if none could.

        That is in a comment: the shell ends it, and the command, with the line.
        """
        text = self._before + line
        self._before = " "
        at = 0
        while sign := _SIGNS[self._open[-1].sign].search(text, at):
            if sign[0] == "#" and text[sign.start() - 1] in _BEFORE_WORDS:
                at = text.find("`", sign.start()) if self._open[-1].sign == "`" else -1
                if at < 0:
                    return False
            elif sign[0] == "<<":
                at = self._document(text, sign.start(), is_continued=is_continued)
            else:
                at = self._take(sign[0], text, sign.end())
        if is_continued and self._before == " " and text[-1] not in _BEFORE_WORDS:
            self._before = "x"  # any character of a word: its `#` begins no comment
        return True

    def _document(self, text: str, at: int, *, is_continued: bool) -> int:
        found = _DOCUMENT.match(text, at)
        assert found
        dash, word = found.groups()
        if is_continued and found.end() == len(text) and len(found[0]) < _LONGEST_WORD:
            self._before = found[0]  # the word is not yet whole
        elif word:
            bare = _QUOTED.sub(_unquoted, word)
            self.documents.append(_Document(bare, bool(dash), bool(_QUOTED.search(word))))
        return found.end()

    def _take(self, sign: str, text: str, end: int) -> int:
        """Open or close something at `sign`; return where to read on."""
        inner = self._open[-1]
        if sign == ")":
            return self._close_bracket(text, end)
        if sign == _CLOSERS.get(inner.sign):
            self._open.pop()
            if sign == "`":  # it was read on its own: a body would have stood inside
                del self.documents[inner.mark :]
                return _behind_hashes(text, end)
        elif sign in _SIGNS:
            mark = len(self.documents)
            scope = mark if sign in _SUBSTITUTIONS else inner.scope
            self._open.append(_Opened(sign, mark, scope))
        return end

    def _close_bracket(self, text: str, end: int) -> int:
        sign, mark, scope = self._open[-1]
        is_double = sign in ("((", "$((")
        is_arithmetic = is_double and text[end : end + 1] == ")"
        if is_arithmetic or sign == "$((":  # its "<<" are shifts; or it is read on its own
            del self.documents[mark:]
        if is_double and not is_arithmetic:
            self._open[-1] = _Opened(sign[:-1], mark, mark if sign == "$((" else scope)
            return end
        if sign not in ("", "`"):
            self._open.pop()
        end += is_arithmetic
        return _behind_hashes(text, end) if sign.startswith("$") else end


def _behind_hashes(text: str, at: int) -> int:
    """Return where to read on behind a substitution: its word goes on, `#` is no comment."""
    found = _HASHES.match(text, at)
    return found.end() if found else at


def _unquoted(found: re.Match[str]) -> str:
    single, double, escaped = found.groups()
    return escaped or single or _ESCAPED.sub(r"\1", double or "")
