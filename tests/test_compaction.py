"""A conversation that outgrows the window goes on from a summary of itself (SPEC section 8)."""

import json
import sys
import threading
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest
from exchanges import collected
from faults import calls, make_shim
from llmserver import LLMServer, Reply, error, shell, text, write
from processes import files_of_at_most
from program import at, environment, events, run
from turns import agent_at, done, error_of, notices, turn

from bantam.agent.agent import Agent
from bantam.agent.memory import ListLog
from bantam.core.cancel import Cancel
from bantam.core.events import (
    Compacted,
    Event,
    ReasoningDelta,
    Replied,
    Request,
    Stop,
    TextDelta,
    UsageReport,
    UsageSum,
)
from bantam.core.messages import Message, Role, ToolCall
from bantam.core.redaction import Redaction
from bantam.sessions.session import Session
from bantam.sessions.snapshot import About
from bantam.sessions.store import Store, project_id

SYSTEM: Final = Message(Role.SYSTEM, "s")
SAID: Final = (SYSTEM, Message(Role.USER, "Count."), Message(Role.ASSISTANT, "One, two."))
SUMMARY: Final = "Goal: to count. Next step: three."
KEPT: Final = "(The conversation up to here was replaced by this summary, which you wrote.)"
KEY: Final = "sk-0123456789-secret"
TOO_LONG: Final = error(400, "too long", code="context_length_exceeded")
OPTION: Final = "context_window=1000"


def used(prompt: int, cached: int | None = None) -> dict[str, Any]:
    details = {} if cached is None else {"prompt_tokens_details": {"cached_tokens": cached}}
    return {"prompt_tokens": prompt, "completion_tokens": 10, **details}


NEARLY_FULL: Final = used(900)
NOT_YET: Final = used(899)


def compacted(agent: Agent, cancel: Cancel | None = None) -> tuple[list[Event], bool]:
    return collected(agent.compact(cancel))


def compactions(found: Sequence[Event]) -> list[Compacted]:
    return [event for event in found if isinstance(event, Compacted)]


def sent(server: LLMServer) -> list[list[dict[str, Any]]]:
    return [request.json["messages"] for request in server.chat]


def set_at_stall(server: LLMServer, cancel: Cancel) -> threading.Thread:
    """Return a thread that cancels once the server has stalled."""

    def wait_and_set() -> None:
        server.wait_for_stall()
        cancel.set()

    setter = threading.Thread(target=wait_and_set)
    setter.start()
    return setter


def roles(messages: Sequence[dict[str, Any]]) -> list[str]:
    return [message["role"] for message in messages]


# -- between turns ----------------------------------------------------------------------------


def test_the_summary_is_asked_for_behind_the_cached_prefix_and_takes_its_place(
    tmp_path: Path,
) -> None:
    replies = [shell("true"), text("Done."), text(f"\n{SUMMARY}\n", reasoning="Hm.")]
    with LLMServer(replies) as server, agent_at(server.url, tmp_path) as agent:
        turn(agent)
        found, was_done = compacted(agent)
        _, before, asking = (request.json for request in server.chat)
        after = agent.context
    assert was_done
    assert asking["messages"][:-2] == before["messages"]
    assert asking["messages"][-2] == {"role": "assistant", "content": "Done."}
    assert asking["messages"][-1]["role"] == "user"
    assert all(
        word in asking["messages"][-1]["content"]
        for word in ("Goal", "Decisions", "Files", "Commands", "Open problems", "Next step")
    )
    unlike = {"messages": [], "tool_choice": "none"}
    assert asking | unlike == before | unlike
    assert asking["tool_choice"] == "none"
    system, summary = agent.log.messages
    assert system.role is Role.SYSTEM
    assert summary.role is Role.USER
    assert summary.content.startswith(KEPT)
    assert SUMMARY in summary.content
    (told,) = compactions(found)
    assert (told.tokens_before, told.summary) == (12, SUMMARY)
    assert after == (told.tokens_after, 200000)
    assert not [e for e in found if isinstance(e, TextDelta | ReasoningDelta | Replied)]
    assert [type(event) for event in found] == [Request, UsageReport, Compacted]
    assert len(agent.log.calls) == 3


def test_what_follows_a_compaction_keeps_its_prefix(tmp_path: Path) -> None:
    replies = [text("Done."), text(SUMMARY), shell("true"), text("Three."), text("Four.")]
    with LLMServer(replies) as server, agent_at(server.url, tmp_path) as agent:
        turn(agent, "Count.")
        compacted(agent)
        turn(agent, "Go on.")
        turn(agent, "And on.")
        requests = sent(server)[2:]
    assert roles(requests[0]) == ["system", "user"]
    assert requests[0][1]["content"].endswith("\n\nGo on.")
    for earlier, later in pairwise(requests):
        assert later[: len(earlier)] == earlier


def test_tokens_after_are_those_that_the_next_request_would_be_estimated_at(
    tmp_path: Path,
) -> None:
    replies = [text(SUMMARY, usage=None), text("Three.", usage=None)]
    with LLMServer(replies) as server, agent_at(server.url, tmp_path, history=SAID) as agent:
        assert agent.context is None
        found, _ = compacted(agent)
        report = next(event for event in found if isinstance(event, UsageReport))
        turn(agent, "")
        bodies = [len(request.body) // 4 for request in server.chat]
    (told,) = compactions(found)
    assert abs(told.tokens_after - bodies[1]) <= 1  # the blank line before the empty prompt
    assert told.tokens_before < report.prompt  # that has the request for the summary


def test_a_summary_is_no_prompt_that_could_be_sent_again(tmp_path: Path) -> None:
    with (
        LLMServer([text(SUMMARY)]) as server,
        agent_at(server.url, tmp_path, history=SAID) as agent,
    ):
        assert compacted(agent)[1]
        assert agent.log.rewind() is None


def test_where_the_model_has_said_nothing_there_is_nothing_to_compact(tmp_path: Path) -> None:
    with LLMServer([]) as server, agent_at(server.url, tmp_path) as agent:
        found, was_done = compacted(agent)
    assert not was_done
    assert notices(found) == ["the conversation was not compacted: the model has said nothing yet"]


@pytest.mark.parametrize(
    ("replies", "said"),
    [
        ([text("  ")] * 3, "empty"),
        ([error(400, "no such thing")], "no such thing"),
        ([text("Goal: to", finish="length")], "not whole"),
        ([text("Goal: to", finish="content_filter")], "not whole"),
        ([shell("touch made", content="Let me see.")], "called a tool"),
        ([error(401, "who are you")], "who are you"),
    ],
)
def test_an_empty_or_failed_summary_changes_nothing_and_is_told(
    replies: list[Reply], said: str, tmp_path: Path
) -> None:
    with LLMServer(replies) as server, agent_at(server.url, tmp_path, history=SAID) as agent:
        found, was_done = compacted(agent)
    assert not was_done
    assert notices(found)[-1].startswith("the conversation was not compacted: ")
    assert said in notices(found)[-1]
    assert tuple(agent.log.messages) == SAID
    assert not compactions(found)
    assert not (tmp_path / "made").exists()


def test_a_server_that_does_not_know_tool_choice_gets_none(tmp_path: Path) -> None:
    refusal = error(400, "Unsupported parameter: 'tool_choice'.")
    with (
        LLMServer([refusal, text(SUMMARY)]) as server,
        agent_at(server.url, tmp_path, history=SAID) as agent,
    ):
        assert compacted(agent)[1]
        assert "tool_choice" not in server.chat[1].json


def test_an_interrupt_while_the_summary_comes_changes_nothing(tmp_path: Path) -> None:
    cancel = Cancel()
    with (
        LLMServer([text(SUMMARY, stall_after=400)]) as server,
        agent_at(server.url, tmp_path, history=SAID) as agent,
    ):
        setter = set_at_stall(server, cancel)
        found, was_done = compacted(agent, cancel)
        setter.join()
    assert not was_done
    assert notices(found) == ["the conversation was not compacted: interrupted by the user"]
    assert tuple(agent.log.messages) == SAID


def test_a_compaction_that_is_closed_changes_nothing(tmp_path: Path) -> None:
    with (
        LLMServer([text(SUMMARY)], strict=False) as server,
        agent_at(server.url, tmp_path, history=SAID) as agent,
    ):
        with closing(agent.compact()) as running:
            assert isinstance(next(running), Request)
        assert tuple(agent.log.messages) == SAID


def test_a_summary_counts_against_the_budget_and_none_is_asked_for_beyond_it(
    tmp_path: Path,
) -> None:
    replies = [text("One.", usage=used(50)), text(SUMMARY, usage=used(50))]
    with LLMServer(replies) as server, agent_at(server.url, tmp_path, "budget_tokens=100") as agent:
        turn(agent)
        assert compacted(agent)[1]
        assert done(turn(agent)).stop is Stop.BUDGET
        agent.log.append(Message(Role.ASSISTANT, "Two."))
        found, was_done = compacted(agent)
    assert not was_done
    assert "budget_tokens=100 is used up: 120 tokens so far" in notices(found)[0]


def test_a_prompt_that_nobody_has_answered_stays_with_what_was_noted_behind_it(
    tmp_path: Path,
) -> None:
    prompt, note = "Three?", "(The user has undone your last changes of a.)"
    history = (*SAID, Message(Role.USER, prompt), Message(Role.USER, note))
    with (
        LLMServer([text(SUMMARY)]) as server,
        agent_at(server.url, tmp_path, history=history) as agent,
    ):
        assert compacted(agent)[1]
        assert [m.content for m in agent.log.messages[2:]] == [prompt, note]
        assert [m["content"] for m in sent(server)[0][1:-1]] == [m.content for m in SAID[1:]]


def test_what_was_noted_behind_an_answer_is_summarised_with_it(tmp_path: Path) -> None:
    history = (*SAID, Message(Role.USER, "(The user has undone your last changes of a.)"))
    with (
        LLMServer([text(SUMMARY)]) as server,
        agent_at(server.url, tmp_path, history=history) as agent,
    ):
        assert compacted(agent)[1]
        assert len(agent.log.messages) == 2
        assert "undone your last changes of a" in sent(server)[0][-1]["content"]


def test_a_conversation_without_a_prompt_can_be_compacted(tmp_path: Path) -> None:
    history = (SYSTEM, Message(Role.ASSISTANT, "Hello."))
    with (
        LLMServer([text(SUMMARY)]) as server,
        agent_at(server.url, tmp_path, history=history) as agent,
    ):
        assert compacted(agent)[1]
        assert len(agent.log.messages) == 2


# -- in a turn --------------------------------------------------------------------------------


def test_a_summary_that_frees_nothing_is_the_last_one_of_its_turn(tmp_path: Path) -> None:
    replies = [
        shell("echo one", usage=NEARLY_FULL),
        text(SUMMARY),
        shell("echo two", start=2, usage=NEARLY_FULL),
        shell("echo three", start=3, usage=NEARLY_FULL),
        text("Done.", usage=NEARLY_FULL),
    ]
    with LLMServer(replies) as server, agent_at(server.url, tmp_path, OPTION) as agent:
        found = turn(agent)
    assert len(compactions(found)) == 1
    assert notices(found) == [
        "90% of the window is in use: compacting",
        "compacting has freed too little room: not again in this turn",
    ]
    assert done(found).stop is Stop.FINAL


def test_from_nine_tenths_on_a_turn_compacts_between_two_steps_and_keeps_its_prompt(
    tmp_path: Path,
) -> None:
    replies = [
        shell("echo one", usage=NEARLY_FULL),
        text(SUMMARY, usage=used(920)),
        shell("echo three", usage=NOT_YET),
        text("Three.", usage=NEARLY_FULL),
    ]
    prompt = "Count  to three.\n\n"
    with LLMServer(replies) as server, agent_at(server.url, tmp_path, OPTION) as agent:
        found = turn(agent, prompt)
        first, asking, second, third = sent(server)
    (told,) = compactions(found)
    assert told.tokens_before == 900
    assert told.tokens_after < 900
    assert notices(found) == ["90% of the window is in use: compacting"]
    assert asking[:2] == first
    assert asking[3]["content"].startswith("one\n")
    assert roles(second) == ["system", "user"]
    assert second[1]["content"].startswith(KEPT)
    assert second[1]["content"].endswith(f"\n\n{prompt}")
    assert third[:2] == second
    assert [m.content for m in agent.log.messages][2] == prompt
    assert done(found).text == "Three."
    assert done(found).usage == UsageSum(900 + 920 + 899 + 900, 40, None, False, 900, 1000)
    assert sum(isinstance(event, Replied) for event in found) == 3


def test_a_last_answer_is_not_compacted(tmp_path: Path) -> None:
    with (
        LLMServer([text("One.", usage=NEARLY_FULL)]) as server,
        agent_at(server.url, tmp_path, OPTION) as agent,
    ):
        assert not compactions(turn(agent))
        assert agent.context == (900, 1000)


def test_a_conversation_from_an_earlier_run_is_measured_before_its_first_request(
    tmp_path: Path,
) -> None:
    long = (*SAID, Message(Role.USER, "x" * 3600), Message(Role.ASSISTANT, "y"))
    with (
        LLMServer([text(SUMMARY), text("Three.")]) as server,
        agent_at(server.url, tmp_path, OPTION, history=long) as agent,
    ):
        found = turn(agent)
        assert len(compactions(found)) == 1
        assert sent(server)[1][1]["content"].endswith("Go on.")


def test_a_first_prompt_is_sent_however_long_it_is(tmp_path: Path) -> None:
    with LLMServer([text("Yes.")]) as server, agent_at(server.url, tmp_path, OPTION) as agent:
        assert not compactions(turn(agent, "x" * 9000))


def test_a_summary_that_failed_is_not_tried_again_in_its_turn_which_goes_on(
    tmp_path: Path,
) -> None:
    replies = [
        shell("echo one", usage=NEARLY_FULL),
        error(400, "no summaries here"),
        shell("echo two", usage=NEARLY_FULL),
        text("Three.", usage=NEARLY_FULL),
        text(SUMMARY),
        text("Four."),
    ]
    with LLMServer(replies) as server, agent_at(server.url, tmp_path, OPTION) as agent:
        found = turn(agent)
        assert not compactions(found)
        assert "not compacted: 400 Bad Request: no summaries here" in notices(found)[1]
        assert done(found).text == "Three."
        assert len(agent.log.messages) == 7
        assert len(compactions(turn(agent))) == 1


def test_an_interrupt_while_a_turn_compacts_ends_it_and_changes_nothing(tmp_path: Path) -> None:
    cancel = Cancel()
    replies = [shell("echo one", usage=NEARLY_FULL), text(SUMMARY, stall_after=400)]
    with LLMServer(replies) as server, agent_at(server.url, tmp_path, OPTION) as agent:
        setter = set_at_stall(server, cancel)
        found = turn(agent, cancel=cancel)
        setter.join()
    assert done(found).stop is Stop.INTERRUPTED
    kinds = [Role.SYSTEM, Role.USER, Role.ASSISTANT, Role.TOOL]
    assert [message.role for message in agent.log.messages] == kinds


def test_a_budget_that_a_summary_would_break_ends_the_turn(tmp_path: Path) -> None:
    options = (OPTION, "budget_tokens=900")
    with (
        LLMServer([shell("echo one", usage=NEARLY_FULL)]) as server,
        agent_at(server.url, tmp_path, *options) as agent,
    ):
        assert done(turn(agent)).stop is Stop.BUDGET


def test_a_long_turn_is_compacted_as_often_as_it_needs(tmp_path: Path) -> None:
    def script(asked: dict[str, Any], _: int) -> Reply:
        if asked.get("tool_choice") == "none":
            return text(SUMMARY)
        is_fresh = asked["messages"][-1]["content"].startswith(KEPT)
        return shell("true", usage=NOT_YET if is_fresh else NEARLY_FULL)

    options = (OPTION, "max_al_iterations=7")  # every second one fills the window
    with LLMServer(script) as server, agent_at(server.url, tmp_path, *options) as agent:
        found = turn(agent, "Count.")
        assert len(compactions(found)) == 3
        assert sent(server)[-1][1]["content"].endswith("Count.")
        assert sent(server)[-1][1]["content"].count(KEPT) == 1


# -- a cache that should have held ------------------------------------------------------------


def test_a_compaction_breaks_the_prefix_and_the_proof_of_the_cache_knows_it(
    tmp_path: Path,
) -> None:
    missed, held = used(12, 0), used(12, 11)
    replies = [
        text("One.", usage=missed),
        text(SUMMARY, usage=held),
        text("Two.", usage=missed),
        text("Three.", usage=missed),
    ]
    with (
        LLMServer(replies) as server,
        agent_at(server.url, tmp_path, "cache_proof=strict") as agent,
    ):
        turn(agent)
        assert compacted(agent)[1]
        assert done(turn(agent)).stop is Stop.FINAL
        assert "cache miss" in error_of(turn(agent))


def test_a_summary_that_missed_the_cache_is_used_and_told(tmp_path: Path) -> None:
    replies = [text("One."), text(SUMMARY, usage=used(12, 0))]
    with (
        LLMServer(replies) as server,
        agent_at(server.url, tmp_path, "cache_proof=strict") as agent,
    ):
        turn(agent)
        found, was_done = compacted(agent)
    assert was_done
    assert "cache miss" in notices(found)[0]
    assert len(agent.log.messages) == 2


def test_a_summary_that_missed_the_cache_ends_its_turn(tmp_path: Path) -> None:
    replies = [shell("true", usage=NEARLY_FULL), text(SUMMARY, usage=used(920, 0))]
    with (
        LLMServer(replies) as server,
        agent_at(server.url, tmp_path, OPTION, "cache_proof=strict") as agent,
    ):
        found = turn(agent, "Count.")
    assert "cache miss" in error_of(found)
    assert len(compactions(found)) == 1
    assert [m.content for m in agent.log.messages][2:] == ["Count."]


# -- refused as too long ----------------------------------------------------------------------

LONG: Final = "a" * 3000 + "z" * 3000
CALL: Final = ToolCall(
    "call_1", "write_file", json.dumps({"path": "f", "content": LONG, "offset": 0})
)
TORN: Final = ToolCall("call_2", "shell_exec", f'{{"command": "{LONG}')
WORKED: Final = (
    SYSTEM,
    Message(Role.USER, "Write."),
    Message(Role.ASSISTANT, "Now.", tool_calls=(CALL, TORN)),
    Message(Role.TOOL, LONG, tool_call_id="call_1"),
    Message(Role.TOOL, "short", tool_call_id="call_2"),
    Message(Role.ASSISTANT, "Written."),
)


def test_a_prompt_that_does_not_fit_any_more_is_sent_once_more_behind_a_summary(
    tmp_path: Path,
) -> None:
    with (
        LLMServer([TOO_LONG, text(SUMMARY), text("Three.")]) as server,
        agent_at(server.url, tmp_path, history=SAID) as agent,
    ):
        found = turn(agent)
        first, asking, second = sent(server)
    assert asking[:-1] == first[:-1]  # without the prompt: that is sent word for word
    assert second[1]["content"].endswith("\n\nGo on.")
    assert len(compactions(found)) == 1
    assert done(found).text == "Three."


def test_a_result_that_does_not_fit_is_cut_for_the_summary(tmp_path: Path) -> None:
    replies = [shell("seq 2000"), TOO_LONG, text(SUMMARY), text("Counted.")]
    with LLMServer(replies) as server, agent_at(server.url, tmp_path) as agent:
        found = turn(agent)
        _, refused, asking, last = sent(server)
    result = asking[3]["content"]
    assert refused[3]["content"].startswith(result.partition("\n[")[0])
    assert "characters left out]\n" in result
    assert result.endswith("\n\nexit: 0")
    assert 2000 < len(result) < 2100
    assert asking[:3] == refused[:3]
    assert roles(last) == ["system", "user"]
    assert done(found).text == "Counted."


def test_a_prompt_that_is_refused_twice_in_a_turn_is_an_error(tmp_path: Path) -> None:
    replies = [TOO_LONG, text(SUMMARY), shell("seq 2000"), TOO_LONG]
    with LLMServer(replies) as server, agent_at(server.url, tmp_path, history=SAID) as agent:
        found = turn(agent)
        assert "context window" in error_of(found)
        assert len(compactions(found)) == 1
    failure = done(found).error
    assert failure is not None
    assert failure.kind == "PromptTooLong"


def test_a_conversation_too_long_to_be_summarised_is_shown_shorter_twice_then_given_up(
    tmp_path: Path,
) -> None:
    with (
        LLMServer([TOO_LONG], repeat_last=True) as server,
        agent_at(server.url, tmp_path, history=WORKED) as agent,
    ):
        found, was_done = compacted(agent)
        whole, *cut = sent(server)
    assert not was_done
    assert tuple(agent.log.messages) == WORKED
    assert "context window" in notices(found)[-1]
    assert (
        notices(found)[:2]
        == ["too long to be summarised: the middle of long texts is left out"] * 2
    )
    assert whole[3]["content"] == LONG
    for messages, most in zip(cut, (2000, 200), strict=True):
        head, tail = most * 6 // 10, most * 4 // 10
        first, torn = (call["function"]["arguments"] for call in messages[2]["tool_calls"])
        assert json.loads(first)["offset"] == 0
        assert torn == "{}"
        for cut_text in (json.loads(first)["content"], messages[3]["content"]):
            assert cut_text.startswith(f"{'a' * head}\n[")
            assert cut_text.endswith(f"\n[{6000 - most} characters left out]\n{'z' * tail}")
        assert messages[4]["content"] == "short"
        assert [messages[0], messages[5]] == [whole[0], whole[5]]


def test_no_request_is_sent_twice_unchanged_whatever_is_too_long(tmp_path: Path) -> None:
    with (
        LLMServer([TOO_LONG], repeat_last=True) as server,
        agent_at(server.url, tmp_path, history=WORKED) as agent,
    ):
        found = turn(agent)
        bodies = [request.body for request in server.chat]
    assert len(set(bodies)) == len(bodies) == 4
    assert "context window" in error_of(found)
    assert tuple(agent.log.messages) == (*WORKED, Message(Role.USER, "Go on."))


def test_a_turn_whose_one_result_is_small_and_still_refused_ends_in_a_clear_error(
    tmp_path: Path,
) -> None:
    replies = [shell("true"), TOO_LONG]
    with LLMServer(replies) as server, agent_at(server.url, tmp_path) as agent:
        found = turn(agent)
        assert len(server.chat) == 2  # all that could be shown of it was refused just now
    assert "too long to be summarised" in notices(found)[-1]
    assert "context window" in error_of(found)


# -- stored -----------------------------------------------------------------------------------


def store_in(home: Path) -> Store:
    return Store(home, lambda: datetime(2026, 1, 2, tzinfo=UTC), Redaction([KEY]))


def begun(home: Path, prompts: int = 1) -> Session:
    """Return a session of so many turns."""
    session = store_in(home).fresh("s", About(project="/p", model="m"))
    session.begin(SYSTEM)
    for number in range(prompts):
        session.append(Message(Role.USER, f"Prompt {number}."))
        session.append(Message(Role.ASSISTANT, f"Answer {number}."))
        session.finish()
    return session


def stored(home: Path, session_id: str = "s") -> list[Message]:
    return store_in(home).stored(session_id).conversation.messages


SHORT: Final = [SYSTEM, Message(Role.USER, f"{KEPT} ...")]


def test_the_old_conversation_stays_stored_under_names_that_none_takes_from_another(
    tmp_path: Path,
) -> None:
    session = begun(tmp_path)
    wanted = {}
    for number in ("", "-2", "-3"):
        wanted[f"s-before-compact{number}"] = list(session.messages)
        session.compact_to(SHORT)
        assert (
            session.notices.pop() == f"the whole conversation is kept as s-before-compact{number}"
        )
        session.append(Message(Role.USER, f"Behind {number}."))
    session.close()
    assert session.notices == []
    for name, messages in wanted.items():
        assert stored(tmp_path, name) == messages
        assert store_in(tmp_path).find(name) == name
    assert stored(tmp_path) == [*SHORT, Message(Role.USER, "Behind -3.")]
    summaries = {each.id: each.about.summary for each in store_in(tmp_path).summaries()}
    assert summaries == dict.fromkeys(["s", *wanted], "Prompt 0.")  # and not the summary's words


def test_turns_and_costs_go_on_being_counted_behind_a_compaction(tmp_path: Path) -> None:
    session = begun(tmp_path, prompts=2)
    session.count(UsageReport(7, 1, None, False, 7, 0))
    session.compact_to(SHORT)
    session.append(Message(Role.USER, "On."))
    assert session.turns == 3
    session.close()
    loaded = store_in(tmp_path).stored("s").conversation
    assert (loaded.turns, loaded.usage.prompt) == (3, 7)


def test_no_key_is_stored_with_a_summary(tmp_path: Path) -> None:
    session = begun(tmp_path)
    session.compact_to([SYSTEM, Message(Role.USER, f"The key is {KEY}.")])
    assert session.messages[1].content == "The key is [key]."
    session.close()
    assert stored(tmp_path)[1].content == "The key is [key]."


def test_a_compaction_in_memory_leaves_the_old_messages_to_whoever_holds_them() -> None:
    log = ListLog(SAID)
    old = log.messages
    log.compact_to(SHORT)
    assert log.messages == SHORT
    assert tuple(old) == SAID


def test_on_a_disk_that_takes_no_copy_the_old_conversation_is_not_replaced(
    tmp_path: Path,
) -> None:
    session = begun(tmp_path)
    session.append(Message(Role.USER, "x" * 20_000))
    session.append(Message(Role.ASSISTANT, "Long."))
    old = list(session.messages)
    with files_of_at_most(10_000):
        session.compact_to(SHORT)
        assert list(session.messages) == SHORT
        session.append(Message(Role.USER, "On."))
        session.compact_to(SHORT)
    (told,) = session.notices
    assert "could not be stored" in told
    assert stored_now(tmp_path) == old
    session.notices.clear()
    session.append(Message(Role.ASSISTANT, "Yes."))
    assert session.notices == [
        "the whole conversation is kept as s-before-compact",
        "the whole conversation is kept as s-before-compact-2",
        "the session is stored again, as s",
    ]
    session.close()
    assert stored(tmp_path, "s-before-compact") == old
    assert stored(tmp_path, "s-before-compact-2") == [*SHORT, Message(Role.USER, "On.")]
    assert stored(tmp_path) == list(session.messages)


def stored_now(home: Path) -> list[Message]:
    """Return what another process would find if the holder of the session were killed now."""
    program = (
        "import shutil, sys\nfrom pathlib import Path\nshutil.copytree(sys.argv[1], sys.argv[2])\n"
    )
    copy = home.with_name(f"{home.name}-copy")
    run(str(home), str(copy), cwd=home, program=(sys.executable, "-c", program))
    return stored(copy)


def test_a_kill_at_any_call_leaves_the_old_conversation_or_the_new_one(tmp_path: Path) -> None:
    shim = make_shim(tmp_path)
    log = tmp_path / "log"
    old, new = killed_at(tmp_path / "whole", shim.recording(log, tmp_path / "whole"))
    assert (len(old), new) == (5, SHORT)
    # What is counted begins with the session: the compaction's calls are the last ones.
    found = calls(log)
    first = next(call.number for call in found if "before-compact" in call.path)
    outcomes = set()
    for call in found[first - 1 :]:
        home = tmp_path / f"home-{call.number}"
        kept, left = killed_at(home, shim.crash("before", call.number, home))
        assert left in (old, SHORT)
        assert kept in ([], old)
        assert old in (left, kept)
        outcomes.add((bool(kept), left == old))
    assert outcomes == {(False, True), (True, True), (True, False)}


def killed_at(home: Path, env: dict[str, str]) -> tuple[list[Message], list[Message]]:
    """Compact a session in a process that `env` may kill; return what is kept of it, and it."""
    home.mkdir()
    tests = str(Path(__file__).parent)
    program = (
        f"import sys; sys.path.insert(0, {tests!r})\n"
        "from pathlib import Path\n"
        "from test_compaction import SHORT, begun\n"
        "session = begun(Path(sys.argv[1]), prompts=2)\n"
        "session.compact_to(SHORT)\n"
    )
    command = (sys.executable, "-c", program)
    run(str(home), cwd=home.parent, program=command, env=environment(home, **env))
    return stored(home, "s-before-compact"), stored(home)


# -- as a process -----------------------------------------------------------------------------


def bantam(server: LLMServer, folder: Path, *arguments: str) -> list[dict[str, Any]]:
    """Return the events of a run that ended well."""
    ended = run("--json", *at(server.url), "-o", OPTION, *arguments, cwd=folder)
    assert (ended.returncode, ended.stderr) == (0, b"")
    return events(ended.stdout)


def kinds(found: Sequence[dict[str, Any]], *wanted: str) -> list[str]:
    return [event["type"] for event in found if event["type"] in wanted]


def test_one_shot_compacts_between_two_steps_and_stores_both(tmp_path: Path) -> None:
    replies = [
        shell("echo one", usage=NEARLY_FULL),
        text(SUMMARY),
        write("three", "3", start=2),
        text("Three."),
        text("Whole."),
    ]
    with LLMServer(replies) as server:
        found = bantam(server, tmp_path, "-p", "Count to three.")
        again = bantam(server, tmp_path, "-r", f"{project_id(tmp_path)}-before-compact", "-p", "?")
        undone = run("--undo", cwd=tmp_path)
        requests = sent(server)
    seen = ("request", "compaction", "message", "done")
    step = ["request", "message"]
    assert kinds(found, *seen) == [*step, "request", "compaction", *step, *step, "done"]
    (told,) = [event for event in found if event["type"] == "compaction"]
    assert told["summary"] == SUMMARY
    assert told["tokens_before"] == 900
    assert found[-1]["usage"]["prompt"] == 900 + 3 * 12
    assert again[-1]["text"] == "Whole."
    assert [m["content"] for m in requests[4][1:3]] == ["Count to three.", ""]
    assert roles(requests[2]) == ["system", "user"]
    assert undone.returncode == 0
    assert not (tmp_path / "three").exists()


def test_one_shot_compacts_what_it_continues_before_it_asks(tmp_path: Path) -> None:
    replies = [text("y" * 3600), text(SUMMARY), text("Three.")]
    with LLMServer(replies) as server:
        first = bantam(server, tmp_path, "-p", "Count.")
        second = bantam(server, tmp_path, "-c", "-p", "Go on.")
        assert sent(server)[2][1]["content"].endswith("\n\nGo on.")
    assert kinds(first, "compaction") == []
    assert kinds(second, "compaction", "message") == ["compaction", "message"]


def test_a_pipe_gets_the_answer_alone(tmp_path: Path) -> None:
    replies = [shell("true", usage=NEARLY_FULL), text(SUMMARY), text("Three.")]
    with LLMServer(replies) as server:
        ended = run(*at(server.url), "-o", OPTION, "-p", "Count.", cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (0, b"Three.")
