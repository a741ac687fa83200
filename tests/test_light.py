"""The gate of speed, by what does not depend on the machine's: what is loaded, asked of the system,
sent, and how the work grows with its size. A change that makes Bantam heavier raises a number here,
and says why.
"""

import io
import json
import re
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from math import log
from pathlib import Path
from typing import Any, Final

import pytest
from llmserver import LLMServer, text, write
from program import at, environment, run
from test_cli import loaded
from test_session import fresh
from test_wire import step
from tracing import Trace
from typist import typist

from bantam.core.messages import Message, Role
from bantam.model.completions import Assembler
from bantam.model.dialects.native import Native
from bantam.model.quirks import Quirks
from bantam.model.wire import Wire
from bantam.terminal.live import Live

SCRIPT = Path(sys.executable).with_name("bantam")

# -- what is loaded ---------------------------------------------------------------------------

# Modules of Bantam, packages among them; most of a start's own time is theirs.
MOST_MODULES: Final = {"--help": 20, "-p": 89}
# What a hello to a pipe has no use for.
NOT_FOR_A_HELLO: Final = {
    *("rich", "prompt_toolkit", "markdown_it", "pygments", "asyncio", "click", "httpx._main"),
    *("bantam.core.hidden", "bantam.model.programs", "bantam.model.dialects.dollar"),
    *("bantam.model.dialects.blocks", "bantam.tools.editing", "bantam.tools.reading"),
    *("bantam.tools.executors.bwrap", "bantam.agent.approval", "bantam.sessions.trust"),
    *("bantam.terminal.markdown", "bantam.terminal.live", "bantam.terminal.repl"),
}


@pytest.mark.parametrize("option", MOST_MODULES)
def test_a_start_loads_no_more_modules_than_it_needs(option: str, tmp_path: Path) -> None:
    with LLMServer([text("Hello.")], strict=False) as server:
        arguments = ("-p", "Hi.", *at(server.url)) if option == "-p" else (option,)
        modules = loaded(tmp_path, *arguments)
    ours = {name for name in modules if name.split(".")[0] == "bantam"}
    assert len(ours) <= MOST_MODULES[option], sorted(ours)
    assert not modules & NOT_FOR_A_HELLO


# Writes the name of each module that is looked for, in that order.
_TELLING: Final = """
import sys
class Teller:
    def find_spec(self, name, path=None, target=None):
        with open("loaded.txt", "a") as log:
            print(name, file=log)
sys.meta_path.insert(0, Teller())
from bantam.cli import main
main()
"""


def test_the_first_prompt_loads_no_more_modules_than_it_needs(tmp_path: Path) -> None:
    program = (sys.executable, "-c", _TELLING, "-o", "endpoint=http://127.0.0.1:9/v1")
    with typist(tmp_path, program=program) as one:
        one.ready()
        one.type("\x04")
        assert one.end() == 0
    names = (tmp_path / "loaded.txt").read_text().split()
    # The first of those that are loaded behind it.
    before = names[: names.index("bantam.terminal.commands")]
    ours = {name for name in before if name.split(".")[0] == "bantam"}
    assert len(ours) <= 58, sorted(ours)
    assert not {"httpx", "rich", "markdown_it", "bantam.agent.agent", "bantam.tools"} & set(before)


# -- what is asked of the system --------------------------------------------------------------


def test_up_to_its_first_request_a_run_starts_nothing_and_reads_only_what_it_uses(
    tmp_path: Path,
) -> None:
    project, trace = tmp_path / "project", Trace(tmp_path / "log")
    project.mkdir()
    (project / "AGENTS.md").write_text("Be kind.")
    (project / "notes.txt").write_text("Nobody's business.")
    env = {k: v for k, v in environment(tmp_path).items() if not k.startswith("COVERAGE")}
    with LLMServer([text("Hello.")]) as server:
        ended = run(
            *at(server.url), "-p", "Hi.", cwd=project, env=env, program=trace.of([str(SCRIPT)])
        )
        assert ended.returncode == 0, ended.stderr
        places = {("127.0.0.1", int(server.url.rpartition(":")[2].partition("/")[0]))}
    assert len(trace.executed) == 1
    assert trace.connections == places
    assert trace.listening == []
    opened = trace.opened()
    assert {name for name in opened if name.startswith(str(project))} <= {
        str(project),
        str(project / "AGENTS.md"),
    }
    installed = [name for name in opened if "site-packages" in name and name.endswith(".pyc")]
    ours = [name for name in opened if re.search(r"/bantam/[\w/]*__pycache__/", name)]
    foreign = [name for name in installed if name not in ours]
    assert len(ours) <= MOST_MODULES["-p"]
    assert len(foreign) <= 130, "httpx and what it needs"


# -- what is sent -----------------------------------------------------------------------------


def test_a_task_of_five_files_takes_six_requests_and_few_bytes(tmp_path: Path) -> None:
    calls = [write(f"{number}.txt", "x = 1\n") for number in range(5)]
    with LLMServer([*calls, text("Done.")]) as server:
        ended = run(*at(server.url), "-p", "Write five files.", cwd=tmp_path)
        bodies = [request.body for request in server.chat]
    assert ended.returncode == 0, ended.stderr
    assert len(bodies) == 6
    assert len(bodies[0]) <= 3500, "the prompt, the schemas, the question"
    assert sum(map(len, bodies)) <= 6 * 3500 + 15 * 400
    items = [[json.dumps(m) for m in json.loads(body)["messages"]] for body in bodies]
    for before, after in pairwise(items):
        assert after[: len(before)] == before, "the provider's cache holds all but what is new"


# -- how the work grows -----------------------------------------------------------------------


def seconds(work: Callable[[], object]) -> float:
    """Return the least CPU time of three runs."""
    times = []
    for _ in range(3):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def streamed(tokens: int, home: Path) -> None:
    del home
    event: dict[str, Any] = {"choices": [{"index": 0, "delta": {"content": "word "}}]}
    data = f"data: {json.dumps(event)}\n\n".encode() * tokens + b"data: [DONE]\n\n"
    answer = Assembler()
    for start in range(0, len(data), 100):
        answer.feed(data[start : start + 100])
    answer.close()


def asked(rounds: int, home: Path) -> None:
    del home
    wire = Wire(Native(), Quirks())
    messages = [Message(Role.USER, "Go.")]
    for number in range(rounds):
        wire.encoded(messages, ())
        messages += step(number)


def drawn(tokens: int, home: Path) -> None:
    del home
    ticks = iter(range(10**9))
    live = Live(
        io.StringIO(),
        lambda: (80, 24),
        lambda: next(ticks) / 1000,
        in_place=True,
        color=True,
        links=False,
    )
    words = ("# Title\n\n", "some ", "**bold** ", "words.\n\n", "- item\n", "`code` ", "\n\n")
    for number in range(tokens):
        live.feed(words[number % len(words)])
    live.close()


def stored(rounds: int, home: Path) -> None:
    session = fresh(home / f"home-{rounds}-{time.monotonic_ns()}")
    session.append(Message(Role.USER, "Go."))
    for number in range(rounds):
        for message in step(number):
            session.append(message)
    session.finish()
    session.close()


@pytest.mark.parametrize(
    ("work", "size"),
    [(streamed, 4000), (asked, 200), (drawn, 1500), (stored, 60)],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_eight_times_the_work_takes_about_eight_times_the_time(
    work: Callable[[int, Path], None], size: int, tmp_path: Path
) -> None:
    work(8, tmp_path)  # what is loaded is not what is measured
    small, large = (seconds(partial(work, times * size, tmp_path)) for times in (1, 8))
    exponent = log(large / small) / log(8)
    assert exponent <= 1.4, f"{small:.3f} s, then {large:.3f} s; 1 is linear, 2 quadratic"
