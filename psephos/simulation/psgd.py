"""Private stochastic gradient descent from first message to last, every role in this machine (Rajkumar 2012).

`descend` plays Algorithm 1 on the encrypted sum: the curator announces a step, every party posts a signed ballot, the
key holders open the product of the ballots and nothing else. `simulate_psgd` is what `psephos simulate psgd` runs.

With a journal every role's state, what it claimed and what it sent are kept together. A run that is started again on it
goes on where it was, with the very same ballots and openings: nothing is spent twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

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
from psephos.protocol.paillier.encryption import Encryptor, RandomnessMode
from psephos.protocol.paillier.keys import DEFAULT_KEY_BITS
from psephos.protocol.psgd.series import Announcement, SeriesTerms
from psephos.protocol.randomness import SYSTEM
from psephos.protocol.roles import Entry, Role
from psephos.protocol.storage.store import OnceLedger, Store
from psephos.protocol.transcript import Transcript
from psephos.protocol.wire import Kind
from psephos.results import Guarantee, PsgdResult
from psephos.results.base import timed
from psephos.results.evaluation import Evaluation
from psephos.simulation.journal import Journal
from psephos.simulation.key_setup import HolderOptions, Keys, KeySetup, setup_keys
from psephos.specs.base import Participants
from psephos.specs.psgd import PsgdSpec

__all__ = ["DescentRun", "PsgdOptions", "clear_descent", "descend", "psgd_roles", "simulate_psgd"]

Array = NDArray[np.float64]
Puppets = Mapping[str, Callable[[Role], Role]]


@dataclass(frozen=True, kw_only=True)
class PsgdOptions(HolderOptions, DescentOptions):
    """What `psephos simulate psgd` was asked for."""

    parties: int = option(15, "Data owners, K.")
    key_bits: int = option(DEFAULT_KEY_BITS, "Length of the Paillier modulus.", group="Encryption")
    test_key: bool = option(False, "Accept a key under 2048 bits: protects nothing.", group="Encryption")
    usual_holders: ClassVar[int] = 3
    keys: Keys = option("dealer", "Who makes the key: a dealer, or the holders themselves.", group="Encryption")
    randomness: RandomnessMode = option("half", "How ciphertexts are randomised.", group="Encryption")
    proofs: Literal["none", "knowledge"] = option(
        "none", "What ballots and partial decryptions prove.", group="Encryption"
    )
    simulate_noise: bool = option(False, "Draw the noise from the seed: repeatable, not private.", group="Machine")
    journal: str | None = option(
        None, "Keep every step here; an interrupted run goes on from it. Holds secrets.", group="Machine"
    )

    def check(self) -> None:
        """Raise InvalidParameter for the first option at fault."""
        DescentOptions.check(self)
        HolderOptions.check(self)
        if len(self.away) > self.dropouts:
            raise InvalidParameter(f"{len(self.away)} parties are absent: with --dropouts {len(self.away)} they may be")
        for name, wanted in (("keys", Keys), ("randomness", RandomnessMode), ("proofs", Literal["none", "knowledge"])):
            if getattr(self, name) not in get_args(wanted):
                raise InvalidParameter(f"{name} is one of {', '.join(get_args(wanted))}, not {getattr(self, name)!r}")

    @property
    def coalition(self) -> int:
        """How many key holders may tell the curator their noise shares: by default as many as cannot open a sum."""
        return self.opening_threshold - 1 if self.colluders is None else self.colluders

    def spec(self, agreement: Agreement) -> PsgdSpec:
        """Return the specification of the descent that was agreed on."""
        return PsgdSpec(self, agreement, simulation_seed=self.seed if self.simulate_noise else None)

    def terms(self, agreement: Agreement, ceremony: KeySetup) -> SeriesTerms:
        """Return what is agreed on, with everybody's keys."""
        participants = Participants(
            ceremony.roster,
            test_key=self.test_key,
            proofs=self.proofs,
            nonce=lambda key, about: agreement.series.nonce,
        )
        return self.spec(agreement).terms(ceremony.threshold_key, participants)

    def identity(self) -> dict[str, Any]:
        """What makes it this run and no other, for its journal."""
        return {"protocol": "psgd"} | {k: v for k, v in asdict(self).items() if k not in ("journal", "data_dir")}


# -- the walk on the encrypted sum


@dataclass(frozen=True)
class DescentRun:
    """What a walk came to.

    Attributes:
        w: the final iterate, (d,).
        steps: sums taken, all runs of a resumed one together. resumed_at: how many of them an earlier run had taken.
        opened: the sums taken here, in lattice units.
        sums_equal_reference: whether every one of them is, entry by entry, the sum of the vectors that the parties
            encrypted; None when no step was taken here.
        seconds: wall-clock, of each step taken here.
        clipped: gradients that were scaled down.
        bytes_posted: of the whole run, on the board and to and from the holders.
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
    private: Sequence[LocalLoss],
    agreement: Agreement,
    ceremony: KeySetup,
    *,
    roles: Puppets | None = None,
    store: Store | None = None,
    transcript: Transcript | None = None,
    progress: Progress = silent,
) -> DescentRun:
    """All steps that are left.

    Args:
        options: who clips, how ciphertexts are randomised, where noise comes from.
        private: every party's records.
        agreement, ceremony: what is fixed, and everybody's keys.
        roles: by name, who plays a role in place of the honest one.
        store: keeps the run, which can then be interrupted.
        transcript: every message passes through it, and with its secrets every role's coins.
        progress: called after every step.

    Raises InvalidParameter when not every party has records, PartyVanishedError when more than agreed do not answer,
    and whatever a role raises.
    """
    transcript = Transcript() if transcript is None else transcript
    honest = psgd_roles(options, private, agreement, ceremony, transcript, store or Store())
    walk = _Observed(progress, agreement.series.steps)
    driver = walk.driver = Driver(
        replace_roles(honest, roles or {}), store=store, transcript=transcript, watch=walk.watch
    )
    resumed_at = walk.begin()
    results = driver.run()
    walk.look()
    end: GradientCuratorState = results["curator"]
    return DescentRun(
        end.w,
        end.steps,
        resumed_at,
        tuple(walk.opened),
        walk.equal,
        tuple(walk.seconds),
        sum(account.clipped for account in results.values() if isinstance(account, GradientPartyState)),
        sum(phase.bytes for phase in driver.phases.values()),
    )


def psgd_roles(
    options: PsgdOptions,
    private: Sequence[LocalLoss],
    agreement: Agreement,
    ceremony: KeySetup,
    transcript: Transcript,
    store: Store,
) -> list[Role]:
    """Every role, honest; `store` keeps what each of them claims. Raises InvalidParameter as `descend`."""
    spec, terms = options.spec(agreement), options.terms(agreement, ceremony)
    if len(private) != len(ceremony.signing_keys):
        raise InvalidParameter(f"{len(ceremony.signing_keys)} parties are registered and {len(private)} hold records")
    key = ceremony.threshold_key.key
    # About one ciphertext per party and step: the comb's table pays for itself over the run.
    expected = min(len(private) * agreement.series.steps, 1 << 16)
    parties: list[Role] = []
    for number, (local, signing_key) in enumerate(zip(private, ceremony.signing_keys, strict=True)):
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


class _Observed:
    """What only a simulation can do: look at everybody's state, and compare each opened sum with the clear one."""

    def __init__(self, progress: Progress, steps: int) -> None:
        self.driver: Driver | None = None
        self.equal: bool | None = None
        self.seconds: list[float] = []
        self.opened: list[OpenedSum] = []
        self._progress, self._total, self._done, self._since = progress, steps, 0, time.perf_counter()

    def begin(self) -> int:
        """How far an earlier run came."""
        curator = self._results().get("curator")
        self._done = curator.steps if isinstance(curator, GradientCuratorState) else 0
        self._progress("steps", self._done, self._total)
        return self._done

    def watch(self, phase: str, entry: Entry) -> None:
        """A step is over when the next one is announced."""
        if entry.kind is Kind.ANNOUNCEMENT:
            self.look()

    def look(self) -> None:
        """Note a step that was taken since the last look."""
        results = self._results()
        curator = results.get("curator")
        if not isinstance(curator, GradientCuratorState) or curator.steps == self._done or curator.opened is None:
            return
        now = time.perf_counter()
        self.seconds.append(now - self._since)
        self._since, self._done = now, curator.steps
        self.opened.append(curator.opened)
        accounts = [results.get(f"party {number}") for number in curator.opened.parties]
        vectors = [
            a.vector for a in accounts if isinstance(a, GradientPartyState) and a.answered == self._done and a.vector
        ]
        if len(vectors) == len(accounts):  # the plaintext of an adversarial role is its own
            clear = tuple(sum(column) for column in zip(*vectors, strict=True))
            self.equal = self.equal is not False and clear == curator.opened.sums
        self._progress("steps", self._done, self._total)

    def _results(self) -> Mapping[str, Any]:
        return {} if self.driver is None else self.driver.results()


# -- the same walk without encryption, for sweeps


def clear_descent(
    pooled: LocalLoss,
    agreement: Agreement,
    generator: np.random.Generator,
    *,
    eta: Array | None = None,
    steps: int | None = None,
    step_noise: bool = True,
) -> Array:
    """Algorithm 1 on pooled records with floating-point noise from a seeded generator: for simulations only.

    What the sum of the parties' gradients is does not depend on who holds which record, so only their noise is drawn
    per party. Returns the last iterate, (d,).

    Args:
        pooled: all records. eta: the sum of the fixed noise, (d,); drawn when not given.
        steps: as agreed, otherwise. step_noise: False leaves rho out.
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
        if step_noise and series.step_law == "skellam":
            # A share's variance is in units; its law is normal to within a part in the variance.
            rho = generator.normal(scale=series.pitch * (series.step_scale * K) ** 0.5, size=(block, d))
        elif step_noise and series.step_law != "none":
            drawn = generator.normal(size=(block, K, d))
            drawn /= np.linalg.norm(drawn, axis=2, keepdims=True)
            drawn *= generator.gamma(d, 1.0, size=(block, K, 1))
            scales = [series.scale_at(min(start + i + 1, series.steps)) for i in range(block)]
            rho = drawn.sum(axis=1) * np.array(scales)[:, None]
        for t in range(start, min(start + block, total)):
            w = descent.step(w, pooled.gradient(w) + eta + rho[t - start], t)
    return w


# -- the job


def simulate_psgd(
    options: PsgdOptions,
    *,
    data: Dataset | Split | None = None,
    roles: Puppets | None = None,
    transcript: Transcript | None = None,
    progress: Progress = silent,
    evaluation: Evaluation | None = None,
) -> PsgdResult:
    """Run it; `data` and `evaluation` as in `psephos.simulation.sums.RunContext`, other arguments as in `descend`.

    Raises InvalidParameter for options at fault, before anything is computed; DataError and DataSetMissingError as
    `psephos.data.datasets.load`; JournalError where the journal is of another run, or one that cannot go on.
    """
    begun = time.perf_counter()
    options, split = load_split(options, data)
    evaluation = Evaluation() if evaluation is None else evaluation
    private_data = _prepare(options, evaluation, split)
    roles = {f"party {number}": AbsentRole for number in options.away} | dict(roles or {})
    agreement = agree(
        options, private_data.sizes, private_data.dimension
    )  # refuses what cannot be agreed on before keys are made

    def ceremony() -> KeySetup:
        return setup_keys(
            options.parties,
            key_bits=options.key_bits,
            holders=options.key_holders,
            threshold=options.opening_threshold,
            keys=options.keys,
            test_key=options.test_key,
            transcript=transcript,
            progress=progress,
        )

    with ExitStack() as opened:
        store = None
        if options.journal is None:
            held = ceremony()
        else:
            journal = opened.enter_context(Journal(options.journal, options.identity() | {"sizes": private_data.sizes}))
            held, store = journal.key_setup(ceremony), journal.store
            nonce = OnceLedger(store, "series").do_once(b"nonce", b"", lambda: SYSTEM.draw(16))
            agreement = agree(options, private_data.sizes, private_data.dimension, nonce)
        # The widest slots of the series fit the key, or PackingError.
        agreement.series.plan(held.threshold_key.key, options.steps)
        prepared = time.perf_counter() - begun
        walk = descend(
            options,
            private_data.private,
            agreement,
            held,
            roles=roles,
            store=store,
            transcript=transcript,
            progress=progress,
        )
        walked = time.perf_counter() - begun - prepared
    seconds = {"prepare": prepared, "steps": walked}
    evaluation.sums.setdefault("steps", []).append(walk.opened)
    _measure(options, private_data, walk, evaluation)
    result = _result(options, private_data, agreement, held, walk, evaluation)
    return replace(result, phases=timed(seconds), transcript=transcript)


@dataclass(frozen=True)
class PrivateData:
    """Every party's records, as they are scaled."""

    dataset: str
    cautions: tuple[str, ...]
    not_private: str
    private: list[LocalLoss]

    @property
    def sizes(self) -> list[int]:
        return [len(local.y) for local in self.private]

    @property
    def dimension(self) -> int:
        return self.private[0].dimension


def _prepare(options: PsgdOptions, evaluation: Evaluation, split: Split) -> PrivateData:
    name, classes = split.dataset.name, len(split.dataset.classes)
    if classes != 2:
        raise InvalidParameter(f"PSGD is for two classes, and {name} has {classes}")
    scaler = scaler_for(name).fit(split.X_auxiliary)
    evaluation.start(split, scaler, scaler.transform(split.X_test))
    own = [split.party(number) for number in range(options.parties)]
    private = [LocalLoss(scaler.transform(X), signed_labels(y), options.loss) for X, y in own]
    return PrivateData(name, split.cautions, split.not_private, private)


def _measure(options: PsgdOptions, private_data: PrivateData, walk: DescentRun, evaluation: Evaluation) -> None:
    """Keep the classifier, and the minimiser that a simulation compares it with."""
    if all(one.method != "psgd" for one in evaluation.scores):
        X, y = (np.concatenate([getattr(local, part) for local in private_data.private]) for part in ("X", "y"))
        eta = np.zeros(private_data.dimension)
        evaluation.add_classifier("psgd", perturbed_minimiser(X, y, ridge=options.lam, eta=eta, loss=options.phi).w)
    evaluation.add_classifier("psgd", walk.w, options.epsilon)


def _result(
    options: PsgdOptions,
    private_data: PrivateData,
    agreement: Agreement,
    held: KeySetup,
    walk: DescentRun,
    evaluation: Evaluation,
) -> PsgdResult:
    terms = options.terms(agreement, held)
    example = terms.round(Announcement.create(terms, 1, (0.0,) * private_data.dimension))
    assert evaluation.split is not None
    return PsgdResult(
        phases={},
        protocol="psgd",
        options=options.plain(),
        dataset=private_data.dataset,
        features=private_data.dimension,
        test=len(evaluation.test),
        class_names=list(evaluation.split.dataset.classes),
        accuracy=evaluation.accuracy(options.epsilon),
        steps=walk.steps,
        resumed_at=walk.resumed_at,
        seconds_per_step=float(np.median(walk.seconds)) if walk.seconds else None,
        sums_equal_reference=walk.sums_equal_reference,
        bytes_posted=walk.bytes_posted,
        evaluation=evaluation,
        cautions=[*private_data.cautions, *_cautions(options, agreement)],
        not_private=private_data.not_private,
        remarks=_remarks(options, agreement),
        records=sum(private_data.sizes),
        party_sizes=private_data.sizes,
        delta=agreement.guarantee.delta,
        colluders=options.coalition,
        guarantee=Guarantee(**asdict(agreement.guarantee)),
        gradient_sensitivity=agreement.sensitivity,
        sigma=agreement.sigma,
        slack=agreement.slack,
        gradient_bound=agreement.series.bound,
        gradients_clipped_here=walk.clipped,
        ciphertexts_per_ballot=example.plan.ciphertexts,
        bytes_per_ballot=Ballot.encoded_length(example),
        w=walk.w.tolist(),
    )


def _cautions(options: PsgdOptions, agreement: Agreement) -> list[str]:
    records = agreement.descent.records
    if options.delta < 1 / records:
        return []
    return [
        f"delta = {options.delta:g} is not below 1/N = {1 / records:.2g}: publishing a record outright with that "
        "probability would satisfy it; choose a far smaller delta"
    ]


def _remarks(options: PsgdOptions, agreement: Agreement) -> list[str]:
    """What a reader of the numbers should know."""
    guarantee, remarks = agreement.guarantee, []
    if guarantee.epsilon_final is not None:
        remarks.append(
            f"epsilon_final is {guarantee.final_is}; whoever sees all noisy sums has epsilon_transcript = "
            f"{guarantee.epsilon_transcript:.3g}"
        )
    if options.on_excess == "clip":
        remarks.append(f"gradients longer than {agreement.series.bound:g} are scaled down to that length")
    return remarks
