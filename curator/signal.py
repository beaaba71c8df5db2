"""Estimates of how much of a release is signal, by post-processing (docs/theory.md, "How much of a release is signal").

A release is `useless` when agreement - usual < `REACH` (1 - usual), or when ||T||^2 is less than `EVIDENCE` standard
deviations of ||noise||^2 above its mean.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from psephos.protocol.grids.own_data import contrast_basis
from psephos.protocol.privacy.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    NoiseMechanism,
    RoundedGaussian,
    SphericalLaplace,
)

Array = NDArray[np.float64]

REACH = 0.2
"""Smallest (agreement - usual) / (1 - usual) of a release that is not useless."""

EVIDENCE = 1.0
"""Smallest excess of ||T||^2 over E||noise||^2, in standard deviations of ||noise||^2."""

_DRAWS = 100  # draws of S given T
_ROWS = 500  # largest number of public rows that are used
_LEAST = 1e-12  # smallest energy of S, as a share of ||T||^2


@dataclass(frozen=True)
class Signal:
    """Estimates about one release, computed from itself and public values; all of them are public.

    Attributes:
        share, share_std: estimated share of the release's squared length that is not noise, and its standard deviation
            from the noise, at most 1.
        agreement: expected share of public rows to which this classifier and that without noise give the same class.
        usual: expected share of public rows to which the classifier without noise gives the most frequent class.
        useless: whether this classifier is not expected to beat the constant classifier of the most frequent class.
    """

    share: float
    share_std: float
    agreement: float
    usual: float
    useless: bool


@dataclass(frozen=True)
class Energy:
    """Mean and variance of the squared length of the noise, and its number of entries."""

    mean: float
    variance: float
    dimension: int


def noise_energy(mechanism: NoiseMechanism, unit: float = 1.0, shares: float = 1.0) -> Energy:
    """Compute mean and variance of the squared length of a mechanism's noise, multiplied by `unit`.

    `shares` is for joint noise: the number of shares added divided by the number that make up the mechanism's law.
    """
    count = mechanism.dimension
    if isinstance(mechanism, SphericalLaplace):
        square = (mechanism.scale * unit) ** 2
        fourth = count * (count + 1) * (4 * count + 6)  # of a Gamma(D, 1) norm: E r^4 - (E r^2)^2
        return Energy(count * (count + 1) * square, fourth * square**2, count)
    if isinstance(mechanism, DiscreteLaplace):
        each, excess = 2 * (float(mechanism.scale_units) * mechanism.pitch * unit) ** 2 * shares, 3 / shares
    elif isinstance(mechanism, DiscreteGaussian):
        each, excess = float(mechanism.variance) * (mechanism.pitch * unit) ** 2 * shares, 0.0
    elif isinstance(mechanism, RoundedGaussian):
        each, excess = (mechanism.sigma * unit) ** 2, 0.0
    else:
        raise TypeError(f"noise_energy does not support {type(mechanism).__name__}")
    return Energy(count * each, count * (2 + excess) * each**2, count)


def signal_of(T: Array, Z: Array, labels: NDArray[np.integer], noise: Energy, *, falling: bool) -> Signal:
    """Estimate how much of a release is signal. The draws have a fixed seed, so everybody gets the same numbers.

    Args:
        T: float64 (K, r), the noisy release as scores of the classes, summing to 0 over the classes.
        Z: float64 (N, r), the public rows in the coordinates of T.
        labels: integers (N,), the classes that the released classifier gives to the public rows.
        noise: energy of the noise in T.
        falling: whether the signal's energy falls with the number j of the coordinate like 1/j, as in `wiener_filter`;
            otherwise it is spread evenly.
    """
    subset = np.linspace(0, len(Z) - 1, min(len(Z), _ROWS)).astype(int)
    Z, labels = Z[subset], labels[subset]
    basis = contrast_basis(len(T))
    contrasts, length = basis @ T, float(np.sum(T**2))
    if length == 0.0:
        return Signal(0.0, 0.0, 0.0, 1.0, useless=True)
    each, energy = noise.mean / noise.dimension, length - noise.mean
    # Odd moments of the noise vanish, so ||noise||^2 and S.noise are uncorrelated.
    deviation = math.sqrt(noise.variance + 4 * max(energy, 0.0) * each)
    generator = np.random.default_rng(0)
    weights = 1 / np.arange(1, T.shape[1] + 1) if falling else np.ones(T.shape[1])
    weights /= weights.sum() * len(contrasts)
    agreements, class_shares = [], []
    for _ in range(_DRAWS):
        prior = weights * max(energy + deviation * generator.normal(), _LEAST * length)
        share = prior / (prior + each)
        statistic = share * contrasts + np.sqrt(share * each) * generator.normal(size=contrasts.shape)
        predicted = (Z @ statistic.T @ basis).argmax(axis=1)
        agreements.append(np.mean(predicted == labels))
        class_shares.append(np.bincount(predicted, minlength=len(T)) / len(predicted))
    agreement, usual = float(np.mean(agreements)), float(np.mean(class_shares, axis=0).max())
    return Signal(
        share=round(max(0.0, energy / length), 4),
        share_std=round(min(1.0, deviation * noise.mean / length**2), 4),
        agreement=round(agreement, 3),
        usual=round(usual, 3),
        useless=agreement - usual < REACH * (1 - usual) or energy < EVIDENCE * math.sqrt(noise.variance),
    )
