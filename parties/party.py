"""A data owner in an encrypted sum: it trains on its own data, posts one encrypted ballot, and may then leave.

The local classifier is a black box, as in Hamm 2016, section 3.1.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psephos.protocol.encrypted_sum.messages import Ballot
from psephos.protocol.encrypted_sum.proofs import encrypt_with_proof
from psephos.protocol.encrypted_sum.rounds import Round, RoundKind
from psephos.protocol.encrypted_sum.votes import AuxiliarySet, VoteLayout
from psephos.protocol.errors import (
    AlreadyCastError,
    AlreadyDoneError,
    DataError,
    InvalidParameter,
    WrongKeyError,
    WrongRoundError,
)
from psephos.protocol.grids.vote_directions import are_probabilities
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.packing import IntegerVector
from psephos.protocol.roles import BOARD, Machine, Post, Step
from psephos.protocol.signing import SigningKey, VerificationKey
from psephos.protocol.storage.store import OnceLedger
from psephos.protocol.storage.values import storable


class Voter(Protocol):
    """Interface of a local classifier, of any kind."""

    def predict_votes(self, X: NDArray[np.float64]) -> NDArray[np.integer]:
        """Return the class index in [0, K) that it votes for on each row of X, shape (N,)."""


def checked_voter(voter: Any) -> Voter:
    """Return a classifier that votes; raises InvalidParameter for an object that has no votes."""
    if not callable(getattr(voter, "predict_votes", None)):
        raise InvalidParameter("voter needs a method predict_votes(X) that returns class indices (docs/library.md)")
    checked: Voter = voter
    return checked


def labels_of(voter: Voter, X: NDArray[np.float64], classes: int) -> NDArray[Any]:
    """Return a classifier's `predict_probabilities(X)`, (N, K), if it has valid ones, otherwise its votes (N,)."""
    # Whether they are valid depends on private rows, and must not decide whether the party takes part.
    predict = getattr(voter, "predict_probabilities", None)
    probabilities = predict(X) if callable(predict) else None
    if probabilities is not None and are_probabilities(probabilities, (len(X), classes)):
        return np.asarray(probabilities, dtype=np.float64)
    return voter.predict_votes(X)


class Party:
    """One data owner, across all rounds: its identity, its classifier, and the ledger of what it has sent."""

    def __init__(
        self,
        number: int,
        signing_key: SigningKey,
        *,
        classes: Sequence[Any] = (),
        voter: Voter | None = None,
        once: OnceLedger | None = None,
    ) -> None:
        """Create a party.

        Args:
            number: its place on the roster, from 0.
            signing_key: its key, registered on the roster before the round.
            classes: the K agreed classes, in the order of the counts; its own data may contain only some of them.
            voter: a classifier trained elsewhere; otherwise call `train`.
            once: ledger of what it has sent; on disk where the party can be restarted.
        """
        if number < 0:
            raise InvalidParameter(f"number is a place on the roster, from 0; it cannot be {number}")
        self.number = number
        self.classes = tuple(classes)
        self._signing_key = signing_key
        self._voter = None if voter is None else checked_voter(voter)
        self._once = OnceLedger() if once is None else once

    @property
    def verification_key(self) -> VerificationKey:
        return self._signing_key.verification_key

    def train(self, X: ArrayLike, y: ArrayLike, classifier: Any = "logistic") -> Party:
        """Train a local classifier on this party's own samples (n, d) and labels (n,), some classes may be missing.

        The classifier is a name of `psephos.parties.learners` or any scikit-learn classifier. Raises DataError, or
        NormError for a row of norm above 1 and "logistic".
        """
        from psephos.parties.learners import make_learner  # imported here because scikit-learn takes a second to load

        self._voter = make_learner(classifier, classes=self.classes).fit(np.asarray(X), np.asarray(y))
        return self

    def _trained(self) -> Voter:
        if self._voter is None:
            raise DataError(f"party {self.number} has no classifier; call train first")
        return self._voter

    def votes(self, auxiliary: AuxiliarySet) -> NDArray[np.integer]:
        """Return its classifier's votes on the auxiliary samples, (N,). A secret. Raises DataError without one."""
        return self._trained().predict_votes(auxiliary.samples)

    def ballot(  # long: all that is checked
        self,
        round_: Round,
        kind: RoundKind,
        context: bytes,
        values: IntegerVector,
        *,
        claim: bytes | None = None,
        encryptor: Encryptor | None = None,
    ) -> bytes:
        """Encrypt, prove and sign one ballot. A `RoundParty` calls this.

        Args:
            round_: the round; raises WrongRoundError unless kind, context and registered key are its own.
            kind, context: what is summed, and its public input.
            values: integers within the plan's range, as many as its length.
            claim: identifier of a value that this party may send in one round only (AlreadyCastError); None when its
                cost is accounted elsewhere. A second call in the same round returns the same ballot.
            encryptor: randomness mode and source; by default `half` and the operating system's.
        """
        if round_.kind != kind:
            raise WrongRoundError(f"the round sums {round_.kind}, not {kind}; join a round of kind {kind!r}")
        if round_.context != context:
            raise WrongRoundError("the round is about another auxiliary set or order of classes than this party's")
        if round_.verification_key(self.number) != self.verification_key:
            raise WrongRoundError(f"the roster has another key for party {self.number} than its own; register it again")
        encryptor = encryptor or Encryptor(round_.key, "half", expected=round_.plan.ciphertexts)
        if encryptor.key != round_.key:
            raise WrongKeyError(f"the encryptor is for {encryptor.key!r}, not for the round's key {round_.key!r}")
        vector, proof = encrypt_with_proof(round_, self.number, values, encryptor)

        def signed() -> bytes:
            return Ballot.sign(round_, self.number, vector, self._signing_key, proof).encode()

        # The last step, so that an error before it does not use up the claim.
        if claim is None:
            return signed()
        try:
            return self._once.do_once(claim, round_.digest, signed)
        except AlreadyDoneError:
            done = "voted on this auxiliary set" if kind == "votes" else f"sent its {kind} to a sum"
            raise AlreadyCastError(
                f"party {self.number} has already {done}; with a second ballot, the difference of two sums would "
                f"disclose its {kind}"
            ) from None


@storable
@dataclass(frozen=True)
class BallotCast:
    """The ballot is posted; `values` is its content, a secret of the party."""

    values: tuple[int, ...] = field(repr=False)


class RoundParty(Machine):
    """Base of a party's role in one round, "party N": it posts one ballot."""

    def __init__(self, party: Party, round_: Round, kind: RoundKind, context: bytes, **encryption: Any) -> None:
        """Create the role; `encryption` has keywords of `Party.ballot`."""
        self.party, self.round, self.kind, self._context = party, round_, kind, context
        self.name, self._encryption = f"party {party.number}", encryption

    @abstractmethod
    def _vector(self) -> IntegerVector:
        """Return what the party adds to the sum."""

    def _claim(self) -> bytes | None:
        return None

    def _start(self) -> Step:
        values = self._vector()
        ballot = self.party.ballot(
            self.round, self.kind, self._context, values, claim=self._claim(), **self._encryption
        )
        return Step(BallotCast(tuple(map(int, values))), (Post(BOARD, ballot, f"{self.kind}: cast"),))

    def _result(self, state: BallotCast) -> tuple[int, ...]:
        return state.values


class VotingParty(RoundParty):
    """A party that votes on every auxiliary sample, once per auxiliary set."""

    def __init__(self, party: Party, round_: Round, auxiliary: ArrayLike | AuxiliarySet, **encryption: Any) -> None:
        self._auxiliary = AuxiliarySet.of(auxiliary)
        super().__init__(party, round_, "votes", self._auxiliary.context(party.classes), **encryption)

    def _vector(self) -> IntegerVector:
        round_, samples = self.round, len(self._auxiliary.samples)
        layout = VoteLayout(samples, len(self.party.classes))
        if round_.context == self._context and round_.plan != layout.plan(round_.key, round_.plan.addends):
            raise WrongRoundError(f"the round's plan does not fit votes on {samples} samples")
        if round_.proofs == "valid" and round_.group != layout.classes - 1:
            raise WrongRoundError(f"the round groups {round_.group} entries, and a sample has {layout.classes - 1}")
        return layout.encode(self.party.votes(self._auxiliary))

    def _claim(self) -> bytes:
        return _claim(b"votes cast", self.party, self._auxiliary.digest)


class VectorParty(RoundParty):
    """A party that adds an integer vector to the sum. Parameters go into one exact sum only."""

    def __init__(
        self,
        party: Party,
        round_: Round,
        kind: RoundKind,
        context: bytes,
        values: IntegerVector | Callable[[], IntegerVector],
        **encryption: Any,
    ) -> None:
        """Create the role; `values`: the vector, or what computes it when the role starts."""
        if kind == "votes":
            raise InvalidParameter("a VectorParty cannot send votes; use VotingParty")
        super().__init__(party, round_, kind, context, **encryption)
        self._values = values

    def _vector(self) -> IntegerVector:
        return self._values() if callable(self._values) else self._values

    def _claim(self) -> bytes | None:
        return _claim(b"parameters given", self.party) if self.kind == "parameters" else None


def _claim(what: bytes, party: Party, about: bytes = b"") -> bytes:
    return hashlib.sha256(b"psephos " + what + b"\0" + party.number.to_bytes(4, "big") + about).digest()
