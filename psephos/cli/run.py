"""`psephos run`: the main job, with the few options that matter."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from psephos.cli.generate import examples
from psephos.cli.simulate import add
from psephos.simulation.tally import TallyOptions, simulate_tally

__all__ = ["register"]

OPTIONS = (
    "dataset",
    "parties",
    "auxiliary",
    "data_dir",
    "learners",
    "epsilon",
    "reveal",
    "key_bits",
    "test_key",
    "holders",
    "threshold",
    "workers",
    "journal",
    "seed",
)


def register(app: typer.Typer, words: Sequence[str]) -> None:
    """Add the command."""
    add(
        app,
        "run",
        TallyOptions,
        simulate_tally,
        help="The main job: train locally, count votes under encryption, release privately, compare.",
        epilog=examples(
            "psephos run",
            "psephos run --dataset digits --parties 50 --learners logistic,tree,knn",
            "psephos run --dataset har --parties 1000 --data-dir DIR --epsilon 3 --json",
            "psephos run --reveal statistic --report out",
        ),
        only=OPTIONS,
    )
