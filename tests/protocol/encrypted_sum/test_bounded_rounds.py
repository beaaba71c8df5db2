"""Rounds whose ballots prove that their vector is within bounds; test keys that say so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from gmpy2 import mpz

from psephos.curator.tally import Tally
from psephos.parties.holder import KeyHolder
from psephos.parties.party import Party, VectorParty
from psephos.protocol.driver import Driver
from psephos.protocol.encrypted_sum.messages import Ballot
from psephos.protocol.encrypted_sum.opened import OpenedSum
from psephos.protocol.encrypted_sum.proofs import check_proofs, encrypt_with_proof, proof_bytes
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.errors import InvalidParameter, ProofError, PsephosError
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.packing import PackingPlan
from psephos.protocol.paillier.vectors import EncryptedVector
from psephos.protocol.proofs import knowledge
from psephos.protocol.proofs.bounded import bounded_plan
from psephos.protocol.roles import BOARD, Entry, Post, Role, Step
from psephos.simulation.key_setup import KeySetup, setup_keys

PARTIES, LENGTH, LARGEST, LIAR = 4, 5, 50, 3
NORM = 60
"""Of an honest vector; four entries of 50 have more."""


@pytest.fixture(scope="module")
def keys() -> KeySetup:
    return setup_keys(PARTIES, holders=3, threshold=2, key_bits=1024, test_key=True)


def bounded_round(keys: KeySetup, square_bound: int = NORM**2, minimum: int = PARTIES - 1) -> Round:
    key = keys.threshold_key
    plan = bounded_plan(key.key, length=LENGTH, addends=PARTIES, minimum=-LARGEST, maximum=LARGEST)
    return Round(
        "parameters",
        key,
        plan,
        keys.roster,
        minimum,
        bytes(32),
        bytes(16),
        True,
        "valid",
        square_bound=square_bound,
    )


def vector_party(keys: KeySetup, round_: Round, number: int, vector: Sequence[int]) -> VectorParty:
    return VectorParty(Party(number, keys.signing_keys[number]), round_, "parameters", bytes(32), vector)


class Sending(Role):
    """A party that posts a ballot of its own choice."""

    def __init__(self, number: int, ballot: bytes) -> None:
        self.name, self.reads, self._ballot = f"party {number}", frozenset(), ballot

    def start(self) -> Step:
        return Step(None, (Post(BOARD, self._ballot, "parameters: cast"),))

    def receive(self, state: Any, entries: Sequence[Entry]) -> Step:
        raise AssertionError("it reads nothing")


def opened_with(keys: KeySetup, round_: Round, vectors: Sequence[Sequence[int]], liar: bytes | None) -> OpenedSum:
    roles: list[Role] = [Tally(round_), *(KeyHolder(share, round_) for share in keys.shares)]
    roles += [vector_party(keys, round_, number, vector) for number, vector in enumerate(vectors)]
    if liar is not None:
        roles.append(Sending(LIAR, liar))
    opened: OpenedSum = Driver(roles, strict=False).run()["curator"]
    return opened


VECTORS = ([50, -20, 3, 0, 10], [0, 0, 0, 0, 0], [-30, 30, -30, 30, 0])


def test_vectors_within_bounds_are_summed(keys: KeySetup) -> None:
    vectors = [*VECTORS, [0, 0, -50, 0, 33]]
    opened = opened_with(keys, bounded_round(keys), vectors, None)
    assert opened.sums == tuple(np.sum(vectors, axis=0).tolist())


@pytest.mark.parametrize("vector", [[50, 50, 0, 0, 0], [0, 0, 0, 0, 61], [61, 0, 0, 0, 0]])
def test_a_longer_vector_is_rejected_and_its_sender_named(keys: KeySetup, vector: list[int]) -> None:
    """Its proof is one of a larger bound, or range, in a round that is the same otherwise."""
    round_ = bounded_round(keys)
    wider = bounded_plan(keys.threshold_key.key, length=LENGTH, addends=PARTIES, minimum=-70, maximum=70)
    for lenient in (replace(round_, square_bound=5000), replace(round_, plan=wider, square_bound=5000)):
        if max(vector) > lenient.plan.maximum:
            continue
        encrypted, proof = encrypt_with_proof(lenient, LIAR, vector, Encryptor(lenient.key, "half"))
        check_proofs(lenient, [(LIAR, encrypted.ciphertexts, proof)])
        for wrong in (round_, replace(lenient, square_bound=NORM**2)):
            with pytest.raises(ProofError):
                check_proofs(wrong, [(LIAR, encrypted.ciphertexts, proof)])


def overfull_ballot(round_: Round, keys: KeySetup) -> bytes:
    """A ballot that leaves its last slot no room for a positive sum of the others' entries."""
    plan, encryptor = round_.plan, Encryptor(round_.key, "half")
    room = PARTIES * (plan.maximum - plan.minimum) + (PARTIES - 1) * plan.minimum
    (packed,) = plan.pack([0] * LENGTH)
    overfull = packed + (room + plan.minimum) * mpz(plan.radix) ** (LENGTH - 1)
    ciphertexts, witness = encryptor.encrypt_with_witness([overfull])
    if round_.proofs == "valid":  # the prover finds none for this plaintext; one for another
        _, proof = encrypt_with_proof(round_, LIAR, [0] * LENGTH, encryptor)
    else:
        statement = b"psephos ballot\0" + round_.digest + LIAR.to_bytes(4, "big")
        proof = knowledge.prove(statement, round_.key, ciphertexts, witness, "half").encode(round_.key)
    vector = EncryptedVector(round_.key, plan, ciphertexts)
    return Ballot.sign(round_, LIAR, vector, keys.signing_keys[LIAR], proof).encode()


@pytest.mark.parametrize("others", [40, -40])
def test_whether_a_sum_is_opened_tells_nothing_about_it(keys: KeySetup, others: int) -> None:
    """One party overfills a slot if the others' exact, secret sum is positive; its ballot is rejected either way."""
    round_ = bounded_round(keys)
    honest = [[0, 0, 0, 0, others], [0] * LENGTH, [0] * LENGTH]
    opened = opened_with(keys, round_, honest, overfull_ballot(round_, keys))
    assert opened.parties == (0, 1, 2)
    assert opened.sums == (0, 0, 0, 0, others)


def test_with_proofs_of_knowledge_it_tells_the_sign(keys: KeySetup) -> None:
    round_ = replace(bounded_round(keys), proofs="knowledge", square_bound=0)
    ballot = overfull_ballot(round_, keys)
    assert opened_with(keys, round_, [[0, 0, 0, 0, -40], [0] * LENGTH, [0] * LENGTH], ballot).parties == (0, 1, 2, 3)
    with pytest.raises(PsephosError):
        opened_with(keys, round_, [[0, 0, 0, 0, 40], [0] * LENGTH, [0] * LENGTH], ballot)


def test_the_bound_is_one_of_the_terms_of_a_round(keys: KeySetup) -> None:
    round_ = bounded_round(keys)
    assert replace(round_, square_bound=NORM**2 + 1).digest != round_.digest
    assert proof_bytes(round_)[1] == round_.layout.longest_proof
    plan = PackingPlan.for_key(round_.key, length=LENGTH, addends=PARTIES, minimum=-(2**70), maximum=2**70)
    with pytest.raises(InvalidParameter):
        replace(round_, plan=plan)
    for bad in (-1, LENGTH * round_.plan.maximum**2 * 4):
        with pytest.raises(InvalidParameter):
            replace(round_, square_bound=bad)
