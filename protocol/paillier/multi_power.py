"""Products of powers with many long exponents, base by base the same: sliding windows that share their squarings.

A party of the repaired Pathak protocol raises every rung's ciphertext to its packed noise, for each of the
ciphertexts of a vector: rungs times ciphertexts powers with exponents as long as the key. Noise fills only part of
a slot (the rest waits for the mask), so windows skip most of the bits, and all powers of one product square together.
The time depends on the exponents (docs/security: timing is not protected).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from gmpy2 import mpz

from psephos.protocol.errors import InvalidParameter

_WINDOW = 5


def multi_powers(bases: Sequence[mpz], exponents: Sequence[Sequence[int | mpz]], modulus: mpz) -> list[mpz]:
    """prod_i bases[i]^row[i] modulo `modulus`, for each row of `exponents`.

    Raises InvalidParameter for a negative exponent or a row of another length than the bases.
    """
    tables = [_odd_powers(base, modulus) for base in bases]
    products = []
    for row in exponents:
        if len(row) != len(bases) or min(row) < 0:
            raise InvalidParameter("every base needs one exponent, and none may be negative")
        steps: dict[int, list[mpz]] = defaultdict(list)
        for table, exponent in zip(tables, row, strict=True):
            _windows(mpz(exponent), table, steps)
        product = mpz(1)
        for place in range(max(steps, default=-1), -1, -1):
            product = product * product % modulus
            for factor in steps.get(place, ()):
                product = product * factor % modulus
        products.append(product)
    return products


def _odd_powers(base: mpz, modulus: mpz) -> list[mpz]:
    square = base * base % modulus
    powers = [base % modulus]
    for _ in range((1 << (_WINDOW - 1)) - 1):
        powers.append(powers[-1] * square % modulus)
    return powers


def _windows(exponent: mpz, table: Sequence[mpz], steps: dict[int, list[mpz]]) -> None:
    """Cut an exponent into odd digits of at most five bits and note the power of each at the place it stands."""
    mask = (1 << _WINDOW) - 1
    place = exponent.bit_scan1(0)
    while place is not None:
        digit = int(exponent >> place & mask)
        steps[place].append(table[digit >> 1])
        place = exponent.bit_scan1(place + _WINDOW)
