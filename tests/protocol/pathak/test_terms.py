"""The terms of a run at both sides of every limit, and what follows from them."""

from __future__ import annotations

import json
import math
from dataclasses import fields, replace
from fractions import Fraction
from typing import Any

import pytest

from psephos.protocol.errors import AgreementError, InvalidParameter, MessageError
from psephos.protocol.pathak.terms import PathakTerms

TERMS = PathakTerms(
    variant="repaired",
    comparisons="tournament",
    classes=("no", "yes"),
    parties=5,
    features=3,
    lam=0.1,
    epsilon=1.0,
    tolerance=1e-6,
    smallest_size=4,
    largest_size=30,
    excluded=2,
    pitch_exponent=-20,
    nonce="0123456789abcdef" * 2,
)
PRINTED = replace(TERMS, variant="printed", excluded=1)


@pytest.mark.parametrize(
    "change",
    [
        *({name: "other"} for name in ("variant", "comparisons")),
        *({name: bad} for name in ("parties", "largest_size", "excluded") for bad in (4.0, True, "4")),
        *({name: bad} for name in ("lam", "tolerance") for bad in (0.0, -1.0, math.inf, math.nan, 1)),
        {"epsilon": 65.0},
        *({"parties": bad, "excluded": 1} for bad in (2, 10_001)),
        *({"features": bad} for bad in (0, (1 << 20) + 1)),
        *({"classes": bad} for bad in (("no",), ("no", "no"), ("no", "yes", "perhaps"), ("no", 1))),
        *({"smallest_size": bad} for bad in (0, 31)),
        {"largest_size": 1 << 32},
        *({"excluded": bad} for bad in (0, 5)),
        *({"pitch_exponent": bad} for bad in (1, -201)),
        *({"nonce": bad} for bad in ("0" * 31, "0" * 33, "G" * 32, "A" * 32, "", ["0"] * 32)),
    ],
)
def test_terms_out_of_range_are_rejected(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        replace(TERMS, **change)


@pytest.mark.parametrize(("smallest", "largest"), [(4, 30), (4, 9), (8, 27), (8, 26), (5, 5)])
def test_a_data_set_s_bucket_is_the_last_that_is_not_above_it(smallest: int, largest: int) -> None:
    terms = replace(TERMS, smallest_size=smallest, largest_size=largest)
    buckets = [Fraction(smallest) * Fraction(3, 2) ** k for k in range(9)]
    assert terms.buckets == tuple(bucket for bucket in buckets if bucket <= largest)
    for size in range(largest + 5):
        assert terms.counted(size) == sorted((smallest, size, largest))[1]
        assert terms.bucket(size) == sum(bucket <= terms.counted(size) for bucket in terms.buckets) - 1


def test_only_a_dictionary_of_these_terms_is_read() -> None:
    good = json.loads(TERMS.encode())

    def written(document: Any) -> bytes:
        return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()

    assert PathakTerms.decode(written(good)) == TERMS
    missing = {name: value for name, value in good.items() if name != "lam"}
    for bad in ([1], {}, 1, missing, good | {"more": 1}, good | {"classes": "no"}):
        with pytest.raises(MessageError):
            PathakTerms.decode(written(bad))
    for data in (b"", b"{", b"\xff", TERMS.encode() + b"\n", TERMS.encode().replace(b",", b", ")):
        with pytest.raises(MessageError):
            PathakTerms.decode(data)
    wrong: list[dict[str, Any]] = [{"classes": ["no", 1]}, {"nonce": 5}, {"nonce": ["0"] * 32}, {"parties": 2}]
    for changes in (*wrong, {"noise": "spherical"}, {"regulariser": "lambda/2"}):  # the last two are of 0.2.0
        with pytest.raises(InvalidParameter):
            PathakTerms.decode(written(good | changes))


def test_every_term_must_agree() -> None:
    TERMS.check_agrees(replace(TERMS), "party 2")
    other: dict[str, Any] = {"variant": "public-bound", "comparisons": "all-pairs"}
    other |= {"classes": ("a", "b"), "nonce": "0" * 32, "lam": 0.2, "epsilon": 2.0, "tolerance": 1e-5}
    other |= {"parties": 6, "features": 4, "smallest_size": 5, "largest_size": 31, "excluded": 3, "pitch_exponent": -19}
    assert other.keys() == {f.name for f in fields(PathakTerms)}
    for name, value in other.items():
        proposal = replace(TERMS, **{name: value})
        with pytest.raises(AgreementError):
            TERMS.check_agrees(proposal, "party 2")
        assert proposal.digest != TERMS.digest
