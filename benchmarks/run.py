"""`make bench`: measure, print, write benchmarks/results/latest.json, and draw docs/performance.md from it.

Everything is measured on one core in CPU seconds or as ratios within one run, except the plan's accuracy, which is wall
clock. `--page` draws the page again from the saved JSON without measuring. `--full-size FILE` adds what one large
`psephos simulate tally --json` took to the results, beside what `psephos plan` foresees for it.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.page import write_page
from benchmarks.scaling import full_size, growth, memory, plan_accuracy, wire
from psephos.bench import measure
from psephos.cli.show import show as show_outcome
from psephos.outcomes import Outcome


def measure_all(bits: list[int], repetitions: int, console: Console) -> dict[str, Any]:
    """Everything, as one JSON object."""
    console.print("encryption, counting, other libraries ...")
    results = measure(bits, repetitions).as_json()
    console.print("growth ...")
    results["growth"] = growth(repetitions=max(2, repetitions // 2))
    results["wire"] = wire()
    console.print("memory ...")
    results["memory"] = memory()
    console.print("the plan ...")
    results["plan"] = plan_accuracy()
    return results


def show(results: dict[str, Any], console: Console) -> None:
    """The tables that matter most."""
    measured = {
        name: value for name, value in results.items() if name not in ("growth", "wire", "memory", "plan", "full_size")
    }
    show_outcome(Outcome.from_json(measured))
    for name, series in results["growth"]["series"].items():
        console.print(f"exponent of the marginal cost in {name}: {series['exponent']:.3f}")
    for row in results["plan"]:
        console.print(f"plan: {row['predicted_seconds']} s foreseen, {row['taken_seconds']} s taken ({row['ratio']})")


def main() -> None:
    """Measure or read, print, draw."""
    here = Path(__file__).parent
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bits", type=int, nargs="+", default=[2048, 3072], help="key sizes")
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--output", type=Path, default=here / "results" / "latest.json")
    parser.add_argument("--docs", type=Path, default=here.parent / "docs")
    parser.add_argument("--page", action="store_true", help="only draw the page again from the saved results")
    parser.add_argument("--full-size", type=Path, help="the JSON that a large `psephos simulate tally --json` printed")
    parser.add_argument("--note", default="", help="what a reader of that large run's row should know")
    options = parser.parse_args()
    console = Console()
    if options.full_size:
        row = full_size(json.loads(options.full_size.read_text()), options.note)
        results = json.loads(options.output.read_text())
        results["full_size"] = {
            **results.get("full_size", {}),
            f"{row['dataset']}, M = {row['parties']:,}, {row['randomness']}": row,
        }
        options.output.write_text(json.dumps(results, indent=1) + "\n")
    elif options.page:
        results = json.loads(options.output.read_text())
    else:
        results = measure_all(options.bits, options.repetitions, console)
        if options.output.exists():  # large runs are kept: they are added one by one
            results["full_size"] = json.loads(options.output.read_text()).get("full_size", {})
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(results, indent=1) + "\n")
        show(results, console)
    page = write_page(results, options.docs)
    console.print(f"results in {options.output}, page in {page}")


if __name__ == "__main__":
    main()
