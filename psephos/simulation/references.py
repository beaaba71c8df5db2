"""What a simulation compares a release with: classifiers without noise, of rows that only a simulation has together."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from psephos.curator.hamm.statistic import Source, fit_statistic, plan_statistic, release_sum
from psephos.parties.statistic import own_vector
from psephos.protocol.encrypted_sum.own_data import OwnDataGrid

__all__ = ["own_data_nonprivate"]

Array = NDArray[np.float64]


def own_data_nonprivate(
    rows: Iterable[tuple[Array, NDArray[np.int64]]], auxiliary: Array, classes: int, source: Source
) -> Array:
    """What own-data or whitened says without noise, (d,) or (K, d): in all public coordinates, whatever epsilon is.

    `rows`: every present party's samples (n, d) and labels (n,), which only a simulation has in one place. `auxiliary`:
    float64 (N, d). `source`: as in `plan_statistic`, whose errors it raises.
    """
    held = list(rows)
    plan = plan_statistic(auxiliary, classes, len(held), epsilon=None, source=source)
    assert isinstance(plan.grid, OwnDataGrid)
    vectors = (own_vector(plan.grid, *own) for own in held)
    total = [sum(column) for column in zip(*vectors, strict=True)]
    return fit_statistic(release_sum(total, plan))
