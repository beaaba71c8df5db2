"""The rehearsal: worlds that reproduce the public model's accuracy, plans from public rows only, and the release."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from psephos.curator.checks import public_features
from psephos.curator.rehearsal import (
    Noise,
    PublicModel,
    Rehearsal,
    calibrate,
    contrasts_of,
    fit_public,
    rehearse,
)
from psephos.curator.rehearsed import (
    RehearsedPlan,
    fit_rehearsed,
    model_classifier,
    plan_rehearsed,
    rehearsal_of,
)
from psephos.protocol.errors import DataError, InvalidParameter
from psephos.protocol.grids.own_data import contrast_basis

Array = NDArray[np.float64]

MODELS = [
    # classes, public rows, columns, signal
    (2, 60, 8, 1.0),
    (2, 200, 30, 0.3),
    (2, 100, 5, 4.0),
    (4, 150, 10, 1.5),
    (2, 60, 40, 3.0),
]


@cache
def table(classes: int, rows: int, columns: int, signal: float, seed: int = 0) -> tuple[Array, NDArray[np.int64]]:
    """Return rows with a constant behind them, and labels of a softmax model."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(rows, columns)) * generator.uniform(0.5, 2.0, columns)
    W = np.random.default_rng(99).normal(size=(classes, columns)) * signal
    scores = X @ W.T + generator.gumbel(size=(rows, classes))
    return np.column_stack([X, np.ones(rows)]), scores.argmax(axis=1)


@cache
def two_classes() -> PublicModel:
    """Return a public model of 60 rows."""
    X, y = table(2, 60, 8, 1.0)
    return fit_public(X[:, :-1], y, 2)


def accuracy(w: Array, X: Array, y: NDArray[np.int64]) -> float:
    """Return the share of rows that a classifier, (d,) or (K, d), gets right."""
    return float(np.mean((X @ w > 0) == y if w.ndim == 1 else (X @ w.T).argmax(axis=1) == y))


def laplace(epsilon: float, parties: int) -> Any:
    """Return the noise in a mean of directions, whatever their length."""
    return lambda entries: Noise("l1", math.sqrt(2) * 2 / (epsilon * parties))


@pytest.mark.slow
@pytest.mark.parametrize(("classes", "rows", "columns", "signal"), MODELS)
def test_worlds_reproduce_the_cross_validated_accuracy_of_the_public_model(
    classes: int, rows: int, columns: int, signal: float
) -> None:
    X, y = table(classes, rows, columns, signal)
    model = fit_public(X[:, :-1], y, classes)
    worlds = calibrate(model, np.random.default_rng(0))
    standard_error = math.sqrt(worlds.cross_validated * (1 - worlds.cross_validated) / rows)
    assert abs(worlds.accuracy - worlds.cross_validated) < standard_error + 0.01
    rehearsed = rehearse(model, 50, 40, [laplace(10.0, 50)])
    assert abs(rehearsed.public_accuracy - worlds.cross_validated) < 2 * (standard_error + 0.01)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 8])
def test_public_rows_that_show_nothing_do_not_show_that_there_is_nothing(seed: int) -> None:
    """Labels at random: cross-validation chooses the largest ridge, and 300 parties with little noise are asked."""
    generator = np.random.default_rng(seed)
    model = fit_public(generator.normal(size=(40, 30)), generator.integers(0, 2, 40), 2)
    assert (model.ridge > 20).all()
    assert rehearse(model, 300, 50, [laplace(10.0, 300)]).asks
    assert not rehearse(model, 300, 50, [laplace(0.01, 300)]).asks


def test_labels_of_one_class_and_absent_classes_still_make_a_model() -> None:
    X, y = table(4, 150, 10, 1.5)
    model = fit_public(X[:, :-1], np.where(y == 0, 0, -1), 4)
    chosen = model.scores(model.rows) @ contrast_basis(4)
    assert np.all(chosen.argmax(axis=1) == 0)
    model = fit_public(X[:, :-1], np.where(y < 2, y, -1), 4)
    assert np.isfinite(model.offset).all()
    with pytest.raises(DataError):
        fit_public(X[:, :-1], np.full(len(y), -1), 4)
    with pytest.raises(DataError):
        fit_public(np.ones((20, 3)), np.zeros(20, np.int64), 2)


@pytest.mark.parametrize("rows", [60, 250])
def test_a_forests_scores_are_in_the_model_however_many_columns_there_are(rows: int) -> None:
    """Not their projection on the leading principal directions; one of their columns is constant."""
    X, y = table(3, rows + 50, 200, 0.2)
    X = np.where(np.arange(201) == 7, 1.0, X)
    log_odds = np.zeros((201, 3))
    log_odds[[7, 8, 9], range(3)] = 1.0, 1.0, -0.5
    forest = contrasts_of(log_odds, 3)
    model = fit_public(X[:rows, :-1], y[:rows], 3, log_odds)
    standard, slopes = (X[:, :-1] - model.mean) / model.spread, model.spread[:, None] * forest[:-1]
    assert np.allclose(standard @ model.axes @ (model.axes.T @ slopes), standard @ slopes)
    assert np.allclose(model.axes.T @ model.axes, np.eye(model.axes.shape[1]))


def rehearsal(epsilon: float = 10.0, parties: int = 100, seed: int = 0, **terms: Any) -> Rehearsal:
    """Rehearse the step for two classes and 60 public rows."""
    X, y = table(2, 60, 8, 1.0, seed)
    return rehearsal_of(X, y, 2, parties, rows=40, epsilon=epsilon, **terms)


def plan(epsilon: float = 10.0, parties: int = 100, **terms: Any) -> RehearsedPlan:
    """Plan the step that was rehearsed."""
    known = {name: value for name, value in terms.items() if name == "contributors"}
    return plan_rehearsed(rehearsal(epsilon, parties, **terms), parties, epsilon=epsilon, **known)


def test_a_rehearsal_is_a_function_of_public_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same rows and terms give the same plan; other rows and labels another digest."""
    monkeypatch.setattr("psephos.curator.rehearsal._WORLDS", (3, 6))
    first, again, other = rehearsal(), rehearsal(), rehearsal(seed=1)
    assert first.plan == again.plan
    assert first.gain == again.gain
    digests = {plan_rehearsed(each, 100, epsilon=1.0).grid.digest for each in (first, again, other)}
    assert len(digests) == 2


def test_the_digest_of_public_rows_is_that_of_their_numbers() -> None:
    """Not of how they are kept; it seeds the worlds, so that members with the same file have the same plan."""
    X, y = table(2, 20, 3, 1.0)
    features = X[:, :-1].copy()
    features[3:6, 2] = 0.0
    digest = fit_public(features, y, 2).digest
    negative = features.copy()
    negative[3:6, 2] = -0.0
    other = features.copy()
    other[0, 0] += 2.0**-20
    assert fit_public(np.asfortranarray(negative), y.astype(np.int32), 2).digest == digest
    for rows, labels in ((other, y), (features, 1 - y)):
        assert fit_public(rows, labels, 2).digest != digest


def test_noise_that_drowns_every_step_asks_the_parties_nothing() -> None:
    assert not rehearsal(epsilon=1e-3, parties=5).asks
    assert rehearsal(epsilon=10.0, parties=500).asks


def test_labels_without_signal_ask_the_parties_nothing() -> None:
    """Public labels that do not depend on the features: the rehearsal announces no gain that is not there."""
    generator = np.random.default_rng(1)
    X = np.column_stack([generator.normal(size=(200, 6)), np.ones(200)])
    y = (generator.random(200) < 0.1).astype(np.int64)
    rehearsal = rehearsal_of(X, y, 2, 20, rows=30, epsilon=0.3)
    assert not rehearsal.asks
    assert abs(rehearsal.gain) < 0.005


@pytest.mark.parametrize("epsilon", [1.0, 10.0])
def test_a_release_is_the_public_model_plus_a_step_that_helps(epsilon: float) -> None:
    """Of 300 parties with 30 rows each, with the noise of their shares."""
    X, y = table(2, 60 + 9000 + 5000, 8, 1.0)
    rehearsed = rehearsal_of(X[:60], y[:60], 2, 300, rows=40, epsilon=epsilon)
    step, start = plan_rehearsed(rehearsed, 300, epsilon=epsilon), model_classifier(rehearsed.model)
    total = np.zeros(step.dimension, np.int64)
    for first in range(60, 9060, 30):
        total += np.array(step.grid.contribution(X[first : first + 30], y[first : first + 30]))
    T, labels = X[9060:], y[9060:]
    assert np.allclose(fit_rehearsed(step, [0] * step.dimension), start)
    generator, unit = np.random.default_rng(0), 300 * 2**24
    reached = []
    for _ in range(20):
        noise = np.rint(rehearsed.noise.draw(total.shape, generator) * unit).astype(np.int64)
        reached.append(accuracy(fit_rehearsed(step, (total + noise).tolist()), T, labels))
    assert rehearsed.asks
    assert np.mean(reached) > accuracy(start, T, labels) + 0.01


def test_fewer_ballots_scale_the_mean_and_its_noise() -> None:
    reference = plan(parties=100, contributors=97)
    sums = [10**8] * reference.dimension
    assert not np.allclose(fit_rehearsed(reference, sums), fit_rehearsed(reference, sums, ballots=98))
    assert np.allclose(fit_rehearsed(reference, sums), fit_rehearsed(reference, sums, ballots=100))
    with pytest.raises(DataError):
        fit_rehearsed(reference, sums[1:])
    for ballots in (-1, 0, 101):
        with pytest.raises(InvalidParameter, match="100 parties can be counted"):
            fit_rehearsed(reference, sums, ballots=ballots)


def test_terms_out_of_range_are_refused() -> None:
    X, y = table(2, 60, 8, 1.0)
    with pytest.raises(InvalidParameter):
        rehearsal_of(X, y, 2, 10, rows=0, epsilon=1.0)
    with pytest.raises(InvalidParameter):
        rehearsal_of(X, y, 2, 10, rows=10, epsilon=1.0, mechanism="spherical-laplace")
    with pytest.raises(DataError):
        public_features(-X)
    with pytest.raises(InvalidParameter):
        rehearse(fit_public(X[:, :-1], y, 2), 0, 10, [laplace(1.0, 10)])


# -- by their definitions


# -- wiring
