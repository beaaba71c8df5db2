"""What a holder in the ceremony knows between messages (`psephos.parties.ceremony`): a value for each part of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from gmpy2 import mpz

from psephos.protocol.paillier.threshold import ThresholdKey
from psephos.protocol.storage.values import storable
from psephos.protocol.wire import Kind

__all__ = [
    "AGAIN",
    "FIRST",
    "MODULI",
    "AwaitingExponentCommitments",
    "AwaitingExponentShares",
    "AwaitingOpenedSeeds",
    "AwaitingSeedCommitments",
    "AwaitingSeedContributions",
    "AwaitingTestDecryptions",
    "Done",
    "Evidence",
    "Failed",
    "MessageDigest",
    "Searching",
    "SeedMaterial",
]

FIRST, AGAIN, MODULI = 0, 1, 2
"""Stages of a batch: its moduli; one base for every candidate; `CONFIRMATIONS` and the form for who passed."""


@storable
@dataclass(frozen=True)
class SeedMaterial:
    """What seeds came from, and what a complaint about what is told in private is judged by.

    Attributes:
        secrets: of this holder's keys for each of the others.
        contributions: its own, to the seed of every set it is in.
        promised: what everybody committed to: its contributions, and its public keys.
        sealed: everybody's contributions, for each of the others.
    """

    secrets: tuple[bytes, ...] = field(repr=False)
    contributions: tuple[bytes, ...] = field(repr=False)
    promised: tuple[bytes, ...] = ()
    sealed: tuple[bytes, ...] = field(default=(), repr=False)


@storable
@dataclass(frozen=True)
class AwaitingSeedCommitments:
    """Nobody has said anything."""

    told: SeedMaterial


@storable
@dataclass(frozen=True)
class AwaitingSeedContributions:
    """Everybody has committed to its contributions."""

    told: SeedMaterial


@storable
@dataclass(frozen=True)
class MessageDigest:
    """That a holder said something in this batch: enough to see later whether it was right."""

    kind: int
    stage: int
    sender: str
    digest: bytes


@storable
@dataclass(frozen=True)
class Searching:
    """One batch of candidates, as far as it has come.

    Attributes:
        told: where the seeds come from.
        seeds: of the sets this holder is in, in their order.
        batch: its number, from 0.
        heard: everything said in it.
        commitments: to the batch's seed of every set, by each of its holders.
        products, differences: what was opened of the residues, as `Flat` in bytes.
        pieces: of p and q of all candidates, by set.
        moduli: all candidates.
        tested: the places of the candidates that are tested; passed: of those that are tested again.
        stage: MODULI, FIRST or AGAIN.
        values: this holder's message with its shares of n or its values, until all have committed to theirs.
        winner: the place of the modulus.
        shown: SHA-256 of the pieces of every set that were opened beside the winner's.
        due: the kind of message that this holder has sent and waits for from the others.
    """

    told: SeedMaterial
    seeds: tuple[bytes, ...] = field(repr=False)
    batch: int = 0
    heard: tuple[MessageDigest, ...] = ()
    commitments: tuple[tuple[bytes, ...], ...] = ()
    products: bytes = field(default=b"", repr=False)
    differences: bytes = field(default=b"", repr=False)
    pieces: tuple[tuple[tuple[mpz, ...], tuple[mpz, ...]], ...] = field(default=(), repr=False)
    moduli: tuple[mpz, ...] = field(default=(), repr=False)
    tested: tuple[int, ...] = ()
    passed: tuple[int, ...] = ()
    stage: int = MODULI
    values: bytes = field(default=b"", repr=False)
    winner: int | None = None
    shown: tuple[bytes, ...] = ()
    due: int = Kind.RESIDUE_PRODUCTS.value


@storable
@dataclass(frozen=True)
class AwaitingExponentCommitments:
    """The modulus is found; its batch, and this holder's polynomial."""

    search: Searching = field(repr=False)
    polynomial: tuple[int, ...] = field(repr=False)


@storable
@dataclass(frozen=True)
class Evidence:
    """The winner's batch, and what everybody said of d: theta_j, commitments to its polynomial, shares of it."""

    search: Searching = field(repr=False)
    thetas: tuple[mpz, ...] = field(default=(), repr=False)
    committed: tuple[tuple[mpz, ...], ...] = field(default=(), repr=False)
    sealed: tuple[bytes, ...] = field(default=(), repr=False)


@storable
@dataclass(frozen=True)
class AwaitingExponentShares:
    """The public key."""

    evidence: Evidence = field(repr=False)
    polynomial: tuple[int, ...] = field(repr=False)
    key: ThresholdKey


@storable
@dataclass(frozen=True)
class AwaitingTestDecryptions:
    """This holder's share."""

    evidence: Evidence = field(repr=False)
    key: ThresholdKey
    share: int = field(repr=False)


@storable
@dataclass(frozen=True)
class AwaitingOpenedSeeds:
    """Somebody lied about the winner: its batch is opened to see who, and there is no key."""

    evidence: Evidence = field(repr=False)


@storable
@dataclass(frozen=True)
class Done:
    """The key, and this holder's share of it; all else is forgotten."""

    key: ThresholdKey
    share: int = field(repr=False)


@storable
@dataclass(frozen=True)
class Failed:
    """It failed, by an error that was named: all that could open anything is forgotten."""

    why: str
