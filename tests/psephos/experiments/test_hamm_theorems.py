"""The papers' utility bounds, by hand and against simulation.

The simulations are seeded: the statements hold with a stated probability, and what is checked is their frequency.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from psephos.curator.hamm.erm import minimise, risk
from psephos.curator.hamm.labels import alpha, majority, one_hot
from psephos.curator.losses import Huber, Logistic, Loss
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.privacy.mechanisms import simulate_spherical_laplace
from tests.psephos.experiments.hamm_theorems import equation_11, lemma_5, lemma_6, theorem_4

BASE: dict[str, Any] = {
    "dimension": 5,
    "smoothness": 0.25,
    "lam": 0.1,
    "parties": 100,
    "samples": 2000,
    "epsilon": 0.5,
    "delta_p": 0.05,
    "delta_s": 0.02,
    "reference_norm": 3.0,
}


@given(st.integers(1, 300), st.floats(0.001, 1000), st.floats(1e-9, 0.999))
def test_lemma_5_bounds_the_exact_quantile(k: int, theta: float, delta: float) -> None:
    quantile = stats.gamma.isf(delta, k, scale=theta)
    assert quantile <= lemma_5(k, theta, delta) * (1 + 1e-12)
    if k == 1:  # an exponential variable: equality
        assert quantile == pytest.approx(lemma_5(1, theta, delta), rel=1e-9)


def population(size: int, seed: int, parties: int = 25) -> tuple[np.ndarray, np.ndarray]:
    """A distribution with finite support: features in the ball, and the counts of an ensemble's votes on each."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(size, 5))
    x /= np.linalg.norm(x, axis=1).max()
    ensemble = generator.normal(size=5) + 0.7 * generator.normal(size=(parties, 5))
    positive = (x @ ensemble.T > 0).sum(axis=1)
    return x, np.stack([parties - positive, positive], axis=1)


@pytest.mark.parametrize("loss", [Logistic(), Huber()], ids=str)
def test_lemma_6_holds_as_often_as_it_says_and_is_no_empty_promise(loss: Loss) -> None:
    x, counts = population(300, 1)
    targets, lam, parties, epsilon, delta = alpha(counts), 0.1, 25, 2.0, 0.2
    w = minimise(x, targets, lam, loss).w
    least = risk(x, targets, w, lam, loss)
    bound = lemma_6(dimension=5, smoothness=loss.smoothness, lam=lam, parties=parties, epsilon=epsilon, delta_p=delta)
    generator = np.random.default_rng(2)
    excess = np.array(
        [
            risk(x, targets, w + simulate_spherical_laplace(5, 2 / (parties * lam * epsilon), generator), lam, loss)
            - least
            for _ in range(2000)
        ]
    )
    assert (excess <= bound).mean() >= 1 - delta
    assert excess.max() > bound / 50  # a bound a hundred times smaller would have been caught
    assert (excess > bound / 100).mean() > delta


@pytest.mark.parametrize("labels", ["soft", "majority"])
def test_theorem_4_and_equation_11_hold_over_auxiliary_samples_and_noise(labels: str) -> None:
    """Auxiliary samples drawn from a known finite population, so that the expected risk is exact."""
    x, counts = population(3000, 3)
    loss, lam, samples, parties, epsilon = Logistic(), 0.5, 4000, 25, 4.0
    targets = alpha(counts) if labels == "soft" else one_hot(majority(counts), 2)

    def expected_risk(w: np.ndarray) -> float:
        return float(loss.value(x @ w, targets).mean())

    generator = np.random.default_rng(4)
    common: dict[str, Any] = {
        "dimension": 5,
        "smoothness": loss.smoothness,
        "lam": lam,
        "samples": samples,
        "epsilon": epsilon,
        "delta_p": 0.1,
        "delta_s": 0.1,
    }
    sensitivity = 2 / (parties * lam) if labels == "soft" else 2 / lam
    references = [np.zeros(5), minimise(x, targets, 0.05, loss).w, minimise(x, targets, lam, loss).w]
    trials, within_bounds = 60, 0
    for _ in range(trials):
        rows = generator.integers(len(x), size=samples)
        w = minimise(x[rows], targets[rows], lam, loss).w
        w = w + simulate_spherical_laplace(5, sensitivity / epsilon, generator)
        excess = []
        for w0 in references:
            kw = {**common, "reference_norm": float(np.linalg.norm(w0))}
            bound = theorem_4(**kw, parties=parties) if labels == "soft" else equation_11(**kw)
            excess.append(expected_risk(w) - expected_risk(w0) - bound)
        within_bounds += max(excess) <= 0
    assert within_bounds >= 0.8 * trials


def test_the_error_of_majority_labels_does_not_vanish_and_that_of_soft_labels_does() -> None:
    kw = {**BASE, "samples": 10**12, "reference_norm": 0.0}
    soft = [theorem_4(**{**kw, "parties": m}) for m in (10, 100, 1000)]
    assert soft[0] / soft[1] == pytest.approx(100, rel=1e-3)
    vote = equation_11(**{k: v for k, v in kw.items() if k != "parties"})
    assert vote > 99 * soft[0]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("dimension", [0, -1, 2.5, True]),
        ("parties", [0, 1.5]),
        ("samples", [0]),
        ("lam", [0.0, -1.0, math.nan, math.inf]),
        ("epsilon", [0.0, math.nan]),
        ("smoothness", [0.0, math.inf]),
        ("delta_p", [0.0, 1.0, 0.99, math.nan]),  # 0.99 + delta_s is 1.01
        ("delta_s", [0.0, 1.0, 0.96]),
        ("reference_norm", [-1.0, math.nan, math.inf]),
    ],
)
def test_outside_the_hypotheses_nothing_is_promised(name: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(InvalidParameter):
            theorem_4(**{**BASE, name: value})
