"""Ideal functionalities: what each role gets from a trusted third party in place of the protocol, and nothing more.

A simulator is handed a coalition's inputs and its members' entries of these results. Sizes of messages, who took part
and when are public in every protocol here and appear as inputs of the functionality.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["counts_of", "ideal_pathak", "ideal_psgd_step", "ideal_statistic", "ideal_tally", "joint_noise"]

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


def ideal_statistic(vectors: Sequence[Sequence[int]], noise: Sequence[int]) -> Outputs:
    """Statistic reveal: the curator gets the sum of the vectors plus the noise of the honest parties' shares.

    The functionality draws that noise (`joint_noise`). A party of the coalition hands in its statistic with its own
    share added, as it may choose both.
    """
    return {"curator": {"sum": [sum(column) for column in zip(*vectors, noise, strict=True)]}, "party": {}}


def ideal_psgd_step(gradients: Sequence[Sequence[int]], noise: Sequence[Sequence[int]]) -> Outputs:
    """One step of PSGD: the curator gets the sum of the parties' noisy gradients, parties the next public point."""
    total = [sum(column) for column in zip(*gradients, *noise, strict=True)]
    return {"curator": {"sum": total}, "party": {}}


@dataclass(frozen=True)
class PathakOutput:
    """`total`: K w_s in units of the grid, published. Sizes, who is smallest and the noise belong to nobody."""

    total: list[int]


def ideal_pathak(
    parameters: Sequence[Sequence[int]],
    scale: Fraction,
    generator: np.random.Generator,
    *,
    shares: int | None = None,
    contributors: int = 1,
) -> PathakOutput:
    """Pathak: everybody gets K w_s, the sum of the parameters plus noise scaled for the smallest data set.

    Printed: one discrete Laplace variable per entry. Repaired: the functionality draws `shares` (the honest parties')
    of `contributors` shares, each a difference of negative binomials of shape 1/contributors, and adds the coalition's
    own shares, which it was given as inputs. Drawn with numpy, so that it is not the protocol's own sampler.
    """
    count = contributors if shares is None else shares
    noise = joint_noise(scale, len(parameters[0]), count, contributors, generator)
    return PathakOutput([sum(column) + e for column, e in zip(zip(*parameters, strict=True), noise, strict=True)])
