"""What was accepted is remembered and asked for once: the file, what a program is, the question."""

import json
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from llmreplies import text
from llmserver import LLMServer
from program import BANTAM, environment, run
from proxies import HTTPProxy
from typist import Typist, typist
from users import open_folder, ordinary_user

from bantam.model.programs import Program, program_of
from bantam.sessions.trust import Answers, TrustFile

X, Y = "https://x.example", "https://y.example"
ALL = Answers(frozenset({X}), {X: True, Y: False}, {"ab12": "/opt/model"})
KEY = "sk-0123456789-of-the-environment"

# -- the file ---------------------------------------------------------------------------------


def read(home: Path | None) -> tuple[Answers, list[str]]:
    """Return what is remembered in `home`, and what is told of it."""
    told: list[str] = []
    return TrustFile(home).read(told.append), told


def test_what_is_added_is_read_again_beside_what_was_there(tmp_path: Path) -> None:
    home = tmp_path / "new" / ".bantam"
    assert read(home) == (Answers(), [])
    TrustFile(home).add(ALL)
    assert read(home) == (ALL, [])
    TrustFile(home).add(Answers(frozenset({Y}), {Y: True}, {"cd34": "/opt/\udce9"}))
    both = Answers(
        frozenset({X, Y}), {X: True, Y: True}, {"ab12": "/opt/model", "cd34": "/opt/\udce9"}
    )
    assert read(home) == (both, [])


def test_the_file_says_what_it_is_and_is_the_user_s_alone(tmp_path: Path) -> None:
    home = tmp_path / ".bantam"
    home.mkdir(0o755)
    TrustFile(home).add(ALL)
    file = home / "trust.json"
    assert json.loads(file.read_bytes()) == {
        "format": "bantam-trust",
        "version": 1,
        "origins": [X],
        "keys": {X: True, Y: False},
        "programs": {"ab12": "/opt/model"},
    }
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert os.listdir(home) == ["trust.json"]  # noqa: PTH208


def test_a_folder_that_bantam_home_names_keeps_its_mode(tmp_path: Path) -> None:
    home = tmp_path / "shared"
    home.mkdir(0o755)
    TrustFile(home).add(ALL)
    assert stat.S_IMODE(home.stat().st_mode) == 0o755


GOOD = {"format": "bantam-trust", "version": 1, "origins": [], "keys": {}, "programs": {}}
DAMAGED = [
    b"",
    b"{",
    b"\xff\xfe",
    b"[" * 100_000,
    b"null",
    b"[]",
    b"{}",
    json.dumps(GOOD | {"format": "bantam-session"}).encode(),
    json.dumps(GOOD | {"version": 0}).encode(),
    json.dumps(GOOD | {"version": "1"}).encode(),
    json.dumps(GOOD | {"version": None}).encode(),
    json.dumps(GOOD | {"origins": {X: True}}).encode(),
    json.dumps(GOOD | {"origins": [X, 1]}).encode(),
    json.dumps(GOOD | {"keys": [X]}).encode(),
    json.dumps(GOOD | {"keys": {X: "no"}}).encode(),
    json.dumps(GOOD | {"keys": {X: 1}}).encode(),
    json.dumps(GOOD | {"programs": ["ab12"]}).encode(),
    json.dumps(GOOD | {"programs": {"ab12": None}}).encode(),
    json.dumps(GOOD).encode() + b" " * (1 << 20),
]


@pytest.mark.parametrize("raw", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_file_accepts_nothing_and_is_set_aside(raw: bytes, tmp_path: Path) -> None:
    file = tmp_path / "trust.json"
    file.write_bytes(raw)
    answers, told = read(tmp_path)
    assert answers == Answers()
    assert [line.partition(" is damaged: ")[0] for line in told] == [str(file)]
    assert told[0].endswith("; nothing in it holds; it is now trust.json.damaged")
    assert (tmp_path / "trust.json.damaged").read_bytes() == raw
    TrustFile(tmp_path).add(ALL)
    assert read(tmp_path) == (ALL, [])


def test_what_is_damaged_is_not_written_over_before_it_was_set_aside(tmp_path: Path) -> None:
    (tmp_path / "trust.json").write_bytes(b"{")
    with pytest.raises(OSError, match="no JSON"):
        TrustFile(tmp_path).add(ALL)
    assert (tmp_path / "trust.json").read_bytes() == b"{"


def test_a_file_of_a_newer_version_accepts_nothing_and_stays(tmp_path: Path) -> None:
    raw = json.dumps(GOOD | {"version": 2, "origins": [X]})
    (tmp_path / "trust.json").write_text(raw)
    answers, told = read(tmp_path)
    assert answers == Answers()
    assert len(told) == 1
    assert "is of version 2, and this Bantam knows 1; nothing in it holds" in told[0]
    with pytest.raises(OSError, match="version 2"):
        TrustFile(tmp_path).add(ALL)
    assert [path.name for path in tmp_path.iterdir()] == ["trust.json"]
    assert (tmp_path / "trust.json").read_text() == raw


def test_a_fifo_makes_nobody_wait_and_a_folder_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "trust.json")
    answers, told = read(tmp_path)
    assert (answers, len(told)) == (Answers(), 1)
    assert "not a regular file" in told[0]


def test_what_cannot_be_read_set_aside_or_written_is_told() -> None:
    with open_folder() as folder:
        home = folder / "home"
        TrustFile(home).add(ALL)
        file = home / "trust.json"
        file.write_bytes(b"{")
        file.chmod(0o444)
        home.chmod(0o555)
        with ordinary_user():
            damaged = read(home)
        file.chmod(0)
        with ordinary_user():
            unreadable = read(home)
            for path in (home, home / "new"):
                with pytest.raises(PermissionError):
                    TrustFile(path).add(ALL)
        home.chmod(0o700)
    assert damaged[0] == unreadable[0] == Answers()
    assert "it cannot be set aside: Permission denied" in damaged[1][0]
    assert unreadable[1] == [f"{file} cannot be read: Permission denied; nothing in it holds"]


def test_without_a_home_nothing_is_remembered() -> None:
    assert read(None) == (Answers(), [])
    with pytest.raises(FileNotFoundError, match="no home folder"):
        TrustFile(None).add(ALL)


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "settings").mkdir()
    file = tmp_path / "settings" / "trust.json"
    home = tmp_path / "home"
    home.mkdir()
    (home / "trust.json").symlink_to(file)
    TrustFile(home).add(ALL)
    TrustFile(home).add(Answers())
    assert (home / "trust.json").is_symlink()
    assert read(home) == (ALL, [])


def test_of_two_that_answer_at_once_neither_answer_is_lost(tmp_path: Path) -> None:
    def answer(name: str) -> None:
        for number in range(20):
            TrustFile(tmp_path).add(Answers(frozenset({f"https://{name}{number}"})))

    threads = [threading.Thread(target=answer, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(read(tmp_path)[0].origins) == 60


# -- what a program is ------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    script(folder / "model.sh", "echo one")
    monkeypatch.chdir(folder)
    return folder


def script(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


def digest(endpoint: str) -> str | None:
    """Return the digest of what `endpoint` means in the working directory."""
    program = program_of(endpoint, str(Path.cwd()))
    assert program is not None
    return program.digest


def test_a_program_is_named_by_its_whole_path_and_its_arguments(project: Path) -> None:
    found = program_of("run://./model.sh -v 'a b'", str(project))
    assert found == Program(
        f"{project}/model.sh",
        f"{project}/model.sh -v 'a b'",
        None,
        digest("run://./model.sh -v 'a b'"),
    )
    by_path = program_of("run://sh -c true", str(project))
    assert by_path is not None
    assert by_path.path.endswith("/sh")
    recording = program_of("replay://it is one.json", str(project))
    assert recording is not None
    assert recording.path == f"{project}/it is one.json"


@pytest.mark.parametrize("endpoint", ["run://./none", "run://'", "run:// ", "run://./notes.txt"])
def test_what_cannot_be_run_is_no_program(endpoint: str, project: Path) -> None:
    (project / "notes.txt").write_text("")
    assert program_of(endpoint, str(project)) is None


def test_the_digest_is_the_same_as_long_as_everything_is(project: Path) -> None:
    before = digest("run://./model.sh -v")
    assert before == digest("run://./model.sh   -v")
    os.utime(project / "model.sh", (0, 0))
    assert before == digest("run://./model.sh -v")


def test_the_digest_changes_with_content_arguments_folder_and_the_target_of_a_link(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "input.py").write_text("1")
    script(project / "same.sh", "echo one")
    (project / "link.sh").symlink_to("model.sh")
    seen = {digest("run://./model.sh"), digest("run://./model.sh -v"), digest("run://./same.sh")}
    seen |= {digest("replay://./model.sh"), digest("run://./link.sh")}
    seen |= {digest("run://sh input.py"), digest("run://sh ./input.py")}
    assert len(seen) == 7
    (project / "link.sh").unlink()
    (project / "link.sh").symlink_to("same.sh")
    (project / "input.py").write_text("2")
    seen |= {digest("run://./link.sh"), digest("run://sh input.py")}
    script(project / "model.sh", "echo two")
    seen |= {digest("run://./model.sh")}
    monkeypatch.chdir(project.parent)
    seen |= {digest("run://sh input.py"), digest(f"run://{project}/same.sh")}
    assert len(seen) == 12


def test_a_link_is_told_with_its_target(project: Path) -> None:
    (project / "link.sh").symlink_to("model.sh")
    found = program_of("run://./link.sh", str(project))
    assert found is not None
    assert (found.path, found.target) == (f"{project}/link.sh", f"{project}/model.sh")


def test_what_is_too_large_or_cannot_be_read_cannot_be_told_from_another_one() -> None:
    with open_folder() as folder:
        for name in ("huge", "secret"):
            script(folder / name, "true")
        os.truncate(folder / "huge", (256 << 20) + 1)
        assert program_of(f"replay://{folder}/huge", str(folder)) == Program(
            f"{folder}/huge", f"{folder}/huge", None, None
        )
        (folder / "secret").chmod(0)
        with ordinary_user():
            unread = program_of(f"replay://{folder}/secret", str(folder))
    assert unread is not None
    assert unread.digest is None


# -- the questions ----------------------------------------------------------------------------


ENDPOINT = (
    "This folder's {file} sends your prompts to {name}, and runs what it answers. Continue? [y/N] "
)
UNENCRYPTED = "{name} is unencrypted: whoever is on the way can read and change what is sent."


class Stage:
    """A project, its home, a server behind a proxy that sees every packet."""

    def __init__(self, folder: Path, server: LLMServer, proxy: HTTPProxy) -> None:
        self.home = folder
        self.project = folder / "project"
        self.server = server
        self.proxy = proxy
        self.name = server.url.removesuffix("/v1").replace("127.0.0.1", "model.invalid")
        self.url = f"{self.name}/v1"

    def configure(self, *lines: str, file: str = ".bantam.cfg") -> None:
        (self.project / file).write_text("".join(f"{line}\n" for line in lines))

    def environment(self, **more: str) -> dict[str, str]:
        return {"HTTP_PROXY": self.proxy.url, "HTTPS_PROXY": self.proxy.url, **more}

    @contextmanager
    def bantam(self, *arguments: str, **more: str) -> Iterator[Typist]:
        """Start Bantam on a terminal: one shot, unless there are other arguments."""
        program = (*BANTAM, *(arguments or ("-p", "Go.")))
        how = {"HOME": str(self.home), **self.environment(**more)}
        with typist(self.project, program=program, env=how, columns=200) as one:
            yield one

    def piped(self, *arguments: str, **more: str) -> tuple[int, str]:
        """Run Bantam without a terminal; return its exit status and what it said."""
        ended = run(
            *(arguments or ("-p", "Go.")),
            cwd=self.project,
            env=environment(self.home, **self.environment(**more)),
        )
        return ended.returncode, ended.stderr.decode()

    @property
    def trusted(self) -> Answers:
        return read(self.home / ".bantam")[0]

    @property
    def keys(self) -> list[str | None]:
        """The keys that were sent with prompts."""
        return [request.headers.get("authorization") for request in self.server.chat]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    (tmp_path / "project").mkdir()
    with LLMServer([text("All is well.")], repeat_last=True) as server, HTTPProxy() as proxy:
        yield Stage(tmp_path, server, proxy)


def answered(one: Typist, question: str, keys: str) -> None:
    """Wait for `question`, to the letter, and press `keys`."""
    one.until(lambda: one.raw.endswith(question.encode()))
    one.type(keys)


@pytest.mark.parametrize(
    ("file", "answer"), [(".bantam.cfg", "y"), ("model.cfg", "yes"), (".bantam.cfg", " YES ")]
)
def test_an_endpoint_is_asked_about_once_ever_and_before_the_first_packet(
    file: str, answer: str, stage: Stage
) -> None:
    stage.configure(f"endpoint={stage.url}", file=file)
    question = ENDPOINT.format(file=file, name=stage.name)
    with stage.bantam() as one:
        one.until(lambda: one.raw.endswith(question.encode()))
        assert one.lines[0] == UNENCRYPTED.format(name=stage.name)
        assert stage.proxy.targets == []
        one.type(f"{answer}\r")
        assert one.end() == 0
        assert "All is well." in one.lines
    assert stage.trusted == Answers(frozenset({stage.name}))
    elsewhere = stage.home / "elsewhere"
    elsewhere.mkdir()
    stage.project = elsewhere
    stage.configure(f"endpoint={stage.url}/other?x=1")
    stage.configure(f"endpoint={stage.url}")
    with stage.bantam() as again:
        assert again.end() == 0
        assert b"Continue?" not in again.raw
    assert stage.piped()[0] == 0
    assert len(stage.server.chat) == 3


def test_the_question_is_the_one_of_the_specification(stage: Stage) -> None:
    stage.configure("endpoint=HTTPS://X.example:443/v1/chat/completions?a=b")
    with stage.bantam() as one:
        one.until(lambda: one.raw.endswith(b"Continue? [y/N] "))
        assert one.raw.decode() == (
            "This folder's .bantam.cfg sends your prompts to https://x.example, and runs what it "
            "answers. Continue? [y/N] "
        )
        one.type("n\r")
        assert one.end() == 2


@pytest.mark.parametrize("keys", ["\r", "n\r", "no\r", "yess\r", "j\r", "y n\r", "\x04"])
def test_everything_else_is_no_and_nothing_is_sent(keys: str, stage: Stage) -> None:
    stage.configure(f"endpoint={stage.url}")
    for _ in range(2):  # a no is not remembered
        with stage.bantam() as one:
            answered(one, ENDPOINT.format(file=".bantam.cfg", name=stage.name), keys)
            assert one.end() == 2
            assert "nothing was sent" in one.raw.decode()
    assert stage.proxy.targets == []
    assert not (stage.home / ".bantam").exists()


@pytest.mark.parametrize("keys", ["\x03", "y\x03"])
def test_ctrl_c_at_the_question_ends_the_run(keys: str, stage: Stage) -> None:
    stage.configure(f"endpoint={stage.url}")
    with stage.bantam() as one:
        answered(one, ENDPOINT.format(file=".bantam.cfg", name=stage.name), keys)
        assert one.end() == 130
    assert stage.proxy.targets == []
    assert not (stage.home / ".bantam").exists()


def test_the_prompt_asks_before_it_begins(stage: Stage) -> None:
    stage.configure(f"endpoint={stage.url}")
    question = ENDPOINT.format(file=".bantam.cfg", name=stage.name)
    with stage.bantam("-o", "model=scripted") as one:
        answered(one, question, "n\r")
        assert one.end() == 2
    with stage.bantam("-o", "model=scripted") as one:
        answered(one, question, "y\r")
        one.ready()
        assert "scripted at model.invalid" in "".join(one.lines)
        one.type("\x04")
        assert one.end() == 0


@pytest.mark.parametrize("redirection", ["</dev/null", "2>said"])
def test_without_a_terminal_at_both_ends_nobody_is_asked(redirection: str, stage: Stage) -> None:
    stage.configure(f"endpoint={stage.url}")
    line = f"exec {' '.join(BANTAM)} -p Go. {redirection}"
    how = {"HOME": str(stage.home), **stage.environment()}
    with typist(stage.project, program=("sh", "-c", line), env=how, columns=200) as one:
        assert one.end() == 2
        said = stage.project / "said"
        told = one.raw.decode() + (said.read_text() if said.exists() else "")
    assert "Continue?" not in told
    assert f"BANTAM_TRUST={stage.name}" in told
    assert stage.proxy.targets == []


def test_standard_output_may_be_a_file(stage: Stage) -> None:
    stage.configure(f"endpoint={stage.url}")
    line = f"exec {' '.join(BANTAM)} -p Go. --json >events"
    how = {"HOME": str(stage.home), **stage.environment()}
    with typist(stage.project, program=("sh", "-c", line), env=how, columns=200) as one:
        answered(one, ENDPOINT.format(file=".bantam.cfg", name=stage.name), "y\r")
        assert one.end() == 0
    lines = (stage.project / "events").read_text().splitlines()
    assert json.loads(lines[0])["type"] == "turn_start"


def test_what_was_typed_before_the_question_does_not_answer_it(stage: Stage) -> None:
    stage.configure(f"endpoint={stage.url}")
    os.mkfifo(stage.project / "go")
    line = f"echo waiting; cat go; exec {' '.join(BANTAM)} -p Go."
    how = {"HOME": str(stage.home), **stage.environment()}
    with typist(stage.project, program=("sh", "-c", line), env=how, columns=200) as one:
        one.shows("waiting")
        one.type("y\r")
        one.looks("waiting", "y")
        (stage.project / "go").write_text("")
        answered(one, ENDPOINT.format(file=".bantam.cfg", name=stage.name), "n\r")
        assert one.end() == 2
    assert stage.proxy.targets == []


def test_an_answer_is_remembered_without_a_session_too(stage: Stage) -> None:
    stage.configure(f"endpoint={stage.url}")
    with stage.bantam("--no-session", "-p", "Go.") as one:
        answered(one, ENDPOINT.format(file=".bantam.cfg", name=stage.name), "y\r")
        assert one.end() == 0
    assert [path.name for path in (stage.home / ".bantam").iterdir()] == ["trust.json"]


def test_where_nothing_can_be_kept_the_answer_holds_for_this_run(stage: Stage) -> None:
    stage.configure(f"endpoint={stage.url}")
    (stage.home / "file").write_text("")
    for _ in range(2):
        with stage.bantam(BANTAM_HOME=str(stage.home / "file" / "home")) as one:
            answered(one, ENDPOINT.format(file=".bantam.cfg", name=stage.name), "y\r")
            assert one.end() == 0
            said = [line for line in one.lines if "this answer holds" in line]
        assert len(said) == 1
        assert "this answer holds for this run alone" in said[0]


def test_a_damaged_file_is_told_and_nothing_is_trusted(stage: Stage) -> None:
    stage.configure(f"endpoint={stage.url}")
    TrustFile(stage.home / ".bantam").add(Answers(frozenset({stage.name})))
    file = stage.home / ".bantam" / "trust.json"
    file.write_bytes(file.read_bytes()[:-5])
    status, said = stage.piped()
    assert status == 2
    assert "trust.json is damaged: it is no JSON" in said
    assert "Traceback" not in said
    assert stage.proxy.targets == []
    with stage.bantam() as one:
        answered(one, ENDPOINT.format(file=".bantam.cfg", name=stage.name), "y\r")
        assert one.end() == 0
    assert stage.piped()[0] == 0


def test_trust_accepts_for_one_run_and_only_what_the_folder_said_at_its_start(
    stage: Stage,
) -> None:
    stage.configure(f"endpoint={stage.url}", "model=m")
    assert stage.piped("--trust", "-p", "Go.")[0] == 0
    assert stage.trusted == Answers()
    other = "!printf 'endpoint=http://other.invalid:1/v1\\n' >.bantam.cfg\n/cfg top_p 1\nGo.\n"
    ended = run(
        "--trust",
        cwd=stage.project,
        env=environment(stage.home, **stage.environment()),
        stdin=other.encode(),
    )
    assert "gets your prompts" in ended.stderr.decode()
    assert {target.partition(":")[0] for target in stage.proxy.targets} == {"model.invalid"}


# -- programs ---------------------------------------------------------------------------------


def program_in(stage: Stage, answer: str = "One.") -> Path:
    """Let the folder's endpoint be a program that says `answer` and leaves a mark."""
    reply = json.dumps({"choices": [{"message": {"role": "assistant", "content": answer}}]})
    path = stage.project / "model.sh"
    script(path, f"touch ran; cat >/dev/null; echo '{reply}'")
    stage.configure("endpoint=run://./model.sh -v")
    return path


def test_a_program_is_asked_about_before_it_runs_and_again_when_it_has_changed(
    stage: Stage,
) -> None:
    path = program_in(stage)
    question = (
        f"This folder's .bantam.cfg starts {path} -v, sends your prompts to it, and runs what it "
        "answers. Continue? [y/N] "
    )
    with stage.bantam() as one:
        answered(one, question, "n\r")
        assert one.end() == 2
    assert not (stage.project / "ran").exists()
    with stage.bantam() as one:
        answered(one, question, "y\r")
        assert one.end() == 0
    assert [*stage.trusted.programs.values()] == [str(path)]
    assert stage.piped()[0] == 0
    (stage.project / "ran").unlink()
    program_in(stage, "Two.")
    status, said = stage.piped()
    assert (status, (stage.project / "ran").exists()) == (2, False)
    assert "plays the model" in said
    with stage.bantam() as one:
        answered(one, question, "y\r")
        assert one.end() == 0
        assert "Two." in one.lines


def test_a_link_is_shown_with_where_it_leads_and_asked_about_when_that_changes(
    stage: Stage,
) -> None:
    path = program_in(stage)
    for name in ("a.sh", "b.sh"):
        (stage.project / name).write_bytes(path.read_bytes())
        (stage.project / name).chmod(0o755)
    path.unlink()
    for name in ("a.sh", "b.sh"):
        path.unlink(missing_ok=True)
        path.symlink_to(name)
        with stage.bantam() as one:
            shown = f"starts {path} -v (a link to {stage.project}/{name}), sends your prompts"
            one.until(lambda: one.raw.endswith(b"Continue? [y/N] "))
            assert shown in one.raw.decode()
            one.type("y\r")
            assert one.end() == 0


def test_a_recording_is_asked_about(stage: Stage) -> None:
    path = stage.project / "said.json"
    path.write_text(
        '[{"role": "user", "content": "Go."}, {"role": "assistant", "content": "Yes."}]'
    )
    stage.configure("endpoint=replay://said.json")
    with stage.bantam() as one:
        question = f"This folder's .bantam.cfg takes answers from {path}, and runs what they say. "
        answered(one, f"{question}Continue? [y/N] ", "y\r")
        assert one.end() == 0
        assert "Yes." in one.lines
    assert stage.piped()[0] == 0


def test_a_program_that_cannot_be_run_is_no_question(stage: Stage) -> None:
    stage.configure("endpoint=run://./none")
    with stage.bantam() as one:
        assert one.end() == 2
        assert b"Continue?" not in one.raw


def test_what_cannot_be_told_from_another_one_is_asked_about_each_time(stage: Stage) -> None:
    path = program_in(stage)
    os.truncate(stage.project / "model.sh", (256 << 20) + 1)
    for _ in range(2):
        with stage.bantam() as one:
            one.until(lambda: one.raw.endswith(b"Continue? [y/N] "))
            one.type("y\r")
            one.until(lambda: b"for this run alone: its files cannot be told" in one.raw)
    assert path.exists()
    assert stage.trusted == Answers()


DISGUISES = [
    ("run://./model.sh '. Continue? [y/N] '", "starts {path} '. Continue? [y/N] ', sends your"),
    (
        "run://./model.sh ' sends your prompts to https://api.openai.com'",
        "starts {path} ' sends your prompts to https://api.openai.com', sends your prompts to it",
    ),
]


@pytest.mark.parametrize(("endpoint", "shown"), DISGUISES, ids=range(2))
def test_a_value_that_looks_like_a_question_is_quoted_in_it(
    endpoint: str, shown: str, stage: Stage
) -> None:
    path = program_in(stage)
    stage.configure(f"endpoint={endpoint}")
    with stage.bantam() as one:
        one.until(lambda: one.raw.endswith(b"and runs what it answers. Continue? [y/N] "))
        assert shown.format(path=path) in one.raw.decode()
        one.type("n\r")
        assert one.end() == 2


ALL_IS_WELL = "bantam: all is well. This folder uses api.openai.com"
TOO_LONG = {
    "a host": "https://" + "a" * 1800 + ".example",
    "an argument": "run://./model.sh " + "a" * 1800,
    "a screenful": "run://./model.sh " + "-" * 1700 + f" '{ALL_IS_WELL}'",
    "wide characters": "run://./model.sh " + "\u4e2d\u6587" * 440,
}
on_screens = pytest.mark.parametrize("size", [(80, 24), (40, 12)], ids=["80x24", "40x12"])
in_modes = pytest.mark.parametrize("arguments", [("-p", "Go."), ()], ids=["one shot", "prompt"])


@contextmanager
def on_a_screen(
    stage: Stage, size: tuple[int, int], arguments: tuple[str, ...]
) -> Iterator[Typist]:
    program = (*BANTAM, *arguments)
    how = {"HOME": str(stage.home), **stage.environment()}
    columns, rows = size
    with typist(stage.project, program=program, env=how, columns=columns, rows=rows) as one:
        yield one


@on_screens
@in_modes
@pytest.mark.parametrize("kind", TOO_LONG)
@pytest.mark.parametrize("color", ["always", "never"])
def test_what_this_screen_does_not_show_whole_is_not_asked_and_that_is_said(
    kind: str, color: str, arguments: tuple[str, ...], size: tuple[int, int], stage: Stage
) -> None:
    program_in(stage)
    stage.configure(f"endpoint={TOO_LONG[kind]}", "model=m", f"color={color}")
    with on_a_screen(stage, size, arguments) as one:
        assert one.end() == 2
        assert b"Continue?" not in one.raw
        said = "".join(one.screen.display)
        assert "the question about the endpoint in .bantam.cfg does not fit on this screen" in said
        assert "nothing was sent" in said
        assert "use -o endpoint=, or --trust" in said
    assert stage.proxy.targets == []
    assert not (stage.project / "ran").exists()


@on_screens
@in_modes
@pytest.mark.parametrize("filling", ["- " * 40, "\u4e2d" * 20], ids=["narrow", "wide"])
def test_what_is_asked_is_on_the_screen_from_its_beginning_on(
    filling: str, arguments: tuple[str, ...], size: tuple[int, int], stage: Stage
) -> None:
    """The question takes what it may at most: all of the screen but two rows, or nearly."""
    path = program_in(stage)
    start, end = f"This folder's .bantam.cfg starts {path} '", ", sends your prompts to it, and "
    end = f"'{end}runs what it answers. Continue? [y/N]"
    columns, rows = size
    room = columns * (rows - 2) - len(start) - len(end) - columns
    argument = (filling * 100)[: room // 2]
    stage.configure(f"endpoint=run://./model.sh '{argument}'", "model=m")
    with on_a_screen(stage, size, arguments) as one:
        one.until(lambda: "".join(one.screen.display).rstrip().endswith("Continue? [y/N]"))
        assert "".join(one.screen.display).startswith(start)
        one.type("n\r")
        assert one.end() == 2


@on_screens
def test_blanks_do_not_push_the_question_off_the_screen(
    size: tuple[int, int], stage: Stage
) -> None:
    path = program_in(stage)
    stage.configure(f"endpoint=run://./model.sh '{' ' * 3000}{ALL_IS_WELL}'", "model=m")
    with on_a_screen(stage, size, ("-p", "Go.")) as one:
        one.until(lambda: "".join(one.screen.display).rstrip().endswith("Continue? [y/N]"))
        shown = f"This folder's .bantam.cfg starts {path} ' … 3000 blanks … {ALL_IS_WELL}', sends"
        assert "".join(one.screen.display).startswith(shown)
        one.type("n\r")
        assert one.end() == 2


def test_a_key_among_the_arguments_is_neither_shown_nor_stored(stage: Stage) -> None:
    program_in(stage)
    stage.configure(f"endpoint=run://./model.sh {KEY}")
    with stage.bantam("--no-session", "-p", "Go.", OPENAI_API_KEY=KEY) as one:
        one.until(lambda: one.raw.endswith(b"and runs what it answers. Continue? [y/N] "))
        assert b"model.sh [key], sends" in one.raw
        one.type("y\r")
        assert one.end() == 0
        assert KEY.encode() not in one.raw
    assert KEY not in (stage.home / ".bantam" / "trust.json").read_text()


def test_a_folder_s_name_cannot_act_on_the_terminal(stage: Stage) -> None:
    stage.project = stage.home / "a\x1b[2J\u202eb\nThis folder is safe."
    stage.project.mkdir()
    program_in(stage)
    with stage.bantam() as one:
        one.until(lambda: one.raw.endswith(b"and runs what it answers. Continue? [y/N] "))
        assert b"\x1b" not in one.raw
        assert b"\n" not in one.raw
        assert "\u202e" not in one.raw.decode()
        one.type("n\r")
        assert one.end() == 2


# -- keys -------------------------------------------------------------------------------------


def key_question(stage: Stage) -> str:
    return f"Send your OPENAI_API_KEY to {stage.name}? [y/N] "


@pytest.mark.parametrize(("keys", "sent"), [("y\r", f"Bearer {KEY}"), ("n\r", None)])
def test_the_key_of_the_environment_is_asked_about_once_either_way(
    keys: str, sent: str | None, stage: Stage
) -> None:
    own = ("-o", f"endpoint={stage.url}", "-o", "model=m", "-p", "Go.")
    with stage.bantam(*own, OPENAI_API_KEY=KEY) as one:
        answered(one, key_question(stage), keys)
        assert one.end() == 0
        assert one.lines[0] == UNENCRYPTED.format(name=stage.name)
    with stage.bantam(*own, OPENAI_API_KEY=KEY) as one:
        assert one.end() == 0
        assert b"[y/N]" not in one.raw
    status, said = stage.piped(*own, OPENAI_API_KEY=KEY)
    assert (status, "is not sent" in said) == (0, False)
    assert stage.keys == [sent] * 3
    assert stage.trusted == Answers(keys={stage.name: sent is not None})


def test_without_a_terminal_or_an_answer_the_key_is_left_out_and_that_is_said(
    stage: Stage,
) -> None:
    own = ("-o", f"endpoint={stage.url}", "-o", "model=m", "-p", "Go.")
    status, said = stage.piped(*own, OPENAI_API_KEY=KEY)
    assert (status, f"OPENAI_API_KEY is not sent to {stage.name}" in said) == (0, True)
    with stage.bantam(*own, OPENAI_API_KEY=KEY) as one:
        answered(one, key_question(stage), "\x04")
        assert one.end() == 0
        assert f"OPENAI_API_KEY is not sent to {stage.name}" in one.raw.decode()
    assert stage.keys == [None, None]
    assert stage.trusted == Answers()


def test_an_accepted_endpoint_has_no_key_until_that_is_accepted_too(stage: Stage) -> None:
    stage.configure(f"endpoint={stage.url}", "model=m")
    with stage.bantam(OPENAI_API_KEY=KEY) as one:
        answered(one, ENDPOINT.format(file=".bantam.cfg", name=stage.name), "y\r")
        answered(one, key_question(stage), "n\r")
        assert one.end() == 0
    assert stage.keys == [None]
    assert stage.trusted == Answers(frozenset({stage.name}), {stage.name: False})


def test_a_refused_endpoint_is_not_asked_about_with_the_key(stage: Stage) -> None:
    stage.configure(f"endpoint={stage.url}")
    with stage.bantam(OPENAI_API_KEY=KEY) as one:
        answered(one, ENDPOINT.format(file=".bantam.cfg", name=stage.name), "n\r")
        assert one.end() == 2
        assert b"OPENAI_API_KEY" not in one.raw


def test_the_loopback_and_openai_need_no_question(stage: Stage) -> None:
    loopback = ("-o", f"endpoint={stage.server.url}", "-o", "model=m", "-p", "Go.")
    with stage.bantam(*loopback, OPENAI_API_KEY=KEY) as one:
        assert one.end() == 0
        assert b"[y/N]" not in one.raw
    assert stage.keys == [f"Bearer {KEY}"]


def test_the_start_line_says_that_a_refused_key_is_not_used(stage: Stage) -> None:
    own = ("-o", f"endpoint={stage.url}", "-o", "model=m")
    for keys, shown in (("n\r", "key: none"), ("", "key: none")):
        with stage.bantam(*own, OPENAI_API_KEY=KEY) as one:
            if keys:
                answered(one, key_question(stage), keys)
            one.ready()
            assert shown in "".join(one.lines)
            one.type("\x04")
            assert one.end() == 0


@pytest.mark.parametrize(("keys", "status"), [("y\r", 0), ("n\r", 2)])
def test_a_key_of_one_s_own_goes_unencrypted_only_once_that_is_accepted(
    keys: str, status: int, stage: Stage
) -> None:
    own = ("-o", f"endpoint={stage.url}", "-o", "model=m", "-o", "api_key=own-0123456", "-p", "Go.")
    assert stage.piped(*own)[0] == 2
    assert stage.proxy.targets == []
    with stage.bantam(*own) as one:
        answered(one, f"Send your api_key to {stage.name}? [y/N] ", keys)
        assert one.end() == status
        assert one.lines[0] == UNENCRYPTED.format(name=stage.name)
    assert stage.piped(*own)[0] == status
    assert stage.keys == [None if status else "Bearer own-0123456"] * (0 if status else 2)


def test_a_file_s_own_key_goes_with_its_endpoint(stage: Stage) -> None:
    stage.configure(f"endpoint={stage.url}", "model=m", "api_key=of-the-file")
    with stage.bantam(OPENAI_API_KEY=KEY) as one:
        answered(one, ENDPOINT.format(file=".bantam.cfg", name=stage.name), "y\r")
        assert one.end() == 0
        assert b"Send your" not in one.raw
    assert stage.keys == ["Bearer of-the-file"]


# -- /cfg endpoint ----------------------------------------------------------------------------


def typed(stage: Stage, *lines: str, **more: str) -> tuple[int, str]:
    """Pipe `lines` into Bantam's prompt; return its exit status and what it said."""
    ended = run(
        cwd=stage.project,
        env=environment(stage.home, **stage.environment(**more)),
        stdin="".join(f"{line}\n" for line in lines).encode(),
    )
    return ended.returncode, ended.stderr.decode()


def test_an_endpoint_that_is_set_at_the_prompt_is_the_user_s_word_for_ever(stage: Stage) -> None:
    status, said = typed(stage, f"/cfg endpoint {stage.url}", "/cfg model m", "Go.")
    assert status == 0, said
    assert UNENCRYPTED.format(name=stage.name) in said
    assert f"endpoint={stage.url}" in (stage.project / ".bantam.cfg").read_text()
    assert stage.trusted == Answers(frozenset({stage.name}))
    assert typed(stage, "Go.")[0] == 0
    assert len(stage.server.chat) == 2


def test_a_program_that_is_set_at_the_prompt_is_accepted_as_it_is(stage: Stage) -> None:
    path = program_in(stage)
    (stage.project / ".bantam.cfg").unlink()
    assert typed(stage, "/cfg endpoint run://./model.sh", "Go.")[0] == 0
    assert stage.piped()[0] == 0
    program_in(stage, "Changed.")
    stage.configure("endpoint=run://./model.sh")
    assert stage.piped()[0] == 2
    assert [*stage.trusted.programs.values()] == [str(path)]


def test_an_endpoint_that_could_not_be_set_is_not_accepted(stage: Stage) -> None:
    status, said = typed(stage, "/cfg api_key own-0123456", f"/cfg endpoint {stage.url}")
    assert status == 2
    assert "would go unencrypted" in said
    assert stage.trusted == Answers()
    assert stage.proxy.targets == []


def test_what_needs_no_question_is_not_remembered(stage: Stage) -> None:
    assert typed(stage, f"/cfg endpoint {stage.server.url}", '/cfg endpoint ""')[0] == 0
    assert not (stage.home / ".bantam" / "trust.json").exists()


def test_at_the_prompt_what_was_answered_about_keys_in_other_runs_holds(stage: Stage) -> None:
    TrustFile(stage.home / ".bantam").add(Answers(keys={stage.name: True}))
    loopback = f"endpoint={stage.server.url}"
    ended = run(
        *("-o", loopback, "-o", "model=m"),
        cwd=stage.project,
        env=environment(stage.home, **stage.environment(OPENAI_API_KEY=KEY)),
        stdin=f"/cfg endpoint {stage.url}\nGo.\n".encode(),
    )
    assert ended.returncode == 0, ended.stderr
    assert stage.keys == [f"Bearer {KEY}"]


def test_ctrl_c_at_the_prompt_s_question_ends_it(stage: Stage) -> None:
    stage.configure(f"endpoint={stage.url}")
    with stage.bantam("-o", "model=scripted") as one:
        answered(one, ENDPOINT.format(file=".bantam.cfg", name=stage.name), "\x03")
        assert one.end() == 130
