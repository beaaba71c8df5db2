"""Every bound of the sensitivity table holds against an adversary, and the ones that can be tight are nearly reached.

Neighbours are searched at random and built by hand (votes aligned with the top singular vector, margins at Lambert's
point, one auxiliary sample swung around); both minimisers are then solved to machine precision by Newton's method.
"""

import math

import numpy as np
import pytest
from scipy.special import lambertw

from psephos.curator.hamm import sensitivity as s
from tests.curator.hamm import row_bounds

SLACK = 1 + 1e-8  # of the solver below


def softmax_minimiser(X, labels, lam, weights=None):
    """argmin sum_i weight_i (logsumexp(W x_i) - <label_i, W x_i>) + lam/2 |W|^2, labels (N, K), by damped Newton."""
    samples, width = X.shape
    classes = labels.shape[1]
    weights = np.full(samples, 1 / samples) if weights is None else weights

    def evaluate(W):
        Z = X @ W.T
        top = Z.max(axis=1, keepdims=True)
        log_sum = np.log(np.exp(Z - top).sum(axis=1)) + top[:, 0]
        P = np.exp(Z - log_sum[:, None])
        value = weights @ (log_sum - (labels * Z).sum(axis=1)) + lam / 2 * (W * W).sum()
        return value, P, (weights[:, None] * (P - labels)).T @ X + lam * W

    W = np.zeros((classes, width))
    for _ in range(200):
        value, P, slope = evaluate(W)
        if np.linalg.norm(slope) < 1e-14 * max(1, lam):
            break
        hessian = lam * np.eye(classes * width)
        for i in range(samples):
            hessian += weights[i] * np.kron(np.diag(P[i]) - np.outer(P[i], P[i]), np.outer(X[i], X[i]))
        step = np.linalg.solve(hessian, slope.ravel()).reshape(W.shape)
        size = 1.0
        while evaluate(W - size * step)[0] > value - 1e-4 * size * (slope * step).sum() and size > 1e-8:
            size /= 2
        W = W - size * step
    assert np.linalg.norm(evaluate(W)[2]) < 1e-9 * max(1, lam)
    return W


def logistic_minimiser(X, alpha, lam, weights=None):
    """The binary minimiser: softmax over scores (0, w.x) is the logistic loss, and its W = (-w, w)/2 at ridge 2 lam."""
    W = softmax_minimiser(X, np.stack([1 - alpha, alpha], axis=1), 2 * lam, weights)
    return W[1] - W[0]


def unit_rows(generator, samples, width):
    X = generator.normal(size=(samples, width)) * generator.random(width)
    return X / np.linalg.norm(X, axis=1, keepdims=True) * generator.random((samples, 1)) ** 0.2


def aligned(X):
    """Where a row points along the top singular direction: the votes that move the statistic most."""
    return np.linalg.svd(X)[2][0] @ X.T > 0


@pytest.mark.parametrize("lam", [1e-2, 1e-4])
@pytest.mark.parametrize("classes", [2, 3, 6])
def test_radius_is_reached_and_never_passed(lam, classes):
    """One sample whose margin at the minimiser is Lambert's point makes a minimiser of length exactly R."""
    R = s.radius(lam, classes)
    margin = 1 + float(lambertw((classes - 1) / math.e).real)
    X = np.array([[margin / R * (1 if classes == 2 else math.sqrt((classes - 1) / classes))]])
    if classes == 2:
        w = logistic_minimiser(X, np.ones(1), lam)
        flipped = logistic_minimiser(X, np.zeros(1), lam)
        assert np.linalg.norm(w - flipped) / row_bounds.binary_majority(lam).value == pytest.approx(1, abs=1e-6)
        assert np.linalg.norm(w - flipped) <= row_bounds.binary_majority(lam).value * SLACK
    W = softmax_minimiser(X if classes > 2 else X * math.sqrt(0.5), np.eye(classes)[[0]], lam)
    ratios = [np.linalg.norm(W) / R]
    generator = np.random.default_rng(classes)
    for _ in range(10):
        Z = unit_rows(generator, 5, 2) * generator.random() * 5 * margin / R
        ratios.append(np.linalg.norm(softmax_minimiser(Z, generator.dirichlet(np.full(classes, 0.3), 5), lam)) / R)
    assert max(ratios) <= SLACK
    assert max(ratios) == pytest.approx(1, abs=1e-6)


def private_auxiliary_pair(lam, samples):
    """N - 1 equal samples push w to (w1, 0); the last one, far on the wrong side, swings from (-h, c) to (-h, -c)."""
    X = np.array([[1.0, 0.0], [-0.6, 0.8], [-0.6, -0.8]])
    rest = 1 - 1 / samples
    one = logistic_minimiser(X[[0, 1]], np.ones(2), lam, np.array([rest, 1 / samples]))
    two = logistic_minimiser(X[[0, 2]], np.ones(2), lam, np.array([rest, 1 / samples]))
    return float(np.linalg.norm(one - two))


def test_hamm_4_5_is_too_small_on_the_logistic_base_and_the_corrected_one_holds():
    samples, parties = 10**6, 10**9
    lam = 1 / samples
    moved = private_auxiliary_pair(lam, samples)
    hamm = row_bounds.binary_soft(lam, parties).value * (samples + parties - 1) / samples
    assert moved > 1.4 * hamm
    assert moved <= row_bounds.binary_soft_private_auxiliary(lam, parties, samples).value * SLACK
    assert row_bounds.binary_soft_private_auxiliary(lam, parties, samples).value < 2.01 * hamm


def test_average_bound_is_reached():
    assert s.average(3.0, 10).value == pytest.approx(np.linalg.norm(np.array([3.0]) / 10 - np.array([-3.0]) / 10))


# -- certified norms


@pytest.mark.parametrize(("samples", "width"), [(1, 1), (5, 40), (300, 20), (2000, 60)])
@pytest.mark.parametrize("scale", [1.0, 1e-150, 1e100])
def test_operator_norm_is_an_upper_bound_and_close(samples, width, scale):
    generator = np.random.default_rng([samples, width])
    X = generator.normal(size=(samples, width)) * 10.0 ** generator.uniform(-4, 0, size=width) * scale
    true = np.linalg.norm(X / scale, 2) * scale
    assert true * (1 - 1e-14) <= s.operator_norm(X) <= true * (1 + 1e-6)
    rows = np.linalg.norm(X / scale, axis=1).max() * scale
    assert rows * (1 - 1e-14) <= s.largest_row_norm(X) <= rows * (1 + 1e-6)


def test_operator_norm_is_exact_arithmetic_proof():
    """Against integers: for X = (a, b; c, d) the bound squared is at least the top eigenvalue, compared exactly."""
    from fractions import Fraction

    generator = np.random.default_rng(1)
    for _ in range(200):
        X = generator.integers(-(2**26), 2**26, size=(4, 2)).astype(float)
        if generator.random() < 0.5:
            X[:, 1] = X[:, 0] * 2  # rank one: the top eigenvalue is an integer and the floating-point one a hair away
        p, q, r = (
            sum(int(a) * int(b) for a, b in zip(X[:, i], X[:, j], strict=True)) for i, j in ((0, 0), (0, 1), (1, 1))
        )
        t = Fraction(s.operator_norm(X)) ** 2
        assert t >= p
        assert (t - p) * (t - r) - q * q >= 0


# -- what is added, and the papers' own


def test_snapping_moves_neighbours_apart_by_at_most_the_lattice_term():
    generator = np.random.default_rng(0)
    worst = 0.0
    for _ in range(500):
        one = generator.normal(size=4)
        two = one + generator.normal(size=4) * 0.01
        apart = np.linalg.norm(np.floor(one / 0.25 + 0.5) - np.floor(two / 0.25 + 0.5)) * 0.25
        bound = s.with_lattice(s.Sensitivity(float(np.linalg.norm(one - two))), 0.25, 4).value
        worst = max(worst, apart / bound)
    assert 0.6 < worst <= 1


# -- every row by hand: lambda = 2, M = 4, N = 8, rho = 1/2, where no cap binds; and all of them where it does

BOTH = "party and one auxiliary sample"
ROOT = math.sqrt(2)
TABLE = [
    (lambda: row_bounds.binary_majority(2, 0.5), 1 / 4, "party", "min(rho/lambda, 2 R); Hamm (27)"),
    (lambda: row_bounds.binary_majority(2, 0.5, "lipschitz"), 1 / 2, "party", "2 rho/lambda; Hamm Theorem 1"),
    (
        lambda: row_bounds.binary_soft(2, 4, 0.5),
        1 / 16,
        "party",
        "min(rho/(M lambda), 2 R); Hamm (30), l'(t) + l'(-t) = -1",
    ),
    (lambda: row_bounds.binary_soft(2, 4, 0.5, "lipschitz"), 1 / 8, "party", "2 rho/(M lambda); Hamm Theorem 3"),
    (lambda: row_bounds.multiclass_majority(2, 3, 0.5), ROOT / 4, "party", "min(sqrt(2) rho/lambda, 2 R); Hamm B.2"),
    (
        lambda: row_bounds.multiclass_soft(2, 4, 3, 0.5),
        ROOT / 16,
        "party",
        "min(sqrt(2) rho/(M lambda), 2 R); Hamm B.3",
    ),
    (lambda: s.average(3, 4), 3 / 2, "party", "2 C/M"),
    (
        lambda: row_bounds.binary_soft_private_auxiliary(2, 4, 8),
        15 / 64,
        BOTH,
        "(N + 2M - 1)/(N M lambda); Hamm 4.5 corrected",
    ),
    (
        lambda: row_bounds.binary_soft_private_auxiliary(2, 4, 8, "lipschitz"),
        22 / 64,
        BOTH,
        "2 (N + M - 1)/(N M lambda); Hamm 4.5",
    ),
    (lambda: row_bounds.binary_majority_private_auxiliary(2, 8), 9 / 16, BOTH, "min((N + 1)/(N lambda), 2 R)"),
    (lambda: row_bounds.binary_majority_private_auxiliary(2, 8, "lipschitz"), 1.0, BOTH, "2/lambda; Hamm 4.5"),
    (
        lambda: row_bounds.multiclass_soft_private_auxiliary(2, 4, 8, 3),
        15 * ROOT / 64,
        BOTH,
        "sqrt(2) (N + 2M - 1)/(N M lambda); Hamm 4.5 corrected",
    ),
    (
        lambda: row_bounds.multiclass_majority_private_auxiliary(2, 8, 3),
        9 * ROOT / 16,
        BOTH,
        "min(sqrt(2) (N + 1)/(N lambda), 2 R)",
    ),
    (lambda: s.printed("vote", 2, parties=4, classes=2), 1.0, "party", "Hamm Theorem 1: 2/lambda"),
    (lambda: s.printed("soft", 2, parties=4, classes=2), 1 / 4, "party", "Hamm Theorem 3: 2/(M lambda)"),
    (lambda: s.printed("vote", 2, parties=4, classes=3), ROOT / 2, "party", "Hamm B.2: sqrt(2)/lambda"),
    (lambda: s.printed("soft", 2, parties=4, classes=3), ROOT / 8, "party", "Hamm B.3: sqrt(2)/(M lambda)"),
    (lambda: s.printed("avg", 2, parties=4, classes=3), ROOT / 4, "party", "Hamm B.4: 2 sqrt(2)/(M lambda)"),
    (lambda: s.printed("avg", 2, parties=4, classes=2), 1 / 4, "party", "Hamm B.4, binary: 2/(M lambda)"),
]


@pytest.mark.parametrize(("row", "value", "unit", "source"), TABLE, ids=[source for *_, source in TABLE])
def test_every_row_of_the_sensitivity_table(row, value, unit, source):
    bound = row()
    assert (bound.norm, bound.unit, bound.source) == ("l2", unit, source)
    assert bound.value == pytest.approx(value * (1 + 2.0**-44), rel=5e-16, abs=0)


# -- what a certificate adds to a norm of 1, in units of 2^-53, where all of its arithmetic is exact


def corner(samples, width):
    """One entry of 1 among zeros."""
    X = np.zeros((samples, width))
    X[-1, 0] = 1
    return X


def test_rho_is_the_operator_norm_over_the_root_of_the_samples_rounded_up():
    X = np.eye(4)
    assert s.rho(X) == s.operator_norm(X) / 2 * (1 + 2.0**-50)
    assert s.rho(corner(1, 1)) == s.largest_row_norm(corner(1, 1)) < s.operator_norm(corner(1, 1))


def test_an_underestimated_eigenvalue_is_detected_and_raised(monkeypatch):
    """Whatever LAPACK says: Cholesky's factorisation does not come to its end below the true one."""
    X = np.random.default_rng(7).normal(size=(30, 5))
    right, eigenvalues = s.operator_norm(X), np.linalg.eigvalsh
    monkeypatch.setattr(np.linalg, "eigvalsh", lambda gram: eigenvalues(gram) * (1 - 2.0**-30))
    assert right * (1 - 2.0**-41) <= s.operator_norm(X) <= right * (1 + 2.0**-32)


@pytest.mark.parametrize("loss", ["logistic", "softmax"])
@pytest.mark.parametrize("labels", ["majority", "soft"])
@pytest.mark.parametrize("samples", [None, 8])
def test_every_row_is_capped_where_lambda_is_small(labels, loss, samples):
    classes = 2 if loss == "logistic" else 5
    bound = s.risk_minimiser(labels, loss, 1e-6, parties=1, classes=classes, samples=samples)
    assert bound.value == pytest.approx(2 * s.radius(1e-6, classes) * (1 + 2.0**-44), rel=5e-16, abs=0)
