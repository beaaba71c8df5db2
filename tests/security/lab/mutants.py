"""Every broken protocol, and the breaks that are no leaks.

Each mutant is one line from the real protocol (`psephos.audit.mutants`), and the analysis must catch it; what the
analysis cannot see at all is `psephos.audit.run.NOT_EXAMINED`.
"""

from __future__ import annotations

from psephos.audit.mutants import Mutant
from tests.security.lab import (
    mutants_ceremony,
    mutants_liars,
    mutants_pathak,
    mutants_psgd,
    mutants_statistic,
    mutants_tally,
)

__all__ = ["EQUIVALENT", "MUTANTS"]

MUTANTS: tuple[Mutant, ...] = (
    *mutants_ceremony.MUTANTS,
    *mutants_tally.MUTANTS,
    *mutants_liars.MUTANTS,
    *mutants_statistic.MUTANTS,
    *mutants_pathak.MUTANTS,
    *mutants_psgd.MUTANTS,
)

EQUIVALENT: dict[str, str] = {
    "the holder's check of the ballots it was asked for, alone": (
        "leaving out `asked - seen` or `seen - asked` in KeyHolder.partially_decrypt changes nothing that can be "
        "opened, since the product's digest is compared as well"
    ),
    "pi_2 fixed, where all pairs are compared": (
        "every party is asked once and no message to a party depends on an order, so pi_2 protects nothing there; in a "
        "tournament the second turn does, and the mutant is caught"
    ),
}
"""Changed lines that leak nothing, and why: no check can catch them."""
