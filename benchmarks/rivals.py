"""Rival methods that a user might choose instead, at equal total privacy, with noise from a trusted curator.

* `rounds`: clipped averaging over T rounds (DP-FedAvg, McMahan et al. 2018, with one local step per round). Each party
  sends the direction of its softmax gradient, a vector of norm 1, so an average has sensitivity 2/M. The noise of a
  round is that of epsilon/T for a pure epsilon, or that of a T-fold Gaussian. Every T of `ROUNDS` is tried and the best
  **in hindsight** counts, which no real run could select.
* `confident`: PATE with confident aggregation (Papernot et al. 2018) under data-independent accounting. With Gaussian
  noise, a fifth of the privacy (in squared multipliers) buys noisy pluralities of up to three times as many public rows
  as are answered; the rest answers the rows whose noisy plurality is largest. With a pure epsilon it is LNMax on rows
  chosen at random. The student is semi-supervised: it labels all public rows and learns again. The best of three
  numbers of queries in hindsight counts.

The noise is simulated and protects nobody. `problem` is a split as `benchmarks.accuracy.prepare` returns it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from psephos.curator.pate import choose_queries
from psephos.curator.statistic import fit_statistic, plan_statistic, release_statistic
from psephos.protocol.grids.own_data import unit_rows
from psephos.protocol.privacy.mechanisms import gaussian_sigma, simulate_spherical_laplace

Array = NDArray[np.float64]
DELTA = 1e-6
ROUNDS = (2, 5, 15)
"""Numbers of rounds T that are tried."""


def rounds(law: str, epsilon: float, steps: int, problem: dict[str, Any], generator: np.random.Generator) -> Array:
    """Train by clipped averaging with simulated noise.

    Args:
        law: "pure" for Laplace noise at epsilon, "gaussian" for Gaussian noise at (epsilon, 1e-6).
        epsilon: privacy parameter of all rounds together.
        steps: T.
        problem: the split. The products of each party's rows are stored in it.
        generator: draws the noise.

    Returns:
        The classifier after the last round, float64 (K, d).
    """
    rows, y, edges = problem["unit private"].astype(np.float32), problem["y"], problem["edges"]
    classes, parties = problem["classes"], problem["parties"]
    reach = 2 / parties
    sigma = gaussian_sigma(reach * math.sqrt(steps), epsilon, DELTA) if law == "gaussian" else 0.0
    owner = np.repeat(np.arange(parties), np.diff(edges))
    place = np.arange(len(rows)) - edges[owner]
    if "products" not in problem:  # inner products of a party's rows, which give the length of their weighted sum
        padded = np.zeros((parties, place.max() + 1, rows.shape[1]), np.float32)
        padded[owner, place] = rows
        problem["products"] = padded @ padded.transpose(0, 2, 1)
    one_hot = np.eye(classes, dtype=np.float32)[y]
    slopes = np.zeros((*problem["products"].shape[:2], classes), np.float32)
    W = np.zeros((classes, rows.shape[1]))
    for _ in range(steps):
        slope = slopes[owner, place] = one_hot - softmax(rows @ W.T.astype(np.float32), axis=1)
        length = np.sqrt((slopes @ slopes.transpose(0, 2, 1) * problem["products"]).sum(axis=(1, 2)))
        mean = (slope / np.maximum(length, 1e-12)[owner, None]).T @ rows / parties
        if law == "pure":
            noise = simulate_spherical_laplace(W.size, reach * steps / epsilon, generator)
        else:
            noise = generator.normal(scale=sigma, size=W.size)
        W += 20 / steps * (mean + noise.reshape(W.shape))
    return W


def confident(law: str, epsilon: float, share: float, problem: dict[str, Any], generator: np.random.Generator) -> Array:
    """Train the student of confident aggregation on simulated noisy answers.

    Args:
        law: "pure" for LNMax at epsilon, "gaussian" for GNMax at (epsilon, 1e-6).
        epsilon: privacy parameter of all answers together.
        share: number of queries as a multiple of that of PATE's rule.
        problem: the split. The plan that fits the student is stored in it.
        generator: draws the queries and the noise.

    Returns:
        The student, float64 (K, d), or (d,) for two classes.
    """
    counts, auxiliary, parties = problem["counts"], problem["auxiliary"], problem["parties"]
    samples, classes = counts.shape
    kind = "lnmax" if law == "pure" else "gnmax"
    queries = choose_queries(samples, classes, parties, epsilon, DELTA, kind)  # type: ignore[arg-type]
    queries = min(samples, max(classes, round(share * queries)))
    indices = generator.permutation(samples)[:queries]
    if law == "pure":
        noisy = counts[indices] + generator.laplace(0, 2 * queries / epsilon, size=(queries, classes))
    else:
        sigma = gaussian_sigma(1.0, epsilon, DELTA)  # for a total squared sensitivity of 1
        indices = generator.permutation(samples)[: min(samples, 3 * queries)]
        check = sigma * math.sqrt(len(indices) / 0.2)
        plurality = counts[indices].max(axis=1) + generator.normal(0, check, size=len(indices))
        indices = indices[np.argsort(-plurality)[:queries]]
        noisy = counts[indices] + generator.normal(0, sigma * math.sqrt(2 * queries / 0.8), size=(queries, classes))
    answers = noisy.argmax(axis=1)
    rows = unit_rows(auxiliary[indices])
    gram = rows.T @ rows / len(rows) + 1e-2 * np.eye(rows.shape[1]) / rows.shape[1]
    W = (np.eye(classes)[answers] - 1 / classes).T @ rows / len(rows) @ np.linalg.inv(gram)
    labels = np.eye(classes, dtype=np.int64)[(unit_rows(auxiliary) @ W.T).argmax(axis=1)]
    if problem["teacher"] is None:
        problem["teacher"] = plan_statistic(auxiliary, classes, 1, epsilon=None)
    return fit_statistic(release_statistic(labels, problem["teacher"]))
