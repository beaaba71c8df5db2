"""The statistic reveals (DESIGN section 4), of votes and of own data: five parties, up to three of them colluding.

With joint noise, both kinds: Polya shares, which sum to discrete Laplace noise (pure epsilon), and Skellam shares
(delta), sized for three colluders. The functionality adds the honest parties' part of the noise to the sum; the
coalition's own vectors, shares included, are its inputs. So the curator has neither the exact sum nor the noise, and
what a colluder takes off the sum leaves the whole law.

With the curator's noise (own data only; of votes that is `psephos.security.case_tally`) the functionality gives the
curator the exact sum: the parties' vectors are what is hidden.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from psephos.parties.noise import PolyaShares, SkellamShares, contributors
from psephos.parties.statistic import Shares, entry_range
from psephos.protocol.encrypted_sum.messages import Ballot
from psephos.protocol.encrypted_sum.own_data import OwnDataGrid
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
from psephos.simulation.encrypted_sum import Contribution, OwnDataContribution, StatisticContribution

__all__ = ["OWN_DATA", "OWN_DATA_EXACT", "STATISTIC", "STATISTIC_GAUSSIAN"]

PARTIES, SAMPLES, COLLUDERS = 5, 12, 3
HONEST = PARTIES - COLLUDERS - 1
"""Whose shares must make up the whole law: neither the colluders' nor one's own. One: the largest coalition here."""
SCALE, VARIANCE = Fraction(60), Fraction(7200)

Rows = list[tuple[NDArray[np.float64], NDArray[np.int64]]]


@dataclass(frozen=True)
class Version:
    """Which statistic. `noise` None: the curator adds it."""

    source: Literal["votes", "own data"]
    noise: Literal["laplace", "skellam"] | None

    @property
    def vectors(self) -> str:
        """What a party's message is made from, as a secret of the matrix."""
        return "votes" if self.source == "votes" else "direction"

    @property
    def sealed(self) -> tuple[str, ...]:
        """What the simulation hides: the vectors, the exact sum of all of them, and the noise."""
        total = "alpha" if self.source == "votes" else "exact sum"
        return (self.vectors, total) if self.noise is None else (self.vectors, "noise", total)

    @property
    def behind(self) -> tuple[str, ...]:
        """What the vectors were made from, of which a message tells nothing more."""
        return ("data", "classifier", "sizes") if self.source == "votes" else ("data", "sizes")


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


def _grid(context: Context, version: Version) -> StatisticGrid | OwnDataGrid:
    if version.source == "own data":
        return OwnDataGrid(np.array([[0.8, -0.6], [0.6, 0.8]]), 2)

    def make() -> StatisticGrid:
        points = np.random.default_rng([context.seed, 5]).integers(-20, 21, size=(SAMPLES, 2))
        return StatisticGrid(points, np.array([[0, 1]]))

    return context.once("grid", make)


def _shares(version: Version) -> Shares | None:
    honest = contributors(PARTIES, COLLUDERS)
    if version.noise == "skellam":
        return SkellamShares(2, PARTIES, honest, VARIANCE)
    return PolyaShares(2, PARTIES, honest, SCALE) if version.noise == "laplace" else None


def _ideal_noise(version: Version, shares: int, generator: np.random.Generator) -> list[int]:
    """So many shares of the agreed law, of which `HONEST` make up the whole, drawn by numpy."""
    if version.noise is None:
        return [0, 0]
    if version.noise == "skellam":
        return joint_skellam(VARIANCE, 2, shares, HONEST, generator)
    return joint_noise(SCALE, 2, shares, HONEST, generator)


def _votes(context: Context) -> NDArray[np.int64]:
    return np.random.default_rng([context.seed, 6]).integers(0, 2, size=(PARTIES, SAMPLES))


def _rows(context: Context) -> Rows:
    """Of each party: as many rows as its number and two more, about a direction of its own."""
    generator = np.random.default_rng([context.seed, 12])
    sizes = range(2, 2 + PARTIES)
    return [(generator.normal(size=(n, 2)) + generator.normal(size=2), generator.integers(0, 2, n)) for n in sizes]


def _round(context: Context, version: Version, label: str) -> Round:
    ceremony, grid = _world(context).ceremony, _grid(context, version)
    low, high = entry_range(grid, _shares(version))
    key = ceremony.threshold_key.key
    return Round.create(
        "parameters" if version.noise is None else "statistic",
        ceremony.threshold_key,
        PackingPlan.for_key(key, length=grid.length, addends=PARTIES, minimum=low, maximum=high),
        ceremony.roster,
        context=grid.digest,
        test_key=True,
        randomness=context.coins(label, "round"),
    )


def _auxiliary(context: Context) -> NDArray[np.float64]:
    return np.random.default_rng([context.seed, 11]).normal(size=(SAMPLES, 2))


def _contribution(context: Context, version: Version, inputs: str = "honest") -> Contribution:
    """`inputs`: "swapped" gives party 0 the votes of party 1, and the reverse."""
    grid, shares = _grid(context, version), _shares(version)
    if isinstance(grid, OwnDataGrid):
        return OwnDataContribution(_rows(context), grid, shares)
    assert shares is not None
    order = [1, 0, 2, 3, 4] if inputs == "swapped" else list(range(PARTIES))
    return StatisticContribution([FixedVoter(v) for v in _votes(context)[order]], _auxiliary(context), grid, shares)


def _exact(context: Context, version: Version) -> list[list[int]]:
    """The parties' vectors without noise."""
    grid = _grid(context, version)
    if isinstance(grid, OwnDataGrid):
        return [grid.contribution(*rows) for rows in _rows(context)]
    return [grid.contribution(votes) for votes in _votes(context)]


def _real(context: Context, version: Version, inputs: str = "honest") -> list[SumRun]:
    def one(i: int) -> SumRun:
        label = f"statistic {version} {inputs} {i}"
        round_, contribution = _round(context, version, label), _contribution(context, version, inputs)
        return run_sum(_world(context), round_, contribution, Recorded(context, label))

    return context.once(("statistic", version, inputs), lambda: [one(i) for i in range(context.views)])


def _simulated(context: Context, version: Version, members: Members) -> list[SumRun]:
    exact, contribution = _exact(context, version), _contribution(context, version)
    honest = [p for p in range(PARTIES) if p not in members.parties]

    def one(i: int) -> SumRun:
        label = f"statistic simulated {version} {members} {i}"
        generator = np.random.default_rng([context.seed, i, 78])
        round_ = _round(context, version, label)
        own = {p: cast(_world(context), round_, contribution, p, context.coins(label, p)) for p in members.parties}
        vectors = {p: vector for p, (_, vector) in own.items()}
        noise = _ideal_noise(version, len(honest), generator)
        output = ideal_statistic([*(exact[p] for p in honest), *map(list, vectors.values())], noise)
        run = simulate_sum(
            _world(context),
            round_,
            corrupt_holders=members.holders,
            own_ballot=lambda party, round_, coins: own[party][0] if party in own else None,
            sums=output["curator"]["sum"] if members.curator else [0, 0],
            coins=lambda name: context.coins(label, name),
        )
        return replace(run, vectors=vectors)

    return context.once(("statistic simulated", version, members), lambda: [one(i) for i in range(context.views)])


def _extra(version: Version, members: Members) -> Extra | None:
    if not members.curator or version.noise is None:
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


def _noise_law(context: Context, version: Version) -> Result:
    """The honest shares that the colluders and one more party leave, against the whole law drawn by numpy."""
    shares, rows = _shares(version), 12 * context.views
    assert shares is not None
    generator = np.random.default_rng([context.seed, 79])
    real = np.array(
        [
            np.sum([shares.share(context.coins("share", str(version.noise), i, j)) for j in range(HONEST)], axis=0)
            for i in range(rows)
        ],
        dtype=float,
    )
    wanted = np.array([_ideal_noise(version, HONEST, generator) for _ in range(rows)], dtype=float)
    sides = [np.column_stack([side, np.abs(side), np.abs(side).sum(axis=1)]) for side in (real, wanted)]
    names = ["entry 0", "entry 1", "|entry 0|", "|entry 1|", "|entry 0| + |entry 1|"]
    found = two_sample(sides[0], sides[1], rate=context.rate, names=names, seed=context.seed)
    return comparison_result(found, f"{HONEST} honest share against the whole law", rows, len(names))


def _shares_differ(context: Context, version: Version) -> Result:
    """No share is a function of another: nobody knows the noise from its own share."""
    rows = _real(context, version)
    contributions = _exact(context, version)
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


def _fresh(context: Context, version: Version, members: Members) -> Result:
    return fresh(_real(context, version), members)


def _threshold(context: Context, version: Version, members: Members) -> Result:
    return lowered_threshold(_world(context), _real(context, version), members)


def _ballots(context: Context, version: Version, label: str) -> tuple[Round, list[Ballot]]:
    round_, contribution = _round(context, version, label), _contribution(context, version)
    return round_, [cast(_world(context), round_, contribution, p, context.coins(label, p))[0] for p in range(PARTIES)]


def _reads_ballot(version: Version, members: Members) -> Callable[[Context], Result]:
    def run(context: Context) -> Result:
        first = _real(context, version)[0]
        right = opened_ballot(_world(context), first, members) == list(first.vectors[0])
        noise = "without noise" if version.noise is None else "under one share of the noise only"
        return Result(right, f"it opens the ballot of party 0, {noise}")

    return run


def _opens_exact_sum(version: Version) -> Callable[[Context], Result]:
    def run(context: Context) -> Result:
        wanted = [sum(column) for column in zip(*_exact(context, version), strict=True)]
        return Result(list(_real(context, version)[0].opened.sums) == wanted, "it opens the sum of all vectors")

    return run


def _coalitions(version: Version) -> tuple[Coalition, ...]:
    opens = "outside the threat model: it can open every ballot"
    if version.noise is not None:
        opens += ", and one share of noise hides little"

    def granted(members: Members) -> dict[str, str]:
        if members.opens:
            return dict.fromkeys(version.sealed, opens)
        if members.curator and version.noise is None:
            return {"exact sum": "what this curator is given; it adds the noise"}
        return {}

    return tuple(
        Coalition(
            name,
            tuple(
                ["curator"] * m.curator
                + [f"party {p}" for p in m.parties]
                + [f"holder {h}" for h in m.holders]
                + ["dealer"] * (name == "dealer")
            ),
            granted(m),
        )
        for name, m in MEMBERS.items()
    )


def _checks(version: Version) -> tuple[Check, ...]:  # long: every coalition's questions, listed
    checks: list[Check] = []
    vectors = version.vectors
    for name, m in MEMBERS.items():

        def simulation(context: Context, m: Members = m) -> Result:
            real, simulated = _real(context, version), _simulated(context, version, m)
            extra = _extra(version, m)
            return compare_views(context, _world(context), real, simulated, m, "real against simulated", extra)

        def swapped(context: Context, m: Members = m) -> Result:
            real, other = _real(context, version), _real(context, version, "swapped")
            return compare_views(context, _world(context), real, other, m, "votes swapped", _extra(version, m))

        # The simulation hides the vectors; that a ballot depends on nothing else hides what they were made from.
        checks.append(Check(f"same {vectors}, {name}", name, version.behind, partial(_inputs, version=version)))
        if m.opens:
            checks.append(Check(f"opening, {name}", name, version.sealed, _reads_ballot(version, m)))
            continue
        hidden = version.sealed
        if m.curator and version.noise is None:
            hidden = (vectors,)
            checks.append(Check(f"exact sum, {name}", name, ("exact sum",), _opens_exact_sum(version)))
        checks.append(Check(f"simulation, {name}", name, hidden, simulation, statistical=True))
        if version.source == "votes":  # of own data the simulation alone: it takes no more from the inputs than this
            checks.append(Check(f"votes swapped, {name}", name, (vectors,), swapped, statistical=True))
        checks.append(Check(f"freshness, {name}", name, (vectors,), partial(_fresh, version=version, members=m)))
        if m.holders:
            checks.append(
                Check(f"threshold, {name}", name, (vectors,), partial(_threshold, version=version, members=m))
            )
    both, party = "curator and t - 1 holders", "curator and a party"
    checks += [
        Check(
            f"deviating requests, {both}",
            both,
            (vectors,),
            lambda context: deviations(context, _world(context), lambda label: _ballots(context, version, label)),
        ),
    ]
    if version.source == "votes":  # the same shares in every case
        checks.append(Check(f"dealt shares, {both}", both, (vectors,), dealt_shares, statistical=True))
    if version.noise is not None:
        of_noise = partial(_noise_law, version=version)
        checks.append(Check("noise law", party, (version.sealed[-1], vectors), of_noise, statistical=True))
        checks.append(Check("shares differ", party, ("noise",), partial(_shares_differ, version=version)))
    return tuple(checks)


def _inputs(context: Context, version: Version) -> Result:
    """Two data sets of other sizes that vote alike, or point one way, make the very same ballot from the same coins."""
    ballots, vectors, auxiliary = [], [], _auxiliary(context)
    grid, shares = _grid(context, version), _shares(version)
    X, y = _rows(context)[0]
    for copies in (1, 5):
        source: Contribution
        if isinstance(grid, OwnDataGrid):
            source = OwnDataContribution([(np.repeat(X, copies, axis=0), np.repeat(y, copies))], grid, shares)
        else:
            voter = TrainedVoter(context.seed, copies, 2)
            vectors.append(voter.predict_votes(auxiliary).tolist())
            assert shares is not None
            source = StatisticContribution([voter], auxiliary, grid, shares)
        round_ = _round(context, version, "same inputs")
        ballots.append(cast(_world(context), round_, source, 0, context.coins("same inputs"))[0].encode())
    if vectors and vectors[0] != vectors[1]:
        raise InvalidParameter("the two classifiers were to vote alike")
    told = f"the ballots of two data sets, one five times the other, with the same {version.vectors} and coins"
    alike = ballots[0] == ballots[1]
    return Result(not alike, f"{told} are {'equal byte for byte' if alike else 'different: they tell which it was'}")


def _case(name: str, version: Version) -> Case:
    hidden = {*version.behind, *version.sealed}
    columns = ("data", "classifier", "votes", "direction", "noise", "sizes", "alpha", "exact sum")
    secrets = tuple(secret for secret in columns if secret in hidden)
    return Case(name, secrets, _coalitions(version), _checks(version))


STATISTIC = _case("statistic", Version("votes", "laplace"))
STATISTIC_GAUSSIAN = _case("statistic-gaussian", Version("votes", "skellam"))
OWN_DATA = _case("own-data", Version("own data", "skellam"))
OWN_DATA_EXACT = _case("own-data-exact", Version("own data", None))
