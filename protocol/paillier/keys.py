"""Paillier keys (Paillier 1999), and those of Damgard and Jurik (2001), on phe's own key objects.

Under a key of degree s a plaintext lies modulo n^s and its ciphertext (1 + n)^m r^(n^s) modulo n^(s+1): s + 1 lengths
of n carry s, where Paillier's s = 1 takes two for one. The degree is fixed when a key is made.

A `PublicKey` *is* a `phe.PaillierPublicKey`, so whatever takes a phe key takes ours, of degree 1; `PublicKey.from_phe`
brings a phe user's key here. What phe knows nothing of are the degree, and `form`, because fast randomness needs more
of a key than phe promises: keys of form "psephos" have p = q = 3 mod 4, gcd(p - 1, q - 1) = 2 and no prime factor below
2^16 in (p - 1)/2 and (q - 1)/2, which makes the group of squares cyclic and its order free of small factors
(docs/design.md, section 3).
"""

from __future__ import annotations

import hashlib
from functools import cache, cached_property, partial
from typing import Any, Literal

import gmpy2
import phe
from gmpy2 import mpz

from psephos.protocol.errors import DegreeError, InvalidParameter, WeakKeyError
from psephos.protocol.paillier.kernel import Ring, ring
from psephos.protocol.storage.values import storable_as

DEFAULT_KEY_BITS = 3072
"""128-bit security (NIST SP 800-57 part 1, table 2)."""

MINIMUM_KEY_BITS = 2048
"""Anything smaller is refused unless the caller names it a test key."""

SMALLEST_TEST_KEY = 64
"""Bits; not even a test key is smaller. No security at all: only for tests that must be fast."""

LARGEST_KEY = 16384
"""Bits, beyond 256-bit security (15360): making a longer key would take hours, and what follows days."""

LARGEST_DEGREE = 4
"""A fifth would save 4 % of the bytes, and every degree takes longer to open."""

KeyForm = Literal["psephos", "foreign"]

_PHE_ONLY = ("g", "nsquare", "max_int")  # what phe computes with: under another degree it would be wrong


def _parts(key: PublicKey) -> dict[str, Any]:
    return {"n": key.n, "form": key.form} | ({"degree": key.degree} if key.degree > 1 else {})


@storable_as(_parts)
class PublicKey(phe.PaillierPublicKey):  # type: ignore[misc]  # phe carries no types
    """The modulus n, as a phe public key; phe's own functions raise DegreeError under another degree than 1.

    Attributes:
        n: the modulus.
        form: "psephos" when the maker of the key vouches for the form above, else "foreign".
        degree: s, 1 to 4.

    Raises InvalidParameter for an even n, one under 64 bits, or another degree.
    """

    def __init__(self, n: int, *, form: KeyForm = "foreign", degree: int = 1) -> None:
        if n < 2 ** (SMALLEST_TEST_KEY - 1) or n % 2 == 0:
            raise InvalidParameter(
                f"a Paillier modulus is an odd number of {SMALLEST_TEST_KEY} bits or more, got one of "
                f"{n.bit_length() if n > 0 else 0} bits"
            )
        check_degree(degree)
        super().__init__(int(n))
        self.form: KeyForm = form
        self.degree = degree
        for name in _PHE_ONLY if degree > 1 else ():
            delattr(self, name)

    def __getattr__(self, name: str) -> Any:
        if name in _PHE_ONLY:
            raise DegreeError(f"{self!r} is of degree {self.degree}, and phe computes under keys of degree 1 only")
        raise AttributeError(name)

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
    def plaintext_modulus(self) -> mpz:
        """n^s: the order of 1 + n, and the exponent of which the residues of ciphertexts are powers."""
        return mpz(self.n) ** self.degree

    @cached_property
    def ciphertext_modulus(self) -> mpz:
        """n^(s+1)."""
        return mpz(self.n) ** (self.degree + 1)

    @cached_property
    def ciphertext_bytes(self) -> int:
        """Length of an encoded ciphertext."""
        return (int(self.ciphertext_modulus.bit_length()) + 7) // 8

    @property
    def ring(self) -> Ring:
        """The integers modulo n^(s+1), by the kernel that computes."""
        return ring(self.modulus, self.degree + 1)

    @cached_property
    def identifier(self) -> bytes:
        """SHA-256 of n and the key's form and degree, 32 bytes: what messages name the key by."""
        size = (self.bits + 7) // 8
        kind = self.form if self.degree == 1 else f"{self.form}, degree {self.degree}"
        return hashlib.sha256(b"psephos public key\0" + kind.encode() + b"\0" + self.n.to_bytes(size, "big")).digest()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PublicKey):
            return bool((self.n, self.form, self.degree) == (other.n, other.form, other.degree))
        if isinstance(other, phe.PaillierPublicKey):
            return self.degree == 1 and bool(super().__eq__(other))
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self.n)

    def __repr__(self) -> str:
        size = f"{self.bits} bits" + (f", degree {self.degree}" if self.degree > 1 else "")
        return f"<PublicKey {size}, {self.form}, {self.identifier.hex()[:12]}>"

    def __reduce__(self) -> tuple[object, ...]:
        return partial(PublicKey, **_parts(self)), ()


def check_degree(degree: int) -> None:
    """Raise InvalidParameter for a degree that no key has."""
    if not 1 <= degree <= LARGEST_DEGREE:
        raise InvalidParameter(f"the degree of a key lies between 1 and {LARGEST_DEGREE}, and is not {degree}")


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
