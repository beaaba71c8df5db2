"""Whose data is simulated, how it is dealt and who stays away."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from psephos.data.datasets import load
from psephos.data.partition import DataOptions, load_split
from psephos.data.splits import split_dataset
from psephos.protocol.errors import InvalidParameter
from psephos.simulation.job import EvaluationOptions
from psephos.simulation.options import JobOptions, TallyOptions
from psephos.simulation.pathak import PathakOptions
from psephos.simulation.psgd import PsgdOptions

SMALL = DataOptions(parties=4)


OF_RECORDS = [
    *(partial(kind, unit="record") for kind in (TallyOptions, JobOptions, EvaluationOptions)),
    partial(JobOptions, unit="record", task="regression"),
    PsgdOptions,
    PathakOptions,
]
DEALT = {"data": "t.csv", "label": "y", "public": "open.csv", "parties": 5}


@pytest.mark.parametrize("options", OF_RECORDS)
@pytest.mark.parametrize(
    "change", [{"sizes": "1,2,3,4,5"}, {"sizes": "dirichlet"}, {"sizes": "shards"}, {"absent": 0.2}]
)
def test_a_record_is_not_protected_where_a_random_order_decides_which_rows_are_summed(
    options: Any, change: dict[str, Any]
) -> None:
    """The order depends on how many rows there are. Where rows have owners, or shards are protected, it does not."""
    if "absent" in change:
        if options is PathakOptions:  # which needs every party
            return
        change = {**change, "dropouts": 1}
    with pytest.raises(InvalidParameter):
        options(**DEALT, **change).check()
    options(**DEALT).check()
    if "absent" in change:
        options(**{**DEALT, "party": "who"}, **change).check()


def same(one: Any, other: Any) -> None:
    for field in ("auxiliary", "test"):
        np.testing.assert_array_equal(getattr(one, field), getattr(other, field))
    assert len(one.parties) == len(other.parties)
    for mine, theirs in zip(one.parties, other.parties, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize(
    ("choices", "arguments"),
    [
        ({}, {}),
        ({"samples_per_party": 30}, {"samples_per_party": 30}),
        ({"sizes": "30,20,9,40"}, {"samples_per_party": [30, 20, 9, 40]}),
        ({"sizes": "dirichlet", "concentration": 7.0}, {"deal": "dirichlet", "concentration": 7.0}),
        ({"sizes": "shards", "samples_per_party": 30}, {"deal": "shards", "samples_per_party": 30}),
    ],
)
def test_rows_are_split_by_the_options(choices: dict[str, Any], arguments: dict[str, Any]) -> None:
    data, options = load("breast-cancer"), DataOptions(parties=4, seed=3, **choices)
    same(options.deal(data), split_dataset(data, 4, 3, **arguments))
    same(load_split(options)[1], options.deal(data))
    few = {"samples_per_party": 11, **arguments}  # whoever deals by another rule may ask for a size where none was
    same(options.deal(data, samples=11, auxiliary=60), split_dataset(data, 4, 3, auxiliary=60, **few))


# -- a table of one's own


@pytest.fixture
def table(tmp_path: Path) -> dict[str, Any]:
    """Options that name four owners' twenty rows each, and a table of public rows."""
    for name, shift in (("t", 0), ("open", 80)):
        rows = [f"{n % 4},{(n * 7) % 13},{'ab'[n % 3 == 0]}" for n in range(shift, shift + 80)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["who,x,y", *rows]) + "\n")
    return {"data": str(tmp_path / "t.csv"), "label": "y", "public": str(tmp_path / "open.csv")}


def test_the_party_column_determines_the_number_of_parties(table: dict[str, Any]) -> None:
    named = {**table, "party": "who"}
    with pytest.raises(InvalidParameter) as refused:
        load_split(TallyOptions(**named, parties=9))
    assert refused.value.option == "parties"
    options, split = load_split(TallyOptions(**named))
    assert (options.parties, options.key_holders, options.opening_threshold) == (4, 4, 3)
    assert len(split.parties) == 4
    with pytest.raises(InvalidParameter, match="5 of 4"):
        load_split(TallyOptions(**named, holders=5))
    options, _ = load_split(PathakOptions(**named))
    assert options.parties == 4


def test_comparison_needs_held_out_rows(table: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter, match="no rows are left to measure on"):
        load_split(DataOptions(**table, parties=3, held_out=0.0))
    assert DataOptions().compares is True


OWN = {"data": "t.csv", "label": "y"}
WRONG: list[dict[str, Any]] = [
    {"parties": 1},
    *({"absent": share} for share in (1.0, -0.01, float("nan"))),
    *({"sizes": sizes} for sizes in ("alphabetical", "5,6,7", "5,6,7,8,9")),
    {"sizes": "5,6,7,8", "samples_per_party": 5},
    *({**OWN, "party": "who", "public": "9", "sizes": sizes} for sizes in ("shards", "5,6,7,8")),
    *({name: "y"} for name in ("label", "party", "public", "schema")),
    *({name: ("a", "b")} for name in ("classes", "ignore", "text")),
    *({"held_out": share} for share in (0.0, 1.5)),
    {"other_labels": "drop"},
    {"data": "t.csv"},
    OWN,
    {**OWN, "schema": "s.toml", "held_out": 1.0},
    {**OWN, "schema": "s.toml", "text": ("x",)},
    {"budget_limit": "1"},
]


@pytest.mark.parametrize("one", WRONG, ids=str)
def test_invalid_options_are_refused(one: dict[str, Any]) -> None:
    """Among them whatever is about a table of one's own, without one."""
    with pytest.raises(InvalidParameter):
        replace(SMALL, **one).check()
