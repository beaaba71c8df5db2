"""The page of each protocol says what its runs send."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from psephos import setup_keys
from psephos.curator.tally import Tally
from psephos.parties.holder import KeyHolder
from psephos.parties.party import Party, VotingParty
from psephos.protocol import vote_round
from psephos.protocol.driver import Driver
from psephos.protocol.pathak.terms import Variant
from psephos.protocol.randomness import SYSTEM, Randomness, SimulationRandomness
from psephos.protocol.transcript import Transcript
from psephos.simulation.options import TallyOptions
from psephos.simulation.pathak import PathakKeys, make_terms, run_protocol
from psephos.simulation.psgd import PsgdOptions, simulate_psgd
from psephos.simulation.tally import simulate_tally

PAGES = Path(__file__).resolve().parents[2] / "docs" / "protocols"


def section(page: str, heading: str) -> str:
    text = (PAGES / f"{page}.md").read_text(encoding="utf-8").split(f"{heading}\n")[1]
    return re.split(r"^##", text, maxsplit=1, flags=re.M)[0]


def rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


KEY_BITS, PARTIES = 512, 4
PER_CIPHERTEXT = "384 (s + 1) per ciphertext"  # s = 1 in these runs


def a_vote() -> Transcript:
    ceremony = setup_keys(PARTIES, holders=3, threshold=2, key_bits=KEY_BITS, test_key=True)
    round_ = vote_round(ceremony.threshold_key, ceremony.roster, np.eye(3), 2, test_key=True, proofs="none")
    parties = [Party(number, key, classes=(0, 1)) for number, key in enumerate(ceremony.signing_keys)]
    voters = [VotingParty(party.train(np.eye(3), [0, 1, 0], "tree"), round_, np.eye(3)) for party in parties]
    holders = [KeyHolder(share, round_) for share in ceremony.shares]
    Driver([*voters, Tally(round_), *holders], transcript=(transcript := Transcript())).run()
    return transcript


KEYS: dict[str, Any] = {"parties": PARTIES, "key_bits": KEY_BITS, "test_key": True}


def a_statistic() -> Transcript:
    options = TallyOptions(reveal="statistic", noise_from="holders", holders=3, threshold=2, degree=1, **KEYS)
    simulate_tally(options, transcript=(transcript := Transcript()))
    return transcript


def a_descent() -> Transcript:
    options = PsgdOptions(steps=2, epsilon=1.0, **KEYS)
    simulate_psgd(options, transcript=(transcript := Transcript()))
    return transcript


@pytest.mark.parametrize(("page", "run"), [("tally", a_vote), ("statistic", a_statistic), ("psgd", a_descent)])
def test_runs_send_the_messages_of_their_page(page: str, run: Callable[[], Transcript]) -> None:
    """Kinds, senders and receivers; and lengths, which are a fixed part and a multiple of something."""
    described = {row[0]: row for name in {"tally": 0, page: 0} for row in rows(section(name, "## The messages"))}
    sizes = {(row[0], row[1], row[2]): row[3] for row in described.values()}
    messages = [((m.kind, m.sender.split()[0], m.receiver.split()[0]), m.size) for m in run().messages]
    assert {which for which, _ in messages} == set(sizes)
    steps = {PER_CIPHERTEXT: 2 * KEY_BITS // 8, "8 d": 8, "b d": 31}
    for which, size in messages:
        fixed, unit = sizes[which].split(" + ", 1)
        if unit in ("0", "M/8"):
            assert size == int(fixed) + (unit != "0") * -(-PARTIES // 8), which
        else:
            assert size > int(fixed), which
            assert (size - int(fixed)) % steps[unit] == 0, which


class Seeded(Transcript):
    """Coins with which pi_1 is not the identity: then no size share travels."""

    def coins(self, role: str, source: Randomness = SYSTEM) -> Randomness:
        return super().coins(role, SimulationRandomness(2, role))


def test_pathak_runs_send_the_messages_of_their_page() -> None:
    """`public-bound` three kinds of messages, `printed` all but the buckets, `repaired` all."""
    rows_of_page = {(row[0], row[1], row[2]) for row in rows(section("pathak", "## The messages"))}
    keys = PathakKeys.generate(512, test_key=True)
    records = [(np.eye(2) / 2, np.array([0, 1])), *[(np.zeros((n, 2)), np.zeros(n, dtype=int)) for n in (3, 5, 9)]]
    sent = {}
    for variant in get_args(Variant):
        terms = make_terms(
            parties=4, features=2, lam=0.1, epsilon=1.0, variant=variant, smallest_size=2, largest_size=9
        )
        transcript = Seeded()
        needed = keys if terms.finds_smallest else None
        run_protocol(records, terms, needed, test_key=True, transcript=transcript)
        sent[variant] = {(m.kind, m.sender.split()[0], m.receiver.split()[0]) for m in transcript.messages}
    assert sent["public-bound"] == {row for row in rows_of_page if row[0] in ("proposal", "reshare", "published share")}
    assert sent["printed"] == {row for row in rows_of_page if "`repaired`" not in row[0]}
    assert sent["repaired"] == {(row[0].removesuffix(" (`repaired`)"), *row[1:]) for row in rows_of_page}
