"""Seconds and bytes of a ceremony without a dealer: n holders in one process, one after the other.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.ceremony --bits 2048 --holders 5 --repeats 5
    OPENBLAS_NUM_THREADS=1 python -m benchmarks.ceremony --bits 3072 --holders 9 --batches 2

The time of a ceremony is exponentially distributed around its mean, so the mean over several says little by itself; the
seconds for each thousand candidates and their expected number say more, and both are written. On a machine that others
use too, the processor's seconds are what it would take alone on one core. With `--batches` only the search is measured,
from the moduli of one batch to those of the next, and no key is made. Holders on machines of their own work at the
same time: each needs about a n-th of it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from contextlib import suppress
from typing import Any

from psephos.protocol.ceremony.terms import CeremonyTerms
from psephos.protocol.transcript import Transcript
from psephos.simulation.key_setup import run_ceremony

__all__ = ["ceremony_seconds"]


def ceremony_seconds(bits: int, holders: int, threshold: int) -> dict[str, Any]:
    """One ceremony: wall-clock and processor seconds of all holders, candidates tried, rounds, bytes a holder sends."""
    terms = CeremonyTerms(bits, holders, threshold, os.urandom(32), test_key=bits < 2048)
    transcript, tried = Transcript(), [0]
    wall, processor = time.perf_counter(), time.process_time()
    run_ceremony(terms, transcript=transcript, progress=lambda what, done, expected: tried.append(done))
    sent = dict.fromkeys(terms.names, 0)
    for message in transcript.messages:
        sent[message.sender] += message.size
    return {
        "seconds": round(time.perf_counter() - wall, 2),
        "cpu_seconds": round(time.process_time() - processor, 2),
        "candidates": tried[-1],
        "rounds": len(transcript.messages) // holders,
        "bytes_per_holder": max(sent.values()),
    }


class _EnoughError(Exception):
    """So many batches were measured."""


def search_seconds(bits: int, holders: int, threshold: int, batches: int) -> dict[str, Any]:
    """Processor seconds of all holders for some batches, each with the check of the one before it."""
    seconds, tried = 0.0, 0
    while tried < batches:  # a ceremony may come to its key before
        terms = CeremonyTerms(bits, holders, threshold, os.urandom(32), test_key=bits < 2048)
        times: list[float] = []

        def note(what: str, done: int, expected: int, times: list[float] = times, left: int = batches - tried) -> None:
            times.append(time.process_time())
            if len(times) > left:
                raise _EnoughError

        with suppress(_EnoughError):
            run_ceremony(terms, progress=note)
        seconds, tried = seconds + times[-1] - times[0], tried + len(times) - 1
    return {"cpu_seconds": round(seconds, 2), "candidates": batches * terms.batch}


def main() -> None:
    """Prints one JSON object: the runs, and their means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bits", type=int, default=2048)
    parser.add_argument("--holders", type=int, default=5)
    parser.add_argument("--threshold", type=int)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--batches", type=int, help="measure the search alone, over so many batches")
    given = parser.parse_args()
    threshold = given.threshold or (given.holders + 1) // 2
    terms = CeremonyTerms(given.bits, given.holders, threshold, bytes(32), test_key=given.bits < 2048)
    if given.batches:
        runs = [search_seconds(given.bits, given.holders, threshold, given.batches)]
    else:
        runs = [ceremony_seconds(given.bits, given.holders, threshold) for _ in range(given.repeats)]
    per_candidate = sum(run["cpu_seconds"] for run in runs) / sum(run["candidates"] for run in runs)
    print(
        json.dumps(
            {
                "bits": given.bits,
                "holders": given.holders,
                "threshold": threshold,
                "load_average": [round(load, 1) for load in os.getloadavg()],
                "mean": {key: round(statistics.mean(run[key] for run in runs), 2) for key in runs[0]},
                "expected_candidates": round(1 / terms.success),
                "cpu_seconds_per_1000_candidates": round(1000 * per_candidate, 2),
                "expected_cpu_seconds": round(per_candidate / terms.success, 1),
                "runs": runs,
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
