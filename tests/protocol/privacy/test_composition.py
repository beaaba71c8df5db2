"""Composed epsilons: exact where an exact value is known, and between dp-accounting's bounds from below and above."""

import itertools
import math

import gmpy2
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import example, given
from hypothesis import strategies as st

from psephos.protocol.privacy.composition import (
    PrivacyLoss,
    composed_epsilon,
    gaussian_deltas,
    responses,
)
from psephos.protocol.privacy.mechanisms import gaussian_delta

DIFFERENT = {0.1 + 0.01 * number: 7 for number in range(12)}
"""Responses of so many epsilons that their loss is moved to a grid: it would have 8^12 values."""


def bounds(counts, mu, delta):
    """Return epsilon from below and above: what is composed by dp-accounting on a grid, rounded down and up."""
    results = []
    for pessimistic in (False, True):
        total = pld.identity(pessimistic_estimate=pessimistic)
        rounding = {"pessimistic_estimate": pessimistic}
        for epsilon, count in counts.items():
            response = pld.from_randomized_response(2 / (1 + math.exp(epsilon)), 2, **rounding)
            total = total.compose(response.self_compose(count))
        if mu:
            total = total.compose(pld.from_gaussian_mechanism(1 / mu, use_connect_dots=pessimistic, **rounding))
        results.append(total.get_epsilon_for_delta(delta))
    return results


@pytest.mark.parametrize(
    ("counts", "mu", "delta"),
    [
        ({0.1: 40}, 0.0, 1e-6),
        ({0.1: 12, 0.3: 12}, 0.2, 1e-5),
        ({1.0: 30}, 0.5, 1e-7),
        ({0.01: 1000}, 0.5, 1e-9),
        ({0.01: 2000}, 0.02, 1e-6),
        ({2.0: 5}, 3.0, 1e-3),
        ({}, 1.3, 1e-6),
        (DIFFERENT, 0.0, 1e-6),
        (DIFFERENT, 0.3, 1e-8),
        ({0.02 + 0.001 * number: 1 for number in range(100)}, 0.0, 1e-6),
    ],
)
def test_the_result_lies_between_the_bounds_of_dp_accounting(counts, mu, delta):
    low, high = bounds(counts, mu, delta)
    epsilon = composed_epsilon(counts, mu, delta, 128.0)
    assert low * (1 - 1e-9) <= epsilon <= high * (1 + 1e-9)


@pytest.mark.parametrize("delta", [1e-3, 1e-9, 1e-15, 1e-18, 1e-30])
def test_different_responses_match_the_sum_over_all_outcomes(delta):
    """Two epsilons, 6 responses each: 4096 outcomes at 200 bits, for deltas far below float64's resolution, too."""
    counts = {0.2: 6, 0.7: 6}
    epsilons = [epsilon for epsilon, count in counts.items() for _ in range(count)]

    def exact(total):
        delta = gmpy2.mpfr(0)
        for signs in itertools.product((1, -1), repeat=len(epsilons)):
            first = second = gmpy2.mpfr(1)
            for sign, epsilon in zip(signs, epsilons, strict=True):
                likely = 1 / (1 + gmpy2.exp(-gmpy2.mpfr(epsilon)))
                first *= likely if sign > 0 else 1 - likely
                second *= 1 - likely if sign > 0 else likely
            delta += max(gmpy2.mpfr(0), first - gmpy2.exp(gmpy2.mpfr(total)) * second)
        return delta

    with gmpy2.context(gmpy2.get_context(), precision=200):
        epsilon = composed_epsilon(counts, 0.0, delta, 64.0)
        assert exact(epsilon) <= delta < exact(epsilon * (1 - 1e-8))


@pytest.mark.parametrize("mu", [1e-3, 0.1, 1.0, 8.0])
def test_the_delta_of_a_gaussian_is_rounded_up_at_every_epsilon(mu):
    epsilon = np.array([0.0, 1e-6, 0.01, 0.3, 1.0, 5.0, 20.0])
    exact = np.array([gaussian_delta(1.0, float(at), 1 / mu) for at in epsilon])
    deltas = gaussian_deltas(epsilon, mu)
    used = exact > 1e-60
    assert np.all(deltas[used] >= exact[used] * (1 - 1e-12))
    assert np.all(deltas[used] <= exact[used] * (1 + 1e-6))
    negative = -np.expm1(-epsilon) + np.exp(-epsilon) * exact
    np.testing.assert_allclose(gaussian_deltas(-epsilon, mu), negative, rtol=1e-6)


def test_a_gaussian_with_little_noise_has_at_most_delta_1():
    assert gaussian_deltas(np.array([0.0, 1.0]), 1e3).tolist() == [1.0, 1.0]
    assert composed_epsilon({}, 100.0, 0.5, 64.0) == math.inf


@given(
    st.dictionaries(st.floats(1e-6, 20.0), st.integers(1, 400), min_size=1, max_size=6),
    st.floats(1e-30, 0.5),
)
@example({1.415094191996868e-06: 226, 4.0: 370, 0.25: 381}, 1.710148376566642e-13)  # a mass was -5e-54
def test_a_sum_of_losses_is_the_loss_of_a_pair(counts, delta):
    """Mass under the first distribution is never lost, and mass under the second is at most 1."""
    losses = PrivacyLoss(np.zeros(1), np.ones(1))
    for epsilon, count in counts.items():
        losses = losses.add(responses(epsilon, count), delta)
    assert losses.masses.sum() + losses.infinite == pytest.approx(1, rel=1e-9)
    assert np.dot(losses.masses, np.exp(-losses.values)) <= 1 + 1e-9
    assert losses.infinite <= delta * 1e-4
    assert np.all(losses.masses >= 0)
    assert len(losses.values) <= 2**17


@given(st.floats(0.01, 2.0), st.integers(1, 200), st.floats(1e-20, 0.1))
def test_more_mechanisms_and_a_smaller_delta_cost_more(epsilon, count, delta):
    first = composed_epsilon({epsilon: count}, 0.0, delta, 1e4)
    assert first <= composed_epsilon({epsilon: count + 1}, 0.0, delta, 1e4) * (1 + 1e-9)
    assert first <= composed_epsilon({epsilon: count}, 0.1, delta, 1e4) * (1 + 1e-9)
    assert first <= composed_epsilon({epsilon: count}, 0.0, delta / 2, 1e4) * (1 + 1e-9)
    assert first <= epsilon * count * (1 + 1e-9) + 1e-9


# -- losses by hand
