"""Private evaluation of a prediction of a number: estimates against the exact values, and their stated errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import ks_2samp
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

from psephos.curator.error_estimates import CERTAIN, NEAR, ErrorEstimate, Estimate, estimate_errors, shown
from psephos.curator.evaluation import (
    EvaluationEstimate,
    EvaluationPlan,
    estimate_evaluation,
    evaluation_plan,
    evaluation_sensitivity,
    largest_error,
)
from psephos.protocol.errors import DataError, InvalidParameter
from psephos.protocol.grids.error_evaluation import ERROR_ROW, ERROR_WEIGHTS, ErrorGrid, ErrorSums
from psephos.protocol.grids.evaluation import SHARE_BITS
from psephos.protocol.grids.record import NumericLabel
from tests.statistical import FALSE_ALARM

Array = NDArray[np.float64]
ROWS, MIDDLE = 5000, 100.0
WEIGHTS = np.array([[3.0], [0.5]])
"""The prediction is 100.5 + 3 x."""


def population(seed: int, count: int = ROWS) -> tuple[Array, Array]:
    """Rows (count, 2), a feature and a constant, and their labels: R^2 .8, 99 % of them within 85 to 115."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=count)
    return np.column_stack([x, np.ones(count)]), MIDDLE + 4 * x + generator.normal(size=count) * 1.5


def planned(epsilon: float = 1.0, *, label: NumericLabel | None = None, **terms: Any) -> EvaluationPlan:
    return evaluation_plan(ErrorGrid(WEIGHTS, label or NumericLabel(85.0, 115.0, 15.0)), 5, epsilon=epsilon, **terms)


def noise_of(plan: EvaluationPlan, draws: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Draw the noise of all parties' shares, (draws, length)."""
    shape, chance = plan.inflation, -np.expm1(-1 / float(plan.mechanism.scale_units))
    above, below = (generator.negative_binomial(shape, chance, (draws, plan.dimension)) for _ in range(2))
    return np.asarray(above - below)


def errors_of(estimate: EvaluationEstimate) -> ErrorEstimate:
    assert estimate.errors is not None
    return estimate.errors


def exact_errors(X: Array, y: Array, label: NumericLabel) -> dict[str, float]:
    """Return what scikit-learn computes in the clear of clipped labels and errors."""
    inside = np.clip(y, label.low, label.high)
    errors = np.clip(X @ WEIGHTS[:, 0] + label.middle, label.low, label.high) - inside
    predicted = inside + np.clip(errors, -label.threshold, label.threshold)
    return {
        "mae": mean_absolute_error(inside, predicted),
        "rmse": root_mean_squared_error(inside, predicted),
        "r2": r2_score(inside, predicted),
        "clipped": float(((y != inside) | (np.abs(errors) > label.threshold)).mean()),
    }


@pytest.mark.parametrize(
    "label",
    [
        NumericLabel(85.0, 115.0, 30.0),
        NumericLabel(85.0, 115.0, 15.0),
        NumericLabel(97.0, 106.0, 2.0),
        NumericLabel(-1e6, 1e6, 1e6),
        NumericLabel(60.0, 101.0, 41.0),
    ],
)
def test_without_noise_the_estimates_are_those_of_scikit_learn(label: NumericLabel) -> None:
    X, y = population(0)
    plan = planned(60.0, label=label)
    estimate = estimate_evaluation(plan, plan.grid.contribution(X, y), 5)
    errors = errors_of(estimate)
    exact = exact_errors(X, y, label)
    assert estimate.rows is not None
    assert estimate.rows.value == ROWS
    assert estimate.accuracy is None
    assert errors.clipped is not None
    assert errors.clipped.value == pytest.approx(exact["clipped"], abs=1e-12)
    fine = label.high - label.low < 1e5  # else errors are a 10^-6th of their bound, which the integers hardly resolve
    for name in ("mae", *(("rmse", "r2") if fine else ())):
        value = getattr(errors, name).value
        assert value == pytest.approx(exact[name], rel=1e-4 if fine else 1e-1), name


def test_wide_bounds_of_labels_give_no_infinite_numbers() -> None:
    label = NumericLabel(-8e307, 8e307, 1.6e308)
    plan = planned(60.0, label=label)
    X = np.ones((100, 2))
    errors = errors_of(estimate_evaluation(plan, plan.grid.contribution(X, np.tile([-8e307, 8e307], 50)), 5))
    assert errors.mae.value == pytest.approx(8e307)
    assert errors.rmse is not None
    assert errors.rmse.value == pytest.approx(8e307)
    assert errors.r2 is not None
    assert errors.r2.value == pytest.approx(0, abs=1e-5)


def test_stated_errors_are_those_of_the_noise() -> None:
    """The estimates' errors, in units of those stated, have the law of the linearised functions of the sums."""
    label, draws = NumericLabel(90.0, 106.0, 4.0), 20_000
    plan, generator = planned(2.0, label=label, contributors=2), np.random.default_rng(1)
    X, y = population(2)
    clear, exact = np.array(plan.grid.contribution(X, y)), exact_errors(X, y, label)
    assert exact["clipped"] > 0.1  # so that no estimate is clipped to 0
    standardised: dict[str, list[float]] = {name: [] for name in exact}
    for noise in noise_of(plan, draws, generator):
        errors = errors_of(estimate_evaluation(plan, (clear + noise).tolist(), 5))
        for name, values in standardised.items():
            one = getattr(errors, name)
            values.append((one.value - exact[name]) / one.error)
    fresh = noise_of(plan, draws, generator)
    for name, values in standardised.items():
        slopes = slopes_of(name, clear)
        scale = plan.deviation * np.linalg.norm(slopes)  # whatever the unit of the figure
        assert ks_2samp(values, fresh @ slopes / scale).pvalue > FALSE_ALARM, name


def slopes_of(name: str, clear: Array) -> Array:
    """Return the derivatives of an exact figure, in units of its bound, by the entries of the sum, (length,)."""
    return np.array([_slope(name, clear / ERROR_WEIGHTS, place) for place in range(6)]) / ERROR_WEIGHTS


def _slope(name: str, sums: Array, place: int) -> float:
    """Return the derivative of an exact figure by one of the sums, by central differences."""

    def figure(n: float, s: float, a: float, t: float, m: float, k: float) -> float:
        values = {"mae": a / n, "rmse": (s / n) ** 0.5, "r2": 1 - (4 / 8) ** 2 * s / (t - m * m / n), "clipped": k / n}
        return float(values[name])

    step = np.eye(6)[place] * 1e-3
    return (figure(*(sums + step)) - figure(*(sums - step))) / 2e-3


@pytest.mark.parametrize(("rows", "epsilon"), [(5000, 0.3), (500, 3.0), (5000, 0.1), (50_000, 1.0)])
def test_figures_that_are_shown_have_no_bias_beyond_their_error(rows: int, epsilon: float) -> None:
    """The mean of 300 draws is within half a stated error, which is eight of its own; also where few are shown."""
    plan, generator = planned(epsilon), np.random.default_rng(3)
    X, y = population(4, rows)
    clear, exact = np.array(plan.grid.contribution(X, y)), exact_errors(X, y, NumericLabel(85.0, 115.0, 15.0))
    drawn = [errors_of(estimate_evaluation(plan, (clear + e).tolist(), 5)) for e in noise_of(plan, 300, generator)]
    for name in ("rmse", "mae") if epsilon == 0.1 else ("rmse", "mae", "r2"):
        estimates = [getattr(one, name) for one in drawn]
        shown_ones = [one for one in estimates if one.value is not None]
        bias = np.mean([one.value for one in shown_ones]) - exact[name]
        assert abs(bias) < 0.5 * np.mean([one.error for one in shown_ones]), name
        assert name == "r2" or len(shown_ones) == 300


def test_noise_that_hides_everything_gives_no_numbers() -> None:
    plan = planned(0.001)
    errors = errors_of(estimate_evaluation(plan, [10] * 6, 5))
    assert (errors.mae.value, errors.rmse, errors.r2) == (None, errors.mae, errors.mae)


@pytest.mark.parametrize(("factor", "known"), [(0.999, False), (1.001, True)])
def test_a_figure_is_stated_from_three_of_its_errors(factor: float, known: bool) -> None:
    """The mean absolute error and its like by the number of rows, R^2 by T."""
    label, deviation = NumericLabel(0.0, 2.0, 0.5), 1e6
    unit = deviation / np.array(ERROR_WEIGHTS)
    n = 1e3 * unit.max()

    def figures(**sums: float) -> Any:
        values = np.array([sums.get(name, 0.0) for name in ErrorSums._fields]) * ERROR_WEIGHTS
        return estimate_errors(label, deviation, values, None)[1]

    few = figures(rows=factor * CERTAIN * unit[0], squared=n, spread=n)
    assert [one.value is not None for one in (few.mae, few.rmse, few.clipped)] == [known] * 3
    assert (figures(rows=n, spread=factor * CERTAIN * unit[3]).r2.value is not None) is known


@pytest.mark.parametrize("divisors", [[(2.0, 0.1)], [(9.0, 0.1), (0.41, 0.1)], [(0.49, 0.1), (0.31, 0.1)]])
def test_an_error_is_larger_where_noise_may_have_decided_that_a_figure_is_shown(
    divisors: list[tuple[float, float]],
) -> None:
    near = any(value < NEAR * error for value, error in divisors)
    assert shown(Estimate(1.0, 0.25), *divisors) == Estimate(1.0, 0.75 if near else 0.25)
    assert shown(Estimate(1.0, 0.25), *divisors, (0.29, 0.1)) == Estimate(None, None)


def test_figures_of_noise_stay_within_what_they_can_be() -> None:
    label, deviation = NumericLabel(0.0, 2.0, 0.5), 1.0
    values = np.array([100, -1, 130, 80, 3, -2]) * ERROR_WEIGHTS
    rows, errors = estimate_errors(label, deviation, values, None)
    assert rows is not None
    assert (rows.value, errors.mae.value) == (100.0, 0.5)
    assert errors.clipped is not None
    assert errors.r2 is not None
    assert (errors.clipped.value, errors.r2.value) == (0.0, 1.0)
    none, hidden = estimate_errors(label, deviation, -values, None)
    assert none is not None
    assert (none.value, hidden.mae.value, hidden.clipped, hidden.r2) == (0.0, None, hidden.mae, hidden.mae)
    assert (none.error, rows.error) == (deviation / ERROR_WEIGHTS[0],) * 2


def test_a_party_is_protected_by_one_number() -> None:
    plan = planned(1.0, unit="party")
    assert plan.dimension == 1
    assert (plan.sensitivity.value, plan.sensitivity.unit) == (1, "party")
    estimate = estimate_evaluation(plan, [3 << (SHARE_BITS - 1)], 4)
    errors = errors_of(estimate)
    assert errors.mae.value == pytest.approx(15 * 3 / 8)
    assert errors.mae.error == pytest.approx(15 * np.sqrt(2) / 4, rel=1e-3)
    assert estimate.rows is errors.rmse is errors.r2 is errors.clipped is None


def test_the_sensitivity_is_that_of_one_row() -> None:
    plan = planned(0.5)
    assert evaluation_sensitivity(plan.grid).value == ERROR_ROW
    assert plan.sensitivity.value == 1
    assert plan.mechanism.scale_units == 2 * ERROR_ROW
    assert planned(contributors=2).deviation == pytest.approx(planned().deviation * np.sqrt(5 / 2))
    assert largest_error(85.0, 115.0) == 22.5


@pytest.mark.parametrize("change", [{"unit": "ward"}, {"epsilon": 0.0}, {"label": NumericLabel(0.0, 1.0, 2.0)}])
def test_terms_that_cannot_be_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        planned(**{"epsilon": 1.0, **change})


def test_sums_of_another_length_and_scores_of_classes_are_refused() -> None:
    with pytest.raises(DataError):
        estimate_evaluation(planned(), [0] * 5, 5)
    with pytest.raises(InvalidParameter):
        _ = planned().scores
