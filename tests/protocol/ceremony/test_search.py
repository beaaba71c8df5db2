"""The arithmetic of a ceremony, compared with the numbers themselves; the seeds of all sets are known and fixed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import combinations
from math import factorial
from typing import Any

import gmpy2
import numpy as np
import pytest
from gmpy2 import mpz
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from psephos.protocol.ceremony import search
from psephos.protocol.ceremony.exponent import committed, committed_share, share_bound
from psephos.protocol.ceremony.replicated import home, product_share, stream, zero_share
from psephos.protocol.ceremony.search import Batch, choose, exponent_share_bits, flat_primes, is_good
from psephos.protocol.ceremony.terms import CeremonyTerms
from psephos.protocol.paillier.keys import odd_primorial
from psephos.protocol.paillier.sharing import evaluate, integer_polynomial
from psephos.protocol.randomness import SimulationRandomness
from tests.statistical import FALSE_ALARM


def terms(bits: int = 256, holders: int = 5) -> CeremonyTerms:
    return CeremonyTerms(bits, holders, (holders + 1) // 2, bytes(32), test_key=True)


@dataclass(frozen=True)
class OpenedBatch:
    """A batch with the secrets of all holders."""

    terms: CeremonyTerms
    own: dict[int, Batch]
    whole: Batch
    products: Any
    differences: Any
    numbers: dict[int, Any]
    p: Any
    q: Any
    moduli: tuple[mpz, ...]

    @property
    def holders(self) -> range:
        return range(1, self.terms.holders + 1)


def opened_batch(agreed: CeremonyTerms, number: int = 0) -> OpenedBatch:
    """Return the batch of a seed, with the sums that the holders open."""
    source = SimulationRandomness(1, "batch", agreed.bits, agreed.holders, number)
    seeds = {s: source.draw(32) for s in range(len(agreed.subsets))}
    own = {
        j: Batch(agreed, {s: seed for s, seed in seeds.items() if j in agreed.subsets[s]})
        for j in range(1, agreed.holders + 1)
    }
    primes = flat_primes(agreed)
    products = sum(batch.product_share(j) for j, batch in own.items()) % primes
    differences = sum(batch.difference_share(j, products) for j, batch in own.items()) % primes
    chosen = choose(agreed, products, differences)
    numbers = {j: batch.numbers(chosen) for j, batch in own.items()}
    rests = sum(batch.modulus_share(j, numbers[j]) for j, batch in own.items()) % (mpz(1) << agreed.rest_bits)
    whole = Batch(agreed, seeds)
    clear = whole.numbers(chosen)
    p, q = (agreed.offset + sum(pieces[i] for pieces in clear.values()) for i in (0, 1))
    assert all(np.array_equal(one, other) for one, other in zip((p, q), whole.factors(chosen), strict=True))
    moduli = search.moduli(agreed, products, chosen, list(rests))
    return OpenedBatch(agreed, own, whole, products, differences, numbers, p, q, moduli)


@pytest.fixture(scope="module", params=[(128, 3), (256, 4), (256, 5), (512, 6)], ids=str)
def batch(request: pytest.FixtureRequest) -> OpenedBatch:
    return opened_batch(terms(*request.param))


@pytest.mark.parametrize("bits", [128, 512, 3072])
def test_numbers_next_to_a_multiple_of_the_step_are_recombined_exactly(bits: int) -> None:
    """Rounding errors of floating point do not matter, even where they could change the quotient."""
    agreed, tops = terms(bits, 3), [0, 1, 5, 0, 2, 7]
    below = [0, 12, 24, agreed.step - 12, agreed.step - 24, agreed.step // 24 * 12]
    residues = np.array([[number % prime for number in below] for prime in agreed.primes])
    recombined = search._integers(search._recombined(agreed, residues, np.array(tops)))
    assert list(recombined) == [top * agreed.step + number for top, number in zip(tops, below, strict=True)]


def test_carries_propagate_to_the_last_limb() -> None:
    """For sums of limbs that are not reduced, and for the largest top digit of a real key."""
    limbs = np.array([[2**50, 1, 0, 2**48 - 1], [0, 65535, 2**17, 2**47], [0, 65535, 5, 2**15], [0, 3, 1, 7]])
    expected = [sum(int(limb) << 16 * place for place, limb in enumerate(column)) for column in limbs.T]
    assert list(search._integers(limbs)) == expected
    agreed = CeremonyTerms(3072, 3, 2, bytes(32))
    tops, residues = np.array([0, 2**agreed.top_bits - 1]), np.zeros((len(agreed.primes), 2), dtype=np.int64)
    assert list(search._integers(search._recombined(agreed, residues, tops))) == [
        top * agreed.step for top in tops.tolist()
    ]


def test_moduli_are_the_products_of_p_and_q(batch: OpenedBatch) -> None:
    assert list(batch.p * batch.q) == list(batch.moduli)
    assert {int(n).bit_length() for n in batch.moduli} == {batch.terms.bits}


def test_the_sieve_leaves_no_small_factor_of_p_and_p_minus_1(batch: OpenedBatch) -> None:
    small = batch.terms.step // 4
    for p in (*batch.p, *batch.q):
        assert p % 12 == 11
        assert gmpy2.gcd(p * (p - 1), small) == 1


def test_opened_residues_are_those_of_the_whole_batch(batch: OpenedBatch) -> None:
    for opened, expected in zip((batch.products, batch.differences), batch.whole.opened(), strict=True):
        assert np.array_equal(opened, expected)


def test_the_shares_of_all_but_one_holder_do_not_give_the_sum(batch: OpenedBatch) -> None:
    """Each share is masked; residues modulo small primes agree by chance."""
    primes = flat_primes(batch.terms)
    for left_out in batch.holders:
        rest = sum(b.product_share(j) for j, b in batch.own.items() if j != left_out) % primes
        assert np.mean(rest == batch.products) < 0.3


def test_the_biprimality_test_agrees_with_gmpy2(batch: OpenedBatch) -> None:
    """A composite passes with probability at most 1/2 for each base, so 2^-40 for 40 bases."""
    places = search.survivors(batch.terms, batch.moduli)
    clear = [gmpy2.gcd(odd_primorial(2**20) % n, n) == 1 for n in batch.moduli]
    assert places == tuple(np.flatnonzero(clear))
    for place in places[:40]:
        n = batch.moduli[place]
        chosen = search.bases(batch.terms, n, 40)
        values = [batch.own[j].test_values(j, batch.numbers[j], place, n, chosen) for j in batch.holders]
        prime = gmpy2.is_prime(batch.p[place]) and gmpy2.is_prime(batch.q[place])
        assert search.passes(batch.terms, place, n, values) == prime


def test_good_form_rejects_small_factors_of_phi_and_large_common_factors() -> None:
    """phi has no odd prime below 2^16, and no large prime in common with n - 1."""
    agreed = terms(256, 3)
    batch = opened_batch(agreed)
    good = bad = 0
    for place, n in enumerate(batch.moduli):
        shares = [batch.own[j].form_share(j, batch.numbers[j], place, n) for j in batch.holders]
        phi = (batch.p[place] - 1) * (batch.q[place] - 1)
        clean = gmpy2.gcd(phi, odd_primorial(2**16)) == 1 and not _large_common(phi, n - 1)
        assert search.good_form(agreed, n, shares) == clean
        good, bad = good + clean, bad + (not clean)
    assert good > 0 < bad


def _large_common(phi: mpz, other: mpz) -> bool:
    common = gmpy2.gcd(phi, other)
    while (small := gmpy2.gcd(common, 2 * odd_primorial(2**16))) != 1:
        common //= small
    return bool(common != 1)


def prime(agreed: CeremonyTerms, factor: int = 1, start: int = 6) -> mpz:
    """Return a prime of the form that the terms require, except that (p - 1)/2 is divisible by `factor`."""
    small, p = (
        odd_primorial(agreed.form_bound),
        (mpz(start) << agreed.prime_bits - 3) // (12 * factor) * 12 * factor + 1,
    )
    while not (p % 12 == 11 and gmpy2.is_prime(p) and gmpy2.gcd(p >> 1, small * factor) == factor):
        p += 2 * factor
    return p


LARGE = int(gmpy2.next_prime(2**20))
FORMS = [("clean", 1, 1, True), ("251 in one", 1, 251, False), ("251 in the other", 251, 1, False)]
FORMS += [("one large factor each", LARGE, int(gmpy2.next_prime(LARGE)), True), ("a common one", LARGE, LARGE, False)]


@pytest.mark.parametrize(("one", "other", "good"), [form[1:] for form in FORMS], ids=[form[0] for form in FORMS])
def test_every_condition_of_the_form_is_checked(one: int, other: int, good: bool) -> None:
    """By `is_good` from p and q, and by `good_form` from shares of multiples of phi; multiples may contain 251 too."""
    agreed = terms(128, 3)
    assert 251 < agreed.form_bound <= 257
    p, q = prime(agreed, one), prime(agreed, other, 7)
    assert is_good(agreed, p, q) == is_good(agreed, q, p) == good
    if good:
        assert not is_good(agreed, p, q * 13)
        assert not is_good(agreed, q * 13, p)
    n, phi = p * q, (p - 1) * (q - 1)
    modulus = search.form_modulus(agreed, n)
    for masks in ([1, 1, 1], [251, 251, 1], [1, 251 * LARGE, 251], [int(n) + 2, 5, 251]):
        shares = [[mpz(7) ** 30 % modulus] * 3, [(c * phi - mpz(7) ** 30) % modulus for c in masks]]
        assert search.good_form(agreed, n, shares) == good
    assert not search.good_form(agreed, n, [[251 * phi] * 3])


def test_moduli_of_the_right_length_without_small_factors_survive() -> None:
    """Tested one by one and together, on both sides of every sieve's limit."""
    agreed = terms(128, 3)

    def with_factor(factor: int) -> mpz:
        rest = gmpy2.next_prime((mpz(3) << 126) // factor)
        return mpz(factor * rest)

    first = int(gmpy2.next_prime(2**20))
    short, long = (gmpy2.next_prime(mpz(1) << bits) for bits in (126, 128))
    others = (2 * short, short, long)  # even, and of 127 and 129 bits
    clean = [mpz(gmpy2.next_prime((mpz(3) << 62) + 10**9 * k)) * gmpy2.next_prime(mpz(7) << 61) for k in range(60)]
    small = [3, 5, 4093, 4099, 16381, 16411, 131071, 131101, 1048573]  # the primes around 2^12, 2^14, 2^17, before 2^20
    candidates = [*clean, *map(with_factor, small), with_factor(first), *others]
    expected = [
        k for k, n in enumerate(candidates) if n.bit_length() == 128 and gmpy2.gcd(n, 2 * odd_primorial(2**20)) == 1
    ]
    assert expected == [*range(60), 60 + len(small)]
    assert search.survivors(agreed, candidates) == tuple(expected)


def test_the_shared_exponent_is_a_multiple_of_phi(batch: OpenedBatch) -> None:
    n = batch.moduli[0]
    shares = [batch.own[j].exponent_share(j, batch.numbers[j], 0, n) for j in batch.holders]
    phi = (batch.p[0] - 1) * (batch.q[0] - 1)
    beta, rest = divmod(sum(shares), phi)
    assert rest == 0
    assert 0 < beta < len(batch.terms.subsets) << (batch.terms.bits + 128)
    assert beta.bit_length() > batch.terms.bits + 100
    bits = exponent_share_bits(batch.terms)
    assert all(abs(share) < 1 << bits for share in shares)
    assert max(abs(share) for share in shares) >> (bits - 2 * len(batch.terms.subsets).bit_length() - 24) > 0


def test_every_share_of_a_multiple_of_phi_is_masked(batch: OpenedBatch) -> None:
    """By a share of zero that is 128 bits longer than the product it hides; the shares add up to a multiple."""
    agreed, n = batch.terms, batch.moduli[0]
    hidden = search.form_modulus(agreed, n).bit_length() + agreed.bits
    shares = [batch.own[j].form_multiples(j, batch.numbers[j], 0, n) for j in batch.holders]
    for column in zip(*shares, strict=True):
        assert sum(column) % ((batch.p[0] - 1) * (batch.q[0] - 1)) == 0
        assert min(abs(share).bit_length() for share in column) > hidden + 64


def test_the_digest_covers_all_terms_of_a_ceremony() -> None:
    made = [(256, 5, 3, bytes(32)), (512, 5, 3, bytes(32)), (256, 6, 3, bytes(32)), (256, 5, 2, bytes(32))]
    made.append((256, 5, 3, bytes(31) + b"\1"))
    assert len({CeremonyTerms(*each, test_key=True).digest for each in made}) == len(made)


@pytest.mark.parametrize(("holders", "degree"), [(3, 1), (3, 2), (5, 1), (9, 1)])
def test_zero_shares_are_made_of_masks_128_bits_longer_than_what_they_hide(holders: int, degree: int) -> None:
    """What is hidden is a sum of products of pieces, one for each pair of sets at most; each mask fills its length."""
    agreed = replace(terms(256, holders), degree=degree)
    pairs, seeds = 2 * len(agreed.subsets).bit_length(), {s: bytes([s]) * 32 for s in range(len(agreed.subsets))}
    numbers = {s: ([mpz(12 * s)], [mpz(24 * s)]) for s in seeds}
    n, hidden = mpz(2) ** 255 + 1, agreed.bits + pairs
    modulus = search.form_modulus(agreed, n)

    def drawn(subset: int, label: str, bits: int) -> mpz:
        mask = mpz.from_bytes(stream(seeds[subset], label, bits // 8 + 1), "little") >> (8 - bits % 8)
        assert mask < mpz(1) << bits
        return mask

    for j in range(1, holders + 1):
        mine = [s for s in seeds if j in agreed.subsets[s]]
        own = Batch(agreed, {s: seeds[s] for s in mine})
        mine_numbers = {s: numbers[s] for s in mine}
        phi = own._phi(mine_numbers, 0, n)
        beta_bits = degree * agreed.bits + 128
        beta = {s: drawn(s, "beta of d 0", beta_bits) for s in mine}
        bits = beta_bits + hidden + 128
        zero = zero_share(agreed, j, lambda s, i: drawn(s, f"zero {i} of d 0", bits))  # noqa: B023 - called at once
        assert own.exponent_share(j, mine_numbers, 0, n) == product_share(agreed, j, beta, phi) + zero
        size = (modulus.bit_length() + 128 + 7) // 8
        first = {s: mpz.from_bytes(stream(seeds[s], "mask 0 of form 0", size), "little") % modulus for s in mine}
        length, name = modulus.bit_length(), f"of form {modulus.bit_length()} 0"
        bits = length + 1 + hidden + 128
        zero = zero_share(agreed, j, lambda s, i: drawn(s, f"zero 0 {i} {name}", bits))  # noqa: B023 - called at once
        assert own.form_multiples(j, mine_numbers, 0, n)[0] == product_share(agreed, j, first, phi) + zero


def test_shares_of_the_exponent_agree_with_their_commitments(batch: OpenedBatch) -> None:
    n, n2, t = batch.moduli[0], batch.moduli[0] ** 2, batch.terms.threshold
    bits = exponent_share_bits(batch.terms)
    for secret in (-(1 << bits) + 1, -5, 0, (1 << bits) - 1):
        f = integer_polynomial(secret, 1 << bits, holders=batch.terms.holders, threshold=t)
        assert f[0] == secret * factorial(batch.terms.holders)
        commitments = committed(mpz(4), f, n2)
        for j in batch.holders:
            assert committed_share(commitments, j, n2) == gmpy2.powmod(4, evaluate(f, j), n2)
            assert evaluate(f, j) < share_bound(batch.terms)
    assert n.bit_length() == batch.terms.bits


# -- replicated sharing


@pytest.mark.parametrize("holders", range(3, 10))
def test_every_coalition_misses_one_set_and_every_product_has_one_owner(holders: int) -> None:
    agreed = terms(128, holders)
    for coalition in combinations(range(1, holders + 1), agreed.tolerated):
        assert sum(not set(coalition) & set(members) for members in agreed.subsets) == 1
    size = len(agreed.subsets)
    x = {s: mpz(1) << s for s in range(size)}
    y = {s: mpz(1) << (size * s) for s in range(size)}
    parts = []
    for j in range(1, holders + 1):
        members = {s for s in range(size) if j in agreed.subsets[s]}
        parts.append(product_share(agreed, j, {s: x[s] for s in members}, {s: y[s] for s in members}))
    assert sum(parts) == sum(x.values()) * sum(y.values())
    assert all(home(agreed, s) in agreed.subsets[s] for s in range(size))


@given(st.integers(3, 7), st.randoms(use_true_random=False))
def test_zero_shares_add_up_to_zero(holders: int, source: Any) -> None:
    agreed = terms(128, holders)
    masks = {(s, i): source.getrandbits(200) for s, members in enumerate(agreed.subsets) for i in range(len(members))}
    shares = [zero_share(agreed, j, lambda s, i: masks[s, i]) for j in range(1, holders + 1)]
    assert sum(shares) == 0


@pytest.mark.parametrize("prime", [5, 7, 181])
def test_residues_are_uniform(prime: int) -> None:
    """Chi-square over 115 fixed seeds of the stream; see `tests.statistical` for the false-alarm rate."""
    agreed = terms(512, 3)
    place = agreed.primes.index(prime)
    start = sum(agreed.draws[:place])
    counts: Counter[int] = Counter()
    for seed in range(115):
        residues = search._uniform(agreed, seed.to_bytes(32, "big"), "a")
        counts.update(residues[start : start + agreed.draws[place]].tolist())
    assert chisquare([counts[r] for r in range(prime)]).pvalue > FALSE_ALARM
