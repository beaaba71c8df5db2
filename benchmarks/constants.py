"""The constants of the rules, tried on the development half of the data sets alone.

One constant at a time is set to each value, the others being what they are; printed is the mean accuracy over the cells
of `benchmarks.accuracy`, the splits 0 and 1 and five draws: of the own-data statistic for the constants of
`psephos.curator.hamm.statistic`, of the whitened average for its ridge, and of the statistic of the votes of the
learner `whitened` for its number of coordinates. A trusted curator adds the noise to all of them. That whitened is
taken under 100 parties is read off the first two.
benchmarks/results/constants.md is what was printed.

    python -m benchmarks.constants --data-dir DIR
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

import numpy as np

import psephos.curator.hamm.statistic as rules
from benchmarks.accuracy import DEVELOPMENT, TASKS, accuracy, own_data_at, prepare, whitened_votes
from psephos.data.datasets import data_folder
from psephos.parties.training import WHITENED_RIDGE
from psephos.protocol.randomness import SYSTEM
from psephos.sweep import Sampler, sweep

RIDGE, VOTERS = "WHITENED_RIDGE", "coordinates of voters"
TRIED = {"_SIGNAL": (0.25, 0.5, 1.0, 2.0), "_TELLING": (-9.0, 0.9, 0.95, 1.0, 9.0), "_LESSONS": (1, 2, 5, 10)}
TRIED["_LEAST_SIGNAL"] = (0.01, 0.05, 0.2)
TRIED |= {RIDGE: (0.001, 0.01, 0.1), VOTERS: (12, 20, 50)}
"""`_TELLING` of -9: always the student; of 9: never."""

USUAL = {RIDGE: WHITENED_RIDGE, VOTERS: 12} | {name: getattr(rules, name) for name in TRIED if name[0] == "_"}


def samplers_at(problem: dict[str, Any], law: str, constant: str, value: float, epsilon: float) -> dict[str, Sampler]:
    """Return the sampler of the method that a constant belongs to.

    Args:
        problem: a prepared split of `benchmarks.accuracy`.
        law: "pure" or "gaussian".
        constant: a key of `TRIED`.
        value: of the constant; those of `psephos.curator.hamm.statistic` are set by the caller.
        epsilon: of each release.
    """
    if constant == RIDGE:
        method = own_data_at(problem, law, epsilon, "whitened", value)
    elif constant == VOTERS:
        method = whitened_votes(problem, law, epsilon, int(value))
    else:
        method = own_data_at(problem, law, epsilon)
    return {constant: partial(method.draw, SYSTEM)}


def main() -> None:
    """Print a table, one row a constant and value, one column a task."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir")
    folder = data_folder(parser.parse_args().data_dir)
    means_by_value: dict[tuple[str, float], list[float]] = {(name, v): [] for name in TRIED for v in TRIED[name]}
    for task in DEVELOPMENT:
        problems = [prepare(task, seed, folder, trained=False) for seed in (0, 1)]
        for (name, value), means in means_by_value.items():
            if name[0] == "_":
                setattr(rules, name, value)
            accuracies = [
                accuracy(problem, draw.weights)
                for problem in problems
                for law in ("pure", "gaussian")
                for draw in sweep(partial(samplers_at, problem, law, name, value), TASKS[task][law], 5)
            ]
            means.append(float(np.mean(accuracies)))
            if name[0] == "_":
                setattr(rules, name, USUAL[name])
    print(f"| constant | value | {' | '.join(DEVELOPMENT)} | mean |")
    print("| --- " * (3 + len(DEVELOPMENT)) + "|")
    for (name, value), means in means_by_value.items():
        cells = " | ".join(f"{mean:.3f}" for mean in [*means, float(np.mean(means))])
        print(f"| {name.strip('_')} | {value:g}{' *' if value == USUAL[name] else ''} | {cells} |")


if __name__ == "__main__":
    main()
