"""A simulated run of a single encrypted sum: everybody's keys, the parties, and what the key holders open."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from psephos.budget import RunBudget
from psephos.progress import Progress, counted, silent
from psephos.protocol.privacy.accounting import PrivacyEvent
from psephos.protocol.randomness import SYSTEM
from psephos.protocol.roles import Role
from psephos.protocol.transcript import Transcript
from psephos.simulation.encrypted_sum import EncryptedSum, PartyFactory, RunConfig, simulate_sum
from psephos.simulation.engines import make_engine
from psephos.simulation.key_setup import KeyOptions, setup_run_keys
from psephos.specs.base import Participants, SumSpec

__all__ = ["SingleSumOptions", "take_sum"]


class SingleSumOptions(KeyOptions, Protocol):
    """The options that a single encrypted sum reads."""

    @property
    def workers(self) -> int:
        """Number of processes."""
        ...

    @property
    def dropouts(self) -> int:
        """Number of parties that may stay away."""
        ...

    @property
    def away(self) -> list[int]:
        """Numbers of the absent parties."""
        ...


def take_sum(
    options: SingleSumOptions,
    spec: SumSpec,
    rows: Sequence[Any],
    phase: str,
    *,
    transcript: Transcript | None = None,
    progress: Progress = silent,
    roles: Mapping[str, Callable[[Role], Role]] | None = None,
    charge: tuple[RunBudget, PrivacyEvent] | None = None,
) -> EncryptedSum:
    """Make the keys, and take one encrypted sum, whose noise is complete without the agreed number of absentees."""
    if charge is not None:
        budget = replace(charge[0], run=SYSTEM.draw(16))
        charges = [budget.release(charge[1].name, charge[1])]
        budget.check(charges)
    started = time.perf_counter()
    degree = spec.best_degree(options.key_bits, options.parties)
    keys = setup_run_keys(options, degree, transcript, progress)
    keygen = time.perf_counter() - started
    fewest = options.parties - options.dropouts  # at least 2: `contributors` leaves one share beside the observer's
    round_ = spec.terms(keys.threshold_key, Participants(keys.roster, fewest, options.test_key))
    present = sorted(set(range(options.parties)) - set(options.away))
    config = RunConfig(
        engine=make_engine(workers=options.workers),
        transcript=transcript,
        progress=counted(progress, phase, len(present)),
        roles=dict(roles or {}),
        present=present,
    )
    if charge is not None:
        budget.charge(charges)
    done = simulate_sum(round_, keys, PartyFactory(spec, rows), config)
    return replace(done, seconds={"keygen": keygen, **done.seconds})
