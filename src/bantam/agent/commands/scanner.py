"""A place in a shell text, and how quotes and expansions are stepped over from there.

The words come out marked (`words.quoted`). What stands in a substitution is a list of commands,
which is not read here: whoever made the scanner is called at its begin, and steps over it.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from bantam.agent.commands.words import HERE, HOME, UNKNOWN, Document, Unreadable, quoted, unescaped

END: Final = r"(?=[ \t\n;&|()<>]|$)"  # of a word, as a pattern
DEEPEST: Final = 20  # levels of nesting; each takes some ten frames of Python's stack

_BLANKS: Final = re.compile(r"(?:[ \t]|\\\n)*+")
_VARIABLE: Final = re.compile(r"[A-Za-z_]\w*|[0-9@*#?$!-]", re.ASCII)
_ARRAY: Final = re.compile(r"[A-Za-z_]\w*\+?=", re.ASCII)
_PLAIN: Final = re.compile(r"[\w/=:@%+^.-]++")
_SINGLE: Final = re.compile(r"'([^']*+)'")
_ANSI: Final = re.compile(r"'((?:[^'\\]|\\.)*+)'", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_BACKQUOTED: Final = re.compile(r"`((?:[^`\\]|\\.)*+)`", re.DOTALL)
_IN_QUOTES: Final = re.compile(r'[^"\\$`]++')
_IN_BRACES: Final = re.compile(r"[^'\"\\$`}<>]++")
_ARITHMETIC: Final = re.compile(r"[\w \t+*/%<>=!&|^~?:,$#@{}\[\].;-]++")
# Commands in braces, an assigned default, a prompt's expansion: more is done than a value read.
_STRANGE_BRACES: Final = re.compile(
    r"[\s|]|\w+(?:\[[^]}]*\])?:?=|[^}]*@P|!(?!\w+(?:\[[@*]\]|[@*])\})"
)
# What is calculated in braces: the index, or where a part begins and how long it is.
_SUM_IN_BRACES: Final = re.compile(
    r"[#!]?(?:\w+|[@*])(?:\[(.*?)\])?(?::(?![-+=?])(.*))?", re.DOTALL
)
_ENVIRONMENT: Final = {"HOME": HOME, "PWD": HERE}


class Scanner:
    """`at` is the place in `text` that is read next.

    `substitution` is called at the bracket of `$(`, and steps over it and its end. `backquoted`
    gets the text between backquotes. `is_bash`: what only bash knows may stand in the text.
    """

    def __init__(
        self,
        text: str,
        depth: int,
        substitution: Callable[[], None],
        backquoted: Callable[[str], None],
        *,
        is_bash: bool,
    ) -> None:
        self.text = text
        self.at = 0
        self.depth = depth
        self.is_bash = is_bash
        self.sums: list[str] = []  # what is calculated, so far
        self.due: list[Document] = []  # whose bodies follow the line
        self._is_due_outside = False  # around the brackets in hand
        self._substitution = substitution
        self._backquoted = backquoted

    @contextmanager
    def brackets(self) -> Iterator[None]:
        """Be one level further in, where here-documents end too. Raises Unreadable otherwise."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise Unreadable("too many levels")
        outer = self.due, self._is_due_outside
        self._is_due_outside = bool(self.due) or self._is_due_outside
        self.due = []
        yield
        if self.due:
            raise Unreadable("a here-document without an end")
        self.due, self._is_due_outside = outer
        self.depth -= 1

    # -- steps --------------------------------------------------------------------------------

    def next(self) -> str:
        """Return the next character, "" at the end."""
        return self.text[self.at : self.at + 1]

    def sees(self, *signs: str) -> bool:
        """Whether one of `signs` comes next."""
        return self.text.startswith(signs, self.at)

    def match(self, pattern: re.Pattern[str]) -> str | None:
        """Step over `pattern` if it comes next; return what was there."""
        found = pattern.match(self.text, self.at)
        if not found:
            return None
        self.at = found.end()
        return found[0]

    def take(self, *signs: str) -> bool:
        """Step over the first of `signs` that comes next; False if none does."""
        for sign in signs:
            if self.sees(sign):
                self.at += len(sign)
                return True
        return False

    def needs_bash(self, sign: str) -> None:
        """Raise Unreadable where a shell that does not know `sign` may run something else."""
        if not self.is_bash:
            raise Unreadable(f"{sign}: each sh reads it in another way")

    def blanks(self) -> None:
        """Step over blanks and continued line ends."""
        self.match(_BLANKS)

    def line_in_brackets(self) -> None:
        """Step over the end of a line that ends no command. Raises Unreadable for anything else."""
        if self.due or self._is_due_outside or not self.take("\n"):
            raise Unreadable("a bracket without an end")

    def bodies(self) -> Iterator[str]:
        """Step over the end of a line and the here-documents behind it; yield those that expand."""
        if self._is_due_outside:  # which of the two is first depends on the shell's version
            raise Unreadable("a here-document around a line")
        self.at += 1
        while self.due:
            document = self.due.pop(0)
            begin = self.at
            end, self.at = document.end(self.text, begin)
            if not document.is_quoted:
                yield self.text[begin:end]

    # -- words --------------------------------------------------------------------------------

    def word(self) -> tuple[str, str]:
        """Read a word; return it marked, and its source, which is empty if none begins here."""
        if self.sees("#"):
            raise Unreadable("a comment in a strange place")
        begin, marked = self.at, ""
        while (sign := self.next()) and sign not in " \t\n;&|)":
            if self.sees("<(", ">("):
                self.at += 1
                self._substitution()
                # The name of a pipe that the shell makes: known, and in no folder of the project.
                marked += quoted("/dev/fd/63")
            elif sign == "(" and _ARRAY.fullmatch(self.text, begin, self.at):
                self._elements()
                marked += quoted(UNKNOWN)
            elif sign in "<>(":
                break
            else:
                marked += self._piece(sign)
        return marked, self.text[begin : self.at]

    def _piece(self, sign: str) -> str:
        """Read on in a word, outside of quotes."""
        match sign:
            case "'":
                return quoted(self._inside(_SINGLE))
            case '"':
                self.at += 1
                return quoted("") + self._until_quote()
            case "$":
                return self._dollar(is_quoted=False)
            case "`":
                return self._backquotes(is_quoted=False)
            case "\\":
                escaped = self.text[self.at + 1 : self.at + 2]
                if not escaped:
                    raise Unreadable("a backslash at the end")
                self.at += 2
                return "" if escaped == "\n" else quoted(escaped)
            case _:
                if not (plain := self.match(_PLAIN)):
                    plain = sign
                    self.at += 1
                return plain

    def _inside(self, pattern: re.Pattern[str]) -> str:
        """Step over quotes; return what is between them."""
        found = pattern.match(self.text, self.at)
        if not found:
            raise Unreadable(f"a {self.next()} without an end")
        self.at = found.end()
        return found[1]

    def _elements(self) -> None:
        """Step over the elements of an array."""
        self.at += 1
        with self.brackets():
            while not self.take(")"):
                self.blanks()
                if not self.word()[1] and not self.sees(")"):
                    self.line_in_brackets()

    def _until_quote(self) -> str:
        marked = ""
        while not self.take('"'):
            if not self.next():
                raise Unreadable('a " without an end')
            marked += self._in_quotes('$`"\\')
        return marked

    def body(self) -> None:
        """Step over the rest, the body of a here-document: quotes mean nothing in it."""
        while self.next():
            if not self.take('"'):
                self._in_quotes("$`\\")

    def _in_quotes(self, escapable: str) -> str:
        """Read on where blanks and single quotes are text."""
        if text := self.match(_IN_QUOTES):
            return quoted(text)
        if self.sees("$"):
            return self._dollar(is_quoted=True)
        if self.sees("`"):
            return self._backquotes(is_quoted=True)
        escaped = self.text[self.at + 1 : self.at + 2]
        self.at += 2
        if escaped == "\n":
            return ""
        return quoted(escaped if escaped in escapable else f"\\{escaped}")

    # -- expansions ---------------------------------------------------------------------------

    def _dollar(self, *, is_quoted: bool) -> str:
        self.at += 1
        if self.sees("\\\n", "["):  # the shell may join what we would see apart; old arithmetic
            raise Unreadable("a strange expansion")
        name = ""
        if self.sees("(("):
            self.arithmetic()
        elif self.sees("("):
            self._substitution()
        elif self.take("{"):
            name = self._braces(is_quoted=is_quoted)
        elif found := self.match(_VARIABLE):
            name = found
        elif self.sees("'", '"') and not is_quoted:
            self.needs_bash(f"${self.next()}")
            if self.sees('"'):
                return ""  # $"..." is "..." in the user's language
            return quoted(_ESCAPE.sub(unescaped, self._inside(_ANSI)))
        else:
            return quoted("$")
        if name in _ENVIRONMENT:
            return quoted(_ENVIRONMENT[name])
        # "$@" may be many words in quotes too.
        return quoted(UNKNOWN) if is_quoted and "@" not in name else UNKNOWN

    def _braces(self, *, is_quoted: bool) -> str:
        """Step over `${...}`, whose begin was; return what is in it."""
        if _STRANGE_BRACES.match(self.text, self.at):
            raise Unreadable("a strange expansion")
        begin = self.at
        with self.brackets():
            while not self.take("}"):
                # What a quote is in there depends on what is around: it is not guessed.
                if not self.next() or self.sees("<(", ">(") or (is_quoted and self.sees("'")):
                    raise Unreadable("a ${ that is not clear")
                if not self.match(_IN_BRACES) and not self.take("<", ">"):
                    self._piece(self.next())
        inner = self.text[begin : self.at - 1]
        if found := _SUM_IN_BRACES.match(inner):
            self.sums += filter(None, found.groups())
        return inner

    def _backquotes(self, *, is_quoted: bool) -> str:
        escapable = r"[$`\"\\]" if is_quoted else r"[$`\\]"
        self._backquoted(re.sub(rf"\\({escapable})", r"\1", self._inside(_BACKQUOTED)))
        return quoted(UNKNOWN) if is_quoted else UNKNOWN

    def arithmetic(self) -> None:
        """Step over `((...))`: names, numbers and signs, or it is Unreadable."""
        self.at += 2
        depth, begin = 2, self.at
        while depth:
            text = self.match(_ARITHMETIC) or ""
            # `$(` is no arithmetic, and a bracket of one sign may be a subshell's.
            if text.endswith("$") or not self.take("(", ")"):
                raise Unreadable("arithmetic that is not clear")
            depth += 1 if self.text[self.at - 1] == "(" else -1
            if depth == 1 and not self.sees(")"):
                raise Unreadable("arithmetic that is not clear")
        self.sums.append(self.text[begin : self.at - 2])
