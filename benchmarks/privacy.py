"""Accuracy against epsilon for every method, each by its public rule: the figures of docs/privacy.md.

Splits as in Hamm 2016, section 6. Counts are taken in the clear for speed (the encrypted ones are equal exactly, see
`psephos run`); noise comes from the operating system, on the lattice, as in a real release.

    python -m benchmarks.privacy har --data-dir DIR
    python -m benchmarks.privacy kdd99-5000 --data-dir DIR
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from rich.console import Console
from rich.table import Table

from psephos.curator.hamm.averaging import average_of
from psephos.curator.hamm.direct import all_classifiers, noisy_majority
from psephos.curator.hamm.labels import majority
from psephos.curator.hamm.rules import HAMM_LAMBDA, averaging_radius
from psephos.curator.hamm.statistic import MechanismName
from psephos.curator.losses import loss_named
from psephos.data.datasets import load
from psephos.data.preprocessing import default_scaler
from psephos.data.splits import split
from psephos.parties.training import train_parties, votes_in_blocks
from psephos.protocol.encrypted_sum.fixed_point import FixedPoint, project
from psephos.protocol.randomness import SYSTEM
from psephos.simulate.average import FRACTION_BITS
from psephos.simulate.linear import LinearVoter
from psephos.simulate.methods import Request, average_method, erm_method, pate_method, statistic_method
from psephos.simulate.sums import KDD99_SPLIT

TASKS: dict[str, dict[str, Any]] = {
    "har": {
        "dataset": "har",
        "parties": 1000,
        "pure": {10: 0.83, 3: 0.79, 1: 0.66, 0.3: 0.48},
        "gaussian": {10: 0.84, 3: 0.83, 1: 0.80, 0.3: 0.70, 0.1: 0.56},
    },
    "kdd99-5000": {"dataset": "kdd99", "parties": 5000, "pure": {0.3: 0.92, 0.1: 0.915, 0.03: 0.90}, "gaussian": {}},
    "kdd99-20000": {
        "dataset": "kdd99",
        "parties": 20_000,
        "pure": {0.1: 0.92, 0.03: 0.915, 0.01: 0.905},
        "gaussian": {},
    },
}
"""What issue 3 of the project asked the statistic release to reach, by epsilon."""

METHODS = ("statistic", "avg", "pate", "soft", "vote", "published")
TEST_ROWS = 40_000
DIRECT_ROWS = 2_000
"""Test samples that the two dismissed releases are asked about; every answer costs."""


def one_split(task: str, seed: int, draws: int, data_dir: str | None, scaling: str) -> dict[str, Any]:
    """Every method at every epsilon on one split: {'indiv': a, (law, epsilon, method): [accuracies]}."""
    asked = TASKS[task]
    data = load(asked["dataset"], data_dir)
    classes, parties = len(data.classes), asked["parties"]
    size, public = KDD99_SPLIT if asked["dataset"] == "kdd99" else (None, None)
    dealt = split(data, parties, seed, samples_per_party=size, auxiliary=public)
    scaler = default_scaler(asked["dataset"]).set_params(scaling=scaling).fit(dealt.X_auxiliary)
    auxiliary = scaler.transform(dealt.X_auxiliary)
    rows = np.random.default_rng(seed).permutation(len(dealt.y_test))[:TEST_ROWS]
    X_test, y_test = scaler.transform(dealt.X_test[rows]), dealt.y_test[rows]
    parameters = []
    for first in range(0, parties, 1000):
        X, y, sizes = dealt.private(first, first + 1000)
        parameters.append(train_parties(scaler.transform(X), y, sizes, classes=classes, lam=HAMM_LAMBDA))
    W = np.concatenate(parameters)
    counts = _counts(W, auxiliary, classes)
    radius, fixed_point = averaging_radius(HAMM_LAMBDA, classes), FixedPoint(FRACTION_BITS)
    sums = np.sum([np.array(fixed_point.encode(project(w, radius), radius), dtype=object) for w in W], axis=0)
    average = average_of(list(sums), parties, radius, fixed_point, features=auxiliary.shape[1], classes=classes)
    loss = loss_named("logistic", classes)

    def accuracy(w: Any) -> float:
        return float(np.mean(LinearVoter(w).predict_votes(X_test) == y_test))

    results: dict[str, Any] = {"indiv": float(np.mean([accuracy(w) for w in W[:: max(1, parties // 200)]]))}
    laws: dict[str, MechanismName] = {"pure": "spherical-laplace", "gaussian": "gaussian"}
    for law, mechanism in laws.items():
        for epsilon in asked[law]:
            request = Request(float(epsilon), 1e-6, mechanism, None, "certified", False)
            paper = Request(float(epsilon), 1e-6, mechanism, HAMM_LAMBDA, "paper", False)
            methods = {
                "statistic": statistic_method(counts, auxiliary, request),
                "avg": average_method(average, HAMM_LAMBDA, request),
                "pate": pate_method(counts, auxiliary, request, seed),
                "soft": erm_method("soft", counts, auxiliary, loss, request),
                "vote": erm_method("majority", counts, auxiliary, loss, request),
                "published": erm_method("soft", counts, auxiliary, loss, paper),
            }
            for name, method in methods.items():
                results[f"{law} {epsilon} {name}"] = [accuracy(method.draw(SYSTEM)) for _ in range(draws)]
                results[f"{law} {epsilon} {name} chosen"] = method.chosen
    results |= _dismissed(asked["pure"], W, radius, X_test, y_test)
    return results


def _dismissed(epsilons: Any, W: Any, radius: float, X_test: Any, y_test: Any) -> dict[str, float]:
    """The two releases that Hamm's section 3.2 dismisses, once each: noisy majorities of every test sample, and the
    majority of all classifiers, each perturbed by itself."""
    classes, parties = W.shape[1] if W.ndim == 3 else 2, len(W)
    rows = slice(0, DIRECT_ROWS)
    X, y = X_test[rows], y_test[rows]
    results = {}
    for epsilon in epsilons:
        answers, _ = noisy_majority(_counts(W, X, classes), parties, float(epsilon))
        results[f"direct {epsilon} per query"] = float(np.mean(answers == y))
        noisy, _ = all_classifiers(W.reshape(parties, -1), radius, float(epsilon))
        chosen = majority(_counts(noisy.reshape(W.shape), X, classes))
        results[f"direct {epsilon} all classifiers"] = float(np.mean(chosen == y))
    return results


def _counts(W: Any, X: Any, classes: int) -> Any:
    counts = np.zeros((len(X), classes), dtype=np.int64)
    for _, block in votes_in_blocks(W, X):
        for k in range(classes):
            counts[:, k] += (block == k).sum(axis=0)
    return counts


def main() -> None:
    """Print the table and write benchmarks/results/privacy-TASK.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("--data-dir")
    parser.add_argument("--scaling", choices=("max-norm", "unit-rows"), default="unit-rows")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--output", type=Path, default=None)
    options = parser.parse_args()
    seeds = range(options.splits)
    splits = Parallel(n_jobs=options.workers)(
        delayed(one_split)(options.task, seed, options.draws, options.data_dir, options.scaling) for seed in seeds
    )
    asked = TASKS[options.task]
    indiv = float(np.mean([s["indiv"] for s in splits]))
    title = f"{options.task}: mean (s.d.) of {options.splits} splits x {options.draws} draws; indiv {indiv:.3f}"
    table = Table(title=title)
    for heading in ("noise", "epsilon", "asked", *METHODS):
        table.add_column(heading, justify="right")
    summary: dict[str, Any] = {"task": options.task, "splits": options.splits, "draws": options.draws, "indiv": indiv}
    for law in ("pure", "gaussian"):
        for epsilon, target in asked[law].items():
            cells = []
            for name in METHODS:
                drawn = np.concatenate([s[f"{law} {epsilon} {name}"] for s in splits])
                cells.append(f"{drawn.mean():.3f} ({drawn.std():.3f})")
                summary[f"{law} {epsilon} {name}"] = [float(drawn.mean()), float(drawn.std())]
                summary[f"{law} {epsilon} {name} chosen"] = splits[0][f"{law} {epsilon} {name} chosen"]
            table.add_row(law, f"{epsilon:g}", f"{target:.3f}", *cells)
    console = Console(file=sys.stdout, width=130)
    console.print(table)
    for name in (key for key in splits[0] if key.startswith("direct ")):
        summary[name] = float(np.mean([s[name] for s in splits]))
        console.print(f"{name}: {summary[name]:.3f} (one draw a split)")
    output = options.output or Path(__file__).parent / "results" / f"privacy-{options.task}-{options.scaling}.json"
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(summary, indent=1) + "\n")


if __name__ == "__main__":
    main()
