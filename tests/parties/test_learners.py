"""Local classifiers of every kind vote over the agreed classes, whatever their party has seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Perceptron, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from psephos.parties.learners import LEARNERS, LocalClassifier, RidgeLogistic, make_learner
from psephos.parties.training import WHITENED_RIDGE, train_parties, votes
from psephos.protocol.errors import DataError, InvalidParameter, NormError


def clouds(
    classes: int = 3, each: int = 12, d: int = 4, seed: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    generator = np.random.default_rng(seed)
    centres = np.eye(classes, d) * 0.8
    X = np.repeat(centres, each, axis=0) + 0.05 * generator.normal(size=(classes * each, d))
    return X / np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True)), np.repeat(np.arange(classes), each)


@pytest.mark.parametrize("name", sorted(LEARNERS))
def test_every_learner_learns(name: str) -> None:
    X, y = clouds()
    fresh, truth = clouds(seed=1)
    voted = make_learner(name, classes=3, coordinates=np.eye(X.shape[1])).fit(X, y).predict_votes(fresh)
    assert voted.shape == (36,)
    assert voted.dtype == np.int64
    assert (voted == truth).mean() > 0.9


@pytest.mark.parametrize("name", sorted(LEARNERS))
def test_a_learner_with_missing_classes(name: str) -> None:
    X, y = clouds(classes=4)
    seen = (y == 1) | (y == 3)
    voted = make_learner(name, classes=5, coordinates=np.eye(X.shape[1])).fit(X[seen], y[seen]).predict_votes(X)
    assert set(voted[y == 1]) == {1}
    assert set(voted[y == 3]) == {3}
    assert set(voted) <= {0, 1, 2, 3, 4}


@pytest.mark.parametrize("name", sorted(set(LEARNERS) - {"logistic", "whitened"}))
@pytest.mark.parametrize("count", [1, 5])
def test_a_learner_with_a_single_class(name: str, count: int) -> None:
    X, y = clouds()
    own = y == 2
    voted = (
        make_learner(name, classes=3, coordinates=np.eye(X.shape[1]))
        .fit(X[own][:count], y[own][:count])
        .predict_votes(X)
    )
    assert set(voted) == {2}


def test_a_single_class_with_logistic_is_the_minimiser() -> None:
    X, y = clouds()
    own = y == 2
    learner = make_learner("logistic", classes=3, lam=1e-2).fit(X[own], y[own])
    assert set(learner.predict_votes(X[own])) == {2}
    assert np.array_equal(learner.parameters, train_parties(X[own], y[own], [int(own.sum())], classes=3, lam=1e-2)[0])


@pytest.mark.parametrize("name", sorted(LEARNERS))
def test_a_learner_with_identical_samples(name: str) -> None:
    X = np.tile([0.4, 0.2, 0.1], (5, 1))
    learner = make_learner(name, classes=3, coordinates=np.eye(3)).fit(X, np.array([1, 1, 0, 1, 2]))
    voted = learner.predict_votes(X[:2])
    assert voted.tolist() == [1, 1]
    trained = name in ("logistic", "whitened")
    assert (learner.predict_probabilities(X) is not None) == trained, "others have no more than a majority to learn"


@pytest.mark.parametrize("name", sorted(LEARNERS))
def test_a_learner_with_two_samples(name: str) -> None:
    X = np.array([[0.5, 0.0], [0.0, 0.5]])
    voted = make_learner(name, classes=2, coordinates=np.eye(X.shape[1])).fit(X, np.array([0, 1])).predict_votes(X)
    assert set(voted) <= {0, 1}


def test_votes_index_the_agreed_list() -> None:
    X, y = clouds()
    names = np.array(["walk", "sit", "lie"])
    learner = make_learner("tree", classes=["lie", "run", "sit", "walk"]).fit(X, names[y])
    assert [learner.classes[k] for k in learner.predict_votes(X)] == names[y].tolist()


@pytest.mark.parametrize("classes", [2, 4])
def test_logistic_agrees_with_batched_training(classes: int) -> None:
    X, y = clouds(classes=classes)
    learner = make_learner("logistic", classes=classes, lam=1e-3).fit(X, y)
    W = train_parties(X, y, [len(X)], classes=classes, lam=1e-3)
    assert np.array_equal(learner.parameters, W[0])
    assert np.array_equal(learner.predict_votes(X), votes(W, X)[0])


@pytest.mark.parametrize("classes", [2, 4])
def test_whitened_is_logistic_in_the_coordinates_of_unit_rows(classes: int) -> None:
    """Rows of any length and a stretched matrix: the votes of the classifier trained on z, by scores in x."""
    X, y = clouds(classes=classes)
    A = np.random.default_rng(2).normal(size=(4, 3)) * [1, 10, 100]
    learner = make_learner("whitened", classes=classes, coordinates=A).fit(X * 7, y)
    Z = X / np.linalg.norm(X, axis=1, keepdims=True) @ A
    solver = LogisticRegression(C=1 / (WHITENED_RIDGE * len(Z)), fit_intercept=False, tol=1e-10, max_iter=50_000)
    assert learner.parameters.shape == ((4,) if classes == 2 else (4, 4))
    assert np.array_equal(learner.predict_votes(X), solver.fit(Z, y).predict(Z))
    with pytest.raises(InvalidParameter):
        make_learner("whitened", classes=classes)


def test_ridge_logistic_is_an_estimator() -> None:
    X, y = clouds()
    names = np.array(["a", "b", "c"])[y]
    model = RidgeLogistic(lam=1e-3).fit(X, names)
    assert model.coef_.shape == (3, 4)
    assert model.score(X, names) == 1
    with pytest.raises(NormError):
        RidgeLogistic().fit(2 * X, names)


def test_any_scikit_learn_classifier_votes() -> None:
    X, y = clouds()
    for estimator in (LogisticRegression(), make_pipeline(StandardScaler(), DecisionTreeClassifier())):
        learner = make_learner(estimator, classes=3).fit(X, y)
        assert (learner.predict_votes(X) == y).mean() > 0.9
    with pytest.raises(InvalidParameter):
        _ = learner.parameters


def test_the_callers_estimator_is_not_changed() -> None:
    X, y = clouds()
    estimator = RandomForestClassifier(n_estimators=3)
    make_learner(estimator, classes=3, seed=7).fit(X, y)
    assert not hasattr(estimator, "estimators_")
    assert estimator.random_state is None


def test_the_seed_determines_the_classifier() -> None:
    generator = np.random.default_rng(0)
    X, y, fresh = generator.random((40, 3)) / 2, generator.integers(0, 3, 40), generator.random((60, 3)) / 2
    runs = [make_learner("forest", classes=3, seed=seed).fit(X, y).predict_votes(fresh) for seed in (1, 1, 2)]
    assert np.array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])
    own = make_learner(RandomForestClassifier(3, random_state=5), classes=3, seed=1).fit(X, y).predict_votes(fresh)
    other = make_learner(RandomForestClassifier(3, random_state=5), classes=3, seed=2).fit(X, y).predict_votes(fresh)
    assert np.array_equal(own, other)


def test_the_seed_reaches_into_a_pipeline() -> None:
    generator = np.random.default_rng(0)
    X, y, fresh = generator.random((40, 3)) / 2, generator.integers(0, 3, 40), generator.random((60, 3)) / 2
    pipeline = make_pipeline(StandardScaler(), RandomForestClassifier(3))
    runs = [make_learner(pipeline, classes=3, seed=seed).fit(X, y).predict_votes(fresh) for seed in (1, 1, 2)]
    assert np.array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_seeds_out_of_range_are_refused(seed: int) -> None:
    with pytest.raises(InvalidParameter):
        make_learner("forest", classes=3, seed=seed)
    X, y = clouds(each=3)
    for limit in (0, 2**32 - 1):
        make_learner(DecisionTreeClassifier(), classes=3, seed=limit).fit(X, y)


def test_estimators_behind_the_names() -> None:
    """scikit-learn's own defaults, but for what is said here; no more neighbours than there are samples."""
    assert {name: type(make(9)).__name__ for name, make in LEARNERS.items()} == {
        "tree": "DecisionTreeClassifier",
        "knn": "KNeighborsClassifier",
        "forest": "RandomForestClassifier",
        "naive-bayes": "GaussianNB",
        "svm": "SVC",
        "logistic": "RidgeLogistic",
        "whitened": "RidgeLogistic",
    }
    assert [LEARNERS["knn"](samples).n_neighbors for samples in (1, 4, 5, 6)] == [1, 4, 5, 5]
    assert LEARNERS["forest"](9).n_estimators == 30
    assert [LEARNERS[name](9).lam for name in ("logistic", "whitened")] == [1e-4, WHITENED_RIDGE]


def test_ridge_logistic_is_given_its_tolerance_and_its_classes() -> None:
    X, y = clouds(classes=2)
    loose, tight = (RidgeLogistic(tolerance=tolerance).fit(X, y) for tolerance in (1e-1, 1e-10))
    for model, tolerance in ((loose, 1e-1), (tight, 1e-10)):
        expected = train_parties(X, y, [len(X)], classes=2, lam=1e-4, tolerance=tolerance)[0]
        assert np.array_equal(model.coef_, expected)
    assert not np.array_equal(loose.coef_, tight.coef_)
    assert RidgeLogistic(n_classes=5).fit(X, y).coef_.shape == (5, 4)
    assert RidgeLogistic(n_classes=5).fit(X, y).classes_.tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(NotFittedError):
        RidgeLogistic().predict(X)
    with pytest.raises(ValueError, match="4 features"):
        tight.predict(X[:, :2])


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("method", ["predict", "predict_proba"])
def test_ridge_logistic_checks_the_rows_that_it_predicts(classes: int, method: str) -> None:
    """Rows of any type of number are predicted as their float64; others than it was trained on are refused."""
    X, y = clouds(classes=classes)
    table = pd.DataFrame(X, columns=list("abcd"))
    predict = getattr(RidgeLogistic(lam=1e-3).fit(table, y), method)
    single, expected = table.astype(np.float32), predict(table)
    assert np.array_equal(predict(single), predict(single.astype(np.float64)))
    assert np.array_equal(predict(table.astype(object)), expected)
    infinite = table.replace({"a": {X[0, 0]: np.inf}}).astype(object)
    refused = (table.rename(columns={"a": "e"}), table[["a", "b", "c"]], table * np.nan, table[:0], infinite)
    for other in refused:
        with pytest.raises(ValueError, match=r"."):
            predict(other)
    with pytest.raises(NotFittedError):
        getattr(RidgeLogistic(), method)(X)


def test_probabilities_are_of_all_agreed_classes() -> None:
    """0 for classes that a party has not seen; none where a classifier has none, or has only ever seen one class."""
    X, y = clouds(classes=4)
    seen = (y == 1) | (y == 3)
    own = make_learner("tree", classes=5).fit(X[seen], y[seen]).predict_probabilities(X)
    assert own is not None
    assert own.dtype == np.float64
    assert np.array_equal(own[y == 1], np.tile([0.0, 1, 0, 0, 0], (12, 1)))
    assert np.array_equal(own[y == 3], np.tile([0.0, 0, 0, 1, 0], (12, 1)))
    logistic = make_learner("logistic", classes=4).fit(X, y)
    scores = np.exp(X @ logistic.parameters.T)
    expected = scores / scores.sum(axis=1, keepdims=True)
    assert np.allclose(logistic.predict_probabilities(X), expected)  # type: ignore[arg-type]
    assert make_learner("tree", classes=4).fit(X[y == 2], y[y == 2]).predict_probabilities(X) is None
    assert make_learner(Perceptron(), classes=4).fit(X, y).predict_probabilities(X) is None
    with pytest.raises(DataError):
        logistic.predict_probabilities(X[:, :2])
    with pytest.raises(InvalidParameter):
        make_learner("tree", classes=4).predict_probabilities(X)


def test_fitting_again_replaces_the_classifier() -> None:
    X, y = clouds()
    learner = make_learner("tree", classes=3)
    learner.fit(X[y == 2], y[y == 2])
    assert np.array_equal(learner.fit(X, y).predict_votes(X), y)
    learner.fit(X[y == 2], y[y == 2])
    assert set(learner.predict_votes(X)) == {2}


def test_repr_shows_no_data() -> None:
    X, y = clouds()
    assert repr(make_learner("tree", classes=3).fit(X, y)) == "LocalClassifier(3 classes, fitted)"


# -- bad input


@pytest.mark.parametrize("labels", [[0, 3], [0, -1], [0, 0.5], [0, None], ["0", "1"]])
def test_unknown_labels_are_refused(labels: list[object]) -> None:
    with pytest.raises(DataError):
        make_learner("tree", classes=3).fit(np.eye(2), labels)


@pytest.mark.parametrize(
    ("X", "y"),
    [
        (np.empty((0, 2)), []),
        (np.eye(2), [0]),
        (np.ones(2), [0, 1]),
        (np.empty((2, 0)), [0, 1]),
        (np.array([[np.inf], [0]]), [0, 1]),
        (np.array([["a"], ["b"]]), [0, 1]),
    ],
)
def test_unusable_samples_are_refused(X: NDArray[np.float64], y: list[int]) -> None:
    with pytest.raises(DataError):
        make_learner("tree", classes=2).fit(X, y)


def test_nan_reaches_only_a_classifier_that_accepts_it() -> None:
    X, y = clouds()
    public = X.copy()
    X[::5, 0] = np.nan
    imputing = make_pipeline(SimpleImputer(add_indicator=True), GaussianNB())
    for learner in (imputing, "tree"):
        voted = make_learner(learner, classes=3).fit(X, y).predict_votes(public)
        assert (voted == y).mean() > 0.9
    for name in ("naive-bayes", "logistic"):
        with pytest.raises(DataError):
            make_learner(name, classes=3, coordinates=np.eye(X.shape[1])).fit(X, y)
    with pytest.raises(DataError):
        make_learner(imputing, classes=3).fit(public, y).predict_votes(X)


def test_unusable_auxiliary_samples_are_refused() -> None:
    X, y = clouds()
    learner = make_learner("tree", classes=3)
    with pytest.raises(InvalidParameter):
        learner.predict_votes(X)
    for labels in (y, np.zeros(len(y), int)):
        learner.fit(X, labels)
        for bad in (X[:, :2], np.full((1, 4), np.nan), X[0]):
            with pytest.raises(DataError):
                learner.predict_votes(bad)


@pytest.mark.parametrize("classes", [0, 1, ["a"], ["a", "a"], [0, 0.0]])
def test_classes_must_be_distinct_and_two(classes: object) -> None:
    with pytest.raises(InvalidParameter):
        make_learner("tree", classes=classes)  # type: ignore[arg-type]


@pytest.mark.parametrize("learner", ["perceptron", Ridge(), DecisionTreeClassifier, 3, None])
def test_objects_without_fit_and_predict_are_refused(learner: object) -> None:
    with pytest.raises(InvalidParameter):
        make_learner(learner, classes=2)


def test_lambda_is_for_logistic() -> None:
    with pytest.raises(InvalidParameter):
        make_learner("tree", classes=2, lam=0.1)
    with pytest.raises(InvalidParameter):
        make_learner("logistic", classes=2, lam=-0.1).fit(np.eye(2), [0, 1])


@pytest.mark.parametrize("predicted", [[9, 9], [0, 2], [-1, 0], [0, 0.5], [0], [[0, 1]], [0, 1, 0]])
def test_a_prediction_outside_the_agreed_classes_is_refused(predicted: list[float]) -> None:
    class Inventor(DecisionTreeClassifier):
        def predict(self, X: NDArray[np.float64], check_input: bool = True) -> NDArray[np.float64]:
            return np.array(predicted)

    learner = LocalClassifier(lambda samples: Inventor(), classes=2).fit(np.eye(2), [0, 1])
    with pytest.raises(DataError):
        learner.predict_votes(np.eye(2))


def test_votes_on_nothing_and_numbers_of_classes() -> None:
    X, y = clouds()
    learner = make_learner("tree", classes=np.int64(3)).fit(X, y)
    assert learner.classes == (0, 1, 2)
    for fitted in (learner, make_learner("tree", classes=3).fit(X, y * 0 + 1)):
        assert fitted.predict_votes(X[:0]).shape == (0,)
        assert fitted.predict_votes(X[:1]).dtype == np.int64
    assert repr(make_learner("tree", classes=3)) == "LocalClassifier(3 classes, not fitted)"
    with pytest.raises(DataError):
        learner.fit(X, y[1:])
    with pytest.raises(InvalidParameter):
        make_learner(DecisionTreeClassifier(), classes=2, lam=0.1)


def test_errors_of_the_classifier_are_passed_on() -> None:
    class Broken(DecisionTreeClassifier):
        def fit(self, X: Any, y: Any, **_: Any) -> Broken:
            raise ValueError("out of order")

    X, y = clouds()
    with pytest.raises(ValueError, match="out of order"):
        make_learner(Broken(), classes=3).fit(X, y)
    X[0, 0] = np.nan
    with pytest.raises(DataError):
        make_learner(Broken(), classes=3).fit(X, y)
