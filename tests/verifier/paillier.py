"""Keys, ciphertexts and the proofs about them, by sections 5 and 6 of docs/wire.md."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
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

    def check_units(self, numbers: Sequence[mpz]) -> None:
        require(all(0 < x < self.modulus for x in numbers), "a number is outside (0, n^(s+1))")
        require(all(gcd(x, self.n) == 1 for x in numbers), "a number shares a factor with n")

    def ciphertexts(self, data: bytes) -> tuple[mpz, ...]:
        ciphertexts = tuple(little(data[at : at + self.size]) for at in range(0, len(data), self.size))
        require(all(0 < c < self.modulus for c in ciphertexts), "a ciphertext is outside (0, n^(s+1))")
        return ciphertexts

    def encode(self, numbers: Sequence[mpz]) -> bytes:
        return b"".join(int(x).to_bytes(self.size, "little") for x in numbers)

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


# -- proof of knowledge of a ballot's plaintexts


def knowledge_sizes(key: Key) -> tuple[int, int, int]:
    """The lengths of A, z, and w or v."""
    answer = key.mask_bits + 1
    shortest = (answer + 7) // 8
    return key.size, max((int(key.plain.bit_length()) + 7) // 8, shortest), max((key.bits + 7) // 8, shortest)


@lru_cache(maxsize=4096)
def check_knowledge(key: Key, statement: bytes, ciphertexts: tuple[mpz, ...], proof: bytes) -> str:
    """Why a proof does not hold; empty if it does."""
    sizes, fields = knowledge_sizes(key), Bytes(proof)
    try:
        require(len(proof) == 1 + sum(sizes) and proof[0] <= 1, "the bytes are no proof of knowledge")
        fast = fields.integer(1)
        announced, z, w = (little(fields.take(size)) for size in sizes)
        limit = mpz(1) << (key.mask_bits + 1) if fast else key.n
        require(0 < announced < key.modulus and z < key.plain and w < limit, "a number is out of range")
        key.check_units((announced,))
    except Refused as error:
        return str(error)
    encoded = [int(c).to_bytes(key.size, "little") for c in (*ciphertexts, announced)]
    factors = challenges("psephos knowledge of plaintexts", (key.identifier, statement, *encoded), len(ciphertexts))
    residue = powmod(key.residue_base, w, key.modulus) if fast else powmod(w, key.plain, key.modulus)
    left = key.generator_power(z) * residue % key.modulus
    right = announced * product(ciphertexts, factors, key.modulus) % key.modulus
    return "" if same_up_to_sign(left, right, key.modulus) else "the proof of knowledge does not hold"


# -- proof of a partial decryption


@lru_cache(maxsize=4096)
def check_opening(
    key: Key, holder: int, statement: bytes, ciphertexts: tuple[mpz, ...], values: tuple[mpz, ...], proof: bytes
) -> str:
    """Why a proof does not hold; empty if it does."""
    label, size = "psephos partial decryption", key.size
    bits = key.exponent_bits + 128 + 80 + 1
    if len(proof) != 2 * size + (bits + 7) // 8:
        return "the bytes are no proof of a partial decryption"
    a, b, z = (little(part) for part in (proof[:size], proof[size : 2 * size], proof[2 * size :]))
    try:
        key.check_units((a, b))
    except Refused as error:
        return str(error)
    if not 0 < z < mpz(1) << bits:
        return "the answer is out of range"
    encoded = [int(x).to_bytes(size, "little") for x in (*ciphertexts, *values)]
    weights = challenges(f"{label}: weights", (key.identifier, statement, *encoded), len(ciphertexts))
    C, D = product(ciphertexts, weights, key.modulus), product(values, weights, key.modulus)
    numbers = [int(x).to_bytes(size, "little") for x in (key.base, C, D, a, b)]
    (e,) = challenges(f"{label}: challenge", (key.identifier, statement, *numbers), 1)
    holds = same_up_to_sign(
        powmod(key.base, z, key.modulus), a * powmod(key.values[holder - 1], e, key.modulus), key.modulus
    ) and same_up_to_sign(powmod(C, z, key.modulus), b * powmod(D, e, key.modulus), key.modulus)
    return "" if holds else "the proof of the partial decryption does not hold"


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
