"""Simulate private stochastic gradient descent with all roles on this machine (Rajkumar and Agarwal 2012).

A journal stores each role's state, ledger and messages in one transaction. A run that is started again continues from
there with the same ballots and openings, so that no privacy is spent twice.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Unpack

import numpy as np
from numpy.typing import NDArray

from psephos.budget import RunBudget, budget_of
from psephos.curator.psgd.agreement import Agreement, DescentOptions, agree
from psephos.curator.psgd.curator import GradientCuratorState
from psephos.curator.psgd.gop import perturbed_minimiser
from psephos.data.partition import AbsentRole
from psephos.options import option
from psephos.parties.gradients import LocalLoss, signed_labels
from psephos.parties.psgd import GradientPartyState
from psephos.progress import Progress, silent
from psephos.protocol.driver import Driver, replace_roles
from psephos.protocol.encrypted_sum.messages import Ballot
from psephos.protocol.encrypted_sum.opened import OpenedSum
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.psgd.series import Announcement, SeriesTerms
from psephos.protocol.randomness import SYSTEM
from psephos.protocol.roles import Entry, Role
from psephos.protocol.storage.budget import Charge
from psephos.protocol.storage.store import OnceLedger, Store
from psephos.protocol.transcript import Transcript
from psephos.protocol.wire import Kind
from psephos.results.base import timed
from psephos.results.deviations import Deviation
from psephos.results.evaluation import Evaluation
from psephos.results.runs import Guarantee, PsgdResult
from psephos.simulation.deviations import deviations_of, run_to_end
from psephos.simulation.journal import Journal
from psephos.simulation.key_setup import KeySetup, setup_run_keys
from psephos.simulation.options import BallotOptions, HolderOptions, JournalOptions
from psephos.simulation.run import Replacements, RunContext, evaluated_fields, load_two_classes
from psephos.specs.base import Participants
from psephos.specs.psgd import PsgdSpec

_DELTA = (
    "delta = {:g} is not below 1/N = {:.2g}: publishing a record outright with that probability would satisfy it; "
    "choose a far smaller delta"
)
_NOT_IDENTITY = ("journal", "data_dir", "budget", "budget_limit")

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class PsgdOptions(BallotOptions, JournalOptions, HolderOptions, DescentOptions):
    """Options of `psephos simulate psgd`."""

    parties: int = option(15, "Data owners, K.")
    usual_holders: ClassVar[int] = 3

    def check(self) -> None:
        DescentOptions.check(self)
        HolderOptions.check(self)

    @property
    def protects_rows(self) -> bool:
        return True

    def spec(self, agreement: Agreement) -> PsgdSpec:
        return PsgdSpec(self, agreement, simulation_seed=self.seed if self.simulate_noise else None)

    def terms(self, agreement: Agreement, ceremony: KeySetup) -> SeriesTerms:
        nonce = agreement.series.nonce
        participants = Participants(ceremony.roster, None, self.test_key, self.proofs, nonce=lambda key, about: nonce)
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
        steps, resumed_at: number of sums taken in all, and by interrupted runs that this one continues.
        opened: the sums that this run took, in lattice units.
        sums_equal_reference: whether each of them equals the sum of the vectors that the parties encrypted; None if
            this run took no step.
        seconds: wall-clock seconds of this run.
        clipped: number of gradients that were scaled down.
        bytes_posted: of all messages of the whole run.
        deviations: what roles that were replaced did otherwise than the protocol says.
    """

    w: Array = field(repr=False)
    steps: int
    resumed_at: int
    opened: tuple[OpenedSum, ...] = field(repr=False)
    sums_equal_reference: bool | None
    seconds: float
    clipped: int
    bytes_posted: int
    deviations: Sequence[Deviation] = ()


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
    """Run all steps of an agreed descent that remain, with the keys of `ceremony`.

    `losses`: of each party on its own records. `store`: stores the run, so that it can be interrupted and continued.
    `roles`, `transcript`, `progress`: as in `RunContext`; a transcript that keeps secrets also supplies every role's
    randomness.
    """
    transcript, started = Transcript() if transcript is None else transcript, time.perf_counter()
    honest = _roles(options, losses, agreement, ceremony, transcript, store or Store())
    done, opened, equal = 0, list[OpenedSum](), None

    def record_step() -> None:
        """Record the curator's latest step, if it is new, and compare its sum with the one in the clear."""
        nonlocal done, equal
        results = driver.results()
        curator = results.get("curator")
        if not isinstance(curator, GradientCuratorState) or curator.steps == done or curator.opened is None:
            return
        done = curator.steps
        opened.append(curator.opened)
        states = [results.get(f"party {number}") for number in curator.opened.parties]
        vectors = [
            state.vector
            for state in states
            if isinstance(state, GradientPartyState) and state.answered == done and state.vector
        ]
        if len(vectors) == len(states):  # an adversarial role does not tell its plaintext
            equal = equal is not False and tuple(map(sum, zip(*vectors, strict=True))) == curator.opened.sums
        progress("steps", done, agreement.series.steps)

    def watch(phase: str, entry: Entry) -> None:
        if entry.is_a(Kind.ANNOUNCEMENT):  # the step before has ended
            record_step()

    before, present = len(transcript.messages), set(range(options.parties)) - set(options.absent_parties)
    played = replace_roles(honest, roles or {})
    driver = Driver(played, store=store, transcript=transcript, watch=watch, strict=False)
    earlier = driver.results().get("curator")
    resumed_at = done = earlier.steps if isinstance(earlier, GradientCuratorState) else 0
    progress("steps", done, agreement.series.steps)
    results = run_to_end(driver)
    record_step()
    final: GradientCuratorState = results["curator"]
    return DescentRun(
        final.w,
        final.steps,
        resumed_at,
        tuple(opened),
        equal,
        time.perf_counter() - started,
        sum(state.clipped for state in results.values() if isinstance(state, GradientPartyState)),
        sum(phase.bytes for phase in driver.phases.values()),
        deviations_of(driver, transcript.messages[before:], opened, present),
    )


def _roles(
    options: PsgdOptions,
    losses: Sequence[LocalLoss],
    agreement: Agreement,
    ceremony: KeySetup,
    transcript: Transcript,
    store: Store,
) -> list[Role]:
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
    `eta`: the sum of the parties' fixed noise, (d,), drawn by default. `steps`: as agreed by default. `step_noise`:
    whether rho_t is added. Returns the last iterate, (d,).
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
    options: PsgdOptions, evaluation: Evaluation | None = None, **context: Unpack[RunContext]
) -> PsgdResult:
    started = time.perf_counter()
    transcript, progress = context.get("transcript"), context.get("progress", silent)
    evaluation = Evaluation() if evaluation is None else evaluation
    options, split, scaler = load_two_classes(options, evaluation, context)
    rows = (split.party(number) for number in range(options.parties))
    losses = [LocalLoss(scaler.transform(X), signed_labels(y), options.loss) for X, y in rows]
    sizes, dimension = [len(local.y) for local in losses], losses[0].dimension
    absent = {f"party {number}": AbsentRole for number in options.absent_parties}
    roles: Replacements = absent | dict(context.get("roles") or {})
    # Called before the keys are made, which takes long, because it raises InvalidParameter.
    agreement = agree(options, sizes, dimension)
    budget = budget_of(options, split, "record", neighbours="replace")

    make_keys = partial(setup_run_keys, options, 1, transcript, progress)
    with ExitStack() as resources:
        store = None
        if options.journal is not None:
            journal = resources.enter_context(Journal(options.journal, options.identity() | {"sizes": sizes}))
            store = journal.store
            nonce = OnceLedger(store, "series").do_once(b"nonce", b"", lambda: SYSTEM.draw(16))
            agreement = agree(options, sizes, dimension, nonce)
            budget = replace(budget, run=nonce)
        charges = _charges(agreement, budget)
        budget.check(charges)
        ceremony = make_keys() if store is None else journal.key_setup(make_keys)
        # Raises PackingError now if the widest slots of the series do not fit the key.
        agreement.series.plan(ceremony.threshold_key.key, options.steps)
        seconds = {"prepare": time.perf_counter() - started}
        budget.charge(charges)
        more: dict[str, Any] = {"store": store, "transcript": transcript, "progress": progress}
        run = descend(options, losses, agreement, ceremony, roles=roles, **more)
        budget.release_once("psgd", run.w.tobytes())
    evaluation.sums.setdefault("steps", []).append(run.opened)
    _evaluate(options, losses, run, evaluation)
    result = _result(options, sizes, agreement, ceremony, run, evaluation)
    phases = timed(seconds | {"steps": run.seconds})
    return replace(result, phases=phases, transcript=transcript, budget=budget.summary())


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


def _evaluate(options: PsgdOptions, losses: list[LocalLoss], run: DescentRun, evaluation: Evaluation) -> None:
    if all(score.method != "psgd" for score in evaluation.scores):
        X = np.concatenate([local.X for local in losses])
        y = np.concatenate([local.y for local in losses])
        eta = np.zeros(X.shape[1])
        assert evaluation.split is not None
        evaluation.add_trees(np.concatenate(evaluation.split.parties), options.seed)
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
    split, large = evaluation.split, options.delta >= 1 / sum(sizes)
    assert split is not None
    return PsgdResult(
        phases={},
        protocol="psgd",
        **evaluated_fields(options, evaluation),
        features=agreement.series.dimension,
        steps=run.steps,
        resumed_at=run.resumed_at,
        seconds_per_step=run.seconds / len(run.opened) if run.opened else None,
        sums_equal_reference=run.sums_equal_reference,
        bytes_posted=run.bytes_posted,
        cautions=[*split.cautions, *([_DELTA.format(options.delta, 1 / sum(sizes))] if large else [])],
        remarks=_remarks(options, agreement),
        records=sum(sizes),
        party_sizes=sizes,
        delta=agreement.guarantee.delta,
        colluders=options.coalition,
        deviations=list(run.deviations),
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


def _remarks(options: PsgdOptions, agreement: Agreement) -> list[str]:
    guarantee, remarks = agreement.guarantee, []
    if guarantee.epsilon_final is not None:
        remarks.append(
            f"epsilon_final is {guarantee.final_is}; whoever sees all noisy sums has epsilon_transcript = "
            f"{guarantee.epsilon_transcript:.3g}"
        )
    if options.on_excess == "clip":
        remarks.append(f"gradients longer than {agreement.series.bound:g} are scaled down to that length")
    return remarks
