"""Paillier encryption, and Damgard and Jurik's of degree s (2001), in three randomness modes.

Source: docs/design.md, section 3.

A ciphertext of m is (1 + n)^m r mod n^(s+1) with r a random n^s-th residue; s = 1 is Paillier's. How r is drawn is the
mode:

* `full`: r = u^(n^s) with u uniform in the units modulo n. The papers' own; the only mode that is right towards a key
  owner, for ciphertexts one did not create, and under foreign keys.
* `half` (default): r = h_s^a with h_s = h^(n^s), h = -x^2 mod n, and a uniform of |n|/2 bits. Indistinguishable from a
  full-length exponent under factoring (Goldreich and Rosen 2003): u -> u^(n^s) is an isomorphism from the units modulo
  n, whatever s is.
* `short`: the same with a of twice the security level in bits: an extra assumption.

x = hash(n), so that nobody chose it. `half` and `short` keep the Jacobi symbol and assume an observer without p, q.
"""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Literal, Protocol, get_args

import gmpy2
from gmpy2 import mpz

from psephos.protocol.errors import (
    InvalidParameter,
    PackingError,
    RandomnessExhausted,
    UnsuitableKeyError,
    WrongKeyError,
)
from psephos.protocol.paillier.comb import CombShape, FixedBaseComb, best_shape
from psephos.protocol.paillier.generator import generator_power
from psephos.protocol.paillier.kernel import kernel
from psephos.protocol.paillier.keys import PublicKey, security_bits
from psephos.protocol.randomness import SYSTEM, Randomness

__all__ = [
    "RANDOMNESS_MODES",
    "Encryptor",
    "RandomizerPool",
    "Randomizers",
    "RandomnessMode",
    "Residue",
    "Witness",
    "check_mode",
    "exponent_bits",
    "fixed_base",
    "random_unit",
]

RandomnessMode = Literal["full", "half", "short"]
RANDOMNESS_MODES: tuple[RandomnessMode, ...] = get_args(RandomnessMode)
"""The modes that the module describes, the safest first."""


def check_mode(key: PublicKey, mode: RandomnessMode) -> None:
    """Raise InvalidParameter for an unknown mode, UnsuitableKeyError for a fast mode under a foreign key."""
    if mode not in RANDOMNESS_MODES:
        raise InvalidParameter(f"the randomness mode is one of {', '.join(RANDOMNESS_MODES)}, not {mode!r}")
    if mode != "full" and key.form != "psephos":
        raise UnsuitableKeyError(
            f"{mode!r} randomness is proved for keys of form 'psephos' only, and {key!r} is foreign; use 'full'"
        )


def exponent_bits(key: PublicKey, mode: RandomnessMode) -> int:
    """Least length of the random exponent a in `half` (|n|/2) and `short` (twice the security level)."""
    return key.bits // 2 if mode == "half" else 2 * security_bits(key.bits)


def fixed_base(key: PublicKey) -> mpz:
    """h_s = (-x^2)^(n^s) mod n^(s+1) with x = SHAKE-256(n) read as an integer modulo n, 128 bits wider than n."""
    n = key.modulus
    seed = b"psephos fixed base\0" + key.n.to_bytes((key.bits + 7) // 8, "big")
    x = mpz(int.from_bytes(hashlib.shake_256(seed).digest((key.bits + 135) // 8), "big")) % n
    return gmpy2.powmod(-x * x % n, key.plaintext_modulus, key.ciphertext_modulus)


def random_unit(key: PublicKey, randomness: Randomness = SYSTEM) -> mpz:
    """A uniform unit modulo n."""
    n = key.modulus
    while True:
        unit = mpz(randomness.below(key.n))
        if gmpy2.gcd(unit, n) == 1:
            return unit


@lru_cache(maxsize=4)
def _comb(key: PublicKey, shape: CombShape, _kernel: str) -> FixedBaseComb:
    return FixedBaseComb(fixed_base(key), key.ring, shape)


class Residue:
    """A random n^s-th residue modulo n^(s+1), with what it was made from. A secret: `repr` shows nothing of it."""

    __slots__ = ("_root", "value")

    def __init__(self, value: mpz, root: Callable[[], mpz]) -> None:
        self.value = value
        self._root = root

    def root(self) -> mpz:
        """a with value = h_s^a in the fast modes, u with value = u^(n^s) in `full`: the witness of a proof."""
        return self._root()

    def __repr__(self) -> str:
        return "<Residue>"


class Randomizers(Protocol):
    """Where an encryptor gets its n^s-th residues: drawn when needed, or from a pool made before."""

    def __call__(self, count: int) -> Sequence[Residue]:
        """`count` fresh random n^s-th residues modulo n^(s+1)."""


@dataclass(frozen=True)
class Witness:
    """What only who encrypted knows: the plaintexts and the roots of the residues. A secret."""

    plaintexts: tuple[mpz, ...] = field(repr=False)
    roots: tuple[mpz, ...] = field(repr=False)


class Encryptor:
    """Encrypts integers in [0, n^s) under one key in one mode."""

    def __init__(
        self,
        key: PublicKey,
        mode: RandomnessMode = "half",
        *,
        randomness: Randomness = SYSTEM,
        expected: int = 4096,
    ) -> None:
        """
        Args:
            key: the public key.
            mode: `full`, `half` or `short`.
            randomness: source of the exponents.
            expected: about how many ciphertexts will be made; sizes the comb's tables (at most 25 MB times s + 1, kept
            per
                process and shared by all encryptors of the same key, mode and shape).

        Raises:
            UnsuitableKeyError: a fast mode under a foreign key.
            InvalidParameter: no such mode.
        """
        check_mode(key, mode)
        self.key, self.mode = key, mode
        self.randomness = randomness
        self.shape: CombShape | None = None
        if mode != "full":
            # Rounded up to a power of two, so that nearly equal expectations share a table.
            powers = 1 << max(expected - 1, 0).bit_length()
            size, memory = key.ciphertext_bytes, 25_000_000 * (key.degree + 1)
            self.shape = best_shape(exponent_bits(key, mode), powers=powers, entry_bytes=size, memory=memory)

    def randomizers(self, count: int) -> list[Residue]:
        """`count` fresh random n^s-th residues: encryptions of zero."""
        if self.shape is None:
            units = [random_unit(self.key, self.randomness) for _ in range(count)]
            values = self.key.ring.power(units, self.key.plaintext_modulus)
            return [Residue(value, partial(mpz, unit)) for value, unit in zip(values, units, strict=True)]
        comb = _comb(self.key, self.shape, kernel())
        drawn = [comb.draw(self.randomness) for _ in range(count)]
        powers = comb.drawn_powers(drawn)
        return [Residue(power, partial(comb.exponent, digits)) for power, digits in zip(powers, drawn, strict=True)]

    def encrypt(self, plaintexts: Sequence[mpz], randomizers: Randomizers | None = None) -> tuple[mpz, ...]:
        """Ciphertexts of integers in [0, n^s), two modular multiplications each once the randomizers are there.

        Raises PackingError for a plaintext out of range, WrongKeyError for a pool made under another key or mode.
        """
        return self._encrypt(plaintexts, randomizers)[0]

    def encrypt_with_witness(
        self, plaintexts: Sequence[mpz], randomizers: Randomizers | None = None
    ) -> tuple[tuple[mpz, ...], Witness]:
        """As `encrypt`, with what proofs about the ciphertexts are made from (`psephos.protocol.proofs`)."""
        ciphertexts, drawn = self._encrypt(plaintexts, randomizers)
        return ciphertexts, Witness(tuple(map(mpz, plaintexts)), tuple(residue.root() for residue in drawn))

    def _encrypt(
        self, plaintexts: Sequence[mpz], randomizers: Randomizers | None
    ) -> tuple[tuple[mpz, ...], Sequence[Residue]]:
        if isinstance(randomizers, RandomizerPool):
            randomizers.check_serves(self)
        key, modulus = self.key, self.key.ciphertext_modulus
        if plaintexts and not (min(plaintexts) >= 0 and max(plaintexts) < key.plaintext_modulus):
            raise PackingError("a plaintext lies outside [0, n^s)")
        # An empty pool is false, and must say that it is empty.
        drawn = (self.randomizers if randomizers is None else randomizers)(len(plaintexts))
        ciphertexts = [generator_power(key, m) * r.value % modulus for m, r in zip(plaintexts, drawn, strict=True)]
        return tuple(ciphertexts), drawn

    def rerandomize(self, ciphertexts: Sequence[mpz]) -> tuple[mpz, ...]:
        """The same plaintexts under fresh randomness. Use `full` for ciphertexts that somebody else made.

        Raises UnsuitableKeyError in the fast modes: they keep the Jacobi symbol, which would trace a shuffle.
        """
        if self.mode != "full":
            raise UnsuitableKeyError(
                f"{self.mode!r} randomness keeps a ciphertext's Jacobi symbol; re-randomise with 'full'"
            )
        modulus = self.key.ciphertext_modulus
        fresh = self.randomizers(len(ciphertexts))
        return tuple([c * r.value % modulus for c, r in zip(ciphertexts, fresh, strict=True)])

    def __repr__(self) -> str:
        return f"<Encryptor {self.mode} under {self.key!r}>"


class RandomizerPool:
    """n^s-th residues made ahead of time, in memory only; each is given out once.

    A pool lets a party vote at the cost of two multiplications a ciphertext. `fill` in idle time; `take` is what an
    encryptor is handed as its randomizers. A residue used twice would show the difference of two plaintexts, so
    they leave the pool as they are taken, a pool refuses to be pickled or copied (TypeError), and a forked process
    finds it empty.
    """

    def __init__(self, encryptor: Encryptor) -> None:
        self._encryptor = encryptor
        self._residues: deque[Residue] = deque()
        self._process = os.getpid()

    def check_serves(self, encryptor: Encryptor) -> None:
        """Raise WrongKeyError when an encryptor under another key, or in another mode, would use these residues."""
        mine = self._encryptor
        if (mine.key, mine.mode) != (encryptor.key, encryptor.mode):
            raise WrongKeyError(f"a pool for {mine!r} cannot serve {encryptor!r}")

    def fill(self, count: int) -> None:
        """Add `count` residues."""
        self._leave_to_parent()
        self._residues.extend(self._encryptor.randomizers(count))

    def take(self, count: int) -> list[Residue]:
        """Remove and return `count` residues; raises RandomnessExhausted, taking none, when there are fewer."""
        self._leave_to_parent()
        if count > len(self._residues):
            raise RandomnessExhausted(
                f"the pool holds {len(self._residues)} residues and {count} are needed: fill it first"
            )
        return [self._residues.popleft() for _ in range(count)]

    __call__ = take

    def _leave_to_parent(self) -> None:
        # A fork copies memory, and with it every residue: they stay the parent's.
        if os.getpid() != self._process:
            self._residues.clear()
            self._process = os.getpid()

    def __len__(self) -> int:
        return len(self._residues)

    def __repr__(self) -> str:
        return f"<RandomizerPool of {len(self)} for {self._encryptor!r}>"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a pool of randomness is not copied or pickled: its residues must be used once")
