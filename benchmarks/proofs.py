"""What proofs cost: CPU milliseconds and multiplications modulo n^2, for ballots of HAR's and KDD-99's size.

Every figure is the median of interleaved repetitions, beside one multiplication and one encryption in mode `full`
measured in the same run. Run on its own: `python -m benchmarks.proofs`.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from gmpy2 import mpz

from psephos.protocol.encrypted_sum.proofs import check_opening, prove_opening
from psephos.protocol.encrypted_sum.votes import VoteLayout, vote_round
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.keys import DEFAULT_KEY_BITS
from psephos.protocol.proofs import knowledge, validity
from psephos.simulation.ceremony import hold_ceremony

__all__ = ["proof_costs"]

SIZES = {"HAR": (1352, 6, 1000), "KDD-99": (43_000, 2, 5000)}
"""Auxiliary samples, classes, and parties that the plan has room for."""


_TIMES = 20


def _multiply(factors: tuple[mpz, ...], modulus: mpz) -> None:
    value = mpz(1)
    for _ in range(_TIMES):
        for factor in factors:
            value = value * factor % modulus


def proof_costs(*, key_bits: int = DEFAULT_KEY_BITS, repetitions: int = 7, batch: int = 20) -> dict[str, Any]:
    """CPU milliseconds by what is done, for each size; `batch` ballots are checked together."""
    house = hold_ceremony(6, key_bits=key_bits, holders=5, threshold=3, test_key=key_bits < 2048)
    key = house.threshold_key.key
    full = Encryptor(key, "full")
    found: dict[str, Any] = {"key_bits": key_bits}
    for name, (samples, classes, parties) in SIZES.items():
        layout = VoteLayout(samples, classes)
        plan = layout.plan(key, parties)
        shape = validity.Layout.of(key, plan, classes - 1)
        entries = layout.encode(np.random.default_rng(0).integers(0, classes, samples)).astype(np.int64)
        packed = plan.pack(entries)
        half = Encryptor(key, "half", expected=4096)
        ciphertexts, witness = half.encrypt_with_witness(packed)
        proof = knowledge.prove(b"", key, ciphertexts, witness, "half")
        many = []
        for place in range(batch):
            sealed, opened = half.encrypt_with_witness(packed)
            statement = place.to_bytes(4, "big")
            many.append((statement, sealed, knowledge.prove(statement, key, sealed, opened, "half")))
        valid = validity.prove(b"", shape, entries, ciphertexts, witness)
        auxiliary = np.linspace(0, 1, samples)[:, None]
        round_ = vote_round(
            house.threshold_key, house.roster, auxiliary, classes, test_key=key_bits < 2048, proofs="knowledge"
        )
        share = house.shares[0]
        part = share.partially_decrypt(ciphertexts)
        shown = prove_opening(round_, share, ciphertexts, part)

        work: dict[str, Callable[[], object]] = {
            "multiply": partial(_multiply, ciphertexts, key.ciphertext_modulus),
            "full": partial(full.encrypt, [mpz(1)]),
            "encrypt": partial(half.encrypt, packed),
            "knowledge.prove": partial(knowledge.prove, b"", key, ciphertexts, witness, "half"),
            "knowledge.verify": partial(knowledge.verify, b"", key, ciphertexts, proof),
            "knowledge.verify many": partial(knowledge.first_wrong, key, many),
            "valid.prove": partial(validity.prove, b"", shape, entries, ciphertexts, witness),
            "valid.verify": partial(validity.verify, b"", shape, ciphertexts, valid),
            "open": partial(share.partially_decrypt, ciphertexts),
            "opening.prove": partial(prove_opening, round_, share, ciphertexts, part),
            "opening.verify": partial(check_opening, round_, 1, ciphertexts, part, shown),
        }
        times: dict[str, list[float]] = {what: [] for what in work}
        for repetition in range(repetitions + 1):
            for what, do in work.items():
                begun = time.process_time()
                do()
                if repetition:
                    times[what].append(1e3 * (time.process_time() - begun))
        median = {what: statistics.median(taken) for what, taken in times.items()}
        count = len(ciphertexts)
        one = median["multiply"] / (_TIMES * count)
        found[name] = {
            "ciphertexts": count,
            "slots": plan.length,
            "ms": {what: round(taken, 3) for what, taken in median.items()},
            "knowledge": {
                "bytes": len(proof.encode(key)),
                "prove_allowed_ms": round(median["full"] + median["encrypt"] / 10, 3),
                "verify_multiplications_per_ciphertext": round(median["knowledge.verify"] / one / count, 1),
                "many_multiplications_per_ciphertext": round(median["knowledge.verify many"] / batch / one / count, 1),
            },
            "valid": {"bytes": len(valid), "over_ballot_bytes": round(len(valid) / (count * key.ciphertext_bytes), 2)},
            "opening": {
                "bytes": len(shown),
                "over_opening": round((median["opening.prove"] + median["opening.verify"]) / median["open"], 3),
            },
        }
    return found


if __name__ == "__main__":
    print(json.dumps(proof_costs(), indent=1))
