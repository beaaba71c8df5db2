"""A study with a process for every role: over one file, and over a NATS server, killed and lied to at random moments.

A few schedules of `tests.psephos.study.soak`, which plays as many as one likes.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from psephos.protocol.agent import Agent
from psephos.protocol.board.entries import SignedEntry
from psephos.protocol.board.file import BoardFile, export
from psephos.protocol.board.server import NATS_SERVER
from psephos.protocol.errors import EquivocationError
from psephos.protocol.storage.store import Store
from tests.psephos.study.soak import House, Schedule

needs_server = (pytest.mark.nats, pytest.mark.skipif(NATS_SERVER is None, reason="nats-server is not installed"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "server"),
    [
        ("tally", False),
        *(
            pytest.param(what, server, marks=[pytest.mark.soak, *(needs_server if server else ())])
            for what, server in (("record", True), ("pathak", True))
        ),
    ],
)
def test_one_process_per_role_without_faults(what: str, server: bool) -> None:
    """Each flow of messages, with the data and the judge of all specs in memory (`test_specs`)."""
    quiet = Schedule(8, server, what)
    quiet.kills, quiet.deeds, quiet.chance = 0, [], 0.0
    quiet.late = quiet.full = quiet.back = quiet.gone = ""
    quiet.happened.clear()
    assert dict(quiet.run()) == {"released": 1, "released without everybody": 0}


@pytest.mark.soak
@pytest.mark.parametrize(
    ("seed", "what", "server"),
    [
        (1, "tally", False),
        pytest.param(1, "tally", True, marks=needs_server),
        pytest.param(13, "psgd", True, marks=needs_server),
        (5, "pathak", False),
    ],
)
def test_killed_processes_never_change_the_count(seed: int, what: str, server: bool) -> None:
    happened = Schedule(seed, server, what).run()
    assert happened["released"] + happened["stopped, by name"] >= 1


def test_a_role_restored_from_an_old_copy_stops_posting(tmp_path: Path) -> None:
    house = House(tmp_path, 1, 4, 3, False)
    board = BoardFile(house.address)
    stores = {name: Store(tmp_path / name / "store") for name in house.names}

    def agent(name: str, store: Store) -> Agent:
        return Agent(house.role(name, store), house.terms.study.members, house.keys[name], board, store)

    agents = {name: agent(name, store) for name, store in stores.items()}

    def play() -> None:
        for each in agents.values():
            each.step()

    def count_entries() -> int:
        return sum(SignedEntry.decode(data).author == "holder 1" for _, data in board.read(0))

    while count_entries() < 2:
        play()
    stores["holder 1"].close()
    shutil.copytree(tmp_path / "holder 1", tmp_path / "old", copy_function=shutil.copy2)
    agents["holder 1"] = agent("holder 1", Store(tmp_path / "holder 1" / "store"))
    known = count_entries()
    while count_entries() < known + 2:
        play()
    before = list(board.read(0))
    for _ in range(2):  # nor when it is started again
        with (
            Store(tmp_path / "old" / "store") as old,
            pytest.raises(EquivocationError, match="an old copy"),
        ):
            agent("holder 1", old).step()
    assert list(board.read(0)) == before


def test_a_role_without_its_store_stops_posting(tmp_path: Path) -> None:
    """Not even when all it had said was that it joins: what is sealed to it is sealed to a key that is lost."""
    house = House(tmp_path, 1, 4, 3, False)
    board = BoardFile(house.address)

    def agent(store: Store) -> Agent:
        return Agent(house.role("party 3", store), house.terms.study.members, house.keys["party 3"], board, store)

    agent(Store()).step()
    before = list(board.read(0))
    again = agent(Store())
    with pytest.raises(EquivocationError, match="store"):
        again.step()
    assert list(board.read(0)) == before


@pytest.mark.slow
def test_a_member_without_a_network_uses_exported_files(tmp_path: Path) -> None:
    """Party 3 has a copy; whatever its agent posts there counts when it comes to the board, in the board's order."""
    house = House(tmp_path, 2, 4, 3, False)
    board, copy = BoardFile(house.address), BoardFile(tmp_path / "copy", copy=True)
    agents = {
        name: Agent(
            house.role(name, store := Store()),
            house.terms.study.members,
            house.keys[name],
            copy if name == "party 3" else board,
            store,
        )
        for name in house.names
    }
    carried = 0
    while any(agent.result is None for agent in agents.values()):
        moved = [agent.step() for agent in agents.values()]
        if any(moved):
            continue
        for journey, (here, there) in enumerate(((board, copy), (copy, board))):
            path = tmp_path / f"{carried}-{journey}"
            export(here, path, after=agents["party 3"].head.size if here is board else 0)
            there.import_(path)
        carried += 1
        curator = agents["curator"]
        if curator.result is None and curator.role.is_ready(curator.state):
            curator.on_idle()
        assert carried < 100
    assert not any(agent.rejected for agent in agents.values())
    assert json.loads(agents["party 3"].result.content)[0] == [0, 1, 2, 3]
