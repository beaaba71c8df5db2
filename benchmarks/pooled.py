"""diffprivlib's logistic regression on the pooled rows: epsilon for one row, in hands that hold all of them.

Another promise than a party's epsilon, for reference only: who replaces a party replaces all its rows. The package asks
for an older scikit-learn than ours, so rows are written here and read in an environment of its own:

    python -m benchmarks.pooled har digits --data-dir DIR --write ROWS.npz
    pip install diffprivlib scikit-learn==1.5.2          (elsewhere)
    python benchmarks/pooled.py --read ROWS.npz

Printed is the mean and deviation over the splits and five fits, for the better of four penalties in hindsight.
"""

from __future__ import annotations

import argparse

import numpy as np

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
PENALTIES = (0.01, 1.0, 100.0, 10_000.0)
"""C of scikit-learn: the inverse of the ridge times the rows."""


def write(tasks: list[str], splits: int, data_dir: str | None, path: str) -> None:
    """Rows at unit length and labels of each split, private and test."""
    from benchmarks.accuracy import prepare
    from psephos.data.datasets import data_folder
    from psephos.protocol.encrypted_sum.own_data import unit_rows

    arrays = {}
    for task in tasks:
        for seed in range(splits):
            problem = prepare(task, seed, data_folder(data_dir), trained=False)
            arrays[f"{task} {seed} X"], arrays[f"{task} {seed} y"] = problem["unit private"], problem["y"]
            arrays[f"{task} {seed} X_test"] = unit_rows(problem["X_test"])
            arrays[f"{task} {seed} y_test"] = problem["y_test"]
    np.savez_compressed(path, **arrays)


def read(path: str) -> None:
    """One row of a table for each data set."""
    from diffprivlib.models import LogisticRegression

    arrays = np.load(path)
    print(f"| data, C | {' | '.join(f'{epsilon:g}' for epsilon in EPSILONS)} |")
    print("| --- " * (1 + len(EPSILONS)) + "|")
    splits = sorted({tuple(name.split(" ")[:2]) for name in arrays.files})
    for task in sorted({task for task, _ in splits}):
        cells = []
        for epsilon in EPSILONS:
            tried = {
                C: [
                    LogisticRegression(epsilon=epsilon, data_norm=1.0, C=C, fit_intercept=False, max_iter=500)
                    .fit(arrays[f"{task} {seed} X"], arrays[f"{task} {seed} y"])
                    .score(arrays[f"{task} {seed} X_test"], arrays[f"{task} {seed} y_test"])
                    for of, seed in splits
                    if of == task
                    for _ in range(5)
                ]
                for C in PENALTIES
            }
            best = max(tried, key=lambda C: np.mean(tried[C]))
            cells.append(f"{np.mean(tried[best]):.3f} ± {np.std(tried[best]):.3f} (C {best:g})")
        print(f"| {task} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Write rows, or read them and fit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*")
    parser.add_argument("--data-dir")
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--write")
    parser.add_argument("--read")
    options = parser.parse_args()
    if options.write:
        write(options.tasks, options.splits, options.data_dir, options.write)
    if options.read:
        read(options.read)


if __name__ == "__main__":
    main()
