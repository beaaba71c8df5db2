"""Encryption of messages to one role: HPKE (RFC 9180) with X25519, HKDF-SHA256 and ChaCha20-Poly1305.

A role's sealing key is generated for one study and erased when the role needs it no longer, so the entries that remain
on the board cannot be decrypted afterwards.
"""

from __future__ import annotations

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from psephos.protocol.errors import MessageError
from psephos.protocol.randomness import SYSTEM, Randomness

SEALING_KEY_BYTES = 32
"""Length of a public or secret X25519 key (RFC 7748)."""

_SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)


class SealingKey:
    """The secret key of a role. `repr` does not show it, and pickling raises TypeError."""

    def __init__(self, secret: bytes) -> None:
        """Construct a key from its 32 bytes; raises ValueError for any other length."""
        self._key = X25519PrivateKey.from_private_bytes(secret)
        self.public = self._key.public_key().public_bytes_raw()

    @classmethod
    def generate(cls, randomness: Randomness = SYSTEM) -> SealingKey:
        return cls(randomness.draw(SEALING_KEY_BYTES))

    def secret(self) -> bytes:
        """Return the 32 bytes of the secret key. Only the role's own store needs them."""
        return self._key.private_bytes_raw()

    def open(self, sealed: bytes, info: bytes) -> bytes:
        """Decrypt what `seal` returned for this key and context; raises MessageError."""
        try:
            return bytes(_SUITE.decrypt(sealed, self._key, info=info))
        except (InvalidTag, ValueError):
            raise MessageError(
                "an encrypted message to this role cannot be decrypted: it is damaged, or was made for another place"
            ) from None

    def __repr__(self) -> str:
        return f"<SealingKey of {self.public.hex()[:12]}>"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a sealing key cannot be pickled")


def seal(message: bytes, receiver: bytes, info: bytes) -> bytes:
    """Encrypt a message to an X25519 public key, 32 bytes, or raise MessageError; decryption needs the same `info`."""
    try:
        return bytes(_SUITE.encrypt(message, X25519PublicKey.from_public_bytes(receiver), info=info))
    except ValueError:
        raise MessageError("a sealing key is not a usable X25519 key") from None
