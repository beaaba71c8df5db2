"""The page of each protocol says what its roles take and what its runs send."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from psephos import hold_ceremony
from psephos.curator.tally import Tally
from psephos.parties.holder import KeyHolder
from psephos.parties.party import Party, VectorParty, VotingParty
from psephos.protocol import PackingPlan, Round, vote_round
from psephos.protocol.driver import Driver
from psephos.protocol.roles import Machine
from psephos.protocol.transcript import Transcript

PAGES = Path(__file__).resolve().parents[2] / "docs" / "protocols"
ROLES = [
    (page.stem, heading, path)
    for page in sorted(PAGES.glob("*.md"))
    for heading in re.findall(r"^### .*$", page.read_text(encoding="utf-8"), re.M)
    for path in re.findall(r"\(`(psephos\.[\w.]+)`\)", heading)
]


def section(page: str, heading: str) -> str:
    text = (PAGES / f"{page}.md").read_text(encoding="utf-8").split(f"{heading}\n")[1]
    return re.split(r"^##", text, maxsplit=1, flags=re.M)[0]


def rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


@pytest.mark.parametrize(("page", "heading", "path"), ROLES, ids=lambda value: value.strip("# ").split(" (")[0])
def test_a_role_takes_what_its_page_says(page: str, heading: str, path: str) -> None:
    module, _, name = path.rpartition(".")
    role: type[Machine] = getattr(importlib.import_module(module), name)
    told = rows(section(page, heading))
    if not told and "as in [the tally](tally.md" in section(page, heading).lower():
        return
    assert [(row[0], row[1]) for row in told] == [(f"`{rule.state.__name__}`", rule.kind.title) for rule in role.table]
    assert {row[1] for row in told if "the board" in row[2]} == {kind.title for kind in role.reads}


# -- what is sent, by runs


def played(roles: Callable[[Any], list[Any]], kind: str) -> tuple[Transcript, Round]:
    """A round of four parties; `roles(ceremony, round)` are the parties."""
    ceremony = hold_ceremony(4, holders=3, threshold=2, key_bits=512, test_key=True)
    if kind == "votes":
        round_ = vote_round(ceremony.threshold_key, ceremony.roster, np.eye(3), 2, test_key=True)
    else:
        plan = PackingPlan.for_key(ceremony.threshold_key.key, length=3, addends=4, minimum=0, maximum=9)
        round_ = Round.create(
            "parameters", ceremony.threshold_key, plan, ceremony.roster, context=bytes(32), test_key=True
        )
    transcript = Transcript()
    parties = [Party(number, key, classes=(0, 1)) for number, key in enumerate(ceremony.signing_keys)]
    holders = [KeyHolder(share, round_) for share in ceremony.shares]
    Driver([*roles(parties, round_), Tally(round_), *holders], transcript=transcript).run()
    return transcript, round_


def of_votes(parties: list[Party], round_: Round) -> list[Any]:
    return [VotingParty(party.train(np.eye(3), [0, 1, 0], "tree"), round_, np.eye(3)) for party in parties]


def of_parameters(parties: list[Party], round_: Round) -> list[Any]:
    return [VectorParty(party, round_, "parameters", bytes(32), [1, 2, 3]) for party in parties]


@pytest.mark.parametrize(
    ("page", "roles", "kind"), [("tally", of_votes, "votes"), ("average", of_parameters, "parameters")]
)
def test_a_round_sends_what_its_page_says(page: str, roles: Callable[..., list[Any]], kind: str) -> None:
    transcript, round_ = played(roles, kind)
    told = {(row[0], row[1], row[2]): row[3] for row in rows(section(page, "## The messages"))}
    sent = {(m.kind, m.sender.split()[0], m.receiver.split()[0]) for m in transcript.messages}
    assert sent == set(told)
    ciphertexts = round_.plan.ciphertexts * round_.key.ciphertext_bytes
    for message in transcript.messages:
        length = told[message.kind, message.sender.split()[0], message.receiver.split()[0]]
        overhead, per = re.fullmatch(r"(\d+) \+ (768 per ciphertext|M/8)", length).groups()  # type: ignore[union-attr]
        assert message.size == int(overhead) + (1 if per == "M/8" else ciphertexts)
