"""Products of many powers with short public exponents, for whoever checks proofs.

Some hundred bases: every five of them share a table of their 32 products, and one bit of all exponents is looked up at
a time (Straus 1964). Thousands: Pippenger's buckets (1976). Each window of w bits sorts the bases into 2^w buckets; a
running product over the buckets, from the last to the first, gives the bucket of digit k its weight k. That is one
multiplication per base and window, and twice the number of buckets. Eight windows, whose buckets have nothing to do
with each other, go side by side (`kernel`). Nothing here is secret, so time may depend on everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
from gmpy2 import mpz

from psephos.protocol.errors import InvalidParameter
from psephos.protocol.paillier.kernel import Array, Ring

__all__ = ["public_power"]

_TOGETHER = 8

_SHARE = 5
"""Bases that share a table: 26 multiplications make it."""


def public_power(bases: Sequence[mpz], exponents: Sequence[mpz], ring: Ring) -> mpz:
    """prod_i bases[i]^exponents[i] in a ring; raises InvalidParameter for a negative exponent."""
    if len(bases) != len(exponents) or min(exponents, default=0) < 0:
        raise InvalidParameter("every base needs one exponent, and none may be negative")
    bits = max((int(e).bit_length() for e in exponents), default=0)
    # Up to 2^13 buckets a window: eight times as many are 63 MB at 3072 bits.
    buckets = {w: -(-bits // (w * _TOGETHER)) * _TOGETHER * (len(bases) + (2 << w)) for w in range(1, 14)}
    width = min(buckets, key=lambda w: buckets[w])
    if bits and -(-len(bases) // _SHARE) * (26 + bits) + 2 * bits < buckets[width]:
        return _by_tables(ring, bases, exponents, bits)
    mask = (1 << width) - 1
    factors, modulus = ring.array(bases), ring.modulus
    result = mpz(1)
    windows = range(0, bits, width)
    for first in reversed(range(0, len(windows), _TOGETHER)):
        shifts = windows[first : first + _TOGETHER]
        digits = np.array([[int(exponent >> shift) & mask for shift in shifts] for exponent in exponents])
        for power in reversed(_weighted(ring, factors, digits)):
            for _ in range(width):
                result = result * result % modulus
            result = result * power % modulus
    return result


def _by_tables(ring: Ring, bases: Sequence[mpz], exponents: Sequence[mpz], bits: int) -> mpz:
    groups, size = -(-len(bases) // _SHARE), (bits + 7) // 8
    factors = ring.array([*bases, *[mpz(1)] * (-len(bases) % _SHARE)])
    factors = factors.reshape(groups, _SHARE, *factors.shape[1:])
    tables = np.repeat(ring.array([mpz(1)]), groups, axis=0)[:, np.newaxis]
    for place in range(_SHARE):
        several = np.repeat(factors[:, place : place + 1], tables.shape[1], axis=1)
        tables = np.concatenate([tables, ring.multiply(tables, several)], axis=1)
    octets = b"".join([int(e).to_bytes(size, "little") for e in exponents]).ljust(groups * _SHARE * size, b"\0")
    drawn = np.unpackbits(np.frombuffer(octets, np.uint8).reshape(groups, _SHARE, size), axis=2, bitorder="little")
    digits = (1 << np.arange(_SHARE)) @ drawn[..., :bits]
    products = ring.fold(tables[np.arange(groups), digits.T])
    if ring.lanes == 1:
        return reduce(lambda result, product: result * result * product % ring.modulus, ring.numbers(products)[::-1])
    result = products[-1:]
    for place in reversed(range(bits - 1)):
        result = ring.multiply(ring.multiply(result, result), products[place : place + 1])
    return ring.numbers(result)[0]


def _weighted(ring: Ring, factors: Array, digits: Array) -> list[mpz]:
    """The product of factors^digit for each of the windows that are the columns of `digits`."""
    one, places = ring.array([mpz(1)]), np.arange(digits.shape[1])
    count = max(digits.max(), 1) + 1
    buckets = np.repeat(one, len(places) * count, axis=0).reshape(len(places), count, *one.shape[1:])
    for place, row in enumerate(digits):
        buckets[places, row] = ring.multiply(buckets[places, row], factors[place : place + 1])
    running = total = buckets[:, -1]
    for digit in range(count - 2, 0, -1):
        running = ring.multiply(running, buckets[:, digit])
        total = ring.multiply(total, running)
    return ring.numbers(total)
