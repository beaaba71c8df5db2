"""The curator's loop: step sizes, projection, stopping, convergence, and what is promised."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from psephos.curator.hamm.erm import risk
from psephos.curator.hamm.labels import one_hot
from psephos.curator.psgd import bounds as bounds
from psephos.curator.psgd.agreement import Agreement, DescentOptions, agree
from psephos.curator.psgd.curator import GradientCurator, GradientCuratorState
from psephos.curator.psgd.gop import perturbed_minimiser
from psephos.curator.tally import Tally
from psephos.parties.gradients import LocalLoss
from psephos.protocol.encrypted_sum.messages import Ballot, Close, PartialDecryption
from psephos.protocol.encrypted_sum.opened import OpenedSum
from psephos.protocol.encrypted_sum.product import BallotProduct
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.errors import DivergenceError, InvalidParameter, PartyVanishedError
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.vectors import EncryptedVector
from psephos.protocol.privacy.mechanisms import gaussian_delta
from psephos.protocol.psgd.descent import StoppingRule
from psephos.protocol.psgd.series import SeriesTerms
from psephos.protocol.psgd.state import PublishedSum
from psephos.protocol.randomness import SimulationRandomness
from psephos.protocol.roles import BOARD, Entry, Post
from psephos.simulation.key_setup import setup_keys
from psephos.simulation.psgd import clear_descent

OPTIONS = DescentOptions(epsilon=0.5, delta=0.05, lam=0.1, steps=50)


def agreement_for(sizes: tuple[int, ...] = (100, 60, 40), **changes: Any) -> Agreement:
    return agree(replace(OPTIONS, **changes), sizes, 4)


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


@pytest.mark.slow
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
        endpoints = [clear_descent(pooled, agreement, np.random.default_rng(seed), eta=eta) for seed in range(5)]
        distances.append(float(np.mean([np.linalg.norm(w - best) for w in endpoints])))
    assert distances[0] > 2 * distances[1] > 4 * distances[2]


# -- step sizes, projection, stopping


def test_a_diverging_step_size_is_refused_and_would_diverge() -> None:
    limit = 2 / (0.25 + 0.1)
    agreement_for(first_step=0.99 * limit, step_offset=10.0)
    with pytest.raises(DivergenceError, match="diverges"):
        agreement_for(first_step=1.01 * limit, step_offset=10.0)


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


class Walker:
    """A curator that is told things one by one, in a series of two steps under a key of test size."""

    def __init__(self) -> None:
        coins = SimulationRandomness(4, "curator")
        self.ceremony = setup_keys(3, key_bits=256, holders=3, threshold=2, test_key=True, randomness=coins)
        agreement, key = agreement_for(fraction_bits=4, steps=2), self.ceremony.threshold_key
        self.terms = SeriesTerms(agreement.series, agreement.descent, key, self.ceremony.roster, test_key=True)
        self.curator = GradientCurator(self.terms, randomness=SimulationRandomness(5, "nonces"))
        self.number = 0
        self.state = self.curator.start().state
        self.product = BallotProduct(self.round)

    @property
    def walking(self) -> GradientCuratorState:
        return self.curator.result(self.state)  # type: ignore[no-any-return]

    @property
    def round(self) -> Round:
        assert self.walking.progress.announcement is not None
        return self.terms.round(self.walking.progress.announcement)

    def hears(self, sender: str, data: bytes, receiver: str = BOARD) -> tuple[Post, ...]:
        self.number += 1
        step = self.curator.receive(self.state, [Entry(self.number, sender, receiver, data)])
        for refusal in step.refused:
            raise refusal.error
        self.state = step.state
        return step.posts

    def vote(self, vectors: list[list[int]]) -> tuple[Post, ...]:
        """All parties answer, and the curator closes; what it asks the holders."""
        round_, ballots = self.round, list[bytes]()
        for party, values in enumerate(vectors):
            assert not self.curator.is_ready(self.state)
            vector = EncryptedVector.encrypt(Encryptor(round_.key), round_.plan, values)
            ballots.append(Ballot.sign(round_, party, vector, self.ceremony.signing_keys[party]).encode())
            assert self.hears(f"party {party}", ballots[-1]) == ()
        self.product, _ = BallotProduct(round_).add_all(ballots)
        assert self.curator.is_ready(self.state)
        step = self.curator.on_idle(self.state)
        assert step is not None
        self.state = step.state
        assert not self.curator.is_ready(self.state)
        assert step.posts == (Post(BOARD, Close(round_.digest).encode(), "gradients: open"),)
        return self.hears("curator", step.posts[0].data)

    def opens(self, holder: int) -> tuple[Post, ...]:
        values = self.ceremony.shares[holder - 1].partially_decrypt(self.product.vector().ciphertexts)
        part = PartialDecryption(self.round.digest, holder, self.product.digest, values)
        return self.hears(f"holder {holder}", part.encode(self.round), "curator")

    def publishes(self, holder: int, sums: tuple[int, ...]) -> tuple[Post, ...]:
        message = PublishedSum(self.walking.steps + 1, holder, sums)
        return self.hears(f"holder {holder}", message.encode(self.terms))


def test_the_published_sum_counts_and_not_the_curators() -> None:
    walker = Walker()
    walker.vote([[1] * 4, [2] * 4, [3] * 4])
    walker.opens(1)
    walker.opens(2)
    assert walker.curator.on_idle(walker.state) is None, "the sum is open, and only holders can end the step"
    walker.publishes(1, (9,) * 4)
    walker.publishes(3, (9,) * 4)
    assert walker.walking.opened == OpenedSum((9,) * 4, (0, 1, 2))


@pytest.mark.parametrize(("published", "wrong"), [((6,) * 4, (1, 3)), ((9,) * 4, (3,))])
def test_who_sends_a_wrong_partial_decryption_is_named_with_the_published_sum(
    monkeypatch: pytest.MonkeyPatch, published: tuple[int, ...], wrong: tuple[int, ...]
) -> None:
    """Unless the holders have published another sum than the partial decryptions open, which then prove nothing."""
    walker = Walker()
    walker.vote([[1] * 4, [2] * 4, [3] * 4])
    monkeypatch.setattr(Tally, "result", lambda tally, state: OpenedSum((6,) * 4, (0, 1, 2), (1,)))
    walker.publishes(3, (0,) * 4)
    walker.publishes(1, published)
    walker.publishes(2, published)
    assert walker.walking.opened == OpenedSum(published, (0, 1, 2), wrong)


def test_a_step_that_too_few_answer_is_kept() -> None:
    walker = Walker()
    with pytest.raises(PartyVanishedError, match=r"step 1: 0 ballots .* At most 0 of 3 parties"):
        walker.curator.on_idle(walker.state)
    assert walker.vote([[1] * 4] * 3), "with them back, it goes on"


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


@pytest.mark.parametrize("epsilon", [0.1, 5.0, 60.0])
def test_sampler_deltas_follow_lemma_6(epsilon: float) -> None:
    """The deltas of composed steps add, each with its step's own epsilon: e^(transcript) has no place in it."""
    agreement = agreement_for(epsilon=epsilon, steps=10_000)
    series, spared = agreement.series, agreement.guarantee.delta_samplers
    assert agreement.guarantee.epsilon_transcript > 64
    # One truncation of 2^-66 for all steps and parties, and a sampler's 2^-160 for each vector.
    assert spared == pytest.approx(min(1.0, (1 + math.exp(epsilon)) * (2.0**-66 + 10_001 * 3 * 2.0**-160)))
    assert spared <= 1
    assert series.truncation == 2.0**-66


def test_gaussian_noise_is_calibrated_for_all_steps_and_the_honest() -> None:
    agreement = agreement_for(variant="gaussian", colluders=1, sizes=(50,) * 6)
    series = agreement.series
    honest = 6 - 1 - 1
    l2 = (2 + series.pitch * 2) / series.pitch
    sigma = math.sqrt(honest * series.step_scale)
    assert 0.0499 < gaussian_delta(math.sqrt(50) * l2, 0.5, sigma) <= 0.05
    assert not any(series.fixed_sigmas)


def test_clipping_forfeits_the_papers_claim() -> None:
    assert agreement_for(on_excess="clip").guarantee.epsilon_final == 0.5  # nothing is ever above the natural bound
    clipped = agreement_for(on_excess="clip", party_bound=5.0).guarantee
    assert clipped.epsilon_final is None
    assert clipped.epsilon_transcript_pure == 25.0
    assert agreement_for(party_bound=5.0).guarantee.epsilon_final == 0.5
