"""The ceremony without a dealer, broken in one line."""

from __future__ import annotations

import psephos.protocol.paillier.sharing
from psephos.parties.ceremony_checks import PublicChecks
from psephos.protocol.ceremony.search import Batch
from tests.security.lab.edits import Mutant

__all__ = ["MUTANTS"]

_SIMULATED = "simulation, t - 1 holders"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "a sieve residue used again as its own mask",
        "ceremony",
        Batch,
        "_difference_masks",
        'self._residues("c")',
        'self._residues("a")',
        "residues, t - 1 holders",
        views=12,  # of more than fifty pairs each
    ),
    Mutant(
        "pieces of p and q that are too short",
        "ceremony",
        Batch,
        "_pieces",
        "$tops >> (32 - $terms.top_bits)",
        "$tops >> 31",
        _SIMULATED,
    ),
    Mutant(
        "the form opened without its mask",
        "ceremony",
        Batch,
        "form_multiples",
        '$draw($subset, f"mask {$time}")',
        "mpz($subset == 0)",
        _SIMULATED,
    ),
    Mutant(
        "theta is phi",
        "ceremony",
        Batch,
        "exponent_share",
        '$draw($subset, "beta", $bits)',
        "mpz($subset == 0)",
        _SIMULATED,
    ),
    Mutant(
        "a beta that is too short for the degree",
        "ceremony",
        Batch,
        "exponent_share",
        "$terms.degree * $terms.bits + STATISTICAL_BITS",
        "$terms.bits",
        _SIMULATED,
    ),
    Mutant(
        "shares of the exponent with coefficients that everybody knows",
        "ceremony",
        psephos.protocol.paillier.sharing,
        "integer_polynomial",
        "$randomness.below($width)",
        "$width - 1",
        _SIMULATED,
    ),
    Mutant(
        "rejected candidates that nobody checks",
        "ceremony",
        PublicChecks,
        "_check_rejected_batch",
        "not self._looks_right(...)",
        "False",
        "rejected candidates opened, t - 1 holders",
    ),
)
