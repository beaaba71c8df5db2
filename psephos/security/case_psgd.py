"""Private SGD (Rajkumar 2012): three parties, three steps, three holders of which two open.

Two cases: `psgd` with the paper's noise (eta once, spherical Laplace rho at every step) and `psgd-gaussian`, where
Skellam shares at every step cover the whole transcript and there is no eta.

The functionality walks: at each step it hands the curator the sum of the parties' gradients at the public point plus
the honest parties' noise plus the coalition's own vectors. How much noise that must be is worked out here from epsilon
and delta (`_agreed_noise`), not read from the series. The sizes of the data sets are public.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from psephos.curator.losses import Logistic
from psephos.curator.old_tally import Tally
from psephos.curator.psgd import bounds as bounds
from psephos.curator.psgd.curator import Agreement, Curator, Variant, agree
from psephos.parties.gradients import gradient_sum, margin_slope
from psephos.parties.psgd import GradientParty, OpeningRecord, StepHolder
from psephos.protocol.encrypted_sum.messages import Ballot
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.encrypted_sum.series import Announcement
from psephos.protocol.errors import PsephosError
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.privacy.mechanisms import snap
from psephos.protocol.randomness import SYSTEM, Randomness
from psephos.protocol.transcript import BOARD, Transcript
from psephos.security.compare import two_sample
from psephos.security.ideal import ideal_psgd_step, joint_skellam, spherical_noise
from psephos.security.model import Case, Check, Coalition, Context, Result
from psephos.security.simulators import simulate_sum
from psephos.security.sums import Extra, Members, compare_views, comparison_result, deviations, fresh, lowered_threshold
from psephos.security.worlds import Setup, SumRun, open_sum, setup

__all__ = ["PSGD", "PSGD_GAUSSIAN", "agreement_of"]

PARTIES, STEPS, FEATURES, RECORDS = 3, 3, 2, 12
SECRETS = ("data", "gradients", "noise", "sizes")
SLOPE = margin_slope("logistic")
EPSILON, DELTA, LAMBDA, FRACTION_BITS = 2.0, 1e-3, 0.5, 12

Array = NDArray[np.float64]

MEMBERS = {
    "outsider (the board)": Members(),
    "party": Members(parties=(2,), holders=(3,)),
    "curator": Members(curator=True),
    "curator and a party, t - 1 holders": Members(curator=True, parties=(2,), holders=(3,)),
}


def _world(context: Context) -> Setup:
    return context.once("psgd world", lambda: setup(context.coins("psgd world"), PARTIES, key_bits=320))


def agreement_of(context: Context, label: str, variant: Variant = "paper", colluders: int = 0) -> Agreement:
    """What is agreed on before a series; its nonce depends on the label."""
    agreement = context.once(
        ("psgd agreement", variant, colluders),
        lambda: agree(
            variant=variant,
            epsilon=EPSILON,
            delta=DELTA,
            lam=LAMBDA,
            sizes=[RECORDS] * PARTIES,
            dimension=FEATURES,
            steps=STEPS,
            loss=Logistic(),
            colluders=colluders,
            fraction_bits=FRACTION_BITS,
            randomness=context.coins("series"),
        ),
    )
    return replace(agreement, series=replace(agreement.series, nonce=context.coins(label, "series").draw(16)))


def _records(context: Context, inputs: str = "honest") -> list[tuple[Array, Array]]:
    generator = np.random.default_rng([context.seed, 8])
    records = []
    for _ in range(PARTIES):
        X = generator.normal(size=(RECORDS, FEATURES))
        X /= np.linalg.norm(X, axis=1).max() * (1 + 1e-9)
        records.append((X, generator.choice([-1.0, 1.0], size=RECORDS)))
    return [records[1], records[0], records[2]] if inputs == "swapped" else records


def _party(context: Context, agreement: Agreement, number: int, inputs: str, coins: Randomness) -> GradientParty:
    X, y = _records(context, inputs)[number]
    key = _world(context).ceremony.signing_keys[number]
    return GradientParty(number, key, X, y, series=agreement.series, randomness=coins)


def _round(context: Context, agreement: Agreement, announcement: Announcement) -> Round:
    ceremony = _world(context).ceremony
    return announcement.round(agreement.series, ceremony.threshold_key, ceremony.roster, test_key=True)


def _walk(
    context: Context,
    label: str,
    answer: Callable[[Announcement, Round, Transcript], tuple[SumRun, dict[int, list[int]]]],
    agreement: Agreement,
) -> list[SumRun]:
    """All steps of one series; the runs share one transcript."""
    transcript = Transcript(secrets=True)
    curator = Curator(agreement, loss=Logistic(), randomness=context.coins(label, "curator"))
    runs = []
    for _ in range(STEPS):
        announcement = curator.announce()
        data = transcript.send("step", "curator", BOARD, "announcement", announcement.encode())
        received = Announcement.decode(data, agreement.series)
        run, vectors = answer(received, _round(context, agreement, received), transcript)
        run.vectors.update(vectors)
        curator.advance(run.opened)
        runs.append(run)
    return runs


def _real(context: Context, variant: Variant = "paper", inputs: str = "honest") -> list[list[SumRun]]:
    def one(i: int) -> list[SumRun]:
        label = f"psgd {variant} {inputs} {i}"
        agreement, world = agreement_of(context, label, variant), _world(context)
        coins = {p: context.coins(label, "party", p) for p in range(PARTIES)}
        parties = [_party(context, agreement, p, inputs, coins[p]) for p in range(PARTIES)]
        records = [OpeningRecord() for _ in world.ceremony.shares]

        def answer(
            announcement: Announcement, round_: Round, transcript: Transcript
        ) -> tuple[SumRun, dict[int, list[int]]]:
            ballots, vectors = [], {}
            for number, party in enumerate(parties):
                encryptor = Encryptor(round_.key, randomness=coins[number], expected=8)
                ballot = party.answer(announcement, round_, encryptor=encryptor)
                ballots.append(transcript.send("cast", f"party {number}", BOARD, "ballot", ballot.encode()))
                plain = [world.private_key.raw_decrypt(c) for c in ballot.ciphertexts]
                vectors[number] = round_.plan.unpack(plain, 1)
            tally = Tally(round_)
            tally.add_all(ballots)
            holders = [StepHolder(s, round_, r) for s, r in zip(world.ceremony.shares, records, strict=True)]
            for holder in holders:
                holder.observe_all(ballots)
            return SumRun(round_, transcript, open_sum(round_, tally, holders, transcript)), vectors

        return _walk(context, label, answer, agreement)

    return context.once(("psgd", variant, inputs), lambda: [one(i) for i in range(context.views)])


def _simulated(context: Context, variant: Variant, members: Members) -> list[list[SumRun]]:
    records = _records(context)
    honest = [p for p in range(PARTIES) if p not in members.parties]

    def one(i: int) -> list[SumRun]:
        label = f"psgd simulated {variant} {members} {i}"
        agreement = agreement_of(context, label, variant)
        series = agreement.series
        generator = np.random.default_rng([context.seed, i, 80])
        own = {p: _party(context, agreement, p, "honest", context.coins(label, p)) for p in members.parties}
        drawn = [_ideal_noise(variant, generator) for _ in honest]

        def answer(
            announcement: Announcement, round_: Round, transcript: Transcript
        ) -> tuple[SumRun, dict[int, list[int]]]:
            vectors = {p: party.vector(announcement.step, announcement.point) for p, party in own.items()}
            point = np.array(announcement.point)
            gradients = [snap(gradient_sum(*records[p], point, SLOPE), series.pitch) for p in honest]
            noise = [steps[announcement.step - 1].tolist() for steps in drawn]
            # The point is public and depends on the sums before: the functionality's, whoever watches.
            sums = ideal_psgd_step([*gradients, *vectors.values()], noise)["curator"]["sum"]

            def ballot(party: int, round_: Round, coins: Randomness) -> Ballot | None:
                if party not in vectors:
                    return None
                encryptor = Encryptor(round_.key, randomness=coins, expected=8)
                return own[party]._party.contribute(
                    round_, "gradients", round_.context, vectors[party], encryptor=encryptor
                )

            run = simulate_sum(
                _world(context),
                round_,
                corrupt_holders=members.holders,
                own_ballot=ballot,
                sums=sums,
                coins=lambda name: context.coins(label, announcement.step, name),
                transcript=transcript,
            )
            return run, vectors

        return _walk(context, label, answer, agreement)

    return context.once(("psgd simulated", variant, members), lambda: [one(i) for i in range(context.views)])


@lru_cache(maxsize=4)
def _agreed_noise(variant: Variant, colluders: int) -> tuple[float, float]:
    """What one party must add, from what was asked for, in lattice units: eta's deviation, rho's scale or variance.

    `paper`: eta of all but the colluders has the deviation of Theorem 4.2 as corrected (finding 8), rho the scale
    2/epsilon by itself. `gaussian`: the Skellam shares of all but the colluders and oneself cover T sums whose L2
    sensitivity is 2. Snapping and rounding add 2^-11 of it at most.
    """
    pitch = 2.0**-FRACTION_BITS
    sensitivity = 2.0  # one record of norm 1 replaced, |phi'| <= 1
    if variant == "gaussian":
        l2 = sensitivity / pitch
        whole = bounds.skellam_variance(EPSILON, DELTA, min(FEATURES**0.5 * l2, l2 * l2), l2, STEPS)
        return 0.0, whole / (PARTIES - colluders - 1)
    slack = bounds.compute_slack(EPSILON, LAMBDA, RECORDS * PARTIES, Logistic().smoothness)
    sigma = bounds.sigma_from_density_ratio(FEATURES, slack.epsilon, DELTA, sensitivity=sensitivity)
    return sigma / (PARTIES - colluders) ** 0.5 / pitch, sensitivity / EPSILON / pitch


def _ideal_noise(variant: Variant, generator: np.random.Generator, colluders: int = 0) -> NDArray[np.int64]:
    """One party's noise in all steps, drawn by numpy: int (T, d), in lattice units."""
    fixed, fresh = _agreed_noise(variant, colluders)
    if variant == "gaussian":
        return np.array([joint_skellam(fresh, FEATURES, 1, 1, generator) for _ in range(STEPS)])
    eta = np.rint(generator.normal(scale=fixed, size=FEATURES)).astype(np.int64)
    rho = [spherical_noise(Fraction(fresh), FEATURES, generator) for _ in range(STEPS)]
    noise: NDArray[np.int64] = eta + np.array(rho)
    return noise


def _extra(members: Members, walks: dict[int, list[SumRun]]) -> Extra:
    def extra(run: SumRun) -> dict[str, float]:
        steps = walks[id(run)]
        told: dict[str, float] = {}
        for step, one in enumerate(steps):
            point = _point(one)
            for place, value in enumerate(point):
                told[f"point {step}, {place}"] = value
            if not members.curator:
                continue
            own = [sum(one.vectors[p][place] for p in members.parties) for place in range(FEATURES)]
            for place, value in enumerate(one.opened.sums):
                told[f"sum {step}, {place}"] = float(value)
                told[f"sum {step}, {place} less own"] = float(value - own[place])
                if step:
                    before = steps[step - 1]
                    told[f"sum {step}, {place} less the one before"] = float(value - before.opened.sums[place])
        return told

    return extra


def _point(run: SumRun) -> tuple[float, ...]:
    """The point of the announcement that the run's round was built from."""
    for message in run.transcript.messages:
        if message.kind == "announcement" and message.data is not None:
            point = struct.unpack(f">{FEATURES}d", message.data[-8 * FEATURES :])
            if _context(message.data) == run.round.context:
                return tuple(map(float, point))
    raise AssertionError("every round here was announced")


def _context(announcement: bytes) -> bytes:
    return hashlib.sha256(b"psephos step\0" + announcement).digest()


def _compare(
    context: Context, left: list[list[SumRun]], right: list[list[SumRun]], members: Members, what: str
) -> Result:
    """The last step's run stands for its walk: all steps share its transcript."""
    walks = {id(walk[-1]): walk for walk in (*left, *right)}
    # Ciphertexts of the last step only: earlier rounds decode under their own digest.
    lefts, rights = ([_last(walk) for walk in side] for side in (left, right))
    walks |= {id(new): walk for new, walk in zip((*lefts, *rights), (*left, *right), strict=True)}
    return compare_views(context, _world(context), lefts, rights, members, what, _extra(members, walks))


def _last(walk: list[SumRun]) -> SumRun:
    """The last step with the messages of that step alone."""
    places = [i for i, m in enumerate(walk[-1].transcript.messages) if m.kind == "announcement"]
    transcript = Transcript(secrets=True)
    transcript.extend(walk[-1].transcript.messages[places[-1] :])
    return replace(walk[-1], transcript=transcript, round=walk[-1].round)


# -- checks


def _noise_law(context: Context, variant: Variant) -> Result:
    """One party's noise in all steps, sized for as many colluders as may be, against the functionality's by numpy."""
    colluders = PARTIES - 2 if variant == "gaussian" else PARTIES - 1  # one's own share counts where eta is drawn
    rows, agreement = 12 * context.views, agreement_of(context, "noise law", variant, colluders)
    generator = np.random.default_rng([context.seed, 81])
    sides: list[list[Array]] = [[], []]
    point = (0.0,) * FEATURES
    clean = snap(gradient_sum(*_records(context)[0], np.array(point), SLOPE), agreement.series.pitch)
    for i in range(rows):
        party = _party(context, agreement, 0, "honest", context.coins("noise law", i))
        drawn = np.array([np.subtract(party.vector(step + 1, point), clean) for step in range(STEPS)])
        for side, noise in zip(sides, (drawn, _ideal_noise(variant, generator, colluders)), strict=True):
            apart = np.diff(noise, axis=0)
            sums = [np.abs(noise).sum(), np.abs(apart).sum()]
            side.append(np.concatenate([noise.ravel(), np.abs(noise).ravel(), apart.ravel(), sums]))
    entries = [f"{step}, {place}" for step in range(1, STEPS + 1) for place in range(FEATURES)]
    names = [f"{what} {entry}" for what in ("noise", "|noise|") for entry in entries]
    names += [f"noise {entry} less the step before" for entry in entries[FEATURES:]]
    names += ["sum of |noise|", "sum of |differences|"]
    found = two_sample(np.array(sides[0]), np.array(sides[1]), rate=context.rate, names=names, seed=context.seed)
    return comparison_result(found, f"one party's noise in {STEPS} steps against its law", rows, len(names))


def _steps(context: Context, variant: Variant) -> Result:
    """A party answers each step once, at one point, and no more than agreed; a holder opens one product of a step."""
    label = "psgd steps"
    agreement, world = agreement_of(context, label, variant), _world(context)
    party = _party(context, agreement, 0, "honest", context.coins(label))
    series = agreement.series

    def announce(step: int, point: tuple[float, ...], nonce: str) -> Announcement:
        return Announcement.create(series, step, point, context.coins(label, nonce))

    first = announce(1, (0.0, 0.0), "first")
    round_ = _round(context, agreement, first)
    ballot = party.answer(first, round_)
    if party.answer(first, round_).encode() != ballot.encode():
        return Result(True, "asked again for the same step, a party sends another ballot: a release nobody paid for")
    for what, again in (
        ("at another point", announce(1, (1.0, 0.0), "b")),
        ("in another round", announce(1, (0.0, 0.0), "c")),
    ):
        try:
            party.answer(again, _round(context, agreement, again))
        except PsephosError:
            continue
        return Result(True, f"a party answered one step twice, {what}")
    beyond = replace(first, step=STEPS + 1)
    try:
        party.answer(beyond, round_)
    except PsephosError:
        pass
    else:
        return Result(True, "a party answered more steps than agreed")
    same, ballots = _ballots(context, variant, "one product")
    _, others = _ballots(context, variant, "one product")  # parties that lost their state: the same round, other noise
    record = OpeningRecord()
    for chosen, allowed in ((ballots, True), (ballots, True), (others, False)):
        holder = StepHolder(world.ceremony.shares[0], same, record)
        holder.observe_all(chosen)
        tally = Tally(same)
        tally.add_all(chosen)
        try:
            holder.partially_decrypt(tally.close())
        except PsephosError:
            if allowed:
                return Result(True, "a holder refused to repeat its opening")
        else:
            if not allowed:
                return Result(True, "a holder opened a second product in one step")
    return Result(False, "a step is answered once and one product of it is opened: the same again, or a refusal")


def _ballots(context: Context, variant: Variant, label: str) -> tuple[Round, list[Ballot]]:
    agreement = agreement_of(context, label, variant)
    announcement = Announcement.create(agreement.series, 1, (0.0,) * FEATURES, context.coins(label, "nonce"))
    round_ = _round(context, agreement, announcement)
    # The noise is the system's: asked twice, it differs.
    parties = [_party(context, agreement, p, "honest", SYSTEM) for p in range(PARTIES)]
    return round_, [party.answer(announcement, round_) for party in parties]


def _threshold(context: Context, variant: Variant, members: Members) -> Result:
    return lowered_threshold(_world(context), [_only(walk[0]) for walk in _real(context, variant)], members)


def _reads_sizes(context: Context, variant: Variant) -> Result:
    """From what is public before the first step: N, and the bound of a gradient, L times the largest size."""
    agreement = agreement_of(context, "sizes", variant)
    largest = round(agreement.series.bound)  # L = 1
    smallest = agreement.records - (PARTIES - 1) * largest
    told = f"N = {agreement.records} and the gradients' bound of {largest} are public: nobody has fewer than {smallest}"
    return Result(largest == smallest == RECORDS, told)


def _coalitions() -> tuple[Coalition, ...]:
    sizes = "public: the noise is sized by them"
    return tuple(
        Coalition(
            name,
            tuple(["curator"] * m.curator + [f"party {p}" for p in m.parties] + [f"holder {h}" for h in m.holders]),
            {"sizes": sizes},
        )
        for name, m in MEMBERS.items()
    )


def _checks(variant: Variant) -> tuple[Check, ...]:
    checks: list[Check] = []
    hidden = ("data", "gradients", "noise")
    for name, m in MEMBERS.items():

        def simulation(context: Context, m: Members = m) -> Result:
            real, simulated = _real(context, variant), _simulated(context, variant, m)
            return _compare(context, real, simulated, m, "real against simulated")

        def swapped(context: Context, m: Members = m) -> Result:
            return _compare(context, _real(context, variant), _real(context, variant, "swapped"), m, "data swapped")

        def steps_fresh(context: Context, m: Members = m) -> Result:
            return fresh([_only(run) for walk in _real(context, variant) for run in walk], m)

        checks.append(Check(f"simulation, {name}", name, hidden, simulation, statistical=True))
        checks.append(Check(f"data swapped, {name}", name, ("data", "gradients"), swapped, statistical=True))
        checks.append(Check(f"freshness, {name}", name, ("gradients",), steps_fresh))
        checks.append(Check(f"sizes read, {name}", name, ("sizes",), partial(_reads_sizes, variant=variant)))
        if m.holders:
            threshold = partial(_threshold, variant=variant, members=m)
            checks.append(Check(f"threshold, {name}", name, ("gradients",), threshold))
    both = "curator and a party, t - 1 holders"
    law, steps = partial(_noise_law, variant=variant), partial(_steps, variant=variant)
    checks.append(Check("noise law", both, ("gradients", "noise"), law, statistical=True))
    checks.append(Check("steps answered once", both, ("gradients",), steps))
    checks.append(
        Check(
            f"deviating requests, {both}",
            both,
            ("gradients",),
            lambda context: deviations(context, _world(context), lambda label: _ballots(context, variant, label)),
        )
    )
    return tuple(checks)


def _only(run: SumRun) -> SumRun:
    """A step's run with its own ballots alone."""
    transcript = Transcript(secrets=True)
    for message in run.transcript.messages:
        if message.kind == "ballot" and message.data is not None and message.data[9:41] == run.round.digest:
            transcript.extend([message])
    return replace(run, transcript=transcript)


PSGD = Case("psgd", SECRETS, _coalitions(), _checks("paper"))
PSGD_GAUSSIAN = Case("psgd-gaussian", SECRETS, _coalitions(), _checks("gaussian"))
