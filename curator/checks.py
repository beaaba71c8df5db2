"""What the numbers given to a bound or a solver must be. No paper behind it."""

from __future__ import annotations

import math

import numpy as np

from psephos.protocol.errors import InvalidParameter


def _check_number(value: float, name: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise InvalidParameter(f"{name} must be a number, not {type(value).__name__}")


def check_positive(value: float, name: str) -> float:
    """`value` as a float if it is a positive finite number; InvalidParameter otherwise (lambda, tau, a radius, ...)."""
    _check_number(value, name)
    if not 0 < value < math.inf:
        raise InvalidParameter(f"{name} must be positive and finite, not {value}")
    return float(value)


def check_count(value: int, name: str, least: int = 1) -> int:
    """`value` as an int if it is a whole number of at least `least`; InvalidParameter otherwise."""
    _check_number(value, name)
    if not least <= value < math.inf or value != int(value):
        raise InvalidParameter(f"{name} must be a whole number, at least {least}, not {value}")
    return int(value)


def rounded_up(value: float) -> float:
    """To 30 bits: whoever plans the same noise on another processor, with other last bits, comes to the same number."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(math.ceil(math.ldexp(mantissa, 30)), exponent - 30)
