"""Attack: the insider who subtracts its own noise (DESIGN section 5, finding 6).

In Pathak's protocol the noise in the published classifier is the vector that the smallest party drew. That party need
not even know that it is the smallest. It takes its own noise off the published sum and looks whether what is left
fits its data: with the right noise gone the loss on its own samples drops. Every party can try.

In the repaired variant everybody adds a share, and what one party takes off leaves all the noise that privacy needs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from psephos.security.model import Context
from psephos.security.pathak_runs import PARTIES, Run, real_runs, records_of


def loss(total: NDArray[np.float64], run: Run, X: NDArray[np.float64], y: NDArray[np.int64]) -> float:
    """Mean logistic loss on one's own samples of the classifier that a sum of parameters gives."""
    w = total * run.terms.pitch / PARTIES
    return float(np.mean(np.logaddexp(0, -(2 * y - 1) * (X @ w))))


def gain(context: Context, run: Run, party: int) -> float:
    """By how much a party's own loss falls when it takes its own noise off; the best of its vectors."""
    X, y = records_of(context, "honest")[party - 1]
    total = np.array(run.total, dtype=float)
    noises = run.contributions[party].noise
    return max(loss(total, run, X, y) - loss(total - np.array(noise, dtype=float), run, X, y) for noise in noises)


def exactly_bare(run: Run, party: int) -> bool:
    """Whether the party's own noise is all the noise there was."""
    bare = [sum(column) for column in zip(*(c.parameters for c in run.contributions.values()), strict=True)]
    noises = run.contributions[party].noise
    return any([t - e for t, e in zip(run.total, noise, strict=True)] == bare for noise in noises)


def attack(runs: int = 30) -> dict[str, dict[int, tuple[float, float]]]:
    """variant -> party -> (share of runs in which it is left with the bare sum, mean gain in its own loss)."""
    found: dict[str, dict[int, tuple[float, float]]] = {}
    for variant in ("printed", "repaired"):
        context = Context(seed=9, views=runs)
        played = real_runs(context, variant)
        found[variant] = {
            party: (
                float(np.mean([exactly_bare(run, party) for run in played])),
                float(np.mean([gain(context, run, party) for run in played])),
            )
            for party in range(1, PARTIES + 1)
        }
    return found


if __name__ == "__main__":
    for variant, parties in attack().items():
        for party, (bare, gained) in parties.items():
            print(
                f"{variant}: party {party} takes its own noise off the published sum: no noise is left in "
                f"{bare:.0%} of the runs; the loss on its samples falls by {gained:.2f}"
            )
