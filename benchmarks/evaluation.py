"""Errors of private evaluation at 5,000 rows, and calibration error before and after Platt scaling.

    python -m benchmarks.evaluation --runs 200

Rows have a score whose log odds are known: accuracy .84, AUROC .90, a quarter of class 1; 200 public rows. The noise is
drawn as the parties' shares are, in NumPy; the encrypted sum of the command opens the same integers, which its tests
compare. "all": the noise of all five parties is counted on. "majority": of two of five, as by default with three of
five key holders; the default neighbours are "replace". Calibration: the same scores times three, on 10,000 other rows.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from psephos.curator.evaluation import (
    EvaluationEstimate,
    EvaluationPlan,
    calibrated,
    estimate_evaluation,
    plan_evaluation,
)

EPSILONS = (0.1, 0.3, 1.0)
PARTIES, ROWS = 5, 5000
CONTRIBUTORS = {"all": 5, "majority": 2}
CONDITIONS = (("all", "add-remove"), ("majority", "add-remove"), ("majority", "replace"))
TOO_LARGE = 3.0
GOALS = {0.1: (0.006, 0.025), 0.3: (0.002, 0.007), 1.0: (0.001, 0.003)}
"""Largest errors of accuracy and AUROC that were aimed at, by epsilon."""
CALIBRATION_GOAL = 0.03


def population(generator: np.random.Generator, count: int, scale: float = 1.0) -> tuple[Any, Any]:
    """Return rows (count, 2), a score and a constant, and their labels."""
    t = 2.2 * generator.normal(size=count) - 1.9
    return np.column_stack([scale * t, np.ones(count)]), (generator.random(count) < 1 / (1 + np.exp(-t))).astype(int)


def evaluate(plan: EvaluationPlan, X: Any, y: Any, generator: np.random.Generator) -> EvaluationEstimate:
    """Estimate from the sum with noise of the law that all shares make up."""
    total = np.array(plan.grid.contribution(X, y)) + noise_of(plan, 1, generator)[0]
    return estimate_evaluation(plan, total.tolist(), plan.parties)


def noise_of(plan: EvaluationPlan, draws: int, generator: np.random.Generator) -> Any:
    """Return noise of the law that all shares make up, int64 (draws, length)."""
    shape, chance = plan.inflation, -np.expm1(-1 / float(plan.mechanism.scale_units))
    above, below = (generator.negative_binomial(shape, chance, (draws, plan.dimension)) for _ in range(2))
    return above - below


def calibration_error(score: Any, y: Any) -> float:
    """Return the expected calibration error over 15 bins of as many rows."""
    probability = 1 / (1 + np.exp(-score))
    pieces = np.array_split(np.argsort(probability), 15)
    return float(sum(abs(probability[p].mean() - y[p].mean()) * len(p) for p in pieces) / len(y))


def measure(epsilon: float, contributors: int, neighbours: str, runs: int) -> list[float]:
    """Return the errors of accuracy, AUROC and calibration error, and the calibration errors before and after."""
    generator, errors, scaled = np.random.default_rng(0), [], []
    for run in range(runs):
        for scale in (1.0, TOO_LARGE):
            public, _ = population(generator, 200, scale)
            terms: dict[str, Any] = {"epsilon": epsilon, "neighbours": neighbours, "contributors": contributors}
            plan = plan_evaluation(public, np.array([[1.0], [0.0]]), 2, PARTIES, **terms)
            X, y = population(generator, ROWS, scale)
            evaluation = evaluate(plan, X, y, generator)
            if scale == 1.0:
                assert evaluation.accuracy is not None
                assert evaluation.auroc is not None
                exact = np.equal(X[:, 0] > 0, y).mean(), roc_auc_score(y, X[:, 0])
                estimates = evaluation.accuracy.value or 0.5, evaluation.auroc.value or 0.5
                errors.append(np.subtract(estimates, exact))
            elif run % 4 == 0:
                weights = plan.scores.weights
                if evaluation.calibration is not None:
                    weights = calibrated(weights, evaluation.calibration)
                X, y = population(generator, 10_000, scale)
                before = calibration_error(X @ plan.scores.weights[:, 0], y)
                scaled.append((before, calibration_error(X @ weights[:, 0], y), evaluation.calibration is not None))
    return [*np.sqrt(np.mean(np.square(errors), axis=0)), *np.mean(scaled, axis=0)]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    runs = parser.parse_args().runs
    print("| noise | neighbours | epsilon | accuracy | AUROC | calibration error before | after | scaled | missed |")
    print("| --- " * 9 + "|")
    for name, neighbours in CONDITIONS:
        for epsilon in EPSILONS:
            accuracy, auroc, before, after, fitted = measure(epsilon, CONTRIBUTORS[name], neighbours, runs)
            cells = f"{accuracy:.4f} | {auroc:.4f} | {before:.3f} | {after:.3f} | {fitted:.0%}"
            missed = ", ".join(missed_goals(epsilon, accuracy, auroc, after)) or "none"
            print(f"| {name} | {neighbours} | {epsilon:g} | {cells} | {missed} |", flush=True)


def missed_goals(epsilon: float, accuracy: float, auroc: float, calibration: float) -> list[str]:
    """Return the names of the errors above their goals."""
    values = {"accuracy": accuracy, "AUROC": auroc, "calibration": calibration}
    goals = (*GOALS[epsilon], CALIBRATION_GOAL)
    return [name for (name, value), goal in zip(values.items(), goals, strict=True) if value > goal]


if __name__ == "__main__":
    main()
