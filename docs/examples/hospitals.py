"""Tables of eight invented hospitals, for "Eight hospitals" in docs/study.md: who is admitted again within 30 days.

    python hospitals.py [DIRECTORY [ROWS]]

Writes for each hospital `NAME.csv`, about ROWS rows to train on (1,500), and `NAME-later.csv`, a third as many later
ones to evaluate on, and `public.csv`: 100 rows with outcomes that belong to no hospital. Hospitals differ in size,
patients and outcomes.
"""

# Tested with: hospitals 60

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd

NAMES = ("north", "south", "east", "west", "harbour", "hill", "river", "county")
LABORATORY = {
    "creatinine": 0.7,
    "sodium": -0.5,
    "albumin": -0.6,
    "haemoglobin": -0.4,
    "lactate": 0.5,
    "glucose": 0.3,
    "potassium": 0.2,
}
"""Values in percent of the usual one, and how much they say about the outcome."""
WARDS = ("surgery", "medicine", "cardiology", "oncology")


def patients(draw: np.random.Generator, rows: int, age: float, share: float) -> pd.DataFrame:
    """Return so many patients of a hospital with a mean age, and a shift of the log odds of the outcome."""
    ages = np.clip(draw.normal(age, 15, rows), 18, 100).round()
    table = pd.DataFrame({"age": ages, "earlier": draw.poisson(0.5 + (ages > 70), rows)})
    table["days"] = np.ceil(draw.gamma(2.0, 2.5, rows))
    table["ward"] = draw.choice(WARDS, rows, p=(0.35, 0.4, 0.15, 0.1))
    odds = -2.6 + share + 0.03 * (ages - 60) + 0.5 * table["earlier"] + 0.05 * table["days"]
    odds += 0.8 * table["ward"].isin(WARDS[2:])
    for name, weight in LABORATORY.items():
        value = draw.normal(0, 1, rows)
        odds += weight * value
        table[name] = (100 + 15 * value).round(1)
        table.loc[draw.random(rows) < 0.03, name] = np.nan  # not measured
    table["room"] = draw.integers(100, 400, rows)
    table["readmitted"] = np.where(draw.random(rows) < 1 / (1 + np.exp(-odds)), "yes", "no")
    return table


def write(folder: Path, rows: int) -> None:
    """Write all tables to a new or existing directory."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(8)
    for name in NAMES:
        size, age, share = int(rows * draw.uniform(0.5, 1.5)), draw.normal(62, 5), draw.normal(0, 0.2)
        patients(draw, size, age, share).to_csv(folder / f"{name}.csv", index=False)
        patients(draw, size // 3, age, share).to_csv(folder / f"{name}-later.csv", index=False)
    patients(draw, 100, 62, 0.0).to_csv(folder / "public.csv", index=False)


if __name__ == "__main__":
    directory, rows, *_ = [*sys.argv[1:], *("hospitals", "1500")[len(sys.argv) - 1 :]]
    write(Path(directory), int(rows))
    print(f"wrote public.csv and two tables of each of {', '.join(NAMES)} to {directory}")
