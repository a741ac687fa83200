"""How long Ctrl+C takes: `python benchmarks/interrupts.py [ROUNDS]` prints a table.

Every row is a state and how long Bantam had been in it. What is measured is the time from the
signal to the end of the process; SPEC section 8 allows 200 ms for the end of the turn. A row ends
with what must stay 0: processes left behind, wrong exit statuses, and tracebacks.
"""

import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Final

ROOT: Final = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]

from stopping import STATES, Stopped, stopped  # noqa: E402  # found by the line above

_DELAYS_MS: Final = (0, 1, 3, 10, 100, 300)


def main() -> None:
    """Measure and print."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    print(f"{rounds} rounds; milliseconds from the signal to the end of the process\n")
    print("state        after   median     p90     max   >200   left  status  trace")
    for state in STATES:
        for delay_ms in _DELAYS_MS:
            with tempfile.TemporaryDirectory() as folder:
                ends = [stopped(state, delay_ms / 1000, Path(folder)) for _ in range(rounds)]
            print(f"{state:<12} {delay_ms:>5}   {row(ends)}", flush=True)


def row(ends: list[Stopped]) -> str:
    """Return the numbers of one row."""
    times = sorted(end.seconds * 1000 for end in ends)
    p90 = times[int(0.9 * (len(times) - 1))]
    late = sum(time > 200 for time in times)
    left = sum(bool(end.survivors) for end in ends)
    status = sum(end.status != 130 for end in ends)
    trace = sum(bool(end.err) for end in ends)
    return (
        f"{median(times):6.0f}  {p90:6.0f}  {times[-1]:6.0f}  "
        f"{late:>5}  {left:>5}  {status:>6}  {trace:>5}"
    )


if __name__ == "__main__":
    main()
