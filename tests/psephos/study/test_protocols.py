"""Every protocol of a study over a board: each role an agent of its own, the key made without a dealer."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from psephos.curator.hamm.statistic import plan_statistic
from psephos.parties.training import train_parties
from psephos.protocol.agent import Agent
from psephos.protocol.board import Board, MemoryBoard
from psephos.protocol.board.file import BoardFile
from psephos.protocol.encrypted_sum.fixed_point import FixedPoint, project
from psephos.protocol.encrypted_sum.own_data import OwnDataGrid
from psephos.protocol.encrypted_sum.votes import AuxiliarySet, VoteLayout
from psephos.protocol.errors import StudyError
from psephos.protocol.randomness import SYSTEM, Randomness, SimulationRandomness
from psephos.protocol.storage.store import Store
from psephos.protocol.study.stages import At
from psephos.simulation.average import FRACTION_BITS
from psephos.study.protocols import Play, Public, coordinates, play_of
from psephos.study.roles import curator_role, holder_role, party_role
from tests.study import Trial, trial

PARTIES, SAMPLES, FEATURES = 5, 40, 4
Array = NDArray[np.float64]


class FixedVotes:
    def __init__(self, votes: Any) -> None:
        self.votes = np.asarray(votes)

    def predict_votes(self, X: Any) -> Any:
        return self.votes


def unit(generator: np.random.Generator, rows: int) -> Array:
    X = generator.normal(size=(rows, FEATURES))
    scaled: Array = X / (np.linalg.norm(X, axis=1, keepdims=True) * (1 + 1e-9))
    return scaled


AUXILIARY = AuxiliarySet(unit(np.random.default_rng(5), SAMPLES))


def coordinates_of(source: Any, mechanism: Any, joint: bool) -> str:
    plan = plan_statistic(
        AUXILIARY.samples, 3, PARTIES, epsilon=1.0, mechanism=mechanism, source=source, rank=3, joint=joint
    )
    return coordinates(plan.transform)


PROTOCOLS: dict[str, dict[str, Any]] = {
    "tally": {"method": "soft", "proofs": "valid"},
    "statistic": {
        "method": "statistic",
        "public": True,
        "parameters": {"coordinates": coordinates_of("votes", "discrete-laplace", True)},
        "minimum_ballots": PARTIES,
    },
    "statistic, gaussian": {
        "method": "statistic",
        "delta": 1e-6,
        "parameters": {"coordinates": coordinates_of("votes", "gaussian", True), "dropouts": 1},
        "minimum_ballots": PARTIES - 1,
    },
    "statistic, own data": {
        "method": "own-data",
        "parameters": {"coordinates": coordinates_of("own-data", "discrete-laplace", True)},
        "minimum_ballots": PARTIES,
    },
    "average": {"method": "avg", "parameters": {"radius": 2.0, "lam": 0.1}},
    "average, own data": {
        "method": "own-data",
        "parameters": {"coordinates": coordinates_of("own-data", "spherical-laplace", False)},
        "minimum_ballots": PARTIES,
    },
    "psgd": {
        "method": "psgd",
        "delta": 1e-3,
        "classes": ("a", "b"),
        "parameters": {"sizes": "6 7 8 9 10", "steps": 3, "lam": 0.5, "variant": "gaussian", "fraction_bits": 12},
        "minimum_ballots": PARTIES,
    },
    "pathak": {
        "method": "pathak",
        "classes": ("a", "b"),
        "parameters": {"lam": 0.1, "smallest_size": 6},
        "minimum_ballots": PARTIES,
    },
}


@dataclass
class Cast:
    made: Trial
    board: Board = field(default_factory=MemoryBoard)
    stores: dict[str, Store] = field(default_factory=dict)

    @property
    def public(self) -> Public:
        return Public(self.made.study, AUXILIARY)

    @property
    def play(self) -> Play:
        return play_of(self.public)

    def own(self, number: int) -> Any:
        """What the party brings."""
        study, generator = self.made.study, np.random.default_rng([8, number])
        if study.protocol == "tally" or (study.protocol, study.method) == ("statistic", "statistic"):
            return FixedVotes(generator.integers(0, len(study.classes), size=SAMPLES))
        X = unit(generator, 6 + number)
        return X, (X[:, 0] > 0).astype(np.int64)

    def release(self, result: Any) -> bytes:
        """Of public sums the classifier; what the curator keeps to itself, as it is."""
        if self.made.study.protocol in ("tally", "average"):
            return repr(result.sums).encode()
        return self.play.release(result)[0].tobytes()

    def agent(self, name: str) -> Agent:
        store = self.stores.setdefault(name, Store())
        kind, _, number = name.partition(" ")
        if kind == "curator":
            role = curator_role(self.public, self.release, store)
        elif kind == "holder":
            role = holder_role(self.public, int(number), store)
        else:
            role = party_role(self.public, int(number), self.made.keys[name], self.own(int(number)), store)
        return Agent(role, self.made.study.members, self.made.keys[name], self.board, store)

    @property
    def names(self) -> list[str]:
        return list(self.made.study.members.keys)


def cast_of(what: str, coins: Randomness = SYSTEM) -> Cast:
    fields = {"protocol": what.split(",")[0], "samples": SAMPLES, "auxiliary": AUXILIARY.digest} | PROTOCOLS[what]
    if what == "pathak":  # no key is made for it
        fields |= {"holders": 0, "threshold": 0, "confirmations": 0, "key_bits": 0}
    return Cast(trial(parties=PARTIES, coins=coins, **fields))


def play(cast: Cast, agents: Callable[[str], Agent]) -> None:
    for _ in range(10_000):
        moved = [agents(name).step() for name in cast.names]
        if not any(moved):
            waiting = [(name, a.role.awaits(a.state)) for name in cast.names if (a := agents(name)).result is None]
            if not waiting:
                return
            curator = agents("curator")
            assert curator.role.complete(curator.state), waiting
            curator.hush()
    pytest.fail("the study goes on for ever")


def own_state(agent: Agent) -> Any:
    """A party's state in the protocol, under the stages around it."""
    return agent.state.state.state.state


def summed(columns: Any) -> tuple[int, ...]:
    return tuple(sum(column) for column in zip(*columns, strict=True))


def check(cast: Cast, agents: dict[str, Agent]) -> None:
    """What was released is what the parties put in."""
    study, protocol = cast.made.study, cast.play
    contents = {agent.result.content for agent in agents.values()}
    assert len(contents) == 1
    assert {name: agent.refused for name, agent in agents.items() if agent.refused} == {}
    (content,) = contents
    parties = [agents[f"party {number}"] for number in range(PARTIES)]
    curator: Any = agents["curator"]
    before = curator.state.stage - 1
    result = curator.role.stage(At(before, None, curator.state.before[:before])).result(curator.state.before[before])
    if study.protocol in ("psgd", "pathak"):
        found = protocol.release(result)[0]
    if study.protocol == "psgd":
        states = [own_state(agent) for agent in parties]
        assert {state.answered for state in states} == {3}
        assert result.opened.sums == summed(state.vector for state in states)
        for state in states:  # each party comes to the release by itself
            assert np.array(state.walk.point).tobytes() == content
    elif study.protocol == "pathak":
        put_in = [agent.role.stage(agent.state).role.role.outcome(own_state(agent)) for agent in parties]  # type: ignore[attr-defined]
        assert result.total == summed([p.parameters for p in put_in] + [p.noise[0] for p in put_in])
        assert found.tobytes() == content
    else:
        values = [own_state(agent).values for agent in parties]
        assert result.sums == summed(values)
        exact = [clear(cast, protocol, number) for number in range(PARTIES)]
        if study.protocol == "statistic":
            noise = np.array(values, dtype=object) - np.array(exact, dtype=object)
            assert all(noise.any(axis=1))
            assert abs(noise).max() <= protocol.shares.bound  # type: ignore[attr-defined]
            assert protocol.release(result)[0].tobytes() == content
        else:
            assert [tuple(one) for one in values] == [tuple(one) for one in exact]
            assert repr(result.sums).encode() == content


def clear(cast: Cast, protocol: Any, number: int) -> list[int]:
    """A party's vector without noise."""
    study, own = cast.made.study, cast.own(number)
    if study.protocol == "tally":
        return list(VoteLayout(SAMPLES, 3).encode(own.votes))
    if study.method == "avg":
        w = train_parties(*own, [len(own[1])], classes=3, lam=0.1)[0]
        return FixedPoint(FRACTION_BITS).encode(project(w, 2.0), 2.0)
    grid = protocol.plan.grid
    return list(grid.contribution(*own) if isinstance(grid, OwnDataGrid) else grid.contribution(own.votes))


@pytest.mark.parametrize("what", PROTOCOLS)
def test_a_study_comes_to_what_its_parties_put_in(what: str) -> None:
    cast = cast_of(what)
    agents = {name: cast.agent(name) for name in cast.names}
    play(cast, agents.__getitem__)
    check(cast, agents)


@pytest.mark.parametrize("what", ["statistic", "average", "psgd", "pathak"])
def test_every_role_killed_after_every_step(what: str) -> None:
    """Made again from its store for each step, in which it may read or post anything."""
    cast = cast_of(what)
    play(cast, cast.agent)
    check(cast, {name: cast.agent(name) for name in cast.names})


def one_process(what: str, name: str, folder: Path) -> None:
    """One role, with a store and a connection to the board of its own."""
    cast = cast_of(what, SimulationRandomness(3, what))
    with closing(BoardFile(folder / "board")) as board, Store(folder / name.replace(" ", "-")) as store:
        cast.board, cast.stores = board, {name: store}
        agent = cast.agent(name)
        while agent.result is None or agent.waiting:
            if not agent.step() and name == "curator" and agent.role.complete(agent.state):
                agent.hush()
            sleep(0.02)


@pytest.mark.parametrize("what", ["tally", "statistic", "average", "psgd", "pathak"])
def test_a_process_for_every_role_over_one_file(what: str, tmp_path: Path) -> None:
    """The outcome is that of the parties' vectors, as in memory."""
    tmp_path.chmod(0o700)
    cast = cast_of(what, SimulationRandomness(3, what))
    fork = get_context("fork")
    processes = {
        name: fork.Process(target=one_process, args=(what, name, tmp_path), daemon=True) for name in cast.names
    }
    for process in processes.values():
        process.start()
    for name, process in processes.items():
        process.join(300)
        assert process.exitcode == 0, name
    with closing(BoardFile(tmp_path / "board")) as board, ExitStack() as open_:
        cast.board = board
        cast.stores = {name: open_.enter_context(Store(tmp_path / name.replace(" ", "-"))) for name in cast.names}
        check(cast, {name: cast.agent(name) for name in cast.names})


@pytest.mark.parametrize(
    ("what", "change", "said"),
    [
        ("tally", {"method": "pate"}, "one of statistic, soft, vote"),
        ("tally", {"parameters": {"lamb": 1.0}}, "lamb is no parameter of tally"),
        ("average", {"public": True}, "no epsilon would hold"),
        ("average", {"parameters": {"radius": 2.0}}, "says its lam"),
        ("average", {"parameters": {"radius": "2", "lam": 0.1}}, "of type float"),
        ("statistic", {"parameters": {}}, "says its coordinates"),
        ("statistic", {"parameters": {"coordinates": "AAAA"}}, "not those of 4 features|no float32"),
        ("statistic", {"minimum_ballots": 3}, "whole from 5 ballots on"),
        ("statistic", {"parameters": PROTOCOLS["statistic"]["parameters"] | {"colluders": 4}}, "nobody's noise"),
        ("psgd", {"parameters": PROTOCOLS["psgd"]["parameters"] | {"sizes": "6 7"}}, "5 parties and says 2 sizes"),
        ("psgd", {"minimum_ballots": 4}, "the minimum of ballots is 5"),
        ("psgd", {"classes": ("a", "b", "c")}, "two classes"),
        ("psgd", {"parameters": PROTOCOLS["psgd"]["parameters"] | {"variant": "none"}}, "variant is one of"),
        ("pathak", {"minimum_ballots": 4}, "all of them"),
        ("pathak", {"parameters": {"lam": 0.1}}, "says its smallest_size"),
        ("pathak", {"parameters": {"lam": -0.1, "smallest_size": 6}}, "lambda"),
    ],
)
def test_studies_that_nobody_can_play(what: str, change: dict[str, Any], said: str) -> None:
    study = cast_of(what).made.study
    with pytest.raises(StudyError, match=said):
        play_of(Public(replace(study, **change), AUXILIARY))
