"""`make bench`: measure, print, write benchmarks/results/latest.json, and draw docs/performance.md from it.

Everything is measured on one core in CPU seconds or as ratios within one run, except the plan's accuracy, which is wall
clock. `--page` draws the page again from the saved JSON without measuring.
"""

from __future__ import annotations

import argparse
import json
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.core import addition, encryption
from benchmarks.page import write_page
from benchmarks.peers import peers
from benchmarks.scaling import growth, memory, plan_accuracy, wire

LIBRARIES = ("gmpy2", "phe", "numpy", "cryptography", "pypaillier", "sf-heu", "tno.mpc.encryption_schemes.paillier")
SHAPES = ((1352, 6, 1000, "HAR"), (43_000, 2, 20_000, "KDD-99"))


def measure(bits: list[int], repetitions: int, console: Console) -> dict[str, Any]:
    """Everything, as one JSON object."""
    results: dict[str, Any] = {
        "machine": platform.machine(),
        "python": platform.python_version(),
        "libraries": {name: _version(name) for name in LIBRARIES},
    }
    console.print("encryption and packing ...")
    results["encryption"] = [encryption(size, repetitions) for size in bits]
    console.print("counting ballots ...")
    results["addition"] = [
        {"like": name, **addition(size, samples, classes, parties, repetitions)}
        for size in bits
        for samples, classes, parties, name in SHAPES
    ]
    console.print("beside other libraries ...")
    results["peers"] = [peers(size, repetitions) for size in bits]
    console.print("growth ...")
    results["growth"] = growth(repetitions=max(2, repetitions // 2))
    results["wire"] = wire()
    console.print("memory ...")
    results["memory"] = memory()
    console.print("the plan ...")
    results["plan"] = plan_accuracy()
    return results


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def show(results: dict[str, Any], console: Console) -> None:
    """The tables that matter most."""
    table = Table(title="Encryption on one core, medians; phe's encrypt is 1")
    for heading in ("bits", "mode", "ms / ciphertext", "x phe / ciphertext", "x phe / vote, M = 20,000"):
        table.add_column(heading, justify="right")
    for measured in results["encryption"]:
        for mode, taken in measured["milliseconds_per_ciphertext"].items():
            ratio = measured["times_faster_than_phe_per_ciphertext"].get(mode, 1.0)
            vote = measured["times_faster_than_phe_per_vote"].get(mode, 1.0)
            table.add_row(str(measured["key_bits"]), mode, f"{taken:.3f}", f"{ratio:.1f}", f"{vote:,.0f}")
    console.print(table)
    table = Table(title="Counting a ballot, all checks included")
    for heading in ("bits", "ballots like", "ciphertexts", "ms / ballot", "over bare multiplications"):
        table.add_column(heading, justify="right")
    for measured in results["addition"]:
        table.add_row(
            str(measured["key_bits"]),
            str(measured["like"]),
            str(measured["ciphertexts_per_ballot"]),
            f"{measured['milliseconds_per_ballot']:.2f}",
            f"{measured['over_bare_multiplications']:.2f}",
        )
    console.print(table)
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
    options = parser.parse_args()
    console = Console()
    if options.page:
        results = json.loads(options.output.read_text())
    else:
        results = measure(options.bits, options.repetitions, console)
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(results, indent=1) + "\n")
        show(results, console)
    page = write_page(results, options.docs)
    console.print(f"results in {options.output}, page in {page}")


if __name__ == "__main__":
    main()
