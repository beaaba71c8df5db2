"""A key holder in one round of the encrypted sum.

It reads the same public board as the curator, multiplies the ballots itself, and partially decrypts that product and
nothing else, once per round and only with enough ballots in it (docs/protocols/tally.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from gmpy2 import mpz

from psephos.protocol.encrypted_sum.messages import Confirmation, NoiseBallot, PartialDecryption, TallyRequest
from psephos.protocol.encrypted_sum.product import BallotProduct, Observer, VoteClosed, VoteOpen
from psephos.protocol.encrypted_sum.proofs import encrypt_with_proof, prove_opening
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.errors import (
    AlreadyDoneError,
    AlreadyOpenedError,
    InvalidParameter,
    UnconfirmedError,
    UnexpectedMessageError,
    UnseenBallotError,
)
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.packing import IntegerVector
from psephos.protocol.paillier.threshold import KeyShare, check_same_ceremony
from psephos.protocol.randomness import SYSTEM, Randomness
from psephos.protocol.roles import BOARD, Entry, Post, Step, takes
from psephos.protocol.storage.store import OnceLedger
from psephos.protocol.storage.values import storable
from psephos.protocol.wire import Kind


@storable
@dataclass(frozen=True)
class HolderAnswered:
    """The holder has answered a request in this round, and can repeat the encoded partial decryption."""

    members: int = field(repr=False)
    columns: tuple[mpz, ...] = field(repr=False)
    request: TallyRequest
    answer: bytes = field(repr=False)


class KeyHolder(Observer):
    """A key holder's role in one round, "holder J"."""

    reads = frozenset({Kind.BALLOT, Kind.NOISE_BALLOT, Kind.CLOSE, Kind.CONFIRMATION, Kind.TALLY_REQUEST})

    def __init__(
        self,
        share: KeyShare,
        round_: Round,
        *,
        openings: OnceLedger | None = None,
        seen: BallotProduct | None = None,
        randomness: Randomness = SYSTEM,
        public: bool = False,
        noise: Callable[[], IntegerVector] | None = None,
    ) -> None:
        """Create the role.

        Args:
            share: of the round's key; raises WrongKeyError for one of another key or ceremony.
            round_: the round.
            openings: ledger of what it has posted, on disk where the holder can be restarted.
            seen: product of ballots that another process of this holder has multiplied.
            randomness: of the proof of a partial decryption, and of the encryption of its noise.
            public: post the answer on the board, where the sum is public, instead of sending it to the curator.
            noise: draws its share of the noise, `round_.plan.length` integers, where the round's holders add noise.
        """
        check_same_ceremony(round_.threshold_key, share.threshold_key)
        super().__init__(f"holder {share.holder}", round_, seen=seen)
        self.number = share.holder
        self._share = share
        self._openings = OnceLedger() if openings is None else openings
        self._randomness, self._public = randomness, public
        if (noise is not None) != round_.holder_noise:
            must = "must" if round_.holder_noise else "cannot"
            raise InvalidParameter(f"{self.name} {must} add noise in this round: give noise=, or leave it out")
        self._noise = noise

    def _start(self) -> Step:
        """Post its noise where the round's holders add it: once, and after a restart the same bytes."""
        step = super()._start()
        if self._noise is None:
            return step
        message = self._openings.do_once(b"noise" + self.round.digest, b"", partial(self._noise_ballot, self._noise))
        return replace(step, posts=(Post(BOARD, message, f"{self.round.kind}: cast"),))

    def _noise_ballot(self, noise: Callable[[], IntegerVector]) -> bytes:
        expected = self.round.plan.ciphertexts
        encryptor = Encryptor(self.round.key, "half", randomness=self._randomness, expected=expected)
        vector, proof = encrypt_with_proof(self.round, self.round.holder_place(self.number), noise(), encryptor)
        return NoiseBallot(self.round.digest, self.number, vector.ciphertexts, proof).encode(self.round)

    def closed(self, state: VoteClosed) -> Step:
        """Post a confirmation of the product, in a round with confirmations; raises AlreadyOpenedError."""
        seen = self.product(state)
        if not self.round.confirmations:
            return Step(state)
        confirmation = Confirmation(self.round.digest, self.number, seen.digest)
        try:
            message = self._openings.do_once(b"confirmed" + self.round.digest, seen.digest, confirmation.encode)
        except AlreadyDoneError:
            raise AlreadyOpenedError(
                f"{self.name} has confirmed another product of this round: two boards, or an old copy"
            ) from None
        return Step(state, (Post(BOARD, message, f"{self.round.kind}: confirm"),))

    @takes(VoteOpen, Kind.TALLY_REQUEST)
    @takes(VoteClosed, Kind.TALLY_REQUEST)
    def open(self, state: VoteOpen | VoteClosed, entry: Entry) -> Step:
        """Partially decrypt the product of the observed ballots, once: the answer is stored before it is sent."""
        request, seen = self._decode_request(entry), self.product(state)
        seen.check_minimum()
        self._check_confirmed(state, seen.digest)
        if unseen := request.members & ~seen.members:
            raise UnseenBallotError(f"{self.name} has not observed the ballot of {self._first_of(unseen)}")
        if left_out := seen.members & ~request.members:
            raise UnseenBallotError(f"the request leaves out the ballot of {self._first_of(left_out)}, which is valid")
        if request.product_digest != seen.digest:
            raise UnseenBallotError(f"the request is for another product than that of the ballots seen by {self.name}")

        def opened() -> bytes:
            ciphertexts = seen.vector().ciphertexts
            values = self._share.partially_decrypt(ciphertexts)
            proof = prove_opening(self.round, self._share, ciphertexts, values, randomness=self._randomness)
            return PartialDecryption(self.round.digest, self.number, seen.digest, values, proof).encode(self.round)

        try:
            answer = self._openings.do_once(self.round.digest, request.product_digest, opened)
        except AlreadyDoneError:
            raise self._refusal() from None
        return self._answer(HolderAnswered(state.members, state.columns, request, answer), entry)

    @takes(HolderAnswered, Kind.TALLY_REQUEST)
    def repeat(self, state: HolderAnswered, entry: Entry) -> Step:
        if self._decode_request(entry) != state.request:
            raise self._refusal()
        return self._answer(state, entry)

    @takes(HolderAnswered, Kind.BALLOT)
    @takes(HolderAnswered, Kind.NOISE_BALLOT)
    def refuse_ballot(self, state: HolderAnswered, entry: Entry) -> Step:
        raise self.lateness(entry)

    @takes(HolderAnswered, Kind.CONFIRMATION)
    def ignore_confirmation(self, state: HolderAnswered, entry: Entry) -> Step:
        """Change nothing: enough holders have confirmed the product."""
        return Step(state)

    def _first_of(self, members: int) -> str:
        return self.round.sender((members & -members).bit_length() - 1)

    def _decode_request(self, entry: Entry) -> TallyRequest:
        """Decode a request, which must come from the curator: answers are sealed to whoever asks."""
        if entry.sender != "curator":
            raise UnexpectedMessageError(f"{self.name}: {entry.sender} asks for the sum, which only the curator may do")
        return TallyRequest.decode(entry.data, self.round)

    def _check_confirmed(self, state: VoteOpen | VoteClosed, digest: bytes) -> None:
        agreed = len(state.agreeing(digest)) if isinstance(state, VoteClosed) else 0
        if agreed < self.round.confirmations:
            raise UnconfirmedError(f"{agreed} of {self.round.confirmations} holders confirmed the product")

    def _answer(self, state: HolderAnswered, entry: Entry) -> Step:
        receiver = BOARD if self._public else entry.sender
        return Step(state, (Post(receiver, state.answer, f"{self.round.kind}: open"),))

    def _refusal(self) -> AlreadyOpenedError:
        return AlreadyOpenedError(
            f"{self.name} has already opened another product of round {self.round.digest.hex()[:12]}"
        )

    def listens(self, state: Any) -> bool:
        return False

    def _result(self, state: Any) -> None:
        return
