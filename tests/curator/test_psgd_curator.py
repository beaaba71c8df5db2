"""The curator's loop: step sizes, projection, stopping, convergence, and what is promised."""

from __future__ import annotations

import math

import numpy as np
import pytest

from psephos.curator.hamm.labels import one_hot
from psephos.curator.losses import Huber, Logistic, Loss
from psephos.curator.old_tally import OpenedSum
from psephos.curator.psgd import bounds as bounds
from psephos.curator.psgd.curator import Agreement, Curator, StepSizes, StoppingRule, agree, into_ball
from psephos.curator.psgd.gop import perturbed_minimiser, perturbed_risk
from psephos.protocol.errors import DivergenceError, InvalidParameter, WrongRoundError
from psephos.simulate.psgd import clear_descent


def agreement_for(**changes: object) -> Agreement:
    options = {
        "epsilon": 0.5,
        "delta": 0.05,
        "lam": 0.1,
        "sizes": (100, 60, 40),
        "dimension": 4,
        "steps": 50,
        "loss": Logistic(),
        **changes,
    }
    return agree(**options)


def data(n: int = 200, d: int = 4) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(2)
    X = generator.normal(size=(n, d))
    X /= np.linalg.norm(X, axis=1)[:, None]
    return X, np.where(X[:, 0] + 0.3 * generator.normal(size=n) > 0, 1, -1)


# -- convergence: the paper's own claim


@pytest.mark.parametrize("loss", [Logistic(), Huber(0.5)])
@pytest.mark.parametrize("lam", [0.01, 0.1, 1.0])
def test_psgd_without_rho_ends_at_the_gop_minimiser(loss: Loss, lam: float) -> None:
    """Within 1 % relative objective of the minimiser with the same eta."""
    X, y = data()
    agreement = agreement_for(lam=lam, loss=loss, steps=400)
    targets = one_hot((y > 0).astype(np.int64), 2)
    eta = np.random.default_rng(1).normal(scale=agreement.sigma, size=4)
    w = clear_descent(X, y, agreement, loss=loss, generator=np.random.default_rng(0), eta=eta, step_noise=False)
    best, _ = perturbed_minimiser(X, y, ridge=agreement.ridge, eta=eta, loss=loss)
    least = perturbed_risk(X, targets, best, agreement.ridge, eta, loss)
    reached = perturbed_risk(X, targets, w, agreement.ridge, eta, loss)
    assert least <= reached + 1e-12
    assert reached - least <= 0.01 * abs(least)


def test_psgd_with_rho_approaches_the_gop_minimiser() -> None:
    """The distance falls with the number of steps, as stochastic approximation promises."""
    X, y = data()
    eta = np.random.default_rng(1).normal(scale=20, size=4)
    best, _ = perturbed_minimiser(X, y, ridge=0.1, eta=eta, loss=Logistic())
    distances = []
    for steps in (20, 400, 8000):
        agreement = agreement_for(steps=steps)
        assert agreement.ridge == 0.1
        found = [
            clear_descent(X, y, agreement, loss=Logistic(), generator=np.random.default_rng(seed), eta=eta)
            for seed in range(5)
        ]
        distances.append(float(np.mean([np.linalg.norm(w - best) for w in found])))
    assert distances[0] > 2 * distances[1] > 4 * distances[2]


# -- step sizes, projection, stopping


def test_default_step_sizes_are_sound() -> None:
    z = StepSizes.default(0.01, 0.25)
    assert z(0) == pytest.approx(1 / 0.26)
    assert z(10**6) * 10**6 == pytest.approx(2 / 0.01, rel=0.01)


@pytest.mark.parametrize("power", [0.5, 0.2, 1.01, 0.0, math.nan])
def test_powers_that_do_not_converge(power: float) -> None:
    with pytest.raises(InvalidParameter, match="power"):
        StepSizes(1.0, 1.0, power)


def test_a_diverging_step_size_is_refused_and_would_diverge() -> None:
    agreement = agreement_for()
    limit = 2 / (0.25 + agreement.ridge)
    Curator(agreement, loss=Logistic(), step_sizes=StepSizes(0.99 * limit, 10))
    with pytest.raises(DivergenceError, match="diverges"):
        Curator(agreement, loss=Logistic(), step_sizes=StepSizes(1.01 * limit, 10))


def test_projection() -> None:
    assert into_ball(np.array([3.0, 4.0]), 1.0) == pytest.approx([0.6, 0.8])
    curator = Curator(agreement_for(), loss=Logistic(), radius=0.5)
    curator.advance(OpenedSum([10**12] * 4, (0, 1, 2)))
    assert np.linalg.norm(curator.w) == pytest.approx(0.5)


def test_default_projection_changes_no_minimiser() -> None:
    X, y = data()
    agreement = agreement_for()
    radius = Curator(agreement, loss=Logistic()).radius
    for seed in range(20):
        eta = np.random.default_rng(seed).normal(scale=agreement.sigma, size=4)
        w, _ = perturbed_minimiser(X, y, ridge=agreement.ridge, eta=eta, loss=Logistic())
        assert np.linalg.norm(w) < radius


def test_stopping_rule() -> None:
    curator = Curator(agreement_for(), loss=Logistic(), stopping=StoppingRule(0.02, window=3))
    steps = 0
    while not curator.finished():
        curator.advance_by(np.full(4, -0.3 * 0.1 * 200))  # descends to (0.3, 0.3, 0.3, 0.3)
        steps += 1
    assert 3 <= steps < 50
    never = Curator(agreement_for(), loss=Logistic())
    for _ in range(50):
        assert not never.finished()
        never.advance_by(np.zeros(4))
    assert never.finished()


def test_resume_refuses_a_foreign_announcement() -> None:
    curator = Curator(agreement_for(), loss=Logistic())
    announcement = curator.announce()
    curator.resume(announcement)
    curator.advance_by(np.ones(4))
    with pytest.raises(WrongRoundError):
        curator.resume(announcement)


# -- what is promised


def test_the_papers_guarantee() -> None:
    agreement = agreement_for()
    slack = bounds.compute_slack(0.5, 0.1, 200, 0.25)
    assert agreement.sigma == pytest.approx(bounds.sigma_from_density_ratio(4, slack.epsilon, 0.05))
    assert math.sqrt(sum(s * s for s in agreement.series.fixed_sigmas)) == pytest.approx(agreement.sigma)
    assert agreement.series.step_scale >= 2 / 0.5
    guarantee = agreement.guarantee
    assert (guarantee.epsilon_final, guarantee.epsilon_step, guarantee.epsilon_transcript_pure) == (0.5, 0.5, 25.0)
    assert guarantee.epsilon_transcript == pytest.approx(bounds.pure_composition(0.5, 50, 0.05))
    assert 0.5 < guarantee.epsilon_transcript < 25
    assert "exact minimiser" in guarantee.final_is


def test_every_step_costs() -> None:
    spent = [agreement_for(steps=t).guarantee.epsilon_transcript for t in (1, 10, 100, 1000)]
    assert spent == sorted(spent)
    assert spent[3] > 20 * spent[0]


@pytest.mark.parametrize("epsilon", [0.1, 5.0, 60.0])
def test_samplers_cost_what_lemma_6_says_of_each_step(epsilon: float) -> None:
    """The deltas of composed steps add, each with its step's own epsilon: e^(transcript) has no place in it."""
    agreement = agreement_for(epsilon=epsilon, steps=10_000)
    series, spared = agreement.series, agreement.guarantee.delta_samplers
    assert agreement.guarantee.epsilon_transcript > 64
    # One truncation of 2^-66 for all steps and parties, and a sampler's 2^-160 for each vector.
    assert spared == pytest.approx(min(1.0, (1 + math.exp(epsilon)) * (2.0**-66 + 10_001 * 3 * 2.0**-160)))
    assert spared <= 1
    assert series.truncation == 2.0**-66


def test_transcript_variants_hold_for_the_transcript() -> None:
    for variant in ("halving", "gaussian"):
        guarantee = agreement_for(variant=variant, steps=20).guarantee
        assert guarantee.epsilon_final is None
        assert guarantee.epsilon_transcript == 0.5


def test_gaussian_noise_is_calibrated_for_all_steps_and_the_honest() -> None:
    agreement = agreement_for(variant="gaussian", colluders=1, sizes=(50,) * 6)
    series = agreement.series
    honest = 6 - 1 - 1
    l2 = (2 + series.pitch * 2) / series.pitch
    reached = bounds.skellam_epsilon(honest * series.step_scale, 2 * l2, l2, 50, 0.05)
    assert 0.4999 < reached <= 0.5
    assert not any(series.fixed_sigmas)


def test_party_level_costs_more() -> None:
    record, party = agreement_for(), agreement_for(unit="party")
    assert party.guarantee.unit == "party"
    assert party.series.step_scale == pytest.approx(100 * record.series.step_scale, rel=1e-5)
    assert party.sigma > 90 * record.sigma
    small = agreement_for(unit="party", party_bound=5.0)
    assert small.series.bound == 5.0
    assert small.series.step_scale < 0.06 * party.series.step_scale


def test_footnote_four() -> None:
    agreement = agreement_for(variant="footnote-4")
    own = bounds.footnote_four(0.5, 0.05, 0.1, (100, 60, 40), 0.25, 4)
    assert agreement.series.fixed_sigmas == own.sigmas
    assert agreement.sigma > agreement_for().sigma


def test_dropouts_size_the_shares() -> None:
    plain, careful = agreement_for(), agreement_for(colluders=1, dropouts=1)
    assert careful.series.fixed_sigmas[0] == pytest.approx(math.sqrt(3) * plain.series.fixed_sigmas[0])
    assert careful.series.minimum_ballots == 2
    with pytest.raises(InvalidParameter, match="nobody"):
        agreement_for(colluders=2, dropouts=1)


def test_clipping_forfeits_the_papers_claim() -> None:
    assert agreement_for(clip=True).guarantee.epsilon_final == 0.5  # nothing is ever above the natural bound
    clipped = agreement_for(clip=True, party_bound=5.0).guarantee
    assert clipped.epsilon_final is None
    assert clipped.epsilon_transcript_pure == 25.0
    assert agreement_for(party_bound=5.0).guarantee.epsilon_final == 0.5


def test_report_is_finite() -> None:
    for variant in ("paper", "footnote-4", "halving", "gaussian"):
        for value in agreement_for(variant=variant).guarantee.as_json().values():
            assert not isinstance(value, float) or math.isfinite(value)
