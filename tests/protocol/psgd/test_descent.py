"""The arithmetic of a descent, to the last bit, and the numbers that make none."""

from __future__ import annotations

import math
from dataclasses import replace

import gmpy2
import numpy as np
import pytest

from psephos.protocol.errors import DivergenceError, InvalidParameter
from psephos.protocol.psgd.descent import Descent, StepSizes, StoppingRule

EXACT = gmpy2.context(precision=300)
DESCENT = Descent(4, 0.5, 0.25, 10.0, StepSizes(1.0, 4.0))
NONE = [0.0, -1.0, math.inf, math.nan]


@pytest.mark.parametrize("name", ["first", "offset", "power"])
@pytest.mark.parametrize("value", NONE)
def test_step_sizes_need_positive_finite_numbers(name: str, value: float) -> None:
    with pytest.raises(InvalidParameter):
        replace(StepSizes(1.0, 4.0, 0.75), **{name: value})


def test_step_sizes_are_correctly_rounded() -> None:
    z = StepSizes(2.0, 3.0, 0.75)
    for t in range(200):
        assert z(t) == 2.0 / float(EXACT.pow(1 + t / 3.0, 0.75))
    assert z(0) == 2.0
    assert StepSizes.default(0.5, 0.25) == StepSizes(1 / 0.75, 3.0, 1.0)


def test_the_stopping_rule_compares_the_movement_with_the_tolerance() -> None:
    still, far, beyond = np.array([2.0, 0.0]), np.array([1.0, 0.0]), np.array([9.0, 9.0])
    assert StoppingRule(0.5, 1)([far, still])
    assert not StoppingRule(math.nextafter(0.5, 0.0), 1)([far, still])
    assert StoppingRule(0.1, 2)([still, beyond, still])
    assert not StoppingRule(0.1, 2)([beyond, still, still])
    assert not StoppingRule(0.1, 2)([still, still])
    assert not StoppingRule(0.0, 1)([still, still, still])
    assert StoppingRule() == StoppingRule(0.0, 50)
    assert [StoppingRule(0.1, 7).looks_back, StoppingRule(0.0, 7).looks_back] == [7, 0]


def test_the_stopping_rule_compares_correctly_rounded_norms() -> None:
    """Every machine must decide the same, and the last bit of NumPy's norm depends on its BLAS library."""
    generator = np.random.default_rng(29)
    last = np.zeros(31)
    last[0] = 1.0
    for _ in range(100):
        movement = generator.normal(size=30)
        norm = math.sqrt(math.fsum(entry * entry for entry in movement.tolist()))
        for order in (movement, movement[::-1], np.sort(movement)):
            first = last - np.concatenate([[0.0], order])
            assert StoppingRule(norm, 1)([first, last])
            assert not StoppingRule(math.nextafter(norm, 0.0), 1)([first, last])


def test_a_first_step_longer_than_the_curvature_allows_is_rejected() -> None:
    limit = 2 / 0.75
    assert replace(DESCENT, step_sizes=StepSizes(limit, 4.0)).step_sizes.first == limit
    with pytest.raises(DivergenceError):
        replace(DESCENT, step_sizes=StepSizes(math.nextafter(limit, 9.0), 4.0))
    for name, _what in (("ridge", r"lambda \+ Delta"), ("radius", "the radius of the projection")):
        for value in NONE:
            with pytest.raises(InvalidParameter):
                replace(DESCENT, **{name: value})
    assert DESCENT.stopping == StoppingRule()
    assert replace(DESCENT, ridge=1, radius=3) == replace(DESCENT, ridge=1.0, radius=3.0)
    assert type(replace(DESCENT, radius=3).radius) is float


def test_a_step_is_that_of_the_algorithm() -> None:
    w, total = np.array([1.0, -2.0]), np.array([3.0, 5.0])
    for t in (0, 3):
        expected = w - 1.0 / (1 + t / 4) * (total / 4 + 0.5 * w)
        assert DESCENT.step(w, total, t).tolist() == expected.tolist()


def test_points_stay_in_the_ball() -> None:
    on = replace(DESCENT, radius=5.0)  # the first step is to -S/4
    assert on.step(np.zeros(2), np.array([-12.0, -16.0]), 0).tolist() == [3.0, 4.0]
    assert on.step(np.zeros(2), np.array([-24.0, -32.0]), 0).tolist() == [3.0, 4.0]
    generator = np.random.default_rng(1)
    for _ in range(100):
        total = generator.normal(size=3) * 40
        moved = np.zeros(3) - total / 4
        norm = float(EXACT.sqrt(sum(gmpy2.mpq(x) ** 2 for x in moved.tolist())))
        expected = moved if norm <= 5.0 else moved * (5.0 / norm)
        assert on.step(np.zeros(3), total, 0) == pytest.approx(expected, rel=1e-15)
    for bad in (math.inf, math.nan):
        with np.errstate(invalid="ignore"), pytest.raises(DivergenceError):
            on.step(np.zeros(2), np.array([bad, 0.0]), 2)
