"""A data owner in an encrypted sum: it trains on its own data, posts one encrypted ballot, and may then leave.

The local classifier is a black box, as in Hamm 2016, section 3.1; the messages are in docs/protocols/tally.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

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
from psephos.protocol.paillier.encryption import Encryptor, Randomizers
from psephos.protocol.paillier.packing import IntegerVector
from psephos.protocol.roles import BOARD, Machine, Post, Step
from psephos.protocol.signing import SigningKey, VerificationKey
from psephos.protocol.storage.store import OnceLedger
from psephos.protocol.storage.values import storable

if TYPE_CHECKING:  # dp-accounting takes a second to load, and only a party with a budget needs it
    from psephos.protocol.privacy.accounting import Budget, PrivacyEvent

__all__ = ["Cast", "Party", "RoundParty", "VectorParty", "Voter", "VotingParty"]


class Voter(Protocol):
    """A local classifier of any kind, as a party needs it."""

    def predict_votes(self, X: NDArray[np.float64]) -> NDArray[np.integer]:
        """The class index in [0, K) that it votes for on each row of X, shape (N,)."""


class Party:
    """One data owner, across all rounds: its identity, its classifier, and what it has given away.

    Its samples and its classifier never leave it. What leaves is one signed ballot of ciphertexts a round, which a
    `RoundParty` posts.
    """

    def __init__(
        self,
        number: int,
        signing_key: SigningKey,
        *,
        classes: Sequence[Any] = (),
        voter: Voter | None = None,
        once: OnceLedger | None = None,
        budget: Budget | None = None,
    ) -> None:
        """
        Args:
            number: its place on the roster.
            signing_key: registered there before the round.
            classes: the K agreed classes, in the order of the counts; a party may have seen only some of them.
            voter: a classifier trained elsewhere; otherwise call `train`.
            once: where it remembers what it has sent; on disk wherever it can be restarted.
            budget: what it is willing to spend; a round is then joined only with the cost of its release stated.

        Raises InvalidParameter for a negative number, and for a voter without `predict_votes`.
        """
        if number < 0:
            raise InvalidParameter(f"a party is numbered by its place on the roster, from 0, not {number}")
        if voter is not None and not callable(getattr(voter, "predict_votes", None)):
            raise InvalidParameter(
                f"a voter has predict_votes(X), which returns class indices, and a {type(voter).__name__} has not: "
                "wrap it (docs/library.md), or give a scikit-learn classifier to train"
            )
        self.number = number
        self.classes = tuple(classes)
        self._signing_key = signing_key
        self._voter = voter
        self._once = OnceLedger() if once is None else once
        self._budget = budget

    @property
    def verification_key(self) -> VerificationKey:
        """What it registers before the round."""
        return self._signing_key.verification_key

    def train(self, X: ArrayLike, y: ArrayLike, classifier: Any = "logistic") -> Party:
        """Train a local classifier on this party's own samples.

        Args:
            X: float64 (n, d). y: labels (n,), each one of the agreed classes; some classes may be missing.
            classifier: a name of `psephos.parties.learners` or any scikit-learn classifier.

        Raises:
            DataError: no samples, infinite features, NaN that the classifier does not take, labels outside the agreed
                classes.
            NormError: for "logistic", a row longer than 1.
            InvalidParameter: fewer than two distinct classes, or no such classifier.
        """
        from psephos.parties.learners import make_learner  # scikit-learn takes a second, which only training needs

        self._voter = make_learner(classifier, classes=self.classes).fit(np.asarray(X), np.asarray(y))
        return self

    def votes(self, auxiliary: AuxiliarySet) -> NDArray[np.integer]:
        """What its classifier says of the auxiliary samples: class indices, shape (N,). A secret.

        Raises DataError when nothing was trained, or the classifier cannot vote on these samples.
        """
        if self._voter is None:
            raise DataError(f"party {self.number} has no classifier yet: call train first")
        return self._voter.predict_votes(auxiliary.samples)

    def ballot(  # wide: what was agreed, what is sent, how it is encrypted, what it costs  # long: all that is checked
        self,
        round_: Round,
        kind: RoundKind,
        context: bytes,
        values: IntegerVector,
        *,
        claim: bytes | None = None,
        encryptor: Encryptor | None = None,
        randomizers: Randomizers | None = None,
        costs: PrivacyEvent | None = None,
    ) -> bytes:
        """One encoded ballot; a `RoundParty` calls this.

        Args:
            round_: a round of that kind and context (32 bytes, as in `Round`).
            values: integers within the plan's range, as many as its length.
            claim: names what this party gives away once, in whatever round; None when that is accounted elsewhere.
                Asked again in the same round, it sends the same ballot again.
            encryptor: the randomness mode and source to use; `half` and the operating system's by default.
            randomizers: a pool of residues made before, so that encryption costs two multiplications a ciphertext.
            costs: what the release made of this round will cost, charged to the party's budget once.

        Raises:
            WrongRoundError: kind, context or the registered key differ from the round's.
            UnknownPartyError: the roster has no such party.
            WrongKeyError: an encryptor or a pool for another key.
            UnsuitableKeyError: no encryptor was given and the round's key is foreign, which takes one of mode `full`.
            InvalidParameter: this party has a budget and `costs` is not given.
            PackingError: values that the plan does not take.
            AlreadyCastError: this party has given that away before: the difference of two sums would be its vector.
            BudgetExceededError: the release would bring this party above its budget; nothing is spent then.
        """
        if round_.kind != kind:
            raise WrongRoundError(f"this is a round of {round_.kind}, and {kind} were to be sent")
        if round_.context != context:
            raise WrongRoundError(
                "the round is about another public input (auxiliary set, or order of the classes) than the one here"
            )
        if round_.verification_key(self.number) != self.verification_key:
            raise WrongRoundError(f"the roster has another key than that of party {self.number} in its place")
        encryptor = encryptor or Encryptor(round_.key, "half", expected=round_.plan.ciphertexts)
        if encryptor.key != round_.key:
            raise WrongKeyError(f"the encryptor is for {encryptor.key!r}, and the round's key is {round_.key!r}")
        vector, proof = encrypt_with_proof(round_, self.number, values, encryptor, randomizers)
        if self._budget is not None and costs is None:
            raise InvalidParameter(
                f"party {self.number} has a budget, so it must know what the release will cost: pass costs"
            )

        def signed() -> bytes:
            if self._budget is not None and costs is not None:
                self._budget.charge(costs)
            return Ballot.sign(round_, self.number, vector, self._signing_key, proof).encode()

        # Last before the ballot exists: what failed until here has used up nothing.
        if claim is None:
            return signed()
        try:
            return self._once.do_once(claim, round_.digest, signed)
        except AlreadyDoneError:
            done = "voted on this auxiliary set" if kind == "votes" else f"given its {kind} to a sum"
            raise AlreadyCastError(
                f"party {self.number} has {done} before; a second ballot would let the difference of two sums show its "
                f"{kind}"
            ) from None

    def __repr__(self) -> str:
        return f"<Party {self.number}>"


@storable
@dataclass(frozen=True)
class Cast:
    """The ballot is posted; `values` is what it holds, which is for its owner's eyes."""

    values: tuple[int, ...] = field(repr=False)


class RoundParty(Machine):
    """A party in one round, "party N": it posts one ballot and is done."""

    kind: RoundKind

    def __init__(
        self,
        party: Party,
        round_: Round,
        *,
        encryptor: Encryptor | None = None,
        randomizers: Randomizers | None = None,
        costs: PrivacyEvent | None = None,
    ) -> None:
        """`encryptor`, `randomizers`, `costs`: as in `Party.ballot`, whose errors `begin` raises."""
        self.party, self.round = party, round_
        self.name = f"party {party.number}"
        self._encryption: dict[str, Any] = {"encryptor": encryptor, "randomizers": randomizers, "costs": costs}

    def _posted(self, context: bytes, values: IntegerVector, claim: bytes | None) -> Step:
        ballot = self.party.ballot(self.round, self.kind, context, values, claim=claim, **self._encryption)
        return Step(Cast(tuple(map(int, values))), (Post(BOARD, ballot, f"{self.kind}: cast"),))

    def _result(self, state: Cast) -> tuple[int, ...]:
        """What the ballot holds: a secret, with which a simulation takes the sum in the clear."""
        return state.values


class VotingParty(RoundParty):
    """It votes on every auxiliary sample, once per auxiliary set."""

    kind = "votes"

    def __init__(self, party: Party, round_: Round, auxiliary: ArrayLike | AuxiliarySet, **encryption: Any) -> None:
        """`auxiliary`: the public samples, float64 (N, d); an `AuxiliarySet` is hashed once for many parties."""
        super().__init__(party, round_, **encryption)
        self._auxiliary = AuxiliarySet.of(auxiliary)

    def _start(self) -> Step:
        """Post the votes.

        Raises what `Party.ballot` and `Party.votes` do, and WrongRoundError for another auxiliary set than the round's.
        """
        public, classes = self._auxiliary, self.party.classes
        layout = VoteLayout(len(public.samples), len(classes))
        context = public.context(classes)
        if self.round.context == context and self.round.plan != layout.plan(self.round.key, self.round.plan.addends):
            raise WrongRoundError(
                f"the round's plan is not that of votes on {layout.samples} samples and {layout.classes} classes"
            )
        if self.round.proofs == "valid" and self.round.group != layout.classes - 1:
            raise WrongRoundError(
                f"the round lets a valid ballot have one vote per {self.round.group} entries, and a sample has "
                f"{layout.classes - 1}"
            )
        values = layout.encode(self.party.votes(public))
        return self._posted(context, values, _claim(b"votes cast", self.party, public.digest))


class VectorParty(RoundParty):
    """It adds an integer vector that was computed before, such as its parameters.

    An exact sum gets a party's parameters once, whatever it is called: the difference of two would be the parameters of
    whoever is in one of them only. Sums with noise in them may be asked for again, at their price: whoever calls
    accounts for that, or gives the party a budget.
    """

    def __init__(
        self, party: Party, round_: Round, kind: RoundKind, context: bytes, values: IntegerVector, **encryption: Any
    ) -> None:
        """`kind`, `context`, `values`: as in `Party.ballot`; raises InvalidParameter for votes, which are cast."""
        if kind == "votes":
            raise InvalidParameter("votes are cast by a VotingParty")
        super().__init__(party, round_, **encryption)
        self.kind = kind
        self._context, self._values = context, values

    def _start(self) -> Step:
        """Post the vector; raises what `Party.ballot` does."""
        claim = _claim(b"parameters given", self.party) if self.kind == "parameters" else None
        return self._posted(self._context, self._vector(), claim)

    def _vector(self) -> IntegerVector:
        return self._values


def _claim(what: bytes, party: Party, about: bytes = b"") -> bytes:
    return hashlib.sha256(b"psephos " + what + b"\0" + party.number.to_bytes(4, "big") + about).digest()
