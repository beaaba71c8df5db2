"""The options of every simulated run, and of one with key holders.

They stand apart from `psephos.simulation.key_setup`, which worker processes import: options of data load scikit-learn,
which takes a second.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from psephos.data.partition import DataOptions
from psephos.options import option
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.paillier.keys import DEFAULT_KEY_BITS, check_key_bits
from psephos.simulation.key_setup import Keys

__all__ = ["HolderOptions", "RunOptions"]


@dataclass(frozen=True, kw_only=True)
class RunOptions(DataOptions):
    """Options of every simulated run: its data, the length of its keys, and where its noise comes from."""

    key_bits: int = option(DEFAULT_KEY_BITS, "Length of the Paillier modulus.", group="Encryption")
    test_key: bool = option(False, "Accept a key under 2048 bits: protects nothing.", group="Encryption")
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
