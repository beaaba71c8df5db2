"""Labels of the auxiliary samples from vote counts: majority labels and soft labels (Hamm 2016, equations 6 and 12).

The counts are all that the curator learns from a round of ballots: for each auxiliary sample and class, the number of
the M parties that voted for it. Classes are numbered 0 to K - 1; in a binary problem class 1 is the positive one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psephos.protocol.errors import DataError


def check_counts(counts: ArrayLike, parties: int | None = None) -> NDArray[np.int64]:
    """Return a table of counts as int64 (N, K), M votes in each row; M is that of the first row unless given.

    Raises:
        DataError: no rows, fewer than two classes, entries that are not integers or negative, no ballots, or rows that
            do not all sum to M.
    """
    array = np.asarray(counts)
    if array.ndim != 2 or not len(array) or array.shape[1] < 2:
        raise DataError(f"counts must be a table of samples by two classes or more, not of shape {array.shape}")
    if array.dtype.kind not in "iu":
        raise DataError(f"counts must be integers, not {array.dtype}; give the number of votes, not fractions")
    table = array.astype(np.int64)
    if (table < 0).any():  # unsigned entries of 2^63 or more became negative in int64
        raise DataError("a count is negative or too large; counts are numbers of votes")
    ballots = table[0].sum() if parties is None else parties
    if ballots < 1:
        raise DataError("the counts are all zero; at least one party must have voted")
    # The first condition catches entries whose row sum would overflow int64.
    if (table > ballots).any() or (table.sum(axis=1) != ballots).any():
        raise DataError(f"the counts of every sample must sum to the number of ballots, {ballots}, of one round")
    return table


def alpha(counts: ArrayLike) -> NDArray[np.float64]:
    """Compute soft labels, float64 (N, K): the rounded fraction of votes for each class (Hamm 2016, equation 12).

    In a binary problem Hamm's alpha(x) is column 1.
    """
    table = check_counts(counts)
    fractions: NDArray[np.float64] = table / float(table[0].sum())
    return fractions


def majority(counts: ArrayLike) -> NDArray[np.int64]:
    """Compute majority labels, int64 (N,) (Hamm 2016, equation 6).

    Two classes: class 1 if it has at least M/2 votes, so that a tie goes to class 1, as in equation 6. More classes
    (the paper states no rule): a tie goes to the lowest class number among those with the most votes.
    """
    table = check_counts(counts)
    if table.shape[1] == 2:
        positive: NDArray[np.int64] = (table[:, 1] >= table[:, 0]).astype(np.int64)
        return positive
    most_votes: NDArray[np.int64] = np.argmax(table, axis=1).astype(np.int64)
    return most_votes


def one_hot(labels: ArrayLike, classes: int) -> NDArray[np.float64]:
    """Encode class numbers in [0, classes), (N,), as rows of one 1, float64 (N, K); raises DataError for others."""
    array = np.asarray(labels)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise DataError("labels must be a list of class numbers, one integer per sample")
    if array.size and (array.min() < 0 or array.max() >= classes):
        raise DataError(f"a label lies outside the agreed classes 0 to {classes - 1}")
    targets: NDArray[np.float64] = np.eye(classes)[array]
    return targets


def decisions(w: NDArray[np.float64], X: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the classes, int64 (N,), that a linear classifier without intercept, (d,) or (K, d), gives to rows (N, d).

    For two classes class 1 has a positive score; ties go to the lower class.
    """
    scores = X @ w.T
    return (scores > 0).astype(np.int64) if w.ndim == 1 else scores.argmax(axis=1).astype(np.int64)
