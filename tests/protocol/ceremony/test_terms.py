"""Terms of a ceremony, on both sides of every limit."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

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
