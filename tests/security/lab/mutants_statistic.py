"""The statistics of votes and of own data, broken in one line; both laws of the joint noise, and the curator's."""

from __future__ import annotations

import psephos.parties.noise
import psephos.parties.statistic
import psephos.protocol.encrypted_sum.directions
import psephos.protocol.encrypted_sum.record_grid
from psephos.audit.mutants import SEEDED, Mutant, again
from tests.security.lab.mutants_tally import MUTANTS as TALLY

__all__ = ["MUTANTS"]


MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "no noise",
        "statistic",
        psephos.parties.statistic,
        "with_share",
        "[$value + $noise for $value, $noise in $pairs]",
        "[$value for $value, $noise in $pairs]",
        "simulation, curator",
        views=110,
    ),
    Mutant(
        "noise that everybody knows",
        "statistic",
        psephos.parties.statistic,
        "with_share",
        "$shares.share($randomness)",
        f"$shares.share({SEEDED})",
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
        "_draw",
        "$jump if $entry % 2 else -$jump",
        "$jump",
        "noise law",
    ),
    Mutant(
        "shares clipped short",
        "statistic",
        psephos.parties.noise.PolyaShares,
        "_draw",
        "self.bound",
        "20",
        "noise law",
    ),
    Mutant(
        "one's own share counted on",
        "statistic",
        psephos.parties.noise,
        "contributors",
        "$parties - $colluders - $dropouts - 1",
        "$parties - $colluders - $dropouts",
        "noise law",
    ),
    Mutant(
        "noise sized for all parties, colluders included",
        "statistic-gaussian",
        psephos.parties.noise.DiscreteGaussianShares,
        "_draw",
        "$variance / self.contributors",
        "$variance / self.parties",
        "noise law",
    ),
    Mutant(
        "noise of one sign",
        "statistic-gaussian",
        psephos.parties.noise.DiscreteGaussianShares,
        "_draw",
        "discrete_gaussian($variance, $randomness)",
        "abs(discrete_gaussian($variance, $randomness))",
        "noise law",
    ),
    Mutant(
        "shares clipped short",
        "statistic-gaussian",
        psephos.parties.noise.DiscreteGaussianShares,
        "_draw",
        "self.bound",
        "20",
        "noise law",
    ),
    Mutant(
        "many rows weigh more than few",
        "own-data",
        psephos.protocol.encrypted_sum.directions.DirectionGrid,
        "direction",
        "$sum / $norm if $norm > 0 else $sum",
        "$sum / 1000",
        "same direction, curator",
    ),
    Mutant(
        "a person with many rows weighs more than one with few",
        "record",
        psephos.protocol.encrypted_sum.record_grid.RecordGrid,
        "contribution",
        "_divided($sum, int($own.sum()))",
        "$sum",
        "same direction, curator",
    ),
    Mutant(
        "the ridge of a sum, not of a mean",
        "whitened",
        psephos.parties.statistic,
        "_classifier",
        "train_whitened($rows, $...rest, transform=$transform)",
        "train_whitened($rows, $...rest, transform=$transform, lam=0.01 / len($rows))",
        "same direction, curator",
    ),
)

_NOISE = ("no noise", "noise that everybody knows", "one's own share counted on")
MUTANTS += again(MUTANTS, "statistic-gaussian", *_NOISE)
MUTANTS += again([m for m in MUTANTS if m.protocol == "statistic-gaussian"], "own-data", *(m.name for m in MUTANTS))
MUTANTS += again([m for m in MUTANTS if m.protocol == "statistic-gaussian"], "record", *(m.name for m in MUTANTS))
MUTANTS += again([m for m in MUTANTS if m.protocol == "own-data"], "own-data-exact", "many rows weigh more than few")
MUTANTS += again(
    TALLY,
    "own-data-exact",
    "ballots without randomness",
    "the same coins in every round",
    "threshold off by one",
    "a second product of a round opened",
    "the minimum of ballots ignored",
)
