"""Projection onto a ball and fixed-point encoding; exact arithmetic decides whether a vector is inside."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from psephos.protocol.errors import DataError, InvalidParameter
from psephos.protocol.grids.fixed_point import FixedPoint, project

vectors = st.lists(
    st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.floats(-10, 10)), min_size=1, max_size=8
)
radii = st.one_of(st.sampled_from([1.0, 0.1, 53.0, 2.0**-400, 2.0**400]), st.floats(1e-6, 1e6))


BEYOND = [np.nextafter(2.0**-400, 0.0), np.nextafter(2.0**400, np.inf)]


def exact_square(vector: np.ndarray) -> Fraction:
    return sum((Fraction(float(v)) ** 2 for v in vector.ravel()), Fraction(0))


@given(vectors, radii)
def test_a_projected_vector_lies_exactly_in_the_ball(entries: list[float], radius: float) -> None:
    point = project(entries, radius)
    assert exact_square(point) <= Fraction(radius) ** 2


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=8), st.floats(1e-3, 1e3))
def test_projection_is_the_nearest_point(entries: list[float], radius: float) -> None:
    vector = np.array(entries)
    norm = np.linalg.norm(vector)
    expected = vector if norm <= radius else vector * (radius / norm)
    np.testing.assert_allclose(project(vector, radius), expected, rtol=1e-13, atol=1e-300)


@given(vectors, st.floats(1e-6, 1e4), st.integers(0, 40))
def test_an_encoded_vector_lies_exactly_in_the_ball(entries: list[float], radius: float, bits: int) -> None:
    fixed = FixedPoint(bits)
    point = project(entries, radius)
    units = fixed.encode(point, radius)
    assert sum(u * u for u in units) <= (Fraction(radius) * 2**bits) ** 2
    assert max(map(abs, units)) <= fixed.limit(radius) <= Fraction(radius) * 2**bits
    assert sum(u * u for u in units) <= fixed.square_limit(radius) <= (Fraction(radius) * 2**bits) ** 2
    for unit, value in zip(units, point, strict=True):
        assert abs(Fraction(unit, 2**bits) - Fraction(float(value))) < Fraction(1, 2**bits)


def test_rounding_to_nearest_would_leave_the_ball() -> None:
    """Why encode truncates: 3/4 and 3/4 of radius 1.07 round to 1 and 1, of norm 1.41."""
    assert FixedPoint(0).encode([0.75, 0.75], 1.07) == [0, 0]
    assert FixedPoint(0).encode([-1.5, 0.0], 1.5) == [-1, 0]


@given(st.lists(st.lists(st.floats(-3, 3), min_size=3, max_size=3), min_size=1, max_size=6), st.integers(0, 52))
def test_the_mean_of_a_sum_is_the_exact_mean_rounded_once(rows: list[list[float]], bits: int) -> None:
    fixed = FixedPoint(bits)
    encoded = [fixed.encode(project(row, 2.0), 2.0) for row in rows]
    sums = [sum(column) for column in zip(*encoded, strict=True)]
    mean = fixed.mean(sums, len(rows))
    for got, total in zip(mean, sums, strict=True):
        assert got == float(Fraction(total, len(rows) * 2**bits))


@pytest.mark.parametrize("radius", [0.0, -1.0, float("nan"), float("inf"), 1e-200, 1e200, *BEYOND])
def test_invalid_radii_are_rejected(radius: float) -> None:
    for call in (
        lambda: project([1.0], radius),
        lambda: FixedPoint(8).encode([0.0], radius),
        lambda: FixedPoint(8).limit(radius),
    ):
        with pytest.raises(InvalidParameter):
            call()


@pytest.mark.parametrize("entry", [float("nan"), float("inf"), -float("inf")])
def test_entries_that_are_not_finite_are_rejected(entry: float) -> None:
    with pytest.raises(DataError):
        project([0.0, entry], 1.0)
    with pytest.raises(DataError):
        FixedPoint(8).encode([0.0, entry], 1.0)


def test_encode_rejects_a_vector_outside_the_ball() -> None:
    for vector in ([1.5, 0.0], [0.9, 0.9], [1.7e308], [1.0, 2.0**-20]):
        with pytest.raises(DataError):
            FixedPoint(20).encode(vector, 1.0)
    assert FixedPoint(20).encode([1.0, 2.0**-21], 1.0) == [1 << 20, 0]
    assert FixedPoint(20).encode([0.0, -1.0], 1.0) == [0, -1 << 20]
    assert FixedPoint(4).encode([], 1.0) == []
    assert [FixedPoint(4).limit(radius) for radius in (1.0, 0.999, 2.0**-5)] == [16, 15, 0]
