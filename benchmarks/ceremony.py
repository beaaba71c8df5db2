"""Seconds and bytes of a key ceremony without a dealer: n holders in one process, one after the other.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.ceremony --bits 2048 --holders 5 --repeats 5
    OPENBLAS_NUM_THREADS=1 python -m benchmarks.ceremony --bits 3072 --holders 9 --batches 2

The time of a ceremony is exponentially distributed, so the mean of a few ceremonies is not precise. The CPU seconds per
thousand candidates and the expected number of candidates are, and both are printed as well. CPU seconds are what the
ceremony would take alone on one core, also where other programs use the machine. With `--batches` only the search for a
modulus is measured, from the candidates of one batch to those of the next, and no key is made. Holders on machines of
their own work at the same time, so each needs about 1/n of the time.
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
    """Run one ceremony and return its costs.

    Returns:
        The wall-clock and CPU seconds of all holders together, the number of candidates tried, the number of rounds,
        and the largest number of bytes that a holder sends.
    """
    terms = CeremonyTerms(bits, holders, threshold, os.urandom(32), test_key=bits < 2048)
    transcript, candidates = Transcript(), [0]
    wall, processor = time.perf_counter(), time.process_time()
    run_ceremony(terms, transcript=transcript, progress=lambda what, done, expected: candidates.append(done))
    bytes_sent = dict.fromkeys(terms.names, 0)
    for message in transcript.messages:
        bytes_sent[message.sender] += message.size
    return {
        "seconds": round(time.perf_counter() - wall, 2),
        "cpu_seconds": round(time.process_time() - processor, 2),
        "candidates": candidates[-1],
        "rounds": len(transcript.messages) // holders,
        "bytes_per_holder": max(bytes_sent.values()),
    }


class _EnoughError(Exception):
    """Raised to stop a ceremony after its measured batches."""


def search_seconds(bits: int, holders: int, threshold: int, batches: int) -> dict[str, Any]:
    """Measure the search for a modulus over some batches of candidates.

    Returns:
        The CPU seconds of all holders together, and the number of candidates. The time of a batch includes the check of
        the batch before it.
    """
    seconds, measurements = 0.0, 0
    while measurements < batches:  # a ceremony may find its key before enough batches are measured
        terms = CeremonyTerms(bits, holders, threshold, os.urandom(32), test_key=bits < 2048)
        times: list[float] = []

        def note(
            what: str, done: int, expected: int, times: list[float] = times, left: int = batches - measurements
        ) -> None:
            """Store the CPU time at the end of a batch; stop the ceremony `left` batches after the first."""
            times.append(time.process_time())
            if len(times) > left:
                raise _EnoughError

        with suppress(_EnoughError):
            run_ceremony(terms, progress=note)
        seconds, measurements = seconds + times[-1] - times[0], measurements + len(times) - 1
    return {"cpu_seconds": round(seconds, 2), "candidates": batches * terms.batch}


def main() -> None:
    """Print one JSON object with the runs and their means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bits", type=int, default=2048)
    parser.add_argument("--holders", type=int, default=5)
    parser.add_argument("--threshold", type=int)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--batches", type=int, help="measure the search alone, over so many batches")
    options = parser.parse_args()
    threshold = options.threshold or (options.holders + 1) // 2
    terms = CeremonyTerms(options.bits, options.holders, threshold, bytes(32), test_key=options.bits < 2048)
    if options.batches:
        runs = [search_seconds(options.bits, options.holders, threshold, options.batches)]
    else:
        runs = [ceremony_seconds(options.bits, options.holders, threshold) for _ in range(options.repeats)]
    per_candidate = sum(run["cpu_seconds"] for run in runs) / sum(run["candidates"] for run in runs)
    print(
        json.dumps(
            {
                "bits": options.bits,
                "holders": options.holders,
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
