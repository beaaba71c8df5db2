"""Permutations: uniform draws, inverses, and sequences that are not permutations."""

from __future__ import annotations

from collections import Counter
from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from psephos.protocol.permutation import inverse, permute, random_permutation
from psephos.protocol.randomness import Randomness


class FixedDraws(Randomness):
    """Returns given integers from `below`, and records the bounds."""

    def __init__(self, *values: int) -> None:
        self.values, self.bounds = list(values), list[int]()

    def draw(self, count: int) -> bytes:
        raise AssertionError

    def below(self, bound: int) -> int:
        self.bounds.append(bound)
        return self.values.pop(0)


def test_each_permutation_results_from_one_sequence_of_draws() -> None:
    """For 4 entries, draws below 4, 3 and 2 have as many outcomes as there are permutations."""
    seen = Counter[tuple[int, ...]]()
    for first in range(4):
        for second in range(3):
            for third in range(2):
                source = FixedDraws(first, second, third)
                seen[random_permutation(4, source)] += 1
                assert source.bounds == [4, 3, 2]
    assert seen == Counter(permutations(range(4)))
    assert [random_permutation(size, FixedDraws()) for size in (0, 1)] == [(), (0,)]


@given(st.permutations(range(7)))
def test_inverse(places: list[int]) -> None:
    moved = permute(places, "abcdefg")
    assert [moved[place] for place in places] == list("abcdefg")
    assert permute(inverse(places), moved) == list("abcdefg")
