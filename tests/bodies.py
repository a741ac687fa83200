"""Bodies of answers, built from what they say, and the answer that comes out of one."""

import json

from bantam.core.messages import Message
from bantam.model.completions import Assembler


def event(delta: object = None, finish: str | None = None, **more: object) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + json.dumps({"choices": [choice], **more}).encode() + b"\n\n"


def data(value: object) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"
STOP = event({}, "stop")
HI = event({"content": "hi"})


def whole(message: object, **more: object) -> bytes:
    return json.dumps({"choices": [{"message": message, **more}]}).encode()


def answer(body: bytes, content_type: str = "") -> Message:
    assembler = Assembler(content_type=content_type)
    assembler.feed(body)
    assembler.close()
    return assembler.message
