"""t-of-n threshold decryption (docs/design.md, section 3).

Sources: Shoup 2000; Damgard and Jurik 2001; theta: Nishide and Sakurai 2010.

The holders share over the integers an exponent d that is a multiple of lambda; theta = d mod n^s is public. A dealer
takes the d with theta = 1, keeps nothing, and is the one role that ever saw p and q: it has its own row in the table of
who learns what. A ceremony without one (`psephos.protocol.ceremony`) ends with d = beta (p - 1)(q - 1), for a beta that
nobody knows. A partial decryption of c by holder j is c^(2 Delta f(j)); the squares of t of them multiply, with integer
Lagrange exponents, to c^(4 Delta^3 d) = (1 + n)^(4 Delta^3 theta m). That value must be 1 mod n, and m must be a sum
the plan allows: a wrong partial decryption makes the first fail but with probability about 1/n. One that is wrong *on
purpose* can be shaped to pass; the verification values v_j are what a proof against that is made with. No such proof
sees a sign, everybody knowing -1 of order 2, so the squares are combined, which have none (Shoup 2000).
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

__all__ = ["MAX_HOLDERS", "KeyShare", "ThresholdKey", "check_same_ceremony", "combine", "deal"]

MAX_HOLDERS = 255
"""A holder's number travels in one byte, and 0 is not one."""


@storable
@dataclass(frozen=True)
class ThresholdKey:
    """The public side of a shared key.

    Attributes:
        key: the public key.
        holders: n.
        threshold: t of the n open a ciphertext.
        ceremony: 16 bytes, so that shares of two ceremonies over one key are not mixed up.
        verification_base: v, a square modulo n^(s+1).
        verification_values: v_j = v^(2 Delta f(j)) of holders 1 .. n, which their partial decryptions are proved with.
        theta: d modulo n^s, a unit.

    Raises InvalidParameter unless 1 <= t <= n <= 255, the ceremony has 16 bytes and every holder a verification value,
    and for a theta that is no unit; CiphertextError when a verification value is none.
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
            raise InvalidParameter(f"there are between 1 and {MAX_HOLDERS} key holders, not {self.holders}")
        if not 1 <= self.threshold <= self.holders:
            raise InvalidParameter(
                f"the threshold must lie between 1 and the number of holders ({self.holders}), not {self.threshold}"
            )
        if len(self.ceremony) != 16:
            raise InvalidParameter("a ceremony is named by 16 bytes")
        if len(self.verification_values) != self.holders:
            raise InvalidParameter(f"{self.holders} holders have as many verification values")
        if not 0 < self.theta < self.key.plaintext_modulus or math.gcd(self.theta, self.key.n) != 1:
            raise InvalidParameter("theta is a unit modulo n^s")
        check_ciphertexts(self.key, (self.verification_base, *self.verification_values))

    @cached_property
    def digest(self) -> bytes:
        """SHA-256, 32 bytes."""
        size = self.key.ciphertext_bytes
        numbers = (self.theta, self.verification_base, *self.verification_values)
        parts = self.key.identifier + bytes([self.holders, self.threshold]) + self.ceremony
        parts += b"".join(int(number).to_bytes(size, "big") for number in numbers)
        return hashlib.sha256(b"psephos threshold key\0" + parts).digest()

    @cached_property
    def delta(self) -> int:
        """n!."""
        return math.factorial(self.holders)

    @cached_property
    def exponent_bits(self) -> int:
        """Public bound of the length of every 2 Delta f(j), dealt or not."""
        combinatorial = 3 * self.delta.bit_length() + (self.threshold + 1) * self.holders.bit_length()
        return (self.key.degree + 1) * self.key.bits + 3 * STATISTICAL_BITS + combinatorial + 32


class KeyShare:
    """One holder's share f(j) of the decryption exponent; `repr` shows nothing of it and pickling raises TypeError."""

    def __init__(self, threshold_key: ThresholdKey, holder: int, share: int) -> None:
        """`holder` is j in 1 .. n; raises InvalidParameter for another, or a share that is not positive."""
        if not 1 <= holder <= threshold_key.holders:
            raise InvalidParameter(f"holders are numbered 1 to {threshold_key.holders}, there is no {holder}")
        if share < 1:
            raise InvalidParameter("a share is a positive integer")
        self.threshold_key, self.holder = threshold_key, holder
        self._share = share

    def share(self) -> int:
        """f(j). For key files and the security analysis; nothing else should ask."""
        return self._share

    @cached_property
    def exponent(self) -> mpz:
        """2 Delta f(j), what partial decryptions raise to. For proofs about them; nothing else should ask."""
        return mpz(2 * self.threshold_key.delta * self._share)

    def partially_decrypt(self, ciphertexts: Sequence[mpz]) -> tuple[mpz, ...]:
        """c^(2 Delta f(j)) mod n^(s+1) of each ciphertext; raises CiphertextError for one that is no unit.

        A sharp tool: it opens whatever it is given. Protocols go through `parties.KeyHolder`, which opens only the
        product of the ballots it observed, once.
        """
        key = self.threshold_key.key
        check_ciphertexts(key, ciphertexts)
        return tuple(key.ring.power(ciphertexts, self.exponent))

    def __repr__(self) -> str:
        return f"<KeyShare of holder {self.holder} of {self.threshold_key!r}>"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a key share is not pickled; write it with psephos.protocol.storage.keyfiles")


def deal(
    private_key: PrivateKey, *, holders: int, threshold: int, randomness: Randomness = SYSTEM
) -> tuple[ThresholdKey, list[KeyShare]]:
    """The trusted dealer's ceremony: share the decryption exponent t of n, and forget the key.

    Returns the public threshold key and the shares of holders 1 .. n, to be sent to one holder each over private
    channels. Raises InvalidParameter when 1 <= t <= n <= 255 fails.
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
    """The plaintexts in [0, n^s) of the ciphertexts that `parts` are the partial decryptions of.

    Args:
        threshold_key: the ceremony's public side.
        parts: holder number -> its partial decryptions, all of the same ciphertexts in the same order. The first t
            by number are used.

    Raises:
        ThresholdError: fewer than t holders, or numbers that are no holders.
        WrongPartialDecryptionError: they do not combine to a plaintext.
    """
    key, threshold = threshold_key.key, threshold_key.threshold
    if len(parts) < threshold:
        raise ThresholdError(f"{threshold} partial decryptions open this key and {len(parts)} are here")
    chosen = sorted(parts)[:threshold]
    if not all(1 <= j <= threshold_key.holders for j in chosen):
        raise ThresholdError(f"holders are numbered 1 to {threshold_key.holders}")
    counts = {len(parts[j]) for j in chosen}
    if len(counts) != 1:
        raise WrongPartialDecryptionError("the holders opened different numbers of ciphertexts")
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
            raise WrongPartialDecryptionError(f"a partial decryption among those of holders {chosen} is no unit")
        value = top * gmpy2.invert(bottom, modulus) % modulus
        if value % n != 1:
            raise WrongPartialDecryptionError(
                f"the partial decryptions of holders {chosen} do not combine: at least one of them is wrong"
            )
        plaintexts.append(int(logarithm(value, n, key.degree) * inverse % key.plaintext_modulus))
    return plaintexts


def check_same_ceremony(expected: ThresholdKey, found: ThresholdKey) -> None:
    """Raise WrongKeyError when a share or request belongs to another key or ceremony."""
    if expected != found:
        raise WrongKeyError(f"{found!r} is not the key of this round, {expected!r}")
