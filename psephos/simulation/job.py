"""The jobs of `psephos run` and `psephos evaluate`: one release from a table, or an evaluation of a model.

`psephos run` is a tally (`psephos.simulation.tally`) with one release by one method, which opens only what that method
needs; or a regression, which is a record step for a numeric label (docs/protocols/record.md). In an evaluation all
parties compare a public model with their held-out rows (docs/protocols/evaluation.md).
"""

from __future__ import annotations

import json
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, Unpack

import msgspec
import numpy as np
from numpy.typing import NDArray

from psephos.budget import budget_of
from psephos.curator.evaluation import BINS, calibrated, largest_error
from psephos.curator.ledger import Release, costs_together
from psephos.curator.noise_plan import Unit
from psephos.curator.record import ROWS_PER_PARTY
from psephos.data.own import Frames, OwnTable
from psephos.data.partition import load_split
from psephos.data.preprocessing import PublicScaler, own_scaler
from psephos.data.schema import WIDEST
from psephos.data.splits import Split
from psephos.data.tables import Column, Encoding
from psephos.files import write_atomically
from psephos.model import MODEL_FILE, Model, RegressionModel, write_onnx, written_model
from psephos.options import option
from psephos.progress import Progress, silent
from psephos.protocol.encrypted_sum.votes import AuxiliarySet
from psephos.protocol.errors import DataError, InvalidParameter, ModelError
from psephos.protocol.grids.record import NumericLabel
from psephos.protocol.privacy.accounting import stated
from psephos.protocol.privacy.mechanisms import check_epsilon
from psephos.protocol.randomness import SYSTEM
from psephos.released import ReleasedClassifier, ReleasedRegressor, best_class
from psephos.results.base import Result, timed
from psephos.results.card import model_card
from psephos.results.runs import ComposedCost, TallyResult
from psephos.results.scores import EvaluationResult, RegressionError, RegressionResult
from psephos.simulation.encrypted_sum import EncryptedSum
from psephos.simulation.forecast import Forecast, PublicRows, forecast
from psephos.simulation.options import (
    LABELLED_METHODS,
    PUBLIC,
    RECORD_METHODS,
    HolderOptions,
    JobOptions,
    JointNoiseOptions,
    MachineOptions,
)
from psephos.simulation.run import KeyedRun, RunContext
from psephos.simulation.sum_forecast import SumForecast, decided
from psephos.simulation.sums import SumCharges
from psephos.simulation.tally import simulate_tally
from psephos.specs.base import Expectation
from psephos.specs.noisy import NoisySumSpec
from psephos.specs.rows import BOUNDS, EvaluationSpec, RegressionSpec
from psephos.specs.terms import PrivacyTerms, PublicTerms

Array = NDArray[np.float64]


class Job:
    """One run of the main job; `options` have the chosen `method`, learners and value of `reveal`."""

    def __init__(self, options: JobOptions, *, beside: Sequence[str] = (), frames: Frames | None = None) -> None:
        """Read the data, and assign rows to parties; where several methods could be released, `decide` chooses one.

        `frames`: the table, in place of the files that the options name.
        """
        if options.task == "regression":
            raise InvalidParameter("a regression is a RegressionRun")
        options, self.split = load_split(options, frames)
        self._candidates, self._beside = options.candidates(), tuple(beside)
        self.forecast: Forecast | None = None
        self._choose(self._candidates[0])

    def _choose(self, options: JobOptions) -> None:
        self.method = options.chosen_method
        self.options = replace(options, methods=(self.method, *self._beside))

    def decide(self, progress: Progress = silent) -> None:
        """Choose the method by a `forecast`, before anything is encrypted or charged, unless one is wanted anyway.

        Raises UselessReleaseError where no release is expected to be worth its cost, and public rows have no labels,
        and BudgetExceededError where the budget file allows none.
        """
        split, options = self.split, self.options
        settled = options.anyway and len(self._candidates) == 1 and self.method not in LABELLED_METHODS
        if self.forecast is not None or options.data is None or settled:
            return
        rows, classes = np.asarray(split.X_auxiliary), split.dataset.classes
        public = PublicRows(rows, split.public_labels, classes, split.log_odds)
        affordable = self._candidates
        if options.journal is None:  # a run that continues is paid for, and must be decided as it was before
            affordable = [each for each in affordable if SumCharges(each, split).allowed]
            if not affordable:
                SumCharges(options, split).check()
        self.forecast = forecast(affordable, public, progress)
        self._choose(self.forecast.chosen.options)
        if self.forecast.decision == "public":
            self.method = PUBLIC

    @property
    def warnings_about_data(self) -> list[str]:
        """The warnings about how the table was read; `data_summary` ends with them."""
        return [] if self.split.encoding is None else [*self.split.cautions, *self.split.private_remarks]

    @property
    def data_summary(self) -> list[str]:
        """Describe how the table was read, in lines that a user reads before anything is computed."""
        split = self.split
        if split.encoding is None:
            return []
        public = "samples drawn from the schema" if split.schema == "samples" else "public rows"
        units = "parties" if self.options.party is not None else "shards dealt at random"
        counts = f"{len(split.parties)} {units}, {len(split.auxiliary)} {public}, {split.sizes.sum()} private rows"
        tested = f" and {len(split.test)} held out to measure on"
        lines = [f"{split.dataset.name}: {counts}{tested}; classes {', '.join(split.dataset.classes)}"]
        lines += [f"  {name}: {words}" for name, words in split.encoding.summary]
        lines += [f"  features: {split.note}"] if split.note else []
        warnings = [f"WARNING: {text}" for text in self.warnings_about_data]
        return [*lines, *warnings]

    def run(self, *, encrypted: bool = True, **context: Unpack[RunContext]) -> TallyResult:
        """Decide, and release; `encrypted`: see `simulate_tally`."""
        self.decide(context.get("progress", silent))
        context |= {"data": self.split, "public_only": self.method == PUBLIC}
        result = simulate_tally(self.options, encrypted=encrypted, **context)
        remarks = result.remarks if self.forecast is None else [self.forecast.reason, *result.remarks]
        return replace(result, cautions=[*self.split.cautions, *self.split.private_remarks], remarks=remarks)

    def check_model(self) -> None:
        """Raise InvalidParameter where no model file can have all features."""
        if self.split.dataset.features > WIDEST:
            raise InvalidParameter(
                f"a model file has at most {WIDEST:,} features, and these data have more: leave columns or --output out"
            )

    def model(self, result: TallyResult) -> Model:
        self.check_model()
        coefficients, intercepts = result.evaluation.scaler.fold(np.atleast_2d(result.weights[self.method]))
        released = result.privacy[self.method]  # warnings about other methods' releases are not this model's
        return Model(
            psephos_model=1,
            classes=self.split.dataset.classes,
            encoding=self._encoding(),
            coefficients=tuple(map(tuple, coefficients.tolist())),
            intercepts=tuple(intercepts.tolist()),
            method=self.method,
            parties=result.parties if result.asked else 0,
            release=released,
            warnings=tuple(replace(result, cautions=[], privacy={self.method: released}).page().texts("warning")),
        )

    def write(self, result: TallyResult, directory: Path, *, onnx: bool = False) -> list[Path]:
        """Write a result of `run` into a directory that exists; see `write_release`."""
        model = self.model(result)
        card = model_card(model, result, self.split, self._right_in_public(model))
        return write_release(directory, model, card, result, onnx=onnx)

    def _encoding(self) -> Encoding:
        """Return how a table with these features is encoded; all features of a published data set are numbers."""
        if self.split.encoding is not None:
            return self.split.encoding
        data = self.split.dataset
        names = data.feature_names or [f"x{place + 1}" for place in range(data.features)]
        fills = np.median(self.split.X_auxiliary, axis=0).tolist()
        return Encoding(tuple(Column(name, "number", fill=fill) for name, fill in zip(names, fills, strict=True)))

    def _right_in_public(self, model: Model) -> float | None:
        rows = self.split.auxiliary[self.split.dataset.y_train[self.split.auxiliary] >= 0]
        fitted = self.method in (PUBLIC, *LABELLED_METHODS, *RECORD_METHODS)
        if self.options.public is None or not len(rows) or fitted:
            return None
        data = self.split.dataset
        names = np.array(data.classes)[data.y_train[rows]]
        released = ReleasedClassifier(model)
        return float(np.mean(released.classes_[best_class(released.scores(data.X_train[rows]))] == names))


def write_release(
    directory: Path, model: Model | RegressionModel, card: str, result: Result, *, onnx: bool
) -> list[Path]:
    """Write a model, its card and the result's JSON into a directory that exists, and return their paths.

    Raises ModelError where a file cannot be written, and InvalidParameter where the package onnx is missing.
    """
    try:
        write_atomically(directory / MODEL_FILE, written_model(model))
        write_atomically(directory / "card.md", card.encode())
        document = json.dumps(result.as_json(), indent=1) + "\n"
        write_atomically(directory / "result.json", document.encode(), mode=0o600)  # depends on private rows
        if onnx:
            write_onnx(model, directory / "model.onnx")
    except OSError as error:
        raise ModelError(
            f"{directory}: {error.strerror}; files that are missing there cannot be made again: another run "
            "would spend epsilon again"
        ) from None
    return [directory / name for name in (MODEL_FILE, "card.md", "result.json", *(["model.onnx"] * onnx))]


# -- one sum over the parties' rows


class RowSum(ABC):
    """A run of one encrypted sum over the parties' own rows: a regression, or the evaluation of a model.

    Attributes:
        released: what a budget file calls the release.
        phase: what progress calls the parties' work.
    """

    released: ClassVar[str]
    phase: ClassVar[str]

    def __init__(self, options: Any, split: Split, spec: NoisySumSpec) -> None:
        self.options, self.split, self.spec = options, split, spec
        self.forecast: SumForecast | None = None
        self._budget = budget_of(options, split, options.unit)
        self._event = replace(stated(spec.release_plan.event, getattr(options, "delta", 0.0)), name=self.released)

    @abstractmethod
    def rows_of(self, number: int) -> tuple[Any, ...]:
        """Return a party's rows, float64 (n, d + 1), and their labels, (n,).

        Where persons are protected, also whose each row is, int64 (n,). Secrets.
        """

    def decide(self) -> None:
        """Decide about the sum by a forecast, before anything is encrypted or charged, unless it is wanted anyway.

        Raises UselessReleaseError where it is not expected to be worth its cost, and nothing can be released instead.
        """
        if self.forecast is None and self.options.data is not None and not self.options.anyway:
            self.forecast = self._decided()

    @abstractmethod
    def _decided(self) -> SumForecast | None:
        """Return the decision about the sum."""

    @property
    def remarks(self) -> list[str]:
        return [] if self.forecast is None else [self.forecast.reason]

    def sum(self, **context: Unpack[RunContext]) -> EncryptedSum:
        """Make the keys, and take the sum, whose noise is complete without the agreed number of absent parties.

        It is charged before the parties are asked. Raises BudgetExceededError before anything is computed.
        """
        budget = replace(self._budget, run=SYSTEM.draw(16))
        charges = [budget.release(self.released, self._event)]
        budget.check(charges)
        run = KeyedRun(self.options, context, before_sum=partial(budget.charge, charges))
        rows = [self.rows_of(number) for number in range(self.options.parties)]
        # At least 2 ballots: `contributors` leaves one share beside the observer's.
        least = self.options.parties - self.options.dropouts
        done = run.sum(self.spec, rows, self.phase, minimum_ballots=least)
        return replace(done, seconds=run.seconds)

    def fields(self, done: EncryptedSum | None) -> dict[str, Any]:
        """Return the fields that the results of all such runs have, of an opened sum; None where no party was asked."""
        fields = {
            "options": self.options.plain(),
            "dataset": self.split.dataset.name,
            "phases": {},
            "privacy": Release("none", 0.0, 0.0, self.options.unit, protects=self.options.protects),
            **dict.fromkeys(("ballots", "ciphertexts_per_ballot", "bytes_per_ballot"), 0),
            "tally_equals_plaintext": True,
            "colluders": None,
            "remarks": self.remarks,
        }
        if done is None:
            return fields
        cost = self.spec.cost(done.opened.ballots)
        # The time of other phases depends on private rows.
        settled = {name: done.seconds[name] for name in ("keygen", "decrypt")}
        return fields | {
            "phases": timed(settled),
            "privacy": replace(cost, delta=self._event.delta, protects=self.options.protects),
            "ballots": done.opened.ballots,
            "ciphertexts_per_ballot": done.round.plan.ciphertexts,
            "bytes_per_ballot": done.ballot_bytes,
            "tally_equals_plaintext": done.equals_plaintext,
            "deviations": list(done.deviations),
            "colluders": self.options.coalition or 0,
            "budget": self._budget.summary(),
        }


def _terms(options: HolderOptions, epsilon: float) -> PrivacyTerms:
    """Return what a release protects, with noise of the seed in a simulation."""
    return replace(options.privacy(epsilon), simulation_seed=options.seed if options.simulate_noise else None)


# -- regression


class RegressionRun(RowSum):
    """One regression; `scaler`: public, clips encoded rows to the ranges of public ones and scales them."""

    released, phase = "newton", "sum and encrypt"
    options: JobOptions
    spec: RegressionSpec

    def __init__(self, options: JobOptions, split: Split | Frames | None = None) -> None:
        """Assign rows to parties, in place of `split` those that the options name, and plan from public values."""
        if options.task != "regression":
            raise InvalidParameter("a numeric label is predicted with --task regression")
        options, split = load_split(options, split)
        self.scaler: PublicScaler = own_scaler(predicts_number=True).fit(split.X_auxiliary)
        self._public = PublicTerms(
            auxiliary=AuxiliarySet(self.prepared(split.X_auxiliary)),
            classes=1,
            parties=options.parties,
            labels=split.public_labels,
            rows=options.announced_rows,
        )
        spec = RegressionSpec.plan(self._public, _terms(options, options.epsilon[0]))
        super().__init__(options, split, spec)

    def _decided(self) -> SumForecast | None:
        return decided(lambda _: self.spec.expected(self._public), self.options.epsilon[0], writes=True)

    def prepared(self, X: Any) -> Array:
        """Return encoded rows (n, d) clipped and scaled, float64 (n, d + 1)."""
        rows: Array = self.scaler.transform(np.asarray(X, dtype=np.float64))
        return rows

    def rows_of(self, number: int) -> tuple[Any, ...]:
        X, y = self.split.party(number)
        rows = self.prepared(X), np.asarray(y, dtype=np.float64)
        return rows if self.split.persons is None else (*rows, self.split.persons[self.split.parties[number]])

    def run(self, **context: Any) -> RegressionResult:
        """Decide, and release."""
        self.decide()
        released = self.forecast is None or self.forecast.decision == "release"
        return self.release(self.sum(**context) if released else None)

    def release(self, done: EncryptedSum | None) -> RegressionResult:
        """Return the result of an opened sum; None releases the prediction of the public rows."""
        split, spec = self.split, self.spec
        fields = self.fields(done)
        weights = spec.grid.offset[:, 0] if done is None else spec.fitted(done.opened)
        chosen = fields["privacy"].chosen | {"labelled": spec.release_plan.labelled}
        fields["privacy"] = replace(fields["privacy"], chosen=chosen)
        errors = self.errors(weights)
        if done is None:
            errors.pop("newton", None)
        return RegressionResult(
            **fields,
            label=self.options.label or "label",
            bounds=(spec.label.low, spec.label.high),
            threshold_of_residuals=spec.label.threshold,
            features=split.dataset.features,
            auxiliary=len(split.auxiliary),
            test=len(split.test),
            errors=errors,
            cautions=[*split.cautions, *split.private_remarks],
            weights=weights,
        )

    def errors(self, weights: Array, *, references: bool = True) -> dict[str, RegressionError]:
        """Return the errors of released weights of scaled rows, (d + 1,), on the held-out rows, by predictor. Secrets.

        `references`: whether to fit least squares, Huber regression and trees to all private rows, and a forest to the
        public ones.
        """
        # Imported here because it takes a quarter of a second.
        from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

        if len(self.split.y_test) < 2:
            return {}
        grid = self.spec.release_plan.grid
        test, y = self.prepared(self.split.X_test), np.asarray(self.split.y_test, dtype=np.float64)
        predictions = {"newton": grid.predict(weights, test), "public": grid.predict(grid.offset[:, 0], test)}
        if references:
            predictions |= self._references()
        errors = {}
        with np.errstate(all="ignore"):
            for name, each in predictions.items():
                figures = r2_score(y, each), root_mean_squared_error(y, each), mean_absolute_error(y, each)
                if np.isfinite(figures).all():
                    errors[name] = RegressionError(*map(float, figures))
        return errors

    def _references(self) -> dict[str, Array]:
        from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
        from sklearn.linear_model import HuberRegressor, LinearRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        split, seed, labels = self.split, self.options.seed, self.split.dataset.y_train
        public = split.auxiliary[np.isfinite(labels[split.auxiliary])]
        private = np.concatenate(split.parties)
        regressors = {
            "public-forest": (RandomForestRegressor(random_state=seed), public),
            "least squares": (LinearRegression(), private),
            "huber": (HuberRegressor(max_iter=1000), private),
            "trees": (HistGradientBoostingRegressor(max_iter=50, early_stopping=False, random_state=seed), private),
        }
        predictions = {}
        for name, (regressor, rows) in regressors.items():
            with suppress(ValueError), np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # whether a solver warns depends on private rows
                fitted = make_pipeline(StandardScaler(), regressor).fit(split.dataset.X_train[rows], labels[rows])
                predictions[name] = np.nan_to_num(fitted.predict(split.X_test))
        return predictions

    def model(self, result: RegressionResult) -> RegressionModel:
        encoding = self.split.encoding
        if encoding is None:
            raise InvalidParameter("a regression is released from your own table: name it with --data FILE")
        assert self.scaler.ranges_ is not None
        coefficients, intercepts = self.scaler.fold(result.weights[None, :])
        return RegressionModel(
            psephos_model=1,
            task="regression",
            label=result.label,
            encoding=encoding,
            ranges=tuple(map(tuple, self.scaler.ranges_.T.tolist())),
            coefficients=tuple(coefficients[0].tolist()),
            intercept=float(intercepts[0] + self.spec.label.middle),
            bounds=result.bounds,
            method="newton" if result.asked else PUBLIC,
            parties=self.options.parties if result.asked else 0,
            release=result.privacy,
            warnings=tuple(result.warnings_of_model()),
        )

    def write(self, result: RegressionResult, directory: Path, *, onnx: bool) -> list[Path]:
        """Write a result of `run` into a directory that exists; see `write_release`."""
        model = self.model(result)
        return write_release(directory, model, model_card(model, result, self.split), result, onnx=onnx)


# -- evaluation


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
    anyway: bool = option(
        False, "With --data: evaluate even where the noise is expected to hide the answer.", group="Privacy"
    )

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
            "anyway": (self.data is not None, "your own table (--data FILE)"),
            "features": (False, "psephos run: a model contains its features"),
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

    def __init__(
        self,
        options: EvaluationOptions,
        evaluated: ReleasedClassifier | ReleasedRegressor,
        frames: Frames | None = None,
    ) -> None:
        """Assign rows to parties, and plan; `frames`: the table, in place of the files that the options name."""
        self.model = model = evaluated.model
        options, split = _assign_rows(options, model, frames)
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
        labels = None if split.encoding is None else split.public_labels
        share = 1.0 if options.rows == "all" else options.held_out
        self._public = PublicTerms(
            auxiliary=AuxiliarySet(self._prepared(split.X_auxiliary)),
            classes=1 if isinstance(model, RegressionModel) else len(model.classes),
            parties=options.parties,
            labels=labels,
            rows=max(1, round(share * options.parties * ROWS_PER_PARTY)),
            agreed={"classifier": weights, **agreed},
        )
        self._privacy = _terms(options, options.epsilon)
        spec = EvaluationSpec.plan(self._public, self._privacy)
        super().__init__(options, split, spec)

    def _decided(self) -> SumForecast | None:
        def expected(epsilon: float, unit: Unit = self.options.unit) -> Expectation:
            spec = EvaluationSpec.plan(self._public, replace(self._privacy, epsilon=epsilon, unit=unit))
            one = spec.expected(self._public)
            by_record = unit == "party" and not one.useful and expected(epsilon, "record").useful
            return one._replace(changes=("--unit record", *one.changes)) if by_record else one

        return decided(expected, self.options.epsilon)

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
        """Decide, and evaluate."""
        self.decide()
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


def _assign_rows(
    options: EvaluationOptions, model: Model | RegressionModel, frames: Frames | None
) -> tuple[EvaluationOptions, Split]:
    """Return the options for the table and the model, and the rows in the model's encoding, assigned to the parties."""
    options = replace(options, task="regression" if isinstance(model, RegressionModel) else "classification")
    if isinstance(model, RegressionModel):
        options.check()
        if options.label != model.label:
            raise InvalidParameter(f"the model predicts the number {model.label}, and --label is {options.label}")
    elif options.data is None:
        options, split = load_split(options)
        inputs = len(model.encoding.inputs)
        if model.encoding.map or split.dataset.features != inputs or split.dataset.classes != model.classes:
            raise DataError(
                f"the model has {inputs} columns and the classes {', '.join(model.classes)}; {split.dataset.name} has "
                "others: name its data with --data FILE or --dataset NAME"
            )
        return options, split
    else:
        if options.classes and options.classes != model.classes:
            raise InvalidParameter(f"the classes of the model are {', '.join(model.classes)}: leave --classes out")
        options = replace(options, classes=model.classes)
    table = OwnTable(options, frames)
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
    warnings = [*model.warnings, *result.page().texts("warning")]
    return msgspec.structs.replace(
        model,
        coefficients=(tuple(scaled[:-1, 0].tolist()),),
        intercepts=(float(scaled[-1, 0]),),
        parties=result.ballots,
        release=result.privacy,
        earlier=earlier,
        together=costs_together((result.privacy, *earlier)),
        warnings=tuple(dict.fromkeys(warnings)),
        calibration=(calibration.slope, calibration.intercept),
    )
