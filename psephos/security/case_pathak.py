"""Pathak, Rane and Raj (2010): four parties, of which party 3 is the smallest, and Charlie; in four kinds.

* `printed`: as on the page: all pairs compared, one Laplace variable per entry, drawn by the smallest party.
* `spherical`: the smallest party's own vector too, but spherical, which is private; a tournament of comparisons.
* `repaired`: everybody's shares at the smallest party's rung; a tournament. The default.
* `all-pairs`: the same with all pairs compared.

The simulator plays the honest roles with made-up data: sizes in a random order (the true ones where the coalition has
them by design), parameters of unrelated samples, noise of its own. One honest party's vector is corrected by what the
published total lacks to the ideal output. Everything that the real view shows beyond the ideal output must then show as
a difference. The opened view holds everything the coalition has keys for: with Charlie's keys the sealed shares, the
comparisons' answers and the masked noise, with the parties' key the masked shares and xi(a), and with a party its own
noise, which it takes off the published total to see what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any, Literal

import gmpy2
import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray
from scipy.stats import binomtest

import psephos.simulate.pathak as stage
from psephos.curator.pathak.curator import PathakCurator
from psephos.parties.pathak import PathakParty
from psephos.parties.pathak_noise import own_noise, rung_shares
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.paillier.ciphertexts import decode_ciphertexts
from psephos.protocol.paillier.keys import PublicKey
from psephos.protocol.paillier.private_key import generate_private_key
from psephos.protocol.pathak.comparison import Answer, Asker, answer
from psephos.protocol.pathak.dgk import DgkPrivateKey, generate_dgk_key
from psephos.protocol.pathak.messages import (
    CURATOR,
    KEYED_SIZE_BITS,
    MASK_BITS,
    SHARE_BITS,
    Answers,
    Outgoing,
    Terms,
    role,
)
from psephos.protocol.pathak.resharing import split_vector
from psephos.protocol.permutation import inverse, permute
from psephos.protocol.randomness import SYSTEM, Randomness
from psephos.protocol.transcript import Message, Transcript
from psephos.security.compare import outcomes, two_sample
from psephos.security.ideal import ideal_pathak, joint_noise, spherical_noise
from psephos.security.model import Case, Check, Coalition, Context, Result
from psephos.security.sums import comparison_result
from psephos.security.views import Sealed, jacobi, stale
from psephos.simulate.pathak import PathakKeys, make_terms, run_protocol

__all__ = [
    "PATHAK",
    "Kind",
    "Run",
    "exact_comparison",
    "exact_resharing",
    "keys_of",
    "real_runs",
    "records_of",
]

PARTIES, FEATURES = 4, 2
SIZES = (24, 30, 17, 20)
SMALLEST = 3
LAMBDA, EPSILON = 0.1, 1.0
HEADER = 8 + 1 + 32 + 6
SECRETS = ("data", "classifier", "noise", "sizes", "who is smallest")

Kind = Literal["printed", "spherical", "repaired", "all-pairs"]
KINDS: dict[Kind, dict[str, Any]] = {
    "printed": {"variant": "printed", "comparisons": "all-pairs"},
    "spherical": {"variant": "printed", "noise": "spherical"},
    "repaired": {"variant": "repaired"},
    "all-pairs": {"variant": "repaired", "comparisons": "all-pairs"},
}
"""What differs in the terms (`psephos.simulate.pathak.make_terms`): both variants, both comparisons, both laws of
noise."""

Records = tuple[NDArray[np.float64], NDArray[np.int64]]
Row = dict[str, float]


class SeededTranscript(Transcript):
    """A transcript whose roles' coins come from the analysis."""

    def __init__(self, source: Callable[[str], Randomness]) -> None:
        super().__init__(secrets=True)
        self._source = source

    def coins(self, role: str, source: Randomness = SYSTEM) -> Randomness:
        return super().coins(role, self._source(role))


@dataclass(frozen=True)
class Run:
    """One run: its messages, and the role objects for what their owners know (inputs, coins, keys)."""

    terms: Terms
    keys: PathakKeys = field(repr=False)
    transcript: Transcript
    parties: dict[int, PathakParty] = field(repr=False)
    curator: PathakCurator = field(repr=False)
    total: tuple[int, ...] = field(repr=False)


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """An attribute replaced while the block runs."""
    before = owner.__dict__[name] if isinstance(owner, type) else getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def keys_of(context: Context) -> PathakKeys:
    """Everybody's keys, of test size."""

    def make() -> PathakKeys:
        return PathakKeys(
            generate_private_key(384, test_key=True, randomness=context.coins("zeta")),
            generate_dgk_key(
                256, comparison_bits=KEYED_SIZE_BITS, test_key=True, randomness=context.coins("comparison key")
            ),
            generate_private_key(384, test_key=True, randomness=context.coins("xi")),
        )

    return context.once("pathak keys", make)


def _records(generator: np.random.Generator, size: int, turn: float) -> Records:
    X = generator.normal(size=(size, FEATURES))
    X /= np.linalg.norm(X, axis=1).max() * (1 + 1e-9)
    y = (X @ np.array([np.cos(turn), np.sin(turn)]) > 0).astype(np.int64)
    y[:2] = (0, 1)
    return X, y


def records_of(context: Context, inputs: str) -> list[Records]:
    """`honest`; `exchanged`: parties 2 and 3 exchange whole data sets, which leaves the ideal output as it is."""

    def make() -> list[Records]:
        records = [_records(np.random.default_rng([context.seed, j]), n, j) for j, n in enumerate(SIZES)]
        if inputs == "exchanged":
            records[1], records[2] = records[2], records[1]
        return records

    return context.once(("pathak data", inputs), make)


def _terms(context: Context, kind: Kind, label: str) -> Terms:
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


def _play(context: Context, kind: Kind, records: Sequence[Records], label: str, party_class: Any) -> Run:
    parties: dict[int, PathakParty] = {}
    curators: list[PathakCurator] = []

    def party(number: int, *args: Any, **kwargs: Any) -> PathakParty:
        parties[number] = party_class(number, *args, **kwargs)
        return parties[number]

    def curator(*args: Any, **kwargs: Any) -> PathakCurator:
        curators.append(PathakCurator(*args, **kwargs))
        return curators[0]

    if party_class is not PathakParty:
        party_class.puppets = parties
    transcript = SeededTranscript(lambda name: context.coins(label, name))
    terms = _terms(context, kind, label)
    with replaced(stage, "PathakParty", party), replaced(stage, "PathakCurator", curator):
        outcome = run_protocol(records, terms, keys=keys_of(context), test_key=True, transcript=transcript)
    return Run(terms, keys_of(context), transcript, parties, curators[0], outcome.total)


def real_runs(context: Context, kind: Kind, inputs: str = "honest") -> list[Run]:
    """As many runs of the real protocol as the context has views."""
    return context.once(
        ("pathak", kind, inputs),
        lambda: [
            _play(context, kind, records_of(context, inputs), f"pathak {kind} {inputs} {i}", PathakParty)
            for i in range(context.views)
        ],
    )


# -- the simulator


class _Puppet(PathakParty):
    """An honest party in the simulated world; the last honest one corrects the total."""

    puppets: dict[int, PathakParty]
    corrector = 0
    wanted: tuple[int, ...] = ()

    def reshare(self) -> list[Outgoing]:
        if self.number == self.corrector:
            values = [party.clear_values() for party in self.puppets.values()]
            total = [sum(column) for column in zip(*(w for _, w, _ in values), strict=True)]
            smallest = min(size for size, _, _ in values)
            if self.terms.variant == "printed":
                noise = next(n[0] for size, _, n in values if size == smallest)
            else:
                rung = self.terms.rung(smallest)
                noise = [sum(column) for column in zip(*(n[rung] for _, _, n in values), strict=True)]
            lacks = [t - w - e for t, w, e in zip(self.wanted, total, noise, strict=True)]
            self._contribution = [c + x for c, x in zip(self._contribution, lacks, strict=True)]
        return super().reshare()


def _simulated(context: Context, kind: Kind, members: Members) -> list[Run]:
    def make() -> list[Run]:
        real = real_runs(context, kind)
        parameters = [real[0].parties[j].clear_values()[1] for j in range(1, PARTIES + 1)]
        honest = [j for j in range(1, PARTIES + 1) if j not in members.parties]
        runs = []
        for i in range(context.views):
            label = f"pathak simulated {kind} {members} {i}"
            generator = np.random.default_rng([context.seed, i, 77])
            terms = real[0].terms
            # What the functionality hands out: the sum under noise for the true smallest size, of the honest parties.
            wanted = ideal_pathak(parameters, _ideal_noise(terms, len(honest), generator))
            made_up = list(SIZES) if members.curator and members.parties else [16, 17, 18, 19]
            if not (members.curator and members.parties):
                generator.shuffle(made_up)
            records = [
                records_of(context, "honest")[j - 1]
                if j in members.parties
                else _records(generator, made_up[j - 1], float(generator.uniform(0, 6)))
                for j in range(1, PARTIES + 1)
            ]
            puppet: Any = type("Puppet", (_Puppet,), {"corrector": honest[-1]})
            puppet.wanted = _WithOwnShares(wanted, puppet, members, terms)
            runs.append(_play(context, kind, records, label, puppet))
        return runs

    # Who has no party's inputs gets the same simulation: the curator's and the consumer's views are read off one world.
    both = bool(members.curator and members.parties)
    return context.once(("pathak simulated", kind, members.parties, both), make)


def _ideal_noise(terms: Terms, honest: int, generator: np.random.Generator) -> list[int]:
    """What the functionality draws: all the noise (printed), or the honest parties' shares at the rung (repaired).

    Its scale is worked out from epsilon here; the solver's tolerance adds less than 2^-15 of it.
    """
    smallest = min(SIZES)
    if terms.variant == "repaired":
        smallest = max(int(rung) for rung in terms.ladder if rung <= smallest)
    record = 2 / (smallest * 2 * LAMBDA)  # L2, of one party's minimiser; objective (2) is 2 lambda-strongly convex
    in_units = 1 / (EPSILON * terms.pitch)
    if terms.noise == "spherical":
        return spherical_noise(Fraction((record + FEATURES**0.5 * terms.pitch) * in_units), FEATURES, generator)
    if terms.variant == "printed":
        paper = PARTIES * 2 / (smallest * LAMBDA)
        return joint_noise(Fraction(paper * in_units), FEATURES, 1, 1, generator)
    snapped = FEATURES**0.5 * record + FEATURES * terms.pitch  # L1, on the grid
    return joint_noise(Fraction(snapped * in_units), FEATURES, honest, PARTIES - terms.excluded, generator)


class _WithOwnShares:
    """The ideal total; in the repaired protocol the coalition's own shares at the true rung are part of it."""

    def __init__(self, total: Sequence[int], puppet: Any, members: Members, terms: Terms) -> None:
        self._total, self._puppet, self._members, self._terms = total, puppet, members, terms

    def __iter__(self) -> Iterator[int]:
        total = list(self._total)
        if self._terms.variant == "repaired":
            rung = self._terms.rung(min(SIZES))
            for number in self._members.parties:
                own = self._puppet.puppets[number].clear_values()[2][rung]
                total = [t + e for t, e in zip(total, own, strict=True)]
        return iter(total)


# -- opening a view


@dataclass(frozen=True)
class Members:
    """A coalition."""

    curator: bool = False
    parties: tuple[int, ...] = ()

    @property
    def names(self) -> set[str]:
        """As in transcripts."""
        return {role(number) for number in self.parties} | ({role(CURATOR)} if self.curator else set())


def _plain_dgk(key: DgkPrivateKey) -> dict[mpz, int]:
    """c^(v_p) mod p of each plaintext: the owner of the key opens by looking up."""
    p, v, public = key._p, key._v_p, key.public_key
    base = gmpy2.powmod(public.g, v, p)
    table, power = {}, mpz(1)
    for m in range(public.u):
        table[power] = m
        power = power * base % p
    return table


def _open_message(run: Run, members: Members, message: Message, table: dict[mpz, int]) -> Row:
    """One received message as numbers."""
    assert message.data is not None
    body, keys, row = message.data[HEADER:], run.keys, Row()
    group, zeta, kind = keys.group.public_key, keys.curator.public_key, message.kind

    def sealed(name: str, key: PublicKey, c: mpz) -> None:
        row[name] = float(c / key.modulus_squared)
        row[f"{name}, Jacobi symbol"] = jacobi(key, c)

    if kind == "size share":
        width = SHARE_BITS // 8
        row["a"] = int.from_bytes(body[:width], "big") / 2.0**SHARE_BITS
        sealed("b sealed", zeta, decode_ciphertexts(zeta, body[width:], 1)[0])
    elif kind == "indexed share":
        middle = 32 + group.ciphertext_bytes
        sealed("xi(a)", group, decode_ciphertexts(group, body[32:middle], 1)[0])
        rest = keys.curator.raw_decrypt(decode_ciphertexts(zeta, body[middle:], 1)[0]) - (1 << SHARE_BITS)
        row["b"] = rest / 2.0**SHARE_BITS
        if members.parties:
            row["a"] = keys.group.raw_decrypt(decode_ciphertexts(group, body[32:middle], 1)[0]) / 2.0**SHARE_BITS
    elif kind == "masked share":
        c = decode_ciphertexts(group, body[32:], 1)[0]
        plain = keys.group.raw_decrypt(c)
        row["masked a"] = (plain - group.n if plain > group.n // 2 else plain) / 2.0**MASK_BITS
        sealed("masked a sealed", group, c)
    elif kind == "lent share":
        row["lent"] = int.from_bytes(body, "big") / 2.0 ** (KEYED_SIZE_BITS + 1)
    elif kind in ("opponents", "questions"):
        row["opponents"] = int.from_bytes(body[2:4], "big")
    elif kind == "answers":
        public = keys.comparison.public_key
        size = Answer.encoded_length(public, KEYED_SIZE_BITS)
        given = Answers.decode(body, public, len(body) // size).answers
        for number, one in enumerate(given):
            plain_bits = [
                table[gmpy2.powmod(c, keys.comparison._v_p, keys.comparison._p)]
                for c in one.ciphertexts[: KEYED_SIZE_BITS + 1]
            ]
            row[f"answer {number}, bit"] = one.bit
            row[f"answer {number}, zero at"] = plain_bits.index(0) if 0 in plain_bits else -1
            row[f"answer {number}, first"] = plain_bits[0]
            row[f"answer {number}, last"] = plain_bits[-1]
            row[f"answer {number}, spread"] = float(np.mean(plain_bits))
    elif kind in ("selection", "rung vote", "rung selection", "noise factor"):
        for place, c in enumerate(decode_ciphertexts(zeta, body[32:], (len(body) - 32) // zeta.ciphertext_bytes)):
            sealed(f"{kind} {place}", zeta, c)
    elif kind == "masked noise":
        ciphertexts = decode_ciphertexts(zeta, body[32:], (len(body) - 32) // zeta.ciphertext_bytes)
        masked = run.terms.plan(zeta).unpack([keys.curator.raw_decrypt(c) for c in ciphertexts], 1)
        for place, value in enumerate(masked):
            row[f"masked noise {place}"] = value / 2.0**run.terms.mask_bits
    elif kind in ("reshare", "published share"):
        width = run.terms.modulus_bits // 8 + 1
        for place in range(FEATURES):
            value = int.from_bytes(body[place * width : (place + 1) * width], "big")
            row[f"share {place}"] = value / 2.0**run.terms.modulus_bits
            row[f"share {place}, low byte"] = value & 255
    return row


def _row(run: Run, members: Members, table: dict[mpz, int]) -> Row:
    """The opened view of one run. Messages are named by kind, sender, receiver and their number among such."""
    row = Row()
    numbers: dict[str, int] = {}
    for message in run.transcript.messages:
        if message.receiver not in members.names and message.receiver != "board":
            continue
        name = f"{message.kind} from {message.sender} to {message.receiver}"
        numbers[name] = numbers.get(name, 0) + 1
        row[f"{name} #{numbers[name]}, bytes"] = message.size
        for what, value in _open_message(run, members, message, table).items():
            row[f"{name} #{numbers[name]}: {what}"] = value
    unit = float(run.terms.scale(run.terms.smallest_size))
    for place, value in enumerate(run.total):
        row[f"total {place}"] = value / unit
        for number in members.parties:
            for rung, noise in enumerate(run.parties[number].clear_values()[2]):
                row[f"total {place} less the noise {rung} of party {number}"] = (value - noise[place]) / unit
    tournament = run.terms.comparisons == "tournament"
    if members.parties and not members.curator and tournament:
        # The parties know pi_1: if pi_2 were known, a second comparison would show whose data set was the smaller.
        again = {m.receiver for m in run.transcript.messages if m.kind in ("questions", "opponents") and _turn(m) == 1}
        order = inverse(run.parties[members.parties[0]]._permutation)
        for j in range(1, PARTIES + 1):
            row[f"party {j} compared again, if pi_2 were the identity"] = -1
        for place in members.parties:
            row[f"party {order[place - 1] + 1} compared again, if pi_2 were the identity"] = role(place) in again
    if members.curator and not members.parties:
        # Charlie knows pi_2: if pi_1 were known, he would know who is smallest, and what follows from the total.
        row["smallest, if pi_1 were the identity"] = inverse(run.curator._permutation)[run.curator._standing[0]]
        for place, rank in {} if tournament else dict(enumerate(_ranks(run))).items():
            row[f"rank of party {place + 1}, if pi_1 were the identity"] = rank
        opened, scale = run.curator._contribution, 2.0**run.terms.mask_bits
        for place, value in enumerate(run.total):
            row[f"total {place} less the masked noise"] = (value - opened[place]) / scale
        differences = (run.total[0] - run.total[1]) - (opened[0] - opened[1])
        row["total less the masked noise, first less second"] = differences / scale
    return row


def _ranks(run: Run) -> list[int]:
    """All pairs: how many others are smaller than the data set at each place of pi_1, which is what Charlie learns."""
    public, curator = run.keys.comparison.public_key, run.curator
    size = Answer.encoded_length(public, KEYED_SIZE_BITS)
    answers: list[Answer] = []
    for message in run.transcript.messages:
        if message.kind == "answers" and message.data is not None:
            body = message.data[HEADER:]
            answers += Answers.decode(body, public, len(body) // size).answers
    ranks = [0] * PARTIES
    for (place, other), larger in zip(curator._pairs, curator._asker.conclude(answers), strict=True):
        ranks[place if larger else other] += 1
    return permute(inverse(curator._permutation), ranks)


def _turn(message: Message) -> int:
    """The turn of the tournament that a message belongs to, from its envelope."""
    assert message.data is not None
    return int.from_bytes(message.data[HEADER - 6 : HEADER - 4], "big")


def _compare(context: Context, left: Sequence[Run], right: Sequence[Run], members: Members, what: str) -> Result:
    table = _plain_dgk(left[0].keys.comparison)
    opened = [[_row(run, members, table) for run in side] for side in (left, right)]
    names = sorted({name for side in opened for row in side for name in row})
    sides = [np.array([[row.get(name, -1.0) for name in names] for row in side]) for side in opened]
    found = two_sample(sides[0], sides[1], rate=context.rate, names=names, seed=context.seed)
    return comparison_result(found, what, len(left), len(names))


# -- freshness, and what a search would find


def _fresh(context: Context, kind: Kind, members: Members) -> Result:
    """No ciphertext that the coalition cannot open is related to one it has seen, in each run."""
    looked = 0
    for run in real_runs(context, kind)[:12]:
        for key, kinds, own_kinds in _sealed_kinds(run, members):
            sealed: list[Sealed] = []
            own: list[Sealed] = []
            for message in run.transcript.messages:
                if message.data is None or message.kind not in (*kinds, *own_kinds):
                    continue
                received = message.receiver in members.names
                sent = message.sender in members.names
                if not received and not sent:
                    continue
                for place, c in enumerate(_ciphertexts(message, key)):
                    item = Sealed(f"{message.kind} {place} of {message.sender}", c)
                    if any(item.value == other.value for other in (*own, *sealed) if item.where == other.where):
                        continue  # a selection reaches every party as the same message
                    (own if sent else sealed).append(item)
            looked += len(sealed)
            relation = stale(key, sealed, own, search=256)
            if relation:
                return Result(True, relation)
    if not looked:
        raise InvalidParameter("this coalition opens all it receives: there is nothing to look at for freshness")
    explained = _explained(real_runs(context, kind)[0], members)
    if explained:
        return Result(True, explained)
    return Result(False, f"{looked} ciphertexts, each with randomness of its own")


def _sealed_kinds(run: Run, members: Members) -> list[tuple[PublicKey, tuple[str, ...], tuple[str, ...]]]:
    zeta, group = run.keys.curator.public_key, run.keys.group.public_key
    if not members.curator:
        # What the parties cannot open, and what Charlie made of ciphertexts whose randomness they know.
        of_zeta = ("selection", "rung vote", "rung selection", "noise factor", "masked noise")
        return [(zeta, of_zeta, ()), (group, ("masked share",), ("indexed share",))]
    return [] if members.parties else [(group, ("indexed share",), ("masked share",))]


def _ciphertexts(message: Message, key: PublicKey) -> tuple[mpz, ...]:
    assert message.data is not None
    body = message.data[HEADER + 32 :]
    if message.kind == "indexed share":
        body = body[: key.ciphertext_bytes]
    return decode_ciphertexts(key, body, len(body) // key.ciphertext_bytes)


def _traced(context: Context, kind: Kind, members: Members) -> Result:
    """Whether the parties of a coalition find shares they know among the masked ones: that would give pi_2 away.

    A masked share a + r and a known a are tied if r is 40 bits shorter than agreed, two of them if the masks are equal;
    both happen by chance with probability below 2^-39 a pair.
    """
    pairs = 0
    for run in real_runs(context, kind)[:20]:
        masked = {number: run.parties[number]._masked for number in members.parties}
        known = set()
        for message in run.transcript.messages:
            if message.kind == "size share" and {message.sender, message.receiver} & members.names:
                assert message.data is not None
                known.add(int.from_bytes(message.data[HEADER : HEADER + SHARE_BITS // 8], "big"))
        for number in members.parties:
            own = run.parties[number]._own_share
            known |= set() if own is None else {own.share}
        for value in masked.values():
            for a in known:
                pairs += 1
                if abs(value - a) >> (MASK_BITS - 40) == 0:
                    return Result(True, "a masked share lies so near a share it knows that the mask hides nothing")
        values = list(masked.values())
        differences = {x - y for x in known for y in known if x != y}
        for i, x in enumerate(values):
            if any(x - y in differences for y in values[:i]):
                return Result(True, "two masked shares differ as two shares it knows: one mask was used twice")
    return Result(False, f"{pairs} pairs of a masked share and a known one, none tied")


def _order_of_places(context: Context, kind: Kind, members: Members) -> Result:
    """Whether the winner of a first comparison is the smaller data set that pi_1 alone would put at that place.

    The coalition knows pi_1 and, at its own place, who is asked again. With a uniform pi_2 its prediction is right by a
    coin toss, once a run.
    """
    right, runs, place = 0, real_runs(context, kind), members.parties[0]
    for run in runs:
        owners = inverse(run.parties[place]._permutation)
        partner = place + 1 if place % 2 else place - 1
        predicted = SIZES[owners[place - 1]] < SIZES[owners[partner - 1]]
        again = {m.receiver for m in run.transcript.messages if m.kind in ("questions", "opponents") and _turn(m) == 1}
        right += predicted == (role(place) in again)
    p_value = float(binomtest(right, len(runs), 0.5).pvalue)
    told = f"pi_1 alone predicts who is compared again in {right} of {len(runs)} runs, p = {p_value:.2g}"
    return Result(p_value <= context.rate, told, p_value)


def _explained(run: Run, members: Members) -> str | None:
    """The analyst, who knows the noise, asks whether a noise factor is the bases' power and nothing else.

    If it is, whoever has the bases can search for the exponent (docs/examples/attacks/small_exponent.py does). If it
    is so up to the Jacobi symbol, the parity of the noise shows.
    """
    if 1 not in members.parties:
        return None
    zeta = run.keys.curator.public_key
    factors = {m.sender: _ciphertexts(m, zeta) for m in run.transcript.messages if m.kind == "noise factor"}
    for number, party in run.parties.items():
        if role(number) not in factors or number in members.parties:
            continue
        bases = [party._selected] if run.terms.variant == "printed" else list(party._rungs)
        packed = [party._plan.pack([e + run.terms.noise_bound for e in noise]) for noise in party._noise]
        for place, c in enumerate(factors[role(number)]):
            power = mpz(1)
            for base, exponents in zip(bases, packed, strict=True):
                power = power * gmpy2.powmod(base, exponents[place], zeta.modulus_squared) % zeta.modulus_squared
            if c == power:
                return f"noise factor {place} of party {number} is a power of ciphertexts seen: it can be searched"
    return None


def _parity(context: Context, kind: Kind) -> Result:
    """Whether the Jacobi symbol of a noise factor is the one that its bases and the noise predict."""
    agree = tried = 0
    for run in real_runs(context, kind):
        zeta = run.keys.curator.public_key
        for message in run.transcript.messages:
            if message.kind != "noise factor":
                continue
            party = run.parties[int(message.sender.split()[1])]
            bases = [party._selected] if run.terms.variant == "printed" else list(party._rungs)
            packed = [party._plan.pack([e + run.terms.noise_bound for e in noise]) for noise in party._noise]
            for place, c in enumerate(_ciphertexts(message, zeta)):
                predicted = 1
                for base, exponents in zip(bases, packed, strict=True):
                    if exponents[place] % 2:
                        predicted *= jacobi(zeta, base)
                agree += jacobi(zeta, c) == predicted
                tried += 1
    p_value = float(binomtest(agree, tried, 0.5).pvalue)
    told = (
        f"{agree} of {tried} noise factors have the Jacobi symbol that the noise's parity predicts, p = {p_value:.2g}"
    )
    return Result(p_value <= context.rate, told, p_value)


def _noise_law(context: Context, kind: Kind) -> Result:
    """The noise of the smallest party (printed), or the shares of all that are not excluded (repaired), and its law.

    On a coarse grid and with one rung, to be quick; all but one share excluded, so that one share is the whole law.
    """
    rows, honest = 12 * context.views, 1
    terms = replace(_terms(context, kind, "noise law"), pitch_exponent=-5, largest_size=20, excluded=PARTIES - honest)
    generator = np.random.default_rng([context.seed, 82])
    sides: list[list[NDArray[np.float64]]] = [[], []]
    for i in range(rows):
        if terms.variant == "printed":
            drawn = own_noise(terms, min(SIZES), context.coins("noise law", i))
        else:
            drawn = rung_shares(terms, context.coins("noise law", i))[terms.rung(min(SIZES))]
        for side, noise in zip(sides, (drawn, _ideal_noise(terms, honest, generator)), strict=True):
            entries = np.array(noise, dtype=float)
            side.append(np.concatenate([entries, np.abs(entries), [np.abs(entries).sum()]]))
    names = [f"{what} {place}" for what in ("noise", "|noise|") for place in range(FEATURES)] + ["sum of |noise|"]
    found = two_sample(np.array(sides[0]), np.array(sides[1]), rate=context.rate, names=names, seed=context.seed)
    whose = "the smallest party's noise" if terms.variant == "printed" else "the share of the one honest party"
    return comparison_result(found, f"{whose} against the law", rows, len(names))


# -- exact checks of the building blocks


def exact_comparison(context: Context) -> Result:
    """The asker's opened view against the simulator's, in fractions: all coins of a comparison of 1 bit, u = 11."""
    key = context.once(
        "tiny comparison key",
        lambda: generate_dgk_key(128, comparison_bits=2, test_key=True, randomness=context.coins("tiny")),
    )
    public, table = key.public_key, _plain_dgk(key)
    cases = 0
    for y in range(4):
        questions = [tuple(public.encrypt([y & 1], context.coins("question", y)))]
        for x in range(max(0, y - 1), min(4, y + 2)):

            def real(coins: Randomness, x: int = x, questions: Any = questions) -> tuple[tuple[int, ...], int]:
                given = answer(public, [x], questions, bits=1, randomness=coins)[0]
                plain = tuple(table[gmpy2.powmod(c, key._v_p, key._p)] for c in given.ciphertexts)
                return plain, given.bit

            def simulated(coins: Randomness, x: int = x, y: int = y) -> tuple[tuple[int, ...], int]:
                # From the output [x >= y] and the asker's own y alone.
                bit = coins.bits(1)
                zero = int(x >= y) ^ bit ^ (y >> 1 & 1)
                entries = [1 + coins.below(public.u - 1) for _ in range(2)]
                if zero:
                    entries[coins.below(2)] = 0
                return tuple(entries), bit

            if outcomes(real) != outcomes(simulated):
                return Result(True, f"the asker's view of comparing {x} with {y} is not the simulator's")
            cases += 1
    return Result(False, f"all coins of {cases} comparisons enumerated: the asker's view is exactly the simulator's")


def blinded_answers(context: Context) -> Result:
    """Whether an answer is a function of question, share and small coins: then the share can be searched.

    Batches of two comparisons of one share, as all pairs and a long tournament have them: no blind h^r serves twice.
    """
    key = context.once(
        "tiny comparison key",
        lambda: generate_dgk_key(128, comparison_bits=2, test_key=True, randomness=context.coins("tiny")),
    )
    public = key.public_key
    questions = [tuple(public.encrypt([1], context.coins("blind question")))]
    seen: set[mpz] = set()
    for i in range(50):
        batch = answer(public, [2, 2], questions * 2, bits=1, randomness=context.coins("blind", i))
        for c in (c for given in batch for c in given.ciphertexts):
            if c in seen:
                return Result(True, "two answers to one question share a ciphertext: the blinds h^r are not fresh")
            seen.add(c)
    return Result(False, f"{len(seen)} blinded ciphertexts of one comparison, all different")


def wide_comparison(context: Context) -> Result:
    """Batches of two 12-bit comparisons with the same two outcomes, opened by the asker: blinds, order, masked bits.

    In each batch the low bits of the second comparison are the other way round, which a coin shared with the first one
    would show.
    """
    key = keys_of(context).comparison
    public, table = key.public_key, _plain_dgk(key)
    rows: list[list[list[float]]] = [[], []]
    bits, first = 12, ((100, 37), (4095, 2047))  # all x >= y
    second = ((100, 37), (4096, 4095))  # 0 < 4095 in the low bits of the last
    for i in range(context.views):
        for side in (0, 1):
            coins = context.coins("wide", i, side)
            xs, ys = zip(first[side], second[side], strict=True)
            asker = Asker(key, bits=bits, randomness=coins)
            row = []
            for given, y in zip(answer(public, xs, asker.ask(ys), bits=bits, randomness=coins), ys, strict=True):
                plain = [table[gmpy2.powmod(c, key._v_p, key._p)] for c in given.ciphertexts]
                row += [float(plain.index(0)) if 0 in plain else -1.0, given.bit ^ (y >> bits & 1), *map(float, plain)]
            rows[side].append([*row, row[1] != row[1 + len(row) // 2]])
    one = ["zero at", "bit", *(f"entry {i}" for i in range(bits + 1))]
    names = [f"{name} of comparison {number}" for number in (1, 2) for name in one] + ["bits differ"]
    found = two_sample(np.array(rows[0]), np.array(rows[1]), rate=context.rate, names=names, seed=context.seed)
    return comparison_result(found, "two batches with the same outcomes", context.views, len(names))


def exact_resharing(context: Context) -> Result:
    """Every proper subset of shares modulo 2^m is uniform: enumerated for three participants and m = 3."""
    for value in (0, 3, 7):
        for kept in ((0, 1), (0, 2), (1, 2)):

            def view(coins: Randomness, value: int = value, kept: tuple[int, ...] = kept) -> tuple[float, ...]:
                shares = split_vector([value], 3, 3, coins)
                return tuple(shares[k][0] for k in kept)

            chances = outcomes(view)
            if len(chances) != 64 or len(set(chances.values())) != 1:
                return Result(True, f"two of three shares of {value} are not uniform")
    return Result(False, "every two of three shares modulo 8 enumerated: exactly uniform for each secret")


# -- cells


def _reads_sizes(kind: Kind) -> Callable[[Context], Result]:
    def run(context: Context) -> Result:
        first = real_runs(context, kind)[0]
        shares = {}
        for message in first.transcript.messages:
            if message.kind == "indexed share" and message.data is not None:
                body, group, zeta = message.data[HEADER + 32 :], first.keys.group, first.keys.curator
                split = group.public_key.ciphertext_bytes
                a = group.raw_decrypt(decode_ciphertexts(group.public_key, body[:split], 1)[0])
                b = zeta.raw_decrypt(decode_ciphertexts(zeta.public_key, body[split:], 1)[0]) - (1 << SHARE_BITS)
                shares[message.sender] = a + b >> 64
        order = first.parties[1]._permutation
        found = tuple(shares[role(order[j] + 1)] for j in range(PARTIES))
        return Result(found == SIZES, "with both keys and pi_1 it reads every size")

    return run


def _reads_noise(kind: Kind) -> Callable[[Context], Result]:
    def run(context: Context) -> Result:
        first = real_runs(context, kind)[0]
        # P_1 knows s; Charlie opens eta + s.
        mask = [w - c for w, c in zip(first.parties[1]._parameters, first.parties[1]._contribution, strict=True)]
        noise = [v - m for v, m in zip(first.curator._contribution, mask, strict=True)]
        sums = [sum(p.clear_values()[1][i] for p in first.parties.values()) for i in range(FEATURES)]
        bare = [t - e for t, e in zip(first.total, noise, strict=True)]
        return Result(bare == sums, "the mask taken off what Charlie decrypts is the noise; the bare sum follows")

    return run


def _insider(kind: Kind) -> Callable[[Context], Result]:
    def run(context: Context) -> Result:
        hits = 0
        runs = real_runs(context, kind)
        for one in runs:
            sums = [sum(p.clear_values()[1][i] for p in one.parties.values()) for i in range(FEATURES)]
            hits += any(
                [t - e for t, e in zip(one.total, noise, strict=True)] == sums
                for noise in one.parties[SMALLEST].clear_values()[2]
            )
        told = f"in {hits} of {len(runs)} runs the published total less party {SMALLEST}'s own noise is the bare sum"
        return Result(hits > 0, told)

    return run


def _insider_leaks(kind: Kind) -> bool:
    return bool(KINDS[kind]["variant"] == "printed")


MEMBERS: dict[str, Members] = {
    "consumer (the published shares)": Members(),
    "party 1 (draws pi_1, the key and the mask)": Members(parties=(1,)),
    "party 3 (the smallest)": Members(parties=(3,)),
    "all parties but two": Members(parties=(1, 4)),
    "curator": Members(curator=True),
    "curator and a party": Members(curator=True, parties=(4,)),
    "curator and party 1": Members(curator=True, parties=(1,)),
}


def _coalitions(kind: Kind) -> tuple[Coalition, ...]:
    both = "Charlie and any party hold both keys and pi_1 between them"
    mask = "Charlie and party 1 hold the noise and its mask between them"
    coalitions = []
    for name, m in MEMBERS.items():
        granted = {}
        if m.curator and m.parties:
            granted = {"sizes": both, "who is smallest": both}
        if m.curator and 1 in m.parties:
            granted["noise"] = mask
        leaks = {}
        if _insider_leaks(kind) and SMALLEST in m.parties:
            leaks = {"noise": "the insider: the noise is this party's own vector (DESIGN section 5, finding 6)"}
        coalitions.append(Coalition(name, tuple(sorted(m.names)), granted, leaks))
    return tuple(coalitions)


def _checks(kind: Kind) -> tuple[Check, ...]:
    checks: list[Check] = []
    for name, m in MEMBERS.items():
        coalition = next(c for c in _coalitions(kind) if c.name == name)
        known = {*coalition.granted, *coalition.known_leaks}
        hidden = tuple(s for s in SECRETS if s not in known)

        def simulation(context: Context, m: Members = m) -> Result:
            return _compare(
                context, real_runs(context, kind), _simulated(context, kind, m), m, "real against simulated"
            )

        def exchanged(context: Context, m: Members = m) -> Result:
            return _compare(
                context, real_runs(context, kind), real_runs(context, kind, "exchanged"), m, "data sets exchanged"
            )

        def fresh(context: Context, m: Members = m) -> Result:
            return _fresh(context, kind, m)

        if coalition.known_leaks:
            # The real view is not what any simulator could make: that is the finding.
            checks.append(
                Check(f"simulation, {name}", name, tuple(coalition.known_leaks), simulation, statistical=True)
            )
            checks.append(Check(f"insider, {name}", name, ("noise",), _insider(kind)))
        else:
            checks.append(Check(f"simulation, {name}", name, hidden, simulation, statistical=True))
        if not {2, SMALLEST} & set(m.parties) and not known:
            about = ("data", "classifier", "sizes", "who is smallest")
            checks.append(Check(f"data sets exchanged, {name}", name, about, exchanged, statistical=True))
        if coalition.known_leaks:
            masked = Members(parties=m.parties)

            def rest(context: Context, m: Members = masked) -> Result:
                return _compare_rest(context, kind, m)

            checks.append(Check(f"simulation but for the total, {name}", name, hidden, rest, statistical=True))
        if bool(m.parties) != m.curator:  # others open all they receive, or receive nothing sealed
            sealed = tuple(s for s in ("noise", "sizes") if s in hidden)
            checks.append(Check(f"freshness, {name}", name, sealed, fresh))
        if m.parties and not m.curator:

            def traced(context: Context, m: Members = m) -> Result:
                return _traced(context, kind, m)

            def places(context: Context, m: Members = m) -> Result:
                return _order_of_places(context, kind, m)

            about_sizes = ("sizes", "who is smallest")
            if KINDS[kind].get("comparisons") != "all-pairs":  # in which no message depends on an order
                checks.append(Check(f"order of places, {name}", name, about_sizes, places, statistical=True))
            checks.append(Check(f"masked shares, {name}", name, ("sizes", "who is smallest"), traced))
        if "sizes" in coalition.granted:
            checks.append(Check(f"sizes read, {name}", name, ("sizes", "who is smallest"), _reads_sizes(kind)))
        if "noise" in coalition.granted:
            checks.append(Check(f"noise read, {name}", name, ("noise",), _reads_noise(kind)))
    consumer, one, smallest = list(MEMBERS)[:3]
    charlie, law = "curator", partial(_noise_law, kind=kind)
    if not _insider_leaks(kind):
        checks.append(Check(f"insider, {smallest}", smallest, ("noise",), _insider(kind)))
    checks += [
        Check(f"Jacobi symbols, {one}", one, ("noise",), lambda context: _parity(context, kind), statistical=True),
        Check("noise law", consumer, ("data", "classifier"), law, statistical=True),
        Check("comparison enumerated", charlie, ("sizes",), exact_comparison),
        Check("comparison's blinds", charlie, ("sizes",), blinded_answers),
        Check("comparison at width", charlie, ("sizes",), wide_comparison, statistical=True),
        Check("resharing enumerated", charlie, ("classifier",), exact_resharing),
    ]
    return tuple(checks)


def _compare_rest(context: Context, kind: Kind, members: Members) -> Result:
    """The view without the published total, which the insider's own noise opens."""
    left, right = real_runs(context, kind), _simulated(context, kind, members)
    table = _plain_dgk(left[0].keys.comparison)
    opened = [[_row(run, members, table) for run in side] for side in (left, right)]
    names = sorted({name for side in opened for row in side for name in row if "total" not in name})
    sides = [np.array([[row.get(name, -1.0) for name in names] for row in side]) for side in opened]
    found = two_sample(sides[0], sides[1], rate=context.rate, names=names, seed=context.seed)
    return comparison_result(found, "real against simulated, but for the total", len(left), len(names))


PATHAK = tuple(Case(f"pathak-{kind}", SECRETS, _coalitions(kind), _checks(kind)) for kind in KINDS)
"""Pathak's protocol, a case for each of `KINDS`."""
