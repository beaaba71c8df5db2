"""For pytest: `pytest_plugins = ["psephos.audit.fixtures"]` in your top `conftest.py`. Its keys protect nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from psephos.audit.model import Context
from psephos.audit.rounds import Election, hold_election, short_key
from psephos.audit.run import RATE
from psephos.audit.studies import Trial, trial
from psephos.protocol.paillier.private_key import PrivateKey
from psephos.protocol.randomness import SimulationRandomness

__all__ = ["MakeElection", "analysis", "coins", "election", "make_election", "private_key", "study"]

MakeElection = Callable[..., Election]


@pytest.fixture(scope="session")
def private_key() -> PrivateKey:
    """A 512-bit test key, the same in every run."""
    return short_key()


@pytest.fixture
def coins(request: pytest.FixtureRequest) -> SimulationRandomness:
    """Coins that depend on the test's name only."""
    return SimulationRandomness(0, request.node.nodeid)


@pytest.fixture(scope="session")
def make_election(private_key: PrivateKey) -> MakeElection:
    """`psephos.audit.hold_election` under that key."""
    return partial(hold_election, key=private_key)


@pytest.fixture(scope="session")
def election(make_election: MakeElection) -> Election:
    """Five parties, three holders, any two of which open; 400 entries, so three ciphertexts a ballot."""
    return make_election(5, 3, 2, length=400)


@pytest.fixture(scope="session")
def study() -> Trial:
    """Five parties of whom three hold the key, any two of them open, and a curator, with everybody's keys."""
    return trial(coins=SimulationRandomness(0, "study"))


@pytest.fixture
def analysis() -> Context:
    """What a check of the security analysis runs in: seeded, 60 views a side."""
    return Context(seed=20260, views=60, rate=RATE)
