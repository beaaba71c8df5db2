"""Private SGD (Rajkumar 2012): three parties, three steps, three holders of which two open.

Two cases: `psgd` with the paper's noise (eta once, spherical Laplace rho at every step) and `psgd-gaussian`, where
Skellam shares at every step cover the whole transcript and there is no eta.

The functionality walks: at each step it hands the curator the sum of the parties' gradients at the public point plus
the honest parties' noise plus the coalition's own vectors. How much noise that must be is worked out here from epsilon
and delta (`_agreed_noise`), not read from the series. The sizes of the data sets are public.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psephos.curator.psgd import bounds as bounds
from psephos.curator.psgd.agreement import Agreement, Variant, agree
from psephos.curator.tally import OpenedSum
from psephos.parties.gradients import LocalLoss
from psephos.parties.psgd import GradientParty, SeriesHolder
from psephos.protocol.encrypted_sum.messages import Ballot, TallyRequest
from psephos.protocol.encrypted_sum.product import BallotProduct
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.errors import AlreadyCastError, PsephosError, UnexpectedMessageError
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.privacy.mechanisms import snap
from psephos.protocol.psgd.series import Announcement, Terms
from psephos.protocol.randomness import SYSTEM, Randomness
from psephos.protocol.roles import BOARD, Entry, Role
from psephos.protocol.storage.store import OnceLedger
from psephos.protocol.transcript import Message, Transcript
from psephos.security.compare import two_sample
from psephos.security.ideal import ideal_psgd_step, joint_skellam, spherical_noise
from psephos.security.model import Case, Check, Coalition, Context, Result
from psephos.security.simulators import simulate_sum
from psephos.security.sums import Extra, Members, compare_views, comparison_result, deviations, fresh, lowered_threshold
from psephos.security.worlds import Recorded, Setup, SumRun, setup
from psephos.simulation.psgd import PsgdOptions, descend

__all__ = ["PSGD", "PSGD_GAUSSIAN", "agreement_of", "party_of", "real_walks", "terms_of"]

PARTIES, STEPS, FEATURES, RECORDS = 3, 3, 2, 12
SECRETS = ("data", "gradients", "noise", "sizes")
OPTIONS = PsgdOptions(epsilon=2.0, delta=1e-3, lam=0.5, steps=STEPS, fraction_bits=12, test_key=True)

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
        lambda: agree(replace(OPTIONS, variant=variant, colluders=colluders), [RECORDS] * PARTIES, FEATURES),
    )
    return replace(agreement, series=replace(agreement.series, nonce=context.coins(label, "series").draw(16)))


def terms_of(context: Context, agreement: Agreement) -> Terms:
    """The same with the world's keys."""
    ceremony = _world(context).ceremony
    return Terms(agreement.series, ceremony.threshold_key, ceremony.roster, test_key=True)


def _private(context: Context, inputs: str = "honest") -> list[LocalLoss]:
    generator = np.random.default_rng([context.seed, 8])
    private = []
    for _ in range(PARTIES):
        X = generator.normal(size=(RECORDS, FEATURES))
        X /= np.linalg.norm(X, axis=1).max() * (1 + 1e-9)
        private.append(LocalLoss(X, generator.choice([-1.0, 1.0], size=RECORDS)))
    return [private[1], private[0], private[2]] if inputs == "swapped" else private


def party_of(context: Context, agreement: Agreement, number: int, coins: Randomness) -> GradientParty:
    """One honest party by itself."""
    key = _world(context).ceremony.signing_keys[number]
    terms = terms_of(context, agreement)
    encryptor = Encryptor(terms.threshold_key.key, randomness=coins, expected=8)
    local = _private(context)[number]
    return GradientParty(number, key, local, terms, encryptor=encryptor, noise=lambda step: coins)


def _said(announcement: Announcement) -> list[Entry]:
    return [Entry(announcement.step, "curator", BOARD, announcement.encode())]


def real_walks(context: Context, variant: Variant = "paper", inputs: str = "honest") -> list[list[SumRun]]:
    """Runs of the real protocol, each a list of its steps."""

    def one(i: int) -> list[SumRun]:
        label = f"psgd {variant} {inputs} {i}"
        agreement, world = agreement_of(context, label, variant), _world(context)
        transcript = Recorded(context, label)
        walk = descend(OPTIONS, _private(context, inputs), agreement, world.ceremony, transcript=transcript)
        return _by_step(context, agreement, transcript, walk.opened)

    return context.once(("psgd", variant, inputs), lambda: [one(i) for i in range(context.views)])


def _by_step(
    context: Context, agreement: Agreement, transcript: Transcript, opened: Sequence[OpenedSum]
) -> list[SumRun]:
    """The steps of a run, each with its own messages, and what every party's ballot holds."""
    terms, private_key = terms_of(context, agreement), _world(context).private_key
    begins = [place for place, m in enumerate(transcript.messages) if m.kind == "announcement"]
    steps = []
    for found, begin, end in zip(opened, begins, [*begins[1:], None], strict=True):
        messages = transcript.messages[begin:end]
        assert messages[0].data is not None
        round_ = terms.round(Announcement.decode(messages[0].data, terms))
        own = Transcript(secrets=True)
        # The simulator asks one holder after the other, the curator both at once: who is asked first tells nothing.
        own.extend(sorted((replace(m, phase="") for m in messages), key=_order))
        vectors = {}
        for message in messages:
            if message.kind == "ballot" and message.data is not None:
                ballot = Ballot.decode(message.data, round_)
                plain = [private_key.raw_decrypt(c) for c in ballot.ciphertexts]
                vectors[ballot.party] = round_.plan.unpack(plain, 1)
        steps.append(SumRun(round_, own, found, vectors))
    return steps


def _order(message: Message) -> int:
    return ("announcement", "ballot", "tally request", "partial decryption").index(message.kind)


def _simulated(context: Context, variant: Variant, members: Members) -> list[list[SumRun]]:
    private = _private(context)
    honest = [p for p in range(PARTIES) if p not in members.parties]

    def one(i: int) -> list[SumRun]:
        label = f"psgd simulated {variant} {members} {i}"
        agreement, transcript = agreement_of(context, label, variant), Transcript(secrets=True)
        terms, generator = terms_of(context, agreement), np.random.default_rng([context.seed, i, 80])
        own = {p: party_of(context, agreement, p, context.coins(label, p)) for p in members.parties}
        states = {p: party.start().state for p, party in own.items()}
        drawn = [_ideal_noise(variant, generator) for _ in honest]
        point, opened = np.zeros(FEATURES), []
        for step in range(1, STEPS + 1):
            announcement = Announcement.create(
                terms, step, tuple(point.tolist()), context.coins(label, "curator", step)
            )
            transcript.send("step", "curator", BOARD, "announcement", announcement.encode())
            round_, ballots = terms.round(announcement), {}
            for p, party in own.items():
                answered = party.receive(states[p], _said(announcement))
                states[p], ballots[p] = answered.state, Ballot.decode(answered.posts[0].data, round_)
            gradients = [snap(private[p].gradient(point), terms.series.pitch) for p in honest]
            vectors = [own[p].result(states[p]).vector for p in own]
            # The point is public and depends on the sums before: the functionality's, whoever watches.
            noise = [steps[step - 1].tolist() for steps in drawn]
            sums = ideal_psgd_step([*gradients, *vectors], noise)["curator"]["sum"]
            simulate_sum(
                _world(context),
                round_,
                corrupt_holders=members.holders,
                own_ballot=lambda party, round_, coins, ballots=ballots: ballots.get(party),  # type: ignore[misc]
                sums=sums,
                coins=lambda name, step=step: context.coins(label, step, name),  # type: ignore[misc]
                transcript=transcript,
            )
            opened.append(OpenedSum(tuple(sums), tuple(range(PARTIES))))
            point = agreement.descent.step(point, np.array(sums) * terms.series.pitch, step - 1)
        return _by_step(context, agreement, transcript, opened)

    return context.once(("psgd simulated", variant, members), lambda: [one(i) for i in range(context.views)])


@lru_cache(maxsize=4)
def _agreed_noise(variant: Variant, colluders: int) -> tuple[float, float]:
    """What one party must add, from what was asked for, in lattice units: eta's deviation, rho's scale or variance.

    `paper`: eta of all but the colluders has the deviation of Theorem 4.2 as corrected (finding 8), rho the scale
    2/epsilon by itself. `gaussian`: the Skellam shares of all but the colluders and oneself cover T sums whose L2
    sensitivity is 2. Snapping and rounding add 2^-11 of it at most.
    """
    pitch = 2.0**-OPTIONS.fraction_bits
    sensitivity = 2.0  # one record of norm 1 replaced, |phi'| <= 1
    if variant == "gaussian":
        l2 = sensitivity / pitch
        l1 = min(FEATURES**0.5 * l2, l2 * l2)
        whole = bounds.skellam_variance(OPTIONS.epsilon, OPTIONS.delta, l1, l2, STEPS)
        return 0.0, whole / (PARTIES - colluders - 1)
    slack = bounds.compute_slack(OPTIONS.epsilon, OPTIONS.lam, RECORDS * PARTIES, OPTIONS.phi.smoothness)
    sigma = bounds.sigma_from_density_ratio(FEATURES, slack.epsilon, OPTIONS.delta, sensitivity=sensitivity)
    return sigma / (PARTIES - colluders) ** 0.5 / pitch, sensitivity / OPTIONS.epsilon / pitch


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
    """What a coalition knows of a walk besides its messages: the points, and with the curator the sums."""

    def extra(run: SumRun) -> dict[str, float]:
        told: dict[str, float] = {}
        steps = walks[id(run)]
        for step, one in enumerate(steps):
            for place, value in enumerate(_point(one)):
                told[f"point {step}, {place}"] = value
            for place, value in enumerate(one.opened.sums if members.curator else ()):
                told[f"sum {step}, {place}"] = float(value)
                told[f"sum {step}, {place} less own"] = float(
                    value - sum(one.vectors[p][place] for p in members.parties)
                )
                if step:
                    told[f"sum {step}, {place} less the one before"] = float(value - steps[step - 1].opened.sums[place])
        return told

    return extra


def _point(run: SumRun) -> tuple[float, ...]:
    """Of the announcement that a step began with."""
    data = run.transcript.messages[0].data
    assert data is not None
    return tuple(np.frombuffer(data[-8 * FEATURES :], dtype=">f8").tolist())


def _compare(
    context: Context, left: list[list[SumRun]], right: list[list[SumRun]], members: Members, what: str
) -> Result:
    """The last step's messages stand for those of all steps; what was opened is that of all."""
    lefts, rights = ([walk[-1] for walk in side] for side in (left, right))
    walks = {id(walk[-1]): walk for walk in (*left, *right)}
    return compare_views(context, _world(context), lefts, rights, members, what, _extra(members, walks))


# -- checks


def _noise_law(context: Context, variant: Variant) -> Result:
    """One party's noise in all steps, sized for as many colluders as may be, against the functionality's by numpy."""
    colluders = PARTIES - 2 if variant == "gaussian" else PARTIES - 1  # one's own share counts where eta is drawn
    rows, agreement = 12 * context.views, agreement_of(context, "noise law", variant, colluders)
    generator = np.random.default_rng([context.seed, 81])
    sides: list[list[Array]] = [[], []]
    terms = terms_of(context, agreement)
    asked = [Announcement.create(terms, step, (0.0,) * FEATURES) for step in range(1, STEPS + 1)]
    clean = snap(_private(context)[0].gradient(asked[0].point), terms.series.pitch)
    for i in range(rows):
        party = party_of(context, agreement, 0, context.coins("noise law", i))
        state = party.begin().state
        drawn = np.array([np.subtract(party.vector(state, one)[0], clean) for one in asked])
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


def _refuses(role: Role, state: Any, entries: Sequence[Entry], error: type[PsephosError]) -> bool:
    """Whether the role sends nothing, and says why."""
    step = role.receive(state, entries)
    return not step.posts and any(isinstance(refusal.error, error) for refusal in step.refused)


def _steps(context: Context, variant: Variant) -> Result:
    """A party answers the next step, once, at one point; a holder opens one product of one round of a step."""
    label = "psgd steps"
    agreement = agreement_of(context, label, variant)
    terms, party = terms_of(context, agreement), party_of(context, agreement, 0, context.coins(label))
    start = party.start().state

    def announce(step: int, point: tuple[float, ...], nonce: str) -> Announcement:
        return Announcement.create(terms, step, point, context.coins(label, nonce))

    if not _refuses(party, start, _said(announce(STEPS, (9.0, 9.0), "last")), UnexpectedMessageError):
        return Result(True, "a party answered a step before its turn, at whatever point")
    first = announce(1, (0.0, 0.0), "first")
    answered = party.receive(start, _said(first))
    for state in (answered.state, start):
        if party.receive(state, _said(first)).posts != answered.posts:
            return Result(True, "asked again, a party sends another ballot: a release nobody paid for")
        for again in (announce(1, (1.0, 0.0), "b"), announce(1, (0.0, 0.0), "c")):
            if not _refuses(party, state, _said(again), AlreadyCastError):
                return Result(True, f"a party answered one step twice, the second time at {again.point}")
    same, ballots = _ballots(context, variant, "one product")
    _, others = _ballots(context, variant, "one product")  # parties that lost their state: the same round, other noise
    elsewhere, third = _ballots(context, variant, "one product", "another round")
    once = OnceLedger()
    for announcement, chosen in ((same, ballots), (same, ballots)):
        if not _opened(context, agreement_of(context, "one product", variant), announcement, chosen, once):
            return Result(True, "a holder refused to open, or to repeat its opening")
    for announcement, chosen in ((same, others), (elsewhere, third)):
        if _opened(context, agreement_of(context, "one product", variant), announcement, chosen, once):
            return Result(True, "a holder opened a second product in one step")
    return Result(False, "the next step is answered once and one product of it is opened: the same again, or a refusal")


def _opened(
    context: Context, agreement: Agreement, announcement: Announcement, ballots: Sequence[Ballot], once: OnceLedger
) -> bool:
    """Whether a holder with this ledger opens the product of these ballots."""
    terms = terms_of(context, agreement)
    holder = SeriesHolder(_world(context).ceremony.shares[0], terms, once=once)
    board = [Entry(2 + b.party, f"party {b.party}", BOARD, b.encode()) for b in ballots]
    step = holder.receive(holder.start().state, [*_said(announcement), *board])
    product, _ = BallotProduct(terms.round(announcement)).add_all(b.encode() for b in ballots)
    request = TallyRequest(product.round.digest, product.members, product.digest).encode(product.round)
    return bool(holder.receive(step.state, [Entry(99, "curator", holder.name, request)]).posts)


def _ballots(context: Context, variant: Variant, label: str, nonce: str = "nonce") -> tuple[Announcement, list[Ballot]]:
    agreement = agreement_of(context, label, variant)
    terms = terms_of(context, agreement)
    announcement = Announcement.create(terms, 1, (0.0,) * FEATURES, context.coins(label, nonce))
    ballots = []
    for number in range(PARTIES):
        party = party_of(context, agreement, number, SYSTEM)  # asked twice, its noise differs
        (post,) = party.receive(party.start().state, _said(announcement)).posts
        ballots.append(Ballot.decode(post.data, terms.round(announcement)))
    return announcement, ballots


def _round_of(context: Context, variant: Variant, label: str) -> tuple[Round, list[Ballot]]:
    announcement, ballots = _ballots(context, variant, label)
    return terms_of(context, agreement_of(context, label, variant)).round(announcement), ballots


def _threshold(context: Context, variant: Variant, members: Members) -> Result:
    return lowered_threshold(_world(context), [walk[0] for walk in real_walks(context, variant)], members)


def _reads_sizes(context: Context, variant: Variant) -> Result:
    """From what is public before the first step: N, and the bound of a gradient, L times the largest size."""
    agreement = agreement_of(context, "sizes", variant)
    largest = round(agreement.series.bound)  # L = 1
    records = agreement.descent.records
    smallest = records - (PARTIES - 1) * largest
    told = f"N = {records} and the gradients' bound of {largest} are public: nobody has fewer than {smallest}"
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
            real, simulated = real_walks(context, variant), _simulated(context, variant, m)
            return _compare(context, real, simulated, m, "real against simulated")

        def swapped(context: Context, m: Members = m) -> Result:
            return _compare(
                context, real_walks(context, variant), real_walks(context, variant, "swapped"), m, "data swapped"
            )

        def steps_fresh(context: Context, m: Members = m) -> Result:
            return fresh([run for walk in real_walks(context, variant) for run in walk], m)

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
            lambda context: deviations(context, _world(context), lambda label: _round_of(context, variant, label)),
        )
    )
    return tuple(checks)


PSGD = Case("psgd", SECRETS, _coalitions(), _checks("paper"))
PSGD_GAUSSIAN = Case("psgd-gaussian", SECRETS, _coalitions(), _checks("gaussian"))
