"""Accuracy of own-data with more coordinates and finer shrinkage, with joint noise, on development tasks.

    python -m benchmarks.ranks har digits adult moving --data-dir DIR --splits 1 --draws 10

The ranks compared are that of the rule, the one that follows from the noise of directions of L1 norm 1, and twice that.
Each is measured with the fit in use (self-training or Wiener's filter), alone and after every octave of coordinates was
multiplied by the positive part of James and Stein's factor (`psephos.curator.hamm.rehearsal.shrink`). The noise is
simulated.

With label energy falling as 1/j^2, a direction of L1 norm 1 in (K - 1) r Gaussian entries has the squared L2 norm
(pi^3/12)/((K - 1) H_r^2), H_r the harmonic number, so that its noise has (K - 1)^2 r H_r^2 (96/pi^3)/(M epsilon)^2
times its energy. The derived rank minimises that plus 1/(2 r).
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.accuracy import COLLUDERS, TASKS, accuracy, prepare
from psephos.curator.hamm.rehearsal import shrink
from psephos.curator.hamm.statistic import (
    StatisticPlan,
    StatisticRelease,
    choose_rank,
    fit_statistic,
    plan_statistic,
    public_coordinates,
    release_total,
    with_joint_noise,
)
from psephos.data.datasets import data_folder
from psephos.parties.noise import contributors
from psephos.protocol.encrypted_sum.own_data import OwnDataGrid, contrast_basis

Array = NDArray[np.float64]

DEFAULT_TASKS = ("har", "digits", "adult", "moving")


def derived_rank(most: int, classes: int, parties: int, epsilon: float) -> int:
    """Return the rank r that minimises the noise of directions plus 1/(2 r); `most` is the largest rank allowed."""
    ranks = np.arange(1, most + 1)
    noise = (classes - 1) ** 2 * ranks * np.cumsum(1 / ranks) ** 2 * (96 / math.pi**3) / (parties * epsilon) ** 2
    return max(int((noise + 0.5 / ranks).argmin()) + 1, min(classes // 2 + 2, most))


def in_octaves(release: StatisticRelease) -> Array:
    """Return the classifier, (d,) or (K, d), of a release whose octaves of coordinates are shrunken first."""
    plan = release.plan
    basis = contrast_basis(plan.classes)
    T = basis.T @ shrink(basis @ release.T, math.sqrt(plan.noise / plan.dimension))
    student = plan.self_training.learn(T, plan.transform, plan.noise, laplace=True) if plan.classes > 2 else None
    W = T @ plan.transform.T if student is None else student
    return W[1] - W[0] if plan.classes == 2 else W


def exact_sum(problem: dict[str, Any], plan: StatisticPlan) -> Array:
    """Return the sum of the parties' vectors without noise, float64 (plan.dimension,), in lattice units."""
    assert isinstance(plan.grid, OwnDataGrid)
    total = np.zeros(plan.dimension)
    for a, b in pairwise(problem["edges"]):
        total += np.array(plan.grid.contribution(problem["X"][a:b], problem["y"][a:b]), dtype=np.float64)
    return total


def compare(problem: dict[str, Any], epsilon: float, draws: int, generator: np.random.Generator) -> dict[Any, Any]:
    """Return the accuracies of all draws by (name of the rule of the rank, rank, fit)."""
    auxiliary, classes, parties = problem["auxiliary"], problem["classes"], problem["parties"]
    most = public_coordinates(auxiliary, len(auxiliary)).shape[1]
    derived = derived_rank(most, classes, parties, epsilon)
    rule = choose_rank(most, classes, parties, epsilon, 1e-6, "discrete-laplace")
    accuracies: dict[Any, list[float]] = defaultdict(list)
    for name, rank in {"rule": rule, "derived": derived, "twice": min(most, 2 * derived)}.items():
        terms: dict[str, Any] = {"epsilon": epsilon, "mechanism": "discrete-laplace", "source": "own-data"}
        plan = plan_statistic(auxiliary, classes, parties, **terms, rank=rank, joint=True)
        assert plan.mechanism is not None
        total, honest = exact_sum(problem, plan), contributors(parties, COLLUDERS)
        plan = with_joint_noise(plan, honest)
        scale, shape = float(plan.l1.value) / epsilon, parties / honest
        for _ in range(draws):
            first, second = (generator.gamma(shape, scale, total.size) for _ in range(2))
            release = release_total(plan, [round(entry) for entry in (total + first - second).tolist()])
            accuracies[name, rank, "in use"].append(accuracy(problem, fit_statistic(release)))
            accuracies[name, rank, "octaves"].append(accuracy(problem, in_octaves(release)))
    return accuracies


def main() -> None:
    """Print a table with a row for each task, epsilon and rank."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", choices=[[], *TASKS])
    parser.add_argument("--data-dir")
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--draws", type=int, default=10)
    options = parser.parse_args()
    print("| task | epsilon | rank | coordinates | fit in use | octaves first | standard error |")
    print("| --- " * 7 + "|", flush=True)
    for task in options.tasks or DEFAULT_TASKS:
        cells: dict[Any, dict[Any, list[float]]] = defaultdict(lambda: defaultdict(list))
        for seed in range(options.splits):
            problem, generator = (
                prepare(task, seed, data_folder(options.data_dir), trained=False),
                np.random.default_rng(seed),
            )
            for epsilon in TASKS[task]["pure"]:
                for key, values in compare(problem, epsilon, options.draws, generator).items():
                    cells[epsilon, *key[:2]][key[2]] += values
        for (epsilon, name, rank), fits in cells.items():
            means = [float(np.mean(fits[fit])) for fit in ("in use", "octaves")]
            error = float(np.std(fits["in use"])) / math.sqrt(len(fits["in use"]))
            row = f"{task} | {epsilon:g} | {name} | {rank} | {means[0]:.3f} | {means[1]:.3f} | {error:.3f}"
            print(f"| {row} |", flush=True)


if __name__ == "__main__":
    main()
