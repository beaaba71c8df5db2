"""The analysis of private SGD (Rajkumar and Agarwal 2012): three parties, three steps, three holders of whom two open.

At each step the functionality gives the curator the sum of the parties' gradients at the public point, the honest
parties' noise and the coalition's own vectors. How much noise that must be is computed here from epsilon and delta,
independently of the series. The sizes of the data sets are public.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psephos.audit.case_sums import SumAnalysis
from psephos.audit.compare import compare_noise
from psephos.audit.matrix import PSGD_MEMBERS, Members
from psephos.audit.model import AnalysisContext, Case, Check, CheckResult, Checks, case_of
from psephos.audit.settings import AuditSetting, RecordedTranscript, SumRun, make_setting
from psephos.audit.simulators import ideal_sum, joint_gaussian, simulate_sum_view, spherical_noise
from psephos.curator.psgd import bounds as bounds
from psephos.curator.psgd.agreement import Agreement, Variant, agree
from psephos.parties.gradients import LocalLoss
from psephos.parties.psgd import GradientParty
from psephos.protocol.encrypted_sum.messages import Ballot
from psephos.protocol.encrypted_sum.opened import OpenedSum
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.privacy.mechanisms import gaussian_sigma, snap
from psephos.protocol.psgd.series import Announcement, SeriesTerms
from psephos.protocol.psgd.state import PublishedSum
from psephos.protocol.randomness import SYSTEM, Randomness
from psephos.protocol.roles import BOARD, Entry
from psephos.protocol.transcript import Transcript
from psephos.simulation.psgd import PsgdOptions, descend
from psephos.specs.psgd import PsgdSpec

PARTIES, STEPS, FEATURES, RECORDS = 3, 3, 2, 12
ORIGIN = (0.0,) * FEATURES
OPTIONS = PsgdOptions(epsilon=2.0, delta=1e-3, lam=0.5, steps=STEPS, fraction_bits=12, test_key=True)


def psgd_setting(context: AnalysisContext) -> AuditSetting:
    return context.cached("psgd setting", lambda: make_setting(context.coins("psgd world"), PARTIES, key_bits=320))


def agreement_of(context: AnalysisContext, label: str, variant: Variant = "paper", colluders: int = 0) -> Agreement:
    """Return what is agreed on before a series; its nonce depends on the label."""
    agreement = context.cached(
        ("psgd agreement", variant, colluders),
        lambda: agree(replace(OPTIONS, variant=variant, colluders=colluders), [RECORDS] * PARTIES, FEATURES),
    )
    return replace(agreement, series=replace(agreement.series, nonce=context.coins(label, "series").draw(16)))


def terms_of(context: AnalysisContext, agreement: Agreement) -> SeriesTerms:
    return OPTIONS.terms(agreement, psgd_setting(context).ceremony)


def private_data(context: AnalysisContext, inputs: str = "honest") -> list[LocalLoss]:
    """Return every party's records; with `inputs` "swapped" parties 0 and 1 exchange theirs."""
    generator = np.random.default_rng([context.seed, 8])
    private = []
    for _ in range(PARTIES):
        X = generator.normal(size=(RECORDS, FEATURES))
        X /= np.linalg.norm(X, axis=1).max() * (1 + 1e-9)
        private.append(LocalLoss(X, generator.choice([-1.0, 1.0], size=RECORDS)))
    return [private[1], private[0], private[2]] if inputs == "swapped" else private


def party_of(context: AnalysisContext, agreement: Agreement, number: int, coins: Randomness) -> GradientParty:
    """Return one honest party; `coins`: of its encryption and noise."""
    terms, key = terms_of(context, agreement), psgd_setting(context).ceremony.signing_keys[number]
    encryptor = Encryptor(terms.threshold_key.key, randomness=coins, expected=8)
    spec, local = OPTIONS.spec(agreement), private_data(context)[number]
    return spec.party(number, key, local, terms, encryptor=encryptor, randomness=coins)


def announced(announcement: Announcement) -> list[Entry]:
    return [Entry(announcement.step, "curator", BOARD, announcement.encode())]


_ORDER = ("announcement", "ballot", "close", "tally request", "partial decryption", "published sum")


def _by_step(
    context: AnalysisContext, agreement: Agreement, transcript: Transcript, opened: Sequence[OpenedSum]
) -> SumRun:
    """Return the last step of a run, and in `before` the earlier ones, each with its own messages and vectors."""
    terms, private_key = terms_of(context, agreement), psgd_setting(context).private_key
    starts = [place for place, m in enumerate(transcript.messages) if m.kind == "announcement"]
    steps: list[SumRun] = []
    for sums, start, end in zip(opened, starts, [*starts[1:], None], strict=True):
        messages = transcript.messages[start:end]
        round_ = terms.round(Announcement.decode(messages[0].data or b"", terms))
        own = Transcript(secrets=True)
        # The simulator asks one holder after the other, the curator both at once; their order carries no information.
        own.messages += sorted((replace(m, phase="") for m in messages), key=lambda m: _ORDER.index(m.kind))
        run = SumRun(round_, own, sums, before=tuple(steps))
        plain = {b.party: [private_key.raw_decrypt(c) for c in b.ciphertexts] for b in run.ballots}
        steps.append(replace(run, vectors={p: round_.plan.unpack(values, 1) for p, values in plain.items()}))
    return steps[-1]


@lru_cache(maxsize=4)
def _required_noise(variant: Variant, colluders: int) -> tuple[float, float]:
    """Return the noise that one party must add, in units of the lattice, computed from epsilon and delta."""
    pitch = 2.0**-OPTIONS.fraction_bits
    sensitivity = 2.0  # one record of norm 1 replaced, |phi'| <= 1
    if variant == "gaussian":
        deviation = gaussian_sigma(sensitivity / pitch * STEPS**0.5, OPTIONS.epsilon, OPTIONS.delta)
        return 0.0, deviation**2 / (PARTIES - colluders - 1)
    slack = bounds.compute_slack(OPTIONS.epsilon, OPTIONS.lam, RECORDS * PARTIES, OPTIONS.phi.smoothness)
    sigma = bounds.sigma_from_density_ratio(FEATURES, slack.epsilon, OPTIONS.delta, sensitivity=sensitivity)
    return sigma / (PARTIES - colluders) ** 0.5 / pitch, sensitivity / OPTIONS.epsilon / pitch


def _ideal_noise(variant: Variant, generator: np.random.Generator, colluders: int = 0) -> NDArray[np.int64]:
    """Return one party's noise in all steps, drawn by numpy: int64 (T, d), in units of the lattice."""
    fixed, fresh = _required_noise(variant, colluders)
    if variant == "gaussian":
        return np.array([joint_gaussian(fresh, FEATURES, 1, 1, generator) for _ in range(STEPS)])
    eta = np.rint(generator.normal(scale=fixed, size=FEATURES)).astype(np.int64)
    rho = [spherical_noise(Fraction(fresh), FEATURES, generator) for _ in range(STEPS)]
    noise: NDArray[np.int64] = eta + np.array(rho)
    return noise


def _point(run: SumRun) -> tuple[float, ...]:
    data = run.transcript.messages[0].data
    assert data is not None
    return tuple(np.frombuffer(data[-8 * FEATURES :], dtype=">f8").tolist())


@dataclass(frozen=True)
class DescentAnalysis(SumAnalysis):
    """The analysis of a descent. A run is represented by its last step, with the earlier ones in `SumRun.before`."""

    variant: Variant = "paper"
    parties = PARTIES

    def setting(self, context: AnalysisContext) -> AuditSetting:
        return psgd_setting(context)

    def spec(self, context: AnalysisContext) -> PsgdSpec:
        return OPTIONS.spec(agreement_of(context, "spec", self.variant))

    def data(self, context: AnalysisContext, inputs: str) -> list[LocalLoss]:
        return private_data(context, inputs)

    def run(self, context: AnalysisContext, number: int, inputs: str, members: Members) -> SumRun:
        label = f"psgd {self.variant} {inputs} {number}"
        agreement = agreement_of(context, label, self.variant)
        transcript = RecordedTranscript(partial(context.coins, label))
        private, ceremony = private_data(context, inputs), psgd_setting(context).ceremony
        descent = descend(OPTIONS, private, agreement, ceremony, transcript=transcript)
        return _by_step(context, agreement, transcript, descent.opened)

    def simulate(self, context: AnalysisContext, number: int, members: Members) -> SumRun:
        private, label = private_data(context), f"psgd simulated {self.variant} {members} {number}"
        honest = [p for p in range(PARTIES) if p not in members.parties]
        coins = partial(context.coins, label)
        agreement, transcript = agreement_of(context, label, self.variant), Transcript(secrets=True)
        terms, generator = terms_of(context, agreement), np.random.default_rng([context.seed, number, 80])
        own = {p: party_of(context, agreement, p, coins(p)) for p in members.parties}
        states = {p: party.start().state for p, party in own.items()}
        noise = [_ideal_noise(self.variant, generator) for _ in honest]
        point, opened = np.zeros(FEATURES), []
        for step in range(1, STEPS + 1):
            announcement = Announcement.create(terms, step, tuple(point.tolist()), coins("curator", step))
            transcript.record("step", "curator", BOARD, "announcement", announcement.encode())
            round_, ballots = terms.round(announcement), {}
            for p, party in own.items():
                answer = party.receive(states[p], announced(announcement))
                states[p], ballots[p] = answer.state, Ballot.decode(answer.posts[0].data, round_)
            gradients = [snap(private[p].gradient(point), terms.series.pitch) for p in honest]
            vectors = [own[p].result(states[p]).vector for p in own]
            # The next point is public and follows from the sums: the functionality gives them to everybody.
            sums = ideal_sum(*gradients, *vectors, *(steps[step - 1].tolist() for steps in noise))
            view: dict[str, Any] = {"own": ballots, "transcript": transcript, "public": True}
            run = simulate_sum_view(
                self.setting(context), round_, members, sums=sums, coins=partial(coins, step), **view
            )
            opened.append(run.opened)
            for holder in (1, 2, 3):
                data = PublishedSum(step, holder, tuple(sums)).encode(terms)
                entry = Entry(100 * step + holder, f"holder {holder}", BOARD, data)
                transcript.record("gradients: publish", entry.sender, BOARD, "published sum", data)
                states = {p: party.receive(states[p], [entry]).state for p, party in own.items()}
            point = agreement.descent.step(point, np.array(sums) * terms.series.pitch, step - 1)
        return _by_step(context, agreement, transcript, opened)

    def opened_values(self, run: SumRun, members: Members) -> Iterator[tuple[str, float]]:
        """Yield the points and the sums between them."""
        steps = (*run.before, run)
        for step, one in enumerate(steps):
            yield from ((f"point {step}, {place}", value) for place, value in enumerate(_point(one)))
            for place, value in enumerate(one.opened.sums):
                name = f"sum {step}, {place}"
                yield name, float(value)
                yield f"{name} less own", float(value - sum(one.vectors[p][place] for p in members.parties))
                if step:
                    yield f"{name} less the one before", float(value - steps[step - 1].opened.sums[place])

    def ballots(self, context: AnalysisContext, label: str) -> tuple[Round, list[Ballot]]:
        agreement = agreement_of(context, label, self.variant)
        terms = terms_of(context, agreement)
        announcement = Announcement.create(terms, 1, ORIGIN, context.coins(label, "nonce"))
        round_, ballots = terms.round(announcement), []
        for number in range(PARTIES):
            party = party_of(context, agreement, number, SYSTEM)
            (post,) = party.receive(party.start().state, announced(announcement)).posts
            ballots.append(Ballot.decode(post.data, round_))
        return round_, ballots

    # -- checks of its own

    def noise_law(self, context: AnalysisContext) -> CheckResult:
        """Compare one party's noise in all steps, sized for as many colluders as possible, with the required law."""
        # A party's own eta counts, its own discrete Gaussian share does not.
        colluders = PARTIES - (2 if self.variant == "gaussian" else 1)
        agreement = agreement_of(context, "noise law", self.variant, colluders)
        terms, generator = terms_of(context, agreement), np.random.default_rng([context.seed, 81])
        announcements = [Announcement.create(terms, step, ORIGIN) for step in range(1, STEPS + 1)]
        clean = snap(private_data(context)[0].gradient(np.zeros(FEATURES)), terms.series.pitch)

        def noise(run: int) -> NDArray[np.int64]:
            party = party_of(context, agreement, 0, context.coins("noise law", run))
            state = party._start().state
            vectors = [party.vector(state, announcement)[0] for announcement in announcements]
            return np.array([np.subtract(vector, clean) for vector in vectors])

        ideal = partial(_ideal_noise, self.variant, generator, colluders)
        return compare_noise(context, noise, ideal, f"one party's noise in {STEPS} steps against its law")


def _reads_sizes(variant: Variant, context: AnalysisContext) -> CheckResult:
    """Compute the sizes from public values: N, and the bound of a gradient, L times the largest size."""
    agreement = agreement_of(context, "sizes", variant)
    largest = round(agreement.series.bound)  # L = 1
    records = agreement.descent.records
    smallest = records - (PARTIES - 1) * largest
    evidence = f"N = {records} and the gradients' bound of {largest} are public: nobody has fewer than {smallest}"
    return CheckResult(largest == smallest == RECORDS, evidence)


def _case(name: str, variant: Variant) -> Case:
    analysis, checks = DescentAnalysis(variant), Checks()
    add = checks.add
    for coalition, m in PSGD_MEMBERS.items():
        swapped = partial(analysis.same_output, m, "honest", "swapped", "data swapped")
        add("simulation", coalition, ("data", "gradients", "noise"), partial(analysis.simulation, m), statistical=True)
        add("data swapped", coalition, ("data", "gradients"), swapped, statistical=True)
        add("freshness", coalition, ("gradients",), partial(analysis.freshness, m))
        add("sizes read", coalition, ("sizes",), partial(_reads_sizes, variant))
        if m.holders:
            add("threshold", coalition, ("gradients",), partial(analysis.lowered_threshold, m))
    both = "curator and a party, t - 1 holders"
    checks.append(Check("noise law", both, ("gradients", "noise"), analysis.noise_law, statistical=True))
    add("deviating requests", both, ("gradients",), analysis.deviating_requests)
    return case_of(name, checks)


PSGD, PSGD_GAUSSIAN = _case("psgd", "paper"), _case("psgd-gaussian", "gaussian")
