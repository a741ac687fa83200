"""How long Ctrl+C takes: `python benchmarks/interrupts.py [ROUNDS]` prints a table.

Every row is a state and how long Bantam had been in it. What is measured is the time from the
signal to the end of the process; SPEC section 8 allows 200 ms for the end of the turn. A row ends
with what must stay 0: processes left behind, wrong exit statuses, and tracebacks.

A second table is of the interactive prompt, at a pseudo-terminal: from the key to the next prompt.
"""

import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Final

ROOT: Final = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]

from stopping import STATES, Stopped, stopped  # noqa: E402  # found by the line above
from test_states import CTRL_C, prompt  # noqa: E402
from test_states import STATES as AT_THE_PROMPT  # noqa: E402

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
    print("\nat the prompt        median     p90     max   >200   left")
    for name in AT_THE_PROMPT:
        with tempfile.TemporaryDirectory() as folder:
            told = [prompt_back(name, Path(folder, str(number))) for number in range(rounds)]
        times = sorted(seconds * 1000 for seconds, _ in told)
        late = sum(time > 200 for time in times)
        left = sum(processes > 1 for _, processes in told)
        print(f"{name:<12}         {figures(times)}  {late:>5}  {left:>5}", flush=True)


def prompt_back(name: str, folder: Path) -> tuple[float, int]:
    """Return the seconds from Ctrl+C in the state to a prompt, and how many processes there are."""
    folder.mkdir()
    with prompt(name, folder) as here:
        began = time.monotonic()
        here.one.type(CTRL_C)
        here.one.until(lambda: here.one.lines[-1] == ">")
        return time.monotonic() - began, len(here.processes())


def row(ends: list[Stopped]) -> str:
    """Return the numbers of one row."""
    times = sorted(end.seconds * 1000 for end in ends)
    late = sum(time > 200 for time in times)
    left = sum(bool(end.survivors) for end in ends)
    status = sum(end.status != 130 for end in ends)
    trace = sum(bool(end.err) for end in ends)
    return f"{figures(times)}  {late:>5}  {left:>5}  {status:>6}  {trace:>5}"


def figures(times: list[float]) -> str:
    """Return the median, the 90th percentile and the most of sorted `times`."""
    p90 = times[int(0.9 * (len(times) - 1))]
    return f"{median(times):6.0f}  {p90:6.0f}  {times[-1]:6.0f}"


if __name__ == "__main__":
    main()
