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

from psephos.parties.training import WHITENED_RIDGE
from psephos.protocol.errors import DataError, InvalidParameter


def _classifier(module: str, name: str, **settings: Any) -> Any:
    """Create a classifier; only its own module is imported, because scikit-learn takes most of a second."""
    return getattr(import_module(module), name)(**settings)


def _ridge(**settings: Any) -> Any:
    return _classifier("psephos.parties.ridge_logistic", "RidgeLogistic", **settings)


def _is_ridge(estimator: Any) -> bool:
    from psephos.parties.ridge_logistic import RidgeLogistic

    return isinstance(estimator, RidgeLogistic)


# By name: a function of the party's number of samples, because k nearest neighbours need k samples.
LEARNERS: Mapping[str, Callable[[int], Any]] = MappingProxyType(
    {
        "tree": lambda samples: _classifier("sklearn.tree", "DecisionTreeClassifier"),
        "knn": lambda samples: _classifier("sklearn.neighbors", "KNeighborsClassifier", n_neighbors=min(5, samples)),
        "forest": lambda samples: _classifier("sklearn.ensemble", "RandomForestClassifier", n_estimators=30),
        "naive-bayes": lambda samples: _classifier("sklearn.naive_bayes", "GaussianNB"),
        "svm": lambda samples: _classifier("sklearn.svm", "SVC"),
        "logistic": lambda samples: _ridge(),
        "whitened": lambda samples: _ridge(lam=WHITENED_RIDGE),
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
        if not _is_ridge(self._estimator):
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
        if _is_ridge(estimator):
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
            white = {"lam": WHITENED_RIDGE, "coordinates": coordinates}
            return LocalClassifier(lambda samples: _ridge(**white), classes=classes, seed=seed)
        if lam is None:
            return LocalClassifier(LEARNERS[learner], classes=classes, seed=seed)
        return LocalClassifier(lambda samples: _ridge(lam=lam), classes=classes, seed=seed)
    from sklearn.base import BaseEstimator, clone, is_classifier

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
