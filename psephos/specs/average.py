"""Exact sums of parameters or of directions, to whose average the curator adds the noise.

Averages of parameters are what Hamm 2016, appendix B.4, compares with; the ball that each party's parameters are
projected on, and the directions of own rows, are in docs/theory.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from psephos.curator.hamm.averaging import Average, average_of
from psephos.curator.ledger import Release
from psephos.curator.methods import Method, ReleaseRequest, average_method, own_data_method
from psephos.curator.statistic import StatisticPlan, for_ballots
from psephos.parties.party import VectorParty
from psephos.parties.statistic import OwnDataParty
from psephos.parties.training import train_parties
from psephos.protocol.encrypted_sum.opened import OpenedSum
from psephos.protocol.encrypted_sum.rounds import Round, RoundKind
from psephos.protocol.errors import StudyError
from psephos.protocol.grids.fixed_point import FRACTION_BITS, FixedPoint, parameters_context, project
from psephos.protocol.grids.own_data import OWN, OwnDataGrid
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.randomness import SYSTEM, Randomness
from psephos.protocol.signing import SigningKey
from psephos.protocol.storage.store import OnceLedger
from psephos.specs.base import Array, Rows, SumSpec, VectorFormat, data_owner
from psephos.specs.secrets import CLASSIFIER, DATA, DIRECTION, EXACT_SUM, NOISE, OTHER_SUM, SIZES, Secret
from psephos.specs.statistic import planned
from psephos.specs.study import DerivedDefault, StudyTerms, check_dropouts, request_of

__all__ = ["AverageSpec", "OwnDataSpec", "VectorSpec"]

FIXED_POINT = FixedPoint(FRACTION_BITS)

PARAMETER_SUM = Secret("sum of parameters", "all parties", "The sum of the parties' parameters without noise.")


DROPOUTS = DerivedDefault(int, lambda study: len(study.roster) - study.minimum_ballots)
"""Parties that may be absent: by default as many as the minimum of ballots allows. None of the noise is missing with
them, because the curator adds all of it."""


class _ExactSum(SumSpec):
    """What averages have in common as a protocol of studies."""

    methods: ClassVar[tuple[str, ...]] = ("avg", *OWN)
    parameters: ClassVar[Mapping[str, Any]] = {"coordinates": "", "radius": 0.0, "lam": 0.0, "dropouts": DROPOUTS}
    joint: ClassVar[bool] = False
    secrets: ClassVar[tuple[Secret, ...]] = (DATA, CLASSIFIER, NOISE, SIZES, PARAMETER_SUM, OTHER_SUM)
    kind: ClassVar[RoundKind] = "parameters"


@dataclass(frozen=True)
class VectorSpec(_ExactSum):
    """A sum of integer vectors that the parties have computed.

    Attributes:
        bounds: their length and the range of their entries.
        about: 32 bytes that name what the vectors are.
    """

    bounds: VectorFormat
    about: bytes

    @classmethod
    def from_study(cls, terms: StudyTerms) -> Self:
        raise StudyError("a study sums parameters or directions, not arbitrary vectors")

    @property
    def entries(self) -> VectorFormat:
        return self.bounds

    @property
    def context(self) -> bytes:
        return self.about

    def party(
        self,
        number: int,
        signing_key: SigningKey,
        data: Sequence[int],
        terms: Round,
        *,
        ledger: OnceLedger | None = None,
        encryptor: Encryptor | None = None,
        randomness: Randomness = SYSTEM,
    ) -> VectorParty:
        """See `Spec.party`; `data` is the party's vector, `bounds.length` integers."""
        owner = data_owner(number, signing_key, ledger)
        return VectorParty(owner, terms, self.kind, self.context, data, encryptor=encryptor)

    def cost(self, ballots: int) -> Release:
        raise StudyError("nothing is released of arbitrary vectors")

    def release(self, result: OpenedSum, randomness: Randomness = SYSTEM) -> tuple[Array, Release]:
        raise StudyError("nothing is released of arbitrary vectors")


@dataclass(frozen=True)
class AverageSpec(_ExactSum):
    """The average of the parties' ridge parameters.

    Attributes:
        features, classes: d and K; parameters have shape (d,) for two classes, (K, d) for more.
        radius: of the ball that each party's parameters are projected on.
        lam: the ridge lambda of the parties' classifiers.
        request: the privacy that `release` is asked for.
    """

    features: int
    classes: int
    radius: float
    lam: float
    request: ReleaseRequest | None = None

    @classmethod
    def from_study(cls, terms: StudyTerms) -> Any:
        """See `Spec.from_study`; the specification of an average of directions is an `OwnDataSpec`."""
        study = terms.study
        if study.method in OWN:
            return OwnDataSpec.from_study(terms)
        check_dropouts(study, terms.value("dropouts"))
        for name in ("radius", "lam"):
            terms.require(name)
            if not 0 < terms.value(name) < 1e6:
                raise StudyError(f"{name} is a positive number, not {terms.value(name)}")
        shape = len(study.features), len(study.classes)
        return cls(*shape, terms.value("radius"), terms.value("lam"), request_of(study))

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

    def prepare(self, own: Rows) -> list[int]:
        """Train a ridge classifier on a party's rows, and encode it."""
        X, y = own
        (w,) = train_parties(X, y, [len(y)], classes=self.classes, lam=self.lam)
        return self.encode(w)

    def encode(self, w: Array) -> list[int]:
        """Return parameters of this `shape`, projected on the ball, as integers."""
        return FIXED_POINT.encode(project(w, self.radius), self.radius)

    def party(
        self,
        number: int,
        signing_key: SigningKey,
        data: Sequence[int],
        terms: Round,
        *,
        ledger: OnceLedger | None = None,
        encryptor: Encryptor | None = None,
        randomness: Randomness = SYSTEM,
    ) -> VectorParty:
        """See `Spec.party`; `data` is the party's encoded parameters."""
        owner = data_owner(number, signing_key, ledger)
        return VectorParty(owner, terms, self.kind, self.context, data, encryptor=encryptor)

    def average(self, opened: OpenedSum) -> Average:
        """Return the average that the opened sum stands for."""
        size = {"features": self.features, "classes": self.classes}
        return average_of(opened.sums, opened.ballots, self.radius, FIXED_POINT, **size)

    def _agreed_method(self, opened: OpenedSum) -> Method:
        assert self.request is not None, "an average without agreed privacy releases nothing by itself"
        return average_method(self.average(opened), self.lam, self.request)

    def cost(self, ballots: int) -> Release:
        """See `Spec.cost`; the cost is computed for a sum of zeros, since it is the same for any sum."""
        return self._agreed_method(OpenedSum((0,) * self.entries.length, tuple(range(ballots)))).ledger_entry

    def release(self, result: OpenedSum, randomness: Randomness = SYSTEM) -> tuple[Array, Release]:
        method = self._agreed_method(result)
        return method.draw(randomness), method.ledger_entry


@dataclass(frozen=True)
class OwnDataSpec(_ExactSum):
    """The average of the directions of the parties' own rows, or of classifiers in public coordinates.

    Attributes:
        plan: what is summed by all parties, and the noise that the curator adds.
    """

    secrets: ClassVar[tuple[Secret, ...]] = (DATA, CLASSIFIER, DIRECTION, NOISE, SIZES, EXACT_SUM, OTHER_SUM)

    plan: StatisticPlan

    @classmethod
    def from_study(cls, terms: StudyTerms) -> Self:
        terms.require("coordinates")
        check_dropouts(terms.study, terms.value("dropouts"))
        return cls(planned(terms, joint=False))

    @property
    def grid(self) -> OwnDataGrid:
        """The public coordinates of the parties' vectors."""
        assert isinstance(self.plan.grid, OwnDataGrid)
        return self.plan.grid

    @property
    def entries(self) -> VectorFormat:
        return VectorFormat(self.plan.dimension, self.grid.minimum, self.grid.maximum)

    @property
    def norm_bound(self) -> int:
        """See `SumSpec.norm_bound`; a direction has norm 1."""
        return self.grid.maximum

    @property
    def context(self) -> bytes:
        return self.grid.digest

    def party(
        self,
        number: int,
        signing_key: SigningKey,
        data: Rows,
        terms: Round,
        *,
        ledger: OnceLedger | None = None,
        encryptor: Encryptor | None = None,
        randomness: Randomness = SYSTEM,
    ) -> OwnDataParty:
        """See `Spec.party`; `data` is the party's `Rows`."""
        owner = data_owner(number, signing_key, ledger)
        return OwnDataParty(owner, terms, data, self.grid, None, randomness=randomness, encryptor=encryptor)

    def method_of(self, opened: OpenedSum, nonprivate: Callable[[], Array] | None = None) -> Method:
        """Return the method that releases the mean over the ballots counted.

        `nonprivate`: fits the classifier without noise, (d,) or (K, d), as in `own_data_method`.
        """
        return own_data_method(list(opened.sums), for_ballots(self.plan, opened.ballots), nonprivate)

    def cost(self, ballots: int) -> Release:
        """See `Spec.cost`; the cost is computed for a sum of zeros, since it is the same for any sum."""
        return self.method_of(OpenedSum((0,) * self.entries.length, tuple(range(ballots)))).ledger_entry

    def release(self, result: OpenedSum, randomness: Randomness = SYSTEM) -> tuple[Array, Release]:
        method = self.method_of(result)
        return method.draw(randomness), method.ledger_entry
