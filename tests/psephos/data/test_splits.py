"""Splits: every row goes to one place only, the sizes are the paper's, and the seed decides everything."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from psephos.data.datasets import Dataset, load, make_synthetic
from psephos.data.splits import Split, split_dataset
from psephos.protocol.errors import InvalidParameter


def shaped(train: int, test: int | None = 2) -> Dataset:
    """A data set whose rows say which row they are."""
    X = np.arange(train, dtype=float)[:, None]
    y = np.arange(train) % 2
    held = (None, None) if test is None else (np.arange(test, dtype=float)[:, None], np.arange(test) % 2)
    return Dataset("shaped", X, y, *held, ("a", "b"), "made here")


def used(split: Split) -> list[int]:
    return sorted([*split.auxiliary.tolist(), *(row for rows in split.parties for row in rows.tolist())])


@given(st.integers(20, 300), st.integers(1, 18), st.integers(0, 2**32))
def test_default_split_uses_every_row_once(n: int, parties: int, seed: int) -> None:
    split = split_dataset(shaped(n), parties, seed)
    assert used(split) == list(range(n))
    assert len(set(split.sizes.tolist())) == 1
    assert round(0.1 * n) <= len(split.auxiliary) < round(0.1 * n) + parties


def test_stratified_test_set_where_none_is_published() -> None:
    data = load("digits")
    split = split_dataset(data, 25, seed=4)
    rows = [*used(split), *split.test.tolist()]
    assert sorted(rows) == list(range(len(data.y_train)))
    for label in range(10):
        total = int((data.y_train == label).sum())
        assert int((split.y_test == label).sum()) == round(0.3 * total)
    assert np.array_equal(split.X_test, data.X_train[split.test])


def test_the_split_depends_on_the_seed_only() -> None:
    data = make_synthetic()
    one, same, other = split_dataset(data, 9, 5), split_dataset(data, 9, 5), split_dataset(data, 9, 6)
    assert used(one) == used(other)
    assert all(np.array_equal(a, b) for a, b in zip(one.parties, same.parties, strict=True))
    assert np.array_equal(one.auxiliary, same.auxiliary)
    assert not np.array_equal(one.auxiliary, other.auxiliary)
    state = np.random.get_state()[1].copy()
    split_dataset(data, 9)
    assert np.array_equal(state, np.random.get_state()[1])


@pytest.mark.parametrize(
    ("parties", "options"),
    [
        (0, {}),
        (-3, {}),
        (91, {}),  # 90 of 100 rows are private
        (10, {"samples_per_party": 10}),  # nothing left
        (10, {"samples_per_party": 0}),
        (2, {"samples_per_party": [50, 51]}),
        (2, {"samples_per_party": [50]}),
        (2, {"samples_per_party": [50, 0], "auxiliary": 0}),
        (2, {"auxiliary": -1}),
        (2, {"auxiliary": 100}),
        (2, {"auxiliary": 99}),
        (2, {"samples_per_party": 30, "auxiliary": 41}),
        (2, {"seed": -1}),
    ],
)
def test_impossible_splits(parties: int, options: dict[str, int]) -> None:
    with pytest.raises(InvalidParameter):
        split_dataset(shaped(100), parties, **options)


@pytest.mark.parametrize("deal", ["equal", "dirichlet", "shards"])
@given(parties=st.integers(2, 30), seed=st.integers(0, 1000))
def test_every_split_has_the_same_private_rows(deal: str, parties: int, seed: int) -> None:
    data = shaped(200)
    split, equal = split_dataset(data, parties, seed, deal=deal, concentration=0.05), split_dataset(data, parties, seed)
    assert used(split) == list(range(200))
    assert split.auxiliary.tolist() == equal.auxiliary.tolist()
    assert min(split.sizes) >= 1


def test_skewed_splits_have_skewed_labels() -> None:
    """The distance of a party's label shares from everybody's, on average; the more, the smaller the concentration."""
    data = make_synthetic(classes=4, samples=4000, test=10)

    def skew(**how: Any) -> float:
        labels = [
            split.dataset.y_train[rows] for split in [split_dataset(data, 20, 3, **how)] for rows in split.parties
        ]
        return float(np.mean([np.abs(np.bincount(y, minlength=4) / len(y) - 0.25).sum() for y in labels]))

    even, mild, strong = (
        skew(deal="equal"),
        skew(deal="dirichlet", concentration=5.0),
        skew(deal="dirichlet", concentration=0.1),
    )
    assert even < 0.2 < mild < strong
    sharded = split_dataset(data, 20, 3, deal="shards")
    assert max(len(np.unique(data.y_train[rows])) for rows in sharded.parties) <= 4
    assert np.mean([len(np.unique(data.y_train[rows])) for rows in sharded.parties]) < 2.5
    assert np.ptp(split_dataset(data, 20, 3, deal="dirichlet").sizes) > 20 * np.ptp(sharded.sizes)
