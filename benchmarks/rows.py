"""The rows of the table: what is measured, against what, and the bound.

Each function here measures one group and yields its rows. Bounds are factors of the yardstick, or
of the row's own unit where it has `is_value`.
"""

import hashlib
import json
import math
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import linear_regression, median
from typing import Final

from measuring import BANTAM, Bench, Command, Row, Run, measured
from wire import COMMAND, printing

ROOT: Final = Path(__file__).parent.parent
MORE: Final = 3  # times the runs, where a run takes little time
_SIZES: Final = (5_000, 10_000, 20_000, 40_000, 80_000)
_GIB: Final = 1 << 30
_NEXT_TO: Final = 50  # rounds: each side of round 100, and the last


def start(bench: Bench) -> Iterator[Row]:
    """Time until something is said: version and help."""
    nothing = "python -c pass"
    taken = bench.in_turns(
        {
            "--version": Command((BANTAM, "--version")),
            nothing: Command((sys.executable, "-c", "pass")),
            "--help": Command((BANTAM, "--help")),
        },
        MORE,
    )
    python = _cpu_ms(taken[nothing])
    yield Row("`--version`, CPU", "ms", _cpu_ms(taken["--version"]), nothing, python, 1.6)
    yield Row("`--help`, CPU", "ms", _cpu_ms(taken["--help"]), nothing, python)


def hello(bench: Bench) -> Iterator[Row]:
    """The smallest turn, one-shot, against scripts that do the same request."""
    body = bench.body()
    commands = {
        "hello": Command(bench.bantam("hello", "-p", "hello")),
        "httpx": Command(bench.minimal("with_httpx", "hello", body)),
        "http.client": Command(bench.minimal("with_http_client", "hello", body)),
    }
    if shutil.which("curl"):
        commands["curl"] = Command(bench.curl("hello", body))
    taken = bench.in_turns(commands, MORE)
    mine, httpx = taken["hello"], taken["httpx"]
    for name, runs in taken.items():
        if name != "hello":
            what, bound = "start to first request, wall", 1.15 if name == "httpx" else None
            yield Row(what, "ms", _first_ms(mine), name, _first_ms(runs), bound)
    yield Row("hello, CPU", "ms", _cpu_ms(mine), "httpx", _cpu_ms(httpx), 1.3)
    yield Row("hello, wall", "ms", _wall_ms(mine), "httpx", _wall_ms(httpx))
    yield Row("hello, peak memory", "MiB", _peaks(mine), "httpx", _peaks(httpx), 1.4)
    yield from _traffic("hello", mine, "httpx", httpx)


def rounds(bench: Bench) -> Iterator[Row]:
    """Turns of 20 and of 1,000 calls: the client's own time, the command's taken off."""
    some = measured(Command(bench.bantam("rounds-20", "-p", "go")), bench.wire).posts
    first, step = some[0].size, some[-1].size - some[-2].size
    for number in (20, 1000):
        name, script = f"{number:,} rounds", f"{number:,} posts, http.client"
        answer, sizes = f"rounds-{number}", bench.folder / f"sizes-{number}.json"
        mine = Command(bench.bantam(answer, "-p", "go"))
        sizes.write_text(json.dumps([first + step * each for each in range(number + 1)]))
        posts = Command(bench.minimal("rounds", answer, str(sizes), COMMAND))
        # Long, and each run of them is the median of many rounds: fewer do.
        taken = bench.in_turns({name: mine, script: posts}, 1 if number == 20 else 0.5)
        pairs = list(zip(taken[name], taken[script], strict=True))
        alone = [float(theirs.said) * 1000 for _, theirs in pairs]
        gaps = [median(run.gaps_s) * 1000 for run in taken[name]]
        own = [gap - command for gap, command in zip(gaps, alone, strict=True)]
        what = f"{name}, own time of each"
        yield Row(what, "ms", own, "its command alone", alone, 10, is_value=True)
        if number == 1000:
            last, early = (
                [_own_ms(mine, theirs, around) for mine, theirs in pairs]
                for around in (number - _NEXT_TO, 100)
            )
            yield Row("own time of round 1,000, posting taken off", "ms", last, "100", early, 1.5)
        yield from _traffic(name, taken[name])


def _own_ms(mine: Run, posts: Run, around: int) -> float:
    """Return the time of a round near `around` without its command and what posting it takes."""
    near = slice(around - _NEXT_TO, around + _NEXT_TO)
    own = median(mine.gaps_s[near]) - median(posts.gaps_s[near]) - float(posts.said)
    return own * 1000


def tokens(bench: Bench) -> Iterator[Row]:
    """Streamed Markdown to a pipe and on a terminal; the difference of two sizes has no start."""
    body = bench.body()
    small, large = 5_000, 20_000
    commands = {"hello, pty": Command(bench.bantam("hello", "-p", "go"), keys=())}
    for size in _SIZES:
        answer = f"tokens-{size}"
        if size in (small, large):
            commands[f"{size}, pipe"] = Command(bench.bantam(answer, "-p", "go"))
            commands[f"{size}, httpx"] = Command(bench.minimal("with_httpx", answer, body))
        commands[f"{size}, pty"] = Command(bench.bantam(answer, "-p", "go"), keys=())
    taken = bench.in_turns(commands)

    def each(kind: str) -> list[float]:
        pairs = zip(taken[f"{small}, {kind}"], taken[f"{large}, {kind}"], strict=True)
        return [(b.cpu_s - a.cpu_s) * 1e6 / (large - small) for a, b in pairs]

    for kind, bound in (("pipe", 2), ("pty", 6)):
        what = f"1,000 streamed tokens, {kind}, CPU"
        yield Row(what, "ms", each(kind), "httpx", each("httpx"), bound)
    for size in (small, large):
        ours, theirs = taken[f"{size}, pipe"], taken[f"{size}, httpx"]
        yield Row(f"{size:,} tokens, pipe, wall", "ms", _wall_ms(ours), "httpx", _wall_ms(theirs))
        ours = taken[f"{size}, pty"]
        yield Row(f"{size:,} tokens, pty, wall", "ms", _wall_ms(ours), "httpx", _wall_ms(theirs))
    starts = taken["hello, pty"]
    growth = [
        _exponent([taken[f"{size}, pty"][n].cpu_s - starts[n].cpu_s for size in _SIZES])
        for n in range(bench.runs)
    ]
    what = "exponent of CPU, pty, 5,000 to 80,000 tokens"
    yield Row(what, "", growth, bound=1.05, is_value=True)


def _exponent(seconds: Sequence[float]) -> float:
    """Return the slope of the times over the sizes, both logarithms, by least squares."""
    return linear_regression([*map(math.log, _SIZES)], [*map(math.log, seconds)]).slope


def prompt(bench: Bench) -> Iterator[Row]:
    """The interactive prompt."""
    quit_key = b"\x04"
    minimal = "prompt_toolkit"
    taken = bench.in_turns(
        {
            "prompt": Command(bench.bantam("hello"), keys=(quit_key,)),
            minimal: Command(bench.minimal("with_prompt_toolkit", ""), keys=(quit_key,)),
            "prompt, one turn": Command(bench.bantam("hello"), keys=(b"hello\r", quit_key)),
        },
        MORE,
    )
    first = {name: [each.prompt_s * 1000 for each in runs] for name, runs in taken.items()}
    yield Row("first prompt, wall", "ms", first["prompt"], minimal, first[minimal], 1.3)
    peaks, least = _peaks(taken["prompt, one turn"]), _peaks(taken[minimal])
    yield Row("prompt, peak memory after a turn", "MiB", peaks, minimal, least, 80, is_value=True)


def resume(bench: Bench) -> Iterator[Row]:
    """A turn of a session of 5 MB."""
    home = bench.folder / "resumed"
    _store(home, hashlib.md5(str(home).encode()).hexdigest(), _conversation())
    measured(Command(bench.bantam("hello", "-c", "-p", "hello"), folder=home), bench.wire)
    taken = bench.in_turns(
        {
            "resume": Command(bench.bantam("hello", "-c", "-p", "hello"), folder=home),
            "hello again": Command(bench.bantam("hello", "-p", "hello")),
        }
    )
    mine, least = taken["resume"], taken["hello again"]
    what = "resume of 5 MB"
    yield Row(f"{what}, wall", "ms", _wall_ms(mine), "hello", _wall_ms(least))
    yield Row(f"{what}, CPU", "ms", _cpu_ms(mine), "hello", _cpu_ms(least))
    yield Row(f"{what}, peak memory", "MiB", _peaks(mine), "hello", _peaks(least))
    yield from _traffic(what, mine)


def listing(bench: Bench) -> Iterator[Row]:
    """`/list` of many sessions, each as Bantam wrote one."""
    one, many = bench.folder / "one", bench.folder / "many"
    one.mkdir()
    measured(Command(bench.bantam("hello", "-p", "hello"), folder=one), bench.wire)
    (stored,) = (one / ".bantam" / "sessions").glob("*.json")
    for number in range(1000):
        name = f"session-{number}"
        _store(many, name, [stored.read_text().replace(stored.stem, name)])
    call = bench.bantam("hello")
    taken = bench.in_turns(
        {
            "/list of 1,000": Command(call, stdin=b"/list\n", folder=many),
            "/list of 1": Command(call, stdin=b"/list\n", folder=one),
        }
    )
    mine, least = _wall_ms(taken["/list of 1,000"]), _wall_ms(taken["/list of 1"])
    yield Row("`/list` of 1,000 sessions, wall", "ms", mine, "of 1", least)


def output(bench: Bench) -> Iterator[Row]:
    """A command that prints 1 GiB."""
    what, alone = "shell output of 1 GiB", "its command alone"
    taken = bench.in_turns(
        {
            what: Command(bench.bantam(f"output-{_GIB}", "-p", "go")),
            alone: Command(("bash", "-c", printing(_GIB))),
            "hello, for memory": Command(bench.bantam("hello", "-p", "hello")),
        }
    )
    peaks, least = _peaks(taken[what]), _peaks(taken["hello, for memory"])
    yield Row(f"{what}, wall", "ms", _wall_ms(taken[what]), alone, _wall_ms(taken[alone]))
    yield Row(f"{what}, peak memory", "MiB", peaks, "hello", least)


def sizes(bench: Bench) -> Iterator[Row]:
    """What does not change from run to run: the prompt's tokens, and bytes on the disk."""
    yield Row("system prompt and schemas", "tokens", [_tokens(bench)], bound=1000, is_value=True)
    _python("build", "--wheel", "--no-isolation", "--outdir", str(bench.folder), str(ROOT))
    (wheel,) = bench.folder.glob("*.whl")
    size = wheel.stat().st_size / 1024
    yield Row("wheel", "KiB", [size], bound=150, is_value=True)
    installed = bench.folder / "installed"
    _python("pip", "install", "--quiet", "--no-compile", "--target", str(installed), str(wheel))
    size = sum(each.stat().st_size for each in installed.rglob("*") if each.is_file()) / 1024**2
    yield Row("installed with dependencies", "MiB", [size], bound=20, is_value=True)


def _tokens(bench: Bench) -> float:
    """Return the tokens of what is sent before the first prompt, in o200k_base."""
    import bpe_openai  # noqa: PLC0415  # last of all: it makes this process big

    asked = json.loads(Path(bench.body()).read_bytes())
    schemas = json.dumps(asked["tools"], separators=(",", ":"))
    return len(
        bpe_openai.get_encoding("o200k_base").encode(asked["messages"][0]["content"] + schemas)
    )


def _python(*arguments: str) -> None:
    """Run a module. Raises CalledProcessError, and says what it said, if it fails."""
    call = (sys.executable, "-m", *arguments)
    done = subprocess.run(call, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        sys.stderr.write(done.stderr)
        done.check_returncode()


# Name -> what yields its rows, as `--only` takes them and in the order of the table. Memory is
# measured first: this process grows with what it keeps.
GROUPS: Final[Mapping[str, Callable[[Bench], Iterator[Row]]]] = {
    "version": start,
    "hello": hello,
    "prompt": prompt,
    "resume": resume,
    "list": listing,
    "output": output,
    "tokens": tokens,
    "rounds": rounds,
    "sizes": sizes,
}


def _store(home: Path, name: str, content: Iterable[str]) -> None:
    """Put a session into the folder in which `home` keeps them."""
    folder = home / ".bantam" / "sessions"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.json").open("w") as file:
        file.writelines(content)


def _conversation() -> Iterator[str]:
    """Yield a list of 1,000 messages of 5 kB, as a session may be given: never whole in memory."""
    for number in range(1000):
        message = {"role": ("user", "assistant")[number % 2], "content": "word " * 1000}
        yield ("," if number else "[") + json.dumps(message)
    yield "]"


def _traffic(
    what: str, mine: Sequence[Run], against: str = "", theirs: Sequence[Run] = ()
) -> Iterator[Row]:
    """Yield what went over the wire; reused is the part that began the body before, too."""
    for name in ("bytes_sent", "requests", "connections", "prefix_reuse"):
        values, yardstick = ([run.measures[name] for run in runs] for runs in (mine, theirs))
        if name != "prefix_reuse" or any(values):
            yield Row(f"{what}, {name.replace('_', ' ')}", "", values, against, yardstick)


def _cpu_ms(runs: Sequence[Run]) -> list[float]:
    return [run.cpu_s * 1000 for run in runs]


def _wall_ms(runs: Sequence[Run]) -> list[float]:
    return [run.wall_s * 1000 for run in runs]


def _first_ms(runs: Sequence[Run]) -> list[float]:
    return [run.first_request_s * 1000 for run in runs]


def _peaks(runs: Sequence[Run]) -> list[float]:
    if any(run.peak_mib is None for run in runs):
        raise ValueError("the benchmark has become bigger than what it measures")
    return [run.peak_mib for run in runs if run.peak_mib is not None]
