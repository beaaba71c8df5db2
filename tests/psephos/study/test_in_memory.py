"""A whole study over a board in memory: every role an agent of its own, the key made without a dealer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from psephos.parties.ceremony import Searching, Told
from psephos.protocol.agent import Agent
from psephos.protocol.board import MemoryBoard
from psephos.protocol.encrypted_sum.votes import AuxiliarySet, VoteLayout
from psephos.protocol.errors import EquivocationError
from psephos.protocol.signing import SigningKey
from psephos.protocol.storage.store import Store
from psephos.study.roles import Public, curator_role, holder_role, party_role
from psephos.testing.studies import trial

CLASSES, SAMPLES, PARTIES = 3, 12, 5


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
    made = trial(parties=PARTIES, auxiliary=auxiliary.digest, samples=SAMPLES)
    votes = generator.integers(0, CLASSES, size=(PARTIES, SAMPLES))
    return Cast(Public(made.study, auxiliary), made.keys, votes, MemoryBoard(), {})


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


def ceremony_secrets(state: Any) -> Iterator[bytes]:
    """Wherever they are in a state."""
    if isinstance(state, Told):
        yield from (*state.secrets, *state.contributions)
    if isinstance(state, Searching):
        yield from state.seeds
    if is_dataclass(state):
        for field in fields(state):
            yield from ceremony_secrets(getattr(state, field.name))


def test_a_key_leaves_nothing_on_disk_and_is_not_made_again(cast: Cast, tmp_path: Path) -> None:
    """What a holder's store held while the key was made is in it then, and nowhere in its files afterwards."""

    def found(name: str, secrets: set[bytes]) -> int:
        content = b"".join(path.read_bytes() for path in tmp_path.glob(f"{name}*"))
        return sum(secret in content for secret in secrets)

    holders = {name: set[bytes]() for name in cast.names if name.startswith("holder")}
    cast.stores = {name: Store(tmp_path / name) for name in holders}
    agents = {name: cast.agent(name) for name in cast.names}
    while any(agents[name].role.listens(agents[name].state) for name in holders):
        for agent in agents.values():
            agent.step()
        for name, secrets in holders.items():
            if new := set(ceremony_secrets(agents[name].state)):
                assert found(name, new) == len(new)
                secrets |= new
    for name, secrets in holders.items():
        cast.stores[name].close()
        assert secrets
        assert found(name, secrets) == 0
    said = list(cast.board.read(0))
    cast.stores["holder 1"] = Store()
    with pytest.raises(EquivocationError, match="lost, or set back"):
        cast.agent("holder 1").step()
    assert list(cast.board.read(0)) == said
