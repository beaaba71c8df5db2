"""The curator's loop: step sizes, projection, stopping, convergence, and what is promised."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest

from psephos.curator.hamm.erm import risk
from psephos.curator.hamm.labels import one_hot
from psephos.curator.psgd import bounds as bounds
from psephos.curator.psgd.agreement import Agreement, DescentOptions, agree
from psephos.curator.psgd.curator import GradientCurator
from psephos.curator.psgd.gop import perturbed_minimiser
from psephos.parties.gradients import LocalLoss
from psephos.protocol.errors import DivergenceError, InvalidParameter
from psephos.protocol.psgd.descent import StepSizes, StoppingRule
from psephos.protocol.psgd.series import Announcement, Terms
from psephos.protocol.randomness import SimulationRandomness
from psephos.protocol.roles import BOARD
from psephos.simulation.ceremony import hold_ceremony
from psephos.simulation.psgd import clear_descent

OPTIONS = DescentOptions(epsilon=0.5, delta=0.05, lam=0.1, steps=50)


def agreement_for(sizes: tuple[int, ...] = (100, 60, 40), **changes: Any) -> Agreement:
    return agree(replace(OPTIONS, **changes), sizes, 4)


def test_a_series_has_a_nonce_of_its_own_or_the_one_that_was_agreed() -> None:
    given = [agree(OPTIONS, (100, 60, 40), 4, bytes([n]) * 16).series.nonce for n in (0, 1)]
    assert given == [bytes(16), bytes([1]) * 16]
    assert agreement_for().series.nonce != agreement_for().series.nonce


def data(n: int = 200, d: int = 4) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(2)
    X = generator.normal(size=(n, d))
    X /= np.linalg.norm(X, axis=1)[:, None]
    return X, np.where(X[:, 0] + 0.3 * generator.normal(size=n) > 0, 1, -1)


# -- convergence: the paper's own claim


@pytest.mark.parametrize("loss", ["logistic", "huber"])
@pytest.mark.parametrize("lam", [0.01, 0.1, 1.0])
def test_psgd_without_rho_ends_at_the_gop_minimiser(loss: Any, lam: float) -> None:
    """Within 1 % relative objective of the minimiser with the same eta."""
    X, y = data()
    agreement = agreement_for(lam=lam, loss=loss, steps=400)
    targets = one_hot((y > 0).astype(np.int64), 2)
    eta = np.random.default_rng(1).normal(scale=agreement.sigma, size=4)
    ridge, phi = agreement.descent.ridge, replace(OPTIONS, loss=loss).phi
    w = clear_descent(LocalLoss(X, y, loss), agreement, np.random.default_rng(0), eta=eta, step_noise=False)
    best = perturbed_minimiser(X, y, ridge=ridge, eta=eta, loss=phi).w
    least, reached = (risk(X, targets, one, ridge, phi) + float(eta @ one) / len(X) for one in (best, w))
    assert least <= reached + 1e-12
    assert reached - least <= 0.01 * abs(least)


def test_psgd_with_rho_approaches_the_gop_minimiser() -> None:
    """The distance falls with the number of steps, as stochastic approximation promises."""
    X, y = data()
    eta = np.random.default_rng(1).normal(scale=20, size=4)
    best = perturbed_minimiser(X, y, ridge=0.1, eta=eta, loss=OPTIONS.phi).w
    distances = []
    for steps in (20, 400, 8000):
        agreement = agreement_for(steps=steps)
        assert agreement.descent.ridge == 0.1
        pooled = LocalLoss(X, y)
        found = [clear_descent(pooled, agreement, np.random.default_rng(seed), eta=eta) for seed in range(5)]
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
    limit = 2 / (0.25 + 0.1)
    agreement_for(first_step=0.99 * limit, step_offset=10.0)
    with pytest.raises(DivergenceError, match="diverges"):
        agreement_for(first_step=1.01 * limit, step_offset=10.0)


def test_projection() -> None:
    descent = agreement_for(radius=0.5).descent
    there = descent.step(np.zeros(4), np.array([-3e300, -4e300, 0.0, 0.0]), 0)
    assert there == pytest.approx([0.3, 0.4, 0.0, 0.0])
    with pytest.raises(DivergenceError, match="finite after step 8"):
        descent.step(np.zeros(4), np.array([math.nan] * 4), 7)


def test_default_projection_changes_no_minimiser() -> None:
    X, y = data()
    agreement = agreement_for()
    for seed in range(20):
        eta = np.random.default_rng(seed).normal(scale=agreement.sigma, size=4)
        w = perturbed_minimiser(X, y, ridge=agreement.descent.ridge, eta=eta, loss=OPTIONS.phi).w
        assert np.linalg.norm(w) < agreement.descent.radius


def test_stopping_rule() -> None:
    descent = agreement_for(stop_tolerance=0.02, stop_window=3).descent
    points = [np.zeros(4)]
    while not descent.stopping(points):
        # Towards (0.3, 0.3, 0.3, 0.3).
        points.append(descent.step(points[-1], np.full(4, -0.3 * 0.1 * 200), len(points) - 1))
    assert 3 <= len(points) - 1 < 50
    assert descent.stopping(points[-4:]), "the window is all it looks at"
    assert descent.stopping.looks_back == 3
    assert not StoppingRule()([np.zeros(4)] * 99)
    with pytest.raises(InvalidParameter):
        StoppingRule(-1.0)


def test_the_curator_announces_the_origin_first() -> None:
    """And what it announces is the next step of the agreed terms; the rest of its walk is tested on the whole run."""
    coins = SimulationRandomness(4, "curator")
    ceremony = hold_ceremony(3, key_bits=256, holders=3, threshold=2, test_key=True, randomness=coins)
    agreement = agreement_for(fraction_bits=4)
    terms = Terms(agreement.series, agreement.descent, ceremony.threshold_key, ceremony.roster, test_key=True)
    curator = GradientCurator(terms, randomness=coins)
    first = curator.start()
    ((post,), walking) = first.posts, curator.result(first.state)
    announcement = Announcement.decode(post.data, terms)
    assert (post.receiver, announcement.step, announcement.point) == (BOARD, 1, (0.0,) * 4)
    assert (walking.steps, walking.opened, walking.walk.announcement) == (0, None, announcement)


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
    sigmas, ridge = bounds.footnote_four(0.5, 0.05, 0.1, (100, 60, 40), 0.25, 4)
    assert agreement.series.fixed_sigmas == pytest.approx(sigmas, rel=1e-8)
    assert all(rounded >= exact for rounded, exact in zip(agreement.series.fixed_sigmas, sigmas, strict=True))
    assert agreement.descent.ridge == 0.1 + ridge
    assert agreement.sigma > agreement_for().sigma


def test_dropouts_size_the_shares() -> None:
    plain, careful = agreement_for(), agreement_for(colluders=1, dropouts=1)
    assert careful.series.fixed_sigmas[0] == pytest.approx(math.sqrt(3) * plain.series.fixed_sigmas[0])
    assert careful.series.minimum_ballots == 2
    with pytest.raises(InvalidParameter, match="nobody"):
        agreement_for(colluders=2, dropouts=1)


def test_clipping_forfeits_the_papers_claim() -> None:
    assert agreement_for(on_excess="clip").guarantee.epsilon_final == 0.5  # nothing is ever above the natural bound
    clipped = agreement_for(on_excess="clip", party_bound=5.0).guarantee
    assert clipped.epsilon_final is None
    assert clipped.epsilon_transcript_pure == 25.0
    assert agreement_for(party_bound=5.0).guarantee.epsilon_final == 0.5


def test_guarantees_are_finite() -> None:
    for variant in ("paper", "footnote-4", "halving", "gaussian"):
        for value in asdict(agreement_for(variant=variant).guarantee).values():
            assert not isinstance(value, float) or math.isfinite(value)
