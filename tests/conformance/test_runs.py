"""Every protocol of `psephos.specs.registry.SPECS` has a conformance run."""

from __future__ import annotations

import pytest

from psephos.specs.registry import SPECS
from tests.conformance.runs import RUNS, protocol_of, runs_of
from tests.conformance.test_transcripts import MESSAGES


def test_every_protocol_has_a_run_and_a_list_of_messages() -> None:
    assert set(SPECS) <= set(RUNS)
    assert {protocol_of(name) for name in RUNS} == {*SPECS, "ceremony"} == set(MESSAGES)


def test_a_protocol_without_a_run_fails_at_collection() -> None:
    with pytest.raises(LookupError, match="borda"):
        runs_of([*SPECS, "borda"], list(SPECS))
