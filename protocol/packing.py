"""Vectors of bounded integers packed into Paillier plaintexts (DESIGN section 3).

A `PackingPlan` is made before anyone encrypts. It fixes how many vectors will be added at most and the range of
each entry, hence bits per slot, slots per plaintext and ciphertexts per vector, so that no sum can ever run from
one slot into the next. Negative entries are stored with an offset: slot = entry - minimum.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import gmpy2
import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from protocol.errors import PackingError
from protocol.keys import PublicKey

__all__ = ["PackingPlan"]

IntegerVector = Sequence[int] | NDArray[np.integer]


@dataclass(frozen=True)
class PackingPlan:
    """How integer vectors of one shape become plaintexts under a key of `key_bits` bits.

    Attributes:
        length: entries of a vector.
        addends: largest number of vectors that may be added.
        minimum, maximum: range of an entry of one addend, both included; minimum <= 0 <= maximum.
        key_bits: length of n; plaintexts stay below 2^(key_bits - 1) < n.
    """

    length: int
    addends: int
    minimum: int
    maximum: int
    key_bits: int

    def __post_init__(self) -> None:
        for name in ("length", "addends", "minimum", "maximum", "key_bits"):
            try:
                # numpy's integers become Python's: equal plans must have equal digests.
                object.__setattr__(self, name, operator.index(getattr(self, name)))
            except TypeError:
                raise PackingError(f"a plan's {name} is an integer, not {getattr(self, name)!r}") from None
        if self.length < 1 or self.addends < 1:
            raise PackingError(f"a plan needs at least one entry and one addend, not {self.length}, {self.addends}")
        if not self.minimum <= 0 <= self.maximum or self.minimum == self.maximum:
            raise PackingError(
                f"the range of an entry must contain 0 and one other integer, not [{self.minimum}, {self.maximum}]"
            )
        if self.slots_per_plaintext < 1:
            raise PackingError(
                f"the sum of {self.addends} entries in [{self.minimum}, {self.maximum}] takes {self.slot_bits} bits "
                f"and a {self.key_bits}-bit key holds {self.key_bits - 1}: take a larger key, fewer addends or a "
                "coarser grid"
            )

    @classmethod
    def for_key(cls, key: PublicKey, *, length: int, addends: int, minimum: int = 0, maximum: int = 1) -> PackingPlan:
        """The plan for one key; the default range is that of a vote."""
        return cls(length, addends, minimum, maximum, key.bits)

    @cached_property
    def slot_bits(self) -> int:
        """Bits of the largest possible sum: no sum of `addends` entries can overflow its slot."""
        return (self.addends * (self.maximum - self.minimum)).bit_length()

    @cached_property
    def slots_per_plaintext(self) -> int:
        """Entries in one plaintext."""
        return (self.key_bits - 1) // self.slot_bits

    @cached_property
    def ciphertexts(self) -> int:
        """Ciphertexts in one encrypted vector."""
        return -(-self.length // self.slots_per_plaintext)

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the plan, 32 bytes: what messages name it by."""
        fields = (self.length, self.addends, self.minimum, self.maximum, self.key_bits)
        return hashlib.sha256(b"psephos packing plan\0" + repr(fields).encode()).digest()

    def pack(self, values: IntegerVector) -> list[mpz]:
        """The plaintexts of one vector.

        Args:
            values: `length` integers in [minimum, maximum] (a sequence, or an integer array of shape (length,)).

        Raises:
            PackingError: another length, an entry that is no integer, or one out of range.
        """
        entries = self._entries(values)
        if len(entries) != self.length:
            raise PackingError(f"the plan is for vectors of {self.length} entries, not {len(entries)}")
        if min(entries) < self.minimum or max(entries) > self.maximum:
            place = next(i for i, e in enumerate(entries) if not self.minimum <= e <= self.maximum)
            raise PackingError(f"entry {place} lies outside [{self.minimum}, {self.maximum}]")
        if self.minimum:
            entries = [e - self.minimum for e in entries]
        step = self.slots_per_plaintext
        return [gmpy2.pack(entries[at : at + step], self.slot_bits) for at in range(0, self.length, step)]

    def unpack(self, plaintexts: Sequence[int | mpz], addends: int) -> list[int]:
        """The entrywise sum of `addends` packed vectors.

        Raises:
            PackingError: a wrong number of plaintexts or addends, or a slot that no `addends` vectors can sum to.
        """
        if not 1 <= addends <= self.addends:
            raise PackingError(f"the plan has room for 1 to {self.addends} addends, not {addends}")
        if len(plaintexts) != self.ciphertexts:
            raise PackingError(f"a vector of this plan has {self.ciphertexts} plaintexts, not {len(plaintexts)}")
        step, sums = self.slots_per_plaintext, []
        for place, plaintext in enumerate(plaintexts):
            slots = min(step, self.length - place * step)
            if not 0 <= plaintext < mpz(1) << (slots * self.slot_bits):
                raise PackingError(f"plaintext {place} holds more than its {slots} slots")
            unpacked = gmpy2.unpack(mpz(plaintext), self.slot_bits)
            sums += [int(slot) for slot in unpacked] + [0] * (slots - len(unpacked))
        if max(sums) > addends * (self.maximum - self.minimum):
            raise PackingError(f"a slot holds more than {addends} entries can sum to")
        offset = addends * self.minimum
        return [slot + offset for slot in sums] if offset else sums

    @staticmethod
    def _entries(values: IntegerVector) -> list[int]:
        if isinstance(values, np.ndarray):
            if values.ndim != 1 or values.dtype.kind not in "iu":
                raise PackingError(
                    f"an integer array of one dimension is packed, not {values.dtype} of shape {values.shape}"
                )
            entries: list[int] = values.tolist()
            return entries
        if any(isinstance(v, bool) or not isinstance(v, int) for v in values):
            raise PackingError("only integers are packed; turn real numbers into fixed point first")
        return list(values)
