"""R^2 of a private regression as `psephos run --task regression --unit record` releases it, on three tables.

    python -m benchmarks.regression DATA_DIR OUT.json --splits 20

kdd count: log(1 + dst_host_srv_count) of KDD-99 from the columns that do not describe the destination host. sites: five
sites whose features and label have means of their own; the public rows are of a sixth. heavy tails: features and label
errors of Student's law with 3 degrees of freedom. Next to each release: the public score alone, and least squares and
Huber regression on all rows without privacy. Five parties, three of five holders open a sum; short keys, which change
no number. OUT.json has a line for each split; splits that it has already are not repeated.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.records import kdd99
from psephos.data.datasets import Dataset
from psephos.data.splits import Split
from psephos.simulation.job import RegressionRun
from psephos.simulation.options import JobOptions

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
PARTIES, PUBLIC, TEST = 5, 200, 10_000
ROWS = {"kdd count": 30_000, "sites": 10_000, "heavy tails": 10_000}


cached = functools.cache(kdd99)


def kdd_count(data_dir: str, seed: int) -> Split:
    """Return a split of KDD-99 with a count as its label."""
    X, _ = cached(data_dir)
    columns = [column for column in range(42) if column not in (1, 2, 3, 41)]
    y = X[:, columns.index(32)]
    X = np.delete(X, [columns.index(column) for column in range(31, 41)], axis=1)
    order = np.random.default_rng(seed).permutation(len(X))
    private = order[PUBLIC + TEST :][: ROWS["kdd count"]]
    return split_of("kdd count", X, y, order[:PUBLIC], np.split(private, PARTIES), order[PUBLIC : PUBLIC + TEST], seed)


def synthetic(name: str, seed: int) -> Split:
    """Return a split of correlated features, with shifted sites or with heavy tails."""
    law, rows, shifted = np.random.default_rng(7), ROWS[name], name == "sites"
    mixing = law.normal(size=(20, 20)) / np.sqrt(1 + np.arange(20))[:, None]
    slopes, shifts = law.normal(size=20), law.normal(size=(PARTIES + 1, 20)) * shifted
    generator, count = np.random.default_rng([seed, shifted]), PUBLIC + rows + TEST
    site = np.concatenate([np.full(PUBLIC, PARTIES), np.arange(rows + TEST) % PARTIES])
    scale = 1.0 if shifted else np.sqrt(1 / generator.gamma(1.5, 1 / 1.5, size=(count, 1)))
    X = (generator.normal(size=(count, 20)) * scale + shifts[site]) @ mixing
    signal = X @ slopes
    errors = generator.normal(size=count) if shifted else generator.standard_t(3, count) / math.sqrt(3)
    y = signal + np.std(signal) * (0.8 * errors + 0.5 * shifts[site, 0])
    number = np.arange(count)
    private = [number[PUBLIC : PUBLIC + rows][site[PUBLIC : PUBLIC + rows] == party] for party in range(PARTIES)]
    return split_of(name, X, y, number[:PUBLIC], private, number[PUBLIC + rows :], seed)


def split_of(name: str, X: Any, y: Any, public: Any, parties: Any, test: Any, seed: int) -> Split:
    """Return rows that are assigned already."""
    return Split(Dataset(name, X, y, None, None, (), name), seed, public, tuple(parties), test)


def measure(split: Split) -> dict[str, dict[str, float]]:
    """Return the errors of each column for one split."""
    errors: dict[str, dict[str, float]] = {}
    rows = sum(map(len, split.parties))
    options: dict[str, Any] = {
        "data": split.dataset.name,
        "label": "y",
        "public": "public",
        "parties": PARTIES,
        "task": "regression",
        "unit": "record",
        "announced_rows": rows,
        "key_bits": 512,
        "test_key": True,
        "workers": 1,
    }
    for epsilon in EPSILONS:
        run = RegressionRun(JobOptions(epsilon=(epsilon,), **options), split)
        weights = run.spec.fitted(run.sum().opened)
        measured = run.errors(weights, references=epsilon == EPSILONS[0])
        errors[f"{epsilon:g}"] = asdict(measured.pop("newton"))
        errors |= {name: asdict(error) for name, error in measured.items()}
    return errors


def table(lines: list[dict[str, Any]]) -> str:
    """Return the mean R^2 by table, as Markdown."""
    columns = ["public", *(f"{e:g}" for e in EPSILONS), "least squares", "huber"]
    out = [f"| | splits | {' | '.join(columns)} |", "| --- " * (len(columns) + 2) + "|"]
    for case in ROWS:
        own = [line["errors"] for line in lines if line["name"] == case]
        for measure_name in ("r2", "rmse", "mae") if own else ():
            means = [f"{np.mean([errors[column][measure_name] for errors in own]):.3f}" for column in columns]
            out.append(f"| {case}, {measure_name} | {len(own)} | {' | '.join(means)} |")
    return "\n".join(out)


def main() -> None:
    """Measure what OUT.json lacks, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data_dir")
    parser.add_argument("out", type=Path)
    parser.add_argument("--splits", type=int, default=20)
    chosen = parser.parse_args()
    lines = [json.loads(line) for line in chosen.out.read_text().splitlines()] if chosen.out.exists() else []
    done = {(line["name"], line["seed"]) for line in lines}
    for seed in range(chosen.splits):
        for name in ROWS:
            if (name, seed) not in done:
                split = kdd_count(chosen.data_dir, seed) if name == "kdd count" else synthetic(name, seed)
                line = {"name": name, "seed": seed}
                lines.append(line | {"errors": measure(split)})
                with chosen.out.open("a") as file:
                    file.write(json.dumps(lines[-1]) + "\n")
    print(table(lines))


if __name__ == "__main__":
    main()
