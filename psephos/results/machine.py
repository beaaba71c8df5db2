"""Results about this machine: the predicted cost of a run (`psephos plan`), and its speed (`psephos bench`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from psephos.results.base import Count, Page, Result, Seconds, Table
from psephos.results.runs import test_key_warning


@dataclass(frozen=True, kw_only=True)
class PlanResult(Result):
    """Predicted cost of a run.

    Attributes:
        seconds: wall-clock time of each phase: keygen, encrypt, aggregate, decrypt, total; for psgd keygen, prepare,
            steps, total.
        seconds_at_least, seconds_at_most: bounds of the interval for each phase.
        cores: how many of this machine's cores the run gets, measured in the trial runs.
        protocol: tally, average or psgd.
        parties, auxiliary, classes, features, steps: M, N (0 where nothing is voted on), K, d, T (1 but for psgd).
        key_bits, degree, randomness, proofs, workers, holders, threshold: as in the run.
        slots_per_plaintext, ciphertexts_per_ballot: the packing.
        bytes: size of one ballot and of all of them; for a sum also of its opening, and of what each observer of the
            board downloads.
        bits_per_count: bits on the wire for each number that is summed.
        floor_bits: bits that a sum of M such numbers needs; ceil(log2(M + 1)) for votes.
        memory_mb: peak memory of all processes together without the data set, in megabytes.
        calibration_seconds: seconds that the prediction took, trial runs included.
    """

    kind: ClassVar[str] = "plan"

    protocol: str
    seconds_at_least: dict[str, Seconds]
    seconds_at_most: dict[str, Seconds]
    cores: float
    parties: Count
    auxiliary: Count
    classes: Count
    features: Count
    steps: Count
    key_bits: Count
    degree: Count
    randomness: str
    proofs: str
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

    def page(self) -> Page:
        rows = [[name.replace("_", " "), size] for name, size in self.bytes.items()]
        times = [[name, self.seconds_at_least[name], s, self.seconds_at_most[name]] for name, s in self.seconds.items()]
        total, least, most = (each["total"] for each in (self.seconds, self.seconds_at_least, self.seconds_at_most))
        return Page(
            title=f"Psephos: {self.protocol}, predicted",
            answer=f"About {_duration(total)} on this machine ({_duration(least)} to {_duration(most)}); "
            f"{self.bytes['ballots'] / 1e6:,.3g} MB of ballots.",
            warnings=test_key_warning(self.key_bits),
            facts=[
                ("Parties", self.parties),
                ("Public auxiliary samples", self.auxiliary),
                ("Bits per summed number", self.bits_per_count, ", the floor is ", self.floor_bits),
                ("Memory of all processes, without the data set", self.memory_mb, " MB"),
                ("Cores available beside the programs that run now", self.cores),
            ],
            tables=[
                Table("On the wire", ("what", "bytes"), rows),
                Table("Seconds", ("phase", "at least", "likely", "at most"), times),
            ],
        )


def _duration(seconds: float | None) -> str:
    """Return a time with a suitable unit; "an unknown time" for None."""
    if seconds is None:
        return "an unknown time"
    for unit, length in (("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.2g} s"


@dataclass(frozen=True)
class CombTables:
    """Shape of the fixed-base tables of one randomness mode."""

    rows: Count
    tables: Count
    columns: Count
    multiplications: Count
    table_mb: float


@dataclass(frozen=True)
class EncryptionTimings:
    """Encryption under one key size, by mode; phe's own `encrypt` is "phe". Ratios are medians within one run.

    "half, degree 3" is mode half under a key of degree 3 instead of 1; "half, gmpy2" is the mode without the native
    kernel.
    """

    key_bits: Count
    milliseconds_per_ciphertext: dict[str, float]
    times_faster_than_phe_per_ciphertext: dict[str, float]
    times_faster_than_phe_per_vote: dict[str, float]
    bytes_per_vote: dict[str, float]
    comb: dict[str, CombTables]


@dataclass(frozen=True)
class CountingTimings:
    """Cost of counting ballots with all checks, also over bare multiplications; `like` is a data set of that size."""

    like: str
    key_bits: Count
    ciphertexts_per_ballot: Count
    bytes_per_ballot: Count
    milliseconds_per_ballot: float
    over_bare_multiplications: float


@dataclass(frozen=True)
class LibraryTimings:
    """CPU milliseconds of each library for "encrypt", "add" and "decrypt"; reasons why others were not measured."""

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
class BenchResult(Result):
    """Speed and size on this machine, beside the libraries that are installed.

    Attributes:
        machine, python, libraries: processor architecture, Python version, and version of each library.
        kernel: implementation of multiplication modulo n^(s+1), "ifma" (AVX-512) or "gmpy2".
        encryption, addition, peers, comparisons: one entry per key size (two for addition).
    """

    kind: ClassVar[str] = "bench"

    machine: str
    python: str
    kernel: str
    libraries: dict[str, str]
    encryption: list[EncryptionTimings]
    addition: list[CountingTimings]
    peers: list[LibraryTimings]
    comparisons: list[SecureComparison]

    def page(self) -> Page:
        measured: list[LibraryTimings | SecureComparison] = [*self.peers, *self.comparisons]
        missing = {(name, why) for one in measured for name, why in one.not_measured.items()}
        return Page(
            title="Psephos: speed and size on this machine",
            facts=[("Multiplications modulo n^2", self.kernel)],
            notes=[f"{name} is not measured: {why}" for name, why in sorted(missing)],
            tables=[table for table in self._tables() if table.rows],
        )

    def _tables(self) -> Iterator[Table]:
        faster = [
            [f"{one.key_bits} {mode}", duration, one.times_faster_than_phe_per_ciphertext.get(mode, 1.0),
             one.times_faster_than_phe_per_vote.get(mode, 1.0)]
            for one in self.encryption
            for mode, duration in one.milliseconds_per_ciphertext.items()
        ]  # fmt: skip
        heading = ("bits, mode", "ms / ciphertext", "x phe / ciphertext", "x phe / vote, M = 20,000")
        yield Table("Encryption on one core", heading, faster, "Medians; phe's encrypt is 1.")
        counted: list[list[Any]] = [
            [f"{one.key_bits} {one.like}", one.ciphertexts_per_ballot, one.milliseconds_per_ballot,
             one.over_bare_multiplications]
            for one in self.addition
        ]  # fmt: skip
        heading = ("bits, ballots like", "ciphertexts", "ms / ballot", "over bare multiplications")
        yield Table("Counting a ballot", heading, counted, "All checks included.")
        work = ("encrypt", "add", "decrypt")
        others = [
            [f"{one.key_bits} {name}", *(durations.get(operation) for operation in work)]
            for one in self.peers
            for name, durations in one.milliseconds.items()
        ]
        yield Table("Other libraries", ("bits, library", *work), others, "CPU milliseconds.")
        compared = [
            [
                f"{one.key_bits} {name}",
                one.compared_bits,
                duration,
                one.times_faster_than_tno if name == "psephos" else 1.0,
            ]
            for one in self.comparisons
            for name, duration in one.milliseconds.items()
        ]  # fmt: skip
        yield Table("One secure comparison", ("bits, library", "bits compared", "CPU ms", "x TNO"), compared)
