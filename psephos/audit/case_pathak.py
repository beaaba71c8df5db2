"""The analysis of Pathak, Rane and Raj (2010): Charlie and four parties, of which party 2 has the smallest data set.

The simulator runs the honest roles with synthetic data: sizes in a random order (the true ones where the coalition has
them by design), parameters of unrelated samples, and noise of its own. It corrects the published share of one honest
party so that the total is the ideal output. The view contains everything that the coalition has keys for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from gmpy2 import mpz
from scipy.stats import binomtest

from psephos.audit.adversary import Tampering
from psephos.audit.attacks import HARMLESS, SUCCEEDS, Attack, AttackResult, attack_case
from psephos.audit.compare import ViewAnalysis, compare_noise
from psephos.audit.matrix import EXPECTED, HONEST, PATHAK_MEMBERS, Coalition, Members, pathak_members
from psephos.audit.model import AnalysisContext, Case, Check, CheckResult, Checks, case_of
from psephos.audit.pathak_runs import (
    EPSILON,
    FEATURES,
    KINDS,
    LAMBDA,
    PARTIES,
    SIZES,
    SMALLEST,
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
from psephos.parties.pathak import PathakParty, noise_share, own_noise
from psephos.protocol.errors import AgreementError, InvalidParameter
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.keys import PublicKey
from psephos.protocol.pathak.messages import (
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
from psephos.protocol.pathak.terms import CURATOR, LEADER, PathakTerms, party_name
from psephos.protocol.permutation import inverse
from psephos.protocol.roles import Entry, Post, Role
from psephos.protocol.transcript import SentMessage
from psephos.protocol.wire import HEADER_BYTES, Kind, kind_of
from psephos.specs.pathak import BARE_SUM

Row = dict[str, float]


@dataclass(frozen=True)
class PathakAnalysis(ViewAnalysis):
    """The comparisons of one kind of run."""

    kind: PathakKind

    def real(self, context: AnalysisContext, inputs: str = "honest", members: Members = HONEST) -> list[ObservedRun]:
        return real_runs(context, self.kind, inputs, members if members.lying else HONEST)

    def simulated(self, context: AnalysisContext, members: Members) -> list[ObservedRun]:
        terms, data = terms_of(context, self.kind, "simulated"), records_of(context, "honest")
        honest = [j for j in range(PARTIES) if j not in members.parties]
        summed = honest if members.lying else range(PARTIES)
        parameters = [self.real(context)[0].contributions[j].parameters for j in summed]
        knows_sizes = bool(members.curator and members.parties)

        def one(i: int) -> ObservedRun:
            generator = np.random.default_rng([context.seed, i, 77])
            # The output of the functionality: the sum with the honest parties' noise for the true smallest size.
            released = ideal_sum(*parameters, _ideal_noise(terms, len(honest), generator))
            sizes = list(SIZES) if knows_sizes else [16, 17, 18, 19]
            if not knows_sizes:
                generator.shuffle(sizes)
            records = [
                data[j]
                if j in members.parties
                else made_up_records(generator, sizes[j], float(generator.uniform(0, 6)))
                for j in range(PARTIES)
            ]
            label = f"pathak simulated {self.kind} {members} {i}"
            run = run_observed(context, self.kind, records, label, deviating_roles(members))
            if terms.joint and not members.lying:  # the coalition's own shares of the noise, at the true bucket
                bucket = terms.bucket(min(SIZES)) if terms.finds_smallest else 0
                released = ideal_sum(released, *(run.contributions[n].noise[bucket] for n in members.parties))
            return run.with_total(released, honest[-1])

        # Without a party's inputs the simulation is the same: the curator and the consumer view the same runs.
        key = ("pathak simulated", self.kind, members.parties, members.lying, knows_sizes)
        return context.cached(key, lambda: [one(i) for i in range(context.views)])

    def row(self, context: AnalysisContext, run: ObservedRun, members: Members) -> Iterable[tuple[str, float]]:
        """Yield the features of the view of one run; a message is named by kind, sender, receiver and number."""
        table, numbers = (
            context.cached("pathak table", lambda: plain_table(keys_of(context).comparison)),
            Counter[str](),
        )
        for message in run.transcript.messages:
            if message.receiver not in members.names and message.receiver != "board":
                continue
            name = f"{message.kind} from {message.sender} to {message.receiver}"
            numbers[name] += 1
            yield f"{name} #{numbers[name]}, bytes", message.size
            for what, value in _open_message(run, members, message, table).items():
                yield f"{name} #{numbers[name]}: {what}", value
        for place, value in enumerate(run.total):
            yield f"total {place}", float(value)
            for number in members.parties:
                for bucket, noise in enumerate(run.contributions[number].noise):
                    yield f"total {place} less the noise {bucket} of party {number}", float(value - noise[place])
        if run.terms.finds_smallest:
            yield from _of_sizes(run, members)


def _ideal_noise(terms: PathakTerms, honest: int, generator: np.random.Generator) -> list[int]:
    """Return the noise that the functionality draws: all of it (printed), or the honest parties' shares."""
    smallest = min(SIZES)
    if terms.variant == "public-bound":
        smallest = terms.smallest_size
    elif terms.variant == "repaired":
        smallest = max(int(bucket) for bucket in terms.buckets if bucket <= smallest)
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


def _of_sizes(run: ObservedRun, members: Members) -> Iterator[tuple[str, float]]:
    """Yield what a coalition would learn of sizes and noise if it knew the permutation that it does not know."""
    if members.parties and not members.curator and run.terms.comparisons == "tournament":
        # The parties know pi_1: if pi_2 were known, a second comparison would show whose data set was the smaller.
        second_turn, owners = _compared_again(run), inverse(run.order)
        for place in range(PARTIES):
            again = party_name(place) in second_turn if place in members.parties else -1
            yield f"party {owners[place]} compared again, if pi_2 were the identity", again
    if members.curator and not members.parties:
        # Charlie knows pi_2: if pi_1 were known, he would know who is smallest, and what follows from the total.
        selection = run.messages(Kind.SELECTION)[0][1].ciphertexts
        yield "smallest, if pi_1 were the identity", [run.keys.curator.raw_decrypt(c) for c in selection].index(1)
        rests = [value - masked for value, masked in zip(run.total, _masked_noise(run), strict=True)]
        yield from ((f"total {place} less the masked noise", float(rest)) for place, rest in enumerate(rests))
        yield "total less the masked noise, first less second", float(rests[0] - rests[1])


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
        of_zeta = (Kind.SELECTION, Kind.BUCKET_VOTE, Kind.BUCKET_SELECTION, Kind.NOISE_FACTOR, Kind.MASKED_NOISE)
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
    honest, printed = 1, KINDS[kind]["variant"] == "printed"
    terms = replace(terms_of(context, kind, "noise law"), pitch_exponent=-5, largest_size=20, excluded=PARTIES - honest)
    generator, size = np.random.default_rng([context.seed, 82]), min(SIZES) if printed else terms.smallest_size

    def noise(run: int) -> Sequence[int]:
        return (own_noise if printed else noise_share)(terms, size, context.coins("noise law", run))

    whose = "the smallest party's noise" if printed else "the share of the one honest party"
    ideal = partial(_ideal_noise, terms, honest, generator)
    return compare_noise(context, noise, ideal, f"{whose} against the law")


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
    # Party 0 subtracted the mask s from the vector that it shared; Charlie decrypts eta + s. The share that it kept is
    # what it published less what it received.
    shares = [(m, content.values) for m, content in run.messages(Kind.RESHARE, Kind.PUBLISHED_SHARE)]
    published = [v for m, v in shares if m.sender == leader]  # its reshares too, which it sent
    received = [v for m, v in shares if m.receiver == leader]
    shared = np.subtract(np.sum(np.array(published, object), axis=0), np.sum(np.array(received, object), axis=0))
    # The shares are of its parameters less s, modulo 2^m.
    noise = zip(_masked_noise(run), shared, run.contributions[LEADER].parameters, strict=True)
    differences = [t - (v + c - w) - b for t, (v, c, w), b in zip(run.total, noise, _bare(run), strict=True)]
    read = all(x % (1 << modulus_bits(run.terms)) == 0 for x in differences)
    return CheckResult(read, "the mask taken off what Charlie decrypts is the noise; the bare sum follows")


def _insider(kind: PathakKind, members: Members, context: AnalysisContext) -> CheckResult:
    """Check whether a party obtains the sum without noise by subtracting its own vector from the published total."""
    hits, number = 0, members.parties[0]
    runs = real_runs(context, kind, members=members if members.lying else HONEST)
    for run in runs:
        own = run.contributions[number]
        known_vectors = [[0] * FEATURES, own.parameters] if members.lying else own.noise
        hits += any([t - e for t, e in zip(run.total, known, strict=True)] == _bare(run) for known in known_vectors)
    return CheckResult(
        hits > 0, f"in {hits} of {len(runs)} runs the published total less its own noise is the bare sum"
    )


def _add_checks(checks: Checks, kind: PathakKind, coalition: Coalition, m: Members) -> None:
    name, sizes, analysis = coalition.name, ("sizes", "who is smallest"), PathakAnalysis(kind)
    known = {*coalition.granted, *coalition.known_leaks}
    hidden = tuple(s for s in EXPECTED[f"pathak-{kind}"].secrets if s not in known)
    simulation, insider = partial(analysis.simulation, m), partial(_insider, kind, m)
    if coalition.known_leaks:
        # No simulator can make the real view: that is the finding.
        but = partial(simulation, look=lambda entry: "total" not in entry)
        checks.add("simulation", name, tuple(coalition.known_leaks), simulation, statistical=True)
        checks.add("simulation but for the total", name, hidden, but, statistical=True)
    else:
        checks.add("simulation", name, hidden, simulation, statistical=True)
    if m.parties == (SMALLEST,) or m.lying:
        checks.add("insider", name, ("noise",), insider)
    if not {1, SMALLEST} & set(m.parties) and not known:
        exchanged = partial(analysis.same_output, m, "honest", "exchanged", "data sets exchanged")
        about = ("data", "classifier", "sizes", "who is smallest")
        checks.add("data sets exchanged", name, about, exchanged, statistical=True)
    if kind == "public-bound":
        return
    if bool(m.parties) != m.curator:  # other coalitions can open everything, or receive nothing sealed
        sealed = tuple(s for s in ("noise", "sizes") if s in hidden)
        checks.add("freshness", name, sealed, partial(_freshness, kind, m))
    if m.parties and not m.curator:
        checks.add("masked shares", name, sizes, partial(_linked_shares, kind, m))
        if KINDS[kind].get("comparisons") != "all-pairs":  # there no message depends on an order
            checks.add("order of places", name, sizes, partial(_order_of_places, kind, m), statistical=True)
        if m.parties == (LEADER,):
            checks.add("Jacobi symbols", name, ("noise",), partial(_jacobi_symbols, kind), statistical=True)
    if "sizes" in coalition.granted:
        checks.add("sizes read", name, sizes, partial(_reads_sizes, kind))
    if "noise" in coalition.granted:
        checks.add("noise read", name, ("noise",), partial(_reads_noise, kind))


def _case(kind: PathakKind) -> Case:
    checks, members = Checks(), pathak_members(kind)
    for coalition in EXPECTED[f"pathak-{kind}"].coalitions:
        _add_checks(checks, kind, coalition, members[coalition.name])
    law, consumer = partial(_noise_law, kind), next(iter(PATHAK_MEMBERS))
    checks.append(Check("noise law", consumer, ("data", "classifier"), law, statistical=True))
    return case_of(f"pathak-{kind}", checks)


PATHAK = tuple(map(_case, KINDS))
"""Pathak's protocol, a case for each of `KINDS`."""


# -- liars: whether a role that deviates can remove the noise from the published sum
#
# The protocol has no proofs: a party may submit any vector, and the sum is then that of the others' parameters, their
# noise and a vector that the coalition knows. The others' noise must remain in it. It does when the noise is sized for
# a public number of rows. In the paper's protocol, printed or repaired, a party and Charlie determine whose noise is
# used, and each of them can obtain the sum without noise: the reason why neither variant is the default.

LIAR = 1
"""Number of the party that deviates: neither the leader nor the one with the smallest data set."""

SHIFT = (1000, -1000)
"""What a role that deviates adds to the sum, in units of the grid."""

Lie = Callable[[AnalysisContext, Any], Role]
"""(context, honest role) -> the role that replaces it."""


def _bare_sum(kind: PathakKind, attack: str, lies: Mapping[str, Lie], context: AnalysisContext) -> AttackResult:
    """Check whether the published sum, less what the coalition may know of it, is that of the honest parameters."""
    name, roles = f"{kind}, {attack}", {who: partial(lie, context) for who, lie in lies.items()}
    run = run_observed(context, kind, records_of(context, "honest"), name, roles)
    own = run.contributions.pop(LIAR) if party_name(LIAR) in lies else None
    known = [[0] * FEATURES]
    if own is not None:
        noise = own.noise[0] if kind == "public-bound" else known[0]
        known.append(ideal_sum(own.parameters, noise))
    # Encryptions of zero in place of packed noise take the bound off the sum, which everybody knows.
    offset = 0 if kind == "public-bound" else -noise_addends(run.terms) * noise_bound(run.terms)
    rest = [total - bare - offset for total, bare in zip(run.total, _bare(run), strict=True)]
    if rest not in [ideal_sum(part, shift) for part, shift in product(known, ([0] * FEATURES, SHIFT))]:
        return AttackResult()
    return AttackResult({BARE_SUM.name: f"{name}: what is published is the honest parties' parameters, without noise"})


def _gives_nothing(context: AnalysisContext, honest: Role) -> Role:
    return ZeroContributionParty(honest)


def _shifts(context: AnalysisContext, honest: Any) -> Role:
    """Add `SHIFT` to a share: a party to its reshare for Charlie, Charlie to his published share."""
    charlie = honest.name == CURATOR

    def change(post: Post, seen: Sequence[Entry]) -> list[Post]:
        changed = kind_of(post.data) is (Kind.PUBLISHED_SHARE if charlie else Kind.RESHARE)
        if not changed or not (charlie or post.receiver == CURATOR):
            return [post]
        return [replace(post, data=add_to_share(post.data, honest.terms, SHIFT))]

    return Tampering(honest, change)


def _zeros(kind: Kind, context: AnalysisContext, honest: Role) -> Role:
    """Send encryptions of zero, under Charlie's key, in the messages of one kind."""
    full = Encryptor(keys_of(context).curator.public_key, "full")

    def change(post: Post, seen: Sequence[Entry]) -> list[Post]:
        if kind_of(post.data) is not kind:
            return [post]
        count = (len(post.data) - HEADER_BYTES) // full.key.ciphertext_bytes
        zeros = Ciphertexts(kind, full.key, full.encrypt([mpz(0)] * count))
        return [replace(post, data=zeros.encode(post.data[HEADER_BYTES - 32 : HEADER_BYTES]))]

    return Tampering(honest, change)


def _smallest_with_zeros(kind: Kind, context: AnalysisContext, honest: Any) -> Role:
    """Claim the smallest size that the terms allow, and send zeros."""
    liar = copy(honest)
    liar._size = honest.terms.smallest_size
    return _zeros(kind, context, liar)


def _propose_less_noise(context: AnalysisContext) -> AttackResult:
    """Propose terms with an epsilon of 64 to a party, in Charlie's name."""
    terms = terms_of(context, "public-bound", "proposes")
    proposal = replace(terms, epsilon=64.0)
    party = PathakParty(LIAR, *records_of(context, "honest")[LIAR], terms)
    entry = Entry(1, CURATOR, party.name, Proposal(proposal, None).encode(proposal.digest))
    step = party.receive(party.start().state, [entry])
    gains = {BARE_SUM.name: "a party takes part with less noise than agreed on"} if step.posts else {}
    return AttackResult(gains, tuple(refusal.error for refusal in step.refused))


_LIAR = party_name(LIAR)
_SELECTS_NOBODY: dict[str, Lie] = {CURATOR: partial(_zeros, Kind.SELECTION)}
_LIES: tuple[tuple[PathakKind, str, dict[str, Lie]], ...] = (
    ("public-bound", "adds nothing", {_LIAR: _gives_nothing}),
    ("public-bound", "adds what it likes", {_LIAR: _shifts}),
    ("public-bound", "publishes a wrong share", {CURATOR: _shifts}),
    ("public-bound", "adds nothing and something", {_LIAR: _gives_nothing, CURATOR: _shifts}),
    ("repaired", "votes for no bucket", {_LIAR: partial(_smallest_with_zeros, Kind.BUCKET_VOTE)}),
    ("repaired", "selects nobody", _SELECTS_NOBODY),
    ("printed", "noise of nobody", {_LIAR: partial(_smallest_with_zeros, Kind.NOISE_FACTOR)}),
    ("printed", "selects nobody as printed", _SELECTS_NOBODY),
)
"""The variant, the name of the attack, and the roles that lie."""

_ADDS, _LIKES, _WRONG, _BOTH, *_STRIPPING = (
    Attack(
        name,
        partial(_bare_sum, kind, name, lies),
        HARMLESS if kind == "public-bound" else SUCCEEDS,
        (BARE_SUM,),
    )
    for kind, name, lies in _LIES
)
_PROPOSES = Attack("proposes less noise", _propose_less_noise, AgreementError, (BARE_SUM,))
_BY_COALITION = ((_ADDS, _LIKES), (_WRONG, _PROPOSES), (_BOTH,), *((attack,) for attack in _STRIPPING))

ATTACKS = tuple(attack for attacks in _BY_COALITION for attack in attacks)
"""All attacks on the averages of Pathak."""

PATHAK_LIARS = attack_case("pathak-liars", _BY_COALITION)
