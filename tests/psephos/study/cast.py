"""Small studies of every protocol: who plays, what each brings, and what must come of it. Keys that protect nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psephos.audit.rounds import short_key
from psephos.audit.studies import Trial, trial
from psephos.curator.ledger import Release
from psephos.curator.record import Unit, plan_records
from psephos.curator.statistic import plan_statistic
from psephos.parties.statistic import RowGrid, own_vector
from psephos.parties.training import train_parties
from psephos.protocol.agent import Agent
from psephos.protocol.board import Board, MemoryBoard
from psephos.protocol.encrypted_sum.votes import AuxiliarySet, VoteLayout
from psephos.protocol.grids.fixed_point import FRACTION_BITS, FixedPoint, project
from psephos.protocol.grids.local_step import LocalStepGrid
from psephos.protocol.grids.own_data import OwnDataGrid
from psephos.protocol.grids.record import ENTRY_BITS
from psephos.protocol.paillier.threshold import KeyShare, deal
from psephos.protocol.privacy.unit import PrivacyUnit
from psephos.protocol.randomness import SYSTEM, Randomness
from psephos.protocol.roles import Entry, Role, Step
from psephos.protocol.storage.store import Store
from psephos.protocol.study.stages import StagedRole
from psephos.protocol.study.study import CURATOR, Study
from psephos.specs.base import Spec
from psephos.specs.registry import participants_of, spec_of
from psephos.specs.rows import encode_releases
from psephos.specs.terms import StudyTerms, encode_coordinates
from psephos.study.roles import curator_role, holder_role, party_role

SAMPLES, FEATURES, STEPS = 12, 4, 2
Array = NDArray[np.float64]


class FixedVotes:
    """A classifier whose votes are known."""

    def __init__(self, votes: Any) -> None:
        self.votes = np.asarray(votes)

    def predict_votes(self, X: Any) -> Any:
        return self.votes

    @property
    def parameters(self) -> Array:
        """Of a linear classifier of `SAMPLES / FEATURES` classes."""
        weights: Array = self.votes.reshape(-1, FEATURES) - 0.3
        return weights


def unit(generator: np.random.Generator, rows: int, features: int = FEATURES) -> Array:
    """Return rows of length 1 whose last feature is positive, as that of the constant is."""
    X = generator.normal(size=(rows, features))
    X[:, -1] = np.abs(X[:, -1])
    scaled: Array = X / (np.linalg.norm(X, axis=1, keepdims=True) * (1 + 1e-9))
    return scaled


class Samples(AuxiliarySet):
    """Samples without a file: the public table of a study."""

    @property
    def auxiliary(self) -> AuxiliarySet:
        return self

    log_odds = None

    @property
    def features(self) -> tuple[str, ...]:
        return tuple("wxyz")

    def labels(self, classes: Sequence[str]) -> Any:
        return np.full(len(self.samples), -1 if classes else np.nan)


AUXILIARY = Samples(unit(np.random.default_rng(5), SAMPLES))


@cache
def _coordinates(parties: int, source: Any, mechanism: Any, joint: bool) -> str:
    plan = plan_statistic(
        AUXILIARY.samples, 3, parties, epsilon=1.0, mechanism=mechanism, source=source, rank=3, joint=joint
    )
    return encode_coordinates(plan.transform)


@cache
def record_parameters(parties: int, classes: int, mechanism: Any) -> dict[str, Any]:
    """Of a record step from a score of the public rows, which a rule labels."""
    labels = np.arange(SAMPLES) % classes
    plan = plan_records(AUXILIARY.samples, labels, classes, parties, rows=200, epsilon=1.0, mechanism=mechanism)
    grid = plan.grid
    matrices = {"coordinates": encode_coordinates(grid.transform), "offset": encode_coordinates(grid.offset)}
    return matrices | {"constant": grid.constant, "rows": plan.rows, "labelled": plan.labelled}


@cache
def regression_parameters(parties: int, mechanism: Any, unit: Unit = "record") -> dict[str, Any]:
    """Of a regression from a score of the public rows, whose labels a rule gives."""
    labels = AUXILIARY.samples[:, 0] * 5 + np.arange(SAMPLES) % 3 + 100
    terms: dict[str, Any] = {"rows": 200, "epsilon": 1.0, "mechanism": mechanism, "unit": unit}
    grid = plan_records(AUXILIARY.samples, labels, 1, parties, **terms).grid
    assert grid.label is not None
    matrices = {"coordinates": encode_coordinates(grid.transform), "offset": encode_coordinates(grid.offset)}
    ball = {} if grid.ball is None else {"unit": "party", "radius": grid.ball.radius / 2.0**ENTRY_BITS}
    numbers = {"constant": grid.constant, "rows": 200, "labelled": SAMPLES}
    return matrices | numbers | asdict(grid.label) | ball


@cache
def step_parameters(classes: int, norm: str) -> dict[str, Any]:
    """Of a rehearsed step in two coordinates and a constant."""
    draw = np.random.default_rng(7)
    matrices = {"coordinates": draw.normal(size=(FEATURES, 3)), "offset": draw.normal(size=(FEATURES, classes - 1))}
    numbers = {"ridge": 0.1, "limit": 3.0, "radius": 0.4, "scale": 0.8, "norm": norm, "rows": 200, "labelled": 9}
    return {name: encode_coordinates(matrix) for name, matrix in matrices.items()} | numbers


def classifier(scores: int) -> str:
    """Of an evaluation: the weights of a linear classifier."""
    return encode_coordinates(np.random.default_rng(6).normal(size=(FEATURES, scores)))


RELEASED = Release("discrete Gaussian in shares", 2.0, 1e-6, "record", protects=PrivacyUnit("record"))
"""What the model of "evaluation, number" has cost before."""


def fields_of(what: str, parties: int) -> dict[str, Any]:
    """Of a study that is called so."""
    none = {"holders": 0, "threshold": 0, "confirmations": 0, "key_bits": 0}
    two: dict[str, Any] = {"classes": ("a", "b")}
    fields: dict[str, dict[str, Any]] = {
        "tally": {"method": "soft", "proofs": "valid"},
        "statistic": {
            "method": "statistic",
            "public": True,
            "parameters": {"coordinates": _coordinates(parties, "votes", "discrete-laplace", True)},
            "minimum_ballots": parties,
        },
        "statistic, gaussian": {
            "method": "statistic",
            "delta": 1e-6,
            "parameters": {"coordinates": _coordinates(parties, "votes", "gaussian", True), "dropouts": 1},
            "minimum_ballots": parties - 1,
        },
        "statistic, own data": {
            "method": "own-data",
            "parameters": {"coordinates": _coordinates(parties, "own-data", "discrete-laplace", True)},
            "minimum_ballots": parties,
        },
        "statistic, noise of holders": {
            "method": "own-data",
            "public": True,
            "proofs": "valid",
            "parameters": {
                "coordinates": _coordinates(parties, "own-data", "discrete-laplace", True),
                "dropouts": 1,
                "noise_from": "holders",
            },
            "minimum_ballots": parties - 1,
        },
        "average": {"method": "avg", "parameters": {"radius": 2.0, "lam": 0.1}},
        "average, own data": {
            "method": "own-data",
            "parameters": {"coordinates": _coordinates(parties, "own-data", "spherical-laplace", False), "dropouts": 1},
            "minimum_ballots": parties - 1,
        },
        "average, whitened": {
            "method": "whitened",
            "parameters": {"coordinates": _coordinates(parties, "own-data", "spherical-laplace", False)},
            "minimum_ballots": parties,
        },
        "head": {
            "method": "mean",
            "delta": 1e-6,
            "proofs": "valid",
            "parameters": {"radius": 1.5, "dropouts": 1, "noise_from": "holders"},
            "minimum_ballots": parties - 1,
        },
        "rehearsed": {
            "method": "rehearsed",
            "public": True,
            "parameters": step_parameters(3, "l1"),
            "minimum_ballots": parties,
        },
        "rehearsed, gaussian": two
        | {
            "method": "rehearsed",
            "delta": 1e-6,
            "parameters": step_parameters(2, "l2") | {"ridge": 0.0, "dropouts": 1},
            "minimum_ballots": parties - 1,
        },
        "record": two
        | {
            "method": "newton",
            "delta": 1e-6,
            "parameters": record_parameters(parties, 2, "gaussian"),
            "minimum_ballots": parties,
        },
        "record, three classes": {
            "method": "newton",
            "public": True,
            "parameters": record_parameters(parties, 3, "discrete-laplace") | {"dropouts": 1},
            "minimum_ballots": parties - 1,
        },
        "regression": {
            "method": "newton",
            "delta": 1e-6,
            "classes": (),
            "parameters": regression_parameters(parties, "gaussian"),
            "minimum_ballots": parties,
        },
        "regression, party": {
            "method": "newton",
            "public": True,
            "classes": (),
            "proofs": "valid",
            "parameters": regression_parameters(parties, "discrete-laplace", "party") | {"dropouts": 1},
            "minimum_ballots": parties - 1,
        },
        "evaluation": two
        | {
            "method": "platt",
            "public": True,
            "parameters": {"classifier": classifier(1)},
            "minimum_ballots": parties,
        },
        "evaluation, party": {
            "method": "platt",
            "parameters": {"classifier": classifier(3), "unit": "party", "dropouts": 1},
            "minimum_ballots": parties - 1,
        },
        "evaluation, number": {
            "method": "unchanged",
            "public": True,
            "classes": (),
            "parameters": {
                "classifier": classifier(1),
                "low": 95.0,
                "high": 105.5,
                "largest_error": 6.0,
                "dropouts": 1,
                "released": encode_releases((RELEASED,)),
            },
            "minimum_ballots": parties - 1,
        },
        "psgd": two
        | {
            "method": "psgd",
            "delta": 1e-3,
            "parameters": {
                "sizes": " ".join(str(6 + number) for number in range(parties)),
                "steps": STEPS,
                "lam": 0.5,
                "fraction_bits": 12,
            },
            "minimum_ballots": parties,
        },
        "pathak": two
        | none
        | {"method": "pathak", "parameters": {"lam": 0.1, "smallest_size": 6}, "minimum_ballots": parties},
    }
    return {"protocol": what.split(",")[0], "samples": SAMPLES, "public_table": AUXILIARY.digest} | fields[what]


ALL = (
    "tally",
    "statistic",
    "average",
    "head",
    "rehearsed",
    "record",
    "regression",
    "evaluation",
    "psgd",
    "pathak",
    "statistic, gaussian",
    "statistic, own data",
    "statistic, noise of holders",
    "average, own data",
    "average, whitened",
    "rehearsed, gaussian",
    "record, three classes",
    "regression, party",
    "evaluation, party",
    "evaluation, number",
)


@dataclass
class Cast:
    """A study, and what its parties bring; `seed` is that of their data."""

    what: str
    parties: int = 5
    coins: Randomness = SYSTEM
    seed: int = 8
    confirmations: int | None = None
    minimum_ballots: int | None = None
    key_bits: int | None = None

    def __post_init__(self) -> None:
        options = {
            "confirmations": self.confirmations,
            "minimum_ballots": self.minimum_ballots,
            "key_bits": self.key_bits,
        }
        chosen = {name: value for name, value in options.items() if value is not None and self.what != "pathak"}
        self.made: Trial = trial(parties=self.parties, coins=self.coins, **fields_of(self.what, self.parties) | chosen)
        self.terms = StudyTerms(self.made.study, AUXILIARY)

    @cached_property
    def spec(self) -> Spec:
        return spec_of(self.terms)

    def agreed(self, key: Any = None) -> Any:
        """Return what everybody agrees on under a key."""
        return self.spec.terms(key, participants_of(self.made.study))

    @property
    def names(self) -> list[str]:
        return list(self.made.study.members.keys)

    def own(self, number: int) -> Any:
        """What the party brings."""
        generator = np.random.default_rng([self.seed, number])
        if self.spec.takes_classifier:
            return FixedVotes(generator.integers(0, len(self.made.study.classes), size=SAMPLES))
        X = unit(generator, 6 + number)
        if self.spec.numeric_label is not None:
            return X, 5 * X[:, 0] + 100 + generator.normal(size=len(X)) * 1e3  # most of them outside the bounds
        return X, (X[:, 0] > 0).astype(np.int64)

    def release(self, result: Any) -> bytes:
        """Whose data are in it, their sum, and of noisy sums the classifier; the exact ones this house shows bare."""
        parties = range(self.parties) if self.what == "pathak" else result
        parties = getattr(getattr(parties, "opened", parties), "parties", parties)
        sums = result.total if self.what == "pathak" else getattr(result, "opened", result).sums
        w = self.spec.release(result)[0].tobytes().hex() if self.spec.joint else ""
        return json.dumps([list(parties), list(map(int, sums)), w]).encode()

    def role(self, name: str, store: Store) -> Role:
        kind, _, number = name.partition(" ")
        if kind == CURATOR:
            return curator_role(self.terms, self.release, store)
        if kind == "holder":
            return holder_role(self.terms, int(number), store)
        return party_role(self.terms, int(number), self.made.keys[name], self.own(int(number)), store)

    def agent(self, name: str, board: Board, store: Store) -> Agent:
        return Agent(self.role(name, store), self.made.study.members, self.made.keys[name], board, store)

    # -- what must come of it

    def clear(self, number: int) -> list[int]:
        """A party's vector without noise, where a sum has one."""
        study, own = self.made.study, self.own(number)
        if self.what == "tally":
            return list(VoteLayout(SAMPLES, 3).encode(own.votes))
        if study.method == "avg":
            w = train_parties(*own, [len(own[1])], classes=3, lam=0.1)[0]
            return FixedPoint(FRACTION_BITS).encode(project(w, 2.0), 2.0)
        grid = self.spec.release_plan.grid  # type: ignore[attr-defined]
        if study.method == "mean":
            return list(grid.contribution(own.parameters))
        return list(
            own_vector(grid, *own)
            if isinstance(grid, OwnDataGrid | LocalStepGrid | RowGrid)
            else grid.contribution(own.votes)
        )

    def sent(self, agent: Agent) -> tuple[int, ...] | None:
        """What a party has put in, noise and all, by its own account; None where it has not."""
        stage = agent.state.stage
        if stage + 1 < 2 + self.made.study.uses_key:
            return None
        state = agent.state.state.state.state  # the protocol's own, under the stages around it
        if self.what == "pathak":
            result = agent.role.stage(agent.state).inner._result(state)  # type: ignore[attr-defined]
            return result and tuple(map(sum, zip(result.parameters, result.noise[0], strict=True)))
        values = state.vector if self.what == "psgd" else getattr(state, "values", None)
        return None if values is None else tuple(map(int, values))

    def judge(self, content: bytes, parties: Mapping[int, Agent]) -> list[int]:
        """Raise AssertionError unless what was released is what the counted parties put in; returns who they are."""
        counted, sums, w = json.loads(content)
        assert len(counted) >= self.made.study.minimum_ballots
        values = {number: self.sent(agent) for number, agent in parties.items()}
        if self.what == "psgd":  # each party comes to the release by itself
            for agent in parties.values():
                walk = agent.state.state.state.state.progress
                assert walk.steps == STEPS
                assert np.array(walk.point).tobytes().hex() == w
        by_holders = getattr(self.spec, "holder_shares", None) is not None
        if all(values.get(number) for number in counted) and not by_holders:
            assert sums == _summed([values[number] for number in counted])
        if self.what in ("psgd", "pathak"):
            return list(counted)
        noise = np.array(sums) - _summed([self.clear(number) for number in counted])
        if not self.spec.joint:
            assert not noise.any()
            return list(counted)
        assert noise.any()
        adders = len(self.made.study.holders) if by_holders else len(counted)
        assert abs(noise).max() <= adders * self.spec.shares.bound  # type: ignore[attr-defined]
        return list(counted)

    def check(self, agents: Mapping[str, Agent]) -> None:
        """What was released is what all parties put in, the same for everybody, and nobody was refused anything."""
        contents = {agent.result.content for agent in agents.values()}
        assert len(contents) == 1
        assert {name: agent.rejected for name, agent in agents.items() if agent.rejected} == {}
        parties = {number: agents[f"party {number}"] for number in range(self.parties)}
        assert all(self.sent(agent) for agent in parties.values())
        assert self.judge(contents.pop(), parties) == list(range(self.parties))


def _summed(vectors: Any) -> list[int]:
    return [sum(column) for column in zip(*vectors, strict=True)]


class Given(Role):
    """In place of the ceremony: a share that was dealt."""

    def __init__(self, name: str, share: KeyShare) -> None:
        self.name, self._share = name, share

    def start(self) -> Step:
        return Step(())

    def receive(self, state: Any, entries: Sequence[Entry]) -> Step:
        return Step(state)

    def result(self, state: Any) -> KeyShare:
        return self._share


def shares_of(study: Study) -> Sequence[KeyShare]:
    """Of a key that was dealt."""
    key = short_key(bits=study.key_bits, degree=study.degree)
    return deal(key, holders=len(study.holders), threshold=study.threshold)[1]


def given(role: Role, share: KeyShare) -> StagedRole:
    """A holder's role that makes no key but has this share of one."""
    assert isinstance(role, StagedRole)
    joining, _, keyed, holds = role._stages
    return StagedRole(role.name, joining, lambda joined: Given(role.name, share), keyed, holds)


@dataclass
class DealtCast(Cast):
    """The same under a key that was dealt, in a fraction of a second."""

    @cached_property
    def shares(self) -> Sequence[KeyShare]:
        return shares_of(self.made.study)

    def role(self, name: str, store: Store) -> Role:
        role = super().role(name, store)
        return given(role, self.shares[int(name[7:]) - 1]) if name.startswith("holder") else role

    def played(self, names: Sequence[str] = (), board: Board | None = None) -> tuple[Board, dict[str, Agent]]:
        """By everybody, or those named, until nobody moves; the curator closes the vote when all have voted."""
        board = MemoryBoard() if board is None else board
        agents = {name: self.agent(name, board, Store()) for name in names or self.names}
        while True:
            if not any([agent.step() for agent in agents.values()]):  # noqa: C419 - all of them take a turn
                curator = agents.get(CURATOR)
                if curator is None or not curator.role.is_ready(curator.state) or not curator.on_idle():
                    return board, agents
