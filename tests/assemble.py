"""Bytes of an answer on standard input -> the JSON object that the stream cases describe.

`CHUNK` in the environment is the read size, 0 for the whole at once.
"""

import json
import os
import sys
from typing import Any

from bantam.core.errors import ModelError
from bantam.core.events import ReasoningDelta, TextDelta
from bantam.model.completions import Assembler
from bantam.model.usage import Usage


def parts_of(body: bytes, size: int) -> list[bytes]:
    """Cut `body` into reads of `size` bytes; 0: one read."""
    size = size or len(body) or 1
    return [body[start : start + size] for start in range(0, len(body), size)]


def assembled(parts: list[bytes]) -> dict[str, Any]:
    """Return what comes out of an answer that arrives in `parts`."""
    assembler = Assembler()
    deltas: list[ReasoningDelta | TextDelta] = []
    error = None
    try:
        for part in parts:
            deltas += assembler.feed(part)
        deltas += assembler.close()
    except ModelError as raised:
        error = str(raised)
    usage = assembler.usage or Usage(None, None, None)
    calls = () if error else assembler.message.tool_calls
    return {
        "content": "".join(delta.text for delta in deltas if isinstance(delta, TextDelta)),
        "reasoning": "".join(d.text for d in deltas if isinstance(d, ReasoningDelta)),
        "tool_calls": [{"id": c.id, "name": c.name, "arguments": c.arguments} for c in calls],
        "finish_reason": assembler.finish_reason,
        "usage": {
            "prompt": usage.prompt,
            "completion": usage.completion,
            "cached": usage.cached,
        },
        "error": error,
    }


if __name__ == "__main__":
    cut = parts_of(sys.stdin.buffer.read(), int(os.environ.get("CHUNK", "0")))
    sys.stdout.write(json.dumps(assembled(cut)))
