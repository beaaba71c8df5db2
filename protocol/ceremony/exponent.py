"""From a modulus to a threshold key: sharing the exponent d = beta phi(n) and checking the shares.

Every holder j shares its part d_j t of n by an integer polynomial f_j with f_j(0) = Delta d_j, and publishes d_j modulo
n^s, whose sum is theta, and v to the power of every coefficient (Feldman 1987), v a public square. Then all check

    prod_j v^(f_j(0)) = 1 modulo n            d is a multiple of the order of v modulo n
    v^(f_j(i)) = prod_k (v^(f_j,k))^(i^k)     holder i: what holder j gave it is the share it committed to
    v_i = prod_j v^(2 Delta f_j(i))           the verification values, for everybody
    gcd(theta, n) = 1                         hence gcd(n, p + q - 1) = 1, which the test of n leaves open

and every t partial decryptions of public ciphertexts must open to their plaintexts.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

import gmpy2
from gmpy2 import mpz

from psephos.protocol.ceremony.search import exponent_share_bits
from psephos.protocol.ceremony.terms import CeremonyTerms
from psephos.protocol.errors import ThresholdError
from psephos.protocol.paillier.generator import generator_power
from psephos.protocol.paillier.keys import PublicKey
from psephos.protocol.paillier.sharing import STATISTICAL_BITS
from psephos.protocol.paillier.threshold import ThresholdKey, combine

TESTS = 2
"""Number of test ciphertexts that every t holders must decrypt."""


def share_bound(terms: CeremonyTerms) -> mpz:
    """Return an upper bound of every f_j(i)."""
    delta, bits = math.factorial(terms.holders), exponent_share_bits(terms) + STATISTICAL_BITS
    return mpz(terms.threshold * terms.holders ** (terms.threshold - 1) * delta**2) << bits


def verification_base(terms: CeremonyTerms, n: mpz) -> mpz:
    modulus = terms.ciphertext_modulus(n)
    return _hashed(terms, n, "verification base", modulus) ** 2 % modulus


def committed(base: mpz, coefficients: Iterable[int], modulus: mpz) -> tuple[mpz, ...]:
    """Return v to the power of each coefficient; the first, Delta d_j, may be negative."""
    powers = (gmpy2.powmod_sec(base, abs(mpz(c)), modulus) if c else mpz(1) for c in coefficients)
    return tuple(
        gmpy2.invert(power, modulus) if c < 0 else power for c, power in zip(coefficients, powers, strict=True)
    )


def committed_share(commitments: Sequence[mpz], holder: int, modulus: mpz) -> mpz:
    """Return v^(f_j(i)) for holder i from the commitments to f_j."""
    value = mpz(1)
    for commitment in reversed(commitments):
        value = gmpy2.powmod(value, holder, modulus) * commitment % modulus
    return value


def threshold_key(terms: CeremonyTerms, n: mpz, theta: mpz, commitments: Iterable[Sequence[mpz]]) -> ThresholdKey:
    """Return the threshold key; raise InvalidParameter or CiphertextError unless all values are units."""
    modulus, all_commitments = terms.ciphertext_modulus(n), list(commitments)
    values = []
    for holder in range(1, terms.holders + 1):
        product = mpz(1)
        for polynomial in all_commitments:
            product = product * committed_share(polynomial, holder, modulus) % modulus
        values.append(gmpy2.powmod(product, 2 * math.factorial(terms.holders), modulus))
    name = hashlib.sha256(terms.digest + n.to_bytes(terms.bits // 8 + 1, "big")).digest()[:16]
    key = PublicKey(int(n), form="psephos", degree=terms.degree)
    return ThresholdKey(
        key, terms.holders, terms.threshold, name, verification_base(terms, n), tuple(values), int(theta)
    )


def test_ciphertexts(terms: CeremonyTerms, n: mpz) -> tuple[list[mpz], list[int]]:
    """Return public test ciphertexts under the new key, and their plaintexts."""
    key = PublicKey(int(n), form="psephos", degree=terms.degree)
    exponent, modulus = key.plaintext_modulus, key.ciphertext_modulus
    plaintexts = [_hashed(terms, n, f"plaintext {i}", exponent) for i in range(TESTS)]
    residues = [gmpy2.powmod(_hashed(terms, n, f"unit {i}", n), exponent, modulus) for i in range(TESTS)]
    ciphertexts = [generator_power(key, m) * r % modulus for m, r in zip(plaintexts, residues, strict=True)]
    return ciphertexts, [int(m) for m in plaintexts]


def opens(key: ThresholdKey, parts: Mapping[int, Sequence[mpz]], plaintexts: list[int]) -> bool:
    try:
        return all(
            combine(key, {j: parts[j] for j in chosen}) == plaintexts
            for chosen in combinations(sorted(parts), key.threshold)
        )
    except ThresholdError:
        return False


def _hashed(terms: CeremonyTerms, n: mpz, label: str, bound: mpz) -> mpz:
    """Return a public unit below `bound`, within 2^-128 of uniform."""
    size = (bound.bit_length() + STATISTICAL_BITS + 7) // 8
    return mpz.from_bytes(terms.hashed(n, label, size), "big") % bound
