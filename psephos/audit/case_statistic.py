"""The analysis of sums of a statistic (docs/design.md, section 4): five parties, up to three of them colluding.

The statistic is of votes, of own rows, or of classifiers in whitened coordinates; or the sum is a record step, a
rehearsed step from a public model, or an evaluation: the histogram of a classifier's scores, or the sums of the errors
of a predicted number. Their messages are the same (the privacy of single rows is examined with whole commands).

With joint noise the parties add shares, sized for three colluders: Polya shares, which sum to discrete Laplace noise
(pure epsilon), or discrete Gaussian shares (delta). The functionality adds the honest parties' part of the noise to the
sum; the coalition's own vectors, shares included, are its inputs. The curator therefore has neither the exact sum nor
the noise, and when colluders subtract their own vectors, noise of the whole law remains.

With the curator's noise (own rows only; for votes see `psephos.audit.case_tally`) the functionality gives the exact sum
to the curator, and the parties' vectors are hidden.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from psephos.audit.compare import compare_samples
from psephos.audit.ideal import ideal_sum, joint_gaussian, joint_noise
from psephos.audit.matrix import STATISTICS as STATISTIC_SECRETS
from psephos.audit.matrix import SUM_MEMBERS
from psephos.audit.model import AnalysisContext, Case, Check, CheckResult, Checks, Members, case_of
from psephos.audit.settings import FixedVoter, SumRun, TrainedVoter, cast_ballot, round_of
from psephos.audit.sums import SumAnalysis, dealt_shares
from psephos.curator.evaluation import EvaluationPlan, plan_error_evaluation, plan_evaluation
from psephos.curator.record import RecordPlan, plan_records
from psephos.curator.rehearsed import RehearsedPlan, plan_of_grid
from psephos.curator.statistic import MechanismName, Source, StatisticPlan, plan_statistic
from psephos.parties.statistic import own_vector
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.encrypted_sum.votes import AuxiliarySet
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.grids.directions import FIXED_POINT
from psephos.protocol.grids.error_evaluation import ErrorGrid
from psephos.protocol.grids.evaluation import ScoreGrid
from psephos.protocol.grids.fixed_point import Norm
from psephos.protocol.grids.local_step import LocalStepGrid
from psephos.protocol.grids.own_data import Own, OwnDataGrid
from psephos.protocol.grids.record import NumericLabel, RecordGrid
from psephos.protocol.grids.statistic import StatisticGrid
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.privacy.mechanisms import DiscreteGaussian, DiscreteLaplace, gaussian_sigma
from psephos.simulation.encrypted_sum import PartyFactory
from psephos.specs.average import OwnDataSpec
from psephos.specs.evaluation import EvaluationSpec
from psephos.specs.record import RecordSpec
from psephos.specs.rehearsed import RehearsedSpec
from psephos.specs.statistic import StatisticSpec

PARTIES, SAMPLES, COLLUDERS = 5, 12, 3
HONEST = PARTIES - COLLUDERS - 1
"""The number of parties, one, whose shares must make up the whole law: neither the colluders nor the party itself."""
EPSILON, DELTA = 1.0, 1e-6
"""Privacy parameters of the plans whose own noise is examined."""
SCALE, VARIANCE = Fraction(60), Fraction(7200)
"""Scale of the discrete Laplace and variance of the discrete Gaussian noise, in units of the grid."""

Rows = list[tuple[NDArray[np.float64], NDArray[np.int64]]]
"""Each party's samples, float64 (n, 2), and class numbers, int64 (n,)."""

Grid = StatisticGrid | OwnDataGrid | LocalStepGrid | RecordGrid | ScoreGrid | ErrorGrid
Plan = StatisticPlan | RehearsedPlan | RecordPlan | EvaluationPlan
Spec = StatisticSpec | OwnDataSpec | RehearsedSpec | RecordSpec | EvaluationSpec


@dataclass(frozen=True)
class _Statistic(SumAnalysis):
    """The sum of a statistic."""

    own: Own | Literal["records", "rehearsed", "scores", "errors"] | None = None
    noise: Literal["laplace", "gaussian"] | None = "laplace"
    sensitivity: int = 0

    def grid(self, context: AnalysisContext) -> Grid:
        """Return the grid, which maps votes or rows to integers."""
        if self.own == "rehearsed":
            norm: Norm = "l2" if self.noise == "gaussian" else "l1"
            return LocalStepGrid(np.array([[0.8, 0.0], [0.6, 1.0]]), np.array([[0.3], [0.1]]), 2, 0.1, 2.0, 0.5, norm)
        if self.own == "scores":
            return ScoreGrid(np.array([[0.8], [0.6]]), np.array([0.0]), 2)
        if self.own == "errors":
            return ErrorGrid(np.array([[0.8], [0.6]]), NumericLabel(-0.5, 2.0, 1.5))
        if self.own == "records":
            return RecordGrid(np.array([[0.8], [0.6]]), 0.5, np.zeros((2, 1)), 2)
        if self.own:
            return OwnDataGrid(np.array([[0.8, -0.6], [0.6, 0.8]]), 2, self.own)

        def make() -> StatisticGrid:
            points = np.random.default_rng([context.seed, 5]).integers(-20, 21, size=(SAMPLES, 2))
            return StatisticGrid(points, np.array([[0, 1]]))

        return context.cached("grid", make)

    def plan(self, context: AnalysisContext) -> Plan:
        """Return the plan of the sum, with a small grid and noise of a known scale."""

        def make() -> Plan:
            length = self.grid(context).length
            law: Any = DiscreteLaplace(length, SCALE)
            if self.noise == "gaussian":
                law = DiscreteGaussian(length, VARIANCE)
            return replace(self.planned(context), mechanism=law)

        return context.cached((self.label, "plan"), make)

    def planned(self, context: AnalysisContext) -> Plan:
        """Return the plan with the noise of `EPSILON` and, where it is Gaussian, `DELTA`."""
        mechanism: MechanismName = "gaussian" if self.noise == "gaussian" else "discrete-laplace"
        samples, grid = self.auxiliary(context), self.grid(context)
        if isinstance(grid, LocalStepGrid):
            return plan_of_grid(grid, 1.0, PARTIES, epsilon=EPSILON, delta=DELTA)
        if isinstance(grid, RecordGrid):
            samples[:, -1] = 1  # the constant of the scaling
            return plan_records(
                samples, None, 2, PARTIES, rows=1000, epsilon=EPSILON, mechanism=mechanism, grid=grid, labelled=0
            )
        if isinstance(grid, ScoreGrid):
            return replace(plan_evaluation(samples, grid.weights, 2, PARTIES, epsilon=EPSILON), grid=grid)
        if isinstance(grid, ErrorGrid):
            return plan_error_evaluation(grid.weights, grid.label, PARTIES, epsilon=EPSILON)
        source: Source = self.own if self.own in ("own-data", "whitened") else "votes"
        joint: Any = {"mechanism": mechanism, "source": source, "rank": 2, "joint": True}
        return replace(plan_statistic(samples, 2, PARTIES, epsilon=EPSILON, **joint), grid=grid)

    def sum_of_shares(
        self, length: int, shares: int, generator: np.random.Generator, law: Fraction | None = None
    ) -> list[int]:
        """Return the sum of so many shares of the noise, of which `HONEST` make up the whole law, drawn by numpy."""
        if self.noise is None:
            return [0] * length
        if self.noise == "gaussian":
            return joint_gaussian(law or VARIANCE, length, shares, HONEST, generator)
        return joint_noise(law or SCALE, length, shares, HONEST, generator)

    def votes(self, context: AnalysisContext) -> NDArray[np.int64]:
        """Return every party's votes, int64 (M, N)."""
        return np.random.default_rng([context.seed, 6]).integers(0, 2, size=(PARTIES, SAMPLES))

    def rows(self, context: AnalysisContext) -> Rows:
        """Return each party's rows: two more than its number, around a mean of its own."""
        draw, sizes = np.random.default_rng([context.seed, 12]), range(2, 2 + PARTIES)
        return [(draw.normal(size=(n, 2)) + draw.normal(size=2), draw.integers(0, 2, n)) for n in sizes]

    def auxiliary(self, context: AnalysisContext) -> NDArray[np.float64]:
        """Return the auxiliary samples, float64 (N, 2)."""
        return np.random.default_rng([context.seed, 11]).normal(size=(SAMPLES, 2))

    def spec(self, context: AnalysisContext) -> Spec:
        return self.spec_of(self.plan(context), context)

    def spec_of(self, plan: Plan, context: AnalysisContext) -> Spec:
        """Return the specification of a plan of this sum."""
        if isinstance(plan, EvaluationPlan):
            return EvaluationSpec.from_plan(plan, colluders=COLLUDERS)
        if isinstance(plan, RecordPlan):
            return RecordSpec.from_plan(plan, colluders=COLLUDERS)
        if isinstance(plan, RehearsedPlan):
            return RehearsedSpec.from_plan(plan, colluders=COLLUDERS)
        if self.noise is None:
            return OwnDataSpec(plan)
        return StatisticSpec.from_plan(plan, AuxiliarySet.of(self.auxiliary(context)), colluders=COLLUDERS)

    def round(self, context: AnalysisContext, label: str) -> Round:
        minimum, coins = None if self.noise is None else 3, context.coins(label, "round")
        return round_of(self.setting(context), self.spec(context), coins, minimum_ballots=minimum)

    def contribution(self, context: AnalysisContext, inputs: str) -> PartyFactory:
        """See `SumAnalysis.contribution`; with `inputs` "swapped" parties 0 and 1 exchange their votes."""
        if self.own:
            return self.source(context, self.rows(context))
        order = [1, 0, 2, 3, 4] if inputs == "swapped" else range(PARTIES)
        return self.source(context, [FixedVoter(v) for v in self.votes(context)[order]])

    def source(self, context: AnalysisContext, own: Any) -> PartyFactory:
        """Return the factory of parties with these rows or classifiers."""
        return PartyFactory(self.spec(context), own)

    def exact(self, context: AnalysisContext) -> list[list[int]]:
        """Return the parties' vectors without noise."""
        grid = self.grid(context)
        if isinstance(grid, StatisticGrid):
            return [grid.contribution(votes) for votes in self.votes(context)]
        return [own_vector(grid, *rows) for rows in self.rows(context)]

    def output(self, context: AnalysisContext, own: Mapping[int, Sequence[int]], number: int) -> list[int]:
        honest = [vector for p, vector in enumerate(self.exact(context)) if p not in own]
        noise = self.sum_of_shares(len(honest[0]), len(honest), np.random.default_rng([context.seed, number, 78]))
        return ideal_sum(*honest, *own.values(), noise)

    def opened_values(self, run: SumRun, members: Members) -> Iterator[tuple[str, float]] | None:
        if not members.curator or self.noise is None:
            return None
        rest = np.array(run.opened.sums) - sum(np.array(run.vectors[p]) for p in members.parties)
        return (
            (f"sum {place}{what}", float(value))
            for what, sums in (("", run.opened.sums), (" less the coalition's vectors", rest))
            for place, value in enumerate(sums)
        )

    # -- checks of its own

    def noise_law(self, context: AnalysisContext) -> CheckResult:
        """Compare the noise in the vectors of all parties but the colluders and one more with the whole law."""
        generator, exact = np.random.default_rng([context.seed, 79]), self.exact(context)
        round_, contribution = self.round(context, "noise law"), self.contribution(context, "honest")
        encryptor = Encryptor(round_.key, randomness=context.coins(self.label, "noise law"), expected=100)
        keys = self.setting(context).ceremony.signing_keys

        def noise(party: int, run: int) -> list[int]:
            coins = context.coins(self.label, "share", run, party)
            role = contribution.role(party, keys[party], round_, encryptor, coins)
            vector = role.result(role.start().state)
            return [value - own for value, own in zip(vector, exact[party], strict=True)]

        sides: tuple[list[dict[str, float]], ...] = ([], [])
        for run in range(12 * context.views):
            sides[0].append(_noise_features(ideal_sum(*(noise(party, run) for party in range(HONEST)))))
            sides[1].append(_noise_features(self.sum_of_shares(len(exact[0]), HONEST, generator)))
        return compare_samples(context, sides, f"{HONEST} honest share against the whole law")

    def planned_noise(self, context: AnalysisContext) -> CheckResult:
        """Compare the shares of the plan's own noise with the law that the sensitivity takes, drawn by numpy."""
        generator, spec = np.random.default_rng([context.seed, 80]), self.spec_of(self.planned(context), context)
        assert not isinstance(spec, OwnDataSpec)
        assert spec.shares is not None
        law = Fraction(self.sensitivity) / Fraction(EPSILON)
        if self.noise == "gaussian":
            law = Fraction(gaussian_sigma(self.sensitivity, EPSILON, DELTA)) ** 2
        sides: tuple[list[dict[str, float]], ...] = ([], [])
        for run in range(12 * context.views):
            coins = (context.coins(self.label, "planned share", run, number) for number in range(HONEST))
            sides[0].append(_noise_features(ideal_sum(*map(spec.shares.share, coins))))
            sides[1].append(_noise_features(self.sum_of_shares(spec.shares.dimension, HONEST, generator, law)))
        return compare_samples(context, sides, f"{HONEST} honest share against the law of sensitivity/epsilon")

    def shares_differ(self, context: AnalysisContext) -> CheckResult:
        """Check that no share follows from another one, so that no party knows the noise of the others."""
        runs = self.real(context)
        vectors = np.array([[run.vectors[p] for p in range(PARTIES)] for run in runs])
        noise = vectors - np.array(self.exact(context))
        # Two independent shares are equal in a few runs of a hundred, since they are of small numbers.
        alike = sum(
            any(np.array_equal(run[a], run[b]) and run[a].any() for a in range(PARTIES) for b in range(a))
            for run in noise
        )
        if 4 * alike > len(runs):
            evidence = f"in {alike} of {len(runs)} runs two parties drew the same share: each knows the other's"
            return CheckResult(True, evidence)
        if len({run.tobytes() for run in noise}) < len(runs):
            return CheckResult(True, "two runs drew the same shares")
        return CheckResult(False, f"two of {PARTIES} shares alike in {alike} of {len(runs)} runs, no two runs alike")

    def opens_exact_sum(self, context: AnalysisContext) -> CheckResult:
        """Check that the curator opens the exact sum."""
        exact = ideal_sum(*self.exact(context))
        return CheckResult(list(self.real(context)[0].opened.sums) == exact, "it opens the sum of all vectors")

    def same_inputs(self, context: AnalysisContext) -> CheckResult:
        """Check that data sets of different sizes with equal votes, or the same direction, give equal ballots."""
        ballots, votes, auxiliary = [], [], self.auxiliary(context)
        X, y = self.rows(context)[-1]  # two rows of two classes have the same direction for any ridge parameter
        for copies in (1, 5):
            voter = TrainedVoter(context.seed, copies, 2)
            votes.append(voter.predict_votes(auxiliary).tolist())
            rows = (np.repeat(X, copies, axis=0), np.repeat(y, copies))
            persons = self.own in ("records", "scores", "errors")
            whose = (np.repeat(np.arange(len(y)), copies),) if persons else ()
            own = (*rows, *whose) if self.own else voter
            round_, coins = self.round(context, "same inputs"), context.coins("same inputs")
            ballots.append(
                cast_ballot(self.setting(context), round_, self.source(context, [own]), 0, coins)[0].encode()
            )
        if votes[0] != votes[1]:
            raise InvalidParameter("the two classifiers must have the same votes")
        compared = "the ballots of two data sets, one five times the other, with the same vectors and coins"
        if ballots[0] == ballots[1]:
            return CheckResult(False, f"{compared} are equal byte for byte")
        return CheckResult(True, f"{compared} are different: they tell which it was")


def _noise_features(noise: Sequence[int]) -> dict[str, float]:
    """Return what is compared of one draw of the noise: its entries, their magnitudes, and its L1 norm."""
    entries = {f"entry {place}": float(e) for place, e in enumerate(noise)}
    entries |= {f"|{name}|": abs(e) for name, e in entries.items()}
    return entries | {"the L1 norm": float(sum(map(abs, noise)))}


def _case(name: str, analysis: _Statistic) -> Case:
    """Return the case of one statistic."""
    checks, secrets = Checks(), STATISTIC_SECRETS[name]
    hides = (secrets.vectors,)
    for coalition, m in SUM_MEMBERS.items():
        # The simulation shows that the vectors are hidden; a ballot depends on nothing else of what they are made from.
        checks.add(f"same {secrets.vectors}", coalition, secrets.inputs, analysis.same_inputs)
        if m.opens:
            under = "without noise" if analysis.noise is None else "under one share of the noise only"
            why = f"it opens the ballot of party 0, {under}"
            checks.add("opening", coalition, secrets.simulated, partial(analysis.reads_ballot, m, why))
            continue
        hidden = secrets.simulated
        if m.curator and analysis.noise is None:
            hidden = hides
            checks.add("exact sum", coalition, ("exact sum",), analysis.opens_exact_sum)
        checks.add("simulation", coalition, hidden, partial(analysis.simulation, m), statistical=True)
        if not analysis.own:  # own rows have no two inputs with the same ideal output here
            swapped = partial(analysis.same_output, m, "honest", "swapped", "votes swapped")
            checks.add("votes swapped", coalition, hides, swapped, statistical=True)
        checks.add("freshness", coalition, hides, partial(analysis.freshness, m))
        if m.holders:
            checks.add("threshold", coalition, hides, partial(analysis.lowered_threshold, m))
    both, party = "curator and t - 1 holders", "curator and a party"
    checks.add("deviating requests", both, hides, analysis.deviating_requests)
    if not analysis.own:  # the same shares in every case
        checks.add("dealt shares", both, hides, dealt_shares, statistical=True)
    if analysis.noise is not None:
        covered = (secrets.simulated[-1], secrets.vectors)
        checks.append(Check("noise law", party, covered, analysis.noise_law, statistical=True))
        if analysis.sensitivity:
            checks.append(Check("planned noise", party, covered, analysis.planned_noise, statistical=True))
        checks.append(Check("shares differ", party, ("noise",), analysis.shares_differ))
    return case_of(name, checks)


_NORM = 2 << FIXED_POINT.fraction_bits
"""One replaced party moves the sum of vectors of norm at most 1 by at most 2."""

VOTE_STATISTIC = _Statistic("statistic")
RECORDS = _Statistic("records", own="records", noise="gaussian")
STEPS = _Statistic("steps from a public model", own="rehearsed", sensitivity=_NORM)
STEPS_GAUSSIAN = _Statistic("steps, Gaussian", own="rehearsed", noise="gaussian", sensitivity=_NORM)
SCORES = _Statistic("scores", own="scores", sensitivity=2 * 327_680)
ERRORS = _Statistic("errors", own="errors", sensitivity=16_777_216)

STATISTICS = (
    _case("statistic", VOTE_STATISTIC),
    _case("statistic-gaussian", _Statistic("statistic gaussian", noise="gaussian")),
    _case("own-data", _Statistic("own data", own="own-data", noise="gaussian", sensitivity=_NORM)),
    _case("own-data-exact", _Statistic("own data exact", own="own-data", noise=None)),
    _case("whitened", _Statistic("whitened", own="whitened", noise=None)),
    _case("record", RECORDS),
    _case("rehearsed", STEPS),
    _case("rehearsed-gaussian", STEPS_GAUSSIAN),
    _case("evaluation", SCORES),
    _case("evaluation-errors", ERRORS),
)
"""The cases."""
