"""Private stochastic gradient descent from first message to last, every role in this machine (Rajkumar 2012).

`SgdRun` plays Algorithm 1 on the encrypted sum: the curator posts a step, every party posts a signed ballot, the key
holders open the product of the ballots and nothing else. `run_psgd` is the job behind `psephos run --protocol psgd`.

**Interrupts.** With a state folder every role writes down what it is about to do before it does it: the curator the
step it announces, a party its ballot, a holder the product it opens, the curator the opened sum. A run that is started
again on the folder announces the same step, gets the same ballots and the same opening, and goes on. No role ever does
a second thing in one step, so nothing is spent twice.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psephos.curator.losses import Loss, loss_named
from psephos.curator.old_tally import OpenedSum, Tally
from psephos.curator.psgd.curator import (
    Agreement,
    Curator,
    StepSizes,
    StoppingRule,
    Unit,
    Variant,
    agree,
    descend,
    into_ball,
)
from psephos.curator.psgd.gop import perturbed_minimiser
from psephos.data.datasets import load
from psephos.data.preprocessing import default_scaler
from psephos.data.splits import split
from psephos.parties.gradients import check_records, gradient_sum, margin_slope
from psephos.parties.psgd import GradientParty, OnExcess, OpeningRecord, StepHolder
from psephos.protocol.encrypted_sum.messages import Ballot, PartialDecryption, TallyRequest
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.encrypted_sum.series import Announcement
from psephos.protocol.errors import (
    DataError,
    InvalidParameter,
    JournalError,
    MessageError,
    PartyVanishedError,
    WrongRoundError,
)
from psephos.protocol.paillier.encryption import Encryptor, RandomnessMode
from psephos.protocol.paillier.keys import DEFAULT_KEY_BITS
from psephos.protocol.randomness import SYSTEM, Randomness, SimulationRandomness
from psephos.protocol.transcript import BOARD, Transcript
from psephos.simulate.ceremony import Ceremony, hold_ceremony
from psephos.simulate.journal import Journal, StepLog, disk_error

__all__ = ["PsgdOutcome", "SgdRun", "clear_descent", "run_psgd", "signed_labels"]

Array = NDArray[np.float64]
Progress = Callable[[int], object]
Attendance = Callable[[int, int], bool]
"""(step, party) -> whether the party answers; for tests of parties that vanish."""


def signed_labels(y: ArrayLike) -> NDArray[np.int64]:
    """Classes 0 and 1 as -1 and +1, the labels of Rajkumar and Agarwal 2012: int64 of y's shape, (n,).

    Raises DataError for any other label.
    """
    labels = np.asarray(y)
    if not np.isin(labels, (0, 1)).all():
        raise DataError("PSGD is binary: labels are the classes 0 and 1")
    return 2 * labels.astype(np.int64) - 1


# -- the run


@dataclass
class PsgdOutcome:
    """What a run came to.

    Attributes:
        w: the final iterate, (d,).
        steps: sums taken, all runs of a resumed one together; resumed_at: how many of them were found in the journal.
        sums_equal_reference: whether every opened sum is, entry by entry, the sum of the vectors that the parties
            encrypted in this process; None when no step was taken in it.
        seconds_per_step: wall-clock, of the steps taken here.
        ballot_bytes: of one ballot. bytes_posted: on the board and to and from the holders, here.
    """

    w: Array = field(repr=False)
    steps: int
    resumed_at: int
    sums_equal_reference: bool | None
    seconds_per_step: list[float]
    ballot_bytes: int
    bytes_posted: int


class SgdRun:
    """All roles of one run."""

    def __init__(
        self,
        records: Sequence[tuple[ArrayLike, ArrayLike]],
        agreement: Agreement,
        ceremony: Ceremony,
        *,
        loss: Loss,
        step_sizes: StepSizes | None = None,
        radius: float | None = None,
        stopping: StoppingRule | None = None,
        on_excess: OnExcess = "refuse",
        mode: RandomnessMode = "half",
        test_key: bool = False,
        noise_seed: int | None = None,
        folder: Path | None = None,
        log: StepLog | None = None,
        transcript: Transcript | None = None,
        attendance: Attendance = lambda step, party: True,
        expected_steps: int | None = None,
    ) -> None:
        """
        Args:
            records: (X, y) of every party, y in -1, +1.
            agreement: see `psephos.curator.psgd.curator.agree`.
            ceremony: everybody's keys.
            noise_seed: derive the noise from this seed (a simulation that protects nobody) instead of the system.
            folder, log: where the roles keep their states, and the curator its steps (after a first entry of the
                caller's own); without them an interrupt ends the run.
            attendance: who answers when.
            expected_steps: how many steps will really be taken; sizes the tables that speed encryption up.

        Raises:
            InvalidParameter: as many records as the series has parties are needed.
            JournalError: the steps in `log` are not those that these roles took.
        """
        series = agreement.series
        if len(records) != series.parties:
            raise InvalidParameter(f"the agreement is for {series.parties} parties and {len(records)} hold records")
        self.agreement, self.ceremony, self._test_key = agreement, ceremony, test_key
        self.transcript = Transcript() if transcript is None else transcript
        self._log, self._attendance, self._noise_seed = log, attendance, noise_seed
        self.curator = Curator(agreement, loss=loss, step_sizes=step_sizes, radius=radius, stopping=stopping)
        self.parties = []
        self._noises = [_StepNoise(noise_seed, number) for number in range(series.parties)]
        for number, (X, y) in enumerate(records):
            role = f"party {number}"
            self.transcript.give(role, "records", (X, y))
            self.parties.append(
                GradientParty(
                    number,
                    ceremony.signing_keys[number],
                    X,
                    y,
                    series=series,
                    loss=loss.name,
                    half_width=getattr(loss, "half_width", 0.5),
                    on_excess=on_excess,
                    state=None if folder is None else folder / f"party-{number:06}.state",
                    randomness=self.transcript.coins(role, self._noises[number]),
                )
            )
        self._records = [
            OpeningRecord(None if folder is None else folder / f"holder-{share.holder:03}.opened")
            for share in ceremony.shares
        ]
        # About one ciphertext per party and step: the comb's table pays for itself over the run.
        expected = min(series.parties * (expected_steps or series.steps), 1 << 16)
        self._encryptor = Encryptor(ceremony.threshold_key.key, mode, expected=expected)
        self._equal: bool | None = None
        self._seconds: list[float] = []
        self._bytes = 0
        self._resumed_at, self._pending = self._read_log()

    def _read_log(self) -> tuple[int, Announcement | None]:
        """Walk the path that was walked before; returns how far, and the step that was announced but not finished."""
        pending: Announcement | None = None
        answered: dict[int, int] = {}
        series = self.agreement.series
        for entry in [] if self._log is None else self._log.entries[1:]:
            try:
                if "announced" in entry:
                    pending = Announcement.decode(bytes.fromhex(entry["announced"]), series)
                    self.curator.resume(pending)
                else:
                    if pending is None or entry["step"] != pending.step:
                        raise KeyError("step")
                    self.curator.advance(OpenedSum(tuple(int(s) for s in entry["sums"]), tuple(entry["parties"])))
                    pending = None
                    for number in entry["parties"]:
                        answered[number] = entry["step"]
            except (KeyError, ValueError, TypeError, IndexError, MessageError, WrongRoundError):
                raise JournalError(
                    "the journal's steps do not follow from one another; this run cannot go on"
                ) from None
        for number, step in answered.items():
            if self.parties[number].steps_answered < step:
                raise JournalError(
                    f"the state of party {number} is older than the journal: with it the party would draw other noise "
                    "and answer steps again; restore its state file"
                )
        return self.curator.steps_done, pending

    def _send(self, phase: str, sender: str, receiver: str, kind: str, data: bytes) -> bytes:
        self._bytes += len(data)
        return self.transcript.send(phase, sender, receiver, kind, data)

    def _round(self, announcement: Announcement) -> Round:
        """What every role builds for itself from the announcement and what was agreed."""
        series, key = self.agreement.series, self.ceremony.threshold_key
        return announcement.round(series, key, self.ceremony.roster, test_key=self._test_key)

    def step(self) -> OpenedSum:
        """One step: announced, answered, opened, taken.

        Raises PartyVanishedError when more parties than agreed do not answer; called again, it repeats the same step.
        """
        begun = time.perf_counter()
        series = self.agreement.series
        if self._pending is None:
            self._pending = self.curator.announce()
            if self._log is not None:
                self._log.append({"announced": self._pending.encode().hex()})
        phase = f"step {self._pending.step}"
        announced = self._send(phase, "curator", BOARD, "announcement", self._pending.encode())
        announcement = Announcement.decode(announced, series)
        round_ = self._round(announcement)

        ballots = []
        for number, party in enumerate(self.parties):
            if not self._attendance(announcement.step, number):
                continue
            self._noises[number].step = announcement.step
            ballot = party.answer(announcement, round_, encryptor=self._encryptor)
            ballots.append(self._send(phase, f"party {number}", BOARD, "ballot", ballot.encode()))
        if len(ballots) < series.minimum_ballots:
            raise PartyVanishedError(
                f"{series.parties - len(ballots)} parties did not answer step {announcement.step}, and at most "
                f"{series.parties - series.minimum_ballots} may; the step is kept and can be repeated with them"
            )

        tally = Tally(round_)
        rejected = tally.add_all(ballots)
        if rejected:
            raise rejected[0].error
        opened = self._open(phase, round_, tally, ballots)
        if self._log is not None:
            entry = {"step": announcement.step, "sums": [str(s) for s in opened.sums], "parties": list(opened.parties)}
            self._log.append(entry)
        self.curator.advance(opened)
        self._pending = None
        self._seconds.append(time.perf_counter() - begun)
        self._compare(opened)
        return opened

    def _open(self, phase: str, round_: Round, tally: Tally, ballots: list[bytes]) -> OpenedSum:
        request = tally.close().encode(round_)
        parts = []
        threshold = round_.threshold_key.threshold
        for share, record in list(zip(self.ceremony.shares, self._records, strict=True))[:threshold]:
            holder = StepHolder(share, round_, record)
            rejected = holder.observe_all(ballots)
            if rejected:
                raise rejected[0].error
            name = f"holder {holder.number}"
            asked = TallyRequest.decode(self._send(phase, "curator", name, "tally request", request), round_)
            answer = holder.partially_decrypt(asked).encode(round_)
            answer = self._send(phase, name, "curator", "partial decryption", answer)
            parts.append(PartialDecryption.decode(answer, round_))
        return tally.open(parts)

    def _compare(self, opened: OpenedSum) -> None:
        """The sum in the clear, which only a simulation can take."""
        latest = [self.parties[number].latest_vector for number in opened.parties]
        if any(vector is None for vector in latest):
            return  # a ballot from before an interrupt: its plaintext is known to nobody any more
        clear = [sum(column) for column in zip(*latest, strict=True)]
        self._equal = self._equal is not False and clear == list(opened.sums)

    @property
    def sums_equal(self) -> bool | None:
        """Whether every sum opened here was the sum of what was encrypted; None before the first."""
        return self._equal

    def walk(self, progress: Progress = lambda steps: None) -> PsgdOutcome:
        """All steps that are left; `progress` is called with the number of steps done since the last call."""
        progress(self.curator.steps_done)
        while not self.curator.finished():
            self.step()
            progress(1)
        series = self.agreement.series
        example = self._round(Announcement.create(series, 1, (0.0,) * series.dimension))
        return PsgdOutcome(
            self.curator.w,
            self.curator.steps_done,
            self._resumed_at,
            self._equal,
            self._seconds,
            Ballot.encoded_length(example),
            self._bytes,
        )


class _StepNoise(Randomness):
    """A party's noise: the system's, or with a seed a stream for each step, the same however often a run was "
    "resumed."""

    def __init__(self, seed: int | None, party: int) -> None:
        self._seed, self._party = seed, party
        self._streams: dict[int, Randomness] = {}
        self.step = 0

    def draw(self, count: int) -> bytes:
        if self._seed is None:
            return SYSTEM.draw(count)
        if self.step not in self._streams:
            self._streams = {self.step: SimulationRandomness(self._seed, "psgd noise", self._party, self.step)}
        return self._streams[self.step].draw(count)


# -- the same walk without encryption, for sweeps


def clear_descent(
    X: Array,
    y: Array,
    agreement: Agreement,
    *,
    loss: Loss,
    generator: np.random.Generator,
    eta: Array | None = None,
    steps: int | None = None,
    step_noise: bool = True,
    step_sizes: StepSizes | None = None,
) -> Array:
    """Algorithm 1 on pooled records with floating-point noise from a seeded generator: for simulations only.

    What the sum of the parties' gradients is does not depend on who holds which record, so only their noise is drawn
    per party. Returns the last iterate, (d,).

    Args:
        X, y: all records and labels -1, +1. eta: the sum of the fixed noise; drawn when not given.
        steps: as agreed, otherwise. step_noise: False leaves rho out.
    """
    series = agreement.series
    d, K = series.dimension, series.parties
    if eta is None:
        eta = generator.normal(scale=agreement.sigma, size=d) if agreement.sigma else np.zeros(d)
    curator = Curator(agreement, loss=loss, step_sizes=step_sizes)
    slope = margin_slope(loss.name, half_width=getattr(loss, "half_width", 0.5))
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
            noisy = gradient_sum(X, y, w, slope) + eta + rho[t - start]
            w = descend(w, noisy, agreement.records, agreement.ridge, curator.step_sizes(t))
            w = into_ball(w, curator.radius)
    return w


# -- the job


def run_psgd(
    *,
    dataset: str = "breast-cancer",
    parties: int = 15,
    steps: int = 200,
    epsilon: float = 1.0,
    delta: float = 1e-5,
    lam: float = 0.1,
    loss: str = "logistic",
    variant: Variant = "paper",
    unit: Unit = "record",
    party_bound: float | None = None,
    on_excess: OnExcess = "refuse",
    colluders: int = 0,
    dropouts: int = 0,
    first_step: float | None = None,
    step_offset: float | None = None,
    step_power: float = 1.0,
    radius: float | None = None,
    stop_tolerance: float = 0.0,
    stop_window: int = 50,
    key_bits: int = DEFAULT_KEY_BITS,
    test_key: bool = False,
    holders: int = 3,
    threshold: int = 2,
    randomness: RandomnessMode = "half",
    samples_per_party: int | Sequence[int] | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    seed: int = 0,
    simulate_noise: bool = False,
    state_dir: str | os.PathLike[str] | None = None,
    transcript: Transcript | None = None,
    progress: Progress = lambda steps: None,
) -> dict[str, Any]:
    """Run it and return what `psephos run --protocol psgd --json` prints.

    Args:
        dataset: a binary data set of `psephos.data.datasets`. parties, samples_per_party, seed: how it is dealt.
        steps, epsilon, delta, lam, loss, variant, unit, party_bound, colluders, dropouts: see
        `psephos.curator.psgd.curator.agree`. on_excess: what a party does with a gradient above `party_bound`: "refuse"
        or "clip". first_step, step_offset, step_power: z_t = first_step/(1 + t/step_offset)^step_power; sound ones by
        default. radius: of the ball iterates are projected on; by default one that changes no minimiser.
        stop_tolerance, stop_window: see `psephos.curator.psgd.curator.StoppingRule`. key_bits, test_key, holders,
        threshold, randomness: of the encryption. simulate_noise: noise from the seed, which protects nobody. state_dir:
        a folder that makes the run resumable; call again with the same arguments to go on. It holds the
            secrets of every role, since this process plays them all.
        transcript: every message passes through it. progress: called with the number of steps done since the last call.

    Raises InvalidParameter for arguments at fault, before anything is computed; DataError and DataSetMissingError as
    `psephos.data.datasets.load`; JournalError where `state_dir` holds another run, or one that cannot go on.
    """
    begun = time.perf_counter()
    data = load(dataset, data_dir)
    if len(data.classes) != 2:
        raise InvalidParameter(f"PSGD is for two classes, and {dataset} has {len(data.classes)}")
    margin_slope(loss)
    chosen = loss_named(loss, 2)
    dealt = split(data, parties, seed, samples_per_party=samples_per_party)
    scaler = default_scaler(dataset).fit(dealt.X_auxiliary)
    records = []
    for number in range(parties):
        X_own, y_own = dealt.party(number)
        records.append(check_records(scaler.transform(X_own), signed_labels(y_own)))
    dimension = records[0][0].shape[1]

    options = {
        "protocol": "psgd", "dataset": dataset, "parties": parties, "steps": steps, "epsilon": epsilon,
        "delta": delta, "lam": lam, "loss": loss, "variant": variant, "unit": unit, "party_bound": party_bound,
        "on_excess": on_excess, "colluders": colluders, "dropouts": dropouts, "first_step": first_step,
        "step_offset": step_offset,
        "step_power": step_power, "radius": radius, "stop_tolerance": stop_tolerance, "stop_window": stop_window,
        "key_bits": key_bits, "holders": holders, "threshold": threshold, "seed": seed,
        "simulate_noise": simulate_noise, "sizes": [len(y) for _, y in records],
    }  # fmt: skip

    agreed = partial(
        agree,
        variant=variant,
        unit=unit,
        epsilon=epsilon,
        delta=delta,
        lam=lam,
        sizes=[len(y) for _, y in records],
        dimension=dimension,
        steps=steps,
        loss=chosen,
        party_bound=party_bound,
        colluders=colluders,
        dropouts=dropouts,
        clip=on_excess == "clip",
    )
    agreement = agreed()
    default = StepSizes.default(agreement.ridge, chosen.smoothness)
    step_sizes = StepSizes(first_step or default.first, step_offset or default.offset, step_power)
    stopping = StoppingRule(stop_tolerance, stop_window)
    Curator(agreement, loss=chosen, step_sizes=step_sizes, radius=radius, stopping=stopping)  # refuses what diverges

    def ceremony() -> Ceremony:
        return hold_ceremony(parties, key_bits=key_bits, holders=holders, threshold=threshold, test_key=test_key)

    with ExitStack() as opened:
        log = None
        if state_dir is None:
            held = ceremony()
        else:
            journal = opened.enter_context(Journal(state_dir, options))
            held = journal.ceremony(ceremony)
            log = journal.steps()
            agreement = agreed(randomness=_Fixed(_kept_nonce(log)))
        # The widest slots of the series fit the key, or PackingError.
        agreement.series.plan(held.threshold_key.key, steps)
        prepared = time.perf_counter() - begun
        run = SgdRun(
            records,
            agreement,
            held,
            loss=chosen,
            step_sizes=step_sizes,
            radius=radius,
            stopping=stopping,
            on_excess=on_excess,
            mode=randomness,
            test_key=test_key,
            noise_seed=seed if simulate_noise else None,
            folder=None if state_dir is None else Path(state_dir),
            log=log,
            transcript=transcript,
        )
        walking = time.perf_counter()
        try:
            outcome = run.walk(progress)
        except OSError as error:  # a role that cannot write its state down sends nothing
            if state_dir is None:
                raise
            raise disk_error(Path(state_dir), error) from error
        walked = time.perf_counter() - walking

    X_all, y_all = np.concatenate([X for X, _ in records]), np.concatenate([y for _, y in records])
    X_test, y_test = scaler.transform(dealt.X_test), signed_labels(dealt.y_test)
    exact, _ = perturbed_minimiser(X_all, y_all, ridge=lam, eta=np.zeros(dimension), loss=chosen)
    guarantee = agreement.guarantee
    return {
        "protocol": "psgd",
        "variant": variant,
        "dataset": dataset,
        "features": dimension,
        "parties": parties,
        "records": agreement.records,
        "party_sizes": [len(y) for _, y in records],
        "loss": loss,
        "lambda": lam,
        "epsilon": epsilon,
        "delta": delta,
        "steps": outcome.steps,
        "steps_agreed": steps,
        "resumed_at": outcome.resumed_at,
        "epsilon_final": guarantee.epsilon_final,
        "epsilon_transcript": guarantee.as_json()["epsilon_transcript"],
        "guarantee": guarantee.as_json(),
        "sigma": agreement.sigma,
        "slack": agreement.slack,
        "gradient_bound": agreement.series.bound,
        "on_excess": on_excess,
        "gradients_clipped_here": sum(party.clipped for party in run.parties),
        "notes": _notes(agreement, delta, on_excess),
        "noise_source": "seed (simulation, protects nobody)" if simulate_noise else "operating system",
        "sums_equal_reference": outcome.sums_equal_reference,
        "accuracy": {"nonprivate": _accuracy(exact, X_test, y_test), "psgd": _accuracy(outcome.w, X_test, y_test)},
        "w": outcome.w.tolist(),
        "key_bits": key_bits,
        "holders": holders,
        "threshold": threshold,
        "ballot_bytes": outcome.ballot_bytes,
        "bytes_posted": outcome.bytes_posted,
        "seconds": {
            "prepare": prepared,
            "steps": walked,
            "per_step": float(np.median(outcome.seconds_per_step)) if outcome.seconds_per_step else None,
        },
        "seed": seed,
    }


def _accuracy(w: Array, X: Array, y: NDArray[np.int64]) -> float:
    return float(np.mean(np.where(X @ w > 0, 1, -1) == y))


def _notes(agreement: Agreement, delta: float, on_excess: OnExcess) -> list[str]:
    """What a reader of the numbers should know."""
    notes = []
    if delta >= 1 / agreement.records:
        notes.append(
            f"delta = {delta:g} is not below 1/N = {1 / agreement.records:.2g}: publishing a record outright with that "
            "probability would satisfy it; choose a far smaller delta"
        )
    guarantee = agreement.guarantee
    if guarantee.epsilon_final is not None:
        notes.append(
            f"epsilon_final is {guarantee.final_is}; whoever sees all noisy sums has epsilon_transcript = "
            f"{guarantee.epsilon_transcript:.3g}"
        )
    if on_excess == "clip":
        notes.append(f"gradients longer than {agreement.series.bound:g} are scaled down to that length")
    return notes


class _Fixed(Randomness):
    """Hands out a nonce that was drawn and written down before."""

    def __init__(self, drawn: bytes) -> None:
        self._drawn = drawn

    def draw(self, count: int) -> bytes:
        if count != len(self._drawn):
            raise JournalError(f"the run's nonce has {len(self._drawn)} bytes and {count} were asked for")
        return self._drawn


def _kept_nonce(log: StepLog) -> bytes:
    """The series' nonce, drawn once per walk: the first entry of its log."""
    if not log.entries:
        log.append({"nonce": SYSTEM.draw(16).hex()})
    try:
        return bytes.fromhex(log.entries[0]["nonce"])
    except (KeyError, TypeError, ValueError):
        raise JournalError("the log of steps does not begin with the nonce; this run cannot go on") from None
