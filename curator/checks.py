"""Checks of numeric arguments and of public rows, and the folds of these, shared by bounds and solvers."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from psephos.protocol.errors import DataError, InvalidParameter

_FOLDS = 5  # of a cross-validation


def _check_number(value: float, name: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise InvalidParameter(f"{name} must be a number, not {type(value).__name__}")


def check_positive(value: float, name: str) -> float:
    """Return `value` as a float; raises InvalidParameter unless it is a positive finite number."""
    _check_number(value, name)
    if not 0 < value < math.inf:
        raise InvalidParameter(f"{name} must be positive and finite, not {value}")
    return float(value)


def check_count(value: int, name: str, least: int = 1) -> int:
    """Return `value` as an int; raises InvalidParameter unless it is a whole number of at least `least`."""
    _check_number(value, name)
    if not least <= value < math.inf or value != int(value):
        raise InvalidParameter(f"{name} must be a whole number, at least {least}, not {value}")
    return int(value)


def public_features(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return public rows (N, d) divided by their last feature, the constant of the scaling, and without it, (N, d - 1).

    Raises DataError unless X is a finite matrix whose last feature is positive in every row.
    """
    X = np.asarray(X, dtype=np.float64)
    if X.ndim != 2 or X.shape[1] < 2 or not len(X) or not np.all(np.isfinite(X)) or not np.all(X[:, -1] > 0):
        raise DataError(
            "public rows must be a finite matrix whose last feature is a positive constant: choose a scaling with an "
            "intercept"
        )
    features: NDArray[np.float64] = X[:, :-1] / X[:, -1:]
    return features


def folds_of(rows: int) -> Iterator[NDArray[np.bool_]]:
    """Yield which rows each fold of a cross-validation holds out, (rows,); nothing where it would leave none."""
    for fold in range(min(_FOLDS, rows) if rows > 1 else 0):
        yield np.arange(rows) % _FOLDS == fold


def noise_inflation(parties: int, contributors: int | None) -> float:
    """Return the variance of the noise that the curator gets, as a multiple of the variance that epsilon needs.

    Each party adds a share, and those of `contributors` (None: of all) make up the noise that epsilon needs.
    """
    check_count(parties, "the number of parties")
    if contributors is None:
        return 1.0
    if not 1 <= contributors <= parties:
        raise InvalidParameter(
            f"the shares of 1 to {parties} parties make up the noise that epsilon needs, not those of {contributors}"
        )
    return parties / contributors
