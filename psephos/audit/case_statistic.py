"""The statistic reveals (docs/design.md, section 4): five parties, up to three of them colluding.

Of votes, of own data, and of classifiers in whitened coordinates.

With joint noise, both kinds: Polya shares, which sum to discrete Laplace noise (pure epsilon), and Skellam shares
(delta), sized for three colluders. The functionality adds the honest parties' part of the noise to the sum; the
coalition's own vectors, shares included, are its inputs. So the curator has neither the exact sum nor the noise, and
what a colluder takes off the sum leaves the whole law.

With the curator's noise (own rows only; of votes that is `psephos.audit.case_tally`) the functionality gives the
curator the exact sum: the parties' vectors are what is hidden.
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
from psephos.audit.ideal import ideal_sum, joint_noise, joint_skellam
from psephos.audit.model import Case, Check, CheckResult, Checks, Context, Members
from psephos.audit.settings import FixedVoter, SumRun, TrainedVoter, cast, round_of
from psephos.audit.sums import COALITIONS, SumAnalysis, coalitions, dealt_shares
from psephos.curator.hamm.statistic import MechanismName, Source, StatisticPlan, plan_statistic
from psephos.parties.noise import Shares, shares_of
from psephos.parties.statistic import own_vector
from psephos.protocol.encrypted_sum.own_data import Own, OwnDataGrid
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.encrypted_sum.statistic_grid import StatisticGrid
from psephos.protocol.encrypted_sum.votes import AuxiliarySet
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.privacy.mechanisms import DiscreteLaplace, Skellam
from psephos.simulation.encrypted_sum import PartyFactory
from psephos.specs.average import OwnDataSpec
from psephos.specs.secrets import names_of
from psephos.specs.statistic import StatisticSpec

PARTIES, SAMPLES, COLLUDERS = 5, 12, 3
HONEST = PARTIES - COLLUDERS - 1
"""Whose shares must make up the whole law: neither the colluders' nor one's own. One: the largest coalition here."""
SCALE, VARIANCE = Fraction(60), Fraction(7200)


Rows = list[tuple[NDArray[np.float64], NDArray[np.int64]]]


@dataclass(frozen=True)
class _Statistic(SumAnalysis):
    """Of votes, or of `own` rows. `noise`: which law; None where the curator adds it."""

    own: Own | None = None
    noise: Literal["laplace", "skellam"] | None = "laplace"

    @property
    def vectors(self) -> str:
        """What a party's message is made from, as a secret of the matrix."""
        return "direction" if self.own else "votes"

    @property
    def sealed(self) -> tuple[str, ...]:
        """What the simulation hides: the vectors, the exact sum of all of them, and the noise."""
        total = "exact sum" if self.own else "alpha"
        return (self.vectors, total) if self.noise is None else (self.vectors, "noise", total)

    @property
    def behind(self) -> tuple[str, ...]:
        """What the vectors were made from, of which a message tells nothing more."""
        return ("data", "sizes") if self.own == "own-data" else ("data", "classifier", "sizes")

    def grid(self, context: Context) -> StatisticGrid | OwnDataGrid:
        """What inputs are turned into a statistic with."""
        if self.own:
            return OwnDataGrid(np.array([[0.8, -0.6], [0.6, 0.8]]), 2, self.own)

        def make() -> StatisticGrid:
            points = np.random.default_rng([context.seed, 5]).integers(-20, 21, size=(SAMPLES, 2))
            return StatisticGrid(points, np.array([[0, 1]]))

        return context.once("grid", make)

    def plan(self, context: Context) -> StatisticPlan:
        """What was agreed on, but for a small grid and the noise of it, which every view can be held against."""
        mechanism: MechanismName = "gaussian" if self.noise == "skellam" else "discrete-laplace"
        law = Skellam(2, VARIANCE) if self.noise == "skellam" else DiscreteLaplace(2, SCALE)
        source: Source = self.own or "votes"

        def make() -> StatisticPlan:
            planned = plan_statistic(
                self.auxiliary(context), 2, PARTIES, epsilon=1.0, mechanism=mechanism, source=source, rank=2, joint=True
            )
            return replace(planned, grid=self.grid(context), mechanism=law)

        return context.once((self.label, "plan"), make)

    def shares(self, context: Context) -> Shares | None:
        """Of the noise."""
        return None if self.noise is None else shares_of(self.plan(context), colluders=COLLUDERS)

    def drawn(self, shares: int, generator: np.random.Generator) -> list[int]:
        """So many shares of the agreed law, of which `HONEST` make up the whole, drawn by numpy."""
        if self.noise is None:
            return [0, 0]
        if self.noise == "skellam":
            return joint_skellam(VARIANCE, 2, shares, HONEST, generator)
        return joint_noise(SCALE, 2, shares, HONEST, generator)

    def votes(self, context: Context) -> NDArray[np.int64]:
        """(M, N)."""
        return np.random.default_rng([context.seed, 6]).integers(0, 2, size=(PARTIES, SAMPLES))

    def rows(self, context: Context) -> Rows:
        """Of each party: as many rows as its number and two more, about a direction of its own."""
        draw, sizes = np.random.default_rng([context.seed, 12]), range(2, 2 + PARTIES)
        return [(draw.normal(size=(n, 2)) + draw.normal(size=2), draw.integers(0, 2, n)) for n in sizes]

    def auxiliary(self, context: Context) -> NDArray[np.float64]:
        """What parties vote on, (N, 2)."""
        return np.random.default_rng([context.seed, 11]).normal(size=(SAMPLES, 2))

    def spec(self, context: Context) -> OwnDataSpec | StatisticSpec:
        plan, shares = self.plan(context), self.shares(context)
        if shares is None:
            return OwnDataSpec(plan)
        return StatisticSpec(plan, shares, AuxiliarySet.of(self.auxiliary(context)))

    def round(self, context: Context, label: str) -> Round:
        minimum, coins = None if self.noise is None else 3, context.coins(label, "round")
        return round_of(self.setting(context), self.spec(context), coins, minimum_ballots=minimum)

    def contribution(self, context: Context, inputs: str) -> PartyFactory:
        """`inputs`: "swapped" gives party 0 the votes of party 1, and the reverse."""
        if self.own:
            return self.source(context, self.rows(context))
        order = [1, 0, 2, 3, 4] if inputs == "swapped" else range(PARTIES)
        return self.source(context, [FixedVoter(v) for v in self.votes(context)[order]])

    def source(self, context: Context, own: Any) -> PartyFactory:
        """Return the factory of parties with these rows or classifiers."""
        return PartyFactory(self.spec(context), own)

    def exact(self, context: Context) -> list[list[int]]:
        """The parties' vectors without noise."""
        grid = self.grid(context)
        if isinstance(grid, OwnDataGrid):
            return [own_vector(grid, *rows) for rows in self.rows(context)]
        return [grid.contribution(votes) for votes in self.votes(context)]

    def output(self, context: Context, own: Mapping[int, Sequence[int]], number: int) -> list[int]:
        honest = [vector for p, vector in enumerate(self.exact(context)) if p not in own]
        noise = self.drawn(len(honest), np.random.default_rng([context.seed, number, 78]))
        return ideal_sum(*honest, *own.values(), noise)

    def known(self, run: SumRun, members: Members) -> Iterator[tuple[str, float]] | None:
        if not members.curator or self.noise is None:
            return None
        left = np.array(run.opened.sums) - sum(np.array(run.vectors[p]) for p in members.parties)
        return (
            (f"sum {place}{what}", float(value))
            for what, sums in (("", run.opened.sums), (" less the coalition's vectors", left))
            for place, value in enumerate(sums)
        )

    # -- checks of its own

    def noise_law(self, context: Context) -> CheckResult:
        """The honest shares that the colluders and one more party leave, against the whole law drawn by numpy."""
        shares, generator = self.shares(context), np.random.default_rng([context.seed, 79])
        assert shares is not None

        def row(noise: Sequence[int]) -> dict[str, float]:
            named = {f"entry {place}": float(e) for place, e in enumerate(noise)}
            named |= {f"|{name}|": abs(e) for name, e in named.items()}
            return named | {"|entry 0| + |entry 1|": float(np.abs(noise).sum())}

        sides: tuple[list[dict[str, float]], ...] = ([], [])
        for i in range(12 * context.views):
            drawn = (shares.share(context.coins("share", str(self.noise), i, j)) for j in range(HONEST))
            sides[0].append(row(ideal_sum(*drawn)))
            sides[1].append(row(self.drawn(HONEST, generator)))
        return compare_samples(context, sides, f"{HONEST} honest share against the whole law")

    def shares_differ(self, context: Context) -> CheckResult:
        """No share is a function of another: nobody knows the noise from its own share."""
        runs = self.real(context)
        held = np.array([[run.vectors[p] for p in range(PARTIES)] for run in runs])
        noise = held - np.array(self.exact(context))
        # Two shares of small numbers are alike by chance in a few runs of a hundred, never in every fourth.
        alike = sum(
            any(np.array_equal(run[a], run[b]) and run[a].any() for a in range(PARTIES) for b in range(a))
            for run in noise
        )
        if 4 * alike > len(runs):
            told = f"in {alike} of {len(runs)} runs two parties drew the same share: each knows the other's"
            return CheckResult(True, told)
        if len({run.tobytes() for run in noise}) < len(runs):
            return CheckResult(True, "two runs drew the same shares")
        return CheckResult(False, f"two of {PARTIES} shares alike in {alike} of {len(runs)} runs, no two runs alike")

    def opens_exact_sum(self, context: Context) -> CheckResult:
        """The curator's own output."""
        wanted = ideal_sum(*self.exact(context))
        return CheckResult(list(self.real(context)[0].opened.sums) == wanted, "it opens the sum of all vectors")

    def same_inputs(self, context: Context) -> CheckResult:
        """Two data sets of other sizes that vote alike, or point one way, make the very same ballot from the same
        coins."""
        ballots, votes, auxiliary = [], [], self.auxiliary(context)
        X, y = self.rows(context)[-1]  # two rows of two classes have one direction at any ridge
        for copies in (1, 5):
            voter = TrainedVoter(context.seed, copies, 2)
            votes.append(voter.predict_votes(auxiliary).tolist())
            own = (np.repeat(X, copies, axis=0), np.repeat(y, copies)) if self.own else voter
            round_, coins = self.round(context, "same inputs"), context.coins("same inputs")
            ballots.append(cast(self.setting(context), round_, self.source(context, [own]), 0, coins)[0].encode())
        if votes[0] != votes[1]:
            raise InvalidParameter("the two classifiers were to vote alike")
        told = f"the ballots of two data sets, one five times the other, with the same {self.vectors} and coins"
        if ballots[0] == ballots[1]:
            return CheckResult(False, f"{told} are equal byte for byte")
        return CheckResult(True, f"{told} are different: they tell which it was")

    def granted(self, members: Members) -> dict[str, str]:
        """What a coalition has in the ideal world as well."""
        opens = "outside the threat model: it can open every ballot"
        if members.opens:
            few = "" if self.noise is None else ", and one share of noise hides little"
            return dict.fromkeys(self.sealed, opens + few)
        given = members.curator and self.noise is None
        return {"exact sum": "what this curator is given; it adds the noise"} if given else {}


def _case(name: str, one: _Statistic) -> Case:
    checks, hides = Checks(), (one.vectors,)
    for coalition, m in COALITIONS.items():
        # The simulation hides the vectors; that a ballot depends on nothing else hides what they were made from.
        checks.add(f"same {one.vectors}", coalition, one.behind, one.same_inputs)
        if m.opens:
            under = "without noise" if one.noise is None else "under one share of the noise only"
            why = f"it opens the ballot of party 0, {under}"
            checks.add("opening", coalition, one.sealed, partial(one.reads_ballot, m, why))
            continue
        hidden = one.sealed
        if m.curator and one.noise is None:
            hidden = hides
            checks.add("exact sum", coalition, ("exact sum",), one.opens_exact_sum)
        checks.add("simulation", coalition, hidden, partial(one.simulation, m), statistical=True)
        if not one.own:  # of own data the simulation alone: it takes no more from the inputs than this
            swapped = partial(one.pair, m, "honest", "swapped", "votes swapped")
            checks.add("votes swapped", coalition, hides, swapped, statistical=True)
        checks.add("freshness", coalition, hides, partial(one.fresh, m))
        if m.holders:
            checks.add("threshold", coalition, hides, partial(one.lowered_threshold, m))
    both, party = "curator and t - 1 holders", "curator and a party"
    checks.add("deviating requests", both, hides, one.deviating)
    if not one.own:  # the same shares in every case
        checks.add("dealt shares", both, hides, dealt_shares, statistical=True)
    if one.noise is not None:
        checks.append(Check("noise law", party, (one.sealed[-1], one.vectors), one.noise_law, statistical=True))
        checks.append(Check("shares differ", party, ("noise",), one.shares_differ))
    declared = OwnDataSpec.secrets if one.noise is None else StatisticSpec.secrets
    secrets = tuple(secret for secret in names_of(declared) if secret in {*one.behind, *one.sealed})
    return Case(name, secrets, coalitions(COALITIONS, one.granted), tuple(checks))


VOTE_STATISTIC = _Statistic("statistic")
STATISTIC = _case("statistic", VOTE_STATISTIC)
STATISTIC_GAUSSIAN = _case("statistic-gaussian", _Statistic("statistic skellam", noise="skellam"))
OWN_DATA = _case("own-data", _Statistic("own data", own="own-data", noise="skellam"))
OWN_DATA_EXACT = _case("own-data-exact", _Statistic("own data exact", own="own-data", noise=None))
WHITENED = _case("whitened", _Statistic("whitened", own="whitened", noise=None))
"""The average as in Pathak 2010, whose curator has the exact sum; with joint noise only the vectors differ."""
