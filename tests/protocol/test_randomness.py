"""`Randomness`: derived integers are uniform, tapes are replayed, seeded streams are repeatable."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from psephos.protocol.errors import InvalidParameter
from psephos.protocol.randomness import (
    SYSTEM,
    Randomness,
    RecordedRandomness,
    ReplayedRandomness,
    SimulationRandomness,
)
from tests.statistical import FALSE_ALARM


class AllBytes(Randomness):
    """Draws the bytes of a given integer, so that all outcomes of a draw can be enumerated."""

    def __init__(self, value: int, width: int) -> None:
        self._tape = value.to_bytes(width, "big")

    def draw(self, count: int) -> bytes:
        data, self._tape = self._tape[:count], self._tape[count:]
        assert len(data) == count
        return data


@pytest.mark.parametrize("count", [1, 3, 7, 8, 9, 12, 16])
def test_bits_are_uniform_by_enumeration(count: int) -> None:
    width = (count + 7) // 8
    seen = Counter(AllBytes(value, width).bits(count) for value in range(256**width))
    assert set(seen) == set(range(2**count))
    assert len(set(seen.values())) == 1


@pytest.mark.parametrize("bound", [1, 2, 3, 5, 8, 200, 256])
def test_below_is_uniform_by_enumeration(bound: int) -> None:
    """For all first bytes that are not rejected; a rejected byte is followed by a new draw."""
    seen: Counter[int] = Counter()
    for value in range(256):
        try:
            seen[AllBytes(value, 1).below(bound)] += 1
        except AssertionError:  # the first byte was rejected
            continue
    if bound == 1:
        assert set(seen) == {0}
    else:
        assert set(seen) == set(range(bound))
        assert len(set(seen.values())) == 1


@given(st.integers(1, 2**300))
def test_below_stays_below(bound: int) -> None:
    assert 0 <= SYSTEM.below(bound) < bound


@pytest.mark.parametrize("bound", [0, -1])
def test_a_bound_below_one_is_refused(bound: int) -> None:
    with pytest.raises(InvalidParameter):
        SYSTEM.below(bound)


def test_system_randomness_is_not_constant() -> None:
    assert SYSTEM.draw(32) != SYSTEM.draw(32)


@given(st.integers(0, 2**64), st.lists(st.integers(0, 5000), max_size=6))
def test_a_seeded_stream_does_not_depend_on_how_it_is_read(seed: int, pieces: list[int]) -> None:
    whole = SimulationRandomness(seed).draw(sum(pieces))
    piecewise = SimulationRandomness(seed)
    assert b"".join(piecewise.draw(count) for count in pieces) == whole


def test_seeds_and_labels_give_different_streams() -> None:
    sources = [(0,), (1,), (0, "party"), (0, "party", 1), (0, "party", 2), (0, 1), (0, "1")]
    streams = {SimulationRandomness(*source).draw(16) for source in sources}
    assert len(streams) == len(sources)


def test_a_seeded_stream_looks_uniform() -> None:
    # The seed is fixed; `tests.statistical` has the false-alarm rate over seeds.
    stream = SimulationRandomness(7).draw(360_000)
    counts = Counter(stream)
    assert chisquare([counts[b] for b in range(256)]).pvalue > FALSE_ALARM


@given(st.lists(st.integers(0, 40), max_size=8))
def test_a_recorded_tape_is_replayed(pieces: list[int]) -> None:
    recorded = RecordedRandomness()
    data = [recorded.draw(count) for count in pieces]
    replayed = ReplayedRandomness(recorded.tape())
    assert [replayed.draw(count) for count in pieces] == data
    with pytest.raises(InvalidParameter):
        replayed.draw(1)


def test_an_exhausted_tape_is_an_error_that_shows_nothing_of_it() -> None:
    tape = ReplayedRandomness(b"abcdef")
    tape.draw(2)
    with pytest.raises(InvalidParameter) as caught:
        tape.draw(5)
    assert "cdef" not in str(caught.value)
    assert tape.draw(4) == b"cdef"  # the failed draw consumed nothing
