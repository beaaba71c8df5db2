"""Private evaluation: estimates against the exact values, their stated errors, and Platt scaling."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import confusion_matrix, roc_auc_score

from psephos.curator.evaluation import (
    CALIBRATED_FROM,
    MOST_BINS,
    EvaluationEstimate,
    EvaluationPlan,
    calibrated,
    estimate_evaluation,
    evaluation_sensitivity,
    plan_evaluation,
)
from psephos.protocol.errors import DataError, InvalidParameter
from psephos.protocol.grids.error_evaluation import ERROR_ROW, ErrorGrid
from psephos.protocol.grids.evaluation import ROW, SHARE_BITS, ShareGrid
from psephos.protocol.grids.record import NumericLabel

Array = NDArray[np.float64]
ROWS = 5000


def population(generator: np.random.Generator, count: int, scale: float = 1.0) -> tuple[Array, Any]:
    """Rows with a score whose log odds are known, and their labels: accuracy .84, AUROC .9, a quarter of class 1."""
    t = 2.2 * generator.normal(size=count) - 1.9
    y = (generator.random(count) < 1 / (1 + np.exp(-t))).astype(int)
    return np.column_stack([scale * t, np.ones(count)]), y


def planned(epsilon: float = 1.0, **terms: Any) -> EvaluationPlan:
    """Plan with a noise whose scale is a row's length over `epsilon`: half of the plan's, as a row may be replaced."""
    X, _ = population(np.random.default_rng(7), 200, terms.pop("scale", 1.0))
    return plan_evaluation(X, np.array([[1.0], [0.0]]), 2, 5, epsilon=2 * epsilon, **terms)


def evaluated(plan: EvaluationPlan, X: Any, y: Any, generator: np.random.Generator) -> EvaluationEstimate:
    """Estimate from a sum with noise of the plan's law."""
    q = np.exp(-1 / float(plan.mechanism.scale_units))
    shape = plan.inflation  # of the negative binomials that the shares of all parties make up
    noise = generator.negative_binomial(shape, 1 - q, plan.dimension) - generator.negative_binomial(
        shape, 1 - q, plan.dimension
    )
    total = [int(v) + int(e) for v, e in zip(plan.grid.contribution(X, y), noise, strict=True)]
    return estimate_evaluation(plan, total, plan.parties)


def test_without_noise_the_estimates_are_the_exact_values() -> None:
    plan, generator = planned(32.0), np.random.default_rng(0)
    X, y = population(generator, ROWS)
    estimates = evaluated(plan, X, y, generator)
    right = np.equal(X[:, 0] > 0, y)
    assert estimates.accuracy.value == pytest.approx(right.mean(), abs=2e-4)
    assert estimates.rows is not None
    assert estimates.rows.value == pytest.approx(ROWS, abs=1)
    counts = np.array([[cell.value for cell in line] for line in estimates.confusion])
    np.testing.assert_allclose(counts, confusion_matrix(y, X[:, 0] > 0), atol=2)
    assert estimates.auroc is not None
    assert estimates.auroc.value == pytest.approx(roc_auc_score(y, X[:, 0]), abs=3e-3)
    assert estimates.calibration_error is not None
    assert estimates.calibration_error.value is not None
    assert estimates.calibration_error.value < 0.02
    assert estimates.calibration is not None
    assert estimates.calibration.slope == pytest.approx(1.0, abs=0.1)
    assert estimates.calibration.intercept == pytest.approx(0.0, abs=0.15)


@pytest.mark.parametrize(
    ("epsilon", "accuracy", "auroc"), [(0.1, 0.006, 0.025), (0.3, 0.002, 0.007), (1.0, 0.001, 0.0035)]
)
def test_errors_at_five_thousand_rows_are_those_promised(epsilon: float, accuracy: float, auroc: float) -> None:
    """The root mean squared error over 60 releases; the standard errors that are stated agree with it."""
    plan, generator = planned(epsilon), np.random.default_rng(1)
    errors, stated_errors = [], []
    for _ in range(60):
        X, y = population(generator, ROWS)
        estimates = evaluated(plan, X, y, generator)
        assert estimates.auroc is not None
        assert estimates.auroc.value is not None
        assert estimates.accuracy.value is not None
        exact = np.equal(X[:, 0] > 0, y).mean(), roc_auc_score(y, X[:, 0])
        errors.append((estimates.accuracy.value - exact[0], estimates.auroc.value - exact[1]))
        stated_errors.append((estimates.accuracy.error, estimates.auroc.error))
    rmse = np.sqrt(np.mean(np.square(errors), axis=0))
    assert rmse[0] <= 1.1 * accuracy
    assert rmse[1] <= 1.1 * auroc
    stated = np.sqrt(np.mean(np.square(np.array(stated_errors, dtype=float)), axis=0))
    assert 0.75 <= rmse[0] / stated[0] <= 1.3  # 60 draws: a standard deviation of 9 %
    assert rmse[1] <= 1.3 * np.hypot(stated[1], 0.003)


def test_platt_scaling_repairs_scores_that_are_three_times_too_large() -> None:
    """The calibration error on other rows falls from about .1 below .03."""
    plan, generator = planned(0.3, scale=3.0), np.random.default_rng(2)
    before, after = [], []
    for _ in range(10):
        estimates = evaluated(plan, *population(generator, ROWS, 3.0), generator)
        assert estimates.calibration is not None
        weights = calibrated(plan.scores.weights, estimates.calibration)
        X, y = population(generator, 10_000, 3.0)
        before.append(expected_calibration_error(X @ plan.scores.weights[:, 0], y))
        after.append(expected_calibration_error(X @ weights[:, 0], y))
    assert np.mean(before) > 0.09
    assert np.mean(after) < 0.03


@pytest.mark.parametrize("slope", [0.05, 0.5, 3.0, 20.0])
@pytest.mark.parametrize("rows", [300, 30_000, 3_000_000])
def test_platt_scaling_is_the_minimum_to_forty_bits(slope: float, rows: int) -> None:
    """So that two machines agree on the released classifier; slopes from classes that overlap to separate ones."""
    plan, generator = planned(30.0), np.random.default_rng(6)
    centres, bins = plan.public.centres, plan.scores.bins
    there = generator.multinomial(rows, np.ones(bins) / bins)
    hits = generator.binomial(there, 1 / (1 + np.exp(-slope * centres)))
    above = np.arange(bins) > np.searchsorted(plan.scores.edges, 0.0)
    right = int(hits[above].sum() + (there - hits)[~above].sum())
    histogram = np.column_stack([there - hits, hits]).ravel().tolist()
    total = [right << 17, (rows - right) << 17, *(3 * count << 16 for count in histogram)]
    fit = estimate_evaluation(plan, total, plan.parties).calibration
    assert fit is not None
    x, a, b = (np.asarray(value, dtype=np.longdouble) for value in (centres, fit.slope, fit.intercept))
    above_half, below_half = 1 / (1 + np.exp(-(a * x + b))), 1 / (1 + np.exp(a * x + b))
    slack, weight = (there - hits) * above_half - hits * below_half, there * above_half * below_half
    gradient = (slack @ x + (a - 1) / 100, slack.sum() + b / 100)
    aa, ab, bb = weight @ (x * x) + 0.01, weight @ x, weight.sum() + 0.01
    step = (bb * gradient[0] - ab * gradient[1], aa * gradient[1] - ab * gradient[0])
    assert max(map(abs, step)) / (aa * bb - ab * ab) <= 2.0**-40 * max(abs(a), abs(b))


def expected_calibration_error(score: Array, y: Any) -> float:
    probability = 1 / (1 + np.exp(-score))
    pieces = np.array_split(np.argsort(probability), 15)
    return float(sum(abs(probability[p].mean() - y[p].mean()) * len(p) for p in pieces) / len(y))


def test_scores_of_the_wrong_sign_are_not_turned_round() -> None:
    generator = np.random.default_rng(4)
    X, y = population(generator, ROWS)
    estimates = evaluated(planned(), X, 1 - y, generator)
    assert estimates.calibration is None
    assert estimates.auroc is not None
    assert estimates.auroc.value is not None
    assert estimates.auroc.value < 0.2


def test_noise_that_hides_everything_gives_no_numbers() -> None:
    plan, generator = planned(0.001), np.random.default_rng(5)
    estimates = evaluated(plan, *population(generator, 50), generator)
    assert estimates.accuracy.value is None
    assert estimates.calibration is None


def test_more_than_two_classes() -> None:
    generator = np.random.default_rng(6)
    X = np.column_stack([generator.normal(size=(ROWS, 3)), np.ones(ROWS)])
    y = np.argmax(X[:, :3] + generator.normal(size=(ROWS, 3)), axis=1)
    weights = np.vstack([np.eye(3), np.zeros((1, 3))])
    plan = plan_evaluation(X[:200], weights, 3, 5, epsilon=40.0)
    estimates = evaluated(plan, X, y, generator)
    predicted = X[:, :3].argmax(axis=1)
    assert estimates.accuracy.value == pytest.approx((predicted == y).mean(), abs=2e-3)
    counts = np.array([[cell.value for cell in line] for line in estimates.confusion])
    np.testing.assert_allclose(counts, confusion_matrix(y, predicted), atol=10)
    assert estimates.auroc is None
    assert estimates.calibration is None
    assert sum(one.rows.value or 0.0 for one in estimates.reliability) == pytest.approx(ROWS, abs=20)


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_all_blocks_agree_on_right_and_wrong_whatever_the_noise(classes: int) -> None:
    """Every row is counted in each block, with noise of its own; the estimates of one are those of all."""
    generator = np.random.default_rng(classes)
    X = np.column_stack([generator.normal(size=(60, max(classes, 2))), np.ones(60)])
    weights = np.eye(len(X[0]), 1 if classes == 2 else classes)
    plan = plan_evaluation(X, weights, classes, 5, epsilon=1.0, bins=4)
    right, wrong = 1000 * classes, 1000 * classes * (classes - 1)
    outcome, histogram = [right, wrong], [250 * classes * (classes - 1), 250 * classes] * 4
    counts = np.array([*outcome, *histogram, *([1000] * classes**2 if classes > 2 else [])])
    weights_of = np.repeat(plan.scores.block_weights, [2, 8, len(counts) - 10])
    noisy = counts + generator.integers(-100, 100, size=plan.dimension)
    estimates = estimate_evaluation(plan, (weights_of * noisy).tolist(), 5)
    assert estimates.rows is not None
    assert estimates.rows.value is not None
    assert estimates.accuracy.value is not None
    confusion = np.array([[cell.value for cell in line] for line in estimates.confusion])
    right = estimates.accuracy.value * estimates.rows.value
    assert (np.trace(confusion), confusion.sum()) == pytest.approx((right, estimates.rows.value))
    binned = [(one.rows.value or 0.0, one.share.value or 0.0) for one in estimates.reliability]
    assert sum(rows for rows, _ in binned) == pytest.approx(estimates.rows.value)
    bins, edges = estimates.reliability, plan.scores.edges.tolist()
    assert [one.low for one in bins] == [None, *edges]
    assert [one.high for one in bins] == [*edges, None]
    assert [one.probability for one in bins] == plan.public.probabilities.tolist()
    if classes > 2:
        assert sum(rows * share for rows, share in binned) == pytest.approx(right)


def test_the_sensitivity_of_a_plan_is_in_rows_and_in_the_norm_of_its_noise() -> None:
    """A replaced row is one less and one more; of a prediction of a number it moves the sum no further than one."""
    plan = planned(1.0)
    assert (plan.sensitivity.value, plan.sensitivity.norm, plan.sensitivity.unit) == (2, "l1", "record")
    exact = evaluation_sensitivity(plan.grid)
    assert (exact.value, exact.norm, exact.unit) == (2 * ROW, "l1", "record")
    assert float(plan.mechanism.scale_units) >= exact.value / 2.0
    numeric = evaluation_sensitivity(ErrorGrid(np.ones((2, 1)), NumericLabel(0.0, 2.0, 1.0)))
    assert (numeric.value, numeric.norm, numeric.unit) == (ERROR_ROW, "l1", "record")
    share = evaluation_sensitivity(ShareGrid(plan.scores))
    assert (share.value, share.norm, share.unit) == (1 << SHARE_BITS, "l1", "party")


def counted(plan: EvaluationPlan, negative: Any, positive: Any) -> list[int]:
    """The sum of rows of two classes, of which so many are in each bin, without noise."""
    negative, positive = np.asarray(negative), np.asarray(positive)
    above = np.arange(plan.scores.bins) > np.searchsorted(plan.scores.edges, 0.0)
    right, every = positive[above].sum() + negative[~above].sum(), (negative + positive).sum()
    first, second, _ = plan.scores.block_weights
    histogram = np.column_stack([negative, positive]).ravel()
    return [int(value) for value in (first * right, first * (every - right), *(second * histogram))]


CELLS = [  # rows, log odds of class 1, epsilon, in which AUROC is shown always, mostly, seldom
    (5000, -0.85, 1.0),
    (5000, -3.9, 3.0),
    (5000, -3.9, 0.3),
    (5000, -3.9, 0.1),
    (300, -2.2, 1.0),
]


@pytest.mark.statistical
@pytest.mark.parametrize(("rows", "odds", "epsilon"), CELLS)
def test_stated_errors_cover_the_deviation_from_the_evaluated_rows(rows: int, odds: float, epsilon: float) -> None:
    """With 300 draws of the noise and public rows of their own for each."""
    generator = np.random.default_rng(rows)
    weights = np.array([[1.0], [-1.0], [0.5], [odds]])
    X = np.column_stack([generator.normal(size=(rows, 3)), np.ones(rows)])
    y = (X @ weights[:, 0] + generator.logistic(size=rows) > 0).astype(int)
    exact = {"accuracy": ((X @ weights[:, 0] > 0) == y).mean(), "auroc": roc_auc_score(y, X @ weights[:, 0])}
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in exact}
    for _ in range(300):
        public = np.column_stack([generator.normal(size=(60, 3)), np.ones(60)])
        plan = plan_evaluation(public, weights, 2, 5, epsilon=epsilon, contributors=2)
        scale, shape = float(plan.mechanism.scale_units), (5, plan.dimension)
        noise = scale * (generator.gamma(0.5, size=shape) - generator.gamma(0.5, size=shape)).sum(axis=0)
        total = np.rint(plan.grid.contribution(X, y) + noise).astype(int).tolist()
        estimates = estimate_evaluation(plan, total, 5)
        for name, one in (("accuracy", estimates.accuracy), ("auroc", estimates.auroc)):
            if one.value is not None:
                found[name].append((one.value - exact[name], one.error))
    for name, pairs in found.items():
        deviations, errors = np.array(pairs).T
        assert np.sqrt((deviations**2).mean() / (errors**2).mean()) <= 1.2, name


@pytest.mark.parametrize(("factor", "fitted"), [(0.99, False), (1.01, True)])
def test_platt_scaling_is_fitted_from_so_many_rows_per_epsilon(factor: float, fitted: bool) -> None:
    """Epsilon of noise that one row changes by its weight in L1: sqrt(2) times that over the deviation."""
    plan = planned(0.5, bins=2, contributors=3)
    rows = factor * CALIBRATED_FROM * plan.deviation / (np.sqrt(2) * ROW)
    total = counted(plan, [int(0.4 * rows), int(0.1 * rows)], [int(0.1 * rows), int(0.4 * rows)])
    assert (estimate_evaluation(plan, total, 5).calibration is not None) is fitted


def test_a_party_is_protected_by_one_number() -> None:
    plan = planned(0.5, unit="party")
    assert plan.dimension == 1
    assert plan.sensitivity.value == 1
    assert plan.sensitivity.unit == "party"
    assert evaluation_sensitivity(plan.grid).value == 1 << SHARE_BITS
    estimates = estimate_evaluation(plan, [3 << SHARE_BITS], 4)
    assert estimates.accuracy.value == 0.75
    assert estimates.accuracy.error == pytest.approx(np.sqrt(2) / 4, rel=1e-3)
    assert estimates.rows is None
    assert not estimates.confusion


def test_public_rows_without_a_finite_score_are_left_out() -> None:
    generator = np.random.default_rng(1)
    X = np.column_stack([generator.normal(size=(30, 3)), np.ones(30)])
    far = X.copy()
    far[:4, 0], far[4:8, 1] = np.nan, np.inf  # one score of three
    weights = np.vstack([np.eye(3), np.zeros((1, 3))])
    weights[:3] += 0.1
    rest, every = (plan_evaluation(rows, weights, 3, 5, epsilon=1.0) for rows in (X[8:], far))
    assert rest.grid.digest == every.grid.digest
    np.testing.assert_array_equal(rest.public.centres, every.public.centres)
    with pytest.raises(DataError):
        plan_evaluation(np.full((5, 4), np.nan), weights, 3, 5, epsilon=1.0)


@pytest.mark.parametrize("change", [{"bins": 1}, {"bins": MOST_BINS + 1}, {"unit": "ward"}, {"epsilon": 0.0}])
def test_terms_that_cannot_be_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        planned(**{"epsilon": 1.0, **change})
