"""Local classifiers of the parties: any scikit-learn classifier, adapted to voting.

Hamm 2016, section 3.1, treats local classifiers as black boxes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier
from sklearn.utils.validation import check_is_fitted, validate_data

from psephos.parties.training import WHITENED_RIDGE, class_probabilities, train_parties, train_whitened, votes
from psephos.protocol.errors import DataError, InvalidParameter
from psephos.protocol.grids.own_data import unit_rows


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

    def __init__(
        self,
        *,
        lam: float = 1e-4,
        n_classes: int | None = None,
        tolerance: float = 1e-8,
        coordinates: NDArray[np.float64] | None = None,
    ) -> None:
        self.lam = lam
        self.n_classes = n_classes
        self.tolerance = tolerance
        self.coordinates = coordinates

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


def _classifier(module: str, name: str, **settings: Any) -> Any:
    """Create a scikit-learn classifier; only its own module is imported, since all together take half a second."""
    return getattr(import_module(f"sklearn.{module}"), name)(**settings)


# By name: a function of the party's number of samples, because k nearest neighbours need k samples.
LEARNERS: Mapping[str, Callable[[int], Any]] = MappingProxyType(
    {
        "tree": lambda samples: _classifier("tree", "DecisionTreeClassifier"),
        "knn": lambda samples: _classifier("neighbors", "KNeighborsClassifier", n_neighbors=min(5, samples)),
        "forest": lambda samples: _classifier("ensemble", "RandomForestClassifier", n_estimators=30),
        "naive-bayes": lambda samples: _classifier("naive_bayes", "GaussianNB"),
        "svm": lambda samples: _classifier("svm", "SVC"),
        "logistic": lambda samples: RidgeLogistic(),
        "whitened": lambda samples: RidgeLogistic(lam=WHITENED_RIDGE),
    }
)


class LocalClassifier:
    """A party's classifier of any kind over the agreed classes. A secret: `repr` shows neither parameters nor data.

    With a single class, or with samples that are all equal, it votes for its most frequent class without training,
    because most classifiers cannot be trained on such data. `RidgeLogistic` can: averaging needs its minimiser.
    """

    def __init__(self, make: Callable[[int], Any], *, classes: int | Sequence[Any], seed: int = 0) -> None:
        labels = list(range(classes)) if isinstance(classes, int | np.integer) else list(classes)
        self._index = {label: k for k, label in enumerate(labels)}
        if len(labels) < 2 or len(self._index) < len(labels):
            raise InvalidParameter(f"classes must hold at least 2 distinct labels, not {labels}")
        if not 0 <= seed < 2**32:
            raise InvalidParameter(f"seed must be 0 to 2**32 - 1 for scikit-learn, not {seed}")
        self.classes = tuple(labels)
        self._make = make
        self._seed = seed
        self._width: int | None = None
        self._constant: int | None = None
        self._estimator: Any = None

    @property
    def parameters(self) -> NDArray[np.float64]:
        """Weights (d,) or (K, d) of a fitted "logistic", for averaging. Raises InvalidParameter for other kinds."""
        if not isinstance(self._estimator, RidgeLogistic):
            raise InvalidParameter("only the fitted learner 'logistic' has parameters that can be averaged")
        return np.asarray(self._estimator.coef_)

    def fit(self, X: NDArray[np.floating], y: Sequence[Any] | NDArray[Any]) -> LocalClassifier:
        """Train on samples (n, d), where NaN is passed on to classifiers that accept it, and agreed labels (n,)."""
        X = _samples(X, gaps=True)
        labels = self._encode(y)
        if len(labels) != len(X) or not len(X):
            raise DataError("there must be as many labels as samples, and at least one")
        estimator = self._make(len(X))
        unseeded = [
            key for key, value in estimator.get_params().items() if key.endswith("random_state") and value is None
        ]
        estimator.set_params(**dict.fromkeys(unseeded, self._seed))  # also inside a pipeline
        if isinstance(estimator, RidgeLogistic):
            estimator.set_params(n_classes=len(self.classes))
        elif (labels == labels[0]).all() or bool(np.ptp(X, axis=0).max() == 0):
            self._constant, self._estimator, self._width = int(np.bincount(labels).argmax()), None, X.shape[1]
            return self
        try:
            fitted = estimator.fit(X, labels)
        except ValueError as error:
            if isinstance(error, DataError) or not np.isnan(X).any():
                raise
            raise DataError("features are NaN, which this classifier refuses; put it behind an imputer") from error
        self._constant, self._estimator, self._width = None, fitted, X.shape[1]
        return self

    def predict_votes(self, X: NDArray[np.floating]) -> NDArray[np.int64]:
        """Return the vote for each row of X (N, d): an index into `classes`, int64 (N,)."""
        if self._width is None:
            raise InvalidParameter("this classifier has not been fitted; call fit first")
        X = _samples(X)
        if X.shape[1] != self._width:
            raise DataError(f"samples have {X.shape[1]} features; this classifier was trained on {self._width}")
        if self._constant is not None or not len(X):
            return np.full(len(X), self._constant or 0, np.int64)
        predictions = np.asarray(self._estimator.predict(X))
        indices = predictions.astype(np.int64)
        if (
            indices.shape != (len(X),)
            or (indices != predictions).any()
            or indices.min() < 0
            or indices.max() >= len(self.classes)
        ):
            raise DataError("the classifier predicted a value that is not an agreed class")
        return indices

    def predict_probabilities(self, X: NDArray[np.floating]) -> NDArray[np.float64] | None:
        """Return what the classifier says is the probability of every agreed class for each row, float64 (N, K)."""
        self.predict_votes(X[:0])
        if self._constant is not None or not hasattr(self._estimator, "predict_proba"):
            return None
        trained = np.asarray(self._estimator.classes_)
        known = np.asarray(self._estimator.predict_proba(_samples(X)))
        if known.shape != (len(X), len(trained)) or not np.isin(trained, range(len(self.classes))).all():
            return None
        probabilities = np.zeros((len(X), len(self.classes)))
        probabilities[:, trained.astype(np.int64)] = known
        return probabilities

    def _encode(self, y: Sequence[Any] | NDArray[Any]) -> NDArray[np.int64]:
        labels = y.tolist() if isinstance(y, np.ndarray) else list(y)
        try:
            return np.array([self._index[label] for label in labels], np.int64)
        except (KeyError, TypeError):
            # The message does not name the label, which is the party's secret.
            raise DataError(f"a label is not among the {len(self.classes)} agreed classes") from None


def make_learner(
    learner: str | Any,
    *,
    classes: int | Sequence[Any],
    seed: int = 0,
    lam: float | None = None,
    coordinates: NDArray[np.float64] | None = None,
) -> LocalClassifier:
    """Create an unfitted local classifier; "whitened" is "logistic" in public coordinates (d, r)."""
    if lam is not None and learner != "logistic":
        raise InvalidParameter("lam is for 'logistic' only; set the parameters of a classifier of scikit-learn itself")
    if isinstance(learner, str):
        if learner not in LEARNERS:
            raise InvalidParameter(f"unknown learner {learner!r}; known: {', '.join(LEARNERS)}")
        if learner == "whitened":
            if coordinates is None:
                raise InvalidParameter("the learner 'whitened' needs public coordinates; pass coordinates=")
            ridge = RidgeLogistic(lam=WHITENED_RIDGE, coordinates=coordinates)
            return LocalClassifier(lambda samples: clone(ridge), classes=classes, seed=seed)
        if lam is None:
            return LocalClassifier(LEARNERS[learner], classes=classes, seed=seed)
        return LocalClassifier(lambda samples: RidgeLogistic(lam=lam), classes=classes, seed=seed)
    if not isinstance(learner, BaseEstimator) or not is_classifier(learner):
        raise InvalidParameter(f"learner must be a name or a scikit-learn classifier, not {type(learner).__name__}")
    return LocalClassifier(lambda samples: clone(learner), classes=classes, seed=seed)


def _samples(X: NDArray[np.floating], *, gaps: bool = False) -> NDArray[np.floating]:
    X = np.asarray(X)
    if X.ndim != 2 or X.shape[1] < 1 or not np.issubdtype(X.dtype, np.number):
        raise DataError(f"samples must be a matrix of numbers, not an array of {X.ndim} dimensions and type {X.dtype}")
    if np.isinf(X).any() or not (gaps or np.isfinite(X).all()):
        raise DataError("features are NaN or infinite")
    return X
