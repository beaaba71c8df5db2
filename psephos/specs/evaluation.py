"""Private evaluation of a public classifier or prediction: a sum over the parties' rows with noise that they add."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import msgspec

from psephos.curator.evaluation import (
    BINS,
    EvaluationEstimate,
    EvaluationPlan,
    calibrated,
    estimate_evaluation,
    plan_error_evaluation,
    plan_evaluation,
)
from psephos.curator.ledger import Release, ledger_entry
from psephos.parties.noise import Shares, contributors, shares_of
from psephos.parties.statistic import OwnDataParty, entry_range
from psephos.protocol.encrypted_sum.opened import OpenedSum
from psephos.protocol.encrypted_sum.rounds import Round, RoundKind
from psephos.protocol.errors import DataError, StudyError
from psephos.protocol.grids.record import NumericLabel
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.randomness import SYSTEM, Randomness, SimulationRandomness
from psephos.protocol.signing import SigningKey
from psephos.protocol.storage.store import OnceLedger
from psephos.protocol.study.study import Study
from psephos.specs.base import Array, SumSpec, VectorFormat, data_owner
from psephos.specs.secrets import DATA, DIRECTION, EXACT_SUM, NOISE, OTHER_SUM, SIZES, Secret
from psephos.specs.study import COLLUDERS, StudyTerms, check_dropouts

__all__ = ["BOUNDS", "EvaluationSpec", "encode_releases", "stated_releases"]

BOUNDS = ("low", "high", "largest_error")
"""Parameters of a study that evaluates a prediction of a number: the bounds of the label and of the errors."""


@dataclass(frozen=True)
class EvaluationSpec(SumSpec):
    """A histogram of scores, sums of errors, or a mean over the parties (docs/theory.md, "Private evaluation").

    Attributes:
        plan: what is summed, and under which noise.
        shares: the parties' shares of the noise; None is for analyses of the exact sum.
        colluders: parties that may tell each other their noise, as it was agreed.
        simulation_seed: draws the noise from a seed: for simulations only.
        persons: the column of the parties' tables that names persons, where a person with all rows at a party is
            protected; "" where every row is a record of its own.
    """

    methods: ClassVar[tuple[str, ...]] = ("platt", "unchanged")
    parameters: ClassVar[Mapping[str, Any]] = {
        "classifier": str,
        "unit": "record",
        "record": "",
        "bins": BINS,
        "colluders": COLLUDERS,
        "dropouts": 0,
        "released": "",
        **dict.fromkeys(BOUNDS, 0.0),
    }
    unit: ClassVar[str] = "record"
    secrets: ClassVar[tuple[Secret, ...]] = (DATA, DIRECTION, NOISE, SIZES, EXACT_SUM, OTHER_SUM)
    kind: ClassVar[RoundKind] = "statistic"

    plan: EvaluationPlan
    shares: Shares | None
    colluders: int = 0
    simulation_seed: int | None = None
    persons: str = ""

    @classmethod
    def from_plan(
        cls,
        plan: EvaluationPlan,
        *,
        colluders: int,
        dropouts: int = 0,
        simulation_seed: int | None = None,
        persons: str = "",
    ) -> Self:
        """Return the specification of a plan. Raises InvalidParameter as `shares_of` does."""
        shares = shares_of(plan, colluders=colluders, dropouts=dropouts)
        return cls(plan, shares, colluders, simulation_seed, persons)

    @classmethod
    def from_study(cls, terms: StudyTerms) -> Self:
        study, agreed = terms.study, {name: terms.value(name) for name in ("colluders", "dropouts")}
        check_dropouts(study, agreed["dropouts"])
        if study.delta:
            raise StudyError("the noise of an evaluation is discrete Laplace, whose delta is 0: leave delta out")
        if agreed["colluders"] < 0:
            raise StudyError("colluders are not negative")
        if (study.method == "unchanged") == bool(study.classes):
            raise StudyError(
                "an evaluation releases a classifier by the method platt, and a prediction of a number by unchanged, "
                f"not by {study.method}"
            )
        other = BOUNDS if study.classes else ("bins",)
        if extra := [name for name in other if name in study.parameters]:
            what = "prediction of a number" if study.classes else "classifier"
            raise StudyError(f"the parameter {extra[0]} is for the evaluation of a {what}: leave it out")
        if terms.value("record") and terms.value("unit") != "record":
            raise StudyError("the parameter record names persons, whom the unit record protects")
        protected: dict[str, Any] = {"unit": terms.value("unit"), "epsilon": study.epsilon}
        protected |= {"contributors": contributors(len(study.roster), **agreed)}
        weights, parties = terms.coordinates("classifier"), len(study.roster)
        if study.classes:
            X, bins = terms.auxiliary.samples, terms.value("bins")
            plan = plan_evaluation(X, weights, len(study.classes), parties, bins=bins, **protected)
        else:
            plan = plan_error_evaluation(weights, _stated_label(terms), parties, **protected)
        stated_releases(study)
        return cls.from_plan(plan, **agreed, persons=terms.value("record"))

    @property
    def numeric_label(self) -> NumericLabel | None:
        predictions = self.plan.predictions
        return None if predictions is None else predictions.label

    @property
    def entries(self) -> VectorFormat:
        return VectorFormat(self.plan.dimension, *entry_range(self.plan.grid, self.shares))

    @property
    def context(self) -> bytes:
        return self.plan.grid.digest

    def party(
        self,
        number: int,
        signing_key: SigningKey,
        data: tuple[Any, ...],
        terms: Round,
        *,
        ledger: OnceLedger | None = None,
        encryptor: Encryptor | None = None,
        randomness: Randomness = SYSTEM,
    ) -> OwnDataParty:
        """See `Spec.party`; `data` is the party's `Rows` and, where persons are protected, their persons.

        The persons are integers, (n,), one for each row. Raises DataError where they are missing.
        """
        if self.persons and len(tuple(data)) < 3:
            raise DataError(f"the rows come without the person of each, whom the column {self.persons} names")
        if self.simulation_seed is not None:
            randomness = SimulationRandomness(self.simulation_seed, "noise share", number)
        owner = data_owner(number, signing_key, ledger)
        grid = self.plan.grid
        return OwnDataParty(owner, terms, data, grid, self.shares, randomness=randomness, encryptor=encryptor)

    def estimate(self, opened: OpenedSum) -> EvaluationEstimate:
        """Return what the noisy sum says; the noise is that of the ballots counted."""
        assert self.shares is not None
        plan = replace(self.plan, inflation=opened.ballots / self.shares.contributors)
        return estimate_evaluation(plan, list(opened.sums), opened.ballots)

    def cost(self, ballots: int) -> Release:
        """See `Spec.cost`; the cost does not depend on the number of ballots."""
        plan = self.plan
        label = self.numeric_label
        about = {"bins": plan.scores.bins} if label is None else {"largest_error": label.threshold}
        chosen: dict[str, Any] = {**about, "colluders": self.colluders}
        if self.persons:
            chosen["persons"] = self.persons
        return ledger_entry(plan.event, plan.sensitivity, "discrete Laplace in shares", chosen)

    def summary(self, result: OpenedSum) -> str:
        """See `Spec.summary`; the summary has the estimates for the evaluated classifier or prediction."""
        estimate = self.estimate(result)
        if estimate.errors is None:
            after = f"; its scores were{'' if estimate.calibration is not None else ' not'} calibrated"
            estimates = {
                "accuracy": estimate.accuracy,
                "AUROC": estimate.auroc,
                "calibration error": estimate.calibration_error,
            }
        else:
            errors, after = estimate.errors, ""
            estimates = {
                "R^2": errors.r2,
                "RMSE": errors.rmse,
                "MAE": errors.mae,
                "share of rows clipped": errors.clipped,
            }
        parts = [
            f"{name} {one.value:.4g} ± {one.error:.2g}"
            if name in ("RMSE", "MAE")
            else f"{name} {one.value:.3f} ± {one.error:.3f}"
            for name, one in estimates.items()
            if one is not None and one.value is not None and one.error is not None
        ]
        if not parts:
            return f"the noise hides how good the {'classifier' if estimate.errors is None else 'prediction'} is"
        return f"evaluated: {', '.join(parts)} (of the noise alone){after}"

    def release(self, result: OpenedSum, randomness: Randomness = SYSTEM) -> tuple[Array, Release]:
        """See `Spec.release`; the classifier is released with Platt scaling, or unchanged where that was not fitted.

        A prediction of a number is released unchanged.
        """
        if self.plan.predictions is not None:
            return self.plan.predictions.weights[:, 0], self.cost(result.ballots)
        weights, calibration = self.plan.scores.weights, self.estimate(result).calibration
        if calibration is not None:
            weights = calibrated(weights, calibration)
        return weights[:, 0] if weights.shape[1] == 1 else weights.T, self.cost(result.ballots)


def encode_releases(releases: tuple[Release, ...]) -> str:
    """Return releases as the parameter `released` of a study: JSON. How much of them is signal is left out."""
    return msgspec.json.encode([replace(release, signal=None) for release in releases]).decode()


def stated_releases(study: Study) -> tuple[Release, ...]:
    """Return what a study says that the model it evaluates was released with before, the latest first; () for nothing.

    Raises StudyError for a text that `encode_releases` does not write, or one with control characters, which JSON
    hides from the check of a study's texts.
    """
    text = str(study.parameters.get("released", ""))
    if not text:
        return ()
    try:
        releases = msgspec.json.decode(text, type=tuple[Release, ...])
    except (msgspec.MsgspecError, RecursionError):
        raise StudyError("the parameter released does not state what the evaluated model cost") from None
    if not releases or encode_releases(releases) != text:
        raise StudyError("the parameter released is not written as Psephos writes it")
    if not all(words.isprintable() for words in _texts(msgspec.to_builtins(releases))):
        raise StudyError("the parameter released has control characters in a text")
    return releases


def _texts(value: Any) -> Iterator[str]:
    """Yield all texts in nested lists and dictionaries, names included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, content in value.items():
            yield from (*_texts(name), *_texts(content))
    elif isinstance(value, list | tuple):
        for content in value:
            yield from _texts(content)


def _stated_label(terms: StudyTerms) -> NumericLabel:
    """Return the bounds that a study of a numeric label states. Raises StudyError where they are missing."""
    if missing := [name for name in BOUNDS if name not in terms.study.parameters]:
        raise StudyError(f"a study that evaluates a prediction of a number must state the parameter {missing[0]}")
    return NumericLabel(*(terms.value(name) for name in BOUNDS))
