"""Answers that are no answer, end to end: repeated, waited for, cured or told, as one user sees it.

The public cases, then what they are examples of.
"""

import json
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from llmreplies import JSON, Reply, delta, error, raw, shell, text
from llmserver import LLMServer
from processes import eventually
from proxies import unused_port
from scenarios import SCENARIOS, limited
from turns import agent_at, done, error_of, notices, retries, shown, turn

from bantam.core.cancel import Cancel
from bantam.core.errors import ExitStatus
from bantam.core.events import Compacted, Event, Replied, Request, Stop
from bantam.core.messages import Message, Role, ToolCall
from bantam.core.repair import repaired

CASES = {
    case["id"]: case
    for case in map(
        json.loads, (Path(__file__).parent / "cases" / "replies.jsonl").read_text().splitlines()
    )
}
OK = text("All is well.")
SYSTEM = Message(Role.SYSTEM, "s")
# A conversation with everything that a server may dislike.
HISTORY = (
    SYSTEM,
    Message(Role.USER, "First."),
    Message(Role.ASSISTANT, reasoning="Hm.", tool_calls=(ToolCall("call_1", "shell_exec", "{}"),)),
    Message(Role.TOOL, "out", tool_call_id="call_1"),
    Message(Role.ASSISTANT, "Yes.", reasoning="So it is."),
)


def reply_of(case: dict[str, Any]) -> Reply:
    """Return the first answer of a case's server."""
    told = case["reply"]
    if "stream" in told:
        return raw(
            told["bytes"].encode(),
            reset_after=len(told["bytes"]) if told["then"] == "reset" else None,
            stall_after=len(told["bytes"]) if told["then"] == "silence" else None,
        )
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=6), usegmt=True)
    headers = {
        name: later if value.startswith("@now+6s") else value
        for name, value in told["headers"].items()
    }
    body = told.get("body_text") or json.dumps(told["body"])
    return raw(
        body.encode(), status=told["status"], headers=headers, content_type=JSON, framing="length"
    )


def bodies(server: LLMServer) -> list[dict[str, Any]]:
    return [request.json for request in server.chat]


# -- the public cases -------------------------------------------------------------------------


def with_expectation(*names: str) -> list[str]:
    return [key for key, case in CASES.items() if any(name in case["expect"] for name in names)]


@pytest.mark.parametrize("case", with_expectation("wait_min"))
def test_a_case_that_may_pass_is_repeated_after_its_wait(case: str, tmp_path: Path) -> None:
    expect = CASES[case]["expect"]
    with (
        LLMServer([reply_of(CASES[case]), OK]) as server,
        agent_at(server.url, tmp_path) as agent,
    ):
        events = turn(agent)
        first, second = server.chat
    assert expect["wait_min"] <= second.at - first.at < expect["wait_max"]
    assert first.body == second.body
    assert done(events).stop is Stop.FINAL
    assert len(retries(events)) == 1


@pytest.mark.parametrize("case", ["r05", "r10", "r11"])
def test_a_final_case_is_told_and_not_repeated(case: str, tmp_path: Path) -> None:
    with (
        LLMServer([reply_of(CASES[case])]) as server,
        agent_at(server.url, tmp_path) as agent,
    ):
        events = turn(agent)
    said = error_of(events).lower()
    assert any(word in said for word in CASES[case]["expect"]["message_has"].split("|"))
    status = ExitStatus.KEY_REFUSED if case == "r10" else ExitStatus.FAILED
    assert done(events).exit_code == status


@pytest.mark.parametrize("case", with_expectation("drop", "rename"))
def test_a_case_of_an_unknown_member_is_cured_at_once_for_the_run(
    case: str, tmp_path: Path
) -> None:
    expect = CASES[case]["expect"]
    options = [f"{name}=9" for name in expect.get("rename", ())]
    with (
        LLMServer([reply_of(CASES[case]), OK, OK]) as server,
        agent_at(server.url, tmp_path, *options) as agent,
    ):
        events, later = turn(agent), turn(agent)
        first, *others = bodies(server)
    gone = {*expect.get("drop", ()), *expect.get("rename", ())}
    new = {expect["rename"][name]: 9 for name in expect.get("rename", ())}
    for body in others:
        assert body == {k: v for k, v in first.items() if k not in gone} | new | {
            "messages": body["messages"]
        }
    assert len(others) == 2
    assert len(notices(events)) == 1
    assert all(name in notices(events)[0] for name in gone | set(new))
    assert not retries(events)
    assert not notices(later)


def test_the_case_of_a_refused_assistant_message(tmp_path: Path) -> None:
    with (
        LLMServer([reply_of(CASES["r18"]), OK]) as server,
        agent_at(server.url, tmp_path, history=HISTORY) as agent,
    ):
        events = turn(agent)
        first, second = (body["messages"] for body in bodies(server))
    assert [m["role"] for m in first] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
    ]
    assert second == first[:4] + first[5:]
    assert len(notices(events)) == 1
    assert agent.log.messages[4] == HISTORY[4]  # what is stored stays


def test_the_case_of_a_refused_assistant_message_ends_if_that_does_not_help(
    tmp_path: Path,
) -> None:
    with (
        LLMServer([reply_of(CASES["r18"])], repeat_last=True) as server,
        agent_at(server.url, tmp_path, history=HISTORY) as agent,
    ):
        assert "content or tool_calls" in error_of(turn(agent))
        assert len(server.chat) == 2


def test_the_case_of_reasoning_that_is_wanted_back(tmp_path: Path) -> None:
    with (
        LLMServer([reply_of(CASES["r20"]), OK, OK]) as server,
        agent_at(server.url, tmp_path, history=HISTORY) as agent,
    ):
        events = turn(agent)
        turn(agent)
        first, *others = (body["messages"] for body in bodies(server))
    assert not any("reasoning_content" in message for message in first)
    for messages in others:
        assert messages[2]["reasoning_content"] == "Hm."
        assert messages[4]["reasoning_content"] == "So it is."
    assert len(notices(events)) == 1


def test_the_case_of_reasoning_that_is_refused(tmp_path: Path) -> None:
    with (
        LLMServer([reply_of(CASES["r20"]), reply_of(CASES["r21"]), OK]) as server,
        agent_at(server.url, tmp_path, history=HISTORY) as agent,
    ):
        events = turn(agent)
        sent = ["reasoning_content" in body["messages"][2] for body in bodies(server)]
    assert sent == [False, True, False]
    assert len(notices(events)) == 2
    assert done(events).stop is Stop.FINAL


def test_the_case_of_a_template_error_is_repeated_once(tmp_path: Path) -> None:
    with (
        LLMServer([reply_of(CASES["r23"])], repeat_last=True) as server,
        agent_at(server.url, tmp_path) as agent,
    ):
        events = turn(agent)
        assert len(server.chat) == 2
    assert "Jinja" in error_of(events)
    assert [(r.attempt, r.of) for r in retries(events)] == [(1, 1)]


def test_the_case_of_a_prompt_over_the_window_compacts_then_repeats(tmp_path: Path) -> None:
    with (
        LLMServer([reply_of(CASES["r24"]), text("Yes was said."), OK]) as server,
        agent_at(server.url, tmp_path, history=HISTORY) as agent,
    ):
        events = turn(agent)
        first, summary, second = bodies(server)
    compactions = [event for event in events if isinstance(event, Compacted)]
    assert len(compactions) == CASES["r24"]["expect"]["compacts_then_repeats"]
    assert summary["tool_choice"] == "none"
    assert [m["role"] for m in second["messages"]] == ["system", "user"]
    assert second["messages"][1]["content"].endswith("Go on.")
    assert second | {"messages": []} == first | {"messages": []}
    assert "longer than the model's context window: compacting" in notices(events)[0]
    assert done(events).text == "All is well."
    assert not retries(events)


def test_the_case_of_a_prompt_over_the_window_that_compacting_does_not_mend_is_told(
    tmp_path: Path,
) -> None:
    with (
        LLMServer([reply_of(CASES["r24"])], repeat_last=True) as server,
        agent_at(server.url, tmp_path, history=HISTORY) as agent,
    ):
        events = turn(agent)
        sent = [request.body for request in server.chat]
    assert len(set(sent)) == len(sent) == 2  # the prompt, and the summary: there is nothing to cut
    assert "maximum context length is 8192 tokens" in error_of(events)
    assert "context window" in error_of(events)
    assert [*agent.log.messages] == [*HISTORY, Message(Role.USER, "Go on.")]


def test_the_case_of_a_first_prompt_over_the_window_is_told_and_not_repeated(
    tmp_path: Path,
) -> None:
    with (
        LLMServer([reply_of(CASES["r24"])], repeat_last=True) as server,
        agent_at(server.url, tmp_path) as agent,
    ):
        events = turn(agent)
        assert len(server.chat) == 1
    assert "context" in error_of(events)
    assert not retries(events)


def test_the_case_of_a_reset_stores_the_text_once(tmp_path: Path) -> None:
    with (
        LLMServer([reply_of(CASES["r25"]), text("Hello again")]) as server,
        agent_at(server.url, tmp_path) as agent,
    ):
        events = turn(agent)
    stored = [m.content for m in agent.log.messages if m.role is Role.ASSISTANT]
    assert stored == ["Hello again"]
    assert [e.message.content for e in events if isinstance(e, Replied)] == stored
    assert len(retries(events)) == 1


def test_the_case_of_a_stall_ends_within_the_time_out(tmp_path: Path) -> None:
    with (
        LLMServer([reply_of(CASES["r26"])]) as server,
        agent_at(server.url, tmp_path, "timeout=0.5") as agent,
    ):
        began = monotonic()
        events = turn(agent)
        assert 0.5 <= monotonic() - began < 0.5 + CASES["r26"]["expect"]["ends_within_timeout_plus"]
    assert done(events).exit_code == ExitStatus.TRY_LATER
    assert agent.log.messages[-1].role is Role.USER


def test_the_case_of_an_interrupt_in_a_pause_ends_it_at_once(tmp_path: Path) -> None:
    cancel = Cancel()
    with (
        LLMServer([limited(retry_after="50")]) as server,
        agent_at(server.url, tmp_path) as agent,
        closing(agent.turn("Go on.", cancel)) as running,
    ):
        events = list(until(running, lambda event: bool(retries([event]))))
        threading.Timer(0.2, cancel.set).start()
        began = monotonic()
        events += running
        assert monotonic() - began < CASES["r28"]["expect"]["max_seconds"]
    assert done(events).stop is Stop.INTERRUPTED
    assert done(events).exit_code == ExitStatus.INTERRUPTED


def until(events: Any, ready: Callable[[Event], bool]) -> Any:
    """Yield events up to the first that is `ready`, and leave the rest."""
    for event in events:
        yield event
        if ready(event):
            return


def test_every_public_case_is_held_by_a_test_above() -> None:
    named = {"r18", "r20", "r21", "r23", "r24", "r25", "r26", "r28", "r05", "r10", "r11"}
    assert named | set(with_expectation("wait_min", "drop", "rename")) == set(CASES)


# -- repeats ----------------------------------------------------------------------------------


def after(replies: Sequence[Reply], folder: Path, *options: str) -> tuple[list[Event], int]:
    """Return the events of a turn against `replies`, the last for ever, and how many were used."""
    with (
        LLMServer(replies, repeat_last=True) as server,
        agent_at(server.url, folder, *options) as agent,
    ):
        events = turn(agent)
        return events, len(server.chat)


@pytest.mark.parametrize("name", ["cut", "reset", "unfinished", "plain-500", "error-in-stream"])
def test_what_breaks_once_is_repeated_once_and_stored_once(name: str, tmp_path: Path) -> None:
    with (
        LLMServer(SCENARIOS[name][1]) as server,
        agent_at(server.url, tmp_path) as agent,
    ):
        events = turn(agent)
        assert len(server.chat) == 2
    assert [m.content for m in agent.log.messages if m.role is Role.ASSISTANT] == ["All is well."]
    assert len(retries(events)) == 1


@pytest.mark.parametrize("status", [502, 503])
def test_an_error_page_is_repeated_once_and_told_by_its_title(status: int, tmp_path: Path) -> None:
    page = raw(
        b"<!DOCTYPE html><title>Bad gateway</title>", status=status, content_type="text/html"
    )
    events, count = after([page], tmp_path)
    assert count == 2
    assert "Bad gateway" in error_of(events)
    assert "<" not in error_of(events)
    assert done(events).exit_code == ExitStatus.TRY_LATER


def test_a_wait_over_a_minute_is_an_end_that_says_when(tmp_path: Path) -> None:
    events, count = after([limited(retry_after="3600")], tmp_path)
    assert count == 1
    assert "3600 s, until " in error_of(events)
    assert done(events).exit_code == ExitStatus.TRY_LATER


@pytest.mark.parametrize("header", ["retry_after_ms", "llm_provider_retry_after"])
def test_the_other_headers_are_a_lower_bound_too(header: str, tmp_path: Path) -> None:
    name, value = {
        "retry_after_ms": ("retry-after-ms", "1500"),
        "llm_provider_retry_after": ("llm_provider-retry-after", "1.5"),
    }[header]
    with (
        LLMServer([error(429, "slow down", headers={name: value}), OK]) as server,
        agent_at(server.url, tmp_path) as agent,
    ):
        turn(agent)
        first, second = server.chat
    assert second.at - first.at >= 1.5


def test_a_server_that_is_not_there_is_tried_again_and_the_pause_can_be_broken(
    tmp_path: Path,
) -> None:
    cancel = Cancel()
    with (
        agent_at(f"http://127.0.0.1:{unused_port()}/v1", tmp_path) as agent,
        closing(agent.turn("Go on.", cancel)) as running,
    ):
        events = list(until(running, lambda event: bool(retries([event]))))
        assert retries(events)[0].reason.startswith("connection failed")
        assert 1 <= retries(events)[0].wait_s <= 1.25
        cancel.set()
        assert done(list(running)).stop is Stop.INTERRUPTED


def test_a_body_without_end_is_read_to_a_bound(tmp_path: Path) -> None:
    def endless() -> Any:
        while True:
            yield b"no " * 20000

    endlessly = Reply(status=400, lazy=endless, content_type="text/plain")
    events, count = after([endlessly], tmp_path)
    assert count == 1
    assert error_of(events).startswith("400 Bad Request: no no no")
    assert len(error_of(events)) < 1000


@pytest.mark.parametrize(
    "body", [b"", b"\x00\x01\x02\xff", b"no\n", b"<html></html>", b'{"error": {"message": "no"}}']
)
def test_any_body_of_a_refusal_is_told_with_its_status(body: bytes, tmp_path: Path) -> None:
    refusal = raw(body, status=418, content_type="text/plain", framing="length")
    events, count = after([refusal], tmp_path)
    assert count == 1
    assert "418 I'm a Teapot" in error_of(events)


def test_an_empty_error_shows_the_phrase_of_the_server(tmp_path: Path) -> None:
    refusal = raw(b"", status=400, reason="Model Not Loaded", framing="length")
    assert "400 Model Not Loaded" in error_of(after([refusal], tmp_path)[0])


# -- cures ------------------------------------------------------------------------------------


def picky(asked: dict[str, Any], _: int) -> Reply:
    """Refuse one thing after the other, each in another server's words."""
    if "temperature" in asked:
        return error(400, "Unsupported value: 'temperature' does not support 0.7 with this model.")
    if "stream_options" in asked:
        return error(400, "Unrecognized request argument supplied: stream_options")
    if "max_tokens" in asked:
        said = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
        return error(400, said, param="max_tokens")
    if "reasoning_effort" in asked:
        return error(422, "property 'reasoning_effort' is unsupported")
    results = sum(message["role"] == "tool" for message in asked["messages"])
    return OK if results else shell("true")


def test_cures_are_combined_and_kept_for_the_run(tmp_path: Path) -> None:
    options = ("max_tokens=9", "reasoning_effort=high", "user=me")
    with LLMServer(picky) as server, agent_at(server.url, tmp_path, *options) as agent:
        events = turn(agent)
        assert done(events).stop is Stop.FINAL
        assert len(notices(events)) == 4
        assert not retries(events)
        assert len(server.chat) == 6  # four refusals, a call, the answer
        assert not notices(turn(agent))
        last = bodies(server)[-1]
    assert (last["max_completion_tokens"], last["user"]) == (9, "me")
    assert not {"temperature", "stream_options", "max_tokens", "reasoning_effort"} & last.keys()


@pytest.mark.parametrize(
    "said",
    [
        "Invalid role: only user and assistant are supported",
        "stream of type user is unsupported",
        "temperature must be between 0 and 1",
        "model m does not exist",
    ],
)
def test_a_refusal_without_a_cure_is_told_and_never_repeated(said: str, tmp_path: Path) -> None:
    events, count = after([error(400, said)], tmp_path, "user=me", "stop=x")
    assert count == 1
    assert said in error_of(events)
    assert not notices(events)
    assert done(events).exit_code == ExitStatus.FAILED


def test_a_cure_that_does_not_help_is_not_tried_again(tmp_path: Path) -> None:
    events, count = after([error(400, "Unsupported parameter: 'temperature'.")], tmp_path)
    assert count == 2
    assert "temperature" in error_of(events)


def test_a_cure_does_not_use_up_a_repeat(tmp_path: Path) -> None:
    refusals = [error(400, "Unsupported parameter: 'temperature'."), error(503, "busy"), OK]
    events, count = after(refusals, tmp_path)
    assert count == 3
    assert [(r.attempt, r.of) for r in retries(events)] == [(1, 9)]


def test_a_refusal_in_the_stream_is_cured_as_well(tmp_path: Path) -> None:
    refusal = {"error": {"code": 400, "message": "Unsupported parameter: 'temperature'."}}
    events, count = after([raw(b"data: " + json.dumps(refusal).encode() + b"\n\n"), OK], tmp_path)
    assert count == 2
    assert done(events).stop is Stop.FINAL


def test_no_request_of_a_failed_turn_was_sent_twice_unchanged_but_for_its_repeats(
    tmp_path: Path,
) -> None:
    with LLMServer(picky) as server, agent_at(server.url, tmp_path, "max_tokens=9") as agent:
        events = turn(agent)
        sent = [request.body for request in server.chat]
    assert len(set(sent)) == len(sent) == sum(isinstance(e, Request) for e in events)


# -- secrets ----------------------------------------------------------------------------------

KEY = "sk-0123456789abcdef"


@pytest.mark.parametrize(
    "refusal",
    [
        error(401, f"Incorrect API key provided: {KEY}. You can find yours at the settings page."),
        error(400, f"Authorization: Bearer {KEY} is malformed"),
        raw(f"<html><title>{KEY}</title>".encode(), status=403),
        error(302, "", headers={"location": f"http://127.0.0.1:9/?key={KEY}"}),
        raw(
            delta(content="x")
            + b'data: {"error": {"code": 400, "message": "%b"}}\n\n' % KEY.encode()
        ),
    ],
)
def test_a_key_that_a_server_says_is_not_shown(refusal: Reply, tmp_path: Path) -> None:
    events, _ = after([refusal], tmp_path, f"api_key={KEY}")
    assert KEY not in shown(events)
    assert "[key]" in error_of(events)


# -- addresses and names ----------------------------------------------------------------------


def test_localhost_is_reached_and_a_query_stays_behind_the_path(tmp_path: Path) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(LLMServer([OK], models={"data": []}))
        url = server.url.replace("127.0.0.1", "localhost") + "/?api-version=2024-10-21"
        agent = stack.enter_context(agent_at(url, tmp_path))
        assert done(turn(agent)).stop is Stop.FINAL
        assert server.chat[0].path == "/v1/chat/completions?api-version=2024-10-21"
        assert eventually(lambda: server.model_requests)
        assert server.model_requests[0].path == "/v1/models?api-version=2024-10-21"


@pytest.mark.parametrize("tail", ["", "/", "/chat/completions", "/chat/completions/"])
def test_however_the_endpoint_is_written_the_same_address_is_asked(
    tail: str, tmp_path: Path
) -> None:
    with LLMServer([OK]) as server, agent_at(server.url + tail, tmp_path) as agent:
        assert done(turn(agent)).stop is Stop.FINAL
        assert server.chat[0].path == "/v1/chat/completions"


def test_what_was_refused_is_still_stored(tmp_path: Path) -> None:
    with (
        LLMServer([error(400, "no")]) as server,
        agent_at(server.url, tmp_path, history=HISTORY) as agent,
    ):
        turn(agent)
        assert [*agent.log.messages] == [*HISTORY, Message(Role.USER, "Go on.")]
        assert len(repaired(agent.log.messages)) == len(bodies(server)[0]["messages"])
