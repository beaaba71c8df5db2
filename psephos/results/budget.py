"""The totals and the limit of a budget file, as part of a result."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from psephos.results.base import Count, Fact, Share

if TYPE_CHECKING:
    from psephos.protocol.privacy.unit import PrivacyUnit
    from psephos.protocol.storage.budget import BudgetFile, BudgetTotal

_Epsilon = Annotated[float, Meta(ge=0)] | None


@dataclass(frozen=True)
class UnitTotal:
    """Cost of all releases in a budget file for one unit of privacy, at `delta`.

    `epsilon` is None where no finite one holds; `private_epsilon` is that of the differentially private ones. `others`
    counts releases that do not protect this unit, and reveal more about it than the total says.
    """

    unit: str
    releases: Count
    epsilon: _Epsilon
    private_epsilon: _Epsilon
    delta: Share
    not_private: Count
    others: Count

    @classmethod
    def of(cls, total: BudgetTotal) -> UnitTotal:
        """Return a total of a budget file, without infinities."""
        private = total.epsilon if math.isfinite(total.epsilon) else None
        epsilon = None if total.not_private else private
        return cls(str(total.unit), total.releases, epsilon, private, total.delta, total.not_private, total.others)

    def __str__(self) -> str:
        private = self.releases - self.not_private
        finite = "no finite epsilon" if self.private_epsilon is None else f"epsilon {self.private_epsilon:.6g}"
        text = f"{finite}, delta {self.delta:.3g}" if private else "epsilon 0"
        if self.not_private:
            text = f"no finite epsilon: {self.not_private} of {self.releases} releases or openings are not private"
            if private:
                text += f"; the other {private} together have {finite}, delta {self.delta:.3g}"
        elif private > 1:
            text += f" ({private} releases)"
        if self.others:
            text += f"; not added up: {self.others} of other units, which reveal more of it"
        return text


@dataclass(frozen=True)
class BudgetSummary:
    """Totals of a budget file, that of the run's unit first, and the most epsilon of all charged releases together."""

    totals: list[UnitTotal]
    limit: _Epsilon = None
    limit_delta: Share | None = None


def summarise(file: BudgetFile, first: PrivacyUnit | None = None) -> BudgetSummary:
    """Return the totals and the limit of a budget file, with the total of the unit `first` at the beginning."""
    limit = file.limit
    numbers = (None, None) if limit is None else (limit.epsilon, limit.delta)
    return BudgetSummary([UnitTotal.of(total) for total in file.totals(first)], *numbers)


def budget_text(budget: BudgetSummary) -> str:
    """Describe the first total, which is that of the run's unit, and the limit."""
    first = budget.totals[0]
    limit = "" if budget.limit is None else f"; the limit of the file is epsilon {budget.limit:g}"
    return f"with all that the budget file has of these rows, per {first.unit}: {first}{limit}"


def budget_facts(budget: BudgetSummary | None) -> list[Fact]:
    """Return the fact about the budget file of a run; an empty list if the run had none."""
    return [] if budget is None else [Fact("condition", "Budget", budget_text(budget))]
