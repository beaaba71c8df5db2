"""The rules that choose lambda and radius: functions of public numbers, and what they promise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from psephos.curator.hamm.release import erm_sensitivity
from psephos.curator.hamm.rules import HAMM_LAMBDA, RIDGES, RidgeRule, averaging_radius
from psephos.curator.hamm.sensitivity import Sensitivity
from psephos.curator.losses import Logistic, Softmax, loss_named
from psephos.curator.methods import ReleaseRequest, erm_method, statistic_method
from psephos.protocol.randomness import SimulationRandomness


def table(seed: int, samples: int, width: int) -> np.ndarray:
    """Return public rows in the unit ball, of moments that fall in some way."""
    generator = np.random.default_rng(seed)
    rows = generator.normal(size=(samples, width)) * generator.uniform(0.3, 1, size=width)
    return np.asarray(rows / np.linalg.norm(rows, axis=1).max() / (1 + 1e-9))


@settings(max_examples=30)
@given(
    st.integers(0, 10_000),
    st.integers(1, 40),
    st.integers(2, 6),
    st.sampled_from(["soft", "majority"]),
    st.sampled_from(["spherical-laplace", "gaussian"]),
)
def test_the_ridge_never_rises_with_epsilon_nor_with_parties(
    seed: int, width: int, classes: int, labels: Any, noise: Any
) -> None:
    X, loss = table(seed, 60, width), loss_named("logistic", classes)
    rule, epsilons = RidgeRule.of(X, classes, loss), (0.1, 1.0, 3.0, 10.0, 30.0, 64.0, None)

    def chosen(parties: int) -> list[float]:
        def sensitivity(lam: float) -> Sensitivity:
            return erm_sensitivity(labels, loss, lam, parties=parties, classes=classes, features=X)

        return [rule.choose(sensitivity, epsilon, noise) for epsilon in epsilons]

    few, many = chosen(20), chosen(2000)
    for lams in (few, many):
        assert set(lams) <= set(RIDGES)
        assert lams == sorted(lams, reverse=True)
        assert lams[-1] == HAMM_LAMBDA
    assert all(larger >= smaller for larger, smaller in zip(few, many, strict=True))


@pytest.mark.parametrize("labels", ["soft", "majority"])
def test_the_ridge_depends_on_nothing_that_is_protected(labels: Any) -> None:
    """Not on votes; and where auxiliary rows are private, not on them."""
    generator = np.random.default_rng(3)
    votes = [generator.multinomial(30, np.ones(3) / 3, size=60), np.tile([30, 0, 0], (60, 1))]
    for private in (False, True):
        request = ReleaseRequest(20.0, 1e-6, "spherical-laplace", None, private)
        rows = [table(seed, 60, 5) * 0.5**seed for seed in (0, 3 * private)]
        chosen = [erm_method(labels, v, X, Softmax(), request).chosen["lam"] for v in votes for X in rows]
        assert len(set(chosen)) == 1


def test_soft_gains_from_epsilon_and_is_not_far_below_the_statistic() -> None:
    """60 parties, 60 draws of the same noise at every epsilon, by fixed coins: differences err by less than .01."""
    generator, X = np.random.default_rng(1), table(5, 1000, 8)
    scores = X @ generator.normal(size=8)
    scores /= np.std(scores)
    positive = generator.binomial(60, 1 / (1 + np.exp(-2 * scores[:100])))
    counts = np.column_stack([60 - positive, positive])

    def accuracy(w: Any) -> float:
        return float(np.mean((X[100:] @ w > 0) == (scores[100:] > 0)))

    means: dict[str, list[float]] = {"soft": [], "statistic": []}
    for epsilon in (0.3, 1.0, 3.0, 10.0, 30.0):
        request = ReleaseRequest(epsilon, 1e-6, "spherical-laplace", None)
        soft = erm_method("soft", counts, X[:100], Logistic(), request)
        made = {"soft": soft, "statistic": statistic_method(counts, X[:100], request)}
        for name, method in made.items():
            coins = SimulationRandomness(7, "coins of a test")
            means[name].append(float(np.mean([accuracy(method.draw(coins)) for _ in range(60)])))
    means["soft"].append(accuracy(soft.nonprivate()))
    assert np.diff(means["soft"]).min() > -0.02  # .01, and that error
    assert all(one > other - 0.08 for one, other in zip(means["soft"], means["statistic"], strict=False))


def test_the_averaging_ball_is_a_tenth_of_the_longest_minimiser() -> None:
    assert averaging_radius(1e-4, 2) == pytest.approx(math.sqrt(0.27846 / 1e-4) / 10, rel=1e-4)
