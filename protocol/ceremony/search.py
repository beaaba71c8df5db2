"""The search for a modulus: a batch of candidates, and what each holder computes of it (Boneh and Franklin 2001).

    residues    pairs (a, b) modulo every small prime l, of which y = a b and z = c (a - 1)(b - 1) are opened; a pair is
                used where both are units, so that l divides none of p, p - 1, q, q - 1. y is what n is modulo l, and
                (a - 1)(b - 1) = y + 1 - a - b is linear in what is shared (after Malkin, Wu and Boneh 1999)
    moduli      n = p q: modulo the l it is known, the rest is opened modulo 2^s
    tests       g^((n + 1 - p - q)/4) = 1 or -1 for Jacobi symbol (g/n) = 1: once, and of who passes 80 times more
    form        three times c phi(n) modulo the odd part of n - 1 times the primes between the l and 2^16, c random: no
                such prime in (p - 1)/2 or (q - 1)/2, and gcd(phi(n), n - 1) = 4, which makes gcd(p - 1, q - 1) = 2

All of it is a function of the sets' seeds of the batch and of what was opened before: a `Batch` with some seeds
computes what its holder publishes, one with all seeds what every holder should have published.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import gmpy2
import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from psephos.protocol.ceremony.replicated import commitment, home, product_share, stream, zero_share
from psephos.protocol.ceremony.terms import CeremonyTerms
from psephos.protocol.paillier.kernel import ring
from psephos.protocol.paillier.keys import odd_primorial
from psephos.protocol.paillier.sharing import STATISTICAL_BITS

CONFIRMATIONS = 80
"""Number of tests of the winner: an n that is no product of two primes passes them with probability 2^-80 (Boneh and
Franklin)."""

FORM_MASKS = 3
"""Number of multiples c phi that are opened. A candidate is rejected by chance if a prime of R divides all three c."""

Flat = NDArray[np.int64]
"""Residues modulo the l_i, int64 (sum(terms.draws),): `terms.draws` of the first prime, then those of the next."""

Numbers = dict[int, tuple[Any, Any]]
"""Number of a set -> its pieces rho of p and sigma of q of all candidates: two arrays of mpz, (candidates,)."""


class Batch:
    """The computations of a batch from the seeds of some sets (by number). Secret; `repr` shows nothing of it."""

    def __init__(self, terms: CeremonyTerms, seeds: Mapping[int, bytes]) -> None:
        self._terms, self._seeds = terms, seeds

    def commitment(self, subset: int, number: int) -> bytes:
        return commitment(self._seeds[subset], number, subset)

    # -- residues

    def product_share(self, holder: int) -> Flat:
        """Return the holder's masked share of y = a b."""
        a, b = self._residues("a"), self._residues("b")
        return self._masked(holder, product_share(self._terms, holder, a, b), "y")

    def difference_share(self, holder: int, products: Flat) -> Flat:
        """Return the holder's masked share of z = c (y + 1 - a - b)."""
        a, b, c = (self._residues(name) for name in "abc")
        rest = {s: (products + 1 if s == 0 else 0) - a[s] - b[s] for s in self._seeds}
        return self._masked(holder, product_share(self._terms, holder, c, rest), "z")

    def _residues(self, name: str) -> dict[int, Flat]:
        return {s: _uniform(self._terms, seed, name) for s, seed in self._seeds.items()}

    def _masked(self, holder: int, share: Flat, name: str) -> Flat:
        terms = self._terms
        mask = zero_share(terms, holder, lambda s, i: _uniform(terms, self._seeds[s], f"zero of {name} {i}"))
        masked: Flat = (share + mask) % flat_primes(terms)
        return masked

    def opened(self) -> tuple[Flat, Flat]:
        a, b, c = (sum(self._residues(name).values()) % flat_primes(self._terms) for name in "abc")
        return a * b % flat_primes(self._terms), c * (a - 1) * (b - 1) % flat_primes(self._terms)

    # -- candidates

    def numbers(self, chosen: NDArray[np.int64]) -> Numbers:
        """Return the pieces of p and q of candidates, given the places of their residues (`choose`)."""
        return {
            s: (_integers(self._pieces(s, "a", chosen)), _integers(self._pieces(s, "b", chosen))) for s in self._seeds
        }

    def factors(self, chosen: NDArray[np.int64]) -> tuple[Any, Any]:
        """Return p and q, arrays of mpz, (candidates,), for a batch with all seeds."""
        p, q = (_integers(sum(self._pieces(s, name, chosen) for s in self._seeds)) for name in ("a", "b"))
        return self._terms.offset + p, self._terms.offset + q

    def _pieces(self, subset: int, name: str, chosen: NDArray[np.int64]) -> Any:
        """Return a set's pieces of p (`name` "a") or q ("b") as limbs before carries, int64 (limbs, candidates)."""
        terms, seed = self._terms, self._seeds[subset]
        tops = np.frombuffer(stream(seed, f"top of {name}", 4 * len(chosen)), "<u4") >> (32 - terms.top_bits)
        return _recombined(terms, _uniform(terms, seed, name)[chosen.T], tops.astype(np.int64))

    def modulus_share(self, holder: int, numbers: Numbers) -> Any:
        """Return the holder's masked share of n = p q modulo 2^s for each candidate: an array of mpz, (candidates,)."""
        terms = self._terms
        size, count = (terms.rest_bits + 7) // 8, len(next(iter(numbers.values()))[0])

        def draw(subset: int, place: int) -> Any:
            output = stream(self._seeds[subset], f"zero of n {place}", size * count)
            return as_array(mpz.from_bytes(output[at : at + size], "little") for at in range(0, len(output), size))

        p = {s: rho + (terms.offset if s == 0 else 0) for s, (rho, _) in numbers.items()}
        q = {s: sigma + (terms.offset if s == 0 else 0) for s, (_, sigma) in numbers.items()}
        return (product_share(terms, holder, p, q) + zero_share(terms, holder, draw)) % (mpz(1) << terms.rest_bits)

    # -- one candidate

    def test_values(self, holder: int, numbers: Numbers, place: int, n: mpz, chosen: Iterable[mpz]) -> list[mpz]:
        """Return g^e modulo n for every base g, with the holder's exponent e.

        The exponents of all holders but `_first` add up to the exponent of `_first` minus phi(n)/4.
        """
        terms = self._terms
        own = sum(sum(numbers[s][i][place] for i in (0, 1)) for s in numbers if home(terms, s) == holder) // 4
        exponent = (n + 1 - 2 * terms.offset) // 4 - own if holder == _first(terms, place) else mpz(own)
        # The exponent is 0 for a holder that is responsible for no set.
        return ring(n).power(list(chosen), exponent) if exponent else [mpz(1) for _ in chosen]

    def form_multiples(self, holder: int, numbers: Numbers, place: int, n: mpz) -> list[mpz]:
        """Return the holder's masked shares of `FORM_MASKS` multiples c phi(n), over the integers."""
        terms, modulus = self._terms, form_modulus(self._terms, n)
        phi, multiples = self._phi(numbers, place, n), []
        size = (modulus.bit_length() + STATISTICAL_BITS + 7) // 8

        def draw(subset: int, label: str) -> mpz:
            output = stream(self._seeds[subset], f"{label} of form {place}", size)
            return mpz.from_bytes(output, "little") % modulus

        for time in range(FORM_MASKS):
            masks = {s: draw(s, f"mask {time}") for s in numbers}
            zero = self._integer_zero(holder, f"zero {time}", place, modulus.bit_length())
            multiples.append(mpz(product_share(terms, holder, masks, phi) + zero))
        return multiples

    def form_share(self, holder: int, numbers: Numbers, place: int, n: mpz) -> list[mpz]:
        modulus = form_modulus(self._terms, n)
        return [multiple % modulus for multiple in self.form_multiples(holder, numbers, place, n)]

    def form_exponent(self, holder: int, numbers: Numbers, place: int, n: mpz, weights: Sequence[int]) -> mpz:
        """Return (D_j - x_j) / R for the weighted sum D_j of the holder's multiples; see `ceremony.form`."""
        modulus, multiples = form_modulus(self._terms, n), self.form_multiples(holder, numbers, place, n)
        return mpz(sum(w * (multiple // modulus) for w, multiple in zip(weights, multiples, strict=True)))

    def sieved_multiple(self, holder: int, numbers: Numbers, place: int, n: mpz, chosen: NDArray[np.int64]) -> mpz:
        """Return the holder's masked share, over the integers, of a multiple c phi(n) that no l_i divides, nor 3.

        The multiple is z modulo every l_i, where c is the factor of z, and 1 modulo 3, where c and phi(n) are 1;
        `chosen` has the places of the candidate's residues, (primes,).
        """
        modulus, idempotents = _sieved_basis(self._terms)
        masks = {}
        for s, residues in self._residues("c").items():
            parts = (int(s == 0), *map(int, residues[chosen]))
            masks[s] = mpz(sum(part * unit for part, unit in zip(parts, idempotents, strict=True)) % modulus)
        zero = self._integer_zero(holder, "zero", place, modulus.bit_length())
        return mpz(product_share(self._terms, holder, masks, self._phi(numbers, place, n)) + zero)

    def _integer_zero(self, holder: int, label: str, place: int, mask_bits: int) -> mpz:
        """Return the holder's share of zero for a c of `mask_bits`: 128 bits longer than the share of c phi(n)."""
        bits = mask_bits + self._terms.bits + 1 + 2 * _count_bits(self._terms) + STATISTICAL_BITS
        what = f"of form {mask_bits} {place}"
        return mpz(zero_share(self._terms, holder, lambda s, i: self._integer(s, f"{label} {i} {what}", bits)))

    def _integer(self, subset: int, label: str, bits: int) -> mpz:
        """Return a pseudo-random integer of at most `bits` bits that the holders of a set have in common."""
        return mpz.from_bytes(stream(self._seeds[subset], label, bits // 8 + 1), "little") >> (8 - bits % 8)

    def exponent_share(self, holder: int, numbers: Numbers, place: int, n: mpz) -> int:
        """Return the holder's share of d = beta phi(n), an integer in (-2^b, 2^b) with b = `exponent_share_bits`."""
        terms = self._terms
        mask_bits = exponent_share_bits(terms) - _count_bits(terms) - 2

        # theta = beta phi modulo n^s is public: a beta of fewer bits than that would leave phi in it.
        beta_bits = terms.degree * terms.bits + STATISTICAL_BITS
        beta = {s: self._integer(s, f"beta of d {place}", beta_bits) for s in numbers}
        zero = zero_share(terms, holder, lambda s, i: self._integer(s, f"zero {i} of d {place}", mask_bits))
        return int(product_share(terms, holder, beta, self._phi(numbers, place, n)) + zero)

    def _phi(self, numbers: Numbers, place: int, n: mpz) -> dict[int, mpz]:
        """Return the pieces of phi(n) = (p - 1)(q - 1) = n + 1 - p - q, by set."""
        return {
            s: (n + 1 - 2 * self._terms.offset if s == 0 else mpz(0)) - rho[place] - sigma[place]
            for s, (rho, sigma) in numbers.items()
        }


def exponent_share_bits(terms: CeremonyTerms) -> int:
    """Return b, such that a holder's share of d lies in (-2^b, 2^b); masks are 128 bits longer than what they hide."""
    return (terms.degree + 1) * terms.bits + 2 * STATISTICAL_BITS + 3 * _count_bits(terms) + 2


def _count_bits(terms: CeremonyTerms) -> int:
    """Return the number of bits by which a sum over all sets can exceed its addends."""
    return len(terms.subsets).bit_length()


# -- what is opened


def choose(terms: CeremonyTerms, products: Flat, differences: Flat) -> NDArray[np.int64]:
    """Return the places of each candidate's residues, int64 (candidates, primes): the first draws with units y, z."""
    good = (products != 0) & (differences != 0)
    starts = np.cumsum((0, *terms.draws))
    places_of_each = [start + np.flatnonzero(good[start:end]) for start, end in pairwise(starts)]
    count = min(terms.batch, *(len(places) for places in places_of_each))
    return np.stack([places[:count] for places in places_of_each], axis=1)


def moduli(terms: CeremonyTerms, products: Flat, chosen: NDArray[np.int64], rests: Sequence[mpz]) -> tuple[mpz, ...]:
    """Return every candidate's n, from n modulo the l_i, 3 and 2^s; n is 1 modulo 3."""
    known, power = terms.sieved, mpz(1) << terms.rest_bits
    twelve = (terms.step // 12) * gmpy2.invert(terms.step // 12, 12)
    inverse = gmpy2.invert(known, power)
    recombined = _integers(_recombined(terms, products[chosen.T], np.zeros(len(chosen), np.int64)))
    residues = [(x + twelve) % known for x in recombined]
    return tuple(x + known * ((rest - x) * inverse % power) for x, rest in zip(residues, rests, strict=True))


def survivors(terms: CeremonyTerms, candidates: Sequence[mpz]) -> tuple[int, ...]:
    """Return the places of candidates of the right length without a prime factor below 2^20."""
    # A deviating holder can make n even.
    places = [k for k, n in enumerate(candidates) if n.bit_length() == terms.bits and n.is_odd()]
    for bits, together in ((12, 1), (14, 4), (17, 16), (20, 32)):
        primes, remaining = odd_primorial(2**bits), []
        for at in range(0, len(places), together):
            group = places[at : at + together]
            remainder = primes % math.prod(candidates[k] for k in group)
            remaining += [k for k in group if gmpy2.gcd(remainder % candidates[k], candidates[k]) == 1]
        places = remaining
    return tuple(places)


def bases(terms: CeremonyTerms, n: mpz, count: int) -> list[mpz]:
    """Return `count` public units modulo n with Jacobi symbol 1, derived from a hash of the terms and n."""
    size, attempts = (terms.bits + STATISTICAL_BITS + 7) // 8, 0
    bases: list[mpz] = []
    while len(bases) < count:
        g = mpz.from_bytes(terms.hashed(n, "biprimality", size, attempts.to_bytes(8, "big")), "big") % n
        attempts += 1
        if gmpy2.jacobi(g, n) == 1:
            bases.append(g)
    return bases


def passes(terms: CeremonyTerms, place: int, n: mpz, values: Sequence[Sequence[mpz]]) -> bool:
    """Return whether n passes the tests; `values`: of every holder in order, its `Batch.test_values`."""
    first = _first(terms, place) - 1
    for claimed in zip(*values, strict=True):
        product = mpz(1)
        for j, value in enumerate(claimed):
            if j != first:
                product = product * value % n
        if claimed[first] != product and claimed[first] + product != n:
            return False
    return True


def _first(terms: CeremonyTerms, place: int) -> int:
    """Return the holder whose exponent includes n + 1; it rotates, since that exponent is twice as long."""
    return place % terms.holders + 1


def form_modulus(terms: CeremonyTerms, n: mpz) -> mpz:
    """Return the odd part of n - 1, times the primes between the largest l and the bound of the form."""
    return ((n - 1) >> gmpy2.bit_scan1(n - 1)) * _larger_primes(terms)


@lru_cache(maxsize=4)
def _larger_primes(terms: CeremonyTerms) -> mpz:
    return odd_primorial(terms.form_bound) // gmpy2.gcd(odd_primorial(terms.form_bound), terms.step)


def good_form(terms: CeremonyTerms, n: mpz, shares: Sequence[Sequence[mpz]]) -> bool:
    """Return whether phi(n) makes a key of form "psephos"."""
    modulus = form_modulus(terms, n)
    return is_clean(terms, n, gmpy2.gcd(modulus, *(sum(each) % modulus for each in zip(*shares, strict=True))))


def is_clean(terms: CeremonyTerms, n: mpz, multiple: mpz) -> bool:
    """Return whether a multiple of phi(n) has none of the larger primes, and no large prime in common with n - 1."""
    return bool(
        gmpy2.gcd(multiple, _larger_primes(terms)) == 1 and _without_small(terms, gmpy2.gcd(multiple, n - 1)) == 1
    )


@lru_cache(maxsize=4)
def _sieved_basis(terms: CeremonyTerms) -> tuple[mpz, tuple[mpz, ...]]:
    """Return N = 3 l_1 .. l_k, and for each prime of N the number below N that is 1 modulo it, 0 modulo the others."""
    modulus, primes = terms.sieved, (3, *terms.primes)
    return modulus, tuple((modulus // prime) * gmpy2.invert(modulus // prime, prime) for prime in primes)


def is_good(terms: CeremonyTerms, p: mpz, q: mpz) -> bool:
    """Return whether p and q form a key, in which case no holder may have rejected them."""
    phi, small = (p - 1) * (q - 1), _larger_primes(terms)
    return bool(
        gmpy2.is_prime(p)
        and gmpy2.is_prime(q)
        and gmpy2.gcd(phi, small) == 1
        and _without_small(terms, gmpy2.gcd(phi, p * q - 1)) == 1
    )


def _without_small(terms: CeremonyTerms, value: mpz) -> mpz:
    """Return `value` without its factors 2, and the odd primes up to the bound of the form."""
    small = 2 * odd_primorial(terms.form_bound)
    while (common := gmpy2.gcd(value, small)) != 1:
        value //= common
    return value


# -- arithmetic


@lru_cache(maxsize=4)
def flat_primes(terms: CeremonyTerms) -> Flat:
    """Return the modulus of every place of a `Flat`."""
    return np.repeat(np.array(terms.primes, dtype=np.int64), terms.draws)


def _uniform(terms: CeremonyTerms, seed: bytes, label: str) -> Flat:
    """Derive residues, exactly uniform modulo every prime, from a seed and a label.

    A residue is the upper half of l times a word of 16 bits, which is drawn again where the residue would be biased
    (Lemire, "Fast random integer generation in an interval", 2019, section 4).
    """
    primes, biased = _words(terms)
    scaled = np.frombuffer(stream(seed, label, 2 * len(primes)), "<u2") * primes
    low, high = (scaled.view("<u2")[half::2] for half in (0, 1))
    redraws, places = 0, np.flatnonzero(low < biased)
    while places.size:
        redraws += 1
        words = np.frombuffer(stream(seed, f"{label} again {redraws}", 2 * places.size), "<u2")
        scaled[places] = words * primes[places]
        places = places[low[places] < biased[places]]
    return high.astype(np.int64)


@lru_cache(maxsize=4)
def _words(terms: CeremonyTerms) -> tuple[NDArray[np.uint32], NDArray[np.uint16]]:
    """Return the prime l of every place of a `Flat`, and 2^16 modulo l, below which a lower half is biased."""
    primes = flat_primes(terms).astype(np.uint32)
    return primes, (2**16 % primes).astype(np.uint16)


@lru_cache(maxsize=4)
def _basis(terms: CeremonyTerms) -> tuple[Flat, Flat, NDArray[np.float64], Flat]:
    """Return the constants of `_recombined`; a limb has 16 bits, the least significant is the first."""
    limbs = (terms.step.bit_length() + 15) // 16
    others = [terms.step // prime for prime in terms.primes]
    primes, inverses = (
        np.array(column, dtype=np.int64)[:, None]
        for column in (terms.primes, [int(gmpy2.invert(*pair)) for pair in zip(others, terms.primes, strict=True)])
    )
    *rows, step = (
        [*np.frombuffer(number.to_bytes(2 * limbs, "little"), "<u2"), 0, 0] for number in (*others, terms.step)
    )
    return primes, inverses, np.array(rows, dtype=np.float64).T.copy(), np.array(step, dtype=np.int64)[:, None]


def _recombined(terms: CeremonyTerms, residues: Flat, tops: Flat) -> Flat:
    """Return the numbers x + S t as limbs before carries, where x is 0 modulo 12 and has these residues, 0 <= x < S.

    x = sum_i r_i S/l_i - S floor(sum_i r_i/l_i), r_i = x (S/l_i)^-1 modulo l_i. The result is exact: numbers in
    floating point are integers below 2^53, except for that floor, which is computed in integers where rounding could
    change it.
    """
    primes, inverses, basis, step = _basis(terms)
    parts = residues * inverses % primes
    quotients = (parts / primes).sum(axis=0)
    floors = np.floor(quotients).astype(np.int64)
    for at in np.flatnonzero(np.abs(quotients - np.rint(quotients)) < 2**-36):
        floors[at] = (
            sum(int(r) * (terms.step // p) for r, p in zip(parts[:, at], terms.primes, strict=True)) // terms.step
        )
    limbs: Flat = (basis @ parts.astype(np.float64)).astype(np.int64) + step * (tops - floors)
    return limbs


def _integers(limbs: Flat) -> Any:
    limbs = limbs.copy()
    for place in range(len(limbs) - 1):
        limbs[place + 1] += limbs[place] >> 16
    data, size = (limbs & 0xFFFF).astype("<u2").T.tobytes(), 2 * len(limbs)
    return as_array(mpz.from_bytes(data[at : at + size], "little") for at in range(0, len(data), size))


def as_array(values: Iterable[mpz]) -> Any:
    return np.fromiter(values, dtype=object)
