"""t-of-n threshold decryption (Shoup 2000; Damgard and Jurik 2001; theta: Nishide and Sakurai 2010; docs/design.md).

The holders share an exponent d, a multiple of lambda, over the integers; theta = d mod n^s is public. A trusted dealer
uses the d with theta = 1; without one (`psephos.protocol.ceremony`), d = beta (p - 1)(q - 1) for a beta that nobody
knows. The partial decryption of c by holder j is c^(2 Delta f(j)). The squares of t of them, raised to integer Lagrange
coefficients, multiply to (1 + n)^(4 Delta^3 theta m); squares, since no proof detects a sign (Shoup 2000). That value
must be 1 mod n, and m a sum that the packing plan allows; what passes both is caught by `proofs.opening`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import gmpy2
from gmpy2 import mpz

from psephos.protocol.errors import InvalidParameter, ThresholdError, WrongKeyError, WrongPartialDecryptionError
from psephos.protocol.paillier.ciphertexts import check_ciphertexts
from psephos.protocol.paillier.encryption import random_unit
from psephos.protocol.paillier.generator import logarithm
from psephos.protocol.paillier.keys import PublicKey
from psephos.protocol.paillier.private_key import PrivateKey
from psephos.protocol.paillier.sharing import STATISTICAL_BITS, deal_integer, lagrange_numerators
from psephos.protocol.randomness import SYSTEM, Randomness
from psephos.protocol.storage.values import storable

MAX_HOLDERS = 255
"""Largest number of holders: a holder's number, from 1, is encoded in one byte."""


@storable
@dataclass(frozen=True)
class ThresholdKey:
    """The public part of a shared key; raise InvalidParameter or CiphertextError where its parts do not fit together.

    Attributes:
        holders: n, at most 255.
        threshold: t; any t of the n holders decrypt a ciphertext.
        ceremony: 16 bytes that identify the key setup, so that shares of two setups of one key are not mixed.
        verification_base: v, a square modulo n^(s+1).
        verification_values: v_j = v^(2 Delta f(j)) of holders 1 .. n, which the proofs of partial decryptions refer to.
        theta: d modulo n^s, a unit.
    """

    key: PublicKey
    holders: int
    threshold: int
    ceremony: bytes = field(repr=False)
    verification_base: mpz = field(repr=False)
    verification_values: tuple[mpz, ...] = field(repr=False)
    theta: int = field(default=1, repr=False)

    def __post_init__(self) -> None:
        if not 1 <= self.holders <= MAX_HOLDERS:
            raise InvalidParameter(f"there can be 1 to {MAX_HOLDERS} key holders, not {self.holders}")
        if not 1 <= self.threshold <= self.holders:
            raise InvalidParameter(f"the threshold must lie between 1 and {self.holders}, not {self.threshold}")
        if len(self.ceremony) != 16:
            raise InvalidParameter("the identifier of a key setup must have 16 bytes")
        if len(self.verification_values) != self.holders:
            raise InvalidParameter(f"{self.holders} holders have {len(self.verification_values)} verification values")
        if not 0 < self.theta < self.key.plaintext_modulus or math.gcd(self.theta, self.key.n) != 1:
            raise InvalidParameter("theta must be a unit modulo n^s")
        check_ciphertexts(self.key, (self.verification_base, *self.verification_values))

    @cached_property
    def digest(self) -> bytes:
        size = self.key.ciphertext_bytes
        numbers = (self.theta, self.verification_base, *self.verification_values)
        parts = self.key.identifier + bytes([self.holders, self.threshold]) + self.ceremony
        parts += b"".join(int(number).to_bytes(size, "big") for number in numbers)
        return hashlib.sha256(b"psephos threshold key\0" + parts).digest()

    @cached_property
    def delta(self) -> int:
        return math.factorial(self.holders)

    @cached_property
    def exponent_bits(self) -> int:
        """Public upper bound of the length of every 2 Delta f(j) in bits, with or without a dealer."""
        combinatorial = 3 * self.delta.bit_length() + (self.threshold + 1) * self.holders.bit_length()
        return (self.key.degree + 1) * self.key.bits + 3 * STATISTICAL_BITS + combinatorial + 32


class KeyShare:
    """One holder's share f(j) of the decryption exponent. `repr` does not show it, and pickling raises TypeError."""

    def __init__(self, threshold_key: ThresholdKey, holder: int, share: int) -> None:
        """Create the share f(j) > 0 of holder j, 1 .. n; raise InvalidParameter for numbers out of range."""
        if not 1 <= holder <= threshold_key.holders:
            raise InvalidParameter(f"the number of a holder lies between 1 and {threshold_key.holders}, not {holder}")
        if share < 1:
            raise InvalidParameter("a share must be a positive integer")
        self.threshold_key, self.holder = threshold_key, holder
        self._share = share

    def share(self) -> int:
        """Return f(j). Only for key files and the security analysis."""
        return self._share

    @cached_property
    def exponent(self) -> mpz:
        """2 Delta f(j), the exponent of partial decryptions. Only for proofs about them."""
        return mpz(2 * self.threshold_key.delta * self._share)

    def partially_decrypt(self, ciphertexts: Sequence[mpz]) -> tuple[mpz, ...]:
        """Return c^(2 Delta f(j)) mod n^(s+1) of each c, any ciphertext; raise CiphertextError unless all are units.

        Protocols use `parties.KeyHolder`, which opens only the product of the ballots that it observed, once.
        """
        key = self.threshold_key.key
        check_ciphertexts(key, ciphertexts)
        return tuple(key.ring.power(ciphertexts, self.exponent))

    def __repr__(self) -> str:
        return f"<KeyShare of holder {self.holder} of {self.threshold_key!r}>"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a key share cannot be pickled; an agent keeps it in its store")


def deal(
    private_key: PrivateKey, *, holders: int, threshold: int, randomness: Randomness = SYSTEM
) -> tuple[ThresholdKey, list[KeyShare]]:
    """Share a private key t of n, as a trusted dealer, who sends each share to its holder and deletes the key.

    Raises InvalidParameter unless 1 <= t <= n <= 255.
    """
    public = private_key.public_key
    ceremony = randomness.draw(16)
    exponent = private_key.decryption_exponent()
    bound = int(public.ciphertext_modulus)
    shares = deal_integer(exponent, bound, holders=holders, threshold=threshold, randomness=randomness)
    base, delta = random_unit(public, randomness) ** 2 % public.ciphertext_modulus, math.factorial(holders)
    values = tuple(public.ring.power([base], mpz(2 * delta * f))[0] for f in shares)
    threshold_key = ThresholdKey(public, holders, threshold, ceremony, base, values)
    return threshold_key, [KeyShare(threshold_key, j, f) for j, f in enumerate(shares, start=1)]


def combine(threshold_key: ThresholdKey, parts: Mapping[int, Sequence[mpz]]) -> list[int]:
    """Combine t or more partial decryptions; raise ThresholdError or WrongPartialDecryptionError."""
    key, threshold = threshold_key.key, threshold_key.threshold
    if len(parts) < threshold:
        raise ThresholdError(f"decryption takes {threshold} partial decryptions, and there are {len(parts)}")
    chosen = sorted(parts)[:threshold]
    if not all(1 <= j <= threshold_key.holders for j in chosen):
        raise ThresholdError(f"the numbers of holders, {chosen}, must lie between 1 and {threshold_key.holders}")
    counts = {len(parts[j]) for j in chosen}
    if len(counts) != 1:
        raise WrongPartialDecryptionError("the holders decrypted different numbers of ciphertexts")
    n, modulus = key.modulus, key.ciphertext_modulus
    exponents = {j: 2 * power for j, power in lagrange_numerators(chosen, threshold_key.holders).items()}
    unit = 4 * mpz(threshold_key.delta) ** 3 * threshold_key.theta * logarithm(1 + n, n, key.degree)
    inverse = gmpy2.invert(unit, key.plaintext_modulus)
    plaintexts = []
    for place in range(counts.pop()):
        top = bottom = mpz(1)
        for j in chosen:
            power = gmpy2.powmod(parts[j][place], abs(exponents[j]), modulus)
            if exponents[j] > 0:
                top = top * power % modulus
            else:
                bottom = bottom * power % modulus
        if gmpy2.gcd(bottom, n) != 1:
            raise WrongPartialDecryptionError(f"a partial decryption among those of holders {chosen} is not a unit")
        value = top * gmpy2.invert(bottom, modulus) % modulus
        if value % n != 1:
            raise WrongPartialDecryptionError(f"the partial decryptions of {chosen} do not combine: one is wrong")
        plaintexts.append(int(logarithm(value, n, key.degree) * inverse % key.plaintext_modulus))
    return plaintexts


def check_same_ceremony(expected: ThresholdKey, other: ThresholdKey) -> None:
    """Raise WrongKeyError if a share or request belongs to another key or key setup."""
    if expected != other:
        raise WrongKeyError(f"{other!r} is not the key of this round, {expected!r}")
