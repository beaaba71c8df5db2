"""Released models as fitted estimators of scikit-learn, which `psephos.model.load_model` returns."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import scipy
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_array

from psephos.data.tables import cells_of, places_of
from psephos.model import Model, RegressionModel, read_model
from psephos.protocol.errors import DataError, InvalidParameter


class ReleasedEstimator(BaseEstimator):  # type: ignore[misc]
    """Base class of released models as fitted scikit-learn estimators."""

    model: Model | RegressionModel

    def __sklearn_is_fitted__(self) -> bool:
        return True

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Names of the encoded columns."""
        return np.array(self.model.encoding.inputs, dtype=object)

    @property
    def n_features_in_(self) -> int:
        """Number of encoded columns."""
        return len(self.model.encoding.inputs)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Raise InvalidParameter: a released model cannot be fitted."""
        raise InvalidParameter("a released model cannot be fitted again: other data needs another release")

    def encode(self, X: Any) -> NDArray[np.float64]:
        """Encode rows as numbers, float64 (n, `n_features_in_`), the input of `model.onnx`; raises DataError."""
        if (table := named_table(X)) is not None:
            return self.model.encoding.encode(cells_of(table))
        try:
            rows: NDArray[np.float64] = check_array(X, dtype=np.float64, ensure_min_samples=0)
        except ValueError as error:
            raise DataError(str(error)) from None
        if rows.shape[1] != self.n_features_in_:
            raise DataError(f"rows have {rows.shape[1]} numbers, but the model takes {self.n_features_in_} features")
        return rows

    def features(self, X: Any) -> NDArray[np.float64]:
        """Return the features of rows, float64 (n, d): encoded columns, and what a map adds; raises as `encode`."""
        return self.model.encoding.mapped(self.encode(X))


def named_table(X: Any) -> Any:
    """Return rows with named columns as a DataFrame; None for an array of numbers."""
    if hasattr(X, "to_pandas"):  # of pyarrow or polars
        return X.to_pandas()
    if hasattr(X, "columns"):
        return X
    mapping = isinstance(X, Mapping) and not hasattr(X, "nnz")  # as one kind of sparse matrix is
    if mapping or (isinstance(X, Sequence) and X and all(isinstance(row, Mapping) for row in X)):
        import pandas as pd

        try:
            return pd.DataFrame(X)
        except ValueError as error:
            raise DataError(f"the rows are no table: {error}") from None
    return None


def best_class(scores: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the number of the class with the largest score of each row, (n,); scores as of `decision_function`."""
    return (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)


class ReleasedClassifier(ClassifierMixin, ReleasedEstimator):  # type: ignore[misc]
    """A released classifier as a fitted scikit-learn estimator.

    Rows are a table with the columns of the training table, among others: a DataFrame of pandas or polars, a table of
    pyarrow, a dictionary of columns or a list of dictionaries. Or they are encoded columns, float64, in the order of
    `feature_names_in_`. Scores are no probabilities, because the noise changes their scale; a model that
    `psephos evaluate` has calibrated has `predict_proba`.
    """

    model: Model

    def __init__(self, model: Model) -> None:
        self.model = model

    @property
    def classes_(self) -> NDArray[Any]:
        """The names of the classes."""
        return np.array(self.model.classes)

    @property
    def coef_(self) -> NDArray[np.float64]:
        """Coefficients of the `features`, (1, d) or (K, d)."""
        return np.array(self.model.coefficients)

    @property
    def intercept_(self) -> NDArray[np.float64]:
        """Intercepts, (1,) or (K,)."""
        return np.array(self.model.intercepts)

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the scores: (n,) for two classes (positive: `classes_[1]`), (n, K) for more; raises as `encode`."""
        return self.scores(self.features(X))

    def scores(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the scores of rows of `features`, (n, d), as `decision_function`."""
        scores: NDArray[np.float64] = features @ self.coef_.T + self.intercept_
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def class_scores(self, X: Any) -> NDArray[np.float64]:
        """Return the score of each class, (n, K), as `model.onnx` does: of two classes the first has 0."""
        scores = self.decision_function(X)
        return np.column_stack([np.zeros(len(scores)), scores]) if scores.ndim == 1 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class with the largest score of each row, (n,); raises as `decision_function`."""
        return self.classes_[best_class(self.decision_function(X))]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of rows whose class is `y`, (n,): names of classes, or the numbers or truth values named."""
        import pandas as pd

        labels = cells_of(pd.DataFrame({"y": np.asarray(y, dtype=object)}))["y"]
        places = labels.map(places_of(self.model.classes)).fillna(-1)
        predicted = [self.model.classes.index(name) for name in self.predict(X)]
        return float(np.average(places.to_numpy() == predicted, weights=sample_weight))

    @available_if(lambda self: self.model.calibration is not None)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each class, (n, 2), of a calibrated model; raises as `decision_function`."""
        second = scipy.special.expit(self.decision_function(X))
        return np.column_stack([1 - second, second])


class ReleasedRegressor(RegressorMixin, ReleasedEstimator):  # type: ignore[misc]
    """A released prediction of a number as a fitted scikit-learn estimator; rows as for `ReleasedClassifier`.

    `coef_` (d,) and `intercept_` are those of features inside the model's ranges, into which rows are clipped.
    """

    model: RegressionModel

    def __init__(self, model: RegressionModel) -> None:
        self.model = model

    @property
    def coef_(self) -> NDArray[np.float64]:
        """Coefficients of the `features`, (d,)."""
        return np.array(self.model.coefficients)

    @property
    def intercept_(self) -> float:
        """The intercept."""
        return self.model.intercept

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the predicted number of each row, float64 (n,); raises as `encode`."""
        rows = np.clip(self.features(X), *np.array(self.model.ranges).T)
        predictions: NDArray[np.float64] = np.clip(rows @ self.coef_ + self.intercept_, *self.model.bounds)
        return predictions


def reliance(
    released: ReleasedClassifier | ReleasedRegressor, inputs: NDArray[np.float64]
) -> tuple[dict[str, float], int]:
    """Measure how predictions change when a column's values are permuted among rows (permutation importance).

    Args:
        inputs: encoded rows, float64 (N, `n_features_in_`).

    Returns:
        For each column of the table the share of rows whose class changes, or the mean magnitude by which the number
        changes; and the number of rows that were taken for it.
    """
    columns = released.model.encoding.columns
    rows = inputs[: max(10, min(_RELIANCE_ROWS, 100 * _RELIANCE_ROWS // len(columns)))]
    order = np.random.RandomState(0).permutation(len(rows))
    before, changes, first = released.predict(rows), {}, 0
    for column in columns:
        width, permuted = len(column.features), rows.copy()
        permuted[:, first : first + width] = rows[order, first : first + width]
        after, first = released.predict(permuted), first + width
        changed = after != before if isinstance(released, ReleasedClassifier) else np.abs(after - before)
        changes[column.name] = float(np.mean(changed))
    return changes, len(rows)


def load_model(path: str | os.PathLike[str]) -> ReleasedClassifier | ReleasedRegressor:
    """Read a released model from a file, or from the directory that `psephos run --output` wrote; raises ModelError."""
    model = read_model(path)
    return ReleasedClassifier(model) if isinstance(model, Model) else ReleasedRegressor(model)


_RELIANCE_ROWS = 300  # the most rows on which `reliance` is measured; fewer where there are many columns
