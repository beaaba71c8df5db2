"""What a reader of the board can check of the key ceremony, by section 10 of docs/wire.md."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import gmpy2
import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from gmpy2 import gcd, invert, mpz, powmod
from numpy.typing import NDArray

from tests.verifier.board import Bytes, Message, Refused, Study, check_sealing_key, require, sha256
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
Residues = NDArray[np.int64]


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


class Terms:
    """The numbers that follow from the length of the modulus and the numbers of holders."""

    def __init__(self, bits: int, holders: int, threshold: int, degree: int, session: bytes) -> None:
        self.bits, self.holders, self.threshold, self.degree, self.session = bits, holders, threshold, degree, session
        self.sets = list(itertools.combinations(range(1, holders + 1), holders - (holders - 1) // 2))
        self.form_bound = min(1 << 16, 1 << bits // 16)
        self.quarter = mpz(1) << (bits // 2 - 2)
        self.step, self.primes, prime = mpz(12), list[int](), 5
        while prime < self.form_bound and self.step * prime * (len(self.sets) * 256 + 1) <= self.quarter:
            self.primes.append(prime)
            self.step, prime = self.step * prime, int(gmpy2.next_prime(prime))
        self.known = self.step // 4
        """Modulo which n is known."""
        self.rest_bits = bits - int(self.known.bit_length()) + 2
        room = (self.quarter // self.step - 1) // len(self.sets)
        self.top_bits = min(32, int(room.bit_length()) - 1)
        odd = self.known // 3
        first = 3 * self.quarter + -3 * self.quarter % odd
        self.offset = next(first + k * odd for k in range(12) if (first + k * odd) % 12 == 11)
        small = _primorial(self.form_bound)
        self.larger = small // gcd(small, self.step)
        """The product of the primes between the largest l and the bound of the form."""

    @cached_property
    def batch(self) -> int:
        last, form = math.log(self.primes[-1]), math.log(self.form_bound)
        prime = math.exp(0.5772156649) * last / (self.bits // 2 * math.log(2))
        success = (prime * min(1.0, last / form)) ** 2
        return max(16, min(1024, round(1 / (6 * success))))

    @cached_property
    def draws(self) -> list[int]:
        rates = [((prime - 2) / prime) ** 2 * (prime - 1) / prime for prime in self.primes]
        spread = [6 * math.sqrt(self.batch * (1 - rate)) + 6 for rate in rates]
        return [math.ceil((self.batch + more) / rate) for more, rate in zip(spread, rates, strict=True)]

    @property
    def packed_bytes(self) -> int:
        """The length of packed residues."""
        return sum((c * prime.bit_length() + 7) // 8 for prime, c in zip(self.primes, self.draws, strict=True))

    def of(self, holder: int) -> list[int]:
        """The sets that a holder is in."""
        return [s for s, members in enumerate(self.sets) if holder in members]

    def spoken(self, holder: int) -> list[int]:
        """The sets that a holder speaks for."""
        return [s for s, members in enumerate(self.sets) if members[s % len(members)] == holder]

    def about(self, n: mpz) -> bytes:
        return self.session + int(n).to_bytes(self.bits // 8 + 1, "big")

    def hashed(self, n: mpz, label: str, bound: mpz, count: int = 1) -> list[mpz]:
        """Public numbers below a bound."""
        size = (int(bound.bit_length()) + 135) // 8
        data = hashlib.shake_256(f"psephos {label}\0".encode() + self.about(n)).digest(size * count)
        return [mpz(int.from_bytes(data[at : at + size], "big")) % bound for at in range(0, len(data), size)]

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

    def next(
        self, kind: str, batch: int, stage: int, length: int | Callable[[int], int], *, committed_in: int | None = None
    ) -> Iterator[tuple[int, Bytes]]:
        """The holders' numbers and bodies, behind batch and stage; `committed_in`: the stage of commitments to them."""
        promised = {}
        if committed_in is not None:
            promised = {j: body.rest() for j, body in self.next("commitment", batch, committed_in, 32)}
        for j, data in enumerate(self._whole(kind), 1):
            digest = sha256(f"holder {j}\0".encode(), data)
            require(promised.get(j, digest) == digest, f"holder {j} committed to other {kind}")
            require(data[9:41] == self.terms.session, f"the {kind} belongs to another ceremony")
            body, expected = Bytes(data[41:]), length if isinstance(length, int) else length(j)
            require(len(body.data) == expected + 5, f"the {kind} has another length")
            require((body.integer(4), body.integer(1)) == (batch, stage), f"the {kind} is of another batch or stage")
            yield j, body

    def _whole(self, kind: str) -> list[bytes]:
        """The holders' messages of a kind."""
        arrived = self._arrived.setdefault(KINDS[kind], {})
        while len(arrived) < len(self._names):
            message = next(self._messages, None)
            if message is None:
                raise Refused(f"the ceremony waits for the {kind} of a holder")
            require(message.kind != KINDS["complaint"] or message.sender not in self._names, "a holder complains")
            if message.sender in self._names:
                self._arrived.setdefault(message.kind, {}).setdefault(message.sender, message.data)
        del self._arrived[KINDS[kind]]
        return [arrived[name] for name in self._names]


def _integers(body: Bytes, count: int, bound: mpz) -> list[mpz]:
    numbers = [little(body.take(_length(bound))) for _ in range(count)]
    require(all(number < bound for number in numbers), "a number is out of range")
    return numbers


def _residues(terms: Terms, body: Bytes) -> list[Residues]:
    """The residues modulo each prime."""
    residues = []
    for prime, count in zip(terms.primes, terms.draws, strict=True):
        width = prime.bit_length()
        bits = np.unpackbits(np.frombuffer(body.take((count * width + 7) // 8), np.uint8))[: count * width]
        residues.append(bits.reshape(count, width).astype(np.int64) @ (1 << np.arange(width)))
        require((residues[-1] < prime).all(), "a residue is out of range")
    return residues


# -- a batch of candidates


class Batch:
    """What the messages of a batch show, up to the test that decides it."""

    def __init__(self, terms: Terms, rounds: Rounds, number: int) -> None:
        self.terms, self.rounds, self.number = terms, rounds, number
        of_set: dict[int, set[bytes]] = {s: set() for s in range(len(terms.sets))}
        self.products = self._opened("residue products", of_set)
        require(
            all(len(several) == 1 for several in of_set.values()), "holders of one set committed to different seeds"
        )
        self.commitments = [several.pop() for several in of_set.values()]
        self.differences = self._opened("residue differences", {})
        units = [np.flatnonzero((y != 0) & (z != 0)) for y, z in zip(self.products, self.differences, strict=True)]
        count = min(terms.batch, *map(len, units))
        self.chosen = [places[:count] for places in units]
        rests, bound = [mpz(0)] * count, mpz(1) << terms.rest_bits
        for _, body in rounds.next("modulus shares", number, 0, count * _length(bound), committed_in=2):
            rests = [(x + y) % bound for x, y in zip(rests, _integers(body, count, bound), strict=True)]
        self.moduli, small = self._candidates(rests), _primorial(1 << 20)
        self.tested = [
            k for k, n in enumerate(self.moduli) if n.bit_length() == terms.bits and n % 2 and gcd(small % n, n) == 1
        ]
        self.form_sums: dict[int, list[mpz]] = {}
        self.passed = self._passing(self.tested, 0)
        self.confirmed = self._passing(self.passed, 1) if self.passed else []
        self.winner = next((k for k in self.confirmed if self._has_good_form(k)), None)

    def _opened(self, kind: str, of_set: dict[int, set[bytes]]) -> list[Residues]:
        """The sums of the holders' residues, behind commitments to the seeds of their sets."""
        terms = self.terms
        totals, own = [np.zeros(count, np.int64) for count in terms.draws], 32 * len(terms.of(1)) * bool(of_set)
        for j, body in self.rounds.next(kind, self.number, 0, own + terms.packed_bytes):
            for s in terms.of(j) if of_set else ():
                of_set[s].add(body.take(32))
            parts = zip(totals, _residues(terms, body), terms.primes, strict=True)
            totals = [(x + y) % prime for x, y, prime in parts]
        return totals

    def _candidates(self, rests: list[mpz]) -> list[mpz]:
        terms, candidates = self.terms, list[mpz]()
        units = [terms.known // prime * invert(terms.known // prime, prime) for prime in (3, *terms.primes)]
        inverse, power = invert(terms.known, 1 << terms.rest_bits), mpz(1) << terms.rest_bits
        for place, rest in enumerate(rests):
            residues = [1, *(int(y[at[place]]) for y, at in zip(self.products, self.chosen, strict=True))]
            x = sum(r * unit for r, unit in zip(residues, units, strict=True)) % terms.known
            candidates.append(x + terms.known * ((rest - x) * inverse % power))
        return candidates

    def _passing(self, places: list[int], stage: int) -> list[int]:
        """The candidates whose test values fit; adds up the holders' three numbers modulo R in stage 1."""
        terms, count, values = self.terms, CONFIRMATIONS if stage else 1, {k: list[list[mpz]]() for k in places}
        bounds = {k: terms.form_modulus(self.moduli[k]) for k in places} if stage else {}
        length = sum(count * _length(self.moduli[k]) for k in places) + MASKS * sum(map(_length, bounds.values()))
        for _, body in self.rounds.next("test values", self.number, stage, length, committed_in=stage):
            for k in places:
                n = self.moduli[k]
                values[k].append(_integers(body, count, n))
                require(all(gcd(value, n) == 1 for value in values[k][-1]), "a test value is no unit")
                if stage:
                    sums = zip(self.form_sums.get(k, [0] * MASKS), _integers(body, MASKS, bounds[k]), strict=True)
                    self.form_sums[k] = [x + y for x, y in sums]
        return [k for k in places if self._passes(k, values[k])]

    def _passes(self, place: int, values: list[list[mpz]]) -> bool:
        n, first = self.moduli[place], place % self.terms.holders
        for claimed in zip(*values, strict=True):
            product = math.prod(value for j, value in enumerate(claimed) if j != first) % n
            if (claimed[first] - product) % n and (claimed[first] + product) % n:
                return False
        return True

    def _has_good_form(self, place: int) -> bool:
        n = self.moduli[place]
        modulus = self.terms.form_modulus(n)
        return self.terms.is_clean(n, gcd(modulus, *(x % modulus for x in self.form_sums[place])))


def _uniform(terms: Terms, seed: bytes, label: str) -> list[Residues]:
    """A seed's residues modulo each prime."""
    primes = np.repeat(np.array(terms.primes, dtype=np.int64), terms.draws)
    scaled = np.frombuffer(stream(seed, label, 2 * len(primes)), "<u2").astype(np.int64) * primes
    again = 0
    while len(biased := np.flatnonzero(scaled % 65536 < 65536 % primes)):
        again += 1
        words = np.frombuffer(stream(seed, f"{label} again {again}", 2 * len(biased)), "<u2")
        scaled[biased] = words.astype(np.int64) * primes[biased]
    return np.split(scaled // 65536, np.cumsum(terms.draws)[:-1])


def _factors(batch: Batch, seeds: Sequence[bytes], label: str) -> list[mpz]:
    """The p (label a) or the q (label b) of all candidates."""
    terms, factors = batch.terms, [batch.terms.offset] * len(batch.moduli)
    units = [terms.step // prime * invert(terms.step // prime, prime) for prime in terms.primes]
    for seed in seeds:
        tops = np.frombuffer(stream(seed, f"top of {label}", 4 * len(factors)), "<u4") >> (32 - terms.top_bits)
        residues = _uniform(terms, seed, label)
        for k, top in enumerate(tops.tolist()):
            parts = (int(r[at[k]]) * unit for r, at, unit in zip(residues, batch.chosen, units, strict=True))
            factors[k] += sum(parts) % terms.step + terms.step * top
    return factors


def _check_rejected_batch(batch: Batch) -> None:
    """Check a batch without a winner, whose seeds are opened."""
    terms, seeds = batch.terms, dict[int, bytes]()
    for j, body in batch.rounds.next("opened candidates", batch.number, 0, lambda j: 32 * len(terms.spoken(j))):
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
    pairs = list(zip(_factors(batch, ordered, "a"), _factors(batch, ordered, "b"), strict=True))
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


def _check_rejected_candidates(batch: Batch, winner: int) -> None:
    """Check all candidates but the winner, whose pieces are opened."""
    terms, others = batch.terms, [k for k in range(len(batch.moduli)) if k != winner]
    bound = terms.step << terms.top_bits
    of_set, sums = 2 * len(others) * _length(bound), [terms.offset] * (2 * len(others))
    for j, body in batch.rounds.next("opened candidates", batch.number, 0, lambda j: of_set * len(terms.spoken(j))):
        for _ in terms.spoken(j):
            sums = [x + y for x, y in zip(sums, _integers(body, len(sums), bound), strict=True)]
    for k, p, q in zip(others, sums[: len(others)], sums[len(others) :], strict=True):
        require(p * q == batch.moduli[k], "a rejected candidate is not the product of its factors")
        require(gcd((p - 1) * (q - 1), terms.step) == 4, "a rejected candidate has a small factor")
        spare = k in batch.passed and k > winner
        require(spare or k not in batch.tested or not terms.is_good(p, q), "a good candidate was rejected")


# -- the key


def _form_weights(terms: Terms, n: mpz, sums: list[mpz]) -> mpz:
    """The first weighted sum of the opened multiples of phi(n) that has no forbidden factor."""
    for a, b in sorted(itertools.product(range(16), repeat=2), key=sum):
        total = sums[0] + a * sums[1] + b * sums[2]
        if terms.is_clean(n, total):
            return total
    raise Refused("every weighted sum has a forbidden factor")


def _check_form(n: mpz, modulus: mpz, bases: list[mpz], total: mpz, roots: list[list[mpz]]) -> None:
    for base, *of_holders in zip(bases, *roots, strict=True):
        product = powmod(math.prod(of_holders) % n, modulus, n)
        require(powmod(base, total, n) * product % n == 1, "the proof of the form does not hold")


def _read_key(batch: Batch, winner: int) -> Key:
    """Read the holders' commitments to the exponent, and check the form of the modulus."""
    terms, n, t = batch.terms, batch.moduli[winner], batch.terms.threshold
    order, modulus, forms = n**terms.degree, n ** (terms.degree + 1), terms.form_modulus(n)
    bases = []
    for label, smallest in (("sieved", 3), ("larger", int(gmpy2.next_prime(terms.primes[-1])))):
        bases.append([x**2 % n for x in terms.hashed(n, f"form {label}", n, math.ceil(96 / math.log2(smallest)))])
    roots_of = [len(several) for several in bases]
    length = _length(order) + t * _length(modulus) + _length(terms.known) + sum(roots_of) * _length(n)
    theta, first, rest = mpz(0), mpz(1), mpz(0)
    polynomials: list[list[mpz]] = []
    roots: list[list[list[mpz]]] = [[], []]
    for _, body in batch.rounds.next("exponent commitments", batch.number, 1, length):
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
    _check_form(n, forms, bases[1], _form_weights(terms, n, batch.form_sums[winner]), roots[1])
    values = []
    for holder in range(1, terms.holders + 1):
        value = mpz(1)
        for polynomial in polynomials:
            for k, coefficient in enumerate(polynomial):
                value = value * powmod(coefficient, holder**k, modulus) % modulus
        values.append(powmod(value, 2 * math.factorial(terms.holders), modulus))
    base = powmod(terms.hashed(n, "verification base", modulus)[0], 2, modulus)
    return Key(n, terms.degree, terms.holders, t, sha256(terms.about(n))[:16], theta, base, tuple(values))


def _check_decryptions(batch: Batch, key: Key) -> None:
    """Check that any t holders open the test ciphertexts."""
    terms = batch.terms
    plaintexts = [terms.hashed(key.n, f"plaintext {i}", key.plain)[0] for i in range(2)]
    units = [terms.hashed(key.n, f"unit {i}", key.n)[0] for i in range(2)]
    ciphertexts = tuple(
        key.generator_power(m) * powmod(u, key.plain, key.modulus) % key.modulus
        for m, u in zip(plaintexts, units, strict=True)
    )
    parts = {}
    for j, body in batch.rounds.next("test decryption", batch.number, 1, 2 * key.size + key.opening_bytes):
        parts[j] = key.units(body.take(2 * key.size))
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
            check_sealing_key(body.take(32))
    common = sum(1 for members in terms.sets if {1, 2} <= set(members))
    list(rounds.next("seed contributions", 0, 0, (32 * common + 16) * others))
    for number in itertools.count():
        batch = Batch(terms, rounds, number)
        if batch.winner is not None:
            break
        _check_rejected_batch(batch)
    _check_rejected_candidates(batch, batch.winner)
    key = _read_key(batch, batch.winner)
    holders = terms.holders
    share = mpz(terms.threshold * holders ** (terms.threshold - 1) * math.factorial(holders) ** 2) << (
        (terms.degree + 1) * terms.bits + 2 * 128 + 3 * len(terms.sets).bit_length() + 2 + 128
    )
    list(rounds.next("exponent shares", batch.number, 1, (_length(share) + 16) * others))
    _check_decryptions(batch, key)
    return key
