"""What privacy costs: accuracy against epsilon, for few parties and for many.

The patients are those of `clinics.py`, 300 of them public and without a diagnosis. Votes of 50, 150 and 450 practices
with 20 patients each are counted, private for each practice; 20 hospitals with 150 patients each sum gradients,
private for each patient. 3,000 other patients test the results. Sums are made in the clear here (`encrypted=False`),
which changes no result.

    python docs/examples/epsilon_curve.py
"""

# Tested with: 1

from __future__ import annotations

import sys
import warnings

import numpy as np
from clinics import OPEN, table
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from psephos import PrivateFederatedClassifier, ReleaseWarning

TEST, PATIENTS = 3000, 20
EPSILONS = (0.3, 1.0, 3.0, 10.0)
VOTE = {"method": "statistic", "estimator": ["logistic", "tree", "knn", "naive-bayes"]}
RUNS = (  # parties, rows of each, and what is released
    ("20 hospitals, per patient", 20, 150, {"unit": "record", "method": "newton"}),
    ("450 practices", 450, PATIENTS, VOTE),
    ("150 practices", 150, PATIENTS, VOTE),
    ("50 practices", 50, PATIENTS, VOTE),
)
ALONE = (("one practice alone", PATIENTS), ("one hospital alone", 150), ("all rows in one place", 450 * PATIENTS))


def main(draws: int) -> None:
    """Print the mean accuracy of releases from several tables."""
    warnings.simplefilter("ignore", ReleaseWarning)
    print(f"{'who shares':24}  epsilon  accuracy")
    for name, parties, each, parameters in RUNS:
        rows = parties * each
        for epsilon in EPSILONS:
            scores = []
            for seed in range(draws):
                patients = table(seed)
                X, y = patients.filter(like="value"), patients["diagnosis"]
                private, test = slice(OPEN, OPEN + rows), slice(-TEST, None)
                model = PrivateFederatedClassifier(
                    **parameters, features="linear", epsilon=epsilon, encrypted=False, options={"anyway": True}
                )
                model.set_params(classes=["ill", "well"], public=(X[:OPEN], None))
                model.fit(X[private], y[private], groups=np.arange(rows) % parties)
                scores.append(model.score(X[test], y[test]))
            print(f"{name:24}  {epsilon:7g}  {np.mean(scores):.3f}", flush=True)
    for name, rows in ALONE:
        scores = []
        for seed in range(draws):
            patients = table(seed)
            X, y = patients.filter(like="value"), patients["diagnosis"]
            alone = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[OPEN:][:rows], y[OPEN:][:rows])
            scores.append(alone.score(X[-TEST:], y[-TEST:]))
        print(f"{name:24}  {'-':>7}  {np.mean(scores):.3f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
