"""How far one deviating party can move a sum when ballots prove knowledge only: anywhere in the box of M entries.

docs/security/proofs.md, "What one liar can do to a result". Keys of 512 bits protect nothing.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
from gmpy2 import mpz

from psephos.protocol.errors import PackingError
from psephos.protocol.grids.fixed_point import FixedPoint
from psephos.protocol.grids.own_data import OwnDataGrid
from psephos.protocol.grids.statistic import StatisticGrid
from psephos.protocol.paillier.ciphertexts import add_ciphertexts
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.packing import PackingPlan
from psephos.protocol.paillier.private_key import PrivateKey
from psephos.protocol.proofs import knowledge

PARTIES, ENTRIES = 5, 6
GENERATOR = np.random.default_rng(14)
GRID = StatisticGrid(GENERATOR.integers(-9, 10, (7, 2)), np.array([[1, -1, 0], [1, 1, -2]]))
OWN = OwnDataGrid(np.eye(2), 3)
RANGES = {
    "votes": (0, 1),
    "statistic": (GRID.minimum, GRID.maximum),
    "own data": (OWN.minimum, OWN.maximum),
    "parameters": (-FixedPoint(24).limit(2.0), FixedPoint(24).limit(2.0)),
}


@pytest.mark.parametrize("what", RANGES)
def test_a_deviating_party_can_move_the_sum_anywhere_in_the_box_only(private_key: PrivateKey, what: str) -> None:
    """The worst case: the party knows what the others sent."""
    key, (low, high) = private_key.public_key, RANGES[what]
    plan = PackingPlan.for_key(key, length=ENTRIES, addends=PARTIES, minimum=low, maximum=high)
    encryptor = Encryptor(key, expected=32)
    honest = GENERATOR.integers(low, high + 1, (PARTIES - 1, ENTRIES))
    others = [encryptor.encrypt(plan.pack(row.tolist())) for row in honest]

    def opened(target: list[int]) -> list[int]:
        slots = plan.slots_per_plaintext
        lie = [wanted - int(sum_) - low for wanted, sum_ in zip(target, honest.sum(axis=0), strict=True)]
        runs = [lie[at : at + slots] for at in range(0, ENTRIES, slots)]
        plaintexts = [mpz(sum(v * plan.radix**i for i, v in enumerate(run))) % key.modulus for run in runs]
        ciphertexts, witness = encryptor.encrypt_with_witness(plaintexts)
        proof = knowledge.prove(b"party 4", key, ciphertexts, witness, "half")
        knowledge.verify(b"party 4", key, ciphertexts, proof)  # the proof is accepted
        product = add_ciphertexts(key, *others, ciphertexts)
        return plan.unpack([private_key.raw_decrypt(c) for c in product], PARTIES)

    anywhere = GENERATOR.integers(PARTIES * low, PARTIES * high + 1, ENTRIES).tolist()
    for target in ([PARTIES * high] * ENTRIES, [PARTIES * low] * ENTRIES, anywhere):
        assert opened(target) == target
    for outside in (PARTIES * high + 1, PARTIES * low - 1):  # overflows into the next slot, or out of the last
        for place in (0, ENTRIES - 1):
            target = [*anywhere[:place], outside, *anywhere[place + 1 :]]
            with suppress(PackingError):
                assert all(PARTIES * low <= entry <= PARTIES * high for entry in opened(target))
