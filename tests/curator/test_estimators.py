"""The scikit-learn estimators: scikit-learn's own checks, Algorithms 1 and 2, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from psephos.curator.estimators import (
    LinearClassifier,
    MajorityVoteClassifier,
    PateClassifier,
    SoftLabelClassifier,
    StatisticClassifier,
)
from psephos.curator.hamm.erm import minimise
from psephos.curator.hamm.labels import alpha, majority, one_hot
from psephos.curator.hamm.release import erm_sensitivity
from psephos.curator.losses import Logistic, Softmax
from psephos.curator.methods import ReleaseRequest, erm_method
from psephos.curator.statistic import fit_statistic, plan_statistic, release_statistic
from psephos.protocol.errors import DataError, InvalidParameter, NormError

BOTH = [MajorityVoteClassifier, SoftLabelClassifier]


@parametrize_with_checks(
    [
        MajorityVoteClassifier(epsilon=None, over_norm="clip"),
        SoftLabelClassifier(epsilon=10.0, over_norm="clip", random_state=0),
        StatisticClassifier(epsilon=10.0, random_state=0),
        PateClassifier(epsilon=10.0, random_state=0),
    ]
)
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def counted(seed: int = 0, classes: int = 2, parties: int = 40) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(120, 4))
    x /= np.linalg.norm(x, axis=1).max()
    chances = np.exp(8 * x @ generator.normal(size=(4, classes)))
    return x, np.array([generator.multinomial(parties, p / p.sum()) for p in chances])


@pytest.mark.parametrize("classes", [2, 3])
def test_estimators_without_noise_are_the_minimisers(classes: int) -> None:
    x, counts = counted(classes=classes)
    loss = Logistic() if classes == 2 else Softmax()
    soft = SoftLabelClassifier(epsilon=None, lam=1e-3).fit(x, counts)
    vote = MajorityVoteClassifier(epsilon=None, lam=1e-3).fit(x, counts)
    np.testing.assert_array_equal(soft.coef_.squeeze(), minimise(x, alpha(counts), 1e-3, loss).w)
    np.testing.assert_array_equal(vote.coef_.squeeze(), minimise(x, one_hot(majority(counts), classes), 1e-3, loss).w)
    assert soft.parties_ == 40
    assert soft.classes_.tolist() == list(range(classes))
    assert soft.noise_source_ == "none"
    assert soft.released_ is None
    reference = LogisticRegression(C=1 / (1e-3 * 120), fit_intercept=False, tol=1e-10, max_iter=1000)
    reference.fit(x, majority(counts))
    assert (reference.predict(x) == vote.predict(x)).mean() > 0.99
    np.testing.assert_allclose(reference.predict_proba(x), vote.predict_proba(x), atol=1e-4)


def test_labels_count_as_one_partys_ballot() -> None:
    x, counts = counted()
    names = np.array(["benign", "malign"])[majority(counts)]
    fitted = SoftLabelClassifier(epsilon=None, lam=1e-2).fit(x, names)
    assert fitted.parties_ == 1
    assert fitted.classes_.tolist() == ["benign", "malign"]
    assert set(fitted.predict(x)) == {"benign", "malign"}
    assert fitted.sensitivity_ == erm_sensitivity("soft", Logistic(), 1e-2, parties=1, classes=2, features=x)


def test_agreed_classes_do_not_depend_on_the_labels() -> None:
    x, _ = counted()
    only_one = np.full(len(x), "b")
    model = SoftLabelClassifier(epsilon=None, classes=["c", "b", "a"]).fit(x, only_one)
    assert model.classes_.tolist() == ["c", "b", "a"]
    assert model.coef_.shape == (3, 4)
    _, counts = counted(classes=3)
    named = MajorityVoteClassifier(epsilon=None, classes=["c", "b", "a"]).fit(x, counts)
    assert named.predict(x).tolist() == [
        ["c", "b", "a"][k] for k in MajorityVoteClassifier(epsilon=None).fit(x, counts).predict(x)
    ]
    with pytest.raises(DataError, match="agreed classes"):
        SoftLabelClassifier(classes=["c", "a"]).fit(x, only_one)
    with pytest.raises(DataError, match="3 columns"):
        SoftLabelClassifier(classes=["c", "a"]).fit(x, counts)
    for classes in (["a"], ["a", "a"], [["a"], ["b"]]):
        with pytest.raises(InvalidParameter, match="two distinct"):
            SoftLabelClassifier(classes=classes).fit(x, counts)


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("classes", [2, 3])
def test_estimators_with_noise_release(kind: Any, classes: int) -> None:
    x, counts = counted(classes=classes)
    model = kind(epsilon=2.0).fit(x, counts)
    assert model.noise_source_ == "system"
    given = kind(epsilon=2.0, lam=1e-2).fit(x, counts)
    assert given.lam_ == 1e-2
    assert model.released_.epsilon == 2.0
    assert model.sensitivity_ == model.released_.sensitivity
    labels = "soft" if kind is SoftLabelClassifier else "majority"
    loss = Logistic() if classes == 2 else Softmax()
    agreed: dict[str, Any] = {"parties": 40, "classes": classes, "features": x}
    for one in (model, given):
        base = erm_sensitivity(labels, loss, one.lam_, **agreed)  # type: ignore[arg-type]
        assert base.value < one.sensitivity_.value < 1.01 * base.value
    request = ReleaseRequest(2.0, 1e-6, "spherical-laplace", None)
    assert model.lam_ == erm_method(labels, counts, x, loss, request).chosen["lam"]  # type: ignore[arg-type]
    assert not np.array_equal(model.coef_, kind(epsilon=2.0).fit(x, counts).coef_)
    seeded = [kind(epsilon=2.0, random_state=5).fit(x, counts) for _ in range(2)]
    np.testing.assert_array_equal(seeded[0].coef_, seeded[1].coef_)
    assert seeded[0].noise_source_ == "simulation"


def test_auxiliary_protection_reaches_the_release() -> None:
    x, counts = counted()
    plain, protected = (
        SoftLabelClassifier(epsilon=1.0, lam=1e-2, protect_auxiliary=chosen).fit(x, counts).sensitivity_.value
        for chosen in (False, True)
    )
    assert plain < protected


def test_over_norm_rows_are_refused_by_default_and_clipped_on_request() -> None:
    x, counts = counted()
    x = x * 3
    with pytest.raises(NormError):
        SoftLabelClassifier(epsilon=None).fit(x, counts)
    clipped = SoftLabelClassifier(epsilon=None, over_norm="clip").fit(x, counts)
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    by_hand = SoftLabelClassifier(epsilon=None).fit(x / np.maximum(1, norms), counts)
    np.testing.assert_allclose(clipped.coef_, by_hand.coef_, atol=1e-6)
    # Rows that short or long must neither overflow nor vanish.
    SoftLabelClassifier(epsilon=None, over_norm="clip").fit(x * 1e300, counts)
    with pytest.raises(InvalidParameter, match="over_norm"):
        SoftLabelClassifier(over_norm="ignore").fit(x, counts)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", BOTH)
def test_bad_input_raises_errors_of_this_library(kind: Any) -> None:
    x, counts = counted()
    for name in ("epsilon", "lam", "tolerance"):
        for value in (0.0, -1.0, float("nan"), float("inf")):
            with pytest.raises(InvalidParameter):
                kind(**{name: value}).fit(x, counts)
    for value in (np.random.RandomState(0), 1.5, True):
        with pytest.raises(InvalidParameter, match="random_state"):
            kind(random_state=value).fit(x, counts)
    for bad in (np.nan, np.inf):
        broken = x.copy()
        broken[0, 0] = bad
        with pytest.raises(DataError):
            kind().fit(broken, counts)
    unknown = np.full(len(x), np.nan)
    for y in (unknown, counts[:-1], counts.astype(float), np.zeros_like(counts), np.zeros(len(x), dtype=int), None):
        with pytest.raises(DataError):
            kind().fit(x, y)
    with pytest.raises(DataError):
        kind().fit(np.zeros((0, 4)), np.zeros((0, 2), dtype=int))
    with pytest.raises(DataError):
        kind().fit(x, counts).predict(x[:, :2])


# -- the statistics and PATE


@pytest.mark.parametrize("classes", [2, 3])
def test_the_statistic_is_that_of_its_plan(classes: int) -> None:
    x, counts = counted(classes=classes)
    bare = StatisticClassifier(epsilon=None).fit(x, counts)
    plan = plan_statistic(x, classes, 40, epsilon=None)
    by_hand = fit_statistic(release_statistic(counts, plan))
    np.testing.assert_array_equal(bare.coef_, np.atleast_2d(by_hand))
    expected = (x @ by_hand > 0).astype(int) if classes == 2 else (x @ by_hand.T).argmax(axis=1)
    np.testing.assert_array_equal(bare.predict(x), expected)
    model = StatisticClassifier(epsilon=2.0, mechanism="gaussian", delta=1e-5, rank=2).fit(x, counts)
    assert (model.released_.event.epsilon, model.released_.rank, model.noise_source_) == (2.0, 2, "system")
    assert 0 < model.released_.event.delta <= 1e-5 * (1 + 1e-6)
    assert model.sensitivity_ == model.released_.sensitivity
    noisy, again = (StatisticClassifier(epsilon=2.0, random_state=s).fit(x, counts).coef_ for s in (1, 2))
    assert not np.array_equal(noisy, again)


def test_a_fitted_linear_classifier_is_not_fitted_again() -> None:
    model = LinearClassifier.of([[1.0, -1.0]], ["no", "yes"], 0.5)
    assert model.predict([[1.0, 1.0], [0.0, 1.0]]).tolist() == ["yes", "no"]
    assert model.score([[1.0, 1.0]], ["yes"]) == 1.0
    three = LinearClassifier.of(np.eye(3), [1, 2, 3])
    assert three.predict([[0.0, 2.0, 1.0]]).tolist() == [2]
    with pytest.raises(InvalidParameter):
        model.fit([[1.0, 1.0]], ["yes"])
    with pytest.raises(DataError):
        model.predict([[1.0]])


# -- by the letter: defaults, tags, coins and what is kept
