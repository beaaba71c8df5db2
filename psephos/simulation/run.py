"""What every run of encrypted sums has in common: its keys, its sums, and their times."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from psephos.data.datasets import Dataset
from psephos.data.own import Frames
from psephos.data.partition import load_split
from psephos.data.preprocessing import default_scaler
from psephos.data.splits import Split
from psephos.progress import Progress, counted, silent
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.roles import Role
from psephos.protocol.transcript import Transcript
from psephos.results.evaluation import Evaluation
from psephos.simulation.encrypted_sum import EncryptedSum, PartyFactory, RunConfig, simulate_sum
from psephos.simulation.engines import make_engine
from psephos.simulation.journal import Journal
from psephos.simulation.key_setup import KeySetup, setup_run_keys
from psephos.simulation.options import HolderOptions
from psephos.specs.base import Participants, SumSpec

Replacements = Mapping[str, Callable[[Role], Role]]
"""Name of a role -> function that returns its replacement (`psephos.protocol.driver.replace_roles`)."""


class RunContext(TypedDict, total=False):
    """Optional arguments of every simulation, besides its options.

    data: a data set, a table in memory or a finished split, in place of the data that the options name. transcript:
    records every message. progress: called as the run proceeds. roles: replaces roles, in every sum. public_only:
    whether the model of the labelled public rows is released in place of every method, so that no party is asked.
    """

    data: Dataset | Split | Frames | None
    transcript: Transcript | None
    progress: Progress
    roles: Replacements | None
    public_only: bool


def check_context(context: RunContext) -> None:
    """Raise TypeError for an unknown argument: an attack whose `roles` is misspelt would run the honest protocol."""
    if unknown := sorted(context.keys() - RunContext.__annotations__.keys()):
        raise TypeError(f"a simulation takes no argument {', '.join(unknown)}")


class KeyedRun:
    """The keys and the encrypted sums of one run.

    Attributes:
        options: of the run; what a command has no option for is as in `RunConfig` and `Participants`.
        done: the sums that were taken.
        seconds: wall-clock seconds by phase.
        before_sum: charges what the sums cost, before the parties are asked.
    """

    def __init__(
        self,
        options: HolderOptions,
        context: RunContext,
        journal: Journal | None = None,
        before_sum: Callable[[], object] = lambda: None,
    ) -> None:
        check_context(context)
        self.options, self.before_sum = options, before_sum
        self.progress: Progress = context.get("progress", silent)
        self.transcript, self.journal = context.get("transcript"), journal
        self.present = sorted(set(range(options.parties)) - set(options.absent_parties))
        self.done: list[EncryptedSum] = []
        self.seconds: dict[str, float] = {}
        self._roles = dict(context.get("roles") or {})
        self._chosen = vars(options)
        engine = {"name": self._chosen.get("engine", "local"), "scheduler": self._chosen.get("scheduler")}
        self._engine = make_engine(workers=self._chosen["workers"], **engine)
        self._keys: KeySetup | None = None

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Add the wall-clock time of the block to a phase, without the time of phases inside it."""
        started, before = time.perf_counter(), sum(self.seconds.values())
        yield
        inside = sum(self.seconds.values()) - before
        self.seconds[phase] = self.seconds.get(phase, 0.0) + time.perf_counter() - started - inside

    def keys_for(self, spec: SumSpec) -> KeySetup:
        """Return everybody's keys, made when the first vectors are to be summed, of the degree that these take."""
        if self._keys is None:
            done = counted(self.progress, "make the key", 1)
            with self.timed("keygen"):
                degree = self._chosen.get("degree") or spec.best_degree(self.options.key_bits, self.options.parties)
                make = partial(setup_run_keys, self.options, degree, self.transcript, self.progress)
                self._keys = make() if self.journal is None else self.journal.key_setup(make)
            done(1)
        return self._keys

    def sum(
        self,
        spec: SumSpec,
        data: Sequence[Any] | NDArray[np.int64],
        phase: str,
        *,
        label: str = "",
        minimum_ballots: int | None = None,
    ) -> EncryptedSum:
        """Take one encrypted sum of each party's `data`, as `Spec.prepare` returns it, or of vectors (M, length).

        `phase`: what progress and timings call it. `label`: what a journal calls it. `minimum_ballots`: where it is not
        the options' own.
        """
        chosen, keys = self._chosen, self.keys_for(spec)
        minimum = chosen.get("min_ballots") if minimum_ballots is None else minimum_ballots
        who = Participants(keys.roster, minimum, self.options.test_key, chosen.get("proofs", "none"))
        config = RunConfig(
            chosen.get("randomness", "half"),
            self._engine,
            self.journal,
            self.transcript,
            counted(self.progress, phase, len(self.present)),
            self._roles,
            self.present,
            label,
        )
        self.before_sum()
        done = simulate_sum(spec.terms(keys.threshold_key, who), keys, PartyFactory(spec, data), config)
        self.done.append(done)
        for name, seconds in done.seconds.items():
            self.seconds[name] = self.seconds.get(name, 0.0) + seconds
        return done


def load_two_classes(options: Any, evaluation: Evaluation, context: RunContext) -> tuple[Any, Split, Any]:
    """Start an evaluation of a protocol for two classes; return its options, split and scaler, of public rows."""
    check_context(context)
    options, split = load_split(options, context.get("data"))
    name, classes = split.dataset.name, len(split.dataset.classes)
    if classes != 2:
        raise InvalidParameter(f"the protocol is for two classes, and {name} has {classes}: choose another data set")
    scaler = default_scaler(name).fit(split.X_auxiliary)
    evaluation.start(split, scaler, scaler.transform(split.X_test))
    return options, split, scaler


def evaluated_fields(options: Any, evaluation: Evaluation) -> dict[str, Any]:
    """Return the fields that the results of all evaluated runs have; the accuracy is that at the first epsilon."""
    assert evaluation.split is not None
    return {
        "options": options.plain(),
        "dataset": evaluation.split.dataset.name,
        "test": len(evaluation.test),
        "class_names": list(evaluation.split.dataset.classes),
        "test_shares": evaluation.class_shares,
        "accuracy": evaluation.accuracy(float(np.atleast_1d(options.epsilon)[0])),
        "evaluation": evaluation,
    }
