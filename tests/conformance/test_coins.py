"""Where the coins of a study come from: every secret and every share of noise is drawn from the operating system.

Coins with the right law can be guessed all the same, if they are seeded by a clock or a constant.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from psephos.protocol.randomness import SimulationRandomness
from psephos.protocol.study.study import CURATOR
from psephos.simulation.psgd import simulate_psgd
from psephos.simulation.tally import simulate_tally
from tests.conformance.runs import RUNS, VARIANTS, Run
from tests.psephos.simulation.test_psgd import OPTIONS as DESCENT
from tests.psephos.simulation.test_tally import SMALL

OTHER_COINS = {"statistic, noise of holders", "record, three classes", "regression, party"}
"""Variants that `make test` runs, too: their roles draw other coins, or they are the smaller of two runs."""

STUDIES = [
    pytest.param(name, marks=[pytest.mark.soak] * (name in VARIANTS - OTHER_COINS))
    for name in RUNS
    if name not in ("ceremony", "record", "regression")
]
"""All but the ceremony, whose messages `tests/test_vectors.py` derives from given coins, and the larger of two runs of
a record step."""

EXACT = {"tally", "average", "average, own data", "average, whitened"}
"""Studies that release an exact sum, or the curator's noise only later."""

PUBLIC = {("private_key",), ("splits of a release",)}
"""What a seeded stream may be for: the dealer's test key, and the public search for a plan."""


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int], Run]:
    """Run a study while the operating system's generator returns the bytes of a seed."""
    seeded = SimulationRandomness.__init__

    def refuse(self: SimulationRandomness, seed: int, *labels: Any) -> None:
        assert labels[:1] in PUBLIC, f"a study draws seeded coins for {labels}"
        seeded(self, seed, *labels)

    def with_coins(name: str, seed: int) -> Run:
        make, study = RUNS[name]
        monkeypatch.setattr(secrets, "token_bytes", Random(seed).randbytes)
        cast = make(study)
        monkeypatch.setattr(SimulationRandomness, "__init__", refuse)
        try:
            return Run(cast)
        finally:
            monkeypatch.setattr(SimulationRandomness, "__init__", seeded)

    return with_coins


def released(run: Run) -> bytes:
    """Return the content of the release, noise included."""
    content: bytes = run.role(CURATOR).result(run.states[CURATOR]).content
    return content


@pytest.mark.parametrize("study", STUDIES)
def test_all_coins_of_a_study_are_the_operating_systems(run: Callable[[str, int], Run], study: str) -> None:
    """With the same bytes of the system's generator every message is the same, with others all randomness is another.

    The first excludes clocks and process numbers, the second constants. The seeds are fixed.
    """
    first, again, other = (run(study, seed) for seed in (1, 1, 2))
    assert first.posts == again.posts
    assert released(first) == released(again)
    assert (released(first) == released(other)) == (study in EXACT)
    ballots = [{post.data for _, post in each.posts if post.phase.endswith("cast")} for each in (first, other)]
    assert not ballots[0] & ballots[1]


SIMULATIONS: dict[str, Callable[[bool], Any]] = {
    "tally": lambda simulated: simulate_tally(replace(SMALL, simulate_noise=simulated)),
    "statistic": lambda simulated: simulate_tally(replace(SMALL, reveal="statistic", simulate_noise=simulated)),
    "psgd": lambda simulated: simulate_psgd(replace(DESCENT, steps=2, simulate_noise=simulated)).w,
}


@pytest.mark.parametrize("name", SIMULATIONS)
def test_noise_of_a_simulation_is_seeded_only_where_that_is_asked_for(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def result(simulated: bool, seed: int) -> str:
        monkeypatch.setattr(secrets, "token_bytes", Random(seed).randbytes)
        outcome = SIMULATIONS[name](simulated)
        return str(outcome.as_json()["accuracy"]) if hasattr(outcome, "as_json") else str(outcome)

    assert result(True, 1) == result(True, 2)
    assert result(False, 1) == result(False, 1)
    assert result(False, 1) != result(False, 2)
