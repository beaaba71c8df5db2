"""What is a number, and what is none: both sides of every limit."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from psephos.curator.checks import check_count, check_positive, noise_inflation
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.privacy.precision import rounded_up

NONE = [True, False, "1", None, [1.0], 1j, math.nan, math.inf, -math.inf, -1]


@pytest.mark.parametrize(("check", "bad"), [(check_positive, [*NONE, 0, 0.0]), (check_count, [*NONE, 0, 1.5, 1e-9])])
def test_invalid_numbers_are_refused_by_name(check: Callable[[Any, str], Any], bad: list[Any]) -> None:
    for value in bad:
        with pytest.raises(InvalidParameter, match=r"^the width must be "):
            check(value, "the width")


@pytest.mark.parametrize("value", [5e-324, 0.5, 1, 2, np.float32(0.25), np.int64(7), 1.7e308])
def test_positive_numbers_of_any_kind_are_floats(value: Any) -> None:
    number = check_positive(value, "the width")
    assert (type(number), number) == (float, float(value))


def test_counts_begin_at_the_least_and_are_ints() -> None:
    for value, least in ((1, 1), (0, 0), (2, 2), (3.0, 3), (np.int64(9), 1), (1e15, 1)):
        number = check_count(value, "the width", least)  # type: ignore[arg-type]
        assert (type(number), number) == (int, int(value))
    assert check_count(1, "the width") == 1
    for value, least in ((1, 2), (-1, 0)):
        with pytest.raises(InvalidParameter, match=f"at least {least}"):
            check_count(value, "the width", least)


@given(st.floats(1e-300, 1e300))
def test_rounding_up_keeps_thirty_bits(value: float) -> None:
    """The least multiple of 2^(e - 30) that is not below a number of 2^(e - 1) or more and under 2^e."""
    unit = Fraction(2) ** (math.frexp(value)[1] - 30)
    assert rounded_up(value) == math.ceil(Fraction(value) / unit) * unit


def test_noise_of_some_parties_is_inflated() -> None:
    assert [noise_inflation(12, some) for some in (None, 12, 3, 1)] == [1, 1, 4, 12]
    for parties, some in ((12, 0), (12, -1), (12, 13), (0, None), (1.5, None)):
        with pytest.raises(InvalidParameter):
            noise_inflation(parties, some)  # type: ignore[arg-type]
