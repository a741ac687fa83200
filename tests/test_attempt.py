import json
import threading
from contextlib import closing
from dataclasses import replace
from itertools import chain, repeat
from time import monotonic
from typing import Any, Final

import pytest
from exchanges import BODY, attempt, collected, hold_that_threads_end, http, no_catalogue, text_of
from fakes import ScriptedTransport
from llmserver import (
    DONE,
    END,
    LLMServer,
    Reply,
    big_answer,
    calls,
    delta,
    error,
    event,
    raw,
    shell,
    text,
)

from bantam.core.cancel import Cancel
from bantam.core.events import ReasoningDelta, TextDelta
from bantam.model.attempt import Attempt
from bantam.model.catalogue import Catalogue
from bantam.model.failures import AttemptFailed, Failure, Kind
from bantam.model.sse import AnswerTooLarge
from bantam.model.transports import End, Head, HTTPTransport, Item

OK: Final = text("All is well.", reasoning="Hm.")
JSON: Final = "application/json"
# Behind some events, so that a comment can follow.
SOME: Final = OK.body.index(b"\n\n", 600) + 2


def given(*items: Item, head: Head | None = None) -> ScriptedTransport:
    """Return the transport whose answer has these items, behind a good head."""
    return ScriptedTransport([head or Head(200, "OK", {}), *items])


def failure(transport: Any, timeout_s: float = 20) -> Failure:
    with pytest.raises(AttemptFailed) as raised:
        collected(attempt(transport, timeout_s=timeout_s))
    return raised.value.failure


# -- what is an answer -----------------------------------------------------------------------


def test_an_answer_is_streamed_and_returned_whole() -> None:
    with LLMServer([OK]) as server, closing(http(server.url)) as transport:
        events, answer = collected(attempt(transport))
    assert [type(e) for e in events].index(TextDelta) > [type(e) for e in events].index(
        ReasoningDelta
    )
    assert text_of(events) == answer.message.content == "All is well."
    assert answer.message.reasoning == "Hm."
    assert answer.finish_reason == "stop"


@pytest.mark.parametrize(("pieces", "most"), [(20, 1), (200, 4)])
def test_what_has_come_by_now_is_taken_together_and_never_too_much(pieces: int, most: int) -> None:
    # A chunk an event, as servers send them, and all of them faster than they are taken.
    waiting = [delta(content="a ")] * pieces
    events, answer = collected(attempt(given(*waiting, delta("stop"), DONE, End())))
    assert len(events) <= 1 + most, "the first piece stands by itself"
    assert text_of(events) == answer.message.content == "a " * pieces


@pytest.mark.parametrize("content_type", ["text/event-stream", JSON, "text/plain", "", "x"])
@pytest.mark.parametrize("body", [OK.body, OK.whole], ids=["sse", "json"])
def test_stream_and_json_are_read_alike_under_any_content_type(
    content_type: str, body: bytes
) -> None:
    reply = raw(body, content_type=content_type)
    with LLMServer([reply]) as server, closing(http(server.url)) as transport:
        _, answer = collected(attempt(transport))
    assert answer.message.content == "All is well."
    assert answer.message.reasoning == "Hm."


@pytest.mark.parametrize(
    "reply",
    [
        text("All is well.", done=False),
        text("All is well.", finish=None),
        text("All is well.", usage=None),
        replace(OK, piece_size=1),
        replace(OK, piece_size=1 << 20),
        replace(OK, framing="close"),
        raw(b": hello\n\n: ping\n\n" + OK.body),
    ],
    ids=["no-done", "done-only", "no-usage", "bytewise", "packed", "close", "comments"],
)
def test_an_answer_may_come_in_many_ways(reply: Reply) -> None:
    with LLMServer([reply]) as server, closing(http(server.url)) as transport:
        assert text_of(collected(attempt(transport))[0]) == "All is well."


def test_a_finish_reason_and_then_silence_is_a_whole_answer() -> None:
    whole = replace(text("All is well.", done=False, usage=None), stall_after=END)
    with LLMServer([whole, OK]) as server, closing(http(server.url)) as transport:
        for _ in range(2):
            assert text_of(collected(attempt(transport, timeout_s=0.2))[0]) == "All is well."
        assert [request.connection for request in server.chat] == [1, 2]


@pytest.mark.parametrize("last", [Failure(Kind.CONNECTION, "reset"), End()])
def test_what_happens_behind_a_whole_answer_does_not_matter(last: Item) -> None:
    finished = given(text("Done.", done=False).body, last)
    assert collected(attempt(finished))[1].message.content == "Done."
    assert collected(attempt(given(OK.body, last)))[1].message.content == "All is well."


# -- what is none ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "kind", "said"),
    [
        (raw(b""), Kind.BROKEN, "empty"),
        (raw(b": ping\n\n"), Kind.BROKEN, "holds no answer"),
        (raw(b"", content_type=JSON), Kind.BROKEN, "empty"),
        (raw(b"", status=204, framing="length"), Kind.BROKEN, "empty"),
        (raw(delta(content="Hel")), Kind.BROKEN, "cut off"),
        (replace(shell("ls"), cut_after=900), Kind.BROKEN, "connection failed"),
        (raw(b"data: {oops\n\n"), Kind.BROKEN, "no JSON"),
        (raw(b'{"choices": [', content_type=JSON), Kind.BROKEN, ""),
        (raw(b"<html>Sign in</html>", content_type="text/html"), Kind.FINAL, "/v1"),
    ],
)
def test_what_is_no_whole_answer_is_broken(reply: Reply, kind: Kind, said: str) -> None:
    with LLMServer([reply]) as server, closing(http(server.url)) as transport:
        found = failure(transport)
    assert found.kind is kind
    assert said in str(found)


@pytest.mark.parametrize("code", [400, 401, 408, 429, 500, 503])
def test_an_error_in_the_stream_is_its_status_whatever_came_before(code: int) -> None:
    said = {"error": {"message": "it went wrong", "code": code}}
    for body in (delta(content="Hel") + event(said), json.dumps(said).encode(), event(said)):
        found = failure(given(body, End()))
        assert (found.kind, found.status) == (Kind.STATUS, code)
        assert "it went wrong" in str(found)
        assert str(code) in found.reason


def test_a_broken_answer_is_given_up_before_more_of_it_comes() -> None:
    begun = given(delta(content="Hel") + b"data: {oops\n\n")  # and nothing more
    assert failure(begun, timeout_s=1).kind is Kind.BROKEN


def test_an_error_in_the_stream_without_a_status_is_a_broken_answer() -> None:
    found = failure(given(event({"error": {"message": "upstream went away"}}), End()))
    assert (found.kind, found.status) == (Kind.BROKEN, None)
    assert "upstream went away" in str(found)


def test_a_program_that_fails_in_mid_stream_keeps_its_reason() -> None:
    items = (delta(content="Hel"), Failure(Kind.FINAL, "ended with status 3", "no memory"))
    found = failure(given(*items))
    assert (found.kind, str(found)) == (Kind.FINAL, "ended with status 3: no memory")


def test_a_failure_before_the_head_is_passed_on() -> None:
    refused = Failure(Kind.CONNECTION, "refused")
    assert failure(ScriptedTransport([refused])) is refused


@pytest.mark.parametrize(
    "reply",
    [
        error(503, "Loading model"),
        replace(error(503, "Loading model"), framing="chunked", piece_size=1),
        raw(b"Loading model\n", status=503, content_type="text/plain"),
        raw(b"Loading model" + b" " * 300_000, status=503, content_type="text/plain"),
        replace(raw(b"Loading model\n", status=503), cut_after=14),
    ],
    ids=["json", "bytewise", "text", "long", "cut"],
)
def test_an_error_status_says_what_its_body_says(reply: Reply) -> None:
    with LLMServer([reply]) as server, closing(http(server.url)) as transport:
        found = failure(transport)
    assert (found.kind, found.status, found.message) == (Kind.STATUS, 503, "Loading model")
    assert found.reason == "503 Service Unavailable"


@pytest.mark.parametrize("status", [101, 301, 302, 307, 308, 400, 418, 599])
def test_any_status_but_success_is_a_failure(status: int) -> None:
    found = failure(given(b"", End(), head=Head(status, "", {"location": "/x"})))
    assert (found.kind, found.status, found.headers["location"]) == (Kind.STATUS, status, "/x")


def test_an_error_body_that_drips_is_left() -> None:
    drip = Reply(lazy=lambda: chain([b"Busy\n"], [b"x"]), status=503, stall_after=5, trickle=True)
    began = monotonic()
    with LLMServer([drip]) as server, closing(http(server.url)) as transport:
        found = failure(transport)
        server.wait_for_close()
    assert found.message == "Busy"
    assert monotonic() - began < 10


def test_a_body_that_drips_behind_done_is_left() -> None:
    drip = Reply(lazy=lambda: chain([OK.body], repeat(b": ping\n\n")))
    with LLMServer([drip]) as server, closing(http(server.url)) as transport:
        assert collected(attempt(transport))[1].message.content == "All is well."
        server.wait_for_close()


def test_an_endless_answer_is_given_up() -> None:
    with LLMServer([big_answer(20)]) as server, closing(http(server.url)) as transport:
        with pytest.raises(AnswerTooLarge, match="16 MiB"):
            collected(attempt(transport))
        server.wait_for_close()


# -- time ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (replace(OK, hold=True), Kind.SILENCE),
        (replace(OK, stall_after=0), Kind.SILENCE),
        (replace(OK, stall_after=0, trickle=True), Kind.SILENCE),
        (replace(raw(b" " * 99 + OK.body), stall_after=50, framing="length"), Kind.SILENCE),
        (replace(OK, stall_after=SOME), Kind.STALL),
        (replace(OK, stall_after=SOME, trickle=True), Kind.STALL),
    ],
    ids=["head", "first-byte", "pings", "blanks", "stall", "stall-with-pings"],
)
def test_silence_is_measured_by_data_and_ends_the_attempt(reply: Reply, kind: Kind) -> None:
    with LLMServer([reply, OK]) as server:
        before = set(threading.enumerate())
        with closing(http(server.url)) as transport:
            began = monotonic()
            found = failure(transport, timeout_s=0.3)
            assert 0.3 <= monotonic() - began < 5
            server.wait_for_close()
            assert text_of(collected(attempt(transport))[0]) == "All is well."
        hold_that_threads_end(before)
    what = "no answer" if kind is Kind.SILENCE else "the answer stopped: nothing came"
    assert (found.kind, found.reason) == (kind, f"{what} for 0.3 s (timeout)")


def test_a_flood_of_comments_is_silence_too() -> None:
    flood = Reply(lazy=lambda: repeat(b": ping\n\n"))
    with LLMServer([flood]) as server, closing(http(server.url)) as transport:
        assert failure(transport, timeout_s=0.2).kind is Kind.SILENCE
        server.wait_for_close()


def test_what_waits_when_the_time_is_up_is_not_taken() -> None:
    assert failure(given(OK.body, End()), timeout_s=0).kind is Kind.SILENCE


def test_a_stream_that_keeps_coming_is_never_cut() -> None:
    # Five waits of half the time-out each, one behind the other.
    pause = threading.Event()

    def slowly() -> Any:
        for word in ("a", "b", "c", "d", "e"):
            pause.wait(0.25)
            yield delta(content=word)
        yield delta("stop") + DONE

    with LLMServer([Reply(lazy=slowly)]) as server, closing(http(server.url)) as transport:
        began = monotonic()
        events, _ = collected(attempt(transport, timeout_s=0.6))
    assert text_of(events) == "abcde"
    assert monotonic() - began > 1


def test_the_time_that_the_reader_of_events_takes_is_no_silence() -> None:
    with LLMServer([OK]) as server, closing(http(server.url)) as transport:
        running = attempt(transport, timeout_s=0.2)
        next(running)
        Cancel().sleep(0.4)
        assert collected(running)[1].message.content == "All is well."


# -- beside it -------------------------------------------------------------------------------


def test_the_first_byte_starts_the_question_for_the_models_and_not_earlier() -> None:
    listing = {"data": [{"id": "m", "context_length": 4096}]}
    with LLMServer([replace(OK, hold=True)], models=listing) as server:
        with closing(http(server.url)) as transport:
            models = HTTPTransport(f"{server.url}/models", {}, {})
            catalogue = Catalogue(models, "m", 1)
            running = Attempt(transport, BODY, "call").run(20, catalogue, Cancel())

            def open_it() -> None:
                server.wait_for_stall()
                assert server.model_requests == []
                server.release()

            opener = threading.Thread(target=open_it, daemon=True)
            opener.start()
            collected(running)
            opener.join(10)
            for _ in range(50):
                catalogue.refresh(Cancel())
            assert catalogue.window == 4096
            catalogue.close()
        assert [r.is_chat for r in server.requests] == [True, False]


def test_calls_without_an_id_get_the_prefix_of_the_attempt() -> None:
    body = calls(("shell_exec", {"command": "ls"})).body.replace(b'"id": "call_1"', b'"id": null')
    running = Attempt(given(body, End()), BODY, "mine").run(1, no_catalogue(), Cancel())
    _, answer = collected(running)
    assert [call.id.startswith("mine") for call in answer.message.tool_calls] == [True]
