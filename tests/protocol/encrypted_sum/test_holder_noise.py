"""Rounds in which the key holders add the noise; test keys that say so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from psephos.curator.tally import Tally
from psephos.parties.holder import KeyHolder
from psephos.parties.noise import DiscreteGaussianShares, PolyaShares, holder_shares_of
from psephos.parties.party import Party, VectorParty
from psephos.protocol.driver import Driver
from psephos.protocol.encrypted_sum.messages import Ballot, Close, NoiseBallot, TallyRequest
from psephos.protocol.encrypted_sum.opened import OpenedSum
from psephos.protocol.encrypted_sum.product import BallotProduct
from psephos.protocol.encrypted_sum.proofs import check_proofs, encrypt_with_proof
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.errors import (
    CiphertextError,
    InvalidParameter,
    LateBallotError,
    MessageError,
    ProofError,
    ThresholdError,
    TooFewBallotsError,
    UnconfirmedError,
    UnseenBallotError,
    WrongRoundError,
)
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.packing import PackingPlan
from psephos.protocol.paillier.vectors import EncryptedVector
from psephos.protocol.privacy.mechanisms import DiscreteGaussian, DiscreteLaplace
from psephos.protocol.proofs.bounded import bounded_plan
from psephos.protocol.roles import BOARD, Entry, Role
from psephos.protocol.storage.store import OnceLedger, Store
from psephos.protocol.wire import Kind, kind_of
from psephos.simulation.key_setup import KeySetup, setup_keys

PARTIES, HOLDERS, THRESHOLD, LENGTH = 4, 3, 2, 5
LARGEST, NORM, NOISE_NORM = 10, 15, 60
VECTORS = ([1, -2, 3, 0, 10], [0, 0, 0, 0, 0], [-3, 3, -3, 3, 0], [7, 0, 0, 0, -7])
NOISE = {1: [40, -3, 0, 1, 2], 2: [-5, 0, 0, 0, 50], 3: [0, 0, -9, 0, 0]}


@pytest.fixture(scope="module")
def keys() -> KeySetup:
    return setup_keys(PARTIES, holders=HOLDERS, threshold=THRESHOLD, key_bits=1024, test_key=True)


def noisy_round(keys: KeySetup, proofs: Any = "knowledge", **changes: Any) -> Round:
    key = keys.threshold_key
    plan = (bounded_plan if proofs == "valid" else PackingPlan.for_key)(
        key.key, length=LENGTH, addends=PARTIES + HOLDERS, minimum=-50, maximum=50
    )
    bounds = {"square_bound": NORM**2, "noise_square_bound": NOISE_NORM**2} if proofs == "valid" else {}
    terms = {"proofs": proofs, "confirmations": 3, "holder_noise": True} | bounds | changes
    return Round("statistic", key, plan, keys.roster, 3, bytes(32), bytes(16), True, **terms)


def holder(keys: KeySetup, round_: Round, number: int, ledger: OnceLedger | None = None) -> KeyHolder:
    return KeyHolder(keys.shares[number - 1], round_, openings=ledger, noise=lambda: NOISE[number])


def noise_message(keys: KeySetup, round_: Round, number: int) -> bytes:
    (post,) = holder(keys, round_, number).start().posts
    return post.data


def party(keys: KeySetup, round_: Round, number: int) -> VectorParty:
    owner = Party(number, keys.signing_keys[number])
    return VectorParty(owner, round_, "statistic", bytes(32), VECTORS[number])


def run(roles: Sequence[Role]) -> OpenedSum:
    opened: OpenedSum = Driver(roles).run()["curator"]
    return opened


def everybody(keys: KeySetup, round_: Round) -> list[Role]:
    parties = [party(keys, round_, number) for number in range(PARTIES)]
    return [*parties, Tally(round_), *(holder(keys, round_, number) for number in NOISE)]


@pytest.mark.parametrize("proofs", ["none", "knowledge", "valid"])
def test_the_opened_sum_has_the_noise_of_all_holders_in_it(keys: KeySetup, proofs: str) -> None:
    opened = run(everybody(keys, noisy_round(keys, proofs)))
    assert opened.sums == tuple(np.sum([*VECTORS, *NOISE.values()], axis=0).tolist())
    assert opened.parties == (0, 1, 2, 3)


def test_absent_parties_take_no_noise_away(keys: KeySetup) -> None:
    roles = [role for role in everybody(keys, noisy_round(keys)) if role.name != "party 2"]
    opened = run(roles)
    assert opened.sums == tuple(np.sum([*VECTORS[:2], VECTORS[3], *NOISE.values()], axis=0).tolist())
    assert opened.parties == (0, 1, 3)


@pytest.mark.parametrize("absent", NOISE)
def test_nothing_is_opened_without_the_noise_of_every_holder(keys: KeySetup, absent: int) -> None:
    roles = [role for role in everybody(keys, noisy_round(keys)) if role.name != f"holder {absent}"]
    with pytest.raises(TooFewBallotsError):
        run(roles)


def watching(keys: KeySetup, round_: Round, number: int, messages: Sequence[tuple[str, bytes]]) -> tuple[Any, Any]:
    """Return a holder that has read these messages from the board, and its state."""
    role = holder(keys, round_, number)
    state = role.start().state
    for place, (sender, data) in enumerate(messages, 1):
        step = role.receive(state, [Entry(place, sender, BOARD, data)])
        if step.refused:
            raise step.refused[0].error
        state = step.state
    return role, state


def ballots(keys: KeySetup, round_: Round, numbers: Sequence[int] = range(PARTIES)) -> list[tuple[str, bytes]]:
    return [(f"party {number}", party(keys, round_, number).start().posts[0].data) for number in numbers]


def noises(keys: KeySetup, round_: Round, numbers: Sequence[int] = (1, 2, 3)) -> list[tuple[str, bytes]]:
    return [(f"holder {number}", noise_message(keys, round_, number)) for number in numbers]


def close(round_: Round) -> tuple[str, bytes]:
    return "curator", Close(round_.digest).encode()


def test_a_holder_accepts_no_close_before_all_noise_is_there(keys: KeySetup) -> None:
    round_ = noisy_round(keys)
    with pytest.raises(TooFewBallotsError):
        watching(keys, round_, 1, [*ballots(keys, round_), *noises(keys, round_, [1, 2]), close(round_)])


def confirmed_by(
    keys: KeySetup, round_: Round, numbers: Sequence[int], posted: Sequence[tuple[str, bytes]]
) -> tuple[Any, Any]:
    """Return holder 1 and its state after the close of a board, and after these holders' confirmations."""
    closing = close(round_)
    role, state = watching(keys, round_, 1, [*posted, closing])
    for number in numbers:
        other, open_ = watching(keys, round_, number, posted)
        (post,) = other.receive(open_, [Entry(99, closing[0], BOARD, closing[1])]).posts
        state = role.receive(state, [Entry(100 + number, other.name, BOARD, post.data)]).state
    return role, state


def asked(role: Any, state: Any, request: TallyRequest) -> Any:
    """Return a holder's step after the curator's request."""
    return role.receive(state, [Entry(200, "curator", role.name, request.encode(role.round))])


def test_a_holder_opens_no_product_that_leaves_noise_out(keys: KeySetup) -> None:
    """The curator asks for the product of the ballots alone, of some noise, and of all of it in the name of less."""
    round_ = noisy_round(keys)
    posted = [*ballots(keys, round_), *noises(keys, round_)]
    role, state = confirmed_by(keys, round_, [1, 2, 3], posted)
    whole = role.product(state.state)
    for some in ((), (1,), (1, 2)):
        part, _ = BallotProduct(round_).add_all(data for _, data in ballots(keys, round_))
        for number in some:
            part = part.add_noise(f"holder {number}", posted[PARTIES + number - 1][1])
        for members, digest in (
            (part.members, part.digest),
            (whole.members, part.digest),
            (part.members, whole.digest),
        ):
            with pytest.raises(UnseenBallotError):
                _refused(asked(role, state, TallyRequest(round_.digest, members, digest)))
    opened = asked(role, state, TallyRequest(round_.digest, whole.members, whole.digest))
    assert opened.posts
    with pytest.raises(LateBallotError):
        _refused(role.receive(opened.state, [Entry(300, "holder 3", BOARD, noise_message(keys, round_, 3))]))


def test_a_holder_whose_noise_differs_between_two_boards_has_nothing_opened(keys: KeySetup) -> None:
    """Holder 3 shows one noise to holder 1, and another to holder 2: confirmations of other products do not count."""
    round_ = noisy_round(keys)
    common = [*ballots(keys, round_), *noises(keys, round_, [1, 2])]
    first, second = ([*common, *noises(keys, round_, [3])] for _ in range(2))
    role, state = confirmed_by(keys, round_, [1, 3], first)
    other, open_ = watching(keys, round_, 2, second)
    (post,) = other.receive(open_, [Entry(99, "curator", BOARD, close(round_)[1])]).posts
    state = role.receive(state, [Entry(102, "holder 2", BOARD, post.data)]).state
    product = role.product(state.state)
    with pytest.raises(UnconfirmedError):
        _refused(asked(role, state, TallyRequest(round_.digest, product.members, product.digest)))


def _refused(step: Any) -> None:
    if step.refused:
        raise step.refused[0].error


def test_wrong_noise_is_refused_by_name(keys: KeySetup) -> None:
    round_ = noisy_round(keys)
    data = noise_message(keys, round_, 1)
    assert kind_of(data) is Kind.NOISE_BALLOT
    for sender, changed, error in (
        ("holder 2", data, ThresholdError),
        ("party 0", data, ThresholdError),
        ("holder 1", data[:-1], MessageError),
        ("holder 1", data[:9] + bytes(32) + data[41:], WrongRoundError),
        ("holder 1", data[:41] + b"\x04" + data[42:], ThresholdError),
        ("holder 1", data[:42] + bytes(256) + data[298:], CiphertextError),
        ("holder 1", data[:60] + bytes([data[60] ^ 1]) + data[61:], (ProofError, CiphertextError)),
    ):
        with pytest.raises(error):
            BallotProduct(round_).add_noise(sender, changed)


def test_noise_of_another_holder_or_round_is_no_ones_own(keys: KeySetup) -> None:
    """The proof is bound to the holder: copied ciphertexts are refused."""
    round_ = noisy_round(keys)
    copied = NoiseBallot.decode(noise_message(keys, round_, 1), round_)
    with pytest.raises(ProofError):
        BallotProduct(round_).add_noise("holder 2", replace(copied, holder=2).encode(round_))
    other = replace(round_, nonce=b"another round..!")
    with pytest.raises(WrongRoundError):
        BallotProduct(other).add_noise("holder 1", noise_message(keys, round_, 1))
    same = replace(copied, round_digest=other.digest).encode(other)
    with pytest.raises(ProofError):
        BallotProduct(other).add_noise("holder 1", same)
    plain = replace(round_, holder_noise=False, confirmations=0)
    with pytest.raises(MessageError):
        BallotProduct(plain).add_noise("holder 1", replace(copied, round_digest=plain.digest).encode(plain))


def test_a_holder_draws_other_noise_for_another_round(keys: KeySetup) -> None:
    """With one ledger: noise that is in two sums would be gone from their difference."""
    ledger = OnceLedger(Store(), "holder 1")
    for nonce in (bytes(16), bytes(15) + b"1"):
        round_ = replace(noisy_round(keys), nonce=nonce)
        (post,) = holder(keys, round_, 1, ledger).start().posts
        assert BallotProduct(round_).add_noise("holder 1", post.data).missing_noise == (2, 3)


def test_a_ballot_made_of_a_holders_noise_is_refused(keys: KeySetup) -> None:
    """A party that sends the noise again, or its inverse, to double it or to take it off."""
    round_ = noisy_round(keys)
    noise = NoiseBallot.decode(noise_message(keys, round_, 1), round_)
    square = int(round_.key.n) ** 2
    inverse = tuple(pow(ciphertext, -1, square) for ciphertext in noise.ciphertexts)
    for ciphertexts in (noise.ciphertexts, inverse):
        vector = EncryptedVector(round_.key, round_.plan, ciphertexts)
        for number in (0, 1):  # a party's number is a holder's in 4 bytes
            ballot = Ballot.sign(round_, number, vector, keys.signing_keys[number], noise.proof)
            product, (rejected,) = BallotProduct(round_).add_all([ballot.encode()])
            assert isinstance(rejected.error, ProofError)
            assert not product.members
    copied = NoiseBallot(round_.digest, 2, inverse, noise.proof).encode(round_)
    with pytest.raises(ProofError):
        BallotProduct(round_).add_noise("holder 2", copied)


def test_a_restarted_holder_posts_the_same_bytes_and_draws_no_second_noise(keys: KeySetup) -> None:
    round_, store, draws = noisy_round(keys), Store(), []

    def draw() -> list[int]:
        draws.append(1)
        return NOISE[2]

    def start() -> bytes:
        role = KeyHolder(keys.shares[1], round_, openings=OnceLedger(store, "holder 2"), noise=draw)
        return role.start().posts[0].data

    assert start() == start()
    assert len(draws) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"confirmations": 0},
        {"confirmations": 2},
        {"kind": "parameters"},
        {"noise_square_bound": 4},
        {"holder_noise": False, "noise_square_bound": 4},
    ],
)
def test_terms_under_which_the_noise_protects_nobody_are_refused(keys: KeySetup, changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        replace(noisy_round(keys), **changes)


def test_a_liar_can_send_no_longer_vector_than_an_honest_party(keys: KeySetup) -> None:
    """The slots have room for the noise, but a ballot proves the bound of a statistic, and a holder that of noise."""
    round_, encryptor = noisy_round(keys, "valid"), Encryptor(keys.threshold_key.key, "half")
    long = [NORM, 1, 0, 0, 0]
    with pytest.raises(InvalidParameter):
        encrypt_with_proof(round_, 0, long, encryptor)
    encrypt_with_proof(round_, 0, [NORM, 0, 0, 0, 0], encryptor)
    lenient = replace(round_, square_bound=NOISE_NORM**2)
    vector, proof = encrypt_with_proof(lenient, 0, long, encryptor)
    with pytest.raises(ProofError):
        check_proofs(round_, [(0, vector.ciphertexts, proof)])
    place, noise = round_.holder_place(1), [50, 50, 0, 0, 0]
    with pytest.raises(InvalidParameter):
        encrypt_with_proof(round_, place, noise, encryptor)
    vector, proof = encrypt_with_proof(replace(round_, noise_square_bound=5000), place, noise, encryptor)
    data = NoiseBallot(round_.digest, 1, vector.ciphertexts, proof).encode(round_)
    with pytest.raises(ProofError):
        BallotProduct(round_).add_noise("holder 1", data)


# -- how much noise


def plan_of(mechanism: Any) -> Any:
    return SimpleNamespace(dimension=2, parties=1000, mechanism=mechanism)


@pytest.mark.parametrize(("holders", "colluders", "honest"), [(3, 1, 2), (5, 2, 3), (2, 0, 1), (9, 4, 5)])
def test_shares_are_sized_for_the_holders_that_do_not_collude(holders: int, colluders: int, honest: int) -> None:
    gaussian = holder_shares_of(plan_of(DiscreteGaussian(2, Fraction(9000))), holders, colluders=colluders)
    laplace = holder_shares_of(plan_of(DiscreteLaplace(2, Fraction(20))), holders, colluders=colluders)
    assert isinstance(gaussian, DiscreteGaussianShares)
    assert isinstance(laplace, PolyaShares)
    for shares in (gaussian, laplace):
        assert (shares.parties, shares.contributors) == (holders, honest)
