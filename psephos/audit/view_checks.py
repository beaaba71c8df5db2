"""Opening a view, and what is checked of that which cannot be opened.

That a Paillier ciphertext tells nothing without the key is an assumption (DCR; for `half` randomness also factoring),
and no test can show it. What a test can show is that the assumption *applies*: that each ciphertext in a view carries
randomness of its own. `stale` looks for every relation that a coalition could look for by itself, modulo n, where the
plaintext drops out of (1 + m n) r^n and only the randomness is left:

* none at all (residue 1), so that the plaintext is (c - 1)/n;
* a power of the fixed base small enough to search for;
* equal residues: the same randomness twice, so that the quotient shows the difference of two plaintexts;
* the inverse of, the product of two, the quotient of two, or a small power of residues seen: not re-randomised.

A chance relation among k residues of a b-bit modulus has probability below k^3 2^-b: under 2^-100 here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import gmpy2
from gmpy2 import mpz

from psephos.protocol.errors import ThresholdError
from psephos.protocol.paillier.encryption import fixed_base
from psephos.protocol.paillier.keys import PublicKey
from psephos.protocol.paillier.threshold import ThresholdKey, combine
from psephos.protocol.transcript import SentMessage

SEARCH = 1 << 10
"""How far exponents are searched: small powers of a ciphertext, small powers of the fixed base."""


@dataclass(frozen=True)
class Sealed:
    """A ciphertext that the coalition cannot open. `where` says what it is."""

    where: str
    value: mpz


def stale(key: PublicKey, sealed: Sequence[Sealed], own: Sequence[Sealed] = (), *, search: int = SEARCH) -> str | None:
    """The first relation that shows a lack of fresh randomness, in words; None when there is none.

    `own`: ciphertexts the coalition made or can open; relations to them count, relations among them do not.
    """
    n = key.modulus
    known: dict[mpz, str] = {}
    base = fixed_base(key) % n
    power = mpz(1)
    for exponent in range(search):
        known.setdefault(power, f"the fixed base to the power {exponent}" if exponent else "1: no randomness at all")
        power = power * base % n
    seen: list[tuple[str, mpz]] = []

    def remember(where: str, residue: mpz) -> None:
        for other, value in seen:
            known.setdefault(residue * value % n, f"{where} times {other}")
            known.setdefault(residue * gmpy2.invert(value, n) % n, f"{where} over {other}")
            known.setdefault(value * gmpy2.invert(residue, n) % n, f"{other} over {where}")
        small = residue
        known[residue] = where
        known.setdefault(gmpy2.invert(residue, n), f"the inverse of {where}")
        for exponent in range(2, 9):
            small = small * residue % n
            known.setdefault(small, f"{where} to the power {exponent}")
        seen.append((where, residue))

    for item in own:
        remember(item.where, item.value % n)
    for item in sealed:
        residue = item.value % n
        if residue in known:
            return f"the randomness of {item.where} is that of {known[residue]}"
        remember(item.where, residue)
    return None


def jacobi(key: PublicKey, value: mpz) -> int:
    """The Jacobi symbol modulo n: public, and kept by every operation but multiplication by a random unit."""
    return int(gmpy2.jacobi(value % key.modulus, key.modulus))


def structure(messages: Iterable[SentMessage]) -> tuple[tuple[str, str, str, str, int], ...]:
    """What traffic alone shows: phase, sender, receiver, kind and size of each message, in order."""
    return tuple((m.phase, m.sender, m.receiver, m.kind, m.size) for m in messages)


def openable(threshold_key: ThresholdKey, parts: Mapping[int, mpz]) -> int | None:
    """What these partial decryptions of one ciphertext open to, tried as if the threshold were their number."""
    lowered = replace(threshold_key, threshold=len(parts))
    try:
        return combine(lowered, {holder: (value,) for holder, value in parts.items()})[0]
    except ThresholdError:
        return None
