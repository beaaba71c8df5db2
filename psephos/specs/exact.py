"""Exact sums, to whose release the curator adds the noise: counts of votes (Hamm 2016), and sums of vectors.

Averages of parameters are what Hamm 2016, appendix B.4, compares with; the ball that each party's parameters are
projected on, and the directions of own rows, are in docs/theory.md.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from psephos.curator.hamm.averaging import Average, average_of
from psephos.curator.hamm.rules import HAMM_LAMBDA, averaging_radius, erm_rule
from psephos.curator.hamm.sensitivity import Labels
from psephos.curator.ledger import Release
from psephos.curator.losses import Loss, loss_named
from psephos.curator.methods import (
    Method,
    ReleaseRequest,
    average_method,
    erm_method,
    own_data_method,
    pate_method,
    statistic_method,
)
from psephos.curator.statistic import for_ballots
from psephos.parties.party import Voter, VotingParty
from psephos.parties.training import train_parties
from psephos.progress import Progress, silent
from psephos.protocol.encrypted_sum.opened import OpenedSum
from psephos.protocol.encrypted_sum.rounds import Round, RoundKind
from psephos.protocol.encrypted_sum.votes import AuxiliarySet, VoteLayout
from psephos.protocol.errors import InvalidParameter, StudyError
from psephos.protocol.grids.fixed_point import FRACTION_BITS, FixedPoint, parameters_context, project
from psephos.protocol.grids.own_data import OWN
from psephos.protocol.paillier.packing import IntegerVector
from psephos.protocol.randomness import SYSTEM, Randomness
from psephos.protocol.study.study import Study
from psephos.specs.base import OWN_SENT, PARAMETERS_SENT, VOTES_SENT, Array, Coins, Owner, Rows, SumSpec, VectorFormat
from psephos.specs.noisy import StatisticSpec, plan_of
from psephos.specs.secrets import (
    CLASSIFIER,
    CULPRIT,
    DATA,
    DIRECTION,
    EXACT_SUM,
    NOISE,
    OTHER_SUM,
    SIZES,
    VOTE_COUNTS,
    VOTES,
    Secret,
)
from psephos.specs.terms import DerivedDefault, PrivacyTerms, PublicTerms

LABELS: dict[str, Labels] = {"vote": "majority", "soft": "soft"}
"""The labels of the methods that fit a weighted ERM: Hamm's Algorithms 1 and 2."""

HONEST_VOTE = Secret(
    "an honest party's vote",
    "each party",
    "A vote of a party that follows the protocol, on any auxiliary sample.",
    by_attack=True,
)


@dataclass(frozen=True)
class TallySpec(SumSpec):
    """Counts of votes on public auxiliary samples of K classes.

    `method`: what `release` makes of the counts, for `request`, where one method is agreed on.
    """

    methods = ("statistic", "soft", "vote")
    parameters: ClassVar[Mapping[str, Any]] = {"lam": 0.0}
    summand = "votes"
    sends: ClassVar[Mapping[str, str]] = dict.fromkeys(methods, VOTES_SENT)
    samples_are: ClassVar[Mapping[str, str]] = dict.fromkeys(methods, "are voted on")
    joint = False
    opens = "counts"
    secrets = (DATA, CLASSIFIER, VOTES, NOISE, SIZES, VOTE_COUNTS, HONEST_VOTE, OTHER_SUM, CULPRIT)
    kind = "votes"

    auxiliary: AuxiliarySet
    classes: int
    method: str = ""
    request: ReleaseRequest | None = None

    @classmethod
    def plan(cls, public: PublicTerms, privacy: PrivacyTerms, progress: Progress = silent) -> Self:
        request, method = privacy.request, public.method
        if request.lam is not None and not 0 < request.lam < 1e6:
            raise InvalidParameter(f"lam is a positive number, not {request.lam}")
        if method in LABELS and request.lam is None:
            request = replace(request, lam=_ridge(public, request))
        return cls(public.auxiliary, public.classes, method, request)

    def stated(self) -> dict[str, Any]:
        return {} if self.request is None or self.request.lam is None else {"lam": self.request.lam}

    @property
    def takes_classifier(self) -> bool:
        return True

    @property
    def layout(self) -> VoteLayout:
        return VoteLayout(len(self.auxiliary.samples), self.classes)

    @property
    def entries(self) -> VectorFormat:
        return VectorFormat(len(self.auxiliary.samples) * (self.classes - 1), 0, 1)

    @cached_property
    def context(self) -> bytes:
        return self.auxiliary.context(range(self.classes))

    @property
    def sensitivities(self) -> tuple[float, float]:
        """See `SumSpec.sensitivities`; each vote may change, from one counted class to another."""
        changes = float(len(self.auxiliary.samples) * min(2, self.classes - 1))
        return changes, changes**0.5

    @property
    def group(self) -> int:
        return self.classes - 1

    def vector(self, data: Voter) -> IntegerVector:
        return self.layout.encode(data.predict_votes(self.auxiliary.samples))

    def role(self, owner: Owner, data: Voter, terms: Round, coins: Coins) -> VotingParty:
        voter = owner(classes=range(self.classes), voter=data)
        return VotingParty(voter, terms, self.auxiliary, encryptor=coins.encryptor)

    def counts(self, opened: OpenedSum) -> NDArray[np.int64]:
        """Return the votes per auxiliary sample and class, int64 (N, K), every row summing to the ballots."""
        return self.layout.decode(opened.sums, opened.ballots)

    def method_of(
        self,
        name: str,
        counts: NDArray[np.int64],
        request: ReleaseRequest,
        *,
        loss: Loss | None = None,
        fit: Any = None,
        seed: int = 0,
    ) -> Method:
        """Return a method of release on these counts, as `counts` returns them.

        `name`: vote, soft (Hamm's Algorithms 1 and 2), statistic or pate. `loss`: of vote, soft; logistic by default.
        `fit`: an `erm_fit` of the same counts and loss. `seed`: of pate's queries, which are public.
        """
        auxiliary = self.auxiliary.samples
        if name in LABELS:
            loss = loss_named("logistic", self.classes) if loss is None else loss
            return erm_method(LABELS[name], counts, auxiliary, loss, request, fit)
        if name == "statistic":
            return statistic_method(counts, auxiliary, request)
        return pate_method(counts, auxiliary, request, seed)

    def _agreed_method(self, counts: NDArray[np.int64]) -> Method:
        assert self.request is not None, "a tally without an agreed method releases nothing by itself"
        return self.method_of(self.method, counts, self.request)

    def cost(self, ballots: int) -> Release:
        """See `Spec.cost`; the cost is computed for votes that are all for class 0, since it is the same for any."""
        counts = self.layout.decode((0,) * self.entries.length, ballots)
        return self._agreed_method(counts).ledger_entry

    def release(self, result: OpenedSum, randomness: Randomness = SYSTEM) -> tuple[Array, Release]:
        method = self._agreed_method(self.counts(result))
        return method.draw(randomness), method.ledger_entry


def _ridge(public: PublicTerms, request: ReleaseRequest) -> float:
    X, classes = public.samples, public.classes
    loss = loss_named("logistic", classes)
    bound, rule = erm_rule(LABELS[public.method], loss, X, classes=classes, parties=public.parties)
    return rule.choose(bound, request.epsilon, request.output_noise, request.delta)


# -- averages

FIXED_POINT = FixedPoint(FRACTION_BITS)

PARAMETER_SUM = Secret("sum of parameters", "all parties", "The sum of the parties' parameters without noise.")

DROPOUTS = DerivedDefault(int, lambda study: len(study.roster) - study.minimum_ballots)
"""Parties that may be absent: by default as many as the minimum of ballots allows. None of the noise is missing with
them, because the curator adds all of it."""


class _ExactSum(SumSpec):
    """What averages have in common as a protocol of studies; `needed`: parameters that a study must state."""

    methods = ("avg", *OWN)
    parameters: ClassVar[Mapping[str, Any]] = {"coordinates": "", "radius": 0.0, "lam": 0.0, "dropouts": DROPOUTS}
    summand = "parameters"
    sends: ClassVar[Mapping[str, str]] = {"avg": PARAMETERS_SENT, **OWN_SENT}
    joint = False
    opens = "sum"
    secrets: ClassVar[tuple[Secret, ...]] = (DATA, CLASSIFIER, NOISE, SIZES, PARAMETER_SUM, OTHER_SUM)
    kind: ClassVar[RoundKind] = "parameters"
    needed: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def method_of(self, opened: OpenedSum) -> Method:
        """Return the method that releases the mean over the ballots counted."""

    def check_study(self, study: Study) -> None:
        super().check_study(study)
        for name in self.needed:
            if not study.parameters.get(name):
                raise StudyError(f"an average released by {study.method} must state the parameter {name}")

    def cost(self, ballots: int) -> Release:
        """See `Spec.cost`; the cost is computed for a sum of zeros, since it is the same for any sum."""
        return self.method_of(OpenedSum((0,) * self.entries.length, tuple(range(ballots)))).ledger_entry

    def release(self, result: OpenedSum, randomness: Randomness = SYSTEM) -> tuple[Array, Release]:
        method = self.method_of(result)
        return method.draw(randomness), method.ledger_entry


class _VectorSum(_ExactSum):
    """A sum of vectors that the parties bring; the `data` of a role are its integers, or what computes them."""

    def vector(self, data: IntegerVector | Callable[[], IntegerVector]) -> IntegerVector:
        return data() if callable(data) else data


@dataclass(frozen=True)
class VectorSpec(_VectorSum):
    """A sum of integer vectors within `bounds` that the parties have computed; `about`: 32 bytes that name them."""

    bounds: VectorFormat
    about: bytes

    @classmethod
    def plan(cls, public: PublicTerms, privacy: PrivacyTerms, progress: Progress = silent) -> Self:
        raise InvalidParameter("arbitrary vectors have no plan")

    @property
    def entries(self) -> VectorFormat:
        return self.bounds

    @property
    def context(self) -> bytes:
        return self.about

    def method_of(self, opened: OpenedSum) -> Method:
        raise StudyError("nothing is released of arbitrary vectors")


@dataclass(frozen=True)
class AverageSpec(_VectorSum):
    """The average of the parties' ridge parameters, (d,) for two classes, (K, d) for more.

    Attributes:
        radius: of the ball that each party's parameters are projected on.
        lam: the ridge lambda of the parties' classifiers.
        request: the privacy that `release` is asked for.
    """

    needed = ("radius", "lam")

    features: int
    classes: int
    radius: float
    lam: float
    request: ReleaseRequest | None = None

    @classmethod
    def plan(cls, public: PublicTerms, privacy: PrivacyTerms, progress: Progress = silent) -> Any:
        """See `Spec.plan`; the specification of an average of directions is an `OwnDataSpec`."""
        if public.method in OWN:
            return OwnDataSpec.plan(public, privacy)
        lam = HAMM_LAMBDA if privacy.lam is None else privacy.lam
        radius = public.agreed.get("radius") or averaging_radius(lam, public.classes)
        for name, value in (("radius", radius), ("lam", lam)):
            if not 0 < value < 1e6:
                raise InvalidParameter(f"{name} is a positive number, not {value}")
        return cls(public.samples.shape[1], public.classes, radius, lam, privacy.request)

    def stated(self) -> dict[str, Any]:
        return {"lam": self.lam, "radius": self.radius}

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the parameters."""
        return (self.features,) if self.classes == 2 else (self.classes, self.features)

    @property
    def entries(self) -> VectorFormat:
        limit = FIXED_POINT.limit(self.radius)
        return VectorFormat(int(np.prod(self.shape)), -limit, limit)

    @property
    def square_bound(self) -> int:
        """See `SumSpec.square_bound`; parameters are projected on the ball, whose radius need not be an integer."""
        return min(super().square_bound, FIXED_POINT.square_limit(self.radius))

    @property
    def context(self) -> bytes:
        return parameters_context(self.radius)

    def prepare(self, own: Rows) -> Callable[[], list[int]]:
        """Return what trains a ridge classifier on a party's rows, and encodes it."""
        return partial(self._trained, own)

    def _trained(self, own: Rows) -> list[int]:
        X, y = own
        (w,) = train_parties(X, y, [len(y)], classes=self.classes, lam=self.lam)
        return self.encode(w)

    def encode(self, w: Array) -> list[int]:
        """Return parameters of this `shape`, projected on the ball, as integers."""
        return FIXED_POINT.encode(project(w, self.radius), self.radius)

    def average(self, opened: OpenedSum) -> Average:
        """Return the average that the opened sum stands for."""
        size = {"features": self.features, "classes": self.classes}
        return average_of(opened.sums, opened.ballots, self.radius, FIXED_POINT, **size)

    def method_of(self, opened: OpenedSum) -> Method:
        assert self.request is not None, "an average without agreed privacy releases nothing by itself"
        return average_method(self.average(opened), self.lam, self.request)


@dataclass(frozen=True)
class OwnDataSpec(_ExactSum, StatisticSpec):
    """The average of the directions of the parties' own rows, or of classifiers in public coordinates.

    The parties send what they do in a `StatisticSpec`, without shares of the noise.
    """

    secrets: ClassVar[tuple[Secret, ...]] = (DATA, CLASSIFIER, DIRECTION, NOISE, SIZES, EXACT_SUM, OTHER_SUM)
    needed = ("coordinates",)

    @classmethod
    def plan(cls, public: PublicTerms, privacy: PrivacyTerms, progress: Progress = silent) -> Self:
        return cls(plan_of(public, privacy, privacy.request.mechanism, joint=False))

    def method_of(self, opened: OpenedSum, nonprivate: Callable[[], Array] | None = None) -> Method:
        """See `_ExactSum.method_of`; `nonprivate`: as in `own_data_method`."""
        return own_data_method(list(opened.sums), for_ballots(self.release_plan, opened.ballots), nonprivate)
