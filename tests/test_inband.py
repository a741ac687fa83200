"""Answers that cannot be used: broken, failed, or no answer at all."""

import json

import pytest
from bodies import DONE, HI, STOP, answer, data, event

from bantam.core.errors import ModelError
from bantam.core.events import TextDelta
from bantam.model.completions import AnswerFailed, Assembler, BrokenAnswer
from bantam.model.sse import AnswerTooLarge


@pytest.mark.parametrize(
    ("body", "content_type", "words"),
    [
        (b"", "text/event-stream", "empty"),
        (b" \r\n\n", "", "empty"),
        (b": ping\n\n", "text/event-stream; charset=utf-8", "text/event-stream"),
        (b"upstream connect error\nmore", "text/plain", "upstream connect error"),
        (b"oops", "", "no Content-Type"),
        (data({"type": "ping"}), "", "no answer"),
        (HI, "", "cut off"),
        (HI + b'data: {"choices": [', "", "no JSON"),
        (b'{"choices": [', "", "no JSON"),
        (b'{"choices":\n[{}]\n', "", "no JSON"),
        (b'{"choices": []}', "application/json", "no answer"),
        (b'{"choices": [{"delta": {"content": "a"}}]}', "application/json", "no answer"),
        (HI + b"data: oops\n\n" + STOP, "", "oops"),
        (HI + b"data: {}\ndata: oops\n\n" + STOP, "", "oops"),
        (b"data: " + b"[" * 100_000 + b"\n\n", "", "nested"),
        (b"data: " + b"[" * 200 + b"]" * 200 + b"\n\n", "", "nested"),
        (b'data: {"choices": ' + b"9" * 5000 + b"}\n\n", "", "no JSON"),
        (b'{"choices": ' + b"9" * 5000 + b"}", "", "no JSON"),
    ],
)
def test_a_broken_answer_is_told_in_one_line(body: bytes, content_type: str, words: str) -> None:
    with pytest.raises(BrokenAnswer) as raised:
        answer(body, content_type)
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 500


@pytest.mark.parametrize(
    ("error", "words", "status"),
    [
        ({"code": 502, "message": "no free worker"}, "no free worker", 502),
        ({"code": "429", "message": "slow down"}, "slow down", 429),
        ({"status": 503, "message": "busy"}, "busy", 503),
        ({"status_code": 503, "msg": "busy"}, "busy", 503),
        ({"code": "server_error", "message": "oops"}, "oops", None),
        ({"code": 1305, "message": "overloaded"}, "overloaded", None),
        ({"code": 200, "message": "odd"}, "odd", None),
        ({"code": 529}, "529", 529),
        ({"type": "overloaded_error"}, "overloaded_error", 529),
        ({"code": "insufficient_quota", "message": "no credit"}, "no credit", 429),
        ({"type": "invalid_request_error", "code": "invalid_api_key", "message": "k"}, "k", 401),
        ([{"type": "authentication_error", "message": "k"}], "k", 401),
        ("out of memory", "out of memory", None),
        (["a", {"message": "b"}, None], "a; b", None),
        ([{"message": "b", "code": 400}], "b", 400),
        ({"message": {"detail": [{"msg": "extra field"}]}}, "extra field", None),
        ({"error": {"message": "inner", "code": 500}}, "inner", 500),
        ({"message": "Provider error", "metadata": {"raw": "no GPU"}}, "error: no GPU", None),
        ({"message": "E", "metadata": {"raw": '{"error":{"message":"no GPU"}}'}}, "no GPU", None),
        ({"message": "E", "metadata": {"raw": "{broken"}}, "{broken", None),
        ({"message": "E", "metadata": {"raw": "{}"}}, "E: {}", None),
        ({"message": "E", "metadata": None}, "E", None),
        ({"message": "two\n lines"}, "two lines", None),
        (True, "no reason given", None),
        ({"param": None}, "no reason given", None),
        ("x" * 5000, "x" * 1000, None),
    ],
)
def test_an_error_in_a_stream_or_a_body_ends_the_answer(
    error: object, words: str, status: int | None
) -> None:
    for body in (data({"error": error}) + DONE, json.dumps({"error": error}).encode()):
        with pytest.raises(AnswerFailed) as raised:
            Assembler().feed(body)
        assert str(raised.value).endswith(words)
        assert raised.value.status == status


@pytest.mark.parametrize(
    "payload",
    [
        {"object": "error", "message": "oops", "code": 400},
        {"type": "error", "error": {"message": "oops", "code": 400}},
        {"choices": [None, {"delta": {}, "error": {"message": "oops", "code": 400}}]},
        [{"error": {"message": "oops", "code": 400}}],
    ],
)
def test_an_error_is_found_wherever_it_stands(payload: object) -> None:
    with pytest.raises(AnswerFailed, match="oops") as raised:
        Assembler().feed(data(payload))
    assert raised.value.status == 400


def test_an_error_without_words_is_told_by_its_finish_reason() -> None:
    with pytest.raises(AnswerFailed, match="finish_reason"):
        Assembler().feed(event({}, "error"))


@pytest.mark.parametrize("error", [None, "", {}, False])
def test_an_empty_error_member_is_no_error(error: object) -> None:
    assert answer(event({"content": "a"}, error=error) + STOP).content == "a"


def test_errors_nested_in_text_without_end_are_told_and_not_followed() -> None:
    text = "oops"
    for _ in range(12):
        text = json.dumps({"message": text})
        for _ in range(90):
            text = f'{{"message":{text}}}'
    with pytest.raises(AnswerFailed):
        Assembler().feed(b'{"error":' + json.dumps(text).encode() + b"}")


def test_a_page_in_place_of_an_answer_names_itself_and_the_likely_cause() -> None:
    assembler = Assembler(content_type="text/html; charset=utf-8")
    assembler.feed(b"\n<!DOCTYPE html>\n<html><body>data: nothing</body></html>")
    with pytest.raises(AnswerFailed, match=r"text/html.*<!DOCTYPE html>.*/v1") as raised:
        assembler.close()
    assert raised.value.status is None


@pytest.mark.parametrize("good", [HI, HI + STOP])
def test_an_error_behind_deltas_of_one_read_is_raised_by_the_next_call(good: bytes) -> None:
    assembler = Assembler()
    assert assembler.feed(good + data({"error": "oops"})) == [TextDelta("hi")]
    assert not assembler.complete
    with pytest.raises(AnswerFailed, match="oops"):
        assembler.feed(DONE)
    with pytest.raises(AnswerFailed, match="oops"):
        assembler.close()


def test_an_answer_without_end_is_given_up() -> None:
    with pytest.raises(AnswerTooLarge) as raised:
        answer(event({"content": "x" * 100_000}) * 300)
    assert isinstance(raised.value, ModelError)
    assert not isinstance(raised.value, BrokenAnswer)
