"""Request bodies: the order of their members, and their bytes."""

import json

from bantam.model.requests import request_body, serialised

MESSAGES = [{"role": "user", "content": "hi"}]
TOOLS = [{"type": "function"}]


def test_a_body_has_its_members_in_a_fixed_order() -> None:
    body = request_body(
        "m",
        {"tools": TOOLS, "tool_choice": "none"},
        stream=True,
        options={"top_p": 0.9, "stop": ["END"], "temperature": 0.7, "a": None},
    )
    assert list(body.items()) == [
        ("model", "m"),
        ("messages", []),
        ("tools", TOOLS),
        ("tool_choice", "none"),
        ("stream", True),
        ("stream_options", {"include_usage": True}),
        ("temperature", 0.7),
        ("top_p", 0.9),
        ("stop", ["END"]),
        ("a", None),
    ]


def test_a_body_that_is_not_streamed_has_no_stream_options_and_no_empty_tools() -> None:
    body = request_body("m", {"tools": []}, stream=False, options={})
    assert body == {"model": "m", "messages": [], "stream": False}


def test_options_never_replace_another_member() -> None:
    options = {"messages": MESSAGES, "model": "x", "stream": False, "top_p": 1}
    body = request_body("m", {}, stream=True, options=options)
    assert (body["model"], body["messages"], body["stream"]) == ("m", [], True)
    assert body["top_p"] == 1


def test_encoded_messages_take_their_place_whatever_else_there_is() -> None:
    others = {"model": '"messages":[]', "messages": [], "metadata": {"messages": []}}
    item = serialised(MESSAGES[0])
    assert serialised(others, item) == serialised({**others, "messages": MESSAGES})


def test_bytes_are_stable_compact_utf8_without_surrogates() -> None:
    body = {"b": "é\u2028🙂\ud83d", "a": [1.0, None, True]}
    assert serialised(body) == '{"b":"é\u2028🙂\ufffd","a":[1.0,null,true]}'.encode()
    assert serialised(body) == serialised(json.loads(json.dumps(body)))
