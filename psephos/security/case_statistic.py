"""The statistic reveal with joint noise (DESIGN section 4): five parties, noise shares sized for one colluder.

The functionality adds the honest parties' part of the noise to the sum; the coalition's own vectors, shares included,
are its inputs. So the curator has neither alpha nor the noise, and what a colluder takes off the sum leaves the whole
law.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from parties.noise import PolyaShares, contributors
from parties.party import Party
from parties.statistic import entry_range, noisy_contribution
from protocol.encryption import Encryptor
from protocol.messages import Ballot
from protocol.packing import PackingPlan
from protocol.randomness import Randomness
from protocol.rounds import Round
from protocol.statistic_grid import StatisticGrid
from protocol.threshold import combine
from psephos.security.compare import two_sample
from psephos.security.ideal import ideal_statistic, joint_noise
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
)
from psephos.security.worlds import Setup, SumRun, run_sum, setup

__all__ = ["STATISTIC"]

PARTIES, SAMPLES, COLLUDERS = 5, 12, 1
SECRETS = ("data", "classifier", "votes", "noise", "sizes", "alpha")
SCALE = Fraction(60)

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


def _shares() -> PolyaShares:
    return PolyaShares(2, PARTIES, contributors(PARTIES, COLLUDERS), SCALE)


def _votes(context: Context, inputs: str = "honest") -> NDArray[np.int64]:
    votes = np.random.default_rng([context.seed, 6]).integers(0, 2, size=(PARTIES, SAMPLES))
    return votes[[1, 0, 2, 3, 4]] if inputs == "swapped" else votes


def _round(context: Context, label: str) -> Round:
    ceremony, grid = _world(context).ceremony, _grid(context)
    low, high = entry_range(grid, _shares())
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


def _vector(context: Context, votes: NDArray[np.int64], coins: Randomness) -> list[int]:
    return noisy_contribution(_grid(context), votes, _shares(), coins)


def _cast(context: Context, party: int, round_: Round, vector: list[int], coins: Randomness) -> Ballot:
    sender = Party(party, _world(context).ceremony.signing_keys[party], classes=range(2))
    encryptor = Encryptor(round_.key, randomness=coins, expected=8)
    return sender.contribute(round_, "statistic", _grid(context).digest, vector, encryptor=encryptor)


def _real(context: Context, inputs: str = "honest") -> list[SumRun]:
    def one(i: int) -> SumRun:
        label, vectors, votes = f"statistic {inputs} {i}", {}, _votes(context, inputs)

        def cast(party: int, round_: Round, coins: Randomness) -> Ballot:
            vectors[party] = _vector(context, votes[party], coins)
            return _cast(context, party, round_, vectors[party], coins)

        run = run_sum(_world(context), _round(context, label), cast, lambda name: context.coins(label, name))
        run.vectors.update(vectors)
        return run

    return context.once(("statistic", inputs), lambda: [one(i) for i in range(context.views)])


def _simulated(context: Context, members: Members) -> list[SumRun]:
    votes, grid = _votes(context), _grid(context)
    honest = [p for p in range(PARTIES) if p not in members.parties]

    def one(i: int) -> SumRun:
        label = f"statistic simulated {members} {i}"
        generator = np.random.default_rng([context.seed, i, 78])
        vectors = {p: _vector(context, votes[p], context.coins(label, "own vector", p)) for p in members.parties}
        noise = joint_noise(SCALE, grid.length, len(honest), _shares().contributors, generator)
        output = ideal_statistic([*(grid.contribution(votes[p]) for p in honest), *vectors.values()], noise)
        sums = output["curator"]["sum"] if members.curator else [0] * grid.length

        def own(party: int, round_: Round, coins: Randomness) -> Ballot | None:
            return _cast(context, party, round_, vectors[party], coins) if party in vectors else None

        run = simulate_sum(
            _world(context),
            _round(context, label),
            corrupt_holders=members.holders,
            own_ballot=own,
            sums=sums,
            coins=lambda name: context.coins(label, name),
        )
        run.vectors.update(vectors)
        return run

    return context.once(("statistic simulated", members), lambda: [one(i) for i in range(context.views)])


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


def _noise_law(context: Context) -> Result:
    """The honest shares that a colluder and one more party leave, against discrete Laplace drawn by numpy."""
    shares, rows = _shares(), 12 * context.views
    generator = np.random.default_rng([context.seed, 79])
    real = np.array(
        [
            np.sum([shares.share(context.coins("share", i, j)) for j in range(shares.contributors)], axis=0)
            for i in range(rows)
        ],
        dtype=float,
    )
    wanted = np.array([joint_noise(SCALE, 2, 1, 1, generator) for _ in range(rows)], dtype=float)
    sides = [np.column_stack([side, np.abs(side)]) for side in (real, wanted)]
    names = ["entry 0", "entry 1", "|entry 0|", "|entry 1|"]
    found = two_sample(sides[0], sides[1], rate=context.rate, names=names, seed=context.seed)
    return comparison_result(found, f"{shares.contributors} shares against the whole law", rows, 4)


def _shares_differ(context: Context) -> Result:
    """No share is a function of another: nobody knows the noise from its own share."""
    rows = _real(context)
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


def _fresh(context: Context, members: Members) -> Result:
    return fresh(_real(context), members)


def _threshold(context: Context, members: Members) -> Result:
    return lowered_threshold(_world(context), _real(context), members)


def _ballots(context: Context, label: str) -> tuple[Round, list[Ballot]]:
    round_, votes = _round(context, label), _votes(context)
    return round_, [
        _cast(context, p, round_, _vector(context, votes[p], context.coins(label, p)), context.coins(label, p, "r"))
        for p in range(PARTIES)
    ]


def _reads_ballot(members: Members) -> Callable[[Context], Result]:
    def run(context: Context) -> Result:
        first = _real(context)[0]
        message = first.transcript.messages[0]
        assert message.data is not None
        ballot = Ballot.decode(message.data, first.round)
        if members.holders:
            shares = [_world(context).ceremony.shares[h - 1] for h in members.holders]
            parts = {s.holder: s.partially_decrypt(ballot.ciphertexts) for s in shares}
            plain = combine(first.round.threshold_key, parts)
        else:
            plain = [_world(context).private_key.raw_decrypt(c) for c in ballot.ciphertexts]
        opened = first.round.plan.unpack(plain, 1)
        return Result(opened == first.vectors[0], "it opens the ballot of party 0, under one share of the noise only")

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


def _checks() -> tuple[Check, ...]:
    checks: list[Check] = []
    for name, m in MEMBERS.items():

        def simulation(context: Context, m: Members = m) -> Result:
            return compare_views(
                context, _world(context), _real(context), _simulated(context, m), m, "real against simulated", _extra(m)
            )

        def swapped(context: Context, m: Members = m) -> Result:
            return compare_views(
                context, _world(context), _real(context), _real(context, "swapped"), m, "votes swapped", _extra(m)
            )

        if m.opens:
            checks.append(Check(f"opening, {name}", name, ("votes", "noise", "alpha"), _reads_ballot(m)))
            checks.append(Check(f"inputs, {name}", name, ("data", "classifier", "sizes"), _inputs))
            continue
        checks.append(Check(f"simulation, {name}", name, SECRETS, simulation, statistical=True))
        checks.append(Check(f"votes swapped, {name}", name, ("votes", "data", "classifier"), swapped, statistical=True))
        checks.append(Check(f"freshness, {name}", name, ("votes",), partial(_fresh, members=m)))
        if m.holders:
            checks.append(Check(f"threshold, {name}", name, ("votes",), partial(_threshold, members=m)))
    both, party = "curator and t - 1 holders", "curator and a party"
    checks += [
        Check(
            "deviating requests",
            both,
            ("votes",),
            lambda context: deviations(context, _world(context), lambda label: _ballots(context, label)),
        ),
        Check("dealt shares", both, ("votes",), dealt_shares, statistical=True),
        Check("noise law", party, ("alpha", "votes"), _noise_law, statistical=True),
        Check("shares differ", party, ("noise",), _shares_differ),
    ]
    return tuple(checks)


def _inputs(context: Context) -> Result:
    """What a party encrypts is a function of its votes and its noise alone; nothing else of it is in any message."""
    lengths = {m.size for run in _real(context) for m in run.transcript.messages if m.kind == "ballot"}
    votes = _votes(context)[0]
    same = _vector(context, votes, context.coins("x")) == _vector(context, votes.copy(), context.coins("x"))
    told = "a ballot is a function of the votes and the noise: data, classifier and size do not enter it"
    return Result(len(lengths) != 1 or not same, told)


STATISTIC = Case("statistic", SECRETS, _coalitions(), _checks())
