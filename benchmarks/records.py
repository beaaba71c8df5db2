"""Accuracy and AUROC of the record step on Adult and KDD-99, as `psephos simulate tally --unit record` releases it.

Next to it: the public score alone, the record step without noise, and logistic regression on all rows without noise.

    python -m benchmarks.records DATA_DIR OUT.json --splits 20

Five parties, three of five holders open a sum, so the noise of two is not counted on. Every release is an encrypted sum
with fresh noise of the parties, under short keys, which change no number. OUT.json has a line for each run; runs that
it has already are not repeated. KDD-99: without repeated rows, log(1 + x) of the numbers, 60,000 rows.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

import psephos
from psephos.curator.record import plan_records
from psephos.data.datasets import load

EPSILONS = (0.3, 1.0, 3.0, 10.0)
CASES = (
    ("adult", 30_000, "gaussian"),
    ("adult", 30_000, "discrete-laplace"),
    ("adult", 3_000, "gaussian"),
    ("kdd99", 30_000, "gaussian"),
)
COLUMNS = ("public", *(f"{epsilon:g}" for epsilon in EPSILONS), "no noise", "logistic")
PARTIES, PUBLIC = 5, 200


def kdd99(data_dir: str) -> tuple[Any, Any]:
    """Return the rows and whether each is an attack."""
    import pandas as pd

    with gzip.open(Path(data_dir) / "kdd99" / "kddcup.data_10_percent.gz") as file:
        table = pd.read_csv(file, header=None).drop_duplicates().sample(n=60_000, random_state=0)
    numbers = np.log1p(table.drop(columns=[1, 2, 3, 41]).to_numpy(dtype=np.float64))
    words = pd.get_dummies(table[[1, 2, 3]].astype(str)).to_numpy(dtype=np.float64)
    return np.hstack([numbers, words]), (table[41] != "normal.").to_numpy().astype(int)


def data(name: str, data_dir: str) -> tuple[Any, Any]:
    """Return all rows and labels of a data set."""
    if name == "kdd99":
        return kdd99(data_dir)
    adult = load("adult", data_dir)
    return np.vstack([adult.X_train, adult.X_test]), np.concatenate([adult.y_train, adult.y_test])


def measure(X: Any, y: Any, rows: int, seed: int, mechanism: str) -> dict[str, list[float]]:
    """Return accuracy and AUROC by epsilon on the test rows of one split, and those of `COLUMNS`."""
    simulation = psephos.simulate(
        X,
        y,
        parties=PARTIES,
        sizes=[rows // PARTIES] * PARTIES,
        auxiliary=PUBLIC,
        unit="record",
        announced_rows=rows,
        mechanism=mechanism,
        epsilons=EPSILONS,
        draws=1,
        seed=seed,
        key_bits=512,
        test_key=True,
        workers=1,
    )
    split = simulation.evaluation.split
    assert split is not None
    test, labels = split.X_test, split.y_test
    scores = {"public": score(public_score(simulation), labels)}
    for (method, epsilon), (model, *_) in simulation.models.items():
        name = f"{epsilon:g}" if epsilon else {"newton": "no noise", "batch": "logistic"}[method]
        scores[name] = score(test @ model.coef_[0] + model.intercept_[0], labels)
    return scores


def public_score(simulation: psephos.Simulation) -> Any:
    """Return the test rows' scores before the step."""
    evaluation = simulation.evaluation
    split = evaluation.split
    assert split is not None
    public = evaluation.scaler.transform(split.X_auxiliary)
    labels = split.dataset.y_train[split.auxiliary]
    plan = plan_records(public, labels, 2, PARTIES, rows=1, epsilon=None)
    return plan.grid.locate(evaluation.test)[1][:, 0]


def score(scores: Any, labels: Any) -> list[float]:
    """Return the accuracy and the AUROC."""
    return [float(((scores > 0) == labels).mean()), float(roc_auc_score(labels, scores))]


def table(lines: list[dict[str, Any]]) -> str:
    """Return the mean accuracy/AUROC by case, as Markdown."""
    cells: dict[tuple[Any, ...], dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for line in lines:
        for epsilon, pair in line["found"].items():
            cells[line["name"], line["rows"], line["mechanism"]][epsilon].append(pair)
    out = [f"| | splits | {' | '.join(COLUMNS)} |", "| --- " * (len(COLUMNS) + 2) + "|"]
    for (name, rows, mechanism), by_epsilon in cells.items():
        means = ["{:.3f}/{:.3f}".format(*np.mean(by_epsilon[epsilon], axis=0)) for epsilon in COLUMNS]
        splits = len(by_epsilon["public"])
        out.append(f"| {name}, {rows:,} rows, {mechanism} | {splits} | {' | '.join(means)} |")
    return "\n".join(out)


def main() -> None:
    """Measure what OUT.json lacks, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data_dir")
    parser.add_argument("out", type=Path)
    parser.add_argument("--splits", type=int, default=20)
    chosen = parser.parse_args()
    lines = [json.loads(line) for line in chosen.out.read_text().splitlines()] if chosen.out.exists() else []
    done = {(line["name"], line["rows"], line["mechanism"], line["seed"]) for line in lines}
    loaded = {name: data(name, chosen.data_dir) for name in {name for name, *_ in CASES}}
    for seed in range(chosen.splits):
        for name, rows, mechanism in CASES:
            terms = {"name": name, "rows": rows, "mechanism": mechanism, "seed": seed}
            if tuple(terms.values()) not in done:
                lines.append(terms | {"found": measure(*loaded[name], rows, seed, mechanism)})
                with chosen.out.open("a") as file:
                    file.write(json.dumps(lines[-1]) + "\n")
    print(table(lines))


if __name__ == "__main__":
    main()
