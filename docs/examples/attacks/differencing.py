"""Attack: differencing two tallies (docs/design.md, section 3, on casting twice).

Two counts over one auxiliary set, one party absent from the second: the difference is that party's vote on every
sample. The curator need only announce a second round. Here a party casts once per auxiliary set, whatever the round,
and remembers it; a party that forgets (no store on disk) is open to the attack, which is why it is kept on disk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from psephos import KeySetup, setup_keys
from psephos.curator import Tally
from psephos.parties import KeyHolder, Party, VotingParty
from psephos.protocol.driver import Driver
from psephos.protocol.encrypted_sum.votes import VoteLayout, vote_round
from psephos.protocol.errors import AlreadyCastError
from psephos.protocol.storage.store import OnceLedger

PARTIES, SAMPLES, CLASSES, VICTIM = 5, 8, 3, 2


class Fixed:
    """A classifier that votes as it was told."""

    def __init__(self, votes: NDArray[np.int64]) -> None:
        self.votes = votes

    def predict_votes(self, X: NDArray[np.float64]) -> NDArray[np.int64]:
        return self.votes


def attack() -> tuple[bool, str]:
    """Whether the difference is the victim's votes when parties forget, and what happens when they do not."""
    generator = np.random.default_rng(9)
    auxiliary = generator.normal(size=(SAMPLES, 2))
    votes = generator.integers(0, CLASSES, size=(PARTIES, SAMPLES))
    ceremony = setup_keys(PARTIES, holders=3, threshold=2, key_bits=512, test_key=True)
    others = [party for party in range(PARTIES) if party != VICTIM]
    difference = count(ceremony, auxiliary, votes, range(PARTIES), {}) - count(ceremony, auxiliary, votes, others, {})
    opened = bool((difference.argmax(axis=1) == votes[VICTIM]).all())
    remember = {party: OnceLedger() for party in range(PARTIES)}
    count(ceremony, auxiliary, votes, range(PARTIES), remember)
    try:
        count(ceremony, auxiliary, votes, others, remember)
    except AlreadyCastError as error:
        return opened, str(error)
    return opened, ""


def count(
    ceremony: KeySetup,
    auxiliary: NDArray[np.float64],
    votes: NDArray[np.int64],
    present: Sequence[int],
    remember: Mapping[int, OnceLedger],
) -> NDArray[np.int64]:
    """The opened counts (N, K) of a round in which `present` vote."""
    round_ = vote_round(ceremony.threshold_key, ceremony.roster, auxiliary, CLASSES, minimum_ballots=2, test_key=True)
    voters = []
    for number in present:
        key, voter = ceremony.signing_keys[number], Fixed(votes[number])
        party = Party(number, key, classes=range(CLASSES), voter=voter, once=remember.get(number))
        voters.append(VotingParty(party, round_, auxiliary))
    holders = [KeyHolder(share, round_) for share in ceremony.shares]
    opened = Driver([*voters, Tally(round_), *holders]).run()["curator"]
    return VoteLayout(SAMPLES, CLASSES).decode(opened.sums, opened.ballots)


if __name__ == "__main__":
    opened, refusal = attack()
    print(f"parties that forget: the difference is party {VICTIM}'s votes: {opened}")
    print(f"parties that remember: {refusal}")
