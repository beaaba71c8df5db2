"""A round of an encrypted sum with the secrets of all its roles, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from psephos.audit.adversary import ScriptedRole
from psephos.curator.tally import Tally
from psephos.parties.holder import KeyHolder
from psephos.protocol.driver import Driver
from psephos.protocol.encrypted_sum.messages import Ballot
from psephos.protocol.encrypted_sum.opened import OpenedSum
from psephos.protocol.encrypted_sum.product import BallotProduct
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.paillier.encryption import Encryptor, RandomnessMode
from psephos.protocol.paillier.keys import PublicKey
from psephos.protocol.paillier.packing import PackingPlan
from psephos.protocol.paillier.private_key import PrivateKey, generate_private_key
from psephos.protocol.paillier.threshold import KeyShare, deal
from psephos.protocol.paillier.vectors import EncryptedVector
from psephos.protocol.randomness import SYSTEM, Randomness, SimulationRandomness
from psephos.protocol.roles import Role
from psephos.protocol.signing import SigningKey

CONTEXT = b"auxiliary set of the tests".ljust(32, b".")
"""The default public input of a round, 32 bytes."""


def short_key(seed: int = 1, bits: int = 512, degree: int = 1) -> PrivateKey:
    """Return a test key, the same for the same seed, so that a failure can be repeated. It protects nothing."""
    randomness = SimulationRandomness(seed, "private_key")
    return generate_private_key(bits, degree=degree, test_key=True, randomness=randomness)


@dataclass(frozen=True)
class SampleRound:
    """One round with the secrets of all its roles: the private key, its shares, and a signing key for each party."""

    private_key: PrivateKey = field(repr=False)
    shares: tuple[KeyShare, ...] = field(repr=False)
    signing_keys: tuple[SigningKey, ...] = field(repr=False)
    round: Round

    @property
    def key(self) -> PublicKey:
        return self.round.key

    def vector(
        self, values: Sequence[int], mode: RandomnessMode = "half", randomness: Randomness = SYSTEM
    ) -> EncryptedVector:
        """Encrypt a vector of the round's plan."""
        encryptor = Encryptor(self.key, mode, randomness=randomness, expected=64)
        return EncryptedVector.encrypt(encryptor, self.round.plan, values)

    def ballot(
        self,
        party: int,
        values: Sequence[int] | None = None,
        *,
        round_: Round | None = None,
        randomness: Randomness = SYSTEM,
    ) -> Ballot:
        """Return a signed ballot of a party: of `values(party)` and in this round unless others are given."""
        chosen = self.values(party) if values is None else values
        return Ballot.sign(
            round_ or self.round, party, self.vector(chosen, randomness=randomness), self.signing_keys[party]
        )

    def values(self, party: int) -> list[int]:
        """Return the default vector of a party: entry i is bit i % 8 of party + 1."""
        return [(party + 1) >> (i % 8) & 1 for i in range(self.round.plan.length)]

    def sums(self, parties: Sequence[int]) -> list[int]:
        return [sum(column) for column in zip(*(self.values(p) for p in parties), strict=True)]

    def product(self, ballots: Sequence[Ballot]) -> BallotProduct:
        """Return the product of ballots that are all valid."""
        product, rejected = BallotProduct(self.round).add_all(ballot.encode() for ballot in ballots)
        assert rejected == []
        return product

    def holders(self) -> list[KeyHolder]:
        return [KeyHolder(share, self.round) for share in self.shares]

    def count(
        self, ballots: Sequence[Ballot | bytes], holders: Sequence[Role] | None = None, *, strict: bool = True
    ) -> OpenedSum:
        """Return what the curator opens when these ballots, or their encodings, are posted by "sender 0" and so on.

        `strict`: whether the first message that a role refuses ends the run with its error.
        """
        encoded = [ballot.encode() if isinstance(ballot, Ballot) else ballot for ballot in ballots]
        senders = [ScriptedRole(f"sender {place}", data) for place, data in enumerate(encoded)]
        driver = Driver([*senders, Tally(self.round), *(self.holders() if holders is None else holders)], strict=strict)
        opened: OpenedSum = driver.run()["curator"]
        return opened


def hold_round(
    parties: int = 5,
    holders: int = 3,
    threshold: int = 2,
    *,
    key: PrivateKey | None = None,
    length: int = 11,
    span: tuple[int, int] = (0, 1),
    randomness: Randomness = SYSTEM,
    **terms: Any,
) -> SampleRound:
    """Make the keys and the terms of a round; no ballot is cast yet.

    `threshold` of the `holders` open a sum of vectors with `length` entries within `span`; `key` is `short_key()` by
    default, and `terms` are arguments of `Round.create`. Raises what `Round.create`, `deal` and `PackingPlan.for_key`
    raise.
    """
    key = short_key() if key is None else key
    threshold_key, shares = deal(key, holders=holders, threshold=threshold, randomness=randomness)
    signing_keys = tuple(SigningKey.generate(randomness) for _ in range(parties))
    round_ = Round.create(
        "votes",
        threshold_key,
        PackingPlan.for_key(key.public_key, length=length, addends=parties, minimum=span[0], maximum=span[1]),
        tuple(k.verification_key for k in signing_keys),
        **{"context": CONTEXT, "test_key": key.public_key.bits < 2048, "randomness": randomness, **terms},
    )
    return SampleRound(key, tuple(shares), signing_keys, round_)
