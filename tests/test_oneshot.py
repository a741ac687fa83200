"""One-shot runs: what standard output and standard error hold, and the events of --json."""

import io
import json
from pathlib import Path
from typing import Any, Final

import pytest
from llmserver import USAGE, LLMServer, calls, delta, error, raw, shell, text, write
from program import at, done, environment, events, run

from bantam.core.cancel import Cancel
from bantam.core.errors import ConfigError, Interrupted
from bantam.core.events import Notice
from bantam.sessions.store import project_id
from bantam.terminal.command import run_command
from bantam.terminal.oneshot import json_lines
from bantam.terminal.prompts import command_of, decoded, joined

_FIELDS: Final = {
    "turn_start": {"session", "model", "endpoint", "dialect"},
    "request": {"step", "messages", "bytes"},
    "retry": {"attempt", "of", "wait_s", "reason"},
    "notice": {"text"},
    "reasoning_delta": {"text"},
    "text_delta": {"text"},
    "message": {"message", "finish_reason"},
    "tool_call": {"id", "name", "arguments"},
    "tool_output": {"id", "text"},
    "tool_result": {"id", "name", "status", "text", "exit_code", "duration_s", "files"},
    "usage": {"prompt", "completion", "cached", "estimated", "context", "window"},
    "done": {"stop", "exit_code", "session", "text", "usage", "error"},
}
_SUMS: Final = {"prompt", "completion", "cached", "estimated", "context", "window"}


# -- standard output --------------------------------------------------------------------------


def test_after_twenty_rounds_of_tools_the_output_is_the_answer_alone(tmp_path: Path) -> None:
    answer = "# Done\r\n\tcaf\xe9 \u202e\x1b[31m**20**\n\n  files"
    rounds = [
        shell(f"echo {n} > {n}.txt; echo err >&2; cat {n}.txt", start=n)
        if n % 2
        else write(f"{n}.txt", f"{n}\n", start=n)
        for n in range(20)
    ]
    with LLMServer([*rounds, text(answer)]) as server, (tmp_path / "out").open("wb") as out:
        (tmp_path / "p.txt").write_text("Make twenty files.")
        ended = run(*at(server.url), "p.txt", cwd=tmp_path, stdout=out)
        assert len(server.chat) == 21
    assert ended.returncode == 0
    assert (tmp_path / "out").read_bytes() == answer.encode()
    assert [(tmp_path / f"{n}.txt").read_text() for n in range(20)] == [f"{n}\n" for n in range(20)]
    assert ended.stderr.count(b"[tool call: ") == 20


def test_a_failed_turn_leaves_the_output_empty(tmp_path: Path) -> None:
    talk = calls(("shell_exec", {"command": "true"}), content="First I look.")
    with LLMServer([talk, error(400, "no more")]) as server:
        ended = run(*at(server.url), "-p", "Go.", cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (1, b"")
    assert b"First I look." in ended.stderr
    assert ended.stderr.endswith(b"error: 400 Bad Request: no more\n")


def test_a_retry_never_doubles_the_answer(tmp_path: Path) -> None:
    answer = "Some words that come twice, and only once count."
    with LLMServer([text(answer, cut_after=900), text(answer)]) as server:
        ended = run(*at(server.url), "-p", "Go.", cwd=tmp_path)
        assert len(server.chat) == 2
    assert (ended.returncode, ended.stdout) == (0, answer.encode())
    assert b"[retry 1/9 in 1 s: " in ended.stderr


def test_everything_but_the_answer_goes_to_standard_error(tmp_path: Path) -> None:
    thought = calls(("shell_exec", {"command": "echo hi"}), reasoning="Hm.", content="I look.")
    with LLMServer([thought, text("Bye.", usage=USAGE)]) as server:
        ended = run(*at(server.url), "-p", "Go.", cwd=tmp_path)
    assert ended.stdout == b"Bye."
    assert ended.stderr.decode() == (
        "...requesting...\n"
        "--- reasoning start ---\nHm.\n--- reasoning end ---\n"
        "I look.\n"
        '[tool call: shell_exec(command="echo hi")]\n'
        "[tool result: shell_exec]\nhi\n\n\nexit: 0\n"
        "...requesting...\n"
        "[tokens: 24 prompt + 10 completion | context: 12/200000 (0.0%)]\n"
    )


@pytest.mark.parametrize("color", ["auto", "never", "always"])
def test_a_pipe_is_colored_only_on_demand_and_the_answer_never(color: str, tmp_path: Path) -> None:
    with LLMServer([shell("true"), text("Bye.")]) as server:
        ended = run(*at(server.url), "-o", f"color={color}", "-p", "Go.", cwd=tmp_path)
    assert ended.stdout == b"Bye."
    assert (b"\x1b" in ended.stderr) == (color == "always")


# -- events -----------------------------------------------------------------------------------


def test_every_event_is_an_object_on_a_line_with_the_fields_of_the_specification(
    tmp_path: Path,
) -> None:
    replies = [
        error(503, "Loading model"),
        calls(("shell_exec", {"command": "echo hi"}), reasoning="Hm.", content="I look."),
        write("a.txt", "a\nb\n", start=2),
        text("Done: caf\xe9 \u2028 \u202e\x1b[2J"),
    ]
    with LLMServer(replies) as server:
        ended = run("--json", *at(server.url), "-p", "Go.", cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, b"")
    told = events(ended.stdout)
    for event in told:
        assert next(iter(event)) == "type"
        assert set(event) == {"type"} | _FIELDS[event["type"]]
    assert {event["type"] for event in told} == set(_FIELDS)
    assert [e["type"] for e in told if e["type"] in ("turn_start", "done")] == [
        "turn_start",
        "done",
    ]
    last = done(ended.stdout)
    assert last["text"] == "Done: caf\xe9 \u2028 \u202e\x1b[2J"
    assert set(last["usage"]) == _SUMS
    assert (last["usage"]["prompt"], last["usage"]["completion"]) == (36, 15)
    steps = [e["step"] for e in told if e["type"] == "request"]
    assert steps == [1, 1, 2, 3]


def test_the_events_of_a_call_hold_what_ran_and_what_came_of_it(tmp_path: Path) -> None:
    replies = [
        shell("echo hi; exit 3"),
        write("a.txt", "a\nb\n", start=2),
        calls(("shell_exec", '{"command": "l'), start=3),
        calls(("fly", {}), start=4),
        text("Done."),
    ]
    with LLMServer(replies) as server:
        told = events(run("--json", *at(server.url), "-p", "Go.", cwd=tmp_path).stdout)
    began = [e for e in told if e["type"] == "tool_call"]
    ended = [e for e in told if e["type"] == "tool_result"]
    assert [e["id"] for e in began] == [e["id"] for e in ended]
    assert began[0]["arguments"] == {"command": "echo hi; exit 3"}
    assert began[2]["arguments"] == '{"command": "l'
    assert [e["status"] for e in ended] == ["ok", "ok", "error", "unknown"]
    assert [e["exit_code"] for e in ended] == [3, None, None, None]
    assert ended[0]["text"] == "hi\n\n\nexit: 3"
    diff = "@@ -0,0 +1,2 @@\n+a\n+b\n"
    assert ended[1]["files"] == [{"path": "a.txt", "added": 2, "removed": 0, "diff": diff}]
    messages = [e["message"] for e in told if e["type"] == "message"]
    assert messages[0]["tool_calls"][0]["function"]["name"] == "shell_exec"
    assert messages[-1] == {"role": "assistant", "content": "Done."}


def test_a_lone_surrogate_breaks_no_line(tmp_path: Path) -> None:
    half = raw(delta(content="a@b").replace(b"@", b"\\ud83d") + delta("stop"))
    with LLMServer([half] * 2) as server:
        ended = run("--json", *at(server.url), "-p", "Go.", cwd=tmp_path)
        assert done(ended.stdout)["text"] == "a\ufffdb"
        plain = run(*at(server.url), "-p", "Go.", cwd=tmp_path)
        assert plain.stdout.decode() == "a\ufffdb"


def test_the_first_event_names_model_endpoint_and_dialect(tmp_path: Path) -> None:
    with LLMServer([text("Done.")]) as server:
        env = environment(tmp_path, OPENAI_API_KEY="sk-secret")
        ended = run("--json", *at(server.url), "-p", "Go.", cwd=tmp_path, env=env)
        assert server.chat[0].headers["authorization"] == "Bearer sk-secret"
        first = events(ended.stdout)[0]
        assert first == {
            "type": "turn_start",
            "session": project_id(tmp_path),
            "model": "scripted",
            "endpoint": server.url,
            "dialect": "native",
        }
    assert b"sk-secret" not in ended.stdout + ended.stderr


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("out", [_Terminal(), io.StringIO()], ids=["terminal", "pipe"])
def test_on_a_terminal_the_events_are_ascii(out: io.StringIO) -> None:
    json_lines(out)(Notice("caf\xe9 \u202e\x9b\ud800"))
    line = out.getvalue()
    assert line.isascii() == out.isatty()
    expected: dict[str, Any] = {"type": "notice", "text": "caf\xe9 \u202e\x9b\ufffd"}
    assert json.loads(line) == expected


def test_a_command_does_not_run_when_a_signal_came_before_it(tmp_path: Path) -> None:
    cancel = Cancel()
    cancel.set()
    with pytest.raises(Interrupted):
        run_command(f"touch '{tmp_path}/ran'".encode(), cancel, lambda _: None)
    assert not (tmp_path / "ran").exists()


# -- prompts ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw_prompt", "command"),
    [
        (b"!ls", b"ls"),
        (b"\xef\xbb\xbf!ls\r\nid\r\n", b"ls\nid\n"),
        (b"!", b""),
        (b"!!", b"!"),
        (b"", None),
        (b" !ls", None),
        (b"\n!ls", None),
        (b"\xff!ls", None),
    ],
)
def test_a_command_is_what_stands_behind_a_mark_at_the_very_start(
    raw_prompt: bytes, command: bytes | None
) -> None:
    assert command_of(raw_prompt) == command


def test_a_prompt_is_read_as_utf_8_without_its_mark() -> None:
    assert decoded(b"\xef\xbb\xbf\xef\xbb\xbfa\r\n") == ("\ufeffa\r\n", True)
    assert decoded(b"\xef\xbb\xbfa\xff") == ("a\ufffd", False)


def test_parts_of_a_prompt_that_say_nothing_are_left_out() -> None:
    assert joined(["a", "b\n"]) == "a\n\nb\n"
    assert joined(["", "b"]) == "b"
    assert joined(["a", " \n"]) == "a"
    with pytest.raises(ConfigError, match="the prompt is empty"):
        joined(["", "\n"])
