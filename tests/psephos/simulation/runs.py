"""Whole seeded runs of every protocol: all that comes of one, as numbers, and whether it is as it was.

What the numbers must be is what the tests of each module are about. That no option is lost on its way, no message sent
twice and no figure confused with another, in any of the options' branches, is what this is about. outcomes.json has
them; `python -m tests.psephos.simulation.runs` writes it again after a change that is meant: look at the difference.
Noise and data are drawn from the seed; keys, which are small test keys, and so ciphertexts, are not, and nothing here
depends on them.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from psephos.curator.tally import OpenedSum
from psephos.protocol.transcript import Transcript
from psephos.results.evaluation import Evaluation, Score
from psephos.simulation.average import AverageOptions, simulate_average
from psephos.simulation.pathak import PathakOptions, simulate_pathak
from psephos.simulation.psgd import PsgdOptions, simulate_psgd
from psephos.simulation.tally import TallyOptions, simulate_tally

_FILE = Path(__file__).with_name("outcomes.json")
_OF_CHANCE = (
    "peak_memory_mb",
    "stage 1",
    "signal",
    "seconds_per_step",
)  # a permutation decides messages and bytes; see _TURNED for signal
_TURNED = ("statistic", "own-data", "whitened")  # noise in coordinates whose signs another LAPACK may choose otherwise

SMALL: dict[str, Any] = {"key_bits": 512, "test_key": True, "simulate_noise": True}
SUMS: dict[str, Any] = {**SMALL, "parties": 7, "holders": 4, "threshold": 3, "workers": 1}


@dataclass(frozen=True)
class Played:
    """A run, and what was heard of it."""

    outcome: Any
    evaluation: Evaluation
    transcript: Transcript
    steps: list[tuple[str, int, int]]

    def lasting(self) -> dict[str, Any]:
        """All of it that does not depend on keys, clocks and memory."""
        sent, size = Counter[str](), Counter[str]()
        for message in self.transcript.messages:
            name = f"{message.phase}: {message.kind}, {message.sender.split()[0]} to {message.receiver.split()[0]}"
            sent[name] += 1
            size[name] += message.size
        joint = getattr(self.outcome, "reveal", "") == "statistic"
        return {
            "outcome": _lasting(self.outcome.as_json()),
            "kept": [[m.method, m.epsilon, m.draw, m.w is None, _accuracy(m)] for m in self.evaluation.scores],
            "sums": {}
            if joint
            else {phase: list(map(_size, opened)) for phase, opened in self.evaluation.sums.items()},
            "counts": None if self.evaluation.counts is None else self.evaluation.counts.sum(axis=0).tolist(),
            "sent": {name: [count, size[name]] for name, count in sent.items() if not name.startswith(_OF_CHANCE)},
            "told": [f"{what}: {done} of {total}" for what, done, total in self.steps if what not in _OF_CHANCE],
        }


def _accuracy(one: Score) -> float | None:
    return None if one.epsilon is not None and one.method in _TURNED else one.accuracy


def _lasting(document: Any, name: str = "") -> Any:
    """Of an outcome, what the next run has too."""
    if isinstance(document, list):
        return [_lasting(entry) for entry in document]
    if not isinstance(document, dict):
        return document
    if name == "seconds":
        return sorted(document)
    if name in _TURNED and "nonprivate" in document:
        return {"nonprivate": document["nonprivate"], "released": document["private"] is not None}
    lasting = {key: value for key, value in document.items() if key not in _OF_CHANCE}
    return {key: _lasting(value, key) for key, value in lasting.items() if key != "seconds" or isinstance(value, dict)}


def _size(opened: Any) -> list[Any]:
    """Of an opened sum, which another BLAS may round otherwise: its length as a vector, and who is in it."""
    sums = opened.sums if isinstance(opened, OpenedSum) else opened
    if sums and isinstance(sums[0], OpenedSum):
        return [_size(one) for one in sums]
    parties = list(opened.parties) if isinstance(opened, OpenedSum) else []
    return [float(np.linalg.norm(np.array(sums, dtype=float))), len(sums), parties]


def play(simulate: Callable[..., Any], options: Any, **how: Any) -> Played:
    """Run it, and listen."""
    transcript, progress = Transcript(), list[tuple[str, int, int]]()
    outcome = simulate(options, transcript=transcript, progress=lambda *far: progress.append(far), **how)
    return Played(outcome, outcome.evaluation, transcript, progress)


def tally(**more: Any) -> dict[str, Any]:
    return play(simulate_tally, TallyOptions(**(SUMS | {"draws": 2} | more))).lasting()


def average(**more: Any) -> dict[str, Any]:
    return play(simulate_average, AverageOptions(**(SUMS | {"draws": 2} | more))).lasting()


def pathak(**more: Any) -> dict[str, Any]:
    return play(simulate_pathak, PathakOptions(**(SMALL | {"parties": 4, "largest_size": 400} | more))).lasting()


def psgd(**more: Any) -> dict[str, Any]:
    options = SMALL | {"parties": 5, "steps": 3, "delta": 1e-3, "key_bits": 1024}
    return play(simulate_psgd, PsgdOptions(**(options | more))).lasting()


_PAPERS: dict[str, Any] = {"lam": 0.01, "bound": "paper", "mechanism": "gaussian", "delta": 1e-5}
_ABSENT: dict[str, Any] = {"sizes": "dirichlet", "concentration": 2.0, "absent": 0.3, "min_ballots": 3}
_OTHER: dict[str, Any] = {"proofs": "knowledge", "randomness": "full", "degree": 2}
_DIGITS: dict[str, Any] = {"dataset": "digits", "sizes": "shards", "auxiliary": 30, "samples_per_party": 25, "draws": 1}
_PRINTED: dict[str, Any] = {"variant": "printed", "noise": "spherical", "comparisons": "all-pairs"}
_CLIPPED: dict[str, Any] = {"variant": "gaussian", "on_excess": "clip", "party_bound": 2.0, "delta": 0.05}

RUNS: dict[str, dict[str, Callable[[], dict[str, Any]]]] = {
    "sums": {
        "two epsilons": lambda: average(epsilon=(1.0, 10.0), seed=1),
        "as in the papers": lambda: average(**_PAPERS, **_ABSENT, **_OTHER, methods=("avg",)),
        "several classes": lambda: tally(
            **_DIGITS, scaling="max-norm", learners=("logistic", "tree", "whitened"), methods=("own-data", "soft")
        ),
    },
    "average": {"several classes": lambda: average(dataset="digits", mechanism="gaussian", draws=1, absent=0.2)},
    "methods": {
        "all": lambda: tally(epsilon=(2.0,)),
        "gaussian": lambda: tally(
            mechanism="gaussian", methods=("vote", "soft", "statistic", "pate"), sizes="20,30,40,50,60,20,30"
        ),
        "private auxiliary samples": lambda: tally(protect_auxiliary=True, absent=0.2),
        "huber": lambda: tally(loss="huber", methods=("vote", "soft"), draws=1),
    },
    "tally": {
        "joint": lambda: tally(reveal="statistic", draws=1, colluders=1, dropouts=2, absent=0.2, proofs="knowledge"),
        "joint, gaussian": lambda: tally(
            reveal="statistic", mechanism="gaussian", epsilon=(1.0, 4.0), methods=("statistic", "whitened")
        ),
        "votes": lambda: tally(methods=("statistic", "pate"), proofs="knowledge", min_ballots=6, seed=3),
    },
    "pathak": {
        "public size": lambda: pathak(epsilon=4.0, excluded=2),
        "printed": lambda: pathak(**_PRINTED, lam=0.01, regulariser="lambda/2", smallest_size=10),
        "repaired": lambda: pathak(variant="repaired", seed=2),
    },
    "psgd": {
        "paper": psgd,
        "clipped": lambda: psgd(**_CLIPPED, dropouts=1, absent=0.2, proofs="knowledge", lam=0.05),
        "halving": lambda: psgd(variant="halving", colluders=1, loss="huber", seed=4),
    },
}


def _flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, entry in value.items():
            yield from _flat(f"{name}/{key}", entry)
    elif isinstance(value, list | tuple):
        yield f"{name}#", len(value)
        for place, entry in enumerate(value):
            yield from _flat(f"{name}/{place}", entry)
    else:
        yield name, value


def check(group: str, name: str) -> None:
    """A run is as it was."""
    values, expected = json.loads(json.dumps(RUNS[group][name]())), json.loads(_FILE.read_text())[group][name]
    values, expected = dict(_flat("", values)), dict(_flat("", expected))
    assert values.keys() == expected.keys()
    for place, value in expected.items():
        same = values[place] == value
        if isinstance(value, float) and isinstance(values[place], float):  # another BLAS or libm may round otherwise
            same = math.isclose(values[place], value, rel_tol=1e-6, abs_tol=1e-12)
        assert same, f"{place}: {values[place]!r} and not {value!r}"


if __name__ == "__main__":
    made = {group: {name: run() for name, run in runs.items()} for group, runs in RUNS.items()}
    _FILE.write_text(json.dumps(made, indent=0) + "\n")
