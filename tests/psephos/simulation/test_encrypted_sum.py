"""One encrypted sum on every engine, interrupted, killed and continued; small test keys that say so."""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gmpy2 import jacobi

from psephos.audit.adversary import Tampering
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.encrypted_sum.votes import AuxiliarySet, vote_round
from psephos.protocol.errors import EngineError
from psephos.protocol.paillier.packing import PackingPlan
from psephos.protocol.transcript import Transcript
from psephos.simulation.encrypted_sum import (
    BATCH,
    EncryptedSum,
    PartyFactory,
    RunConfig,
    simulate_sum,
)
from psephos.simulation.engines import DaskEngine, LocalEngine, RayEngine, make_engine
from psephos.simulation.journal import Journal
from psephos.simulation.key_setup import KeySetup, setup_keys
from psephos.specs.base import VectorFormat
from psephos.specs.exact import TallySpec, VectorSpec

# Worker processes inherit the path, and find there what they are to import.
sys.path.insert(0, str(Path(__file__).parent / "workers"))
from trapped_voter import Fixed, die

PARTIES, SAMPLES, CLASSES = 3 * BATCH + 5, 9, 3
AUXILIARY = np.random.default_rng(1).normal(size=(SAMPLES, 2)) / 10
VOTES = np.random.default_rng(0).integers(0, CLASSES, size=(PARTIES, SAMPLES))
COUNTS = np.stack([(k == VOTES).sum(axis=0) for k in range(1, CLASSES)], axis=1).reshape(-1).tolist()


def contribution(trap: Path | None = None) -> PartyFactory:
    """Party 40, in the second batch, steps into the trap."""
    voters = [
        Fixed(votes, None if trap is None or number != 40 else str(trap), os.getpid())
        for number, votes in enumerate(VOTES)
    ]
    return PartyFactory(TallySpec(AuxiliarySet.of(AUXILIARY), CLASSES), voters)


@pytest.fixture(scope="module")
def ceremony() -> KeySetup:
    return setup_keys(PARTIES, key_bits=256, holders=3, threshold=2, test_key=True)


def run(round_: Round, ceremony: KeySetup, what: Any, *, workers: int = 1, **how: Any) -> EncryptedSum:
    return simulate_sum(round_, ceremony, what, RunConfig(**{"engine": LocalEngine(workers), **how}))


def fresh_round(ceremony: KeySetup) -> Round:
    return vote_round(ceremony.threshold_key, ceremony.roster, AUXILIARY, CLASSES, test_key=True)


def check(done: EncryptedSum) -> None:
    assert list(done.opened.sums) == COUNTS
    assert done.opened.parties == tuple(range(PARTIES))
    assert done.equals_plaintext is True


# -- what comes out


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_votes_are_counted_exactly(ceremony: KeySetup, workers: int) -> None:
    seen: list[int] = []
    transcript = Transcript()
    done = run(
        fresh_round(ceremony), ceremony, contribution(), workers=workers, progress=seen.append, transcript=transcript
    )
    check(done)
    assert sum(seen) == PARTIES
    assert done.continued_from == 0
    assert done.peak_memory_mb > 10
    assert done.seconds.keys() == {"encrypt", "aggregate", "decrypt"}
    senders = [message.sender for message in transcript.messages]
    assert senders[:PARTIES] == [f"party {number}" for number in range(PARTIES)]
    assert len(senders) == PARTIES + 1 + 2 * 2  # the end of the vote, requests and answers


def test_negative_and_very_large_entries_are_summed_exactly(ceremony: KeySetup) -> None:
    vectors = np.array([[3**40 * (-1) ** j, j - 50, -(2**80)] for j in range(PARTIES)], dtype=object)
    plan = PackingPlan.for_key(ceremony.threshold_key.key, length=3, addends=PARTIES, minimum=-(2**80), maximum=2**80)
    round_ = Round.create("parameters", ceremony.threshold_key, plan, ceremony.roster, context=bytes(32), test_key=True)

    # numpy's object arrays are not packed, lists of Python's integers are.
    spec = VectorSpec(VectorFormat(3, -(2**80), 2**80), bytes(32))
    done = run(round_, ceremony, PartyFactory(spec, vectors.tolist()))
    assert list(done.opened.sums) == vectors.sum(axis=0).tolist()
    assert done.equals_plaintext is True


class Liar(Tampering):
    """A party whose result is another vote than the one it posted."""

    def result(self, state: Any) -> Any:
        votes = super().result(state)
        return (1 - votes[0], *votes[1:])


def test_a_wrong_sum_is_detected(ceremony: KeySetup) -> None:
    assert run(fresh_round(ceremony), ceremony, contribution(), roles={"party 7": Liar}).equals_plaintext is False


def test_batched_and_unbatched_runs_send_the_same_messages(ceremony: KeySetup) -> None:
    seen = []
    for secrets in (False, True):
        transcript = Transcript(secrets=secrets)
        check(run(fresh_round(ceremony), ceremony, contribution(), transcript=transcript))
        seen.append([(m.phase, m.sender, m.receiver, m.kind, m.size) for m in transcript.messages])
    assert seen[0] == seen[1]


def test_absent_parties_are_not_counted(ceremony: KeySetup) -> None:
    present = range(0, PARTIES, 2)
    done = run(fresh_round(ceremony), ceremony, contribution(), present=present)
    assert done.opened.parties == tuple(present)
    assert done.equals_plaintext is True


# -- killed workers


@pytest.mark.slow
def test_a_killed_worker_is_replaced_and_the_count_is_exact(ceremony: KeySetup, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    trap.touch()
    seen: list[int] = []
    done = run(fresh_round(ceremony), ceremony, contribution(trap), engine=LocalEngine(2), progress=seen.append)
    assert not trap.exists(), "nobody was killed"
    check(done)
    assert sum(seen) == PARTIES


def test_an_engine_gives_up_on_workers_that_die_again_and_again() -> None:
    with pytest.raises(EngineError, match="fewer workers"):
        list(LocalEngine(2).run(die, None, [int, int]))


# -- interrupted and continued


class Stop(BaseException):
    pass


def stop_after(batches: int):  # type: ignore[no-untyped-def]
    left = [batches]

    def progress(parties: int) -> None:
        left[0] -= parties > 0
        if left[0] == 0 and parties:
            raise Stop

    return progress


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_an_interrupted_run_continues_and_counts_nothing_twice(
    ceremony: KeySetup, tmp_path: Path, workers: int
) -> None:
    path = tmp_path / "journal"
    transcript = Transcript()
    with Journal(path, {"seed": 1}) as journal, pytest.raises(Stop):
        run(fresh_round(ceremony), ceremony, contribution(), journal=journal, workers=workers, progress=stop_after(2))
    seen: list[int] = []
    with Journal(path, {"seed": 1}) as journal:
        done = run(
            fresh_round(ceremony),
            ceremony,
            contribution(),
            journal=journal,
            workers=workers,
            progress=seen.append,
            transcript=transcript,
        )
    check(done)
    assert 0 < done.continued_from < PARTIES
    assert seen[0] == done.continued_from
    assert sum(seen) == PARTIES
    assert len(transcript.messages) == PARTIES + 5


def test_a_finished_journal_repeats_the_result(ceremony: KeySetup, tmp_path: Path) -> None:
    """Byte for byte: the holders repeat what they answered."""
    with Journal(tmp_path / "journal", {}) as journal:
        first, second = Transcript(), Transcript()
        check(run(fresh_round(ceremony), ceremony, contribution(), journal=journal, transcript=first))
        done = run(fresh_round(ceremony), ceremony, contribution(), journal=journal, transcript=second)
    check(done)
    assert done.continued_from == PARTIES
    assert [m.digest for m in first.messages] == [m.digest for m in second.messages]


# -- what is handed to a worker, and what it answers


class Recording:
    """An engine of this process that notes what it is given, and tells another story of what it took."""

    def count_workers(self) -> int:
        return 3

    def __init__(self, **changes: Any) -> None:
        self.shared: Any = None
        self.batches: list[Any] = []
        self.results: list[Any] = []
        self._changes = changes

    def run(self, function: Any, shared: Any, tasks: Any) -> Any:
        self.shared = shared
        for task in tasks:
            self.batches.append(task())
            self.results.append(function(shared, self.batches[-1]))
            yield replace(self.results[-1], **self._changes)


@pytest.mark.parametrize("mode", ["full", "half", "short"])
def test_workers_encrypt_in_the_mode_that_was_chosen(ceremony: KeySetup, mode: Any) -> None:
    """In all modes but `full` every Jacobi symbol is 1; of 60 ciphertexts in `full` all are with probability 2^-60."""
    key, engine, spec = ceremony.threshold_key.key, Recording(), VectorSpec(VectorFormat(60, 0, 2**200), bytes(32))
    plan = PackingPlan.for_key(key, length=60, addends=PARTIES, minimum=0, maximum=2**200)
    assert plan.ciphertexts == 60
    round_ = Round.create("parameters", ceremony.threshold_key, plan, ceremony.roster, context=bytes(32), test_key=True)
    factory = PartyFactory(spec, [[7] * 60] * PARTIES)
    run(round_, ceremony, factory, engine=engine, present=range(round_.minimum_ballots), mode=mode)
    columns = engine.results[0].products[0][1]
    assert ({jacobi(column % key.modulus, key.modulus) for column in columns} == {1}) == (mode != "full")


def test_a_worker_gets_only_its_batch(ceremony: KeySetup) -> None:
    """All that is secret belongs to the batch; what is shared is sent once, and has nobody's classifier in it."""
    engine, round_, whole = Recording(), fresh_round(ceremony), contribution()
    present = [number for number in range(PARTIES) if not BATCH <= number < 2 * BATCH and number != 3]
    check_ = run(round_, ceremony, whole, engine=engine, present=present, mode="short")
    assert check_.opened.parties == tuple(present)
    assert [batch.first for batch in engine.batches] == [0, 2 * BATCH, 3 * BATCH]
    assert [number for batch in engine.batches for number in batch.numbers] == present
    for batch in engine.batches:
        assert batch.seeds == [ceremony.signing_keys.seed(number) for number in batch.numbers]
        assert list(batch.data) == whole.data[batch.first : batch.first + BATCH]
    shared = engine.shared
    assert (shared.round, shared.mode, shared.holders, shared.factory.data) == (round_, "short", 3, ())
    assert shared.expected == -(-len(present) * round_.plan.ciphertexts // 3)
    run(round_, ceremony, whole, engine=engine, expected=77)
    assert engine.shared.expected == 77


# -- Dask

dask = pytest.mark.skipif(importlib.util.find_spec("distributed") is None, reason="needs the extra dask")
quiet = pytest.mark.filterwarnings("ignore")  # distributed's own


@pytest.fixture
def cluster():  # type: ignore[no-untyped-def]
    """A cluster of this test's own: some tests kill its workers, and nobody should meet what they leave."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
    ) as made:
        made.wait_for_workers(2)
        yield made


@pytest.mark.soak
@dask
@quiet
def test_a_cluster_counts_exactly_with_a_worker_killed_in_the_middle(
    cluster, ceremony: KeySetup, tmp_path: Path
) -> None:  # type: ignore[no-untyped-def]
    trap = tmp_path / "trap"
    trap.touch()
    engine = make_engine("dask", scheduler=cluster.scheduler_address)
    assert engine.count_workers() == 2
    transcript = Transcript()
    with Journal(tmp_path / "journal", {}) as journal:
        done = run(
            fresh_round(ceremony), ceremony, contribution(trap), engine=engine, journal=journal, transcript=transcript
        )
    assert not trap.exists(), "nobody was killed"
    check(done)
    assert len(transcript.messages) == PARTIES + 5


@dask
@quiet
def test_a_missing_scheduler_is_reported(ceremony: KeySetup) -> None:
    started = time.monotonic()
    with pytest.raises(EngineError, match=r"127.0.0.1:1\b"):
        run(fresh_round(ceremony), ceremony, contribution(), engine=DaskEngine("127.0.0.1:1", timeout=1))
    assert time.monotonic() - started < 30


# -- Ray

ray_ = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs the extra ray")


@pytest.mark.soak
@ray_
@quiet
def test_a_ray_cluster_counts_exactly_with_a_worker_killed_in_the_middle(
    ceremony: KeySetup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    trap = tmp_path / "trap"
    trap.touch()
    engine = make_engine("ray", scheduler="local")
    transcript = Transcript()
    try:
        assert engine.count_workers() == 2
        with Journal(tmp_path / "journal", {}) as journal:
            done = run(
                fresh_round(ceremony),
                ceremony,
                contribution(trap),
                engine=engine,
                journal=journal,
                transcript=transcript,
            )
    finally:
        ray.shutdown()
    assert not trap.exists(), "nobody was killed"
    check(done)
    assert len(transcript.messages) == PARTIES + 5


@ray_
@quiet
def test_a_missing_ray_cluster_is_reported(ceremony: KeySetup) -> None:
    with pytest.raises(EngineError, match=r"127.0.0.1:1\b"):
        run(fresh_round(ceremony), ceremony, contribution(), engine=RayEngine("127.0.0.1:1"))
