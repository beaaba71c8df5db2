"""Attack: PSGD without the fresh noise rho (docs/security/index.md, finding 9).

With the fixed noise eta alone two sums at two points differ by the difference of two clean gradients: eta cancels. The
curator who knows all records but one (the attacker of differential privacy) subtracts what it knows and reads from the
difference which of two records the last one is. With rho in every step it is left to guess.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from psephos.curator.psgd.agreement import DescentOptions, agree
from psephos.parties.gradients import LocalLoss
from psephos.parties.psgd import GradientParty
from psephos.protocol.psgd.series import Announcement, SeriesTerms
from psephos.protocol.randomness import SimulationRandomness
from psephos.simulation.key_setup import setup_keys

PARTIES, RECORDS = 3, 20
POINTS = (np.array([0.0, 0.0]), np.array([0.8, -0.3]))

Array = NDArray[np.float64]


def right_guesses(runs: int, *, rho: bool) -> float:
    """How often the curator tells which of two records the last one of party 0 is."""
    generator = np.random.default_rng(12)
    X = generator.normal(size=(PARTIES, RECORDS, 2))
    X /= np.linalg.norm(X, axis=2, keepdims=True) * (1 + 1e-9)
    y = np.where(X[:, :, 0] > 0, 1.0, -1.0)
    candidates = [np.array([0.6, 0.79]), np.array([-0.79, 0.6])]
    ceremony = setup_keys(PARTIES, key_bits=256, holders=3, threshold=2, test_key=True)
    options = DescentOptions(epsilon=1.0, delta=1e-5, lam=0.1, steps=2)
    agreement = agree(options, [RECORDS] * PARTIES, dimension=2)
    series = agreement.series
    if not rho:
        series = replace(series, step_law="none", step_scale=0.0)
    terms, right = SeriesTerms(series, agreement.descent, ceremony.threshold_key, ceremony.roster, test_key=True), 0
    asked = [Announcement.create(terms, step, tuple(point.tolist())) for step, point in enumerate(POINTS, start=1)]
    for run in range(runs):
        truth = run % 2
        sums = [np.zeros(2), np.zeros(2)]
        for party in range(PARTIES):
            own = X[party].copy()
            if party == 0:
                own[-1] = candidates[truth]
            noise = partial(SimulationRandomness, run, "rho", party)
            member = GradientParty(party, ceremony.signing_keys[party], LocalLoss(own, y[party]), terms, noise=noise)
            state = member._start().state
            for place, announcement in enumerate(asked):
                vector, _ = member.vector(state, announcement)
                sums[place] += np.array(vector, dtype=float) * series.pitch
        seen = sums[1] - sums[0]
        known = sum(_difference(X[p][: RECORDS - (p == 0)], y[p][: RECORDS - (p == 0)]) for p in range(PARTIES))
        guesses = [float(np.linalg.norm(seen - known - _difference(c[None], y[0, -1:]))) for c in candidates]
        right += int(np.argmin(guesses)) == truth
    return right / runs


def _difference(X: Array, y: Array) -> Array:
    """The clean difference of gradients at the two points."""
    own = LocalLoss(X, y)
    return own.gradient(POINTS[1]) - own.gradient(POINTS[0])


def attack(runs: int = 200) -> tuple[float, float]:
    """The share of right guesses without rho, and with it (0.5 is guessing)."""
    return right_guesses(runs, rho=False), right_guesses(runs, rho=True)


if __name__ == "__main__":
    bare, protected = attack()
    print(f"without rho: {bare:.0%} right; with rho: {protected:.0%} right (guessing: 50%)")
