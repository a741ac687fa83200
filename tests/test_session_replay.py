"""A stored session runs again in another folder, and the first difference is found."""

import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random

import processes
import pytest
from exchanges import collected
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from llmserver import LLMServer, Reply, calls, error, shell, text, write
from processes import unique_seconds
from turns import DAY, agent_at, turn

from bantam.agent.agent import Agent, Surroundings
from bantam.agent.relocation import relocated
from bantam.agent.replay import Report, replayed
from bantam.core.cancel import Cancel
from bantam.core.config import resolve
from bantam.core.errors import ConfigError, ExitStatus
from bantam.core.events import Done, Event, Stop, ToolFinished, ToolOutput, ToolStarted, TurnStart
from bantam.core.generators import through
from bantam.core.messages import (
    INTERRUPTED_RESULT,
    NOT_RUN_RESULT,
    UNKNOWN_RESULT,
    Message,
    Role,
    ToolCall,
)
from bantam.core.settings import Setting

SYSTEM = Message(Role.SYSTEM, "Another day, another folder.")
GO = Message(Role.USER, "Go on.")
LIMIT = ["tool_output_limit=2000"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return made(tmp_path / "project")


@pytest.fixture
def again(tmp_path: Path) -> Path:
    """Return the folder of the second run: its path is as long as the project's."""
    return made(tmp_path / "another")


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def session(
    folder: Path, replies: Sequence[Reply], *prompts: str, overrides: Sequence[str] = ()
) -> list[Message]:
    """Return the conversation of a session in `folder` whose model gave `replies`."""
    with (
        LLMServer(replies) as server,
        agent_at(server.url, folder, "api_key=k", *overrides) as agent,
    ):
        for prompt in prompts or ["Go on."]:
            turn(agent, prompt)
        return list(agent.log.messages)


def replay(
    messages: Sequence[Message], folder: Path, *overrides: str, cancel: Cancel | None = None
) -> tuple[list[Event], Report]:
    """Return the events of a second run in `folder`, and its report."""
    return collected(running(messages, folder, *overrides, cancel=cancel))


def running(
    messages: Sequence[Message], folder: Path, *overrides: str, cancel: Cancel | None = None
) -> Generator[Event, None, Report]:
    around = Surroundings(folder, {"PATH": "/usr/bin:/bin", "HOME": str(folder)}, DAY)
    return replayed(messages, resolve(overrides=overrides), around, cancel or Cancel())


def call(command: str, call_id: str = "c") -> ToolCall:
    return ToolCall(call_id, "shell_exec", json.dumps({"command": command}))


def asks(*wanted: ToolCall) -> Message:
    return Message(Role.ASSISTANT, tool_calls=wanted)


def says(content: str) -> Message:
    return Message(Role.ASSISTANT, content)


def result(content: str, call_id: str = "c") -> Message:
    return Message(Role.TOOL, content, tool_call_id=call_id)


def results(events: Sequence[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, ToolFinished)]


# -- no difference ----------------------------------------------------------------------------


def test_a_session_of_several_turns_runs_again_to_its_end(project: Path, again: Path) -> None:
    replies = [
        write("a/b.txt", "one\n"),
        shell("cat a/b.txt; pwd", reasoning="Hm."),
        calls(("shell_exec", {"command": "false"}), ("write_file", {"path": "c", "content": ""})),
        text("Done."),
        shell("ls"),
        text("a and c."),
    ]
    messages = session(project, replies, "Go on.", "What is here?")
    moved = relocated(messages, str(project), str(again))
    events, report = replay(moved, again)
    assert report == Report(turns=2, answers=6, results=5, given=0)
    assert [event.text for event in events if isinstance(event, Done)] == ["Done.", "a and c."]
    assert (again / "a/b.txt").read_text() == "one\n"
    assert f"one\n{again}\n\n\nexit: 0" in results(events)


def test_a_session_of_texts_alone_runs_again(project: Path) -> None:
    messages = [
        SYSTEM,
        GO,
        says("Hello."),
        GO,
        says(" Hello\n\nagain. "),
        GO,
        says(INTERRUPTED_RESULT),
    ]
    _, report = replay(messages, project)
    assert report == Report(turns=3, answers=3, results=0, given=0)


@pytest.mark.parametrize("messages", [[], [SYSTEM], [SYSTEM, GO, GO]])
def test_where_no_answer_came_nothing_runs(project: Path, messages: list[Message]) -> None:
    assert replay(messages, project) == ([], Report(0, 0, 0, 0))


def test_the_file_of_a_long_output_may_have_another_name(project: Path, again: Path) -> None:
    messages = session(project, [shell("seq 9000"), text("Many.")], overrides=LIMIT)
    assert "the whole is in " in messages[3].content
    _, report = replay(messages, again, *LIMIT)
    assert report == Report(turns=1, answers=2, results=1, given=0)
    _, report = replay(messages, again, "tool_output_limit=3000")
    assert "message 3 (tool), content: " in str(report.difference)


def test_limits_and_endpoint_of_the_configuration_do_not_count(project: Path) -> None:
    messages = session(project, [shell("echo 1"), shell("echo 2"), text("x")])
    of_file = [Setting("endpoint", "https://stranger.test/v1", ".bantam.cfg:1")]
    limits = ["max_al_iterations=1", "budget_tokens=1", "cache_proof=strict", "dialect=dollar"]
    around = Surroundings(project, {"PATH": "/usr/bin:/bin"}, DAY)
    _, report = collected(replayed(messages, resolve(of_file, limits), around, Cancel()))
    assert report == Report(turns=1, answers=3, results=2, given=0)


def test_the_events_are_those_of_every_turn(project: Path) -> None:
    messages = session(project, [shell("echo hi"), text("x")])
    events, _ = replay(messages, project)
    kinds = [type(event) for event in events]
    assert kinds[0] is TurnStart
    assert kinds[-1] is Done
    assert [kinds.count(kind) for kind in (ToolStarted, ToolOutput, ToolFinished)] == [1, 1, 1]


# -- what was cut short -----------------------------------------------------------------------


def test_prompts_without_an_answer_stand_before_the_next_prompt(project: Path) -> None:
    replies = [error(400, "no"), error(400, "no"), text("Now.")]
    messages = session(project, replies, "One.", "Two.", "Three.")
    assert len(messages) == 5
    events, report = replay(messages, project)
    assert report == Report(turns=1, answers=1, results=0, given=0)
    assert [event.text for event in events if isinstance(event, Done)] == ["Now."]


@pytest.mark.parametrize("overrides", [["max_al_iterations=1"], ["budget_tokens=1"]])
def test_a_turn_that_a_limit_ended_is_ended_there(
    project: Path, again: Path, overrides: list[str]
) -> None:
    replies = [shell("echo 1 >> log"), shell("cat log")]
    messages = session(
        project, replies[: 1 + ("max" in overrides[0])], "a", "b", overrides=overrides
    )
    _, report = replay(messages, again)
    turns = sum(message.role is Role.ASSISTANT for message in messages)
    assert report == Report(turns=turns, answers=turns, results=turns, given=0)
    assert (again / "log").read_text() == "1\n"


def test_an_interrupted_turn_is_ended_there_and_what_was_interrupted_is_not_run(
    project: Path, again: Path
) -> None:
    cancel = Cancel()
    wanted = [("shell_exec", {"command": c}) for c in ("echo 1", "echo 2; sleep 60", "echo 3")]
    replies = [calls(*wanted), shell("echo 4", start=4), text("x")]
    with LLMServer(replies) as server, agent_at(server.url, project, "api_key=k") as agent:
        for event in agent.turn("Go on.", cancel):
            if isinstance(event, ToolOutput) and event.text == "2\n":
                cancel.set()
        turn(agent, "Once more.")
        messages = list(agent.log.messages)
    events, report = replay(messages, again)
    assert report == Report(turns=2, answers=3, results=2, given=2)
    assert results(events) == [
        "1\n\n\nexit: 0",
        INTERRUPTED_RESULT,
        INTERRUPTED_RESULT,
        "4\n\n\nexit: 0",
    ]


@pytest.mark.parametrize(
    "content", [INTERRUPTED_RESULT, UNKNOWN_RESULT, NOT_RUN_RESULT, "not run: a missed cache", None]
)
def test_a_call_that_did_not_come_to_its_end_is_not_run_again(
    project: Path, content: str | None
) -> None:
    kept = [] if content is None else [result(content)]
    messages = [GO, asks(call("touch made")), *kept, GO, says("x")]
    events, report = replay(messages, project)
    assert report == Report(turns=2, answers=2, results=0, given=1)
    assert results(events) == [content or INTERRUPTED_RESULT]
    assert not (project / "made").exists()


def test_such_a_call_in_the_middle_of_a_turn_is_given_its_result_too(project: Path) -> None:
    messages = [
        GO,
        asks(call("touch made")),
        asks(call("echo b")),
        result("b\n\n\nexit: 0"),
        says("x"),
    ]
    _, report = replay(messages, project)
    assert report == Report(turns=1, answers=3, results=1, given=1)
    assert not (project / "made").exists()


def test_a_wrong_call_that_was_never_checked_keeps_its_result(project: Path) -> None:
    broken = ToolCall("d", "shell_exec", '{"command": "cu')
    unknown = ToolCall("e", "no_tool", "{}")
    messages = [
        GO,
        asks(call("echo a"), broken, unknown),
        result("a\n\n\nexit: 0"),
        result(UNKNOWN_RESULT, "d"),
        result(NOT_RUN_RESULT, "e"),
        GO,
        says("x"),
    ]
    _, report = replay(messages, project)
    assert report == Report(turns=2, answers=2, results=1, given=2)


def test_what_a_command_prints_is_no_note_of_a_crash(project: Path) -> None:
    messages = session(project, [shell("echo not run: 3; echo x >> log; cat log"), text("x")])
    (project / "log").unlink()
    _, report = replay(messages, project)
    assert report == Report(turns=1, answers=2, results=1, given=0)


def test_wrong_calls_run_nothing_and_are_compared(project: Path, again: Path) -> None:
    wanted: list[tuple[str, Mapping[str, str] | str]] = [
        ("shell_exec", '{"command": "cut off'),
        ("no_tool", {}),
        ("write_file", {"path": "a"}),
        ("shell_exec", ""),
    ]
    messages = session(project, [calls(*wanted), text("Sorry.")])
    _, report = replay(messages, again)
    assert report == Report(turns=1, answers=2, results=4, given=0)


# -- whatever happened ------------------------------------------------------------------------

WORDS = st.sampled_from(["ok", "\u00e9\U0001f642\u2028", 'quote " and \\', "a\n\nb ", "<think>x"])
ARGUMENTS = st.sampled_from(
    ['{"command": "echo hi"}', "", '{"command": "cut', '{"command": "\\ud83d"}', "[1]", "null"]
)
CALLING = st.lists(
    st.tuples(st.sampled_from(["shell_exec", "no such tool"]), ARGUMENTS), min_size=1, max_size=3
)
REPLIES = st.one_of(WORDS.map(text), CALLING.map(lambda wanted: calls(*wanted, reasoning="why")))
ENDS = st.none() | st.tuples(st.sampled_from(["cancel", "close"]), st.integers(0, 15))
TURNS = st.lists(
    st.tuples(st.lists(REPLIES | st.just(error(400, "no")), max_size=2), ENDS),
    min_size=1,
    max_size=4,
)
Turns = list[tuple[list[Reply], tuple[str, int] | None]]


def happened(folder: Path, turns: Turns) -> list[Message]:
    """Return a conversation whose turns had these replies, and were ended at these events."""
    replies: Iterator[Reply] = iter(())
    with (
        LLMServer(lambda _, __: next(replies, text("The end."))) as server,
        agent_at(server.url, folder, "api_key=k", "max_al_iterations=3") as agent,
    ):
        for number, (given_replies, end) in enumerate(turns):
            replies = iter(given_replies)
            play(agent, f"Prompt {number}.", end)
        return list(agent.log.messages)


def play(agent: Agent, prompt: str, end: tuple[str, int] | None) -> None:
    cancel = Cancel()
    with closing(agent.turn(prompt, cancel)) as running_turn:
        for index, _ in enumerate(running_turn):
            if end == ("close", index):
                return
            if end == ("cancel", index):
                cancel.set()


@given(TURNS, st.sampled_from([None, "changed", INTERRUPTED_RESULT]), st.randoms())
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_whatever_happened_runs_again_and_one_changed_result_is_found(
    project: Path, turns: Turns, changed: str | None, random: Random
) -> None:
    messages = happened(project, turns)
    repeatable = [
        at
        for at, message in enumerate(messages)
        if message.role is Role.TOOL and message.content != INTERRUPTED_RESULT
    ]
    if changed == "changed" and repeatable:
        at = random.choice(repeatable)
        messages[at] = replace(messages[at], content="changed")
        _, report = replay(messages, project)
        assert f"at message {at} (tool), content: 'changed" in str(report.difference)
        return
    if changed == INTERRUPTED_RESULT and repeatable:
        at = random.choice(repeatable)
        messages[at] = replace(messages[at], content=INTERRUPTED_RESULT)
    _, report = replay(messages, project)
    results_of_all = sum(message.role is Role.TOOL for message in messages)
    assert (report.difference, report.broken_off) == (None, None)
    assert report.answers == sum(message.role is Role.ASSISTANT for message in messages)
    assert report.results + report.given == results_of_all


# -- odd recordings ---------------------------------------------------------------------------


def test_calls_of_one_id_have_their_results_in_order(project: Path) -> None:
    out = ["a\n\n\nexit: 0", "b\n\n\nexit: 0"]
    same = [GO, asks(call("echo a"), call("echo a")), result(out[0]), result(out[0]), says("x")]
    other = [GO, asks(call("echo a"), call("echo b")), *map(result, out), says("x")]
    empty = [GO, asks(call("echo a", "")), result(out[0], ""), says("x")]
    for messages, number in ((same, 2), (other, 2), (empty, 1)):
        _, report = replay(messages, project)
        assert report == Report(turns=1, answers=2, results=number, given=0)


def test_what_means_nothing_in_a_recording_is_passed_over(project: Path) -> None:
    messages = [
        result("of no call"),
        Message(Role.USER, "Go on.", tool_calls=(call("touch made"),)),
        says(" "),
        asks(call("echo a")),
        SYSTEM,
        GO,
        result("a\n\n\nexit: 0"),
        result("a second time"),
        says("x"),
    ]
    _, report = replay(messages, project)
    assert report == Report(turns=2, answers=2, results=1, given=0)
    assert not (project / "made").exists()


@pytest.mark.parametrize(
    ("messages", "at"), [([says("x"), GO, says("y")], 1), ([SYSTEM, GO, says("x"), says("y")], 3)]
)
def test_an_answer_without_a_prompt_cannot_be_run(
    project: Path, messages: list[Message], at: int
) -> None:
    _, report = replay(messages, project)
    place = f"at message {at} (assistant): no prompt before it, so it cannot be run again"
    assert str(report.difference).endswith(place)


# -- differences ------------------------------------------------------------------------------


def test_a_changed_output_is_found_with_its_place_and_nothing_runs_behind_it(
    project: Path, again: Path
) -> None:
    wanted = [("shell_exec", {"command": c}) for c in ("echo 1", "cat in", "touch made")]
    (project / "in").write_text("before\n")
    messages = session(project, [calls(*wanted), shell("touch made"), text("x")])
    (again / "in").write_text("after\n")
    events, report = replay(messages, again)
    assert report == Report(
        turns=1,
        answers=1,
        results=1,
        given=0,
        difference=(
            "after request 1 the run differs from the recording at message 4 (tool), content: "
            r"'before\n\n\nexit: 0' recorded, 'after\n\n\nexit: 0' now"
        ),
    )
    assert not (again / "made").exists()
    assert results(events)[-1] == "after\n\n\nexit: 0"


def test_a_difference_in_the_last_result_of_a_recording_is_found(project: Path) -> None:
    messages = [GO, says("x"), GO, asks(call("echo now")), result("then\n\n\nexit: 0")]
    _, report = replay(messages, project)
    assert report.difference == (
        "after request 2 the run differs from the recording at message 5 (tool), content: "
        r"'then\n\n\nexit: 0' recorded, 'now\n\n\nexit: 0' now"
    )
    assert (report.turns, report.answers, report.results) == (2, 2, 0)


def test_no_turn_begins_behind_a_difference(project: Path) -> None:
    ends = [GO, asks(call("echo now")), result("then\n\n\nexit: 0")]
    _, report = replay([*ends, GO, asks(call("touch made")), result("x")], project)
    assert report.turns == 1
    assert not (project / "made").exists()


def test_a_file_that_is_there_already_makes_a_difference(project: Path, again: Path) -> None:
    messages = session(project, [write("a", "new\n"), text("x")])
    (again / "a").write_text("old\n")
    _, report = replay(messages, again)
    assert "message 3 (tool), content: " in str(report.difference)


def test_an_answer_that_does_not_come_back_as_recorded_is_a_difference(project: Path) -> None:
    nameless = asks(ToolCall("c", "", ""), call("touch made", "d"))
    _, report = replay([GO, nameless, result("x"), result("y", "d")], project)
    assert "message 2 (assistant), tool_calls: " in str(report.difference)
    assert not (project / "made").exists()


# -- interrupts and errors --------------------------------------------------------------------


@pytest.mark.parametrize("rest", [[], [says("x")], [GO, says("x")]])
def test_ctrl_c_ends_the_replay_and_is_no_difference(project: Path, rest: list[Message]) -> None:
    cancel = Cancel()
    messages = [GO, asks(call("echo 1; sleep 60")), result("1\n\n\nexit: 0"), *rest]

    def cancelled_at_output(event: Event) -> list[Event]:
        if isinstance(event, ToolOutput):
            cancel.set()
        return [event]

    run = running(messages, project, cancel=cancel)
    events, report = collected(through(run, cancelled_at_output))
    assert (report.difference, report.broken_off) == (None, events[-1])
    assert report.broken_off is not None
    assert report.broken_off.stop is Stop.INTERRUPTED
    assert report.broken_off.exit_code == ExitStatus.INTERRUPTED
    assert (report.turns, report.answers, report.results) == (1, 1, 0)


def test_a_signal_between_two_turns_ends_the_replay(project: Path) -> None:
    cancel = Cancel()
    cancel.set(ExitStatus.TERMINATED)
    _, report = replay([GO, says("x"), GO, says("y")], project, cancel=cancel)
    assert report.broken_off is not None
    assert report.broken_off.exit_code == ExitStatus.TERMINATED


def test_an_error_of_the_run_itself_is_passed_on(project: Path) -> None:
    with pytest.raises(ConfigError, match="tools=no_tool"):
        replay([GO, says("x")], project, "tools=no_tool")
    long = "x" * (17 << 20)
    events, report = replay([GO, says(long)], project)
    assert report.difference is None
    assert report.broken_off is not None
    assert report.broken_off is events[-1]
    assert report.broken_off.stop is Stop.ERROR


def test_a_replay_that_is_closed_leaves_nothing_running(project: Path) -> None:
    marker = unique_seconds()
    messages = [GO, asks(call(f"echo 1; sleep {marker}")), result("1\n\n\nexit: 0")]
    with closing(running(messages, project)) as run:
        assert any(isinstance(event, ToolOutput) for event in run)
        assert processes.running(marker)
    assert not processes.running(marker)


# -- another folder ---------------------------------------------------------------------------


def test_a_command_that_names_the_project_acts_in_the_new_folder(
    project: Path, again: Path
) -> None:
    replies = [
        write(f"{project}/a.sh", f"#!/bin/sh\ncd {project} && echo x >> log\n"),
        shell(f"sh '{project}/a.sh'; cat {project}/log; cd \"{project}\"; pwd"),
        text(f"All is in `{project}`."),
    ]
    messages = session(project, replies, f"Look at {project}.")
    moved = relocated(messages, str(project), str(again))
    _, report = replay(moved, again)
    assert report == Report(turns=1, answers=3, results=2, given=0)
    assert (project / "log").read_text() == "x\n"
    assert (again / "log").read_text() == "x\n"


def test_arguments_that_do_not_parse_stay_and_so_does_their_result(
    project: Path, tmp_path: Path
) -> None:
    other = made(tmp_path / "of another length")
    broken = ("shell_exec", f'{{"command": "ls {project}')
    messages = session(project, [calls(broken), shell(f"echo {project}"), text("x")])
    moved = relocated(messages, str(project), str(other))
    assert moved[2:4] == messages[2:4]
    _, report = replay(moved, other)
    assert report == Report(turns=1, answers=3, results=2, given=0)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("/home/u", "/new"),
        ("/home/u/", "/new/"),
        ("ls /home/u/a '/home/u' (/home/u)", "ls /new/a '/new' (/new)"),
        ("In /home/u. Or /home/u...", "In /new. Or /new..."),
        ("a=/home/u:/home/u b", "a=/new:/new b"),
        ("git -C/home/u st", "git -C/new st"),
        (r"printf '\n/home/u\n'", r"printf '\n/new\n'"),
        ("file:///home/u/a //home/u", "file:///new/a //new"),
        ("~/u $HOME/u/a ${HOME}/u", "~/u $HOME/u/a ${HOME}/u"),
        ("/home/user2 /home/u-x /home/u_ /home/u.bak /home/u\u00e9 /home/u..b", None),
        ("/mnt/home/u ./home/u ../home/u a-b/home/u ~/home/u --x/home/u", None),
        ("http://home/u", None),
        ("host:/home/u", "host:/new"),
        ("/home /home/ /HOME/U home/u", None),
    ],
)
def test_whole_paths_alone_are_led_to_the_new_folder(before: str, after: str | None) -> None:
    message = Message(Role.USER, before)
    (moved,) = relocated([message], "/home/u/", "/new")
    assert moved.content == (before if after is None else after)


def test_a_project_in_the_home_folder_is_found_by_that_too() -> None:
    said = says("cd ~/p; ls $HOME/p/a '${HOME}/p' ~/p2 ~/q x~/p /home/u/p")
    (moved,) = relocated([said], "/home/u/p", "/new", home="/home/u/")
    assert moved.content == "cd /new; ls /new/a '/new' ~/p2 ~/q x~/p /new"
    (moved,) = relocated([said], "/srv/p", "/new", home="/home/u")
    assert moved == said


def test_contents_reasoning_and_every_string_of_the_arguments_are_moved() -> None:
    arguments = r'{"a": "\/p\/x", "b": ["/p", {"c": "/p\u00e9 /p\n"}], "d": 1, "e": null}'
    message = Message(Role.ASSISTANT, "/p", "/p/y", (ToolCall("/p", "/p", arguments),))
    (moved,) = relocated([message], "/p", "/n\\1")
    assert (moved.content, moved.reasoning) == (r"/n\1", r"/n\1/y")
    (new,) = moved.tool_calls
    assert (new.id, new.name) == ("/p", "/p")
    assert json.loads(new.arguments) == {
        "a": r"/n\1/x",
        "b": [r"/n\1", {"c": "/p\u00e9 /n\\1\n"}],
        "d": 1,
        "e": None,
    }


@pytest.mark.parametrize("project", ["", "/", "//"])
def test_no_project_is_led_nowhere(project: str) -> None:
    messages = [Message(Role.USER, "ls / /home")]
    assert relocated(messages, project, "/new") == messages


TEXT = st.lists(st.sampled_from(["/p", "/q", "x", ".", "-", " ", "\n", '"', "\\", "~", "é"])).map(
    "".join
)


@given(st.lists(TEXT, min_size=3, max_size=3))
def test_there_and_back_is_where_it_began(texts: list[str]) -> None:
    content, reasoning, command = (each.replace("/q", "/p") for each in texts)
    said = Message(Role.ASSISTANT, content, reasoning, (call(command),))
    back = relocated(relocated([said], "/p", "/q"), "/q", "/p")
    assert [replace(said, tool_calls=())] == [replace(back[0], tool_calls=())]
    assert json.loads(back[0].tool_calls[0].arguments) == {"command": command}


@given(TEXT)
def test_arguments_without_the_project_stay_byte_for_byte(command: str) -> None:
    spaced = json.dumps({"command": command}, indent=1)
    said = asks(ToolCall("c", "shell_exec", spaced))
    assert relocated([said], "/other", "/new") == [said]
