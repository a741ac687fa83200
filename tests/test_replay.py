"""A saved session plays the model; the first difference from it is a clear error."""

import json
from pathlib import Path
from typing import Any

import pytest
from turns import agent_at, done, error_of, notices, turn

from bantam.core.errors import ConfigError, ExitStatus
from bantam.core.events import Event, ReasoningDelta, TextDelta
from bantam.core.messages import Message, from_api, to_api
from bantam.model.replay import ReplayTransport

SYSTEM = {"role": "system", "content": "Another day, another folder."}
USER = {"role": "user", "content": "Go on."}


def call(command: str, number: int = 1, **extra: Any) -> dict[str, Any]:
    function = {"name": "shell_exec", "arguments": json.dumps({"command": command})}
    return {"id": f"call_{number}", "type": "function", "function": function, **extra}


def assistant(content: str = "", *calls: dict[str, Any], **extra: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": content, **extra}
    return message | ({"tool_calls": list(calls)} if calls else {})


def result(content: str, number: int = 1) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": f"call_{number}", "content": content}


ONE = "one\n\nexit: 0"


def recording(folder: Path, *messages: dict[str, Any]) -> str:
    """Return the endpoint of a recording of `messages` behind a system message."""
    path = folder / "session.json"
    path.write_text(json.dumps({"format": "bantam-session", "messages": [SYSTEM, *messages]}))
    return f"replay://{path}"


def replayed(folder: Path, *messages: dict[str, Any]) -> tuple[list[Event], list[Message]]:
    """Return the events of the prompt `Go on.`, and the conversation after it."""
    with agent_at(recording(folder, *messages), folder) as agent:
        events = turn(agent)
        return events, list(agent.log.messages)


def test_a_good_recording_plays_to_its_end(tmp_path: Path) -> None:
    recorded = [
        USER,
        assistant("First.", call("printf one")),
        result(ONE),
        assistant("", call("printf one", 2)),
        result(ONE, 2),
        assistant("It  is\n\n`done` \u2013 all of it. "),
    ]
    events, messages = replayed(tmp_path, *recorded)
    assert done(events).exit_code == ExitStatus.DONE
    assert [to_api(message) for message in messages[1:]] == recorded


def test_every_turn_of_a_recording_plays(tmp_path: Path) -> None:
    other = {"role": "user", "content": "And now?"}
    endpoint = recording(tmp_path, USER, assistant("a"), other, assistant("b"))
    with agent_at(endpoint, tmp_path) as agent:
        assert done(turn(agent)).text == "a"
        assert done(turn(agent, "And now?")).text == "b"


def test_an_answer_is_streamed_in_pieces(tmp_path: Path) -> None:
    long = " ".join(f"word{n}" for n in range(5000))
    events, messages = replayed(tmp_path, USER, assistant(long, reasoning_content="Why. Because."))
    pieces = [event.text for event in events if isinstance(event, TextDelta)]
    assert "".join(pieces) == messages[-1].content == long
    assert 1 < len(pieces) < 200  # what has come by then is shown together
    thoughts = [event.text for event in events if isinstance(event, ReasoningDelta)]
    assert "".join(thoughts) == messages[-1].reasoning == "Why. Because."


@pytest.mark.parametrize(
    "answer",
    [
        assistant("x", reasoning_content="Hm."),
        assistant("x", reasoning_content="Hm.", reasoning_details=[{"type": "t", "text": "Hm."}]),
        assistant(
            "", call("printf one", extra_content={"signature": "s"}), reasoning_content="Hm."
        ),
        assistant("", call("printf one"), call("printf one", 2), call("printf one", 3)),
        assistant("\u00e9\u4e2d\U0001f600  \n\t x"),
    ],
)
def test_an_answer_comes_back_as_it_was_recorded(tmp_path: Path, answer: dict[str, Any]) -> None:
    results = [result(ONE, number) for number in range(1, 1 + len(answer.get("tool_calls", ())))]
    rest = [*results, assistant("end")] if results else []
    events, messages = replayed(tmp_path, USER, answer, *rest)
    assert done(events).error is None
    assert messages[2] == from_api(answer)


DIFFERENCES: dict[str, tuple[list[dict[str, Any]], str]] = {
    "the prompt": (
        [{"role": "user", "content": "Go off."}, assistant("x")],
        (
            "request 1 differs from the recording at message 1 (user), content: "
            "'Go off.' recorded, 'Go on.' now"
        ),
    ),
    "a result": (
        [USER, assistant("", call("printf one")), result("two\n\nexit: 0"), assistant("x")],
        (
            "request 2 differs from the recording at message 3 (tool), content: "
            "'two\\n\\nexit: 0' recorded, 'one\\n\\nexit: 0' now"
        ),
    ),
    "behind much that is equal": (
        [{"role": "user", "content": "Go on. " + "x" * 500}, assistant("x")],
        "content: 'Go on. xxxxxxx",
    ),
    "an answer before the prompt": (
        [assistant("hello"), USER, assistant("x")],
        "request 1 differs from the recording at message 1: 0 recorded, 1 sent",
    ),
    "a result that is missing": (
        [USER, assistant("", call("printf one")), assistant("x")],
        "message 3 (tool), content: 'interrupted by the user' recorded, 'one\\n\\nexit: 0' now",
    ),
    "an answer to a prompt that did not come": (
        [USER, assistant("", call("printf one")), result(ONE), USER, assistant("x")],
        "message 4: 4 recorded, 3 sent",
    ),
}


@pytest.mark.parametrize(("recorded", "place"), DIFFERENCES.values(), ids=DIFFERENCES)
def test_the_first_difference_is_named(
    tmp_path: Path, recorded: list[dict[str, Any]], place: str
) -> None:
    events, _ = replayed(tmp_path, *recorded)
    assert place in error_of(events)
    assert done(events).exit_code == ExitStatus.FAILED


def request(*messages: dict[str, Any]) -> bytes:
    return json.dumps({"model": "m", "messages": list(messages)}).encode()


@pytest.mark.parametrize(
    ("sent", "member"),
    [
        (assistant("x"), "role"),
        ({"role": "tool", "content": "hi", "tool_call_id": "call_1"}, "role"),
        ({"role": "user", "content": "ho"}, "content"),
        ({"role": "user", "content": "hi", "tool_calls": []}, "tool_calls"),
        ({"role": "user", "content": "hi", "tool_call_id": "call_1"}, "tool_call_id"),
    ],
)
def test_every_member_is_held_against_the_recording(
    tmp_path: Path, sent: dict[str, Any], member: str
) -> None:
    transport = ReplayTransport(
        recording(tmp_path, {"role": "user", "content": "hi"}, assistant("x"))
    )
    exchange = transport.send(request(sent))
    failure = str(exchange.inbox.queue.get())
    assert f"({sent['role']}), {member}: " in failure
    exchange.close()
    transport.close()


@pytest.mark.parametrize("place", ["id", "arguments", "name"])
def test_a_call_is_held_against_the_recording(tmp_path: Path, place: str) -> None:
    recorded = [USER, assistant("", call("ls")), result("out"), assistant("x")]
    transport = ReplayTransport(recording(tmp_path, *recorded))
    transport.send(request(SYSTEM, USER))
    text = json.dumps([SYSTEM, *recorded[:3]])
    changed = {"id": ('"id": "call_1"', '"id": "c"'), "arguments": ("ls", "rm"), "name": ("_", "")}
    exchange = transport.send(request(*json.loads(text.replace(*changed[place], 1))))
    assert "message 2 (assistant), tool_calls: " in str(exchange.inbox.queue.get())


def test_the_system_message_and_the_reasoning_are_not_compared(tmp_path: Path) -> None:
    recorded = [USER, assistant("a", reasoning_content="Hm."), USER, assistant("b")]
    with agent_at(recording(tmp_path, *recorded), tmp_path) as agent:
        assert done(turn(agent)).text == "a"
        assert done(turn(agent)).text == "b"


def test_more_requests_than_were_recorded_are_an_error(tmp_path: Path) -> None:
    endpoint = recording(tmp_path, USER, assistant("a"))
    with agent_at(endpoint, tmp_path) as agent:
        turn(agent)
        assert error_of(turn(agent)) == f"{endpoint}: the recording ends here, after 1 answers"


def test_fewer_requests_than_were_recorded_are_none(tmp_path: Path) -> None:
    events, _ = replayed(tmp_path, USER, assistant("a"), USER, assistant("b"))
    assert (done(events).exit_code, done(events).text) == (0, "a")


@pytest.mark.parametrize("empty", [assistant(""), assistant(" \n"), assistant("", name="x")])
def test_an_empty_answer_of_a_recording_is_passed_over(
    tmp_path: Path, empty: dict[str, Any]
) -> None:
    recorded = [USER, empty, assistant("a"), USER, empty, assistant("b")]
    with agent_at(recording(tmp_path, *recorded), tmp_path) as agent:
        turns = [turn(agent) for _ in "ab"]
    assert [done(events).text for events in turns] == ["a", "b"]
    assert not any(notices(events) for events in turns)


def test_a_bare_list_and_a_byte_order_mark_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "bare.json"
    path.write_text("\ufeff" + json.dumps([SYSTEM, USER, assistant("a")]))
    with agent_at(f"replay://{path}", tmp_path) as agent:
        assert done(turn(agent)).text == "a"


def test_the_scheme_may_be_written_in_capitals(tmp_path: Path) -> None:
    endpoint = recording(tmp_path, USER, assistant("a")).replace("replay", "REPLAY")
    with agent_at(endpoint, tmp_path) as agent:
        assert done(turn(agent)).text == "a"


BAD: dict[str, bytes] = {
    "empty": b"",
    "text": b"hello",
    "cut": b'{"messages": [{"role": "user", "con',
    "not UTF-8": b'{"messages": ["\xff"]}',
    "no messages": b'{"format": "bantam-session"}',
    "messages of a wrong type": b'{"messages": {"role": "user"}}',
    "null": b'{"messages": null}',
    "a number": b"4",
    "a text": b'"hello"',
    "entries that are none": b'["hello", 4]',
    "an unknown role": b'[{"role": "wizard", "content": "x"}]',
    "content of a wrong type": b'[{"role": "user", "content": 4}]',
    "calls of a wrong type": b'[{"role": "assistant", "tool_calls": [4]}]',
    "deep": b"[" * 100_000,
}


@pytest.mark.parametrize("content", BAD.values(), ids=BAD)
def test_a_file_that_is_no_session_is_an_error_at_the_start(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=rf"^endpoint=replay://{path} is no saved session: ") as e:
        ReplayTransport(f"replay://{path}")
    assert len(str(e.value)) < 500


def test_a_file_that_is_not_there_or_a_folder_is_an_error(tmp_path: Path) -> None:
    for name in ("none.json", "."):
        with pytest.raises(ConfigError, match="endpoint=replay://"):
            ReplayTransport(f"replay://{tmp_path}/{name}")
    with pytest.raises(ConfigError, match="no saved session"):
        ReplayTransport("replay://a\0b")


def test_what_never_ends_is_no_session() -> None:
    with pytest.raises(ConfigError, match="more than"):
        ReplayTransport("replay:///dev/zero")


def test_a_large_recording_plays(tmp_path: Path) -> None:
    text = "x" * 8_000_000
    recorded = [{"role": "user", "content": text}, assistant("a")]
    with agent_at(recording(tmp_path, *recorded), tmp_path) as agent:
        assert done(turn(agent, text)).text == "a"
