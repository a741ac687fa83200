"""Replies hold what they say; the scenarios answer, accept the cures, and serve by hand."""

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import pytest
from llmreplies import DONE, Reply, big_answer, big_line, calls, text, write
from llmserver import LLMServer, main
from scenarios import SCENARIOS

USER: dict[str, Any] = {"role": "user", "content": "hi"}
TEXT: dict[str, Any] = {"role": "assistant", "content": "yes"}
FUNCTION = {"name": "f", "arguments": "{}"}
CALL: dict[str, Any] = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"id": "a", "type": "function", "function": FUNCTION}],
}
RESULT: dict[str, Any] = {"role": "tool", "tool_call_id": "a", "content": ""}


def deltas(body: bytes) -> Iterator[dict[str, Any]]:
    for line in body.splitlines():
        if line.startswith(b"data: {"):
            yield from (choice["delta"] for choice in json.loads(line[6:])["choices"])


def test_a_text_comes_in_pieces() -> None:
    pieces = list(deltas(text("Héllo", reasoning="Hm.", pieces=2).body))
    assert [d["content"] for d in pieces if d.get("content")] == ["Hél", "lo"]
    assert [d["reasoning_content"] for d in pieces if "reasoning_content" in d] == ["Hm", "."]


def test_calls_come_with_ids_and_arguments_in_pieces() -> None:
    reply = calls(("a", {"x": "é" * 9}), ("b", '{"cut'), content="See.", reasoning="Hm.", start=4)
    pieces = [c for d in deltas(reply.body) for c in d.get("tool_calls", ())]
    assert [(c["index"], c["id"]) for c in pieces if "id" in c] == [(0, "call_4"), (1, "call_5")]
    joined = [
        "".join(c["function"]["arguments"] for c in pieces if c["index"] == i) for i in (0, 1)
    ]
    assert joined == ['{"x": "' + "é" * 9 + '"}', '{"cut']
    whole = json.loads(reply.whole or b"")["choices"][0]
    assert [c["function"]["arguments"] for c in whole["message"]["tool_calls"]] == joined
    assert (whole["message"]["content"], whole["finish_reason"]) == ("See.", "tool_calls")


def test_write_sends_only_the_numbers_that_are_given() -> None:
    whole = json.loads(write("a", "b", offset=0).whole or b"")
    function = whole["choices"][0]["message"]["tool_calls"][0]["function"]
    assert json.loads(function["arguments"]) == {"path": "a", "content": "b", "offset": 0}


def test_finish_reason_usage_and_done_can_be_left_out() -> None:
    bare = text("x", finish=None, usage=None, done=False)
    assert b'"stop"' not in bare.body
    assert b"usage" not in bare.body + (bare.whole or b"")
    assert DONE not in bare.body


def test_big_bodies_are_as_big_as_they_say_and_made_while_sent() -> None:
    line = max(part.count(b"x") for part in islice(big_line(300).pieces(), 5000))
    assert line == 1 << 16
    assert sum(part.count(b"x") for part in big_line(3).pieces()) >= 3 << 20
    assert sum(part.count(b"letters") * 17 for part in big_answer(3).pieces()) >= 3 << 20


def reply(name: str, *messages: dict[str, Any], ordinal: int = 0, **members: Any) -> Reply:
    asked = {"model": "m", "messages": [*(messages or (USER,))], "stream": True, **members}
    return SCENARIOS[name][1](asked, ordinal)


@pytest.mark.parametrize("name", [name for name in SCENARIOS if not name.startswith("big-")])
def test_every_scenario_answers_over_the_wire(name: str) -> None:
    asked = {"model": "m", "messages": [USER], "stream": True}
    description, script = SCENARIOS[name]
    assert description
    with LLMServer(script) as server, httpx.Client(trust_env=False) as client:
        server.release()
        try:
            answer = client.post(f"{server.url}/chat/completions", json=asked)
        except httpx.HTTPError:
            assert name in {"cut", "reset"}
        else:
            assert answer.status_code == reply(name).status
            assert answer.content.endswith(reply(name).body)


@pytest.mark.parametrize("name", ["tools", "yes", "parallel-calls", "reasoning", "bad-arguments"])
def test_calls_end_in_a_text_in_every_turn(name: str) -> None:
    turn = [USER, CALL, RESULT, CALL, RESULT]
    assert b"tool_calls" in reply(name).body
    assert b"tool_calls" not in reply(name, *turn).body
    assert b"tool_calls" in reply(name, *turn, TEXT, USER).body


def test_twenty_takes_twenty_rounds() -> None:
    rounds = [b"tool_calls" in reply("twenty", USER, *[CALL, RESULT] * n).body for n in range(22)]
    assert rounds == [True] * 20 + [False] * 2


@pytest.mark.parametrize(
    ("name", "statuses"), [("retry-503", [503, 503, 200, 503]), ("outage", [503, 503, 503, 503])]
)
def test_attempts_go_round(name: str, statuses: list[int]) -> None:
    assert [reply(name, ordinal=ordinal).status for ordinal in range(4)] == statuses


@pytest.mark.parametrize(
    ("name", "refused", "accepted"),
    [
        ("temperature-400", {"temperature": 0.7}, {}),
        ("stream-options-422", {"stream_options": {"include_usage": True}}, {}),
        ("max-tokens", {"max_tokens": 9}, {"max_completion_tokens": 9}),
        ("effort-refused", {"reasoning_effort": "high"}, {}),
        ("tools-refused", {"tools": []}, {}),
    ],
)
def test_a_refused_member_is_accepted_when_it_is_gone(
    name: str, refused: dict[str, Any], accepted: dict[str, Any]
) -> None:
    assert reply(name, **refused).status in {400, 422}
    assert reply(name, **accepted).status == 200


@pytest.mark.parametrize(
    ("name", "refused", "accepted"),
    [
        ("reasoning-required", [CALL, RESULT], [CALL | {"reasoning_content": "Hm."}, RESULT]),
        ("reasoning-refused", [CALL | {"reasoning_content": "Hm."}, RESULT], [CALL, RESULT]),
        ("strip-assistant", [TEXT, USER], []),
        ("strip-assistant", [TEXT, USER], [CALL, RESULT]),
        ("overflow", [TEXT, USER, TEXT, USER], [TEXT, USER]),
    ],
)
def test_a_refused_history_is_accepted_when_it_is_mended(
    name: str, refused: list[dict[str, Any]], accepted: list[dict[str, Any]]
) -> None:
    assert reply(name, USER, *refused).status in {400, 422}
    assert reply(name, USER, *accepted).status == 200


def test_a_history_over_the_window_may_be_summarised() -> None:
    assert reply("overflow", USER, TEXT, USER, TEXT, USER, tool_choice="none").status == 200


def test_the_list_names_every_scenario(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(SCENARIOS)


def test_no_scenario_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([])
    assert caught.value.code == 2
    assert "--list" in capsys.readouterr().err


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_by_hand_it_says_where_it_serves_and_stops_quietly(stop: signal.Signals) -> None:
    command = [sys.executable, str(Path(__file__).with_name("llmserver.py")), "silence"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert httpx.get(f"{url}/models", trust_env=False).json()["data"][0]["id"] == "scripted"
        port = int(url.rpartition(":")[2].partition("/")[0])
        with socket.create_connection(("127.0.0.1", port), timeout=10):
            process.send_signal(stop)
            out, err = process.communicate(timeout=10)
        assert (process.returncode, out, err) == (0, "", "")
