"""Outcomes about this machine: what a round will take (`psephos plan`), and how fast it is (`psephos bench`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from psephos.outcomes.base import Count, Fact, Outcome, Seconds, Table
from psephos.outcomes.runs import test_key_warning


@dataclass(frozen=True, kw_only=True)
class PlanOutcome(Outcome):
    """A counting round, predicted.

    Attributes:
        seconds: keygen, encrypt, aggregate, decrypt, total; wall clock.
        parties, auxiliary, classes, features: M, N, K, d.
        key_bits, randomness, workers, holders, threshold: as in the run.
        slots_per_plaintext, ciphertexts_per_ballot: the packing.
        bytes: of one ballot, of all, of the opening, and of what each observer of the board downloads.
        bits_per_count, floor_bits: on the wire, and ceil(log2(M + 1)).
        memory_mb: of all processes together without the data set.
        calibration_seconds: what measuring took.
    """

    kind: ClassVar[str] = "plan"

    parties: Count
    auxiliary: Count
    classes: Count
    features: Count
    key_bits: Count
    randomness: str
    workers: Count
    holders: Count
    threshold: Count
    slots_per_plaintext: Count
    ciphertexts_per_ballot: Count
    bytes: dict[str, Count]
    bits_per_count: float
    floor_bits: Count
    memory_mb: float
    calibration_seconds: Seconds

    @property
    def title(self) -> str:
        return "Psephos: a counting round, predicted"

    @property
    def warnings(self) -> list[str]:
        return test_key_warning(self.key_bits)

    @property
    def facts(self) -> list[Fact]:
        return [
            ("Parties", self.parties),
            ("Public auxiliary samples", self.auxiliary),
            ("Bits a count", self.bits_per_count, ", the floor is ", self.floor_bits),
            ("Memory of all processes, without the data set", self.memory_mb, " MB"),
        ]

    @property
    def tables(self) -> list[Table]:
        return [Table("On the wire", ("what", "bytes"), [[k.replace("_", " "), n] for k, n in self.bytes.items()])]


@dataclass(frozen=True)
class Comb:
    """Shape of the fixed-base tables of one randomness mode."""

    rows: Count
    tables: Count
    columns: Count
    multiplications: Count
    table_mb: float


@dataclass(frozen=True)
class Encryption:
    """Encryption under one key size, by mode; phe's own `encrypt` is "phe". Ratios are medians within one run."""

    key_bits: Count
    milliseconds_per_ciphertext: dict[str, float]
    times_faster_than_phe_per_ciphertext: dict[str, float]
    votes_per_ciphertext: float
    times_faster_than_phe_per_vote: dict[str, float]
    comb: dict[str, Comb]


@dataclass(frozen=True)
class Addition:
    """Counting ballots, all checks included, over the bare multiplications alone. `like`: the data set of that size."""

    like: str
    key_bits: Count
    ciphertexts_per_ballot: Count
    bytes_per_ballot: Count
    milliseconds_per_ballot: float
    over_bare_multiplications: float


@dataclass(frozen=True)
class Peers:
    """CPU milliseconds of each library for "encrypt", "add" and "decrypt"; why others were not measured."""

    key_bits: Count
    milliseconds: dict[str, dict[str, float]]
    not_measured: dict[str, str]


@dataclass(frozen=True)
class SecureComparison:
    """CPU milliseconds of one secure comparison of integers of `compared_bits` bits, by library."""

    key_bits: Count
    compared_bits: Count
    milliseconds: dict[str, float]
    times_faster_than_tno: float | None
    not_measured: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class BenchOutcome(Outcome):
    """Speed and size on this machine, beside the libraries that are installed.

    Attributes:
        machine, python, libraries: what was measured.
        encryption, addition, peers, comparisons: one entry per key size (two for addition).
    """

    kind: ClassVar[str] = "bench"

    machine: str
    python: str
    libraries: dict[str, str]
    encryption: list[Encryption]
    addition: list[Addition]
    peers: list[Peers]
    comparisons: list[SecureComparison]

    @property
    def title(self) -> str:
        return "Psephos: speed and size on this machine"

    @property
    def notes(self) -> list[str]:
        measured: list[Peers | SecureComparison] = [*self.peers, *self.comparisons]
        missing = {(name, why) for one in measured for name, why in one.not_measured.items()}
        return [f"{name} is not measured: {why}" for name, why in sorted(missing)]

    @property
    def tables(self) -> list[Table]:
        faster = [
            [f"{one.key_bits} {mode}", taken, *(ratios.get(mode, 1.0) for ratios in _ratios(one))]
            for one in self.encryption
            for mode, taken in one.milliseconds_per_ciphertext.items()
        ]
        counted: list[list[Any]] = [
            [f"{one.key_bits} {one.like}", one.ciphertexts_per_ballot, one.milliseconds_per_ballot,
             one.over_bare_multiplications]
            for one in self.addition
        ]  # fmt: skip
        work = ("encrypt", "add", "decrypt")
        others = [
            [f"{one.key_bits} {name}", *(taken.get(operation) for operation in work)]
            for one in self.peers
            for name, taken in one.milliseconds.items()
        ]
        compared = [
            [
                f"{one.key_bits} {name}",
                one.compared_bits,
                taken,
                one.times_faster_than_tno if name == "psephos" else 1.0,
            ]
            for one in self.comparisons
            for name, taken in one.milliseconds.items()
            for ours in [name == "psephos"]
        ]
        heading = ("bits, mode", "ms / ciphertext", "x phe / ciphertext", "x phe / vote, M = 20,000")
        tables = [
            Table("Encryption on one core", heading, faster, "Medians; phe's encrypt is 1."),
            Table(
                "Counting a ballot",
                ("bits, ballots like", "ciphertexts", "ms / ballot", "over bare multiplications"),
                counted,
                "All checks included.",
            ),
            Table("Other libraries", ("bits, library", *work), others, "CPU milliseconds."),
            Table("One secure comparison", ("bits, library", "bits compared", "CPU ms", "x TNO"), compared),
        ]
        return [table for table in tables if table.rows]


def _ratios(one: Encryption) -> tuple[dict[str, float], dict[str, float]]:
    return one.times_faster_than_phe_per_ciphertext, one.times_faster_than_phe_per_vote
