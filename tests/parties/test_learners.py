"""Local classifiers of every kind vote over the agreed classes, whatever their party has seen."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Perceptron
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier

from psephos.parties.learners import LEARNERS, LocalClassifier, make_learner
from psephos.parties.training import WHITENED_RIDGE, train_parties, votes
from psephos.protocol.errors import DataError, InvalidParameter


def clouds(
    classes: int = 3, each: int = 12, d: int = 4, seed: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    generator = np.random.default_rng(seed)
    centres = np.eye(classes, d) * 0.8
    X = np.repeat(centres, each, axis=0) + 0.05 * generator.normal(size=(classes * each, d))
    return X / np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True)), np.repeat(np.arange(classes), each)


@pytest.mark.parametrize("name", sorted(LEARNERS))
def test_a_learner_with_missing_classes(name: str) -> None:
    X, y = clouds(classes=4)
    seen = (y == 1) | (y == 3)
    voted = make_learner(name, classes=5, coordinates=np.eye(X.shape[1])).fit(X[seen], y[seen]).predict_votes(X)
    assert set(voted[y == 1]) == {1}
    assert set(voted[y == 3]) == {3}
    assert set(voted) <= {0, 1, 2, 3, 4}


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


def test_the_seed_determines_the_classifier() -> None:
    generator = np.random.default_rng(0)
    X, y, fresh = generator.random((40, 3)) / 2, generator.integers(0, 3, 40), generator.random((60, 3)) / 2
    runs = [make_learner("forest", classes=3, seed=seed).fit(X, y).predict_votes(fresh) for seed in (1, 1, 2)]
    assert np.array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])
    own = make_learner(RandomForestClassifier(3, random_state=5), classes=3, seed=1).fit(X, y).predict_votes(fresh)
    other = make_learner(RandomForestClassifier(3, random_state=5), classes=3, seed=2).fit(X, y).predict_votes(fresh)
    assert np.array_equal(own, other)


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


@pytest.mark.parametrize("predicted", [[9, 9], [0, 2], [-1, 0], [0, 0.5], [0], [[0, 1]], [0, 1, 0]])
def test_a_prediction_outside_the_agreed_classes_is_refused(predicted: list[float]) -> None:
    class Inventor(DecisionTreeClassifier):
        def predict(self, X: NDArray[np.float64], check_input: bool = True) -> NDArray[np.float64]:
            return np.array(predicted)

    learner = LocalClassifier(lambda samples: Inventor(), classes=2).fit(np.eye(2), [0, 1])
    with pytest.raises(DataError):
        learner.predict_votes(np.eye(2))


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
