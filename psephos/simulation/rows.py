"""A run of one encrypted sum over the parties' own rows: a regression, or the evaluation of a model."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from psephos.budget import budget_of, unit_of_run
from psephos.data.splits import Split
from psephos.progress import Progress, counted, silent
from psephos.protocol.privacy.accounting import PrivacyEvent, stated
from psephos.protocol.privacy.unit import PrivacyUnit
from psephos.protocol.randomness import SYSTEM
from psephos.protocol.roles import Role
from psephos.protocol.transcript import Transcript
from psephos.results.base import timed
from psephos.simulation.encrypted_sum import EncryptedSum, PartyFactory, RunConfig, simulate_sum
from psephos.simulation.engines import make_engine
from psephos.simulation.key_setup import setup_run_keys
from psephos.specs.base import Participants
from psephos.specs.noisy import NoisySumSpec

__all__ = ["RowSum"]


class RowSum(ABC):
    """One run: who holds which rows, and what is summed, by public values.

    Attributes:
        options: the options, whose number of parties is that of the table.
        split: the rows.
        spec: the protocol.
    """

    released: ClassVar[str]
    """What a budget file calls the release."""

    phase: ClassVar[str]
    """What progress calls the parties' work."""

    def __init__(self, options: Any, split: Split, spec: NoisySumSpec) -> None:
        """Open the budget file that the options name; raises as `budget_of`."""
        self.options, self.split, self.spec = options, split, spec
        self._budget = budget_of(options, split, options.unit)

    @abstractmethod
    def rows_of(self, number: int) -> tuple[Any, ...]:
        """Return a party's rows, float64 (n, d + 1), and their labels, (n,).

        Where persons are protected, also whose each row is, int64 (n,). Secrets.
        """

    @property
    def event(self) -> PrivacyEvent:
        """What the sum costs."""
        event = stated(self.spec.release_plan.event, getattr(self.options, "delta", 0.0))
        return replace(event, name=self.released)

    @property
    def protects(self) -> PrivacyUnit:
        """What the sum protects."""
        return unit_of_run(self.options, self.options.unit)

    def sum(
        self,
        *,
        transcript: Transcript | None = None,
        progress: Progress = silent,
        roles: Mapping[str, Callable[[Role], Role]] | None = None,
    ) -> EncryptedSum:
        """Make the keys, and take the sum, whose noise is complete without the agreed number of absent parties."""
        options, spec, budget = self.options, self.spec, self._budget
        if budget is not None:
            budget = replace(budget, run=SYSTEM.draw(16))
            charges = [budget.release(self.released, self.event)]
            budget.check(charges)
        rows = [self.rows_of(number) for number in range(options.parties)]
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
            progress=counted(progress, self.phase, len(present)),
            roles=dict(roles or {}),
            present=present,
        )
        if budget is not None:
            budget.charge(charges)
        done = simulate_sum(round_, keys, PartyFactory(spec, rows), config)
        return replace(done, seconds={"keygen": keygen, **done.seconds})

    def fields(self, done: EncryptedSum) -> dict[str, Any]:
        """Return the fields that the results of all such runs have, of an opened sum."""
        cost = self.spec.cost(done.opened.ballots)
        # The time of other phases depends on private rows.
        settled = {name: done.seconds[name] for name in ("keygen", "decrypt")}
        return {
            "options": self.options.plain(),
            "dataset": self.split.dataset.name,
            "phases": timed(settled),
            "privacy": replace(cost, delta=self.event.delta, protects=self.protects),
            "ballots": done.opened.ballots,
            "ciphertexts_per_ballot": done.round.plan.ciphertexts,
            "bytes_per_ballot": done.ballot_bytes,
            "tally_equals_plaintext": done.equals_plaintext,
            "colluders": self.options.coalition or 0,
            "budget": None if self._budget is None else self._budget.summary(),
        }
