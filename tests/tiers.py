"""Marks of long lists of cases."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def sampled(cases: Iterable[Any], every: int = 6) -> list[Any]:
    """Return the parameters of a test with many cases of a kind: one of `every` runs in `make test`, the others are
    marked as slow."""
    return [pytest.param(case, marks=[pytest.mark.slow] * (place % every > 0)) for place, case in enumerate(cases)]
