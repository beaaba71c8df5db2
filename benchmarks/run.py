"""The program of `make bench`: measure, write benchmarks/results/latest.json, and write performance.md from it.

Figures are CPU seconds of one core or ratios within one run, except the wall-clock seconds of whole commands. `--parts`
measures some parts again and keeps the results of the others; `--page` writes the page again without measuring. A part
with figures that are more than 10 % worse than the recorded ones (`benchmarks.guard`) is measured again. If some of
these are still worse, the part is not recorded and the exit status is 1; `--accept` records it.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.guard import losses, measured_commands
from benchmarks.page import write_page
from benchmarks.proofs import bounded_costs
from benchmarks.scaling import growth
from benchmarks.speed import measure

PARTS = ("commands", "encryption", "proofs", "growth")
"""Parts of the results that can be measured separately, in this order."""


def measure_part(part: str, options: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Measure one of `PARTS`, print its main figures, and return its entries of benchmarks/results/latest.json."""
    bits, repetitions = options.bits, options.repetitions
    if part == "commands":
        times = measured_commands(options.data_dir)
        for name, time in times.items():
            console.print(
                f"{name}: {time['seconds']} s, {time['over_reference']} times the reference program's CPU time"
            )
        return {"commands": times}
    if part == "encryption":
        return measure(bits, repetitions)
    if part == "proofs":
        return {"bounded": bounded_costs(repetitions=repetitions)}
    exponents = growth(repetitions=max(2, repetitions // 2))
    for name, series in exponents["series"].items():
        console.print(f"exponent of the marginal cost in {name}: {series['exponent']:.3f}")
    return {"growth": exponents}


def main() -> None:
    """Measure the parts that the options name, store the results, and write the page about performance."""
    here = Path(__file__).parent
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--parts", nargs="+", choices=PARTS, default=list(PARTS), help="what is measured; the rest stays"
    )
    parser.add_argument("--bits", type=int, nargs="+", default=[2048, 3072], help="key sizes")
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--output", type=Path, default=here / "results" / "latest.json")
    parser.add_argument("--pages", type=Path, default=here)
    parser.add_argument("--page", action="store_true", help="only draw the page again from the saved results")
    parser.add_argument("--data-dir", help="where HAR is; without it nothing on HAR is measured")
    parser.add_argument("--accept", action="store_true", help="record figures that are worse than before")
    options = parser.parse_args()
    console = Console()
    results = json.loads(options.output.read_text()) if options.output.exists() else {}

    def keep(part: dict[str, Any]) -> None:
        """Add or replace entries of the results, and write them to the file."""
        results.update(part)
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(results, indent=1) + "\n")

    all_worse: dict[str, str] = {}
    if not options.page:
        for part in options.parts:
            console.print(f"{part} ...")
            part_results = measure_part(part, options, console)
            if not options.accept and (worse := losses(results, part_results)):
                console.print("measured again, since some of it was worse than recorded ...")
                part_results = measure_part(part, options, console)
                worse = {name: text for name, text in losses(results, part_results).items() if name in worse}
                all_worse |= worse
                if worse:
                    continue
            keep(part_results)
    page = write_page(results, options.pages)
    console.print(f"results in {options.output}, page in {page}")
    for name, text in all_worse.items():
        console.print(f"worse than recorded: {name}: {text}")
    raise SystemExit(bool(all_worse))


if __name__ == "__main__":
    main()
