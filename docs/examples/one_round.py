"""One counting round, every role in one process, with its transcript and what each message is to whom.

Six parties vote on twenty digits, and a curator has two of three key holders open the sum of their ballots. Each
message is shown with its size and what is inside for whoever receives it.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

from psephos import setup_keys
from psephos.curator import Tally
from psephos.parties import KeyHolder, Party, VotingParty
from psephos.protocol import Driver, Transcript, VoteLayout, vote_round
from psephos.results.sequence import contents_of, size_text

PARTIES, CLASSES = 6, list(range(10))

X, y = load_digits(return_X_y=True)
auxiliary = X[:20]
shards = np.array_split(np.arange(20, len(X)), PARTIES)

ceremony = setup_keys(PARTIES, holders=3, threshold=2)  # 3072 bits, shared 2 of 3
round_ = vote_round(ceremony.threshold_key, ceremony.roster, auxiliary, CLASSES)

voters = []
for number, rows in enumerate(shards):
    party = Party(number, ceremony.signing_keys[number], classes=CLASSES).train(X[rows], y[rows], "tree")
    voters.append(VotingParty(party, round_, auxiliary))
holders = [KeyHolder(share, round_) for share in ceremony.shares]
transcript = Transcript()
opened = Driver([*voters, Tally(round_), *holders], transcript=transcript).run()["curator"]
counts = VoteLayout(len(auxiliary), len(CLASSES)).decode(opened.sums, opened.ballots)

for message in transcript.redacted():
    contents = contents_of(str(message["kind"]))
    print(f"{message['from']:>10} -> {message['to']:<10} {message['kind']:<20} {size_text(int(message['bytes']))}")
    print(f"{'':>14} {contents.look}: {contents.inside}")
print(f"\nwhat the curator learned of the first sample: {counts[0]} (votes for classes 0 to 9)")
right = float(np.mean(counts.argmax(axis=1) == y[:20]))
print(f"the parties' majority is right on {right:.0%} of the auxiliary samples")
