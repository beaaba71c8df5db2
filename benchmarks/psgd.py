"""Seconds and bytes of one step of private gradient descent, by variant: K parties, d features, every role in turn.

The time of a step is everything: noise, encryption and signing by K parties, checking by the curator and the holders, t
partial decryptions and their combination, one after the other on one core. Run on its own:
`python -m benchmarks.psgd`.
"""

from __future__ import annotations

import json
import statistics
import time
from typing import Any

import numpy as np

from psephos.curator.losses import Logistic
from psephos.curator.psgd.curator import VARIANTS, Variant, agree
from psephos.protocol.paillier.keys import DEFAULT_KEY_BITS
from psephos.simulate.ceremony import hold_ceremony
from psephos.simulate.psgd import SgdRun

__all__ = ["step_seconds"]


def step_seconds(
    *,
    parties: int = 15,
    dimension: int = 30,
    records: int = 30,
    key_bits: int = DEFAULT_KEY_BITS,
    holders: int = 3,
    threshold: int = 2,
    steps: int = 200,
    measured: int = 20,
    variants: tuple[Variant, ...] = VARIANTS,
) -> dict[str, Any]:
    """Median and largest seconds of `measured` steps of a run of `steps`, per variant ("halving": of `measured`).

    On a machine that others use too, the processor's seconds are what a step would take alone on one core.
    """
    generator = np.random.default_rng(0)
    held = []
    for _ in range(parties):
        X = generator.normal(size=(records, dimension))
        X /= np.linalg.norm(X, axis=1)[:, None]
        held.append((X, np.where(X[:, 0] > 0, 1, -1)))
    ceremony = hold_ceremony(parties, key_bits=key_bits, holders=holders, threshold=threshold, test_key=key_bits < 2048)
    found: dict[str, Any] = {}
    for variant in variants:
        agreement = agree(
            variant=variant,
            epsilon=1.0,
            delta=1e-3,
            lam=0.1,
            sizes=[records] * parties,
            dimension=dimension,
            steps=measured if variant == "halving" else steps,
            loss=Logistic(),
        )
        begun = time.perf_counter()
        run = SgdRun(held, agreement, ceremony, loss=Logistic(), test_key=key_bits < 2048)
        run.step()  # the comb's tables, made once per process
        prepared = time.perf_counter() - begun
        seconds, processor = [], time.process_time()
        for _ in range(measured - 1):
            begun = time.perf_counter()
            run.step()
            seconds.append(time.perf_counter() - begun)
        processor = (time.process_time() - processor) / len(seconds)
        plan = agreement.series.plan(ceremony.threshold_key.key, 1)
        found[variant] = {
            "seconds_per_step": statistics.median(seconds),
            "slowest_step": max(seconds),
            "processor_seconds_per_step": processor,
            "seconds_before_the_second_step": prepared,
            "ciphertexts_per_ballot": plan.ciphertexts,
            "slots_per_plaintext": plan.slots_per_plaintext,
            "sums_equal_reference": run.sums_equal,
        }
    return {
        "parties": parties,
        "features": dimension,
        "key_bits": key_bits,
        "holders": holders,
        "threshold": threshold,
        "variants": found,
    }


if __name__ == "__main__":
    print(json.dumps(step_seconds(), indent=1))
