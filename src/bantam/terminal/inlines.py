"""The text of a block -> spans: emphasis, code, links. CommonMark's inlines by markdown-it.

URLs are shown, behind the text of their link, so that what is clicked is what was read; a text that
looks like another address than the link's leads nowhere. Images are text; nothing is fetched. HTML
is text.
"""

import re
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Final

from bantam.terminal.spans import Span, clean, target, text_of

if TYPE_CHECKING:
    from markdown_it.token import Token

# Of one text. Markdown so long is no paragraph, and the time for it would be felt.
_MOST_CHARACTERS: Final = 50_000
_DIM, _ITALIC, _LINK, _CODE = "2", "3", "4", "36"
_STYLES: Final = {"strong": "1", "em": _ITALIC, "s": "9", "link": _LINK}
_ADDRESS: Final = re.compile(r"(?i)://|www\.|@")


class Inlines:
    """Reads the text of blocks."""

    def __init__(self) -> None:
        from markdown_it import MarkdownIt

        self._reader = MarkdownIt("commonmark", {"html": False}).enable("strikethrough")
        self._numbers = count(1)  # of links

    def spans(self, text: str) -> list[Span]:
        """Return the spans of `text`, a hard break as LF; a text that is too long as it is."""
        if len(text) > _MOST_CHARACTERS:
            return [Span(clean(text))]
        walk = _Walk(self._numbers)
        for root in self._reader.parseInline(text):
            for token in root.children or []:
                walk.see(token)
        return walk.spans


class _Walk:
    """The spans of the tokens seen so far, and the styles and links that are open."""

    def __init__(self, numbers: Iterator[int]) -> None:
        self.spans: list[Span] = []
        self._numbers = numbers
        self._styles = [""]  # each with those around it
        self._links: list[tuple[str, int]] = []  # URL, number of spans before its text

    def see(self, token: "Token") -> None:
        """Add one token."""
        name, _, end = token.type.rpartition("_")
        match token.type:
            case "softbreak":
                self._add(" ")
            case "hardbreak":
                self.spans.append(Span("\n"))
            case "code_inline":
                self._add(clean(token.content), _CODE)
            case "image":
                self._add(f"[image: {clean(token.content)}]", _ITALIC)
                if url := token.attrs["src"]:
                    self._add(f" ({clean(str(url))})", _DIM)
            case _ if end == "open":
                if name == "link":
                    self._links.append((str(token.attrs["href"]), len(self.spans)))
                self._styles.append(_joined(self._styles[-1], _STYLES[name]))
            case _ if end == "close":
                self._styles.pop()
                if name == "link":
                    self._end_link()
            case _:
                self._add(clean(token.content))

    def _end_link(self) -> None:
        url, before = self._links.pop()
        if not (text := text_of(self.spans[before:])):
            text = clean(url)
            self._add(text, _DIM)
        is_same = url in (text, f"mailto:{text}")
        if (is_same or not _ADDRESS.search(text)) and (leads := target(url)):
            link = f"{next(self._numbers)};{leads}"
            self.spans[before:] = [span._replace(link=link) for span in self.spans[before:]]
        if url and not is_same:
            self._add(f" ({clean(url)})", _DIM)

    def _add(self, text: str, style: str = "") -> None:
        if text:
            self.spans.append(Span(text, _joined(self._styles[-1], style)))


def _joined(around: str, style: str) -> str:
    """Return one style of two, nothing twice: emphasis may be thousands deep."""
    return around if style in around.split(";") else f"{around};{style}".strip(";")
