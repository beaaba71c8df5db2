"""Exact checks of the parts of Pathak's protocol: the secure comparison and the resharing."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import gmpy2
from gmpy2 import mpz

from psephos.audit.compare import compare_samples, exact_distribution
from psephos.audit.model import AnalysisContext, CheckResult
from psephos.audit.pathak_runs import keys_of
from psephos.protocol.pathak.comparison import Answer, answer, ask
from psephos.protocol.pathak.dgk import DgkPrivateKey, generate_dgk_key
from psephos.protocol.pathak.resharing import split_vector
from psephos.protocol.randomness import Randomness


def plain_table(key: DgkPrivateKey) -> dict[mpz, int]:
    """Return c^(v_p) mod p -> plaintext, for each plaintext: with this table the owner of the key decrypts."""
    p, v, public = key._p, key._v_p, key.public_key
    base = gmpy2.powmod(public.g, v, p)
    table, power = {}, mpz(1)
    for m in range(public.u):
        table[power] = m
        power = power * base % p
    return table


def plain_answer(key: DgkPrivateKey, reply: Answer, table: Mapping[mpz, int]) -> list[int]:
    """Return the plaintexts of an answer; `table`: as `plain_table` returns it."""
    return [table[gmpy2.powmod(c, key._v_p, key._p)] for c in reply.ciphertexts]


def _tiny_key(context: AnalysisContext) -> DgkPrivateKey:
    coins = context.coins("tiny")
    make = partial(generate_dgk_key, 128, comparison_bits=2, test_key=True, randomness=coins)
    return context.cached("tiny comparison key", make)


def exact_comparison(context: AnalysisContext) -> CheckResult:
    """Compare the asker's view with the simulator's exactly, over all coins of a comparison of 1 bit with u = 11."""
    key = _tiny_key(context)
    public, table = key.public_key, plain_table(key)
    cases = 0
    for y in range(4):
        questions = [tuple(public.encrypt([y & 1], context.coins("question", y)))]
        for x in range(max(0, y - 1), min(4, y + 2)):

            def real(coins: Randomness, x: int = x, questions: Any = questions) -> tuple[tuple[int, ...], int]:
                reply = answer(public, [x], questions, bits=1, randomness=coins)[0]
                return tuple(plain_answer(key, reply, table)), reply.bit

            def simulated(coins: Randomness, x: int = x, y: int = y) -> tuple[tuple[int, ...], int]:
                # From the output [x >= y] and the asker's own y.
                bit = coins.bits(1)
                zero = int(x >= y) ^ bit ^ (y >> 1 & 1)
                entries = [1 + coins.below(public.u - 1) for _ in range(2)]
                if zero:
                    entries[coins.below(2)] = 0
                return tuple(entries), bit

            if exact_distribution(real) != exact_distribution(simulated):
                return CheckResult(True, f"the asker's view of comparing {x} with {y} is not the simulator's")
            cases += 1
    return CheckResult(
        False, f"all coins of {cases} comparisons enumerated: the asker's view is exactly the simulator's"
    )


def blinded_answers(context: AnalysisContext) -> CheckResult:
    """Check that no blind h^r is used twice."""
    public = _tiny_key(context).public_key
    questions = [tuple(public.encrypt([1], context.coins("blind question")))]
    ciphertexts: set[mpz] = set()
    for i in range(50):
        batch = answer(public, [2, 2], questions * 2, bits=1, randomness=context.coins("blind", i))
        for c in (c for reply in batch for c in reply.ciphertexts):
            if c in ciphertexts:
                return CheckResult(True, "two answers to one question share a ciphertext: the blinds h^r are not fresh")
            ciphertexts.add(c)
    return CheckResult(False, f"{len(ciphertexts)} blinded ciphertexts of one comparison, all different")


def wide_comparison(context: AnalysisContext) -> CheckResult:
    """Compare the asker's views of two batches of two 12-bit comparisons with the same outcomes."""
    key = keys_of(context).comparison
    public, table = key.public_key, plain_table(key)
    sides: tuple[list[dict[str, float]], ...] = ([], [])
    bits, first = 12, ((100, 37), (4095, 2047))  # all x >= y
    second = ((100, 37), (4096, 4095))  # 0 < 4095 in the low bits of the last
    for i in range(context.views):
        for side, (one, two) in enumerate(zip(first, second, strict=True)):
            coins = context.coins("wide", i, side)
            xs, ys = zip(one, two, strict=True)
            questions, row = ask(public, ys, bits=bits, randomness=coins), dict[str, float]()
            answers = answer(public, xs, questions, bits=bits, randomness=coins)
            for number, (reply, y) in enumerate(zip(answers, ys, strict=True), 1):
                plain = plain_answer(key, reply, table)
                row[f"zero at, {number}"] = plain.index(0) if 0 in plain else -1
                row[f"bit of {number}"] = reply.bit ^ (y >> bits & 1)
                row |= {f"entry {place} of {number}": value for place, value in enumerate(plain)}
            sides[side].append(row | {"bits differ": row["bit of 1"] != row["bit of 2"]})
    return compare_samples(context, sides, "two batches with the same outcomes")


def exact_resharing(context: AnalysisContext) -> CheckResult:
    """Check that two of three shares modulo 2^m are uniform, over all coins, for m = 3."""
    for value in (0, 3, 7):
        for places in ((0, 1), (0, 2), (1, 2)):

            def view(coins: Randomness, value: int = value, places: tuple[int, ...] = places) -> tuple[float, ...]:
                shares = split_vector([value], 3, 3, coins)
                return tuple(shares[k][0] for k in places)

            chances = exact_distribution(view)
            if len(chances) != 64 or len(set(chances.values())) != 1:
                return CheckResult(True, f"two of three shares of {value} are not uniform")
    return CheckResult(False, "every two of three shares modulo 8 enumerated: exactly uniform for each secret")
