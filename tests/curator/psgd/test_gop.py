"""Gaussian objective perturbation: the minimiser, its certificate."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from psephos.curator.hamm.erm import gradient, risk
from psephos.curator.hamm.labels import one_hot
from psephos.curator.losses import Huber, Logistic, Loss
from psephos.curator.psgd import gop
from psephos.curator.psgd.gop import perturbed_minimiser


def perturbed_risk(
    X: np.ndarray, targets: np.ndarray, w: np.ndarray, ridge: float, eta: np.ndarray, loss: Loss
) -> float:
    return risk(X, targets, w, ridge, loss) + float(eta @ w) / len(X)


def perturbed_gradient(
    X: np.ndarray, targets: np.ndarray, w: np.ndarray, ridge: float, eta: np.ndarray, loss: Loss
) -> np.ndarray:
    return gradient(X, targets, w, ridge, loss) + eta / len(X)


OUTPUT_SHARE = 0.01
"""The part of epsilon and delta that pays for the minimiser being approximate."""


def problem(n: int = 200, d: int = 5, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n, d))
    X /= np.linalg.norm(X, axis=1)[:, None]
    y = np.where(X[:, 0] + 0.3 * generator.normal(size=n) > 0, 1, -1)
    return X, y, generator.normal(scale=20, size=d)


@pytest.mark.parametrize("loss", [Logistic(), Huber(0.5)])
@pytest.mark.parametrize("ridge", [1e-4, 0.1])
def test_minimiser_against_scipy(loss: Logistic | Huber, ridge: float) -> None:
    X, y, eta = problem()
    eta = eta if ridge > 0.01 else eta / 20
    targets = one_hot((y > 0).astype(np.int64), 2)
    minimiser = perturbed_minimiser(X, y, ridge=ridge, eta=eta, loss=loss)
    w, certified = minimiser.w, minimiser.gradient_norm
    assert certified <= gop.DEFAULT_TOLERANCE
    assert np.linalg.norm(perturbed_gradient(X, targets, w, ridge, eta, loss)) <= certified
    reference = minimize(
        lambda v: perturbed_risk(X, targets, v, ridge, eta, loss),
        np.zeros(5),
        jac=lambda v: perturbed_gradient(X, targets, v, ridge, eta, loss),
        method="BFGS",
        options={"gtol": 1e-10, "maxiter": 5000},
    )
    # The certificate: within tau/ridge of the minimiser, which the reference is only near to.
    reached = np.linalg.norm(perturbed_gradient(X, targets, reference.x, ridge, eta, loss))
    assert np.linalg.norm(w - reference.x) <= (certified + reached) / ridge * (1 + 1e-9) + 1e-12
