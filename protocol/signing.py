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
"""RFC 8032, section 5.1.6."""

VERIFICATION_KEY_BYTES = 32
"""RFC 8032, section 5.1.5."""


_PRIME = 2**255 - 19
_EIGHTH = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_SMALL_ORDER = frozenset({0, 1, _PRIME - 1, _EIGHTH, _PRIME - _EIGHTH})
"""The y of the points of order 4, 1, 2 and 8: under such a key, one signature fits every message."""


@storable
@dataclass(frozen=True, slots=True)
class VerificationKey:
    """The public half: `raw` is its 32-byte encoding.

    Raises MessageError for another length, for an encoding that is not the one of its point (RFC 8032, section 5.1.3),
    and for a point of small order, which nobody makes who means to sign.
    """

    raw: bytes

    def __post_init__(self) -> None:
        if len(self.raw) != VERIFICATION_KEY_BYTES:
            raise MessageError(f"a verification key has {VERIFICATION_KEY_BYTES} bytes, not {len(self.raw)}")
        y = int.from_bytes(self.raw, "little") & (2**255 - 1)
        if y >= _PRIME or y in _SMALL_ORDER:
            raise MessageError("a verification key of small order, or not in its one encoding, vouches for nothing")

    def __reduce__(self) -> tuple[object, ...]:
        return VerificationKey, (self.raw,)  # rosters are long, and field by field takes ten times as long

    def verify(self, signature: bytes, message: bytes) -> None:
        """Raise ForgedSignatureError unless `signature` over `message` is this key's."""
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, message)
        except (InvalidSignature, ValueError):
            raise ForgedSignatureError("the signature does not verify under the registered key") from None


@storable
@dataclass(frozen=True, slots=True)
class Roster(Sequence[VerificationKey]):
    """The verification keys of the registered parties, in their order: 32 bytes each in `raw`, and no objects.

    Objects for a million parties are a hundred megabytes, in every process. Raises MessageError for half a key.
    """

    raw: bytes

    def __post_init__(self) -> None:
        if len(self.raw) % VERIFICATION_KEY_BYTES:
            raise MessageError(f"a roster has {VERIFICATION_KEY_BYTES} bytes for each key, not {len(self.raw)} in all")

    @classmethod
    def of(cls, keys: Iterable[VerificationKey]) -> Roster:
        """These keys; a roster as it is."""
        return keys if isinstance(keys, Roster) else cls(b"".join(key.raw for key in keys))

    def __len__(self) -> int:
        return len(self.raw) // VERIFICATION_KEY_BYTES

    @overload
    def __getitem__(self, at: int) -> VerificationKey: ...
    @overload
    def __getitem__(self, at: slice) -> Roster: ...
    def __getitem__(self, at: int | slice) -> VerificationKey | Roster:
        if isinstance(at, slice):
            return Roster(b"".join(map(self._bytes, range(len(self))[at])))
        return VerificationKey(self._bytes(range(len(self))[at]))

    def _bytes(self, place: int) -> bytes:
        return self.raw[place * VERIFICATION_KEY_BYTES : (place + 1) * VERIFICATION_KEY_BYTES]

    def has_duplicates(self) -> bool:
        """Whether two parties have the same key."""
        return len(set(map(self._bytes, range(len(self))))) < len(self)


class SigningKey:
    """The private half; `repr` shows nothing of it and pickling raises TypeError."""

    __slots__ = ("_key", "_seed", "verification_key")

    def __init__(self, seed: bytes) -> None:
        """From its 32-byte seed (RFC 8032, section 5.1.5); raises ValueError for another length."""
        public = Ed25519PrivateKey.from_private_bytes(seed).public_key()
        self._seed, self.verification_key = bytes(seed), VerificationKey(public.public_bytes_raw())
        self._key: Ed25519PrivateKey | None = None  # made when it signs: a simulation holds a million that do not

    @classmethod
    def generate(cls, randomness: Randomness = SYSTEM) -> SigningKey:
        """A fresh key."""
        return cls(randomness.draw(32))

    def sign(self, message: bytes) -> bytes:
        """The 64-byte signature."""
        if self._key is None:
            self._key = Ed25519PrivateKey.from_private_bytes(self._seed)
        return self._key.sign(message)

    def seed(self) -> bytes:
        """The 32-byte seed. For key files; nothing else should ask."""
        return self._seed

    def __repr__(self) -> str:
        return f"<SigningKey of {self.verification_key.raw.hex()[:12]}>"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a signing key is not pickled; write it with psephos.protocol.storage.keyfiles")
