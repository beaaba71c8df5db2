"""The average of projected parameters and its sensitivity."""

from __future__ import annotations

import numpy as np
import pytest

from psephos.curator.hamm.averaging import Average, average_of
from psephos.curator.hamm.sensitivity import average as average_sensitivity
from psephos.protocol.errors import DataError, InvalidParameter
from psephos.protocol.grids.fixed_point import FixedPoint, project

FIXED = FixedPoint(30)


def summed(parameters: np.ndarray, radius: float) -> list[int]:
    encoded = [FIXED.encode(project(w, radius), radius) for w in parameters]
    return [sum(column) for column in zip(*encoded, strict=True)]


@pytest.mark.parametrize("classes", [2, 4])
def test_the_average_is_that_of_the_projections(classes: int) -> None:
    generator = np.random.default_rng(0)
    shape = (5,) if classes == 2 else (classes, 5)
    parameters = generator.normal(size=(30, *shape)) * generator.gamma(1.0, 2.0, size=(30,) + (1,) * len(shape))
    radius = 3.0
    norms = np.linalg.norm(parameters.reshape(30, -1), axis=1)
    assert 5 < (norms > radius).sum() < 25  # both sides of the ball occur
    got = average_of(summed(parameters, radius), 30, radius, FIXED, features=5, classes=classes)
    shrunk = parameters * np.minimum(1, radius / norms).reshape((30,) + (1,) * len(shape))
    assert (got.w.shape, got.radius, got.parties) == (shape, 3.0, 30)
    np.testing.assert_allclose(got.w, shrunk.mean(axis=0), atol=2.0**-30)


def test_one_party_moves_the_average_by_at_most_2_c_over_m() -> None:
    generator = np.random.default_rng(1)
    parameters = generator.normal(size=(7, 4))
    bound = average_sensitivity(0.5, 7).value
    reached = 0.0
    for _ in range(200):
        other = parameters.copy()
        # The worst a party can do is to go from one end of a diameter to the other.
        other[0] = -parameters[0] * 100 if generator.random() < 0.5 else generator.normal(size=4) * 100
        first, second = (average_of(summed(p, 0.5), 7, 0.5, FIXED, features=4).w for p in (parameters, other))
        reached = max(reached, float(np.linalg.norm(first - second)))
    assert 0.999 * bound < reached <= bound


def test_repr_of_an_average_shows_no_parameters() -> None:
    text = repr(Average(np.array([0.123456, 0.5]), 1.0, 3))
    assert "0.123" not in text


def test_invalid_averages_are_refused() -> None:
    with pytest.raises(InvalidParameter):
        average_of([1, 2], 0, 1.0, FIXED, features=2)
    with pytest.raises(DataError, match="not 6"):
        average_of([1, 2], 1, 1.0, FIXED, features=2, classes=3)
    unit = 2**30
    average_of([3 * unit, 0], 3, 1.0, FIXED, features=2)
    average_of([6 * unit, 0], 3, 2.0, FIXED, features=2)
    with pytest.raises(DataError):
        average_of([3 * unit, 1], 3, 1.0, FIXED, features=2)
