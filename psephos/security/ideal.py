"""Ideal functionalities: what each role gets from a trusted third party in place of the protocol, and nothing more.

A simulator is handed a coalition's inputs and its members' entries of these results. Sizes of messages, who took part
and when are public in every protocol here and appear as inputs of the functionality.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "counts_of",
    "ideal_pathak",
    "ideal_psgd_step",
    "ideal_statistic",
    "ideal_tally",
    "joint_noise",
    "joint_skellam",
    "spherical_noise",
]

Outputs = dict[str, dict[str, Any]]


def counts_of(votes: NDArray[np.integer], classes: int) -> list[list[int]]:
    """(N, K) counts of votes (M, N)."""
    return [[int((column == k).sum()) for k in range(classes)] for column in np.asarray(votes).T]


def ideal_tally(votes: NDArray[np.integer], classes: int) -> Outputs:
    """Encrypted tally with alpha: the curator gets the counts per sample and class. Nobody else gets anything.

    `votes`: class indices, int (M, N). Everybody knows who cast a ballot.
    """
    return {"curator": {"counts": counts_of(votes, classes)}, "holder": {}, "party": {}, "board": {}}


def joint_noise(
    scale: Fraction, dimension: int, shares: int, contributors: int, generator: np.random.Generator
) -> list[int]:
    """`shares` of `contributors` shares of discrete Laplace noise: differences of negative binomials of that shape.

    Drawn with numpy, so that it is not the protocol's own sampler.
    """
    chance, shape = -math.expm1(-1 / float(scale)), shares / contributors
    drawn = [generator.negative_binomial(shape, chance, dimension) for _ in range(2)]
    return [int(a) - int(b) for a, b in zip(*drawn, strict=True)]


def joint_skellam(
    variance: Fraction | float, dimension: int, shares: int, contributors: int, generator: np.random.Generator
) -> list[int]:
    """`shares` of `contributors` shares of Skellam noise of that variance: differences of two Poisson variables."""
    mean = float(variance) / 2 * shares / contributors
    drawn = [generator.poisson(mean, dimension) for _ in range(2)]
    return [int(a) - int(b) for a, b in zip(*drawn, strict=True)]


def spherical_noise(scale: Fraction, dimension: int, generator: np.random.Generator) -> list[int]:
    """Density proportional to exp(-||eta||/scale), rounded: a Gamma(dimension) norm and a normal vector's direction."""
    direction = generator.normal(size=dimension)
    norm = float(scale) * generator.gamma(dimension)
    return [int(e) for e in np.rint(direction * (norm / np.linalg.norm(direction)))]


def ideal_statistic(vectors: Sequence[Sequence[int]], noise: Sequence[int]) -> Outputs:
    """Statistic reveal: the curator gets the sum of the vectors plus the noise of the honest parties' shares.

    The functionality draws that noise (`joint_noise`, `joint_skellam`). A party of the coalition hands in its
    statistic with its own share added, as it may choose both.
    """
    return {"curator": {"sum": [sum(column) for column in zip(*vectors, noise, strict=True)]}, "party": {}}


def ideal_psgd_step(gradients: Sequence[Sequence[int]], noise: Sequence[Sequence[int]]) -> Outputs:
    """One step of PSGD: the curator gets the sum of the parties' noisy gradients, parties the next public point."""
    total = [sum(column) for column in zip(*gradients, *noise, strict=True)]
    return {"curator": {"sum": total}, "party": {}}


def ideal_pathak(parameters: Sequence[Sequence[int]], noise: Sequence[int]) -> list[int]:
    """Pathak: everybody gets K w_s in units of the grid, the sum of the parameters and noise for the smallest data set.

    The functionality draws the noise. Printed: all of it, one discrete Laplace variable per entry (`joint_noise`) or a
    spherical vector (`spherical_noise`). Repaired: the honest parties' shares at the rung of the smallest; a party of
    the coalition hands in its own share for every rung. How the smallest is found (tournament, all pairs) changes
    nothing: sizes, their order, who is smallest and the noise belong to nobody. What Charlie sees besides is an order
    of the parties that is uniform and independent of everything, which a simulator draws for itself.
    """
    return [sum(column) + e for column, e in zip(zip(*parameters, strict=True), noise, strict=True)]
