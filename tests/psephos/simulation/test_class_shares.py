"""`--class-shares`: a public statement sets the intercept of what a run releases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from psephos.curator.class_shares import with_class_shares
from psephos.protocol.errors import InvalidParameter
from psephos.simulation.job import Job
from psephos.simulation.options import TallyOptions
from tests.psephos.simulation.test_rehearsed import options

SHARES = ("ill=0.8", "well=0.2")


def a_job(path: Path, **more: Any) -> Job:
    usual = {"labelled": False, "classes": ("ill", "well"), "announced_rows": None, "seed": 1, "simulate_noise": True}
    return Job(options(path, **usual | more))


@pytest.mark.parametrize("method", ["own-data", "vote-directions", "statistic", "avg"])
def test_the_released_classifier_has_the_intercept_of_the_shares(method: str, tmp_path: Path) -> None:
    """The noise of the seed is the same in both runs; nothing that a party sends depends on the statement."""
    plain, stated = (a_job(tmp_path, method=method, class_shares=shares).run() for shares in ((), SHARES))
    X = stated.evaluation.scaler.transform(a_job(tmp_path, method=method).split.X_auxiliary)
    expected = with_class_shares(plain.weights[method], X, [0.8, 0.2])
    assert np.array_equal(stated.weights[method], expected)
    clear, moved = (
        next(one.w for one in run.evaluation.scores if (one.method, one.epsilon) == (method, None))
        for run in (plain, stated)
    )
    assert np.array_equal(moved, with_class_shares(clear, X, [0.8, 0.2]))
    assert stated.weights[method][-1] < plain.weights[method][-1]
    assert plain.evaluation.sums.keys() == stated.evaluation.sums.keys()
    for phase, sums in plain.evaluation.sums.items():
        assert [one.sums for one in sums] == [one.sums for one in stated.evaluation.sums[phase]]
    assert stated.privacy[method].chosen["class shares"] == "0.8 0.2"
    assert stated.privacy[method].epsilon == plain.privacy[method].epsilon
    assert "class shares" not in plain.privacy[method].chosen


@pytest.mark.parametrize(
    "shares",
    [
        ("ill=0.1",),
        ("ill=0.1", "ill=0.9"),
        ("ill=0.5", "well=0.9"),
        ("ill=0.1", "well=most"),
        ("ill", "well"),
    ],
)
def test_shares_of_other_classes_are_refused_before_anything_is_trained(
    shares: tuple[str, ...], tmp_path: Path
) -> None:
    with pytest.raises(InvalidParameter):
        a_job(tmp_path, method="own-data", class_shares=shares)


def test_shares_are_in_the_order_of_the_classes() -> None:
    """A name may contain an equals sign; no statement is no share."""
    announced = TallyOptions(class_shares=("well=0.25", "a=b=0.5", "ill=0.25"))
    assert announced.shares_of(("a=b", "ill", "well")) == (0.5, 0.25, 0.25)
    assert TallyOptions().shares_of(("ill", "well")) == ()
    with pytest.raises(InvalidParameter):
        announced.shares_of(("ill", "well"))
