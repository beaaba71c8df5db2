"""The statistic reveal with joint noise (DESIGN section 4): five parties, noise shares sized for three colluders.

Both kinds of noise: Polya shares, which sum to discrete Laplace noise (pure epsilon), and Skellam shares (delta).

The functionality adds the honest parties' part of the noise to the sum; the coalition's own vectors, shares included,
are its inputs. So the curator has neither alpha nor the noise, and what a colluder takes off the sum leaves the whole
law.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from psephos.parties.noise import PolyaShares, SkellamShares, contributors
from psephos.parties.statistic import Shares, entry_range
from psephos.protocol.encrypted_sum.messages import Ballot
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.encrypted_sum.statistic_grid import StatisticGrid
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.paillier.packing import PackingPlan
from psephos.security.compare import two_sample
from psephos.security.ideal import ideal_statistic, joint_noise, joint_skellam
from psephos.security.model import Case, Check, Coalition, Context, Result
from psephos.security.simulators import simulate_sum
from psephos.security.sums import (
    Extra,
    Members,
    compare_views,
    comparison_result,
    dealt_shares,
    deviations,
    fresh,
    lowered_threshold,
    opened_ballot,
)
from psephos.security.worlds import FixedVoter, Recorded, Setup, SumRun, TrainedVoter, cast, run_sum, setup
from psephos.simulation.encrypted_sum import StatisticContribution

__all__ = ["STATISTIC", "STATISTIC_GAUSSIAN"]

PARTIES, SAMPLES, COLLUDERS = 5, 12, 3
SECRETS = ("data", "classifier", "votes", "noise", "sizes", "alpha")
HONEST = PARTIES - COLLUDERS - 1
"""Whose shares must make up the whole law: neither the colluders' nor one's own. One: the largest coalition here."""
SCALE, VARIANCE = Fraction(60), Fraction(7200)

Kind = Literal["laplace", "skellam"]

MEMBERS = {
    "outsider (the board)": Members(),
    "party": Members(parties=(4,)),
    "t - 1 holders": Members(parties=(2,), holders=(3,)),
    "curator": Members(curator=True),
    "curator and a party": Members(curator=True, parties=(4,)),
    "curator and t - 1 holders": Members(curator=True, parties=(2,), holders=(3,)),
    "all parties but two, t - 1 holders among them": Members(parties=(2, 3, 4), holders=(3,)),
    "curator and all parties but two": Members(curator=True, parties=(2, 3, 4), holders=(3,)),
    "t holders": Members(parties=(1, 2), holders=(2, 3), opens=True),
    "dealer": Members(opens=True),
}


def _world(context: Context) -> Setup:
    return context.once("statistic world", lambda: setup(context.coins("statistic world")))


def _grid(context: Context) -> StatisticGrid:
    def make() -> StatisticGrid:
        points = np.random.default_rng([context.seed, 5]).integers(-20, 21, size=(SAMPLES, 2))
        return StatisticGrid(points, np.array([[0, 1]]))

    return context.once("grid", make)


def _shares(kind: Kind) -> Shares:
    honest = contributors(PARTIES, COLLUDERS)
    if kind == "skellam":
        return SkellamShares(2, PARTIES, honest, VARIANCE)
    return PolyaShares(2, PARTIES, honest, SCALE)


def _ideal_noise(kind: Kind, shares: int, generator: np.random.Generator) -> list[int]:
    """So many shares of the agreed law, of which `HONEST` make up the whole, drawn by numpy."""
    if kind == "skellam":
        return joint_skellam(VARIANCE, 2, shares, HONEST, generator)
    return joint_noise(SCALE, 2, shares, HONEST, generator)


def _votes(context: Context, inputs: str = "honest") -> NDArray[np.int64]:
    votes = np.random.default_rng([context.seed, 6]).integers(0, 2, size=(PARTIES, SAMPLES))
    return votes[[1, 0, 2, 3, 4]] if inputs == "swapped" else votes


def _round(context: Context, kind: Kind, label: str) -> Round:
    ceremony, grid = _world(context).ceremony, _grid(context)
    low, high = entry_range(grid, _shares(kind))
    key = ceremony.threshold_key.key
    return Round.create(
        "statistic",
        ceremony.threshold_key,
        PackingPlan.for_key(key, length=grid.length, addends=PARTIES, minimum=low, maximum=high),
        ceremony.roster,
        context=grid.digest,
        test_key=True,
        randomness=context.coins(label, "round"),
    )


def _auxiliary(context: Context) -> NDArray[np.float64]:
    return np.random.default_rng([context.seed, 11]).normal(size=(SAMPLES, 2))


def _contribution(context: Context, kind: Kind, inputs: str = "honest") -> StatisticContribution:
    voters = [FixedVoter(votes) for votes in _votes(context, inputs)]
    return StatisticContribution(voters, _auxiliary(context), _grid(context), _shares(kind))


def _real(context: Context, kind: Kind, inputs: str = "honest") -> list[SumRun]:
    def one(i: int) -> SumRun:
        label = f"statistic {kind} {inputs} {i}"
        round_, contribution = _round(context, kind, label), _contribution(context, kind, inputs)
        return run_sum(_world(context), round_, contribution, Recorded(context, label))

    return context.once(("statistic", kind, inputs), lambda: [one(i) for i in range(context.views)])


def _simulated(context: Context, kind: Kind, members: Members) -> list[SumRun]:
    votes, grid, contribution = _votes(context), _grid(context), _contribution(context, kind)
    honest = [p for p in range(PARTIES) if p not in members.parties]

    def one(i: int) -> SumRun:
        label = f"statistic simulated {kind} {members} {i}"
        generator = np.random.default_rng([context.seed, i, 78])
        round_ = _round(context, kind, label)
        own = {p: cast(_world(context), round_, contribution, p, context.coins(label, p)) for p in members.parties}
        vectors = {p: vector for p, (_, vector) in own.items()}
        noise = _ideal_noise(kind, len(honest), generator)
        output = ideal_statistic([*(grid.contribution(votes[p]) for p in honest), *map(list, vectors.values())], noise)
        run = simulate_sum(
            _world(context),
            round_,
            corrupt_holders=members.holders,
            own_ballot=lambda party, round_, coins: own[party][0] if party in own else None,
            sums=output["curator"]["sum"] if members.curator else [0] * grid.length,
            coins=lambda name: context.coins(label, name),
        )
        return replace(run, vectors=vectors)

    return context.once(("statistic simulated", kind, members), lambda: [one(i) for i in range(context.views)])


def _extra(members: Members) -> Extra | None:
    if not members.curator:
        return None

    def extra(run: SumRun) -> dict[str, float]:
        told = {}
        for place, value in enumerate(run.opened.sums):
            told[f"sum {place}"] = float(value)
            own = sum(run.vectors[p][place] for p in members.parties)
            told[f"sum {place} less the coalition's vectors"] = float(value - own)
        return told

    return extra


# -- checks


def _noise_law(context: Context, kind: Kind) -> Result:
    """The honest shares that the colluders and one more party leave, against the whole law drawn by numpy."""
    shares, rows = _shares(kind), 12 * context.views
    generator = np.random.default_rng([context.seed, 79])
    real = np.array(
        [
            np.sum([shares.share(context.coins("share", kind, i, j)) for j in range(HONEST)], axis=0)
            for i in range(rows)
        ],
        dtype=float,
    )
    wanted = np.array([_ideal_noise(kind, HONEST, generator) for _ in range(rows)], dtype=float)
    sides = [np.column_stack([side, np.abs(side), np.abs(side).sum(axis=1)]) for side in (real, wanted)]
    names = ["entry 0", "entry 1", "|entry 0|", "|entry 1|", "|entry 0| + |entry 1|"]
    found = two_sample(sides[0], sides[1], rate=context.rate, names=names, seed=context.seed)
    return comparison_result(found, f"{HONEST} honest share against the whole law", rows, len(names))


def _shares_differ(context: Context, kind: Kind) -> Result:
    """No share is a function of another: nobody knows the noise from its own share."""
    rows = _real(context, kind)
    contributions = [_grid(context).contribution(v) for v in _votes(context)]
    noise = np.array(
        [[np.subtract(run.vectors[p], contributions[p]) for p in range(PARTIES)] for run in rows], dtype=float
    )
    # Two shares of small numbers are alike by chance in a few runs of a hundred, never in every fourth.
    alike = sum(
        any(np.array_equal(run[a], run[b]) and run[a].any() for a in range(PARTIES) for b in range(a)) for run in noise
    )
    if 4 * alike > len(rows):
        return Result(True, f"in {alike} of {len(rows)} runs two parties drew the same share: each knows the other's")
    if len({run.tobytes() for run in noise}) < len(rows):
        return Result(True, "two runs drew the same shares")
    return Result(False, f"two of {PARTIES} shares alike in {alike} of {len(rows)} runs, no two runs alike")


def _fresh(context: Context, kind: Kind, members: Members) -> Result:
    return fresh(_real(context, kind), members)


def _threshold(context: Context, kind: Kind, members: Members) -> Result:
    return lowered_threshold(_world(context), _real(context, kind), members)


def _ballots(context: Context, kind: Kind, label: str) -> tuple[Round, list[Ballot]]:
    round_, contribution = _round(context, kind, label), _contribution(context, kind)
    return round_, [cast(_world(context), round_, contribution, p, context.coins(label, p))[0] for p in range(PARTIES)]


def _reads_ballot(kind: Kind, members: Members) -> Callable[[Context], Result]:
    def run(context: Context) -> Result:
        first = _real(context, kind)[0]
        right = opened_ballot(_world(context), first, members) == list(first.vectors[0])
        return Result(right, "it opens the ballot of party 0, under one share of the noise only")

    return run


def _coalitions() -> tuple[Coalition, ...]:
    opens = "outside the threat model: it can open every ballot, and one share of noise hides little"
    return tuple(
        Coalition(
            name,
            tuple(
                ["curator"] * m.curator
                + [f"party {p}" for p in m.parties]
                + [f"holder {h}" for h in m.holders]
                + ["dealer"] * (name == "dealer")
            ),
            dict.fromkeys(("votes", "noise", "alpha"), opens) if m.opens else {},
        )
        for name, m in MEMBERS.items()
    )


def _checks(kind: Kind) -> tuple[Check, ...]:
    checks: list[Check] = []
    for name, m in MEMBERS.items():

        def simulation(context: Context, m: Members = m) -> Result:
            real, simulated = _real(context, kind), _simulated(context, kind, m)
            return compare_views(context, _world(context), real, simulated, m, "real against simulated", _extra(m))

        def swapped(context: Context, m: Members = m) -> Result:
            real, other = _real(context, kind), _real(context, kind, "swapped")
            return compare_views(context, _world(context), real, other, m, "votes swapped", _extra(m))

        # The simulation hides the votes; that a ballot depends on nothing else hides what the votes were made from.
        checks.append(Check(f"same votes, {name}", name, ("data", "classifier", "sizes"), partial(_inputs, kind=kind)))
        if m.opens:
            checks.append(Check(f"opening, {name}", name, ("votes", "noise", "alpha"), _reads_ballot(kind, m)))
            continue
        hidden = ("votes", "noise", "alpha")
        checks.append(Check(f"simulation, {name}", name, hidden, simulation, statistical=True))
        checks.append(Check(f"votes swapped, {name}", name, ("votes",), swapped, statistical=True))
        checks.append(Check(f"freshness, {name}", name, ("votes",), partial(_fresh, kind=kind, members=m)))
        if m.holders:
            checks.append(Check(f"threshold, {name}", name, ("votes",), partial(_threshold, kind=kind, members=m)))
    both, party = "curator and t - 1 holders", "curator and a party"
    checks += [
        Check(
            f"deviating requests, {both}",
            both,
            ("votes",),
            lambda context: deviations(context, _world(context), lambda label: _ballots(context, kind, label)),
        ),
        Check(f"dealt shares, {both}", both, ("votes",), dealt_shares, statistical=True),
        Check("noise law", party, ("alpha", "votes"), partial(_noise_law, kind=kind), statistical=True),
        Check("shares differ", party, ("noise",), partial(_shares_differ, kind=kind)),
    ]
    return tuple(checks)


def _inputs(context: Context, kind: Kind) -> Result:
    """Two data sets of other sizes, whose classifiers vote alike, make the very same ballot from the same coins."""
    ballots, votes, auxiliary = [], [], _auxiliary(context)
    for copies in (1, 5):
        voter = TrainedVoter(context.seed, copies, 2)
        source = StatisticContribution([voter], auxiliary, _grid(context), _shares(kind))
        votes.append(voter.predict_votes(auxiliary).tolist())
        round_ = _round(context, kind, "same votes")
        ballots.append(cast(_world(context), round_, source, 0, context.coins("same votes"))[0].encode())
    if votes[0] != votes[1]:
        raise InvalidParameter("the two classifiers were to vote alike")
    told = "the ballots of two data sets, one five times the other, with the same votes and coins"
    alike = ballots[0] == ballots[1]
    return Result(not alike, f"{told} are {'equal byte for byte' if alike else 'different: they tell which it was'}")


STATISTIC = Case("statistic", SECRETS, _coalitions(), _checks("laplace"))
STATISTIC_GAUSSIAN = Case("statistic-gaussian", SECRETS, _coalitions(), _checks("skellam"))
