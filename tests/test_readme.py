"""README says what is true: its tables equal the code's, and its snippets run."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from llmserver import LLMServer, text
from program import run

from bantam.core.config import OPTIONS
from bantam.core.errors import ExitStatus
from bantam.terminal.commands import COMMANDS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")


def snippets(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def test_the_table_of_exit_statuses_is_the_codes() -> None:
    table = README[README.index("| exit status |") :].split("\n\n")[0]
    shown = {
        int(number)
        for row in re.findall(r"^\| ([\d, ]+) \|", table, re.MULTILINE)
        for number in row.split(",")
    }
    assert shown == {int(status) for status in ExitStatus}


_SESSION = json.dumps([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hi."}])
# What a line prints that asks no model.
_OWN_WORDS = {
    "--undo": "there is nothing to undo",
    "--replay": "no difference: turns: 1; answers: 1; tool results: 0",
}


@pytest.mark.parametrize("snippet", snippets("python"))
def test_a_python_snippet_runs(snippet: str, tmp_path: Path) -> None:
    with LLMServer([text("Two files.")]) as server:
        code = snippet.replace("http://127.0.0.1:8080/v1", server.url)
        assert code != snippet
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            env={**os.environ, "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert (done.returncode, done.stdout, done.stderr) == (0, "Two files.", "")


@pytest.mark.parametrize(
    "line",
    [
        line
        for block in snippets("sh")
        for line in block.splitlines()
        if "bantam" in line.replace(".bantam", "")
    ],
)
def test_a_shell_line_works(line: str, tmp_path: Path) -> None:
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    (bin_folder / "bantam").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m bantam.cli "$@"\n')
    (bin_folder / "bantam").chmod(0o755)
    # jq is the reader's; what it is asked for here is that each line parses.
    (bin_folder / "jq").write_text(
        f'#!/bin/sh\nexec "{sys.executable}" -c "import json, sys; '
        "print([json.loads(line) for line in sys.stdin][-1]['text'])\"\n"
    )
    (bin_folder / "jq").chmod(0o755)
    (tmp_path / "prompt.txt").write_text("Say hello.")
    sessions = tmp_path / ".bantam" / "sessions"
    sessions.mkdir(parents=True)
    (sessions / "ID.json").write_text(_SESSION)
    begun = "git init -q . && git -c user.name=n -c user.email=e commit -q --allow-empty -m Begin"
    subprocess.run(["sh", "-c", begun], cwd=tmp_path, check=True)
    with LLMServer([text("Hello.")]) as server:
        (tmp_path / ".bantam.cfg").write_text(f"endpoint={server.url}\n")
        done = subprocess.run(
            ["sh", "-c", line],
            cwd=tmp_path,
            env={**os.environ, "HOME": str(tmp_path), "PATH": f"{bin_folder}:{os.environ['PATH']}"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    answer = (tmp_path / "answer.md").read_text() if "> answer.md" in line else done.stdout
    said = next((said for option, said in _OWN_WORDS.items() if option in line), "Hello.")
    assert answer.strip() == said


def test_the_program_that_plays_a_model_does(tmp_path: Path) -> None:
    (script,) = (block for block in snippets("sh") if block.startswith("#!"))
    (tmp_path / "model.sh").write_text(script)
    (tmp_path / "model.sh").chmod(0o755)
    done = run("-o", "endpoint=run://./model.sh", "-p", "Hi", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, b"Hello."), done.stderr
    assert json.loads((tmp_path / "request.json").read_text())["messages"][-1]["content"] == "Hi"


def test_every_test_that_a_promise_names_is_there() -> None:
    page = (ROOT / "docs" / "security.md").read_text("utf-8")
    promises = page[: page.index("## Not promised")]
    named = re.findall(r"`(tests/\w+\.py)::(\w+)`", page)
    assert len(named) > 50
    missing = [
        f"{file}::{test}"
        for file, test in named
        if f"\ndef {test}(" not in (ROOT / file).read_text("utf-8")
    ]
    assert missing == []
    points = re.split(r"^- ", promises, flags=re.MULTILINE)[1:]
    assert [point for point in points if "`tests/" not in point] == []


def test_the_values_of_what_makes_it_safe_are_the_options_own() -> None:
    section = README[README.index("## Safe to open") : README.index("## Sessions")]
    rows = re.findall(r"^\| (?:`(\w+)`)? ?\| `(\w+)` \|", section, re.MULTILINE)
    values: dict[str, list[str]] = {}
    key = ""
    for named, value in rows:
        key = named or key
        values.setdefault(key, []).append(value)
    for key, shown in values.items():
        assert OPTIONS[key].kind.expected == f"one of {', '.join(shown)}"
    assert set(values) == {"approve", "sandbox"}


def test_every_command_of_the_prompt_stands_in_the_table() -> None:
    table = README[README.index("## At the prompt") : README.index("## Any model")]
    named = set(re.findall(r"\B/[a-z]+", table))  # and no path of a picture
    aliases = {"/cont", "/exit"}
    assert named == set(COMMANDS) - aliases


def drawn(picture: Path) -> list[tuple[str | None, str | None]]:
    """The pieces of text, each with the number of its style. How rich writes an SVG may change."""
    texts = ET.parse(picture).iter("{http://www.w3.org/2000/svg}text")
    return [(piece.get("class"), piece.text) for piece in texts]


def test_the_pictures_are_what_the_program_draws(tmp_path: Path) -> None:
    script = [sys.executable, str(ROOT / "scripts" / "screenshots.py"), str(tmp_path)]
    subprocess.run(script, cwd=tmp_path, timeout=100, check=True)
    pictures = re.findall(r"^!\[.+\]\(docs/(.+)\)$", README, re.MULTILINE)
    assert sorted(pictures) == sorted(each.name for each in tmp_path.iterdir())
    for name in pictures:
        shown = ROOT / "docs" / name
        assert shown.stat().st_size < 60_000
        assert drawn(shown), f"{name} shows no text"
        assert drawn(shown) == drawn(tmp_path / name), f"{name} is old: run `make screenshots`"
