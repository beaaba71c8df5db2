"""How much of a release is signal: post-processing of the noisy release, the public plan and the public rows.

Nothing else is used: no votes, no private rows, no accuracies. A release is T = S + noise, where S is what the parties'
data say and the noise has a known law. Three numbers are estimated (docs/theory.md, "How much of a release is signal"):

* `share` of ||T||^2 that is signal, max(0, 1 - E||noise||^2/||T||^2).
* `agreement`: the expected share of the public rows to which the released classifier and that of S, which has no noise,
  give the same class.
* `usual`: the largest expected share, over the classes, of the public rows to which the classifier of S gives that
  class. It is what a classifier achieves that always gives the class that this release names as the most frequent.

The expectations are over S given T. S is taken to be Gaussian with mean 0, with the energy ||T||^2 - E||noise||^2
(itself known only up to the standard deviation of ||T||^2), spread over the coordinates as the caller says; the noise
is taken to be Gaussian with its true variance. Let the labels of the classifier without noise be true: the released one
is right on `agreement` of the rows, and the one that always says the most frequent class on `usual` of them. A release
is `useless` when agreement - usual < `REACH` (1 - usual), or when ||T||^2 is less than `EVIDENCE` standard deviations
of ||noise||^2 above E||noise||^2. Both numbers were chosen on simulated tables; the error rates are in docs/theory.md.

**Limit.** Whether the classifier without noise is right, and which class the parties' rows most often have, cannot be
known from public rows and a noisy release: a release that is not called useless may still be worth nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from psephos.protocol.encrypted_sum.own_data import contrast_basis
from psephos.protocol.privacy.mechanisms import DiscreteLaplace, Mechanism, RoundedGaussian, Skellam, SphericalLaplace

__all__ = ["EVIDENCE", "REACH", "Energy", "Signal", "noise_energy", "signal_of"]

Array = NDArray[np.float64]

REACH = 0.2
"""What part of the way from `usual` to 1 the agreement must have gone."""

EVIDENCE = 1.0
"""By how many standard deviations of the noise's energy the release's energy must pass its mean."""

_DRAWS = 100
_ROWS = 500
_LEAST = 1e-12


@dataclass(frozen=True)
class Signal:
    """What can be said of one release from itself and public values: estimates, none of them private.

    Attributes:
        share: of the release's squared length, the part that is not noise; 0 to 1.
        share_std: standard deviation of `share`, from the noise; 1 where it is larger.
        agreement: expected share of public rows to which this classifier and that without noise give the same class.
        usual: expected share of public rows to which the classifier without noise gives the most frequent class.
        useless: whether this classifier is not expected to beat the one that always says the most frequent class.
    """

    share: float
    share_std: float
    agreement: float
    usual: float
    useless: bool


@dataclass(frozen=True)
class Energy:
    """Mean and variance of the squared length of the noise, and the number of entries that it has."""

    mean: float
    variance: float
    dimension: int


def noise_energy(mechanism: Mechanism, unit: float = 1.0, shares: float = 1.0) -> Energy:
    """The energy of a mechanism's noise.

    Args:
        mechanism: whose law it is.
        unit: what the noise is multiplied by.
        shares: of joint noise, how many parties added a share for each share that the law is made of.

    Raises TypeError for a mechanism of another kind.
    """
    count = mechanism.dimension
    if isinstance(mechanism, SphericalLaplace):
        square = (mechanism.scale * unit) ** 2
        fourth = count * (count + 1) * (4 * count + 6)  # of a Gamma(D, 1) norm: E r^4 - (E r^2)^2
        return Energy(count * (count + 1) * square, fourth * square**2, count)
    if isinstance(mechanism, DiscreteLaplace):
        each, excess = 2 * (float(mechanism.scale_units) * mechanism.pitch * unit) ** 2 * shares, 3 / shares
    elif isinstance(mechanism, Skellam):
        each, excess = float(mechanism.variance) * (mechanism.pitch * unit) ** 2 * shares, 0.0
    elif isinstance(mechanism, RoundedGaussian):
        each, excess = (mechanism.sigma * unit) ** 2, 0.0
    else:
        raise TypeError(f"the energy of {type(mechanism).__name__} noise is not known")
    return Energy(count * each, count * (2 + excess) * each**2, count)


def signal_of(T: Array, Z: Array, labels: NDArray[np.integer], noise: Energy, *, falling: bool) -> Signal:
    """Estimate how much of a release is signal.

    Args:
        T: float64 (K, r), the noisy release as scores of the classes, summing to 0 over the classes.
        Z: float64 (N, r), the public rows in the coordinates of T.
        labels: (N,), the classes that the released classifier, whatever was learned from T, gives to them.
        noise: of T.
        falling: whether the signal's energy falls with the coordinates' number like 1/j, as `wiener_filter` has it;
            else it is spread evenly.

    The random draws inside have a fixed seed, so that everybody who computes this finds the same.
    """
    kept = np.linspace(0, len(Z) - 1, min(len(Z), _ROWS)).astype(int)
    Z, labels, basis = Z[kept], labels[kept], contrast_basis(len(T))
    seen, length = basis @ T, float(np.sum(T**2))
    if length == 0.0:
        return Signal(0.0, 0.0, 0.0, 1.0, useless=True)
    each, energy = noise.mean / noise.dimension, length - noise.mean
    # Odd moments of the noise vanish, so that the two parts of ||S + noise||^2 are uncorrelated.
    deviation = math.sqrt(noise.variance + 4 * max(energy, 0.0) * each)
    generator = np.random.default_rng(0)
    weights = 1 / np.arange(1, T.shape[1] + 1) if falling else np.ones(T.shape[1])
    weights /= weights.sum() * len(seen)
    same, usual = [], []
    for _ in range(_DRAWS):
        prior = weights * max(energy + deviation * generator.normal(), _LEAST * length)
        share = prior / (prior + each)
        drawn = share * seen + np.sqrt(share * each) * generator.normal(size=seen.shape)
        said = (Z @ drawn.T @ basis).argmax(axis=1)
        same.append(np.mean(said == labels))
        usual.append(np.bincount(said, minlength=len(T)) / len(said))
    agreement, most = float(np.mean(same)), float(np.mean(usual, axis=0).max())
    return Signal(
        share=round(max(0.0, energy / length), 4),
        share_std=round(min(1.0, deviation * noise.mean / length**2), 4),
        agreement=round(agreement, 3),
        usual=round(most, 3),
        useless=agreement - most < REACH * (1 - most) or energy < EVIDENCE * math.sqrt(noise.variance),
    )
