"""`psephos.PrivateFederatedClassifier`: the main job (`psephos run` on one's own table) as a scikit-learn estimator."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, fields
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from psephos.curator.ledger import NeighbourCost, costs_together
from psephos.options import converted, respelled, respelling
from psephos.protocol.errors import AgreementError, DataError, InvalidParameter
from psephos.released import ReleasedClassifier, named_table
from psephos.results.trust import DIFFERS
from psephos.simulation.arrays import frame_of, in_memory
from psephos.simulation.job import Job
from psephos.simulation.options import PUBLIC, JobOptions

_SETTLED = {"data", "label", "party", "public", "held_out", "task", "learners", "journal"}
"""Options of `psephos run` that follow from the arguments, or for which there is no use."""

_ARGUMENTS = {"learners": "estimator", "party": "groups", "data": "X", "label": "y"}
"""Arguments of `PrivateFederatedClassifier` and its `fit` by the option in whose place they are."""


def _parameter(option: str) -> str:
    """Return how a caller of `PrivateFederatedClassifier` names an option of `psephos run`."""
    name = _ARGUMENTS.get(option, option)
    own = {*_ARGUMENTS.values(), *PrivateFederatedClassifier._get_param_names()}
    return name if name in own else f'options["{name}"]'


class ReleaseWarning(UserWarning):
    """Warned before a fit asks the parties: it is a release, and spends epsilon of private rows; and of its flaws."""


@dataclass(eq=False, repr=False)
class PrivateFederatedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A private classifier of many parties' rows: `psephos run` on a table in memory, as a scikit-learn estimator.

    `fit` decides, from public values alone, whether a release is expected to be worth its epsilon. If so, it simulates
    all parties, key holders and the curator in this process, which sees all rows; if not, it fits the labelled public
    rows alone. Each fit that asks the parties is a release of its own (`ReleaseWarning`), whose cost is `cost_`. A
    cross-validation or a search makes several, and its scores on private rows are covered by no epsilon. What a
    pipeline fits before this estimator is not private, and does not reach `public`; columns need no scaling.

    Args:
        estimator: what a party trains to vote: a name of `psephos.parties.learners.LEARNERS`, a scikit-learn
            classifier, or a list of these for the parties in turn. None leaves it to the method.
        method, features, epsilon, unit, seed, budget: as the options of `psephos run`. A budget file is about one
            table, and refuses the other folds of a cross-validation.
        encrypted: whether keys are made and vectors are encrypted. Without, the same vectors and noise are added in the
            clear: whoever has the model learns no more, and the process that fits has all rows anyway.
        public: see `fit`.
        classes: the classes, which are public; by default those of the labelled public rows, or of all rows where
            `public` is a share.
        parties: number of shards that rows without groups are dealt to at random.
        options: other options of `psephos run` and its simulations, by name, such as `{"delta": 1e-8}`.

    Attributes:
        classes_: the classes, (K,).
        n_features_in_, feature_names_in_: number and names of the columns of X.
        release_: the released model, a `psephos.ReleasedClassifier`; `release_.model` is what a model file contains.
        cost_: epsilon, delta and unit of the release, a `psephos.curator.ledger.NeighbourCost`; its `str` says it in
            words. Epsilon is 0 where no party was asked.
        forecast_: the decision, and why (`forecast_.reason`); None where a method is wanted `anyway`.
    """

    estimator: Any = None
    _: KW_ONLY
    method: str = "auto"
    features: str = "auto"
    epsilon: float = 1.0
    unit: str = "party"
    encrypted: bool = True
    public: Any = None
    classes: ArrayLike | None = None
    parties: int = 50
    budget: str | None = None
    seed: int = 0
    options: Mapping[str, Any] | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True  # noise
        return tags

    @respelling(_parameter)
    def fit(self, X: Any, y: ArrayLike, *, groups: Any = None, public: Any = None) -> Self:
        """Release a classifier.

        Args:
            X: private rows: numbers, (n, d), or a data frame, whose columns may be numbers, text and dates with gaps.
            y: their classes, (n,): numbers, truth values or text.
            groups: whose each row is, (n,). None deals rows to `parties` shards at random; then no person or
                institution with rows in several shards is protected.
            public: public rows and their classes, (X_pub, y_pub), which settle how columns are read. None, NaN, and
                -1 if it is not one of `classes`, stand for no class; y_pub may be None. Or, in experiments, the share
                of the rows that are taken for public, with their classes. By default the parameter `public`.

        Raises:
            UselessReleaseError: no gain of a release is sure enough, and too few public rows have labels for a model
                in its place; nothing was computed on private rows, or charged.
            BudgetExceededError, BudgetFileError: `budget` does not allow the release; nothing was charged.
            DataError, InvalidParameter: the rows or the parameters cannot be used.
            ValueError: as scikit-learn does.
        """
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)  # an earlier release, its classes and its cost are not those of a fit that fails
        rows, y = self._rows(X, y, reset=True), np.asarray(column_or_1d(y, warn=True))
        check_classification_targets(y)
        public = self.public if public is None else public
        pair, share = isinstance(public, tuple | list) and len(public) == 2, isinstance(public, Real)
        if not (public is None or pair or (share and 0 < public < 1)):
            raise InvalidParameter("public is (X_pub, y_pub), or a share of the rows, below 1", option="public")
        if share:
            self.classes_, opened = np.unique(y), round(float(public) * len(y))
        else:
            opened = self._public(public, y.dtype)
        if self.classes is not None:
            self.classes_ = np.unique(np.asarray(self.classes))
        if len(self.classes_) < 2:
            raise DataError(f"there are labels of {len(self.classes_)} class: name all with classes=")
        named, frames = in_memory(rows, y, groups, opened, self.seed)
        job = Job(self._job_options(named), frames=frames)
        job.check_model()
        for text in job.split.unmapped:
            warnings.warn(respelled(text, _parameter), ReleaseWarning, stacklevel=3)
        job.decide()
        self.forecast_ = job.forecast
        if job.method != PUBLIC and (job.forecast is None or job.forecast.chosen.asks):
            text = f"this fit is a release, and spends epsilon {self.epsilon:g} of private rows, as every fit does"
            warnings.warn(text, ReleaseWarning, stacklevel=3)
        result = job.run(encrypted=self.encrypted)
        if result.exact is False:
            raise AgreementError(DIFFERS)
        self.release_ = ReleasedClassifier(job.model(result))
        release = self.release_.model.release
        self.cost_ = next(iter(costs_together([release])), NeighbourCost(release.protects, 0, 0.0, 0.0))
        for text in self.release_.model.warnings:  # last, since a filter may raise them, and the release is paid for
            warnings.warn(respelled(text, _parameter), ReleaseWarning, stacklevel=3)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "release_")

    def _rows(self, X: Any, y: Any = (), *, reset: bool) -> Any:
        """Check rows as scikit-learn does, and return them as a data frame."""
        table, target = named_table(X), None if y is None else "no_validation"  # None is refused
        checks: dict[str, Any] = {"dtype": np.float64} if table is None else {"skip_check_array": True}
        frame = frame_of(validate_data(self, X if table is None else table, target, reset=reset, **checks))
        return frame.set_axis(list(getattr(self, "feature_names_in_", frame.columns)), axis=1)

    def _public(self, public: Any, kind: np.dtype[Any]) -> Any:
        """Set `classes_` to those of the public labels; return the public rows and their labels, "" for none."""
        import pandas as pd

        rows = None if public is None else self._rows(public[0], reset=False)
        count = 0 if rows is None else len(rows)
        labels = np.full(count, None) if public is None or public[1] is None else np.array(public[1], dtype=object)
        if labels.shape != (count,):
            raise DataError(f"public is (X_pub, y_pub) with as many labels as rows, not {labels.shape} for {count}")
        none = np.asarray(pd.isna(labels))
        if self.classes is None or -1 not in np.asarray(self.classes).tolist():
            none |= np.array([isinstance(label, Real) and label == -1 for label in labels], dtype=bool)
        known = np.asarray(labels[~none].tolist())
        # With NaN among them whole numbers are written as 1.0.
        self.classes_ = np.unique(known.astype(kind) if known.dtype.kind == "f" and kind.kind in "biu" else known)
        labels[none] = ""
        return None if rows is None else (rows, labels)

    def _job_options(self, named: Mapping[str, Any]) -> JobOptions:
        known = {one.name for one in fields(JobOptions)} - _SETTLED
        own = {name: value for name, value in self.get_params(deep=False).items() if name in known}
        more = converted("options", self.options or {}, dict[str, Any])
        if wrong := sorted(more.keys() & own.keys() | more.keys() - known):
            raise InvalidParameter(f"options= takes no {', '.join(wrong)}", option="options")
        if self.estimator is not None:
            own["learners"] = tuple(self.estimator if isinstance(self.estimator, list | tuple) else [self.estimator])
        own |= {"classes": [*map(str, self.classes_.tolist())], "held_out": 0.0}
        return JobOptions(**{**own, **more, **named})

    def _encodable(self, X: Any) -> Any:
        """Return rows as `release_` takes them: numbers where all columns are, which is quicker, or a data frame."""
        check_is_fitted(self)
        rows = self._rows(X, reset=False)
        whole = named_table(X) is None and rows.shape[1] == self.release_.n_features_in_
        return rows.to_numpy() if whole else rows

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the scores: (n,) for two classes (positive: `classes_[1]`), (n, K) for more."""
        rows = self._encodable(X)
        return self.release_.decision_function(rows)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each row, (n,)."""
        rows = self._encodable(X)
        places = {name: place for place, name in enumerate(self.release_.model.classes)}
        return np.asarray(self.classes_[[places[name] for name in self.release_.predict(rows)]])

    @available_if(lambda self: hasattr(getattr(self, "release_", None), "predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each class, (n, 2), where `release_` is a model that was calibrated."""
        probabilities: NDArray[np.float64] = self.release_.predict_proba(self._encodable(X))
        return probabilities
