"""Results of functions of public values, which several steps of a run need, and which take seconds."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_MOST = 12  # results that are kept

REMEMBERED: dict[str, Any] = {}
"""The last results of functions of public values, by function and arguments."""


def remembered(function: Callable[P, T]) -> Callable[P, T]:
    """Return the function that computes nothing twice, for functions of public values alone; `done` does not count.

    Each caller gets a copy, which it may change.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        import joblib  # imported here because it takes a tenth of a second

        key = joblib.hash((function.__qualname__, args, {**kwargs, "done": None}))
        if (result := REMEMBERED.get(key)) is None:
            REMEMBERED[key] = result = function(*args, **kwargs)
            if len(REMEMBERED) > _MOST:
                REMEMBERED.pop(next(iter(REMEMBERED)), None)  # another thread may have
        copied: T = deepcopy(result)
        return copied

    return call
