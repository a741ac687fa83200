r"""The simple commands in a shell text, wherever they stand: in lists, loops, substitutions.

Who asks what a text may do needs each command that may run, not when it runs: so no tree is built.
Reserved words are passed over, subshells and substitutions are read in place, and what has no
command in it (the words of `for`, the patterns of `case`) is read for its substitutions alone.

What is not surely understood is refused: functions, `coproc`, `select`, arithmetic with more than
numbers and names, extended patterns. Bash is the measure; where it may be another shell, what that
would take for something else is refused too. It is linear, and it is no `heredocs.ShellCommand`:
that one finds the line where a command ends, and knows no words.
"""

import re
from dataclasses import replace
from typing import Final

from bantam.agent.commands.scanner import END, Scanner
from bantam.agent.commands.words import (
    UNKNOWN,
    Command,
    Document,
    Doubt,
    Unreadable,
    Word,
    word_of,
    words_of,
)

_COMMENT: Final = re.compile(r"#[^\n]*+")
_RESERVED: Final = re.compile(rf"(?:if|then|elif|else|fi|while|until|do|done|!|\{{|\}}|time){END}")
_TIME_OPTIONS: Final = re.compile(rf"(?:[ \t]+-p{END})?(?:[ \t]+--{END})?")
_COMPOUND: Final = re.compile(rf"(?:case|for|\[\[|function|select|coproc){END}|\(\(?")
_ESAC: Final = re.compile(f"esac{END}")
_IN: Final = re.compile(f"in{END}")
_NAME: Final = re.compile(rf"[A-Za-z_]\w*{END}", re.ASCII)
_REDIRECTION: Final = re.compile(
    r"&>>?|(?:\d*|\{[A-Za-z_]\w*\})(?:<<-|<<<|<<|<>|<&|>&|>>|>\||<(?!\()|>(?!\())", re.ASCII
)
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)(?:\[([^]]*)\])?\+?=", re.ASCII)


def commands_of(text: str, depth: int = 0, *, is_bash: bool = True) -> list[Command]:
    """Return the commands in `text`, in their order, those of a substitution before its own.

    `depth`: levels that it is in by now. `is_bash`: surely bash will run it. Raises Unreadable.
    """
    return _Reader(text, depth, is_bash=is_bash).script()


class _Reader:
    def __init__(self, text: str, depth: int, *, is_bash: bool) -> None:
        self._scan = Scanner(text, depth, self._substitution, self._backquoted, is_bash=is_bash)
        self._compounds = 0  # loops and branches that are open
        self._found: list[Command] = []

    def script(self) -> list[Command]:
        with self._scan.brackets():
            self._list()
        if sign := self._scan.next():
            raise Unreadable(f"an unexpected {sign}")
        return self._found

    def body(self) -> list[Command]:
        """Return the commands in the body of a here-document."""
        with self._scan.brackets():
            self._scan.body()
        sums = tuple(self._scan.sums)
        return [*self._found, Command((), sums=sums)] if sums else self._found

    def _doubt(self, begin: int, doubt: Doubt = Doubt.WHETHER) -> None:
        """Doubt the commands that were found from `begin` on."""
        for at in range(begin, len(self._found)):
            each = self._found[at]
            self._found[at] = replace(each, doubt=max(each.doubt, doubt))

    # -- lists --------------------------------------------------------------------------------

    def _list(self, *, in_case: bool = False) -> None:
        scan = self._scan
        begin, is_first = len(self._found), True
        while not self._ends_list(in_case=in_case):
            at = len(self._found)
            self._command()
            if not is_first:
                self._doubt(at)
            is_first = False
            if scan.take("&&", "||"):
                continue
            if scan.take("|&", "|"):
                self._doubt(at)
                continue
            if scan.take("&"):
                self._doubt(begin)
            elif not scan.sees(";;", ";&"):
                scan.take(";")
            begin, is_first = len(self._found), True
        if not is_first:
            raise Unreadable("an unexpected end")

    def _ends_list(self, *, in_case: bool) -> bool:
        self._lines()
        if in_case and (self._scan.sees(";;", ";&") or self._sees(_ESAC)):
            return True
        return self._scan.next() in ("", ")")

    def _sees(self, pattern: re.Pattern[str]) -> bool:
        return pattern.match(self._scan.text, self._scan.at) is not None

    def _lines(self) -> None:
        """Step over blanks, comments and ends of lines, with the here-documents behind these."""
        self._scan.blanks()
        while self._scan.sees("\n", "#"):
            if not self._scan.match(_COMMENT):
                for body in self._scan.bodies():
                    inner = _Reader(body, self._scan.depth, is_bash=self._scan.is_bash)
                    self._found += inner.body()
            self._scan.blanks()

    # -- commands -----------------------------------------------------------------------------

    def _command(self) -> None:
        """Read one command of a pipeline, reserved words before it, redirections behind it."""
        scan, begin, at = self._scan, self._scan.at, len(self._found)
        self._reserved()
        is_inner = self._compounds > 0
        opener = scan.match(_COMPOUND)
        if opener:
            self._compound(opener)
        first = scan.at
        own = self._simple(is_compound=bool(opener))
        if scan.at == begin:
            raise Unreadable(f"an unexpected {scan.next()}")
        sums, scan.sums = tuple(scan.sums), []
        if own.words or own.assignments or own.redirections or sums:
            source = scan.text[first : scan.at].strip()
            self._found.append(replace(own, source=source, sums=sums))
        if is_inner:
            self._doubt(at, Doubt.HOW_OFTEN)

    def _reserved(self) -> None:
        while found := self._scan.match(_RESERVED):
            if found in ("if", "while", "until", "{"):
                self._compounds += 1
            elif found in ("fi", "done", "}"):
                self._compounds = max(0, self._compounds - 1)
            elif found == "time":
                self._scan.needs_bash(found)
                self._scan.match(_TIME_OPTIONS)
            self._lines()

    def _simple(self, *, is_compound: bool) -> Command:
        scan = self._scan
        words: list[Word] = []
        assignments: list[tuple[str, Word]] = []
        redirections: list[tuple[str, Word]] = []
        scan.blanks()
        while not self._ends_command():
            if sign := scan.match(_REDIRECTION):
                redirections.append(self._redirection(sign))
            else:
                marked, raw = scan.word()
                if not raw or is_compound:
                    raise Unreadable(f"an unexpected {raw or scan.next()}")
                if not words and (found := _ASSIGNMENT.match(raw)):
                    scan.sums += filter(None, [found[2]])
                    # A subscript with an expansion is no beginning of what is assigned.
                    value = marked.removeprefix(found[0]) if found[0] in marked else UNKNOWN
                    assignments.append((found[1], word_of(value, raw)))
                else:
                    words += words_of(marked, raw)
            scan.blanks()
        return Command(tuple(words), tuple(assignments), tuple(redirections))

    def _redirection(self, sign: str) -> tuple[str, Word]:
        if sign[0] in "&{":
            self._scan.needs_bash(sign)
        sign = sign.rpartition("}")[2].lstrip("0123456789")
        self._scan.blanks()
        marked, raw = self._scan.word()
        if sign in ("<<", "<<-") and raw:
            self._scan.due.append(Document.of(marked, raw, strips_tabs=sign == "<<-"))
            return sign, Word(raw)
        words = words_of(marked, raw)
        if len(words) != 1:
            raise Unreadable("a redirection that is not to one file")
        return sign, words[0]

    def _ends_command(self) -> bool:
        self._scan.match(_COMMENT)
        sign = self._scan.next()
        return sign in ("", "\n", ";", "|", ")") or (sign == "&" and not self._scan.sees("&>"))

    # -- what a word or a bracket has opened --------------------------------------------------

    def _compound(self, opener: str) -> None:
        match opener:
            case "(":
                self._scan.at -= 1
                self._substitution()
            case "((":
                self._scan.needs_bash(opener)
                self._scan.at -= 2
                self._scan.arithmetic()
            case "[[":
                self._test()
            case "case":
                self._case()
            case "for":
                self._for()
            case _:
                raise Unreadable(f"a {opener}")

    def _test(self) -> None:
        """Read `[[ ... ]]` as a program of that name."""
        scan, words = self._scan, [Word("[[", "[[")]
        while True:
            scan.blanks()
            marked, raw = scan.word()
            if raw == "]]":
                self._found.append(Command(tuple(words), source="[[ ]]"))
                return
            if raw:
                words.append(word_of(marked, raw))
            elif not scan.take("(", ")", "<", ">", "&&", "||", "|"):
                scan.line_in_brackets()

    def _case(self) -> None:
        scan = self._scan
        scan.blanks()
        scan.word()
        self._lines()
        if not scan.match(_IN):
            raise Unreadable("a case without its in")
        begin = len(self._found)
        with scan.brackets():
            self._lines()
            while not scan.match(_ESAC):
                scan.take("(")
                self._words("|")
                if not scan.take(")"):
                    raise Unreadable("a case that is not clear")
                self._list(in_case=True)
                scan.take(";;&", ";;", ";&")
                self._lines()
        self._doubt(begin, Doubt.HOW_OFTEN)

    def _for(self) -> None:
        scan = self._scan
        self._compounds += 1  # until its `done`
        scan.blanks()
        if scan.sees("(("):
            scan.arithmetic()
            scan.blanks()
            return
        name = scan.match(_NAME)
        if not name:
            raise Unreadable("a for without a name")
        self._lines()
        begin = scan.at
        if scan.match(_IN):
            begin = scan.at
            self._words("")
        value = Word(UNKNOWN, scan.text[begin : scan.at])
        self._found.append(Command((), ((name, value),), source=f"for {name}"))

    def _words(self, between: str) -> None:
        """Step over words; of their substitutions the commands are kept."""
        self._scan.blanks()
        while self._scan.word()[1] or (between and self._scan.take(between)):
            self._scan.blanks()

    def _substitution(self) -> None:
        """Read what stands in round brackets."""
        outer, self._compounds = self._compounds, 0
        begin = len(self._found)
        with self._scan.brackets():
            self._scan.take("(")
            self._list()
            if not self._scan.take(")"):
                raise Unreadable("a ( without an end")
        self._compounds = outer
        self._doubt(begin)

    def _backquoted(self, text: str) -> None:
        begin = len(self._found)
        self._found += commands_of(text, self._scan.depth, is_bash=self._scan.is_bash)
        self._doubt(begin)
