"""What the holders of a ceremony (Boneh and Franklin 2001) agree on before it, and every width that follows from it.

    p = F + sum_A rho_A,     rho_A in [0, S 2^w),  S = 12 l_1 l_2 .. l_k,  F = 11 mod 12,  F = 0 mod l_i

A runs over all sets of n - tau holders, tau = (n - 1) // 2; the holders in A know rho_A. The residues of p modulo the
primes l_i are drawn jointly (`psephos.protocol.ceremony.search`), p = 11 mod 12 is public, and F lays p and q into the
top quarter of their range, so that n has exactly the wanted length. 12 is 4, for p = 3 mod 4, times 3, where 2 is the
one residue of a prime p with 3 not dividing p - 1.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, count

import gmpy2
from gmpy2 import mpz

from psephos.protocol.errors import InvalidParameter, WeakKeyError
from psephos.protocol.paillier.keys import MINIMUM_KEY_BITS, check_degree
from psephos.protocol.paillier.private_key import form_bound

MOST_HOLDERS = 9
"""Pieces grow as binomial(n, tau): 126 with 9 holders, 1,716 with 13."""

SMALLEST_CEREMONY = 128
"""Bits of the smallest modulus, for tests."""

_TOP_BITS = 8
"""Least w: above its residue every piece has as many free bits."""


@dataclass(frozen=True)
class CeremonyTerms:
    """The terms of one ceremony; their digest is in every message.

    Attributes:
        bits: length of the modulus.
        holders: n, 3 to 9.
        threshold: t, n/2 < t <= n.
        context: 32 bytes that name what the key is for (a study); no two ceremonies for one thing have the same.
        test_key: allows fewer than 2048 bits.
        degree: s of the key, whose plaintexts lie modulo n^s.

    Raises InvalidParameter for anything outside these ranges, WeakKeyError for a short modulus that is no test key.
    """

    bits: int
    holders: int
    threshold: int
    context: bytes
    test_key: bool = False
    degree: int = 1

    def __post_init__(self) -> None:
        check_degree(self.degree)
        if not 3 <= self.holders <= MOST_HOLDERS:
            raise InvalidParameter(
                f"a ceremony has 3 to {MOST_HOLDERS} holders, not {self.holders}: two cannot multiply what they share, "
                "and pieces grow too fast with their number. A dealer can share a key among more (--keys dealer)"
            )
        if not self.holders / 2 < self.threshold <= self.holders:
            raise InvalidParameter(
                f"without a dealer more than half of the {self.holders} holders open a ciphertext, not "
                f"{self.threshold}: as many can open the key while it is made"
            )
        if self.bits % 2 or self.bits < SMALLEST_CEREMONY:
            raise InvalidParameter(f"a ceremony makes an even number of bits from {SMALLEST_CEREMONY}, not {self.bits}")
        if self.bits < MINIMUM_KEY_BITS and not self.test_key:
            raise WeakKeyError(
                f"a {self.bits}-bit key protects nothing; ask for {MINIMUM_KEY_BITS} bits or more, or say "
                "test_key=True where only a test will ever see it"
            )
        if len(self.context) != 32:
            raise InvalidParameter("what a ceremony is for is named by 32 bytes")

    @cached_property
    def digest(self) -> bytes:
        """SHA-256, 32 bytes."""
        numbers = b"".join(number.to_bytes(4, "big") for number in (self.bits, self.holders, self.threshold))
        degree = self.degree.to_bytes(4, "big") if self.degree > 1 else b""
        return hashlib.sha256(b"psephos ceremony\0" + numbers + self.context + degree).digest()

    def ciphertext_modulus(self, n: mpz) -> mpz:
        """n^(s+1)."""
        return n ** (self.degree + 1)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The holders' names, of holder 1 first."""
        return tuple(f"holder {j}" for j in range(1, self.holders + 1))

    @cached_property
    def tolerated(self) -> int:
        """tau: coalitions of so many learn nothing while the key is made."""
        return (self.holders - 1) // 2

    @cached_property
    def subsets(self) -> tuple[tuple[int, ...], ...]:
        """Every set A of n - tau holders; any tau of them miss one A, and every two of them meet."""
        return tuple(combinations(range(1, self.holders + 1), self.holders - self.tolerated))

    @cached_property
    def prime_bits(self) -> int:
        """Length of p and of q."""
        return self.bits // 2

    @cached_property
    def form_bound(self) -> int:
        """(p - 1)/2 and (q - 1)/2 have no prime factor below it."""
        return form_bound(self.prime_bits)

    @cached_property
    def primes(self) -> tuple[int, ...]:
        """The l_i: 5, 7, 11, ... as many as leave w free bits on top."""
        chosen: list[int] = []
        room = mpz(1) << (self.prime_bits - 2)
        step, prime = mpz(12), 5
        while prime < self.form_bound and step * prime * (len(self.subsets) * (1 << _TOP_BITS) + 1) <= room:
            chosen.append(prime)
            step *= prime
            prime = int(gmpy2.next_prime(prime))
        return tuple(chosen)

    @cached_property
    def step(self) -> mpz:
        """S."""
        return 12 * mpz(math.prod(self.primes))

    @cached_property
    def top_bits(self) -> int:
        """w, at most 32."""
        room = ((mpz(1) << (self.prime_bits - 2)) // self.step - 1) // len(self.subsets)
        return min(32, int(room).bit_length() - 1)

    @cached_property
    def offset(self) -> mpz:
        """F."""
        odd = self.step // 12
        least = mpz(3) << (self.prime_bits - 2)
        first = least + -least % odd
        return next(first + k * odd for k in count() if (first + k * odd) % 12 == 11)

    @cached_property
    def rest_bits(self) -> int:
        """s: n is opened modulo 2^s, and modulo S it is known from the residues."""
        return self.bits - int(self.step // 4).bit_length() + 2

    @cached_property
    def success(self) -> float:
        """Chance of one candidate: both numbers prime, and of the right form, given that no l_i divides p (p - 1).

        By Mertens' third theorem, as if divisibility by the larger primes were independent.
        """
        last, form = math.log(self.primes[-1]), math.log(self.form_bound)
        prime = math.exp(0.5772156649) * last / (self.prime_bits * math.log(2))
        return float((prime * min(1.0, last / form)) ** 2)

    @cached_property
    def batch(self) -> int:
        """K, candidates drawn at once: a sixth of what is expected in all, at most 1,024."""
        return max(16, min(1024, round(1 / (6 * self.success))))

    @cached_property
    def draws(self) -> tuple[int, ...]:
        """Draws of a residue pair modulo each l_i, enough that at least K survive but with probability about 1e-9."""
        counts = []
        for prime in self.primes:
            rate = ((prime - 2) / prime) ** 2 * (prime - 1) / prime
            counts.append(math.ceil((self.batch + 6 * math.sqrt(self.batch * (1 - rate)) + 6) / rate))
        return tuple(counts)
