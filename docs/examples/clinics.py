"""A table of 200 invented clinics, each with 60 patients, and of 300 patients of a public study.

    python clinics.py [FILE [SEED]]

Writes a CSV file (clinics.csv): a column `clinic`, which is "open" for the study, twelve blood values in percent of the
usual one, and the diagnosis, which nobody knows of the study's patients.
"""

# Tested with: clinics.csv 0

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd

CLINICS, PATIENTS, OPEN, VALUES = 200, 60, 300, 12


def table(seed: int) -> pd.DataFrame:
    """Return the rows of the study and of all clinics."""
    draw = np.random.default_rng(seed)
    rows = OPEN + CLINICS * PATIENTS
    values, weights = draw.normal(0, 1, (rows, VALUES)), draw.normal(0, 1, VALUES)
    odds = 8 * values @ weights / np.linalg.norm(weights)
    ill = draw.random(rows) < 1 / (1 + np.exp(-odds))
    names = ["open"] * OPEN + [f"clinic {1 + row % CLINICS}" for row in range(CLINICS * PATIENTS)]
    patients = pd.DataFrame({"clinic": names})
    for number, column in enumerate((100 + 15 * values).round(1).T, 1):
        patients[f"value {number}"] = column
    patients["diagnosis"] = np.where(ill, "ill", "well")
    patients.loc[: OPEN - 1, "diagnosis"] = ""
    return patients


if __name__ == "__main__":
    file, seed, *_ = [*sys.argv[1:], *("clinics.csv", "0")[len(sys.argv) - 1 :]]
    table(int(seed)).to_csv(Path(file), index=False)
    print(f"wrote {OPEN} open rows and {PATIENTS} rows of each of {CLINICS} clinics to {file}")
