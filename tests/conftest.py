"""Keys, rounds and hypothesis profiles that many tests share.

Small keys come from a seed, so that a failure can be looked at again; nothing they protect is worth anything.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, settings

from psephos.curator.tally import OpenedSum, Tally
from psephos.parties.holder import KeyHolder
from psephos.protocol.driver import Driver
from psephos.protocol.encrypted_sum.messages import Ballot
from psephos.protocol.encrypted_sum.product import BallotProduct
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.paillier.encryption import Encryptor, RandomnessMode
from psephos.protocol.paillier.keys import PublicKey
from psephos.protocol.paillier.packing import PackingPlan
from psephos.protocol.paillier.private_key import PrivateKey, generate_private_key
from psephos.protocol.paillier.threshold import KeyShare, deal
from psephos.protocol.paillier.vectors import EncryptedVector
from psephos.protocol.randomness import SYSTEM, Randomness, SimulationRandomness
from psephos.protocol.roles import BOARD, Post, Role, Step
from psephos.protocol.signing import SigningKey

settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", parent=settings.get_profile("default"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")

CONTEXT = b"auxiliary set of the tests".ljust(32, b".")


@pytest.fixture(scope="session")
def private_key() -> PrivateKey:
    """A 512-bit test key of form "psephos"."""
    return generate_private_key(512, test_key=True, randomness=SimulationRandomness(1, "private_key"))


@pytest.fixture(scope="session")
def other_private_key() -> PrivateKey:
    """Another 512-bit test key."""
    return generate_private_key(512, test_key=True, randomness=SimulationRandomness(2, "private_key"))


@pytest.fixture(scope="session")
def tiny_private_key() -> PrivateKey:
    """A 64-bit test key: small enough to look into."""
    return generate_private_key(64, test_key=True, randomness=SimulationRandomness(3, "private_key"))


@pytest.fixture(scope="session")
def real_private_key() -> PrivateKey:
    """A 2048-bit key, the smallest that is not a test key, from the operating system's randomness."""
    return generate_private_key(2048)


class Sends(Role):
    """A role that says what it is told to, at once, whatever it hears."""

    def __init__(self, name: str, *messages: bytes, to: str = BOARD) -> None:
        self.name, self._posts = name, tuple(Post(to, data, "sent") for data in messages)

    def start(self) -> Step:
        return Step(None, self._posts)

    def receive(self, state: object, entries: object) -> Step:
        return Step(None)


@dataclass(frozen=True)
class Election:
    """One round with everybody's secrets: what a test plays all roles with."""

    private_key: PrivateKey
    shares: tuple[KeyShare, ...]
    signing_keys: tuple[SigningKey, ...]
    round: Round

    @property
    def key(self) -> PublicKey:
        return self.round.key

    def vector(
        self, values: Sequence[int], mode: RandomnessMode = "half", randomness: Randomness = SYSTEM
    ) -> EncryptedVector:
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
        """A signed ballot; by default one whose entries tell the party: entry i is 1 when bit i % 8 of party + 1 is."""
        chosen = self.values(party) if values is None else values
        return Ballot.sign(
            round_ or self.round, party, self.vector(chosen, randomness=randomness), self.signing_keys[party]
        )

    def values(self, party: int) -> list[int]:
        return [(party + 1) >> (i % 8) & 1 for i in range(self.round.plan.length)]

    def sums(self, parties: Sequence[int]) -> list[int]:
        return [sum(column) for column in zip(*(self.values(p) for p in parties), strict=True)]

    def product(self, ballots: Sequence[Ballot]) -> BallotProduct:
        """Of ballots that all count."""
        product, rejected = BallotProduct(self.round).add_all(ballot.encode() for ballot in ballots)
        assert rejected == []
        return product

    def holders(self) -> list[KeyHolder]:
        return [KeyHolder(share, self.round) for share in self.shares]

    def count(
        self, ballots: Sequence[Ballot | bytes], holders: Sequence[Role] | None = None, *, strict: bool = True
    ) -> OpenedSum:
        """What the curator opens when these ballots are posted and these holders take part."""
        encoded = [ballot.encode() if isinstance(ballot, Ballot) else ballot for ballot in ballots]
        senders = [Sends(f"sender {place}", data) for place, data in enumerate(encoded)]
        driver = Driver([*senders, Tally(self.round), *(self.holders() if holders is None else holders)], strict=strict)
        opened: OpenedSum = driver.run()["curator"]
        return opened


MakeElection = Callable[..., Election]


@pytest.fixture(scope="session")
def make_election(private_key: PrivateKey) -> MakeElection:
    """Makes a round of `parties` parties and `holders` holders over vectors of `length` entries."""

    def make(
        parties: int = 5,
        holders: int = 3,
        threshold: int = 2,
        *,
        length: int = 11,
        minimum: int = 0,
        maximum: int = 1,
        minimum_ballots: int | None = None,
        key: PrivateKey = private_key,
        context: bytes = CONTEXT,
        randomness: Randomness = SYSTEM,
    ) -> Election:
        threshold_key, shares = deal(key, holders=holders, threshold=threshold, randomness=randomness)
        plan = PackingPlan.for_key(key.public_key, length=length, addends=parties, minimum=minimum, maximum=maximum)
        signing_keys = tuple(SigningKey.generate(randomness) for _ in range(parties))
        round_ = Round.create(
            "votes",
            threshold_key,
            plan,
            tuple(k.verification_key for k in signing_keys),
            context=context,
            minimum_ballots=minimum_ballots,
            test_key=key.public_key.bits < 2048,
            randomness=randomness,
        )
        return Election(key, tuple(shares), signing_keys, round_)

    return make


@pytest.fixture(scope="session")
def election(make_election: MakeElection) -> Election:
    """Five parties, three holders, any two of which open; 400 entries, so three ciphertexts a ballot."""
    return make_election(5, 3, 2, length=400)
