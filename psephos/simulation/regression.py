"""Simulate a private regression: a record step for a numeric label (docs/protocols/record.md)."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import HuberRegressor, LinearRegression
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from psephos.budget import budget_of
from psephos.data.partition import load_split
from psephos.data.preprocessing import PublicScaler, own_scaler
from psephos.data.splits import Split
from psephos.files import write_atomically
from psephos.model import MODEL_FILE, RegressionModel, write_onnx, written_model
from psephos.protocol.encrypted_sum.votes import AuxiliarySet
from psephos.protocol.errors import InvalidParameter, ModelError
from psephos.protocol.privacy.accounting import stated
from psephos.results.base import timed
from psephos.results.card import model_card
from psephos.results.regression import RegressionError, RegressionResult
from psephos.simulation.encrypted_sum import EncryptedSum
from psephos.simulation.job import JobOptions
from psephos.simulation.one_sum import take_sum
from psephos.specs.record import RegressionSpec
from psephos.specs.terms import PrivacyTerms, PublicTerms

__all__ = ["RegressionRun"]

Array = NDArray[np.float64]


class RegressionRun:
    """One regression: which party holds which rows, and the plan, from public values.

    Attributes:
        options: the options, whose number of parties is that of the table.
        split: the rows.
        scaler: clips encoded rows to the ranges of the public ones, and scales them, as in a study. Public.
        spec: the protocol.
    """

    def __init__(self, options: JobOptions, split: Split | None = None) -> None:
        """Read the data, assign rows to parties, and plan from public values.

        Args:
            options: of the run.
            split: rows that are assigned already, with float64 labels, in place of those that the options name.

        Raises:
            InvalidParameter: the options cannot be used.
            DataError: the data cannot be used.
        """
        if options.task != "regression":
            raise InvalidParameter("a numeric label is predicted with --task regression")
        self.options, self.split = load_split(options, split)
        options = self.options
        public = self.split.X_auxiliary
        self.scaler: PublicScaler = own_scaler(numeric_label=True).fit(public)
        self.spec = RegressionSpec.plan(
            PublicTerms(
                auxiliary=AuxiliarySet(self.prepared(public)),
                classes=1,
                parties=options.parties,
                labels=self.split.public_labels,
                rows=options.announced_rows,
            ),
            PrivacyTerms(
                epsilon=options.epsilon[0],
                delta=options.delta,
                mechanism=options.noise,
                unit=options.unit,
                persons=options.record or "",
                colluders=options.coalition or 0,
                dropouts=options.dropouts,
                simulation_seed=options.seed if options.simulate_noise else None,
            ),
        )
        self._budget = budget_of(options, self.split, options.unit)

    def prepared(self, X: Any) -> Array:
        """Return encoded rows (n, d) clipped and scaled, float64 (n, d + 1)."""
        rows: Array = self.scaler.transform(np.asarray(X, dtype=np.float64))
        return rows

    def rows_of(self, number: int) -> tuple[Any, ...]:
        """Return a party's rows, float64 (n, d + 1), and their labels, float64 (n,).

        Where persons are protected, also whose each row is, int64 (n,). Secrets.
        """
        X, y = self.split.party(number)
        rows = self.prepared(X), np.asarray(y, dtype=np.float64)
        return rows if self.split.persons is None else (*rows, self.split.persons[self.split.parties[number]])

    def sum(self, **context: Any) -> EncryptedSum:
        """Take the encrypted sum; keywords and errors as `take_sum`."""
        rows = [self.rows_of(number) for number in range(self.options.parties)]
        if self._budget is not None:
            context["charge"] = (
                self._budget,
                replace(stated(self.spec.release_plan.event, self.options.delta), name="newton"),
            )
        return take_sum(self.options, self.spec, rows, "sum and encrypt", **context)

    def run(self, **context: Any) -> tuple[RegressionResult, RegressionModel]:
        """Take the encrypted sum, and release the prediction.

        Returns:
            The result, and the contents of the model file.
        """
        return self.release(self.sum(**context))

    def release(self, done: EncryptedSum) -> tuple[RegressionResult, RegressionModel]:
        """Return the result, and the contents of the model file, of an opened sum."""
        options, split, spec = self.options, self.split, self.spec
        weights = spec.fitted(done.opened)
        entry = replace(spec.cost(done.opened.ballots), delta=stated(spec.release_plan.event, options.delta).delta)
        entry = replace(
            entry, chosen={**entry.chosen, "labelled": spec.release_plan.labelled}, protects=options.protects
        )
        settled = {name: done.seconds[name] for name in ("keygen", "decrypt")}
        result = RegressionResult(
            options=options.plain(),
            dataset=split.dataset.name,
            label=options.label or "label",
            bounds=(spec.label.low, spec.label.high),
            threshold_of_residuals=spec.label.threshold,
            features=split.dataset.features,
            auxiliary=len(split.auxiliary),
            test=len(split.test),
            errors=self.errors(weights),
            phases=timed(settled),  # the time of other phases depends on private rows
            privacy=entry,
            ballots=done.opened.ballots,
            ciphertexts_per_ballot=done.round.plan.ciphertexts,
            bytes_per_ballot=done.ballot_bytes,
            tally_equals_plaintext=done.equals_plaintext,
            colluders=options.coalition or 0,
            budget=None if self._budget is None else self._budget.summary(),
            cautions=[*split.cautions, *split.private_remarks],
        )
        return result, self._model(result, weights)

    def errors(self, weights: Array, *, references: bool = True) -> dict[str, RegressionError]:
        """Return the errors on the held-out rows, by predictor (`psephos.results.regression.PREDICTORS`). Secrets.

        Args:
            weights: the released prediction of scaled rows, (d + 1,).
            references: whether to fit least squares and Huber regression to all private rows.
        """
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
        """Return the predictions for the held-out rows of regressions that are fitted to all private rows."""
        rows = np.concatenate(self.split.parties)
        X, labels = self.split.dataset.X_train[rows], self.split.dataset.y_train[rows]
        predictions = {}
        for name, regressor in (("least squares", LinearRegression()), ("huber", HuberRegressor(max_iter=1000))):
            with suppress(ValueError), np.errstate(all="ignore"):
                fitted = make_pipeline(StandardScaler(), regressor).fit(X, labels)
                predictions[name] = np.nan_to_num(fitted.predict(self.split.X_test))
        return predictions

    def _model(self, result: RegressionResult, weights: Array) -> RegressionModel:
        encoding = self.split.encoding
        if encoding is None:
            raise InvalidParameter("a regression is released from your own table: name it with --data FILE")
        assert self.scaler.ranges_ is not None
        coefficients, intercepts = self.scaler.fold(weights[None, :])
        return RegressionModel(
            psephos_model=1,
            task="regression",
            label=result.label,
            encoding=encoding,
            ranges=tuple(map(tuple, self.scaler.ranges_.T.tolist())),
            coefficients=tuple(coefficients[0].tolist()),
            intercept=float(intercepts[0] + self.spec.label.middle),
            bounds=result.bounds,
            method="newton",
            parties=self.options.parties,
            release=result.privacy,
            warnings=tuple(result.warnings_of_model()),
        )

    def write(self, result: RegressionResult, model: RegressionModel, directory: Path, *, onnx: bool) -> list[Path]:
        """Write the model, its card and the result's JSON into a directory that exists, and return their paths.

        Raises:
            ModelError: a file cannot be written.
            InvalidParameter: the package onnx is missing.
        """
        try:
            write_atomically(directory / MODEL_FILE, written_model(model))
            write_atomically(directory / "card.md", model_card(model, result, self.split).encode())
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
