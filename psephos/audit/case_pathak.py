"""The analysis of Pathak, Rane and Raj (2010): Charlie and four parties, of which party 2 has the smallest data set.

There is a case for each of `KINDS`: `public-bound`, the default, where the noise is sized for a public number of rows
and there is only the resharing; `repaired`, where it is sized for the smallest party's rung, which a tournament of
comparisons finds; `all-pairs`, the same with all pairs compared; and `printed`, as in the paper, where the smallest
party draws one Laplace variable per entry.

The simulator runs the honest roles with synthetic data: sizes in a random order (the true ones where the coalition has
them by design), parameters of unrelated samples, and noise of its own. It corrects the published share of one honest
party so that the total is the ideal output. What the real view reveals beyond the ideal output then shows as a
difference. The view contains everything that the coalition has keys for: with Charlie's keys the sealed shares, the
answers of comparisons and the masked noise; with the parties' key the masked shares and xi(a); with a party its own
noise, and the published total less that noise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from gmpy2 import mpz
from scipy.stats import binomtest

from psephos.audit.attacks import HARMLESS, SUCCEEDS, Attack, AttackResult, attack_case
from psephos.audit.compare import compare_samples, noise_features
from psephos.audit.matrix import EXPECTED, PATHAK_MEMBERS, pathak_members
from psephos.audit.model import AnalysisContext, Case, Check, CheckResult, Checks, Coalition, Members, case_of
from psephos.audit.pathak_runs import (
    EPSILON,
    FEATURES,
    KINDS,
    LAMBDA,
    PARTIES,
    SIZES,
    SMALLEST,
    MakeObserved,
    ObservedRole,
    ObservedRoles,
    ObservedRun,
    PathakKind,
    ZeroContributionParty,
    add_to_share,
    deviating_roles,
    keys_of,
    made_up_records,
    plain_answer,
    plain_table,
    real_runs,
    records_of,
    run_observed,
    terms_of,
)
from psephos.audit.simulators import ideal_sum, joint_noise
from psephos.audit.view_checks import ViewCiphertext, jacobi, related_randomness
from psephos.curator.pathak.curator import AwaitingAnswers
from psephos.parties.pathak import PartyResharing, PathakParty
from psephos.parties.pathak_noise import noise_share, own_noise
from psephos.protocol.errors import AgreementError, InvalidParameter
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.keys import PublicKey
from psephos.protocol.pathak.comparison import conclude
from psephos.protocol.pathak.messages import (
    KEYED_SIZE_BITS,
    MASK_BITS,
    SHARE_BITS,
    TIE_BITS,
    Answers,
    Ciphertexts,
    IndexedShare,
    LentShare,
    Opponents,
    Proposal,
    Questions,
    Share,
    SizeShare,
    centred,
)
from psephos.protocol.pathak.noise import modulus_bits, noise_addends, noise_bound, noise_plan
from psephos.protocol.pathak.resharing import add_shares
from psephos.protocol.pathak.terms import CURATOR, LEADER, PathakTerms, party_name
from psephos.protocol.permutation import inverse, permute
from psephos.protocol.roles import Entry, Post, Role
from psephos.protocol.transcript import SentMessage
from psephos.protocol.wire import HEADER_BYTES, Kind, kind_of
from psephos.specs.pathak import BARE_SUM

Row = dict[str, float]
IdealOutput = Callable[[ObservedRoles], Sequence[int]]


# -- the simulator


class _Corrector(ObservedRole):
    """An honest party of a simulated run, whose published share is corrected so that the total is the ideal output."""

    def __init__(self, honest: Role, setting: ObservedRoles, ideal_output: IdealOutput, members: Members) -> None:
        super().__init__(honest, setting)
        self.ideal_output, self.members = ideal_output, members

    def send(self, post: Post, seen: Sequence[Entry]) -> Iterable[Post]:
        if kind_of(post.data) is not Kind.PUBLISHED_SHARE:
            return [post]
        terms = self.setting.state(self.name, PartyResharing).terms
        contributions = self.setting.contributions()
        smallest = min(contributions.values(), key=lambda c: c.size)
        if self.members.lying:
            contributions = {n: c for n, c in contributions.items() if n not in self.members.parties}
        added = [smallest.noise[0]]
        if terms.joint:
            rung = terms.rung(smallest.size) if terms.finds_smallest else 0
            added = [c.noise[rung] for c in contributions.values()]
        total = ideal_sum(*(c.parameters for c in contributions.values()), *added)
        return [add_to_share(post, terms, [w - t for w, t in zip(self.ideal_output(self.setting), total, strict=True)])]


def _simulated(context: AnalysisContext, kind: PathakKind, members: Members) -> list[ObservedRun]:
    def make() -> list[ObservedRun]:
        real = real_runs(context, kind)[0]
        honest = [j for j in range(PARTIES) if j not in members.parties]
        summed = honest if members.lying else range(PARTIES)
        parameters = [real.contributions[j].parameters for j in summed]
        runs = []
        for i in range(context.views):
            generator = np.random.default_rng([context.seed, i, 77])
            # The output of the functionality: the sum with the honest parties' noise for the true smallest size.
            released = ideal_sum(*parameters, _ideal_noise(real.terms, len(honest), generator))

            def ideal_output(setting: ObservedRoles, released: Sequence[int] = released) -> Sequence[int]:
                """Return the ideal output, with the coalition's own shares of the noise at the true rung, if any."""
                if not real.terms.joint or members.lying:
                    return released
                rung = real.terms.rung(min(SIZES)) if real.terms.finds_smallest else 0
                own = [setting.contributions()[number].noise[rung] for number in members.parties]
                return ideal_sum(released, *own)

            made_up = list(SIZES) if members.curator and members.parties else [16, 17, 18, 19]
            if not (members.curator and members.parties):
                generator.shuffle(made_up)
            records = [
                records_of(context, "honest")[j]
                if j in members.parties
                else made_up_records(generator, made_up[j], float(generator.uniform(0, 6)))
                for j in range(PARTIES)
            ]
            corrector = partial(_Corrector, ideal_output=ideal_output, members=members)
            replacements: dict[str, MakeObserved] = {party_name(honest[-1]): corrector, **deviating_roles(members)}
            runs.append(run_observed(context, kind, records, f"pathak simulated {kind} {members} {i}", replacements))
        return runs

    # Without a party's inputs the simulation is the same: the curator and the consumer view the same runs.
    both = bool(members.curator and members.parties)
    return context.cached(("pathak simulated", kind, members.parties, members.lying, both), make)


def _ideal_noise(terms: PathakTerms, honest: int, generator: np.random.Generator) -> list[int]:
    """Return the noise that the functionality draws: all of it (printed), or the honest parties' shares."""
    smallest = min(SIZES)
    if terms.variant == "public-bound":
        smallest = terms.smallest_size
    elif terms.variant == "repaired":
        smallest = max(int(rung) for rung in terms.ladder if rung <= smallest)
    record = 2 / (smallest * 2 * LAMBDA)  # L2, of one party's minimiser; objective (2) is 2 lambda-strongly convex
    in_units = 1 / (EPSILON * terms.pitch)
    if terms.variant == "printed":
        paper = PARTIES * 2 / (smallest * LAMBDA)
        return joint_noise(Fraction(paper * in_units), FEATURES, 1, 1, generator)
    snapped = FEATURES**0.5 * record + FEATURES * terms.pitch  # L1, on the grid
    return joint_noise(Fraction(snapped * in_units), FEATURES, honest, PARTIES - terms.excluded, generator)


# -- opening a view


def _open_message(run: ObservedRun, members: Members, message: SentMessage, table: Mapping[mpz, int]) -> Row:
    """Return the features of one received message; `table`: as `plain_table` returns it."""
    content, keys, row = run.opened(message), run.keys, Row()
    zeta, xi = keys.curator, keys.group

    def sealed(name: str, key: PublicKey, c: mpz) -> Row:
        return {name: float(c / key.ciphertext_modulus), f"{name}, Jacobi symbol": jacobi(key, c)}

    match content:
        case SizeShare():
            row = {"a": float(content.share), **sealed("b sealed", zeta.public_key, content.sealed)}
        case IndexedShare():
            row = {
                "b": float(zeta.raw_decrypt(content.sealed) - (1 << SHARE_BITS)),
                **sealed("xi(a)", xi.public_key, content.encrypted),
            }
            if members.parties:
                row["a"] = float(xi.raw_decrypt(content.encrypted))
        case LentShare():
            row["lent"] = float(content.value)
        case Opponents() | Questions():
            row["opponents"] = content.opponents[0]
        case Answers():
            for number, one in enumerate(content.answers):
                plain, zero = plain_answer(keys.comparison, one, table), f"answer {number}, zero at"
                row |= {zero: plain.index(0) if 0 in plain else -1, f"answer {number}, bit": one.bit}
                row |= {f"answer {number}, {which}": plain[at] for which, at in (("first", 0), ("last", -2))}
                row[f"answer {number}, spread"] = float(np.mean(plain[:-1]))
        case Ciphertexts(kind=Kind.MASKED_SHARE):
            row = {"masked a": float(_masked(run, content))}
            row |= sealed("masked a sealed", content.key, content.ciphertexts[0])
        case Ciphertexts(kind=Kind.MASKED_NOISE):
            row |= {f"masked noise {place}": float(value) for place, value in enumerate(_masked_noise(run))}
        case Ciphertexts():
            for place, c in enumerate(content.ciphertexts):
                row |= sealed(f"{content.kind.title} {place}", zeta.public_key, c)
        case Share():
            for place, value in enumerate(content.values):
                row |= {f"share {place}": float(value), f"share {place}, low byte": value & 255}
    return row


def _masked(run: ObservedRun, content: Ciphertexts) -> int:
    return centred(run.keys.group.raw_decrypt(content.ciphertexts[0]), content.key, MASK_BITS)


def _masked_noise(run: ObservedRun) -> list[int]:
    """Return the masked noise eta + s, which Charlie decrypts."""
    ((_, content),) = run.messages(Kind.MASKED_NOISE)
    plaintexts = [run.keys.curator.raw_decrypt(c) for c in content.ciphertexts]
    return noise_plan(run.terms, content.key).unpack(plaintexts, 1)


def _compared_again(run: ObservedRun) -> set[str]:
    """Return the names of the parties that are compared in the second turn of a tournament."""
    return {message.receiver for message, content in run.messages(Kind.QUESTIONS, Kind.OPPONENTS) if content.turn == 1}


def _row(run: ObservedRun, members: Members, table: Mapping[mpz, int]) -> Row:
    """Return the features of the view of one run; a message is named by kind, sender, receiver and number."""
    row, numbers = Row(), Counter[str]()
    for message in run.transcript.messages:
        if message.receiver not in members.names and message.receiver != "board":
            continue
        name = f"{message.kind} from {message.sender} to {message.receiver}"
        numbers[name] += 1
        row[f"{name} #{numbers[name]}, bytes"] = message.size
        for what, value in _open_message(run, members, message, table).items():
            row[f"{name} #{numbers[name]}: {what}"] = value
    for place, value in enumerate(run.total):
        row[f"total {place}"] = float(value)
        for number in members.parties:
            for rung, noise in enumerate(run.contributions[number].noise):
                row[f"total {place} less the noise {rung} of party {number}"] = float(value - noise[place])
    if run.terms.finds_smallest:
        row |= _of_sizes(run, members)
    return row


def _of_sizes(run: ObservedRun, members: Members) -> Row:
    """Return what a coalition would learn of sizes and noise if it knew the permutation that it does not know."""
    row, tournament = Row(), run.terms.comparisons == "tournament"
    if members.parties and not members.curator and tournament:
        # The parties know pi_1: if pi_2 were known, a second comparison would show whose data set was the smaller.
        second_turn, owners = _compared_again(run), inverse(run.order)
        for place in range(PARTIES):
            again = party_name(place) in second_turn if place in members.parties else -1
            row[f"party {owners[place]} compared again, if pi_2 were the identity"] = again
    if members.curator and not members.parties:
        # Charlie knows pi_2: if pi_1 were known, he would know who is smallest, and what follows from the total.
        selection = run.messages(Kind.SELECTION)[0][1].ciphertexts
        row["smallest, if pi_1 were the identity"] = [run.keys.curator.raw_decrypt(c) for c in selection].index(1)
        for place, rank in {} if tournament else dict(enumerate(_ranks(run))).items():
            row[f"rank of party {place}, if pi_1 were the identity"] = rank
        rests = [value - masked for value, masked in zip(run.total, _masked_noise(run), strict=True)]
        row |= {f"total {place} less the masked noise": float(rest) for place, rest in enumerate(rests)}
        row["total less the masked noise, first less second"] = float(rests[0] - rests[1])
    return row


def _ranks(run: ObservedRun) -> list[int]:
    """Return how many data sets are smaller than that at each place of pi_1, which Charlie learns from all pairs."""
    charlie: AwaitingAnswers = run.setting.state(CURATOR, AwaitingAnswers)
    answers = {int(m.sender.split()[1]): content.answers for m, content in run.messages(Kind.ANSWERS)}
    replies = [reply for place in charlie.answering for reply in answers[place]]
    ranks = [0] * PARTIES
    results = conclude(run.keys.comparison, charlie.shares, replies, bits=KEYED_SIZE_BITS)
    for (place, other), larger in zip(charlie.pairs, results, strict=True):
        ranks[place if larger else other] += 1
    return permute(inverse(charlie.permutation), ranks)


def _compare(
    context: AnalysisContext,
    left: Sequence[ObservedRun],
    right: Sequence[ObservedRun],
    members: Members,
    what: str,
    look: Callable[[str], bool] = lambda name: True,
) -> CheckResult:
    table = plain_table(left[0].keys.comparison)
    rows = [[_row(run, members, table) for run in side] for side in (left, right)]
    sides = [[{name: value for name, value in row.items() if look(name)} for row in side] for side in rows]
    return compare_samples(context, sides, what)


# -- freshness and searches


def _freshness(kind: PathakKind, members: Members, context: AnalysisContext) -> CheckResult:
    """Check that no ciphertext that the coalition cannot open is related to another one of its view, in each run."""
    checked = 0
    for run in real_runs(context, kind)[:12]:
        for key, kinds, own_kinds in _sealed_kinds(run, members):
            sealed: list[ViewCiphertext] = []
            own: list[ViewCiphertext] = []
            for message, content in run.messages(*kinds, *own_kinds):
                received = message.receiver in members.names
                sent = message.sender in members.names
                if not received and not sent:
                    continue
                for place, c in enumerate(
                    [content.encrypted] if isinstance(content, IndexedShare) else content.ciphertexts
                ):
                    item = ViewCiphertext(f"{message.kind} {place} of {message.sender}", c)
                    if any(item.value == other.value for other in (*own, *sealed) if item.where == other.where):
                        continue  # a selection reaches every party as the same message
                    (own if sent else sealed).append(item)
            checked += len(sealed)
            relation = related_randomness(key, sealed, own, search=256)
            if relation:
                return CheckResult(True, relation)
    if not checked:
        raise InvalidParameter("this coalition can open everything that it receives: there is nothing to check")
    return CheckResult(False, f"{checked} ciphertexts, each with randomness of its own")


def _sealed_kinds(run: ObservedRun, members: Members) -> list[tuple[PublicKey, tuple[Kind, ...], tuple[Kind, ...]]]:
    zeta, group = run.keys.curator.public_key, run.keys.group.public_key
    if not members.curator:
        # What the parties cannot open, and what Charlie computed from ciphertexts whose randomness they know.
        of_zeta = (Kind.SELECTION, Kind.RUNG_VOTE, Kind.RUNG_SELECTION, Kind.NOISE_FACTOR, Kind.MASKED_NOISE)
        return [(zeta, of_zeta, ()), (group, (Kind.MASKED_SHARE,), (Kind.INDEXED_SHARE,))]
    return [] if members.parties else [(group, (Kind.INDEXED_SHARE,), (Kind.MASKED_SHARE,))]


def _linked_shares(kind: PathakKind, members: Members, context: AnalysisContext) -> CheckResult:
    """Check that a coalition of parties cannot link masked shares to shares that it knows, which would reveal pi_2."""
    pairs = 0
    for run in real_runs(context, kind)[:20]:
        masked = [_masked(run, c) for m, c in run.messages(Kind.MASKED_SHARE) if m.receiver in members.names]
        # Party i knows what it forwards, and so does the party whose share that is.
        owners = inverse(run.order)
        known = {
            run.keys.group.raw_decrypt(content.encrypted)
            for m, content in run.messages(Kind.INDEXED_SHARE)
            if {m.sender, party_name(owners[int(m.sender.split()[1])])} & set(members.names)
        }
        for value in masked:
            for a in known:
                pairs += 1
                if abs(value - a) >> (MASK_BITS - 40) == 0:
                    return CheckResult(True, "a masked share lies so near a share it knows that the mask hides nothing")
        differences = {x - y for x in known for y in known if x != y}
        for i, x in enumerate(masked):
            if any(x - y in differences for y in masked[:i]):
                return CheckResult(True, "two masked shares differ as two shares it knows: one mask was used twice")
    return CheckResult(False, f"{pairs} pairs of a masked share and a known one, none tied")


def _order_of_places(kind: PathakKind, members: Members, context: AnalysisContext) -> CheckResult:
    """Check that pi_1 alone does not predict who wins the first comparison, which needs pi_2."""
    right, runs, place = 0, real_runs(context, kind), members.parties[0]
    for run in runs:
        owners, partner = inverse(run.order), place - 1 if place % 2 else place + 1
        predicted = SIZES[owners[place]] < SIZES[owners[partner]]
        right += predicted == (party_name(place) in _compared_again(run))
    p_value = float(binomtest(right, len(runs), 0.5).pvalue)
    evidence = f"pi_1 alone predicts who is compared again in {right} of {len(runs)} runs, p = {p_value:.2g}"
    return CheckResult(p_value <= context.rate, evidence)


def _exponents(run: ObservedRun, number: int) -> list[list[mpz]]:
    """Return the exponents of a party: for each base, one packed exponent per ciphertext."""
    plan, bound = noise_plan(run.terms, run.keys.curator.public_key), noise_bound(run.terms)
    return [plan.pack([e + bound for e in noise]) for noise in run.contributions[number].noise]


def _jacobi_symbols(kind: PathakKind, context: AnalysisContext) -> CheckResult:
    """Check that the Jacobi symbol of a noise factor is not the one that its bases and the parity of the noise give."""
    agree = factors = 0
    for run in real_runs(context, kind):
        zeta = run.keys.curator.public_key
        for message, content in run.messages(Kind.NOISE_FACTOR):
            number = int(message.sender.split()[1])
            symbols, exponents = [jacobi(zeta, base) for base in run.bases(number)], _exponents(run, number)
            for place, c in enumerate(content.ciphertexts):
                odd = [s for s, packed in zip(symbols, exponents, strict=True) if packed[place] % 2]
                agree += jacobi(zeta, c) == int(np.prod(odd))
                factors += 1
    p_value = float(binomtest(agree, factors, 0.5).pvalue)
    evidence = (
        f"{agree} of {factors} noise factors have the Jacobi symbol that the noise's parity predicts, p = {p_value:.2g}"
    )
    return CheckResult(p_value <= context.rate, evidence)


def _noise_law(kind: PathakKind, context: AnalysisContext) -> CheckResult:
    """Compare the noise of the smallest party (printed), or of the parties that are not excluded, with its law."""
    honest = 1
    terms = replace(terms_of(context, kind, "noise law"), pitch_exponent=-5, largest_size=20, excluded=PARTIES - honest)
    generator = np.random.default_rng([context.seed, 82])
    drawn, real = [], []
    for i in range(12 * context.views):
        coins = context.coins("noise law", i)
        printed = terms.variant == "printed"
        noise = own_noise(terms, min(SIZES), coins) if printed else noise_share(terms, terms.smallest_size, coins)
        real.append(noise_features(noise))
        drawn.append(noise_features(_ideal_noise(terms, honest, generator)))
    whose = "the smallest party's noise" if terms.variant == "printed" else "the share of the one honest party"
    return compare_samples(context, (real, drawn), f"{whose} against the law")


# -- cells


def _reads_sizes(kind: PathakKind, context: AnalysisContext) -> CheckResult:
    run = real_runs(context, kind)[0]
    keyed = {
        m.sender: run.keys.group.raw_decrypt(content.encrypted) + run.keys.curator.raw_decrypt(content.sealed)
        for m, content in run.messages(Kind.INDEXED_SHARE)
    }
    sizes = tuple(keyed[party_name(place)] - (1 << SHARE_BITS) >> TIE_BITS for place in run.order)
    return CheckResult(sizes == SIZES, "with both keys and pi_1 it reads every size")


def _bare(run: ObservedRun) -> list[int]:
    return ideal_sum(*(c.parameters for c in run.contributions.values()))


def _reads_noise(kind: PathakKind, context: AnalysisContext) -> CheckResult:
    """Compute the noise from the masked noise, which Charlie decrypts, and the mask of party 0."""
    run, leader = real_runs(context, kind)[0], party_name(LEADER)
    # Party 0 knows s, which it subtracted from the vector that it shared; Charlie decrypts eta + s.
    sent = [content.values for m, content in run.messages(Kind.RESHARE) if m.sender == leader]
    resharing: PartyResharing = run.setting.state(leader, PartyResharing)
    shared = add_shares([resharing.own_share, *sent], modulus_bits(run.terms))
    # The shares are of its parameters less s, modulo 2^m.
    noise = zip(_masked_noise(run), shared, run.contributions[LEADER].parameters, strict=True)
    differences = [t - (v + c - w) - b for t, (v, c, w), b in zip(run.total, noise, _bare(run), strict=True)]
    read = all(x % (1 << modulus_bits(run.terms)) == 0 for x in differences)
    return CheckResult(read, "the mask taken off what Charlie decrypts is the noise; the bare sum follows")


def _insider(kind: PathakKind, members: Members, context: AnalysisContext) -> CheckResult:
    """Check whether a party obtains the sum without noise by subtracting its own vector from the published total."""
    hits, runs, number = 0, real_runs(context, kind, members=members), members.parties[0]
    for run in runs:
        own = run.contributions[number]
        known_vectors = [[0] * FEATURES, own.parameters] if members.lying else own.noise
        hits += any([t - e for t, e in zip(run.total, known, strict=True)] == _bare(run) for known in known_vectors)
    return CheckResult(
        hits > 0, f"in {hits} of {len(runs)} runs the published total less its own noise is the bare sum"
    )


def _add_checks(checks: Checks, kind: PathakKind, coalition: Coalition, m: Members) -> None:
    name, sizes = coalition.name, ("sizes", "who is smallest")
    known = {*coalition.granted, *coalition.known_leaks}
    hidden = tuple(s for s in EXPECTED[f"pathak-{kind}"].secrets if s not in known)

    def compared(context: AnalysisContext, look: Callable[[str], bool] = lambda name: True) -> CheckResult:
        real, simulated = real_runs(context, kind, members=m), _simulated(context, kind, m)
        return _compare(context, real, simulated, m, "real against simulated", look)

    def exchanged(context: AnalysisContext) -> CheckResult:
        real, other = (real_runs(context, kind, inputs, m) for inputs in ("honest", "exchanged"))
        return _compare(context, real, other, m, "data sets exchanged")

    if coalition.known_leaks:
        # No simulator can make the real view: that is the finding.
        but = partial(compared, look=lambda entry: "total" not in entry)
        checks.add("simulation", name, tuple(coalition.known_leaks), compared, statistical=True)
        checks.add("insider", name, ("noise",), partial(_insider, kind, m))
        checks.add("simulation but for the total", name, hidden, but, statistical=True)
    else:
        checks.add("simulation", name, hidden, compared, statistical=True)
    if not {1, SMALLEST} & set(m.parties) and not known:
        about = ("data", "classifier", "sizes", "who is smallest")
        checks.add("data sets exchanged", name, about, exchanged, statistical=True)
    if kind == "public-bound":
        if m.parties == (SMALLEST,) or m.lying:
            checks.add("insider", name, ("noise",), partial(_insider, kind, m))
        return
    if bool(m.parties) != m.curator:  # other coalitions can open everything, or receive nothing sealed
        sealed = tuple(s for s in ("noise", "sizes") if s in hidden)
        checks.add("freshness", name, sealed, partial(_freshness, kind, m))
    if m.parties and not m.curator:
        checks.add("masked shares", name, sizes, partial(_linked_shares, kind, m))
        if KINDS[kind].get("comparisons") != "all-pairs":  # there no message depends on an order
            checks.add("order of places", name, sizes, partial(_order_of_places, kind, m), statistical=True)
    if "sizes" in coalition.granted:
        checks.add("sizes read", name, sizes, partial(_reads_sizes, kind))
    if "noise" in coalition.granted:
        checks.add("noise read", name, ("noise",), partial(_reads_noise, kind))


def _case(kind: PathakKind) -> Case:
    consumer, leader, smallest = list(PATHAK_MEMBERS)[:3]
    members, checks = pathak_members(kind), Checks()
    for coalition in EXPECTED[f"pathak-{kind}"].coalitions:
        _add_checks(checks, kind, coalition, members[coalition.name])
    law = partial(_noise_law, kind)
    checks.append(Check("noise law", consumer, ("data", "classifier"), law, statistical=True))
    if KINDS[kind]["variant"] == "repaired":
        checks.add("insider", smallest, ("noise",), partial(_insider, kind, PATHAK_MEMBERS[smallest]))
    if kind != "public-bound":
        checks.add("Jacobi symbols", leader, ("noise",), partial(_jacobi_symbols, kind), statistical=True)
    return case_of(f"pathak-{kind}", checks)


PATHAK = tuple(_case(kind) for kind in KINDS)
"""Pathak's protocol, a case for each of `KINDS`."""


# -- liars: whether a role that deviates can remove the noise from the published sum
#
# The protocol has no proofs: a party may submit any vector, and the sum is then that of the others' parameters, their
# noise and a vector that the coalition knows. The others' noise must remain in it. It does when the noise is sized for
# a public number of rows. In the paper's protocol, printed or repaired, a party and Charlie determine whose noise is
# used, and each of them can obtain the sum without noise: the reason why neither variant is the default.

LIAR = 1
"""Number of the party that deviates: neither the leader nor the one with the smallest data set."""

BARE = BARE_SUM.name
SHIFT = (1000, -1000)
"""What a role that deviates adds to the sum, in units of the grid."""


@dataclass(frozen=True)
class _Lies:
    """The roles of a coalition that deviates, and what it knows of the sum, given its honest part of it."""

    replacements: Mapping[str, MakeObserved]
    own: Callable[[Sequence[int]], Sequence[int]] = tuple


def _bare_sum(
    kind: PathakKind, name: str, lies: Callable[[AnalysisContext], _Lies], context: AnalysisContext
) -> AttackResult:
    """Compare the sum of the honest parameters with the published sum less what the coalition knows of it."""
    attack, adversaries = f"{kind}, {name}", lies(context)
    run = run_observed(context, kind, records_of(context, "honest"), attack, adversaries.replacements)
    terms, lying_party = run.terms, party_name(LIAR) in adversaries.replacements
    offset = 0 if kind == "public-bound" else -noise_addends(terms) * noise_bound(terms)
    honest = [c.parameters for number, c in run.contributions.items() if not (lying_party and number == LIAR)]
    part = run.contributions[LIAR]
    noise = part.noise[0] if kind == "public-bound" else (0,) * terms.features
    honest_part = [w + e for w, e in zip(part.parameters, noise, strict=True)]
    own = adversaries.own(honest_part if lying_party else [0] * terms.features)
    rest = [total - sum(column) - known - offset for total, known, *column in zip(run.total, own, *honest, strict=True)]
    if any(rest):
        return AttackResult()
    return AttackResult({BARE: f"{attack}: what is published is the honest parties' parameters, without noise"})


def _shifted(own: Sequence[int]) -> list[int]:
    return [value + shift for value, shift in zip(own, SHIFT, strict=True)]


class _Shifts(ObservedRole):
    """A role that adds `SHIFT` to a share: a party to its reshare for Charlie, Charlie to his published share."""

    def send(self, post: Post, seen: Sequence[Entry]) -> Iterable[Post]:
        kind, charlie = kind_of(post.data), self.name == CURATOR
        if kind is (Kind.PUBLISHED_SHARE if charlie else Kind.RESHARE) and (charlie or post.receiver == CURATOR):
            return [add_to_share(post, self.honest.terms, SHIFT)]  # type: ignore[attr-defined]
        return [post]


def _zeros(kind: Kind, context: AnalysisContext) -> MakeObserved:
    """Return a role whose messages of one kind have encryptions of zero, under Charlie's key, in place of others."""
    full = Encryptor(keys_of(context).curator.public_key, "full")

    class Zeros(ObservedRole):
        def send(self, post: Post, seen: Sequence[Entry]) -> Iterable[Post]:
            if kind_of(post.data) is not kind:
                return [post]
            count = (len(post.data) - HEADER_BYTES) // full.key.ciphertext_bytes
            session = post.data[HEADER_BYTES - 32 : HEADER_BYTES]
            zeros = Ciphertexts(kind, full.key, full.encrypt([mpz(0)] * count))
            return [replace(post, data=zeros.encode(session))]

    return Zeros


def _smallest(make: MakeObserved, honest: Role, setting: ObservedRoles) -> ObservedRole:
    """Make a party that claims the smallest size that the terms allow."""
    liar = PathakParty.__new__(PathakParty)
    assert isinstance(honest, PathakParty)
    liar.__dict__.update(honest.__dict__, _size=honest.terms.smallest_size)
    return make(liar, setting)


def _propose_less_noise(context: AnalysisContext) -> AttackResult:
    """Propose terms with an epsilon of 64 to a party, in Charlie's name."""
    terms = terms_of(context, "public-bound", "proposes")
    proposal = replace(terms, epsilon=64.0)
    party = PathakParty(LIAR, *records_of(context, "honest")[LIAR], terms)
    entry = Entry(1, CURATOR, party.name, Proposal(proposal, None).encode(proposal.digest))
    step = party.receive(party.start().state, [entry])
    gains = {BARE: "a party takes part with less noise than agreed on"} if step.posts else {}
    return AttackResult(gains, tuple(refusal.error for refusal in step.refused))


_Make = Callable[[AnalysisContext], MakeObserved]


def _lies(*roles: tuple[str, _Make], own: Any = tuple) -> Callable[[AnalysisContext], _Lies]:
    return lambda context: _Lies({name: make(context) for name, make in roles}, own)


def _smallest_with_zeros(kind: Kind) -> _Make:
    return lambda context: partial(_smallest, _zeros(kind, context))


_LIAR = party_name(LIAR)
_GIVES_NOTHING: tuple[str, _Make] = (_LIAR, lambda context: ZeroContributionParty)
_SHIFTS: tuple[str, _Make] = (CURATOR, lambda context: _Shifts)


def _attack(kind: PathakKind, name: str, lies: Callable[[AnalysisContext], _Lies]) -> tuple[Attack, ...]:
    expected = HARMLESS if kind == "public-bound" else SUCCEEDS
    return (Attack(name, partial(_bare_sum, kind, name, lies), expected, (BARE_SUM,)),)


_BY_COALITION = (
    _attack("public-bound", "adds nothing", _lies(_GIVES_NOTHING, own=lambda own: [0] * len(own)))
    + _attack("public-bound", "adds what it likes", _lies((_LIAR, lambda context: _Shifts), own=_shifted)),
    (
        *_attack("public-bound", "publishes a wrong share", _lies(_SHIFTS, own=_shifted)),
        Attack("proposes less noise", _propose_less_noise, AgreementError, (BARE_SUM,)),
    ),
    _attack("public-bound", "adds nothing and something", _lies(_GIVES_NOTHING, _SHIFTS, own=lambda own: SHIFT)),
    _attack("repaired", "votes for no rung", _lies((_LIAR, _smallest_with_zeros(Kind.RUNG_VOTE)))),
    _attack("repaired", "selects nobody", _lies((CURATOR, partial(_zeros, Kind.SELECTION)))),
    _attack("printed", "noise of nobody", _lies((_LIAR, _smallest_with_zeros(Kind.NOISE_FACTOR)))),
    _attack("printed", "selects nobody as printed", _lies((CURATOR, partial(_zeros, Kind.SELECTION)))),
)

ATTACKS = tuple(attack for attacks in _BY_COALITION for attack in attacks)
"""All attacks on the averages of Pathak."""

PATHAK_LIARS = attack_case("pathak-liars", _BY_COALITION)
