"""Tests of the sweeps of Rajkumar 2012 at a small size."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from psephos.experiments.rajkumar import METHODS, SweepOptions, reproduce_rajkumar, sizes_from
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.transcript import Transcript
from psephos.results import Result

SMALL = SweepOptions(lambdas=(0.1,), epsilons=(0.2,), steps=1000, draws=1, check_steps=1, key_bits=512, test_key=True)


@given(st.lists(st.floats(0.001, 1), min_size=1, max_size=20), st.integers(20, 3000))
def test_sizes_add_up_and_follow_the_shares(weights: list[float], records: int) -> None:
    shares = np.array(weights) / sum(weights)
    sizes = sizes_from(shares.tolist(), records)
    assert sum(sizes) == records
    assert min(sizes) >= 1
    # Sizes are within one record of the exact share, apart from records that parties with a share below one record got.
    forced = sum(share * records < 1 for share in shares)
    assert all(abs(size - share * records) <= 1 + forced for size, share in zip(sizes, shares, strict=True))


def test_simulated_sweep() -> None:
    steps: list[tuple[str, int, int]] = []
    transcript, options = Transcript(), replace(SMALL, datasets=2)
    result = reproduce_rajkumar(options, progress=lambda *step: steps.append(step), transcript=transcript)
    document = json.loads(json.dumps(result.as_json(), allow_nan=False))
    assert Result.from_json(document).as_json() == document
    assert steps == [("rajkumar-simulated", run, 12) for run in range(1, 13)]
    assert [(row.panel, row.place) for row in result.rows] == [
        *(("parties", k) for k in (5, 10, 15)),
        *(("skew", k) for k in (1, 2, 3)),
    ]
    assert result.sums_equal_reference is True
    assert result.encrypted_steps_checked == 12
    assert sum(m.kind == "ballot" for m in transcript.messages) == 2 * (5 + 10 + 15 + 5 + 5 + 5)
    for row in result.rows:
        assert row.errors.keys() == set(METHODS)
        assert row.errors["nonprivate"].mean < 0.1
    # eta is common to all rows, so the error of GOP depends neither on the parties nor on the skew.
    assert len({row.errors["gop"].mean for row in result.rows}) == 1
    # The noise of local aggregation grows as the smallest party shrinks.
    skews = {row.place: row.errors["la_printed"].mean for row in result.rows if row.panel == "skew"}
    assert skews[1] < skews[3]
    psgd = result.epsilon_transcript["0.2"]["psgd"]
    assert psgd is not None
    assert psgd > 10
    assert result.claims.rows == 6


def test_the_same_seed_gives_the_same_table() -> None:
    options = replace(SMALL, check_steps=0, steps=50, datasets=1)
    assert reproduce_rajkumar(options).rows == reproduce_rajkumar(options).rows
    assert reproduce_rajkumar(options).rows != reproduce_rajkumar(replace(options, seed=1)).rows


@pytest.mark.parametrize(
    "change",
    [
        {"datasets": 0}, {"draws": 0}, {"lambdas": ()}, {"delta": 0.0}, {"steps": 0}, {"name": "rajkumar-wdbc"},
        {"name": "pathak-adult"},
    ],
    ids=str,
)  # fmt: skip
def test_invalid_options_are_rejected(change: dict[str, Any]) -> None:
    """Includes a single fold, which leaves no records for training."""
    with pytest.raises(InvalidParameter):
        reproduce_rajkumar(replace(SMALL, **{"datasets": 1, **change}))
