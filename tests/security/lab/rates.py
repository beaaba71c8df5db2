"""False alarms and detections under fresh seeds: `python -m tests.security.lab.rates [seeds] [views]`.

Every statistical check is run on the real protocols with that many seeds (known leaks are left out), and every mutant
meets its check under five. p-values are valid at every number of views, so their rate is that of many. The exit status
is 1 when a mutant was missed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

from psephos.audit.model import AnalysisContext
from psephos.audit.run import CASES, RATE
from psephos.protocol.randomness import SYSTEM
from tests.security.lab.edits import Mutant, caught_by
from tests.security.lab.mutants import MUTANTS

__all__ = ["false_alarms", "missed"]


def false_alarms(seeds: int, views: int) -> dict[str, Any]:
    """Run all checks once per seed; return the number of tests, the alarms, and how many p-values are below 0.01."""
    p_values: list[float] = []
    cried: list[str] = []
    for seed in range(seeds):
        context = AnalysisContext(seed=1000 + seed, views=views, rate=RATE)
        for case in CASES.values():
            meant = {c.name: {*c.known_leaks, *c.granted} for c in case.coalitions}
            for check in case.checks:
                if meant[check.coalition] & set(check.secrets):
                    continue
                result = check.run(context)
                if result.p_value is not None:
                    p_values.append(result.p_value)
                if result.leaks:
                    cried.append(f"seed {seed}: {case.name}: {check.name}: {result.evidence}")
    below = sum(p <= 0.01 for p in p_values)
    return {"tests": len(p_values), "cried": cried, "expected_at_most": len(p_values) * RATE, "below_0.01": below}


def missed(mutants: Iterable[Mutant], seeds: int) -> dict[str, list[int]]:
    """Return the mutants that went unnoticed under some fresh seed, each with these seeds."""
    found: dict[str, list[int]] = {}
    for mutant in mutants:
        for _ in range(seeds):
            seed = int.from_bytes(SYSTEM.draw(6), "big")
            if caught_by(mutant, CASES[mutant.protocol], AnalysisContext(seed=seed, rate=RATE))[0] is None:
                found.setdefault(f"{mutant.protocol}: {mutant.name}", []).append(seed)
    return found


if __name__ == "__main__":
    given = [int(argument) for argument in sys.argv[1:3]]
    unnoticed = missed(MUTANTS, 5)
    print(json.dumps({**false_alarms(*given, *(50, 40)[len(given) :]), "missed": unnoticed}, indent=1))
    sys.exit(1 if unnoticed else 0)
