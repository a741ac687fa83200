"""What storing a conversation costs: appends, snapshots, a turn, the list.

    python benchmarks/sessions.py      prints a Markdown table; exit 1 if a bound is passed

The factors hold from one machine to the next, milliseconds do not: each is against the first row of
its kind, in this run. Two rows are whole processes, all others are measured in this one.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

ROOT: Final = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]

from llmserver import LLMServer, text  # noqa: E402  # found by the line above

from bantam.core.events import UsageReport  # noqa: E402  # likewise
from bantam.core.messages import Message, Role  # noqa: E402  # likewise
from bantam.sessions import snapshot  # noqa: E402  # likewise
from bantam.sessions.session import Session  # noqa: E402  # likewise
from bantam.sessions.snapshot import About, Conversation  # noqa: E402  # likewise
from bantam.sessions.store import Store, project_id  # noqa: E402  # likewise

MORE_MS: Final = 25  # what a session of 1 MB may add to a turn
_MB: Final = 1_000_000
_PIECE: Final = 5000  # bytes of a message, about what a tool's result has
_COST: Final = UsageReport(1, 1, None, estimated=False, context=1, window=1)
_PROMPT: Final = Message(Role.USER, "Go on.")
_ANSWER: Final = Message(Role.ASSISTANT, "Done. " * 50)


def main() -> int:
    """Print the table; return 1 if a session of 1 MB makes a turn too slow."""
    print("| what | ms | factor |\n|---|---|---|")
    _rows({f"append to {n:,} messages": append_ms(n) for n in (10, 1_000, 20_000)})
    _rows({f"snapshot of {size} MB": snapshot_ms(size) for size in (0.1, 1, 10)})
    small, large = turn_ms(0.001), turn_ms(1)
    _rows({"turn with 1 kB: load, four appends, snapshot": small, "turn with 1 MB": large})
    without, stored = process_ms()
    _rows({"process sent 1 MB, --no-session": without, "process sent 1 MB, stored": stored})
    alone, big = list_ms(None), list_ms(60 * _MB)
    _rows({"list of 1,000 sessions": alone, "list of 1,000 and one of 60 MB": big})
    print(f"\n1 MB adds {large - small:.1f} ms to a turn; the bound is {MORE_MS} ms")
    return int(large - small >= MORE_MS)


def _rows(ms: dict[str, float]) -> None:
    first = next(iter(ms.values()))
    for what, each in ms.items():
        print(f"| {what} | {each:.2f} | {each / first:.2f} |", flush=True)


@contextmanager
def session_of(messages: int, size: int) -> Iterator[Session]:
    """Yield a stored session with so many messages of `size` bytes each."""
    with tempfile.TemporaryDirectory() as home:
        store = Store(Path(home), _now)
        _fill(store, "mine", messages, size)
        with closing(store.resumed("mine", About())) as session:
            yield session


def _fill(store: Store, name: str, messages: int, size: int) -> None:
    """Put a session into the folder, as Bantam writes it."""
    roles = (Role.ASSISTANT, Role.USER)
    said = [Message(roles[number % 2], "x" * size) for number in range(1, messages + 1)]
    assert store.folder is not None
    store.folder.mkdir(parents=True, exist_ok=True)
    text_of_it = b"".join(snapshot.pieces(name, About(), Conversation(said)))
    (store.folder / f"{name}.json").write_bytes(text_of_it)


def _now() -> datetime:
    return datetime.now(UTC)


def _ms(what: Callable[[], object], rounds: int) -> float:
    """Return how long it takes where nothing else wants the disk: the fastest tenth's slowest."""
    times = []
    for _ in range(rounds):
        began = perf_counter()
        what()
        times.append(perf_counter() - began)
    return sorted(times)[rounds // 10] * 1000


def append_ms(messages: int) -> float:
    """Return how long a message takes to be on the disk, behind so many others."""
    with session_of(messages, 200) as session:
        return _ms(lambda: session.append(_ANSWER), 300)


def snapshot_ms(mb: float) -> float:
    """Return how long the end of a turn takes."""
    with session_of(max(1, int(mb * _MB / _PIECE)), _PIECE) as session:

        def end_turn() -> None:
            session.count(_COST)
            session.finish()

        return _ms(end_turn, 30)


def turn_ms(mb: float) -> float:
    """Return what is spent on the session in a turn with one call."""
    with tempfile.TemporaryDirectory() as home:
        store = Store(Path(home), _now)
        _fill(store, "mine", max(2, int(mb * _MB / _PIECE)), min(_PIECE, int(mb * _MB)))

        def turn() -> None:
            with closing(store.resumed("mine", About())) as session:
                for message in (_PROMPT, _ANSWER, _ANSWER, _ANSWER):
                    session.append(message)

        return _ms(turn, 40)


def process_ms() -> tuple[float, float]:
    """Return how long runs take that send 1 MB: as a prompt of no session, and from a session.

    Both wait for the same server; they take turns, so that what else runs slows both.
    """
    times: tuple[list[float], list[float]] = ([], [])
    done = text("Done.")
    with tempfile.TemporaryDirectory() as folder, LLMServer([done], repeat_last=True) as server:
        here = Path(folder)
        (here / "p.txt").write_text("x" * _MB)
        _fill(Store(here / ".bantam", _now), project_id(here), _MB // _PIECE, _PIECE)
        for number in range(30):
            arguments = (("--no-session", "p.txt"), ("-c", "-p", "Go on."))[number % 2]
            began = perf_counter()
            subprocess.run(
                [sys.executable, "-m", "bantam.cli", "-o", f"endpoint={server.url}", *arguments],
                cwd=folder,
                env={**os.environ, "HOME": folder, "PYTHONPATH": str(ROOT / "src")},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=True,
            )
            times[number % 2].append(perf_counter() - began)
    without, stored = (median(each) * 1000 for each in times)
    return without, stored


def list_ms(big: int | None) -> float:
    """Return how long the list of 1,000 sessions takes, beside one of `big` bytes."""
    with tempfile.TemporaryDirectory() as home:
        store = Store(Path(home), _now)
        for number in range(1000):
            _fill(store, f"s{number}", 10, 500)
        if big is not None:
            _fill(store, "big", big // _PIECE, _PIECE)
        return _ms(store.summaries, 10)


if __name__ == "__main__":
    sys.exit(main())
