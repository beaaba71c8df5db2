"""Attack: the insider who subtracts its own noise (docs/security/index.md, finding 6).

In Pathak's protocol the noise in the published classifier is the vector that the smallest party drew. That party need
not even know that it is the smallest. It takes its own noise off the published sum and looks whether what is left
fits its data: with the right noise gone the loss on its own samples drops. Every party can try.

In the repaired variant everybody adds a share, and what one party takes off leaves all the noise that privacy needs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from psephos.protocol.pathak.terms import Variant
from psephos.simulation.pathak import PathakKeys, PathakRun, make_terms, run_protocol

SIZES = (24, 30, 16, 28)
Records = tuple[NDArray[np.float64], NDArray[np.int64]]


def records(seed: int) -> list[Records]:
    """Every party's samples: rows in the unit ball, labelled along a direction of its own."""
    generator, found = np.random.default_rng(seed), []
    for turn, size in enumerate(SIZES):
        X = generator.normal(size=(size, 2))
        X /= np.linalg.norm(X, axis=1).max() * (1 + 1e-9)
        found.append((X, (X @ np.array([np.cos(turn), np.sin(turn)]) > 0).astype(np.int64)))
    return found


def loss(total: NDArray[np.float64], run: PathakRun, X: NDArray[np.float64], y: NDArray[np.int64]) -> float:
    """Mean logistic loss on one's own samples of the classifier that a sum of parameters gives."""
    w = total * run.terms.pitch / len(SIZES)
    return float(np.mean(np.logaddexp(0, -(2 * y - 1) * (X @ w))))


def gain(run: PathakRun, party: int, X: NDArray[np.float64], y: NDArray[np.int64]) -> float:
    """By how much a party's own loss falls when it takes its own noise off; the best of its vectors."""
    total = np.array(run.total, dtype=float)
    noises = [np.array(noise, dtype=float) for noise in run.contributions[f"party {party}"].noise]
    return max(loss(total, run, X, y) - loss(total - noise, run, X, y) for noise in noises)


def exactly_bare(run: PathakRun, party: int) -> bool:
    """Whether the party's own noise is all the noise there was."""
    bare = [sum(column) for column in zip(*(c.parameters for c in run.contributions.values()), strict=True)]
    noises = run.contributions[f"party {party}"].noise
    return any([t - e for t, e in zip(run.total, noise, strict=True)] == bare for noise in noises)


def attack(runs: int = 30) -> dict[str, dict[int, tuple[float, float]]]:
    """variant -> party -> (share of runs in which it is left with the bare sum, mean gain in its own loss)."""
    found: dict[str, dict[int, tuple[float, float]]] = {}
    keys = PathakKeys.generate(512, test_key=True)
    variants: tuple[Variant, ...] = ("printed", "repaired")
    for variant in variants:
        agreed = {"parties": 4, "features": 2, "lam": 0.1, "epsilon": 1.0, "tolerance": 1e-6}
        terms = [make_terms(**agreed, variant=variant, smallest_size=16, largest_size=32) for _ in range(runs)]
        played = [
            (run_protocol(records(seed), term, keys, test_key=True, noise_seed=seed), records(seed))
            for seed, term in enumerate(terms)
        ]
        found[variant] = {
            party: (
                float(np.mean([exactly_bare(run, party) for run, _ in played])),
                float(np.mean([gain(run, party, *held[party]) for run, held in played])),
            )
            for party in range(len(SIZES))
        }
    return found


if __name__ == "__main__":
    for variant, parties in attack().items():
        for party, (bare, gained) in parties.items():
            print(
                f"{variant}: party {party} takes its own noise off the published sum: no noise is left in "
                f"{bare:.0%} of the runs; the loss on its samples falls by {gained:.2f}"
            )
