"""The losses: values, derivatives and the constants privacy and utility rest on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from psephos.curator.losses import Huber, Logistic, Loss, Softmax
from psephos.protocol.errors import InvalidParameter

BINARY = [Logistic(), Huber(), Huber(0.1), Huber(2.0)]
ALL: list[Loss] = [*BINARY, Softmax()]
score = st.floats(-30, 30)
fraction = st.floats(0, 1)


def both(a: float) -> np.ndarray:
    return np.array([[1 - a, a]])


def random_case(loss: Loss, seed: int, spread: float) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    classes = 2 if loss.binary else 4
    targets = generator.dirichlet(np.full(classes, 0.5), size=200)
    return spread * generator.normal(size=200 if loss.binary else (200, classes)), targets


@given(score, fraction)
def test_the_weighted_loss_is_equation_14(t: float, a: float) -> None:
    for loss in BINARY:
        plus, minus = loss.value(np.array([t]), both(1.0))[0], loss.value(np.array([-t]), both(1.0))[0]
        np.testing.assert_allclose(
            loss.value(np.array([t]), both(a))[0], a * plus + (1 - a) * minus, rtol=1e-12, atol=1e-13
        )


def test_softmax_of_two_classes_is_the_logistic_loss() -> None:
    scores, targets = random_case(Logistic(), 0, 3.0)
    both_scores = np.stack([np.zeros_like(scores), scores], axis=1)
    np.testing.assert_allclose(Softmax().value(both_scores, targets), Logistic().value(scores, targets), atol=1e-12)
    derivative = Softmax().derivative(both_scores, targets)
    np.testing.assert_allclose(derivative[:, 1], Logistic().derivative(scores, targets), atol=1e-15)


@pytest.mark.parametrize("loss", ALL, ids=repr)
@pytest.mark.parametrize("spread", [0.3, 3.0])
def test_the_derivative_is_the_slope_of_the_value(loss: Loss, spread: float) -> None:
    scores, targets = random_case(loss, 1, spread)
    direction = np.random.default_rng(2).normal(size=scores.shape)
    step = 1e-5
    slope = (loss.value(scores + step * direction, targets) - loss.value(scores - step * direction, targets)) / (
        2 * step
    )
    product = loss.derivative(scores, targets) * direction
    np.testing.assert_allclose(product if loss.binary else product.sum(axis=1), slope, atol=2e-4)


@pytest.mark.parametrize("loss", ALL, ids=repr)
def test_the_curvature_is_the_slope_of_the_derivative(loss: Loss) -> None:
    scores, targets = random_case(loss, 3, 2.0)
    if isinstance(loss, Huber):  # away from the kinks
        h = loss.half_width
        smooth = np.min([np.abs(scores - k) for k in (1 - h, 1 + h, -1 - h, -1 + h)], axis=0) > 1e-3
        scores, targets = scores[smooth], targets[smooth]
    direction = np.random.default_rng(4).normal(size=scores.shape)
    step = 1e-6
    change = loss.derivative(scores + step * direction, targets) - loss.derivative(scores - step * direction, targets)
    curvature = loss.curvature(scores, targets)
    if loss.binary:
        bent = curvature * direction
    else:
        bent = curvature * (direction - (curvature * direction).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(bent, change / (2 * step), atol=1e-7)


@pytest.mark.parametrize("loss", ALL, ids=repr)
def test_the_constants_bound_and_are_tight(loss: Loss) -> None:
    reached_slope, reached_bend = 0.0, 0.0
    for seed in range(20):
        for spread in (0.01, 1.0, 5.0, 50.0):
            scores, targets = random_case(loss, seed, spread)
            targets = np.eye(targets.shape[1])[targets.argmax(axis=1)] if seed % 2 else targets
            derivative = loss.derivative(scores, targets)
            norm = np.abs(derivative) if loss.binary else np.linalg.norm(derivative, axis=1)
            assert norm.max() <= loss.lipschitz * (1 + 1e-14)
            reached_slope = max(reached_slope, norm.max())
            curvature = loss.curvature(scores, targets)
            if loss.binary:
                bend = curvature
            else:
                bend = np.array([np.linalg.eigvalsh(np.diag(p) - np.outer(p, p))[-1] for p in curvature])
            assert bend.min() >= -1e-15
            assert bend.max() <= loss.smoothness * (1 + 1e-14)
            reached_bend = max(reached_bend, bend.max())
    assert reached_slope > 0.99 * loss.lipschitz
    assert reached_bend > 0.9 * loss.smoothness


@given(score)
def test_the_identity_behind_the_logistic_sensitivity(t: float) -> None:
    """l'(t) + l'(-t) = -1: the reason why one vote moves the gradient by 1/M and not by 2/M."""
    slope = [Logistic().derivative(np.array([s]), both(1.0))[0] for s in (t, -t)]
    assert abs(sum(slope) + 1) < 1e-15


@pytest.mark.parametrize("loss", ALL, ids=repr)
def test_extreme_scores_do_not_overflow(loss: Loss) -> None:
    for size in (1e3, 1e8, 1e300):
        scores = np.array([size, -size]) if loss.binary else np.array([[size, -size, 0.0], [-size, size, size]])
        targets = np.eye(2) if loss.binary else np.array([[0.0, 1.0, 0.0], [0.5, 0.5, 0.0]])
        for array in (loss.value(scores, targets), loss.derivative(scores, targets), loss.curvature(scores, targets)):
            assert np.isfinite(array).all()


@pytest.mark.parametrize("width", [0.0, -1.0, float("nan"), float("inf")])
def test_invalid_half_widths_are_refused(width: float) -> None:
    with pytest.raises(InvalidParameter):
        Huber(width)
