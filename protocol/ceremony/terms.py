"""The terms of a key setup without a dealer (Boneh and Franklin 2001), and the widths that follow from them.

    p = F + sum_A rho_A,     rho_A in [0, S 2^w),  S = 12 l_1 l_2 .. l_k,  F = 11 mod 12,  F = 0 mod l_i

A runs over all sets of n - tau holders, tau = (n - 1) // 2; the holders in A know rho_A. F places p and q in the top
quarter of their range, so that n has exactly the required length; p = 3 mod 4, and p = 2 mod 3, so that 3 does not
divide p - 1.
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
"""Largest number of holders: there are binomial(n, tau) pieces, 126 for 9 holders and 1,716 for 13."""

SMALLEST_CEREMONY = 128
"""Least length of the modulus in bits, for tests."""

_TOP_BITS = 8
"""Least w, the number of free bits of a piece above its residue."""


@dataclass(frozen=True)
class CeremonyTerms:
    """The terms of one key setup; their digest is in every message.

    Attributes:
        bits: length of the modulus.
        holders: n, 3 to 9.
        threshold: t, 2 <= t <= (n + 1)/2, so that t - 1 holders learn nothing while the key is made, too.
        context: 32 bytes that identify the purpose of the key (a study), different for every key setup.
        test_key: accept fewer than 2048 bits.
        degree: s of the key, whose plaintexts are integers modulo n^s.
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
        most = self.tolerated + 1
        if not 2 <= self.threshold <= most:
            thresholds = "2" if most == 2 else f"2 to {most}"
            raise InvalidParameter(
                f"without a dealer {self.holders} holders have a threshold of {thresholds}, not {self.threshold}: "
                f"{most} of them know the key if they keep what they see while it is made"
            )
        if self.bits % 2 or self.bits < SMALLEST_CEREMONY:
            raise InvalidParameter(f"a ceremony makes an even number of bits from {SMALLEST_CEREMONY}, not {self.bits}")
        if self.bits < MINIMUM_KEY_BITS and not self.test_key:
            raise WeakKeyError(
                f"a {self.bits}-bit key protects nothing; ask for {MINIMUM_KEY_BITS} bits or more, or say "
                "test_key=True where only a test will ever see it"
            )
        if len(self.context) != 32:
            raise InvalidParameter("the context of a key setup must have 32 bytes")

    @cached_property
    def digest(self) -> bytes:
        numbers = b"".join(number.to_bytes(4, "big") for number in (self.bits, self.holders, self.threshold))
        degree = self.degree.to_bytes(4, "big") if self.degree > 1 else b""
        return hashlib.sha256(b"psephos ceremony\0" + numbers + self.context + degree).digest()

    def hashed(self, n: mpz, label: str, size: int, counter: bytes = b"") -> bytes:
        """Return `size` bytes of a hash (SHAKE-256) of the terms, a modulus and a label."""
        content = self.digest + n.to_bytes(self.bits // 8 + 1, "big") + counter
        return hashlib.shake_256(f"psephos {label}\0".encode() + content).digest(size)

    def ciphertext_modulus(self, n: mpz) -> mpz:
        return n ** (self.degree + 1)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(f"holder {j}" for j in range(1, self.holders + 1))

    @cached_property
    def tolerated(self) -> int:
        """tau, the largest size of a coalition that learns nothing during the key setup."""
        return (self.holders - 1) // 2

    @cached_property
    def subsets(self) -> tuple[tuple[int, ...], ...]:
        """All sets A of n - tau holders; any tau holders are outside of one set, and every two sets intersect."""
        return tuple(combinations(range(1, self.holders + 1), self.holders - self.tolerated))

    @cached_property
    def prime_bits(self) -> int:
        return self.bits // 2

    @cached_property
    def form_bound(self) -> int:
        """Bound below which (p - 1)/2 and (q - 1)/2 have no prime factor."""
        return form_bound(self.prime_bits)

    @cached_property
    def primes(self) -> tuple[int, ...]:
        """The primes l_i: 5, 7, 11, ..., as many as leave w free bits."""
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
        return 12 * mpz(math.prod(self.primes))

    @cached_property
    def sieved(self) -> mpz:
        """3 l_1 l_2 .. l_k, which the test `sieved` of the form covers (`ceremony.form`)."""
        return self.step // 4

    @cached_property
    def top_bits(self) -> int:
        """w, the number of free bits of a piece, at most 32."""
        room = ((mpz(1) << (self.prime_bits - 2)) // self.step - 1) // len(self.subsets)
        return min(32, int(room).bit_length() - 1)

    @cached_property
    def offset(self) -> mpz:
        """F, the public offset of p and q."""
        odd = self.step // 12
        least = mpz(3) << (self.prime_bits - 2)
        first = least + -least % odd
        return next(first + k * odd for k in count() if (first + k * odd) % 12 == 11)

    @cached_property
    def rest_bits(self) -> int:
        """s: n is opened modulo 2^s, and its residues determine it modulo S."""
        return self.bits - int(self.sieved).bit_length() + 2

    @cached_property
    def success(self) -> float:
        """Probability that p and q of a candidate are primes of the form, if no l_i divides p (p - 1) or q (q - 1).

        From Mertens' third theorem, assuming that divisibilities by the larger primes are independent.
        """
        last, form = math.log(self.primes[-1]), math.log(self.form_bound)
        prime = math.exp(0.5772156649) * last / (self.prime_bits * math.log(2))
        return float((prime * min(1.0, last / form)) ** 2)

    @cached_property
    def batch(self) -> int:
        """K, the number of candidates per batch: a sixth of the expected total, at most 1,024."""
        return max(16, min(1024, round(1 / (6 * self.success))))

    @cached_property
    def draws(self) -> tuple[int, ...]:
        """Number of residue pairs drawn modulo each l_i; fewer than K are usable with probability about 1e-9."""
        counts = []
        for prime in self.primes:
            rate = ((prime - 2) / prime) ** 2 * (prime - 1) / prime
            counts.append(math.ceil((self.batch + 6 * math.sqrt(self.batch * (1 - rate)) + 6) / rate))
        return tuple(counts)
