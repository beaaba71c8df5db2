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
from psephos.results.base import Result

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
    parties, skew = result.panels
    assert (list(parties.curves[0].x), list(skew.curves[0].x)) == ([5, 10, 15], [1, 2, 3])
    assert result.sums_equal_reference is True
    assert ("Steps repeated under encryption", 12, ", sums equal to the clear ones") in result.facts
    assert sum(m.kind == "ballot" for m in transcript.messages) == 2 * (5 + 10 + 15 + 5 + 5 + 5)
    errors = {
        curve.algorithm: [*curve.mean, *other.mean] for curve, other in zip(parties.curves, skew.curves, strict=True)
    }
    assert errors.keys() == set(METHODS)
    assert max(errors["nonprivate"]) < 0.1
    # eta is common to all rows, so the error of GOP depends neither on the parties nor on the skew.
    assert len(set(errors["gop"])) == 1
    # The noise of local aggregation grows as the smallest party shrinks.
    assert errors["la_printed"][3] < errors["la_printed"][5]
    psgd = result.privacy["psgd at 0.2: every noisy sum"].epsilon
    assert psgd is not None
    assert psgd > 10
    assert "of 6 rows" in result.tables[0].rows[0][2]


def test_the_same_seed_gives_the_same_table() -> None:
    options = replace(SMALL, check_steps=0, steps=50, datasets=1)
    assert reproduce_rajkumar(options).panels == reproduce_rajkumar(options).panels
    assert reproduce_rajkumar(options).panels != reproduce_rajkumar(replace(options, seed=1)).panels


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
