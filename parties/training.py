"""Local training of many small parties at once: ridge logistic and softmax regression, to a stated gradient norm.

Hamm 2016, section 6: every party minimises

    (1/n) sum_i loss(W x_i, y_i) + (lambda/2) ||W||^2

on its own n samples, without an intercept. With two classes the loss is log(1 + exp(-t)), t = +-w.x, and W is one
vector; with K > 2 it is the softmax loss over all K *agreed* classes, seen by the party or not, so that the bound
R(lambda) on the minimiser's length holds for every party. The ridge makes the minimiser unique and finite even for
a party that saw one class only.

Parties with equally many samples are handled in batches of stacked arrays, each of them by itself: no bit of one
party's result depends on who else is in the batch. The minimiser lies in the span of the party's samples, so when
n < d the problem is first rotated into n dimensions (QR of X^T), where norms and the objective are unchanged.
Then Newton's method with backtracking.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp

from psephos.protocol.errors import ConvergenceError, DataError, InvalidParameter, NormError

Floats = NDArray[np.float64]

WHITENED_RIDGE = 0.01
"""lambda where coordinates are white and so a ridge means something: chosen on the development half of
docs/accuracy.md."""

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
    """Every party's ridge minimiser: (M, d) for two classes, (M, K, d) for K > 2; float64.

    X: (sum(sizes), d), the parties' samples one party after the other, rows with ||x|| <= 1; y: their labels in
    0 .. K-1; sizes: the M parties' numbers of samples, which may differ. classes: K, the agreed number of classes.
    With two classes w.x > 0 means label 1. tolerance: the largest L2 norm of the gradient accepted, at least 1e-12;
    the result is within tolerance/lam of the minimiser.

    Raises InvalidParameter, DataError (empty party, NaN or infinite features, labels outside the agreed classes),
    NormError, ConvergenceError (rounding kept the tolerance out of reach: lam is extremely small).
    """
    X, y, sizes = _checked(X, y, sizes, classes, lam)
    if not (np.isfinite(tolerance) and tolerance >= 1e-12):
        raise InvalidParameter(f"tolerance must be finite and at least 1e-12 (rounding); got {tolerance}")
    goal = 0.99 * tolerance  # the rest is for the rounding of the rotation back
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
    """Every party's classifier in public coordinates z = x @ transform of unit rows x: (M, K, r), also for two classes.

    Z: (sum(sizes), r); transform: (d, r); all else and errors as in `train_parties`, whose objective this is, in z. Its
    minimiser is returned times the largest singular value of `transform` (and 1 + 1e-9).
    """
    reach = float(np.linalg.norm(transform, 2)) * (1 + 1e-9)  # of the coordinates of a unit row
    W = train_parties(Z / reach, y, sizes, classes=classes, lam=lam / reach**2)
    return np.stack([-W, W], axis=1) if classes == 2 else W


def votes_in_blocks(
    W: Floats, X: NDArray[np.floating], *, max_bytes: int = 1 << 26
) -> Iterator[tuple[slice, NDArray[np.uint8]]]:
    """The votes of linear classifiers W, (M, d) or (M, K, d), on the rows X (N, d), some parties at a time.

    Yields (parties, votes) with votes (number of these parties, N) uint8 class indices; the scores held at a time
    take at most max_bytes, or one party's. Ties go to the lower class. Raises DataError, InvalidParameter (K > 256).
    """
    columns = W.shape[1] if W.ndim == 3 else 1
    if W.ndim not in (2, 3) or X.ndim != 2 or W.shape[-1] != X.shape[1]:
        raise DataError(f"classifiers of shape {W.shape} cannot vote on samples of shape {X.shape}")
    if columns > 256:
        raise InvalidParameter(f"at most 256 classes fit a vote in one byte; got {columns}")
    step = max(1, max_bytes // max(1, 8 * columns * len(X)))
    transposed = np.asarray(X, np.float64).T
    for start in range(0, len(W), step):
        block = W[start : start + step]
        if W.ndim == 2:
            chosen = (block @ transposed > 0).view(np.uint8)
        else:
            scores = (block.reshape(-1, W.shape[2]) @ transposed).reshape(len(block), columns, len(X))
            chosen = scores.argmax(axis=1).astype(np.uint8)
        yield slice(start, start + len(block)), chosen


def votes(W: Floats, X: NDArray[np.floating], *, max_bytes: int = 1 << 26) -> NDArray[np.uint8]:
    """All votes (M, N) uint8 at once; the M N bytes of the result come on top of max_bytes.

    Raises DataError, InvalidParameter as `votes_in_blocks`.
    """
    result = np.empty((len(W), len(X)), np.uint8)
    for parties, block in votes_in_blocks(W, X, max_bytes=max_bytes):
        result[parties] = block
    return result


# -- batches


def _checked(
    X: NDArray[np.floating],
    y: NDArray[np.integer],
    sizes: Sequence[int] | NDArray[np.integer],
    classes: int,
    lam: float,
) -> tuple[NDArray[np.floating], NDArray[np.integer], NDArray[np.int64]]:
    if classes < 2:
        raise InvalidParameter(f"at least 2 agreed classes are needed; got {classes}")
    if not (np.isfinite(lam) and lam > 0):
        raise InvalidParameter(f"lambda must be positive and finite; got {lam}")
    X, y, counts = np.asarray(X), np.asarray(y), np.asarray(sizes, np.int64)
    if X.ndim != 2 or X.shape[1] < 1 or y.shape != (len(X),):
        raise DataError(f"samples of shape {X.shape} and labels of shape {y.shape} do not belong together")
    if counts.ndim != 1 or not len(counts) or counts.min() < 1:
        raise DataError("every party needs at least one sample, and there must be a party")
    if counts.sum() != len(X):
        raise DataError(f"the parties' sizes add up to {counts.sum()} but there are {len(X)} samples")
    if not np.isfinite(X).all():
        raise DataError("features are NaN or infinite")
    longest = float(np.einsum("ij,ij->i", X, X, dtype=np.float64).max())
    if longest > 1 + 1e-9:  # up to rounding; the exact bound is the preprocessing's business
        raise NormError("a feature row is longer than 1, which every sensitivity assumes away; scale with PublicScaler")
    if not np.issubdtype(y.dtype, np.integer) or y.min() < 0 or y.max() >= classes:
        raise DataError(f"labels must be integers in 0 .. {classes - 1}, the agreed classes")
    return X, y, counts


def _batches(sizes: NDArray[np.int64], features: int, columns: int) -> Iterator[NDArray[np.intp]]:
    """Parties of equal size together, so that nothing is padded; few enough that a batch's arrays stay small."""
    for size in np.unique(sizes):
        members = np.flatnonzero(sizes == size)
        unknowns = min(columns * min(int(size), features), _DIRECT)
        entries = max(int(size) * features, int(size) * columns * columns, unknowns * unknowns)
        step = max(1, _BATCH_ENTRIES // entries)
        yield from (members[start : start + step] for start in range(0, len(members), step))


def _stack(
    X: NDArray[np.floating], y: NDArray[np.integer], starts: NDArray[np.int64], size: int, columns: int
) -> tuple[Floats, Floats, Floats]:
    """Samples (m, n, d), targets (m, n, C) and weights (m, n), all 1/n, of m parties with n = `size` samples each."""
    rows = starts[:, None] + np.arange(size)
    labels = y[rows]
    targets = labels[:, :, None] == (np.arange(columns) if columns > 1 else 1)
    return X[rows].astype(np.float64), targets.astype(np.float64), np.full(rows.shape, 1 / size)


# -- Newton's method on a batch; X (m, n, r), targets (m, n, C), weights (m, n), V (m, C, r), scores (m, n, C)


def _values(targets: Floats, weights: Floats, lam: float, V: Floats, scores: Floats) -> Floats:
    if targets.shape[2] == 1:
        losses = np.logaddexp(0, scores[:, :, 0]) - targets[:, :, 0] * scores[:, :, 0]
    else:
        losses = logsumexp(scores, axis=2) - (targets * scores).sum(axis=2)
    return np.asarray((weights * losses).sum(axis=1) + lam / 2 * np.einsum("mci,mci->m", V, V))


def _probabilities(scores: Floats) -> Floats:
    if scores.shape[2] == 1:
        return np.asarray(expit(scores))
    exponentials = np.exp(scores - scores.max(axis=2, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(axis=2, keepdims=True))


def _gradient(X: Floats, targets: Floats, weights: Floats, lam: float, V: Floats, scores: Floats) -> Floats:
    residuals = (_probabilities(scores) - targets) * weights[:, :, None]
    return np.asarray(residuals.transpose(0, 2, 1) @ X + lam * V)


def _newton(X: Floats, targets: Floats, weights: Floats, lam: float, tolerance: float) -> Floats:
    m, _, r = X.shape
    C = targets.shape[2]
    V, scores = np.zeros((m, C, r)), np.zeros(targets.shape)
    active = np.arange(m)
    for _ in range(_ITERATIONS):
        Xa, Ta, wa = X[active], targets[active], weights[active]
        gradient = _gradient(Xa, Ta, wa, lam, V[active], scores[active])
        todo = np.einsum("mci,mci->m", gradient, gradient) > tolerance**2
        if not todo.any():
            return V
        active, Xa, Ta, wa, gradient = active[todo], Xa[todo], Ta[todo], wa[todo], gradient[todo]
        P = _probabilities(scores[active])
        find = _direct_step if C * r <= _DIRECT else _conjugate_step
        step = find(Xa, P, wa, lam, gradient)
        along = Xa @ step.transpose(0, 2, 1)
        length = _backtrack(Ta, wa, lam, V[active], scores[active], step, along, gradient)[:, None, None]
        V[active] += length * step
        scores[active] = Xa @ V[active].transpose(0, 2, 1)
    raise ConvergenceError(
        f"local training did not reach its gradient norm in {_ITERATIONS} Newton steps; "
        "lambda is too small for double precision, raise it or the tolerance"
    )


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
    """Step lengths (m,) halved until the objective falls as Armijo asks, up to the objective's own rounding error."""
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
    """-H^-1 gradient with the (C r) x (C r) Hessian built and solved."""
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
        alone = [slice(party, party + 1) for party in range(m)]  # the others' steps must not depend on it
        return np.concatenate([_direct_step(X[at], P[at], weights[at], lam, gradient[at]) for at in alone])


def _conjugate_step(X: Floats, P: Floats, weights: Floats, lam: float, gradient: Floats) -> Floats:
    """-H^-1 gradient, inexactly, by conjugate gradients on Hessian-vector products; for many unknowns."""

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
