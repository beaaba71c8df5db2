"""The public rules of soft, vote and avg against every constant of a grid.

    python -m benchmarks.ridge --data-dir DIR > benchmarks/results/ridge.md

Parties train logistic regression, a tree and naive Bayes in turn (for avg logistic regression alone) on two splits of
each table. Votes are counted in the clear. A draw is one simulated noise vector of the law of the release, scaled for
every constant and epsilon, so that differences err less than means. The rule was developed on the first three tables.
"""

from __future__ import annotations

import argparse
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_classification

from psephos.curator.hamm.release import erm_bound
from psephos.curator.hamm.rules import HAMM_LAMBDA, RIDGES, RidgeRule, averaging_radius
from psephos.curator.hamm.sensitivity import average
from psephos.curator.losses import loss_named
from psephos.curator.methods import erm_fit
from psephos.data.datasets import Dataset, data_folder, load
from psephos.data.preprocessing import default_scaler
from psephos.data.splits import split_dataset
from psephos.parties.learners import make_learner
from psephos.parties.party import labels_of
from psephos.parties.training import count_votes, train_parties
from psephos.protocol.grids.fixed_point import project
from psephos.protocol.grids.own_data import contrast_basis
from psephos.specs.exact import LABELS

Array = NDArray[np.float64]

TABLES: dict[str, tuple[int, int | None, int | None]] = {
    "breast-cancer": (60, None, 189),
    "digits": (100, None, 400),
    "generated": (150, None, 400),
    "har": (1000, None, None),
    "kdd99": (5000, 22, 43_000),
    "gaussian": (200, None, 400),
}
"""Parties, rows of each (None: all there are) and auxiliary rows. generated: scikit-learn's make_classification."""

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, None)
DRAWS = {"soft": 100, "vote": 20, "avg": 20}
RADII = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Radii of avg, as multiples of the rule's."""
LEARNERS = ("logistic", "tree", "naive-bayes")


def _problem(name: str, seed: int, folder: Path) -> dict[str, Any]:
    """Return one split of a table: auxiliary rows, counts of votes, logistic parameters and test rows."""
    parties, size, auxiliary = TABLES[name]
    if name == "generated":
        X, y = make_classification(12_000, 10, n_informative=6, flip_y=0.05, random_state=1)
    elif name == "gaussian":
        generator = np.random.default_rng(0)
        X, w = generator.normal(size=(12_000, 20)), generator.normal(size=20)
        y = (X @ w + 0.5 * np.linalg.norm(w) * generator.normal(size=len(X)) > 0).astype(int)
    made = name in ("generated", "gaussian")
    data = Dataset(name, X, y, None, None, ("0", "1"), "made here") if made else load(name, folder)
    scaler = default_scaler("your own" if made else name).set_params(scaling="unit-rows")
    split = split_dataset(data, parties, seed, samples_per_party=size, auxiliary=auxiliary)
    public, classes = scaler.fit(split.X_auxiliary).transform(split.X_auxiliary), len(data.classes)
    X, y, sizes = split.private()
    X = scaler.transform(X)
    blocks, parameters = [], []
    for number, (a, b) in enumerate(pairwise(np.concatenate([[0], np.cumsum(sizes)]))):
        learner = make_learner(LEARNERS[number % 3], classes=classes, seed=number).fit(X[a:b], y[a:b])
        labels = labels_of(learner, public, classes)
        blocks.append((labels if labels.ndim == 1 else labels.argmax(axis=1)).astype(np.uint8)[None])
        parameters.append(train_parties(X[a:b], y[a:b], [b - a], classes=classes, lam=HAMM_LAMBDA)[0])
    test = np.random.default_rng(seed).permutation(len(split.y_test))[:4000]
    return {
        "public": public,
        "counts": count_votes(blocks, len(public), classes),
        "parameters": np.array(parameters),
        "X": scaler.transform(split.X_test[test]),
        "y": split.y_test[test],
    }


def _candidates(problem: dict[str, Any], method: str) -> tuple[list[tuple[float, Array, float]], list[int]]:
    """Return each constant with its vector and sensitivity, and the place of the rule's choice at each epsilon."""
    public, counts, parameters = problem["public"], problem["counts"], problem["parameters"]
    parties, classes = len(parameters), counts.shape[1]
    if method == "avg":
        usual, candidates = averaging_radius(HAMM_LAMBDA, classes), []
        for factor in RADII:
            mean = np.mean([project(w, factor * usual) for w in parameters], axis=0).reshape(parameters.shape[1:])
            candidates.append((factor, mean, average(factor * usual, parties).value))
        return candidates, [RADII.index(1.0)] * len(EPSILONS)
    loss, labels = loss_named("logistic", classes), LABELS[method]
    bound = erm_bound(labels, loss, parties=parties, classes=classes, features=public)
    fit, rule = erm_fit(labels, counts, public, loss), RidgeRule.of(public, classes, loss)
    chosen = [RIDGES.index(rule.choose(bound, epsilon)) for epsilon in EPSILONS]
    return [(lam, fit(lam).w, bound(lam).value) for lam in RIDGES], chosen


def _accuracies(problem: dict[str, Any], candidates: list[tuple[float, Array, float]], draws: int, seed: int) -> Array:
    """Return the mean accuracy at each epsilon of each candidate, float64 (epsilons, candidates)."""
    X, generator = problem["X"], np.random.default_rng(seed)
    scores = [X @ np.atleast_2d(w).T for _, w, _ in candidates]
    basis = np.ones((1, 1)) if scores[0].shape[1] == 1 else contrast_basis(scores[0].shape[1])
    means = np.zeros((len(EPSILONS), len(candidates)))
    for _ in range(draws):
        direction = generator.normal(size=(len(basis), X.shape[1]))
        noise = X @ (basis.T @ direction * generator.gamma(direction.size) / np.linalg.norm(direction)).T
        for row, epsilon in enumerate(EPSILONS):
            for column, (_, _, sensitivity) in enumerate(candidates):
                noisy = scores[column] + (0 if epsilon is None else sensitivity / epsilon) * noise
                labels = noisy[:, 0] > 0 if noisy.shape[1] == 1 else noisy.argmax(axis=1)
                means[row, column] += np.mean(labels == problem["y"]) / draws
    return means


def main() -> None:
    """Print the accuracy of each rule, the constant it takes on the last split, and that of a cell's best constant."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir")
    folder = data_folder(parser.parse_args().data_dir)
    print(f"| table | method | {' | '.join('none' if e is None else f'{e:g}' for e in EPSILONS)} | mean, worst gap |")
    print("| --- " * (3 + len(EPSILONS)) + "|")
    for name in TABLES:
        problems = [_problem(name, seed, folder) for seed in (0, 1)]
        for method, draws in DRAWS.items():
            rule, means = np.zeros(len(EPSILONS)), np.zeros(())
            for seed, problem in enumerate(problems):
                candidates, chosen = _candidates(problem, method)
                own = _accuracies(problem, candidates, draws, seed) / len(problems)
                means, rule = means + own, rule + own[np.arange(len(EPSILONS)), chosen]
            best = means.max(axis=1)
            cells = [f"{a:.3f} ({candidates[i][0]:g}) {b:.3f}" for a, i, b in zip(rule, chosen, best, strict=True)]
            print(
                f"| {name} | {method} | {' | '.join(cells)} | {np.mean(best - rule):.3f}, {np.max(best - rule):.3f} |"
            )


if __name__ == "__main__":
    main()
