"""What a study is charged in the budget file of a member's rows (`psephos join --budget FILE`)."""

from __future__ import annotations

from pathlib import Path

from psephos.budget import open_budget, table_digest
from psephos.protocol.errors import BudgetFileError, InvalidParameter
from psephos.protocol.signing import VerificationKey
from psephos.protocol.storage.budget import BudgetFile, Charge
from psephos.protocol.study.study import Study
from psephos.results.budget import budget_text, summarise
from psephos.specs.registry import SPECS, protected_by
from psephos.study.identity import Identity, event_of_study

__all__ = ["charge_budget", "check_budget", "join_budget", "total_text"]

_OPENED = {
    "tally": "the curator is given the exact counts of votes (alpha)",
    "average": "the curator is given the exact sum of what the parties send",
}
"""What no epsilon covers in the protocols whose curator adds the noise."""


def _charges(study: Study, key: VerificationKey) -> list[Charge]:
    """Return what a study costs the party with this key. It is charged once, however often the party's role is made.

    Rows that two parties of a study have are in two vectors of its sum, and charged twice.
    """
    claim = study.digest + key.raw
    unit = protected_by(study)
    charges = [Charge(claim, f"study {study.title}", unit, event_of_study(study))]
    if not SPECS[study.protocol].joint:
        charges.append(Charge(claim + b"opened", f"study {study.title}", unit, None, _OPENED[study.protocol]))
    return charges


def _rows(data: str | None) -> bytes | None:
    """Return the digest of a party's rows; None for a classifier of its own, whose rows are not known."""
    return table_digest(Path(data)) if data else None


def join_budget(
    study: Study, key: VerificationKey, budget: str | None, data: str | None, limit: str | None = None
) -> None:
    """Open or create the budget file of a member that is about to sign, and check that the study fits.

    Args:
        study: the study. key: of the member.
        budget: the budget file. data: the file of the member's rows, if it has one.
        limit: of a new file, as `--budget-limit` has it.

    Raises:
        InvalidParameter: the member is no party, there is no file, or the limit is none or not that of the file.
        BudgetExceededError, BudgetFileError: as `check_budget`.
    """
    if budget is None:
        raise InvalidParameter("--budget-limit is the limit of a budget file: name it with --budget FILE")
    if not any(role.startswith("party") for role in study.roles_of(key)):
        raise InvalidParameter("--budget is for a party, which has rows: leave it out")
    with open_budget(budget, limit):
        pass
    check_budget(study, key, budget, data)


def check_budget(study: Study, key: VerificationKey, budget: str, data: str | None) -> None:
    """Raise BudgetExceededError or BudgetFileError if the study cannot be charged; charge nothing."""
    charges = _charges(study, key)
    with BudgetFile(budget, create=False) as file:
        if not file.is_charged(charges):
            file.check(_rows(data), charges)


def total_text(study: Study, identity: Identity, budget: str) -> str:
    """Describe what all releases from a member's rows have cost, as far as it knows, for its card.

    Args:
        study: the study. identity: of the member.
        budget: the budget file of its rows, if it has one.
    """
    if not any(role.startswith("party") for role in study.roles_of(identity.card.key)):
        return "this release alone; the card of each party has the total of its rows"
    spent = f"epsilon {identity.spent():.6g}, delta 1e-05, whatever each of them protects"
    studies = f"all studies of {identity.card.name} by their epsilons: {spent}"
    if not budget:
        return f"{studies}; other releases from the same rows add to it"
    try:
        with BudgetFile(budget, create=False) as file:
            return f"{budget_text(summarise(file, protected_by(study)))}; {studies}"
    except BudgetFileError:  # the release is valid without it
        return f"not known, because the budget file cannot be used; {studies}"


def charge_budget(study: Study, key: VerificationKey, budget: str, data: str | None) -> None:
    """Charge a study, before its party sends anything that costs. Raises as `check_budget`."""
    charges = _charges(study, key)
    with BudgetFile(budget, create=False) as file:
        if not file.is_charged(charges):
            file.charge(_rows(data), charges)
