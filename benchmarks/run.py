"""`make bench`: measure, print, and write benchmarks/results/latest.json."""

from __future__ import annotations

import argparse
import json
import platform
from importlib.metadata import version
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.core import addition, encryption


def main() -> None:
    """Run the benchmarks and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bits", type=int, nargs="+", default=[2048, 3072], help="key sizes")
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "latest.json")
    options = parser.parse_args()
    console = Console()
    results: dict[str, object] = {
        "machine": platform.machine(),
        "python": platform.python_version(),
        "libraries": {name: version(name) for name in ("gmpy2", "phe", "numpy", "cryptography")},
    }
    encryptions = [encryption(bits, options.repetitions) for bits in options.bits]
    results["encryption"] = encryptions
    table = Table(title="Encryption on one core, medians; phe's encrypt is 1")
    for heading in ("bits", "mode", "ms / ciphertext", "x phe / ciphertext", "x phe / vote, M = 20,000"):
        table.add_column(heading, justify="right")
    for measured in encryptions:
        for mode, taken in measured["milliseconds_per_ciphertext"].items():
            ratio = measured["times_faster_than_phe_per_ciphertext"].get(mode, 1.0)
            vote = measured["times_faster_than_phe_per_vote"].get(mode, 1.0)
            table.add_row(str(measured["key_bits"]), mode, f"{taken:.3f}", f"{ratio:.1f}", f"{vote:,.0f}")
    console.print(table)
    shapes = ((1352, 6, 1000, "HAR"), (43_000, 2, 20_000, "KDD-99"))
    additions = [
        {"like": name, **addition(bits, samples, classes, parties, options.repetitions)}
        for bits in options.bits
        for samples, classes, parties, name in shapes
    ]
    results["addition"] = additions
    table = Table(title="Counting a ballot, all checks included")
    for heading in ("bits", "ballots like", "ciphertexts", "ms / ballot", "over bare multiplications"):
        table.add_column(heading, justify="right")
    for measured in additions:
        table.add_row(
            str(measured["key_bits"]),
            str(measured["like"]),
            str(measured["ciphertexts_per_ballot"]),
            f"{measured['milliseconds_per_ballot']:.2f}",
            f"{measured['over_bare_multiplications']:.2f}",
        )
    console.print(table)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(results, indent=1) + "\n")
    console.print(f"written to {options.output}")


if __name__ == "__main__":
    main()
