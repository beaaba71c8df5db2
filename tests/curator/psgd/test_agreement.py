"""What is agreed on before the first step: the options' defaults and limits, and the numbers that follow, exactly."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from typing import Any

import pytest

from psephos.curator.losses import Huber, Logistic
from psephos.curator.psgd import bounds
from psephos.curator.psgd.agreement import VARIANTS, Agreement, DescentOptions, agree
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.privacy.mechanisms import discrete_gaussian_variance
from psephos.protocol.privacy.precision import rounded_up
from psephos.protocol.psgd.descent import StepSizes, StoppingRule

DEFAULTS = {
    "variant": "paper",
    "epsilon": 1.0,
    "delta": 1e-5,
    "party_bound": None,
    "on_excess": "refuse",
    "colluders": None,
    "dropouts": 0,
    "loss": "logistic",
    "lam": 0.1,
    "steps": 200,
    "first_step": None,
    "step_offset": None,
    "step_power": 1.0,
    "radius": None,
    "stop_tolerance": 0.0,
    "stop_window": 50,
    "fraction_bits": 20,
}
SIZES = (100, 60, 40)


def agreed(sizes: tuple[int, ...] = SIZES, dimension: int = 4, **changes: Any) -> Agreement:
    options = DescentOptions(**{"epsilon": 0.5, "delta": 0.05, "steps": 50, **changes})
    return agree(options, sizes, dimension, bytes(16))


def test_default_descent_options() -> None:
    assert asdict(DescentOptions()) == DEFAULTS
    assert VARIANTS == ("paper", "footnote-4", "halving", "gaussian")
    assert DescentOptions().phi == Logistic()
    assert DescentOptions(loss="huber").phi == Huber(0.5)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"epsilon": 0.0}, "epsilon is"),
        ({"epsilon": 64.1}, "epsilon is"),
        ({"delta": 0.0}, "delta is"),
        ({"delta": 1.0}, "delta is"),
        ({"lam": 0.0}, "^lambda must"),
        ({"steps": 0}, "^the number of steps must"),
        ({"steps": 1.5}, "^the number of steps must"),
        ({"variant": "papers"}, "^variant"),
        ({"on_excess": "ignore"}, "^on_excess"),
        ({"party_bound": 0.0}, "^the bound of a party's gradient must"),
        ({"colluders": -1}, "^the number of colluders must be "),
        ({"dropouts": -1}, "^the number of dropouts must be "),
        ({"fraction_bits": -1}, "fraction_bits"),
        ({"fraction_bits": 53}, "fraction_bits"),
        ({"stop_tolerance": -0.1}, "stopping rule"),
        ({"stop_tolerance": 0.1, "stop_window": 0}, "stopping rule"),
        ({"loss": "softmax"}, "binary loss"),
        ({"loss": "hinge"}, "hinge"),
    ],
)
def test_an_invalid_option_is_named(wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidParameter, match=named):
        DescentOptions(**wrong).check()


@pytest.mark.parametrize(
    "right",
    [
        {"epsilon": 64.0},
        {"steps": 1},
        {"fraction_bits": 0},
        {"fraction_bits": 52},
        {"party_bound": 1e-9},
        {"variant": "footnote-4"},
        {"on_excess": "clip"},
        {"stop_tolerance": 0.1, "stop_window": 1},
    ],
)
def test_options_at_their_limits_are_accepted(right: dict[str, Any]) -> None:
    DescentOptions(**right).check()


@pytest.mark.parametrize(
    ("sizes", "options", "named"),
    [
        ((5,), {}, "at least 2 parties"),
        ((5, 0), {}, "at least one record"),
        ((5, 1), {"epsilon": 0.0}, "epsilon"),
        (SIZES, {"colluders": 3}, "nobody's"),
        (SIZES, {"dropouts": 2}, "nobody's"),
        (SIZES, {"colluders": 2, "variant": "gaussian"}, "nobody's"),
    ],
)
def test_impossible_numbers_of_colluders_are_refused(
    sizes: tuple[int, ...], options: dict[str, Any], named: str
) -> None:
    with pytest.raises(InvalidParameter, match=named):
        agreed(sizes, **options)


def test_the_last_honest_party_is_enough() -> None:
    """Of three parties two may collude or one stay away; with Gaussian shares everybody knows its own besides."""
    assert agreed((5, 1)).descent.records == 6
    assert agreed(colluders=2).series.minimum_ballots == 3
    assert agreed(dropouts=1).series.minimum_ballots == 2
    assert agreed(colluders=1, variant="gaussian", steps=2).series.minimum_ballots == 3


@pytest.mark.parametrize("loss", ["logistic", "huber"])
@pytest.mark.parametrize("bits", [0, 10, 52])
def test_the_sensitivity_of_a_sum_holds_on_the_grid_and_in_floating_point(loss: str, bits: int) -> None:
    """One record moves it by 2 L; snapping and rounding come on top."""
    largest, d = 3_000_000, 5
    rounding = 2 * (2.0**-30 + largest * (largest + 2) * 2.0**-53)
    snapped = math.sqrt(d) * 2.0**-bits
    limit = largest * (1 + 2.0**-30)
    for options, bound, moved in (
        ({}, limit, 2.0),
        ({"party_bound": 2 * limit}, limit, 2.0),
        ({"party_bound": 3.5}, 3.5, 2.0),
    ):
        agreement = agreed((largest, 7), d, loss=loss, fraction_bits=bits, lam=1.0, **options)  # type: ignore[arg-type]
        assert agreement.series.bound == bound
        assert agreement.sensitivity == pytest.approx(moved + snapped + rounding, rel=1e-14, abs=0)
        assert agreement.series.step_scale == rounded_up(math.nextafter(agreement.sensitivity / 0.5, math.inf))


def test_the_fixed_noise_is_shared_among_the_honest() -> None:
    for lam in (0.1, 1e-4):  # the second needs an extra ridge
        agreement = agreed(lam=lam, colluders=1)
        slack = bounds.compute_slack(0.5, lam, 200, 0.25)
        sigma = bounds.sigma_from_density_ratio(4, slack.epsilon, 0.05, sensitivity=2.0)
        assert agreement.series.fixed_sigmas == (rounded_up(sigma / math.sqrt(2)),) * 3
        assert agreement.sigma == math.hypot(*agreement.series.fixed_sigmas)
        assert agreement.slack == rounded_up(slack.ridge)
    assert agreement.slack > 0
    assert agreement.descent.ridge == 1e-4 + agreement.slack


def test_variants_without_fixed_noise_claim_the_transcript_only() -> None:
    for variant, law in (("halving", "spherical-laplace-halving"), ("gaussian", "discrete-gaussian")):
        agreement = agreed(variant=variant, steps=5)
        assert agreement.series.fixed_sigmas == (0.0,) * 3
        assert (agreement.sigma, agreement.slack, agreement.descent.ridge) == (0.0, 0.0, 0.1)
        assert agreement.series.step_law == law
        guarantee = agreement.guarantee
        assert (guarantee.epsilon_final, guarantee.epsilon_step, guarantee.epsilon_transcript) == (None, None, 0.5)
        assert guarantee.epsilon_transcript_pure == (0.5 if variant == "halving" else None)
        assert "no claim of its own" in guarantee.final_is


def test_fields_of_a_guarantee() -> None:
    paper, footnote = agreed().guarantee, agreed(variant="footnote-4").guarantee
    assert (paper.delta, paper.epsilon_final, paper.epsilon_step) == (0.05, 0.5, 0.5)
    assert paper.epsilon_transcript == bounds.pure_composition(0.5, 50, 0.05)
    assert paper.epsilon_transcript_pure == 25.0
    claim = "the paper's claim (Theorem 4.2) for the exact minimiser of the perturbed objective"
    assert paper.final_is == claim
    assert footnote == replace(paper, final_is=f"{claim}; holds of the minimiser for one party's data alone, too"), (
        "its noise is another, its claim the same"
    )
    assert paper.assumed.startswith("the transcript's epsilon: nobody but the party itself")
    clipped = agreed(on_excess="clip", party_bound=5.0)
    assert (clipped.guarantee.epsilon_final, clipped.guarantee.final_is) == (
        None,
        "no claim: a clipped gradient is not that of any objective",
    )
    assert clipped.series.fixed_sigmas == agreed(party_bound=5.0).series.fixed_sigmas
    assert clipped.slack == agreed(party_bound=5.0).slack
    gaussian = agreed((50,) * 6, variant="gaussian", colluders=1, dropouts=2, steps=2).guarantee
    assert gaussian.assumed == "all but 1 colluding and 2 absent parties"
    assert gaussian.delta_samplers == (1 + math.exp(0.5)) * 2.0**-60


@pytest.mark.parametrize("delta", [0.05, 4e-18])
def test_gaussian_shares_of_the_honest_sum_to_the_variance(delta: float) -> None:
    """The samplers take their part of delta, which is most of it where delta is very small."""
    agreement = agreed((50,) * 6, variant="gaussian", colluders=1, dropouts=2, steps=3, fraction_bits=6, delta=delta)
    l2 = agreement.sensitivity * 64
    spared = (1 + math.exp(0.5)) * 2.0**-60
    variance = float(discrete_gaussian_variance(l2, 0.5, delta - spared, 3))
    assert agreement.series.step_scale == rounded_up(math.nextafter(variance / 2, math.inf))


def test_a_delta_below_the_samplers_is_refused() -> None:
    spared = (1 + math.exp(1.0)) * 2.0**-60
    for delta in (spared, spared / 2):
        with pytest.raises(InvalidParameter, match=r"use at least 6\.5e-18"):
            agreed(variant="gaussian", epsilon=1.0, delta=delta, steps=1)


def test_the_descent_has_the_chosen_parameters() -> None:
    agreement = agreed(radius=3.0, first_step=1.5, step_offset=7.0, step_power=0.75, stop_tolerance=0.25, stop_window=9)
    assert (agreement.descent.radius, agreement.descent.records, agreement.descent.smoothness) == (3.0, 200, 0.25)
    assert agreement.descent.step_sizes == StepSizes(1.5, 7.0, 0.75)
    assert agreement.descent.stopping == StoppingRule(0.25, 9)
    plain = agreed()
    ridge = plain.descent.ridge
    assert plain.descent.step_sizes == StepSizes.default(ridge, 0.25)
    assert plain.descent.stopping == StoppingRule(0.0, 50)
    eta = 3 * plain.series.fixed_bound() * plain.series.pitch * 2
    assert plain.descent.radius == pytest.approx((1 + eta / 200) / ridge, rel=1e-14, abs=0)
    assert agreed(loss="huber").descent.smoothness == 1.0
    assert (plain.series.steps, plain.series.dimension, plain.series.fraction_bits) == (50, 4, 20)
    assert plain.series.nonce == bytes(16)
