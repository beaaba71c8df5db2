"""The analysis of Pathak, Rane and Raj (2010): Charlie and four parties, of which party 2 has the smallest data set.

The simulator runs the honest roles with synthetic data: sizes in a random order (the true ones where the coalition has
them by design), parameters of unrelated samples, and noise of its own. It corrects the published share of one honest
party so that the total is the ideal output. The view contains everything that the coalition has keys for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, partial
from itertools import product
from typing import Any

import gmpy2
import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray
from scipy.stats import binomtest

from psephos.audit.adversary import Replacements, Tampering
from psephos.audit.attacks import HARMLESS, SUCCEEDS, Attack, AttackResult, attack_case
from psephos.audit.compare import Sealed, ViewAnalysis, compare_noise
from psephos.audit.matrix import EXPECTED, HONEST, PATHAK_MEMBERS, SMALLEST, Members, pathak_members
from psephos.audit.model import AnalysisContext, Case, Check, CheckResult, Checks, case_of
from psephos.audit.settings import RecordedTranscript
from psephos.audit.simulators import ideal_sum, joint_noise
from psephos.audit.view_checks import ViewCiphertext, jacobi
from psephos.parties.pathak import Contribution, PathakParty, noise_share, own_noise
from psephos.protocol.errors import AgreementError, MessageError
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.keys import PublicKey
from psephos.protocol.paillier.private_key import generate_private_key
from psephos.protocol.pathak.comparison import Answer
from psephos.protocol.pathak.dgk import DgkPrivateKey, generate_dgk_key
from psephos.protocol.pathak.messages import (
    KEYED_SIZE_BITS,
    MASK_BITS,
    SHARE_BITS,
    TIE_BITS,
    Answers,
    Ciphertexts,
    GroupKey,
    GroupSecret,
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
from psephos.protocol.roles import BOARD, Entry, Post, Role, Step
from psephos.protocol.transcript import SentMessage, Transcript
from psephos.protocol.wire import HEADER_BYTES, Kind, kind_of
from psephos.simulation.pathak import PathakKeys, run_protocol
from psephos.specs.pathak import BARE_SUM, make_terms

PARTIES, FEATURES = 4, 2
SIZES = (24, 30, 17, 20)
"""Number of records of parties 0 to 3."""
LAMBDA, EPSILON = 0.1, 1.0

KINDS: dict[str, dict[str, Any]] = {
    "public-bound": {"variant": "public-bound"},
    "repaired": {"variant": "repaired"},
    "all-pairs": {"variant": "repaired", "comparisons": "all-pairs"},
    "printed": {"variant": "printed", "comparisons": "all-pairs"},
}
"""What differs between the terms of the cases: the variant and the comparisons."""

Records = tuple[NDArray[np.float64], NDArray[np.int64]]
"""A party's samples, float64 (n, d), and class numbers, int64 (n,)."""


def add_to_share(data: bytes, terms: PathakTerms, by: Sequence[int]) -> bytes:
    """Return a message with a share to which a vector has been added modulo 2^m."""
    share = Share.decode(data, kind_of(data), terms)
    values = tuple((v + b) % (1 << share.bits) for v, b in zip(share.values, by, strict=True))
    return replace(share, values=values).encode(terms.digest)


class ZeroContributionParty(Tampering):
    """A party that subtracts its parameters and its noise from the first share it sends."""

    def observe(self, step: Step) -> None:
        self._latest = step.state

    def send(self, post: Post, seen: Sequence[Entry]) -> Iterable[Post]:
        if kind_of(post.data) is not Kind.RESHARE or post.receiver != CURATOR:
            return [post]
        own = self.honest.result(self._latest)
        change = [-w - e for w, e in zip(own.parameters, own.noise[0], strict=True)]
        return [replace(post, data=add_to_share(post.data, self.honest.terms, change))]  # type: ignore[attr-defined]


@dataclass(frozen=True)
class ObservedRun:
    terms: PathakTerms
    keys: PathakKeys = field(repr=False)
    transcript: Transcript
    contributions: dict[int, Contribution] = field(repr=False)
    total: tuple[int, ...] = field(repr=False)

    @cached_property
    def contents(self) -> list[tuple[SentMessage, Any]]:
        return [(message, decoded(self.terms, self.keys, message)) for message in self.transcript.messages]

    def messages(self, *kinds: Kind) -> list[tuple[SentMessage, Any]]:
        titles = {kind.title for kind in kinds}
        return [(message, content) for message, content in self.contents if message.kind in titles]

    @property
    def order(self) -> tuple[int, ...]:
        """The permutation pi_1, which every party knows."""
        secret: GroupSecret = self.messages(Kind.GROUP_SECRET)[0][1]
        return secret.permutation

    def bases(self, number: int) -> Sequence[mpz]:
        """Return the ciphertexts that a party raises to the powers of its noise."""
        if self.terms.joint:
            return self.messages(Kind.BUCKET_SELECTION)[0][1].ciphertexts  # type: ignore[no-any-return]
        return [self.messages(Kind.SELECTION)[0][1].ciphertexts[self.order[number]]]

    def with_total(self, total: Sequence[int], number: int) -> ObservedRun:
        """Return the run in which a party published the share with which the total is another one."""
        change = [new - old for new, old in zip(total, self.total, strict=True)]
        messages = self.transcript.messages
        published = (Kind.PUBLISHED_SHARE.title, party_name(number))
        for place, message in enumerate(messages):
            if (message.kind, message.sender) == published and message.data is not None:
                messages[place] = replace(message, data=add_to_share(message.data, self.terms, change))
        return replace(self, total=tuple(total))


def decoded(terms: PathakTerms, keys: PathakKeys, message: SentMessage) -> Any:
    """Return the content of a message as its receiver decodes it. Raises MessageError, and what the decoders raise."""
    data = message.data
    assert data is not None
    kind, turn = kind_of(data), int.from_bytes(data[HEADER_BYTES:][:1], "big")
    zeta, xi, dgk = keys.curator.public_key, keys.group.public_key, keys.comparison.public_key
    owner = int(message.receiver.split()[-1]) if message.receiver.startswith("party") else -1
    places = noise_plan(terms, zeta).ciphertexts
    counts = {
        Kind.SELECTION: terms.parties,
        Kind.BUCKET_VOTE: len(terms.buckets),
        Kind.BUCKET_SELECTION: len(terms.buckets),
        Kind.NOISE_FACTOR: places,
        Kind.MASKED_NOISE: places,
    }
    answers = (len(data) - HEADER_BYTES) // Answer.encoded_length(dgk, KEYED_SIZE_BITS)
    readers: dict[Kind, Callable[[], Any]] = {
        Kind.PROPOSAL: lambda: Proposal.decode(data, test_key=True),
        Kind.GROUP_SECRET: lambda: GroupSecret.decode(data, terms, test_key=True),
        Kind.GROUP_KEY: lambda: GroupKey.decode(data, terms, test_key=True),
        Kind.SIZE_SHARE: lambda: SizeShare.decode(data, terms, zeta),
        Kind.INDEXED_SHARE: lambda: IndexedShare.decode(data, terms, xi, zeta, message.sender),
        Kind.MASKED_SHARE: lambda: Ciphertexts.decode(data, kind, terms, xi, 1),
        Kind.QUESTIONS: lambda: Questions.decode(data, terms, owner, dgk),
        Kind.OPPONENTS: lambda: Opponents.decode(data, terms, owner),
        Kind.LENT_SHARE: lambda: LentShare.decode(data, terms, turn),
        Kind.ANSWERS: lambda: Answers.decode(data, terms, turn, dgk, answers),
        Kind.RESHARE: lambda: Share.decode(data, kind, terms),
        Kind.PUBLISHED_SHARE: lambda: Share.decode(data, kind, terms),
        **dict.fromkeys(counts, lambda: Ciphertexts.decode(data, kind, terms, zeta, counts[kind])),
    }
    if kind not in readers:
        raise MessageError(f"Pathak's protocol has no message of the kind {kind.title!r}")
    return readers[kind]()


def keys_of(context: AnalysisContext) -> PathakKeys:
    def make() -> PathakKeys:
        zeta, comparison, xi = (context.coins(name) for name in ("zeta", "comparison key", "xi"))
        return PathakKeys(
            generate_private_key(384, test_key=True, randomness=zeta),
            generate_dgk_key(256, comparison_bits=KEYED_SIZE_BITS, test_key=True, randomness=comparison),
            generate_private_key(384, test_key=True, randomness=xi),
        )

    return context.cached("pathak keys", make)


def plain_table(key: DgkPrivateKey) -> dict[mpz, int]:
    """Return c^(v_p) mod p -> plaintext, for each plaintext: with this table the owner of the key decrypts."""
    p, v, public = key._p, key._v_p, key.public_key
    base = gmpy2.powmod(public.g, v, p)
    table, power = {}, mpz(1)
    for m in range(public.u):
        table[power] = m
        power = power * base % p
    return table


def made_up_records(generator: np.random.Generator, size: int, turn: float) -> Records:
    X = generator.normal(size=(size, FEATURES))
    X /= np.linalg.norm(X, axis=1).max() * (1 + 1e-9)
    y = (X @ np.array([np.cos(turn), np.sin(turn)]) > 0).astype(np.int64)
    y[:2] = (0, 1)
    return X, y


def records_of(context: AnalysisContext, inputs: str) -> list[Records]:
    """Return every party's records; with `inputs` "exchanged" parties 1 and 2 have exchanged theirs."""
    records = [made_up_records(np.random.default_rng([context.seed, j]), n, j) for j, n in enumerate(SIZES)]
    return [records[j] for j in (0, 2, 1, 3)] if inputs == "exchanged" else records


def terms_of(context: AnalysisContext, kind: str, label: str) -> PathakTerms:
    """Return the terms of the runs of one kind; `label` names the coins of the nonce."""
    return make_terms(
        parties=PARTIES,
        features=FEATURES,
        lam=LAMBDA,
        epsilon=EPSILON,
        tolerance=1e-6,
        smallest_size=16,
        largest_size=32,
        **KINDS[kind],
        randomness=context.coins(label, "terms"),
    )


def run_observed(
    context: AnalysisContext, kind: str, records: Sequence[Records], label: str, roles: Replacements
) -> ObservedRun:
    transcript, terms = RecordedTranscript(partial(context.coins, label)), terms_of(context, kind, label)
    keys = keys_of(context)
    needed = keys if terms.finds_smallest else None
    run = run_protocol(records, terms, needed, test_key=True, transcript=transcript, roles=roles)
    contributions = {int(name.split()[1]): own for name, own in run.contributions.items()}
    return ObservedRun(terms, keys, transcript, contributions, run.total)


def deviating_roles(members: Members) -> Replacements:
    return {party_name(number): ZeroContributionParty for number in members.parties} if members.lying else {}


# -- the analysis

Row = dict[str, float]


@dataclass(frozen=True)
class PathakAnalysis(ViewAnalysis):
    """The comparisons of one kind of run."""

    kind: str

    def run(self, context: AnalysisContext, number: int, inputs: str, members: Members) -> ObservedRun:
        roles = deviating_roles(members)
        label = f"pathak {self.kind} {inputs} {sorted(roles)} {number}"
        return run_observed(context, self.kind, records_of(context, inputs), label, roles)

    def simulated(self, context: AnalysisContext, members: Members) -> list[ObservedRun]:
        # Without a party's inputs the simulation is the same: the curator and the consumer view the same runs.
        return super().simulated(context, members if members.parties else HONEST)

    def simulate(self, context: AnalysisContext, number: int, members: Members) -> ObservedRun:
        terms, data = terms_of(context, self.kind, "simulated"), records_of(context, "honest")
        honest = [j for j in range(PARTIES) if j not in members.parties]
        summed = honest if members.lying else range(PARTIES)
        parameters = [self.real(context)[0].contributions[j].parameters for j in summed]
        generator = np.random.default_rng([context.seed, number, 77])
        # The output of the functionality: the sum with the honest parties' noise for the true smallest size.
        released = ideal_sum(*parameters, _ideal_noise(terms, len(honest), generator))
        sizes = list(SIZES)
        if not (members.curator and members.parties):  # who do not know them
            sizes = [16, 17, 18, 19]
            generator.shuffle(sizes)
        records = [
            data[j] if j in members.parties else made_up_records(generator, sizes[j], float(generator.uniform(0, 6)))
            for j in range(PARTIES)
        ]
        label = f"pathak simulated {self.kind} {members} {number}"
        run = run_observed(context, self.kind, records, label, deviating_roles(members))
        if terms.joint and not members.lying:  # the coalition's own shares of the noise, at the true bucket
            bucket = terms.bucket(min(SIZES)) if terms.finds_smallest else 0
            released = ideal_sum(released, *(run.contributions[n].noise[bucket] for n in members.parties))
        return run.with_total(released, honest[-1])

    def row(self, context: AnalysisContext, run: ObservedRun, members: Members) -> Iterable[tuple[str, float]]:
        """Yield the features of the view of one run; a message is named by kind, sender, receiver and number."""
        table = context.cached("pathak table", lambda: plain_table(keys_of(context).comparison))
        numbers, receivers = Counter[str](), {BOARD, *members.names}
        for message, content in run.contents:
            if message.receiver not in receivers:
                continue
            name = f"{message.kind} from {message.sender} to {message.receiver}"
            numbers[name] += 1
            yield f"{name} #{numbers[name]}, bytes", message.size
            for what, value in _features(run, members, content, table).items():
                yield f"{name} #{numbers[name]}: {what}", value
        for place, value in enumerate(run.total):
            yield f"total {place}", float(value)
            for number in members.parties:
                for bucket, noise in enumerate(run.contributions[number].noise):
                    yield f"total {place} less the noise {bucket} of party {number}", float(value - noise[place])
        if run.terms.finds_smallest:
            yield from _of_sizes(run, members)

    def sealed(self, run: ObservedRun, members: Members) -> Iterator[tuple[PublicKey, Sealed, Sealed]]:
        zeta, group = run.keys.curator.public_key, run.keys.group.public_key
        keyed: list[tuple[PublicKey, tuple[Kind, ...], tuple[Kind, ...]]] = []
        if not members.curator:
            # What the parties cannot open, and what Charlie computed from ciphertexts whose randomness they know.
            of_zeta = (Kind.SELECTION, Kind.BUCKET_VOTE, Kind.BUCKET_SELECTION, Kind.NOISE_FACTOR, Kind.MASKED_NOISE)
            keyed = [(zeta, of_zeta, ()), (group, (Kind.MASKED_SHARE,), (Kind.INDEXED_SHARE,))]
        elif not members.parties:
            keyed = [(group, (Kind.INDEXED_SHARE,), (Kind.MASKED_SHARE,))]
        for key, kinds, own_kinds in keyed:
            # A selection reaches every party as the same message.
            sealed, own = dict[ViewCiphertext, None](), dict[ViewCiphertext, None]()
            for message, content in run.messages(*kinds, *own_kinds):
                if not {message.receiver, message.sender} & set(members.names):
                    continue
                ciphertexts = [content.encrypted] if isinstance(content, IndexedShare) else content.ciphertexts
                for place, c in enumerate(ciphertexts):
                    item = ViewCiphertext(f"{message.kind} {place} of {message.sender}", c)
                    (own if message.sender in members.names else sealed)[item] = None
            yield key, [*sealed], [*own]

    # -- checks of its own

    def linked_shares(self, members: Members, context: AnalysisContext) -> CheckResult:
        """Check that a coalition of parties cannot link masked shares to ones that it knows, which reveals pi_2."""
        pairs = 0
        for run in self.real(context)[:20]:
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
                        return CheckResult(True, "a masked share is so near one it knows that the mask hides nothing")
            differences = {x - y for x in known for y in known if x != y}
            for i, x in enumerate(masked):
                if any(x - y in differences for y in masked[:i]):
                    return CheckResult(True, "two masked shares differ as two shares it knows: one mask was used twice")
        return CheckResult(False, f"{pairs} pairs of a masked share and a known one, none tied")

    def order_of_places(self, members: Members, context: AnalysisContext) -> CheckResult:
        """Check that pi_1 alone does not predict who wins the first comparison, which needs pi_2."""
        right, runs, place = 0, self.real(context), members.parties[0]
        for run in runs:
            owners, partner = inverse(run.order), place - 1 if place % 2 else place + 1
            predicted = SIZES[owners[place]] < SIZES[owners[partner]]
            right += predicted == (party_name(place) in _compared_again(run))
        p_value = float(binomtest(right, len(runs), 0.5).pvalue)
        evidence = f"pi_1 alone predicts who is compared again in {right} of {len(runs)} runs, p = {p_value:.2g}"
        return CheckResult(p_value <= context.rate, evidence)

    def jacobi_symbols(self, context: AnalysisContext) -> CheckResult:
        """Check that the Jacobi symbol of a noise factor does not follow from its bases and the noise's parity."""
        agree = factors = 0
        for run in self.real(context):
            zeta = run.keys.curator.public_key
            for message, content in run.messages(Kind.NOISE_FACTOR):
                number = int(message.sender.split()[1])
                symbols, exponents = [jacobi(zeta, base) for base in run.bases(number)], _exponents(run, number)
                for place, c in enumerate(content.ciphertexts):
                    odd = [s for s, packed in zip(symbols, exponents, strict=True) if packed[place] % 2]
                    agree += jacobi(zeta, c) == int(np.prod(odd))
                    factors += 1
        p_value = float(binomtest(agree, factors, 0.5).pvalue)
        evidence = f"the noise's parity predicts the Jacobi symbols of {agree} of {factors} noise factors"
        return CheckResult(p_value <= context.rate, f"{evidence}, p = {p_value:.2g}")

    def noise_law(self, context: AnalysisContext) -> CheckResult:
        """Compare the noise of the smallest party (printed), or of the parties that are not excluded, with its law."""
        honest, printed = 1, KINDS[self.kind]["variant"] == "printed"
        terms = replace(
            terms_of(context, self.kind, "noise law"), pitch_exponent=-5, largest_size=20, excluded=PARTIES - honest
        )
        generator, size = np.random.default_rng([context.seed, 82]), min(SIZES) if printed else terms.smallest_size

        def noise(run: int) -> Sequence[int]:
            return (own_noise if printed else noise_share)(terms, size, context.coins("noise law", run))

        whose = "the smallest party's noise" if printed else "the share of the one honest party"
        ideal = partial(_ideal_noise, terms, honest, generator)
        return compare_noise(context, noise, ideal, f"{whose} against the law")

    def reads_sizes(self, context: AnalysisContext) -> CheckResult:
        run = self.real(context)[0]
        keyed = {
            m.sender: run.keys.group.raw_decrypt(content.encrypted) + run.keys.curator.raw_decrypt(content.sealed)
            for m, content in run.messages(Kind.INDEXED_SHARE)
        }
        sizes = tuple(keyed[party_name(place)] - (1 << SHARE_BITS) >> TIE_BITS for place in run.order)
        return CheckResult(sizes == SIZES, "with both keys and pi_1 it reads every size")

    def reads_noise(self, context: AnalysisContext) -> CheckResult:
        """Compute the noise from the masked noise, which Charlie decrypts, and the mask of party 0."""
        run, leader = self.real(context)[0], party_name(LEADER)
        # Party 0 subtracted the mask s from the vector that it shared; Charlie decrypts eta + s. The share that it kept
        # is what it published less what it received.
        shares = [(m, content.values) for m, content in run.messages(Kind.RESHARE, Kind.PUBLISHED_SHARE)]
        published = [v for m, v in shares if m.sender == leader]  # its reshares too, which it sent
        received = [v for m, v in shares if m.receiver == leader]
        shared = np.subtract(np.sum(np.array(published, object), axis=0), np.sum(np.array(received, object), axis=0))
        # The shares are of its parameters less s, modulo 2^m.
        noise = zip(_masked_noise(run), shared, run.contributions[LEADER].parameters, strict=True)
        differences = [t - (v + c - w) - b for t, (v, c, w), b in zip(run.total, noise, _bare(run), strict=True)]
        read = all(x % (1 << modulus_bits(run.terms)) == 0 for x in differences)
        return CheckResult(read, "the mask taken off what Charlie decrypts is the noise; the bare sum follows")

    def insider(self, members: Members, context: AnalysisContext) -> CheckResult:
        """Check whether a party obtains the sum without noise by subtracting its own vector from the total."""
        hits, number, runs = 0, members.parties[0], self.real(context, members=members)
        for run in runs:
            own = run.contributions[number]
            known_vectors = [[0] * FEATURES, own.parameters] if members.lying else own.noise
            hits += any([t - e for t, e in zip(run.total, known, strict=True)] == _bare(run) for known in known_vectors)
        evidence = f"in {hits} of {len(runs)} runs the published total less its own noise is the bare sum"
        return CheckResult(hits > 0, evidence)


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


def _features(run: ObservedRun, members: Members, content: Any, table: Mapping[mpz, int]) -> Row:
    """Return the features of one received message; `table`: as `plain_table` returns it."""
    keys, row = run.keys, Row()
    zeta, xi, dgk = keys.curator, keys.group, keys.comparison

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
                plain, zero = (
                    [table[gmpy2.powmod(c, dgk._v_p, dgk._p)] for c in one.ciphertexts],
                    f"answer {number}, zero at",
                )
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


def _exponents(run: ObservedRun, number: int) -> list[list[mpz]]:
    """Return the exponents of a party: for each base, one packed exponent per ciphertext."""
    plan, bound = noise_plan(run.terms, run.keys.curator.public_key), noise_bound(run.terms)
    return [plan.pack([e + bound for e in noise]) for noise in run.contributions[number].noise]


# -- cells


def _bare(run: ObservedRun) -> list[int]:
    return ideal_sum(*(c.parameters for c in run.contributions.values()))


def _case(kind: str) -> Case:
    checks, members, expected = Checks(), pathak_members(kind), EXPECTED[f"pathak-{kind}"]
    analysis, sizes = PathakAnalysis(kind), ("sizes", "who is smallest")
    for coalition in expected.coalitions:
        name, m, known = coalition.name, members[coalition.name], {*coalition.granted, *coalition.known_leaks}
        hidden = tuple(s for s in expected.secrets if s not in known)
        simulation, insider = partial(analysis.simulation, m), partial(analysis.insider, m)
        if coalition.known_leaks:
            # No simulator can make the real view: that is the finding.
            but = partial(simulation, but="total")
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
            continue
        if bool(m.parties) != m.curator:  # other coalitions can open everything, or receive nothing sealed
            sealed = tuple(s for s in ("noise", "sizes") if s in hidden)
            checks.add("freshness", name, sealed, partial(analysis.freshness, m))
        if m.parties and not m.curator:
            checks.add("masked shares", name, sizes, partial(analysis.linked_shares, m))
            if KINDS[kind].get("comparisons") != "all-pairs":  # there no message depends on an order
                checks.add("order of places", name, sizes, partial(analysis.order_of_places, m), statistical=True)
            if m.parties == (LEADER,):
                checks.add("Jacobi symbols", name, ("noise",), analysis.jacobi_symbols, statistical=True)
        if "sizes" in coalition.granted:
            checks.add("sizes read", name, sizes, analysis.reads_sizes)
        if "noise" in coalition.granted:
            checks.add("noise read", name, ("noise",), analysis.reads_noise)
    consumer = next(iter(PATHAK_MEMBERS))
    checks.append(Check("noise law", consumer, ("data", "classifier"), analysis.noise_law, statistical=True))
    return case_of(expected.name, checks)


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


def _bare_sum(kind: str, attack: str, lies: Mapping[str, Lie], context: AnalysisContext) -> AttackResult:
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
    kind = Kind.PUBLISHED_SHARE if honest.name == CURATOR else Kind.RESHARE

    def change(post: Post, seen: Sequence[Entry]) -> list[Post]:
        if kind_of(post.data) is not kind or post.receiver not in (CURATOR, BOARD):
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


def _attack(kind: str, name: str, lies: Mapping[str, Lie]) -> Attack:
    expected = HARMLESS if kind == "public-bound" else SUCCEEDS
    return Attack(name, partial(_bare_sum, kind, name, lies), expected, (BARE_SUM,))


_LIAR, _SELECTS_NOBODY = party_name(LIAR), {CURATOR: partial(_zeros, Kind.SELECTION)}
_NO_BUCKET, _NO_NOISE = (partial(_smallest_with_zeros, kind) for kind in (Kind.BUCKET_VOTE, Kind.NOISE_FACTOR))
_BY_COALITION = (
    (
        _attack("public-bound", "adds nothing", {_LIAR: _gives_nothing}),
        _attack("public-bound", "adds what it likes", {_LIAR: _shifts}),
    ),
    (
        _attack("public-bound", "publishes a wrong share", {CURATOR: _shifts}),
        Attack("proposes less noise", _propose_less_noise, AgreementError, (BARE_SUM,)),
    ),
    (_attack("public-bound", "adds nothing and something", {_LIAR: _gives_nothing, CURATOR: _shifts}),),
    (_attack("repaired", "votes for no bucket", {_LIAR: _NO_BUCKET}),),
    (_attack("repaired", "selects nobody", _SELECTS_NOBODY),),
    (_attack("printed", "noise of nobody", {_LIAR: _NO_NOISE}),),
    (_attack("printed", "selects nobody as printed", _SELECTS_NOBODY),),
)

ATTACKS = tuple(attack for attacks in _BY_COALITION for attack in attacks)
"""All attacks on the averages of Pathak."""

PATHAK_LIARS = attack_case("pathak-liars", _BY_COALITION)
