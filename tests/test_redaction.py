"""Keys that tools show: each is replaced, whole and however the output was cut."""

import os
import time
from collections.abc import Generator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from itertools import groupby, pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llmreplies import DONE, Reply, calls, delta, raw
from llmserver import LLMServer, shell, text, write
from turns import DAY, agent_at, done, notices, turn

from bantam.agent.agent import Agent, Surroundings
from bantam.agent.memory import ListLog, Memory
from bantam.agent.replay import replayed
from bantam.agent.undo import undo_last
from bantam.core.cancel import Cancel
from bantam.core.config import resolve
from bantam.core.discretion import discreet, hidden_in
from bantam.core.errors import ConfigError
from bantam.core.events import (
    Compacted,
    Done,
    Event,
    Failure,
    FileChange,
    Notice,
    ReasoningDelta,
    Replied,
    Request,
    Retry,
    Status,
    Stop,
    TextDelta,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    TurnStart,
    UsageReport,
    UsageSum,
    as_json,
)
from bantam.core.generators import drained
from bantam.core.messages import Message, Role, ToolCall, parsed_arguments, to_api
from bantam.core.redaction import PLACEHOLDER, Redaction, RedactionFilter
from bantam.core.settings import parse
from bantam.sessions.snapshot import About
from bantam.sessions.store import Store, checked_name

KEY = "sk-0123456789"


def filtered(secrets: Sequence[str], parts: Sequence[str]) -> str:
    redaction = RedactionFilter(Redaction(secrets))
    return "".join(redaction.feed(part) for part in parts) + redaction.close()


@pytest.mark.parametrize(
    ("secrets", "text", "shown"),
    [
        ([KEY], f"KEY={KEY}\n{KEY}{KEY}.", "KEY=[key]\n[key][key]."),
        ([KEY], KEY[:-1], KEY[:-1]),
        (
            [KEY, KEY + "-more", KEY[:8]],
            f"{KEY}-more {KEY}-mor {KEY[:9]}",
            "[key] [key]-mor [key]5",
        ),
        ([f" {KEY}\n"], f"a{KEY}b", "a[key]b"),
        (
            ["a.c*(e)[", "\\d\\d\\d\\d"],
            "a.c*(e)[ abc*(e)[ 1234 \\d\\d\\d\\d",
            "[key] abc*(e)[ 1234 [key]",
        ),
        (["1234567", "", "        "], "1234567 and blanks:          ", None),
        ([], KEY, None),
        ([None], KEY, None),
    ],
    ids=range(8),
)
def test_exact_values_of_eight_characters_and_more_are_replaced_the_longest_first(
    secrets: list[str], text: str, shown: str | None
) -> None:
    expected = text if shown is None else shown
    assert Redaction(secrets).text(text) == expected
    assert filtered(secrets, [text]) == filtered(secrets, text) == expected


LETTERS = st.text("ab", min_size=8, max_size=12)


@given(st.data(), st.lists(LETTERS, max_size=3))
def test_what_is_shown_does_not_depend_on_the_cuts(data: st.DataObject, secrets: list[str]) -> None:
    pieces = st.text("abc", max_size=12) | st.sampled_from([*secrets, "-"])
    text = "".join(data.draw(st.lists(pieces, max_size=9)))
    cuts = data.draw(st.lists(st.integers(0, len(text))).map(sorted))
    parts = [text[low:high] for low, high in pairwise([0, *cuts, len(text)])]
    whole = Redaction(secrets).text(text)
    assert filtered(secrets, parts) == filtered(secrets, text) == whole
    assert not any(secret in whole for secret in secrets)


def test_only_what_may_be_the_beginning_of_a_secret_is_held_back() -> None:
    redaction = RedactionFilter(Redaction([KEY]))
    assert redaction.feed("a line\n") == "a line\n"
    assert redaction.feed("ask") == "a"
    assert redaction.feed("-0") == ""
    assert redaction.feed("9") == "sk-09"
    assert redaction.feed(KEY[:-1]) == ""
    assert redaction.feed(KEY[-1] + "s") == PLACEHOLDER
    assert redaction.close() == "s"
    assert redaction.close() == ""


@pytest.mark.parametrize("text", [KEY * 50_000, "s" * 600_000, KEY[:-1] * 50_000])
def test_many_keys_and_many_beginnings_cost_linear_time(text: str) -> None:
    started = time.monotonic()
    filtered([KEY, "s" * 1000], [text[at : at + 65_536] for at in range(0, len(text), 65_536)])
    assert time.monotonic() - started < 10  # about half a second


def test_neither_key_stands_in_an_event_the_history_or_a_later_request(tmp_path: Path) -> None:
    configured, inherited = "bk-0123456789", "sk-9876543210"
    (tmp_path / ".bantam.cfg").write_text(f"api_key={configured}\n")
    environ = {"PATH": os.environ["PATH"], "OPENAI_API_KEY": inherited}
    replies = [
        shell("env | grep KEY; cat .bantam.cfg; echo $OPENAI_API_KEY"),
        shell("tr '\\0' '\\n' </proc/$$/environ | grep KEY; sed 's/-/-\\x00\\x1b[0m/' .bantam.cfg"),
        shell('yes "$(cat .bantam.cfg)" | head -c 100000'),
        write("$OPENAI_API_KEY/../.bantam.cfg/x", "x"),
        text("done"),
    ]
    with (
        LLMServer(replies) as server,
        agent_at(server.url, tmp_path, f"api_key={configured}", environ=environ) as agent,
    ):
        events = turn(agent)
        results = [event.text for event in events if isinstance(event, ToolFinished)]
        assert [result.count(PLACEHOLDER) for result in results[:2]] == [3, 2]
        told = [
            str([as_json(event) for event in events]),
            str(list(map(to_api, agent.log.messages))),
        ]
        told += [request.body.decode() for request in server.chat]
        assert len(told) == 7
    for each in told:
        assert configured not in each
        assert inherited not in each


# -- events -----------------------------------------------------------------------------------


def shown_of(events: Sequence[Event], *secrets: str) -> list[Event]:
    def source() -> Generator[Event, None, str]:
        yield from events
        return "the end"

    shown: list[Event] = []
    assert drained(discreet(source(), Redaction(secrets)), shown.append) == "the end"
    return shown


def test_of_a_delta_only_what_may_begin_a_key_waits_and_nothing_is_lost() -> None:
    deltas: list[Event] = [
        TextDelta("It is sk"),
        TextDelta("-01"),
        TextDelta("23456789."),
        TextDelta(" s"),
    ]
    deltas.insert(1, ReasoningDelta(""))
    assert shown_of(deltas, KEY) == [
        TextDelta("It is "),
        TextDelta("[key]."),
        TextDelta(" "),
        TextDelta("s"),
    ]


def test_what_was_held_back_comes_before_the_next_event() -> None:
    events: list[Event] = [ReasoningDelta("so sk-"), TextDelta("sk-0"), Notice(KEY), TextDelta("s")]
    assert shown_of(events, KEY) == [
        ReasoningDelta("so "),
        ReasoningDelta("sk-"),
        TextDelta("sk-0"),
        Notice("[key]"),
        TextDelta("s"),
    ]


WORDS = st.text("abc", min_size=1, max_size=9)


@given(
    st.lists(LETTERS, min_size=1, max_size=3),
    st.lists(
        st.builds(TextDelta, WORDS) | st.builds(ReasoningDelta, WORDS) | st.builds(Notice, WORDS),
        max_size=12,
    ),
)
def test_events_say_what_they_said_but_for_keys(secrets: list[str], events: list[Event]) -> None:
    def said(each: Sequence[Event]) -> list[tuple[str, str]]:
        """Return what was said, each stretch of one kind in one."""
        groups = groupby(each, key=lambda event: event.type)
        return [(kind, "".join(str(as_json(e)["text"]) for e in group)) for kind, group in groups]

    hidden = [(kind, Redaction(secrets).text(text)) for kind, text in said(events)]
    if not any(a == b == Notice for a, b in pairwise(map(type, events))):
        assert said(shown_of(events, *secrets)) == hidden


MARKED = Message(
    Role.ASSISTANT,
    f"a {KEY}",
    f"b {KEY}",
    (
        ToolCall(
            f"call {KEY}", f"run_{KEY}", f'{{"x": "sk-\\u0030123456789", "{KEY}": 1}}', {KEY: [KEY]}
        ),
    ),
    extra={"of": {f"x{KEY}": KEY}, "n": 1},
)


@pytest.mark.parametrize(
    "event",
    [
        TurnStart(KEY, f"m{KEY}", f"http://h/{KEY}", "native"),
        Retry(1, 9, 1.0, f"no {KEY}"),
        Notice(f"no {KEY}"),
        Replied(MARKED, f"stop {KEY}"),
        ToolStarted(f"c{KEY}", KEY, {"command": f"echo {KEY}", KEY: 1}),
        ToolStarted("c", "n", f"not JSON {KEY}"),
        ToolOutput(KEY, f"x {KEY}"),
        ToolFinished(KEY, KEY, Status.OK, KEY, 0, 0.1, (FileChange(f"/{KEY}", 1, 0, f"+{KEY}\n"),)),
        Compacted(2, 1, f"about {KEY}"),
        Done(
            Stop.ERROR, 1, KEY, KEY, UsageSum(1, 2, None), Failure("ModelError", 404, f"{KEY}/v1")
        ),
    ],
    ids=lambda event: event.type,
)
def test_no_part_of_an_event_holds_a_key_and_the_rest_stays(event: Event) -> None:
    (shown,) = shown_of([event], KEY)
    assert KEY not in str(as_json(shown))
    assert KEY not in repr(shown)
    assert "[key]" in str(as_json(shown))
    assert type(shown) is type(event)
    (same,) = shown_of([event], "another-key")
    assert same == event


def test_numbers_stay_numbers() -> None:
    usage = UsageReport(1, 2, None, estimated=True, context=3, window=4)
    request = Request(1, 2, 3)
    assert shown_of([usage, request], KEY) == [usage, request]


def test_without_a_key_events_and_messages_are_handed_through() -> None:
    event, message = Notice(KEY), MARKED
    assert shown_of([event])[0] is event
    assert hidden_in([message], Redaction([]))[0] is message


def test_what_is_closed_on_the_way_is_closed_below() -> None:
    closed = []

    def source() -> Generator[Event, None, None]:
        try:
            yield TextDelta("x")
            yield TextDelta("y")
        finally:
            closed.append(True)

    for secrets in ([], [KEY]):
        events = discreet(source(), Redaction(secrets))
        assert next(events) == TextDelta("x")
        events.close()
    assert closed == [True, True]


# -- whole runs -------------------------------------------------------------------------------


def everywhere(key: str) -> list[Reply]:
    """Return answers of a model that writes `key` wherever it can."""
    odd = [
        delta(reasoning_content=f"Hm, {key[:5]}"),
        delta(reasoning_content=key[5:]),
        delta(content=f"It is {key[:4]}"),
        delta(content=key[4:] + "."),
        delta(reasoning_details=[{"type": "reasoning.text", "text": key, key: 1, "index": 0}]),
        delta(
            tool_calls=[
                {
                    "index": 0,
                    "id": f"call_{key}",
                    "type": "function",
                    "function": {"name": f"x{key}", "arguments": f'{{"a": "{key}"}}'},
                    "extra_content": {key: {"signature": key}},
                }
            ]
        ),
        delta(finish=f"no {key}"),
        DONE,
    ]
    escaped = key.replace("-", "\\u002d")
    return [
        raw(b"".join(odd)),
        shell(f"echo {key}", start=2),
        calls(("shell_exec", f'{{"command": "echo {escaped}"}}'), start=3),
        calls(("shell_exec", f"not JSON {key}"), start=4),
        write(f"{key}.txt", f"{key}\n", start=5),
        text(f"The key is {key}."),
    ]


@pytest.mark.parametrize("kind", ["list", "older list", "session"])
def test_whatever_remembers_nothing_that_is_sent_stored_or_told_holds_a_key(
    kind: str, tmp_path: Path
) -> None:
    project = tmp_path / f"of-{KEY}"
    project.mkdir()
    (project / "AGENTS.md").write_text(f"Use {KEY}.")
    environ = {"PATH": os.environ["PATH"], "OPENAI_API_KEY": KEY}
    said = [Message(Role.USER, KEY), Message(Role.ASSISTANT, f"I see {KEY}.", extra={KEY: KEY})]
    store = Store(tmp_path / "home", lambda: datetime.now(UTC))  # it knows no key by itself
    about = About(project=str(project), endpoint="e", model="m")
    memories: dict[str, Memory] = {
        "list": ListLog(),
        "older list": ListLog(said),
        "session": store.fresh("s", about),
    }
    log = memories[kind]
    with LLMServer(everywhere(KEY)) as server:
        config = resolve(overrides=[f"endpoint={server.url}", "model=m"])
        with closing(Agent(config, Surroundings(project, environ, DAY), log=log)) as agent:
            events = turn(agent, f"My key is {KEY}.")
            held = [to_api(message) for message in agent.log.messages]
    assert done(events).stop is Stop.FINAL
    assert done(events).text == "The key is [key]."
    assert (project / f"{KEY}.txt").read_text() == f"{KEY}\n"  # what runs is what was written
    told = [str(as_json(event)) for event in events]
    assert [each for each in [*told, str(held)] if KEY in each] == []
    assert [request.body for request in server.chat if KEY.encode() in request.body] == []
    assert "".join(e.text for e in events if isinstance(e, TextDelta)).startswith("It is [key].")
    reasoning = "".join(e.text for e in events if isinstance(e, ReasoningDelta))
    assert reasoning.startswith("Hm, [key]")
    # What is sent is what is held.
    sent = server.chat[-1].json["messages"]
    for message in [*sent, *held]:  # what an escape hides, too
        for call in message.get("tool_calls", ()):
            assert KEY not in str(parsed_arguments(call["function"]["arguments"]))
    assert [m["content"] for m in sent if m["role"] == "user"][-1] == "My key is [key]."
    files = [path for path in (tmp_path / "home").rglob("*") if path.is_file()]
    assert bool(files) is (kind == "session")
    assert [path for path in files if KEY.encode() in path.read_bytes()] == []


def test_a_key_that_is_learned_later_goes_out_of_what_is_stored(tmp_path: Path) -> None:
    store = Store(tmp_path, lambda: datetime.now(UTC))
    session = store.fresh("s", About(project="/p", endpoint="e", model="m"))
    for message in (Message(Role.USER, f"Try {KEY}."), Message(Role.ASSISTANT, f"{KEY}, then.")):
        session.append(message)
    session.finish()
    assert KEY in (tmp_path / "sessions" / "s.json").read_text()
    session.hide([KEY])
    session.close()
    assert KEY not in (tmp_path / "sessions" / "s.json").read_text()
    again = store.stored("s").conversation.messages
    assert [message.content for message in again] == ["Try [key].", "[key], then."]


def test_a_summary_holds_no_key(tmp_path: Path) -> None:
    environ = {"PATH": os.environ["PATH"], "OPENAI_API_KEY": KEY}
    replies = [text("Hello."), text(f"About {KEY}."), text(f"All about {KEY}.")]
    with LLMServer(replies) as server, agent_at(server.url, tmp_path, environ=environ) as agent:
        turn(agent)
        assert drained(agent.summary(Cancel()), lambda _: None) == "About [key]."
        compacted: list[Event] = []
        assert drained(agent.compact(), compacted.append)
    assert "All about [key]." in str(compacted)
    assert KEY not in str(compacted)


def test_a_recording_with_a_key_runs_again_without_it(tmp_path: Path) -> None:
    recorded = [
        Message(Role.USER, f"Say {KEY}."),
        Message(
            Role.ASSISTANT, "", tool_calls=(ToolCall("c", "shell_exec", '{"command": "echo x"}'),)
        ),
        Message(Role.TOOL, "x\n\n\nexit: 0", tool_call_id="c"),
        Message(Role.ASSISTANT, f"It is {KEY}."),
    ]
    environ = {"PATH": os.environ["PATH"], "OPENAI_API_KEY": KEY}
    events: list[Event] = []
    surroundings = Surroundings(tmp_path, environ, DAY)
    report = drained(replayed(recorded, resolve(), surroundings, Cancel()), events.append)
    assert (report.difference, report.answers, report.results) == (None, 2, 1)
    assert KEY not in str(events)
    assert "It is [key]." in str(events)


def test_a_file_whose_name_holds_a_key_is_told_to_be_one_that_undo_cannot_put_back(
    tmp_path: Path,
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    environ = {"PATH": os.environ["PATH"], "OPENAI_API_KEY": KEY}
    store = Store(tmp_path / "home", lambda: datetime.now(UTC))
    session = store.fresh("s", About(project=str(project), endpoint="e", model="m"))
    replies = [write(f"{KEY}.txt", "x"), write("plain.txt", "x", start=2), text("Done.")]
    with LLMServer(replies) as server:
        config = resolve(overrides=[f"endpoint={server.url}", "model=m"])
        agent = Agent(config, Surroundings(project, environ, DAY), log=session)
        told = notices(turn(agent))
    assert told == [f"{project}/[key].txt cannot be put back later: its path holds a key"]
    report = undo_last(session, Cancel())
    agent.close()
    assert report.removed == (f"{project}/plain.txt",)
    assert [path for path, _ in report.refused] == [f"{project}/[key].txt"]
    assert [path.name for path in project.iterdir()] == [f"{KEY}.txt"]


def test_no_session_has_a_name_that_holds_a_key(tmp_path: Path) -> None:
    store = Store(tmp_path, lambda: datetime.now(UTC), Redaction([KEY]))
    session = store.fresh("s", About(project="/p", endpoint="e", model=KEY))
    session.append(Message(Role.USER, "Go."))
    with pytest.raises(ConfigError, match="holds a key") as refused:
        store.save_as(session, f"of {KEY}")
    assert KEY not in str(refused.value)
    long = KEY * 12
    for search in (store.find, checked_name):
        with pytest.raises(ConfigError) as failed:
            search(long)
        assert KEY not in str(failed.value)
    session.close()
    assert KEY not in (tmp_path / "sessions" / "s.json").read_text()


# -- addresses --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("endpoint", "shown"),
    [
        ("user:{}@host/v1", "...@host/v1"),
        ("{}@host/v1", "...@host/v1"),
        ("https:user:{}@h", "https:...@h"),
        ("https:/{}@h", "https:/...@h"),
        ("https://{}@h/v1", "https://...@h/v1"),
        ("HTTP://a:{}@b@h", "HTTP://...@h"),
        ("https:////{}@h", "https://...@h"),
        ("//{}@h", "//...@h"),
        ("ftp://u:{}@h", "...@h"),
        ("http://h:x/{}@y", "http://...@y"),
    ],
)
@pytest.mark.parametrize("place", ["-o", "file"])
def test_what_stands_before_an_at_in_a_wrong_endpoint_is_not_shown(
    place: str, endpoint: str, shown: str
) -> None:
    text = f"endpoint={endpoint.format(KEY)}"
    file, options = ([], [text]) if place == "-o" else (parse(text.encode(), ".bantam.cfg"), [])
    with pytest.raises(ConfigError) as caught:
        resolve(file, options)
    assert KEY not in str(caught.value)
    assert shown in str(caught.value)


def test_a_wrong_endpoint_that_is_too_long_to_be_shown_is_not_shown_in_part() -> None:
    with pytest.raises(ConfigError) as caught:
        resolve(overrides=[f"endpoint={KEY * 7}"])
    assert KEY[:6] not in str(caught.value)
