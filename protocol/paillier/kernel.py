"""Arithmetic modulo one number: eight products side by side, or one wide one, where the processor can.

An *array* is what a `Ring` computes with: a numpy array whose elements are numbers, indexed and reshaped like any
other. Under gmpy2 they are mpz objects. With AVX-512 IFMA (ifma.c) an element is a row of 52-bit limbs in Montgomery
form: a R modulo the modulus, R = 2^(52 limbs) (Montgomery 1985, section 1). What comes out by `numbers` is the same,
bit by bit, several times faster. The C extension is built where there is a compiler; the environment variable
PSEPHOS_KERNEL ("ifma" or "gmpy2") and `use` choose.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, reduce
from itertools import cycle
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

__all__ = ["KERNELS", "Array", "Ring", "kernel", "long_power", "ring", "use"]

Array = NDArray[Any]

KERNELS = ("ifma", "gmpy2") if _ifma is not None and _ifma.available() else ("gmpy2",)
"""What this machine has, the fastest first."""

_LIMB = 52
_LARGEST = 1000 * _LIMB - 2  # bits: ifma.c's LIMIT
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
    """The integers modulo `modulus`, by gmpy2. Elements are in [0, modulus) wherever they can be seen.

    Attributes:
        modulus: any; what ifma.c takes is odd.
        lanes: how many products are made together.
    """

    lanes = 1

    def __init__(self, modulus: mpz) -> None:
        self.modulus = mpz(modulus)

    def array(self, numbers: Sequence[mpz]) -> Array:
        """`count` numbers as an array, shape (count,), of Python objects; ifma.c's is (count, limbs) of uint64."""
        elements = np.empty(len(numbers), dtype=object)
        elements[:] = numbers
        return elements

    def numbers(self, elements: Array) -> list[mpz]:
        """The inverse, of an array of shape (count,)."""
        return list(elements % self.modulus)

    def multiply(self, left: Array, right: Array) -> Array:
        """Element by element; `right` has the shape of `left`, or shape (1,): one element."""
        product: Array = left * right % self.modulus
        return product

    def fold(self, elements: Array) -> Array:
        """The product of each row of an array of shape (rows, columns), as shape (rows,)."""
        while (columns := elements.shape[1]) > 1:
            half = columns // 2
            pairs = self.multiply(elements[:, :half], elements[:, half : 2 * half])
            elements = np.concatenate([pairs, elements[:, 2 * half :]], axis=1)
        return elements[:, 0]

    def power(self, units: Sequence[mpz], *exponents: mpz) -> list[mpz]:
        """Each unit to one positive exponent; of k exponents, the product of every k neighbouring units to theirs.

        Exponents are secrets: neither the order of steps nor what is read depends on their bits.
        """
        powers = iter([gmpy2.powmod_sec(x, e, self.modulus) for x, e in zip(units, cycle(exponents), strict=False)])
        return [reduce(self.multiply, each) for each in zip(*[powers] * len(exponents), strict=True)]

    def products(self, *rows: Sequence[mpz]) -> list[mpz]:
        """The products of the first of each row, of the second, and so on."""
        return [reduce(lambda a, b: a * b % self.modulus, column) for column in zip(*rows, strict=True)]


class _IfmaRing(Ring):
    """The same by ifma.c: elements below twice the modulus, as rows of limbs along a last axis of their own."""

    lanes = 8

    def __init__(self, modulus: mpz) -> None:
        super().__init__(modulus)
        limbs = -(-(self.modulus.bit_length() + 2) // _LIMB)  # R > 4 modulus
        self._limbs = -(-limbs // 8) * 8
        self._bytes = self._limbs * _LIMB // 8
        self._inverse = int(gmpy2.invert(-self.modulus, 1 << _LIMB))
        self._r = gmpy2.powmod(2, self._limbs * _LIMB, self.modulus)
        numbers = (self.modulus, mpz(1), self._r, self._r**2 % self.modulus)
        self._n, self._one, self._unit, self._r_squared = self._rows(numbers)

    def _rows(self, numbers: Sequence[mpz]) -> Array:
        """Limbs of numbers below R: thirteen bytes are two limbs."""
        data = b"".join([number.to_bytes(self._bytes, "little") for number in numbers])
        pairs = np.frombuffer(data, dtype=np.uint8).reshape(-1, 13)
        limbs = np.zeros((len(pairs), 2, 8), dtype=np.uint8)
        limbs[:, 0, :7], limbs[:, 1, :7] = pairs[:, :7], pairs[:, 6:]
        words = limbs.view("<u8")[..., 0]
        words[:, 0] &= (1 << _LIMB) - 1
        words[:, 1] >>= 4
        return words.reshape(len(numbers), self._limbs)

    def _integers(self, rows: Array) -> list[mpz]:
        """The inverse."""
        words = rows.reshape(-1, 2)
        data = np.empty((len(words), 13), dtype=np.uint8)
        data[:, :7] = (words[:, 0] | words[:, 1] << np.uint64(_LIMB)).view(np.uint8).reshape(-1, 8)[:, :7]
        data[:, 7:] = (words[:, 1] >> np.uint64(4)).view(np.uint8).reshape(-1, 8)[:, :6]
        stream, size = data.tobytes(), self._bytes
        return [mpz.from_bytes(stream[at : at + size], "little") % self.modulus for at in range(0, len(stream), size)]

    def _compute(self, left: Array, right: Array, *exponents: mpz) -> Array:
        size = (max((exponent.bit_length() for exponent in exponents), default=0) + 7) // 8
        digits = b"".join([exponent.to_bytes(size, "big") for exponent in exponents]) if exponents else None
        out = np.empty_like(left[:: max(len(exponents), 1)])
        _ifma.compute(out, left, right, digits, self._n, self._inverse)
        return out

    def multiply(self, left: Array, right: Array) -> Array:
        return self._compute(np.ascontiguousarray(left), np.ascontiguousarray(right))

    def array(self, numbers: Sequence[mpz]) -> Array:
        return self.multiply(self._rows([number % self.modulus for number in numbers]), self._r_squared)

    def numbers(self, elements: Array) -> list[mpz]:
        return self._integers(self.multiply(elements, self._one))

    def power(self, units: Sequence[mpz], *exponents: mpz) -> list[mpz]:
        return self.numbers(self._compute(self.array(units), self._unit, *exponents))

    def products(self, *rows: Sequence[mpz]) -> list[mpz]:
        if len(rows) < 4:  # to pack and unpack would cost more
            return super().products(*rows)
        # Every product of plain numbers loses a factor R; one multiplication brings them all back.
        lost = self._rows([gmpy2.powmod(self._r, len(rows), self.modulus)])
        product = reduce(self.multiply, (self._rows([number % self.modulus for number in row]) for row in rows))
        return self._integers(self.multiply(product, lost))


def _ring(modulus: mpz, name: str) -> Ring:
    fits = modulus % 2 == 1 and _SMALLEST <= modulus.bit_length() <= _LARGEST
    return _IfmaRing(modulus) if name == "ifma" and fits else Ring(modulus)


_public_ring = lru_cache(maxsize=16)(_ring)


def ring(modulus: mpz, *, secret: bool = False) -> Ring:
    """Arithmetic modulo a number; a secret one's ring is its owner's to keep."""
    return _ring(modulus, kernel()) if secret else _public_ring(modulus, kernel())


def long_power(n: mpz, units: Sequence[mpz], exponent: mpz) -> list[mpz]:
    """Each unit modulo n^2 to one positive exponent, a secret, which may be longer than n.

    u^n modulo n^2 depends on u modulo n only. So c^e = c^(e mod n) (c^(e div n) mod n)^n, and what e has beyond the
    length of n is a power modulo n, at a quarter of the price; the two others share their squarings.
    """
    quotient, rest = divmod(exponent, n)
    squared = ring(n * n)
    if squared.lanes == 1 or not (quotient and rest):  # powers one by one share nothing
        return squared.power(units, exponent)
    roots = ring(n).power([unit % n for unit in units], quotient)
    return squared.power([x for pair in zip(units, roots, strict=True) for x in pair], rest, n)
