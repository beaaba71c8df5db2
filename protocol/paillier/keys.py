"""Paillier keys (Paillier 1999) on phe's own key objects.

A `PublicKey` *is* a `phe.PaillierPublicKey`, so whatever takes a phe key takes ours; `PublicKey.from_phe` brings a
phe user's key here. The one thing it adds is `form`, because fast randomness needs more of a key than phe promises:
keys of form "psephos" have p = q = 3 mod 4, gcd(p - 1, q - 1) = 2 and no prime factor below 2^16 in (p - 1)/2 and
(q - 1)/2, which makes the group of squares cyclic and its order free of small factors (DESIGN section 3).
"""

from __future__ import annotations

import hashlib
from functools import cache, cached_property
from typing import Literal

import gmpy2
import phe
from gmpy2 import mpz

from psephos.protocol.errors import InvalidParameter, WeakKeyError
from psephos.protocol.storage.values import storable_as

DEFAULT_KEY_BITS = 3072
"""128-bit security (NIST SP 800-57 part 1, table 2)."""

MINIMUM_KEY_BITS = 2048
"""Anything smaller is refused unless the caller names it a test key."""

SMALLEST_TEST_KEY = 64
"""Bits; not even a test key is smaller. No security at all: only for tests that must be fast."""

LARGEST_KEY = 16384
"""Bits, beyond 256-bit security (15360): making a longer key would take hours, and what follows days."""

KeyForm = Literal["psephos", "foreign"]


@storable_as(lambda key: {"n": key.n, "form": key.form})
class PublicKey(phe.PaillierPublicKey):  # type: ignore[misc]  # phe carries no types
    """The modulus n, as a phe public key.

    Attributes:
        n: the modulus.
        nsquare: n squared (phe's name).
        form: "psephos" when the maker of the key vouches for the form above, else "foreign".

    Raises InvalidParameter for an even n or one under 64 bits.
    """

    def __init__(self, n: int, *, form: KeyForm = "foreign") -> None:
        if n < 2 ** (SMALLEST_TEST_KEY - 1) or n % 2 == 0:
            raise InvalidParameter(
                f"a Paillier modulus is an odd number of {SMALLEST_TEST_KEY} bits or more, got one of "
                f"{n.bit_length() if n > 0 else 0} bits"
            )
        super().__init__(int(n))
        self.form: KeyForm = form

    @classmethod
    def from_phe(cls, key: phe.PaillierPublicKey) -> PublicKey:
        """The same modulus as one of ours; of foreign form unless it already was one of ours.

        Raises InvalidParameter for a modulus that anybody can factor: see `check_modulus`.
        """
        if isinstance(key, PublicKey):
            return key
        check_modulus(int(key.n))
        return PublicKey(int(key.n))

    @cached_property
    def bits(self) -> int:
        """Length of n in bits."""
        return int(self.n.bit_length())

    @cached_property
    def modulus(self) -> mpz:
        """n."""
        return mpz(self.n)

    @cached_property
    def modulus_squared(self) -> mpz:
        """n squared, the modulus of ciphertexts."""
        return mpz(self.n) ** 2

    @cached_property
    def ciphertext_bytes(self) -> int:
        """Length of an encoded ciphertext."""
        return (int(self.nsquare).bit_length() + 7) // 8

    @cached_property
    def identifier(self) -> bytes:
        """SHA-256 of n and the key's form, 32 bytes: what messages name the key by."""
        size = (self.bits + 7) // 8
        return hashlib.sha256(
            b"psephos public key\0" + self.form.encode() + b"\0" + self.n.to_bytes(size, "big")
        ).digest()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PublicKey):
            return bool(self.n == other.n and self.form == other.form)
        return bool(super().__eq__(other)) if isinstance(other, phe.PaillierPublicKey) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.n)

    def __repr__(self) -> str:
        return f"<PublicKey {self.bits} bits, {self.form}, {self.identifier.hex()[:12]}>"

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_public_key, (self.n, self.form)


def _rebuild_public_key(n: int, form: KeyForm) -> PublicKey:
    return PublicKey(n, form=form)


def check_key_bits(bits: int, *, test_key: bool = False) -> None:
    """Of a key to be made: raise InvalidParameter for an odd or impossible length, WeakKeyError as below."""
    if bits % 2 or not SMALLEST_TEST_KEY <= bits <= LARGEST_KEY:
        raise InvalidParameter(
            f"a key has an even number of bits between {SMALLEST_TEST_KEY} and {LARGEST_KEY}, not {bits}"
        )
    _check_strength(bits, test_key)


def check_modulus(n: int) -> None:
    """What can be told of somebody else's modulus without its factors.

    Raises InvalidParameter for a prime, a perfect power, or a number with a prime factor below 2^16: anybody decrypts
    under such a key. Two large primes are not proved by this, only their owner knows them.
    """
    for failed, what in (
        (gmpy2.is_prime(n), "is a prime"),
        (gmpy2.is_power(n), "is a perfect power"),
        (gmpy2.gcd(n, _small_primes()) != 1, "has a prime factor below 2^16"),
    ):
        if failed:
            raise InvalidParameter(f"a Paillier modulus is the product of two large primes, and this one {what}")


@cache
def _small_primes() -> mpz:
    return gmpy2.primorial(2**16)


def check_key_size(key: PublicKey, *, test_key: bool = False) -> None:
    """Raise WeakKeyError for a modulus under 2048 bits that is not called a test key."""
    _check_strength(key.bits, test_key)


def _check_strength(bits: int, test_key: bool) -> None:
    if bits < MINIMUM_KEY_BITS and not test_key:
        raise WeakKeyError(
            f"a {bits}-bit modulus protects nothing; use {MINIMUM_KEY_BITS} bits or more (default {DEFAULT_KEY_BITS}), "
            "or say test_key=True (--test-key) where only a test will ever see it"
        )


def security_bits(modulus_bits: int) -> int:
    """Security level of factoring a modulus of that size (NIST SP 800-57 part 1 rev. 5, table 2), at least 80."""
    for bits, level in ((15360, 256), (7680, 192), (3072, 128), (2048, 112)):
        if modulus_bits >= bits:
            return level
    return 80
