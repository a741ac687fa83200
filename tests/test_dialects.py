"""One loop, three dialects: whole agents against a scripted server, in process."""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from llmserver import LLMServer, Reply, calls, error, shell, text, write
from turns import DAY, agent_at, done, error_of, notices, turn

from bantam.agent.agent import Agent, Surroundings
from bantam.core.events import Event, Notice, Replied, Stop, TextDelta, ToolFinished, TurnStart
from bantam.core.messages import Answer, Message, Role, ToolCall, to_api
from bantam.model.dialects.auto import dialect_named
from bantam.model.dialects.leaks import leaked_call

ROOT = Path(__file__).parent.parent
SHELL_SPEC = {
    "function": {
        "name": "shell_exec",
        "parameters": {"properties": {"command": {"type": "string"}}, "required": ["command"]},
    }
}
WRITE_SPEC = {
    "function": {
        "name": "write_file",
        "parameters": {
            "properties": {
                "path": {"type": "string"},
                "content": {"type": "string"},
                "offset": {"type": "integer"},
            },
            "required": ["path", "content"],
        },
    }
}
SPECS = [SHELL_SPEC, WRITE_SPEC]
TO_DOLLAR = "the model writes its calls as text: the session goes on in the dialect dollar"
TO_BLOCKS = "the model writes its calls as text: the session goes on in the dialect blocks"
TOOLLESS = "the endpoint takes no tools: the session goes on in the dialect dollar"
TAKEN = "the model wrote its call of shell_exec as text: taken as the call"
ASKED_AGAIN = "the answer could not be read; the model is told and asked again"


def ran(events: Sequence[Event]) -> list[str]:
    """Return the results of the calls that were made."""
    return [event.text for event in events if isinstance(event, ToolFinished)]


def sent(server: LLMServer) -> list[dict[str, Any]]:
    """Return the messages of the last request behind the system prompt."""
    messages: list[dict[str, Any]] = server.chat[-1].json["messages"]
    return messages[1:]


# -- the same job in each -----------------------------------------------------------------------

SCRIPT = "print(1 + )\n"
MENDED = "print(1 + 1)\n"
JOB: dict[str, list[Reply]] = {
    "native": [
        shell("cat > note.txt <<'END'\nadd numbers\nEND"),
        shell(f"cat > add.py <<'END'\n{SCRIPT}END"),
        shell("python3 add.py 2>/dev/null"),
        shell(f"cat > add.py <<'END'\n{MENDED}END"),
        shell("python3 add.py"),
        text("It prints 2."),
    ],
    "dollar": [
        text("$ cat > note.txt <<'END'\nadd numbers\nEND\n$ never"),
        text(f"$ cat > add.py <<'END'\n{SCRIPT}END\n"),
        text("$ python3 add.py 2>/dev/null\n2\nSo it works."),
        text(f"$ cat > add.py <<'END'\n{MENDED}END"),
        text("$ python3 add.py"),
        text("It prints 2."),
    ],
    "blocks": [
        text("**RUN:**\n```bash\ncat > note.txt <<'END'\nadd numbers\nEND\n```\n"),
        text(f"**RUN:**\n```bash\ncat > add.py <<'END'\n{SCRIPT}END\n```\n"),
        text("**RUN:**\n```sh\npython3 add.py 2>/dev/null\n```\n"),
        text(f"**RUN:**\n```\ncat > add.py <<'END'\n{MENDED}END\n```\n"),
        text("**RUN:**\n```bash\npython3 add.py\n```\n"),
        text("It prints 2."),
    ],
}


def without_ids(agent: Agent) -> list[dict[str, Any]]:
    """Return what is stored of a conversation, calls and results in order instead of by id."""
    stored = [to_api(message) for message in agent.log.messages[1:]]
    for message in stored:
        message.pop("tool_call_id", None)
        for call in message.get("tool_calls", ()):
            call["id"] = ""
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    return stored


def test_the_same_job_comes_to_the_same_files_calls_and_results(tmp_path: Path) -> None:
    stored, files = {}, {}
    for name, replies in JOB.items():
        folder = tmp_path / name
        folder.mkdir()
        with (
            LLMServer(replies) as server,
            agent_at(server.url, folder, f"dialect={name}", environ=None) as agent,
        ):
            events = turn(agent)
            assert done(events).stop is Stop.FINAL
            assert isinstance(events[0], TurnStart)
            assert events[0].dialect == name
            assert ("tools" in server.chat[-1].json) is (name == "native")
            roles = {message["role"] for message in server.chat[-1].json["messages"]}
            assert ("tool" in roles) is (name == "native")
            stored[name] = without_ids(agent)
        files[name] = {path.name: path.read_text() for path in folder.iterdir()}
    assert stored["dollar"] == stored["blocks"] == stored["native"]
    assert files["dollar"] == files["blocks"] == files["native"]
    assert files["native"] == {"note.txt": "add numbers\n", "add.py": MENDED}
    assert stored["native"][-2]["content"] == "2\n\n\nexit: 0"


def test_files_written_by_blocks_are_those_of_write_file_edit_file_and_read_file(
    tmp_path: Path,
) -> None:
    replies = [
        text("**WRITE:`a.txt`**\n```\none\ntwo\n```\n**EOF:`a.txt`**\n**FILE:`a.txt`**\n"),
        text(
            "**EDIT:`a.txt`**\n<<<<<<< SEARCH\ntwo\n=======\nthree\n>>>>>>> REPLACE\n"
            "**EOF:`a.txt`**\n**WRITE:`b.txt`**\n```\nb\n```\n**EOF:`b.txt`**\n"
        ),
        text("Done."),
    ]
    with LLMServer(replies) as server, agent_at(server.url, tmp_path, "dialect=blocks") as agent:
        events = turn(agent)
        assert [event.name for event in events if isinstance(event, ToolFinished)] == [
            *("write_file", "read_file", "edit_file", "write_file"),
        ]
        assert "one\ntwo" in ran(events)[1]
        assert sent(server)[-1]["content"].startswith("[1/2 EDIT a.txt → ok]\n```\n")
    assert (tmp_path / "a.txt").read_text() == "one\nthree\n"
    assert (tmp_path / "b.txt").read_text() == "b\n"


@pytest.mark.parametrize("first", JOB)
@pytest.mark.parametrize("second", JOB)
def test_a_conversation_made_in_one_dialect_goes_on_in_another(
    first: str, second: str, tmp_path: Path
) -> None:
    with (
        LLMServer(JOB[first]) as server,
        agent_at(server.url, tmp_path, f"dialect={first}") as agent,
    ):
        turn(agent)
        history = list(agent.log.messages)
    with (
        LLMServer([JOB[second][-2], text("Still 2.")]) as server,
        agent_at(server.url, tmp_path, f"dialect={second}", history=history) as agent,
    ):
        events = turn(agent, "And now?")
        assert ran(events) == ["2\n\n\nexit: 0"]
        assert done(events).text == "Still 2."


def test_calls_of_a_native_session_are_told_in_text(tmp_path: Path) -> None:
    history = [
        Message(Role.SYSTEM, "s"),
        Message(Role.USER, "u"),
        Message(
            Role.ASSISTANT,
            "Both.",
            tool_calls=(
                ToolCall("1", "shell_exec", '{"command": "ls"}'),
                ToolCall("2", "write_file", '{"path": "p", "content": "c", "offset": 3}'),
            ),
        ),
        Message(Role.TOOL, "p\n\n\nexit: 0", tool_call_id="1"),
        Message(Role.TOOL, "past the end", tool_call_id="2", extra={"status": "error"}),
    ]
    told: dict[str, str] = {}
    for dialect in ("dollar", "blocks"):
        with (
            LLMServer([text("Done.")]) as server,
            agent_at(server.url, tmp_path, f"dialect={dialect}", history=history) as agent,
        ):
            assert done(turn(agent)).stop is Stop.FINAL
            told[dialect] = "\n".join(message["content"] for message in sent(server))
            assert "p\n\n\nexit: 0" in told[dialect]
            assert "past the end" in told[dialect]
            assert "write_file" in told[dialect]
            assert all(message.keys() == {"role", "content"} for message in sent(server))
    assert "WRITE" not in told["blocks"]
    assert "[2/2 TOOL write_file → error]" in told["blocks"]


# -- auto ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "registry.ollama.ai/library/gemma:2b does not support tools"),
        (404, "No endpoints found that support tool use. To learn more visit https://x.invalid"),
        (400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser'),
        (500, "tools param requires --jinja flag"),
        (400, "Function calling is not enabled for models/gemma"),
        (422, "Unknown parameter: 'tools'."),
        (400, "'tools' parameter unsupported"),
        (400, "Invalid value for 'tools': feature unavailable"),
        (400, "Tool use is currently not supported by this model"),
    ],
)
def test_an_endpoint_that_takes_no_tools_is_spoken_to_in_text(
    status: int, words: str, tmp_path: Path
) -> None:
    replies = [error(status, words), text("$ echo hi"), text("Done."), text("Again.")]
    with LLMServer(replies) as server, agent_at(server.url, tmp_path) as agent:
        events = turn(agent)
        assert ran(events) == ["hi\n\n\nexit: 0"]
        assert notices(events) == [TOOLLESS]
        assert ["tools" in asked.json for asked in server.chat] == [True, False, False]
        assert agent.log.dialect_of("m") == "dollar"
        start = turn(agent)[0]
        assert isinstance(start, TurnStart)
        assert start.dialect == "dollar"
        assert "tools" not in server.chat[-1].json


@pytest.mark.parametrize(
    "words",
    [
        "Unknown parameter: 'tools[0].function.strict'.",
        "Invalid schema for function 'shell_exec'",
        "does not support parallel tool calls",
        "model does not support more than 128 tools",
        "messages with role 'tool' must follow a message with 'tool_calls'",
    ],
)
def test_a_complaint_about_a_tool_is_no_refusal_of_all(words: str, tmp_path: Path) -> None:
    with LLMServer([error(400, words)]) as server, agent_at(server.url, tmp_path) as agent:
        assert words in error_of(turn(agent))
        assert len(server.chat) == 1


def test_a_dialect_that_was_asked_for_does_not_change(tmp_path: Path) -> None:
    refusal = error(400, "m does not support tools")
    with (
        LLMServer([refusal, text("$ ls\n")]) as server,
        agent_at(server.url, tmp_path, "dialect=native") as agent,
    ):
        assert "does not support tools" in error_of(turn(agent))
        events = turn(agent)
        assert (ran(events), done(events).text) == ([], "$ ls\n")


@pytest.mark.parametrize(
    ("answer", "notice", "result"),
    [
        ("I look.\n\n$ echo hi", TO_DOLLAR, "hi\n\n\nexit: 0"),
        ("**RUN:**\n```bash\necho hi\n```\n", TO_BLOCKS, "hi\n\n\nexit: 0"),
        (
            "Here.\n\n**WRITE:`a`**\n```\n$ x\n```\n**EOF:`a`**\n",
            TO_BLOCKS,
            "a: bytes written: 4; offset: 0; bytes deleted: 0; size now: 4",
        ),
    ],
)
def test_a_model_that_writes_another_dialect_is_followed(
    answer: str, notice: str, result: str, tmp_path: Path
) -> None:
    with LLMServer([text(answer), text("Done.")]) as server, agent_at(server.url, tmp_path) as a:
        events = turn(a)
        assert (notices(events), ran(events)) == ([notice], [result])
        assert "tools" not in server.chat[-1].json
        assert notice.endswith(a.log.dialect_of("m"))


def test_a_command_line_of_a_model_that_can_call_is_asked_about_first(tmp_path: Path) -> None:
    advice = text("Start it with:\n\n$ touch started")
    for last, result in ((text("```\n$ touch started\n```"), []), (advice, ["\n\nexit: 0"])):
        replies = [shell("echo 1"), advice, last, text("Done.")]
        with LLMServer(replies) as server, agent_at(server.url, tmp_path) as agent:
            events = turn(agent)
            assert ran(events)[1:] == result
            assert notices(events)[0] == ASKED_AGAIN
            asked = server.chat[2].json["messages"][-1]
            assert asked["role"] == "user"
            assert asked["content"].startswith("(Nothing was run: your answer holds a `$ ` line")
        assert (tmp_path / "started").exists() is bool(result)


def test_a_command_line_in_the_middle_of_an_answer_is_text_once_the_model_has_called(
    tmp_path: Path,
) -> None:
    answer = "Run\n$ touch started\nto start it."
    with LLMServer([shell("echo 1"), text(answer)]) as server, agent_at(server.url, tmp_path) as a:
        events = turn(a)
        assert (done(events).text, len(ran(events)), notices(events)) == (answer, 1, [])
    with LLMServer([text(answer), text("Hi.")]) as server, agent_at(server.url, tmp_path) as agent:
        events = turn(agent)
        assert (done(events).text, ran(events), notices(events)) == ("Hi.", [], [ASKED_AGAIN])
    assert not (tmp_path / "started").exists()


CALL = '{"name": "shell_exec", "arguments": {"command": "touch a"}}'
BLOCK = "**WRITE:`a`**\n```\nnew\n```\n**EOF:`a`**\n"


@pytest.mark.parametrize("block", [BLOCK, "**RUN:**\n```bash\ntouch a\n```\n"])
def test_blocks_that_are_only_told_of_are_asked_about_or_text_and_never_run(
    block: str, tmp_path: Path
) -> None:
    told = f"In blocks you write:\n\n{block}\nThat makes the file."
    with LLMServer([shell("echo 1"), text(told)]) as server, agent_at(server.url, tmp_path) as a:
        events = turn(a)
        assert (done(events).text, len(ran(events)), notices(events)) == (told, 1, [])
    with LLMServer([text(told), text("Hi.")]) as server, agent_at(server.url, tmp_path) as agent:
        assert notices(turn(agent)) == [ASKED_AGAIN]
    last = f"So:\n\n{block}"
    with (
        LLMServer([shell("echo 1"), text(last), text("Hi.")]) as server,
        agent_at(server.url, tmp_path) as agent,
    ):
        assert notices(turn(agent)) == [ASKED_AGAIN]
    assert [*tmp_path.iterdir()] == []


def test_no_dialect_is_gone_to_whose_tools_are_not_offered(tmp_path: Path) -> None:
    with (
        LLMServer([text("$ touch a"), text(BLOCK)]) as server,
        agent_at(server.url, tmp_path, "tools=read_file") as agent,
    ):
        assert [done(turn(agent)).text for _ in range(2)] == ["$ touch a", BLOCK]
        assert agent.log.dialect_of("m") == "native"


@pytest.mark.parametrize("dialect", ["auto", "dollar", "blocks"])
@pytest.mark.parametrize(
    "said",
    ["Use:\n$ touch a", BLOCK, '{"name": "shell_exec", "arguments": {"command": "touch a"}}'],
)
def test_nothing_runs_from_a_recording_that_was_no_call_when_it_was_made(
    dialect: str, said: str, tmp_path: Path
) -> None:
    recording = tmp_path / "session.json"
    messages = [{"role": "user", "content": "Go on."}, {"role": "assistant", "content": said}]
    recording.write_text(json.dumps(messages))
    with agent_at(f"replay://{recording}", tmp_path, f"dialect={dialect}") as agent:
        events = turn(agent)
    assert (ran(events), done(events).text) == ([], said)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("dialect", ["auto", "native", "blocks"])
def test_a_thought_that_the_server_does_not_tell_from_the_answer_runs_nothing(
    dialect: str, tmp_path: Path
) -> None:
    thought = "I could say\n**RUN:**\n```bash\ntouch a\n```"
    with (
        LLMServer([text(f"{thought}\n</think>\n\nDone.")]) as server,
        agent_at(server.url, tmp_path, f"dialect={dialect}") as agent,
    ):
        events = turn(agent)
        assert (done(events).text, ran(events)) == ("Done.", [])
        assert agent.log.messages[-1].reasoning == thought
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    "said", ["<think> opens\n</think>\nends.", "```\na\n</think>\n```", "a\n</think> b"]
)
def test_a_tag_that_is_talked_about_is_text(said: str, tmp_path: Path) -> None:
    said = f"It:\n{said}"
    with LLMServer([text(said)]) as server, agent_at(server.url, tmp_path) as agent:
        assert done(turn(agent)).text == said


def test_the_dialect_is_remembered_for_the_model(tmp_path: Path) -> None:
    with LLMServer([text("$ echo 1"), text("A."), text("B.")]) as server:
        with agent_at(server.url, tmp_path) as agent:
            turn(agent)
            log = agent.log
        for model, dialect in (("m", "dollar"), ("other", "native")):
            config = replace(agent.config, model=model)
            again = Agent(config, Surroundings(tmp_path, {}, DAY), log=log)
            start = next(iter(again.turn("x")))
            assert isinstance(start, TurnStart)
            assert start.dialect == dialect


def test_text_is_offered_once_where_no_tool_is_ever_called(tmp_path: Path) -> None:
    hint = (
        "3 turns without a tool call: if the model or its server knows none, "
        "dialect=dollar lets it run commands"
    )
    for first, told in ((text("A."), [hint]), (shell("true"), [])):
        for dialect in ("auto", "native"):
            replies = [first, *(text(each) for each in "BCDE")]
            with (
                LLMServer(replies) as server,
                agent_at(server.url, tmp_path, f"dialect={dialect}") as agent,
            ):
                said = [line for _ in range(4) for line in notices(turn(agent))]
            assert said == (told if dialect == "auto" else [])


# -- calls in the text of native answers --------------------------------------------------------

LEAKS = [
    '{"name": "shell_exec", "arguments": {"command": "echo hi"}}',
    'I call it: {"name": "shell_exec", "parameters": {"command": "echo hi"}}',
    '```json\n{"name": "shell_exec", "arguments": {"command": "echo hi"}}\n```',
    '```\n{"type": "function", "name": "shell_exec", "arguments": {"command": "echo hi"}}\n```',
    '<tool_call>{"name": "shell_exec", "arguments": "{\\"command\\": \\"echo hi\\"}"}</tool_call>',
    'Let me see.\n<tool_call>{"name": "shell_exec", "arguments": {"command": "echo hi"}}',
    '[TOOL_CALLS] [{"name": "shell_exec", "arguments": {"command": "echo hi"}}]',
    '[TOOL_CALL]{"name": "shell_exec", "arguments": {"command": "echo hi"}}[/TOOL_CALL]',
    '<function_call>{"name": "shell_exec", "arguments": {"command": "echo hi"}}</function_call>',
    (
        "<tool_call>\n<function=shell_exec>\n<parameter=command>\necho hi\n</parameter>\n"
        "</function>\n</tool_call>"
    ),
    (
        '<function_calls>\n<invoke name="shell_exec">\n<parameter name="command">echo hi'
        "</parameter>\n</invoke>\n</function_calls>"
    ),
]


@pytest.mark.parametrize("answer", LEAKS)
def test_a_call_written_as_text_is_taken_as_the_call(answer: str, tmp_path: Path) -> None:
    with LLMServer([text(answer), text("Done.")]) as server, agent_at(server.url, tmp_path) as a:
        events = turn(a)
        assert ran(events) == ["hi\n\n\nexit: 0"]
        assert notices(events) == [
            "the model wrote its call of shell_exec as text: taken as the call"
        ]
        assert sent(server)[-2]["tool_calls"][0]["function"]["name"] == "shell_exec"
        assert a.log.dialect_of("m") == "native"


@pytest.mark.parametrize("answer", LEAKS)
def test_no_part_of_a_call_written_as_text_is_taken_as_one(answer: str) -> None:
    for end in range(len(answer)):
        found = leaked_call(answer[:end], SPECS)
        assert found is None or json.loads(found[2]) == {"command": "echo hi"}


@pytest.mark.parametrize(
    "answer",
    [
        '{"name": "shell_exec", "arguments": {"command": "echo hi"}} and more',
        'One. Two. {"name": "shell_exec", "arguments": {"command": "echo hi"}}',
        '{"name": "rm", "arguments": {"command": "echo hi"}}',
        '{"name": "shell_exec", "arguments": {"command": 7}}',
        '{"name": "shell_exec", "arguments": {}}',
        '{"name": "shell_exec", "arguments": {"command": "x", "cwd": "/"}}',
        '{"name": "shell_exec", "command": "echo hi"}',
        '{"name": "write_file", "arguments": {"path": "a", "content": "b", "offset": true}}',
        (
            '[{"name": "shell_exec", "arguments": {"command": "a"}}, '
            '{"name": "shell_exec", "arguments": {"command": "b"}}]'
        ),
        "[1, 2]",
        "{",
        "",
    ],
)
def test_what_may_be_meant_otherwise_is_no_call(answer: str) -> None:
    assert leaked_call(answer, SPECS) is None


@pytest.mark.parametrize(
    "answer",
    [
        '{"name": "list_files", "arguments": {}}',
        '```json\n{"name": "shell_exec", "arguments": {"cmd": "touch made"}}\n```',
        "<function=ls></function>",
    ],
)
def test_an_answer_that_is_a_call_of_no_tool_is_corrected_and_runs_nothing(
    answer: str, tmp_path: Path
) -> None:
    with LLMServer([text(answer), text("Done.")]) as server, agent_at(server.url, tmp_path) as a:
        events = turn(a)
        assert (ran(events), notices(events), done(events).text) == ([], [ASKED_AGAIN], "Done.")


@pytest.mark.parametrize(
    "answer",
    [
        f"> {CALL}",
        f"- {CALL}",
        f"1. {CALL}",
        f"# {CALL}",
        f"| {CALL}",
        f"> <tool_call>{CALL}</tool_call>",
        f"What does this do? {CALL}",
        f"One line.\nAnother line.\n{CALL}",
        f"\u4f8b\u3002\u4e0d\u8981\u3002{CALL}",
        f"[{CALL}]",
        f"```json\n{CALL}",
    ],
)
def test_a_call_that_is_quoted_or_listed_or_not_closed_runs_nothing(
    answer: str, tmp_path: Path
) -> None:
    with (
        LLMServer([text(answer), text("Done."), text("Done.")]) as server,
        agent_at(server.url, tmp_path) as agent,
    ):
        assert ran(turn(agent)) == []


@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_a_call_in_an_answer_that_was_stopped_runs_nothing(finish: str, tmp_path: Path) -> None:
    with (
        LLMServer([text(CALL, finish=finish), text("Done.")]) as server,
        agent_at(server.url, tmp_path) as agent,
    ):
        assert ran(turn(agent)) == []


@pytest.mark.parametrize(
    ("answer", "is_run"),
    [
        (f"A call looks like this:\n```json\n{CALL}\n```", False),
        (f"```json\n{CALL}\n```", False),
        (CALL, True),
        (f"<tool_call>{CALL}</tool_call>", True),
    ],
)
def test_a_model_that_can_call_may_show_a_call(
    answer: str, *, is_run: bool, tmp_path: Path
) -> None:
    replies = [shell("echo 1"), text(answer), text("Done.")]
    with LLMServer(replies) as server, agent_at(server.url, tmp_path) as agent:
        assert len(ran(turn(agent))) == 1 + is_run


@pytest.mark.parametrize("dialect", ["dollar", "blocks"])
def test_a_call_in_json_is_corrected_in_the_text_dialects(dialect: str, tmp_path: Path) -> None:
    with (
        LLMServer([text(f"I run it:\n{CALL}"), text("Done.")]) as server,
        agent_at(server.url, tmp_path, f"dialect={dialect}") as agent,
    ):
        events = turn(agent)
        assert (ran(events), notices(events)) == ([], [ASKED_AGAIN])


def test_a_number_written_as_text_is_one() -> None:
    call = "<function=write_file><parameter=path>a</parameter><parameter=content>\nb\n</parameter>"
    found = leaked_call(f"{call}<parameter=offset>2</parameter></function>", SPECS)
    assert found is not None
    assert json.loads(found[2]) == {"path": "a", "content": "b", "offset": 2}
    assert leaked_call(f"{call}<parameter=path>c</parameter></function>", SPECS) is None
    assert leaked_call(f"{call} stray </function>", SPECS) is None


# -- corrections --------------------------------------------------------------------------------

UNREADABLE = {
    "native": "<tool_call>\nls\n</tool_call>",
    "dollar": '<invoke name="ls"></invoke>',
    "blocks": "**WRITE: a.txt**\nhello\n**EOF: a.txt**\n",
}


@pytest.mark.parametrize("dialect", UNREADABLE)
def test_an_answer_that_cannot_be_read_is_corrected_twice_and_then_the_turn_is_over(
    dialect: str, tmp_path: Path
) -> None:
    bad = text(UNREADABLE[dialect])
    replies = [bad, bad, text("Good."), bad, bad, bad]
    with (
        LLMServer(replies) as server,
        agent_at(server.url, tmp_path, f"dialect={dialect}", "max_al_iterations=1") as agent,
    ):
        events = turn(agent)
        assert (done(events).stop, done(events).text) == (Stop.FINAL, "Good.")
        assert notices(events) == [ASKED_AGAIN] * 2
        assert all(m["content"].startswith("(Nothing was run: ") for m in sent(server)[2::2])
        before = server.chat[0].json["messages"]
        assert server.chat[2].json["messages"][: len(before)] == before
        events = turn(agent)
        assert sum(isinstance(event, Replied) for event in events) == 3
        assert agent.log.messages[-1].content == UNREADABLE[dialect].strip()
        if dialect == "dollar":
            assert (done(events).stop, done(events).exit_code) == (Stop.ERROR, 1)
            assert "3 answers in a row could not be read" in error_of(events)
        else:
            assert (done(events).stop, done(events).exit_code) == (Stop.FINAL, 0)
            assert done(events).text == UNREADABLE[dialect].strip()
            assert notices(events)[-1] == "the answer is taken as it is: nothing in it was run"
    assert [*tmp_path.iterdir()] == []


def test_ten_commands_without_a_word_are_asked_about_and_the_twentieth_ends_the_turn(
    tmp_path: Path,
) -> None:
    replies = [text(f"$ echo {number}\n") for number in range(1, 21)]
    with LLMServer(replies) as server, agent_at(server.url, tmp_path, "dialect=dollar") as agent:
        events = turn(agent)
        assert (done(events).stop, done(events).exit_code) == (Stop.ERROR, 1)
        assert "20 commands in a row without a word" in error_of(events)
        results = [message["content"] for message in sent(server)[2::2]]
        assert ["without a word" in result for result in results] == [False] * 9 + [True] + [
            False
        ] * 9
        assert ran(events)[-1].startswith("not run: 20 commands in a row")
        for earlier, later in zip(server.chat, server.chat[1:], strict=False):
            start = earlier.json["messages"]
            assert later.json["messages"][: len(start)] == start


@pytest.mark.parametrize(
    ("dialect", "answer"),
    [
        ("dollar", "$ touch cut"),
        ("dollar", "$ cat > cut <<'END'\nhalf"),
        ("blocks", "**WRITE:`cut`**\n```\nhalf"),
        ("blocks", "**RUN:**\n```bash\ntouch cut\n"),
        ("blocks", "**WRITE:`cut`**\nhalf a line"),
        ("native", '{"name": "shell_exec", "arguments": {"command": "touch cut'),
    ],
)
def test_what_the_token_limit_has_cut_off_does_not_run(
    dialect: str, answer: str, tmp_path: Path
) -> None:
    cut = text(answer, finish="length")
    with (
        LLMServer([cut, text("I stop.")]) as server,
        agent_at(server.url, tmp_path, f"dialect={dialect}") as agent,
    ):
        turn(agent)
    assert not (tmp_path / "cut").exists()


def test_a_block_that_was_cut_off_is_refused_beside_one_that_was_not(tmp_path: Path) -> None:
    answer = "**WRITE:`a`**\n```\na\n```\n**EOF:`a`**\n**WRITE:`b`**\n```\nhalf"
    with (
        LLMServer([text(answer), text("I see.")]) as server,
        agent_at(server.url, tmp_path, "dialect=blocks") as agent,
    ):
        events = turn(agent)
        assert ran(events)[1].startswith("not run: cut off: ")
        assert "[2/2 WRITE b → cut]" in sent(server)[-1]["content"]
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


# -- what is seen -------------------------------------------------------------------------------


def test_the_stream_is_closed_behind_a_command_and_nothing_of_the_rest_is_kept(
    tmp_path: Path,
) -> None:
    endless = text("I look.\n$ echo hi\n" + "made up\n" * 50_000, stall_after=200_000)
    with (
        LLMServer([endless, text("Done.")]) as server,
        agent_at(server.url, tmp_path, "dialect=dollar") as agent,
    ):
        events = turn(agent)
        shown = "".join(event.text for event in events if isinstance(event, TextDelta))
        assert shown.startswith("I look.\n")
        assert "$" not in shown
        assert "made up" not in shown + str(agent.log.messages)
        assert done(events).text == "Done."


def test_blocks_are_shown_as_calls_and_not_as_prose(tmp_path: Path) -> None:
    answer = "First.\n\n**WRITE:`a`**\n```\nhidden\n```\n**EOF:`a`**\n\nThen more.\n"
    with (
        LLMServer([text(answer), text("Done.")]) as server,
        agent_at(server.url, tmp_path, "dialect=blocks") as agent,
    ):
        events = turn(agent)
        first = events[: next(i for i, e in enumerate(events) if isinstance(e, ToolFinished))]
        shown = "".join(event.text for event in first if isinstance(event, TextDelta))
        assert "hidden" not in shown
        assert "WRITE" not in shown
        assert ("First." in shown, "Then more." in shown) == (True, True)


def test_a_limit_of_the_answer_does_not_cut_a_summary(tmp_path: Path) -> None:
    with (
        LLMServer([text("Hi."), text("Goal: x.")]) as server,
        agent_at(server.url, tmp_path, "max_tokens=60", "max_completion_tokens=9") as agent,
    ):
        turn(agent)
        list(agent.compact())
        first, summary = (asked.json for asked in server.chat)
        assert (first["max_tokens"], first["max_completion_tokens"]) == (60, 9)
        assert not {"max_tokens", "max_completion_tokens"} & summary.keys()


def test_a_summary_is_text_in_every_dialect(tmp_path: Path) -> None:
    for dialect in JOB:
        summary = "Goal: x.\n\n$ rm -rf all\n\nNext step: none."
        with (
            LLMServer([text("Hi."), text(summary)]) as server,
            agent_at(server.url, tmp_path, f"dialect={dialect}") as agent,
        ):
            turn(agent)
            events = list(agent.compact())
            assert not [event for event in events if isinstance(event, Notice)]
            assert "$ rm -rf all" in agent.log.messages[1].content
            assert "tool_choice" in server.chat[-1].json or dialect != "native"


# -- what only quotes ---------------------------------------------------------------------------

DOCUMENTS = sorted(
    path for pattern in ("*.md", "docs/**/*.md", "src/**/*.py") for path in ROOT.glob(pattern)
)


@pytest.mark.parametrize("dialect", ["native", "dollar", "blocks", "auto"])
def test_an_answer_that_quotes_this_project_runs_nothing(dialect: str) -> None:
    for path in DOCUMENTS:
        quoted = path.read_text("utf-8")
        quote = quoted if path.suffix == ".md" else f"````python\n{quoted}\n````"
        answer = Answer(Message(Role.ASSISTANT, quote), "stop")
        read = dialect_named(dialect).decode(answer, [], SPECS)
        assert not read.message.tool_calls, path
        assert read.correction is None, path


# -- the optional tools -------------------------------------------------------------------------


def test_edit_file_and_read_file_are_offered_where_they_are_asked_for(tmp_path: Path) -> None:
    edits = "<<<<<<< SEARCH\none\n=======\ntwo\n>>>>>>> REPLACE"
    replies = [
        write("a", "one\n"),
        calls(("edit_file", {"path": "a", "edits": edits})),
        calls(("read_file", {"path": "a"})),
        text("Done."),
    ]
    names = "shell_exec,write_file,edit_file,read_file"
    with (
        LLMServer(replies) as server,
        agent_at(server.url, tmp_path, f"tools={names}") as agent,
    ):
        assert ran(turn(agent))[2] == "two\n"
        offered = [tool["function"]["name"] for tool in server.chat[0].json["tools"]]
        assert offered == names.split(",")
        system = server.chat[0].json["messages"][0]["content"]
        assert all(f"- {name}: " in system for name in offered)


def test_a_tool_that_is_not_allowed_is_not_there_in_blocks_either(tmp_path: Path) -> None:
    answer = "**WRITE:`a`**\nx\n**EOF:`a`**\n**EDIT:`a`**\nx\n**EOF:`a`**\n**FILE:`b`**\n"
    (tmp_path / "b").write_text("seen\n")
    with (
        LLMServer([text(answer), text("Done.")]) as server,
        agent_at(server.url, tmp_path, "dialect=blocks", "tools=shell_exec") as agent,
    ):
        results = ran(turn(agent))
    assert ["there is no tool" in result for result in results] == [True, True, False]
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("last", ["", "auto", "none of ours"])
def test_auto_begins_natively_whatever_a_session_says_that_is_no_dialect(last: str) -> None:
    assert dialect_named("auto", last).name == "native"
    assert isinstance(dialect_named("auto", last).without_tools(), str)


def test_a_run_that_speaks_natively_starts_without_the_other_dialects() -> None:
    code = "import sys, bantam.agent.agent; print([n for n in sys.modules if 'dialects.' in n])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "dialects.native" in ran.stdout
    assert "dollar" not in ran.stdout
    assert "block" not in ran.stdout
