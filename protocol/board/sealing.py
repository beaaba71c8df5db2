"""Encryption of messages to one role: HPKE (RFC 9180) with HKDF-SHA256 and ChaCha20-Poly1305.

Keys are exchanged by ML-KEM-768 and X25519 together (MLKEM768-X25519, draft-ietf-hpke-pq-05): both have to be broken.
Keys of earlier versions are X25519 alone; what is sealed to them stays readable.

A role's sealing key is generated for one study and erased when the role needs it no longer, so the entries that remain
on the board cannot be decrypted afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from cryptography.exceptions import InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import (
    AEAD,
    KDF,
    KEM,
    MLKEM768X25519PrivateKey,
    MLKEM768X25519PublicKey,
    Suite,
)

from psephos.protocol.errors import MessageError, UnsupportedAlgorithmError
from psephos.protocol.randomness import SYSTEM, Randomness

_Key = TypeVar("_Key")

X25519_BYTES = 32
"""Length of a public or secret X25519 key (RFC 7748): the end of a sealing key, or all of an earlier version's."""

SECRET_BYTES = 64 + X25519_BYTES
"""Length of a secret sealing key: the seed of an ML-KEM-768 key (FIPS 203), then an X25519 key."""

_MLKEM_BYTES, _NUMBERS, _Q = 1184, 768, 3329
"""Length of a public ML-KEM-768 key, which begins with so many numbers of 12 bits, below q."""

_UNUSABLE = "a sealing key is not a usable one of ML-KEM-768 and X25519, or of X25519 alone"

_X25519 = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)
_HYBRID = Suite(KEM.MLKEM768_X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)


class SealingKey:
    """The secret key of a role. `repr` does not show it, and pickling raises TypeError.

    Attributes:
        public: an ML-KEM-768 encapsulation key (1,184 bytes), then an X25519 key; or this alone.
    """

    def __init__(self, secret: bytes) -> None:
        """Construct a key from its 96 bytes, or the 32 of an earlier version's.

        Raises ValueError for other lengths, UnsupportedAlgorithmError where OpenSSL has no ML-KEM-768.
        """
        self._secret = secret
        x25519 = X25519PrivateKey.from_private_bytes(secret[-X25519_BYTES:])
        self.public = x25519.public_key().public_bytes_raw()
        self._key: X25519PrivateKey | MLKEM768X25519PrivateKey = x25519
        self._suite = _X25519
        if len(secret) != X25519_BYTES:
            mlkem = _mlkem(MLKEM768PrivateKey.from_seed_bytes, secret[:-X25519_BYTES])
            self.public = mlkem.public_key().public_bytes_raw() + self.public
            self._key, self._suite = MLKEM768X25519PrivateKey(mlkem, x25519), _HYBRID

    @classmethod
    def generate(cls, randomness: Randomness = SYSTEM) -> SealingKey:
        return cls(randomness.draw(SECRET_BYTES))

    def secret(self) -> bytes:
        """Return the bytes of the secret key. Only the role's own store needs them."""
        return self._secret

    def open(self, sealed: bytes, info: bytes) -> bytes:
        """Decrypt what `seal` returned for this key and context; raises MessageError."""
        try:
            return bytes(self._suite.decrypt(sealed, self._key, info=info))
        except (InvalidTag, ValueError):
            raise MessageError(
                "an encrypted message to this role cannot be decrypted: it is damaged, or was made for another place"
            ) from None

    def __repr__(self) -> str:
        return f"<SealingKey of {self.public[-X25519_BYTES:].hex()[:12]}>"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a sealing key cannot be pickled")


def check_sealing_key(key: bytes) -> None:
    """Raise MessageError for a public key to which nothing can be sealed (FIPS 203, 7.2); OpenSSL needs no ML-KEM."""
    seal(b"", key[-X25519_BYTES:], b"")
    mlkem = key[:-X25519_BYTES]
    numbers = int.from_bytes(mlkem[: _NUMBERS * 12 // 8], "little")
    if mlkem and not (
        len(mlkem) == _MLKEM_BYTES and all((numbers >> 12 * place) % (1 << 12) < _Q for place in range(_NUMBERS))
    ):
        raise MessageError(_UNUSABLE)


def seal(message: bytes, receiver: bytes, info: bytes) -> bytes:
    """Encrypt a message to a public key; decryption needs the same `info`.

    Raises MessageError for a key that cannot be used, UnsupportedAlgorithmError where OpenSSL has no ML-KEM-768.

    Args:
        message: what is encrypted.
        receiver: a public sealing key, or the X25519 key of an earlier version.
        info: the context.
    """
    try:
        x25519 = X25519PublicKey.from_public_bytes(receiver[-X25519_BYTES:])
        if len(receiver) == X25519_BYTES:
            return bytes(_X25519.encrypt(message, x25519, info=info))
        mlkem = _mlkem(MLKEM768PublicKey.from_public_bytes, receiver[:-X25519_BYTES])
        return bytes(_HYBRID.encrypt(message, MLKEM768X25519PublicKey(mlkem, x25519), info=info))
    except ValueError:
        raise MessageError(_UNUSABLE) from None


def _mlkem(make: Callable[[bytes], _Key], data: bytes) -> _Key:
    """Return a key of ML-KEM-768 made of bytes; raises ValueError or UnsupportedAlgorithmError."""
    try:
        return make(data)
    except UnsupportedAlgorithm:
        raise UnsupportedAlgorithmError(
            "cryptography was built with an OpenSSL without ML-KEM-768, for sealed messages: install its wheel "
            "(pip install --force-reinstall --only-binary :all: cryptography), or build it with OpenSSL 3.5 or later"
        ) from None
