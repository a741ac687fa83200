"""Sessions as who runs one prompt after the other sees them: stored, resumed, kept apart, told."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest
from llmserver import LLMServer, calls, error, raw, shell, text, write
from processes import eventually, running, unique_seconds
from program import BANTAM, at, environment, events, run, sh, start

from bantam.core.messages import Message, Role
from bantam.sessions.snapshot import About
from bantam.sessions.store import Store, project_id

CASES: Final = {
    case["id"]: case
    for line in (Path(__file__).parent / "cases" / "sessions.jsonl").read_text("utf-8").splitlines()
    for case in [json.loads(line)]
}
KEY: Final = "sk-0123456789-secret"
# Bantam, which tells at its end the most memory that it has had.
_MEASURED: Final = (
    "import sys\n"
    "from bantam.cli import main\n"
    "from processes import peak_mib\n"
    "status = main()\n"
    "print(f'peak: {peak_mib()}', file=sys.stderr)\n"
    "sys.exit(status)\n"
)


@dataclass(frozen=True, slots=True)
class Ran:
    """What one run with --json showed. `said`: its notices, then the lines of standard error."""

    status: int
    done: dict[str, Any]
    said: list[str]

    @property
    def session(self) -> str | None:
        """The session that it named."""
        name: str | None = self.done["session"]
        return name


def shown(status: int, out: bytes, err: bytes) -> Ran:
    told = events(out)
    notices = [event["text"] for event in told if event["type"] == "notice"]
    assert b"Traceback" not in err
    return Ran(status, told[-1], [*notices, *err.decode().splitlines()])


def bantam(server: LLMServer, *arguments: str, cwd: Path, **env: str) -> Ran:
    """Run Bantam in `cwd`, its home too."""
    ended = run("--json", *at(server.url), *arguments, cwd=cwd, env=environment(cwd, **env))
    return shown(ended.returncode, ended.stdout, ended.stderr)


def ended(process: "subprocess.Popen[bytes]") -> Ran:
    out, err = process.communicate(timeout=60)
    return shown(process.returncode, out, err)


def sessions(home: Path) -> dict[str, list[str]]:
    """Return what each stored session of `home` says, the system message left out."""
    return {
        path.stem: [m["content"] for m in json.loads(path.read_bytes())["messages"][1:]]
        for path in (home / "sessions").glob("*.json")
    }


def messages_of(body: bytes) -> bytes:
    """Return the bytes of a request's messages, without the bracket that ends them."""
    begin = body.index(b'"messages":') + len(b'"messages":')
    messages, end = json.JSONDecoder().raw_decode(body[begin:].decode().lstrip())
    assert isinstance(messages, list)
    return body[begin:].decode().lstrip()[: end - 1].encode()


def tree(folder: Path) -> dict[str, tuple[int, int]]:
    """Return size and time of every file below `folder`."""
    found = {str(path): path.stat() for path in folder.rglob("*")}
    return {name: (state.st_size, state.st_mtime_ns) for name, state in found.items()}


@pytest.fixture
def own(tmp_path: Path) -> str:
    """Return the id of the session of the project in `tmp_path`."""
    return project_id(tmp_path)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / ".bantam"


def store_file(home: Path, name: str, content: bytes) -> Path:
    (home / "sessions").mkdir(parents=True, exist_ok=True)
    path = home / "sessions" / f"{name}.json"
    path.write_bytes(content)
    return path


# -- stored and resumed -----------------------------------------------------------------------


def test_a_one_shot_stores_its_conversation_and_names_its_session(
    tmp_path: Path, home: Path, own: str
) -> None:
    with LLMServer([shell("echo hi"), text("Bye.")]) as server:
        command = run("--json", *at(server.url), "-p", "Go.", cwd=tmp_path)
    told = events(command.stdout)
    assert (command.returncode, command.stderr) == (0, b"")
    assert (told[0]["session"], told[-1]["session"]) == (own, own)
    stored = json.loads((home / "sessions" / f"{own}.json").read_bytes())
    assert (stored["id"], stored["project"], stored["model"]) == (own, str(tmp_path), "scripted")
    assert (stored["format"], stored["dialect"], stored["summary"]) == (
        "bantam-session",
        "native",
        "Go.",
    )
    assert stored["usage"]["prompt"] == 24
    assert sessions(home) == {own: ["Go.", "", "hi\n\n\nexit: 0", "Bye."]}
    # Beside it may stand what puts files back; the journal, which is the lock, is gone.
    left = {path.name for path in (home / "sessions").iterdir()}
    assert left - {f"{own}.undo"} == {f"{own}.json"}


def test_the_messages_of_a_continued_session_begin_with_the_bytes_of_the_request_before(
    tmp_path: Path,
) -> None:
    thought = calls(
        ("shell_exec", '{"command":  "echo \\u00e9"}'), content="I look. \u2028", reasoning="Hm."
    )
    replies = [thought, text("caf\xe9 \U0001f600"), write("a", "b\n"), text("Two."), text("Three.")]
    with LLMServer(replies) as server:
        for arguments in (("-p", "One \x7f\u2028"), ("-c", "-p", "Two"), ("--continue", "-p", "3")):
            assert bantam(server, *arguments, cwd=tmp_path).said == []
        bodies = [messages_of(request.body) for request in server.chat]
    assert len(bodies) == 5
    for before, after in pairwise(bodies):
        assert after.startswith(before)
        assert len(after) > len(before)


@pytest.mark.parametrize("named", ["whole id", "prefix"])
def test_a_session_is_resumed_by_its_id_or_a_prefix_of_it(
    named: str, tmp_path: Path, home: Path, own: str
) -> None:
    with LLMServer([text("A"), text("B")]) as server:
        bantam(server, "-p", "one", cwd=tmp_path)
        name = own if named == "whole id" else own[:5]
        resumed = bantam(server, "-r", name, "-p", "two", cwd=tmp_path)
    assert (resumed.status, resumed.said, resumed.session) == (0, [], own)
    assert sessions(home) == {own: ["one", "A", "two", "B"]}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("-r", "ab"), "2 sessions begin with 'ab': abc, abd"),
        (("-r", "x"), "no session is named 'x', and no name begins so"),
        (("-r", "../abc"), "no session is named '../abc', and no name begins so"),
        (("-c", "-r", "abc"), "-c and -r were given: one of them names the session"),
        (("-r",), "expected one argument"),
    ],
)
def test_what_names_no_one_session_is_wrong_usage(
    arguments: tuple[str, ...], expected: str, tmp_path: Path, home: Path
) -> None:
    for name in ("abc", "abd"):
        store_file(home, name, b'[{"role": "user", "content": "hi"}]')
    before = tree(home)
    with LLMServer([]) as server:
        words = [*at(server.url), "-p", "Go.", *arguments]
        ended = run(*words, cwd=tmp_path)
        assert server.requests == []
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert expected in ended.stderr.decode()
    assert ended.stderr.count(b"\n") == 1
    assert tree(home) == before


def test_a_session_of_another_project_is_resumed_here_and_that_is_said(
    tmp_path: Path, home: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    with LLMServer([text("A"), shell("pwd"), text("B")]) as server:
        bantam(server, "-p", "one", cwd=first, BANTAM_HOME=str(home))
        name = project_id(first)
        resumed = bantam(server, "-r", name, "-p", "two", cwd=second, BANTAM_HOME=str(home))
    said = f"this session was made in {first}; commands run in {second}"
    assert (resumed.status, resumed.said, resumed.session) == (0, [said], name)
    kept = sessions(home)[name]
    assert kept[:2] == ["one", "A"]
    assert kept[-4:] == ["two", "", f"{second}\n\n\nexit: 0", "B"]


def test_a_project_without_a_session_begins_one_and_says_so(
    tmp_path: Path, home: Path, own: str
) -> None:
    with LLMServer([text("A"), text("B")]) as server:
        first = bantam(server, "-c", "-p", "one", cwd=tmp_path)
        assert (first.status, first.said) == (0, ["this project has no session yet: it begins now"])
        assert bantam(server, "-c", "-p", "two", cwd=tmp_path).said == []
    assert sessions(home) == {own: ["one", "A", "two", "B"]}


def test_a_new_one_shot_keeps_the_conversation_that_it_replaces(
    tmp_path: Path, home: Path, own: str
) -> None:
    with LLMServer([text("A"), text("B"), text("C")]) as server:
        for prompt in ("one", "two", "three"):
            assert bantam(server, "-p", prompt, cwd=tmp_path).said == []
    kept = sessions(home)
    assert kept.pop(own) == ["three", "C"]
    assert sorted(kept.values()) == [["one", "A"], ["two", "B"]]
    assert all(name.startswith(f"{own}-2") for name in kept)


@pytest.mark.parametrize("what", ["model", "endpoint"])
def test_another_model_or_endpoint_than_the_sessions_is_said_in_one_line(
    what: str, tmp_path: Path
) -> None:
    with LLMServer([text("A")]) as first, LLMServer([text("B"), text("C")]) as second:
        bantam(first, "-p", "one", cwd=tmp_path)
        server, model = (second, "scripted") if what == "endpoint" else (second, "other")
        options = ("-c", "-o", f"model={model}", "-p", "two")
        resumed = bantam(server, *options, cwd=tmp_path)
        was, now = f"scripted at {first.url}", f"{model} at {second.url}"
        assert resumed.said == [f"this session was made with {was}; it goes on with {now}"]
        assert bantam(server, *options, cwd=tmp_path).said == []


# -- nothing stored ---------------------------------------------------------------------------


def test_no_session_writes_nothing_at_all(tmp_path: Path, home: Path) -> None:
    with LLMServer([write("a", "b"), text("A")]) as server:
        ran = bantam(server, "--no-session", "-p", "one", cwd=tmp_path)
    assert (ran.status, ran.session, ran.said) == (0, None, [])
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert not home.exists()


@pytest.mark.parametrize("arguments", [("-c",), ("-r", "abc")])
def test_with_no_session_a_stored_one_is_gone_on_from_and_not_touched(
    arguments: tuple[str, ...], tmp_path: Path, home: Path
) -> None:
    content = b'[{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]'
    for name in ("abc", project_id(tmp_path)):
        store_file(home, name, content).chmod(0o600)
    (home / "sessions").chmod(0o700)
    before = tree(home)
    with LLMServer([text("A")]) as server:
        ran = bantam(server, "--no-session", *arguments, "-p", "one", cwd=tmp_path)
        sent = [message["content"] for message in server.chat[0].json["messages"]]
    assert (ran.status, ran.session, ran.said) == (0, None, [])
    assert sent[1:] == ["hi", "hello", "one"]
    assert tree(home) == before


def test_with_no_session_a_missing_one_is_not_made(tmp_path: Path, home: Path) -> None:
    with LLMServer([text("A")]) as server:
        ran = bantam(server, "--no-session", "-c", "-p", "one", cwd=tmp_path)
    assert (ran.status, ran.session) == (0, None)
    assert not home.exists()


def test_the_demo_stores_nothing(tmp_path: Path, home: Path) -> None:
    ended = run("--demo", cwd=tmp_path, env=environment(tmp_path, TMPDIR=str(tmp_path)))
    assert ended.returncode == 0
    assert not home.exists()


@pytest.mark.parametrize("arguments", [("-o", "model"), ("-o", "timeout=x"), ("p.txt",)])
def test_a_run_that_asks_nothing_stores_nothing(
    arguments: tuple[str, ...], tmp_path: Path, home: Path
) -> None:
    assert run(*arguments, "-p", "Go.", cwd=tmp_path).returncode == 2
    assert not home.exists()


@pytest.mark.parametrize(
    "arguments", [("-c", "-o", "endpoint=replay:///nowhere"), ("-r", "broken")]
)
def test_a_run_that_ends_before_its_turn_leaves_no_journal(
    arguments: tuple[str, ...], tmp_path: Path, home: Path
) -> None:
    path = store_file(home, "broken", b"[")
    assert run(*arguments, "-p", "Go.", cwd=tmp_path).returncode in (1, 2)
    assert {each.suffix for each in path.parent.iterdir()} <= {".json", ".damaged"}


# -- where and how ----------------------------------------------------------------------------


@pytest.mark.parametrize("named", ["absolute", "relative"])
def test_bantam_home_replaces_the_folder(named: str, tmp_path: Path, home: Path, own: str) -> None:
    elsewhere = tmp_path / "deep" / "else where"
    value = str(elsewhere) if named == "absolute" else "deep/else where"
    with LLMServer([text("A")]) as server:
        bantam(server, "-p", "one", cwd=tmp_path, BANTAM_HOME=value)
    assert sessions(elsewhere) == {own: ["one", "A"]}
    assert not home.exists()


def modes(home: Path) -> set[tuple[bool, str]]:
    """Return each kind of thing in `home`, itself among them: whether a folder, and its mode."""
    found = [home, *home.rglob("*")]
    return {(path.is_dir(), oct(path.stat().st_mode & 0o777)) for path in found}


PRIVATE: Final = {(True, "0o700"), (False, "0o600")}


def test_nobody_else_may_read_what_is_stored(tmp_path: Path, home: Path) -> None:
    (tmp_path / "p.txt").write_text("Go.")
    with LLMServer([write("a", "b"), shell("ls -laR .bantam"), text("A"), text("B")]) as server:
        once = f"bantam -o endpoint={server.url} p.txt"
        assert sh(f"umask 0; {once} && {once}", cwd=tmp_path).returncode == 0
        during = server.chat[2].json["messages"][-1]["content"]
    assert "journal" in during
    assert all(line.startswith("-rw-------") for line in during.splitlines() if ".js" in line)
    assert modes(home) == PRIVATE


def test_wider_modes_of_older_files_are_mended(tmp_path: Path, home: Path, own: str) -> None:
    path = store_file(home, own, b'[{"role": "user", "content": "hi"}]')
    path.chmod(0o644)
    (home / "sessions").chmod(0o755)
    home.chmod(0o755)
    with LLMServer([text("A"), text("B")]) as server:
        bantam(server, "-p", "one", cwd=tmp_path)
    assert modes(home) == PRIVATE


def test_the_key_stands_in_no_file_of_the_home(tmp_path: Path, home: Path) -> None:
    extra = raw(
        text("x", done=False).body.replace(
            b'"content": "x"',
            json.dumps(
                {
                    "content": f"The key is {KEY}.",
                    "reasoning_content": f"{KEY}?",
                    "reasoning_details": [
                        {"type": "reasoning.text", "text": f"Hm, {KEY}", "index": 0}
                    ],
                }
            )[1:-1].encode(),
        )
    )
    odd = calls(("fly", {"to": KEY}), content=KEY, reasoning=KEY, start=7)
    replies = [
        shell("cat .bantam.cfg; env"),
        write("a.txt", f"api_key={KEY}\n", start=2),
        shell(f"echo {KEY} && false", start=3),
        odd,
        extra,
        text("B"),
    ]
    with LLMServer(replies) as server:
        config = f"endpoint={server.url}\nmodel=scripted\napi_key={KEY}\n"
        (tmp_path / ".bantam.cfg").write_text(config)
        for arguments in (("-p", f"My key is {KEY}."), ("-c", "-p", KEY)):
            ended = run("--json", *arguments, cwd=tmp_path)
            assert (ended.returncode, ended.stderr) == (0, b"")
        assert server.chat[0].headers["authorization"] == f"Bearer {KEY}"
    files = [path for path in home.rglob("*") if path.is_file()]
    assert any(b"My key is [key]." in path.read_bytes() for path in files)
    assert [path for path in files if KEY.encode() in path.read_bytes()] == []
    assert [path for path in files if KEY in path.name] == []


# -- turns that do not end well ---------------------------------------------------------------


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_turn_is_stored_and_can_be_continued(
    number: int, status: int, tmp_path: Path, home: Path, own: str
) -> None:
    marker = unique_seconds()
    both = calls(
        ("shell_exec", {"command": f"echo begun; sleep {marker}"}),
        ("shell_exec", {"command": "touch ran"}),
    )
    with LLMServer([both, text("B")]) as server:
        with start("--json", *at(server.url), "-p", "one", cwd=tmp_path) as process:
            assert eventually(partial(running, f"sleep {marker}"))
            process.send_signal(number)
            first = ended(process)
        assert (first.status, first.done["stop"], first.session) == (status, "interrupted", own)
        prompt, call, *results = sessions(home)[own]
        assert (prompt, call) == ("one", "")
        assert len(results) == 2
        assert all("interrupted by the user" in result for result in results)
        second = bantam(server, "-c", "-p", "two", cwd=tmp_path)
        before, after = (messages_of(request.body) for request in server.chat)
    assert (second.status, second.said) == (0, [])
    assert after.startswith(before)
    assert sessions(home)[own][-2:] == ["two", "B"]
    assert not (tmp_path / "ran").exists()
    assert running(marker) == []


def test_a_turn_that_fails_is_stored_and_loses_nothing(
    tmp_path: Path, home: Path, own: str
) -> None:
    with LLMServer([text("A"), error(401, "no"), text("C")]) as server:
        bantam(server, "-p", "one", cwd=tmp_path)
        failed = bantam(server, "-p", "two", cwd=tmp_path)
        assert (failed.status, failed.session) == (77, own)
        kept = sessions(home)
        assert kept.pop(own) == ["two"]
        assert list(kept.values()) == [["one", "A"]]
        resumed = bantam(server, "-c", "-p", "three", cwd=tmp_path)
        assert server.chat[-1].json["messages"][1:] == [
            {"role": "user", "content": "two\n\nthree"},
        ]
    assert (resumed.status, resumed.said) == (0, [])
    assert sessions(home)[own] == ["two", "three", "C"]


def test_a_home_that_cannot_be_written_is_said_once_and_the_turn_goes_on(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with LLMServer([shell("true"), text("A")]) as server:
        ran = bantam(server, "-p", "one", cwd=tmp_path, BANTAM_HOME=str(tmp_path / "file"))
    assert (ran.status, ran.done["text"]) == (0, "A")
    assert len(ran.said) == 1
    assert ran.said[0].startswith("the session could not be stored: ")


# -- the public cases -------------------------------------------------------------------------


def _files_of_at_most(kib: int) -> tuple[str, ...]:
    """Return what starts Bantam so that no file can be larger than `kib` KiB."""
    # Without the trap the system would end it: so does a full disk not.
    return ("bash", "-c", f"trap '' XFSZ; ulimit -f {kib}; exec \"$@\"", "bash", *BANTAM)


def damaged_file(case: Mapping[str, Any], folder: Path) -> None:
    content = bytes.fromhex(case["file_hex"]) if "file_hex" in case else case["file_text"].encode()
    own, expected = project_id(folder), case["expect"]
    path = store_file(folder / ".bantam", own, content)
    with LLMServer([text("A"), text("B")]) as server:
        ran = bantam(server, "-c", "-p", "one", cwd=folder)
        sent = [message["content"] for message in server.chat[0].json["messages"]]
        assert (ran.status, ran.done["text"]) == (0, "A")
        damage = [line for line in ran.said if "damaged" in line]
        assert (len(damage) == 1) == bool(expected.get("message"))
        assert sent[1:] == (["hi", "hello", "one"] if expected.get("loads") else ["one"])
        kept = [other.read_bytes() for other in path.parent.glob("*.damaged")]
        assert not expected.get("original_kept") or kept == [content]
        assert bantam(server, "-c", "-p", "two", cwd=folder).said == []


def save_with_write_error(case: Mapping[str, Any], folder: Path) -> None:
    own = project_id(folder)
    path = store_file(folder / ".bantam", own, case["file_text"].encode())
    # Bytecode and what coverage measures would be cut as well, and stay.
    whole = environment(folder, PYTHONDONTWRITEBYTECODE="1").items()
    env = {name: value for name, value in whole if not name.startswith("COVERAGE")}
    with LLMServer([text("A" * 4000)]) as server:
        words = ("--json", *at(server.url), "-c", "-p", "one")
        process = run(*words, cwd=folder, env=env, program=_files_of_at_most(1))
    ran = shown(process.returncode, process.stdout, process.stderr)
    assert (ran.status, ran.done["text"]) == (0, "A" * 4000)
    assert [line.split(": ")[0] for line in ran.said] == ["the session could not be stored"]
    assert path.read_bytes() == case["file_text"].encode()
    assert not list(path.parent.glob(".*"))


def two_instances(case: Mapping[str, Any], folder: Path) -> None:
    assert case["expect"]["lost_turns"] == 0
    own = project_id(folder)
    with (
        LLMServer([text("A", hold=True), text("B")]) as server,
        start("--json", *at(server.url), "-p", "one", cwd=folder) as process,
    ):
        server.wait_for_stall()
        second = bantam(server, "-p", "two", cwd=folder)
        server.release()
        first = ended(process)
    aside = f"another Bantam works on the session {own}; this one works on {own}-2"
    assert (first.session, first.said) == (own, [])
    assert (second.session, second.said) == (f"{own}-2", [aside])
    assert sessions(folder / ".bantam") == {own: ["one", "A"], f"{own}-2": ["two", "B"]}


def list_with_big_file(case: Mapping[str, Any], folder: Path) -> None:
    home, own = folder / ".bantam", project_id(folder)
    store_file(home, "other", b'[{"role": "user", "content": "hi"}]')
    part = b'{"role": "user", "content": "' + b"x" * 1000 + b'"}, '
    big = b"[" + part * (case["size_mb"] * 1000) + b'{"role": "user", "content": "end"}]'
    store_file(home, "big", big)
    store_file(home, own, big)
    env = environment(folder)
    env["PYTHONPATH"] += os.pathsep + str(Path(__file__).parent)
    bounds = case["expect"]
    listing = (
        "import sys\nfrom datetime import UTC, datetime\nfrom pathlib import Path\n"
        "from bantam.sessions.store import Store\nfrom processes import peak_mib\n"
        "store = Store(Path(sys.argv[1]), lambda: datetime.now(UTC))\n"
        "print(*sorted(each.id for each in store.summaries()))\n"
        "print(f'peak: {peak_mib()}', file=sys.stderr)\n"
    )
    program = (sys.executable, "-c", listing)
    with start(str(home), cwd=folder, env=env, program=program) as process:
        out, err = process.communicate(timeout=bounds["max_seconds"])
    assert out.decode().split() == sorted([own, "big", "other"])
    assert float(err.decode().rpartition("peak: ")[2]) < bounds["max_rss_mb"]
    with LLMServer([text("A")]) as server:
        words = (*at(server.url), "-p", "one")
        with start(
            *words, cwd=folder, env=env, program=(sys.executable, "-c", _MEASURED)
        ) as process:
            out, err = process.communicate(timeout=bounds["max_seconds"])
    assert out == b"A"
    assert float(err.decode().rpartition("peak: ")[2]) < bounds["max_rss_mb"]


def save_load(case: Mapping[str, Any], folder: Path) -> None:
    own = project_id(folder)
    store = Store(folder / ".bantam", lambda: datetime.now(UTC))
    session = store.fresh(own, About())
    for message in case["messages"]:
        session.append(Message(Role(message["role"]), message["content"]))
    session.close()
    loaded = store.stored(own).conversation.messages
    assert [message.content for message in loaded] == [m["content"] for m in case["messages"]]
    with LLMServer([text("A")]) as server:
        assert bantam(server, "-c", "-p", "one", cwd=folder).status == 0
        assert server.chat[0].json["messages"][1]["content"] == "a \ufffd b\n\none"
    assert store.stored(own).conversation.messages[: len(loaded)] == loaded


_ACTIONS: Final = {
    action.__name__: action
    for action in (
        damaged_file,
        save_with_write_error,
        two_instances,
        list_with_big_file,
        save_load,
    )
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_public_cases_of_sessions(case: dict[str, Any], tmp_path: Path) -> None:
    _ACTIONS[case.get("action", "damaged_file")](case, tmp_path)


# -- several at once --------------------------------------------------------------------------


def test_who_continues_a_session_in_use_goes_on_from_what_is_stored_in_a_place_of_his_own(
    tmp_path: Path, home: Path, own: str
) -> None:
    with LLMServer([text("A"), text("B", hold=True), text("C"), text("D")]) as server:
        bantam(server, "-p", "one", cwd=tmp_path)
        with start("--json", *at(server.url), "-c", "-p", "two", cwd=tmp_path) as process:
            server.wait_for_stall()
            third = bantam(server, "-c", "-p", "three", cwd=tmp_path)
            server.release()
            second = ended(process)
        fourth = bantam(server, "-c", "-p", "four", cwd=tmp_path)
    aside = f"another Bantam works on the session {own}; this one works on {own}-2"
    assert (second.session, second.said) == (own, [])
    assert (third.session, third.said) == (f"{own}-2", [aside])
    assert (fourth.session, fourth.said) == (own, [])
    assert sessions(home) == {
        own: ["one", "A", "two", "B", "four", "D"],
        f"{own}-2": ["one", "A", "three", "C"],
    }


def test_the_prompt_in_another_ones_hand_is_not_sent_again(
    tmp_path: Path, home: Path, own: str
) -> None:
    with (
        LLMServer([text("A", hold=True), text("B")]) as server,
        start("--json", *at(server.url), "-p", "one", cwd=tmp_path) as process,
    ):
        server.wait_for_stall()
        assert sessions(home) == {own: ["one"]}
        bantam(server, "-c", "-p", "two", cwd=tmp_path)
        assert server.chat[1].json["messages"][1:] == [{"role": "user", "content": "two"}]
        server.release()
        ended(process)
    assert sessions(home) == {own: ["one", "A"], f"{own}-2": ["two", "B"]}


# Answers what the last prompt was. A program, since the network's client takes half of a run.
_ECHO: Final = r"""
asked=$(grep -o 'prompt [0-9]*\.[0-9]*' | tail -n 1)
echo "{\"choices\": [{\"message\": {\"content\": \"answer to $asked\"}}]}"
"""
# Twenty Bantams, one after the other, each a process of its own; the imports are done once.
_TWENTY: Final = """
import os, sys
import bantam.terminal.runs
from bantam.cli import main
number, endpoint = int(sys.argv[1]), sys.argv[2:]
for turn in range(20):
    how = ["-c"] if (turn + number) % 3 else []
    sys.argv[1:] = ["--json", *endpoint, *how, "-p", f"prompt {number}.{turn}"]
    pid = os.fork()
    if pid == 0:
        for stream, name in (1, "out"), (2, "err"):
            os.dup2(os.open(f"{number}.{turn}.{name}", os.O_WRONLY | os.O_CREAT), stream)
        status = main()
        sys.stdout.flush()
        os._exit(status)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


@pytest.mark.parametrize("at_once", [2, 10])
def test_bantams_at_once_in_one_project_lose_no_message(
    at_once: int, tmp_path: Path, home: Path, own: str
) -> None:
    # What is measured in each process makes it slow, and shows nothing here.
    whole = environment(tmp_path).items()
    env = {name: value for name, value in whole if not name.startswith("COVERAGE")}

    def twenty_turns(number: int) -> list[Ran]:
        program = (sys.executable, "-c", _TWENTY, str(number))
        ran = run(*at("run://sh echo.sh"), cwd=tmp_path, env=env, program=program)
        assert ran.stderr == b""
        statuses = ran.stdout.split()
        assert len(statuses) == 20
        return [
            shown(
                int(status),
                *((tmp_path / f"{number}.{turn}.{name}").read_bytes() for name in ("out", "err")),
            )
            for turn, status in enumerate(statuses)
        ]

    (tmp_path / "echo.sh").write_text(_ECHO)
    with ThreadPoolExecutor(at_once) as threads:
        runs = list(threads.map(twenty_turns, range(at_once)))
    for ran in (ran for each in runs for ran in each):
        assert ran.status == 0
        asides = [line for line in ran.said if line.startswith("another Bantam works on ")]
        assert len(asides) == (ran.session != own)
    prompts = {f"prompt {number}.{turn}" for number in range(at_once) for turn in range(20)}
    kept = sessions(home)
    pairs = [pair for said in kept.values() for pair in zip(said[::2], said[1::2], strict=True)]
    assert {prompt for prompt, _ in pairs} == prompts
    assert {answer for _, answer in pairs} == {f"answer to {prompt}" for prompt in prompts}
    assert all(answer == f"answer to {prompt}" for prompt, answer in pairs)
    store = Store(home, lambda: datetime.now(UTC))
    assert [summary.fault for summary in store.summaries()] == [""] * len(kept)
    assert {path.suffix for path in (home / "sessions").iterdir()} <= {".json", ".undo"}
    assert not list((home / "sessions").glob(".*"))


def test_a_session_that_is_being_written_is_always_whole(tmp_path: Path, home: Path) -> None:
    writing = (
        "import sys\nfrom datetime import UTC, datetime\nfrom pathlib import Path\n"
        "from bantam.core.messages import Message, Role\n"
        "from bantam.sessions.snapshot import About\nfrom bantam.sessions.store import Store\n"
        "session = Store(Path(sys.argv[1]), lambda: datetime.now(UTC)).fresh('busy', About())\n"
        "for number in range(1_000_000):\n"
        "    session.append(Message(Role.USER, f'{number} ' + 'x' * 5000))\n"
        "    session.append(Message(Role.ASSISTANT, str(number)))\n"
        "    session.finish()\n"
        "    print(number, flush=True)\n"
    )
    store = Store(home, lambda: datetime.now(UTC))
    lengths: list[int] = []
    with start(str(home), cwd=tmp_path, program=(sys.executable, "-c", writing)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"0\n"
        while len(lengths) < 80 or lengths[-1] == lengths[0]:
            (summary,) = store.summaries()
            messages = store.stored("busy").conversation.messages
            assert summary.fault == ""
            assert summary.count is not None
            assert summary.count <= len(messages)
            numbers = [int(message.content.split()[0]) for message in messages]
            assert numbers == [number // 2 for number in range(len(messages))]
            lengths.append(len(messages))
        process.kill()
        process.communicate(timeout=60)
    assert lengths == sorted(lengths)
