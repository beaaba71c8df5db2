"""Parties' steps from a public model: the norm of the integers for any rows, the solver, the digest."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from psephos.curator.statistic import grid_sensitivity
from psephos.protocol.grids.fixed_point import Norm
from psephos.protocol.grids.local_step import LocalStepGrid, local_steps, softmax
from psephos.protocol.grids.own_data import contrast_basis

Array = NDArray[np.float64]

EDGES = np.array([0.0, 1.0, -1.0, 3.0, -3.0, 1e9, -1e9, 1e150, -1e150, 1e300, -1e300, 5e-324])
"""Features that make sums of squares overflow, vanish or cancel."""


def grid(classes: int = 3, norm: Norm = "l2", ridge: float = 0.1, radius: float = 0.0) -> LocalStepGrid:
    """Return a grid of five features, whose coordinates are two of them and the constant."""
    transform = np.eye(6)[:, [5, 0, 1]]
    offset = np.zeros((6, classes - 1))
    offset[2:4, :] = 0.5
    return LocalStepGrid(transform, offset, classes, ridge, 3.0, radius, norm)


def size(vector: list[int], norm: Norm) -> float:
    """Return the norm of integers, in units of 2^-24."""
    return float(sum(map(abs, vector)) if norm == "l1" else math.sqrt(sum(entry * entry for entry in vector)))


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("ridge", [0.1, math.inf])
@pytest.mark.parametrize("radius", [0.0, 0.5, 1e-12, 1e12])
def test_no_rows_make_a_vector_longer_than_the_ball(norm: Norm, ridge: float, radius: float) -> None:
    generator = np.random.default_rng(2)
    for classes in (2, 3, 5):
        own = grid(classes, norm, ridge, radius)
        for trial in range(40):
            rows = generator.choice(EDGES, size=(generator.integers(1, 9), 6))
            rows[:, 5] = 1.0 if trial % 4 else generator.choice(EDGES, size=len(rows))
            vector = own.contribution(rows, generator.integers(classes, size=len(rows)))
            assert len(vector) == own.length
            assert size(vector, norm) <= 2**24


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_no_replaced_party_moves_the_sum_further_than_the_certified_sensitivity(norm: Norm) -> None:
    """The search reaches the bound: parties of opposite labels on one row."""
    own, generator = grid(2, norm), np.random.default_rng(3)
    bound = {each.norm: each.value for each in grid_sensitivity(own)}[norm]
    assert bound == pytest.approx(2**25)
    furthest = 0.0
    for _ in range(60):
        row = np.append(generator.normal(size=5), 1.0)[None]
        first, second = (np.array(own.contribution(row, np.array([label]))) for label in (0, 1))
        furthest = max(furthest, size((first - second).tolist(), norm))
    assert 0.999 * bound < furthest <= bound


def test_a_short_step_is_divided_by_the_radius_and_a_long_one_by_its_norm() -> None:
    rows, labels = np.array([[1.0, 0, 0, 0, 0, 1.0]] * 4), np.array([0, 1, 2, 0])
    direction = np.array(grid().contribution(rows, labels), float)
    step = local_steps(rows[None] @ grid().transform, labels[None], rows[None] @ grid().offset, 0.1)[0].ravel()
    length = float(np.linalg.norm(step))
    assert np.allclose(direction / 2**24, step / length, atol=1e-6)
    clipped = np.array(grid(radius=2 * length).contribution(rows, labels), float)
    assert np.allclose(clipped / 2**24, step / (2 * length), atol=1e-6)
    assert grid(radius=length / 2).contribution(rows, labels) == grid().contribution(rows, labels)


@pytest.mark.parametrize("classes", [2, 4])
def test_steps_approach_the_minimiser_and_do_not_increase_the_loss(classes: int) -> None:
    generator = np.random.default_rng(4)
    Z, labels = generator.normal(size=(3, 50, 4)), generator.integers(classes, size=(3, 50))
    offset = generator.normal(size=(3, 50, classes - 1))
    basis = contrast_basis(classes)

    def loss(steps: Array, ridge: float) -> Array:
        chances = softmax((offset + Z @ steps.transpose(0, 2, 1)) @ basis)
        right = np.take_along_axis(chances, labels[..., None], axis=2)[..., 0]
        return np.asarray(-np.log(right).mean(axis=1) + ridge / 2 * (steps**2).sum(axis=(1, 2)))

    steps = local_steps(Z, labels, offset, 1.0)
    assert np.all(loss(steps, 1.0) < loss(np.zeros_like(steps), 1.0))
    for _ in range(20):
        nearby = steps + 0.05 * generator.normal(size=steps.shape)
        assert np.all(loss(steps, 1.0) < loss(nearby, 1.0) + 1e-6)
    single = local_steps(Z, labels, offset, math.inf)
    assert np.all(loss(0.1 * single, 0.0) < loss(np.zeros_like(single), 0.0))


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("ridge", [1e-300, 1e-17])
def test_a_plan_cannot_make_an_answer_depend_on_a_feature_of_the_rows(norm: Norm, ridge: float) -> None:
    """Two coordinates that are equal unless one of two features occurs: then alone the solver's matrix is regular."""
    transform = np.array([[1.0, 1, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    lying = LocalStepGrid(transform, np.zeros((4, 1)), 2, ridge, 1e6, 1.0, norm)
    rows, labels = np.random.default_rng(6).integers(1, 5, (32, 4)) / 4, np.arange(32) % 2  # sums are exact
    rows[:, 1:3], rows[:, 3] = 0.0, 1.0
    assert lying.contribution(rows, labels) == [0] * lying.length
    rows[0, 1] = 1.0
    assert 0 < size(lying.contribution(rows, labels), norm) <= 2**24
