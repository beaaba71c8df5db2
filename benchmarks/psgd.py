"""Seconds and ciphertexts of one step of private gradient descent, by variant, with K parties and d features.

    python -m benchmarks.psgd

The time of a step includes noise, encryption and signing by K parties, checks by the curator and the holders, t partial
decryptions and their combination. All roles run one after the other on one core.
"""

from __future__ import annotations

import json
import statistics
import time
from dataclasses import replace
from typing import Any

import numpy as np

from psephos.curator.psgd.agreement import VARIANTS, Variant, agree
from psephos.parties.gradients import LocalLoss
from psephos.protocol.paillier.keys import DEFAULT_KEY_BITS
from psephos.simulation.key_setup import setup_keys
from psephos.simulation.psgd import PsgdOptions, descend

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
    """Measure the first steps of a descent, for each variant.

    Args:
        parties: K.
        dimension: d.
        records: number of rows of a party.
        key_bits: length of the Paillier modulus; a key under 2048 bits is a test key.
        holders: number of key holders.
        threshold: t, the number of holders who open a sum.
        steps: length of the run, which determines the noise. A run of "halving" has `measured` steps.
        measured: number of steps that are run.
        variants: the variants.

    Returns:
        The settings, and for each variant: the median and largest wall-clock seconds of a step without the first one,
        the seconds of the first step, CPU seconds per step, ciphertexts of a ballot, slots of a plaintext, and whether
        the sums were correct. CPU seconds are what a step would take alone on one core, also on a shared machine.
    """
    generator = np.random.default_rng(0)
    private = []
    for _ in range(parties):
        X = generator.normal(size=(records, dimension))
        X /= np.linalg.norm(X, axis=1)[:, None]
        private.append(LocalLoss(X, np.where(X[:, 0] > 0, 1, -1)))
    test_key = key_bits < 2048
    ceremony = setup_keys(parties, key_bits=key_bits, holders=holders, threshold=threshold, test_key=test_key)
    figures: dict[str, Any] = {}
    for variant in variants:
        options = PsgdOptions(variant=variant, delta=1e-3, steps=steps, test_key=test_key)
        if variant == "halving":
            options = replace(options, steps=measured)
        agreement = agree(options, [records] * parties, dimension)
        # The noise is that of the whole run, of which only the first steps are run.
        short = replace(agreement, series=replace(agreement.series, steps=measured))
        processor = time.process_time()
        run = descend(options, private, short, ceremony)
        processor = time.process_time() - processor
        plan = agreement.series.plan(ceremony.threshold_key.key, 1)
        figures[variant] = {
            "seconds_per_step": statistics.median(run.seconds[1:]),
            "slowest_step": max(run.seconds[1:]),
            "processor_seconds_per_step": processor / measured,
            "seconds_of_the_first_step": run.seconds[0],  # includes the comb's tables, made once per process
            "ciphertexts_per_ballot": plan.ciphertexts,
            "slots_per_plaintext": plan.slots_per_plaintext,
            "sums_equal_reference": run.sums_equal_reference,
        }
    return {
        "parties": parties,
        "features": dimension,
        "key_bits": key_bits,
        "holders": holders,
        "threshold": threshold,
        "variants": figures,
    }


if __name__ == "__main__":
    print(json.dumps(step_seconds(), indent=1))
