"""Lines of code -> spans in colour, each when it comes, by Pygments' tables.

Pygments reads a whole text and keeps no state between lines. Its tables do not mind, so most
languages are read here by its own loop (`RegexLexer.get_tokens_unprocessed`) with the stack of
states kept: a docstring stays a string. The others are read line by line as if each were alone.
Colours are the terminal's own, few of them: each costs bytes.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from bantam.terminal.spans import Span, clean, text_of

_MOST_CHARACTERS: Final = 2000  # of a line that is coloured: what is longer is data
_STYLES: Final = {
    "Comment": "2",
    "Keyword": "35",
    "Operator.Word": "35",
    "Literal.String": "32",
    "Literal.Number": "36",
    "Name.Function": "34",
    "Name.Class": "34",
    "Name.Tag": "34",
    "Generic.Deleted": "31",
    "Generic.Inserted": "32",
    "Generic.Heading": "1",
    "Generic.Subheading": "36",
}


class Highlighter:
    """The lines of one piece of code in `language`, as the fence names it; "" for unknown."""

    def __init__(self, language: str) -> None:
        self._lexer = _lexer(language) if language else None
        # None: a lexer with a loop of its own.
        self._table: dict[str, Any] | None = _table(self._lexer) if self._lexer else None
        self._stack = ["root"]

    def line(self, text: str) -> list[Span]:
        """Return the next line, tabs expanded; plain where the language is not known."""
        text = text.expandtabs(4)
        plain = clean(text)
        if self._lexer is None or len(text) > _MOST_CHARACTERS:
            return [Span(plain)]
        read = self._lexer.get_tokens if self._table is None else self._tokens
        spans = [
            Span(clean(part.rstrip("\n")), _style(str(kind))) for kind, part in read(f"{text}\n")
        ]
        # Some lexers drop what they take for no code of theirs.
        return spans if text_of(spans) == plain else [Span(plain)]

    def _tokens(self, text: str) -> Iterator[tuple[Any, str]]:
        """Yield the tokens of one line and its LF; keep the states that the next line begins in."""
        assert self._table is not None
        at = 0
        while at < len(text):
            for match, action, state in self._table[self._stack[-1]]:
                if found := match(text, at):
                    at = found.end()
                    yield from self._matched(found, action)
                    self._enter(state)
                    break
            else:
                yield "Token.Error", text[at]
                at += 1

    def _matched(self, found: Any, action: Any) -> Iterator[tuple[Any, str]]:
        if isinstance(action, tuple):  # a token type
            yield action, found[0]
        elif action is not None:
            yield from ((kind, part) for _, kind, part in action(self._lexer, found) if part)

    def _enter(self, state: Any) -> None:
        """Change the stack as a rule of a table says: by a number of states to drop, or by names.

        The lowest state stays.
        """
        for step in state if isinstance(state, tuple) else [state]:
            if isinstance(step, int):
                del self._stack[max(1, len(self._stack) + step) :]
            elif step == "#pop":
                del self._stack[max(1, len(self._stack) - 1) :]
            elif step is not None:
                self._stack.append(self._stack[-1] if step == "#push" else step)


# Pygments looks through hundreds of names for one.
@lru_cache(maxsize=16)
def _lexer(language: str) -> Any:
    from pygments.lexers import (  # type: ignore[import-untyped]  # it has no types
        get_lexer_by_name,
    )
    from pygments.util import ClassNotFound  # type: ignore[import-untyped]  # it has no types

    try:
        return get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None


def _table(lexer: Any) -> dict[str, Any] | None:
    from pygments.lexer import RegexLexer  # type: ignore[import-untyped]  # it has no types

    own_loop = getattr(type(lexer), "get_tokens_unprocessed", None)
    is_usual = own_loop is RegexLexer.get_tokens_unprocessed
    return getattr(lexer, "_tokens", None) if is_usual else None


@lru_cache(maxsize=256)
def _style(kind: str) -> str:
    """Return the style of a token type, `Token.Literal.String.Doc` by its beginning."""
    words = kind.split(".")[1:3]
    return _STYLES.get(".".join(words)) or _STYLES.get(words[0] if words else "", "")
