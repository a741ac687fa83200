"""README and docs say what is true: tables equal the code's, and every snippet is run or read."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from shutil import which
from textwrap import dedent
from typing import Any, Final, get_args
from xml.etree import ElementTree as ET

import proxies
import pytest
from certificates import make_certificates
from llmserver import LLMServer, Reply, error, shell, text, write
from program import environment, events, run

from bantam.core.config import OPTIONS
from bantam.core.errors import ExitStatus
from bantam.core.events import Event, Failure, FileChange, Status, Stop, UsageSum
from bantam.terminal.commands import COMMANDS

ROOT: Final = Path(__file__).parent.parent
README: Final = (ROOT / "README.md").read_text("utf-8")
PROTOCOL: Final = (ROOT / "docs" / "protocol.md").read_text("utf-8")
PAGES: Final = ("README.md", "AGENTS.md", "docs/architecture.md", "docs/protocol.md")
# Where README says that a model is.
ENDPOINT: Final = re.compile(r"http://127\.0\.0\.1:(8080|11434)/v1|https://model\.example/v1")
# Each line of these stands for itself; any other snippet is one script.
LISTS: Final = ("Use it", "Sessions")
_FENCED: Final = re.compile(r"^(`{3,})(.*)\n((?:.*\n)*?)\1$", re.MULTILINE)


def snippets(page: str, kind: str) -> list[str]:
    """Return what stands in the fences of `page` that are marked `kind`."""
    return [body for _, marked, body in _FENCED.findall(page) if marked == kind]


def section(title: str) -> str:
    (found,) = re.findall(rf"^## {title}\n((?:(?!## ).*\n)*)", README, re.MULTILINE)
    assert isinstance(found, str)
    return found


def script(words: str) -> str:
    """Return the one script of README that holds `words`."""
    (found,) = [each for each in snippets(README, "sh") if words in each]
    return found


MAKE: Final = script("make demo")
TOUR: Final = script("mkdir hello")
SHARE: Final = script("cp -R share/.")
LLAMA: Final = script("llama-server")
OLLAMA: Final = script("ollama pull")
JQ: Final = script("--json -p")
WAYS: Final = script("HTTPS_PROXY")
TOOLS: Final = script("cp extras/")
REPLAY: Final = script("endpoint=replay://")
MODEL: Final = script("cat >request.json")
LOGIN: Final = script("exec curl")
LINES: Final = [
    line
    for title in LISTS
    for block in snippets(section(title), "sh")
    for line in block.splitlines()
]


def test_no_snippet_goes_untried() -> None:
    kinds = {kind for _, kind, _ in _FENCED.findall(README)}
    assert kinds == {"sh", "python", "ini", "json", "yaml"}
    scripts = {MAKE, TOUR, SHARE, LLAMA, OLLAMA, JQ, WAYS, TOOLS, REPLAY, MODEL, LOGIN}
    assert {each for each in snippets(README, "sh") if each not in scripts} == {
        each for title in LISTS for each in snippets(section(title), "sh")
    }


class Reader:
    """Someone who types what README says, in a folder of their own, with `bantam` on their PATH."""

    def __init__(self, folder: Path) -> None:
        self.home, self.here = folder / "home", folder / "project"
        self._bin = folder / "bin"
        for each in (self.home, self.here, self._bin):
            each.mkdir()
        self.has("bantam", f'exec "{sys.executable}" -m bantam.cli "$@"')

    def has(self, name: str, script: str) -> None:
        """Put a program that runs `script` on the PATH."""
        file = self._bin / name
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)

    def types(
        self, script: str, endpoint: str = "", *, cwd: Path | None = None, **env: str
    ) -> subprocess.CompletedProcess[str]:
        """Run `script`; the model that it names is at `endpoint`."""
        script = ENDPOINT.sub(lambda _: endpoint, script)
        return subprocess.run(
            ["sh", "-euc", script],
            cwd=cwd or self.here,
            env=environment(self.home, PATH=f"{self._bin}:{os.environ['PATH']}") | env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )

    def gets(self, script: str, endpoint: str = "", **how: Any) -> str:
        """Run `script`, which must succeed; return what it prints."""
        done = self.types(script, endpoint, **how)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def configures(self, endpoint: str) -> None:
        (self.here / ".bantam.cfg").write_text(f"endpoint={endpoint}\n")


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    return Reader(tmp_path)


def program(name: str) -> str:
    """Return the path of a program that README's snippets need."""
    path = which(name)
    assert path, f"no {name}; on Debian: apt-get install {name}"
    return path


# -- snippets of README -------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES)
def test_every_target_of_make_that_is_named_is_there(page: str) -> None:
    named = {*re.findall(r"`make (\w+)`", (ROOT / page).read_text("utf-8"))}
    if page == "README.md":
        named |= {line.split()[1] for line in MAKE.splitlines()}
        assert {"demo", "test", "pyz", "bench", "check"} <= named
    for target in named:
        # Only what it would run: to run it fetches packages.
        subprocess.run(["make", "--dry-run", target], cwd=ROOT, check=True, capture_output=True)


_GREETS: Final = "print('Hello')\n"
_SALUTES: Final = "print('Bonjour')\n"


def test_the_tour_goes_as_it_is_told(reader: Reader) -> None:
    greeting = [write("hello.py", _GREETS), shell("python3 hello.py"), text("It greets.")]
    french = [write("hello.py", _SALUTES, del_bytes=99), text("It does so in French.")]
    with LLMServer([*greeting, *french]) as server:
        said = reader.gets(TOUR, server.url)
    assert said.startswith(f"It greets.{_GREETS}It does so in French.")
    assert "put back hello.py" in said
    assert (reader.here / "hello" / "hello.py").read_text() == _GREETS
    assert server.chat[0].json["model"] == "qwen2.5-coder"


def rows_of_install() -> list[str]:
    """Return the commands of each row; of what stands in its code, a path alone is only named."""
    rows = re.findall(r"^\| [^|]+ \| (.+) \|$", section("Install"), re.MULTILINE)[1:]
    codes = [re.findall(r"`([^`]+)`", row) for row in rows]
    return [" && ".join(code for code in row if " " in code) for row in codes]


@pytest.mark.parametrize("commands", rows_of_install())
def test_each_way_to_install_ends_with_a_bantam(commands: str, reader: Reader) -> None:
    mine = str(reader.home / ".local/bin")
    bantam = f'"{reader.home.parent}/bin/bantam"'
    put = f'mkdir -p "$(dirname "$1")" && ln -s {bantam} "$1"'
    # No package is fetched: test_packaging and test_pyz install what was built.
    reader.has("pipx", f'[ "$*" = "install ." ] && set -- {mine}/bantam && {put}')
    reader.has("uvx", f'[ "$1 $3" = "--from bantam" ] && set -- {mine}/bantam && {put}')
    reader.has("make", f'[ "$*" = pyz ] && set -- dist/bantam.pyz && {put}')
    pip = f'#!/bin/sh\n[ "$*" = "install ." ] && set -- "${{0%pip}}bantam" && {put}'
    reader.has(
        "python3",
        f'[ "$1 $2" = "-m venv" ] && mkdir -p "$3/bin" && printf %s {shlex.quote(pip)} '
        '>"$3/bin/pip" && chmod +x "$3/bin/pip"',
    )
    Path(mine).mkdir(parents=True)
    reader.gets(commands)
    assert reader.gets(f"{mine}/bantam --version").startswith("bantam ")


def test_what_shells_look_for_comes_where_they_look(reader: Reader) -> None:
    reader.gets(SHARE, cwd=ROOT)
    share = ROOT / "share"
    files = [each.relative_to(share) for each in share.rglob("*") if each.is_file()]
    assert len(files) == 4
    for each in files:
        assert (reader.home / ".local/share" / each).read_bytes() == (share / each).read_bytes()
    assert f"~/.local/share/{next(each.parent for each in files if 'zsh' in str(each))}" in README


def test_the_configuration_is_one(reader: Reader) -> None:
    (sample,) = snippets(README, "ini")
    with LLMServer([text("Hello.")]) as server:
        (reader.here / ".bantam.cfg").write_text(ENDPOINT.sub(server.url, sample))
        assert reader.gets("bantam -p Hi") == "Hello."
    assert server.chat[0].json["model"] == "qwen2.5-coder"


# What a line prints that asks no model.
_OWN_WORDS: Final = {
    "--undo": "there is nothing to undo",
    "--replay": "no difference: turns: 1; answers: 1; tool results: 0",
    "ls -t": "ID.json",
}


@pytest.mark.parametrize("line", LINES)
def test_a_shell_line_works(line: str, reader: Reader) -> None:
    program("jq")
    (reader.here / "prompt.txt").write_text("Say hello.")
    sessions = reader.home / ".bantam" / "sessions"
    sessions.mkdir(parents=True)
    (sample,) = snippets(README, "json")
    (sessions / "ID.json").write_text(sample)
    reader.gets(
        "git init -q && git -c user.name=n -c user.email=e commit -q --allow-empty -m Begin"
    )
    with LLMServer([text("Hello.")]) as server:
        reader.configures(server.url)
        printed = reader.gets(line)
    answer = reader.here / "answer.md"
    said = next((said for option, said in _OWN_WORDS.items() if option in line), "Hello.")
    assert (answer.read_text() if answer.exists() else printed).strip() == said


def test_the_program_that_plays_a_model_does(reader: Reader) -> None:
    (reader.here / "model.sh").write_text(MODEL)
    assert reader.gets("chmod +x model.sh; bantam -o endpoint=run://./model.sh -p Hi") == "Hello."
    request = json.loads((reader.here / "request.json").read_text())
    assert request["messages"][-1]["content"] == "Hi"


def test_the_program_that_logs_in_otherwise_does(reader: Reader) -> None:
    program("curl")
    with LLMServer([text("Hello.")]) as server:
        (reader.here / "ask.sh").write_text(ENDPOINT.sub(server.url, LOGIN))
        (option,) = re.findall(r"`(-o endpoint=run:\S+)`", section("Recipes"))
        line = f"chmod +x ask.sh; bantam {option} -p Hi"
        assert reader.gets(line, MY_KEY="key-of-mine") == "Hello."
    assert server.chat[0].headers["api-key"] == "key-of-mine"


def test_a_conversation_to_replay_is_replayed(reader: Reader) -> None:
    (sample,) = snippets(README, "json")
    (reader.here / "talk.json").write_text(sample)
    assert reader.gets("bantam -o endpoint=replay://talk.json -p Hi") == "Hello."


def test_local_models_are_asked_as_told(reader: Reader) -> None:
    reader.has("llama-server", 'printf "%s\\n" "$*" >started')
    with LLMServer([text("A file.")]) as server:
        assert reader.gets(f"{LLAMA}wait", server.url) == "A file."
    assert "--jinja --port 8080" in (reader.here / "started").read_text()


def test_a_small_model_is_asked_as_told(reader: Reader) -> None:
    reader.has("ollama", 'echo "${OLLAMA_CONTEXT_LENGTH-} $*" >"did-$1"')
    with LLMServer([text("$ echo seen\n"), text("A file.")]) as server:
        done = reader.types(f"{OLLAMA}wait", server.url)
    assert (done.returncode, done.stdout) == (0, "A file."), done.stderr
    assert (reader.here / "did-serve").read_text() == "16384 serve\n"
    assert "/16384 (" in done.stderr
    model = server.chat[0].json["model"]
    assert (reader.here / "did-pull").read_text() == f" pull {model}\n"
    assert "tools" not in server.chat[0].json


def test_jq_finds_in_the_events_what_is_told(reader: Reader) -> None:
    program("jq")
    with LLMServer([write("a.txt", "a\n"), shell("echo slow"), text("One.")]) as server:
        reader.configures(server.url)
        printed = reader.gets(JQ)
    assert printed.splitlines() == ["One.", "a.txt", "echo slow", "a.txt", str(3 * 17)]


def yaml(lines: Sequence[str]) -> Any:
    """Return what YAML of mappings, lists, plain scalars and `|` blocks holds; no more is read."""
    indent = len(lines[0]) - len(lines[0].lstrip())
    begun = [number for number, line in enumerate(lines) if line[indent] != " "]
    parts = [lines[first:end] for first, end in pairwise([*begun, len(lines)])]
    if lines[0][indent:].startswith("- "):
        return [yaml([part[0].replace("- ", "  ", 1), *part[1:]]) for part in parts]
    found: dict[str, Any] = {}
    for first, *rest in parts:
        pair = re.fullmatch(r" *([\w-]+):(?: ([^'\"&*>[{].*))?", first)
        assert pair, f"not a mapping's line: {first}"
        key, value = pair.groups()
        block = dedent("\n".join(rest))
        found[key] = block if value == "|" else yaml(rest) if rest else value
    return found


def test_the_review_in_ci_says_what_the_model_says_and_runs_nothing(reader: Reader) -> None:
    (workflow,) = snippets(README, "yaml")
    (job,) = yaml(workflow.splitlines())["jobs"].values()
    checkout, review = job["steps"]
    assert checkout["with"] == {"fetch-depth": "0"}  # else there is no base to compare with
    assert set(review["env"]) == {"OPENAI_API_KEY"}
    reader.has("python3", f'exec "{sys.executable}" "$@"')
    (reader.here / "ci").mkdir()
    main = "import sys\nfrom bantam.cli import main\nsys.exit(main())\n"
    (reader.here / "ci" / "bantam.pyz").write_text(main)
    commit = "git -c user.name=n -c user.email=e commit -q --allow-empty"
    reader.gets(
        f"git init -q && {commit} -m Base && git update-ref refs/remotes/origin/main HEAD\n"
        f"echo changed >notes.txt && git add notes.txt && {commit} -m Change"
    )
    summary = reader.home / "summary.md"
    env = {
        "OPENAI_API_KEY": "sk-review",
        "GITHUB_BASE_REF": "main",
        "GITHUB_STEP_SUMMARY": str(summary),
    }
    with LLMServer([shell("touch made"), text("Looks good.")]) as server:
        reader.configures(server.url)
        reader.gets(review["run"], **env)
    assert summary.read_text() == "Looks good."
    assert not (reader.here / "made").exists()
    assert "+changed" in server.chat[0].json["messages"][1]["content"]
    assert server.chat[0].headers["authorization"] == "Bearer sk-review"


def test_both_proxies_are_gone_through(reader: Reader, tmp_path: Path) -> None:
    certificates = make_certificates(tmp_path)
    (reader.here / "prompt.txt").write_text("Say hello.")
    proxied, _, _ = WAYS.partition("export")
    tls = certificates.server_context()
    with (
        proxies.HTTPProxy() as proxy,
        proxies.Socks5Proxy() as socks,
        LLMServer([text("One."), text("Two.")], tls=tls) as server,
    ):
        reader.configures(proxies.named(server.url))
        proxied = proxied.replace("http://proxy.example:3128", proxy.url)
        proxied = proxied.replace("127.0.0.1:1080", socks.url.removeprefix("socks5://"))
        trusted = proxies.named(server.url).removesuffix("/v1")
        env = {"BANTAM_TRUST": trusted, "SSL_CERT_FILE": str(certificates.authority)}
        assert reader.gets(proxied, **env) == "One.Two."
    target = trusted.removeprefix("https://")
    assert (set(proxy.targets), set(socks.targets)) == ({target}, {target})


def test_the_line_for_the_sandbox_puts_commands_into_it(reader: Reader) -> None:
    _, export, walled = WAYS.partition("export")
    outside = reader.home / "outside"
    with LLMServer([shell(f"touch {outside}; touch inside"), text("They pass.")]) as server:
        reader.configures(server.url)
        assert reader.gets(export + walled) == "They pass."
    assert (reader.here / "inside").exists()
    assert not outside.exists()


def test_tools_of_ones_own_can_be_run(reader: Reader) -> None:
    (reader.here / "extras").symlink_to(ROOT / "extras")
    with LLMServer([shell('"$BANTAM_TOOLS_DIR"/weather --help'), text("Sunny.")]) as server:
        reader.configures(server.url)
        assert reader.gets(TOOLS) == "Sunny."
    system, *_, result = server.chat[1].json["messages"]
    assert str(reader.home / "tools") in system["content"].splitlines()[-1]
    assert result["content"].endswith("exit: 0")


def test_a_session_is_a_test_that_fails_where_something_differs(reader: Reader) -> None:
    answers = [write("hello.py", _GREETS), shell("cat hello.py"), text("It greets.")]
    with LLMServer(answers) as server:
        reader.configures(server.url)
        assert reader.gets(REPLAY) == 2 * "It greets."
    (reader.here / "hello.py").write_text("# other\n")
    assert reader.types(REPLAY.splitlines()[-1]).returncode == 1


@pytest.mark.parametrize("snippet", snippets(README, "python"))
def test_a_python_snippet_runs(snippet: str, reader: Reader) -> None:
    reader.has("python3", f'exec "{sys.executable}" "$@"')
    with LLMServer([text("Two files.")]) as server:
        (reader.here / "snippet.py").write_text(ENDPOINT.sub(server.url, snippet))
        done = reader.types("python3 snippet.py")
    assert (done.returncode, done.stdout, done.stderr) == (0, "Two files.", "")


# -- tables and pictures of README --------------------------------------------------------------


def statuses(page: str, head: str) -> set[int]:
    table = page[page.index(head) :].split("\n\n", 1)[0]
    rows = re.findall(r"^\| ([\d, ]+) \|", table, re.MULTILINE)
    return {int(number) for row in rows for number in row.split(",")}


def test_the_tables_of_exit_statuses_are_the_codes() -> None:
    own = {int(status) for status in ExitStatus}
    assert statuses(README, "| exit status |") == own
    assert statuses(PROTOCOL, "| status | when |") == own


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
    rows = re.findall(
        r"^\| (?:`(\w+)`)? ?\| `(\w+)` \|", section("Safe to open in any folder"), re.MULTILINE
    )
    values: dict[str, list[str]] = {}
    key = ""
    for name, value in rows:
        key = name or key
        values.setdefault(key, []).append(value)
    for key, shown in values.items():
        assert OPTIONS[key].kind.expected == f"one of {', '.join(shown)}"
    assert set(values) == {"approve", "sandbox"}


def test_every_command_of_the_prompt_stands_in_the_table() -> None:
    named = set(re.findall(r"\B/[a-z]+", section("At the prompt")))  # and no path of a picture
    aliases = {"/cont", "/exit"}
    assert named == set(COMMANDS) - aliases


def drawn(picture: Path) -> list[tuple[str | None, str | None]]:
    """The pieces of text, each with the number of its style. How rich writes an SVG may change."""
    texts = ET.parse(picture).iter("{http://www.w3.org/2000/svg}text")
    return [(piece.get("class"), piece.text) for piece in texts]


def test_the_pictures_are_what_the_program_draws(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "scripts" / "screenshots.py"), str(tmp_path)]
    subprocess.run(command, cwd=tmp_path, timeout=100, check=True)
    pictures = re.findall(r"^!\[.+\]\(docs/(.+)\)$", README, re.MULTILINE)
    assert sorted(pictures) == sorted(each.name for each in tmp_path.iterdir())
    for name in pictures:
        shown = ROOT / "docs" / name
        assert shown.stat().st_size < 60_000
        assert drawn(shown), f"{name} shows no text"
        assert drawn(shown) == drawn(tmp_path / name), f"{name} is old: run `make screenshots`"


def test_the_readme_can_be_read_in_one_go() -> None:
    assert len(README.splitlines()) <= 420


# -- the other pages ----------------------------------------------------------------------------


@pytest.mark.parametrize("page", [*PAGES, "docs/security.md", "docs/sessions.md"])
def test_every_link_and_every_file_that_is_named_leads_somewhere(page: str) -> None:
    file = ROOT / page
    whole = file.read_text("utf-8")
    links = re.findall(r"\]\((?!https?:)([^)]+)\)", whole)
    headings = re.findall(r"^#+ (.+)$", README, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in headings}
    for link in links:
        path, _, anchor = link.partition("#")
        assert (file.parent / path).exists(), link
        assert not anchor or anchor in anchors, link
    named = re.findall(r"`((?:\w+/)+(?:\w+\.(?:py|md))?|cli\.py)`", whole)
    roots = [ROOT / folder for folder in ("", "src/bantam", "tests", "docs")]
    elsewhere = {"dist/", "build/", "ci/"}  # made, or the reader's
    missing = [each for each in named if not any((root / each).exists() for root in roots)]
    assert set(missing) <= elsewhere


def members(value: dict[str, Any], kind: Any) -> bool:
    named = {each.name for each in fields(kind)}
    renamed = {"class"} | named - {"kind"} if kind is Failure else named
    return set(value) - {"type"} == renamed


def test_the_protocol_shows_each_event_with_all_that_is_in_it() -> None:
    (block,) = snippets(PROTOCOL, "jsonl")
    shown = {each["type"]: each for each in map(json.loads, block.splitlines())}
    kinds = {kind.type: kind for kind in get_args(Event)}
    assert set(shown) == set(kinds)
    for name, kind in kinds.items():
        assert members(shown[name], kind), name
    assert members(shown["done"]["usage"], UsageSum)
    assert members(shown["done"]["error"], Failure)
    assert members(shown["tool_result"]["files"][0], FileChange)
    assert [each for each in (*Stop, *Status) if f"`{each}`" not in PROTOCOL] == []


def shape(value: Any) -> Any:
    """Return `value` with its texts and numbers replaced by the names of their types."""
    match value:
        case dict():
            return {name: shape(each) for name, each in value.items()}
        case list():
            return [shape(each) for each in value]
        case _:
            return type(value).__name__


def test_a_run_tells_its_events_as_the_protocol_shows_them(tmp_path: Path) -> None:
    (block,) = snippets(PROTOCOL, "jsonl")
    shown = {each["type"]: each for each in map(json.loads, block.splitlines())}
    replies: list[Reply] = [
        write("a.txt", "hello\n"),
        shell("cat a.txt"),
        error(503, "busy", headers={"retry-after-ms": "1"}),
        text("Done.", reasoning="The user wants"),
        error(401, "no"),
    ]
    with LLMServer(replies) as server:
        at = ("--json", "-o", f"endpoint={server.url}")
        done = events(run(*at, "-p", "Make a.txt", cwd=tmp_path).stdout)[:-1]
        done += events(run(*at, "--no-session", "-p", "Hi", cwd=tmp_path).stdout)[-1:]
    told: dict[str, dict[str, Any]] = {}
    for each in done:
        told.setdefault(each["type"], each)
    told["message"] = next(each for each in done if each.get("finish_reason") == "stop")
    del told["message"]["message"]["reasoning_content"]  # where there is some, as is said
    told["turn_start"]["model"] = shown["turn_start"]["model"]
    assert set(told) == set(shown) - {"compaction"}
    for name, event in told.items():
        assert list(event) == list(shown[name])
        assert shape(event) == shape(shown[name]), name


def test_a_request_is_as_the_protocol_shows_it(tmp_path: Path) -> None:
    (shown,) = map(json.loads, snippets(PROTOCOL, "json"))
    prompt = shown["messages"][1]["content"]
    with LLMServer([shell("ls | wc -l"), text("Three.")]) as server:
        for name in "abc":
            (tmp_path / name).touch()
        run("--no-session", "-o", f"endpoint={server.url}", "-p", prompt, cwd=tmp_path)
    sent = server.chat[1].json
    assert list(sent) == list(shown)
    assert sent["messages"][1:] == shown["messages"][1:]
    assert sent["messages"][0]["content"].startswith(shown["messages"][0]["content"].rstrip("…"))
    names = [each["function"]["name"] for each in sent["tools"]]
    assert names == [each["function"]["name"] for each in shown["tools"]]
    assert (sent["stream_options"], sent["temperature"]) == (
        shown["stream_options"],
        shown["temperature"],
    )


@pytest.mark.parametrize("dialect", ["dollar", "blocks"])
def test_a_dialect_is_spoken_as_the_protocol_shows_it(dialect: str, tmp_path: Path) -> None:
    (answer,), (result,) = (
        snippets(PROTOCOL, f"text {kind}") for kind in (dialect, f"{dialect} result")
    )
    with LLMServer([text(answer), text("Done.")]) as server:
        for name in "abc":
            (tmp_path / name).touch()
        how = ("-o", f"endpoint={server.url}", "-o", f"dialect={dialect}")
        run("--no-session", *how, "-p", "Hi", cwd=tmp_path)
    sent = server.chat[1].json
    assert "tools" not in sent
    assert [each["content"].strip() for each in sent["messages"][2:]] == [
        answer.strip(),
        result.strip(),
    ]
