"""A Paillier private key that tells nothing, and the making of one (docs/design.md, section 3)."""

from __future__ import annotations

import math
from functools import cache, cached_property

import gmpy2
import phe
from gmpy2 import mpz

from psephos.protocol.errors import InvalidParameter, WrongKeyError
from psephos.protocol.paillier.ciphertexts import check_ciphertext
from psephos.protocol.paillier.generator import logarithm
from psephos.protocol.paillier.kernel import Ring, ring
from psephos.protocol.paillier.keys import DEFAULT_KEY_BITS, KeyForm, PublicKey, check_degree, check_key_bits
from psephos.protocol.randomness import SYSTEM, Randomness

_SMALL_PRIME_BOUND = 2**16


class PrivateKey:
    """The factors of a modulus. `repr` and errors show nothing of them, and pickling raises TypeError."""

    def __init__(self, p: int, q: int, degree: int = 1) -> None:
        """Raises InvalidParameter when p, q are not two distinct primes with gcd(pq, (p - 1)(q - 1)) = 1."""
        if p == q or not gmpy2.is_prime(p) or not gmpy2.is_prime(q):
            raise InvalidParameter("a private key needs two different primes")
        if math.gcd(p * q, (p - 1) * (q - 1)) != 1:
            raise InvalidParameter("these primes make no Paillier key: n shares a factor with (p - 1)(q - 1)")
        self._p, self._q = mpz(min(p, q)), mpz(max(p, q))
        form: KeyForm = "psephos" if _has_our_form(mpz(p), mpz(q)) else "foreign"
        self.public_key = PublicKey(int(p * q), form=form, degree=degree)

    @classmethod
    def from_phe(cls, key: phe.PaillierPrivateKey) -> PrivateKey:
        """A phe private key as one of ours; raises InvalidParameter as the class does."""
        return cls(key.p, key.q)

    def to_phe(self) -> phe.PaillierPrivateKey:
        """The same key for phe, whose constructor raises DegreeError for a degree above 1."""
        return phe.PaillierPrivateKey(self.public_key, int(self._p), int(self._q))

    def factors(self) -> tuple[int, int]:
        """(p, q), p < q. For key files and dealers; nothing else should ask."""
        return int(self._p), int(self._q)

    @cached_property
    def _crt(self) -> tuple[Ring, Ring, mpz, mpz, mpz]:
        rings, inverses, s = [], [], self.public_key.degree
        for p in (self._p, self._q):
            one = gmpy2.powmod_sec(1 + self._p * self._q, p - 1, p ** (s + 1))
            rings.append(ring(p, s + 1, secret=True))
            inverses.append(gmpy2.invert(logarithm(one, p, s), p**s))
        return rings[0], rings[1], inverses[0], inverses[1], gmpy2.invert(self._p**s, self._q**s)

    def raw_decrypt(self, ciphertext: int | mpz) -> int:
        """The plaintext in [0, n^s) of one ciphertext, by the Chinese remainder theorem (Paillier 1999, section 7).

        Raises CiphertextError when it is no unit modulo n.
        """
        c = mpz(ciphertext)
        check_ciphertext(self.public_key, c)
        of_p, of_q, hp, hq, p_inverse = self._crt
        s, p_power, q_power = self.public_key.degree, self._p**self.public_key.degree, self._q**self.public_key.degree
        mp = logarithm(of_p.power([c], self._p - 1)[0], self._p, s) * hp % p_power
        mq = logarithm(of_q.power([c], self._q - 1)[0], self._q, s) * hq % q_power
        return int(mp + p_power * ((mq - mp) * p_inverse % q_power))

    def decryption_exponent(self) -> int:
        """d with d = 0 mod lambda and d = 1 mod n^s, so that c^d = (1 + n)^m mod n^(s+1); 0 < d < n^s lambda."""
        lam = gmpy2.lcm(self._p - 1, self._q - 1)
        return int(lam * gmpy2.invert(lam, self.public_key.plaintext_modulus))

    def check_owns(self, key: PublicKey) -> None:
        """Raise WrongKeyError when `key` has another modulus or degree."""
        if (key.n, getattr(key, "degree", 1)) != (self.public_key.n, self.public_key.degree):
            raise WrongKeyError(f"this private key belongs to {self.public_key!r}, not to {key!r}")

    def __repr__(self) -> str:
        return f"<PrivateKey of {self.public_key!r}>"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a private key is not pickled; write it with psephos.protocol.storage.keyfiles")


def generate_private_key(
    bits: int = DEFAULT_KEY_BITS, *, degree: int = 1, test_key: bool = False, randomness: Randomness = SYSTEM
) -> PrivateKey:
    """A fresh key of exactly `bits` bits, of form "psephos", for plaintexts modulo n^degree.

    Candidates are drawn independently, so the primes are uniform among those of the form. About a second at 3072
    bits. Raises WeakKeyError under 2048 bits unless `test_key`, InvalidParameter for an odd, tiny or huge size.
    """
    check_key_bits(bits, test_key=test_key)
    check_degree(degree)
    while True:
        p, q = _prime(bits // 2, randomness), _prime(bits // 2, randomness)
        # Far apart against Fermat's method; the gcd makes the squares modulo n a cyclic group.
        if abs(p - q).bit_length() > bits // 2 - 10 and gmpy2.gcd(p - 1, q - 1) == 2:
            return PrivateKey(int(p), int(q), degree)


def _prime(bits: int, randomness: Randomness) -> mpz:
    """A prime p = 3 mod 4 with its two top bits set and no odd prime factor below min(2^16, 2^(bits/8)) in p - 1."""
    primorial = odd_primorial(form_bound(bits))
    while True:
        p = mpz(randomness.bits(bits) | 3 << (bits - 2) | 3)
        if gmpy2.gcd(p * (p >> 1), primorial) == 1 and gmpy2.is_prime(p, 40):
            return p


def form_bound(prime_bits: int) -> int:
    """What (p - 1)/2 of form "psephos" has no prime factor below, for primes of this length."""
    # Toy primes could not avoid all factors below 2^16; from 128-bit primes on the bound is the full one.
    return int(min(_SMALL_PRIME_BOUND, 2 ** (prime_bits // 8)))


@cache
def odd_primorial(bound: int) -> mpz:
    """The product of the odd primes up to a bound."""
    return gmpy2.primorial(bound) // 2


def _has_our_form(p: mpz, q: mpz) -> bool:
    small = odd_primorial(form_bound(min(p.bit_length(), q.bit_length())))
    return bool(
        p % 4 == 3
        and q % 4 == 3
        and gmpy2.gcd(p - 1, q - 1) == 2
        and gmpy2.gcd(p >> 1, small) == 1
        and gmpy2.gcd(q >> 1, small) == 1
    )
