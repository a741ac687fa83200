"""What the scripted server refuses is what strict servers refuse."""

from typing import Any

import httpx
import pytest
from llmserver import LLMServer, validate

USER: dict[str, Any] = {"role": "user", "content": "hi"}


def assistant(*ids: str, content: str = "", arguments: str = "{}") -> dict[str, Any]:
    function = {"name": "f", "arguments": arguments}
    wanted = [{"id": i, "type": "function", "function": function} for i in ids]
    return {"role": "assistant", "content": content} | ({"tool_calls": wanted} if ids else {})


def tool(call_id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": ""}


def test_a_sound_conversation_has_no_fault() -> None:
    system = {"role": "system", "content": "s"}
    work = [assistant("a", "b"), tool("b"), tool("a"), assistant(content="done")]
    assert validate([system, USER, *work, USER, *work]) == []


@pytest.mark.parametrize(
    ("messages", "fault"),
    [
        ([USER, assistant("a", "b"), tool("a"), USER], "messages[3]: R1: user before"),
        ([USER, assistant("a")], "messages[1]: R1: no answer to a"),
        ([USER, tool("a")], "messages[1]: R2"),
        ([USER, assistant("a"), tool("a"), tool("a")], "messages[3]: R2"),
        ([USER, assistant(content=" ")], "messages[1]: R3"),
        ([USER, USER], "messages[1]: R4"),
        ([USER, assistant("a", "a"), tool("a"), tool("a")], "two calls of one id"),
        ([USER, assistant("a", arguments=""), tool("a")], "no JSON object"),
        ([USER, assistant("a", arguments="[]"), tool("a")], "no JSON object"),
        ([USER, assistant("a", arguments='{"x": "\\ud83d"}'), tool("a")], "surrogate"),
        ([{"role": "user", "content": "\ud83d"}], "surrogate"),
        ([{"role": "user", "content": None}], "content is no string"),
        ([{"role": "robot", "content": ""}], "no message of a known role"),
        ([USER, {"role": "assistant", "content": "x", "tool_calls": []}], "holds one"),
        (
            [USER, {"role": "assistant", "content": "x", "tool_calls": [{"id": "a"}]}],
            "no tool call",
        ),
        ([], "holds one"),
        (None, "holds one"),
    ],
)
def test_each_broken_rule_is_named(messages: Any, fault: str) -> None:
    faults = validate(messages)
    assert len(faults) == 1
    assert fault in faults[0]


@pytest.mark.parametrize(
    "body",
    [b"{", b"[]", b"{}", b'{"model": NaN}', b'{"model": "\xe9"}', b'{"model": "m"}'],
)
def test_a_body_that_is_no_request_is_refused(body: bytes) -> None:
    with LLMServer([], strict=False) as server, httpx.Client(trust_env=False) as client:
        headers = {"content-type": "application/json"}
        url = f"{server.url}/chat/completions"
        assert client.post(url, content=body, headers=headers).status_code == 400


def test_a_request_that_does_not_say_that_it_is_json_is_refused() -> None:
    with LLMServer([], strict=False) as server, httpx.Client(trust_env=False) as client:
        client.post(f"{server.url}/chat/completions", content=b'{"model": "m"}')
    assert server.faults == ["invalid request 1: the content type is not application/json"]
