"""Encrypted integer vectors: the one primitive that carries all three papers is their sum.

Source: docs/design.md, section 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gmpy2 import mpz

from psephos.protocol.errors import CiphertextError, PackingOverflowError, WrongKeyError, WrongRoundError
from psephos.protocol.paillier.ciphertexts import add_ciphertexts, check_ciphertexts
from psephos.protocol.paillier.encryption import Encryptor, Randomizers
from psephos.protocol.paillier.keys import PublicKey
from psephos.protocol.paillier.packing import IntegerVector, PackingPlan
from psephos.protocol.paillier.private_key import PrivateKey


@dataclass(frozen=True)
class EncryptedVector:
    """The encrypted sum of `addends` vectors of one plan.

    Attributes:
        key: what it is encrypted under.
        plan: how it is packed.
        ciphertexts: `plan.ciphertexts` units modulo n^(s+1), checked by whoever received them.
        addends: how many vectors it is the sum of.

    Raises CiphertextError for another number of ciphertexts than the plan's, WrongKeyError for a key of another length
    or degree, PackingOverflowError for more addends than the plan has room for.
    """

    key: PublicKey
    plan: PackingPlan
    ciphertexts: tuple[mpz, ...] = field(repr=False)
    addends: int = 1

    def __post_init__(self) -> None:
        if len(self.ciphertexts) != self.plan.ciphertexts:
            raise CiphertextError(
                f"a vector of this plan has {self.plan.ciphertexts} ciphertexts, not {len(self.ciphertexts)}"
            )
        self.plan.check_key(self.key)
        if not 1 <= self.addends <= self.plan.addends:
            raise PackingOverflowError(f"the plan has room for {self.plan.addends} addends, not {self.addends}")

    @classmethod
    def encrypt(
        cls, encryptor: Encryptor, plan: PackingPlan, values: IntegerVector, randomizers: Randomizers | None = None
    ) -> EncryptedVector:
        """Pack and encrypt one vector.

        Raises PackingError for values that do not fit the plan, WrongKeyError for a plan or a pool of another key.
        """
        return cls(encryptor.key, plan, encryptor.encrypt(plan.pack(values), randomizers))

    @classmethod
    def received(
        cls, key: PublicKey, plan: PackingPlan, ciphertexts: Sequence[mpz], addends: int = 1
    ) -> EncryptedVector:
        """A vector that came from elsewhere: every ciphertext is checked (CiphertextError)."""
        check_ciphertexts(key, ciphertexts)
        return cls(key, plan, tuple(ciphertexts), addends)

    def __add__(self, other: EncryptedVector) -> EncryptedVector:
        """The encrypted sum; raises WrongKeyError, WrongRoundError (another plan) or PackingOverflowError."""
        if self.key != other.key:
            raise WrongKeyError(f"vectors under {self.key!r} and {other.key!r} cannot be added")
        if self.plan != other.plan:
            raise WrongRoundError("vectors of two packing plans cannot be added")
        if self.addends + other.addends > self.plan.addends:
            raise PackingOverflowError(
                f"the plan has room for {self.plan.addends} addends; {self.addends} + {other.addends} are too many"
            )
        return EncryptedVector(
            self.key,
            self.plan,
            add_ciphertexts(self.key, self.ciphertexts, other.ciphertexts),
            self.addends + other.addends,
        )

    def decrypt(self, private_key: PrivateKey) -> list[int]:
        """The entrywise sums, by somebody who holds the whole key.

        Raises WrongKeyError for another key, PackingError for sums that the plan does not allow.
        """
        private_key.check_owns(self.key)
        return self.plan.unpack([private_key.raw_decrypt(c) for c in self.ciphertexts], self.addends)
