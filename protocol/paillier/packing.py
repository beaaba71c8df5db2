"""Packing vectors of bounded integers into Paillier plaintexts (docs/design.md, section 3).

A `PackingPlan` fixes how many vectors will be added and the range of an entry, so that no sum can overflow into the
next slot. Slots are the digits of a plaintext in the smallest radix that holds every sum: 20,000 votes take 14.29 bits
per slot, not 15. Negative entries are stored with an offset: slot = entry - minimum.
"""

from __future__ import annotations

import hashlib
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from psephos.protocol.errors import PackingError, WrongKeyError
from psephos.protocol.paillier.keys import LARGEST_DEGREE, PublicKey
from psephos.protocol.storage.values import storable

IntegerVector = Sequence[int] | NDArray[np.integer]


@storable
@dataclass(frozen=True)
class PackingPlan:
    """How integer vectors of one length are packed into plaintexts under a key of `key_bits` bits.

    Raises PackingError: a field is not an integer or out of range, or a sum does not fit into a plaintext.

    Attributes:
        length: number of entries of a vector.
        addends: largest number of vectors that may be added.
        minimum, maximum: range of an entry of one addend, both included; minimum <= 0 <= maximum.
        degree: s of the key; plaintexts stay below 2^(s (key_bits - 1)) <= n^s.
    """

    length: int
    addends: int
    minimum: int
    maximum: int
    key_bits: int
    degree: int = 1

    def __post_init__(self) -> None:
        for name in ("length", "addends", "minimum", "maximum", "key_bits", "degree"):
            try:
                # numpy's integers become Python's: equal plans must have equal digests.
                object.__setattr__(self, name, operator.index(getattr(self, name)))
            except TypeError:
                raise PackingError(f"{name} must be an integer, not {getattr(self, name)!r}") from None
        if self.length < 1 or self.addends < 1:
            raise PackingError(f"a packing plan needs an entry and an addend, not {self.length}, {self.addends}")
        if not self.minimum <= 0 <= self.maximum or self.minimum == self.maximum:
            raise PackingError(f"a range contains 0 and another integer, not [{self.minimum}, {self.maximum}]")
        if self.slots_per_plaintext < 1:
            raise PackingError(
                f"the sum of {self.addends} entries in [{self.minimum}, {self.maximum}] takes "
                f"{(self.radix - 1).bit_length()} bits "
                f"and a {self.key_bits}-bit key holds {self._capacity}: use a larger key, fewer addends or a "
                "coarser grid"
            )

    @classmethod
    def for_key(cls, key: PublicKey, *, length: int, addends: int, minimum: int = 0, maximum: int = 1) -> PackingPlan:
        """Create the plan for a key; the default range is that of a vote."""
        return cls(length, addends, minimum, maximum, key.bits, key.degree)

    def check_key(self, key: PublicKey) -> None:
        if (key.bits, key.degree) != (self.key_bits, self.degree):
            raise WrongKeyError(f"the plan is for {self.key_bits}-bit keys of degree {self.degree}, not for {key!r}")

    @property
    def _capacity(self) -> int:
        return self.degree * (self.key_bits - 1)

    @cached_property
    def radix(self) -> int:
        """Number of values of a slot, above every sum of `addends` entries."""
        return self.addends * (self.maximum - self.minimum) + 1

    @cached_property
    def slots_per_plaintext(self) -> int:
        """Number of entries per plaintext: the largest k with radix^k <= 2^(s (key_bits - 1))."""
        capacity, slots = mpz(1) << self._capacity, 0
        while capacity := capacity // self.radix:
            slots += 1
        return slots

    @cached_property
    def ciphertexts(self) -> int:
        return -(-self.length // self.slots_per_plaintext)

    @cached_property
    def digest(self) -> bytes:
        degree = (self.degree,) if self.degree > 1 else ()
        fields = (self.length, self.addends, self.minimum, self.maximum, self.key_bits, *degree)
        return hashlib.sha256(b"psephos packing plan, radix\0" + repr(fields).encode()).digest()

    def pack(self, values: IntegerVector) -> list[mpz]:
        """Pack `length` integers in [minimum, maximum] into `ciphertexts` plaintexts; raise PackingError for others."""
        self._check(values)
        block = np.zeros((self.ciphertexts, self._limbs * self._powers.size), dtype=self._powers.dtype)
        slots = np.zeros((self.ciphertexts, self.slots_per_plaintext), dtype=block.dtype)
        slots.reshape(-1)[: self.length] = np.asarray(values, dtype=block.dtype) - self.minimum
        block[:, : self.slots_per_plaintext] = slots
        limbs = block.reshape(self.ciphertexts, self._limbs, -1) @ self._powers
        return [_compose(row, self._limb) for row in limbs.tolist()]

    def unpack(self, plaintexts: Sequence[int | mpz], addends: int) -> list[int]:
        """Unpack the sum of `addends` packed vectors; raise PackingError for what so many cannot sum to."""
        if not 1 <= addends <= self.addends:
            raise PackingError(f"the plan has room for 1 to {self.addends} addends, not {addends}")
        if len(plaintexts) != self.ciphertexts:
            raise PackingError(f"a vector of this plan has {self.ciphertexts} plaintexts, not {len(plaintexts)}")
        for place, plaintext in enumerate(plaintexts):
            slots = min(self.slots_per_plaintext, self.length - place * self.slots_per_plaintext)
            if not 0 <= plaintext < mpz(self.radix) ** slots:
                raise PackingError(f"plaintext {place} holds more than its {slots} slots")
        limbs = np.array([decompose(mpz(m), self._limb, self._limbs) for m in plaintexts], dtype=self._powers.dtype)
        block = (limbs[:, :, np.newaxis] // self._powers % self.radix).reshape(self.ciphertexts, -1)
        sums = block[:, : self.slots_per_plaintext].reshape(-1)[: self.length]
        if sums.max() > addends * (self.maximum - self.minimum):
            raise PackingError(f"a slot holds more than {addends} entries can sum to")
        result: list[int] = (sums + addends * self.minimum).tolist()
        return result

    # A limb is a group of slots that fits a machine word: numpy combines the slots of a limb, mpz numbers the limbs.

    @cached_property
    def _powers(self) -> NDArray[Any]:
        """Powers of the radix within a limb; Python integers if two slots do not fit into a word."""
        count = max(1, int(62 / math.log2(self.radix)))
        return np.array([self.radix**i for i in range(count)], dtype=np.int64 if count > 1 else object)

    @cached_property
    def _limb(self) -> mpz:
        return mpz(self.radix) ** self._powers.size

    @cached_property
    def _limbs(self) -> int:
        return -(-self.slots_per_plaintext // self._powers.size)

    def _check(self, values: IntegerVector) -> None:
        if isinstance(values, np.ndarray):
            if values.ndim != 1 or values.dtype.kind not in "iu":
                raise PackingError(f"the values must be a vector of integers, not {values.dtype}, {values.shape}")
        elif any(isinstance(v, bool) or not isinstance(v, int) for v in values):
            raise PackingError("the values must be integers; encode real numbers in fixed point first")
        if len(values) != self.length:
            raise PackingError(f"the packing plan is for vectors of {self.length} entries, not {len(values)}")
        least, most = (values.min(), values.max()) if isinstance(values, np.ndarray) else (min(values), max(values))
        if least < self.minimum or most > self.maximum:
            place = next(i for i, e in enumerate(values) if not self.minimum <= e <= self.maximum)
            raise PackingError(f"entry {place} lies outside [{self.minimum}, {self.maximum}]")


_COST = {1: 1.0, 2: 0.9, 3: 0.9, 4: 1.0}
"""Approximate cost of encrypting the same bits of plaintext relative to degree 1, as `make bench` measures it."""


def best_degree(key_bits: int, *, length: int, addends: int, minimum: int = 0, maximum: int = 1) -> int:
    """Return the degree with the shortest ciphertexts that takes at most 10 % more time than degree 1."""
    counts = {
        degree: PackingPlan(length, addends, minimum, maximum, key_bits, degree).ciphertexts
        for degree in range(1, LARGEST_DEGREE + 1)
    }
    near = [s for s, count in counts.items() if count * s * _COST[s] <= 1.1 * counts[1]]
    return min(near, key=lambda s: (counts[s] * (s + 1), s))


def _compose(digits: Sequence[int | mpz], radix: mpz) -> mpz:
    """Return sum_i digits[i] radix^i, by combining neighbours."""
    while len(digits) > 1:
        joined = [low + high * radix for low, high in zip(digits[::2], digits[1::2], strict=False)]
        digits = [*joined, digits[-1]] if len(digits) % 2 else joined
        radix *= radix
    return mpz(digits[0])


def decompose(number: mpz, radix: mpz, count: int) -> list[int]:
    """Return the `count` digits of a number below radix^count, the inverse of `_compose`."""
    powers = [radix]
    while 1 << len(powers) < count:
        powers.append(powers[-1] ** 2)
    digits = [number]
    for power in reversed(powers):
        digits = [half for high, low in (divmod(digit, power) for digit in digits) for half in (low, high)]
    return [int(digit) for digit in digits[:count]]
