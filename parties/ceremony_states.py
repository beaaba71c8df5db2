"""The states of a holder in the ceremony (`psephos.parties.ceremony`), in the order of the protocol."""

from __future__ import annotations

from dataclasses import dataclass, field

from gmpy2 import mpz

from psephos.protocol.paillier.threshold import ThresholdKey
from psephos.protocol.storage.values import storable
from psephos.protocol.wire import Kind

FIRST, AGAIN, MODULI = 0, 1, 2
"""Stages of a batch: computing the moduli (MODULI); a test with one base for every candidate (FIRST); and a test with
`CONFIRMATIONS` bases, and of the form, for those that passed (AGAIN)."""


@storable
@dataclass(frozen=True)
class SeedMaterial:
    """The origin of the seeds, by which complaints about sealed messages are judged.

    Attributes:
        secrets: this holder's private keys for each of the others.
        contributions: this holder's contributions to the seeds of its sets.
        seed_commitments: of each holder, the commitments to its contributions, and its public keys.
        sealed: of each holder, its contributions, sealed for each of the others.
    """

    secrets: tuple[bytes, ...] = field(repr=False)
    contributions: tuple[bytes, ...] = field(repr=False)
    seed_commitments: tuple[bytes, ...] = ()
    sealed: tuple[bytes, ...] = field(default=(), repr=False)

    @property
    def due(self) -> int:
        return Kind.SEED_CONTRIBUTIONS if self.seed_commitments else Kind.SEED_COMMITMENTS


@storable
@dataclass(frozen=True)
class MessageDigest:
    kind: int
    stage: int
    sender: str
    digest: bytes


@storable
@dataclass(frozen=True)
class ModulusSearch:
    """The search for a modulus, in batch number `batch` of candidates.

    Fields whose names do not say it:
        seeds: of the sets that this holder is in, in their order.
        digests: of all messages of the batch.
        commitments: to the batch's seed of every set, by each of its holders.
        products, differences: what was opened of the residues, as `Flat` in bytes.
        pieces: of p and q of all candidates (`moduli`), by set.
        tested: the places of the candidates that are tested; passed: of those that are tested again.
        values: this holder's message with its shares of n or its values, until all have committed to theirs.
        winner: the place of the modulus.
        form_sums: of the winner, the sums of all holders' shares of multiples of phi(n), not reduced.
        opened_digests: SHA-256 of the pieces of every set that were opened beside the winner's.
        due: the kind of message that this holder has sent and waits for from the others.
    """

    material: SeedMaterial
    seeds: tuple[bytes, ...] = field(repr=False)
    batch: int = 0
    digests: tuple[MessageDigest, ...] = ()
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
    form_sums: tuple[mpz, ...] = field(default=(), repr=False)
    opened_digests: tuple[bytes, ...] = ()
    due: int = Kind.RESIDUE_PRODUCTS.value

    @property
    def place(self) -> int:
        assert self.winner is not None
        return self.winner

    @property
    def modulus(self) -> mpz:
        return self.moduli[self.place]


@storable
@dataclass(frozen=True)
class ExponentSharing:
    """The modulus is found: its batch, what all holders have sent about d, and what this holder knows of it.

    Fields whose names do not say it:
        polynomial: this holder's, which shares its part of d.
        thetas, committed: of each holder, its part of theta, and the commitments to its polynomial.
        form: of each holder, its part of the proof of form: x_j of the test `sieved`, and its roots for both tests.
        sealed: of each holder, its shares of d, sealed for each of the others.
        due: the kind of message that this holder has sent and waits for from the others.
    """

    search: ModulusSearch = field(repr=False)
    polynomial: tuple[int, ...] = field(default=(), repr=False)
    thetas: tuple[mpz, ...] = field(default=(), repr=False)
    committed: tuple[tuple[mpz, ...], ...] = field(default=(), repr=False)
    form: tuple[tuple[mpz, ...], ...] = field(default=(), repr=False)
    sealed: tuple[bytes, ...] = field(default=(), repr=False)
    key: ThresholdKey | None = None
    share: int = field(default=0, repr=False)
    due: int = Kind.EXPONENT_COMMITMENTS.value


@storable
@dataclass(frozen=True)
class CeremonyDone:
    """The ceremony is over: the key and this holder's share. All other secrets are erased."""

    key: ThresholdKey
    share: int = field(repr=False)


@storable
@dataclass(frozen=True)
class CeremonyFailed:
    """The ceremony failed, for the reason `why`. All secrets are erased."""

    why: str
