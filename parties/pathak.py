"""A data owner in Pathak, Rane and Raj (2010), section 3, from its data to its published share.

The methods are in the order of the protocol. Party 0 (P_1 in the paper) also draws what the parties share, pi_1 and the
key of xi, and masks the noise in Stage 3. Charlie must not learn pi_1, and nobody may recognise an incoming ciphertext
in an outgoing one: whatever a party computes from others' ciphertexts is re-randomised with mode `full`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import scipy
from gmpy2 import mpz
from numpy.typing import NDArray

from psephos.parties.noise import PolyaShares
from psephos.parties.training import train_parties
from psephos.protocol.errors import AgreementError, DataError, InvalidParameter, NormError, UnexpectedMessageError
from psephos.protocol.paillier.ciphertexts import add_ciphertexts
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.generator import generator_power
from psephos.protocol.paillier.keys import PublicKey
from psephos.protocol.paillier.powers import power_product
from psephos.protocol.paillier.private_key import PrivateKey
from psephos.protocol.pathak.comparison import answer
from psephos.protocol.pathak.dgk import DgkPublicKey
from psephos.protocol.pathak.messages import (
    KEYED_SIZE_BITS,
    LENT_BITS,
    MASK_BITS,
    SHARE_BITS,
    TIE_BITS,
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
    post,
)
from psephos.protocol.pathak.noise import (
    ROW_SLACK,
    check_grid,
    mask_bits,
    modulus_bits,
    noise_addends,
    noise_bound,
    noise_plan,
    noise_scale,
    weight_bound,
)
from psephos.protocol.pathak.resharing import add_shares, split_vector
from psephos.protocol.pathak.terms import CURATOR, LEADER, PathakTerms, party_name
from psephos.protocol.permutation import inverse, random_permutation
from psephos.protocol.privacy.mechanisms import DiscreteLaplace, snap
from psephos.protocol.randomness import SYSTEM, Randomness
from psephos.protocol.roles import BOARD, Machine, Post, Step, gathers
from psephos.protocol.storage.values import storable
from psephos.protocol.wire import Kind

Noise = tuple[tuple[int, ...], ...]
"""In integer units of the grid. The paper draws eta for the average and multiplies by K later, which would leave an
integer sum modulo K without noise, so K eta itself is drawn here."""

Messages = Mapping[str, bytes]


@dataclass(frozen=True)
class Contribution:
    """What a party added to the sum, in units of the grid: a secret, for a simulation that checks the sum.

    `noise` is its own vector ("printed"), one share ("public-bound"), or one share for every bucket ("repaired").
    """

    size: int = field(repr=False)
    parameters: tuple[int, ...] = field(repr=False)
    noise: Noise = field(repr=False)


# -- noise


def own_noise(terms: PathakTerms, size: int, randomness: Randomness = SYSTEM) -> tuple[int, ...]:
    """Draw the printed variant's noise of a party with `size` samples: d integers in [-noise_bound, noise_bound]."""
    scale, bound = noise_scale(terms, size), noise_bound(terms)
    noise = DiscreteLaplace(terms.features, scale).sample(randomness)
    return tuple(max(-bound, min(bound, entry)) for entry in noise)


def noise_share(terms: PathakTerms, size: Fraction | int, randomness: Randomness = SYSTEM) -> tuple[int, ...]:
    """Draw a party's share of the noise for data sets of `size` samples: d integers in [-noise_bound, noise_bound]."""
    contributors = terms.parties - terms.excluded
    shares = PolyaShares(terms.features, terms.parties, contributors, noise_scale(terms, size))
    return tuple(shares.share(randomness))


def bucket_shares(terms: PathakTerms, randomness: Randomness = SYSTEM) -> Noise:
    return tuple(noise_share(terms, size, randomness) for size in terms.buckets)


# -- states


@dataclass(frozen=True)
class PathakAgreement:
    terms: PathakTerms
    curator_key: PublicKey
    comparison_key: DgkPublicKey
    permutation: tuple[int, ...] = field(repr=False)
    group_key: PrivateKey = field(repr=False)


@storable
@dataclass(frozen=True)
class AwaitingProposal:
    pass


@dataclass(frozen=True)
class AwaitingGroupSecret:
    proposal: Proposal


@dataclass(frozen=True)
class AwaitingSizeShare:
    agreed: PathakAgreement


@dataclass(frozen=True)
class AwaitingMaskedShare:
    agreed: PathakAgreement


@dataclass(frozen=True)
class ComparingSizes:
    """The comparisons of stage 1 are running; the turns are the last that it lent its share in, or got questions."""

    agreed: PathakAgreement
    masked: int = field(repr=False)
    lending_turn: int = -1
    answering_turn: int = -1


@dataclass(frozen=True)
class AwaitingLentShares:
    standing: ComparingSizes
    questions: Questions


@dataclass(frozen=True)
class AwaitingBucketVotes:
    agreed: PathakAgreement
    vote: tuple[mpz, ...] = field(repr=False)


@dataclass(frozen=True)
class AwaitingBucketSelection:
    agreed: PathakAgreement


@dataclass(frozen=True)
class AwaitingNoiseFactors:
    agreed: PathakAgreement
    noise: Noise = field(repr=False)
    factor: tuple[mpz, ...] = field(repr=False)


@storable
@dataclass(frozen=True)
class PartyResharing:
    """The other participants' shares are awaited; `own_share` is what it made for itself."""

    terms: PathakTerms
    noise: Noise = field(repr=False)
    own_share: tuple[int, ...] = field(repr=False)


@storable
@dataclass(frozen=True)
class PartyPublished:
    noise: Noise = field(repr=False)


def _from(name: str) -> Callable[[PathakParty, Any], Iterable[str]]:
    return lambda party, state: (name,)


def _others(party: PathakParty, state: Any) -> Iterable[str]:
    return [party_name(number) for number in range(party.terms.parties) if number != party.number]


class PathakParty(Machine):
    """The role of a party, "party J". Its result is its `Contribution`; `repr` shows nothing of its data."""

    def __init__(
        self,
        number: int,
        features: Any,
        labels: NDArray[np.integer],
        terms: PathakTerms,
        *,
        group_key: PrivateKey | None = None,
        test_key: bool = False,
        randomness: Randomness = SYSTEM,
        noise_randomness: Randomness | None = None,
    ) -> None:
        """Train the local classifier (section 3.1) on rows (n, d) of norm at most 1 and labels 0 or 1.

        Any number of rows, of one class or of two, is accepted: whether a party takes part does not depend on them.
        """
        if not 0 <= number < terms.parties:
            raise InvalidParameter(f"number must be 0 to {terms.parties - 1}, not {number}")
        if (group_key is not None) != (number == LEADER and terms.finds_smallest):
            raise InvalidParameter("party 0, and no other, is given group_key, in a variant with stages 1 and 2")
        check_grid(terms)
        self.number, self.terms, self.name = number, terms, party_name(number)
        self._group_key, self._test_key = group_key, test_key
        self._randomness, self._noise_randomness = randomness, noise_randomness or randomness
        samples, targets = self._check_data(features, labels)
        self._size = terms.counted(len(targets))
        bound = weight_bound(terms)
        self._parameters = tuple(max(-bound, min(bound, w)) for w in snap(self._train(samples, targets), terms.pitch))

    def _check_data(self, features: Any, labels: NDArray[np.integer]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        dense = features.toarray() if scipy.sparse.issparse(features) else features
        samples, targets = np.asarray(dense, np.float64), np.asarray(labels)
        if samples.ndim != 2 or targets.shape != (len(samples),):
            # The message does not say how many samples there are, which is a secret.
            raise DataError(f"{self.name}: samples must be a matrix, with one label per row")
        if samples.shape[1] != self.terms.features:
            raise AgreementError(f"{self.name} has {samples.shape[1]} features, the terms have {self.terms.features}")
        if not np.isfinite(samples).all():
            raise DataError(f"{self.name} has NaN or infinite features")
        if targets.dtype.kind not in "iu" or not np.isin(targets, (0, 1)).all():
            raise DataError(f"{self.name}: labels must be 0 or 1, in the order of the agreed classes")
        if (np.linalg.norm(samples, axis=1) > 1 + ROW_SLACK).any():
            raise NormError(f"{self.name} has a row of norm above 1; scale all parties' rows by a public bound")
        return samples, targets.astype(np.int64)

    def _train(self, samples: NDArray[np.float64], targets: NDArray[np.int64]) -> NDArray[np.float64]:
        """Minimise (1/max(n, m)) sum of the losses + (mu/2) ||w||^2, with m the agreed smallest size."""
        terms, size = self.terms, len(targets)
        if not size:
            return np.zeros(terms.features)
        # train_parties divides the losses by n, so their sum over m is its objective times n/m.
        lam = terms.strong_convexity * max(size, terms.smallest_size) / size
        trained = train_parties(samples, targets, [size], classes=2, lam=lam, tolerance=terms.tolerance)
        weights: NDArray[np.float64] = trained[0]
        return weights

    # -- agreement

    def _start(self) -> Step:
        return Step(AwaitingProposal())

    @gathers(AwaitingProposal, Kind.PROPOSAL, _from(CURATOR))
    def agree(self, state: AwaitingProposal, messages: Messages) -> Step:
        """Check the proposal; party 0 draws pi_1 and sends it with the group key to the other parties."""
        proposal = Proposal.decode(messages[CURATOR], test_key=self._test_key)
        terms = proposal.terms
        self.terms.check_agrees(terms, self.name)
        if proposal.keys is None:
            noise = noise_share(terms, terms.smallest_size, self._noise_randomness)
            return self._reshare(terms, [w + e for w, e in zip(self._parameters, noise, strict=True)], (noise,))
        check_room(proposal.keys[0])
        noise_plan(terms, proposal.keys[0])
        if self._group_key is None:
            return Step(AwaitingGroupSecret(proposal))
        check_room(self._group_key.public_key)
        secret = GroupSecret(random_permutation(terms.parties, self._randomness), self._group_key)
        posts = [post(terms, other, secret) for other in _others(self, state)]
        posts.append(post(terms, CURATOR, GroupKey(self._group_key.public_key)))
        return self._share_size(PathakAgreement(terms, *proposal.keys, secret.permutation, secret.private_key), posts)

    @gathers(AwaitingGroupSecret, Kind.GROUP_SECRET, _from(party_name(LEADER)))
    def take_secret(self, state: AwaitingGroupSecret, messages: Messages) -> Step:
        terms, keys = state.proposal.terms, state.proposal.keys
        assert keys is not None
        secret = GroupSecret.decode(messages[party_name(LEADER)], terms, test_key=self._test_key)
        check_room(secret.private_key.public_key)
        return self._share_size(PathakAgreement(terms, *keys, secret.permutation, secret.private_key))

    # -- stage 1: the smallest data set, hidden by permutation

    def _share_size(self, agreed: PathakAgreement, posts: Sequence[Post] = ()) -> Step:
        """Send both shares of n_j 2^64 + random = a_j + b_j to P_{pi_1(j)}, b_j sealed for Charlie (steps 1 and 2)."""
        # The tie-breaker decides whose noise is used, so a simulation repeats it with the noise.
        keyed = self._size << TIE_BITS | self._noise_randomness.bits(TIE_BITS)
        share = self._randomness.bits(SHARE_BITS)
        rest = keyed - share + (1 << SHARE_BITS)  # not negative
        # Charlie owns the key this is sealed under.
        sealed = Encryptor(agreed.curator_key, "full", randomness=self._randomness).encrypt((mpz(rest),))[0]
        message = SizeShare(share, sealed, agreed.curator_key)
        receiver = agreed.permutation[self.number]
        if receiver == self.number:
            return self._forward(agreed, message, posts)
        return Step(AwaitingSizeShare(agreed), (*posts, post(agreed.terms, party_name(receiver), message)))

    def _permuted_here(self, state: AwaitingSizeShare) -> Iterable[str]:
        return (party_name(inverse(state.agreed.permutation)[self.number]),)

    @gathers(AwaitingSizeShare, Kind.SIZE_SHARE, _permuted_here)
    def forward_share(self, state: AwaitingSizeShare, messages: Messages) -> Step:
        """Forward the share that is permuted to this party (step 3)."""
        (data,) = messages.values()
        return self._forward(state.agreed, SizeShare.decode(data, state.agreed.terms, state.agreed.curator_key))

    def _forward(self, agreed: PathakAgreement, message: SizeShare, posts: Sequence[Post] = ()) -> Step:
        group_key = agreed.group_key.public_key
        mode = "half" if group_key.form == "psephos" else "full"
        encryptor = Encryptor(group_key, mode, randomness=self._randomness, expected=1)  # type: ignore[arg-type]
        encrypted = encryptor.encrypt((mpz(message.share),))[0]
        resealed = self._full(agreed.curator_key, (message.sealed,))[0]
        forwarded = IndexedShare(encrypted, resealed, group_key, agreed.curator_key)
        return Step(AwaitingMaskedShare(agreed), (*posts, post(agreed.terms, CURATOR, forwarded)))

    def _full(self, key: PublicKey, ciphertexts: tuple[mpz, ...]) -> tuple[mpz, ...]:
        return Encryptor(key, "full", randomness=self._randomness).rerandomize(ciphertexts)

    @gathers(AwaitingMaskedShare, Kind.MASKED_SHARE, _from(CURATOR))
    def open_masked_share(self, state: AwaitingMaskedShare, messages: Messages) -> Step:
        """Decrypt this party's place of pi_2(pi_1(a) + r) (step 5)."""
        agreed, key = state.agreed, state.agreed.group_key
        received = Ciphertexts.decode(messages[CURATOR], Kind.MASKED_SHARE, agreed.terms, key.public_key, 1).ciphertexts
        return Step(ComparingSizes(agreed, centred(key.raw_decrypt(received[0]), key.public_key, MASK_BITS)))

    @gathers(ComparingSizes, Kind.OPPONENTS, _from(CURATOR))
    def lend_share(self, state: ComparingSizes, messages: Messages) -> Step:
        named = Opponents.decode(messages[CURATOR], state.agreed.terms, self.number)
        self._check_turn(named.turn, state.lending_turn)
        low = LentShare(named.turn, state.masked & ((1 << LENT_BITS) - 1))
        posts = [post(state.agreed.terms, party_name(opponent), low) for opponent in named.opponents]
        return Step(replace(state, lending_turn=named.turn), tuple(posts))

    @gathers(ComparingSizes, Kind.QUESTIONS, _from(CURATOR))
    def borrow_shares(self, state: ComparingSizes, messages: Messages) -> Step:
        questions = Questions.decode(messages[CURATOR], state.agreed.terms, self.number, state.agreed.comparison_key)
        self._check_turn(questions.turn, state.answering_turn)
        return Step(AwaitingLentShares(replace(state, answering_turn=questions.turn), questions))

    def _check_turn(self, turn: int, last: int) -> None:
        if turn <= last:
            raise UnexpectedMessageError(f"{self.name}: turn {turn + 1} of the comparisons is over: a replay")

    @gathers(AwaitingLentShares, Kind.LENT_SHARE, lambda self, state: map(party_name, state.questions.opponents))
    def answer_questions(self, state: AwaitingLentShares, messages: Messages) -> Step:
        """Answer this turn's comparisons, all in one message (step 6)."""
        questions, agreed, masked = state.questions, state.standing.agreed, state.standing.masked
        shares = [masked - LentShare.decode(data, agreed.terms, questions.turn).value for data in messages.values()]
        key, coins = agreed.comparison_key, self._randomness
        answers = answer(key, shares, questions.questions, bits=KEYED_SIZE_BITS, randomness=coins)
        message = Answers(questions.turn, tuple(answers), key)
        return Step(state.standing, (post(agreed.terms, CURATOR, message),))

    # -- stage 2: the encrypted noise of the smallest data set

    @gathers(ComparingSizes, Kind.SELECTION, _from(CURATOR))
    def vote_bucket(self, state: ComparingSizes, messages: Messages) -> Step:
        """Undo pi_1 on Charlie's selection; in the repaired variant, put zeta(v_j) on this party's bucket.

        Encryptions of 0 in mode `half` would have the Jacobi symbol 1 and disclose the bucket.
        """
        agreed, terms = state.agreed, state.agreed.terms
        selection = self._decode(messages[CURATOR], Kind.SELECTION, agreed, terms.parties)
        selected = selection[agreed.permutation[self.number]]
        if not terms.joint:
            noise = own_noise(terms, self._size, self._noise_randomness)
            return self._add_noise(agreed, (selected,), (noise,))
        buckets = [mpz(1)] * len(terms.buckets)
        buckets[terms.bucket(self._size)] = selected
        vote = self._full(agreed.curator_key, tuple(buckets))
        if self.number == LEADER:
            return Step(AwaitingBucketVotes(agreed, vote))
        message = Ciphertexts(Kind.BUCKET_VOTE, agreed.curator_key, vote)
        return Step(AwaitingBucketSelection(agreed), (post(terms, party_name(LEADER), message),))

    def _decode(self, data: bytes, kind: Kind, agreed: PathakAgreement, count: int) -> tuple[mpz, ...]:
        return Ciphertexts.decode(data, kind, agreed.terms, agreed.curator_key, count).ciphertexts

    @gathers(AwaitingBucketVotes, Kind.BUCKET_VOTE, _others)
    def combine_buckets(self, state: AwaitingBucketVotes, messages: Messages) -> Step:
        """Party 0: send the product of all votes, zeta of the one-hot e, to all parties."""
        agreed, product = state.agreed, state.vote
        for data in messages.values():
            vote = self._decode(data, Kind.BUCKET_VOTE, agreed, len(product))
            product = add_ciphertexts(agreed.curator_key, product, vote)
        buckets = self._full(agreed.curator_key, product)
        message = Ciphertexts(Kind.BUCKET_SELECTION, agreed.curator_key, buckets)
        posts = [post(agreed.terms, other, message) for other in _others(self, state)]
        return self._add_noise(agreed, buckets, bucket_shares(agreed.terms, self._noise_randomness), posts)

    @gathers(AwaitingBucketSelection, Kind.BUCKET_SELECTION, _from(party_name(LEADER)))
    def take_buckets(self, state: AwaitingBucketSelection, messages: Messages) -> Step:
        agreed = state.agreed
        buckets = self._decode(messages[party_name(LEADER)], Kind.BUCKET_SELECTION, agreed, len(agreed.terms.buckets))
        return self._add_noise(agreed, buckets, bucket_shares(agreed.terms, self._noise_randomness))

    def _add_noise(
        self, agreed: PathakAgreement, bases: tuple[mpz, ...], noise: Noise, posts: Sequence[Post] = ()
    ) -> Step:
        """Compute psi_j, the selection to the power of this party's packed noise, re-randomised (steps 3 and 4).

        Without the re-randomisation the exponent, a small number, could be found by exhaustive search.
        """
        key, bound = agreed.curator_key, noise_bound(agreed.terms)
        # The offset that makes entries positive is selected with the noise, so it counts exactly once.
        plan = noise_plan(agreed.terms, key)
        packed = [plan.pack([entry + bound for entry in vector]) for vector in noise]
        powers = [power_product(bases, column, key.ring) for column in zip(*packed, strict=True)]
        factor = self._full(key, tuple(powers))
        if self.number == LEADER:
            return Step(AwaitingNoiseFactors(agreed, noise, factor), tuple(posts))
        message = post(agreed.terms, party_name(LEADER), Ciphertexts(Kind.NOISE_FACTOR, key, factor))
        return self._reshare(agreed.terms, self._parameters, noise, message)

    # -- stage 3: additive shares of K w_s

    @gathers(AwaitingNoiseFactors, Kind.NOISE_FACTOR, _others)
    def mask_noise(self, state: AwaitingNoiseFactors, messages: Messages) -> Step:
        """Party 0: send psi = prod psi_j, times zeta(s), to Charlie, and subtract s from its parameters (step 1)."""
        agreed, terms, key, product = state.agreed, state.agreed.terms, state.agreed.curator_key, state.factor
        for data in messages.values():
            factor = self._decode(data, Kind.NOISE_FACTOR, agreed, len(product))
            product = add_ciphertexts(key, product, factor)
        mask = [self._randomness.bits(mask_bits(terms)) for _ in range(terms.features)]
        modulus = key.ciphertext_modulus
        packed = noise_plan(terms, key).pack(mask)
        product = tuple([c * generator_power(key, m) % modulus for c, m in zip(product, packed, strict=True)])
        offset = noise_addends(terms) * noise_bound(terms)
        contribution = [w - s - offset for w, s in zip(self._parameters, mask, strict=True)]
        message = Ciphertexts(Kind.MASKED_NOISE, key, self._full(key, product))
        return self._reshare(terms, contribution, state.noise, post(terms, CURATOR, message))

    def _reshare(self, terms: PathakTerms, contribution: Sequence[int], noise: Noise, *posts: Post) -> Step:
        """Send a share of this party's vector to each of the K + 1 participants (step 3)."""
        bits = modulus_bits(terms)
        curator_share, *party_shares = split_vector(contribution, terms.parties + 1, bits, self._randomness)
        share_posts = [post(terms, CURATOR, Share(Kind.RESHARE, tuple(curator_share), bits))]
        for number, share in enumerate(party_shares):
            if number != self.number:
                share_posts.append(post(terms, party_name(number), Share(Kind.RESHARE, tuple(share), bits)))
        return Step(PartyResharing(terms, noise, tuple(party_shares[self.number])), (*posts, *share_posts))

    @gathers(PartyResharing, Kind.RESHARE, lambda self, state: [CURATOR, *_others(self, state)])
    def publish(self, state: PartyResharing, messages: Messages) -> Step:
        """Publish the sum of all shares received, this party's share of K w_s."""
        terms, bits = state.terms, modulus_bits(state.terms)
        received = [Share.decode(data, Kind.RESHARE, terms).values for data in messages.values()]
        total = add_shares([state.own_share, *received], bits)
        return Step(PartyPublished(state.noise), (post(terms, BOARD, Share(Kind.PUBLISHED_SHARE, tuple(total), bits)),))

    def _result(self, state: Any) -> Contribution | None:
        if isinstance(state, PartyResharing | PartyPublished):
            return Contribution(self._size, self._parameters, state.noise)
        return None
