"""What an error says of refused rows: neither their number nor a label, since errors go to logs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from traceback import format_exception

import numpy as np
import pytest

from psephos.curator.estimators import StatisticClassifier
from psephos.data.own import OwnTable, TableOptions
from psephos.parties.gradients import LocalLoss
from psephos.parties.learners import make_learner
from psephos.parties.party import Party
from psephos.parties.pathak import PathakParty
from psephos.protocol.errors import DataError, NormError
from psephos.protocol.grids.evaluation import checked_rows
from psephos.protocol.grids.own_data import OwnDataGrid
from psephos.protocol.signing import SigningKey
from psephos.specs.pathak import make_terms
from tests.protocol.grids.test_local_step import grid

ROWS = 2003
GRID = grid()
WIDTH = len(GRID.transform)

REFUSALS: dict[str, Callable[[np.ndarray, np.ndarray], object]] = {
    "own data": OwnDataGrid(np.eye(WIDTH), 3).contribution,
    "local step": GRID.contribution,
    "scores": lambda X, y: checked_rows(X, y, WIDTH, 3),
    "gradients": LocalLoss,
    "classifier": lambda X, y: make_learner("logistic", classes=(0, 1, 2)).fit(X, y),
    "party": lambda X, y: Party(0, SigningKey.generate(), classes=[0, 1, 2]).train(X, y, "logistic"),
}


@pytest.mark.parametrize("who", REFUSALS)
@pytest.mark.parametrize("what", ["a label is missing", "no table", "NaN", "a label that is no class"])
def test_errors_about_rows_do_not_state_their_number(who: str, what: str) -> None:
    X, y = np.full((ROWS, WIDTH), 0.0123456789), np.arange(ROWS) % 2
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
    for number in (ROWS, ROWS - 1, 1777, "0.01234"):
        assert str(number) not in str(caught.value)


@pytest.mark.parametrize("who", ["gradients", "pathak"])
def test_an_error_about_a_long_row_does_not_quote_it(who: str) -> None:
    X, y = np.full((ROWS, WIDTH), 0.0123456789), np.arange(ROWS) % 2
    X[7] = 2.0123456789
    terms = make_terms(parties=3, features=WIDTH, lam=0.1, epsilon=1.0)
    with pytest.raises(NormError) as caught:
        LocalLoss(X, 2.0 * y - 1) if who == "gradients" else PathakParty(1, X, y, terms).start()
    for number in (ROWS, "0.01234", "2.01234", f"{np.linalg.norm(X[7]):.4g}"):
        assert str(number) not in str(caught.value)


def _from_a_table(folder: Path, label: str) -> object:
    rows = [f"{name},{number},{owner}" for name, number, owner in zip("ab" * 20, range(40), "nnss" * 10, strict=False)]
    (folder / "own.csv").write_text("\n".join(["label,x,owner", *rows, f"{label},1,n"]) + "\n")
    return OwnTable(
        TableOptions(data=str(folder / "own.csv"), label="label", party="owner", public="s", classes=("a", "b"))
    )


TEXTS: dict[str, Callable[[Path, str], object]] = {
    "party": lambda _, label: Party(0, SigningKey.generate(), classes=("a", "b")).train(np.eye(2) * 0.5, ["a", label]),
    "estimator": lambda _, label: StatisticClassifier(classes=["a", "b"]).fit(np.eye(3) * 0.5, ["a", "b", label]),
    "table": _from_a_table,
}


@pytest.mark.parametrize("who", TEXTS)
def test_errors_about_labels_do_not_quote_them(who: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        TEXTS[who](tmp_path, label := "".join(["fi", "sh"]))
    assert label not in "".join(format_exception(caught.value))
