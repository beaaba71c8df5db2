"""What a reader of the board can check of the key ceremony, by section 10 of docs/wire.md."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import gmpy2
import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from gmpy2 import gcd, invert, mpz, powmod

from tests.verifier.board import Bytes, Message, Refused, Study, require, sha256
from tests.verifier.paillier import Key, check_opening, combine, little

KINDS = {
    "seed commitments": 64,
    "seed contributions": 65,
    "residue products": 66,
    "residue differences": 67,
    "commitment": 68,
    "modulus shares": 69,
    "test values": 70,
    "opened candidates": 71,
    "exponent commitments": 72,
    "exponent shares": 73,
    "test decryption": 74,
    "opened seeds": 75,
    "complaint": 76,
}
CONFIRMATIONS, MASKS = 80, 3


def _primorial(bound: int) -> mpz:
    """The product of the odd primes up to a bound."""
    return gmpy2.primorial(bound) // 2


def _length(bound: int) -> int:
    return (mpz(bound).bit_length() + 7) // 8


def derive(label: str, *parts: bytes) -> bytes:
    return sha256(b"psephos ceremony: " + label.encode() + b"\0", *parts)


def committed(seed: bytes, *where: int) -> bytes:
    return derive("commitment", *(number.to_bytes(8, "big") for number in where), seed)


def stream(seed: bytes, label: str, count: int) -> bytes:
    return Cipher(algorithms.AES(derive(label, seed)), modes.CTR(bytes(16))).encryptor().update(bytes(count))


@dataclass(frozen=True)
class Terms:
    """The numbers that follow from the length of the modulus and the numbers of holders."""

    bits: int
    holders: int
    threshold: int
    degree: int
    session: bytes

    @cached_property
    def sets(self) -> list[tuple[int, ...]]:
        return list(itertools.combinations(range(1, self.holders + 1), self.holders - (self.holders - 1) // 2))

    def of(self, holder: int) -> list[int]:
        """The sets that a holder is in."""
        return [s for s, members in enumerate(self.sets) if holder in members]

    def spoken(self, holder: int) -> list[int]:
        """The sets that a holder speaks for."""
        return [s for s, members in enumerate(self.sets) if members[s % len(members)] == holder]

    @property
    def half(self) -> int:
        return self.bits // 2

    @property
    def form_bound(self) -> int:
        return int(min(1 << 16, 1 << self.half // 8))

    @cached_property
    def primes(self) -> list[int]:
        chosen, step, prime = [], mpz(12), 5
        while prime < self.form_bound and step * prime * (len(self.sets) * 256 + 1) <= mpz(1) << (self.half - 2):
            chosen.append(prime)
            step, prime = step * prime, int(gmpy2.next_prime(prime))
        return chosen

    @cached_property
    def known(self) -> mpz:
        """3 times the primes, modulo which n is known."""
        return 3 * mpz(math.prod(self.primes))

    @property
    def step(self) -> mpz:
        return 4 * self.known

    @cached_property
    def top_bits(self) -> int:
        room = ((mpz(1) << (self.half - 2)) // self.step - 1) // len(self.sets)
        return min(32, int(room.bit_length()) - 1)

    @cached_property
    def offset(self) -> mpz:
        odd, least = self.known // 3, mpz(3) << (self.half - 2)
        first = least + -least % odd
        return next(first + k * odd for k in range(12) if (first + k * odd) % 12 == 11)

    @property
    def rest_bits(self) -> int:
        return self.bits - int(self.known.bit_length()) + 2

    @cached_property
    def batch(self) -> int:
        last, form = math.log(self.primes[-1]), math.log(self.form_bound)
        prime = math.exp(0.5772156649) * last / (self.half * math.log(2))
        success = (prime * min(1.0, last / form)) ** 2
        return max(16, min(1024, round(1 / (6 * success))))

    @cached_property
    def draws(self) -> list[int]:
        rates = [((prime - 2) / prime) ** 2 * (prime - 1) / prime for prime in self.primes]
        spread = [6 * math.sqrt(self.batch * (1 - rate)) + 6 for rate in rates]
        return [math.ceil((self.batch + more) / rate) for more, rate in zip(spread, rates, strict=True)]

    @cached_property
    def larger(self) -> mpz:
        """The product of the primes between the largest l and the bound of the form."""
        return _primorial(self.form_bound) // gcd(_primorial(self.form_bound), self.step)

    def about(self, n: mpz) -> bytes:
        return self.session + int(n).to_bytes(self.bits // 8 + 1, "big")

    def hashed(self, n: mpz, label: str, bound: mpz) -> mpz:
        """A public number below a bound."""
        seed = f"psephos {label}\0".encode() + self.about(n)
        size = (int(bound.bit_length()) + 135) // 8
        return mpz(int.from_bytes(hashlib.shake_256(seed).digest(size), "big")) % bound

    def form_modulus(self, n: mpz) -> mpz:
        return ((n - 1) >> gmpy2.bit_scan1(n - 1)) * self.larger

    def is_clean(self, n: mpz, multiple: mpz) -> bool:
        """Whether a multiple of phi(n) has no factor that phi(n) must not have."""
        rest, small = gcd(multiple, n - 1), 2 * _primorial(self.form_bound)
        while (common := gcd(rest, small)) != 1:
            rest //= common
        return bool(gcd(multiple, self.larger) == 1 and rest == 1)

    def is_good(self, p: mpz, q: mpz) -> bool:
        return bool(gmpy2.is_prime(p) and gmpy2.is_prime(q) and self.is_clean(p * q, (p - 1) * (q - 1)))


def terms_of(study: Study) -> Terms:
    return Terms(study.bits, study.holders, study.threshold, study.degree, study.ceremony)


class Rounds:
    """The messages of the holders, of which each round takes one of a kind from each."""

    def __init__(self, terms: Terms, messages: Sequence[Message]) -> None:
        self.terms, self._messages = terms, iter(messages)
        self._names = [f"holder {number}" for number in range(1, terms.holders + 1)]
        self._arrived: dict[int, dict[str, bytes]] = {}

    def next(self, kind: str, batch: int, stage: int, length: int) -> Iterator[tuple[int, Bytes]]:
        """The holders' numbers and bodies, behind batch and stage."""
        for number, data in self.whole(kind):
            yield number, self.body(kind, batch, stage, data, length)

    def whole(self, kind: str) -> list[tuple[int, bytes]]:
        """The holders' numbers and messages of a kind."""
        arrived = self._arrived.setdefault(KINDS[kind], {})
        while len(arrived) < len(self._names):
            message = next(self._messages, None)
            require(message is not None, f"the ceremony waits for the {kind} of a holder")
            assert message is not None
            require(message.kind != KINDS["complaint"] or message.sender not in self._names, "a holder complains")
            if message.sender in self._names:
                self._arrived.setdefault(message.kind, {}).setdefault(message.sender, message.data)
        del self._arrived[KINDS[kind]]
        return [(number, arrived[name]) for number, name in enumerate(self._names, 1)]

    def body(self, kind: str, batch: int, stage: int, data: bytes, length: int) -> Bytes:
        require(data[9:41] == self.terms.session, f"the {kind} belongs to another ceremony")
        body = Bytes(data[41:])
        require(len(body.data) == length + 5, f"the {kind} has another length")
        require((body.integer(4), body.integer(1)) == (batch, stage), f"the {kind} belongs to another batch or stage")
        return body

    def messages_of(self, kind: str, batch: int, stage: int, committed_in: int) -> list[tuple[int, bytes]]:
        """The messages of a kind, each after a commitment to it."""
        promised = {j: body.rest() for j, body in self.next("commitment", batch, committed_in, 32)}
        messages = self.whole(kind)
        for j, data in messages:
            require(promised[j] == sha256(f"holder {j}\0".encode(), data), f"holder {j} committed to other {kind}")
        return messages


def _integers(body: Bytes, count: int, bound: mpz) -> list[mpz]:
    numbers = [little(body.take(_length(bound))) for _ in range(count)]
    require(all(number < bound for number in numbers), "a number is out of range")
    return numbers


def _packed_bytes(terms: Terms) -> int:
    return sum((c * prime.bit_length() + 7) // 8 for prime, c in zip(terms.primes, terms.draws, strict=True))


def _residues(terms: Terms, body: Bytes) -> list[np.ndarray]:
    """The residues modulo each prime."""
    residues = []
    for prime, count in zip(terms.primes, terms.draws, strict=True):
        width = prime.bit_length()
        bits = np.unpackbits(np.frombuffer(body.take((count * width + 7) // 8), np.uint8))[: count * width]
        residues.append(bits.reshape(count, width).astype(np.int64) @ (1 << np.arange(width)))
        require((residues[-1] < prime).all(), "a residue is out of range")
    return residues


# -- a batch of candidates


@dataclass
class Batch:
    """What the messages of a batch show."""

    number: int
    commitments: list[bytes]
    products: list[np.ndarray]
    differences: list[np.ndarray]
    chosen: list[np.ndarray]
    moduli: list[mpz]
    tested: list[int]
    passed: list[int]
    confirmed: list[int]
    form_sums: dict[int, list[mpz]]
    winner: int | None = None


def _candidates(terms: Terms, products: list[np.ndarray], chosen: list[np.ndarray], rests: list[mpz]) -> list[mpz]:
    units = [terms.known // prime * invert(terms.known // prime, prime) for prime in (3, *terms.primes)]
    inverse, power, candidates = invert(terms.known, 1 << terms.rest_bits), mpz(1) << terms.rest_bits, []
    for place, rest in enumerate(rests):
        residues = [1, *(int(y[at[place]]) for y, at in zip(products, chosen, strict=True))]
        x = sum(r * unit for r, unit in zip(residues, units, strict=True)) % terms.known
        candidates.append(x + terms.known * ((rest - x) * inverse % power))
    return candidates


def _passes(terms: Terms, place: int, n: mpz, values: list[list[mpz]]) -> bool:
    first = place % terms.holders
    for claimed in zip(*values, strict=True):
        product = math.prod(value for j, value in enumerate(claimed) if j != first) % n
        if (claimed[first] - product) % n and (claimed[first] + product) % n:
            return False
    return True


def _read_batch(terms: Terms, rounds: Rounds, number: int) -> Batch:
    """Read one batch up to the test that decides it."""
    of_set: dict[int, set[bytes]] = {}
    products = [np.zeros(count, np.int64) for count in terms.draws]
    own_sets = 32 * len(terms.of(1))
    for j, body in rounds.next("residue products", number, 0, own_sets + _packed_bytes(terms)):
        for s in terms.of(j):
            of_set.setdefault(s, set()).add(body.take(32))
        products = [x + y for x, y in zip(products, _residues(terms, body), strict=True)]
    require(all(len(several) == 1 for several in of_set.values()), "holders of one set committed to different seeds")
    differences = [np.zeros(count, np.int64) for count in terms.draws]
    for _, body in rounds.next("residue differences", number, 0, _packed_bytes(terms)):
        differences = [x + y for x, y in zip(differences, _residues(terms, body), strict=True)]
    products = [x % prime for x, prime in zip(products, terms.primes, strict=True)]
    differences = [x % prime for x, prime in zip(differences, terms.primes, strict=True)]
    units = [np.flatnonzero((y != 0) & (z != 0)) for y, z in zip(products, differences, strict=True)]
    count = min(terms.batch, *map(len, units))
    chosen = [places[:count] for places in units]
    rests, bound = [mpz(0)] * count, mpz(1) << terms.rest_bits
    for _, data in rounds.messages_of("modulus shares", number, 0, 2):
        body = rounds.body("modulus shares", number, 0, data, count * _length(bound))
        rests = [(x + y) % bound for x, y in zip(rests, _integers(body, count, bound), strict=True)]
    moduli = _candidates(terms, products, chosen, rests)
    small = _primorial(1 << 20)
    tested = [k for k, n in enumerate(moduli) if n.bit_length() == terms.bits and n % 2 and gcd(small % n, n) == 1]
    commitments = [of_set[s].pop() for s in range(len(terms.sets))]
    batch = Batch(number, commitments, products, differences, chosen, moduli, tested, [], [], {})
    values = _test_values(terms, rounds, batch, 0)
    batch.passed = [k for k in tested if _passes(terms, k, moduli[k], [of_holder[k][0] for of_holder in values])]
    if batch.passed:
        values = _test_values(terms, rounds, batch, 1)
        for k in batch.passed:
            n = moduli[k]
            batch.form_sums[k] = [
                mpz(sum(each)) for each in zip(*(of_holder[k][1] for of_holder in values), strict=True)
            ]
            if _passes(terms, k, n, [of_holder[k][0] for of_holder in values]):
                batch.confirmed.append(k)
        good = [k for k in batch.confirmed if _has_good_form(terms, moduli[k], batch.form_sums[k])]
        batch.winner = good[0] if good else None
    return batch


def _has_good_form(terms: Terms, n: mpz, sums: list[mpz]) -> bool:
    modulus = terms.form_modulus(n)
    return terms.is_clean(n, gcd(modulus, *(x % modulus for x in sums)))


def _test_values(
    terms: Terms, rounds: Rounds, batch: Batch, stage: int
) -> list[dict[int, tuple[list[mpz], list[mpz]]]]:
    """Each holder's values of every candidate under test, and its three numbers modulo R."""
    places, count = (batch.tested, 1) if stage == 0 else (batch.passed, CONFIRMATIONS)
    moduli = {k: batch.moduli[k] for k in places}
    bounds = {k: terms.form_modulus(n) for k, n in moduli.items()} if stage else {}
    length = sum(count * _length(n) for n in moduli.values()) + MASKS * sum(map(_length, bounds.values()))
    all_values = []
    for _, data in rounds.messages_of("test values", batch.number, stage, stage):
        body, of_holder = rounds.body("test values", batch.number, stage, data, length), {}
        for k, n in moduli.items():
            values = _integers(body, count, n)
            require(all(gcd(value, n) == 1 for value in values), "a test value is no unit")
            of_holder[k] = values, _integers(body, MASKS, bounds[k]) if stage else []
        all_values.append(of_holder)
    return all_values


def _uniform(terms: Terms, seed: bytes, label: str) -> list[np.ndarray]:
    """A seed's residues modulo each prime."""
    primes = np.repeat(np.array(terms.primes, dtype=np.int64), terms.draws)
    scaled = np.frombuffer(stream(seed, label, 2 * len(primes)), "<u2").astype(np.int64) * primes
    again = 0
    while len(biased := np.flatnonzero(scaled % 65536 < 65536 % primes)):
        again += 1
        words = np.frombuffer(stream(seed, f"{label} again {again}", 2 * len(biased)), "<u2")
        scaled[biased] = words.astype(np.int64) * primes[biased]
    return np.split(scaled // 65536, np.cumsum(terms.draws)[:-1])


def _factors(terms: Terms, batch: Batch, seeds: Sequence[bytes], label: str) -> list[mpz]:
    """The p (label a) or the q (label b) of all candidates."""
    factors = [terms.offset] * len(batch.moduli)
    units = [terms.step // prime * invert(terms.step // prime, prime) for prime in terms.primes]
    for seed in seeds:
        tops = np.frombuffer(stream(seed, f"top of {label}", 4 * len(factors)), "<u4") >> (32 - terms.top_bits)
        residues = _uniform(terms, seed, label)
        for k, top in enumerate(tops.tolist()):
            parts = (int(r[at[k]]) * unit for r, at, unit in zip(residues, batch.chosen, units, strict=True))
            factors[k] += sum(parts) % terms.step + terms.step * top
    return factors


def _check_rejected_batch(terms: Terms, rounds: Rounds, batch: Batch) -> None:
    """Check a batch without a winner, whose seeds are opened."""
    seeds = dict[int, bytes]()
    for j, data in rounds.whole("opened candidates"):
        body = rounds.body("opened candidates", batch.number, 0, data, 32 * len(terms.spoken(j)))
        for s in terms.spoken(j):
            seeds[s] = body.take(32)
            require(committed(seeds[s], batch.number, s) == batch.commitments[s], "another seed was committed to")
    ordered = [seeds[s] for s in range(len(terms.sets))]
    a, b, c = (
        [sum(several) % prime for several, prime in zip(zip(*parts, strict=True), terms.primes, strict=True)]
        for parts in ([_uniform(terms, seed, label) for seed in ordered] for label in "abc")
    )
    for at, prime in enumerate(terms.primes):
        right = a[at] * b[at] % prime, c[at] * (a[at] - 1) % prime * (b[at] - 1) % prime
        openings = batch.products[at], batch.differences[at]
        require(all(map(np.array_equal, right, openings)), "the opened residues do not follow from the seeds")
    pairs = list(zip(_factors(terms, batch, ordered, "a"), _factors(terms, batch, ordered, "b"), strict=True))
    require(all(p * q == n for (p, q), n in zip(pairs, batch.moduli, strict=True)), "a candidate is no product")
    for k in batch.tested:
        p, q = pairs[k]
        if not terms.is_good(p, q):
            continue
        require(k in batch.confirmed, "a good candidate was rejected")
        modulus = terms.form_modulus(p * q)
        size = (int(modulus.bit_length()) + 135) // 8
        for time, total in enumerate(batch.form_sums[k]):
            masks = sum(little(stream(seed, f"mask {time} of form {k}", size)) % modulus for seed in ordered)
            require((total - masks * (p - 1) * (q - 1)) % modulus == 0, "the form of a good candidate is hidden")


def _check_rejected_candidates(terms: Terms, rounds: Rounds, batch: Batch) -> None:
    """Check all candidates but the winner, whose pieces are opened."""
    bound, others = terms.step << terms.top_bits, [k for k in range(len(batch.moduli)) if k != batch.winner]
    sums = [[terms.offset] * len(others), [terms.offset] * len(others)]
    for j, data in rounds.whole("opened candidates"):
        length = 2 * len(others) * _length(bound) * len(terms.spoken(j))
        body = rounds.body("opened candidates", batch.number, 0, data, length)
        for _ in terms.spoken(j):
            for which in range(2):
                pieces = _integers(body, len(others), bound)
                sums[which] = [x + y for x, y in zip(sums[which], pieces, strict=True)]
    assert batch.winner is not None
    for k, p, q in zip(others, *sums, strict=True):
        require(p * q == batch.moduli[k], "a rejected candidate is not the product of its factors")
        require(gcd((p - 1) * (q - 1), terms.step) == 4, "a rejected candidate has a small factor")
        spare = k in batch.passed and k > batch.winner
        require(spare or k not in batch.tested or not terms.is_good(p, q), "a good candidate was rejected")


# -- the key


def _form_weights(terms: Terms, n: mpz, sums: list[mpz]) -> mpz:
    """The first weighted sum of the opened multiples of phi(n) that has no forbidden factor."""
    for a, b in sorted(itertools.product(range(16), repeat=2), key=sum):
        total = sums[0] + a * sums[1] + b * sums[2]
        if terms.is_clean(n, total):
            return total
    raise Refused("every weighted sum has a forbidden factor")


def _form_bases(terms: Terms, n: mpz, label: str, smallest: int) -> list[mpz]:
    count, size = math.ceil(96 / math.log2(smallest)), (int(n.bit_length()) + 135) // 8
    data = hashlib.shake_256(f"psephos form {label}\0".encode() + terms.about(n)).digest(size * count)
    return [mpz(int.from_bytes(data[at : at + size], "big")) ** 2 % n for at in range(0, len(data), size)]


def _check_form(n: mpz, modulus: mpz, bases: list[mpz], total: mpz, roots: list[list[mpz]]) -> None:
    for base, *of_holders in zip(bases, *roots, strict=True):
        product = powmod(math.prod(of_holders) % n, modulus, n)
        require(powmod(base, total, n) * product % n == 1, "the proof of the form does not hold")


def _read_key(terms: Terms, rounds: Rounds, batch: Batch) -> Key:
    """Read the holders' commitments to the exponent, and check the form of the modulus."""
    assert batch.winner is not None
    n, t = batch.moduli[batch.winner], terms.threshold
    order, modulus, forms = n**terms.degree, n ** (terms.degree + 1), terms.form_modulus(n)
    bases = [
        _form_bases(terms, n, "sieved", 3),
        _form_bases(terms, n, "larger", int(gmpy2.next_prime(terms.primes[-1]))),
    ]
    roots_of = [len(several) for several in bases]
    length = _length(order) + t * _length(modulus) + _length(terms.known) + sum(roots_of) * _length(n)
    theta, first, rest = mpz(0), mpz(1), mpz(0)
    polynomials: list[list[mpz]] = []
    roots: list[list[list[mpz]]] = [[], []]
    for _, body in rounds.next("exponent commitments", batch.number, 1, length):
        theta += _integers(body, 1, order)[0]
        polynomials.append(_integers(body, t, modulus))
        rest += _integers(body, 1, terms.known)[0]
        for which, count in enumerate(roots_of):
            roots[which].append(_integers(body, count, n))
        units = (*polynomials[-1], *roots[0][-1], *roots[1][-1])
        require(all(gcd(number, n) == 1 for number in units), "a number is no unit")
        first = first * polynomials[-1][0] % n
    theta %= order
    require(first == 1, "the shares of d do not add up to a multiple of the order")
    require(gcd(theta, n) == 1, "theta is no unit")
    require(gcd(rest, terms.known) == 1, "phi(n) has a small factor")
    _check_form(n, terms.known, bases[0], rest, roots[0])
    _check_form(n, forms, bases[1], _form_weights(terms, n, batch.form_sums[batch.winner]), roots[1])
    values = []
    for holder in range(1, terms.holders + 1):
        value = mpz(1)
        for polynomial in polynomials:
            for k, coefficient in enumerate(polynomial):
                value = value * powmod(coefficient, holder**k, modulus) % modulus
        values.append(powmod(value, 2 * math.factorial(terms.holders), modulus))
    base = powmod(terms.hashed(n, "verification base", modulus), 2, modulus)
    return Key(n, terms.degree, terms.holders, t, sha256(terms.about(n))[:16], theta, base, tuple(values))


def _check_decryptions(terms: Terms, rounds: Rounds, batch: Batch, key: Key) -> None:
    """Check that any t holders open the test ciphertexts."""
    plaintexts = [terms.hashed(key.n, f"plaintext {i}", key.plain) for i in range(2)]
    units = [terms.hashed(key.n, f"unit {i}", key.n) for i in range(2)]
    ciphertexts = tuple(
        key.generator_power(m) * powmod(u, key.plain, key.modulus) % key.modulus
        for m, u in zip(plaintexts, units, strict=True)
    )
    answer = (key.exponent_bits + 216) // 8
    parts = {}
    for j, body in rounds.next("test decryption", batch.number, 1, 4 * key.size + answer):
        parts[j] = tuple(_integers(body, 2, key.modulus))
        key.check_units(parts[j])
        statement = terms.session + bytes([KINDS["test decryption"], j])
        wrong = check_opening(key, j, statement, ciphertexts, parts[j], body.rest())
        require(not wrong, wrong)
    for several in itertools.combinations(parts, terms.threshold):
        opened = combine(key, {j: parts[j] for j in several})
        require(opened == plaintexts, "the holders do not open the test ciphertexts")


def key_of_ceremony(study: Study, messages: Sequence[Message]) -> Key:
    """Check a ceremony and return the key that it makes; raises Refused where it makes none."""
    terms = terms_of(study)
    rounds, others = Rounds(terms, messages), terms.holders - 1
    for _, body in rounds.next("seed commitments", 0, 0, 32 * (len(terms.of(1)) + others)):
        body.take(32 * len(terms.of(1)))
        for _ in range(others):
            try:
                X25519PrivateKey.generate().exchange(X25519PublicKey.from_public_bytes(body.take(32)))
            except ValueError:
                raise Refused("a key of a pair has small order") from None
    common = sum(1 for members in terms.sets if {1, 2} <= set(members))
    list(rounds.next("seed contributions", 0, 0, (32 * common + 16) * others))
    for number in itertools.count():
        batch = _read_batch(terms, rounds, number)
        if batch.winner is not None:
            break
        _check_rejected_batch(terms, rounds, batch)
    _check_rejected_candidates(terms, rounds, batch)
    key = _read_key(terms, rounds, batch)
    holders = terms.holders
    share = mpz(terms.threshold * holders ** (terms.threshold - 1) * math.factorial(holders) ** 2) << (
        (terms.degree + 1) * terms.bits + 2 * 128 + 3 * len(terms.sets).bit_length() + 2 + 128
    )
    list(rounds.next("exponent shares", batch.number, 1, (_length(share) + 16) * others))
    _check_decryptions(terms, rounds, batch, key)
    return key
