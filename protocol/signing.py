"""Ed25519 identities (RFC 8032): a party's signing key, registered before the round, and its verification key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import overload

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from psephos.protocol.errors import ForgedSignatureError, MessageError
from psephos.protocol.randomness import SYSTEM, Randomness
from psephos.protocol.storage.values import storable

SIGNATURE_BYTES = 64
"""Length of a signature (RFC 8032, section 5.1.6)."""

VERIFICATION_KEY_BYTES = 32
"""Length of an encoded public key (RFC 8032, section 5.1.5)."""


_PRIME = 2**255 - 19
_EIGHTH = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_SMALL_ORDER = frozenset({0, 1, _PRIME - 1, _EIGHTH, _PRIME - _EIGHTH})
"""The y coordinates of the points of order 4, 1, 2 and 8. Under such a key one signature is valid for every message."""


@storable
@dataclass(frozen=True, slots=True)
class VerificationKey:
    """A public key for verifying signatures, encoded in 32 bytes.

    Raises MessageError for another length, an encoding that is not canonical (RFC 8032, section 5.1.3), or a point of
    small order.
    """

    raw: bytes

    def __post_init__(self) -> None:
        if len(self.raw) != VERIFICATION_KEY_BYTES:
            raise MessageError(f"a verification key has {VERIFICATION_KEY_BYTES} bytes, not {len(self.raw)}")
        y = int.from_bytes(self.raw, "little") & (2**255 - 1)
        if y >= _PRIME or y in _SMALL_ORDER:
            raise MessageError("a verification key has small order or is not encoded canonically")

    def __reduce__(self) -> tuple[object, ...]:
        return VerificationKey, (self.raw,)  # ten times faster than pickling field by field; rosters are long

    def verify(self, signature: bytes, message: bytes) -> None:
        """Raise ForgedSignatureError unless `signature` over `message` is this key's."""
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, message)
        except (InvalidSignature, ValueError):
            raise ForgedSignatureError("the signature does not verify under the registered key") from None


@storable
@dataclass(frozen=True, slots=True)
class Roster(Sequence[VerificationKey]):
    """The verification keys of the registered parties, in order, stored as 32 bytes each: there may be a million."""

    raw: bytes

    def __post_init__(self) -> None:
        if len(self.raw) % VERIFICATION_KEY_BYTES:
            raise MessageError(
                f"a roster has {VERIFICATION_KEY_BYTES} bytes for each key; {len(self.raw)} is not a multiple"
            )

    @classmethod
    def of(cls, keys: Iterable[VerificationKey]) -> Roster:
        """Return a roster of these keys; a roster is returned unchanged."""
        return keys if isinstance(keys, Roster) else cls(b"".join(key.raw for key in keys))

    def __len__(self) -> int:
        return len(self.raw) // VERIFICATION_KEY_BYTES

    @overload
    def __getitem__(self, index: int) -> VerificationKey: ...
    @overload
    def __getitem__(self, index: slice) -> Roster: ...
    def __getitem__(self, index: int | slice) -> VerificationKey | Roster:
        if isinstance(index, slice):
            return Roster(b"".join(map(self._encoding, range(len(self))[index])))
        return VerificationKey(self._encoding(range(len(self))[index]))

    def _encoding(self, place: int) -> bytes:
        return self.raw[place * VERIFICATION_KEY_BYTES : (place + 1) * VERIFICATION_KEY_BYTES]

    def has_duplicates(self) -> bool:
        return len(set(map(self._encoding, range(len(self))))) < len(self)


class SigningKey:
    """A private key for signing. `repr` does not show it, and pickling raises TypeError."""

    __slots__ = ("_key", "_seed", "verification_key")

    def __init__(self, seed: bytes) -> None:
        """Construct a key from its 32-byte seed (RFC 8032, section 5.1.5); raises ValueError for any other length."""
        public = Ed25519PrivateKey.from_private_bytes(seed).public_key()
        self._seed, self.verification_key = bytes(seed), VerificationKey(public.public_bytes_raw())
        # Constructed on first use: a simulation has a million keys that never sign.
        self._key: Ed25519PrivateKey | None = None

    @classmethod
    def generate(cls, randomness: Randomness = SYSTEM) -> SigningKey:
        return cls(randomness.draw(32))

    def sign(self, message: bytes) -> bytes:
        if self._key is None:
            self._key = Ed25519PrivateKey.from_private_bytes(self._seed)
        return self._key.sign(message)

    def seed(self) -> bytes:
        """Return the 32-byte seed. Only key files need it."""
        return self._seed

    def __repr__(self) -> str:
        return f"<SigningKey of {self.verification_key.raw.hex()[:12]}>"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a signing key cannot be pickled; write it with psephos.protocol.storage.keyfiles")
