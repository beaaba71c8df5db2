"""Attack: reading pi_1 off the channel in Pathak's Stage 1 (DESIGN section 5, finding 5).

Step 2 says that P_j "sends its share b_j to Charlie with the index changed according to the permutation". Unless the
channel is anonymous Charlie sees who sends him the share at index pi_1(j): it is P_j. He knows pi_2 himself, so the
index that he finds for the smallest data set is a party's name, and the order of all comparisons is an order of
parties.

Here b_j travels sealed through P_{pi_1(j)}. Charlie gets one share from each party, and it is not that party's.
"""

from __future__ import annotations

import numpy as np

from psephos.parties.pathak import PathakParty
from psephos.protocol.wire import Kind
from psephos.security.model import Context
from psephos.security.pathak_runs import SIZES, Run, real_runs
from tests.security.lab.editing import edited

AS_PRINTED = (
    PathakParty,
    "_share_size",
    "receiver = agreed.permutation[self.number - 1] + 1",
    "receiver = self.number",
)
"""The sealed share arrives from its owner: one line away from the protocol."""


def guess(run: Run) -> int:
    """Charlie's guess who is smallest: the sender of the share that came to the place he found the smallest at."""
    selection = run.messages(Kind.SELECTION)[0][1].ciphertexts  # by index, under his own key
    index = [run.keys.curator.raw_decrypt(c) for c in selection].index(1)
    senders = [message.sender for message, _ in run.messages(Kind.INDEXED_SHARE)]
    order = sorted(int(sender.split()[1]) for sender in senders)  # his list is in the order of the index
    return order[index]


def attack(runs: int = 30) -> tuple[float, float]:
    """How often Charlie is right, as printed and here."""
    smallest = int(np.argmin(SIZES)) + 1
    with edited(*AS_PRINTED):
        printed = [guess(run) == smallest for run in real_runs(Context(seed=5, views=runs), "printed")]
    ours = [guess(run) == smallest for run in real_runs(Context(seed=6, views=runs), "printed")]
    return float(np.mean(printed)), float(np.mean(ours))


if __name__ == "__main__":
    always, sometimes = attack()
    print(f"as printed: Charlie names the smallest party in {always:.0%} of the runs")
    print(f"through P_pi1(j), sealed: in {sometimes:.0%} (guessing: {1 / len(SIZES):.0%})")
