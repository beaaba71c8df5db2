"""A run of one encrypted sum over the parties' own rows: a regression, or the evaluation of a model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Unpack

from psephos.budget import budget_of, unit_of_run
from psephos.data.splits import Split
from psephos.protocol.privacy.accounting import PrivacyEvent, stated
from psephos.protocol.privacy.unit import PrivacyUnit
from psephos.protocol.randomness import SYSTEM
from psephos.results.base import timed
from psephos.simulation.encrypted_sum import EncryptedSum
from psephos.simulation.run import KeyedRun, RunContext
from psephos.specs.noisy import NoisySumSpec


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

    def sum(self, **context: Unpack[RunContext]) -> EncryptedSum:
        """Make the keys, and take the sum, whose noise is complete without the agreed number of absent parties.

        It is charged before the parties are asked. Raises BudgetExceededError before anything is computed.
        """
        run, spec, budget = KeyedRun(self.options, context), self.spec, self._budget
        if budget is not None:
            budget = replace(budget, run=SYSTEM.draw(16))
            charges = [budget.release(self.released, self.event)]
            budget.check(charges)
            run.before_sum = partial(budget.charge, charges)
        rows = [self.rows_of(number) for number in range(self.options.parties)]
        # At least 2 ballots: `contributors` leaves one share beside the observer's.
        done = run.sum(spec, rows, self.phase, minimum_ballots=self.options.parties - self.options.dropouts)
        return replace(done, seconds=run.seconds)

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
