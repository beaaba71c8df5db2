"""Checks, encoding and addition of ciphertexts (docs/design.md, section 3).

A received ciphertext c of a modulus N, a power of n, must satisfy 0 < c < N and gcd(c, n) = 1; the second check takes
one gcd for a whole batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import gmpy2
from gmpy2 import mpz

from psephos.protocol.errors import CiphertextError
from psephos.protocol.paillier.keys import PublicKey


class CiphertextKey(Protocol):
    @property
    def modulus(self) -> mpz: ...

    @property
    def ciphertext_modulus(self) -> mpz: ...

    @property
    def ciphertext_bytes(self) -> int: ...


def check_range(key: CiphertextKey, ciphertexts: Sequence[mpz]) -> None:
    """Raise CiphertextError, naming the first violation, unless every ciphertext is in its range."""
    if ciphertexts and not (min(ciphertexts) > 0 and max(ciphertexts) < key.ciphertext_modulus):
        place = next(i for i, c in enumerate(ciphertexts) if not 0 < c < key.ciphertext_modulus)
        raise CiphertextError(f"ciphertext {place} is out of range")


def product_is_unit(key: CiphertextKey, values: Iterable[mpz]) -> bool:
    """Return whether every value is coprime to n, by one gcd with their product modulo n."""
    n = key.modulus
    product = mpz(1)
    for value in values:
        product = product * value % n
    return bool(gmpy2.gcd(product, n) == 1)


def check_ciphertexts(key: CiphertextKey, ciphertexts: Sequence[mpz]) -> None:
    """Raise CiphertextError, naming the first violation, unless every ciphertext is a unit."""
    check_range(key, ciphertexts)
    if not product_is_unit(key, ciphertexts):
        place = next(i for i, c in enumerate(ciphertexts) if gmpy2.gcd(c, key.modulus) != 1)
        raise CiphertextError(f"ciphertext {place} shares a factor with n, so it is not an encryption")


def encode_ciphertexts(key: CiphertextKey, ciphertexts: Sequence[mpz]) -> bytes:
    """Encode ciphertexts as little-endian integers of `key.ciphertext_bytes` bytes each."""
    size = key.ciphertext_bytes
    return b"".join([c.to_bytes(size, "little") for c in ciphertexts])


def decode_ciphertexts(key: CiphertextKey, payload: bytes, count: int) -> tuple[mpz, ...]:
    """Decode `count` ciphertexts; raise CiphertextError for a wrong length or a value out of range."""
    size = key.ciphertext_bytes
    if len(payload) != size * count:
        raise CiphertextError(f"{count} ciphertexts under this key take {size * count} bytes, not {len(payload)}")
    ciphertexts = tuple([mpz.from_bytes(payload[at : at + size], "little") for at in range(0, len(payload), size)])
    check_range(key, ciphertexts)
    return ciphertexts


def received_ciphertexts(key: CiphertextKey, payload: bytes, count: int) -> tuple[mpz, ...]:
    """Decode `count` ciphertexts and check that all are units; raise CiphertextError."""
    ciphertexts = decode_ciphertexts(key, payload, count)
    check_ciphertexts(key, ciphertexts)
    return ciphertexts


def add_ciphertexts(key: PublicKey, *vectors: Sequence[mpz]) -> tuple[mpz, ...]:
    """Multiply vectors entrywise modulo n^(s+1), which adds their plaintexts."""
    return tuple(key.ring.products(*vectors))
