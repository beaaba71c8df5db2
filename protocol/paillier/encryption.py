"""Paillier encryption (1999) and its extension to degree s by Damgard and Jurik (2001), in three randomness modes.

A ciphertext of m is (1 + n)^m r mod n^(s+1) with r a random n^s-th residue (docs/design.md, section 3):

* `full`: r = u^(n^s) with u uniform in the units modulo n, as in the papers. The only mode that is secure towards the
  owner of the key, for ciphertexts that somebody else created, and under foreign keys.
* `half` (default): r = h_s^a with h_s = h^(n^s), h = -x^2 mod n, x = hash(n), and a uniform of |n|/2 bits, which is
  indistinguishable from a full-length exponent under factoring (Goldreich and Rosen 2003).
* `short`: the same with a of twice the security level in bits, which needs an additional assumption.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from operator import index
from typing import Literal, get_args

import gmpy2
from gmpy2 import mpz

from psephos.protocol.errors import InvalidParameter, PackingError, UnsuitableKeyError
from psephos.protocol.paillier.comb import CombShape, best_shape, shared_comb
from psephos.protocol.paillier.generator import generator_power
from psephos.protocol.paillier.keys import PublicKey, security_bits
from psephos.protocol.randomness import SYSTEM, Randomness

RandomnessMode = Literal["full", "half", "short"]
RANDOMNESS_MODES: tuple[RandomnessMode, ...] = get_args(RandomnessMode)
"""The weakest assumption first."""


def check_mode(key: PublicKey, mode: RandomnessMode) -> None:
    """Raise InvalidParameter for an unknown mode, UnsuitableKeyError for a fast mode under a foreign key."""
    if mode not in RANDOMNESS_MODES:
        raise InvalidParameter(f"the randomness mode is {mode!r}; it must be one of {', '.join(RANDOMNESS_MODES)}")
    if mode != "full" and key.form != "psephos":
        raise UnsuitableKeyError(f"mode {mode!r} needs a key of form 'psephos', and {key!r} is foreign; use 'full'")


def exponent_bits(key: PublicKey, mode: RandomnessMode) -> int:
    """Return the least length of the exponent a in bits: |n|/2 for `half`, twice the security level for `short`."""
    return key.bits // 2 if mode == "half" else 2 * security_bits(key.bits)


@lru_cache(maxsize=8)
def fixed_base(key: PublicKey) -> mpz:
    """Return h_s = (-x^2)^(n^s) mod n^(s+1), with x = SHAKE-256(n), 128 bits longer than n, reduced modulo n."""
    n = key.modulus
    seed = b"psephos fixed base\0" + key.n.to_bytes((key.bits + 7) // 8, "big")
    x = mpz(int.from_bytes(hashlib.shake_256(seed).digest((key.bits + 135) // 8), "big")) % n
    return gmpy2.powmod(-x * x % n, key.plaintext_modulus, key.ciphertext_modulus)


def random_unit(key: PublicKey, randomness: Randomness = SYSTEM) -> mpz:
    n = key.modulus
    while True:
        unit = mpz(randomness.below(key.n))
        if gmpy2.gcd(unit, n) == 1:
            return unit


@dataclass(slots=True)
class Residue:
    """A random n^s-th residue modulo n^(s+1). Secret.

    `root()` is a with value = h_s^a (`half`, `short`), or u with value = u^(n^s) (`full`).
    """

    value: mpz = field(repr=False)
    root: Callable[[], mpz] = field(repr=False)


@dataclass(frozen=True)
class Witness:
    """What only the encrypting party knows: the plaintexts and the roots of the residues. Secret."""

    plaintexts: tuple[mpz, ...] = field(repr=False)
    roots: tuple[mpz, ...] = field(repr=False)


class Encryptor:
    """Encrypts integers in [0, n^s) under one key in one randomness mode."""

    def __init__(
        self,
        key: PublicKey,
        mode: RandomnessMode = "half",
        *,
        randomness: Randomness = SYSTEM,
        expected: int = 4096,
    ) -> None:
        """Create an encryptor; raise UnsuitableKeyError for mode `half` or `short` under a foreign key.

        About so many `expected` ciphertexts determine the size of the comb's tables (at most 25 MB times s + 1 per
        process, shared by all encryptors of the same key, mode and shape).
        """
        check_mode(key, mode)
        self.key, self.mode = key, mode
        self.randomness = randomness
        self.shape: CombShape | None = None
        if mode != "full":
            # Rounded up to a power of two, so that similar values of `expected` share a table.
            powers = 1 << max(expected - 1, 0).bit_length()
            size, memory = key.ciphertext_bytes, 25_000_000 * (key.degree + 1)
            self.shape = best_shape(exponent_bits(key, mode), powers=powers, entry_bytes=size, memory=memory)

    def randomizers(self, count: int) -> list[Residue]:
        """Draw `count` fresh n^s-th residues, which are encryptions of zero."""
        if self.shape is None:
            units = [random_unit(self.key, self.randomness) for _ in range(count)]
            values = self.key.ring.power(units, self.key.plaintext_modulus)
            return [Residue(value, partial(mpz, unit)) for value, unit in zip(values, units, strict=True)]
        comb = shared_comb(fixed_base(self.key), self.key.ring, self.shape)
        exponents = [comb.draw(self.randomness) for _ in range(count)]
        powers = comb.drawn_powers(exponents)
        return [Residue(power, partial(comb.exponent, digits)) for power, digits in zip(powers, exponents, strict=True)]

    def encrypt(self, plaintexts: Sequence[mpz]) -> tuple[mpz, ...]:
        """Encrypt integers in [0, n^s), one ciphertext each; raise PackingError for anything else."""
        return self._encrypt(plaintexts)[0]

    def encrypt_with_witness(self, plaintexts: Sequence[mpz]) -> tuple[tuple[mpz, ...], Witness]:
        """Encrypt as `encrypt` does and also return the witness for proofs (`psephos.protocol.proofs`)."""
        ciphertexts, residues = self._encrypt(plaintexts)
        return ciphertexts, Witness(tuple(map(mpz, plaintexts)), tuple(residue.root() for residue in residues))

    def _encrypt(self, plaintexts: Sequence[mpz]) -> tuple[tuple[mpz, ...], Sequence[Residue]]:
        key, modulus = self.key, self.key.ciphertext_modulus
        try:
            deque(map(index, plaintexts), maxlen=0)
        except TypeError:
            raise PackingError("a plaintext is not an integer") from None
        if plaintexts and not (min(plaintexts) >= 0 and max(plaintexts) < key.plaintext_modulus):
            raise PackingError("a plaintext lies outside [0, n^s)")
        residues = self.randomizers(len(plaintexts))
        ciphertexts = [generator_power(key, m) * r.value % modulus for m, r in zip(plaintexts, residues, strict=True)]
        return tuple(ciphertexts), residues

    def rerandomize(self, ciphertexts: Sequence[mpz]) -> tuple[mpz, ...]:
        """Multiply ciphertexts by fresh encryptions of zero, which keeps their plaintexts.

        Raises UnsuitableKeyError in another mode than `full`: the others keep the Jacobi symbol, which would reveal
        which ciphertext is which.
        """
        if self.mode != "full":
            raise UnsuitableKeyError(f"mode {self.mode!r} keeps the Jacobi symbol; re-randomise in mode 'full'")
        modulus = self.key.ciphertext_modulus
        fresh = self.randomizers(len(ciphertexts))
        return tuple([c * r.value % modulus for c, r in zip(ciphertexts, fresh, strict=True)])
