"""Shamir sharing over the integers (Rabin 1998; Damgard and Thorbek 2006), for secrets modulo an unknown order.

To share s, choose f(z) = Delta s + sum a_i z^i with Delta = n! and integers a_i. Any t of the values f(1) .. f(n) give
Delta f(0) by integer Lagrange coefficients, without a division. f(0) must be a multiple of Delta: with f(0) = s, the
single value f(j) would reveal s mod j.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from psephos.protocol.errors import InvalidParameter
from psephos.protocol.randomness import SYSTEM, Randomness

STATISTICAL_BITS = 128
"""Statistical distance: t - 1 shares of two secrets differ in distribution by at most about t 2^-128."""


def deal_integer(
    secret: int, bound: int, *, holders: int, threshold: int, randomness: Randomness = SYSTEM
) -> list[int]:
    """Return the shares f(1) .. f(n) of a secret; arguments and errors as `integer_polynomial`."""
    coefficients = integer_polynomial(secret, bound, holders=holders, threshold=threshold, randomness=randomness)
    return [evaluate(coefficients, point) for point in range(1, holders + 1)]


def integer_polynomial(
    secret: int, bound: int, *, holders: int, threshold: int, randomness: Randomness = SYSTEM
) -> list[int]:
    """Draw the coefficients of f, the constant Delta * secret first.

    The secret lies in (-bound, bound); with S the bound the other coefficients are uniform in [0, 2^128 Delta^2 S).
    """
    if not 1 <= threshold <= holders:
        raise InvalidParameter(f"the threshold must lie between 1 and {holders}, the holders, not {threshold}")
    if not -bound < secret < bound:
        raise InvalidParameter("the secret lies outside its bound")
    delta = math.factorial(holders)
    width = (delta * delta * bound) << STATISTICAL_BITS
    return [delta * secret] + [randomness.below(width) for _ in range(threshold - 1)]


def evaluate(coefficients: Sequence[int], point: int) -> int:
    value = 0
    for coefficient in reversed(coefficients):
        value = value * point + coefficient
    return value


def lagrange_numerators(points: Collection[int], holders: int) -> dict[int, int]:
    delta = math.factorial(holders)
    numerators = {}
    for j in points:
        top, bottom = delta, 1
        for i in points:
            if i != j:
                top *= i
                bottom *= i - j
        numerators[j], remainder = divmod(top, bottom)
        assert remainder == 0  # i! (n - i)! divides n!
    return numerators
