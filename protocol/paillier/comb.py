"""Powers of one fixed base, fast: Lim and Lee's comb (CRYPTO 1994) with several tables.

An exponent of h a bits is written as h rows of a bits. Table j holds, for each of the 2^h columns, the product of
the powers of the base that the column's ones stand for; v tables share the a columns, b = ceil(a / v) each, so a
power costs v b - 1 multiplications and b - 1 squarings. Which table entries are read depends on the exponent: an
observer of memory accesses learns digits of it (docs/design.md, section 3). Many powers are computed together,
step by step, which is what `kernel` is fast at.
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

__all__ = ["CombShape", "FixedBaseComb", "best_shape"]

_MAX_ROWS = 13
_TOGETHER = 128  # powers: their intermediate results stay in the processor's second cache


@dataclass(frozen=True)
class CombShape:
    """How a comb is cut.

    Attributes:
        rows: h, bits per table index.
        tables: v.
        columns: b, columns that each table serves; exponents have h v b bits.
    """

    rows: int
    tables: int
    columns: int

    @property
    def exponent_bits(self) -> int:
        """Length of an exponent, h v b bits."""
        return self.rows * self.tables * self.columns

    @property
    def table_entries(self) -> int:
        """Group elements kept, v 2^h; making them costs about as many multiplications."""
        return self.tables << self.rows

    @property
    def multiplications(self) -> int:
        """Modular multiplications and squarings for one power."""
        return self.tables * self.columns + self.columns - 2


@lru_cache(maxsize=64)  # every encryptor of a run asks for the same one
def best_shape(exponent_bits: int, *, powers: int, entry_bytes: int, memory: int = 50_000_000) -> CombShape:
    """The shape that costs least for `powers` powers, the making of its tables included.

    Args:
        exponent_bits: least length of an exponent; the shape's may be a few bits longer.
        powers: number of powers the table will serve.
        entry_bytes: size of a group element.
        memory: bytes the tables may take; a single row is always allowed.

    Raises InvalidParameter when `exponent_bits` is below 1.
    """
    if exponent_bits < 1:
        raise InvalidParameter(f"an exponent has at least one bit, not {exponent_bits}")
    shapes = []
    for rows in range(1, _MAX_ROWS + 1):
        width = -(-exponent_bits // rows)
        for columns in range(1, min(width, 64) + 1):
            shape = CombShape(rows, -(-width // columns), columns)
            if shape.table_entries * (entry_bytes + 48) <= memory or rows == 1:
                shapes.append(shape)
    return min(shapes, key=lambda s: (s.table_entries + max(powers, 1) * s.multiplications, s.table_entries))


class FixedBaseComb:
    """Tables for powers of `base` in a ring. Tens of megabytes: one per process; pickling raises TypeError."""

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
                made, place = 1 << row, row * shape.tables + number
                table[made : 2 * made] = self._ring.multiply(table[:made], steps[place : place + 1])

    def power(self, exponent: int) -> mpz:
        """base^exponent; raises InvalidParameter unless 0 <= exponent < 2^exponent_bits."""
        if not 0 <= exponent < 1 << self.shape.exponent_bits:
            raise InvalidParameter(f"the exponent must lie in [0, 2^{self.shape.exponent_bits})")
        octets = int(exponent).to_bytes((self.shape.exponent_bits + 7) // 8, "little")
        bits = np.unpackbits(np.frombuffer(octets, dtype=np.uint8), count=self.shape.exponent_bits, bitorder="little")
        return self._evaluate(((1 << np.arange(self.shape.rows)) @ bits.reshape(self.shape.rows, -1))[np.newaxis])[0]

    def random_powers(self, count: int, randomness: Randomness) -> list[mpz]:
        """base^e for `count` independent e uniform in [0, 2^exponent_bits)."""
        return self.drawn_powers([self.draw(randomness) for _ in range(count)])

    def draw(self, randomness: Randomness) -> bytes:
        """The digits of a uniform exponent: a secret."""
        size = 2 * self.shape.tables * self.shape.columns
        return randomness.draw(size)

    def drawn_powers(self, drawn: Sequence[bytes]) -> list[mpz]:
        """base^e for each exponent that was drawn."""
        mask, width = (1 << self.shape.rows) - 1, self.shape.tables * self.shape.columns
        digits = np.frombuffer(b"".join(drawn), dtype=np.uint16).reshape(len(drawn), width) & mask
        batches = (digits[at : at + _TOGETHER] for at in range(0, len(digits), _TOGETHER))
        return [power for batch in batches for power in self._evaluate(batch)]

    def exponent(self, drawn: bytes) -> mpz:
        """The exponent that was drawn, as a number: what a proof about it needs."""
        digits = np.frombuffer(drawn, dtype=np.uint16)
        bits = (digits >> np.arange(self.shape.rows)[:, None]) & 1
        return mpz.from_bytes(np.packbits(bits.astype(np.uint8).ravel(), bitorder="little").tobytes(), "little")

    def _evaluate(self, digits: Array) -> list[mpz]:
        # digits[:, table * columns + column] are the powers' indices into that table at that column. Fewer powers than
        # the ring has lanes share them out: a power is then the product of as many parts, each of its own tables.
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

    def __repr__(self) -> str:
        return f"<FixedBaseComb {self.shape}>"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("comb tables are made anew in each process, never pickled")
