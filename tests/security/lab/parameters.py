"""Widths, lengths and precisions that decide what an attacker can do, measured on shipping code.

What a number must be is written out here and not imported. A statistical measurement has a false-alarm rate of 2^-32,
unless it states another.
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache, partial
from importlib import import_module
from typing import Any

import gmpy2
import numpy as np
from gmpy2 import mpz
from scipy import stats

from psephos import setup_keys
from psephos.audit.case_pathak import PathakAnalysis
from psephos.audit.model import AnalysisContext
from psephos.audit.settings import FixedVoter
from psephos.curator.psgd.agreement import DescentOptions, agree
from psephos.curator.statistic import plan_statistic
from psephos.parties.noise import DiscreteGaussianShares, PolyaShares
from psephos.parties.statistic import entry_range
from psephos.protocol.ceremony.form import form_tests
from psephos.protocol.ceremony.search import Batch
from psephos.protocol.ceremony.terms import CeremonyTerms
from psephos.protocol.encrypted_sum.messages import Ballot
from psephos.protocol.encrypted_sum.product import BallotProduct
from psephos.protocol.encrypted_sum.rounds import Proofs, Round, safe_confirmations
from psephos.protocol.encrypted_sum.votes import AuxiliarySet
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.paillier.encryption import Encryptor, RandomnessMode
from psephos.protocol.paillier.private_key import PrivateKey
from psephos.protocol.paillier.threshold import KeyShare, ThresholdKey, deal
from psephos.protocol.pathak.noise import mask_bits, modulus_bits, noise_bound, weight_bound
from psephos.protocol.privacy import mechanisms
from psephos.protocol.privacy.mechanisms import (
    DiscreteLaplace,
    RoundedGaussian,
    SphericalLaplace,
    check_epsilon,
)
from psephos.protocol.proofs import knowledge
from psephos.protocol.proofs.knowledge import KnowledgeProof
from psephos.protocol.randomness import RecordedRandomness, ReplayedRandomness
from psephos.protocol.transcript import Transcript
from psephos.protocol.wire import Kind
from psephos.simulation.encrypted_sum import EncryptedSum, PartyFactory, RunConfig, simulate_sum
from psephos.simulation.key_setup import KeySetup, register
from psephos.specs.base import Participants
from psephos.specs.exact import TallySpec
from psephos.specs.pathak import make_terms
from tests.security.lab.edits import replaced

BITS, BALLOTS = 3072, 8


# -- statistics


def reaches(values: Sequence[int], bits: int, slack: int = 0) -> None:
    """Numbers drawn uniformly below 2^bits come near to it: all of them stay so far below with probability 2^-32."""
    assert min(values) >= 0
    least, longest = bits - -(-32 // len(values)) - slack, max(values).bit_length()
    assert longest > least, f"{len(values)} numbers of at most {longest} bits are not uniform below 2^{bits}"


def uniform(values: Sequence[int], width: int | mpz) -> None:
    """In [0, width), by Kolmogorov's and Smirnov's test, and `reaches`: 2^-31 together."""
    assert all(0 <= value < width for value in values)
    assert stats.kstest([float(mpz(value) / mpz(width)) for value in values], "uniform").pvalue > 2**-32
    reaches(values, int(width).bit_length() - 1)


# -- what is measured on


@dataclass(frozen=True)
class World:
    """A key of the default length, as `psephos.setup_keys` makes it, and its factors, worked out from all shares."""

    ceremony: KeySetup
    private: PrivateKey = field(repr=False)

    @property
    def n(self) -> mpz:
        """The modulus."""
        return self.private.public_key.modulus


@cache
def setting() -> World:
    """Nine holders, all of whom open: a polynomial of eight coefficients."""
    ceremony = setup_keys(9, holders=9, threshold=9)
    n = ceremony.threshold_key.key.modulus
    exponent, base = mpz(_coefficients(ceremony.shares)[0]), mpz(2)
    odd = exponent >> gmpy2.bit_scan1(exponent)
    while (p := gmpy2.gcd(gmpy2.powmod(base, odd, n) - 1, n)) in (1, n):
        base += 1
    return World(ceremony, PrivateKey(int(p), int(n // p)))


def _coefficients(shares: Sequence[KeyShare]) -> list[int]:
    """Of the polynomial through all shares, the constant first (Newton's divided differences)."""
    points, table = [share.holder for share in shares], [Fraction(share.share()) for share in shares]
    for level in range(1, len(points)):
        for at in range(len(points) - 1, level - 1, -1):
            table[at] = (table[at] - table[at - 1]) / (points[at] - points[at - level])
    result = [Fraction(0)] * len(points)
    for value, point in zip(reversed(table), reversed(points), strict=True):
        result = [value - point * result[0], *(result[k - 1] - point * result[k] for k in range(1, len(points)))]
    assert all(value.denominator == 1 for value in result)
    return [int(value) for value in result]


@cache
def _holders() -> tuple[ThresholdKey, tuple[KeyShare, ...]]:
    """The same key shared two of three."""
    key, shares = deal(setting().private, holders=3, threshold=2)
    return key, tuple(shares)


@dataclass(frozen=True)
class BallotCast:
    """A round of votes under that key, one ciphertext a ballot: what was done, and everything that was sent."""

    done: EncryptedSum
    transcript: Transcript

    @property
    def round(self) -> Round:
        """Its terms."""
        return self.done.round

    def sent(self, kind: Kind) -> list[bytes]:
        """The messages of a kind."""
        return [m.data for m in self.transcript.messages if m.kind == kind.title and m.data is not None]

    def ballots(self) -> list[Ballot]:
        """By party."""
        return sorted((Ballot.decode(data, self.round) for data in self.sent(Kind.BALLOT)), key=lambda b: b.party)

    def plaintext(self, party: int) -> mpz:
        """Of its one ciphertext."""
        return self.round.plan.pack(self.done.vectors[party])[0]

    def root(self, party: int, mode: RandomnessMode) -> int:
        """The exponent (of h_s), or unit, behind a ballot's residue, by its sender's own coins."""
        coins = ReplayedRandomness(self.transcript.view(f"party {party}").tape)
        return int(Encryptor(self.round.key, mode, randomness=coins, expected=BALLOTS).randomizers(1)[0].root())


def cast(proofs: Proofs = "none", mode: RandomnessMode = "half", samples: int = 64) -> BallotCast:
    """Eight ballots, cast, counted and opened as `psephos.simulation` does."""
    threshold_key, shares = _holders()
    roster, keys = register(BALLOTS)
    ceremony = KeySetup(threshold_key, roster, shares, keys)
    auxiliary, draw = np.arange(2.0 * samples).reshape(samples, 2), np.random.default_rng()
    spec = TallySpec(AuxiliarySet(auxiliary), 2)
    round_ = spec.terms(threshold_key, Participants(ceremony.roster, proofs=proofs))
    voters = [FixedVoter(draw.integers(0, 2, samples)) for _ in keys]
    transcript = Transcript(secrets=True)
    conditions = RunConfig(mode=mode, transcript=transcript)
    done = simulate_sum(round_, ceremony, PartyFactory(spec, voters), conditions)
    return BallotCast(done, transcript)


@cache
def _base() -> mpz:
    """h_s by its definition: (-x^2)^n modulo n^2, x a hash of n that is 128 bits longer than n."""
    n = setting().n
    x = hashlib.shake_256(b"psephos fixed base\0" + int(n).to_bytes(BITS // 8, "big")).digest((BITS + 128) // 8)
    return gmpy2.powmod(n - mpz(int.from_bytes(x, "big")) ** 2 % n, n, n**2)


# -- keys and shares of keys


def exponents(mode: RandomnessMode) -> None:
    """What stands behind eight ballots by their senders' coins, each held against its ciphertext."""
    made, n = cast(mode=mode), setting().n
    roots = [made.root(party, mode) for party in range(BALLOTS)]
    for ballot, root in zip(made.ballots(), roots, strict=True):
        residue = gmpy2.powmod(*((root, n) if mode == "full" else (_base(), root)), n**2)
        wanted = (1 + made.plaintext(ballot.party) * n) * residue % n**2
        assert ballot.ciphertexts == (wanted,), "a ballot is not made of its sender's coins and h_s"
    assert len(set(roots)) == BALLOTS
    if mode == "full":
        uniform(roots, n)
    else:
        reaches(roots, BITS // 2 if mode == "half" else 256)


def key_shares() -> None:
    """All coefficients of a dealt polynomial, interpolated from the shares that the holders got."""
    n, delta = setting().n, math.factorial(5)
    _, all_shares = deal(setting().private, holders=5, threshold=5)
    for shares in (all_shares, setting().ceremony.shares):
        delta = math.factorial(len(shares))
        constant, *others = _coefficients(shares)
        assert 0 < constant < delta * n**2
        assert constant % delta == 0  # or a share tells s modulo its number
        uniform(others, delta**2 * n**2 << 128)
        assert max(share.exponent.bit_length() for share in shares) <= shares[0].threshold_key.exponent_bits


def batch_weights() -> None:
    """The checker's own coins, when it looks at eight proofs at once: 64 bits for each."""
    made, coins = cast("knowledge"), RecordedRandomness()
    claims = []
    for ballot in made.ballots():
        statement = b"psephos ballot\0" + made.round.digest + ballot.party.to_bytes(4, "big")
        claims.append((statement, ballot.ciphertexts, KnowledgeProof.decode(ballot.proof, made.round.key)))
    assert knowledge.first_wrong(made.round.key, claims, randomness=coins) is None
    assert len(coins.tape()) == BALLOTS * 64 // 8


# -- what is hashed and signed, and what is fresh


def product_digests() -> None:
    """What holders confirm, are asked for and open once: a product of several ciphertexts, changed in each of them."""
    round_ = replace(cast().round, plan=replace(cast().round.plan, length=9000))
    columns = tuple(mpz(k + 2) for k in range(round_.plan.ciphertexts))
    assert len(columns) > 2
    known_digests = {BallotProduct(round_, 3, columns).digest}
    changed_ = ((*columns[:at], c + 1, *columns[at + 1 :]) for at, c in enumerate(columns))
    known_digests |= {BallotProduct(round_, 3, other).digest for other in changed_}
    assert len(known_digests) == 1 + len(columns), "a ciphertext of a product is not in its digest"


def nonces() -> None:
    """Two of everything that is named by a nonce, from the same terms: 16 fresh bytes each time."""
    pathak = [make_terms(parties=3, features=2, lam=0.1, epsilon=1.0).nonce for _ in range(2)]
    series = [agree(DescentOptions(), [10, 10], 3).series.nonce for _ in range(2)]
    rounds = [cast().round.nonce for _ in range(2)]
    ceremonies = [deal(setting().private, holders=1, threshold=1)[0].ceremony for _ in range(2)]
    for one, other in (map(bytes.fromhex, pathak), series, rounds, ceremonies):
        assert one != other
        assert len(one) == len(other) == 16


def confirmations() -> None:
    """Of all groups up to nine holders: no t - 1 liars and no board have two products confirmed; one fewer would do."""
    for n in range(1, 10):
        for t in range(n // 2 + 1, n + 1):
            q = safe_confirmations(n, t)
            assert 2 * q - n > t - 1 >= 2 * (q - 1) - n
            if q > n:  # then there is none, and a study of these is refused
                assert 2 * n - n <= t - 1


# -- the ceremony


def form_bases() -> None:
    """At 3072 bits: a form that is not there is proved with probability 2^-96; what is raised to a power is masked."""
    terms, n = CeremonyTerms(BITS, 3, 2, bytes(32)), mpz(3) << BITS - 2 | 1
    chosen = np.zeros(len(terms.primes), dtype=np.int64)
    for test, smallest in zip(form_tests(terms, n), (3, gmpy2.next_prime(terms.primes[-1])), strict=True):
        assert len(set(test.bases)) * math.log2(smallest) >= 96
        multiples = []
        for _ in range(8):
            seeds = {s: RecordedRandomness().draw(32) for s, members in enumerate(terms.subsets) if 1 in members}
            batch = Batch(terms, seeds)
            numbers = batch.numbers(chosen[None])
            if smallest == 3:
                multiples.append(abs(batch.sieved_multiple(1, numbers, 0, n, chosen)))
            else:
                multiples += map(abs, batch.form_multiples(1, numbers, 0, n))
        reaches(multiples, test.modulus.bit_length() + BITS + 128, slack=2)


# -- Pathak


def pathak_masks() -> None:
    """Shares, masks, tie-breakers and party 0's mask in the messages of two runs, opened with everybody's keys."""
    runs = PathakAnalysis("repaired").real(AnalysisContext(views=2))
    shares, masked, ties, noise = [], [], [], []
    for run in runs:
        shares += [message.share for _, message in run.messages(Kind.SIZE_SHARE)]
        group, curator = run.keys.group, run.keys.curator
        for _, message in run.messages(Kind.MASKED_SHARE):
            plain, n = group.raw_decrypt(message.ciphertexts[0]), message.key.n
            masked.append(plain if plain < n // 2 else n - plain)
        for _, message in run.messages(Kind.INDEXED_SHARE):
            opened = group.raw_decrypt(message.encrypted) + curator.raw_decrypt(message.sealed)
            ties.append(opened % 2**64)
        terms = run.terms
        ((_, message),) = run.messages(Kind.MASKED_NOISE)
        width = (2 * terms.parties * noise_bound(terms)).bit_length() + 80
        slots = message.ciphertexts
        noise.append((sum(curator.raw_decrypt(c).bit_length() for c in slots), width, len(slots)))
        largest = terms.parties * (weight_bound(terms) + noise_bound(terms))
        assert 2 ** modulus_bits(terms) > 2 * largest
        assert mask_bits(terms) >= width
    reaches(shares, 32 + 64 + 80)
    assert max(shares).bit_length() <= 32 + 64 + 80
    reaches(masked, 32 + 64 + 80 + 80 - 1)
    reaches(ties, 64)
    for bits, width, slots in noise:  # two entries packed: the topmost slot says how wide each is
        assert bits > slots * width


# -- noise


def precision() -> None:
    """The vectors that samplers drew, worked out again from their coins at 3,000 bits: equal where a scale has 2^90
    steps; 640 bits for each uniform variable."""
    dimension, pitch = 6, 2.0**-90
    for law in (SphericalLaplace(dimension, 1.0, pitch), RoundedGaussian(dimension, 1.0, pitch)):
        coins = RecordedRandomness()
        vector, spherical = law.sample(coins), isinstance(law, SphericalLaplace)
        words = [int.from_bytes(coins.tape()[at : at + 80], "big") for at in range(0, len(coins.tape()), 80)]
        assert len(coins.tape()) == 80 * (3 + 8 if spherical else 6)
        with gmpy2.context(gmpy2.get_context(), precision=3000) as wide:
            uniforms = [(2 * gmpy2.mpfr(word) + 1) / gmpy2.mpfr(2) ** 641 for word in words]
            normals = []
            for first, second in zip(uniforms[3 * spherical :: 2], uniforms[3 * spherical + 1 :: 2], strict=True):
                radius, angle = gmpy2.sqrt(-2 * gmpy2.log(first)), 2 * gmpy2.const_pi(wide.precision) * second
                normals += [radius * gmpy2.cos(angle), radius * gmpy2.sin(angle)]
            factor = gmpy2.mpfr(2) ** 90
            if spherical:
                chi = -2 * gmpy2.log(uniforms[0] * uniforms[1] * uniforms[2]) + normals[dimension] ** 2
                # Of eight normals the last is thrown away: dimension + 1 are used.
                factor *= gmpy2.sqrt(chi)
            wanted = [int(gmpy2.floor(factor * z + 0.5)) for z in normals[:dimension]]
        assert vector == wanted
    assert law.distance == mechanisms.SAMPLER_DISTANCE == 2.0**-160
    assert (1 + math.exp(64)) * mechanisms.SAMPLER_DISTANCE < 2.0**-64
    for epsilon in (64.1, 0.9e-9):
        try:
            check_epsilon(epsilon)
        except InvalidParameter:
            continue
        raise AssertionError(f"epsilon {epsilon} was accepted")


def share_tails() -> None:
    """Where the shares of joint noise are cut off, by the exact tails of a geometric and a normal variable: all that is
    cut costs 2^-161 at most. The slots of ballots have room for it."""
    parties, dimension = 25, 12
    whole = math.log2(2 * parties * dimension)
    for scale in (Fraction(3), Fraction(10**9, 7)):
        shares = PolyaShares(dimension, parties, 20, scale)
        tail = whole - (shares.bound + 1) / float(scale) / math.log(2)
        assert -162 < tail <= -161
    for variance in (Fraction(10**4), Fraction(10**14)):
        gaussian = DiscreteGaussianShares(dimension, parties, 20, variance)
        tail = whole + float(stats.norm.logsf(gaussian.bound / math.sqrt(variance / 20))) / math.log(2)
        assert -172 < tail <= -161
        square = float(gaussian.norm_bound**2 / (variance / 20))
        longest = math.log2(parties) + float(stats.chi2.logsf(square, dimension)) / math.log(2)
        assert longest <= -162 or gaussian.norm_bound >= math.isqrt(dimension) * gaussian.bound
        jumps = PolyaShares(dimension, parties, 20, Fraction(10**4)).norm_bound
        chance = -math.expm1(-1 / 10**4)
        longest = math.log2(parties) + float(stats.nbinom.logsf(jumps, 2 * dimension / 20, chance)) / math.log(2)
        assert longest <= -162
    plan = plan_statistic(
        np.random.default_rng(1).normal(size=(60, 3)), 2, parties, epsilon=1.0, joint=True, mechanism="discrete-laplace"
    )
    assert isinstance(plan.mechanism, DiscreteLaplace)
    joint = PolyaShares(plan.dimension, parties, 20, plan.mechanism.scale_units)
    assert entry_range(plan.grid, joint) == (plan.grid.minimum - joint.bound, plan.grid.maximum + joint.bound)


# -- weaker constants

WEAKER: tuple[tuple[str, Any, Callable[[], None]], ...] = (
    ("protocol.paillier.sharing.STATISTICAL_BITS", 40, key_shares),
    ("protocol.proofs.knowledge.WEIGHT_BITS", 16, batch_weights),
    ("protocol.ceremony.form.FORM_BITS", 40, form_bases),
    ("protocol.pathak.terms.HIDING_BITS", 30, pathak_masks),
    ("protocol.privacy.precision.UNIFORM_BITS", 64, precision),
    ("protocol.privacy.precision.MPFR", gmpy2.context(precision=64), precision),
    ("protocol.privacy.mechanisms.SAMPLER_DISTANCE", 2.0**-80, precision),
    ("protocol.privacy.mechanisms.MAX_EPSILON", 128.0, precision),
    ("protocol.privacy.mechanisms.MIN_EPSILON", 1e-12, precision),
    ("parties.noise._TAIL", 2.0**-100, share_tails),
    ("protocol.privacy.mechanisms.NORM_TAIL", 2.0**-80, share_tails),
)
"""A constant, a weaker value of it, and the measurement that must notice."""

MEASUREMENTS: dict[str, Callable[[], None]] = {
    **{f"exponents, {mode}": partial(exponents, mode) for mode in ("half", "short", "full")},
    "key shares": key_shares,
    "weights of many proofs": batch_weights,
    "product digests": product_digests,
    "nonces": nonces,
    "confirmations": confirmations,
    "form bases": form_bases,
    "masks of Pathak's protocol": pathak_masks,
    "precision": precision,
    "tails of shares": share_tails,
}


def prepare() -> None:
    """Make the keys that all measurements of this process share, while the code is sound."""
    _base(), _holders()


@contextmanager
def changed(at: str, value: Any) -> Iterator[None]:
    """A constant with another value, wherever it was imported, while the block runs."""
    prepare()
    module, name = at.rsplit(".", 1)
    before = getattr(import_module(f"psephos.{module}"), name)
    places = [
        place
        for key, place in sorted(sys.modules.items())
        if key.startswith("psephos") and place.__dict__.get(name) is not None and place.__dict__[name] is before
    ]
    with replaced(places, name, before, value):
        yield
