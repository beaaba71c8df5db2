"""Checks of numeric arguments, shared by bounds and solvers."""

from __future__ import annotations

import math

import numpy as np

from psephos.protocol.errors import InvalidParameter


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
