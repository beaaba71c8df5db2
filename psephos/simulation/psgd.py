"""Simulate private stochastic gradient descent with all roles on this machine (Rajkumar and Agarwal 2012).

`descend` runs Algorithm 1 on the encrypted sum: the curator announces a step, every party posts a signed ballot, and
the key holders open the product of the ballots and nothing else. `simulate_psgd` is what `psephos simulate psgd` runs.

A journal stores each role's state, ledger and messages in one transaction. A run that is started again continues from
there with the same ballots and openings, so that no privacy is spent twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from psephos.budget import RunBudget, budget_of
from psephos.curator.psgd.agreement import Agreement, DescentOptions, agree
from psephos.curator.psgd.curator import GradientCuratorState
from psephos.curator.psgd.gop import perturbed_minimiser
from psephos.curator.tally import OpenedSum
from psephos.data.datasets import Dataset
from psephos.data.partition import AbsentRole, load_split, scaler_for
from psephos.data.splits import Split
from psephos.options import option
from psephos.parties.gradients import LocalLoss, signed_labels
from psephos.parties.psgd import GradientPartyState
from psephos.progress import Progress, silent
from psephos.protocol.driver import Driver, replace_roles
from psephos.protocol.encrypted_sum.messages import Ballot
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.psgd.series import Announcement, SeriesTerms
from psephos.protocol.randomness import SYSTEM
from psephos.protocol.roles import Entry, Role
from psephos.protocol.storage.budget import Charge
from psephos.protocol.storage.store import OnceLedger, Store
from psephos.protocol.transcript import Transcript
from psephos.protocol.wire import Kind
from psephos.results import Guarantee, PsgdResult
from psephos.results.base import timed
from psephos.results.evaluation import Evaluation
from psephos.simulation.holder_options import BallotOptions, HolderOptions, JournalOptions
from psephos.simulation.journal import Journal
from psephos.simulation.key_setup import KeySetup, setup_run_keys
from psephos.specs.base import Participants
from psephos.specs.psgd import PsgdSpec

_NOT_IDENTITY = ("journal", "data_dir", "budget", "budget_limit")

Array = NDArray[np.float64]
Replacements = Mapping[str, Callable[[Role], Role]]


@dataclass(frozen=True, kw_only=True)
class PsgdOptions(BallotOptions, JournalOptions, HolderOptions, DescentOptions):
    """Options of `psephos simulate psgd`."""

    parties: int = option(15, "Data owners, K.")
    usual_holders: ClassVar[int] = 3

    def check(self) -> None:
        """Raise InvalidParameter for the first invalid option."""
        DescentOptions.check(self)
        HolderOptions.check(self)
        if len(self.absent_parties) > self.dropouts:
            raise InvalidParameter(
                f"{len(self.absent_parties)} parties are absent, and the noise allows for {self.dropouts}: set "
                f"--dropouts to {len(self.absent_parties)} or more"
            )

    @property
    def protects_rows(self) -> bool:
        return True

    @property
    def coalition(self) -> int:
        """Number of parties that may reveal their noise to the curator: by default one less than open a sum."""
        return self.opening_threshold - 1 if self.colluders is None else self.colluders

    def spec(self, agreement: Agreement) -> PsgdSpec:
        """Return the specification of the agreed descent."""
        return PsgdSpec(self, agreement, simulation_seed=self.seed if self.simulate_noise else None)

    def terms(self, agreement: Agreement, ceremony: KeySetup) -> SeriesTerms:
        """Return the terms of the series, with the public keys of all roles."""
        participants = Participants(
            ceremony.roster,
            test_key=self.test_key,
            proofs=self.proofs,
            nonce=lambda key, about: agreement.series.nonce,
        )
        return self.spec(agreement).terms(ceremony.threshold_key, participants)

    def identity(self) -> dict[str, Any]:
        """Return the options that identify the run in its journal, which are all but the directories and the budget."""
        return {"protocol": "psgd"} | {k: v for k, v in asdict(self).items() if k not in _NOT_IDENTITY}


# -- the descent on the encrypted sum


@dataclass(frozen=True)
class DescentRun:
    """Result and cost of a simulated descent.

    Attributes:
        w: the final iterate, (d,).
        steps: number of sums taken, including those of interrupted runs that this one continues.
        resumed_at: number of sums that the earlier runs had taken.
        opened: the sums that this run took, in lattice units.
        sums_equal_reference: whether each of them equals, entry by entry, the sum of the vectors that the parties
            encrypted; None if this run took no step.
        seconds: wall-clock seconds of each step of this run.
        clipped: number of gradients that were scaled down.
        bytes_posted: bytes of all messages of the whole run, on the board and between roles.
    """

    w: Array = field(repr=False)
    steps: int
    resumed_at: int
    opened: tuple[OpenedSum, ...] = field(repr=False)
    sums_equal_reference: bool | None
    seconds: tuple[float, ...] = field(repr=False)
    clipped: int
    bytes_posted: int


def descend(
    options: PsgdOptions,
    losses: Sequence[LocalLoss],
    agreement: Agreement,
    ceremony: KeySetup,
    *,
    roles: Replacements | None = None,
    store: Store | None = None,
    transcript: Transcript | None = None,
    progress: Progress = silent,
) -> DescentRun:
    """Run all steps that remain.

    Args:
        options: clipping, the randomness of ciphertexts and the source of the noise.
        losses: the loss of each party on its own records.
        agreement: steps, step sizes and noise.
        ceremony: the keys of all roles.
        roles: name of a role -> function that returns the replacement of the honest role.
        store: stores the run, so that it can be interrupted and continued.
        transcript: records every message; if it keeps secrets, it also supplies and records every role's randomness.
        progress: called after every step.
    """
    transcript = Transcript() if transcript is None else transcript
    honest = psgd_roles(options, losses, agreement, ceremony, transcript, store or Store())
    observer = _RunObserver(progress, agreement.series.steps)
    driver = observer.driver = Driver(
        replace_roles(honest, roles or {}), store=store, transcript=transcript, watch=observer.on_message
    )
    resumed_at = observer.start()
    results = driver.run()
    observer.record_step()
    final: GradientCuratorState = results["curator"]
    return DescentRun(
        final.w,
        final.steps,
        resumed_at,
        tuple(observer.opened),
        observer.equal,
        tuple(observer.seconds),
        sum(state.clipped for state in results.values() if isinstance(state, GradientPartyState)),
        sum(phase.bytes for phase in driver.phases.values()),
    )


def psgd_roles(
    options: PsgdOptions,
    losses: Sequence[LocalLoss],
    agreement: Agreement,
    ceremony: KeySetup,
    transcript: Transcript,
    store: Store,
) -> list[Role]:
    """Return all roles, honest; `store` holds their ledgers. The other arguments and errors are those of `descend`."""
    spec, terms = options.spec(agreement), options.terms(agreement, ceremony)
    if len(losses) != len(ceremony.signing_keys):
        raise InvalidParameter(f"{len(ceremony.signing_keys)} parties are registered, and {len(losses)} have records")
    key = ceremony.threshold_key.key
    # About one ciphertext per party and step: enough for the precomputed tables to save time over the run.
    expected = min(len(losses) * agreement.series.steps, 1 << 16)
    parties: list[Role] = []
    for number, (local, signing_key) in enumerate(zip(losses, ceremony.signing_keys, strict=True)):
        name = f"party {number}"
        transcript.record_input(name, "records", (local.X, local.y))
        coins = transcript.coins(name)
        encryptor = Encryptor(key, options.randomness, randomness=coins, expected=expected)
        ledger = OnceLedger(store, name)
        parties.append(
            spec.party(number, signing_key, local, terms, ledger=ledger, encryptor=encryptor, randomness=coins)
        )
    holders = [spec.holder(s, terms, ledger=OnceLedger(store, f"holder {s.holder}")) for s in ceremony.shares]
    return [*parties, *holders, spec.curator(terms, randomness=transcript.coins("curator"))]


class _RunObserver:
    """Reads the states of all roles during a run, and compares each opened sum with the one in the clear."""

    def __init__(self, progress: Progress, steps: int) -> None:
        self.driver: Driver | None = None
        self.equal: bool | None = None
        self.seconds: list[float] = []
        self.opened: list[OpenedSum] = []
        self._progress, self._total, self._done, self._step_started = progress, steps, 0, time.perf_counter()

    def start(self) -> int:
        """Return the number of steps that the stored state of an earlier run has."""
        curator = self._results().get("curator")
        self._done = curator.steps if isinstance(curator, GradientCuratorState) else 0
        self._progress("steps", self._done, self._total)
        return self._done

    def on_message(self, phase: str, entry: Entry) -> None:
        """Record the step that ended, if the message announces the next one. `Driver` calls this for each message."""
        if entry.kind is Kind.ANNOUNCEMENT:
            self.record_step()

    def record_step(self) -> None:
        """Record the curator's latest step, if it is not recorded yet."""
        results = self._results()
        curator = results.get("curator")
        if not isinstance(curator, GradientCuratorState) or curator.steps == self._done or curator.opened is None:
            return
        now = time.perf_counter()
        self.seconds.append(now - self._step_started)
        self._step_started, self._done = now, curator.steps
        self.opened.append(curator.opened)
        states = [results.get(f"party {number}") for number in curator.opened.parties]
        vectors = [
            state.vector
            for state in states
            if isinstance(state, GradientPartyState) and state.answered == self._done and state.vector
        ]
        if len(vectors) == len(states):  # an adversarial role does not tell its plaintext
            clear = tuple(sum(column) for column in zip(*vectors, strict=True))
            self.equal = self.equal is not False and clear == curator.opened.sums
        self._progress("steps", self._done, self._total)

    def _results(self) -> Mapping[str, Any]:
        return {} if self.driver is None else self.driver.results()


# -- the same descent without encryption, for sweeps


def clear_descent(
    pooled: LocalLoss,
    agreement: Agreement,
    generator: np.random.Generator,
    *,
    eta: Array | None = None,
    steps: int | None = None,
    step_noise: bool = True,
) -> Array:
    """Run Algorithm 1 on pooled records with floating-point noise from a seeded generator. For simulations only.

    The sum of the parties' gradients does not depend on who holds which record, so only the noise is drawn per party.

    Args:
        pooled: the loss on all records.
        agreement: steps, step sizes and noise.
        generator: source of the noise.
        eta: the sum of the parties' fixed noise, (d,); drawn by default.
        steps: number of steps; as agreed by default.
        step_noise: whether step noise rho_t is added.

    Returns:
        The last iterate, (d,).
    """
    series, descent = agreement.series, agreement.descent
    d, K = series.dimension, series.parties
    if eta is None:
        eta = generator.normal(scale=agreement.sigma, size=d) if agreement.sigma else np.zeros(d)
    w = np.zeros(d)
    total = series.steps if steps is None else steps
    block = 256
    for start in range(0, total, block):
        rho = np.zeros((block, d))
        if step_noise and series.step_law == "discrete-gaussian":
            # A share's variance is in lattice units; on so fine a lattice its law is the normal one.
            rho = generator.normal(scale=series.pitch * (series.step_scale * K) ** 0.5, size=(block, d))
        elif step_noise and series.step_law != "none":
            vectors = generator.normal(size=(block, K, d))
            vectors /= np.linalg.norm(vectors, axis=2, keepdims=True)
            vectors *= generator.gamma(d, 1.0, size=(block, K, 1))
            scales = [series.scale_at(min(start + i + 1, series.steps)) for i in range(block)]
            rho = vectors.sum(axis=1) * np.array(scales)[:, None]
        for t in range(start, min(start + block, total)):
            w = descent.step(w, pooled.gradient(w) + eta + rho[t - start], t)
    return w


# -- the command


def simulate_psgd(
    options: PsgdOptions,
    *,
    data: Dataset | Split | None = None,
    roles: Replacements | None = None,
    transcript: Transcript | None = None,
    progress: Progress = silent,
    evaluation: Evaluation | None = None,
) -> PsgdResult:
    """Load and divide the data, make the keys, run the descent, and evaluate the classifier."""
    started = time.perf_counter()
    options, split = load_split(options, data)
    evaluation = Evaluation() if evaluation is None else evaluation
    losses = _prepare(options, evaluation, split)
    sizes, dimension = [len(local.y) for local in losses], losses[0].dimension
    roles = {f"party {number}": AbsentRole for number in options.absent_parties} | dict(roles or {})
    # Called before the keys are made, which takes long, because it raises InvalidParameter.
    agreement = agree(options, sizes, dimension)
    budget = budget_of(options, split, "record", neighbours="replace")

    make_keys = partial(setup_run_keys, options, 1, transcript, progress)
    with ExitStack() as resources:
        store = None
        if options.journal is not None:
            identity = options.identity() | {"sizes": sizes}
            journal = resources.enter_context(Journal(options.journal, identity))
            store = journal.store
            nonce = OnceLedger(store, "series").do_once(b"nonce", b"", lambda: SYSTEM.draw(16))
            agreement = agree(options, sizes, dimension, nonce)
            budget = None if budget is None else replace(budget, run=nonce)
        charges = [] if budget is None else _charges(agreement, budget)
        if budget is not None:
            budget.check(charges)
        ceremony = make_keys() if store is None else journal.key_setup(make_keys)
        # Raises PackingError now if the widest slots of the series do not fit the key.
        agreement.series.plan(ceremony.threshold_key.key, options.steps)
        prepared = time.perf_counter()
        if budget is not None:
            budget.charge(charges)
        run = descend(
            options,
            losses,
            agreement,
            ceremony,
            roles=roles,
            store=store,
            transcript=transcript,
            progress=progress,
        )
        finished = time.perf_counter()
        if budget is not None:
            budget.release_once("psgd", run.w.tobytes())
    seconds = {"prepare": prepared - started, "steps": finished - prepared}
    evaluation.sums.setdefault("steps", []).append(run.opened)
    _evaluate(options, losses, run, evaluation)
    result = _result(options, sizes, agreement, ceremony, run, evaluation)
    summary = None if budget is None else budget.summary()
    return replace(result, phases=timed(seconds), transcript=transcript, budget=summary)


def _charges(agreement: Agreement, budget: RunBudget) -> list[Charge]:
    """Return what a descent is charged: all its noisy sums, or, where these have no bound, the classifier as well."""
    guarantee, delta = agreement.guarantee, agreement.guarantee.delta
    sums = budget.within_bound(
        "the noisy sums of psgd", guarantee.epsilon_transcript, delta, "its noisy sums have no finite epsilon"
    )
    if sums.event is not None or guarantee.epsilon_final is None:
        return [sums]
    final = budget.within_bound("psgd", guarantee.epsilon_final, delta, "the classifier has no finite epsilon")
    return [sums, final]


def _prepare(options: PsgdOptions, evaluation: Evaluation, split: Split) -> list[LocalLoss]:
    """Scale the rows of the split on its public rows, start the evaluation, and return each party's loss."""
    name, classes = split.dataset.name, len(split.dataset.classes)
    if classes != 2:
        raise InvalidParameter(f"psgd needs data of two classes, and {name} has {classes}: choose another data set")
    scaler = scaler_for(name).fit(split.X_auxiliary)
    evaluation.start(split, scaler, scaler.transform(split.X_test))
    rows = (split.party(number) for number in range(options.parties))
    return [LocalLoss(scaler.transform(X), signed_labels(y), options.loss) for X, y in rows]


def _evaluate(options: PsgdOptions, losses: list[LocalLoss], run: DescentRun, evaluation: Evaluation) -> None:
    """Evaluate the classifier, and once the minimiser without noise that it is compared with."""
    if all(score.method != "psgd" for score in evaluation.scores):
        X = np.concatenate([local.X for local in losses])
        y = np.concatenate([local.y for local in losses])
        eta = np.zeros(X.shape[1])
        evaluation.add_classifier("psgd", perturbed_minimiser(X, y, ridge=options.lam, eta=eta, loss=options.phi).w)
    evaluation.add_classifier("psgd", run.w, options.epsilon)


def _result(
    options: PsgdOptions,
    sizes: list[int],
    agreement: Agreement,
    ceremony: KeySetup,
    run: DescentRun,
    evaluation: Evaluation,
) -> PsgdResult:
    terms = options.terms(agreement, ceremony)
    example = terms.round(Announcement.create(terms, 1, (0.0,) * agreement.series.dimension))
    split = evaluation.split
    assert split is not None
    return PsgdResult(
        phases={},
        protocol="psgd",
        options=options.plain(),
        dataset=split.dataset.name,
        features=agreement.series.dimension,
        test=len(evaluation.test),
        class_names=list(split.dataset.classes),
        accuracy=evaluation.accuracy(options.epsilon),
        steps=run.steps,
        resumed_at=run.resumed_at,
        seconds_per_step=float(np.median(run.seconds)) if run.seconds else None,
        sums_equal_reference=run.sums_equal_reference,
        bytes_posted=run.bytes_posted,
        evaluation=evaluation,
        cautions=[*split.cautions, *_cautions(options, agreement)],
        remarks=_remarks(options, agreement),
        records=sum(sizes),
        party_sizes=sizes,
        delta=agreement.guarantee.delta,
        colluders=options.coalition,
        guarantee=Guarantee(unit="record", **asdict(agreement.guarantee)),
        gradient_sensitivity=agreement.sensitivity,
        sigma=agreement.sigma,
        slack=agreement.slack,
        gradient_bound=agreement.series.bound,
        gradients_clipped_here=run.clipped,
        ciphertexts_per_ballot=example.plan.ciphertexts,
        bytes_per_ballot=Ballot.encoded_length(example),
        w=run.w.tolist(),
    )


def _cautions(options: PsgdOptions, agreement: Agreement) -> list[str]:
    """Return a warning if delta is not below 1/N."""
    records = agreement.descent.records
    if options.delta < 1 / records:
        return []
    return [
        f"delta = {options.delta:g} is not below 1/N = {1 / records:.2g}: publishing a record outright with that "
        "probability would satisfy it; choose a far smaller delta"
    ]


def _remarks(options: PsgdOptions, agreement: Agreement) -> list[str]:
    """Return notes on the two epsilons and on clipping."""
    guarantee, remarks = agreement.guarantee, []
    if guarantee.epsilon_final is not None:
        remarks.append(
            f"epsilon_final is {guarantee.final_is}; whoever sees all noisy sums has epsilon_transcript = "
            f"{guarantee.epsilon_transcript:.3g}"
        )
    if options.on_excess == "clip":
        remarks.append(f"gradients longer than {agreement.series.bound:g} are scaled down to that length")
    return remarks
