r"""Lines of Markdown -> blocks, each as soon as it has ended.

CommonMark's block structure is made for this: a line closes, opens and continues blocks, and looks
at nothing that comes later (CommonMark 0.31, appendix "A parsing strategy"). What later lines may
still change is only the one open block: a paragraph can become a heading, or its last line the
head of a table (GFM 4.10). So a paragraph, a heading and a table come whole, and code line by line.

What a stream cannot know is decided otherwise than in a whole document: a list is as loose at each
place as its source is there, and a reference definition is text like any other, since its use may
have been drawn before it; so nothing in an answer is hidden either. HTML is text. Containers
deeper than `MOST_DEEP` are text too.
"""

import re
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Final

from bantam.terminal.lines import (
    MARKER,
    RULE,
    UNDERLINE,
    Block,
    Kind,
    Level,
    Line,
    fence,
    heading,
    is_table_head,
)

MOST_DEEP: Final = 20  # containers; markdown-it's own bound


@dataclass(slots=True)
class _List:
    marker: str  # "-", "+", "*", "." or ")": another one begins another list
    next_number: int


@dataclass(slots=True, eq=False)
class _Container:
    sign: str = ""
    indent: int = 0  # columns that its later lines are indented by; 0: a quote, or the document
    continues: bool = False  # an item that is not the first of its list
    is_new: bool = True  # no block in it has ended
    list: _List | None = None  # that its next item may belong to

    @property
    def is_item(self) -> bool:
        return self.indent > 0


@dataclass(slots=True)
class _Leaf:
    kind: Kind
    after_blank: bool
    lines: list[str] = field(default_factory=list)
    size: int = 0  # of a heading
    fence: str = ""  # of code; "" of indented code
    indent: int = 0  # of the fence
    language: str = ""
    starts: bool = True
    is_lazy: bool = False  # its last line left out the signs of its containers


class Blocks:
    """`feed(line) -> list`, `close() -> list`: the blocks that have ended."""

    def __init__(self) -> None:
        self._containers = [_Container()]  # the document, then what is open in it
        self._leaf: _Leaf | None = None
        self._after_blank = False
        self._previous: list[_Container] | None = None  # those of the last block that ended
        self._ended: list[Block] = []

    def feed(self, text: str) -> list[Block]:
        """Return the blocks that end with or before this line, which comes without its LF."""
        line = Line(text)
        depth = self._continued(line)
        is_inside = depth == len(self._containers)
        leaf = self._leaf
        if leaf and leaf.fence and is_inside:
            self._fenced(leaf, line)
        elif not line.body:
            self._blank(line, depth)
        else:
            if not (is_inside or self._in_paragraph):
                self._close(depth)
            self._filled(line, depth)
        ended, self._ended = self._ended, []
        return ended

    def close(self) -> list[Block]:
        """Return what the end of the text ends; ready for a new text."""
        self._close(1)
        ended, self._ended = self._ended, []
        self._containers = [_Container()]
        self._after_blank, self._previous = False, None
        return ended

    def preview(self, line: str) -> list[Block]:
        """Return what `feed(line)` and `close()` would give; nothing has changed after it."""
        twin = Blocks()
        twins = {id(each): replace(each, list=copy(each.list)) for each in self._containers}
        twin._containers = list(twins.values())
        twin._previous = self._previous and [twins.get(id(each), each) for each in self._previous]
        if self._leaf:
            twin._leaf = replace(self._leaf, lines=self._leaf.lines[:])
        twin._after_blank = self._after_blank
        return (twin.feed(line) if line else []) + twin.close()

    # -- one line -----------------------------------------------------------------------------

    def _continued(self, line: Line) -> int:
        """Return how many open containers the line belongs to; their signs are taken from it."""
        for depth, container in enumerate(self._containers[1:], 1):
            if not container.is_item:
                if line.indent > 3 or not line.body.startswith(">"):
                    return depth
                line.take(1)
                line.skip(min(line.indent, 1))
                continue
            # An item may begin with a blank line, but not with two.
            is_empty = container.is_new and not self._leaf and container is self._containers[-1]
            if is_empty if not line.body else line.indent < container.indent:
                return depth
            line.skip(min(line.indent, container.indent))
        return len(self._containers)

    def _fenced(self, leaf: _Leaf, line: Line) -> None:
        mark = line.body.rstrip(" \t")
        if line.indent < 4 and mark.startswith(leaf.fence) and not mark.strip(leaf.fence[0]):
            self._end_leaf()
        else:
            self._end(leaf, line.text(min(line.indent, leaf.indent)))

    def _blank(self, line: Line, depth: int) -> None:
        leaf = self._leaf
        if leaf and leaf.kind is Kind.CODE and depth == len(self._containers):
            # Shown if more code follows.
            leaf.lines.append(line.text(min(line.indent, 4)))
        else:
            self._close(depth)
        self._after_blank = True

    def _filled(self, line: Line, depth: int) -> None:
        while line.indent < 4 and (opened := self._opened(line, depth)):
            depth = opened
        if not line.body:
            return
        if line.indent >= 4 and not self._in_paragraph:
            self._indented_code(line, depth)
        elif line.indent >= 4 or not self._became_leaf(line, depth):
            self._text(line, depth)

    @property
    def _in_paragraph(self) -> bool:
        return self._leaf is not None and self._leaf.kind is Kind.PARAGRAPH

    def _opened(self, line: Line, depth: int) -> int:
        """Open the container that begins here; return how many are open then, 0 for none."""
        if depth > MOST_DEEP or RULE.fullmatch(line.body):
            return 0
        if line.body.startswith(">"):
            self._close(depth)
            self._containers[-1].list = None
            line.take(1)
            line.skip(min(line.indent, 1))
            self._containers.append(_Container())
            return depth + 1
        marker = MARKER.match(line.body)
        if not marker or not self._may_begin(marker, depth):
            return 0
        self._close(depth)
        self._open_item(line, marker)
        return depth + 1

    def _may_begin(self, marker: re.Match[str], depth: int) -> bool:
        """Return whether an item may begin here: not any one may interrupt a paragraph."""
        if not self._in_paragraph or depth < len(self._containers):
            return True
        has_text = bool(marker.string[marker.end() :].strip(" \t"))
        return has_text and marker[2] in (None, "1")

    def _open_item(self, line: Line, marker: re.Match[str]) -> None:
        parent = self._containers[-1]
        kind = marker[3] or marker[1]
        continues = parent.list is not None and parent.list.marker == kind
        if parent.list is None or not continues:
            parent.list = _List(kind, int(marker[2] or 0))
        sign = f"{parent.list.next_number}{marker[3]}" if marker[3] else "•"
        parent.list.next_number += 1
        before = line.indent + len(marker[1])
        line.take(len(marker[1]))
        # Code that begins an item is indented by one column and by four.
        blanks = line.indent if line.body and line.indent < 5 else 1
        line.skip(min(blanks, line.indent))
        self._containers.append(_Container(sign, before + blanks, continues))

    def _became_leaf(self, line: Line, depth: int) -> bool:
        """Return whether the line is a block of its own, or makes one of the open paragraph."""
        body = line.body
        leaf = self._leaf
        if leaf and leaf.kind is Kind.PARAGRAPH and depth == len(self._containers):
            if self._began_table(leaf, body):
                return True
            if underline := UNDERLINE.fullmatch(body):
                leaf.kind, leaf.size = Kind.HEADING, 1 if underline[1][0] == "=" else 2
                self._end_leaf()
                return True
        if found := heading(body):
            leaf = self._begin(Kind.HEADING, depth)
            leaf.size, text = found
            leaf.lines.append(text)
            self._end_leaf()
        elif RULE.fullmatch(body):
            self._begin(Kind.RULE, depth)
            self._end_leaf()
        elif opened := fence(body):
            leaf = self._begin(Kind.CODE, depth)
            leaf.fence, leaf.language = opened
            leaf.indent = line.indent
        else:
            return False
        return True

    def _began_table(self, leaf: _Leaf, line: str) -> bool:
        """Make a table of the paragraph's last line, if `line` is what stands below its head."""
        head = leaf.lines[-1]
        if leaf.is_lazy or not is_table_head(head, line):
            return False
        del leaf.lines[-1]
        after_blank = leaf.after_blank and not leaf.lines
        if leaf.lines:
            self._end_leaf()
        self._leaf = _Leaf(Kind.TABLE, after_blank, [head, line])
        return True

    def _indented_code(self, line: Line, depth: int) -> None:
        leaf = self._leaf
        if not leaf or leaf.kind is not Kind.CODE:
            leaf = self._begin(Kind.CODE, depth)
        blanks, leaf.lines = leaf.lines, []
        for text in [*blanks, line.text(4)]:
            self._end(leaf, text)
        self._after_blank = False

    def _text(self, line: Line, depth: int) -> None:
        leaf = self._leaf
        if not leaf or leaf.kind is Kind.CODE:
            leaf = self._begin(Kind.PARAGRAPH, depth)
        leaf.is_lazy = depth < len(self._containers)
        leaf.lines.append(line.body)

    # -- beginning and ending -----------------------------------------------------------------

    def _begin(self, kind: Kind, depth: int) -> _Leaf:
        """Return a new open leaf in the first `depth` containers; all others have ended."""
        self._close(depth)
        self._containers[-1].list = None
        self._leaf = _Leaf(kind, self._after_blank)
        self._after_blank = False
        return self._leaf

    def _close(self, depth: int) -> None:
        """End the open leaf, and all containers but the first `depth`."""
        self._end_leaf()
        while len(self._containers) > depth:
            if self._containers[-1].is_new and self._containers[-1].is_item:
                self._end(_Leaf(Kind.PARAGRAPH, self._after_blank), "")
                self._after_blank = False
            self._containers.pop()

    def _end_leaf(self) -> None:
        leaf, self._leaf = self._leaf, None
        if leaf and leaf.kind is not Kind.CODE:
            self._end(leaf, "\n".join(leaf.lines))

    def _end(self, leaf: _Leaf, text: str) -> None:
        containers = self._containers[1:]
        gap = self._gap(containers, leaf) if leaf.starts else None
        levels = tuple(Level(each.sign, each.is_new) for each in containers)
        for each in containers:
            each.is_new = False
        self._previous = containers
        block = Block(leaf.kind, text, levels, gap, leaf.size, leaf.language, leaf.starts)
        self._ended.append(block)
        leaf.starts = False

    def _gap(self, containers: list[_Container], leaf: _Leaf) -> int | None:
        """Return in how many containers a blank row goes before the leaf; None for no row."""
        if self._previous is None:
            return None
        pairs = zip(containers, self._previous, strict=False)
        shared = len(list(takewhile(lambda pair: pair[0] is pair[1], pairs)))
        is_next_item = shared < len(containers) and containers[shared].continues
        in_list = is_next_item or any(each.is_item for each in containers[:shared])
        return shared if leaf.after_blank or not in_list else None
