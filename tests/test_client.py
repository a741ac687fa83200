import json
import threading
from collections.abc import Generator
from contextlib import closing
from dataclasses import replace
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest
from exchanges import (
    PROMPT,
    attempt,
    client,
    collected,
    hold_that_threads_end,
    http,
    interrupted,
    run,
    text_of,
)
from fakes import NoWaiting, ScriptedTransport
from llmserver import USAGE, LLMServer, Reply, calls, delta, error, event, raw, shell, text

from bantam.agent.agent import Agent, Surroundings
from bantam.agent.memory import ListLog
from bantam.core.cancel import Cancel
from bantam.core.config import resolve
from bantam.core.errors import BudgetSpent, KeyRefused, ModelError, Unavailable
from bantam.core.events import Done, Event, Notice, Request, Retry, Stop, TextDelta, UsageReport
from bantam.core.messages import Answer, Message, Role, ToolCall
from bantam.model.catalogue import Catalogue
from bantam.model.client import Client, Settings
from bantam.model.dialects.native import Native
from bantam.model.failures import Failure, Kind
from bantam.model.transports import Head, HTTPTransport

OK: Final = text("All is well.")
WAITS_S: Final = (1, 1, 2, 3, 5, 8, 13, 21, 34)
CHOICE: Final = {"tool_choice": "auto"}
TOOLS: Final = ({"type": "function", "function": {"name": "shell_exec"}},)


def asked(model: Client, cancel: Cancel | None = None) -> tuple[list[Event], Answer]:
    """Ask for one reply, waiting for nothing between attempts."""
    return collected(model.reply(PROMPT, (), cancel or NoWaiting()))


def failed(model: Client, cancel: Cancel | None = None) -> tuple[list[Event], ModelError]:
    """Return the events and the error of a reply that fails."""
    events: list[Event] = []
    with pytest.raises(ModelError) as raised:
        events.extend(model.reply(PROMPT, (), cancel or NoWaiting()))
    return events, raised.value


def of(kind: type[Event], events: list[Event]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def notices(events: list[Event]) -> list[str]:
    return [event.text for event in of(Notice, events)]


# -- the request -----------------------------------------------------------------------------


def agent(server: LLMServer, folder: Path, *overrides: str, log: ListLog | None = None) -> Agent:
    config = resolve((), [f"endpoint={server.url}", "model=m", *overrides], {})
    surroundings = Surroundings(folder, {"PATH": "/usr/bin:/bin"}, date(2026, 1, 2))
    return Agent(config, surroundings, log=log)


def test_a_request_has_the_headers_of_the_specification_and_no_others(tmp_path: Path) -> None:
    with LLMServer([OK]) as server, closing(agent(server, tmp_path, "api_key=sk-1")) as asking:
        list(asking.turn("Hi."))
    (request,) = server.chat
    host = server.url.removeprefix("http://").removesuffix("/v1")
    assert dict(request.headers) == {
        "host": host,
        "user-agent": "Mozilla/5.0 (compatible; Bantam/1.0)",
        "authorization": "Bearer sk-1",
        "content-type": "application/json",
        "content-length": str(len(request.body)),
        "accept": "*/*",
        "accept-encoding": "identity",
        "connection": "keep-alive",
    }
    assert (request.method, request.path) == ("POST", "/v1/chat/completions")


def test_without_a_key_no_authorization_is_sent(tmp_path: Path) -> None:
    with LLMServer([OK]) as server, closing(agent(server, tmp_path)) as asking:
        list(asking.turn("Hi."))
    assert "authorization" not in server.chat[0].headers


@pytest.mark.parametrize("stream", [True, False])
def test_a_body_has_its_members_in_one_order_and_stream_options_only_when_streaming(
    stream: bool, tmp_path: Path
) -> None:
    overrides = [f"stream={stream}", "top_p=0.9", 'stop=["END"]', "seed=7", "reasoning_effort=high"]
    with LLMServer([OK]) as server, closing(agent(server, tmp_path, *overrides)) as asking:
        events = list(asking.turn("Hi."))
    body = server.chat[0].json
    streaming = ["stream", "stream_options"] if stream else ["stream"]
    options = ["temperature", "top_p", "stop", "seed", "reasoning_effort"]
    assert list(body) == ["model", "messages", "tools", *streaming, *options]
    assert body["stream"] is stream
    assert body.get("stream_options") == ({"include_usage": True} if stream else None)
    assert [body[name] for name in options] == [0.7, 0.9, ["END"], 7, "high"]
    (request,) = of(Request, events)
    assert request == Request(1, 2, len(server.chat[0].body))


def test_steps_are_counted_from_the_prompt() -> None:
    call = ToolCall("call_1", "shell_exec", "{}")
    earlier = [Message(Role.USER, "Before."), Message(Role.ASSISTANT, "Yes.")]
    step = [
        Message(Role.ASSISTANT, tool_calls=(call,)),
        Message(Role.TOOL, "x", tool_call_id="call_1"),
    ]
    for messages, number in (
        ([*earlier, *PROMPT], 1),
        ([*earlier, *PROMPT, *step], 2),
        ([*earlier, *PROMPT, *step, *step], 3),
        ([], 1),
    ):
        transport = ScriptedTransport([Head(200, "OK", {}), OK.body])
        running = client(transport).reply(messages, TOOLS, NoWaiting())
        request = next(running)
        running.close()
        assert isinstance(request, Request)
        assert request.step == number


def test_each_request_begins_with_the_bytes_of_the_one_before(tmp_path: Path) -> None:
    replies = [shell("echo one"), shell("echo two", start=2), text("Done."), text("Again.")]
    with LLMServer(replies) as server, closing(agent(server, tmp_path)) as asking:
        list(asking.turn("Go."))
        list(asking.turn("On."))
    sent = [request.body.partition(b'],"tools"')[0] for request in server.chat]
    assert len(sent) == 4
    assert all(later.startswith(earlier) for earlier, later in pairwise(sent))


# -- the answer ------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False])
def test_a_reply_is_the_same_streamed_or_not(stream: bool) -> None:
    reply = shell("ls", content="Look.", reasoning="Hm.")
    with LLMServer([reply]) as server, closing(client(http(server.url), stream=stream)) as model:
        events, answer = asked(model)
    assert answer.message.content == text_of(events) == "Look."
    assert answer.message.reasoning == "Hm."
    assert answer.message.tool_calls == (ToolCall("call_1", "shell_exec", '{"command": "ls"}'),)
    assert (answer.finish_reason, answer.fault) == ("tool_calls", None)
    assert of(UsageReport, events) == [UsageReport(12, 5, None, False, 12, 1000)]


def test_ids_that_a_server_leaves_out_differ_between_replies() -> None:
    body = calls(("shell_exec", {})).body.replace(b'"id": "call_1"', b'"id": ""')
    with LLMServer([raw(body), raw(body)]) as server, closing(client(http(server.url))) as model:
        one = asked(model)[1].message
        result = Message(Role.TOOL, "x", tool_call_id=one.tool_calls[0].id)
        _, two = collected(model.reply([*PROMPT, one, result], (), NoWaiting()))
    assert one.tool_calls[0].id != two.message.tool_calls[0].id


@pytest.mark.parametrize(
    ("finish", "said"), [("length", "token limit"), ("content_filter", "content filter")]
)
def test_an_answer_that_is_not_all_that_was_meant_is_told_and_kept(finish: str, said: str) -> None:
    with (
        LLMServer([text("And then", finish=finish)]) as server,
        closing(client(http(server.url))) as model,
    ):
        events, answer = asked(model)
    assert answer.message.content == "And then"
    (notice,) = notices(events)
    assert said in notice
    assert finish in notice


@pytest.mark.parametrize(
    "empty", [text(""), text(" \n"), text("", reasoning="Hm."), text("", finish=None)]
)
def test_an_empty_answer_is_asked_for_again(empty: Reply) -> None:
    with LLMServer([empty, empty, OK]) as server, closing(client(http(server.url))) as model:
        cancel = NoWaiting()
        events, answer = asked(model, cancel)
    assert answer.message.content == "All is well."
    assert len(of(Request, events)) == 3
    assert len(notices(events)) == 2
    assert cancel.waits == []


def test_three_empty_answers_are_an_error_and_nothing_is_stored(tmp_path: Path) -> None:
    log = ListLog()
    filtered = text("", finish="content_filter")
    with (
        LLMServer([filtered] * 3) as server,
        closing(agent(server, tmp_path, log=log)) as asking,
    ):
        events = list(asking.turn("Hi."))
    done = events[-1]
    assert isinstance(done, Done)
    assert done.error is not None
    assert (done.stop, done.exit_code, done.error.kind) == (Stop.ERROR, 1, "ModelError")
    assert "empty 3 times" in done.error.message
    assert "content_filter" in notices(events)[0]
    assert [m.role for m in log.messages] == [Role.SYSTEM, Role.USER]


# -- repeats ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Kind.CONNECTION, Kind.SILENCE, Kind.BROKEN])
def test_what_may_pass_is_tried_nine_times_more_and_then_told(kind: Kind) -> None:
    transport = ScriptedTransport([Failure(kind, "no luck")])
    cancel = NoWaiting()
    events, problem = failed(client(transport), cancel)
    assert isinstance(problem, Unavailable)
    assert "no luck" in str(problem)
    assert transport.url in str(problem)
    assert len(transport.sent) == 10
    assert len(set(transport.sent)) == 1
    retries = of(Retry, events)
    assert [(r.attempt, r.of, r.reason) for r in retries] == [
        (n, 9, "no luck") for n in range(1, 10)
    ]
    for retry, waited, planned in zip(retries, cancel.waits, WAITS_S, strict=True):
        assert planned <= waited <= planned + 0.26
        assert retry.wait_s == round(waited, 2)
    assert len(of(Request, events)) == 10


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (Failure(Kind.STALL, "no answer for 1 s (timeout)"), Unavailable),
        (Failure(Kind.FINAL, "cannot be run"), ModelError),
        (Failure(Kind.STATUS, "401 Unauthorized", "wrong key", 401), KeyRefused),
        (Failure(Kind.STATUS, "403 Forbidden", status=403), KeyRefused),
        (Failure(Kind.STATUS, "404 Not Found", status=404), ModelError),
        (Failure(Kind.STATUS, "400 Bad Request", "no", 400), ModelError),
    ],
)
def test_what_will_not_pass_is_not_repeated(failure: Failure, kind: type[ModelError]) -> None:
    transport = ScriptedTransport([failure])
    events, problem = failed(client(transport))
    assert type(problem) is kind
    assert problem.status == failure.status
    assert len(transport.sent) == 1
    assert of(Retry, events) == []


def test_a_program_that_says_try_later_is_started_again(tmp_path: Path) -> None:
    script = tmp_path / "model.sh"
    (tmp_path / "stream").write_bytes(OK.body)
    script.write_text(
        f"cd {tmp_path}; if [ -e tried ]; then cat stream; else > tried; echo busy >&2; exit 75; fi"
    )
    events, answer = asked(client(run("sh", script)))
    assert answer.message.content == "All is well."
    assert [retry.reason for retry in of(Retry, events)] == ["run://sh ended with status 75"]
    assert notices(events) == ["the server says: busy"]


def test_a_program_that_fails_shows_its_standard_error(tmp_path: Path) -> None:
    script = tmp_path / "model.sh"
    script.write_text("echo first >&2; echo 'no such weights' >&2; exit 3")
    events, problem = failed(client(run("sh", script)))
    assert "status 3" in str(problem)
    assert "no such weights" in str(problem)
    assert of(Retry, events) == []


def test_what_the_server_says_is_told_once() -> None:
    busy = error(503, "Loading model")
    replies = [busy, busy, error(503, "Nearly there"), busy, raw(b"", status=502), OK]
    with LLMServer(replies) as server, closing(client(http(server.url))) as model:
        events, _ = asked(model)
    assert notices(events) == ["the server says: Loading model", "the server says: Nearly there"]
    reasons = [retry.reason for retry in of(Retry, events)]
    assert reasons == ["503 Service Unavailable"] * 4 + ["502 Bad Gateway"]


def test_a_wait_that_the_server_asks_for_is_kept_and_one_too_long_is_told() -> None:
    limited = error(429, "slow down", headers={"retry-after": "7"})
    tomorrow = error(429, "slow down", headers={"retry-after": "86400"})
    with LLMServer([limited, tomorrow]) as server, closing(client(http(server.url))) as model:
        cancel = NoWaiting()
        _, problem = failed(model, cancel)
    assert cancel.waits == [7.0]
    assert isinstance(problem, Unavailable)
    assert "86400 s" in str(problem)


@pytest.mark.parametrize(
    ("code", "requests", "kind"),
    [(429, 2, None), (500, 2, None), (400, 1, ModelError), (401, 1, KeyRefused)],
)
def test_an_error_in_the_stream_is_treated_as_its_status(
    code: int, requests: int, kind: type[ModelError] | None
) -> None:
    refusal = raw(delta(content="Hel") + event({"error": {"message": "slow down", "code": code}}))
    with LLMServer([refusal, OK]) as server, closing(client(http(server.url))) as model:
        if kind is None:
            events, answer = asked(model)
            assert answer.message.content == "All is well."
            assert len(of(Retry, events)) == 1
        else:
            assert type(failed(model)[1]) is kind
        assert len(server.chat) == requests


def test_a_quota_that_is_used_up_is_final_in_the_stream_too() -> None:
    said = {"error": {"message": "quota of this account is used up", "code": 429}}
    with LLMServer([raw(event(said))]) as server, closing(client(http(server.url))) as model:
        events, problem = failed(model)
    assert of(Retry, events) == []
    assert "quota" in str(problem)


def test_a_page_in_place_of_an_answer_is_final_and_hints_at_the_path() -> None:
    page = raw(b"<!DOCTYPE html><h1>Welcome</h1>", content_type="text/html; charset=utf-8")
    with LLMServer([page]) as server, closing(client(http(server.url))) as model:
        _, problem = failed(model)
    assert "/v1" in str(problem)


def test_a_redirect_is_told_with_its_place_and_gets_no_key(tmp_path: Path) -> None:
    with LLMServer([]) as elsewhere:
        where = f"{elsewhere.url}/chat/completions"
        redirect = raw(b"", status=308, headers={"location": where}, framing="length")
        with (
            LLMServer([redirect]) as server,
            closing(agent(server, tmp_path, "api_key=sk-1")) as asking,
        ):
            done = list(asking.turn("Hi."))[-1]
        assert elsewhere.requests == []
    assert isinstance(done, Done)
    assert done.error is not None
    assert where in done.error.message


def test_a_cure_is_told_once_and_remembered_and_is_no_repeat() -> None:
    def script(request: dict[str, Any], _: int) -> Reply:
        if "stream_options" in request:
            return error(400, "Unknown parameter: stream_options", param="stream_options")
        return OK

    with LLMServer(script) as server, closing(client(http(server.url))) as model:
        events, _ = asked(model)
        again, _ = asked(model)
        assert len(server.chat) == 3
    assert len(notices(events)) == 1
    assert "stream_options" in notices(events)[0]
    assert of(Retry, events + again) == []
    assert notices(again) == []


# -- tokens ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("usage", "estimated"),
    [(USAGE, False), (None, True), ({"prompt_tokens": 12, "completion_tokens": None}, True)],
)
def test_what_a_server_does_not_count_is_estimated_and_marked(
    usage: dict[str, Any] | None, estimated: bool
) -> None:
    reply = text("word " * 100, usage=usage)
    with LLMServer([reply]) as server, closing(client(http(server.url))) as model:
        events, _ = asked(model)
        size = len(server.chat[0].body)
    (report,) = of(UsageReport, events)
    assert report.estimated is estimated
    assert report.prompt == (12 if usage else size // 4)
    assert report.completion == (5 if usage is USAGE else 125)
    assert report.context == report.prompt


def with_usage(reply: Reply, prompt: int) -> Reply:
    counted = event({"choices": [], "usage": {**USAGE, "prompt_tokens": prompt}})
    return replace(reply, body=counted + reply.body)


def test_a_budget_ends_the_run_before_the_next_request() -> None:
    with (
        LLMServer([OK, OK]) as server,
        closing(client(http(server.url), budget_tokens=34)) as model,
    ):
        asked(model)
        asked(model)
        with pytest.raises(BudgetSpent, match="budget_tokens=34"):
            asked(model)
        assert len(server.chat) == 2


def test_a_call_that_failed_is_paid_for_too() -> None:
    cut = with_usage(raw(delta(content="Hel")), 100)
    events: list[Event] = []
    with (
        LLMServer([cut]) as server,
        closing(client(http(server.url), budget_tokens=100)) as model,
    ):
        with pytest.raises(BudgetSpent):
            events.extend(model.reply(PROMPT, (), NoWaiting()))
        assert len(server.chat) == 1
    assert text_of(events) == "Hel"
    assert of(Retry, events) == []


@pytest.mark.parametrize("how", ["cancel", "close", "too-large"])
def test_a_call_that_was_given_up_is_paid_for_too(how: str) -> None:
    flood = Reply(lazy=lambda: iter([delta(content="x" * 60_000)] * 400))
    start = with_usage(raw(delta(content="Hel")), 100)
    with (
        LLMServer([flood if how == "too-large" else replace(start, stall_after=400)]) as server,
        closing(client(http(server.url), budget_tokens=100)) as model,
    ):
        cancel = Cancel()
        running = model.reply(PROMPT, (), cancel)
        while not isinstance(next(running), TextDelta):
            pass
        give_up(running, cancel, how)
        with pytest.raises(BudgetSpent):
            asked(model)


def give_up(running: Generator[Event, None, Answer], cancel: Cancel, how: str) -> None:
    match how:
        case "cancel":
            interrupted(running, cancel, lambda: None)
        case "close":
            running.close()
        case _:
            with pytest.raises(ModelError, match="MiB"):
                collected(running)


def test_an_answer_that_never_began_costs_nothing() -> None:
    busy = error(503, "busy")
    with (
        LLMServer([busy, busy, OK]) as server,
        closing(client(http(server.url), budget_tokens=1)) as model,
    ):
        assert asked(model)[1].message.content == "All is well."


CACHED: Final = {**USAGE, "prompt_tokens_details": {"cached_tokens": 8}}
MISSED: Final = {**USAGE, "prompt_tokens_details": {"cached_tokens": 0}}


def proofs(mode: str, *usages: Any, **settings: Any) -> list[tuple[str | None, list[str]]]:
    """Return, for a request after the other of one conversation, its fault and its notices."""
    found = []
    replies = [text(f"Answer {n}.", usage=usage) for n, usage in enumerate(usages)]
    with (
        LLMServer(replies) as server,
        closing(client(http(server.url), cache_proof=mode, **settings)) as model,
    ):
        messages = list(PROMPT)
        for _ in usages:
            events, answer = collected(model.reply(messages, (), NoWaiting()))
            found.append((answer.fault, notices(events)))
            messages += [answer.message, Message(Role.USER, "On.")]
    return found


def test_a_cache_that_misses_is_no_matter_unless_asked() -> None:
    assert proofs("off", MISSED, MISSED, None) == [(None, [])] * 3


@pytest.mark.parametrize("usage", [MISSED, USAGE, None])
def test_a_cache_miss_is_told_or_ends_the_turn_from_the_second_request_on(usage: Any) -> None:
    first, second, third = proofs("warn", usage, usage, CACHED)
    assert (first, third) == ((None, []), (None, []))
    assert second[0] is None
    assert "cache miss" in second[1][0]
    first, second = proofs("strict", usage, usage)
    assert first == (None, [])
    assert "cache miss" in (second[0] or "")
    assert second[1] == []


def test_a_small_prompt_proves_nothing() -> None:
    assert proofs("strict", MISSED, MISSED, min_cacheable_tokens=13) == [(None, [])] * 2


def test_a_conversation_that_began_anew_proves_nothing() -> None:
    with (
        LLMServer([text("One.", usage=MISSED)] * 2) as server,
        closing(client(http(server.url), cache_proof="strict")) as model,
    ):
        asked(model)
        other = [Message(Role.USER, "Something else.")]
        assert collected(model.reply(other, (), NoWaiting()))[1].fault is None


def test_a_strict_proof_ends_the_turn_after_the_paid_answer_was_stored(tmp_path: Path) -> None:
    log = ListLog()
    replies = [shell("true", usage=MISSED), text("Done.", usage=MISSED)]
    with (
        LLMServer(replies) as server,
        closing(agent(server, tmp_path, "cache_proof=strict", log=log)) as asking,
    ):
        done = list(asking.turn("Go."))[-1]
    assert isinstance(done, Done)
    assert done.error is not None
    assert "cache miss" in done.error.message
    assert log.messages[-1].content == "Done."


# -- text alone ------------------------------------------------------------------------------


@pytest.mark.parametrize("tools", [TOOLS, ()])
def test_who_asks_for_text_alone_shows_the_tools_and_forbids_calls(tools: Any) -> None:
    with LLMServer([OK]) as server, closing(client(http(server.url), options=CHOICE)) as model:
        collected(model.reply(PROMPT, tools, NoWaiting(), may_call=False))
    body = server.chat[0].json
    assert body.get("tools", []) == list(tools)
    assert body["tool_choice"] == ("none" if tools else "auto")


def test_the_context_is_that_of_the_last_answer_that_came() -> None:
    with LLMServer([OK, error(400, "no")]) as server, closing(client(http(server.url))) as model:
        assert (model.context, model.window) == (None, 1000)
        asked(model)
        failed(model)
        assert model.context == USAGE["prompt_tokens"]


def test_a_request_is_estimated_as_usage_that_no_server_tells() -> None:
    replies = [text("Yes.", usage=None)]
    with LLMServer(replies) as server, closing(client(http(server.url))) as model:
        estimated = model.estimated(PROMPT, TOOLS)
        collected(model.reply(PROMPT, TOOLS, NoWaiting()))
        assert model.context == estimated == len(server.chat[0].body) // 4


# -- cancel ----------------------------------------------------------------------------------


def test_a_cancel_ends_the_wait_before_a_repeat_at_once() -> None:
    with (
        LLMServer([error(503, "busy", headers={"retry-after": "30"}), OK]) as server,
        closing(client(http(server.url))) as model,
    ):
        cancel = Cancel()
        running = model.reply(PROMPT, (), cancel)
        while not isinstance(next(running), Retry):
            pass
        waiting = threading.Event()
        interrupted(running, cancel, lambda: waiting.wait(0.2))
        assert text_of(asked(model)[0]) == "All is well."


def test_a_cancelled_reply_leaves_a_client_that_works() -> None:
    with LLMServer([replace(OK, hold=True), replace(OK, stall_after=500), OK]) as server:
        before = set(threading.enumerate())
        with closing(client(http(server.url))) as model:
            for number in (1, 2):
                cancel = Cancel()
                running = model.reply(PROMPT, (), cancel)
                interrupted(running, cancel, lambda n=number: server.wait_for_stall(n))  # type: ignore[misc]
            assert text_of(asked(model)[0]) == "All is well."
        hold_that_threads_end(before)


def test_closing_a_client_ends_a_question_for_the_models_that_hangs() -> None:
    with LLMServer([OK], models=raw(b"{}", hold=True)) as server:
        before = set(threading.enumerate())
        catalogue = Catalogue(HTTPTransport(f"{server.url}/models", {}, {}), "m", 1000)
        model = Client(Settings("m"), http(server.url), Native(), catalogue)
        events, _ = asked(model)
        assert of(UsageReport, events)[0].window == 1000
        server.wait_for_stall()
        model.close()
        hold_that_threads_end(before)


def test_one_real_wait_and_the_answer_once_more() -> None:
    broken = replace(OK, reset_after=600)
    with LLMServer([broken, OK]) as server, closing(client(http(server.url))) as model:
        events, answer = asked(model, Cancel())
        first, second = (request.at for request in server.chat)
    assert second - first >= 1
    assert answer.message.content == "All is well."
    (retry,) = of(Retry, events)
    assert (retry.attempt, retry.of) == (1, 9)
    # What came before the retry is void, and the answer comes whole behind it.
    behind = events[events.index(retry) :]
    assert text_of(behind) == "All is well."


def test_the_body_of_every_attempt_is_valid_json(tmp_path: Path) -> None:
    with LLMServer([error(503, "busy"), OK]) as server, closing(client(http(server.url))) as model:
        asked(model)
        bodies = [json.loads(request.body) for request in server.chat]
    assert bodies[0] == bodies[1]
    assert bodies[0]["messages"] == [{"role": "user", "content": "Say it."}]


def test_an_attempt_alone_and_a_client_read_alike() -> None:
    with LLMServer([OK, OK]) as server, closing(http(server.url)) as transport:
        _, alone = collected(attempt(transport))
        _, answer = asked(client(transport))
    assert answer.message == alone.message
