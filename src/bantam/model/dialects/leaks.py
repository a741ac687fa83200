r"""Native calls that a model or its server wrote into the text: JSON, XML and bracket forms.

Small models know the tools and write the call out; some servers do not parse what their models'
templates produce. Only what cannot be meant otherwise is read: one call and nothing else but a
sentence before it, of a tool that there is, with arguments that fit. What merely looks like a call
runs nothing.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from bantam.core.messages import parsed_arguments
from bantam.model.dialects.dialect import Tools

# Qwen, Hermes and many others; Llama; Mistral; MiniMax; DeepSeek, whose bars are full-width.
_MARKER: Final = re.compile(
    r"<(?:tool_calls?|tool_use|function_calls?|minimax:tool_call)>|<(?:\w+:)?invoke\s+name=|<function="
    r"|\[(?:TOOL_CALLS?|function_calls?)\]|<[|\uff5c](?:DSML|tool[_\u2581]calls?)[^\n>]*>",
    re.IGNORECASE,
)
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_TICKS: Final = re.compile("(`+)")
_START: Final = re.compile(r"[{<\[]|```")  # where a call may begin
# What stands around a JSON object; the end may be missing.
_AROUND: Final[tuple[tuple[str, str], ...]] = (
    ("", ""),
    ("```json", "```"),
    ("```tool_call", "```"),
    ("```", "```"),
    ("<tool_call>", "</tool_call>"),
    ("<function_call>", "</function_call>"),
    ("[tool_call]", "[/tool_call]"),
    ("[tool_calls]", "[/tool_calls]"),
)
# What stands around a call whose parameters are elements.
_ELEMENTS: Final = (
    ("", ""),
    ("<tool_call>", "</tool_call>"),
    ("<function_calls>", "</function_calls>"),
    ("<minimax:tool_call>", "</minimax:tool_call>"),
)
_ELEMENT: Final = re.compile(
    r"<(function|invoke)(?:=|\s+name=)[\"']?([\w-]+)[\"']?>", re.IGNORECASE
)
_PARAMETER: Final = re.compile(r"<parameter(?:=|\s+name=)[\"']?([\w-]+)[\"']?>", re.IGNORECASE)
_MEMBERS: Final = frozenset({"id", "type", "name", "arguments", "parameters"})
_SENTENCE_CHARACTERS: Final = 300
# Not one sentence that announces a call: more of them, a question, a sign of a quote or a list.
_NO_SENTENCE: Final = re.compile(
    r"[.!?]\s+\S|[\u3002\uff01\uff1f].|\n|[?\uff1f]\Z|\A(?:[>*#|+-]|\d+[.)])", re.DOTALL
)
_TYPES: Final[dict[str, type]] = {"string": str, "integer": int}


def leaked_call(text: str, tools: Tools) -> tuple[str, str, str] | None:
    """Return the one call that `text` is: the sentence before, the name, the arguments in JSON.

    None if it is none.

    >>> tools = [{"function": {"name": "f", "parameters": {"properties": {}, "required": []}}}]
    >>> leaked_call('I call it. {"name": "f", "arguments": {}}', tools)
    ('I call it.', 'f', '{}')
    """
    before, written = _parted(text)
    for name, arguments in _readings(written):
        schema = next((t["function"] for t in tools if t["function"]["name"] == name), None)
        if schema is not None and _fits(arguments, schema["parameters"]):
            return before, name, json.dumps(arguments, ensure_ascii=False)
    return None


def looks_like_call(text: str) -> bool:
    """Whether `text` is one call, if of no tool that there is, or holds what looks like one."""
    return is_call(text) or holds_marker(text)


def is_call(text: str) -> bool:
    """Whether `text` has the form of one call, whatever it names.

    >>> is_call('{"name": "no_tool", "arguments": {}}'), is_call('{"name": "x"}')
    (True, False)
    """
    return any(_readings(_parted(text)[1]))


def holds_marker(text: str) -> bool:
    """Whether something in `text` looks like a call, outside of fences and inline code.

    >>> holds_marker("<tool_call>"), holds_marker("The tag `<tool_call>` begins a call.")
    (True, False)
    """
    return any(_MARKER.search(line) for line in _unquoted(text))


def _parted(text: str) -> tuple[str, str]:
    """Return the sentence before what may be a call, and that; nothing if more stands before."""
    text = text.strip()
    start = _START.search(text)
    before = text[: start.start()].strip() if start else text
    return (before, text[start.start() :]) if start and _is_sentence(before) else (before, "")


def _is_sentence(text: str) -> bool:
    return len(text) <= _SENTENCE_CHARACTERS and not _NO_SENTENCE.search(text)


def _readings(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what `text`, all of it, may be: a name and arguments."""
    for around in _AROUND:
        if (inner := _inside(text, around)) is not None:
            is_list = around[0] == "[tool_calls]" and inner.startswith("[") and inner.endswith("]")
            yield from _named_in(inner[1:-1].strip() if is_list else inner)  # Mistral: of one
    for around in _ELEMENTS:
        if (inner := _inside(text, around)) is not None:
            yield from _elements_in(inner)


def _inside(text: str, around: tuple[str, str]) -> str | None:
    """Return what stands between the beginning and the end, None if `text` begins otherwise."""
    begin, end = around
    if text[: len(begin)].lower() != begin:
        return None
    inner = text[len(begin) :]
    if not end or not inner.lower().endswith(end):
        # The end of a tag is a token of its own, which some servers swallow; a fence is closed.
        return None if end == "```" else inner.strip()
    return inner[: -len(end)].strip()


def _named_in(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    call = parsed_arguments(text) or {}
    arguments = call.get("arguments", call.get("parameters"))
    if isinstance(arguments, str):
        arguments = parsed_arguments(arguments)
    if call.keys() <= _MEMBERS and isinstance(arguments, dict):
        yield str(call.get("name")), arguments


def _elements_in(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    head = _ELEMENT.match(text)
    if head is None or not text.lower().endswith(end := f"</{head[1].lower()}>"):
        return
    before, *rest = _PARAMETER.split(text[head.end() : -len(end)])
    arguments: dict[str, Any] = {}
    stray = before.strip()
    for name, part in zip(rest[::2], rest[1::2], strict=True):
        value, _, behind = part.partition("</parameter>")
        stray += behind.strip() + (name if name in arguments else "")
        arguments[name] = value.removeprefix("\n").removesuffix("\n")
    if not stray:
        yield head[2], arguments


def _fits(arguments: dict[str, Any], schema: Mapping[str, Any]) -> bool:
    """Whether `arguments` fit; numbers written as text become numbers."""
    properties = schema["properties"]
    if not set(schema["required"]) <= arguments.keys() <= properties.keys():
        return False
    for name, value in arguments.items():
        kind = properties[name]["type"]
        if kind == "integer" and isinstance(value, str) and re.fullmatch("[0-9]{1,15}", value):
            arguments[name] = int(value)
        elif not isinstance(value, _TYPES[kind]) or isinstance(value, bool):
            return False
    return True


def _unquoted(text: str) -> Iterator[str]:
    """Yield the lines of `text` that stand in no fence, without their inline code."""
    fence = ""
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if fence:
            closes = mark and mark[1].startswith(fence) and not mark[2].strip()
            fence = "" if closes else fence
        elif mark:
            fence = mark[1]
        else:
            yield _without_code(line)


def _without_code(line: str) -> str:
    """Return `line` without what stands between two equal runs of backticks (CommonMark 6.1)."""
    parts = _TICKS.split(line)  # text, ticks, text, ...
    last = {ticks: at for at, ticks in enumerate(parts) if at % 2}
    kept, at = [parts[0]], 1
    while at < len(parts):
        ticks = parts[at]
        if last[ticks] > at:
            at = parts.index(ticks, at + 1) if parts[at + 2] != ticks else at + 2
        kept.append(parts[at + 1])
        at += 2
    return "".join(kept)
