"""Classifiers without noise, with which a simulation compares a release. Only a simulation has all parties' rows."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from psephos.curator.statistic import Source, fit_statistic, plan_statistic, release_sum
from psephos.parties.party import Voter, labels_of
from psephos.parties.statistic import own_vector
from psephos.protocol.grids.own_data import OwnDataGrid
from psephos.protocol.grids.vote_directions import VoteDirectionGrid

__all__ = ["own_data_nonprivate", "vote_directions_nonprivate"]

Array = NDArray[np.float64]


def own_data_nonprivate(
    rows: Iterable[tuple[Array, NDArray[np.int64]]], auxiliary: Array, classes: int, source: Source
) -> Array:
    """Fit the method `own-data` or `whitened` without noise, in all public coordinates.

    Args:
        rows: samples (n, d) and labels (n,) of every party that takes part.
        auxiliary: auxiliary samples, float64 (N, d).
        classes: number of classes K.
        source: as in `plan_statistic`, whose errors are raised.

    Returns:
        The weights, shape (d,) for two classes, (K, d) for more.
    """
    party_rows = list(rows)
    plan = plan_statistic(auxiliary, classes, len(party_rows), epsilon=None, source=source)
    assert isinstance(plan.grid, OwnDataGrid)
    vectors = (own_vector(plan.grid, X, y) for X, y in party_rows)
    total = [sum(column) for column in zip(*vectors, strict=True)]
    return fit_statistic(release_sum(total, plan))


def vote_directions_nonprivate(voters: Iterable[Voter], auxiliary: Array, classes: int) -> Array:
    """Fit the method `vote-directions` without noise, in all public coordinates.

    Args:
        voters: the classifier of every party that takes part.
        auxiliary: auxiliary samples, float64 (N, d).
        classes: number of classes K.

    Returns:
        The weights, shape (d,) for two classes, (K, d) for more.
    """
    labels = [labels_of(voter, auxiliary, classes) for voter in voters]
    plan = plan_statistic(auxiliary, classes, len(labels), epsilon=None, source="vote-directions")
    assert isinstance(plan.grid, VoteDirectionGrid)
    total = [sum(column) for column in zip(*map(plan.grid.contribution, labels), strict=True)]
    return fit_statistic(release_sum(total, plan))
