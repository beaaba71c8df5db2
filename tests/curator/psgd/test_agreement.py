"""What is agreed on before the first step: the options' defaults and limits, and the numbers that follow, exactly."""

from __future__ import annotations

import math
from typing import Any

import pytest

from psephos.curator.psgd import bounds
from psephos.curator.psgd.agreement import Agreement, DescentOptions, agree
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.privacy.mechanisms import discrete_gaussian_variance
from psephos.protocol.privacy.precision import rounded_up

SIZES = (100, 60, 40)


def agreed(sizes: tuple[int, ...] = SIZES, dimension: int = 4, **changes: Any) -> Agreement:
    options = DescentOptions(**{"epsilon": 0.5, "delta": 0.05, "steps": 50, **changes})
    return agree(options, sizes, dimension, bytes(16))


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


WRONG: list[dict[str, Any]] = [
    *({"epsilon": value} for value in (0.0, 64.1)),
    *({"delta": value} for value in (0.0, 1.0)),
    *({"steps": value} for value in (0, 1.5)),
    *({"fraction_bits": value} for value in (-1, 53)),
    *({"loss": value} for value in ("softmax", "hinge")),
    *({name: -1} for name in ("colluders", "dropouts", "stop_tolerance")),
    {"stop_tolerance": 0.1, "stop_window": 0},
    *({name: 0.0} for name in ("lam", "party_bound")),
    {"variant": "papers"},
    {"on_excess": "ignore"},
]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_an_invalid_option_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        DescentOptions(**wrong).check()


@pytest.mark.parametrize("sizes", [(5,), (5, 0)])
def test_a_descent_needs_two_parties_with_records(sizes: tuple[int, ...]) -> None:
    with pytest.raises(InvalidParameter):
        agreed(sizes)


@pytest.mark.parametrize("options", [{"colluders": 3}, {"dropouts": 2}, {"colluders": 2, "variant": "gaussian"}])
def test_colluders_and_dropouts_leave_an_honest_party(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        agreed(SIZES, **options)
