"""A whole study over a board in memory: every role an agent of its own, the key made without a dealer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from psephos.protocol.agent import Agent
from psephos.protocol.board import MemoryBoard
from psephos.protocol.encrypted_sum.votes import AuxiliarySet, VoteLayout
from psephos.protocol.signing import SigningKey
from psephos.protocol.storage.store import Store
from psephos.protocol.study.study import Member, Study, safe_confirmations
from psephos.study.roles import Public, curator_role, holder_role, party_role

CLASSES, SAMPLES, PARTIES, HOLDERS, THRESHOLD = 3, 12, 5, 3, 2


class FixedVotes:
    def __init__(self, votes: Any) -> None:
        self._votes = np.asarray(votes)

    def predict_votes(self, X: Any) -> Any:
        return self._votes


@dataclass
class Cast:
    public: Public
    keys: dict[str, SigningKey]
    votes: Any
    board: MemoryBoard
    stores: dict[str, Store]

    def agent(self, name: str) -> Agent:
        store = self.stores.setdefault(name, Store())
        kind, _, number = name.partition(" ")
        if kind == "curator":
            role = curator_role(self.public, lambda opened: repr(opened.sums).encode(), store)
        elif kind == "holder":
            role = holder_role(self.public, int(number), store)
        else:
            role = party_role(self.public, int(number), self.keys[name], FixedVotes(self.votes[int(number)]), store)
        return Agent(role, self.public.study.members, self.keys[name], self.board, store)

    @property
    def names(self) -> list[str]:
        return list(self.public.study.members.keys)


@pytest.fixture
def cast() -> Cast:
    generator = np.random.default_rng(5)
    auxiliary = AuxiliarySet(generator.normal(size=(SAMPLES, 4)))
    curator = SigningKey.generate()
    parties = [SigningKey.generate() for _ in range(PARTIES)]
    study = Study(
        title="A trial",
        nonce=bytes(16),
        protocol="tally",
        method="soft",
        epsilon=1.0,
        delta=0.0,
        classes=("a", "b", "c"),
        features=tuple("wxyz"),
        auxiliary=auxiliary.digest,
        samples=SAMPLES,
        minimum_ballots=3,
        key_bits=256,
        threshold=THRESHOLD,
        confirmations=safe_confirmations(HOLDERS, THRESHOLD),
        trial=True,
        curator=curator.verification_key,
        parties=tuple(
            Member(f"Hospital {n}", key.verification_key, n + 1 if n < HOLDERS else 0) for n, key in enumerate(parties)
        ),
    )
    assert Study.parse(study.text()) == study
    keys = {"curator": curator}
    keys |= {f"party {n}": key for n, key in enumerate(parties)}
    keys |= {f"holder {n + 1}": parties[n] for n in range(HOLDERS)}
    votes = generator.integers(0, CLASSES, size=(PARTIES, SAMPLES))
    return Cast(Public(study, auxiliary), keys, votes, MemoryBoard(), {})


def play(cast: Cast, agents: dict[str, Agent]) -> None:
    for _ in range(10_000):
        moved = [agent.step() for agent in agents.values()]
        if not any(moved):
            if all(agent.result is not None for agent in agents.values()):
                return
            curator = agents["curator"]
            assert curator.role.complete(curator.state), [(n, a.role.awaits(a.state)) for n, a in agents.items()]
            curator.hush()
    pytest.fail("the study goes on for ever")


def counts_of(cast: Cast, content: bytes) -> Any:
    sums = tuple(int(s) for s in content.decode().strip("()").split(","))
    return VoteLayout(SAMPLES, CLASSES).decode(sums, PARTIES)


def test_a_study_counts_what_was_voted(cast: Cast) -> None:
    agents = {name: cast.agent(name) for name in cast.names}
    play(cast, agents)
    assert len({agent.result.content for agent in agents.values()}) == 1
    counts = counts_of(cast, agents["curator"].result.content)
    expected = (cast.votes[:, :, None] == np.arange(CLASSES)).sum(axis=0)
    assert (counts == expected).all()
    assert all(not agent.refused for agent in agents.values()), [a.refused for a in agents.values()]


def test_every_role_killed_after_every_step(cast: Cast) -> None:
    """Made again from its store after each step, in which it may have read or posted anything."""
    for _ in range(10_000):
        moved = False
        for name in cast.names:
            agent = cast.agent(name)
            moved = agent.step() or moved
        if not moved:
            curator = cast.agent("curator")
            if curator.result is not None:
                break
            curator.hush()
    counts = counts_of(cast, curator.result.content)
    assert (counts == (cast.votes[:, :, None] == np.arange(CLASSES)).sum(axis=0)).all()
