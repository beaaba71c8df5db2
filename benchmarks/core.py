"""Encryption and counting against phe and against bare modular multiplications, in one run on one core.

Absolute times vary from machine to machine and minute to minute; ratios are taken between interleaved repetitions of
the same run, and the median over the repetitions is reported.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import phe

from benchmarks.clock import clock, interleaved, milliseconds, ratio
from psephos.protocol.encrypted_sum.messages import Ballot
from psephos.protocol.encrypted_sum.product import BallotProduct
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.encrypted_sum.votes import VoteLayout
from psephos.protocol.paillier.encryption import Encryptor, RandomnessMode
from psephos.protocol.paillier.kernel import kernel, use
from psephos.protocol.paillier.keys import LARGEST_DEGREE
from psephos.protocol.paillier.packing import PackingPlan
from psephos.protocol.paillier.private_key import PrivateKey, generate_private_key
from psephos.protocol.paillier.threshold import deal
from psephos.protocol.paillier.vectors import EncryptedVector
from psephos.protocol.signing import SigningKey

PARTIES = 20_000
"""Number of parties for which votes are packed."""


@dataclass(frozen=True)
class CombTables:
    """Shape of the fixed-base tables of one randomness mode."""

    rows: int
    tables: int
    columns: int
    multiplications: int
    table_mb: float


@dataclass(frozen=True)
class EncryptionTimings:
    """Encryption under one key size, by mode; phe's own `encrypt` is "phe". Ratios are medians within one run.

    "half, degree 3" is mode half under a key of degree 3 instead of 1; "half, gmpy2" is the mode without the native
    kernel.
    """

    key_bits: int
    milliseconds_per_ciphertext: dict[str, float]
    times_faster_than_phe_per_ciphertext: dict[str, float]
    times_faster_than_phe_per_vote: dict[str, float]
    bytes_per_vote: dict[str, float]
    comb: dict[str, CombTables]


@dataclass(frozen=True)
class CountingTimings:
    """Cost of counting ballots with all checks, also over bare multiplications; `like` is a data set of that size."""

    like: str
    key_bits: int
    ciphertexts_per_ballot: int
    bytes_per_ballot: int
    milliseconds_per_ballot: float
    over_bare_multiplications: float


def encryption(bits: int, repetitions: int = 7) -> EncryptionTimings:
    """Measure our encryption in three modes and phe's `encrypt`, per ciphertext and per vote (of 20,000 parties).

    The default mode is also measured under keys of every degree. Everything is measured with gmpy2 too if that is not
    the kernel in use, under names such as "half, degree 3, gmpy2".
    """
    private = generate_private_key(bits, test_key=bits < 2048)
    theirs = phe.PaillierPublicKey(private.public_key.n)
    keys = {s: PrivateKey(*private.factors(), degree=s).public_key for s in range(1, LARGEST_DEGREE + 1)}
    plans = {s: PackingPlan.for_key(key, length=1, addends=PARTIES) for s, key in keys.items()}
    times: dict[RandomnessMode, int] = {"full": 1, "half": 30, "short": 120}
    variants: list[tuple[RandomnessMode, int]] = [*((mode, 1) for mode in times), *(("half", s) for s in keys if s > 1)]
    encryptors = {(mode, s): Encryptor(keys[s], mode, expected=(1 << 20) // s) for mode, s in variants}
    ways: dict[str, tuple[RandomnessMode, int, str]] = {}
    for name in dict.fromkeys((kernel(), "gmpy2")):
        for mode, s in variants:
            ways[mode + f", degree {s}" * (s > 1) + f", {name}" * (name != kernel())] = mode, s, name

    def ours(mode: RandomnessMode, s: int, name: str) -> float:
        count, slots = times[mode], plans[s].slots_per_plaintext
        votes = np.random.default_rng(0).integers(0, 2, size=count * slots)
        plan = PackingPlan.for_key(keys[s], length=len(votes), addends=PARTIES)
        with use(name):
            encryptors[mode, s].randomizers(1)  # computes the tables, once per process
            return clock(lambda: EncryptedVector.encrypt(encryptors[mode, s], plan, votes)) / count

    measures: dict[str, Callable[[], float]] = {
        "phe": lambda: clock(lambda: [theirs.encrypt(1) for _ in range(10)]) / 10,
        **{way: partial(ours, *how) for way, how in ways.items()},
    }
    samples = interleaved(measures, repetitions)
    degrees = {way: s for way, (_, s, _) in ways.items()}
    ratios = {way: ratio(samples["phe"], samples[way]) for way in degrees}
    slots = {way: plans[s].slots_per_plaintext for way, s in degrees.items()}
    shapes: dict[str, CombTables] = {}
    for mode in ("half", "short"):
        shape, size = encryptors[mode, 1].shape, keys[1].ciphertext_bytes
        assert shape is not None
        megabytes = shape.table_entries * size / 1e6
        shapes[mode] = CombTables(shape.rows, shape.tables, shape.columns, shape.multiplications, megabytes)
    return EncryptionTimings(
        key_bits=bits,
        milliseconds_per_ciphertext=milliseconds({way: samples[way] for way in (*degrees, "phe")}),
        times_faster_than_phe_per_ciphertext=ratios,
        times_faster_than_phe_per_vote={way: times_faster * slots[way] for way, times_faster in ratios.items()},
        bytes_per_vote={way: keys[s].ciphertext_bytes / slots[way] for way, s in degrees.items()}
        | {"phe": keys[1].ciphertext_bytes},
        comb=shapes,
    )


def addition(like: str, bits: int, samples: int, classes: int, parties: int, repetitions: int = 7) -> CountingTimings:
    """Measure counting of ballots (decoding, range, signature, hash, gcd, multiplying) and the bare multiplications.

    Args:
        like: name of the data set for which ballots have this size.
        bits: length of the key.
        samples: auxiliary samples that a ballot votes on.
        classes: number of classes.
        parties: number of parties on the roster.
        repetitions: interleaved repetitions.
    """
    private = generate_private_key(bits, test_key=bits < 2048)
    threshold_key, _ = deal(private, holders=3, threshold=2)
    key = private.public_key
    layout = VoteLayout(samples, classes)
    batch = 32
    signing_keys = [SigningKey.generate() for _ in range(batch)]
    # Only a batch of parties cast ballots; the others are on the roster because their number determines the slot width.
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
    return CountingTimings(
        like=like,
        key_bits=bits,
        ciphertexts_per_ballot=round_.plan.ciphertexts,
        bytes_per_ballot=Ballot.encoded_length(round_),
        milliseconds_per_ballot=milliseconds(samples_)["counted"],
        over_bare_multiplications=ratio(samples_["counted"], samples_["bare"]),
    )
