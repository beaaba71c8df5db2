"""Rajkumar's gradient descent, broken in one line; both kinds of noise."""

from __future__ import annotations

import psephos.curator.psgd.agreement
import psephos.parties.psgd
import psephos.protocol.psgd.state
from tests.security.lab.edits import SEEDED, Mutant, for_protocol

__all__ = ["MUTANTS"]


MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "no rho",
        "psgd",
        psephos.parties.psgd.GradientParty,
        "vector",
        "[$u + $e + $r for $u, $e, $r in $entries]",
        "[$u + $e for $u, $e, $r in $entries]",
        "simulation, curator",
        views=90,
    ),
    Mutant(
        "no eta",
        "psgd",
        psephos.parties.psgd.GradientParty,
        "vector",
        "[$u + $e + $r for $u, $e, $r in $entries]",
        "[$u + $r for $u, $e, $r in $entries]",
        "noise law",
    ),
    Mutant(
        "rho that everybody knows",
        "psgd",
        psephos.parties.psgd.GradientParty,
        "vector",
        "step_share($series, $step, self._noise($step))",
        f"step_share($series, $step, {SEEDED})",
        "simulation, curator",
    ),
    Mutant(
        "a step answered again with fresh noise",
        "psgd",
        psephos.parties.psgd.GradientParty,
        "_ballot",
        "self._once.do_once($claim, $round.digest, $make)",
        "$make()",
        "steps answered once",
    ),
    Mutant(
        "a step answered before its turn",
        "psgd",
        psephos.protocol.psgd.state.DescentState,
        "announced",
        "self.open or $announcement.step != self.steps + 1",
        "self.open or $announcement.step <= self.steps",
        "steps answered once",
    ),
    Mutant(
        "a step answered whoever announces it",
        "psgd",
        psephos.protocol.psgd.state.DescentState,
        "announced",
        '$entry.sender != "curator"',
        "not $entry.sender",
        "steps answered once",
    ),
    Mutant(
        "a step answered at a point of the curator's choice",
        "psgd",
        psephos.protocol.psgd.state.DescentState,
        "announced",
        "$announcement.point != self.point",
        "len($announcement.point) != len(self.point)",
        "steps answered once",
    ),
    Mutant(
        "one holder's word for a sum",
        "psgd",
        psephos.protocol.psgd.state.DescentState,
        "published",
        "$equal < $terms.threshold_key.threshold",
        "$equal < 1",
        "steps answered once",
    ),
    Mutant(
        "two products opened in one step",
        "psgd",
        psephos.parties.psgd.SeriesHolder,
        "_holder",
        "KeyHolder($...rest, openings=$store)",
        "KeyHolder($...rest, openings=None)",
        "steps answered once",
    ),
    Mutant(
        "two rounds opened in one step",
        "psgd",
        psephos.parties.psgd.SeriesHolder,
        "receive_announcement",
        "self._once.do_once($claim, $digest, $make)",
        'self._once.do_once($claim, b"", $make)',
        "steps answered once",
    ),
    Mutant(
        "eta sized for all parties, colluders included",
        "psgd",
        psephos.curator.psgd.agreement._NoisePlanner,
        "fixed_noise",
        "$sigma / math.sqrt(self.honest)",
        "$sigma / math.sqrt(len(self.sizes))",
        "noise law",
    ),
    Mutant(
        "noise sized for all parties, the colluder included",
        "psgd-gaussian",
        psephos.curator.psgd.agreement._NoisePlanner,
        "_gaussian",
        "$sum / self.honest",
        "$sum / len(self.sizes)",
        "noise law",
    ),
    Mutant(
        "noise for one step in each of many",
        "psgd-gaussian",
        psephos.curator.psgd.agreement._NoisePlanner,
        "_gaussian",
        "discrete_gaussian_variance($...law, $steps)",
        "discrete_gaussian_variance($...law, 1)",
        "noise law",
    ),
)

MUTANTS += for_protocol(
    MUTANTS,
    "psgd-gaussian",
    "no rho",
    "rho that everybody knows",
    "a step answered again with fresh noise",
    "a step answered before its turn",
    "a step answered whoever announces it",
    "a step answered at a point of the curator's choice",
    "one holder's word for a sum",
    "two products opened in one step",
    "two rounds opened in one step",
)
