"""Local classifiers: any scikit-learn classifier, made fit for voting.

Hamm 2016, section 3.1, treats local classifiers as black boxes. What voting needs from the box is little: it votes for
one of the K classes agreed before the round, also when the party has seen only some of them, or a single one.
`LocalClassifier` sees to that; `make_learner` makes one from a name or from any scikit-learn classifier.
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

from psephos.parties.training import WHITENED_RIDGE, train_parties, train_whitened, votes
from psephos.protocol.encrypted_sum.own_data import unit_rows
from psephos.protocol.errors import DataError, InvalidParameter

__all__ = ["LEARNERS", "LocalClassifier", "RidgeLogistic", "make_learner"]


class RidgeLogistic(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """One party's ridge logistic (K = 2) or softmax (K > 2) regression, exactly as `psephos.parties.training` trains
    many.

    Minimises the mean loss + (lam/2)||W||^2 without an intercept. n_classes: labels are then 0 .. n_classes - 1 and
    all of them are part of the objective, seen or not; None takes the labels found, which must be at least two.
    tolerance: see `train_parties`. Rows longer than 1 are refused with NormError. Fitted attribute: coef_, (d,) for
    two classes and (K, d) otherwise.

    coordinates: float64 (d, r), public (`psephos.curator.hamm.statistic.public_coordinates`); the objective is then in
    the coordinates of rows at unit length, whatever their length was, and coef_ back in the features.
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
        """Train on X (n, d) and y (n,). Raises what `train_parties` raises, and ValueError as scikit-learn does."""
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
        """The class with the largest score, the lower one in a tie: (N,) for X (N, d); raises DataError, ValueError."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return np.asarray(self.classes_[votes(self.coef_[None], X)[0]])


def _classifier(module: str, name: str, **settings: Any) -> Any:
    """A classifier of scikit-learn; only those that are used are imported, since together they take half a second."""
    return getattr(import_module(f"sklearn.{module}"), name)(**settings)


# By name: a function of the party's number of samples, since k neighbours need k samples.
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
    """A party's classifier over the agreed classes, whatever its kind.

    make: gives an unfitted scikit-learn classifier for a number of samples. classes: the agreed class labels, in the
    order that votes index; an integer K stands for 0 .. K-1. seed: for classifiers that draw random numbers.

    A party that has seen a single class, or whose samples are all alike, votes for its most frequent class without
    training, since most classifiers cannot be trained on that. Only `RidgeLogistic` can, and is (its minimiser is what
    averaging needs). A secret of its party: the repr shows neither parameters nor data. Raises InvalidParameter for
    fewer than two distinct classes or a seed that scikit-learn does not take.
    """

    def __init__(self, make: Callable[[int], Any], *, classes: int | Sequence[Any], seed: int = 0) -> None:
        labels = list(range(classes)) if isinstance(classes, int | np.integer) else list(classes)
        self._index = {label: k for k, label in enumerate(labels)}
        if len(labels) < 2 or len(self._index) < len(labels):
            raise InvalidParameter(f"at least 2 distinct classes must be agreed; got {labels}")
        if not 0 <= seed < 2**32:
            raise InvalidParameter(f"scikit-learn takes seeds from 0 to 2**32 - 1; got {seed}")
        self.classes = tuple(labels)
        self._make = make
        self._seed = seed
        self._width: int | None = None
        self._constant: int | None = None
        self._estimator: Any = None

    def __repr__(self) -> str:
        return f"LocalClassifier({len(self.classes)} classes, {'fitted' if self._width else 'not fitted'})"

    @property
    def parameters(self) -> NDArray[np.float64]:
        """The weights (d,) or (K, d) of a fitted `logistic`, for averaging; InvalidParameter for other kinds."""
        if not isinstance(self._estimator, RidgeLogistic):
            raise InvalidParameter("only the fitted learner 'logistic' has parameters that can be averaged")
        return np.asarray(self._estimator.coef_)

    def fit(self, X: NDArray[np.floating], y: Sequence[Any] | NDArray[Any]) -> LocalClassifier:
        """Train on the party's samples X (n, d) with agreed class labels y (n,); NaN reaches who takes it.

        Raises DataError, NormError.
        """
        X = _samples(X, gaps=True)
        labels = self._encode(y)
        if len(labels) != len(X) or not len(X):
            raise DataError(f"{len(X)} samples and {len(labels)} labels; a party needs as many of each, at least one")
        estimator = self._make(len(X))
        drawing = [
            key for key, value in estimator.get_params().items() if key.endswith("random_state") and value is None
        ]
        estimator.set_params(**dict.fromkeys(drawing, self._seed))  # also those inside a pipeline
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
            raise DataError(
                "features are NaN, and this classifier does not take that: one in a pipeline that fills gaps first does"
            ) from error
        self._constant, self._estimator, self._width = None, fitted, X.shape[1]
        return self

    def predict_votes(self, X: NDArray[np.floating]) -> NDArray[np.int64]:
        """The index (N,) of the class voted for, in `classes`, for each row of X (N, d).

        Raises:
            InvalidParameter: before `fit`.
            DataError: samples of another width, NaN or infinite, or a classifier that predicts none of the classes.
        """
        if self._width is None:
            raise InvalidParameter("this classifier has not been fitted; call fit first")
        X = _samples(X)
        if X.shape[1] != self._width:
            raise DataError(f"samples have {X.shape[1]} features; this classifier was trained on {self._width}")
        if self._constant is not None or not len(X):
            return np.full(len(X), self._constant or 0, np.int64)
        voted = np.asarray(self._estimator.predict(X))
        chosen = voted.astype(np.int64)
        if (
            chosen.shape != (len(X),)
            or (chosen != voted).any()
            or chosen.min() < 0
            or chosen.max() >= len(self.classes)
        ):
            raise DataError("the classifier predicted something that is none of the agreed classes")
        return chosen

    def _encode(self, y: Sequence[Any] | NDArray[Any]) -> NDArray[np.int64]:
        labels = y.tolist() if isinstance(y, np.ndarray) else list(y)
        try:
            return np.array([self._index[label] for label in labels], np.int64)
        except (KeyError, TypeError):
            # Which label it was is the party's secret.
            raise DataError(f"a label is none of the {len(self.classes)} agreed classes") from None


def make_learner(
    learner: str | Any,
    *,
    classes: int | Sequence[Any],
    seed: int = 0,
    lam: float | None = None,
    coordinates: NDArray[np.float64] | None = None,
) -> LocalClassifier:
    """An unfitted local classifier, from a name in `LEARNERS` or from any (unfitted or fitted) scikit-learn classifier.

    An object is cloned and never changed, and gets `seed` if it draws random numbers and has no seed itself. lam: the
    regularisation of `logistic`, 1e-4 unless given; refused for the others. coordinates: (d, r), of `whitened`, which
    is `logistic` in them. Raises InvalidParameter for an unknown name, an object that is no classifier, or as
    `LocalClassifier`.
    """
    if lam is not None and learner != "logistic":
        raise InvalidParameter("lam belongs to the learner 'logistic'; other learners bring their own parameters")
    if isinstance(learner, str):
        if learner not in LEARNERS:
            raise InvalidParameter(f"unknown learner {learner!r}; known: {', '.join(LEARNERS)}")
        if learner == "whitened":
            if coordinates is None:
                raise InvalidParameter("the learner 'whitened' trains in public coordinates: give coordinates=")
            ridge = RidgeLogistic(lam=WHITENED_RIDGE, coordinates=coordinates)
            return LocalClassifier(lambda samples: clone(ridge), classes=classes, seed=seed)
        if lam is None:
            return LocalClassifier(LEARNERS[learner], classes=classes, seed=seed)
        return LocalClassifier(lambda samples: RidgeLogistic(lam=lam), classes=classes, seed=seed)
    if not isinstance(learner, BaseEstimator) or not is_classifier(learner):
        raise InvalidParameter(f"a learner is a name or a scikit-learn classifier object; got {type(learner).__name__}")
    return LocalClassifier(lambda samples: clone(learner), classes=classes, seed=seed)


def _samples(X: NDArray[np.floating], *, gaps: bool = False) -> NDArray[np.floating]:
    X = np.asarray(X)
    if X.ndim != 2 or X.shape[1] < 1 or not np.issubdtype(X.dtype, np.number):
        raise DataError(f"samples must be a matrix of numbers, one row each; got shape {X.shape} of {X.dtype}")
    if np.isinf(X).any() or not (gaps or np.isfinite(X).all()):
        raise DataError("features are NaN or infinite")
    return X
