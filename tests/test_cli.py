"""The command line, by real processes: exit status, usage, configuration, prompts, streams."""

import importlib.metadata
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from llmserver import LLMServer, Reply, calls, error, shell, text
from program import BANTAM, at, done, environment, run, sh, start

import bantam
from bantam.core.cancel import Cancel

_OK = text("All is well.")
_LATER = {"retry-after": "3600"}

both_forms = pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])


def prompts(server: LLMServer) -> list[str]:
    """Return the user messages of the last request."""
    return [m["content"] for m in server.chat[-1].json["messages"] if m["role"] == "user"]


# -- exit status ------------------------------------------------------------------------------


@both_forms
@pytest.mark.parametrize(
    ("replies", "options", "ending"),
    [
        ([_OK], (), (0, "final", None)),
        ([error(400, "no such parameter")], (), (1, "error", "ModelError")),
        ([error(404, "no such page")], (), (1, "error", "ModelError")),
        ([error(429, "out of credit", code="insufficient_quota")], (), (1, "error", "ModelError")),
        ([text("")] * 3, (), (1, "error", "ModelError")),
        ([shell("true")], ("-o", "max_al_iterations=1"), (3, "step_limit", None)),
        ([shell("true")], ("-o", "budget_tokens=1"), (4, "budget", None)),
        ([error(429, "slow down", headers=_LATER)], (), (75, "error", "Unavailable")),
        ([error(503, "busy", headers=_LATER)], (), (75, "error", "Unavailable")),
        ([error(401, "who are you?")], (), (77, "error", "KeyRefused")),
        ([error(403, "not you")], (), (77, "error", "KeyRefused")),
    ],
    ids=["0", "400", "404", "quota", "empty", "steps", "budget", "429", "503", "401", "403"],
)
def test_the_exit_status_tells_how_the_turn_ended(
    form: Sequence[str],
    replies: list[Reply],
    options: Sequence[str],
    ending: tuple[int, str, str | None],
    tmp_path: Path,
) -> None:
    status, stop, kind = ending
    with LLMServer(replies) as server:
        ended = run(*form, *at(server.url), *options, "-p", "Go.", cwd=tmp_path)
    assert ended.returncode == status
    assert b"Traceback" not in ended.stderr
    if form:
        told = done(ended.stdout)
        assert (told["exit_code"], told["stop"]) == (status, stop)
        assert (told["error"] or {}).get("class") == kind
    else:
        assert ended.stdout == (b"All is well." if status == 0 else b"")
        assert (b"error: " in ended.stderr) == (kind is not None)


@both_forms
@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--fly", "p.txt"), "--fly"),
        (("-x", "p.txt"), "-x"),
        (("--js", "p.txt"), "--js"),
        (("p.txt", "q.txt"), "q.txt"),
        (("-o",), "-o"),
        (("-p",), "-p"),
        (("-o", "timeout", "p.txt"), "-o timeout"),
        (("-o", "timeout=soon", "p.txt"), "-o timeout=soon"),
        (("-o", "messages=[]", "p.txt"), "messages"),
        (("missing.txt",), "missing.txt"),
        (("",), "prompt file ''"),
        (("folder",), "folder"),
        (("empty.txt",), "empty"),
        (("-",), "empty"),
        (("-p", ""), "empty"),
        (("-p", " \n"), "empty"),
        (("p.txt", "-p", "Go."), "-p"),
        (("-p", "Go.", "-p", "Stop."), "-p was given twice"),
        (("--demo", "p.txt"), "--demo takes no prompt"),
        (("--demo", "-"), "--demo takes no prompt"),
        (("--demo", "-p", "Go."), "--demo takes no prompt"),
        (("--demo", "-o", "temperature=x"), "-o temperature=x"),
        (("wide.txt",), "wide.txt': it is UTF-16; save it as UTF-8"),
        (("big-endian.txt",), "it is UTF-16"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_wrong_usage_ends_with_2_and_is_named(
    form: Sequence[str], arguments: Sequence[str], named: str, tmp_path: Path
) -> None:
    (tmp_path / "p.txt").write_text("Go.")
    (tmp_path / "empty.txt").write_text("\ufeff\r\n \n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "wide.txt").write_bytes("\ufeff!touch ran".encode("utf-16-le"))
    (tmp_path / "big-endian.txt").write_bytes("\ufeffGo.".encode("utf-16-be"))
    with LLMServer([]) as server:
        (tmp_path / "model.cfg").write_text(f"endpoint={server.url}\n")
        env = environment(tmp_path, TMPDIR=str(tmp_path))
        ended = run(*form, *arguments, cwd=tmp_path, env=env)
        assert server.requests == []
    assert not list(tmp_path.glob("bantam-demo-*"))
    assert ended.returncode == 2
    line = ended.stderr.decode()
    assert line.startswith("bantam: ")
    assert line.count("\n") == 1
    assert named in line
    if form:
        told = done(ended.stdout)
        assert told["error"]["class"] == "ConfigError"
        assert (told["exit_code"], told["stop"], told["text"]) == (2, "error", "")
    else:
        assert ended.stdout == b""


# -- configuration ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("timeout=soon", ".bantam.cfg:2: timeout"),
        ("a line without the sign", ".bantam.cfg:2:"),
        ("endpoint=ftp://127.0.0.1", "endpoint"),
        ("sandbox=maybe", ".bantam.cfg:2: sandbox"),
    ],
)
def test_a_wrong_line_in_a_file_ends_with_2_and_is_named(
    line: str, named: str, tmp_path: Path
) -> None:
    (tmp_path / ".bantam.cfg").write_text(f"# mine\n{line}\n")
    ended = run("-p", "Go.", cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert named in ended.stderr.decode()


@pytest.mark.parametrize(
    ("make", "what"),
    [
        ("mkdir -p .bantam.cfg/x; true", "Is a directory"),
        ("mkfifo", "it is not a regular file"),
        ("ln -s /dev/zero", "it is not a regular file"),
        ("truncate -s 1T", "it is larger than 1048576 bytes"),
        ("ln -s /does/not/exist", "it is a link to nothing"),
        ("ln -s .bantam.cfg", "Too many levels of symbolic links"),
    ],
)
def test_a_configuration_that_cannot_be_read_ends_with_2_and_is_named(
    make: str, what: str, tmp_path: Path
) -> None:
    assert sh(f"{make} .bantam.cfg", tmp_path).returncode == 0
    ended = run("-p", "Go.", cwd=tmp_path)
    line = f"bantam: .bantam.cfg: {what}; make it a text file that you can read, or remove it\n"
    assert (ended.returncode, ended.stderr.decode()) == (2, line)


def test_an_empty_folder_with_the_name_of_a_configuration_is_none(tmp_path: Path) -> None:
    (tmp_path / ".bantam.cfg").mkdir()  # a sandbox holds the name so
    with LLMServer([text("A.")]) as server:
        assert run(*at(server.url), "-p", "Go.", cwd=tmp_path).returncode == 0


def test_a_wrong_configuration_is_told_before_a_prompt_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / ".bantam.cfg").write_text("timeout=soon\n")
    source, silent = os.pipe()
    with (
        os.fdopen(source, "rb") as stdin,
        os.fdopen(silent, "wb"),
        start("-", cwd=tmp_path, stdin=stdin) as process,
    ):
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, b"")
    assert b".bantam.cfg:1: timeout" in err


def test_bantam_cfg_wins_over_model_cfg_and_is_not_merged_with_it(tmp_path: Path) -> None:
    with LLMServer([_OK]) as server:
        (tmp_path / "model.cfg").write_text("temperature=1.5\ntop_p=0.5\nmodel=other\n")
        (tmp_path / ".bantam.cfg").write_text(f"endpoint={server.url}\nmodel=mine\n")
        assert run("-p", "Go.", cwd=tmp_path).returncode == 0
        asked = server.chat[0].json
    assert (asked["model"], asked["temperature"]) == ("mine", 0.7)
    assert "top_p" not in asked


def test_an_option_wins_over_the_file_and_the_last_of_two_wins(tmp_path: Path) -> None:
    with LLMServer([_OK]) as server:
        (tmp_path / "model.cfg").write_text(f"endpoint={server.url}\nmodel=file\ntop_p=0.1\n")
        given = ("-o", "model=first", "-omodel=a=b", "-o", "top_p=", "-o", "stop=-x")
        assert run(*given, "-p", "Go.", cwd=tmp_path).returncode == 0
        asked = server.chat[0].json
    assert (asked["model"], asked["stop"]) == ("a=b", "-x")
    assert "top_p" not in asked


def test_nothing_is_read_from_the_home_folder(tmp_path: Path) -> None:
    project, home = tmp_path / "project", tmp_path / "home"
    for folder in (project, home, home / ".config", home / ".bantam"):
        folder.mkdir()
        for name in (".bantam.cfg", "model.cfg", "AGENTS.md"):
            (folder / name).write_text("model=homely\n")
    (home / ".netrc").write_text("default login homely password homely\n")
    for name in (".bantam.cfg", "model.cfg", "AGENTS.md"):
        (project / name).unlink()
    with LLMServer([_OK]) as server:
        ended = run("-p", "Go.", "-o", f"endpoint={server.url}", cwd=project, env=environment(home))
        assert ended.returncode == 0
        request = server.chat[0]
    assert b"homely" not in request.body
    assert "authorization" not in request.headers


@both_forms
def test_an_endpoint_of_the_folder_that_nobody_accepted_gets_nothing(
    form: Sequence[str], tmp_path: Path
) -> None:
    (tmp_path / ".bantam.cfg").write_text("endpoint=https://example.invalid/v1\n")
    ended = run(*form, "-p", "Go.", cwd=tmp_path)
    assert ended.returncode == 2
    told = ended.stderr.decode()
    assert "https://example.invalid" in told
    assert "--trust" in told
    assert "BANTAM_TRUST=https://example.invalid" in told
    if form:
        assert done(ended.stdout)["error"]["class"] == "UntrustedEndpoint"


@pytest.mark.parametrize("way", ["option", "environment"])
def test_trust_accepts_the_endpoint_of_the_folder(way: str, tmp_path: Path) -> None:
    with LLMServer([_OK]) as server:
        # A name that is no loopback address by its letters, reached through a proxy.
        (tmp_path / ".bantam.cfg").write_text("endpoint=http://model.invalid/v1\n")
        trusted = {"BANTAM_TRUST": "http://model.invalid"} if way == "environment" else {}
        proxy = server.url.removesuffix("/v1")
        ended = run(
            *(("--trust",) if way == "option" else ()),
            "-p",
            "Go.",
            cwd=tmp_path,
            env=environment(tmp_path, HTTP_PROXY=proxy, **trusted),
        )
    assert (ended.returncode, ended.stdout) == (0, b"All is well."), ended.stderr


# -- where the prompt comes from --------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"Do it.\n", "Do it.\n"),
        (b"\xef\xbb\xbfDo it.", "Do it."),
        (b"Do\r\nit.\r\n", "Do\r\nit.\r\n"),
        (b"caf\xe9 \xc3\xa9", "caf\ufffd \xe9"),
        (b" !ls", " !ls"),
        (b"2 MiB: " + b"word " * 419430, "2 MiB: " + "word " * 419430),
    ],
    ids=["plain", "bom", "crlf", "latin-1", "no command", "huge"],
)
@pytest.mark.parametrize("way", ["file", "input"])
def test_the_prompt_is_the_text_of_the_file_or_of_the_input(
    way: str, raw: bytes, expected: str, tmp_path: Path
) -> None:
    (tmp_path / "p.txt").write_bytes(raw)
    with LLMServer([_OK]) as server:
        if way == "file":
            ended = run(*at(server.url), "p.txt", cwd=tmp_path)
        else:
            ended = run(*at(server.url), "-", cwd=tmp_path, stdin=raw)
        assert ended.returncode == 0, ended.stderr
        assert prompts(server) == [expected]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("bantam -p 'Do it.' $AT < /dev/null", "Do it."),
        ("echo piped | bantam -p 'Do it.' $AT", "Do it.\n\npiped\n"),
        ("echo piped | bantam -p 'Do it.' $AT -", "Do it.\n\npiped\n"),
        ("echo piped | bantam $AT -p ''", "piped\n"),
        ("bantam $AT -p--trust <&-", "--trust"),
        ("bantam $AT -p --trust <&-", "--trust"),
        ("bantam -p -o $AT <&-", "-o"),
        ("bantam $AT -p '=1+1?' <&-", "=1+1?"),
        ("bantam $AT <(echo named)", "named\n"),
        ("mkfifo f; (echo fifo > f &) ; bantam $AT f", "fifo\n"),
        ("echo dashed > -x; bantam $AT -- -x", "dashed\n"),
        ("echo dashed > -x; bantam $AT ./-x", "dashed\n"),
        ("echo p > --json; bantam $AT -- --json", "p\n"),
        ("echo p > 'café \u202e'; bantam $AT 'café \u202e'", "p\n"),
        ("echo p > $'\\xff'; bantam $AT $'\\xff'", "p\n"),
        ("bantam $AT -p $'caf\\xe9' <&-", "caf\ufffd"),
        ("bantam --no-session $AT -p 'Do it.' <&-", "Do it."),
        ("bantam $AT -p 'Do it.' 0> written.txt", "Do it."),
        ("LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 bantam $AT -p 'café' <&-", "café"),
    ],
)
def test_the_prompt_can_come_from_anywhere(line: str, expected: str, tmp_path: Path) -> None:
    with LLMServer([_OK]) as server:
        ended = sh(line, tmp_path, AT=" ".join(at(server.url)))
        assert (ended.returncode, ended.stdout) == (0, b"All is well."), ended.stderr
        assert prompts(server) == [expected]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("bantam - 0> written.txt", "Bad file descriptor"),
        ("bantam -p Go. < /proc/self/mem", "Input/output error"),
        ("yes | bantam -", "it is larger than 16 MiB"),
    ],
)
def test_an_input_that_cannot_be_read_ends_with_2(line: str, what: str, tmp_path: Path) -> None:
    ended = sh(line, tmp_path)
    told = f"bantam: standard input: {what}\n"
    assert (ended.returncode, ended.stderr.decode()) == (2, told)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (r"printf 'caf\351' > p.txt; bantam $AT p.txt", "prompt file 'p.txt'"),
        (r"printf 'caf\351' | bantam $AT -", "standard input"),
        (r"printf 'caf\351' | bantam $AT -p Go.", "standard input"),
        (r"bantam $AT -p $'caf\xe9' < /dev/null", "-p"),
    ],
)
def test_bytes_of_a_prompt_that_are_not_utf_8_are_told(
    line: str, name: str, tmp_path: Path
) -> None:
    with LLMServer([_OK]) as server:
        ended = sh(line, tmp_path, AT=" ".join(at(server.url)))
    assert (ended.returncode, ended.stdout) == (0, b"All is well.")
    told = f"bantam: {name}: not all of it is UTF-8; what is not is sent as U+FFFD"
    assert ended.stderr.decode().splitlines()[0] == told


@both_forms
def test_a_wait_for_a_silent_input_is_told(form: Sequence[str], tmp_path: Path) -> None:
    with (
        LLMServer([_OK]) as server,
        start(*form, *at(server.url), "-p", "Go.", cwd=tmp_path, stdin=subprocess.PIPE) as process,
    ):
        assert process.stderr is not None
        assert process.stderr.readline() == (
            b"bantam: waiting for the end of standard input (< /dev/null to do without)\n"
        )
        out, _ = process.communicate(b"And this.", timeout=60)
        assert process.returncode == 0
        assert b"All is well." in out
        assert prompts(server) == ["Go.\n\nAnd this."]


def test_an_input_that_was_asked_for_is_waited_for_without_a_word(tmp_path: Path) -> None:
    with LLMServer([_OK]) as server:
        ended = sh("(sleep 1.3; echo Go.) | bantam $AT -", tmp_path, AT=" ".join(at(server.url)))
        assert prompts(server) == ["Go.\n"]
    assert (ended.returncode, ended.stdout) == (0, b"All is well.")
    assert ended.stderr.startswith(b"...requesting...\n")


def test_an_input_that_has_nothing_yet_is_waited_for_even_if_it_does_not_block(
    tmp_path: Path,
) -> None:
    source, sink = os.pipe()
    os.set_blocking(source, False)
    with (
        LLMServer([_OK]) as server,
        os.fdopen(source, "rb") as stdin,
        os.fdopen(sink, "wb") as pipe,
        start(*at(server.url), "-p", "Go.", cwd=tmp_path, stdin=stdin) as process,
    ):
        assert process.stderr is not None
        assert b"waiting for the end" in process.stderr.readline()
        pipe.write(b"Late.")
        pipe.close()
        process.communicate(timeout=60)
        assert prompts(server) == ["Go.\n\nLate."]


def test_a_folder_that_is_gone_ends_with_2(tmp_path: Path) -> None:
    ended = sh("mkdir d; cd d; rmdir ../d; bantam -p Go. < /dev/null", tmp_path)
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert ended.stderr.startswith(b"bantam: the working directory cannot be used")
    assert ended.stderr.count(b"\n") == 1


# -- a prompt file that is a command ----------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "status", "out"),
    [
        (b"!echo hi; exit 7", 7, b"hi\n"),
        (b"\xef\xbb\xbf!echo hi\r\nexit 3\r\n", 3, b"hi\n"),
        (b"!kill -TERM $$", 143, b""),
        (b"!kill -KILL $$", 137, b""),
        (b"!cat", 0, b"from the input"),
        (b"!", 0, b""),
        (b"!printf 'caf\xe9'", 0, b"caf\xe9"),
        (b"!echo $0 | grep -c bash", 0, b"1\n"),
        (b"!-x() { echo dashed; }; -x", 0, b"dashed\n"),
    ],
)
def test_a_file_with_a_mark_runs_as_a_command_and_no_model_is_called(
    raw: bytes, status: int, out: bytes, tmp_path: Path
) -> None:
    (tmp_path / "p.txt").write_bytes(raw)
    (tmp_path / ".bantam.cfg").write_text("this is no configuration\n")
    ended = run("p.txt", cwd=tmp_path, stdin=b"from the input")
    assert (ended.returncode, ended.stdout, ended.stderr) == (status, out, b"")


@pytest.mark.parametrize("raw", [b"!echo a\0b", b"!echo " + b"x" * (1 << 21)], ids=["nul", "huge"])
def test_a_command_that_the_system_cannot_take_ends_with_2(raw: bytes, tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_bytes(raw)
    ended = run("p.txt", cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert ended.stderr.startswith(b"bantam: the command in the prompt file cannot be run: ")


def test_a_command_has_no_events_so_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text("!touch ran")
    ended = run("--json", "p.txt", cwd=tmp_path)
    assert ended.returncode == 2
    assert b"prompt file 'p.txt' holds a shell command" in ended.stderr
    assert done(ended.stdout)["exit_code"] == 2
    assert not (tmp_path / "ran").exists()


def test_a_prompt_is_a_command_only_in_a_file(tmp_path: Path) -> None:
    with LLMServer([_OK] * 2) as server:
        run(*at(server.url), "-", cwd=tmp_path, stdin=b"!exit 9")
        assert prompts(server) == ["!exit 9"]
        run(*at(server.url), "-p", "!exit 9", cwd=tmp_path)
        assert prompts(server) == ["!exit 9"]


# -- streams ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ("-p Go.", 0),
        ("--json -p Go.", 1),
        ("--help", 0),
        ("--version", 0),
        ("--version --trust", 0),
    ],
)
def test_a_reader_that_leaves_ends_it_quietly(options: str, status: int, tmp_path: Path) -> None:
    with LLMServer([shell("echo x", start=n) for n in range(3)] + [_OK], strict=False) as server:
        line = f"(sleep 0.3; bantam $AT {options} <&-) 2>err.txt | true; exit ${{PIPESTATUS[0]}}"
        ended = sh(line, tmp_path, AT=" ".join(at(server.url)))
    assert (ended.returncode, ended.stdout) == (status, b"")
    told = (tmp_path / "err.txt").read_text()
    for word in ("Traceback", "Exception", "rror"):
        assert word not in told
    assert ("[tokens: " in told) == (options == "-p Go.")


def test_a_wrong_option_has_its_status_and_its_line_without_a_reader(tmp_path: Path) -> None:
    ended = sh("(sleep 0.3; bantam --json -x) | true; exit ${PIPESTATUS[0]}", tmp_path)
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert ended.stderr == b"bantam: unrecognized arguments: -x; see bantam --help\n"


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_all_arrives_where_the_parent_has_made_the_streams_not_block(
    options: Sequence[str], tmp_path: Path
) -> None:
    source, sink = os.pipe()
    os.set_blocking(sink, False)
    answer = "One word after the other. " * 40000
    with (
        LLMServer([shell(f"printf '%s' '{answer[:60000]}'"), text(answer)]) as server,
        os.fdopen(source, "rb") as reader,
        os.fdopen(sink, "wb") as pipe,
        start(
            *options, *at(server.url), "-p", "Go.", cwd=tmp_path, stdout=pipe, stderr=pipe
        ) as process,
    ):
        pipe.close()
        Cancel().sleep(1.0)  # the pipe is full
        out = reader.read()
        assert process.wait(60) == 0
    assert (done(out)["text"] == answer) if options else (answer.encode() in out)


@pytest.mark.parametrize("options", ["", "--json"])
def test_a_full_disk_is_told_in_one_line(options: str, tmp_path: Path) -> None:
    with LLMServer([_OK], strict=False) as server:
        line = f"bantam $AT {options} -p Go. <&- > /dev/full"
        ended = sh(line, tmp_path, AT=" ".join(at(server.url)))
    assert ended.returncode == 1
    last = ended.stderr.decode().splitlines()[-1]
    assert last == "bantam: the output could not be written: No space left on device"
    assert b"Traceback" not in ended.stderr
    assert sh("bantam --help > /dev/full", tmp_path).returncode == 1


@pytest.mark.parametrize(
    "streams", ["<&-", "<&- 2>&-", "<&- 2>/dev/full", "<&- 2> >(true)", "0<&- 2<&-"]
)
def test_the_answer_comes_whatever_happens_to_the_other_streams(
    streams: str, tmp_path: Path
) -> None:
    with LLMServer([shell("echo a; cat"), _OK]) as server:
        ended = sh(f"bantam $AT -p Go. {streams}", tmp_path, AT=" ".join(at(server.url)))
    assert (ended.returncode, ended.stdout) == (0, b"All is well.")


@pytest.mark.parametrize("streams", [">&-", ">&- 2>&-", "<&- >&-", "<&- >&- 2>&-"])
def test_the_work_is_done_when_nobody_wants_the_answer(streams: str, tmp_path: Path) -> None:
    with LLMServer([shell("echo done > a.txt"), _OK]) as server:
        given = "" if "<" in streams else "</dev/null"
        ended = sh(f"bantam $AT -p Go. {streams} {given}", tmp_path, AT=" ".join(at(server.url)))
    assert ended.returncode == 0
    assert (tmp_path / "a.txt").read_text() == "done\n"
    assert b"Traceback" not in ended.stderr


@pytest.mark.parametrize("streams", ["2>&-", "2>/dev/full"])
def test_an_error_that_cannot_be_told_still_has_its_status(streams: str, tmp_path: Path) -> None:
    assert sh(f"bantam --fly {streams}", tmp_path).returncode == 2


def test_the_answer_is_utf_8_in_any_locale(tmp_path: Path) -> None:
    with LLMServer([text("caf\xe9 \u4e2d \U0001f413")]) as server:
        env = environment(tmp_path, LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
        ended = run(*at(server.url), "-p", "Go.", cwd=tmp_path, env=env)
    assert ended.stdout.decode() == "caf\xe9 \u4e2d \U0001f413"


def test_no_byte_of_an_error_or_a_name_acts_on_the_terminal(tmp_path: Path) -> None:
    evil = "a\x1b]0;pwned\x07b\x9b2Jc\u202ed\re\nf"
    ended = run(evil, cwd=tmp_path)
    assert ended.returncode == 2
    (tmp_path / ".bantam.cfg").write_bytes(f"timeout={evil}\n".encode())
    of_file = run("-p", "Go.", cwd=tmp_path)
    assert of_file.returncode == 2
    for told in (ended.stderr.decode(), of_file.stderr.decode()):
        assert told.count("\n") == 1
        assert not set("\x1b\x07\x9b\u202e\r") & set(told)


# -- help, version, demo, ways to start -------------------------------------------------------


def test_help_fits_on_a_screen_and_names_the_exit_codes(tmp_path: Path) -> None:
    for option in ("--help", "-h"):
        ended = run(option, cwd=tmp_path)
        lines = ended.stdout.decode().splitlines()
        assert (ended.returncode, ended.stderr) == (0, b"")
        assert len(lines) < 24  # the prompt behind it is the last line
        assert max(map(len, lines)) < 80
        said = " ".join(lines[-3:])
        for status in (0, 1, 2, 3, 4, 75, 77, 130, 143):
            assert f" {status} " in f" {said} "


def test_version_is_one_line_and_loads_nothing(tmp_path: Path) -> None:
    expected = f"bantam {bantam.__version__}\n".encode()
    ended = run("--version", cwd=tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, expected, b"")
    assert run("--json", "--version", cwd=tmp_path).stdout == expected
    modules = loaded(tmp_path, "--version")
    assert {name for name in modules if name.startswith("bantam")} == {"bantam", "bantam.cli"}
    assert not modules & {"typing", "signal", "threading", "argparse"}


def test_a_prompt_file_to_a_pipe_loads_no_heavy_package(tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text("Go.")
    with LLMServer([shell("true"), _OK]) as server:
        modules = loaded(tmp_path, *at(server.url), "p.txt")
    assert "httpx" in modules
    assert not modules & {"rich", "prompt_toolkit", "asyncio", "click"}


def loaded(folder: Path, *arguments: str) -> set[str]:
    """Return the modules that a run of the command line leaves behind."""
    program = (
        "import sys\nfrom bantam.cli import main\nstatus = main()\n"
        "open('modules.txt', 'w').write('\\n'.join(sys.modules))\nsys.exit(status)"
    )
    env = {k: v for k, v in environment(folder).items() if not k.startswith("COVERAGE")}
    ended = run(*arguments, cwd=folder, program=[sys.executable, "-c", program], env=env)
    assert ended.returncode == 0, ended.stderr
    return set((folder / "modules.txt").read_text().split("\n"))


@pytest.mark.parametrize("arguments", [("--version",), ("--help",), ("--fly",), ("-p", "Go.")])
def test_the_console_script_and_the_module_behave_alike(
    arguments: Sequence[str], tmp_path: Path
) -> None:
    scripts = importlib.metadata.entry_points(group="console_scripts", name="bantam")
    installed = shutil.which("bantam", path=str(Path(sys.executable).parent))
    # Not installed, the tests run the tree: then the script is what an installer would write.
    line = "import sys; from bantam.cli import main; sys.exit(main())"
    script = [installed] if scripts and installed else [sys.executable, "-c", line]
    with LLMServer([_OK] * 2, strict=False) as server:
        one, other = (
            run(*at(server.url), *arguments, cwd=tmp_path, program=program)
            for program in (BANTAM, script)
        )
    assert (one.returncode, one.stdout) == (other.returncode, other.stdout)
    assert one.stderr == other.stderr


def test_the_demo_does_its_job_without_a_network_or_a_key(tmp_path: Path) -> None:
    env = environment(tmp_path, TMPDIR=str(tmp_path), HTTP_PROXY="http://127.0.0.1:9")
    ended = run("--demo", cwd=tmp_path, env=env)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout
    folder = next(tmp_path.glob("bantam-demo-*"))
    assert str(folder) in ended.stderr.decode()
    assert list(folder.iterdir())
    told = done(run("--demo", "--json", cwd=tmp_path, env=env).stdout)
    assert (told["stop"], told["exit_code"]) == ("final", 0)


def test_a_demo_without_a_temporary_folder_ends_with_2(tmp_path: Path) -> None:
    # No file may hold a byte: so none of the usual folders can be used.
    program = (
        "import sys\nfrom resource import RLIMIT_FSIZE as SIZE, getrlimit, setrlimit\n"
        "from bantam.cli import main\n_, most = getrlimit(SIZE)\n"
        "setrlimit(SIZE, (0, most))\nstatus = main()\nsetrlimit(SIZE, (most, most))\n"
        "sys.exit(status)"
    )
    ended = run("--demo", cwd=tmp_path, program=[sys.executable, "-c", program])
    assert ended.returncode == 2
    told = ended.stderr.decode()
    assert told.startswith("bantam: there is no folder for the demo's files: ")
    assert told.endswith("; set TMPDIR to one that you may write to\n")
    assert told.count("\n") == 1


@both_forms
def test_a_fault_of_bantam_itself_is_told_and_ends_with_1(
    form: Sequence[str], tmp_path: Path
) -> None:
    # The fault is the caller's here: no word of a command line is a number.
    program = "import sys; from bantam.cli import main; sys.argv.insert(1, 7); sys.exit(main())"
    ended = run(*form, "-p", "Go.", cwd=tmp_path, program=[sys.executable, "-c", program])
    assert ended.returncode == 1
    trace, _, last = ended.stderr.decode().removesuffix("\n").rpartition("\n")
    assert trace.startswith("Traceback (most recent call last):\n")
    assert last.startswith("bantam: internal error: TypeError: ")
    assert last.endswith("; please report it")
    if form:
        told = done(ended.stdout)
        assert (told["stop"], told["exit_code"]) == ("error", 1)
        assert f"bantam: {told['error']['message']}" == last


@pytest.mark.parametrize(
    ("arguments", "as_json"),
    [
        (("-p", "--json", "-o", "temperature=x"), False),
        (("-o", "temperature=x", "--", "--json"), False),
        (("-o", "--json"), False),
        (("-p", "--fly", "-o", "temperature=x", "--json"), True),
    ],
)
def test_an_error_is_an_event_only_where_json_is_an_option(
    arguments: Sequence[str], as_json: bool, tmp_path: Path
) -> None:
    (tmp_path / "--json").write_text("Go.")
    ended = run(*arguments, cwd=tmp_path)
    assert ended.returncode == 2
    assert bool(ended.stdout) == as_json


def test_a_tool_call_cannot_reach_the_answer(tmp_path: Path) -> None:
    talk = calls(("shell_exec", {"command": "echo out; echo err >&2"}), content="I will look.")
    with LLMServer([talk, _OK]) as server:
        ended = run(*at(server.url), "-p", "Go.", cwd=tmp_path)
    assert ended.stdout == b"All is well."
    assert b"I will look." in ended.stderr


def test_a_prompt_in_the_place_of_its_file_is_told_where_it_goes(tmp_path: Path) -> None:
    ended = run("Which tests are slow?", cwd=tmp_path)
    assert ended.returncode == 2
    assert b"No such file or directory; a prompt itself goes behind -p" in ended.stderr
    assert b"behind -p" not in run("missing.txt", cwd=tmp_path).stderr
