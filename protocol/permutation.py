"""Permutations of 0 to n - 1 as tuples: `permutation[i]` is the place to which entry i moves.

They serve as the parties' pi_1 and the curator's pi_2 of Pathak, Rane and Raj (2010), Stage 1, steps 2 and 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from psephos.protocol.randomness import SYSTEM, Randomness

T = TypeVar("T")


def random_permutation(size: int, randomness: Randomness = SYSTEM) -> tuple[int, ...]:
    """Draw a uniform permutation (Fisher-Yates shuffle)."""
    places = list(range(size))
    for last in range(size - 1, 0, -1):
        other = randomness.below(last + 1)
        places[last], places[other] = places[other], places[last]
    return tuple(places)


def permute(permutation: Sequence[int], entries: Sequence[T]) -> list[T]:
    """Return the entries with entry i moved to place `permutation[i]`."""
    moved = list(entries)
    for place, entry in zip(permutation, entries, strict=True):
        moved[place] = entry
    return moved


def inverse(permutation: Sequence[int]) -> tuple[int, ...]:
    result = [0] * len(permutation)
    for place, image in enumerate(permutation):
        result[image] = place
    return tuple(result)
