"""How often the statistical checks cry wolf: `python -m tests.security.lab.false_alarms [seeds] [views]`.

Every statistical check of every protocol is run on the real protocols with that many seeds. Known leaks are left out.
The p-values are valid at every number of views, so the rate measured with few views is that of many.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from psephos.audit.model import AnalysisContext
from psephos.audit.run import CASES, RATE

__all__ = ["measure"]


def measure(
    seeds: int, views: int, progress: Callable[[int, str, int], object] = lambda seed, protocol, alarms: None
) -> dict[str, Any]:
    """Run all checks once per seed; `progress` is called after each protocol with the alarms so far.

    Returns tests (how many statistical ones were made), alarms (those that cried), expected_at_most (tests times the
    rate), alarms_at: how many p-values lie below 0.01 and 0.1, each with the number that uniform ones would give.
    """
    begun = time.perf_counter()
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
            progress(seed, case.name, len(cried))
    return {
        "seeds": seeds,
        "views": views,
        "tests": len(p_values),
        "alarms": len(cried),
        "cried": cried,
        "expected_at_most": len(p_values) * RATE,
        "alarms_at": {
            str(level): [sum(p <= level for p in p_values), round(level * len(p_values), 1)] for level in (0.01, 0.1)
        },
        "seconds": round(time.perf_counter() - begun, 1),
    }


if __name__ == "__main__":
    arguments = [int(a) for a in sys.argv[1:3]]
    seeds, views = [*arguments, *(50, 40)[len(arguments) :]]
    counts = measure(
        seeds,
        views,
        lambda seed, protocol, alarms: print(f"seed {seed} of {seeds}: {protocol}: {alarms} alarms", file=sys.stderr),
    )
    print(json.dumps(counts, indent=1))
