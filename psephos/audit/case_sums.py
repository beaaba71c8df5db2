"""The analysis of encrypted sums (docs/design.md, sections 2 and 4): five parties, up to three of them colluding.

With joint noise, sized for three colluders, the functionality adds the honest parties' part of the noise to the sum,
and the coalition's own vectors, shares included, are its inputs. With the curator's noise it gives the exact sum to the
curator. The tally has two such sums: of votes, and of parameters under a key of degree 2.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from psephos.audit import matrix
from psephos.audit.attacks import Attack
from psephos.audit.compare import Sealed, ViewAnalysis, compare_noise
from psephos.audit.deviations import request_attacks
from psephos.audit.matrix import SUM_MEMBERS, TALLY_MEMBERS, Members, SumSecrets
from psephos.audit.model import AnalysisContext, Case, Check, CheckResult, Checks, case_of
from psephos.audit.settings import (
    KEY_BITS,
    AuditSetting,
    FixedVoter,
    SumRun,
    TrainedVoter,
    cast_ballot,
    make_setting,
    round_of,
    run_sum,
)
from psephos.audit.simulators import ideal_sum, joint_gaussian, joint_noise, simulate_sum_view
from psephos.audit.view_checks import ViewCiphertext, jacobi
from psephos.curator.evaluation import evaluation_plan, plan_evaluation
from psephos.curator.methods import ReleaseRequest, statistic_method
from psephos.curator.record import plan_records
from psephos.curator.rehearsed import plan_of_grid
from psephos.curator.statistic import MechanismName, Source, plan_statistic
from psephos.parties.statistic import own_vector
from psephos.protocol.encrypted_sum.messages import Ballot
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.encrypted_sum.votes import AuxiliarySet, VoteLayout
from psephos.protocol.errors import InvalidParameter, ThresholdError
from psephos.protocol.grids.error_evaluation import ErrorGrid
from psephos.protocol.grids.evaluation import ScoreGrid
from psephos.protocol.grids.local_step import LocalStepGrid
from psephos.protocol.grids.own_data import OwnDataGrid
from psephos.protocol.grids.record import NumericLabel, RecordGrid
from psephos.protocol.grids.statistic import StatisticGrid
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.keys import PublicKey
from psephos.protocol.paillier.threshold import combine
from psephos.protocol.privacy.mechanisms import DiscreteGaussian, DiscreteLaplace
from psephos.protocol.randomness import RecordedRandomness, ReplayedRandomness
from psephos.protocol.roles import BOARD
from psephos.simulation.encrypted_sum import PartyFactory
from psephos.specs.base import VectorFormat
from psephos.specs.exact import OwnDataSpec, TallySpec, VectorSpec
from psephos.specs.noisy import StatisticSpec
from psephos.specs.rows import EvaluationSpec, RecordSpec, RehearsedSpec
from psephos.specs.terms import PrivacyTerms

PARTIES, SAMPLES, COLLUDERS = 5, 12, 3
HONEST = PARTIES - COLLUDERS - 1
"""The number of parties, one, whose shares must make up the whole law: neither the colluders nor the party itself."""
EPSILON, DELTA = 1.0, 1e-6
"""Privacy parameters of the plans, whose noise is replaced by one of a known scale."""
SCALE, VARIANCE = Fraction(60), Fraction(7200)
"""Scale of the discrete Laplace and variance of the discrete Gaussian noise, in units of the grid."""


class SumAnalysis(ViewAnalysis):
    """The analysis of one kind of encrypted sum at test size: three holders have the key, two of whom open a sum."""

    parties = 5

    @abstractmethod
    def setting(self, context: AnalysisContext) -> AuditSetting:
        """Return the keys of all roles."""

    @abstractmethod
    def spec(self, context: AnalysisContext) -> Any:
        """Return the specification of what is summed."""

    @abstractmethod
    def data(self, context: AnalysisContext, inputs: str) -> Sequence[Any]:
        """Return what each party brings; `inputs` names one of the inputs of the analysis, such as "honest"."""

    @abstractmethod
    def ballots(self, context: AnalysisContext, label: str) -> tuple[Round, list[Ballot]]:
        """Return a fresh round and every party's ballot in it."""

    @abstractmethod
    def opened_values(self, run: SumRun, members: Members) -> Iterator[tuple[str, float]] | None:
        """Yield (name, number) of what a coalition computes from the opened sums; None where they are exact."""

    def _opened(self, context: AnalysisContext, run: SumRun, members: Members, ciphertext: mpz) -> int | None:
        """Return what the coalition's shares open a ciphertext to, as if the threshold were their number, or None."""
        shares = [self.setting(context).ceremony.shares[h - 1] for h in members.holders]
        lowered = replace(run.round.threshold_key, threshold=len(shares))
        try:
            return combine(lowered, {share.holder: share.partially_decrypt([ciphertext]) for share in shares})[0]
        except ThresholdError:
            return None

    def lowered_threshold(self, members: Members, context: AnalysisContext) -> CheckResult:
        """Check whether the coalition's shares open any honest ballot, as if the threshold were their number."""
        run, attempts, shares = self.real(context)[0], 0, len(members.holders)
        for ballot in run.ballots:
            for c in () if ballot.party in members.parties else ballot.ciphertexts:
                attempts += 1
                if self._opened(context, run, members, c) is not None:
                    of = f"{shares} of {run.round.threshold_key.threshold} shares"
                    return CheckResult(True, f"{of} open the ballot of party {ballot.party}")
        return CheckResult(False, f"{shares} shares open none of {attempts} ciphertexts, whatever threshold is assumed")

    @property
    def requests(self) -> tuple[Attack, ...]:
        """The deviating requests, as attacks on this sum."""
        return request_attacks(self.setting, self.ballots)

    def deviating_requests(self, context: AnalysisContext) -> CheckResult:
        """Check that every request other than the agreed one is refused."""
        results = {attack.name: attack.run(context) for attack in self.requests}
        if answered := [name for name, result in results.items() if result.gains]:
            return CheckResult(True, f"{answered[0]}: not refused")
        refused = {type(error).__name__ for result in results.values() for error in result.errors}
        return CheckResult(False, f"{len(results)} deviating requests, all refused ({', '.join(sorted(refused))})")

    def sealed(self, run: SumRun, members: Members) -> Iterator[tuple[PublicKey, Sealed, Sealed]]:
        for one in (*run.before, run):
            sides: tuple[list[ViewCiphertext], list[ViewCiphertext]] = [], []
            for ballot in one.ballots:
                for place, c in enumerate(ballot.ciphertexts):
                    where = f"party {ballot.party}, ciphertext {place}"
                    sides[ballot.party in members.parties].append(ViewCiphertext(where, c))
            yield one.round.key, *sides

    def difference(self, runs: Sequence[SumRun], members: Members) -> str:
        received = [[m for m in run.transcript.messages if m.receiver in (BOARD, *members.names)] for run in runs]
        if (
            len({tuple((m.phase, m.sender, m.receiver, m.kind, m.size) for m in messages) for messages in received})
            != 1
        ):
            return "the messages differ in number, order, kind or length"
        if not members.curator:
            return ""
        if self.opened_values(runs[0], members) is None and len({run.opened.sums for run in runs}) != 1:
            return "the opened sums differ"
        opened = all(run.opens_to_its_sum for run in runs)
        return "" if opened else "the partial decryptions do not open to the ideal output"

    def row(self, context: AnalysisContext, run: SumRun, members: Members) -> Iterator[tuple[str, float]]:
        key, last = run.round.key, None
        for ballot in run.ballots:
            if ballot.party in members.parties:
                continue
            yield f"party {ballot.party}: signature", ballot.signature[0]
            for place, c in enumerate(ballot.ciphertexts):
                where = f"party {ballot.party}, ciphertext {place}"
                yield where, float(c / key.ciphertext_modulus)
                yield f"{where}: residue", float(c % key.modulus / key.modulus)
                yield f"{where}: Jacobi symbol", jacobi(key, c)
                if members.opens:
                    plain = mpz(self.setting(context).private_key.raw_decrypt(c))
                    yield f"{where}: plaintext", float(plain / key.plaintext_modulus)
                if last is not None:
                    quotient = c * pow(last, -1, key.ciphertext_modulus) % key.ciphertext_modulus
                    yield f"{where} over the one before", float(quotient / key.ciphertext_modulus)
                last = c
        for part in run.parts if members.curator else ():
            for place, c in enumerate(() if part.holder in members.holders else part.values):
                yield f"holder {part.holder}, value {place}", float(c / key.ciphertext_modulus)
                yield f"holder {part.holder}, value {place}: Jacobi symbol", jacobi(key, c)
        yield from self.opened_values(run, members) or ()


# -- the inputs: each party's votes, int64 (M, N), or its rows, samples (n, 2) and class numbers (n,)


def _auxiliary(context: AnalysisContext, samples: int = SAMPLES) -> NDArray[np.float64]:
    return np.random.default_rng([context.seed, 11]).normal(size=(samples, 2))


def _rows(context: AnalysisContext, inputs: str) -> list[Any]:
    """Return each party's rows: two more than its number, around a mean of its own."""
    draw, sizes = np.random.default_rng([context.seed, 12]), range(2, 2 + PARTIES)
    return [(draw.normal(size=(n, 2)) + draw.normal(size=2), draw.integers(0, 2, n)) for n in sizes]


# -- the plans, with small grids


def _statistic_plan(context: AnalysisContext, mechanism: MechanismName, source: Source = "votes") -> Any:
    joint: dict[str, Any] = {"mechanism": mechanism, "source": source, "rank": 2, "joint": True}
    plan = plan_statistic(_auxiliary(context), 2, PARTIES, epsilon=EPSILON, **joint)
    if source == "own-data" or source == "whitened":
        return replace(plan, grid=OwnDataGrid(np.array([[0.8, -0.6], [0.6, 0.8]]), 2, source))
    points = np.random.default_rng([context.seed, 5]).integers(-20, 21, size=(SAMPLES, 2))
    return replace(plan, grid=StatisticGrid(points, np.array([[0, 1]])))


def _record_plan(context: AnalysisContext, mechanism: MechanismName) -> Any:
    grid, samples = RecordGrid(np.array([[0.8], [0.6]]), 0.5, np.zeros((2, 1)), 2), _auxiliary(context)
    samples[:, -1] = 1  # the constant of the scaling
    terms: dict[str, Any] = {"epsilon": EPSILON, "mechanism": mechanism, "grid": grid, "labelled": 0}
    return plan_records(samples, None, 2, PARTIES, rows=1000, **terms)


def _step_plan(context: AnalysisContext, mechanism: MechanismName) -> Any:
    coordinates, offset = np.array([[0.8, 0.0], [0.6, 1.0]]), np.array([[0.3], [0.1]])
    grid = LocalStepGrid(coordinates, offset, 2, 0.1, 2.0, 0.5, "l2" if mechanism == "gaussian" else "l1")
    return plan_of_grid(grid, 1.0, PARTIES, epsilon=EPSILON, delta=DELTA)


def _score_plan(context: AnalysisContext, mechanism: MechanismName) -> Any:
    grid = ScoreGrid(np.array([[0.8], [0.6]]), np.array([0.0]), 2)
    return replace(plan_evaluation(_auxiliary(context), grid.weights, 2, PARTIES, epsilon=EPSILON), grid=grid)


def _error_plan(context: AnalysisContext, mechanism: MechanismName) -> Any:
    weights, label = np.array([[0.8], [0.6]]), NumericLabel(-0.5, 2.0, 1.5)
    return evaluation_plan(ErrorGrid(weights, label), PARTIES, epsilon=EPSILON)


@dataclass(frozen=True)
class NoisySum(SumAnalysis):
    """The sum of a statistic, with noise of a known scale."""

    label: str
    key_bits: int = KEY_BITS
    degree: int = field(default=1, kw_only=True)
    plan: Callable[[AnalysisContext, MechanismName], Any] = field(default=_statistic_plan, repr=False)
    kind: type[Any] = StatisticSpec
    mechanism: MechanismName | None = "discrete-laplace"
    classes: int = 2
    samples: int = SAMPLES

    def votes(self, context: AnalysisContext) -> NDArray[np.int64]:
        return np.random.default_rng([context.seed, 6]).integers(0, self.classes, size=(PARTIES, self.samples))

    def spec(self, context: AnalysisContext) -> Any:

        def make() -> Any:
            plan = self.plan(context, self.mechanism or "discrete-laplace")
            if self.mechanism is None:
                return OwnDataSpec(plan)
            length, gaussian = plan.grid.length, self.mechanism == "gaussian"
            law: Any = DiscreteGaussian(length, VARIANCE) if gaussian else DiscreteLaplace(length, SCALE)
            plan = replace(plan, mechanism=law)
            return self.kind.private(
                plan, PrivacyTerms(epsilon=EPSILON, colluders=COLLUDERS), AuxiliarySet.of(_auxiliary(context))
            )

        return context.cached((self.label, "spec"), make)

    def data(self, context: AnalysisContext, inputs: str) -> list[Any]:
        if not self.spec(context).takes_classifier:
            return _rows(context, inputs)
        order = [1, 0, 2, 3, 4] if inputs == "swapped" else range(PARTIES)
        return [FixedVoter(votes) for votes in self.votes(context)[order]]

    def exact(self, context: AnalysisContext) -> list[list[int]]:
        """Return the parties' vectors without noise, worked out without the roles."""
        grid = self.spec(context).grid
        if self.spec(context).takes_classifier:
            return [grid.contribution(votes) for votes in self.votes(context)]
        return [own_vector(grid, *rows) for rows in _rows(context, "honest")]

    def round(self, context: AnalysisContext, label: str) -> Round:
        minimum, coins = None if self.mechanism is None else 3, context.coins(label, "round")
        return round_of(self.setting(context), self.spec(context), coins, minimum_ballots=minimum)

    def contribution(self, context: AnalysisContext, inputs: str) -> PartyFactory:
        return PartyFactory(self.spec(context), self.data(context, inputs))

    def noise(self, length: int, shares: int, generator: np.random.Generator) -> list[int]:
        """Return the sum of so many shares of the noise, of which `HONEST` make up the whole law, drawn by numpy."""
        if self.mechanism is None:
            return [0] * length
        if self.mechanism == "gaussian":
            return joint_gaussian(VARIANCE, length, shares, HONEST, generator)
        return joint_noise(SCALE, length, shares, HONEST, generator)

    def opened_values(self, run: SumRun, members: Members) -> Iterator[tuple[str, float]] | None:
        if not members.curator or self.mechanism is None:
            return None
        rest = np.array(run.opened.sums) - sum(np.array(run.vectors[p]) for p in members.parties)
        return (
            (f"sum {place}{what}", float(value))
            for what, sums in (("", run.opened.sums), (" less the coalition's vectors", rest))
            for place, value in enumerate(sums)
        )

    def setting(self, context: AnalysisContext) -> AuditSetting:
        sizes = {"key_bits": self.key_bits, "degree": self.degree}
        make = partial(make_setting, context.coins(self.label, "world"), self.parties, **sizes)
        return context.cached((self.label, "setting"), make)

    def output(self, context: AnalysisContext, own: Mapping[int, Sequence[int]], number: int) -> list[int]:
        """Return what the functionality gives to the curator; `own`: the coalition's vectors."""
        honest = [vector for p, vector in enumerate(self.exact(context)) if p not in own]
        noise = self.noise(len(honest[0]), len(honest), np.random.default_rng([context.seed, number, 78]))
        return ideal_sum(*honest, *own.values(), noise)

    def run(self, context: AnalysisContext, number: int, inputs: str, members: Members) -> SumRun:
        label, contribution = f"{self.label} {inputs} {number}", self.contribution(context, inputs)
        return run_sum(context, self.setting(context), self.round(context, label), contribution, label)

    def simulate(self, context: AnalysisContext, number: int, members: Members) -> SumRun:
        setting, contribution = self.setting(context), self.contribution(context, "honest")
        label = f"{self.label} simulated {members} {number}"
        round_, coins = self.round(context, label), partial(context.coins, label)
        pairs = {p: cast_ballot(setting, round_, contribution, p, coins(f"party {p}")) for p in members.parties}
        own, vectors = {p: b for p, (b, _) in pairs.items()}, {p: v for p, (_, v) in pairs.items()}
        sums = self.output(context, vectors, number) if members.curator else [0] * round_.plan.length
        run = simulate_sum_view(setting, round_, members, own=own, sums=sums, coins=coins)
        return replace(run, vectors=vectors)

    def ballots(self, context: AnalysisContext, label: str) -> tuple[Round, list[Ballot]]:
        setting, round_ = self.setting(context), self.round(context, label)
        factory = self.contribution(context, "honest")
        ballots = [
            cast_ballot(setting, round_, factory, party, context.coins(label, party))[0]
            for party in range(self.parties)
        ]
        return round_, ballots

    # -- checks of its own

    def noise_law(self, context: AnalysisContext) -> CheckResult:
        """Compare the noise in the vectors of all parties but the colluders and one more with the whole law."""
        exact, contribution = self.exact(context), self.contribution(context, "honest")
        round_, keys = self.round(context, "noise law"), self.setting(context).ceremony.signing_keys
        encryptor = Encryptor(round_.key, randomness=context.coins(self.label, "noise law"), expected=100)

        def share(run: int, party: int) -> list[int]:
            coins = context.coins(self.label, "share", run, party)
            role = contribution.role(party, keys[party], round_, encryptor, coins)
            vector = role.result(role.start().state)
            return [value - own for value, own in zip(vector, exact[party], strict=True)]

        def noise(run: int) -> list[int]:
            return ideal_sum(*(share(run, party) for party in range(HONEST)))

        generator = np.random.default_rng([context.seed, 79])
        ideal = partial(self.noise, len(exact[0]), HONEST, generator)
        return compare_noise(context, noise, ideal, f"{HONEST} honest share against the whole law")

    def reads_sum(self, context: AnalysisContext) -> CheckResult:
        right = {run.opened.sums for run in self.real(context)} == {tuple(ideal_sum(*self.exact(context)))}
        return CheckResult(right, "it opens the exact sum of all vectors")

    def reads_last(self, context: AnalysisContext) -> CheckResult:
        """Check that all parties but party 0 compute its vector from the exact sum."""
        first, *others = self.exact(context)
        rest = np.subtract(self.real(context)[0].opened.sums, ideal_sum(*others))
        return CheckResult(rest.tolist() == first, "the sum less their own vectors is the vector of party 0")

    def reads_ballot(self, members: Members, why: str, context: AnalysisContext) -> CheckResult:
        """Check that t shares, or the dealer's key, open the ballot of party 0; `why`: the evidence."""
        run, private_key = self.real(context)[0], self.setting(context).private_key
        plaintexts: list[int | mpz | None] = [
            self._opened(context, run, members, c) if members.holders else private_key.raw_decrypt(c)
            for c in run.ballots[0].ciphertexts
        ]
        opened = [plaintext for plaintext in plaintexts if plaintext is not None]
        first = self.exact(context)[0] if self.mechanism is None else list(run.vectors[0])
        complete = len(opened) == len(plaintexts)
        read = complete and run.round.plan.unpack(opened, 1) == first
        return CheckResult(read, why)

    def same_inputs(self, context: AnalysisContext) -> CheckResult:
        """Check that data sets of different sizes with equal votes, or the same direction, give equal ballots."""
        ballots, votes, auxiliary = [], [], _auxiliary(context, self.samples)
        X, y = _rows(context, "honest")[-1]  # rows of two classes have the same direction for any ridge parameter
        for copies in (1, 5):
            voter = TrainedVoter(context.seed, copies, self.classes)
            votes.append(voter.predict_votes(auxiliary).tolist())
            rows = (np.repeat(X, copies, axis=0), np.repeat(y, copies))
            spec, round_, coins = self.spec(context), self.round(context, "same inputs"), context.coins("same inputs")
            whose = (np.repeat(np.arange(len(y)), copies),) if spec.unit == "record" else ()
            factory = PartyFactory(spec, [voter if spec.takes_classifier else (*rows, *whose)])
            ballots.append(cast_ballot(self.setting(context), round_, factory, 0, coins)[0].encode())
        if votes[0] != votes[1]:
            raise InvalidParameter("the two classifiers must have the same votes")
        compared = "the ballots of two data sets, one five times the other, with the same vectors and coins"
        if ballots[0] == ballots[1]:
            return CheckResult(False, f"{compared} are equal byte for byte")
        return CheckResult(True, f"{compared} are different: they tell which it was")


class Votes(NoisySum):
    def spec(self, context: AnalysisContext) -> TallySpec:
        return TallySpec(AuxiliarySet(_auxiliary(context, self.samples)), self.classes)

    def exact(self, context: AnalysisContext) -> list[list[int]]:
        return [[int(vote == k) for vote in votes for k in range(1, self.classes)] for votes in self.votes(context)]


class _Parameters(NoisySum):
    def spec(self, context: AnalysisContext) -> VectorSpec:
        return VectorSpec(VectorFormat(24, -5000, 5000), bytes(32))

    def data(self, context: AnalysisContext, inputs: str) -> list[list[int]]:
        return self.exact(context)

    def exact(self, context: AnalysisContext) -> list[list[int]]:
        parameters: list[list[int]] = np.random.default_rng([context.seed, 3]).integers(-5000, 5001, (5, 24)).tolist()
        return parameters


# -- the cases


def _add_checks(
    checks: Checks, analysis: NoisySum, secrets: SumSecrets, members: Mapping[str, Members], prefix: str = ""
) -> None:
    """Add the checks of one sum; `prefix`: distinguishes it from another sum of the case."""
    hides, noisy = (secrets.vectors,), secrets.noisy
    for coalition, m in members.items():
        add = partial(checks.add, coalition=coalition)
        # The simulation shows that the vectors are hidden; a ballot depends on nothing else of what they are made from.
        if secrets.inputs:
            add(f"same {secrets.vectors}", secrets=secrets.inputs, run=analysis.same_inputs)
        if m.opens:
            why = f"it opens the ballot of party 0, {'under one share of the noise only' if noisy else 'without noise'}"
            add(f"{prefix}opening", secrets=secrets.simulated, run=partial(analysis.reads_ballot, m, why))
            continue
        hidden = tuple(secret for secret in secrets.simulated if secret not in secrets.granted(m)) or ("data",)
        add(f"{prefix}simulation", secrets=hidden, run=partial(analysis.simulation, m), statistical=True)
        if m.curator and not noisy:
            add(f"{prefix}exact sum", secrets=(secrets.total,), run=analysis.reads_sum)
        if secrets.vectors not in hidden:
            add(f"{prefix}last party", secrets=hides, run=analysis.reads_last)
            continue
        if secrets.vectors == "votes":  # own rows have no two inputs with the same ideal output here
            swapped = partial(analysis.same_output, m, "honest", "swapped", "votes swapped")
            add("votes swapped", secrets=hides, run=swapped, statistical=True)
        add(f"{prefix}freshness", secrets=hides, run=partial(analysis.freshness, m))
        if m.holders:
            add(f"{prefix}threshold", secrets=hides, run=partial(analysis.lowered_threshold, m))
    both, party = "curator and t - 1 holders", "curator and a party"
    checks.add(f"{prefix}deviating requests", both, hides, analysis.deviating_requests)
    if noisy:
        covered = (secrets.total, secrets.vectors)
        checks.append(Check("noise law", party, covered, analysis.noise_law, statistical=True))


def _case(name: str, analysis: NoisySum) -> Case:
    checks = Checks()
    _add_checks(checks, analysis, matrix.STATISTICS[name], SUM_MEMBERS)
    return case_of(name, checks)


_OWN, _WHITENED = (partial(_statistic_plan, source=source) for source in ("own-data", "whitened"))
SUMS = {
    "statistic": NoisySum("statistic"),
    "statistic-gaussian": NoisySum("statistic gaussian", mechanism="gaussian"),
    "own-data": NoisySum("own data", plan=_OWN, mechanism="gaussian"),
    "own-data-exact": NoisySum("own data exact", plan=_OWN, mechanism=None),
    "whitened": NoisySum("whitened", plan=_WHITENED, mechanism=None),
    "record": NoisySum("records", plan=_record_plan, kind=RecordSpec, mechanism="gaussian"),
    "rehearsed": NoisySum("steps from a public model", plan=_step_plan, kind=RehearsedSpec),
    "rehearsed-gaussian": NoisySum("steps, Gaussian", plan=_step_plan, kind=RehearsedSpec, mechanism="gaussian"),
    "evaluation": NoisySum("scores", plan=_score_plan, kind=EvaluationSpec),
    "evaluation-errors": NoisySum("errors", plan=_error_plan, kind=EvaluationSpec),
}
"""The sums of the cases, by their names."""

STATISTICS = tuple(_case(name, analysis) for name, analysis in SUMS.items())

VOTES, PARAMETERS = (
    Votes("tally", mechanism=None, classes=3, samples=25),
    _Parameters("parameters", mechanism=None, degree=2),
)


def _replays_noise(context: AnalysisContext) -> CheckResult:
    """Reproduce releases from the counts and the curator's coins, with which the curator can subtract the noise."""
    layout, tape = VoteLayout(VOTES.samples, VOTES.classes), RecordedRandomness(context.coins("draw"))
    counts = layout.decode(VOTES.real(context)[0].opened.sums, PARTIES)
    method = statistic_method(
        counts, _auxiliary(context, VOTES.samples), ReleaseRequest(1.0, 0.0, "spherical-laplace", None)
    )
    # Several, since two releases of so few votes are equal by chance in a percent of cases.
    released, other = ([method.draw(coins) for _ in range(8)] for coins in (tape, context.coins("another release")))
    replay = ReplayedRandomness(tape.tape())
    replayed = [method.draw(replay) for _ in range(8)]
    known = np.array_equal(released, replayed) and not np.array_equal(released, other)
    return CheckResult(known, "the curator's own coins replay the noise of the release")


def _messages_without_noise(context: AnalysisContext) -> CheckResult:
    """Check that no message depends on the curator's coins, of which the noise of the release is made."""
    first = VOTES.real(context)[0]
    contribution = VOTES.contribution(context, "honest")
    replay = run_sum(context, VOTES.setting(context), first.round, contribution, "tally honest 0")
    sent = [[message.data for message in run.transcript.messages] for run in (first, replay)]
    outcome = f"all {len(sent[0])} messages follow from the parties' inputs and coins"
    alike = sent[0] == sent[1]
    outcome = outcome if alike else "the messages differ"
    return CheckResult(not alike, f"replayed, {outcome}: the curator's, which make the noise, enter none")


def _tally() -> Case:
    checks = Checks()
    _add_checks(checks, VOTES, matrix.VOTES, TALLY_MEMBERS)
    _add_checks(checks, PARAMETERS, matrix.PARAMETERS, TALLY_MEMBERS, "parameters: ")
    for coalition, m in TALLY_MEMBERS.items():
        if m.curator:
            checks.add("noise replayed", coalition, ("noise",), _replays_noise)
        else:
            checks.add("messages replayed", coalition, ("noise",), _messages_without_noise)
    return case_of("tally", checks)


TALLY = _tally()
"""The tally that reveals alpha, whose curator adds the noise of every release."""
