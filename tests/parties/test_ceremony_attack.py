"""Two liars of five who speak last: they may not make n a number whose factors they know.

Holder 2 waits for everybody else's residues and shares of n, and answers so that the first candidate is its own p q;
holders 1 and 2 then say 0 for every test, and 0 = 0 would pass. It worked, whatever the size of the key, before
shares of n were committed to and test values had to be units.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from gmpy2 import mpz

from psephos.parties.ceremony import CeremonyHolder
from psephos.parties.ceremony_states import FIRST, ModulusSearch
from psephos.protocol.ceremony.messages import byte_length, pack_integers, pack_residues, packed_bytes, unpack_residues
from psephos.protocol.ceremony.search import Batch, flat_primes
from psephos.protocol.ceremony.terms import CeremonyTerms
from psephos.protocol.driver import Driver
from psephos.protocol.errors import CheatingError
from psephos.protocol.paillier.private_key import generate_private_key
from psephos.protocol.roles import Post, Role
from psephos.protocol.wire import HEADER_BYTES, Kind
from tests.parties.test_ceremony_commitments import Change, LastSender

TERMS = CeremonyTerms(128, 5, 3, bytes(32), test_key=True)
BODY = HEADER_BYTES + 5


class Zeros(Batch):
    """0 for every test; of the first candidate it is holder 1 that takes the public part on."""

    def test_values(self, holder: int, numbers: Any, place: int, n: mpz, chosen: Any) -> list[mpz]:
        return [mpz(0)] * len(list(chosen))


class SayingZero(CeremonyHolder):
    """The holder that computes so."""

    def _batch(self, state: ModulusSearch) -> Batch:
        return Zeros(self.terms, self._batch_seeds(state))


def in_first_batch(twist: Callable[[Post, list[bytes]], Post]) -> Change:
    """Change a message of the first batch, given those of all others."""

    def change(role: LastSender, inner: Any, post: Post, others: dict[str, bytes]) -> tuple[Any, Post]:
        first = post.data[HEADER_BYTES : HEADER_BYTES + 4] == bytes(4)
        return inner, twist(post, list(others.values())) if first else post

    return change


def chosen_residue(value: int) -> Callable[[Post, list[bytes]], Post]:
    """The first draw modulo every prime becomes this number."""

    def twist(post: Post, others: list[bytes]) -> Post:
        size = packed_bytes(TERMS)
        total = np.sum([unpack_residues(TERMS, data[-size:], "") for data in others], axis=0)
        mine, first = unpack_residues(TERMS, post.data[-size:], ""), np.cumsum((0, *TERMS.draws))[:-1]
        mine[first] = (np.array([value % prime for prime in TERMS.primes]) - total[first]) % flat_primes(TERMS)[first]
        return replace(post, data=post.data[:-size] + pack_residues(TERMS, mine))

    return twist


def chosen_modulus(n: int) -> Callable[[Post, list[bytes]], Post]:
    """The first candidate becomes this number."""

    def twist(post: Post, others: list[bytes]) -> Post:
        bound = mpz(1) << TERMS.rest_bits
        end = BODY + byte_length(bound)
        mine = (n - sum(int.from_bytes(data[BODY:end], "little") for data in others)) % bound
        return replace(post, data=post.data[:BODY] + pack_integers([mine], bound) + post.data[end:])

    return twist


@pytest.mark.parametrize(("chosen", "zeros"), [(True, True), (True, False), (False, True)])
def test_nobody_who_speaks_last_chooses_the_modulus(chosen: bool, zeros: bool) -> None:
    kind = SayingZero if zeros else CeremonyHolder
    liar: Role = kind(TERMS, 2)
    if chosen:
        n = 3
        while n % 3 != 1:  # as p = q = 2 modulo 3 make it
            n = generate_private_key(TERMS.bits, test_key=True).public_key.n
        twists = {
            Kind.RESIDUE_PRODUCTS: chosen_residue(n),
            Kind.RESIDUE_DIFFERENCES: chosen_residue(1),
            Kind.MODULUS_SHARES: chosen_modulus(n),
        }
        changes = {(at, FIRST): in_first_batch(twist) for at, twist in twists.items()}
        liar = LastSender(changes, kind(TERMS, 2))
    roles: list[Role] = [kind(TERMS, 1), liar, *(CeremonyHolder(TERMS, j) for j in (3, 4, 5))]
    with pytest.raises(CheatingError):
        Driver(roles).run()
