"""A data owner in a counting round: it trains on its own data, casts one encrypted ballot, and may then leave.

The local classifier is a black box, as in Hamm 2016, section 3.1; the messages are in docs/protocols/tally.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psephos.parties.learners import make_learner
from psephos.protocol.encrypted_sum.messages import Ballot
from psephos.protocol.encrypted_sum.rounds import Round, RoundKind
from psephos.protocol.encrypted_sum.votes import AuxiliarySet, VoteLayout
from psephos.protocol.errors import AlreadyCastError, DataError, InvalidParameter, WrongKeyError, WrongRoundError
from psephos.protocol.paillier.encryption import Encryptor, Randomizers
from psephos.protocol.paillier.packing import IntegerVector
from psephos.protocol.paillier.vectors import EncryptedVector
from psephos.protocol.signing import SigningKey, VerificationKey
from psephos.protocol.storage.ledger import OnceLedger

if TYPE_CHECKING:  # dp-accounting takes a second to load, and only a party with a budget needs it
    from psephos.protocol.privacy.accounting import Budget, PrivacyEvent

__all__ = ["Party", "Voter"]


class Voter(Protocol):
    """A local classifier of any kind, as a party needs it."""

    def predict_votes(self, X: NDArray[np.float64]) -> NDArray[np.integer]:
        """The class index in [0, K) that it votes for on each row of X, shape (N,)."""


class Party:
    """One data owner.

    Its samples and its classifier never leave it. What leaves is one signed ballot of ciphertexts a round.
    """

    def __init__(
        self,
        number: int,
        signing_key: SigningKey,
        *,
        classes: Sequence[Any],
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
            once: where it remembers the auxiliary sets it has voted on, and that it gave its parameters to an exact
                sum; on disk wherever it can be restarted.
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
            DataError: no samples, NaN or infinite features, labels outside the agreed classes.
            NormError: for "logistic", a row longer than 1.
            InvalidParameter: fewer than two distinct classes, or no such classifier.
        """
        self._voter = make_learner(classifier, classes=self.classes).fit(np.asarray(X), np.asarray(y))
        return self

    def cast(
        self,
        round_: Round,
        auxiliary: ArrayLike | AuxiliarySet,
        *,
        encryptor: Encryptor | None = None,
        randomizers: Randomizers | None = None,
        costs: PrivacyEvent | None = None,
    ) -> Ballot:
        """One ballot: this party's vote on every auxiliary sample, packed, encrypted and signed.

        Args:
            round_: a round of kind "votes" over this auxiliary set.
            auxiliary: the public samples, float64 (N, d); an `AuxiliarySet` is hashed once for many parties.
            encryptor: the randomness mode and source to use; `half` and the operating system's by default.
            randomizers: a pool of residues made before, so that casting costs two multiplications a ciphertext.
            costs: what the release made of this round will cost, charged to the party's budget.

        Raises:
            WrongRoundError: another kind of round, another auxiliary set than the round's, another key.
            UnknownPartyError: the roster has no such party.
            WrongKeyError: an encryptor or a pool for another key.
            UnsuitableKeyError: no encryptor was given and the round's key is foreign, which takes one of mode `full`.
            InvalidParameter: this party has a budget and `costs` is not given.
            DataError: the classifier cannot vote on these samples, or nothing was trained.
            AlreadyCastError: this party has voted on this auxiliary set before, in whatever round: the difference of
                two counts would be its votes.
            BudgetExceededError: the release would bring this party above its budget; nothing is spent then.
        """
        if self._voter is None:
            raise DataError(f"party {self.number} has no classifier yet: call train first")
        public = AuxiliarySet.of(auxiliary)
        layout = VoteLayout(len(public.samples), len(self.classes))
        self._check_round(round_, "votes", public.context(self.classes))
        if round_.plan != layout.plan(round_.key, round_.plan.addends):
            raise WrongRoundError(
                f"the round's plan is not that of votes on {layout.samples} samples and {layout.classes} classes"
            )
        votes = layout.encode(self._voter.predict_votes(public.samples))
        vector = self._encrypt(round_, votes, encryptor, randomizers)
        self._check_budget(costs)
        # Last before the ballot exists: what failed until here has used up nothing.
        if not self._once.claim(_votes_claim(self.number, public.digest)):
            raise AlreadyCastError(
                f"party {self.number} has voted on this auxiliary set before; a second ballot would let the difference "
                "of two counts show its votes"
            )
        self._charge(costs)
        return Ballot.sign(round_, self.number, vector, self._signing_key)

    def contribute(
        self,
        round_: Round,
        kind: RoundKind,
        context: bytes,
        values: IntegerVector,
        *,
        encryptor: Encryptor | None = None,
        randomizers: Randomizers | None = None,
        costs: PrivacyEvent | None = None,
    ) -> Ballot:
        """One ballot with any other integer vector of the round's plan (parameters, a statistic, a gradient).

        An exact sum gets a party's parameters once, whatever it is called: the difference of two would be the
        parameters of whoever is in one of them only. Sums with noise in them (a statistic, gradients) may be asked for
        again, at their price: whoever calls accounts for that, or gives the party a budget.

        Args:
            round_: a round of that kind and context.
            context: 32 bytes, as in `Round`.
            values: integers within the plan's range, as many as its length.
            encryptor, randomizers, costs: as in `cast`.

        Raises:
            InvalidParameter: `kind` is "votes"; or this party has a budget and `costs` is not given.
            WrongRoundError: kind, context or the registered key differ from the round's.
            UnknownPartyError: the roster has no such party.
            WrongKeyError, UnsuitableKeyError: as in `cast`.
            PackingError: values that the plan does not take.
            AlreadyCastError: this party has given its parameters before.
            BudgetExceededError: the release would bring this party above its budget; nothing is spent then.
        """
        if kind == "votes":
            raise InvalidParameter("votes are cast, not contributed: call cast")
        self._check_round(round_, kind, context)
        vector = self._encrypt(round_, values, encryptor, randomizers)
        self._check_budget(costs)
        if kind == "parameters" and not self._once.claim(_parameters_claim(self.number)):
            raise AlreadyCastError(
                f"party {self.number} has given its parameters to a sum before; a second sum would let the difference "
                "show them"
            )
        self._charge(costs)
        return Ballot.sign(round_, self.number, vector, self._signing_key)

    def _check_budget(self, costs: PrivacyEvent | None) -> None:
        if self._budget is None:
            return
        if costs is None:
            raise InvalidParameter(
                f"party {self.number} has a budget, so it must know what the release will cost: pass costs"
            )
        self._budget.check(costs)

    def _charge(self, costs: PrivacyEvent | None) -> None:
        if self._budget is not None and costs is not None:
            self._budget.charge(costs)

    def _check_round(self, round_: Round, kind: RoundKind, context: bytes) -> None:
        if round_.kind != kind:
            raise WrongRoundError(f"this is a round of {round_.kind}, and {kind} were to be sent")
        if round_.context != context:
            raise WrongRoundError(
                "the round is about another public input (auxiliary set, or order of the classes) than the one here"
            )
        if round_.verification_key(self.number) != self.verification_key:
            raise WrongRoundError(f"the roster has another key than that of party {self.number} in its place")

    def _encrypt(
        self, round_: Round, values: IntegerVector, encryptor: Encryptor | None, randomizers: Randomizers | None
    ) -> EncryptedVector:
        encryptor = encryptor or Encryptor(round_.key, "half", expected=round_.plan.ciphertexts)
        if encryptor.key != round_.key:
            raise WrongKeyError(f"the encryptor is for {encryptor.key!r}, and the round's key is {round_.key!r}")
        return EncryptedVector.encrypt(encryptor, round_.plan, values, randomizers)

    def __repr__(self) -> str:
        return f"<Party {self.number}>"


def _votes_claim(party: int, context: bytes) -> bytes:
    return hashlib.sha256(b"psephos votes cast\0" + party.to_bytes(4, "big") + context).digest()


def _parameters_claim(party: int) -> bytes:
    return hashlib.sha256(b"psephos parameters given\0" + party.to_bytes(4, "big")).digest()
