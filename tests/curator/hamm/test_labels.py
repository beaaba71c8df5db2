"""Soft and majority labels from counts (Hamm 2016, equations 6 and 12)."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from psephos.curator.hamm.labels import alpha, check_counts, decisions, majority, one_hot
from psephos.protocol.errors import DataError


@st.composite
def votes(draw: st.DrawFn, classes: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The votes of M parties on N samples, shape (M, N), and their counts, shape (N, K)."""
    k = classes or draw(st.integers(2, 5))
    m, n = draw(st.integers(1, 9)), draw(st.integers(1, 6))
    ballots = np.array(draw(st.lists(st.lists(st.integers(0, k - 1), min_size=n, max_size=n), min_size=m, max_size=m)))
    counts = np.stack([(ballots == c).sum(axis=0) for c in range(k)], axis=1)
    return ballots, counts


@given(votes())
def test_alpha_is_the_fraction_of_votes(case: tuple[np.ndarray, np.ndarray]) -> None:
    ballots, counts = case
    soft = alpha(counts)
    assert soft.dtype == np.float64
    for i, row in enumerate(soft):
        for c, value in enumerate(row):
            exact = Fraction(sum(int(v) == c for v in ballots[:, i]), len(ballots))
            assert value == float(exact)  # correctly rounded


@given(votes(classes=2))
def test_binary_majority_is_equation_6(case: tuple[np.ndarray, np.ndarray]) -> None:
    ballots, counts = case
    expected = [1 if 2 * sum(ballots[:, i]) >= len(ballots) else 0 for i in range(ballots.shape[1])]
    assert majority(counts).tolist() == expected


@given(votes())
def test_majority_has_the_most_votes_and_the_lowest_number(case: tuple[np.ndarray, np.ndarray]) -> None:
    _, counts = case
    for row, label in zip(counts, majority(counts), strict=True):
        assert row[label] == row.max()
        if len(row) > 2:
            assert all(row[c] < row[label] for c in range(label))


def test_ties_go_to_the_agreed_class() -> None:
    assert majority([[2, 2]]).tolist() == [1]
    assert majority([[2, 2, 0]]).tolist() == [0]
    assert majority([[0, 2, 2]]).tolist() == [1]


def test_the_agreed_number_of_ballots_is_checked() -> None:
    assert check_counts([[1, 2]], parties=3).tolist() == [[1, 2]]
    with pytest.raises(DataError, match="number of ballots, 4"):
        check_counts([[1, 2]], parties=4)


@pytest.mark.parametrize("labels", [[0, 2], [-1], [0.5], [[0]]])
def test_labels_outside_the_agreed_classes_are_refused(labels: list[object]) -> None:
    with pytest.raises(DataError):
        one_hot(labels, 2)


def test_decisions_of_a_linear_classifier() -> None:
    """The sign of one score, the largest of several; of two alike the lower class."""
    rows = np.array([[1.0, 0.0], [-1.0, 0.5], [0.0, 2.0], [0.5, 0.5]])
    assert decisions(np.array([1.0, 0.0]), rows).tolist() == [1, 0, 0, 1]
    three = decisions(np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 0.5]]), rows)
    assert three.tolist() == [1, 0, 0, 2]
    assert decisions(np.eye(2), rows).tolist() == [0, 1, 1, 0]
    assert {decisions(np.array([1.0, 0.0]), rows).dtype, three.dtype} == {np.dtype(np.int64)}


@pytest.mark.parametrize(
    "counts",
    [
        *([], np.zeros((0, 2), dtype=int), [1, 2], [[3], [3]]),
        *([[1.0, 2.0]], [[-1, 4]], [[0, 0]], [[1, 2], [1, 1]], [[True, False]], [[2**63, 2**63]]),
        [[2**62, 2**62, 2**62, 2**62]],  # wraps to 0
        [[1, 1, 1, 1], [2**62, 2**62, 2**62, 2**62 + 4]],  # 4 modulo 2^64, as the first row
    ],
    ids=str,
)
def test_invalid_counts_are_refused(counts: object) -> None:
    with pytest.raises(DataError):
        check_counts(counts)  # type: ignore[arg-type]
