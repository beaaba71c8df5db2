"""Growth of the cost of a tally with its sizes.

Times are CPU seconds of one core, which hardly depend on what else the machine does. They cover the parties,
who cast ballots, and the curator and every holder, who count them. Tables are made before, so that they are not in it.
"""

from __future__ import annotations

import time
from functools import cache
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from psephos.parties.training import LinearVoter
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.encrypted_sum.votes import AuxiliarySet, VoteLayout
from psephos.simulation import encrypted_sum
from psephos.simulation.encrypted_sum import PartyFactory
from psephos.simulation.key_setup import KeySetup, setup_keys
from psephos.specs.exact import TallySpec

__all__ = ["growth"]

FEATURES = 20
ADDENDS = 20_000
"""Number of parties for which the slots of a plaintext are wide enough."""


@cache
def _key_setup(bits: int, degree: int) -> KeySetup:
    """Return the keys of 128 parties and five holders, made once per process for each length and degree."""
    return setup_keys(128, key_bits=bits, degree=degree, holders=5, threshold=3, test_key=bits < 2048)


def _cpu(parties: int, samples: int, classes: int, bits: int, repetitions: int) -> float:
    """Return the least CPU seconds of casting and counting the ballots of `parties` parties, over the repetitions.

    Slots are wide enough for `ADDENDS` parties.
    """
    ceremony = _key_setup(bits, 1)
    generator = np.random.default_rng(0)
    auxiliary = AuxiliarySet(generator.normal(size=(samples, FEATURES)) / FEATURES)
    round_ = Round.create(
        "votes",
        ceremony.threshold_key,
        VoteLayout(samples, classes).plan(ceremony.threshold_key.key, ADDENDS),
        ceremony.roster,
        context=auxiliary.context(range(classes)),
        test_key=bits < 2048,
    )
    shape = (parties, FEATURES) if classes == 2 else (parties, classes, FEATURES)
    voters = [LinearVoter(w) for w in generator.normal(size=shape)]
    whole = PartyFactory(TallySpec(auxiliary, classes), voters)
    shared = encrypted_sum._BatchContext(round_, whole.with_data(()), "half", 1 << 20, 5, record_messages=False)
    batch, warm = (encrypted_sum._make_batch(whole, ceremony, range(m), range(m)) for m in (parties, 1))
    with threadpool_limits(limits=1):
        encrypted_sum._process_batch(shared, warm)
        seconds = []
        for _ in range(repetitions):
            started = time.process_time()
            encrypted_sum._process_batch(shared, batch)
            seconds.append(time.process_time() - started)
    return min(seconds)


def growth(bits: int = 2048, repetitions: int = 3) -> dict[str, Any]:
    """Measure CPU seconds against M, N, K - 1 and key size.

    Args:
        bits: length of the key, where it does not vary.
        repetitions: number of measurements, of which the least counts.

    Returns:
        The settings, and for each series: the values, the CPU seconds, `exponent`, the slope of a line through the
        logarithms, and for N and K - 1 `marginal_exponent`, the same after the cost of ballots of a single sample
        (`fixed_cpu_seconds`) is subtracted.
    """
    series: dict[str, tuple[list[int], list[float]]] = {}
    values = [4, 8, 16, 32, 64]
    series["M"] = values, [_cpu(m, 4000, 2, bits, repetitions) for m in values]
    values = [2000, 4000, 8000, 16_000, 32_000]
    series["N"] = values, [_cpu(4, n, 2, bits, repetitions) for n in values]
    values = [1, 2, 4, 8, 16]
    series["K - 1"] = values, [_cpu(4, 4000, k + 1, bits, repetitions) for k in values]
    values = [1024, 2048, 3072, 4096]
    series["key bits"] = values, [_cpu(4, 4000, 2, size, repetitions) for size in values]
    # The cost of four ballots of one sample, one ciphertext each: mostly signatures and hashes.
    fixed = _cpu(4, 1, 2, bits, repetitions)
    return {
        "key_bits": bits,
        "randomness": "half",
        "fixed_cpu_seconds": fixed,
        "series": {
            name: {
                "values": at,
                "cpu_seconds": seconds,
                "exponent": _slope(at, seconds),
                "marginal_exponent": _slope(at, [t - fixed for t in seconds]) if name in ("N", "K - 1") else None,
            }
            for name, (at, seconds) in series.items()
        },
    }


def _slope(at: list[int], seconds: list[float]) -> float:
    """Return the slope of a line fitted to the logarithms of the seconds against those of the values `at`."""
    return float(np.polyfit(np.log(at), np.log(seconds), 1)[0])
