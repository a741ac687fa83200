"""What the sandbox adds to a command: `python benchmarks/sandbox.py [ROUNDS]` prints a table.

Each row is a project; here and in the sandbox the same command runs in turn. Milliseconds; at most
30 may be added (median).
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Final

ROOT: Final = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "src"))

from bantam.core.cancel import Cancel  # noqa: E402  # found by the line above
from bantam.tools.executors.bwrap import BwrapExecutor  # noqa: E402
from bantam.tools.executors.local import LocalExecutor  # noqa: E402
from bantam.tools.files import write_tool  # noqa: E402

Executor = LocalExecutor | BwrapExecutor


def main() -> None:
    """Measure and print."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    print(f"{rounds} rounds; milliseconds\n")
    print("project              what          here   sandbox     added    p90 added   first")
    with tempfile.TemporaryDirectory() as folder:
        for name, make in {
            "empty": empty,
            "with git": with_git,
            "with 5000 folders": large,
        }.items():
            project = Path(folder, name)
            project.mkdir()
            make(project)
            for what, act in {"echo": echo, "write_file": write}.items():
                print(f"{name:<20} {what:<11}{row(project, act, rounds)}", flush=True)


def empty(_: Path) -> None:
    pass


def with_git(project: Path) -> None:
    subprocess.run(["git", "init", "-q", "."], cwd=project, check=True)


def large(project: Path) -> None:
    with_git(project)
    for number in range(5000):
        (project / str(number % 50) / str(number)).mkdir(parents=True)


def echo(where: Executor) -> None:
    for text in where.run("echo x", 60, Cancel()):
        assert text == "x\n"


def write(where: Executor) -> None:
    arguments = {"path": "file", "content": "x\n", "offset": 0, "del_bytes": 9}
    for _ in write_tool(where).run(arguments, Cancel()):
        pass


def row(project: Path, act: Callable[[Executor], None], rounds: int) -> str:
    here = LocalExecutor(project, os.environ)
    inside = BwrapExecutor(project, os.environ)
    first = seconds(act, inside)
    pairs = [(seconds(act, here), seconds(act, inside)) for _ in range(rounds)]
    added = sorted(b - a for a, b in pairs)
    numbers = [
        median(a for a, _ in pairs),
        median(b for _, b in pairs),
        median(added),
        added[int(len(added) * 0.9)],
        first,
    ]
    return "".join(f"{number * 1000:>10.1f}" for number in numbers)


def seconds(act: Callable[[Executor], None], where: Executor) -> float:
    started = time.perf_counter()
    act(where)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
