"""What a series is made of, at both sides of every limit, and the round that follows from an announcement."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from scipy.stats import gamma

from psephos.protocol.errors import InvalidParameter, MessageError
from psephos.protocol.privacy.mechanisms import gaussian_norm_bound
from psephos.protocol.psgd.descent import Descent, StepSizes
from psephos.protocol.psgd.series import Announcement, Series, SeriesTerms
from psephos.protocol.randomness import SimulationRandomness
from psephos.simulation.key_setup import setup_keys

SERIES = Series(
    parties=3,
    steps=4,
    dimension=2,
    bound=5.0,
    fraction_bits=10,
    fixed_sigmas=(2.0, 2.0, 3.0),
    step_law="spherical-laplace",
    step_scale=1.5,
    minimum_ballots=3,
    nonce=bytes(16),
)
QUIET = replace(SERIES, step_law="none", step_scale=0.0)
DESCENT = Descent(9, 0.5, 0.25, 10.0, StepSizes(1.0, 4.0))


@pytest.fixture(scope="module")
def terms() -> SeriesTerms:
    made = setup_keys(
        3, key_bits=512, holders=3, threshold=2, test_key=True, randomness=SimulationRandomness(9, "psgd party")
    )
    return SeriesTerms(SERIES, DESCENT, made.threshold_key, made.roster, True, "knowledge", 2)


@pytest.mark.parametrize(
    "change",
    [
        {"parties": 1, "fixed_sigmas": (1.0,)},
        *({"steps": bad} for bad in (0, (1 << 20) + 1, 1.0)),
        *({"dimension": bad} for bad in (0, 1.0)),
        *({"bound": bad} for bad in (0.0, -1.0, math.inf, math.nan, "5")),
        *({"fraction_bits": bad} for bad in (-1, 53, 1.0)),
        *({"fixed_sigmas": (1.0, bad, 1.0)} for bad in (-1e-300, math.inf, math.nan, "1")),
        {"fixed_sigmas": (1.0, 1.0)},
        {"step_law": "gaussian"},
        {"step_law": "none"},
        *({"step_scale": bad} for bad in (0.0, -1.0, math.inf, math.nan, None)),
        *({"nonce": bytes(length)} for length in (15, 17)),
        {"minimum_ballots": 1.0},
    ],
)
def test_invalid_series_are_rejected(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        replace(SERIES, **change)


def test_the_scale_of_every_step() -> None:
    for step in (0, 5, -1):
        with pytest.raises(InvalidParameter):
            SERIES.scale_at(step)
    assert [SERIES.scale_at(step) for step in (1, 4)] == [1.5, 1.5]
    halving = replace(SERIES, steps=1000, step_law="spherical-laplace-halving")
    assert [halving.scale_at(step) for step in (1, 900)] == [3.0, math.ldexp(1.5, 900)]
    with pytest.raises(InvalidParameter):
        halving.scale_at(901)


def test_bounds_of_noise_are_those_of_their_tails() -> None:
    """2^-66 for all tails together: those of one fixed vector and of one in each step, of every party."""
    series = replace(SERIES, step_law="discrete-gaussian", step_scale=5000.0)
    tails = 2 * series.dimension * series.parties * (series.steps + 1)
    assert tails == 60
    logarithm = math.log(tails * 2.0**66)
    assert series.fixed_bound() == math.ceil(3.0 * 2**10 * math.sqrt(2 * logarithm)) + 1
    assert series.step_bound(1) == series.step_bound(4) == math.ceil(math.sqrt(2 * 5000 * logarithm)) + 1
    norm = SERIES.step_bound(1) / 2**10 / 1.5  # of a share of spherical Laplace noise, whose norm is Gamma(d)
    assert gamma.sf(norm, SERIES.dimension) < 2.0**-66 / tails
    assert gamma.sf(norm / 1.3, SERIES.dimension) > 2.0**-66 / tails


@pytest.mark.parametrize(
    ("law", "scale"),
    [("none", 0.0), ("spherical-laplace", 1.5), ("spherical-laplace-halving", 1.5), ("discrete-gaussian", 5000.0)],
)
@pytest.mark.parametrize("dimension", [2, 4, 9])
def test_no_noisy_vector_has_a_larger_norm_than_is_proved(law: Any, scale: float, dimension: int) -> None:
    """The norms of a rounded gradient, of fixed noise and of step noise, each at its own bound, are added up."""
    series = replace(SERIES, step_law=law, step_scale=scale, dimension=dimension)
    for step in (1, 4):
        root, fixed = math.sqrt(dimension), series.fixed_bound()
        noise, rounded = {
            "none": (0, 0.0),
            "discrete-gaussian": (gaussian_norm_bound(dimension, scale, 3), 0.0),
        }.get(law, (series.step_bound(step), root / 2))
        exact = 5.0 * 2**10 + root / 2 + root * fixed + noise + rounded
        above = math.isqrt(dimension) + 1  # the root, rounded up
        assert exact <= series.norm_bound(step)
        assert series.norm_bound(step) == 5121 + above * (1 + fixed) + noise + (above if rounded else 0)


def test_the_digest_covers_all_terms_of_a_series(terms: SeriesTerms) -> None:
    others = [
        replace(terms, series=QUIET),
        replace(terms, descent=replace(DESCENT, radius=9.0)),
        replace(terms, threshold_key=replace(terms.threshold_key, ceremony=bytes(16))),
        replace(terms, roster=terms.roster[::-1]),
        replace(terms, test_key=False),
        replace(terms, proofs="none"),
        replace(terms, confirmations=3),
    ]
    assert len({terms.digest, *(other.digest for other in others)}) == len({terms, *others}) == 8
    for wrong in (terms.roster[:2], [*terms.roster, terms.roster[0]]):
        with pytest.raises(InvalidParameter):
            replace(terms, roster=wrong)


def test_announcements_of_another_series_are_rejected(terms: SeriesTerms) -> None:
    for step in (1, 4):
        made = Announcement.create(terms, step, (1.0, 2.0))
        assert Announcement.decode(made.encode(), terms) == made
        assert len(made.nonce) == 16
    wrong = [(step, (1.0, 2.0)) for step in (0, 5)]
    for step, point in (*wrong, *((1, point) for point in ((1.0, math.nan), (math.inf, 1.0), (1.0,), ()))):
        with pytest.raises(MessageError):
            Announcement.create(terms, step, point)
        with pytest.raises(MessageError):
            Announcement.decode(Announcement(terms.digest, step, bytes(16), point).encode(), terms)
