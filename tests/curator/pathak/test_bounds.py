"""The paper's theorems as it prints them, and what is so instead (docs/security/index.md, findings 3 and 10)."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from psephos.curator.pathak.bounds import (
    counterexample,
    party_level_epsilon,
    printed_epsilon,
    proved_epsilon,
    theorem_4_2,
    theorem_4_3,
)
from psephos.parties.pathak import PathakParty
from psephos.parties.training import train_parties
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.pathak.noise import ROW_SLACK, noise_scale, record_sensitivity
from psephos.simulation.pathak import make_terms


def terms(**changes: Any) -> Any:
    options: dict[str, Any] = {"parties": 5, "features": 123, "lam": 1.0, "epsilon": 1.0, "variant": "printed"}
    return make_terms(**(options | changes))


def test_epsilon_of_theorem_4_1() -> None:
    assert printed_epsilon(epsilon=1, features=123, parties=5) == pytest.approx(1.109, abs=5e-4)
    # Rajkumar's comparison: d = 10, K = 15, ten times more noise than needed.
    assert 1 / printed_epsilon(epsilon=1, features=10, parties=15) == pytest.approx(9.49, abs=0.01)


def test_no_record_moves_the_minimiser_further_than_the_sensitivity() -> None:
    generator = np.random.default_rng(0)
    worst = 0.0
    for _ in range(40):
        X = generator.normal(size=(5, 2))
        X /= np.linalg.norm(X, axis=1)[:, None]
        y = generator.integers(0, 2, 5)
        X2, y2 = X.copy(), y.copy()
        X2[0], y2[0] = -X[0] if generator.random() < 0.5 else X[0][::-1], generator.integers(0, 2)
        w, w2 = (train_parties(A, b, [5], classes=2, lam=0.1)[0] for A, b in ((X, y), (X2, y2)))
        worst = max(worst, float(np.linalg.norm(w - w2)))
    bound = record_sensitivity(terms(lam=0.05, smallest_size=1), 5)  # lam of objective (2) is half of that
    assert 0.1 * bound < worst <= bound


def test_the_sensitivity_covers_the_longest_accepted_row() -> None:
    """Rows may be longer than 1 by the rounding of a division, and then move the parameters further."""
    row = (1 + ROW_SLACK) * np.array([[0.6, 0.8], [0.8, 0.6]]) * (1 - 2.0**-52)
    agreed = terms(features=2, smallest_size=2)
    PathakParty(2, row, np.array([0, 1]), agreed)
    longest = np.linalg.norm(row, axis=1).max()
    assert record_sensitivity(agreed, 2) >= (2 * longest / 2 + 2 * agreed.tolerance) / agreed.strong_convexity


def test_the_buckets_rounds_down_by_at_most_half() -> None:
    agreed = terms(smallest_size=7, largest_size=1000)
    assert agreed.buckets[0] == 7
    assert all(b / a == Fraction(3, 2) for a, b in zip(agreed.buckets, agreed.buckets[1:], strict=False))
    for size in range(7, 1001):
        bucket = agreed.buckets[agreed.bucket(size)]
        assert bucket <= size < bucket * Fraction(3, 2) or size >= agreed.buckets[-1]
    assert agreed.buckets[-1] <= 1000 < agreed.buckets[-1] * Fraction(3, 2)


def test_theorem_4_2_is_false() -> None:
    for copies in (1, 100, 10_000):
        example = counterexample(copies)
        assert example.distance == pytest.approx(1.599, abs=5e-4)
        assert example.bound == pytest.approx(100 / copies)
    assert counterexample(1).distance < counterexample(1).bound
    assert counterexample(1000).distance > counterexample(1000).bound


def test_theorems_by_hand() -> None:
    # K = 5, n_(1) = 10, lambda = 0.5, d = 2, epsilon = 1, delta = 2/e.
    assert theorem_4_2(parties=5, smallest=10, lam=0.5) == pytest.approx(0.8)
    delta = 2 / math.e
    # common = 1.5/25 = 0.06, tail = 2: 0.06 (8 + 8 + 16).
    assert theorem_4_3(parties=5, smallest=10, lam=0.5, features=2, epsilon=1, delta=delta) == pytest.approx(1.92)
    no_noise = theorem_4_3(parties=5, smallest=10, lam=0.5, features=2, epsilon=math.inf, delta=delta)
    assert no_noise == pytest.approx(0.48)  # equation (3)
    alone = theorem_4_3(parties=1, smallest=10, lam=0.5, features=2, epsilon=1, delta=delta)
    assert alone == pytest.approx(0.48)  # equation (4): 2 d^2 (lambda + 1)/(n^2 eps^2 lambda^2) log^2(d/delta)


GOOD: list[tuple[Any, dict[str, float]]] = [
    (printed_epsilon, {"epsilon": 1.0, "features": 2, "parties": 5}),
    (theorem_4_2, {"parties": 5, "smallest": 9, "lam": 0.5}),
    (theorem_4_3, {"parties": 5, "smallest": 9, "lam": 0.5, "features": 2, "epsilon": 1.0, "delta": 0.1}),
    (counterexample, {"copies": 3, "lam": 0.5}),
]


@pytest.mark.parametrize(("function", "good"), GOOD)
def test_bad_parameters_are_refused_by_name(function: Any, good: dict[str, float]) -> None:
    function(**good)
    for name in good:
        for wrong in (0, -1.0, math.nan):
            with pytest.raises(InvalidParameter, match=name):
                function(**good | {name: wrong})


LAWS: list[dict[str, Any]] = [
    {"variant": "printed"},
    {"variant": "repaired"},
    {"variant": "public-bound"},
]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("smallest", [3, 16, 100, 2**21])
def test_party_level_epsilon_computed_by_hand(law: dict[str, Any], smallest: int) -> None:
    """2 (R + tau/mu)/g in L2, sqrt(d) of it in L1 and one unit of the grid an entry, over the scale for that size."""
    agreed = terms(features=9, lam=0.05, tolerance=1e-3, **law)
    mu = 0.1
    reach = 2 * (math.sqrt(0.27846454276 / mu) + 1e-3 / mu) / agreed.pitch
    size: Any = {"public-bound": 16, "repaired": agreed.buckets[agreed.bucket(smallest)]}.get(
        law["variant"], min(max(smallest, 16), 2**20)
    )
    scale = float(noise_scale(agreed, size))
    assert party_level_epsilon(agreed, smallest) == pytest.approx((3 * reach + 9) / scale, rel=1e-9)


def test_what_a_run_proves_is_the_grids_sensitivity_over_the_scale() -> None:
    """Printed, at the largest size; rounded up by 1e-12. What drawing costs is (1 + e^epsilon) times its distance."""
    agreed = terms(features=9, largest_size=1000)
    epsilon, delta = proved_epsilon(agreed)
    l1 = 3 * record_sensitivity(agreed, 1000) / agreed.pitch + 9
    assert epsilon / (l1 / float(noise_scale(agreed, 1000))) == pytest.approx(1 + 1e-12, rel=4e-16, abs=0)
    assert delta == pytest.approx((1 + math.exp(epsilon)) * 2.0**-159, rel=1e-14, abs=0)
    for law in LAWS[1:]:
        assert proved_epsilon(terms(**law)) == (1.0, (1 + math.e) * 2.0**-159)
