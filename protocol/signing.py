"""Ed25519 identities (RFC 8032): a party's signing key, registered before the round, and its verification key."""

from __future__ import annotations

from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from psephos.protocol.errors import ForgedSignatureError, MessageError
from psephos.protocol.randomness import SYSTEM, Randomness
from psephos.protocol.storage.values import storable

__all__ = ["SIGNATURE_BYTES", "VERIFICATION_KEY_BYTES", "SigningKey", "VerificationKey"]

SIGNATURE_BYTES = 64
"""RFC 8032, section 5.1.6."""

VERIFICATION_KEY_BYTES = 32
"""RFC 8032, section 5.1.5."""


@storable
@dataclass(frozen=True)
class VerificationKey:
    """The public half: `raw` is its 32-byte encoding; raises MessageError for another length."""

    raw: bytes

    def __post_init__(self) -> None:
        if len(self.raw) != VERIFICATION_KEY_BYTES:
            raise MessageError(f"a verification key has {VERIFICATION_KEY_BYTES} bytes, not {len(self.raw)}")

    def verify(self, signature: bytes, message: bytes) -> None:
        """Raise ForgedSignatureError unless `signature` over `message` is this key's."""
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, message)
        except (InvalidSignature, ValueError):
            raise ForgedSignatureError("the signature does not verify under the registered key") from None


class SigningKey:
    """The private half; `repr` shows nothing of it and pickling raises TypeError."""

    def __init__(self, seed: bytes) -> None:
        """From its 32-byte seed (RFC 8032, section 5.1.5); raises ValueError for another length."""
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        self.verification_key = VerificationKey(self._key.public_key().public_bytes_raw())

    @classmethod
    def generate(cls, randomness: Randomness = SYSTEM) -> SigningKey:
        """A fresh key."""
        return cls(randomness.draw(32))

    def sign(self, message: bytes) -> bytes:
        """The 64-byte signature."""
        return self._key.sign(message)

    def seed(self) -> bytes:
        """The 32-byte seed. For key files; nothing else should ask."""
        return self._key.private_bytes_raw()

    def __repr__(self) -> str:
        return f"<SigningKey of {self.verification_key.raw.hex()[:12]}>"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a signing key is not pickled; write it with psephos.protocol.storage.keyfiles")
