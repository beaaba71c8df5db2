"""What an experiment around encrypted sums is charged in the budget file of its rows (`--budget`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from psephos.budget import RunBudget, budget_of, changes_of
from psephos.curator.hamm.methods import Method
from psephos.data.splits import Split
from psephos.protocol.errors import BudgetExceededError
from psephos.protocol.privacy.accounting import PrivacyEvent, stated_delta
from psephos.protocol.privacy.mechanisms import SAMPLER_DISTANCE, gaussian_sigma
from psephos.protocol.randomness import SYSTEM
from psephos.protocol.storage.budget import Charge
from psephos.results.budget import BudgetSummary
from psephos.simulation.journal import Journal

if TYPE_CHECKING:
    from psephos.simulation.sums import SumOptions

__all__ = ["SumCharges", "charges_of"]

_REHEARSED = "rehearsed"
"""The method that may ask no party, which is known only after it was rehearsed on public rows."""

_COUNTED = ("vote", "soft", "statistic", "pate")
"""Methods that are released from exact counts of votes."""

_RUN, _DRAWN = "budget run", "budget draws"
"""What a journal stores: the identifier of the run, and how often it began to draw the curator's noise."""


class SumCharges:
    """Charges the releases of one experiment, once, before its first encrypted sum.

    Where the parties add the noise, a run that continues from a journal opens the same sums again and is charged once.
    Where the curator adds it, a run that began to draw its noise may have shown the release, and draws another one when
    it continues: its releases are then charged again, and the exact sums are not.
    """

    def __init__(self, options: SumOptions, budget: RunBudget, journal: Journal | None) -> None:
        """
        Args:
            options: of the experiment. budget: its budget file.
            journal: of the run, if it has one.
        """
        self._options, self._budget, self._journal = options, budget, journal
        self._charged, self._draws = False, 0
        self._planned: list[Charge] = []
        if journal is not None:
            stored = journal.result(_RUN)
            if stored is None:
                journal.store_result(_RUN, stored := budget.run.hex())
            self._budget = replace(budget, run=bytes.fromhex(stored))
            self._draws = journal.result(_DRAWN) or 0

    def check(self) -> None:
        """Raise BudgetExceededError or BudgetFileError, before anything is trained, if the releases cannot be charged.

        The cost of a release is known exactly when it is planned; here it is what the options ask for.
        """
        options = self._options
        if not options.joint:
            self._budget.check(self._exact())
            return
        laws = dict.fromkeys([options.noise, "discrete-laplace" if options.may_choose_laplace else options.noise])
        refusals = []
        for law in laws:
            try:
                self._budget.check(self._asked(law))
                return
            except BudgetExceededError as refusal:
                refusals.append(refusal)
        raise refusals[0]

    def plan(self, methods: Sequence[Mapping[str, Method]]) -> None:
        """Note the exact cost of the releases that the parties add noise to, or that the curator now draws its noise.

        Args:
            methods: the methods at each epsilon, in the order of the options.
        """
        if self._options.joint:
            self._planned = [
                self._release(name, epsilon, method.event, number)
                for epsilon, at_epsilon in zip(self._options.epsilon, methods, strict=True)
                for name, method in at_epsilon.items()
                if method.event is not None
                for number in range(self._options.drawn)
            ]
        elif self._journal is not None:
            self._journal.store_result(_DRAWN, self._draws + 1)

    def before_sum(self) -> None:
        """Charge all releases, before the first sum. Raises as `RunBudget.charge`."""
        if self._charged:
            return
        charges = self._planned if self._options.joint else self._exact()
        if not charges:
            raise RuntimeError("a sum is taken whose release was not planned")
        self._budget.charge(charges)
        self._charged = True

    def summary(self) -> BudgetSummary:
        """Return what the budget file says now."""
        return self._budget.summary()

    def _release(self, name: str, epsilon: float, event: PrivacyEvent, number: int) -> Charge:
        again = f", continued {self._draws} times" if self._draws else ""
        return self._budget.release(f"{name} at epsilon {epsilon!r}{again}", event, number)

    def _asked(self, law: str) -> list[Charge]:
        """Return the charges of what the options ask for, with noise of a law."""
        options, gaussian = self._options, law == "gaussian"
        charges = []
        for epsilon in options.epsilon:
            multiplier = gaussian_sigma(1.0, epsilon, options.delta) if gaussian and options.joint else None
            delta = stated_delta(options.delta if gaussian else 0.0)
            event = PrivacyEvent("release", epsilon, delta, multiplier, SAMPLER_DISTANCE)
            charges += [
                self._release(name, epsilon, event, number)
                for name in options.offered
                if name != _REHEARSED
                for number in range(options.drawn)
            ]
        return charges

    def _exact(self) -> list[Charge]:
        """Return the charges of a run in which the curator is given exact sums and adds the noise."""
        options, given = self._options, list[tuple[str, str]]()
        if set(options.offered) & set(_COUNTED):
            given.append(("counts of votes", "the curator is given the exact counts of votes (alpha)"))
        if set(options.offered) - set(_COUNTED):
            given.append(("sums", "the curator is given exact sums of what the parties send"))
        return [*(self._budget.opening(f"exact {name}", why) for name, why in given), *self._asked(options.noise)]


def charges_of(options: SumOptions, split: Split, journal: Journal | None, *, repeats: bool) -> SumCharges | None:
    """Return what an experiment is charged; None without a budget file.

    Args:
        options: of the experiment. split: its rows.
        journal: of the run, if it has one.
        repeats: whether a run that continues from the journal opens the same sums again.

    Raises:
        InvalidParameter, BudgetFileError: as `budget_of`.
    """
    unit = "record" if options.protects_records else "party"
    budget = budget_of(options, split, unit, changes_of(options.changed), SYSTEM.draw(16))
    return None if budget is None else SumCharges(options, budget, journal if repeats else None)
