"""What holds of every simulated protocol: it repeats with a seed, is charged before it sends, and continues."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from psephos.protocol.errors import JournalError
from psephos.protocol.roles import Role
from psephos.protocol.storage.budget import BudgetFile
from psephos.simulation.experiment import PROTOCOLS

SMALL: dict[str, Any] = {"key_bits": 512, "test_key": True}
SUMS: dict[str, Any] = {"parties": 6, "holders": 3, "threshold": 2, "workers": 1, "draws": 1}
# A rehearsal takes seconds: test_rehearsed.py.
OPTIONS: dict[str, dict[str, Any]] = {
    "tally": {**SUMS, "methods": ("soft", "own-data")},
    "statistic": {**SUMS, "methods": ("statistic", "own-data")},
    "record": SUMS,
    "average": {**SUMS, "methods": ("avg",)},
    "pathak": {"parties": 4, "largest_size": 400},
    "psgd": {"parties": 4, "steps": 2, "variant": "gaussian"},
}
JOURNALED = [name for name in OPTIONS if "journal" in {one.name for one in fields(PROTOCOLS[name].options)}]


def run(name: str, roles: dict[str, Callable[[Role], Role]] | None = None, **more: Any) -> Any:
    protocol = PROTOCOLS[name]
    options = protocol.options(**SMALL, **OPTIONS[name], **protocol.fixed, **more)
    return protocol.run(options, roles=roles)


def released(result: Any) -> list[Any]:
    return [score.w.tolist() for score in result.evaluation.scores if score.epsilon is not None]


@pytest.mark.parametrize("name", OPTIONS)
def test_a_seed_repeats_a_run_and_the_system_does_not(name: str) -> None:
    first, second = (run(name, simulate_noise=True) for _ in range(2))
    drawn = run(name)
    assert first.exact is True
    assert (first.noise_source, drawn.noise_source) == ("simulation", "system")
    assert released(first) == released(second)
    assert not np.array_equal(released(first), released(drawn))


@pytest.mark.parametrize("name", OPTIONS)
def test_a_run_is_charged_before_anything_leaves(name: str, tmp_path: Path) -> None:
    charged: list[int] = []

    def watched(honest: Role) -> Role:
        start = honest.start

        def look() -> Any:
            with BudgetFile(tmp_path / "b", create=False) as file:
                charged.append(len(file.charges()))
            return start()

        honest.start = look  # type: ignore[method-assign]
        return honest

    result = run(name, {"party 0": watched}, budget=str(tmp_path / "b"))
    assert charged
    assert min(charged) > 0
    assert result.budget is not None


@pytest.mark.parametrize("name", JOURNALED)
def test_a_finished_run_is_read_from_its_journal(name: str, tmp_path: Path) -> None:
    journal = {"journal": str(tmp_path / "journal"), "simulate_noise": True}
    first, again = run(name, **journal), run(name, **journal)
    ballots = getattr(again, "continued_from", 0) or getattr(again, "resumed_at", 0)
    assert ballots > 0
    assert released(first) == released(again)
    with pytest.raises(JournalError):
        run(name, **journal, seed=1)
