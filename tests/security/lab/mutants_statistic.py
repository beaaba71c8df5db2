"""The statistic with joint noise, broken in one line; both laws of the noise."""

from __future__ import annotations

import psephos.parties.noise
import psephos.parties.statistic
from tests.security.lab.editing import SEEDED, Mutant, again

__all__ = ["MUTANTS"]


MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "no noise",
        "statistic",
        psephos.parties.statistic,
        "with_share",
        "[value + noise for",
        "[value for",
        "simulation, curator",
        views=110,
    ),
    Mutant(
        "noise that everybody knows",
        "statistic",
        psephos.parties.statistic,
        "with_share",
        "shares.share(randomness)",
        f"shares.share({SEEDED})",
        "shares differ",
    ),
    Mutant(
        "noise sized for all parties, colluders included",
        "statistic",
        psephos.parties.noise.PolyaShares,
        "_jumps",
        "self.contributors",
        "self.parties",
        "noise law",
    ),
    Mutant(
        "noise of one sign",
        "statistic",
        psephos.parties.noise.PolyaShares,
        "share",
        "jump if entry % 2 else -jump",
        "jump",
        "noise law",
    ),
    Mutant(
        "shares clipped short",
        "statistic",
        psephos.parties.noise.PolyaShares,
        "share",
        "bound = self.bound",
        "bound = 20",
        "noise law",
    ),
    Mutant(
        "one's own share counted on",
        "statistic",
        psephos.parties.noise,
        "contributors",
        "left = parties - colluders - dropouts - 1",
        "left = parties - colluders - dropouts",
        "noise law",
    ),
    Mutant(
        "noise sized for all parties, colluders included",
        "statistic-gaussian",
        psephos.parties.noise.SkellamShares,
        "share",
        "(2 * self.contributors)",
        "(2 * self.parties)",
        "noise law",
    ),
    Mutant(
        "noise of one sign",
        "statistic-gaussian",
        psephos.parties.noise.SkellamShares,
        "share",
        "poisson(mean, randomness) - poisson(mean, randomness)",
        "poisson(mean, randomness)",
        "noise law",
    ),
    Mutant(
        "shares clipped short",
        "statistic-gaussian",
        psephos.parties.noise.SkellamShares,
        "share",
        "bound = self.bound",
        "bound = 20",
        "noise law",
    ),
)

MUTANTS += again(MUTANTS, "statistic-gaussian", "no noise", "noise that everybody knows", "one's own share counted on")
