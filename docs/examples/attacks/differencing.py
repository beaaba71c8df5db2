"""Attack: differencing two tallies (DESIGN section 3, "twice the same auxiliary set").

Two counts over one auxiliary set, one party absent from the second: the difference is that party's vote on every
sample. The curator need only announce a second round. Here a party casts once per auxiliary set, whatever the round,
and remembers it; a party that forgets (no ledger on disk) is open to the attack, which is why the ledger is kept on
disk.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from psephos.parties.old_party import Party
from psephos.protocol.encrypted_sum.messages import Ballot
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.encrypted_sum.votes import VoteLayout, vote_round
from psephos.protocol.errors import AlreadyCastError
from psephos.protocol.randomness import Randomness, SimulationRandomness
from psephos.protocol.storage.ledger import OnceLedger
from psephos.security.worlds import FixedVoter, Setup, run_sum, setup

PARTIES, SAMPLES, CLASSES, VICTIM = 5, 8, 3, 2


def attack() -> tuple[bool, str]:
    """Whether the difference is the victim's votes when parties forget, and what happens when they do not."""
    generator = np.random.default_rng(9)
    auxiliary = generator.normal(size=(SAMPLES, 2))
    votes = generator.integers(0, CLASSES, size=(PARTIES, SAMPLES))
    world = setup(SimulationRandomness(9, "differencing"), PARTIES)
    forgetful = count(world, auxiliary, votes, range(PARTIES), remember=None)
    without = count(world, auxiliary, votes, [p for p in range(PARTIES) if p != VICTIM], remember=None)
    difference = (forgetful - without).argmax(axis=1)
    ledgers = {party: OnceLedger() for party in range(PARTIES)}
    count(world, auxiliary, votes, range(PARTIES), remember=ledgers)
    try:
        count(world, auxiliary, votes, [p for p in range(PARTIES) if p != VICTIM], remember=ledgers)
    except AlreadyCastError as error:
        return bool((difference == votes[VICTIM]).all()), str(error)
    return bool((difference == votes[VICTIM]).all()), ""


def count(
    world: Setup,
    auxiliary: NDArray[np.float64],
    votes: NDArray[np.int64],
    present: range | list[int],
    remember: dict[int, OnceLedger] | None,
) -> NDArray[np.int64]:
    """The opened counts (N, K) of a round in which `present` vote."""
    ceremony = world.ceremony
    round_ = vote_round(ceremony.threshold_key, ceremony.roster, auxiliary, CLASSES, test_key=True)

    def cast(party: int, round_: Round, coins: Randomness) -> Ballot:
        voter, ledger = FixedVoter(votes[party]), None if remember is None else remember[party]
        key = ceremony.signing_keys[party]
        return Party(party, key, classes=range(CLASSES), voter=voter, once=ledger).cast(round_, auxiliary)

    run = run_sum(world, round_, cast, lambda name: SimulationRandomness(9, name), present=present)
    return VoteLayout(SAMPLES, CLASSES).decode(run.opened.sums, run.opened.ballots)


if __name__ == "__main__":
    opened, refusal = attack()
    print(f"parties that forget: the difference is party {VICTIM}'s votes: {opened}")
    print(f"parties that remember: {refusal}")
