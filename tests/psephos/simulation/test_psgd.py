"""Tests of the simulated PSGD: opened sums, noise, costs, and runs that are interrupted and continued."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from psephos.budget import RunBudget
from psephos.curator.psgd.agreement import Agreement, agree
from psephos.parties.gradients import LocalLoss
from psephos.protocol.privacy.unit import PrivacyUnit
from psephos.protocol.randomness import SimulationRandomness
from psephos.protocol.roles import Entry, Role, Step
from psephos.protocol.transcript import Transcript
from psephos.results.base import Result
from psephos.simulation.key_setup import KeySetup, setup_keys
from psephos.simulation.psgd import (
    DescentRun,
    PsgdOptions,
    _charges,
    clear_descent,
    descend,
    simulate_psgd,
)

SIZES = (5, 9, 2, 14)
OPTIONS = PsgdOptions(parties=5, steps=6, key_bits=1024, test_key=True, delta=1e-3, simulate_noise=True, seed=3)
SMALL = PsgdOptions(steps=5, delta=1e-3, test_key=True)


@pytest.fixture(scope="module")
def ceremony() -> KeySetup:
    return setup_keys(
        4, key_bits=1024, holders=3, threshold=2, test_key=True, randomness=SimulationRandomness(5, "psgd ceremony")
    )


def private(options: PsgdOptions = SMALL, dimension: int = 4) -> list[LocalLoss]:
    generator = np.random.default_rng(0)
    made = []
    for size in SIZES:
        X = generator.normal(size=(size, dimension))
        X /= np.maximum(1, np.linalg.norm(X, axis=1))[:, None]
        y = np.where(X[:, 0] + 0.2 * generator.normal(size=size) > 0, 1, -1)
        made.append(LocalLoss(X, y, options.loss))
    return made


def agreed(options: PsgdOptions = SMALL) -> Agreement:
    return agree(options, SIZES, 4, bytes(16))


def run_descent(ceremony: KeySetup, options: PsgdOptions = SMALL, **more: Any) -> DescentRun:
    return descend(options, private(options), agreed(options), ceremony, **more)


class Interrupted(BaseException):
    """Raised in place of a power cut; a BaseException, so that the library does not catch it."""


class Wrapped(Role):
    """Base of roles that change what an honest role does."""

    def __init__(self, role: Role) -> None:
        self.role, self.name, self.reads = role, role.name, role.reads

    def start(self) -> Step:
        return self.role.start()

    def receive(self, state: Any, entries: Sequence[Entry]) -> Step:
        return self.role.receive(state, entries)

    def on_idle(self, state: Any) -> Step | None:
        return self.role.on_idle(state)

    def result(self, state: Any) -> Any:
        return self.role.result(state)


class Fused(Wrapped):
    """Raises `Interrupted` in its `fuse`-th step, before the step is stored."""

    def __init__(self, role: Role, fuse: int) -> None:
        super().__init__(role)
        self.fuse = fuse

    def receive(self, state: Any, entries: Sequence[Entry]) -> Step:
        step = self.role.receive(state, entries)
        self.fuse -= 1
        if not self.fuse:
            raise Interrupted
        return step


# -- the mistake to be feared most: a second release for one step


def messages_sent(transcript: Transcript) -> list[tuple[str, str, bytes | None]]:
    return [(m.sender, m.receiver, m.data) for m in transcript.messages]


@pytest.mark.parametrize(
    "simulated", [pytest.param(True, marks=pytest.mark.slow), False], ids=["noise of the seed", "noise of the system"]
)
def test_run_that_is_killed_repeatedly_answers_each_step_once(tmp_path: Path, simulated: bool) -> None:
    """A run killed at any step sends the same messages as one that is not, and ends with the same result."""
    options = replace(OPTIONS, journal=str(tmp_path / "journal"), simulate_noise=simulated)
    sent: list[tuple[str, str, bytes | None]] = []
    for who, fuse in (("party 2", 2), ("holder 2", 2), ("curator", 3), ("holder 1", 3), ("party 4", 1)):
        transcript = Transcript(secrets=True)
        dying: dict[str, Callable[[Role], Role]] = {who: lambda role, fuse=fuse: Fused(role, fuse)}  # type: ignore[misc]
        with pytest.raises(Interrupted):
            simulate_psgd(options, roles=dying, transcript=transcript)
        assert messages_sent(transcript)[: len(sent)] == sent, (
            "what was sent before an interrupt is not what stands after it"
        )
        sent = messages_sent(transcript)
    transcript = Transcript(secrets=True)
    resumed = simulate_psgd(options, transcript=transcript)
    assert messages_sent(transcript)[: len(sent)] == sent
    assert 0 < resumed.resumed_at < 6
    assert (resumed.steps, resumed.sums_equal_reference) == (6, True)
    ballots = Counter(m.sender for m in transcript.messages if m.kind == "ballot")
    assert ballots == {f"party {number}": 6 for number in range(5)}
    assert Counter(m.sender for m in transcript.messages if m.kind == "partial decryption").keys() == {
        "holder 1",
        "holder 2",
    }
    if simulated:
        assert resumed.w == simulate_psgd(OPTIONS).w


# -- what is opened


@pytest.mark.parametrize("variant", ["paper", "footnote-4", "halving", "gaussian"])
def test_opened_sum_equals_the_clear_sum(ceremony: KeySetup, variant: Any) -> None:
    result = run_descent(ceremony, replace(SMALL, variant=variant))
    assert result.sums_equal_reference is True
    assert (result.steps, len(result.opened)) == (5, 5)


@pytest.mark.parametrize("variant", ["paper", "halving", "gaussian"])
def test_gradients_with_their_noise_are_proved_to_be_within_bounds(ceremony: KeySetup, variant: Any) -> None:
    result = run_descent(ceremony, replace(SMALL, variant=variant, proofs="valid"))
    assert result.sums_equal_reference is True
    assert result.steps == 5


@pytest.mark.parametrize("loss", ["logistic", "huber"])
def test_fixed_point_sum_is_within_its_bound(ceremony: KeySetup, loss: Any) -> None:
    """Without noise, the opened sum differs from the real one by at most half a unit per party and entry."""
    options = replace(SMALL, loss=loss)
    agreement = agreed(options)
    quiet = replace(
        agreement.series, fixed_sigmas=(0.0,) * len(SIZES), step_law="none", step_scale=0.0, fraction_bits=12
    )
    transcript = Transcript(secrets=True)
    result = descent_with(ceremony, options, replace(agreement, series=quiet), transcript=transcript)
    points = [np.frombuffer(m.data[-32:], ">f8") for m in transcript.messages if m.kind == "announcement"]
    worst = 0.0
    for point, opened in zip(points, result.opened, strict=True):
        plain = [math.fsum(c) for c in zip(*(local.gradient(point) for local in private(options)), strict=True)]
        worst = max(worst, *(abs(u - exact / quiet.pitch) for u, exact in zip(opened.sums, plain, strict=True)))
    assert 0.5 < worst <= len(SIZES) / 2


def descent_with(ceremony: KeySetup, options: PsgdOptions, agreement: Agreement, **more: Any) -> DescentRun:
    return descend(options, private(options), agreement, ceremony, **more)


def test_comparison_detects_a_party_that_encrypts_another_vector(ceremony: KeySetup) -> None:
    """The clear sum has the vectors that the parties report, so a party that encrypts another one makes it differ."""

    class Liar(Wrapped):
        def result(self, state: Any) -> Any:
            honest = self.role.result(state)
            return replace(honest, vector=tuple(v + 1 for v in honest.vector))

    assert run_descent(ceremony, roles={"party 1": Liar}).sums_equal_reference is False


# -- the job


def test_result_of_a_run() -> None:
    heard: list[tuple[str, int, int]] = []
    result = simulate_psgd(OPTIONS, progress=lambda *step: heard.append(step))
    document = json.loads(json.dumps(result.as_json(), allow_nan=False))
    assert Result.from_json(document) == result
    assert heard == [("steps", done, 6) for done in range(7)]
    assert result.sums_equal_reference is True
    assert document["epsilon_final"] == 1.0
    assert result.guarantee.unit == "record"
    assert 1 < document["epsilon_transcript"] <= 6.0
    assert result.noise_source == "simulation"
    assert document["accuracy"]["psgd"]["nonprivate"] > 0.9


# -- the same descent without encryption


def pooled() -> LocalLoss:
    parts = private()
    return LocalLoss(np.concatenate([p.X for p in parts]), np.concatenate([p.y for p in parts]), "logistic")


@pytest.mark.parametrize("variant", ["paper", "halving", "gaussian"])
def test_clear_descent_has_the_noise_of_all_parties(variant: Any) -> None:
    """Drawn 400 times, what one step adds has the variance of all shares together, and no mean; the fixed noise too."""
    agreement, records = agreed(replace(SMALL, variant=variant)), pooled()
    series, coins = agreement.series, np.random.default_rng(3)
    if series.step_law == "discrete-gaussian":
        expected = 4 * len(SIZES) * series.step_scale * series.pitch**2
    else:
        expected = len(SIZES) * 4 * 5 * series.scale_at(1) ** 2
    start = records.gradient(np.zeros(4))
    plain = agreement.descent.step(np.zeros(4), start, 0)
    unit = agreement.descent.step(np.zeros(4), start + 1, 0) - plain
    releases = [clear_descent(records, agreement, coins, eta=np.zeros(4), steps=1) for _ in range(400)]
    noise = (np.array(releases) - plain) / unit
    assert 0.5 < (noise**2).sum(axis=1).mean() / expected < 2
    fixed = [clear_descent(records, agreement, coins, steps=1, step_noise=False) for _ in range(400)]
    noise = (np.array(fixed) - plain) / unit
    assert 0.5 * agreement.sigma**2 <= (noise**2).mean() <= 2 * agreement.sigma**2


@pytest.mark.parametrize(
    ("transcript", "final", "charged"),
    [
        (3.0, 1.0, [("the noisy sums of psgd", 3.0)]),
        (1e6, 1.0, [("the noisy sums of psgd", None), ("psgd", 1.0)]),
        (None, 1.0, [("the noisy sums of psgd", None), ("psgd", 1.0)]),
        (None, None, [("the noisy sums of psgd", None)]),
    ],
)
def test_what_a_descent_is_charged(
    transcript: float | None, final: float | None, charged: list[tuple[str, float | None]]
) -> None:
    guarantee = SimpleNamespace(epsilon_transcript=transcript, epsilon_final=final, delta=1e-4)
    agreement: Any = SimpleNamespace(guarantee=guarantee)
    budget = RunBudget(Path(), bytes(32), PrivacyUnit("record"), "", bytes(16))
    charges = _charges(agreement, budget)
    assert [(one.name, one.event and one.event.epsilon) for one in charges] == charged
    assert {one.event.delta for one in charges if one.event} <= {1e-4}
    assert all(bool(one.reason) != bool(one.event) for one in charges)
