"""Simulate a private evaluation: all parties compare a public model with their held-out rows, and one encrypted sum
with their noise says how good it is (docs/protocols/evaluation.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from psephos.curator.evaluation import (
    BINS,
    calibrated,
    largest_error,
)
from psephos.curator.ledger import costs_together
from psephos.data.own import OwnTable
from psephos.data.partition import load_split
from psephos.data.splits import Split
from psephos.model import Model, RegressionModel, ReleasedClassifier, ReleasedRegressor
from psephos.options import option
from psephos.protocol.encrypted_sum.votes import AuxiliarySet
from psephos.protocol.errors import DataError, InvalidParameter
from psephos.protocol.grids.record import NumericLabel
from psephos.protocol.privacy.mechanisms import check_epsilon
from psephos.results import Release
from psephos.results.runs import ComposedCost
from psephos.results.scores import EvaluationResult
from psephos.simulation.options import JointNoiseOptions, MachineOptions
from psephos.simulation.run import RowSum
from psephos.specs.evaluation import BOUNDS, EvaluationSpec
from psephos.specs.terms import PrivacyTerms, PublicTerms

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions(JointNoiseOptions, MachineOptions):
    """Options of `psephos evaluate`."""

    epsilon: float = option(
        1.0, "Privacy of the evaluation, of a record or (--unit party) of a party.", group="Privacy"
    )
    unit: Literal["record", "party"] = option(
        "record",
        "What epsilon protects: record (one row, which is replaced, added or removed) or party (all rows of a party; "
        "then only the mean of the parties' accuracies, or of their absolute errors, is estimated).",
        group="Privacy",
    )
    rows: Literal["held-out", "all"] = option(
        "held-out",
        "With --data: the rows that `psephos run` held out with the same --held-out, --seed and unit; or all rows, of "
        "a table that the model has not seen.",
        group="Your own data",
    )
    bins: int = option(
        BINS, "Of a classifier: bins of the score. More show more detail under more noise.", group="Privacy"
    )
    largest_error: float | None = option(
        None,
        "Of a prediction of a number: larger errors count as this one. A smaller one has less noise.",
        group="Privacy",
        shown="three quarters of the range of predictions",
    )
    task: Literal["classification", "regression"] = option("classification", "What the model predicts.")

    def check(self) -> None:
        super().check()
        check_epsilon(self.epsilon)
        if self.rows == "all" and self.data is None:
            raise InvalidParameter("--rows all is about your own table: name it with --data FILE")
        if self.rows == "held-out" and self.data is not None and not self.held_out:
            raise InvalidParameter("no rows are held out with --held-out 0: leave it out, or add --rows all")

    @property
    def readers(self) -> dict[str, tuple[bool, str]]:
        numeric, classes = self.predicts_number, "a model that classifies"
        return super().readers | {
            "largest_error": (numeric, "a model that predicts a number"),
            "bins": (not numeric, classes),
            "classes": (not numeric, classes),
            "other_labels": (not numeric or self.other_labels == "drop", classes),
        }

    @property
    def names_classes(self) -> bool:
        return False

    @property
    def compares(self) -> bool:
        """False: whether rows are left is the parties' secret, and no error may tell."""
        return False


class EvaluationRun(RowSum):
    """One evaluation of a `model`, on rows that are encoded as the model encodes them."""

    released, phase = "evaluation", "score and encrypt"
    options: EvaluationOptions
    spec: EvaluationSpec

    def __init__(self, options: EvaluationOptions, evaluated: ReleasedClassifier | ReleasedRegressor) -> None:
        self.model = model = evaluated.model
        options, split = _assign_rows(options, model)
        agreed: dict[str, Any]
        if isinstance(model, RegressionModel):
            largest = options.largest_error
            bounds = (*model.bounds, largest_error(*model.bounds) if largest is None else largest)
            middle = NumericLabel(*bounds).middle
            weights = np.append(model.coefficients, model.intercept - middle)[:, None]
            agreed = dict(zip(BOUNDS, bounds, strict=True))
        else:
            weights = np.vstack([np.transpose(model.coefficients), model.intercepts])
            agreed = {"bins": options.bins}
        spec = EvaluationSpec.plan(
            PublicTerms(
                auxiliary=AuxiliarySet(self._prepared(split.X_auxiliary)),
                classes=1 if isinstance(model, RegressionModel) else len(model.classes),
                parties=options.parties,
                agreed={"classifier": weights, **agreed},
            ),
            PrivacyTerms(
                epsilon=options.epsilon,
                unit=options.unit,
                persons=options.record or "",
                colluders=options.coalition,
                dropouts=options.dropouts,
                simulation_seed=options.seed if options.simulate_noise else None,
            ),
        )
        super().__init__(options, split, spec)

    def rows_of(self, number: int) -> tuple[Any, ...]:
        split, data = self.split, self.split.dataset
        if split.encoding is None:
            order = np.random.default_rng([self.options.seed, 3]).permutation(len(split.y_test))
            own = np.sort(np.array_split(order, self.options.parties)[number])
            return self._prepared(split.X_test[own]), split.y_test[own]
        own = split.held_out[number]
        if self.options.rows == "all":
            own = np.sort(np.concatenate([own, split.parties[number]]))
        rows = self._prepared(data.X_train[own]), data.y_train[own]
        return rows if split.persons is None else (*rows, split.persons[own])

    def _prepared(self, X: Any) -> Array:
        """Return encoded rows (n, d) in the model's ranges, with the constant 1, float64 (n, d + 1)."""
        dense = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
        if isinstance(self.model, RegressionModel):
            dense = np.clip(dense, *np.transpose(self.model.ranges))
        return np.column_stack([dense, np.ones(len(dense))])

    @property
    def cautions(self) -> list[str]:
        cautions, trained_for = list(self.split.cautions), (self.model.release, *self.model.earlier)[-1].unit
        if self.split.encoding is not None and self.options.rows == "held-out" and trained_for != self.options.unit:
            cautions.append(
                f"The model was released with --unit {trained_for}, which holds other rows out than --unit "
                f"{self.options.unit}: most of the evaluated rows are rows that it was trained on, if it was trained "
                "on this table."
            )
        return cautions

    def run(self, **context: Any) -> EvaluationResult:
        done, released = self.sum(**context), self.model.release
        fields = self.fields(done)
        return EvaluationResult(
            **fields,
            class_names=[] if isinstance(self.model, RegressionModel) else list(self.model.classes),
            method=self.model.method,
            estimate=self.spec.estimate(done.opened),
            together=_total(fields["privacy"], (released, *self.model.earlier)),
            released=released,
            cautions=self.cautions,
        )


def _assign_rows(options: EvaluationOptions, model: Model | RegressionModel) -> tuple[EvaluationOptions, Split]:
    """Return the options for the table and the model, and the rows in the model's encoding, assigned to the parties."""
    options = replace(options, task="regression" if isinstance(model, RegressionModel) else "classification")
    if isinstance(model, RegressionModel):
        options.check()
        if options.label != model.label:
            raise InvalidParameter(f"the model predicts the number {model.label}, and --label is {options.label}")
    elif options.data is None:
        options, split = load_split(options)
        if split.dataset.features != len(model.encoding.features) or split.dataset.classes != model.classes:
            raise DataError(
                f"the model has {len(model.encoding.features)} features and the classes {', '.join(model.classes)}; "
                f"{split.dataset.name} has others: name its data with --data FILE or --dataset NAME"
            )
        return options, split
    else:
        if options.classes and options.classes != model.classes:
            raise InvalidParameter(f"the classes of the model are {', '.join(model.classes)}: leave --classes out")
        options = replace(options, classes=model.classes)
    table = OwnTable(options)
    if table.owners:
        options = replace(options, parties=len(table.owners))
    options.check()
    return options, table.deal(
        options.parties, options.seed, by_content=options.protects_records, agreed=model.encoding
    )


def _total(entry: Release, earlier: Sequence[Release]) -> ComposedCost | None:
    """Return the cost of an evaluation and of the model's releases; None where one does not protect its unit, too."""
    cost, *_ = costs_together((entry, *earlier))
    covering = cost.releases == 1 + sum(release.epsilon != 0 for release in earlier)
    if not covering or cost.epsilon is None or cost.delta is None:
        return None
    return ComposedCost(cost.releases, cost.epsilon, cost.delta)


def calibrated_model(model: Model, result: EvaluationResult) -> Model:
    """Return a model whose scores are calibrated, with the evaluation's cost.

    Raises InvalidParameter for a result without Platt scaling, such as that of a prediction of a number.
    """
    calibration = result.estimate.calibration
    if calibration is None:
        raise InvalidParameter("Platt scaling was not fitted: the rows are too few for this epsilon")
    weights = np.vstack([np.array(model.coefficients).T, np.array(model.intercepts)])
    scaled = calibrated(weights, calibration)
    earlier = (replace(model.release, signal=None), *model.earlier)
    warnings = [*model.warnings, *result.page().warnings]
    return Model(
        psephos_model=1,
        classes=model.classes,
        encoding=model.encoding,
        coefficients=(tuple(scaled[:-1, 0].tolist()),),
        intercepts=(float(scaled[-1, 0]),),
        method=model.method,
        parties=result.ballots,
        release=result.privacy,
        earlier=earlier,
        together=costs_together((result.privacy, *earlier)),
        warnings=tuple(dict.fromkeys(warnings)),
        calibration=(calibration.slope, calibration.intercept),
    )
