"""Simulate a private regression: a record step for a numeric label (docs/protocols/record.md)."""

from __future__ import annotations

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

from psephos.data.partition import load_split
from psephos.data.preprocessing import PublicScaler, own_scaler
from psephos.data.splits import Split
from psephos.model import RegressionModel
from psephos.protocol.encrypted_sum.votes import AuxiliarySet
from psephos.protocol.errors import InvalidParameter
from psephos.results.card import model_card
from psephos.results.regression import RegressionError, RegressionResult
from psephos.simulation.encrypted_sum import EncryptedSum
from psephos.simulation.job import write_release
from psephos.simulation.options import JobOptions
from psephos.simulation.run import RowSum
from psephos.specs.record import RegressionSpec
from psephos.specs.terms import PublicTerms

Array = NDArray[np.float64]


class RegressionRun(RowSum):
    """One regression; `scaler`: public, clips encoded rows to the ranges of public ones and scales them."""

    released, phase = "newton", "sum and encrypt"
    options: JobOptions
    spec: RegressionSpec

    def __init__(self, options: JobOptions, split: Split | None = None) -> None:
        """Assign rows to parties, in place of `split` those that the options name, and plan from public values."""
        if options.task != "regression":
            raise InvalidParameter("a numeric label is predicted with --task regression")
        options, split = load_split(options, split)
        self.scaler: PublicScaler = own_scaler(predicts_number=True).fit(split.X_auxiliary)
        spec = RegressionSpec.plan(
            PublicTerms(
                auxiliary=AuxiliarySet(self.prepared(split.X_auxiliary)),
                classes=1,
                parties=options.parties,
                labels=split.public_labels,
                rows=options.announced_rows,
            ),
            replace(
                options.privacy(options.epsilon[0]),
                simulation_seed=options.seed if options.simulate_noise else None,
            ),
        )
        super().__init__(options, split, spec)

    def prepared(self, X: Any) -> Array:
        """Return encoded rows (n, d) clipped and scaled, float64 (n, d + 1)."""
        rows: Array = self.scaler.transform(np.asarray(X, dtype=np.float64))
        return rows

    def rows_of(self, number: int) -> tuple[Any, ...]:
        X, y = self.split.party(number)
        rows = self.prepared(X), np.asarray(y, dtype=np.float64)
        return rows if self.split.persons is None else (*rows, self.split.persons[self.split.parties[number]])

    def run(self, **context: Any) -> tuple[RegressionResult, RegressionModel]:
        """Take the encrypted sum, and return the result and the contents of the model file."""
        return self.release(self.sum(**context))

    def release(self, done: EncryptedSum) -> tuple[RegressionResult, RegressionModel]:
        """Return the result, and the contents of the model file, of an opened sum."""
        split, spec, fields = self.split, self.spec, self.fields(done)
        weights = spec.fitted(done.opened)
        chosen = fields["privacy"].chosen | {"labelled": spec.release_plan.labelled}
        fields["privacy"] = replace(fields["privacy"], chosen=chosen)
        result = RegressionResult(
            **fields,
            label=self.options.label or "label",
            bounds=(spec.label.low, spec.label.high),
            threshold_of_residuals=spec.label.threshold,
            features=split.dataset.features,
            auxiliary=len(split.auxiliary),
            test=len(split.test),
            errors=self.errors(weights),
            cautions=[*split.cautions, *split.private_remarks],
        )
        return result, self._model(result, weights)

    def errors(self, weights: Array, *, references: bool = True) -> dict[str, RegressionError]:
        """Return the errors of released weights of scaled rows, (d + 1,), on the held-out rows, by predictor. Secrets.

        `references`: whether to fit least squares and Huber regression to all private rows.
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
        """Write the model, its card and the result into a directory that exists; see `write_release`."""
        return write_release(directory, model, model_card(model, result, self.split), result, onnx=onnx)
