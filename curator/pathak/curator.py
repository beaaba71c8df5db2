"""Charlie, the curator in Pathak, Rane and Raj (2010), section 3, and Dave, the consumer, in the order of the protocol.

Charlie sees uniform shares, the outcomes of comparisons of sizes in a random order, and masked noise. With noise for a
public size (`public-bound`) he only takes part in the resharing, with a vector of zeros.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gmpy2 import mpz

from psephos.protocol.errors import InvalidParameter, MessageError, ShareRangeError
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.generator import generator_power
from psephos.protocol.paillier.keys import PublicKey
from psephos.protocol.paillier.private_key import PrivateKey
from psephos.protocol.pathak.comparison import Answer, ask, conclude
from psephos.protocol.pathak.dgk import DgkPrivateKey
from psephos.protocol.pathak.messages import (
    KEYED_SIZE_BITS,
    MASK_BITS,
    SHARE_BITS,
    Answers,
    Ciphertexts,
    GroupKey,
    IndexedShare,
    Opponents,
    Proposal,
    Questions,
    Share,
    check_room,
    post,
)
from psephos.protocol.pathak.noise import modulus_bits, noise_plan
from psephos.protocol.pathak.resharing import add_shares, open_shares, split_vector
from psephos.protocol.pathak.terms import CONSUMERS, CURATOR, LEADER, PathakTerms, participants, party_name
from psephos.protocol.permutation import inverse, permute, random_permutation
from psephos.protocol.randomness import SYSTEM, Randomness
from psephos.protocol.roles import BOARD, Entry, Machine, MachineState, Post, PublicReader, Step, gathers
from psephos.protocol.storage.values import storable
from psephos.protocol.wire import Kind

Messages = Mapping[str, bytes]


@dataclass(frozen=True)
class AwaitingGroupKey:
    pass


@dataclass(frozen=True)
class AwaitingIndexedShares:
    group_key: PublicKey


@dataclass(frozen=True)
class AwaitingAnswers:
    """The answers of a turn are awaited.

    `rests` are pi_2(pi_1(b) - r); `standing` the positions, from 0, that have not lost yet; `pairs` the position that
    answers and the one whose share it borrows, for each comparison of this turn, sorted.
    """

    permutation: tuple[int, ...] = field(repr=False)
    rests: tuple[int, ...] = field(repr=False)
    standing: tuple[int, ...]
    turn: int = 0
    pairs: tuple[tuple[int, int], ...] = ()

    @property
    def shares(self) -> list[int]:
        return [self.rests[other] - self.rests[place] for place, other in self.pairs]

    @property
    def answering(self) -> list[int]:
        return sorted({place for place, _ in self.pairs})


@dataclass(frozen=True)
class AwaitingMaskedNoise:
    pass


@storable
@dataclass(frozen=True)
class CuratorResharing:
    """The parties' shares for Charlie are awaited; `own_share` is the share that he made for himself."""

    own_share: tuple[int, ...] = field(repr=False)


@storable
@dataclass(frozen=True)
class CuratorPublished:
    pass


def _all_parties(curator: PathakCurator, state: Any) -> list[str]:
    return [party_name(number) for number in range(curator.terms.parties)]


class PathakCurator(Machine):
    """Charlie's role, "curator". `repr` shows nothing of his keys."""

    name = CURATOR

    def __init__(
        self,
        terms: PathakTerms,
        keys: tuple[PrivateKey, DgkPrivateKey] | None = None,
        *,
        test_key: bool = False,
        randomness: Randomness = SYSTEM,
    ) -> None:
        """Args:
        terms: the agreed terms.
        keys: Charlie's private keys, sk' of zeta and that of the comparisons; None with noise for a public size.
        test_key: accept keys under 2048 bits.
        randomness: source of all secrets.
        """
        if (keys is not None) != terms.finds_smallest:
            raise InvalidParameter("the curator needs two keys in a variant with stages 1 and 2, and none in another")
        if keys is not None:
            check_room(keys[0].public_key)
            noise_plan(terms, keys[0].public_key)
            if keys[1].public_key.largest_comparison < KEYED_SIZE_BITS:
                raise InvalidParameter(f"the comparison key must have room for {KEYED_SIZE_BITS} bits")
            self._key, self._comparison_key = keys
        self.terms, self._test_key, self._randomness = terms, test_key, randomness

    # -- agreement

    def _start(self) -> Step:
        """Send the terms and Charlie's public keys to every party."""
        keys = (self._key.public_key, self._comparison_key.public_key) if self.terms.finds_smallest else None
        posts = [post(self.terms, party, Proposal(self.terms, keys)) for party in _all_parties(self, None)]
        if keys is not None:
            return Step(AwaitingGroupKey(), tuple(posts))
        return self._reshare([0] * self.terms.features, posts)

    @gathers(AwaitingGroupKey, Kind.GROUP_KEY, lambda self, state: [party_name(LEADER)])
    def take_group_key(self, state: AwaitingGroupKey, messages: Messages) -> Step:
        """Receive the parties' public key; raises WeakKeyError, or InvalidParameter if it is too short for shares."""
        group_key = GroupKey.decode(messages[party_name(LEADER)], self.terms, test_key=self._test_key).key
        check_room(group_key)
        return Step(AwaitingIndexedShares(group_key))

    # -- stage 1

    @gathers(AwaitingIndexedShares, Kind.INDEXED_SHARE, _all_parties)
    def blind_and_permute(self, state: AwaitingIndexedShares, messages: Messages) -> Step:
        """Compute xi(pi_1(a) + r) and pi_1(b) - r, permute both by pi_2, send the first to the parties (step 4)."""
        group_key, own = state.group_key, self._key.public_key
        encrypted, rests = [], []
        for sender, data in messages.items():
            share = IndexedShare.decode(data, self.terms, group_key, own, sender)
            encrypted.append(share.encrypted)
            rest = self._key.raw_decrypt(share.sealed) - (1 << SHARE_BITS)
            if not -(1 << SHARE_BITS) < rest < 1 << KEYED_SIZE_BITS:
                raise ShareRangeError(f"the sealed share from {sender} lies outside its range")
            rests.append(rest)
        masks = [self._randomness.bits(MASK_BITS) - (1 << (MASK_BITS - 1)) for _ in rests]
        modulus = group_key.ciphertext_modulus
        masked = [c * generator_power(group_key, mpz(r)) % modulus for c, r in zip(encrypted, masks, strict=True)]
        # The parties know the private key and the randomness of the incoming ciphertexts.
        fresh = Encryptor(group_key, "full", randomness=self._randomness).rerandomize(masked)
        permutation = random_permutation(self.terms.parties, self._randomness)
        rests = permute(permutation, [b - r for b, r in zip(rests, masks, strict=True)])
        posts = [
            post(self.terms, party_name(place), Ciphertexts(Kind.MASKED_SHARE, group_key, (c,)))
            for place, c in enumerate(permute(permutation, fresh))
        ]
        return self._ask(AwaitingAnswers(permutation, tuple(rests), tuple(range(self.terms.parties))), posts)

    def _ask(self, state: AwaitingAnswers, posts: list[Post]) -> Step:
        """Ask for the comparisons of one turn (step 6)."""
        standing, public = state.standing, self._comparison_key.public_key
        if self.terms.comparisons == "tournament":
            pairs = list(zip(standing[0::2], standing[1::2], strict=False))
        else:  # by the parity of i + j, so that the parties answer about equally many comparisons
            pairs = sorted((i, j) if (i + j) % 2 else (j, i) for i in standing for j in standing if i < j)
        state = replace(state, pairs=tuple(pairs))
        questions = ask(public, state.shares, bits=KEYED_SIZE_BITS, randomness=self._randomness)
        for place in standing:
            comparisons = [(other, q) for (first, other), q in zip(pairs, questions, strict=True) if first == place]
            lenders = sorted(first for first, other in pairs if other == place)
            if lenders:
                posts.append(post(self.terms, party_name(place), Opponents(state.turn, tuple(lenders))))
            if comparisons:
                opponents, bits = zip(*comparisons, strict=True)
                posts.append(post(self.terms, party_name(place), Questions(state.turn, opponents, bits, public)))
        return Step(state, tuple(posts))

    @gathers(AwaitingAnswers, Kind.ANSWERS, lambda self, state: [party_name(place) for place in state.answering])
    def conclude_turn(self, state: AwaitingAnswers, messages: Messages) -> Step:
        """Evaluate a turn; start another one, or send the selection to every party (stage 2, step 1).

        The selection is zeta of the indicator of the smallest size, with pi_2 undone.
        """
        answers: list[Answer] = []
        for place in state.answering:
            count = sum(first == place for first, _ in state.pairs)
            data, public = messages[party_name(place)], self._comparison_key.public_key
            answers += Answers.decode(data, self.terms, state.turn, public, count).answers
        not_smaller = conclude(self._comparison_key, state.shares, answers, bits=KEYED_SIZE_BITS)
        lost = {pair[0 if larger else 1] for pair, larger in zip(state.pairs, not_smaller, strict=True)}
        standing = tuple(place for place in state.standing if place not in lost)
        if not standing:  # more than one cannot remain of all pairs, and in a tournament it means another turn
            raise MessageError("the comparisons contradict each other: no party has the smallest data set")
        if len(standing) > 1:
            return self._ask(replace(state, standing=standing, turn=state.turn + 1), [])
        indicator = [mpz(place == standing[0]) for place in range(self.terms.parties)]
        undone = permute(inverse(state.permutation), indicator)
        key = self._key.public_key
        mode = "half" if key.form == "psephos" else "full"
        encryptor = Encryptor(key, mode, randomness=self._randomness, expected=len(undone))  # type: ignore[arg-type]
        selection = Ciphertexts(Kind.SELECTION, key, encryptor.encrypt(undone))
        return Step(
            AwaitingMaskedNoise(), tuple(post(self.terms, party, selection) for party in _all_parties(self, state))
        )

    # -- stage 3

    @gathers(AwaitingMaskedNoise, Kind.MASKED_NOISE, lambda self, state: [party_name(LEADER)])
    def unmask(self, state: AwaitingMaskedNoise, messages: Messages) -> Step:
        """Decrypt eta + s (step 2)."""
        key = self._key.public_key
        plan = noise_plan(self.terms, key)
        data = messages[party_name(LEADER)]
        received = Ciphertexts.decode(data, Kind.MASKED_NOISE, self.terms, key, plan.ciphertexts)
        return self._reshare(plan.unpack([self._key.raw_decrypt(c) for c in received.ciphertexts], 1), [])

    def _reshare(self, contribution: list[int], posts: list[Post]) -> Step:
        """Send a share of Charlie's vector to each party (step 3)."""
        bits = modulus_bits(self.terms)
        own_share, *party_shares = split_vector(contribution, self.terms.parties + 1, bits, self._randomness)
        for number, share in enumerate(party_shares):
            posts.append(post(self.terms, party_name(number), Share(Kind.RESHARE, tuple(share), bits)))
        return Step(CuratorResharing(tuple(own_share)), tuple(posts))

    @gathers(CuratorResharing, Kind.RESHARE, _all_parties)
    def publish(self, state: CuratorResharing, messages: Messages) -> Step:
        """Publish Charlie's share of K w_s."""
        bits = modulus_bits(self.terms)
        received = [Share.decode(data, Kind.RESHARE, self.terms).values for data in messages.values()]
        total = add_shares([state.own_share, *received], bits)
        return Step(CuratorPublished(), (post(self.terms, BOARD, Share(Kind.PUBLISHED_SHARE, tuple(total), bits)),))


@dataclass(frozen=True)
class AwaitingPublishedShares:
    pass


@storable
@dataclass(frozen=True)
class SharedSum:
    """The public sum of all published shares: `total` is K w_s, d integers in units of the grid."""

    total: tuple[int, ...] = field(repr=False)


def _opened(terms: PathakTerms, messages: Messages) -> Step:
    shares = [Share.decode(data, Kind.PUBLISHED_SHARE, terms).values for data in messages.values()]
    return Step(SharedSum(tuple(open_shares(shares, modulus_bits(terms)))))


class PathakConsumer(Machine, PublicReader):
    """Dave's role (section 3.3), which anybody can take: adds the published shares.

    Its result is K w_s, d integers in units of the grid; divided by K, they are the classifier.
    """

    name = CONSUMERS
    reads = frozenset({Kind.PUBLISHED_SHARE})

    def __init__(self, terms: PathakTerms) -> None:
        self.terms = terms

    def check_message(self, entry: Entry) -> None:
        Share.decode(entry.data, Kind.PUBLISHED_SHARE, self.terms)

    def _start(self) -> Step:
        return Step(AwaitingPublishedShares())

    @gathers(AwaitingPublishedShares, Kind.PUBLISHED_SHARE, lambda self, state: participants(self.terms))
    def open(self, state: AwaitingPublishedShares, messages: Messages) -> Step:
        return _opened(self.terms, messages)

    def heard(self, state: MachineState) -> dict[Kind, set[str]]:
        all_arrived = isinstance(state.state, SharedSum)
        senders = participants(self.terms) if all_arrived else [entry.sender for entry in state.arrived]
        return {Kind.PUBLISHED_SHARE: set(senders)}

    def lacks(self, state: MachineState) -> str:
        missing = self.awaits(state)
        return f"not all shares of it are on this board: it waits for {missing}" if missing else ""

    def _result(self, state: AwaitingPublishedShares | SharedSum) -> tuple[int, ...] | None:
        return state.total if isinstance(state, SharedSum) else None


class ConsumingCurator(PathakCurator):
    """The curator of a study, who adds the published shares itself, as any consumer does (Pathak 2010, section 3.3)."""

    reads = frozenset({Kind.PUBLISHED_SHARE})

    def check_message(self, entry: Entry) -> None:
        if entry.is_a(Kind.PUBLISHED_SHARE):
            Share.decode(entry.data, Kind.PUBLISHED_SHARE, self.terms)

    @gathers(CuratorPublished, Kind.PUBLISHED_SHARE, lambda self, state: participants(self.terms))
    def open(self, state: CuratorPublished, messages: Messages) -> Step:
        return _opened(self.terms, messages)

    def _result(self, state: Any) -> SharedSum | None:
        return state if isinstance(state, SharedSum) else None
