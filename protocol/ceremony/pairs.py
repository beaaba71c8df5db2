"""Secret messages between two holders on a public board, which either of them can disclose provably.

X25519 (RFC 7748), HKDF (RFC 5869) and ChaCha20-Poly1305 (RFC 8439). Given one of the two private keys, anybody can
decrypt the messages, and it cannot make a message decrypt to anything else.
"""

from __future__ import annotations

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from psephos.protocol.errors import MessageError

TAG_BYTES = 16
"""Length that encryption adds to a message."""


def public(secret: bytes) -> bytes:
    """Return the public key of a private key; both have 32 bytes."""
    return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


def seal(secret: bytes, other: bytes, about: bytes, message: bytes) -> bytes:
    """Encrypt a message with the sender's private key and the receiver's public key."""
    return _cipher(secret, other, about).encrypt(bytes(12), message, None)


def unseal(secret: bytes, other: bytes, about: bytes, sealed: bytes) -> bytes:
    """Decrypt a message with one private key and the other's public key; raise MessageError if this fails."""
    try:
        return _cipher(secret, other, about).decrypt(bytes(12), sealed, None)
    except InvalidTag:
        raise MessageError("the sealed message cannot be decrypted") from None


def _cipher(secret: bytes, other: bytes, about: bytes) -> ChaCha20Poly1305:
    """Derive the cipher of one message; raise MessageError for an invalid public key."""
    try:
        common = X25519PrivateKey.from_private_bytes(secret).exchange(X25519PublicKey.from_public_bytes(other))
    except ValueError:
        raise MessageError("the public key is not a valid X25519 key") from None
    return ChaCha20Poly1305(HKDF(SHA256(), 32, salt=None, info=b"psephos ceremony\0" + about).derive(common))
