"""From counts to labels: what the ensemble says about each auxiliary sample (Hamm 2016, equations 6 and 12).

The counts are all the curator ever learns from a round of ballots: for each auxiliary sample and each class, how
many of the M parties voted for it. Classes are numbered 0 to K - 1; in a binary problem class 1 is the positive one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psephos.protocol.errors import DataError


def check_counts(counts: ArrayLike, parties: int | None = None) -> NDArray[np.int64]:
    """The counts as an int64 array of shape (N, K), after checking that they can be the outcome of a vote.

    Every row must sum to the same number of ballots M >= 1 (to `parties`, if given). Raises DataError for anything
    else: no rows, fewer than two classes, numbers that are not integers, negative ones, rows that disagree on M.
    """
    array = np.asarray(counts)
    if array.ndim != 2:
        raise DataError(f"counts must be a table of samples by classes; this array has {array.ndim} dimension(s)")
    samples, classes = array.shape
    if samples == 0:
        raise DataError("there is no auxiliary sample: the table of counts is empty; provide at least one")
    if classes < 2:
        raise DataError(f"counts have {classes} class(es); a classifier needs at least two")
    if array.dtype.kind not in "iu":
        raise DataError(f"counts must be integers, not {array.dtype}; give the number of votes, not fractions")
    table = array.astype(np.int64)
    if (table < 0).any():  # what was unsigned and 2^63 or more has become negative, too
        raise DataError("a count is negative, or too large; votes are counted from zero")
    ballots = table[0].sum() if parties is None else parties
    if ballots < 1:
        raise DataError("the counts hold no ballot at all; at least one party must have voted")
    # One entry larger than M settles it before a sum of huge entries can wrap around.
    if (table > ballots).any() or (table.sum(axis=1) != ballots).any():
        raise DataError(
            f"every sample's counts must sum to the number of ballots, {ballots}; at least one row does not, so these "
            "are not the counts of one round"
        )
    return table


def alpha(counts: ArrayLike) -> NDArray[np.float64]:
    """Soft labels: the fraction of votes for each class, float64 of shape (N, K) (Hamm 2016, equation 12).

    In a binary problem Hamm's alpha(x) is column 1. Each entry is the correctly rounded quotient count / M.
    Raises DataError as `check_counts` does.
    """
    table = check_counts(counts)
    fractions: NDArray[np.float64] = table / float(table[0].sum())
    return fractions


def majority(counts: ArrayLike) -> NDArray[np.int64]:
    """Majority labels, int64 of shape (N,) with values in [0, K) (Hamm 2016, equation 6).

    Binary: class 1 if it has at least M/2 votes, so that a tie goes to class 1, as (6) has it. Several classes (the
    paper has no rule): a tie goes to the lowest class number among those with the most votes.
    Raises DataError as `check_counts` does.
    """
    table = check_counts(counts)
    if table.shape[1] == 2:
        positive: NDArray[np.int64] = (table[:, 1] >= table[:, 0]).astype(np.int64)
        return positive
    first: NDArray[np.int64] = np.argmax(table, axis=1).astype(np.int64)
    return first


def one_hot(labels: ArrayLike, classes: int) -> NDArray[np.float64]:
    """Labels in [0, classes) as targets: float64 of shape (N, classes), a single 1 in each row; DataError outside."""
    array = np.asarray(labels)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise DataError("labels must be a list of class numbers, one integer per sample")
    if array.size and (array.min() < 0 or array.max() >= classes):
        raise DataError(f"a label lies outside the agreed classes 0 to {classes - 1}")
    targets: NDArray[np.float64] = np.eye(classes)[array]
    return targets


def decisions(w: NDArray[np.float64], X: NDArray[np.float64]) -> NDArray[np.int64]:
    """The classes that a linear classifier without intercept gives to rows, int64 (N,).

    Args:
        w: float64 (d,) for two classes, whose class 1 has a positive score, or (K, d).
        X: float64 (N, d). Ties go to the lower class.
    """
    scores = X @ w.T
    return (scores > 0).astype(np.int64) if w.ndim == 1 else scores.argmax(axis=1).astype(np.int64)
