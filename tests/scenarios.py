"""The scenarios of the scripted server by name, for use by hand; each is also good in a test.

A script is a function of the request and its ordinal, without a state of its own: `steps` looks
at how far the turn in hand is, `attempts` at the ordinal alone, `refusing` at what the request
holds. So a conversation by hand can go on for as long as one likes.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from llmreplies import (
    END,
    JSON,
    USAGE,
    Reply,
    big_answer,
    big_line,
    calls,
    delta,
    error,
    event,
    raw,
    shell,
    text,
    write,
)

Script = Callable[[dict[str, Any], int], Reply]
Test = Callable[[dict[str, Any]], bool]
Scenario = tuple[str, Script]  # with its description

MODELS: Final = {"object": "list", "data": [{"id": "scripted", "context_length": 32768}]}


# -- scripts ----------------------------------------------------------------------------------


def steps(*replies: Reply) -> Script:
    """Answer a turn's first request by the first reply, and so on; the last one stays."""

    def script(asked: dict[str, Any], _: int) -> Reply:
        roles = [message["role"] for message in asked["messages"]]
        prompt = max((at for at, role in enumerate(roles) if role == "user"), default=0)
        return replies[min(roles[prompt:].count("assistant"), len(replies) - 1)]

    return script


def attempts(*replies: Reply) -> Script:
    """Answer by one reply after the other, round and round."""
    return lambda _, ordinal: replies[ordinal % len(replies)]


def has(key: str) -> Test:
    """Return the test whether a request has `key`."""
    return lambda asked: key in asked


def lacks_reasoning(asked: dict[str, Any]) -> bool:
    """Whether a past call is sent without the reasoning that led to it."""
    past = [message for message in asked["messages"] if "tool_calls" in message]
    return any("reasoning_content" not in message for message in past)


def echoes_reasoning(asked: dict[str, Any]) -> bool:
    """Whether reasoning is sent back."""
    return any("reasoning_content" in message for message in asked["messages"])


def recalls_an_answer(asked: dict[str, Any]) -> bool:
    """Whether the last assistant message is a text: what a client strips to be accepted."""
    past = [message for message in asked["messages"] if message["role"] == "assistant"]
    return bool(past) and "tool_calls" not in past[-1]


def overflows(asked: dict[str, Any]) -> bool:
    """Whether it is more than a system prompt, a summary and a prompt; a summary may be asked."""
    return asked.get("tool_choice") != "none" and len(asked["messages"]) > 3


# -- replies ----------------------------------------------------------------------------------


def limited(**headers: str) -> Reply:
    """Answer 429 with `headers`, `_` in their names standing for `-`."""
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return error(429, "Rate limit reached", headers=fields)


def page(status: int, body: str, content_type: str = "text/plain") -> Reply:
    """Answer `body` where JSON is expected."""
    return raw(body.encode(), status=status, content_type=content_type, framing="length")


def extra_field(*place: str | int) -> Reply:
    """Answer 422 as FastAPI does for a field at `place` that it does not know."""
    detail = [{"type": "extra_forbidden", "loc": ["body", *place], "msg": "extra field"}]
    return page(422, json.dumps({"detail": detail}), JSON)


_OK: Final = text("All is well.")


def refusing(refused: Test, refusal: Reply, *accepted: Reply) -> Script:
    """Answer `refusal` to the requests that are `refused`, to the others in `steps`."""
    answer = steps(*accepted or (_OK,))
    return lambda asked, ordinal: refusal if refused(asked) else answer(asked, ordinal)


_HALF: Final = len(_OK.body) // 2
_HEL: Final = delta(content="Hel")
_CUT: Final = '{"command": "echo never'
_THINKING: Final = (
    shell("echo thought", reasoning="A call is needed."),
    text("Done.", reasoning="It worked."),
)
_THREE: Final = calls(
    ("shell_exec", {"command": "echo one"}),
    ("write_file", {"path": "two.txt", "content": "two\n"}),
    ("shell_exec", {"command": "cat two.txt"}),
)
_AS_TEXT: Final = (
    '<tool_call>{"name": "shell_exec", "arguments": {"command": "echo hi"}}</tool_call>'
)
_UPSTREAM: Final = {"error": {"message": "the upstream server went away", "code": 502}}
_BUSY: Final = error(503, "Loading model", type="unavailable_error")
_TEMPLATE: Final = error(500, "Jinja Exception in the chat template: roles must alternate")
_QUOTA: Final = error(429, "quota of this account is used up", code="insufficient_quota")
_TEMPERATURE: Final = error(
    400,
    "Unsupported value: temperature 0.7 for this model, only 1 is accepted",
    param="temperature",
    code="unsupported_value",
)
_MAX_TOKENS: Final = error(
    400,
    "Unsupported parameter: max_tokens; this model wants max_completion_tokens",
    param="max_tokens",
    code="unsupported_parameter",
)
_TOO_LONG: Final = error(
    400,
    "maximum context length is 8192 tokens, this request has 9001",
    code="context_length_exceeded",
)
_EFFORT: Final = error(400, "Unrecognized request argument: reasoning_effort")
_NO_TOOLS: Final = error(400, "this model does not support tools")
_WANTS_REASONING: Final = error(400, "thinking mode: reasoning_content has to be passed back")
_INVALID: Final = error(400, "Invalid assistant message: content or tool_calls must be set")
_EXTRA_OPTIONS: Final = extra_field("stream_options", "include_usage")
_EXTRA_REASONING: Final = extra_field("messages", 3, "assistant", "reasoning_content")
_ELSEWHERE: Final = {"location": "http://127.0.0.1:9/v1/chat/completions"}
_CACHED: Final[Mapping[str, Any]] = {**USAGE, "prompt_tokens_details": {"cached_tokens": 8}}
_USAGES: Final[tuple[Mapping[str, Any] | None, ...]] = (
    _CACHED,
    {**USAGE, "prompt_cache_hit_tokens": 8, "prompt_cache_miss_tokens": 4},
    {**USAGE, "cached_tokens": 8},
    {**USAGE, "cache_read_input_tokens": 8},
    {"prompt_tokens": 12, "completion_tokens": None},
    None,
)
_USAGE_IN_CHOICE: Final = event({"choices": [{"index": 0, "delta": {}}], "usage": {**USAGE}})

# -- the table --------------------------------------------------------------------------------

SCENARIOS: Final[dict[str, Scenario]] = {
    # What a model does.
    "hello": ("a short text", attempts(text("Hello, **world**!"))),
    "tools": (
        "a shell call, a file, text",
        steps(shell("ls"), write("a.txt", "a\n", start=2), _OK),
    ),
    "twenty": (
        "20 shell calls, text",
        steps(*(shell(f"echo {n}", start=n) for n in range(1, 21)), _OK),
    ),
    "parallel-calls": ("three calls in one answer, text", steps(_THREE, _OK)),
    "reasoning": ("reasoning_content before a call and before text", steps(*_THINKING)),
    "think": ("reasoning as <think> text", attempts(text("<think>\nHm.\n</think>\nSo be it."))),
    "yes": ("a shell call of `yes`, text", steps(shell("yes"), _OK)),
    "unknown-tool": ("a call of a tool that is none, text", steps(calls(("fly", {})), _OK)),
    "bad-arguments": ("a call whose JSON is cut, text", steps(calls(("shell_exec", _CUT)), _OK)),
    "laundered": (
        "the same, finish_reason stop",
        steps(calls(("shell_exec", _CUT), finish="stop"), _OK),
    ),
    "length-call": (
        "the same, finish_reason length",
        steps(calls(("shell_exec", _CUT), finish="length"), _OK),
    ),
    "length": ("text cut by the token limit", attempts(text("And then", finish="length"))),
    "text-call": ("a call in <tool_call> tags, text", steps(text(_AS_TEXT), _OK)),
    "dollar": ("a command in the dollar dialect, text", steps(text("See:\n\n$ echo hi"), _OK)),
    "blocks": (
        "a command in the blocks dialect, text",
        steps(text("**RUN:**\n```sh\necho hi\n```"), _OK),
    ),
    "empty": ("neither text nor call", attempts(text(""))),
    # How it comes.
    "json": ("JSON whatever was asked", attempts(page(200, (_OK.whole or b"").decode(), JSON))),
    "sse": ("SSE whatever was asked", attempts(raw(_OK.body))),
    "bytewise": ("a byte at a time", attempts(replace(_OK, piece_size=1))),
    "packed": ("all in one chunk", attempts(replace(_OK, piece_size=1 << 20))),
    "late-role": (
        "reasoning before the role",
        attempts(raw(delta(reasoning_content="Hm.") + _OK.body)),
    ),
    "cached": ("usage with cached tokens", attempts(text("Cached.", usage=_CACHED))),
    "usage-shapes": (
        "usage in another shape each time",
        attempts(*(text("Counted.", usage=u) for u in _USAGES)),
    ),
    "usage-choices": (
        "usage beside choices",
        attempts(raw(_USAGE_IN_CHOICE + text("Counted.", usage=None).body)),
    ),
    "no-done": ("a finish_reason, no [DONE]", attempts(text("All of it.", done=False))),
    "done-only": ("[DONE], no finish_reason", attempts(text("All of it.", finish=None))),
    "hold-open": ("the body does not end behind [DONE]", attempts(replace(_OK, stall_after=END))),
    "big-line": ("one line of 300 MiB", attempts(big_line(300))),
    "big-answer": ("20 MiB of text", attempts(big_answer(20))),
    # What goes wrong on the way.
    "cut": ("FIN in mid-stream, then text", attempts(replace(_OK, cut_after=_HALF), _OK)),
    "reset": ("RST in mid-stream, then text", attempts(replace(_OK, reset_after=_HALF), _OK)),
    "unfinished": ("half an answer, properly ended, then text", attempts(raw(_HEL), _OK)),
    "stall": ("silence in mid-stream", attempts(replace(_OK, stall_after=_HALF))),
    "silence": ("not even headers", attempts(replace(_OK, hold=True))),
    "pings": ("comments only", attempts(replace(_OK, stall_after=0, trickle=True))),
    "empty-stream": ("a stream without an event", attempts(raw(b""))),
    "error-in-stream": (
        "an error event behind text, then text",
        attempts(raw(_HEL + event(_UPSTREAM)), _OK),
    ),
    "json-error-200": (
        "an error object, status 200, then text",
        attempts(page(200, json.dumps(_UPSTREAM), JSON), _OK),
    ),
    # What may pass.
    "retry-503": ("503 twice, then text", attempts(_BUSY, _BUSY, _OK)),
    "retry-529": ("529, then text", attempts(error(529, "Overloaded"), _OK)),
    "retry-after": ("429 for 2 s, then text", attempts(limited(retry_after="2"), _OK)),
    "retry-after-ms": ("429 for 1.5 s, then text", attempts(limited(retry_after_ms="1500"), _OK)),
    "retry-tomorrow": ("429 for a day", attempts(limited(retry_after="86400"))),
    "outage": ("503 for ever", attempts(_BUSY)),
    "plain-500": ("a plain text, then text", attempts(page(500, "out of memory\n"), _OK)),
    "empty-500": ("an empty body, then text", attempts(page(500, ""), _OK)),
    "html-502": (
        "an error page",
        attempts(page(502, "<!DOCTYPE html><h1>Bad Gateway</h1>", "text/html")),
    ),
    "template-500": ("an error of the chat template", attempts(_TEMPLATE)),
    # What will not.
    "quota": ("429, the credit is used up", attempts(_QUOTA)),
    "401": ("the key is refused", attempts(error(401, "API key is wrong"))),
    "404": ("a wrong URL", attempts(page(404, "not found"))),
    "redirect": ("302, not to be followed", attempts(replace(page(302, ""), headers=_ELSEWHERE))),
    # What has a cure: accepted once it is taken.
    "temperature-400": ("temperature is refused", refusing(has("temperature"), _TEMPERATURE)),
    "stream-options-422": (
        "stream_options is refused",
        refusing(has("stream_options"), _EXTRA_OPTIONS),
    ),
    "max-tokens": ("max_tokens has a new name", refusing(has("max_tokens"), _MAX_TOKENS)),
    "effort-refused": ("reasoning_effort is refused", refusing(has("reasoning_effort"), _EFFORT)),
    "tools-refused": ("tools are refused", refusing(has("tools"), _NO_TOOLS)),
    "reasoning-required": (
        "reasoning must come back",
        refusing(lacks_reasoning, _WANTS_REASONING, *_THINKING),
    ),
    "reasoning-refused": (
        "reasoning must not come back",
        refusing(echoes_reasoning, _EXTRA_REASONING, *_THINKING),
    ),
    "strip-assistant": (
        "the last answer must not come back",
        refusing(recalls_an_answer, _INVALID),
    ),
    "overflow": ("the second prompt is over the window", refusing(overflows, _TOO_LONG)),
}
