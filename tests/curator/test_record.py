"""The record step: the certified sensitivity against attacks on the integers, the plan from public values, the fit."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from psephos.curator import record as records
from psephos.curator.checks import public_features
from psephos.curator.record import (
    RecordPlan,
    fit_records,
    party_ball,
    plan_records,
    record_sensitivity,
)
from psephos.curator.rehearsal import fit_public
from psephos.data.preprocessing import PublicScaler
from psephos.parties.noise import DiscreteGaussianShares, PolyaShares, shares_of
from psephos.protocol.errors import DataError, InvalidParameter
from psephos.protocol.grids.record import ENTRY_BITS, LARGEST_SCORE, Norm, NumericLabel, RecordGrid
from psephos.protocol.privacy.mechanisms import DiscreteGaussian, DiscreteLaplace, gaussian_delta
from psephos.protocol.randomness import SimulationRandomness

UNIT = 2.0**ENTRY_BITS
GRIDS = [(classes, norm) for classes in (1, 2, 3) for norm in ("l1", "l2")]
Array = NDArray[np.float64]


def free_grid(classes: int, norm: Norm, coordinates: int = 3) -> RecordGrid:
    """Return a grid whose features are the coordinates and the scores, so that an attack chooses them freely."""
    contrasts = max(1, classes - 1)
    identity = np.eye(coordinates + contrasts + 1)
    offset = LARGEST_SCORE * identity[:, coordinates : coordinates + contrasts]
    return RecordGrid(identity[:, :coordinates], 1e-3, offset, classes, norm)


def distance(grid: RecordGrid, rows: Array, labels: Any) -> float:
    """Return the distance of the integer vectors of two rows, or the length of one row's."""
    first, *others = grid.row_vectors(rows, np.asarray(labels))
    change = first - others[0] if others else first
    return float(np.abs(change).sum() if grid.norm == "l1" else math.sqrt(int((change * change).sum())))


@pytest.mark.parametrize(
    ("classes", "norm"), [pytest.param(*grid, marks=[pytest.mark.slow] * (grid[0] != 2)) for grid in GRIDS]
)
def test_no_search_finds_a_change_above_the_certified_sensitivity(classes: int, norm: Norm) -> None:
    """Nelder-Mead from many starts, over coordinates of any length, scores or numbers, on the integers themselves."""
    grid = free_numeric_grid(norm) if classes == 1 else free_grid(classes, norm)
    bounds = {bound.norm: bound.value for bound in record_sensitivity(grid)}
    width = len(grid.transform) - (1 if classes > 1 else 0)  # the last column of a number is its label
    generator = np.random.default_rng(classes)
    best = 0.0
    for trial in range(16 if classes == 1 else 12):
        labels = generator.integers(max(classes, 2), size=2)

        def loss(flat: Array, labels: Any = labels) -> float:
            free = flat.reshape(2, width)
            if classes == 1:
                return -distance(grid, np.column_stack([free[:, :3], np.ones(2)]), free[:, 3])
            rows = np.column_stack([free, np.ones(2)])
            rows[:, 3:-1] /= LARGEST_SCORE
            return -distance(grid, rows, labels)

        start = generator.normal(size=2 * width) * generator.choice([1.0, 3.0, 30.0])
        if trial == 0 and classes == 2:  # opposite rows that were both wrong
            start = np.array([1.0, 0, 0, 3.0, -0.3, 1.0, 0, 3.0])
            labels[:] = 0
        if trial == 0 and classes == 3:  # opposite residuals, of one row that is as uncertain as can be
            start, labels[:] = np.array([9.0, 0, 0, 0.0, -20.0, 9.0, 0, 0, 0.0, 20.0]), (2, 0)
        if trial < 2 and classes == 1:  # a small and a large residual
            start = np.array([9.0, 0, 0, 1.0, *((9.0, 0, 0, -1e9) if trial == 0 else (4.5, 7.794, 0, -1.0))])
        best = max(best, -float(minimize(loss, start, method="Nelder-Mead", options={"maxiter": 1500}).fun))
    assert best <= bounds[norm]
    assert best >= (0.97 if norm == "l2" else 0.7) * bounds[norm]


@pytest.mark.parametrize(("classes", "norm"), GRIDS)
@pytest.mark.parametrize("left", [8, 9], ids=["replaced", "added"])
def test_no_neighbouring_table_moves_a_partys_sum_further(classes: int, norm: Norm, left: int) -> None:
    """Extreme rows and labels, repeated maxima, another order, and a party without other rows."""
    generator = np.random.default_rng(3)
    grid = free_numeric_grid(norm) if classes == 1 else free_grid(classes, norm)
    bound = {each.norm: each.value for each in record_sensitivity(grid)}[norm]
    edges = np.array([0.0, 1.0, -1.0, 3.0, -3.4142, 1e9, -1e9, 1e300, -1e300, 5e-324])
    for _ in range(60):
        rows = np.column_stack([generator.choice(edges, size=(10, len(grid.transform) - 1)), np.ones(10)])
        rows[3:6] = rows[2]  # repeated rows
        labels = generator.choice(edges, size=10) if classes == 1 else generator.integers(classes, size=10)
        order = generator.permutation(9)
        before = np.array(grid.contribution(rows[:9], labels[:9]))
        changed = [*order[:left], 9]
        moved = np.array(grid.contribution(rows[changed], labels[changed])) - before
        size = np.abs(moved).sum() if norm == "l1" else math.sqrt(int((moved * moved).sum()))
        assert size <= bound


def test_no_person_moves_a_partys_sum_further_than_one_row() -> None:
    """A person with any number of rows is replaced by another one with any number."""
    grid, generator = free_grid(2, "l2"), np.random.default_rng(4)
    bound = record_sensitivity(grid)[1].value
    for _ in range(40):
        sizes = generator.integers(1, 30, size=2)
        tables = []
        for number, size in enumerate(sizes):
            centre = generator.normal(size=4) * [10, 10, 10, 0.05]
            X = np.column_stack([centre + 0.01 * generator.normal(size=(size, 4)), np.ones(size)])
            tables.append((X, np.full(size, generator.integers(2)), np.full(size, number)))
        first, second = (np.array(grid.contribution(*table)) for table in tables)
        moved = first - second
        assert math.sqrt(int((moved * moved).sum())) <= bound


def test_the_sensitivities_are_those_of_the_derivation() -> None:
    """docs/theory.md, "The record step": in units of the largest gradient, times the square root of 2 in L2."""
    l2, l1 = free_grid(2, "l2"), free_grid(2, "l1")
    assert record_sensitivity(l2)[1].value / UNIT / math.sqrt(2) == pytest.approx(1.4342, abs=3e-4)
    assert record_sensitivity(l1)[0].value / UNIT / 4 == pytest.approx(0.8328, abs=2e-4)
    assert record_sensitivity(free_grid(4, "l2"))[1].value / UNIT == pytest.approx(2.0761, abs=2e-4)
    assert record_sensitivity(free_grid(4, "l1"))[0].value / UNIT == 4


def test_cells_bound_the_search_over_all_pairs() -> None:
    """The maximum over cells is at least that over pairs of single entries, and at most half a percent above."""
    from psephos.protocol.grids.record import TABLES

    one = 2.0**16
    s, k = TABLES.above[::7] / one, TABLES.curvature[::7] / one
    both, falls = np.outer(s, s), np.outer(k, k)
    a = np.minimum(1, both / np.maximum(2 * falls, 1e-300))
    own = s * s + k * k
    exact = float((own[:, None] + own[None, :] + 2 * both * a - 2 * falls * a * a).max())
    cells = records._largest_distance(TABLES.above / one, TABLES.curvature / one)
    assert exact <= cells <= 1.005 * exact


@pytest.mark.parametrize("classes", [2, 3, 6])
def test_public_rows_have_the_curvature_that_the_parties_sum(classes: int) -> None:
    scores = np.random.default_rng(classes).normal(size=(500, max(1, classes - 1))) * 4
    _, summed, _ = free_grid(classes, "l2")._residuals(scores, np.zeros(500, dtype=np.int64))
    assert np.allclose(records._curvatures(classes, scores), summed / 2.0**16, rtol=0.08)


# -- the plan


def problem(classes: int = 2, rows: int = 4000, samples: int = 120, seed: int = 0) -> dict[str, Any]:
    """Return public rows with labels, and private and test rows, all scaled with a constant."""
    generator = np.random.default_rng([seed, classes])
    centres = 1.5 * generator.normal(size=(classes, 6))
    labels = generator.integers(classes, size=rows + samples + 1000)
    X = centres[labels] + generator.normal(size=(len(labels), 6)) * [1, 2, 1, 0.5, 3, 1]
    scaler = PublicScaler(intercept=1.0).fit(X[:samples])
    X = scaler.transform(X)
    parts = np.split(X, [samples, samples + rows]), np.split(labels, [samples, samples + rows])
    return {
        "public": parts[0][0],
        "labels": parts[1][0],
        "own": (parts[0][1], parts[1][1]),
        "test": (parts[0][2], parts[1][2]),
    }


def planned(data: dict[str, Any], classes: int = 2, **chosen: Any) -> RecordPlan:
    terms: dict[str, Any] = {"labels": data["labels"], "rows": 4000, "epsilon": 1.0} | chosen
    return plan_records(data["public"], terms.pop("labels"), classes, 5, **terms)


def released(plan: RecordPlan, data: dict[str, Any], seed: int = 1) -> Array:
    """Return the classifier of five parties' sums, each with its share of the noise."""
    X, y = data["own"]
    total = np.zeros(plan.dimension, dtype=object)
    shares = None if plan.mechanism is None else shares_of(plan, colluders=2)
    for number in range(5):
        total += np.array(plan.grid.contribution(X[number::5], y[number::5]), dtype=object)
        if shares is not None:
            total += np.array(shares.share(SimulationRandomness(seed, number)), dtype=object)
    return fit_records(plan, total.tolist())


def accuracy(w: Array, data: dict[str, Any]) -> float:
    X, y = data["test"]
    predicted = (X @ w > 0) if w.ndim == 1 else (X @ w.T).argmax(axis=1)
    return float(np.mean(predicted == y))


@pytest.mark.parametrize("mechanism", ["gaussian", "discrete-laplace"])
def test_the_noise_covers_the_certified_sensitivity(mechanism: Any) -> None:
    plan = planned(problem(), mechanism=mechanism)
    l1, l2 = record_sensitivity(plan.grid)
    if mechanism == "gaussian":
        assert isinstance(plan.mechanism, DiscreteGaussian)
        assert plan.grid.norm == "l2"
        assert gaussian_delta(l2.value, 1.0, math.sqrt(plan.mechanism.variance - 9)) <= 1e-6
        assert isinstance(shares_of(plan, colluders=2), DiscreteGaussianShares)
        assert plan.event.delta < 1.01e-6
    else:
        assert isinstance(plan.mechanism, DiscreteLaplace)
        assert plan.grid.norm == "l1"
        assert plan.mechanism.scale_units >= l1.value
        assert isinstance(shares_of(plan, colluders=2), PolyaShares)
        assert plan.event.delta < 1e-18
    assert plan.delta == (1e-6 if mechanism == "gaussian" else 0.0)
    assert (plan.event.unit, plan.sensitivity.unit, plan.event.epsilon) == ("record", "record", 1.0)
    assert plan.dimension == plan.grid.length


def test_a_score_needs_labels_of_two_classes() -> None:
    data = problem()
    for labels in (None, np.full(120, -1), np.where(np.arange(120) < 50, 1, -1)):
        plan = planned(data, labels=labels)
        assert plan.labelled == 0
        assert not plan.grid.offset.any()
    some = planned(data, labels=np.where(np.arange(120) < 50, data["labels"], -1))
    assert some.labelled == 50
    assert some.grid.offset.any()


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("error", [0.0, 3.0])
def test_a_public_score_is_as_sure_as_held_out_labels_allow(classes: int, error: float) -> None:
    """Also where the log odds of a forest are wrong and large; without a gain, the same model is written."""
    data = problem(classes)
    features, labels = public_features(data["public"]), data["labels"]
    log_odds = error * np.random.default_rng(0).normal(size=(features.shape[1] + 1, 1 if classes == 2 else classes))
    model = fit_public(features, labels, classes, log_odds)
    shares = np.bincount(labels) / len(labels)
    assert model.losses.mean() < -(shares * np.log(shares)).sum() + 0.05
    contrast = math.sqrt(2) if classes == 2 else 1.0  # a score of two classes is their log odds in a record step
    assert np.array_equal(planned(data, classes, log_odds=log_odds).grid.offset, contrast * model.offset)


def test_an_agreed_grid_is_used_as_it_is() -> None:
    data = problem()
    plan = planned(data)
    agreed = planned(data, labels=None, grid=plan.grid, labelled=plan.labelled)
    assert agreed.grid is plan.grid
    assert (agreed.labelled, agreed.mechanism) == (plan.labelled, plan.mechanism)
    assert np.array_equal(released(agreed, data), released(plan, data))
    with pytest.raises(InvalidParameter, match="agreed"):
        planned(data, grid=plan.grid, mechanism="discrete-laplace")


@pytest.mark.parametrize(
    "change",
    [
        {"mechanism": "spherical-laplace"},
        {"delta": 2.0},
        *({name: 0} for name in ("rows", "epsilon", "classes", "parties")),
        *({"unit": unit} for unit in ("ward", "party")),
    ],
    ids=str,
)
def test_invalid_terms_are_rejected(change: dict[str, Any]) -> None:
    """A party is the unit of numeric labels only."""
    data, terms = problem(), {"classes": 2, "parties": 5, "rows": 9, "epsilon": 1.0}
    with pytest.raises(InvalidParameter):
        plan_records(data["public"], data["labels"], **terms | change)


def test_sums_and_public_rows_that_do_not_fit_are_refused() -> None:
    data = problem()
    with pytest.raises(InvalidParameter):
        _ = planned(data, epsilon=None).event
    for public in (data["public"][:, :-1] * 0, np.ones((5, 3)), data["public"] * math.nan, data["public"][:0]):
        with pytest.raises(DataError):
            planned(data | {"public": public}, labels=None)
    for plan in (planned(data), party_plan()):
        with pytest.raises(DataError):
            fit_records(plan, [0])


# -- the fit


def test_without_noise_the_step_is_newtons_with_the_bound_of_jaakkola_and_jordan() -> None:
    """Against float64 on the clipped coordinates; the public second derivative has weight 0 without noise."""
    data = problem()
    plan = planned(data, epsilon=None)
    X, y = data["own"]
    raw, score = plan.grid.locate(X)
    z, t = plan.grid.clip(raw), score[:, 0]
    h = np.tanh(np.abs(t) / 2) / (2 * np.maximum(np.abs(t), 1e-12))
    gradient, second = z.T @ (1 / (1 + np.exp(-t)) - y), (z * h[:, None]).T @ z
    delta = np.linalg.solve(second, gradient)
    rows = X / X[:, -1:]
    whole = np.column_stack([rows @ plan.grid.transform, np.full(len(X), plan.grid.constant)]) / plan.grid.radius
    assert np.allclose(rows @ released(plan, data), t - whole @ delta, atol=0.02 * np.abs(t).max())


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("mechanism", ["gaussian", "discrete-laplace"])
@pytest.mark.parametrize("labelled", [True, False])
def test_a_release_classifies(classes: int, mechanism: Any, labelled: bool) -> None:
    """At epsilon 3 with 4,000 rows, as far from the classifier without noise as was measured (0.03), twice over."""
    data = problem(classes)
    labels = data["labels"] if labelled else None
    exact = accuracy(released(planned(data, classes, labels=labels, epsilon=None), data), data)
    noisy = accuracy(released(planned(data, classes, labels=labels, epsilon=3.0, mechanism=mechanism), data), data)
    assert exact > 0.75
    assert noisy > exact - 0.06


def test_digits_are_no_worse_than_by_softmax_regression_on_the_public_rows() -> None:
    """By three standard errors of 500 test rows; a step of the squared loss was twice as far below."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    standard = StandardScaler().fit_transform(X[order])
    X, y = PublicScaler(columns="standardise", intercept=1.0).fit(X[order[:300]]).transform(X[order]), y[order]
    (public, own, test), (labels, own_labels, test_labels) = (np.split(part, [300, 1300]) for part in (X, y))
    data = {"public": public, "labels": labels, "own": (own, own_labels), "test": (test, test_labels)}
    model = LogisticRegression(max_iter=500).fit(standard[:300], labels)
    release = released(planned(data, 10, rows=1000), data)
    assert accuracy(release, data) > model.score(standard[1300:], test_labels) - 0.02


def test_with_much_noise_the_public_score_remains() -> None:
    data = problem()
    plan = planned(data, epsilon=0.001)
    public = accuracy(plan.grid.offset[:, 0], data)
    assert abs(accuracy(released(plan, data), data) - public) < 0.05


# -- numeric labels


def free_numeric_grid(norm: Norm) -> RecordGrid:
    """Return a grid whose features are the coordinates and whose score is 0; the label is the residual."""
    identity = np.eye(4)
    return RecordGrid(identity[:, :3], 1e-3, np.zeros((4, 1)), 1, norm, NumericLabel(-1.0, 1.0, 1.0))


def test_the_sensitivities_of_a_numeric_label_are_those_of_the_theory() -> None:
    """sqrt(4.5) and 4 for a replaced row, up to the allowance for truncation."""
    l1, l2 = (record_sensitivity(free_numeric_grid(norm))[norm == "l2"].value / UNIT for norm in ("l1", "l2"))
    assert l1 == pytest.approx(4.0, rel=1e-6)
    assert math.sqrt(4.5) <= l2 <= math.sqrt(4.5) + 1e-4
    # Two rows' entries are truncated by less than a unit each, and their residuals by less than 2^-16.
    grid = free_numeric_grid("l2")
    allowance = record_sensitivity(grid)[1].value - math.sqrt(4.5) * UNIT
    assert allowance == pytest.approx(2 * math.sqrt(grid.length) + 2 * 2**4, abs=0.01)


def numeric_tables(seed: int, rows: int) -> tuple[Array, Array]:
    """Return rows (n, 6) with the constant and a label, linear in them with noise and a tenth of gross errors."""
    generator = np.random.default_rng(seed)
    X = np.column_stack([generator.normal(size=(rows, 5)), np.ones(rows)])
    y = X @ np.array([1.0, -2.0, 0.5, 0.0, 0.3, 10.0]) + generator.normal(size=rows)
    return X, np.where(generator.random(rows) < 0.1, y + 30 * generator.normal(size=rows), y)


def test_a_numeric_label_needs_labelled_public_rows() -> None:
    public, labels = numeric_tables(1, 60)
    few = np.where(np.arange(60) < 9, labels, np.nan)
    for known in (None, few, np.full(60, 3.0)):
        with pytest.raises(DataError):
            plan_records(public, known, 1, 3, rows=100, epsilon=1.0)
    partly = plan_records(public, np.where(np.arange(60) < 30, labels, np.nan), 1, 3, rows=100, epsilon=1.0)
    assert partly.labelled == 30
    assert partly.grid.label is not None
    assert (partly.grid.label.low, partly.grid.label.high) == (labels[:30].min(), labels[:30].max())


# -- a party as the unit


def party_plan(norm: Norm = "l2", epsilon: float | None = 1.0, **chosen: Any) -> RecordPlan:
    """Return a plan that protects a party."""
    public, labels = numeric_tables(1, 60)
    mechanism: Any = "gaussian" if norm == "l2" else "discrete-laplace"
    terms: dict[str, Any] = {"rows": 900, "epsilon": epsilon, "mechanism": mechanism, "unit": "party"}
    return plan_records(public, labels, 1, 30, **terms | chosen)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_no_search_over_all_that_a_party_holds_exceeds_the_diameter(norm: Norm) -> None:
    """Nelder-Mead over two tables of three rows, repeated by an amount that is searched too, comes near the bound."""
    plan = party_plan(norm)
    bound, best = (plan.l2 if norm == "l2" else plan.l1).value, 0.0
    assert (plan.unit, plan.event.unit, plan.l1.unit, plan.l2.unit) == ("party", *("party",) * 3)
    for trial in range(2):

        def loss(flat: Array) -> float:
            tables = flat.reshape(2, 3, 7)
            vectors = []
            for table in tables:
                often = np.repeat(table, 1 + np.abs(table[:, 0]).astype(int) % 40, axis=0)
                X = np.column_stack([often[:, 1:6], np.ones(len(often))])
                vectors.append(np.array(plan.grid.contribution(X, often[:, 6])))
            change = vectors[0] - vectors[1]
            return -float(np.abs(change).sum() if norm == "l1" else math.sqrt(int((change * change).sum())))

        start = np.random.default_rng(trial).normal(size=(2, 3, 7)) * 10
        if trial == 0:  # the same rows with opposite gross errors
            start[:, :, 1:6], start[:, :, 6] = 3.0, [[1e6], [-1e6]]
        best = max(best, -float(minimize(loss, start.ravel(), method="Nelder-Mead", options={"maxiter": 100}).fun))
    assert (0.9 if norm == "l2" else 0.7) * bound <= best <= bound


def test_the_ball_follows_from_public_rows_and_is_far_smaller_than_all_that_rows_can_make() -> None:
    plan, public = party_plan(), numeric_tables(1, 60)[0]
    ball = plan.grid.ball
    assert ball is not None
    assert plan.l2.value == pytest.approx(2 * ball.radius)
    assert plan.sensitivity.value < 0.5 * math.sqrt(4.5)
    assert not ball.centre[: plan.grid.gradient_length].any()
    own = replace(plan.grid, ball=None)
    at_the_score = own.row_vectors(public, own.public_predictions(public))
    assert np.abs(at_the_score.mean(axis=0) - ball.centre).max() < 1
    assert np.array_equal(party_ball(own, public, ball.radius / UNIT).centre, ball.centre)
    assert party_ball(own, public, ball.radius / UNIT).radius == ball.radius
    more = party_plan(rows=90_000).grid.ball
    assert more is not None
    assert more.radius < ball.radius
    for radius in (0.0, -1.0, 4.1, math.nan):
        with pytest.raises(InvalidParameter):
            party_ball(own, public, radius)


def test_a_sum_of_centres_releases_the_public_score() -> None:
    plan = party_plan()
    assert np.allclose(fit_records(plan, [0] * plan.dimension), plan.grid.offset[:, 0], atol=1e-9)


def test_scores_are_relative_to_the_middle_of_the_bounds() -> None:
    """A label far from 0 gives the same step, and a score without large numbers."""
    public, labels = numeric_tables(1, 60)
    X, y = numeric_tables(2, 500)
    near, far = (plan_records(public, labels + shift, 1, 3, rows=500, epsilon=None) for shift in (0.0, 2.0**40))
    assert np.allclose(near.grid.offset, far.grid.offset, atol=1e-3)
    assert np.abs(far.grid.offset).max() < 100
    assert np.allclose(near.grid.contribution(X, y), far.grid.contribution(X, y + 2.0**40), rtol=1e-2, atol=1e4)


# -- the fit by hand

# -- rules by their definitions


def test_public_rows_that_give_no_coordinates_are_refused() -> None:
    """One row, equal rows, and what is no table whose last feature is a positive constant."""
    good = np.column_stack([np.random.default_rng(1).normal(size=(9, 2)), np.full(9, 2.0)])
    terms: dict[str, Any] = {"rows": 10, "epsilon": None}
    assert plan_records(good, None, 2, 3, **terms).samples == 9
    last = np.arange(9) == 4
    bad = [good[:1], good[[0] * 9], good[:0], good[0], good[None], good[:, 2:], np.where(good > 1.9, 0.0, good)]
    bad += [np.column_stack([good[:, :2], np.where(last, value, 2.0)]) for value in (0.0, -1.0, math.nan, math.inf)]
    for rows in bad:
        with pytest.raises(DataError):
            plan_records(rows, None, 2, 3, **terms)


def test_a_ball_that_is_small_beside_rounding_is_refused() -> None:
    """Its noise must be 2^10 units; that of rows is far above at every epsilon."""
    plan = party_plan("l1")
    assert plan.grid.ball is not None
    public, labels = numeric_tables(1, 60)
    terms: dict[str, Any] = {"rows": 900, "epsilon": 1.0, "mechanism": "discrete-laplace", "labelled": 60}
    limit = 2.0**10 / math.sqrt(2) / 2  # radius at which the standard deviation sqrt(2) 2 r is 2^10
    for radius, coarse in ((int(limit) - 1, True), (int(limit) + 1, False)):
        grid = replace(plan.grid, ball=replace(plan.grid.ball, radius=radius))
        if coarse:
            with pytest.raises(InvalidParameter):
                plan_records(public, labels, 1, 30, grid=grid, **terms)
            assert plan_records(public, labels, 1, 30, grid=grid, **terms | {"epsilon": None}).mechanism is None
        else:
            assert plan_records(public, labels, 1, 30, grid=grid, **terms).unit == "party"
