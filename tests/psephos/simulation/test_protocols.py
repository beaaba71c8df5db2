"""What holds of every simulated protocol: it repeats with a seed, is charged first, continues, opens what it says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from psephos.protocol.errors import JournalError
from psephos.protocol.roles import Role
from psephos.protocol.storage.budget import BudgetFile
from psephos.protocol.transcript import Transcript
from psephos.simulation.experiment import PROTOCOLS
from psephos.simulation.options import AverageOptions, JobOptions, TallyOptions
from psephos.simulation.pathak import PathakOptions, simulate_pathak
from psephos.simulation.psgd import PsgdOptions, simulate_psgd
from psephos.simulation.tally import simulate_average, simulate_tally

SMALL: dict[str, Any] = {"key_bits": 512, "test_key": True}
SUMS: dict[str, Any] = {"parties": 6, "holders": 3, "threshold": 2, "workers": 1, "draws": 1}
# A rehearsal takes seconds: test_rehearsed.py.
OPTIONS: dict[str, dict[str, Any]] = {
    "tally": {**SUMS, "methods": ("soft", "own-data")},
    "statistic": {**SUMS, "methods": ("statistic", "own-data")},
    "record": SUMS,
    "average": {**SUMS, "methods": ("avg",)},
    "head": {**SUMS, "radius": 2.0},
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


SEEDED: dict[str, Any] = {"key_bits": 512, "test_key": True, "simulate_noise": True}
SEVEN: dict[str, Any] = {**SEEDED, "parties": 7, "holders": 4, "threshold": 3, "workers": 1, "draws": 1}
ABSENT: dict[str, Any] = {"sizes": "dirichlet", "concentration": 2.0, "absent": 0.3, "min_ballots": 3}
PAPER: dict[str, Any] = {"lam": 0.01, "mechanism": "gaussian", "delta": 1e-5}
JOINT: dict[str, Any] = {"reveal": "statistic", "colluders": 1, "dropouts": 2, "absent": 0.2}
DIGITS: dict[str, Any] = {"dataset": "digits", "sizes": "shards", "auxiliary": 30, "samples_per_party": 25}


def average(**more: Any) -> tuple[Callable[..., Any], AverageOptions]:
    return simulate_average, AverageOptions(**(SEVEN | more))


def tally(**more: Any) -> tuple[Callable[..., Any], TallyOptions]:
    return simulate_tally, TallyOptions(**(SEVEN | more))


def pathak(**more: Any) -> tuple[Callable[..., Any], PathakOptions]:
    return simulate_pathak, PathakOptions(**(SEEDED | {"parties": 4, "largest_size": 400} | more))


def psgd(**more: Any) -> tuple[Callable[..., Any], PsgdOptions]:
    return simulate_psgd, PsgdOptions(**(SEEDED | {"parties": 5, "steps": 3, "delta": 1e-3, "key_bits": 1024} | more))


RUNS = {
    "average, as in the papers": partial(
        average, **PAPER, **ABSENT, methods=("avg",), proofs="knowledge", randomness="full", degree=2
    ),
    "average, several classes": partial(average, **DIGITS, methods=("own-data",), absent=0.2),
    "tally, several learners": partial(
        tally, **DIGITS, learners=("logistic", "tree", "whitened"), methods=("own-data", "soft")
    ),
    "tally, given sizes": partial(tally, methods=("vote", "soft", "statistic", "pate"), sizes="20,30,40,50,60,20,30"),
    "tally, private auxiliary samples": partial(tally, protect_auxiliary=True, absent=0.2),
    "tally, huber": partial(tally, loss="huber", methods=("vote", "soft")),
    "tally, joint": partial(tally, **JOINT, proofs="knowledge"),
    "pathak, excluded": partial(pathak, epsilon=4.0, excluded=2),
    "pathak, printed": partial(pathak, variant="printed", comparisons="all-pairs", lam=0.01, smallest_size=10),
    "psgd, clipped": partial(
        psgd, variant="gaussian", on_excess="clip", party_bound=2.0, delta=0.05, dropouts=1, absent=0.2, lam=0.05
    ),
    "psgd, huber": partial(psgd, variant="halving", colluders=1, loss="huber", seed=4),
}


@pytest.mark.parametrize("name", RUNS)
def test_what_is_opened_is_what_the_parties_hold_and_is_sent_once(name: str) -> None:
    simulate, options = RUNS[name]()
    document = simulate(options, transcript=(transcript := Transcript())).as_json()
    equal = ("tally_equals_plaintext", "sums_equal_reference", "shares_equal_reference")
    assert [document[key] for key in equal if key in document] == [True]
    sent = Counter((m.phase, m.kind, m.sender, m.receiver, m.digest) for m in transcript.messages)
    assert set(sent.values()) == {1}


@pytest.mark.parametrize("options", [AverageOptions(), JobOptions(), PathakOptions(), PsgdOptions(), TallyOptions()])
def test_what_is_run_by_default_protects(options: Any) -> None:
    """A key of a real length, and noise of the operating system's coins."""
    assert options.key_bits >= 2048
    assert not options.test_key
    assert not options.simulate_noise
    assert getattr(options, "randomness", "half") in ("half", "full")
    assert options.epsilon in (1.0, (1.0,))
    assert getattr(options, "delta", 0.0) <= 1e-5
    assert options.other_labels == "refuse"
