"""Peak memory of one-shot runs that are fed without end, against one that says hello.

    python benchmarks/memory.py        prints a Markdown table; exit 1 if a bound is passed

The peak is the kernel's (ru_maxrss of the child): nothing is sampled. A child's peak begins with
its parent's memory, so this process stays small: big bodies are made as they are sent.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import repeat
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from llmserver import LLMServer, Reply, big_answer, big_line, shell, text

MORE_MIB = 64
RUNS: dict[str, tuple[Reply, ...]] = {
    "hello": (text("Hello."),),
    "`yes` until its time-out of 10 s": (shell("yes bantam"), text("Stopped.")),
    "1 GiB of output": (shell("head -c 1G /dev/zero | tr '\\0' x"), text("Much.")),
    "1 GiB in one-byte lines": (shell("yes '' | head -c 1G"), text("Much.")),
    "one SSE line of 300 MB": (big_line(300),),
    "an answer of 300 MB": (big_answer(300),),
    "an error page of 300 MB": (
        Reply(status=400, content_type="text/html", lazy=lambda: repeat(b"x" * 100_000, 3000)),
    ),
}


def peak_mib(replies: Sequence[Reply]) -> tuple[float, int]:
    """Return the peak memory in MiB and the exit status of one run against `replies`."""
    with tempfile.TemporaryDirectory() as folder, LLMServer(replies, strict=False) as server:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "bantam.cli", "-p", "go"),
                *("-o", f"endpoint={server.url}", "-o", "shell_timeout=10"),
            ],
            cwd=folder,
            env={**os.environ, "HOME": folder},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        return usage.ru_maxrss / 1024, process.returncode


def main() -> int:
    """Print the table; return 1 if a run needs 64 MiB more than hello."""
    hello, _ = peak_mib(RUNS["hello"])
    print("| run | peak MiB | more than hello | exit |\n|---|---|---|---|")
    worst = 0.0
    for name, replies in RUNS.items():
        peak, status = peak_mib(replies)
        worst = max(worst, peak - hello)
        print(f"| {name} | {peak:.1f} | {peak - hello:+.1f} | {status} |", flush=True)
    return int(worst >= MORE_MIB)


if __name__ == "__main__":
    sys.exit(main())
