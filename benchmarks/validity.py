"""What the proof that a ballot is valid costs: CPU milliseconds to prove and to check it, and its bytes.

Prints a table with a row for each field kernel: `python -m benchmarks.validity`. Every figure is the least of several
repetitions on one core; numpy's matrix products may use more. The Paillier kernel is the same in all rows.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from psephos.audit.rounds import short_key
from psephos.protocol.encrypted_sum.votes import VoteLayout
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.kernel import kernel
from psephos.protocol.paillier.keys import DEFAULT_KEY_BITS, PublicKey
from psephos.protocol.proofs import field, validity

__all__ = ["vote_costs"]

SIZES = {"HAR": (1352, 6, 1000), "KDD-99": (43_000, 2, 5000)}
"""Auxiliary samples, classes, and parties that the plan has room for."""


def least_milliseconds(work: Mapping[str, Callable[[], object]], repetitions: int) -> dict[str, float]:
    """Return the least CPU time of each piece of work, after one run that does not count."""
    times: dict[str, list[float]] = {name: [] for name in work}
    for repetition in range(repetitions + 1):
        for name, compute in work.items():
            start = time.process_time()
            compute()
            if repetition:
                times[name].append(1e3 * (time.process_time() - start))
    return {name: min(several) for name, several in times.items()}


def vote_costs(key: PublicKey, samples: int, classes: int, parties: int, repetitions: int) -> dict[str, list[float]]:
    """Return milliseconds to prove and to check one ballot of votes, and the proof's bytes, by field kernel."""
    votes = VoteLayout(samples, classes)
    plan = votes.plan(key, parties)
    layout = validity.Layout.of(key, plan, classes - 1)
    entries = votes.encode(np.random.default_rng(0).integers(0, classes, samples)).astype(np.int64)
    ciphertexts, witness = Encryptor(key, "half", expected=64).encrypt_with_witness(plan.pack(entries))
    proof = validity.prove(b"", layout, entries, ciphertexts, witness)

    work: dict[str, Callable[[], object]] = {
        "prove": partial(validity.prove, b"", layout, entries, ciphertexts, witness),
        "check": partial(validity.verify, b"", layout, ciphertexts, proof),
    }
    costs = {}
    for name in field.KERNELS:
        with field.use(name):
            least = least_milliseconds(work, repetitions)
        costs[name] = [least["prove"], least["check"], len(proof)]
    return costs


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--key-bits", type=int, default=DEFAULT_KEY_BITS)
    parser.add_argument("--repetitions", type=int, default=15)
    options = parser.parse_args()
    key = short_key(bits=options.key_bits).public_key
    print(f"{options.key_bits} bits, Paillier by {kernel()}, least of {options.repetitions}\n")
    print("| votes | entries | field | prove, ms | check, ms | bytes |\n| --- | --- | --- | --- | --- | --- |")
    for name, (samples, classes, parties) in SIZES.items():
        costs = vote_costs(key, samples, classes, parties, options.repetitions)
        for field_kernel, (prove, check, size) in costs.items():
            entries = samples * (classes - 1)
            print(f"| {name} | {entries:,} | {field_kernel} | {prove:.1f} | {check:.1f} | {size:,} |", flush=True)


if __name__ == "__main__":
    main()
