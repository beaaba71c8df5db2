"""The numbers that security rests on are as wide and long as they must be, measured from what is sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.security.lab.parameters import MEASUREMENTS, WEAKER, changed
from tests.tiers import sampled


@pytest.mark.parametrize("name", MEASUREMENTS)
def test_messages_and_releases_meet_their_bounds(name: str) -> None:
    MEASUREMENTS[name]()


@pytest.mark.parametrize("one", sampled(WEAKER, 2), ids=lambda one: one[0])
def test_a_weaker_constant_is_detected(one: tuple[str, Any, Callable[[], None]]) -> None:
    at, weaker, measure = one
    with changed(at, weaker), pytest.raises(Exception):  # noqa: B017, PT011 - what stops is noticed
        measure()
