"""Attack: a curator who asks the key holders to open a single ballot (DESIGN section 3, "what a holder opens").

A holder who opens whatever ciphertext it is sent opens any ballot: `KeyShare.partially_decrypt` would. The curator
could send the ballot itself, or all the others' product with one left out, or one ballot under the name of all. Here
a holder multiplies the ballots it has seen on the board and opens that product only, once.

What it cannot refuse: a party that lies. With its help the curator submits E(x) times the inverse of all other
ballots but one; the product of everything then is the one ballot and x. Nothing here proves that a ballot's sender
knows its content, so the semi-honest model is needed, and `malicious_ballot` shows it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from gmpy2 import invert, mpz
from numpy.typing import NDArray

from psephos.curator.old_tally import Tally
from psephos.parties.old_holder import KeyHolder
from psephos.parties.old_party import Party
from psephos.protocol.encrypted_sum.messages import Ballot, TallyRequest
from psephos.protocol.encrypted_sum.product import BallotProduct
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.encrypted_sum.votes import VoteLayout, vote_round
from psephos.protocol.errors import PsephosError
from psephos.protocol.paillier.threshold import combine
from psephos.protocol.paillier.vectors import EncryptedVector
from psephos.protocol.randomness import SimulationRandomness
from psephos.security.worlds import FixedVoter, Setup, setup

PARTIES, SAMPLES, CLASSES = 4, 6, 2


def world() -> tuple[Setup, Round, list[Ballot], NDArray[np.int64]]:
    """A round with everybody's ballot."""
    generator = np.random.default_rng(10)
    auxiliary = generator.normal(size=(SAMPLES, 2))
    votes = generator.integers(0, CLASSES, size=(PARTIES, SAMPLES))
    made = setup(SimulationRandomness(10, "single ballot"), PARTIES)
    keys = made.ceremony.signing_keys
    round_ = vote_round(made.ceremony.threshold_key, made.ceremony.roster, auxiliary, CLASSES, test_key=True)
    ballots = [
        Party(p, keys[p], classes=range(CLASSES), voter=FixedVoter(votes[p])).cast(round_, auxiliary)
        for p in range(PARTIES)
    ]
    return made, round_, ballots, votes


def holders_that_obey() -> bool:
    """Two holders who open what they are sent: the curator reads the ballot of party 0."""
    made, round_, ballots, votes = world()
    parts = {share.holder: share.partially_decrypt(ballots[0].ciphertexts) for share in made.ceremony.shares[:2]}
    opened = round_.plan.unpack(combine(round_.threshold_key, parts), 1)
    return opened == VoteLayout(SAMPLES, CLASSES).encode(votes[0]).tolist()


def requests() -> dict[str, str]:
    """What the curator may try, and the name of the refusal."""
    made, round_, ballots, _ = world()

    def product(chosen: list[Ballot]) -> TallyRequest:
        found, _ = BallotProduct(round_).add_all([ballot.encode() for ballot in chosen])
        return TallyRequest(round_.digest, found.members, found.digest)

    tries = {
        "one ballot": product(ballots[:1]),
        "all but one": product(ballots[:-1]),
        "one ballot under everybody's name": replace(product(ballots[:1]), parties=tuple(range(PARTIES))),
    }
    refusals = {}
    for name, request in tries.items():
        holder = KeyHolder(made.ceremony.shares[0], round_)
        holder.observe_all(ballots)
        try:
            holder.partially_decrypt(request)
            refusals[name] = ""
        except PsephosError as error:
            refusals[name] = type(error).__name__
    return refusals


def malicious_ballot() -> bool:
    """A lying party 3 cancels the ballots of 1 and 2: the honest opening gives party 0's votes. NOT protected."""
    made, round_, ballots, votes = world()
    key = round_.key
    cancel = [mpz(1)] * round_.plan.ciphertexts
    for ballot in ballots[1:3]:
        inverses = [invert(b, key.modulus_squared) for b in ballot.ciphertexts]
        cancel = [c * i % key.modulus_squared for c, i in zip(cancel, inverses, strict=True)]
    vector = EncryptedVector(key, round_.plan, tuple(cancel))
    lie = Ballot.sign(round_, 3, vector, made.ceremony.signing_keys[3])
    board = [*ballots[:3], lie]
    tally = Tally(round_)
    tally.add_all(board)
    request, parts = tally.close(), []
    for share in made.ceremony.shares[:2]:
        holder = KeyHolder(share, round_)
        holder.observe_all(board)
        parts.append(holder.partially_decrypt(request))
    return list(tally.open(parts).sums) == VoteLayout(SAMPLES, CLASSES).encode(votes[0]).tolist()


if __name__ == "__main__":
    print(f"holders that obey: the curator reads a ballot: {holders_that_obey()}")
    for name, refusal in requests().items():
        print(f"holders as they are, {name}: {refusal or 'OPENED'}")
    print(f"a lying party cancels the others (not protected): the curator reads a ballot: {malicious_ballot()}")
