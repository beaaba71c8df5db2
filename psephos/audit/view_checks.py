"""Checks of the messages in a view, above all that ciphertexts have fresh randomness.

That a Paillier ciphertext hides its plaintext is an assumption (DCR; for `half` also factoring). A test can show that
it *applies*: `related_randomness` searches modulo n, where the plaintext drops out of (1 + m n) r^n, for no randomness
at all, a small power of the fixed base, and residues that are equal, inverse, a small power, a product or a quotient of
others. A chance relation among k residues of a b-bit modulus has probability below k^3 2^-b: under 2^-100 here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import gmpy2
from gmpy2 import mpz

from psephos.protocol.paillier.encryption import fixed_base
from psephos.protocol.paillier.keys import PublicKey


@dataclass(frozen=True)
class ViewCiphertext:
    """A ciphertext in a view; `where` is for the evidence."""

    where: str
    value: mpz


def related_randomness(
    key: PublicKey, sealed: Sequence[ViewCiphertext], own: Sequence[ViewCiphertext] = ()
) -> str | None:
    """Return the first relation that shows a lack of fresh randomness, in words; None when there is none.

    `sealed` are ciphertexts that the coalition cannot open, `own` those that it made or can open: relations to them
    count, relations among them do not.
    """
    n = key.modulus
    known: dict[mpz, str] = {}
    base = fixed_base(key) % n
    power = mpz(1)
    for exponent in range(1 << 10):
        known.setdefault(power, f"the fixed base to the power {exponent}" if exponent else "1: no randomness at all")
        power = power * base % n
    earlier: list[tuple[str, mpz]] = []

    def remember(where: str, residue: mpz) -> None:
        for other, value in earlier:
            known.setdefault(residue * value % n, f"{where} times {other}")
            known.setdefault(residue * gmpy2.invert(value, n) % n, f"{where} over {other}")
            known.setdefault(value * gmpy2.invert(residue, n) % n, f"{other} over {where}")
        small = residue
        known[residue] = where
        known.setdefault(gmpy2.invert(residue, n), f"the inverse of {where}")
        for exponent in range(2, 9):
            small = small * residue % n
            known.setdefault(small, f"{where} to the power {exponent}")
        earlier.append((where, residue))

    for item in own:
        remember(item.where, item.value % n)
    for item in sealed:
        residue = item.value % n
        if residue in known:
            return f"the randomness of {item.where} is that of {known[residue]}"
        remember(item.where, residue)
    return None


def jacobi(key: PublicKey, value: mpz) -> int:
    """Return the Jacobi symbol modulo n; it is public, and only multiplication by a random unit changes it."""
    return int(gmpy2.jacobi(value % key.modulus, key.modulus))
