"""Promises of docs/security.md that whole runs show: calls that need a yes, and the sandbox."""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from llmserver import LLMServer, calls, shell, text, write
from program import BANTAM, at, environment, events, run
from sandboxes import site_for
from typist import Typist, typist

KEY: Final = "sk-0123456789-of-the-environment"
QUESTION: Final = b"[d]etails: "


class Stage:
    """A project and a home beside it."""

    def __init__(self, folder: Path) -> None:
        self.home, self.project = folder / "home", folder / "project"
        self.home.mkdir()
        self.project.mkdir()

    @contextmanager
    def bantam(self, server: LLMServer, *arguments: str) -> Iterator[Typist]:
        """Start it on a terminal that is wide enough for each line."""
        program = (*BANTAM, *at(server.url), "-o", "approve=ask", "-p", "Go.", *arguments)
        env = {"HOME": str(self.home)}
        with typist(self.project, program=program, env=env, columns=200) as one:
            yield one

    def files(self) -> set[str]:
        return {path.name for path in self.project.iterdir()}


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def answered(one: Typist, question: int, keys: str) -> None:
    """Wait for the question of this number, and answer it."""
    one.until(lambda: one.raw.count(QUESTION) == question and one.raw.endswith(QUESTION))
    one.type(keys)


def results(server: LLMServer, request: int) -> list[str]:
    """Return what the model was told of its calls in that request."""
    messages = server.chat[request].json["messages"]
    return [message["content"] for message in messages if message["role"] == "tool"]


# -- calls that need a yes --------------------------------------------------------------------


def test_no_call_runs_before_its_yes_and_a_no_reaches_the_model_with_its_reason(
    stage: Stage,
) -> None:
    replies = [shell("touch first"), write("second", "x", start=2), text("Done.")]
    with LLMServer(replies) as server, stage.bantam(server) as one:
        one.until(lambda: one.raw.endswith(QUESTION))
        assert stage.files() == set()
        answered(one, 1, "n use another name\r")
        answered(one, 2, "y\r")
        assert one.end() == 0
    assert stage.files() == {"second"}
    assert results(server, 1) == ["denied by the user: use another name"]


def test_what_is_allowed_for_the_session_is_kept_in_the_home_and_tells_nothing_of_the_call(
    stage: Stage,
) -> None:
    command = "echo word >>said"
    replies = [shell(command), shell(command, start=2), text("Done.")]
    with LLMServer([*replies, shell(command, start=3), text("Done.")]) as server:
        with stage.bantam(server) as one:
            answered(one, 1, "s\r")
            assert one.end() == 0
        with stage.bantam(server, "-c") as one:
            assert one.end() == 0
            assert QUESTION not in one.raw
    assert (stage.project / "said").read_text() == "word\n" * 3
    assert stage.files() == {"said"}
    (kept,) = (stage.home / ".bantam" / "sessions").glob("*.allowed")
    assert kept.stat().st_mode & 0o777 == 0o600
    assert "word" not in kept.read_text()


def test_another_conversation_begins_with_nothing_allowed(stage: Stage) -> None:
    replies = [shell("touch first"), text("Done.")]
    with LLMServer([*replies, *replies]) as server:
        with stage.bantam(server) as one:
            answered(one, 1, "a\r")
            assert one.end() == 0
        with stage.bantam(server) as one:
            answered(one, 1, "n\r")
            assert one.end() == 0
    assert results(server, 3) == ["denied by the user"]


EDITS: Final = "<<<<<<< SEARCH\nold\n=======\nmine\n>>>>>>> REPLACE"


@pytest.mark.parametrize("tool", ["write_file", "edit_file"])
def test_a_file_that_changes_before_its_yes_is_shown_again_and_not_written_unseen(
    tool: str, stage: Stage
) -> None:
    file = stage.project / "notes"
    file.write_text("old\n")
    wanted: dict[str, object] = {"path": "notes", "edits": EDITS}
    if tool == "write_file":
        wanted = {"path": "notes", "content": "mine\n", "del_bytes": 99}
    answers = [calls((tool, wanted)), calls((tool, wanted), start=2), text("Done.")]
    offered = "-otools=shell_exec,write_file,edit_file"
    with LLMServer(answers) as server, stage.bantam(server, offered) as one:
        one.until(lambda: one.raw.count(QUESTION) == 1)
        file.write_text("theirs\nold\n")
        one.type("y\r")
        one.until(lambda: one.raw.count(QUESTION) == 2)
        assert b"the file has changed since it was shown" in one.raw
        assert b" theirs" in one.raw or b"-theirs" in one.raw
        assert file.read_text() == "theirs\nold\n"
        one.type("n\r")
        answered(one, 3, "y\r")
        assert one.end() == 0
    assert results(server, 1) == ["denied by the user"]
    assert file.read_text() == ("mine\n" if tool == "write_file" else "theirs\nmine\n")


def test_a_link_that_leads_elsewhere_before_its_yes_is_not_followed_unseen(stage: Stage) -> None:
    outside = stage.home / "startup"
    for file in (outside, stage.project / "inside"):
        file.write_text("same\n")
    link = stage.project / "link"
    link.symlink_to("inside")
    replies = [write("link", "mine\n", del_bytes=99), text("Done.")]
    with LLMServer(replies) as server, stage.bantam(server) as one:
        one.until(lambda: one.raw.count(QUESTION) == 1)
        link.unlink()
        link.symlink_to(outside)
        one.type("y\r")
        one.until(lambda: one.raw.count(QUESTION) == 2)
        assert f"which is {outside}".encode() in one.raw
        one.type("n\r")
        assert one.end() == 0
    assert outside.read_text() == (stage.project / "inside").read_text() == "same\n"


@pytest.mark.parametrize("answer", ["s", "a"])
def test_what_is_allowed_in_one_folder_is_asked_about_where_the_session_goes_on_in_another(
    answer: str, stage: Stage, tmp_path: Path
) -> None:
    replies = [shell("touch mark"), text("Done."), shell("touch mark", start=2), text("Done.")]
    other = tmp_path / "other"
    other.mkdir()
    with LLMServer(replies) as server:
        with stage.bantam(server) as one:
            answered(one, 1, f"{answer}\r")
            assert one.end() == 0
        (stored,) = (stage.home / ".bantam" / "sessions").glob("*.json")
        stage.project = other
        with stage.bantam(server, "-r", stored.stem) as one:
            answered(one, 1, "n\r")
            assert one.end() == 0
    assert list(other.iterdir()) == []


def test_all_that_was_allowed_of_what_is_risky_does_not_answer_where_all_is_asked_about(
    stage: Stage,
) -> None:
    (stage.project / "old").touch()
    replies = [shell("rm old"), text("Done."), shell("touch new", start=2), text("Done.")]
    with LLMServer(replies) as server:
        with stage.bantam(server, "-oapprove=risky") as one:
            answered(one, 1, "a\r")
            assert one.end() == 0
        with stage.bantam(server, "-c") as one:
            answered(one, 1, "n\r")
            assert one.end() == 0
    assert stage.files() == set()


@pytest.mark.parametrize("mode", ["ask", "risky"])
def test_without_a_terminal_a_needed_yes_is_a_no_whatever_the_folder_says(
    stage: Stage, mode: str
) -> None:
    (stage.project / "precious").write_text("x")
    with LLMServer([shell("rm precious"), text("I see.")]) as server:
        (stage.project / ".bantam.cfg").write_text(f"endpoint={server.url}\napprove=auto\n")
        how = environment(stage.home)
        ended = run("-o", f"approve={mode}", "-p", "Go.", cwd=stage.project, env=how)
    assert (ended.returncode, ended.stdout) == (0, b"I see.")
    assert (stage.project / "precious").exists()
    assert results(server, 1)[0].startswith("denied: nobody can be asked here")


# -- the sandbox ------------------------------------------------------------------------------


def tried(ways: Sequence[str]) -> str:
    """Return a command that tries each, and says which it came through by."""
    return "\n".join(f"({way}) 2>&1 && echo through: {number}" for number, way in enumerate(ways))


@pytest.mark.parametrize("sandbox", ["off", "on"])
def test_a_folder_does_not_get_out_of_the_sandbox_that_its_user_wants(sandbox: str) -> None:
    replies = [text("Done.")]
    with site_for("this") as site, LLMServer(lambda *_: replies.pop(0)) as server:
        (site.home / ".ssh").mkdir()
        (site.home / ".ssh" / "id").write_text("a private key")
        subprocess.run(["git", "init", "-q", str(site.project)], check=True)
        port = server.url.rpartition(":")[2].removesuffix("/v1")
        ways = [
            "cat ~/.ssh/id",
            'test "$OPENAI_API_KEY"',
            "echo x >../outside",
            "echo x >.git/hooks/pre-commit",
            "echo top_p=1 >>.bantam.cfg",
            f"echo >/dev/tcp/127.0.0.1/{port}",
        ]
        files = [write(name, "x", start=n) for n, name in enumerate(("../mine", ".git/mine"), 2)]
        replies[:0] = [shell(f"{tried(ways)}\necho in >in"), *files]
        (site.project / ".bantam.cfg").write_text(f"endpoint={server.url}\nmodel=m\nsandbox=off\n")
        how = environment(site.home, BANTAM_SANDBOX=sandbox, OPENAI_API_KEY=KEY)
        ended = run("--json", "-p", "Go.", cwd=site.project, env=how)
        assert ended.returncode == 0, ended.stderr
        told = [event for event in events(ended.stdout) if event["type"] == "tool_result"]
        through = told[0]["text"].count("through: ")
        assert (site.project / "in").read_text() == "in\n"
        assert (site.folder / "outside").exists() is (sandbox == "off")
        assert (site.folder / "mine").exists() is (sandbox == "off")
        assert (site.project / ".git" / "mine").exists() is (sandbox == "off")
    assert through == (len(ways) if sandbox == "off" else 0)


def test_without_its_sandbox_a_run_ends_before_anything_is_sent(stage: Stage) -> None:
    with LLMServer([]) as server:
        how = environment(stage.home, PATH="/nowhere", BANTAM_SANDBOX="on")
        ended = run(*at(server.url), "-p", "Go.", cwd=stage.project, env=how)
    assert ended.returncode == 2
    assert b"BANTAM_SANDBOX=on: " in ended.stderr
    assert server.requests == []
