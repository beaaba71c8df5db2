"""The numbers that decide what an attacker can do: `python -m tests.security.lab.parameters` prints them.

A measurement takes messages, coins or releases of shipping code, under a key of 3072 bits wherever a key is in it, and
works out from them how wide, how long or how improbable something is. What the number must be is written out here and
not imported, so that a constant which is changed, bypassed or computed elsewhere fails. Coins are the operating
system's; a statistical measurement has a false-alarm rate of 2^-32, unless it states another.
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import cache, partial
from importlib import import_module
from typing import Any

import gmpy2
import numpy as np
from gmpy2 import mpz
from scipy import stats

from psephos import setup_keys
from psephos.audit.model import AnalysisContext
from psephos.audit.pathak_runs import real_runs
from psephos.audit.settings import FixedVoter
from psephos.audit.studies import trial
from psephos.curator.psgd.agreement import DescentOptions, Variant, agree
from psephos.curator.statistic import plan_statistic
from psephos.parties.noise import DiscreteGaussianShares, PolyaShares
from psephos.parties.party import Party, VotingParty
from psephos.parties.statistic import entry_range
from psephos.protocol.board.entries import SignedEntry
from psephos.protocol.board.history import Head
from psephos.protocol.board.sealing import SealingKey, seal
from psephos.protocol.ceremony import pairs
from psephos.protocol.ceremony.form import form_tests
from psephos.protocol.ceremony.search import Batch
from psephos.protocol.ceremony.terms import CeremonyTerms
from psephos.protocol.encrypted_sum.messages import Ballot, PartialDecryption
from psephos.protocol.encrypted_sum.product import BallotProduct
from psephos.protocol.encrypted_sum.rounds import Proofs, Round, safe_confirmations
from psephos.protocol.encrypted_sum.votes import AuxiliarySet, vote_round
from psephos.protocol.errors import InvalidParameter, PsephosError, WeakKeyError
from psephos.protocol.paillier.encryption import Encryptor, RandomnessMode
from psephos.protocol.paillier.private_key import PrivateKey, generate_private_key
from psephos.protocol.paillier.threshold import KeyShare, ThresholdKey, combine, deal
from psephos.protocol.pathak.dgk import generate_dgk_key
from psephos.protocol.pathak.noise import mask_bits, modulus_bits, noise_bound, weight_bound
from psephos.protocol.privacy.mechanisms import (
    DiscreteLaplace,
    RoundedGaussian,
    SphericalLaplace,
    check_epsilon,
)
from psephos.protocol.proofs import knowledge
from psephos.protocol.proofs.knowledge import KnowledgeProof
from psephos.protocol.proofs.opening import OpeningProof
from psephos.protocol.randomness import RecordedRandomness, ReplayedRandomness
from psephos.protocol.signing import SigningKey
from psephos.protocol.transcript import Transcript
from psephos.protocol.wire import Kind
from psephos.simulation.encrypted_sum import EncryptedSum, PartyFactory, RunConfig, simulate_sum
from psephos.simulation.key_setup import KeySetup, register, run_ceremony
from psephos.specs.base import Participants
from psephos.specs.pathak import make_terms
from psephos.specs.tally import TallySpec
from tests.security.lab.edits import replaced

__all__ = ["PARAMETERS", "Parameter", "changed", "page"]

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


def keys() -> None:
    """The key that `setup_keys` makes when nothing is said; short ones are refused."""
    p, q = map(mpz, setting().private.factors())
    assert setting().n == p * q
    assert setting().n.bit_length() == BITS
    assert p.bit_length() == q.bit_length() == BITS // 2
    assert abs(p - q).bit_length() > BITS // 2 - 32
    assert all(gmpy2.is_strong_bpsw_prp(prime) for prime in (p, q))
    assert p % 4 == q % 4 == 3
    assert gmpy2.gcd(p - 1, q - 1) == 2
    small = [int(x) for x in range(3, 2**16, 2) if gmpy2.is_prime(x)]
    assert not [x for x in small if (p - 1) % x == 0 or (q - 1) % x == 0]
    try:
        generate_private_key(2046)
    except WeakKeyError:
        return
    raise AssertionError("a key of 2046 bits was made, and nobody called it a test key")


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


def threshold() -> None:
    """t - 1 of the holders of `setup_keys` do not open, and t do."""
    key, shares = setting().ceremony.threshold_key, setting().ceremony.shares
    ciphertexts = Encryptor(key.key, expected=1).encrypt([mpz(42)])
    parts = {share.holder: share.partially_decrypt(ciphertexts) for share in shares}
    assert combine(key, parts) == [42]
    try:
        opened = combine(replace(key, threshold=8), parts)
    except PsephosError:
        return
    assert opened != [42]


# -- proofs


def _challenge(label: str, *parts: bytes) -> int:
    """Strong Fiat-Shamir: 128 bits of SHAKE-256 of SHAKE-256 of every part behind its length in 8 bytes."""
    return int.from_bytes(hashlib.shake_256(_hashed(label, *parts)).digest(16), "big")


def _hashed(label: str, *parts: bytes) -> bytes:
    content = b"".join(len(part).to_bytes(8, "big") + part for part in (label.encode(), *parts))
    return hashlib.shake_256(content).digest(32)


def _written(*numbers: mpz) -> list[bytes]:
    return [int(x).to_bytes(2 * BITS // 8, "little") for x in numbers]


def knowledge_proofs() -> None:
    """Eight ballots: the challenge by its definition, what the answer hides by it, what hides it by what is left."""
    made, n = cast("knowledge"), setting().n
    masks = []
    for ballot in made.ballots():
        proof, root = KnowledgeProof.decode(ballot.proof, made.round.key), made.root(ballot.party, "half")
        statement = b"psephos ballot\0" + made.round.digest + ballot.party.to_bytes(4, "big")
        numbers = _written(*ballot.ciphertexts, proof.announcement)
        e = _challenge("psephos knowledge of plaintexts", made.round.key.identifier, statement, *numbers)
        masks.append(int(proof.residue) - e * root)
        assert root.bit_length() <= BITS // 2 + 160
        x = (proof.plaintext - e * made.plaintext(ballot.party)) % n
        announced = (1 + n * x) * gmpy2.powmod(_base(), masks[-1], n**2) % n**2
        assert proof.announcement == announced, "the challenge is not the hash of all that is claimed"
    reaches(masks, BITS // 2 + 160 + 128 + 16 + 80)  # so many exponents: 2^16 of |n|/2 + 160 bits


def opening_proofs() -> None:
    """Two partial decryptions: the equations with challenges by their definition; masks from the answers."""
    made, n = cast("knowledge"), setting().n
    key = made.round.threshold_key
    product = BallotProduct(made.round).add_all(made.sent(Kind.BALLOT))[0]
    answers = []
    for data in made.sent(Kind.PARTIAL_DECRYPTION):
        part = PartialDecryption.decode(data, made.round)
        proof = OpeningProof.decode(part.proof, key.key, key.exponent_bits)
        statement = b"psephos partial decryption\0" + made.round.digest + bytes([part.holder])
        to = "psephos partial decryption"
        numbers = _written(*product.columns, *part.values)
        rho = _challenge(f"{to}: weights", key.key.identifier, statement, *numbers)
        weighted, opened = (gmpy2.powmod(column, rho, n**2) for column in (product.columns[0], part.values[0]))
        numbers = _written(key.verification_base, weighted, opened, proof.base, proof.product)
        e = _challenge(f"{to}: challenge", key.key.identifier, statement, *numbers)
        for base, power, announced in (
            (key.verification_base, key.verification_values[part.holder - 1], proof.base),
            (weighted, opened, proof.product),
        ):
            right = announced * gmpy2.powmod(power, e, n**2)
            assert (gmpy2.powmod(base, proof.answer, n**2) ** 2 - right**2) % n**2 == 0
        answers.append(int(proof.answer))
    assert len(answers) == 2
    # The longest exponent that this key's holders can have: Delta^3 n^t t 2^(3 * 128) n^2, twice.
    reaches(answers, key.exponent_bits + 128 + 80)
    delta = math.factorial(3)
    assert 1 << key.exponent_bits > 2 * delta**3 * 3**2 * 2 * n**2 << 128


def validity_proofs() -> None:
    """Three proofs that ballots are valid, taken apart: as long as their soundness asks for; the challenge of step 2, a
    hash of all sizes; as many hashes as a tree of 8 times the degree takes."""
    n, samples, label = setting().n, 64, "psephos valid ballot"
    columns, repeats, primes, salt, rate, degree = 152, 2, 6, 32, 8, 512
    assert (5 / 8) ** columns < 2**-103
    ballots, round_ = _valid_ballots(3, samples)
    wide, mask, used = BITS // 2 + 160 + 128 + 16 + 80 + 1, 128 + BITS + 1 + 80, degree - columns
    rows = (-(-samples // used) + -(-mask // used) + 3 * repeats, -(-primes * (samples + mask).bit_length() // used))
    paths, masks = [], []
    for ballot, values in ballots:
        reader = ByteReader(ballot.proof)
        statement = b"psephos ballot\0" + round_.digest + ballot.party.to_bytes(4, "big")
        roots, announced = reader.take(32, 32), reader.take(2 * BITS // 8)
        z, w = (int.from_bytes(part, "little") for part in reader.take((mask + 8) // 8, (wide + 7) // 8))
        reader.take(8 * 5 * repeats * degree)
        for each in rows:
            reader.take(columns * (salt + 8 * each))
            paths.append(int.from_bytes(reader.take(2)[0], "big"))
            reader.take(32 * paths[-1])
        assert not reader.rest, "a proof is not as long as its soundness asks for"
        shape = f"1 {degree} {columns} {rate} {repeats} {primes}".encode()
        first = (round_.key.identifier, round_.plan.digest, shape, statement, *_written(*ballot.ciphertexts))
        state = _hashed(label, _hashed(label, *first), roots[0], *announced)
        e = int.from_bytes(hashlib.shake_256(_hashed(f"{label}: weights", state)).digest(16), "big")
        right = mpz(int.from_bytes(announced[0], "little")) * gmpy2.powmod(ballot.ciphertexts[0], e, n**2)
        left = (1 + n * (z % n)) * gmpy2.powmod(_base(), w, n**2)
        assert (left**2 - right**2) % n**2 == 0, "a challenge is not the hash of all that is claimed"
        masks.append(z - e * int(round_.plan.pack(values)[0]))
    reaches(masks, mask)
    draw = np.random.default_rng()
    lengths = [_path(draw, columns, rate * degree) for _ in range(400)]
    assert abs(np.mean(paths) - np.mean(lengths)) < 7 * np.std(lengths) / math.sqrt(len(paths))


def _valid_ballots(count: int, samples: int) -> tuple[list[tuple[Ballot, Sequence[int]]], Round]:
    """By parties of a round of their own, with what is in them."""
    keys = [SigningKey.generate() for _ in range(5)]
    auxiliary, draw = np.arange(2.0 * samples).reshape(samples, 2), np.random.default_rng()
    round_ = vote_round(_holders()[0], tuple(k.verification_key for k in keys), auxiliary, 2, proofs="valid")
    made = []
    for number in range(count):
        voter = FixedVoter(draw.integers(0, 2, samples))
        party = VotingParty(Party(number, keys[number], classes=range(2), voter=voter), round_, auxiliary)
        step = party.start()
        made.append((Ballot.decode(step.posts[0].data, round_), party.result(step.state)))
    return made, round_


class ByteReader:
    """Bytes, part by part."""

    def __init__(self, data: bytes) -> None:
        self.rest = data

    def take(self, *counts: int) -> list[bytes]:
        """So many, and so many after them."""
        parts = []
        for count in counts:
            assert count <= len(self.rest), "a proof is not as long as its soundness asks for"
            parts.append(self.rest[:count])
            self.rest = self.rest[count:]
        return parts


def _path(draw: np.random.Generator, leaves: int, size: int) -> int:
    """Hashes that open so many random leaves."""
    known, hashes = set(draw.choice(size, leaves, replace=False).tolist()), 0
    while size > 1:
        hashes += sum(place ^ 1 not in known for place in known)
        known, size = {place >> 1 for place in known}, size // 2
    return hashes


def batch_weights() -> None:
    """The checker's own coins, when it looks at eight proofs at once."""
    made, coins = cast("knowledge"), RecordedRandomness()
    claims = []
    for ballot in made.ballots():
        statement = b"psephos ballot\0" + made.round.digest + ballot.party.to_bytes(4, "big")
        claims.append((statement, ballot.ciphertexts, KnowledgeProof.decode(ballot.proof, made.round.key)))
    assert knowledge.first_wrong(made.round.key, claims, randomness=coins) is None
    assert len(coins.tape()) == BALLOTS * 64 // 8


# -- what is hashed and signed, and what is fresh


def _others(value: Any) -> list[Any]:
    """Values of the same type, a little different, in every place where there is one."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float | mpz):
        return [value + 1]
    if isinstance(value, str):
        return [value + "x"]
    if isinstance(value, bytes):
        return [value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :] for at in (0, len(value) // 2, -1 % len(value))]
    if isinstance(value, Mapping):
        return [{**value, "more": 1}]
    if isinstance(value, tuple):
        return [(*value[:at], other, *value[at + 1 :]) for at, one in enumerate(value) for other in _others(one)]
    return []


def digests() -> None:
    """Every field of what is agreed on is in its digest, and so is every ciphertext of a product, ballot or answer."""
    terms = CeremonyTerms(BITS, 5, 3, bytes(32))
    pathak = make_terms(parties=3, features=2, lam=0.1, epsilon=1.0)
    psgd = DescentOptions(steps=5)
    agreement = agree(psgd, [10, 10, 10], 3)
    study, (key, _) = trial().study, _holders()
    round_ = cast().round
    unlike = {"proofs": "valid", "kind": "statistic"}
    for agreed in (round_, key, round_.plan, terms, pathak, agreement.series, study):
        known_digests, seen = {agreed.digest}, 1
        for one in fields(agreed):
            if (type(agreed), one.name) == (CeremonyTerms, "test_key"):
                continue  # what one's own machine puts up with; the length is in it
            if (type(agreed), one.name) in {(Round, "square_bound"), (Round, "noise_square_bound")}:
                # 0 in a round of votes; `test_bounded_rounds.py` and `test_holder_noise.py` in
                # tests/protocol/encrypted_sum change others'
                continue
            for other in _others(getattr(agreed, one.name)):
                changed_ = object.__new__(type(agreed))
                for name in (f.name for f in fields(agreed)):
                    object.__setattr__(changed_, name, getattr(agreed, name))
                value = unlike.get(one.name, other) if isinstance(other, str) else other
                object.__setattr__(changed_, one.name, value)
                known_digests.add(changed_.digest)
                seen += 1
        assert len(known_digests) == seen, f"something of a {type(agreed).__name__} is not in its digest"
    samples = np.arange(6.0).reshape(3, 2)
    digests_ = {AuxiliarySet(samples + np.eye(6)[k].reshape(3, 2)).digest for k in range(6)}
    assert len({*digests_, AuxiliarySet(samples.reshape(2, 3)).digest, AuxiliarySet(samples).digest}) == 8


def product_digests() -> None:
    """What holders confirm, are asked for and open once: a product of several ciphertexts, changed in each of them."""
    round_ = replace(cast().round, plan=replace(cast().round.plan, length=9000))
    columns = tuple(mpz(k + 2) for k in range(round_.plan.ciphertexts))
    assert len(columns) > 2
    known_digests = {BallotProduct(round_, 3, columns).digest}
    known_digests |= {BallotProduct(round_, 3, other).digest for other in _others(columns)}
    assert len(known_digests) == 1 + len(columns), "a ciphertext of a product is not in its digest"


def signatures() -> None:
    """Ed25519 over everything that a ballot, and an entry of a board, says: no byte of either can be another."""
    made = cast()
    data = made.sent(Kind.BALLOT)[0]
    for at in (*range(0, len(data), 41), len(data) - 1):
        try:
            Ballot.decode(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :], made.round)
        except PsephosError:
            continue
        raise AssertionError(f"byte {at} of a ballot is in no signature")
    key = SigningKey.generate()
    assert (len(key.seed()), len(key.verification_key.raw), len(key.sign(b""))) == (32, 32, 64)
    entry = SignedEntry(bytes(32), "party 1", "board", 3, Head(4, bytes(32)), "phase", False, b"body").signed(key)
    for at in range(len(entry.encode())):
        data = entry.encode()
        try:
            SignedEntry.decode(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]).verify(key.verification_key)
        except PsephosError:
            continue
        raise AssertionError(f"byte {at} of an entry is in no signature")


def nonces() -> None:
    """Two of everything that is named by a nonce, from the same terms: 16 fresh bytes each time."""
    pathak = [make_terms(parties=3, features=2, lam=0.1, epsilon=1.0).nonce for _ in range(2)]
    series = [agree(DescentOptions(), [10, 10], 3).series.nonce for _ in range(2)]
    rounds = [cast().round.nonce for _ in range(2)]
    ceremonies = [deal(setting().private, holders=1, threshold=1)[0].ceremony for _ in range(2)]
    for one, other in (map(bytes.fromhex, pathak), series, rounds, ceremonies):
        assert one != other
        assert len(one) == len(other) == 16


def sealing() -> None:
    """HPKE with X25519 and ChaCha20-Poly1305: a key and a tag of 16 bytes around each message, never the same twice."""
    key, about = SealingKey.generate(), b"about"
    sealed = [seal(b"message", key.public, about) for _ in range(2)]
    assert (len(key.secret()), len(key.public)) == (32, 32)
    assert {len(each) for each in sealed} == {len(b"message") + 32 + 16}
    assert sealed[0][:32] != sealed[1][:32]
    assert key.open(sealed[0], about) == b"message"
    for at in (0, 32, -1):
        other = bytearray(sealed[0])
        other[at] ^= 1
        try:
            key.open(bytes(other), about)
        except PsephosError:
            continue
        raise AssertionError(f"byte {at} of a sealed message may be another")


def pair_seals() -> None:
    """What holders of a ceremony tell each other: a tag of 16 bytes, and another key for whatever else it is about."""
    one, other = (RecordedRandomness().draw(32) for _ in range(2))
    sealed = [pairs.seal(one, pairs.public(other), about, bytes(64)) for about in (b"a", b"b")]
    assert {len(each) for each in sealed} == {64 + 16}
    assert all(x != y for x, y in zip(*(np.frombuffer(each, "<u8").tolist() for each in sealed), strict=True))
    assert pairs.unseal(other, pairs.public(one), b"a", sealed[0]) == bytes(64)
    for about, at in ((b"a", 0), (b"a", 70), (b"b", None)):
        changed_ = bytearray(sealed[0])
        if at is not None:
            changed_[at] ^= 1
        try:
            pairs.unseal(other, pairs.public(one), about, bytes(changed_))
        except PsephosError:
            continue
        raise AssertionError("what was changed, or is about something else, opens")


def confirmations() -> None:
    """Of all groups up to nine holders: no t - 1 liars and no board have two products confirmed; one fewer would do."""
    for n in range(1, 10):
        for t in range(n // 2 + 1, n + 1):
            q = safe_confirmations(n, t)
            assert 2 * q - n > t - 1 >= 2 * (q - 1) - n
            if q > n:  # then there is none, and a study of these is refused
                assert 2 * n - n <= t - 1


# -- the ceremony


def ceremony_messages() -> None:
    """A ceremony of three holders for 128 bits, whose counts are those of every length: from its messages."""
    transcript, terms = Transcript(secrets=True), CeremonyTerms(128, 3, 2, bytes(32), test_key=True)
    n = run_ceremony(terms, transcript=transcript)[0].threshold_key.key.n
    length = {m.kind: m.size - 41 - 5 for m in transcript.messages}  # a header, the batch and its stage
    assert length[Kind.SEED_COMMITMENTS.title] == 4 * 32  # two sets, two others to seal to
    form = (n - 1) * math.prod(x for x in range(3, terms.form_bound, 2) if gmpy2.is_prime(x) and terms.step % x)
    tests = 80 * ((n.bit_length() + 7) // 8) + 3 * ((form.bit_length() + 7) // 8)
    confirmed = [m.size - 46 for m in transcript.messages if m.kind == Kind.TEST_VALUES.title]
    # As many bytes for each candidate that passed its first test; a value of the form is a byte shorter or longer where
    # the candidate's modulus is smaller or larger than n.
    sizes = [(size, round(size / tests)) for size in confirmed if size]
    assert any(count and abs(size - count * tests) <= 3 * count for size, count in sizes), f"not {tests} bytes each"


def ceremony_masks() -> None:
    """At 3072 bits, what a holder says of the exponent: hidden by 128 bits more than beta phi has."""
    terms = CeremonyTerms(BITS, 3, 2, bytes(32))
    exponents = []
    for _ in range(8):
        seeds = {s: RecordedRandomness().draw(32) for s in range(len(terms.subsets))}
        batch = Batch(terms, seeds)
        numbers = batch.numbers(np.zeros((1, len(terms.primes)), dtype=np.int64))
        n = mpz(3) << BITS - 2
        own = {s: seeds[s] for s, members in enumerate(terms.subsets) if 1 in members}
        exponents.append(abs(Batch(terms, own).exponent_share(1, {s: numbers[s] for s in own}, 0, n)))
    beta_phi = 2 * BITS + 128
    reaches(exponents, beta_phi + 128, slack=2)
    assert terms.top_bits >= 8


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
    runs = tuple(real_runs(AnalysisContext(views=2), "repaired"))
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


def dgk() -> None:
    """A key for comparing keyed sizes at 3072 bits, and the coins of its blinds."""
    private, coins = generate_dgk_key(comparison_bits=96), RecordedRandomness()
    public = private.public_key
    assert public.n.bit_length() == BITS
    assert gmpy2.is_prime(public.u)
    assert public.u > 3 * 96 + 2
    order = private._v_p
    assert order.bit_length() == 256  # twice 128, the security of 3072 bits
    assert gmpy2.is_prime(order)
    assert gmpy2.powmod(public.h, order, private._p) == 1 != public.h % private._p
    blinds = public.blinds(4, coins)
    assert len(set(blinds)) == 4
    assert len(coins.tape()) * 8 >= 4 * 640  # 2.5 times that, in whole bytes


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
    assert law.distance == 2.0**-160
    assert (1 + math.exp(64)) * 2.0**-160 < 2.0**-64
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


def series_tails() -> None:
    """Where PSGD's noise is drawn again: over a whole series, of all parties and entries, with probability 2^-66."""
    steps, parties, d = 200, 25, 30
    variants: tuple[Variant, ...] = ("paper", "gaussian")
    for variant in variants:
        series = agree(DescentOptions(variant=variant, steps=steps), [100] * parties, d).series
        each, bound = parties * d, series.step_bound(1)
        if variant == "gaussian":
            tail = 2 * each * steps * float(stats.norm.sf((bound - 1) / math.sqrt(series.step_scale)))
        else:
            units = series.step_scale / series.pitch
            tail = each * steps * float(stats.gamma.sf((bound - 1) / units, d))
            sigma = max(series.fixed_sigmas) / series.pitch
            tail += 2 * each * float(stats.norm.sf((series.fixed_bound() - 1) / sigma))
        assert tail <= 2.0**-66


# -- the table


@dataclass(frozen=True)
class Parameter:
    """A row."""

    name: str
    at: str
    must: str
    measure: Callable[[], None]
    weaker: Any = None

    @property
    def value(self) -> str:
        """Of a constant; a function's is what the bound says."""
        constant = _attribute(self.at)
        return "" if callable(constant) or not isinstance(constant, int | float | tuple) else _as_text(constant)


def _attribute(at: str) -> Any:
    module, name = at.rsplit(".", 1)
    try:
        return getattr(import_module(f"psephos.{module}"), name)
    except ModuleNotFoundError:  # a method
        return getattr(_attribute(module), name)


def _as_text(value: Any) -> str:
    exponent = math.log2(value) if isinstance(value, float) and value > 0 else 0.5
    return f"2^{exponent:.0f}" if exponent == round(exponent) and abs(exponent) > 10 else str(value)


_PROOFS, _PAILLIER, _PATHAK = "protocol.proofs", "protocol.paillier", "protocol.pathak"
_NOISE, _CEREMONY = "protocol.privacy", "protocol.ceremony"

PARAMETERS: tuple[Parameter, ...] = (
    Parameter("length of a modulus", f"{_PAILLIER}.keys.DEFAULT_KEY_BITS", "3072 bits: 128-bit security", keys),
    Parameter("least length", f"{_PAILLIER}.keys.MINIMUM_KEY_BITS", "2048 bits, unless called a test key", keys, 1024),
    Parameter(
        "small factors of (p - 1)/2",
        f"{_PAILLIER}.private_key._SMALL_PRIME_BOUND",
        "none below 2^16; p = q = 3 modulo 4, gcd(p - 1, q - 1) = 2: what `half` rests on",
        keys,
    ),
    Parameter(
        "h_s",
        f"{_PAILLIER}.encryption.fixed_base",
        "(-x^2)^n, x a hash of n 128 bits longer than n",
        partial(exponents, "half"),
    ),
    Parameter(
        "exponent, `half`",
        f"{_PAILLIER}.encryption.exponent_bits",
        "at least half as long as n",
        partial(exponents, "half"),
    ),
    Parameter(
        "exponent, `short`",
        f"{_PAILLIER}.encryption.exponent_bits",
        "at least twice the security level: 256 bits",
        partial(exponents, "short"),
    ),
    Parameter("unit, `full`", f"{_PAILLIER}.encryption.random_unit", "uniform modulo n", partial(exponents, "full")),
    Parameter(
        "slack of shares",
        f"{_PAILLIER}.sharing.STATISTICAL_BITS",
        "coefficients uniform below 2^128 Delta^2 n^2, constant a multiple of Delta: shares tell 2^-128",
        key_shares,
        40,
    ),
    Parameter(
        "length of a share's exponent",
        f"{_PAILLIER}.threshold.ThresholdKey.exponent_bits",
        "no 2 Delta f(j) is longer: what proofs hide is",
        key_shares,
    ),
    Parameter("threshold", f"{_PAILLIER}.threshold.combine", "t shares open, t - 1 do not", threshold),
    Parameter(
        "challenge",
        f"{_PROOFS}.challenge.CHALLENGE_BITS",
        "128 bits of a hash of everything that is claimed",
        knowledge_proofs,
        64,
    ),
    Parameter(
        "mask in a proof of knowledge",
        f"{_PROOFS}.challenge.HIDING_BITS",
        "80 bits longer than 2^16 challenges times an exponent",
        knowledge_proofs,
        20,
    ),
    Parameter(
        "mask in a proof of a partial decryption",
        f"{_PROOFS}.challenge.HIDING_BITS",
        "80 bits longer than the challenge times the longest share's exponent",
        opening_proofs,
        20,
    ),
    Parameter(
        "mask in a proof of validity",
        f"{_PROOFS}.challenge.HIDING_BITS",
        "80 bits longer than the challenges times the plaintexts",
        validity_proofs,
        20,
    ),
    Parameter("columns opened", f"{_PROOFS}.codewords.QUERIES", "(5/8)^k < 2^-103", validity_proofs, 100),
    Parameter("rate of codewords", f"{_PROOFS}.codewords.RATE", "8", validity_proofs, 4),
    Parameter(
        "repeats of combinations", f"{_PROOFS}.codewords.REPEATS", "2, each wrong with 2^-51", validity_proofs, 1
    ),
    Parameter(
        "primes of equations", f"{_PROOFS}.codewords.PRIMES", "6 of 31 bits: wrong with 2^-112", validity_proofs, 3
    ),
    Parameter("degrees", f"{_PROOFS}.codewords.DEGREES", "256, 512 or 1024", validity_proofs, (128,)),
    Parameter("salt of a leaf", f"{_PROOFS}.codewords.SALT_BYTES", "32 bytes", validity_proofs, 8),
    Parameter("hash in a tree", f"{_PROOFS}.merkle.HASH_BYTES", "32 bytes", validity_proofs),
    Parameter("weights of many proofs", f"{_PROOFS}.knowledge.WEIGHT_BITS", "64 fresh bits each", batch_weights, 16),
    Parameter(
        "digests of terms",
        "protocol.encrypted_sum.rounds.Round.digest",
        "SHA-256 over every field: round, key, plan, series, ceremony, Pathak's terms, study, auxiliary samples",
        digests,
    ),
    Parameter(
        "digest of a product",
        "protocol.encrypted_sum.product.BallotProduct.digest",
        "over every ciphertext",
        product_digests,
    ),
    Parameter(
        "signatures",
        "protocol.signing.SIGNATURE_BYTES",
        "Ed25519, over every byte of a ballot and an entry",
        signatures,
    ),
    Parameter("signing keys", "protocol.signing.VERIFICATION_KEY_BYTES", "32 bytes", signatures),
    Parameter("digests", "protocol.wire.DIGEST_BYTES", "32 bytes", signatures),
    Parameter(
        "nonces",
        "protocol.encrypted_sum.rounds.Round.create",
        "16 fresh bytes of every round, series, deal and run of Pathak's protocol",
        nonces,
    ),
    Parameter(
        "sealed messages", "protocol.board.sealing.SEALING_KEY_BYTES", "HPKE: key of 32, tag of 16 bytes", sealing
    ),
    Parameter(
        "holders that confirm",
        "protocol.encrypted_sum.rounds.safe_confirmations",
        "the fewest with which t - 1 liars have no two products opened",
        confirmations,
    ),
    Parameter(
        "tests of a ceremony's winner",
        f"{_CEREMONY}.search.CONFIRMATIONS",
        "80: wrong with 2^-80",
        ceremony_messages,
        40,
    ),
    Parameter("tests of its form", f"{_CEREMONY}.search.FORM_MASKS", "3", ceremony_messages, 1),
    Parameter("bases of the proof of form", f"{_CEREMONY}.form.FORM_BITS", "r^k >= 2^96", form_bases, 40),
    Parameter("seeds of a ceremony", f"{_CEREMONY}.replicated.SEED_BYTES", "32 bytes", ceremony_messages),
    Parameter(
        "messages between two holders",
        f"{_CEREMONY}.pairs.TAG_BYTES",
        "X25519, HKDF, ChaCha20-Poly1305: a tag of 16 bytes, a key for each thing it is about",
        pair_seals,
    ),
    Parameter("free bits on top of p", f"{_CEREMONY}.terms._TOP_BITS", "at least 8 in every piece", ceremony_masks),
    Parameter(
        "mask of the exponent's shares",
        f"{_CEREMONY}.search.exponent_share_bits",
        "128 bits more than beta phi(n), beta 128 bits longer than n",
        ceremony_masks,
    ),
    Parameter("tie-breakers", f"{_PATHAK}.messages.TIE_BITS", "64 bits: equal with 2^-64", pathak_masks),
    Parameter("share of a size", f"{_PATHAK}.messages.SHARE_BITS", "80 bits more than a keyed size", pathak_masks),
    Parameter("mask of a share", f"{_PATHAK}.messages.MASK_BITS", "80 bits more than a share", pathak_masks),
    Parameter("mask of the noise", f"{_PATHAK}.noise.mask_bits", "80 bits more than the noise spans", pathak_masks),
    Parameter("modulus of shares", f"{_PATHAK}.noise.modulus_bits", "holds every sum", pathak_masks),
    Parameter(
        "all of Pathak's masks",
        f"{_PATHAK}.terms.HIDING_BITS",
        "80 bits more than what they hide",
        pathak_masks,
        30,
    ),
    Parameter("plaintexts of DGK", f"{_PATHAK}.dgk.plaintext_modulus", "a prime above 3 l + 2", dgk),
    Parameter(
        "subgroup of DGK", f"{_PATHAK}.dgk.generate_dgk_key", "primes of 256 bits at 3072; blinds of 2.5 times", dgk
    ),
    Parameter("uniform variables", f"{_NOISE}.precision.UNIFORM_BITS", "640 bits each", precision, 64),
    Parameter(
        "precision",
        f"{_NOISE}.precision.MPFR",
        "rounds no vector wrongly at 2^90 steps a scale",
        precision,
        gmpy2.context(precision=64),
    ),
    Parameter(
        "a sampler's distance from its law",
        f"{_NOISE}.mechanisms.SAMPLER_DISTANCE",
        "2^-160, claimed and met",
        precision,
        2.0**-80,
    ),
    Parameter(
        "largest epsilon", f"{_NOISE}.mechanisms.MAX_EPSILON", "(1 + e^epsilon) 2^-160 < 2^-64", precision, 128.0
    ),
    Parameter("least epsilon", f"{_NOISE}.mechanisms.MIN_EPSILON", "1e-9", precision, 1e-12),
    Parameter(
        "tails of joint shares",
        "parties.noise._TAIL",
        "2^-161, of all parties and entries together",
        share_tails,
        2.0**-100,
    ),
    Parameter(
        "norm of a joint share",
        "protocol.privacy.mechanisms.NORM_TAIL",
        "2^-162, of all parties together",
        share_tails,
        2.0**-80,
    ),
    Parameter(
        "tails in a series", "protocol.psgd.series._LOG_TAIL", "2^-66, over all of it", series_tails, 20 * math.log(2)
    ),
)
"""The parameters, by subject."""


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


HEAD = """# Parameters

The numbers that decide what an attacker can do: widths of masks, challenges, soundness, tails and precision of noise.
`tests/security/lab/parameters.py` measures each: it takes messages, coins or releases of the running code, under a key
of 3072 bits where a key matters, and fails unless they are as wide, long or improbable as required; the required value
is not imported. `tests/security/test_parameters.py` also runs most measurements with a weaker number, which they must
notice. A statistical measurement fails a sound product with probability 2^-31 at most. The scale of each release's
noise is measured [on what is published](../../benchmarks/README.md).

`PARAMETERS` in that file names each measurement.
"""


def page() -> str:
    """The site's page of the parameters."""
    rows = [HEAD, "| parameter | value | must be | defined |", "| --- | --- | --- | --- |"]
    rows += [f"| {one.name} | {one.value} | {one.must} | `{one.at}` |" for one in PARAMETERS]
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
