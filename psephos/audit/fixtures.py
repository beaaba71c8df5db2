"""Fixtures for pytest, with short keys: `pytest_plugins = ["psephos.audit.fixtures"]` in your top `conftest.py`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from psephos.audit.model import AnalysisContext
from psephos.audit.rounds import SampleRound, hold_round, short_key
from psephos.audit.run import RATE
from psephos.audit.studies import Trial, trial
from psephos.protocol.paillier.private_key import PrivateKey
from psephos.protocol.randomness import SimulationRandomness

MakeSample = Callable[..., SampleRound]


@pytest.fixture(scope="session")
def private_key() -> PrivateKey:
    """Return a 512-bit test key, the same in every run."""
    return short_key()


@pytest.fixture
def coins(request: pytest.FixtureRequest) -> SimulationRandomness:
    """Return coins that depend on the name of the test only."""
    return SimulationRandomness(0, request.node.nodeid)


@pytest.fixture(scope="session")
def make_sample(private_key: PrivateKey) -> MakeSample:
    """Return `psephos.audit.hold_round` with the key of `private_key`."""
    return partial(hold_round, key=private_key)


@pytest.fixture(scope="session")
def sample(make_sample: MakeSample) -> SampleRound:
    """Return a round of five parties and three holders, two of whom can open; 400 entries make three ciphertexts."""
    return make_sample(5, 3, 2, length=400)


@pytest.fixture(scope="session")
def study() -> Trial:
    """Return a study of five parties, three of whom hold the key and two of whom can open, with the keys of all."""
    return trial(coins=SimulationRandomness(0, "study"))


@pytest.fixture
def analysis() -> AnalysisContext:
    """Return the context for a check of the security analysis: seeded, 60 views per side."""
    return AnalysisContext(seed=20260, views=60, rate=RATE)
