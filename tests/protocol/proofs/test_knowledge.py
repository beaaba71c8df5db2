"""The proof of knowledge: honest proofs hold; proofs of other senders or for other rounds do not."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import gmpy2
import pytest
from gmpy2 import mpz

from psephos.audit.rounds import short_key
from psephos.protocol.errors import ProofError
from psephos.protocol.paillier.encryption import RANDOMNESS_MODES, Encryptor, RandomnessMode, exponent_bits
from psephos.protocol.paillier.keys import PublicKey
from psephos.protocol.paillier.private_key import PrivateKey
from psephos.protocol.proofs import knowledge
from psephos.protocol.proofs.knowledge import KnowledgeProof, first_wrong, prove, verify
from psephos.protocol.randomness import SimulationRandomness

PLAIN = [mpz(m) for m in (0, 1, 5**80, 3, 0)]
HERE = b"round 1, party 3"
modes = pytest.mark.parametrize("mode", RANDOMNESS_MODES)

Claim = tuple[bytes, tuple[mpz, ...], KnowledgeProof]


@pytest.fixture(scope="module", params=[1, 2, 3, 4], ids="degree {}".format)
def private_key(request: pytest.FixtureRequest) -> PrivateKey:
    return short_key(degree=request.param)


def claim(key: PublicKey, mode: RandomnessMode = "half", statement: bytes = HERE) -> Claim:
    ciphertexts, witness = Encryptor(key, mode, expected=8).encrypt_with_witness(PLAIN)
    return statement, ciphertexts, prove(statement, key, ciphertexts, witness, mode)


@modes
def test_an_honest_proof_holds_and_round_trips(private_key: PrivateKey, mode: RandomnessMode) -> None:
    key = private_key.public_key
    statement, ciphertexts, proof = claim(key, mode)
    data = proof.encode(key)
    assert len(data) == KnowledgeProof.encoded_length(key)
    assert KnowledgeProof.decode(data, key) == proof
    verify(statement, key, ciphertexts, proof)


def mauled(private_key: PrivateKey) -> list[tuple[str, Claim]]:
    """Return claims that can be derived from an honest one without knowing its plaintexts."""
    key = private_key.public_key
    n, modulus = key.modulus, key.ciphertext_modulus
    statement, c, proof = claim(key)
    zero = Encryptor(key, "full").encrypt([mpz(0)])[0]
    other = claim(key)
    return [
        ("another sender or round", (b"round 1, party 4", c, proof)),
        ("a re-randomised copy", (statement, (c[0] * zero % modulus, *c[1:]), proof)),
        ("the inverse of a ballot", (statement, tuple(gmpy2.invert(x, modulus) for x in c), proof)),
        ("a plaintext moved by one", (statement, (c[0] * (1 + n) % modulus, *c[1:]), proof)),
        ("a plaintext moved by the most", (statement, (c[0] * (1 + modulus // n) % modulus, *c[1:]), proof)),
        ("two ciphertexts exchanged", (statement, (c[1], c[0], *c[2:]), proof)),
        ("one ciphertext of somebody else", (statement, (other[1][0], *c[1:]), proof)),
        ("another's proof", (statement, c, other[2])),
        ("another announcement", (statement, c, replace(proof, announcement=proof.announcement * (1 + n) % modulus))),
        (
            "another plaintext answer",
            (statement, c, replace(proof, plaintext=(proof.plaintext + 1) % key.plaintext_modulus)),
        ),
        ("another residue answer", (statement, c, replace(proof, residue=proof.residue + 1))),
        ("the wrong form", (statement, c, replace(proof, fast=False, residue=proof.residue % n))),
        ("an announcement that is no unit", (statement, c, replace(proof, announcement=mpz(private_key.factors()[0])))),
        ("an announcement out of range", (statement, c, replace(proof, announcement=modulus))),
        # Both sides of the equation, which are compared up to the sign, have the square 0, whatever was encrypted.
        ("zero on both sides", (statement, c, KnowledgeProof(False, n ** (key.degree // 2 + 1), mpz(0), mpz(0)))),
    ]


def test_derived_claims_do_not_hold(private_key: PrivateKey) -> None:
    for what, (statement, ciphertexts, proof) in mauled(private_key):
        assert first_wrong(private_key.public_key, [(statement, ciphertexts, proof)]) == 0, what


def test_an_announcement_that_is_made_after_the_challenge_is_refused(private_key: PrivateKey) -> None:
    """Whoever knows the challenges first forges a proof about another's ciphertexts from any two answers."""
    key = private_key.public_key
    statement, ciphertexts, honest = claim(key)
    for guessed in (honest.announcement, mpz(1)):
        factors = knowledge._challenges(statement, key, ciphertexts, guessed)
        answers = replace(honest, plaintext=mpz(7), residue=mpz(5))
        left = knowledge.generator_power(key, answers.plaintext) * knowledge.base_power(key, answers.residue)
        over = knowledge.power_product(ciphertexts, factors, key.ring)
        forged = replace(answers, announcement=gmpy2.divm(left, over, key.ciphertext_modulus))
        with pytest.raises(ProofError):
            verify(statement, key, ciphertexts, forged)


def test_joint_verification_agrees_with_single(private_key: PrivateKey) -> None:
    key = private_key.public_key
    honest = [claim(key, mode, b"party %d" % place) for place, mode in enumerate(RANDOMNESS_MODES * 2)]
    assert first_wrong(key, honest) is None
    assert first_wrong(key, []) is None
    for what, lie in mauled(private_key):
        for place in (0, 3, 6):
            assert first_wrong(key, [*honest[:place], lie, *honest[place:]]) == place, what


def test_a_sign_does_not_change_the_verdict(private_key: PrivateKey) -> None:
    """-1 is an n-th residue, so single and joint verification must both accept it."""
    key = private_key.public_key
    statement, c, proof = claim(key)
    turned = replace(proof, announcement=key.ciphertext_modulus - proof.announcement)
    for answer in (proof, turned):
        single = first_wrong(key, [(statement, c, answer)])
        many = first_wrong(key, [claim(key), (statement, c, answer), claim(key)])
        assert (single is None) == (many is None)


def test_two_wrong_proofs_do_not_cancel(private_key: PrivateKey) -> None:
    """Without random weights, opposite errors in two claims would cancel."""
    key = private_key.public_key
    first, second = claim(key), claim(key)
    up = (*first[:2], replace(first[2], plaintext=(first[2].plaintext + 1) % key.plaintext_modulus))
    down = (*second[:2], replace(second[2], plaintext=(second[2].plaintext - 1) % key.plaintext_modulus))
    for seed in range(12):  # weights that are 0 or 1 cancel in half of them
        assert first_wrong(key, [up, down], randomness=SimulationRandomness(seed)) == 0


def test_the_mask_of_a_response_is_long_enough(private_key: PrivateKey) -> None:
    """The mask is at least 80 bits longer than the sum added to it, for up to 2^16 ciphertexts."""
    key = private_key.public_key
    most = (1 << 16) * (1 << 128) * (1 << (exponent_bits(key, "half") + knowledge._COMB_SLACK))
    assert knowledge.mask_bits(key) >= most.bit_length() - 1 + 80
    longest = max(int(claim(key)[2].residue).bit_length() for _ in range(20))
    assert knowledge.mask_bits(key) - 12 <= longest <= knowledge.mask_bits(key) + 1


@modes
def test_the_mask_of_the_plaintexts_fills_its_range(private_key: PrivateKey, mode: RandomnessMode) -> None:
    """A mask below n, or one in two proofs, would leave the upper digits or the difference of plaintexts to see."""
    key, masks, announcements = private_key.public_key, [], set()
    for _ in range(15):
        statement, ciphertexts, proof = claim(key, mode)
        factors = knowledge._challenges(statement, key, ciphertexts, proof.announcement)
        masks.append(
            (proof.plaintext - sum(e * m for e, m in zip(factors, PLAIN, strict=True))) % key.plaintext_modulus
        )
        announcements.add(proof.announcement)
    assert len(announcements) == 15
    assert max(masks) > key.plaintext_modulus >> 3
    assert all(abs(one - other) > key.plaintext_modulus >> 42 for one, other in combinations(masks, 2))


def test_numbers_out_of_range_are_refused(private_key: PrivateKey) -> None:
    key = private_key.public_key
    proof, full, foreign = claim(key)[2], claim(key, "full")[2], PublicKey(key.n, degree=key.degree)
    wrong = [replace(proof, announcement=bad).encode(key) for bad in (key.ciphertext_modulus, mpz(0))]
    wrong.append(replace(proof, plaintext=key.plaintext_modulus).encode(key))
    for fast, limit in ((proof, mpz(1) << knowledge.answer_bits(key)), (full, key.modulus)):
        last = replace(fast, residue=limit - 1, announcement=mpz(1), plaintext=key.plaintext_modulus - 1)
        assert KnowledgeProof.decode(last.encode(key), key) == last
        wrong.append(replace(last, residue=limit).encode(key))
    data = proof.encode(key)
    for bad in (*wrong, b"\2" + data[1:], data[:-1], data + b"\0", b""):
        with pytest.raises(ProofError):
            KnowledgeProof.decode(bad, key)
    with pytest.raises(ProofError):
        KnowledgeProof.decode(data, foreign)
    assert KnowledgeProof.decode(full.encode(foreign), foreign) == full
