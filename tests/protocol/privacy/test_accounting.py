"""Privacy events, and their composition."""

import math
from fractions import Fraction

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant

from psephos.protocol.errors import InvalidParameter
from psephos.protocol.privacy.accounting import (
    NUMERICAL_DELTA,
    PrivacyEvent,
    compose,
    event_of,
    gaussian_event,
    pure_event,
    shown_together,
    stated,
    stated_delta,
)
from psephos.protocol.privacy.mechanisms import (
    SAMPLER_DISTANCE,
    DiscreteGaussian,
    DiscreteLaplace,
    RoundedGaussian,
    SphericalLaplace,
    gaussian_delta,
    gaussian_sigma,
)

REPLACE = dp_accounting.NeighboringRelation.REPLACE_ONE


def pld(events, delta):
    """dp-accounting's own accountant, one event at a time; under replace-one it doubles a Gaussian's sensitivity."""
    accountant = PLDAccountant(REPLACE)
    for event in events:
        p = 2.0 / (1.0 + math.exp(event.epsilon))
        response = dp_accounting.RandomizedResponseDpEvent(p, 2)
        gaussian = event.multiplier is not None
        accountant.compose(dp_accounting.GaussianDpEvent(2 * event.multiplier) if gaussian else response)
    return accountant.get_epsilon(delta)


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 5.0])
@pytest.mark.parametrize("count", [1, 3])
def test_pure_events_compose_to_the_sum_at_tiny_delta(epsilon, count):
    """The neighbour relation is right: k releases at epsilon cost k epsilon, not half or double, at delta near 0."""
    events = [pure_event("x", epsilon)] * count
    assert pld(events, 1e-15) == pytest.approx(count * epsilon, abs=2e-3 * count)
    assert compose(events, 1e-15) == pytest.approx(count * epsilon, abs=1e-12)


def test_many_pure_events_gain_from_delta_and_match_the_binomial():
    """k-fold randomised response has an exact delta: a sum over the binomial."""
    epsilon, count, delta = 0.1, 40, 1e-6
    total = compose([pure_event("x", epsilon)] * count, delta)
    assert total < 0.85 * count * epsilon
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    exact = sum(
        math.comb(count, i) * max(p ** (count - i) * (1 - p) ** i - math.exp(total) * (1 - p) ** (count - i) * p**i, 0)
        for i in range(count + 1)
    )
    assert exact <= delta
    assert exact > 0.9 * delta


def test_single_events_are_not_composed():
    """At most what dp-accounting finds for responses and Gaussians one at a time, because its truncations add up."""
    events = [pure_event("x", epsilon) for epsilon in (0.1, 0.3) for _ in range(12)]
    events += [gaussian_event("g", sigma, 1.0, 1.0) for sigma in (8.0, 8.0, 20.0)]
    one_by_one, together = pld(events, 1e-5), compose(events, 1e-5)
    assert 0.999 * one_by_one < together <= one_by_one * (1 + 1e-9)
    assert together < 0.6 * math.fsum(e.epsilon for e in events)


@pytest.mark.parametrize("count", [2, 5])
def test_gaussians_compose_to_the_exact_gaussian(count):
    sigma = gaussian_sigma(1.0, 1.0, 1e-6)
    total = compose([gaussian_event("g", sigma, 1.0, 1.0, distance=2.0**-160)] * count, 1e-6)
    assert gaussian_delta(math.sqrt(count), total, sigma) <= 1e-6
    assert gaussian_delta(math.sqrt(count), total * 0.999, sigma) > 1e-6


def test_deltas_of_events_without_a_multiplier_add_up():
    events = [PrivacyEvent("s", 0.4, 1e-7), pure_event("p", 0.3)]
    assert compose(events, 1e-7) == pytest.approx(0.7)
    assert compose(events, 0.5e-7) == math.inf
    assert compose([], 1e-6) == 0.0


@pytest.mark.parametrize("epsilon", [0.5, 10.0])
def test_the_event_of_every_mechanism_charges_its_samplers_distance(epsilon):
    """The samplers' own distance is far below the delta of the noise, so a larger one is given to them."""
    distance = 1e-5
    by_name = {
        "pure": (pure_event("x", epsilon, distance=distance), 0.0),
        "gaussian": (gaussian_event("x", 3.0, 1.0, epsilon, distance=distance), gaussian_delta(1.0, epsilon, 3.0)),
    }
    for event, of_the_law in by_name.values():
        assert event.delta - of_the_law == pytest.approx((1 + math.exp(epsilon)) * distance, rel=1e-6)
        assert event.distance == distance


@pytest.mark.parametrize("unit", ["party", "record"])
def test_the_event_of_a_mechanism_has_its_law_its_distance_and_its_unit(unit):
    """Field by field; a Gaussian of sigma 3 at sensitivity 2 has multiplier 1.5."""
    sampler = (1 + math.exp(0.5)) * SAMPLER_DISTANCE
    lattice = DiscreteGaussian(1, Fraction(34))
    for mechanism, delta, multiplier, distance in (
        (SphericalLaplace(4, 8.0, 0.5), sampler, None, SAMPLER_DISTANCE),
        (DiscreteLaplace(4, Fraction(8)), 0.0, None, 0.0),
        (RoundedGaussian(4, 3.0, 0.5), gaussian_delta(2.0, 0.5, 3.0) + sampler, 1.5, SAMPLER_DISTANCE),
        (lattice, gaussian_delta(2.0, 0.5, lattice.sigma) + sampler, lattice.sigma / 2, SAMPLER_DISTANCE),
    ):
        expected = PrivacyEvent("x", 0.5, delta, multiplier, distance, unit)
        assert event_of("x", mechanism, 2.0, 0.5, unit) == expected
    assert event_of("x", mechanism, 2.0, 0.5).unit == pure_event("x", 1.0).unit == "party"


def test_a_release_is_stated_at_its_target_and_what_it_costs_at_most():
    """Both sides of each limit; everything but the delta stays."""
    event = PrivacyEvent("x", 0.5, 0.25, 1.5, 1e-9, "record")
    assert stated_delta(0.25) == 0.25 + NUMERICAL_DELTA
    assert stated(event, 0.25) == PrivacyEvent("x", 0.5, 0.25 + NUMERICAL_DELTA, 1.5, 1e-9, "record")
    for cost, target, delta in ((NUMERICAL_DELTA, 0.25, NUMERICAL_DELTA), (2 * NUMERICAL_DELTA, 1e-6, None)):
        got = stated(PrivacyEvent("x", 0.5, cost), target).delta
        assert got == (stated_delta(target) if delta is None else delta)
    at_most = stated_delta(2.0**-30)
    assert stated(PrivacyEvent("x", 0.5, at_most), 2.0**-30).delta == at_most
    with pytest.raises(InvalidParameter):
        stated(PrivacyEvent("x", 0.5, math.nextafter(at_most, 1)), 2.0**-30)


def test_a_large_distance_is_charged_in_a_composition_too():
    """Two releases whose samplers are off by 1e-3 each have no guarantee at delta = 1e-6, whatever their epsilon."""
    events = [pure_event("x", 0.5, distance=1e-3)] * 2
    assert compose(events, 1e-6) == math.inf
    assert compose(events, 1e-3) == math.inf
    assert compose(events, 2 * events[0].delta) == pytest.approx(1.0)
    mixed = [PrivacyEvent("x", 0.5, 0.01, distance=2.0**-160)] * 2
    assert compose(mixed, 0.01) == math.inf, "a delta that is more than its sampler's counts as well"


@pytest.mark.parametrize(
    "numbers",
    [
        *({"epsilon": bad} for bad in (math.nan, 0.0, -1.0, math.inf)),
        *({"delta": bad} for bad in (math.nan, -1e-9, math.inf)),
        *({"distance": bad} for bad in (math.nan, -1.0, 1.1)),
        *({"multiplier": bad} for bad in (math.nan, 0.0, math.inf)),
    ],
)
def test_events_with_invalid_numbers_are_rejected(numbers):
    """A NaN compares as spent with nothing, and would pass every budget."""
    with pytest.raises(InvalidParameter):
        PrivacyEvent("x", **{"epsilon": 0.5, "delta": 0.0, **numbers})


def test_numbers_at_their_limits():
    assert PrivacyEvent("x", 64.0, 0.0, distance=1.0).distance == 1.0
    assert PrivacyEvent("x", 1e-9, 1.5, multiplier=5e-324).delta == 1.5, "a sum may pass 1, and says nothing then"
    for bad in (0.0, 64.1):
        for make in (pure_event, lambda n, e: gaussian_event(n, 1, 1, e)):
            with pytest.raises(InvalidParameter):
                make("x", bad)
    for delta in (-1e-9, 1.0, math.nan):
        with pytest.raises(InvalidParameter):
            compose([], delta)
    assert compose([pure_event("x", 0.5)] * 3, 0.0) == 1.5
    assert compose([PrivacyEvent("s", 0.4, 1e-7)], 0.0) == math.inf


def test_a_choice_among_releases_costs_all_of_them():
    """Publish the better of five 1-private draws: measured, its epsilon is far above 1, and below what is charged.

    Each of the five is Laplace noise of scale 1 on a sensitivity of 1. For an event {best <= -t} both probabilities are
    fifth powers, so the ratio tends to e^5: at 400,000 draws a 99.99 % lower bound is above 4 (fixed seed).
    """
    from psephos.audit.privacy import lower_bound

    generator = np.random.default_rng(0)
    low, high = (generator.laplace(at, 1, size=(400_000, 5)).max(axis=1) for at in (0, 1))
    attained = lower_bound(-low, -high, 0.0)
    epsilon, delta = shown_together([pure_event("draw", 1.0)] * 5)
    assert 4 < attained <= epsilon
    assert epsilon == pytest.approx(5, abs=0.01)
    assert delta == 2.0**-40, "and the deltas of the five, which are 0"
    assert shown_together([PrivacyEvent("s", 0.4, 1e-7), pure_event("p", 0.3)])[1] == 1e-7 + 2.0**-40
    assert shown_together([PrivacyEvent("s", 0.4, 1e-7)]) == (0.4, 1e-7)
    assert shown_together([])[0] == 0.0


@pytest.mark.parametrize("count", [80, 2000])
def test_a_composition_above_the_largest_epsilon_is_basic_or_infinite(count):
    events = [pure_event("x", 1.0, distance=2.0**-160)] * count
    assert compose(events, 1e-12) == count
    assert compose([gaussian_event("g", 0.5, 1.0, 1.0)] * count, 1e-6) == math.inf
