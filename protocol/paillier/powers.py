"""Products of powers of several bases; the time depends on the exponents.

They are public in proofs, and the packed noise of a party of the repaired Pathak protocol (docs/security/index.md).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from gmpy2 import mpz

from psephos.protocol.errors import InvalidParameter
from psephos.protocol.paillier.kernel import Array, Ring

_TOGETHER = 8

_SHARE = 5
"""Number of bases that share a table, which takes 26 multiplications to compute."""


def power_product(bases: Sequence[mpz], exponents: Sequence[mpz], ring: Ring) -> mpz:
    """Return prod_i bases[i]^exponents[i], by shared tables for few bases, else by Pippenger's buckets (1976)."""
    if len(bases) != len(exponents) or min(exponents, default=0) < 0:
        raise InvalidParameter("every base needs one exponent, and none may be negative")
    bits = max((int(e).bit_length() for e in exponents), default=0)
    # At most 2^13 buckets per window; eight windows take 63 MB at 3072 bits.
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
    """Return the product by Straus' method (1964): every five bases share a table of their products, bit by bit."""
    groups, size = -(-len(bases) // _SHARE), (bits + 7) // 8
    factors = ring.array([*bases, *[mpz(1)] * (-len(bases) % _SHARE)])
    factors = factors.reshape(groups, _SHARE, *factors.shape[1:])
    tables = np.repeat(ring.array([mpz(1)]), groups, axis=0)[:, np.newaxis]
    for place in range(_SHARE):
        several = np.repeat(factors[:, place : place + 1], tables.shape[1], axis=1)
        tables = np.concatenate([tables, ring.multiply(tables, several)], axis=1)
    octets = b"".join([int(e).to_bytes(size, "little") for e in exponents]).ljust(groups * _SHARE * size, b"\0")
    bit_array = np.unpackbits(np.frombuffer(octets, np.uint8).reshape(groups, _SHARE, size), axis=2, bitorder="little")
    digits = (1 << np.arange(_SHARE)) @ bit_array[..., :bits]
    return ring.multi_power(tables, digits)


def _weighted(ring: Ring, factors: Array, digits: Array) -> list[mpz]:
    """Return the product of factors^digit for each window, a column of `digits`."""
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
