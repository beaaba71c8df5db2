"""A server that shows two halves of the holders two different boards, with a lying curator and t - 1 lying holders."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from psephos.protocol.agent import Agent
from psephos.protocol.board import MemoryBoard
from psephos.protocol.board.entries import SignedEntry
from psephos.protocol.encrypted_sum.rounds import safe_confirmations
from psephos.protocol.errors import PsephosError
from psephos.protocol.roles import Entry
from psephos.protocol.storage.store import Store
from psephos.protocol.wire import Kind, Reader
from tests.psephos.study.cast import DealtCast

HALVES = (("holder 2", "party 0", "party 2"), ("holder 3", "party 1", "party 3"))
"""Who is shown which board; the sum is opened by 2 of 3 holders."""
LIARS = ("curator", "holder 1")
"""They take part on both boards, each time as if there were no other."""


class Half:
    """What a server shows to one half. With `relays`, all but ballots is shown to the other half, too."""

    def __init__(self, entries: Iterable[bytes], relays: bool) -> None:
        self.log, self.other, self._relays = MemoryBoard(), self, relays
        self.log.entries = list(entries)

    def post(self, data: bytes) -> None:
        self.log.post(data)
        if self._relays and not Entry(0, "", "", SignedEntry.decode(data).body).is_a(Kind.BALLOT):
            self.other.log.post(data)

    def read(self, after: int) -> Iterable[tuple[int, bytes]]:
        return self.log.read(after)

    def close(self) -> None:
        """Keep the entries."""


class ForkedStudy:
    """A study whose board is one until it has `common` entries, and two from then on."""

    def __init__(self, folder: Path, confirmations: int, common: int, relays: bool) -> None:
        self.cast = DealtCast("tally", parties=4, confirmations=confirmations, minimum_ballots=2)
        board, stores = MemoryBoard(), {name: Store(folder / name / "store") for name in self.cast.names}
        agents = [self.cast.agent(name, board, store) for name, store in stores.items()]
        for agent in agents * (common + 1):
            if len(board.entries) < common:
                self._step(agent)
        for store in stores.values():
            store.close()
        self.halves = [Half(board.entries, relays) for _ in HALVES]
        self.halves[0].other, self.halves[1].other = self.halves[1], self.halves[0]
        self.agents: list[Agent] = []
        for half, names in zip(self.halves, HALVES, strict=True):
            for name in (*names, *LIARS):
                place = folder / name
                if half is self.halves[1] and name in LIARS:
                    place = shutil.copytree(folder / name, folder / "again" / name, copy_function=shutil.copy2)
                self.agents.append(self.cast.agent(name, half, Store(place / "store")))

    def run(self) -> None:
        """Let everybody act until nobody does; both curators close the vote as soon as they may."""
        while any([self._step(agent) for agent in self.agents]) or self._close():  # noqa: C419 - all of them
            pass

    @staticmethod
    def _step(agent: Agent) -> bool:
        try:
            return agent.result is None and agent.step()
        except PsephosError:
            return False  # a member who sees a fork stops

    def _close(self) -> bool:
        """Close the vote on both boards, whichever ballots are there."""
        closed = False
        for agent in self.agents:
            if agent.role.name == "curator":
                with contextlib.suppress(PsephosError):
                    closed |= bool(agent.on_idle())
        return closed

    def released(self) -> list[list[list[int]]]:
        """Return for each half the parties and sums that its curator has released."""
        results = []
        for half in self.halves:
            bodies = [SignedEntry.decode(data).body for data in half.log.entries]
            digest = self.cast.made.study.digest
            results.append(
                [
                    json.loads(Reader(body, Kind.RESULT, digest).rest())[:2]
                    for body in bodies
                    if Entry(0, "", "", body).is_a(Kind.RESULT)
                ]
            )
        return results


BALLOTS_BEGIN, BALLOTS_END = 11, 15
"""Number of entries before the first ballot, and up to the last."""
SOME_COMMON = (BALLOTS_BEGIN, BALLOTS_BEGIN + 2, BALLOTS_END)
"""Places of the fork in `make test`: before, among and after the ballots."""


@pytest.mark.parametrize("relays", [False, True], ids=["separate", "relayed"])
@pytest.mark.parametrize(
    "common",
    [
        pytest.param(common, marks=[pytest.mark.soak] * (common not in SOME_COMMON))
        for common in range(BALLOTS_BEGIN - 3, BALLOTS_END + 4)
    ],
)
def test_nobody_opens_on_a_forked_board(tmp_path: Path, common: int, relays: bool) -> None:
    """Enough holders confirm one product that two products would need an honest holder to confirm both."""
    study = ForkedStudy(tmp_path, safe_confirmations(3, 2), common, relays)
    study.run()
    results = [result for half in study.released() for result in half]
    if common < BALLOTS_END:
        assert results == []
    assert all(parties == [0, 1, 2, 3] for parties, _ in results)


@pytest.mark.parametrize("relays", [False, True], ids=["separate", "relayed"])
def test_fewer_confirmations_allow_two_openings(tmp_path: Path, relays: bool) -> None:
    """The attack above succeeds in a study that asks for t confirmations: the difference of the sums is one ballot."""
    study = ForkedStudy(tmp_path, 2, BALLOTS_BEGIN + 2, relays)
    study.run()
    parties = {tuple(parties) for half in study.released() for parties, _ in half}
    assert parties == {(0, 1, 2), (0, 1, 3)}
