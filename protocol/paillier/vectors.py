"""Encrypted integer vectors and their sums (docs/design.md, section 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gmpy2 import mpz

from psephos.protocol.errors import CiphertextError, PackingOverflowError, WrongKeyError, WrongRoundError
from psephos.protocol.paillier.ciphertexts import add_ciphertexts, check_ciphertexts
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.keys import PublicKey
from psephos.protocol.paillier.packing import IntegerVector, PackingPlan
from psephos.protocol.paillier.private_key import PrivateKey


@dataclass(frozen=True)
class EncryptedVector:
    """The encrypted sum of `addends` vectors of one plan: `plan.ciphertexts` units modulo n^(s+1).

    Raises:
        CiphertextError: the number of ciphertexts is not that of the plan.
        WrongKeyError: the key has another length or degree than the plan.
        PackingOverflowError: there are more addends than the plan has room for.
    """

    key: PublicKey
    plan: PackingPlan
    ciphertexts: tuple[mpz, ...] = field(repr=False)
    addends: int = 1

    def __post_init__(self) -> None:
        if len(self.ciphertexts) != self.plan.ciphertexts:
            raise CiphertextError(f"a vector has {self.plan.ciphertexts} ciphertexts, not {len(self.ciphertexts)}")
        self.plan.check_key(self.key)
        if not 1 <= self.addends <= self.plan.addends:
            raise PackingOverflowError(f"the packing plan has room for {self.plan.addends} addends, not {self.addends}")

    @classmethod
    def encrypt(cls, encryptor: Encryptor, plan: PackingPlan, values: IntegerVector) -> EncryptedVector:
        """Pack and encrypt one vector; raise PackingError (it does not fit) or WrongKeyError (of another key)."""
        return cls(encryptor.key, plan, encryptor.encrypt(plan.pack(values)))

    @classmethod
    def received(
        cls, key: PublicKey, plan: PackingPlan, ciphertexts: Sequence[mpz], addends: int = 1
    ) -> EncryptedVector:
        """Create a vector from received ciphertexts; raise CiphertextError unless all are units."""
        check_ciphertexts(key, ciphertexts)
        return cls(key, plan, tuple(ciphertexts), addends)

    def __add__(self, other: EncryptedVector) -> EncryptedVector:
        """Return the encrypted sum; raise WrongKeyError, WrongRoundError (another plan) or PackingOverflowError."""
        if self.key != other.key:
            raise WrongKeyError(f"vectors under {self.key!r} and {other.key!r} cannot be added")
        if self.plan != other.plan:
            raise WrongRoundError("vectors of two packing plans cannot be added")
        if self.addends + other.addends > self.plan.addends:
            raise PackingOverflowError(f"{self.addends} + {other.addends} addends are more than {self.plan.addends}")
        return EncryptedVector(
            self.key,
            self.plan,
            add_ciphertexts(self.key, self.ciphertexts, other.ciphertexts),
            self.addends + other.addends,
        )

    def decrypt(self, private_key: PrivateKey) -> list[int]:
        """Decrypt with the whole private key to the entrywise sum, `plan.length` integers.

        Raises WrongKeyError (the key is another one) or PackingError (the plan does not allow such sums).
        """
        private_key.check_owns(self.key)
        return self.plan.unpack([private_key.raw_decrypt(c) for c in self.ciphertexts], self.addends)
