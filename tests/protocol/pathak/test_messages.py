"""Terms and messages: one encoding each, every bound checked, nothing but named errors for anything else."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from gmpy2 import mpz

from psephos.protocol.errors import (
    AgreementError,
    CiphertextError,
    InvalidParameter,
    MessageError,
    ShareRangeError,
    WeakKeyError,
    WrongRoundError,
)
from psephos.protocol.paillier.keys import PublicKey
from psephos.protocol.paillier.private_key import generate_private_key
from psephos.protocol.pathak.comparison import Answer
from psephos.protocol.pathak.dgk import generate_dgk_key
from psephos.protocol.pathak.messages import (
    KEYED_SIZE_BITS,
    LENT_BITS,
    MASK_BITS,
    Answers,
    Ciphertexts,
    GroupKey,
    GroupSecret,
    IndexedShare,
    LentShare,
    Opponents,
    Proposal,
    Questions,
    Share,
    SizeShare,
    centred,
    check_room,
)
from psephos.protocol.pathak.noise import modulus_bits
from psephos.protocol.wire import HEADER_BYTES, Kind, frame
from psephos.simulation.pathak import PathakKeys, make_terms

KEYS = PathakKeys(
    generate_private_key(448, test_key=True),
    generate_dgk_key(256, comparison_bits=KEYED_SIZE_BITS, test_key=True),
    generate_private_key(384, test_key=True),
)
SMALL: dict[str, Any] = {
    "parties": 4,
    "features": 2,
    "lam": 0.1,
    "epsilon": 1.0,
    "smallest_size": 4,
    "largest_size": 10,
}
TERMS = make_terms(variant="repaired", **SMALL)
CHARLIE, GROUP, DGK = KEYS.curator.public_key, KEYS.group.public_key, KEYS.comparison.public_key


def test_repr_does_not_show_secrets() -> None:
    p, c = KEYS.group.factors()[0], mpz(12345678901)
    answer = Answer((c,) * (KEYED_SIZE_BITS + 1), 0)
    for message in (
        GroupSecret((1, 0, 3, 2), KEYS.group),
        SizeShare(int(c), c, CHARLIE),
        IndexedShare(c, c, GROUP, CHARLIE),
        Questions(0, (1,), ((c,),), DGK),
        LentShare(0, int(c)),
        Answers(0, (answer,), DGK),
        Ciphertexts(Kind.SELECTION, CHARLIE, (c,)),
        Share(Kind.RESHARE, (int(c),), 64),
    ):
        assert not {str(p), str(c)} & {*re.findall(r"\d+", repr(message))}


def test_a_proposal_for_a_public_size_has_no_keys() -> None:
    terms = make_terms(variant="public-bound", **SMALL)
    data = Proposal(terms, None).encode(terms.digest)
    assert Proposal.decode(data, test_key=True) == Proposal(terms, None)
    for wrong in (Proposal(terms, (CHARLIE, DGK)), Proposal(TERMS, None)):
        with pytest.raises(MessageError):
            Proposal.decode(wrong.encode(wrong.terms.digest), test_key=True)


def test_messages_of_another_turn_are_rejected() -> None:
    assert TERMS.turns == 2
    data = LentShare(1, 5).encode(TERMS.digest)
    assert LentShare.decode(data, TERMS, 1).value == 5
    with pytest.raises(MessageError):
        LentShare.decode(data, TERMS, 0)
    with pytest.raises(MessageError):
        Opponents.decode(Opponents(2, (0,)).encode(TERMS.digest), TERMS, 1)


def test_centred_values() -> None:
    assert centred(GROUP.n - 5, GROUP, 8) == -5
    assert centred(255, GROUP, 8) == 255
    for bad in (256, GROUP.n - 256):
        with pytest.raises(ShareRangeError):
            centred(bad, GROUP, 8)


def test_a_key_has_room_for_masked_shares() -> None:
    check_room(PublicKey(2 ** (MASK_BITS + 3) + 1))
    with pytest.raises(InvalidParameter):
        check_room(PublicKey(2 ** (MASK_BITS + 2) + 1))


@pytest.mark.parametrize(
    "opponents",
    [
        (),
        (2, 0),
        (0, 0),
        (0, 1),  # party 1 itself
        (0, 4),
        (0, 65535),
    ],
)
def test_opponents_are_other_parties_in_order(opponents: tuple[int, ...]) -> None:
    with pytest.raises(MessageError):
        Opponents.decode(Opponents(0, opponents).encode(TERMS.digest), TERMS, 1)
    questions = Questions(0, opponents, (), DGK).encode(TERMS.digest)
    with pytest.raises(MessageError):
        Questions.decode(questions, TERMS, 1, DGK)
    good = Opponents(1, (0, 2, 3))
    assert Opponents.decode(good.encode(TERMS.digest), TERMS, 1) == good


def test_lent_shares_and_shares_are_in_their_range() -> None:
    for value in (0, (1 << LENT_BITS) - 1):
        assert LentShare.decode(LentShare(1, value).encode(TERMS.digest), TERMS, 1).value == value
    with pytest.raises(ShareRangeError):
        LentShare.decode(LentShare(1, 1 << LENT_BITS).encode(TERMS.digest), TERMS, 1)
    bits = modulus_bits(TERMS)
    last = Share(Kind.RESHARE, (0, (1 << bits) - 1), bits)
    assert Share.decode(last.encode(TERMS.digest), Kind.RESHARE, TERMS) == last
    with pytest.raises(ShareRangeError):
        Share.decode(replace(last, values=(0, 1 << bits)).encode(TERMS.digest), Kind.RESHARE, TERMS)
    for values in ((0,), (0, 1, 2)):
        with pytest.raises(MessageError):
            Share.decode(replace(last, values=values).encode(TERMS.digest), Kind.RESHARE, TERMS)


def test_ciphertexts_under_another_key_are_rejected() -> None:
    one = Ciphertexts(Kind.SELECTION, GROUP, (mpz(1),) * 4).encode(TERMS.digest)
    with pytest.raises(AgreementError):
        Ciphertexts.decode(one, Kind.SELECTION, TERMS, replaced_key(GROUP), 4)
    with pytest.raises(MessageError):
        Ciphertexts.decode(one, Kind.SELECTION, TERMS, GROUP, 3)
    sent = IndexedShare(mpz(1), mpz(2), GROUP, CHARLIE).encode(TERMS.digest)
    assert IndexedShare.decode(sent, TERMS, GROUP, CHARLIE, "party 1").encrypted == 1
    with pytest.raises(AgreementError):
        IndexedShare.decode(sent, TERMS, replaced_key(GROUP), CHARLIE, "party 2")
    for bad in (mpz(KEYS.group.factors()[0]), GROUP.modulus):
        with pytest.raises(CiphertextError):
            IndexedShare.decode(
                IndexedShare(bad, mpz(2), GROUP, CHARLIE).encode(TERMS.digest), TERMS, GROUP, CHARLIE, "party 2"
            )
        with pytest.raises(CiphertextError):
            Ciphertexts.decode(
                Ciphertexts(Kind.SELECTION, GROUP, (mpz(1), bad)).encode(TERMS.digest), Kind.SELECTION, TERMS, GROUP, 2
            )


def replaced_key(key: PublicKey) -> PublicKey:
    """Of the same length, and another one."""
    return PublicKey(key.n, form="foreign" if key.form == "psephos" else "psephos")


def test_keys_have_one_encoding() -> None:
    for key in (GROUP, replaced_key(GROUP)):
        data = GroupKey(key).encode(TERMS.digest)
        assert GroupKey.decode(data, TERMS, test_key=True).key == key
        with pytest.raises(WeakKeyError):
            GroupKey.decode(data, TERMS, test_key=False)
    digits, size = GroupKey(GROUP).encode(TERMS.digest)[HEADER_BYTES + 3 :], (GROUP.bits + 7) // 8
    for bad in (
        size.to_bytes(2, "big") + b"\2" + digits,
        (size + 1).to_bytes(2, "big") + b"\1\0" + digits,
        (2049).to_bytes(2, "big") + b"\1\1" + bytes(2047) + b"\1",
        bytes(2) + b"\1",
    ):
        with pytest.raises(MessageError):
            GroupKey.decode(frame(Kind.GROUP_KEY, TERMS.digest, bad), TERMS, test_key=True)
    secret = GroupSecret((1, 0, 3, 2), KEYS.group)
    with pytest.raises(WeakKeyError):
        GroupSecret.decode(secret.encode(TERMS.digest), TERMS, test_key=False)
    decoded = GroupSecret.decode(secret.encode(TERMS.digest), TERMS, test_key=True)
    assert (decoded.permutation, decoded.private_key.factors()) == ((1, 0, 3, 2), KEYS.group.factors())
    for places in ((0, 0, 1, 2), (1, 2, 3, 4)):
        with pytest.raises(InvalidParameter):
            GroupSecret.decode(replace(secret, permutation=places).encode(TERMS.digest), TERMS, test_key=True)
    long = secret.encode(TERMS.digest)[: HEADER_BYTES + 8] + (1025).to_bytes(2, "big") + bytes(2050)
    with pytest.raises(MessageError):
        GroupSecret.decode(long, TERMS, test_key=True)


def test_a_group_secret_has_one_encoding() -> None:
    """Neither the larger factor first, nor zeros before the factors."""
    data = GroupSecret((1, 0, 3, 2), KEYS.group).encode(TERMS.digest)
    places = HEADER_BYTES + 2 * TERMS.parties
    size = int.from_bytes(data[places : places + 2], "big")
    p, q = data[places + 2 : places + 2 + size], data[places + 2 + size :]
    assert p < q
    zero, longer = b"\0", (size + 1).to_bytes(2, "big")
    for factors in (data[places : places + 2] + q + p, longer + zero + p + zero + q):
        with pytest.raises(MessageError):
            GroupSecret.decode(data[:places] + factors, TERMS, test_key=True)


def test_a_proposal_belongs_to_its_terms() -> None:
    keys = (CHARLIE, DGK)
    data = Proposal(TERMS, keys).encode(TERMS.digest)
    assert Proposal.decode(data, test_key=True) == Proposal(TERMS, keys)
    with pytest.raises(WrongRoundError):
        Proposal.decode(Proposal(TERMS, keys).encode(bytes(32)), test_key=True)
    with pytest.raises(WeakKeyError):
        Proposal.decode(data, test_key=False)


def test_a_wrong_number_of_answers_is_rejected() -> None:
    given_ = Answer(DGK.encrypt([1] * (KEYED_SIZE_BITS + 1)), 0)
    data = Answers(0, (given_,), DGK).encode(TERMS.digest)
    with pytest.raises(MessageError):
        Answers.decode(data, TERMS, 0, DGK, 2)
