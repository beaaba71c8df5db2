"""Directions of votes: points, labels and probabilities, and rejected input."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from psephos.protocol.errors import DataError
from psephos.protocol.grids.own_data import contrast_basis
from psephos.protocol.grids.vote_directions import VoteDirectionGrid

POINTS = np.array([[1.0, 2.0], [0.0, -1.0], [3.0, 0.5], [-1.0, -1.0]])
GRID = VoteDirectionGrid(POINTS, 3, "l1")


def test_a_vector_is_the_direction_of_the_labelled_points() -> None:
    S = contrast_basis(3) @ np.array([POINTS[0] + POINTS[3], POINTS[2], POINTS[1]])
    expected = S / np.abs(S).sum() * 2**24
    for labels in (np.array([0, 2, 1, 0], dtype=np.uint8), np.eye(3)[[0, 2, 1, 0]]):
        assert np.abs(np.array(GRID.contribution(labels)) - expected.ravel()).max() <= 1
    half = np.full((4, 3), 1 / 3) / 2 + np.eye(3)[[0, 2, 1, 0]] / 2  # less certain, the same direction but for the mean
    S = contrast_basis(3) @ half.T @ POINTS
    assert np.abs(np.array(GRID.contribution(half)) - (S / np.abs(S).sum() * 2**24).ravel()).max() <= 1


@pytest.mark.parametrize(
    "labels",
    [
        [0, 1, 2],
        [0, 1, 2, 3],
        [0, 1, 2, -1],
        [0.0, 1.0, 2.0, 0.0],
        [True, False, True, True],
        np.ones((4, 3), dtype=int),
        np.full((4, 2), 0.5),
        np.full((3, 3), 1 / 3),
        np.full((4, 3), 0.3),
        np.full((4, 3), math.nan),
        [[1.5, -0.5, 0.0]] * 4,
        [[math.inf, 0.0, 0.0]] * 4,
    ],
)
def test_invalid_labels_are_rejected(labels: Any) -> None:
    with pytest.raises(DataError):
        GRID.contribution(labels)
