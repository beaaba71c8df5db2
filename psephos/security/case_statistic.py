"""The statistic reveal with joint noise (DESIGN section 4): five parties, noise shares sized for three colluders.

Both kinds of noise: Polya shares, which sum to discrete Laplace noise (pure epsilon), and Skellam shares (delta).

The functionality adds the honest parties' part of the noise to the sum; the coalition's own vectors, shares included,
are its inputs. So the curator has neither alpha nor the noise, and what a colluder takes off the sum leaves the whole
law.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from psephos.parties.noise import PolyaShares, SkellamShares, contributors
from psephos.parties.statistic import Shares, entry_range
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.encrypted_sum.statistic_grid import StatisticGrid
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.paillier.packing import PackingPlan
from psephos.security.compare import compare_samples
from psephos.security.ideal import ideal_sum, joint_noise, joint_skellam
from psephos.security.model import Case, Check, Checks, Context, Members, Result
from psephos.security.sums import COALITIONS, SumAnalysis, coalitions, dealt_shares
from psephos.security.worlds import FixedVoter, SumRun, TrainedVoter, cast
from psephos.simulate.encrypted_sum import StatisticContribution

PARTIES, SAMPLES, COLLUDERS = 5, 12, 3
SECRETS = ("data", "classifier", "votes", "noise", "sizes", "alpha")
HONEST = PARTIES - COLLUDERS - 1
"""Whose shares must make up the whole law: neither the colluders' nor one's own. One: the largest coalition here."""
SCALE, VARIANCE = Fraction(60), Fraction(7200)


@dataclass(frozen=True)
class _Statistic(SumAnalysis):
    """`skellam`: which kind of noise."""

    skellam: bool = False

    def grid(self, context: Context) -> StatisticGrid:
        """What votes are turned into a statistic with."""

        def make() -> StatisticGrid:
            points = np.random.default_rng([context.seed, 5]).integers(-20, 21, size=(SAMPLES, 2))
            return StatisticGrid(points, np.array([[0, 1]]))

        return context.once("grid", make)

    @property
    def shares(self) -> Shares:
        """What was agreed on."""
        law, size = (SkellamShares, VARIANCE) if self.skellam else (PolyaShares, SCALE)
        return law(2, PARTIES, contributors(PARTIES, COLLUDERS), size)

    def noise(self, shares: int, generator: np.random.Generator) -> list[int]:
        """So many shares of the agreed law, of which `HONEST` make up the whole, drawn by numpy."""
        draw, size = (joint_skellam, VARIANCE) if self.skellam else (joint_noise, SCALE)
        return draw(size, 2, shares, HONEST, generator)

    def votes(self, context: Context, inputs: str = "honest") -> NDArray[np.int64]:
        """(M, N); `swapped`: parties 0 and 1 exchange theirs."""
        votes = np.random.default_rng([context.seed, 6]).integers(0, 2, size=(PARTIES, SAMPLES))
        return votes[[1, 0, 2, 3, 4]] if inputs == "swapped" else votes

    def round(self, context: Context, label: str) -> Round:
        key, grid = self.world(context).ceremony.threshold_key.key, self.grid(context)
        low, high = entry_range(grid, self.shares)
        plan = PackingPlan.for_key(key, length=grid.length, addends=PARTIES, minimum=low, maximum=high)
        return self.new_round(context, label, "statistic", plan, grid.digest)

    def auxiliary(self, context: Context) -> NDArray[np.float64]:
        """What parties vote on, (N, 2)."""
        return np.random.default_rng([context.seed, 11]).normal(size=(SAMPLES, 2))

    def contribution(self, context: Context, inputs: str) -> StatisticContribution:
        voters = [FixedVoter(votes) for votes in self.votes(context, inputs)]
        return StatisticContribution(voters, self.auxiliary(context), self.grid(context), self.shares)

    def output(self, context: Context, own: Mapping[int, Sequence[int]], number: int) -> list[int]:
        honest, votes = [p for p in range(PARTIES) if p not in own], self.votes(context)
        noise = self.noise(len(honest), np.random.default_rng([context.seed, number, 78]))
        return ideal_sum(*(self.grid(context).contribution(votes[p]) for p in honest), *own.values(), noise)

    def known(self, run: SumRun, members: Members) -> Iterator[tuple[str, float]] | None:
        if not members.curator:
            return None
        left = np.array(run.opened.sums) - sum(np.array(run.vectors[p]) for p in members.parties)
        return (
            (f"sum {place}{what}", float(value))
            for what, sums in (("", run.opened.sums), (" less the coalition's vectors", left))
            for place, value in enumerate(sums)
        )

    # -- checks of its own

    def noise_law(self, context: Context) -> Result:
        """The honest shares that the colluders and one more party leave, against the whole law drawn by numpy."""
        shares, generator = self.shares, np.random.default_rng([context.seed, 79])

        def row(noise: Sequence[int]) -> dict[str, float]:
            named = {f"entry {place}": float(e) for place, e in enumerate(noise)}
            named |= {f"|{name}|": abs(e) for name, e in named.items()}
            return named | {"|entry 0| + |entry 1|": float(np.abs(noise).sum())}

        sides: tuple[list[dict[str, float]], ...] = ([], [])
        for i in range(12 * context.views):
            drawn = (shares.share(context.coins("share", self.label, i, j)) for j in range(HONEST))
            sides[0].append(row(ideal_sum(*drawn)))
            sides[1].append(row(self.noise(HONEST, generator)))
        return compare_samples(context, sides, f"{HONEST} honest share against the whole law")

    def shares_differ(self, context: Context) -> Result:
        """No share is a function of another: nobody knows the noise from its own share."""
        runs, votes = self.real(context), self.votes(context)
        held = np.array([[run.vectors[p] for p in range(PARTIES)] for run in runs])
        noise = held - np.array([self.grid(context).contribution(v) for v in votes])
        # Two shares of small numbers are alike by chance in a few runs of a hundred, never in every fourth.
        alike = sum(
            any(np.array_equal(run[a], run[b]) and run[a].any() for a in range(PARTIES) for b in range(a))
            for run in noise
        )
        if 4 * alike > len(runs):
            told = f"in {alike} of {len(runs)} runs two parties drew the same share: each knows the other's"
            return Result(True, told)
        if len({run.tobytes() for run in noise}) < len(runs):
            return Result(True, "two runs drew the same shares")
        return Result(False, f"two of {PARTIES} shares alike in {alike} of {len(runs)} runs, no two runs alike")

    def same_votes(self, context: Context) -> Result:
        """Two data sets of other sizes, whose classifiers vote alike, make the very same ballot from the same coins."""
        ballots, votes, auxiliary = [], [], self.auxiliary(context)
        for copies in (1, 5):
            voter = TrainedVoter(context.seed, copies, 2)
            source = StatisticContribution([voter], auxiliary, self.grid(context), self.shares)
            votes.append(voter.predict_votes(auxiliary).tolist())
            round_, coins = self.round(context, "same votes"), context.coins("same votes")
            ballots.append(cast(self.world(context), round_, source, 0, coins)[0].encode())
        if votes[0] != votes[1]:
            raise InvalidParameter("the two classifiers were to vote alike")
        told = "the ballots of two data sets, one five times the other, with the same votes and coins"
        alike = ballots[0] == ballots[1]
        return Result(
            not alike, f"{told} are {'equal byte for byte' if alike else 'different: they tell which it was'}"
        )


def _granted(m: Members) -> dict[str, str]:
    opens = "outside the threat model: it can open every ballot, and one share of noise hides little"
    return dict.fromkeys(("votes", "noise", "alpha"), opens) if m.opens else {}


def _case(name: str, one: _Statistic) -> Case:
    checks = Checks()
    add = checks.add
    for coalition, m in COALITIONS.items():
        # The simulation hides the votes; that a ballot depends on nothing else hides what the votes were made from.
        add("same votes", coalition, ("data", "classifier", "sizes"), one.same_votes)
        hidden = ("votes", "noise", "alpha")
        if m.opens:
            why = "it opens the ballot of party 0, under one share of the noise only"
            add("opening", coalition, hidden, partial(one.reads_ballot, m, why))
            continue
        add("simulation", coalition, hidden, partial(one.simulation, m), statistical=True)
        swapped = partial(one.pair, m, "honest", "swapped", "votes swapped")
        add("votes swapped", coalition, ("votes",), swapped, statistical=True)
        add("freshness", coalition, ("votes",), partial(one.fresh, m))
        if m.holders:
            add("threshold", coalition, ("votes",), partial(one.lowered_threshold, m))
    both, party = "curator and t - 1 holders", "curator and a party"
    add("deviating requests", both, ("votes",), one.deviating)
    add("dealt shares", both, ("votes",), dealt_shares, statistical=True)
    checks.append(Check("noise law", party, ("alpha", "votes"), one.noise_law, statistical=True))
    checks.append(Check("shares differ", party, ("noise",), one.shares_differ))
    return Case(name, SECRETS, coalitions(COALITIONS, _granted), tuple(checks))


STATISTIC = _case("statistic", _Statistic("statistic"))
STATISTIC_GAUSSIAN = _case("statistic-gaussian", _Statistic("statistic skellam", skellam=True))
