"""The private release: the law of its noise, the sensitivity it covers, and what it refuses.

Goodness of fit runs on the operating system's randomness; each p-value is compared with 1e-7, so a correct sampler
fails one of these tests once in ten million runs.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from psephos.curator.hamm import sensitivity as table
from psephos.curator.hamm.averaging import Average
from psephos.curator.hamm.erm import Minimiser, minimise
from psephos.curator.hamm.labels import alpha, majority, one_hot
from psephos.curator.hamm.release import (
    Perturbable,
    PerturbedClassifier,
    erm_sensitivity,
    mechanism_for,
    perturb,
)
from psephos.curator.hamm.sensitivity import Sensitivity
from psephos.curator.losses import Huber, Logistic, Loss, Softmax
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.grids.own_data import contrast_basis
from psephos.protocol.privacy.mechanisms import RoundedGaussian, SphericalLaplace, choose_pitch, release
from psephos.protocol.randomness import SimulationRandomness
from tests.curator.hamm import row_bounds
from tests.statistical import FALSE_ALARM

DRAWS = 4800


def minimiser(w: np.ndarray, lam: float = 1e-2) -> Minimiser:
    loss = Logistic() if w.ndim == 1 else Softmax()
    return Minimiser(w=w, gradient_norm=1e-10, tolerance=1e-9, lam=lam, loss=loss)


def noise_of(classifier: Perturbable, released: list[PerturbedClassifier]) -> np.ndarray:
    """The noise in the coordinates where it is claimed to be spherical, shape (draws, D)."""
    eta = np.array([r.w - classifier.w for r in released])
    if eta.ndim == 3:
        eta = np.einsum("jk,nkd->njd", contrast_basis(eta.shape[1]), eta).reshape(len(eta), -1)
    return eta


@pytest.fixture(scope="module", params=["binary", "softmax", "average"])
def draws(request: pytest.FixtureRequest) -> tuple[np.ndarray, list[PerturbedClassifier]]:
    classifier: Perturbable
    if request.param == "binary":
        classifier = minimiser(np.array([1.0, -2.0, 0.5, 0.0, 3.0]))
    elif request.param == "softmax":
        w = np.arange(12.0).reshape(4, 3) / 10
        classifier = minimiser(w - w.mean(axis=0))
    else:
        w = np.arange(6.0).reshape(3, 2)
        classifier = Average(w - w.mean(axis=0), 5.0, 10)
    coins = SimulationRandomness(1, request.param)
    released = [perturb(classifier, Sensitivity(0.3), 0.7, randomness=coins) for _ in range(DRAWS)]
    return noise_of(classifier, released), released


def test_the_norm_is_gamma(draws: tuple[np.ndarray, list[PerturbedClassifier]]) -> None:
    eta, released = draws
    law = released[0].mechanism
    assert isinstance(law, SphericalLaplace)
    assert eta.shape[1] == law.dimension
    assert law.scale == pytest.approx(released[0].sensitivity.value / 0.7, rel=1e-12, abs=0)
    # The test has teeth: the law the paper's figures suggest, Gamma(1, b), and a neighbouring dimension are refused.
    for shape in (law.dimension, 1, law.dimension + 1):
        gamma = stats.gamma(shape, scale=law.scale)
        right = shape == law.dimension
        assert (stats.kstest(np.linalg.norm(eta, axis=1), gamma.cdf).pvalue > FALSE_ALARM) == right


def test_the_direction_is_uniform_on_the_sphere(draws: tuple[np.ndarray, list[PerturbedClassifier]]) -> None:
    eta, _ = draws
    dimension = eta.shape[1]
    norms = np.linalg.norm(eta, axis=1)
    directions = eta / norms[:, None]
    law = stats.beta((dimension - 1) / 2, (dimension - 1) / 2)  # of (1 + cosine)/2
    generator = np.random.default_rng(0)
    axes = [*np.eye(dimension), *generator.normal(size=(4, dimension)), np.ones(dimension)]
    for axis in axes:
        cosine = directions @ (axis / np.linalg.norm(axis))
        assert stats.kstest((1 + cosine) / 2, law.cdf).pvalue > FALSE_ALARM
        long = norms > np.median(norms)  # and independent of the norm
        assert stats.ks_2samp(cosine[long], cosine[~long]).pvalue > FALSE_ALARM


def test_the_released_vector_is_on_the_lattice() -> None:
    for seed in range(20):
        released = perturb(
            minimiser(np.array([0.1, math.pi])), Sensitivity(0.5), 1.0, randomness=SimulationRandomness(seed)
        )
        units = released.w / released.mechanism.pitch
        assert (units == np.round(units)).all()


def test_no_noise_parameter_depends_on_the_data() -> None:
    small, large = (perturb(minimiser(np.full(3, v)), Sensitivity(0.5), 1.0) for v in (0.0, 5.0))
    assert (small.mechanism, small.sensitivity) == (large.mechanism, large.sensitivity)


def test_the_factor_of_hamm_4_5_is_too_small_for_the_softmax_loss() -> None:
    """One sample, every vote for the same class, and the sample turned to its opposite: no vote even changes."""
    targets = np.eye(10)[:1]
    minimisers = [minimise([[sign]], targets, 100.0, Softmax()).w for sign in (1.0, -1.0)]
    moved = float(np.linalg.norm(minimisers[0] - minimisers[1]))
    for parties in (1, 10):
        paper = table.printed("soft", 100.0, parties=parties, classes=10).value * parties  # (N + M - 1)/N
        assert moved > 1.3 * paper
        assert moved <= row_bounds.multiclass_soft_private_auxiliary(100.0, parties, 1, 10).value


# -- what the noise must cover, to the last bits


@pytest.mark.parametrize("shape", [(3,), (2, 3), (5, 4)])
@pytest.mark.parametrize(("value", "inexactness"), [(0.5, 0.0), (1e-13, 0.0), (1e-13, 1e-13)])
def test_rounding_and_inexactness_by_hand(shape: tuple[int, ...], value: float, inexactness: float) -> None:
    """Rows longer than 1 by 2^-39, a stop short of the minimiser, the change of coordinates, and the lattice."""
    bound = Sensitivity(value, unit="x", source="y")
    mechanism, total = mechanism_for(shape, inexactness, 0.005, bound, 0.7)
    dimension = math.prod(shape) - (shape[1] if len(shape) == 2 else 0)
    assert mechanism.dimension == dimension
    rounding = 1.01 * (shape[0] + 4) * 2.0**-53 * math.sqrt(shape[0] - 1) * 0.005 if len(shape) == 2 else 0.0
    covered = value * (1 + 2.0**-38) + 2 * (inexactness + rounding)
    pitch = choose_pitch(covered, dimension)
    assert total.value == pytest.approx((covered + pitch * math.sqrt(dimension)) * (1 + 2.0**-44), rel=2e-15, abs=0)
    assert (total.unit, total.source, total.norm) == ("x", "y + inexactness + lattice", "l2")
    assert mechanism == SphericalLaplace.for_epsilon(total.value, 0.7, dimension, pitch)
    gaussian, same = mechanism_for(shape, inexactness, 0.005, bound, 0.7, noise="gaussian", delta=1e-5)
    assert same == total
    assert gaussian == RoundedGaussian.for_epsilon_delta(total.value, 0.7, 1e-5, dimension, pitch)
    usual, _ = mechanism_for(shape, inexactness, 0.005, bound, 0.7, noise="gaussian")
    assert usual == RoundedGaussian.for_epsilon_delta(total.value, 0.7, 1e-6, dimension, pitch)


def test_parameters_may_be_2_to_the_60_steps_long_and_no_longer() -> None:
    pitch = choose_pitch(1 + 2.0**-38, 3)
    mechanism_for((3,), 0.0, pitch * 2.0**60 * (1 - 2.0**-53), Sensitivity(1.0), 1.0)
    with pytest.raises(InvalidParameter, match="norm"):
        mechanism_for((3,), 0.0, pitch * 2.0**60, Sensitivity(1.0), 1.0)


@pytest.mark.parametrize("shape", [(3,), (4, 2)])
@pytest.mark.parametrize("noise", ["spherical-laplace", "gaussian"])
def test_a_release_is_the_snapped_vector_plus_its_noise(shape: tuple[int, ...], noise: Any) -> None:
    """The snapped vector, in contrasts where there are several classes, with the noise of the same coins."""
    w = np.arange(float(math.prod(shape))).reshape(shape) / 7
    classifier = Average(w - w.mean(axis=0) if len(shape) == 2 else w, 9.0, 10)
    released = perturb(
        classifier, Sensitivity(0.3), 2, noise=noise, delta=1e-4, randomness=SimulationRandomness(6, "release")
    )
    mechanism, total = mechanism_for(
        shape, classifier.inexactness, classifier.norm_limit, Sensitivity(0.3), 2, noise=noise, delta=1e-4
    )
    vector = classifier.w if len(shape) == 1 else contrast_basis(shape[0]) @ classifier.w
    expected = release(vector.ravel(), mechanism, SimulationRandomness(6, "release"))
    if len(shape) == 2:
        expected = contrast_basis(shape[0]).T @ expected.reshape(-1, shape[1])
    assert np.array_equal(released.w, expected)
    assert (released.epsilon, released.sensitivity, released.mechanism) == (2.0, total, mechanism)
    assert released.delta == (1e-4 if noise == "gaussian" else mechanism.delta(2.0))


# -- bad input


@pytest.mark.parametrize("epsilon", [0.0, -1.0, float("nan"), float("inf"), 65.0, 1e-30])
def test_an_epsilon_out_of_range_is_refused(epsilon: float) -> None:
    with pytest.raises(InvalidParameter):
        perturb(minimiser(np.zeros(2)), Sensitivity(1.0), epsilon)


def test_a_sensitivity_of_another_norm_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="L2"):
        perturb(minimiser(np.zeros(2)), Sensitivity(1.0, norm="l1"), 1.0)
    with pytest.raises(InvalidParameter, match="norm"):
        mechanism_for((3,), 0.0, 1e3, Sensitivity(1e-15), 1.0)
    with pytest.raises(InvalidParameter):
        erm_sensitivity("hard", Logistic(), 1.0, parties=1, classes=2, features=np.eye(2))  # type: ignore[arg-type]


@pytest.mark.parametrize("labels", ["majority", "soft"])
@pytest.mark.parametrize(("loss", "classes"), [(Logistic(), 2), (Huber(), 2), (Softmax(), 3)], ids=str)
def test_no_function_of_private_auxiliary_samples_sets_the_noise(labels: Any, loss: Loss, classes: int) -> None:
    """rho is one; it would make the bound of shorter rows smaller."""
    x = np.random.default_rng(0).normal(size=(50, 4)) / 10
    protected, public = (
        [
            erm_sensitivity(labels, loss, 0.1, parties=100, classes=classes, features=rows, protect_auxiliary=hidden)
            for rows in (x, x / 2)
        ]
        for hidden in (True, False)
    )
    assert protected[0] == protected[1]
    assert public[0].value > public[1].value


# -- the sensitivity the release is given, against the worst votes that can be found

KINDS: list[tuple[Loss, int]] = [(Logistic(), 2), (Huber(), 2), (Softmax(), 3)]


def distance(labels: Any, loss: Loss, lam: float, classes: int, *sides: tuple[np.ndarray, np.ndarray]) -> float:
    """The distance of the minimisers for two sides, each of rows (N, d) and votes (M, N)."""
    minimisers = []
    for rows, votes in sides:
        counts = np.stack([(votes == c).sum(axis=0) for c in range(classes)], axis=1)
        targets = alpha(counts) if labels == "soft" else one_hot(majority(counts), classes)
        minimisers.append(minimise(rows, targets, lam, loss).w)
    return float(np.linalg.norm(minimisers[0] - minimisers[1]))


@pytest.mark.parametrize("labels", ["majority", "soft"])
@pytest.mark.parametrize(("loss", "classes"), KINDS, ids=str)
@pytest.mark.parametrize("lam", [10.0, 1e-1, 1e-3])
def test_no_party_moves_the_minimiser_beyond_the_certified_sensitivity(
    labels: Any, loss: Loss, classes: int, lam: float
) -> None:
    ratios = []
    for seed in range(4):
        generator = np.random.default_rng(seed)
        x = generator.normal(size=(12, 2))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        if seed % 2:
            x = np.tile(x[:1], (12, 1))  # rho = 1: where the bounds are tight
        certified = erm_sensitivity(labels, loss, lam, parties=3, classes=classes, features=x).value
        for trial in range(12):
            votes = generator.integers(classes, size=(3, 12))
            other = votes.copy()
            if trial % 2:
                votes[1], votes[2] = 0, 1  # the others are tied, and one party decides everything
                votes[0], other[1:] = 0, votes[1:]
                other[0] = 1
            else:
                other[0] = generator.integers(classes, size=12)
            reached = distance(labels, loss, lam, classes, (x, votes), (x, other))
            assert reached <= certified + 2e-9 / lam
            ratios.append(reached / certified)
    # At large lambda the logistic and softmax bounds are nearly reached: half of them would be caught.
    if lam == 10.0 and not isinstance(loss, Huber):
        assert max(ratios) > 0.9


@pytest.mark.parametrize("labels", ["majority", "soft"])
@pytest.mark.parametrize(("loss", "classes"), KINDS, ids=str)
@pytest.mark.parametrize("samples", [1, 4])
def test_party_and_sample_changes_stay_within_the_sensitivity(
    labels: Any, loss: Loss, classes: int, samples: int
) -> None:
    generator, ratios = np.random.default_rng(samples), []
    for trial in range(60):
        lam = [10.0, 0.1][trial % 2]
        x = np.tile(generator.normal(size=(1, 2)), (samples, 1))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        moved = x.copy()
        moved[0] = -x[0] if trial % 3 else generator.normal(size=2) / 10
        votes = generator.integers(classes, size=(3, samples))
        if trial % 5 == 0:
            votes[:] = 0
        other = votes.copy()
        other[0] = generator.integers(classes, size=samples)
        agreed: dict[str, Any] = {"parties": 3, "classes": classes, "features": x, "protect_auxiliary": True}
        certified = erm_sensitivity(labels, loss, lam, **agreed).value
        reached = distance(labels, loss, lam, classes, (x, votes), (moved, other))
        assert reached <= certified + 2e-9 / lam
        ratios.append(reached / certified)
    assert max(ratios) > 0.4
