"""Costs of proofs in CPU milliseconds and multiplications modulo n^2, for ballots of votes, or for bounded ballots.

    python -m benchmarks.proofs

Every time is the least of interleaved repetitions. One multiplication and one encryption in mode `full` are measured in
the same run, for comparison. `--bounded` measures bounded ballots instead. PSEPHOS_KERNEL=gmpy2 computes without
C extensions.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np
from gmpy2 import mpz

from psephos.protocol.encrypted_sum.proofs import check_opening, prove_opening
from psephos.protocol.encrypted_sum.votes import VoteLayout, vote_round
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.kernel import Array, Ring, kernel
from psephos.protocol.paillier.keys import DEFAULT_KEY_BITS, PublicKey
from psephos.protocol.paillier.powers import power_product
from psephos.protocol.proofs import codewords, knowledge, validity
from psephos.protocol.proofs.bounded import BoundedLayout, bounded_plan
from psephos.protocol.proofs.challenge import CHALLENGE_BITS
from psephos.protocol.proofs.codewords import MatrixLayout
from psephos.protocol.randomness import SimulationRandomness
from psephos.simulation.encrypted_sum import peak_memory_mb
from psephos.simulation.key_setup import setup_keys

__all__ = ["bounded_costs", "proof_costs"]

SIZES = {"HAR": (1352, 6, 1000, (10, 100)), "KDD-99": (43_000, 2, 5000, (10,))}
"""Auxiliary samples, classes, parties that the plan has room for, and numbers of ballots that are checked together."""

_TIMES = 20
"""Number of times that each multiplication is repeated, because one is too short to measure."""


def _multiply(factors: tuple[mpz, ...], modulus: mpz) -> None:
    """Multiply all factors modulo `modulus`, `_TIMES` times."""
    value = mpz(1)
    for _ in range(_TIMES):
        for factor in factors:
            value = value * factor % modulus


class _Counting(Ring):
    """A ring that counts its products.

    Attributes:
        product_count: number of products so far.
    """

    product_count = 0

    def multiply(self, left: Array, right: Array) -> Array:
        self.product_count += left[..., 0].size
        return super().multiply(left, right)


def knowledge_multiplications(key: PublicKey, ciphertexts: int, ballots: int) -> float:
    """Return the number of multiplications per ciphertext that checking proofs of knowledge takes with gmpy2.

    Args:
        key: the public key.
        ciphertexts: number of ciphertexts of a ballot.
        ballots: number of ballots whose proofs are checked together.
    """
    together = ballots > 1
    weight = knowledge.WEIGHT_BITS if together else 0
    count, chance = ballots * (ciphertexts + together), SimulationRandomness(0)
    exponents = [mpz(chance.bits(CHALLENGE_BITS + weight)) for _ in range(count)]
    counting = _Counting(mpz(2) ** 61 - 1)
    power_product([mpz(chance.bits(60)) for _ in range(count)], exponents, counting)
    return round((counting.product_count + knowledge.comb_shape(key).multiplications) / (ballots * ciphertexts), 1)


BOUNDED = ((2_000, 32), (50, 32), (250_000, 16), (1_000_000, 1))
"""Lengths of bounded vectors, and the bits of an entry; 250,000 entries of 16 bits are those that ACORN proves."""


def _least(work: dict[str, Callable[[], object]], repetitions: int) -> dict[str, float]:
    """Return the least CPU milliseconds of each piece of work, over interleaved repetitions after one that warms up."""
    times: dict[str, list[float]] = {what: [] for what in work}
    for repetition in range(repetitions + 1):
        for what, do in work.items():
            start = time.process_time()
            do()
            if repetition:
                times[what].append(1e3 * (time.process_time() - start))
    return {what: min(each) for what, each in times.items()}


def _bounded_layout(key: PublicKey, length: int, bits: int) -> MatrixLayout:
    """Return the layout of a proof for 1,000 parties; entries of one bit are votes between two classes."""
    if bits == 1:
        return validity.Layout.of(key, VoteLayout(length, 2).plan(key, 1000), 1)
    largest = 1 << (bits - 1)
    plan = bounded_plan(key, length=length, addends=1000, minimum=-largest, maximum=largest - 1)
    return BoundedLayout.of(key, plan, length * largest**2)


def _bounded_cost(key: PublicKey, length: int, bits: int, repetitions: int) -> dict[str, Any]:
    """Return the costs of one size of `BOUNDED`, measured in a process of its own for the peak of its memory."""
    layout = _bounded_layout(key, length, bits)
    entries = np.random.default_rng(0).integers(layout.plan.minimum, layout.plan.maximum, length, endpoint=True)
    half = Encryptor(key, "half", expected=4096)
    packed = layout.plan.pack(entries)
    ciphertexts, witness = half.encrypt_with_witness(packed)
    proof = codewords.prove(b"", layout, entries, ciphertexts, witness)
    work: dict[str, Callable[[], object]] = {
        "encrypt": partial(half.encrypt, packed),
        "prove": partial(codewords.prove, b"", layout, entries, ciphertexts, witness),
        "verify": partial(codewords.verify, b"", layout, ciphertexts, proof),
    }
    least = {what: round(ms, 3) for what, ms in _least(work, repetitions).items()}
    sizes = {"ballot_bytes": len(ciphertexts) * key.ciphertext_bytes, "proof_bytes": len(proof)}
    return {"ms": least, **sizes, "peak_memory_mb": round(peak_memory_mb())}


def bounded_costs(*, key_bits: int = DEFAULT_KEY_BITS, repetitions: int = 5) -> dict[str, Any]:
    """Return CPU milliseconds of proofs of bounds, bytes, and the MB of memory of a process, for each of `BOUNDED`."""
    key = setup_keys(6, key_bits=key_bits, holders=5, threshold=3, test_key=key_bits < 2048).threshold_key.key
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as pool:
        costs = {size: pool.submit(_bounded_cost, key, *size, repetitions) for size in BOUNDED}
        return {f"{length:,}, {bits}": cost.result() for (length, bits), cost in costs.items()}


def proof_costs(*, key_bits: int = DEFAULT_KEY_BITS, repetitions: int = 5) -> dict[str, Any]:
    """Measure the proofs of ballots of votes, and proofs of opening.

    Args:
        key_bits: length of the Paillier modulus; a key under 2048 bits is a test key.
        repetitions: number of times that each operation is measured.

    Returns:
        For each size of `SIZES` the least CPU milliseconds of each operation, and the bytes and relative costs of the
        proofs. An operation is on one ballot, or on as many as its name says.
    """
    keys = setup_keys(6, key_bits=key_bits, holders=5, threshold=3, test_key=key_bits < 2048)
    key = keys.threshold_key.key
    full = Encryptor(key, "full")
    costs: dict[str, Any] = {"key_bits": key_bits, "kernel": kernel()}
    for name, (samples, classes, parties, batches) in SIZES.items():
        layout = VoteLayout(samples, classes)
        plan = layout.plan(key, parties)
        shape = validity.Layout.of(key, plan, classes - 1)
        entries = layout.encode(np.random.default_rng(0).integers(0, classes, samples)).astype(np.int64)
        packed = plan.pack(entries)
        half = Encryptor(key, "half", expected=4096)
        ciphertexts, witness = half.encrypt_with_witness(packed)
        proof = knowledge.prove(b"", key, ciphertexts, witness, "half")
        claims = []
        for place in range(max(batches)):
            own_ciphertexts, own_witness = half.encrypt_with_witness(packed)
            statement = place.to_bytes(4, "big")
            claims.append(
                (statement, own_ciphertexts, knowledge.prove(statement, key, own_ciphertexts, own_witness, "half"))
            )
        valid = codewords.prove(b"", shape, entries, ciphertexts, witness)
        auxiliary = np.linspace(0, 1, samples)[:, None]
        round_ = vote_round(
            keys.threshold_key, keys.roster, auxiliary, classes, test_key=key_bits < 2048, proofs="knowledge"
        )
        share = keys.shares[0]
        part = share.partially_decrypt(ciphertexts)
        opening = prove_opening(round_, share, ciphertexts, part)

        work: dict[str, Callable[[], object]] = {
            "multiply": partial(_multiply, ciphertexts, key.ciphertext_modulus),
            "full": partial(full.encrypt, [mpz(1)]),
            "encrypt": partial(half.encrypt, packed),
            "knowledge.prove": partial(knowledge.prove, b"", key, ciphertexts, witness, "half"),
            "knowledge.verify": partial(knowledge.verify, b"", key, ciphertexts, proof),
            **{f"knowledge.verify {size}": partial(knowledge.first_wrong, key, claims[:size]) for size in batches},
            "valid.prove": partial(codewords.prove, b"", shape, entries, ciphertexts, witness),
            "valid.verify": partial(codewords.verify, b"", shape, ciphertexts, valid),
            "open": partial(share.partially_decrypt, ciphertexts),
            "opening.prove": partial(prove_opening, round_, share, ciphertexts, part),
            "opening.verify": partial(check_opening, round_, 1, ciphertexts, part, opening),
        }
        least = _least(work, repetitions)
        count = len(ciphertexts)
        one = least["multiply"] / (_TIMES * count)
        costs[name] = {
            "ciphertexts": count,
            "slots": plan.length,
            "ms": {what: round(milliseconds, 3) for what, milliseconds in least.items()},
            "knowledge": {
                "bytes": len(proof.encode(key)),
                "prove_allowed_ms": round(least["full"] + least["encrypt"] / 10, 3),
                "multiplications_per_ciphertext": {
                    size: knowledge_multiplications(key, count, size) for size in (1, *batches)
                },
                "time_in_multiplications_per_ciphertext": {
                    1: round(least["knowledge.verify"] / one / count, 1),
                    **{size: round(least[f"knowledge.verify {size}"] / size / one / count, 1) for size in batches},
                },
            },
            "valid": {"bytes": len(valid), "over_ballot_bytes": round(len(valid) / (count * key.ciphertext_bytes), 2)},
            "opening": {
                "bytes": len(opening),
                "over_opening": round((least["opening.prove"] + least["opening.verify"]) / least["open"], 3),
            },
        }
    return costs


def main() -> None:
    """Measure, and print the costs as JSON."""
    parser = argparse.ArgumentParser(description="What proofs cost.")
    parser.add_argument("--bounded", action="store_true", help="bounded ballots instead")
    parser.add_argument("--repetitions", type=int, default=5)
    options = parser.parse_args()
    measure = bounded_costs if options.bounded else proof_costs
    print(json.dumps(measure(repetitions=options.repetitions), indent=1))


if __name__ == "__main__":
    main()
