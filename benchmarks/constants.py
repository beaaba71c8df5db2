"""The constants of the rules of `psephos.curator.hamm.statistic`, tried on the development half of the data sets alone.

One constant at a time is set to each value, the others being what they are; printed is the mean accuracy of the
own-data statistic by cell, over the splits 0 and 1 and five draws.

    python -m benchmarks.constants --data-dir DIR
"""

from __future__ import annotations

import argparse

import numpy as np

import psephos.curator.hamm.statistic as rules
from benchmarks.accuracy import DEVELOPMENT, TASKS, accuracy, own_data_at, prepare
from psephos.data.datasets import data_folder
from psephos.protocol.randomness import SYSTEM

TRIED = {"_SIGNAL": (0.25, 0.5, 1.0, 2.0), "_EXPLAINED": (0.0, 0.8, 0.9, 0.95, 2.0), "_LESSONS": (1, 2, 5, 10)}
"""`_EXPLAINED` of 0: always the student; of 2: never."""


def main() -> None:
    """Print a table, one row a constant and value, one column a task."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir")
    folder = data_folder(parser.parse_args().data_dir)
    found: dict[tuple[str, float], list[float]] = {(name, v): [] for name in TRIED for v in TRIED[name]}
    for task in DEVELOPMENT:
        problems = [prepare(task, seed, folder, trained=False) for seed in (0, 1)]
        cells = [(law, epsilon) for law in ("pure", "gaussian") for epsilon in TASKS[task][law]]
        for (name, value), means in found.items():
            usual = getattr(rules, name)
            setattr(rules, name, value)
            drawn = []
            for problem in problems:
                for cell in cells:
                    method = own_data_at(problem, *cell)
                    drawn += [accuracy(problem, method.draw(SYSTEM)) for _ in range(5)]
            means.append(float(np.mean(drawn)))
            setattr(rules, name, usual)
    print(f"| constant | value | {' | '.join(DEVELOPMENT)} | mean |")
    print("| --- " * (3 + len(DEVELOPMENT)) + "|")
    for (name, value), means in found.items():
        shown = " | ".join(f"{mean:.3f}" for mean in [*means, float(np.mean(means))])
        print(f"| {name} | {value:g}{' *' if value == getattr(rules, name) else ''} | {shown} |")


if __name__ == "__main__":
    main()
