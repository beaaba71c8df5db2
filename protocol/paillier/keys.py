"""Public keys of Paillier (1999) and of Damgard and Jurik (2001), as subclasses of phe's key.

Under a key of degree s a plaintext is an integer modulo n^s and its ciphertext (1 + n)^m r^(n^s) one modulo n^(s+1).
A key of degree 1 can be used wherever phe accepts one. The randomness modes `half` and `short` need keys of form
"psephos": p = q = 3 mod 4, gcd(p - 1, q - 1) = 2, and no prime factor below 2^16 in (p - 1)/2 and (q - 1)/2. Then the
group of squares is cyclic and its order has no small factors (docs/design.md, section 3).
"""

from __future__ import annotations

import hashlib
from functools import cache, cached_property, partial
from typing import Any, Literal

import gmpy2
import phe
from gmpy2 import mpz

from psephos.protocol.errors import InvalidParameter, UnsuitableKeyError, WeakKeyError
from psephos.protocol.paillier.kernel import Ring, ring
from psephos.protocol.storage.values import storable_as

DEFAULT_KEY_BITS = 3072
"""Default length of n: 128-bit security (NIST SP 800-57 part 1, table 2)."""

MINIMUM_KEY_BITS = 2048
"""Least length of n, unless the caller sets test_key."""

SMALLEST_TEST_KEY = 64
"""Least length of n of a test key, which has no security at all."""

LARGEST_KEY = 16384
"""Largest length of n, beyond 256-bit security (15360); longer keys would take hours to generate."""

LARGEST_DEGREE = 4
"""Largest degree; a fifth would save 4 % of the bytes and take longer to decrypt."""

KeyForm = Literal["psephos", "foreign"]

_PHE_ONLY = ("g", "nsquare", "max_int")  # attributes that phe computes with, wrong under degrees above 1


def _parts(key: PublicKey) -> dict[str, Any]:
    return {"n": key.n, "form": key.form} | ({"degree": key.degree} if key.degree > 1 else {})


@storable_as(_parts)
class PublicKey(phe.PaillierPublicKey):  # type: ignore[misc]  # phe carries no types
    """A public key of degree 1 to 4; InvalidParameter for an n that is even or has fewer than 64 bits.

    Functions of phe raise UnsuitableKeyError for a degree above 1. `form` is "psephos" if whoever generated the key
    states that it has the form above.
    """

    def __init__(self, n: int, *, form: KeyForm = "foreign", degree: int = 1) -> None:
        if n < 2 ** (SMALLEST_TEST_KEY - 1) or n % 2 == 0:
            raise InvalidParameter(f"a Paillier modulus is an odd number of {SMALLEST_TEST_KEY} bits or more")
        check_degree(degree)
        super().__init__(int(n))
        self.form: KeyForm = form
        self.degree = degree
        for name in _PHE_ONLY if degree > 1 else ():
            delattr(self, name)

    def __getattr__(self, name: str) -> Any:
        if name in _PHE_ONLY:
            raise UnsuitableKeyError(f"{self!r} has degree {self.degree}; phe supports keys of degree 1 only")
        raise AttributeError(name)

    @classmethod
    def from_phe(cls, key: phe.PaillierPublicKey) -> PublicKey:
        """Convert a key of phe, to form "foreign"; InvalidParameter for a prime, a power, or a small factor."""
        if isinstance(key, PublicKey):
            return key
        n = int(key.n)
        for failed, what in (
            (gmpy2.is_prime(n), "is a prime"),
            (gmpy2.is_power(n), "is a perfect power"),
            (gmpy2.gcd(n, 2 * odd_primorial(2**16)) != 1, "has a prime factor below 2^16"),
        ):
            if failed:
                raise InvalidParameter(f"the modulus {what}; it must be the product of two large primes")
        return PublicKey(n)

    @cached_property
    def bits(self) -> int:
        return int(self.n.bit_length())

    @cached_property
    def modulus(self) -> mpz:
        return mpz(self.n)

    @cached_property
    def plaintext_modulus(self) -> mpz:
        """n^s, the order of 1 + n; residues of ciphertexts are n^s-th powers."""
        return mpz(self.n) ** self.degree

    @cached_property
    def ciphertext_modulus(self) -> mpz:
        return mpz(self.n) ** (self.degree + 1)

    @cached_property
    def ciphertext_bytes(self) -> int:
        return (int(self.ciphertext_modulus.bit_length()) + 7) // 8

    @property
    def ring(self) -> Ring:
        """Arithmetic modulo n^(s+1) by the current kernel."""
        return ring(self.modulus, self.degree + 1)

    @cached_property
    def identifier(self) -> bytes:
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
    if not 1 <= degree <= LARGEST_DEGREE:
        raise InvalidParameter(f"the degree of a key must lie between 1 and {LARGEST_DEGREE}, not {degree}")


def check_key_bits(bits: int, *, test_key: bool = False) -> None:
    """Raise InvalidParameter or WeakKeyError for the length of a key that is to be generated."""
    if bits % 2 or not SMALLEST_TEST_KEY <= bits <= LARGEST_KEY:
        raise InvalidParameter(f"a key has an even number of {SMALLEST_TEST_KEY} to {LARGEST_KEY} bits, not {bits}")
    check_strength(bits, test_key)


@cache
def odd_primorial(bound: int) -> mpz:
    """Return the product of the odd primes up to a bound."""
    return gmpy2.primorial(bound) // 2


def check_strength(bits: int, test_key: bool = False) -> None:
    """Raise WeakKeyError for a modulus below 2048 bits unless `test_key` is set."""
    if bits < MINIMUM_KEY_BITS and not test_key:
        raise WeakKeyError(
            f"a {bits}-bit modulus is not secure; use {MINIMUM_KEY_BITS} bits or more (default {DEFAULT_KEY_BITS}), or "
            "test_key=True (--test-key) in tests"
        )


def security_bits(modulus_bits: int) -> int:
    """Return the security level of a modulus in bits (NIST SP 800-57 part 1 rev. 5, table 2), at least 80."""
    for bits, level in ((15360, 256), (7680, 192), (3072, 128), (2048, 112)):
        if modulus_bits >= bits:
            return level
    return 80
