"""Arithmetic modulo n^D, by gmpy2 or, where the processor has AVX-512 IFMA, eight products at a time.

A `Ring` computes with numpy arrays whose last axis is one element: the D digits of a number to the base n. With IFMA
(ifma.c) a digit is a row of 52-bit limbs in Montgomery form: a R modulo n^D, R = 2^(52 limbs) (Montgomery 1985). Both
kernels give identical numbers. PSEPHOS_KERNEL ("ifma" or "gmpy2") and `use` select one.
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
except ImportError:  # installed without a compiler
    _ifma = None

Array = NDArray[Any]

KERNELS = ("ifma", "gmpy2") if _ifma is not None and _ifma.available() else ("gmpy2",)
"""Kernels of this machine, the fastest first."""

_LIMB = 52
_LIMBS = 1000  # largest number of limbs of a digit: LIMIT in ifma.c
_SMALLEST = 1000  # bits; below, the overhead of numpy exceeds the cost of the multiplications

_DEFAULT = os.environ.get("PSEPHOS_KERNEL", "")
_chosen: ContextVar[str] = ContextVar("kernel", default=_DEFAULT)


def kernel() -> str:
    """Return the name of the current kernel; raise InvalidParameter if this machine does not have it."""
    if (name := _chosen.get() or KERNELS[0]) not in KERNELS:
        raise InvalidParameter(f"PSEPHOS_KERNEL is {name!r}; this machine has {', '.join(KERNELS)}")
    return name


def compiled() -> bool:
    """Return whether C extensions may be used: unless PSEPHOS_KERNEL or `use` selects "gmpy2"."""
    return _chosen.get() != "gmpy2"


@contextmanager
def use(name: str) -> Iterator[None]:
    """Select one of `KERNELS` inside a context, for comparisons and tests; raise InvalidParameter for another name."""
    token = _chosen.set(name)
    try:
        kernel()
        yield
    finally:
        _chosen.reset(token)


class Ring:
    """The integers modulo base^digits, computed by gmpy2, `lanes` products at a time."""

    lanes = 1

    def __init__(self, base: mpz, digits: int = 1) -> None:
        self.modulus = mpz(base) ** digits
        self._base, self._digits = mpz(base), digits

    def array(self, numbers: Sequence[mpz]) -> Array:
        """Convert numbers to an array: (count, digits) of Python objects, or (count, limbs) of uint64 for ifma.c."""
        elements = np.empty((len(numbers), self._digits), dtype=object)
        for row, number in zip(elements, numbers, strict=True):
            row[:] = self._split(number)
        return elements

    def _split(self, number: mpz) -> list[mpz]:
        """Return the digits of a number modulo the modulus, the lowest first."""
        digits = []
        for _ in range(self._digits):
            number, digit = gmpy2.f_divmod(number, self._base)
            digits.append(digit)
        return digits

    def _joined(self, digits: Iterable[mpz]) -> mpz:
        """Return the number with these digits, the highest first, modulo the modulus; digits may exceed the base."""
        return reduce(lambda number, digit: number * self._base + digit, digits, mpz(0)) % self.modulus

    def numbers(self, elements: Array) -> list[mpz]:
        """Convert an array of shape (count, digits) back to numbers in [0, modulus)."""
        return [self._joined(row[::-1]) for row in elements]

    def multiply(self, left: Array, right: Array) -> Array:
        """Multiply element by element; `right` has the shape of `left`, or is one element of shape (1, digits)."""
        if self._digits == 1:
            plain: Array = left * right % self._base
            return plain
        product, carry = np.empty_like(left), 0
        for k in range(self._digits):
            total = carry + sum(left[..., i] * right[..., k - i] for i in range(k + 1))
            carry, product[..., k] = _divided(total, self._base)
        return product

    def fold(self, elements: Array) -> Array:
        """Multiply the elements of each row: shape (rows, columns, ...) -> shape (rows, ...)."""
        while (columns := elements.shape[1]) > 1:
            half = columns // 2
            pairs = self.multiply(elements[:, :half], elements[:, half : 2 * half])
            elements = np.concatenate([pairs, elements[:, 2 * half :]], axis=1)
        return elements[:, 0]

    def power(self, numbers: Sequence[mpz], exponent: mpz) -> list[mpz]:
        """Raise each unit to one positive, secret exponent; the sequence of operations does not depend on its bits."""
        return [gmpy2.powmod_sec(number, exponent, self.modulus) for number in numbers]

    def products(self, *rows: Sequence[mpz]) -> list[mpz]:
        return [reduce(lambda a, b: a * b % self.modulus, column) for column in zip(*rows, strict=True)]

    def multi_power(self, tables: Array, digits: Array) -> mpz:
        """Return the product over g and i of tables[g, digits[g, i]]^(2^i); the digits are public.

        Tables have shape (groups, entries, ...), digits (groups, places).
        """
        products = self.numbers(self.fold(tables[np.arange(len(tables)), digits.T]))
        return reduce(lambda result, product: result * result * product % self.modulus, products[::-1])


_divided = np.frompyfunc(gmpy2.f_divmod, 2, 2)
"""Quotients and remainders of arrays of integers, entry by entry."""


class _IfmaRing(Ring):
    """The same by ifma.c. Elements are rows of limbs along the last axis, below twice the modulus."""

    lanes = 8

    def __init__(self, base: mpz, digits: int = 1) -> None:
        super().__init__(base, digits)
        self._limbs = _limbs(self._base, digits)
        self._bytes = self._limbs * _LIMB // 8
        self._inverse = int(gmpy2.invert(-self._base, 1 << _LIMB))
        shift = self._limbs * _LIMB
        # ifma.c adds an excess of R - 1 to every digit but the first; these moduli compensate for it.
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
        """Return the limbs of the digits of numbers, which need not be reduced."""
        return self._limbs_of([digit for number in numbers for digit in self._split(number)])

    def _limbs_of(self, numbers: Sequence[mpz]) -> Array:
        """Return the limbs of numbers below R, `digits` numbers per row; 13 bytes hold two limbs."""
        data = b"".join([number.to_bytes(self._bytes, "little") for number in numbers])
        pairs = np.frombuffer(data, dtype=np.uint8).reshape(-1, 13)
        limbs = np.zeros((len(pairs), 2, 8), dtype=np.uint8)
        limbs[:, 0, :7], limbs[:, 1, :7] = pairs[:, :7], pairs[:, 6:]
        words = limbs.view("<u8")[..., 0]
        words[:, 0] &= (1 << _LIMB) - 1
        words[:, 1] >>= 4
        return words.reshape(-1, self._digits * self._limbs)

    def _integers(self, rows: Array) -> list[mpz]:
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

    def multi_power(self, tables: Array, digits: Array) -> mpz:
        out, octets = np.empty_like(tables[0, :1]), digits.astype(np.uint8)
        tables = np.ascontiguousarray(tables)
        _ifma.multi_power(out, tables, octets, len(tables), self._moduli, self._inverse, self._digits)
        return self.numbers(out)[0]

    def products(self, *rows: Sequence[mpz]) -> list[mpz]:
        if len(rows) < 4:  # packing and unpacking would cost more
            return super().products(*rows)
        if self._digits > 1 and _limbs(self.modulus, 1) <= _LIMBS:  # splitting numbers into digits would cost more
            return _public_ring(self.modulus, 1, "ifma").products(*rows)
        # Every Montgomery product of plain numbers loses a factor R; one multiplication restores all of them.
        lost = self._rows([gmpy2.powmod(self._r, len(rows), self.modulus)])
        return self._integers(self.multiply(reduce(self.multiply, map(self._rows, rows)), lost))


def _limbs(base: mpz, digits: int) -> int:
    """Return the number of limbs of a digit: R > 4 base, or R > 8 digits base for several digits (ifma.c)."""
    bits = int(base.bit_length()) + (2 if digits == 1 else 6)
    return -(-bits // (8 * _LIMB)) * 8


def _ring(base: mpz, digits: int, name: str) -> Ring:
    """Create the ring for a kernel; small or unsuitable moduli use gmpy2."""
    if base.bit_length() < _SMALLEST:
        base, digits = base**digits, 1
    long_enough = base.bit_length() >= _SMALLEST and digits <= 8
    if name == "ifma" and base % 2 == 1 and long_enough and _limbs(base, digits) * (digits + 1) <= 2 * _LIMBS:
        return _IfmaRing(base, digits)
    return Ring(base, digits) if digits > 2 else Ring(base**digits)  # gmpy2 gains nothing from two digits


_public_ring = lru_cache(maxsize=16)(_ring)


def ring(base: mpz, digits: int = 1, *, secret: bool = False) -> Ring:
    """Return arithmetic modulo base^digits; rings of secret moduli are not cached."""
    return (_ring if secret else _public_ring)(base, digits, kernel())
