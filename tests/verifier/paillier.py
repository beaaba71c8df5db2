"""Keys, ciphertexts and the proofs about them, by sections 5 and 6 of docs/wire.md."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from gmpy2 import gcd, invert, mpz, powmod

from tests.verifier.board import Bytes, Refused, Study, require, sha256

# -- challenges


def _prefixed(part: bytes) -> bytes:
    return len(part).to_bytes(8, "big") + part


def digest(label: str, parts: Iterable[bytes]) -> bytes:
    return hashlib.shake_256(b"".join(map(_prefixed, (label.encode(), *parts)))).digest(32)


def stream(label: str, parts: Iterable[bytes], count: int) -> bytes:
    return hashlib.shake_256(digest(label, parts)).digest(count)


def challenges(label: str, parts: Iterable[bytes], count: int) -> list[int]:
    data = stream(label, parts, 16 * count)
    return [int.from_bytes(data[at : at + 16], "big") for at in range(0, len(data), 16)]


def little(data: bytes) -> mpz:
    return mpz(int.from_bytes(data, "little"))


# -- keys


@dataclass(frozen=True)
class Key:
    """The holders' public key."""

    n: mpz
    degree: int
    holders: int
    threshold: int
    setup: bytes
    theta: mpz
    base: mpz
    values: tuple[mpz, ...]

    @cached_property
    def bits(self) -> int:
        return int(self.n.bit_length())

    @cached_property
    def plain(self) -> mpz:
        return self.n**self.degree

    @cached_property
    def modulus(self) -> mpz:
        return self.n ** (self.degree + 1)

    @cached_property
    def size(self) -> int:
        """The length of a ciphertext in bytes."""
        return (int(self.modulus.bit_length()) + 7) // 8

    @cached_property
    def encoded_n(self) -> bytes:
        return int(self.n).to_bytes((self.bits + 7) // 8, "big")

    @cached_property
    def identifier(self) -> bytes:
        form = b"psephos" if self.degree == 1 else f"psephos, degree {self.degree}".encode()
        return sha256(b"psephos public key\0", form, b"\0", self.encoded_n)

    @cached_property
    def digest(self) -> bytes:
        numbers = b"".join(int(x).to_bytes(self.size, "big") for x in (self.theta, self.base, *self.values))
        parts = bytes([self.holders, self.threshold])
        return sha256(b"psephos threshold key\0", self.identifier, parts, self.setup, numbers)

    @cached_property
    def delta(self) -> int:
        return math.factorial(self.holders)

    @cached_property
    def exponent_bits(self) -> int:
        """The longest exponent of a partial decryption."""
        lengths = 3 * self.delta.bit_length() + (self.threshold + 1) * self.holders.bit_length()
        return (self.degree + 1) * self.bits + 3 * 128 + lengths + 32

    @cached_property
    def residue_base(self) -> mpz:
        """h_s, of which the randomizers are powers."""
        seed = b"psephos fixed base\0" + self.encoded_n
        x = mpz(int.from_bytes(hashlib.shake_256(seed).digest((self.bits + 135) // 8), "big")) % self.n
        return powmod(-x * x % self.n, self.plain, self.modulus)

    @cached_property
    def mask_bits(self) -> int:
        return self.bits // 2 + 160 + 128 + 16 + 80

    def generator_power(self, exponent: mpz) -> mpz:
        return powmod(1 + self.n, exponent % self.plain, self.modulus)

    @property
    def opening_bytes(self) -> int:
        """The length of the proof of a partial decryption."""
        return 2 * self.size + (self.exponent_bits + 216) // 8

    def check_units(self, numbers: Iterable[mpz]) -> None:
        require(all(0 < x < self.modulus and gcd(x, self.n) == 1 for x in numbers), "a number is no unit")

    def units(self, data: bytes) -> tuple[mpz, ...]:
        """Numbers that must be units modulo n^(s+1), as ciphertexts are."""
        numbers = tuple(little(data[at : at + self.size]) for at in range(0, len(data), self.size))
        self.check_units(numbers)
        return numbers

    def encoded(self, numbers: Iterable[mpz]) -> list[bytes]:
        return [int(x).to_bytes(self.size, "little") for x in numbers]

    def logarithm(self, value: mpz) -> mpz:
        """m n of (1 + n)^m, divided by n, as the finite series of the logarithm modulo n^s."""
        x, total = (value - 1) // self.n % self.plain, mpz(0)
        for k in range(1, self.degree + 1):
            term = powmod(x, k, self.plain) * self.n ** (k - 1) * invert(mpz(k), self.plain)
            total += term if k % 2 else -term
        return total % self.plain


def read_key(study: Study, body: Bytes) -> Key:
    size = (study.degree + 1) * study.bits // 8
    require(len(body.data) == 16 + size * (3 + study.holders), "a public key has another length")
    n, setup = mpz(body.integer(size)), body.take(16)
    theta, base, *values = (mpz(body.integer(size)) for _ in range(2 + study.holders))
    require(n % 2 == 1 and n.bit_length() == study.bits, "the modulus is even, or of another length than agreed")
    key = Key(n, study.degree, study.holders, study.threshold, setup, theta, base, tuple(values))
    require(study.trial or key.bits >= 2048, "the key is too short")
    require(0 < theta < key.plain and gcd(theta, n) == 1, "theta is no unit")
    key.check_units((base, *values))
    return key


def product(bases: Sequence[mpz], exponents: Sequence[int], modulus: mpz) -> mpz:
    result = mpz(1)
    for base, exponent in zip(bases, exponents, strict=True):
        result = result * powmod(base, exponent, modulus) % modulus
    return result


def same_up_to_sign(left: mpz, right: mpz, modulus: mpz) -> bool:
    return bool((left * left - right * right) % modulus == 0)


# -- proofs


def refusal(check: Callable[..., None]) -> Callable[..., str]:
    """Remember why a check refuses what it is given; empty if it does not."""

    @lru_cache(maxsize=4096)
    def reason(*given: object) -> str:
        try:
            check(*given)
        except Refused as error:
            return str(error)
        return ""

    return reason


@refusal
def check_knowledge(key: Key, statement: bytes, ciphertexts: tuple[mpz, ...], proof: bytes) -> None:
    fields, shortest = Bytes(proof), (key.mask_bits + 8) // 8
    fast = fields.integer(1)
    announced = little(fields.take(key.size))
    z = little(fields.take(max((int(key.plain.bit_length()) + 7) // 8, shortest)))
    w = little(fields.take(max((key.bits + 7) // 8, shortest)))
    fields.end()
    require(fast <= 1, "the mode is unknown")
    require(z < key.plain and w < (mpz(1) << (key.mask_bits + 1) if fast else key.n), "an answer is out of range")
    key.check_units((announced,))
    parts = (key.identifier, statement, *key.encoded((*ciphertexts, announced)))
    factors = challenges("psephos knowledge of plaintexts", parts, len(ciphertexts))
    residue = powmod(key.residue_base, w, key.modulus) if fast else powmod(w, key.plain, key.modulus)
    right = announced * product(ciphertexts, factors, key.modulus)
    require(same_up_to_sign(key.generator_power(z) * residue, right, key.modulus), "the proof does not hold")


@refusal
def check_opening(
    key: Key, holder: int, statement: bytes, ciphertexts: tuple[mpz, ...], values: tuple[mpz, ...], proof: bytes
) -> None:
    label, fields, bits = "psephos partial decryption", Bytes(proof), key.exponent_bits + 209
    a, b, z = (little(fields.take(size)) for size in (key.size, key.size, (bits + 7) // 8))
    fields.end()
    key.check_units((a, b))
    require(0 < z < mpz(1) << bits, "the answer is out of range")
    about = key.identifier, statement
    weights = challenges(f"{label}: weights", (*about, *key.encoded((*ciphertexts, *values))), len(ciphertexts))
    C, D = product(ciphertexts, weights, key.modulus), product(values, weights, key.modulus)
    (e,) = challenges(f"{label}: challenge", (*about, *key.encoded((key.base, C, D, a, b))), 1)
    for base, announced, value in ((key.base, a, key.values[holder - 1]), (C, b, D)):
        left, right = powmod(base, z, key.modulus), announced * powmod(value, e, key.modulus)
        require(same_up_to_sign(left, right, key.modulus), "the proof does not hold")


def combine(key: Key, parts: dict[int, tuple[mpz, ...]]) -> list[int]:
    """The plaintexts that the t holders with the lowest numbers open."""
    chosen = sorted(parts)[: key.threshold]
    require(len(chosen) == key.threshold, "too few partial decryptions")
    unit = 4 * mpz(key.delta) ** 3 * key.theta * key.logarithm(1 + key.n) % key.plain
    plaintexts = []
    for place in range(len(parts[chosen[0]])):
        value = mpz(1)
        for j in chosen:
            top = key.delta * math.prod(i for i in chosen if i != j)
            weight = top // math.prod(i - j for i in chosen if i != j)
            value = value * powmod(parts[j][place], 2 * weight, key.modulus) % key.modulus
        require(value % key.n == 1, "the partial decryptions do not combine")
        plaintexts.append(int(key.logarithm(value) * invert(unit, key.plain) % key.plain))
    return plaintexts
