"""Permutations: uniform, undone by their inverse, and refused when they are none."""

from __future__ import annotations

from collections import Counter
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from psephos.protocol.errors import InvalidParameter
from psephos.protocol.permutation import check_permutation, inverse, permute, random_permutation
from psephos.protocol.randomness import Randomness


class Given(Randomness):
    """Draws below a bound as it is told."""

    def __init__(self, *chosen: int) -> None:
        self.chosen, self.bounds = list(chosen), list[int]()

    def draw(self, count: int) -> bytes:
        raise AssertionError

    def below(self, bound: int) -> int:
        self.bounds.append(bound)
        return self.chosen.pop(0)


def test_every_permutation_comes_of_one_sequence_of_draws() -> None:
    """Of 4 entries: a draw below 4, below 3 and below 2 have as many outcomes as there are permutations."""
    seen = Counter[tuple[int, ...]]()
    for first in range(4):
        for second in range(3):
            for third in range(2):
                source = Given(first, second, third)
                seen[random_permutation(4, source)] += 1
                assert source.bounds == [4, 3, 2]
    assert seen == Counter(permutations(range(4)))
    assert [random_permutation(size, Given()) for size in (0, 1)] == [(), (0,)]


@given(st.permutations(range(7)))
def test_the_inverse_undoes_it(places: list[int]) -> None:
    moved = permute(places, "abcdefg")
    assert [moved[place] for place in places] == list("abcdefg")
    assert permute(inverse(places), moved) == list("abcdefg")
    assert check_permutation(places) == tuple(places)
    assert isinstance(check_permutation(places), tuple)


@pytest.mark.parametrize("places", [(1,), (0, 0), (0, 2), (-1, 0), (1, 2, 3)])
def test_what_is_no_permutation(places: tuple[int, ...]) -> None:
    with pytest.raises(InvalidParameter, match=f"of 0 to {len(places) - 1}"):
        check_permutation(places)
