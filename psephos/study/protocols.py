"""What a study's protocol is: all of it follows from the study, the public samples and the holders' key.

One class for each protocol. It says which parameters the study must give, what every role plays under the key, and what
is released. The papers stand where the roles are.
"""

from __future__ import annotations

import base64
import binascii
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from psephos.curator.hamm.averaging import average_of
from psephos.curator.hamm.methods import Method, Request, average_method, erm_method, own_data_method, statistic_method
from psephos.curator.hamm.release import Labels
from psephos.curator.hamm.sensitivity import Sensitivity
from psephos.curator.hamm.statistic import (
    SOURCE_OF,
    MechanismName,
    StatisticPlan,
    fit_statistic,
    plan_statistic,
    release_total,
    with_joint_noise,
)
from psephos.curator.ledger import ledger_entry
from psephos.curator.losses import loss_named
from psephos.curator.pathak.bounds import proved_epsilon
from psephos.curator.pathak.curator import CuratorPublished, PathakCurator
from psephos.curator.psgd.agreement import Agreement, DescentOptions, agree
from psephos.curator.psgd.curator import GradientCurator, GradientCuratorState
from psephos.curator.tally import OpenedSum, Tally
from psephos.parties.gradients import LocalLoss, signed_labels
from psephos.parties.holder import KeyHolder
from psephos.parties.noise import Shares, shares_of
from psephos.parties.party import Party, VectorParty, VotingParty
from psephos.parties.pathak import PathakParty
from psephos.parties.psgd import GradientParty, SeriesHolder
from psephos.parties.statistic import OwnDataParty, StatisticParty, entry_range
from psephos.parties.training import train_parties
from psephos.protocol.encrypted_sum.fixed_point import FRACTION_BITS, FixedPoint, parameters_context, project
from psephos.protocol.encrypted_sum.own_data import OWN, OwnDataGrid
from psephos.protocol.encrypted_sum.rounds import Proofs, Round, RoundKind
from psephos.protocol.encrypted_sum.votes import AuxiliarySet, VoteLayout
from psephos.protocol.errors import InvalidParameter, StudyError
from psephos.protocol.paillier.packing import PackingPlan, best_degree
from psephos.protocol.paillier.threshold import KeyShare, ThresholdKey
from psephos.protocol.pathak.messages import Share
from psephos.protocol.pathak.noise import modulus_bits, record_sensitivity
from psephos.protocol.pathak.resharing import open_shares
from psephos.protocol.pathak.terms import PathakTerms, participants
from psephos.protocol.privacy.accounting import PrivacyEvent, stated_delta
from psephos.protocol.psgd.series import SeriesTerms
from psephos.protocol.randomness import SYSTEM, Randomness
from psephos.protocol.roles import Entry, Role, Step, gathers
from psephos.protocol.signing import SigningKey
from psephos.protocol.storage.store import OnceLedger
from psephos.protocol.storage.values import storable
from psephos.protocol.study.study import Study
from psephos.protocol.wire import Kind
from psephos.results import Release
from psephos.simulation.pathak import make_terms

__all__ = [
    "SPECS",
    "Pathak",
    "Psgd",
    "Public",
    "SharedSum",
    "Spec",
    "Sum",
    "accepted",
    "coalition_of",
    "coordinates",
    "kind_of_parameter",
    "spec_of",
    "unit_of",
]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Following:
    """A parameter whose default follows from the study: its type, and the rule."""

    kind: type
    rule: Callable[[Study], Any]


COLLUDERS = Following(int, lambda study: max(0, study.threshold - 1))
"""Parties that may tell each other their noise: by default as many as there are key holders that cannot open a sum."""

SAMPLES = {"ignore": "", "text": ""}
"""Parameters about the public samples, which any study may have; their default, which is also their type."""


@dataclass(frozen=True)
class Public:
    """A study and the auxiliary samples that it names, as every member has them.

    Raises StudyError when these are not the samples that the study was signed about.
    """

    study: Study
    auxiliary: AuxiliarySet = field(repr=False)

    def __post_init__(self) -> None:
        if self.auxiliary.digest != self.study.auxiliary:
            raise StudyError(
                "these are not the auxiliary samples of the study: another file, other columns, or another version of "
                "Psephos encoded them"
            )
        rows, columns = self.auxiliary.samples.shape
        if (rows, columns) != (self.study.samples, len(self.study.features)):
            raise StudyError(f"the study has {self.study.samples} samples of {len(self.study.features)} features")


def spec_of(public: Public) -> Spec:
    """The study's protocol.

    Raises StudyError for a method or parameters that it does not have, and for what nobody can play.
    """
    try:
        play = accepted(public.study)(public)
        play.check()
    except InvalidParameter as error:
        raise StudyError(str(error)) from None
    return play


def accepted(study: Study) -> type[Spec]:
    """The class of its protocol; raises StudyError for a method or parameters that this does not have."""
    kind = SPECS[study.protocol]
    kind.accept(study)
    return kind


def coalition_of(study: Study) -> int | None:
    """How many colluding parties the noise of the study is whole against; None where the curator adds the noise.

    What everybody agrees on: given in the study, or following from its threshold.
    """
    if study.protocol == "pathak":
        return int(study.parameters.get("excluded", Pathak.parameters["excluded"]))
    if "colluders" not in SPECS[study.protocol].parameters:
        return None
    return int(study.parameters.get("colluders", COLLUDERS.rule(study)))


def unit_of(study: Study) -> str:
    """What its epsilon is about: all that one "party" holds, or one "record" of it."""
    return "record" if study.protocol == "pathak" else str(study.parameters.get("unit", SPECS[study.protocol].unit))


class Spec(ABC):
    """One protocol in one study."""

    methods: ClassVar[tuple[str, ...]]
    """What it can be released as."""

    parameters: ClassVar[Mapping[str, Any]] = {}
    """Names and defaults; a type in place of a default means that the study must say it."""

    joint: ClassVar[bool] = True
    """Whether the parties add the noise. What is released is then a function of what they have sent."""

    unit: ClassVar[str] = "party"
    """What a neighbour replaces, where the study's parameters do not say."""

    def __init__(self, public: Public) -> None:
        self.public, self.study = public, public.study

    @classmethod
    def accept(cls, study: Study) -> None:
        """Raise StudyError for a study whose method or parameters are not this protocol's."""
        if study.method not in cls.methods:
            raise StudyError(
                f"{study.protocol} is released by one of {', '.join(cls.methods)}, not by {study.method!r}"
            )
        known = {**SAMPLES, **cls.parameters}
        for name, value in study.parameters.items():
            if name not in known:
                raise StudyError(f"{name} is no parameter of {study.protocol}: {', '.join(cls.parameters)} are")
            kind = kind_of_parameter(known[name])
            if type(value) is not kind and not (kind is float and type(value) is int):
                raise StudyError(f"the parameter {name} is {value!r}, and should be of type {kind.__name__}")
        for name, default in known.items():
            if isinstance(default, type) and name not in study.parameters:
                raise StudyError(f"a study of {study.protocol} says its {name}")

    def given(self, name: str) -> Any:
        """A parameter, or its default."""
        default = self.parameters[name]
        if isinstance(default, Following):
            default = default.rule(self.study)
        value = self.study.parameters.get(name, default)
        return float(value) if float in (default, type(default)) else value

    @property
    def best_degree(self) -> int:
        """Of the key, for what is sent under it."""
        return 1

    def check(self) -> None:  # noqa: B027 - a protocol need not have any
        """Raise StudyError or InvalidParameter for parameters that do not go together."""

    def fits(self, number: int, rows: int) -> None:  # noqa: B027 - most protocols take what a party has
        """Raise StudyError where party `number` cannot take part with so many rows."""

    @property
    def votes(self) -> bool:
        """Whether a party brings a classifier that votes; otherwise its rows."""
        return False

    @abstractmethod
    def party(self, number: int, signing_key: SigningKey, own: Any, once: OnceLedger, key: Any) -> Role:
        """`own`: its voter, or its rows and their classes, (X, y); `once`: its ledger; `key`: where there is one."""

    @abstractmethod
    def holder(self, share: KeyShare, once: OnceLedger) -> Role:
        """Whoever has this share of the key."""

    @abstractmethod
    def curator(self, key: Any) -> Role:
        """Its result is what is released from."""

    @abstractmethod
    def release(self, result: Any, randomness: Randomness = SYSTEM) -> tuple[Array, Release]:
        """The linear classifier, (d,) or (K, d), that is released, given the curator's result; and what it costs.

        Where the parties have added the noise (`joint`) it is a function of the result, and `randomness` is not asked.
        """

    def ballots(self, result: Any) -> int:
        """How many parties' data are in it."""
        return int(result.ballots)


def kind_of_parameter(default: Any) -> type:
    """The type of a parameter: that of its default, or what stands in its place."""
    if isinstance(default, Following):
        return default.kind
    return default if isinstance(default, type) else type(default)


# -- encrypted sums


class Sum(Spec):
    """One round."""

    kind: ClassVar[RoundKind]

    @property
    @abstractmethod
    def vectors(self) -> tuple[int, int, int]:
        """The length of the vectors that are summed, and the range of their entries."""

    @abstractmethod
    def round(self, key: ThresholdKey) -> Round:
        """Everybody derives it from the study and the key."""

    @property
    def best_degree(self) -> int:
        """Of the key, for these vectors."""
        (length, low, high), addends = self.vectors, len(self.study.roster)
        return best_degree(self.study.key_bits, length=length, addends=addends, minimum=low, maximum=high)

    def holder(self, share: KeyShare, once: OnceLedger) -> Role:
        return KeyHolder(share, self.round(share.threshold_key), openings=once, public=self.study.public)

    def curator(self, key: ThresholdKey) -> Role:
        return Tally(self.round(key))

    @property
    def request(self) -> Request:
        """What is asked of the methods to which the curator adds the noise."""
        study, lam = self.study, self.study.parameters.get("lam")
        noise: MechanismName = "gaussian" if study.delta else "spherical-laplace"
        return Request(study.epsilon, study.delta, noise, None if lam is None else float(lam), "certified", False)

    def _member(self, number: int, signing_key: SigningKey, voter: Any, once: OnceLedger) -> Party:
        return Party(number, signing_key, classes=range(len(self.study.classes)), voter=voter, once=once)

    def _round(self, key: ThresholdKey, context: bytes, proofs: Proofs, group: int = 1) -> Round:
        study, (length, low, high) = self.study, self.vectors
        plan = PackingPlan.for_key(key.key, length=length, addends=len(study.roster), minimum=low, maximum=high)
        return Round(
            self.kind,
            key,
            plan,
            study.roster,
            study.minimum_ballots,
            context,
            study.nonce_for(key),
            study.trial,
            proofs,
            group,
            study.confirmations,
        )


class _Tally(Sum):
    """Counts of votes, of which the curator makes the release."""

    kind, joint, votes, methods = "votes", False, True, ("statistic", "soft", "vote")
    parameters: ClassVar = {"lam": 0.0}

    def check(self) -> None:
        if "lam" in self.study.parameters and not 0 < self.given("lam") < 1e6:
            raise StudyError(f"lam is a positive number, not {self.given('lam')}")

    @property
    def vectors(self) -> tuple[int, int, int]:
        return self.study.samples * (len(self.study.classes) - 1), 0, 1

    def round(self, key: ThresholdKey) -> Round:
        study, classes = self.study, len(self.study.classes)
        return self._round(key, self.public.auxiliary.context(range(classes)), study.proofs, classes - 1)

    def party(self, number: int, signing_key: SigningKey, own: Any, once: OnceLedger, key: Any) -> Role:
        return VotingParty(self._member(number, signing_key, own, once), self.round(key), self.public.auxiliary)

    def release(self, result: OpenedSum, randomness: Randomness = SYSTEM) -> tuple[Array, Release]:
        classes, auxiliary = len(self.study.classes), self.public.auxiliary.samples
        counts = VoteLayout(self.study.samples, classes).decode(result.sums, result.ballots)
        if self.study.method == "statistic":
            return _drawn(statistic_method(counts, auxiliary, self.request), randomness)
        labels: Labels = "majority" if self.study.method == "vote" else "soft"
        return _drawn(erm_method(labels, counts, auxiliary, loss_named("logistic", classes), self.request), randomness)


def _drawn(method: Method, randomness: Randomness) -> tuple[Array, Release]:
    return method.draw(randomness), method.ledger_entry


class _Planned(Sum):
    """What the statistic and the averages of directions have in common: coordinates that the study fixes."""

    @cached_property
    def plan(self) -> StatisticPlan:
        """What is summed, and under which noise. Raises StudyError for coordinates that are none."""
        study = self.study
        noise: MechanismName = "gaussian" if study.delta else "discrete-laplace" if self.joint else "spherical-laplace"
        return plan_statistic(
            self.public.auxiliary.samples,
            len(study.classes),
            len(study.roster),
            epsilon=study.epsilon,
            delta=study.delta,
            mechanism=noise,
            source=SOURCE_OF.get(study.method, "votes"),
            transform=_decoded(self.given("coordinates"), len(study.features)),
            joint=self.joint,
        )

    def own_data(self, member: Party, own: Any, round_: Round, shares: Shares | None) -> Role:
        """A party with what its own rows say."""
        assert isinstance(self.plan.grid, OwnDataGrid)
        return OwnDataParty(member, round_, own, self.plan.grid, shares)


class _Statistic(_Planned):
    """Sums with noise that the parties add: nobody ever has more than the private value."""

    kind, methods = "statistic", tuple(SOURCE_OF)
    parameters: ClassVar = {"coordinates": str, "colluders": COLLUDERS, "dropouts": 0}

    @property
    def votes(self) -> bool:
        return self.study.method == "statistic"

    def check(self) -> None:
        least = len(self.study.roster) - self.given("dropouts")
        if self.study.minimum_ballots < least:
            raise StudyError(
                f"with {self.given('dropouts')} dropouts allowed for, the noise is whole from {least} ballots on; the "
                f"minimum of ballots is {self.study.minimum_ballots}"
            )
        assert self.shares

    @cached_property
    def shares(self) -> Shares:
        """Of the noise."""
        return shares_of(self.plan, colluders=self.given("colluders"), dropouts=self.given("dropouts"))

    @property
    def vectors(self) -> tuple[int, int, int]:
        return self.plan.dimension, *entry_range(self.plan.grid, self.shares)

    def round(self, key: ThresholdKey) -> Round:
        return self._round(key, self.plan.grid.digest, "knowledge")

    def party(self, number: int, signing_key: SigningKey, own: Any, once: OnceLedger, key: Any) -> Role:
        grid, round_ = self.plan.grid, self.round(key)
        if isinstance(grid, OwnDataGrid):
            return self.own_data(self._member(number, signing_key, None, once), own, round_, self.shares)
        member = self._member(number, signing_key, own, once)
        return StatisticParty(member, round_, self.public.auxiliary, grid, self.shares)

    def release(self, result: OpenedSum, randomness: Randomness = SYSTEM) -> tuple[Array, Release]:
        plan = with_joint_noise(self.plan, self.shares.contributors)
        noise = "Skellam shares" if self.study.delta else "discrete Laplace in shares"
        w = fit_statistic(release_total(plan, list(result.sums), ballots=result.ballots))
        chosen = {"rank": plan.rank, "colluders": self.given("colluders")}
        return w, ledger_entry(plan.event, plan.sensitivity, noise, chosen)


class _Average(_Planned):
    """Exact sums of parameters, or of directions, to whose average the curator adds the noise."""

    kind, joint, methods = "parameters", False, ("avg", *OWN)
    parameters: ClassVar = {"coordinates": "", "radius": 0.0, "lam": 0.0}

    def check(self) -> None:
        asked = ("coordinates",) if self.study.method in OWN else ("radius", "lam")
        for name in asked:
            if not self.given(name):
                raise StudyError(f"an average by {self.study.method} says its {name}")
            if name != "coordinates" and not 0 < self.given(name) < 1e6:
                raise StudyError(f"{name} is a positive number, not {self.given(name)}")
        if self.study.method in OWN and self.study.minimum_ballots < len(self.study.roster):
            raise StudyError(
                "the noise of an average of directions is sized for all parties: the minimum is all of them"
            )

    @property
    def _shape(self) -> tuple[int, ...]:
        classes, features = len(self.study.classes), len(self.study.features)
        return (features,) if classes == 2 else (classes, features)

    @property
    def vectors(self) -> tuple[int, int, int]:
        if self.study.method in OWN:
            return self.plan.dimension, self.plan.grid.minimum, self.plan.grid.maximum
        limit = FixedPoint(FRACTION_BITS).limit(self.given("radius"))
        return int(np.prod(self._shape)), -limit, limit

    def round(self, key: ThresholdKey) -> Round:
        own = self.study.method in OWN
        return self._round(key, self.plan.grid.digest if own else parameters_context(self.given("radius")), "knowledge")

    def party(self, number: int, signing_key: SigningKey, own: Any, once: OnceLedger, key: Any) -> Role:
        member, round_ = self._member(number, signing_key, None, once), self.round(key)
        if self.study.method in OWN:
            return self.own_data(member, own, round_, None)
        (X, y), radius = own, self.given("radius")
        (w,) = train_parties(X, y, [len(y)], classes=len(self.study.classes), lam=self.given("lam"))
        values = FixedPoint(FRACTION_BITS).encode(project(w, radius), radius)
        return VectorParty(member, round_, "parameters", round_.context, values)

    def release(self, result: OpenedSum, randomness: Randomness = SYSTEM) -> tuple[Array, Release]:
        if self.study.method in OWN:
            return _drawn(own_data_method(list(result.sums), self.plan), randomness)
        classes, features = len(self.study.classes), len(self.study.features)
        point = FixedPoint(FRACTION_BITS)
        average = average_of(
            result.sums, result.ballots, self.given("radius"), point, features=features, classes=classes
        )
        return _drawn(average_method(average, self.given("lam"), self.request), randomness)


def coordinates(transform: Array) -> str:
    """Coordinates (d, r) as the parameter of a study: float32, in base64. For whoever writes the study."""
    return base64.b64encode(transform.astype("<f4").tobytes()).decode()


def _decoded(text: str, features: int) -> Array:
    try:
        found = np.frombuffer(base64.b64decode(text, validate=True), "<f4").astype(np.float64)
    except (binascii.Error, ValueError):
        raise StudyError("the coordinates of the study are no float32 numbers in base64") from None
    if not found.size or found.size % features or not np.isfinite(found).all():
        raise StudyError(f"the coordinates of the study are not those of {features} features")
    return found.reshape(features, -1)


# -- gradient descent


class Psgd(Spec):
    """A series of encrypted sums of noisy gradients. All of them stand on the board, so epsilon is that of all."""

    methods, unit = ("psgd",), "record"
    optional: ClassVar = {
        f.name: 0.0 if f.default is None else f.default
        for f in fields(DescentOptions)
        if f.name not in ("epsilon", "delta")
    } | {"variant": "gaussian", "colluders": COLLUDERS}
    parameters: ClassVar = {"sizes": str} | optional

    @cached_property
    def options(self) -> DescentOptions:
        """What the study asks for."""
        said = [name for name in self.study.parameters if name in self.optional]
        chosen: dict[str, Any] = {name: self.given(name) for name in ("variant", "colluders", *said)}
        return DescentOptions(epsilon=self.study.epsilon, delta=self.study.delta, **chosen)

    @cached_property
    def _sizes(self) -> list[int]:
        try:
            sizes = [int(size) for size in self.given("sizes").split()]
        except ValueError:
            raise StudyError("the sizes of the parties' data sets are whole numbers with spaces between them") from None
        if len(sizes) != len(self.study.roster):
            raise StudyError(f"the study has {len(self.study.roster)} parties and says {len(sizes)} sizes")
        return sizes

    def fits(self, number: int, rows: int) -> None:
        if rows != self._sizes[number]:
            raise StudyError(f"the study says that party {number} has {self._sizes[number]} rows, and these are {rows}")

    @cached_property
    def _agreement(self) -> Agreement:
        return agree(self.options, self._sizes, len(self.study.features), bytes(16))

    def check(self) -> None:
        if len(self.study.classes) != 2:
            raise StudyError("gradient descent is for two classes")
        if self.study.minimum_ballots != self._agreement.series.minimum_ballots:
            raise StudyError(
                f"the noise is sized for {self.options.dropouts} dropouts: the minimum of ballots is "
                f"{self._agreement.series.minimum_ballots}, not {self.study.minimum_ballots}"
            )
        if (whole := self._agreement.guarantee.epsilon_transcript) > self.study.epsilon * (1 + 1e-12):
            raise StudyError(
                f"every noisy sum of a study stands on the board, and all of them together cost epsilon {whole:.6g}, "
                f"not {self.study.epsilon:g}: the variants gaussian and halving are calibrated for that"
            )
        if (samplers := self._agreement.guarantee.delta_samplers) > stated_delta(self.study.delta):
            raise StudyError(
                f"drawing the noise costs delta {samplers:.2g}, more than the study's {self.study.delta:g}"
            )

    def terms(self, key: ThresholdKey) -> SeriesTerms:
        """Everybody derives them from the study and the key."""
        study = self.study
        series = replace(self._agreement.series, nonce=study.nonce_for(key, "series"))
        return SeriesTerms(
            series, self._agreement.descent, key, study.roster, study.trial, "knowledge", study.confirmations
        )

    def party(self, number: int, signing_key: SigningKey, own: Any, once: OnceLedger, key: Any) -> Role:
        X, y = own
        local = LocalLoss(X, signed_labels(y), self.options.loss)
        clip = self.options.on_excess == "clip"
        return GradientParty(number, signing_key, local, self.terms(key), clip=clip, once=once)

    def holder(self, share: KeyShare, once: OnceLedger) -> Role:
        return SeriesHolder(share, self.terms(share.threshold_key), once=once)

    def curator(self, key: ThresholdKey) -> Role:
        return GradientCurator(self.terms(key))

    def release(self, result: GradientCuratorState, randomness: Randomness = SYSTEM) -> tuple[Array, Release]:
        agreed, options = self._agreement, self.options
        paid = agreed.guarantee
        delta = options.delta if options.variant == "gaussian" else paid.delta_samplers
        event = PrivacyEvent("psgd", paid.epsilon_transcript, delta, unit=paid.unit)
        bound = Sensitivity(
            agreed.sensitivity, unit=paid.unit, source="one step's gradients; epsilon is that of all steps"
        )
        chosen = {"steps": result.steps, "lam": options.lam, "colluders": options.coalition}
        return result.w, ledger_entry(event, bound, agreed.series.step_law, chosen)

    def ballots(self, result: GradientCuratorState) -> int:
        """Of the last step."""
        assert result.opened is not None
        return result.opened.ballots


# -- Pathak's averaging


class Pathak(Spec):
    """Parameters under noise that nobody can remove, in additive shares: no key is needed.

    Without key holders there is no threshold: the noise is whole against any `excluded` parties together.
    """

    methods, unit = ("pathak",), "record"
    parameters: ClassVar = {
        "lam": float,
        "smallest_size": int,
        "largest_size": 1 << 20,
        "excluded": 1,
        "tolerance": 1e-9,
    }

    @cached_property
    def terms(self) -> PathakTerms:
        """Everybody derives them from the study."""
        study = self.study
        terms = make_terms(
            parties=len(study.roster),
            features=len(study.features),
            classes=study.classes,
            epsilon=study.epsilon,
            **{name: self.given(name) for name in self.parameters},
        )
        return replace(terms, nonce=study.nonce_for(None, "pathak").hex())

    def check(self) -> None:
        if self.study.minimum_ballots != len(self.study.roster):
            raise StudyError("shares of all parties add up to the result: the minimum of ballots is all of them")
        assert self.terms

    def party(self, number: int, signing_key: SigningKey, own: Any, once: OnceLedger, key: Any) -> Role:
        X, y = own
        return PathakParty(number, X, np.asarray(y), self.terms)

    def holder(self, share: KeyShare, once: OnceLedger) -> Role:
        raise StudyError("no key is shared in this protocol")

    def curator(self, key: Any) -> Role:
        return ConsumingCurator(self.terms)

    def release(self, result: SharedSum, randomness: Randomness = SYSTEM) -> tuple[Array, Release]:
        terms = self.terms
        w: Array = np.array(result.total, dtype=np.float64) * (terms.pitch / terms.parties)
        epsilon, delta = proved_epsilon(terms)
        bound = Sensitivity(
            record_sensitivity(terms, terms.smallest_size), unit=self.unit, source="one party's parameters"
        )
        event = PrivacyEvent("pathak", epsilon, delta, unit=self.unit)
        return w, ledger_entry(event, bound, f"{terms.noise} in shares", {"lam": terms.lam})

    def ballots(self, result: SharedSum) -> int:
        return self.terms.parties


@storable
@dataclass(frozen=True)
class SharedSum:
    """`total`: K w_s in integer units of the grid, d of them. Public."""

    total: tuple[int, ...] = field(repr=False)


class ConsumingCurator(PathakCurator):
    """Charlie, who adds the published shares up when all of them are there, as any consumer does (section 3.3)."""

    reads = frozenset({Kind.PUBLISHED_SHARE})

    def check_message(self, entry: Entry) -> None:
        """Every published share by itself."""
        if entry.is_a(Kind.PUBLISHED_SHARE):
            Share.decode(entry.data, Kind.PUBLISHED_SHARE, self.terms)

    @gathers(CuratorPublished, Kind.PUBLISHED_SHARE, lambda self, state: participants(self.terms))
    def open(self, state: CuratorPublished, messages: Mapping[str, bytes]) -> Step:
        """Add up. Raises MessageError, ShareRangeError."""
        shares = [Share.decode(data, Kind.PUBLISHED_SHARE, self.terms).values for data in messages.values()]
        return Step(SharedSum(tuple(open_shares(shares, modulus_bits(self.terms)))))

    def _result(self, state: Any) -> SharedSum | None:
        """K w_s."""
        return state if isinstance(state, SharedSum) else None


SPECS: dict[str, type[Spec]] = {
    "tally": _Tally,
    "statistic": _Statistic,
    "average": _Average,
    "psgd": Psgd,
    "pathak": Pathak,
}
"""The class of each protocol that commands play, by its name in a study."""
