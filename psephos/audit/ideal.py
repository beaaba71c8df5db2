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
    """Return the output of the encrypted tally, alpha: the votes per sample and class, (N, K)."""
    return [[int((column == k).sum()) for k in range(classes)] for column in np.asarray(votes).T]


def ideal_sum(*vectors: Sequence[int]) -> list[int]:
    """Return the sum of vectors of the same length, which is the output of the other functionalities."""
    return [sum(column) for column in zip(*vectors, strict=True)]


def joint_noise(
    scale: Fraction, dimension: int, shares: int, contributors: int, generator: np.random.Generator
) -> list[int]:
    """Return the sum of some parties' shares of discrete Laplace noise, `dimension` integers."""
    chance, shape = -math.expm1(-1 / float(scale)), shares / contributors
    first, second = (generator.negative_binomial(shape, chance, dimension) for _ in range(2))
    return [int(a) - int(b) for a, b in zip(first, second, strict=True)]


def joint_gaussian(
    variance: Fraction | float, dimension: int, shares: int, contributors: int, generator: np.random.Generator
) -> list[int]:
    """Return the sum of some parties' shares of discrete Gaussian noise: normal variables, rounded."""
    deviation = float(variance * shares / contributors) ** 0.5
    return [int(e) for e in np.rint(generator.normal(scale=deviation, size=dimension))]


def spherical_noise(scale: Fraction, dimension: int, generator: np.random.Generator) -> list[int]:
    """Return a rounded vector whose density is proportional to exp(-||eta||/scale)."""
    direction = generator.normal(size=dimension)
    norm = float(scale) * generator.gamma(dimension)
    return [int(e) for e in np.rint(direction * (norm / np.linalg.norm(direction)))]
