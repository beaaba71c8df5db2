"""Messages that one role may read: HPKE (RFC 9180), X25519 and ChaCha20-Poly1305, each for one place on one board.

A role's sealing key is made for one study and forgotten with it, so that what stands on a board for ever is readable
for as long as somebody needs to read it.
"""

from __future__ import annotations

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from psephos.protocol.errors import MessageError
from psephos.protocol.randomness import SYSTEM, Randomness

__all__ = ["SEALING_KEY_BYTES", "SealingKey", "seal"]

SEALING_KEY_BYTES = 32
"""Of a public or a secret X25519 key (RFC 7748)."""

_SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)


class SealingKey:
    """The secret half; `repr` shows nothing of it and pickling raises TypeError."""

    def __init__(self, secret: bytes) -> None:
        """From its 32 bytes; raises ValueError for another length."""
        self._key = X25519PrivateKey.from_private_bytes(secret)
        self.public = self._key.public_key().public_bytes_raw()

    @classmethod
    def generate(cls, randomness: Randomness = SYSTEM) -> SealingKey:
        """A fresh key."""
        return cls(randomness.draw(SEALING_KEY_BYTES))

    def secret(self) -> bytes:
        """Its 32 bytes. For the role's own store; nothing else should ask."""
        return self._key.private_bytes_raw()

    def open(self, sealed: bytes, about: bytes) -> bytes:
        """What was sealed to this key about the same; raises MessageError for anything else."""
        try:
            return bytes(_SUITE.decrypt(sealed, self._key, info=about))
        except (InvalidTag, ValueError):
            raise MessageError(
                "what was sealed to this role does not open: it is damaged, or not of this place"
            ) from None

    def __repr__(self) -> str:
        return f"<SealingKey of {self.public.hex()[:12]}>"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a sealing key is not pickled")


def seal(message: bytes, receiver: bytes, about: bytes) -> bytes:
    """A message that only the owner of the X25519 key `receiver` can open, together with `about`.

    Raises MessageError for a key that is none, such as one of small order.
    """
    try:
        return bytes(_SUITE.encrypt(message, X25519PublicKey.from_public_bytes(receiver), info=about))
    except ValueError:
        raise MessageError("a sealing key is no X25519 key") from None
