"""Powers of one fixed base, fast: Lim and Lee's comb (CRYPTO 1994) with several tables.

An exponent of h a bits is written as h rows of a bits. Table j holds, for each of the 2^h columns, the product of
the powers of the base that the column's ones stand for; v tables share the a columns, b = ceil(a / v) each, so a
power costs v b - 1 multiplications and b - 1 squarings. Which table entries are read depends on the exponent: an
observer of memory accesses learns digits of it (DESIGN section 3, docs/security).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from gmpy2 import mpz

from psephos.protocol.errors import InvalidParameter
from psephos.protocol.randomness import Randomness

__all__ = ["CombShape", "FixedBaseComb", "best_shape"]

_MAX_ROWS = 13


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
    """Tables for powers of `base` modulo `modulus`. Tens of megabytes: one per process; pickling raises TypeError."""

    def __init__(self, base: mpz, modulus: mpz, shape: CombShape) -> None:
        self.shape = shape
        self._modulus = modulus
        rows, tables, columns = shape.rows, shape.tables, shape.columns
        # Bit (row, table, column) of an exponent weighs base^(2^(row * v * b + table * b + column)).
        self._tables: list[list[mpz]] = []
        generators = []
        power = base % modulus
        for _row in range(rows):
            of_row = []
            for _table in range(tables):
                of_row.append(power)
                for _ in range(columns):
                    power = power * power % modulus
            generators.append(of_row)
        for table in range(tables):
            entries = [mpz(1)]
            for row in range(rows):
                step = generators[row][table]
                entries += [entry * step % modulus for entry in entries]
            self._tables.append(entries)

    def power(self, exponent: int) -> mpz:
        """base^exponent mod modulus; raises InvalidParameter unless 0 <= exponent < 2^exponent_bits."""
        if not 0 <= exponent < 1 << self.shape.exponent_bits:
            raise InvalidParameter(f"the exponent must lie in [0, 2^{self.shape.exponent_bits})")
        width = self.shape.tables * self.shape.columns
        digits = [
            sum((exponent >> (row * width + place) & 1) << row for row in range(self.shape.rows))
            for place in range(width)
        ]
        return self._evaluate(digits)

    def random_power(self, randomness: Randomness) -> mpz:
        """base^e for e uniform in [0, 2^exponent_bits): its digits are drawn, e itself is never assembled."""
        return self.drawn_power(self.draw(randomness))

    def draw(self, randomness: Randomness) -> bytes:
        """The digits of a uniform exponent: a secret."""
        size = 2 * self.shape.tables * self.shape.columns
        return randomness.draw(size)

    def drawn_power(self, drawn: bytes) -> mpz:
        """base^e for the exponent that was drawn."""
        mask = (1 << self.shape.rows) - 1
        return self._evaluate([value & mask for value in memoryview(drawn).cast("H")])

    def exponent(self, drawn: bytes) -> mpz:
        """The exponent that was drawn, as a number: what a proof about it needs."""
        digits = np.frombuffer(drawn, dtype=np.uint16)
        bits = (digits >> np.arange(self.shape.rows, dtype=np.uint16)[:, None]) & 1
        return mpz.from_bytes(np.packbits(bits.astype(np.uint8).ravel(), bitorder="little").tobytes(), "little")

    def _evaluate(self, digits: Sequence[int]) -> mpz:
        # digits[table * columns + column] is the index into that table at that column.
        modulus, columns, tables = self._modulus, self.shape.columns, self._tables
        result: mpz | None = None
        for column in range(columns - 1, -1, -1):
            if result is not None:
                result = result * result % modulus
            place = column
            for table in tables:
                entry = table[digits[place]]
                result = entry if result is None else result * entry % modulus
                place += columns
        assert result is not None
        return result

    def __repr__(self) -> str:
        return f"<FixedBaseComb {self.shape}>"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("comb tables are made anew in each process, never pickled")
