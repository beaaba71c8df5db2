"""The solver: against scikit-learn, against extended precision, and on data meant to defeat it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

import psephos.curator.hamm.erm as erm
from psephos.curator.hamm.erm import (
    check_auxiliary,
    check_positive,
    gradient,
    minimise,
    norm_bound,
    rounding_floor,
    smallest_tolerance,
)
from psephos.curator.hamm.labels import alpha, one_hot
from psephos.curator.losses import Huber, Logistic, Loss, Softmax
from psephos.protocol.errors import DataError, InvalidParameter

LOSSES: list[Loss] = [Logistic(), Huber(), Huber(0.01), Softmax()]


def problem(seed: int, samples: int = 150, features: int = 8, classes: int = 2) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    table = generator.normal(size=(samples, features))
    table /= np.linalg.norm(table, axis=1).max()
    chances = np.exp(6 * table @ generator.normal(size=(features, classes)))
    counts = np.array([generator.multinomial(25, p / p.sum()) for p in chances])
    return table, alpha(counts)


def reference(table: np.ndarray, targets: np.ndarray, lam: float) -> np.ndarray:
    """scikit-learn on the same risk: each sample once per class, weighted by its soft label; C = 1/(lambda N)."""
    samples, classes = targets.shape
    model = LogisticRegression(C=1 / (lam * samples), fit_intercept=False, solver="newton-cg", tol=1e-11, max_iter=5000)
    model.fit(np.tile(table, (classes, 1)), np.repeat(np.arange(classes), samples), sample_weight=targets.T.ravel())
    return model.coef_[0] if classes == 2 else model.coef_


@pytest.mark.parametrize("lam", [1.0, 1e-2, 1e-4])
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("hard", [False, True])
def test_against_scikit_learn(lam: float, classes: int, hard: bool) -> None:
    table, targets = problem(7, classes=classes)
    if hard:
        targets = one_hot(targets.argmax(axis=1), classes)
    minimiser = minimise(table, targets, lam, Logistic() if classes == 2 else Softmax())
    np.testing.assert_allclose(minimiser.w, reference(table, targets, lam), atol=2e-8 / lam)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("seed", range(3))
def test_the_certificate_holds_in_extended_precision(loss: Loss, seed: int) -> None:
    """The gradient again with 64-bit mantissas: never above the bound, and the bound never above the tolerance."""
    table, targets = problem(seed, samples=400, features=12, classes=2 if loss.binary else 5)
    minimiser = minimise(table, targets, 1e-4, loss)
    wide = table.astype(np.longdouble)
    scores = wide @ minimiser.w.astype(np.longdouble).T
    if isinstance(loss, Softmax):
        exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
        residual = exponentials / exponentials.sum(axis=1, keepdims=True) - targets
    elif isinstance(loss, Logistic):
        residual = 1 / (1 + np.exp(-scores)) - targets[:, 1]
    else:
        assert isinstance(loss, Huber)
        h = np.longdouble(loss.half_width)
        residual = sum(
            -sign * weight * np.clip(1 + h - sign * scores, 0, 2 * h) / (2 * h)
            for sign, weight in ((1, targets[:, 1]), (-1, targets[:, 0]))
        )
    exact = residual.T @ wide / len(wide) + np.longdouble(1e-4) * minimiser.w
    assert np.linalg.norm(exact) <= minimiser.gradient_norm <= minimiser.tolerance == erm.DEFAULT_TOLERANCE
    error = np.linalg.norm((exact - gradient(table, targets, minimiser.w, 1e-4, loss)).astype(float))
    floor = rounding_floor(*table.shape, targets.shape[1], float(np.linalg.norm(minimiser.w)), 1e-4, loss)
    assert 0 < error <= floor  # a floor of nothing would not notice


@st.composite
def nasty(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, float]:
    """Small tables with duplicates, zero rows, huge ratios of scale, unanimous and split votes, tiny lambda."""
    n, d = draw(st.integers(1, 12)), draw(st.integers(1, 5))
    entry = st.sampled_from([0.0, 1.0, -1.0, 1e-3, -1e-8, 0.5, 1e-160])
    table = np.array(draw(st.lists(st.lists(entry, min_size=d, max_size=d), min_size=n, max_size=n))) / np.sqrt(d)
    m = draw(st.integers(1, 20))
    positive = np.array(draw(st.lists(st.integers(0, m), min_size=n, max_size=n)))
    lam = draw(st.sampled_from([1e-6, 1e-4, 1e-2, 1.0, 100.0]))
    return table, alpha(np.stack([m - positive, positive], axis=1)), lam


@settings(max_examples=150, deadline=None)
@given(nasty(), st.sampled_from(LOSSES), st.booleans())
def test_the_solver_converges_on_hostile_data(
    case: tuple[np.ndarray, np.ndarray, float], loss: Loss, dense: bool
) -> None:
    table, targets, lam = case
    limit = erm._DENSE_LIMIT
    erm._DENSE_LIMIT = limit if dense else 0
    try:
        minimiser = minimise(table, targets, lam, loss)
    finally:
        erm._DENSE_LIMIT = limit
    assert minimiser.gradient_norm <= minimiser.tolerance
    assert np.linalg.norm(minimiser.w) <= norm_bound(loss, 2, lam) + minimiser.tolerance / lam


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_least_accepted_tolerance_is_reached(loss: Loss) -> None:
    classes = 2 if loss.binary else 6
    table, targets = problem(13, samples=600, features=20, classes=classes)
    for lam in (1e-2, 1e-5, 1e-8):
        least = smallest_tolerance(600, 20, classes, lam, loss)
        for goal in (targets, one_hot(targets.argmax(axis=1), classes)):
            assert minimise(table, goal, lam, loss, tolerance=least).gradient_norm <= least
        with pytest.raises(InvalidParameter, match="tolerance"):
            minimise(table, targets, lam, loss, tolerance=0.99 * least)


def test_repr_of_a_minimiser_shows_no_parameters() -> None:
    table, targets = problem(23)
    minimiser = minimise(table, targets, 1e-2, Logistic())
    text = repr(minimiser) + str(minimiser)
    assert not any(f"{abs(entry):.3g}" in text for entry in minimiser.w)
    assert "gradient_norm" not in text  # where the solver stopped depends on the votes, too


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf"), "1", None, True])
def test_lambda_and_tolerance_must_be_positive(value: object) -> None:
    with pytest.raises(InvalidParameter, match="lambda"):
        check_positive(value, "lambda")  # type: ignore[arg-type]
    table, targets = problem(0)
    with pytest.raises(InvalidParameter):
        minimise(table, targets, value, Logistic())  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter):
        minimise(table, targets, 1.0, Logistic(), tolerance=value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "table",
    [[], [[]], np.zeros((0, 3)), [1.0, 0.0], [[float("nan")]], [[float("inf")]], [["a"]], [[1.0], [0.5, 0.5]]],
)
def test_unusable_auxiliary_data_is_refused(table: object) -> None:
    with pytest.raises(DataError):
        check_auxiliary(table)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "targets",
    [[[0.5, 0.5]], [[0.5, 0.6]] * 2, [[1.5, -0.5]] * 2, [[1.0]] * 2, [[0.2, 0.3, 0.5]] * 2, [[float("nan")] * 2] * 2],
)
def test_invalid_soft_labels_are_refused(targets: list[list[float]]) -> None:
    with pytest.raises(DataError):
        minimise([[1.0], [0.5]], targets, 1.0, Logistic())


# -- by their definitions


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_rounding_floor_computed_by_hand(loss: Loss) -> None:
    """At sizes where every gamma is far from the number of its terms."""
    u, norm, lam, classes = 2.0**-53, 3.0, 0.5, 7
    for samples, features in ((2**50, 2**51), (2**51, 10), (10, 2**50), (1000, 30)):
        gamma_d, gamma_n = (Fraction(n, 2**53) / (1 - Fraction(n, 2**53)) for n in (features, samples))
        score = (float(gamma_d) + np.sqrt(14) * u) * norm
        residual = loss.smoothness * score + 19 * u
        total = residual + float(gamma_n) * (loss.lipschitz + residual) + 4 * u * (loss.lipschitz + lam * norm)
        assert rounding_floor(samples, features, classes, norm, lam, loss) == pytest.approx(
            1.001 * total, rel=1e-12, abs=0
        )
    floor = rounding_floor(50, 6, classes, norm_bound(loss, classes, lam), lam, loss)
    assert smallest_tolerance(50, 6, classes, lam, loss) == 8 * floor
    assert norm_bound(loss, classes, lam) == pytest.approx(np.sqrt(4 * loss.at_zero(classes)), rel=1e-15)


@pytest.mark.parametrize("tilt", [0.0, 0.25])
def test_the_certificate_is_the_norm_plus_rounding(tilt: float) -> None:
    """Of a gradient of 1000 entries: its norm, that many units in the last place, and the floor at the norm of w."""
    table, targets = problem(37, samples=20, features=1000)
    w, u = np.full(1000, 0.1), 2.0**-53
    tilted = np.full(1000, tilt)
    computed, bound = erm._certified(table, targets, w, 0.5, Logistic(), tilted)
    np.testing.assert_array_equal(computed, gradient(table, targets, w, 0.5, Logistic()) + tilt)
    norm, length = (float(np.linalg.norm(v)) for v in (computed, w))
    floor = rounding_floor(20, 1000, 2, length * (1 + 1004 * u), 0.5, Logistic())
    floor += 4 * u * float(np.linalg.norm(tilted))
    assert (bound - norm) / (norm * 1004 * u + floor) == pytest.approx(1, abs=1e-3)


# -- what is taken, at its limits


# -- with a linear term


@pytest.mark.parametrize("loss", [Logistic(), Huber(), Softmax()], ids=repr)
def test_a_tilted_minimiser_by_hand(loss: Loss) -> None:
    """Its gradient is minus the tilt; its limit and its least tolerance are those of a longer vector."""
    table, targets = problem(41, samples=50, features=4, classes=2 if loss.binary else 3)
    tilt, lam = np.random.default_rng(2).normal(size=4 if loss.binary else (3, 4)) * 5, 0.05
    tilt = tilt if loss.binary else tilt - tilt.mean(axis=0)
    size = float(np.linalg.norm(tilt))
    longest = (loss.lipschitz + size) / lam
    least = 8 * (rounding_floor(50, 4, targets.shape[1], longest, lam, loss) + 4 * 2.0**-53 * size)
    assert least > 2 * smallest_tolerance(50, 4, targets.shape[1], lam, loss)
    minimiser = minimise(table, targets, lam, loss, tilt=tilt, tolerance=1.001 * least)
    assert np.linalg.norm(gradient(table, targets, minimiser.w, lam, loss) + tilt) <= minimiser.gradient_norm
    assert minimiser.gradient_norm <= minimiser.tolerance == 1.001 * least
    assert (minimiser.tilt, minimiser.lam, minimiser.loss) == (size, lam, loss)
    with pytest.raises(InvalidParameter, match="tolerance"):
        minimise(table, targets, lam, loss, tilt=tilt, tolerance=0.999 * least)
    limit = (loss.lipschitz * (1 + 2.0**-39) + size) / lam * (1 + 2.0**-40) + minimiser.tolerance / lam
    assert minimiser.norm_limit == pytest.approx(limit, rel=4e-16, abs=0)
    plain = minimise(table, targets, lam, loss, tilt=0 * tilt)
    assert np.array_equal(plain.w, minimise(table, targets, lam, loss).w)
    assert plain.tilt == 0.0
