"""The polynomials of integer Shamir sharing, at the limits of their arguments."""

from __future__ import annotations

import pytest

from psephos.protocol.errors import InvalidParameter
from psephos.protocol.paillier.sharing import deal_integer, evaluate, integer_polynomial


def test_secrets_near_the_bound_can_be_shared() -> None:
    for secret in (9, -9):
        assert integer_polynomial(secret, 10, holders=1, threshold=1) == [secret]
        assert deal_integer(secret, 10, holders=3, threshold=1) == [6 * secret] * 3
        assert len(integer_polynomial(secret, 10, holders=3, threshold=3)) == 3
    for secret in (10, -10):
        with pytest.raises(InvalidParameter):
            integer_polynomial(secret, 10, holders=1, threshold=1)


def test_the_threshold_is_at_most_the_number_of_holders() -> None:
    for threshold in (0, 3):
        with pytest.raises(InvalidParameter):
            integer_polynomial(1, 2, holders=2, threshold=threshold)


def test_evaluate_a_polynomial() -> None:
    assert [evaluate([7, -2, 3], point) for point in (0, 1, 2, -1)] == [7, 8, 15, 12]
    assert evaluate([], 5) == 0
