"""The cryptosystem of Damgard, Geisler and Kroigaard (2007, corrected 2009): small plaintexts and a fast test for zero.

n = pq with p = 2 u v_p f_p + 1 and q = 2 u v_q f_q + 1 for a small prime u, the plaintexts' modulus, and two
*different* primes v_p, v_q of t bits (one common v, as first published, would divide n - 1). g has order u v_p v_q, h
has order v_p v_q, and a ciphertext of m is g^m h^r with r of 5t/2 bits, which is within 2^-(t/2) of uniform in the
group of h. The owner of the key recognises a zero by c^(v_p) = 1 modulo p.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import gmpy2
from gmpy2 import mpz

from psephos.protocol.errors import InvalidParameter, MessageError
from psephos.protocol.paillier.comb import FixedBaseComb, best_shape, shared_comb
from psephos.protocol.paillier.kernel import ring
from psephos.protocol.paillier.keys import DEFAULT_KEY_BITS, MINIMUM_KEY_BITS, check_strength, security_bits
from psephos.protocol.randomness import SYSTEM, Randomness
from psephos.protocol.wire import ByteReader

DGK_MINIMUM_PLAINTEXTS = 11
"""Least plaintext modulus, which allows comparisons of 3 bits."""

_MAGIC = b"PSEPHOS DGK\x01"


@dataclass(frozen=True, repr=False)
class DgkPublicKey:
    """A public key: n, g, h, u and t (`subgroup_bits`); ciphertexts are units modulo n.

    Raises InvalidParameter for numbers that cannot form one.
    """

    n: mpz
    g: mpz
    h: mpz
    u: int
    subgroup_bits: int

    def __post_init__(self) -> None:
        n, g, h = self.n, self.g, self.h
        if n < 2**63 or n % 2 == 0 or not (1 < g < n and 1 < h < n) or gmpy2.gcd(g * h, n) != 1:
            raise InvalidParameter("a DGK key has an odd n, and units g and h between 1 and n")
        prime = self.u >= DGK_MINIMUM_PLAINTEXTS and gmpy2.is_prime(self.u)
        if not prime or not 16 <= self.subgroup_bits < self.bits // 2:
            raise InvalidParameter("a DGK key has a prime u, and t less than half the length of n")

    @property
    def modulus(self) -> mpz:
        return self.n

    @property
    def ciphertext_modulus(self) -> mpz:
        return self.n

    @property
    def bits(self) -> int:
        return int(self.n.bit_length())

    @property
    def ciphertext_bytes(self) -> int:
        return (self.bits + 7) // 8

    @property
    def largest_comparison(self) -> int:
        """Largest length in bits of integers that can be compared."""
        return (self.u - 3) // 3

    @cached_property
    def identifier(self) -> bytes:
        return hashlib.sha256(self.encode()).digest()

    def encode(self) -> bytes:
        size = self.ciphertext_bytes
        numbers = ((size, 2), (self.u, 4), (self.subgroup_bits, 2), (self.n, size), (self.g, size), (self.h, size))
        return _MAGIC + b"".join(int(number).to_bytes(length, "big") for number, length in numbers)

    @classmethod
    def decode(cls, data: bytes, *, test_key: bool = False) -> DgkPublicKey:
        """Decode a received key; raise MessageError, InvalidParameter, or WeakKeyError below 2048 bits."""
        reader = ByteReader(data, "a DGK public key")
        if reader.take(len(_MAGIC)) != _MAGIC or (size := reader.integer(2)) > 2048:
            raise MessageError("the bytes are not a DGK public key of this version")
        u, t = reader.integer(4), reader.integer(2)
        n, g, h = (mpz(reader.integer(size)) for _ in range(3))
        reader.end()
        key = cls(n, g, h, u, t)
        if key.encode() != data:
            raise MessageError("the bytes are not the canonical encoding of a DGK public key")
        check_strength(key.bits, test_key)
        return key

    # -- ciphertexts

    def blinds(self, count: int, randomness: Randomness = SYSTEM) -> list[mpz]:
        """Draw `count` fresh h^r; multiplying a ciphertext by one re-randomises it."""
        comb = self.comb(max(4096, count))
        return comb.drawn_powers([comb.draw(randomness) for _ in range(count)])

    def comb(self, powers: int) -> FixedBaseComb:
        bits, size, rounded = 5 * self.subgroup_bits // 2, self.ciphertext_bytes, 1 << (powers - 1).bit_length()
        shape = best_shape(bits, powers=rounded, entry_bytes=size, memory=16_000_000)
        return shared_comb(self.h, ring(self.n), shape)

    def encrypt(self, plaintexts: Sequence[int], randomness: Randomness = SYSTEM) -> tuple[mpz, ...]:
        n, g = self.n, self.g
        blinds = self.blinds(len(plaintexts), randomness)
        return tuple([gmpy2.powmod(g, m, n) * r % n for m, r in zip(plaintexts, blinds, strict=True)])

    def __repr__(self) -> str:
        return f"<DgkPublicKey {self.bits} bits, u = {self.u}, {self.identifier.hex()[:12]}>"


class DgkPrivateKey:
    """A private key: p and v_p, which suffice to recognise zeros. `repr` and errors do not show them; no pickling."""

    def __init__(self, public_key: DgkPublicKey, p: int, v_p: int) -> None:
        """Create a key; raise InvalidParameter unless h^(v_p) = 1 and g^(v_p) != 1 modulo p."""
        if (
            public_key.n % p
            or v_p < 1
            or gmpy2.powmod_sec(public_key.h, v_p, p) != 1
            or gmpy2.powmod_sec(public_key.g, v_p, p) == 1
        ):
            raise InvalidParameter("these numbers are not the private key of this DGK public key")
        self.public_key = public_key
        self._p, self._v_p = mpz(p), mpz(v_p)

    def is_zero(self, ciphertext: mpz) -> bool:
        """Return whether the plaintext is 0 modulo u; the ciphertext must have been checked."""
        return bool(gmpy2.powmod_sec(ciphertext % self._p, self._v_p, self._p) == 1)

    def __repr__(self) -> str:
        return f"<DgkPrivateKey of {self.public_key!r}>"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a private key cannot be pickled")


def generate_dgk_key(
    bits: int = DEFAULT_KEY_BITS,
    *,
    comparison_bits: int = 128,
    test_key: bool = False,
    randomness: Randomness = SYSTEM,
) -> DgkPrivateKey:
    """Generate a key for comparisons of up to `comparison_bits` bits; v_p and v_q have twice the security level."""
    check_strength(bits, test_key)
    u = int(gmpy2.next_prime(max(3 * comparison_bits + 2, DGK_MINIMUM_PLAINTEXTS - 1)))
    # Test keys are not secure, and t must leave room in their short primes.
    t = 2 * security_bits(bits) if bits >= MINIMUM_KEY_BITS else bits // 8
    half = bits // 2
    if bits % 2 or t < 16 or t + u.bit_length() + 16 > half:
        raise InvalidParameter(f"a DGK key has an even length with room for u and v, not {bits} bits")
    p, v_p = _prime_with(u, t, half, randomness)
    while True:
        q, v_q = _prime_with(u, t, half, randomness)
        if v_q != v_p and q != p:
            break
    n = p * q
    inverse = gmpy2.invert(p, q)

    def joined(of_p: mpz, of_q: mpz) -> mpz:
        return of_p + p * ((of_q - of_p) * inverse % q)

    g = joined(_of_order((u, v_p), p, randomness), _of_order((u, v_q), q, randomness))
    h = joined(_of_order((v_p,), p, randomness), _of_order((v_q,), q, randomness))
    return DgkPrivateKey(DgkPublicKey(n, g, h, u, t), int(p), int(v_p))


def _prime_with(u: int, t: int, bits: int, randomness: Randomness) -> tuple[mpz, mpz]:
    """Draw a prime p of `bits` bits with two top bits set and u v dividing (p - 1)/2, and the prime v of t bits."""
    while True:
        v = mpz(randomness.bits(t) | 1 << (t - 1) | 1)
        if gmpy2.is_prime(v, 40):
            break
    step = 2 * u * v
    low = -((-3 << (bits - 2)) // step)
    high = (1 << bits) // step
    while True:
        p = step * (low + randomness.below(int(high - low))) + 1
        if gmpy2.is_prime(p, 40):
            return p, v


def _of_order(primes: tuple[int | mpz, ...], p: mpz, randomness: Randomness) -> mpz:
    order = math.prod(primes)
    while True:
        element = gmpy2.powmod_sec(1 + randomness.below(int(p) - 1), (p - 1) // order, p)
        if all(gmpy2.powmod_sec(element, order // prime, p) != 1 for prime in primes):
            return element
