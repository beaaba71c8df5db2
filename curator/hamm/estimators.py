"""Hamm's two algorithms as scikit-learn estimators: fit on auxiliary features and counts, get a private classifier.

`SoftLabelClassifier` is Algorithm 2 (weighted risk, equation 19) and `MajorityVoteClassifier` Algorithm 1 (equation 8),
with the binary logistic loss, the approximate hinge, or, for three classes and more, the softmax loss (appendix B).
The model has no intercept, as in the paper; add a constant feature if one is wanted (and keep the rows in the ball).
"""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import assert_all_finite
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from psephos.curator.hamm.erm import DEFAULT_TOLERANCE, check_auxiliary, minimise
from psephos.curator.hamm.labels import alpha, check_counts, majority, one_hot
from psephos.curator.hamm.release import Bound, Labels, erm_sensitivity, perturb
from psephos.curator.losses import loss_named
from psephos.protocol.errors import DataError, InvalidParameter
from psephos.protocol.privacy.mechanisms import check_epsilon
from psephos.protocol.randomness import SYSTEM, Randomness, SimulationRandomness

Array = NDArray[np.float64]


def _has_probabilities(classifier: _PrivateClassifier) -> bool:
    return classifier.loss != "huber"


class _PrivateClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """What the two algorithms share: all but the labels they make of the counts.

    Parameters
    ----------
    epsilon : float or None, default=1.0
        The privacy parameter, in (0, 64]. None: no noise, nothing is protected.
    lam : float, default=1e-2
        lambda of the ridge (lambda/2) ||w||^2.
    loss : {'logistic', 'huber', 'softmax'}, default='logistic'
        'logistic' is the softmax loss when there are three classes or more; 'huber' is binary only.
    half_width : float, default=0.5
        h of the approximate hinge.
    bound : {'certified', 'paper'}, default='certified'
        The sensitivity: the smallest proved one, or the paper's own constant.
    protect_auxiliary : bool, default=False
        Protect one auxiliary sample beside one party's votes (Hamm 4.5).
    over_norm : {'refuse', 'clip'}, default='refuse'
        What to do with rows longer than 1: raise NormError, or scale each of them back to norm 1. Scaling a row does
        not change its predicted class.
    classes : sequence of distinct labels or None, default=None
        The agreed classes, in the order of the columns of a table of counts. None: 0 to K - 1 for a table of counts;
        for a list of labels the ones it holds, and that they occur is then disclosed whatever epsilon is.
    tolerance : float, default=1e-9
        tau, the solver's certified gradient norm; a public number that enters the sensitivity.
    random_state : int or None, default=None
        None: noise from the operating system. An int: noise from a seeded generator, **for simulation only**: whoever
        knows the seed can take the noise off again.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The agreed classes (see `classes`).
    coef_ : ndarray of shape (1, d) or (K, d)
        Private if epsilon is not None.
    intercept_ : ndarray of zeros of shape (1,) or (K,)
    sensitivity_ : psephos.curator.hamm.sensitivity.Sensitivity
        What the noise covers (of the exact minimiser, when epsilon is None).
    released_ : psephos.curator.hamm.release.Released or None
        The release with its epsilon, delta, scale, dimension and pitch.
    noise_source_ : 'system', 'simulation' or 'none'
    parties_ : int
        M.
    n_features_in_, feature_names_in_ : as in scikit-learn.
    """

    _labels: Labels

    def __init__(  # wide: scikit-learn estimators take every parameter by name
        self,
        *,
        epsilon: float | None = 1.0,
        lam: float = 1e-2,
        loss: Literal["logistic", "huber", "softmax"] = "logistic",
        half_width: float = 0.5,
        bound: Bound = "certified",
        protect_auxiliary: bool = False,
        over_norm: Literal["refuse", "clip"] = "refuse",
        classes: ArrayLike | None = None,
        tolerance: float = DEFAULT_TOLERANCE,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.lam = lam
        self.loss = loss
        self.half_width = half_width
        self.bound = bound
        self.protect_auxiliary = protect_auxiliary
        self.over_norm = over_norm
        self.classes = classes
        self.tolerance = tolerance
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = self.epsilon is not None
        tags.non_deterministic = self.epsilon is not None and self.random_state is None
        return tags

    def _randomness(self) -> Randomness:
        if self.random_state is None:
            return SYSTEM
        if isinstance(self.random_state, bool) or not isinstance(self.random_state, Integral):
            raise InvalidParameter(
                "random_state must be None (noise from the operating system) or an integer (simulation only); noise "
                "is never drawn from a numpy generator"
            )
        return SimulationRandomness(int(self.random_state), "estimator")

    def _rows(self, X: ArrayLike, *, reset: bool) -> Array:
        try:
            rows: Array = validate_data(self, X, reset=reset, dtype=np.float64)
        except ValueError as error:  # the same message under the library's name
            raise DataError(str(error)) from error
        if self.over_norm == "clip":
            # In units of the row's largest entry, so that no square overflows or underflows.
            top = np.abs(rows).max(axis=1, keepdims=True)
            top[top == 0] = 1
            unit = rows / top
            norms = np.linalg.norm(unit, axis=1, keepdims=True)
            rows = np.where(norms * top > 1, unit / norms, rows)
        return rows

    def _agreed(self) -> NDArray[Any] | None:
        if self.classes is None:
            return None
        agreed = np.asarray(self.classes)
        if agreed.ndim != 1 or len(agreed) < 2 or len(np.unique(agreed)) != len(agreed):
            raise InvalidParameter("classes must be a list of at least two distinct labels")
        return agreed

    def _counts(self, y: ArrayLike, samples: int) -> NDArray[np.int64]:
        """The counts, from counts or labels; sets classes_."""
        agreed = self._agreed()
        if y is None:
            raise DataError("requires y to be passed, but the target y is None")
        array = np.asarray(y)
        if array.ndim == 2 and array.shape[1] == 1:
            warnings.warn(
                "A column-vector y was passed when a 1d array was expected; it is taken as labels, not counts.",
                DataConversionWarning,
                stacklevel=3,
            )
            array = array.ravel()
        if array.ndim == 2:
            counts = check_counts(array)
            self.classes_ = np.arange(counts.shape[1]) if agreed is None else agreed
            if counts.shape[1] != len(self.classes_):
                raise DataError(f"the counts have {counts.shape[1]} columns for {len(self.classes_)} agreed classes")
        else:
            try:
                labels = column_or_1d(array)
                assert_all_finite(labels, input_name="y")
                check_classification_targets(labels)
            except ValueError as error:
                raise DataError(str(error)) from error
            self.classes_ = np.unique(labels) if agreed is None else agreed
            if len(self.classes_) < 2:
                raise DataError("the labels hold 1 class only; a classifier needs at least two classes")
            counts = (labels[:, None] == self.classes_[None, :]).astype(np.int64)
            if not counts.any(axis=1).all():
                raise DataError("a label is not among the agreed classes")
        if len(counts) != samples:
            raise DataError(f"X has {samples} samples and y has {len(counts)}; they must be the same")
        return counts

    def fit(self, X: ArrayLike, y: ArrayLike) -> _PrivateClassifier:
        """Fit to auxiliary samples and what the parties said about them.

        Parameters
        ----------
        X : array of shape (N, d)
            The auxiliary features, rows of norm at most 1 (see `over_norm`).
        y : integer array of shape (N, K), or array of shape (N,)
            Counts of votes, every row summing to the number of parties M. Or a list of labels, which is taken as the
            ballot of one single party (M = 1): all labels are then protected together, and the noise is large.

        Raises DataError, NormError or InvalidParameter.
        """
        if self.over_norm not in ("refuse", "clip"):
            raise InvalidParameter(f"over_norm must be 'refuse' or 'clip', not {self.over_norm!r}")
        if self.epsilon is not None:
            check_epsilon(self.epsilon)
        randomness = self._randomness()
        rows = check_auxiliary(self._rows(X, reset=True))
        counts = self._counts(y, len(rows))
        classes = counts.shape[1]
        self.parties_ = int(counts[0].sum())
        loss = loss_named(self.loss, classes, half_width=self.half_width)
        targets = alpha(counts) if self._labels == "soft" else one_hot(majority(counts), classes)
        minimiser = minimise(rows, targets, self.lam, loss, tolerance=self.tolerance)
        sensitivity = erm_sensitivity(
            self._labels,
            loss,
            self.lam,
            parties=self.parties_,
            classes=classes,
            features=rows,
            bound=self.bound,
            protect_auxiliary=self.protect_auxiliary,
        )
        if self.epsilon is None:
            self.released_ = None
            self.sensitivity_ = sensitivity
            self.noise_source_ = "none"
            w = minimiser.w
        else:
            self.released_ = perturb(minimiser, sensitivity, self.epsilon, randomness=randomness)
            self.sensitivity_ = self.released_.sensitivity
            self.noise_source_ = "system" if self.random_state is None else "simulation"
            w = self.released_.w
        if classes == 2 and w.ndim == 2:  # softmax asked for with two classes: one row of scores, as elsewhere
            w = w[1] - w[0]
        self.coef_ = w.reshape(-1, rows.shape[1])
        self.intercept_ = np.zeros(len(self.coef_))
        return self

    def decision_function(self, X: ArrayLike) -> Array:
        """The scores w . x: shape (n,) for two classes (positive: `classes_[1]`), (n, K) for more."""
        check_is_fitted(self)
        scores: Array = self._rows(X, reset=False) @ self.coef_.T
        return scores.ravel() if len(self.classes_) == 2 else scores

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The class of the largest score, shape (n,)."""
        scores = self.decision_function(X)
        numbers = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        predicted: NDArray[Any] = self.classes_[numbers]
        return predicted

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: ArrayLike) -> Array:
        """The model's class probabilities, shape (n, K). Not for the approximate hinge, which has none."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.stack([expit(-scores), expit(scores)], axis=1)
        probabilities: Array = softmax(scores, axis=1)
        return probabilities


class MajorityVoteClassifier(_PrivateClassifier):
    """Hamm 2016, Algorithm 1: empirical risk minimisation on majority-voted labels, with output perturbation."""

    __doc__ = (__doc__ or "") + (_PrivateClassifier.__doc__ or "").split("\n", 1)[1]
    _labels = "majority"


class SoftLabelClassifier(_PrivateClassifier):
    """Hamm 2016, Algorithm 2: weighted empirical risk minimisation on soft labels, with output perturbation."""

    __doc__ = (__doc__ or "") + (_PrivateClassifier.__doc__ or "").split("\n", 1)[1]
    _labels = "soft"
