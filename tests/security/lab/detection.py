"""How often each mutant is noticed: `python -m tests.security.lab.detection [seeds] [protocol ...]`.

The suite breaks each protocol under one seed, which could be a lucky one. Here every mutant meets its check under that
many fresh ones, at its own number of views: a rate of detection, and the largest p-value of a statistical check, which
says how far it was from going unnoticed. Exit status 1 when any mutant was missed once.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from psephos.audit.model import AnalysisContext
from psephos.audit.run import CASES, PROTOCOLS, RATE
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.randomness import SYSTEM
from tests.security.lab.edits import caught_by
from tests.security.lab.mutants import MUTANTS

__all__ = ["measure"]


def measure(
    seeds: int,
    protocols: Sequence[str] = PROTOCOLS,
    progress: Callable[[str, int, int], object] = lambda what, caught, tried: None,
) -> dict[str, Any]:
    """Break every line of `protocols` once per seed; the seeds are the operating system's.

    `progress` is called after each mutant. Returns rows (protocol, name, by, caught of seeds, worst_p), missed: the
    mutants that went unnoticed at least once, with the seeds that did it, and seconds.

    Raises InvalidParameter for an unknown protocol or fewer than one seed.
    """
    if seeds < 1 or not set(protocols) <= set(CASES):
        raise InvalidParameter(f"give a number of seeds and protocols among {', '.join(PROTOCOLS)}")
    begun = time.perf_counter()
    rows: list[dict[str, Any]] = []
    missed: dict[str, list[int]] = {}
    for mutant in (m for m in MUTANTS if m.protocol in protocols):
        caught, p_values = 0, []
        for _ in range(seeds):
            seed = int.from_bytes(SYSTEM.draw(6), "big")
            by, result = caught_by(mutant, CASES[mutant.protocol], AnalysisContext(seed=seed, rate=RATE))
            caught += by is not None
            if by is None:
                missed.setdefault(f"{mutant.protocol}: {mutant.name}", []).append(seed)
            if result.p_value is not None:
                p_values.append(result.p_value)
        rows.append(
            {
                "protocol": mutant.protocol,
                "name": mutant.name,
                "by": mutant.check,
                "caught": caught,
                "seeds": seeds,
                "worst_p": max(p_values, default=None),
            }
        )
        progress(f"{mutant.protocol}: {mutant.name}", caught, seeds)
    return {"rows": rows, "missed": missed, "seconds": round(time.perf_counter() - begun, 1)}


if __name__ == "__main__":
    counts = measure(
        int(sys.argv[1]) if len(sys.argv) > 1 else 5,
        sys.argv[2:] or PROTOCOLS,
        lambda what, caught, tried: print(f"{what}: {caught} of {tried}", file=sys.stderr),
    )
    print(json.dumps(counts, indent=1))
    sys.exit(1 if counts["missed"] else 0)
