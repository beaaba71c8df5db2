"""Accuracy of diffprivlib's logistic regression on the pooled rows, with a trusted curator and epsilon for one row.

This is for reference only, because epsilon for a row promises less than epsilon for a party, all of whose rows may be
replaced. diffprivlib needs an older scikit-learn than ours, so the rows are written to a file here and read in an
environment of its own:

    python -m benchmarks.pooled har digits --data-dir DIR --write ROWS.npz
    pip install diffprivlib scikit-learn==1.5.2          (elsewhere)
    python benchmarks/pooled.py --read ROWS.npz

The second program prints the mean accuracy and its standard deviation over the splits and five fits of each, for the
best of four penalties in hindsight.
"""

from __future__ import annotations

import argparse

import numpy as np

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
PENALTIES = (0.01, 1.0, 100.0, 10_000.0)
"""Values of scikit-learn's C: 1/(n lambda) for n rows and the ridge lambda."""


def write(tasks: list[str], splits: int, data_dir: str | None, path: str) -> None:
    """Write the private and the test rows of each split, at unit length, and their labels to an .npz file."""
    from benchmarks.accuracy import prepare
    from psephos.data.datasets import data_folder
    from psephos.protocol.grids.own_data import unit_rows

    arrays = {}
    for task in tasks:
        for seed in range(splits):
            problem = prepare(task, seed, data_folder(data_dir), trained=False)
            arrays[f"{task} {seed} X"], arrays[f"{task} {seed} y"] = problem["unit private"], problem["y"]
            arrays[f"{task} {seed} X_test"] = unit_rows(problem["X_test"])
            arrays[f"{task} {seed} y_test"] = problem["y_test"]
    np.savez_compressed(path, **arrays)


def read(path: str) -> None:
    """Fit the rows of an .npz file and print a table with one row for each task."""
    from diffprivlib.models import LogisticRegression

    arrays = np.load(path)
    print(f"| data, C | {' | '.join(f'{epsilon:g}' for epsilon in EPSILONS)} |")
    print("| --- " * (1 + len(EPSILONS)) + "|")
    splits = sorted({tuple(name.split(" ")[:2]) for name in arrays.files})
    for task in sorted({task for task, _ in splits}):
        cells = []
        for epsilon in EPSILONS:
            accuracies = {
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
            best = max(accuracies, key=lambda C: np.mean(accuracies[C]))
            cells.append(f"{np.mean(accuracies[best]):.3f} ± {np.std(accuracies[best]):.3f} (C {best:g})")
        print(f"| {task} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Write the rows of the named tasks, or read such a file and fit."""
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
