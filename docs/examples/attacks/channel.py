"""Attack: reading pi_1 off the channel in Pathak's Stage 1 (docs/security/index.md, finding 5).

Step 2 says that P_j "sends its share b_j to Charlie with the index changed according to the permutation". Unless the
channel is anonymous Charlie sees who sends him the share at index pi_1(j): it is P_j. He finds the index of the
smallest data set himself, so that index is a party's name, and the order of all comparisons is an order of parties.

Here b_j travels sealed through P_{pi_1(j)}. Charlie gets the share at index i from P_i, whose it is not.
"""

from __future__ import annotations

import numpy as np

from psephos.protocol.pathak.messages import Ciphertexts
from psephos.protocol.transcript import Transcript
from psephos.protocol.wire import Kind
from psephos.simulation.pathak import PathakKeys, make_terms, run_protocol

SIZES = (24, 30, 16, 28)
SMALLEST = 2


def play(keys: PathakKeys, seed: int) -> tuple[int, int]:
    """One run: Charlie's guess who is smallest, as printed and here."""
    generator = np.random.default_rng(seed)
    records = [(generator.normal(size=(n, 2)) / 10, generator.integers(0, 2, size=n)) for n in SIZES]
    terms = make_terms(
        parties=4,
        features=2,
        lam=0.1,
        epsilon=1.0,
        tolerance=1e-6,
        variant="printed",
        smallest_size=16,
        largest_size=32,
    )
    transcript = Transcript(secrets=True)
    run_protocol(records, terms, keys, test_key=True, transcript=transcript)
    selection = next(m.data for m in transcript.messages if m.kind == Kind.SELECTION.title)
    found = Ciphertexts.decode(selection, Kind.SELECTION, terms, keys.curator.public_key, 4)
    index = [keys.curator.raw_decrypt(c) for c in found.ciphertexts].index(1)  # his own choice: pi_1(smallest)
    # As printed, whoever hands over a size share sends it to Charlie himself, under the index that it has.
    sent = {m.receiver: m.sender for m in transcript.messages if m.kind == Kind.SIZE_SHARE.title}
    return int(sent.get(f"party {index}", f"party {index}").split()[1]), index


def attack(runs: int = 30) -> tuple[float, float]:
    """How often Charlie is right, as printed and here."""
    keys = PathakKeys.generate(512, test_key=True)
    guesses = np.array([play(keys, seed) for seed in range(runs)])
    printed, ours = (guesses == SMALLEST).mean(axis=0)
    return float(printed), float(ours)


if __name__ == "__main__":
    always, sometimes = attack()
    print(f"as printed: Charlie names the smallest party in {always:.0%} of the runs")
    print(f"through P_pi1(j), sealed: in {sometimes:.0%} (guessing: {1 / len(SIZES):.0%})")
