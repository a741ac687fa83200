"""CPU time of Markdown drawn while it streams, 1 MB against 100 KB, and the bytes written.

    python benchmarks/markdown.py      prints a Markdown table; exit 1 if a bound does not hold

The bounds: time is linear, and at most three times the bytes of the text are written. A delta is 4
characters, about a token. The clock is the real one, so the tail is drawn at most 30 times a
second; the last two columns are of a run in which it is drawn at every delta.
"""

import io
import sys
import time
from collections.abc import Callable
from itertools import count

from bantam.terminal.live import Live

DELTA = 4
MOST_RATIO = 12.0  # ten times the text, and noise
MOST_BYTES = 3.0
PROSE = (
    "## A heading\n\nSome **bold** words, some `code` and [a link](https://example.com/x), in a\n"
    "paragraph of two lines.\n\n- an item\n  - a nested one\n\n```python\ndef f(x: int) -> str:\n"
    '    return f"{x}"  # as text\n```\n\n| a | b |\n|---|--:|\n| cell | 1 |\n\n'
)
TEXTS = {
    "mixed": PROSE,
    "one paragraph": "some words ",
    "one line without blanks": "x",
    "items": "- item with **bold** in it\n",
    "nested items": "- a\n  - b\n    - c\n",
    "links": "- [a page](https://example.com/x)\n",
    "emphasis": "*a **b _c ~~d " * 200 + "d~~ c_ b** a* " * 200 + "\n\n",
    "brackets": "![[" * 1000 + "\n\n",
    "code": "x = call(1, 'text')  # why\n",
    "diff": "+x = 1\n-y = 2\n z = 3\n@@ -1 +1 @@\n",
    "one table": "| cell | other cell |\n",
}
HEADS = {"one table": "| a | b |\n|---|---|\n", "code": "```python\n", "diff": "```diff\n"}


def drawn(text: str, clock: Callable[[], float]) -> tuple[float, float]:
    """Return the CPU seconds for `text`, and the bytes written for each of its own."""
    out = io.StringIO()
    start = time.process_time()
    answer = Live(out, lambda: (80, 24), clock, in_place=True, color=True, links=True)
    for at in range(0, len(text), DELTA):
        answer.feed(text[at : at + DELTA])
    answer.close()
    seconds = time.process_time() - start
    return seconds, len(out.getvalue().encode()) / len(text.encode())


def main() -> int:
    """Print the table; return 1 if a bound does not hold."""
    drawn(PROSE, time.monotonic)  # imports are not what is measured
    print("| text | 100 KB, s | 1 MB, s | ratio | ms a 1,000 deltas | bytes | at every delta |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    is_good = True
    for name, block in TEXTS.items():
        whole = HEADS.get(name, "") + block * (1_000_000 // len(block))
        small, _ = drawn(whole[:100_000], time.monotonic)
        large, size = drawn(whole, time.monotonic)
        each, most = drawn(whole[:20_000], map(float, count()).__next__)
        is_good &= large / small <= MOST_RATIO and size <= MOST_BYTES
        a_thousand = large / (len(whole) / DELTA) * 1e6
        print(
            f"| {name} | {small:.2f} | {large:.2f} | {large / small:.1f} | {a_thousand:.1f} "
            f"| x{size:.1f} | x{most:.1f}, {each / (20_000 / DELTA) * 1e6:.0f} ms |",
            flush=True,
        )
    return int(not is_good)


if __name__ == "__main__":
    sys.exit(main())
