"""What one holder tells another on a board that all read, in such a way that either can show all what was told.

Every two holders have X25519 keys for each other (RFC 7748), which they publish first. The key of one message is
derived from what the two have in common (HKDF, RFC 5869) and seals it (ChaCha20-Poly1305, RFC 8439). Whoever is given
one of the two secrets sees that it belongs to its public key, and reads what was said; nobody who gives its own away
can have it read as something else.
"""

from __future__ import annotations

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from psephos.protocol.errors import MessageError

TAG_BYTES = 16
"""By which what is sealed is longer than what is said."""


def public(secret: bytes) -> bytes:
    """The public key of a secret; both have 32 bytes."""
    return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


def seal(secret: bytes, other: bytes, about: bytes, message: bytes) -> bytes:
    """For the owner of the public key `other`; no two messages of a pair are about the same.

    Raises MessageError for a public key that is none: one of small order.
    """
    return _cipher(secret, other, about).encrypt(bytes(12), message, None)


def unseal(secret: bytes, other: bytes, about: bytes, sealed: bytes) -> bytes:
    """What was sealed, from one of the secrets and the other's public key; raises MessageError for anything else."""
    try:
        return _cipher(secret, other, about).decrypt(bytes(12), sealed, None)
    except InvalidTag:
        raise MessageError("what was sealed does not open") from None


def _cipher(secret: bytes, other: bytes, about: bytes) -> ChaCha20Poly1305:
    try:
        common = X25519PrivateKey.from_private_bytes(secret).exchange(X25519PublicKey.from_public_bytes(other))
    except ValueError:
        raise MessageError("a public key is no X25519 key") from None
    return ChaCha20Poly1305(HKDF(SHA256(), 32, salt=None, info=b"psephos ceremony\0" + about).derive(common))
