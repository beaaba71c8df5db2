"""Every option that a run cannot have, or that it would not read, is refused before anything is computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from psephos.protocol.errors import InvalidParameter, WeakKeyError
from psephos.simulation.job import EvaluationOptions
from psephos.simulation.options import AverageOptions, JobOptions, TallyOptions
from psephos.simulation.pathak import PathakOptions
from psephos.simulation.psgd import PsgdOptions

KEYS: dict[str, Any] = {"parties": 7, "key_bits": 512, "test_key": True}
OWN: dict[str, Any] = {"data": "own.csv", "label": "days", "party": "hospital", "public": "open"}
JOINT = {"reveal": "statistic"}
SHARES = {"class_shares": ("a=0.5", "b=0.5")}
HOLDERS: dict[str, Any] = {**KEYS, "holders": 4, "threshold": 2, "workers": 1}

SUMS: list[dict[str, Any]] = [
    {"parties": 1, "holders": 1, "threshold": 1}, {"seed": -1}, {"absent": 1.0}, {"absent": -0.1}, {"sizes": "3,4"},
    {"sizes": "alphabetical"}, {"sizes": "5,5,5,5,5,5,5", "samples_per_party": 5}, {"epsilon": (0.0,)},
    {"epsilon": (float("nan"),)}, {"epsilon": (65.0,)}, {"epsilon": ()}, {"epsilon": (1.0, 1.0)}, {"lam": -1.0},
    {"lam": float("inf")}, {"delta": 0.0}, {"delta": 1.0}, {"workers": 0}, {"draws": 0}, {"degree": 0}, {"degree": 5},
    {"randomness": "none"}, {"keys": "mine"}, {"proofs": "some"}, {"proofs": "valid", "randomness": "full"},
    {"mechanism": "uniform"}, {"methods": ("oracle",)}, {"threshold": 0}, {"threshold": 5}, {"holders": 8},
    {"auxiliary": 0}, {"min_ballots": 1}, {"min_ballots": 8}, {"budget_limit": "3"}, {"test_key": False},
]  # fmt: skip
TALLY: list[dict[str, Any]] = [
    {"learners": ("oracle",)}, {"learners": ()}, {"learners": ("whitened",), "protect_auxiliary": True},
    {"reveal": "everything"}, {"unit": "ward"}, {"noise_from": "curator"}, {"methods": ("newton",)},
    {"methods": ("rehearsed",)}, {**JOINT, "methods": ("soft",)}, {**JOINT, "mechanism": "spherical-laplace"},
    {**JOINT, "absent": 0.3, "dropouts": 1}, {**JOINT, "colluders": 4, "dropouts": 2}, {**JOINT, "min_ballots": 6},
    {"unit": "record", "reveal": "alpha"}, {"unit": "record", "methods": ("vote",)},
    {"unit": "record", "announced_rows": 0}, {"unit": "record", "record": "patient"},
]  # fmt: skip
JOB: list[dict[str, Any]] = [
    {"draws": 2}, {"draws": None}, {"epsilon": (1.0, 2.0)}, {"method": "best"}, {"task": "ranking"},
    {"task": "regression"}, {"method": "own-data", "reveal": "alpha"}, {"method": "soft", "reveal": "statistic"},
    {"method": "newton"}, {"method": "rehearsed", "unit": "record"}, {"method": "soft", "unit": "record"},
    {**OWN, "task": "regression", "method": "statistic"}, {**OWN, "task": "regression", "reveal": "alpha"},
]  # fmt: skip
EVALUATION: list[dict[str, Any]] = [
    {"epsilon": 0.0}, {"unit": "ward"}, {"rows": "some"}, {"rows": "all"}, {**OWN, "held_out": 0.0}, {"workers": 0},
    {"colluders": 7}, {"absent": 0.3}, {"record": "patient"}, {"task": "regression"}, {"test_key": False},
]  # fmt: skip
PSGD: list[dict[str, Any]] = [
    {"epsilon": 0.0}, {"epsilon": float("nan")}, {"parties": 1}, {"absent": 0.2}, {"absent": 0.4, "dropouts": 1},
    {"keys": "mine"}, {"randomness": "none"}, {"proofs": "all"},
    {"delta": 0.0}, {"delta": 1.0}, {"lam": -1.0}, {"steps": 0}, {"loss": "hinge"}, {"variant": "best"},
    {"dropouts": -1}, {"stop_tolerance": -1.0}, {"party_bound": float("inf")},
    {"on_excess": "ignore"}, {"holders": 8}, {"test_key": False},
]  # fmt: skip
PATHAK: list[dict[str, Any]] = [
    {"parties": 2}, {"parties": 10_001}, {"lam": 0.0}, {"lam": float("nan")}, {"largest_size": 0}, {"absent": 0.2},
    {"smallest_size": 0}, {"variant": "best"}, {"comparisons": "none"}, {"epsilon": 0.0}, {"excluded": 7},
    {"test_key": False},
]  # fmt: skip
UNREAD: list[tuple[Any, dict[str, Any], str]] = [
    (TallyOptions, {"colluders": 1}, "colluders"),
    (TallyOptions, {"dropouts": 1}, "dropouts"),
    (TallyOptions, {"noise_from": "holders"}, "noise_from"),
    (TallyOptions, {"unit": "record", "noise_from": "holders"}, "noise_from"),
    (TallyOptions, {**JOINT, "methods": ("rehearsed",), "noise_from": "holders"}, "noise_from"),
    (TallyOptions, {**JOINT, "loss": "huber"}, "loss"),
    (TallyOptions, {**JOINT, "protect_auxiliary": True}, "protect_auxiliary"),
    (TallyOptions, {"record": "patient"}, "record"),
    (TallyOptions, {"announced_rows": 5}, "announced_rows"),
    (TallyOptions, {"unit": "record", **SHARES}, "class_shares"),
    (TallyOptions, {"protect_auxiliary": True, **SHARES}, "class_shares"),
    (JobOptions, {"method": "own-data", "announced_rows": 5}, "announced_rows"),
    (JobOptions, {"method": "own-data", "learners": ("tree",)}, "learners"),
    *(
        (JobOptions, {**OWN, "task": "regression", "unit": "record", **change}, next(iter(change)))
        for change in ({"classes": ("a", "b")}, {"learners": ("tree",)}, {"auxiliary": 9}, {"journal": "kept"})
    ),
    (EvaluationOptions, {"unit": "party", "record": "patient"}, "record"),
    (EvaluationOptions, {"largest_error": 3.0}, "largest_error"),
    (EvaluationOptions, {**OWN, "task": "regression", "bins": 5}, "bins"),
]


def cases() -> list[Any]:
    lists: list[tuple[Callable[..., Any], list[dict[str, Any]]]] = [
        (partial_of(AverageOptions, HOLDERS), [*SUMS, {"methods": ("vote",)}]),
        (partial_of(TallyOptions, HOLDERS), [*SUMS, *TALLY]),
        (partial_of(JobOptions, HOLDERS), JOB),
        (partial_of(EvaluationOptions, KEYS), EVALUATION),
        (partial_of(PsgdOptions, KEYS), PSGD),
        (partial_of(PathakOptions, KEYS), PATHAK),
    ]
    return [pytest.param(make, change, id=f"{make.__name__} {change}") for make, changes in lists for change in changes]


def partial_of(options: Any, usual: dict[str, Any]) -> Callable[..., Any]:
    def make(**change: Any) -> Any:
        return options(**{**usual, **change})

    make.__name__ = options.__name__
    return make


@pytest.mark.parametrize(("make", "change"), cases())
def test_what_no_run_can_have_is_refused(make: Callable[..., Any], change: dict[str, Any]) -> None:
    make().check()
    with pytest.raises(InvalidParameter):
        make(**change).check()


@pytest.mark.parametrize(("options", "change", "option"), UNREAD, ids=str)
def test_an_option_that_a_run_would_not_read_is_refused_by_name(
    options: Any, change: dict[str, Any], option: str
) -> None:
    with pytest.raises(InvalidParameter) as refused:
        options(**{**KEYS, **change}).check()
    assert refused.value.option == option


def test_short_keys_are_refused_as_such() -> None:
    replace(TallyOptions(), key_bits=2048).check()
    with pytest.raises(WeakKeyError):
        TallyOptions(key_bits=1024).check()
