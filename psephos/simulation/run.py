"""What every run of encrypted sums has in common: its keys, its sums, and their times."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from psephos.budget import budget_of
from psephos.data.datasets import Dataset
from psephos.data.partition import load_split
from psephos.data.preprocessing import default_scaler
from psephos.data.splits import Split
from psephos.progress import Progress, counted, silent
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.privacy.accounting import stated
from psephos.protocol.randomness import SYSTEM
from psephos.protocol.roles import Role
from psephos.protocol.transcript import Transcript
from psephos.results.base import timed
from psephos.results.evaluation import Evaluation
from psephos.simulation.encrypted_sum import EncryptedSum, PartyFactory, RunConfig, simulate_sum
from psephos.simulation.engines import make_engine
from psephos.simulation.journal import Journal
from psephos.simulation.key_setup import KeySetup, setup_run_keys
from psephos.simulation.options import HolderOptions
from psephos.specs.base import Participants, SumSpec
from psephos.specs.noisy import NoisySumSpec

Replacements = Mapping[str, Callable[[Role], Role]]
"""Name of a role -> function that returns its replacement (`psephos.protocol.driver.replace_roles`)."""


class RunContext(TypedDict, total=False):
    """Optional arguments of every simulation, besides its options.

    data: a data set or a finished split, in place of the data that the options name. transcript: records every message.
    progress: called as the run proceeds. roles: replaces roles, in every sum.
    """

    data: Dataset | Split | None
    transcript: Transcript | None
    progress: Progress
    roles: Replacements | None


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


def load_two_classes(options: Any, evaluation: Evaluation, data: Dataset | Split | None) -> tuple[Any, Split, Any]:
    """Start an evaluation of a protocol for two classes; return its options, split and scaler, of public rows."""
    options, split = load_split(options, data)
    name, classes = split.dataset.name, len(split.dataset.classes)
    if classes != 2:
        raise InvalidParameter(f"the protocol is for two classes, and {name} has {classes}: choose another data set")
    scaler = default_scaler(name).fit(split.X_auxiliary)
    evaluation.start(split, scaler, scaler.transform(split.X_test))
    return options, split, scaler


def evaluated_fields(options: Any, evaluation: Evaluation) -> dict[str, Any]:
    """Return the fields that the results of runs with one release have, once it is evaluated."""
    assert evaluation.split is not None
    return {
        "options": options.plain(),
        "dataset": evaluation.split.dataset.name,
        "test": len(evaluation.test),
        "class_names": list(evaluation.split.dataset.classes),
        "accuracy": evaluation.accuracy(options.epsilon),
        "evaluation": evaluation,
    }


class RowSum(ABC):
    """A run of one encrypted sum over the parties' own rows: a regression, or the evaluation of a model.

    Attributes:
        released: what a budget file calls the release.
        phase: what progress calls the parties' work.
    """

    released: ClassVar[str]
    phase: ClassVar[str]

    def __init__(self, options: Any, split: Split, spec: NoisySumSpec) -> None:
        self.options, self.split, self.spec = options, split, spec
        self._budget = budget_of(options, split, options.unit)
        self._event = replace(stated(spec.release_plan.event, getattr(options, "delta", 0.0)), name=self.released)

    @abstractmethod
    def rows_of(self, number: int) -> tuple[Any, ...]:
        """Return a party's rows, float64 (n, d + 1), and their labels, (n,).

        Where persons are protected, also whose each row is, int64 (n,). Secrets.
        """

    def sum(self, **context: Unpack[RunContext]) -> EncryptedSum:
        """Make the keys, and take the sum, whose noise is complete without the agreed number of absent parties.

        It is charged before the parties are asked. Raises BudgetExceededError before anything is computed.
        """
        budget = replace(self._budget, run=SYSTEM.draw(16))
        charges = [budget.release(self.released, self._event)]
        budget.check(charges)
        run = KeyedRun(self.options, context, before_sum=partial(budget.charge, charges))
        rows = [self.rows_of(number) for number in range(self.options.parties)]
        # At least 2 ballots: `contributors` leaves one share beside the observer's.
        least = self.options.parties - self.options.dropouts
        done = run.sum(self.spec, rows, self.phase, minimum_ballots=least)
        return replace(done, seconds=run.seconds)

    def fields(self, done: EncryptedSum) -> dict[str, Any]:
        """Return the fields that the results of all such runs have, of an opened sum."""
        cost = self.spec.cost(done.opened.ballots)
        # The time of other phases depends on private rows.
        settled = {name: done.seconds[name] for name in ("keygen", "decrypt")}
        return {
            "options": self.options.plain(),
            "dataset": self.split.dataset.name,
            "phases": timed(settled),
            "privacy": replace(cost, delta=self._event.delta, protects=self.options.protects),
            "ballots": done.opened.ballots,
            "ciphertexts_per_ballot": done.round.plan.ciphertexts,
            "bytes_per_ballot": done.ballot_bytes,
            "tally_equals_plaintext": done.equals_plaintext,
            "colluders": self.options.coalition or 0,
            "budget": self._budget.summary(),
        }
