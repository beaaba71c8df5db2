"""Which ballots with proofs count, whatever the batches, and what a proof is bound to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gmpy2 import mpz

from psephos.parties.party import Party, VotingParty
from psephos.protocol.encrypted_sum.messages import Ballot, PartialDecryption
from psephos.protocol.encrypted_sum.opened import open_product
from psephos.protocol.encrypted_sum.product import BallotProduct
from psephos.protocol.encrypted_sum.proofs import (
    check_opening,
    encrypt_with_proof,
    proof_bytes,
    prove_opening,
)
from psephos.protocol.encrypted_sum.rounds import PROOFS, Proofs, Round
from psephos.protocol.encrypted_sum.votes import AuxiliarySet, vote_round
from psephos.protocol.errors import (
    DuplicateBallotError,
    InvalidParameter,
    MessageError,
    ProofError,
)
from psephos.protocol.paillier.encryption import RANDOMNESS_MODES, Encryptor, RandomnessMode
from psephos.protocol.paillier.vectors import EncryptedVector

CLASSES, SAMPLES = 3, 40
AUXILIARY = AuxiliarySet(np.linspace(0, 1, 2 * SAMPLES).reshape(SAMPLES, 2))
proofs = pytest.mark.parametrize("proofs", PROOFS)


class FixedVoter:
    """Votes that depend on the party's number only."""

    def __init__(self, party: int) -> None:
        self.party = party

    def predict_votes(self, X: Any) -> Any:
        return (np.arange(SAMPLES) + self.party) % CLASSES


def round_of(sample: Any, proofs: Proofs) -> Round:
    return vote_round(sample.round.threshold_key, sample.round.roster, AUXILIARY, CLASSES, test_key=True, proofs=proofs)


def cast(sample: Any, round_: Round, party: int, mode: RandomnessMode = "half") -> bytes:
    sender = Party(party, sample.signing_keys[party], classes=range(CLASSES), voter=FixedVoter(party))
    (post,) = VotingParty(sender, round_, AUXILIARY, encryptor=Encryptor(round_.key, mode, expected=8))._start().posts
    return post.data


def signed(sample: Any, round_: Round, party: int, ciphertexts: tuple[mpz, ...], proof: bytes) -> bytes:
    vector = EncryptedVector(round_.key, round_.plan, ciphertexts)
    return Ballot.sign(round_, party, vector, sample.signing_keys[party], proof).encode()


@proofs
@pytest.mark.parametrize("mode", RANDOMNESS_MODES)
def test_honest_ballots_are_counted(sample: Any, proofs: Proofs, mode: RandomnessMode) -> None:
    round_ = round_of(sample, proofs)
    if proofs == "valid" and mode == "full":
        with pytest.raises(InvalidParameter):
            cast(sample, round_, 0, mode)
        return
    product, rejections = BallotProduct(round_).add_all(cast(sample, round_, party, mode) for party in range(5))
    assert not rejections
    sums = product.vector().decrypt(sample.private_key)
    votes = np.stack([FixedVoter(party).predict_votes(None) for party in range(5)])
    assert sums == np.stack([(votes == k).sum(axis=0) for k in (1, 2)], axis=1).reshape(-1).tolist()


@proofs
def test_who_is_counted_does_not_depend_on_batches(sample: Any, proofs: Proofs) -> None:
    """An invalid first ballot of a party does not prevent a valid second one, whatever the batches."""
    round_ = round_of(sample, proofs)
    good = [cast(sample, round_, party) for party in range(5)]
    ballot = Ballot.decode(good[2], round_)
    bad = [signed(sample, round_, 2, (mpz(sample.private_key.factors()[0]), *ballot.ciphertexts[1:]), ballot.proof)]
    if proofs != "none":
        other = Ballot.decode(good[3], round_)
        bad.append(signed(sample, round_, 2, ballot.ciphertexts, other.proof))
        bad.append(signed(sample, round_, 2, other.ciphertexts, other.proof))
    board = [good[0], bad[0], good[1], *bad[1:], good[2], good[2], good[3], good[4]]
    whole, rejected = BallotProduct(round_).add_all(board)
    single, errors = BallotProduct(round_), []
    for data in board:
        single, refused = single.add_all([data])
        errors += [type(r.error) for r in refused]
    assert single == whole
    assert whole.parties == (0, 1, 2, 3, 4)
    assert sorted(e.__name__ for e in errors) == sorted(type(r.error).__name__ for r in rejected)
    assert errors.count(DuplicateBallotError) == 1


@proofs
def test_the_length_of_a_proof_is_checked(sample: Any, proofs: Proofs) -> None:
    round_ = round_of(sample, proofs)
    vector, proof = encrypt_with_proof(round_, 0, [0] * round_.plan.length, Encryptor(round_.key, expected=8))
    least, most = proof_bytes(round_)
    assert least <= len(proof) <= most
    for wrong in (b"\0" * (most + 1), b"" if least else b"\0"):
        data = signed(sample, round_, 0, vector.ciphertexts, wrong)
        with pytest.raises(MessageError):
            Ballot.decode(data, round_)

    assert Ballot.encoded_length(round_) == len(signed(sample, round_, 0, vector.ciphertexts, bytes(most)))
    for length in {least, most}:
        data = signed(sample, round_, 0, vector.ciphertexts, bytes(length))
        assert Ballot.decode(data, round_).proof == bytes(length)  # its content is checked when the ballot is counted


@pytest.mark.parametrize("others", [2, 3])
def test_a_flipped_sign_does_not_change_the_sum(sample: Any, others: int) -> None:
    """A proof holds for -v as for v, so a flipped sign passes; it must not change the opened sum."""
    round_ = round_of(sample, "knowledge")
    product, _ = BallotProduct(round_).add_all(cast(sample, round_, party) for party in range(5))
    parts = []
    for holder in (1, others):
        share = sample.shares[holder - 1]
        values = share.partially_decrypt(product.columns)
        if holder == 1:
            values = (round_.key.ciphertext_modulus - values[0], *values[1:])
        proof = prove_opening(round_, share, product.columns, values)
        check_opening(round_, holder, product.columns, values, proof)
        parts.append(PartialDecryption(round_.digest, holder, product.digest, values, proof))
    assert list(open_product(product, parts).sums) == product.vector().decrypt(sample.private_key)


@proofs
def test_a_proof_does_not_hold_in_another_round(sample: Any, proofs: Proofs) -> None:
    """The party signs the same ciphertexts again for a second round with the same terms."""
    first, second = round_of(sample, proofs), round_of(sample, proofs)
    ballot = Ballot.decode(cast(sample, first, 0), first)
    again = signed(sample, second, 0, ballot.ciphertexts, ballot.proof)
    _, rejections = BallotProduct(second).add_all([again])
    assert [type(r.error) for r in rejections] == ([] if proofs == "none" else [ProofError])


def test_a_proof_of_opening_holds_for_one_round_and_one_holder(sample: Any) -> None:
    first, second = round_of(sample, "knowledge"), round_of(sample, "knowledge")
    ciphertexts = Ballot.decode(cast(sample, first, 0), first).ciphertexts
    share, other = sample.shares[:2]
    values = share.partially_decrypt(ciphertexts)
    proof = prove_opening(first, share, ciphertexts, values)
    check_opening(first, share.holder, ciphertexts, values, proof)
    for round_, holder in ((second, share.holder), (first, other.holder)):
        with pytest.raises(ProofError):
            check_opening(round_, holder, ciphertexts, values, proof)
