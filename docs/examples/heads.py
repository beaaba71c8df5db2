"""A private mean of heads that five sites trained themselves, in place of local noise.

Each site fits scikit-learn's logistic regression to its own rows of the breast-cancer table. What is averaged are 31
parameters, so the last layer of a network would do as well. They are clipped to a public radius, and the mean is
private for every site. Printed are the noise, beside what each site would add alone; the cost of one encrypted sum;
and how far a site can move the mean.

    python docs/examples/heads.py
"""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from psephos import setup_keys
from psephos.protocol.encrypted_sum.votes import AuxiliarySet
from psephos.protocol.grids.directions import FIXED_POINT
from psephos.protocol.privacy.mechanisms import gaussian_sigma
from psephos.simulation.encrypted_sum import PartyFactory, simulate_sum
from psephos.specs.base import Participants
from psephos.specs.head import HeadSpec
from psephos.specs.terms import PrivacyTerms, PublicTerms

SITES, HOLDERS, RADIUS, DELTA = 5, 3, 1.0, 1e-6
UNIT = 2**FIXED_POINT.fraction_bits

X, y = load_breast_cancer(return_X_y=True)
scaler = StandardScaler().fit(X[:69])  # 69 public rows
X = np.column_stack([scaler.transform(X), np.ones(len(X))])
heads = [
    LogisticRegression(C=0.1, fit_intercept=False).fit(X[rows], y[rows]).coef_[0]
    for rows in np.array_split(np.arange(69, 369), SITES)
]
classifiers = [SimpleNamespace(parameters=head) for head in heads]
public = PublicTerms(auxiliary=AuxiliarySet(X[:69]), classes=2, parties=SITES, agreed={"radius": RADIUS})


def spec_of(epsilon: float, source: str) -> HeadSpec:
    """Return the plan in which one of the sites, or of the key holders, may tell the others its noise."""
    holders = HOLDERS if source == "holders" else 0
    return HeadSpec.plan(public, PrivacyTerms(epsilon=epsilon, delta=DELTA, colluders=1, holders=holders))


def accuracy(mean: np.ndarray, deviation: float) -> float:
    """Return the accuracy on 200 other rows, on average over 500 draws of noise of this standard deviation."""
    noise = np.random.default_rng(0).normal(0, deviation, (500, len(mean)))
    return float(np.mean((X[369:] @ (mean + noise).T > 0) == (y[369:, None] == 1)))


def summed(spec: HeadSpec, *heads: np.ndarray) -> np.ndarray:
    """Return the mean of heads as the sites send them, without noise."""
    return np.mean([spec.grid.contribution(head) for head in heads], axis=0) * RADIUS / UNIT


def main() -> None:
    """Print the noise, one sum, and what one site can do."""
    mean = summed(spec_of(1.0, "parties"), *heads)
    print(f"norms of the heads: {', '.join(f'{np.linalg.norm(head):.2f}' for head in heads)}; radius {RADIUS:g}")
    usual = np.bincount(y[369:]).max() / len(y[369:])
    print(f"accuracy without noise {accuracy(mean, 0.0):.3f}, of the most frequent class {usual:.3f}\n")
    print("standard deviation of the noise in an entry of the mean, and accuracy")
    print("epsilon  each site alone  the sites together  the key holders together")
    for epsilon in (1.0, 4.0, 16.0):
        alone = gaussian_sigma(2 * RADIUS, epsilon, DELTA) / math.sqrt(SITES)
        plans = (spec_of(epsilon, source).counting(SITES) for source in ("parties", "holders"))
        deviations = [alone, *(math.sqrt(plan.noise_variance) * RADIUS / UNIT / SITES for plan in plans)]
        right = [accuracy(mean, each) for each in deviations]
        cells = [f"{each:9.3f} ({share:.3f})" for each, share in zip(deviations, right, strict=True)]
        note = "  all worse than the most frequent class" if max(right) < usual else ""
        print(f"{epsilon:7g}  {'  '.join(cells)}{note}")

    keys = setup_keys(SITES, holders=HOLDERS, threshold=2)
    print("\none sum under 3072 bits at epsilon 16, and how far one site moves the mean")
    for source in ("parties", "holders"):
        spec = spec_of(16.0, source)
        for proofs in ("knowledge", "valid"):
            round_ = spec.terms(keys.threshold_key, Participants(keys.roster, SITES, proofs=proofs))
            result = simulate_sum(round_, keys, PartyFactory(spec, classifiers))
            print(
                f"noise of the {source}, proofs {proofs}: {result.ballot_bytes / 1000:.1f} kB and "
                f"{result.seconds['encrypt'] / SITES:.2f} s a site, {sum(result.seconds.values()):.2f} s in all"
            )
        scaled = np.linalg.norm(summed(spec, 1000 * heads[0], *heads[1:]) - mean)
        proved = (spec.norm_bound + UNIT) / UNIT * RADIUS / SITES
        print(
            f"  a head times 1,000: {scaled:.2f}; a site that does not clip, with a valid proof: at most {proved:.2f}"
        )
        if spec.holder_shares is not None:
            added = spec.holder_shares.norm_bound / UNIT * RADIUS / SITES
            print(f"  if it holds a key and chooses its noise: at most {proved + added:.2f}")


if __name__ == "__main__":
    main()
