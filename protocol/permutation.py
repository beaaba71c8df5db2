"""Permutations of 0 .. n - 1 as tuples: `permutation[i]` is where entry i goes.

The parties' pi_1 and Charlie's pi_2 of Pathak, Rane and Raj (2010), Stage 1, steps 2 and 4, are such.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from psephos.protocol.errors import InvalidParameter
from psephos.protocol.randomness import SYSTEM, Randomness

T = TypeVar("T")


def random_permutation(size: int, randomness: Randomness = SYSTEM) -> tuple[int, ...]:
    """A uniform permutation (Fisher and Yates, with exact uniform draws)."""
    places = list(range(size))
    for last in range(size - 1, 0, -1):
        chosen = randomness.below(last + 1)
        places[last], places[chosen] = places[chosen], places[last]
    return tuple(places)


def check_permutation(permutation: Sequence[int]) -> tuple[int, ...]:
    """The permutation as a tuple; raises InvalidParameter when it is none."""
    if sorted(permutation) != list(range(len(permutation))):
        raise InvalidParameter(f"not a permutation of 0 to {len(permutation) - 1}")
    return tuple(permutation)


def permute(permutation: Sequence[int], entries: Sequence[T]) -> list[T]:
    """The entries with entry i moved to place `permutation[i]`."""
    moved = list(entries)
    for place, entry in zip(permutation, entries, strict=True):
        moved[place] = entry
    return moved


def inverse(permutation: Sequence[int]) -> tuple[int, ...]:
    """The permutation that undoes it."""
    undone = [0] * len(permutation)
    for place, image in enumerate(permutation):
        undone[image] = place
    return tuple(undone)
