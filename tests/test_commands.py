"""The commands of the prompt, by lines that are piped into real processes."""

import json
import shlex
import signal
import stat
import subprocess
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
from llmserver import LLMServer, Reply, calls, error, raw, shell, text, validate, write
from processes import eventually
from program import BANTAM, at, environment, run, start
from scenarios import MODELS

from bantam.core.cancel import Cancel
from bantam.core.errors import ModelError
from bantam.core.messages import Message, Role, ToolCall, last_prompt
from bantam.core.redaction import Redaction
from bantam.model.catalogue import model_ids
from bantam.model.transports import HTTPTransport
from bantam.sessions.snapshot import About
from bantam.sessions.store import Store, project_id
from bantam.terminal.commands import COMMANDS
from bantam.terminal.export import as_markdown

Done = subprocess.CompletedProcess[bytes]
KEY: Final = "sk-0123456789-last"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def typed(
    project: Path, server: LLMServer, *lines: str, options: tuple[str, ...] = (), **env: str
) -> Done:
    """Return what came of `lines` as the piped input of Bantam in `project`."""
    stdin = "".join(f"{line}\n" for line in lines).encode()
    settings = environment(project.parent, **env)
    return run(*at(server.url), *options, cwd=project, env=settings, stdin=stdin)


def fails(project: Path, server: LLMServer, *lines: str, options: tuple[str, ...] = ()) -> str:
    """Return what is said of lines of which the last alone does not go well."""
    ended = typed(project, server, *lines, options=options)
    assert ended.returncode != 0
    complaints = [line for line in ended.stderr.decode().split("\n") if line.startswith("bantam: ")]
    assert len(complaints) == 1
    return complaints[0]


def out(ended: Done) -> list[str]:
    """Return the lines of standard output of a run that went well."""
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.decode().removesuffix("\n").split("\n")


def sessions(project: Path) -> dict[str, Any]:
    """Return the stored sessions by name; each is whole."""
    folder = project.parent / ".bantam" / "sessions"
    found = {path.stem: json.loads(path.read_text()) for path in folder.glob("*.json")}
    for stored in found.values():
        assert stored["format"] == "bantam-session"
    return found


def prompts(messages: list[dict[str, Any]]) -> list[str]:
    return [message["content"] for message in messages if message["role"] == "user"]


# -- piped lines ------------------------------------------------------------------------------


def test_each_line_is_an_input_and_each_answer_stands_on_lines_of_its_own(project: Path) -> None:
    with LLMServer([text("One."), text("Two.\n")]) as server:
        ended = typed(project, server, "first", "", "  \t", "second")
        assert [prompts(asked.json["messages"]) for asked in server.chat] == [
            ["first"],
            ["first", "second"],
        ]
    assert out(ended) == ["One.", "Two."]
    assert b"\x1b" not in ended.stdout + ended.stderr
    assert b"\r" not in ended.stdout + ended.stderr


def test_without_any_line_nothing_happens(project: Path) -> None:
    with LLMServer([]) as server:
        ended = typed(project, server)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")
    assert not sessions(project)


def test_the_status_is_that_of_the_last_turn_that_failed(project: Path) -> None:
    with LLMServer([error(401, "no"), error(404, "no"), text("Yes.")]) as server:
        assert typed(project, server, "a", "b", "c").returncode == 1
    with LLMServer([error(404, "no"), error(401, "no"), text("Yes.")]) as server:
        assert typed(project, server, "a", "b", "!exit 3", "c").returncode == 77


def test_a_leading_blank_sends_a_line_as_it_is(project: Path) -> None:
    with LLMServer([text("A."), text("B.")]) as server:
        typed(project, server, " /help", "\t!ls")
        assert prompts(server.chat[-1].json["messages"]) == [" /help", "\t!ls"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("/lst", "there is no command /lst: did you mean /list?"),
        ("/lst all", "there is no command /lst: did you mean /list?"),
        ("/etc/lists is what?", "there is no command /etc/lists: /help lists them. A leading"),
        ("/", "there is no command /: /help lists them."),
        ("/usr/bin/env is what?", "there is no command /usr/bin/env"),
        ("/list all", "/list takes nothing behind it"),
        ("/load", "write /load <id>"),
        ("!", "write a shell command behind the !"),
        ("/save a/b", "'a/b' cannot name a session"),
        ("/save", "there is nothing to save yet"),
        ("/retry", "there is no prompt to send again"),
        ("/undo", "there is nothing to undo"),
        ("/export", "there is nothing to export yet"),
        ("/copy", "there is no answer to copy yet"),
        ("/continue", "this project has no session yet"),
        ("/load nothing", "no session is named 'nothing'"),
        ("/compact", "nothing has changed"),
        ("/cfg =x", "write /cfg KEY VALUE"),
    ],
)
def test_what_cannot_be_done_is_said_and_nothing_is_sent(
    line: str, said: str, project: Path
) -> None:
    with LLMServer([]) as server:
        assert said in fails(project, server, line)
        assert not server.chat
    assert not sessions(project)


@pytest.mark.parametrize("line", ["/save", "/undo"])
def test_what_needs_a_stored_session_says_so_where_none_is_stored(line: str, project: Path) -> None:
    with LLMServer([text("A.")]) as server:
        assert "--no-session" in fails(project, server, "a", line, options=("--no-session",))
    assert not sessions(project)


def test_help_names_every_command_and_key(project: Path) -> None:
    with LLMServer([]) as server:
        lines = out(typed(project, server, "/help"))
    assert {line.split("\t")[0].split(" ")[0] for line in lines} >= {*COMMANDS, "Enter", "Ctrl+C"}
    assert all(line.count("\t") == 1 for line in lines)


@pytest.mark.parametrize("word", ["/quit", "/exit"])
def test_quit_ends_the_input(word: str, project: Path) -> None:
    with LLMServer([text("A.")]) as server:
        assert out(typed(project, server, "a", word, "b")) == ["A."]


def test_a_reader_who_has_left_ends_it(project: Path) -> None:
    with LLMServer([text("A.")]) as server:
        script = f"printf 'a\\nb\\n' | {' '.join([*BANTAM, *at(server.url)])} | true"
        ended = run(
            cwd=project,
            program=["bash", "-c", f"{script}; exit ${{PIPESTATUS[1]}}"],
            env=environment(project.parent),
        )
    assert ended.returncode == 1
    assert b"Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("lines", "redirected", "status", "stdout"),
    [
        ("/help", "> /dev/full", 1, ""),
        ("a", "> /dev/full", 1, ""),
        ("a", "2> /dev/full", 0, "A.\n"),
    ],
)
def test_an_output_that_is_full_ends_it_and_a_full_standard_error_does_not(
    lines: str, redirected: str, status: int, stdout: str, project: Path
) -> None:
    with LLMServer([text("A.")]) as server:
        script = f"printf '{lines}\n' | {' '.join([*BANTAM, *at(server.url)])} {redirected}"
        env = environment(project.parent)
        ended = run(cwd=project, program=["bash", "-c", script], env=env)
    assert (ended.returncode, ended.stdout.decode()) == (status, stdout)
    assert (b"No space left on device" in ended.stderr) == bool(status)
    assert b"Traceback" not in ended.stderr


def test_the_budget_of_a_run_outlasts_a_change_of_session_and_configuration(project: Path) -> None:
    with LLMServer([text("A."), text("B.")]) as server:
        options = ("-o", "budget_tokens=30")
        ended = typed(project, server, "a", "/cfg top_p 1", "b", "/clear", "c", options=options)
    assert ended.returncode == 4
    assert b"budget_tokens=30 is used up: 34 tokens" in ended.stderr


# -- shell commands ---------------------------------------------------------------------------


def test_a_shell_command_runs_at_once_and_is_not_added_to_the_conversation(project: Path) -> None:
    with LLMServer([text("A.")]) as server:
        ended = typed(project, server, "!echo aside; exit 3", "a")
        assert "aside" not in str(server.chat[0].json["messages"])
    assert out(ended) == ["aside", "A."]
    assert b"[exit: 3]" in ended.stderr


def test_a_shell_command_takes_none_of_the_lines_that_follow(project: Path) -> None:
    with LLMServer([text("A.")]) as server:
        assert out(typed(project, server, "!cat", "a")) == ["A."]


def test_a_shell_command_that_the_system_refuses_is_told(project: Path) -> None:
    with LLMServer([]) as server:
        assert "the command cannot be run" in fails(project, server, "!echo \0")


@pytest.mark.parametrize(
    ("number", "status", "after"), [(signal.SIGINT, 0, b"A.\n"), (signal.SIGTERM, 143, b"")]
)
def test_ctrl_c_stops_a_shell_command_alone_and_sigterm_all(
    number: int, status: int, after: bytes, project: Path
) -> None:
    with LLMServer([text("A.")], strict=False) as server:
        process = start(
            *at(server.url),
            cwd=project,
            env=environment(project.parent),
            stdin=subprocess.PIPE,
        )
        with process:
            assert process.stdin is not None
            process.stdin.write(b"!echo > begun; sleep 3600\na\n")
            process.stdin.close()
            process.stdin = None
            assert eventually((project / "begun").exists)
            process.send_signal(number)
            stdout, _ = process.communicate(timeout=60)
    assert (process.returncode, stdout) == (status, after)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_piped_input_in_a_turn_and_while_nothing_comes(
    number: int, status: int, project: Path
) -> None:
    for lines in (b"a\nb\n", b""):
        with (
            LLMServer([text("A.", hold=True)]) as server,
            start(
                *at(server.url),
                cwd=project,
                env=environment(project.parent),
                stdin=subprocess.PIPE,
            ) as process,
        ):
            assert process.stdin is not None
            assert process.stdout is not None
            # Not a `!command`: while one runs, Ctrl+C is its own.
            process.stdin.write(b"/cfg model\n" + lines)
            process.stdin.flush()
            assert process.stdout.readline() == b"model=scripted (-o)\n"
            if lines:
                server.wait_for(1)
            process.send_signal(number)
            assert process.wait(60) == status
            assert process.stderr is not None
            assert b"Traceback" not in process.stderr.read()


# -- sessions ---------------------------------------------------------------------------------


def test_save_stores_under_a_name_with_the_models_summary(project: Path) -> None:
    with LLMServer([text("A."), text("\n About letters.\nMore."), text("B.")]) as server:
        ended = typed(project, server, "a", "/save my letters", "b")
        summary, after = server.chat[1].json, server.chat[2].json
        assert summary["tool_choice"] == "none"
        assert prompts(summary["messages"])[0] == "a"
        assert prompts(after["messages"]) == ["a", "b"]
    assert out(ended) == ["A.", "saved as my letters: About letters.", "B."]
    stored = sessions(project)
    assert stored["my letters"]["summary"] == "About letters."
    assert prompts(stored["my letters"]["messages"]) == ["a"]
    assert prompts(stored[project_id(project)]["messages"]) == ["a", "b"]
    assert stored[project_id(project)]["usage"]["prompt"] == 36


@pytest.mark.parametrize("reply", [error(404, "no"), shell("ls"), error(401, "no")])
def test_save_without_a_summary_takes_the_first_line(reply: Reply, project: Path) -> None:
    with LLMServer([text("A."), reply]) as server:
        lines = out(typed(project, server, "x" * 150, "/save"))
    assert lines[1] == f"saved as {project_id(project)}: {'x' * 100}"
    assert sessions(project)[project_id(project)]["summary"] == "x" * 100


def test_what_cannot_be_saved_is_told(project: Path) -> None:
    home = project.parent / "home"
    home.write_text("no folder")
    for line, said in (("/save", b"could not be stored"), ("/save x", b"could not be saved")):
        with LLMServer([text("A."), text("S.")]) as server:
            ended = typed(project, server, "a", line, BANTAM_HOME=str(home))
        assert ended.returncode == 1
        assert said in ended.stderr.split(b"bantam: ", 1)[1]


def test_save_has_stored_before_the_model_is_asked_for_a_summary(project: Path) -> None:
    stored = project.parent / ".bantam" / "sessions" / "mine.json"
    settings = environment(project.parent)
    with (
        LLMServer([text("A."), text("S.", stall_after=0)]) as server,
        start(*at(server.url), cwd=project, env=settings, stdin=subprocess.PIPE) as process,
    ):
        assert process.stdin is not None
        process.stdin.write(b"a\n/save mine\n")
        process.stdin.flush()
        server.wait_for_stall()
        assert prompts(json.loads(stored.read_text())["messages"]) == ["a"]
        process.send_signal(signal.SIGTERM)
        process.communicate()


def test_saving_again_under_a_name_leaves_one_session_of_that_name(project: Path) -> None:
    with LLMServer([text("A."), text("S."), text("B."), text("S2.")]) as server:
        out(typed(project, server, "a", "/save mine", "b", "/save mine"))
    names = sorted(sessions(project))
    assert names == sorted(["mine", project_id(project)])
    assert sessions(project)["mine"]["summary"] == "S2."
    assert prompts(sessions(project)["mine"]["messages"]) == ["a", "b"]


def test_continue_and_load_go_on_from_a_stored_session(project: Path) -> None:
    other = project.parent / "other"
    other.mkdir()
    with LLMServer([text("A."), text("S."), text("B.")]) as server:
        typed(project, server, "a", "/save one")
        ended = typed(other, server, "b", "/load on", "/load one")
        assert b"loaded one: 4 messages" in ended.stdout
        assert b"the session one is the one in hand" in ended.stderr
        assert b"this session was made in" in ended.stderr
    with LLMServer([text("C."), text("D.")]) as server:
        assert "loaded" in out(typed(project, server, "/continue", "c"))[0]
        out(typed(other, server, "/cont", "d"))
        assert prompts(server.chat[0].json["messages"]) == ["a", "c"]
        assert prompts(server.chat[1].json["messages"]) == ["b", "d"]


def test_several_sessions_that_are_meant_are_named(project: Path) -> None:
    with LLMServer([text("A."), text("S."), text("S.")]) as server:
        assert "xa, xb" in fails(project, server, "a", "/save xa", "/save xb", "/load x")


def test_a_session_that_cannot_be_loaded_leaves_the_one_in_hand(project: Path) -> None:
    folder = project.parent / ".bantam" / "sessions"
    with LLMServer([text("A."), text("B.")]) as server:
        typed(project, server, "a")
        (folder / "empty.json").write_text("[]")
        (folder / "new.json").write_text('{"format": "bantam-session", "version": 99}')
        (folder / "bad.json").write_text("{")
        ended = typed(project, server, "/continue", "/load empty", "/load new", "/load bad", "b")
        assert prompts(server.chat[-1].json["messages"]) == ["a", "b"]
    said = ended.stderr.decode()
    assert "the session empty is empty" in said
    assert "a newer Bantam made it" in said
    assert "is damaged" in said
    assert ended.returncode == 1


def test_with_no_session_a_load_goes_on_unstored(project: Path) -> None:
    with LLMServer([text("A."), text("S."), text("B."), text("C.")]) as server:
        typed(project, server, "a", "/save one")
        before = sessions(project)
        ended = typed(project, server, "/load one", "b", "/clear", "c", options=("--no-session",))
        assert prompts(server.chat[-2].json["messages"]) == ["a", "b"]
        assert prompts(server.chat[-1].json["messages"]) == ["c"]
    assert out(ended) == ["loaded a copy: 3 messages", "B.", "a new conversation.", "C."]
    assert sessions(project) == before


def test_clear_begins_a_new_conversation_and_keeps_the_old_one(project: Path) -> None:
    with LLMServer([text("A."), text("B.")]) as server:
        typed(project, server, "/clear", "a", "/clear", "b")
        first, second = (asked.json["messages"] for asked in server.chat)
        assert prompts(second) == ["b"]
        assert first[0] == second[0]
    assert sorted(prompts(each["messages"]) for each in sessions(project).values()) == [
        ["a"],
        ["b"],
    ]
    assert prompts(sessions(project)[project_id(project)]["messages"]) == ["b"]


def test_a_change_that_cannot_be_leaves_the_conversation_in_hand(project: Path) -> None:
    with LLMServer([text("A.")]) as server:
        typed(project, server, "a")
    stored = project.parent / ".bantam" / "sessions" / f"{project_id(project)}.json"
    (project / "again.json").write_bytes(stored.read_bytes())
    ended = run(
        *("-o", "endpoint=replay://again.json"),
        cwd=project,
        env=environment(project.parent),
        stdin=b"a\n!rm again.json\n/clear\n/cfg top_p 0.5\n/export\n",
    )
    assert ended.stderr.count(b"again.json") == 2
    assert ended.stdout.count(b"A.") == 2
    assert not (project / ".bantam.cfg").exists()


def test_a_conversation_that_could_not_be_stored_is_not_given_up(project: Path) -> None:
    home = project.parent / "home"
    home.write_text("no folder")
    with LLMServer([text("A."), text("B.")]) as server:
        ended = typed(project, server, "a", "/clear", "b", BANTAM_HOME=str(home))
        assert prompts(server.chat[-1].json["messages"]) == ["a", "b"]
    assert b"would be lost" in ended.stderr
    assert ended.returncode == 1


def test_what_cannot_be_stored_at_the_end_is_told(project: Path) -> None:
    with LLMServer([text("A.")]) as server:
        breaks = "!mv ../.bantam ../gone; touch ../.bantam"
        ended = typed(project, server, "a", breaks, "/cfg model other")
    assert b"the session could not be stored" in ended.stderr
    assert b"bantam: the end of this conversation could not be stored: it is lost\n" in ended.stderr
    assert b"Traceback" not in ended.stderr


def test_the_list_has_a_line_of_fields_for_each_session(project: Path) -> None:
    with LLMServer([text("A."), text("a\ttab")]) as server:
        ended = typed(project, server, "/list", "a\tb", "/save one", "/list")
        (project.parent / ".bantam" / "sessions" / "bad.json").write_text("{")
        lines = [line.split("\t") for line in out(typed(project, server, "/list"))]
    assert ended.stdout.decode().count("\n") == 4
    assert all(len(line) == 5 for line in lines)
    by_name = {line[1]: line for line in lines}
    assert by_name.keys() == {"one", project_id(project), "bad"}
    assert [by_name[project_id(project)][0], by_name["one"][0]] == ["*", ""]
    assert by_name["one"][3:] == ["3", "a tab"]
    assert by_name["one"][2].endswith("+00:00")
    assert by_name["bad"][3] == "?"
    assert by_name["bad"][4].startswith("[it is no JSON")


# -- the conversation -------------------------------------------------------------------------


def test_retry_sends_the_last_prompt_in_place_of_its_answer(project: Path) -> None:
    replies = [text("A."), shell("echo b"), text("B."), text("Better.")]
    with LLMServer(replies) as server:
        ended = typed(project, server, "a", "b", "/retry")
        assert server.chat[-1].json["messages"] == server.chat[1].json["messages"]
    assert out(ended) == ["A.", "B.", "Better."]
    stored = sessions(project)[project_id(project)]["messages"]
    assert [each["content"] for each in stored[1:]] == ["a", "A.", "b", "Better."]


def test_retry_sends_what_a_failed_turn_of_an_earlier_run_has_left(project: Path) -> None:
    with LLMServer([text("A."), error(404, "no"), text("B.")]) as server:
        typed(project, server, "a", "b")
        out(typed(project, server, "/retry", options=("-c",)))
        assert prompts(server.chat[-1].json["messages"]) == ["a", "b"]
    stored = sessions(project)[project_id(project)]["messages"]
    assert [each["content"] for each in stored[1:]] == ["a", "A.", "b", "B."]


@pytest.mark.parametrize("options", [(), ("--no-session",)])
def test_a_retry_that_brings_no_answer_leaves_the_one_before(
    options: tuple[str, ...], project: Path
) -> None:
    with LLMServer([text("A."), text("B."), error(404, "no"), text("C.")]) as server:
        ended = typed(project, server, "a", "b", "/retry", "c", options=options)
        said = [each["content"] for each in server.chat[-1].json["messages"]]
    assert said[1:] == ["a", "A.", "b", "B.", "c"]
    assert ended.returncode == 1
    assert [*sessions(project)] == ([] if options else [project_id(project)])


def test_what_a_failed_retry_has_brought_back_is_what_is_stored(project: Path) -> None:
    with LLMServer([text("A."), text("B."), error(404, "no")]) as server:
        typed(project, server, "a", "b", "/retry")
    stored = sessions(project)[project_id(project)]
    assert [each["content"] for each in stored["messages"][1:]] == ["a", "A.", "b", "B."]
    assert stored["turns"] == 2


def test_a_bantam_that_is_killed_in_a_retry_leaves_the_answer_before(project: Path) -> None:
    env = environment(project.parent)
    with (
        LLMServer([text("A."), text("B.", hold=True)]) as server,
        start(*at(server.url), cwd=project, env=env, stdin=subprocess.PIPE) as process,
    ):
        assert process.stdin is not None
        process.stdin.write(b"a\n/retry\n")
        process.stdin.flush()
        server.wait_for_stall()
        process.kill()
        process.wait(60)
    with LLMServer([text("C.")]) as server:
        typed(project, server, "c", options=("-c",))
        said = [each["content"] for each in server.chat[0].json["messages"]]
    assert said[1:] == ["a", "A.", "c"]


def test_after_a_retry_that_failed_and_one_that_did_not_undo_puts_back_all_turns(
    project: Path,
) -> None:
    replies = [
        *(write("a.txt", "a\n"), text("A."), error(404, "no")),
        *(write("b.txt", "b\n"), text("B."), error(404, "no")),
    ]
    with LLMServer(replies) as server:
        ended = typed(project, server, "a", "/retry", "/retry", "/retry", "/undo", "/undo")
    assert ended.stdout == b"A.\nB.\nremoved b.txt\nremoved a.txt\n"


def test_a_compaction_in_a_retry_keeps_the_answer_before_too(project: Path) -> None:
    store = Store(project, lambda: datetime.now(UTC))
    session = store.fresh("s", About())
    for message in (Message(Role.USER, "a"), Message(Role.ASSISTANT, "A.")):
        session.append(message)
    assert session.rewind() == "a"
    session.append(Message(Role.USER, "a"))
    session.compact_to([Message(Role.USER, "In short.")])
    session.close()
    kept, now = (
        [message.content for message in store.stored(name).conversation.messages]
        for name in ("s-before-compact", "s")
    )
    assert (kept, now) == (["a", "A."], ["In short."])


def test_a_retry_that_begins_with_calls_keeps_the_answer_before_under_another_name(
    project: Path,
) -> None:
    with LLMServer([text("A."), shell("true"), error(404, "no")]) as server:
        typed(project, server, "a", "/retry")
    stored = sessions(project)
    kept = stored[f"{project_id(project)}-before-retry"]["messages"]
    assert [each["content"] for each in kept[1:]] == ["a", "A."]
    roles = [each["role"] for each in stored[project_id(project)]["messages"]]
    assert roles == ["system", "user", "assistant", "tool"]


def test_retry_tells_which_files_stay_as_the_last_turn_wrote_them(project: Path) -> None:
    said = b"[what the last turn wrote stays, files: 1; /undo first puts them back]"
    replies = [write("a", "one"), text("A."), text("B."), text("C.")]
    with LLMServer(replies) as server:
        ended = typed(project, server, "a", "/retry", "/retry")
        assert ended.stderr.count(said) == 1
        assert (project / "a").read_text() == "one"
        assert server.chat[2].json["messages"][1:] == [{"role": "user", "content": "a"}]


def test_retry_without_a_session_forgets_the_answer(project: Path) -> None:
    with LLMServer([text("A."), text("B.")]) as server:
        out(typed(project, server, "a", "/retry", options=("--no-session",)))
        assert server.chat[0].json["messages"] == server.chat[1].json["messages"]
        assert "there is no prompt" in fails(project, server, "/retry", options=("--no-session",))


def test_what_bantam_tells_the_model_by_itself_is_no_prompt() -> None:
    said = (
        "(The user has undone your last changes of a.)",
        "(From here on the working directory is /.)",
    )
    messages = [Message(Role.SYSTEM), *(Message(Role.USER, text) for text in said)]
    assert last_prompt(messages) is None
    assert last_prompt([messages[0], Message(Role.USER, "a"), *messages[1:]]) == 1


def test_after_an_undo_retry_sends_the_prompt_and_not_the_note(project: Path) -> None:
    replies = [write("a.txt", "a\n"), text("A."), text("B.")]
    with LLMServer(replies) as server:
        ended = typed(project, server, "a", "/undo", "/retry")
        assert prompts(server.chat[-1].json["messages"]) == ["a"]
    assert out(ended) == ["A.", "removed a.txt", "B."]
    assert not (project / "a.txt").exists()


def test_undo_puts_back_what_it_can_and_names_the_rest(project: Path) -> None:
    (project / "old.txt").write_text("old\n")
    wanted = calls(
        ("write_file", {"path": "old.txt", "content": "new\n", "del_bytes": 4}),
        ("shell_exec", {"command": "echo x >> shell.txt"}),
    )
    with LLMServer([wanted, text("A."), text("B.")]) as server:
        ended = typed(project, server, "a", "/undo", "b")
        assert "The user has undone" in prompts(server.chat[-1].json["messages"])[-1]
    assert out(ended)[1:3] == ["put back old.txt", "cannot be undone: echo x >> shell.txt"]
    assert (project / "old.txt").read_text() == "old\n"
    with LLMServer([write("a.txt", "a\n"), text("A.")]) as server:
        ended = typed(project, server, "a", "!echo more >> a.txt", "/undo")
    assert b"not put back: a.txt: changed since" in ended.stdout
    assert ended.returncode == 1


def test_usage_tells_each_call_and_the_sum_with_the_cached_share(project: Path) -> None:
    cached = {
        "prompt_tokens": 40,
        "completion_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 30},
    }
    with LLMServer([text("A."), text("B.", usage=cached), text("C.", usage=None)]) as server:
        assert out(typed(project, server, "/usage", "a", "b", "/usage"))[1:] == [
            "A.",
            "B.",
            "1\t12\t-\t5",
            "2\t40\t30 (75%)\t5",
            "sum\t52\t30 (58%)\t10",
        ]
        last = out(typed(project, server, "c", "/usage", options=("-c",)))[-2:]
    assert last[0].startswith("3\t~")
    assert last[1].startswith("sum\t~")


def test_compact_puts_a_summary_in_the_conversations_place(project: Path) -> None:
    with LLMServer([text("A."), text("We said a."), text("B.")]) as server:
        ended = typed(project, server, "a", "/compact", "/retry", "b")
        last = server.chat[-1].json["messages"]
        assert [each["role"] for each in last] == ["system", "user"]
        assert "We said a." in last[1]["content"]
    assert b"there is no prompt to send again" in ended.stderr
    assert f"{project_id(project)}-before-compact" in sessions(project)


def test_export_writes_the_conversation_as_markdown(project: Path) -> None:
    with LLMServer([shell("echo '```'"), text("# Done")]) as server:
        ended = typed(
            project, server, "a", "/export", "/export a.md", "/export a.md", "/export no/a"
        )
    written = (project / "a.md").read_text()
    assert stat.S_IMODE((project / "a.md").stat().st_mode) == 0o600
    assert written in ended.stdout.decode()
    assert "## User\n\na\n" in written
    assert "````sh\necho '```'\n````" in written
    assert written.endswith("## Assistant\n\n# Done\n")
    said = ended.stderr.decode()
    assert "a.md is there already" in said
    assert "no/a cannot be written: No such file or directory" in said


def test_an_export_that_the_disk_does_not_take_leaves_nothing(project: Path) -> None:
    (project / "full").symlink_to("/dev/full")
    with LLMServer([text("A.")]) as server:
        limited = f"ulimit -f 0; exec {' '.join(map(shlex.quote, (*BANTAM, *at(server.url))))}"
        ended = subprocess.run(
            ["bash", "-c", limited + " --no-session"],
            cwd=project,
            env=environment(project.parent, PYTHONDONTWRITEBYTECODE="1", COVERAGE_PROCESS_START=""),
            input=b"a\n/export a.md\n",
            capture_output=True,
            check=False,
            timeout=60,
        )
    assert b"a.md cannot be written: File too large" in ended.stderr
    assert not (project / "a.md").exists()


def test_an_export_shows_calls_of_every_shape() -> None:
    wanted = (
        ToolCall("1", "write_file", '{"path": "a"}'),
        ToolCall("2", "shell_exec", "{broken"),
    )
    messages = [
        Message(Role.SYSTEM, "secret"),
        Message(Role.USER, "a\ud800"),
        Message(Role.ASSISTANT, "", reasoning="hidden", tool_calls=wanted),
        Message(Role.TOOL, "ok\n", tool_call_id="1"),
        Message(Role.TOOL, "bad", tool_call_id="3"),
    ]
    assert as_markdown(messages) == (
        "## User\n\na\ufffd\n\n## Assistant\n\n"
        'Call of `write_file`:\n\n```json\n{\n  "path": "a"\n}\n```\n\n'
        "Call of `shell_exec`:\n\n```\n{broken\n```\n\n"
        "Result of `write_file`:\n\n```\nok\n```\n\n"
        "Result of `a tool`:\n\n```\nbad\n```\n"
    )


def test_copy_needs_a_terminal(project: Path) -> None:
    with LLMServer([text("A.")]) as server:
        assert "there is no terminal" in fails(project, server, "a", "/copy")


# -- models -----------------------------------------------------------------------------------


def test_models_marks_the_current_one(project: Path) -> None:
    listing = {"data": [{"id": "a\nb"}, {"id": "scripted"}, {"no": "id"}]}
    with LLMServer([], models=listing) as server:
        assert out(typed(project, server, "/models")) == ["  a b", "* scripted"]


@pytest.mark.parametrize(
    ("models", "said"),
    [
        (None, "/v1/models answers 404 Not Found"),
        (raw(b"{}", content_type="application/json"), "names no models"),
        (raw(b"x" * (9 << 20), content_type="application/json"), "answers more than 8 MiB"),
        (raw(b"x", reset_after=1), "/v1/models: "),
    ],
    ids=["404", "empty", "endless", "reset"],
)
def test_a_list_of_models_that_does_not_come_is_told(models: Any, said: str, project: Path) -> None:
    with LLMServer([], models=models) as server:
        assert said in fails(project, server, "/models")


def test_a_list_of_models_is_not_waited_for_for_ever() -> None:
    with LLMServer([], models=raw(b"{}", hold=True)) as server:
        transport = HTTPTransport(f"{server.url}/models", {}, {})
        with closing(transport), pytest.raises(ModelError, match=r"no answer within 0\.05 s"):
            model_ids(transport, Cancel(), patience_s=0.05)


def test_an_endpoint_without_a_list_of_models_says_so(project: Path) -> None:
    stdin = b"/models\n"
    options = ("-o", "endpoint=run://cat")
    ended = run(*options, cwd=project, env=environment(project.parent), stdin=stdin)
    assert ended.returncode == 1
    assert b"run://cat has no list of models" in ended.stderr


# -- configuration ----------------------------------------------------------------------------


def test_cfg_shows_every_key_with_value_and_source(project: Path) -> None:
    (project / "model.cfg").write_text(f"# mine\ntop_p=0.9\napi_key={KEY}\n")
    with LLMServer([]) as server:
        options = ("-o", "timeout=7")
        lines = out(typed(project, server, "/cfg", "/cfg top_p", "/cfg api_key", options=options))
    rows = dict(line.split("\t", 1) for line in lines[:-2])
    assert rows["temperature"] == "0.7\tdefault"
    assert rows["timeout"] == "7\t-o"
    assert rows["top_p"] == "0.9\tmodel.cfg:2"
    assert rows["api_key"] == "...last\tmodel.cfg:3"
    assert lines[-2:] == ["top_p=0.9 (model.cfg:2)", "api_key=...last (model.cfg:3)"]


def test_cfg_shows_no_key_whole(project: Path) -> None:
    with LLMServer([]) as server:
        for key, shown in ((KEY, "...last"), ("short", "...")):
            lines = out(typed(project, server, "/cfg api_key", OPENAI_API_KEY=key))
            assert lines == [f"api_key={shown} (OPENAI_API_KEY)"]
        assert out(typed(project, server, "/cfg api_key")) == ["api_key= (default)"]
        address = f"endpoint={server.url}?key=hidden"
        lines = out(typed(project, server, "/cfg endpoint", options=("-o", address)))
    assert lines == [f"endpoint={server.url}?... (-o)"]


def test_cfg_sets_a_key_live_and_in_the_file_and_keeps_the_rest(project: Path) -> None:
    before = "# mine\ntemperature = 0.1  # cool\nstop=[1]\n"
    (project / "model.cfg").write_text(before)
    with LLMServer([text("A."), text("B."), text("C.")]) as server:
        typed(project, server, "a", "/cfg temperature 0.5", "/cfg top_p=0.9", "/cfg stop ''", "b")
        first, second = (asked.json for asked in server.chat)
        assert (first["temperature"], second["temperature"], second["top_p"]) == (0.1, 0.5, 0.9)
        assert "stop" not in second
        assert second["messages"][: len(first["messages"])] == first["messages"]
        typed(project, server, "c")
        assert server.chat[-1].json["temperature"] == 0.5
    file = project / ".bantam.cfg"
    assert file.read_text() == "# mine\ntemperature = 0.5  # cool\nstop=\ntop_p=0.9\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert (project / "model.cfg").read_text() == before


def test_a_key_that_is_learnt_is_replaced_beside_those_known_before() -> None:
    redaction = Redaction(["sk-12345678"])
    redaction.learn(["sk-87654321", None])
    assert redaction.text("sk-12345678 sk-87654321") == "[key] [key]"


def test_cfg_is_live_where_nothing_is_stored(project: Path) -> None:
    with LLMServer([text("A.")]) as server:
        out(typed(project, server, "/cfg temperature 0.5", "a", options=("--no-session",)))
        assert server.chat[0].json["temperature"] == 0.5


def test_cfg_is_stronger_than_an_option_of_the_command_line(project: Path) -> None:
    with LLMServer([text("A.")]) as server:
        lines = out(typed(project, server, "/cfg model other", "a"))
        assert server.chat[0].json["model"] == "other"
    assert lines[0] == "model=other (/cfg)"
    assert sessions(project)[project_id(project)]["model"] == "other"


def test_without_a_value_an_option_of_the_command_line_holds_again(project: Path) -> None:
    with LLMServer([text("A.")]) as server:
        lines = out(typed(project, server, "/cfg model other", "/cfg model ''", "a"))
        assert server.chat[0].json["model"] == "scripted"
    assert lines[:2] == ["model=other (/cfg)", "model=scripted (-o)"]


def test_a_link_to_a_file_of_this_folder_stays_one(project: Path) -> None:
    (project / "real.cfg").write_text("# mine\n")
    (project / ".bantam.cfg").symlink_to("real.cfg")
    with LLMServer([]) as server:
        out(typed(project, server, "/cfg temperature 0.5"))
    assert (project / ".bantam.cfg").is_symlink()
    assert (project / "real.cfg").read_text() == "# mine\ntemperature=0.5\n"


def test_a_link_out_of_the_folder_is_not_written_through(project: Path) -> None:
    target = project.parent / "elsewhere"
    target.write_text("# yours\n")
    (project / ".bantam.cfg").symlink_to(target)
    with LLMServer([]) as server:
        assert "outside of this folder" in fails(project, server, "/cfg temperature 0.5")
    assert target.read_text() == "# yours\n"


def test_a_session_goes_on_with_another_model(project: Path) -> None:
    with LLMServer([text("A."), text("B.")]) as server:
        out(typed(project, server, "a", "/cfg model other", "b"))
        first, second = (asked.json for asked in server.chat)
        assert (first["model"], second["model"]) == ("scripted", "other")
        assert prompts(second["messages"]) == ["a", "b"]
    assert sessions(project)[project_id(project)]["model"] == "other"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("/cfg temperature warm", "/cfg temperature=warm is not a number"),
        ("/cfg sandbox maybe", "/cfg sandbox=maybe is not one of"),
        ("/cfg modle x", "/cfg modle is not a key; write model="),
        ("/cfg messages []", "is written by Bantam itself"),
        ("/cfg modle", "modle is not set; did you mean model?"),
        ("/cfg top_q", "top_q is not set; /cfg top_q VALUE sets it"),
        ("/cfg endpoint ftp://x", "/cfg endpoint="),
        ("/cfg api_key ké", "/cfg api_key is not one line of visible ASCII"),
        ("/cfg some a\rb", "no line of a file can hold this value"),
        ("/cfg #x y", "#x is not set: as a line of .bantam.cfg that would say something else"),
        ("/cfg #x=", "#x is not set"),
        ("/cfg a:b y", "'a...' is not a key of letters"),
    ],
)
def test_a_wrong_value_is_told_and_changes_nothing(line: str, said: str, project: Path) -> None:
    with LLMServer([text("A.")]) as server:
        assert said in fails(project, server, "/cfg temperature 0.5", "a", line)
        assert server.chat[0].json["temperature"] == 0.5
    assert (project / ".bantam.cfg").read_text() == "temperature=0.5\n"


def test_a_file_that_cannot_be_written_is_told_and_the_value_holds(project: Path) -> None:
    (project / "..bantam.cfg.tmp").mkdir()
    with LLMServer([text("A.")]) as server:
        ended = typed(project, server, "/cfg temperature 0.5", "a")
        assert server.chat[0].json["temperature"] == 0.5
    assert b"temperature is set for this run; .bantam.cfg: Is a directory" in ended.stderr
    assert ended.returncode == 2


def test_a_key_that_was_set_stands_in_no_session(project: Path) -> None:
    with LLMServer([shell("echo $KEY"), text(f"It is {KEY}.")]) as server:
        ended = typed(project, server, f"/cfg api_key {KEY}", f"What is {KEY}?", KEY=KEY)
        assert server.chat[0].headers["authorization"] == f"Bearer {KEY}"
    assert f"api_key=...{KEY[-4:]}" in out(ended)[0]
    assert KEY not in str(sessions(project))
    assert KEY.encode() not in ended.stdout.split(b"\n", 1)[0]


def test_context_window_says_which_source_is_in_use(project: Path) -> None:
    with LLMServer([text("A.")], models=MODELS) as server:
        lines = out(typed(project, server, "/cfg context_window", "a", "/cfg context_window"))
    assert lines[0] == "context_window=200000 (default); in use: 200000 (from context_window)"
    assert lines[2] == "context_window=200000 (default); in use: 32768 (from /models)"


@pytest.mark.parametrize(
    ("ignored", "warnings"), [("", 1), (".bantam.cfg\n", 0), ("*.cfg\n", 0), (None, 0)]
)
def test_git_that_would_take_the_file_is_warned_of_once(
    ignored: str | None, warnings: int, project: Path
) -> None:
    if ignored is not None:
        subprocess.run(["git", "init", "-q"], cwd=project, check=True)
        (project / ".gitignore").write_text(ignored)
    with LLMServer([]) as server:
        ended = typed(project, server, "/cfg top_p 0.5", "/cfg top_p 0.6")
    assert ended.stderr.count(b"git does not ignore .bantam.cfg") == warnings


def test_without_git_nothing_is_warned_of(project: Path) -> None:
    (project / "bin").mkdir()
    (project / "bin" / "bash").symlink_to("/bin/bash")
    with LLMServer([]) as server:
        ended = typed(project, server, "/cfg top_p 0.5", PATH=str(project / "bin"))
    assert out(ended) == ["top_p=0.5 (/cfg)"]


# -- a long session ---------------------------------------------------------------------------

_SUMMARY: Final = "Summary of all of it."


def _model(asked: dict[str, Any], ordinal: int) -> Reply:
    """Answer as a model that now and then runs something, and fails at times."""
    last = asked["messages"][-1]
    if asked.get("tool_choice") == "none":
        return text(_SUMMARY)
    if last["role"] == "tool":
        return text(f"Answer {ordinal}.")
    if ordinal % 5 == 1:
        return calls(
            ("write_file", {"path": f"f{ordinal}.txt", "content": "x"}),
            ("shell_exec", {"command": f"echo {ordinal}"}),
            start=ordinal,
        )
    return error(400, "no such thing") if ordinal % 13 == 4 else text(f"Answer {ordinal}.")


def _fifty_inputs() -> Iterator[str]:
    between = {
        6: "/retry",
        9: "/undo",
        12: "/save keep",
        17: "/compact",
        20: "/cfg model other",
        24: "/clear",
        28: "/load keep",
        31: "/undo",
        32: "/retry",
        36: "/compact",
        37: "/retry",
        40: "/continue",
        41: "!true",
        44: "/cfg temperature 0.1",
        46: "/save",
        48: "/clear",
    }
    for number in range(50):
        yield f"prompt {number}"
        if number in between:
            yield between[number]


def test_a_long_session_sends_only_what_is_valid_and_stores_only_what_loads(project: Path) -> None:
    with LLMServer(_model, models=MODELS) as server:
        ended = typed(project, server, *_fifty_inputs())
        assert all(not validate(asked.json["messages"]) for asked in server.chat)
        assert len(server.chat) > 50
        assert b"Traceback" not in ended.stderr
        names = sorted(sessions(project))
        assert {"keep", "keep-before-compact", project_id(project)} <= {*names}
        loads = typed(project, server, *(f"/load {name}" for name in names))
        assert loads.returncode == 0, loads.stderr
        assert loads.stdout.count(b"loaded ") == len(names)
    folder = project.parent / ".bantam" / "sessions"
    assert not list(folder.glob("*.damaged*"))
