"""The intercept that announced class shares give a released classifier."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import softmax

from psephos.curator.class_shares import _SPREAD, with_class_shares
from psephos.protocol.errors import DataError, InvalidParameter

Array = NDArray[np.float64]


def public_rows(count: int = 300, width: int = 4) -> Array:
    """Return rows of norm 1 whose last feature is the constant of the scaling, as `psephos run` scales a table."""
    rows = np.column_stack([np.random.default_rng(2).normal(size=(count, width)), np.ones(count)])
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def classifier(classes: int, width: int = 5) -> Array:
    return np.random.default_rng(3).normal(size=(width,) if classes == 2 else (classes, width))


def predictions(w: Array, X: Array) -> NDArray[np.intp]:
    return (X @ w > 0).astype(int) if w.ndim == 1 else np.asarray((X @ w.T).argmax(axis=1))


@pytest.mark.parametrize("classes", [3, 5])
def test_the_mean_probabilities_are_the_announced_shares(classes: int) -> None:
    X, w = public_rows(), classifier(classes)
    shares = np.arange(1.0, classes + 1) ** 2
    shares /= shares.sum()
    found = with_class_shares(w, X, shares.tolist())
    assert np.ptp((found - w)[:, :-1], axis=0).max() == 0, "the slopes stay"
    scores = X @ (w - w.mean(axis=0)).T / X[:, -1:]
    unit = np.sqrt(scores.var(axis=0).sum()) / _SPREAD
    assert np.allclose(softmax(X @ found.T / X[:, -1:] / unit, axis=1).mean(axis=0), shares, atol=1e-7)
    before, after = (np.bincount(predictions(own, X), minlength=classes) / len(X) for own in (w, found))
    assert np.abs(after - shares).sum() < np.abs(before - shares).sum()


@pytest.mark.parametrize("classes", [2, 3])
def test_the_scale_of_a_classifier_does_not_matter(classes: int) -> None:
    X, w, shares = public_rows(), classifier(classes), [0.1, 0.9] if classes == 2 else [0.1, 0.1, 0.8]
    assert np.allclose(with_class_shares(1e3 * w, X, shares), 1e3 * with_class_shares(w, X, shares))


def test_a_classifier_that_does_not_contradict_the_statement_is_left() -> None:
    X, w = public_rows(), classifier(2)
    share = float(np.mean(X @ w > 0))
    error = np.sqrt(share * (1 - share) / len(X))
    assert with_class_shares(w, X, [1 - share, share]) is w
    assert with_class_shares(w, X, [1 - share - 2.3 * error, share + 2.3 * error]) is w
    assert with_class_shares(w, X, [1 - share - 2.9 * error, share + 2.9 * error])[-1] > w[-1]


@pytest.mark.parametrize("classes", [2, 3])
def test_without_any_signal_the_most_frequent_class_is_predicted(classes: int) -> None:
    X, w = public_rows(), np.zeros((5,) if classes == 2 else (classes, 5))
    shares = [0.3, 0.7] if classes == 2 else [0.2, 0.2, 0.6]
    adjusted = with_class_shares(w, X, shares)
    assert (predictions(adjusted, X) == classes - 1).all()
    odds = adjusted[-1] if classes == 2 else adjusted[:, -1] - adjusted[0, -1]
    expected = np.log(7 / 3) if classes == 2 else [0.0, 0.0, np.log(3)]
    np.testing.assert_allclose(odds, expected, atol=1e-9)


@pytest.mark.parametrize(
    "shares", [[1.0], [0.0, 1.0], [0.99], [0.5, 0.6], [-0.2, 1.2], [float("nan"), 0.5], [0.2, 0.2, 0.2]]
)
def test_what_is_no_share_is_refused(shares: list[float]) -> None:
    with pytest.raises(InvalidParameter):
        with_class_shares(classifier(len(shares)), public_rows(), shares)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"shares": [0.2, 0.3, 0.5]}, InvalidParameter),
        ({"X": public_rows(width=3)}, DataError),
        ({"X": -public_rows()}, DataError),
        ({"X": public_rows()[0]}, DataError),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        with_class_shares(**{"w": classifier(2), "X": public_rows(), "shares": [0.3, 0.7]} | change)
