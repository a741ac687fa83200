"""The shell tools in extras/, run by real shells against a scripted server on the loopback."""

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from shutil import which
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import pytest
from certificates import make_certificates
from llmreplies import JSON, Reply, error, event, raw
from mcpserver import SESSION, Answer, Scripted, answer, connected, result, stream
from proxies import HTTPProxy, named
from tracing import Trace

EXTRAS: Final = Path(__file__).parent.parent / "extras"
TOOLS: Final = ("websearch", "context7", "weather")
# busybox where there is one: it is another reading of POSIX, not one that Bantam needs.
SHELLS: Final = {
    "dash": ("dash",),
    "bash": ("bash", "--posix"),
    **({"busybox": ("busybox", "sh")} if which("busybox") else {}),
}
# The name of the variable that says where a tool's server is, and the path asked for there.
ENDPOINTS: Final = {
    "websearch": ("EXA_MCP_ENDPOINT", "/mcp"),
    "context7": ("CONTEXT7_MCP_ENDPOINT", "/mcp"),
    "weather": ("WTTRAPI", ""),
}
KEY: Final = "sk-5e6f.a-b_c~d+e/f="
MOST: Final = 1 << 20
SUNNY: Final = raw("Sunny, 20 °C\n".encode(), content_type="text/plain", framing="length")
HOSTILE: Final = (
    "-rf",
    "--config",
    "@secret",
    'it\'s "quoted" \\ twice',
    "two\nlines\n",
    "$(touch made) `touch made` ; touch made",
    "*",
    "{a,b} [c-d] ~ $HOME #e",
    "%s %n 100%",
    "Zürich 東京 🌧",
    "</script>\nEND\n$HOME\n",
)

Run = Callable[..., subprocess.CompletedProcess[str]]


def needed(program: str) -> str:
    path = which(program)
    assert path, f"no {program}; on Debian: apt-get install {program}"
    return path


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> tuple[str, ...]:
    first, *rest = SHELLS[request.param]
    return (needed(first), *rest)


@pytest.fixture
def run(shell: tuple[str, ...], tmp_path: Path) -> Run:
    """Run a tool in a folder that would show what was expanded or read, against `url`."""
    needed("curl")
    path = f"{Path(needed('jq')).parent}:/usr/bin:/bin"
    home, folder = tmp_path / "home", tmp_path / "folder"
    home.mkdir()
    folder.mkdir()
    (folder / "secret").write_text("what nobody asked for")

    def run(
        tool: str,
        *arguments: str,
        url: str = "",
        program: tuple[str, ...] = shell,
        trace: Trace | None = None,
        **variables: str,
    ) -> subprocess.CompletedProcess[str]:
        name, at = ENDPOINTS[tool]
        command = (*program, str(EXTRAS / tool), *arguments)
        ended = subprocess.run(
            trace.of(command) if trace else command,
            cwd=folder,
            env={
                "PATH": path,
                "HOME": str(home),
                "LANG": "C.UTF-8",
                **({name: url + at} if url else {}),
                **variables,
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert [each.name for each in folder.iterdir()] == ["secret"]
        return ended

    return run


def search(run: Run, *answers: Answer, query: str = "q", **variables: str) -> Any:
    """Return how `websearch` ends when these are the answers to its call."""
    with Scripted([*connected(), *answers]) as server:
        return run("websearch", query, url=server.url, **variables)


# -- the files --------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", TOOLS)
def test_shellcheck_has_nothing_to_say(tool: str) -> None:
    checked = subprocess.run(
        (needed("shellcheck"), "--shell=sh", EXTRAS / tool),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (checked.returncode, checked.stdout) == (0, "")


def test_both_mcp_tools_hold_the_same_client() -> None:
    websearch, context7 = (
        (EXTRAS / tool).read_text().partition("\n# -- MCP")[2].partition("\n# -- what")[0]
        for tool in ("websearch", "context7")
    )
    assert websearch.count("\n") > 50
    assert websearch == context7


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_can_be_run_as_it_is(tool: str) -> None:
    told = subprocess.run((EXTRAS / tool, "-h"), capture_output=True, text=True, check=True)
    assert told.stdout.startswith("usage: ")


@pytest.mark.parametrize("option", ["-h", "--help"])
@pytest.mark.parametrize("tool", TOOLS)
def test_help_names_every_variable_that_the_tool_reads(run: Run, tool: str, option: str) -> None:
    told = run(tool, option)
    assert (told.returncode, told.stderr) == (0, "")
    prefix = {"websearch": "EXA", "context7": "CONTEXT7"}.get(tool)
    names = (
        [f"{prefix}_API_KEY", f"{prefix}_MCP_ENDPOINT", f"{prefix}_TIMEOUT"]
        if prefix
        else ["WTTRAPI", "WEATHER_TIMEOUT"]
    )
    for name in names:
        assert name in told.stdout
        assert name in (EXTRAS / "README.md").read_text()


@pytest.mark.parametrize("tool", TOOLS)
def test_what_is_not_installed_is_named(run: Run, tool: str, tmp_path: Path) -> None:
    arguments = {"context7": ("resolve", "x")}.get(tool, ("x",))
    ended = run(tool, *arguments, PATH=str(tmp_path))
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == f"{tool}: needs curl, which is not installed\n"


# -- MCP --------------------------------------------------------------------------------------


def test_a_search_connects_and_calls_within_the_session(run: Run) -> None:
    with Scripted([*connected(), answer("one", "two")]) as server:
        ended = run("websearch", "small birds", "7", url=server.url, EXA_API_KEY=KEY)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "one\ntwo\n", "")
    hello, notice, call = server.messages
    assert hello["method"] == "initialize"
    assert hello["params"]["protocolVersion"] == "2025-06-18"
    assert hello["params"]["clientInfo"]["name"] == "bantam-websearch"
    assert notice == {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert call["method"] == "tools/call"
    assert call["id"] != hello["id"]
    assert call["params"] == {
        "name": "web_search_exa",
        "arguments": {"query": "small birds", "numResults": 7},
    }
    first, *later = (request.headers for request in server.requests)
    assert "mcp-session-id" not in first
    for headers in later:
        assert headers["mcp-session-id"] == SESSION
        assert headers["mcp-protocol-version"] == "2025-06-18"
    for request in server.requests:
        assert (request.method, request.path) == ("POST", "/mcp")
        assert request.headers["content-type"] == "application/json"
        assert request.headers["accept"] == "application/json, text/event-stream"
        assert request.headers["x-api-key"] == KEY


def test_a_server_without_sessions_and_a_user_without_a_key_send_no_empty_fields(run: Run) -> None:
    with Scripted([*connected(session="", revision="2025-03-26"), answer("x")]) as server:
        assert run("websearch", "q", url=server.url).stdout == "x\n"
    assert server.requests[2].headers["mcp-protocol-version"] == "2025-03-26"
    assert server.messages[2]["params"]["arguments"]["numResults"] == 5
    with Scripted([*connected(session=""), answer("x")]) as other:
        assert run("context7", "resolve", "x", url=other.url).stdout == "x\n"
    for request in server.requests + other.requests:
        assert not {"mcp-session-id", "x-api-key", "authorization"} & set(request.headers)


def test_a_server_may_say_nothing_of_itself(run: Run) -> None:
    with Scripted([result("hello"), raw(b"", status=500, framing="length"), answer("x")]) as server:
        ended = run("websearch", "q", url=server.url)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "x\n", "")


@pytest.mark.parametrize("session", ['a"b', "a\\b", 'x"\\n header = "X-Evil: 1', "$(id)"])
def test_a_session_comes_back_as_it_was_given(run: Run, session: str) -> None:
    with Scripted([*connected(session=session, revision="1\nX-Evil: 1"), answer("x")]) as server:
        assert run("websearch", "q", url=server.url).stdout == "x\n"
    for request in server.requests[1:]:
        assert request.headers["mcp-session-id"] == session
        assert not {"x-evil", "mcp-protocol-version"} & set(request.headers)


NOTICE: Final = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "no"}}
ASKED: Final = {"jsonrpc": "2.0", "id": 9, "method": "ping"}
FOUND: Final = {"jsonrpc": "2.0", "id": 2, "result": {"content": [{"text": "found: é"}]}}
PARTED: Final = b"event: message\ndata: {\ndata:" + event(FOUND).removeprefix(b"data: {")


@pytest.mark.parametrize(
    "reply",
    [
        stream(FOUND),
        stream(NOTICE, ASKED, FOUND, before=b": ping\n\nevent: message\nid: 1\n"),
        raw(event(FOUND).replace(b"\n", b"\r\n")),
        raw(PARTED),
        raw(event(FOUND).rstrip()),
        raw(json.dumps([NOTICE, FOUND]).encode(), content_type=JSON, framing="length"),
        raw(json.dumps(FOUND, indent=1).encode(), content_type=JSON, framing="close"),
        raw(json.dumps(FOUND | {"error": None}).encode(), content_type=JSON),
    ],
    ids=["event", "among-others", "crlf", "parted", "no-end", "batch", "pretty", "null-error"],
)
def test_an_answer_is_read_from_json_and_from_events(run: Run, reply: Reply) -> None:
    ended = search(run, reply)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "found: é\n", "")


def test_early_hints_are_no_answer(run: Run) -> None:
    found = answer("found")
    hints = b"HTTP/1.1 103 Early Hints\r\nMcp-Session-Id: no\r\n\r\n"
    ended = search(run, hints * 2 + found.head + found.body)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "found\n", "")


def test_a_proxys_answer_is_no_answer(run: Run, tmp_path: Path) -> None:
    certificates = make_certificates(tmp_path)
    script = [*connected(), answer("found")]
    with HTTPProxy() as proxy, Scripted(script, tls=certificates.server_context()) as server:
        variables = {"https_proxy": proxy.url, "CURL_CA_BUNDLE": str(certificates.authority)}
        ended = run("websearch", "q", url=named(server.url), **variables)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "found\n", "")
    assert len(proxy.targets) == 3
    assert server.requests[2].headers["mcp-session-id"] == SESSION


def test_content_that_is_no_text_is_named(run: Run) -> None:
    reply = result({"content": [{"type": "image", "data": "AA=="}, {"type": "text", "text": "x"}]})
    assert search(run, reply).stdout == "[image]\nx\n"


def message(text: str) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": None, "error": {"message": text}}).encode()


FAILURES: Final = {
    "rpc-error": (raw(message("no such tool"), content_type=JSON), "no such tool"),
    "rpc-error-event": (stream(json.loads(message("gone"))), "gone"),
    "rpc-error-odd": (raw(b'{"error": 7}', content_type=JSON), "7"),
    "is-error": (answer("quota is spent", isError=True), "quota is spent"),
    "no-text": (answer(" "), "the answer is empty"),
    "no-content": (result({}), "the answer is empty"),
    "odd-content": (result({"content": "x"}), "the answer is empty"),
    "empty": (raw(b"", framing="length"), "this is no MCP answer"),
    "garbage": (raw(b"\0\xff\xfe\x1b[31m<html>" * 9, framing="length"), "this is no MCP answer"),
    "number": (raw(b"7", content_type=JSON), "this is no MCP answer"),
    "deep": (raw(b"[" * 20_000, content_type=JSON), "this is no MCP answer"),
    "events-only": (stream(NOTICE), "this is no MCP answer"),
    "401": (error(401, "bad key"), "HTTP 401: check EXA_API_KEY: bad key"),
    "403": (raw(b"", status=403, framing="length"), "HTTP 403: check EXA_API_KEY"),
    "429": (
        error(429, "slow down"),
        "HTTP 429: too many requests; wait, or set EXA_API_KEY: slow down",
    ),
    "500": (raw(b"<h1>Oh\n no</h1>", status=500, framing="length"), "HTTP 500: <h1>Oh no</h1> "),
    "500-big": (raw(b"a b " * 200_000, status=500), "HTTP 500: " + ("a b " * 200)[:490]),
    "500-json": (raw(message("broken"), status=500, framing="length"), "HTTP 500: broken"),
    "long": (error(400, "x" * 9_000), "HTTP 400: " + "x" * 490),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_is_told_on_standard_error(run: Run, name: str) -> None:
    reply, told = FAILURES[name]
    ended = search(run, reply)
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", f"websearch: {told}\n")


def test_a_failure_to_connect_ends_it(run: Run) -> None:
    with Scripted([error(401, "who are you?")]) as server:
        ended = run("context7", "resolve", "x", url=server.url)
    assert ended.stderr == "context7: HTTP 401: check CONTEXT7_API_KEY: who are you?\n"
    assert (ended.returncode, ended.stdout, len(server.requests)) == (1, "", 1)


@pytest.mark.parametrize(
    "reply",
    [
        raw(b"", hold=True),
        raw(b"x" * 99, cut_after=50, framing="length"),
        raw(b"x" * 99, reset_after=50),
    ],
    ids=["silence", "cut", "reset"],
)
def test_a_server_that_stops_is_left(run: Run, reply: Reply) -> None:
    for tool, arguments, timeout in (
        ("websearch", ("q",), "EXA_TIMEOUT"),
        ("context7", ("resolve", "x"), "CONTEXT7_TIMEOUT"),
        ("weather", ("x",), "WEATHER_TIMEOUT"),
    ):
        with Scripted([reply]) as server:
            ended = run(tool, *arguments, url=server.url, **{timeout: "1"})
        assert (ended.returncode, ended.stdout) == (1, "")
        assert ended.stderr.startswith("curl: (")
        assert f"\n{tool}: " in ended.stderr
        # curl's words; the default would be 20,000.
        for spent in re.findall(r"timed out after (\d+) milliseconds", ended.stderr):
            assert int(spent) < 15_000


@pytest.mark.parametrize("tool", TOOLS)
def test_an_endless_answer_is_cut(run: Run, tool: str) -> None:
    endless = Reply(lazy=lambda: iter(lambda: "data: é".encode() * 9_000, b""))
    arguments = {"context7": ("resolve", "x")}.get(tool, ("x",))
    with Scripted([*(connected() if tool != "weather" else ()), endless]) as server:
        ended = run(tool, *arguments, url=server.url)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.endswith(f"{tool}: the answer has more than {MOST} bytes\n")


def test_no_one_there_is_said(run: Run) -> None:
    with Scripted([]) as server:
        pass
    for tool, told in (("websearch", "no answer"), ("weather", "no whole answer")):
        ended = run(tool, "x", url=server.url)
        assert (ended.returncode, ended.stdout) == (1, "")
        assert ended.stderr.startswith("curl: (7) ")
        assert ended.stderr.endswith(f"{tool}: {told}\n")


# -- keys -------------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", ["websearch", "context7"])
def test_a_key_is_in_no_process_list(run: Run, tool: str, tmp_path: Path) -> None:
    """Neither from its variable nor from the endpoint, where Exa takes one as well."""
    name = {"websearch": "EXA", "context7": "CONTEXT7"}[tool]
    trace = Trace(tmp_path / "trace")
    arguments = ("x",) if tool == "websearch" else ("resolve", "x")
    with Scripted([*connected(session=f"{KEY}-session"), answer("found")]) as server:
        variables = {
            f"{name}_MCP_ENDPOINT": f"{server.url}/mcp?exaApiKey={KEY}-too",
            f"{name}_API_KEY": KEY,
        }
        ended = run(tool, *arguments, trace=trace, **variables)
    assert ended.stdout == "found\n"
    assert server.requests[2].path == f"/mcp?exaApiKey={KEY}-too"
    started = [line for line in trace.lines if " execve" in line]
    assert len([line for line in started if '/curl"' in line]) == 3
    assert not [line for line in started if KEY in line]


@pytest.mark.parametrize(
    "reply",
    [
        answer(f"your key is {KEY}."),
        answer(f"your key is {KEY}.", isError=True),
        error(401, f"your key is {KEY}."),
        raw(f"your key is {KEY}.".encode(), status=500, framing="length"),
        raw(message(f"your key is {KEY}."), content_type=JSON),
        error(400, "x" * 470 + f"your key is {KEY}"),
    ],
)
def test_a_key_that_the_server_repeats_is_not_shown(run: Run, reply: Reply) -> None:
    ended = search(run, reply, EXA_API_KEY=KEY)
    assert "your key is [key]" in ended.stdout + ended.stderr
    assert KEY[:5] not in ended.stdout + ended.stderr


def test_a_key_goes_to_its_service_as_that_takes_it(run: Run) -> None:
    with Scripted([*connected(), answer("x")]) as server:
        run("context7", "resolve", "x", url=server.url, CONTEXT7_API_KEY=KEY, EXA_API_KEY="other")
    for request in server.requests:
        assert request.headers["authorization"] == f"Bearer {KEY}"
        assert "other" not in str(request.headers)


@pytest.mark.parametrize("key", ['a"b', "a\\b", "a\nheader = b", "a b", "é"])
def test_a_key_that_would_be_more_than_a_key_is_refused_unshown(run: Run, key: str) -> None:
    with Scripted([]) as server:
        ended = run("websearch", "q", url=server.url, EXA_API_KEY=key)
    assert (ended.returncode, ended.stdout, server.requests) == (2, "", [])
    assert ended.stderr == "websearch: endpoint and key have no blank, quote or backslash\n"


@pytest.mark.parametrize("tool", TOOLS)
def test_a_redirect_is_not_followed(run: Run, tool: str) -> None:
    arguments = {"context7": ("resolve", "x")}.get(tool, ("x",))
    with Scripted([]) as other:
        moved = raw(b"", status=307, headers={"location": other.url}, framing="length")
        with Scripted([moved]) as server:
            ended = run(tool, *arguments, url=server.url, EXA_API_KEY=KEY, CONTEXT7_API_KEY=KEY)
        assert other.requests == []
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"{tool}: HTTP 307")


@pytest.mark.parametrize("tool", TOOLS)
def test_curls_own_settings_do_not_hold(run: Run, tool: str, tmp_path: Path) -> None:
    (tmp_path / "home" / ".curlrc").write_text("verbose\ninclude\noutput = made\n")
    arguments = {"context7": ("resolve", "x")}.get(tool, ("x",))
    with Scripted([*(connected() if tool != "weather" else ()), answer("found")]) as server:
        ended = run(tool, *arguments, url=server.url)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "found" in ended.stdout


@pytest.mark.parametrize(
    "endpoint", ["file:///etc/passwd", "ftp://127.0.0.1/", "-K/dev/stdin", "http://", "@secret"]
)
@pytest.mark.parametrize("tool", TOOLS)
def test_an_endpoint_is_http_or_https(run: Run, tool: str, endpoint: str) -> None:
    arguments = {"context7": ("resolve", "x")}.get(tool, ("x",))
    ended = run(tool, *arguments, **{ENDPOINTS[tool][0]: endpoint})
    told = f"{tool}: {ENDPOINTS[tool][0]} must begin with https:// or http://\n"
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", told)


def test_an_endpoint_is_one_address(run: Run) -> None:
    with Scripted([*connected(), answer("x"), SUNNY]) as server:
        run("websearch", "q", EXA_MCP_ENDPOINT=f"{server.url}/{{a,b}}[1-2]")
        run("weather", "q", WTTRAPI=f"{server.url}/{{a,b}}[1-2]")
    assert {request.path for request in server.requests} == {"/{a,b}[1-2]", "/{a,b}[1-2]/q?FT"}


@pytest.mark.parametrize("timeout", ["0", "-1", "1.5", "soon", "1 --output made", "99999"])
def test_a_timeout_is_whole_seconds(run: Run, timeout: str) -> None:
    for tool, name in (("websearch", "EXA_TIMEOUT"), ("weather", "WEATHER_TIMEOUT")):
        ended = run(tool, "x", **{name: timeout})
        told = f"{tool}: {name} must be whole seconds, from 1 to 9999\n"
        assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", told)


# -- what is asked ----------------------------------------------------------------------------


@pytest.mark.parametrize("text", [*HOSTILE, "long " * 20_000])
def test_a_query_arrives_as_it_was_written(run: Run, text: str) -> None:
    with Scripted([*connected(), answer(text)]) as server:
        ended = run("websearch", text, url=server.url)
    assert server.messages[2]["params"]["arguments"]["query"] == text
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, text + "\n", "")


def test_a_query_can_look_like_the_option(run: Run) -> None:
    with Scripted([*connected(), answer("x")]) as server:
        run("websearch", "--", "-h", url=server.url)
    assert server.messages[2]["params"]["arguments"]["query"] == "-h"


@pytest.mark.parametrize(
    "arguments",
    [
        ("websearch",),
        ("websearch", ""),
        ("websearch", " \n"),
        ("websearch", "--"),
        ("websearch", "small", "birds"),
        ("websearch", "q", "0"),
        ("websearch", "q", "101"),
        ("websearch", "q", "-1"),
        ("websearch", "q", "1e1"),
        ("websearch", "q", "5", "6"),
        ("context7",),
        ("context7", "find", "x"),
        ("context7", "resolve"),
        ("context7", "resolve", ""),
        ("context7", "resolve", "a", "b", "c"),
        ("context7", "query", "/a/b"),
        ("context7", "query", "react", "q"),
        ("context7", "query", "/a/b", " "),
        ("context7", "docs", "x"),
        ("weather", ""),
        ("weather", "-l", ""),
        ("weather", "-l"),
        ("weather", "-x"),
        ("weather", "-u", "k"),
        ("weather", "-L", "d&e"),
        ("weather", "-L", "longerthan"),
        ("weather", "-j", "-f", "3"),
        ("weather", "-l", "a", "b"),
        ("weather", "x" * 1001),
    ],
    ids=lambda arguments: " ".join(arguments)[:30],
)
def test_wrong_use_is_explained_and_nothing_sent(run: Run, arguments: tuple[str, ...]) -> None:
    with Scripted([]) as server:
        ended = run(*arguments, url=server.url)
    assert (ended.returncode, ended.stdout, server.requests) == (2, "", [])
    first, blank, usage, *_ = ended.stderr.split("\n")
    assert first.startswith(f"{arguments[0]}: ")
    assert (blank, usage[:7]) == ("", "usage: ")


def called(server: Scripted) -> list[dict[str, Any]]:
    """What the tools were called with."""
    return [each["params"] for each in server.messages if each["method"] == "tools/call"]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_library_and_a_question_arrive_as_they_were_written(run: Run, text: str) -> None:
    with Scripted([*connected(), answer(text)]) as server:
        ended = run("context7", "resolve", text, text[::-1], url=server.url)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, f"{text}\n", "")
    values = {"libraryName": text, "query": text[::-1]}
    assert called(server) == [{"name": "resolve-library-id", "arguments": values}]


@pytest.mark.parametrize(
    ("arguments", "name", "values"),
    [
        (("resolve", "a b"), "resolve-library-id", {"libraryName": "a b", "query": "a b"}),
        (("query", "/a/b", "-h"), "query-docs", {"libraryId": "/a/b", "query": "-h"}),
        (("docs", "/a/b/v1", "*"), "query-docs", {"libraryId": "/a/b/v1", "query": "*"}),
    ],
    ids=["resolve", "query", "docs"],
)
def test_a_verb_asks_the_tool_of_its_meaning(
    run: Run, arguments: tuple[str, ...], name: str, values: dict[str, str]
) -> None:
    with Scripted([*connected(), answer("found")]) as server:
        ended = run("context7", *arguments, url=server.url)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "found\n", "")
    assert called(server) == [{"name": name, "arguments": values}]


LIBRARIES: Final = """Available Libraries:

- Title: Next.js
- Context7-compatible library ID: /vercel/next.js
- Description: /not/this
----------
- Context7-compatible library ID: /other/one"""


def test_docs_asks_the_first_library_found(run: Run) -> None:
    with Scripted([*connected(), answer(LIBRARIES), answer("Use it so.")]) as server:
        ended = run("context7", "docs", "next", "How?", url=server.url)
    assert (ended.returncode, ended.stdout) == (0, "Use it so.\n")
    assert ended.stderr == "context7: documentation of /vercel/next.js\n"
    assert called(server) == [
        {"name": "resolve-library-id", "arguments": {"libraryName": "next", "query": "How?"}},
        {"name": "query-docs", "arguments": {"libraryId": "/vercel/next.js", "query": "How?"}},
    ]
    assert server.requests[3].headers["mcp-session-id"] == SESSION


@pytest.mark.parametrize("found", ["No libraries found.", "ID: none", "ID " + "x" * 200_000])
def test_docs_says_when_no_library_was_found(run: Run, found: str) -> None:
    with Scripted([*connected(), answer(found)]) as server:
        ended = run("context7", "docs", "next", "How?", url=server.url)
    told = f"context7: no library was found: {found[:300]}\n"
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", told)


def test_docs_takes_an_id_of_a_sane_length(run: Run) -> None:
    with Scripted([*connected(), answer("ID: /" + "x" * 200_000), error(400, "none")]) as server:
        ended = run("context7", "docs", "next", "How?", url=server.url)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.endswith("\ncontext7: HTTP 400: none\n")
    assert called(server)[1]["arguments"]["libraryId"] == "/" + "x" * 200


def test_docs_ends_where_the_library_cannot_be_looked_up(run: Run) -> None:
    with Scripted([*connected(), answer("quota", isError=True)]) as server:
        ended = run("context7", "docs", "next", "How?", url=server.url)
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", "context7: quota\n")


# -- the weather ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        ((), "/?FT"),
        (("Paris",), "/Paris?FT"),
        (("New", "York"), "/New%20York?FT"),
        (("-l", "New+York"), "/New%20York?FT"),
        (("-l", "~Eiffel tower"), "/~Eiffel%20tower?FT"),
        (("-l", "-78.46,106.79"), "/-78.46%2C106.79?FT"),
        (("-u", "m", "muc"), "/muc?FTm"),
        (("-u", "u"), "/?FTu"),
        (("-uM",), "/?FTM"),
        (("-L", "pt-br"), "/?FT&lang=pt-br"),
        (("-f", "3"), "/?FT&format=3"),
        (("-f", "%l:+%c %t&x"), "/?FT&format=%25l%3A%20%25c%20%25t%26x"),
        (("-j",), "/?FT&format=j1"),
        (("-0",), "/?FT0"),
        (("-1",), "/?FT1"),
        (("-0", "-2"), "/?FT2"),
        (("-q",), "/?FTq"),
        (("-A",), "/?FA"),
        (("-Aq1u", "u", "-L", "de", "Bonn"), "/Bonn?FAq1u&lang=de"),
        (("-l", ".."), "/..?FT"),
        (("--", "-h"), "/-h?FT"),
    ],
    ids=str,
)
def test_an_option_asks_wttr_in_for_its_meaning(
    run: Run, arguments: tuple[str, ...], asked: str
) -> None:
    reply = result({}) if "-j" in arguments else SUNNY
    with Scripted([reply]) as server:
        ended = run("weather", *arguments, url=server.url)
    (request,) = server.requests
    assert (request.method, request.path) == ("GET", asked)
    # By it wttr.in knows whom to answer in plain text.
    assert request.headers["user-agent"].startswith("curl/")
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("text", HOSTILE)
def test_a_location_arrives_as_it_was_written(run: Run, text: str) -> None:
    with Scripted([SUNNY, SUNNY]) as server:
        ended = run("weather", "-l", text, url=f"{server.url}/")
        run("weather", "-f", text, url=server.url)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "Sunny, 20 °C\n", "")
    place, form = (urlsplit(request.path) for request in server.requests)
    assert (unquote(place.path), place.query) == (f"/{text}", "FT")
    assert (form.path, unquote(form.query)) == ("/", f"FT&format={text}")


def test_json_is_json_on_one_line(run: Run) -> None:
    with Scripted([raw(b'{\n "a": [1,\n 2]}', content_type=JSON)]) as server:
        assert run("weather", "-j", url=server.url).stdout == '{"a":[1,2]}\n'


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (raw(b"Unknown location", status=404, framing="length"), "HTTP 404: Unknown location"),
        (raw(b"", status=401, framing="length"), "HTTP 401: "),
        (raw(b"slow down\n", status=429, framing="length"), "HTTP 429: slow down"),
        (raw(b"x" * 999, status=500), "HTTP 500: " + "x" * 300),
        (raw(b"", framing="length"), "the answer is empty"),
        (raw(b" \n\0\n", framing="length"), "the answer is empty"),
        (raw(b"<html>", framing="length"), "the answer is no JSON"),
    ],
    ids=["404", "401", "429", "500", "empty", "blank", "garbage"],
)
def test_no_weather_is_a_failure(run: Run, reply: Reply, told: str) -> None:
    with Scripted([reply]) as server:
        ended = run("weather", "-j", "Paris", url=server.url)
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", f"weather: {told}\n")


@pytest.mark.parametrize("base", ["http://a?b", "http://a#b", "http://a b", "http://a\nb"])
def test_a_weather_server_is_an_address_that_a_location_can_follow(run: Run, base: str) -> None:
    ended = run("weather", "Paris", WTTRAPI=base)
    told = "weather: WTTRAPI must be an address without blank, ? and #\n"
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", told)
