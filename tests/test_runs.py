"""--undo and --replay, by real processes."""

import json
import signal
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from llmserver import LLMServer, Reply, shell, text, write
from processes import eventually
from program import at, environment, run, start

from bantam.core.messages import Role
from bantam.sessions.snapshot import parsed
from bantam.sessions.store import project_id


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def bantam(project: Path, *arguments: str) -> CompletedProcess[bytes]:
    """Run Bantam in `project`; the sessions are beside it."""
    return run(*arguments, cwd=project, env=at_home(project))


def at_home(project: Path) -> dict[str, str]:
    return environment(project.parent)


def stored(project: Path) -> Path:
    return project.parent / ".bantam" / "sessions" / f"{project_id(project)}.json"


def prompts(project: Path) -> list[str]:
    """Return the user messages of the project's session."""
    _, conversation = parsed(stored(project).read_bytes())
    return [m.content for m in conversation.messages if m.role is Role.USER]


def worked(server: LLMServer, project: Path, prompt: str = "Work.") -> None:
    """Run one turn that goes on from the one before."""
    ended = bantam(project, *at(server.url), "-c", "-p", prompt)
    assert ended.returncode == 0, ended.stderr


# -- undo -------------------------------------------------------------------------------------


def test_undo_puts_back_the_files_of_the_last_turn_and_tells_what_it_cannot(project: Path) -> None:
    (project / "old.txt").write_text("old\n")
    replies = [
        write("old.txt", "new\n"),
        write("made/new.txt", "x", start=2),
        shell("touch by-shell", start=3),
        text("Done."),
    ]
    with LLMServer(replies) as server:
        worked(server, project)
    assert (project / "old.txt").read_text() == "new\nold\n"
    ended = bantam(project, "--undo")
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert ended.stdout.decode().splitlines() == [
        "put back old.txt",
        "removed made/new.txt",
        "cannot be undone: touch by-shell",
    ]
    assert sorted(path.name for path in project.iterdir()) == ["by-shell", "old.txt"]
    assert (project / "old.txt").read_text() == "old\n"


def test_the_model_hears_of_an_undo(project: Path) -> None:
    with LLMServer([write("a.txt", "x"), text("Done."), text("I see.")]) as server:
        worked(server, project)
        bantam(project, "--undo")
        worked(server, project, "And now?")
        last = server.chat[-1].json["messages"][-1]["content"]
    assert last == f"(The user has undone your last changes of {project}/a.txt.)\n\nAnd now?"


def test_undo_again_goes_back_one_turn_more(project: Path) -> None:
    turns = [write("a.txt", "1"), text("One."), write("a.txt", "2"), text("Two."), text("Three.")]
    with LLMServer(turns) as server:
        for _ in range(3):
            worked(server, project)
    said = [bantam(project, "--undo").stdout.decode().strip() for _ in range(4)]
    assert said == [
        "the last turn wrote no files; undo again for the one before",
        "put back a.txt",
        "removed a.txt",
        "there is nothing to undo",
    ]
    assert not (project / "a.txt").exists()


def test_a_file_changed_since_is_refused_by_name_and_the_others_are_put_back(project: Path) -> None:
    with LLMServer([write("a.txt", "a"), write("b.txt", "b", start=2), text("Done.")]) as server:
        worked(server, project)
    (project / "a.txt").write_text("mine")
    ended = bantam(project, "--undo")
    assert ended.returncode == 1
    assert ended.stdout.decode().splitlines() == [
        "removed b.txt",
        "not put back: a.txt: changed since",
    ]
    assert (project / "a.txt").read_text() == "mine"
    (project / "a.txt").write_text("a")
    again = bantam(project, "--undo")
    assert (again.returncode, again.stdout) == (0, b"removed a.txt\n")


def test_undo_takes_a_session_by_name_and_none_that_is_at_work(project: Path) -> None:
    elsewhere = project.parent / "elsewhere"
    elsewhere.mkdir()
    with LLMServer([write("a.txt", "a"), text("Done."), shell("touch on; sleep 60")]) as server:
        worked(server, project)
        named = bantam(elsewhere, "--undo", "-r", project_id(project)[:9])
        assert (named.returncode, named.stdout) == (0, f"removed {project}/a.txt\n".encode())
        with start(*at(server.url), "-c", "-p", "x", cwd=project, env=at_home(project)) as busy:
            assert eventually((project / "on").exists)
            refused = bantam(project, "--undo")
            busy.send_signal(signal.SIGINT)
            busy.communicate()
    assert (refused.returncode, refused.stdout) == (1, b"")
    said = f"bantam: another Bantam works on the session {project_id(project)}; end it first\n"
    assert refused.stderr == said.encode()
    assert {path.suffix for path in stored(project).parent.iterdir()} == {".json", ".undo"}


def test_without_a_session_there_is_nothing_to_undo(project: Path) -> None:
    ended = bantam(project, "--undo")
    assert (ended.returncode, ended.stdout) == (0, b"there is nothing to undo\n")
    assert not stored(project).exists()


def test_names_of_undone_files_cannot_act_on_a_terminal(project: Path) -> None:
    with LLMServer([write("a\n[2Jb.txt", "x"), text("Done.")]) as server:
        worked(server, project)
    ended = bantam(project, "--undo")
    assert ended.stdout == b"removed a\\n[2Jb.txt\n"


# -- a stored session that is not written -------------------------------------------------------


def test_no_session_goes_on_from_a_session_and_leaves_it_as_it_is(project: Path) -> None:
    with LLMServer([text("One."), text("Two.")]) as server:
        worked(server, project, "First.")
        before = stored(project).read_bytes()
        bantam(project, *at(server.url), "--no-session", "-c", "-p", "Second.")
        said = [m["content"] for m in server.chat[-1].json["messages"][1:]]
    assert said == ["First.", "One.", "Second."]
    assert stored(project).read_bytes() == before


def test_with_no_session_a_damaged_one_is_told_and_left_where_it_is(project: Path) -> None:
    with LLMServer([text("One."), text("Two.")]) as server:
        worked(server, project)
        stored(project).write_text("{")
        new = bantam(project, *at(server.url), "--no-session", "-c", "-p", "x")
        named = bantam(
            project, *at(server.url), "--no-session", "-r", project_id(project), "-p", "x"
        )
    assert (new.returncode, new.stdout) == (0, b"Two.")
    assert b"cannot be read: " in new.stderr
    assert (named.returncode, named.stdout) == (1, b"")
    assert b"cannot be read: " in named.stderr
    assert stored(project).read_text() == "{"


# -- replay -----------------------------------------------------------------------------------


def replies() -> list[Reply]:
    return [
        write("a.sh", "echo $1\n"),
        shell("sh a.sh one; pwd; basename $PWD; env | grep BANTAM_C; ls ..", start=2),
        text("Done."),
        shell("cat a.sh", start=3),
        text("Done again."),
    ]


def test_a_session_runs_again_as_it_did(project: Path) -> None:
    with LLMServer(replies()) as server:
        worked(server, project)
        worked(server, project, "More.")
    (project / "a.sh").unlink()
    before = stored(project).read_bytes()
    ended = bantam(project, "--replay", project_id(project)[:6])
    assert ended.returncode == 0, ended.stdout
    assert ended.stdout == b"no difference: turns: 2; answers: 5; tool results: 3\n"
    assert not (project / "a.sh").exists()
    assert stored(project).read_bytes() == before
    folder = ended.stderr.decode().partition("for real, in ")[2].partition("\n")[0]
    assert (Path(folder) / "a.sh").read_text() == "echo $1\n"


def test_sizes_of_what_names_the_project_are_the_same_in_a_replay(tmp_path: Path) -> None:
    project = tmp_path / "a project with a long name" / "and a folder in it"
    project.mkdir(parents=True)
    with LLMServer([shell("pwd > where; wc -c where"), text("Done.")]) as server:
        worked(server, project)
    assert bantam(project, "--replay", project_id(project)).returncode == 0


def test_the_first_difference_is_shown_with_its_place(project: Path) -> None:
    (project / "data").write_text("there")
    with LLMServer([shell("cat data"), shell("echo more", start=2), text("Done.")]) as server:
        worked(server, project)
    ended = bantam(project, "--replay", project_id(project))
    assert ended.returncode == 1
    assert ended.stdout.startswith(b"first difference: after request 1")
    assert b"message 3 (tool), content: 'there" in ended.stdout
    assert b"echo more" not in ended.stderr


def test_a_file_outside_of_the_project_is_not_written_again(project: Path) -> None:
    outside = project.parent / "outside.txt"
    with LLMServer([write(str(outside), "x"), write("../beside", "y"), text("Done.")]) as server:
        worked(server, project)
    ended = bantam(project, "--replay", project_id(project))
    assert (
        ended.stdout == b"no difference: turns: 1; answers: 3; tool results: 0; not run again: 2\n"
    )
    assert (outside.read_text(), (project.parent / "beside").read_text()) == ("x", "y")


def test_a_session_without_answers_cannot_be_run_again(project: Path) -> None:
    stored(project).parent.mkdir(parents=True)
    stored(project).write_text('[{"role": "user", "content": "hi"}]')
    ended = bantam(project, "--replay", project_id(project))
    assert (ended.returncode, ended.stdout) == (1, b"")
    assert b"holds no answer" in ended.stderr


def test_what_was_interrupted_is_not_run_again(project: Path) -> None:
    with (
        LLMServer([shell("touch ran; sleep 60")]) as server,
        start(*at(server.url), "-p", "x", cwd=project, env=at_home(project)) as busy,
    ):
        assert eventually((project / "ran").exists)
        busy.send_signal(signal.SIGINT)
        busy.communicate()
    ended = bantam(project, "--replay", project_id(project))
    assert ended.returncode == 0
    assert (
        ended.stdout == b"no difference: turns: 1; answers: 1; tool results: 0; not run again: 1\n"
    )


def test_a_replay_can_be_interrupted(project: Path) -> None:
    with LLMServer([shell("cat wait 2>/dev/null; true"), text("Done.")]) as server:
        worked(server, project)
    session = json.loads(stored(project).read_bytes())
    arguments = json.dumps({"command": f"touch {project.parent}/on; sleep 60"})
    session["messages"][2]["tool_calls"][0]["function"]["arguments"] = arguments
    stored(project).write_text(json.dumps(session))
    with start("--replay", project_id(project), cwd=project, env=at_home(project)) as busy:
        assert eventually((project.parent / "on").exists)
        busy.send_signal(signal.SIGINT)
        out, _ = busy.communicate()
    assert (busy.returncode, out) == (130, b"broken off: interrupted\n")


def test_a_replay_of_nothing_is_wrong_usage(project: Path) -> None:
    ended = bantam(project, "--replay", "none")
    assert ended.returncode == 2
    assert b"no session is named 'none'" in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--undo", "-p", "x"), "--undo takes no prompt"),
        (("--undo", "p.txt"), "--undo takes no prompt"),
        (("--replay", "x", "-"), "--replay takes no prompt"),
        (("--undo", "--demo"), "--demo and --undo were given"),
        (("--undo", "--json"), "--undo has no events"),
        (("--undo", "--no-session"), "--undo changes the session"),
        (("--replay", "x", "-c"), "--replay goes on from no session"),
        (("--demo", "-r", "x"), "--demo goes on from no session"),
        (("--undo", "-o", "timeout=x"), "timeout"),
        (("--replay", ""), "the id of the session is empty"),
        (("-r", "", "-p", "x"), "the id of the session is empty"),
        (("-c", "-r", "x", "-p", "y"), "-c and -r were given"),
        (("--replay",), "--replay: expected one argument"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    arguments: tuple[str, ...], message: str, project: Path
) -> None:
    ended = bantam(project, *arguments)
    assert ended.returncode == 2
    assert message in ended.stderr.decode()
