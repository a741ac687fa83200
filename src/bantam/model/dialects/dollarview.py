r"""Answers in the dollar dialect, read as they come: prose for the screen, and one command.

Prose goes out at once, but for the first characters of a line, which may become a command. What
stands behind the command is neither shown nor kept nor run: models invent results. In doubt nothing
runs: a command in a fence is an example. So fences are read looser than CommonMark reads them: one
may be indented at will, and stand behind the sign of a list item. Inline code ends with its line: a
stray backtick hides one line at most. Linear, however the answer is cut.
"""

import re
from typing import Final

from bantam.model.dialects.heredocs import ShellCommand, State

_OPEN: Final = "<think>"
_CLOSE: Final = "</think>"
_TOKEN: Final = re.compile(r"\n|`+|<|[^\n`<]+")
_LINE: Final = re.compile(r"\n|[^\n]+")
# What a line needs to be more than text, outside and inside of a fence.
_SIGN: Final = re.compile(r"[`~$<]")
_FENCE_SIGN: Final = re.compile(r"[`~]")
_COMMAND: Final = re.compile(r" {0,3}\$ (?=\S)")
_MAY_BE_COMMAND: Final = re.compile(r" {0,3}(?:\$ ?)?")
_FENCE: Final = re.compile(
    r"((?:[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]){0,9}[ \t]*)(`{3,}(?=[^`]*\Z)|~{3,})"
)
_CLOSING: Final = re.compile(r"([ \t]*)(`{3,}|~{3,})[ \t\r]*")


class DollarView:
    r"""An answer in pieces -> its prose in pieces, and its command.

    `ended`: the rest would be ignored. `command`: the one that has begun. `prose` and `thoughts`
    (of `<think>` blocks in the text, to their end or its own) count once the view is closed.

    >>> view = DollarView()
    >>> view.feed("Look:\n $"), view.feed(" l"), view.feed("s\nx"), view.ended, view.command.text
    (['Look:\n'], [], [], True, 'ls')
    """

    def __init__(self) -> None:
        self.ended = False
        self.command: ShellCommand | None = None
        self._prose: list[str] = []
        self._shown = 0  # pieces of it that were returned
        self._thoughts: list[str] = []
        self._is_thinking = False
        self._tag = ""  # what may be the beginning of a tag
        self._fence: re.Match[str] | None = None  # the line that opened it
        self._begin_line()

    @property
    def prose(self) -> str:
        """What was said, up to the command."""
        return "".join(self._prose)

    @property
    def thoughts(self) -> str:
        """What stood between tags, a blank line between two blocks."""
        return "".join(self._thoughts)

    def feed(self, part: str) -> list[str]:
        """Return the prose that is certain now."""
        text, self._tag = self._tag + part, ""
        at = 0
        while at < len(text) and not self.ended:
            if self._is_thinking:
                at = self._think(text, at)
            elif self.command:
                at = self._take_command(self.command, text, at)
            else:
                at = self._read(text, at)
        return self._taken()

    def close(self) -> list[str]:
        """Return the last of the prose: the answer has ended, and with it its last line."""
        tag, self._tag = self._tag, ""
        if self._is_thinking:
            self._thoughts.append(tag)
        elif tag:
            self._say(tag)
        if self.command is None:
            self._end_line()
        elif self._line and not self.ended:
            self.command.add("".join(self._line))
        return self._taken()

    def _taken(self) -> list[str]:
        taken = self._prose[self._shown :]
        self._shown = len(self._prose)
        return taken

    # -- prose --------------------------------------------------------------------------------

    def _begin_line(self) -> None:
        self._line: list[str] = []
        self._head: str | None = ""  # of the line, while it may become a command
        self._run = 0  # backticks just read
        self._ticks = 0  # those that opened inline code

    def _read(self, text: str, at: int) -> int:
        """Take the next piece of prose; return where the text behind it begins."""
        if not self._line:
            sign = (_FENCE_SIGN if self._fence else _SIGN).search(text, at)
            behind = text.rfind("\n", at, sign.start() if sign else len(text)) + 1
            if behind > at:  # whole lines that can be nothing but text: most are
                self._prose.append(text[at:behind])
                return behind
        token = (_LINE if self._fence else _TOKEN).match(text, at)
        assert token
        if token[0] == "\n":
            self._end_line()
            self._prose.append("\n")
        elif self._fence:
            self._line.append(token[0])
            self._prose.append(token[0])
        elif token[0] == "<":
            return self._take_sign(text, at)
        else:
            self._say(token[0])
        return token.end()

    def _say(self, text: str) -> None:
        if text[0] == "`":
            self._run += len(text)
        else:
            self._end_run()
        self._line.append(text)
        if self._head is None:
            self._prose.append(text)
            return
        self._head += text
        if _MAY_BE_COMMAND.fullmatch(self._head):
            return
        if found := _COMMAND.match(self._head):
            self.command = ShellCommand()
            self._line = [self._head[found.end() :]]
            return
        self._prose.append(self._head)
        self._head = None

    def _end_run(self) -> None:
        """Note what the backticks just read come to: inline code begins, or ends."""
        if self._run and self._ticks in (0, self._run):
            self._ticks = 0 if self._ticks else self._run
        self._run = 0

    def _end_line(self) -> None:
        if self._head:
            self._prose.append(self._head)
        line = "".join(self._line)
        if self._fence is None:
            self._fence = _FENCE.match(line)
        elif _closes(line, self._fence):
            self._fence = None
        self._begin_line()

    # -- tags and commands --------------------------------------------------------------------

    def _take_sign(self, text: str, at: int) -> int:
        self._end_run()
        ahead = "" if self._ticks else text[at : at + len(_OPEN)]
        if ahead == _OPEN:
            self._is_thinking = True
            self._thoughts += ["\n\n"] if self._thoughts else []
        elif ahead and _OPEN.startswith(ahead):
            self._tag = ahead  # the text ends here
        else:
            ahead = "<"
            self._say(ahead)
        return at + len(ahead)

    def _think(self, text: str, at: int) -> int:
        end = text.find(_CLOSE, at)
        if end >= 0:
            self._thoughts.append(text[at:end])
            self._is_thinking = False
            return end + len(_CLOSE)
        begun = (_CLOSE[:length] for length in range(len(_CLOSE) - 1, 0, -1))
        self._tag = next((tag for tag in begun if text.endswith(tag, at)), "")
        self._thoughts.append(text[at : len(text) - len(self._tag)])
        return len(text)

    def _take_command(self, command: ShellCommand, text: str, at: int) -> int:
        end = text.find("\n", at)
        self._line.append(text[at:] if end < 0 else text[at:end])
        if end < 0:
            return len(text)
        state = command.add("".join(self._line))
        self._line = []
        self.ended = state in (State.WHOLE, State.BROKEN)
        return end + 1


def _closes(line: str, opening: re.Match[str]) -> bool:
    found = _CLOSING.fullmatch(line)
    if found is None or found[2][0] != opening[2][0] or len(found[2]) < len(opening[2]):
        return False
    # One that is further in is what the fence shows.
    return len(found[1].expandtabs(4)) <= len(opening[1].expandtabs(4)) + 3
