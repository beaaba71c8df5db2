"""Errors of private evaluation of a regression model, on 5,000 rows of KDD-99.

    python -m benchmarks.error_evaluation DATA_DIR --splits 5 --runs 200

The table and the weights are those of `benchmarks.regression` ("kdd count", epsilon 1). Of each split, 5,000 test rows
are evaluated, with noise that is drawn anew in each run. NumPy draws the noise, from the same distribution as the sum
of the parties' shares. "all" relies on the noise of all five parties; "majority" on that of two of five, which is the
default with three of five key holders. The error of a row is clipped to half, three
quarters (the default) or all of the range of predictions.

Printed errors are root mean squares of the difference from scikit-learn's values for the same rows, which are not
clipped. "of noise" is the difference from the estimate without noise, and "clipped" the share of rows whose error is
clipped.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

from benchmarks.evaluation import CONTRIBUTORS, EPSILONS, PARTIES, ROWS, noise_of
from benchmarks.regression import kdd_count
from psephos.curator.evaluation import EvaluationPlan, estimate_evaluation, evaluation_plan
from psephos.protocol.grids.error_evaluation import ErrorGrid
from psephos.protocol.grids.record import NumericLabel
from psephos.simulation.job import RegressionRun
from psephos.simulation.options import JobOptions

SHARES_OF_RANGE = {"1/2": 0.5, "3/4": 0.75, "1": 1.0}
"""Largest error of a row that is not clipped, as a share of the range of predictions."""

FIGURES = ("r2", "rmse", "mae")


class Evaluated(NamedTuple):
    """A linear prediction of a number, and rows to evaluate it on.

    Attributes:
        weights: float64 (d, 1).
        label: the bounds of the label.
        X, y: the rows, float64 (n, d), and their labels (n,).
        exact: R^2, RMSE and MAE of the prediction on these rows, float64 (3,).
    """

    weights: Any
    label: NumericLabel
    X: Any
    y: Any
    exact: Any


def evaluated(data_dir: str, seed: int) -> Evaluated:
    """Fit the record step to one split; return its prediction and the first 5,000 test rows."""
    split = kdd_count(data_dir, seed)
    options: dict[str, Any] = {"data": "kdd count", "label": "y", "public": "public", "parties": PARTIES}
    options |= {"task": "regression", "unit": "record", "announced_rows": sum(map(len, split.parties))}
    run = RegressionRun(
        JobOptions(epsilon=(1.0,), key_bits=512, test_key=True, workers=1, simulate_noise=True, **options), split
    )
    weights = run.spec.fitted(run.sum().opened)
    X, y = run.prepared(split.X_test)[:ROWS], np.asarray(split.y_test, dtype=np.float64)[:ROWS]
    predicted = run.spec.release_plan.grid.predict(weights, X)
    exact = r2_score(y, predicted), root_mean_squared_error(y, predicted), mean_absolute_error(y, predicted)
    return Evaluated(weights[:, None], run.spec.label, X, y, np.array(exact))


def figures(plan: EvaluationPlan, total: Any) -> Any:
    """Return the estimates of R^2, RMSE, MAE and the share of rows clipped, (4,); NaN where they are hidden."""
    errors = estimate_evaluation(plan, total.tolist(), PARTIES).errors
    return np.array([getattr(errors, name).value for name in (*FIGURES, "clipped")], dtype=np.float64)


def measure(tables: list[Evaluated], share: float, epsilon: float, contributors: int, runs: int) -> tuple[Any, ...]:
    """Measure the errors of the estimates, over all tables and `runs` draws of the noise.

    Args:
        tables: one for each split.
        share: a value of `SHARES_OF_RANGE`.
        epsilon: privacy parameter.
        contributors: number of parties whose noise shares are relied on.
        runs: draws of the noise for each table.

    Returns:
        The root mean square errors of R^2, RMSE and MAE, float64 (3,); those of the noise alone, float64 (3,); and the
        mean share of rows that are clipped.
    """
    generator, errors, noise, clipped = np.random.default_rng(0), [], [], []
    for weights, label, X, y, exact in tables:
        bounded = replace(label, threshold=share * (label.high - label.low))
        plan = evaluation_plan(ErrorGrid(weights, bounded), PARTIES, epsilon=epsilon, contributors=contributors)
        clear = np.array(plan.grid.contribution(X, y))
        *without, share_clipped = figures(replace(plan, inflation=1e-12), clear)
        clipped.append(share_clipped)
        for sample in noise_of(plan, runs, generator):
            values = figures(plan, clear + sample)[:-1]
            errors.append(values - exact)
            noise.append(values - without)
    rms = [np.sqrt(np.nanmean(np.square(one), axis=0)) for one in (errors, noise)]
    return *rms, np.mean(clipped)


def main() -> None:
    """Print a table with a row for each noise, largest error and epsilon."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data_dir")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--runs", type=int, default=200)
    options = parser.parse_args()
    tables = [evaluated(options.data_dir, seed) for seed in range(options.splits)]
    means = np.mean([table.exact for table in tables], axis=0)
    print(f"Exact means: R^2 {means[0]:.3f}, RMSE {means[1]:.3f}, MAE {means[2]:.3f}\n")
    columns = ["noise", "largest error", "epsilon", "R^2", "of noise", "RMSE", "of noise", "MAE", "of noise"]
    print(f"| {' | '.join([*columns, 'clipped'])} |\n" + "| --- " * 10 + "|")
    for name, contributors in CONTRIBUTORS.items():
        for bound, share in SHARES_OF_RANGE.items():
            for epsilon in EPSILONS:
                errors, noise, clipped = measure(tables, share, epsilon, contributors, options.runs)
                cells = " | ".join(f"{a:.4f} | {b:.4f}" for a, b in zip(errors, noise, strict=True))
                print(f"| {name} | {bound} | {epsilon:g} | {cells} | {clipped:.2%} |", flush=True)


if __name__ == "__main__":
    main()
