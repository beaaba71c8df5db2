"""Secure comparison: right for every pair, whatever the coin; and nothing but the outcome to be seen."""

from __future__ import annotations

from collections import Counter

import gmpy2
import pytest
from gmpy2 import mpz
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from psephos.protocol.errors import InvalidParameter, MessageError
from psephos.protocol.pathak.comparison import Answer, answer, ask, conclude
from psephos.protocol.pathak.dgk import DgkPrivateKey, generate_dgk_key
from psephos.protocol.randomness import SYSTEM, Randomness, SimulationRandomness
from tests.statistical import FALSE_ALARM

KEY = generate_dgk_key(256, comparison_bits=64, test_key=True)
SMALL = generate_dgk_key(192, comparison_bits=2, test_key=True)


class Coin(Randomness):
    """Everything random but the answerer's coin."""

    def __init__(self, coin: int) -> None:
        self.coin = coin

    def draw(self, count: int) -> bytes:
        return SYSTEM.draw(count)

    def bits(self, count: int) -> int:
        return self.coin if count == 1 else super().bits(count)

    def below(self, bound: int) -> int:
        # `below` draws by `bits`, and below(2) must not meet the coin.
        return SYSTEM.below(bound)


def compare(key: DgkPrivateKey, pairs: list[tuple[int, int]], bits: int, randomness: Randomness = SYSTEM) -> list[bool]:
    xs, ys = [x for x, _ in pairs], [y for _, y in pairs]
    questions = ask(key.public_key, ys, bits=bits)
    return conclude(key, ys, answer(key.public_key, xs, questions, bits=bits, randomness=randomness), bits=bits)


@pytest.mark.parametrize("coin", [0, 1])
def test_every_pair_of_three_bits(coin: int) -> None:
    pairs = [(x, y) for y in range(-9, 9) for x in range(y - 7, y + 8)]
    assert compare(KEY, pairs, 3, Coin(coin)) == [x >= y for x, y in pairs]


@settings(max_examples=40, deadline=None)
@given(
    y=st.integers(-(2**300), 2**300),
    difference=st.one_of(st.integers(-(2**64) + 1, 2**64 - 1), st.integers(-3, 3)),
    coin=st.integers(0, 1),
)
def test_shares_of_any_size(y: int, difference: int, coin: int) -> None:
    assert compare(KEY, [(y + difference, y)], 64, Coin(coin)) == [difference >= 0]


def plaintext(key: DgkPrivateKey, ciphertext: mpz) -> int:
    """By trial: g^m has order u modulo p after v_p."""
    public, p, v = key.public_key, key._p, key._v_p
    target = gmpy2.powmod(ciphertext, v, p)
    return next(m for m in range(public.u) if gmpy2.powmod(public.g, m * v, p) == target)


@pytest.mark.parametrize(("x", "y"), [(0, 3), (3, 0), (2, 2), (1, 2)])
def test_the_asker_sees_uniform_units_in_a_uniform_order(x: int, y: int) -> None:
    # The seed is fixed; `tests.statistical` has the false-alarm rate over seeds.
    randomness = SimulationRandomness(4, x, y)
    runs = 1400
    questions = ask(SMALL.public_key, [y] * runs, bits=2, randomness=randomness)
    answers = answer(SMALL.public_key, [x] * runs, questions, bits=2, randomness=randomness)
    seen: Counter[int] = Counter()
    places: Counter[int] = Counter()
    bits: Counter[int] = Counter()
    for given_ in answers:
        values = [plaintext(SMALL, c) for c in given_.ciphertexts]
        assert values.count(0) <= 1
        bits[given_.bit] += 1
        seen.update(v for v in values if v)
        places.update(place for place, v in enumerate(values) if v == 0)
    u = SMALL.public_key.u
    assert chisquare([seen[m] for m in range(1, u)]).pvalue > FALSE_ALARM, "blinds are not uniform over the units"
    assert chisquare([places[i] for i in range(3)]).pvalue > FALSE_ALARM, "the order tells where the zero was"
    assert chisquare([bits[0], bits[1]]).pvalue > FALSE_ALARM, "the masked bit is not uniform"
    assert sum(places.values()) == pytest.approx(runs / 2, abs=7 * (runs / 4) ** 0.5)


def test_answers_have_randomness_of_their_own() -> None:
    """To a question without any, an answer without any would be a small power of g: an open book to everybody."""
    public = SMALL.public_key
    question = (mpz(1), public.g)  # Y = 2, bare
    small = 3 * 2 * public.u
    powers = {gmpy2.powmod(public.g, k, public.n) for k in range(-small, small + 1)}
    for _ in range(5):
        given_ = answer(public, [1], [question], bits=2)[0]
        assert not powers & set(given_.ciphertexts)


def test_comparisons_of_a_batch_share_no_randomness() -> None:
    """Answers to a bare question differ by a small power of g alone where their h^r is one."""
    public = SMALL.public_key
    powers = {gmpy2.powmod(public.g, k, public.n) for k in range(-2 * public.u, 2 * public.u + 1)}
    first, second = answer(public, [0, 0], [(mpz(1), mpz(1))] * 2, bits=2)
    ratios = {gmpy2.divm(c, d, public.n) for c in first.ciphertexts for d in second.ciphertexts}
    assert not powers & ratios


def test_bad_input_is_refused() -> None:
    key, small = KEY.public_key, SMALL.public_key
    questions = ask(key, [1, 2], bits=8)
    assert small.largest_comparison == 2
    for refused in (
        lambda: ask(key, [1], bits=key.largest_comparison + 1),
        lambda: ask(key, [1], bits=0),
        lambda: answer(key, [1], questions, bits=8),
        lambda: answer(key, [1, 2], questions, bits=7),
        *(lambda bits=bits: answer(small, [1], [(mpz(1),) * bits], bits=bits) for bits in (0, 3)),
    ):
        with pytest.raises(InvalidParameter):
            refused()
    answers = answer(key, [1, 2], questions, bits=8)
    wrong = [[answers[0], Answer(key.encrypt(zeros), 0)] for zeros in ([0] * 9, [0, 1, 0, *[1] * 6], [1] * 8, [1] * 10)]
    for replies in (answers[:1], *wrong):
        with pytest.raises(MessageError):
            conclude(KEY, [1, 2], replies, bits=8)
