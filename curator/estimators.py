"""Releases as scikit-learn estimators: fitted on public features and vote counts, they are private linear classifiers.

No model has an intercept, as in Hamm 2016; add a constant feature if one is wanted.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import assert_all_finite
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from psephos.curator.hamm.erm import DEFAULT_TOLERANCE, check_auxiliary, minimise
from psephos.curator.hamm.labels import alpha, check_counts, majority, one_hot
from psephos.curator.hamm.release import PerturbedClassifier, perturb
from psephos.curator.hamm.rules import erm_rule
from psephos.curator.hamm.sensitivity import Labels
from psephos.curator.losses import loss_named
from psephos.curator.pate import Aggregator, PateRelease, fit_student, plan_pate, release_pate
from psephos.curator.statistic import MechanismName, fit_statistic, plan_statistic, release_statistic
from psephos.protocol.errors import DataError, InvalidParameter
from psephos.protocol.grids.own_data import unit_rows
from psephos.protocol.privacy.mechanisms import check_epsilon
from psephos.protocol.randomness import SYSTEM, Randomness, SimulationRandomness

Array = NDArray[np.float64]


class LinearClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A fitted linear classifier, as the users of a release get it, with scikit-learn's attributes.

    `coef_` is (1, d) for two classes, where a positive score is `classes_[1]`, and (K, d) for more.
    """

    classes_: NDArray[Any]

    @classmethod
    def of(cls, w: ArrayLike, classes: ArrayLike, intercept: ArrayLike = 0.0) -> LinearClassifier:
        """Create a classifier from its weights, (d,) or (1, d) for two classes, (K, d) for more, and the K labels."""
        classifier = cls()
        classifier.classes_ = np.asarray(classes)
        classifier._set_weights(np.asarray(w, dtype=np.float64), intercept)
        classifier.n_features_in_ = classifier.coef_.shape[1]
        return classifier

    def _set_weights(self, w: Array, intercept: ArrayLike = 0.0) -> None:
        if len(self.classes_) == 2 and w.ndim == 2 and len(w) == 2:  # two classes have one row of scores
            w = w[1] - w[0]
        self.coef_ = np.atleast_2d(w)
        self.intercept_ = np.broadcast_to(np.asarray(intercept, dtype=np.float64), len(self.coef_)).copy()

    def fit(self, X: ArrayLike, y: ArrayLike) -> LinearClassifier:
        """Raise InvalidParameter: a released classifier cannot be fitted again."""
        raise InvalidParameter(f"a {type(self).__name__} is fitted when it is released: run another release")

    def _rows(self, X: ArrayLike, *, reset: bool) -> Array:
        try:
            rows: Array = validate_data(self, X, reset=reset, dtype=np.float64)
        except ValueError as error:  # scikit-learn's message as this library's error class
            raise DataError(str(error)) from error
        return rows

    def decision_function(self, X: ArrayLike) -> Array:
        """Compute the scores w . x: shape (n,) for two classes (positive: `classes_[1]`), (n, K) for more."""
        check_is_fitted(self, "coef_")
        scores: Array = self._rows(X, reset=False) @ self.coef_.T + self.intercept_
        return scores.ravel() if len(self.classes_) == 2 else scores

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict the class of the largest score, shape (n,)."""
        scores = self.decision_function(X)
        numbers = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        predicted: NDArray[Any] = self.classes_[numbers]
        return predicted


@dataclass(eq=False, repr=False, kw_only=True)
class VoteClassifier(LinearClassifier):
    """Base of the releases from public features and the parties' votes on them.

    Parameters
    ----------
    epsilon : float or None, default=1.0
        The privacy parameter, in (0, 64]. None: no noise, nothing is protected.
    classes : sequence of distinct labels or None, default=None
        The agreed classes, in the order of the columns of a table of counts. None: 0 to K - 1 for a table of counts;
        for a list of labels the ones it holds, and that they occur is then disclosed whatever epsilon is.
    random_state : int or None, default=None
        None: noise from the operating system. An int: noise from a seeded generator, **for simulation only**: whoever
        knows the seed can take the noise off again.

    Attributes, besides those of scikit-learn
    -----------------------------------------
    sensitivity_ : what the noise covers (of the exact minimiser, when epsilon is None)
    released_ : the release, or the plan it followed, with epsilon, delta and mechanism; None without noise
    noise_source_ : 'system', 'simulation' or 'none'
    parties_ : M
    """

    epsilon: float | None = 1.0
    classes: ArrayLike | None = None
    random_state: int | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = self.epsilon is not None
        tags.non_deterministic = self.epsilon is not None and self.random_state is None
        return tags

    def _randomness(self) -> Randomness:
        """Return the source of the noise and set `noise_source_`; checks epsilon and random_state."""
        if self.epsilon is not None:
            check_epsilon(self.epsilon)
        self.noise_source_ = "none" if self.epsilon is None else "system" if self.random_state is None else "simulation"
        if self.random_state is None:
            return SYSTEM
        if isinstance(self.random_state, bool) or not isinstance(self.random_state, Integral):
            raise InvalidParameter("random_state must be None (noise from the system) or an integer (for simulations)")
        return SimulationRandomness(int(self.random_state), "estimator")

    def _labels_of(self, y: ArrayLike) -> NDArray[np.int64]:
        """Set `classes_`, and return the labels as indices into it, int64 (n,)."""
        if y is None:
            raise DataError("requires y to be passed, but the target y is None")
        try:
            labels = column_or_1d(np.asarray(y), warn=True)
            assert_all_finite(labels, input_name="y")
            check_classification_targets(labels)
        except ValueError as error:
            raise DataError(str(error)) from error
        self.classes_ = self._agreed_classes(np.unique(labels))
        if len(self.classes_) < 2:
            raise DataError("the labels hold 1 class only; a classifier needs at least two classes")
        matches = labels[:, None] == self.classes_[None, :]
        if not matches.any(axis=1).all():
            raise DataError("a label is not among the agreed classes; correct it, or add it to classes")
        indices: NDArray[np.int64] = matches.argmax(axis=1).astype(np.int64)
        return indices

    def _agreed_classes(self, default: NDArray[Any]) -> NDArray[Any]:
        if self.classes is None:
            return default
        agreed = np.asarray(self.classes)
        if agreed.ndim != 1 or len(agreed) < 2 or len(np.unique(agreed)) != len(agreed):
            raise InvalidParameter("classes must be a list of at least two distinct labels")
        return agreed

    @abstractmethod
    def _learn(self, rows: Array, counts: NDArray[np.int64], randomness: Randomness) -> Array:
        """Return the weights (d,) or (K, d); set `sensitivity_` and `released_`."""

    def fit(self, X: ArrayLike, y: ArrayLike) -> VoteClassifier:
        """Fit to auxiliary samples (N, d) and the parties' votes on them.

        `y` are counts of votes, integers (N, K), every row summing to the number of parties M; or a list of labels,
        (N,), which is taken as the ballot of a single party (M = 1): all labels are then protected together, and the
        noise is large. Raises DataError, NormError or InvalidParameter for input or parameters that cannot be used.
        """
        randomness = self._randomness()
        rows = self._rows(X, reset=True)
        counts = self._counts(y, len(rows))
        self.parties_ = int(counts[0].sum())
        self._set_weights(self._learn(rows, counts, randomness))
        return self

    def _counts(self, y: ArrayLike, samples: int) -> NDArray[np.int64]:
        """Set `classes_`, and return the counts (N, K) that `y` holds or stands for."""
        array = np.asarray(y)
        if array.ndim == 2 and array.shape[1] > 1:
            counts = check_counts(array)
            self.classes_ = self._agreed_classes(np.arange(counts.shape[1]))
            if counts.shape[1] != len(self.classes_):
                raise DataError(f"the counts have {counts.shape[1]} columns for {len(self.classes_)} agreed classes")
        else:
            labels = self._labels_of(y)
            counts = one_hot(labels, len(self.classes_)).astype(np.int64)
        if len(counts) != samples:
            raise DataError(f"X has {samples} samples and y has {len(counts)}; they must be the same")
        return counts


@dataclass(eq=False, repr=False, kw_only=True)
class RiskClassifier(VoteClassifier):
    """Base of Hamm's two algorithms: empirical risk minimisation with output perturbation. `lam_` is lambda of the fit.

    Parameters, besides those of `VoteClassifier`
    ---------------------------------------------
    lam : float or None, default=None
        lambda of the ridge (lambda/2) ||w||^2; None: by the public rule (`psephos.curator.hamm.rules.RidgeRule`).
    loss : {'logistic', 'huber', 'softmax'}, default='logistic'
        'logistic' is the softmax loss when there are three classes or more; 'huber' is binary only.
    half_width : float, default=0.5
        h of the approximate hinge.
    protect_auxiliary : bool, default=False
        Protect one auxiliary sample beside one party's votes (Hamm 4.5).
    over_norm : {'refuse', 'clip'}, default='refuse'
        What to do with rows longer than 1: raise NormError, or scale each of them back to norm 1. Scaling a row does
        not change its predicted class.
    tolerance : float, default=1e-9
        tau, the solver's certified gradient norm; a public number that enters the sensitivity.
    """

    lam: float | None = None
    loss: Literal["logistic", "huber", "softmax"] = "logistic"
    half_width: float = 0.5
    protect_auxiliary: bool = False
    over_norm: Literal["refuse", "clip"] = "refuse"
    tolerance: float = DEFAULT_TOLERANCE

    _labels: ClassVar[Labels]

    def _rows(self, X: ArrayLike, *, reset: bool) -> Array:
        if self.over_norm not in ("refuse", "clip"):
            raise InvalidParameter(f"over_norm must be 'refuse' or 'clip', not {self.over_norm!r}")
        rows = super()._rows(X, reset=reset)
        if self.over_norm == "clip":
            unit = unit_rows(rows)
            rows = np.where(np.abs(rows) > np.abs(unit), unit, rows)
        return rows

    def _learn(self, rows: Array, counts: NDArray[np.int64], randomness: Randomness) -> Array:
        check_auxiliary(rows)
        classes = counts.shape[1]
        loss = loss_named(self.loss, classes, half_width=self.half_width)
        targets = alpha(counts) if self._labels == "soft" else one_hot(majority(counts), classes)
        known: dict[str, Any] = {"classes": classes, "parties": self.parties_, "private": self.protect_auxiliary}
        sensitivity, rule = erm_rule(self._labels, loss, rows, **known)
        self.lam_ = rule.choose(sensitivity, self.epsilon) if self.lam is None else self.lam
        minimiser = minimise(rows, targets, self.lam_, loss, tolerance=self.tolerance)
        self.released_: PerturbedClassifier | None = None
        self.sensitivity_ = sensitivity(self.lam_)
        if self.epsilon is None:
            return minimiser.w
        self.released_ = perturb(minimiser, self.sensitivity_, self.epsilon, randomness=randomness)
        self.sensitivity_ = self.released_.sensitivity
        return self.released_.w

    @available_if(lambda classifier: classifier.loss != "huber")  # type: ignore[untyped-decorator]
    def predict_proba(self, X: ArrayLike) -> Array:
        """Compute the class probabilities, shape (n, K). Not for the approximate hinge, which has none."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.stack([expit(-scores), expit(scores)], axis=1)
        probabilities: Array = softmax(scores, axis=1)
        return probabilities


class MajorityVoteClassifier(RiskClassifier):
    """Hamm 2016, Algorithm 1: majority-voted labels. Parameters and attributes: `RiskClassifier`."""

    _labels = "majority"


class SoftLabelClassifier(RiskClassifier):
    """Hamm 2016, Algorithm 2: weighted risk of soft labels. Parameters and attributes: `RiskClassifier`."""

    _labels = "soft"


@dataclass(eq=False, repr=False, kw_only=True)
class StatisticClassifier(VoteClassifier):
    """Classifier from the noisy linear statistic of the votes; the noise has no factor 1/lambda.

    Parameters, besides those of `VoteClassifier`
    ---------------------------------------------
    delta : float, default=1e-6
        For Gaussian noise.
    mechanism : {'spherical-laplace', 'discrete-laplace', 'gaussian'}, default='spherical-laplace'
        The noise.
    rank : int or None, default=None
        Number of released coordinates; None: by the public rule.
    """

    delta: float = 1e-6
    mechanism: MechanismName = "spherical-laplace"
    rank: int | None = None

    def _learn(self, rows: Array, counts: NDArray[np.int64], randomness: Randomness) -> Array:
        plan = plan_statistic(
            rows,
            len(self.classes_),
            self.parties_,
            epsilon=self.epsilon,
            delta=self.delta,
            mechanism=self.mechanism,
            rank=self.rank,
        )
        self.sensitivity_ = plan.sensitivity
        self.released_ = None if self.epsilon is None else plan
        return fit_statistic(release_statistic(counts, plan, randomness))


@dataclass(eq=False, repr=False, kw_only=True)
class PateClassifier(VoteClassifier):
    """PATE: a student trained on noisy answers to some of the public samples (Papernot et al. 2017 and 2018).

    Parameters, besides those of `VoteClassifier`
    ---------------------------------------------
    delta : float, default=1e-6
        For 'gnmax'.
    aggregator : {'lnmax', 'gnmax'}, default='lnmax'
        Laplace noise, for a pure epsilon, or Gaussian.
    queries : int or None, default=None
        Number of samples that are answered; None: by the public rule, or all samples without noise.
    """

    delta: float = 1e-6
    aggregator: Aggregator = "lnmax"
    queries: int | None = None

    def _learn(self, rows: Array, counts: NDArray[np.int64], randomness: Randomness) -> Array:
        noiseless = self.epsilon is None
        samples, classes = counts.shape
        plan = plan_pate(
            samples,
            classes,
            self.parties_,
            epsilon=1.0 if self.epsilon is None else self.epsilon,
            delta=self.delta,
            aggregator=self.aggregator,
            queries=len(rows) if noiseless and self.queries is None else self.queries,
        )
        self.sensitivity_ = plan.sensitivity
        self.released_ = None if noiseless else plan
        if noiseless:
            release = PateRelease(plan, majority(counts)[plan.queries])
        else:
            release = release_pate(counts, plan, randomness)
        return fit_student(rows, release)
