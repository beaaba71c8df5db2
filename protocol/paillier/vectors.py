"""Encrypted integer vectors and their sums (docs/design.md, section 3)."""

from __future__ import annotations

from dataclasses import dataclass, field

from gmpy2 import mpz

from psephos.protocol.errors import CiphertextError, PackingError, WrongKeyError, WrongRoundError
from psephos.protocol.paillier.ciphertexts import add_ciphertexts
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.keys import PublicKey
from psephos.protocol.paillier.packing import IntegerVector, PackingPlan
from psephos.protocol.paillier.private_key import PrivateKey


@dataclass(frozen=True)
class EncryptedVector:
    """The encrypted sum of `addends` vectors of one plan: `plan.ciphertexts` units modulo n^(s+1).

    Raises CiphertextError, WrongKeyError or PackingError where key or numbers are not those of the plan.
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
            raise PackingError(f"the packing plan has room for {self.plan.addends} addends, not {self.addends}")

    @classmethod
    def encrypt(cls, encryptor: Encryptor, plan: PackingPlan, values: IntegerVector) -> EncryptedVector:
        """Pack and encrypt one vector; raise PackingError (it does not fit) or WrongKeyError (of another key)."""
        return cls(encryptor.key, plan, encryptor.encrypt(plan.pack(values)))

    def __add__(self, other: EncryptedVector) -> EncryptedVector:
        """Return the encrypted sum; raise WrongKeyError, WrongRoundError (another plan) or PackingError."""
        if self.key != other.key:
            raise WrongKeyError(f"vectors under {self.key!r} and {other.key!r} cannot be added")
        if self.plan != other.plan:
            raise WrongRoundError("vectors of two packing plans cannot be added")
        ciphertexts = add_ciphertexts(self.key, self.ciphertexts, other.ciphertexts)
        return EncryptedVector(self.key, self.plan, ciphertexts, self.addends + other.addends)

    def decrypt(self, private_key: PrivateKey) -> list[int]:
        """Decrypt with the whole private key; raise WrongKeyError, or PackingError for sums outside the plan."""
        private_key.check_owns(self.key)
        return self.plan.unpack([private_key.raw_decrypt(c) for c in self.ciphertexts], self.addends)
