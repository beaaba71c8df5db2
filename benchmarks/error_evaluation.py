"""Errors of the private evaluation of a prediction of a number, at 5,000 rows of KDD-99.

    python -m benchmarks.error_evaluation DATA_DIR --splits 5 --runs 200

The table and the prediction are those of `benchmarks.regression` ("kdd count", epsilon 1); of each split, 5,000 of the
test rows are evaluated, under noise that is drawn anew in each run. The noise is drawn as the parties' shares are, in
NumPy. "all": the noise of all five parties is counted on. "majority": of two of five, as by default with three of five
key holders; `--neighbours` changes nothing. The largest error that counts is half, three quarters (the default) or all
of the range of predictions. Errors are root mean squares against scikit-learn's values of the same rows, without
clipping; "of noise" is against the same without noise, "hidden" the share of runs without an estimate of RMSE.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

from benchmarks.evaluation import CONTRIBUTORS, EPSILONS, PARTIES, ROWS, noise_of
from benchmarks.regression import kdd_count
from psephos.curator.evaluation import EvaluationPlan, estimate_evaluation, plan_error_evaluation
from psephos.protocol.encrypted_sum.record_grid import NumericLabel
from psephos.simulation.job import JobOptions
from psephos.simulation.regression import RegressionRun

SHARES_OF_RANGE = {"1/2": 0.5, "3/4": 0.75, "1": 1.0}
FIGURES = ("r2", "rmse", "mae")


class Evaluated(NamedTuple):
    """A prediction, the bounds of its label, rows with their labels, and the exact figures of them."""

    weights: Any
    label: NumericLabel
    X: Any
    y: Any
    exact: Any


def evaluated(data_dir: str, seed: int) -> Evaluated:
    """Return the prediction of one split, and 5,000 of its test rows."""
    split = kdd_count(data_dir, seed)
    options: dict[str, Any] = {"data": "kdd count", "label": "y", "public": "public", "parties": PARTIES}
    options |= {"task": "regression", "unit": "record", "announced_rows": sum(map(len, split.parties))}
    run = RegressionRun(
        JobOptions(epsilon=(1.0,), key_bits=512, test_key=True, workers=1, simulate_noise=True, **options), split
    )
    weights = run.spec.fitted(run.sum().opened)
    X, y = run.prepared(split.X_test)[:ROWS], np.asarray(split.y_test, dtype=np.float64)[:ROWS]
    predicted = run.spec.plan.grid.predict(weights, X)
    exact = r2_score(y, predicted), root_mean_squared_error(y, predicted), mean_absolute_error(y, predicted)
    return Evaluated(weights[:, None], run.spec.label, X, y, np.array(exact))


def figures(plan: EvaluationPlan, total: Any) -> Any:
    """Return the estimates of R^2, RMSE, MAE and the share of rows clipped, (4,); NaN where they are hidden."""
    errors = estimate_evaluation(plan, total.tolist(), PARTIES).errors
    return np.array([getattr(errors, name).value for name in (*FIGURES, "clipped")], dtype=np.float64)


def measure(tables: list[Evaluated], share: float, epsilon: float, contributors: int, runs: int) -> tuple[Any, ...]:
    """Return the errors of the figures, those of the noise alone, the share of rows clipped, and of hidden ones."""
    generator, errors, noise, clipped = np.random.default_rng(0), [], [], []
    for weights, label, X, y, exact in tables:
        bounded = replace(label, threshold=share * (label.high - label.low))
        plan = plan_error_evaluation(weights, bounded, PARTIES, epsilon=epsilon, contributors=contributors)
        clear = np.array(plan.grid.contribution(X, y))
        *without, share_clipped = figures(replace(plan, inflation=1e-12), clear)
        clipped.append(share_clipped)
        for drawn in noise_of(plan, runs, generator):
            values = figures(plan, clear + drawn)[:-1]
            errors.append(values - exact)
            noise.append(values - without)
    rms = [np.sqrt(np.nanmean(np.square(one), axis=0)) for one in (errors, noise)]
    return *rms, np.mean(clipped), np.isnan(errors)[:, 1].mean()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data_dir")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--runs", type=int, default=200)
    chosen = parser.parse_args()
    tables = [evaluated(chosen.data_dir, seed) for seed in range(chosen.splits)]
    means = np.mean([table.exact for table in tables], axis=0)
    print(f"Exact means: R^2 {means[0]:.3f}, RMSE {means[1]:.3f}, MAE {means[2]:.3f}\n")
    columns = ["noise", "largest error", "epsilon", "R^2", "of noise", "RMSE", "of noise", "MAE", "of noise"]
    print(f"| {' | '.join([*columns, 'clipped', 'hidden'])} |\n" + "| --- " * 11 + "|")
    for name, contributors in CONTRIBUTORS.items():
        for bound, share in SHARES_OF_RANGE.items():
            for epsilon in EPSILONS:
                errors, noise, clipped, hidden = measure(tables, share, epsilon, contributors, chosen.runs)
                cells = " | ".join(f"{a:.4f} | {b:.4f}" for a, b in zip(errors, noise, strict=True))
                print(f"| {name} | {bound} | {epsilon:g} | {cells} | {clipped:.2%} | {hidden:.0%} |", flush=True)


if __name__ == "__main__":
    main()
