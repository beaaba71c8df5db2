"""Encryption and counting against phe and against bare modular multiplications, in one run on one core.

Absolute times vary from machine to machine and minute to minute; ratios are taken between interleaved repetitions of
the same run, and the median over the repetitions is reported.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from functools import partial

import numpy as np
import phe

from psephos.bench.clock import clock, interleaved, milliseconds, ratio
from psephos.outcomes.machine import Addition, Comb, Encryption
from psephos.protocol.encrypted_sum.messages import Ballot
from psephos.protocol.encrypted_sum.product import BallotProduct
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.encrypted_sum.votes import VoteLayout
from psephos.protocol.paillier.comb import best_shape
from psephos.protocol.paillier.encryption import Encryptor, RandomizerPool, RandomnessMode, exponent_bits
from psephos.protocol.paillier.kernel import kernel, use
from psephos.protocol.paillier.private_key import generate_private_key
from psephos.protocol.paillier.threshold import deal
from psephos.protocol.paillier.vectors import EncryptedVector
from psephos.protocol.signing import SigningKey

PARTIES = 20_000


def encryption(bits: int, repetitions: int = 7) -> Encryption:
    """Seconds per ciphertext and per vote (packed for 20,000 parties), ours in three modes and phe's `encrypt`.

    Where the kernel that runs is not gmpy2, the modes by gmpy2 are there as "half, gmpy2" and so on.
    """
    private = generate_private_key(bits, test_key=bits < 2048)
    key = private.public_key
    theirs = phe.PaillierPublicKey(key.n)
    layout = VoteLayout(2000, 2)
    plan = layout.plan(key, PARTIES)
    votes = np.random.default_rng(0).integers(0, 2, size=2000)
    times: dict[RandomnessMode, int] = {"full": 1, "half": 10, "short": 40}
    encryptors = {mode: Encryptor(key, mode, expected=1 << 20) for mode in times}
    ways = {
        mode if name == kernel() else f"{mode}, {name}": (mode, name) for name in {kernel(), "gmpy2"} for mode in times
    }
    pool = RandomizerPool(encryptors["half"])

    def ours(mode: RandomnessMode, name: str, ballots: int, filled: RandomizerPool | None = None) -> float:
        def vote() -> None:
            for _ in range(ballots):
                EncryptedVector.encrypt(encryptors[mode], plan, layout.encode(votes), filled)

        with use(name):
            if filled is None:
                encryptors[mode].randomizers(1)  # the tables, made once per process
            else:
                filled.fill(plan.ciphertexts * ballots)
            return clock(vote) / (plan.ciphertexts * ballots)

    measures: dict[str, Callable[[], float]] = {
        "phe": lambda: clock(lambda: [theirs.encrypt(1) for _ in range(10)]) / 10,
        **{way: partial(ours, mode, name, times[mode]) for way, (mode, name) in ways.items()},
        "online": partial(ours, "half", kernel(), 20, pool),
    }
    samples = interleaved(measures, repetitions)
    ratios = {name: ratio(samples["phe"], samples[name]) for name in (*ways, "online")}
    per_vote = len(votes) / plan.ciphertexts
    shapes: dict[str, Comb] = {}
    for mode in ("half", "short"):
        shape = best_shape(exponent_bits(key, mode), powers=1 << 20, entry_bytes=key.ciphertext_bytes)
        megabytes = shape.table_entries * key.ciphertext_bytes / 1e6
        shapes[mode] = Comb(shape.rows, shape.tables, shape.columns, shape.multiplications, megabytes)
    return Encryption(
        key_bits=bits,
        milliseconds_per_ciphertext=milliseconds({name: samples[name] for name in (*ways, "online", "phe")}),
        times_faster_than_phe_per_ciphertext=ratios,
        votes_per_ciphertext=per_vote,
        times_faster_than_phe_per_vote={name: ratio * per_vote for name, ratio in ratios.items()},
        comb=shapes,
    )


def addition(like: str, bits: int, samples: int, classes: int, parties: int, repetitions: int = 7) -> Addition:
    """Counting ballots (decoding, range, signature, hash, gcd, multiplying) over the bare multiplications alone."""
    private = generate_private_key(bits, test_key=bits < 2048)
    threshold_key, _ = deal(private, holders=3, threshold=2)
    key = private.public_key
    layout = VoteLayout(samples, classes)
    batch = 32
    signing_keys = [SigningKey.generate() for _ in range(batch)]
    # Real ballots of a batch; the rest of the roster is only there for the width of a slot.
    others = tuple(SigningKey.generate().verification_key for _ in range(parties - batch))
    round_ = Round.create(
        "votes",
        threshold_key,
        layout.plan(key, parties),
        (*(k.verification_key for k in signing_keys), *others),
        context=secrets.token_bytes(32),
        minimum_ballots=2,
        test_key=bits < 2048,
    )
    encryptor = Encryptor(key, "short", expected=batch * round_.plan.ciphertexts)
    generator = np.random.default_rng(0)
    encoded = []
    for number, signing_key in enumerate(signing_keys):
        vector = EncryptedVector.encrypt(encryptor, round_.plan, layout.encode(generator.integers(0, classes, samples)))
        encoded.append(Ballot.sign(round_, number, vector, signing_key).encode())
    decoded = [Ballot.decode(data, round_).ciphertexts for data in encoded]
    modulus = key.ciphertext_modulus

    def bare() -> None:
        product = decoded[0]
        for ciphertexts in decoded[1:]:
            product = tuple([a * b % modulus for a, b in zip(product, ciphertexts, strict=True)])
        tuple([a * b % modulus for a, b in zip(product, decoded[0], strict=True)])

    def counted() -> None:
        if BallotProduct(round_).add_all(encoded)[1]:
            raise AssertionError("an honest ballot was rejected")

    measures = {"bare": lambda: clock(bare) / batch, "counted": lambda: clock(counted) / batch}
    samples_ = interleaved(measures, repetitions)
    return Addition(
        like=like,
        key_bits=bits,
        ciphertexts_per_ballot=round_.plan.ciphertexts,
        bytes_per_ballot=Ballot.encoded_length(round_),
        milliseconds_per_ballot=milliseconds(samples_)["counted"],
        over_bare_multiplications=ratio(samples_["counted"], samples_["bare"]),
    )
