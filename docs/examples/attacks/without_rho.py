"""Attack: PSGD without the fresh noise rho (Rajkumar 2012, section 3.2; DESIGN section 5, finding 9).

With the fixed noise eta alone two sums at two points differ by the difference of two clean gradients: eta cancels. The
curator who knows all records but one (the attacker of differential privacy) subtracts what it knows and reads from the
difference which of two records the last one is. With rho in every step it is left to guess.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from psephos.curator.losses import Logistic
from psephos.curator.psgd.curator import agree
from psephos.parties.gradients import gradient_sum, margin_slope
from psephos.parties.psgd import GradientParty
from psephos.protocol.randomness import SimulationRandomness
from psephos.protocol.signing import SigningKey
from tests.security.lab.editing import edited

WITHOUT_RHO = (GradientParty, "vector", "[u + e + r for", "[u + e for")
PARTIES, RECORDS = 3, 20
SLOPE = margin_slope("logistic")
POINTS = (np.array([0.0, 0.0]), np.array([0.8, -0.3]))

Array = NDArray[np.float64]


def right_guesses(runs: int) -> float:
    """How often the curator tells which of two records the last one of party 0 is."""
    generator = np.random.default_rng(12)
    X = generator.normal(size=(PARTIES, RECORDS, 2))
    X /= np.linalg.norm(X, axis=2, keepdims=True) * (1 + 1e-9)
    y = np.where(X[:, :, 0] > 0, 1.0, -1.0)
    candidates = [np.array([0.6, 0.79]), np.array([-0.79, 0.6])]
    agreement = agree(
        epsilon=1.0, delta=1e-5, lam=0.1, sizes=[RECORDS] * PARTIES, dimension=2, steps=2, loss=Logistic()
    )
    series, right = agreement.series, 0
    for run in range(runs):
        truth = run % 2
        sums = [np.zeros(2), np.zeros(2)]
        for party in range(PARTIES):
            own = X[party].copy()
            if party == 0:
                own[-1] = candidates[truth]
            coins = SimulationRandomness(run, "rho", party)
            member = GradientParty(party, SigningKey(bytes(32)), own, y[party], series=series, randomness=coins)
            for step, point in enumerate(POINTS, start=1):
                sums[step - 1] += np.array(member.vector(step, tuple(point.tolist())), dtype=float) * series.pitch
        seen = sums[1] - sums[0]
        known = sum(_difference(X[p][: RECORDS - (p == 0)], y[p][: RECORDS - (p == 0)]) for p in range(PARTIES))
        guesses = [float(np.linalg.norm(seen - known - _difference(c[None], y[0, -1:]))) for c in candidates]
        right += int(np.argmin(guesses)) == truth
    return right / runs


def _difference(X: Array, y: Array) -> Array:
    """The clean difference of gradients at the two points."""
    return gradient_sum(X, y, POINTS[1], SLOPE) - gradient_sum(X, y, POINTS[0], SLOPE)


def attack(runs: int = 200) -> tuple[float, float]:
    """The share of right guesses without rho, and with it (0.5 is guessing)."""
    with edited(*WITHOUT_RHO):
        without = right_guesses(runs)
    return without, right_guesses(runs)


if __name__ == "__main__":
    bare, protected = attack()
    print(f"without rho: {bare:.0%} right; with rho: {protected:.0%} right (guessing: 50%)")
