"""Paillier private keys and their generation (docs/design.md, section 3)."""

from __future__ import annotations

import math
from functools import cached_property

import gmpy2
from gmpy2 import mpz

from psephos.protocol.errors import InvalidParameter, WrongKeyError
from psephos.protocol.paillier.ciphertexts import check_ciphertexts
from psephos.protocol.paillier.generator import logarithm
from psephos.protocol.paillier.kernel import Ring, ring
from psephos.protocol.paillier.keys import (
    DEFAULT_KEY_BITS,
    KeyForm,
    PublicKey,
    check_degree,
    check_key_bits,
    odd_primorial,
)
from psephos.protocol.randomness import SYSTEM, Randomness

_SMALLEST_PRIME_BOUND = 100
"""The product of the odd primes below this is short, so a gcd with it is quick; it rejects 96 % of all candidates."""


class PrivateKey:
    """A private key. `repr` and errors do not show the factors, and pickling raises TypeError."""

    def __init__(self, p: int, q: int, degree: int = 1) -> None:
        """Create a key from distinct primes; raise InvalidParameter unless gcd(pq, (p - 1)(q - 1)) = 1."""
        if p == q or not gmpy2.is_prime(p) or not gmpy2.is_prime(q):
            raise InvalidParameter("a private key needs two different primes")
        if math.gcd(p * q, (p - 1) * (q - 1)) != 1:
            raise InvalidParameter("these primes do not form a Paillier key: n shares a factor with (p - 1)(q - 1)")
        self._p, self._q = mpz(min(p, q)), mpz(max(p, q))
        form: KeyForm = "psephos" if _has_psephos_form(mpz(p), mpz(q)) else "foreign"
        self.public_key = PublicKey(int(p * q), form=form, degree=degree)

    def factors(self) -> tuple[int, int]:
        """Return (p, q), p < q. Only for dealers, and for a private key of phe."""
        return int(self._p), int(self._q)

    @cached_property
    def _crt(self) -> tuple[Ring, Ring, mpz, mpz, mpz]:
        """Values for decryption modulo powers of p and q: the rings, inverse logarithms, and (p^s)^-1 mod q^s."""
        rings, inverses, s = [], [], self.public_key.degree
        for p in (self._p, self._q):
            one = gmpy2.powmod_sec(1 + self._p * self._q, p - 1, p ** (s + 1))
            rings.append(ring(p, s + 1, secret=True))
            inverses.append(gmpy2.invert(logarithm(one, p, s), p**s))
        return rings[0], rings[1], inverses[0], inverses[1], gmpy2.invert(self._p**s, self._q**s)

    def raw_decrypt(self, ciphertext: int | mpz) -> int:
        """Decrypt one ciphertext to [0, n^s) by the Chinese remainder theorem (Paillier 1999, section 7).

        Raises CiphertextError unless the ciphertext is a unit modulo n^(s+1).
        """
        c = mpz(ciphertext)
        check_ciphertexts(self.public_key, (c,))
        of_p, of_q, hp, hq, p_inverse = self._crt
        s, p_power, q_power = self.public_key.degree, self._p**self.public_key.degree, self._q**self.public_key.degree
        mp = logarithm(of_p.power([c], self._p - 1)[0], self._p, s) * hp % p_power
        mq = logarithm(of_q.power([c], self._q - 1)[0], self._q, s) * hq % q_power
        return int(mp + p_power * ((mq - mp) * p_inverse % q_power))

    def decryption_exponent(self) -> int:
        """Return d = 0 mod lambda, d = 1 mod n^s, 0 < d < n^s lambda, so that c^d = (1 + n)^m mod n^(s+1)."""
        lam = gmpy2.lcm(self._p - 1, self._q - 1)
        return int(lam * gmpy2.invert(lam, self.public_key.plaintext_modulus))

    def check_owns(self, key: PublicKey) -> None:
        if (key.n, getattr(key, "degree", 1)) != (self.public_key.n, self.public_key.degree):
            raise WrongKeyError(f"this private key belongs to {self.public_key!r}, not to {key!r}")

    def __repr__(self) -> str:
        return f"<PrivateKey of {self.public_key!r}>"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a private key cannot be pickled")


def generate_private_key(
    bits: int = DEFAULT_KEY_BITS, *, degree: int = 1, test_key: bool = False, randomness: Randomness = SYSTEM
) -> PrivateKey:
    """Generate a key of form "psephos" whose n has exactly so many bits, an even number.

    The primes are uniform among those of the form. Raises WeakKeyError for fewer than 2048 bits without `test_key`.
    """
    check_key_bits(bits, test_key=test_key)
    check_degree(degree)
    while True:
        p, q = _prime(bits // 2, randomness), _prime(bits // 2, randomness)
        # The distance protects against Fermat's method; the gcd makes the squares modulo n a cyclic group.
        if abs(p - q).bit_length() > bits // 2 - 10 and gmpy2.gcd(p - 1, q - 1) == 2:
            return PrivateKey(int(p), int(q), degree)


def _prime(bits: int, randomness: Randomness) -> mpz:
    """Draw a prime p = 3 mod 4 with two top bits set and no odd prime factor of p - 1 below min(2^16, 2^(bits/8))."""
    all_small = odd_primorial(form_bound(bits))
    smallest = odd_primorial(min(form_bound(bits), _SMALLEST_PRIME_BOUND))
    while True:
        p = mpz(randomness.bits(bits) | 3 << (bits - 2) | 3)
        product = p * (p >> 1)
        if gmpy2.gcd(product, smallest) == 1 and gmpy2.gcd(product, all_small) == 1 and gmpy2.is_prime(p, 40):
            return p


def form_bound(prime_bits: int) -> int:
    """Return the bound below which (p - 1)/2 of form "psephos" has no prime factor, for primes of this length."""
    # Short primes of test keys could not avoid all factors below 2^16; from 128 bits on the full bound holds.
    return int(min(2**16, 2 ** (prime_bits // 8)))


def _has_psephos_form(p: mpz, q: mpz) -> bool:
    """Return whether the primes have the form "psephos" (see `keys`)."""
    small = odd_primorial(form_bound(min(p.bit_length(), q.bit_length())))
    return bool(
        p % 4 == 3
        and q % 4 == 3
        and gmpy2.gcd(p - 1, q - 1) == 2
        and gmpy2.gcd(p >> 1, small) == 1
        and gmpy2.gcd(q >> 1, small) == 1
    )
