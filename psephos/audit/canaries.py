"""An attack on whole releases with joint noise, and the epsilon that its success shows, whatever the law of the noise.

In every release of one sum, each of m parties holds one of two opposite contents, by a fair coin: rows far outside the
bounds, along an axis of its own, whose vectors are as far apart as one party can move the sum. Whoever sees the noisy
sum, and knows the shares of all parties that the noise does not count on, guesses every coin from one projection. So a
release of m entries has m attacks, as in Steinke, Nasr, Jagielski 2023 ("Privacy auditing with one (1) training run").
Their bound adds delta for each canary; the bound here takes the mean over a release, which adds it once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import count

import numpy as np
from numpy.typing import NDArray

from psephos.parties.statistic import with_share
from psephos.protocol.encrypted_sum.votes import AuxiliarySet
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.randomness import SYSTEM, Randomness
from psephos.results.security import AttackedRelease
from psephos.results.trust import attack_success
from psephos.specs.noisy import NoisySumSpec, StatisticSpec
from psephos.specs.terms import PrivacyTerms, PublicTerms

Array = NDArray[np.float64]

CANARIES = 16
"""Canaries in a release: entries of the sum, and the parties whose shares the noise counts on."""

FEWEST = 8
"""Fewest releases of an attack."""

STEP = 0.02
"""Distance of the values of epsilon that are tested."""


def audited_specs(epsilon: float, delta: float) -> Iterator[tuple[str, NoisySumSpec]]:
    """Yield own-data statistics: noise of the parties, half of whom collude or are absent, and of three key holders."""
    public = PublicTerms(
        auxiliary=AuxiliarySet.of(np.eye(CANARIES)),
        classes=2,
        parties=2 * CANARIES,
        method="own-data",
        agreed={"coordinates": np.eye(CANARIES)},
    )
    adders = {
        "the parties": PrivacyTerms(epsilon=epsilon, colluders=CANARIES - 2, dropouts=1),
        "the key holders": PrivacyTerms(epsilon=epsilon, colluders=1, holders=3),
    }
    for who, terms in adders.items():
        for law, spent in (("discrete Laplace", 0.0), ("discrete Gaussian", delta)):
            yield f"own-data, {law} noise of {who}", StatisticSpec.plan(public, replace(terms, delta=spent))


def attack(
    name: str, spec: NoisySumSpec, releases: int, confidence: float, randomness: Randomness = SYSTEM
) -> AttackedRelease:
    """Attack `releases` sums, each with fresh coins and noise. Raises InvalidParameter for fewer than `FEWEST`."""
    plan = spec.release_plan
    right = guess(spec, releases, randomness)
    return AttackedRelease(
        name,
        plan.dimension,
        plan.epsilon,
        plan.delta,
        lower_bound=shown_epsilon(right, plan.delta, confidence),
        samples=releases,
        confidence=confidence,
        success=float((right > 0).mean()),
        allowed=attack_success(plan.epsilon, plan.delta),
    )


def guess(spec: NoisySumSpec, releases: int, randomness: Randomness = SYSTEM) -> Array:
    """Return how certain each guess is, positive where it is right and negative where it is wrong, float64 (R, m).

    The noise of the first quarter of the releases, whose coins are known, is learned: its mean is subtracted.
    """
    assert spec.shares is not None
    rows = 1e6 * np.eye(CANARIES)
    contents = np.array([[spec.vector(([row] * 9, [label] * 9)) for label in (0, 1)] for row in rows], dtype=np.float64)
    coins = np.array([[randomness.below(2) for _ in rows] for _ in range(releases)])
    held = contents[np.arange(CANARIES), coins]  # (R, m, d)
    sums = np.array(
        [sum(np.array(with_share(own, spec.party_shares, randomness)) for own in one) for one in held.astype(np.int64)],
        dtype=np.float64,
    )
    if spec.noise_from == "holders":
        adders = range(spec.shares.contributors)
        sums += np.array([[spec.noise_of(each, randomness) for each in adders] for _ in sums], dtype=float).sum(axis=1)
    known = _calibrating(releases)
    noise = (sums[:known] - held[:known].sum(axis=1)).mean(axis=0)
    distances = contents[:, 1] - contents[:, 0]
    projections = (sums - noise - contents.mean(axis=1).sum(axis=0)) @ distances.T
    signed: Array = projections * (2 * coins - 1)
    return signed


def _calibrating(releases: int) -> int:
    if releases < FEWEST:
        raise InvalidParameter(f"an attack takes at least {FEWEST} releases, not {releases}")
    return releases // 4


def shown_epsilon(right: Array, delta: float, confidence: float) -> float:
    """Return a lower bound on epsilon from guesses as `guess` returns them, (R, m); the R releases are independent.

    Under (epsilon, delta), a guess that is more certain than a threshold is right with a probability of at most
    e^epsilon times that of being wrong, plus delta. So x = right - e^epsilon wrong - delta, the mean over a release,
    has no positive expectation, however its guesses depend on each other, and the product of 1 + rate x over releases
    exceeds 1/(1 - confidence) with a probability of at most 1 - confidence (Markov). The first quarter of the releases
    chooses threshold and rate. Values of epsilon are tested in ascending order up to the first that is not excluded, so
    that no correction for their number is needed.
    """
    known = _calibrating(len(right))
    thresholds = np.unique([0.0, *np.quantile(np.abs(right[:known]), np.linspace(0.03, 0.99, 33))])
    hits, misses = ((sign * right[:, :, None] > thresholds).mean(axis=1) for sign in (1, -1))  # (R, thresholds)
    for step in count():
        odds = math.exp(step * STEP)
        x = hits - odds * misses - delta
        mean, square = x[:known].mean(axis=0), (x[:known] ** 2).mean(axis=0)
        rates = np.clip(mean / np.maximum(square, 1e-12), 0, 0.9 / (odds + delta))
        best = int(np.argmax(np.log1p(rates * x[:known]).sum(axis=0)))
        if np.log1p(rates[best] * x[known:, best]).sum() < -math.log(1 - confidence):
            break
    return round(max(0, step - 1) * STEP, 2)
