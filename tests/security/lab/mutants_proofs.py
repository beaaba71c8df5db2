"""The proofs that travel, broken in one line, and the forgery that the line stops.

A broken proof leaks nothing, so no check of the analysis sees it. Each mutant comes with a cheater that makes a proof
of a false statement: the real checker refuses it, the broken one accepts it. Keys are small and prove nothing about
keys. No forgery can show a number that still leaves it a chance of 2^-64 only: one repetition instead of two, or fewer
primes than six, are caught by `test_the_numbers_behind_the_theorem`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import gmpy2
import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from psephos.protocol.encrypted_sum import proofs
from psephos.protocol.encrypted_sum.votes import VoteLayout
from psephos.protocol.errors import ProofError
from psephos.protocol.paillier.encryption import Encryptor, Witness
from psephos.protocol.paillier.private_key import PrivateKey, generate_private_key
from psephos.protocol.paillier.public_power import public_power
from psephos.protocol.paillier.threshold import deal
from psephos.protocol.proofs import knowledge, opening, validity
from psephos.protocol.proofs.knowledge import KnowledgeProof, base_power
from psephos.protocol.proofs.opening import OpeningProof, Powers
from psephos.protocol.randomness import SYSTEM, SimulationRandomness
from psephos.testing.mutants import edited

if TYPE_CHECKING:
    from psephos.protocol.encrypted_sum.rounds import Round

__all__ = ["PROOF_MUTANTS", "ProofMutant"]

HERE = b"round 1, party 3"
SAMPLES, CLASSES = 60, 3


@dataclass(frozen=True)
class ProofMutant:
    """One broken proof.

    Attributes:
        name: what is broken, in the field's words.
        owner, function, old, new: the edit, as of `psephos.testing.mutants.Mutant`.
        forgery: whether the checker in force accepts what the cheater makes.
    """

    name: str
    owner: Any
    function: str
    old: str
    new: str
    forgery: Callable[[], bool]


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
    drawn = knowledge._challenges(HERE, key, c, mpz(1))
    z, w, modulus = mpz(7), mpz(SYSTEM.bits(100)), key.ciphertext_modulus
    power = public_power(c, drawn, key.ring)
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


def _replayed() -> bool:
    """A stranger's ballot and proof, under one's own name."""
    key, round_ = _key().public_key, cast("Round", SimpleNamespace(digest=bytes(32)))
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


def _opened(shape: tuple[int, int], *, simulate: bool) -> bool:
    """A holder that adds `shape` to the plaintexts of its values, with a proof made honestly or from its answer."""
    key = _key().public_key
    threshold_key, shares = deal(_key(), holders=3, threshold=2)
    powers = Powers(key, threshold_key.verification_base, threshold_key.exponent_bits)
    c, n, modulus = _victim(), key.modulus, key.ciphertext_modulus
    honest = shares[0].partially_decrypt(c)
    values = tuple(d * (1 + n * up) % modulus for d, up in zip(honest, shape, strict=True))
    proof = opening.prove(HERE, powers, c, values, shares[0].exponent)
    value = threshold_key.verification_values[0]
    if simulate:
        weighted, opened = opening._weighted(HERE, key, c, values)
        e = opening._challenge(HERE, powers, weighted, opened, mpz(1), mpz(1))
        base = gmpy2.powmod(powers.base, proof.answer, modulus) * gmpy2.powmod(value, -e, modulus) % modulus
        product = gmpy2.powmod(weighted, proof.answer, modulus) * gmpy2.powmod(opened, -e, modulus) % modulus
        proof = OpeningProof(base, product, proof.answer)
    return _holds(lambda: opening.verify(HERE, powers, value, c, values, proof))


# -- valid ballots


def _ballot(held: dict[int, int], claimed: dict[int, int], *, lie: bool = False) -> bool:
    """A ballot for class 0 everywhere but for `held`, and a proof about one with `claimed`: entry -> value.

    With `lie` the cheater answers for the plaintexts as well as if they were those of `claimed`.
    """
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
    proof = validity.prove(HERE, layout, entries[1], c, witness)
    return _holds(lambda: validity.verify(HERE, layout, c, proof))


def _spoiled() -> bool:
    """Every eighth column of every commitment is not the code word's: 152 columns would meet one but for 2^-29."""
    commit = "np.ascontiguousarray(coset_values(polynomials, layout.size).T)"
    spoil = f"np.array([c ^ np.uint64(place % 8 == 0) for place, c in enumerate({commit})])"
    with edited(validity._Committed, "__init__", commit, spoil):
        return any(_ballot({0: 1}, {0: 1}) for _ in range(20))


PROOF_MUTANTS: tuple[ProofMutant, ...] = (
    ProofMutant(
        "knowledge: the announcement is not hashed",
        knowledge,
        "_challenges",
        "(*ciphertexts, announcement)",
        "ciphertexts",
        _simulated,
    ),
    ProofMutant(
        "knowledge: the ciphertexts are not hashed",
        knowledge,
        "_challenges",
        "(*ciphertexts, announcement)",
        "(announcement,)",
        _cancelling,
    ),
    ProofMutant(
        "knowledge: the statement is not hashed",
        knowledge,
        "_challenges",
        "(key.identifier, statement,",
        "(key.identifier,",
        _replayed,
    ),
    ProofMutant(
        "knowledge: many at once without weights",
        knowledge,
        "_holds_together",
        "mpz(randomness.bits(WEIGHT_BITS) | 1)",
        "mpz(1)",
        _two_that_cancel,
    ),
    ProofMutant(
        "opening: no weights",
        opening,
        "_weighted",
        'challenges(f"{_LABEL}: weights", parts, len(ciphertexts))',
        "[mpz(1)] * len(ciphertexts)",
        lambda: _opened((5, -5), simulate=False),
    ),
    ProofMutant(
        "opening: the announcement is not hashed",
        opening,
        "_challenge",
        "(powers.base, *numbers)",
        "(powers.base, *numbers[:2])",
        lambda: _opened((5, 0), simulate=True),
    ),
    ProofMutant(
        "opening: only the verification value is checked",
        opening,
        "verify",
        " or (left_product**2 - right_product**2) % modulus",
        "",
        lambda: _opened((5, 0), simulate=False),
    ),
    ProofMutant(
        "validity: no square check",
        validity._Verification,
        "_check_sums",
        "[0, : self.layout.used].any()",
        "[0, :0].any()",
        lambda: _ballot({0: 2}, {0: 2}),
    ),
    ProofMutant(
        "validity: two votes on one sample",
        validity,
        "_constraints",
        "np.concatenate([rows, total])",
        "np.concatenate([rows, sub(total, total)])",
        lambda: _ballot({0: 1, 1: 1}, {0: 1, 1: 1}),
    ),
    ProofMutant(
        "validity: entries are not those of the ciphertexts",
        validity._Verification,
        "_check_sums",
        "* k % PRIME != target",
        "* k % PRIME < 0",
        lambda: _ballot({0: 2}, {0: 1}),
    ),
    ProofMutant(
        "validity: the plaintexts are not opened",
        validity._Verification,
        "_check_opening",
        "(left * left - right * right) % modulus",
        "False",
        lambda: _ballot({0: 1000}, {0: 1}, lie=True),
    ),
    ProofMutant(
        "validity: one column",
        validity._Chain,
        "columns",
        "[:QUERIES]",
        "[:1]",
        _spoiled,
    ),
    ProofMutant(
        "a proof is not bound to its sender",
        proofs,
        "_statement",
        ' + party.to_bytes(4, "big")',
        "",
        _replayed,
    ),
)
