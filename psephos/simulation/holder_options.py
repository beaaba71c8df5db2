"""The options of every simulated run, and of one with key holders.

They stand apart from `psephos.simulation.key_setup`, which worker processes import: options of data load scikit-learn,
which takes a second.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, ClassVar

from psephos.data.partition import DataOptions
from psephos.options import Options, option
from psephos.protocol.encrypted_sum.rounds import Proofs
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.paillier.encryption import RandomnessMode
from psephos.protocol.paillier.keys import DEFAULT_KEY_BITS, check_key_bits
from psephos.simulation.key_setup import Keys


@dataclass(frozen=True, kw_only=True)
class KeyOptions(Options):
    """The length of keys."""

    key_bits: int = option(DEFAULT_KEY_BITS, "Length of the Paillier modulus.", group="Encryption")
    test_key: bool = option(False, "Accept a key under 2048 bits: protects nothing.", group="Encryption")


@dataclass(frozen=True, kw_only=True)
class BallotOptions(Options):
    """How ballots are encrypted, and what they prove."""

    randomness: RandomnessMode = option("half", "The way in which ciphertexts are randomised.", group="Encryption")
    proofs: Proofs = option(
        "none",
        "What a ballot proves: nothing (parties follow the protocol), that its sender knows what is in it, or also "
        "that its votes are valid, or its vector within bounds. With proofs, holders prove their partial decryptions.",
        group="Encryption",
    )


@dataclass(frozen=True, kw_only=True)
class MachineOptions(Options):
    """How much of this machine is used."""

    workers: int = option(
        None,
        "The most processes; up to 96 parties take one.",
        group="Machine",
        shown="up to 2",
        factory=lambda: min(2, os.cpu_count() or 1),
    )


@dataclass(frozen=True, kw_only=True)
class JournalOptions(Options):
    """Where an interrupted run is stored."""

    journal: str | None = option(
        None,
        "The directory for what is finished, from which an interrupted run continues. It contains secrets.",
        group="Machine",
    )


@dataclass(frozen=True, kw_only=True)
class ClusterOptions(MachineOptions, JournalOptions):
    """On which machines parties are simulated."""

    engine: str = option(
        "local", "The machine or cluster on which parties are simulated: local, or dask (a cluster).", group="Machine"
    )
    scheduler: str | None = option(None, "dask: the scheduler's address, HOST:PORT.", group="Machine")


@dataclass(frozen=True, kw_only=True)
class JointNoiseOptions(Options):
    """Whom the noise of the parties, or of the key holders, must withstand, and what is protected."""

    record: str | None = option(
        None,
        "With --unit record: the column that names the person of a row. A person's rows at a party then count as one, "
        "so that the person is protected.",
        group="Privacy",
        shown="every row is a record of its own",
        name=True,
    )
    colluders: int | None = option(
        None,
        "Parties that may tell each other their noise (where the parties add it; with --noise-from holders, key "
        "holders); key holders are parties.",
        group="Privacy",
        shown="threshold - 1",
    )
    dropouts: int = option(0, "Parties that may stay away (joint noise).", group="Privacy")


@dataclass(frozen=True, kw_only=True)
class RunOptions(KeyOptions, DataOptions):
    """Options of every simulated run: its data, the length of its keys, and where its noise comes from."""

    simulate_noise: bool = option(False, "Draw the noise from the seed: repeatable, not private.", group="Machine")

    def check(self) -> None:
        """Raise InvalidParameter for invalid options, before anything is computed."""
        super().check()
        check_key_bits(self.key_bits, test_key=self.test_key)


@dataclass(frozen=True, kw_only=True)
class HolderOptions(RunOptions):
    """Options of a run with key holders, which are some of the parties.

    Attributes:
        usual_holders: number of key holders where `holders` is None and there are as many parties.
    """

    holders: int | None = option(
        None,
        "Number of key holders, the first n parties.",
        group="Encryption",
        shown="5 in most protocols, 3 in psgd; never more than the parties",
    )
    threshold: int | None = option(
        None,
        "Number of holders that open a sum. Holders who make the key themselves: at most half, rounded up.",
        group="Encryption",
        shown="with a dealer the smallest majority of the holders, else half of them, rounded up",
    )
    keys: Keys = option("dealer", "Who makes the key: a dealer, or the holders themselves.", group="Encryption")
    usual_holders: ClassVar[int] = 5

    @property
    def key_holders(self) -> int:
        """Number of key holders."""
        return min(self.usual_holders, self.parties) if self.holders is None else self.holders

    @property
    def opening_threshold(self) -> int:
        """Number of holders that open a sum."""
        if self.threshold is not None:
            return self.threshold
        return (self.key_holders + 1) // 2 if self.keys == "ceremony" else self.key_holders // 2 + 1

    def check(self) -> None:
        """Raise InvalidParameter for invalid options, before anything is computed."""
        super().check()
        holders, threshold = self.key_holders, self.opening_threshold
        if not 1 <= threshold <= holders:
            raise InvalidParameter(f"the threshold ({threshold}) lies between 1 and the holders ({holders})")
        if holders > self.parties:
            raise InvalidParameter(
                f"key holders are some of the parties: {holders} of {self.parties} is too many; lower --holders"
            )

    def plain(self) -> dict[str, Any]:
        """Return the options as JSON values, by name, with the numbers of holders that the run uses."""
        return super().plain() | {"holders": self.key_holders, "threshold": self.opening_threshold}
