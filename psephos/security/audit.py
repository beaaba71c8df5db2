"""Everything in one call: `psephos audit`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from psephos.protocol.errors import InvalidParameter
from psephos.security.case_pathak import PATHAK
from psephos.security.case_psgd import PSGD, PSGD_GAUSSIAN
from psephos.security.case_statistic import STATISTIC, STATISTIC_GAUSSIAN
from psephos.security.case_tally import TALLY
from psephos.security.compare import detectable_accuracy
from psephos.security.model import Case, Context, Result, judge
from psephos.security.mutants import MUTANTS, caught_by

__all__ = ["CASES", "PROTOCOLS", "as_expected", "audit"]

_ALL = (TALLY, STATISTIC, STATISTIC_GAUSSIAN, *PATHAK, PSGD, PSGD_GAUSSIAN)
CASES: dict[str, Case] = {case.name: case for case in _ALL}
"""Every audited protocol by its name."""
PROTOCOLS = tuple(CASES)
"""Their names, as `psephos audit` takes them."""

VIEWS, THOROUGH_VIEWS = 80, 400
"""Views per side of a two-sample test."""

RATE = 1e-4
"""False-alarm rate of each statistical check."""

Progress = Callable[[str, int, int], object]
"""(what, checks done, checks in all)."""


def audit(
    protocol: str | None = None,
    thorough: bool = False,
    progress: Progress = lambda what, done, total: None,
    *,
    seed: int | None = None,
    mutants: bool = True,
    views: int | None = None,
) -> dict[str, Any]:
    """Who learned what: every check of one protocol or of all, and every mutant.

    Args:
        protocol: one of `PROTOCOLS`; all by default.
        thorough: more views per test, so smaller leaks are noticed; `power` in the result says how small.
        progress: called before each check and mutant.
        seed: makes the run repeatable; fresh coins by default.
        mutants: break the protocols as well, and see who notices.
        views: per side of a two-sample test; by default 80, thorough 400.

    Returns a JSON object:
        protocols: a list; of each its name, coalitions (name, members, cells: secret -> verdict, expected, evidence)
        and
            mutants (name, change, caught, by, evidence).
        as_expected: whether every verdict is the expected one and every mutant was caught.
        false_alarm_rate: bound of the chance that a sound protocol fails any check of this run.
        power: the classifier accuracy that the two-sample tests notice with probability 0.99 (0.5 is guessing).
        seconds, seed, views.

    Raises InvalidParameter for an unknown protocol.
    """
    if protocol is not None and protocol not in CASES:
        raise InvalidParameter(f"the protocol is one of {', '.join(PROTOCOLS)}, not {protocol!r}")
    begun = time.perf_counter()
    if views is None:
        views = THOROUGH_VIEWS if thorough else VIEWS
    context = Context(seed=seed, views=views, rate=RATE)
    chosen = [CASES[name] for name in (PROTOCOLS if protocol is None else (protocol,))]
    broken = [m for m in MUTANTS if mutants and any(m.protocol == case.name for case in chosen)]
    total = sum(len(case.checks) for case in chosen) + len(broken)
    done = 0
    protocols: list[dict[str, Any]] = []
    for case in chosen:
        results: dict[str, Result] = {}
        for check in case.checks:
            progress(f"{case.name}: {check.name}", done, total)
            results[check.name] = check.run(context)
            done += 1
        matrix = judge(case, results)
        told = []
        for mutant in broken:
            if mutant.protocol == case.name:
                progress(f"{case.name}: mutant, {mutant.name}", done, total)
                by, result = caught_by(mutant, case, context)
                done += 1
                told.append(
                    {
                        "name": mutant.name,
                        "change": mutant.change,
                        "caught": by is not None,
                        "by": by,
                        "evidence": result.evidence,
                    }
                )
        protocols.append(
            {
                "name": case.name,
                "coalitions": [
                    {
                        "name": coalition.name,
                        "members": list(coalition.members),
                        "cells": {
                            secret: {"verdict": cell.verdict, "expected": cell.expected, "evidence": cell.evidence}
                            for secret, cell in matrix[coalition.name].items()
                        },
                    }
                    for coalition in case.coalitions
                ],
                "mutants": told,
            }
        )
    statistical = sum(check.statistical for case in chosen for check in case.checks)
    return {
        "protocols": protocols,
        "as_expected": as_expected(protocols),
        "false_alarm_rate": statistical * RATE,
        "power": round(detectable_accuracy(views, rate=RATE), 3),
        "views": views,
        "seed": context.seed,
        "seconds": round(time.perf_counter() - begun, 1),
    }


def as_expected(protocols: list[dict[str, Any]]) -> bool:
    """Whether every verdict is the expected one and every mutant was caught: the exit status."""
    cells = [cell for p in protocols for c in p["coalitions"] for cell in c["cells"].values()]
    mutants = [mutant for p in protocols for mutant in p["mutants"]]
    return all(cell["verdict"] == cell["expected"] for cell in cells) and all(mutant["caught"] for mutant in mutants)
