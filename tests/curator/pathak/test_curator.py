"""Charlie by himself: which keys he takes, what he makes of the shares, and answers that contradict each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import gmpy2
import pytest

from psephos.curator.pathak.curator import (
    AwaitingAnswers,
    AwaitingGroupKey,
    AwaitingIndexedShares,
    AwaitingMaskedNoise,
    PathakConsumer,
    PathakCurator,
)
from psephos.protocol.errors import InvalidParameter, MessageError, PackingError, ShareRangeError, WeakKeyError
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.private_key import PrivateKey, generate_private_key
from psephos.protocol.pathak.comparison import answer
from psephos.protocol.pathak.dgk import DgkPrivateKey, generate_dgk_key
from psephos.protocol.pathak.messages import (
    KEYED_SIZE_BITS,
    MASK_BITS,
    SHARE_BITS,
    Answers,
    Ciphertexts,
    GroupKey,
    IndexedShare,
    Questions,
    Share,
)
from psephos.protocol.pathak.noise import modulus_bits
from psephos.protocol.pathak.terms import PathakTerms, participants, party_name
from psephos.protocol.permutation import inverse, permute
from psephos.protocol.randomness import SimulationRandomness
from psephos.protocol.roles import BOARD, Entry, Step
from psephos.protocol.wire import Kind
from psephos.simulation.pathak import make_terms

COINS = SimulationRandomness(7, "charlie")
KEY, GROUP = (generate_private_key(bits, test_key=True, randomness=COINS) for bits in (448, 384))
COMPARISON = generate_dgk_key(256, comparison_bits=KEYED_SIZE_BITS, test_key=True, randomness=COINS)


def terms(**changes: Any) -> PathakTerms:
    agreed = {"parties": 4, "features": 2, "lam": 0.1, "epsilon": 1.0, "smallest_size": 4, "largest_size": 40}
    return make_terms(randomness=SimulationRandomness(8), **({"variant": "repaired"} | agreed | changes))


def charlie(key: PrivateKey = KEY, comparison: DgkPrivateKey = COMPARISON, **changes: Any) -> PathakCurator:
    return PathakCurator(terms(**changes), (key, comparison), test_key=True, randomness=SimulationRandomness(9))


def foreign_key() -> PrivateKey:
    """p = 1 modulo 4, as in a key of another library."""
    p = gmpy2.next_prime(3 << 222)
    while p % 4 != 1:
        p = gmpy2.next_prime(p)
    return PrivateKey(int(p), int(gmpy2.next_prime(5 << 221)))


# -- keys and terms


@pytest.mark.parametrize(("bits", "fits"), [(MASK_BITS + 2, False), (MASK_BITS + 4, True)])
def test_keys_must_have_room_for_masked_shares(bits: int, fits: bool) -> None:
    key = generate_private_key(bits, test_key=True, randomness=COINS)
    message = {"party 0": GroupKey(key.public_key).encode(terms().digest)}
    makers: list[Callable[[], Any]] = [
        lambda: charlie(key),
        lambda: charlie().take_group_key(charlie()._start().state, message),
    ]
    for made in makers:
        if fits:
            assert made()
        else:
            with pytest.raises(InvalidParameter, match="masked shares take"):
                made()


def test_a_short_group_key_is_refused_outside_tests() -> None:
    message = {"party 0": GroupKey(GROUP.public_key).encode(terms().digest)}
    curator = PathakCurator(terms(), (KEY, COMPARISON))
    with pytest.raises(WeakKeyError):
        curator.take_group_key(AwaitingGroupKey(), message)
    assert charlie().take_group_key(AwaitingGroupKey(), message).state == AwaitingIndexedShares(GROUP.public_key)


def test_the_curators_keys_must_have_room_for_noise_and_comparisons() -> None:
    with pytest.raises(PackingError):
        PathakCurator(
            replace(terms(), pitch_exponent=-200),
            (generate_private_key(264, test_key=True, randomness=COINS), COMPARISON),
        )
    small = generate_dgk_key(256, comparison_bits=64, test_key=True, randomness=COINS)
    with pytest.raises(InvalidParameter, match="comparison key"):
        charlie(comparison=small)


# -- stage 1


def indexed(curator: PathakCurator, rests: list[int], hidden: list[int]) -> dict[str, bytes]:
    """From each party a share under the group key, and what it leaves, sealed for him."""
    own = KEY.public_key
    encrypted = Encryptor(GROUP.public_key).encrypt(hidden)
    sealed = Encryptor(own).encrypt([rest + (1 << SHARE_BITS) for rest in rests])
    shares = (IndexedShare(a, b, GROUP.public_key, own) for a, b in zip(encrypted, sealed, strict=True))
    return {party_name(n): share.encode(curator.terms.digest) for n, share in enumerate(shares)}


def signed(key: PrivateKey, ciphertext: Any) -> int:
    value = int(key.raw_decrypt(ciphertext))
    return value if value < key.public_key.n // 2 else value - int(key.public_key.n)


def test_forwarded_and_kept_shares_add_up() -> None:
    """xi(pi_1(a) + r) and pi_1(b) - r: masked by as many bits as were said, and at a place that he drew."""
    curator, rests, hidden = charlie(), [5, -7, (1 << KEYED_SIZE_BITS) - 1, 1 - (1 << SHARE_BITS)], [1, 2, 3, 4]
    step = curator.blind_and_permute(AwaitingIndexedShares(GROUP.public_key), indexed(curator, rests, hidden))
    sent, public = step.posts[:4], GROUP.public_key
    masked = [
        signed(GROUP, *Ciphertexts.decode(post.data, Kind.MASKED_SHARE, curator.terms, public, 1).ciphertexts)
        for post in sent
    ]
    assert [post.receiver for post in sent] == [party_name(number) for number in range(4)]
    assert all(-(1 << (MASK_BITS - 1)) <= value < (1 << (MASK_BITS - 1)) + 5 for value in masked)
    assert max(abs(value).bit_length() for value in masked) > MASK_BITS - 10  # but for a chance of 2^-32
    state = step.state
    assert (state.standing, state.turn) == ((0, 1, 2, 3), 0)
    added = [a + b for a, b in zip(masked, state.rests, strict=True)]
    assert permute(inverse(state.permutation), added) == [a + b for a, b in zip(hidden, rests, strict=True)]


@pytest.mark.parametrize("rest", [1 << KEYED_SIZE_BITS, -(1 << SHARE_BITS)])
def test_a_sealed_share_out_of_its_range_is_named(rest: int) -> None:
    curator = charlie()
    with pytest.raises(ShareRangeError, match="from party 2"):
        curator.blind_and_permute(AwaitingIndexedShares(GROUP.public_key), indexed(curator, [0, 0, rest, 0], [0] * 4))


def answered(curator: PathakCurator, state: AwaitingAnswers, larger: dict[tuple[int, int], bool], step: Step) -> Step:
    """What he concludes when each comparison comes out as told, whatever the shares are."""
    messages, public = {}, COMPARISON.public_key
    for post in step.posts:
        number = int(post.receiver.split()[1])
        if Entry(1, "curator", post.receiver, post.data).kind is Kind.QUESTIONS:
            request = Questions.decode(post.data, curator.terms, number, public)
            shares = [
                state.rests[other] - state.rests[number] + (1 if larger[number, other] else -1)
                for other in request.opponents
            ]
            answers = answer(public, shares, request.questions, bits=KEYED_SIZE_BITS)
            messages[post.receiver] = Answers(state.turn, tuple(answers), public).encode(curator.terms.digest)
    assert sorted(messages) == sorted(party_name(place) for place in state.answering)
    return curator.conclude_turn(state, {party_name(place): messages[party_name(place)] for place in state.answering})


@pytest.mark.parametrize("key", [KEY, foreign_key()], ids=["ours", "foreign"])
def test_all_pairs_select_the_one_that_never_lost(key: PrivateKey) -> None:
    """zeta of its indicator, with pi_2 undone, to every party; randomised in full under a key of a foreign form."""
    curator = charlie(key, parties=3, comparisons="all-pairs")
    start = AwaitingAnswers((1, 2, 0), (30, 20, 10), (0, 1, 2))
    asking = curator._ask(start, [])
    pairs = asking.state.pairs
    assert sorted(tuple(sorted(pair)) for pair in pairs) == [(0, 1), (0, 2), (1, 2)]
    assert max(Counter(place for place, _ in pairs).values()) == 1, "the answering is spread evenly"
    smallest = 2  # a place; the party that pi_2 put there is party 1
    step = answered(curator, asking.state, {(i, j): j == smallest or (i, j) == (0, 1) for i, j in pairs}, asking)
    assert step.state == AwaitingMaskedNoise()
    assert [post.receiver for post in step.posts] == [party_name(number) for number in range(3)]
    for post in step.posts:
        selection = Ciphertexts.decode(post.data, Kind.SELECTION, curator.terms, key.public_key, 3)
        assert [int(key.raw_decrypt(c)) for c in selection.ciphertexts] == [0, 1, 0]


def test_cyclic_comparisons_are_refused() -> None:
    curator = charlie(parties=3, comparisons="all-pairs")
    asking = curator._ask(AwaitingAnswers((0, 1, 2), (30, 20, 10), (0, 1, 2)), [])
    circle = {(i, j): (j - i) % 3 == 1 for i, j in asking.state.pairs}  # everybody loses to the next one round
    with pytest.raises(MessageError, match="contradict each other"):
        answered(curator, asking.state, circle, asking)


# -- the consumer


def test_the_consumer_adds_the_published_shares() -> None:
    agreed = terms()
    consumer, bits = PathakConsumer(agreed), modulus_bits(agreed)
    state = consumer.start().state
    assert consumer.reads == {Kind.PUBLISHED_SHARE}
    for number, name in enumerate(participants(agreed)):
        assert consumer.result(state) is None
        share = Share(Kind.PUBLISHED_SHARE, ((1 << bits) - 7, number), bits).encode(agreed.digest)
        state = consumer.receive(state, [Entry(number, name, BOARD, share)]).state
    assert consumer.result(state) == (-35, 10)
    bad = Share(Kind.PUBLISHED_SHARE, (1 << bits, 0), bits).encode(agreed.digest)
    refused = consumer.receive(consumer.start().state, [Entry(1, "curator", BOARD, bad)]).refused
    assert isinstance(refused[0].error, ShareRangeError)
