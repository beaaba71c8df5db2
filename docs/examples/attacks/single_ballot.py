"""Attack: a curator who asks the key holders to open a single ballot (docs/design.md, section 3).

A holder who opens whatever ciphertext it is sent opens any ballot: `KeyShare.partially_decrypt` would. The curator
could send the ballot itself, or all the others' product with one left out, or one ballot under the name of all. Here
a holder multiplies the ballots it has seen on the board and opens that product only, once.

What it cannot refuse: a party that lies. With its help the curator submits E(x) times the inverse of all other
ballots but one; the product of everything then is the one ballot and x. Nothing here proves that a ballot's sender
knows its content, so the semi-honest model is needed, and `malicious_ballot` shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from gmpy2 import invert, mpz

from psephos import setup_keys
from psephos.curator import Tally
from psephos.parties import KeyHolder, Party, VotingParty
from psephos.protocol.driver import Driver, replace_roles
from psephos.protocol.encrypted_sum.messages import Ballot, TallyRequest
from psephos.protocol.encrypted_sum.product import BallotProduct
from psephos.protocol.encrypted_sum.votes import VoteLayout, vote_round
from psephos.protocol.paillier.threshold import combine
from psephos.protocol.paillier.vectors import EncryptedVector
from psephos.protocol.roles import BOARD, Entry, Post, Role, Step
from psephos.protocol.wire import Kind

PARTIES, SAMPLES, CLASSES = 4, 6, 2

GENERATOR = np.random.default_rng(10)
AUXILIARY = GENERATOR.normal(size=(SAMPLES, 2))
VOTES = GENERATOR.integers(0, CLASSES, size=(PARTIES, SAMPLES))
CEREMONY = setup_keys(PARTIES, holders=3, threshold=2, key_bits=512, test_key=True)
ROUND = vote_round(CEREMONY.threshold_key, CEREMONY.roster, AUXILIARY, CLASSES, test_key=True, proofs="none")
VICTIM = VoteLayout(SAMPLES, CLASSES).encode(VOTES[0]).tolist()
"""What party 0's ballot holds."""


class Fixed:
    """A classifier that votes as it was told."""

    def __init__(self, party: int) -> None:
        self.party = party

    def predict_votes(self, X: object) -> object:
        return VOTES[self.party]


class Puppet(Role):
    """Reads the ballots, and when it is quiet sends what it was made for."""

    reads = frozenset({Kind.BALLOT})

    def __init__(self, name: str, say: Callable[[tuple[bytes, ...]], Post]) -> None:
        self.name, self.say = name, say

    def start(self) -> Step:
        return Step(())

    def receive(self, state: tuple[bytes, ...] | None, entries: Sequence[Entry]) -> Step:
        ballots = tuple(entry.data for entry in entries if entry.kind is Kind.BALLOT)
        return Step(None if state is None else (*state, *ballots))

    def on_idle(self, state: tuple[bytes, ...] | None) -> Step | None:
        return None if state is None else Step(None, (self.say(state),))


def roles() -> list[Role]:
    """An honest round."""
    voters = []
    for number in range(PARTIES):
        party = Party(number, CEREMONY.signing_keys[number], classes=range(CLASSES), voter=Fixed(number))
        voters.append(VotingParty(party, ROUND, AUXILIARY))
    return [*voters, Tally(ROUND), *(KeyHolder(share, ROUND) for share in CEREMONY.shares)]


def holders_that_obey() -> bool:
    """Two holders who open what they are sent: the curator reads the ballot of party 0."""
    ballot = Ballot.decode(roles()[0].start().posts[0].data, ROUND)
    parts = {share.holder: share.partially_decrypt(ballot.ciphertexts) for share in CEREMONY.shares[:2]}
    return ROUND.plan.unpack(combine(ROUND.threshold_key, parts), 1) == VICTIM


def requests() -> dict[str, str]:
    """What the curator may try, and the name of the refusal."""

    def product(ballots: Sequence[bytes]) -> TallyRequest:
        found, _ = BallotProduct(ROUND).add_all(ballots)
        return TallyRequest(ROUND.digest, found.members, found.digest)

    everybody = (1 << PARTIES) - 1
    tries: dict[str, Callable[[tuple[bytes, ...]], TallyRequest]] = {
        "one ballot": lambda ballots: product(ballots[:1]),
        "all but one": lambda ballots: product(ballots[:-1]),
        "one ballot under everybody's name": lambda ballots: replace(product(ballots[:1]), members=everybody),
    }
    refusals = {}
    for name, request in tries.items():
        greedy = Puppet("curator", lambda ballots, ask=request: Post("holder 1", ask(ballots).encode(ROUND)))
        driver = Driver(replace_roles(roles(), {"curator": lambda honest, greedy=greedy: greedy}), strict=False)
        driver.run()
        refusals[name] = ", ".join(type(refusal.error).__name__ for _, refusal in driver.refused)
    return refusals


def malicious_ballot() -> bool:
    """A lying party 3 cancels the ballots of 1 and 2: the honest opening gives party 0's votes. NOT protected."""

    def cancel(ballots: tuple[bytes, ...]) -> Post:
        square, lie = ROUND.key.ciphertext_modulus, [mpz(1)] * ROUND.plan.ciphertexts
        for ballot in (Ballot.decode(data, ROUND) for data in ballots):
            if ballot.party in (1, 2):
                inverses = [invert(c, square) for c in ballot.ciphertexts]
                lie = [c * i % square for c, i in zip(lie, inverses, strict=True)]
        vector = EncryptedVector(ROUND.key, ROUND.plan, tuple(lie))
        return Post(BOARD, Ballot.sign(ROUND, 3, vector, CEREMONY.signing_keys[3]).encode())

    liar = Puppet("party 3", cancel)
    opened = Driver(replace_roles(roles(), {"party 3": lambda honest: liar})).run()["curator"]
    return list(opened.sums) == VICTIM


if __name__ == "__main__":
    print(f"holders that obey: the curator reads a ballot: {holders_that_obey()}")
    for name, refusal in requests().items():
        print(f"holders as they are, {name}: {refusal or 'OPENED'}")
    print(f"a lying party cancels the others (not protected): the curator reads a ballot: {malicious_ballot()}")
