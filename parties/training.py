"""Local training of many small parties at once: ridge logistic and softmax regression, to a stated gradient norm.

Hamm 2016, section 6. Every party minimises

    (1/n) sum_i loss(W x_i, y_i) + (lambda/2) ||W||^2

on its own n samples, without an intercept. With two classes the loss is log(1 + exp(-t)), t = +-w.x, and W is one
vector; with K > 2 it is the softmax loss over all K *agreed* classes, whether they occur in the party's data or not.

Parties with the same number of samples are stacked into batches; no bit of one party's result depends on the others.
The minimiser lies in the span of the party's samples, so when n < d the problem is first rotated into n dimensions (QR
of X^T), and then solved by Newton's method with backtracking.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from psephos.protocol.errors import ConvergenceError, DataError, InvalidParameter, NormError

Floats = NDArray[np.float64]

WHITENED_RIDGE = 0.01
"""lambda in whitened coordinates: chosen on the development half of benchmarks/accuracy.md."""

_BATCH_ENTRIES = 1 << 22  # of the largest stacked array, 32 MiB
_DIRECT = 1500  # unknowns up to which the Newton system is factorised; beyond it, conjugate gradients
_ITERATIONS = 200


def train_parties(
    X: NDArray[np.floating],
    y: NDArray[np.integer],
    sizes: Sequence[int] | NDArray[np.integer],
    *,
    classes: int,
    lam: float,
    tolerance: float = 1e-8,
) -> Floats:
    """Compute every party's ridge minimiser: (M, d) for two classes, where w.x > 0 means class 1, or (M, K, d)."""
    X, y, sizes = _check_data(X, y, sizes, classes, lam)
    if not (np.isfinite(tolerance) and tolerance >= 1e-12):
        raise InvalidParameter(f"tolerance must be finite and at least 1e-12, because of rounding, not {tolerance}")
    goal = 0.99 * tolerance  # leaves room for the rounding of the rotation back
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    columns = 1 if classes == 2 else classes
    W = np.empty((len(sizes), columns, X.shape[1]))
    for members in _batches(sizes, X.shape[1], columns):
        stacked, targets, weights = _stack(X, y, starts[members], int(sizes[members[0]]), columns)
        if stacked.shape[1] < X.shape[1]:
            Q, R = np.linalg.qr(stacked.transpose(0, 2, 1))
            rotated = _newton(np.ascontiguousarray(R.transpose(0, 2, 1)), targets, weights, lam, goal)
            W[members] = rotated @ Q.transpose(0, 2, 1)
        else:
            W[members] = _newton(stacked, targets, weights, lam, goal)
    return W[:, 0] if columns == 1 else W


def train_whitened(
    Z: Floats,
    y: NDArray[np.integer],
    sizes: Sequence[int] | NDArray[np.integer],
    *,
    classes: int,
    transform: Floats,
    lam: float = WHITENED_RIDGE,
) -> Floats:
    """Compute every party's classifier in public coordinates z = x @ transform, (d, r), of rows x at unit length.

    The objective is that of `train_parties`, in z. The minimisers, (M, K, r) also for two classes, are multiplied by
    the largest singular value of `transform` (and 1 + 1e-9).
    """
    reach = float(np.linalg.norm(transform, 2)) * (1 + 1e-9)  # bounds the norm of a unit row's coordinates
    W = train_parties(Z / reach, y, sizes, classes=classes, lam=lam / reach**2)
    return np.stack([-W, W], axis=1) if classes == 2 else W


def votes_in_blocks(
    W: Floats, X: NDArray[np.floating], *, max_bytes: int = 1 << 26
) -> Iterator[tuple[slice, NDArray[np.uint8]]]:
    """Compute the votes of linear classifiers W, (M, d) or (M, K, d), on rows (N, d). Ties go to the lower class.

    Yields a slice of the parties, and their votes, uint8 (number of these parties, N), of scores below `max_bytes`.
    """
    columns = W.shape[1] if W.ndim == 3 else 1
    if W.ndim not in (2, 3) or X.ndim != 2 or W.shape[-1] != X.shape[1]:
        raise DataError(f"classifiers of shape {W.shape} cannot vote on samples of shape {X.shape}")
    if columns > 256:
        raise InvalidParameter(f"a vote is stored in one byte, so there can be at most 256 classes, not {columns}")
    step = max(1, max_bytes // max(1, 8 * columns * len(X)))
    transposed = np.asarray(X, np.float64).T
    for start in range(0, len(W), step):
        block = W[start : start + step]
        if W.ndim == 2:
            indices = (block @ transposed > 0).view(np.uint8)
        else:
            scores = (block.reshape(-1, W.shape[2]) @ transposed).reshape(len(block), columns, len(X))
            indices = scores.argmax(axis=1).astype(np.uint8)
        yield slice(start, start + len(block)), indices


def votes(W: Floats, X: NDArray[np.floating], *, max_bytes: int = 1 << 26) -> NDArray[np.uint8]:
    """Compute all votes at once, uint8 (M, N). Arguments and errors as in `votes_in_blocks`."""
    result = np.empty((len(W), len(X)), np.uint8)
    for parties, block in votes_in_blocks(W, X, max_bytes=max_bytes):
        result[parties] = block
    return result


def class_probabilities(w: Floats, X: NDArray[np.floating]) -> Floats:
    """Compute the probabilities, (N, K), that one logistic (d,) or softmax (K, d) classifier gives rows (N, d)."""
    scores = np.asarray(X, np.float64) @ (np.stack([np.zeros_like(w), w]) if w.ndim == 1 else w).T
    probabilities: Floats = scipy.special.softmax(scores, axis=1)
    return probabilities


@dataclass(frozen=True)
class LinearVoter:
    """A linear classifier that predicts class indices: weights (d,) for two classes, (K, d) for more. Secret."""

    w: NDArray[np.float64] = field(repr=False)

    def predict_votes(self, X: NDArray[np.float64]) -> NDArray[np.integer]:
        """Return the class index of each sample, shape (N,), for samples of shape (N, d)."""
        return np.asarray(votes(self.w[None], X)[0])

    def predict_probabilities(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probability of every class for each sample, shape (N, K), for samples of shape (N, d)."""
        return class_probabilities(self.w, X)


class LinearVoters(Sequence[LinearVoter]):
    """The classifiers of all parties, made when they are read, since a million objects take a gigabyte.

    `w`: the parties' weights, (M, d) or (M, K, d).
    """

    def __init__(self, w: NDArray[np.float64]) -> None:
        self._w = w

    def __len__(self) -> int:
        return len(self._w)

    def __getitem__(self, at: Any) -> Any:
        return [LinearVoter(w) for w in self._w[at]] if isinstance(at, slice) else LinearVoter(self._w[at])


def count_votes(blocks: Iterable[NDArray[np.integer]], samples: int, classes: int) -> NDArray[np.int64]:
    """Count the votes of blocks of parties, (parties in the block, N) each, for each sample and class: int64 (N, K)."""
    counts = np.zeros((samples, classes), dtype=np.int64)
    for block in blocks:
        for label in range(classes):
            counts[:, label] += (block == label).sum(axis=0)
    return counts


# -- batches


def _check_data(
    X: NDArray[np.floating],
    y: NDArray[np.integer],
    sizes: Sequence[int] | NDArray[np.integer],
    classes: int,
    lam: float,
) -> tuple[NDArray[np.floating], NDArray[np.integer], NDArray[np.int64]]:
    if classes < 2:
        raise InvalidParameter(f"classes must be at least 2, not {classes}")
    if not (np.isfinite(lam) and lam > 0):
        raise InvalidParameter(f"lambda must be positive and finite, not {lam}")
    X, y, counts = np.asarray(X), np.asarray(y), np.asarray(sizes, np.int64)
    if X.ndim != 2 or X.shape[1] < 1 or y.shape != (len(X),):
        raise DataError(f"samples of shape {X.shape} and labels of shape {y.shape} do not fit together")
    if counts.ndim != 1 or not len(counts) or counts.min() < 1:
        raise DataError("there must be at least one party, and every party needs at least one sample")
    if counts.sum() != len(X):
        raise DataError(f"the parties' sizes sum to {counts.sum()}, but there are {len(X)} samples")
    if not np.isfinite(X).all():
        raise DataError("features are NaN or infinite")
    longest = float(np.einsum("ij,ij->i", X, X, dtype=np.float64).max())
    if longest > 1 + 1e-9:  # allows for rounding
        raise NormError("a row has norm above 1, which every sensitivity excludes; scale the rows with PublicScaler")
    if not np.issubdtype(y.dtype, np.integer) or y.min() < 0 or y.max() >= classes:
        raise DataError(f"labels must be integers from 0 to {classes - 1}, the agreed classes")
    return X, y, counts


def _batches(sizes: NDArray[np.int64], features: int, columns: int) -> Iterator[NDArray[np.intp]]:
    """Yield batches of parties with equal sizes, so that nothing is padded, and small enough for memory."""
    for size in np.unique(sizes):
        members = np.flatnonzero(sizes == size)
        unknowns = min(columns * min(int(size), features), _DIRECT)
        entries = max(int(size) * features, int(size) * columns * columns, unknowns * unknowns)
        step = max(1, _BATCH_ENTRIES // entries)
        yield from (members[start : start + step] for start in range(0, len(members), step))


def _stack(
    X: NDArray[np.floating], y: NDArray[np.integer], starts: NDArray[np.int64], size: int, columns: int
) -> tuple[Floats, Floats, Floats]:
    """Stack m parties of n = `size` samples: samples (m, n, d), targets (m, n, C) and weights (m, n), all 1/n."""
    rows = starts[:, None] + np.arange(size)
    labels = y[rows]
    targets = labels[:, :, None] == (np.arange(columns) if columns > 1 else 1)
    return X[rows].astype(np.float64), targets.astype(np.float64), np.full(rows.shape, 1 / size)


# -- Newton's method on a batch; X (m, n, r), targets (m, n, C), weights (m, n), V (m, C, r), scores (m, n, C)


def _values(targets: Floats, weights: Floats, lam: float, V: Floats, scores: Floats) -> Floats:
    if targets.shape[2] == 1:
        losses = np.logaddexp(0, scores[:, :, 0]) - targets[:, :, 0] * scores[:, :, 0]
    else:
        losses = scipy.special.logsumexp(scores, axis=2) - (targets * scores).sum(axis=2)
    return np.asarray((weights * losses).sum(axis=1) + lam / 2 * np.einsum("mci,mci->m", V, V))


def _probabilities(scores: Floats) -> Floats:
    if scores.shape[2] == 1:
        return np.asarray(scipy.special.expit(scores))
    return np.asarray(scipy.special.softmax(scores, axis=2))


def _newton(X: Floats, targets: Floats, weights: Floats, lam: float, tolerance: float) -> Floats:
    """Return the minimisers (m, C, r), with gradients of norm at most `tolerance`."""
    m, _, r = X.shape
    C = targets.shape[2]
    V, scores = np.zeros((m, C, r)), np.zeros(targets.shape)
    active = np.arange(m)
    for _ in range(_ITERATIONS):
        Xa, Ta, wa = X[active], targets[active], weights[active]
        residuals = (_probabilities(scores[active]) - Ta) * wa[:, :, None]
        gradient = np.asarray(residuals.transpose(0, 2, 1) @ Xa + lam * V[active])
        todo = np.einsum("mci,mci->m", gradient, gradient) > tolerance**2
        if not todo.any():
            return V
        active, Xa, Ta, wa, gradient = active[todo], Xa[todo], Ta[todo], wa[todo], gradient[todo]
        P = _probabilities(scores[active])
        newton_step = _direct_step if C * r <= _DIRECT else _conjugate_step
        step = newton_step(Xa, P, wa, lam, gradient)
        along = Xa @ step.transpose(0, 2, 1)
        length = _backtrack(Ta, wa, lam, V[active], scores[active], step, along, gradient)[:, None, None]
        V[active] += length * step
        scores[active] = Xa @ V[active].transpose(0, 2, 1)
    raise ConvergenceError(f"no gradient within the tolerance after {_ITERATIONS} Newton steps; raise lambda")


def _backtrack(
    targets: Floats,
    weights: Floats,
    lam: float,
    V: Floats,
    scores: Floats,
    step: Floats,
    along: Floats,
    gradient: Floats,
) -> Floats:
    """Return step lengths (m,), halved until Armijo's condition holds up to the objective's rounding error."""
    length = np.ones(len(V))
    before = _values(targets, weights, lam, V, scores)
    slope = np.einsum("mci,mci->m", gradient, step)
    slack = 1e-13 * (1 + before)
    pending = np.arange(len(V))
    for _ in range(60):
        t = length[pending][:, None, None]
        after = _values(
            targets[pending],
            weights[pending],
            lam,
            V[pending] + t * step[pending],
            scores[pending] + t * along[pending],
        )
        bound = before[pending] + 1e-4 * length[pending] * slope[pending] + slack[pending]
        pending = pending[~(after <= bound)]
        if not len(pending):
            break
        length[pending] /= 2
    return length


def _direct_step(X: Floats, P: Floats, weights: Floats, lam: float, gradient: Floats) -> Floats:
    """Return -H^-1 gradient, (m, C, r), by factorising the (C r) x (C r) Hessians."""
    m, _, r = X.shape
    C = P.shape[2]
    H = np.empty((m, C, r, C, r))
    Xt = X.transpose(0, 2, 1)
    for k in range(C):
        for j in range(k + 1):
            same = 1.0 if k == j else 0.0
            curvature = weights * P[:, :, k] * ((1 - P[:, :, k]) if C == 1 else (same - P[:, :, j]))
            block = Xt @ (curvature[:, :, None] * X)
            H[:, k, :, j, :] = block
            H[:, j, :, k, :] = block  # each block is symmetric itself
    system = H.reshape(m, C * r, C * r)
    system[:, np.arange(C * r), np.arange(C * r)] += lam
    try:
        return np.asarray(-np.linalg.solve(system, gradient.reshape(m, C * r, 1)).reshape(gradient.shape))
    except np.linalg.LinAlgError:  # lambda is lost in the rounding of some party's Hessian
        if m == 1:
            return _conjugate_step(X, P, weights, lam, gradient)
        alone = [slice(party, party + 1) for party in range(m)]  # no party's step may depend on another's failure
        return np.concatenate([_direct_step(X[at], P[at], weights[at], lam, gradient[at]) for at in alone])


def _conjugate_step(X: Floats, P: Floats, weights: Floats, lam: float, gradient: Floats) -> Floats:
    """Return -H^-1 gradient approximately, by conjugate gradients on Hessian-vector products; for many unknowns."""

    def hessian_times(D: Floats) -> Floats:
        U = X @ D.transpose(0, 2, 1)
        U = P * (1 - P) * U if P.shape[2] == 1 else P * (U - (P * U).sum(axis=2, keepdims=True))
        return np.asarray((U * weights[:, :, None]).transpose(0, 2, 1) @ X + lam * D)

    step = np.zeros_like(gradient)
    residual = -gradient
    direction = residual.copy()
    size = np.einsum("mci,mci->m", residual, residual)
    # Forcing terms min(0.01, ||g||^(1/2)) keep the outer convergence superlinear.
    goal = size * np.minimum(1e-4, np.sqrt(size))
    for _ in range(2 * gradient[0].size):
        if (size <= goal).all():
            break
        image = hessian_times(direction)
        rate = np.where(size > goal, size / np.maximum(np.einsum("mci,mci->m", direction, image), 1e-300), 0.0)
        step += rate[:, None, None] * direction
        residual -= rate[:, None, None] * image
        new = np.einsum("mci,mci->m", residual, residual)
        direction = residual + (new / np.maximum(size, 1e-300))[:, None, None] * direction
        size = new
    return step
