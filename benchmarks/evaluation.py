"""Errors of private evaluation at 5,000 rows, and calibration error before and after Platt scaling.

    python -m benchmarks.evaluation --runs 200

Rows are synthetic: their score is the log odds of class 1, with an accuracy of .84, an AUROC of .90 and a quarter of
the rows in class 1. There are 200 public rows. NumPy draws the noise, from the same distribution as the sum of the
parties' shares; without noise the encrypted sum of the command opens to the same integers, which its tests compare.
"all" relies on the noise of all five parties; "majority" on that of two of five, which is the default with three of
five key holders. Calibration is measured with the same scores times three, on
10,000 other rows.
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
"""Number of parties whose noise shares are relied on."""

TOO_LARGE = 3.0
"""Factor by which scores are too large where calibration is measured."""

GOALS = {0.1: (0.006, 0.025), 0.3: (0.002, 0.007), 1.0: (0.001, 0.003)}
"""Largest errors of accuracy and AUROC that are allowed, by epsilon."""

CALIBRATION_GOAL = 0.03
"""Largest calibration error that is allowed after scaling."""


def population(generator: np.random.Generator, count: int, scale: float = 1.0) -> tuple[Any, Any]:
    """Return random rows (count, 2), the score times `scale` and a constant 1, and their labels (count,), 0 or 1."""
    t = 2.2 * generator.normal(size=count) - 1.9
    return np.column_stack([scale * t, np.ones(count)]), (generator.random(count) < 1 / (1 + np.exp(-t))).astype(int)


def evaluate(plan: EvaluationPlan, X: Any, y: Any, generator: np.random.Generator) -> EvaluationEstimate:
    """Return the estimates from the sum of rows (n, 2) with labels (n,), with the noise of all parties' shares."""
    total = np.array(plan.grid.contribution(X, y)) + noise_of(plan, 1, generator)[0]
    return estimate_evaluation(plan, total.tolist(), plan.parties)


def noise_of(plan: EvaluationPlan, draws: int, generator: np.random.Generator) -> Any:
    """Draw the sum of all parties' noise shares `draws` times: int64 (draws, plan.dimension), in lattice units."""
    shape, chance = plan.inflation, -np.expm1(-1 / float(plan.mechanism.scale_units))
    above, below = (generator.negative_binomial(shape, chance, (draws, plan.dimension)) for _ in range(2))
    return above - below


def calibration_error(score: Any, y: Any) -> float:
    """Return the expected calibration error of scores (n,), read as log odds, over 15 bins of equally many rows."""
    probability = 1 / (1 + np.exp(-score))
    pieces = np.array_split(np.argsort(probability), 15)
    return float(sum(abs(probability[p].mean() - y[p].mean()) * len(p) for p in pieces) / len(y))


def measure(epsilon: float, contributors: int, runs: int) -> list[float]:
    """Measure the errors of private evaluation over `runs` draws of rows and noise.

    Returns:
        The root mean square errors of accuracy and AUROC, where a hidden estimate counts as 1/2; the mean calibration
        errors before and after Platt scaling; and the share of runs in which there was scaling. The last three are over
        every fourth run.
    """
    generator, errors, calibrations = np.random.default_rng(0), [], []
    for run in range(runs):
        for scale in (1.0, TOO_LARGE):
            public, _ = population(generator, 200, scale)
            terms: dict[str, Any] = {"epsilon": epsilon, "contributors": contributors}
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
                calibrations.append(
                    (before, calibration_error(X @ weights[:, 0], y), evaluation.calibration is not None)
                )
    return [*np.sqrt(np.mean(np.square(errors), axis=0)), *np.mean(calibrations, axis=0)]


def main() -> None:
    """Print a table with a row for each condition and epsilon."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    runs = parser.parse_args().runs
    print("| noise | epsilon | accuracy | AUROC | calibration error before | after | scaled | missed |")
    print("| --- " * 8 + "|")
    for name, contributors in CONTRIBUTORS.items():
        for epsilon in EPSILONS:
            accuracy, auroc, before, after, scaling = measure(epsilon, contributors, runs)
            cells = f"{accuracy:.4f} | {auroc:.4f} | {before:.3f} | {after:.3f} | {scaling:.0%}"
            above_goal = ", ".join(missed_goals(epsilon, accuracy, auroc, after)) or "none"
            print(f"| {name} | {epsilon:g} | {cells} | {above_goal} |", flush=True)


def missed_goals(epsilon: float, accuracy: float, auroc: float, calibration: float) -> list[str]:
    """Return the names of the errors above their goals."""
    values = {"accuracy": accuracy, "AUROC": auroc, "calibration": calibration}
    goals = (*GOALS[epsilon], CALIBRATION_GOAL)
    return [name for (name, value), goal in zip(values.items(), goals, strict=True) if value > goal]


if __name__ == "__main__":
    main()
