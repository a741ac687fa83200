"""The blocks dialect: files and commands as marked blocks in an answer, several in one.

An answer is read whole (`blockreader`): a block's end may turn out far behind it. In doubt nothing
runs: a block that may have lost its end is a call that is refused, and the refusal asks for it
again. An answer in which something looks like a marker and nothing is a block gets a correction.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from bantam.core.messages import (
    INTERRUPTED_RESULT,
    NOT_RUN_RESULT,
    UNKNOWN_RESULT,
    Answer,
    Message,
    Role,
)
from bantam.core.text import shortened
from bantam.model.dialects.blockcalls import CUT_OFF, OWN_TOOLS, Shown, call_of, refusal_of, shown
from bantam.model.dialects.blockreader import Reading, prose_of, read
from bantam.model.dialects.blockview import BlocksView
from bantam.model.dialects.dialect import Tools
from bantam.model.dialects.leaks import holds_marker, is_call
from bantam.model.dialects.markers import THINK, outside_fences
from bantam.model.dialects.textual import Exchange, fenced, spoken

INSTRUCTIONS: Final = """\
You act by writing blocks; each is done at once, and the results are the next message. Never tell
the user what to run or to write: write the block. Never answer from memory what a command can show.

A question, and your answer to it:
How many files are here?
**RUN:**
```bash
ls | wc -l
```

Another one:
Create greet.txt with the word hello.
**WRITE:`greet.txt`**
```
hello
```
**EOF:`greet.txt`**

To change a file:
**EDIT:`app.py`**
```
<<<<<<< SEARCH
port = 80
=======
port = 8080
>>>>>>> REPLACE
```
**EOF:`app.py`**

To read one: **FILE:`path`**, then a line **EOF:`path`**.

- A marker is a whole line, spelled as above. WRITE replaces the whole file; if its text holds
fences, use a longer one around it.
- Each SEARCH must match exactly one place, so copy whole lines; several pairs may follow.
- Any other tool: **TOOL:`name`**, its parameters as one JSON object, **EOF:`name`**.
- End your answer behind the blocks; never write results yourself. Other fences are only shown.
When the results show that the task is done, answer without blocks."""

# How a correction begins: it is no prompt (`core.messages.NOTES`).
NOTHING_RUN: Final = "(Nothing was run: "
_QUOTE: Final = "If it was only an example, put it in a code fence and answer again."
_FORMS: Final = {
    "RUN": "**RUN:**\n```bash\nls -la\n```",
    "TOOL": '**TOOL:`name`**\n{"parameter": "value"}\n**EOF:`name`**',
    "FILE": "**FILE:`path`**\n**EOF:`path`**",
    "WRITE": "**WRITE:`path`**\nthe whole text of the file\n**EOF:`path`**",
    "EDIT": (
        "**EDIT:`path`**\n<<<<<<< SEARCH\nold line\n=======\nnew line\n>>>>>>> REPLACE\n"
        "**EOF:`path`**"
    ),
}
_CUTS: Final = ("length", "content_filter")

# Whole lines that come near a marker. Written as in a title, FILE and TOOL head many an answer
# that only shows code; a sentence may begin with a marker.
_KIND: Final = (
    r" {0,3}\*\*(WRITE|EDIT|FILE|TOOL|SKILL|RUN|EOF"
    r"|write|edit|file|tool|skill|run|eof|Write|Edit|Run):"
)
_NEAR_MARKS: Final = (
    re.compile(rf"{_KIND}(?:\*\*)?[ \t]*+`[^`]*`[ \t]*+(?:\*\*)?"),
    re.compile(rf"{_KIND}[^`*]*\*\*"),
    re.compile(rf"{_KIND}\*\*[ \t]*+[^ \t`]++(?<![.:;,!?])"),
    re.compile(r" {0,3}\*\*(RUN):\*\*[^`]++(?<![.:;,!?])"),
)

_INTERRUPTED: Final = (INTERRUPTED_RESULT, UNKNOWN_RESULT, NOT_RUN_RESULT)
_STATUSES: Final = ("error", "denied", "interrupted")


class Blocks:
    """Messages as text, calls as blocks; several calls an answer."""

    name = "blocks"

    def encode(self, messages: Sequence[Message], tools: Tools, start: int = 0) -> dict[str, Any]:
        """Return the body's `messages` for a repaired conversation."""
        told = "" if start else _instructions(tools)
        return {"messages": spoken(messages[start:], told, _spoken)}

    def decode(self, answer: Answer, history: Sequence[Message], tools: Tools) -> Answer:
        """Return `answer` with its blocks as calls; `history` are the messages before it."""
        del tools  # what there is not is the toolbox's to say
        reading = read(answer.message.content)
        acts = any(not block.idle for block in reading.blocks)
        if answer.message.tool_calls and not acts:
            return answer
        if own := len(answer.message.tool_calls):
            notice = f"{own} calls in the API's form were left out: the answer has blocks too"
            answer = replace(answer, notices=(*answer.notices, notice))
        reasoning = "\n".join(filter(None, (answer.message.reasoning, reading.thoughts)))
        message = replace(answer.message, content=reading.prose, reasoning=reasoning, tool_calls=())
        if not acts:
            return replace(answer, message=message, correction=_correction(reading))
        ids = [f"call_{len(history)}_{number}" for number, _ in enumerate(reading.blocks, 1)]
        named = list(zip(ids, reading.blocks, strict=True))
        may_be_cut = answer.finish_reason in _CUTS
        refusals = {
            call_id: refusal
            for call_id, block in named
            if (refusal := refusal_of(block, may_be_cut=may_be_cut))
        }
        calls = tuple(call_of(block, call_id) for call_id, block in named)
        return replace(answer, message=replace(message, tool_calls=calls), refusals=refusals)

    def view(self) -> BlocksView:
        """Return what shows one answer while it comes."""
        return BlocksView()

    def without_tools(self) -> str | None:
        """Return nothing: no request has any."""
        return None


# -- corrections ------------------------------------------------------------------------------


def _correction(reading: Reading) -> str | None:
    """Return what the model is told about an answer without blocks, None if that is its answer."""
    if reading.blocks:
        behind = reading.blocks[0].idle
        return _told(f"RUN wants a ```bash fence right behind its line; here is {behind}.", "RUN")
    if reading.strays:
        return _told("an EOF line closes no block.", "EOF")
    rows = [row for row in outside_fences(reading.prose) if not row.startswith(("    ", ">"))]
    for row in rows:
        marks = (form.fullmatch(row.rstrip()) for form in _NEAR_MARKS)
        if near := next(filter(None, marks), None):
            return _told(f"{shortened(row.strip(), 80)} is no marker.", near[1].upper())
    if is_call(reading.prose) or holds_marker("\n".join(rows)):
        return _told("calls are not read in that form.", "RUN")
    return None


def _told(what: str, kind: str) -> str:
    form = _FORMS.get("TOOL" if kind == "SKILL" else kind, _FORMS["WRITE"])
    return f"{NOTHING_RUN}{what} The right form is below. {_QUOTE})\n\n{form}"


# -- the history as text ----------------------------------------------------------------------


def _instructions(tools: Tools) -> str:
    """Return what the model is told of the form, and of tools that have no block of their own."""
    others = [tool["function"] for tool in tools if tool["function"]["name"] not in OWN_TOOLS]
    told = [
        f"- {tool['name']}: {tool.get('description', '')} "
        f"Parameters: {json.dumps(tool.get('parameters', {}), ensure_ascii=False)}"
        for tool in others
    ]
    return "\n".join([INSTRUCTIONS, "Other tools:", *told]) if told else INSTRUCTIONS


def _spoken(message: Message, exchanges: Sequence[Exchange]) -> Iterator[Message]:
    """Yield an answer with its calls as blocks, then what came of them as the user's words."""
    blocks = [shown(call) for call, _ in exchanges]
    texts = [block.text for block in blocks]
    prose = _harmless(message.content)
    content = "\n\n".join([prose, *texts] if prose else texts)
    yield replace(message, content=content, tool_calls=())
    results = (
        f"{_header(number, len(blocks), block, result)}\n{fenced(result.content)}"
        for number, (block, (_, result)) in enumerate(zip(blocks, exchanges, strict=True), 1)
    )
    yield Message(Role.USER, "\n\n".join(results))


def _harmless(prose: str) -> str:
    """Return `prose` as it is, or quoted if something in it would be read with the blocks."""
    reading = read(f"{prose}\n\n**FILE:`x`**\n**EOF:`x`**")
    trimmed = prose_of(prose)
    if reading.prose == trimmed and len(reading.blocks) == 1:
        return trimmed
    return "\n".join(f"> {row}" for row in trimmed.replace(THINK, "<think >").split("\n"))


def _header(number: int, of: int, block: Shown, result: Message) -> str:
    name = f" {block.name}" if block.name else ""
    return f"[{number}/{of} {block.kind}{name} → {_status(result)}]"


def _status(result: Message) -> str:
    """Return what became of a call, in the words of the dialect."""
    if result.content.startswith(CUT_OFF):
        return "cut"
    if result.content in _INTERRUPTED:
        return "interrupted"
    status = result.extra.get("status", "ok")
    if status in _STATUSES or status == "ok":
        return str(status)
    return "error"
