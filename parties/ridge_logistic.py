"""Ridge logistic and softmax regression of one party as an estimator of scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from psephos.parties.training import class_probabilities, train_parties, train_whitened, votes
from psephos.protocol.grids.own_data import unit_rows


@dataclass(eq=False, repr=False, kw_only=True)
class RidgeLogistic(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Ridge logistic (K = 2) or softmax (K > 2) regression of one party, as `psephos.parties.training` trains many.

    Minimises the mean loss + (lam/2)||W||^2 without an intercept. Rows of norm above 1 raise NormError.

    Args:
        lam: lambda of the ridge.
        n_classes: K: labels are 0 to K - 1, and all of them are part of the objective. None takes those that occur.
        tolerance: as in `train_parties`.
        coordinates: public coordinates of the rows at unit length (`psephos.curator.statistic.public_coordinates`),
            float64 (d, r).

    The fitted `coef_` has shape (d,) for two classes, (K, d) for more, in terms of the features.
    """

    lam: float = 1e-4
    n_classes: int | None = None
    tolerance: float = 1e-8
    coordinates: NDArray[np.float64] | None = None

    def fit(self, X: Any, y: Any) -> RidgeLogistic:
        """Train on X (n, d) and y (n,). Raises as `train_parties`, and ValueError as scikit-learn does."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        if self.n_classes is None:
            self.classes_, y = np.unique(y, return_inverse=True)
        else:
            self.classes_ = np.arange(self.n_classes)
        classes, A = len(self.classes_), self.coordinates
        if A is None:
            self.coef_ = train_parties(X, y, [len(X)], classes=classes, lam=self.lam, tolerance=self.tolerance)[0]
        else:
            (W,) = train_whitened(unit_rows(X) @ A, y, [len(X)], classes=classes, transform=A, lam=self.lam)
            self.coef_ = (W[1] - W[0] if classes == 2 else W) @ A.T
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return np.asarray(self.classes_[votes(self.coef_[None], X)[0]])

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Predict the probability of every class for X (N, d), float64 (N, K). Raises as `predict`."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return class_probabilities(self.coef_, X)
