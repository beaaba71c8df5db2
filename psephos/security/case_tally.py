"""The encrypted tally with alpha (DESIGN sections 2 and 4): five parties, three holders, two of which open.

`psephos run` takes two sums in this protocol: of the votes, and, for the method avg, of the parties' parameters. The
curator gets both exactly, and adds the noise of every release itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from psephos.curator.hamm.statistic import plan_statistic, release_statistic
from psephos.parties.party import Party, Voter, VotingParty
from psephos.protocol.encrypted_sum.messages import Ballot
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.encrypted_sum.votes import VoteLayout, vote_round
from psephos.protocol.errors import AlreadyCastError
from psephos.protocol.paillier.packing import PackingPlan
from psephos.protocol.randomness import Randomness, RecordedRandomness, ReplayedRandomness
from psephos.security.ideal import ideal_tally
from psephos.security.model import Case, Check, Coalition, Context, Result
from psephos.security.simulators import simulate_sum
from psephos.security.sums import (
    Members,
    compare_views,
    dealt_shares,
    deviations,
    fresh,
    lowered_threshold,
    opened_ballot,
)
from psephos.security.worlds import (
    FixedVoter,
    Recorded,
    Setup,
    SumRun,
    TrainedVoter,
    cast,
    run_sum,
    run_tally_round,
    setup,
)
from psephos.simulation.encrypted_sum import Contribution, VectorContribution, VoteContribution

__all__ = ["TALLY"]

PARTIES, SAMPLES, CLASSES = 5, 25, 3
SECRETS = ("data", "classifier", "votes", "noise", "sizes", "alpha", "sum of parameters")
LARGEST = 5000
"""Of a parameter in fixed point, here."""

Array = NDArray[np.float64]
Run = Callable[[Context], Result]

MEMBERS = {
    "outsider (the board)": Members(),
    "party": Members(parties=(4,)),
    "t - 1 holders": Members(parties=(2,), holders=(3,)),
    "curator": Members(curator=True),
    "curator and a party": Members(curator=True, parties=(4,)),
    "curator and t - 1 holders": Members(curator=True, parties=(2,), holders=(3,)),
    "all parties but two, t - 1 holders among them": Members(parties=(2, 3, 4), holders=(3,)),
    "curator and all parties but two": Members(curator=True, parties=(2, 3, 4), holders=(3,)),
    "curator and all parties but one": Members(curator=True, parties=(1, 2, 3, 4), holders=(3,)),
    "t holders": Members(parties=(1, 2), holders=(2, 3), opens=True),
    "dealer": Members(opens=True),
}


def _world(context: Context) -> Setup:
    return context.once("tally world", lambda: setup(context.coins("tally world")))


def _auxiliary(context: Context) -> Array:
    return np.random.default_rng(context.seed).normal(size=(SAMPLES, 2))


def _votes(context: Context) -> NDArray[np.int64]:
    return np.random.default_rng([context.seed, 1]).integers(0, CLASSES, size=(PARTIES, SAMPLES))


def _voters(context: Context, inputs: str) -> Sequence[Voter]:
    """`honest`; `swapped`: parties 0 and 1 exchange their votes; `twin`: party 0 holds other data and another
    classifier, which votes the same."""
    votes = _votes(context)
    if inputs == "swapped":
        votes = votes[[1, 0, 2, 3, 4]]
    voters: list[Voter] = [FixedVoter(v) for v in votes]
    if inputs in ("trained", "twin"):
        voters[0] = TrainedVoter(context.seed, 5 if inputs == "twin" else 1, CLASSES)
    return voters


def _real(context: Context, inputs: str = "honest") -> list[SumRun]:
    def make() -> list[SumRun]:
        world, auxiliary, voters = _world(context), _auxiliary(context), _voters(context, inputs)
        return [
            run_tally_round(context, world, auxiliary, CLASSES, voters, f"{inputs} {i}") for i in range(context.views)
        ]

    return context.once(("tally", inputs), make)


def _sums(context: Context) -> list[int]:
    counts = np.array(ideal_tally(_votes(context), CLASSES)["curator"]["counts"])
    return [int(c) for c in counts[:, 1:].reshape(-1)]


def _round(context: Context, label: str) -> Round:
    ceremony = _world(context).ceremony
    return vote_round(
        ceremony.threshold_key,
        ceremony.roster,
        _auxiliary(context),
        CLASSES,
        test_key=True,
        proofs="none",
        randomness=context.coins(label, "round"),
    )


def _contribution(context: Context) -> Contribution:
    return VoteContribution(_voters(context, "honest"), _auxiliary(context), CLASSES)


def _simulated(context: Context, members: Members) -> list[SumRun]:
    world = _world(context)
    key = world.ceremony.threshold_key.key
    layout = VoteLayout(SAMPLES, CLASSES)
    sums = _sums(context) if members.curator else [0] * layout.plan(key, PARTIES).length

    def one(i: int) -> SumRun:
        label = f"simulated {members} {i}"

        def own(party: int, round_: Round, coins: Randomness) -> Ballot | None:
            contribution = _contribution(context)
            return cast(world, round_, contribution, party, coins)[0] if party in members.parties else None

        return simulate_sum(
            world,
            _round(context, label),
            corrupt_holders=members.holders,
            own_ballot=own,
            sums=sums,
            coins=lambda name: context.coins(label, name),
        )

    return [one(i) for i in range(context.views)]


def _parameters(context: Context) -> list[list[int]]:
    """Every party's parameters in fixed point."""
    drawn = np.random.default_rng([context.seed, 3]).integers(-LARGEST, LARGEST + 1, size=(PARTIES, 4))
    return [[int(w) for w in row] for row in drawn]


def _parameters_round(context: Context, label: str) -> Round:
    ceremony = _world(context).ceremony
    plan = PackingPlan.for_key(ceremony.threshold_key.key, length=4, addends=PARTIES, minimum=-LARGEST, maximum=LARGEST)
    coins = context.coins(label, "round")
    return Round.create(
        "parameters", ceremony.threshold_key, plan, ceremony.roster, context=bytes(32), test_key=True, randomness=coins
    )


def _given(context: Context) -> Contribution:
    return VectorContribution("parameters", np.array(_parameters(context)))


def _real_parameters(context: Context) -> list[SumRun]:
    def one(i: int) -> SumRun:
        label = f"parameters {i}"
        round_ = _parameters_round(context, label)
        return run_sum(_world(context), round_, _given(context), Recorded(context, label))

    return context.once("tally parameters", lambda: [one(i) for i in range(context.views)])


def _simulated_parameters(context: Context, members: Members) -> list[SumRun]:
    total = [sum(column) for column in zip(*_parameters(context), strict=True)]

    def one(i: int) -> SumRun:
        label = f"parameters simulated {members} {i}"

        def own(party: int, round_: Round, coins: Randomness) -> Ballot | None:
            given = _given(context)
            return cast(_world(context), round_, given, party, coins)[0] if party in members.parties else None

        return simulate_sum(
            _world(context),
            _parameters_round(context, label),
            corrupt_holders=members.holders,
            own_ballot=own,
            sums=total if members.curator else [0] * len(total),
            coins=lambda name: context.coins(label, name),
        )

    return [one(i) for i in range(context.views)]


# -- the checks


def _outputs(context: Context) -> Result:
    wanted = _sums(context)
    runs = _real(context)
    wrong = sum(run.opened.sums != tuple(wanted) for run in runs)
    if wrong:
        return Result(True, f"{wrong} of {len(runs)} runs opened something else than the counts")
    return Result(False, f"the curator opened exactly the ideal counts in {len(runs)} runs")


def _simulation(members: Members) -> Run:
    def run(context: Context) -> Result:
        return compare_views(
            context, _world(context), _real(context), _simulated(context, members), members, "real against simulated"
        )

    return run


def _pair(members: Members, left: str, right: str, what: str) -> Run:
    def run(context: Context) -> Result:
        return compare_views(context, _world(context), _real(context, left), _real(context, right), members, what)

    return run


def _freshness(members: Members) -> Run:
    return lambda context: fresh(_real(context), members)


def _threshold(members: Members) -> Run:
    return lambda context: lowered_threshold(_world(context), _real(context), members)


def _ballots(context: Context, label: str) -> tuple[Round, list[Ballot]]:
    round_, contribution = _round(context, label), _contribution(context)
    return round_, [cast(_world(context), round_, contribution, p, context.coins(label, p))[0] for p in range(PARTIES)]


def _deviations(context: Context) -> Result:
    return deviations(context, _world(context), lambda label: _ballots(context, label))


def _votes_once(context: Context) -> Result:
    world = _world(context)
    party = Party(0, world.ceremony.signing_keys[0], classes=range(CLASSES), voter=FixedVoter(_votes(context)[0]))
    auxiliary = _auxiliary(context)
    VotingParty(party, _round(context, "first"), auxiliary).start()
    try:
        VotingParty(party, _round(context, "second"), auxiliary).start()
    except AlreadyCastError:
        return Result(False, "a second ballot on one auxiliary set is refused (AlreadyCastError)")
    return Result(True, "a party voted twice on one auxiliary set: the difference of two counts opens votes")


def _reads_alpha(context: Context) -> Result:
    run = _real(context)[0]
    counts = VoteLayout(SAMPLES, CLASSES).decode(run.opened.sums, PARTIES)
    right = counts.tolist() == ideal_tally(_votes(context), CLASSES)["curator"]["counts"]
    return Result(right, "the counts are read from the opening")


def _reads_last(context: Context) -> Result:
    votes, layout = _votes(context), VoteLayout(SAMPLES, CLASSES)
    own = np.sum([layout.encode(v).astype(int) for v in votes[1:]], axis=0)
    left = np.array(_real(context)[0].opened.sums) - own
    return Result(
        left.tolist() == layout.encode(votes[0]).tolist(), "the counts less its own votes are party 0's votes"
    )


def _reads_votes(members: Members) -> Run:
    def run(context: Context) -> Result:
        opened = opened_ballot(_world(context), _real(context)[0], members)
        right = opened == VoteLayout(SAMPLES, CLASSES).encode(_votes(context)[0]).tolist()
        return Result(right, "it opens the ballot of party 0 and reads its votes")

    return run


def _curator_noise(context: Context) -> Result:
    """The curator's tape alone makes the released statistic from the counts once more: it can take the noise off."""
    counts = VoteLayout(SAMPLES, CLASSES).decode(_real(context)[0].opened.sums, PARTIES)
    plan = plan_statistic(_auxiliary(context), CLASSES, PARTIES, epsilon=1.0)
    tape = RecordedRandomness(context.coins("release"))
    released = release_statistic(counts, plan, tape).T
    again = release_statistic(counts, plan, ReplayedRandomness(tape.tape())).T
    bare = release_statistic(counts, replace(plan, mechanism=None)).T
    known = np.array_equal(released, again) and not np.array_equal(released, bare)
    return Result(known, "the curator's own coins replay the noise of the release")


def _noise_after(context: Context) -> Result:
    """The release's noise is the curator's coins; all messages are made without them."""
    voters, label = _voters(context, "honest"), "honest 0"
    again = run_tally_round(context, _world(context), _auxiliary(context), CLASSES, voters, label).transcript.messages
    first = _real(context)[0].transcript.messages
    alike = [m.data for m in again] == [m.data for m in first]
    told = f"all {len(first)} messages follow from the parties' inputs and coins" if alike else "the messages differ"
    return Result(not alike, f"replayed, {told}: the curator's, which make the noise, enter none")


def _parameters_simulated(members: Members) -> Run:
    def run(context: Context) -> Result:
        real, simulated = _real_parameters(context), _simulated_parameters(context, members)
        what = "the sum of parameters, real against simulated"
        return compare_views(context, _world(context), real, simulated, members, what)

    return run


def _reads_sum(context: Context) -> Result:
    total = [sum(column) for column in zip(*_parameters(context), strict=True)]
    return Result(list(_real_parameters(context)[0].opened.sums) == total, "the exact sum of the parameters is opened")


def _reads_last_parameters(context: Context) -> Result:
    own = [sum(column) for column in zip(*_parameters(context)[1:], strict=True)]
    left = [t - o for t, o in zip(_real_parameters(context)[0].opened.sums, own, strict=True)]
    return Result(left == _parameters(context)[0], "the sum less their own parameters is party 0's classifier")


def _opens_parameters(members: Members) -> Run:
    def run(context: Context) -> Result:
        first = _real_parameters(context)[0]
        plain = opened_ballot(_world(context), first, members)
        return Result(plain == _parameters(context)[0], "it opens party 0's parameters, and so everybody's")

    return run


def _coalitions() -> tuple[Coalition, ...]:
    counts = "the counts and the sum of parameters are the curator's output"
    last = "the sums less one's own votes and parameters are the last party's"
    noise = "the curator adds the noise in this protocol; `statistic` is the one where nobody can"
    opens = "outside the threat model: it can open every ballot"
    return tuple(
        Coalition(
            name,
            tuple(
                ["curator"] * m.curator
                + [f"party {p}" for p in m.parties]
                + [f"holder {h}" for h in m.holders]
                + ["dealer"] * (name == "dealer")
            ),
            {
                **({"alpha": counts, "sum of parameters": counts, "noise": noise} if m.curator else {}),
                **(dict.fromkeys(("alpha", "votes", "classifier", "sum of parameters"), opens) if m.opens else {}),
                **(dict.fromkeys(("votes", "classifier"), last) if len(m.parties) == 4 else {}),
            },
        )
        for name, m in MEMBERS.items()
    )


def _checks() -> tuple[Check, ...]:
    checks: list[Check] = []

    def add(name: str, coalition: str, secrets: tuple[str, ...], run: Run, *, statistical: bool = False) -> None:
        checks.append(Check(f"{name}, {coalition}", coalition, secrets, run, statistical))

    for name, m in MEMBERS.items():
        granted = {c.name: c.granted for c in _coalitions()}[name]
        hidden = tuple(s for s in ("data", "votes", "sizes", "alpha") if s not in granted)
        about = tuple(s for s in ("classifier", "sum of parameters") if s not in granted)
        if m.opens:
            add("opening", name, ("votes", "alpha"), _reads_votes(m))
            add("opening parameters", name, ("classifier", "sum of parameters"), _opens_parameters(m))
        else:
            add("simulation", name, hidden, _simulation(m), statistical=True)
            # Data enter the sum of parameters through the classifier alone.
            shown = about or ("data",)
            add("parameters simulated", name, shown, _parameters_simulated(m), statistical=True)
        if m.curator:
            add("sum read", name, ("sum of parameters",), _reads_sum)
        if "votes" in hidden:
            add("freshness", name, ("votes",), _freshness(m))
            add("votes swapped", name, ("votes",), _pair(m, "honest", "swapped", "votes swapped"), statistical=True)
            if m.holders:
                add("threshold", name, ("votes",), _threshold(m))
        elif not m.opens:
            add("last party", name, ("votes",), _reads_last)
            add("last party's parameters", name, ("classifier",), _reads_last_parameters)
        same = "other data, same votes"
        votes_only = tuple(s for s in ("data", "classifier", "sizes") if s not in granted)
        add(same, name, votes_only, _pair(m, "trained", "twin", same), statistical=True)
        if m.curator:
            add("alpha read", name, ("alpha",), _reads_alpha)
        if m.curator:
            add("noise replayed", name, ("noise",), _curator_noise)
        else:
            add("messages replayed", name, ("noise",), _noise_after)
    both = "curator and t - 1 holders"
    add("deviating requests", both, ("votes",), _deviations)
    add("second ballot", both, ("votes",), _votes_once)
    add("dealt shares", both, ("votes",), dealt_shares, statistical=True)
    add("output", "curator", ("votes",), _outputs)
    return tuple(checks)


TALLY = Case("tally", SECRETS, _coalitions(), _checks())
