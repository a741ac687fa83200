"""A folder full of traps: nothing of it is run, imported or read at start; strace tells.

Bantam is started as a user starts it, by the script that its installation makes: what Python does
with the folder under `python -m` is Python's.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import run as run_program

import pytest
from llmserver import LLMServer, shell, text
from program import environment, run
from tracing import Trace
from typist import typist

SCRIPT = Path(sys.executable).with_name("bantam")
# What Python, a package, a shell or a tool would load if it looked into the folder.
MODULES = (
    *("httpx", "httpcore", "prompt_toolkit", "rich", "certifi", "socksio", "anyio", "bantam"),
    *("sitecustomize", "usercustomize", "conftest", "setup", "json", "signal", "typing", "ssl"),
)
PROGRAMS = ("git", "bash", "sh", "python3", "python", "bantam", "uname", "stty", "tput", "locale")
SETTINGS = (
    *(".env", ".envrc", ".netrc", "pyproject.toml", "setup.cfg", "pyvenv.cfg", "x.pth"),
    *(".bashrc", ".bash_profile", ".profile", ".inputrc", ".editrc", "python311._pth"),
    *(".python-version", ".tool-versions", ".pythonrc.py", "openssl.cnf", ".curlrc"),
)
HOOKS = (
    "pre-commit",
    "post-checkout",
    "post-index-change",
    "fsmonitor-watchman",
    "reference-transaction",
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A git work tree of traps; each that is sprung leaves the file `sprung`."""
    assert SCRIPT.exists(), "bantam is not installed: pip install --editable ."
    folder = tmp_path / "project"
    folder.mkdir()
    mark = folder / "sprung"
    trap = f"#!/bin/sh\necho $0 >>'{mark}'\n"
    for name in MODULES:
        (folder / f"{name}.py").write_text(f"open({str(mark)!r}, 'a').write({name!r})\n")
    for name in SETTINGS:
        (folder / name).write_text(f"HTTP_PROXY=http://evil.example\nOPENAI_API_KEY=theirs; {trap}")
    run_program(["git", "init", "-q", str(folder)], check=True)
    for name in HOOKS:
        executable(folder / ".git" / "hooks" / name, trap)
    for name in PROGRAMS:
        executable(folder / name, trap)
    with (folder / ".git" / "config").open("a") as config:
        config.write(
            f"[core]\n\tfsmonitor = {folder}/git\n\thooksPath = {folder}/.git/hooks\n"
            f"\tpager = {folder}/git\n\tsshCommand = {folder}/git\n\teditor = {folder}/git\n"
            f"[include]\n\tpath = {folder}/.gitmodules\n[alias]\n\tcheck-ignore = !{folder}/git\n"
            f'[filter "x"]\n\tsmudge = {folder}/git\n\tclean = {folder}/git\n'
        )
    (folder / ".gitmodules").write_text(f"[core]\n\taskPass = {folder}/git\n")
    (folder / ".gitattributes").write_text("* filter=x\n")
    (folder / "AGENTS.md").write_text("Be kind.\n")
    return folder


def executable(path: Path, content: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)
    path.chmod(0o755)


@pytest.fixture
def server() -> Iterator[LLMServer]:
    replies = [shell("echo by the command >from-command"), text("Done."), text("Again.")]
    with LLMServer(replies) as server:
        yield server


def clean(home: Path, **more: str) -> dict[str, str]:
    """Return a user's environment: without that of the tests, which measures and finds modules."""
    kept = ("HOME", "PATH")
    return {**{k: v for k, v in environment(home).items() if k in kept}, **more}


def read_of(trace: Trace, project: Path) -> set[str]:
    """Return the files of the folder that were opened, relative to it."""
    names = {name.removeprefix(f"{project}/") for name in trace.opened()}
    return {name for name in names if (project / name).is_file() and not name.startswith("/")}


def port_of(server: LLMServer) -> int:
    return int(server.url.rpartition(":")[2].removesuffix("/v1"))


def test_nothing_is_run_before_the_first_command_and_nothing_of_the_folder_at_all(
    project: Path, server: LLMServer, tmp_path: Path
) -> None:
    (project / ".bantam.cfg").write_text(f"endpoint={server.url}\nmodel=m\n")
    trace = Trace(tmp_path / "strace")
    ended = run(*("-p", "Go."), cwd=project, env=clean(tmp_path), program=trace.of([str(SCRIPT)]))
    assert (ended.returncode, ended.stdout) == (0, b"Done."), ended.stderr
    assert (project / "from-command").exists()
    assert not (project / "sprung").exists()
    first, *others = trace.executed
    assert first == str(SCRIPT)
    assert [Path(name).name for name in others] == ["bash"]
    assert not others[0].startswith(str(project))
    assert trace.connections == {("127.0.0.1", port_of(server))}
    assert trace.listening == []
    assert read_of(trace, project) == {".bantam.cfg", "AGENTS.md", "from-command"}
    assert b"theirs" not in server.chat[0].body
    assert "authorization" not in server.chat[0].headers


def test_the_prompt_runs_nothing_before_it_is_asked_to(
    project: Path, server: LLMServer, tmp_path: Path
) -> None:
    trace = Trace(tmp_path / "strace")
    options = ("-o", f"endpoint={server.url}", "-o", "model=m")
    with typist(project, program=trace.of([str(SCRIPT), *options]), env=clean(tmp_path)) as one:
        one.ready()
        one.type("\x04")
        assert one.end() == 0
    assert trace.executed == [str(SCRIPT)]
    assert not (project / "sprung").exists()
    assert trace.connections <= {("127.0.0.1", port_of(server))}
    assert trace.listening == []
    assert read_of(trace, project) == set()


def test_what_asks_git_springs_none_of_its_traps(
    project: Path, server: LLMServer, tmp_path: Path
) -> None:
    trace = Trace(tmp_path / "strace")
    ended = run(
        *("-o", f"endpoint={server.url}", "-o", "model=m"),
        cwd=project,
        env=clean(tmp_path),
        program=trace.of([str(SCRIPT)]),
        stdin=b"/cfg temperature 0.5\nGo.\n",
    )
    assert ended.returncode == 0, ended.stderr
    assert b"git does not ignore .bantam.cfg" in ended.stderr
    assert [Path(name).name for name in trace.executed] == ["bantam", "git", "bash"]
    assert not any(name.startswith(str(project)) for name in trace.executed)
    assert not (project / "sprung").exists()


@pytest.mark.parametrize("trap", ["httpx.py", "rich.py", "json.py", "bantam.py"])
def test_the_traps_are_ones(trap: str, project: Path, tmp_path: Path) -> None:
    importing = [sys.executable, "-c", f"import {trap.removesuffix('.py')}"]
    run_program(importing, cwd=project, env=clean(tmp_path), check=False)
    assert (project / "sprung").exists()
