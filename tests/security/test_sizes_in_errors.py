"""How many rows a party has is not in the error that refuses them: errors go to logs, and sizes may be secret."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from psephos.parties.gradients import LocalLoss
from psephos.parties.learners import make_learner
from psephos.protocol.encrypted_sum.own_data import OwnDataGrid
from psephos.protocol.encrypted_sum.score_grid import checked_rows
from psephos.protocol.errors import DataError
from tests.protocol.encrypted_sum.test_local_step import grid

ROWS = 2003
GRID = grid()
WIDTH = len(GRID.transform)

REFUSALS: dict[str, Callable[[np.ndarray, np.ndarray], object]] = {
    "own data": OwnDataGrid(np.eye(WIDTH), 3).contribution,
    "local step": GRID.contribution,
    "scores": lambda X, y: checked_rows(X, y, WIDTH, 3),
    "gradients": LocalLoss,
    "classifier": lambda X, y: make_learner("logistic", classes=(0, 1, 2)).fit(X, y),
}


@pytest.mark.parametrize("who", REFUSALS)
@pytest.mark.parametrize("what", ["a label is missing", "no table", "NaN", "a label that is no class"])
def test_errors_about_rows_do_not_state_their_number(who: str, what: str) -> None:
    X, y = np.full((ROWS, WIDTH), 0.01), np.arange(ROWS) % 2
    if what == "a label is missing":
        y = y[:-1]
    elif what == "no table":
        X = X[:, 0]
    elif what == "NaN":
        X[7, 0] = np.nan
    else:
        y = np.where(np.arange(ROWS) == 5, 1777, y)
    with pytest.raises(DataError) as caught:
        REFUSALS[who](X, y)
    for number in (ROWS, ROWS - 1, 1777):
        assert str(number) not in str(caught.value)
