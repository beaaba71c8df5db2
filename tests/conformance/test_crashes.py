"""Every role of every protocol crashes after every step and at every post, and continues from its store."""

from __future__ import annotations

import pytest

from psephos.protocol.board import MemoryBoard
from psephos.protocol.storage.store import Store
from tests.conformance.runs import EVERY_RUN, RUNS, CrashBoard, run_to_the_end


@pytest.mark.parametrize("protocol", EVERY_RUN)
def test_a_role_that_crashes_at_every_step_sends_the_same_bytes(protocol: str) -> None:
    """Agents are constructed again from their stores for each step, and crash before and after each post."""
    make, study = RUNS[protocol]
    cast = make(study)
    board = CrashBoard(MemoryBoard())
    stores = {name: Store() for name in cast.names}

    run_to_the_end(cast, lambda name: cast.agent(name, board, stores[name]))
    assert {author for author, _ in board.attempts} == set(cast.names)
    for author_and_place, attempts in board.attempts.items():
        assert len(attempts) >= 2, author_and_place
        assert len(set(attempts)) == 1, author_and_place
    agents = {name: cast.agent(name, board, stores[name]) for name in cast.names}
    cast.check(agents)
