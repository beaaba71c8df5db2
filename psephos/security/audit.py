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

__all__ = ["CASES", "PROTOCOLS", "UNSEEN", "as_expected", "audit"]

_ALL = (TALLY, STATISTIC, STATISTIC_GAUSSIAN, *PATHAK, PSGD, PSGD_GAUSSIAN)
CASES: dict[str, Case] = {case.name: case for case in _ALL}
"""Every audited protocol by its name."""
PROTOCOLS = tuple(CASES)
"""Their names, as `psephos audit` takes them."""

VIEWS, THOROUGH_VIEWS = 80, 400
"""Views per side of a two-sample test."""

RATE = 1e-4
"""False-alarm rate of each statistical check."""

UNSEEN: dict[str, str] = {
    "`short` exponents where `half` was agreed": (
        "no test distinguishes an exponent of 256 bits from one of 1536 under the assumptions; the mode is part of "
        "what a party chooses for itself and costs nobody else anything"
    ),
    "an operating system that hands out predictable bytes": (
        "a pseudo-random stream under an unknown seed passes every test; the analysis checks that coins are used once "
        "and freshly, not that they are random"
    ),
    "a mask narrower by some bits": (
        "a mask 40 bits wider than what it hides instead of 80 gives an advantage of 2^-40; sampling sees one above "
        "about 0.25 at 60 views and 0.1 at 400. `masked shares` sees masks that are 40 bits too short. The widths "
        "are constants that the protocol's own tests hold (`STATISTICAL_BITS`)"
    ),
    "a dealer who keeps p and q": "whether he forgot them cannot be seen in any view",
    "timing, memory accesses and traffic": (
        "views hold messages and coins, not when they came (docs/security/unprotected.md)"
    ),
}
"""What no check looks at, and why."""

Progress = Callable[[str, int, int], object]
"""(what, checks done, checks in all)."""


def audit(
    protocol: str | None = None,
    thorough: bool = False,
    progress: Progress = lambda what, done, total: None,
    *,
    seed: int | None = None,
    views: int | None = None,
) -> dict[str, Any]:
    """Who learned what: every check of one protocol or of all.

    Args:
        protocol: one of `PROTOCOLS`; all by default.
        thorough: more views per test, so smaller leaks are noticed; `power` in the result says how small.
        progress: called before each check.
        seed: makes the run repeatable; fresh coins by default.
        views: per side of a two-sample test; by default 80, thorough 400.

    Returns a JSON object:
        protocols: a list; of each its name and coalitions (name, members, cells: secret -> verdict, expected,
            evidence).
        unseen: what no check looks at -> why.
        as_expected: whether every verdict is the expected one.
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
    total = sum(len(case.checks) for case in chosen)
    done = 0
    protocols: list[dict[str, Any]] = []
    for case in chosen:
        results: dict[str, Result] = {}
        for check in case.checks:
            progress(f"{case.name}: {check.name}", done, total)
            results[check.name] = check.run(context)
            done += 1
        matrix = judge(case, results)
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
            }
        )
    statistical = sum(check.statistical for case in chosen for check in case.checks)
    return {
        "protocols": protocols,
        "unseen": UNSEEN,
        "as_expected": as_expected(protocols),
        "false_alarm_rate": statistical * RATE,
        "power": round(detectable_accuracy(views, rate=RATE), 3),
        "views": views,
        "seed": context.seed,
        "seconds": round(time.perf_counter() - begun, 1),
    }


def as_expected(protocols: list[dict[str, Any]]) -> bool:
    """Whether every verdict is the expected one: the exit status."""
    cells = [cell for p in protocols for c in p["coalitions"] for cell in c["cells"].values()]
    return all(cell["verdict"] == cell["expected"] for cell in cells)
