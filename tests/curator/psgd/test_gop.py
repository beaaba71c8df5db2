"""Gaussian objective perturbation: the minimiser, its certificate, and what must be added for being approximate.

`release_gop` is the approximate minima perturbation of Iyengar et al. 2019: given the exact minimiser, releasing one
that is at most r away is a mechanism of sensitivity 2 r on top of the exact one, and the two epsilons and deltas add.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import pytest
from scipy.optimize import minimize

from psephos.curator.checks import check_positive
from psephos.curator.hamm.erm import DEFAULT_TOLERANCE, NORM_SLACK, check_auxiliary, gradient, risk
from psephos.curator.hamm.labels import one_hot
from psephos.curator.losses import Huber, Logistic, Loss, Softmax
from psephos.curator.psgd import gop
from psephos.curator.psgd.bounds import compute_slack, sigma_from_density_ratio
from psephos.curator.psgd.gop import perturbed_minimiser
from psephos.protocol.errors import DataError, InvalidParameter, NormError
from psephos.protocol.privacy.mechanisms import RoundedGaussian, check_delta, choose_pitch, gaussian_sigma, release
from psephos.protocol.randomness import SYSTEM, Randomness, SimulationRandomness


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


@dataclass(frozen=True)
class GopRelease:
    """A released classifier and what it cost."""

    w: np.ndarray = field(repr=False)
    epsilon: float
    delta: float
    unit: str
    sigma: float
    output_sigma: float
    slack: float
    tolerance: float


def release_gop(
    X: np.ndarray,
    y: np.ndarray,
    *,
    epsilon: float,
    delta: float,
    lam: float,
    loss: Loss,
    tolerance: float = DEFAULT_TOLERANCE,
    randomness: Randomness = SYSTEM,
) -> GopRelease:
    """Algorithm 4 with the guarantee kept for what a computer releases: record-level (epsilon, delta)."""
    epsilon, delta, lam = check_positive(epsilon, "epsilon"), check_delta(delta), check_positive(lam, "lambda")
    rows = check_auxiliary(X)
    samples, dimension = rows.shape
    slack = compute_slack(epsilon * (1 - OUTPUT_SHARE), lam, samples, loss.smoothness)
    sigma = sigma_from_density_ratio(
        dimension, slack.epsilon, delta * (1 - 2 * OUTPUT_SHARE), sensitivity=2 * loss.lipschitz * (1 + NORM_SLACK)
    )
    # Far finer than privacy needs, so that rounding eta stays below the solver's tolerance.
    law = RoundedGaussian(dimension, sigma, math.ldexp(choose_pitch(sigma, dimension), -16))
    if law.delta(epsilon) > delta * OUTPUT_SHARE:  # the part of delta that neither mechanism below was given
        raise InvalidParameter(f"delta = {delta:g} is below what the samplers cost; choose a larger one")
    eta = release(np.zeros(dimension), law, randomness)
    ridge = lam + slack.ridge
    w = perturbed_minimiser(rows, y, ridge=ridge, eta=eta, loss=loss, tolerance=tolerance).w

    # The drawn eta is the rounding of a real one half a pitch away at most, in every entry.
    distance = (tolerance + law.pitch * math.sqrt(dimension) / (2 * samples)) / ridge
    output_sensitivity = 2 * distance
    pitch = choose_pitch(output_sensitivity, dimension)
    output = RoundedGaussian.for_epsilon_delta(
        output_sensitivity + pitch * math.sqrt(dimension),
        epsilon * OUTPUT_SHARE,
        delta * OUTPUT_SHARE,
        dimension,
        pitch,
    )
    released = release(w, output, randomness)
    return GopRelease(released, epsilon, delta, "record", sigma, output.sigma, slack.ridge, tolerance)


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


def test_output_noise_matches_its_budget() -> None:
    """eta has 98 % of the budget's sigma, the output noise covers twice the certified distance."""
    X, y, _ = problem()
    released = release_gop(X, y, epsilon=1.0, delta=0.01, lam=0.1, loss=Logistic())
    slack = compute_slack(0.99, 0.1, 200, 0.25)
    assert released.sigma == pytest.approx(sigma_from_density_ratio(5, slack.epsilon, 0.0098))
    assert released.sigma > sigma_from_density_ratio(5, compute_slack(1.0, 0.1, 200, 0.25).epsilon, 0.01)
    distance = released.tolerance / (0.1 + released.slack)
    assert released.output_sigma > gaussian_sigma(2 * distance, 0.01, 1e-4)
    assert released.output_sigma < 1e-4
    assert released.unit == "record"


def test_released_is_the_minimiser_of_the_drawn_noise_plus_a_little() -> None:
    X, y, _ = problem()
    options = {"epsilon": 1.0, "delta": 0.01, "lam": 0.1, "loss": Logistic()}
    first = release_gop(X, y, **options, randomness=SimulationRandomness(1, "gop"))
    same = release_gop(X, y, **options, randomness=SimulationRandomness(1, "gop"))
    coarse = release_gop(X, y, **options, tolerance=1e-3, randomness=SimulationRandomness(1, "gop"))
    assert (first.w == same.w).all()
    # The same eta to within its grid; the coarse one has 10^6 times the output noise.
    assert 0 < np.linalg.norm(first.w - coarse.w) <= 10 * coarse.output_sigma * math.sqrt(5)
    assert coarse.output_sigma == pytest.approx(1e6 * first.output_sigma, rel=0.2)
    assert (first.w != release_gop(X, y, **options).w).any()
    assert "w=" not in repr(first)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"epsilon": 0.0}, InvalidParameter),
        ({"delta": 0.0}, InvalidParameter),
        ({"delta": 1.0}, InvalidParameter),
        ({"delta": 1e-60}, InvalidParameter),
        ({"lam": 0.0}, InvalidParameter),
        ({"loss": Softmax()}, InvalidParameter),
        ({"tolerance": 1e-18}, InvalidParameter),
        ({"y": np.zeros(200)}, DataError),
        ({"X": np.full((200, 5), 0.9)}, NormError),
        ({"X": np.full((200, 5), np.inf)}, DataError),
    ],
)
def test_bad_input(change: dict[str, object], error: type[Exception]) -> None:
    X, y, _ = problem()
    options = {"X": X, "y": y, "epsilon": 1.0, "delta": 0.01, "lam": 0.1, "loss": Logistic(), **change}
    with pytest.raises(error):
        release_gop(**options)
