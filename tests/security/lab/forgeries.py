"""Proofs of false statements: the real checker refuses each, and accepts it with one line broken (faults.toml)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import gmpy2
import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from psephos.protocol.encrypted_sum import proofs
from psephos.protocol.encrypted_sum.votes import VoteLayout
from psephos.protocol.errors import ProofError
from psephos.protocol.paillier.encryption import Encryptor, Witness
from psephos.protocol.paillier.powers import power_product
from psephos.protocol.paillier.private_key import PrivateKey, generate_private_key
from psephos.protocol.paillier.threshold import deal
from psephos.protocol.proofs import codewords, knowledge, opening, validity
from psephos.protocol.proofs.challenge import challenges
from psephos.protocol.proofs.knowledge import KnowledgeProof, base_power
from psephos.protocol.proofs.opening import OpeningProof
from psephos.protocol.randomness import SYSTEM, SimulationRandomness
from tests.security.lab.edits import edited

if TYPE_CHECKING:
    from psephos.protocol.encrypted_sum.rounds import Round


HERE = b"round 1, party 3"
SAMPLES, CLASSES = 60, 3


@cache
def _key() -> PrivateKey:
    return generate_private_key(256, test_key=True, randomness=SimulationRandomness(1, "proof mutants"))


def _holds(check: Callable[[], object]) -> bool:
    try:
        check()
    except ProofError:
        return False
    return True


# -- knowledge


def _victim() -> tuple[mpz, ...]:
    """Somebody else's ciphertexts."""
    return Encryptor(_key().public_key, expected=8).encrypt([mpz(1), mpz(12)])


def _known(ciphertexts: Sequence[mpz], proof: KnowledgeProof, statement: bytes = HERE) -> bool:
    return _holds(lambda: knowledge.verify(statement, _key().public_key, ciphertexts, proof))


def _simulated() -> bool:
    """Answers first, then the announcement that fits them."""
    key, c = _key().public_key, _victim()
    challenge = knowledge._challenges(HERE, key, c, mpz(1))
    z, w, modulus = mpz(7), mpz(SYSTEM.bits(100)), key.ciphertext_modulus
    power = power_product(c, challenge, key.ring)
    announcement = (1 + key.modulus * z) * base_power(key, w) * gmpy2.invert(power, modulus) % modulus
    return _known(c, KnowledgeProof(True, announcement, z, w))


def _cancelling() -> bool:
    """x^e_2 and x^-e_1 for a stranger's x: their weighted product is 1, so nothing need be known of them."""
    key, modulus = _key().public_key, _key().public_key.ciphertext_modulus
    x, alpha = _victim()[0], mpz(SYSTEM.bits(100))
    announcement = base_power(key, alpha)
    first, second = knowledge._challenges(HERE, key, (x, x), announcement)
    c = gmpy2.powmod(x, second, modulus), gmpy2.powmod(x, -first, modulus)
    return _known(c, KnowledgeProof(True, announcement, mpz(0), alpha))


def _inverse_of_a_strangers() -> bool:
    """A stranger's ciphertext and its inverse: nothing need be known of them where both have one challenge."""
    key, x, alpha = _key().public_key, _victim()[0], mpz(SYSTEM.bits(100))
    c = (x, gmpy2.invert(x, key.ciphertext_modulus))
    return _known(c, KnowledgeProof(True, base_power(key, alpha), mpz(0), alpha))


def _replayed() -> bool:
    """A stranger's ballot and proof, under one's own name."""
    key, round_ = _key().public_key, cast("Round", SimpleNamespace(digest=bytes(32), roster=range(9)))
    theirs, mine = (proofs._statement(round_, party) for party in (3, 4))
    c, witness = Encryptor(key, expected=8).encrypt_with_witness([mpz(1), mpz(12)])
    return _known(c, knowledge.prove(theirs, key, c, witness, "half"), mine)


def _two_that_cancel() -> bool:
    """Two parties, one answer too large by one and the other too small."""
    key, claims = _key().public_key, []
    for party, error in ((b"3", 1), (b"4", -1)):
        c, witness = Encryptor(key, expected=8).encrypt_with_witness([mpz(1), mpz(12)])
        proof = knowledge.prove(party, key, c, witness, "half")
        claims.append((party, c, replace(proof, plaintext=(proof.plaintext + error) % key.modulus)))
    return knowledge.first_wrong(key, claims) is None


# -- partial decryptions


def _opened(shape: Sequence[int], *, simulate: bool, c: tuple[mpz, ...] = ()) -> bool:
    """A holder that adds `shape` to the plaintexts of its values, with a proof made honestly or from its answer."""
    key = _key().public_key
    threshold_key, shares = deal(_key(), holders=3, threshold=2)
    c, n, modulus = c or _victim(), key.modulus, key.ciphertext_modulus
    honest = shares[0].partially_decrypt(c)
    values = tuple(d * (1 + n * up) % modulus for d, up in zip(honest, shape, strict=True))
    proof = opening.prove(HERE, threshold_key, c, values, shares[0].exponent)
    v, value = threshold_key.verification_base, threshold_key.verification_values[0]
    if simulate:
        weighted, opened = opening._weighted(HERE, key, c, values)
        e = opening._challenge(HERE, threshold_key, weighted, opened, mpz(1), mpz(1))
        base = gmpy2.powmod(v, proof.answer, modulus) * gmpy2.powmod(value, -e, modulus) % modulus
        product = gmpy2.powmod(weighted, proof.answer, modulus) * gmpy2.powmod(opened, -e, modulus) % modulus
        proof = OpeningProof(base, product, proof.answer)
    return _holds(lambda: opening.verify(HERE, threshold_key, 1, c, values, proof))


def _cancelling_shape() -> bool:
    """Two values moved by amounts that cancel under weights of the ciphertexts alone."""
    key, c = _key().public_key, _victim()
    parts = (key.identifier, HERE, *(x.to_bytes(key.ciphertext_bytes, "little") for x in c))
    first, second = challenges("psephos partial decryption: weights", parts, 2)
    return _opened((int(second), -int(first)), simulate=False, c=c)


def _another_exponent() -> bool:
    """A holder that opens everything with another exponent than its share's."""
    key = _key().public_key
    threshold_key, shares = deal(_key(), holders=3, threshold=2)
    c, exponent = _victim(), shares[0].exponent + 2
    values = tuple(gmpy2.powmod(x, exponent, key.ciphertext_modulus) for x in c)
    proof = opening.prove(HERE, threshold_key, c, values, exponent)
    return _holds(lambda: opening.verify(HERE, threshold_key, 1, c, values, proof))


# -- valid ballots


def _ballot(held: dict[int, int], claimed: dict[int, int], *, lie: bool = False) -> bool:
    """A ballot for class 0 everywhere but for `held`, and a proof about one with `claimed`: entry -> value."""
    key = _key().public_key
    plan = VoteLayout(SAMPLES, CLASSES).plan(key, 20)
    layout = validity.Layout.of(key, plan, CLASSES - 1)
    entries: list[NDArray[np.int64]] = []
    for changes in (held, claimed):
        entries.append(np.zeros(plan.length, dtype=np.int64))
        entries[-1][list(changes)] = list(changes.values())
    slots, radix = plan.slots_per_plaintext, int(plan.radix)
    rows = [entries[0][at : at + slots].tolist() for at in range(0, plan.length, slots)]
    plaintexts = [mpz(sum(v * radix**place for place, v in enumerate(row))) for row in rows]
    c, witness = Encryptor(key, expected=64).encrypt_with_witness(plaintexts)
    if lie:
        witness = Witness(tuple(plan.pack(entries[1])), witness.roots)
    proof = codewords.prove(HERE, layout, entries[1], c, witness)
    return _holds(lambda: codewords.verify(HERE, layout, c, proof))


def _spoiled() -> bool:
    """Every eighth column of every commitment is not the code word's: 152 columns would meet one but for 2^-29."""
    commit = "coset_values($polynomials, $size)"
    spoiled = f"{commit} ^ (np.arange($size) % 8 == 0).astype(np.uint64)"
    with edited(codewords.CommittedMatrix, "__init__", commit, spoiled):
        return any(_ballot({0: 1}, {0: 1}) for _ in range(20))


def _two_ciphertexts() -> bool:
    """Two votes in one slot, said to be one there and one in the same slot of the next ciphertext."""
    slots = VoteLayout(SAMPLES, CLASSES).plan(_key().public_key, 20).slots_per_plaintext
    return _ballot({0: 2}, {0: 1, slots: 1})


FORGERIES: dict[str, Callable[[], bool]] = {
    "knowledge: the announcement is not hashed": _simulated,
    "knowledge: the ciphertexts are not hashed": _cancelling,
    "knowledge: the statement is not hashed": _replayed,
    "knowledge: many at once without weights": _two_that_cancel,
    "knowledge: one challenge for all ciphertexts": _inverse_of_a_strangers,
    "opening: no weights": lambda: _opened((5, -5), simulate=False),
    "opening: the announcement is not hashed": lambda: _opened((5, 0), simulate=True),
    "opening: only the verification value is checked": lambda: _opened((5, 0), simulate=False),
    "opening: weights are known before the values": _cancelling_shape,
    "opening: any exponent": _another_exponent,
    "validity: the plaintexts are not opened": lambda: _ballot({0: 1000}, {0: 1}, lie=True),
    "validity: one column": _spoiled,
    "validity: one challenge for all ciphertexts": _two_ciphertexts,
    "a proof is not bound to its sender": _replayed,
}
"""Name of a fault -> whether a forgery is accepted."""
