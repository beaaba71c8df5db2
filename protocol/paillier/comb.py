"""Fast powers of a fixed base: Lim and Lee's comb (CRYPTO 1994) with several tables.

An exponent of h a bits is written as h rows of a bits; v tables of 2^h entries share the a columns, b = ceil(a / v)
each. Which entries are read depends on the exponent, so an observer of memory accesses learns digits of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from gmpy2 import mpz

from psephos.protocol.errors import InvalidParameter
from psephos.protocol.paillier.kernel import Array, Ring
from psephos.protocol.randomness import Randomness

_MAX_ROWS = 13
_TOGETHER = 128  # powers per batch, so that intermediate results fit in the L2 cache


@dataclass(frozen=True)
class CombShape:
    """The dimensions of a comb: h bits per table index, v tables of b columns each."""

    rows: int
    tables: int
    columns: int

    @property
    def exponent_bits(self) -> int:
        return self.rows * self.tables * self.columns

    @property
    def table_entries(self) -> int:
        return self.tables << self.rows

    @property
    def multiplications(self) -> int:
        """Number of multiplications and squarings per power."""
        return self.tables * self.columns + self.columns - 2


@lru_cache(maxsize=64)  # every encryptor of a run uses the same shape
def best_shape(exponent_bits: int, *, powers: int, entry_bytes: int, memory: int = 50_000_000) -> CombShape:
    """Return the shape with the lowest cost for `powers` powers and its tables; exponents may be a few bits longer."""
    if exponent_bits < 1:
        raise InvalidParameter(f"exponent_bits is {exponent_bits}; it must be at least 1")
    shapes = []
    for rows in range(1, _MAX_ROWS + 1):
        width = -(-exponent_bits // rows)
        for columns in range(1, min(width, 64) + 1):
            shape = CombShape(rows, -(-width // columns), columns)
            if shape.table_entries * (entry_bytes + 48) <= memory or rows == 1:
                shapes.append(shape)
    return min(shapes, key=lambda s: (s.table_entries + max(powers, 1) * s.multiplications, s.table_entries))


class FixedBaseComb:
    """Tables for powers of `base` in a ring. They take tens of megabytes, so every process computes its own."""

    def __init__(self, base: mpz, ring: Ring, shape: CombShape) -> None:
        self.shape = shape
        self._ring, modulus = ring, ring.modulus
        # Bit (row, table, column) of an exponent weighs base^(2^(row * v * b + table * b + column)).
        generators = []
        power = base % modulus
        for _ in range(shape.rows * shape.tables):
            generators.append(power)
            for _ in range(shape.columns):
                power = power * power % modulus
        steps = self._ring.array(generators)
        one = self._ring.array([mpz(1)])
        self._tables = np.empty((shape.tables, 1 << shape.rows, *one.shape[1:]), dtype=steps.dtype)
        for number, table in enumerate(self._tables):
            table[:1] = one
            for row in range(shape.rows):
                filled, place = 1 << row, row * shape.tables + number
                table[filled : 2 * filled] = self._ring.multiply(table[:filled], steps[place : place + 1])

    def power(self, exponent: int) -> mpz:
        """Return base^exponent; raise InvalidParameter unless 0 <= exponent < 2^exponent_bits."""
        if not 0 <= exponent < 1 << self.shape.exponent_bits:
            raise InvalidParameter(f"the exponent must lie in [0, 2^{self.shape.exponent_bits})")
        octets = int(exponent).to_bytes((self.shape.exponent_bits + 7) // 8, "little")
        bits = np.unpackbits(np.frombuffer(octets, dtype=np.uint8), count=self.shape.exponent_bits, bitorder="little")
        return self._evaluate(((1 << np.arange(self.shape.rows)) @ bits.reshape(self.shape.rows, -1))[np.newaxis])[0]

    def draw(self, randomness: Randomness) -> bytes:
        """Draw the encoded digits of an exponent, uniform in [0, 2^exponent_bits), which are secret."""
        size = 2 * self.shape.tables * self.shape.columns
        return randomness.draw(size)

    def drawn_powers(self, strings: Sequence[bytes]) -> list[mpz]:
        """Return base^e for the exponents e of several `draw`s."""
        mask, width = (1 << self.shape.rows) - 1, self.shape.tables * self.shape.columns
        digits = np.frombuffer(b"".join(strings), dtype=np.uint16).reshape(len(strings), width) & mask
        batches = (digits[at : at + _TOGETHER] for at in range(0, len(digits), _TOGETHER))
        return [power for batch in batches for power in self._evaluate(batch)]

    def exponent(self, string: bytes) -> mpz:
        """Convert an exponent from `draw` to an integer, as a proof about it needs."""
        digits = np.frombuffer(string, dtype=np.uint16)
        bits = (digits >> np.arange(self.shape.rows)[:, None]) & 1
        return mpz.from_bytes(np.packbits(bits.astype(np.uint8).ravel(), bitorder="little").tobytes(), "little")

    def _evaluate(self, digits: Array) -> list[mpz]:
        """Return the powers with these digits, (powers, tables * columns); columns of one table are adjacent."""
        # If there are fewer powers than lanes, the tables are distributed over the lanes: a power is then the product
        # of several parts, each from its own tables.
        columns, multiply, powers = self.shape.columns, self._ring.multiply, len(digits)
        parts = max(1, self._ring.lanes >> (powers - 1).bit_length())
        each = -(-self.shape.tables // parts)
        padded: Array = np.zeros((powers, parts * each, columns), dtype=digits.dtype)  # entry 0 is 1
        padded[:, : self.shape.tables] = digits.reshape(powers, self.shape.tables, columns)
        tables = np.minimum(np.arange(parts * each), self.shape.tables - 1).reshape(parts, each)
        padded = padded.reshape(powers, parts, each, columns)
        result: Array | None = None
        for column in range(columns - 1, -1, -1):
            if result is not None:
                result = multiply(result, result)
            for place in range(each):
                entries = self._tables[tables[:, place], padded[:, :, place, column]]
                result = entries if result is None else multiply(result, entries)
        assert result is not None
        return self._ring.numbers(self._ring.fold(result))

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("comb tables cannot be pickled; every process computes its own")


@lru_cache(maxsize=8)
def shared_comb(base: mpz, ring: Ring, shape: CombShape) -> FixedBaseComb:
    """Return the comb of a public base, whose tables all of a process share."""
    return FixedBaseComb(base, ring, shape)
