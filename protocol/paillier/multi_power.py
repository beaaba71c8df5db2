"""Products of powers of the same bases with many long exponents, by windows that share their squarings.

A party of the repaired Pathak protocol raises the ciphertext of every rung to its packed noise. Noise fills only part
of a slot, so most windows are zero in all exponents and are skipped. Which table entries are read, and which windows
are skipped, depends on the exponents: timing is not protected (docs/security/index.md, "What is not protected").
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from gmpy2 import mpz

from psephos.protocol.errors import InvalidParameter
from psephos.protocol.paillier.kernel import Array, Ring

_WINDOW = 6


def multi_powers(bases: Sequence[mpz], exponents: Sequence[Sequence[int | mpz]], ring: Ring) -> list[mpz]:
    """Return prod_i bases[i]^row[i] for each row of exponents."""
    if any(len(row) != len(bases) or min(row, default=0) < 0 for row in exponents):
        raise InvalidParameter("every base needs one exponent, and none may be negative")
    powers = [ring.array([mpz(1)] * len(bases)), ring.array(bases)]
    while len(powers) < 1 << _WINDOW:
        powers.append(ring.multiply(powers[-1], powers[1]))
    table, places = np.stack(powers), np.arange(len(bases))
    result = ring.array([mpz(1)] * len(exponents))
    for digits in _digits(exponents):
        for _ in range(_WINDOW):
            result = ring.multiply(result, result)
        if digits.any():
            result = ring.multiply(result, ring.fold(table[digits, places]))
    return ring.numbers(result)


def _digits(exponents: Sequence[Sequence[int | mpz]]) -> Array:
    """Split exponents into windows of 6 bits: (windows, rows, bases), the highest window first."""
    windows = -(-max((int(e).bit_length() for row in exponents for e in row), default=0) // _WINDOW)
    size = (windows * _WINDOW + 7) // 8
    data = b"".join([int(e).to_bytes(size, "little") for row in exponents for e in row])
    shape = (len(exponents), len(exponents[0]) if exponents else 0)
    octets = np.frombuffer(data, dtype=np.uint8).reshape(*shape, size)
    bits = np.unpackbits(octets, axis=2, bitorder="little")[..., : windows * _WINDOW]
    digits = bits.reshape(*shape, windows, _WINDOW) @ (1 << np.arange(_WINDOW))
    return np.moveaxis(digits, 2, 0)[::-1]
