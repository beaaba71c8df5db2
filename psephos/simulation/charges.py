"""What an experiment around encrypted sums is charged in the budget file of its rows (`--budget`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from psephos.budget import RunBudget, budget_of
from psephos.curator.methods import Method
from psephos.data.splits import Split
from psephos.protocol.encrypted_sum.opened import OpenedSum
from psephos.protocol.errors import BudgetExceededError
from psephos.protocol.privacy.accounting import PrivacyEvent, stated_delta
from psephos.protocol.privacy.mechanisms import SAMPLER_DISTANCE, gaussian_sigma
from psephos.protocol.randomness import SYSTEM
from psephos.protocol.storage.budget import Charge
from psephos.protocol.storage.values import encode
from psephos.results.budget import BudgetSummary
from psephos.simulation.journal import Journal
from psephos.simulation.options import COUNTED, LABELLED_METHODS, SumOptions

_RUN = "budget run"
"""What a journal stores: the identifier of the run."""


class SumCharges:
    """Charges the releases of one experiment, before anything of them leaves.

    Where the parties add the noise, a run that continues from a journal opens the same sums again: it is charged once,
    before the first sum, and releases one result of each sum, whichever copy of the journal finishes first. Where the
    curator adds it, the exact sums are charged once, and the releases each time when the noise is drawn.
    """

    def __init__(self, options: SumOptions, split: Split, journal: Journal | None = None) -> None:
        self._options, self._charged = options, False
        self._budget = budget_of(options, split, "record" if options.protects_records else "party")
        self._planned: list[Charge] = []
        if journal is not None:
            stored = journal.result(_RUN)
            if stored is None:
                journal.store_result(_RUN, stored := self._budget.run.hex())
            self._budget = replace(self._budget, run=bytes.fromhex(stored))

    def check(self) -> None:
        """Raise BudgetExceededError or BudgetFileError, before anything is trained, if the releases cannot be charged.

        The cost of a release is known exactly when it is planned; here it is what the options ask for.
        """
        options = self._options
        if not options.joint:
            self._budget.check([*self._exact_charges(), *self._requested_charges(options.noise)])
            return
        refusals = []
        for law in dict.fromkeys([options.noise, "discrete-laplace" if options.may_choose_laplace else options.noise]):
            try:
                self._budget.check(self._requested_charges(law))
                return
            except BudgetExceededError as refusal:
                refusals.append(refusal)
        raise refusals[0]

    def plan(self, methods: Sequence[Mapping[str, Method]]) -> None:
        """Charge the releases whose noise the curator draws; of the others, record the exact cost for `before_sum`.

        Raises as `RunBudget.charge`.
        """
        # The curator of a continued run draws other noise, and somebody may have seen its first release.
        budget = self._budget if self._options.joint else replace(self._budget, run=SYSTEM.draw(16))
        releases = [
            _release(budget, name, epsilon, method.event, number)
            for epsilon, at_epsilon in zip(self._options.epsilon, methods, strict=True)
            for name, method in at_epsilon.items()
            if method.event is not None
            for number in range(self._options.drawn)
        ]
        if self._options.joint:
            self._planned = releases
        else:
            budget.charge(releases)

    def before_sum(self) -> None:
        """Charge all that the sums cost, before the first one. Raises as `RunBudget.charge`."""
        if self._charged:
            return
        charges = self._planned if self._options.joint else self._exact_charges()
        if not charges:
            raise RuntimeError("a sum is taken whose release was not planned")
        self._budget.charge(charges)
        self._charged = True

    def after_sum(self, name: str, opened: OpenedSum) -> None:
        """Record the noisy sum that was paid for, before anything of it leaves. Raises as `RunBudget.release_once`."""
        if self._options.joint:
            self._budget.release_once(name, encode((opened.sums, opened.parties)))

    def summary(self) -> BudgetSummary | None:
        return self._budget.summary()

    def _requested_charges(self, law: str) -> list[Charge]:
        """Return the charges of all releases that the options ask for, with noise of the law `law`.

        A method that may ask no party is left out: whether it does is known only when it is planned.
        """
        options, gaussian = self._options, law == "gaussian"
        charges = []
        for epsilon in options.epsilon:
            multiplier = gaussian_sigma(1.0, epsilon, options.delta) if gaussian and options.joint else None
            delta = stated_delta(options.delta if gaussian else 0.0)
            event = PrivacyEvent("release", epsilon, delta, multiplier, SAMPLER_DISTANCE)
            charges += [
                _release(self._budget, name, epsilon, event, number)
                for name in options.offered
                if name not in LABELLED_METHODS
                for number in range(options.drawn)
            ]
        return charges

    def _exact_charges(self) -> list[Charge]:
        offered, openings = set(self._options.offered), list[tuple[str, str]]()
        if offered & set(COUNTED):
            openings.append(("counts of votes", "the curator is given the exact counts of votes (alpha)"))
        if offered - set(COUNTED):
            openings.append(("sums", "the curator is given exact sums of what the parties send"))
        return [self._budget.opening(f"exact {name}", why) for name, why in openings]


def _release(budget: RunBudget, name: str, epsilon: float, event: PrivacyEvent, number: int) -> Charge:
    return budget.release(f"{name} at epsilon {epsilon!r}", event, number)
