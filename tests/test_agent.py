import json
import os
from collections.abc import Iterator
from datetime import date
from itertools import pairwise
from pathlib import Path
from threading import active_count
from typing import Any

import pytest
from fakes import RecordingLog
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from llmserver import LLMServer, Reply, calls, error, shell, text, write
from processes import eventually, running, unique_seconds

from bantam.agent.agent import Agent, Surroundings, failed
from bantam.agent.approval import Answer, Kind, Question
from bantam.agent.memory import ListLog
from bantam.core.cancel import Cancel
from bantam.core.config import resolve
from bantam.core.errors import (
    BantamError,
    ConfigError,
    ExitStatus,
    Interrupted,
    UntrustedEndpoint,
)
from bantam.core.events import (
    Done,
    Event,
    Failure,
    Notice,
    Request,
    Status,
    Stop,
    TextDelta,
    ToolFinished,
    TurnStart,
    UsageSum,
)
from bantam.core.messages import Message, Role, ToolCall, to_api
from bantam.core.settings import Setting
from bantam.model.requests import serialised

DAY = date(2026, 3, 9)
CACHED = {
    "prompt_tokens": 12,
    "completion_tokens": 5,
    "prompt_tokens_details": {"cached_tokens": 4},
}


def agent_for(folder: Path, endpoint: str, *overrides: str, **how: Any) -> Agent:
    """Return an agent in `folder`; `how`: `environ` on top of PATH, and Agent's keywords."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), **how.pop("environ", {})}
    config = resolve(overrides=[f"endpoint={endpoint}", "model=m", *overrides], environ=environ)
    return Agent(config, Surroundings(folder, environ, DAY), **how)


def run(agent: Agent, prompt: str = "go", cancel: Cancel | None = None) -> list[Event]:
    """Run a turn; return its events, which must be whole."""
    events = list(agent.turn(prompt, cancel))
    assert isinstance(events[0], TurnStart)
    assert [isinstance(event, Done) for event in events] == [False] * (len(events) - 1) + [True]
    return events


def done_of(events: list[Event]) -> Done:
    done = events[-1]
    assert isinstance(done, Done)
    return done


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder outside of any git tree, without an AGENTS.md."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


# -- a turn -----------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", ["true", "false"])
def test_a_turn_runs_real_tools_and_ends_with_the_answer(here: Path, stream: str) -> None:
    replies = [
        shell("echo hello > made; cat made"),
        write("note.txt", "noted\n", start=2),
        text("All **done**."),
    ]
    with LLMServer(replies) as server:
        agent = agent_for(here, server.url, f"stream={stream}")
        events = run(agent)
        agent.close()
        results = [event for event in events if isinstance(event, ToolFinished)]
        assert results[0].text == "hello\n\n\nexit: 0"
        assert (here / "note.txt").read_text() == "noted\n"
        assert done_of(events) == Done(
            Stop.FINAL,
            0,
            None,
            "All **done**.",
            UsageSum(36, 15, None, estimated=False, context=12, window=200000),
        )
        start = events[0]
        assert start == TurnStart(None, "m", server.url, "native")
        steps = [event.step for event in events if isinstance(event, Request)]
        assert steps == [1, 2, 3]
        sizes = [event.bytes for event in events if isinstance(event, Request)]
        assert sizes == [len(request.body) for request in server.chat]


def test_usage_is_summed_over_the_turn_and_begins_anew_in_the_next(here: Path) -> None:
    replies = [shell("true", usage=CACHED), text("one", usage=CACHED), text("two")]
    with LLMServer(replies, models={"data": [{"id": "m", "context_length": 4096}]}) as server:
        agent = agent_for(here, server.url)
        first, second = (done_of(run(agent, prompt)).usage for prompt in ("a", "b"))
        agent.close()
    assert first == UsageSum(24, 10, 8, estimated=False, context=12, window=first.window)
    assert second == UsageSum(12, 5, None, estimated=False, context=12, window=4096)


def test_usage_that_no_server_tells_is_estimated_and_marked(here: Path) -> None:
    with LLMServer([text("12345678", usage=None)]) as server:
        agent = agent_for(here, server.url)
        usage = done_of(run(agent)).usage
        agent.close()
    assert usage.estimated
    assert usage.prompt > 100
    assert usage.completion == 2


def test_turns_of_one_agent_share_a_connection_and_a_system_prompt(here: Path) -> None:
    with LLMServer([text("one"), shell("true"), text("two"), text("three")]) as server:
        agent = agent_for(here, server.url)
        for prompt in ("a", "b", "c"):
            run(agent, prompt)
        agent.close()
        assert len({request.connection for request in server.chat}) == 1
        roles = [[m["role"] for m in request.json["messages"]] for request in server.chat]
    assert all(role == ["system", *role[1:]] and "system" not in role[1:] for role in roles)
    assert [message.role.value for message in agent.log.messages].count("system") == 1


def test_a_request_names_its_sender_and_carries_the_key(here: Path) -> None:
    with LLMServer([text("hi")], models={"data": []}) as server:
        agent = agent_for(here, server.url, "api_key=sk-secret", "top_p=0.5")
        run(agent)
        assert eventually(lambda: server.model_requests)
        agent.close()
        for request in (*server.chat, *server.model_requests):
            assert request.headers["authorization"] == "Bearer sk-secret"
            assert request.headers["user-agent"] == "Mozilla/5.0 (compatible; Bantam/1.0)"
        body = server.chat[0].json
    assert body["model"] == "m"
    assert (body["temperature"], body["top_p"]) == (0.7, 0.5)
    names = [tool["function"]["name"] for tool in body["tools"]]
    assert names == ["shell_exec", "write_file"]


def test_without_a_key_no_authorization_is_sent(here: Path) -> None:
    with LLMServer([text("hi")]) as server:
        agent = agent_for(here, server.url)
        run(agent)
        agent.close()
        assert "authorization" not in server.chat[0].headers


# -- how it ends ------------------------------------------------------------------------------

# What is replied, under which options -> stop, exit status, class and status of the error.
ENDS: dict[str, tuple[list[Reply], list[str], tuple[Stop, int, str | None, int | None]]] = {
    "final": ([text("hi")], [], (Stop.FINAL, 0, None, None)),
    "refused": ([error(400, "no")], [], (Stop.ERROR, 1, "ModelError", 400)),
    "key": ([error(401, "who?")], [], (Stop.ERROR, 77, "KeyRefused", 401)),
    "forbidden": ([error(403, "not you")], [], (Stop.ERROR, 77, "KeyRefused", 403)),
    "later": (
        [error(429, "slow down", headers={"retry-after": "600"})],
        [],
        (Stop.ERROR, 75, "Unavailable", 429),
    ),
    "empty": ([text("")] * 3, [], (Stop.ERROR, 1, "ModelError", None)),
    "steps": ([shell("true")], ["max_al_iterations=1"], (Stop.STEP_LIMIT, 3, None, None)),
    "budget": ([shell("true")], ["budget_tokens=17"], (Stop.BUDGET, 4, None, None)),
    "cache": (
        [shell("true"), text("paid")],
        ["cache_proof=strict"],
        (Stop.ERROR, 1, "ModelError", None),
    ),
}


@pytest.mark.parametrize(("replies", "overrides", "end"), ENDS.values(), ids=ENDS)
def test_done_says_how_it_ended_and_is_the_last_event(
    here: Path,
    replies: list[Reply],
    overrides: list[str],
    end: tuple[Stop, int, str | None, int | None],
) -> None:
    with LLMServer(replies) as server:
        agent = agent_for(here, server.url, *overrides)
        done = done_of(run(agent))
        agent.close()
    kind, status = (done.error.kind, done.error.status) if done.error else (None, None)
    assert (done.stop, done.exit_code, kind, status) == end
    assert done.text == ("hi" if done.stop is Stop.FINAL else "")


def test_after_an_error_the_next_turn_works_and_loses_no_prompt(here: Path) -> None:
    with LLMServer([error(400, "no"), text("hi")]) as server:
        agent = agent_for(here, server.url)
        assert done_of(run(agent, "first")).stop is Stop.ERROR
        assert done_of(run(agent, "second")).stop is Stop.FINAL
        agent.close()
        assert server.chat[1].json["messages"][1]["content"] == "first\n\nsecond"


@pytest.mark.parametrize(
    ("why", "code"), [(ExitStatus.INTERRUPTED, 130), (ExitStatus.TERMINATED, 143)]
)
@pytest.mark.parametrize("when", ["before", "while the model answers", "while a tool runs"])
def test_an_interrupt_ends_the_turn_with_the_signal_s_status(
    here: Path, why: ExitStatus, code: int, when: str
) -> None:
    seconds = unique_seconds()
    replies = [shell(f"echo begun; exec sleep {seconds}")]
    if when == "while the model answers":
        replies = [text("a long answer", stall_after=400)]
    with LLMServer(replies) as server:
        agent, cancel = agent_for(here, server.url), Cancel()
        if when == "before":
            cancel.set(why)
        events: list[Event] = []
        for event in agent.turn("go", cancel):
            events.append(event)
            # What follows waits: for the rest of the answer, for the end of the command.
            if event.type in ("text_delta", "tool_output"):
                cancel.set(why)
        agent.close()
        assert len(server.chat) == (when != "before")
    assert done_of(events) == Done(Stop.INTERRUPTED, code, None, "", done_of(events).usage)
    assert not running(seconds)
    assert not any(message.content == "a long answer" for message in agent.log.messages)


@pytest.mark.parametrize(
    ("raised", "status", "kind"),
    [
        (ConfigError("bad"), 2, "ConfigError"),
        (UntrustedEndpoint("who?"), 2, "UntrustedEndpoint"),
        (BantamError("bad"), 1, "BantamError"),
    ],
)
def test_an_error_before_the_turn_has_the_same_end(
    raised: BantamError, status: int, kind: str
) -> None:
    done = failed(raised, Cancel())
    assert done == Done(Stop.ERROR, status, None, "", UsageSum(), Failure(kind, None, str(raised)))


def test_an_interrupt_before_the_turn_has_the_same_end() -> None:
    cancel = Cancel()
    assert failed(Interrupted("x"), cancel).exit_code == 130
    cancel.set(ExitStatus.TERMINATED)
    assert failed(Interrupted("x"), cancel) == Done(Stop.INTERRUPTED, 143, None, "")


def test_a_bug_is_no_event_but_an_exception(here: Path) -> None:
    def buggy(_: ToolCall) -> str | None:
        raise LookupError("a bug")

    with LLMServer([shell("true")]) as server:
        agent = agent_for(here, server.url, approve=buggy)
        turn = agent.turn("go")
        with pytest.raises(LookupError, match="a bug"):
            list(turn)
        agent.close()
    assert agent.log.messages[-1].role is Role.TOOL


def test_a_refusal_reaches_the_model(here: Path) -> None:
    with LLMServer([shell("touch made"), text("well")]) as server:
        agent = agent_for(here, server.url, approve=lambda call: f"no {call.name}")
        run(agent)
        agent.close()
        assert server.chat[1].json["messages"][-1]["content"] == "no shell_exec"
    assert not (here / "made").exists()


@pytest.mark.parametrize("index", range(14))
def test_a_closed_turn_leaves_no_process_and_no_thread_and_the_next_one_works(
    here: Path, index: int
) -> None:
    seconds = unique_seconds()
    threads = active_count()
    command = shell(f"echo begun; : {seconds}; sleep 0.2")

    def script(asked: dict[str, Any], _: int) -> Reply:
        return text("hi") if asked["messages"][-1]["role"] == "tool" else command

    with LLMServer(script) as server:
        agent = agent_for(here, server.url)
        turn = agent.turn("go")
        for _ in range(index):
            if next(turn, None) is None:
                break
        turn.close()
        assert not running(seconds)
        assert done_of(run(agent, "more")).stop is Stop.FINAL
        agent.close()
    assert eventually(lambda: active_count() <= threads)


# -- how it begins ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "place"),
    [
        (("sandbox=on",), "-o sandbox=on"),
        (("sandbox=net",), "-o sandbox=net"),
        ((), "BANTAM_SANDBOX=on"),
    ],
)
def test_a_sandbox_that_cannot_be_had_is_an_error_and_never_a_fall_back(
    here: Path, how: tuple[str, ...], place: str
) -> None:
    environ = {"PATH": "/nowhere", **({} if how else {"BANTAM_SANDBOX": "on"})}
    with pytest.raises(ConfigError, match=f"{place}: .*bubblewrap"):
        agent_for(here, "http://127.0.0.1:1/v1", *how, environ=environ)


def test_in_a_sandbox_commands_and_files_stay_in_the_project_and_the_prompt_says_so(
    here: Path,
) -> None:
    outside = here.parent / "outside"
    replies = [
        shell(f"echo in > in; echo out > {outside}; cat in"),  # into a /tmp of its own
        write(str(outside), "x"),
        text("Done."),
    ]
    with LLMServer(replies) as server:
        agent = agent_for(here, server.url, "sandbox=on")
        found = [event for event in run(agent) if isinstance(event, ToolFinished)]
        agent.close()
        system = server.chat[0].json["messages"][0]["content"]
    assert found[0].text == "in\n\n\nexit: 0"
    assert "outside the project" in found[1].text
    assert not outside.exists()
    assert "You are in a sandbox: " in system
    assert "There is no network." in system


@pytest.mark.parametrize(
    ("mode", "command", "runs"),
    [
        ("auto", "rm -f x", True),
        ("risky", "ls", True),
        ("risky", "rm -f x", False),
        ("ask", "ls", False),
    ],
)
def test_a_call_that_needs_a_yes_is_refused_where_nobody_can_be_asked(
    here: Path, mode: str, command: str, *, runs: bool
) -> None:
    with LLMServer([shell(command), text("I see.")]) as server:
        agent = agent_for(here, server.url, f"approve={mode}")
        found = [event for event in run(agent) if isinstance(event, ToolFinished)]
        agent.close()
    assert (found[0].status is Status.OK) is runs
    assert found[0].text.startswith("denied: nobody can be asked here") is not runs


def test_a_person_who_says_yes_sees_the_diff_first(here: Path) -> None:
    (here / "a").write_text("one\n")
    asked: list[Question] = []

    def ask(question: Question) -> Answer:
        asked.append(question)
        return Answer(Kind.YES)

    edits = "<<<<<<< SEARCH\none\n=======\ntwo\n>>>>>>> REPLACE"
    replies = [
        write("a", "new\n"),
        calls(("edit_file", {"path": "a", "edits": edits})),
        text("Done."),
    ]
    with LLMServer(replies) as server:
        agent = agent_for(here, server.url, "approve=ask", ask=ask)
        run(agent)
        agent.close()
    assert [question.lines for question in asked] == [
        ("@@ -1,1 +1,2 @@", "+new", " one"),
        ("@@ -1,2 +1,2 @@", " new", "-one", "+two"),
    ]
    assert (here / "a").read_text() == "new\ntwo\n"


def test_the_key_of_the_file_is_not_sent_to_another_endpoint_and_that_is_told(here: Path) -> None:
    file = [Setting("api_key", "sk-secret", ".bantam.cfg:1")]
    with LLMServer([text("hi"), text("hi")], models={"data": []}) as server:
        config = resolve(file, [f"endpoint={server.url}"])
        agent = Agent(config, Surroundings(here, {"PATH": os.environ["PATH"]}, DAY))
        said = run(agent)[1]
        assert eventually(lambda: server.model_requests)
        agent.close()
        for request in (*server.chat, *server.model_requests):
            assert "authorization" not in request.headers
    assert isinstance(said, Notice)
    assert said.text.startswith(f".bantam.cfg:1: api_key is not sent to {server.url[:-3]}: ")
    assert "add -o api_key=KEY" in said.text
    assert "sk-secret" not in said.text


def test_a_folder_s_endpoint_needs_trust(here: Path) -> None:
    setting = Setting("endpoint", "https://example.org/v1", "model.cfg:1")
    config, around = resolve([setting]), Surroundings(here, {}, DAY)
    with pytest.raises(UntrustedEndpoint):
        Agent(config, around)
    assert Agent(config, around, trust=True).key.value is None


def test_what_there_is_to_say_at_the_start_is_said_once(here: Path) -> None:
    (here / "AGENTS.md").write_text("be\u202e kind")
    with LLMServer([text("a"), text("b")]) as server:
        agent = agent_for(here, server.url)
        first, second = run(agent), run(agent)
        agent.close()
    said = Notice(f"{here}/AGENTS.md: removed 1 character: U+202E x1")
    assert first[1] == said
    assert said not in second
    assert "be kind" in agent.log.messages[0].content


def test_a_key_that_is_left_out_is_told_before_anything_is_sent(here: Path) -> None:
    environ = {"OPENAI_API_KEY": "sk-secret"}
    agent = agent_for(here, "https://api.mistral.ai/v1", environ=environ)
    turn = agent.turn("go")
    assert isinstance(next(turn), TurnStart)
    notice = next(turn)
    turn.close()
    agent.close()
    assert isinstance(notice, Notice)
    assert "OPENAI_API_KEY is not sent to https://api.mistral.ai" in notice.text
    assert "sk-secret" not in notice.text


def test_no_key_that_was_given_stands_in_a_result_or_an_error(here: Path) -> None:
    file = [
        Setting("api_key", key, f".bantam.cfg:{n}")
        for n, key in enumerate(("sk-old-123456", "sk-new-123456"))
    ]
    environ = {"PATH": os.defpath, "OPENAI_API_KEY": "sk-env-123456\n"}
    keys = "sk-old-123456 sk-new-123456 sk-cli-123456 sk-env-123456"
    with LLMServer([shell(f"echo {keys}"), text("ok")]) as server:
        config = resolve(file, [f"endpoint={server.url}", "api_key=sk-cli-123456"])
        agent = Agent(config, Surroundings(here, environ, DAY))
        result = next(event for event in run(agent) if isinstance(event, ToolFinished))
        agent.close()
    assert result.text == "[key] [key] [key] [key]\n\n\nexit: 0"
    (here / "fail.sh").write_text(f"echo {keys} >&2; exit 3")
    config = resolve(file, [f"endpoint=run://sh {here}/fail.sh", "api_key=sk-cli-123456"])
    done = run(Agent(config, Surroundings(here, environ, DAY)))[-1]
    assert isinstance(done, Done)
    assert done.error is not None
    assert done.error.message.endswith("ended with status 3: [key] [key] [key] [key]")


def test_the_system_prompt_is_made_of_the_surroundings(here: Path) -> None:
    (here / "bin").mkdir()
    (here / "bin" / "sh").symlink_to("/bin/sh")
    agent = agent_for(
        here,
        "http://127.0.0.1:1/v1",
        "tools=shell_exec",
        environ={"PATH": str(here / "bin"), "BANTAM_TOOLS_DIR": "/opt/tools"},
    )
    prompt = agent.log.messages[0].content
    assert f"Working directory: {here}\n" in prompt
    assert "shell: sh; date: 2026-03-09" in prompt
    assert "write_file" not in prompt
    assert prompt.splitlines()[-1] == "Extra shell tools can be found at /opt/tools"


def test_two_agents_of_one_place_and_day_send_the_same_bytes(here: Path) -> None:
    with LLMServer([text("a"), text("a")]) as server:
        for _ in range(2):
            agent = agent_for(here, server.url)
            run(agent)
            agent.close()
        assert server.chat[0].body == server.chat[1].body


def test_a_conversation_that_is_given_is_gone_on_with(here: Path) -> None:
    stored = [Message(Role.SYSTEM, "S"), Message(Role.USER, "a"), Message(Role.ASSISTANT, "b")]
    with LLMServer([text("c")]) as server:
        agent = agent_for(here, server.url, log=ListLog(stored))
        run(agent, "more")
        agent.close()
        sent = [m["content"] for m in server.chat[0].json["messages"]]
    assert sent[0].startswith("S\n\nYour tools:\n")
    assert sent[1:] == ["a", "b", "more"]
    assert len(stored) == 3


def test_surroundings_are_those_of_the_process() -> None:
    around = Surroundings.now()
    assert around.working_directory == Path.cwd()
    assert around.environ == dict(os.environ)
    assert isinstance(around.today, date)


def test_a_working_directory_that_is_gone_is_a_wrong_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(ConfigError, match="the working directory cannot be used: No such file"):
        Surroundings.now()


# -- other endpoints --------------------------------------------------------------------------


def test_a_local_program_can_be_the_model(here: Path) -> None:
    program = here / "model.sh"
    choice = {"index": 0, "message": {"content": "from a program"}, "finish_reason": "stop"}
    program.write_text(
        f"#!/bin/sh\ncat > /dev/null\ncat <<'E'\n{json.dumps({'choices': [choice]})}\nE\n"
    )
    program.chmod(0o755)
    agent = agent_for(here, f"run://{program}")
    assert done_of(run(agent)).text == "from a program"
    agent.close()


@pytest.mark.parametrize(
    ("endpoint", "says"),
    [
        ("run:///nowhere/model", "=run:///nowhere/model names no program that can be run; write"),
        ("run://sh 'half", "=run://sh 'half is no command line: No closing quotation"),
        ("replay:///nowhere.json", "=replay:///nowhere.json: No such file or directory"),
    ],
)
def test_a_local_endpoint_that_cannot_work_is_refused_by_its_place(
    here: Path, endpoint: str, says: str
) -> None:
    around = Surroundings(here, {"PATH": os.environ["PATH"]}, DAY)
    for config, place in (
        (resolve([Setting("endpoint", endpoint, "model.cfg:3")]), "model.cfg:3: endpoint"),
        (resolve([], [f"endpoint={endpoint}"]), "-o endpoint"),
    ):
        with pytest.raises(ConfigError) as caught:
            Agent(config, around, trust=True)
        assert str(caught.value).startswith(place + says)


def test_a_saved_session_can_be_the_model(here: Path) -> None:
    with LLMServer([shell("echo hi"), text("It says hi.")]) as server:
        agent = agent_for(here, server.url)
        run(agent)
        agent.close()
    stored = here / "session.json"
    stored.write_text(json.dumps([to_api(message) for message in agent.log.messages]))
    again = agent_for(here, f"replay://{stored}")
    events = run(again)
    again.close()
    assert done_of(events).text == "It says hi."
    assert again.log.messages == agent.log.messages


# -- the prefix -------------------------------------------------------------------------------

TEXTS = st.sampled_from(["ok", "é🙂\u2028", 'quote " and \\', "a\n\nb"])
ARGUMENTS = st.sampled_from(
    ['{"command": "echo hi"}', "", '{"command": "cut', '{"command": "\\ud83d"}', "[1]", "{}"]
)
WANTED = st.tuples(st.sampled_from(["shell_exec", "no such tool"]), ARGUMENTS)
CALLING = st.lists(WANTED, min_size=1, max_size=3)
REPLIES = st.one_of(TEXTS, CALLING, st.just("refuse"))
TURNS = st.lists(
    st.tuples(
        st.lists(REPLIES, max_size=2),  # before the final answer
        st.none() | st.tuples(st.sampled_from(["cancel", "close"]), st.integers(0, 12)),
    ),
    min_size=2,
    max_size=4,
)


def reply_for(wanted: Any) -> Reply:
    if isinstance(wanted, list):
        return calls(*wanted, reasoning="why")
    return error(400, "no") if wanted == "refuse" else text(wanted)


def messages_bytes(body: bytes) -> list[bytes]:
    """Return each message of a request as its very bytes."""
    messages = [serialised(message) for message in json.loads(body)["messages"]]
    assert b'"messages":[' + b",".join(messages) + b"]" in body
    return messages


def play(agent: Agent, prompt: str, end: tuple[str, int] | None) -> None:
    cancel = Cancel()
    turn = agent.turn(prompt, cancel)
    for index, _ in enumerate(turn):
        if end is not None and index == end[1]:
            if end[0] == "close":
                turn.close()
                return
            cancel.set()


@given(TURNS)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_each_request_s_messages_begin_with_the_bytes_of_the_one_before(
    tmp_path: Path, turns: list[tuple[list[Any], tuple[str, int] | None]]
) -> None:
    """Whatever happens between: tools, broken calls, interrupts, refusals, closed turns."""
    wanted: Iterator[Any] = iter(())

    def script(_: dict[str, Any], __: int) -> Reply:
        return reply_for(next(wanted, "the end"))

    with LLMServer(script) as server:
        agent = agent_for(tmp_path, server.url, "max_al_iterations=3")
        for number, (replies, end) in enumerate(turns):
            wanted = iter(replies)
            play(agent, f"prompt {number}", end)
        agent.close()
        bodies = [messages_bytes(request.body) for request in server.chat]
    for before, after in pairwise(bodies):
        unanswered = json.loads(before[-1])["role"] == "user" and after[: len(before)] != before
        kept = before[:-1] if unanswered else before
        assert after[: len(kept)] == kept
        if unanswered:
            grown = json.loads(after[len(kept)])["content"]
            assert grown.startswith(json.loads(before[-1])["content"] + "\n\n")


def test_what_is_shown_was_logged_whoever_keeps_the_log(here: Path) -> None:
    log = RecordingLog()
    with LLMServer([shell("echo hi"), text("done")]) as server:
        agent = agent_for(here, server.url, log=log)
        assert log.entries == ["system"]
        for event in agent.turn("go"):
            match event:
                case TurnStart():
                    assert log.entries[-1] == "user"
                case ToolFinished() | TextDelta():
                    assert log.entries[-1] == "result call_1"
                case Done():
                    assert log.entries[-1] == "finished"
        agent.close()
    assert log.entries == [
        "system",
        "user",
        "assistant",
        "started call_1",
        "result call_1",
        "assistant",
        "finished",
    ]
