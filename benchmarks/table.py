"""How fast and light Bantam is, as ratios: one Markdown table, and the same as JSON.

    python benchmarks/table.py [--runs N] [--only GROUP] [--json FILE]

What each row says and how it is measured stands in README.md beside this file. It reports: the
status is 0 where a bound is missed, too.
"""

import argparse
import json
import math
import platform
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from measuring import Bench, Row, Spread
from rows import GROUPS, ROOT
from wire import Wire

_HEAD: Final = (
    "| what | measured | against | measured | ratio | bound | |\n|---|--:|---|--:|--:|--:|---|"
)


def main(arguments: Sequence[str]) -> int:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description="How fast and light Bantam is, as ratios.")
    parser.add_argument("--runs", type=int, default=7, help="of each process (7)")
    parser.add_argument("--only", choices=GROUPS, action="append", help="may be repeated")
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "table.json")
    options = parser.parse_args(arguments)
    told = []
    print(_HEAD)
    with tempfile.TemporaryDirectory() as folder, Wire() as wire:
        # Where links are followed, as a process sees its own folder.
        bench = Bench(wire, Path(folder).resolve(), options.runs)
        bench.warm_up()
        for name in options.only or GROUPS:
            for row in GROUPS[name](bench):
                print(_line(row), flush=True)
                told.append({"group": name, **_told(row)})
    whole = {
        "python": platform.python_version(),
        "runs": options.runs,
        "rows": told,
        "processes": {name: _measures(each) for name, each in bench.processes.items()},
    }
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(whole, indent=1) + "\n")
    return 0


def _told(row: Row) -> dict[str, Any]:
    """Return `row` as the JSON tells it."""
    return {
        "what": row.what,
        "unit": row.unit,
        "measured": _spread(row.values),
        "against": row.against or None,
        "yardstick": _spread(row.yardstick) if row.yardstick else None,
        "ratio": _ratio(row),
        "bound": row.bound,
        "bound_is": None if row.bound is None else "value" if row.is_value else "ratio",
        "missed_by": _missed(row),
    }


def _spread(values: Sequence[float]) -> dict[str, float]:
    spread = Spread.of(values)
    return {"median": spread.median, "min": spread.min, "max": spread.max}


def _measures(runs: Sequence[Mapping[str, float]]) -> dict[str, dict[str, float] | None]:
    """Return the spread of each measure; null where a run has none."""
    columns = {name: [run[name] for run in runs] for name in runs[0]}
    return {
        name: None if any(map(math.isnan, values)) else _spread(values)
        for name, values in columns.items()
    }


def _ratio(row: Row) -> float | None:
    if not row.yardstick or not (yardstick := Spread.of(row.yardstick).median):
        return None
    return Spread.of(row.values).median / yardstick


def _missed(row: Row) -> float | None:
    """Return by how much of the bound it is passed; None if it holds or there is none."""
    found = Spread.of(row.values).median if row.is_value else _ratio(row)
    if row.bound is None or found is None or found <= row.bound:
        return None
    return found / row.bound - 1


def _line(row: Row) -> str:
    ratio, missed = _ratio(row), _missed(row)
    unit = f" {row.unit}" if row.is_value else "x"
    cells = (
        row.what,
        f"{_cell(row.values)} {row.unit}".strip(),
        row.against,
        f"{_cell(row.yardstick)} {row.unit}".strip() if row.yardstick else "",
        "" if ratio is None else f"{ratio:.2f}x",
        "" if row.bound is None else f"{row.bound:g}{unit}".strip(),
        "" if missed is None else f"missed by {missed:.0%}",
    )
    return f"| {' | '.join(cells)} |"


def _cell(values: Sequence[float]) -> str:
    """Return the median and, where runs differ, the least and the most."""
    spread = Spread.of(values)
    if spread.min == spread.max:
        return _number(spread.median)
    return f"{_number(spread.median)} ({_number(spread.min)} - {_number(spread.max)})"


def _number(value: float) -> str:
    """Return three digits, more where they stand before the point."""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
