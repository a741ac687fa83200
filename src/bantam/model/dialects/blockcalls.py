"""Blocks and the calls that they mean, both ways.

A call is shown as the block that reads back as exactly that call. Where no WRITE, EDIT, RUN or FILE
does (a file without a last line end, one with CRs, a part of a file replaced), it is a TOOL with
JSON in one line, which holds anything.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from bantam.core.messages import ToolCall, parsed_arguments
from bantam.core.text import shortened
from bantam.model.dialects.blockparameters import parameters_in
from bantam.model.dialects.blockreader import Block, read

# How the refusal of a block begins that may have lost its end.
CUT_OFF: Final = "not run: cut off: "
# write_file replaces all that there is.
WHOLE_FILE: Final = 10**15
_TOOLS: Final = {
    "WRITE": "write_file",
    "EDIT": "edit_file",
    "FILE": "read_file",
    "RUN": "shell_exec",
}
_NAME_CHARACTERS: Final = 200  # of what a refusal names
_KINDS: Final = {tool: kind for kind, tool in _TOOLS.items()}
OWN_TOOLS: Final = frozenset(_KINDS)  # that have a block of their own
_RUNS: Final = {"`": re.compile("`{3,}"), "~": re.compile("~{3,}")}


class Shown(NamedTuple):
    """A call as a block: what its result is headed by, and the text."""

    kind: str
    name: str
    text: str


def call_of(block: Block, call_id: str) -> ToolCall:
    """Return the call that `block` means; parameters that cannot be read stay as they are."""
    arguments: Mapping[str, Any] | None
    match block.kind:
        case "WRITE":
            arguments = {"path": block.name, "content": block.body, "del_bytes": WHOLE_FILE}
        case "EDIT":
            arguments = {"path": block.name, "edits": block.body}
        case "FILE":
            arguments = {"path": block.name}
        case "RUN":
            arguments = {"command": block.body.removesuffix("\n")}
        case _:
            arguments = parameters_in(block.body)
    text = block.body.strip() if arguments is None else json.dumps(arguments, ensure_ascii=False)
    return ToolCall(call_id, _TOOLS.get(block.kind, block.name), text)


def refusal_of(block: Block, *, may_be_cut: bool) -> str | None:
    """Return why the call of `block` must not run, None if it may.

    `may_be_cut`: the whole answer was cut off somewhere.
    """
    if block.idle:
        return (
            "not run: a RUN marker wants a ```bash fence with the commands on the next line; "
            f"here {block.idle} follows it"
        )
    if not block.cut and (block.is_sure or not may_be_cut):
        return None
    if block.kind == "RUN":
        return f"{CUT_OFF}the fence of this RUN has no end; send the RUN block again, whole"
    name = shortened(block.name, _NAME_CHARACTERS)
    return (
        f"{CUT_OFF}{block.kind} `{name}` did not arrive whole; "
        f"send that block again, whole, up to its line **EOF:`{name}`**"
    )


def shown(call: ToolCall) -> Shown:
    """Return a call, whose arguments are a JSON object, as the block that reads back as it."""
    arguments = parsed_arguments(call.arguments)
    kind = _KINDS.get(call.name, "")
    name = (arguments or {}).get("path", "") if kind != "RUN" else ""
    for text in _candidates(kind, name, arguments or {}) if isinstance(name, str) else ():
        blocks = read(text).blocks
        if len(blocks) == 1 and blocks[0].closed and blocks[0].kind == kind:
            again = call_of(blocks[0], call.id)
            if parsed_arguments(again.arguments) == arguments:
                return Shown(kind, name, text)
    one_line = json.dumps(arguments or {}, ensure_ascii=False)
    body = f"```json\n{one_line}\n```"
    return Shown("TOOL", call.name, f"**TOOL:`{call.name}`**\n{body}\n**EOF:`{call.name}`**")


def _candidates(kind: str, name: str, arguments: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts that may read back as the call."""
    opener, end = f"**{kind}:`{name}`**", f"**EOF:`{name}`**"
    match kind, arguments:
        case "WRITE", {"content": str(body)}:
            yield from (f"{opener}\n{fenced}\n{end}" for fenced in _fenced(body))
        case "EDIT", {"edits": str(body)}:
            yield from (f"{opener}\n{fenced}\n{end}" for fenced in _fenced(body))
        case "FILE", _:
            yield f"{opener}\n{end}"
        case "RUN", {"command": str(command)}:
            body = f"{command}\n" if command else ""
            yield from (f"**RUN:**\n{fenced}" for fenced in _fenced(body, "bash"))


def _fenced(body: str, info: str = "") -> Iterator[str]:
    """Yield `body`, whose lines have their ends, in a fence longer than any inside."""
    for character, runs in _RUNS.items():
        longest = max((len(run) for run in runs.findall(body)), default=2)
        fence = character * (longest + 1)
        yield f"{fence}{info}\n{body}{fence}"
