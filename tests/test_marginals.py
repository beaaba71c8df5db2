"""DD-SSP of `benchmarks.marginals`: its model is exact, its moments are those of the features, it spends its budget.

All seeds are fixed, so that nothing fails by chance.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from benchmarks import marginals
from benchmarks.marginals import Clique, Measurement, Model, aim, elimination, fit, moments, table_of, values_of

SIZES = (3, 2, 4, 2)
CYCLE: list[Clique] = [(0, 1), (1, 2), (2, 3), (0, 3)]


def rows(count: int = 500) -> Any:
    """Attributes, of which each depends on the one before."""
    generator = np.random.default_rng(5)
    columns = [generator.integers(0, SIZES[0], count)]
    for size in SIZES[1:]:
        columns.append((columns[-1] + (generator.random(count) < 0.3) * generator.integers(0, size, count)) % size)
    return np.column_stack(columns)


def random_potentials(cliques: list[Clique]) -> dict[Clique, Any]:
    generator = np.random.default_rng(6)
    shapes = [[size if axis in clique else 1 for axis, size in enumerate(SIZES)] for clique in cliques]
    return {clique: generator.normal(size=shape) for clique, shape in zip(cliques, shapes, strict=True)}


@pytest.mark.parametrize("cliques", [CYCLE, [(0,), (1, 2)], [(0, 1, 3), (2,)]])
def test_marginals_of_a_model_are_sums_of_its_joint_distribution(cliques: list[Clique]) -> None:
    potentials = random_potentials(cliques)
    joint = np.exp(sum(potentials.values(), np.zeros(SIZES)))
    joint *= 70.0 / joint.sum()
    model = Model(SIZES, 70.0, potentials)
    for width in (1, 2, 3):
        for clique in itertools.combinations(range(4), width):
            expected = joint.sum(axis=tuple(set(range(4)) - set(clique)), keepdims=True)
            assert np.allclose(model.counts(clique), expected)
            if clique in cliques:
                assert np.allclose(model.within(clique), expected)


def test_the_size_of_a_model_is_that_of_its_tables() -> None:
    for cliques in (CYCLE, [(0, 1), (2, 3)], []):
        model = Model(SIZES, 1.0, random_potentials(cliques))
        assert elimination(SIZES, cliques) == (model.order, sum(table.size for table in model.conditional.values()))


def test_a_fit_to_consistent_tables_has_these_tables() -> None:
    data = rows()
    measured = {clique: Measurement(table_of(data, SIZES, clique), 1.0) for clique in CYCLE}
    model = fit(Model(SIZES, 500.0, {}), measured, 300)
    for clique in CYCLE:
        assert np.allclose(model.within(clique), measured[clique].counts, atol=1.0)


def test_a_fit_weighs_tables_by_their_precision() -> None:
    """Where two tables disagree about an attribute, the minimum is nearer to the more precise one."""
    sure, unsure = np.array([30.0, 40, 30]), np.array([60.0, 20, 20])
    unsure_pair = np.repeat(unsure / 2, 2).reshape(3, 2, 1, 1)
    measured = {(0,): Measurement(sure.reshape(3, 1, 1, 1), 3.0), (0, 1): Measurement(unsure_pair, 2.0)}
    model = fit(Model(SIZES, 100.0, {}), measured, 300)
    # An entry of the attribute is fitted in two halves, whose squares add up to half of that of their sum.
    assert np.allclose(model.counts((0,)).ravel(), (3 * sure + 1 * unsure) / 4, atol=0.5)


def test_moments_are_those_of_the_features() -> None:
    generator, widths = np.random.default_rng(7), (3, 2)
    values = np.column_stack([generator.integers(0, width + 1, 200) for width in widths])
    features = np.hstack([np.eye(width + 1)[own][:, :-1] for width, own in zip(widths, values.T, strict=True)])
    assert np.array_equal(values_of(features, widths), values)

    label = (generator.random(200) < 0.3 + 0.1 * values[:, 0]).astype(int)
    data = np.column_stack([values, label])
    pairs = [(0, 1, 2)]
    measured = {clique: Measurement(table_of(data, (4, 3, 2), clique), 1.0) for clique in pairs}
    second, first = moments(fit(Model((4, 3, 2), 200.0, {}), measured, 300), widths)
    Z = np.column_stack([features, np.ones(200)])
    assert np.allclose(second, Z.T @ Z, atol=0.5)
    assert np.allclose(first, Z.T @ (2 * label - 1), atol=0.5)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 10.0])
def test_the_budget_is_below_that_of_one_gaussian(epsilon: float) -> None:
    """The conversion allows for any mechanism of rho-zCDP; Gaussian noise is one, with a known delta."""
    deviation = 1 / math.sqrt(2 * marginals.zcdp_budget(epsilon, 1e-6))
    half, shift = 1 / (2 * deviation), epsilon * deviation
    delta = norm.cdf(half - shift) - math.exp(epsilon) * norm.cdf(-half - shift)
    assert 1e-8 < delta < 1e-6


class Recorder:
    """A generator that keeps the scales of its noise."""

    def __init__(self) -> None:
        self.generator = np.random.default_rng(8)
        self.scales: list[float] = []

    def normal(self, mean: float, scale: float, size: Any) -> Any:
        self.scales.append(scale)
        return self.generator.normal(mean, scale, size=size)

    def gumbel(self, size: int) -> Any:
        return self.generator.gumbel(size=size)


@pytest.mark.parametrize("rho", [0.02, 2.0])
def test_the_mechanism_spends_its_budget(rho: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first tables, of one attribute each, cost only their noise; every later one costs a choice too."""
    monkeypatch.setattr(marginals, "STEPS", 1)
    recorder = Recorder()
    aim(rows(), SIZES, rho, recorder)  # type: ignore[arg-type]
    costs = [1 / (2 * scale**2) for scale in recorder.scales]
    share = marginals.NOISE_SHARE
    assert sum(costs[: len(SIZES)]) + sum(costs[len(SIZES) :]) / share == pytest.approx(rho)


def test_a_large_budget_finds_the_pairs_that_depend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marginals, "STEPS", 20)
    data = rows(5000)
    model = aim(data, SIZES, 20.0, np.random.default_rng(9))
    for clique in itertools.combinations(range(4), 2):
        assert np.abs(model.counts(clique) - table_of(data, SIZES, clique)).sum() < 0.02 * 5000
