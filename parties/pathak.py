"""A data owner in Pathak, Rane and Raj (2010), section 3, from its data to its published share.

The methods are the rounds in the order of the protocol. Each returns the messages to send; `receive` takes in what
arrives. Party 1 has two more duties: it draws what the parties share (pi_1 and the key of xi), and it puts the mask on
the noise in Stage 3.

Who must not know what: Charlie must not learn pi_1, hence every share of a size reaches him through the party that it
is permuted to, sealed under his own key and re-randomised on the way. Nobody may recognise a ciphertext that went in as
one that comes out, hence what a party made from others' ciphertexts leaves it re-randomised with `full`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from gmpy2 import mpz
from numpy.typing import NDArray

from psephos.parties.pathak_noise import own_noise, rung_shares
from psephos.parties.training import train_parties
from psephos.protocol.errors import AgreementError, DataError, InvalidParameter, NormError
from psephos.protocol.paillier.ciphertexts import add_ciphertexts
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.keys import DEFAULT_KEY_BITS, PublicKey
from psephos.protocol.paillier.multi_power import multi_powers
from psephos.protocol.paillier.private_key import PrivateKey, generate_private_key
from psephos.protocol.pathak.comparison import answer
from psephos.protocol.pathak.messages import (
    CONSUMERS,
    CURATOR,
    KEYED_SIZE_BITS,
    MASK_BITS,
    ROW_SLACK,
    SHARE_BITS,
    TIE_BITS,
    Answers,
    GroupKey,
    GroupSecret,
    Inbox,
    IndexedShare,
    LentShare,
    MaskedNoise,
    MaskedShare,
    NoiseFactor,
    Opponents,
    Outgoing,
    Proposal,
    PublishedShare,
    Questions,
    Reshare,
    RungSelection,
    RungVote,
    Selection,
    SizeShare,
    Step,
    Terms,
    centred,
    check_room,
    role,
)
from psephos.protocol.pathak.resharing import add_shares, split_vector
from psephos.protocol.permutation import inverse, random_permutation
from psephos.protocol.privacy.mechanisms import snap
from psephos.protocol.randomness import SYSTEM, Randomness

__all__ = ["PathakParty"]

LEADER = 1


class PathakParty:
    """One of the parties P_1 .. P_K. `repr` shows nothing of its data."""

    def __init__(
        self,
        number: int,
        features: Any,
        labels: NDArray[np.integer],
        terms: Terms,
        *,
        key_bits: int = DEFAULT_KEY_BITS,
        test_key: bool = False,
        randomness: Randomness = SYSTEM,
        noise_randomness: Randomness | None = None,
    ) -> None:
        """Check the data and train the local classifier (section 3.1).

        Args:
            number: 1 .. K.
            features: (n, d), dense or sparse, rows of norm at most 1.
            labels: (n,) integers, 0 or 1 in the order of `terms.classes`, both present.
            terms: what this party was set up for; the curator's proposal must say the same.
            key_bits: party 1: length of the key of xi.
            test_key: accept keys under 2048 bits.
            randomness: source of everything secret.
            noise_randomness: source of the noise, if another; for simulations only.

        Raises DataError, NormError, AgreementError (another number of features than the terms say), InvalidParameter,
        ConvergenceError (the solver's tolerance is below what rounding allows).
        """
        if not 1 <= number <= terms.parties:
            raise InvalidParameter(f"parties are numbered 1 to {terms.parties}, there is no {number}")
        self.number, self.terms = number, terms
        self._name = role(number)
        self._key_bits, self._test_key = key_bits, test_key
        self._private_key: PrivateKey | None = None
        self._randomness = randomness
        self._noise_randomness = noise_randomness or randomness
        self._inbox = Inbox(number, terms.parties)
        samples, targets = self._checked(features, labels)
        self._size = len(targets)
        lam = terms.strong_convexity  # train_parties minimises with (lambda/2) ||w||^2
        weights = train_parties(samples, targets, [self._size], classes=2, lam=lam, tolerance=terms.tolerance)[0]
        self._parameters = snap(weights, terms.pitch)
        if max(map(abs, self._parameters)) > terms.weight_bound:
            raise DataError(f"{self._name}: its parameters exceed the bound that every minimiser keeps")

    def _checked(self, features: Any, labels: NDArray[np.integer]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        dense = features.toarray() if scipy.sparse.issparse(features) else features
        samples, targets = np.asarray(dense, np.float64), np.asarray(labels)
        if samples.ndim != 2 or targets.shape != (len(samples),):
            # How many there are is a secret.
            raise DataError(f"{self._name}: samples are rows of a matrix, with as many labels in a list")
        if not len(samples):
            raise DataError(f"{self._name} has no data; a run needs data from every party, so leave it out")
        if samples.shape[1] != self.terms.features:
            raise AgreementError(
                f"{self._name} has {samples.shape[1]} features and the terms say {self.terms.features}; all parties "
                "must use the same ones, in the same order"
            )
        if not np.isfinite(samples).all():
            raise DataError(f"{self._name} has NaN or infinite features")
        if targets.dtype.kind not in "iu" or targets.min() < 0 or targets.max() > 1:
            raise DataError(f"{self._name}: labels must be 0 or 1, in the order of the agreed classes")
        if targets.min() == targets.max():
            raise DataError(
                f"{self._name} has samples of one class only, so it cannot train a classifier; leave it out"
            )
        if np.linalg.norm(samples, axis=1).max() > 1 + ROW_SLACK:
            raise NormError(
                f"{self._name} has a row longer than 1, which every sensitivity assumes away; scale all parties' rows "
                "by one public bound of their norm"
            )
        self.terms.check_size(len(samples))
        return samples, targets.astype(np.int64)

    def receive(self, data: bytes) -> None:
        """Take in a message; raises MessageError or UnexpectedMessageError."""
        self._inbox.accept(data)

    # -- agreement

    def use_group_key(self, private_key: PrivateKey) -> None:
        """Party 1: the key of xi, made ahead; by default it makes one when the proposal comes."""
        self._private_key = private_key

    def accept_proposal(self) -> list[Outgoing]:
        """Check the curator's proposal; party 1 draws pi_1 and the group key and hands them out.

        Raises AgreementError when the proposal means another run, WeakKeyError, PartyVanishedError, MessageError, and
        InvalidParameter or PackingError for keys with no room for shares or noise.
        """
        body = self._inbox.take(Step.PROPOSAL, [CURATOR])[CURATOR]
        proposal = Proposal.decode(body, test_key=self._test_key)
        self.terms.check_agrees(proposal.terms, self._name)
        check_room(proposal.curator_key)
        self.terms = proposal.terms
        self._session = self._inbox.session = proposal.terms.digest
        self._curator_key, self._comparison_key = proposal.curator_key, proposal.comparison_key
        self._plan = self.terms.plan(self._curator_key)
        if self.number != LEADER:
            return []
        if self._private_key is None:
            self._private_key = generate_private_key(
                self._key_bits, test_key=self._test_key, randomness=self._randomness
            )
        check_room(self._private_key.public_key)
        self._permutation = random_permutation(self.terms.parties, self._randomness)
        secret = GroupSecret(self._permutation, self._private_key)
        others = [number for number in self._everyone() if number not in (LEADER, CURATOR)]
        return [
            *(secret.send(self._session, LEADER, number) for number in others),
            GroupKey(self._private_key.public_key).send(self._session, LEADER, CURATOR),
        ]

    def _everyone(self) -> range:
        return range(self.terms.parties + 1)

    # -- stage 1: the smallest data set, hidden by permutation

    def share_size(self) -> list[Outgoing]:
        """n_j 2^64 + random = a_j + b_j; a_j goes to P_{pi_1(j)}, and b_j too, sealed for Charlie (steps 1 and 2).

        Raises PartyVanishedError, MessageError, WeakKeyError, InvalidParameter (no permutation, or no such key).
        """
        if self.number != LEADER:
            body = self._inbox.take(Step.GROUP_SECRET, [LEADER])[LEADER]
            secret = GroupSecret.decode(body, self.terms, test_key=self._test_key)
            check_room(secret.private_key.public_key)
            self._permutation, self._private_key = secret.permutation, secret.private_key
        # The tie-breaker decides whose noise is used, so a simulation repeats it with the noise.
        keyed = self._size << TIE_BITS | self._noise_randomness.bits(TIE_BITS)
        share = self._randomness.bits(SHARE_BITS)
        rest = keyed - share + (1 << SHARE_BITS)  # not negative
        # Charlie owns the key this is sealed under.
        sealed = Encryptor(self._curator_key, "full", randomness=self._randomness).encrypt((mpz(rest),))[0]
        message = SizeShare(share, sealed, self._curator_key)
        receiver = self._permutation[self.number - 1] + 1
        self._own_share = message if receiver == self.number else None
        return [] if receiver == self.number else [message.send(self._session, self.number, receiver)]

    def forward_share(self) -> list[Outgoing]:
        """xi(a) of whoever is permuted to this party, and the sealed b, resealed, to Charlie (step 3).

        Raises PartyVanishedError, MessageError, CiphertextError.
        """
        sender = inverse(self._permutation)[self.number - 1] + 1
        message = self._own_share
        if message is None:
            message = SizeShare.decode(self._inbox.take(Step.SIZE_SHARE, [sender])[sender], self._curator_key)
        group_key = self._group_key.public_key
        mode = "half" if group_key.form == "psephos" else "full"
        encryptor = Encryptor(group_key, mode, randomness=self._randomness, expected=1)  # type: ignore[arg-type]
        encrypted = encryptor.encrypt((mpz(message.share),))[0]
        resealed = self._full(self._curator_key, (message.sealed,))[0]
        forwarded = IndexedShare(encrypted, resealed, group_key, self._curator_key)
        return [forwarded.send(self._session, self.number, CURATOR)]

    @property
    def _group_key(self) -> PrivateKey:
        assert self._private_key is not None
        return self._private_key

    def _full(self, key: PublicKey, ciphertexts: tuple[mpz, ...]) -> tuple[mpz, ...]:
        return Encryptor(key, "full", randomness=self._randomness).rerandomize(ciphertexts)

    def open_masked_share(self) -> list[Outgoing]:
        """Decrypt this party's place of pi_2(pi_1(a) + r) (step 5).

        Raises ShareRangeError, PartyVanishedError, MessageError, AgreementError (another key), CiphertextError.
        """
        body = self._inbox.take(Step.MASKED_SHARE, [CURATOR])[CURATOR]
        group_key = self._group_key.public_key
        received = MaskedShare.decode(body, group_key, 1)
        self._masked = centred(self._group_key.raw_decrypt(received.ciphertexts[0]), group_key, MASK_BITS)
        return []

    def lend_share(self, turn: int) -> list[Outgoing]:
        """Send the low bits of the masked share to the opponents that Charlie named, if any (step 6).

        Raises MessageError for a list that is none.
        """
        if not self._inbox.has(Step.OPPONENTS, turn):
            return []
        body = self._inbox.take(Step.OPPONENTS, [CURATOR], turn)[CURATOR]
        low = LentShare(self._masked & ((1 << (KEYED_SIZE_BITS + 1)) - 1))
        return [
            low.send(self._session, self.number, opponent, turn)
            for opponent in Opponents.decode(body, self.terms, self.number).opponents
        ]

    def answer_questions(self, turn: int) -> list[Outgoing]:
        """Answer Charlie's comparisons of this turn, if any; all in one message (step 6).

        Raises PartyVanishedError, MessageError, CiphertextError, ShareRangeError.
        """
        if not self._inbox.has(Step.QUESTIONS, turn):
            return []
        body = self._inbox.take(Step.QUESTIONS, [CURATOR], turn)[CURATOR]
        asked = Questions.decode(body, self.terms, self.number, self._comparison_key)
        lent = self._inbox.take(Step.LENT_SHARE, asked.opponents, turn)
        shares = [self._masked - LentShare.decode(lent[opponent]).value for opponent in asked.opponents]
        answers = answer(
            self._comparison_key, shares, asked.questions, bits=KEYED_SIZE_BITS, randomness=self._randomness
        )
        return [Answers(tuple(answers), self._comparison_key).send(self._session, self.number, CURATOR, turn)]

    # -- stage 2: the encrypted noise of the smallest data set

    def vote_rung(self) -> list[Outgoing]:
        """Undo pi_1 on Charlie's selection; in the repaired variant, put zeta(v_j) on this party's rung.

        The zeros are as random as the re-randomised one: `half` would keep the Jacobi symbol 1 and show the rung.

        Raises PartyVanishedError, MessageError, AgreementError (another key), CiphertextError.
        """
        body = self._inbox.take(Step.SELECTION, [CURATOR])[CURATOR]
        selection = Selection.decode(body, self._curator_key, self.terms.parties)
        self._selected = selection.ciphertexts[self._permutation[self.number - 1]]
        if self.terms.variant == "printed":
            return []
        rungs = [mpz(1)] * len(self.terms.ladder)
        rungs[self.terms.rung(self._size)] = self._selected
        self._own_vote = self._full(self._curator_key, tuple(rungs))
        if self.number == LEADER:
            return []
        return [RungVote(self._curator_key, self._own_vote).send(self._session, self.number, LEADER)]

    def combine_rungs(self) -> list[Outgoing]:
        """Party 1 of the repaired variant: the product of all votes, zeta of the one-hot e, to everybody.

        Raises as `vote_rung`.
        """
        if self.terms.variant == "printed" or self.number != LEADER:
            return []
        product, rungs = self._own_vote, len(self.terms.ladder)
        for body in self._inbox.take(Step.RUNG_VOTE, self._others()).values():
            vote = RungVote.decode(body, self._curator_key, rungs)
            product = add_ciphertexts(self._curator_key, product, vote.ciphertexts)
        self._rungs = self._full(self._curator_key, product)
        message = RungSelection(self._curator_key, self._rungs)
        return [message.send(self._session, LEADER, number) for number in self._others()]

    def _others(self) -> list[int]:
        """The parties apart from this one."""
        return [number for number in self._everyone() if number not in (CURATOR, self.number)]

    def add_noise(self) -> list[Outgoing]:
        """psi_j: the selection to the power of this party's packed noise, re-randomised (steps 3 and 4).

        Without the re-randomisation the exponent, a small number, could be searched for. Raises as `vote_rung`, and
        GridTooCoarseError when the grid is coarser than spherical noise.
        """
        terms, bound = self.terms, self.terms.noise_bound
        if terms.variant == "printed":
            bases: tuple[mpz, ...] = (self._selected,)
            self._noise = [own_noise(terms, self._size, self._noise_randomness)]
        else:
            if self.number != LEADER:
                body = self._inbox.take(Step.RUNG_SELECTION, [LEADER])[LEADER]
                self._rungs = RungSelection.decode(body, self._curator_key, len(terms.ladder)).ciphertexts
            bases = self._rungs
            self._noise = rung_shares(terms, self._noise_randomness)
        # The offset that makes entries positive is selected along with the noise: exactly one exponent counts.
        packed = [self._plan.pack([entry + bound for entry in noise]) for noise in self._noise]
        columns = [list(column) for column in zip(*packed, strict=True)]
        powers = multi_powers(bases, columns, self._curator_key.modulus_squared)
        self._factor = self._full(self._curator_key, tuple(powers))
        if self.number == LEADER:
            return []
        return [NoiseFactor(self._curator_key, self._factor).send(self._session, self.number, LEADER)]

    # -- stage 3: additive shares of K w_s

    def mask_noise(self) -> list[Outgoing]:
        """Party 1: psi = prod psi_j, times zeta(s), to Charlie; s comes off its own parameters (step 1).

        Raises as `vote_rung`.
        """
        if self.number != LEADER:
            self._contribution = self._parameters
            return []
        key, product = self._curator_key, self._factor
        for body in self._inbox.take(Step.NOISE_FACTOR, self._others()).values():
            factor = NoiseFactor.decode(body, key, self._plan.ciphertexts)
            product = add_ciphertexts(key, product, factor.ciphertexts)
        mask = [self._randomness.bits(self.terms.mask_bits) for _ in range(self.terms.features)]
        n, modulus = key.modulus, key.modulus_squared
        product = tuple([c * (1 + m * n) % modulus for c, m in zip(product, self._plan.pack(mask), strict=True)])
        offset = self.terms.noise_addends * self.terms.noise_bound
        self._contribution = [w - s - offset for w, s in zip(self._parameters, mask, strict=True)]
        return [MaskedNoise(key, self._full(key, product)).send(self._session, LEADER, CURATOR)]

    def reshare(self) -> list[Outgoing]:
        """A share of this party's vector to each of the K + 1 participants (step 3)."""
        bits = self.terms.modulus_bits
        shares = split_vector(self._contribution, self.terms.parties + 1, bits, self._randomness)
        self._kept = shares[self.number]
        return [
            Reshare(tuple(shares[number]), bits).send(self._session, self.number, number)
            for number in self._everyone()
            if number != self.number
        ]

    def publish(self) -> list[Outgoing]:
        """The sum of all shares received: this party's share of K w_s. Raises PartyVanishedError, ShareRangeError."""
        others = [number for number in self._everyone() if number != self.number]
        received = self._inbox.take(Step.RESHARE, others)
        shares = [list(Reshare.decode(body, self.terms).values) for body in received.values()]
        total = add_shares([self._kept, *shares], self.terms.modulus_bits)
        message = PublishedShare(tuple(total), self.terms.modulus_bits)
        return [message.send(self._session, self.number, CONSUMERS)]

    # -- for simulations

    def clear_values(self) -> tuple[int, list[int], list[list[int]]]:
        """(size, parameters, noise vectors) in the clear: for checking a simulated run, and for nothing else."""
        return self._size, self._parameters, self._noise

    def __repr__(self) -> str:
        return f"<PathakParty {self.number} of {self.terms.parties}, {self.terms.variant}>"
