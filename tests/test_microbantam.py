"""microbantam and the big one: what the loop of both must do, by the same tests."""

import ast
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest
from llmserver import LLMServer, Reply, calls, error, shell, text, write
from processes import eventually, running, unique_seconds
from program import BANTAM, environment, run, start
from typist import Typist, typist

from bantam.sessions.store import project_id

SOURCE: Final = Path(__file__).parent.parent / "extras" / "microbantam"
# Isolated (-I): nothing that is installed for the big one may be needed.
PROGRAMS: Final = {"bantam": BANTAM, "microbantam": (sys.executable, "-I", "-S", str(SOURCE))}


@dataclass(frozen=True)
class Place:
    """A project's folder, and the program that is run in it."""

    program: tuple[str, ...]
    folder: Path
    home: Path

    def env(self, **more: str) -> dict[str, str]:
        return environment(self.home, **more)

    def configure(self, url: str, *lines: str) -> None:
        config = "\n".join([f"endpoint={url}", "model=scripted", *lines, ""])
        (self.folder / ".bantam.cfg").write_text(config)

    def file(self, prompt: str = "Go.", **env: str) -> subprocess.CompletedProcess[bytes]:
        """Run it with a file that holds `prompt`."""
        (self.folder / "p.txt").write_text(prompt)
        return run("p.txt", cwd=self.folder, program=self.program, env=self.env(**env))

    def lines(self, *lines: str, **env: str) -> subprocess.CompletedProcess[bytes]:
        """Run it with `lines` on its standard input."""
        typed = "".join(f"{line}\n" for line in lines).encode()
        return run(cwd=self.folder, program=self.program, env=self.env(**env), stdin=typed)


@pytest.fixture(params=PROGRAMS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    folder, home = tmp_path / "project", tmp_path / "home"
    folder.mkdir()
    home.mkdir()
    return Place(PROGRAMS[request.param], folder, home)


def results(server: LLMServer) -> list[str]:
    """Return the tool results in the last request."""
    return [m["content"] for m in server.chat[-1].json["messages"] if m["role"] == "tool"]


def prompts(server: LLMServer) -> list[str]:
    """Return what the user has said in the last request."""
    return [m["content"] for m in server.chat[-1].json["messages"] if m["role"] == "user"]


def one_round(place: Place, *replies: Reply, lines: tuple[str, ...] = ()) -> list[str]:
    """Return the results of the calls that `replies` make."""
    with LLMServer([*replies, text("Done.")]) as server:
        place.configure(server.url, *lines)
        ended = place.file()
        assert (ended.returncode, ended.stdout) == (0, b"Done.")
        return results(server)


# -- the loop ---------------------------------------------------------------------------------


def test_twenty_rounds_run_real_commands_and_write_real_files(place: Place) -> None:
    rounds = [
        shell(f"cat {n - 1}.txt; echo {n} > {n}.txt", start=n)
        if n % 2
        else write(f"{n}.txt", f"{n}\n", start=n)
        for n in range(20)
    ]
    with LLMServer([*rounds, text("Twenty files.")]) as server:
        place.configure(server.url)
        ended = place.file("Make twenty files.")
        assert results(server)[1::2] == [f"{n}\n\n\nexit: 0" for n in range(0, 20, 2)]
        bodies = [request.json["messages"] for request in server.chat]
        assert all(b[: len(a)] == a for a, b in pairwise(bodies))
    assert (ended.returncode, ended.stdout) == (0, b"Twenty files.")
    files = [(place.folder / f"{n}.txt").read_text() for n in range(20)]
    assert files == [f"{n}\n" for n in range(20)]
    assert ended.stderr.count(b"[tool call: ") == 20


def test_several_calls_of_an_answer_run_in_order(place: Place) -> None:
    wanted = calls(
        ("shell_exec", {"command": "echo one >> log; cat log"}),
        ("write_file", {"path": "sub/b.txt", "content": "b"}),
        ("shell_exec", {"command": "echo two >> log; cat log sub/b.txt; exit 3"}),
    )
    first, second, third = one_round(place, wanted)
    assert first == "one\n\n\nexit: 0"
    assert "bytes written: 1; offset: 0; bytes deleted: 0; size now: 1" in second
    assert third == "one\ntwo\nb\n\nexit: 3"


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("fly", "{}", "write_file"),
        ("shell_exec", '{"command": "touch ran', "command"),
        ("shell_exec", '["touch ran"]', "command"),
        ("shell_exec", '{"command": ["touch ran"]}', "command"),
        ("shell_exec", '{"command": "touch ran", "cwd": "/"}', "command"),
        ("shell_exec", "", "command"),
        ("write_file", '{"path": "ran"}', "content"),
        ("write_file", '{"path": "ran", "content": "", "offset": true}', "offset"),
        ("write_file", '{"path": "ran", "content": "", "del_bytes": 1.0}', "del_bytes"),
        ("write_file", '{"path": "ran", "content": "x", "offset": 1}', "offset"),
        ("write_file", '{"path": ".", "content": "x"}', "."),
    ],
)
def test_a_call_that_does_not_fit_runs_nothing_and_is_told_what_does(
    name: str, arguments: str, told: str, place: Place
) -> None:
    (result,) = one_round(place, calls((name, arguments)))
    assert told in result
    assert "exit:" not in result
    assert sorted(path.name for path in place.folder.iterdir()) == [".bantam.cfg", "p.txt"]


def test_what_was_cut_is_quoted_in_the_result(place: Place) -> None:
    (result,) = one_round(place, calls(("shell_exec", '{"command": "echo half of')))
    assert "echo half of" in result


def test_a_command_that_takes_too_long_is_killed_with_its_children(place: Place) -> None:
    marker = unique_seconds()
    command = f"echo begun; trap '' TERM; sleep {marker} | sleep {marker}"
    (result,) = one_round(place, shell(command), lines=("shell_timeout=1",))
    assert result == "begun\n[timed out after 1 s; killed]\n\nexit: 124"
    assert running(marker) == []


def test_a_child_in_the_background_is_not_waited_for(place: Place) -> None:
    marker = unique_seconds()
    command = f"sleep {marker} & echo $!"
    try:
        (result,) = one_round(place, shell(command))
        assert re.fullmatch(r"\d+\n\n\nexit: 0", result)
        assert running(marker)
    finally:
        for pid in running(marker):
            os.kill(pid, signal.SIGKILL)


def test_a_command_has_no_input_and_a_signal_has_its_status(place: Place) -> None:
    wanted = calls(
        ("shell_exec", {"command": "cat; echo $AI_AGENT $PAGER; printf '\\377' >&2"}),
        ("shell_exec", {"command": "kill -9 $$"}),
    )
    assert one_round(place, wanted) == ["bantam cat\n\ufffd\n\nexit: 0", "\n\nexit: 137"]


def test_of_a_long_output_the_middle_goes(place: Place) -> None:
    (result,) = one_round(place, shell("seq 5000"), lines=("tool_output_limit=100",))
    whole = "".join(f"{n}\n" for n in range(1, 5001))
    assert result.startswith(whole[:60])
    assert f"[{len(whole) - 100} characters left out" in result
    assert result.endswith(f"]\n{whole[-40:]}\n\nexit: 0")


# -- files ------------------------------------------------------------------------------------


def test_bytes_are_replaced_where_the_call_says_and_the_rest_stays(place: Place) -> None:
    target = place.folder / "real.sh"
    target.write_bytes(b"h\xc3\xa9llo\r\n")
    target.chmod(0o751)
    (place.folder / "link").symlink_to("real.sh")
    wanted = write("link", "LL", offset=3, del_bytes=2)
    end = write("link", "!", offset=8, del_bytes=99, start=2)
    one_round(place, wanted, end)
    assert target.read_bytes() == b"h\xc3\xa9LLo\r\n!"
    assert target.stat().st_mode & 0o777 == 0o751
    assert (place.folder / "link").is_symlink()


def test_an_insertion_at_the_start_says_how_to_replace_all(place: Place) -> None:
    (place.folder / "a.txt").write_text("old")
    (result,) = one_round(place, write("a.txt", "new "))
    assert (place.folder / "a.txt").read_text() == "new old"
    assert "size now: 7" in result
    assert place.program != BANTAM or "del_bytes=7" in result


# -- hidden characters ------------------------------------------------------------------------


def test_what_hides_is_taken_out_of_arguments_and_said(place: Place) -> None:
    wanted = calls(
        ("shell_exec", {"command": "echo a\u202eb\u200b\U000e0041"}),
        ("write_file", {"path": "x\u2066.txt", "content": "a\u202eb \u0645\u200c\u0645\r\n"}),
    )
    first, second = one_round(place, wanted)
    assert first == "removed 3 characters: U+200B x1 U+202E x1 U+E0041 x1\nab\n\n\nexit: 0"
    assert "U+2066 x1" in second
    assert "U+202E x1" in second
    assert (place.folder / "x.txt").read_bytes() == "ab \u0645\u200c\u0645\r\n".encode()


def test_what_hides_is_taken_out_of_results(place: Place) -> None:
    command = r"printf '\033[31mred\033[0m\r\n\342\200\256x \360\237\253\251\n'"
    (result,) = one_round(place, shell(command))
    told, rest = result.split("\n", 1)
    assert told.startswith("removed ")
    assert "U+202E x1" in told
    assert rest == "red\nx \U0001fae9\n\n\nexit: 0"


# -- the endpoint and its key -----------------------------------------------------------------


def test_what_fails_at_the_server_is_tried_again_or_told(place: Place) -> None:
    with LLMServer([error(500, "out of luck"), text("Done.")]) as server:
        place.configure(server.url)
        # The big one tries by itself, for the small one somebody goes on.
        goes_on = [] if place.program == BANTAM else ["Go on."]
        ended = place.lines("Go.", *goes_on)
        assert prompts(server) == ["\n\n".join(["Go.", *goes_on])]
    assert b"500" in ended.stderr + ended.stdout
    assert b"Internal Server Error" in ended.stderr + ended.stdout
    assert b"Done." in ended.stdout


def test_a_request_that_is_refused_fails_the_run(place: Place) -> None:
    with LLMServer([error(400, "no such model")]) as server:
        place.configure(server.url)
        ended = place.file()
    assert (ended.returncode, ended.stdout) == (1, b"")
    assert b"400" in ended.stderr
    assert b"no such model" in ended.stderr
    assert b"Traceback" not in ended.stderr


def test_the_key_of_the_environment_goes_to_the_loopback_and_into_no_result(place: Place) -> None:
    with LLMServer([shell("echo x$OPENAI_API_KEY"), text("Done.")]) as server:
        place.configure(server.url)
        ended = place.file(OPENAI_API_KEY="sk-secret")
        assert [r.headers["authorization"] for r in server.chat] == ["Bearer sk-secret"] * 2
        assert results(server) == ["x[key]\n\n\nexit: 0"]
    kept = [path.read_bytes() for path in place.home.rglob("*") if path.is_file()]
    assert kept
    assert not any(b"sk-secret" in each for each in [ended.stdout, ended.stderr, *kept])


def test_the_key_of_the_file_wins_and_the_other_is_hidden_as_well(place: Place) -> None:
    with LLMServer([shell("echo x$OPENAI_API_KEY"), text("Done.")]) as server:
        place.configure(server.url, "export api_key = 'sk-file' # mine")
        place.file(OPENAI_API_KEY="sk-secret")
        assert server.chat[0].headers["authorization"] == "Bearer sk-file"
        assert results(server) == ["x[key]\n\n\nexit: 0"]


@pytest.mark.parametrize("host", ["0.0.0.0", "[::ffff:127.0.0.1]", "127.0.0.1@0.0.0.0"])
def test_an_endpoint_that_only_the_folder_trusts_gets_nothing(host: str, place: Place) -> None:
    with LLMServer([text("Done.")]) as server:
        place.configure(server.url.replace("127.0.0.1", host))
        ended = place.file()
        assert server.requests == []
    assert (ended.returncode, ended.stdout) == (2, b"")


def test_an_endpoint_that_is_not_trusted_is_used_once_the_environment_says_so(
    place: Place,
) -> None:
    with LLMServer([text("Done.")]) as server:
        url = server.url.replace("127.0.0.1", "0.0.0.0")
        place.configure(url)
        refused = place.file()
        assert refused.returncode == 2
        word = re.search(rb"BANTAM_TRUST=(http\S+)", refused.stderr)
        assert word is not None
        trusted = place.file(BANTAM_TRUST=word[1].decode(), OPENAI_API_KEY="sk-secret")
        assert (trusted.returncode, trusted.stdout) == (0, b"Done.")
        assert "authorization" not in server.chat[0].headers


def test_a_redirect_takes_no_key_elsewhere(place: Place) -> None:
    with LLMServer([], strict=False) as other:
        away = {"location": other.url.replace("127.0.0.1", "localhost") + "/chat/completions"}
        with LLMServer([error(302, "over there", headers=away)]) as server:
            place.configure(server.url)
            assert place.file(OPENAI_API_KEY="sk-secret").returncode == 1
        assert not any("sk-secret" in str(request.headers) for request in other.requests)


# -- sessions ---------------------------------------------------------------------------------


def answers(asked: dict[str, Any], _: int) -> Reply:
    """Answer by the number of messages: /save of the big one asks for a summary as well."""
    return text(f"Answer {len(asked['messages'])}.")


def test_a_saved_conversation_goes_on_after_loading(place: Place) -> None:
    with LLMServer(answers) as server:
        place.configure(server.url)
        place.lines("First.", "/save one", "/clear", "Second.", "/quit", "never")
        assert prompts(server) == ["Second."]
        listed = place.lines("/list")
        assert b"one" in listed.stdout
        assert project_id(place.folder).encode() in listed.stdout
        ended = place.lines("/load one", "Third.")
        assert prompts(server) == ["First.", "Third."]
    assert b"Answer 4." in ended.stdout
    files = [path for path in place.home.rglob("*.json") if path.stem in listed.stdout.decode()]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert {path.parent.stat().st_mode & 0o777 for path in files} == {0o700}


def test_each_turn_is_saved_by_itself(place: Place) -> None:
    with LLMServer(answers) as server:
        place.configure(server.url)
        place.file("First.")
        place.lines(f"/load {project_id(place.folder)}", "Second.")
        assert prompts(server) == ["First.", "Second."]


@pytest.mark.parametrize("name", ["../x", ".x", "a/b"])
def test_a_name_cannot_leave_the_folder_of_sessions(name: str, place: Place) -> None:
    with LLMServer(answers) as server:
        place.configure(server.url)
        place.lines("First.", f"/save {name}", f"/load {name}")
    found = {path for path in place.home.parent.rglob("*.json") if path.stem.strip(".") in "xb"}
    assert found == set()


def test_what_is_no_session_is_said_and_the_chat_goes_on(place: Place) -> None:
    with LLMServer(answers) as server:
        place.configure(server.url)
        ended = place.lines("/load none", "/fly", "First.")
        assert prompts(server) == ["First."]
    assert b"Answer 2." in ended.stdout
    assert b"Traceback" not in ended.stderr


def test_the_configuration_is_shown_without_the_key(place: Place) -> None:
    with LLMServer(answers) as server:
        place.configure(server.url, "api_key=sk-a-long-secret")
        ended = place.lines("/cfg", "First.", "/help")
    assert server.url.encode() in ended.stdout
    assert b"cret" in ended.stdout
    assert b"sk-a-long" not in ended.stdout + ended.stderr
    assert b"/load" in ended.stdout


# -- Ctrl+C -----------------------------------------------------------------------------------


def test_ctrl_c_leaves_no_child_and_a_session_that_loads(place: Place) -> None:
    marker = unique_seconds()
    wanted = calls(
        ("shell_exec", {"command": "echo first"}),
        ("shell_exec", {"command": f"sleep {marker}"}),
        ("write_file", {"path": "never", "content": "x"}),
    )
    (place.folder / "p.txt").write_text("Go.")
    with LLMServer([wanted, text("Done.")]) as server:
        place.configure(server.url)
        with start("p.txt", cwd=place.folder, program=place.program, env=place.env()) as process:
            assert eventually(lambda: running(f"sleep {marker}"))
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        assert (process.returncode, out) == (130, b"")
        assert b"Traceback" not in err
        assert running(marker) == []
        place.lines(f"/load {project_id(place.folder)}", "Go on.")
        assert results(server) == ["first\n\n\nexit: 0", *["interrupted by the user"] * 2]
    assert not (place.folder / "never").exists()


@pytest.fixture
def person(place: Place) -> Iterator[tuple[Typist, LLMServer]]:
    with LLMServer([text("Late.", hold=True), text("Done.")], strict=False) as server:
        place.configure(server.url)
        env = {"HOME": str(place.home)}
        with typist(place.folder, program=place.program, env=env) as somebody:
            yield somebody, server


def test_ctrl_c_at_the_terminal_comes_back_to_the_prompt(
    person: tuple[Typist, LLMServer],
) -> None:
    somebody, server = person
    somebody.ready()
    somebody.type("Go.\r")
    server.wait_for(1)
    somebody.type("\x03")
    somebody.shows("interrupted")
    somebody.ready()
    server.release()
    somebody.type("Go on.\r")
    somebody.shows("Done.")
    somebody.ready()
    somebody.type("/quit\r")
    assert somebody.end() == 0


# -- the small one alone ----------------------------------------------------------------------


def test_it_is_small_and_its_lines_can_be_read() -> None:
    source = SOURCE.read_text()
    lines = source.splitlines()
    docstring = ast.parse(source).body[0]
    told = range(docstring.lineno, (docstring.end_lineno or 0) + 1)
    code = [n for n, line in enumerate(lines, 1) if n not in told and re.match(r"\s*[^\s#]", line)]
    assert len(code) < 100
    assert max(map(len, lines)) <= 120


@pytest.mark.parametrize("line", ["sandbox=on", "approve=ask"])
def test_what_only_the_big_one_has_is_refused(line: str, tmp_path: Path) -> None:
    micro = Place(PROGRAMS["microbantam"], tmp_path, tmp_path)
    with LLMServer([text("Done.")]) as server:
        micro.configure(server.url, line)
        ended = micro.file()
        assert server.requests == []
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert line.partition("=")[0].encode() in ended.stderr


def test_hidden_characters_go_but_those_that_scripts_and_emoji_need(tmp_path: Path) -> None:
    cases = json.loads((Path(__file__).parent / "cases" / "text" / "unicode.json").read_text())
    micro = Place(PROGRAMS["microbantam"], tmp_path, tmp_path)
    must = [case for case in cases["legit_content"] if case["level"] == "must"]
    # A lone surrogate as JSON brings it: UTF-8 could not. Flags of tags need a rule of their own.
    contents = [
        case
        for case in must + cases["hostile_content"]
        if case["id"] not in ("lone", "scotland", "nonchar")
    ]
    wanted = calls(
        *(("write_file", {"path": f"{case['id']}.out", "content": case["in"]}) for case in contents)
    )
    one_round(micro, wanted)
    # They always stay: the big one looks at where they stand.
    stays = "[\ufeff\u200c\u200d\ufe00-\ufe0f\U000e0100-\U000e01ef]"
    for case in contents:
        kept = (tmp_path / f"{case['id']}.out").read_bytes().decode()
        assert re.sub(stays, "", kept) == re.sub(stays, "", case["content"]), case["id"]
        assert case in cases["hostile_content"] or kept == case["content"], case["id"]
