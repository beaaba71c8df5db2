"""Charlie, the curator in Pathak, Rane and Raj (2010), section 3, in the order of the protocol; and the consumer.

He finds the place of the smallest data set under a permutation that he does not know, returns it encrypted under his
own key, decrypts the masked noise, and takes part in the resharing. What he sees: uniform shares, the outcomes of
comparisons of sizes in an order that means nothing to him, and noise under a mask.
"""

from __future__ import annotations

import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from psephos.protocol.errors import DataError, InvalidParameter, MessageError, ShareRangeError
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.keys import PublicKey
from psephos.protocol.paillier.private_key import PrivateKey
from psephos.protocol.pathak.comparison import Answer, Asker
from psephos.protocol.pathak.dgk import DgkPrivateKey
from psephos.protocol.pathak.messages import (
    CONSUMERS,
    CURATOR,
    KEYED_SIZE_BITS,
    MASK_BITS,
    SHARE_BITS,
    Answers,
    GroupKey,
    Inbox,
    IndexedShare,
    MaskedNoise,
    MaskedShare,
    Opponents,
    Outgoing,
    Proposal,
    PublishedShare,
    Questions,
    Reshare,
    Selection,
    Step,
    Terms,
    check_room,
)
from psephos.protocol.pathak.resharing import add_shares, open_shares, split_vector
from psephos.protocol.permutation import inverse, permute, random_permutation
from psephos.protocol.randomness import SYSTEM, Randomness

__all__ = ["PathakConsumer", "PathakCurator"]


class PathakCurator:
    """Charlie. `repr` shows nothing of his keys."""

    def __init__(
        self,
        terms: Terms,
        private_key: PrivateKey,
        comparison_key: DgkPrivateKey,
        *,
        test_key: bool = False,
        randomness: Randomness = SYSTEM,
    ) -> None:
        """`private_key` is sk' of zeta, `comparison_key` serves the comparisons; both are his alone.

        Raises InvalidParameter for a key with no room for the masked shares or the comparisons, PackingError for one
        with no room for the noise.
        """
        check_room(private_key.public_key)
        if comparison_key.public_key.largest_comparison < KEYED_SIZE_BITS:
            raise InvalidParameter(f"the comparison key must have room for {KEYED_SIZE_BITS} bits")
        self.terms = terms
        self._key, self._comparison_key = private_key, comparison_key
        self._test_key, self._randomness = test_key, randomness
        self._session = terms.digest
        self._inbox = Inbox(CURATOR, terms.parties, self._session)
        self._plan = terms.plan(private_key.public_key)
        self._parties = range(1, terms.parties + 1)

    def receive(self, data: bytes) -> None:
        """Take in a message; raises MessageError or UnexpectedMessageError."""
        self._inbox.accept(data)

    # -- agreement

    def propose(self) -> list[Outgoing]:
        """The terms and his public keys, to every party."""
        proposal = Proposal(self.terms, self._key.public_key, self._comparison_key.public_key)
        return [proposal.send(self._session, CURATOR, number) for number in self._parties]

    # -- stage 1

    def blind_and_permute(self) -> list[Outgoing]:
        """xi(pi_1(a) + r) and pi_1(b) - r, both permuted by pi_2; the first goes to the parties in order (step 4).

        Raises PartyVanishedError, AgreementError (a party under another group key), ShareRangeError, CiphertextError,
        InvalidParameter (a group key with no room for the masked shares), WeakKeyError.
        """
        group_key = GroupKey.decode(self._inbox.take(Step.GROUP_KEY, [1])[1], test_key=self._test_key).key
        check_room(group_key)
        own = self._key.public_key
        encrypted, rests = [], []
        for number, body in self._inbox.take(Step.INDEXED_SHARE, self._parties).items():
            share = IndexedShare.decode(body, group_key, own, number)
            encrypted.append(share.encrypted)
            rest = self._key.raw_decrypt(share.sealed) - (1 << SHARE_BITS)
            if not -(1 << SHARE_BITS) < rest < 1 << KEYED_SIZE_BITS:
                raise ShareRangeError(f"the sealed share at place {number} lies outside its range")
            rests.append(rest)
        masks = [self._randomness.bits(MASK_BITS) - (1 << (MASK_BITS - 1)) for _ in self._parties]
        n, modulus = group_key.modulus, group_key.modulus_squared
        masked = [c * (1 + r % n * n) % modulus for c, r in zip(encrypted, masks, strict=True)]
        # The parties own this key and know the randomness that went in.
        fresh = Encryptor(group_key, "full", randomness=self._randomness).rerandomize(masked)
        self._permutation = random_permutation(self.terms.parties, self._randomness)
        self._rests = permute(self._permutation, [b - r for b, r in zip(rests, masks, strict=True)])
        self._standing = list(range(self.terms.parties))
        self._lost: set[int] = set()
        return [
            MaskedShare(group_key, (c,)).send(self._session, CURATOR, place + 1)
            for place, c in enumerate(permute(self._permutation, fresh))
        ]

    def ask(self, turn: int) -> list[Outgoing]:
        """The comparisons of one turn, or nothing when the smallest is found (step 6).

        A tournament pairs those still standing; all pairs, as printed, are one turn. All comparisons of a turn travel
        together: one message to and one from each party concerned, whatever their number.
        """
        if len(self._standing) == 1:
            return []
        self._pairs = self._pairings()
        rests = self._rests
        self._asker = Asker(self._comparison_key, bits=KEYED_SIZE_BITS, randomness=self._randomness)
        questions = self._asker.ask([rests[other] - rests[place] for place, other in self._pairs])
        outgoing: list[Outgoing] = []
        public = self._comparison_key.public_key
        for place in range(self.terms.parties):
            asked = [(other + 1, q) for (first, other), q in zip(self._pairs, questions, strict=True) if first == place]
            lenders = sorted(first + 1 for first, other in self._pairs if other == place)
            if asked:
                opponents, bits = zip(*asked, strict=True)
                outgoing.append(Questions(opponents, bits, public).send(self._session, CURATOR, place + 1, turn))
            if lenders:
                outgoing.append(Opponents(tuple(lenders)).send(self._session, CURATOR, place + 1, turn))
        return outgoing

    def _pairings(self) -> list[tuple[int, int]]:
        """(who answers, whose share it borrows), sorted."""
        standing = self._standing
        if self.terms.comparisons == "tournament":
            return list(zip(standing[0::2], standing[1::2], strict=False))
        # The parity spreads the answering evenly.
        return sorted((i, j) if (i + j) % 2 else (j, i) for i in standing for j in standing if i < j)

    def conclude(self, turn: int) -> None:
        """Take in the answers of one turn. Raises PartyVanishedError, MessageError, CiphertextError."""
        answering = sorted({place for place, _ in self._pairs})
        bodies = self._inbox.take(Step.ANSWERS, [place + 1 for place in answering], turn)
        answers: list[Answer] = []
        for place in answering:
            count = sum(first == place for first, _ in self._pairs)
            answers += Answers.decode(bodies[place + 1], self._comparison_key.public_key, count).answers
        not_smaller = self._asker.conclude(answers)
        for (place, other), larger in zip(self._pairs, not_smaller, strict=True):
            self._lost.add(place if larger else other)
        self._standing = [place for place in self._standing if place not in self._lost]
        if not self._standing or (self.terms.comparisons == "all-pairs" and len(self._standing) != 1):
            raise MessageError("the comparisons contradict each other: no party has the smallest data set")

    # -- stage 2

    def select(self) -> list[Outgoing]:
        """zeta of the indicator of the smallest, with pi_2 undone, to every party (step 1)."""
        indicator = [mpz(place == self._standing[0]) for place in range(self.terms.parties)]
        undone = permute(inverse(self._permutation), indicator)
        key: PublicKey = self._key.public_key
        mode = "half" if key.form == "psephos" else "full"
        encryptor = Encryptor(key, mode, randomness=self._randomness, expected=len(undone))  # type: ignore[arg-type]
        selection = Selection(key, encryptor.encrypt(undone))
        return [selection.send(self._session, CURATOR, number) for number in self._parties]

    # -- stage 3

    def unmask(self) -> None:
        """Decrypt eta + s (step 2). Raises PartyVanishedError, CiphertextError, PackingError."""
        key = self._key.public_key
        received = MaskedNoise.decode(self._inbox.take(Step.MASKED_NOISE, [1])[1], key, self._plan.ciphertexts)
        self._contribution = self._plan.unpack([self._key.raw_decrypt(c) for c in received.ciphertexts], 1)

    def reshare(self) -> list[Outgoing]:
        """A share of his vector to each party (step 3)."""
        bits = self.terms.modulus_bits
        shares = split_vector(self._contribution, self.terms.parties + 1, bits, self._randomness)
        self._kept = shares[CURATOR]
        return [Reshare(tuple(shares[n]), bits).send(self._session, CURATOR, n) for n in self._parties]

    def publish(self) -> list[Outgoing]:
        """His share of K w_s. Raises PartyVanishedError, ShareRangeError."""
        received = self._inbox.take(Step.RESHARE, self._parties)
        shares = [list(Reshare.decode(body, self.terms).values) for body in received.values()]
        total = add_shares([self._kept, *shares], self.terms.modulus_bits)
        return [PublishedShare(tuple(total), self.terms.modulus_bits).send(self._session, CURATOR, CONSUMERS)]

    def __repr__(self) -> str:
        return f"<PathakCurator of {self.terms.parties} parties, {self.terms.variant}>"


class PathakConsumer:
    """Dave (section 3.3): adds the published shares, divides by K, classifies. Anybody can be he."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self._inbox = Inbox(CONSUMERS, terms.parties, terms.digest)

    def receive(self, data: bytes) -> None:
        """Take in a published share; raises MessageError or UnexpectedMessageError."""
        self._inbox.accept(data)

    def open(self) -> NDArray[np.float64]:
        """w_s, float64 of shape (d,). Raises PartyVanishedError when a share is missing, ShareRangeError."""
        everyone = range(self.terms.parties + 1)
        published = self._inbox.take(Step.PUBLISHED_SHARE, everyone)
        shares = [PublishedShare.decode(body, self.terms).values for body in published.values()]
        self.total = open_shares(shares, self.terms.modulus_bits)
        """K w_s in integer units of the grid."""
        return np.array(self.total, dtype=np.float64) * (self.terms.pitch / self.terms.parties)

    @staticmethod
    def classify(w: NDArray[np.float64], samples: NDArray[np.float64]) -> NDArray[np.int64]:
        """Labels 0/1, int64 (N,), of samples (N, d): 1 where the sigmoid of w . x exceeds 1/2, that is w . x > 0.

        Section 3.3. Raises DataError when the samples are no matrix of as many columns as `w`, (d,), has entries.
        """
        if samples.ndim != 2 or samples.shape[1] != len(w):
            raise DataError(f"samples of shape {samples.shape} do not fit {len(w)} parameters")
        return (samples @ w > 0).astype(np.int64)
