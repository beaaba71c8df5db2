"""Seconds and bytes of each stage of Pathak's protocol, by number of parties K.

    python benchmarks/pathak.py --parties 5,10,25 --variant repaired --json out.json

All roles run one after the other in one process, so the seconds are those of all roles together. The data are random
with d = 123, and keys have 3072 bits. Parties may have 16 to 2^20 rows, so the ladder has 28 rungs. `make bench`
compares one secure comparison with TNO's.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from typing import Any

import numpy as np

from psephos.simulation.pathak import PathakKeys, run_protocol
from psephos.specs.pathak import make_terms


def records(parties: int, features: int) -> list[tuple[Any, Any]]:
    """Return random rows of each party, float64 (100 to 399, d) of norm below 1, with labels 0 and 1."""
    generator = np.random.default_rng(0)
    data = []
    for n in generator.integers(100, 400, parties):
        X = generator.normal(size=(n, features))
        data.append((X / (1.01 * np.linalg.norm(X, axis=1).max()), np.arange(n) % 2))
    return data


def protocol(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Run the protocol once for each number of parties.

    Returns:
        The settings and costs of each run: wall-clock and CPU seconds, and by stage the seconds, bytes and messages. A
        summary of each run is printed to standard error.
    """
    test_key = args.key_bits < 2048
    keys = PathakKeys.generate(args.key_bits, test_key=test_key) if args.variant != "public-bound" else None
    rows = []
    for parties in args.parties:
        terms = make_terms(
            parties=parties,
            features=args.features,
            lam=0.01,
            epsilon=1.0,
            variant=args.variant,
            noise=args.noise,
            comparisons=args.comparisons,
        )
        start, cpu = time.perf_counter(), time.process_time()
        result = run_protocol(records(parties, args.features), terms, keys, test_key=test_key)
        total = time.perf_counter() - start
        assert result.shares_equal_reference
        rows.append(
            {
                "parties": parties,
                "variant": args.variant,
                "comparisons": args.comparisons,
                "key_bits": args.key_bits,
                "seconds": round(total, 2),
                "cpu_seconds": round(time.process_time() - cpu, 2),
                "stages": {name: asdict(phase) for name, phase in result.stages.items()},
            }
        )
        figures = ", ".join(
            f"{name} {phase.seconds:.2f} s {phase.bytes / 1e6:.2f} MB {phase.messages}"
            for name, phase in result.stages.items()
        )
        head = f"K = {parties}, {args.variant}, {args.comparisons}: {total:.1f} s, cpu {rows[-1]['cpu_seconds']:.1f} s"
        print(f"{head}; {figures}", file=sys.stderr)
    return rows


def main() -> None:
    """Measure, and write the JSON to a file or print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parties", type=lambda text: [int(k) for k in text.split(",")], default=[5])
    parser.add_argument("--features", type=int, default=123)
    parser.add_argument("--key-bits", type=int, default=3072)
    parser.add_argument("--variant", default="public-bound")
    parser.add_argument("--noise", default="laplace")
    parser.add_argument("--comparisons", default="tournament")
    parser.add_argument("--json")
    args = parser.parse_args()
    result = protocol(args)
    text = json.dumps(result, indent=1)
    if args.json:
        with open(args.json, "w") as file:
            file.write(text + "\n")
    else:
        print(text)


if __name__ == "__main__":
    main()
