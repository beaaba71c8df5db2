"""The statistics of votes and of own data, broken in one line; both laws of the joint noise, and the curator's."""

from __future__ import annotations

import psephos.curator.evaluation
import psephos.curator.rehearsed
import psephos.curator.statistic
import psephos.parties.noise
import psephos.parties.statistic
import psephos.protocol.grids.directions
import psephos.protocol.grids.error_evaluation
import psephos.protocol.grids.evaluation
import psephos.protocol.grids.local_step
import psephos.protocol.grids.record
from psephos.specs.evaluation import EvaluationSpec
from psephos.specs.record import RecordSpec
from psephos.specs.rehearsed import RehearsedSpec
from psephos.specs.statistic import StatisticSpec
from tests.security.lab.edits import SEEDED, Mutant, for_protocol
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
        "half a share",
        "statistic",
        psephos.parties.statistic,
        "with_share",
        "[$value + $noise for $value, $noise in $pairs]",
        "[$value + $noise // 2 for $value, $noise in $pairs]",
        "noise law",
    ),
    Mutant(
        "noise of half the scale",
        "statistic",
        psephos.parties.noise.PolyaShares,
        "_log_miss",
        "rational(-1 / self.scale_units)",
        "rational(-2 / self.scale_units)",
        "noise law",
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
        "noise of half the scale",
        "statistic-gaussian",
        psephos.parties.noise.DiscreteGaussianShares,
        "_draw",
        "$variance / self.contributors",
        "$variance / self.contributors / 4",
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
        psephos.protocol.grids.directions.DirectionGrid,
        "direction",
        "$sum / $norm if $norm > 0 else $sum",
        "$sum / 1000",
        "same direction, curator",
    ),
    Mutant(
        "a person with many rows weighs more than one with few",
        "record",
        psephos.protocol.grids.record.RecordGrid,
        "contribution",
        "divided($sum, len($rows[$own]) << $bits)",
        "$sum >> $bits",
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
    Mutant(
        "many rows weigh more than few",
        "rehearsed",
        psephos.protocol.grids.local_step,
        "local_steps",
        "np.asarray(np.matmul($residual, $rows) / $rows.shape[1])",
        "np.asarray(np.matmul($residual, $rows) / 10)",
        "same direction, curator",
    ),
    Mutant(
        "a person with many rows weighs more than one with few",
        "evaluation",
        psephos.protocol.grids.evaluation.ScoreGrid,
        "contribution",
        "$summed if $owners is None else $summed // len($places)",
        "$summed",
        "same direction, curator",
    ),
    Mutant(
        "a person with many rows weighs more than one with few",
        "evaluation-errors",
        psephos.protocol.grids.error_evaluation.ErrorGrid,
        "contribution",
        "$summed if $owners is None else $averaged",
        "$summed",
        "same direction, curator",
    ),
    Mutant(
        "noise for half of the sensitivity",
        "own-data",
        psephos.curator.statistic,
        "grid_sensitivity",
        "2.0 * $grid.maximum",
        "1.0 * $grid.maximum",
        "planned noise",
    ),
    Mutant(
        "noise for half of the sensitivity",
        "rehearsed",
        psephos.curator.rehearsed,
        "_mechanism",
        "rounded_up(2.0 * $limit)",
        "rounded_up(1.0 * $limit)",
        "planned noise",
    ),
    Mutant(
        "noise for half of the sensitivity",
        "evaluation",
        psephos.curator.evaluation,
        "evaluation_sensitivity",
        "2 * ROW",
        "ROW",
        "planned noise",
    ),
    Mutant(
        "noise for half of the sensitivity",
        "evaluation-errors",
        psephos.curator.evaluation,
        "evaluation_sensitivity",
        "ERROR_ROW",
        "ERROR_ROW / 2",
        "planned noise",
    ),
)

MUTANTS += tuple(
    Mutant(
        "no colluders counted on",
        protocol,
        spec,
        "from_plan",
        "shares_of($plan, colluders=$colluders, dropouts=$dropouts)",
        "shares_of($plan, colluders=0, dropouts=$dropouts)",
        "noise law",
    )
    for protocol, spec in (
        ("statistic", StatisticSpec),
        ("record", RecordSpec),
        ("rehearsed", RehearsedSpec),
        ("evaluation", EvaluationSpec),
    )
)
MUTANTS += for_protocol(
    MUTANTS,
    "statistic-gaussian",
    "no noise",
    "half a share",
    "noise that everybody knows",
    "one's own share counted on",
)
_LAPLACE, _GAUSSIAN = (
    tuple(m for m in MUTANTS if m.protocol == name and m.name != "no colluders counted on")
    for name in ("statistic", "statistic-gaussian")
)
for _protocol in ("rehearsed", "evaluation", "evaluation-errors"):
    MUTANTS += for_protocol(_LAPLACE, _protocol, *(m.name for m in _LAPLACE))
for _protocol in ("own-data", "record", "rehearsed-gaussian"):
    MUTANTS += for_protocol(_GAUSSIAN, _protocol, *(m.name for m in _GAUSSIAN))
MUTANTS += for_protocol(
    [m for m in MUTANTS if m.protocol == "rehearsed"],
    "rehearsed-gaussian",
    "many rows weigh more than few",
    "noise for half of the sensitivity",
)
MUTANTS += for_protocol(
    [m for m in MUTANTS if m.protocol == "own-data"], "own-data-exact", "many rows weigh more than few"
)
MUTANTS += for_protocol(
    TALLY,
    "own-data-exact",
    "ballots without randomness",
    "the same coins in every round",
    "threshold off by one",
    "a second product of a round opened",
    "the minimum of ballots ignored",
)
