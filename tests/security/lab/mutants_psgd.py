"""Rajkumar's gradient descent, broken in one line; both kinds of noise."""

from __future__ import annotations

import psephos.curator.psgd.curator
import psephos.parties.psgd
from tests.security.lab.editing import SEEDED, Mutant, again

__all__ = ["MUTANTS"]


MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "no rho",
        "psgd",
        psephos.parties.psgd.GradientParty,
        "vector",
        "[u + e + r for",
        "[u + e for",
        "simulation, curator",
        views=90,
    ),
    Mutant("no eta", "psgd", psephos.parties.psgd.GradientParty, "vector", "[u + e + r for", "[u + r for", "noise law"),
    Mutant(
        "rho that everybody knows",
        "psgd",
        psephos.parties.psgd.GradientParty,
        "vector",
        "step_share(self.series, step, self._randomness)",
        f"step_share(self.series, step, {SEEDED})",
        "simulation, curator",
    ),
    Mutant(
        "a step answered again with fresh noise",
        "psgd",
        psephos.parties.psgd.GradientParty,
        "answer",
        "if announcement.step <= self._step:",
        "if announcement.step < self._step:",
        "steps answered once",
    ),
    Mutant(
        "two products opened in one step",
        "psgd",
        psephos.parties.psgd._SameProduct,
        "claim",
        "self._record.first(digest, product) == product",
        "bool(self._record.first(digest, product))",
        "steps answered once",
    ),
    Mutant(
        "eta sized for all parties, colluders included",
        "psgd",
        psephos.curator.psgd.curator,
        "agree",
        "sigma / math.sqrt(honest)",
        "sigma / math.sqrt(parties)",
        "noise law",
    ),
    Mutant(
        "noise sized for all parties, the colluder included",
        "psgd-gaussian",
        psephos.curator.psgd.curator,
        "agree",
        "l1, l2, steps) / honest",
        "l1, l2, steps) / parties",
        "noise law",
    ),
    Mutant(
        "noise for one step in each of many",
        "psgd-gaussian",
        psephos.curator.psgd.curator,
        "agree",
        "l1, l2, steps) / honest",
        "l1, l2, 1) / honest",
        "noise law",
    ),
)

MUTANTS += again(
    MUTANTS,
    "psgd-gaussian",
    "no rho",
    "rho that everybody knows",
    "a step answered again with fresh noise",
    "two products opened in one step",
)
