"""Every broken protocol.

Each mutant is one line from the real protocol (`tests.security.lab.edits`), and the analysis must catch it; what the
analysis cannot see at all is `psephos.audit.run.NOT_EXAMINED`.
"""

from __future__ import annotations

from tests.security.lab import (
    mutants_ceremony,
    mutants_liars,
    mutants_pathak,
    mutants_psgd,
    mutants_statistic,
    mutants_tally,
)
from tests.security.lab.edits import Mutant

__all__ = ["MUTANTS"]

MUTANTS: tuple[Mutant, ...] = (
    *mutants_ceremony.MUTANTS,
    *mutants_tally.MUTANTS,
    *mutants_liars.MUTANTS,
    *mutants_statistic.MUTANTS,
    *mutants_pathak.MUTANTS,
    *mutants_psgd.MUTANTS,
)

# Two changes leak nothing, so no check can catch them. Leaving out `asked - seen` or `seen - asked` in
# KeyHolder.partially_decrypt: the product's digest is compared as well. A fixed pi_2 where all pairs are compared:
# every party is asked once and no message to a party depends on an order.
