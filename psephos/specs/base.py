"""What a protocol's specification is: its terms, its roles and its release.

A specification holds public values only. `Spec.terms` derives what everybody agrees on from the holders' key and the
participants; `party`, `holder` and `curator` make one role each under these terms; `release` turns the curator's result
into a classifier and its cost (docs/design.md, section 2).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from psephos.curator.ledger import Release
from psephos.curator.tally import Tally
from psephos.parties.holder import KeyHolder
from psephos.parties.noise import Shares
from psephos.parties.party import Party, RoundParty, VectorParty
from psephos.parties.statistic import with_share
from psephos.progress import Progress, silent
from psephos.protocol.encrypted_sum.opened import SumReader
from psephos.protocol.encrypted_sum.product import BallotProduct
from psephos.protocol.encrypted_sum.rounds import Proofs, Round, RoundKind, safe_confirmations
from psephos.protocol.errors import InvalidParameter, StudyError
from psephos.protocol.grids.record import NumericLabel
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.keys import PublicKey
from psephos.protocol.paillier.packing import IntegerVector, PackingPlan, best_degree
from psephos.protocol.paillier.threshold import KeyShare, ThresholdKey
from psephos.protocol.proofs.bounded import BoundedLayout, bounded_plan
from psephos.protocol.proofs.validity import Layout
from psephos.protocol.randomness import SYSTEM, Randomness
from psephos.protocol.roles import PublicReader, Role
from psephos.protocol.signing import SigningKey, VerificationKey
from psephos.protocol.storage.store import OnceLedger
from psephos.protocol.study.study import Study
from psephos.specs.secrets import Secret
from psephos.specs.terms import PrivacyTerms, PublicTerms, value_of

Array = NDArray[np.float64]
Rows = tuple[Array, NDArray[np.int64]]
"""A party's own rows: samples, float64 (n, d), and their class numbers, int64 (n,). Secrets."""

VOTES_SENT = "Each party trains a classifier on its own rows and votes with it on the samples."
PARAMETERS_SENT = "Each party trains a classifier on its own rows and sends its parameters."
OWN_SENT = {
    "own-data": "Each party sends the direction in which its own rows differ by class.",
    "whitened": "Each party sends the direction of a linear classifier that it trains on its own rows.",
}

Owner = Callable[..., Party]
"""Makes the data owner for which a role acts; keywords: the classes and the voter of one that votes."""


class Coins(NamedTuple):
    """The randomness of a party's noise, and the mode and randomness of its encryption (the role's own where None)."""

    randomness: Randomness
    encryptor: Encryptor | None


class RoleMeans(TypedDict, total=False):
    """What a role has on its machine.

    ledger: where it remembers what it may do once; on disk wherever it can be restarted. encryptor: of a party, as in
    `Coins`. randomness: of a party's noise, of a holder's proofs. public: whether a holder answers on the board instead
    of to the curator alone.
    """

    ledger: OnceLedger | None
    encryptor: Encryptor | None
    randomness: Randomness
    public: bool


@dataclass(frozen=True)
class Participants:
    """Who takes part in a run, and under which conditions a sum is opened.

    Attributes:
        roster: the parties' verification keys; a party's number is its place here.
        minimum_ballots: holders open no sum of fewer; None stands for half of the parties.
        test_key: whether a key under 2048 bits is accepted.
        proofs: what every ballot must prove.
        confirmations: as in `Round`.
        nonce: (the holders' key, what the nonce is for) -> 16 bytes; fresh ones by default.
    """

    roster: Sequence[VerificationKey] = field(repr=False)
    minimum_ballots: int | None = None
    test_key: bool = False
    proofs: Proofs = "none"
    confirmations: int = 0
    nonce: Callable[[ThresholdKey | None, str], bytes] = field(default=lambda key, about: SYSTEM.draw(16), repr=False)


class VectorFormat(NamedTuple):
    """The vectors that parties encrypt: their length, and the smallest and largest integer in them."""

    length: int
    minimum: int
    maximum: int


class Expectation(NamedTuple):
    """Whether an answer is worth its cost, why, in a sentence, and what would change that, besides epsilon."""

    useful: bool
    words: str
    changes: tuple[str, ...] = ()


class Spec(ABC):
    """One protocol under public values that its constructor is given.

    Attributes:
        methods: what a study can release from it.
        parameters: names of a study's parameters with their defaults; a type in place of a default makes the parameter
            required.
        summand: what is added up, as a noun phrase for the help of `psephos study new`.
        sends: a sentence about what each party sends, by method.
        samples_are: what the public samples are used for besides defining the columns, as a verb phrase, by method.
        joint: whether the parties add the noise. What is released is then a function of what they have sent.
        opens: a noisy sum; or the exact one, of votes or of other vectors, where the curator adds the noise.
        unit: the unit of privacy: "party" or "record".
        secrets: what must not leak; an audit tests each of them (`psephos.audit`).
        linear: whether a party's classifier must be linear, since its parameters are summed.
        keyed: whether key holders open sums; otherwise there is no key.
        numeric: whether the label is always a number.
        evaluates: whether a public model is evaluated, which a study states.
        states_sizes: whether the number of each party's rows is public, so that a record can only be replaced.
        one_release: whether a study with a delta is one release with Gaussian noise, the least that is private.
        checks_plan: from when on a study's plan is computed again from its public rows: by `psephos verify`, or at
            `psephos join`.
    """

    methods: ClassVar[tuple[str, ...]]
    parameters: ClassVar[Mapping[str, Any]] = {}
    summand: ClassVar[str]
    sends: ClassVar[Mapping[str, str]]
    samples_are: ClassVar[Mapping[str, str]] = {}
    joint: ClassVar[bool] = True
    opens: ClassVar[Literal["noisy", "counts", "sum"]] = "noisy"
    unit: ClassVar[str] = "party"
    secrets: ClassVar[tuple[Secret, ...]]
    linear: ClassVar[bool] = False
    keyed: ClassVar[bool] = True
    numeric: ClassVar[bool] = False
    evaluates: ClassVar[bool] = False
    states_sizes: ClassVar[bool] = False
    one_release: ClassVar[bool] = True
    checks_plan: ClassVar[Literal["", "verify", "join"]] = ""

    @classmethod
    @abstractmethod
    def plan(cls, public: PublicTerms, privacy: PrivacyTerms, progress: Progress = silent) -> Self:
        """Return the specification that follows from public values.

        Args:
            public: what everybody knows, and what was agreed on in place of what a rule gives.
            privacy: what is protected, and against whom.
            progress: called with the steps of a long computation.

        Raises:
            InvalidParameter: the terms cannot be used.
            DataError: the public samples do not suffice.
            NoGainError: a release is not expected to be better than what the public samples alone give.
        """

    def stated(self) -> dict[str, Any]:
        """Return what a study states of the plan, so that all members have the same bits; matrices as arrays.

        `plan` of the same public values with these parameters as `agreed` is this specification.
        """
        return {}

    def check_study(self, study: Study) -> None:
        """Raise StudyError where other terms of a study do not fit its plan."""
        if "dropouts" not in self.parameters:
            return
        dropouts = value_of(study, self.parameters, "dropouts")
        if study.minimum_ballots < (fewest := len(study.roster) - dropouts):
            raise StudyError(
                f"with dropouts={dropouts} a sum is opened of {fewest} ballots or more, and the minimum of ballots is "
                f"{study.minimum_ballots}: raise the minimum or dropouts"
            )

    def expected(self, public: PublicTerms) -> Expectation | None:
        """Return what the answer is expected to be worth, from public values; None where simulated runs decide."""
        return None

    @classmethod
    def contribution(cls, study: Study) -> str:
        """Return one sentence about what each party of a study sends."""
        return cls.sends[study.method]

    @classmethod
    def has_gaussian_noise(cls, study: Study) -> bool:
        """Return whether a study is one release with Gaussian noise, the least that its epsilon and delta allow."""
        return cls.one_release and study.delta > 0

    @property
    def takes_classifier(self) -> bool:
        """Whether a party brings a trained classifier; otherwise it brings its rows."""
        return False

    @property
    def numeric_label(self) -> NumericLabel | None:
        """How a number is predicted, where the label is one; None where it is a class."""
        return None

    def check_rows(self, number: int, rows: int) -> None:  # noqa: B027 - most protocols take any number of rows
        """Raise StudyError where party `number` cannot take part with so many rows."""

    @property
    def steps(self) -> int:
        """The number of sums that are opened one after the other."""
        return 1

    def prepare(self, own: Any) -> Any:
        """Return what `party` takes as `data`, of what a party brings: its classifier, or its `Rows`.

        A role is made again whenever its party's agent starts: of a sum, only a party that sends its vector reads them.
        """
        return own

    def best_degree(self, key_bits: int, parties: int) -> int:
        """Return the degree of the key under which the parties send fewest bytes."""
        return 1

    def check_proofs(self, key_bits: int, degree: int, parties: int) -> None:
        """Raise InvalidParameter where no proof shows that vectors under a key of this size are valid."""
        raise InvalidParameter("there is no proof that a message of this protocol is valid")

    @abstractmethod
    def terms(self, key: ThresholdKey | None, participants: Participants) -> Any:
        """Return what everybody agrees on before the first message."""

    @abstractmethod
    def party(self, number: int, signing_key: SigningKey, data: Any, terms: Any, **means: Unpack[RoleMeans]) -> Role:
        """Return the role of a data owner; `data`: its own, as `prepare` returns it. A secret."""

    @abstractmethod
    def holder(self, share: KeyShare, terms: Any, **means: Unpack[RoleMeans]) -> Role:
        """Return the role of the holder of a key share."""

    @abstractmethod
    def curator(self, terms: Any, *, randomness: Randomness = SYSTEM) -> Role:
        """Return the curator's role; its result is what `release` takes. `randomness`: of the nonces it draws."""

    @abstractmethod
    def reader(self, terms: Any, *, public: bool = False) -> PublicReader:
        """Return the role of anybody who reads the board and takes no part; `public`: as in `RoleMeans`."""

    @abstractmethod
    def cost(self, ballots: int) -> Release:
        """Return what a release of so many parties' data costs each of them, from public values only.

        Everybody can compute it, so nobody needs to believe the curator about it.
        """

    @abstractmethod
    def release(self, result: Any, randomness: Randomness = SYSTEM) -> tuple[Array, Release]:
        """Return the released linear classifier, (d,) or (K, d), and what it costs, of the curator's result.

        Where the parties add the noise (`joint`) the classifier is a function of the result alone.
        """

    def ballots(self, result: Any) -> int:
        return int(result.ballots)

    def summary(self, result: Any) -> str:
        """Return what the result says besides the classifier, in a sentence without its full stop; "" for nothing."""
        return ""


def key_of_size(bits: int, degree: int) -> PublicKey:
    """Return a number in place of a key, to find out whether a proof fits keys of this size."""
    return PublicKey((1 << bits) - 1, form="psephos", degree=degree)


class SumSpec(Spec):
    """A protocol of one encrypted sum of bounded integer vectors; its terms are a `Round`.

    Attributes:
        kind: what the vectors mean.
    """

    kind: ClassVar[RoundKind]

    @property
    def group(self) -> int:
        """How many consecutive entries add up to 0 or 1, for proofs that votes are valid."""
        return 1

    @property
    @abstractmethod
    def entries(self) -> VectorFormat:
        """The vectors that are summed."""

    @property
    @abstractmethod
    def context(self) -> bytes:
        """32 bytes that name the public input of the vectors."""

    @abstractmethod
    def vector(self, data: Any) -> IntegerVector:
        """Return what one party adds to the sum, without noise; `data`: as in `party`. A secret."""

    @property
    def party_shares(self) -> Shares | None:
        """The shares of the noise that the parties add to their vectors; None where they add none."""
        return None

    def role(self, owner: Owner, data: Any, terms: Round, coins: Coins) -> RoundParty:
        """Return the role of a data owner, which `owner` makes; `data`, `terms`: as in `party`."""
        vector = partial(self._noisy, data, coins.randomness)
        return VectorParty(owner(), terms, self.kind, self.context, vector, encryptor=coins.encryptor)

    def _noisy(self, data: Any, randomness: Randomness) -> IntegerVector:
        return with_share(self.vector(data), self.party_shares, randomness)

    def party(
        self, number: int, signing_key: SigningKey, data: Any, terms: Round, **means: Unpack[RoleMeans]
    ) -> RoundParty:
        owner = partial(Party, number, signing_key, once=means.get("ledger"))
        randomness = self.coins(number, means.get("randomness", SYSTEM))
        return self.role(owner, data, terms, Coins(randomness, means.get("encryptor")))

    def coins(self, number: int, randomness: Randomness) -> Randomness:
        """Return the source of a party's noise: a seeded one in some simulations."""
        return randomness

    def best_degree(self, key_bits: int, parties: int) -> int:
        return best_degree(key_bits, **self._packed(parties))

    def _packed(self, parties: int) -> dict[str, int]:
        """Return how long and wide the vectors are, and how many are added: ballots, and noise of the holders."""
        length, low, high = self.entries
        if (shares := self.holder_shares) is not None:
            low, high, parties = min(low, -shares.bound), max(high, shares.bound), parties + shares.parties
        return {"length": length, "addends": parties, "minimum": low, "maximum": high}

    @property
    def sensitivities(self) -> tuple[float, float]:
        """L1 and L2 sensitivity of the sum, in units of the vectors, for the unit of privacy."""
        _, low, high = self.entries
        return np.inf, 2.0 * max(-low, high)  # of vectors in a ball whose radius is the largest entry

    @property
    def norm_bound(self) -> int | None:
        """Largest Euclidean norm of a vector; None where it follows from the range of the entries alone."""
        return None

    @property
    def holder_shares(self) -> Shares | None:
        """The shares of the noise that the key holders add; None where they add none."""
        return None

    def noise_of(self, holder: int, randomness: Randomness = SYSTEM) -> list[int]:
        """Draw the noise that key holder `holder` adds, where there are `holder_shares`. A secret."""
        assert self.holder_shares is not None
        return self.holder_shares.share(randomness)

    def plan_for(self, key: PublicKey, parties: int, proofs: Proofs = "none") -> PackingPlan:
        """Return how the vectors of so many parties, and the noise of the key holders, are packed under a key.

        Raises InvalidParameter where `proofs` is "valid" and no proof of bounds exists for so wide entries.
        """
        plan = bounded_plan if proofs == "valid" and self.kind != "votes" else PackingPlan.for_key
        return plan(key, **self._packed(parties))

    @property
    def square_bound(self) -> int:
        """Largest sum of squares of a vector that follows the protocol."""
        length, low, high = self.entries
        longest: int = length * max(-low, high) ** 2
        return longest if self.norm_bound is None else min(longest, self.norm_bound**2)

    def check_proofs(self, key_bits: int, degree: int, parties: int) -> None:
        key = key_of_size(key_bits, degree)
        plan = self.plan_for(key, parties, "valid")
        if self.kind == "votes":
            Layout.of(key, plan, self.group)
        else:
            BoundedLayout.of(key, plan, self.square_bound)
            if self.holder_shares is not None:
                BoundedLayout.of(key, plan, self.holder_shares.norm_bound**2)

    def terms(self, key: ThresholdKey | None, participants: Participants) -> Round:
        """Return the round. Raises what `Round` and `PackingPlan.for_key` do.

        Where the key holders add the noise, they confirm what they open also if the participants ask for nothing.
        """
        assert key is not None
        parties, proofs = len(participants.roster), participants.proofs
        minimum, confirmations = participants.minimum_ballots, participants.confirmations
        bounded, shares = proofs == "valid" and self.kind != "votes", self.holder_shares
        if shares is not None:
            confirmations = max(confirmations, safe_confirmations(key.holders, key.threshold))
        return Round(
            self.kind,
            key,
            self.plan_for(key.key, parties, proofs),
            participants.roster,
            max(2, -(-parties // 2)) if minimum is None else minimum,
            self.context,
            participants.nonce(key, "round"),
            participants.test_key,
            proofs,
            self.group,
            confirmations,
            self.square_bound if bounded else 0,
            shares is not None,
            shares.norm_bound**2 if bounded and shares is not None else 0,
        )

    def reader(self, terms: Round, *, public: bool = False) -> SumReader:
        return SumReader("reader", terms, public=public)

    def holder(
        self,
        share: KeyShare,
        terms: Round,
        *,
        seen: BallotProduct | None = None,
        noise: Sequence[int] | None = None,
        **means: Unpack[RoleMeans],
    ) -> KeyHolder:
        """See `Spec.holder`.

        `seen`: the product of ballots that another process of the holder has multiplied. `noise`: as `noise_of` returns
        it; where the holder adds noise, it is drawn by default.
        """
        coins, adds = means.get("randomness", SYSTEM), {}
        if self.holder_shares is not None:
            adds["noise"] = partial(self.noise_of, share.holder, coins) if noise is None else lambda: noise
        public, openings = means.get("public", False), means.get("ledger")
        return KeyHolder(share, terms, openings=openings, seen=seen, randomness=coins, public=public, **adds)

    def curator(self, terms: Round, *, randomness: Randomness = SYSTEM, seen: BallotProduct | None = None) -> Tally:
        """Return the curator's role, whose result is an `OpenedSum`; `seen`: as in `holder`."""
        return Tally(terms, seen=seen)

    def check_study(self, study: Study) -> None:
        super().check_study(study)
        if self.holder_shares is None:
            return
        holders = len(study.holders)
        if study.confirmations < (least := safe_confirmations(holders, study.threshold)):
            raise StudyError(
                f"where the key holders add the noise, {least} of {holders} must confirm what they open, and the study "
                f"asks for {study.confirmations}: two sums with the same noise would disclose their difference"
            )
