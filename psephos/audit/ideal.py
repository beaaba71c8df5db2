"""Ideal functionalities: what each role gets from a trusted third party in place of the protocol, and nothing more.

A simulator is handed a coalition's inputs and its members' entries of these results. Sizes of messages, who took part
and when are public in every protocol here and appear as inputs of the functionality.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray


def ideal_tally(votes: NDArray[np.integer], classes: int) -> list[list[int]]:
    """Encrypted tally with alpha: the curator gets the counts per sample and class, (N, K). Nobody else gets anything.

    `votes`: class indices, int (M, N). Everybody knows who cast a ballot.
    """
    return [[int((column == k).sum()) for k in range(classes)] for column in np.asarray(votes).T]


def ideal_sum(*vectors: Sequence[int]) -> list[int]:
    """The sum of vectors, whatever they are.

    * Sum of parameters: the curator gets it.
    * Statistic reveal: the curator gets the sum of the statistics plus the noise of the honest parties' shares, which
      the functionality draws (`joint_noise`, `joint_skellam`). A party of the coalition hands in its statistic with
      its own share added, as it may choose both.
    * One step of PSGD: the curator gets the sum of the gradients and of the honest parties' noise, drawn likewise;
      everybody gets the next public point.
    * Pathak: everybody gets K w_s in units of the grid, the sum of the parameters and of noise for the smallest data
      set. Printed: all of it is the functionality's, one discrete Laplace variable per entry (`joint_noise`) or a
      spherical vector (`spherical_noise`). Repaired: the honest parties' shares at the rung of the smallest; a party
      of the coalition hands in its own share for every rung. How the smallest is found (tournament, all pairs) changes
      nothing: sizes, their order, who is smallest and the noise belong to nobody. What Charlie sees besides is an
      order of the parties that is uniform and independent of everything, which a simulator draws for itself.
    """
    return [sum(column) for column in zip(*vectors, strict=True)]


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
