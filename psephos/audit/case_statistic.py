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

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psephos.audit.compare import compare_samples, noise_features
from psephos.audit.matrix import STATISTICS as STATISTIC_SECRETS
from psephos.audit.matrix import SUM_MEMBERS
from psephos.audit.model import AnalysisContext, Case, Check, CheckResult, Checks, Members, case_of
from psephos.audit.settings import FixedVoter, SumRun, TrainedVoter, cast_ballot
from psephos.audit.simulators import ideal_sum, joint_gaussian, joint_noise
from psephos.audit.sums import SumAnalysis
from psephos.curator.evaluation import evaluation_plan, plan_evaluation
from psephos.curator.record import plan_records
from psephos.curator.rehearsed import plan_of_grid
from psephos.curator.statistic import MechanismName, Source, plan_statistic
from psephos.parties.statistic import own_vector
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.encrypted_sum.votes import AuxiliarySet
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.grids.error_evaluation import ErrorGrid
from psephos.protocol.grids.evaluation import ScoreGrid
from psephos.protocol.grids.local_step import LocalStepGrid
from psephos.protocol.grids.own_data import OwnDataGrid
from psephos.protocol.grids.record import NumericLabel, RecordGrid
from psephos.protocol.grids.statistic import StatisticGrid
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.privacy.mechanisms import DiscreteGaussian, DiscreteLaplace
from psephos.simulation.encrypted_sum import PartyFactory
from psephos.specs.average import OwnDataSpec
from psephos.specs.evaluation import EvaluationSpec
from psephos.specs.record import RecordSpec
from psephos.specs.rehearsed import RehearsedSpec
from psephos.specs.statistic import StatisticSpec
from psephos.specs.terms import PrivacyTerms

PARTIES, SAMPLES, COLLUDERS = 5, 12, 3
HONEST = PARTIES - COLLUDERS - 1
"""The number of parties, one, whose shares must make up the whole law: neither the colluders nor the party itself."""
EPSILON, DELTA = 1.0, 1e-6
"""Privacy parameters of the plans, whose noise is replaced by one of a known scale."""
SCALE, VARIANCE = Fraction(60), Fraction(7200)
"""Scale of the discrete Laplace and variance of the discrete Gaussian noise, in units of the grid."""

# -- the inputs: each party's votes, int64 (M, N), or its rows, samples (n, 2) and class numbers (n,)


def _auxiliary(context: AnalysisContext) -> NDArray[np.float64]:
    return np.random.default_rng([context.seed, 11]).normal(size=(SAMPLES, 2))


def _votes(context: AnalysisContext) -> NDArray[np.int64]:
    return np.random.default_rng([context.seed, 6]).integers(0, 2, size=(PARTIES, SAMPLES))


def _voters(context: AnalysisContext, inputs: str) -> list[Any]:
    order = [1, 0, 2, 3, 4] if inputs == "swapped" else range(PARTIES)
    return [FixedVoter(votes) for votes in _votes(context)[order]]


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

    plan: Callable[[AnalysisContext, MechanismName], Any] = field(default=_statistic_plan, repr=False)
    kind: type[Any] = StatisticSpec
    mechanism: MechanismName | None = "discrete-laplace"

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
        return (_voters if self.spec(context).takes_classifier else _rows)(context, inputs)

    def exact(self, context: AnalysisContext) -> list[list[int]]:
        grid = self.spec(context).grid
        if self.spec(context).takes_classifier:
            return [grid.contribution(votes) for votes in _votes(context)]
        return [own_vector(grid, *rows) for rows in _rows(context, "honest")]

    def round(self, context: AnalysisContext, label: str, **conditions: Any) -> Round:
        return super().round(context, label, minimum_ballots=None if self.mechanism is None else 3, **conditions)

    def noise(self, length: int, shares: int, generator: np.random.Generator) -> list[int]:
        """Return the sum of so many shares of the noise, of which `HONEST` make up the whole law, drawn by numpy."""
        if self.mechanism is None:
            return [0] * length
        if self.mechanism == "gaussian":
            return joint_gaussian(VARIANCE, length, shares, HONEST, generator)
        return joint_noise(SCALE, length, shares, HONEST, generator)

    def first_vector(self, context: AnalysisContext, run: SumRun) -> list[int]:
        return super().first_vector(context, run) if self.mechanism is None else list(run.vectors[0])

    def opened_values(self, run: SumRun, members: Members) -> Iterator[tuple[str, float]] | None:
        if not members.curator or self.mechanism is None:
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
        exact, contribution = self.exact(context), self.contribution(context, "honest")
        round_, keys = self.round(context, "noise law"), self.setting(context).ceremony.signing_keys
        encryptor = Encryptor(round_.key, randomness=context.coins(self.label, "noise law"), expected=100)

        def noise(run: int, party: int) -> list[int]:
            coins = context.coins(self.label, "share", run, party)
            role = contribution.role(party, keys[party], round_, encryptor, coins)
            vector = role.result(role.start().state)
            return [value - own for value, own in zip(vector, exact[party], strict=True)]

        generator, runs = np.random.default_rng([context.seed, 79]), range(12 * context.views)
        real = [noise_features(ideal_sum(*(noise(run, party) for party in range(HONEST)))) for run in runs]
        drawn = [noise_features(self.noise(len(exact[0]), HONEST, generator)) for _ in runs]
        return compare_samples(context, (real, drawn), f"{HONEST} honest share against the whole law")

    def same_inputs(self, context: AnalysisContext) -> CheckResult:
        """Check that data sets of different sizes with equal votes, or the same direction, give equal ballots."""
        ballots, votes, auxiliary = [], [], _auxiliary(context)
        X, y = _rows(context, "honest")[-1]  # rows of two classes have the same direction for any ridge parameter
        for copies in (1, 5):
            voter = TrainedVoter(context.seed, copies, 2)
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


def _case(name: str, analysis: NoisySum) -> Case:
    checks, secrets = Checks(), STATISTIC_SECRETS[name]
    hides, noisy, of_votes = (secrets.vectors,), analysis.mechanism is not None, secrets.vectors == "votes"
    for coalition, m in SUM_MEMBERS.items():
        # The simulation shows that the vectors are hidden; a ballot depends on nothing else of what they are made from.
        checks.add(f"same {secrets.vectors}", coalition, secrets.inputs, analysis.same_inputs)
        if m.opens:
            why = f"it opens the ballot of party 0, {'under one share of the noise only' if noisy else 'without noise'}"
            checks.add("opening", coalition, secrets.simulated, partial(analysis.reads_ballot, m, why))
            continue
        hidden = secrets.simulated
        if m.curator and not noisy:
            hidden = hides
            checks.add("exact sum", coalition, ("exact sum",), analysis.reads_sum)
        checks.add("simulation", coalition, hidden, partial(analysis.simulation, m), statistical=True)
        if of_votes:  # own rows have no two inputs with the same ideal output here
            swapped = partial(analysis.same_output, m, "honest", "swapped", "votes swapped")
            checks.add("votes swapped", coalition, hides, swapped, statistical=True)
        checks.add("freshness", coalition, hides, partial(analysis.freshness, m))
        if m.holders:
            checks.add("threshold", coalition, hides, partial(analysis.lowered_threshold, m))
    both, party = "curator and t - 1 holders", "curator and a party"
    checks.add("deviating requests", both, hides, analysis.deviating_requests)
    if noisy:
        covered = (secrets.simulated[-1], secrets.vectors)
        checks.append(Check("noise law", party, covered, analysis.noise_law, statistical=True))
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
