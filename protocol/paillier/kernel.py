"""Arithmetic modulo n^D: eight products side by side, or one wide one, where the processor can.

An *array* is what a `Ring` computes with: a numpy array whose last axis is one element, indexed and reshaped like any
other. An element is the D digits of a number to the base n: a product modulo n^D needs only those products of digits
that are not above it, D (D + 1) / 2 of them, and D divisions by n; that is less than a product of whole numbers and a
division by n^D, in gmpy2 as well. Under gmpy2 digits are mpz objects. With AVX-512 IFMA (ifma.c) a digit is a row of
52-bit limbs in Montgomery form: a R modulo n^D, R = 2^(52 limbs) (Montgomery 1985, section 1). What comes out by
`numbers` is the same, bit by bit, several times faster. The C extension is built where there is a compiler; the
environment variable PSEPHOS_KERNEL ("ifma" or "gmpy2") and `use` choose.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, reduce
from typing import Any

import gmpy2
import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from psephos.protocol.errors import InvalidParameter

try:
    from psephos.protocol.paillier import _ifma  # type: ignore[attr-defined]
except ImportError:  # no compiler where it was installed
    _ifma = None

__all__ = ["KERNELS", "Array", "Ring", "kernel", "ring", "use"]

Array = NDArray[Any]

KERNELS = ("ifma", "gmpy2") if hasattr(_ifma, "compute_digits") and _ifma.available() else ("gmpy2",)
"""What this machine has, the fastest first; an extension that was built from older sources is as good as none."""

_LIMB = 52
_LIMBS = 1000  # of one digit at most: ifma.c's LIMIT
_SMALLEST = 1000  # bits: below, numpy's bookkeeping costs more than the multiplications

_chosen: ContextVar[str] = ContextVar("kernel", default=os.environ.get("PSEPHOS_KERNEL") or KERNELS[0])


def kernel() -> str:
    """Which one computes; raises InvalidParameter when PSEPHOS_KERNEL names one that is not here."""
    if (name := _chosen.get()) not in KERNELS:
        raise InvalidParameter(f"PSEPHOS_KERNEL is one of {', '.join(KERNELS)} on this machine, not {name!r}")
    return name


@contextmanager
def use(name: str) -> Iterator[None]:
    """Compute by this one of `KERNELS`: for comparisons and tests. Raises InvalidParameter for another."""
    token = _chosen.set(name)
    try:
        kernel()
        yield
    finally:
        _chosen.reset(token)


class Ring:
    """The integers modulo base^digits, by gmpy2. Elements are in [0, modulus) wherever they can be seen.

    Attributes:
        modulus: base^digits; what ifma.c takes is odd.
        lanes: how many products are made together.
    """

    lanes = 1

    def __init__(self, base: mpz, digits: int = 1) -> None:
        self.modulus = mpz(base) ** digits
        self._base, self._digits = mpz(base), digits

    def array(self, numbers: Sequence[mpz]) -> Array:
        """Numbers as an array, shape (count, digits), of Python objects; ifma.c's are (count, limbs) of uint64."""
        elements = np.empty((len(numbers), self._digits), dtype=object)
        for row, number in zip(elements, numbers, strict=True):
            row[:] = self._split(number)
        return elements

    def _split(self, number: mpz) -> list[mpz]:
        """Its digits modulo the modulus, the lowest first."""
        digits = []
        for _ in range(self._digits):
            number, digit = gmpy2.f_divmod(number, self._base)
            digits.append(digit)
        return digits

    def _joined(self, digits: Iterable[mpz]) -> mpz:
        """The inverse of `_split`, for the highest digit first; digits may be too large."""
        return reduce(lambda number, digit: number * self._base + digit, digits, mpz(0)) % self.modulus

    def numbers(self, elements: Array) -> list[mpz]:
        """The inverse, of an array of shape (count, digits)."""
        return [self._joined(row[::-1]) for row in elements]

    def multiply(self, left: Array, right: Array) -> Array:
        """Element by element; `right` has the shape of `left`, or is one element, shape (1, digits)."""
        if self._digits == 1:
            plain: Array = left * right % self._base
            return plain
        product, carry = np.empty_like(left), 0
        for k in range(self._digits):
            total = carry + sum(left[..., i] * right[..., k - i] for i in range(k + 1))
            carry, product[..., k] = _divided(total, self._base)
        return product

    def fold(self, elements: Array) -> Array:
        """The product of each row of elements, an array of shape (rows, columns, ...), as shape (rows, ...)."""
        while (columns := elements.shape[1]) > 1:
            half = columns // 2
            pairs = self.multiply(elements[:, :half], elements[:, half : 2 * half])
            elements = np.concatenate([pairs, elements[:, 2 * half :]], axis=1)
        return elements[:, 0]

    def power(self, numbers: Sequence[mpz], exponent: mpz) -> list[mpz]:
        """Each unit to one positive exponent, a secret: neither its bits nor the order of steps depend on it."""
        return [gmpy2.powmod_sec(number, exponent, self.modulus) for number in numbers]

    def products(self, *rows: Sequence[mpz]) -> list[mpz]:
        """The products of the first of each row, of the second, and so on."""
        return [reduce(lambda a, b: a * b % self.modulus, column) for column in zip(*rows, strict=True)]


_divided = np.frompyfunc(gmpy2.f_divmod, 2, 2)
"""Quotients and remainders of an array of integers."""


class _IfmaRing(Ring):
    """The same by ifma.c: elements below twice the modulus, as rows of limbs along a last axis of their own."""

    lanes = 8

    def __init__(self, base: mpz, digits: int = 1) -> None:
        super().__init__(base, digits)
        self._limbs = _limbs(self._base, digits)
        self._bytes = self._limbs * _LIMB // 8
        self._inverse = int(gmpy2.invert(-self._base, 1 << _LIMB))
        shift = self._limbs * _LIMB
        # ifma.c carries R - 1 too much to every digit but the first, and c_k makes up for it and for the c before.
        moduli, excess = [self._base], (mpz(1) << shift) - 1
        owed = excess
        for _ in range(digits - 1):
            times = -(-owed // self._base)
            moduli.append(times * self._base - owed)
            owed = excess + times
        self._moduli = self._limbs_of(moduli)
        self._r = gmpy2.powmod(2, shift, self.modulus)
        self._one, self._unit, self._r_squared = self._rows((mpz(1), self._r, self._r**2))

    def _rows(self, numbers: Sequence[mpz]) -> Array:
        """Limbs of the digits of each number, which need not be reduced."""
        return self._limbs_of([digit for number in numbers for digit in self._split(number)])

    def _limbs_of(self, numbers: Sequence[mpz]) -> Array:
        """Limbs of numbers below R, one row for as many as an element has digits: thirteen bytes are two limbs."""
        data = b"".join([number.to_bytes(self._bytes, "little") for number in numbers])
        pairs = np.frombuffer(data, dtype=np.uint8).reshape(-1, 13)
        limbs = np.zeros((len(pairs), 2, 8), dtype=np.uint8)
        limbs[:, 0, :7], limbs[:, 1, :7] = pairs[:, :7], pairs[:, 6:]
        words = limbs.view("<u8")[..., 0]
        words[:, 0] &= (1 << _LIMB) - 1
        words[:, 1] >>= 4
        return words.reshape(-1, self._digits * self._limbs)

    def _integers(self, rows: Array) -> list[mpz]:
        """The inverse."""
        words = rows.reshape(-1, 2)
        data = np.empty((len(words), 13), dtype=np.uint8)
        data[:, :7] = (words[:, 0] | words[:, 1] << np.uint64(_LIMB)).view(np.uint8).reshape(-1, 8)[:, :7]
        data[:, 7:] = (words[:, 1] >> np.uint64(4)).view(np.uint8).reshape(-1, 8)[:, :6]
        stream, size = data.tobytes(), self._bytes
        digits = [mpz.from_bytes(stream[at : at + size], "little") for at in range(0, len(stream), size)]
        return [self._joined(digits[at : at + self._digits][::-1]) for at in range(0, len(digits), self._digits)]

    def _compute(self, left: Array, right: Array, exponent: bytes | None = None) -> Array:
        out = np.empty_like(left)
        _ifma.compute_digits(out, left, right, exponent, self._moduli, self._inverse, self._digits)
        return out

    def multiply(self, left: Array, right: Array) -> Array:
        return self._compute(np.ascontiguousarray(left), np.ascontiguousarray(right))

    def array(self, numbers: Sequence[mpz]) -> Array:
        return self.multiply(self._rows(numbers), self._r_squared)

    def numbers(self, elements: Array) -> list[mpz]:
        return self._integers(self.multiply(elements, self._one))

    def power(self, numbers: Sequence[mpz], exponent: mpz) -> list[mpz]:
        digits = exponent.to_bytes((exponent.bit_length() + 7) // 8, "big")
        return self.numbers(self._compute(self.array(numbers), self._unit, digits))

    def products(self, *rows: Sequence[mpz]) -> list[mpz]:
        if len(rows) < 4:  # to pack and unpack would cost more
            return super().products(*rows)
        if self._digits > 1 and _limbs(self.modulus, 1) <= _LIMBS:  # to take numbers apart, too
            return _public_ring(self.modulus, 1, "ifma").products(*rows)
        # Every product of plain numbers loses a factor R; one multiplication brings them all back.
        lost = self._rows([gmpy2.powmod(self._r, len(rows), self.modulus)])
        return self._integers(self.multiply(reduce(self.multiply, map(self._rows, rows)), lost))


def _limbs(base: mpz, digits: int) -> int:
    """Of one digit: R > 4 base, or 8 digits base with digits <= 8 (ifma.c)."""
    bits = int(base.bit_length()) + (2 if digits == 1 else 6)
    return -(-bits // (8 * _LIMB)) * 8


def _ring(base: mpz, digits: int, name: str) -> Ring:
    if base.bit_length() < _SMALLEST:
        base, digits = base**digits, 1
    long_enough = base.bit_length() >= _SMALLEST and digits <= 8
    if name == "ifma" and base % 2 == 1 and long_enough and _limbs(base, digits) * (digits + 1) <= 2 * _LIMBS:
        return _IfmaRing(base, digits)
    return Ring(base, digits) if digits > 2 else Ring(base**digits)  # two digits are no gain for gmpy2


_public_ring = lru_cache(maxsize=16)(_ring)


def ring(base: mpz, digits: int = 1, *, secret: bool = False) -> Ring:
    """Arithmetic modulo base^digits; a secret one's ring is its owner's to keep."""
    return (_ring if secret else _public_ring)(base, digits, kernel())
