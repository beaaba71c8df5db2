"""Ideal functionalities: what a trusted third party would give to each role in place of the protocol.

A simulator receives the inputs of a coalition and the outputs of its members. The sizes of messages, who takes part,
and the order of messages are public in every protocol here; they are inputs of the functionality.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray


def ideal_tally(votes: NDArray[np.integer], classes: int) -> list[list[int]]:
    """Return the output of the encrypted tally, alpha: the votes per sample and class, (N, K).

    The curator receives it, and nobody else receives anything. Everybody knows who cast a ballot.

    Args:
        votes: class indices, int (M, N), of M parties.
        classes: K.
    """
    return [[int((column == k).sum()) for k in range(classes)] for column in np.asarray(votes).T]


def ideal_sum(*vectors: Sequence[int]) -> list[int]:
    """Return the sum of vectors of the same length, which is the output of the other functionalities.

    * Sum of parameters: the curator receives it.
    * Statistic: the curator receives the sum of the statistics plus the honest parties' shares of the noise, which the
      functionality draws (`joint_noise`, `joint_gaussian`). A party of the coalition submits its statistic with its own
      share added, since it may choose both.
    * One step of PSGD: the curator receives the sum of the gradients and of the honest parties' noise, drawn likewise;
      everybody receives the next public point.
    * Pathak: everybody receives K w_s in units of the grid: the sum of the parameters and of noise for the smallest
      data set. In the printed variant the functionality draws all the noise, one discrete Laplace variable per entry
      (`joint_noise`) or a spherical vector (`spherical_noise`). In the repaired variant it draws the honest parties'
      shares at the rung of the smallest, and a party of the coalition submits its own share for every rung. How the
      smallest is found (tournament, all pairs) changes nothing: nobody receives sizes, their order, who is smallest,
      or the noise. Charlie also sees an order of the parties that is uniform and independent of everything else, which
      a simulator can draw.
    """
    return [sum(column) for column in zip(*vectors, strict=True)]


def joint_noise(
    scale: Fraction, dimension: int, shares: int, contributors: int, generator: np.random.Generator
) -> list[int]:
    """Return the sum of some parties' shares of discrete Laplace noise, `dimension` integers.

    A share is the difference of two negative binomial variables (Polya). Drawn with numpy, independently of the
    protocol's own sampler.

    Args:
        scale: of the discrete Laplace law that all shares sum to, in units of the grid.
        dimension: number of entries.
        shares: how many shares are summed.
        contributors: how many shares make up the whole law.
        generator: of the noise.
    """
    chance, shape = -math.expm1(-1 / float(scale)), shares / contributors
    first, second = (generator.negative_binomial(shape, chance, dimension) for _ in range(2))
    return [int(a) - int(b) for a, b in zip(first, second, strict=True)]


def joint_gaussian(
    variance: Fraction | float, dimension: int, shares: int, contributors: int, generator: np.random.Generator
) -> list[int]:
    """Return the sum of some parties' shares of discrete Gaussian noise: normal variables, rounded.

    On a lattice as fine as that of the cases the two laws are the same for a test of this power.

    `variance`: of the law that all shares sum to. Other arguments: as of `joint_noise`.
    """
    deviation = float(variance * shares / contributors) ** 0.5
    return [int(e) for e in np.rint(generator.normal(scale=deviation, size=dimension))]


def spherical_noise(scale: Fraction, dimension: int, generator: np.random.Generator) -> list[int]:
    """Return a rounded vector whose density is proportional to exp(-||eta||/scale).

    Its norm has a Gamma(dimension) law and its direction is that of a normal vector.
    """
    direction = generator.normal(size=dimension)
    norm = float(scale) * generator.gamma(dimension)
    return [int(e) for e in np.rint(direction * (norm / np.linalg.norm(direction)))]
