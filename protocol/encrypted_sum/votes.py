"""Encoding of votes as vectors, with K - 1 entries per auxiliary sample (one entry for two classes).

Entry (i, k) is 1 if the party votes for class k + 1 on sample i. The count of class 0 is M minus the other counts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psephos.protocol.encrypted_sum.rounds import Proofs, Round
from psephos.protocol.errors import DataError, InvalidParameter, WrongPartialDecryptionError
from psephos.protocol.paillier.keys import PublicKey
from psephos.protocol.paillier.packing import PackingPlan
from psephos.protocol.paillier.threshold import ThresholdKey
from psephos.protocol.randomness import SYSTEM, Randomness
from psephos.protocol.signing import VerificationKey


class AuxiliarySet:
    """The auxiliary samples of a round, finite float64 (N, d), hashed once for all parties.

    They are public, unless they have a `salt`: random bytes that the curator gives to the parties together with the
    samples, so that the context on the board confirms no guess of them. A party remembers that it has voted on the
    `digest` of shape and samples.
    """

    def __init__(self, samples: ArrayLike, salt: bytes = b"") -> None:
        """Copy finite samples (N, d), with a salt of 32 bytes or none; raise DataError for other samples."""
        if len(salt) not in (0, 32):
            raise InvalidParameter(f"a salt has 32 bytes, or none where the samples are public, not {len(salt)}")
        try:
            array = np.array(samples, dtype="<f8", order="C") + 0.0  # -0.0 equals 0.0 but would change the digest
        except (TypeError, ValueError):
            raise DataError("the auxiliary samples are not a table of numbers") from None
        if array.ndim != 2 or array.size == 0:
            raise DataError(f"the auxiliary samples must have shape (N, d) with N, d >= 1, not {array.shape}")
        if not np.isfinite(array).all():
            raise DataError("the auxiliary samples have NaN or infinite features")
        array.flags.writeable = False
        self.samples: NDArray[np.float64] = array
        state = hashlib.sha256(b"psephos auxiliary\0" + repr(array.shape).encode())
        state.update(array.data)
        self.digest = state.digest()
        self._salt = salt

    @staticmethod
    def of(samples: ArrayLike | AuxiliarySet) -> AuxiliarySet:
        return samples if isinstance(samples, AuxiliarySet) else AuxiliarySet(samples)

    def context(self, classes: Sequence[Any]) -> bytes:
        """Return the context of a round of votes: SHA-256 of the salt, the samples and the classes in their order."""
        names = [str(label).encode() for label in classes]
        parts = b"".join(len(name).to_bytes(4, "big") + name for name in names)
        return hashlib.sha256(
            b"psephos votes\0"
            + len(self._salt).to_bytes(1, "big")
            + self._salt
            + self.digest
            + len(names).to_bytes(4, "big")
            + parts
        ).digest()


@dataclass(frozen=True)
class VoteLayout:
    """The layout of votes of K agreed classes on N auxiliary samples in a vector."""

    samples: int
    classes: int

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise InvalidParameter("a vote needs at least one auxiliary sample")
        if self.classes < 2:
            raise InvalidParameter(f"a vote needs at least two classes, not {self.classes}")

    def plan(self, key: PublicKey, parties: int) -> PackingPlan:
        return PackingPlan.for_key(key, length=self.samples * (self.classes - 1), addends=parties)

    def encode(self, votes: NDArray[np.integer]) -> NDArray[np.uint8]:
        """Encode one party's votes, class indices (N,), as uint8 (N (K - 1),); raise DataError for others.

        Examples:
            >>> VoteLayout(samples=3, classes=3).encode(np.array([0, 2, 1]))
            array([0, 0, 0, 1, 1, 0], dtype=uint8)
        """
        votes = np.asarray(votes)
        if votes.shape != (self.samples,) or votes.dtype.kind not in "iu":
            raise DataError(f"votes must be integers of shape ({self.samples},), not {votes.dtype}, {votes.shape}")
        if votes.min() < 0 or votes.max() >= self.classes:
            raise DataError(f"votes must be class indices from 0 to {self.classes - 1}")
        one_hot: NDArray[np.bool_] = votes[:, None] == np.arange(1, self.classes)
        return one_hot.reshape(-1).astype(np.uint8)

    def decode(self, sums: Sequence[int], ballots: int) -> NDArray[np.int64]:
        """Decode sums of M ballots into counts, int64 (N, K); raise WrongPartialDecryptionError for impossible ones.

        Examples:
            >>> VoteLayout(samples=2, classes=3).decode([1, 0, 2, 4], ballots=7)
            array([[6, 1, 0],
                   [1, 2, 4]])
        """
        if len(sums) != self.samples * (self.classes - 1):
            raise WrongPartialDecryptionError(f"{len(sums)} sums do not fit {self}")
        counts = np.array(sums, dtype=np.int64).reshape(self.samples, self.classes - 1)
        rest = ballots - counts.sum(axis=1)
        if counts.min() < 0 or rest.min() < 0:
            raise WrongPartialDecryptionError(f"the opened counts are not possible for {ballots} ballots")
        return np.column_stack([rest, counts])


def vote_round(
    threshold_key: ThresholdKey,
    roster: Sequence[VerificationKey],
    auxiliary: ArrayLike | AuxiliarySet,
    classes: int | Sequence[Any],
    *,
    minimum_ballots: int | None = None,
    test_key: bool = False,
    proofs: Proofs = "knowledge",
    randomness: Randomness = SYSTEM,
) -> Round:
    """Create a round that counts votes on an auxiliary set.

    The auxiliary samples, float64 (N, d), are those that every party will vote on; the K classes are in the order of
    the counts, where an integer K stands for 0 .. K - 1; the minimum is half of the parties by default. Raises
    DataError for samples that are none, and InvalidParameter for terms that do not fit together (see `Round`).
    """
    labels = range(classes) if isinstance(classes, int) else classes
    public = AuxiliarySet.of(auxiliary)
    return Round.create(
        "votes",
        threshold_key,
        VoteLayout(len(public.samples), len(labels)).plan(threshold_key.key, len(roster)),
        roster,
        context=public.context(labels),
        minimum_ballots=minimum_ballots,
        test_key=test_key,
        proofs=proofs,
        group=len(labels) - 1,
        randomness=randomness,
    )
