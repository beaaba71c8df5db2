"""Terms of a ceremony, on both sides of every limit."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations
from typing import Any

import gmpy2
import pytest

from psephos.protocol.ceremony.terms import CeremonyTerms
from psephos.protocol.errors import InvalidParameter, PsephosError, WeakKeyError

TERMS = CeremonyTerms(2048, 5, 3, bytes(32))


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"holders": 2, "threshold": 2}, InvalidParameter),
        ({"holders": 10, "threshold": 6}, InvalidParameter),
        ({"threshold": 1}, InvalidParameter),
        ({"holders": 4, "threshold": 3}, InvalidParameter),
        ({"threshold": 4}, InvalidParameter),
        ({"bits": 2049}, InvalidParameter),
        ({"bits": 126, "test_key": True}, InvalidParameter),
        ({"bits": 2046}, WeakKeyError),
        ({"context": bytes(31)}, InvalidParameter),
        ({"context": bytes(33)}, InvalidParameter),
        ({"degree": 0}, InvalidParameter),
        ({"degree": 5}, InvalidParameter),
    ],
)
def test_invalid_terms_name_the_field(change: dict[str, Any], error: type[PsephosError]) -> None:
    with pytest.raises(error):
        replace(TERMS, **change)


def test_terms_at_the_limits_are_accepted() -> None:
    for change in (
        {"holders": 3, "threshold": 2},
        {"holders": 9, "threshold": 5},
        {"holders": 4, "threshold": 2},
        {"threshold": 2},
        {"bits": 128, "test_key": True},
        {"bits": 2046, "test_key": True},
        {"degree": 4},
    ):
        assert replace(TERMS, **change).digest != TERMS.digest  # type: ignore[arg-type]
    assert TERMS.ciphertext_modulus(5) == 25  # type: ignore[arg-type]
    assert replace(TERMS, degree=3).ciphertext_modulus(5) == 625  # type: ignore[arg-type]


@pytest.mark.parametrize("holders", range(3, 10))
def test_every_subset_omits_as_many_holders_as_are_tolerated(holders: int) -> None:
    terms = replace(TERMS, holders=holders, threshold=2)
    tau = (holders - 1) // 2
    assert terms.tolerated == tau
    assert terms.names == tuple(f"holder {j}" for j in range(1, holders + 1))
    everybody = set(range(1, holders + 1))
    assert {frozenset(everybody - set(a)) for a in terms.subsets} == set(map(frozenset, combinations(everybody, tau)))


@pytest.mark.parametrize("holders", range(3, 10))
def test_fewer_files_than_the_threshold_never_suffice(holders: int) -> None:
    """Whatever t - 1 holders keep of a ceremony, the seed of a set to which none of them belongs is missing."""
    thresholds = []
    for threshold in range(holders + 2):
        try:
            terms = replace(TERMS, holders=holders, threshold=threshold)
        except InvalidParameter:
            continue
        thresholds.append(threshold)
        for coalition in combinations(range(1, holders + 1), threshold - 1):
            assert any(set(coalition).isdisjoint(members) for members in terms.subsets)
    assert thresholds == list(range(2, (holders + 1) // 2 + 1))


@pytest.mark.parametrize("holders", [3, 6, 9])
def test_the_numbers_of_small_primes_and_free_bits_are_the_largest_possible(holders: int) -> None:
    """One more of either and the sum of all pieces would leave the top quarter of a prime's range."""
    for bits in range(128, 700, 2):
        terms = replace(TERMS, bits=bits, holders=holders, threshold=2, test_key=True)
        sets, room = len(terms.subsets), 1 << bits // 2 - 2
        following = int(gmpy2.next_prime(terms.primes[-1]))
        assert terms.step == 12 * math.prod(terms.primes)
        assert terms.primes[:3] == (5, 7, 11)
        assert terms.step * (sets * 256 + 1) <= room
        assert following >= terms.form_bound or terms.step * following * (sets * 256 + 1) > room
        assert terms.step * (sets << terms.top_bits) < room
        assert terms.top_bits == 32 or terms.step * ((sets << terms.top_bits + 1) + 1) > room
        assert 3 * room <= terms.offset < 3 * room + 12 * terms.step // 12
        assert (terms.step // 4) << terms.rest_bits - 2 < 1 << bits
