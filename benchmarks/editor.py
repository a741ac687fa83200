"""CPU time of the line editor with a long paste in it, 1 MB against 100 KB.

    python benchmarks/editor.py        prints a Markdown table; exit 1 if a ratio is too large

The editor runs on a pseudo-terminal. The paste may cost in proportion to its length, a key behind
it next to nothing more: what is drawn is a screen, however long the text.
"""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Final

ROOT: Final = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]

from typist import Typist, typist  # noqa: E402  # found by the line above

SHORT: Final = 100_000
LONG: Final = 10 * SHORT
KEYS: Final = 20
MOST_RATIO_OF_A_PASTE: Final = 15.0  # ten times the text, and noise
MOST_RATIO_OF_A_KEY: Final = 4.0  # the text is copied, and nothing else
BEGIN, END = "\x1b[200~", "\x1b[201~"
PASTES: Final[dict[str, Callable[[int], str]]] = {
    "many lines": lambda size: BEGIN + ("x" * 49 + "\r") * (size // 50) + END,
    "one line": lambda size: BEGIN + "word " * (size // 5) + END,
    "one line, not marked": lambda size: "word " * (size // 5),
}


def main() -> int:
    """Measure and print."""
    print("| pasted | paste, ms | ratio | a key behind it, ms | ratio |\n|---|--:|--:|--:|--:|")
    is_good = True
    for name, paste in PASTES.items():
        (short, short_key), (long, long_key) = (measured(paste(size)) for size in (SHORT, LONG))
        ratio, key_ratio = long / short, long_key / short_key
        paste_ms, key_ms = long * 1000, long_key * 1000
        print(f"| {name} | {paste_ms:.0f} | {ratio:.1f} | {key_ms:.1f} | {key_ratio:.1f} |")
        is_good &= ratio <= MOST_RATIO_OF_A_PASTE and key_ratio <= MOST_RATIO_OF_A_KEY
    return 0 if is_good else 1


def measured(paste: str) -> tuple[float, float]:
    """Return the seconds of CPU time that `paste` takes, and a key typed behind it."""
    with tempfile.TemporaryDirectory() as folder, typist(Path(folder)) as one:
        one.ready()
        started = cpu_seconds(one)
        Thread(target=one.type, args=(f"{paste}end",)).start()
        one.shows("end")
        pasted = cpu_seconds(one)
        for number in range(KEYS):
            one.type(f"{number % 10}")
            one.shows("end" + "".join(str(each % 10) for each in range(number + 1)))
        return pasted - started, (cpu_seconds(one) - pasted) / KEYS


def cpu_seconds(one: Typist) -> float:
    """Return the CPU time of the program's main thread; Linux alone tells it."""
    time_ns = Path(f"/proc/{one.child.pid}/schedstat").read_text().split()[0]
    return int(time_ns) / 1e9


if __name__ == "__main__":
    sys.exit(main())
